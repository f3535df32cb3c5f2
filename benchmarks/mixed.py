"""Accuracy of selections from tables with categories: as they are, as dummies, and as numbers.

Each data set is cross-validated. On the training samples the columns are ranked in three ways: a
table with categories (one feature per column), dummies of the categories (`pandas.get_dummies`; a
column has the rank of its best dummy), and codes of the categories as numbers. The score is the
accuracy on the held-out samples of a classifier that is fitted to the first columns, whose
categories are one-hot encoded in all three cases.

    python benchmarks/mixed.py FOLDER [--folds 5] [--repeats 4]

FOLDER contains the data sets as ``NAME.npz`` with arrays ``X``, ``y`` and, if columns have names,
``feature_names``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import dhsic

#: Categorical columns of each data set, by position.
CATEGORIES = {
    "heart": [1, 2, 5, 6, 8, 10, 12],
    "cleveland": [1, 2, 5, 6, 8, 10, 12],
    "dermatology": list(range(33)),
    "adult": [1, 3, 5, 6, 7, 8, 9, 13],
}
#: Numbers of first columns for which a classifier is fitted.
SIZES = (1, 2, 3, 5, 8)
SEPARATOR = "__"


def table_of(path: Path, categories: list[int]) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Read a data set: the table with categories, the codes as numbers, and the labels."""
    with np.load(path, allow_pickle=False) as stored:
        X, y = stored["X"].astype(float), stored["y"]
    numbers = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table = numbers.copy()
    for j in categories:
        name = f"x{j}"
        levels = numbers[name].map(lambda v: None if np.isnan(v) else f"level {v:g}")
        table[name] = levels.astype("category")
    return table, numbers, y


def best_first(X: pd.DataFrame, y: np.ndarray) -> list[str]:
    """Names of the features of the default selection, best first."""
    labels, options = y.astype(str), {"missing_code": None, "progress": False}
    result = dhsic.select(X, labels, n_features_to_select=1, **options)
    order = np.argsort(result["rank"].to_numpy())
    return [str(name) for name in result["feature"].to_numpy()[order]]


def by_dummies(table: pd.DataFrame, y: np.ndarray) -> list[str]:
    """Columns in the order of their best dummies."""
    dummies = pd.get_dummies(table, prefix_sep=SEPARATOR, dtype=float)
    return list(dict.fromkeys(name.split(SEPARATOR)[0] for name in best_first(dummies, y)))


#: Ways to rank the columns, and the table that each of them reads: with categories, or with codes.
WAYS = {"table": (best_first, 0), "dummies": (by_dummies, 0), "numbers": (best_first, 1)}


def accuracies(table: pd.DataFrame, y: np.ndarray, train: np.ndarray, test: np.ndarray,
               order: list[str]) -> list[float]:  # fmt: skip
    """Mean accuracy of two classifiers on the held-out samples, for each number of columns."""
    out = []
    for n in (n for n in SIZES if n <= table.shape[1]):
        X = table[order[:n]]
        is_category = X.dtypes == "category"
        encoder = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), X.columns[is_category]),
            (make_pipeline(SimpleImputer(), StandardScaler()), X.columns[~is_category]),
            sparse_threshold=0,
        )
        models = LogisticRegression(max_iter=1000), SVC()
        each = [make_pipeline(encoder, model).fit(X.iloc[train], y[train]) for model in models]
        out.append(float(np.mean([model.score(X.iloc[test], y[test]) for model in each])))
    return out


def main() -> None:
    """Print the table of accuracies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=4, help="of all folds")
    parser.add_argument("--data", nargs="*", default=list(CATEGORIES))
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    sizes = "".join(f"{f'{n} col.':>9}" for n in SIZES)
    print(f"{'data':<12} {'ranked as':<9}{sizes}{'mean':>9}{'seconds':>9}", flush=True)
    for name in options.data:
        table, numbers, y = table_of(options.folder / f"{name}.npz", CATEGORIES[name])
        n = {"n_splits": options.folds, "n_repeats": options.repeats}
        splits = list(RepeatedStratifiedKFold(**n, random_state=0).split(table, y))
        for way in options.ways:
            started, scores = time.perf_counter(), []
            for train, test in splits:
                rank, which = WAYS[way]
                order = rank((table, numbers)[which].iloc[train], y[train])
                scores.append(accuracies(table, y, train, test, order))
            seconds = (time.perf_counter() - started) / len(splits)
            mean = 100 * np.mean(scores, axis=0)
            each = "".join(f"{value:9.2f}" for value in mean)
            print(f"{name:<12} {way:<9}{each}{mean.mean():9.2f}{seconds:9.2f}", flush=True)


if __name__ == "__main__":
    main()
