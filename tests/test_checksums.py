"""Checksums of features: those of the definition, and any change shows."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from stores import draw_matrix, write_matrix

from dhsic.errors import DataError
from dhsic.sources.blocks import Block
from dhsic.sources.opening import open_source
from dhsic.sources.views import ChecksummedSource, checksums, describe_features

WORD = 2**64


def slow(values):
    """The checksum of one feature, by its definition."""
    data = values.tobytes()
    data += bytes(-len(data) % 8)
    words = [int.from_bytes(data[a : a + 8], sys.byteorder) for a in range(0, len(data), 8)]
    weights = np.random.PCG64(0).random_raw(len(words)).tolist()
    total = sum((w | 1) * (x ^ x >> 32) for w, x in zip(weights, words, strict=True)) % WORD
    return total - WORD if total >= WORD // 2 else total


@st.composite
def stored(draw):
    dtype = np.dtype(draw(st.sampled_from(["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8"])))
    shape = draw(st.integers(0, 9)), draw(st.integers(1, 41))
    data = np.random.default_rng(draw(st.integers(0, 2**32))).bytes(shape[0] * shape[1] * 8)
    values = np.frombuffer(data, "u1")[: shape[0] * shape[1] * dtype.itemsize]
    return (values & 1 if dtype.kind == "b" else values).view(dtype).reshape(shape)


@given(stored(), st.sampled_from([1, 64, 1 << 19]))
def test_checksums_are_those_of_the_definition(values, at_a_time):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dhsic.sources.views.CACHE_BYTES", at_a_time)
        found = checksums(values)
    assert found.dtype == np.int64
    assert found.tolist() == [slow(feature) for feature in values]
    assert checksums(np.asfortranarray(values)).tolist() == found.tolist()


@given(st.data())
def test_any_change_of_one_value_shows(data):
    values = data.draw(stored().filter(lambda x: x.size))
    after = values.copy()
    raw = after.view("u1").reshape(-1)
    at = data.draw(st.integers(0, raw.size - 1))
    raw[at] ^= 1 if values.dtype.kind == "b" else data.draw(st.integers(1, 255))
    assert np.flatnonzero(checksums(after) != checksums(values)).size == 1


def test_changes_of_many_values_show(rng):
    """Of the highest bits alone, too, which a sum of products would lose."""
    values = rng.integers(0, 3, (20_000, 64), dtype=np.int8)
    after = values.copy()
    after[:, 7::8] ^= rng.integers(1, 4, (20_000, 8), dtype=np.int8) << 6
    assert (checksums(after) != checksums(values)).all()
    assert (checksums(np.roll(values, 8, axis=1)) != checksums(values)).all()
    assert np.unique(checksums(values)).size == len(values)


def test_features_are_named_in_a_few_words():
    assert describe_features(np.array([7])) == "1 feature (7)"
    assert describe_features(np.arange(3)) == "3 features (0 to 2)"
    assert describe_features(np.array([0, 1, 5, 7, 8, 11])) == "6 features (0 to 1, 5, 7 to 8, ...)"


ROWS = [None, np.array([9, 2, 4, 0, 7])]


@pytest.mark.parametrize("taken", ROWS)
@pytest.mark.parametrize("asked", [None, [2, 7, 9], [9, 2, 4, 0, 7]])
def test_whatever_samples_are_asked_for_all_that_took_part_are_compared(tmp_path, taken, asked):
    X = draw_matrix(11, 23, "i1")
    array = write_matrix(tmp_path / "x", X, chunks=(4, 5))
    base = open_source(str(tmp_path / "x"), n_samples=11)
    block, rows = Block(0, 4, 12), None if asked is None else np.array(asked)
    whole = X if taken is None else X[taken]
    source = ChecksummedSource(base, checksums(whole.T), taken)
    assert_array_equal(source.read(block, rows), base.read(block, rows))
    local = np.array([0, 3, 7])
    some = source.read_columns(block, local, rows)
    assert_array_equal(some, base.read_columns(block, local, rows))
    assert source.fingerprint() == base.fingerprint()
    assert source.blocks(9) == base.blocks(9)
    array[7, 0] = 5  # feature 7 of sample 0, which is not always asked for
    with pytest.raises(DataError, match=r"The values of 1 feature \(7\) differ from those"):
        source.read_columns(block, local, rows)
    assert_array_equal(source.read_columns(block, local[:1], rows), some[:1])


def test_samples_that_took_no_part_may_change(tmp_path):
    X = draw_matrix(11, 23, "i1")
    array = write_matrix(tmp_path / "x", X, chunks=(4, 5))
    base = open_source(str(tmp_path / "x"), n_samples=11)
    source = ChecksummedSource(base, checksums(X[:5].T), np.arange(5))
    array[7, 6] = 5
    assert source.read(Block(0, 4, 8)).shape == (11, 4)
