"""What goes wrong with stored matrices, each once: damage, other domains, other orientations."""

import gzip
import os

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from stores import draw_genotypes, draw_matrix, write, write_matrix, write_vcz
from suites.source import whole
from zarr.codecs import BloscCodec, Crc32cCodec

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.sources import stores
from dhsic.sources.arrays import ArraySource
from dhsic.sources.blocks import MOST_BLOCKS, group_chunks, regular_edges
from dhsic.sources.opening import open_source

X = draw_matrix(dtype="i1")  # (11, 23)


# -- the layout ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "turned"),
    [
        (("variants", "samples"), True),
        (("n_obs", "n_var"), False),
        (("obs", "anything"), False),
        (("Genes", None), True),
    ],
)
def test_names_of_dimensions_orient(tmp_path, dims, turned):
    write_matrix(tmp_path / "x", X, features_first=turned, dims=dims, chunks=(4, 4))
    source = open_source(tmp_path / "x")
    assert (source.n_samples, source.n_features) == X.shape


def test_without_names_the_length_of_y_orients(tmp_path):
    write_matrix(tmp_path / "x", X)
    assert open_source(tmp_path / "x", n_samples=11).n_features == 23
    assert open_source(tmp_path / "x", n_samples=23).n_features == 11


@pytest.mark.parametrize("n_samples", [None, 7])
def test_what_cannot_be_oriented_is_refused(tmp_path, n_samples):
    write_matrix(tmp_path / "x", X)
    with pytest.raises(InputError, match=r"shape \(23, 11\).*sample_dim=0 or sample_dim=1"):
        open_source(tmp_path / "x", n_samples=n_samples)
    assert open_source(tmp_path / "x", sample_dim=1).n_samples == 11


def test_a_square_matrix_is_ambiguous_without_names(tmp_path):
    write_matrix(tmp_path / "x", X[:, :11])
    with pytest.raises(InputError, match=r"both axes have this length"):
        open_source(tmp_path / "x", n_samples=11)


def test_sample_dim_of_what_has_its_samples_in_one_place(tmp_path):
    frame = pd.DataFrame(np.eye(8)).rename_axis("people")
    for said in (None, 0, -2, "people"):
        assert open_source(frame, sample_dim=said).n_samples == 8
    group = zarr.create_group(tmp_path / "v.zarr")
    group.create_array("call_genotype", data=np.zeros((5, 6, 2), "i1"))
    for said in (None, 1, "samples"):
        assert open_source(group, sample_dim=said).n_samples == 6
    for data, said in ((frame, 1), (frame, "columns"), (group, 0), (group, "variants")):
        with pytest.raises(InputError, match=rf"sample_dim={said!r} does not fit: .* along axis"):
            open_source(data, sample_dim=said)
    with pytest.raises(InputError, match=r"are along axis 0"):
        dhsic.BAHSIC(2).fit(frame, np.arange(8) % 2, sample_dim=1)
    opened = open_source(np.eye(8))
    with pytest.raises(InputError, match="X is already open"):
        open_source(opened, sample_dim=1)


def test_sample_dim_by_name(tmp_path):
    write_matrix(tmp_path / "x", X, dims=("wavelength", "plot"))
    assert open_source(tmp_path / "x", sample_dim="plot").n_samples == 11
    with pytest.raises(InputError, match=r"sample_dim='plots'.*Pass one of its dimensions"):
        open_source(tmp_path / "x", sample_dim="plots")
    with pytest.raises(InputError, match=r"sample_dim=2"):
        open_source(tmp_path / "x", sample_dim=2)


@pytest.mark.parametrize("make", [np.array, da.from_array])
def test_arrays_are_samples_first_and_a_turned_one_is_told(make):
    with pytest.raises(InputError, match=r"pass X\.T, or pass sample_dim=1"):
        open_source(make(X.T), n_samples=11)
    assert open_source(make(X.T), n_samples=11, sample_dim=1).n_features == 23
    with pytest.raises(InputError, match=r"12 labels. Pass one label per sample"):
        open_source(make(X), n_samples=12)


def test_blocks_are_shards_not_inner_chunks(tmp_path):
    """Trap 6: a block that cut a shard would fetch its index, or all of it, again and again."""
    write_matrix(tmp_path / "x", X, chunks=(2, 11), shards=(8, 11))
    source = open_source(tmp_path / "x", n_samples=11)
    assert [b.stop for b in source.blocks(2)] == [8, 16, 23]
    assert [b.stop for b in source.blocks(16)] == [16, 23]


