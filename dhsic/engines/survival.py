r"""What becomes of features that leave by mistake: the certificate by consequence.

A round in low rank may remove a feature that the definition would have kept. That counts for
nothing where the feature would have left soon anyway, so what is kept within a tolerance is not the
error of a round but what it costs in the end: of the n features asked for, those that are *lost*.

Where a feature stands among those that stay is told in `BINS` equal parts, bin 0 next to the
threshold. From one round to the next the features of a bin leave or move to other bins; their
counts, ``P_t`` (bins x bins), say what becomes of a feature that stands there. Of features lost,
with mean numbers ``v_t`` (bins,), the same is supposed, and those that round t loses itself join:

    ``v_t = P_t' v_{t-1} + w_t``,
    ``w_t = sum_j P(j crosses the threshold)``, over features j that stay, by bins.

The sum for ``w_t`` is over features that stay: as far as the error is small next to their spread,
true and estimated gains are exchangeable, so as many left by mistake from where j should be as
would cross the threshold from where j is with one more error of that size.

Before the last round nobody knows all ``P``. The mean of the last `ROUNDS` stands for others,

    ``f_t = P^k 1``, the chance that a feature lost in round t is still missed k rounds later,

and begins with a prior that is cautious: in any round a tenth of the features forget their place
(`FORGOTTEN`). The k rounds lead to n features, or to where the exact engine takes over, if that is
earlier. There v says which *part* of the features left are wrong ones. From there on the part is
supposed to stay, although features change: every set makes its own kernel, which prefers it.

That is what follows from features that leave by mistake. They also bend the kernel that the others
are scored by. By how much is not known, but what a round does to it is: without a part r of its
features, where features stand shifts by s (root mean square, next to the threshold). Sets of which
a part delta differs make kernels that differ by as much as where a part 2 delta left, so that their
orders differ by ``s sqrt(2 delta / r)``, and what that moves across the threshold is lost besides
(`_bends`). With these a second vector goes along, for what is lost at most: `most_lost` is what a
Poisson variable of that mean, or of half as many again as v, exceeds once in ten runs. So many more
than v were lost on average on data that are unkind (`docs/certificate.md`), where errors are shared
by features that are alike.

None of this is a bound. At a turn (`dhsic.engines.turns`) all may hang on little; and errors that
are no chance, such as of a group of features that low rank sees none of, may come to more than the
certificate of a round can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from scipy.special import ndtr, pdtr

from dhsic._typing import Array, Float, Index
from dhsic.engines.certificate import BINS, Certificate, standing

#: Rounds whose movements are averaged to foretell others.
ROUNDS = 5
#: Part of the features that forget their place in a round, where nothing is known yet.
FORGOTTEN = 0.1
#: Part of what is left of the tolerance that a round may take, unless few rounds are to come; and
#: the least part of all of it: once it is spent, being strict mends nothing.
SHARE, LEAST = 0.25, 0.02
#: How many times as many as expected are lost, on average, on data that are unkind; and how often
#: no more are than `most_lost` says.
UNKIND, SURE = 1.5, 0.9
#: Finer parts of the features that stay, and how many of them are one bin: shifts are told by them.
LEVELS, LEVELS_OF_BIN = 240, 12
#: Features that shifts are told by, at most, and how near to the threshold, in parts of all.
SHIFTED, NEAR = 1 << 15, 0.2
#: Features lost that are as good as none.
NO_LOSS = 1e-3
#: Arrays that a resumed run needs.
BINS_KEPT, NUMBERS_KEPT = "standing", "survival"


class Survival:
    """Features lost in the rounds of one run, and what a round may lose."""

    def __init__(
        self,
        n: int = 1,  # features asked for
        tolerance: float = 0.01,  # part of them that may be lost
        # How many of so many features leave in a round:
        removed: Callable[[int], int] = lambda size: max(1, size // 10),
        exact_from: int = 0,  # so many left, and fewer, are scored exactly; 0: low rank to the end
    ) -> None:
        self._n, self._tolerance = n, tolerance
        self._removed, self._exact_from = removed, exact_from
        self._levels: Array = np.empty(0, dtype=np.uint8)  # of the features left, ascending
        self._lost, self._bent = np.zeros(BINS), np.zeros(BINS)
        self._moves: list[Float] = []  # of the last rounds
        self._part = 0.0  # of the features left that were wrong ones after the last of low rank
        self._wrong = np.zeros(BINS)  # in the round that is under way

    def expected(self, certificate: Certificate, size: int, n: int) -> float:
        """Features that a round loses, as far as they are missed where the tolerance counts them.

        Of `size` features n leave, by gains that are so certified.
        """
        k, _ = self._ahead(size - n)
        return float(n * certificate.wrong @ self._missed(k, size, n))

    def allowed(self, size: int, n: int) -> float:
        """Features that such a round may lose, so counted."""
        k, n_left = self._ahead(size - n)
        budget = self._tolerance * n_left
        spent = float(self._lost @ self._missed(k + 1, size, n))
        return max(max(SHARE, 1 / (k + 1)) * (budget - spent), LEAST * budget)

    def allows(self, certificate: Certificate, size: int, n: int) -> bool:
        """Whether gains that are so certified are good enough for such a round."""
        return self.expected(certificate, size, n) <= self.allowed(size, n)

    def rate(self, certificate: Certificate, size: int, n: int) -> float:
        """Part of the features leaving that may be wrong ones, more costing in proportion."""
        expected, allowed = self.expected(certificate, size, n), self.allowed(size, n)
        if expected <= allowed:
            return 1.0
        return min(1.0, certificate.expected_swap_rate * allowed / expected)

    def lose(self, certificate: Certificate, n: int) -> None:
        """In the round under way n features leave, by gains that are so certified."""
        self._wrong = n * certificate.wrong

    def follow(self, gains: Float, leaving: Index) -> dict[str, float]:
        """End a round; how many of the features left are wrong ones, expected and at most.

        Gains (s,) are of the features left, ascending; those at the positions `leaving` go.
        """
        size, stays = gains.size, np.ones(gains.size, dtype=bool)
        stays[leaving] = False
        levels, n_left = standing(gains[stays], LEVELS), size - leaving.size
        now = np.full(size, BINS, dtype=np.uint8)
        now[stays] = levels // LEVELS_OF_BIN
        besides = np.zeros(BINS)
        if self._levels.size == size:  # not in the first round
            moved = movements(self._levels // LEVELS_OF_BIN, now)
            self._lost, self._bent = self._lost @ moved, self._bent @ moved
            self._moves = [*self._foreseen(size, leaving.size), moved][-ROUNDS:]
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
        """Features lost because the kernel is another one, (bins,), of which n leave."""
        size = gains.size
        part = max(float(self._bent.sum()) / size, self._part)
        if part == 0 or n == size:
            return np.zeros(BINS)
        some = slice(None, None, -(-size // SHIFTED))
        before = (self._levels[some] + 0.5) / LEVELS
        now = (standing(gains[some], LEVELS) + 0.5) / LEVELS
        near = np.abs(now - n / size) < NEAR
        shift = float(np.sqrt(np.mean((now - before)[near] ** 2))) if near.any() else 0.0
        width = shift * np.sqrt(min(2 * part * size / n, 1.0)) / (1 - n / size)
        if width == 0:
            return np.zeros(BINS)
        crossing = ndtr(-(np.arange(LEVELS) + 0.5) / LEVELS / width)
        return np.asarray(crossing.reshape(BINS, -1).mean(axis=1) * (size - n) / BINS)

    def arrays(self) -> dict[str, Array]:
        """What a run needs to go on from here."""
        padded = np.zeros(-(-self._levels.size // 8) * 8, dtype=np.uint8)
        padded[: self._levels.size] = self._levels
        numbers = [self._lost, self._bent, np.array([self._part]), *map(np.ravel, self._moves)]
        return {BINS_KEPT: padded.view(np.int64), NUMBERS_KEPT: np.concatenate(numbers)}

    def restore(self, arrays: Mapping[str, Array], n_left: int) -> None:
        """Go on where the arrays were kept and so many features left."""
        if NUMBERS_KEPT not in arrays:
            return
        numbers = np.asarray(arrays[NUMBERS_KEPT])
        self._levels = np.asarray(arrays[BINS_KEPT]).view(np.uint8)[:n_left].copy()
        self._lost, self._bent = numbers[:BINS].copy(), numbers[BINS : 2 * BINS].copy()
        self._part = float(numbers[2 * BINS])
        self._moves = list(numbers[2 * BINS + 1 :].reshape(-1, BINS, BINS))

    def _ahead(self, n_left: int) -> tuple[int, int]:
        """Rounds until the tolerance counts features lost, and how many features are left then."""
        k = 0
        while n_left > self._exact_from and n_left - self._removed(n_left) >= self._n:
            n_left -= self._removed(n_left)
            k += 1
        return k, n_left

    def _missed(self, k: int, size: int, n: int) -> Float:
        """f: chance that a feature lost now is missed k rounds later, (bins,)."""
        moves = np.mean(self._foreseen(size, n), axis=0)
        chances = np.linalg.matrix_power(moves, k).sum(axis=1)
        return np.asarray(np.maximum.accumulate(np.minimum(chances, 1.0)))

    def _foreseen(self, size: int, n: int) -> list[Float]:
        """Movements of the last rounds, or what is supposed of the first."""
        return self._moves or [supposed(n / size)[:, :BINS]]


def movements(before: Array, now: Array) -> Float:
    """Parts of each bin that went to each, (bins, bins); where few were, as of `supposed`.

    `before` and `now` (s,) are bins of the same features, `BINS` of those that leave.
    """
    flat = before.astype(np.int64) * (BINS + 1) + now
    seen = np.bincount(flat, minlength=BINS * (BINS + 1)).reshape(BINS, BINS + 1)
    counts = seen + supposed(float(np.mean(now == BINS)))  # one feature in each bin
    return np.asarray((counts / counts.sum(axis=1, keepdims=True))[:, :BINS])


def supposed(part: float) -> Float:
    """Parts of each bin that go to each, and that leave, (bins, bins + 1), where `part` leave.

    All keep their order but for those that forget it, which may come to be anywhere.
    """
    edges = np.arange(BINS + 1) / BINS
    left, right = edges[:-1, None], edges[1:, None]
    into = np.append(part + (1 - part) * edges[:-1], 0.0)  # bins as they are after the round
    to = np.append(part + (1 - part) * edges[1:], part)
    kept = BINS * np.clip(np.minimum(right, to) - np.maximum(left, into), 0.0, None)
    anywhere = np.append(np.full(BINS, (1 - part) / BINS), part)
    return np.asarray((1 - FORGOTTEN) * kept + FORGOTTEN * anywhere)


def lost_of(history: Sequence[Mapping[str, Any]], n: int, key: str = "expected_lost") -> float:
    """Features lost of the last n, as the records of all rounds have it under this key.

    Between two rounds by the geometric mean: those of the round above are next to its threshold.
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
    """What a Poisson variable of this mean exceeds once in ten times.

    >>> [most_of(mean) for mean in (0.0, 0.1, 0.3, 1.0, 5.0)]
    [0, 0, 1, 2, 8]
    """
    numbers = np.arange(2 * int(mean) + 10)
    return int(np.argmax(pdtr(numbers, mean) >= SURE))


def most_lost(history: Sequence[Mapping[str, Any]], n: int) -> int:
    """No more features of the last n than this are lost, nine times of ten."""
    return min(ceil(lost_of(history, n, "most_lost") - NO_LOSS), n)
