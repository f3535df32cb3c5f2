"""HSIC and its variance as functions of data and labels: the front door to the estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.hsic import factored_weights, variance_of_hsic, weights
from dhsic.independence.dense import AbstractPairing, DensePairing, FactoredPairing, chosen_sigma
from dhsic.independence.tiled import PanelledWeights, PanelPairing, SlicedData
from dhsic.joins.frames import in_order
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES, resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_factors import factor_of
from dhsic.kernels.labels import LabelParts, label_parts
from dhsic.kernels.statistic import Statistic
from dhsic.kernels.table import check_reach, resolve_kernel
from dhsic.lowrank.base import Landmarks, is_count
from dhsic.lowrank.landmarks import CHUNK, landmark_statistic, random_directions, uniform_rows
from dhsic.lowrank.table import FACTORIZERS, resolve_factorizer
from dhsic.validation import as_numbers

#: Features whose random directions are in memory together.
WIDTH = 16 * CHUNK
#: Samples, or random directions, that K is factored from where none are asked for.
LANDMARKS = 500
#: Part of a label matrix that its factor may leave out.
LABEL_ERROR = 1e-3


def hsic(
    X: Any,
    Y: Any,
    *,
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "median",
    estimator: str = "unbiased",
    covariates: Any = None,
    method: str = "exact",
    rank: int | None = None,
    tolerance: float | None = None,
    n_landmarks: int | None = None,
    random_state: int = 0,
    by_position: bool = False,
) -> float:
    """Hilbert-Schmidt independence criterion between X and Y (JMLR eq. 4 and 5).

    Parameters
    ----------
    X : (m, d) or (m,) array
        Data, used as they are (standardise them first if their scales differ).
    Y : (m,) or (m, t) array
        Labels; (m, m) for ``label_kernel="precomputed"``.
    kernel : {"gaussian", "polynomial", "linear"} or kernel object
        Kernel on the data.
    label_kernel : str
        Kernel on the labels, see `dhsic.kernels.labels.label_matrix`.
    bandwidth : "median", "dimension", float or sequence of floats
        Width of the data kernel; see `dhsic.kernels.bandwidth`. The median distance is that of
        all pairs up to 4,096 samples, and above of every so-many-th sample, at most 4,096 of
        them: the same samples by every method.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Linear effects to project out.
    method : {"exact", "blockwise", "nystrom", "cholesky", "spectral", "random_features"}
        ``"exact"`` holds K and L, (m, m), in memory. ``"blockwise"`` is as exact and never holds
        them: X may be anything that is sliced, such as a dask or zarr array. The others replace
        K by a factor of rank r and L by one of its own (JMLR Lemma 6 and 7): O(m r^2) time and,
        besides X, O(m r) memory.
    rank, tolerance, n_landmarks : optional
        Of the factor of K: its largest rank, where its factorizer stops (see `dhsic.lowrank`),
        and how many samples, or random directions, it is found from: 500 where none are given.
    random_state : int
        Seed of the methods that draw.
    by_position : bool
        Rows of `Y` and `covariates` are in the order of X, whatever they are called.

    Returns
    -------
    float
        The estimate. The unbiased one may be negative.

    Raises
    ------
    InputError
        Labels, data or parameters that do not fit, or that do not fit each other.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> x = np.linspace(-1, 1, 50)
    >>> dhsic.hsic(x, x**2) > 10 * abs(dhsic.hsic(x, np.tile([0, 1], 25)))
    True
    >>> exact, linear = (dhsic.hsic(x, x**2, method=m) for m in ("exact", "cholesky"))
    >>> bool(np.isclose(exact, linear))
    True
    """
    chosen = resolve_kernel(kernel)
    asked = Asked.of(X, Y, chosen, label_kernel, estimator, covariates, by_position=by_position)
    limits = _Limits(rank, tolerance, n_landmarks, random_state)
    pairing = _pairing(asked, method, limits)
    return pairing.values([chosen_sigma(pairing, resolve_bandwidth(bandwidth))])[0]


def hsic_variance(
    X: Any,
    Y: Any,
    *,
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "median",
    covariates: Any = None,
    method: str = "exact",
    rank: int | None = None,
    tolerance: float | None = None,
    n_landmarks: int | None = None,
    random_state: int = 0,
    by_position: bool = False,
) -> float:
    """Estimated variance of the unbiased estimator HSIC_1 (JMLR Theorem 5, eq. 15).

    It is that of the normal distribution which HSIC_1 approaches where X and Y depend on each
    other; where they do not, HSIC_1 varies by less, O(1 / m^2), and is not normal: use a test of
    independence there. Bandwidth and covariates count as given.

    Parameters
    ----------
    X, Y, kernel, label_kernel, bandwidth, covariates
        As of `hsic`.
    by_position
        As of `hsic`.
    method, rank, tolerance, n_landmarks, random_state
        As of `hsic`: O(m^2) time for ``"exact"`` and ``"blockwise"``, O(m r^2) for the others
        (JMLR 2.6.3).

    Returns
    -------
    float
        Not below 0; its square root is the standard error of `hsic`.

    Raises
    ------
    InputError
        As of `hsic`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> x = np.linspace(-1, 1, 50)
    >>> dhsic.hsic(x, x**2) > 3 * dhsic.hsic_variance(x, x**2) ** 0.5
    True
    """
    chosen = resolve_kernel(kernel)
    asked = Asked.of(X, Y, chosen, label_kernel, "unbiased", covariates, by_position=by_position)
    limits = _Limits(rank, tolerance, n_landmarks, random_state)
    pairing = _pairing(asked, method, limits)
    sigma = chosen_sigma(pairing, resolve_bandwidth(bandwidth))
    return variance_of_hsic(*pairing.influence(sigma))


@dataclass(frozen=True)
class Asked:
    """What a caller asks for, before any work; labels and covariates in the order of X."""

    X: Any
    Y: Array
    kernel: AbstractKernel
    label_kernel: str
    estimator: str
    covariates: Array | None

    @classmethod
    def of(
        cls,
        X: Any,
        Y: Any,
        kernel: AbstractKernel,
        label_kernel: str,
        estimator: str,
        covariates: Any,
        *,
        by_position: bool,
    ) -> Asked:
        """Match what was given by name; refused where samples are others than in X."""
        y = in_order(X, Y, "Y", by_position=by_position)
        C = None
        if covariates is not None:
            C = in_order(X, covariates, "covariates", by_position=by_position)
        return cls(X, y, kernel, label_kernel, estimator, C)

    def labels(self) -> LabelParts:
        """The labels, read."""
        return label_parts(self.Y, self.label_kernel, self.covariates).centred


@dataclass(frozen=True)
class _Limits:
    """What a caller asks of the factor of K."""

    rank: int | None
    tolerance: float | None
    n_landmarks: int | None
    seed: int

    def check(self, method: str) -> None:
        """Refuse limits where nothing is factored, and numbers that are none."""
        asked = {"rank": self.rank, "tolerance": self.tolerance, "n_landmarks": self.n_landmarks}
        given = [name for name, value in asked.items() if value is not None]
        if given and method in _EXACT:
            raise InputError(
                f"method={method!r} is exact and takes no {' and no '.join(given)}; leave it out, "
                "or pass method='nystrom'."
            )
        if self.n_landmarks is not None and not is_count(self.n_landmarks):
            raise InputError(f"n_landmarks={self.n_landmarks!r}; pass a whole number >= 1.")
        if not (is_count(self.seed) or self.seed == 0):
            raise InputError(f"random_state={self.seed!r}; pass a whole number >= 0.")

    def landmarks(self, method: str, X: Float) -> Landmarks:
        """What K of the samples X (m, d) is factored from."""
        m, d = X.shape
        n = LANDMARKS if self.n_landmarks is None else self.n_landmarks
        if method != "random_features":
            n = min(n, m) if self.n_landmarks is None else n
            return landmark_statistic(X, uniform_rows(m, n, self.seed))
        inner = np.zeros((n, m))
        for a in range(0, d, WIDTH):
            features = np.arange(a, min(a + WIDTH, d))
            inner += random_directions(self.seed, features, n) @ X[:, features].T
        return Landmarks(inner, np.einsum("ij,ij->i", X, X), None)


def _dense(asked: Asked) -> AbstractPairing:
    labels, kernel = asked.labels(), asked.kernel
    X = matrix_of(asked.X, labels.n_samples)
    everyone = slice(0, labels.n_samples)
    W = weights(labels.tile(everyone, everyone), asked.estimator, asked.covariates)
    X = X - X.mean(axis=0) if kernel.has_bandwidth else X  # distances keep their digits
    statistic = Statistic.of(X @ X.T)
    check_reach(kernel, float(statistic.diagonal.max()))
    return DensePairing(kernel, X.shape[1], W, statistic)


def matrix_of(given: Any, n_labels: int) -> Float:
    """X as numbers, (m, d); refused where it has not one row for each of the labels."""
    X = as_numbers(given, "X")
    X = X[:, None] if X.ndim == 1 else X
    _check_shape(X.shape, n_labels)
    return X


def _check_shape(shape: tuple[int, ...], n_labels: int) -> None:
    if len(shape) != 2 or shape[0] != n_labels or shape[1] == 0:
        raise InputError(
            f"X has shape {shape} and Y {n_labels} samples; pass one row a sample in both, "
            "and one feature or more."
        )


def _panelled(asked: Asked) -> AbstractPairing:
    labels, kernel = asked.labels(), asked.kernel
    data = SlicedData(asked.X, centred=kernel.has_bandwidth)
    _check_shape((data.n_samples, data.n_features), labels.n_samples)
    check_reach(kernel, float(data.norms.max()))
    W = PanelledWeights.of(labels, asked.estimator, asked.covariates)
    return PanelPairing(kernel, data, W)


def _factored(asked: Asked, method: str, limits: _Limits) -> AbstractPairing:
    labels, kernel = asked.labels(), asked.kernel
    X = matrix_of(asked.X, labels.n_samples)
    L = factor_of(labels)
    if L.error > LABEL_ERROR:
        raise InputError(
            f"The labels ({L.name}) need more than {L.B.shape[1]} directions: {L.error:.1%} of "
            "them is missing. Pass fewer targets, label_kernel='linear', or method='blockwise'."
        )
    W = factored_weights(L, asked.estimator, asked.covariates)
    if kernel.has_bandwidth:
        X -= X.mean(axis=0)  # distances keep their digits
    landmarks = limits.landmarks(method, X)
    check_reach(kernel, float(landmarks.norms.max()))
    factorizer = resolve_factorizer(method, rank=limits.rank, tolerance=limits.tolerance)
    few = X[:: -(-len(X) // MEDIAN_SAMPLES)]
    return FactoredPairing(kernel, X.shape[1], W, factorizer, limits.seed, landmarks, few)


def _pairing(asked: Asked, method: str, limits: _Limits) -> AbstractPairing:
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; pass one of {', '.join(METHODS)}.")
    limits.check(method)
    return _EXACT[method](asked) if method in _EXACT else _factored(asked, method, limits)


_EXACT: dict[str, Callable[[Asked], AbstractPairing]] = {"exact": _dense, "blockwise": _panelled}
METHODS = (*_EXACT, *FACTORIZERS)