def test_a_block_of_zarrs_own_chunks_is_read_at_once(tmp_path, monkeypatch):
    """Trap 7: auto chunks cut the samples; each is decoded once per pass, all in one read."""
    write_matrix(tmp_path / "x", X, features_first=False, chunks=(2, 12))
    source = open_source(tmp_path / "x", n_samples=11)
    keys = watch_keys(monkeypatch)
    whole(source, 12)
    assert len(keys) == len(set(keys)) == 12


def test_rows_read_only_the_chunks_that_hold_them(tmp_path, monkeypatch):
    write_matrix(tmp_path / "x", X, features_first=False, chunks=(2, 23))
    source = open_source(tmp_path / "x", n_samples=11)
    keys = watch_keys(monkeypatch)
    np.testing.assert_array_equal(source.read(source.blocks(23)[0], np.array([5, 3])), X[[5, 3]])
    assert sorted(keys) == ["c/1/0", "c/2/0"]


def watch_keys(monkeypatch):
    keys = []
    get = stores.WatchedStore.get

    async def counted(self, key, *args, **options):
        keys.append(key)
        return await get(self, key, *args, **options)

    monkeypatch.setattr(stores.WatchedStore, "get", counted)
    return keys


def test_there_are_never_too_many_blocks():
    """Trap 8: the number of blocks is the number of tasks in every pass."""
    for size, chunk in [(10**7, 1), (10**6, 64), (123_457, 3)]:
        blocks = group_chunks(regular_edges(size, chunk), 1)
        assert len(blocks) <= MOST_BLOCKS
        assert blocks[-1].stop == size


# -- xarray -------------------------------------------------------------------------------------


@pytest.fixture
def zero_filled(tmp_path):
    """A format-2 store, whose fill value 0 xarray takes for a mask."""
    group = zarr.open_group(tmp_path / "x", mode="w", zarr_format=2)
    write(group, "dosage", X.T, ("variants", "samples"), fill_value=0)
    return tmp_path / "x"


def test_zeros_masked_by_xarray_are_refused(zero_filled):
    """Trap 3."""
    ds = xr.open_zarr(zero_filled, consolidated=False)
    assert ds.dosage.isnull().any()
    with pytest.raises(InputError, match=r"mask_and_scale=False"):
        open_source(ds)


def test_a_fill_value_of_zero_is_no_missing_code(zero_filled):
    ds = xr.open_zarr(zero_filled, consolidated=False, mask_and_scale=False)
    assert ds.dosage.attrs["_FillValue"] == 0
    for source in (open_source(ds), open_source(zero_filled)):
        assert source.missing_code is None
        np.testing.assert_array_equal(whole(source), X)


def test_a_dataset_that_a_file_backs_is_not_loaded(zero_filled):
    ds = xr.open_dataset(zero_filled, engine="zarr", consolidated=False, mask_and_scale=False)
    source = open_source(ds, missing_code=-1)
    assert source.client_bytes == 0
    np.testing.assert_array_equal(whole(source), np.where(X == -1, np.nan, X))


def test_missing_codes(tmp_path):
    write_matrix(tmp_path / "filled", X, fill_value=-1)
    write_matrix(tmp_path / "declared", X, attributes={"missing_value": 2})
    write_matrix(tmp_path / "plain", X)
    codes = {
        name: open_source(tmp_path / name, n_samples=11).missing_code
        for name in ("filled", "declared", "plain")
    }
    assert codes == {"filled": -1, "declared": 2, "plain": None}
    assert open_source(tmp_path / "plain", n_samples=11, missing_code=-1).missing_code == -1
    assert open_source(X).missing_code is None


# -- genotypes ----------------------------------------------------------------------------------


def test_dosage_is_not_the_sum_of_alleles(tmp_path):
    """Trap 4: missing, haploid and second alternative alleles."""
    calls = np.array([[[-1, -1], [1, -2], [2, 2], [0, 2], [0, -1], [0, -2], [-1, -2], [-2, -2]]])
    write_vcz(tmp_path / "x", calls.astype("i1"))
    scaled, counted = (
        open_source(tmp_path / "x", ploidy_policy=policy) for policy in ("scale", "count")
    )
    n = np.nan
    np.testing.assert_array_equal(whole(scaled)[:, 0], [n, 2, 2, 1, n, 0, n, n])
    np.testing.assert_array_equal(whole(counted)[:, 0], [n, 1, 2, 1, n, 0, n, n])


