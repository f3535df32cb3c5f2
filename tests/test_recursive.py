"""Recursive feature elimination with support vectors, against scikit-learn's and plain loops."""

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_selection import RFE
from sklearn.svm import SVC

import dhsic
from dhsic.errors import InputError
from dhsic.methods import svmrfe
from dhsic.methods.svmrfe import machine_weights
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads


def data(rng, m=60, d=14, classes=2):
    X = rng.standard_normal((m, d))
    X[:, 2] = rng.integers(0, 3, m)
    s = X[:, 3] + X[:, -1] - X[:, 1]
    return X, np.digitize(s, np.quantile(s, np.arange(1, classes) / classes))


@pytest.mark.parametrize("step", [1, 3])
def test_linear_is_that_of_scikit_learn(rng, step, monkeypatch):
    monkeypatch.setattr(svmrfe, "TOLERANCE", 1e-6)
    X, y = data(rng)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = dhsic.SVMRFE(5, step=step, progress=False).fit(X, y)
    peer = RFE(SVC(kernel="linear", tol=1e-6), n_features_to_select=5, step=step).fit(Z, y)
    # scikit-learn stops at the number wanted, so compare those down to it.
    assert_array_equal(model.support_, peer.support_)
    w = SVC(kernel="linear", tol=1e-6).fit(Z, y).coef_[0]
    first = model.result_["round_removed"].to_numpy() == 1
    # Losses next to none are known as far as float32 goes, beside the largest.
    assert_allclose(model.scores_[first], w[first] ** 2 / 2, rtol=1e-4, atol=1e-6 * (w @ w))


@pytest.mark.parametrize("kernel", ["gaussian", "polynomial", "linear"])
@pytest.mark.parametrize("classes", [2, 3])
def test_rounds_are_those_of_plain_loops(rng, kernel, classes):
    X, y = data(rng, m=24, d=6, classes=classes)
    Z = naive.scaled(X.tolist())
    S, expected = list(range(6)), []
    while S:
        sigma = 1 / (2 * len(S))
        K = np.array(naive.gram(naive.columns(Z, S), kernel, sigma))
        W = machine_weights(K, y, 1.0)
        gains = []
        for j in S:
            rest = [k for k in S if k != j]
            without = naive.gram(naive.columns(Z, rest), kernel, sigma) if rest else None
            empty = np.full_like(K, 1.0 if kernel != "linear" else 0.0)
            gains.append(float(np.vdot(W, np.array(without) if rest else empty) - np.vdot(W, K)))
        j = S[naive.largest(gains, 1)[0]]
        S.remove(j)
        expected.append(j)

    model = dhsic.SVMRFE(2, step=1, kernel=kernel, progress=False).fit(X, y)

    assert np.argsort(-model.ranking_).tolist() == expected


def test_threads_dask_and_resumed_give_the_same_bits(rng, client, tmp_path):
    X, y = data(rng, d=40, classes=3)

    def stop(record):
        if record["round"] == 7:
            raise KeyboardInterrupt

    def fit(**options):
        return dhsic.SVMRFE(5, **{"progress": False} | options).fit(X, y)

    one = fit(runtime=Threads(1))
    dask = fit(runtime=DaskRuntime(client))
    with pytest.raises(KeyboardInterrupt):
        fit(progress=stop, checkpoint=tmp_path / "run")
    resumed = fit(checkpoint=tmp_path / "run")
    for other in (dask, resumed):
        assert_array_equal(one.ranking_, other.ranking_)
        assert_array_equal(one.scores_, other.scores_)


@pytest.mark.parametrize(
    ("options", "y", "words"),
    [
        ({"penalty": 0}, None, "penalty=0"),
        ({"solver": "lowrank"}, None, "svm-rfe does not support solver="),
        ({}, np.column_stack([np.arange(60) % 2] * 2), "several targets"),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(rng, options, y, words):
    X, labels = data(rng)
    with pytest.raises(InputError, match=words):
        dhsic.SVMRFE(3, **options).fit(X, labels if y is None else y)


def test_a_machine_that_does_not_converge_is_told(rng, monkeypatch):
    monkeypatch.setattr(svmrfe, "MOST_STEPS", 20)
    X, y = data(rng)
    with pytest.raises(InputError, match="does not converge in 20 steps"):
        dhsic.SVMRFE(3, standardize=False).fit(100 * X, y)


@pytest.mark.parametrize("kernel", ["delta", "ridge"])
def test_kernels_that_no_machine_takes(rng, kernel):
    X, y = data(rng)
    with pytest.raises(InputError, match="svm-rfe does not support the"):
        dhsic.SVMRFE(3, kernel=kernel).fit(X, y)


def test_real_values_are_no_classes(rng):
    X, _ = data(rng)
    for y in (X[:, 0], np.round(X[:, 0], 1)):
        with pytest.raises(InputError, match="y contains real values"):
            dhsic.SVMRFE(3).fit(X, y)


def test_covariates_are_refused(rng):
    X, y = data(rng)
    with pytest.raises(InputError, match="does not support covariates"):
        dhsic.SVMRFE(3).fit(X, y, covariates=rng.standard_normal(60))
