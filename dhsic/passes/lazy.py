r"""Lazy rounds: gains that were found in an earlier round, moved to where the kernel is now.

To first order the gain of a feature is a quadratic form, ``q = x' B x`` with
``B = 2 sigma (diag(A 1) - A)`` and ``A = W o K``, and B turns slowly. With u the last round that
scored all features,

    ``B_t = alpha B_u + Y' diag(theta) Y + Diag(c) + rest``,  ``alpha = <B_t, B_u> / <B_u, B_u>``,

Y being the leading directions of what alpha leaves off the diagonal, and c what they leave on it.
So a feature's gain is close to

    ``alpha q_u + sum_k theta_k (y_k' x)^2 + c' x^2``,

a small part of the work of ``x' B x``. What the rest and higher orders add is an error without
structure, of which the features next to the threshold say how large it is: they are scored exactly,
as after low rank (`dhsic.passes.candidates.Threshold`), and what the others may cost is counted
among what a run may lose (`dhsic.engines.survival`). Where many would have to be scored, because
the kernel has turned or round u is long ago, all are, and kept anew.

A run that is resumed has q_u from its checkpoint and makes B_u again, of the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.engines.certificate import certified, next_to_threshold
from dhsic.engines.question import Question
from dhsic.engines.refine import LAZY, is_lazy
from dhsic.engines.survival import Survival
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.quadratic import NARROW, Each, LowRankQuadratic, Room
from dhsic.namespace import host, slices
from dhsic.passes import TILE, AbstractByTile, Cost, Tile, lowrank_cost, placed
from dhsic.passes.candidates import PROBE, PROBED, Threshold
from dhsic.passes.reader import AbstractReader

#: Leading directions of a change, and steps of the iteration that finds them.
DIRECTIONS, STEPS = 8, 3
#: Rows of B that a thread multiplies at a time.
STRIP = 256
#: Up to so many features left all are scored in every round.
FEWEST = 1024
#: Part of the features that a lazy round may score: with more, the next one scores all.
MOST = 0.25
#: (m, m) matrices in float32 of a lazy round.
SQUARES = 4
#: Array that a resumed run needs.
GAINS_KEPT = "gains_kept"


def may_be_lazy(kernel: AbstractKernel) -> bool:
    """Whether gains are ``x' B x`` to first order, with B as above."""
    return kernel.is_product and kernel.scored_by == "series"


