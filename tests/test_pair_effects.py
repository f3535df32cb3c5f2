"""Coefficients of pairs: those of a regression that is written out, one pair after the other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from commands import run
from numpy.testing import assert_allclose

import dhsic
from dhsic.interactions import find_pairs

M, D = 150, 8
QUICK = {"n_pairs": 28, "n_permutations": 0}


def design_of(x, w, C):
    """Columns of the regression: 1, covariates, both features, their product."""
    return np.column_stack([np.ones(len(x)), *C.T, x, w, x * w])


def least_squares(A, y):
    """Coefficient and standard error of the last column."""
    coefficients, *_ = np.linalg.lstsq(A, y, rcond=None)
    rest = y - A @ coefficients
    variance = (rest @ rest) / (len(y) - A.shape[1]) * np.linalg.inv(A.T @ A)
    return coefficients[-1], variance[-1, -1] ** 0.5


def logistic(A, y):
    """The same of a logistic regression, by Newton's method."""
    coefficients = np.zeros(A.shape[1])
    for _ in range(50):
        mu = 1 / (1 + np.exp(-A @ coefficients))
        H = A.T @ (A * (mu * (1 - mu))[:, None])
        coefficients += np.linalg.solve(H, A.T @ (y - mu))
    return coefficients[-1], np.linalg.inv(H)[-1, -1] ** 0.5


def genotypes(rng, *, n_missing=0):
    X = rng.binomial(2, rng.uniform(0.2, 0.5, D), (M, D)).astype(np.int8)
    X.flat[rng.choice(M * D, n_missing, replace=False)] = -1
    return X


@pytest.mark.filterwarnings("ignore:Missing values depend")
@pytest.mark.parametrize("kind", ["real", "classes", "whole numbers"])
@pytest.mark.parametrize("n_missing", [0, 40])
@pytest.mark.parametrize("q", [0, 2])
def test_coefficients_are_those_of_a_regression(kind, n_missing, q, rng):
    X, C = genotypes(rng, n_missing=n_missing), rng.standard_normal((M, q))
    signal = 0.4 * X[:, 0] - 0.8 * X[:, 2] * X[:, 5] + C.sum(axis=1)
    y = signal + rng.standard_normal(M)
    target = {
        "real": y,
        "classes": np.where(y > np.median(y), "case", "control"),
        "whole numbers": np.round(10 * y).astype(int),
    }[kind]

    found = find_pairs(X, target, covariates=C if q else None, missing_code=-1, **QUICK)

    fit = logistic if kind == "classes" else least_squares
    response = (target == "case").astype(float) if kind == "classes" else target.astype(float)
    assert found.sizes["pairs"] > 20
    for row in found.to_dataframe().itertuples():
        x, w = X[:, row.first].astype(float), X[:, row.second].astype(float)
        here = (x >= 0) & (w >= 0)
        expected = fit(design_of(x[here], w[here], C[here]), response[here])
        assert_allclose((row.beta, row.se), expected, rtol=1e-6)
    planted = found.isel(pairs=0)
    assert (planted["first"], planted["second"]) == (2, 5)
    assert planted["beta"] < 0
    said = found["beta"].attrs["description"]
    assert ("odds ratio of case" if kind == "classes" else "change in the label") in said


def test_coefficients_of_numbers_are_in_their_units(rng):
    X = 50 + 7 * rng.standard_normal((M, 5))
    y = X[:, 1] * X[:, 3] / 40 + rng.standard_normal(M)
    found = find_pairs(X, y, n_pairs=1, n_permutations=0)
    assert_allclose(found["beta"], 1 / 40, rtol=0.1)
    without_squares = found["beta"].item() / found["se"].item()
    n = M - 4
    assert_allclose(found["share_before"], without_squares**2 / (without_squares**2 + n))


def test_a_label_kernel_says_whether_numbers_are_classes(rng):
    X = genotypes(rng)
    y = rng.integers(0, 2, M)
    by_default = find_pairs(X, y, **QUICK)
    as_numbers = find_pairs(X, y, label_kernel="linear", **QUICK)
    assert "odds ratio of 1" in by_default["beta"].attrs["description"]
    assert "change in the label" in as_numbers["beta"].attrs["description"]
    assert abs(as_numbers["beta"]).max() < abs(by_default["beta"]).max()


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (lambda rng: rng.choice(["a", "b", "c"], M), {}),
        (lambda rng: rng.standard_normal((M, 2)), {}),
        (lambda rng: rng.standard_normal(M), {"functions": 2}),
    ],
    ids=["three classes", "two targets", "several functions"],
)
def test_other_labels_and_other_products_have_no_coefficient(target, options, rng):
    found = find_pairs(genotypes(rng), target(rng), **QUICK, **options)
    assert not {"beta", "se"} & {*found}


def test_a_pair_that_separates_the_classes_has_none(tmp_path, rng):
    X = rng.permuted(np.resize([0, 1, 2], (M, 4)), axis=0)
    y = (X[:, 0] * X[:, 1] > 1).astype(int)
    pd.DataFrame(X, columns=list("abcd")).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame({"y": y}).to_csv(tmp_path / "y.csv", index=False)
    where = ("--labels", tmp_path / "y.csv", "--target", "y", "--by-position")
    done = run(
        "pairs", tmp_path / "x.csv", *where, "--permutations", "0", "--out", tmp_path / "p.tsv"
    )
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t").set_index(["first_name", "second_name"])
    assert np.isnan(table.loc[("a", "b"), "beta"])
    assert table.drop(("a", "b"))["beta"].notna().all()
    said = " ".join(done.stderr.split())
    assert "beta is the log odds ratio of 1" in said
    assert "The regression for 1 pair has no solution" in said


def test_the_report_has_them(tmp_path, rng):
    X, y = genotypes(rng), rng.standard_normal(M)
    chosen = dhsic.select(X, y, n_features_to_select=2, progress=False)
    dhsic.report(chosen, tmp_path / "r.html", pairs=find_pairs(X, y, **QUICK))
    page = (tmp_path / "r.html").read_text()
    assert ">beta<" in page
