"""Descent over weights: projections, objectives and gradients against loops, runs end to end."""

import dataclasses
import logging
from functools import cache
from itertools import pairwise

import naive_weighting as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear, minimize
from scipy.spatial.distance import pdist
from sklearn.base import clone
from stores import write_matrix
from strategies import matrices
from thorough import examples

from dhsic import CCM, FeatureWeighting
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.lowrank.base import random_directions
from dhsic.methods.ccm import WithInverse, WithoutInverse
from dhsic.methods.descent import sigma_of
from dhsic.methods.weighting import ZeroNorm
from dhsic.passes.weighted import WeightedSource
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection import conductor
from dhsic.selection.run import SelectionRun
from dhsic.sources.arrays import ArraySource
from dhsic.sources.opening import open_source
from dhsic.storage.checkpoint import Checkpoint
from dhsic.weighting import Evaluation, ProjectedGradient, Region
from dhsic.weighting.centred import FourierCentred, FullCentred

SIGMA, EPSILON, STRICTNESS, PRICE, D, SEED = 0.07, 0.02, 30.0, 0.3, 6, 5


# -- projection ---------------------------------------------------------------------------------

vectors = st.lists(
    st.one_of(st.floats(-3, 3), st.sampled_from([0.0, 1.0, 0.5, 2.0])), min_size=1, max_size=8
).map(np.array)