class Lazy:
    """What lazy rounds of one run know; `survival` says what they may lose."""

    def __init__(self, survival: Survival) -> None:
        self._survival = survival
        self._features: Index = np.empty(0, dtype=np.int64)
        self._gains: Float = np.empty(0)
        self._form: Float | None = None  # B_u, (m, m) float32
        self._room = Room()

    def gains(
        self, question: Question, data: AbstractReader, S: Index, n: int
    ) -> tuple[Float, dict[str, Any]] | None:
        """Gains of S good enough to place the n largest, and a record; None if all must be scored.

        Those that leave are in the order of these gains.
        """
        if self._form is None or not S.size > FEWEST or n >= S.size:
            return None
        alpha, change = _change(self._form_of(question, "B_t"), self._form, question.each)
        moved = data.scores(Change(change), data.jobs(S), aloud=True)
        gains = alpha * self._gains[np.searchsorted(self._features, S)] + moved
        sizes = data.sizes(S)
        guess = certified(0.0, gains, n, float(np.std(moved / sizes)), sizes)
        near = next_to_threshold(gains, n, PROBE * guess.deviation * sizes)
        if np.count_nonzero(near) > MOST * S.size:
            return None
        tolerance = self._survival.rate(guess, S.size, n)
        threshold = Threshold(question, data, tolerance, S, n, fewest=PROBED)
        gains, scored, found = threshold.corrected(gains, guess)
        if scored.size > MOST * S.size:
            self._form = None
        self._survival.lose(found, n)
        return gains, {
            "engine": f"{LAZY}: {S.size}, exact: {scored.size}",
            "products_float32": scored.size,
            "products_float64": 0,
            "error_bound_used": 0.0,
            "relative_error": float(found.deviation * sizes.mean() / np.std(gains)),
            "cut_error": found.expected_swap_rate,
        }

    def keep(self, question: Question, S: Index, gains: Float) -> None:
        """Keep the gains of a round that has scored all features."""
        self._features, self._gains = S, gains
        self._form = self._form_of(question, "B_u") if S.size > FEWEST else None

    def _form_of(self, question: Question, name: str) -> Float:
        """B of a round, where the last one of that name was."""
        m = question.n_samples
        return _form_of(question, self._room.array(name, (m, m), np.float32))

    def resume(self, question: Question, S: Index) -> None:
        """Make B of the round whose gains are kept, in which S were left."""
        self.keep(question, S, self._gains)

    def arrays(self) -> dict[str, Array]:
        """What a run needs to go on from here."""
        return {} if self._form is None else {GAINS_KEPT: self._gains}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on with what was kept; `resume` follows."""
        self._gains = np.asarray(arrays.get(GAINS_KEPT, np.empty(0)))

    def kept_in(self, history: Sequence[Mapping[str, Any]]) -> int | None:
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
        height = TILE if moved is None else None
        return height, lambda tile: host(form.forms(tile.values(np.float32, moved)))

    def cost(self, m: int) -> Cost:
        return lowrank_cost(m, len(self.form.theta))


def _form_of(question: Question, B: Float) -> Float:
    """B of a round, (m, m) float32, into the place given."""
    A, sigma = question.weighted(0), float(question.sigma)

    def fill(rows: slice) -> None:
        left, before = slice(0, rows.stop), slice(0, rows.start)
        np.multiply(A.T[rows, left], -sigma, out=B[rows, left], casting="same_kind")
        B[before, rows] = B[rows, before].T
        corner = B[rows, rows]
        corner += np.triu(corner.T, 1)

    for _ in question.each(fill, slices(len(B), NARROW)):
        pass
    np.fill_diagonal(B, 2 * sigma * (A.row_sums - np.diagonal(A.T)))
    return B


def _change(B: Array, before: Array, each: Each = map) -> tuple[float, LowRankQuadratic]:
    """The factor alpha, and what ``B - alpha before`` says in few directions; over B."""
    m = len(B)

    def times(Q: Array) -> Array:
        return np.concatenate([*each(lambda rows: B[rows] @ Q, slices(m, STRIP))])

    own = np.vecdot(before, before).sum(dtype=np.float64)
    alpha = float(np.vecdot(B, before).sum(dtype=np.float64) / own) if own else 1.0
    for _ in each(partial(_subtract, B, np.float32(alpha), before), slices(m, NARROW)):
        pass
    diagonal = np.array(np.diagonal(B))
    np.fill_diagonal(B, 0.0)
    Q = np.random.default_rng(m).standard_normal((m, min(m, 2 * DIRECTIONS)), dtype=np.float32)
    for _ in range(STEPS):
        Q = np.linalg.qr(times(Q))[0]
    theta, V = np.linalg.eigh((Q.T @ times(Q)).astype(np.float64))
    leading = np.argsort(-np.abs(theta), kind="stable")[:DIRECTIONS]
    Y = np.ascontiguousarray((Q @ V[:, leading]).T * np.sqrt(m), dtype=np.float32)
    theta = theta[leading] / m
    correction = diagonal - theta @ np.square(Y, dtype=np.float64)
    return alpha, LowRankQuadratic(Y, theta, correction.astype(np.float32))


def _subtract(B: Array, alpha: Any, before: Array, rows: slice) -> None:
    """Make some rows of B those of ``B - alpha before``: a strip is in the cache."""
    B[rows] -= alpha * before[rows]
