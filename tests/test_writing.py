"""Arrays as dhsic writes them: what is damaged or lost is seen."""

import numpy as np
import pytest
import zarr

from dhsic.errors import InputError
from dhsic.sources.zarr import chunk_width, create_array, write_array, written_aside

RNG = np.random.default_rng(0)
VALUES = {
    "calls": RNG.integers(-1, 3, size=(300, 20), dtype=np.int8),
    "wide": RNG.standard_normal((300, 4)),
    "zeros": np.zeros(300, dtype=np.int32),
    "mask": RNG.random(300) < 0.5,
    "text": np.array([f"variant {i}" for i in range(300)], dtype=object),
}
DIMS = ("variants", "columns")


@pytest.fixture(params=[2, 3])
def group(request, tmp_path):
    return zarr.create_group(tmp_path / "g.zarr", zarr_format=request.param)


@pytest.mark.parametrize("name", VALUES)
def test_what_is_written_is_read(group, name):
    values = VALUES[name]
    write_array(group, name, values, DIMS[: values.ndim], 128)
    array = group[name]
    assert np.array_equal(array[...].astype(values.dtype), values)
    assert array.chunks[0] == 128
    assert array.nchunks_initialized == array.nchunks == 3


@pytest.mark.parametrize("name", VALUES)
def test_every_flipped_bit_is_seen(group, name, tmp_path):
    values = VALUES[name]
    write_array(group, name, values, DIMS[: values.ndim])
    chunk = next(p for p in (tmp_path / "g.zarr" / name).rglob("*0*") if p.is_file())
    intact = chunk.read_bytes()
    rng = np.random.default_rng(1)
    for place in rng.integers(len(intact), size=40):
        damaged = bytearray(intact)
        damaged[place] ^= 1 << int(rng.integers(8))
        chunk.write_bytes(damaged)
        try:
            found = group[name][...]
        except (ValueError, RuntimeError):
            continue
        # Format 2 sums the raw bytes: a bit that changes no value may pass, none that does.
        assert group.metadata.zarr_format == 2
        assert np.array_equal(found.astype(values.dtype), values)


@pytest.mark.parametrize(
    ("dtype", "fill"), [("i1", -1), ("i4", -1), ("f4", np.nan), ("f8", np.nan), (str, "")]
)
def test_the_fill_value_lies_outside_the_domain(group, dtype, fill):
    array = create_array(group, "x", shape=(5,), dtype=dtype, chunks=(5,), dims=("variants",))
    np.testing.assert_equal(array.fill_value, fill)


@pytest.mark.parametrize(
    ("n_features", "n_bytes", "width"),
    [
        (200_000, 2000, 4096),  # 8 MiB
        (10**7, 4000, 2048),
        (10**6, 10**6, 8),
        (10**6, 10**8, 1),
        (20_000, 1000, 2048),  # eight chunks or so of a small matrix
        (1000, 100, 256),
        (100, 100, 100),
    ],
)
def test_chunk_width(n_features, n_bytes, width):
    assert chunk_width(n_features, n_bytes) == width


def write_store(path, mark, *, overwrite=False):
    with written_aside(path, overwrite=overwrite) as aside:
        zarr.create_group(aside, attributes={"mark": mark})
    return zarr.open_group(path, mode="r").attrs["mark"]


def test_a_store_is_replaced_only_when_asked(tmp_path):
    path = tmp_path / "folder" / "x.zarr"
    assert write_store(path, 1) == 1
    with pytest.raises(InputError, match="exists already"):
        write_store(path, 2)
    assert write_store(path, 3, overwrite=True) == 3
    assert [p.name for p in path.parent.iterdir()] == ["x.zarr"]


def test_what_is_no_store_is_never_replaced(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="not a Zarr store"):
        write_store(tmp_path, 1, overwrite=True)
    assert (tmp_path / "notes.txt").exists()


def test_the_old_store_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "x.zarr"
    write_store(path, 1)
    with pytest.raises(RuntimeError), written_aside(path, overwrite=True) as aside:  # noqa: PT012
        zarr.create_group(aside)
        raise RuntimeError
    assert zarr.open_group(path, mode="r").attrs["mark"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["x.zarr"]
