"""Passes of a run in linear time: statistic against landmarks, scores by thin matrices.

Genotypes are used as they are stored (`dhsic.sources.scaling`), everything else is standardised
tile by tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.engines.compact import Thin, ThinState, gains_from_sums
from dhsic.kernels.statistic import packed, zero_upper
from dhsic.linalg.blas import add_products
from dhsic.passes.task import AbstractPass, Place, Tile, cut, tile_height
from dhsic.sources.scaling import Codes, Scaling, code_values, scaling_of
from dhsic.sources.views import checksums

#: Features of a tile of a statistic at least, for a product over few waits for memory; and entries
#: of it at a time, 16 MiB in float32.
LEAST_HEIGHT, STRIP_ENTRIES = 64, 1 << 22
#: Entries of genotypes that are scored at a time: few calls, for threads take turns between them.
CODE_ENTRIES = 1 << 23
#: Features whose products are added up in float32.
IN_SINGLE = 2048
Sums = tuple[Float, Float]


def tile_entries(m: int) -> int:
    """Entries of a tile at a time, at most."""
    return min(max(tile_height(m), LEAST_HEIGHT) * m, max(STRIP_ENTRIES, m))


@dataclass(frozen=True, slots=True)
class MeasureLandmarks(AbstractPass):
    """Scaling of the features, their statistic against landmarks; whether all are genotypes."""

    landmarks: Index
    standardize: bool = True

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[Scaling, Sums, bool]:
        statistic = _Statistic(self.landmarks, m)
        parts = []
        are_codes = True
        for tile in cut(blocks, statistic.height):
            codes = tile.codes
            are_codes &= codes is not None
            if codes is None:
                few = tile.cut(tile_height(m))  # so few are in float64 at a time
                measured = [part.measured(standardize=self.standardize)[0] for part in few]
                scaling = Scaling.join(measured)
                statistic.add(replace(tile, scaling=scaling))
            else:
                scaling = scaling_of(codes.counts(), standardize=self.standardize)
                statistic.add_codes(codes, scaling)
                scaling = replace(scaling, checksum=checksums(tile.raw))
            parts.append(scaling)
        return Scaling.join(parts), statistic.sums(), are_codes


@dataclass(frozen=True, slots=True)
class LandmarkSums(AbstractPass):
    """Inner products of landmarks and samples, (b, m), and norms, (m,), over the features."""

    landmarks: Index

    def over(self, blocks: Iterator[Tile], m: int) -> Sums:
        statistic = _Statistic(self.landmarks, m)
        for tile in cut(blocks, statistic.height):
            codes = tile.codes
            if codes is None:
                statistic.add(tile)
            else:
                statistic.add_codes(codes, tile.scaling)
        return statistic.sums()


@dataclass(frozen=True, slots=True)
class AllSums(AbstractPass):
    """Upper triangle of the inner products of all samples over the features, packed."""

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        upper, part = zero_upper(m), np.zeros((m, m), dtype=np.float32, order="F")
        n = 0
        for tile in cut(blocks, tile_height(m)):
            add_products(part, np.ascontiguousarray(tile.values(np.float32)))
            n += len(tile.raw)
            if n >= IN_SINGLE:
                upper += part
                part[:] = 0
                n = 0
        upper += part
        return packed(upper)


class _Statistic:
    """Sums over tiles: in float32 over a few of them, from there in float64.

    Attributes
    ----------
    height : int
        Features of a tile.
    """

    def __init__(self, landmarks: Index, m: int) -> None:
        self.landmarks = landmarks
        b = len(landmarks)
        self.height = max(tile_height(m), LEAST_HEIGHT)
        width = max(1, tile_entries(m) // self.height)
        self._strips = [slice(a, min(a + width, m)) for a in range(0, m, width)]
        self._inner: Float | None = None
        self._norms = np.zeros(m)
        self._shifts, self._norm_shift = np.zeros(b), 0.0
        self._part = np.empty((b, m), dtype=np.float32)  # of the last `_n` features
        self._product = np.empty(b * min(width, m), dtype=np.float32)
        self._n = 0

    def sums(self) -> Sums:
        """Inner products (b, m) and norms (m,) of all tiles; no more can be added."""
        self._flush()
        assert self._inner is not None, "a job has features"
        self._inner -= self._shifts[:, None]
        return self._inner, self._norms + self._norm_shift

    def add(self, tile: Tile) -> None:
        """Features that are standardised, a strip of samples at a time."""
        L = replace(tile, raw=tile.raw[:, self.landmarks]).values(np.float32)
        for samples in self._strips:
            X = replace(tile, raw=tile.raw[:, samples]).values(np.float32)
            self._add(L, X, samples)
            self._norms[samples] += np.einsum("ij,ij->j", X, X)
        self._count(len(L))

    def add_codes(self, codes: Codes, scaling: Scaling) -> None:
        """With ``x = s (g - h)``: ``sum_j s^2 (g - h) g'`` and what h takes from it."""
        square, shift = scaling.scale**2, scaling.mean
        L = codes.some(self.landmarks).filled(shift) - shift[:, None]
        L *= square[:, None]  # (c, b) float64
        self._shifts += shift @ L
        weights = np.stack([square, -2 * square * shift]).astype(np.float32)
        single = L.astype(np.float32)
        for samples in self._strips:
            g = codes.some(samples).filled(shift)
            self._add(single, g, samples)
            self._norms[samples] += weights[1] @ g
            self._norms[samples] += weights[0] @ np.multiply(g, g, out=g)
        self._norm_shift += float(square @ (shift * shift))
        self._count(len(L))

    def _add(self, L: Array, X: Array, samples: slice) -> None:
        part = self._part[:, samples]
        if not self._n:
            np.matmul(L.T, X, out=part)
            return
        product = self._product[: part.size].reshape(part.shape)
        np.matmul(L.T, X, out=product)
        part += product

    def _count(self, n: int) -> None:
        self._n += n
        if self._n >= IN_SINGLE:
            self._flush()

    def _flush(self) -> None:
        if not self._n:
            return
        if self._inner is None:
            self._inner = self._part.astype(np.float64)
        else:
            self._inner += self._part
        self._n = 0


