"""Features and labels of which a few values are far away: their order decides tests by ranks."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.criteria import unbalanced
from dhsic.criteria.unbalanced import drawn_sums
from dhsic.independence import test_features as features_tested
from dhsic.kernels.label_parts import RealTargets
from dhsic.linalg.rank_basis import dense_ranks, rank_basis

M, D = 120, 5
RNG = np.random.default_rng(4)
X = RNG.normal(size=(M, D))
Y = X[:, 1] + 0.3 * RNG.normal(size=M)
MISSING = RNG.permutation(M)[:9]


def with_far(value, n=1):
    """Values of X with the n largest ones of feature 1 replaced by `value`, in their order."""
    far, top = X.copy(), np.argsort(X[:, 1])[-n:]
    far[top, 1] = value * (1 + np.arange(n) / 8)
    return far


@pytest.mark.filterwarnings("ignore:1 feature contains a value more than a million")
@pytest.mark.parametrize("is_missing", [False, True], ids=["present", "missing"])
@pytest.mark.parametrize("value", [1e7, 1e18, 1e20, 1e30, 1e100, -1e20])
def test_a_monotone_change_leaves_the_test_by_ranks_unchanged(value, is_missing):
    far = with_far(value) if value > 0 else -with_far(-value)
    plain = X.copy() if value > 0 else -X
    if is_missing:
        far[MISSING, 1] = plain[MISSING, 1] = np.nan
    kept = features_tested(far, Y)
    np.testing.assert_array_equal(kept.p_values, features_tested(plain, Y).p_values)
    assert kept.p_values.argmin() == 1


@pytest.mark.parametrize(
    "change",
    [lambda x: np.exp(30 * x), lambda x: np.sign(x) * 10 ** (20 * np.abs(x)), lambda x: x + 1e9],
    ids=["exponential", "both signs", "shifted"],
)
@pytest.mark.filterwarnings("ignore:1 feature contains a value more than a million")
def test_any_monotone_change_leaves_the_test_by_ranks_unchanged(change):
    changed = X.copy()
    changed[:, 1] = change(X[:, 1])
    p_values = features_tested(changed, Y).p_values
    np.testing.assert_allclose(p_values, features_tested(X, Y).p_values, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:1 feature contains a value more than a million")
def test_single_precision_keeps_the_order(rng):
    far = with_far(1e25).astype(np.float32)
    np.testing.assert_array_equal(
        features_tested(far, Y).p_values, features_tested(X.astype(np.float32), Y).p_values
    )


@pytest.mark.filterwarnings("ignore:1 feature contains a value more than a million")
def test_features_that_are_named_and_blocks_keep_their_order():
    for options in ({"features": [0, 1, 2]}, {"permute_within": np.arange(M) % 2}):
        np.testing.assert_allclose(
            features_tested(with_far(1e20), Y, **options).p_values,
            features_tested(X, Y, **options).p_values,
            rtol=1e-9,
        )


@pytest.mark.filterwarnings("ignore:1 feature contains a value more than a million")
def test_the_default_selection_finds_the_feature():
    selected = dhsic.select(with_far(1e20), Y, n_features_to_select=2)
    assert selected["rank"].to_numpy()[1] == 1


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("value", [1e20, 1e300])
def test_a_far_value_is_told_with_its_feature(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = pd.Index([f"s{i}" for i in range(M)], name="id")
    pd.DataFrame(with_far(value), ids, [f"g{j}" for j in range(D)]).to_csv("x.csv")
    pd.DataFrame({"y": Y}, ids).to_csv("l.csv")
    options = ("x.csv", "--labels", "l.csv", "--target", "y")
    if value > 1e140:
        said = told(run("test", *options, code=2))
        assert "first: feature 'g1'" in said
        assert "write NaN" in said
        return
    for command in ("test", "select"):
        said = told(run(command, *options))
        assert said.count("more than a million") == 1
        assert "(g1: 1e+20, once)" in said


@pytest.mark.parametrize("n_missing", [0, 9])
def test_two_equal_far_values_are_counted(n_missing):
    far = with_far(1e20)
    far[np.argsort(X[:, 1])[-2:], 1] = 1e19 + 7
    far[np.argsort(X[:, 1])[:n_missing], 1] = np.nan
    with pytest.warns(UserWarning, match=r"feature 1: 1e\+19, 2 times"):
        features_tested(far, Y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["normal", "heavy", "counts"])
def test_ordinary_features_are_not_told(kind):
    columns = {
        "normal": X,
        "heavy": np.exp(3 * X),
        "counts": np.floor(np.exp(2 * X)),
    }[kind]
    features_tested(columns, Y)


def test_ranks_are_those_of_a_plain_loop():
    values = np.array([1e300, -1e300, 0.3, 0.1 * 3, 5.0, 4.0, 5e-324, 0.0])
    ranks, rank = np.zeros(len(values)), -1.0
    last = None
    for place in np.argsort(values, kind="stable"):
        is_new = last is None or values[place] - last > 4 * np.spacing(abs(values[place]))
        rank += is_new
        ranks[place], last = rank, values[place]
    assert dense_ranks(values).tolist() == ranks.tolist()


@pytest.mark.filterwarnings("ignore:3 values of Y lie extremely far")
@pytest.mark.parametrize("value", [-1e30, 1e20, 3e25])
def test_labels_with_a_far_value_keep_their_order(value):
    labels = Y.copy()
    labels[np.argsort(Y)[:3] if value < 0 else np.argsort(Y)[-3:]] = value
    given = labels
    if value != 3e25:
        with pytest.raises(dhsic.InputError, match="which gives the same ranking") as error:
            features_tested(X, labels)
        code = re.search(r"is a real value, pass (.*), which gives", str(error.value))[1]
        given = eval(code, {"Y": labels})
    expected = features_tested(X, np.clip(labels, -100, 100)).p_values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(features_tested(X, given).p_values, expected)


def test_ordinary_labels_are_centred():
    targets = RealTargets(Y[:, None] + 1e6, None)
    np.testing.assert_allclose(targets.centred.values.mean(), 0.0, atol=1e-9)


def test_draws_for_a_rare_class_are_limited(monkeypatch):
    m, k = 60, 3
    b = np.where(np.arange(m) < k, np.sqrt(m), -np.sqrt(m) / (m - k))
    monkeypatch.setattr(unbalanced, "DRAWS", 90_000)
    basis = rank_basis(m, 4)
    parts = [*drawn_sums(basis, b)]
    assert max(map(len, parts)) <= unbalanced.DRAWS_AT_ONCE
    monkeypatch.setattr(unbalanced, "DRAWS_AT_ONCE", 10**9)
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate([*drawn_sums(basis, b)]))


@pytest.mark.parametrize("labels", ["numbers", "classes"])
def test_negative_zero_is_zero(labels, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = pd.Index([f"s{i}" for i in range(M)], name="id")
    pd.DataFrame(X, ids, [f"g{j}" for j in range(D)]).to_csv("x.csv")
    y = np.round(Y * (9 if labels == "numbers" else 1))
    assert np.signbit(y[y == 0]).any()
    pd.DataFrame({"y": y}, ids).to_csv("l.csv")
    said = run("test", "x.csv", "--labels", "l.csv", "--target", "y").output
    assert re.search(r"\n +1 +g1 ", said)
