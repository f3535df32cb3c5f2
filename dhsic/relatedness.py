r"""Related samples: their principal components, and labels less what relatives predict of them.

Principal components say how samples resemble each other over all features: they are eigenvectors
of ``A = Z Z' / d``, (m, m), over the d features that vary. Of dosages, which are
counts x of one of `ploidy` alleles, A is the genetic relationship matrix of GCTA and PLINK 2,

    ``z_ij = (x_ij - 2 p_j) / sqrt(2 p_j (1 - p_j))``,   ``p_j`` = mean of ``x_j`` over 2,

and of other data z is standardised. Missing values are the mean of their feature.

Up to `MOST_EXACT` samples A is added up in one pass and decomposed. Of more, a pass gives A times
a block of vectors, and a few passes the block Krylov space of A and a random start (Musco and
Musco, 2015; Galinsky et al., 2016). With Q (m, l) a basis of it, what A is known to be is its
Nyström approximation ``AQ (Q'AQ)^+ (AQ)'`` (Tropp et al., 2017), whose eigenvalues lie between
those of ``Q'AQ`` and those of A. How far off they may be follows from the same products: for every
eigenvalue theta of ``Q'AQ``, v its vector, one of A lies within ``||A v - theta v||`` of it.

A trait of many genes follows relatedness and populations, and so does every variant. As REGENIE
does (Mbatchou et al., 2021), `residuals_by_chromosome` gives each chromosome what ridge regression
on the variants of all others leaves of the labels: what is predicted is taken out, and what the
chromosome itself tells stays in (leave one chromosome out). With K of the other chromosomes, after
mean and covariates (basis Q) are out of it, and ``V = K + lambda I``, a sample is predicted from
all others:

    ``e_i = (V^-1 y)_i / ((V^-1)_ii - (Q Q')_ii / lambda)``,

which but for the denominator, nearly the same everywhere, is ``V^-1 y`` of a linear mixed model.
Lambda is the one of `PENALTIES` by which all chromosomes together predict best.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy.linalg import eigh

from dhsic._typing import Float, Index
from dhsic.algorithms.ridge import PENALTIES, inverse
from dhsic.errors import InputError
from dhsic.joins.filters import Filters
from dhsic.joins.labels import Labelled
from dhsic.joins.places import chromosome_codes
from dhsic.joins.table import names_of
from dhsic.kernels.statistic import Statistic, zero_upper
from dhsic.linalg.quadratic import add_products
from dhsic.memory import VECTORS, MemoryEstimate, resident_bytes, task_bytes
from dhsic.passes import TILE, AbstractSum, Cost, Tile, cut, exact_tile
from dhsic.passes.call_counts import counting_on
from dhsic.passes.jobs import block_bytes, grouped, n_partials
from dhsic.passes.once import looked_at
from dhsic.passes.reader import COMPACT_BYTES, Reader
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import Scaling
from dhsic.sources.variants import NOT_AUTOSOMES, NOWHERE
from dhsic.sources.vcz import DIPLOID
from dhsic.sources.views import SubsetSource
from dhsic.validation import BYTES, is_count, seed_of

#: Samples up to which all of A is added up, and passes over more by default.
MOST_EXACT, PASSES = 4096, 2
#: Vectors of a block beside two for each component.
MORE = 10
#: Directions shorter than this part of the longest are none.
NOTHING = 1e-10
#: (m, m) matrices of a decomposition, and blocks of a Krylov space for each pass.
SQUARES, BLOCKS = 4, 6


def pca(
    data: Any,
    n_components: int = 10,
    *,
    passes: int | None = None,
    missing: Literal["mean", "error"] = "mean",
    random_state: Any = 0,
    memory: int | None = None,
    runtime: Literal["auto", "threads", "dask"] | AbstractRuntime = "auto",
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
) -> xr.DataArray:
    """Find the principal components of the samples, for instance to pass them as covariates.

    Parameters
    ----------
    data : path, URL, array, frame, xarray or source
        Samples x features, as of `dhsic.select`. Dosages (0, 1, 2) are scaled as PLINK 2 does, by
        ``sqrt(2 p (1 - p))``, all else to unit deviation; constant features are left out, and
        variants that lie on no autosome (X, Y, MT, or no known chromosome) unless there are no
        others.
    n_components : int
        How many.
    passes : int, optional
        Passes over the data for randomised components, the more the closer; by default two of
        more than 4,096 samples, and one for exact ones up to there. Another one goes before where
        it must be looked whether values are dosages.
    missing : {"mean", "error"}
        Missing values are the mean of their feature, or refused.
    random_state : int
        Seed of the randomised ones.
    memory : int, optional
        Bytes that this process may take; by default what the machine has.
    runtime : {"auto", "threads", "dask"} or AbstractRuntime
        As of `dhsic.select`; the bits are the same everywhere.
    sample_dim, variable, missing_code, pass_only, filters
        As of `dhsic.select`.

    Returns
    -------
    xarray.DataArray
        (samples, components): columns of unit length, the largest entry of each positive, with the
        names of the samples where they have any. Along the components stand ``eigenvalue``,
        ``share`` (of the variance, which is the sum of all m eigenvalues) and ``error``, by which
        part of itself the eigenvalue may be off: 0 where components are exact. It is what
        ``covariates=`` takes.

    Raises
    ------
    InputError
        More components than the data have, or parameters that mean nothing.
    MemoryBudgetError
        It does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> X = np.random.default_rng(0).integers(0, 3, (60, 500))
    >>> X[:30, :100] = 0
    >>> components = dhsic.pca(X, 2)
    >>> components.shape, bool((components[:30, 0] > 0).all() != (components[30:, 0] > 0).all())
    ((60, 2), True)
    """
    BYTES("memory", memory)
    if missing not in ("mean", "error"):
        raise InputError(f"missing={missing!r} is unknown; pass 'mean' or 'error'.")
    where = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    given = Labelled.of(
        data,
        None,
        filters=filters,
        counting=counting_on(partial(running, runtime)),
        pass_only=pass_only,
        **where,
    )
    names = names_of(data) if hasattr(data, "iloc") else given.source.sample_names()
    names = None if names is None else given.filtered.samples_of(names)
    asked = ComponentsAsked(n_components, passes, missing, seed_of(random_state), memory)
    with running(runtime) as there:
        return asked.of(given, there, names)


@dataclass(frozen=True, slots=True)
class ComponentsAsked:
    """What is asked; parameters as of `pca`."""

    n: int = 10
    passes: int | None = None
    missing: str = "mean"
    seed: int = 0
    memory: int | None = None

    def of(self, given: Labelled, runtime: AbstractRuntime, names: Any = None) -> xr.DataArray:
        """Components of data that are open, whose samples have `names`, see `pca`."""
        source, rows = autosomal(given.source), given.rows
        m = source.n_samples if rows is None else len(rows)
        self._check(m, source.n_features)
        n_passes = self.n_passes(m)
        self._promised(source, m, n_passes, runtime).check(self.memory)
        reader, kind = looked_at(source, runtime, rows)
        ploidy = (source.ploidy or DIPLOID) if kind.dosages else None
        with closing(reader), single_blas_thread():
            values, vectors, errors, total = _components(reader, self, ploidy, n_passes)
        coords = {
            "components": [f"PC{i}" for i in range(1, self.n + 1)],
            "eigenvalue": ("components", values),
            "share": ("components", values / total),
            "error": ("components", errors),
        }
        about = {
            "n_samples": m,
            "n_features": source.n_features,
            "n_not_autosomal": given.source.n_features - source.n_features,
            "n_constant": int(reader.scaling.constant.sum()),
            "scaled_by": "the deviation" if ploidy is None else "sqrt(2 p (1 - p))",
            "passes": n_passes or 1,
            "is_exact": int(not n_passes),
            "random_state": self.seed,
            **given.filtered.attributes(),
        }
        dims = "samples", "components"
        named = {} if names is None else {"samples": names}
        return xr.DataArray(vectors, {**named, **coords}, dims, "components", about)

    def n_passes(self, m: int) -> int:
        """Passes of a randomised one over m samples, 0 for an exact one."""
        return self.passes or (0 if m <= MOST_EXACT else PASSES)

    def width(self, m: int, d: int) -> int:
        """Vectors of a block."""
        return min(2 * self.n + MORE, m - 1, d)

    def _check(self, m: int, d: int) -> None:
        if not is_count(self.n) or (self.passes is not None and not is_count(self.passes)):
            raise InputError(
                f"n_components={self.n!r} and passes={self.passes!r}; pass whole numbers from 1."
            )
        if self.n > min(m - 1, d):
            raise InputError(
                f"n_components={self.n}, and {m} samples of {d} features have at most "
                f"{max(0, min(m - 1, d))}; pass fewer."
            )

    def _promised(
        self, source: AbstractSource, m: int, n_passes: int, runtime: AbstractRuntime
    ) -> MemoryEstimate:
        """Memory needed at most."""
        d = source.n_features
        result = Relate(None, np.empty((m, self.width(m, d))) if n_passes else None).cost(m).result
        tasks = runtime.n_here, block_bytes(source, m), exact_tile(m), result, n_partials(d)
        stored = m * d * np.dtype(source.dtype).itemsize
        return MemoryEstimate(
            resident_bytes(),
            squares=BLOCKS * n_passes * result or SQUARES * 8 * m * m,
            survivors=min(COMPACT_BYTES, stored),
            vectors=VECTORS * 8 * d,
            **task_bytes(*tasks),
        )


def _components(
    reader: Reader, asked: ComponentsAsked, ploidy: int | None, n_passes: int
) -> tuple[Float, Float, Float, float]:
    """Eigenvalues (n,), vectors (m, n), what the values may be off, and the sum of all values."""
    m = reader.n_samples
    if not n_passes:
        upper = product(reader, Relate(ploidy))
        values, vectors = eigh(Statistic(upper).whole(), subset_by_index=[m - asked.n, m - 1])
        values, vectors, errors = values[::-1], vectors[:, ::-1], np.zeros(asked.n)
    else:
        values, vectors, errors = _randomised(reader, asked, ploidy, n_passes)
    reader.scaling.check(asked.missing, reader.source, standardize=True, has_bandwidth=False)
    n_told = int((values > NOTHING * values[0]).sum())
    if n_told < asked.n:
        raise InputError(
            f"n_components={asked.n}, and the data have {n_told}: other directions of the "
            "samples do not vary. Pass fewer."
        )
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(asked.n)]
    alive = reader.alive
    total = m * float(reader.sizes(alive).sum()) / alive.size
    return values / alive.size, vectors * np.sign(largest), errors, total


def product(reader: Reader, a_pass: Relate, features: Index | None = None) -> Float:
    """What a pass over all features, or some, adds up: ``Z Z'``, or its product with Q.

    The first one, over all of them, also says how they are scaled.
    """
    if reader.is_measured:
        some = np.arange(reader.source.n_features) if features is None else features
        return np.asarray(reader.added(a_pass, grouped(reader.jobs(some)))[1])
    found: list[Float] = []
    reader.measure(a_pass, found.append)
    return found[0]


def _randomised(
    reader: Reader, asked: ComponentsAsked, ploidy: int | None, n_passes: int
) -> tuple[Float, Float, Float]:
    """The first n eigenvalues of ``Z Z'``, their vectors, and errors."""
    m, n = reader.n_samples, asked.n
    start = np.random.default_rng(asked.seed).standard_normal(
        (m, asked.width(m, reader.source.n_features))
    )
    basis, products = np.empty((m, 0)), np.empty((m, 0))
    block, _ = np.linalg.qr(start - start.mean(axis=0))
    for _ in range(n_passes):
        found = product(reader, Relate(ploidy, block))
        basis, products = np.hstack([basis, block]), np.hstack([products, found])
        block = _beyond(found, basis)
        if not block.shape[1]:
            break
    T = basis.T @ products
    theta, S = np.linalg.eigh((T + T.T) / 2)
    there = theta > NOTHING * theta[-1]
    theta, S = theta[there][::-1], S[:, there][:, ::-1]
    along = products @ S
    errors = np.linalg.norm(along - (basis @ S) * theta, axis=0) / theta
    U, roots, _ = np.linalg.svd(along / np.sqrt(theta), full_matrices=False)
    return roots[:n] ** 2, U[:, :n], errors[:n]


