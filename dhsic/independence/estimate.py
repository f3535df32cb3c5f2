"""HSIC and its variance, as functions of data and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError, warn
from dhsic.hsic import check_statistic, factored_weights, variance_of_hsic, weights
from dhsic.independence.forms import (
    HsicForm,
    LowRankHsic,
    SlicedData,
    TiledHsic,
    TiledWeights,
)
from dhsic.joins.censoring import of_records
from dhsic.joins.covariates import covariates_of
from dhsic.joins.frame_rows import in_order, values_of
from dhsic.joins.labels import of_categories
from dhsic.kernels import check_overflow, resolve_kernel
from dhsic.kernels.bandwidth import AbstractBandwidth, few_samples, resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import LabelMatrix, label_matrix
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric
from dhsic.lowrank import FACTORIZERS, resolve_factorizer
from dhsic.lowrank.base import CHUNK, Landmarks, landmark_statistic, random_directions, uniform_rows
from dhsic.renamed import takes_former_names
from dhsic.sources.other_frames import in_pandas
from dhsic.validation import as_numbers, is_count

#: Maximum number of features whose random directions are in memory at a time.
WIDTH = 16 * CHUNK
#: Default number of landmarks (samples or random directions) from which K is factored.
LANDMARKS = 500
#: Maximum fraction of a label matrix that its low-rank factor may omit.
LABEL_ERROR = 1e-3
#: HSIC of a variable with itself counts as 0 below this multiple of the largest squared entry.
CONSTANT = 1e-14


@takes_former_names
def hsic(
    X: Any,
    Y: Any,
    *,
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "median",
    statistic: str = "unbiased",
    covariates: Any = None,
    method: str = "exact",
    rank: int | None = None,
    rtol: float | None = None,
    n_landmarks: int | None = None,
    random_state: int = 0,
    normalize: bool = False,
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
        Width of the data kernel; see `dhsic.kernels.bandwidth`. The median distance is computed
        over all pairs of samples. If there are more than 4,096 samples, at most 4,096 equally
        spaced samples are used, the same for every method.
    statistic : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Covariates whose linear effects are projected out.
    method : {"exact", "blockwise", "nystrom", "cholesky", "spectral", "random_features"}
        ``"exact"`` holds K and L, (m, m), in memory. ``"blockwise"`` is equally exact, but holds
        only blocks of them: X may be any array that can be sliced, such as a dask or zarr array.
        The other methods approximate K by a factor of rank r, and factor L, too (JMLR Lemma 6 and
        7): O(m r^2) time and, besides X, O(m r) memory.
    rank, rtol, n_landmarks : optional
        Parameters of the factor of K: the maximum rank, the error at which factorization stops
        (see `dhsic.lowrank`), and the number of samples, or of random directions, from which the
        factor is computed (default: 500).
    random_state : int
        Seed of the random methods.
    normalize : bool
        Divide by ``sqrt(HSIC(X, X) HSIC(Y, Y))``, with the same estimator, kernels and covariates.
        The result is the cosine of the centred kernel matrices: 1 if they are proportional, and 0,
        with a warning, if X does not vary. Not available for ``method="blockwise"``.
    by_position : bool
        Match rows of `Y` and `covariates` to rows of X by position instead of by name.

    Returns
    -------
    float
        The estimate. The unbiased one may be negative.

    Raises
    ------
    InputError
        If labels, data or parameters are invalid, or do not match each other.

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
    spec = HsicSpec.of(labels, C, kernel, label_kernel, bandwidth, statistic)
    if normalize and method == "blockwise":
        raise InputError(
            "normalize=True needs HSIC of X with itself, which method='blockwise' does not "
            "compute; pass method='exact' or 'nystrom'."
        )
    form = _form(spec, X, method, rank, rtol, n_landmarks, random_state)
    sigma = form.sigma(spec.policy)
    value = form.values([sigma])[0]
    return value if not normalize else _normalized(value, *_own(spec, form, sigma))


@takes_former_names
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
    rtol: float | None = None,
    n_landmarks: int | None = None,
    random_state: int = 0,
    by_position: bool = False,
) -> float:
    """Estimated variance of the unbiased estimator HSIC_1 (JMLR Theorem 5, eq. 15).

    If X and Y depend on each other, HSIC_1 is asymptotically normal with this variance. If they are
    independent, its variance is smaller, O(1 / m^2), and it is not normal; use a test of
    independence instead. Bandwidth and covariates are treated as fixed.

    Parameters
    ----------
    X, Y, kernel, label_kernel, bandwidth, covariates, by_position
        See `hsic`.
    method, rank, rtol, n_landmarks, random_state
        See `hsic`: O(m^2) time for ``"exact"`` and ``"blockwise"``, O(m r^2) for the others
        (JMLR 2.6.3).

    Returns
    -------
    float
        The variance, at least 0; its square root is the standard error of `hsic`.

    Raises
    ------
    InputError
        Like `hsic`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> x = np.linspace(-1, 1, 50)
    >>> dhsic.hsic(x, x**2) > 3 * dhsic.hsic_variance(x, x**2) ** 0.5
    True
    """
    labels, C = matched(X, Y, covariates, by_position=by_position)
    if len(labels) < 4:
        raise InputError(
            f"The variance of HSIC needs at least 4 samples, but there are {len(labels)}; collect "
            "more."
        )
    spec = HsicSpec.of(labels, C, kernel, label_kernel, bandwidth, "unbiased")
    form = _form(spec, X, method, rank, rtol, n_landmarks, random_state)
    return variance_of_hsic(*form.influence(form.sigma(spec.policy)))


@dataclass(frozen=True, eq=False)
class HsicSpec:
    """Specification of an estimate: labels, kernel, bandwidth and estimator, without data."""

    labels: LabelMatrix
    covariates: Array | None
    kernel: AbstractKernel
    policy: AbstractBandwidth
    statistic: str

    def __post_init__(self) -> None:
        check_statistic(self.statistic, self.labels.n_samples)

    @staticmethod
    def of(
        labels: Array,
        covariates: Array | None,
        kernel: object,
        label_kernel: str,
        bandwidth: object,
        statistic: str,
    ) -> HsicSpec:
        """Create a specification from user parameters; labels are in the order of the data."""
        chosen, policy = resolve_kernel(kernel), resolve_bandwidth(bandwidth)
        L = label_matrix(labels, label_kernel, covariates).centred
        return HsicSpec(L, covariates, chosen, policy, statistic)

    @cached_property
    def tiled_weights(self) -> TiledWeights:
        return TiledWeights.of(self.labels, self.statistic, self.covariates)

    def matrix_of(self, X: Any) -> Float:
        """Convert X to numbers, (m, d); raise an error unless it has one row per label."""
        values = as_numbers(X, "X")
        values = values[:, None] if values.ndim == 1 else values
        self.check_shape(values.shape)
        return values

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise an error for data whose shape is not (m, d)."""
        m = self.labels.n_samples
        if len(shape) != 2 or shape[0] != m or shape[1] == 0:
            raise InputError(
                f"X has shape {shape}, but Y has {m} samples; pass one row per sample in both, and "
                "at least one feature."
            )

    def centred(self, X: Float) -> Float:
        """Subtract the means of X if the kernel uses distances; this makes them more precise."""
        return X - X.mean(axis=0) if self.kernel.has_bandwidth else X

    def check_overflow(self, norms: Float) -> None:
        """Raise an error if the kernel overflows for samples with these squared norms."""
        check_overflow(self.kernel, float(norms.max()))


