"""What rounds of forward selection cost, from sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.kernels.base import AbstractKernel
from dhsic.plans.exact import DRIVING, form_flops, state_bytes
from dhsic.plans.tally import Tally
from dhsic.plans.thin import DRIVING_THIN, MOST_DIRECTIONS, RANK
from dhsic.scoring.chosen import FEW, LANDMARKS

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
            tally.over("statistic", share, sums=n_joined > FEW, float64=flops)
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
