"""Radial kernels, kernels by levels and ridge: kernels, engines and whole runs by definition."""

import pickle
from dataclasses import dataclass

import array_api_strict
import naive
import naive_kernels
import numpy as np
import pytest
from cases import ESTIMATORS
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from strategies import labels, matrices
from suites.engine import EngineSuite, facts_of, question_of
from suites.kernel import KernelSuite
from thorough import examples

import dhsic
from dhsic.engines.dense import Dense
from dhsic.engines.direct import Direct, Inverse, RadialDirect, Solved
from dhsic.engines.exact_scoring import LONGEST_TAYLOR, ExactScoring, cost_of, final_engine
from dhsic.engines.refine import EngineChoice, RemovalEngines
from dhsic.engines.scoring_problem import ScoringProblem
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.kernels import (
    KERNELS,
    Delta,
    Gaussian,
    InverseDistance,
    KernelRidge,
    Laplace,
    LaplaceL1,
    Linear,
    RationalQuadratic,
    Ridge,
    check_solver,
    resolve_kernel,
)
from dhsic.kernels.bandwidth import DistanceStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.levels import AbsoluteDifferences
from dhsic.kernels.statistic import HEIGHT, STRIP, InnerProducts, Statistic, zero_upper
from dhsic.namespace import host
from dhsic.passes.engineplan import EnginePlan
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

RADIAL = {
    "laplace": Laplace(),
    "rational": RationalQuadratic(),
    "rational-3": RationalQuadratic(alpha=3.5),
    "inverse-distance": InverseDistance(),
    "inverse-distance-1": InverseDistance(eps=1.0),
}
NAMES = ("laplace", "laplace-l1", "rational", "inverse-distance", "ridge", "delta")
POLICIES = ("dimension", "median", 0.3, [0.01, 0.3, 2.0])


def kernel_of(name):
    return KernelRidge(penalty=0.5) if name == "kernel-ridge" else resolve_kernel(name)


def statistic_of(kernel, X):
    """What the kernel is a function of, for samples X."""
    if isinstance(kernel, LaplaceL1):
        return Statistic.of(cdist(X, X, "cityblock"))
    if isinstance(kernel, Delta):
        return Statistic.of((X[:, None, :] == X[None, :, :]).sum(axis=2).astype(float))
    return Statistic.of(X @ X.T)


def question_for(kernel, X, y, statistic, sigma=None):
    W = weights(label_matrix(y).L, statistic)
    return ScoringProblem(kernel, sigma or 1 / (2 * X.shape[1]), W, statistic_of(kernel, X))


def scores(engine, question, X, facts):
    return engine.score(engine.prepare(question), np.ascontiguousarray(X.T), facts)


# -- kernels ------------------------------------------------------------------------------------


class RadialSuite(KernelSuite):
    """Wide data, so that the series converges."""

    orders = (1, 2, 3, 4, 5, 6)

    @pytest.fixture
    def X(self, rng):
        X = rng.standard_normal((9, 300))
        X[:, 1] = rng.integers(0, 3, 9)
        return X

    def test_profile_change_and_coefficients(self, rng):
        """Changes are differences; coefficients those of Taylor, by the derivative of the last."""
        z = rng.uniform(0.1, 4, 20)
        t = z * rng.uniform(0, 1, 20)
        kernel = self.kernel
        assert kernel.profile(np.zeros(1)) == 1
        assert_allclose(kernel.change(z, t), kernel.profile(z - t) - kernel.profile(z), atol=1e-14)
        assert_allclose(kernel.change(z, z), 1 - kernel.profile(z), rtol=1e-12)
        assert kernel.change(np.zeros(2), np.zeros(2)).tolist() == [0, 0]
        step = 1e-5
        before = kernel.profile
        for p in range(1, LONGEST_TAYLOR + 2):
            slope = -(before(z + step) - before(z - step)) / (2 * step * p)
            assert_allclose(kernel.coefficient(p, z), slope, rtol=1e-6)
            before = lambda u, p=p: kernel.coefficient(p, u)  # noqa: E731

    def test_small_falls_keep_their_digits(self):
        z, t = np.array([0.5, 30.0]), np.array([1e-13, 1e-11])
        assert_allclose(self.kernel.change(z, t), self.kernel.coefficient(1, z) * t, rtol=1e-10)

    def test_equal_samples_fall_by_nothing(self, rng):
        """Copies of a sample, and samples that only feature 0 tells apart."""
        X = rng.standard_normal((6, 4)) * 1e3
        X[1] = X[0]
        X[2, 1:] = X[0, 1:]
        G = X @ X.T
        norms = np.diagonal(G)
        K = self.kernel.gram(G, norms, norms, 0.5)
        loss = self.kernel.decrement(G, norms, norms, X[:, 0], X[:, 0], 0.5)

        assert K[0, 1] == 1
        assert loss[0, 1] == 0
        assert loss[0, 2] == pytest.approx(1 - K[0, 2], rel=1e-6)
        assert (self.kernel.base(1, G, norms, norms, 0.5)[[0, 0], [0, 1]] == 0).all()