def _beyond(products: Float, basis: Float) -> Float:
    """Orthonormal basis of what a block of products adds to a basis, (m, l) or fewer."""
    left = products - basis @ (basis.T @ products)
    U, sizes, _ = np.linalg.svd(left, full_matrices=False)
    U = U[:, sizes > NOTHING * np.linalg.norm(products)]
    block, _ = np.linalg.qr(U - basis @ (basis.T @ U))  # once more, for the digits
    return np.asarray(block)


@dataclass(frozen=True, slots=True)
class Relate(AbstractSum):
    """``Z Z'``, its upper triangle, or its product with Q (m, l); and how features are scaled.

    Of the first pass, which does not know that yet, in parts. `ploidy` is how many alleles dosages
    are counts of; None for other data.
    """

    ploidy: int | None
    Q: Float | None = None

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[list[Scaling], Float]:
        total = zero_upper(m) if self.Q is None else np.zeros_like(self.Q)
        parts = []
        for tile in cut(blocks, TILE):
            if tile.scaling is None:
                scaling, Z = self._measured(tile)
                parts.append(scaling)
            else:
                Z = tile.values(np.float64)
            if self.Q is None:
                add_products(total, Z)
            else:
                total += Z.T @ (Z @ self.Q)
        return parts, total

    def _measured(self, tile: Tile) -> tuple[Scaling, Float]:
        """Scaling that is not known yet, and what it makes of the values, (c, m)."""
        scaling, Z = tile.measured(standardize=True)
        if self.ploidy is None:
            return scaling, Z
        varies = ~scaling.constant
        expected = np.where(varies, scaling.mean * (1 - scaling.mean / self.ploidy), 1.0)
        if (expected <= 0).any():
            raise InputError(
                f"A dosage is {scaling.mean.max():.3g} in the mean, and counts up to {self.ploidy} "
                "alleles; pass missing_code= where a number stands for missing values."
            )
        ratio = scaling.std / np.sqrt(expected)  # 2 p (1 - p)
        Z *= ratio[:, None]
        return replace(scaling, scale=scaling.scale * ratio), Z

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], Float]:
        (parts, total), (others, part) = left, right
        total += part
        return parts + others, total

    def cost(self, m: int) -> Cost:
        width = m if self.Q is None else self.Q.shape[1]
        flops = 1.0 * m * m if self.Q is None else 4.0 * m * width
        state = 0 if self.Q is None else 8 * m * width
        return Cost(float64=flops, values=m, result=8 * m * width, state=state, tile=exact_tile(m))


