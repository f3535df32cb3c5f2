"""Stability: what part of the halves of the samples selects a feature."""

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone

import dhsic
from dhsic.cli import main
from dhsic.errors import InputError
from dhsic.selection.stability import halves, tails


def data(rng, m=80, d=20):
    X = rng.standard_normal((m, d))
    return X, (X[:, 4] + 0.5 * rng.standard_normal(m) > 0).astype(int)


@pytest.mark.parametrize("selector", [dhsic.BAHSIC, dhsic.FOHSIC, dhsic.LinearHSIC])
def test_it_counts_selections_from_halves(rng, selector):
    X, y = data(rng)
    options = {"progress": False} | ({"step": 0.3} if selector is dhsic.BAHSIC else {})
    model = selector(3, stability=6, **options).fit(X, y)
    expected = np.zeros(20)
    for half in halves(y, 80, 6, 0):
        expected += selector(3, **options).fit(X[half], y[half]).support_
    assert_array_equal(model.stability_, expected / 6)
    assert model.stability_[4] == 1.0
    assert model.stability_.sum() == pytest.approx(3)
    assert_array_equal(model.ranking_, selector(3, **options).fit(X, y).ranking_)


def test_halves_keep_classes_together_and_are_halves(rng):
    y = np.array(["a"] * 10 + ["b"] * 5)
    for half in halves(y, 15, 4, 1):
        assert np.count_nonzero(half < 10) == 5
        assert np.count_nonzero(half >= 10) == 2
        assert (np.diff(half) > 0).all()
    real = halves(rng.standard_normal(11), 11, 3, 0)
    assert [half.size for half in real] == [6, 6, 6]
    assert len({tuple(half) for half in real}) > 1


