"""Engines: each against the definition, which is held to the plain loops."""

import naive
import numpy as np
import pytest
from cases import ESTIMATORS, PLAIN_KERNELS
from hypothesis import given
from hypothesis import strategies as st
from strategies import matrices
from suites.engine import EngineSuite, facts_of, question_of

from dhsic.engines.dense import Dense
from dhsic.engines.direct import Direct
from dhsic.engines.exact_scoring import ExactScoring, final_engine
from dhsic.engines.increment import Increment
from dhsic.engines.refine import (
    EngineChoice,
    RemovalEngines,
    in_low_rank,
    largest,
    tie_width,
    undecided,
)
from dhsic.kernels import Gaussian, Laplace, Linear, Polynomial


class TestDirect(EngineSuite):
    def engine(self, question, facts):
        return Direct()


class TestFinal(EngineSuite):
    def engine(self, question, facts):
        return final_engine(question, facts)


class TestDenseSingle(EngineSuite):
    def engine(self, question, facts):
        return Dense(question.kernel.exact_order or 2, np.dtype(np.float32))


class TestDenseDouble(EngineSuite):
    def engine(self, question, facts):
        return Dense(question.kernel.exact_order or 3, np.dtype(np.float64))


@given(matrices(), st.sampled_from(PLAIN_KERNELS), st.sampled_from(ESTIMATORS))
def test_direct_is_the_plain_loops(X, name, statistic):
    m, d = X.shape
    X = np.array(naive.standardise(X.tolist()))
    kernel = {"gaussian": Gaussian(), "linear": Linear(), "polynomial": Polynomial()}[name]
    y = np.arange(m) % 2
    question = question_of(X, y, kernel, statistic)
    L = naive.label_gram(y.tolist(), "balanced")
    K = naive.gram(X.tolist(), name, question.sigma)
    whole = naive.hsic(K, L, statistic)
    size = np.abs(K).max() * np.abs(L).max()

    gains = Direct().score(Direct().prepare(question), X.T, facts_of(X))

    assert question.hsic == pytest.approx(whole, rel=1e-9, abs=1e-12 * size)
    for j in range(d):
        rest = naive.columns(X.tolist(), [k for k in range(d) if k != j])
        without = naive.hsic(naive.gram(rest, name, question.sigma), L, statistic)
        assert gains[j] == pytest.approx(without - whole, rel=1e-7, abs=1e-11 * size)


def test_few_valued_features_are_exact_where_the_series_is_not(rng):
    """A variant that three samples in 300 carry: sigma x^2 is large, two products do."""
    X = rng.standard_normal((300, 12))
    X[:, 0] = 0
    X[:3, 0] = [1, 1, 2]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    question = question_of(X, rng.integers(0, 2, 300), Gaussian(), "unbiased")
    facts = facts_of(X).take(np.array([0]))
    engine = final_engine(question, facts)
    rare = X.T[:1]

    gain = engine.score(engine.prepare(question), rare, facts)

    assert engine.products(question, facts) == 2
    direct = Direct().score(Direct().prepare(question), rare, facts)
    np.testing.assert_allclose(gain, direct, rtol=1e-12)


def test_converged_falls_back_to_the_definition(rng):
    """Outliers so far out that no series is short: the engine says so and is right."""
    X = rng.standard_normal((40, 3)) ** 7
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    question = question_of(X, rng.integers(0, 2, 40), Gaussian(), "biased")
    facts = facts_of(X)
    engine = final_engine(question, facts)

    assert engine.with_direct
    direct = Direct().score(Direct().prepare(question), X.T, facts)
    np.testing.assert_allclose(
        engine.score(engine.prepare(question), X.T, facts), direct, rtol=1e-9
    )


class TestDecide:
    def test_nothing_is_open_between_far_gains(self):
        gains = np.array([5.0, 1.0, 3.0, 2.0])

        assert not undecided(gains, np.full(4, 0.4), 2).any()

    def test_overlap_at_the_cut_and_above_is_open_below_it_is_not(self):
        gains = np.array([9.0, 8.9, 5.0, 4.9, 1.0, 0.9])

        open_ = undecided(gains, np.full(6, 0.1), 3)

        assert open_.tolist() == [True, True, True, True, False, False]

    def test_a_wide_interval_opens_all_it_reaches(self):
        gains, errors = np.array([4.0, 3.0, 2.0, 1.0]), np.array([0.0, 0.0, 0.0, 2.5])

        assert undecided(gains, errors, 1).tolist() == [False, False, False, False]
        assert undecided(gains, errors, 2).tolist() == [False, True, False, True]

    def test_ties_go_by_position_in_chains(self):
        gains = np.array([1.0, 2.0, 2.0 + 1e-13, 1.0 - 1e-13, 3.0])

        order = largest(gains, 5, tie_width(gains))

        assert order.tolist() == [4, 1, 2, 0, 3]

    @given(
        st.lists(st.integers(-5, 5), min_size=1, max_size=12),
        st.integers(1, 12),
        st.integers(0, 2**31),
    )
    def test_decided_places_survive_any_change_within_the_errors(self, values, n, seed):
        rng = np.random.default_rng(seed)
        gains = np.array(values, dtype=float) + rng.uniform(-0.01, 0.01, len(values))
        errors = rng.uniform(0, 1.5, len(values))
        closed = ~undecided(gains, errors, n)
        before = largest(gains, n, 0.0)
        for _ in range(5):
            moved = np.where(closed | True, gains + rng.uniform(-1, 1, len(gains)) * errors, gains)
            after = largest(moved, n, 0.0)
            place_before = {f: i for i, f in enumerate(before)}
            place_after = {f: i for i, f in enumerate(after)}
            for f in np.flatnonzero(closed):
                assert place_before.get(f) == place_after.get(f)


