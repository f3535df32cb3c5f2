r"""Backward elimination by ridge regression: each feature is judged given the others.

HSIC of the labels with the kernel ``Kbar = K (K + lambda I)^-1``, ``K = X X'`` (JMLR 6.6), is by
how much ridge regression on the features explains them. From inner products alone, ``G = X'X``
(n, n) and ``B = X'U`` (n, q) with ``L = U U'``,

    ``tr Kbar L = tr B' C B,   C = (G + lambda I)^-1``,

and without feature j it is less by ``|beta_j|^2 / C_jj``, ``beta = C B``, of which C and beta
follow by an update of rank one. So n features leave one by one in some n^3 operations, whatever
the number of samples. A copy of a feature that is left explains little more (it shares what lambda
takes away: the less, the smaller lambda is), where HSIC of all of them would keep both.

Lambda is `penalty` times the mean of the diagonal of K, as of `dhsic.kernels.Ridge`: it falls with
the number of features. As sigma it stays as it is for a round, here a tenth of the features. The
penalty is `ridge_penalty` of what all features leave unexplained: where little is noise, weak
features that mend what strong ones miss are worth having.

Ridge regression sees straight lines. Whether it may judge is asked of the labels themselves:
`left_out_errors` of kernel ridge regression on the first features of either order, by the Gaussian
kernel that sees more, one sample left out after the other. With ``M = K + p I`` the error at sample
i is ``(M^-1 u)_i / (M^-1)_ii``, from one decomposition for all p.
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

#: Part of the features that leave under one lambda.
STEP = 0.1
#: Rows that are copied to columns at once.
MIRRORED = 256
#: Falls that differ by less, over the largest, are equal: of equal ones the first leaves first.
TIE = 1e-10
#: Lambda over the mean of the diagonal of K: its bounds.
LEAST_PENALTY, MOST_PENALTY = 0.1, 10.0
#: Features that leave before C is brought up to date at once.
TOGETHER = 48
#: Penalties of kernel ridge regression that are tried, over the mean of the diagonal of K.
PENALTIES = tuple(10.0 ** (power / 2) for power in range(-6, 5))
#: Numbers of first features by which two orders are compared: half of them all at most.
COMPARED = (1, 2, 5, 10, 20, 50)
#: Standard errors by which the order of ridge regression has to be worse to be passed over.
CLEARLY = 2.0


def ridge_order(G: Float, B: Float, penalty: float, n_samples: int) -> tuple[Index, Float]:
    """Order in which features leave, the least relevant first, and by how much HSIC fell with each.

    Parameters
    ----------
    G : (n, n) float64
        Inner products of features.
    B : (n, q) float64
        The same of features and of U.
    penalty : float
        Lambda over the mean of the diagonal of K, which is ``tr G / n_samples``.
    """
    left = np.arange(len(G))
    order, falls = [], []
    while left.size:
        inner = G[np.ix_(left, left)]
        penalised = penalty * float(np.trace(inner)) / n_samples
        leaving, lost = _leave(inner, B[left], penalised, removed(STEP, left.size))
        order.append(left[leaving])
        falls.append(lost)
        left = np.delete(left, leaving)
    return np.concatenate(order), np.concatenate(falls)


def _leave(G: Float, B: Float, penalty: float, n: int) -> tuple[Index, Float]:
    """The first n features to leave, in order, and what is lost with each."""
    C = inverse(G, penalty)
    beta, diagonal = C @ B, np.diagonal(C).copy()
    changes = np.zeros((len(C), TOGETHER), order="F")  # C is less by their product
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


def inverse(G: Float, penalty: float) -> Float:
    """``(G + penalty I)^-1``, symmetric to the last bit; G is overwritten."""
    G[np.diag_indices_from(G)] += penalty
    factor, failed = dpotrf(G.T, lower=0, overwrite_a=1)
    if failed:
        raise InputError(
            "Inner products of the features that are left are not finite or not positive definite; "
            "pass standardize=True, or given_others=False."
        )
    C, _ = dpotri(factor, lower=0, overwrite_c=1)
    for some in slices(len(C), MIRRORED):
        C[some, some] = np.triu(C[some, some]) + np.triu(C[some, some], 1).T
        C[some.stop :, some] = C[some, some.stop :].T
    return np.asarray(C)


def left_out_errors(X: Float, U: Float, scale: float = 1.0) -> Float:
    """Squared errors at samples that are left out, (m,), of mean 1 where nothing is explained.

    Labels that do not vary, as a rare class may not among these samples, are not explained. Of
    kernel ridge regression of the columns of U (m, q), whose means are 0, on features X (m, k), by
    ``exp(-scale ||x - x'||^2 / (2 k))`` and the penalty whose errors are least.
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
        left = np.maximum(squares @ shrunk - 1.0 / m, np.finfo(float).eps)  # the mean is fitted too
        errors = np.square((Q @ (shrunk[:, None] * along)) / left[:, None]).sum(axis=1)
        if errors.sum() < best.sum():
            best = errors
    return np.asarray(best * m / size)


def unexplained(X: Float, U: Float) -> float:
    """Part of the labels U (m, q) that features X (m, n) leave unexplained where they are left out.

    By `left_out_errors` of all features, whose mean square is taken for 1.
    """
    size = float(np.vdot(X, X))
    return float(left_out_errors(X, U, X.size / size if size else 1.0).mean())


def ridge_penalty(noise: float) -> float:
    """Penalty of `ridge_order` (lambda of JMLR 6.6), of the part of the labels that is noise.

    Ridge regression predicts best where lambda is as the variance of the noise over that of what
    features tell: at half and half, and with more noise, it is the most.
    """
    return max(LEAST_PENALTY, MOST_PENALTY * noise / max(noise, 1.0 - noise))


@dataclass(frozen=True)
class Explained:
    """How far the first features of two orders explain labels that are left out.

    Attributes
    ----------
    alone, given_others : float
        Part that is explained, 1 for all, below 0 where the mean of the labels does better: in the
        mean over numbers of first features, by Algorithm 1 and by ridge regression.
    is_worse : bool
        Whether the order of ridge regression explains clearly less.
    """

    alone: float
    given_others: float
    is_worse: bool

    @staticmethod
    def of(X: Float, U: Float, alone: Index, given_others: Index) -> Explained:
        """Compare two orders of the columns of X (m, n), the most relevant first."""
        n = len(alone)
        found = []
        for k in [k for k in COMPARED if 2 * k <= n] or [1]:
            first, other = np.sort(alone[:k]), np.sort(given_others[:k])
            errors = left_out_errors(X[:, first], U)
            is_same = np.array_equal(first, other)
            found.append((errors, errors if is_same else left_out_errors(X[:, other], U)))
        before, after = np.mean(found, axis=0)
        worse = after - before
        error = float(worse.std()) / np.sqrt(len(worse))
        return Explained(
            1.0 - float(before.mean()),
            1.0 - float(after.mean()),
            bool(float(worse.mean()) > CLEARLY * error),
        )
