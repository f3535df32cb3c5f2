"""Tasks of a run in linear time: statistic against landmarks, scores by thin matrices.

Genotypes are used as they are stored (`dhsic.sources.scaling`), everything else is standardised
tile by tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.base import Facts
from dhsic.engines.compact import Thin, ThinState, gains_from_sums
from dhsic.kernels.statistic import packed, zero_upper
from dhsic.linalg.blas import add_products
from dhsic.passes.tasks import Place, Wanted, raw_columns
from dhsic.runtime.base import Job
from dhsic.sources.base import AbstractSource
from dhsic.sources.checksums import checksums
from dhsic.sources.scaling import Codes, Scaling, code_values, measure, scaling_of, standardise

#: Entries of a tile, 4 MiB in float32, and the most features of one.
TILE_ENTRIES, WIDEST = 1 << 20, 512
#: Features of a tile of a statistic at least, for a product over few waits for memory; and entries
#: of it at a time, 16 MiB in float32.
LEAST_HEIGHT, STRIP_ENTRIES = 64, 1 << 22
#: Entries of genotypes that are scored at a time: few calls, for threads take turns between them.
CODE_ENTRIES = 1 << 23
#: Features whose products are added up in float32.
IN_SINGLE = 2048
Sums = tuple[Float, Float]


def tile_height(m: int) -> int:
    """Features of a tile."""
    return max(1, min(WIDEST, TILE_ENTRIES // max(1, m)))


def tile_entries(m: int) -> int:
    """Entries of a tile at a time, at most."""
    return min(max(tile_height(m), LEAST_HEIGHT) * m, max(STRIP_ENTRIES, m))


def tiles(
    source: AbstractSource, job: Job, wanted: Wanted, height: int | None = None
) -> Iterator[tuple[Array, Any]]:
    """Stored values of a tile, (c, m), and the scaling of its features where it is known."""
    height = height or tile_height(wanted.n_samples)
    for block, columns in zip(job.blocks, job.payload, strict=True):
        raw = raw_columns(source, block, columns, wanted)
        for a in range(0, len(raw), height):
            known = columns.scaling
            part = None if known is None else known.take(slice(a, a + height))
            yield raw[a : a + height], part


def measure_thin(source: AbstractSource, job: Job, wanted: Wanted) -> tuple[Scaling, Sums, bool]:
    """Scaling of the job's features, their statistic against the landmarks; are all genotypes."""
    statistic = _Statistic(wanted)
    parts = []
    are_codes = True
    for raw, _ in tiles(source, job, wanted, statistic.height):
        codes = Codes.of(raw, source.missing_code)
        are_codes &= codes is not None
        if codes is None:
            scaling = _measured(raw, source.missing_code, wanted)
            statistic.add(raw, source.missing_code, scaling)
        else:
            scaling = scaling_of(codes.counts(), standardize=wanted.standardize)
            statistic.add_codes(codes, scaling)
            scaling = replace(scaling, checksum=checksums(raw))
        parts.append(scaling)
    return Scaling.join(parts), statistic.sums(), are_codes


def _measured(raw: Array, missing_code: int | None, wanted: Wanted) -> Scaling:
    """Scaling of features, few of which are in float64 at a time."""
    height = tile_height(wanted.n_samples)
    parts = [raw[a : a + height] for a in range(0, len(raw), height)]
    return Scaling.join(
        [measure(part, missing_code, standardize=wanted.standardize)[0] for part in parts]
    )


def landmark_sums(source: AbstractSource, job: Job, wanted: Wanted) -> Sums:
    """Inner products of landmarks and samples, (b, m), and norms, (m,), over the features."""
    statistic = _Statistic(wanted)
    for raw, scaling in tiles(source, job, wanted, statistic.height):
        codes = Codes.of(raw, source.missing_code)
        if codes is None:
            statistic.add(raw, source.missing_code, scaling)
        else:
            statistic.add_codes(codes, scaling)
    return statistic.sums()


def all_sums(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Upper triangle of the inner products of all samples over the features, packed."""
    m = wanted.n_samples
    upper, part = zero_upper(m), np.zeros((m, m), dtype=np.float32, order="F")
    n = 0
    for raw, scaling in tiles(source, job, wanted):
        X = standardise(raw, source.missing_code, scaling, np.float32)
        add_products(part, np.ascontiguousarray(X))
        n += len(X)
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

    def __init__(self, wanted: Wanted) -> None:
        assert wanted.landmarks is not None, "a pass against landmarks names them"
        self.landmarks: Index = wanted.landmarks
        b, m = len(self.landmarks), wanted.n_samples
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

    def add(self, raw: Array, missing_code: int | None, scaling: Scaling) -> None:
        """Features as stored, (c, m)."""
        L = standardise(raw[:, self.landmarks], missing_code, scaling, np.float32)
        for samples in self._strips:
            X = standardise(raw[:, samples], missing_code, scaling, np.float32)
            self._add(L, X, samples)
            self._norms[samples] += np.einsum("ij,ij->j", X, X)
        self._count(len(raw))

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


def score_thin(source: AbstractSource, job: Job, wanted: Wanted) -> Float:
    """Gains of the columns of the job, in their order, (c,).

    Jobs of nothing but genotypes come without scaling, most of what would have to be sent.
    """
    state = wanted.engine_state
    by_levels = _levels_apply(state)
    height = max(1, CODE_ENTRIES // wanted.n_samples)
    gains = []
    for raw, scaling in tiles(source, job, wanted, height):
        codes = Codes.of(raw, source.missing_code) if by_levels is not None else None
        if codes is not None and by_levels is not None:
            gains.append(_code_gains(codes, state, by_levels, wanted))
        else:
            gains += list(_standardised_gains(raw, source.missing_code, scaling, wanted))
    return np.concatenate(gains)


def _standardised_gains(
    raw: Array, missing_code: int | None, scaling: Scaling, wanted: Wanted
) -> Iterator[Float]:
    """Gains of features that are standardised, a tile at a time."""
    place = Place.of(wanted)
    height = tile_height(wanted.n_samples) if place.accelerator is None else len(raw)
    for a in range(0, len(raw), height):
        part = scaling.take(slice(a, a + height))
        X = standardise(raw[a : a + height], missing_code, part, wanted.dtype)
        facts = Facts(part.peak, part.fourth, part.n_levels)
        yield Thin(wanted.dtype).score(place.state, place.array(X), facts)


def _levels_apply(state: ThinState) -> Array | None:
    """Y and ones side by side, (m, R + 1), where sums over levels give the gain."""
    if not state.forms.kernel.is_product:
        return None
    Y = state.forms.A[0].Y
    return np.column_stack([Y.T, np.ones(Y.shape[1], dtype=Y.dtype)])


def _code_gains(codes: Codes, state: ThinState, Y: Array, wanted: Wanted) -> Float:
    """Gains of genotypes; how often each code occurs says all of their scaling."""
    forms = state.forms
    U = codes.sums(Y)
    counts = np.rint(U[..., -1])
    scaling = scaling_of(counts, standardize=wanted.standardize)
    values = code_values(scaling)
    theta = forms.A[0].theta
    gains = gains_from_sums(U[..., :-1], counts, values, theta, forms.kernel, forms.sigma)
    return gains * forms.scale


def sample_columns(source: AbstractSource, job: Job, wanted: Wanted) -> Array:
    """Standardised columns of the job, (c, m) float32; each the same whatever others there are."""
    parts = [
        standardise(raw, source.missing_code, scaling, np.float64).astype(np.float32)
        for raw, scaling in tiles(source, job, wanted)
    ]
    return np.concatenate(parts)