def chromosomes_of(source: AbstractSource) -> tuple[list[Index], Index]:
    """Features of each chromosome, ascending, and of none that is known; refused of fewer than two.

    "chr6" and "6" are the same. Those of X, Y and mitochondria, which differ between the sexes, and
    those of no known chromosome come second: they predict nothing.
    """
    found = chromosome_codes(source)
    if found is None:
        raise InputError(
            "The data do not say on which chromosome features lie, which loco=True leaves out one "
            "by one; leave it out, and pass principal components as covariates (dhsic.pca)."
        )
    codes, names = found
    is_known = ~np.isin(names, (*NOWHERE, *NOT_AUTOSOMES))
    if is_known.sum() < 2:
        where = f"on one chromosome ({names[is_known][0]})" if is_known.any() else "nowhere known"
        raise InputError(
            f"All features lie {where}, and loco=True takes out what other chromosomes predict; "
            "leave it out, or take features of all chromosomes."
        )
    of_each = [np.flatnonzero(codes == code) for code in np.flatnonzero(is_known)]
    return of_each, np.flatnonzero(~is_known[codes])


def autosomal(source: AbstractSource) -> AbstractSource:
    """The features on autosomes, as PLINK takes them for components; all where none lies there."""
    found = chromosome_codes(source)
    if found is None:
        return source
    codes, names = found
    is_one = ~np.isin(names, (*NOWHERE, *NOT_AUTOSOMES))[codes]
    return (
        source if is_one.all() or not is_one.any() else SubsetSource(source, np.flatnonzero(is_one))
    )


