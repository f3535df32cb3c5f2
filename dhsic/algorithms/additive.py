r"""Additive models of functions of ranks: the fraction of labels that a set of features explains.

The Gaussian kernel on features (`dhsic.algorithms.ridge.left_out_errors`) fits smooth functions of
few features. An additive model fits functions with more turning points, for more features. It uses
the leading functions of the ranks of each feature (`dhsic.linalg.rank_basis`). Their weights belong
to a kernel with one width for all features, or with a separate width for each feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.algorithms.ridge import CLEARLY, COMPARED, PENALTIES, left_out_errors
from dhsic.linalg.rank_basis import rank_functions, width_weights

#: Maximum number of functions per feature.
N_FUNCTIONS = 16
#: Minimum weight of a function in a group, relative to the first.
LEAST_WEIGHT = 0.1
#: Widths of the additive kernels with which orders of features are compared, as fractions of the
#: range of ranks, and minimum weight of a function.
WIDTHS, LEAST = (1 / 8, 1 / 16), 0.01


def leading_functions(x: Float, width: float, missing: Mask | None = None) -> Float:
    """Leading functions of the ranks of one feature, and its values, (r, m).

    Parameters
    ----------
    x : (m,)
        Centred values; missing values are 0.
    width : float
        Width of the kernel, as a fraction of the range of ranks.
    missing : (m,) bool, optional
        Mask of missing values.
    """
    n = int((width_weights(width, N_FUNCTIONS) >= LEAST_WEIGHT).sum())
    return np.vstack([x, rank_functions(x, n, missing)])


def extended_basis(Q: Float, functions: Float) -> Float:
    """Extend an orthonormal basis Q (m, p) by functions (r, m), in float64.

    The result has at most p + r columns. The columns of Q must be orthonormal.
    """
    F = np.ascontiguousarray(functions.T)
    sizes = np.linalg.norm(F, axis=0)
    for _ in range(2):
        F = F - Q @ (Q.T @ F)
    U, s, _ = np.linalg.svd(F, full_matrices=False)
    return np.concatenate([Q, U[:, s > 1e-6 * max(float(sizes.max()), 1e-300)]], axis=1)


@dataclass(frozen=True)
class RankedFeature:
    """Values of a feature, (m,), with a mask of missing values and a kernel width.

    Missing values are 0.
    """

    x: Float
    missing: Mask | None
    width: float

    def weighted_functions(self, width: float) -> Float:
        """Functions of ranks (r, m), with the weights for a kernel width, which sum to 1."""
        weights = width_weights(width, N_FUNCTIONS)
        F = rank_functions(self.x, int((weights >= LEAST).sum()), self.missing)
        weights = weights[: len(F)]
        return np.asarray(F * np.sqrt(weights / weights.sum())[:, None])


def additive_errors(features: Sequence[RankedFeature], U: Float, width: float | None) -> Float:
    """Squared leave-one-out errors of an additive model, (m,).

    They are scaled as in `left_out_errors`. The model is ridge regression of the centred columns of
    U (m, q) on weighted functions of the features, with the penalty that has the smallest errors.
    If `width` is None, each feature has its own kernel width.
    """
    m, size = len(U), float(np.square(U).sum())
    if size == 0.0:
        return np.ones(m)
    Z = np.concatenate([each.weighted_functions(width or each.width) for each in features])
    Z -= Z.mean(axis=1, keepdims=True)
    K = Z.T @ Z if len(Z) > m else Z @ Z.T
    values, V = np.linalg.eigh(K)
    positive = values > 1e-10 * max(float(values[-1]), 1e-300)
    values, V = values[positive], V[:, positive]
    Q = V if len(Z) > m else (Z.T @ V) / np.sqrt(values)
    values = values / (values.sum() / m)  # the mean of the diagonal is 1
    along, squares = Q.T @ U, Q * Q
    best = np.full(m, np.inf)
    for p in PENALTIES:
        kept_part = values / (values + p)
        complement = np.maximum(1.0 - squares @ kept_part - 1.0 / m, np.finfo(float).eps)
        residual = U - Q @ (kept_part[:, None] * along)
        errors = np.square(residual / complement[:, None]).sum(axis=1)
        if errors.sum() < best.sum():
            best = errors
    return np.asarray(best * m / size)


@dataclass(frozen=True)
class OrderErrors:
    """Leave-one-out errors of models with the first features of an order, (m,).

    An error of 1 means that nothing is explained. Errors are averaged over several numbers of first
    features. For each number, the best of these kernels is used: Gaussian; additive, with one width
    for all features; additive, with a separate width for each feature.
    """

    errors: Float

    @staticmethod
    def of(
        values: dict[int, RankedFeature],
        order: Sequence[int] | Index,
        U: Float,
        known: dict[tuple[int, ...], Float],
    ) -> OrderErrors:
        """Compute errors of an order, the most relevant feature first.

        Parameters
        ----------
        values : mapping of int to RankedFeature
            Values of each feature.
        order : sequence of int
            Features in this order.
        U : (m, q)
            Labels, with mean 0.
        known : dict
            Errors of sets of features that were computed before; new ones are added, to be used for
            other orders.
        """
        n, errors_by_size = len(order), []
        for k in [k for k in COMPARED if 2 * k <= n] or [1]:
            key = tuple(sorted(int(j) for j in order[:k]))
            if key not in known:
                known[key] = _errors_of([values[j] for j in key], U)
            errors_by_size.append(known[key])
        return OrderErrors(np.mean(errors_by_size, axis=0))

    @property
    def explained(self) -> float:
        """Fraction of the labels that the first features explain."""
        return 1.0 - float(self.errors.mean())

    def excess(self, other: OrderErrors) -> float:
        """Mean difference from the errors of another order, in standard errors."""
        worse = self.errors - other.errors
        error = float(worse.std()) / np.sqrt(len(worse))
        return float(worse.mean()) / error if error > 0 else 0.0

    def is_clearly_worse(self, other: OrderErrors) -> bool:
        """Whether errors are significantly larger than the errors of another order."""
        return self.excess(other) > CLEARLY


def _errors_of(features: Sequence[RankedFeature], U: Float) -> Float:
    """Leave-one-out errors of a set of features with the best kernel, (m,)."""
    each = [left_out_errors(np.stack([feature.x for feature in features]).T, U)]
    each += [additive_errors(features, U, width) for width in (*WIDTHS, None)]
    return min(each, key=lambda errors: float(errors.sum()))
