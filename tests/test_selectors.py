"""The selectors in scikit-learn's manner, and `select`."""

import inspect

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import dhsic
from dhsic.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:n_features_to_select=.*exceeds")


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((80, 30))
    y = (X[:, 4] + 0.3 * rng.standard_normal(80) > 0).astype(int)
    return X, y


def test_parameters_are_stored_untouched():
    grid, path = [0.1, 1.0], "somewhere"
    model = dhsic.BAHSIC(bandwidth=grid, checkpoint=path)

    assert model.get_params()["bandwidth"] is grid
    assert clone(model).get_params()["checkpoint"] == path


def test_selects_and_transforms(problem):
    X, y = problem
    model = dhsic.BAHSIC(3, progress=False).fit(X, y)

    assert sorted(model.ranking_) == list(range(1, 31))
    assert model.ranking_[4] == 1
    assert model.support_.sum() == model.n_features_ == 3
    assert_array_equal(model.get_support(indices=True), np.flatnonzero(model.ranking_ <= 3))
    assert_array_equal(model.transform(X), X[:, model.support_])


@pytest.mark.parametrize(("n", "expected"), [(7, 7), (0.2, 6), (None, 15), (30, 30)])
def test_how_many(problem, n, expected):
    assert dhsic.BAHSIC(n, step=0.5, progress=False).fit(*problem).support_.sum() == expected


def test_more_than_there_are_is_said(problem):
    with pytest.warns(UserWarning, match="exceeds the number of features, 30"):
        dhsic.BAHSIC(31, progress=False).fit(*problem)


def test_in_a_pipeline_with_names(problem):
    X, y = problem
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(30)])
    pipe = make_pipeline(dhsic.BAHSIC(2, progress=False), LogisticRegression())
    pipe.set_output(transform="pandas")

    assert pipe.fit(frame, y).score(frame, y) > 0.8
    assert "gene4" in pipe[0].get_feature_names_out()
    assert pipe[0].result_["feature"].values[4] == "gene4"


def test_lazy_input_stays_lazy(problem, tmp_path):
    X, y = problem
    lazy = da.from_array(X, chunks=(80, 7))
    model = dhsic.BAHSIC(3, progress=False).fit(lazy, y)
    chosen = X[:, model.support_]
    zarr.create_array(tmp_path / "x.zarr", data=X)
    named = xr.DataArray(lazy, dims=("samples", "features"))
    for given in (
        lazy,
        named,
        named.T,
        named.to_dataset(name="x"),
        zarr.open_array(tmp_path / "x.zarr"),
        tmp_path / "x.zarr",
        str(tmp_path / "x.zarr"),
    ):
        if not isinstance(given, (da.Array, xr.DataArray, xr.Dataset)):  # labels tell its axes
            model.fit(given, y)
        out = model.transform(given)
        assert isinstance(getattr(out, "data", out), da.Array)
        assert_array_equal(out, chosen)
    for given in (lazy[:, :5], zarr.create_array(tmp_path / "y.zarr", data=X[:30, :29])):
        with pytest.raises(dhsic.InputError, match=r"30 features"):
            model.transform(given)


@pytest.fixture
def fitted(problem):
    return dhsic.BAHSIC(3, step=0.5, progress=False, runtime="threads").fit(*problem)


class AnnData:
    """What `anndata` calls so, as far as it matters here: rows that are tables of their own."""

    shape = (80, 30)
    n_got = 0

    def __len__(self):
        return 80

    def __getitem__(self, index):
        type(self).n_got += 1
        return type(self)()


AnnData.__module__ = "anndata._core.anndata"
WRONG = {
    "wrong width": (lambda X: X[:, :7], "X has 7 features, but BAHSIC is expecting 30"),
    "masked": (np.ma.masked_array, "is a masked array"),
    "text": (lambda X: X.astype(str), "dtype of X is <U"),
    "text in objects": (lambda X: X.astype(str).astype(object)[:, :] + "a", "could not convert"),
    "three axes": (lambda X: X[:, :, None], "has shape"),
    "a number": (lambda X: 3, "X is a builtins.int"),
    "sparse columns": (lambda X: pd.DataFrame(X).astype("Sparse[float]"), "are sparse"),
    "text in a frame": (lambda X: pd.DataFrame(X).astype({3: str}), "are not numbers"),
    "columns twice": (lambda X: pd.DataFrame(X, columns=["a"] * 30), "more than once"),
    "AnnData": (
        lambda X: AnnData(),
        r"anndata AnnData object.* adata\.X .* path of its Zarr",
    ),
    "dask text": (lambda X: da.from_array(X.astype(str)), "dtype of X is <U"),
    "dask of sparse": (
        lambda X: da.from_array(X, chunks=40).map_blocks(csr_array, meta=csr_array((0, 0))),
        "chunks of the dask array X are scipy",
    ),
    "xarray text": (lambda X: xr.DataArray(X.astype(str), dims=("samples", "x")), "dtype of X is"),
    "a group": (lambda X: zarr.create_group({}), "0 variables with two dimensions"),
}


