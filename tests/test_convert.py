"""Stores in the layout that is read fastest, out of whatever is read: all of it, killed or not."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from stores import draw_genotypes, draw_matrix, write, write_anndata, write_vcz
from suites.source import whole

import dhsic
from dhsic import conversion
from dhsic.cli import main
from dhsic.conversion import matrices
from dhsic.conversion.matrices import Pass
from dhsic.errors import DataError, InputError, MemoryBudgetError
from dhsic.sources.opening import open_source

Y = np.arange(11) % 3


def tight(monkeypatch, values):
    """Room for so many values of a rectangle."""
    monkeypatch.setattr(matrices, "room_of", lambda *_: values)
    monkeypatch.setattr(conversion, "room_of", lambda *_: values)


def narrow(monkeypatch, width):
    monkeypatch.setattr(conversion, "good_chunks", lambda d, m, _: (min(width, d), m))


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def stored(X, path, *, chunks, dims=("samples", "features"), **options):
    array = zarr.create_array(
        path, shape=X.shape, chunks=chunks, dtype=X.dtype, dimension_names=dims, **options
    )
    array[...] = X
    return str(path)


def frame(X):
    names = [f"g{i}" for i in range(X.shape[1])]
    return pd.DataFrame(X, columns=names, index=pd.Index([f"s{i}" for i in range(11)], name="id"))


def csv(X, folder):
    frame(X).assign(age=Y, site=[f"c{k}" for k in Y]).to_csv(folder / "a.csv")
    return folder / "a.csv", {"not_features": ("age", "site")}


def turned(X, folder):
    frame(X).assign(age=Y).T.to_csv(folder / "a.tsv", sep="\t", index_label="gene")
    return folder / "a.tsv", {"sample_dim": 1, "not_features": ("age",)}


def parquet(X, folder):
    frame(X).assign(age=Y).to_parquet(folder / "a.parquet")
    return folder / "a.parquet", {"not_features": ("age",)}


def npz(X, folder):
    np.savez(folder / "a.npz", X=X, age=Y)
    return folder / "a.npz", {}


def numpy(X, folder):
    del folder
    return X, {}


def pandas(X, folder):
    del folder
    return frame(X), {}


def rows(X, folder):
    return stored(X, folder / "a.zarr", chunks=(1, X.shape[1])), {}


def columns(X, folder):
    return stored(X.T, folder / "a.zarr", chunks=(1, 11), dims=("genes", "cells")), {}


def tiles(X, folder):
    return stored(X, folder / "a.zarr", chunks=(4, 5), shards=(8, 10)), {}


def group(X, folder):
    made = zarr.create_group(folder / "a.zarr", zarr_format=2)
    write(made, "M", X, ("cells", "genes"))
    write(made, "genes", np.array([f"g{i}" for i in range(X.shape[1])], dtype=object), ("genes",))
    write(made, "age", Y, ("cells",))
    made.attrs["by"] = "me"
    return str(folder / "a.zarr"), {}


WAYS = (csv, turned, parquet, npz, numpy, pandas, rows, columns, tiles, group)


@pytest.mark.parametrize("room", [10**6, 100])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_values_names_and_labels_are_those_of_before(way, room, tmp_path, monkeypatch):
    X = draw_matrix(dtype="f8") + 0.25
    given, options = way(X, tmp_path)
    tight(monkeypatch, room)
    narrow(monkeypatch, 5)
    before = open_source(given, **options)

    made = dhsic.convert(given, tmp_path / "out.zarr", **options)

    after = open_source(tmp_path / "out.zarr")
    assert made.n_samples, made.chunks == (11, (5, 11))
    assert made.n_passes == (2 if way in (csv, rows) and room == 100 else 1)
    assert (after.dtype, after.missing_code) == (before.dtype, before.missing_code)
    np.testing.assert_array_equal(whole(after), whole(before))
    for name in ("feature_names", "sample_names"):
        old, new = getattr(before, name)(), getattr(after, name)()
        assert (old is None and new is None) or old.tolist() == new.tolist()
    if way in (csv, turned, parquet, npz, group):
        assert dhsic.read_target(tmp_path / "out.zarr", "age").tolist() == Y.tolist()
    if way is group:
        assert zarr.open_group(tmp_path / "out.zarr").attrs["by"] == "me"


def test_a_ranking_is_that_of_before(tmp_path, rng):
    X = rng.normal(size=(30, 40))
    y = X[:, 3] + X[:, 8]
    path = stored(X, tmp_path / "a.zarr", chunks=(1, 40))
    dhsic.convert(path, tmp_path / "out.zarr")
    one, other = (dhsic.select(p, y, n_features_to_select=3) for p in (path, tmp_path / "out.zarr"))
    np.testing.assert_array_equal(one["score"], other["score"])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_genotypes_stay_genotypes(tmp_path, zarr_format):
    genotypes = draw_genotypes(9, 11)
    vcz = write_vcz(tmp_path / "a.vcz", genotypes, chunks=(3, 2, 1))
    m = genotypes.shape[1]
    write(vcz, "sample_trait", np.arange(m) % 2, ("samples",))
    write(vcz, "call_DP", np.ones(genotypes.shape[:2], "i2"), ("variants", "samples"))
    before = open_source(str(tmp_path / "a.vcz"))

    out = tmp_path / "out.vcz"
    made = dhsic.convert(tmp_path / "a.vcz", out, zarr_format=zarr_format)

    after, kept = open_source(out), zarr.open_group(out)
    assert made.left == ("call_DP", "call_genotype_mask")
    assert kept.metadata.zarr_format == zarr_format
    np.testing.assert_array_equal(kept["call_genotype"][...], genotypes)
    np.testing.assert_array_equal(whole(after), whole(before))
    assert after.feature_names().tolist() == before.feature_names().tolist()
    for name, values in before.feature_coords().items():
        assert after.feature_coords()[name].tolist() == values.tolist()
    asked = {"target": "sample_trait", "n_features_to_select": 2}
    old, new = dhsic.select(str(tmp_path / "a.vcz"), **asked), dhsic.select(str(out), **asked)
    np.testing.assert_array_equal(old["score"], new["score"])


def test_cells_keep_what_is_known_of_them(tmp_path):
    X = draw_matrix(dtype="f4")
    write_anndata(tmp_path / "a.zarr", X)
    before = open_source(str(tmp_path / "a.zarr"), missing_chunks="fill")
    dhsic.convert(tmp_path / "a.zarr", tmp_path / "out.zarr", missing_chunks="fill")
    after = open_source(tmp_path / "out.zarr")
    np.testing.assert_array_equal(whole(after), whole(before))
    assert after.sample_names().tolist() == before.sample_names().tolist()
    assert after.feature_names().tolist() == before.feature_names().tolist()


def test_minus_one_stays_a_number(tmp_path):
    X = np.array([[-1, 4], [2, -1], [5, 6]], dtype="i1")
    for code in (None, -1):
        given = stored(
            X, tmp_path / f"a{code}", chunks=(3, 2), fill_value=0 if code is None else -1
        )
        dhsic.convert(given, tmp_path / f"b{code}")
        assert open_source(tmp_path / f"b{code}").missing_code == code


@given(st.data())
def test_rectangles_cover_a_matrix_once(data):
    d, m = (data.draw(st.integers(1, 40)) for _ in range(2))
    chunks = data.draw(st.integers(1, d)), data.draw(st.integers(1, m))
    times = [data.draw(st.integers(1, 4)) for _ in range(2)]
    seen = np.zeros((d, m), dtype=int)
    one = Pass(chunks, (chunks[0] * times[0], chunks[1] * times[1]))
    for features, samples in one.rectangles(d, m):
        seen[features, samples] += 1
        assert features.start % chunks[0] == samples.start % chunks[1] == 0
        parts = np.zeros((d, m), dtype=int)
        for part in conversion._chunks(one, features, samples):
            parts[part] += 1
        assert (parts[features, samples] == 1).all()
        assert parts.sum() == parts[features, samples].size
    assert (seen == 1).all()


@given(st.data())
def test_any_chunks_become_any_others(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    d, m = (data.draw(st.integers(1, 23)) for _ in range(2))
    X = 1 + np.arange(d * m, dtype="i4").reshape(m, d)  # chunks of zeros are not written
    chunks = data.draw(st.integers(1, m)), data.draw(st.integers(1, d))
    given = stored(X, folder / "a.zarr", chunks=chunks)
    with pytest.MonkeyPatch.context() as patch:
        width = data.draw(st.integers(1, d))
        narrow(patch, width)
        tight(patch, data.draw(st.integers(width * m, 2 * d * m + 1)))
        dhsic.convert(given, folder / "out.zarr")
    np.testing.assert_array_equal(whole(open_source(folder / "out.zarr")), X)


class Killed(BaseException):
    """What no code catches."""


@pytest.mark.parametrize("way", [csv, rows], ids=lambda way: way.__name__)
def test_a_conversion_that_was_killed_goes_on(way, tmp_path, monkeypatch):
    X = draw_matrix(dtype="f8", m=11, d=23)
    given, options = way(X, tmp_path)
    tight(monkeypatch, 100)
    narrow(monkeypatch, 5)
    dhsic.convert(given, tmp_path / "whole.zarr", **options)
    n = [0]
    create = zarr.Array.__setitem__

    def at_last(self, key, value):
        n[0] -= 1
        if n[0] < 0:
            raise Killed
        create(self, key, value)

    monkeypatch.setattr(zarr.Array, "__setitem__", at_last)
    out, kills = tmp_path / "out.zarr", 0
    while True:
        n[0] = kills
        try:
            made = dhsic.convert(given, out, **options)
            break
        except Killed:
            kills += 1
            assert not out.exists()
    assert kills > 3
    assert made.is_resumed
    assert files(out) == files(tmp_path / "whole.zarr")
    assert not list(tmp_path.glob(".*"))


def test_damage_that_a_kill_left_is_mended(tmp_path, monkeypatch):
    X = draw_matrix(dtype="f8")
    given = stored(X, tmp_path / "a.zarr", chunks=(11, 1))
    narrow(monkeypatch, 5)
    dhsic.convert(given, tmp_path / "whole.zarr")
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "put_in_place", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            dhsic.convert(given, tmp_path / "out.zarr")
    chunk = next((tmp_path / ".out.zarr.partial" / "store" / "a.zarr").glob("c/1/0"), None)
    chunk = chunk or next((tmp_path / ".out.zarr.partial/store").rglob("c/1/0"))
    chunk.write_bytes(chunk.read_bytes()[:-9] + b"damaged!!")
    assert dhsic.convert(given, tmp_path / "out.zarr").is_resumed
    assert files(tmp_path / "out.zarr") == files(tmp_path / "whole.zarr")


def test_other_data_begin_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "put_in_place", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            dhsic.convert(np.eye(3), tmp_path / "out.zarr")
    assert not dhsic.convert(np.eye(3) + 1, tmp_path / "out.zarr").is_resumed
    np.testing.assert_array_equal(whole(open_source(tmp_path / "out.zarr")), np.eye(3) + 1)


def test_what_is_written_otherwise_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "_read_back", lambda *_: np.zeros((3, 3)))
    with pytest.raises(DataError, match="differ from the written values"):
        dhsic.convert(np.eye(3), tmp_path / "out.zarr")


@pytest.mark.parametrize(
    ("out", "options", "error", "words"),
    [
        ("there", {}, InputError, "exists already"),
        (
            "s3://bucket/a",
            {},
            InputError,
            "is a URL, but a store can only be written to a local folder",
        ),
        ("a.zip", {}, InputError, "Pass the path of a folder"),
        ("no/such/a", {}, InputError, "neither that folder nor its parent"),
        (
            "out",
            {"memory_limit": 10**6},
            MemoryBudgetError,
            r"needs .* of memory, but the limit is 1.0 MB",
        ),
        ("out", {"not_features": ("y",)}, InputError, "is not a feature of X"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence(tmp_path, monkeypatch, out, options, error, words):
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    with pytest.raises(error, match=words):
        dhsic.convert(np.eye(3), out, **options)


def test_the_command(tmp_path):
    given, _ = csv(draw_matrix(dtype="f8"), tmp_path)
    out = str(tmp_path / "out.zarr")
    command = ["convert", str(given), out, "--not-feature", "age", "--not-feature", "site"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "11 samples x 23 features, float64, chunks of 23 features; one pass" in done.output
    done = CliRunner().invoke(main, [*command, "--json", "--force"])
    assert json.loads(done.stdout)["chunks"] == [23, 11]
    done = CliRunner().invoke(main, ["select", out, "--target", "site", "-n", "2"])
    assert done.exit_code == 0, done.output


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_worst_chunks_take_less_than_a_gigabyte(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    converting = __import__("converting")
    found = converting.main(2000, 200_000, 3)
    del sys.modules["converting"]
    assert len(found) == len(converting.CHUNKS)
    for is_same, peak in found:
        assert is_same
        assert peak < 10**9
