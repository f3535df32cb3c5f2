r"""Functional ANOVA of HSIC: shares of the main effects and pairs of a few features.

HSIC is linear in the kernel. If the kernel is a sum over sets u of features, HSIC is also a sum,

    ``K = sum_u K_u``,  ``HSIC = sum_u <W, K_u>``,

exactly, for any data (see Kuo et al., 2010, for functions; Durrande et al., 2013, for kernels; da
Veiga, arXiv:2101.05487, for HSIC). The term of one feature is its main effect, the term of two
features is their joint effect, and the terms of all larger sets are reported as one sum. The
decompositions of kernels are:

- for a kernel that is a product over features, such as the Gaussian, the product of single-feature
  kernels centred over the samples,

      ``K = prod_j (1 + k0_j)``,  ``K_u = prod_(j in u) k0_j``,
      ``k0(x, x') = k(x, x') - E k(x, .) - E k(., x') + E E k``.

  ``<W, k0_j>`` is HSIC of feature j alone, since rows of W sum to 0. The functions that k0_j spans
  have mean 0 over the samples, so the term of a pair of independent features contains only their
  joint effect. (Durrande et al. define k0 as ``k - E k(x, .) E k(., x') / E E k``; then a main
  effect lacks one direction.) The Gaussian kernel itself is ``prod_j k_j``, which mixes the orders:
  k_j differs from ``1 + k0_j`` by functions of one of the two samples, which centring removes;
- for the polynomial kernel ``(<x, x'> + a)^b``: its own terms, each assigned to its features. For
  degree 2 these are ``2 a x_j x'_j + (x_j x'_j)^2`` and ``2 x_j x_k x'_j x'_k``;
- for kernels that are sums over features (linear, delta): main effects only.

If features are redundant, each of them has a share, and their pair has a share too. A share belongs
to a term of the kernel and does not show a cause. With the unbiased estimator, the share of a null
term is near 0 and may be negative. With the biased one, shares are never negative, and the sum of
many small terms is too large.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.hsic import checked_weights
from dhsic.independence import features_at, standardised
from dhsic.independence.estimate import HsicSpec
from dhsic.joins.filters import Filters
from dhsic.joins.keys import as_text
from dhsic.joins.labels import Labelled
from dhsic.joins.text import check_coded
from dhsic.kernels import KERNELS, AbstractKernel, Gaussian, check_bandwidth, resolve_kernel
from dhsic.kernels.bandwidth import DistanceStats
from dhsic.kernels.statistic import Statistic
from dhsic.memory import MemoryEstimate, resident_bytes
from dhsic.methods.base import Standardize
from dhsic.namespace import slices
from dhsic.pairs.table import pair_table
from dhsic.passes.call_counts import counting_on
from dhsic.renamed import takes_former_names
from dhsic.runtime import running
from dhsic.sources import AbstractSource
from dhsic.sources.columns import NAME
from dhsic.sources.ids import abbreviate
from dhsic.sources.views import STORED, stored_positions, whole_of
from dhsic.validation import BYTES

#: Maximum number of entries of single-feature kernels in memory at a time.
AT_ONCE = 1 << 22
#: A share of higher-order terms below this counts as 0.
ROUNDING = 1e-12
#: Descriptions of the columns.
DESCRIPTIONS = {
    "first": "position of the feature, or of the first feature of the pair, in the data",
    "second": "position of the second feature, -1 for a main effect",
    "first_feature": "name of the feature, or of the first feature of the pair",
    "second_feature": "name of the second feature, empty for a main effect",
    "hsic": "HSIC of the labels and this term of the kernel",
    "share": "share of the term in HSIC of all selected features",
}


@dataclass(frozen=True)
class KernelTerms:
    """Main effects and pairs of a kernel, as sums of powers of single-feature kernels Z_j.

    `main` contains pairs (coefficient, power), and `pairs` contains triples (coefficient, power of
    j, power of k).
    """

    main: tuple[tuple[float, int], ...]
    pairs: tuple[tuple[float, int, int], ...]

    @classmethod
    def of(cls, kernel: AbstractKernel) -> KernelTerms:
        """Terms of a kernel.

        Raises InputError if the kernel is not a product, a power or a sum over features.
        """
        if kernel.is_product:
            return cls(((1.0, 1),), ((1.0, 1, 1),))
        if kernel.is_additive:
            return cls(((1.0, 1),), ())
        if kernel.power is None:
            raise InputError(
                f"kernel={kernel.name!r} cannot be decomposed into terms of sets of features; "
                "pass kernel='gaussian', 'laplace-l1', 'polynomial' or 'linear'."
            )
        b, a = kernel.power
        main = tuple((comb(b, r) * a ** (b - r), r) for r in range(1, b + 1))
        both = combinations_with_replacement(range(1, b), 2)
        powers = {order for r, s in both if r + s <= b for order in ((r, s), (s, r))}
        return cls(
            main,
            tuple(
                (comb(b, r) * comb(b - r, s) * a ** (b - r - s), r, s) for r, s in sorted(powers)
            ),
        )


@takes_former_names
def shares(
    data: Any,
    target: Any,
    selection: Any,
    *,
    kernel: str | AbstractKernel = "auto",
    bandwidth: object = "dimension",
    label_kernel: str = "auto",
    statistic: str = "unbiased",
    standardize: Standardize = "auto",
    covariates: Any = None,
    missing: str = "mean",
    memory_limit: int | None = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
) -> xr.Dataset:
    """Decompose HSIC of selected features into main effects and pairs.

    The module docstring of `dhsic.interactions.anova` defines the decomposition. It needs kernel
    matrices of all samples, and ``p^2 m^2`` products for p features of m samples.

    Parameters
    ----------
    data, target
        As in `find_pairs`.
    selection : Dataset, selector or sequence
        A result of `dhsic.select`, a fitted selector, or positions or names of features.
    kernel : "auto", str or kernel object
        A product over features (``"gaussian"``, ``"laplace-l1"``), ``"polynomial"``, or a sum
        (``"linear"``, ``"delta"``); ``"auto"`` is the kernel of the selection if it is one of
        these, otherwise the Gaussian.
    bandwidth, label_kernel, statistic, standardize, missing
        As in `BAHSIC`, for the selected features alone; grids of widths are rejected.
    covariates, sample_dim, variable, missing_code, pass_only, filters, by_position
        As in `dhsic.select`.
    memory_limit : int, optional
        Memory limit of this process in bytes; by default the memory of the machine.

    Returns
    -------
    xarray.Dataset
        A row for each main effect and pair, the largest share first: ``first``, ``second`` (-1 for
        a main effect), names, ``hsic``, ``share``. Attributes: total ``hsic``, its shares
        ``main_effects``, ``pairs`` and ``higher_order``, which add up to 1; ``kernel``, ``sigma``
        and ``estimator``.

    Raises
    ------
    InputError
        Labels, features or parameters are invalid, or there is no dependence to decompose.
    MemoryBudgetError
        The kernel matrices do not fit in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.interactions import shares
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 30))
    >>> y = X[:, 1] + 2 * X[:, 3] * X[:, 8] + rng.standard_normal(300)
    >>> found = shares(X, y, [1, 3, 8], kernel="polynomial")
    >>> found["first"].values[:2].tolist(), found["second"].values[:2].tolist()
    ([1, 3], [-1, 8])
    """
    BYTES("memory_limit", memory_limit)
    where: Any = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    where |= {"pass_only": pass_only, "filters": filters, "by_position": by_position}
    labelled = opened(data, target, covariates, "threads", **where)
    choices = kernel, bandwidth, label_kernel, statistic, standardize
    return shares_of(labelled, selection, *choices, missing=missing, memory_limit=memory_limit)


def opened(data: Any, target: Any, covariates: Any, runtime: Any, **options: Any) -> Labelled:
    """Open data together with their labels; `options` are the options of `dhsic.select`."""
    counting = counting_on(partial(running, runtime))
    labelled = Labelled.of(data, target, covariates, counting=counting, **options)
    check_coded(data, y=labelled.y, covariates=labelled.covariates)
    return labelled


def shares_of(
    given: Labelled,
    selection: Any,
    kernel: str | AbstractKernel = "auto",
    bandwidth: object = "dimension",
    label_kernel: str = "auto",
    statistic: str = "unbiased",
    standardize: Standardize = "auto",
    *,
    missing: str = "mean",
    memory_limit: int | None = None,
) -> xr.Dataset:
    """Decompose HSIC of open data, see `shares`."""
    resolved = kernel_of(selection) if kernel == "auto" else resolve_kernel(kernel)
    terms = KernelTerms.of(resolved)
    chosen = ChosenFeatures.of(selection, given.source)
    if chosen.elsewhere.size:
        raise InputError(
            f"selection= has {chosen.elsewhere.size} features that the filters exclude, but "
            "shares need all selected features. Pass the filters of the selection, or fewer "
            "filters."
        )
    which = chosen.here
    check_bandwidth(resolved, bandwidth)
    if given.y is None or not which.size:
        raise InputError("Shares need a target, and at least one feature in selection=.")
    spec = HsicSpec.of(given.y, given.covariates, resolved, label_kernel, bandwidth, statistic)
    m = spec.labels.n_samples
    MemoryEstimate(resident_bytes(), squares=32 * m * m, tasks=40 * AT_ONCE).check(memory_limit)
    X, *_ = standardised(given.source, which, given.rows, missing, standardize, resolved)
    spec.check_shape(X.shape)
    if resolved.of_inner_products:
        spec.check_overflow(np.einsum("ij,ij->i", X, X))
    W = checked_weights(spec.labels.L, statistic, given.covariates)
    sigma = _width(spec, X, W)
    hsic, main, pairs = shared_out(X, W, resolved, terms, sigma)
    if hsic <= 0:
        raise InputError(
            f"The {statistic} estimate of HSIC of the {len(which)} features and the labels is "
            f"{hsic:.3g}, so there are no shares. Pass features that the labels depend on."
        )
    about = {"kernel": resolved.name, "sigma": sigma, "estimator": statistic, "n_samples": m}
    return _table(given.source, which, hsic, main, pairs).assign_attrs(about)


def kernel_of(selection: Any) -> AbstractKernel:
    """Kernel of a selection if its terms are known; otherwise the Gaussian kernel."""
    attributes = getattr(getattr(selection, "result_", selection), "attrs", {})
    parameters = json.loads(attributes.get("parameters", "{}"))
    name = parameters.get("kernel")
    if name not in KERNELS:
        return Gaussian()
    fields = {
        k.removeprefix("kernel_"): v for k, v in parameters.items() if k.startswith("kernel_")
    }
    selected_kernel = KERNELS[name](**fields)
    is_known = (
        selected_kernel.is_product
        or selected_kernel.is_additive
        or selected_kernel.power is not None
    )
    return selected_kernel if is_known else Gaussian()


def shared_out(
    X: Float, W: Float, kernel: AbstractKernel, terms: KernelTerms, sigma: float
) -> tuple[float, Float, Float]:
    """HSIC of X (m, p), its main effects (p,), and its pairs (p, p) in the upper triangle.

    The results are sums over strips of samples. With the kernels of single features as rows of Z,
    and the weights w of the labels, the pairs are ``(Z^r o w) (Z^s)'``.
    """
    p = X.shape[1]
    hsic, main, pairs = 0.0, np.zeros(p), np.zeros((p, p))
    for rows, Z in _strips(X, kernel, sigma, _means(X, kernel, sigma)):
        w, flat = W[rows].ravel(), Z.reshape(p, -1)
        for c, r in terms.main:
            main += c * (flat**r @ w)
        for c, r, s in terms.pairs:
            pairs += c * ((flat**r * w) @ (flat**s).T)
        hsic += float(_joint_kernel(flat, kernel) @ w)
    return hsic, main, np.triu(pairs, 1)


def _means(X: Float, kernel: AbstractKernel, sigma: float) -> Float:
    """Means (p, m) that centre single-feature kernels when subtracted from rows and columns."""
    nothing = np.zeros(X.T.shape)
    if not kernel.is_product:
        return nothing
    parts = [Z.mean(axis=2) for _, Z in _strips(X, kernel, sigma, nothing)]
    means = np.concatenate(parts, axis=1)
    return np.asarray(means - means.mean(axis=1, keepdims=True) / 2)


def _strips(
    X: Float, kernel: AbstractKernel, sigma: float, means: Float
) -> Iterator[tuple[slice, Float]]:
    """Yield a range of r rows, and the single-feature kernels (p, r, m) of these rows.

    If the kernel is a product, these are ``k - 1``, centred.
    """
    m, p = X.shape
    for rows in slices(m, max(1, AT_ONCE // (p * m))):
        Z = np.empty((p, rows.stop - rows.start, m))
        for j, x in enumerate(X.T):
            np.subtract(_single(x, rows, kernel, sigma), means[j], out=Z[j])
            Z[j] -= means[j, rows, None]
        yield rows, Z


def _single(x: Float, rows: slice, kernel: AbstractKernel, sigma: float) -> Float:
    """Rows of the kernel of one feature x (m,); for product kernels, ``k - 1``."""
    if kernel.is_product:  # expects minus sigma
        return kernel.factor((x[rows, None] - x) ** 2, -sigma)
    if kernel.is_additive:
        nothing = np.empty((0, 0))
        return -kernel.decrement(nothing, nothing, nothing, x[rows], x, sigma)
    return x[rows, None] * x


def _joint_kernel(Z: Float, kernel: AbstractKernel) -> Float:
    """Kernel values (n,) of all features together, from single-feature kernels (p, n)."""
    if kernel.is_product:
        return np.asarray((1 + Z).prod(axis=0))
    total: Float = Z.sum(axis=0)
    return total if kernel.is_additive else kernel.gram(total, total, total, 1.0)


def _width(spec: HsicSpec, X: Float, W: Float) -> float:
    """Width of the kernel on X (m, p); 1 for a kernel without a width."""
    if not spec.kernel.has_bandwidth:
        return 1.0
    statistic = np.zeros(W.shape, order="F")
    spec.kernel.sums.add(statistic, np.ascontiguousarray(X.T))
    return spec.policy(DistanceStats(spec.kernel, W, Statistic(statistic)), X.shape[1])


def _table(
    source: AbstractSource, which: Index, hsic: float, main: Float, pairs: Float
) -> xr.Dataset:
    """Build the table of main effects and pairs, largest first.

    The attributes of the table are HSIC, and the sums of main effects and of pairs.
    """
    j, k = np.triu_indices(len(which), 1)
    values = np.concatenate([main, pairs[j, k]])
    order = np.argsort(-values, kind="stable")
    first = which[np.concatenate([np.arange(len(which)), j])[order]]
    second = np.concatenate([np.full(len(which), -1), which[k]])[order]
    columns: dict[str, Array] = {"hsic": values[order], "share": values[order] / hsic}
    parts = {"main_effects": main.sum() / hsic, "pairs": pairs.sum() / hsic}
    remainder = 1 - parts["main_effects"] - parts["pairs"]
    parts["higher_order"] = remainder if abs(remainder) > ROUNDING else 0.0
    attributes = {"hsic": hsic, **{name: float(part) for name, part in parts.items()}}
    table = pair_table(source, "effects", first, second, columns, DESCRIPTIONS)
    return table.assign_attrs(attributes)


@dataclass(frozen=True)
class ChosenFeatures:
    """Features of a selection, ascending: features in a source, and features excluded by filters.

    Attributes
    ----------
    here : (k,)
        Positions in the source.
    elsewhere : (n,)
        Positions in the stored data of features that are not in the source.
    """

    here: Index
    elsewhere: Index

    @classmethod
    def of(cls, selection: Any, source: AbstractSource) -> ChosenFeatures:
        """Features of a selection, see `find_pairs`; no features if `selection` is None."""
        if selection is None:
            return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        result, stored = getattr(selection, "result_", selection), stored_positions(source)
        if isinstance(result, xr.Dataset):
            chosen = _selected(result, whole_of(source))
        else:
            chosen = features_at(result, whole_of(source))
        return cls(np.flatnonzero(np.isin(stored, chosen)), np.setdiff1d(chosen, stored))


def _selected(result: xr.Dataset, whole: AbstractSource) -> Index:
    """Positions in the data of the features that a result selects.

    Features are matched by name if the result and the data have names.
    """
    if "selected" not in result:
        raise InputError(
            "selection= is a Dataset without the variable 'selected'; pass a result of "
            "dhsic.select, a fitted selector, or positions of features."
        )
    if result["selected"].ndim != 1:
        raise InputError(
            f"selection= has several runs, along {str(result['selected'].dims[0])!r}; pass one "
            "of them."
        )
    selected, names = result["selected"].to_numpy().astype(bool), whole.feature_names()
    at = result[STORED].to_numpy() if STORED in result.coords else np.arange(selected.size)
    chosen: Index = at[selected]
    n = at.size + int(result.attrs.get("n_features_filtered", 0))
    if NAME in result.coords and names is not None:
        mine, theirs = as_text(result[NAME].to_numpy()), as_text(names)
        is_same = n == theirs.size and np.array_equal(mine, theirs[at])
        return chosen if is_same else _called(mine[selected], theirs)
    if n != whole.n_features:
        raise InputError(
            f"selection= has {n} features, but the data have {whole.n_features}, and they cannot "
            "be matched because feature names are missing; pass a selection from the same data."
        )
    return chosen


def _called(wanted: Array, names: Array) -> Index:
    """Positions of features by name; raises InputError for missing or repeated names."""
    each = pd.Index(wanted).unique()
    place = each.get_indexer(pd.Index(names))
    times = np.bincount(place[place >= 0], minlength=each.size)
    repeated = (times > 1) | each.isin(wanted[pd.Index(wanted).duplicated()])
    faults = {"missing": each[times == 0], "repeated": each[repeated]}
    bad = [f"{of.size:,} {what} ({abbreviate(of)})" for what, of in faults.items() if of.size]
    if bad:
        raise InputError(
            f"The {wanted.size:,} features of selection= cannot be matched to the data by name: "
            f"{'; '.join(bad)}. Pass a selection from data with the same, unique names."
        )
    return np.flatnonzero(place >= 0)