@pytest.mark.parametrize("name", WRONG)
def test_transform_refuses_what_fit_does(problem, fitted, name):
    X, y = problem
    spoil, said = WRONG[name]
    AnnData.n_got = 0
    with pytest.raises(InputError, match=said):
        fitted.transform(spoil(X))
    if name != "wrong width":
        with pytest.raises(InputError):
            dhsic.BAHSIC(3, progress=False).fit(spoil(X), y)
    assert AnnData.n_got == 0


def test_anndata_is_refused_whatever_is_asked_of_it(problem):
    for options in ({"sample_dim": 0}, {"variable": "X"}):
        with pytest.raises(InputError, match=r"adata\.X"):
            dhsic.BAHSIC(3).fit(AnnData(), problem[1], **options)
    with pytest.raises(InputError, match=r"adata\.X"):
        dhsic.select(AnnData(), "louvain")
    with pytest.raises(InputError, match=r"adata\.X"):
        dhsic.open_source(AnnData())


def test_the_zarr_store_of_anndata_is_read(problem, tmp_path, fitted):
    X, y = problem
    group = zarr.create_group(
        tmp_path / "cells.zarr", attributes={"encoding-type": "anndata"}, zarr_format=2
    )
    group.create_array("X", data=X)
    group.create_array("obsm/X_pca", data=X[:, :5])
    for frame, n in zip(("obs", "var"), X.shape, strict=True):
        described = {"encoding-type": "dataframe", "_index": "_index", "column-order": []}
        names = np.array([f"{frame}{i}" for i in range(n)], dtype=object)
        group.create_group(frame, attributes=described).create_array(
            "_index", data=names.astype("U"), attributes={"encoding-type": "string-array"}
        )
    path = str(tmp_path / "cells.zarr")
    read = clone(fitted).fit(path, y, variable="X")
    assert_array_equal(read.ranking_, fitted.ranking_)


def test_transform_takes_the_columns_of_fit_in_their_order(problem):
    X, y = problem
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(30)])
    model = dhsic.BAHSIC(3, progress=False, runtime="threads").fit(frame, y)
    turned = frame[frame.columns[::-1]]
    for other, why in (
        (turned, "must be in the same order as they were in fit"),
        (frame.add_suffix("_other"), "unseen at fit time"),
        (frame.iloc[:, :20], "yet now missing"),
    ):
        with pytest.raises(InputError, match=rf"(?s){why}.*X\[selector.feature_names_in_\]"):
            model.transform(other)
    assert_array_equal(model.transform(turned[model.feature_names_in_]), X[:, model.support_])


@pytest.mark.parametrize("kind", ["array", "dataset"])
def test_transform_takes_the_features_of_fit_of_labelled_data_too(problem, kind):
    X, y = problem
    named = xr.DataArray(
        X, dims=("samples", "genes"), coords={"genes": [f"gene{j}" for j in range(30)]}
    )
    data = named if kind == "array" else named.to_dataset(name="x")
    model = dhsic.BAHSIC(3, progress=False, runtime="threads").fit(data, y)
    with pytest.raises(
        InputError, match=r"in a different order: feature \d+ is 'gene\d+', but was 'gene"
    ):
        model.transform(data.isel(genes=slice(None, None, -1)))
    got = model.transform(data)
    assert_array_equal(got, X[:, model.support_])


def test_all_sources_give_the_same(problem, tmp_path):
    X, y = problem
    model = dhsic.BAHSIC(3, step=0.4, progress=False)
    expected = model.fit(X, y).ranking_
    stored = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(80, 8))
    named = xr.DataArray(X.T, dims=("variants", "samples"), name="dosage")
    for source in (
        X.tolist(),
        pd.DataFrame(X),
        da.from_array(X, chunks=(40, 7)),
        named,
        named.to_dataset(),
        stored,
        str(tmp_path / "x.zarr"),
        tmp_path / "x.zarr",
        dhsic.open_source(X),
    ):
        got = clone(model).fit(source, y).ranking_
        assert_array_equal(got, expected, err_msg=str(type(source)))


def test_select_by_name_of_the_target(problem):
    X, y = problem
    dataset = xr.Dataset({"x": (("samples", "features"), X), "trait": ("samples", y)})

    result = dhsic.select(dataset, "trait", variable="x", n_features_to_select=3, progress=False)

    assert_array_equal(result["rank"], dhsic.BAHSIC(3, progress=False).fit(X, y).ranking_)
    linear = dhsic.select(X, y, method="linear", n_features_to_select=1, progress=False)
    assert linear["selected"].values[4]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "lasso"}, "method='lasso' is unknown"),
        ({"kernal": "linear"}, "kernal: unknown parameter of method 'bahsic'"),
        ({"n_features_to_select": 0}, "n_features_to_select=0"),
        ({"n_features_to_select": 1.5}, "n_features_to_select=1.5"),
        ({"n_features_to_select": True}, "n_features_to_select=True"),
        ({"solver": "fast"}, "solver='fast' is unknown"),
        ({"missing": "drop"}, "missing='drop' is unknown"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"standardize": "yes"}, "standardize='yes'"),
        ({"progress": "loud"}, "progress='loud'"),
        ({"runtime": "spark"}, "runtime='spark'"),
        ({"target": "trait"}, "is the name of a variable"),
        ({"target": [0, 1, 1]}, "3"),
        ({"memory_limit": 1000}, "The peak memory of this run is at most"),
    ],
)
def test_bad_parameters_get_a_sentence(problem, options, sentence):
    X, y = problem
    options = {"target": y, "progress": False, **options}
    error = dhsic.MemoryBudgetError if "memory_limit" in options else (dhsic.InputError, ValueError)

    with pytest.raises(error, match=sentence):
        dhsic.select(X, **options)


