r"""Lazy rounds: gains that were found in an earlier round, moved to where the kernel is now.

To first order the gain of a feature is a quadratic form, ``q = x' B x`` with
``B = 2 sigma (diag(A 1) - A)`` and ``A = W o K``, and B turns slowly. With u the last round that
scored all features,

    ``B_t = alpha B_u + Y' diag(theta) Y + Diag(c) + rest``,  ``alpha = <B_t, B_u> / <B_u, B_u>``,

Y being the leading directions of what alpha leaves off the diagonal, and c what they leave on it.
So a feature's gain is close to

    ``alpha q_u + sum_k theta_k (y_k' x)^2 + c' x^2``,

a small part of the work of ``x' B x``. What the rest and higher orders add is an error without
structure, of deviation ``sqrt(2) ||rest||_F`` for a feature of independent values. Of features that
are alike, such as neighbouring genotypes, it is up to four times as large; those next to the
threshold say how large: they are scored exactly, as after low rank
(`dhsic.passes.candidates.Threshold`), and what the others may cost is counted among what a run may
lose (`dhsic.engines.survival`). Where many would have to be scored, because the kernel has turned
or round u is long ago, all are, and kept anew.

A run that is resumed has q_u from its checkpoint and makes B_u again, of the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.engines.certificate import certified, next_to_threshold
from dhsic.engines.question import Question
from dhsic.engines.refine import LAZY, History, is_lazy
from dhsic.engines.survival import Survival
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.quadratic import Each, LowRankQuadratic, Room
from dhsic.namespace import host, slices
from dhsic.passes import AbstractByTile, Cost, Tile, placed, tile_of
from dhsic.passes.candidates import PROBE, Gains, Threshold, scored_to
from dhsic.passes.reader import AbstractReader
from dhsic.passes.score import lowrank_cost
from dhsic.passes.sums import SquareSum

#: Leading directions of a change, and steps of the iteration that finds them.
DIRECTIONS, STEPS = 8, 2
#: Rows of B that a thread works on at a time.
STRIP = 256
#: By how much gains of features that are alike err more than others; and features that are scored
#: at least to see it, or one in so many of all.
ALIKE, PROBED, PART = 4.0, 128, 8
#: Part of the spread of gains that those of all features may neglect, where the ones next to the
#: threshold are exact; and what the engine of such a round is called.
ROUGHLY, ROUGH = 3e-3, "rough"
#: Up to so many features left no more gains are kept.
LEAST_KEPT = 1024
#: Up to so many features left all are scored in every round: where that takes `WORTH` flops, but no
#: fewer than the one and no more than the other.
FEWEST, WORTH = (128, 1024), 2.5e8
#: Weights in float32 are larger than this, and what rounding may do to K next to `ROUGHLY`.
SMALLEST, ROUNDED = 1e-20, 0.1
#: Every so-many-th row of B says how much of the last one it is.
APART = 64
#: Part of the features that a lazy round may score: with more, the next one scores all.
MOST = 0.25
#: (m, m) matrices in float32 of a lazy round.
SQUARES = 4
#: Array that a resumed run needs.
GAINS_KEPT = "gains_kept"


def may_be_lazy(kernel: AbstractKernel) -> bool:
    """Whether gains are ``x' B x`` to first order, with B as above."""
    return kernel.is_product and kernel.scored_by == "series"


def fewest(m: int) -> int:
    """Features left, at most, from which on every round of m samples scores all exactly."""
    return int(np.clip(WORTH / m**2, *FEWEST))


def is_rough(record: Mapping[str, Any]) -> bool:
    """Whether a round scored all features roughly, as its record has it."""
    return str(record.get("engine", "")).startswith(ROUGH)