@given(vectors, st.floats(0.05, 9))
def test_the_projection_is_the_nearest_point(v, budget):
    w = Region(total=budget).project(v)
    assert w.min() >= 0
    assert w.max() <= 1
    assert w.sum() <= budget * (1 + 1e-12)
    found = minimize(
        lambda x: ((x - v) ** 2).sum(),
        np.full(v.size, min(1.0, budget / v.size)),
        jac=lambda x: 2 * (x - v),
        method="SLSQP",
        bounds=[(0, 1)] * v.size,
        constraints={
            "type": "ineq",
            "fun": lambda x: budget - x.sum(),
            "jac": lambda x: -1 + 0 * x,
        },
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert ((w - v) ** 2).sum() <= found.fun + 1e-9
    assert_allclose(w, found.x, atol=1e-5)


@given(vectors, st.floats(0.05, 9), st.integers(0, 2**32 - 1))
def test_no_point_of_the_set_lies_on_the_side_of_v(v, budget, seed):
    """The variational inequality that characterises a projection on a convex set."""
    w = Region(total=budget).project(v)
    others = np.random.default_rng(seed).uniform(size=(50, v.size))
    others *= np.minimum(1.0, budget / others.sum(axis=1, keepdims=True))
    assert ((others - w) @ (v - w) <= 1e-9).all()


def test_equal_entries_and_those_on_an_edge_share_what_there_is():
    assert_array_equal(Region(total=2.0).project(np.full(4, 7.0)), np.full(4, 0.5))
    assert_array_equal(Region(total=2.0).project(np.array([5.0, 4.0, -1.0])), [1.0, 1.0, 0.0])
    assert_array_equal(Region(np.inf).project(np.array([-1.0, 3.0])), [0.0, 3.0])


# -- descent ------------------------------------------------------------------------------------


class Squares:
    """||A x - b||^2 / 2."""

    def __init__(self, A, b):
        self.A, self.b = A, b

    def at(self, x):
        r = self.A @ x - self.b
        return Evaluation(float(r @ r) / 2, lambda: self.A.T @ r)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_descent_finds_the_minimum_of_a_convex_function(seed, n):
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((n + 4, n)), 3 * rng.standard_normal(n + 4)
    descent = ProjectedGradient(Squares(A, b).at, Region())
    first = descent.begin(np.full(n, 0.5))
    states = list(descent.steps(first, 1e-9))
    known = lsq_linear(A, b, (0, 1), method="bvls", tol=1e-14)
    last = states[-1] if states else first
    assert last.value <= known.cost + 1e-8
    assert all(s.value <= Squares(A, b).at(np.full(n, 0.5)).value for s in states)
    assert [s.iteration for s in states] == list(range(1, len(states) + 1))


def test_descent_goes_on_from_any_state_as_if_nothing_had_happened(rng):
    squares = Squares(rng.standard_normal((9, 6)), rng.standard_normal(9))
    descent = ProjectedGradient(squares.at, Region(total=2.0))
    states = list(descent.steps(descent.begin(np.full(6, 1 / 3)), 1e-10))
    assert len(states) > 3
    for k, state in enumerate(states[:-1]):
        again = type(state).restored(state.iteration, state.arrays())
        for ours, theirs in zip(states[k + 1 :], descent.steps(again, 1e-10), strict=True):
            assert_array_equal(ours.point, theirs.point)
            assert ours.recent == theirs.recent


def test_descent_ends_where_rounding_is_all_that_is_left():
    def flat(x):
        return Evaluation(0.0, lambda: np.ones_like(x))  # a gradient that promises in vain

    descent = ProjectedGradient(flat, Region())
    assert list(descent.steps(descent.begin(np.array([0.5])), 1e-9)) == []


# -- objectives ---------------------------------------------------------------------------------


def weighted(X, seed=SEED, runtime=None):
    """The features of X as they are, as a source hands them over."""
    data = WeightedSource(ArraySource(X), runtime or Threads(1), standardize=False, seed=seed)
    data.measure()
    return data


def phases(n=D):
    return np.random.default_rng(SEED).uniform(0, 2 * np.pi, n)


@st.composite
def problems(draw):
    """Samples, weights and centred targets."""
    X = draw(matrices(samples=(5, 8), features=(2, 4)))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    w = rng.uniform(0.1, 1, X.shape[1])
    y = rng.permutation(np.arange(len(X)) % draw(st.integers(2, 3)))
    Y = (
        naive.class_targets(y.tolist())
        if draw(st.booleans())
        else naive.real_targets(rng.standard_normal(len(X)).tolist())
    )
    return X, w, np.array(Y)


def kernels_of(X, is_fourier):
    """G_w as the package has it, and K_w by loops."""
    data = weighted(X)
    if not is_fourier:
        return FullCentred.over(data, SIGMA), lambda w: naive.gram(X.tolist(), w, SIGMA)
    omega = random_directions(SEED, np.arange(X.shape[1]), D).tolist()
    return (
        FourierCentred.over(data, SIGMA, D, SEED),
        lambda w: naive.fourier_gram(X.tolist(), w, SIGMA, omega, phases().tolist()),
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("inverse", ["exact", "none"])
@pytest.mark.parametrize("is_fourier", [False, True])
@examples(3)
@given(problems())
def test_every_variant_is_its_definition_and_so_is_its_gradient(is_fourier, inverse, soft, problem):
    X, w, Y = problem
    centring, gram = kernels_of(X, is_fourier)
    ridge = len(X) * EPSILON
    if inverse == "exact":
        objective = WithInverse(centring, Y, ridge)

        def value(w):
            return naive.conditional_trace(gram(w), Y.tolist(), EPSILON)
    else:
        objective = WithoutInverse(centring, Y, ridge, STRICTNESS)

        def value(w):
            K = gram(w)
            alpha = naive.best_alpha(K, Y.tolist(), EPSILON, STRICTNESS)
            return naive.relation(K, Y.tolist(), EPSILON, alpha, STRICTNESS)

    price = PRICE if soft else 0.0
    if soft:
        objective = dataclasses.replace(objective, price=PRICE, budget=2.0)

    def whole(w):
        return value(w) + naive.soft_price(w, price, 2.0)

    found = objective.at(w)
    assert_allclose(found.value, whole(w.tolist()), rtol=1e-7)
    slopes = [naive.slope(whole, w.tolist(), j, 1e-4) for j in range(w.size)]
    assert_allclose(found.gradient(), slopes, rtol=2e-5, atol=2e-5 * np.abs(slopes).max())


@examples(6)
@given(problems())
def test_the_gradient_is_the_chain_rule(problem):
    X, w, Y = problem
    found = WithInverse(FullCentred.over(weighted(X), SIGMA), Y, len(X) * EPSILON).at(w).gradient()
    known = naive.conditional_gradient(X.tolist(), w.tolist(), SIGMA, Y.tolist(), EPSILON)
    assert_allclose(found, known, rtol=1e-8, atol=1e-9 * np.abs(known).max())


@examples(6)
@given(problems(), st.data())
def test_no_other_alpha_is_better(problem, data):
    X, w, Y = problem
    objective = WithoutInverse(
        FullCentred.over(weighted(X), SIGMA), Y, len(X) * EPSILON, STRICTNESS
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    K = naive.gram(X.tolist(), w.tolist(), SIGMA)
    alpha = naive.best_alpha(K, Y.tolist(), EPSILON, STRICTNESS)
    other = alpha + 0.1 * rng.standard_normal(Y.shape)
    value = naive.relation(K, Y.tolist(), EPSILON, other.tolist(), STRICTNESS)
    assert objective.at(w).value <= value


def test_slopes_are_derivatives_by_squares_also_where_a_weight_is_0(rng):
    X, w = rng.standard_normal((8, 4)), np.array([0.7, 0.0, 0.4, 0.0])
    Y = rng.standard_normal((8, 2))
    Y -= Y.mean(axis=0)
    objective = WithInverse(FullCentred.over(weighted(X), SIGMA), Y, 8 * EPSILON)
    slopes = objective.slopes(w)
    for j in (1, 3):
        v = w.copy()
        v[j] = 1e-4
        rise = (objective.at(v).value - objective.at(w).value) / 1e-8
        assert_allclose(slopes[j], rise, rtol=1e-4)
    assert_allclose(objective.at(w).gradient(), 2 * w * slopes)


def test_random_features_tend_to_the_kernel(rng):
    X, w = rng.standard_normal((12, 3)), np.array([1.0, 0.5, 0.0])
    Z = rng.standard_normal((12, 2))
    full = FullCentred.over(weighted(X), 0.3)(w)
    some = FourierCentred.over(weighted(X), 0.3, 8_000, SEED)(w)
    assert_allclose(some.times(Z), full.times(Z), atol=0.15)


def test_random_features_do_not_depend_on_the_cut(rng):
    """More features than one generator draws numbers for, some of weight 0."""
    X = rng.standard_normal((6, 2500))
    w = rng.uniform(0, 1, 2500) * (rng.uniform(size=2500) < 0.7)
    omega = random_directions(SEED, np.arange(2500), D)
    B = rng.standard_normal((D, 6))
    C = X - X.mean(axis=0)
    for runtime in (Threads(1), Threads(3)):
        data = weighted(X, runtime=runtime)
        assert_allclose(data.projections(w, D), omega @ (C * w).T, rtol=1e-9, atol=1e-9)
        assert_allclose(data.pulls(B), np.vecdot(C.T @ B.T, omega.T), rtol=1e-9, atol=1e-9)
    assert_array_equal(weighted(X).projections(np.zeros(2500), D), np.zeros((D, 6)))


# -- feature weighting --------------------------------------------------------------------------


@st.composite
def weighting_problems(draw):
    X, w, Y = draw(problems())
    W = weights(Y @ Y.T, draw(st.sampled_from(["biased", "unbiased"])))
    penalty = draw(st.sampled_from([1e-3, 1e-2, 0.1]))
    return X, w, W / np.abs(W).sum(), penalty


@examples(8)
@given(weighting_problems())
def test_the_objective_of_weighting_is_its_definition(problem):
    X, w, W, penalty = problem
    norm = ZeroNorm(weighted(X), W, SIGMA, penalty, 5.0)
    known = naive.weighting(X.tolist(), w.tolist(), SIGMA, W.tolist(), penalty, 5.0)
    assert_allclose(norm.begin(w).value, known, rtol=1e-9, atol=1e-12)


@examples(6)
@given(weighting_problems())
def test_the_tangent_touches_the_objective_and_lies_below(problem):
    X, w, W, penalty = problem
    norm = ZeroNorm(weighted(X), W, SIGMA, penalty, 5.0)
    tangent = norm.tangent(w, norm.gram(w))

    def parts(v):
        return naive.parts(X.tolist(), np.sqrt(v).tolist(), SIGMA, W.tolist(), penalty, 5.0)

    v0 = w * w
    slopes = [naive.slope(lambda v: parts(v)[0], v0.tolist(), j, 1e-4) for j in range(w.size)]
    assert_allclose(tangent.c, slopes, rtol=1e-4, atol=1e-4 * np.abs(slopes).max())
    h = [naive.slope(lambda v: parts(v)[1], v0.tolist(), j, 1e-4) for j in range(w.size)]
    scale = np.abs([*slopes, *h]).max()
    assert_allclose(tangent.at(v0).gradient(), np.subtract(h, slopes), atol=1e-4 * scale)
    g0 = parts(v0)[0]
    for factor in (0.2, 0.9, 1.5, 4.0):
        v = v0 * factor
        below = g0 + tangent.c @ (v - v0)
        assert below <= parts(v)[0] + 1e-12


@pytest.mark.filterwarnings("ignore:All weights are 0")
@examples(8)
@given(weighting_problems(), st.booleans())
def test_the_objective_of_weighting_never_falls(problem, with_zeros):
    X, w, W, penalty = problem
    if with_zeros:
        w[0] = 0.0
    norm = ZeroNorm(weighted(X), W, SIGMA, penalty, 5.0)
    states = [norm.begin(w)]
    for state in norm.steps(states[0], 1e-6):
        states.append(state)
        if state.iteration == 15:
            break
    values = [state.value for state in states]
    assert all(b >= a - 1e-12 for a, b in pairwise(values))
    zeros = [frozenset(np.flatnonzero(state.w == 0)) for state in states]
    assert all(a <= b for a, b in pairwise(zeros))


# -- the data of CCM 6.1 ------------------------------------------------------------------------


def shell(rng, n=100):
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 10))
    for i in np.flatnonzero(y):
        while not 9 <= (X[i, :4] ** 2).sum() <= 16:
            X[i, :4] = rng.standard_normal(4)
    return X, y, 4


def cube(rng, n=100):
    v = rng.choice([-1, 1], (n, 3))
    X = rng.standard_normal((n, 10))
    X[:, :3] = v + np.sqrt(0.5) * rng.standard_normal((n, 3))
    return X, 2 * (v[:, 0] * v[:, 2] > 0) + (v[:, 1] * v[:, 2] > 0), 3


def additive(rng, n=100):
    X = rng.standard_normal((n, 10))
    signal = -2 * np.sin(2 * X[:, 0]) + np.maximum(X[:, 1], 0) + X[:, 2] + np.exp(-X[:, 3])
    return X, signal + rng.standard_normal(n), 4


def execute(X, y, parameters, runtime=None, **options):
    source = ArraySource(X) if isinstance(X, np.ndarray) else X
    rows, covariates = options.pop("rows", None), options.pop("covariates", None)
    asked = clone(parameters).set_params(**options)
    runtime = runtime or Threads(1)
    run = SelectionRun(asked, source, y, runtime, covariates=covariates, rows=rows)
    return conductor.execute(run)


VARIANTS = {
    "eq. 17": {},
    "eq. 18": {"constraint": "soft"},
    "eq. 19": {"inverse": "none"},
    "eq. 20": {"approximation": "random_features", "n_random_features": 100},
    "all": {
        "constraint": "soft",
        "inverse": "none",
        "approximation": "random_features",
        "n_random_features": 100,
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("draw", "epsilon", "worst"), [(shell, 1e-3, 0), (cube, 1e-3, 0), (additive, 0.1, 0.5)]
)
def test_relevant_features_come_first(draw, epsilon, worst, variant):
    """In most seeds; additive data of 100 samples do not always show the second (CCM Figure 1)."""
    above = []
    for seed in range(3):
        X, y, n = draw(np.random.default_rng(seed))
        parameters = CCM(n_features_to_select=n, epsilon=epsilon, **VARIANTS[variant])
        best_first = execute(X, y, parameters).order.features[::-1]
        ranks = 1 + np.flatnonzero(np.isin(best_first, np.arange(n)))
        above.append(np.median(ranks) - (n + 1) / 2)
    assert np.median(above) <= worst


@pytest.mark.parametrize("draw", [shell, cube])
def test_weighting_finds_features_that_say_nothing_alone(draw):
    X, y, n = draw(np.random.default_rng(0))
    order = execute(X, y, FeatureWeighting()).order
    assert set(order.features[-3:]) <= set(range(n))
    assert [record["objective"] for record in order.history] == sorted(
        record["objective"] for record in order.history
    )


# -- runs ---------------------------------------------------------------------------------------

still_changing = pytest.mark.filterwarnings("ignore:The weights have not converged")

METHODS = {
    **{
        name: CCM(
            n_features_to_select=8,
            tol=1e-3,
            max_iterations=8,
            **options | {"n_random_features": 15},
        )
        for name, options in VARIANTS.items()
    },
    "weighting": FeatureWeighting(start="random", max_iterations=6),
}


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X, y, _ = cube(rng, 60)
    noise = rng.standard_normal((60, 190))
    return np.hstack([X, noise]).astype(np.float32), y


def same(a, b):
    assert_array_equal(a.order.features, b.order.features)
    assert_array_equal(a.order.scores, b.order.scores)
    assert_array_equal(a.order.extra["potential"][0], b.order.extra["potential"][0])
    told = ("objective", "residual", "n_evaluations", "n_nonzero")
    assert [[r[k] for k in told] for r in a.order.history] == [
        [r[k] for k in told] for r in b.order.history
    ]


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "X.zarr"
    write_matrix(path, problem[0], chunks=(25, 60), dims=("features", "samples"))
    return open_source(str(path), n_samples=60)


@pytest.fixture(scope="module")
def alone(problem, store):
    """Run of a method by one thread, most features being read from the store for ever."""

    @cache
    def of(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dhsic.passes.reader.COMPACT_BYTES", 4000)
            return execute(store, problem[1], METHODS[name])

    return of


@still_changing
@pytest.mark.parametrize("name", sorted(set(METHODS) - {"eq. 19"}))  # "all" has it
def test_threads_and_dask_agree_to_the_last_bit(name, problem, store, alone, client, monkeypatch):
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 4000)  # few features fit in memory
    y, parameters, one = problem[1], METHODS[name], alone(name)
    with Threads(3) as runtime:
        same(one, execute(store, y, parameters, runtime))
    with DaskRuntime(client) as runtime:
        same(one, execute(store, y, parameters, runtime))
    read = [record["bytes_read"] for record in one.order.history]
    assert read[-1] < read[0]
    assert sorted(one.order.features) == list(range(200))


class Killed(BaseException):
    """A run that dies after some steps."""


def die_after(k):
    def hook(record):
        if record["round"] == k:
            raise Killed

    return hook


@still_changing
@pytest.mark.parametrize("name", ["eq. 17", "all", "weighting"])
def test_a_killed_run_goes_on_to_the_same_bits(name, problem, store, alone, tmp_path, monkeypatch):
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 4000)
    y, parameters, whole = problem[1], METHODS[name], alone(name)
    assert len(whole.order.history) >= 3
    path = str(tmp_path / "run")
    for k in sorted({1, 2, len(whole.order.history) - 1, len(whole.order.history)}):
        with pytest.raises(Killed):
            execute(store, y, parameters, checkpoint=path, progress=die_after(k))
    same(whole, execute(store, y, parameters, checkpoint=path))
    same(whole, execute(store, y, parameters, checkpoint=path))
    assert Checkpoint(path).is_complete()


@still_changing
def test_damaged_weights_cost_a_step_and_old_ones_are_not_kept(problem, tmp_path, caplog):
    X, y = problem
    path, parameters = tmp_path / "run", METHODS["eq. 17"]
    with pytest.raises(Killed):
        execute(X, y, parameters, checkpoint=str(path), progress=die_after(3))
    kept = sorted(p.parent.name for p in (path / "rounds").glob("*/point"))
    assert kept == ["000002", "000003"]
    file = next(p for p in (path / "rounds/000003/point").rglob("*") if p.name == "0")
    file.write_bytes(file.read_bytes()[:-4] + b"lost")
    with caplog.at_level(logging.WARNING):
        assert Checkpoint(path).load().round == 2
        same(execute(X, y, parameters), execute(X, y, parameters, checkpoint=str(path)))
    assert "round 3 of 3 is damaged" in caplog.text
    assert "Resuming from round 2" in caplog.text


def test_more_steps_may_be_asked_for_later(problem, tmp_path):
    X, y = problem
    parameters = dataclasses.replace(METHODS["eq. 17"], max_iterations=50)
    few = dataclasses.replace(parameters, max_iterations=2)
    path = str(tmp_path / "run")
    with pytest.warns(UserWarning, match=r"after 2 steps.*larger max_iterations="):
        assert len(execute(X, y, few, checkpoint=path).order.history) == 2
    same(execute(X, y, parameters), execute(X, y, parameters, checkpoint=path))


def test_sigma_is_that_of_the_paper(rng):
    X, _, _ = shell(rng)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    data = WeightedSource(ArraySource(X), Threads(1))
    data.measure()
    scale = np.sqrt(np.median(pdist(Z) ** 2)) / np.sqrt(2)  # "scaled by 1 / sqrt(2)"
    found = CCM(n_features_to_select=4).centring(data)(np.ones(10)).sigma
    assert_allclose(found, 1 / (2 * scale**2), rtol=1e-9)
    assert sigma_of(data, "dimension") == 1 / 20
    assert sigma_of(data, 0.3) == 0.3


def test_rows_missing_values_constants_and_covariates_take_part(rng):
    X, y, n = shell(rng)
    X[rng.uniform(size=X.shape) < 0.02] = np.nan
    X = np.column_stack([np.ones(100), X])
    rows = np.sort(rng.permutation(100)[:90])
    parameters = CCM(n_features_to_select=n, approximation="random_features")
    C = rng.standard_normal((90, 1))
    for asked in (parameters, CCM(n_features_to_select=n), FeatureWeighting()):
        found = execute(X, y[rows], asked, rows=rows, covariates=C)
        assert_array_equal(np.sort(found.worst_first), np.arange(11))
        assert found.worst_first[0] == 0
        part = execute(X[rows], y[rows], asked, covariates=C)
        same(found, part)


def test_covariates_explain_what_they_can(rng):
    X = rng.standard_normal((80, 6))
    y = 3 * X[:, 0] + X[:, 1]
    first = execute(X, y, CCM(n_features_to_select=1)).order.features[-1]
    assert first == 0
    assert execute(X, y, CCM(n_features_to_select=1), covariates=X[:, :1]).order.features[-1] == 1
    with pytest.raises(InputError, match="explain target 0 completely"):
        execute(X, X[:, 0], CCM(n_features_to_select=1), covariates=X[:, :1])


def test_labels_are_read_by_the_kernels_of_the_paper(rng):
    X, y, n = cube(rng)
    auto = execute(X, y, CCM(n_features_to_select=n))
    assert auto.label_kernel == "delta"
    given = (y[:, None] == y[None, :]).astype(float)
    other = execute(X, given, CCM(n_features_to_select=n, label_kernel="precomputed"))
    assert_allclose(other.order.scores, auto.order.scores, atol=1e-6)
    real = rng.standard_normal(100)
    assert execute(X, real, CCM(n_features_to_select=n)).label_kernel == "linear"
    with pytest.raises(InputError, match="negative eigenvalues"):
        execute(X, -given, CCM(n_features_to_select=n, label_kernel="precomputed"))


def test_equal_weights_are_told_apart_by_their_potential(rng):
    """With room for all features, all weights are 1 and the ranking is not by number."""
    X, y, n = cube(rng)
    best_first = execute(X[:, ::-1].copy(), y, CCM(n_features_to_select=10)).order.features[::-1]
    assert set(best_first[:n]) == {7, 8, 9}


def test_a_penalty_that_nothing_is_worth_is_told(rng):
    X, y, _ = cube(rng)
    with pytest.warns(UserWarning, match=r"All weights are 0 with penalty=5.*a smaller penalty"):
        order = execute(X, y, FeatureWeighting(penalty=5.0)).order
    assert not order.scores.any()
    assert sorted(order.features) == list(range(10))


def test_weights_of_0_are_read_no_more(problem, store, monkeypatch):
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)
    data = WeightedSource(store, Threads(1))
    data.measure()
    w = np.where(np.arange(200) % 20 == 3, 0.5, 0.0)
    before = data.statistic(w).to_dense()
    n_bytes = data.bytes_read
    data.compact(w)
    assert_allclose(data.statistic(w).to_dense(), before, rtol=1e-12, atol=1e-12)
    assert data.bytes_read - n_bytes == 10 * 60 * 4
    A = np.eye(60)
    assert_allclose(data.spreads(A, w != 0)[w != 0], data.spreads(A, w >= 0)[w != 0], atol=1e-9)
    data.close()