def test_halves_of_many_small_classes_are_halves():
    (half, _) = halves(np.repeat(np.arange(10), 3).astype(str), 30, 2, 0)
    assert half.size == 15
    assert set(half // 3) == set(range(10))


@pytest.mark.parametrize("kind", [int, float, str])
def test_a_class_of_three_is_a_class_in_every_part(rng, kind):
    """A part may have one sample of it: its number is no measurement for that."""
    y = np.repeat([1, 2, 3, 4], [12, 12, 12, 3])
    X = rng.standard_normal((39, 15))
    X[:, 2] += y == 2
    options = {"step": 0.3, "progress": False}
    named = dhsic.BAHSIC(3, stability=4, holdout=0.6, **options).fit(X, [f"c{k}" for k in y])

    found = dhsic.BAHSIC(3, stability=4, holdout=0.6, **options).fit(X, y.astype(kind))

    assert found.result_.attrs["label_kernel_used"] == "multiclass"
    assert_array_equal(found.ranking_, named.ranking_)
    assert_array_equal(found.stability_, named.stability_)
    for criterion in ("hsic", "qmi", "pearson"):
        dhsic.OnePass(3, criterion=criterion, stability=4, progress=False).fit(X, y)
    scored = [
        dhsic.BAHSICCV(selector=dhsic.BAHSIC(**options), n_features=[2], cv=3).fit(X, labels)
        for labels in (y, [f"c{k}" for k in y])
    ]
    assert_array_equal(*(model.cv_results_["mean_test_score"] for model in scored))


def test_halves_that_are_too_few_are_refused_before_the_work(rng):
    X, y = data(rng, m=6, d=5)
    y[:3], y[3:] = 0, 1
    rounds = []
    for model, labels in (
        (dhsic.BAHSIC(2, stability=4, progress=rounds.append), y),
        (dhsic.OnePass(2, criterion="t", stability=4, progress=rounds.append), np.r_[y[:5], 1]),
    ):
        with pytest.raises(InputError, match=r"halves of the samples \(3 of 6\)"):
            model.fit(X, labels)
    assert rounds == []


def test_square_targets_are_no_label_matrix(rng):
    X, _ = data(rng, m=30, d=5)
    Y = rng.standard_normal((30, 30))
    model = dhsic.BAHSIC(2, stability=2, progress=False).fit(X, Y)
    assert model.stability_.sum() == pytest.approx(2)


def test_covariates_checkpoints_and_label_matrices_follow(rng, tmp_path):
    X, y = data(rng, m=40, d=8)
    C = rng.standard_normal(40)
    path = tmp_path / "run"
    model = dhsic.BAHSIC(2, step=0.5, stability=2, checkpoint=path, progress=False)
    first, again = (clone(model).fit(X, y, covariates=C) for _ in range(2))
    assert_array_equal(first.stability_, again.stability_)
    assert (tmp_path / "run.stability" / "001" / "zarr.json").exists()
    L = np.multiply.outer(y - 0.5, y - 0.5)
    given = dhsic.BAHSIC(2, stability=2, label_kernel="precomputed", progress=False).fit(X, L)
    assert given.stability_.sum() == pytest.approx(2)


@pytest.mark.parametrize("stability", [1, -3, 2.5, True, "many"])
def test_what_is_no_number_of_halves_gets_a_sentence(rng, stability):
    X, y = data(rng)
    with pytest.raises(InputError, match="the number of random halves"):
        dhsic.BAHSIC(3, stability=stability).fit(X, y)


def test_command_line_shows_it(tmp_path):
    run, path = CliRunner().invoke, str(tmp_path / "g.vcz")
    run(main, ["simulate", path, "--samples", "60", "--variants", "120"])
    options = ["select", path, "--target", "sample_trait", "-n", "3", "--stability", "3"]
    outcome = run(main, options)
    assert outcome.exit_code == 0, outcome.output
    assert "stability" in outcome.stdout
    assert "%" in outcome.stdout


def test_labels_of_any_width_are_halved_class_by_class_and_others_refused_as_without_halves(rng):
    X, y = rng.standard_normal((24, 5)), np.arange(24) % 2
    texts = np.array(["case", "control"])[y].astype(np.dtypes.StringDType())

    by_text, by_number = (
        dhsic.BAHSIC(2, stability=3, progress=False).fit(X, labels) for labels in (texts, y)
    )

    assert_array_equal(by_text.stability_, by_number.stability_)
    with pytest.raises(InputError, match=r"^The dtype of y is complex128"):
        dhsic.BAHSIC(2, stability=3, progress=False).fit(X, y + 1j)


def test_complementary_pairs_share_no_sample():
    y = np.array(["a"] * 9 + ["b"] * 6)
    found = halves(y, 15, 6, 1, paired=True)

    assert len(found) == 6
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert not np.intersect1d(one, other).size
        assert [np.count_nonzero(half < 9) for half in (one, other)] == [4, 4]
        assert [half.size for half in (one, other)] == [7, 7]


def test_a_threshold_makes_features_stable_and_bounds_how_many_are_falsely(rng):
    X, y = data(rng, m=100)
    options = {"progress": False, "stability": 20, "stability_threshold": 0.9}
    model = dhsic.OnePass(2, criterion="pearson", **options).fit(X, y)
    found = model.result_

    assert_array_equal(found["stable"], model.stability_ >= 0.9)
    assert found["stable"][4]
    assert found.attrs["n_stable"] == int(found["stable"].sum())
    assert found.attrs["expected_false"] == pytest.approx(2 * 2 / (20 * 0.8))
    assert 0 < found.attrs["expected_false_concave"] < found.attrs["expected_false"]
    for wrong, said in (({"stability": 5}, "an even number"), ({"stability": 0}, "an even number")):
        with pytest.raises(InputError, match=said):
            dhsic.OnePass(2, **options | wrong).fit(X, y)
    with pytest.raises(InputError, match=r"above 0\.5"):
        dhsic.OnePass(2, **options | {"stability_threshold": 0.5}).fit(X, y)


@given(st.integers(4, 12), st.floats(0.02, 0.3), st.sampled_from([-1 / 2, -1 / 4]), st.data())
def test_no_concave_distribution_has_a_larger_tail(B, eta, r, draw):
    """Any r-concave distribution of that mean: here powers of concave functions, cut off."""
    k = np.arange(B + 1.0)
    slope, last = draw.draw(st.floats(0.05, 20)), draw.draw(st.integers(1, B))
    powers = np.where(k <= last, (1 + slope * k) ** (1 / r), 0.0)
    powers /= powers.sum()
    mean = float(k @ powers) / B
    bound = tails(mean, B, r)

    for t in range(B + 1):
        assert powers[t:].sum() <= bound[t] + 1e-6
    assert (np.diff(tails(eta, B, r)) <= 1e-12).all()
