"""What the objectives ask of the data: two kinds of passes over its features.

A weighted feature is ``w_j x_j``. Sums over features go one way, from weights to something of the
size of the samples; derivatives come back the other way, a number a feature. Features of weight 0
take no part in sums.
"""

from __future__ import annotations

from typing import Protocol

from dhsic._typing import Float, Mask
from dhsic.kernels.statistic import Statistic


class WeightedData(Protocol):
    """m samples of n features, x_j (m,) being feature j as scaled."""

    @property
    def n_samples(self) -> int:
        """Number of samples m."""

    def settle(self, w: Float) -> None:
        """Features of weight 0 are asked for no more, but by `spreads` of all of them."""

    def statistic(self, w: Float) -> Statistic:
        """``G_w = sum_j w_j^2 x_j x_j'``."""

    def spreads(self, A: Float, which: Mask) -> Float:
        """``sum_ii' A_ii' (x_ij - x_i'j)^2`` of the features `which`, 0 of others, (n,).

        A is (m, m), symmetric.
        """

    def projections(self, w: Float, n_directions: int) -> Float:
        """``sum_j w_j omega_kj x_j`` for random directions omega, (n_directions, m)."""

    def pulls(self, B: Float) -> Float:
        """``sum_k omega_kj <B_k, x_j>`` for the same directions, (n,); B is (n_directions, m)."""
