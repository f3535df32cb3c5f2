"""Data and tables at URLs: read as they are on disk, by every process for itself."""

import pickle
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run
from s3 import SECRET
from stores import dosage, draw_genotypes, write, write_anndata, write_plink, write_vcz

import dhsic
from dhsic import object_store
from dhsic.errors import CheckpointError, DataError, InputError, StoreError
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources import fetching

M, D = 30, 24
GENOTYPES = draw_genotypes(D, M, seed=7)
Y = np.nan_to_num(dosage(GENOTYPES))[:, 5]
QUICK = {"n_features_to_select": 5, "progress": False}


@pytest.fixture
def folder(tmp_path):
    """A folder with a store of genotypes, one of cells and a table of each."""
    group = write_vcz(tmp_path / "x.vcz", GENOTYPES, zarr_format=2)
    write(group, "sample_trait", Y, ("samples",))
    zarr.consolidate_metadata(group.store, zarr_format=2)
    X = np.random.default_rng(0).standard_normal((M, D)).astype("f4")
    write_anndata(tmp_path / "cells.zarr", X)
    shards = zarr.create_array(
        tmp_path / "shards.zarr", shape=(M, D), dtype="f4", chunks=(M, 3), shards=(M, 12)
    )
    shards[:] = X
    named = zip(names(), Y, strict=True)
    rows = "".join(f"{name}\t{y}\t{i % 7}\n" for i, (name, y) in enumerate(named))
    (tmp_path / "labels.tsv").write_text("IID\ty\tage\n" + rows)
    lines = [",".join(map(repr, row.tolist())) for row in X.astype(float)]
    (tmp_path / "x.csv").write_text("\n".join([",".join(f"g{j}" for j in range(D)), *lines]))
    return tmp_path


def names():
    return [f"s{i}" for i in range(M)]


@pytest.fixture
def at(s3, folder):
    """The same in a bucket."""
    for path in folder.rglob("*"):
        if path.is_file():
            s3.set(f"{folder.name}/{path.relative_to(folder)}", path.read_bytes())
    return f"s3://bucket/{folder.name}"


def same(found, expected):
    for name in ("rank", "score"):
        assert found[name].to_numpy().tolist() == expected[name].to_numpy().tolist()


def test_a_store_in_a_bucket_is_read_as_one_on_disk(at, folder, client):
    expected = dhsic.select(folder / "x.vcz", "sample_trait", **QUICK)
    same(dhsic.select(f"{at}/x.vcz", "sample_trait", **QUICK), expected)
    there = DaskRuntime(client)
    same(dhsic.select(f"{at}/x.vcz", "sample_trait", runtime=there, **QUICK), expected)
    for name in ("cells.zarr", "shards.zarr", "x.csv"):
        same(
            dhsic.select(f"{at}/{name}", Y, sample_dim=0 if name[0] == "s" else None, **QUICK),
            dhsic.select(folder / name, Y, sample_dim=0 if name[0] == "s" else None, **QUICK),
        )


def test_no_key_travels_with_a_source(at):
    source = dhsic.open_source(f"{at}/x.vcz")
    sealed = pickle.dumps(source)
    assert SECRET.encode() not in sealed
    assert pickle.loads(sealed).fingerprint() == source.fingerprint()


def test_commands_read_and_write_urls(at, s3, folder):
    asked = ("--threads", "1", "--no-progress", "-n", "5")
    tables = ("--labels", f"{at}/labels.tsv", "--target", "y", "--covariates")
    for covariates in (f"{at}/labels.tsv:age", f"{folder}/labels.tsv:age"):
        out = f"{at}/top.tsv"
        run("select", f"{at}/x.vcz", *tables, covariates, *asked, "--out", out, "--force")
    found = object_store.fetched(f"{at}/top.tsv")
    tables = ("--labels", folder / "labels.tsv", "--target", "y", "--covariates", covariates)
    run("select", folder / "x.vcz", *tables, *asked, "--out", folder / "top.tsv")
    assert found == (folder / "top.tsv").read_bytes()
    rows = "".join(f"s{i},{i % 3},{(7 * i) % 5},{'uv'[i % 2]}\n" for i in range(M))
    s3.set(f"{folder.name}/table.csv", f"id,a,b,y\n{rows}".encode())
    run("select", f"{at}/table.csv", "--target", "y", *asked)
    assert "sample_trait" in run("inspect", f"{at}/x.vcz").stdout


