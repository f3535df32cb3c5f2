"""Sparse matrices of files that are larger than what is held: blocks of features, read from disk.

What counts as large, and how much is sorted at a time, is made small here.
"""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from stores import write_anndata, write_sparse
from suites.source import Case, SourceSuite
from thorough import examples

import dhsic
from dhsic.errors import DataError, ScratchError
from dhsic.memory import peak_bytes
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources import stored_sparse
from dhsic.sources.blocks import Block
from dhsic.sources.stored_sparse import AbstractParts, StoredSparse

h5py = pytest.importorskip("h5py")
from test_h5ad import CELLS, DENSE, GENES, X, put, ranking, write_h5ad  # noqa: E402

KINDS = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}


@pytest.fixture(scope="module", autouse=True)
def small():
    """All sparse matrices are large, and 20 entries are sorted at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_sparse, "HELD_BYTES", 0)
        patch.setattr(stored_sparse, "ENTRIES", 20)
        yield


def write_zarr(path, matrix, kind):
    group = write_anndata(path, matrix)
    del group["X"]
    write_sparse(group, "X", matrix, f"{kind}_matrix")
    return path


def opened(folder, values, kind, suffix):
    path = folder / f"{values[0, 0]}{kind}.{suffix}"
    if suffix == "zarr":
        return dhsic.open_source(write_zarr(path, values, kind))
    return dhsic.open_source(write_h5ad(path, values, KINDS[kind]))


class TestStoredSparse(SourceSuite):
    @pytest.fixture(
        scope="class", params=[(k, s) for k in KINDS for s in ("h5ad", "zarr")], ids="-".join
    )
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder, other = tmp_path_factory.mktemp("case"), X.copy()
        other[0, 0] += 1

        def of(values):
            return opened(folder, values, *request.param)

        return Case(of(X), X.astype(float), lambda: of(X), lambda: of(other))

    def test_entries_stay_on_disk(self, source):
        assert isinstance(source, StoredSparse)
        assert source.client_bytes == 0
        assert source.sample_names().tolist() == CELLS
        assert source.feature_names().tolist() == GENES

    def test_workers_read_them_from_the_file(self, source):
        source.read(Block(0, 0, 3))
        there = pickle.loads(pickle.dumps(source))
        assert there._sorted is None
        np.testing.assert_array_equal(there.read(Block(0, 2, 9)), X[:, 2:])
        assert there._sorted is source._sorted  # of the same process


@pytest.mark.parametrize("kind", KINDS)
def test_a_selection_is_that_of_the_dense_matrix(tmp_path, kind, client):
    path = write_h5ad(tmp_path / "a.h5ad", kind=KINDS[kind])
    assert ranking(path) == DENSE
    assert ranking(path, runtime=DaskRuntime(client)) == DENSE


class Arrays(AbstractParts):
    """Parts in memory."""

    where = "X"

    def __init__(self, **arrays):
        self.arrays = arrays

    def read(self, name, at=slice(None)):
        return self.arrays[name][at]


@examples(60)
@given(st.data())
def test_untidy_entries_are_what_toarray_says(data):
    """Repeated entries, in any order, explicit zeros, any dtype, more features than a group."""
    m, d, by_features = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 90), st.booleans()))
    n, seed = data.draw(st.tuples(st.integers(0, 120), st.integers(0, 999)))
    rng = np.random.default_rng(seed)
    dtype = data.draw(st.sampled_from(["f4", "f8", "i8", "i4", "u1", "?"]))
    values = rng.integers(0, 3, n).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values *= rng.choice([0.1, 1e8, 1, 3.3], n).astype(dtype)
        values[rng.random(n) < 0.1] = np.nan
    outer, inner = (d, m) if by_features else (m, d)
    at, indices = rng.integers(0, outer, n), rng.integers(0, inner, n)
    order = np.argsort(at, kind="stable")
    indptr = np.append(0, np.cumsum(np.bincount(at, minlength=outer)))
    parts = {"data": values[order], "indices": indices[order], "indptr": indptr}
    of_kind = sp.csc_array if by_features else sp.csr_array
    dense = of_kind((parts["data"], parts["indices"], indptr), shape=(m, d)).toarray()
    source = StoredSparse(Arrays(**parts), (m, d), dtype, by_features=by_features)
    found = np.hstack([source.read(block) for block in source.blocks(7)])
    assert found.dtype == dense.dtype
    np.testing.assert_array_equal(found, dense)
    rows = rng.integers(0, m, 4)
    for some in (rows, np.unique(rows)):
        part = source.read(Block(0, 0, d), some)
        np.testing.assert_array_equal(part, dense[some])


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused(tmp_path, kind):
    def damaged(name, at, value):
        path = write_h5ad(tmp_path / f"{kind}{name}.h5ad", kind=KINDS[kind])
        with h5py.File(path, "r+") as file:
            file["X"][name][at] = value
        return path

    with pytest.raises(DataError, match="indices beyond its"):
        ranking(damaged("indices", 3, 99))
    with pytest.raises(DataError, match="does not increase from 0"):
        ranking(damaged("indptr", 2, 0))
    with pytest.raises(DataError, match=r"is inf\. Values must be finite"):
        ranking(damaged("data", 5, np.inf))


def test_a_full_disk_has_a_sentence(tmp_path, monkeypatch):
    path = write_h5ad(tmp_path / "a.h5ad", kind=sp.csr_matrix)

    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored_sparse.tempfile, "TemporaryFile", full)
    with pytest.raises(ScratchError, match=r"could not be sorted .* Set TMPDIR .*tocsc\(\)"):
        dhsic.open_source(path).read(Block(0, 0, 3))


def write_wide(path, m, d, per_row):
    """A file of m cells, by rows, with `per_row` entries each, and where the cells lie."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, d, (m, per_row)), axis=1).astype("i4").ravel()
    data, indptr = np.ones(indices.size, "f4"), np.arange(m + 1) * per_row
    matrix = sp.csr_matrix((data, indices, indptr), shape=(m, d))
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        put(file, "X", matrix)
        put(file.create_group("obsm"), "spatial", rng.uniform(0, 1, (m, 2)))
        for name, n in (("obs", m), ("var", d)):
            part = file.create_group(name)
            part.attrs.update({"encoding-type": "dataframe", "_index": "_index"})
            part.attrs["column-order"] = np.array([], dtype=h5py.string_dtype())
            put(part, "_index", np.arange(n).astype(str))
    return matrix


