r"""Survival: the expected loss of final features from wrong removals.

A round in low rank may remove a feature that the definition would have kept. That is harmless if
the feature would have left soon anyway. So the tolerance limits not the error of a round, but its
consequence in the end: the number of *lost* features among the n requested ones.

The rank of a feature among the survivors is divided into `BINS` bins of equal size; bin 0 is next
to the threshold. From one round to the next the features of a bin leave or move to other bins; the
transition frequencies ``P_t`` (bins x bins) say what happens to a feature of each bin. Lost
features, with mean numbers ``v_t`` (bins,), are assumed to move in the same way, and round t adds
its own:

    ``v_t = P_t' v_{t-1} + w_t``,
    ``w_t = sum_j P(j crosses the threshold)``, over surviving features j, by bins.

The sum for ``w_t`` is over survivors: if the error is small compared with their spread, true and
estimated gains are exchangeable, so the number of features removed by mistake from the rank of j
equals the number that would cross the threshold from there with one more error of that size.

Future ``P`` are unknown. The mean of the last `ROUNDS` is used instead,

    ``f_t = P^k 1``, the probability that a feature lost in round t is still missed k rounds later,

and starts with a cautious prior: in any round a tenth of the features lose their rank
(`FORGOTTEN`). The k rounds end with n features, or where the exact engine takes over, if that is
earlier. There v gives the *fraction* of wrong features among the survivors. From then on the
fraction is assumed to be constant, although features change, because every set makes its own
kernel, which prefers it.

These are direct effects of wrong removals. Wrong removals also change the kernel by which the
others are scored. The size of this effect is unknown, but the effect of a round is known: removing
a fraction r of the features shifts ranks by s (root mean square, next to the threshold). Sets that
differ in a fraction delta make kernels that differ like those before and after removal of a
fraction 2 delta, so their ranks differ by ``s sqrt(2 delta / r)``, and features that this moves
across the threshold are lost in addition (`_bends`). A second vector includes them, for an upper
limit: `most_lost` is the value that a Poisson variable of that mean, or of 1.5 v, exceeds once in
ten runs. The factor 1.5 was the average on difficult data (`docs/certificate.md`), where errors are
shared by similar features.

None of this is a bound. At a turn of the kernel (`dhsic.engines.kernel_drift`) the result may
depend on few features; and systematic errors, such as of a group of features that low rank does not
represent at all, may exceed what the certificate of a round can detect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from scipy.special import ndtr, pdtr

from dhsic._typing import Array, Float, Index
from dhsic.engines.certificate import BINS, Certificate, standing

#: Number of rounds whose transitions are averaged for predictions.
ROUNDS = 5
#: Fraction of the features that lose their rank in a round, in the prior.
FORGOTTEN = 0.1
#: Fraction of the remaining tolerance that a round may use, unless few rounds are left; and the
#: minimum fraction of the whole tolerance: once it is used up, strict rounds would not help.
SHARE, LEAST = 0.25, 0.02
#: Ratio of lost features to the expected number on difficult data, on average; and the confidence
#: of `most_lost`.
UNKIND, SURE = 1.5, 0.9
#: Number of finer rank levels of survivors, which measure shifts, and of levels per bin.
LEVELS, LEVELS_OF_BIN = 240, 12
#: Maximum number of features that measure shifts, and their distance from the threshold in ranks /
#: size.
SHIFTED, NEAR = 1 << 15, 0.2
#: Number of lost features that counts as none.
NO_LOSS = 1e-3
#: Keys of the arrays that a resumed run needs.
BINS_KEPT, NUMBERS_KEPT = "standing", "survival"


class ExpectedLoss:
    """Expected number of lost features in the rounds of one run, and the loss a round may add."""

    def __init__(
        self,
        n: int = 1,  # number of requested features
        tolerance: float = 0.01,  # fraction of them that may be lost
        # Number of features removed in a round, from the number before it:
        removed: Callable[[int], int] = lambda size: max(1, size // 10),
        exact_from: int = 0,  # number of features from which on rounds are exact; 0: never
    ) -> None:
        self._n, self._tolerance = n, tolerance
        self._removed, self._exact_from = removed, exact_from
        self._levels: Array = np.empty(0, dtype=np.uint8)  # of the survivors, ascending
        self._lost, self._bent = np.zeros(BINS), np.zeros(BINS)
        self._moves: list[Float] = []  # transitions of the last rounds
        self._part = 0.0  # fraction of wrong features after the last low-rank round
        self._wrong = np.zeros(BINS)  # wrongly removed features in the present round

    def expected(self, certificate: Certificate, size: int, n: int) -> float:
        """Expected number of features lost in a round, as far as the tolerance will count them.

        The round removes n of `size` features; `certificate` bounds the error of its gains.
        """
        k, _ = self._ahead(size - n)
        return float(n * certificate.wrong @ self._missed(k, size, n))

    def allowed(self, size: int, n: int) -> float:
        """Number of features that such a round may lose, counted in the same way."""
        k, n_left = self._ahead(size - n)
        budget = self._tolerance * n_left
        spent = float(self._lost @ self._missed(k + 1, size, n))
        return max(max(SHARE, 1 / (k + 1)) * (budget - spent), LEAST * budget)

    def allows(self, certificate: Certificate, size: int, n: int) -> bool:
        """Whether the gains of such a round are accurate enough, by their certificate."""
        return self.expected(certificate, size, n) <= self.allowed(size, n)

    def rate(self, certificate: Certificate, size: int, n: int) -> float:
        """Fraction of the removed features that may be wrong, assuming proportional losses."""
        expected, allowed = self.expected(certificate, size, n), self.allowed(size, n)
        if expected <= allowed:
            return 1.0
        return min(1.0, certificate.expected_swap_rate * allowed / expected)

    def lose(self, certificate: Certificate, n: int) -> None:
        """Record the certificate of the gains by which the present round removes n features."""
        self._wrong = n * certificate.wrong

    def follow(self, gains: Float, leaving: Index) -> dict[str, float]:
        """End a round, and return the numbers of lost features, expected and at most.

        Gains (s,) are those of the features before removal, ascending; `leaving` are positions.
        """
        size, stays = gains.size, np.ones(gains.size, dtype=bool)
        stays[leaving] = False
        levels, n_left = standing(gains[stays], LEVELS), size - leaving.size
        now = np.full(size, BINS, dtype=np.uint8)
        now[stays] = levels // LEVELS_OF_BIN
        besides = np.zeros(BINS)
        if self._levels.size == size:  # not in the first round
            transitions = movements(self._levels // LEVELS_OF_BIN, now)
            self._lost, self._bent = self._lost @ transitions, self._bent @ transitions
            self._moves = [*self._foreseen(size, leaving.size), transitions][-ROUNDS:]
            besides = self._bends(gains, leaving.size)
        self._levels = levels
        self._lost = np.minimum(self._lost + self._wrong, n_left / BINS)
        self._bent = np.minimum(self._bent + self._wrong + besides, n_left / BINS)
        self._wrong = np.zeros(BINS)
        lost = float(self._lost.sum())
        if size > self._exact_from and n_left:
            self._part = lost / n_left
        lost = max(lost, self._part * n_left)
        most = most_of(max(UNKIND * lost, float(self._bent.sum())))
        return {"expected_lost": lost, "most_lost": min(most, n_left)}

    def _bends(self, gains: Float, n: int) -> Float:
        """Features lost because wrong removals change the kernel, (bins,); n features leave."""
        size = gains.size
        part = max(float(self._bent.sum()) / size, self._part)
        if part == 0 or n == size:
            return np.zeros(BINS)
        subset = slice(None, None, -(-size // SHIFTED))
        before = (self._levels[subset] + 0.5) / LEVELS
        now = (standing(gains[subset], LEVELS) + 0.5) / LEVELS
        near = np.abs(now - n / size) < NEAR
        shift = float(np.sqrt(np.mean((now - before)[near] ** 2))) if near.any() else 0.0
        width = shift * np.sqrt(min(2 * part * size / n, 1.0)) / (1 - n / size)
        if width == 0:
            return np.zeros(BINS)
        crossing = ndtr(-(np.arange(LEVELS) + 0.5) / LEVELS / width)
        return np.asarray(crossing.reshape(BINS, -1).mean(axis=1) * (size - n) / BINS)

    def arrays(self) -> dict[str, Array]:
        """Arrays that a resumed run needs."""
        padded = np.zeros(-(-self._levels.size // 8) * 8, dtype=np.uint8)
        padded[: self._levels.size] = self._levels
        numbers = [self._lost, self._bent, np.array([self._part]), *map(np.ravel, self._moves)]
        return {BINS_KEPT: padded.view(np.int64), NUMBERS_KEPT: np.concatenate(numbers)}

    def restore(self, arrays: Mapping[str, Array], n_left: int) -> None:
        """Restore the state from arrays, with `n_left` surviving features."""
        if NUMBERS_KEPT not in arrays:
            return
        numbers = np.asarray(arrays[NUMBERS_KEPT])
        self._levels = np.asarray(arrays[BINS_KEPT]).view(np.uint8)[:n_left].copy()
        self._lost, self._bent = numbers[:BINS].copy(), numbers[BINS : 2 * BINS].copy()
        self._part = float(numbers[2 * BINS])
        self._moves = list(numbers[2 * BINS + 1 :].reshape(-1, BINS, BINS))

    def _ahead(self, n_left: int) -> tuple[int, int]:
        """Number of rounds until the tolerance counts lost features, and of survivors then."""
        k = 0
        while n_left > self._exact_from and n_left - self._removed(n_left) >= self._n:
            n_left -= self._removed(n_left)
            k += 1
        return k, n_left

    def _missed(self, k: int, size: int, n: int) -> Float:
        """Probability that a feature lost now is missed k rounds later, (bins,): f."""
        moves = np.mean(self._foreseen(size, n), axis=0)
        chances = np.linalg.matrix_power(moves, k).sum(axis=1)
        return np.asarray(np.maximum.accumulate(np.minimum(chances, 1.0)))

    def _foreseen(self, size: int, n: int) -> list[Float]:
        """Transitions of the last rounds, or the prior before the second round."""
        return self._moves or [supposed(n / size)[:, :BINS]]


def movements(before: Array, now: Array) -> Float:
    """Transition frequencies between bins, (bins, bins); smoothed by the prior `supposed`.

    `before` and `now` (s,) are bins of the same features; `BINS` for those that leave.
    """
    flat = before.astype(np.int64) * (BINS + 1) + now
    transitions = np.bincount(flat, minlength=BINS * (BINS + 1)).reshape(BINS, BINS + 1)
    counts = transitions + supposed(float(np.mean(now == BINS)))  # prior: one feature per bin
    return np.asarray((counts / counts.sum(axis=1, keepdims=True))[:, :BINS])


def supposed(part: float) -> Float:
    """Prior of the transition frequencies, (bins, bins + 1), last column: leaving.

    A fraction `part` leaves. Features keep their order, except those that lose their rank, which
    may move anywhere.
    """
    edges = np.arange(BINS + 1) / BINS
    lower, upper = edges[:-1, None], edges[1:, None]
    into = np.append(part + (1 - part) * edges[:-1], 0.0)  # bins after the round
    to = np.append(part + (1 - part) * edges[1:], part)
    overlap = BINS * np.clip(np.minimum(upper, to) - np.maximum(lower, into), 0.0, None)
    anywhere = np.append(np.full(BINS, (1 - part) / BINS), part)
    return np.asarray((1 - FORGOTTEN) * overlap + FORGOTTEN * anywhere)


def lost_of(history: Sequence[Mapping[str, Any]], n: int, key: str = "expected_lost") -> float:
    """Lost features among the last n, from the values in the records of all rounds.

    Between two rounds they are interpolated geometrically, because features lost in the earlier
    round are next to its threshold.
    """
    sizes, lost = [0], [0.0]
    for record in reversed(history):
        sizes.append(int(record["n_features"]) - int(record["n_removed"]))
        lost.append(float(record.get(key, 0.0)))
    if history:
        sizes.append(int(history[0]["n_features"]))
        lost.append(0.0)
    if not any(lost):
        return 0.0
    between = np.exp(np.interp(n, sizes, np.log(np.array(lost) + NO_LOSS)))
    return float(max(between - NO_LOSS, 0.0))


def most_of(mean: float) -> int:
    """Smallest number that a Poisson variable of this mean exceeds at most once in ten times.

    >>> [most_of(mean) for mean in (0.0, 0.1, 0.3, 1.0, 5.0)]
    [0, 0, 1, 2, 8]
    """
    numbers = np.arange(2 * int(mean) + 10)
    return int(np.argmax(pdtr(numbers, mean) >= SURE))


def most_lost(history: Sequence[Mapping[str, Any]], n: int) -> int:
    """Number of lost features among the last n that is not exceeded nine times out of ten."""
    return min(ceil(lost_of(history, n, "most_lost") - NO_LOSS), n)
