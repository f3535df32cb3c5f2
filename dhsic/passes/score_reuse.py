r"""Reuse of scores: gains of an earlier round are updated for the change of the kernel.

To first order the gain of a feature x is a quadratic form, ``q = x' B x`` with
``B = 2 sigma (diag(A 1) - A)`` and ``A = W o K``, and B changes slowly. If u is the last round that
scored all features, B in round t is

    ``B_t = alpha B_u + Y' diag(theta) Y + Diag(c) + rest``,  ``alpha = <B_t, B_u> / <B_u, B_u>``,

where Y are the leading directions of ``B_t - alpha B_u`` off the diagonal, and c is its diagonal.
So the gain of a feature is approximately

    ``alpha q_u + sum_k theta_k (y_k' x)^2 + c' x^2``,

which takes a small fraction of the work of ``x' B x``. The rest and higher orders are an
unstructured error, with standard deviation ``sqrt(2) ||rest||_F`` for a feature with independent
values. For correlated features, such as neighbouring genotypes, it is up to four times as large.
Its size is measured on the features next to the threshold: they are scored exactly, as after low
rank (`dhsic.passes.candidates.Threshold`), and the expected loss from the others counts towards the
loss that a run is allowed (`dhsic.engines.expected_loss`). If many features would need exact
scores, because the kernel has changed since round u, all features are scored again, and later
rounds reuse these gains.

A resumed run reads q_u from its checkpoint and recomputes B_u, bit for bit.
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
from dhsic.engines.expected_loss import ExpectedLoss
from dhsic.engines.refine import LAZY, History, is_lazy
from dhsic.engines.scoring_problem import ScoringProblem
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.quadratic import Each, LowRankQuadratic, WorkBuffer
from dhsic.namespace import host, slices
from dhsic.passes import AbstractByTile, Cost, Tile, placed, tile_of
from dhsic.passes.candidates import PROBE, Gains, Threshold, scored_to
from dhsic.passes.reader import AbstractReader
from dhsic.passes.score import lowrank_cost
from dhsic.passes.sums import SquareSum

#: Number of leading directions of the change of B, and of iterations that compute them.
DIRECTIONS, STEPS = 8, 2
#: Number of rows of B that a thread processes at a time.
STRIP = 256
#: Factor by which the error is increased for correlated features; minimum number of features that
#: are scored exactly to measure the error; and the features for each of these (at most one in
#: `PART` is scored for this purpose).
ALIKE, PROBED, PART = 4.0, 128, 8
#: Error of roughly computed gains relative to their spread, in rounds that score all features
#: roughly, and those next to the threshold exactly; and the engine name of such a round.
ROUGHLY, ROUGH = 3e-3, "rough"
#: Number of features up to which rough gains are not kept for later rounds.
LEAST_KEPT = 1024
#: Every round scores all features exactly if there are at most ``WORTH / m^2``, limited to the
#: range `FEWEST`.
FEWEST, WORTH = (128, 1024), 2.5e8
#: Minimum of the largest weight in W for float32; and maximum rounding error of K, relative to
#: `ROUGHLY`.
SMALLEST, ROUNDED = 1e-20, 0.1
#: Every how many rows of B one is used to estimate alpha.
APART = 64
#: Maximum fraction of features scored exactly in a lazy round. Above it, this round or the next
#: scores all features.
MOST = 0.25
#: Number of (m, m) float32 matrices of a lazy round.
SQUARES = 4
#: Key of the array that a resumed run needs.
GAINS_KEPT = "gains_kept"


def may_be_lazy(kernel: AbstractKernel) -> bool:
    """Whether rounds may reuse scores of earlier rounds with this kernel.

    To first order, the score of a feature x must be a quadratic form ``x' B x``.
    """
    return kernel.is_product and kernel.scored_by == "series"


def fewest(m: int) -> int:
    """Number of features up to which rounds over m samples score all features exactly."""
    return int(np.clip(WORTH / m**2, *FEWEST))


def is_rough(record: Mapping[str, Any]) -> bool:
    """Whether a round scored all features, but most of them only approximately."""
    return str(record.get("engine", "")).startswith(ROUGH)


class ScoreReuse:
    """Gains of an earlier round, reused by later rounds while the expected loss is small."""

    def __init__(self, survival: ExpectedLoss) -> None:
        self._expected_loss = survival
        self._features: Index = np.empty(0, dtype=np.int64)
        self._gains: Float = np.empty(0)
        self._form: FirstOrderForm | None = None  # B_u
        self._buffer = WorkBuffer()
        self._weights: Array | None = None  # W in float32
        self._fits = True  # whether W does not underflow in float32

    def weights(self, W: Float, sigma: float, total: SquareSum) -> Float:
        """Label weights W, (m, m).

        They are float32 if the rounding errors of the kernel matrix are small enough. `total` is
        the statistic; its largest entry determines the rounding errors.
        """
        if self._weights is None:
            self._weights = W.astype(np.float32)
            self._fits = float(np.abs(self._weights).max()) > SMALLEST
        rounding = float(np.finfo(np.float32).eps) * sigma * total.longest
        return self._weights if self._fits and rounding <= ROUNDED * ROUGHLY else W

    @staticmethod
    def may_spare(size: int, n: int, m: int) -> bool:
        """Whether a round that removes n of `size` features, over m samples, may reuse scores."""
        return fewest(m) < size > n

    def gains(
        self, question: ScoringProblem, data: AbstractReader, S: Index, n: int
    ) -> Gains | None:
        """Compute the gains of the features S, accurate enough to rank the n largest, and a record.

        The gain of a feature is the change of HSIC without it. The gains also determine the order
        of removed features. Returns None if all features must be scored exactly.
        """
        result = None
        if self._form is not None:
            gains, deviation = self._update_gains(question, self._form, data, S)
            result = self._corrected(question, data, S, n, gains, deviation, LAZY)
        if result is None or result[1]["products_float32"] > MOST * S.size:
            self._form = None  # the next round scores all
        if result is None and S.size > LEAST_KEPT:
            gains = scored_to(ROUGHLY, question, data, S, aloud=True)
            deviation = ROUGHLY * float(np.std(gains / data.sizes(S)))
            result = self._corrected(question, data, S, n, gains, deviation, ROUGH)
            if result is not None:
                result[1]["products_float32"] += S.size
                self.keep(question, S, result[0])
        return result

    def _update_gains(
        self, question: ScoringProblem, before: FirstOrderForm, data: AbstractReader, S: Index
    ) -> tuple[Float, float]:
        """Correct the stored gains for the change of the kernel since an earlier round.

        The gain of a feature x is the change of HSIC without it, approximately ``x' B x`` with an
        (m, m) matrix B; `before` is B of the earlier round. Returns the gains, and the standard
        deviation of their errors, divided by the mean square of a feature.
        """
        m = question.n_samples
        place = self._buffer.array("change", (m, m), np.float32)
        form, size, alpha = _change(question, before, place)
        change, rest_norm = _in_few(form, size, question.each)
        changes = data.scores(Change(change), data.jobs(S), aloud=True)
        gains = alpha * self._gains[np.searchsorted(self._features, S)] + changes
        return gains, ALIKE * np.sqrt(2) * rest_norm

    def _corrected(
        self,
        question: ScoringProblem,
        data: AbstractReader,
        S: Index,
        n: int,
        gains: Float,
        deviation: float,
        words: str,
    ) -> Gains | None:
        """Score exactly the features next to the removal threshold; return all gains and a record.

        The gain of a feature is the change of HSIC without it. `deviation` is the estimated error
        of gains. `words` is the engine name for the record. Returns None if more than a fraction
        `MOST` of the features would need exact scores.
        """
        sizes = data.sizes(S)
        guess = certified(0.0, gains, n, deviation, sizes)
        near = next_to_threshold(gains, n, PROBE * guess.deviation * sizes)
        if np.count_nonzero(near) > MOST * S.size:
            return None
        tolerance = self._expected_loss.rate(guess, S.size, n)
        threshold = Threshold(question, data, tolerance, S, n, fewest=min(PROBED, S.size // PART))
        gains, scored, remaining = threshold.corrected(gains, guess)
        if words == ROUGH and scored.size > MOST * S.size:
            return None
        self._expected_loss.lose(remaining, n)
        return gains, {
            "engine": f"{words}: {S.size}, exact: {scored.size}",
            "products_float32": scored.size,
            "products_float64": 0,
            "error_bound_used": 0.0,
            "relative_error": float(remaining.deviation * sizes.mean() / np.std(gains)),
            "cut_error": remaining.expected_swap_rate,
        }

    def keep(self, question: ScoringProblem, S: Index, gains: Float) -> None:
        """Store the gains (changes of HSIC) of a round that scored all features."""
        self._features, self._gains = S, gains
        m, self._form = question.n_samples, None
        if S.size > LEAST_KEPT:
            self._form = FirstOrderForm.of(question, self._buffer.array("B_u", (m, m), np.float32))

    def resume(self, question: ScoringProblem, S: Index) -> None:
        """Recompute the matrix B of the round with stored gains; S are the features of that round.

        The gain of a feature x is approximately ``x' B x``.
        """
        self.keep(question, S, self._gains)

    def arrays(self) -> dict[str, Array]:
        """Arrays to store in a checkpoint, for a resumed run."""
        return {} if self._form is None else {GAINS_KEPT: self._gains}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the stored scores from a checkpoint; `resume` must follow."""
        self._gains = np.asarray(arrays.get(GAINS_KEPT, np.empty(0)))

    def kept_in(self, history: History) -> int | None:
        """Index of the round whose scores a resumed run reuses; None if there is none."""
        if not self._gains.size:
            return None
        return max(i for i, record in enumerate(history) if not is_lazy(record))


