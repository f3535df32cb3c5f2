r"""Backward elimination by ridge regression: each feature is scored jointly with the others.

HSIC of the labels with the kernel ``Kbar = K (K + lambda I)^-1``, ``K = X X'`` (JMLR 6.6), is the
part of the labels that ridge regression on the features explains. It only needs inner products,
``G = X'X`` (n, n) and ``B = X'U`` (n, q) with ``L = U U'``:

    ``tr Kbar L = tr B' C B,   C = (G + lambda I)^-1``.

Without feature j it is smaller by ``|beta_j|^2 / C_jj``, ``beta = C B``; then C and beta are
updated by a matrix of rank one. So n features are removed one by one in about n^3 operations, for
any number of samples. A copy of a remaining feature explains little more: it only compensates for
the shrinkage by lambda, and very little if lambda is small. HSIC of single features would keep both
copies.

Lambda is `penalty` times the mean of the diagonal of K, as in `dhsic.kernels.Ridge`, so it
decreases with the number of features. Like sigma it is constant in a round, which removes a tenth
of the features. The penalty is computed by `ridge_penalty` from the fraction of the labels that all
features leave unexplained. With little noise, weak features that complement strong ones are useful.

Ridge regression is linear. Its order is used only if it does not predict the labels clearly worse.
For this, the leave-one-out errors (`left_out_errors`) of kernel ridge regression on the first
features of both orders are compared, with the more general Gaussian kernel. With ``M = K + p I``
the error at sample i is ``(M^-1 u)_i / (M^-1)_ii``, from one decomposition for all p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf, dpotri

from dhsic._typing import Float, Index
from dhsic.algorithms import removed
from dhsic.errors import InputError
from dhsic.namespace import slices

#: Fraction of the features that leave in a round, with the same lambda.
STEP = 0.1
#: Number of rows that are copied to columns at a time.
MIRRORED = 256
#: Maximum difference of losses, relative to the largest, at which they are equal; of equal ones the
#: first feature leaves first.
TIE = 1e-10
#: Bounds of lambda, relative to the mean of the diagonal of K.
LEAST_PENALTY, MOST_PENALTY = 0.1, 10.0
#: Number of features that leave between updates of C.
TOGETHER = 48
#: Candidate penalties of kernel ridge regression, relative to the mean of the diagonal of K.
PENALTIES = tuple(10.0 ** (power / 2) for power in range(-6, 5))
#: Numbers of first features for which orders are compared; at most half of all features.
COMPARED = (1, 2, 5, 10, 20, 50)
#: Number of standard errors by which the ridge order must be worse to be rejected.
CLEARLY = 2.0


def compared(n: int) -> list[int]:
    """Numbers of first features for which orders of n features are compared.

    >>> compared(30), compared(1)
    ([1, 2, 5, 10], [1])
    """
    return [k for k in COMPARED if 2 * k <= n] or [1]


def ridge_order(
    G: Float, B: Float, penalty: float, n_samples: int, codes: Index | None = None
) -> tuple[Index, Float]:
    """Order in which features are removed, least relevant first, and the loss of HSIC for each.

    Parameters
    ----------
    G : (n, n) float64
        Inner products of features.
    B : (n, q) float64
        Inner products of features and label directions U.
    penalty : float
        Lambda relative to the mean of the diagonal of K, which is ``tr G / n_samples``.
    codes : (n,) int, optional
        Group of each feature, from 0, if features are removed in groups. The order then contains
        groups.
    """
    if codes is not None:
        return _order_of_groups(G, B, penalty, n_samples, codes)
    remaining = np.arange(len(G))
    order, falls = [], []
    while remaining.size:
        inner = G[np.ix_(remaining, remaining)]
        penalised = penalty * float(np.trace(inner)) / n_samples
        leaving, lost = _leave(inner, B[remaining], penalised, removed(STEP, remaining.size))
        order.append(remaining[leaving])
        falls.append(lost)
        remaining = np.delete(remaining, leaving)
    return np.concatenate(order), np.concatenate(falls)


def _leave(G: Float, B: Float, penalty: float, n: int) -> tuple[Index, Float]:
    """Order of the first n features to remove, and the loss of HSIC for each.

    G and B are as in `ridge_order`, for the remaining features; `penalty` is lambda.
    """
    C = inverse(G, penalty)
    beta, diagonal = C @ B, np.diagonal(C).copy()
    changes = np.zeros((len(C), TOGETHER), order="F")  # its product is subtracted from C
    leaving, lost = np.empty(n, dtype=np.int64), np.empty(n)
    is_left = np.ones(len(C), dtype=bool)
    for k in range(n):
        if (p := k % TOGETHER) == 0 and k:
            C = dgemm(-1.0, changes, changes, 1.0, C, trans_b=1, overwrite_c=1)
        falls = np.einsum("ij,ij->i", beta, beta) / diagonal
        tie = TIE * float(falls[is_left].max())
        falls[~is_left] = np.inf
        j = leaving[k] = int((falls <= falls.min() + tie).argmax())
        lost[k], is_left[j] = falls[j], False
        column = (C[:, j] - changes[:, :p] @ changes[j, :p]) / np.sqrt(diagonal[j])
        beta -= np.outer(column, beta[j] / np.sqrt(diagonal[j]))
        changes[:, p] = column
        diagonal = np.where(is_left, diagonal - column * column, 1.0)
    return leaving, lost


def _order_of_groups(
    G: Float, B: Float, penalty: float, n_samples: int, codes: Index
) -> tuple[Index, Float]:
    """Order in which groups are removed, and the loss of HSIC for each, see `ridge_order`.

    Without the features J of a group, HSIC is smaller by ``tr beta_J' (C_JJ)^-1 beta_J``. The
    module docstring defines beta and C.
    """
    remaining = np.arange(len(G))
    order, falls = list[int](), list[float]()
    while remaining.size:
        inner = G[np.ix_(remaining, remaining)]
        C = inverse(inner.copy(), penalty * float(np.trace(inner)) / n_samples)
        beta = C @ B[remaining]
        for _ in range(removed(STEP, np.unique(codes[remaining]).size)):
            own = codes[remaining]
            groups = np.unique(own)
            losses = np.array([_loss(C, beta, np.flatnonzero(own == g)) for g in groups])
            i = int((losses <= losses.min() + TIE * losses.max()).argmax())
            leaves = own == groups[i]
            change = np.linalg.solve(C[np.ix_(leaves, leaves)], C[leaves][:, ~leaves])
            beta = beta[~leaves] - change.T @ beta[leaves]
            C = C[np.ix_(~leaves, ~leaves)] - C[~leaves][:, leaves] @ change
            order.append(int(groups[i]))
            falls.append(float(losses[i]))
            remaining = remaining[~leaves]
    return np.array(order, dtype=np.int64), np.array(falls)


def _loss(C: Float, beta: Float, J: Index) -> float:
    """Loss of HSIC without the features J (k,) of a group.

    The module docstring defines C and beta.
    """
    return float(np.vdot(beta[J], np.linalg.solve(C[np.ix_(J, J)], beta[J])))


def inverse(G: Float, penalty: float) -> Float:
    """Inverse ``(G + penalty I)^-1``, symmetric to the last bit; G is overwritten."""
    G[np.diag_indices_from(G)] += penalty
    factor, failed = dpotrf(G.T, lower=0, overwrite_a=1)
    if failed:
        raise InputError(
            "Inner products of the remaining features are not finite or not positive definite. "
            "Pass standardize=True, or rerank=False."
        )
    C, _ = dpotri(factor, lower=0, overwrite_c=1)
    for block in slices(len(C), MIRRORED):
        C[block, block] = np.triu(C[block, block]) + np.triu(C[block, block], 1).T
        C[block.stop :, block] = C[block, block.stop :].T
    return np.asarray(C)


def left_out_errors(X: Float, U: Float, scale: float = 1.0) -> Float:
    """Squared leave-one-out errors, (m,), with mean 1 if nothing is explained.

    The model is kernel ridge regression of the centred columns of U (m, q) on features X (m, k),
    with the kernel ``exp(-scale ||x - x'||^2 / (2 k))`` and the penalty that has the smallest
    errors. Constant labels, for example if a rare class is missing in these samples, count as
    unexplained.
    """
    m, size = len(X), float(np.square(U).sum())
    if size == 0.0:
        return np.ones(m)
    G = scale * (X @ X.T)
    norms = np.diagonal(G)
    K = np.exp(np.minimum(2.0 * G - norms[:, None] - norms, 0.0) / (2.0 * X.shape[1]))
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    values, Q = eigh(K, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0) / max(float(values.mean()), np.finfo(float).tiny)
    along, squares = Q.T @ U, Q * Q
    best = np.full(m, np.inf)
    for p in PENALTIES:
        shrunk = p / (values + p)
        complement = np.maximum(
            squares @ shrunk - 1.0 / m, np.finfo(float).eps
        )  # the mean is also fitted
        errors = np.square((Q @ (shrunk[:, None] * along)) / complement[:, None]).sum(axis=1)
        if errors.sum() < best.sum():
            best = errors
    return np.asarray(best * m / size)


def unexplained(X: Float, U: Float) -> float:
    """Fraction of the labels U (m, q) that features X (m, n) leave unexplained.

    It is the mean of `left_out_errors` with all features, which are scaled to mean square 1.
    """
    size = float(np.vdot(X, X))
    return float(left_out_errors(X, U, X.size / size if size else 1.0).mean())


def ridge_penalty(noise: float) -> float:
    """Penalty for `ridge_order` (lambda of JMLR 6.6), from the noise fraction of the labels.

    Ridge regression predicts best if lambda is proportional to the ratio of the noise variance to
    the signal variance. If noise is half of the variance or more, the penalty is the maximum.
    """
    return max(LEAST_PENALTY, MOST_PENALTY * noise / max(noise, 1.0 - noise))


@dataclass(frozen=True)
class Explained:
    """Explained fractions of the labels by the first features of two orders (leave-one-out).

    Attributes
    ----------
    alone, given_others : float
        Explained fraction with the order of Algorithm 1, and with the order of ridge regression,
        averaged over several numbers of first features. It is 1 if everything is explained, and
        below 0 if the mean of the labels predicts better.
    is_worse : bool
        Whether the order of ridge regression explains significantly less.
    """

    alone: float
    given_others: float
    is_worse: bool

    @staticmethod
    def of(
        X: Float, U: Float, alone: Index, given_others: Index, codes: Index | None = None
    ) -> Explained:
        """Compare two orders of the columns of X (m, n), with the most relevant features first.

        With `codes` (n,) they are orders of groups of columns, and a group counts as one feature.
        """
        n = len(alone)
        error_pairs = []
        for k in compared(n):
            first, other = np.sort(alone[:k]), np.sort(given_others[:k])
            is_same = np.array_equal(first, other)
            if codes is not None:
                first, other = (np.flatnonzero(np.isin(codes, some)) for some in (first, other))
            errors = left_out_errors(X[:, first], U, first.size / k)
            errors_of_other = errors
            if not is_same:
                errors_of_other = left_out_errors(X[:, other], U, other.size / k)
            error_pairs.append((errors, errors_of_other))
        before, after = np.mean(error_pairs, axis=0)
        worse = after - before
        error = float(worse.std()) / np.sqrt(len(worse))
        return Explained(
            1.0 - float(before.mean()),
            1.0 - float(after.mean()),
            bool(float(worse.mean()) > CLEARLY * error),
        )
