"""Frames of pandas as labels and covariates: ids are names, and never values."""

import numpy as np
import pandas as pd
import pytest

import dhsic
from dhsic.errors import InputError
from dhsic.independence import hsic_test, test_features

TEN = [f"s{i}" for i in range(10)]
DATA = pd.DataFrame(np.random.default_rng(1).normal(size=(10, 4)), index=TEN, columns=list("abcd"))
VALUES = pd.Series(DATA["b"] * 2 + 0.01 * np.arange(10), name="trait")


def fitted(y, X=DATA, **options):
    model = dhsic.BAHSIC(2, progress=False, runtime="threads").fit(X, y, **options)
    return model.ranking_.tolist()


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame({"IID": TEN, "trait": VALUES.to_numpy()}),
        pd.DataFrame({"#FID": "0", "#IID": TEN, "PAT": 0, "MAT": 0, "trait": VALUES.to_numpy()}),
        pd.DataFrame({"trait": VALUES.to_numpy(), "sample": TEN}),
        pd.DataFrame({"trait": VALUES.to_numpy(), "who": TEN}),
        VALUES.to_frame().rename_axis("IID").assign(FID="F"),
        VALUES.to_frame().reset_index(),
    ],
)
@pytest.mark.filterwarnings("ignore:Column 'a' of X has the values of y")
def test_frames_are_joined_by_their_ids_which_are_no_values(given):
    expected = fitted(VALUES)
    turned = given.sample(frac=1, random_state=2)
    assert fitted(turned) == fitted(turned.reset_index(drop=given.index.name is None)) == expected
    assert dhsic.hsic(DATA, turned) == dhsic.hsic(DATA, VALUES.to_frame())
    for test in (hsic_test, test_features):
        of_them = [test(DATA, y, n_permutations=9) for y in (turned, VALUES.to_frame())]
        assert str(of_them[0]) == str(of_them[1])
    other = DATA["a"].rename("other")
    given_covariates = fitted(other, covariates=turned)
    assert given_covariates == fitted(other, covariates=VALUES.to_frame())
    with pytest.raises(
        InputError, match=r"no sample names to compare|looks like sample names|No column"
    ):
        fitted(turned, DATA.set_axis([f"t{i}" for i in range(10)]))
    with pytest.raises(InputError, match="by_position=True"):
        fitted(turned, DATA.to_numpy())
    assert fitted(given, DATA.to_numpy(), by_position=True) == expected


def test_frames_of_nothing_but_ids_are_refused():
    with pytest.raises(
        InputError, match=r"y has only columns with sample names: 'FID', 'IID'. .* y.to_numpy\(\)"
    ):
        fitted(pd.DataFrame({"FID": TEN, "IID": TEN}))


def test_an_index_is_a_name_as_a_column_is():
    ids = VALUES.to_frame().assign(IID=TEN[::-1])
    with pytest.raises(InputError, match="'IID' and 'index' of y match different rows"):
        fitted(ids)
    left_over = ids.set_axis(range(10)).sample(frac=1, random_state=0)
    assert fitted(left_over.assign(IID=TEN[::-1])) == fitted(
        pd.Series(left_over.trait.to_numpy(), index=TEN[::-1]).loc[TEN]
    )
    both = pd.MultiIndex.from_arrays([["F"] * 10, TEN], names=["FID", "IID"])
    assert fitted(VALUES.set_axis(both), DATA.set_axis(both)) == fitted(VALUES)
    with pytest.raises(InputError, match="a different order"):
        fitted(VALUES.set_axis(both)[::-1], DATA.set_axis([f"F_{name}" for name in TEN]))


def test_a_label_matrix_has_its_columns_in_the_order_of_the_data():
    L = np.outer(VALUES, VALUES)
    turned = np.random.default_rng(0).permutation(10)

    def fitted_by(matrix, order):
        given = pd.DataFrame(matrix).assign(IID=np.array(TEN)[order])
        model = dhsic.BAHSIC(2, label_kernel="precomputed", progress=False, runtime="threads")
        return model.fit(DATA, given).ranking_.tolist()

    assert fitted_by(L[turned], turned) == fitted_by(L, np.arange(10))
    with pytest.raises(InputError, match="not symmetric"):
        fitted_by(L[np.ix_(turned, turned)], turned)


@pytest.mark.parametrize("is_x", [True, False])
def test_an_index_that_was_reset_is_no_name_of_samples(is_x):
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(60, 6)), columns=list("abcdef"))
    y = (X["e"] + 0.1 * rng.normal(size=60)).rename("trait")
    X, y = X[X["a"] > 0], y[X["a"] > 0]
    expected = test_features(X, y).p_values
    X, y = (X.reset_index(drop=True), y) if is_x else (X, y.reset_index(drop=True))
    for given in ({"Y": y}, {"Y": y.to_numpy(), "covariates": y.to_frame()}):
        with pytest.raises(InputError, match="do not reset the index") as error:
            test_features(X, **given)
        assert "Keep only" not in str(error.value)
        assert "are in the order of X, pass by_position=True" in str(error.value)
    np.testing.assert_array_equal(test_features(X, y, by_position=True).p_values, expected)


def test_rows_that_were_shuffled_are_put_in_order_or_taken_by_position():
    turned = DATA.reset_index(drop=True).sample(frac=1, random_state=3)
    y = VALUES.reset_index(drop=True)
    with pytest.raises(InputError, match=r"Pass Y\.loc\[X\.index\], or by_position=True .* reset"):
        test_features(turned, y)
    ordered = test_features(turned, y.loc[turned.index]).p_values
    reset = y.loc[turned.index].reset_index(drop=True)
    by_position = test_features(turned, reset, by_position=True).p_values
    np.testing.assert_array_equal(ordered, by_position)


def test_labels_and_covariates_of_dask_are_matched_by_their_index(rng):
    frames = pytest.importorskip("dask.dataframe")
    X = pd.DataFrame(rng.normal(size=(60, 5)), [f"s{i}" for i in range(60)]).add_prefix("g")
    y = (X["g3"] + rng.normal(size=60)).rename("y")
    age = pd.DataFrame({"age": rng.normal(size=60)}, X.index)
    p = dhsic.test_features(X, y, covariates=age).p_values
    other = frames.from_pandas(y.iloc[rng.permutation(60)], npartitions=2, sort=False)
    with pytest.raises(InputError, match="order"):
        dhsic.test_features(X, other)
    same = [frames.from_pandas(v, npartitions=2, sort=False) for v in (y, age)]
    np.testing.assert_array_equal(dhsic.test_features(X, same[0], covariates=same[1]).p_values, p)


def test_features_of_dask_and_polars_keep_their_names(rng):
    frames, polars = pytest.importorskip("dask.dataframe"), pytest.importorskip("polars")
    X = pd.DataFrame(rng.normal(size=(60, 5)), [f"s{i}" for i in range(60)]).add_prefix("g")
    y = (X["g3"] + 0.3 * rng.normal(size=60)).to_numpy()
    of_dask = frames.from_pandas(X, npartitions=2, sort=False)
    assert [*dhsic.open_source(of_dask).sample_names()] == [*X.index]
    for data in (of_dask, polars.from_pandas(X)):
        assert [*dhsic.open_source(data).feature_names()] == [*X.columns]
        result = dhsic.select(data, y, n_features_to_select=1, progress=False)
        assert dhsic.selected_features(result)["feature"].to_numpy().tolist() == ["g3"]