class TestLaplace(RadialSuite):
    kernel = Laplace()

    def value(self, x, z, sigma):
        return naive_kernels.laplace(x, z, sigma)


class TestRational(RadialSuite):
    kernel = RationalQuadratic(alpha=2.5)

    def value(self, x, z, sigma):
        return naive_kernels.rational(x, z, sigma, 2.5)


class TestInverseDistance(RadialSuite):
    kernel = InverseDistance(eps=0.2)

    def value(self, x, z, sigma):
        return naive_kernels.inverse_distance(x, z, sigma, 0.2)

    def test_is_the_papers_but_for_a_factor(self, rng):
        """At sigma = 1/2: ``1 / (||x - x'|| + eps)`` over eps."""
        X = rng.standard_normal((5, 3))
        G = X @ X.T
        K = self.kernel.gram(G, np.diagonal(G), np.diagonal(G), 0.5)

        assert_allclose(K / 0.2, 1 / (cdist(X, X) + 0.2), rtol=1e-9)


class TestLaplaceL1(KernelSuite):
    kernel = LaplaceL1()
    sigma = 0.3

    def value(self, x, z, sigma):
        return naive_kernels.laplace_l1(x, z, sigma)


class TestDelta(KernelSuite):
    kernel = Delta()

    @pytest.fixture
    def X(self, rng):
        return rng.integers(0, 4, (9, 6)) / 2

    def value(self, x, z, sigma):
        return naive_kernels.delta(x, z, sigma)


def test_steep_features_go_by_the_definition():
    """Apart by so much that F is no number: unscaled data and a width that does not fit them."""
    x = np.linspace(-1, 1, 12)
    X = np.column_stack([400 * x, x, np.sign(x)])
    question = question_for(LaplaceL1(), X, np.arange(12) % 3, "biased", sigma=1.0)
    facts = facts_of(X)
    engine = final_engine(question, facts)

    assert engine == ExactScoring("levels", with_direct=True)
    assert engine.products(question, facts) == 1
    direct = scores(Direct(), question, X, facts)
    assert_allclose(scores(engine, question, X, facts), direct, rtol=1e-10, atol=1e-15)
    assert final_engine(question, facts.take(np.array([1, 2]))) == ExactScoring(
        "levels", with_direct=False
    )


def test_large_l1_losses_stay_numbers():
    L1 = np.array([[0.0, 5000.0], [5000.0, 0.0]])
    x = np.array([0.0, 4990.0])

    loss = LaplaceL1().decrement(L1, np.zeros(2), np.zeros(2), x, x, 1.0)

    assert_allclose(loss, [[0, np.exp(-10)], [np.exp(-10), 0]])


@given(matrices(samples=(2, 9)), st.integers(0, 8))
def test_absolute_differences_add_up_and_are_taken_away(X, cut):
    sums, m = AbsoluteDifferences(), len(X)
    Z = np.ascontiguousarray(X.T)
    upper = zero_upper(m)
    for part in (Z[:cut], Z[cut:]):
        sums.add(upper, np.ascontiguousarray(part))
    sums.take_away(upper, np.ascontiguousarray(Z[:cut]), map)
    left = [[sum(abs(a - b) for a, b in zip(x[cut:], z[cut:], strict=True)) for z in X] for x in X]

    assert_allclose(
        Statistic(upper).to_dense(), left, atol=1e-12 * max(1, np.abs(X).max()) * len(Z)
    )