def test_ploidy_policies(tmp_path):
    calls = np.array([[[1, -2], [0, 1]], [[0, 0], [1, 1]]], "i1")
    write_vcz(tmp_path / "x", calls)
    scaled = open_source(tmp_path / "x", ploidy_policy="scale")
    np.testing.assert_array_equal(whole(scaled), [[2, 0], [1, 2]])
    strict = open_source(tmp_path / "x", ploidy_policy="error")
    with pytest.raises(DataError, match=r"Feature 0 of sample 0 is \[ 1 -2\], in chunk 'c/0/0/0'"):
        whole(strict)
    with pytest.raises(InputError, match=r"ploidy_policy='half'"):
        open_source(tmp_path / "x", ploidy_policy="half")


@pytest.mark.parametrize("allele", [3, -3, 100])
def test_alleles_outside_the_domain(tmp_path, allele):
    genotypes = draw_genotypes(10, 6)
    genotypes[7, 4, 1] = allele
    write_vcz(tmp_path / "x", genotypes, chunks=(4, 3, 2))
    source = open_source(tmp_path / "x")
    with pytest.raises(DataError, match=r"Feature 7 of sample 4.*chunk 'c/1/1/0'.*call_genotype"):
        whole(source)
    with pytest.raises(DataError, match=r"Feature 7 of sample 4"):
        source.read(source.blocks(1)[1], np.array([0, 4]))


@pytest.mark.parametrize(("dtype", "bad"), [("f4", -0.5), ("f4", np.inf), ("i1", -2)])
def test_dosages_outside_the_domain(tmp_path, dtype, bad):
    values = np.abs(draw_matrix(dtype=dtype)).T
    values[5, 3] = bad
    write(zarr.open_group(tmp_path / "x", mode="w"), "call_DS", values, ("variants", "samples"))
    with pytest.raises(DataError, match=r"Feature 5 of sample 3 is .*'c/0/0'.*call_DS"):
        whole(open_source(tmp_path / "x"))


def test_one_number_per_call(tmp_path):
    group = zarr.open_group(tmp_path / "x", mode="w")
    values = np.ones((4, 3, 2), "f4")
    write(group, "call_DS", values[..., :1], ("variants", "samples", "alt_alleles"))
    write(group, "call_GP", values, ("variants", "samples", "genotypes"))
    np.testing.assert_array_equal(whole(open_source(group, variable="call_DS")), values[..., 0].T)
    with pytest.raises(InputError, match=r"several numbers per call.*call_genotype"):
        open_source(group, variable="call_GP")


def test_names_without_ids(tmp_path):
    genotypes = draw_genotypes(3, 4)
    write_vcz(tmp_path / "blank", genotypes, ids=["rs1", ".", ""])
    write_vcz(tmp_path / "repeated", genotypes, ids=["rs1", "rs1", "rs2"])
    assert list(open_source(tmp_path / "blank").feature_names()) == ["rs1", "X:15", "X:25"]
    assert list(open_source(tmp_path / "repeated").feature_names()) == ["1:5", "X:15", "rs2"]


def test_an_array_finds_its_group(tmp_path):
    group = write_vcz(tmp_path / "x", draw_genotypes(4, 3))
    assert open_source(group["call_genotype"]).feature_names()[0] == "rs0"
    with pytest.raises(InputError, match=r"Open the group"):
        open_source(tmp_path / "x" / "call_genotype")


# -- damage -------------------------------------------------------------------------------------

KEYS = {"c/1/0": {}, "1.0": {"zarr_format": 2}}


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_chunk_is_not_zeros(tmp_path, key):
    write_matrix(tmp_path / "x", X, chunks=(8, 11), **KEYS[key])
    (tmp_path / "x" / key).unlink()
    source = open_source(tmp_path / "x", n_samples=11)
    source.read(source.blocks(8)[0])
    with pytest.raises(DataError, match=rf"Chunk '{key}' of .*x is missing.*missing_chunks='fill'"):
        source.read(source.blocks(8)[1])
    filled = open_source(tmp_path / "x", n_samples=11, missing_chunks="fill")
    assert not whole(filled)[:, 8:16].any()
    with pytest.raises(InputError, match=r"missing_chunks='zeros'"):
        open_source(tmp_path / "x", n_samples=11, missing_chunks="zeros")


