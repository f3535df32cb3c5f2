"""Lazy rounds: gains of an earlier round, moved to where the kernel is now."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import dhsic
from dhsic.engines.dense import Dense
from dhsic.engines.direct import Direct
from dhsic.engines.refine import LAZY
from dhsic.engines.scoring_problem import FeatureStats, ScoringProblem
from dhsic.hsic import weights
from dhsic.kernels import Gaussian, Laplace, Linear, Polynomial
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.statistic import Statistic
from dhsic.passes import score_reuse
from dhsic.passes.engineplan import EnginePlan
from dhsic.passes.score_reuse import may_be_lazy
from dhsic.runtime.threads import Threads

M, D = 60, 300


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Lazy rounds of small data, few features of which are scored."""
    monkeypatch.setattr("dhsic.passes.score_reuse.LEAST_KEPT", 40)
    monkeypatch.setattr("dhsic.passes.score_reuse.FEWEST", (40, 40))
    monkeypatch.setattr("dhsic.passes.engineplan.ALWAYS_EXACT", 40)
    monkeypatch.setattr("dhsic.passes.score_reuse.PROBED", 8)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((M, D))
    y = (X[:, 3] + X[:, 5] * X[:, 7] + 0.3 * rng.standard_normal(M) > 0).astype(int)
    return X, y


def question(X, y, S):
    """Question of a round over S, and the standardised features of S."""
    Z = ((X - X.mean(axis=0)) / X.std(axis=0))[:, S]
    W = weights(label_matrix(y).L)
    return ScoringProblem(Gaussian(), 1 / (2 * len(S)), W, Statistic.of(Z @ Z.T)), Z


def fit(data, solver="auto", **options):
    X, y = data
    groups = options.pop("groups", None)
    asked = {"step": 0.1, "progress": False} | options
    return dhsic.BAHSIC(10, solver=solver, **asked).fit(X, y, feature_groups=groups)


def words(model):
    return [str(engine) for engine in model.result_["round_engine"].values]


def by_definition(question, Z):
    """Gains of all features."""
    engine, none = Direct(), np.zeros(Z.shape[1])
    return engine.score(engine.prepare(question), Z.T, FeatureStats(none, none, none))


