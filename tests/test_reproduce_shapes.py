"""Evidence on shapes: what is drawn, how orders and p-values are scored, and what is reported."""

import numpy as np
import pandas as pd
import pytest
from reproduce import noise, power, space
from reproduce.cache import Cache
from reproduce.cells import cells_of
from reproduce.part import Part
from reproduce.shape_methods import RANKING, dhsic_test
from reproduce.shape_parts import (
    SHAPE_PARTS,
    ShapeSetting,
    alone,
    alone_tables,
    noise_tables,
    outside,
    power_tables,
    shape_parts,
)
from reproduce.shapes import FIGURES, SHAPES, best_rank, share_found


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if not shape.spread])
def test_a_shape_explains_its_share_of_the_variance(name):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200_000)
    y = SHAPES[name].labels(rng, x, 0.3)
    effect = SHAPES[name].scaled(x)
    assert y.var() == pytest.approx(1, abs=0.02)
    assert np.corrcoef(effect, y)[0, 1] ** 2 == pytest.approx(0.3, abs=0.01)


def test_a_spread_changes_the_deviation_alone():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100_000)
    y = SHAPES["spread, exp(.8 x) times noise"].labels(rng, x, 0)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.02
    assert y[x > 1].std() > 3 * y[x < -1].std()


def test_two_classes_are_halves_and_the_relevant_feature_is_told():
    drawn = SHAPES["linear"].draw(np.random.default_rng(1), 200, 30, 0.5, n_classes=2)
    assert np.bincount(drawn.y).tolist() == [100, 100]
    by_correlation = np.argsort(-np.abs(np.corrcoef(drawn.X.T, drawn.y)[-1, :-1]))
    assert by_correlation[0] == drawn.relevant[0]


@pytest.mark.parametrize("name", FIGURES)
def test_classes_of_a_figure_follow_from_its_relevant_features(name):
    """Classes have similar sizes, and the rule on the relevant features gives them again."""
    figure = FIGURES[name]
    drawn = figure.draw(np.random.default_rng(2), 4_000, 12)
    assert len(drawn.relevant) == figure.n_relevant
    assert 0.4 < drawn.y.mean() < 0.6
    X = np.random.default_rng(2).random((4_000, 12))
    assert {tuple(column) for column in drawn.X.T} == {tuple(column) for column in X.T}
    if name != "RING+XOR+SUM":  # of which noise is a part
        np.testing.assert_array_equal(figure.rule(X, None), drawn.y)


def test_orders_are_scored():
    order = np.array([4, 1, 0, 3])
    assert share_found(order, np.array([1, 2])) == 0.5
    assert share_found(order, np.array([0, 1, 4])) == 1
    assert best_rank(order, np.array([0])) == 3
    assert best_rank(order, np.array([7])) == 5


@pytest.mark.parametrize("method", ["dhsic test", "F test", "random forest", "mRMR"])
def test_methods_rank_a_strong_line_first(method):
    drawn = SHAPES["linear"].draw(np.random.default_rng(3), 120, 20, 0.6, n_classes=2)
    order = RANKING[method](drawn.X, drawn.y, 5)
    assert order[0] == drawn.relevant[0]
    assert len(order) == len(set(order.tolist())) == 5


def test_the_test_ranks_a_bump_first():
    drawn = SHAPES["bump, exp(-8 x^2)"].draw(np.random.default_rng(4), 400, 50, 0.3)
    assert dhsic_test(drawn.X, drawn.y, 3)[0] == drawn.relevant[0]


@pytest.mark.parametrize("name", noise.NOISES)
def test_noise_is_as_it_is_called(name):
    m, c = 210, 40
    X, y, C = noise.NOISES[name].draw(np.random.default_rng(5), m, c)
    assert X.shape == (m, c)
    assert len(y) == m
    assert (C is not None) == ("covariates" in name)
    assert np.isnan(X).any() == ("missing" in name)
    if "zeros of 95%" in name:
        assert (X == 0).mean() == pytest.approx(0.95, abs=0.02)
    if "1:20" in name:
        assert y.sum() == 10
    if "3% cases" in name:
        assert y.sum() == 6
    if "genotypes of frequency .05" in name:
        assert np.unique(X).tolist() == [0, 1, 2]
        assert X.mean() / 2 == pytest.approx(0.05, abs=0.005)
    if "1:1" in name:
        assert y.sum() == m // 2
    if "15% and 5%" in name:
        assert np.isnan(X[y == 0]).mean() > 2 * np.isnan(X[y == 1]).mean()
    if C is not None:
        half = c // 2
        with_C = np.abs(np.corrcoef(np.hstack([X, C]).T)[:c, c:]).max(axis=1)
        assert with_C[:half].mean() > 0.5 > 0.25 > with_C[half:].mean()


def test_p_values_of_noise_are_counted():
    kind = noise.NOISES["two classes, 1:1"]
    below = noise.count_below(kind, 100, range(2), c=500)
    assert below.shape == (2, len(noise.LEVELS))
    assert (np.diff(below, axis=1) <= 0).all()
    assert below[:, 0].sum() == pytest.approx(500, abs=5 * np.sqrt(250))


@pytest.mark.parametrize("n_classes", [0, 2])
def test_samples_in_the_order_of_their_labels_have_the_same_p_values(n_classes):
    from dhsic.independence import test_features as p_values_of

    setting = power.PowerSetting("parabola", 150, 0.3, n_classes)
    X, Y = setting.draw(np.random.default_rng(6), 4)
    found = power.of_dhsic(setting, X, Y)
    shuffled = np.random.default_rng(7).permutation(150)
    for j in range(4):
        y = (Y[:, j] > np.median(Y[:, j])).astype(int) if n_classes else Y[:, j]
        alone = p_values_of(X[shuffled][:, [j]], y[shuffled]).p_values
        np.testing.assert_allclose(alone, found[j], rtol=0.05)  # laws are drawn


