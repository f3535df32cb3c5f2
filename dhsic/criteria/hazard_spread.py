r"""Spread of HSIC for censored times, if a feature depends on the time at risk.

The log-rank score of a sample has a variance proportional to ``h_i``, its expected number of events
while at risk (`dhsic.kernels.risk_variance`), with mean 1 over samples. If samples with large h
have similar values of a feature, products with two functions phi_r and phi_q of the feature are
correlated, and HSIC varies more than under permutations. The covariance of the products is
proportional to

    ``H_rq = sum_i h_i phi_r phi_q / m = delta_rq + (c_(r+q) + c_|r-q|) / 2^(1/2)``,
    ``c_k = sum_i (h_i - 1) phi_k(i) / m``,  ``c_0 = 0``,

because products of cosines are sums of cosines. The variance of ``sum_r lambda_r Z_r^2`` is
proportional to ``sum_rq lambda_r lambda_q H_rq^2``, and its ratio to ``sum_r lambda_r^2`` is the
*spread ratio* of the feature. Its mean over permutations is subtracted, because the moments already
contain it. The ratio is at least 1. `H_11` is 1, because the first product is divided by its own
standard deviation.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float


def spread_ratios(c: Float, noise: float, weights: Float) -> Float:
    """Ratios of the variance of HSIC to its variance under permutations, (n, features).

    Parameters
    ----------
    c : (features, R)
        Means over samples of the products of R functions with ``h - 1``.
    noise : float
        Variance of `c` under permutations.
    weights : (n, R)
        Weights lambda of the functions at n widths.
    """
    R = weights.shape[1]
    linear = _sums_of_numbers(R)
    ratios = np.empty((len(weights), len(c)))
    for w, row in enumerate(weights):
        form = linear.T @ (np.outer(row, row).ravel()[:, None] * linear)
        own = 2.0 * np.square(row) @ linear[:: R + 1]
        excess = np.vecdot((c[:, None] @ form)[:, 0], c) - noise * np.trace(form)
        ratios[w] = 1.0 + (excess + np.vecdot(c, own)) / np.square(row).sum()
    return np.maximum(ratios, 1.0)


def _sums_of_numbers(R: int) -> Float:
    """Coefficients of c_1 to c_R in ``H_rq - delta_rq`` for all pairs of functions, (R R, R)."""
    numbers = np.arange(1, R + 1)
    sums, differences = np.add.outer(numbers, numbers), np.subtract.outer(numbers, numbers)
    is_sum = sums[..., None] == numbers
    is_difference = np.abs(differences)[..., None] == numbers
    linear = (is_sum + 1.0 * is_difference) / np.sqrt(2.0)
    linear[0, 0] = 0.0
    return np.asarray(linear.reshape(R * R, R))