@pytest.mark.parametrize("index_location", ["start", "end"])
@pytest.mark.parametrize("rows", [None, np.array([0, 1])])
def test_a_hole_inside_a_shard(tmp_path, index_location, rows):
    values = np.abs(X) + 1
    values[:, 18:20] = 0  # equal to the fill value: left out of the shard, as if never written
    shards = {"shape": (16, 12), "index_location": index_location}
    write_matrix(tmp_path / "x", values, chunks=(2, 6), shards=shards, config={})
    source = open_source(tmp_path / "x", n_samples=11)
    source.read(source.blocks(8)[0], rows)
    with pytest.raises(DataError, match=r"Inner chunk 1/0 of shard 'c/1/0' of .* is missing"):
        source.read(source.blocks(8)[1], rows)
    filled = open_source(tmp_path / "x", n_samples=11, missing_chunks="fill")
    np.testing.assert_array_equal(whole(filled), values)


def checked_store(path, **options):
    codecs = (BloscCodec(), Crc32cCodec())
    write_matrix(path, X, compressors=codecs, **options)
    return open_source(path, n_samples=11)


@pytest.mark.parametrize("options", [{"chunks": (8, 11)}, {"chunks": (2, 11), "shards": (8, 11)}])
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_chunk_is_named(tmp_path, options, damage):
    source = checked_store(tmp_path / "x", **options)
    path = tmp_path / "x" / "c/1/0"
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes({"flip": content, "truncate": content[:-9], "empty": b""}[damage])
    with pytest.raises(DataError, match=r"Chunk 'c/1/0' of .*x cannot be decoded.*write it again"):
        whole(source, 100)
    source.read(source.blocks(8)[0])


def test_a_store_that_fails_is_not_damaged_data(tmp_path, monkeypatch):
    source = checked_store(tmp_path / "x", chunks=(8, 11))
    source.read(source.blocks(8)[0])  # opens it

    async def get(*_, **__):
        raise ConnectionResetError

    monkeypatch.setattr(zarr.storage.LocalStore, "get", get)
    with pytest.raises(ConnectionResetError):
        whole(source)


def test_a_store_written_again_is_noticed(tmp_path):
    source = checked_store(tmp_path / "x")
    write_matrix(tmp_path / "x", X[:5])
    with pytest.raises(DataError, match=r"written again"):
        whole(source)


def test_workers_run_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_matrix("x.zarr", X)
    source = open_source("x.zarr", n_samples=11)
    os.chdir("/")
    np.testing.assert_array_equal(whole(source), X)


def test_a_url(tmp_path):
    write_matrix(tmp_path / "x", X)
    source = open_source(f"file://{tmp_path}/x", n_samples=11, storage_options={})
    np.testing.assert_array_equal(whole(source), X)


# -- values and types ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "dask", "zarr"])
def test_infinity_is_named_and_nan_is_missing(tmp_path, kind):
    values = draw_matrix()
    values[4, 9] = -np.inf
    write_matrix(tmp_path / "x", values, chunks=(8, 3))
    made = {"numpy": values, "dask": da.from_array(values), "zarr": tmp_path / "x"}
    where = ", in chunk 'c/1/1' of" if kind == "zarr" else ". Values must be finite"
    with pytest.raises(DataError, match=f"Feature 9 of sample 4 is -inf{where}"):
        whole(open_source(made[kind], n_samples=11))


@pytest.mark.parametrize("dtype", ["c8", "U3", "O", "M8[s]"])
def test_what_is_no_number_is_refused(dtype):
    with pytest.raises(InputError, match=r"dtype .*(astype|abs|timedelta64)"):
        open_source(np.zeros((3, 4), dtype))


def test_complex_zarr_is_refused(tmp_path):
    write_matrix(tmp_path / "x", X.astype("c8"))
    with pytest.raises(InputError, match=r"dtype of .* complex64"):
        open_source(tmp_path / "x", n_samples=11)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 4)])