def test_what_is_wrong_with_a_url_is_a_sentence(at, s3, monkeypatch, folder):
    with pytest.raises(InputError, match=r"no Zarr array or group at s3://.*/none.zarr"):
        dhsic.open_source(f"{at}/none.zarr")
    with pytest.raises(StoreError, match="refuses access to s3://"):
        dhsic.open_source(f"{at}/x.csv", storage_options={"skip_signature": True})
    with pytest.raises(InputError, match=r"Nothing exists at s3://.*/none.tsv"):
        dhsic.open_source(f"{at}/none.tsv")
    for url in ("nowhere://b/x.zarr", "gopher://me:word@b/x.csv"):
        with pytest.raises(InputError, match=r"cannot be opened.*Check the scheme") as refused:
            dhsic.open_source(url)
        assert "word" not in str(refused.value)
    source = dhsic.open_source(f"{at}/cells.zarr")
    chunk = next(key for key in s3.objects if key.startswith(f"{folder.name}/cells.zarr/X/c"))
    s3.objects.pop(chunk)
    with pytest.raises(DataError, match="is missing: the program that wrote it died"):
        source.read(source.blocks(D)[0])
    object_store.open_bucket.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ANOTHER")
    for name in ("x.vcz", "x.csv"):
        with pytest.raises(StoreError, match=r"refuses access to s3://.*403 Forbidden"):
            dhsic.open_source(f"{at}/{name}")
    object_store.open_bucket.cache_clear()


def test_a_store_on_the_web(folder):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    found = dhsic.select(f"{url}/x.vcz", "sample_trait", **QUICK)
    same(found, dhsic.select(folder / "x.vcz", "sample_trait", **QUICK))
    assert dhsic.open_source(f"{url}/x.csv").n_features == D
    server.shutdown()
    server.server_close()


# -- files, which are fetched -------------------------------------------------------------------

FILES = ("b.bed", "x.npy", "x.parquet", "x.h5ad", "x.zarr.zip")


@pytest.fixture
def files(s3, tmp_path, monkeypatch):
    """Files of other kinds in a folder and a bucket, which are fetched in several parts."""
    monkeypatch.setattr(fetching, "PART", 700)
    X = np.random.default_rng(1).standard_normal((M, D)).astype("f4")
    write_plink(tmp_path / "b", np.nan_to_num(dosage(GENOTYPES), nan=-1).astype("i1"))
    np.save(tmp_path / "x.npy", X)
    pd.DataFrame(X, columns=[f"g{j}" for j in range(D)]).to_parquet(tmp_path / "x.parquet")
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["X"] = X
        for name, n in (("obs", M), ("var", D)):
            group = file.create_group(name)
            group.attrs.update({"_index": "_index", "column-order": ["y"]})
            group["_index"] = [f"{name}{i}" for i in range(n)]
            group["y"] = np.arange(n) % 5.0
    with zarr.storage.ZipStore(tmp_path / "x.zarr.zip", mode="w") as store:
        array = zarr.create_array(store, shape=(M, D), chunks=(M, 5), dtype="f4")
        array[:] = X
    for path in tmp_path.iterdir():
        s3.set(f"{tmp_path.name}/{path.name}", path.read_bytes())
    return tmp_path, f"s3://bucket/{tmp_path.name}"


