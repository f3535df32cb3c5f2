"""What is asked of X and Y: labels, covariates, kernels and estimator, before any X is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.hsic import check_estimator
from dhsic.joins.frames import in_order
from dhsic.kernels.bandwidth import AbstractBandwidth, resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.table import check_overflow, resolve_kernel
from dhsic.validation import as_numbers


@dataclass(frozen=True, eq=False)
class HsicSpec:
    """Labels, and how data are compared with them.

    Attributes
    ----------
    labels : LabelMatrix
        Of m samples.
    covariates : (m, q) array or None
        Linear effects to project out.
    kernel, policy : AbstractKernel, AbstractBandwidth
        Of the data.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.

    Raises
    ------
    InputError
        Too few samples, or an unknown estimator.
    """

    labels: LabelMatrix
    covariates: Array | None
    kernel: AbstractKernel
    policy: AbstractBandwidth
    estimator: str

    def __post_init__(self) -> None:
        check_estimator(self.estimator, self.labels.n_samples)

    @staticmethod
    def of(
        labels: Array,
        covariates: Array | None,
        *,
        kernel: object,
        label_kernel: str,
        bandwidth: object,
        estimator: str,
    ) -> HsicSpec:
        """From what users write; labels and covariates in the order of the samples."""
        chosen, policy = resolve_kernel(kernel), resolve_bandwidth(bandwidth)
        parts = label_matrix(labels, label_kernel, covariates).centred
        return HsicSpec(parts, covariates, chosen, policy, estimator)

    def matrix_of(self, X: Any) -> Float:
        """X as numbers, (m, d); refused where it has not one row for each of the labels."""
        values = as_numbers(X, "X")
        values = values[:, None] if values.ndim == 1 else values
        self.check_shape(values.shape)
        return values

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse data of another shape than (m, d)."""
        m = self.labels.n_samples
        if len(shape) != 2 or shape[0] != m or shape[1] == 0:
            raise InputError(
                f"X has shape {shape} and Y {m} samples; pass one row a sample in both, "
                "and one feature or more."
            )

    def centred(self, X: Float) -> Float:
        """X less its means, where the kernel is one of distances, which keep their digits."""
        return X - X.mean(axis=0) if self.kernel.has_bandwidth else X

    def check_overflow(self, norms: Float) -> None:
        """Refuse samples of such squared norms that the kernel overflows."""
        check_overflow(self.kernel, float(norms.max()))


def matched(X: Any, Y: Any, covariates: Any, *, by_position: bool) -> tuple[Array, Array | None]:
    """Labels and covariates in the order of X; refused where samples are others than in X."""
    labels = in_order(X, Y, "Y", by_position=by_position)
    if covariates is None:
        return labels, None
    return labels, in_order(X, covariates, "covariates", by_position=by_position)