@dataclass(frozen=True, slots=True)
class Change(AbstractByTile):
    """Pass that computes the change of scores of features, (c,), since an earlier round.

    The earlier round is the last one that scored all features. Scores are ``x' B x`` to first
    order; `form` is the change of the matrix B (m, m).
    """

    form: LowRankQuadratic
    device: str | None = field(default_factory=wanted_device)

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Float]]:
        form, move = placed(self.device, self.form)
        height = tile_of(np.float32) if move is None else None
        return height, lambda tile: host(form.forms(tile.values(np.float32, move)))

    def cost(self, m: int) -> Cost:
        return lowrank_cost(m, len(self.form.theta))


@dataclass(frozen=True, slots=True)
class FirstOrderForm:
    """Matrix B (m, m) of a round: ``x' B x`` is approximately the score of a feature x.

    It consists of the entries below the diagonal and the diagonal. `below` (m, m) float32 has zeros
    on the diagonal; entries above the diagonal are undefined.
    """

    below: Array
    diagonal: Float

    @staticmethod
    def of(question: ScoringProblem, below: Array) -> FirstOrderForm:
        """Compute the matrix B of a scoring problem; ``x' B x`` is about the score of a feature x.

        The entries below the diagonal are written to `below`.
        """

        def fill(rows: slice) -> None:
            _entries(question, rows, below[rows, : rows.stop])

        for _ in question.each(fill, _strips(len(below))):
            pass
        return FirstOrderForm(below, _diagonal(question))


