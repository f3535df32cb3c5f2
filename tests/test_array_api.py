"""Scoring on other arrays than NumPy's: the same numbers, and nothing but the standard is used.

array-api-strict knows the standard and no more, and refuses to mix arrays of two devices; what is
made without a word of where it belongs is found out on a device that is not its default.
"""

from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from types import ModuleType
from typing import Any

import array_api_strict
import numpy as np
import pytest
from cases import ESTIMATORS, KERNELS
from hypothesis import given
from hypothesis import strategies as st
from strategies import matrices
from suites.engine import facts_of, question_of
from suites.factorizer import everyone, standardised

from dhsic import namespace
from dhsic.engines import lowrank
from dhsic.engines.dense import Dense
from dhsic.engines.direct import Direct
from dhsic.engines.exact_scoring import final_engine
from dhsic.engines.lowrank import LowRank
from dhsic.engines.scoring_problem import LowRankScoringProblem
from dhsic.hsic import factored_weights
from dhsic.kernels import Gaussian
from dhsic.kernels.labels import label_matrix
from dhsic.lowrank import Cholesky
from dhsic.namespace import host, namespace_of, to_namespace

ENGINES = ("dense-1", "dense-2", "dense-5", "direct", "converged", "lowrank-1", "lowrank-3")
DTYPES = ("float32", "float64")
#: Rounding, in units of the dtype's last place and of the sizes that are summed.
UNITS = 64


@contextmanager
def place(name):
    """(namespace, device) to score on."""
    if name == "torch":
        yield pytest.importorskip("torch"), "cpu"
        return
    with array_api_strict.ArrayAPIStrictFlags(boolean_indexing=False, data_dependent_shapes=False):
        yield array_api_strict, array_api_strict.Device("device1")


@pytest.fixture(params=["strict", "torch"])
def elsewhere(request):
    with place(request.param) as there:
        yield there


@dataclass
class Round:
    """An engine and its state for the features of X (m, d)."""

    X: np.ndarray
    kernel: Any
    engine_name: str
    dtype: str
    statistic: str = "unbiased"
    sigma: float | None = None

    def __post_init__(self):
        self.y = np.arange(len(self.X)) % 2
        self.question = question_of(self.X, self.y, self.kernel, self.statistic, self.sigma)
        self.facts = facts_of(self.X)
        self.rows = np.ascontiguousarray(self.X.T, dtype=self.dtype)
        self.engine, self.state = self.prepared()

    @property
    def order(self):
        return int(self.engine_name.rpartition("-")[2])

    def prepared(self):
        engine: Any
        if self.engine_name == "direct":
            engine = Direct()
        elif self.engine_name == "converged":
            engine = final_engine(self.question, self.facts)
        elif self.engine_name.startswith("dense"):
            engine = Dense(self.order, self.dtype)
        else:
            engine = LowRank(self.order, self.dtype)
            return engine, engine.prepare(self.factored())
        return engine, engine.prepare(self.question)

    def factored(self):
        sigma, landmarks = self.question.sigma, everyone(self.X)

        def factor(base):
            return Cholesky(rtol=0).factor(self.kernel, sigma, landmarks, base=base)

        weights = factored_weights(label_matrix(self.y).factor(), self.statistic, None)
        return LowRankScoringProblem(self.kernel, sigma, weights, factor)

    def scores(self):
        return self.engine.score(self.state, self.rows, self.facts)

    def scores_on(self, xp, device):
        rows = to_namespace(self.rows, xp, device)
        return self.engine.score(self.state.on(xp, device), rows, self.facts)

    def rounding(self):
        """Of the gains, (d,): of the terms of an expansion, or of the definition."""
        unit = UNITS * float(np.finfo(getattr(self.engine, "dtype", np.float64)).eps)
        question = self.question
        G, norms = question.statistic.to_dense(), question.statistic.diagonal
        sizes = np.array(
            [
                np.vdot(
                    np.abs(question.W),
                    np.abs(self.kernel.decrement(G, norms, norms, x, x, question.sigma)),
                )
                for x in self.X.T
            ]
        )
        if isinstance(self.engine, Dense | LowRank):
            expansion = self.kernel.expansion(self.engine.order, question.sigma)
            parts = expansion.magnitudes(self.facts.max_abs, self.facts.fourth_moment)
            for term, part in zip(expansion.terms, parts, strict=True):
                sizes += len(self.X) * question.weighted(term.base).norm * part
        return unit * sizes + 1e-300


def check(round_, there):
    expected, scores = round_.scores(), round_.scores_on(*there)
    known = np.isfinite(expected)

    assert type(scores) is np.ndarray
    assert scores.dtype == np.float64
    assert (np.isfinite(scores) == known).all()
    assert (np.abs(scores[known] - expected[known]) <= round_.rounding()[known]).all()


def few_valued_and_outliers(rng, m=40):
    """Normal, genotypes, counts of six, one carrier, a copy, and tails that no series follows."""
    X = rng.standard_normal((m, 14))
    X[:, 3:6] = rng.integers(0, 3, (m, 3))
    X[:, 6] = rng.integers(0, 6, m)
    X[:, 7] = np.eye(m)[0]
    X[:, 8] = X[:, 0]
    X[:, 9:11] = X[:, 9:11] ** 7
    return standardised(X)