def test_memory_is_that_of_a_block(tmp_path, monkeypatch):
    """40,000 x 2,000 with 5% of values: 320 MB dense, 32 MB sparse, of which little is held."""
    monkeypatch.setattr(stored_sparse, "ENTRIES", 1 << 17)
    sums = write_wide(tmp_path / "a.h5ad", 40_000, 2000, 100).sum(axis=0)
    source, before = dhsic.open_source(tmp_path / "a.h5ad"), peak_bytes()
    found = [source.read(block).sum(axis=0) for block in source.blocks(20)]
    assert peak_bytes() - before < 24 << 20
    np.testing.assert_array_equal(np.concatenate(found), np.asarray(sums).ravel())


@pytest.mark.slow
def test_the_peak_of_a_test_of_a_large_file_stays_below_the_promise(tmp_path):
    """100,000 spots and 1,500 genes: 600 MB dense."""
    path, out = tmp_path / "a.h5ad", tmp_path / "out.json"
    write_wide(path, 100_000, 1500, 75)
    command = [sys.executable, "-m", "dhsic", "test", path, "--target", "obsm/spatial", "--json"]
    with out.open("w") as file:
        subprocess.run([*map(str, command), "--no-progress"], check=True, stdout=file)
    facts = json.loads(out.read_text())
    assert facts["peak_bytes"] < facts["promised_bytes"]
    assert facts["peak_bytes"] < 1 << 30
