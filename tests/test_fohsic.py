"""Forward selection against the definition: Algorithm 2 and its floating form, whatever the way."""

import naive
import naive_kernels
import numpy as np
import pytest
from cases import ESTIMATORS, PLAIN_KERNELS
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import labels, matrices
from test_bahsic import SOURCES, as_source
from thorough import examples

import dhsic
from dhsic.algorithms.fohsic import added
from dhsic.cli import main
from dhsic.engines.increment import Increment, beyond_zero, separable
from dhsic.engines.scoring_problem import FeatureStats, ScoringProblem
from dhsic.errors import CheckpointError, InputError
from dhsic.hsic import weights
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.statistic import Statistic
from dhsic.methods import fohsic as forward_run
from dhsic.results.views import rounds_of_engines
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.storage.checkpoint import Checkpoint


def order_of(model):
    """S-dagger: the features, the first to join first."""
    return np.argsort(model.ranking_, kind="stable").tolist()


@given(data=st.data())
@examples(20)
def test_ranking_is_that_of_the_definition(data, client, tmp_path_factory):
    X = data.draw(matrices(samples=(6, 12), features=(2, 7), missing=True))
    y, label_kernel = data.draw(labels(len(X)))
    kernel = data.draw(st.sampled_from(PLAIN_KERNELS))
    statistic = data.draw(st.sampled_from(ESTIMATORS))
    sigma = data.draw(st.sampled_from([None, 0.4])) if kernel == "gaussian" else None
    step = data.draw(st.sampled_from([1, 2, 0.5]))
    n = data.draw(st.integers(1, X.shape[1]))
    kind = data.draw(st.sampled_from(SOURCES))
    source = as_source(X, kind, data.draw(st.integers(1, 4)), tmp_path_factory.mktemp("source"))
    runtime = data.draw(st.sampled_from([Threads(1), Threads(3), "dask"]))
    L = naive.label_gram(y.tolist(), label_kernel)
    expected = naive.fohsic(naive.scaled(X.tolist()), L, n, kernel, sigma, statistic, step)

    model = dhsic.FOHSIC(
        n,
        step=step,
        kernel=kernel,
        bandwidth=sigma or "dimension",
        label_kernel=label_kernel,
        statistic=statistic,
        progress=False,
        runtime=DaskRuntime(client) if runtime == "dask" else runtime,
    )
    model.fit(source, y, sample_dim=None if kind in ("numpy", "xarray") else _axis(kind))

    assert order_of(model) == expected


def _axis(kind):
    return 1 if kind == "features first" else 0


@given(data=st.data())
@examples(10)
def test_floating_is_that_of_the_definition(data):
    X = data.draw(matrices(samples=(7, 11), features=(4, 7)))
    y, label_kernel = data.draw(labels(len(X)))
    kernel = data.draw(st.sampled_from(["gaussian", "polynomial"]))
    n = data.draw(st.integers(2, X.shape[1]))
    L = naive.label_gram(y.tolist(), label_kernel)
    expected = naive.floating(naive.scaled(X.tolist()), L, n, kernel)

    model = dhsic.FOHSIC(
        n, strategy="floating", kernel=kernel, label_kernel=label_kernel, progress=False
    ).fit(X, y)

    assert order_of(model) == expected


def value_of(Z, T, name, sigma, W, penalty):
    """HSIC(sigma, T) of a kernel of tests/naive_kernels.py."""
    if name == "ridge":
        K = np.array(Z)[:, T] @ np.array(Z)[:, T].T
        return float(np.vdot(W, K @ np.linalg.inv(K + penalty * np.eye(len(K)))))
    return float(np.vdot(W, naive_kernels.GRAMS[name](naive.columns(Z, T), sigma, None)))


@pytest.mark.parametrize("solver", ["auto", "direct"])
@pytest.mark.parametrize(
    "name", ["laplace", "laplace-l1", "rational", "inverse-distance", "delta", "ridge"]
)
@pytest.mark.parametrize("standardize", [True, False])
def test_every_kernel_adds_as_the_definition_says(rng, name, solver, standardize):
    X = rng.standard_normal((13, 6))
    X[:, 1] = rng.integers(0, 3, 13)
    X[:, 4] = X[:, 2]
    y = (X[:, 0] + X[:, 3] ** 2 > 0.5).astype(int)
    X += 2.0
    Z = naive.standardise(X.tolist(), scale=standardize)
    W = weights(np.array(naive.label_gram(y.tolist(), "balanced")))
    S, S_dagger, scores = list(range(6)), [], []
    while S:
        sigma = 1 / (2 * (len(S_dagger) + 1))
        inside = sum(np.mean(np.square([z[j] for z in Z])) for j in S_dagger)
        penalty = inside + np.mean(np.square(Z))
        before = value_of(Z, S_dagger, name, sigma, W, penalty)
        gains = [value_of(Z, [*S_dagger, j], name, sigma, W, penalty) - before for j in S]
        p = naive.largest(gains, 1)[0]
        scores.append(gains[p])
        S_dagger.append(S.pop(p))

    options = {"kernel": name, "solver": solver, "standardize": standardize, "progress": False}
    model = dhsic.FOHSIC(6, **options).fit(X, y)

    assert order_of(model) == S_dagger
    assert_allclose(model.scores_[S_dagger], scores, rtol=1e-7, atol=1e-12)