def test_the_median_does_not_take_rounding_for_a_distance(rng):
    """Features that left leave rounding between samples that only they told apart."""
    X = rng.standard_normal((8, 4))
    X[:, 3] = np.eye(8)[2]
    upper = zero_upper(8)
    AbsoluteDifferences().add(upper, np.ascontiguousarray(X.T))
    AbsoluteDifferences().take_away(upper, np.ascontiguousarray(X[:, :3].T), map)

    known = DistanceStats(LaplaceL1(), np.eye(8), Statistic(upper))
    assert sorted(known.pair_distances()) == pytest.approx([0.0] * 21 + [1.0] * 7)
    assert np.median(known.pair_distances()) == 0


def test_strips_of_distances_cover_all_pairs(rng):
    X = rng.standard_normal((2 * STRIP + 5, 3))
    upper = zero_upper(len(X))
    AbsoluteDifferences().add(upper, np.ascontiguousarray(X.T))

    assert_allclose(Statistic(upper).to_dense(), cdist(X, X, "cityblock"), atol=1e-14)
    pickle.loads(pickle.dumps(AbsoluteDifferences())).add(upper, X.T.copy())


def test_sums_are_inner_products_else(rng):
    Z = rng.standard_normal((4, 6))
    upper = zero_upper(6)
    InnerProducts().add(upper, Z)
    assert_allclose(Statistic(upper).to_dense(), Z.T @ Z, atol=1e-14)
    InnerProducts().take_away(upper, Z, map)
    assert_allclose(np.triu(upper), 0, atol=1e-14)


@pytest.mark.parametrize("name", [n for n in naive_kernels.GRAMS if n not in ("delta", "ridge")])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_its_meaning(name, policy, rng):
    from dhsic.kernels.bandwidth import resolve_bandwidth

    X, y = rng.standard_normal((8, 4)), np.arange(8) % 2
    L = naive.label_gram(y.tolist(), "balanced")
    kernel = kernel_of(name)
    known = DistanceStats(kernel, weights(np.array(L)), statistic_of(kernel, X))

    sigma = resolve_bandwidth(policy)(known, 4)

    expected = naive_kernels.choose_sigma(policy, X.tolist(), L, name, "unbiased")
    assert sigma == pytest.approx(expected, rel=1e-10)


# -- engines ------------------------------------------------------------------------------------


class RadialEngineSuite(EngineSuite):
    @pytest.fixture(params=["laplace", "rational-3", "inverse-distance"])
    def kernel(self, request):
        return RADIAL[request.param]


class TestRadial(RadialEngineSuite):
    def engine(self, question, facts):
        return final_engine(question, facts)


class TestRadialBySeries(RadialEngineSuite):
    def engine(self, question, facts):
        return ExactScoring("taylor", LONGEST_TAYLOR)


class TestRadialByDefinition(RadialEngineSuite):
    def engine(self, question, facts):
        return RadialDirect()


@pytest.mark.parametrize("kernel", [Laplace(), InverseDistance()])
def test_panels_of_the_definition_cover_all_pairs(kernel, rng):
    X = rng.standard_normal((2 * HEIGHT + 140, 5))
    question = question_of(X, rng.integers(0, 2, len(X)), kernel, "biased")
    facts = facts_of(X)

    panels, direct = (scores(engine, question, X, facts) for engine in (RadialDirect(), Direct()))

    assert_allclose(panels, direct, rtol=1e-10)


class TestRadialSingle(RadialEngineSuite):
    def engine(self, question, facts):
        return Dense(2, np.dtype(np.float32))


class TestRadialDouble(RadialEngineSuite):
    def engine(self, question, facts):
        return Dense(LONGEST_TAYLOR, np.dtype(np.float64))


class TestLevelKernels(EngineSuite):
    @pytest.fixture(params=[LaplaceL1(), Delta()], ids=["laplace-l1", "delta"])
    def kernel(self, request):
        return request.param

    @pytest.fixture
    def question(self, X, rng, kernel, statistic):
        return question_for(kernel, X, (X[:, 3] + X[:, 40] * X[:, 41]) > 0, statistic)

    def engine(self, question, facts):
        return ExactScoring("levels")


