"""HSIC and its variance as functions of data and labels: the front door to the estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.hsic import factored_weights, variance_of_hsic, weights
from dhsic.independence.forms import HsicForm, LowRankHsic, TiledHsic, few_samples
from dhsic.independence.spec import HsicSpec, matched
from dhsic.independence.tiled import SlicedData, TiledWeights
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import DenseSymmetric
from dhsic.lowrank.base import Landmarks, is_count
from dhsic.lowrank.landmarks import CHUNK, landmark_statistic, random_directions, uniform_rows
from dhsic.lowrank.table import FACTORIZERS, resolve_factorizer

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
    labels, C = matched(X, Y, covariates, by_position=by_position)
    spec = HsicSpec.of(
        labels,
        C,
        kernel=kernel,
        label_kernel=label_kernel,
        bandwidth=bandwidth,
        estimator=estimator,
    )
    form = _form(spec, X, method, Limits(rank, tolerance, n_landmarks, random_state))
    return form.hsic(form.sigma(spec.policy))


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
    labels, C = matched(X, Y, covariates, by_position=by_position)
    spec = HsicSpec.of(
        labels,
        C,
        kernel=kernel,
        label_kernel=label_kernel,
        bandwidth=bandwidth,
        estimator="unbiased",
    )
    form = _form(spec, X, method, Limits(rank, tolerance, n_landmarks, random_state))
    return variance_of_hsic(*form.influence(form.sigma(spec.policy)))


@dataclass(frozen=True)
class Limits:
    """What a caller asks of the factor of K."""

    rank: int | None
    tolerance: float | None
    n_landmarks: int | None
    seed: int

    def check(self, method: str) -> None:
        """Refuse limits where nothing is factored, and numbers that are none."""
        asked = {"rank": self.rank, "tolerance": self.tolerance, "n_landmarks": self.n_landmarks}
        given = [name for name, value in asked.items() if value is not None]
        if given and method in EXACT:
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


def _form(spec: HsicSpec, X: Any, method: str, limits: Limits) -> HsicForm:
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; pass one of {', '.join(METHODS)}.")
    limits.check(method)
    return EXACT[method](spec, X) if method in EXACT else _low_rank(spec, X, method, limits)


def _dense(spec: HsicSpec, X: Any) -> HsicForm:
    values = spec.matrix_of(X)
    W = weights(spec.labels.L, spec.estimator, spec.covariates)
    values = spec.centred(values)
    statistic = Statistic.of(values @ values.T)
    spec.check_overflow(statistic.diagonal)
    return TiledHsic(spec.kernel, values.shape[1], DenseSymmetric(W), statistic)


def _tiled(spec: HsicSpec, X: Any) -> HsicForm:
    data = SlicedData(X, centred=spec.kernel.has_bandwidth)
    spec.check_shape((data.n_samples, data.n_features))
    spec.check_overflow(data.diagonal)
    W = TiledWeights.of(spec.labels, spec.estimator, spec.covariates)
    return TiledHsic(spec.kernel, data.n_features, W, data)


def _low_rank(spec: HsicSpec, X: Any, method: str, limits: Limits) -> HsicForm:
    values, L = spec.matrix_of(X), spec.labels.factor()
    if L.error > LABEL_ERROR:
        raise InputError(
            f"The labels ({spec.labels.description}) need more than {L.rank} directions: "
            f"{L.error:.1%} of them is missing. Pass fewer targets, label_kernel='linear', or "
            "method='blockwise'."
        )
    W = factored_weights(L, spec.estimator, spec.covariates)
    if spec.kernel.has_bandwidth:
        values -= values.mean(axis=0)  # in place: X may be all that there is room for
    landmarks = limits.landmarks(method, values)
    spec.check_overflow(landmarks.norms)
    factorizer = resolve_factorizer(method, rank=limits.rank, tolerance=limits.tolerance)
    few = few_samples(values)
    return LowRankHsic(spec.kernel, values.shape[1], W, factorizer, limits.seed, landmarks, few)


EXACT: dict[str, Callable[[HsicSpec, Any], HsicForm]] = {"exact": _dense, "blockwise": _tiled}
METHODS = (*EXACT, *FACTORIZERS)
