"""How near fast runs come to the exact one, beside what leaving one sample out changes.

    python benchmarks/agreement.py --data FOLDER --cache FOLDER [--only golub mouse_hs1940]
        [--draws 5] [--solver lowrank auto] [--ask 100 1000] [--json FILE]

The exact run (`solver="exact"`) of every draw of labels is what others are compared
with: by the part of its last 10, 100 and 1,000 features that they share, the median over draws and
(the least). Beside it stands what exact runs without one of the samples share with it: an
approximation that shares as much, median by median, is as near to the exact run as leaving one
sample out comes. `low rank to` is how many features were left in the last round in low rank;
`covered` counts runs that lost no more of the features asked for than they themselves said they
might have (`most_lost`, nine times of ten).

Draw 0 is what the data come with: classes, a trait. The others are simulated from the data's own
features, so that classes, populations and linkage stay what they are: a handful of features that
vary and are not rare have normal effects on their standardised values, and normal noise makes up
the rest of the variance. Every second draw of genotypes is the liability itself, a real trait with
heritability 0.5; all others are two classes, as large as those that the data come with, or halves.

Exact runs are dear and stay as they are: their rankings are kept in the cache, so that a table of
the code as it is now takes its approximate runs alone. DEFINITION changes with the definition or
with the draws.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import zarr
from data import genotypes, matrix_of
from measuring import say
from tables import markdown

import dhsic

DEFINITION = 1
LAST = (10, 100, 1000)
ALL = "all"
HEADS = ("data", "run", "last 10", "last 100", "last 1,000", "low rank to", "as near", "covered")
#: Features behind a simulated label, and the part of its variance that they explain.
N_CAUSAL, HERITABILITY = 5, 0.5
#: Least frequency of an allele behind it.
LEAST_FREQUENCY = 0.05


@dataclass(frozen=True)
class Data:
    """A data set: the file it is in, or the number of variants that are simulated.

    `n_left_out` is how many runs without one sample a draw is worth.
    """

    name: str
    n_left_out: int
    file: str = ""
    n_simulated: int = 0
    n_samples: int = 2000

    def load(self, folder, scratch):
        """X (m, d), features contiguous, and y (m,), samples without label left out."""
        if self.n_simulated:
            path = genotypes(scratch, self.n_samples, self.n_simulated)
            group = zarr.open_group(path, mode="r")
            return group[matrix_of(path)][:].T, group["sample_trait"][:]
        with np.load(next(Path(folder).rglob(self.file)), allow_pickle=False) as stored:
            X, y = stored["X"], stored["y"]
        labelled = np.isfinite(y.astype(np.float64))
        return np.asfortranarray(X[labelled]), y[labelled]


DATA = (
    Data("golub", 5, "leukaemia_golub.npz"),
    Data("ALLAML", 5, "ALLAML.npz"),
    Data("mouse_hs1940", 2, "mouse_hs1940.npz"),
    Data("arabidopsis_ft16", 3, "arabidopsis_ft16.npz"),
    Data("simulated 20,000", 1, n_simulated=20_000),
    Data("simulated 50,000", 1, n_simulated=50_000),
)


def labels(X, y, draw):
    """Labels (m,) of a draw, from 0; what is missing in X is -1, and has the mean of the rest."""
    if draw == 0:
        return y
    m, are_genotypes = len(X), X.dtype.itemsize == 1
    rng = np.random.default_rng([draw, *X.shape])
    liability = np.zeros(m)
    for effect in rng.standard_normal(N_CAUSAL):
        x = np.zeros(m)
        while x.std() == 0:
            x = X[:, rng.integers(X.shape[1])].astype(np.float64)
            if are_genotypes:
                x[x < 0] = x[x >= 0].mean()
                x *= min(x.mean(), x.max() - x.mean()) >= LEAST_FREQUENCY * x.max()
        liability += effect * (x - x.mean()) / x.std()
    liability *= np.sqrt(HERITABILITY) / liability.std()
    liability += np.sqrt(1 - HERITABILITY) * rng.standard_normal(m)
    if are_genotypes and draw % 2:
        return liability
    classes, counts = np.unique(y, return_counts=True)
    part = counts[0] / m if len(classes) == 2 else 0.5
    return (liability > np.quantile(liability, part)).astype(int)


def left_out(m, draw, n):
    """Samples that are left out of a draw, one at a time."""
    return np.random.default_rng([draw, m, 1]).choice(m, size=n, replace=False).tolist()


def run(X, y, solver, n=LAST[1]):
    """Result of a run, defaults but for what is compared; -1 is missing where data are codes."""
    code = -1 if X.dtype.itemsize == 1 else None
    how = {"n_features_to_select": n, "solver": solver, "missing_code": code}
    return dhsic.select(X, y, rerank=False, progress=False, **how)


def exact_ranks(cache, data, X, y, draw, without=None):
    """Ranks (d,) of the exact run of a draw, without a sample, from the cache or for it."""
    left = "" if without is None else f"-without{without}"
    path = cache / f"{data.name.replace(' ', '-')}-draw{draw}{left}-definition{DEFINITION}.npy"
    if not path.exists():
        began, kept = time.monotonic(), np.arange(len(X)) != (-1 if without is None else without)
        result = run(X[kept] if left else X, y[kept], "exact")
        aside = path.with_suffix(".partial.npy")
        np.save(aside, result["rank"].to_numpy().astype(np.int32))
        aside.replace(path)
        say(f"    {path.name}: {time.monotonic() - began:.0f} s")
    return np.load(path)


def shared(ranks, others, n):
    """Part of the last n features that two rankings share."""
    return float(((ranks <= n) & (others <= n)).sum() / n)


def fast(X, y, solver, asked, exact):
    """What runs that are asked for these numbers of features share with the exact one.

    The last n are those of the run that is asked for n, or for the next larger number.
    """
    began = time.process_time()
    results = {n: run(X, y, solver, n) for n in asked}
    seconds = time.process_time() - began
    ranks = {n: result["rank"].to_numpy() for n, result in results.items()}
    by = {n: min((a for a in asked if a >= n), default=max(asked)) for n in LAST}
    last = next(iter(results.values()))
    in_low_rank = last["round_engine"].str.startswith("low rank").to_numpy()
    return {
        "shared": {n: shared(exact, ranks[a], n) for n, a in by.items()},
        "lost": {n: round(n * (1 - shared(exact, ranks[n], n))) for n in asked},
        "expected_lost": {n: result.attrs["expected_lost"] for n, result in results.items()},
        "most_lost": {n: result.attrs["most_lost"] for n, result in results.items()},
        "low_rank_to": int(min(last["round_n_features"].to_numpy()[in_low_rank], default=0)),
        "seconds": seconds,
    }


def compare(data, options):
    """Every draw: what each approximation, and each run without a sample, shares with the exact."""
    X, y = data.load(options.data, options.cache)
    for draw in options.draws:
        of_draw = labels(X, y, draw)
        say(f"{data.name}, draw {draw}")
        exact = exact_ranks(options.cache, data, X, of_draw, draw)
        one_out = []
        for sample in left_out(len(X), draw, data.n_left_out):
            without = exact_ranks(options.cache, data, X, of_draw, draw, sample)
            one_out.append({n: shared(exact, without, n) for n in LAST})
        runs = {how: fast(X, of_draw, how, options.ask, exact) for how in options.solver}
        yield {"data": data.name, "draw": draw, "one sample out": one_out, "runs": runs}


def medians(shares):
    """Of the parts shared: the median, and the least, for every n."""
    by = {n: [share[n] for share in shares] for n in LAST}
    return [f"{median(parts):.3f} ({min(parts):.2f})" for parts in by.values()]


def rows(draws, name):
    """Rows of the table for some draws."""
    one_out = [share for draw in draws for share in draw["one sample out"]]
    yield (name, "exact, one sample out", *medians(one_out), "", "", "")
    for how in draws[0]["runs"]:
        runs = [draw["runs"][how] for draw in draws]
        shares = [run["shared"] for run in runs]
        near = [median(s[n] for s in shares) >= median(o[n] for o in one_out) for n in LAST]
        covered = [run["lost"][n] <= most for run in runs for n, most in run["most_lost"].items()]
        yield (
            name,
            how,
            *medians(shares),
            "" if name == ALL else f"{median(run['low_rank_to'] for run in runs):,.0f}",
            ", ".join("yes" if yes else "no" for yes in near),
            f"{sum(covered)} of {len(covered)}",
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the .npz files")
    parser.add_argument("--cache", type=Path, required=True, help="folder of exact rankings")
    parser.add_argument("--only", nargs="+", choices=[data.name for data in DATA])
    parser.add_argument("--draws", nargs="+", type=int, default=range(5), help="which, from 0")
    parser.add_argument("--solver", nargs="*", default=["lowrank", "auto"])
    parser.add_argument("--ask", nargs="+", type=int, default=[100], metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    results = []
    for data in DATA:
        if options.only and data.name not in options.only:
            continue
        for result in compare(data, options):
            results.append(result)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    names = dict.fromkeys(result["data"] for result in results)
    table = [row for n in names for row in rows([r for r in results if r["data"] == n], n)]
    print(markdown(HEADS, [*table, *rows(results, ALL)]))


if __name__ == "__main__":
    main()
