"""Permuted copies that take part in a selection, and what they say of the features."""

import json
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import dhsic
from dhsic.cli import main
from dhsic.cli.report import as_text
from dhsic.errors import InputError
from dhsic.reports.sentences import costs_of, doubts_of, order_of
from dhsic.sources.arrays import ArraySource
from dhsic.sources.views import ShadowedSource


def data(rng, m=80, d=30):
    X = rng.standard_normal((m, d))
    return X, X[:, 4] + X[:, 9] + 0.5 * rng.standard_normal(m)


@given(st.integers(0, 99), st.integers(1, 3), st.booleans())
def test_shadows_are_features_of_other_samples(seed, n_copies, take_part):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, 5))
    rows = np.array([1, 2, 5, 7]) if take_part else None
    source = ShadowedSource(ArraySource(X), n_copies, seed, rows)
    some = np.arange(9) if rows is None else rows

    whole = np.concatenate([source.read(b) for b in source.blocks(2)], axis=1)

    assert_array_equal(whole[:, :5], X)
    for copy in range(1, n_copies + 1):
        part = whole[:, 5 * copy : 5 * copy + 5]
        order = [int(np.flatnonzero(X[:, 0] == value)[0]) for value in part[:, 0]]
        assert_array_equal(part, X[order])  # all features alike
        assert sorted(np.array(order)[some]) == some.tolist()
    for asked in (some[::2], some[::-1]):
        parts = [source.read(b, asked) for b in source.blocks(2)]
        assert_array_equal(np.concatenate(parts, axis=1), whole[asked])


def test_a_run_that_discovers_nothing_says_so(rng):
    X = rng.standard_normal((40, 20))
    asked = {"n_features_to_select": 5, "control": "shadow", "progress": False}
    found = dhsic.select(X, rng.standard_normal(40), **asked)
    assert found.attrs["n_discovered"] == 0
    lines = [*order_of(found), *doubts_of(found, costs_of(found, {}))]
    assert any("none is selected. Try" in line for line in lines)
    assert not any("explain" in line or "an exact run" in line for line in lines)
    assert as_text(dhsic.selected_features(found), None, 80) == "no features selected"


@pytest.mark.parametrize(
    "selector",
    [dhsic.BAHSIC(6, step=0.4), dhsic.FOHSIC(6), dhsic.OnePass(6, criterion="pearson")],
)
def test_rates_are_counted_down_the_ranking_of_features_and_shadows(rng, selector):
    X, y = data(rng)
    y[7] = np.nan
    rows = np.delete(np.arange(80), 7)
    selector.set_params(control="shadow", fdr=0.25, progress=False)
    found = selector.fit(X[rows], y[rows]).result_
    source = ShadowedSource(ArraySource(X[rows]), 5, 0)
    whole = np.concatenate([source.read(b) for b in source.blocks(100)], axis=1)
    selector.set_params(control=None)
    best = np.argsort(selector.fit(whole, y[rows]).ranking_)

    rates, n_real, above = [], 0, np.zeros(6)
    for j in best:
        above[j // 30] += 1
        n_real += j < 30
        rates.append((1 + above[1:].sum() + above[1:].max()) / (5 * max(1, n_real)))
    expected = {int(j): min(1, *rates[i:]) for i, j in enumerate(best) if j < 30}

    assert_allclose(found["fdr"], [expected[j] for j in range(30)])
    assert_array_equal(np.argsort(found["rank"].to_numpy()), [j for j in best if j < 30])
    n = sum(rate <= 0.25 for rate in expected.values())
    assert found.attrs["n_discovered"] == n >= 2
    assert int(found["selected"].sum()) == found.attrs["n_selected"] == min(6, n)
    assert found["selected"][[4, 9]].all()


def test_of_noise_mostly_nothing_is_selected(rng):
    n_wrong = 0
    for run in range(20):
        X, y = rng.standard_normal((40, 60)), rng.standard_normal(40)
        model = dhsic.LinearHSIC(5, control="shadow", random_state=run, progress=False).fit(X, y)
        n_wrong += model.n_features_ > 0
        assert (model.ranking_[model.support_] <= model.n_features_).all()
    assert n_wrong <= 6  # one in ten is allowed; more than 6 of 20 once in 400 times


def test_each_of_several_targets_has_shadows_and_samples_held_out(rng):
    X, y = data(rng)
    options = {"control": "shadow", "fdr": 0.25, "holdout": 0.3, "method": "linear"}
    targets = {"a": y, "b": rng.standard_normal(80)}
    found = dhsic.select(
        X, targets, per_target=True, n_features_to_select=5, progress=False, **options
    )
    for name, labels in targets.items():
        alone = dhsic.select(X, labels, n_features_to_select=5, progress=False, **options)
        for column in ("rank", "fdr", "p", "selected"):
            assert_array_equal(found[column].sel(targets=name), alone[column])


def test_missing_codes_checkpoints_and_the_command_line(rng, tmp_path):
    import zarr

    X = rng.binomial(2, 0.4, (80, 40)).astype(np.int8)
    y = X[:, 3] + 0.2 * rng.standard_normal(80)
    X[rng.random(X.shape) < 0.02] = -9
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("X", data=X, chunks=(80, 16), dimension_names=("samples", "features"))
    group.create_array("trait", data=y, dimension_names=("samples",))
    asked = ["select", str(tmp_path / "g.zarr"), "--target", "trait", "--control", "shadow"]
    asked += ["--fdr", "0.2", "-n", "5", "--step", "0.5", "--no-rerank"]

    told = CliRunner().invoke(main, [*asked, "--checkpoint", str(tmp_path / "run")])
    again = CliRunner().invoke(main, [*asked, "--checkpoint", str(tmp_path / "run"), "--json"])
    with warnings.catch_warnings(action="default"):
        plan = CliRunner().invoke(main, ["plan", *asked[1:]])

    assert told.exit_code == again.exit_code == plan.exit_code == 0, told.output + plan.output
    words = " ".join(told.output.split())
    assert "discovered at a false discovery rate of 0.2, with 6 permuted copies of each" in words
    rows = json.loads(again.stdout)["selected"]
    assert rows[0]["index"] == 3
    assert "includes 6 permuted copies of every feature" in " ".join(plan.output.split())
    options = {"method": "linear", "control": "shadow", "progress": False}
    with pytest.warns(UserWarning, match="treated as missing"):
        plain = dhsic.select(X, y, n_features_to_select=5, **options)
    assert plain.attrs["n_values_coded"] == (X == -9).sum()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"control": "knockoff"}, "pass 'shadow', or None"),
        ({"control": "shadow", "fdr": 0}, "may be false, such as 0.1"),
        ({"control": "shadow", "stability": 4}, "stability= does not support shadows"),
        ({"control": "shadow", "clump_r2": 0.2}, "clump_r2= does not support shadows"),
        ({"control": "shadow", "label_kernel": "self"}, "does not support label_kernel='self'"),
    ],
)
def test_what_shadows_say_nothing_of_gets_a_sentence(rng, options, match):
    X, y = data(rng)
    with pytest.raises(InputError, match=match):
        dhsic.LinearHSIC(3, **options).fit(X, y)


def test_groups_and_p_values_have_no_shadows(rng):
    X, y = data(rng)
    with pytest.raises(InputError, match="does not support groups"):
        dhsic.BAHSIC(3, control="shadow").fit(X, y, feature_groups=np.arange(30) // 3)
    with pytest.raises(InputError, match="its own p- and q-values"):
        dhsic.OnePass(3, criterion="hsic", control="shadow").fit(X, y)