def wide(rng, m=60, d=300):
    """Continuous, heavy-tailed and few-valued features; the labels see three of them."""
    X = rng.standard_normal((m, d))
    X[:, ::7] = rng.standard_t(2, (m, len(range(0, d, 7))))
    X[:, ::5] = rng.integers(0, 3, (m, len(range(0, d, 5))))
    X[0, ::5], X[1, ::5] = 0, 2
    y = (X[:, 1] + X[:, 2] ** 2 - X[:, 3] > 0.8).astype(int)
    return X, y


@pytest.mark.parametrize("kernel", PLAIN_KERNELS)
def test_expansion_and_definition_agree_on_many_features(rng, kernel):
    X, y = wide(rng)
    fast, direct = (
        dhsic.FOHSIC(8, kernel=kernel, solver=solver, progress=False).fit(X, y)
        for solver in ("auto", "direct")
    )
    assert_array_equal(fast.ranking_, direct.ranking_)
    assert_allclose(fast.scores_, direct.scores_, rtol=1e-9, atol=1e-12)
    if kernel == "gaussian":
        assert rounds_of_engines(fast.result_)["products_float32"].sum() > 0


@pytest.mark.parametrize("step", [1, 0.05])
def test_threads_and_dask_give_the_same_bits(rng, client, step):
    X, y = wide(rng)
    one, three, dask = (
        dhsic.FOHSIC(8, step=step, progress=False, runtime=runtime).fit(X, y)
        for runtime in (Threads(1), Threads(3), DaskRuntime(client))
    )
    for other in (three, dask):
        assert_array_equal(one.ranking_, other.ranking_)
        assert_array_equal(one.scores_, other.scores_)
        assert_array_equal(one.result_["round_hsic"], other.result_["round_hsic"])


class StopError(Exception):
    """Of a run that is stopped."""


@pytest.mark.parametrize("strategy", ["forward", "floating"])
@pytest.mark.parametrize("at", [1, 4, 9])
def test_resumed_is_the_same_to_the_last_bit(rng, tmp_path, strategy, at):
    X, y = wide(rng, d=40)

    def stop(record):
        if record["round"] == at:
            raise StopError

    def fit(**options):
        return dhsic.FOHSIC(10, strategy=strategy, **options).fit(X, y)

    whole = fit(progress=False)
    path = tmp_path / "run.dhsic"
    with pytest.raises(StopError):
        fit(progress=stop, checkpoint=path)
    assert Checkpoint(path).load().round == at
    resumed = fit(progress=False, checkpoint=path)

    assert_array_equal(whole.ranking_, resumed.ranking_)
    assert_array_equal(whole.scores_, resumed.scores_)
    for name in ("round_hsic", "round_engine", "round_sigma"):
        assert_array_equal(whole.result_[name], resumed.result_[name])