def matched(X: Any, Y: Any, covariates: Any, *, by_position: bool) -> tuple[Array, Array | None]:
    """Return labels and covariates in the order of X; InputError if their samples differ."""
    values = values_of(of_categories(in_pandas(Y)), "Y")
    labels = in_order(X, Y, "Y", values, by_position=by_position)
    if labels.dtype.names is not None:
        labels = of_records(labels, what="Y")
    if covariates is None:
        return labels, None
    C = covariates_of(covariates)
    return labels, in_order(X, covariates, "covariates", C, by_position=by_position)


def _form(
    spec: HsicSpec,
    X: Any,
    method: str,
    rank: int | None,
    rtol: float | None,
    n_landmarks: int | None,
    seed: int,
) -> HsicForm:
    """Create the object that computes HSIC, ``<W, K>``, by a method.

    W are label weights, and K is the kernel matrix; for the other parameters, see `hsic`.
    """
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; pass one of {', '.join(METHODS)}.")
    factor_options = {"rank": rank, "rtol": rtol, "n_landmarks": n_landmarks}
    options = [name for name, value in factor_options.items() if value is not None]
    if options and method in EXACT:
        raise InputError(
            f"method={method!r} is exact and does not accept {' or '.join(options)}; leave it out, "
            "or pass method='nystrom'."
        )
    if n_landmarks is not None and not is_count(n_landmarks):
        raise InputError(f"n_landmarks={n_landmarks!r}; pass a whole number >= 1.")
    check_seed(seed)
    if method in EXACT:
        return EXACT[method](spec, X)
    values, W = spec.matrix_of(X), _factored(spec)
    if spec.kernel.has_bandwidth:
        values -= values.mean(axis=0)  # in place, because X may fill the memory
    landmarks = _landmarks(method, values, n_landmarks, seed)
    spec.check_overflow(landmarks.norms)
    factorizer = resolve_factorizer(method, rank=rank, rtol=rtol)
    factor = partial(factorizer.factor, spec.kernel, landmarks=landmarks, base=None, seed=seed)
    return LowRankHsic(spec.kernel, values.shape[1], W, factor, few_samples(values))