class Lazy:
    """What lazy rounds of one run know; `survival` says what they may lose."""

    def __init__(self, survival: Survival) -> None:
        self._survival = survival
        self._features: Index = np.empty(0, dtype=np.int64)
        self._gains: Float = np.empty(0)
        self._form: FirstOrderForm | None = None  # B_u
        self._room = Room()
        self._weights: Array | None = None  # in float32
        self._fits = True  # whether these are neither too large nor too small

    def weights(self, W: Float, sigma: float, total: SquareSum) -> Float:
        """W, (m, m), in float32 unless K of this sum needs more digits."""
        if self._weights is None:
            self._weights = W.astype(np.float32)
            self._fits = float(np.abs(self._weights).max()) > SMALLEST
        rounding = float(np.finfo(np.float32).eps) * sigma * total.longest
        return self._weights if self._fits and rounding <= ROUNDED * ROUGHLY else W

    @staticmethod
    def may_spare(size: int, n: int, m: int) -> bool:
        """Whether a round of m samples may be lazy at which n of so many features leave."""
        return fewest(m) < size > n

    def gains(self, question: Question, data: AbstractReader, S: Index, n: int) -> Gains | None:
        """Gains of S good enough to place the n largest, and a record; None if all must be scored.

        Those that leave are in the order of these gains.
        """
        found = None
        if self._form is not None:
            gains, deviation = self._moved(question, self._form, data, S)
            found = self._corrected(question, data, S, n, gains, deviation, LAZY)
        if found is None or found[1]["products_float32"] > MOST * S.size:
            self._form = None  # the next round scores all
        if found is None and S.size > LEAST_KEPT:
            gains = scored_to(ROUGHLY, question, data, S, aloud=True)
            deviation = ROUGHLY * float(np.std(gains / data.sizes(S)))
            found = self._corrected(question, data, S, n, gains, deviation, ROUGH)
            if found is not None:
                found[1]["products_float32"] += S.size
                self.keep(question, S, found[0])
        return found

    def _moved(
        self, question: Question, before: FirstOrderForm, data: AbstractReader, S: Index
    ) -> tuple[Float, float]:
        """Gains that were kept, moved to where the kernel is now, and the deviation of an error."""
        m = question.n_samples
        place = self._room.array("change", (m, m), np.float32)
        form, size, alpha = _change(question, before, place)
        change, rest = _in_few(form, size, question.each)
        moved = data.scores(Change(change), data.jobs(S), aloud=True)
        gains = alpha * self._gains[np.searchsorted(self._features, S)] + moved
        return gains, ALIKE * np.sqrt(2) * rest

    def _corrected(
        self,
        question: Question,
        data: AbstractReader,
        S: Index,
        n: int,
        gains: Float,
        deviation: float,
        words: str,
    ) -> Gains | None:
        """Gains that are exact next to the threshold, and a record; None where that is most."""
        sizes = data.sizes(S)
        guess = certified(0.0, gains, n, deviation, sizes)
        near = next_to_threshold(gains, n, PROBE * guess.deviation * sizes)
        if np.count_nonzero(near) > MOST * S.size:
            return None
        tolerance = self._survival.rate(guess, S.size, n)
        threshold = Threshold(question, data, tolerance, S, n, fewest=min(PROBED, S.size // PART))
        gains, scored, left = threshold.corrected(gains, guess)
        if words == ROUGH and scored.size > MOST * S.size:
            return None
        self._survival.lose(left, n)
        return gains, {
            "engine": f"{words}: {S.size}, exact: {scored.size}",
            "products_float32": scored.size,
            "products_float64": 0,
            "error_bound_used": 0.0,
            "relative_error": float(left.deviation * sizes.mean() / np.std(gains)),
            "cut_error": left.expected_swap_rate,
        }

    def keep(self, question: Question, S: Index, gains: Float) -> None:
        """Keep the gains of a round that has scored all features."""
        self._features, self._gains = S, gains
        m, self._form = question.n_samples, None
        if S.size > LEAST_KEPT:
            self._form = FirstOrderForm.of(question, self._room.array("B_u", (m, m), np.float32))

    def resume(self, question: Question, S: Index) -> None:
        """Make B of the round whose gains are kept, in which S were left."""
        self.keep(question, S, self._gains)

    def arrays(self) -> dict[str, Array]:
        """What a run needs to go on from here."""
        return {} if self._form is None else {GAINS_KEPT: self._gains}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on with what was kept; `resume` follows."""
        self._gains = np.asarray(arrays.get(GAINS_KEPT, np.empty(0)))

    def kept_in(self, history: History) -> int | None:
        """Number of the round whose gains a resumed run goes on with, from 0; None for none."""
        if not self._gains.size:
            return None
        return max(i for i, record in enumerate(history) if not is_lazy(record))


@dataclass(frozen=True, slots=True)
class Change(AbstractByTile):
    """By how much first-order gains have moved, (c,)."""

    form: LowRankQuadratic
    device: str | None = field(default_factory=wanted_device)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Float]]:
        form, moved = placed(self.device, self.form)
        height = tile_of(np.float32) if moved is None else None
        return height, lambda tile: host(form.forms(tile.values(np.float32, moved)))

    def cost(self, m: int) -> Cost:
        return lowrank_cost(m, len(self.form.theta))


@dataclass(frozen=True, slots=True)
class FirstOrderForm:
    """B of a round, by its entries below the diagonal and on it.

    `below` (m, m) float32 has zeros on the diagonal; what is far above it has no meaning.
    """

    below: Array
    diagonal: Float

    @staticmethod
    def of(question: Question, below: Array) -> FirstOrderForm:
        """B, into the place given."""

        def fill(rows: slice) -> None:
            _entries(question, rows, below[rows, : rows.stop])

        for _ in question.each(fill, _strips(len(below))):
            pass
        return FirstOrderForm(below, _diagonal(question))


def _entries(question: Question, rows: slice, out: Array) -> None:
    """Some rows of B, from the first column to the last of these rows, below the diagonal."""
    T, scale = question.weighted(0).T[rows, : rows.stop], -2 * float(question.sigma)
    np.multiply(T[:, : rows.start], scale, out=out[:, : rows.start], casting="same_kind")
    # Above the diagonal T may never have been written to.
    np.multiply(np.tril(T[:, rows], -1), scale, out=out[:, rows], casting="same_kind")


def _diagonal(question: Question) -> Float:
    A = question.weighted(0)
    return np.asarray(2 * float(question.sigma) * (A.row_sums - 2 * np.diagonal(A.T)))


def _strips(m: int) -> list[slice]:
    """Rows that threads share out, those with most below the diagonal first."""
    return slices(m, STRIP)[::-1]


def _multiple(question: Question, before: FirstOrderForm, diagonal: Float) -> float:
    """Alpha, by the diagonal and some rows."""
    T, now, then = question.weighted(0).T, diagonal, before.diagonal
    inner, size = float(now @ then), float(then @ then)
    for i in range(0, len(then), APART):
        row = before.below[i, :i]
        inner -= 4 * APART * float(question.sigma) * float(np.vdot(row, T[i, :i]))
        size += 2 * APART * float(np.vdot(row, row))
    return inner / size if size else 1.0


def _change(
    question: Question, before: FirstOrderForm, place: Array
) -> tuple[FirstOrderForm, float, float]:
    """``B - alpha before``, its square norm off the diagonal, and alpha; into the place given."""
    diagonal = _diagonal(question)
    alpha = _multiple(question, before, diagonal)
    factor = np.float32(alpha)

    def subtract(rows: slice) -> float:
        part = place[rows, : rows.stop]
        _entries(question, rows, part)
        part -= factor * before.below[rows, : rows.stop]
        return float(np.vecdot(part, part).sum(dtype=np.float64))

    size = 2.0 * sum(question.each(subtract, _strips(len(place))))
    return FirstOrderForm(place, diagonal - alpha * before.diagonal), size, alpha


@lru_cache(maxsize=1)
def _start(m: int) -> Array:
    """Directions that the iteration begins with, (m, 2 `DIRECTIONS`) at most: the same for all."""
    return np.random.default_rng(m).standard_normal((m, min(m, 2 * DIRECTIONS)), dtype=np.float32)


def _in_few(form: FirstOrderForm, size: float, each: Each = map) -> tuple[LowRankQuadratic, float]:
    """What a form of that square norm says in few directions, and the norm of the rest."""
    m = len(form.below)

    def times(Q: Array) -> Array:
        def sides(rows: slice) -> tuple[Array, Array]:
            part = form.below[rows, : rows.stop]
            return part @ Q[: rows.stop], part.T @ Q[rows]

        P = np.zeros_like(Q)
        for rows, (down, across) in zip(_strips(m), each(sides, _strips(m)), strict=True):
            P[rows] += down
            P[: rows.stop] += across
        return P

    Q = _start(m)
    for _ in range(STEPS):
        Q = np.linalg.qr(times(Q))[0]
    theta, V = np.linalg.eigh((Q.T @ times(Q)).astype(np.float64))
    leading = np.argsort(-np.abs(theta), kind="stable")[:DIRECTIONS]
    Y = np.ascontiguousarray((Q @ V[:, leading]).T * np.sqrt(m), dtype=np.float32)
    theta = theta[leading]
    own = theta / m @ np.square(Y, dtype=np.float64)  # on the diagonal
    rest = float(np.sqrt(max(size - theta @ theta - own @ own, 0.0)))
    correction = (form.diagonal - own).astype(np.float32)
    return LowRankQuadratic(Y, theta / m, correction), rest
