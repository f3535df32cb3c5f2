"""AnnData on Zarr: names of rows in every encoding, columns of obs, layers, and what is refused."""

import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run, selected, told
from stores import draw_genotypes, encoded, write_anndata, write_frame, write_sparse, write_vcz
from suites.source import Case, SourceSuite, whole

import dhsic
from dhsic.errors import DataError, InputError, MemoryBudgetError
from dhsic.joins.variables import values_of_features
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources import sparse

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is")

M, D = 24, 9
CELLS, GENES = [f"c{i}" for i in range(M)], [f"g{j}" for j in range(D)]
PBMC = Path(__file__).parents[2] / "shared/data/singlecell/pbmc68k_reduced.zarr.zip"
QUICK = ("-n", 3, "--threads", 2, "--no-progress")

RNG = np.random.default_rng(0)
LEIDEN = [str(k) for k in np.arange(M) % 3]
X = RNG.standard_normal((M, D)).astype("f4")
X[:, 4] += 2 * (np.arange(M) % 3 == 1)
COUNTS = RNG.poisson(3, (M, D)).astype("i4")
COUNTS[:, 7] += 9 * (np.arange(M) % 3 == 1)

OBS = {
    "leiden": (LEIDEN, "categorical"),
    "gap": ([None, *LEIDEN[1:]], "categorical"),
    "year": ([2019, 2020] * (M // 2), "categorical"),
    "score": (X[:, 0], "array"),
    "treated": (np.arange(M) % 2 == 0, "array"),
    "note": ([f"n{i}" for i in range(M)], "string-array"),
    "age": ([None, *range(1, M)], "nullable-integer"),
    "parity": (list(range(M)), "nullable-integer"),
    "smoker": ([None] + [True, False] * (M // 2 - 1) + [True], "nullable-boolean"),
    "site": ([None] + ["x", "y"] * (M // 2 - 1) + ["x"], "nullable-string-array"),
}
VAR = {"pathway": ([*"aabbccaab"], "categorical"), "mean": (np.arange(1.0, D + 1), "array")}
LABELS = np.array(LEIDEN)


def make(path, **options):
    """AnnData with all kinds of columns, a dense layer and components; ``.zip`` is zipped."""
    group = write_anndata(
        path.with_name(path.name.removesuffix(".zip")),
        options.pop("X", X),
        **{"obs": OBS, "var": VAR, "layers": {"counts": COUNTS}, "obsm": {"X_pca": X[:, :4]}}
        | options,
    )
    if path.suffix == ".zip":
        shutil.make_archive(path.with_suffix(""), "zip", path.with_suffix(""))
    return group


def slim(path, **options):
    """AnnData with clusters, and no more."""
    leiden = {"leiden": OBS["leiden"]}
    return make(path, **{"obs": leiden, "var": {}, "layers": {}, "obsm": {}} | options)


@pytest.fixture
def store(tmp_path):
    make(tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def ranking(data, y=LABELS, **options):
    """Ranks and scores of a selection."""
    found = dhsic.select(data, y, n_features_to_select=3, progress=False, **options)
    return found["rank"].to_numpy().tolist(), found["score"].to_numpy().tolist()


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["a.zarr", "a.zarr.zip"])
@pytest.mark.parametrize("encoding", ["string-array", "nullable-string-array", "categorical"])
def test_names_of_every_encoding(tmp_path, encoding, name, zarr_format):
    slim(tmp_path / name, zarr_format=zarr_format, encoding=encoding, index="barcode")
    source = dhsic.open_source(tmp_path / name)
    assert (source.n_samples, source.n_features) == (M, D)
    assert source.sample_names().tolist() == CELLS
    assert source.feature_names().tolist() == GENES
    assert (
        dhsic.select(tmp_path / name, "leiden", n_features_to_select=1, progress=False)["feature"]
        .to_numpy()
        .tolist()
        == GENES
    )


def test_the_same_data_rank_the_same_in_every_format(tmp_path):
    expected = ranking(X)
    assert expected[0][4] == 1
    for zarr_format in (2, 3):
        for name in ("a.zarr", "a.zarr.zip"):
            path = tmp_path / str(zarr_format) / name
            path.parent.mkdir(exist_ok=True)
            slim(path, zarr_format=zarr_format)
            assert ranking(path, "leiden") == expected
    group = zarr.open_group(tmp_path / "2" / "a.zarr")
    assert ranking(group, "leiden") == expected
    zarr.consolidate_metadata(group.store)
    assert ranking(str(tmp_path / "2" / "a.zarr"), "leiden") == expected


def test_a_labels_table_in_another_order_finds_its_cells(store, tmp_path):
    frame = pd.DataFrame({"cell": CELLS, "kind": [f"k{name}" for name in LEIDEN]})
    frame.sample(frac=1, random_state=1).to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    expected = selected(store, "--target", "leiden", *QUICK)["selected"]
    found = selected(store, "--labels", tmp_path / "t.tsv", "--target", "kind", *QUICK)["selected"]
    assert found == expected
    assert found[0]["name"] == "g4"


def test_names_are_part_of_the_fingerprint(tmp_path):
    prints = set()
    for i, cells in enumerate((CELLS, CELLS[::-1], CELLS)):
        group = slim(tmp_path / str(i), encoding="nullable-string-array")
        del group["obs"]
        write_frame(group, "obs", cells, encoding="nullable-string-array")
        prints.add(dhsic.open_source(tmp_path / str(i)).fingerprint())
    assert len(prints) == 2


def test_samples_come_first_whatever_the_lengths(tmp_path):
    write_anndata(tmp_path / "square", X[:D])
    source = dhsic.open_source(tmp_path / "square", n_samples=D)
    assert (source.sample_names()[0], source.feature_names()[0]) == ("c0", "g0")
    with pytest.raises(InputError, match=r"so 24 samples, but there are 9 labels"):
        dhsic.open_source(slim(tmp_path / "a"), n_samples=D)
    turned = dhsic.open_source(tmp_path / "a", sample_dim="var")
    assert (turned.n_samples, turned.sample_names()[0], turned.feature_names()[0]) == (
        D, "g0", "c0"
    )  # fmt: skip


def test_names_of_features_may_repeat(tmp_path):
    group = slim(tmp_path / "a")
    del group["var"]
    write_frame(group, "var", ["MT"] * D)
    result = dhsic.select(tmp_path / "a", "leiden", n_features_to_select=1, progress=False)
    assert int(result["rank"].to_numpy().argmin()) >= 0
    assert result["feature"].to_numpy().tolist() == ["MT"] * D
    assert selected(tmp_path / "a", "--target", "leiden", *QUICK)["selected"][0]["name"] == "MT"


def test_an_opened_matrix_has_its_names(store):
    group = zarr.open_group(store, mode="r")
    for array in (group["X"], group["layers/counts"]):
        source = dhsic.open_source(array)
        assert (source.n_samples, source.sample_names()[1]) == (M, "c1")
        assert source.feature_names()[1] == "g1"
    nested = zarr.open_group(store.parent / "mu.zarr", mode="w", attributes={
        "encoding-type": "MuData", "mod-order": ["rna", "atac"],
    })  # fmt: skip
    write_anndata(nested.store_path / "mod" / "rna", X)
    assert dhsic.open_source(nested["mod/rna"]).sample_names()[1] == "c1"
    assert dhsic.open_source(nested["mod/rna/X"]).sample_names()[1] == "c1"
    assert dhsic.open_source(store.parent / "mu.zarr" / "mod" / "rna").n_samples == M
    assert dhsic.open_source(store.parent / "mu.zarr").sample_names()[1] == "c1"


def test_early_anndata_is_read(tmp_path):
    """As 0.7 wrote it: it does not say what it is, and categories lie beside the columns."""
    group = zarr.open_group(tmp_path / "old", mode="w", zarr_format=2)
    group.create_array("X", data=X)
    write_frame(group, "var", GENES)
    write_frame(group, "obs", CELLS, {"leiden": (LABELS.astype("i1") - 1, "array")})
    group["obs/leiden"].attrs["categories"] = "__categories/leiden"
    group["obs"].create_group("__categories")
    encoded(group["obs/__categories"], "leiden", ["T", "B"], "string-array")
    assert dhsic.open_source(tmp_path / "old").sample_names().tolist() == CELLS
    expected = [["", "T", "B"][int(name)] for name in LEIDEN]
    assert dhsic.read_target(tmp_path / "old", "leiden").tolist() == expected


def test_names_in_a_zip_of_genotypes(tmp_path):
    """Not of AnnData, but read by the same hands."""
    write_vcz(tmp_path / "g.vcz", draw_genotypes(7, 5))
    shutil.make_archive(tmp_path / "g.vcz", "zip", tmp_path / "g.vcz")
    source = dhsic.open_source(tmp_path / "g.vcz.zip")
    assert source.sample_names()[1] == "s1"
    assert source.feature_names()[1] == "rs1"


class TestAnnData(SourceSuite):
    """What every source does, cut into chunks along cells and genes."""

    @pytest.fixture(scope="class", params=[2, 3])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(values):
            path = folder / f"{float(values[0, 0])}.zarr"
            if not path.exists():
                slim(path, X=values, zarr_format=request.param, encoding="nullable-string-array")
            return dhsic.open_source(path)

        other = X.copy()
        other[0, 0] += 1
        return Case(opened(X), X.astype(float), lambda: opened(X), lambda: opened(other))

    def test_names_travel(self, source):
        there = pickle.loads(pickle.dumps(source))
        assert there.sample_names().tolist() == CELLS
        assert there.feature_names().tolist() == GENES


# -- columns of obs and var -----------------------------------------------------------------------


def test_columns_of_every_encoding(tmp_path):
    for zarr_format in (2, 3):
        group = make(tmp_path / str(zarr_format), zarr_format=zarr_format)

        def column(name, group=group):
            return dhsic.read_target(group, name)

        assert column("leiden").tolist() == LEIDEN
        assert column("gap").tolist() == ["", *LEIDEN[1:]]
        assert column("year").tolist() == ["2019", "2020"] * (M // 2)
        assert column("note").tolist() == [f"n{i}" for i in range(M)]
        assert column("site").tolist() == ["", *["x", "y"] * (M // 2 - 1), "x"]
        assert column("treated").dtype == bool
        np.testing.assert_array_equal(column("score"), X[:, 0])
        np.testing.assert_array_equal(column("age"), [np.nan, *range(1, M)])
        np.testing.assert_array_equal(column("parity"), range(M))
        assert column("parity").dtype == np.int64
        np.testing.assert_array_equal(column("smoker")[:3], [np.nan, 1, 0])


def test_a_cell_without_a_category_is_missing(store):
    with pytest.raises(InputError, match=r"1 of 24 labels are missing .*first at sample 0"):
        ranking(store, "gap")
    assert "1 of 24 samples have missing values (gap: 1)" in told(
        run("select", store, "--target", "gap", *QUICK, code=2)
    )
    facts = selected(store, "--target", "gap", *QUICK, "--drop-missing")
    assert (facts["n_samples"], facts["n_samples_left_out"]) == (M - 1, 1)
    expected = ranking(X[1:], LABELS[1:])
    assert facts["selected"][0]["score"] == expected[1][facts["selected"][0]["index"]]


def test_clusters_called_by_numbers_are_classes(tmp_path):
    """A cluster of one cell would make whole numbers real values."""
    clusters = ["0"] * 12 + ["1"] * 11 + ["17"]
    slim(tmp_path / "a", obs={"leiden": (clusters, "categorical"), "score": OBS["score"]})
    facts = selected(tmp_path / "a", "--target", "leiden", *QUICK)
    assert facts["label_kernel"] == "multiclass"
    both = selected(tmp_path / "a", "--target", "leiden", "--target", "score", *QUICK)
    assert both["label_kernel"] == "multiclass + gaussian"
    rank, scores = ranking(tmp_path / "a", "leiden")
    assert [scores[r["index"]] for r in facts["selected"]] == [
        r["score"] for r in facts["selected"]
    ]
    assert rank == ranking(X, np.array(clusters))[0]


def test_columns_are_covariates_by_name(store):
    plain = selected(store, "--target", "leiden", *QUICK)["selected"]
    options = ("--covariate", "parity", "--covariate", "year")
    found = run("select", store, "--target", "leiden", *QUICK, *options, "--json")
    assert "covariates parity, year" in told(found)
    given = np.column_stack([np.arange(M), np.arange(M) % 2])
    expected = ranking(X, covariates=given)[1]
    chosen = json.loads(found.stdout)["selected"]
    assert [r["score"] for r in chosen] == [expected[r["index"]] for r in chosen]
    assert [r["score"] for r in chosen] != [r["score"] for r in plain]


def test_columns_of_var_are_groups(store):
    expected = ranking(X, feature_groups=np.array([*"aabbccaab"]))
    assert ranking(store, "leiden", feature_groups="pathway") == expected
    assert values_of_features(store, "pathway", dhsic.open_source(store)).tolist() == [*"aabbccaab"]
    facts = selected(store, "--target", "leiden", "--groups", "pathway", *QUICK)
    assert facts["selected"]
    plan = run("plan", store, "--target", "leiden", "--groups", "pathway", "--threads", 1)
    assert "24 samples x 9 features" in plan.stdout
    with pytest.raises(InputError, match=r"no column 'leiden'; its columns are pathway, mean\."):
        values_of_features(store, "leiden", dhsic.open_source(store))


def test_what_is_not_there_lists_what_there_is(store):
    with pytest.raises(InputError, match=r"'liden'; its columns are leiden, gap, .*'leiden'\?"):
        dhsic.read_target(store, "liden")
    message = told(run("select", store, "--target", "CD8A", *QUICK, code=2))
    assert "leiden, gap, year, score, treated, note, age" in message
    assert "--labels FILE" in message
    with pytest.raises(
        InputError, match=r"no/such is absent.* matrices are X, layers/counts, obsm"
    ):
        dhsic.open_source(store, variable="no/such")


# -- layers ---------------------------------------------------------------------------------------


def test_layers_are_matrices_with_the_names_of_X(store):
    expected = ranking(COUNTS)
    assert expected[0][7] == 1
    assert ranking(store, "leiden", variable="layers/counts") == expected
    facts = selected(store, "--variable", "layers/counts", "--target", "leiden", *QUICK)
    assert facts["selected"][0]["name"] == "g7"
    source = dhsic.open_source(store, variable="layers/counts")
    assert source.sample_names().tolist() == CELLS
    components = dhsic.open_source(store, variable="obsm/X_pca")
    assert (components.n_samples, components.n_features) == (M, 4)
    assert components.sample_names().tolist() == CELLS
    assert components.feature_names() is None


def test_raw_has_features_of_its_own(store):
    group = zarr.open_group(store)
    del group["raw"]
    raw = group.create_group("raw", attributes={"encoding-type": "raw"})
    raw.create_array("X", data=np.hstack([COUNTS, X]))
    write_frame(raw, "var", [f"r{j}" for j in range(2 * D)])
    source = dhsic.open_source(store, variable="raw/X")
    assert (source.n_features, source.feature_names()[D]) == (2 * D, "r9")
    assert source.sample_names().tolist() == CELLS


def test_inspect_lists_columns_and_matrices(store):
    group = zarr.open_group(store)
    write_sparse(group["layers"], "spliced", COUNTS)
    (store / "obs" / "score" / "c" / "0").unlink()
    (store / "obs" / "note" / "c" / "0").write_bytes(b"\x00\x01")
    facts = json.loads(run("inspect", store, "--json").stdout)
    assert list(facts["targets"]) == list(OBS)
    assert facts["targets"]["leiden"] == "3 classes 0 (8), 1 (8), 2 (8), kernel 'multiclass'"
    assert "1 missing" in facts["targets"]["gap"]
    assert facts["targets"]["score"].startswith("constant, if missing chunks contain zero")
    assert "cannot be read: " in facts["targets"]["note"]
    counts = "from 0 to 19, 3% zeros (in a sample of values)"
    seen = facts["matrices"]
    assert seen.pop("X").startswith("24 x 9, float32; from -2.")
    assert seen.pop("obsm/X_pca").startswith("24 x 4, float32; from -2.")
    assert seen == {
        "layers/counts": f"24 x 9, int32; {counts}",
        "layers/spliced": f"sparse (csr_matrix); {counts}",
    }
    assert "X has values below 0, so it looks scaled; layers/counts has none" in str(facts)

    assert facts["sample_names"] == CELLS[:3]
    text = run("inspect", store, "--variable", "layers/counts").stdout
    assert "target    leiden: 3 classes" in text
    assert "variable  layers/spliced: sparse" in text
    assert "layers/counts: 24 samples x 9 features" in text


def test_a_matrix_of_which_nothing_is_said_is_looked_at(store):
    said = "layers/counts has none. To use layers/counts, pass variable='layers/counts'"
    with pytest.warns(UserWarning, match=said):
        ranking(store, "leiden")
    for chosen in ({"variable": "X"}, {"variable": "counts"}):
        assert dhsic.open_source(store, **chosen).hint == ""
    zarr.open_group(store)["X"][:] = np.abs(X)
    assert dhsic.open_source(store).hint == ""


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("encoding", ["csr_matrix", "csc_matrix"])
def test_sparse_matrices_rank_as_dense_ones(tmp_path, encoding, zarr_format, client):
    group = make(tmp_path / "a", zarr_format=zarr_format)
    del group["X"], group["layers/counts"]
    write_sparse(group, "X", X, encoding)
    write_sparse(group["layers"], "counts", COUNTS, encoding)
    assert ranking(tmp_path / "a", "leiden") == ranking(X)
    assert ranking(tmp_path / "a", "leiden", variable="layers/counts") == ranking(COUNTS)
    assert ranking(tmp_path / "a", "leiden", runtime=DaskRuntime(client)) == ranking(X)
    facts = selected(tmp_path / "a", "--target", "leiden", *QUICK)
    assert facts["selected"][0]["name"] == "g4"
    turned = dhsic.open_source(tmp_path / "a", sample_dim="var")
    np.testing.assert_array_equal(whole(turned), X.T)


def test_a_sparse_matrix_that_is_damaged_or_too_large(store, monkeypatch):
    group = zarr.open_group(store)
    del group["X"]
    write_sparse(group, "X", COUNTS)
    monkeypatch.setattr(sparse, "available_bytes", lambda: 100)
    with pytest.raises(MemoryBudgetError, match=r"sparse by rows, needs 3.* kB, .*dhsic convert"):
        dhsic.open_source(store)
    monkeypatch.undo()
    group["X/indices"][3] = D
    with pytest.raises(DataError, match=r"X of shape \(24, 9\) is damaged .*again"):
        dhsic.open_source(store)
    (store / "X" / "indptr" / "c" / "0").unlink()
    with pytest.raises(DataError, match="indptr is missing"):
        dhsic.open_source(store)


# -- real cells -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pbmc(tmp_path_factory):
    """Blood cells of scanpy, as they come and copied into Zarr 2 and Zarr 3."""
    if not PBMC.exists():
        pytest.skip(f"{PBMC} is not here")
    folder = tmp_path_factory.mktemp("pbmc")
    with zipfile.ZipFile(PBMC) as archive:
        for member in archive.namelist():
            if not member.startswith("uns"):
                archive.extract(member, folder / "v3.zarr")
    given = zarr.open_group(folder / "v3.zarr", mode="r", use_consolidated=False)
    copy = zarr.open_group(folder / "v2.zarr", mode="w", zarr_format=2)
    for part in ("", "obs", "var"):
        source, target = (g if not part else g.require_group(part) for g in (given, copy))
        target.attrs.update(dict(source.attrs))
    copied = ["X", "obs/index", "var/index", "obs/n_genes"]
    for name in ("louvain", "bulk_labels", "phase"):
        copy.require_group(f"obs/{name}").attrs.update(dict(given[f"obs/{name}"].attrs))
        copied += [f"obs/{name}/codes", f"obs/{name}/categories"]
    for path in copied:
        values = given[path][...]
        dtype = str if values.dtype.kind == "T" else values.dtype
        array = copy.create_array(path, shape=values.shape, dtype=dtype)
        array[...] = values
    return PBMC, folder / "v3.zarr", folder / "v2.zarr"


def test_cells_of_scanpy_are_known_by_name(pbmc):
    known = run("inspect", pbmc[0]).stdout
    assert "samples   AAAGCCTGGCTAAC-1, AAATTCGATGCACA-1" in known
    assert "features  HES4, TNFRSF4, SSU72, ... (765 names)" in known
    assert "target    louvain: 11 classes" in known
    assert "variable  layers/counts: sparse (csr_matrix)" in known
    group = zarr.open_group(pbmc[1], mode="r", use_consolidated=False)
    labels = dhsic.read_target(pbmc[0], "louvain")
    expected = group["obs/louvain/categories"][...][group["obs/louvain/codes"][...]]
    assert labels.tolist() == expected.tolist()
    assert dhsic.open_source(pbmc[0], variable="layers/counts").n_samples == 700


@pytest.mark.slow
def test_cells_of_scanpy_rank_the_same_in_every_format(pbmc):
    for target in ("louvain", "bulk_labels"):
        options = ("--target", target, "-n", 20, "--step", 0.5, "--threads", 2, "--no-progress")
        found = [selected(path, *options)["selected"] for path in pbmc]
        assert found[0] == found[1] == found[2]
        alone = selected(PBMC, *options, "--no-rerank")["selected"]
        assert {"CD74", "CST3", "FTL", "LYZ"} < {r["name"] for r in alone}
