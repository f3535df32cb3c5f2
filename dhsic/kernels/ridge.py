r"""Ridge regression as a kernel: ``Kbar = K (K + lambda I)^-1`` (JMLR 6.6, after eq. 29).

The residual of ridge regression of y on the features is ``J = y'y - y' Kbar y``, so HSIC with Kbar
and ``L = y y'`` selects features for regression. Other label kernels can be used too. With ``M = K
+ lambda I``, ``Kbar = I - lambda M^-1``: every entry depends on all of K.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.kernels.dot import Linear
from dhsic.kernels.gaussian import Gaussian
from dhsic.validation import is_positive

#: Eigenvalues up to this fraction of the largest are rounding errors.
NOTHING = 1e-11


@dataclass(frozen=True, slots=True)
class Resolvent:
    """Inverse ``M^-1`` restricted to the range of K, which contains every feature.

    Outside the range ``M^-1`` is ``1 / lambda``. With fewer features than samples, or a small
    lambda, this would amplify the rounding errors of a feature until they exceed the feature
    itself. `values` (r,) are the nonzero eigenvalues of K, `vectors` (m, r) its eigenvectors, and
    `penalty` is lambda.
    """

    penalty: float
    values: Float
    vectors: Float

    @property
    def inverse(self) -> Float:
        """Inverse of ``M = K + lambda I`` on the range of the kernel matrix K, (m, m).

        It is 0 outside the range.
        """
        return (self.vectors / (self.values + self.penalty)) @ self.vectors.T

    @property
    def smoother(self) -> Float:
        """Smoother of ridge regression, ``K M^-1`` with ``M = K + lambda I``: (m, m).

        It is the matrix of this kernel; K is the matrix of the inner kernel.
        """
        return (self.vectors * (self.values / (self.values + self.penalty))) @ self.vectors.T


class AbstractMatrixFunction(AbstractKernel):
    """Kernel with a matrix that is a function of the complete matrix K of another kernel.

    The other kernel is `inside`. Lambda is `penalty` times the mean of the diagonal of K in the
    round, because K increases with the number of features. For standardised data and the linear
    kernel this mean is the number of surviving features. Like sigma, lambda is constant within a
    round.
    """

    scored_by = "matrix"
    #: Lambda, relative to the mean of the diagonal of K.
    penalty: float

    @property
    @abstractmethod
    def inside(self) -> AbstractKernel:
        """Inner kernel: its matrix K is the argument of the matrix function."""

    @property
    def updates(self) -> bool:
        """Whether removing a feature changes the inner kernel matrix by a matrix of rank one.

        This holds for linear kernels.
        """
        return self.inside.is_additive

    def resolvent(self, G: Float, sigma: float) -> Resolvent:
        """Compute the resolvent from inner products G, (m, m), by decomposing a kernel matrix.

        It is the matrix of the inner kernel.
        """
        norms = np.diagonal(G)
        K = self.inside.gram(G, norms, norms, sigma)
        values, vectors = eigh(K, driver="evd", check_finite=False)
        nonzero = values > NOTHING * values[-1]
        penalty = self.penalty * float(np.diagonal(K).mean())
        return Resolvent(penalty, values[nonzero], vectors[:, nonzero])

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> NoReturn:
        """Raise InputError: entries of Kbar depend on all of G; see `resolvent`."""
        self._refuse()

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> NoReturn:
        self._refuse()

    def expansion(self, order: int, sigma: float) -> Expansion:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"The {self.name} kernel needs the whole kernel matrix, so only dhsic.BAHSIC supports "
            "it, with solver='auto', 'exact' or 'direct'. Elsewhere, use kernel='linear'."
        )


@dataclass(frozen=True)
class Ridge(AbstractMatrixFunction):
    """Linear ridge regression, ``XX' (XX' + lambda I)^-1``, which scores features jointly.

    Scores are exact, from two quadratic forms per feature. Use it to select features for linear
    regression: unlike the linear kernel, it does not select redundant copies of a feature.

    Parameters
    ----------
    penalty : float
        Lambda relative to the mean squared norm of a sample, a positive number; see
        `AbstractMatrixFunction`. At 1e-10 and below, rounding errors determine the ranking.
    """

    name: ClassVar[str] = "ridge"
    penalty: float = 1.0

    def __post_init__(self) -> None:
        _check_penalty(self.penalty)

    @property
    def inside(self) -> AbstractKernel:
        return Linear()


@dataclass(frozen=True)
class KernelRidge(AbstractMatrixFunction):
    """Kernel ridge regression, ``K (K + lambda I)^-1``, by default with the Gaussian kernel.

    Use it to select features for kernel ridge regression, with at most some hundreds of samples and
    features: it is scored by the definition, which solves an (m, m) system per candidate feature.

    Parameters
    ----------
    penalty : float
        Lambda relative to the mean of the diagonal of K, a positive number; for the Gaussian it is
        lambda itself.
    inner : AbstractKernel
        Kernel of the matrix K; it must have a bandwidth.
    """

    name: ClassVar[str] = "kernel-ridge"
    has_bandwidth: ClassVar[bool] = True
    penalty: float = 1.0
    inner: AbstractKernel = field(default_factory=Gaussian)

    def __post_init__(self) -> None:
        _check_penalty(self.penalty)
        inner: object = self.inner
        if not (
            isinstance(inner, AbstractKernel) and inner.has_bandwidth and inner.of_inner_products
        ):
            raise InputError(
                f"KernelRidge inner={self.inner!r}; pass a kernel of distances such as "
                "dhsic.kernels.Gaussian(), or use dhsic.kernels.Ridge() for the linear kernel."
            )

    @property
    def inside(self) -> AbstractKernel:
        return self.inner

    def parameters(self) -> dict[str, float]:
        inside = {f"{self.inner.name}_{k}": v for k, v in self.inner.parameters().items()}
        return {"penalty": float(self.penalty), self.inner.name: 1.0, **inside}


def inverse_of(K: Float, penalty: float) -> Float:
    """Compute ``(K + penalty I)^-1``, (m, m), symmetric to the last bit."""
    M = K.copy()
    M[np.diag_indices_from(M)] += penalty
    try:
        half = cho_solve(cho_factor(M, lower=True, check_finite=False), np.eye(len(M)))
    except np.linalg.LinAlgError:
        raise InputError(
            f"The kernel matrix plus lambda={penalty:.3g} is not positive definite; increase the "
            "penalty of the ridge kernel."
        ) from None
    return np.asarray((half + half.T) / 2)


def _check_penalty(penalty: object) -> None:
    if not is_positive(penalty):
        raise InputError(f"penalty={penalty!r} of a ridge kernel; pass a number > 0.")