@given(
    matrices(samples=(6, 12), features=(2, 7)),
    st.sampled_from(sorted(naive_kernels.GRAMS)),
    st.sampled_from(ESTIMATORS),
    st.booleans(),
)
@examples(20)
def test_last_engine_is_the_plain_loops(X, name, statistic, copies):
    """Few features, so samples that are equal, or once a feature is gone."""
    if copies:
        X[1] = X[0]
    m = len(X)
    X = X[:, np.ptp(X, axis=0) > 0]
    if not X.shape[1]:
        return
    X = np.array(naive.standardise(X.tolist()))
    y = np.arange(m) % 2
    L = naive.label_gram(y.tolist(), "balanced")
    kernel = kernel_of(name)
    question = question_for(kernel, X, y, statistic)
    facts = facts_of(X)
    K = np.array(naive_kernels.GRAMS[name](X.tolist(), question.sigma, X.tolist()))
    size = np.abs(K).max() * np.abs(L).max()

    expected = naive_kernels.gains_of(X.tolist(), L, name, question.sigma, statistic)

    engine = final_engine(question, facts)
    # Steep profiles see distances of a millionth, of which differences of sums keep few digits.
    rounding = 1e-5 if name in naive_kernels.PROFILES else 1e-9
    assert_allclose(scores(engine, question, X, facts), expected, rtol=1e-7, atol=rounding * size)
    whole = naive.hsic(K.tolist(), L, statistic)
    assert question.hsic == pytest.approx(whole, rel=1e-8, abs=rounding * size)


@given(
    st.sampled_from(sorted(RADIAL)),
    st.sampled_from(ESTIMATORS),
    st.integers(0, 2**31),
    st.floats(0.2, 4),
)
def test_what_a_series_leaves_out_is_bounded(name, statistic, seed, spread):
    """Near-copies of samples, rare variants, outliers: whatever the distances are."""
    rng = np.random.default_rng(seed)
    m, d = 14, int(rng.integers(3, 60))
    X = rng.standard_normal((m, d)) ** int(rng.integers(1, 4))
    X[:, 0] = np.eye(m)[0]
    X[1] = X[2] + 10.0 ** rng.uniform(-6, 0) * rng.standard_normal(d)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    question = question_of(X, rng.integers(0, 2, m) + np.arange(m) % 2 * 2, RADIAL[name], statistic)
    question = ScoringProblem(question.kernel, spread / d, question.W, question.statistic)
    facts = facts_of(X)
    exact = scores(Direct(), question, X, facts)
    for order in range(1, LONGEST_TAYLOR + 1):
        engine = Dense(order, np.float64)
        gains = scores(engine, question, X, facts)
        norm = question.weighted(order).norm

        assert (np.abs(gains - exact) <= engine.error(question, facts, gains) + 1e-11).all()
        assert norm <= question.norm(order) * (1 + 1e-9)


def test_the_bound_is_of_use(rng):
    """Wide data: orders settle more and more, the last one all."""
    X = rng.standard_normal((50, 2000))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    facts = facts_of(X)
    for kernel in RADIAL.values():
        question = question_of(X, rng.integers(0, 2, 50), kernel, "unbiased")
        size = question.sigma * question.norm(1)
        left = [
            np.median(question.neglected(p, facts)) / size for p in range(1, LONGEST_TAYLOR + 1)
        ]
        assert (np.diff(left) < 0).all()
        assert left[0] < 3
        assert left[-1] < 1e-6
        assert question.norm(2) < 1.2 * question.weighted(2).norm


def named(name, question, facts):
    """The engine that a round begins with where the history of the one before has this name."""
    choice = EngineChoice.read({"advice": name})
    return RemovalEngines(question, np.float32).first(facts, 1, choice)


