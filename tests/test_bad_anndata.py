"""AnnData that is damaged, written in part, or holds what zarr does not know."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from commands import run
from stores import encoded, write_frame
from test_anndata import CELLS, LEIDEN, QUICK, M, X, make, ranking, slim

import dhsic
from dhsic.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is")


@pytest.fixture
def store(tmp_path):
    make(tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


# -- obs that cannot be read ----------------------------------------------------------------------


def remove(*parts):
    return lambda path: shutil.rmtree(path.joinpath(*parts))


def unlink(*parts):
    return lambda path: path.joinpath(*parts).unlink()


def rewritten(*parts, **changed):
    def change(path):
        file = path.joinpath(*parts, "zarr.json")
        content = json.loads(file.read_text())
        content["attributes"] |= changed
        file.write_text(json.dumps(content))

    return change


def shorter(path):
    group = zarr.open_group(path)
    del group["obs"]
    write_frame(group, "obs", CELLS[:-1])


def garbage(*parts):
    return lambda path: path.joinpath(*parts).write_bytes(b"\x00\x01abc")


UNREADABLE = {
    "no obs": (remove("obs"), r"/obs is absent.*restore it"),
    "no var": (remove("var"), r"/var is absent.*restore it"),
    "no index": (remove("obs", "_index"), r"obs/_index is absent, although .*/obs lists it"),
    "no values of the index": (remove("obs", "_index", "values"), r"lacks its array 'values'"),
    "index named otherwise": (rewritten("obs", _index="cell_id"), r"obs/cell_id is absent"),
    "unknown encoding": (
        rewritten("obs", "_index", **{"encoding-type": "rope-array"}),
        r"obs/_index has the encoding 'rope-array', which .* read array, .*astype\(str\)",
    ),
    "chunk lost": (unlink("obs", "_index", "values", "c", "0"), r"'c/0' .*is missing"),
    "chunk damaged": (garbage("obs", "_index", "values", "c", "0"), r"cannot be decoded"),
    "metadata damaged": (garbage("obs", "_index", "zarr.json"), r"metadata of .*cannot be read"),
    "metadata of obs damaged": (garbage("obs", "zarr.json"), r"metadata of .*cannot be read"),
    "of other length": (shorter, r"/obs has 23 rows, but X of shape \(24, 9\) has 24 along"),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("consolidated", [False, True])
def test_obs_that_cannot_be_read_is_an_error(tmp_path, case, consolidated):
    damage, words = UNREADABLE[case]
    slim(tmp_path / "a", encoding="nullable-string-array")
    damage(tmp_path / "a")
    if consolidated:
        whole = slim(tmp_path / "b", encoding="nullable-string-array")
        zarr.consolidate_metadata(whole.store)
        root = (tmp_path / "b" / "zarr.json").read_bytes()
        (tmp_path / "a" / "zarr.json").write_bytes(root)
    with pytest.raises(DataError, match=words):
        dhsic.open_source(tmp_path / "a").fingerprint()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (remove("obs", "leiden"), r"obs/leiden is absent, although"),
        (remove("obs", "leiden", "codes"), r"obs/leiden lacks its array 'codes'"),
        (remove("obs", "leiden", "categories"), r"obs/leiden lacks its array 'categories'"),
        (unlink("obs", "leiden", "codes", "c", "0"), r"'c/0' .*leiden/codes is missing"),
        (
            rewritten("obs", "leiden", **{"encoding-type": "rope"}),
            r"obs/leiden has the encoding 'rope', which",
        ),
    ],
)
def test_a_column_that_cannot_be_read_is_an_error(store, damage, words):
    damage(store)
    with pytest.raises(DataError, match=words):
        dhsic.read_target(store, "leiden")
    run("select", store, "--target", "leiden", *QUICK, code=3)


@pytest.mark.parametrize("shards", [None, (M,)])
def test_zeros_that_the_writer_left_out(tmp_path, shards):
    """Cells sorted by batch: a chunk of a lost file looks the same, one within a shard does not."""
    group = slim(tmp_path / "a", obs={"leiden": (sorted(LEIDEN), "categorical")})
    codes = group["obs/leiden/codes"][...]
    del group["obs/leiden/codes"]
    shape = {"shape": (M,), "chunks": (8,), "shards": shards, "dtype": "i1"}
    group["obs/leiden"].create_array("codes", **shape)[...] = codes
    if shards is None:
        with pytest.raises(DataError, match=r"'c/0' .*is missing.*missing_chunks='fill'"):
            dhsic.read_target(tmp_path / "a", "leiden")
    found = dhsic.read_target(tmp_path / "a", "leiden", "error" if shards else "fill")
    assert found.tolist() == sorted(LEIDEN)
    if shards is None:
        asked = ("select", tmp_path / "a", "--target", "leiden", *QUICK)
        assert "pass --missing-chunks fill" in run(*asked, code=3).stderr.replace("\n", " ")
        run(*asked, "--missing-chunks", "fill", "--checkpoint", tmp_path / "c")
        run("resume", tmp_path / "c")
        run("plan", *asked[1:], "--missing-chunks", "fill")
        run("inspect", tmp_path / "a", "--missing-chunks", "fill")


def test_codes_without_a_category_and_columns_of_other_length(store):
    group = zarr.open_group(store)
    group["obs/leiden/codes"][5] = 3
    with pytest.raises(DataError, match=r"has 3 categories, but contains codes other than -1 to 2"):
        dhsic.read_target(store, "leiden")
    del group["obs/score"]
    encoded(group["obs"], "score", X[:5, 0], "array")
    with pytest.raises(DataError, match=r"obs/score has shape \(5,\), but .*obs has 24 rows"):
        dhsic.read_target(store, "score")
    del group["obs/age/mask"]
    encoded(group["obs/age"], "mask", np.ones(3, bool), "array")
    with pytest.raises(DataError, match=r"obs/age has 24 values, but its mask has 3"):
        dhsic.read_target(store, "age")


# -- data types that zarr does not know -----------------------------------------------------------


def with_unknown_dtype(path):
    """Consolidated metadata of a store that holds an array of a data type of the future."""
    group = slim(path)
    group.create_group("uns").create_array("ranks", shape=(2,), dtype="i4")
    zarr.consolidate_metadata(group.store)
    for file in (path / "zarr.json", path / "uns" / "ranks" / "zarr.json"):
        content = json.loads(file.read_text())
        held = content.get("consolidated_metadata", {}).get("metadata", {})
        held.get("uns/ranks", content)["data_type"] = {"name": "rope", "configuration": {}}
        file.write_text(json.dumps(content))


@pytest.mark.parametrize("is_zip", [False, True])
def test_a_data_type_that_zarr_does_not_know_spoils_only_its_array(tmp_path, is_zip):
    path = tmp_path / "a.zarr"
    with_unknown_dtype(path)
    if is_zip:
        path = Path(shutil.make_archive(path, "zip", path))
    assert ranking(path, "leiden") == ranking(X)
    assert "leiden" in json.loads(run("inspect", path, "--json").stdout)["targets"]


def test_a_data_type_that_zarr_does_not_know_is_named(tmp_path):
    with_unknown_dtype(tmp_path / "a.zarr")
    with pytest.raises(DataError, match=r"data type that zarr .* cannot read .*rope"):
        dhsic.open_source(tmp_path / "a.zarr" / "uns")