def test_moved_gains_are_those_of_the_definition(data):
    """Far closer than the gains that were kept, were they only scaled."""
    before, now = np.arange(D), np.arange(D)[D // 4 :]
    (asked, Z), (asked_now, Z_now) = (question(*data, S) for S in (before, now))

    form = score_reuse.FirstOrderForm.of(asked, np.empty((M, M), np.float32))
    changed, size, alpha = score_reuse._change(asked_now, form, np.empty((M, M), np.float32))
    change, _ = score_reuse._in_few(changed, size)
    kept = alpha * by_definition(asked, Z)[now]
    moved = change.forms(Z_now.T.astype(np.float32))

    expected = by_definition(asked_now, Z_now)
    off = [(gains - expected).std() / expected.std() for gains in (kept, kept + moved)]
    assert off[1] < 0.5 * off[0]
    assert off[1] < 0.05


@pytest.mark.parametrize("m", [50, 300])
def test_the_whole_change_is_known_where_it_has_few_directions(m, rng):
    """And the norm of what is left of it off the diagonal."""
    few, noise = rng.standard_normal((m, 3)), rng.standard_normal((m, m)) / 100
    B = few @ few.T + np.diag(rng.standard_normal(m)) + noise + noise.T
    X = rng.standard_normal((20, m)).astype(np.float32)
    below = np.tril(B, -1).astype(np.float32)

    change, rest = score_reuse._in_few(
        score_reuse.FirstOrderForm(below, np.diagonal(B)), 2 * (below**2).sum()
    )

    expected = np.einsum("ci,ij,cj->c", X, B, X)
    off = np.abs(change.forms(X) - expected).max()
    assert off < 0.2 * np.abs(expected).max()
    left = B - (change.Y.T * change.theta) @ change.Y
    np.fill_diagonal(left, 0)
    assert rest == pytest.approx(np.linalg.norm(left), rel=0.01)


def test_few_rounds_score_all_and_the_last_features_are_the_same(data):
    model, exact = fit(data), fit(data, "exact")

    engines = words(model)
    is_lazy = [engine.startswith(LAZY) for engine in engines]
    sizes = model.result_["round_n_features"].to_numpy()
    assert not is_lazy[0]
    assert not any(is_lazy[i] for i in np.flatnonzero(sizes <= 40))
    assert sum(is_lazy) > (sizes > 40).sum() / 2
    assert not any(engine.startswith(LAZY) for engine in words(exact))
    assert len(set(np.flatnonzero(model.support_)) & set(np.flatnonzero(exact.support_))) >= 9
    assert model.result_.attrs["expected_lost"] <= 0.01 * 10


def test_without_tolerance_every_round_is_exact(data):
    model, exact = fit(data, max_expected_loss=0), fit(data, "exact")

    assert not any(engine.startswith(LAZY) for engine in words(model))
    assert_array_equal(model.ranking_, exact.ranking_)
    assert_array_equal(model.scores_, exact.scores_)


def test_rounds_in_which_many_would_be_scored_score_all(data, monkeypatch):
    monkeypatch.setattr("dhsic.passes.score_reuse.MOST", 0.0)
    model, exact = fit(data), fit(data, "exact")

    assert_array_equal(model.ranking_, exact.ranking_)


def test_kernels_and_runs_that_have_no_lazy_rounds(data):
    assert may_be_lazy(Gaussian())
    assert not any(map(may_be_lazy, (Linear(), Polynomial(), Laplace())))
    assert EnginePlan.of("auto", Gaussian(), M, D).is_lazy
    assert not EnginePlan.of("exact", Gaussian(), M, D).is_lazy
    assert not EnginePlan.of("auto", Gaussian(), M, 40).is_lazy
    for options in ({"groups": [f"g{j // 3}" for j in range(D)]}, {"kernel": "polynomial"}):
        assert not any(word.startswith(LAZY) for word in words(fit(data, **options)))


def test_few_digits_do_for_lazy_rounds(data):
    """To a part of the spread of gains that is far below what such a round neglects."""
    asked, Z = question(*data, np.arange(D))
    few = score_reuse.ScoreReuse(None).weights(asked.W, asked.sigma, Mock(longest=2.0 * D))
    engine = Dense(3, "float32")
    facts = FeatureStats(*(np.zeros(D) for _ in range(3)))

    gains = [engine.score(engine.prepare(replace(asked, W=W)), Z.T, facts) for W in (asked.W, few)]

    assert few.dtype == np.float32
    assert np.std(gains[1] - gains[0]) < 1e-5 * np.std(gains[0])


@pytest.mark.parametrize(("scale", "longest"), [(1e-30, 1.0), (1.0, 1e5)])
def test_where_few_digits_do_not_do_all_are_taken(data, scale, longest):
    W = scale * question(*data, np.arange(D))[0].W

    assert score_reuse.ScoreReuse(None).weights(W, 1.0, Mock(longest=longest)) is W


def test_small_rounds_score_all():
    """And the fewer samples, the more features are few."""
    assert [score_reuse.ScoreReuse.may_spare(50, n, M) for n in (10, 50)] == [True, False]
    assert not score_reuse.ScoreReuse.may_spare(40, 10, M)


@pytest.mark.parametrize("last", [1, 2, 3, 5, 9, 14, 19])
@pytest.mark.parametrize("most", [0.25, 0.06])
def test_a_run_is_resumed_to_the_same_bits(data, tmp_path, last, most, monkeypatch):
    monkeypatch.setattr("dhsic.passes.score_reuse.MOST", most)

    def stop(record):
        if record["round"] == last:
            raise KeyboardInterrupt

    expected, place = fit(data), str(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        fit(data, checkpoint=place, progress=stop)
    resumed = fit(data, checkpoint=place, runtime=Threads(3))

    assert words(resumed) == words(expected)
    assert_array_equal(resumed.scores_, expected.scores_)
    assert_array_equal(resumed.ranking_, expected.ranking_)


def test_a_plan_foresees_them(rng):
    """The same rounds and bytes, for a small part of the products."""
    X, y = rng.standard_normal((30, 3000)), np.arange(30) % 2

    told = {solver: dhsic.plan(X, y, solver=solver, step=0.05).work for solver in ("auto", "exact")}

    flops = {a: work.least.total(lambda step: step.float32) for a, work in told.items()}
    assert told["auto"].sizes == told["exact"].sizes
    assert told["auto"].least.bytes_read == told["exact"].least.bytes_read
    assert flops["auto"] < 0.7 * flops["exact"]
    kept = [any("scores are reused" in words for words in work.assumed) for work in told.values()]
    assert kept == [True, False]