class TestLadder:
    def question(self, rng, kernel, d=300):
        X = rng.standard_normal((50, d))
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return question_for(kernel, X, rng.integers(0, 2, 50), "unbiased"), facts_of(X)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_radial_begin_with_a_series(self, rng, dtype):
        question, facts = self.question(rng, Laplace(), d=2000)
        engine = RemovalEngines(question, np.dtype(dtype)).first(facts, 1, None)
        assert isinstance(engine, Dense)
        assert np.dtype(engine.dtype) == dtype
        again = named(engine.name, question, facts)
        assert (again.order, np.dtype(again.dtype)) == (engine.order, np.dtype(dtype))

    def test_definition_costs(self, rng):
        question, facts = self.question(rng, Laplace(), d=90)
        engine = final_engine(question, facts)
        assert cost_of(engine, question, facts) >= 200 * engine.definitions(question, facts) > 0

    def test_few_features_and_far_outliers_go_by_definition(self, rng):
        question, facts = self.question(rng, Laplace(), d=20)
        assert RemovalEngines(question, np.float32).first(facts, 1, None) == ExactScoring("taylor")
        assert named("settled", question, facts) == ExactScoring("taylor")

    @pytest.mark.parametrize(
        ("kernel", "kind"),
        [
            (LaplaceL1(), ExactScoring),
            (Delta(), ExactScoring),
            (Ridge(), Inverse),
            (KernelRidge(), Solved),
        ],
    )
    def test_kernels_without_a_series_have_one_engine(self, rng, kernel, kind):
        question, facts = self.question(rng, kernel)
        d, nothing = len(facts.max_abs), np.zeros(len(facts.max_abs))
        engines = RemovalEngines(question, np.float32)
        first = engines.first(facts, 30, None)
        then = engines.then(facts, nothing, nothing, np.arange(d), 30, 1.0)
        assert isinstance(first, kind)
        assert isinstance(then, kind)
        assert isinstance(named(first.name, question, facts), kind)
        assert (first.error(question, facts, nothing) == 0).all()
        assert first.products(question, facts) >= 0


def test_ridge_by_rank_one_is_ridge_by_definition(rng):
    """More features than samples, fewer, and two; a weak and a strong penalty."""
    for d in (2, 20, 60):
        X = rng.standard_normal((40, d))
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        facts = facts_of(X)
        for penalty in (1e-3, 1.0, 100.0):
            question = question_for(Ridge(penalty), X, rng.integers(0, 2, 40), "biased")
            inverse, solved = (scores(e, question, X, facts) for e in (Inverse(), Solved()))
            assert_allclose(inverse, solved, rtol=1e-8, atol=1e-12 * np.abs(solved).max())
            assert pickle.loads(pickle.dumps(Ridge(penalty))) == Ridge(penalty)


def test_ridge_is_the_residual_of_ridge_regression(rng):
    """JMLR 6.6: ``J = y'y - y' Kbar y``, here by least squares."""
    X, y = rng.standard_normal((30, 5)), rng.standard_normal(30)
    y -= y.mean()
    G = X @ X.T
    resolvent = Ridge(penalty=0.7).resolvent(G, 1.0)
    stacked = np.vstack([X, np.sqrt(resolvent.penalty) * np.eye(5)])
    residual = np.linalg.lstsq(stacked, np.concatenate([y, np.zeros(5)]))[1].item()

    assert resolvent.penalty == pytest.approx(0.7 * np.trace(G) / 30)
    assert y @ y - y @ resolvent.smoother @ y == pytest.approx(residual)


@pytest.mark.parametrize(
    "name", ["laplace", "rational", "inverse-distance", "laplace-l1", "delta", "ridge"]
)
def test_other_arrays_give_the_same_numbers(rng, name):
    X = rng.standard_normal((20, 80))
    X[:, :20] = rng.integers(0, 3, (20, 20))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = kernel_of(name)
    question = question_for(kernel, X, np.arange(20) % 2, "biased")
    facts = facts_of(X)
    engines = [final_engine(question, facts)]
    if engines[0].name == "settled":
        engines = [ExactScoring("taylor", LONGEST_TAYLOR), RadialDirect(), Dense(3, "float32")]
    xp, device = array_api_strict, array_api_strict.Device("device1")
    for engine in engines:
        dtype = getattr(engine, "dtype", "float64")
        state = engine.prepare(question)
        there = state.on(xp, device)
        rows = np.ascontiguousarray(X.T, dtype=dtype)
        moved = xp.asarray(rows, device=device)
        expected = engine.score(state, rows, facts)
        with array_api_strict.ArrayAPIStrictFlags(
            boolean_indexing=False, data_dependent_shapes=False
        ):
            got = host(engine.score(there, moved, facts))
        rounding = 1e-4 if dtype == "float32" else 1e-11
        assert_allclose(got, expected, rtol=0, atol=rounding * np.abs(expected).max())


