"""Every source passes the conformance suite, and any layout reads as the same matrix."""

import math
import pickle

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import (
    changed,
    dosage,
    draw_genotypes,
    draw_matrix,
    write,
    write_matrix,
    write_vcz,
)
from suites.source import Case, SourceSuite, whole
from thorough import examples

from dhsic.sources.opening import open_source
from dhsic.sources.vcz import fold


def as_float(X, code=None):
    out = X.astype(float)
    if code is not None:
        out[code == X] = np.nan
    return out


def case_of(make, X, code=None):
    """A case from a function that opens a matrix as a source."""
    return Case(make(X), as_float(X, code), lambda: make(X), lambda: make(changed(X)))


class TestNumPy(SourceSuite):
    @pytest.fixture(scope="class", params=["C", "F"])
    @classmethod
    def case(cls, request):
        return case_of(lambda X: open_source(np.array(X, order=request.param)), draw_matrix())


class TestIntegers(SourceSuite):
    @pytest.fixture(scope="class", params=["i1", "u1", "i4", "?"])
    @classmethod
    def case(cls, request):
        X = draw_matrix(dtype=request.param)
        return case_of(lambda X: open_source(X, missing_code=-1), X, code=-1)


class TestFrame(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls):
        pd = pytest.importorskip("pandas")
        X = draw_matrix(dtype="f8")
        names = [f"g{j}" for j in range(X.shape[1])]
        return case_of(lambda X: open_source(pd.DataFrame(X, columns=names)), X)

    def test_names(self, source):
        assert list(source.feature_names()[:2]) == ["g0", "g1"]


class TestDask(SourceSuite):
    @pytest.fixture(
        scope="class", params=[(11, 23), (11, 4), (4, 5), ((5, 6), (1, 9, 9, 4)), (1, 1)]
    )
    @classmethod
    def case(cls, request):
        return case_of(lambda X: open_source(da.from_array(X, chunks=request.param)), draw_matrix())

    def test_the_data_would_travel(self, source):
        assert source.client_bytes == 11 * 23 * 4


class TestXarray(SourceSuite):
    @pytest.fixture(
        scope="class", params=[("obs", "var"), ("features", "samples"), ("a", "samples")]
    )
    @classmethod
    def case(cls, request):
        dims = request.param
        turn = dims[1] == "samples"

        def make(X):
            return open_source(xr.DataArray(X.T if turn else X, dims=dims))

        return case_of(make, draw_matrix())


class TestXarrayOverDask(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls):
        def make(X):
            ds = xr.Dataset({"X": (("genes", "cells"), X.T)}, {"genes": np.arange(X.shape[1])})
            return open_source(ds.chunk({"genes": 5}))

        return case_of(make, draw_matrix())


LAYOUTS = {
    "features first": {"chunks": (5, 11)},
    "samples first": {"chunks": (11, 5), "features_first": False},
    "sample chunks": {"chunks": (4, 3)},
    "format 2": {"chunks": (5, 11), "zarr_format": 2},
    "format 2, sample chunks, slashes": {
        "chunks": (4, 4),
        "zarr_format": 2,
        "features_first": False,
        "chunk_key_encoding": {"name": "v2", "separator": "/"},
    },
    "format 2, Fortran": {"chunks": (5, 11), "zarr_format": 2, "order": "F"},
    "sharded": {"chunks": (2, 11), "shards": (6, 11)},
    "sharded, sample chunks": {"chunks": (2, 2), "shards": (4, 6)},
    "sharded, samples first": {"chunks": (3, 2), "shards": (6, 4), "features_first": False},
}


class TestZarr(SourceSuite):
    @pytest.fixture(scope="class", params=LAYOUTS)
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def make(X):
            path = folder / f"{float(X[0, 0])}.zarr"
            write_matrix(path, X, **LAYOUTS[request.param])
            return open_source(path, n_samples=len(X))

        return case_of(make, draw_matrix())

    def test_nothing_would_travel(self, source):
        assert source.client_bytes == 0


class TestZarrGroup(SourceSuite):
    """A matrix beside the names of its rows and columns, as xarray writes it."""

    @pytest.fixture(scope="class", params=[2, 3])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def make(X):
            path = folder / f"{X[0, 0]}.zarr"
            names = np.array([f"g{j}" for j in range(X.shape[1])], dtype=object)
            ds = xr.Dataset({"X": (("samples", "genes"), X)}, {"genes": names})
            ds.to_zarr(path, mode="w", zarr_format=request.param, consolidated=False)
            return open_source(str(path))

        return case_of(make, draw_matrix(dtype="i4"))

    def test_names(self, source):
        assert list(source.feature_names()[:2]) == ["g0", "g1"]
        assert source.sample_names() is None


