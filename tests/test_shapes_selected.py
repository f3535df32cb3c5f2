"""Features whose dependence turns go in front by default; lines are ranked as before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from stores import write_matrix

import dhsic
from dhsic.algorithms.additive import (
    LEAST,
    N_FUNCTIONS,
    RankedFeature,
    additive_errors,
    extended_basis,
)
from dhsic.algorithms.ridge import PENALTIES
from dhsic.criteria.label_functions import LabelDirections
from dhsic.criteria.multiscale import Multiscale
from dhsic.datasets import binary_xor
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.rank_basis import rank_functions, width_weights
from dhsic.methods import kernel
from dhsic.reports.sentences import order_of
from dhsic.runtime.dask import DaskRuntime
from dhsic.selection import rerank as again
from dhsic.selection import shapes

SHAPES = {
    "parabola": np.square,
    "absolute value": np.abs,
    "wave": lambda x: np.sin(4 * x),
    "bump": lambda x: np.exp(-8 * x**2),
    "fast wave": lambda x: np.cos(6 * x),
    "two-sided step": lambda x: (np.abs(x) > 1.2).astype(float),
    "step": lambda x: (x > 1).astype(float),
}
COLUMNS = ("p_marginal", "q_marginal", "width_marginal", "shape_marginal")


def unit(f):
    return (f - f.mean()) / f.std()


def fit(X, y, **options):
    options = {"progress": False, "runtime": "threads", **options}
    return dhsic.BAHSIC(10, **options).fit(X, y)


def without_test(monkeypatch):
    """The default as it is where the labels cannot be tested."""
    monkeypatch.setattr(kernel, "marginal_test", lambda *_: "not now")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_cut", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_single_shape_is_first(rng, shape, is_cut):
    X = rng.standard_normal((500, 400))
    y = np.sqrt(0.3) * unit(SHAPES[shape](X[:, 123])) + np.sqrt(0.7) * rng.standard_normal(500)
    model = fit(X, y > np.median(y) if is_cut else y)
    assert model.ranking_[123] <= 2
    assert model.result_["q_marginal"].to_numpy()[123] < 0.01


def test_a_feature_that_is_significant_alone_precedes_those_that_are_not(rng, monkeypatch):
    """Whatever labels left out say of it."""
    for tolerance in ("SLIGHTLY", "CLEARLY"):
        monkeypatch.setattr(shapes, tolerance, -np.inf)
    monkeypatch.setattr("dhsic.algorithms.additive.CLEARLY", np.inf)
    X = rng.standard_normal((400, 400))
    wave = np.sin(2 * X[:, 7])
    y = 0.55 * unit(wave) + 0.1 * X[:, 9] + rng.standard_normal(400) > 0
    model = fit(X, y, interactions=None)
    result = model.result_
    p = result["p_marginal"].to_numpy() * 400
    assert p[7] <= shapes.STRICT < p[9]
    assert model.ranking_[7] == 1
    assert (result.attrs["in_front_by"], result.attrs["n_in_front"]) == ("significance alone", 1)
    assert any("Tested alone, the family-wise p-value" in line for line in order_of(result))


def test_a_feature_that_tells_how_far_labels_spread_is_first(rng):
    X = rng.standard_normal((500, 400))
    y = np.exp(0.8 * X[:, 7]) * rng.standard_normal(500)
    assert fit(X, y).ranking_[7] == 1


@pytest.mark.slow
def test_weak_evidence_is_enough_where_nothing_else_tells_anything(rng):
    found = []
    for _ in range(4):
        X = rng.standard_normal((400, 500))
        y = np.sqrt(0.13) * unit(X[:, 3] ** 2) + np.sqrt(0.87) * rng.standard_normal(400)
        found.append(fit(X, y).ranking_[3])
    assert sorted(found)[2] <= 3


@pytest.mark.slow
def test_lines_are_ranked_as_before(rng, monkeypatch):
    X = rng.standard_normal((300, 200))
    X[:, 1:] = 0.5 * X[:, :-1] + X[:, 1:]
    y = X[:, ::40] @ [1.0, -0.8, 0.6, 0.5, -0.5] + rng.standard_normal(300)
    model = fit(X, y)
    assert model.result_.attrs["in_front_by"] == ""
    without_test(monkeypatch)
    before = fit(X, y)
    assert_array_equal(model.ranking_, before.ranking_)
    assert before.result_.attrs["marginal_test_skipped"] == "not now"
    assert not set(COLUMNS) & set(before.result_)


@pytest.mark.slow
def test_shapes_stand_among_lines(rng, monkeypatch):
    """Five lines and five shapes, of features that are correlated with their neighbours."""
    X = rng.standard_normal((500, 400))
    X[:, 1:] = 0.7 * X[:, :-1] + X[:, 1:]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    told = np.arange(20, 400, 40)
    f = sum(unit(SHAPES[name](X[:, j])) for name, j in zip(list(SHAPES)[:5], told[:5], strict=True))
    y = unit(f + X[:, told[5:]].sum(axis=1)) + 0.8 * rng.standard_normal(500)
    n_found = np.isin(np.argsort(fit(X, y).ranking_)[:10], told).sum()
    without_test(monkeypatch)
    n_before = np.isin(np.argsort(fit(X, y).ranking_)[:10], told).sum()
    assert n_found >= 8 > n_before + 1


def test_of_copies_of_a_shape_one_goes_to_the_front(rng):
    X = rng.standard_normal((400, 100))
    X[:, 10:20] = X[:, [10]] + 0.02 * rng.standard_normal((400, 10))
    y = unit(X[:, 10] ** 2) + unit(np.abs(X[:, 50])) + 0.5 * rng.standard_normal(400)
    model = fit(X, y)
    assert model.result_.attrs["n_in_front"] in (0, 2)  # 0 where the ranking has them there
    first, second = sorted(np.argsort(model.ranking_)[:2].tolist())
    assert 10 <= first < 20
    assert second == 50


def test_features_that_have_left_are_read_again(rng, monkeypatch, tmp_path):
    monkeypatch.setattr(again, "MOST", 40)
    X = rng.standard_normal((300, 400)).astype(np.float32)
    y = unit(np.cos(6 * X[:, 77])) + 0.5 * rng.standard_normal(300)
    write_matrix(tmp_path / "x.zarr", X, chunks=(7, 300))
    found = fit(dhsic.open_source(tmp_path / "x.zarr", sample_dim=1), y)
    assert found.result_["rank_alone"].to_numpy()[77] > 40
    assert found.ranking_[77] == 1
    assert_array_equal(found.ranking_, fit(X, y).ranking_)
    assert sorted(found.ranking_) == list(range(1, 401))


def test_pairs_that_hsic_finds_stay_in_front():
    data = binary_xor(200, random_state=3)
    model = fit(data.X, data.y)
    assert set(np.argsort(model.ranking_)[:2]) == set(
        np.argsort(fit(data.X, data.y, rerank=False).ranking_)[:2]
    )


@pytest.mark.parametrize("is_missing", [False, True])
def test_columns_are_those_of_the_test_of_each_feature(rng, is_missing):
    X = rng.standard_normal((120, 30))
    X[:, 4] = 1.0
    y = X[:, 3] ** 2 + 0.3 * rng.standard_normal(120)
    if is_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    model, alone = fit(X, y).result_, dhsic.test_features(X, y)
    assert alone.result_ is not None
    for name in COLUMNS:
        of_alone = alone.result_[name.split("_")[0]]
        expected, found = of_alone.to_numpy(), model[name].to_numpy()
        if found.dtype.kind == "f":
            assert_array_equal(found, expected)
        else:
            assert found[3] == expected[3] == "turning"
        assert (
            "marginal" in model[name].attrs["long_name"]
            or "alone" in model[name].attrs["long_name"]
        )
    assert np.isnan(model["p_marginal"].to_numpy()[4])


def test_samples_held_out_have_columns_of_their_own(rng):
    X = rng.standard_normal((300, 30))
    y = X[:, 3] ** 2 + 0.3 * rng.standard_normal(300)
    found = fit(X, y, holdout=0.3).result_
    assert np.isfinite(found["p"]).sum() == 10
    assert np.isfinite(found["p_marginal"]).sum() == 30
    assert found["p"].to_numpy()[3] != found["p_marginal"].to_numpy()[3]


def test_algorithm_1_by_name_knows_of_no_test(rng):
    X = rng.standard_normal((200, 60))
    y = X[:, 3] ** 2 + 0.3 * rng.standard_normal(200)
    groups = np.arange(60) // 3
    for options, more in (
        ({"rerank": False}, {}),
        ({"rerank": True}, {}),
        ({"label_kernel": "self"}, {}),
        ({}, {"feature_groups": groups}),
    ):
        model = dhsic.BAHSIC(3, progress=False, **options).fit(X, y, **more)
        assert not set(COLUMNS) & set(model.result_)
        assert "in_front_by" not in model.result_.attrs


def test_labels_that_are_not_tested_are_selected_for(rng):
    X = rng.standard_normal((300, 20))
    model = fit(X, np.repeat(np.arange(75), 4).astype(str))
    assert "64 classes" in model.result_.attrs["marginal_test_skipped"]
    assert sorted(model.ranking_) == list(range(1, 21))


class StopError(Exception):
    pass


def ways(X, y, folder, client):
    """Results from memory, from a store in chunks, on workers, resumed in two places."""
    path = folder / "x.zarr"
    write_matrix(path, X, chunks=(7, X.shape[0]))

    def opened():
        return dhsic.open_source(path, sample_dim=1)

    yield fit(X, y)
    yield fit(opened(), y)
    yield fit(opened(), y, runtime=DaskRuntime(client))
    for stop_at in (1, 20):
        kept = folder / f"run-{stop_at}"

        def stop(record, at=stop_at):
            if record["round"] == at:
                raise StopError

        with pytest.raises(StopError):
            fit(opened(), y, checkpoint=kept, progress=stop)
        yield fit(opened(), y, checkpoint=kept)
        yield fit(opened(), y, checkpoint=kept)  # it was finished


def test_same_bits_everywhere(rng, tmp_path, client, monkeypatch):
    monkeypatch.setattr(again, "MOST", 60)
    X = rng.standard_normal((150, 100)).astype(np.float32)
    y = unit(X[:, 3] ** 2) + X[:, 5] + unit(np.abs(X[:, 60])) + 0.5 * rng.standard_normal(150)
    X[rng.random(X.shape) < 0.02] = np.nan
    first, *others = [model.result_ for model in ways(X, y, tmp_path, client)]
    assert first.attrs["n_in_front"] > 0
    for other in others:
        for name in ("rank", "score", "fall_given_others", *COLUMNS):
            assert_array_equal(first[name], other[name])
        for name in ("in_front_by", "explained_with_front", "explained_without_front"):
            assert first.attrs[name] == other.attrs[name]


def test_genotypes_in_which_one_of_two_homozygotes_differs(rng):
    """Dominance: only the heterozygotes differ, so a straight line sees little."""
    X = rng.binomial(2, 0.5, (600, 200)).astype(np.int8)
    y = 1.0 * (X[:, 3] == 1) + rng.standard_normal(600)
    model = fit(X, y)
    assert model.ranking_[3] == 1
    assert model.result_["shape_marginal"].to_numpy()[3] == "turning"


@given(
    m=st.integers(8, 16),
    k=st.integers(1, 3),
    q=st.integers(1, 2),
    width=st.sampled_from([1 / 8, 1 / 16, None]),
    seed=st.integers(0, 99),
)
def test_additive_errors_are_those_of_samples_left_out(m, k, q, width, seed):
    """Ridge regression with a mean, fitted once without each sample, on functions as they are."""
    rng = np.random.default_rng(seed)
    X, U = rng.standard_normal((k, m)), rng.standard_normal((m, q))
    U -= U.mean(axis=0)
    own = rng.choice([1.0, 1 / 4, 1 / 32], size=k)
    Z = []
    for x, h in zip(X, own if width is None else np.full(k, width), strict=True):
        weights = width_weights(h, N_FUNCTIONS)
        F = rank_functions(x, (weights >= LEAST).sum())
        weights = weights[: len(F)] / weights[: len(F)].sum()
        Z += list(F * np.sqrt(weights)[:, None])
    Z = np.array(Z).T
    K = (Z - Z.mean(axis=0)) @ (Z - Z.mean(axis=0)).T
    scale = np.trace(K) / m
    best = np.full(m, np.inf)
    for penalty in PENALTIES:
        S = K @ np.linalg.inv(K + penalty * scale * np.eye(m)) + 1 / m
        errors = np.square((U - S @ U) / (1 - np.diagonal(S))[:, None]).sum(axis=1)
        best = errors if errors.sum() < best.sum() else best
    expected = best * m / np.square(U).sum()
    features = [RankedFeature(x, None, h) for x, h in zip(X, own, strict=True)]
    assert_allclose(additive_errors(features, U, width), expected, rtol=1e-5, atol=1e-7)


def test_a_basis_holds_what_it_is_extended_by(rng):
    Q, _ = np.linalg.qr(rng.standard_normal((20, 3)))
    F = np.vstack([rng.standard_normal((2, 20)), Q[:, 0], np.zeros(20)])
    basis = extended_basis(Q, F)
    assert basis.shape == (20, 5)
    assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    assert_allclose(basis @ (basis.T @ F.T), F.T, atol=1e-12)


def conditional_test(counts, covariates):
    """Test of features (c, m) with ties for labels of four classes."""
    m = counts.shape[1]
    Q = covariate_basis(covariates, m)
    labels = LabelDirections.of(label_matrix(np.arange(m) % 4).centred, Q, by_ranks=True)
    candidates = shapes.Candidates(np.arange(len(counts)), counts, None)
    return shapes.ConditionalTest.of(Multiscale.of(labels, Q), candidates)


@pytest.mark.parametrize("has_covariates", [False, True])
def test_sums_over_ties_are_those_of_any_labels(rng, has_covariates):
    """A test that was used for other labels gives the same bits as a new one."""
    counts = rng.poisson(2.0, (6, 60)).astype(float)
    covariates = rng.standard_normal((60, 1)) if has_covariates else None
    used, new = (conditional_test(counts, covariates) for _ in range(2))
    Q = used.state.Q
    used.log_p_and_width(Q)
    basis = extended_basis(Q, rng.standard_normal((2, 60)))
    for mine, theirs in zip(used.log_p_and_width(basis), new.log_p_and_width(basis), strict=True):
        assert_array_equal(mine, theirs)


def test_falls_are_the_losses_of_models_without_one_feature(rng):
    counts = rng.poisson(2.0, (4, 60)).astype(float)
    test, width = conditional_test(counts, None), np.full(4, 0.5)
    Y = test.state.labels.B * np.sqrt(test.state.labels.mu[0])
    functions = [test.candidates.functions(j, 0.5).T for j in range(4)]

    def explained(of):
        F = np.hstack([np.ones((60, 1)), *of])
        fitted = F @ np.linalg.lstsq(F, Y, rcond=None)[0]
        return np.square(fitted - fitted.mean(axis=0)).sum()

    falls = test.falls(range(4), width)
    for j in range(4):
        others = [f for i, f in enumerate(functions) if i != j]
        assert falls[j] == pytest.approx(explained(functions) - explained(others), abs=1e-9)
    assert test.falls([2], width)[2] == pytest.approx(explained(functions[2:3]), abs=1e-9)
    assert test.falls([], width) == {}
