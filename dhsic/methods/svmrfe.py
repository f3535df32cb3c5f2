r"""SVM-RFE: recursive feature elimination with support vectors (JMLR 6.8).

A support vector machine solves, for labels y in {-1, +1},

    ``maximise  1' alpha - 1/2 alpha' (K o y y') alpha,   0 <= alpha_i <= C,   y' alpha = 0``,

where K (m, m) is the kernel matrix and alpha (m,) are dual coefficients. A round removes the
features with the smallest effect on ``1/2 alpha' (K o y y') alpha``, which decreases least without
them (eq. 31; the paper writes the nu form). This term is ``<W, K>`` with ``W = beta beta' / 2`` and
``beta = alpha o y``: HSIC with a conformal kernel. So each round trains a machine on the remaining
features, which determines W. Features are scored by the same engines as for HSIC. With more than
two classes there is one machine for each class against all others, and W is the sum over the
machines.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.dot import Linear, Polynomial
from dhsic.kernels.label_parts import ClassTarget
from dhsic.kernels.labels import LabelMatrix, label_matrix, may_be_classes
from dhsic.methods.base import Selector
from dhsic.methods.kernel import AbstractElimination
from dhsic.passes.dependence import SourceDependence
from dhsic.passes.engineplan import EnginePlan
from dhsic.passes.scorer import ExactScorer
from dhsic.passes.sums import SquareSum
from dhsic.selection.run import SelectionRun
from dhsic.validation import is_positive, such

#: Tolerance of libsvm: violation of the optimality conditions.
TOLERANCE = 1e-3
#: Maximum number of iterations of libsvm.
MOST_STEPS = 2_000_000


@dataclass(eq=False, repr=False, kw_only=True)
class SVMRFE(AbstractElimination):
    """Recursive elimination with support vectors, with the parameters of `dhsic.SVMRFE`."""

    _method = "svm-rfe"
    _meaning = "decrease of the margin term without the feature, for fixed alpha"
    _parameter_constraints: ClassVar = {
        **AbstractElimination._parameter_constraints,
        "penalty": such(is_positive, "C of the support vector machine, a positive number."),
    }

    penalty: float = 1.0
    kernel: Any = "linear"
    label_kernel: str = field(default="multiclass", init=False)
    statistic: str = field(default="unbiased", init=False)
    max_expected_loss: float = field(default=0.01, init=False)
    rerank: bool = field(default=False, init=False)

    def check_weights(self) -> None:
        Selector.check_weights(self)

    def labels(self, run: SelectionRun) -> LabelMatrix:
        """Label matrix of classes; rejects real values."""
        assert run.y is not None, "this method does not take the data for labels"
        if run.y.ndim == 1 and not may_be_classes(run.y):
            raise InputError(
                "svm-rfe needs classes, but y contains real values; divide them into classes, or "
                "use bahsic."
            )
        labels = label_matrix(run.y, self.label_kernel)
        if len(labels.parts) != 1 or not isinstance(labels.parts[0], ClassTarget):
            raise InputError(
                "svm-rfe needs classes, but there are several targets or real values; pass one "
                "class label per sample."
            )
        if run.covariates is not None:
            raise InputError("svm-rfe does not support covariates. Leave them out, or use bahsic.")
        return labels

    def engines(self, run: SelectionRun, solver: str) -> EnginePlan:
        """Scoring engines: always exact, because the label weights are a full matrix."""
        return EnginePlan(is_low_rank=False, eager=False, may_square=True)

    def _dependence(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> SourceDependence:
        assert labels is not None, "this method does not take the data for labels"
        (classes,) = labels.parts
        assert isinstance(classes, ClassTarget), "others are refused"
        fixed, data, candidates = self._parts(run, budget)
        choices = replace(fixed, kernel=self.machine_kernel)
        nothing = np.zeros(
            (labels.n_samples, labels.n_samples)
        )  # until the first machine is trained
        machine = partial(machine_weights, classes=classes.codes, penalty=float(self.penalty))
        total = SquareSum(data, choices.kernel.sums)
        scorer = ExactScorer(choices, total, candidates, nothing, machine=machine)
        return SourceDependence(choices, data, candidates, scorer)

    @property
    def machine_kernel(self) -> AbstractKernel:
        """Kernel of the rounds.

        The linear kernel is replaced by an equal kernel that needs all rounds, because the label
        weights W change between rounds.
        """
        # a polynomial of degree 1 is the same kernel
        return Polynomial(1, 0.0) if self._kernel == Linear() else self._kernel

    def _check_rounds(self, kernel: AbstractKernel) -> None:
        if kernel.scored_by == "matrix" or kernel.is_of_categories:
            raise InputError(
                f"svm-rfe does not support the {kernel.name} kernel; pass another, such as "
                "'linear', 'gaussian' or 'laplace'."
            )
        if self.solver == "lowrank":
            raise InputError(
                f"svm-rfe does not support solver={self.solver!r}, because its W is a full matrix; "
                "pass 'auto', 'exact' or 'direct'."
            )

    def described(self) -> str:
        return (
            f"SVM-RFE with the {self._kernel.name} kernel, C {self.penalty:g}, step {self.step:g}"
        )


def machine_weights(K: Float, classes: Array, penalty: float) -> Float:
    """Weights ``W = sum_c beta_c beta_c' / 2`` over the classes c, (m, m), by trained machines.

    beta_c (m,) are the dual coefficients of class c, see `_dual`. K (m, m) is the kernel matrix of
    the remaining features, `classes` (m,) are numbers from 0, and `penalty` is the parameter C.
    """
    names = np.unique(classes)
    W = np.zeros_like(K)
    for name in names[1:] if len(names) == 2 else names:  # one machine is enough for two classes
        beta = _dual(K, classes == name, penalty)
        W += np.multiply.outer(beta, beta)
    return W / 2


def _dual(K: Float, positive: Array, penalty: float) -> Float:
    """Dual coefficients ``alpha o y`` (m,) of a machine; `positive` marks its class."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC  # imported late: it needs much memory

    machine = SVC(
        C=penalty, kernel="precomputed", tol=TOLERANCE, cache_size=500, max_iter=MOST_STEPS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported below
        machine.fit(K, positive)
    if machine.fit_status_:
        raise InputError(
            f"The support vector machine does not converge in {MOST_STEPS:,} steps with "
            f"C={penalty:g}: pass standardize=True, or a smaller penalty."
        )
    beta = np.zeros(len(K))
    beta[machine.support_] = machine.dual_coef_[0]
    return beta
