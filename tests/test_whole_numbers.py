"""Labels that are whole numbers: measured, or names of classes; and several targets together."""

import numpy as np
import pytest
from commands import run, told
from scipy.stats import beta

import dhsic
from dhsic.criteria.rank_law import RatioMoments, WidthLaw
from dhsic.interactions import find_pairs
from dhsic.joins.label_description import LabelDescription
from dhsic.kernels.labels import joint_labels, label_matrix
from dhsic.linalg.rank_basis import width_weights
from dhsic.linalg.symmetric import LowRankSymmetric

M, D = 300, 60
QUIET = {"progress": False, "interactions": None}
SCALES = {
    "ages": lambda rng: rng.integers(20, 70, M),
    "scores to 30": lambda rng: rng.binomial(30, 0.8, M),
    "pain to 10": lambda rng: rng.integers(0, 11, M),
    "counts": lambda rng: rng.poisson(3, M),
}


def standardised(y):
    return (y - y.mean()) / y.std()


def best(X, y, n=5, **options):
    found = dhsic.select(X, y, n_features_to_select=n, **QUIET, **options)
    return set(np.argsort(found["rank"].to_numpy())[:n].tolist())


def norm(part, m):
    H = np.eye(m) - 1 / m
    return np.linalg.norm(H @ part.tile(slice(None), slice(None)) @ H)


@pytest.mark.parametrize("scale", SCALES)
def test_features_that_follow_a_whole_number_are_found_as_of_real_values(scale, rng):
    y = SCALES[scale](rng)
    X = rng.standard_normal((M, D))
    X[:, :5] += 0.35 * standardised(y)[:, None]

    assert best(X, y) == best(X, y + 0.25) == set(range(5))
    whole, real = (dhsic.test_features(X, labels).p_values[:5] for labels in (y, y + 0.25))
    assert (np.log(whole) < 0.9 * np.log(real) + 1).all()
    assert dhsic.test_features(X, y, label_kernel="multiclass").p_values[:5].max() > real.max()


