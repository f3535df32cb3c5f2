"""Tests of single features: as `hsic_test` of each, whatever holds them."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from scipy.stats import chi2
from stores import write_vcz

import dhsic
from dhsic.errors import InputError
from dhsic.independence import METHODS, hsic_test, test_features
from dhsic.kernels.labels import label_matrix
from dhsic.passes import reader
from dhsic.reports.sentences import order_of


@pytest.fixture
def wide(rng):
    """Twelve features, of which 3 and 7 carry the labels."""
    X = rng.standard_normal((50, 12)) * np.arange(1, 13)
    return X, X[:, 3] / 4 + (X[:, 7] / 8) ** 2 + 0.2 * rng.standard_normal(50)


def test_lambda_says_whether_p_values_are_too_small(rng):
    X, y = rng.standard_normal((100, 400)), rng.standard_normal(100)
    found = dhsic.test_features(X, y).result_
    median = float(np.median(found["p"]))
    assert found.attrs["inflation"] == pytest.approx(chi2.isf(median, 1) / chi2.isf(0.5, 1))
    (told,) = [line for line in order_of(found) if "lambda" in line]
    assert "1 means no inflation" in told

    alike = dhsic.test_features(X + y[:, None] / 3, y).result_
    lines = [*order_of(alike)]
    assert not any("one in 20" in line for line in lines)
    (told,) = [line for line in lines if "lambda" in line]
    assert "relatives" in told
    assert "--covariates" in told
    assert "--loco" not in told  # no chromosome is known


def test_features_are_tested_as_they_are_alone(wide):
    X, y = wide
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    which = [7, 3, 11]
    options = {"n_permutations": 99, "random_state": 4}

    found = test_features(X, y, which, bandwidth="median", **options)

    alone = [hsic_test(Z[:, j], y, **options) for j in which]
    np.testing.assert_array_equal(found.features, which)
    np.testing.assert_allclose(found.statistics, [t.statistic for t in alone], rtol=1e-9)
    np.testing.assert_array_equal(found.p_values, [t.p_value for t in alone])
    np.testing.assert_allclose(found.sigmas, [t.sigma for t in alone])
    together = hsic_test(Z[:, which], y, **options)
    assert found.together.p_value == together.p_value
    assert found.together.statistic == pytest.approx(together.statistic)


def test_all_features_and_their_rate_of_false_discoveries(wide):
    X, y = wide

    found = test_features(X, y)

    assert set(np.flatnonzero(found.adjusted <= 0.05)) == {3, 7}
    n, order = 12, np.argsort(found.p_values)
    expected = found.p_values[order] * n / np.arange(1, n + 1)
    expected = np.minimum.accumulate(expected[::-1])[::-1].clip(max=1)
    np.testing.assert_allclose(found.adjusted[order], expected)


def test_rows_are_those_samples_alone(wide, rng):
    X, y = wide
    X[0, 2] = np.nan
    C = rng.standard_normal(50)
    held_out = np.arange(49, 9, -1)
    options = {"n_permutations": 99, "bandwidth": "median"}
    expected = test_features(X[held_out], y[held_out], [2, 3], covariates=C[held_out], **options)
    L = label_matrix(y, "linear").L
    linear = test_features(X[held_out], y[held_out], [3], label_kernel="linear", **options)

    found = test_features(X, y, [2, 3], rows=held_out, covariates=C, **options)
    by_mask = test_features(X, y, [2, 3], rows=np.arange(50) > 9, covariates=C, **options)
    of_matrix = test_features(X, L, [3], rows=held_out, label_kernel="precomputed", **options)

    np.testing.assert_array_equal(found.p_values, expected.p_values)
    np.testing.assert_allclose(found.statistics, expected.statistics)
    np.testing.assert_allclose(by_mask.statistics, expected.statistics, rtol=1e-9)
    assert found.together.n_samples == 40
    np.testing.assert_allclose(of_matrix.statistics, linear.statistics)


def test_stores_frames_and_arrays_agree(wide, tmp_path, monkeypatch):
    X, y = wide
    names = [f"gene{j}" for j in range(12)]
    store = zarr.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(20, 4), dtype=X.dtype)
    store[:] = X
    labelled = xr.DataArray(X, dims=("samples", "genes"), coords={"genes": names})
    options = {"n_permutations": 49}
    monkeypatch.setattr(reader, "block_width", lambda *_: 5)
    expected = test_features(X, y, [9, 0, 3], **options)

    for given_as in (store, str(tmp_path / "X.zarr"), labelled, pd.DataFrame(X, columns=names)):
        found = test_features(given_as, y, [9, 0, 3], **options)
        np.testing.assert_array_equal(found.p_values, expected.p_values)
        np.testing.assert_allclose(found.statistics, expected.statistics)
    by_name = test_features(labelled, y, ["gene9", "gene0", "gene3"], **options)
    np.testing.assert_array_equal(by_name.p_values, expected.p_values)
    assert by_name.names.tolist() == ["gene9", "gene0", "gene3"]
    assert expected.names is None


def test_labels_by_name(wide):
    X, y = wide
    cells = xr.Dataset({"counts": (("cells", "genes"), X), "trait": ("cells", y)})
    expected = test_features(X, y, [3], n_permutations=49)

    found = test_features(cells, "trait", [3], variable="counts", n_permutations=49)

    np.testing.assert_array_equal(found.p_values, expected.p_values)


def test_only_the_chunks_of_the_features_are_read(wide, tmp_path, monkeypatch):
    X, y = wide
    store = zarr.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(50, 4), dtype=X.dtype)
    store[:] = X
    monkeypatch.setattr(reader, "block_width", lambda *_: 4)
    (tmp_path / "X.zarr" / "c" / "0" / "2").unlink()

    test_features(store, y, [0, 7], n_permutations=9)

    with pytest.raises(dhsic.DataError, match="c/0/2"):
        test_features(store, y, [0, 8], n_permutations=9)


def test_features_of_a_fitted_selector(wide):
    X, y = wide
    model = dhsic.BAHSIC(2, progress=False, runtime="threads").fit(X[:30], y[:30])

    found = test_features(X, y, model.support_, rows=np.arange(30, 50))

    np.testing.assert_array_equal(found.features, np.flatnonzero(model.support_))


@pytest.mark.parametrize("method", METHODS)
def test_a_feature_that_does_not_vary_has_nothing_to_say(wide, method):
    X, y = wide
    X[:, 5] = 1.5

    found = test_features(X, y, [3, 5], bandwidth="median", method=method, n_permutations=9)

    assert (found.statistics[1], found.p_values[1]) == (0.0, 1.0)
    assert np.isnan(found.sigmas).tolist() == [False, True]
    assert found.p_values[0] <= 0.1


def test_results_read_well(wide):
    X, y = wide
    found = test_features(pd.DataFrame(X, columns=list("abcdefghijkl")), y, ["d", "a"])

    lines = str(found).splitlines()

    assert lines[0].split() == ["feature", "HSIC", "p", "adjusted", "shape"]
    assert [line.split()[0] for line in lines[1:3]] == ["d", "a"]
    assert lines[3] == f"together: {found.together}"
    assert "permutation, 1,000 draws; 50 samples" in str(found.together)
    assert "of 0" not in str(hsic_test(X, y, method="gamma"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"features": [0, 12]}, "features range from 0 to 12, but X has 12 features"),
        ({"features": [-1]}, "features range from -1"),
        ({"features": [1, 1]}, "1 of the 2 features are repeated"),
        ({"features": []}, "at least one"),
        ({"features": [0.5]}, "dtype float64"),
        ({"features": np.ones(11, dtype=bool)}, "a boolean mask of length 12"),
        ({"features": ["geen3"]}, "Did you mean 'gene3'"),
        ({"features": ["gene3", "gene3"]}, "are repeated"),
        ({"rows": [0, 50]}, "rows range from 0 to 50, but X has 50 samples"),
        ({"rows": [0, 1, 2, 2, 3]}, "1 of the 5 rows are repeated"),
        ({"rows": [0, 1, 2]}, "4 samples"),
        ({"missing": "drop"}, "missing='drop' is unknown"),
        ({"missing": "error"}, "1 values are missing in 1 features"),
        ({"covariates": np.ones(49)}, "one row per sample"),
        ({"features": [2], "rows": [0, 1, 2, 3, 4]}, "All 1 features are constant"),
        ({"method": "magic"}, "method='magic' is unknown"),
    ],
)
def test_bad_features_get_a_sentence(wide, options, sentence):
    X, y = wide
    X[10, 3], X[:5, 2] = np.nan, 7.0
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(12)])

    with pytest.raises(InputError, match=sentence):
        test_features(frame, y, **options)


def test_names_where_there_are_none(wide):
    with pytest.raises(InputError, match="X has no feature names; pass positions"):
        test_features(*wide, ["gene3"])


def test_labels_in_another_order_are_refused(wide):
    X, y = wide
    samples = [f"s{i}" for i in range(50)]
    frame, trait = pd.DataFrame(X, index=samples), pd.Series(y, index=samples[::-1])

    for call in (hsic_test, test_features):
        with pytest.raises(InputError, match="a different order"):
            call(frame, trait)


def test_as_a_frame_and_as_text(rng):
    X = rng.standard_normal((60, 4))
    found = test_features(X, X[:, 2] ** 2, [2, 0], n_permutations=20)
    frame = found.to_dataframe()
    assert frame.index.tolist() == [2, 0]
    assert frame["p_values"].tolist() == found.p_values.tolist()
    assert repr(found) == str(found)
    assert "together" in repr(found)


def test_of_many_features_the_most_telling_are_printed():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (60, 40)).astype(np.int8)
    found = dhsic.test_features(X, X[:, 17] + rng.normal(size=60))
    lines = str(found).splitlines()
    assert len(lines) == 22
    assert lines[1].split()[0] == "17"
    assert lines[-1].startswith("... and 20 more")


@pytest.mark.parametrize("names", [None, ["g4", "g9", "g12"]])
def test_filters_leave_what_data_without_the_rest_have(names, tmp_path):
    rng = np.random.default_rng(4)
    G = rng.binomial(2, rng.uniform(0.02, 0.5, 16), (80, 16)).astype("i1")
    G[rng.random(G.shape) < 0.03] = -1
    y, C = rng.standard_normal(80), rng.standard_normal((80, 1))
    calls = np.stack([np.where(G < 0, -1, n <= G) for n in (1, 2)], axis=2).transpose(1, 0, 2)
    write_vcz(tmp_path / "x.vcz", calls.astype("i1"), ids=[f"g{j}" for j in range(16)])
    keep = [f"s{i}" for i in range(80) if i % 4]
    rows = np.array([i for i in range(80) if i % 4])
    some = np.ma.masked_less(G[rows], 0)
    frequency = np.asarray(some.mean(axis=0)) / 2
    lacking = np.ma.getmaskarray(some).mean(axis=0)
    is_left = (np.minimum(frequency, 1 - frequency) >= 0.05) & (lacking <= 0.06)
    is_left &= np.arange(16) != 2
    left = np.flatnonzero(is_left)
    assert 8 < left.size < 15
    filters = dhsic.Filters(keep=keep, maf=0.05, max_missing=0.06, exclude=["g2"])

    found = test_features(str(tmp_path / "x.vcz"), y, names, covariates=C, filters=filters)

    chosen = left if names is None else np.array([int(name[1:]) for name in names])
    alone = np.where(G < 0, np.nan, G)[np.ix_(rows, left)]
    which = None if names is None else np.searchsorted(left, chosen)
    expected = test_features(alone, y[rows], which, covariates=C[rows])
    assert found.features.tolist() == chosen.tolist()
    assert found.names.tolist() == [f"g{j}" for j in chosen]
    np.testing.assert_allclose(found.p_values, expected.p_values, rtol=1e-5)
    of_rows = test_features(
        str(tmp_path / "x.vcz"), y, names, covariates=C, filters=filters, rows=np.arange(40)
    )
    few = np.flatnonzero(rows < 40)
    expected = test_features(alone[few], y[rows[few]], which, covariates=C[rows[few]])
    np.testing.assert_allclose(of_rows.p_values, expected.p_values, rtol=1e-5)
    if names is None:
        assert found.result_.attrs["n_samples_filtered"] == 20
        assert found.result_["stored_feature"].to_numpy().tolist() == left.tolist()


def test_what_filters_leave_out_is_not_tested(wide):
    X, y = wide
    filters = dhsic.Filters(exclude=np.arange(X.shape[1]) == 3, keep=np.arange(len(X)) < 20)
    with pytest.raises(InputError, match=r"excludes 1 of the 2 features of features="):
        test_features(X, y, [3, 4], filters=filters)
    with pytest.raises(InputError, match="excludes all samples of rows="):
        test_features(X, y, rows=[30, 31], filters=filters)
    with pytest.raises(InputError, match=r"pass dhsic\.Filters"):
        test_features(X, y, filters={"maf": 0.1})
    assert test_features(X, y, [4], filters=filters).features.tolist() == [4]


def test_a_set_is_tested_on_complete_samples_where_missing_values_depend_on_labels(rng):
    """Filled in with means, 10% against 2% of missing calls looked like dependence of the set."""
    m, n = 800, 4
    y = np.arange(m) % 2
    X = rng.binomial(2, 0.2, (m, n)).astype(float)
    at_random = np.where(rng.random((m, n)) < 0.06, np.nan, X)
    by_class = np.where(rng.random((m, n)) < np.where(y, 0.2, 0.02)[:, None], np.nan, X)
    complete = np.flatnonzero(~np.isnan(by_class).any(axis=1))
    told = rf"labels: 4 of the 4 features .* on the {complete.size} samples that have all values"

    for labels in (y, y + 0.3 * rng.random(m)):
        with pytest.warns(UserWarning, match=told):
            together = dhsic.test_features(by_class, labels, range(n), method="gamma").together

        options = {"standardize": False, "bandwidth": 0.5, "method": "gamma"}
        with pytest.warns(UserWarning, match=told):
            same = dhsic.test_features(by_class, labels, range(n), **options).together
        alone = dhsic.test_features(by_class, labels, range(n), rows=complete, **options).together
        assert together.n_samples == complete.size
        assert together.p_value > 0.01
        assert same.p_value == pytest.approx(alone.p_value, rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dhsic.test_features(at_random, y, range(n), method="gamma").together.n_samples == m


def test_a_set_of_which_no_sample_has_all_values_is_not_tested(rng):
    m, n = 300, 6
    y = np.arange(m) % 3
    X = rng.standard_normal((m, n))
    X[np.arange(m), np.where(y == 1, 0, np.arange(m) % n)] = np.nan

    with pytest.warns(UserWarning, match="Only 0 samples have all values, so the set is not"):
        tests = dhsic.test_features(X, y, range(n), method="gamma")

    assert tests.together is None
    assert np.isfinite(tests.p_values).all()
    assert "together" not in str(tests)
    assert tests.p_values.min() > 1e-4


def test_missing_values_by_labels_of_many_classes_are_told(rng):
    """Label matrices of more than 64 classes are dense."""
    m = 560
    y = np.arange(m) % 80
    X = rng.standard_normal((m, 2))
    X[(y < 20) & (rng.random(m) < 0.6), 1] = np.nan

    with pytest.warns(UserWarning, match=r"labels: 1 of the 2 features \(1\)"):
        tests = dhsic.test_features(X, y.astype(str), range(2), method="gamma", bandwidth="median")

    assert tests.together.n_samples == np.isfinite(X[:, 1]).sum()