def test_floating_takes_features_back():
    """Chance is chosen first where labels are those of a pair; what came by chance goes again."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 12))
    y = ((X[:, 0] * X[:, 1] > 0) ^ (X[:, 2] > 1)).astype(int)
    forward, floating = (
        dhsic.FOHSIC(6, strategy=strategy, progress=False).fit(X, y)
        for strategy in ("forward", "floating")
    )
    back = floating.result_["round_returned"].to_numpy()
    assert any(back)
    assert floating.n_iter_ > forward.n_iter_
    assert sorted(floating.ranking_) == list(range(1, 13))


def test_another_run_is_refused_its_checkpoint(rng, tmp_path):
    X, y = wide(rng, d=20)
    path = tmp_path / "run.dhsic"
    dhsic.FOHSIC(3, checkpoint=path, progress=False).fit(X, y)
    with pytest.raises(
        CheckpointError, match="n_features_to_select is 3 in the checkpoint and 4 here"
    ):
        dhsic.FOHSIC(4, checkpoint=path, progress=False).fit(X, y)
    with pytest.raises(
        CheckpointError, match=r'method is "fohsic" in the checkpoint and "bahsic" here'
    ):
        dhsic.BAHSIC(3, checkpoint=path, progress=False).fit(X, y)


def test_result_says_when_features_joined(rng):
    X, y = wide(rng, d=20)
    X[:, 6] = 4.0
    result = dhsic.FOHSIC(3, progress=False).fit(X, y).result_
    joined = result["round_added"].to_numpy()
    assert "round_removed" not in result
    assert joined[6] == 0 and result["rank"].to_numpy()[6] == 20  # noqa: PT018
    assert sorted(joined[result["selected"].to_numpy()]) == [1, 2, 3]
    assert_array_equal(result["round_n_selected"], [0, 1, 2])
    assert_array_equal(result["round_n_features"], [19, 18, 17])


def test_bandwidths_before_the_first_feature(rng):
    X, y = wide(rng, d=12)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    grid = (0.05, 0.5, 5.0)
    first = dhsic.FOHSIC(2, bandwidth=grid, progress=False).fit(X, y).result_["round_sigma"][0]
    L = naive.label_gram(y.tolist(), "balanced")
    alone = {
        sigma: max(
            naive.value_of(X.tolist(), L, [j], "gaussian", sigma, "unbiased") for j in range(12)
        )
        for sigma in grid
    }
    assert float(first) == max(alone, key=alone.get)
    median = dhsic.FOHSIC(2, bandwidth="median", progress=False).fit(X, y).result_["round_sigma"]
    assert median[0] == pytest.approx(1 / (2 * 0.9099))
    chosen = int(np.argmin(dhsic.FOHSIC(1, bandwidth="median", progress=False).fit(X, y).ranking_))
    assert median[1] == pytest.approx(naive.median_sigma(X[:, [chosen]].tolist()))


@given(
    sigma=st.floats(1e-4, 2.0),
    peak=st.floats(0.05, 10.0),
    tolerance=st.sampled_from([1e-2, 1e-5, 1e-8, 1e-14]),
)
def test_separable_is_the_kernel_to_what_it_says_it_leaves(sigma, peak, tolerance):
    basis = separable(Gaussian(), sigma, peak)
    assert basis is not None
    x = np.linspace(-peak, peak, 41)
    r = basis.n_terms(tolerance)
    f = basis.functions(x[None, :], r)[:, 0] if r else np.zeros((0, 41))
    R = beyond_zero(Gaussian(), x[:, None], x[None, :], sigma)
    error = np.abs(R - f.T @ f)
    left = np.maximum(np.diagonal(R) - (f * f).sum(axis=0), 0)

    assert (error <= np.sqrt(np.multiply.outer(left, left)) + 1e-12 * max(1, R.max())).all()
    assert basis.left[r] <= max(tolerance, basis.left[-1])


@given(data=st.data())
def test_error_bounds_hold(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    m, d = 50, 6
    Z = rng.standard_normal((d, m)) * rng.uniform(0.2, 2, (d, 1))
    inside = rng.standard_normal((m, data.draw(st.integers(0, 4))))
    W = rng.standard_normal((m, m))
    question = ScoringProblem(
        Gaussian(), data.draw(st.floats(0.005, 0.6)), W + W.T, Statistic.of(inside @ inside.T)
    )
    facts = FeatureStats(np.abs(Z).max(axis=1), (Z**4).mean(axis=1), np.zeros(d, dtype=np.uint8))
    engine = Increment(m * data.draw(st.sampled_from([1e-1, 1e-3, 1e-5])), "float32")
    found = engine.score(engine.prepare(question), Z.astype(np.float32), facts)
    last = Increment()
    exact = last.score(last.prepare(question), Z, facts)[:, 0]

    assert (np.abs(found[:, 0] - exact) <= found[:, 1]).all()


@pytest.mark.parametrize("label_kernel", ["balanced", "gaussian"])
def test_low_rank_is_exact_where_landmarks_are_all_samples(rng, label_kernel):
    X, y = wide(rng)
    y = y if label_kernel == "balanced" else X[:, 1] + X[:, 2] ** 2 + 0.1 * X[:, 9]
    options = {"label_kernel": label_kernel, "progress": False}
    low = dhsic.FOHSIC(8, solver="lowrank", **options).fit(X, y)
    exact = dhsic.FOHSIC(8, solver="exact", **options).fit(X, y)
    chosen = exact.support_
    assert_array_equal(low.ranking_[chosen], exact.ranking_[chosen])
    assert_allclose(low.scores_[chosen], exact.scores_[chosen], rtol=1e-4)
    assert low.result_["round_relative_error"].max() < 1e-3
    assert low.result_["round_engine"].to_numpy()[0].startswith("low rank")


@pytest.fixture(scope="module")
def many():
    """More samples than landmarks."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((900, 48))
    X[:, ::6] = rng.integers(0, 3, (900, 8))
    s = X[:, 1] + X[:, 2] ** 2 - X[:, 3] + np.sin(3 * X[:, 4]) + X[:, 6]
    return X, (s + rng.standard_normal(900) > np.median(s)).astype(int)


