r"""Expected loss: how many of the requested features are lost because of wrong removals.

A round in low rank may remove a feature that exact gains would have kept. That is harmless if the
feature would have left soon anyway. So the tolerance limits the effect of errors on the final
result: the number of *lost* features among the n requested ones.

The ranks of the surviving features are divided into `BINS` bins of equal size; bin 0 is next to the
threshold. From one round to the next the features of a bin leave or move to other bins, with
the transition frequencies ``P_t`` (bins x bins). Lost features, with mean numbers ``v_t`` (bins,),
are assumed to move in the same way, and round t adds newly lost ones:

    ``v_t = P_t' v_{t-1} + w_t``,
    ``w_t = sum_j P(j crosses the threshold)``, over surviving features j, by bins.

The sum for ``w_t`` is over survivors: if the error is small compared with their spread, true and
estimated gains are exchangeable, so the number of features removed by mistake from the rank of j
equals the number that would cross the threshold from there with one more error of that size.

Future ``P`` are unknown. The mean of the last `ROUNDS` is used instead,

    ``f_t = P^k 1``, the probability that a feature lost in round t would still survive k rounds
    later,

and starts with a cautious prior: in any round a tenth of the features lose their rank
(`FORGOTTEN`). The k rounds end when n features are left, or when the exact engine takes over, if
that is earlier. At that point v gives the *fraction* of wrong features among the survivors. From
then on this fraction is assumed to be constant, although features change, because the kernel of
every set of features prefers features of this set.

These are direct effects of wrong removals. Wrong removals also change the kernel that scores the
other features. The size of this effect is unknown, but the effect of a round is known: removing a
fraction r of the features shifts ranks by s (root mean square, next to the threshold). If two sets
differ in a fraction delta, their kernels differ about as much as before and after removal of a
fraction 2 delta. So their ranks differ by ``s sqrt(2 delta / r)``, and features that move across
the threshold by this difference are lost too (`_bends`). A second vector includes them and gives an
upper limit, `most_lost`: a Poisson variable with this mean (or with mean 1.5 v) exceeds it in one
of ten runs. The factor 1.5 was the average on difficult data (`docs/certificate.md`), where errors
are shared by similar features.

None of this is a bound. At a turn of the kernel (`dhsic.engines.kernel_drift`) the result may
depend on few features. Systematic errors, for example of a group of features that low rank does not
represent at all, may be too large for the certificate of a round to detect.
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
#: Fraction of the features that lose their rank in a round, according to the prior.
FORGOTTEN = 0.1
#: Fraction of the remaining tolerance that a round may use, unless few rounds are left; and minimum
#: fraction of the whole tolerance: if it is used up, strict rounds would not help.
SHARE, LEAST = 0.25, 0.02
#: Average ratio of lost features to the expected number, on difficult data; and the confidence of
#: `most_lost`.
UNKIND, SURE = 1.5, 0.9
#: Number of finer rank levels of surviving features, which measure shifts, and of levels per bin.
LEVELS, LEVELS_OF_BIN = 240, 12
#: Maximum number of features that measure shifts of ranks, and their maximum distance from the
#: threshold, in ranks divided by the number of features.
SHIFTED, NEAR = 1 << 15, 0.2
#: Expected number of lost features up to which the result is "none".
NO_LOSS = 1e-3
#: Keys of the arrays that a resumed run needs.
BINS_KEPT, NUMBERS_KEPT = "standing", "survival"


class ExpectedLoss:
    """Expected number of lost features in a run, and the allowed number per round."""

    def __init__(
        self,
        n: int = 1,  # number of requested features
        tolerance: float = 0.01,  # fraction of the requested features that may be lost
        # Function from the number of features before a round to the number that it removes:
        removed: Callable[[int], int] = lambda size: max(1, size // 10),
        exact_from: int = 0,  # number of features up to which rounds are exact; 0: none are
    ) -> None:
        self._n, self._tolerance = n, tolerance
        self._removed, self._exact_from = removed, exact_from
        self._levels: Array = np.empty(0, dtype=np.uint8)  # rank levels of the survivors, in order
        self._lost, self._bent = np.zeros(BINS), np.zeros(BINS)
        self._moves: list[Float] = []  # transitions of the last rounds
        self._part = 0.0  # fraction of wrong features after the last low-rank round
        self._wrong = np.zeros(BINS)  # wrongly removed features in the present round

    def expected(self, certificate: Certificate, size: int, n: int) -> float:
        """Expected number of features that this round loses from the final result.

        The round removes n of `size` features; `certificate` estimates the error of its gains. A
        feature is lost if it is removed wrongly, and would otherwise have survived until the
        requested number is reached, or until the first exact round.
        """
        k, _ = self._ahead(size - n)
        return float(n * certificate.wrong @ self._missed(k, size, n))

    def allowed(self, size: int, n: int) -> float:
        """Number of features that a round may lose if it removes n of `size` features.

        Lost features are counted as in `expected`.
        """
        k, n_left = self._ahead(size - n)
        budget = self._tolerance * n_left
        spent = float(self._lost @ self._missed(k + 1, size, n))
        return max(max(SHARE, 1 / (k + 1)) * (budget - spent), LEAST * budget)

    def allows(self, certificate: Certificate, size: int, n: int) -> bool:
        """Whether the scores of a round are accurate enough, according to their certificate.

        The certificate estimates the errors of the scores. The round removes n of `size` features.
        """
        return self.expected(certificate, size, n) <= self.allowed(size, n)

    def rate(self, certificate: Certificate, size: int, n: int) -> float:
        """Estimate which fraction of the removed features may be wrong.

        The round removes n of `size` features. The estimate assumes that the expected loss is
        proportional to this fraction. It is 1 if the gains are accurate enough.
        """
        expected, allowed = self.expected(certificate, size, n), self.allowed(size, n)
        if expected <= allowed:
            return 1.0
        return min(1.0, certificate.expected_swap_rate * allowed / expected)

    def lose(self, certificate: Certificate, n: int) -> None:
        """Record the estimated error of the scores by which the present round removes n features.

        The error is in `certificate`.
        """
        self._wrong = n * certificate.wrong

    def follow(self, gains: Float, leaving: Index) -> dict[str, float]:
        """End a round; return the expected number of lost features, and an upper limit.

        `gains` (s,) are the changes of HSIC without each feature of the round, in the order of the
        features; `leaving` are the positions of the removed features.
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
        """Expected number of features lost because wrong removals change the kernel, (bins,).

        `gains` (s,) are the gains of the features before a round, which removes n of them.
        """
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
        """Arrays to store in a checkpoint, for a resumed run."""
        padded = np.zeros(-(-self._levels.size // 8) * 8, dtype=np.uint8)
        padded[: self._levels.size] = self._levels
        numbers = [self._lost, self._bent, np.array([self._part]), *map(np.ravel, self._moves)]
        return {BINS_KEPT: padded.view(np.int64), NUMBERS_KEPT: np.concatenate(numbers)}

    def restore(self, arrays: Mapping[str, Array], n_left: int) -> None:
        """Restore the expected loss from the arrays of a checkpoint, with `n_left` survivors.

        Survivors are features that have not been removed.
        """
        if NUMBERS_KEPT not in arrays:
            return
        numbers = np.asarray(arrays[NUMBERS_KEPT])
        self._levels = np.asarray(arrays[BINS_KEPT]).view(np.uint8)[:n_left].copy()
        self._lost, self._bent = numbers[:BINS].copy(), numbers[BINS : 2 * BINS].copy()
        self._part = float(numbers[2 * BINS])
        self._moves = list(numbers[2 * BINS + 1 :].reshape(-1, BINS, BINS))

    def _ahead(self, n_left: int) -> tuple[int, int]:
        """Number of rounds until lost features are counted, and number of features left then.

        They are counted before the first exact round, or when the requested number is reached.
        `n_left` is the number of surviving features now.
        """
        k = 0
        while n_left > self._exact_from and n_left - self._removed(n_left) >= self._n:
            n_left -= self._removed(n_left)
            k += 1
        return k, n_left

    def _missed(self, k: int, size: int, n: int) -> Float:
        """Probability that a wrongly removed feature would have survived k more rounds, (bins,).

        There is one probability for each bin of ranks that the feature may belong to. This round
        removes n of `size` features.
        """
        moves = np.mean(self._foreseen(size, n), axis=0)
        chances = np.linalg.matrix_power(moves, k).sum(axis=1)
        return np.asarray(np.maximum.accumulate(np.minimum(chances, 1.0)))

    def _foreseen(self, size: int, n: int) -> list[Float]:
        """Transition frequencies expected in future rounds, from the last rounds.

        Before the second round, they come from the prior. The round removes n of `size` features.
        """
        return self._moves or [supposed(n / size)[:, :BINS]]


def movements(before: Array, now: Array) -> Float:
    """Transition frequencies between bins, (bins, bins), smoothed with the prior `supposed`.

    `before` and `now` (s,) are the bins of the same features in two rounds; `now` is `BINS` if a
    feature leaves.
    """
    flat = before.astype(np.int64) * (BINS + 1) + now
    transitions = np.bincount(flat, minlength=BINS * (BINS + 1)).reshape(BINS, BINS + 1)
    counts = transitions + supposed(float(np.mean(now == BINS)))  # prior: one feature per bin
    return np.asarray((counts / counts.sum(axis=1, keepdims=True))[:, :BINS])


def supposed(part: float) -> Float:
    """Prior of the transition frequencies between bins, (bins, bins + 1).

    The last column is for features that leave: a fraction `part` of all. The others keep their
    order, except for a fraction `FORGOTTEN` with random new ranks.
    """
    edges = np.arange(BINS + 1) / BINS
    lower, upper = edges[:-1, None], edges[1:, None]
    into = np.append(part + (1 - part) * edges[:-1], 0.0)  # bins after the round
    to = np.append(part + (1 - part) * edges[1:], part)
    overlap = BINS * np.clip(np.minimum(upper, to) - np.maximum(lower, into), 0.0, None)
    anywhere = np.append(np.full(BINS, (1 - part) / BINS), part)
    return np.asarray((1 - FORGOTTEN) * overlap + FORGOTTEN * anywhere)


def lost_of(history: Sequence[Mapping[str, Any]], n: int, key: str = "expected_lost") -> float:
    """Number of lost features among the last n, from the values of `key` in the round records.

    Between two rounds it is interpolated geometrically, because features lost in the earlier round
    are next to its threshold.
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
    """Smallest number that a Poisson variable with this mean exceeds with probability 0.1 or less.

    >>> [most_of(mean) for mean in (0.0, 0.1, 0.3, 1.0, 5.0)]
    [0, 0, 1, 2, 8]
    """
    numbers = np.arange(2 * int(mean) + 10)
    return int(np.argmax(pdtr(numbers, mean) >= SURE))


def most_lost(history: Sequence[Mapping[str, Any]], n: int) -> int:
    """Upper limit for the number of lost features among the last n, with confidence 0.9."""
    return min(ceil(lost_of(history, n, "most_lost") - NO_LOSS), n)