# -- whole runs ---------------------------------------------------------------------------------


def order_of(model):
    return np.argsort(-model.ranking_, kind="stable").tolist()


@given(data=st.data())
@examples(10)
def test_ranking_is_that_of_the_definition(data, client):
    X = data.draw(matrices(samples=(6, 11), features=(2, 7), missing=True))
    if data.draw(st.booleans()):
        X[1] = X[0]
    same = np.nanmax(X, axis=0) == np.nanmin(X, axis=0)
    X[2, same] = np.where(X[2, same] == 0, 1.0, 0.0)
    y, label_kernel = data.draw(labels(len(X)))
    name = data.draw(st.sampled_from([n for n in naive_kernels.GRAMS if n != "delta"]))
    bandwidth = data.draw(st.sampled_from(POLICIES)) if name != "ridge" else "dimension"
    statistic = data.draw(st.sampled_from(ESTIMATORS))
    step = data.draw(st.sampled_from([0.1, 0.5, 1, 2]))
    runtime = data.draw(st.sampled_from([Threads(1), Threads(3), DaskRuntime(client)]))
    L = naive.label_gram(y.tolist(), label_kernel)
    Z = naive.scaled(X.tolist())

    model = dhsic.BAHSIC(
        n_features_to_select=1,
        step=step,
        kernel=name if name != "kernel-ridge" else KernelRidge(penalty=0.5),
        bandwidth=bandwidth,
        label_kernel=label_kernel,
        statistic=statistic,
        solver=data.draw(st.sampled_from(["exact", "direct", "auto"])),
        dtype=data.draw(st.sampled_from(["float32", "float64"])),
        rerank=False,
        progress=False,
        runtime=runtime,
    ).fit(X, y)

    expected = naive_kernels.bahsic(Z, L, name, bandwidth, statistic, step)
    assert order_of(model) == expected


