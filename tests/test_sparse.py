"""Sparse matrices in Python: any format gives what the dense matrix gives, to the bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from stores import changed
from suites.source import Case, SourceSuite, whole
from thorough import examples

import dhsic
from dhsic.errors import DataError, InputError, MemoryBudgetError
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources import sparse

FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
M, D = 30, 17
Y = np.arange(M) % 3
X = np.random.default_rng(1).poisson(1.5, (M, D)).astype("f4")
X[:, 5] += 3 * (Y == 1)
X[4, 3] = np.nan


def ranking(data, y=Y, **options):
    model = dhsic.BAHSIC(3, progress=False, **options).fit(data, y)
    return model.ranking_.tolist(), model.scores_.tolist()


class TestSparse(SourceSuite):
    @pytest.fixture(scope="class", params=["csr", "csc", "coo"])
    @classmethod
    def case(cls, request):
        def opened(values):
            return dhsic.open_source(sp.csr_array(values).asformat(request.param))

        return Case(opened(X), X.astype(float), lambda: opened(X), lambda: opened(changed(X)))

    def test_the_entries_would_travel(self, source):
        assert 8 * np.count_nonzero(X) < source.client_bytes < 13 * np.count_nonzero(X)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("name", FORMATS)
def test_any_format_ranks_as_the_dense_matrix(name, kind):
    matrix = kind(X).asformat(name)
    assert ranking(matrix) == ranking(X)
    model = dhsic.BAHSIC(3, progress=False).fit(matrix, Y)
    np.testing.assert_array_equal(model.transform(matrix).toarray(), model.transform(X))


def test_workers_rank_alike(client):
    assert ranking(sp.csr_array(X), runtime=DaskRuntime(client)) == ranking(X)


@examples(40)
@given(st.data())
def test_untidy_entries_are_what_toarray_says(data):
    """Repeated entries, in any order, explicit zeros, long indices, any dtype."""
    m, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    n = data.draw(st.integers(0, 30))
    seed = data.draw(st.integers(0, 999))
    rng = np.random.default_rng(seed)
    dtype = data.draw(st.sampled_from(["f4", "f8", "i8", "i4", "u1", "?"]))
    values = rng.integers(0, 3, n).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values *= rng.choice([0.1, 1e8, 1, 3.3], n).astype(dtype)
        values[rng.random(n) < 0.1] = np.nan
    rows, columns = rng.integers(0, m, n), rng.integers(0, d, n)
    coo = sp.coo_array((values, (rows, columns)), shape=(m, d))
    by_row = np.argsort(rows, kind="stable")
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=m)))
    csr = sp.csr_array((values[by_row], columns[by_row], indptr.astype("i8")), shape=(m, d))
    csr.indices, csr.indptr = csr.indices.astype("i8"), csr.indptr.astype("i8")
    for matrix in (coo, csr):
        dense = matrix.toarray()
        source = dhsic.open_source(matrix, missing_code=None)
        found = np.hstack([source.read(block) for block in source.blocks(4)])
        assert found.dtype == dense.dtype
        np.testing.assert_array_equal(found, dense)


def test_which_axis_is_which():
    turned = dhsic.open_source(sp.csr_array(X.T), sample_dim=1)
    np.testing.assert_array_equal(whole(turned), X.astype(float))
    with pytest.raises(InputError, match=r"seem to be swapped: pass X\.T"):
        dhsic.open_source(sp.csr_array(X.T), n_samples=M)
    with pytest.raises(InputError, match="so it is empty"):
        dhsic.open_source(sp.csr_array((0, 3)))
    with pytest.raises(InputError, match="selects a part"):
        dhsic.open_source(sp.csr_array(X), variable="X")
    with pytest.raises(InputError, match="two axes"):
        dhsic.open_source(sp.coo_array(np.arange(3.0)))


def test_what_is_refused(monkeypatch):
    damaged = sp.csc_array(np.eye(3))
    damaged.indices[1] = 7
    with pytest.raises(DataError, match=r"sparse matrix X of shape \(3, 3\) is damaged"):
        dhsic.open_source(damaged)
    endless = sp.csr_array(np.where(X > 2, np.inf, 0))
    with pytest.raises(DataError, match=r"is inf\. Values must be finite"):
        ranking(endless)
    monkeypatch.setattr(sparse, "available_bytes", lambda: 1000)
    with pytest.raises(MemoryBudgetError, match=r"needs .* kB, but only 1.* X\.tocsc\(\)"):
        dhsic.open_source(sp.csr_array(X))
    assert dhsic.open_source(sp.csc_array(X)).n_features == D


@pytest.mark.filterwarnings("ignore:Missing values depend on the labels")
def test_frames_of_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({f"g{j}": X[:, j] for j in range(D)})
    assert ranking(frame, pl.Series("y", Y)) == ranking(X)
    holes = pl.DataFrame(
        {
            "a": [1, None, 3] * 10,
            "b": [v * v for v in reversed(range(-9, 21))],
            "c": [2, 7, 9, 4, 8] * 6,
        }
    )
    same = holes.to_numpy()
    assert ranking(holes) == ranking(same)
    found = dhsic.BAHSIC(3, progress=False).fit(frame, Y)
    assert found.feature_names_in_[:2].tolist() == ["g0", "g1"]
    with pytest.raises(InputError, match=r"text in column 's' with 30 different values"):
        ranking(frame.with_columns(pl.Series("s", [f"w{chr(97 + i)}" for i in range(M)])))
    with pytest.raises(InputError, match=r"Pass its \.collect\(\)"):
        ranking(frame.lazy())
    with pytest.raises(InputError, match="1 of 30 labels are missing"):
        ranking(frame, pl.Series("y", [None, *Y[1:].tolist()]))
    covariates = pl.DataFrame({"age": np.arange(M) ** 1.5})
    fitted = dhsic.BAHSIC(3, progress=False).fit(frame, Y, covariates=covariates)
    plain = dhsic.BAHSIC(3, progress=False).fit(X, Y, covariates=covariates.to_numpy())
    assert fitted.scores_.tolist() == plain.scores_.tolist()
