r"""Ridge regression as a kernel: ``Kbar = K (K + lambda I)^-1`` (JMLR 6.6, after eq. 29).

The residual of ridge regression of y on the features is ``J = y'y - y' Kbar y``, so features are
selected for regression by HSIC with Kbar and ``L = y y'``, or with any other kernel on the labels.
With ``M = K + lambda I``, ``Kbar = I - lambda M^-1``: a function of the whole of K, of no part.
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

#: Eigenvalues up to this part of the largest are rounding.
NOTHING = 1e-11


@dataclass(frozen=True, slots=True)
class Resolvent:
    """``M^-1`` of some features on the range of K, where every feature lies.

    Outside of it ``M^-1`` is ``1 / lambda``, and with fewer features than samples, or a small
    lambda, what a feature has there by rounding would count for more than the feature. `values`
    (r,) are the eigenvalues of K that are not 0, `vectors` (m, r) theirs; lambda is `penalty`.
    """

    penalty: float
    values: Float
    vectors: Float

    @property
    def inverse(self) -> Float:
        """``M^-1`` on the range of K, (m, m), 0 outside of it."""
        return (self.vectors / (self.values + self.penalty)) @ self.vectors.T

    @property
    def smoother(self) -> Float:
        """``Kbar = K M^-1``, (m, m)."""
        return (self.vectors * (self.values / (self.values + self.penalty))) @ self.vectors.T


class AbstractMatrixFunction(AbstractKernel):
    """A kernel whose matrix is a function of the whole of another one, `inside`.

    Lambda is `penalty` times the mean of the diagonal of K (for standardised data and the linear
    kernel, times the number of features left), as the features of a round have it: K grows with
    the number of features, and lambda with it. As sigma, it stays as it is within a round.
    """

    scored_by = "matrix"
    #: Lambda, over the mean of the diagonal of K.
    penalty: float

    @property
    @abstractmethod
    def inside(self) -> AbstractKernel:
        """The kernel that K is of."""

    @property
    def updates(self) -> bool:
        """Whether one feature is an update of rank one: K is linear in each."""
        return self.inside.is_additive

    def resolvent(self, G: Float, sigma: float) -> Resolvent:
        """Resolvent from all inner products, (m, m), by decomposing K."""
        norms = np.diagonal(G)
        K = self.inside.gram(G, norms, norms, sigma)
        values, vectors = eigh(K, driver="evd", check_finite=False)
        kept = values > NOTHING * values[-1]
        penalty = self.penalty * float(np.diagonal(K).mean())
        return Resolvent(penalty, values[kept], vectors[:, kept])

    def gram(self, inner: Float, rows: Float, columns: Float, sigma: float) -> NoReturn:
        """Refuse: no part of Kbar follows from that part of G; see `resolvent`."""
        self._refuse()

    def decrement(
        self, inner: Float, rows: Float, columns: Float, x: Float, y: Float, sigma: float
    ) -> NoReturn:
        self._refuse()

    def expansion(self, order: int, sigma: float) -> Expansion:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"The {self.name} kernel is a function of the whole kernel matrix, never of a part of "
            "it: dhsic.BAHSIC takes it with solver='auto', 'exact' or 'direct'. Take "
            "kernel='linear' elsewhere."
        )


@dataclass(frozen=True)
class Ridge(AbstractMatrixFunction):
    """``XX' (XX' + lambda I)^-1``: linear, and each feature is judged given the others.

    Exact without any expansion, at two quadratic forms a feature. Take it to select features for
    linear regression: unlike the linear kernel it does not take the tenth copy of a good feature.

    Parameters
    ----------
    penalty : float
        Lambda over the mean squared norm of a sample, above 0: see
        `AbstractMatrixFunction`. At 1e-10 and below, rounding orders the features.
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
    """``K (K + lambda I)^-1`` over a kernel with a width, the Gaussian unless told otherwise.

    By the definition only, an (m, m) system a candidate: for some hundreds of samples and
    features. Take it to select features for kernel ridge regression.

    Parameters
    ----------
    penalty : float
        Lambda over the mean of the diagonal of K, above 0; for the Gaussian it is lambda.
    inner : AbstractKernel
        Kernel of K, one with a width.
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
                "dhsic.kernels.Gaussian(), or take dhsic.kernels.Ridge() for the linear one."
            )

    @property
    def inside(self) -> AbstractKernel:
        return self.inner

    def parameters(self) -> dict[str, float]:
        inside = {f"{self.inner.name}_{k}": v for k, v in self.inner.parameters().items()}
        return {"penalty": float(self.penalty), self.inner.name: 1.0, **inside}


def inverse_of(K: Float, penalty: float) -> Float:
    """``(K + penalty I)^-1``, (m, m), symmetric to the last bit."""
    M = K.copy()
    M[np.diag_indices_from(M)] += penalty
    try:
        half = cho_solve(cho_factor(M, lower=True, check_finite=False), np.eye(len(M)))
    except np.linalg.LinAlgError:
        raise InputError(
            f"The kernel matrix and lambda={penalty:.3g} together are not positive definite; "
            "raise the penalty of the ridge kernel."
        ) from None
    return np.asarray((half + half.T) / 2)


def _check_penalty(penalty: object) -> None:
    if not is_positive(penalty):
        raise InputError(f"penalty={penalty!r} of a ridge kernel; pass a number > 0.")
