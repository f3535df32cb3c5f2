r"""Sums over the matrix of a Gaussian kernel on one feature, in linear time.

``<L, K>`` with a low-rank ``L = B diag(w) B'`` only needs ``B' K B``. K is of low rank too, unless
it is steep. With a few points of the feature's range as *nodes*, ``K = P K_nodes P'``, so the sum
takes time linear in the number of samples. The result is exact for features with few values, and
has an error of at most 1e-13 of the kernel's largest value for others. For steep kernels the
definition is used, tile by tile over one triangle, so that memory stays small.

The nodes of a feature with q levels are the levels, and P maps samples to them, which is exact. Any
other feature has Chebyshev nodes over its range ``[-R, R]``, and P interpolates between them, in
both arguments. The Gaussian is entire, so the error decreases faster than any power. On the ellipse
with foci -R and R whose semi-axes add up to ``rho R``, the kernel is at most ``M = exp(sigma R^2
(rho - 1/rho)^2 / 4)``, and the error of interpolation at r nodes is at most ``4 M rho^(1-r) / (rho
- 1)`` (Trefethen, Approximation Theory and Approximation Practice, theorem 8.2), for every rho > 1.
In two arguments the error is at most ``1 + Lebesgue`` times as large. Standardised data need about
40 nodes for 1e-13.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.features import Features, Levels
from dhsic.criteria.present import PresentWeights

#: Maximum error of an entry of K; entries are at most 1.
TOLERANCE = 1e-13
#: Maximum number of nodes; steeper kernels use the definition.
MOST_NODES = 256
#: Maximum ``sigma R^2`` for nodes; above it there would be too many.
STEEPEST = 1e4
#: Candidate values of rho in the bound.
_RHO = 1 + np.geomspace(0.05, 30, 60)
#: Side of a tile of the definition.
SIDE = 256
#: Number of samples interpolated at a time, so that they stay in the cache.
ROWS = 2048
#: Minimum ratio of samples to nodes for which nodes are used.
WORTH = 4


@lru_cache(maxsize=1024)
def n_nodes(steepness: int) -> int:
    """Number of Chebyshev nodes for a kernel of given steepness.

    The steepness is the maximum of ``sigma R^2``. The result is 0 if too many nodes would be
    needed.
    """
    growth = steepness * (_RHO - 1 / _RHO) ** 2 / 4
    for r in range(2, MOST_NODES + 1):
        lebesgue = 1 + 2 / np.pi * np.log(r)
        bound = np.log(4 * (1 + lebesgue)) + growth + (1 - r) * np.log(_RHO) - np.log(_RHO - 1)
        if bound.min() <= np.log(TOLERANCE):
            return r
    return 0


def chebyshev_nodes(radius: float, r: int) -> Float:
    """Chebyshev points of the second kind on ``[-radius, radius]``, (r,)."""
    return radius * np.sin(np.pi * (np.arange(r) - (r - 1) / 2) / (r - 1))


def interpolation(x: Float, radius: float, r: int) -> Float:
    """Interpolation matrix P (m, r) from r nodes to the values x (m,); barycentric formula.

    If a value is equal to a node, its row of P selects this node.
    """
    P = x[:, None] - chebyshev_nodes(radius, r)
    with np.errstate(divide="ignore", over="ignore"):
        np.divide(_weights(r), P, out=P)
    sums = P.sum(axis=1, keepdims=True)
    at_node = np.flatnonzero(np.isinf(sums))
    P[at_node] = np.isinf(P[at_node])
    sums[at_node] = 1.0
    P /= sums
    return P


@lru_cache(maxsize=256)
def _weights(r: int) -> Float:
    """Barycentric weights of r Chebyshev nodes for interpolation, up to a common factor."""
    signs = np.where(np.arange(r) % 2, -1.0, 1.0)
    signs[[0, -1]] /= 2
    return signs


def gaussian(points: Float, sigma: Any) -> Float:
    """Gaussian kernel between points (..., q) on a line: (..., q, q); sigma is scalar or (...)."""
    D = points[..., :, None] - points[..., None, :]
    D *= D
    D *= -np.asarray(sigma)[..., None, None]
    return np.exp(D, out=D)


def kernel_sums(
    features: Features,
    sigma: Float,
    place: slice,
    w: Float,
    present: PresentWeights | None = None,
    *,
    squares: bool = False,
) -> tuple[Float, Float]:
    """Sums ``<L, K>`` and ``|K|^2`` of every feature, (c,) each.

    K is ``exp(-sigma (x - x')^2)``. L is ``B diag(w) B'``, where B (m, g) are the directions in the
    columns `place`. ``|K|^2``, the sum of squared entries, is valid only if `squares`. If weights
    `present` are given, samples with a missing value are excluded, and the others are weighted.
    """
    inner, norms = np.empty(len(features.X)), np.empty(len(features.X))
    for level_group in features.levels:
        inner[level_group.which], norms[level_group.which] = _by_levels(
            level_group, sigma[level_group.which], place, w, present
        )
    many = np.flatnonzero(features.n_levels == 0)
    B = features.directions.of_run(place) if many.size else np.empty((0, 0))
    for j in many:
        x, F, weights = features.X[j], B, None
        if present is not None and features.missing is not None and features.missing[j].any():
            has_value = ~features.missing[j]
            x, (F, weights) = x[has_value], present.of_samples(B, has_value)
        inner[j], norms[j] = _of_feature(x, float(sigma[j]), F, w, weights, squares=squares)
    return inner, norms


def _by_levels(
    some: Levels, sigma: Float, place: slice, w: Float, present: PresentWeights | None
) -> tuple[Float, Float]:
    """Compute `kernel_sums` of features with few distinct values (levels), from sums over levels.

    The sums are ``sum_kl K_kl (U diag(w) U')_kl``, where U are the sums of the label directions
    over each level, and ``sum_kl K_kl^2 m_k m_l``, where m are the counts. K is the kernel between
    levels.
    """
    K, U, counts = gaussian(some.values.T, sigma), some.along[..., place], some.counts
    if present is not None:
        U, counts = present.of_levels(U, counts)
    inner = ((K @ (U * w)) * U).sum(axis=(1, 2))
    squares = np.vecdot((K * K @ counts[:, :, None])[:, :, 0], counts)
    return inner, squares


def _of_feature(
    x: Float, sigma: float, B: Float, w: Float, weights: Float | None, *, squares: bool
) -> tuple[float, float]:
    """Compute ``<L, K>`` and ``|K|^2`` of one feature x (n,) with kernel matrix K.

    The label matrix L is ``B diag(w) B'`` with B (n, g). B already contains the sample weights;
    `weights` (n,) are used only for ``|K|^2``, which is valid only if `squares`.
    """
    radius = float(np.abs(x).max())
    steepness = sigma * radius * radius
    r = n_nodes(int(steepness) + 1) if steepness < STEEPEST else 0
    if r == 0 or WORTH * r > len(x):
        return _by_definition(x, sigma, B, w, weights)
    return _by_nodes(x, radius, r, sigma, B, w, weights, squares=squares)


def _by_nodes(
    x: Float,
    radius: float,
    r: int,
    sigma: float,
    B: Float,
    w: Float,
    weights: Float | None,
    *,
    squares: bool,
) -> tuple[float, float]:
    """Compute ``<L, K>`` and ``|K|^2`` of one feature, from r nodes on ``[-radius, radius]``.

    K is the kernel matrix of the feature x, and the label matrix L is ``B diag(w) B'``. P
    interpolates from the nodes to x. The sums are ``<K_nodes, U diag(w) U'>`` with ``U = P' B``,
    and ``tr (K_nodes P' P)^2``.
    """
    U, S = np.zeros((r, B.shape[1])), np.zeros((r, r))
    for a in range(0, len(x), ROWS):
        P = interpolation(x[a : a + ROWS], radius, r)
        U += P.T @ B[a : a + ROWS]
        if squares:
            S += P.T @ (P if weights is None else P * weights[a : a + ROWS, None])
    K = gaussian(chebyshev_nodes(radius, r), sigma)
    KS = K @ S
    return float(np.vdot(K @ (U * w), U)), float(np.vdot(KS, KS.T))


def _by_definition(
    x: Float, sigma: float, B: Float, w: Float, weights: Float | None
) -> tuple[float, float]:
    """Compute ``<L, K>`` and ``|K|^2`` of one feature from all pairs of samples, tile by tile.

    K is the kernel matrix of the feature x, and the label matrix L is ``B diag(w) B'``.
    """
    inner = squares = 0.0
    weighted = B * w
    for a in range(0, len(x), SIDE):
        rows = slice(a, a + SIDE)
        for b in range(0, a + 1, SIDE):
            columns = slice(b, b + SIDE)
            K = np.subtract.outer(x[rows], x[columns])
            K *= K
            K *= -sigma
            np.exp(K, out=K)
            times = 1 if a == b else 2
            inner += times * float(np.vdot(K @ weighted[columns], B[rows]))
            if weights is not None:
                K *= np.sqrt(np.outer(weights[rows], weights[columns]))
            squares += times * float(np.vdot(K, K))
    return inner, squares