def _own(spec: HsicSpec, form: HsicForm, sigma: float) -> list[float]:
    """Return HSIC(X, X) and HSIC(Y, Y); values within rounding error become 0."""
    statistic, C, own_values = spec.statistic, spec.covariates, []
    if isinstance(form, LowRankHsic):
        for A in (form.factor(sigma), spec.labels.factor()):
            own = float(factored_weights(A, statistic, C).hadamard_sums(A).sum())
            own_values.append(own if own > CONSTANT * float(np.abs(A.diagonal).max()) ** 2 else 0.0)
        return own_values
    norms = form.sample().diagonal  # `sample` has all samples, because the form is dense
    K = spec.kernel.gram(form.sample().to_dense(), norms, norms, sigma)
    for matrix in (K, spec.labels.L):
        own = float(np.vdot(weights(matrix, statistic, C), matrix))
        own_values.append(own if own > CONSTANT * float(np.abs(matrix).max()) ** 2 else 0.0)
    return own_values


def _normalized(value: float, x: float, y: float) -> float:
    """Return ``value / sqrt(x y)``, or 0 with a warning if x or y is 0."""
    if x > 0 and y > 0:
        return value / float(np.sqrt(x) * np.sqrt(y))
    warn(
        f"HSIC of {'Y' if x > 0 else 'X'} with itself is 0, because it is constant or has too few "
        "samples; the normalized HSIC is set to 0.",
    )
    return 0.0


def _dense(spec: HsicSpec, X: Any) -> HsicForm:
    values = spec.centred(spec.matrix_of(X))
    W = weights(spec.labels.L, spec.statistic, spec.covariates)
    statistic = Statistic.of(values @ values.T)
    spec.check_overflow(statistic.diagonal)
    return TiledHsic(spec.kernel, values.shape[1], DenseSymmetric(W), statistic)


def tiled(spec: HsicSpec, X: Any) -> HsicForm:
    """Create the object that computes HSIC exactly in tiles, without (m, m) matrices.

    X may be any sliceable array.
    """
    data = SlicedData(X, centred=spec.kernel.has_bandwidth)
    spec.check_shape((data.n_samples, data.n_features))
    spec.check_overflow(data.diagonal)
    return TiledHsic(spec.kernel, data.n_features, spec.tiled_weights, data)


def _factored(spec: HsicSpec) -> LowRankSymmetric:
    """Low-rank label weights W (m, m), computed from the low-rank factor of the label matrix."""
    L = spec.labels.factor()
    if L.error > LABEL_ERROR:
        raise InputError(
            f"The labels ({spec.labels.description}) cannot be represented with rank {L.rank}: "
            f"{L.error:.1%} of the label kernel matrix is lost. Pass fewer targets, "
            "label_kernel='linear', or method='blockwise'."
        )
    return factored_weights(L, spec.statistic, spec.covariates)


def _landmarks(method: str, X: Float, n_landmarks: int | None, seed: int) -> Landmarks:
    """Choose the landmarks from which the kernel matrix of X (m, d) is factored."""
    m, d = X.shape
    n = LANDMARKS if n_landmarks is None else n_landmarks
    if method != "random_features":
        n = min(n, m) if n_landmarks is None else n
        return landmark_statistic(X, uniform_rows(m, n, seed))
    inner = np.zeros((n, m))
    for a in range(0, d, WIDTH):
        features = np.arange(a, min(a + WIDTH, d))
        inner += random_directions(seed, features, n) @ X[:, features].T
    return Landmarks(inner, np.einsum("ij,ij->i", X, X), None)


def check_seed(seed: object) -> None:
    """Raise an error unless the random state is a whole number from 0."""
    if not is_count(seed, 0):
        raise InputError(f"random_state={seed!r}; pass a whole number >= 0.")


EXACT: dict[str, Callable[[HsicSpec, Any], HsicForm]] = {"exact": _dense, "blockwise": tiled}
METHODS = (*EXACT, *FACTORIZERS)
