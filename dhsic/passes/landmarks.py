"""The statistic against landmarks, kept up to date as features leave.

Like `dhsic.passes.sums`, in O(b m): down-dated by the features removed, summed anew when few
are left of those it was summed from, or when more landmarks are asked for. A part of the landmarks,
the *check rows*, serves no factor: what is estimated on them is honest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Index
from dhsic.kernels.statistic import add_packed, zero_upper
from dhsic.lowrank.base import Landmarks
from dhsic.passes.lowrank_passes import AllSums, LandmarkSums, Sums
from dhsic.passes.reader import WORTH_MANY, Reader, grouped
from dhsic.sources.scaling import Scaling

#: The statistic is summed anew when this fraction of the features it was summed from is left.
EPOCH = 32
#: Landmarks that a run begins with, and the fewest where samples are many.
LANDMARKS, FEWEST = 192, 64
#: Check rows, at most and at least.
MOST_CHECKS, FEWEST_CHECKS = 96, 32
#: Features whose products are worth a triangle that travels: it takes a twentieth of their time.
WORTH_SQUARES = 16384
#: Entries of the statistic, and of its check rows, that decide how many landmarks many samples get.
ENTRIES, CHECK_ENTRIES = 1 << 25, 1 << 24
#: Most landmarks, unless that is every sample, and most entries of the statistic with them.
MOST_LANDMARKS, MOST_ENTRIES = 1024, 1 << 26


@dataclass(frozen=True, slots=True)
class Chosen:
    """Samples that are landmarks, and what each is for.

    Attributes
    ----------
    rows : (b,) int64
        All of them, ascending.
    fit, check : int64
        Positions among `rows` that make factors, and that check them.
    n_samples : int
        Number of samples m.
    """

    rows: Index
    fit: Index
    check: Index
    n_samples: int

    @staticmethod
    def of(m: int, n: int, seed: int, *, everyone: bool = False) -> Chosen:
        """`n` landmarks for factors, and check rows; where those are most samples, all are both.

        With `everyone` every sample is a landmark, and K is known, but as many make factors.
        """
        order = np.random.default_rng([seed, m]).permutation(m)
        n_check = check_number(m)
        every = np.arange(m)
        if 2 * (n + n_check) > m:
            return Chosen(every, every, np.sort(order[: max(n_check, LANDMARKS)]), m)
        rows = every if everyone else np.sort(order[: n + n_check])
        check, fit = np.sort(order[:n_check]), np.sort(order[n_check : n + n_check])
        return Chosen(rows, np.searchsorted(rows, fit), np.searchsorted(rows, check), m)

    @property
    def is_everyone(self) -> bool:
        """Every sample is a landmark: K is known."""
        return len(self.rows) == self.n_samples


def check_number(m: int) -> int:
    """Check rows of a run over m samples."""
    return int(np.clip(CHECK_ENTRIES // m, FEWEST_CHECKS, MOST_CHECKS))


def most_number(m: int) -> int:
    """Landmarks that a run over m samples may come to, short of all samples."""
    return max(first_number(m), min(MOST_LANDMARKS, MOST_ENTRIES // m))


def first_number(m: int) -> int:
    """Landmarks that a run over m samples begins with."""
    return int(np.clip(ENTRIES // m, FEWEST, LANDMARKS))


class RunningLandmarks:
    """Statistic of the survivors against landmarks; `at` moves it on."""

    def __init__(self, reader: Reader, m: int, seed: int) -> None:
        self.reader = reader
        self.scaling: Scaling | None = None
        self.features: Index = np.empty(0, dtype=np.int64)
        self.bytes_read = 0
        self._m, self._seed = m, seed
        self._base = 0
        self._sums: Sums | Float = np.empty((0, m)), np.empty(m)
        self._parts: dict[str, Landmarks] = {}
        self.chosen = Chosen.of(m, first_number(m), seed)

    @property
    def n_landmarks(self) -> int:
        """Landmarks that make factors."""
        return len(self.chosen.fit)

    @property
    def fit(self) -> Landmarks:
        """Those that make factors."""
        return self._part("fit", self.chosen.fit)

    @property
    def check(self) -> Landmarks:
        """Those that check them."""
        return self._part("check", self.chosen.check)

    @property
    def norms(self) -> Float:
        """Squared norms of all samples, (m,)."""
        known = self._sums
        return known[1] if isinstance(known, tuple) else np.diagonal(known).copy()

    @property
    def upper(self) -> Float:
        """Upper triangle of the inner products of all samples, (m, m), where they are known."""
        assert isinstance(self._sums, np.ndarray), "every sample is a landmark"
        return self._sums

    def start(self, features: Index, scaling: Scaling, parts: Iterable[Sums]) -> None:
        """Begin with `features`, whose statistic has been summed; `scaling` is of all."""
        self.scaling = scaling
        if self.chosen.is_everyone:
            self._begin(features, self._summed(features))
        else:
            self._begin(features, self._added(parts))

    def _begin(self, features: Index, sums: Sums | Float) -> None:
        self._sums, self._parts = sums, {}
        self.features, self._base = features, features.size

    def at(self, S: Index) -> None:
        """Move on to S, a subset of the features so far."""
        if S.size == self.features.size:
            return
        if S.size * EPOCH <= self._base:
            self.reader = self.reader.thinned(S)
            self.restart(S, self.n_landmarks, everyone=self.chosen.is_everyone)
            return
        gone = np.setdiff1d(self.features, S, assume_unique=True)
        self._sums, self._parts = _less(self._sums, self._summed(gone)), {}
        self.features = S
        self.reader = self.reader.thinned(S)

    def restart(self, S: Index, n: int, *, everyone: bool = False) -> None:
        """Sum the statistic of S anew, against `n` landmarks or all samples."""
        self.chosen = Chosen.of(self._m, n, self._seed, everyone=everyone)
        self._begin(S, self._summed(S))

    def replay(self, survivors: Sequence[Index], n_rows: Sequence[int]) -> None:
        """Repeat what an uninterrupted run did in the rounds that are done.

        Parameters
        ----------
        survivors : sequence of int64 arrays
            S at the start of every round.
        n_rows : sequence of int
            Landmarks, check rows included, at the end of every round.
        """
        base, last = self._base, -1
        for number, S in enumerate(survivors):
            if S.size * EPOCH <= base or n_rows[number] != len(self.chosen.rows):
                base, last = S.size, number
                self.chosen = self._chosen(n_rows[number])
        for S in survivors[: last + 1]:
            self.reader = self.reader.thinned(S)
        if last >= 0:
            self._begin(survivors[last], self._summed(survivors[last]))
        for S in survivors[last + 1 :]:
            self.at(S)

    def _chosen(self, n_rows: int) -> Chosen:
        """Landmarks of which there are so many, check rows included."""
        n = first_number(self._m)
        while n_rows < self._m and len(Chosen.of(self._m, n, self._seed).rows) < n_rows:
            n *= 2
        return Chosen.of(self._m, n, self._seed, everyone=n_rows == self._m)

    def _summed(self, features: Index) -> Sums | Float:
        """Statistic of some features."""
        jobs = self.reader.jobs(features, self.scaling)
        self.bytes_read += self.reader.bytes_of(jobs)
        jobs = grouped(jobs, WORTH_SQUARES if self.chosen.is_everyone else WORTH_MANY)
        if not self.chosen.is_everyone:
            return self._added(self.reader.map(LandmarkSums(self.chosen.rows), jobs))
        upper = zero_upper(self._m)
        for part in self.reader.map(AllSums(), jobs):
            add_packed(upper, part)
        return upper

    def _added(self, parts: Iterable[Sums]) -> Sums:
        more = iter(parts)
        inner, norms = (np.require(sums, requirements="W") for sums in next(more))
        for part, part_norms in more:
            inner += part
            norms += part_norms
        return inner, norms

    def _part(self, name: str, which: Index) -> Landmarks:
        """Some of the landmarks, taken out once a round."""
        if name not in self._parts:
            self._parts[name] = self._some(which)
        return self._parts[name]

    def _some(self, which: Index) -> Landmarks:
        known, rows = self._sums, self.chosen.rows[which]
        if isinstance(known, tuple):
            return Landmarks(known[0][which], known[1], rows)
        above = np.arange(self._m) >= rows[:, None]
        return Landmarks(np.where(above, known[rows], known[:, rows].T), self.norms, rows)


def _less(known: Sums | Float, gone: Sums | Float) -> Sums | Float:
    """The statistic less that of features that left, in place."""
    if isinstance(known, tuple):
        for have, part in zip(known, gone, strict=True):
            np.subtract(have, part, out=have)
        return known
    return np.subtract(known, gone, out=known)
