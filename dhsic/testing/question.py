"""What is asked of data: labels, kernels and estimator, and the matrices that they make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dhsic._typing import Float
from dhsic.engines.memory import available_bytes, human
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.hsic import check_estimator
from dhsic.independence.data import full_kernel, thin_kernel
from dhsic.independence.forms import AbstractForm
from dhsic.independence.full import Full
from dhsic.independence.labels import basis_of, full_labels, residual, thin_labels
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES, AbstractBandwidth, Grid, KnownStatistic
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import LabelParts
from dhsic.kernels.statistic import Statistic
from dhsic.panels import PanelledWeights
from dhsic.testing.draws import Draws

#: (m, m) matrices of float64 at the peak of a test that writes them out, besides one a width.
SQUARES = 6


@dataclass(frozen=True, eq=False)
class Question:
    """Labels, and how data are compared with them; `dhsic.testing.answers` answers it.

    What follows from the labels alone is made once, for any number of data.

    Attributes
    ----------
    labels : LabelParts
        Of m samples.
    covariates : (m, q) array or None
        Linear effects to project out.
    kernel, policy : AbstractKernel, AbstractBandwidth
        Of the data.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    draws : Draws
        Where p-values come from.

    Raises
    ------
    InputError
        Too few samples, or an estimator or bandwidths that the method cannot do.
    """

    labels: LabelParts
    covariates: Any
    kernel: AbstractKernel
    policy: AbstractBandwidth
    estimator: str
    draws: Draws

    def __post_init__(self) -> None:
        check_estimator(self.estimator, self.labels.n_samples)
        method = self.draws.method
        if method == "normal" and self.estimator != "unbiased":
            raise InputError(
                f"method='normal' is about the unbiased estimator, and estimator="
                f"{self.estimator!r}; pass estimator='unbiased', or method='permutation'."
            )
        if method != "permutation" and isinstance(self.policy, Grid) and self.kernel.has_bandwidth:
            raise InputError(
                f"Of {len(self.policy.sigmas)} bandwidths the one with the largest HSIC is taken, "
                f"which method={method!r} knows nothing of; pass one of them, or "
                "method='permutation'."
            )

    @cached_property
    def Q(self) -> Float:
        """Basis of what is taken out of the labels."""
        return basis_of(self.covariates, self.labels.n_samples)

    @cached_property
    def C(self) -> AbstractForm:
        """Residual labels."""
        L = thin_labels(self.labels)
        if L is None:
            self._check_room()
        return residual(full_labels(self.labels) if L is None else L, self.Q)

    @cached_property
    def W(self) -> PanelledWeights:
        """Weights of the unbiased estimator, written out a panel at a time."""
        return PanelledWeights.of(self.labels, "unbiased", self.covariates)

    def K(self, X: Float, sigma: float) -> AbstractForm:
        """Kernel of X (m, d); where C is full a thin one would not help."""
        K = None if isinstance(self.C, Full) else thin_kernel(self.kernel, X, sigma)
        if K is not None:
            return K
        self._check_room()
        return full_kernel(self.kernel, X, sigma)

    def sigmas(self, X: Float) -> tuple[float, ...]:
        """Widths of the kernel of X (m, d), one or those that are to be tried."""
        if not self.kernel.has_bandwidth:
            return (1.0,)
        if isinstance(self.policy, Grid):
            return self.policy.sigmas
        few = X[:: -(-len(X) // MEDIAN_SAMPLES)]  # as `dhsic.hsic` takes them
        known = KnownStatistic(self.kernel, None, Statistic.of(few @ few.T))
        return (self.policy(known, X.shape[1]),)

    def _check_room(self) -> None:
        m = self.labels.n_samples
        widths = len(self.policy.sigmas) if isinstance(self.policy, Grid) else 1
        needed, left = (SQUARES + widths) * 8 * m * m, available_bytes()
        if needed > left:
            raise MemoryBudgetError(
                f"Kernel matrices of {m:,} x {m:,} samples take {human(needed)}, and there are "
                f"{human(left)}. Test on fewer samples, or on fewer features at a time (one needs "
                "no such matrix), or pass method='normal'."
            )
