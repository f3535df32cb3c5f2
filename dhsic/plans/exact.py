"""What rounds by the exact engine cost, from sizes alone.

Which expansion settles a round, the data decide; what is supposed here was seen on genotypes and
on normal data: a first product for every feature, more for those it leaves undecided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic.engines.final import DIRECT_COST, has_series
from dhsic.engines.refine import FEW_FEATURES
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.quadratic import PANEL
from dhsic.passes.sums import EPOCH, FEW
from dhsic.plans.tally import Tally

#: Passes of a round by a series: part of the features, products of each, in float64.
SERIES = ((1.0, 1.0, False), (0.2, 2.0, False), (0.05, 4.0, True))
#: Part of the features that an exact expansion in float32 leaves to one in float64.
LEFT = 0.05
#: Products of a feature where it is settled at once.
AT_ONCE = 3.0
#: Time of a round in this process, in functions of the entries of an (m, m) matrix: K, W o K, their
#: sums and norms, copies.
DRIVING = 8.0

#: Part of the features, products of each, whether in float64.
Step = tuple[float, float, bool]


def form_flops(m: int) -> float:
    """Flops of a quadratic form x' A x, with one triangle of A."""
    return float(m * (m + PANEL))


def state_bytes(m: int, n_bases: int, itemsize: int) -> int:
    """Bytes of ``A = W o base`` for every base, one triangle each, as workers get them."""
    return int(n_bases * itemsize * (m * (m + PANEL) // 2 + m))


@dataclass
class Exact:
    """Rounds of Algorithm 1 by the exact engine.

    Attributes
    ----------
    tally : Tally
        Where passes are written down.
    kernel : AbstractKernel
        On the data.
    in_double : bool
        All products in float64.
    by_definition : bool
        Scored by the direct engine alone.
    """

    tally: Tally
    kernel: AbstractKernel
    in_double: bool = False
    by_definition: bool = False
    base: int = 0

    def measure(self) -> None:
        """The first pass: scaling, and the statistic unless the kernel is linear."""
        tally = self.tally
        self.base = tally.n_features
        squares = 0.0 if self.kernel.is_additive else float(tally.m) ** 2
        tally.measure(float64=squares * tally.n_features, each=round(8 * squares))

    def begin(self) -> None:
        """An epoch: survivors are kept apart, their statistic is summed anew."""
        tally = self.tally
        self.base = tally.n_features
        tally.compact()
        self._sum(1.0, tally.n_features)

    def round(self, n_gone: int) -> None:
        """One round, before which `n_gone` features left."""
        tally = self.tally
        if self.kernel.is_additive:
            if tally.number == 1:
                self._score(1.0, 1.0, in_double=True)
            return
        if n_gone and tally.n_features * EPOCH <= self.base:
            self.begin()
        elif n_gone:
            self._take_away(n_gone)
        tally.prepare(DRIVING * tally.m**2)
        for share, products, in_double in self._steps():
            self._score(share, products, in_double=in_double)

    def _take_away(self, n_gone: int) -> None:
        """What left is read once more, from where it is kept."""
        tally, flops = self.tally, float(self.tally.m) ** 2 * n_gone
        share = n_gone / tally.n_features
        if n_gone > FEW:
            self._sum(share, n_gone)
            return
        tally.over("statistic", share, result_bytes=8 * tally.m * n_gone)  # the features themselves
        tally.prepare(float64=flops)

    def _sum(self, share: float, n: int) -> None:
        """The statistic of n features."""
        tally, square = self.tally, self.tally.m**2
        tally.over("statistic", share, sums=True, float64=float(square) * n, each=8 * square)

    def _steps(self) -> tuple[Step, ...]:
        exact = self.kernel.exact_order
        if self.by_definition or not has_series(self.kernel):
            return ((1.0, DIRECT_COST, False),)
        if self.tally.n_features <= FEW_FEATURES or self.in_double:
            return ((1.0, float(exact or AT_ONCE), True),)
        if exact is not None:
            return ((1.0, float(exact), False), (LEFT, float(exact), True))
        return SERIES

    def _score(self, share: float, products: float, *, in_double: bool) -> None:
        tally = self.tally
        n = max(1, round(share * tally.n_features))
        flops = form_flops(tally.m) * products * n
        if self.by_definition:  # of groups, each of which is a candidate
            flops *= tally.n / tally.n_features
        n_bases = 1 if self.kernel.exact_order is None else self.kernel.exact_order
        size = state_bytes(tally.m, n_bases, np.dtype("f8" if in_double else "f4").itemsize)
        if in_double:
            tally.over("score", share, float64=flops, state_bytes=size)
        else:
            tally.over("score", share, float32=flops, state_bytes=size)
