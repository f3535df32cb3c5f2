r"""Features with few distinct values (genotypes, one-hot, counts): exact gains without a series.

The q levels (distinct values) of a feature divide the samples, with indicators ``1_0, ...,
1_(q-1)`` that sum to one. If the kernel is a product over features, removing feature j multiplies
``K_ii'`` by ``1 + F_kl``, with k and l the levels of the two samples, so the gain is

    ``sum_kl F_kl N_kl``  with  ``N_kl = 1_k' A 1_l``  and  ``A = W o K``.

The product for level 0 follows from the others, ``A 1_0 = A 1 - sum_l A 1_l``. So q - 1 products
with one triangle are needed, and the result is exact for any sigma. For steep kernels, K and F
range over many orders of magnitude, and this difference is lost in rounding. Then level 0 has its
own product. If A is of low rank, only sums of its directions over levels are needed, which are
computed from the stored genotype codes.

Kernels without a series (`dhsic.kernels.levels`) are scored in the same way: with ``A = W o base``
the gain of a feature is ``<A, F> + constant 1' A 1``. If a feature has many values, F is evaluated
for every pair of samples. If F overflows, the definition is used.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.engines import one_by_one
from dhsic.engines.scoring_problem import RoundState
from dhsic.namespace import cast, first_of, host, namespace_of, take, write, zeros

#: Largest F for which differences of sums are accurate.
STEEP = 100.0
#: Number of indicators at a time, so that memory does not grow with the number of levels.
INDICATORS = 768


def level_gains(
    state: RoundState, X: Array, n_levels: Array, sigma: float, dtype: Any = "float64"
) -> Float:
    """Compute the gains of features X (c, m) with few distinct values (levels), (c,) float64.

    The gain of a feature is the change of HSIC without it. `n_levels` (c,) are the numbers of
    levels of the features, at least 2. To score features that are added, pass minus sigma as
    `sigma`. Matrix products are in `dtype`.
    """
    gains = np.empty(X.shape[0])
    for q in np.unique(n_levels):
        same = np.flatnonzero(n_levels == q)
        rows = max(1, INDICATORS // int(q))
        for a in range(0, same.size, rows):
            which = same[a : a + rows]
            gains[which] = _gains(state, take(X, which), int(q), sigma, dtype)
    return state.scale * gains


def level_products(n_levels: Array) -> int:
    """Number of columns of matrix products for features with given numbers of distinct values."""
    return int((n_levels.astype(np.int64) - 1).sum())


def _gains(state: RoundState, X: Array, q: int, sigma: float, dtype: Any) -> Float:
    """Compute the gains of features X (c, m) with q distinct values each, in NumPy.

    The gain of a feature is the change of HSIC without it, here divided by the scale of the state.
    """
    xp = namespace_of(X)
    levels, indicators = level_indicators(X, q)  # (q, c), (q, c, m)
    squared_distances = xp.square(levels[:, None, :] - levels[None, :, :])
    F = state.kernel.factor(squared_distances, sigma)  # (q, q, c)
    mild = host(xp.max(F, axis=(0, 1)) <= STEEP)
    if mild.all():  # the common case, without a copy
        return _by_row_sums(state, indicators, F, dtype)
    gains = np.empty(X.shape[0])
    gains[mild] = _by_row_sums(state, take(indicators, mild, 1), take(F, mild, 2), dtype)
    N = state.A[0].pairs(cast(take(indicators, ~mild, 1), dtype))  # (q, q, c)
    gains[~mild] = host(xp.sum(take(F, ~mild, 2) * N, axis=(0, 1)))
    return gains


def _by_row_sums(state: RoundState, indicators: Float, F: Float, dtype: Any) -> Float:
    """Compute the scores ``sum_kl F_kl N_kl`` (see the module docstring) of c features, (c,).

    Each feature has q distinct values (levels). `indicators` (q, c, m) are the indicators of the
    levels, F is (q, q, c). Terms of level 0 are computed from the row sums of A, the label weights
    times the kernel matrix.
    """
    xp = namespace_of(indicators)
    upper_indicators = indicators[1:, ...]
    N = state.A[0].pairs(cast(upper_indicators, dtype))  # (q - 1, q - 1, c)
    N_0 = xp.vecdot(upper_indicators, state.row_sums[0]) - xp.sum(N, axis=0)  # (q - 1, c)
    gains = 2 * xp.sum(F[0, 1:, :] * N_0, axis=0) + xp.sum(F[1:, 1:, :] * N, axis=(0, 1))
    return host(gains)


def level_indicators(X: Array, q: int) -> tuple[Float, Float]:
    """Levels of features X (c, m) in order of occurrence, (q, c), and indicators, (q, c, m).

    An indicator is 1 if the sample has this level, else 0.
    """
    xp = namespace_of(X)
    c, m = X.shape
    levels, indicators = zeros((q, c), like=X), zeros((q, c, m), like=X)
    open_ = xp.ones((c, m), dtype=xp.bool, device=X.device)
    everyone = xp.arange(c, device=X.device)
    for level in range(q):
        levels[level, :] = X[everyone, first_of(open_)]
        here = levels[level, :][:, None] == X
        open_ &= ~here
        write(indicators[level, ...], here)
    return levels, indicators


def pair_gains(state: RoundState, X: Array) -> Float:
    """Sum ``<A, F>`` over all pairs of samples, for features X (c, m): (c,).

    A are label weights times a base matrix, and F is a function of the two values of the feature
    (see the module docstring). A is stored in triangular panels.
    """

    def gain(x: Float) -> Float:
        xp, total = namespace_of(x), zeros((), like=x)
        for a, b, panel in state.A[0].columns():
            differences = x[a:][:, None] - x[a:b][None, :]
            F = state.kernel.factor(differences * differences, state.sigma)
            total += xp.vecdot(xp.reshape(panel, (-1,)), xp.reshape(F, (-1,)))
        return total

    return 2.0 * state.scale * one_by_one(X, gain)


def gains_from_sums(U: Float, counts: Float, values: Float, state: RoundState) -> Float:
    r"""Gains of features with few levels, (c,), for a low-rank A, from sums over each level.

    The gain of a feature j is the change of HSIC without it; levels are its distinct values; A are
    label weights times the kernel matrix K. With ``T_lk = K(S \ j) / K(S) - 1`` between levels l
    and k, 0 within a level, the gain is ``sum_lk T_lk 1_l' A 1_k``: exact in the feature, and
    independent of the diagonal of A. U (q, c, R + 1) has the sums ``1_l' Y'`` of the R directions Y
    of A; its last column is ``1_l' r``, where r are the row sums of A minus the row sums of its
    low-rank form. `counts` and `values` (q, c) are the numbers of samples and the values of the
    levels.
    """
    kernel, sigma, theta = state.kernel, state.sigma, state.A[0].theta
    gains = 2 * np.sum(kernel.factor(np.square(values), sigma) * U[..., -1], axis=0)
    for low, high in combinations(range(len(U)), 2):
        both = np.flatnonzero((counts[low] > 0) & (counts[high] > 0))
        if both.size:
            T = kernel.factor(np.square(values[low, both] - values[high, both]), sigma)
            gains[both] += 2 * T * ((U[low, both, :-1] * U[high, both, :-1]) @ theta)
    return np.asarray(gains * state.scale)