@dataclass(frozen=True, slots=True)
class ScoreLowRank(AbstractPass):
    """Gains by thin matrices, (c,).

    Jobs of nothing but genotypes come without scaling, most of what would have to be sent: how
    often each code occurs says all of it.
    """

    state: ThinState
    dtype: Any = np.float32
    standardize: bool = True
    device: str | None = field(default_factory=wanted_device)

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        Y = self._sides()
        gains: list[Float] = []
        for tile in cut(blocks, max(1, CODE_ENTRIES // m)):
            codes = None if Y is None else tile.codes
            if codes is None or Y is None:
                gains += self._of_values(tile)
            else:
                gains.append(self._of_codes(codes, Y))
        return np.concatenate(gains)

    def _of_values(self, tile: Tile) -> Iterator[Float]:
        """Gains of features that are standardised, a tile at a time."""
        place, (c, m) = Place.of(self.device, self.state), tile.raw.shape
        for part in tile.cut(tile_height(m) if place.accelerator is None else c):
            X = place.array(part.values(self.dtype))
            yield Thin(self.dtype).score(place.state, X, part.facts)

    def _sides(self) -> Array | None:
        """Y and ones side by side, (m, R + 1), where sums over levels give the gain."""
        forms = self.state.forms
        if not forms.kernel.is_product:
            return None
        Y = forms.A[0].Y
        return np.column_stack([Y.T, np.ones(Y.shape[1], dtype=Y.dtype)])

    def _of_codes(self, codes: Codes, Y: Array) -> Float:
        """Gains of genotypes."""
        forms = self.state.forms
        U = codes.sums(Y)
        counts = np.rint(U[..., -1])
        values = code_values(scaling_of(counts, standardize=self.standardize))
        theta = forms.A[0].theta
        gains = gains_from_sums(U[..., :-1], counts, values, theta, forms.kernel, forms.sigma)
        return gains * forms.scale
