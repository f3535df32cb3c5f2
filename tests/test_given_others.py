"""The last features, each given the others: by ridge regression, where that explains as much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_ridge import left_out_errors as naive_left_out
from naive_ridge import ridge_order as naive_order
from numpy.testing import assert_allclose, assert_array_equal
from stores import write_matrix

import dhsic
from dhsic.algorithms import ridge
from dhsic.datasets import binary_xor
from dhsic.errors import InputError
from dhsic.kernels.labels import label_matrix
from dhsic.passes import landmarks
from dhsic.runtime.dask import DaskRuntime
from dhsic.selection import rerank as again

M, D = 60, 30


def copies(rng, m=M):
    """Three features that tell of y, each among nine that are nearly the same; 60 of noise."""
    told = rng.standard_normal((m, 3))
    y = told @ [1.0, 0.8, 0.6] + 0.1 * rng.standard_normal(m)
    X = np.repeat(told, 10, axis=1) + 0.1 * rng.standard_normal((m, 30))
    return np.hstack([X, rng.standard_normal((m, 60))]), y


def fit(X, y, **options):
    options = {"progress": False, "runtime": "threads", **options}
    return dhsic.BAHSIC(3, **options).fit(X, y)


@given(
    m=st.integers(4, 12),
    n=st.integers(1, 14),
    q=st.integers(1, 3),
    penalty=st.sampled_from([0.1, 1.0, 10.0]),
    seed=st.integers(0, 99),
)
def test_it_is_the_definition(m, n, q, penalty, seed):
    rng = np.random.default_rng(seed)
    X, U = rng.standard_normal((m, n)), rng.standard_normal((m, q))
    order, falls = ridge.ridge_order(X.T @ X, X.T @ U, penalty, m)
    expected, lost = naive_order(X, U, penalty)
    assert_allclose(falls, lost, rtol=1e-6, atol=1e-9 * max(lost))
    assert order.tolist() == expected


def test_many_features_leave_as_if_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    X, U = rng.standard_normal((40, 400)), rng.standard_normal((40, 2))
    G, B = X.T @ X, X.T @ U
    order, falls = ridge.ridge_order(G, B, 3.0, 40)
    monkeypatch.setattr(ridge, "TOGETHER", 1)
    monkeypatch.setattr(ridge, "MIRRORED", 7)
    alone, lost = ridge.ridge_order(G, B, 3.0, 40)
    assert_allclose(falls, lost, rtol=1e-9)
    assert_array_equal(order, alone)
    assert_array_equal(G, X.T @ X)  # it was not written to


@given(m=st.integers(4, 12), n=st.integers(1, 5), q=st.integers(1, 3), seed=st.integers(0, 99))
def test_errors_are_those_of_samples_left_out(m, n, q, seed):
    rng = np.random.default_rng(seed)
    X, U = rng.standard_normal((m, n)), rng.standard_normal((m, q))
    U -= U.mean(axis=0)
    expected = naive_left_out(X, U, ridge.PENALTIES)
    assert_allclose(ridge.left_out_errors(X, U), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("noise", "penalty"),
    [(0.0, 0.1), (0.005, 0.1), (0.2, 2.5), (0.5, 10.0), (0.9, 10.0), (2.0, 10.0)],
)
def test_the_penalty_is_noise_over_what_is_explained(noise, penalty):
    assert ridge.ridge_penalty(noise) == pytest.approx(penalty)


def test_what_all_features_explain_is_asked_of_all_or_of_many_before_any_leaves(rng, monkeypatch):
    X, y = copies(rng)
    X *= rng.uniform(0.5, 2, X.shape[1])  # units do not matter
    clear, noisy = (fit(X, y + sd * rng.standard_normal(M)).result_.attrs for sd in (0, 9))
    assert clear["explained_by_all"] > 0.5 > 0.2 > noisy["explained_by_all"]
    assert clear["ridge_penalty"] < noisy["ridge_penalty"] == ridge.MOST_PENALTY
    monkeypatch.setattr(again, "MOST", 20)  # so of 80 in places
    monkeypatch.setattr(again, "PLACES", 4)
    some = fit(X, y).result_.attrs["explained_by_all"]
    assert 0 < abs(some - clear["explained_by_all"]) < 0.3


def test_a_class_that_is_not_among_the_samples_that_are_looked_at(rng, monkeypatch):
    monkeypatch.setattr(again, "SAMPLES", 8)
    X, y = rng.standard_normal((400, 12)), np.zeros(400, dtype=int)
    looked_at = again.compared_samples(400, 0)
    y[np.setdiff1d(np.arange(400), looked_at)[:5]] = 1
    X[:, 3] += 3 * y
    model = fit(X, y)
    told = model.result_.attrs
    assert told["explained_by_all"] == told["explained_alone"] == 0
    assert told["ridge_penalty"] == ridge.MOST_PENALTY
    assert model.ranking_[3] == 1


def test_of_copies_one_stays_in_front(rng):
    X, y = copies(rng)
    plain, model = fit(X, y, rerank=False), fit(X, y)
    assert {j // 10 for j in np.argsort(model.ranking_)[:3]} == {0, 1, 2}
    assert {j // 10 for j in np.argsort(plain.ranking_)[:3]} != {0, 1, 2}
    assert model.result_.attrs["given_others"] == 90
    assert_array_equal(model.result_["rank_alone"], plain.ranking_)
    assert "given_others" not in plain.result_.attrs
    last = np.argsort(model.ranking_)[::-1]
    assert_array_equal(model.scores_[last], plain.scores_[last])


@pytest.mark.parametrize("label_kernel", ["gaussian", "linear", "multiclass"])
def test_the_result_is_the_definition(rng, label_kernel):
    X, y = copies(rng, 40)
    X = X[:, ::5]
    if label_kernel == "multiclass":
        y = np.digitize(y, [-0.5, 0.5])
    model = fit(X, y, rerank=True, label_kernel=label_kernel)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    z = (y - y.mean()) / np.linalg.norm(y - y.mean())
    L = np.outer(z, z) if label_kernel == "gaussian" else label_matrix(y, label_kernel).L
    H = np.eye(40) - 1 / 40
    values, vectors = np.linalg.eigh(H @ L @ H / 39**2)
    U = vectors * np.sqrt(np.maximum(values, 0))
    noise = naive_left_out(Z, U, ridge.PENALTIES).mean()
    penalty = min(max(10 * noise / (1 - noise), 0.1), 10)
    assert model.result_.attrs["explained_by_all"] == pytest.approx(1 - noise, rel=1e-6)
    assert model.result_.attrs["ridge_penalty"] == pytest.approx(penalty, rel=1e-6)
    order, falls = naive_order(Z, U, penalty)
    assert np.argsort(model.ranking_)[::-1].tolist() == order
    assert_allclose(model.result_["fall_given_others"].to_numpy()[order], falls, rtol=1e-6)


def test_dosages_are_scaled_for_it(rng):
    X = rng.binomial(2, rng.uniform(0.05, 0.5, 20), (80, 20))
    y = X[:, 3] * 1.0 - X[:, 5] + rng.standard_normal(80)
    found = {}
    for scaled in ("auto", True, False):
        model = fit(X.astype(np.int8), y, rerank=True, standardize=scaled)
        found[scaled] = np.argsort(model.ranking_).tolist()
    assert found["auto"] == found[True] != found[False]


def test_it_does_not_matter_which_allele_is_counted(rng):
    X = rng.binomial(2, rng.uniform(0.2, 0.5, 60), (80, 60)).astype(np.int8)
    X[:, 20:30], X[:, 30:40] = X[:, 40:50], 2 - X[:, 40:50]
    y = X[:, 3] * 1.0 - X[:, 25] + rng.standard_normal(80)
    flip = rng.random(60) < 0.5
    flipped = np.where(flip, 2 - X, X).astype(np.int8)
    models = [fit(Z, y, rerank=True) for Z in (X, flipped)]
    assert_array_equal(models[0].ranking_, models[1].ranking_)


def test_hsic_keeps_what_only_pairs_tell():
    data = binary_xor(200, random_state=3)
    plain, model = fit(data.X, data.y, rerank=False), fit(data.X, data.y)
    assert model.result_.attrs["given_others"] == 0
    told = model.result_.attrs
    assert told["explained_alone"] > told["explained_given_others"] + 0.2
    assert_array_equal(model.ranking_, plain.ranking_)
    assert_array_equal(model.result_["rank_alone"], plain.ranking_)
    always = fit(data.X, data.y, rerank=True)
    assert always.result_.attrs["given_others"] == data.X.shape[1]


def test_hsic_keeps_what_tells_how_far_labels_spread(rng):
    X = rng.standard_normal((300, 40))
    y = X[:, 0] * rng.standard_normal(300) + 0.3 * X[:, 5] + 0.1 * rng.standard_normal(300)
    model = fit(X, y)
    assert model.result_.attrs["given_others"] == 0
    assert set(np.argsort(model.ranking_)[:2]) == {0, 5}


def test_only_the_last_are_ranked_again(rng, monkeypatch):
    X, y = copies(rng)
    plain = fit(X, y, rerank=False)
    monkeypatch.setattr(again, "MOST", 40)
    model = fit(X, y, rerank=True)
    n = model.result_.attrs["given_others"]
    sizes = plain.result_["round_n_features"].to_numpy()
    assert n == sizes[sizes <= 40].max()
    before, after = np.argsort(plain.ranking_), np.argsort(model.ranking_)
    assert_array_equal(before[n:], after[n:])
    assert set(before[:n]) == set(after[:n])
    assert np.isnan(model.result_["fall_given_others"].to_numpy()[after[n:]]).all()


class StopError(Exception):
    pass


def ways(X, y, folder, client, **options):
    """The ranking, from memory, from a store in chunks, on workers, resumed in two places."""
    path = folder / "x.zarr"
    write_matrix(path, X.astype(np.float32), chunks=(7, X.shape[0]))
    yield fit(X.astype(np.float32), y, **options)
    yield fit(dhsic.open_source(path, sample_dim=1), y, **options)
    yield fit(dhsic.open_source(path, sample_dim=1), y, runtime=DaskRuntime(client), **options)
    for stop_at in (1, 20):
        kept = folder / f"run-{stop_at}"

        def stop(record, at=stop_at):
            if record["round"] == at:
                raise StopError

        with pytest.raises(StopError):
            fit(
                dhsic.open_source(path, sample_dim=1),
                y,
                checkpoint=kept,
                **options | {"progress": stop},
            )
        yield fit(dhsic.open_source(path, sample_dim=1), y, checkpoint=kept, **options)
        yield fit(
            dhsic.open_source(path, sample_dim=1), y, checkpoint=kept, **options
        )  # it was finished


@pytest.mark.parametrize("solver", ["exact", "lowrank"])
@pytest.mark.parametrize("n_slices", [1, 3])
def test_same_bits_everywhere(rng, tmp_path, client, monkeypatch, solver, n_slices):
    monkeypatch.setattr(again, "MOST", 60)
    monkeypatch.setattr(landmarks, "SLICE", M // n_slices)
    X, y = copies(rng)
    X[rng.random(X.shape) < 0.02] = np.nan
    options = {"solver": solver, "rerank": True}
    first, *others = [model.result_ for model in ways(X, y, tmp_path, client, **options)]
    assert first.attrs["given_others"] <= 60
    for other in others:
        for name in ("rank", "score", "rank_alone", "fall_given_others"):
            assert_array_equal(first[name], other[name])
        for name in ("explained_alone", "explained_given_others", "explained_by_all"):
            assert first.attrs[name] == other.attrs[name]


def test_where_it_makes_no_sense_it_is_left_out_or_refused(rng):
    X, y = copies(rng)
    groups = np.arange(X.shape[1]) // 10
    for options, more in (
        ({}, {"feature_groups": groups}),
        ({"label_kernel": "self"}, {}),
        ({"label_kernel": "precomputed"}, {}),
        ({"kernel": "linear"}, {}),
    ):
        labels = np.outer(y, y) if "precomputed" in options.values() else y
        model = dhsic.BAHSIC(3, progress=False, **options).fit(X, labels, **more)
        assert "given_others" not in model.result_.attrs
    with pytest.raises(InputError, match="re-ranks single features"):
        dhsic.BAHSIC(3, rerank=True).fit(X, y, feature_groups=groups)
    with pytest.raises(InputError, match="positive semidefinite"):
        fit(
            X,
            np.diag(np.r_[-1.0, np.ones(M - 1)]) + np.outer(y, y),
            label_kernel="precomputed",
            rerank=True,
        )
    with pytest.raises(InputError, match="rerank='perhaps'"):
        fit(X, y, rerank="perhaps")


def test_covariates_are_taken_out_first(rng):
    X, y = copies(rng)
    age = X[:, 0] + 0.1 * rng.standard_normal(M)
    model = fit(X, y, rerank=True)
    adjusted = dhsic.BAHSIC(3, progress=False, rerank=True).fit(X, y, covariates=age)
    assert np.argsort(model.ranking_)[0] // 10 == 0
    assert {j // 10 for j in np.argsort(adjusted.ranking_)[:2]} == {1, 2}
