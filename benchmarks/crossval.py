"""Processor time of cross-validation with workers, over that without.

    python benchmarks/crossval.py                                # 500 x 5,000, two workers

`cross_val_score` and `GridSearchCV` of a pipeline with `BAHSIC`, and `BAHSICCV`, each with
``n_jobs=1`` and with ``n_jobs=2`` in a process of its own, by turns. Where workers took threads of
their own each, the processor time would grow. What is counted is the work: workers are started, and
have imported dhsic, before. All must score the same to the last bit.
"""

import argparse
import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from measuring import measure, say
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from tables import size

import dhsic

WORKS = ("cross_val_score", "GridSearchCV", "BAHSICCV")
FOLDS = 4


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--samples", type=int, default=500)
    add("--features", type=int, default=5000)
    add(
        "--step",
        type=float,
        default=0.1,
        help="of BAHSIC; GridSearchCV has half as much again besides",
    )
    add("--workers", type=int, default=2)
    add("--turns", type=int, default=3, help="measurements of each, of which the median counts")
    add("--only", nargs="*", default=WORKS, choices=WORKS)
    add("--json", type=Path, metavar="FILE", help="write the results here too")
    return parser.parse_args()


def started(_):
    """A worker that has imported what the work takes, and done a little of it."""
    X = np.random.default_rng(0).standard_normal((20, 5))
    return dhsic.BAHSIC(1, progress=False).fit(X, X[:, 0]).n_features_


@contextmanager
def job(m, d, step, work, n_jobs):
    """The work, with workers that are up."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(m) > 0
    selector = dhsic.BAHSIC(20, step=step, progress=False)
    pipe = make_pipeline(selector, LogisticRegression())
    Parallel(n_jobs=n_jobs)(delayed(started)(i) for i in range(2 * n_jobs))

    def done():
        if work == "cross_val_score":
            return cross_val_score(pipe, X, y, cv=FOLDS, n_jobs=n_jobs)
        if work == "GridSearchCV":
            search = GridSearchCV(
                pipe, {"bahsic__step": [step, 1.5 * step]}, cv=FOLDS, n_jobs=n_jobs
            )
            return search.fit(X, y).cv_results_["mean_test_score"]
        return (
            dhsic.BAHSICCV(selector=selector, cv=FOLDS, n_jobs=n_jobs)
            .fit(X, y)
            .cv_results_["mean_test_score"]
        )

    yield lambda: {"scores": [float(score).hex() for score in done()]}


def main():
    options = arguments()
    rows = {}
    for _ in range(options.turns):
        for work in options.only:
            for n_jobs in (1, options.workers):
                say(f"{work}, n_jobs={n_jobs}")
                asked = {
                    "m": options.samples,
                    "d": options.features,
                    "step": options.step,
                    "work": work,
                }
                found = measure("crossval:job", asked | {"n_jobs": n_jobs}).facts()
                rows.setdefault(f"{work} {n_jobs}", []).append(found)
    print(f"\n{size(options.samples, options.features)}, {FOLDS} folds")
    print(f"{'':20s}{'n_jobs':>8s}{'processor s':>14s}{'over 1':>9s}{'wall s':>9s}{'over 1':>9s}")
    for work in options.only:
        one = rows[f"{work} 1"]
        for n_jobs in (1, options.workers):
            some, told = rows[f"{work} {n_jobs}"], ""
            for name in ("median_cpu_s", "median_s"):
                took, alone = (np.median([row[name] for row in each]) for each in (some, one))
                told += f"{took:{14 if not told else 9}.1f}{took / alone:9.2f}"
            same = all(row["answer"] == one[0]["answer"] for row in some)
            print(f"{work:20s}{n_jobs:8d}{told}{'' if same else '  OTHER SCORES'}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