def test_a_singular_matrix_is_told(rng):
    X, y, n = cube(rng)
    X[50:], y[50:] = X[:50], y[:50]
    with pytest.raises(InputError, match="singular to working precision; pass a larger epsilon"):
        execute(X, y, CCM(n_features_to_select=n, epsilon=1e-30))


def test_a_loose_relation_is_told(rng):
    X, y, n = cube(rng)
    with pytest.warns(UserWarning, match=r"lambda_2=1 is at most 1 / \(2 n epsilon\) = 5"):
        execute(X, y, CCM(n_features_to_select=n, inverse="none", lambda_2=1.0))


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [
        (CCM, {"constraint": "firm"}, r"constraint='firm' is unknown; pass 'hard' or"),
        (CCM, {"inverse": None}, "inverse=None is unknown"),
        (CCM, {"approximation": "nystrom"}, "pass None or 'random_features'"),
        (CCM, {"epsilon": 0}, r"epsilon=0; pass a number above 0\."),
        (CCM, {"lambda_2": float("nan")}, "lambda_2=nan; pass a number"),
        (CCM, {"n_random_features": 0}, r"n_random_features=0; pass a whole number"),
        (CCM, {"bandwidth": [0.1, 1]}, "is a grid, but descent over weights needs one"),
        (CCM, {"n_features_to_select": 0}, "n_features_to_select=0"),
        (FeatureWeighting, {"penalty": "high"}, "penalty='high'; pass a number above 0"),
        (FeatureWeighting, {"start": "zero"}, r"start='zero' is unknown; pass 'uniform'"),
        (FeatureWeighting, {"max_iterations": 1.5}, "max_iterations=1.5; pass a whole"),
        (FeatureWeighting, {"tol": True}, "tol=True; pass a number"),
    ],
)
def test_what_is_unknown_is_refused_with_a_sentence(kind, wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        kind(**wrong).check()


def test_what_has_no_effect_is_no_part_of_the_identity():
    assert CCM().identity() == CCM(lambda_1=7, lambda_2=7).identity()
    soft = CCM(constraint="soft")
    assert soft.identity() != dataclasses.replace(soft, lambda_1=7).identity()
    assert "CCM (500 random features)" in CCM(approximation="random_features").described()
    assert FeatureWeighting().described().startswith("feature weighting by biased HSIC")


def test_the_promise_holds_squares_or_thin_matrices(problem):
    X, y = problem

    def promised(parameters):
        return execute(X, y, parameters).promise

    thin = promised(dataclasses.replace(METHODS["eq. 20"], tol=1.0))
    full = promised(dataclasses.replace(METHODS["eq. 17"], tol=1.0))
    assert full.squares > 0
    assert full.landmarks == 0
    assert thin.landmarks >= 8 * 15 * 60
    with pytest.raises(MemoryError, match="peak memory of this run is at most"):
        execute(X, y, METHODS["eq. 17"], memory_limit=1 << 20)
