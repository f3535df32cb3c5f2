r"""Weights of a support vector machine: recursive feature elimination (JMLR 6.8).

A support vector machine solves, for labels y in {-1, +1},

    ``maximise  1' alpha - 1/2 alpha' (K o y y') alpha,   0 <= alpha_i <= C,   y' alpha = 0``,

and features are removed without which ``1/2 alpha' (K o y y') alpha`` decreases least (eq. 31,
where the paper writes the nu form). That is ``<W, K>`` with ``W = beta beta' / 2`` and
``beta = alpha o y``: HSIC with a conformal kernel. So each round solves the machine for the
surviving features, which sets W, and the engines do the rest. With more classes there is a machine
for each against all others, and W is their sum.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from dhsic._typing import Array, Float
from dhsic.errors import InputError

#: Where libsvm stops: violation of the optimality conditions.
TOLERANCE = 1e-3
#: Steps of two multipliers each that it gets.
MOST_STEPS = 2_000_000


def machine_weights(K: Float, classes: Array, penalty: float) -> Float:
    """``W = sum_c beta_c beta_c' / 2`` over the classes c, (m, m).

    Parameters
    ----------
    K : (m, m) float64
        Kernel matrix of the surviving features.
    classes : (m,) integers
        From 0; two classes take one machine.
    penalty : float
        C.
    """
    names = np.unique(classes)
    W = np.zeros_like(K)
    for name in names[1:] if len(names) == 2 else names:  # one side is enough
        beta = _dual(K, classes == name, penalty)
        W += np.multiply.outer(beta, beta)
    return W / 2


def _dual(K: Float, positive: Array, penalty: float) -> Float:
    """``alpha o y``, (m,)."""
    machine = SVC(
        C=penalty, kernel="precomputed", tol=TOLERANCE, cache_size=500, max_iter=MOST_STEPS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below
        machine.fit(K, positive)
    if machine.fit_status_:
        raise InputError(
            f"The support vector machine does not converge in {MOST_STEPS:,} steps with "
            f"C={penalty:g}: pass standardize=True, or a smaller penalty."
        )
    beta = np.zeros(len(K))
    beta[machine.support_] = machine.dual_coef_[0]
    return beta