def test_low_rank_chooses_as_the_definition_and_says_how_sure_it_is(many):
    X, y = many
    low, exact = (
        dhsic.FOHSIC(7, solver=solver, progress=False).fit(X, y) for solver in ("lowrank", "exact")
    )
    assert_array_equal(np.argsort(low.ranking_)[:7], np.argsort(exact.ranking_)[:7])
    chosen = exact.support_
    assert_allclose(low.scores_[chosen], exact.scores_[chosen], rtol=0.02)
    assert low.result_["round_relative_error"].max() < 0.1
    assert low.result_["round_cut_error"][:-1].max() < 0.1
    assert low.result_["round_rank"].max() == 256


def test_low_rank_gives_the_same_bits_everywhere(many, client, tmp_path):
    X, y = many

    def stop(record):
        if record["round"] == 3:
            raise StopError

    def fit(**options):
        return dhsic.FOHSIC(4, solver="lowrank", **{"progress": False} | options).fit(X, y)

    one, dask = fit(runtime=Threads(1)), fit(runtime=DaskRuntime(client))
    with pytest.raises(StopError):
        fit(progress=stop, checkpoint=tmp_path / "run")
    for other in (dask, fit(checkpoint=tmp_path / "run"), fit(runtime=Threads(3))):
        assert_array_equal(one.ranking_, other.ranking_)
        assert_array_equal(one.scores_, other.scores_)
        assert_array_equal(one.result_["round_cut_error"], other.result_["round_cut_error"])


def test_many_samples_take_low_rank_by_themselves(monkeypatch, many):
    monkeypatch.setattr(forward_run, "MOST_SAMPLES", 500)
    X, y = many
    automatic = dhsic.FOHSIC(3, progress=False).fit(X, y)
    asked = dhsic.FOHSIC(3, solver="lowrank", progress=False).fit(X, y)
    assert_array_equal(automatic.ranking_, asked.ranking_)
    assert automatic.result_.attrs["promised_bytes"] > 0


def test_steps():
    assert added(1, 10, 3) == 1
    assert added(1, 10, 1) == 10
    assert added(0.5, 10, 9) == 5
    assert added(4, 10, 4) == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "sideways"}, "strategy='sideways' is unknown"),
        ({"strategy": "floating", "step": 2}, "adds one feature per round"),
        ({"solver": "fast"}, "solver='fast' is unknown"),
        ({"solver": "lowrank", "kernel": "polynomial"}, "needs the gaussian kernel"),
        ({"solver": "lowrank", "strategy": "floating"}, "needs strategy='forward'"),
        ({"kernel": dhsic.kernels.KernelRidge()}, "does not work in forward selection"),
        ({"strategy": "floating", "kernel": "laplace-l1"}, "kernel of inner products"),
        ({"step": 0}, "step=0"),
        ({"n_features_to_select": 0}, "n_features_to_select=0"),
        ({"kernel": "linear", "bandwidth": 0.5}, "has no width"),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(rng, options, words):
    X, y = wide(rng, d=8)
    with pytest.raises(InputError, match=words):
        dhsic.FOHSIC(**{"n_features_to_select": 3} | options).fit(X, y)


def test_command_line(rng, tmp_path):
    path = str(tmp_path / "g.vcz")
    run = CliRunner().invoke
    assert run(main, ["simulate", path, "--samples", "60", "--variants", "300"]).exit_code == 0
    options = ["select", path, "--target", "sample_trait", "-n", "3", "--method", "fohsic"]
    outcome = run(main, [*options, "--checkpoint", str(tmp_path / "run.dhsic")])
    assert outcome.exit_code == 0, outcome.output
    assert "FOHSIC with the gaussian kernel" in outcome.stderr
    again = run(main, ["resume", str(tmp_path / "run.dhsic")])
    assert again.stdout == outcome.stdout
    refused = run(main, [*options, "--max-expected-loss", "0.1"])
    assert refused.exit_code != 0
    assert "--max-expected-loss does not apply to --method fohsic" in refused.stderr


def test_long_runs_take_float32_first(rng, monkeypatch):
    monkeypatch.setattr("dhsic.engines.refine.MOST_AT_ONCE", 4)
    X, y = wide(rng)
    engines = dhsic.FOHSIC(4, progress=False).fit(X, y).result_["round_engine"].to_numpy()
    assert all(engine.startswith("float32") for engine in engines[:-1])
    assert engines[-1].startswith("exact")