@given(st.integers(0, 2**31), st.sampled_from(ESTIMATORS), st.sampled_from([0.1, 2]))
def test_ranking_of_categories_is_that_of_the_definition(seed, statistic, step):
    """Categories of several samples: of others the unbiased estimator sees only rounding."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, rng.integers(2, 4), (12, 6)).astype(float)
    X[:, 3] = rng.permutation(np.arange(12) // 2)
    X[:, 4], X[:, 5] = X[:, 0], -X[:, 1]
    X = X[:, np.ptp(X, axis=0) > 0]
    y = rng.integers(0, 3, 12)
    y[:6] = [0, 0, 1, 1, 2, 2]
    L = naive.label_gram(y.tolist(), "multiclass")

    model = fit(X, y, kernel="delta", statistic=statistic, step=step)

    expected = naive_kernels.bahsic(X.tolist(), L, "delta", "dimension", statistic, step)
    assert order_of(model) == expected


@pytest.mark.parametrize("name", sorted(naive_kernels.PROFILES))
@pytest.mark.parametrize("statistic", ESTIMATORS)
def test_ranking_is_that_of_the_definition_where_float32_is_used(name, statistic, rng):
    """Hundreds of features, copies and flips among them: the whole ladder is climbed."""
    X = rng.standard_normal((24, 150))
    X[:, :60] = rng.integers(0, 3, (24, 60))
    X[:, :60] += (np.ptp(X[:, :60], axis=0) == 0) * np.eye(24)[:, :1]
    X[:, 70], X[:, 71] = X[:, 100], 2 - X[:, 101]
    y = (X[:, 90] + X[:, 5] > 1).astype(int)
    Z = np.array(naive.scaled(X.tolist()))

    model = fit(X, y, kernel=name, statistic=statistic)

    expected = naive_kernels.bahsic_in_arrays(Z, label_matrix(y).L, name, statistic)
    assert order_of(model) == expected


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((40, 160))
    X[:, :90] = rng.integers(0, 3, (40, 90))
    X[:, 20:30] = X[:, 40:50]
    X[:, 30:40] = 2 - X[:, 40:50]
    y = (X[:, 5] + X[:, 110] * X[:, 120] + rng.standard_normal(40) > 1).astype(int)
    return X, y


def fit(X, y, **options):
    options = {"progress": False, "runtime": "threads", **options}
    return dhsic.BAHSIC(5, rerank=False, **options).fit(X, y)


@pytest.mark.parametrize("name", NAMES)
def test_threads_and_a_cluster_give_the_same_bits(problem, name, client):
    X, y = problem
    one, four, cluster = (
        fit(X, y, kernel=name, step=0.5, runtime=r)
        for r in (Threads(1), Threads(4), DaskRuntime(client))
    )

    assert_array_equal(four.ranking_, one.ranking_)
    assert_array_equal(four.scores_, one.scores_)
    assert_array_equal(cluster.ranking_, one.ranking_)
    assert_array_equal(cluster.scores_, one.scores_)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "kernel-ridge"])
def test_direct_is_exact(problem, name):
    X, y = problem
    exact, direct = (
        fit(X[:, 60:], y, kernel=name, step=0.5, solver=a) for a in ("exact", "direct")
    )

    assert_array_equal(exact.ranking_, direct.ranking_)
    assert_allclose(exact.scores_, direct.scores_, rtol=1e-6, atol=1e-6 * direct.scores_.max())


def test_a_resumed_run_is_the_same(problem, tmp_path):
    X, y = problem
    for name in ("laplace", "laplace-l1", "ridge"):
        path = tmp_path / name
        whole = fit(X, y, kernel=name, step=0.5)

        rounds = iter(range(3))

        def stop(record, rounds=rounds):
            next(rounds)

        with pytest.raises(StopIteration):
            fit(X, y, kernel=name, step=0.5, checkpoint=path, progress=stop)
        again = fit(X, y, kernel=name, step=0.5, checkpoint=path)
        assert_array_equal(again.ranking_, whole.ranking_)
        assert_array_equal(again.scores_, whole.scores_)


def test_delta_sees_categories_and_not_their_numbers(rng):
    """A code shuffled has the same score; missing is a category of its own."""
    X = rng.integers(0, 4, (80, 12)).astype(float)
    y = (X[:, 7] == 2) | (X[:, 7] == 0)
    shuffled = np.array([3.0, 0.0, 2.0, 1.0])[X.astype(int)]
    shuffled[X == 3] = np.nan
    first, again = (fit(Z, y, kernel="delta") for Z in (X, shuffled))

    assert first.ranking_[7] == 1
    assert_array_equal(again.ranking_, first.ranking_)
    assert_allclose(again.scores_, first.scores_, rtol=1e-9)
    W = weights(label_matrix(y).L)
    expected = [np.sum(W * (x[:, None] == x[None, :])) for x in X.T]
    assert_allclose(first.scores_, expected, rtol=1e-9)


def test_ridge_leaves_out_the_copy(rng):
    """Two halves of a signal and copies of the better half: the copies say nothing more."""
    X = rng.standard_normal((200, 10))
    y = 2 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(200)
    X[:, 2:5] = X[:, [0]] + 0.1 * rng.standard_normal((200, 3))
    ridge = fit(X, y, kernel=Ridge(penalty=1e-2), label_kernel="linear", step=1)
    linear = fit(X, y, kernel="linear", label_kernel="linear", step=1)

    assert ridge.ranking_[1] <= 2
    assert linear.ranking_[1] > 2


# -- what is refused ----------------------------------------------------------------------------


def test_names():
    assert {"laplace", "laplace-l1", "rational", "inverse-distance", "ridge", "delta"} <= set(
        KERNELS
    )
    for name, kind in KERNELS.items():
        assert kind.name == name
        assert isinstance(resolve_kernel(name).parameters(), dict)


def test_parameters_are_numbers():
    @dataclass(frozen=True)
    class OfAKind(RationalQuadratic):
        kind: str = "cubic"

    assert RationalQuadratic(alpha=2.5).parameters() == {"alpha": 2.5}
    with pytest.raises(InputError, match=r"'kind': 'cubic'.*, but runs are identified by numbers"):
        OfAKind().parameters()


@pytest.mark.parametrize(
    ("make", "bad"),
    [
        (RationalQuadratic, {"alpha": 0}),
        (RationalQuadratic, {"alpha": "1"}),
        (InverseDistance, {"eps": -1.0}),
        (InverseDistance, {"eps": np.nan}),
        (Ridge, {"penalty": 0}),
        (Ridge, {"penalty": None}),
        (KernelRidge, {"penalty": np.inf}),
        (KernelRidge, {"inner": Linear()}),
        (KernelRidge, {"inner": LaplaceL1()}),
        (KernelRidge, {"inner": KernelRidge()}),
        (KernelRidge, {"inner": "gaussian"}),
    ],
)
def test_bad_parameters(make, bad):
    with pytest.raises(InputError, match="pass a"):
        make(**bad)


@pytest.mark.parametrize("name", [*NAMES, "gaussian", "linear"])
def test_low_rank_is_for_kernels_that_have_it(name, problem):
    known = name in ("gaussian", "linear")
    assert resolve_kernel(name).low_rank == known
    assert EnginePlan.of("auto", resolve_kernel(name), 4000, 10**6).is_low_rank == known
    check_solver(name, "exact")
    if not known:
        with pytest.raises(InputError, match="solver='lowrank' supports"):
            fit(*problem, kernel=name, solver="lowrank")


@pytest.mark.parametrize("name", ["laplace-l1", "delta", "ridge"])
def test_estimates_refuse_kernels_of_other_sums(name, rng):
    with pytest.raises(InputError, match="not a function of the inner product"):
        dhsic.hsic(rng.standard_normal((8, 2)), np.arange(8) % 2, kernel=name)


@pytest.mark.parametrize("name", ["laplace", "rational", "inverse-distance"])
def test_estimates_take_radial_kernels(name, rng):
    X, y = rng.standard_normal((9, 3)), np.arange(9) % 2
    L = naive.label_gram(y.tolist(), "balanced")
    K = naive_kernels.GRAMS[name](X.tolist(), 0.4, None)

    assert dhsic.hsic(X, y, kernel=name, bandwidth=0.4) == pytest.approx(
        naive.unbiased(K, L), rel=1e-9
    )


class Bells(AbstractKernel):
    """A kernel of one's own that says no more than it must: the Gaussian, as it happens."""

    name = "bells"
    has_bandwidth = True

    def gram(self, inner, rows, columns, sigma):
        return np.exp(-sigma * (rows[:, None] + columns[None, :] - 2 * inner))

    def decrement(self, inner, rows, columns, x, y, sigma):
        change = np.expm1(sigma * (x[:, None] - y[None, :]) ** 2)
        return self.gram(inner, rows, columns, sigma) * change


