"""Recursive feature elimination with support vectors, for users.

Recursive feature elimination with support vectors from end to end (JMLR 6.8).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dhsic.errors import InputError
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.label_kernels import ClassTarget, LabelMatrix
from dhsic.kernels.labels import CLASS_KERNELS, auto_kernel, label_matrix
from dhsic.kernels.table import resolve_kernel
from dhsic.passes.dependence import Choices, ExactScorer, SourceDependence
from dhsic.passes.machine import machine_weights
from dhsic.passes.planning import EnginePlan
from dhsic.selectors.bahsic import AbstractElimination
from dhsic.selectors.parameters import OF_MACHINES
from dhsic.selectors.rounds import KernelSelector

#: Samples that a machine takes.
LEAST = 2


@dataclass(frozen=True)
class Recursive(AbstractElimination):
    """A run of Algorithm 1 with a machine in every round."""

    parameters: SVMRFE
    takes_self: ClassVar[bool] = False
    meaning: ClassVar[str] = "by how much the margin term falls without the feature, alpha held"

    def check_samples(self, m: int) -> None:
        """Two at least: there is no estimator."""
        if m < LEAST:
            raise InputError(f"svm-rfe tells two samples apart at least, and there are {m}.")

    def labels(self) -> LabelMatrix:
        """Classes; numbers that are none are refused."""
        assert self.y is not None, "this method does not take the data for labels"
        if self.y.ndim == 1 and auto_kernel(self.y) not in CLASS_KERNELS:
            raise InputError(
                "svm-rfe tells classes apart, and y holds real values; cut them into classes, or "
                "use bahsic."
            )
        return label_matrix(self.y, self.parameters.label_kernel)

    @property
    def smaller(self) -> str:
        return "use fewer samples"

    def plan(self, m: int) -> EnginePlan:
        """Exact: W is a full matrix."""
        return EnginePlan(begins_thin=False, eager=False, may_square=True)

    def dependence(self, labels: LabelMatrix | None, budget: int | None) -> SourceDependence:
        """The margin term as a function of S."""
        assert labels is not None, "this method does not take the data for labels"
        asked = self.parameters
        choices = Choices(
            resolve_kernel(asked.kernel).with_gram_base,  # W changes: one pass is none
            resolve_bandwidth(asked.bandwidth),
            self.standardizes,
            np.dtype(str(asked.dtype)),
            asked.approx == "direct",
        )
        classes, penalty = self._classes(labels), float(asked.penalty)
        data, candidates = self.data(budget), self.candidates()
        nothing = np.zeros((labels.n_samples, labels.n_samples))  # until a machine has seen data
        scorer = ExactScorer(
            choices,
            data,
            candidates,
            nothing,
            machine=lambda K: machine_weights(K, classes, penalty),
        )
        return SourceDependence(choices, data, candidates, scorer)

    def _classes(self, labels: LabelMatrix) -> Any:
        """Class of each sample, (m,)."""
        parts = labels.parts
        if len(parts) != 1 or not isinstance(parts[0], ClassTarget):
            raise InputError(
                "svm-rfe tells classes apart, and there are several targets or real values; pass "
                "one class label a sample."
            )
        if self.covariates is not None:
            raise InputError(
                "svm-rfe takes no covariates: its machine has no part for them. Leave them out, "
                "or use bahsic."
            )
        return parts[0].codes


@dataclass(eq=False, repr=False, kw_only=True)
class SVMRFE(KernelSelector):
    r"""Recursive feature elimination with support vectors (Guyon et al. 2002; JMLR 6.8).

    Each round solves a support vector machine on the surviving features and removes those without
    which its margin term ``1/2 alpha' (K o y y') alpha`` (eq. 31) decreases least, alpha held: HSIC
    with a conformal kernel. It looks at samples close to the boundary between classes only; take it
    to compare with, or where a machine is what the features are for.

    Parameters
    ----------
    n_features_to_select : int, float or None
        As of `BAHSIC`.
    penalty : float
        C of the machine.
    kernel : {"linear", "gaussian", "polynomial"} or kernel object
        Of the machine. With the linear kernel the criterion is ``w_j^2 / 2``.
    step, bandwidth, standardize, missing, approx, dtype
        As of `BAHSIC`; low rank is not to be had.
    stability, checkpoint, progress, random_state, runtime, memory
        As of `BAHSIC`.

    Notes
    -----
    Labels are classes; more than two take a machine for each against the rest, and their terms add
    up. The machine is scikit-learn's `SVC`, on the m x m kernel matrix.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.SVMRFE(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

    _run = Recursive
    _method = "svm-rfe"
    _constraints = OF_MACHINES

    penalty: float = 1.0
    kernel: Any = "linear"
    label_kernel: str = field(default="multiclass", init=False)
    estimator: str = field(default="unbiased", init=False)
    tolerance: float = field(default=0.02, init=False)

    def _check_rounds(self) -> None:
        kernel = resolve_kernel(self.kernel)
        if kernel.scored_by == "matrix" or kernel.is_of_categories:
            raise InputError(
                f"svm-rfe and the {kernel.name} kernel: a machine takes a kernel of two samples, "
                "such as 'linear', 'gaussian' or 'laplace'."
            )
        if self.approx == "lowrank":
            raise InputError(
                f"approx={self.approx!r} is unknown to svm-rfe, whose W is a full matrix; pass "
                "'auto', 'exact' or 'direct'."
            )

    def _besides(self) -> dict[str, Any]:
        return {"penalty": float(self.penalty)}

    def described(self) -> str:
        name = resolve_kernel(self.kernel).name
        return f"SVM-RFE with the {name} kernel, C {self.penalty:g}, step {self.step:g},"