def test_shapes(shape):
    with pytest.raises(InputError, match=r"shape"):
        open_source(np.zeros(shape))


def test_other_inputs_say_what_to_pass(tmp_path):
    pd = pytest.importorskip("pandas")
    for bad, remedy in [
        (np.ma.masked_equal(X, 0), "filled"),
        (pd.DataFrame({"a": [1.0], "b": ["x"]}), "get_dummies"),
        (object(), "Pass a NumPy or dask array"),
        (tmp_path / "none.zarr", "no Zarr array or group at"),
        (tmp_path / "none.zip", "no Zarr array or group at"),
        (da.from_array(X)[da.from_array(X[:, 0]) > 0], "compute_chunk_sizes"),
    ]:
        with pytest.raises(InputError, match=remedy):
            open_source(bad)


def test_a_group_with_several_matrices_lists_them(tmp_path):
    group = zarr.open_group(tmp_path / "x", mode="w")
    for name in ("a", "b"):
        write(group, name, X, ("samples", "features"))
    with pytest.raises(
        InputError, match=r"a \(11, 23\), b \(11, 23\)\. Pass the name of the matrix as variable="
    ):
        open_source(tmp_path / "x")
    with pytest.raises(InputError, match=r"no numeric variable 'c'"):
        open_source(xr.open_zarr(tmp_path / "x", consolidated=False), variable="c")
    np.testing.assert_array_equal(whole(open_source(tmp_path / "x", variable="b")), X)


def test_a_damaged_zip(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"PK half")
    with pytest.raises(DataError, match=r"x\.zip is not a valid zip file"):
        open_source(tmp_path / "x.zip")


def test_a_plain_matrix_of_variants_has_their_names(tmp_path):
    group = write_vcz(tmp_path / "x", draw_genotypes(23, 11))
    write(group, "dosage", X.T, ("variants", "samples"), fill_value=-1)
    source = open_source(tmp_path / "x", variable="dosage")
    assert (source.feature_names()[3], source.sample_names()[2]) == ("rs3", "s2")
    assert list(source.feature_coords()["variant_position"][:2]) == [5, 15]


def test_opening_computes_nothing():
    """Trap 9: a matrix that is not in memory stays out of it until blocks are read."""

    def explode(chunk):
        raise AssertionError

    lazy = da.zeros((11, 23)).map_blocks(explode, dtype=float, meta=np.empty((0, 0)))
    for data in (lazy, xr.DataArray(lazy, dims=("samples", "features"))):
        assert open_source(data, n_samples=11).n_features == 23


def test_a_source_is_its_own_source():
    source = ArraySource(X)
    assert open_source(source, n_samples=11) is source
    with pytest.raises(InputError, match=r"12 labels"):
        open_source(source, n_samples=12)


def test_fortran_ordered_data_are_read_in_place():
    kept = np.asfortranarray(X)
    block = ArraySource(kept).read(ArraySource(kept).blocks(5)[1])
    assert np.shares_memory(block, kept)
    assert not block.flags.writeable


def test_a_vcf_is_read_as_it_stands(tmp_path, monkeypatch):
    """Of a file as people have it: gzip rather than bgzip, unsorted, of two contigs."""
    pytest.importorskip("cyvcf2")
    calls = np.random.default_rng(0).choice(["0/0", "0/1", "1/1", "./."], (30, 12))
    names = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT"]
    rows = [[j % 2 + 1, 999 - j, f"rs{j}", *"AG...", "GT", *calls[j]] for j in range(30)]
    lines = [
        "##fileformat=VCFv4.3",
        *("##contig=<ID=2>", "##contig=<ID=1>"),
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">',
        *("\t".join(map(str, row)) for row in ([*names, *"abcdefghijkl"], *rows)),
    ]
    path = tmp_path / "my cohort.vcf.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
    monkeypatch.chdir(tmp_path)
    source = open_source(path.name)
    assert (source.n_samples, source.n_features) == (12, 30)
    assert source.sample_names().tolist() == [*"abcdefghijkl"]
    of_first = whole(source)[:, source.feature_names().tolist().index("rs7")]
    counts = {"0/0": 0, "0/1": 1, "1/1": 2, "./.": np.nan}
    np.testing.assert_array_equal(of_first, [counts[call] for call in calls[7]])
