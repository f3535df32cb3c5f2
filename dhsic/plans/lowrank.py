"""What rounds in low rank cost, from sizes alone.

Whether a factor of so many landmarks is good enough, the certificate of a round decides. What
comes in where it is not, K of all samples (or more landmarks), is written down as open.

What rounds of forward selection cost, from sizes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.kernels.base import AbstractKernel
from dhsic.passes.forward import LANDMARKS
from dhsic.passes.landmarks import EPOCH, check_number, first_number, most_number
from dhsic.passes.removal import FEWEST, sample_size
from dhsic.passes.sums import FEW_CHOSEN
from dhsic.plans.exact import DRIVING, form_flops, state_bytes
from dhsic.plans.tally import Tally

#: Directions of a factor and of what is broadcast, as they turn out: with the landmarks that a run
#: begins with, and with as many as it may have; and at most, for their size.
RANK, HIGHER_RANK, MOST_DIRECTIONS = 12, 32, 128
#: Entries of (b, m) matrices that a round takes in this process to factor and certify, over b m.
DRIVING_THIN = 30.0
#: Time of scoring a value in low rank, and that for each direction, and of measuring one, over that
#: of standardising it; and entries of matrices for each value of the sample.
SCORING, DIRECTION, MEASURING, CERTIFYING = 2.0, 0.17, 9.0, 5.0
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
    def most_rows(self) -> int:
        """The same of a run that has doubled its landmarks as often as it may."""
        m, more = self.tally.m, first_number(self.tally.m)
        if self.may_square or self.knows_all:
            return self.n_rows
        while 2 * more <= most_number(m) and 2 * (2 * more + check_number(m)) <= m:
            more *= 2
        return more + check_number(m)

    def _sums_bytes(self, n_rows: int) -> int:
        """Bytes of inner products of landmarks and samples, and of the norms of these."""
        return 8 * self.tally.m * (n_rows + 1)

    def _sum(self, share: float, n_rows: int, *, is_open: bool = False) -> None:
        """The statistic of a part of the features against so many rows."""
        tally = self.tally
        flops = 2.0 * n_rows * tally.m * tally.n_features * share
        each = self._sums_bytes(n_rows)
        tally.over("statistic", share, sums=True, float32=flops, each=each, is_open=is_open)

    def measure(self) -> None:
        """The first pass: scaling, and the statistic against landmarks."""
        tally = self.tally
        self.base = tally.n_features
        flops = 2.0 * self.n_rows * tally.m * tally.n_features
        values = MEASURING * tally.m * tally.n_features
        each = 0 if self.knows_all else self._sums_bytes(self.n_rows)
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
        tally.prepare(DRIVING_THIN * tally.m * self.n_rows)
        if self.most_rows > self.n_rows:
            tally.prepare(DRIVING_THIN * tally.m * (self.most_rows - self.n_rows), is_open=True)
        self._sample()
        self._score()
        self._to_the_tolerance()

    def _move(self, n_gone: int) -> None:
        """The statistic moves on to the features that are left."""
        tally = self.tally
        if not n_gone:
            return
        if tally.n_features * EPOCH <= self.base:
            tally.compact(thinned=True)
            self.base = tally.n_features
            self._sum(1.0, self.n_rows)
            self._sum_more(1.0)
            return
        share = n_gone / tally.n_features
        self._sum(share, self.n_rows)
        self._sum_more(share)
        if self.may_square and not self.knows_all:
            self._sum_all(share, is_open=True)
        tally.compact(thinned=True)

    def _sum_more(self, share: float) -> None:
        """What comes on top where there are as many landmarks as there may be."""
        more = self.most_rows - self.n_rows
        if more:
            self._sum(share, more, is_open=True)

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
        values = float(m) * tally.n_features
        tally.over(
            "score",
            float32=2.0 * RANK * values,
            values=(SCORING + DIRECTION * RANK) * values,
            state_bytes=4 * MOST_DIRECTIONS * m,
            sent_bytes=4 * RANK * m,
        )
        if self.most_rows > self.n_rows:
            more = HIGHER_RANK - RANK
            tally.over(
                "score", float32=2.0 * more * values, values=DIRECTION * more * values, is_open=True
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
            while more + check_number(m) <= self.most_rows:
                self._sum(1.0, more + check_number(m), is_open=True)
                more *= 2


#: Products of a candidate; with few features chosen sigma is large and the series long.
PRODUCTS = 4.0


@dataclass
class Joining:
    """Rounds of Algorithm 2."""

    tally: Tally
    kernel: AbstractKernel
    is_thin: bool

    def measure(self) -> None:
        """The first pass: scaling alone, for no feature is chosen."""
        self.tally.measure()

    def round(self, n_joined: int) -> None:
        """One round, before which `n_joined` features were chosen."""
        tally, m = self.tally, self.tally.m
        rows = LANDMARKS if self.is_thin else m
        if n_joined:
            flops = (2.0 if self.is_thin else 1.0) * rows * m * n_joined
            share = n_joined / tally.n_features
            tally.over("statistic", share, sums=n_joined > FEW_CHOSEN, float64=flops)
        if self.kernel.is_additive and tally.number > 1:
            return
        if self.is_thin:
            tally.prepare(DRIVING_THIN * rows * m)
            flops = PRODUCTS * 2.0 * RANK * m * tally.n_features
            tally.over("score", float32=flops, state_bytes=4 * MOST_DIRECTIONS * m)
            return
        tally.prepare(DRIVING * m**2)
        products = 1.0 if self.kernel.is_additive else PRODUCTS
        flops = form_flops(m) * products * tally.n_features
        tally.over("score", float32=flops, state_bytes=state_bytes(m, 1, 4))
