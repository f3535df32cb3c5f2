"""Passes on a device: what they give on the cores, of stored values that go there as they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from suites.factorizer import everyone, standardised

from dhsic.accelerator import Accelerator, accelerator
from dhsic.engines.lowrank import LowRank
from dhsic.engines.scoring_problem import LowRankScoringProblem
from dhsic.hsic import factored_weights
from dhsic.kernels import Gaussian, Polynomial
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.quadratic import LowRankQuadratic
from dhsic.lowrank import Cholesky
from dhsic.passes import Columns, Measure, run
from dhsic.passes.inner import MeasureLinear
from dhsic.passes.projection import ROUNDED, Numbers, Project, from_half
from dhsic.passes.score import Score, ScoreLowRank
from dhsic.passes.score_reuse import Change
from dhsic.passes.statistic import LandmarkSums, MeasureLandmarks
from dhsic.runtime.base import Job
from dhsic.sources.arrays import ArraySource
from dhsic.sources.scaling import Codes, standardise

M, D = 60, 33
DEVICES = ["array_api_strict:device1", "torch:cpu"]
#: Rounding of sums of M products in float32, of values of about 1.
NEAR = 1e-5


@pytest.fixture(params=DEVICES)
def device(request):
    if request.param.startswith("torch"):
        pytest.importorskip("torch")
    return request.param


@pytest.fixture
def sent(monkeypatch):
    """Dtypes and sizes of what went to the device."""
    sent = []
    array = Accelerator.array

    def told(self, X):
        sent.append((X.dtype, X.size))
        return array(self, X)

    monkeypatch.setattr(Accelerator, "array", told)
    return sent


def genotypes(rng):
    return rng.choice(np.array([-1, 0, 1, 2], "i1"), p=[0.03, 0.3, 0.4, 0.27], size=(M, D))


def whole_genotypes(rng):
    return rng.choice(np.array([0, 1, 2], "i1"), p=[0.3, 0.4, 0.3], size=(M, D))


def integers(rng):
    return rng.integers(0, 7, (M, D)).astype("u1")


def doubles(rng):
    X = rng.standard_normal((M, D)) * rng.uniform(0.5, 3, D) + rng.uniform(-2, 2, D)
    X[5, 3] = X[50, 20] = np.nan
    return X


def singles(rng):
    return doubles(rng).astype("f4")


KINDS = [genotypes, whole_genotypes, integers, doubles, singles]


def stored(data, rng):
    """Data, a source of them, and a job that reads all features with their scaling."""
    X = data(rng)
    source = ArraySource(X, missing_code=-1 if data is genotypes else None)
    (block,) = source.blocks(D)
    (scaling,), _ = run(source, Job((block,), (Columns(np.arange(D)),)), (Measure(), None))
    return X, source, Job((block,), (Columns(np.arange(D), scaling),))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data", KINDS)
def test_values_are_standardised_there(data, dtype, rng, device, sent):
    X, source, job = stored(data, rng)
    known = job.payload[0].scaling

    here = standardise(X.T, source.missing_code, known, dtype)
    there = standardise(X.T, source.missing_code, known, dtype, accelerator(device).array)

    assert not isinstance(there, np.ndarray)
    assert (X.dtype, X.size) in sent
    assert_array_equal(np.from_dlpack(there, device="cpu"), here)


@pytest.mark.parametrize("data", [genotypes, whole_genotypes])
def test_sums_over_codes_are_those_of_the_cores(data, rng, device):
    X, source, _ = stored(data, rng)
    codes, move = Codes.of(X.T, source.missing_code), accelerator(device).array
    Y = rng.standard_normal((M, 5)).astype("f4")
    means = rng.uniform(0, 2, D)
    there = codes.on(move)

    assert_allclose(there.sums(move(Y)), codes.sums(Y), atol=NEAR * M)
    assert_array_equal(there.counts(), codes.counts())
    some = np.array([3, 7, 20])
    filled = there.take_samples(some).filled(means)
    assert_array_equal(np.from_dlpack(filled, device="cpu"), codes.take_samples(some).filled(means))


@pytest.mark.parametrize("data", KINDS)
def test_a_statistic_is_that_of_the_cores(data, rng, device, sent):
    X, source, job = stored(data, rng)
    rows, U = np.array([2, 3, 40]), rng.standard_normal((M, 2)).astype("f4")
    anew = Job(job.blocks, (Columns(np.arange(D)),))

    here, there = (LandmarkSums(rows, U, device=place) for place in (None, device))
    for expected, found in zip(
        run(source, job, (here, None)), run(source, job, (there, None)), strict=True
    ):
        assert_allclose(found, expected, atol=NEAR * D * 10)
    assert (X.dtype, X.size) in sent
    first = [MeasureLandmarks(sums) for sums in (here, there)]
    (known, sums, are_codes), (known_there, sums_there, are_codes_there) = (
        run(source, anew, (one, None)) for one in first
    )
    assert are_codes == are_codes_there
    for name in ("scale", "mean", "n_missing", "n_levels", "checksum"):
        assert_array_equal(getattr(known_there[0], name), getattr(known[0], name))
    for expected, found in zip(sums, sums_there, strict=True):
        assert_allclose(found, expected, atol=NEAR * D * 10)


@pytest.mark.parametrize("kernel", [Gaussian(), Polynomial()])
@pytest.mark.parametrize("data", KINDS)
def test_scores_in_low_rank_are_those_of_the_cores(data, kernel, rng, device, sent):
    X, source, job = stored(data, rng)
    Z = standardised(np.nan_to_num(X.astype(float)))
    W = factored_weights(label_matrix(np.arange(M) % 2).factor(), "unbiased", None)
    sigma = 1 / (2 * D)

    def factor(base):
        return Cholesky(rtol=0).factor(kernel, sigma, everyone(Z), base=base)

    state = LowRank().prepare(LowRankScoringProblem(kernel, sigma, W, factor))
    here, there = (
        run(source, job, (ScoreLowRank(state, device=place), None)) for place in (None, device)
    )

    assert_allclose(there, here, atol=NEAR * np.abs(here).max())
    assert (X.dtype, X.size) in sent
    assert all(size < X.size for dtype, size in sent if dtype != X.dtype)


@pytest.mark.parametrize("data", KINDS)
def test_gains_under_the_linear_kernel_are_those_of_the_cores(data, rng, device, sent):
    X, source, job = stored(data, rng)
    Z = standardised(np.nan_to_num(X.astype(float), nan=np.nanmean(X.astype(float))))
    anew = Job(job.blocks, (Columns(np.arange(D)),))
    Y, theta = rng.standard_normal((3, M)), rng.standard_normal(3)
    form = LowRankQuadratic(Y, theta, rng.standard_normal(M))
    W = (Y.T * theta) @ Y + np.diag(form.correction)

    (known, here), (known_there, there) = (
        run(source, anew, (MeasureLinear(form, device=place), None)) for place in (None, device)
    )

    assert_array_equal(known_there[0].scale, known[0].scale)
    assert_allclose(there[0], here[0], atol=1e-9 * np.abs(here[0]).max())
    if not np.isnan(X.astype(float)).any() and data is not genotypes:  # none is missing
        expected = -np.einsum("ij,ik,kj->j", Z, W, Z)
        assert_allclose(here[0], expected, atol=1e-9 * np.abs(expected).max())
    assert (X.dtype, X.size) in sent


@pytest.mark.parametrize("data", KINDS)
def test_projections_and_changes_are_those_of_the_cores(data, rng, device, sent):
    X, source, job = stored(data, rng)
    numbers = Numbers(rng.standard_normal((7, M)).astype("f4"), ((1, 0, 4), (2, 4, 7)))
    form = LowRankQuadratic(
        rng.standard_normal((4, M)).astype("f4"),
        rng.standard_normal(4),
        rng.standard_normal(M).astype("f4"),
    )

    expected, found = (
        from_half(run(source, job, (Project(numbers, on), None))) for on in (None, device)
    )
    assert_allclose(found, expected, rtol=ROUNDED, atol=ROUNDED * np.abs(expected).max())
    expected, found = (run(source, job, (Change(form, on), None)) for on in (None, device))
    assert_allclose(found, expected, atol=NEAR * np.abs(expected).max() * M)
    assert sent.count((X.dtype, X.size)) == 2


def test_scores_of_the_exact_engine_take_stored_values(rng, device, sent):
    """As they are, a byte each: they are cast and standardised where they are scored."""
    from suites.engine import question_of

    from dhsic.engines.dense import Dense

    X, source, job = stored(whole_genotypes, rng)
    engine = Dense(2, "float32")
    state = engine.prepare(
        question_of(standardised(X.astype(float)), np.arange(M) % 2, Gaussian(), "unbiased")
    )

    here, there = (run(source, job, (Score(engine, state, d), None)) for d in (None, device))

    assert_allclose(there, here, atol=NEAR * np.abs(here).max())
    assert (np.dtype("i1"), X.size) in sent