@pytest.mark.parametrize("n_classes", [0, 2])
def test_the_f_test_is_that_of_scikit_learn(n_classes):
    from sklearn.feature_selection import f_classif, f_regression

    setting = power.PowerSetting("linear", 80, 0.1, n_classes)
    X, Y = setting.draw(np.random.default_rng(8), 3)
    found = power.of_f_test(setting, X, Y)
    for j in range(3):
        y = setting.classes() if n_classes else Y[:, j]
        p = (f_classif if n_classes else f_regression)(X[:, [j]], y)[1]
        assert found[j] == pytest.approx(p[0], rel=1e-9)


def test_power_of_a_turning_effect():
    setting = power.PowerSetting("absolute value", 300, 0.2)
    ours, theirs = (power.power(setting, test, 50, 0) for test in power.TESTS.values())
    assert ours[0] > 0.8 > 0.2 > theirs[0]


def test_a_p_value_ranks_a_feature_among_noise():
    rng, d, p = np.random.default_rng(10), 40, 0.05
    smaller = (rng.random((20_000, d - 1)) < p).sum(axis=1)
    for k in (1, 3):
        share = power.among_the_first(np.array([p]), k, d)[0]
        assert share == pytest.approx((smaller < k).mean(), abs=0.02)


def test_a_strong_effect_is_found_alone():
    rows = alone(ShapeSetting("linear", 60, 1_000, 0.9, 0), power.TESTS["F test"], 0)
    assert rows["first 1"] > 0.99
    assert rows["1e-05"] >= rows["1e-06"] > 0.99
    table = alone_tables(pd.DataFrame([{"set": "a", "method": "F test", **rows}] * 2))[1]
    assert "| a | F test | 4,000 | 1.0000 |" in table


def test_genes_inside_their_pattern_have_the_threefold_mean():
    setting = space.SpaceSetting("half", n_spots=4_000, n_genes=4, n_patterned=2, mean=2.0)
    counts, xy, patterned = setting.draw(np.random.default_rng(9))
    assert patterned.tolist() == [True, True, False, False]
    assert counts[:, patterned].mean() == pytest.approx(4.0, abs=0.5)
    assert counts[:, ~patterned].mean() == pytest.approx(2.0, abs=0.1)
    assert xy.shape == (4_000, 2)


@pytest.mark.parametrize("name", space.PATTERNS)
def test_patterns_in_space_are_found(name):
    setting = space.SpaceSetting(name, n_spots=500, n_genes=40, n_patterned=8, mean=2.0)
    found, false = space.found_and_false(setting, space.TESTS["dhsic test"], 0)
    assert found >= 7
    assert false <= 2


def test_ratios_outside_of_what_is_allowed():
    assert outside(1.08, 0.5, 10**6)
    assert not outside(1.04, 0.5, 10**6)
    assert not outside(1.3, 1e-4, 10**5)  # chance
    assert outside(1.3, 1e-4, 10**7)


def test_tables_of_noise_and_power():
    counts = {"0.5": 560, "0.1": 100, "0.01": 10, "0.001": 1, "0.0001": 0}
    rows = pd.DataFrame([{"set": "a", "method": "dhsic test", "tests": 1000, **counts}] * 10)
    table = noise_tables(rows)[1]
    assert "| a | 10,000 | 1.120 * | 1.000 | 1.000 | 1.000 | 0.000 |" in table
    shares = {"dhsic test": (0.6, 0.9), "F test": (0.2, 0.45)}
    rows = pd.DataFrame(
        [{"set": "a", "method": name, "0.0001": low, "0.05": high}
         for name, (low, high) in shares.items()]
    )  # fmt: skip
    first, second = power_tables(rows)[1::2]
    assert "| a | 0.600 | 0.200 | 3.00 |" in first
    assert "| a | 0.900 | 0.450 | 2.00 |" in second


def test_parts_are_asked_for_by_name():
    assert list(shape_parts(["shapes"])) == list(SHAPE_PARTS)
    assert list(shape_parts(["shapes-time"], quick=True)) == ["shapes-time"]
    assert not shape_parts(["classes"])
    only = shape_parts(["shapes"], ["F test"])
    assert all(list(part.methods) == ["F test"] for part in only.values())
    assert "shapes-figures" in only
    assert "shapes-time" not in only
    (few,) = shape_parts(["shapes-noise"], sets=["coordinates, 100 samples"], seeds=3).values()
    assert list(few.settings) == ["coordinates, 100 samples"]
    assert few.seeds == 3
    for part in shape_parts(["shapes"], quick=True).values():
        assert part.settings
        assert part.seeds <= 10


def test_a_measurement_goes_on_where_it_was(tmp_path):
    called = []

    def measure(setting, method, seed):
        called.append(seed)
        return {"score": setting + method + seed}

    part = Part("t", {"one": 1}, {"F test": 10}, measure, tables=str, seeds=3)
    (cell,) = cells_of(part, None)
    cache, steps = Cache(tmp_path), cell.run(Cache(tmp_path))
    for _ in range(2):
        next(steps)
    assert cell.rows(cache) is None
    list(cell.run(cache))
    assert called == [0, 1, 2]
    assert [row["score"] for row in cell.rows(cache)] == [11, 12, 13]