def arrays_in(value):
    """All arrays in a state."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from arrays_in(getattr(value, field.name))
    elif isinstance(value, dict | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(one)
    elif hasattr(value, "shape"):
        yield value


# -- engines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_scores_are_those_of_numpy(rng, elsewhere, kernel, engine_name, dtype):
    X = few_valued_and_outliers(rng)
    for statistic in ESTIMATORS:
        check(Round(X, kernel, engine_name, dtype, statistic), elsewhere)


@pytest.mark.parametrize("name", ["strict", "torch"])
@given(
    matrices(samples=(8, 24)),
    st.sampled_from(sorted(KERNELS)).map(KERNELS.get),
    st.sampled_from(ENGINES),
    st.sampled_from(DTYPES),
    st.sampled_from(ESTIMATORS),
    st.sampled_from([None, 0.02, 0.3, 4.0]),
)
def test_whatever_the_data(name, X, kernel, engine_name, dtype, statistic, sigma):
    with place(name) as there:
        X = standardised(X)
        check(Round(X, kernel, engine_name, dtype, statistic, sigma), there)


def test_every_way_of_the_converged_engine(rng, elsewhere):
    """Series of several orders, levels both mild and steep, and the definition."""
    X = few_valued_and_outliers(rng)
    round_ = Round(X, Gaussian(), "converged", "float64", "biased", sigma=0.12)
    F = np.expm1(0.12 * np.ptp(X, axis=0) ** 2)[round_.facts.n_levels > 0]

    assert round_.engine.with_direct
    assert F.min() < 100 < F.max()
    check(round_, elsewhere)


@pytest.mark.parametrize("engine_name", ["direct", "lowrank-3"])
def test_tiles_of_a_device(rng, monkeypatch, elsewhere, engine_name):
    monkeypatch.setattr(namespace, "DEVICE_ENTRIES", 90)
    monkeypatch.setattr(lowrank, "TILE_SAMPLES", 17)
    for dtype in DTYPES:
        check(Round(few_valued_and_outliers(rng), Gaussian(), engine_name, dtype), elsewhere)


def test_an_outlier_too_far_for_its_numbers_is_no_error(rng, elsewhere):
    round_ = Round(few_valued_and_outliers(rng), Gaussian(), "dense-2", "float32", sigma=50.0)

    assert not np.isfinite(round_.scores()).all()
    check(round_, elsewhere)


def test_no_features_no_gains(rng, elsewhere):
    for engine_name in ENGINES:
        round_ = Round(few_valued_and_outliers(rng), Gaussian(), engine_name, "float32")
        round_.rows, round_.facts = round_.rows[:0], round_.facts.take(slice(0))

        assert round_.scores_on(*elsewhere).shape == (0,)


# -- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_state_goes_there_and_back(rng, elsewhere, engine_name):
    xp, device = elsewhere
    round_ = Round(few_valued_and_outliers(rng), Gaussian(), engine_name, "float32")
    there = round_.state.on(xp, device)
    here, back = list(arrays_in(round_.state)), list(arrays_in(there.on(np)))

    assert {str(a.device) for a in arrays_in(there)} == {str(device)}
    assert not any(isinstance(a, np.ndarray) for a in arrays_in(there))
    assert len(here) == len(back) >= 2
    for one, other in zip(here, back, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        round_.engine.score(there.on(np), round_.rows, round_.facts), round_.scores()
    )


def test_numbers_of_numpy_stay_behind(rng, elsewhere):
    """A sigma that is a scalar of NumPy: other arrays would not take it as a number."""
    X = few_valued_and_outliers(rng)
    for engine_name in ("dense-2", "direct", "lowrank-1"):
        check(Round(X, Gaussian(), engine_name, "float64", sigma=np.float64(0.02)), elsewhere)


# -- kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_kernels_are_those_of_numpy(rng, elsewhere, kernel):
    X = few_valued_and_outliers(rng, 20)
    G = X @ X.T
    norms = np.diagonal(G).copy()
    here = (G[:7], norms[:7], norms)
    there = tuple(to_namespace(a, *elsewhere) for a in here)
    bases = {term.base for term in kernel.expansion(3, 0.05).terms}

    for base in sorted(bases):
        got = kernel.base(base, *there, 0.05)
        np.testing.assert_allclose(host(got), kernel.base(base, *here, 0.05), rtol=1e-13)
    np.testing.assert_allclose(
        host(kernel.gram(*there, 0.05)), kernel.gram(*here, 0.05), rtol=1e-13
    )
    for j in (0, 3, 7, 9):
        x = X[:, j]
        z = to_namespace(x, *elsewhere)
        got, expected = (
            kernel.decrement(*there, z[:7], z, 0.05),
            kernel.decrement(*here, x[:7], x, 0.05),
        )
        np.testing.assert_allclose(host(got), expected, rtol=1e-11, atol=1e-300)
    if kernel.is_product:
        expected = kernel.factor(np.subtract.outer(x, x) ** 2, 0.05)
        got = kernel.factor((z[:, None] - z[None, :]) ** 2, 0.05)
        np.testing.assert_allclose(host(got), expected, rtol=1e-13)


# -- namespaces ---------------------------------------------------------------------------------


def test_numpy_is_numpy_itself(rng, tmp_path):
    """Also for arrays in files, which states are on workers."""
    np.save(tmp_path / "a.npy", np.ones(3))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")

    assert namespace_of(np.ones(3)) is namespace_of(mapped) is np
    assert host(mapped) is mapped


def test_arrays_that_may_not_be_written_move(elsewhere):
    fixed = np.arange(6.0).reshape(2, 3).T
    fixed.flags.writeable = False
    there = to_namespace(fixed, *elsewhere)
    there += 1

    assert isinstance(namespace_of(there), ModuleType)
    np.testing.assert_array_equal(host(there), fixed + 1)
