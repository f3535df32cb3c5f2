"""What rounds in low rank cost, from sizes alone.

Whether a factor of so many landmarks is good enough, the certificate of a round decides. What
comes in where it is not, K of all samples (or more landmarks), is written down as open.
"""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.kernels.base import AbstractKernel
from dhsic.plans.exact import DRIVING, form_flops
from dhsic.plans.tally import Tally
from dhsic.scoring.landmarks import EPOCH, check_number, first_number, most_number
from dhsic.scoring.sample import FEWEST, sample_size

#: Directions of a factor and of what is broadcast, as they turn out: where K of all samples is
#: taken once they are many, and where it cannot be; and at most, for their size.
RANK, HIGHER_RANK, MOST_DIRECTIONS = 12, 34, 128
#: Entries of (b, m) matrices that a round takes in this process to factor and certify, over b m.
DRIVING_THIN = 50.0
#: Time of scoring a value in low rank, for each direction, and of measuring one, over that of
#: standardising it; and entries of matrices for each value of the sample.
SCORING, MEASURING, CERTIFYING = 0.37, 12.0, 5.0
#: Part of the features next to the cut, which are scored exactly where K is known.
BAND = 0.1


@dataclass
class Thin:
    """Rounds of Algorithm 1 in low rank."""

    tally: Tally
    kernel: AbstractKernel
    may_square: bool
    base: int = 0
    sampled: float = 0.0

    @property
    def n_rows(self) -> int:
        """Landmarks and check rows; all samples where those are most."""
        m = self.tally.m
        rows = first_number(m) + check_number(m)
        return m if 2 * rows > m else rows

    @property
    def knows_all(self) -> bool:
        """Every sample is a landmark from the start."""
        return self.n_rows == self.tally.m

    @property
    def _sums_bytes(self) -> int:
        """Bytes of inner products of landmarks and samples, and of the norms of these."""
        return 8 * self.tally.m * (self.n_rows + 1)

    def measure(self) -> None:
        """The first pass: scaling, and the statistic against landmarks."""
        tally = self.tally
        self.base = tally.n_features
        flops = 2.0 * self.n_rows * tally.m * tally.n_features
        values = MEASURING * tally.m * tally.n_features
        each = 0 if self.knows_all else self._sums_bytes
        tally.measure(float32=flops, values=values, each=each)
        if self.knows_all and not self.kernel.is_additive:
            self._sum_all(1.0, is_open=False)

    def round(self, n_gone: int) -> None:
        """One round, before which `n_gone` features left."""
        tally = self.tally
        if self.kernel.is_additive:
            if tally.number == 1:
                self._score()
            return
        self._move(n_gone)
        tally.prepare(DRIVING_THIN * tally.m * min(self.n_rows, tally.m))
        self._sample()
        self._score()
        self._to_the_tolerance()

    def _move(self, n_gone: int) -> None:
        """The statistic moves on to the features that are left."""
        tally = self.tally
        if not n_gone:
            return
        per_feature = 2.0 * self.n_rows * tally.m
        if tally.n_features * EPOCH <= self.base:
            tally.compact(thinned=True)
            self.base = tally.n_features
            flops = per_feature * tally.n_features
            tally.over("statistic", sums=True, float32=flops, each=self._sums_bytes)
            return
        share = n_gone / tally.n_features
        flops = per_feature * n_gone
        tally.over("statistic", share, sums=True, float32=flops, each=self._sums_bytes)
        if self.may_square and not self.knows_all:
            self._sum_all(share, is_open=True)
        tally.compact(thinned=True)

    def _sum_all(self, share: float, *, is_open: bool) -> None:
        """K of all samples, for a part of the features."""
        tally = self.tally
        flops = float(tally.m) ** 2 * tally.n_features * share
        triangle = 4 * tally.m * (tally.m + 1)
        tally.over("statistic", share, sums=True, float32=flops, each=triangle, is_open=is_open)

    def _sample(self) -> None:
        """The sample of the certificate, drawn anew whenever half of the features are left."""
        tally = self.tally
        size = min(tally.n_features, max(FEWEST, sample_size(tally.m)))
        share = size / tally.n_features
        flops = 2.0 * check_number(tally.m) * tally.m * size
        if tally.n_features <= self.sampled / 2 or not self.sampled:
            self.sampled = tally.n_features
            tally.over("sample", share, float32=flops, result_bytes=4 * tally.m * size)
        tally.prepare(CERTIFYING * tally.m * size)

    def _score(self) -> None:
        tally, m = self.tally, self.tally.m
        rank = RANK if self.may_square else HIGHER_RANK
        tally.over(
            "score",
            float32=2.0 * rank * m * tally.n_features,
            values=SCORING * rank * m * tally.n_features,
            state_bytes=4 * MOST_DIRECTIONS * m,
            sent_bytes=4 * rank * m,
        )

    def _to_the_tolerance(self) -> None:
        """What the certificate may ask for."""
        tally, m = self.tally, self.tally.m
        is_open = not self.knows_all
        if self.may_square:
            if tally.number == 1 and is_open:
                self._sum_all(1.0, is_open=True)
            n = BAND * tally.n_features
            tally.over("score", BAND, float32=form_flops(m) * n, is_open=is_open)
            tally.prepare(DRIVING * m**2, is_open=is_open)
        elif tally.number == 1:
            more = 2 * first_number(m)
            while more <= most_number(m):
                flops = 2.0 * more * m * tally.n_features
                each = 8 * tally.m * (more + check_number(m))
                tally.over("statistic", sums=True, float32=flops, each=each, is_open=True)
                more *= 2