def residuals_by_chromosome(
    reader: Reader,
    chromosomes: list[Index],
    Y: Float,
    Q: Float,
    ploidy: int | None,
    unplaced: Index | None = None,
) -> Iterator[tuple[Index, Float]]:
    """Features of each chromosome, and what all others leave of labels Y (m, t).

    Those of no known chromosome predict nothing, as they may lie beside what is tested; they come
    last, with what all chromosomes leave.

    Parameters
    ----------
    reader : Reader
        Reader of all features, which has measured none.
    Q : (m, q)
        Orthonormal basis of the mean and the covariates.
    ploidy : int or None
        How features are scaled, as of `Relate`.
    unplaced : (u,), optional
        Features of no known chromosome.
    """
    whole = Statistic(product(reader, Relate(ploidy))).whole()
    nowhere = np.arange(0) if unplaced is None else unplaced
    if nowhere.size:
        whole -= Statistic(product(reader, Relate(ploidy), nowhere)).whole()
    Y = _without(Q, Y)
    penalty = _best_penalty(_without(Q, _without(Q, whole).T), Y, Q)
    for features in [*chromosomes, nowhere] if nowhere.size else chromosomes:
        K = whole
        if features is not nowhere:
            K = whole - Statistic(product(reader, Relate(ploidy), features)).whole()
        K = _without(Q, _without(Q, K).T)
        penalised = penalty * float(np.trace(K)) / len(K)
        V = inverse(K, penalised)
        yield features, V @ Y / (np.diagonal(V) - (Q**2).sum(axis=1) / penalised)[:, None]


def _best_penalty(K: Float, Y: Float, Q: Float) -> float:
    """Penalty over the mean of the diagonal of K by which left-out labels are predicted best."""
    values, P = eigh(K, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0) / float(values.mean())
    along, squares, explained = P.T @ Y, P * P, (Q**2).sum(axis=1)

    def lost(penalty: float) -> float:
        shrunk = penalty / (values + penalty)
        left = np.maximum(squares @ shrunk - explained, np.finfo(float).eps)
        return float(np.square((P @ (shrunk[:, None] * along)) / left[:, None]).sum())

    return float(min(PENALTIES, key=lost))


def _without(Q: Float, B: Float) -> Float:
    """What the columns of Q leave of those of B."""
    return np.asarray(B - Q @ (Q.T @ B))
