"""Which features are real: p-values of noise, and false discoveries of stability, by simulation.

    python benchmarks/real.py noise --features 1000000      # QQ of p-values of genotypes
    python benchmarks/real.py shadow --runs 200
    python benchmarks/real.py stability --runs 200

`noise`: genotypes that have nothing to do with the labels, half of them rare, 0.5% of calls
missing: the part of p-values at or below a level over the level, and its standard error.
`shadow`: the part of features discovered that are independent of the labels, on average over runs.
`stability`: stable features that are, on average, beside the bounds of the result.
"""

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from tables import table

import dhsic
from dhsic.criteria.independence import Independence
from dhsic.passes import Tile
from dhsic.passes.single_pass import Judge
from dhsic.selection.stability import expected_false, expected_false_concave

LEVELS = (0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001)
SIZES = (100, 500, 2000)
AT_ONCE = 5000
CARRIERS = ((2, 17), (17, None))


def noise(n_features, m, kind, n_covariates, seed=1):
    """p-values of noise, and how many samples carry each variant."""
    rng = np.random.default_rng(seed)
    y, C = rng.standard_normal(m), None
    if n_covariates:
        C = rng.standard_normal((m, n_covariates))
    criterion = Independence(bandwidth="median")
    labels = criterion.read((y > 0.3).astype(int) if kind == "two classes" else y, C)
    judge = Judge(standardize=True, criterion=criterion, prepared=criterion.prepare(labels, C))
    p, carriers = [], []
    for start in range(0, n_features, AT_ONCE):
        rare = start // AT_ONCE % 2
        part = rng.uniform(1 / m, 20 / m, AT_ONCE) if rare else rng.uniform(0.01, 0.5, AT_ONCE)
        raw = rng.binomial(2, part[:, None], (AT_ONCE, m)).astype(np.int8)
        raw[rng.random(raw.shape) < 0.005] = -1
        p.append(10.0 ** -judge.over(iter([Tile(raw, -1)]), m)[1][0])
        counts = np.stack([(raw == code).sum(axis=1) for code in range(3)])
        carriers.append(counts.sum(axis=0) - counts.max(axis=0))
    return np.concatenate(p), np.concatenate(carriers)


def show_noise(options):
    rows = []
    for m in options.samples:
        for kind, q in (("real", 0), ("two classes", 0), ("real", 5)):
            p, carriers = noise(options.features, m, kind, q, options.seed)
            for least, most in CARRIERS:
                some = p[(carriers >= least) & (carriers < (most or m)) & np.isfinite(p)]
                cells = [
                    f"{(some <= a).mean() / a:.3f} ± {(1 / a / some.size) ** 0.5:.3f}"
                    for a in LEVELS
                ]
                of = f"{least} to {most - 1}" if most else f"{least} and more"
                rows.append((f"{m:,}", kind, str(q), of, f"{some.size:,}", *cells))
                print(rows[-1], flush=True)
    head = ("samples", "labels", "covariates", "carriers", "variants", *(f"{a:g}" for a in LEVELS))
    print(table(head, rows))