def test_progress_hook_hears_every_round(problem):
    heard = []
    model = dhsic.BAHSIC(3, progress=heard.append).fit(*problem)

    assert [h["round"] for h in heard] == list(range(1, model.n_iter_ + 1))
    assert heard[-1]["features_done"] == heard[-1]["features_total"]


def test_checkpointed_fit_resumes(problem, tmp_path):
    X, y = problem

    class StopError(Exception):
        pass

    def stop(record):
        if record["round"] == 9:
            raise StopError

    whole = dhsic.BAHSIC(3, progress=False).fit(X, y)
    with pytest.raises(StopError):
        dhsic.BAHSIC(3, progress=stop, checkpoint=tmp_path / "run").fit(X, y)
    heard = []
    resumed = dhsic.BAHSIC(3, progress=heard.append, checkpoint=tmp_path / "run").fit(X, y)

    assert heard[0]["round"] == 10
    assert_array_equal(resumed.ranking_, whole.ranking_)
    assert_array_equal(resumed.scores_, whole.scores_)
    assert_array_equal(resumed.result_["round_hsic"], whole.result_["round_hsic"])
    with pytest.raises(dhsic.CheckpointError, match="step"):
        dhsic.BAHSIC(3, step=0.2, progress=False, checkpoint=tmp_path / "run").fit(X, y)
    with pytest.raises(dhsic.CheckpointError):
        dhsic.BAHSIC(3, progress=False, checkpoint=tmp_path / "run").fit(X, 1 - y)
    with pytest.raises(dhsic.CheckpointError):
        dhsic.BAHSIC(3, progress=False, checkpoint=tmp_path / "run").fit(X + 1, y)


@pytest.mark.parametrize("selector", [dhsic.BAHSIC, dhsic.FOHSIC, dhsic.LinearHSIC, dhsic.CCM])
def test_a_linear_confounder_of_real_labels_is_taken_out(selector):
    """A proxy of age tells nothing of y once age is taken out of y."""
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        age, X = rng.standard_normal(200), rng.standard_normal((200, 12))
        X[:, 3] = age + 0.3 * rng.standard_normal(200)
        y = 2 * age + 0.3 * X[:, 7] + 0.3 * rng.standard_normal(200)
        model = selector(1, progress=False)
        assert model.fit(X, y).get_support(indices=True).tolist() == [3]
        found += model.fit(X, y, covariates=age).get_support(indices=True).tolist()
    assert found == [7] * 3


def test_covariates_that_explain_all_of_a_target_are_told(rng):
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    with pytest.raises(InputError, match="explain target 0 completely"):
        dhsic.BAHSIC(2, progress=False).fit(X, y, covariates=2 * y + 1)


def test_selected_features_say_where_they_are(rng):
    X = rng.standard_normal((60, 9))
    model = dhsic.BAHSIC(2, progress=False).fit(X, (X[:, 4] + X[:, 7] > 0).astype(int))
    frame = dhsic.selected_features(model).to_dataframe()
    assert set(frame.index) == {4, 7}
    assert frame["rank"].tolist() == [1, 2]


def test_what_is_no_result_gets_a_sentence(rng, tmp_path):
    with pytest.raises(InputError, match="int is not a result of a selection"):
        dhsic.selected_features(3)
    with pytest.raises(InputError, match="ndarray is not a result of a selection"):
        dhsic.save(rng.standard_normal(3), tmp_path / "x")
    with pytest.raises(InputError, match="There is no result at"):
        dhsic.load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is not a result"):
        dhsic.load(tmp_path / "empty")


def test_categories_that_nobody_shares_are_told(rng):
    X = rng.standard_normal((30, 5))
    for selector in (dhsic.BAHSIC, dhsic.FOHSIC):
        with pytest.raises(InputError, match="no two samples have the same value"):
            selector(2, kernel="delta", progress=False).fit(X, X[:, 0] > 0)


def test_public_names_alone_are_listed():
    assert "kernel_matrix" in dir(dhsic)
    assert all(not name.startswith("_") or name == "__version__" for name in dir(dhsic))
    assert all(hasattr(dhsic, name) for name in dir(dhsic))


def test_help_shows_what_a_method_takes_before_what_all_take():
    names = list(inspect.signature(dhsic.BAHSIC).parameters)
    assert names[:5] == ["n_features_to_select", "interactions", "balance", "step", "kernel"]
    assert names[-1] == "memory_limit"
    assert sorted(names) == sorted(dhsic.BAHSIC().get_params())
