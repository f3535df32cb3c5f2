r"""A factorizer turns inner products with b landmarks into ``K ~ F diag(weights) F'``.

The statistic is additive over features, so one pass over the data gives the inner products of all
m samples with b *landmarks*; no m x m matrix is ever formed. What is factored is a base matrix of
the kernel's expansion, K itself for kernels with a bandwidth. Only what is off the diagonal
counts: HSIC takes the diagonal from elsewhere.

Checks of what users set on a factorizer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.validation import is_number


@dataclass(frozen=True, slots=True)
class Landmarks:
    """The additive statistic against b landmarks.

    Attributes
    ----------
    inner : (b, m) float64
        Inner products of landmark and sample, a sum over features.
    norms : (m,) float64
        Squared norms of the samples.
    rows : (b,) int64 or None
        Which samples the landmarks are; None where they are random directions of feature space.

    Raises
    ------
    InputError
        Shapes that do not fit, no landmark, another dtype than float64, or rows that are no
        samples or occur twice.
    """

    inner: Float
    norms: Float
    rows: Index | None

    def __post_init__(self) -> None:
        if self.inner.ndim != 2 or self.inner.shape[0] == 0 or self.inner.shape[1] == 0:
            raise InputError(
                f"The inner products have shape {self.inner.shape}; pass (b, m), one row a "
                "landmark and one column a sample, at least one of each."
            )
        if self.inner.dtype != np.float64 or self.norms.dtype != np.float64:
            raise InputError(
                f"The statistic is {self.inner.dtype} and its norms are {self.norms.dtype}; "
                "accumulate both in float64."
            )
        b, m = self.inner.shape
        if self.norms.shape != (m,):
            raise InputError(
                f"norms have shape {self.norms.shape} and there are {m} samples; pass ({m},)."
            )
        if self.rows is not None:
            _check_rows(self.rows, b, m)

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks b."""
        return int(self.inner.shape[0])

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return int(self.inner.shape[1])


def _check_rows(rows: Index, b: int, m: int) -> None:
    if rows.shape != (b,) or rows.dtype.kind not in "iu":
        raise InputError(
            f"rows have shape {rows.shape} and dtype {rows.dtype}; pass ({b},) integers, the "
            "sample that each landmark is."
        )
    if rows.min() < 0 or rows.max() >= m or len(np.unique(rows)) < b:
        raise InputError(
            f"Landmarks are {b} different samples of 0 to {m - 1}; rows hold {rows.min()} to "
            f"{rows.max()}, {len(np.unique(rows))} of them different."
        )


@dataclass(frozen=True, slots=True)
class Factor:
    """``K ~ F diag(weights) F'`` off the diagonal.

    Attributes
    ----------
    F : (m, r) float64
        A row a sample; r may be 0 where there is nothing to find.
    weights : (r,) float64
        1, or -1 for negative directions of the spectral factorizer.
    error : float
        Its own estimate of ``||K - F diag(weights) F'||_F / ||K||_F``, off the diagonal; infinite
        where it cannot tell.
    """

    F: Float
    weights: Float
    error: float

    @property
    def rank(self) -> int:
        """Number of directions r."""
        return int(self.F.shape[1])


class AbstractFactorizer(ABC):
    """Factors a base matrix of a kernel; a value with its parameters."""

    name: ClassVar[str]

    @abstractmethod
    def factor(
        self,
        kernel: AbstractKernel,
        sigma: float,
        landmarks: Landmarks,
        *,
        base: int = 0,
        seed: int = 0,
    ) -> Factor:
        """Factor of base matrix `base`; the same bits for the same input and seed.

        Raises
        ------
        InputError
            A kernel or landmarks that the factorizer is not meant for.
        """


def check_rank(rank: object, factorizer: str) -> None:
    """Refuse a rank that is no whole number from 1; None passes.

    Raises
    ------
    InputError
        It is none.
    """
    if rank is not None and not is_count(rank):
        raise InputError(f"{factorizer} rank={rank!r}; pass a whole number >= 1.")


def check_tolerance(tolerance: Any, factorizer: str) -> None:
    """Refuse a tolerance outside [0, 1).

    Raises
    ------
    InputError
        It is outside, or no number.
    """
    if not (is_number(tolerance) and 0 <= float(tolerance) < 1):
        raise InputError(f"{factorizer} tolerance={tolerance!r}; pass a number from 0 to below 1.")


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 1."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 1
