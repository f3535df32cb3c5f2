"""Blocks of features: several matrices of the same samples, such as expression and genotypes.

A joined source of different kinds of matrices has one block per matrix. A single matrix that is
split into files, such as one per chromosome, has no blocks. Each block has its own kind of values:
`BlockScaling` leaves genotype dosages unscaled if other blocks are scaled, and `FloatBlocks`
replaces codes for missing values only in the blocks in which they mean missing.

With ``balance=True`` all blocks contribute equally to the mean squared distance of samples. Let
``v_b`` be the sum of the mean squares of the features of block b after scaling, B the number of
blocks, and ``v`` the sum of the ``v_b``. The features of block b are multiplied by ``sqrt(v / (B
v_b))``. The sum over all features remains v.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.sources import FINGERPRINT_CHUNKS, AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.joined import JoinedSource, Part
from dhsic.sources.scaling import Scaling, missing_mask
from dhsic.sources.views import AbstractView, ShadowedSource, whole_of

#: Maximum size, in bytes, of integers that float32 always represents exactly.
SMALL_INTEGER = 2


@dataclass(frozen=True, eq=False)
class FeatureBlocks:
    """Named blocks (matrices of different kinds) of the d features of a source.

    `codes` (d,) has the position in `names` of each feature's block. `parts` are the matrices of
    the blocks.
    """

    names: tuple[str, ...]
    codes: Index
    parts: tuple[Part, ...]

    @staticmethod
    def of(source: AbstractSource) -> FeatureBlocks | None:
        """Return the blocks of a source; None if all of its features are in one block."""
        source = _without_shadows(source)
        whole = whole_of(source)
        if not isinstance(whole, JoinedSource) or not whole.block_names:
            return None
        codes = block_codes(source)
        if np.unique(codes).size < 2:
            return None
        return FeatureBlocks(whole.block_names, codes, whole.parts)

    def features_of(self, source: AbstractSource, block: int, some: Index | None = None) -> Index:
        """Return the features of a block that are in `source`, as positions in the block's matrix.

        `some` are positions in `source`. The result contains only these features, or all features
        of the block if none of these are in the block.
        """
        source = _without_shadows(source)
        whole = whole_of(source)
        assert isinstance(whole, JoinedSource), "it has blocks"
        here = np.flatnonzero(self.codes == block)
        if some is not None and np.isin(here, some).any():
            here = here[np.isin(here, some)]
        stored = source.of_features(np.arange(whole.n_features))[here]
        return np.asarray(stored - whole.starts[block], dtype=np.int64)

    def shares(self, scaling: Scaling) -> dict[str, float]:
        """Return the share of each block in the mean squared distance of samples, after scaling."""
        sizes = np.square(scaling.std * scaling.scale)
        by_block = np.bincount(self.codes, sizes, minlength=len(self.names))
        total = by_block.sum()
        return dict(zip(self.names, (by_block / (total or 1.0)).tolist(), strict=True))

    def ranks(self, ranks: Index) -> Index:
        """Convert ranks (d,) over all blocks to ranks (d,) within blocks."""
        out = np.empty_like(ranks)
        for block in range(len(self.names)):
            members = np.flatnonzero(self.codes == block)
            out[members[np.argsort(ranks[members])]] = np.arange(1, members.size + 1)
        return out


def block_codes(source: AbstractSource) -> Index:
    """Return the block number (d,) of each feature, for a source that joins several matrices."""
    source = _without_shadows(source)
    whole = whole_of(source)
    assert isinstance(whole, JoinedSource), "it has blocks"
    widths = np.diff(whole.starts)
    return np.asarray(source.of_features(np.repeat(np.arange(widths.size), widths)))


def _without_shadows(source: AbstractSource) -> AbstractSource:
    while isinstance(source, ShadowedSource):
        source = source.base
    return source


@dataclass(frozen=True, eq=False)
class BlockScaling:
    """Rule that changes the scaling of features according to their blocks.

    `codes` (d,) has the position of each feature's block. If `is_unscaled` (B,) is True for a
    block, its features are only centred. With `balance`, all blocks have the same sum of mean
    squares.
    """

    codes: Index
    is_unscaled: Mask
    balance: bool

    def of(self, scaling: Scaling) -> tuple[Scaling, Float]:
        """Return the changed scaling, and the factors (d,) by which it changes the features."""
        codes = np.resize(self.codes, scaling.std.size)  # shadows repeat the features
        varies = scaling.scale > 0
        scale = np.where(self.is_unscaled[codes] & varies, 1.0, scaling.scale)
        if self.balance:
            scale = scale * self._weights(np.square(scaling.std * scale), codes)
        factor = np.divide(scale, scaling.scale, out=np.ones(scale.size), where=varies)
        changed = replace(
            scaling,
            scale=scale,
            max_abs=scaling.max_abs * factor,
            fourth_moment=scaling.fourth_moment * factor**4,
        )
        return changed, factor

    def _weights(self, sizes: Float, codes: Index) -> Float:
        """Return weights (d,) that balance the blocks; `sizes` (d,) are mean squares."""
        by_block = np.bincount(codes, np.nan_to_num(sizes), minlength=self.is_unscaled.size)
        has_size = by_block > 0
        mean = by_block.sum() / max(1, has_size.sum())
        weights = np.divide(mean, by_block, out=np.ones(by_block.size), where=has_size)
        return np.asarray(np.sqrt(weights)[codes])


class FloatBlocks(AbstractView):
    """Source that converts the values of `base` to floats, with NaN for missing values.

    `codes` maps the position of a block to the numbers that mean missing in this block.
    """

    def __init__(self, base: AbstractSource, codes: Mapping[int, Sequence[int]]) -> None:
        super().__init__(base)
        self._blocks_of = block_codes(base)
        self._codes = {b: tuple(of) for b, of in codes.items() if of}
        dtype: np.dtype[Any] = np.dtype(base.dtype)
        if dtype.kind != "f":
            dtype = np.dtype(np.float32 if dtype.itemsize <= SMALL_INTEGER else np.float64)
        self.dtype, self.missing_code, self.in_memory = dtype, None, False

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        raw = self.base.read_columns(block, local, rows)
        missing = missing_mask(raw, self.base.missing_code)
        values: Array = raw.astype(self.dtype)
        if missing is not None:
            values[missing] = np.nan
        own = np.resize(self._blocks_of, self.n_features)[block.start + local]
        for number, codes in self._codes.items():
            members = np.flatnonzero(own == number)
            if members.size:
                part = values[members]
                part[np.isin(raw[members], codes)] = np.nan
                values[members] = part
        return values

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        return f"{self.base.fingerprint(n_chunks)}-{sorted(self._codes.items())}-{self.dtype}"
