"""Codes for missing values above short scales that many features share: 7 beside answers 1 to 5."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run

import dhsic
from dhsic.sources.opening import open_source
from dhsic.sources.scaling import Scaling, measure

M, D, CODED = 240, 30, slice(10, 15)


def answers(rng, first, last, step=1.0):
    """Answers on a scale; labels depend on the first three features."""
    latent = rng.normal(size=(M, D))
    y = latent[:, :3].sum(axis=1) + 0.5 * rng.normal(size=M) > 0
    n = (last - first) / step
    return first + step * np.clip(np.round((latent + 2.5) / 5 * n), 0, n), y.astype(int)


def coded(values, code, y, rng):
    """Values and their mask of missing values, more frequent in cases in five features."""
    is_missing = rng.random(values.shape) < 0.05
    is_missing[:, CODED] |= (rng.random((M, 5)) < 0.35) & (y == 1)[:, None]
    return np.where(is_missing, code, values), is_missing


def dosages(rng, scale):
    calls = rng.binomial(2, 0.4, (M, D))
    y = calls[:, :3].sum(axis=1) + rng.normal(0, 0.7, M) > 2.4
    return scale * np.clip(calls + rng.normal(0, 0.05, (M, D)), 0, 2).round(3), y.astype(int)


SCALES = {
    "1 to 5, 7": (lambda rng: answers(rng, 1, 5), 7),
    "0 to 7, 12": (lambda rng: answers(rng, 0, 7), 12),
    "1 to 4, 6": (lambda rng: answers(rng, 1, 4), 6),
    "1 to 3, 5": (lambda rng: answers(rng, 1, 3), 5),
    "1 to 10, 12": (lambda rng: answers(rng, 1, 10), 12),
    "0 to 6, 10": (lambda rng: answers(rng, 0, 6), 10),
    "-1 to 1, 5": (lambda rng: answers(rng, -1, 1), 5),
    "0, 0.5, 1, 2": (lambda rng: answers(rng, 0, 1, 0.5), 2),
    "1 to 5 in halves, 7": (lambda rng: answers(rng, 1, 5, 0.5), 7),
    "dosages, 3": (lambda rng: dosages(rng, 1.0), 3),
    "dosages from 0 to 1, 2": (lambda rng: dosages(rng, 0.5), 2),
}


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", SCALES)
def test_a_code_above_shared_scales_is_refused_and_declared(name, dtype, rng):
    make, code = SCALES[name]
    values, y = make(rng)
    X, is_missing = coded(values, code, y, rng)
    with pytest.raises(dhsic.DataError, match=f" of {D} features are {code} ") as told:
        dhsic.test_features(X.astype(dtype), y)
    option = float(re.search(r"pass missing_code=(\S+?)\. ", str(told.value))[1])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Missing values depend on the labels")
        found = dhsic.test_features(X.astype(dtype), y, missing_code=option)
        expected = dhsic.test_features(np.where(is_missing, np.nan, X).astype(dtype), y)
    np.testing.assert_allclose(found.p_values, expected.p_values, rtol=1e-6)
    assert set(np.argsort(found.p_values)[:3]) == {0, 1, 2}
    dhsic.test_features(X.astype(dtype), y, missing_code=None)


@pytest.mark.filterwarnings("ignore:Missing values depend on the labels")
@pytest.mark.parametrize("n_others", [0, 40])
def test_the_options_of_the_command_line_work(n_others, rng, tmp_path):
    values, y = answers(rng, 1, 5)
    X, is_missing = coded(values.astype(int), 7, y, rng)
    frame = pd.DataFrame(X).add_prefix("q").assign(st=np.where(y, "case", "control"))
    others = pd.DataFrame(rng.normal(size=(M, n_others))).add_prefix("g")
    frame = pd.concat([frame, others], axis=1)
    frame.index = [f"s{i}" for i in range(M)]
    frame.to_csv(tmp_path / "t.csv", index_label="id")
    command = ("test", tmp_path / "t.csv", "--target", "st")
    refused = " ".join(run(*command, code=3).stderr.split())
    assert f"{is_missing.sum():,} values of {D} of {D + n_others} features are 7" in refused
    assert "pass --missing-code 7" in refused
    assert "pass --missing-code none" in refused
    run(*command, "--missing-code", "7")
    run(*command, "--missing-code", "none")


def check(X):
    """Measure features in two blocks, as runs do, and check them for codes."""
    source = open_source(X)
    blocks = [np.ascontiguousarray(part.T) for part in np.array_split(X, 2, axis=1)]
    scaling = Scaling.join([measure(of, source.missing_code, standardize=True)[0] for of in blocks])
    scaling.check("mean", source, standardize=True, has_bandwidth=True, n_samples=source.n_samples)


SEVEN = np.arange(1, 8)
VALUES = {
    "answers from 1 to 7": lambda rng, m, d: rng.integers(1, 8, (m, d)),
    "skewed answers": lambda rng, m, d: np.clip(np.round(rng.normal(4, 1.2, (m, d))), 1, 7),
    "a rare 6": lambda rng, m, d: rng.choice(SEVEN, (m, d), p=[0.2] * 4 + [0.09, 0.01, 0.1]),
    "counts": lambda rng, m, d: rng.poisson(2, (m, d)),
    "rare counts": lambda rng, m, d: rng.poisson(0.3, (m, d)),
    "overdispersed counts": lambda rng, m, d: rng.negative_binomial(0.5, 0.2, (m, d)),
    "doses": lambda rng, m, d: rng.choice([0, 1, 2, 4], (m, d)),
    "doses in halves": lambda rng, m, d: rng.choice([0, 0.5, 1, 2], (m, d)),
    "points": lambda rng, m, d: rng.choice([1, 2, 3, 5], (m, d)),
    "imputed dosages": lambda rng, m, d: np.clip(
        rng.binomial(2, 0.4, (m, d)) + rng.normal(0, 0.05, (m, d)), 0, 2
    ),
    "tetraploids": lambda rng, m, d: rng.binomial(4, 0.3, (m, d)),
    "one-hot columns": lambda rng, m, d: np.eye(d)[rng.integers(0, d, m)],
    "values cut at 3": lambda rng, m, d: np.minimum(rng.gamma(1, 1, (m, d)), 3),
    "another scale in some features": lambda rng, m, d: np.where(
        np.arange(d) % 3 == 0, rng.integers(1, 8, (m, d)), rng.choice([1, 2, 3, 4, 5, 7], (m, d))
    ),
    "one feature": lambda rng, m, d: np.where(
        np.arange(d) == 0, rng.choice([1, 2, 3, 4, 5, 7], (m, d)), rng.normal(size=(m, d))
    ),
}


@pytest.mark.filterwarnings("ignore:1 feature contains")
@pytest.mark.parametrize("size", [(20, 3), (60, 6), (200, 30)])
@pytest.mark.parametrize("name", VALUES)
def test_scales_and_counts_without_a_code_are_taken(name, size, rng):
    for _ in range(5):
        check(VALUES[name](rng, *size))