class TestLadder:
    def question(self, rng, d=300, kernel=None):
        X = rng.standard_normal((50, d))
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        question = question_of(X, rng.integers(0, 2, 50), kernel or Gaussian(), "unbiased")
        return question, facts_of(X)

    def then(self, question, facts, gains):
        """Engine that scores all features where these are their gains, about."""
        d = len(gains)
        engines = RemovalEngines(question, np.float32)
        return engines.then(facts, gains, np.zeros(d), np.arange(d), 30, 1.0)

    def test_few_features_converge_at_once(self, rng):
        question, facts = self.question(rng, d=8)

        assert isinstance(RemovalEngines(question, np.float32).first(facts, 30, None), ExactScoring)

    def test_double_precision_on_request(self, rng):
        question, facts = self.question(rng)

        engine = RemovalEngines(question, np.float64).first(facts, 30, None)

        assert getattr(engine, "dtype", np.float64) == np.float64

    def test_exact_kernels_take_their_order(self, rng):
        question, facts = self.question(rng, kernel=Polynomial(degree=3))

        assert RemovalEngines(question, np.float32).first(facts, 30, None).order == 3

    def test_equal_gains_are_not_worth_a_cheap_pass(self, rng):
        """All places open whatever the precision: converge at once."""
        question, facts = self.question(rng)
        d = len(facts.max_abs)

        engine = self.then(question, facts, np.zeros(d))

        assert isinstance(engine, ExactScoring)

    def test_distant_gains_are_settled_cheaply(self, rng):
        question, facts = self.question(rng)
        d = len(facts.max_abs)
        size = question.sigma * question.weighted(0).norm
        gains = 1e3 * size * np.arange(d)

        engine = self.then(question, facts, gains)

        assert (engine.order, engine.dtype) == (1, np.float32)


@pytest.mark.parametrize("kernel", [Gaussian(), Polynomial(), Laplace()], ids=lambda k: k.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_width_of_numpy_is_a_width(rng, kernel, dtype):
    X = rng.standard_normal((30, 40))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    engine, facts = Dense(kernel.exact_order or 2, dtype), facts_of(X)

    def gains(sigma):
        question = question_of(X, np.arange(30) % 2, kernel, "biased", sigma=sigma)
        return engine.score(engine.prepare(question), X.T.astype(dtype), facts)

    np.testing.assert_array_equal(gains(np.float64(0.02)), gains(0.02))


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        ("order 3 float64", EngineChoice(engine=Dense(3, "float64"))),
        ("float32, leaving 0.01", EngineChoice(engine=Increment(0.01, "float32"))),
        ("converged", EngineChoice()),
        ("exact", EngineChoice()),
        ("low rank", EngineChoice()),
        ("", EngineChoice()),
    ],
)
def test_words_of_checkpoints_are_read(words, choice):
    assert EngineChoice.read({"engine": "exact: 9", "advice": words}) == choice
    assert not in_low_rank({"engine": "order 1 float32: 9", "advice": words})
    assert in_low_rank({"engine": "low rank 31: 900", "advice": words})


@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
def test_levels_keep_their_digits_where_the_kernel_is_steep(rng, statistic):
    """One carrier among 12 and a wide sigma: F is e^55, and K as small between the samples."""
    X = np.zeros((12, 2))
    X[[4, 5], 0] = 1 / 11, 1  # a missing value, filled with the mean, and the carrier
    X[[6, 7], 1] = 1, 1 / 11
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    question = question_of(X, rng.integers(0, 2, 12), Gaussian(), statistic, sigma=4.6)
    facts = facts_of(X)
    engine = final_engine(question, facts)

    gains = engine.score(engine.prepare(question), X.T, facts)

    direct = Direct().score(Direct().prepare(question), X.T, facts)
    assert engine.products(question, facts) == 4  # by levels, not by definition
    np.testing.assert_allclose(gains, direct, rtol=1e-9, atol=1e-12 * np.abs(direct).max())