@dataclass(frozen=True)
class Design:
    """Normal features in blocks that are linked, and labels that a feature of some blocks makes."""

    m: int
    d: int
    n_real: int  # blocks that labels depend on, each by one feature
    h2: float  # part of the labels that these explain
    block: int = 1
    rho: float = 0.0  # correlation within a block
    n_populations: int = 1  # that differ in features and in labels, and are covariates

    def draw(self, rng):
        """X, y, covariates, and which features are real: those of the blocks."""
        factor = rng.standard_normal((self.m, self.d // self.block)).repeat(self.block, axis=1)
        own = rng.standard_normal((self.m, self.d))
        X = np.sqrt(self.rho) * factor + np.sqrt(1 - self.rho) * own
        at = rng.choice(self.d // self.block, self.n_real, replace=False)
        y = np.sqrt(1 - self.h2) * rng.standard_normal(self.m)
        y += X[:, at * self.block].sum(axis=1) * np.sqrt(self.h2 / max(1, self.n_real))
        C = None
        if self.n_populations > 1:
            C = np.eye(self.n_populations)[np.arange(self.m) % self.n_populations][:, 1:]
            X += C @ rng.standard_normal((C.shape[1], self.d))
            y += C @ np.arange(1.0, self.n_populations)
        return X, y, C, np.isin(np.arange(self.d) // self.block, at)

    @property
    def cells(self):
        linked = f"{self.block} of r {self.rho:g}" if self.block > 1 else "none"
        linked += f"; {self.n_populations} populations" if self.n_populations > 1 else ""
        effect = f"{self.n_real} of {self.h2:g}" if self.n_real else "nothing"
        return f"{self.m} x {self.d:,}", effect, linked


N_HALVES = 50
SHADOWED = {
    "pearson": (
        Design(200, 1000, 0, 0.0),
        Design(200, 1000, 0, 0.0, 50, 0.95),
        Design(200, 1000, 5, 0.5),
        Design(200, 1000, 20, 0.8),
        Design(200, 1000, 5, 0.5, 10, 0.9),
        Design(200, 1000, 20, 0.8, 10, 0.5),
        Design(500, 1000, 10, 0.3, 50, 0.95),
        Design(100, 5000, 10, 0.8),
    ),
    "linear": (Design(300, 1000, 5, 0.5, n_populations=3), Design(300, 1000, 0, 0, 10, 0.9, 3)),
    "bahsic": (
        Design(100, 200, 0, 0.0, 20, 0.95),
        Design(100, 200, 5, 0.8),
        Design(100, 200, 5, 0.8, 10, 0.9),
    ),
}
STABLE = (
    (Design(200, 100, 5, 0.55), (5, 10), (0.9, 0.75, 0.6)),
    (Design(200, 500, 5, 0.55, 10, 0.9), (20,), (0.9, 0.6)),
    (Design(200, 500, 0, 0.0, 50, 0.95), (20,), (0.9, 0.6)),
    (Design(100, 1000, 10, 0.8), (30,), (0.9, 0.6)),
)


def simulated(design, options, method, **asked):
    """Results of so many runs, and which features are real in each."""
    for run in range(options.runs):
        X, y, C, real = design.draw(np.random.default_rng([options.seed, run]))
        own = {} if C is None else {"covariates": C}
        yield (
            dhsic.select(X, y, method=method, random_state=run, progress=False, **own, **asked),
            real,
        )


def show_shadow(options):
    rows = []
    for method, designs in SHADOWED.items():
        for design in designs:
            asked = {"step": 0.5} if method == "bahsic" else {}
            false, found = [], []
            for result, real in simulated(
                design,
                options,
                method,
                control="shadow",
                fdr=options.fdr,
                n_features_to_select=None,
                **asked,
            ):
                chosen = result["selected"].to_numpy()
                false.append((chosen & ~real).sum() / max(1, chosen.sum()))
                found.append((chosen & real).sum() / max(1, real.sum()))
            error = np.std(false) / np.sqrt(len(false))
            rate, power = f"{np.mean(false):.3f} ± {error:.3f}", f"{np.mean(found):.2f}"
            rows.append((method, *design.cells, rate, power if design.n_real else "-"))
            print(rows[-1], flush=True)
    print(table(("method", "data", "real", "linked", "false discovery rate", "found"), rows))


def show_stability(options):
    rows = []
    for design, sizes, thresholds in STABLE:
        for q in sizes:
            part, bounds = [], []
            for result, real in simulated(
                design,
                options,
                "pearson",
                n_features_to_select=q,
                stability=N_HALVES,
                stability_threshold=0.9,
            ):
                part.append((result["stability"].to_numpy(), real))
            p = design.d
            for threshold in thresholds:
                stable = [(of >= threshold - 1e-9, real) for of, real in part]
                wrong = [(some & ~real).sum() for some, real in stable]
                error = np.std(wrong) / np.sqrt(len(wrong))
                bounds = (
                    expected_false_concave(q, p, threshold, N_HALVES // 2),
                    expected_false(q, p, threshold),
                )
                rows.append(
                    (
                        *design.cells,
                        str(q),
                        f"{threshold:g}",
                        f"{np.mean([(some & real).sum() for some, real in stable]):.1f}",
                        f"{np.mean(wrong):.3f} ± {error:.3f}",
                        *(f"{bound:.3f}" for bound in bounds),
                    )
                )
                print(rows[-1], flush=True)
    head = ("data", "real", "linked", "selected", "threshold", "real ones", "false ones")
    print(table((*head, "bound, r-concave", "bound, any"), rows))


WHAT = {"noise": show_noise, "shadow": show_shadow, "stability": show_stability}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, nargs="+", default=SIZES)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--fdr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    WHAT[options.what](options)


if __name__ == "__main__":
    main()