@pytest.mark.parametrize("n", [10, 40])
def test_features_that_differ_between_classes_called_by_numbers_are_found(n, rng):
    y = np.repeat(np.arange(1, n + 1), M // n)
    X = rng.standard_normal((len(y), D))
    X[:, :5] += 1.5 * rng.standard_normal((n, 5))[y - 1]

    assert best(X, y) == set(range(5))
    mixed, classes = (
        dhsic.test_features(X, y, label_kernel=kernel).p_values[:5]
        for kernel in ("auto", "multiclass")
    )
    assert (np.log(mixed) < 0.9 * np.log(classes)).all()


def test_p_values_of_mixed_labels_are_uniform_where_nothing_is(rng):
    X = rng.standard_normal((M, 4000))
    for scale in SCALES.values():
        p = dhsic.test_features(X, scale(rng)).p_values
        for level in (0.5, 0.1, 0.01):
            sigma = np.sqrt(level * (1 - level) / p.size)
            assert abs((p <= level).mean() - level) < 4 * sigma + 0.2 * level


def test_both_kernels_have_the_same_norm_and_factors_are_those_of_the_matrix(rng):
    y = rng.integers(20, 70, 120)
    for covariates in (None, rng.standard_normal((120, 2))):
        L = label_matrix(y, "auto", covariates)
        assert L.description == "multiclass + gaussian"
        (part,) = L.parts
        if covariates is None:
            assert norm(part.classes, 120) == pytest.approx(norm(part.numbers, 120), rel=1e-5)
        F = L.factor()
        np.testing.assert_allclose((F.F * F.weights) @ F.F.T, L.L, atol=1e-9)
        np.testing.assert_allclose(L.centred.L, L.L, atol=1e-12)
        assert L.linear.description == "multiclass + linear"


def test_labels_of_a_mixed_kernel_by_name(rng):
    assert label_matrix(np.arange(6) % 3, "mixed").description == "multiclass + gaussian"
    assert label_matrix(np.array(["a", "b", "c"] * 3), "mixed").description == "multiclass"
    assert label_matrix(rng.standard_normal(9), "mixed").description == "gaussian"


def test_coordinates_on_a_grid_are_real():
    places = np.stack(np.meshgrid(range(8), range(9)), axis=-1).reshape(-1, 2)
    assert label_matrix(places).description == "gaussian"
    graded = np.column_stack([np.arange(72) % 4, np.arange(72) % 3])
    assert label_matrix(graded).description == "multiclass + multiclass"


@pytest.mark.parametrize("n_noise", [1, 2])
@pytest.mark.parametrize("kind", ["two classes", "four classes", "whole numbers"])
def test_a_joint_target_finds_what_each_column_finds_alone(kind, n_noise, rng):
    X = rng.standard_normal((M, D))
    liability = X[:, :4].sum(axis=1) + rng.standard_normal(M)
    y = {
        "two classes": (liability > 0).astype(int),
        "four classes": np.digitize(liability, [-2, 0, 2]),
        "whole numbers": np.round(60 + 4 * liability).astype(int),
    }[kind]
    noise = np.exp(rng.standard_normal((M, n_noise)))
    both = np.column_stack([noise, y])

    assert best(X, y, 4) == set(range(4))
    assert best(X, both, 5) >= set(range(4))  # the noise column costs a place at most
    alone, joint = (np.log(dhsic.test_features(X, labels).p_values[:4]) for labels in (y, both))
    assert (joint < alone / 3).all()


def test_targets_of_several_kinds_are_scaled_alike(rng):
    both = np.column_stack([1e6 * rng.standard_normal(80), np.arange(80) % 2, np.arange(80) % 5])
    L = label_matrix(both)
    assert L.description == "balanced + multiclass + gaussian"
    assert [norm(part, 80) for part in L.parts] == pytest.approx([1, 1, 1], rel=1e-5)
    each = joint_labels([label_matrix(both[:, t]) for t in (1, 2, 0)])
    np.testing.assert_allclose(each.L, L.L, atol=1e-9)


def test_pairs_take_whole_numbers_for_numbers_or_for_classes(rng):
    X = rng.standard_normal((M, 12))
    y = np.round(30 + 5 * X[:, 2] * X[:, 7] + 2 * rng.standard_normal(M))
    found = find_pairs(X, y, n_pairs=1)
    assert (found["first"].item(), found["second"].item()) == (2, 7)
    assert found.attrs["label_columns"] == 1
    classes = find_pairs(X, np.digitize(y, range(26, 36)), n_pairs=1, label_kernel="multiclass")
    assert classes.attrs["label_columns"] == 10
    with pytest.raises(dhsic.InputError, match="against columns of labels"):
        find_pairs(X, y, label_kernel="precomputed")


def test_what_the_terminal_says_of_labels():
    ages, grades = np.arange(20, 60).repeat(3), np.arange(120) % 4
    assert LabelDescription().of(ages) == (
        "120 whole numbers from 20 to 59 (40 different), used both as numbers and as classes; "
        "for only numbers, ordered levels or classes, pass --label-kernel gaussian, ordinal or "
        "multiclass"
    )
    assert LabelDescription(in_columns=True).of(ages) == (
        "120 whole numbers from 20 to 59 (40 different), used as numbers; if they are classes, "
        "pass --label-kernel multiclass"
    )
    linear = LabelDescription("linear")
    assert linear.of(ages) == "120 real values from 20 to 59, kernel 'linear'"
    assert linear.of(grades) == "120 real values from 0 to 3, kernel 'linear'"
    levels = LabelDescription().of(grades)
    assert "if they are ordered levels, pass --label-kernel ordinal" in levels
    both = LabelDescription().of(np.column_stack([ages + 0.5, grades]))
    assert both.endswith("; 2 targets jointly, each with its own kernel, equally weighted")


@pytest.mark.parametrize("command", ["select", "test", "pairs"])
def test_every_command_has_a_label_kernel(command, tmp_path, rng):
    X = rng.standard_normal((M, 8)).round(3)
    rows = [",".join(["id", *(f"g{j}" for j in range(8)), "age"])]
    for i, row in enumerate(X):
        rows.append(",".join([f"s{i}", *map(str, row), str(30 + int(4 * row[3] + rng.normal()))]))
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    for kernel in ("auto", "gaussian", "multiclass"):
        found = run(command, tmp_path / "t.csv", "--target", "age", "--label-kernel", kernel)
        word = {"auto": "whole numbers", "gaussian": "real values", "multiclass": "classes"}
        assert word[kernel] in told(found)


@pytest.mark.parametrize("nu", [60, 400, 2000, 20_000])
def test_tails_of_one_direction_are_those_of_a_correlation(nu):
    """However small: ``Z^2 / nu`` is a beta variable."""
    weights = width_weights(1.0, 24)
    law = WidthLaw.of(weights, LowRankSymmetric.of(np.eye(1), np.ones(1)), nu)
    moments = RatioMoments.of(weights[weights > 0], nu)
    squares = np.array([1.0, 4, 10, 20, 40])
    z = (squares - moments.mean) / moments.std
    expected = beta.logsf(squares / nu, 0.5, (nu - 1) / 2)
    found = law.log_p(z, np.full(z.size, moments.skewness))
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("kind", ["ages", "classes"])
def test_cross_validation_predicts_numbers_and_classes(kind, cv, rng):
    """Sorted labels, of which folds without shuffling would leave out whole classes."""
    y = np.sort(rng.integers(20, 70, M)) if kind == "ages" else np.arange(10).repeat(M // 10)
    X = rng.standard_normal((M, 12))
    told = standardised(y)[:, None] if kind == "ages" else rng.standard_normal((10, 3))[y]
    X[:, :3] += 1.5 * told
    selector = dhsic.BAHSIC(**QUIET)
    model = dhsic.BAHSICCV(selector=selector, n_features=[1, 3], cv=cv).fit(X, y)
    assert set(model.get_support(indices=True)) <= {0, 1, 2}
    assert (model.cv_results_["mean_test_score"] > 0.1).all()


def test_memory_that_is_not_filled_reaches_no_p_value(rng, monkeypatch):
    """Panels of directions are wider than those that labels have."""
    X, C = rng.binomial(2, 0.01, (M, 200)).astype(np.int8), rng.standard_normal((M, 2))
    X[rng.random(X.shape) < 0.02] = -1
    y, empty, widths = rng.standard_normal(M), np.empty, ("multiscale", "dimension")

    def filled(*args, **options):
        found = empty(*args, **options)
        if found.dtype.kind == "f":
            found.fill(np.nan)
        return found

    def p_values():
        asked = {"missing_code": -1, "covariates": C}
        return [dhsic.test_features(X, y, bandwidth=b, **asked).p_values for b in widths]

    before = p_values()
    monkeypatch.setattr(np, "empty", filled)
    np.testing.assert_array_equal(p_values(), before)
