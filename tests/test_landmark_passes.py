"""The statistic against landmarks, task by task: in tiles and strips, genotypes and values."""

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose

from dhsic import passes
from dhsic.passes import Columns, run, statistic
from dhsic.passes.statistic import LandmarkSums, MeasureLandmarks
from dhsic.runtime.base import Job
from dhsic.sources.arrays import ArraySource

M, D = 90, 37
ROWS = np.array([2, 3, 40, 88])
#: Features of a tile, entries of a strip, features that are added in float32; None as they are.
CUTS = [None, (5, 5 * 17, 2048), (37, 37, 2048), (4, 4 * 89, 8), (1, 90, 1)]


def genotypes(rng):
    return rng.choice(np.array([-1, 0, 1, 2], "i1"), p=[0.02, 0.3, 0.4, 0.28], size=(M, D))


def values(rng):
    X = rng.standard_normal((M, D)) * rng.uniform(0.5, 3, D) + rng.uniform(-2, 2, D)
    X[5, 3] = X[80, 20] = np.nan
    return X


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("data", [genotypes, values])
def test_a_statistic_is_that_of_the_standardised_data(rng, monkeypatch, data, cut):
    if cut is not None:
        height, strip, in_single = cut
        monkeypatch.setattr(passes, "WIDEST", height)
        monkeypatch.setattr(statistic, "LEAST_HEIGHT", height)
        monkeypatch.setattr(statistic, "STRIP_ENTRIES", strip)
        monkeypatch.setattr(passes, "TILE_ENTRIES", 3 * M)
        monkeypatch.setattr(statistic, "IN_SINGLE", in_single)
    X = data(rng)
    Z = np.array(naive.standardise(np.where(X == -1, np.nan, X).tolist()))
    source = ArraySource(X, missing_code=-1 if data is genotypes else None)
    block = source.blocks(D)[0]

    every = Job((block,), (Columns(np.arange(D)),))
    U = rng.standard_normal((M, 3)).astype("f4")
    first = MeasureLandmarks(LandmarkSums(ROWS, U))
    (scaling,), (inner, norms), are_codes = run(source, every, (first, None))
    assert are_codes == (data is genotypes)
    assert_allclose(inner[: len(ROWS)], Z[ROWS] @ Z.T, atol=2e-4)
    assert_allclose(inner[len(ROWS) :], U.T @ Z @ Z.T, atol=2e-3)
    assert_allclose(norms, (Z**2).sum(axis=1), atol=2e-4)

    some = np.array([0, 3, 7, 20, 21, 36])
    few = Job((block,), (Columns(some, scaling.take(some)),))
    inner, norms = run(source, few, (LandmarkSums(ROWS), None))
    assert_allclose(inner, Z[ROWS][:, some] @ Z[:, some].T, atol=1e-4)
    assert_allclose(norms, (Z[:, some] ** 2).sum(axis=1), atol=1e-4)