def test_files_in_a_bucket_are_read_as_those_on_disk(files, client, s3):
    folder, at = files
    options = QUICK | {"sample_dim": 0}
    for name in FILES:
        how = options if name == "x.zarr.zip" else QUICK
        expected = dhsic.select(folder / name, Y, **how)
        same(dhsic.select(f"{at}/{name}", Y, **how), expected)
        if name in ("b.bed", "x.parquet"):
            same(dhsic.select(f"{at}/{name}", Y, runtime=DaskRuntime(client), **how), expected)
        key = f"{folder.name}/{name}"
        assert (
            sum(method == "GET" and of == key for method, of, _ in s3.log)
            <= 2 + len(s3.objects[key][0]) / fetching.PART
        )
    assert dhsic.read_target(f"{at}/x.h5ad", "y").tolist() == (np.arange(M) % 5.0).tolist()
    expected = dhsic.select(folder / "x.h5ad", "y", **QUICK)
    same(dhsic.select(f"{at}/x.h5ad", "y", **QUICK), expected)
    asked = ("--threads", "1", "--no-progress", "-n", "5")
    run("select", f"{at}/b.bed", "--labels", _labels(folder), "--target", "y", *asked)
    assert "y" in run("inspect", f"{at}/x.h5ad").stdout
    assert "SEX" in run("inspect", f"{at}/b.bed").stdout
    made = dhsic.convert(f"{at}/x.parquet", folder / "made.zarr")
    assert (made.n_samples, made.n_features) == (M, D)


def _labels(folder):
    names = dhsic.open_source(folder / "b.bed").sample_names()
    rows = "".join(f"{name}\t{y}\n" for name, y in zip(names, Y, strict=True))
    (folder / "y.tsv").write_text("IID\ty\n" + rows)
    return folder / "y.tsv"


def test_a_machine_that_does_not_see_a_copy_fetches_the_same_one(files, s3):
    folder, at = files
    for name in ("b.bed", "x.npy"):
        source = dhsic.open_source(f"{at}/{name}")
        expected, sealed = source.read(source.blocks(D)[0]), pickle.dumps(source)
        assert SECRET.encode() not in sealed
        shutil.rmtree(source._copy.path.parent)  # as on another machine
        again = pickle.loads(sealed)
        assert again.fingerprint() == source.fingerprint()
        assert again.read(again.blocks(D)[0]).tolist() == expected.tolist()
        shutil.rmtree(source._copy.path.parent)
        data, _ = s3.objects[f"{folder.name}/{name}"]
        s3.set(f"{folder.name}/{name}", data[:-1] + b"\0")
        with pytest.raises(DataError, match=r"has changed since .*version is different"):
            pickle.loads(sealed)


def test_another_file_at_a_url_is_another_one(files, s3, tmp_path):
    folder, at = files
    dhsic.select(f"{at}/x.npy", Y, checkpoint=tmp_path / "run", **QUICK)
    before = dhsic.open_source(f"{at}/x.npy")
    X = np.load(folder / "x.npy")
    X[0, 0] = 3
    np.save(folder / "x.npy", X)
    s3.set(f"{folder.name}/x.npy", (folder / "x.npy").read_bytes())
    after = dhsic.open_source(f"{at}/x.npy")
    assert after.read(after.blocks(D)[0])[0, 0] == 3
    assert before.read(before.blocks(D)[0])[0, 0] != 3
    with pytest.raises(CheckpointError, match="belongs to other data"):
        dhsic.select(f"{at}/x.npy", Y, checkpoint=tmp_path / "run", **QUICK)


def test_what_is_wrong_with_a_file_at_a_url_is_a_sentence(files, s3, monkeypatch):
    folder, at = files
    s3.objects.pop(f"{folder.name}/b.fam")
    with pytest.raises(InputError, match=r"s3://.*/b.fam does not exist"):
        dhsic.open_source(f"{at}/b.bed")
    s3.set(f"{folder.name}/cut.npy", b"no")
    with pytest.raises(InputError, match=rf"^{at}/cut.npy is not a valid .npy file"):
        dhsic.open_source(f"{at}/cut.npy")
    with pytest.raises(InputError, match=r"Nothing exists at s3://.*none.h5ad"):
        dhsic.open_source(f"{at}/none.h5ad")
    full = shutil._ntuple_diskusage(1000, 990, 10)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: full)
    with pytest.raises(InputError, match=r"needs 3.0 kB in .* but only 10 B are free .*TMPDIR"):
        dhsic.open_source(f"{at}/x.npy")