class TestZip(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def make(X):
            path = folder / f"{X[0, 0]}.zip"
            if not path.exists():
                with zarr.storage.ZipStore(path, mode="w") as store:
                    write_matrix(None, X, store=store, chunks=(5, 4), fill_value=-1)
            return open_source(path, n_samples=len(X))

        return case_of(make, draw_matrix(dtype="i1"), code=-1)


class TestMemoryStore(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls):
        def make(X):
            store = zarr.storage.MemoryStore()
            return open_source(write_matrix(None, X, store=store, chunks=(5, 4)), n_samples=11)

        return case_of(make, draw_matrix())

    def test_the_data_would_travel(self, source):
        assert source.client_bytes > 100


def genotype_case(make, genotypes):
    return Case(
        make(genotypes),
        dosage(genotypes),
        lambda: make(genotypes),
        lambda: make(changed(genotypes)),
    )


class TestVcz(SourceSuite):
    @pytest.fixture(
        scope="class",
        params=[
            {"zarr_format": 2, "chunks": (4, 9, 2)},
            {"zarr_format": 3, "chunks": (4, 9, 2)},
            {"zarr_format": 3, "chunks": (5, 4, 1)},
            {"zarr_format": 3, "chunks": (2, 3, 2), "shards": (4, 6, 2)},
            {"zarr_format": 2, "chunks": (3, 3, 2), "ploidy": 1},
            {"zarr_format": 3, "chunks": (3, 3, 4), "ploidy": 4},
        ],
    )
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")
        options = dict(request.param)
        ploidy = options.pop("ploidy", 2)
        options["chunks"] = (*options["chunks"][:2], min(ploidy, options["chunks"][2]))

        def make(genotypes):
            path = folder / f"{genotypes[0, 0, 0]}.vcz"
            write_vcz(path, genotypes, **options)
            return open_source(path, n_samples=9)

        return genotype_case(make, draw_genotypes(14, 9, ploidy))

    def test_dosages_are_small_integers(self, source):
        assert source.dtype == np.int8
        assert source.missing_code == -1

    def test_names(self, source):
        assert list(source.feature_names()[:2]) == ["rs0", "rs1"]
        assert list(source.sample_names()[:2]) == ["s0", "s1"]
        coords = source.feature_coords()
        assert list(coords["variant_contig"][[0, -1]]) == ["1", "X"]
        assert coords["variant_position"].dtype == np.int64
        of_variants = ("contig", "position", "id", "ref", "alt")
        assert set(coords) == {f"variant_{name}" for name in of_variants}


class TestCallDosage(SourceSuite):
    """Numbers per call, with a mask."""

    @pytest.fixture(scope="class", params=["f4", "i1", "u1"])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")
        X = np.abs(draw_matrix(9, 14, request.param))
        hidden = np.random.default_rng(1).random(X.shape) < 0.2

        def make(X):
            path = folder / f"{X[0, 0]}.vcz"
            group = zarr.open_group(path, mode="w")
            dims = ("variants", "samples")
            write(group, "call_dosage", X.T, dims, chunks=(4, 3))
            write(group, "call_dosage_mask", hidden.T, dims, chunks=(4, 3))
            return open_source(path)

        case = case_of(make, X)
        case.expected[hidden] = np.nan
        return case


class TestGenotypeDataset(SourceSuite):
    @pytest.fixture(scope="class", params=["numpy", "dask"])
    @classmethod
    def case(cls, request):
        def make(genotypes):
            ds = xr.Dataset(
                {
                    "call_genotype": (("variants", "samples", "ploidy"), genotypes),
                    "call_DP": (("variants", "samples"), genotypes[..., 0]),
                    "variant_contig": ("variants", np.zeros(len(genotypes), int)),
                    "variant_position": ("variants", np.arange(len(genotypes)) + 1),
                    "contig_id": ("contigs", np.array(["chr1"])),
                }
            )
            if request.param == "dask":
                ds = ds.chunk({"variants": 4, "samples": 5, "ploidy": 1})
            return open_source(ds, n_samples=9)

        return genotype_case(make, draw_genotypes(14, 9))

    def test_names(self, source):
        assert list(source.feature_names()[:2]) == ["chr1:1", "chr1:2"]


CALLS = ["0/0", "0|1", "1/1", "./.", "0/2", "2/1", "1", "0", ".", "./1", "0/."]
COUNTS = [0, 1, 2, np.nan, 1, 2, 2, 0, np.nan, np.nan, np.nan]


@pytest.fixture(scope="module")
def vcf(tmp_path_factory):
    """A VCF whose variant j gives sample i the call i + j; the last two share a position."""
    path = tmp_path_factory.mktemp("vcf") / "tiny.vcf"
    n = len(CALLS)
    lines = [
        "##fileformat=VCFv4.3",
        "##contig=<ID=chr1>",
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">',
        "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT"
        + "".join(f"\tS{i}" for i in range(n)),
    ]
    for j, name in enumerate(["rs1", ".", "rs3", ".", "."]):
        calls = "\t".join(CALLS[(i + j) % n] for i in range(n))
        position, alternative = min(10 * (j + 1), 40), "C,G" if j < 4 else "G,T"
        lines.append(f"chr1\t{position}\t{name}\tA\t{alternative}\t.\tPASS\t.\tGT\t{calls}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", params=[2, 3])
def bio2zarr_store(request, vcf, tmp_path_factory):
    convert = pytest.importorskip("bio2zarr.vcf").convert
    path = tmp_path_factory.mktemp("vcz") / "tiny.vcz"
    convert([vcf], path, zarr_format=request.param, variants_chunk_size=2)
    return path


class TestBio2zarr(SourceSuite):
    """A store that bio2zarr makes of a VCF with haploid, missing and multi-allelic calls."""

    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, bio2zarr_store, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")
        n = len(CALLS)
        expected = np.array([[COUNTS[(i + j) % n] for j in range(5)] for i in range(n)])
        other = folder / "other.vcz"
        write_vcz(other, draw_genotypes(5, n))
        return Case(
            open_source(bio2zarr_store),
            expected,
            lambda: open_source(bio2zarr_store),
            lambda: open_source(other),
        )

    def test_names(self, source):
        names = ["rs1", "chr1:20:A:C,G", "rs3", "chr1:40:A:C,G", "chr1:40:A:G,T"]
        assert list(source.feature_names()) == names
        assert list(source.feature_coords()["variant_contig"]) == ["chr1"] * 5
        assert list(source.sample_names()[:2]) == ["S0", "S1"]


@examples(15)
@given(st.data())
def test_any_layout_reads_as_the_same_matrix(data):
    m, d = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 17))
    X = draw_matrix(m, d, seed=data.draw(st.integers(0, 99)))
    features_first, zarr_format = data.draw(st.booleans()), data.draw(st.sampled_from([2, 3]))
    shape = (d, m) if features_first else (m, d)
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    options = {}
    if zarr_format == 3 and data.draw(st.booleans()):
        options["shards"] = tuple(c * data.draw(st.integers(1, 3)) for c in chunks)
        options["config"] = {"write_empty_chunks": True}
    array = write_matrix(
        None,
        X,
        store=zarr.storage.MemoryStore(),
        zarr_format=zarr_format,
        features_first=features_first,
        chunks=chunks,
        **options,
    )
    source = open_source(array, sample_dim=int(features_first), n_samples=m)
    width = data.draw(st.integers(1, d + 3))
    np.testing.assert_array_equal(whole(source, width), X)
    stored = options.get("shards", chunks)[0 if features_first else 1]
    assert all(b.start % stored == 0 for b in source.blocks(width))
    rows = np.array(data.draw(st.lists(st.integers(0, m - 1), max_size=5)), dtype=np.int64)
    got = np.hstack([source.read(b, rows) for b in source.blocks(width)])
    np.testing.assert_array_equal(got, X[rows])


@settings(deadline=None)
@given(st.data())
def test_folding_is_the_definition(data):
    shape = tuple(data.draw(st.integers(1, n)) for n in (4, 5, 4))
    alleles = st.lists(st.integers(-2, 3), min_size=math.prod(shape), max_size=math.prod(shape))
    genotypes = np.array(data.draw(alleles), "i1").reshape(shape)
    for policy in ("count", "scale"):
        folded = fold(genotypes, policy).T.astype(float)
        folded[folded == -1] = np.nan
        np.testing.assert_array_equal(folded, dosage(genotypes, policy))


def test_ids_are_read_once_while_somebody_has_them(tmp_path):
    path = tmp_path / "g.vcz"
    write_vcz(path, draw_genotypes(6, 4), ids=[f"rs{i}" for i in range(6)])
    source = open_source(path)
    names = source.feature_names()
    assert names.tolist() == [f"rs{i}" for i in range(6)]
    assert source.feature_coords()["variant_id"] is names
    again = pickle.loads(pickle.dumps(source))
    assert again.feature_names().tolist() == names.tolist()
