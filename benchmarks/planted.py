"""How many planted variants the defaults find among 50, by size of the data.

    python benchmarks/planted.py [--seeds 10] [--trait quantitative] [--sizes 500x20000]
        [--methods default "F test"]

Genotypes, linkage, populations and trait are those of ``dhsic simulate`` with its defaults:
ten additive variants and two pairs that act only together, heritability 0.8. A variant counts as
found when it, or one within 20 kb of it, is selected. Beside the default stand the same run with
every feature scaled to unit deviation, and what judges each variant alone: the F test, whose order
of classes and of real values is that of the correlation, and the linear kernel.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from measuring import say
from tables import table

import dhsic
from dhsic.cli.report import compare
from dhsic.simulation import simulate_genotypes
from dhsic.simulation.truth import read_truth, truth_path

N_SELECTED = 50
METHODS = {
    "default": {},
    "standardize=True": {"standardize": True},
    "F test": {"method": "pearson"},
    "linear": {"method": "linear"},
}


def found(path, truth, options):
    """Planted variants of each kind that a selection finds, and how many there are."""
    options = {"n_features_to_select": N_SELECTED, "progress": False, **options}
    by = compare(dhsic.select(path, "sample_trait", **options), truth)
    return {kind: by.exact[by.kinds == kind] | by.near[by.kinds == kind] for kind in set(by.kinds)}


def of_size(n_samples, n_variants, given):
    """Parts of the additive variants, and of those in pairs, that each method finds."""
    hits = {name: {"additive": [], "pair": []} for name in given.methods}
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "genotypes.vcz")
            sizes = {"n_samples": n_samples, "n_variants": n_variants}
            simulate_genotypes(path, **sizes, trait=given.trait, seed=seed)
            truth = read_truth(str(truth_path(path)))
            for name in given.methods:
                for kind, mask in found(path, truth, METHODS[name]).items():
                    hits[name][kind].append(mask)
        last = ", ".join(f"{name} {by['additive'][-1].sum()}" for name, by in hits.items())
        say(f"{n_samples} x {n_variants}, draw {seed}: {last}")
    size = f"{n_samples:,} x {n_variants:,}"
    for name, by_kind in hits.items():
        shown = {kind: np.concatenate(masks) for kind, masks in by_kind.items()}
        yield size, name, *(f"{m.sum()} of {m.size} ({m.mean():.0%})" for m in shown.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trait", choices=["binary", "quantitative"], default="binary")
    parser.add_argument("--sizes", nargs="+", default=["500x5000", "1000x5000", "1000x20000"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args()
    rows = []
    for size in given.sizes:
        n_samples, n_variants = map(int, size.split("x"))
        rows += of_size(n_samples, n_variants, given)
    print(table(("samples x variants", "method", "additive", "in pairs"), rows))


if __name__ == "__main__":
    main()
