r"""Recursive feature elimination with support vectors, as Algorithm 1 sees it (JMLR 6.8).

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
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.statistic import Statistic
from dhsic.runtime.base import AbstractRuntime
from dhsic.scoring.dependence import Choices, SourceDependence
from dhsic.sources.base import AbstractSource

#: Where libsvm stops: violation of the optimality conditions.
TOLERANCE = 1e-3
#: Steps of two multipliers each that it gets.
MOST_STEPS = 2_000_000


class RecursiveDependence(SourceDependence):
    """`dhsic.selection.bahsic.Dependence` whose W comes from a machine, anew in every round.

    Parameters
    ----------
    source, choices, runtime, rows, memory
        As of `SourceDependence`; the W of `choices` is not used.
    classes : (m,) integers
        Class of each sample.
    penalty : float
        C.
    """

    def __init__(
        self,
        source: AbstractSource,
        choices: Choices,
        runtime: AbstractRuntime,
        classes: Array,
        penalty: float,
        *,
        rows: Index | None = None,
        memory: int | None = None,
    ) -> None:
        super().__init__(source, choices, runtime, rows=rows, memory=memory)
        self._classes = classes
        self._penalty = penalty

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma for S, and alpha, which is a parameter of the conformal kernel too."""
        sigma = super().bandwidth(S)
        running, _ = self._known()
        K = self._gram(running.statistic, sigma)
        self.choices = replace(self.choices, W=machine_weights(K, self._classes, self._penalty))
        return sigma

    def _gram(self, statistic: Statistic, sigma: float) -> Float:
        G, norms = statistic.whole(), statistic.diagonal
        return self.choices.kernel.gram(G, norms, norms, sigma)


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
