r"""Scores of categorical features at several widths: HSIC with two kernels on unordered levels.

The functions of a feature with q levels and frequencies p are the q - 1 eigenvectors of the centred
kernel ``[x = x']``, orthonormal over the samples. The first kernel is this kernel with its
eigenvalues, so the weight of a level depends on its frequency. The second kernel has equal
eigenvalues, so rare and frequent levels have equal weights. HSIC with the second kernel is the
chi-square statistic if labels are classes with the kernel ``psi(y) = e_y / m_y``, and the statistic
of an analysis of variance if labels are numbers. Both kernels are combined in the same way as
several widths (`dhsic.criteria.multiscale`). Samples with a missing value are excluded.

With two levels both kernels are equal, and the feature is tested as a number (`level_scores`).
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float, Index
from dhsic.criteria.level_scores import scores_with_functions
from dhsic.criteria.multiscale import FeatureScores, Multiscale, WidthFamily
from dhsic.criteria.rank_law import DirectLaw

#: Weights of the two kernels in the combined p-value.
SHARES = np.array([0.5, 0.5])
#: Minimum number of samples with a value, in addition to one per level and covariate.
FEWEST = 4


def unordered_functions(counts: Float) -> tuple[Float, Float]:
    """Orthonormal functions of q unordered levels, (q - 1, q), and their eigenvalues, (q - 1,).

    `counts` (q,) are the numbers of samples per level; all are positive. The eigenvalues of the
    kernel ``[x = x']`` are divided by the largest one.

    >>> functions, eigenvalues = unordered_functions(np.array([2.0, 2.0, 4.0]))
    >>> (functions @ np.diag([0.25, 0.25, 0.5]) @ functions.T).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    p = counts / counts.sum()
    root = np.sqrt(p)
    centre = np.eye(len(p)) - np.multiply.outer(root, root)
    values, vectors = np.linalg.eigh(centre @ (p[:, None] * centre))
    values, vectors = values[:0:-1], vectors[:, :0:-1]  # the smallest is 0, of the constant
    return (vectors / root[:, None]).T.round(14) + 0.0, values / values[0]


def family_of(eigenvalues: Float, state: Multiscale) -> WidthFamily:
    """Kernels and null distributions for a categorical feature with these eigenvalues, (q - 1,)."""
    weights = np.stack([eigenvalues, np.ones(eigenvalues.size)])
    nu, each = state.n_samples - state.Q.shape[1], state.matrices
    laws = tuple(DirectLaw.of(row, C, nu) for C in each for row in weights)
    shares = np.multiply.outer(state.labels.shares, SHARES).ravel()
    return WidthFamily(np.full(2, np.nan), weights, laws, shares, state.single.calibration)


def scores_of_category(state: Multiscale, codes: Index) -> FeatureScores:
    """Scores of one categorical feature, in arrays of shape (1,).

    Parameters
    ----------
    state : Multiscale
        State of the test, prepared from the labels.
    codes : (m,) int
        Number of the level of each sample, from 0; -1 if it is missing.
    """
    present = codes >= 0
    levels, place = np.unique(codes[present], return_inverse=True)
    q, m = levels.size, int(present.sum())
    if q < 2 or m < FEWEST + q + state.Q.shape[1]:
        return FeatureScores(np.zeros(1), np.zeros(1), np.full(1, np.nan), np.zeros(1))
    indicators = (place == np.arange(q)[:, None]).astype(np.float64)
    counts = indicators.sum(axis=1)
    along = indicators @ state.directions[present]
    absent = None if present.all() else state.directions[~present].sum(axis=0)[None]
    functions, eigenvalues = unordered_functions(counts)
    family = family_of(eigenvalues, state) if q > 2 else state.single
    ratios = None
    if state.covariance is not None:
        values = np.zeros((q - 1, codes.size))
        values[:, present] = functions @ indicators
        each = [of.ratios_of(values) for of in state.covariance.covariances]
        ratios = np.concatenate(each, axis=1)[None]
    return scores_with_functions(
        state, family, functions[None], counts[None], along[None], absent, ratios
    )
