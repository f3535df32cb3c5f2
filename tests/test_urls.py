"""Data and tables at URLs: read as they are on disk, by every process for itself."""

import pickle
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import zarr
from commands import run
from s3 import SECRET
from stores import dosage, draw_genotypes, write, write_anndata, write_vcz

import dhsic
from dhsic import buckets
from dhsic.errors import DataError, InputError, StoreError
from dhsic.runtime.dask import DaskRuntime

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
    found = buckets.fetched(f"{at}/top.tsv")
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
    with pytest.raises(InputError, match="storage_options= are for a store of Zarr"):
        dhsic.open_source(f"{at}/x.csv", storage_options={"skip_signature": True})
    with pytest.raises(InputError, match=r"There is nothing at s3://.*/none.tsv"):
        dhsic.open_source(f"{at}/none.tsv")
    for url in ("nowhere://b/x.zarr", "gopher://me:word@b/x.csv"):
        with pytest.raises(InputError, match=r"cannot be opened.*Check the scheme") as refused:
            dhsic.open_source(url)
        assert "word" not in str(refused.value)
    source = dhsic.open_source(f"{at}/cells.zarr")
    chunk = next(key for key in s3.objects if key.startswith(f"{folder.name}/cells.zarr/X/c"))
    s3.objects.pop(chunk)
    with pytest.raises(DataError, match="is missing; the writer died"):
        source.read(source.blocks(D)[0])
    buckets.open_bucket.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ANOTHER")
    for name in ("x.vcz", "x.csv"):
        with pytest.raises(StoreError, match=r"refuses access to s3://.*403 Forbidden"):
            dhsic.open_source(f"{at}/{name}")
    buckets.open_bucket.cache_clear()


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