def _entries(question: ScoringProblem, rows: slice, out: Array) -> None:
    """Write some rows of ``B = -2 sigma T`` (m, m), below the diagonal, to `out`.

    T is the weighted matrix of `ScoringProblem.weighted`. `out` has columns 0 to ``rows.stop``;
    entries on and above the diagonal become 0.
    """
    T, scale = question.weighted(0).T[rows, : rows.stop], -2 * float(question.sigma)
    np.multiply(T[:, : rows.start], scale, out=out[:, : rows.start], casting="same_kind")
    # T may be uninitialised above the diagonal.
    np.multiply(np.tril(T[:, rows], -1), scale, out=out[:, rows], casting="same_kind")


def _diagonal(question: ScoringProblem) -> Float:
    A = question.weighted(0)
    return np.asarray(2 * float(question.sigma) * (A.row_sums - 2 * np.diagonal(A.T)))


def _strips(m: int) -> list[slice]:
    """Ranges of matrix rows for threads, ordered by decreasing size below the diagonal."""
    return slices(m, STRIP)[::-1]


def _multiple(question: ScoringProblem, before: FirstOrderForm, diagonal: Float) -> float:
    """Estimate the factor alpha for which alpha times the matrix `before` is closest to B.

    Scores of features x are approximately ``x' B x``; `before` is B of an earlier round. The
    estimate uses a sample of rows. `diagonal` is the diagonal of B.
    """
    T, now, then = question.weighted(0).T, diagonal, before.diagonal
    inner, size = float(now @ then), float(then @ then)
    for i in range(0, len(then), APART):
        row = before.below[i, :i]
        inner -= 4 * APART * float(question.sigma) * float(np.vdot(row, T[i, :i]))
        size += 2 * APART * float(np.vdot(row, row))
    return inner / size if size else 1.0


def _change(
    question: ScoringProblem, before: FirstOrderForm, place: Array
) -> tuple[FirstOrderForm, float, float]:
    """Return the change of B since an earlier round, its squared norm off the diagonal, and alpha.

    Scores of features x are approximately ``x' B x``; the change is ``B - alpha before``. Its
    entries are written to `place`.
    """
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
    """Random start of the subspace iteration, (m, 2 `DIRECTIONS`) or (m, m); depends on m only."""
    return np.random.default_rng(m).standard_normal((m, min(m, 2 * DIRECTIONS)), dtype=np.float32)


def _in_few(form: FirstOrderForm, size: float, each: Each = map) -> tuple[LowRankQuadratic, float]:
    """Approximate a symmetric matrix by a low-rank matrix; return it and the norm of the error.

    `size` is the squared norm of the matrix, `form`.
    """
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
    own = theta / m @ np.square(Y, dtype=np.float64)  # diagonal of the approximation
    rest_norm = float(np.sqrt(max(size - theta @ theta - own @ own, 0.0)))
    correction = (form.diagonal - own).astype(np.float32)
    return LowRankQuadratic(Y, theta / m, correction), rest_norm
