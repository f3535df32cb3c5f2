"""AnnData in .h5ad, of all versions, and objects of anndata: as the matrices that they hold."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from commands import run, selected, told
from refusals import assert_refused
from suites.source import Case, SourceSuite

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.runtime.dask import DaskRuntime

h5py = pytest.importorskip("h5py")

PBMC = Path(__file__).parents[2] / "shared/data/singlecell/pbmc68k_reduced_v050.h5ad"
QUICK = ("-n", 3, "--threads", 2, "--no-progress")
M, D = 24, 9
CELLS, GENES = [f"c{i}" for i in range(M)], [f"g{j}" for j in range(D)]
RNG = np.random.default_rng(0)
LEIDEN = np.array([*"012"])[np.arange(M) % 3]
X = RNG.standard_normal((M, D)).astype("f4")
X[:, 4] += 2 * (LEIDEN == "1")
SCORE = (X[:, 0] + np.cos(np.arange(M)) / 2).astype("f4")
COUNTS = RNG.poisson(3, (M, D)).astype("i4")
COUNTS[:, 7] += 9 * (LEIDEN == "1")
AGE = pd.array([None, *range(1, M)], dtype="Int64")
OBS = pd.DataFrame(
    {
        "leiden": pd.Categorical(LEIDEN),
        "gap": pd.Categorical([None, *LEIDEN[1:]]),
        "score": SCORE,
        "age": AGE,
        "treated": np.arange(M) % 2 == 0,
        "note": np.array([f"n{i}" for i in range(M)], dtype=object),
    },
    index=CELLS,
)
EXPECTED = {
    "leiden": LEIDEN,
    "gap": ["", *LEIDEN[1:]],
    "score": SCORE,
    "age": [np.nan, *range(1, M)],
    "treated": np.arange(M) % 2 == 0,
    "note": [f"n{i}" for i in range(M)],
}


def ranking(data, y="leiden", **options):
    found = dhsic.select(data, y, n_features_to_select=3, progress=False, **options)
    return found["rank"].to_numpy().tolist(), found["score"].to_numpy().tolist()


DENSE, DENSE_COUNTS = ranking(X, LEIDEN), ranking(COUNTS, LEIDEN)


def put(group, name, values, **about):
    """Write a matrix, dense or sparse, or a column, as anndata does."""
    if sp.issparse(values):
        part = group.create_group(name)
        part.attrs.update({"encoding-type": f"{values.format}_matrix", "shape": values.shape})
        for field in ("data", "indices", "indptr"):
            part.create_dataset(field, data=getattr(values, field), **about)
        return
    values = np.asarray(values)
    dtype = h5py.string_dtype() if values.dtype.kind in "OU" else values.dtype
    group.create_dataset(name, data=values.astype(dtype), dtype=dtype, **about)


def put_frame(file, name, names, frame):
    group = file.create_group(name)
    about = {"encoding-type": "dataframe", "_index": "_index", "column-order": list(frame)}
    group.attrs.update(about)
    put(group, "_index", names)
    for column, values in frame.items():
        kind = "categorical" if hasattr(values, "cat") else "nullable-integer"
        if kind == "categorical" or column == "age":
            part = group.create_group(column)
            part.attrs["encoding-type"] = kind
        if kind == "categorical":
            part.attrs["ordered"] = values.cat.ordered
            put(part, "codes", values.cat.codes)
            put(part, "categories", values.cat.categories.to_numpy(dtype=object))
        elif column == "age":
            put(part, "values", values.fillna(1).to_numpy(dtype="i8"))
            put(part, "mask", values.isna())
        else:
            put(group, column, values)


def write_h5ad(path, matrix=X, kind=np.asarray, **chunks):
    """As anndata 0.8 and later write it."""
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        put(file, "X", kind(matrix), **chunks)
        put(file.create_group("layers"), "counts", kind(COUNTS))
        put_frame(file, "obs", CELLS, OBS)
        put_frame(file, "var", GENES, pd.DataFrame({"pathway": pd.Categorical([*"aabbccaab"])}))
        raw = file.create_group("raw")
        put(raw, "X", kind(np.hstack([COUNTS, COUNTS])))
        put_frame(raw, "var", [f"r{j}" for j in range(2 * D)], pd.DataFrame())
    return path


def write_records(path):
    """As anndata 0.5 wrote it: dataframes are arrays of records, names of sparse parts others."""
    with h5py.File(path, "w") as file:
        file["X"] = X
        kinds = [("index", "S4"), ("leiden", "i1"), ("score", "f4")]
        rows = zip(CELLS, LEIDEN.astype(int), SCORE, strict=True)
        file["obs"] = np.array(list(rows), dtype=kinds)
        file["var"] = np.array([(name,) for name in GENES], dtype=[("index", "S4")])
        file["uns/leiden_categories"] = np.array([b"0", b"1", b"2"])
        put(file, "raw.X", sp.csr_matrix(COUNTS))
        del file["raw.X"].attrs["encoding-type"], file["raw.X"].attrs["shape"]
        file["raw.X"].attrs.update({"h5sparse_format": "csr", "h5sparse_shape": COUNTS.shape})
        file["raw.var"] = np.array([(f"r{j}",) for j in range(D)], dtype=[("index", "S4")])
    return path


class TestDense(SourceSuite):
    @pytest.fixture(scope="class", params=[None, (5, 4), (24, 2)])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(values):
            path = folder / f"{values[0, 0]}.h5ad"
            chunks = {} if request.param is None else {"chunks": request.param}
            return dhsic.open_source(write_h5ad(path, values, **chunks))

        other = X.copy()
        other[0, 0] += 1
        return Case(opened(X), X.astype(float), lambda: opened(X), lambda: opened(other))

    def test_it_opens_itself_where_it_is_read(self, source):
        assert source.client_bytes == 0
        assert source.sample_names().tolist() == CELLS
        assert source.feature_names().tolist() == GENES


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_every_layout_ranks_as_the_matrix(tmp_path, kind, client):
    path = write_h5ad(tmp_path / "a.h5ad", kind=kind)
    assert ranking(path) == DENSE
    assert ranking(str(path), variable="layers/counts") == DENSE_COUNTS
    assert ranking(path, runtime=DaskRuntime(client)) == DENSE
    raw = dhsic.open_source(path, variable="raw/X")
    assert (raw.n_features, raw.feature_names()[D]) == (2 * D, "r9")
    facts = selected(path, "--target", "leiden", "--covariate", "score", *QUICK)
    expected = dhsic.select(
        X, LEIDEN, covariates=SCORE[:, None], n_features_to_select=3, progress=False
    )  # fmt: skip
    chosen = facts["selected"][0]
    assert chosen["score"] == float(expected["score"][chosen["index"]])
    turned = dhsic.open_source(path, sample_dim="var")
    assert (turned.n_samples, turned.sample_names()[0]) == (D, "g0")


def test_columns_of_every_encoding(tmp_path):
    path = write_h5ad(tmp_path / "a.h5ad")
    for name, expected in EXPECTED.items():
        np.testing.assert_array_equal(dhsic.read_target(path, name), expected)
    message = told(run("select", path, "--target", "gap", *QUICK, code=2))
    assert "1 of 24 samples have missing values (gap: 1)" in message
    facts = selected(path, "--target", "gap", *QUICK, "--drop-missing")
    assert facts["n_samples"] == M - 1
    with pytest.raises(InputError, match=r"no column 'liden'; .* Did you mean 'leiden'\?"):
        dhsic.read_target(path, "liden")
    assert ranking(path, feature_groups="pathway") == ranking(
        X, LEIDEN, feature_groups=[*"aabbccaab"]
    )


def test_categories_beside_the_columns_as_of_0_7(tmp_path):
    path = write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(path, "a") as file:
        del file["obs/leiden"], file.attrs["encoding-type"]
        put(file["obs"], "leiden", OBS["leiden"].cat.codes)
        put(file["obs"].create_group("__categories"), "leiden", [*"012"])
        file["obs/leiden"].attrs["categories"] = file["obs/__categories/leiden"].ref
    assert dhsic.read_target(path, "leiden").tolist() == LEIDEN.tolist()
    assert ranking(path) == DENSE


def test_records_as_of_0_5(tmp_path):
    path = write_records(tmp_path / "a.h5ad")
    assert ranking(path) == DENSE
    assert dhsic.read_target(path, "leiden").tolist() == LEIDEN.tolist()
    assert ranking(path, variable="raw/X") == DENSE_COUNTS
    assert dhsic.open_source(path, variable="raw/X").feature_names()[1] == "r1"


def _at(name, change):
    def edit(folder):
        with h5py.File(folder / "a.h5ad", "a") as file:
            change(file, name)

    return edit


def _set(at, value):
    def change(file, name):
        file[name][at] = value

    return change


def _remove(file, name):
    del file[name]


def _cut(folder):
    path = folder / "a.h5ad"
    path.write_bytes(path.read_bytes()[:3000])


DAMAGED = {
    "cut": (_cut, {}, DataError, "a.h5ad cannot be read as HDF5", "Restore it"),
    "text": (
        *(lambda folder: (folder / "a.h5ad").write_text("cells"), {}, DataError),
        *("cannot be read as HDF5", "copy it again"),
    ),
    "an index beyond": (_at("X/indices", _set(0, 99)), {}, DataError, "is damaged", "again"),
    "no indptr": (_at("X/indptr", _remove), {}, DataError, "indptr", "estore it"),
    "no var": (_at("var", _remove), {}, DataError, "var is absent", "restore"),
    "a code beyond": (_at("obs/leiden/codes", _set(0, 7)), {}, DataError, "codes other than"),
    "no column": (_at("obs/leiden", _remove), {}, DataError, "obs/leiden is absent", "lists it"),
    "no such layer": (
        *(lambda folder: None, {"variable": "layers/x"}, InputError),
        *("no matrix 'layers/x'; its matrices are X, raw/X, layers/counts", "variable="),
    ),
    "no such part": (lambda folder: None, {"variable": "leiden"}, InputError, "has no matrix"),
    "of infinity": (_at("X/data", _set(0, np.inf)), {}, DataError, "is inf", "finite"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused_in_a_sentence(tmp_path, case):
    edit, options, error, *words = DAMAGED[case]
    path = write_h5ad(tmp_path / "a.h5ad", kind=sp.csr_matrix)
    edit(tmp_path)
    model = dhsic.BAHSIC(3, progress=False)
    assert_refused(lambda: model.fit(path, "leiden", **options), error, words, tmp_path)


# -- objects --------------------------------------------------------------------------------------


class Cells:
    """What an object of anndata has, as far as it is asked for."""

    isbacked = is_view = False
    raw = filename = None

    def __init__(self, matrix, obs, genes, layers=None):
        self.X, self.obs, self.layers = matrix, obs, layers or {}
        self.var = pd.DataFrame({"pathway": [*"aabbccaab"][: len(genes)]}, index=genes)
        self.obs_names, self.var_names, self.obsm = obs.index, self.var.index, {"X_pca": X[:, :4]}
        self.shape, self.n_vars = (len(obs), len(genes)), len(genes)

    def __getitem__(self, at):
        rows, columns = at
        part = self.X[rows][:, columns]
        return Cells(part, self.obs[rows], self.var_names[columns])


Cells.__module__ = "anndata._core.anndata"


def cells(kind=np.asarray):
    """An object of anndata, or where that is not installed what it consists of."""
    try:
        from anndata import AnnData
    except ImportError:
        return Cells(kind(X), OBS, pd.Index(GENES), {"counts": kind(COUNTS)})
    var = pd.DataFrame({"pathway": [*"aabbccaab"]}, index=GENES)
    return AnnData(kind(X), OBS, var, layers={"counts": kind(COUNTS)}, obsm={"X_pca": X[:, :4]})


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.csr_array])
def test_an_object_ranks_as_its_matrix(kind):
    adata = cells(kind)
    assert ranking(adata) == DENSE
    assert ranking(adata, adata.obs["leiden"]) == DENSE
    assert ranking(adata, variable="layers/counts") == DENSE_COUNTS
    assert dhsic.open_source(adata, variable="obsm/X_pca").n_features == 4
    source = dhsic.open_source(adata)
    assert (source.sample_names()[1], source.feature_names()[1]) == ("c1", "g1")
    assert ranking(adata, feature_groups="pathway") == ranking(
        X, LEIDEN, feature_groups=[*"aabbccaab"]
    )
    model = dhsic.BAHSIC(3, progress=False).fit(adata, "leiden")
    assert model.transform(adata).shape == (M, 3)
    some = np.arange(M) > 3
    assert ranking(adata[some, :]) == ranking(X[some], LEIDEN[some])
    with pytest.raises(
        InputError, match=r"no matrix 'layers/no'; its matrices are X, layers/counts, obsm"
    ):
        dhsic.open_source(adata, variable="layers/no")


def test_scaled_values_are_told_where_others_are_there(tmp_path):
    path, adata = write_h5ad(tmp_path / "a.h5ad"), cells()
    for data, name in ((path, "raw/X"), (adata, "layers/counts")):
        with pytest.warns(UserWarning, match=f"below 0, so it looks scaled; {name} has none"):
            ranking(data)
        with pytest.warns(UserWarning, match="looks scaled"):
            dhsic.test_features(data, "leiden")
        assert dhsic.open_source(data, variable="X").hint == ""
    said = " ".join(run("inspect", path).stdout.split())
    assert "looks scaled; raw/X has none. To use raw/X, pass --variable raw/X" in said
    with pytest.warns(UserWarning, match="pass layer='layers/counts'; to use X, pass layer='X'"):
        dhsic.select_genes(adata, "leiden", n=3, inplace=False, progress=False)
    assert dhsic.open_source(write_h5ad(tmp_path / "b.h5ad", np.abs(X))).hint == ""


def test_a_matrix_is_named_as_in_scanpy(tmp_path):
    path = write_h5ad(tmp_path / "a.h5ad")
    assert dhsic.open_source(path, variable="raw").n_features == 2 * D
    for data in (path, cells()):
        assert ranking(data, variable="counts") == DENSE_COUNTS
    with pytest.raises(InputError, match=r"layer: unknown parameter .* pass variable='counts'"):
        ranking(cells(), layer="counts")


def test_raw_of_an_object_has_no_samples():
    class Raw:
        obs_names = OBS.index

    Raw.__module__ = "anndata._core.raw"
    with pytest.raises(InputError, match=r"This is adata\.raw, .* Pass adata and variable='raw/X'"):
        ranking(Raw())


def test_columns_of_an_object():
    adata = cells()
    for name, expected in EXPECTED.items():
        np.testing.assert_array_equal(dhsic.read_target(adata, name), expected)
    with pytest.raises(InputError, match=r"1 of 24 labels are missing .*first at sample 0"):
        ranking(adata, "gap")
    with pytest.raises(InputError, match=r"adata\.obs has no column 'liden'.*'leiden'"):
        ranking(adata, "liden")


def test_columns_are_covariates_by_name(tmp_path):
    expected = ranking(X, LEIDEN, covariates=np.column_stack([SCORE, np.arange(M) % 2 == 0]))
    for data in (cells(), write_h5ad(tmp_path / "a.h5ad")):
        assert ranking(data, covariates=["score", "treated"]) == expected
        groups = (np.arange(M) % 3)[:, None] == [1, 2]
        alone = ranking(data, "score", covariates="leiden")
        assert alone == ranking(X, SCORE, covariates=groups.astype(float))
        with pytest.raises(InputError, match="Covariate 'gap' is missing for 1 of 24 samples"):
            ranking(data, covariates="gap")
        with pytest.raises(InputError, match="no column 'liden'"):
            ranking(data, covariates=["score", "liden"])
    for frame in (OBS[["leiden"]], OBS["leiden"], OBS["leiden"].astype(str), LEIDEN):
        assert ranking(cells(), "score", covariates=frame) == alone
        found = dhsic.test_features(cells(), "score", covariates=frame)
        by_name = dhsic.test_features(cells(), "score", covariates="leiden")
        np.testing.assert_array_equal(found.p_values, by_name.p_values)
    both = ranking(cells(), "score", covariates=OBS[["leiden", "treated"]])
    assert both == ranking(cells(), "score", covariates=["leiden", "treated"])


def test_ordered_categories_are_levels(tmp_path):
    stages = pd.Categorical.from_codes(np.arange(M) % 3, ["late", "mid", "early"], ordered=True)
    obs = OBS.assign(stage=stages)
    adata = Cells(X, obs, pd.Index(GENES), {"counts": COUNTS})
    with h5py.File(write_h5ad(tmp_path / "a.h5ad"), "a") as file:
        del file["obs"]
        put_frame(file, "obs", CELLS, obs)
    expected = dhsic.select(X, stages, n_features_to_select=3, progress=False)
    for data in (adata, tmp_path / "a.h5ad"):
        found = dhsic.select(data, "stage", n_features_to_select=3, progress=False)
        assert "3 ordered levels late (8) < mid (8) < early (8)" in found.attrs["labels"]
        np.testing.assert_array_equal(found["score"], expected["score"])
        classes = dhsic.select(data, "leiden", n_features_to_select=3, progress=False)
        assert "classes" in classes.attrs["labels"]


def test_an_object_that_is_backed(tmp_path):
    anndata = pytest.importorskip("anndata")
    cells(sp.csr_matrix).write_h5ad(tmp_path / "a.h5ad")
    adata = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    assert ranking(adata) == DENSE
    with pytest.raises(InputError, match=r"to_memory\(\)"):
        ranking(adata[3:])


# -- real cells -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_cells_of_scanpy_as_of_0_5():
    if not PBMC.exists():
        pytest.skip(f"{PBMC} is not here")
    facts = selected(PBMC, "--target", "louvain", *QUICK)
    assert (facts["n_samples"], facts["n_features"]) == (700, 765)
    raw = selected(PBMC, "--variable", "raw/X", "--target", "bulk_labels", *QUICK)
    assert raw["selected"][0]["name"]
    assert set(dhsic.read_target(PBMC, "phase")) == {"G1", "G2M", "S"}


@pytest.mark.parametrize("variable", [None, "layers/counts"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_converted_file_keeps_columns_of_obs_and_var(tmp_path, kind, variable):
    path = write_h5ad(tmp_path / "a.h5ad", kind=kind)
    made = dhsic.convert(path, tmp_path / "out.zarr", variable=variable)
    for name, values in EXPECTED.items():
        found = dhsic.read_target(tmp_path / "out.zarr", name)
        if name == "score":
            np.testing.assert_array_equal(found, np.asarray(values))
        else:
            assert [str(v) for v in found] == [str(v) for v in np.asarray(values)]
    assert set(made.left) == {"X", "layers/counts", "raw/X"} - {variable or "X"}
    expected = DENSE if variable is None else DENSE_COUNTS
    assert ranking(tmp_path / "out.zarr")[0] == expected[0]
    grouped = dhsic.select(
        tmp_path / "out.zarr",
        "leiden",
        feature_groups="pathway",
        n_features_to_select=1,
        progress=False,
    )
    assert set(grouped["group"].to_numpy()) == set("abc")


@pytest.mark.parametrize("name", ["obs", "var", "uns", "layers", "obsm", "obs/score"])
def test_what_is_no_matrix_is_refused_with_those_that_are(tmp_path, name):
    path = write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(path, "a") as file:
        file.create_group("uns").attrs["encoding-type"] = "dict"
        file.create_group("obsm").attrs["encoding-type"] = "dict"
        put(file["obsm"], "X_pca", X[:, :2])
        for column in ("leiden", "gap", "note"):  # numbers alone are left
            del file[f"obs/{column}"]
        file["obs"].attrs["column-order"] = ["score", "age", "treated"]
    words = f"no matrix '{name}'; its matrices are X, raw/X, layers/counts, obsm/X_pca. Pass one"
    with pytest.raises(InputError, match=words):
        dhsic.open_source(path, variable=name)
