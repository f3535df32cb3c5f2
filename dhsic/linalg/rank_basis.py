r"""Orthonormal functions of ranks, and Gaussian kernels on ranks as weights of these functions.

The values of a feature without ties are a permutation of the ranks 1..m, for any distribution. On
the points ``u = (r - 1/2) / m``, all Gaussian kernels that are reflected at 0 and 1 have the same
eigenfunctions, for any standard deviation h (in units of the range of ranks):

    ``phi_r(u) = sqrt(2) cos(pi r u)``  with eigenvalues  ``exp(-(pi r h)^2 / 2)``,

because each kernel is the heat kernel on [0, 1] at time ``h^2 / 2``. One matrix of functions is
therefore sufficient for all features and all widths; a width only changes the weights of the
functions (`width_weights`).

The first function is replaced by the normal score ``Phi^-1(u)``, and the others are made orthogonal
to it. The normal score is close to ``cos(pi u)`` (correlation 0.95), and a test with it alone is as
powerful as the F test on normal data (Chernoff and Savage, 1958).

For tied samples, functions are averaged over the tied ranks. For missing samples they are 0, which
is their mean.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from dhsic._typing import Array, Float, Index
from dhsic.validation import ROUNDING

#: Maximum number of functions, which resolve oscillations down to 1/24 of the range of ranks.
N_FUNCTIONS = 24
#: Widths h of the kernels, as fractions of the range of ranks: from nearly linear to very narrow.
WIDTHS = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)


@lru_cache(64)
def rank_basis(m: int, n_functions: int = N_FUNCTIONS) -> Float:
    """Return orthogonal functions of the ranks 1..m, (R, m), with mean 0 and mean square 1.

    R is `n_functions`, but at most half the number of ranks. The array is cached and read-only.
    """
    u = (np.arange(m) + 0.5) / m
    R = max(1, min(n_functions, m // 2))
    rows = np.empty((R, m))
    rows[0] = ndtri(u)
    for r in range(1, R):
        rows[r] = np.cos(np.pi * (r + 1) * u)
    for r in range(R):  # Gram-Schmidt, repeated against rounding errors
        for _ in range(2):
            rows[r] -= rows[r].mean()
            rows[r] -= (rows[r] @ rows[:r].T / m) @ rows[:r]
        rows[r] /= np.sqrt(np.mean(rows[r] ** 2))
    rows.flags.writeable = False
    return rows


def width_weights(h: float, n_functions: int) -> Float:
    """Return the weights of the functions for a Gaussian kernel of width h, (R,).

    The weights are relative to the first weight, which is 1.
    """
    r = np.arange(1, n_functions + 1)
    return np.asarray(np.exp(-((np.pi * h) ** 2) * (r * r - 1.0) / 2.0))


def distance_weights(h: float, n_functions: int) -> Float:
    """Return the weights of the functions for a Gaussian kernel on distances from the middle rank.

    Distances are ``|2 u - 1|``, and h is a fraction of their range. The kernel is reflected at 0
    and 1, so its eigenfunctions are the cosines with even r. The weights (R,) are 0 for odd r, and
    relative to the weight for r = 2, which is 1.
    """
    r = np.arange(1, n_functions + 1)
    return np.where(r % 2, 0.0, np.exp(-((np.pi * h) ** 2) * (r * r / 4.0 - 1.0) / 2.0))


def rank_functions(x: Array, n_functions: int = N_FUNCTIONS, missing: Array | None = None) -> Float:
    """Evaluate the functions of ranks at the samples of one feature x (m,): (R, m).

    Parameters
    ----------
    x : (m,)
        Values; equal values are tied.
    n_functions : int
        Number of functions R. It is limited to half the number of samples with a value.
    missing : (m,) bool, optional
        Samples without a value. All functions are 0 there.
    """
    present: Index = np.arange(x.size) if missing is None else np.flatnonzero(~missing)
    order = present[np.argsort(x[present], kind="stable")]
    basis = rank_basis(present.size, n_functions)
    starts = np.flatnonzero(np.append(True, np.diff(x[order]) != 0))
    sizes = np.diff(np.append(starts, order.size))
    out = np.zeros((len(basis), x.size))
    out[:, order] = np.repeat(np.add.reduceat(basis, starts, axis=1) / sizes, sizes, axis=1)
    return out


def dense_ranks(values: Float) -> Float:
    """Rank values (n,) from 0 without gaps; values that differ only by rounding are tied.

    >>> dense_ranks(np.array([1e300, 0.3, 0.1 * 3, -2.0])).tolist()
    [2.0, 1.0, 1.0, 0.0]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    with np.errstate(over="ignore"):
        gaps = np.diff(ordered)
    rounding = ROUNDING * np.spacing(np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1])))
    are_whole = (ordered[1:] % 1 == 0) & (ordered[:-1] % 1 == 0)
    ranks = np.empty(values.size)
    ranks[order] = np.append(0, np.cumsum((gaps > rounding) | (are_whole & (gaps > 0))))
    return ranks


def level_functions(counts: Float, values: Float, n_functions: int) -> Float:
    """Compute R = `n_functions` orthonormal functions on the q levels of c features, (c, R, q).

    The first function is the value. If R is 2, the second is the square of the value, made
    orthogonal to the value. `counts` and `values` (c, q) are the numbers of samples and the values
    of the levels.
    """
    n = counts.sum(axis=1, keepdims=True)
    first = values - np.vecdot(counts, values)[:, None] / n
    size = np.sqrt(np.vecdot(counts, first * first)[:, None] / n)
    first = np.divide(first, size, out=np.zeros_like(first), where=size > 0)
    if n_functions == 1:
        return np.asarray(first[:, None])
    second = np.square(first)
    second -= np.vecdot(counts, second)[:, None] / n
    second -= first * np.vecdot(counts, second * first)[:, None] / n
    size = np.sqrt(np.vecdot(counts, second * second)[:, None] / n)
    second = np.divide(second, size, out=np.zeros_like(second), where=size > 0)
    return np.stack([first, second], axis=1)