@pytest.mark.parametrize("statistic", [dhsic.BAHSIC, dhsic.FOHSIC])
@pytest.mark.parametrize("solver", ["auto", "direct"])
def test_a_kernel_of_ones_own_goes_by_the_definition(problem, statistic, solver):
    X, y = problem
    own, known = (
        statistic(5, step=0.3 if statistic is dhsic.BAHSIC else 1, kernel=kernel, solver=how)
        .set_params(progress=False, runtime="threads")
        .fit(X[:, 60:], y)
        for kernel, how in ((Bells(), solver), ("gaussian", "direct"))
    )
    assert_array_equal(own.ranking_, known.ranking_)
    assert_allclose(own.scores_, known.scores_, rtol=1e-7)
    assert dhsic.hsic(X, y, kernel=Bells()) == pytest.approx(dhsic.hsic(X, y), rel=1e-12)


def test_a_kernel_of_ones_own_is_never_of_low_rank(problem):
    assert not EnginePlan.of("auto", Bells(), 4000, 10**6).is_low_rank
    with pytest.raises(InputError, match="solver='lowrank' supports"):
        fit(*problem, kernel=Bells(), solver="lowrank")
    with pytest.raises(InputError, match="no series of order"):
        Bells().expansion(1, 1.0)


def test_parts_of_whole_kernels_are_refused(rng):
    G = np.eye(4)
    for kernel in (Ridge(), KernelRidge(inner=Gaussian())):
        with pytest.raises(InputError, match="whole kernel matrix"):
            kernel.gram(G, np.ones(4), np.ones(4), 1.0)
    with pytest.raises(InputError, match="absolute differences"):
        LaplaceL1().gram(G, np.ones(4), np.ones(4), 1.0)
    with pytest.raises(InputError, match="no series of order"):
        Delta().expansion(1, 1.0)
