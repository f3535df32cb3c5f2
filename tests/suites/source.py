"""What every source must do: subclass, and provide a `case` fixture."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from dhsic.sources import AbstractSource

PICKLED = 20_000  # bytes of a source that opens itself again


@dataclass(frozen=True)
class Case:
    """A source and what it must hold.

    `again` opens the same data once more; `changed` opens data that differ in one value.
    """

    source: AbstractSource
    expected: np.ndarray  # (m, d), float64, NaN where missing
    again: Callable[[], AbstractSource]
    changed: Callable[[], AbstractSource]


def plain(X, source: AbstractSource) -> np.ndarray:
    """Values as float64, NaN where missing."""
    out = np.asarray(X).astype(np.float64)
    if source.missing_code is not None and X.dtype.kind != "f":
        out[source.missing_code == X] = np.nan
    return out


def whole(source: AbstractSource, width: int = 7) -> np.ndarray:
    blocks = source.blocks(width)
    return np.hstack([plain(source.read(block), source) for block in blocks])


class SourceSuite:
    """Behaviour common to all sources."""

    @pytest.fixture
    def source(self, case: Case) -> AbstractSource:
        return case.source

    def test_shape(self, case):
        m, d = case.expected.shape
        assert (case.source.n_samples, case.source.n_features) == (m, d)

    @pytest.mark.parametrize("width", [1, 8, 10_000])
    def test_blocks_cover_all_features_once_and_in_order(self, source, width):
        blocks = source.blocks(width)
        assert [b.index for b in blocks] == list(range(len(blocks)))
        assert [b.start for b in blocks] == [0, *(b.stop for b in blocks[:-1])]
        assert blocks[-1].stop == source.n_features
        assert all(b.width > 0 for b in blocks)

    def test_the_cut_is_repeatable(self, case):
        assert case.again().blocks(5) == case.source.blocks(5)

    @pytest.mark.parametrize("width", [1, 5, 10_000])
    def test_read(self, case, width):
        np.testing.assert_array_equal(whole(case.source, width), case.expected)

    def test_read_rows(self, case):
        m = len(case.expected)
        for chosen in ([0], [m - 1, 0, 2], list(range(1, m)), [2, 2], []):
            rows = np.array(chosen, dtype=np.int64)
            for block in case.source.blocks(6):
                got = plain(case.source.read(block, rows), case.source)
                expected = case.expected[rows, block.start : block.stop]
                np.testing.assert_array_equal(got, expected)

    def test_a_feature_is_contiguous(self, case):
        for rows in (None, np.array([1, 0])):
            for block in case.source.blocks(6):
                assert case.source.read(block, rows).flags.f_contiguous

    def test_dtype_is_as_promised(self, source):
        assert source.read(source.blocks(4)[0]).dtype == source.dtype

    def test_reading_leaves_the_data_alone(self, case):
        block = case.source.blocks(4)[0]
        values = case.source.read(block)
        if values.flags.writeable:
            values[...] = 0
        np.testing.assert_array_equal(whole(case.source), case.expected)

    def test_pickling(self, case):
        whole(case.source)  # opens what is opened lazily
        pickled = pickle.dumps(case.source)
        assert case.source.client_bytes or len(pickled) < PICKLED
        copy = pickle.loads(pickled)
        np.testing.assert_array_equal(whole(copy), case.expected)
        assert copy.fingerprint() == case.source.fingerprint()

    def test_fingerprint(self, case):
        assert case.again().fingerprint() == case.source.fingerprint()
        assert case.changed().fingerprint() != case.source.fingerprint()

    def test_names_have_the_right_length(self, source):
        for names, n in (
            (source.feature_names(), source.n_features),
            (source.sample_names(), source.n_samples),
            *((values, source.n_features) for values in source.feature_coords().values()),
        ):
            assert names is None or names.shape == (n,)

    def test_pieces_read_the_same(self, case):
        blocks = case.source.blocks(6)
        pieces = case.source.pieces(blocks)
        if pieces is None:
            with pytest.raises(TypeError, match="no lazy pieces"):
                case.source.with_pieces(blocks, ())
            return
        computed = tuple(piece.compute(scheduler="synchronous") for piece in pieces)
        served = case.source.with_pieces(blocks[1:], computed[1:])
        rows = np.array([2, 0])
        for block in blocks[1:]:
            np.testing.assert_array_equal(
                plain(served.read(block, rows), served),
                case.expected[rows, block.start : block.stop],
            )
            assert served.read(block).flags.f_contiguous
