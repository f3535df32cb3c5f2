r"""Related samples: principal components, and residuals of labels after prediction by relatives.

Principal components describe how samples resemble each other over all features: they are
eigenvectors of ``A = Z Z' / d``, (m, m), over the d features that vary. For dosages x, counts of an
allele from 0 to `ploidy` (here 2), A is the genetic relationship matrix of GCTA and PLINK 2,

    ``z_ij = (x_ij - 2 p_j) / sqrt(2 p_j (1 - p_j))``,   ``p_j`` = mean of ``x_j`` over 2,

and for other data z is standardised. Missing values are replaced by the mean of their feature.

Up to `MOST_EXACT` samples, A is computed in one pass and decomposed. For more samples, a pass
computes A times a block of vectors, and a few passes compute the block Krylov space of A and random
start vectors (Musco and Musco, 2015; Galinsky et al., 2016). With Q (m, l) an orthonormal basis of
this space, A is replaced by its Nyström approximation ``AQ (Q'AQ)^+ (AQ)'`` (Tropp et al., 2017),
whose eigenvalues lie between those of ``Q'AQ`` and those of A. The same products bound the errors:
for every eigenvalue theta of ``Q'AQ``, with vector v (mapped back by Q), A has an eigenvalue within
``||A v - theta v||`` of theta.

A polygenic trait follows relatedness and population structure, and so does every variant. Like
REGENIE (Mbatchou et al., 2021), `residuals_by_chromosome` computes, for each chromosome, the
residuals of the labels y (m,) after ridge regression on the variants of all other chromosomes. This
removes predicted effects, and keeps the effects of the chromosome itself (leave one chromosome
out). Let K (m, m) be the inner products ``Z Z'`` over the other chromosomes, with the mean and the
covariates projected out, whose orthonormal basis is Q (m, q); and let ``V = K + lambda I``. Each
sample is predicted from all other samples, with residual

    ``e_i = (P y)_i / P_ii``,  ``P = V^-1 - Q Q' / lambda``.

Except for the nearly constant denominator, this is ``P y`` of a linear mixed model. The lambda of
each target has the largest restricted likelihood (REML) given all chromosomes. Residuals are not
exchangeable: they vary less in directions of relatedness, as their covariance describes
(`dhsic.linalg.residual_covariance`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy.linalg import eigh

from dhsic._typing import Float, Index
from dhsic.algorithms.ridge import inverse
from dhsic.errors import InputError
from dhsic.joins.filters import Filters
from dhsic.joins.frame_rows import names_of
from dhsic.joins.labels import Labelled
from dhsic.joins.places import chromosome_codes
from dhsic.kernels.statistic import Statistic, zero_upper
from dhsic.linalg.covariates import project_out
from dhsic.linalg.quadratic import add_products
from dhsic.linalg.residual_covariance import ResidualCovariance
from dhsic.memory import VECTORS, MemoryEstimate, resident_bytes, task_bytes
from dhsic.passes import TILE, AbstractSum, Cost, Tile, exact_tile, split_tiles
from dhsic.passes.call_counts import counting_on
from dhsic.passes.jobs import block_bytes, grouped, n_partials
from dhsic.passes.reader import COMPACT_BYTES, Reader
from dhsic.passes.single_pass import looked_at
from dhsic.renamed import takes_former_names
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import Scaling
from dhsic.sources.sexes import DIPLOID
from dhsic.sources.variants import NOT_AUTOSOMES, NOWHERE
from dhsic.sources.views import SubsetSource
from dhsic.validation import BYTES, is_count, seed_of

#: Number of samples up to which A is computed exactly, and default number of passes for more.
MOST_EXACT, PASSES = 4096, 2
#: Number of vectors of a block, in addition to two for each component.
MORE = 10
#: Relative length (to the longest) below which directions count as 0.
NOTHING = 1e-10
#: Grid of powers of 10 in which the penalty is searched, from a heritability of 0.999 to one of
#: 0.001; and step of this grid.
STEP = 0.5
POWERS = tuple(np.arange(-3.0, 3.0 + STEP, STEP).tolist())
#: Number of (m, m) matrices that a decomposition needs; and of blocks of vectors per pass.
SQUARES, BLOCKS = 4, 6


@takes_former_names
def pca(
    data: Any,
    n_components: int = 10,
    *,
    passes: int | None = None,
    missing: Literal["mean", "error"] = "mean",
    random_state: Any = 0,
    memory_limit: int | None = None,
    runtime: Literal["auto", "threads", "dask"] | AbstractRuntime = "auto",
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
) -> xr.DataArray:
    """Compute the principal components of the samples, for instance to pass them as covariates.

    Parameters
    ----------
    data : path, URL, array, frame, xarray or source
        Samples x features, see `dhsic.select`. Dosages (0, 1, 2) are scaled as in PLINK 2, by
        ``sqrt(2 p (1 - p))``, other data to unit standard deviation. Constant features are omitted.
        Variants that are not on an autosome (X, Y, MT, or an unknown chromosome) are omitted, too,
        unless there are no others.
    n_components : int
        Number of components.
    passes : int, optional
        Number of passes over the data for randomised components; more passes are more accurate.
        Default: two with more than 4,096 samples; otherwise one pass for exact components. If
        values must be checked for dosages, an extra pass comes first.
    missing : {"mean", "error"}
        Replace missing values by the mean of their feature, or raise an error.
    random_state : int
        Seed of randomised components.
    memory_limit : int, optional
        Memory limit of this process in bytes; default: what the machine has.
    runtime : {"auto", "threads", "dask"} or AbstractRuntime
        See `dhsic.select`; results are the same, bit for bit, on all runtimes.
    sample_dim, variable, missing_code, pass_only, filters
        See `dhsic.select`.

    Returns
    -------
    xarray.DataArray
        (samples, components): columns of unit length, with a positive largest entry, and the names
        of the samples if they have names. Coordinates along the components are ``eigenvalue``,
        ``share``, the fraction of the variance (the sum of all m eigenvalues), and ``error``, a
        bound on the relative error of the eigenvalue: 0 for exact components. The array can be
        passed as ``covariates=``.

    Raises
    ------
    InputError
        The data have fewer components, or a parameter is invalid.
    MemoryBudgetError
        The computation does not fit in memory.

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
    BYTES("memory_limit", memory_limit)
    if missing not in ("mean", "error"):
        raise InputError(f"missing={missing!r} is unknown; pass 'mean' or 'error'.")
    where = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    labelled = Labelled.of(
        data,
        None,
        filters=filters,
        counting=counting_on(partial(running, runtime)),
        pass_only=pass_only,
        **where,
    )
    names = names_of(data) if hasattr(data, "iloc") else labelled.source.sample_names()
    names = None if names is None else labelled.filtered.samples_of(names)
    request = ComponentsRequest(n_components, passes, missing, seed_of(random_state), memory_limit)
    with running(runtime) as there:
        return request.of(labelled, there, names)


@dataclass(frozen=True, slots=True)
class ComponentsRequest:
    """Request for principal components; the fields are parameters of `pca`."""

    n: int = 10
    passes: int | None = None
    missing: str = "mean"
    seed: int = 0
    memory_limit: int | None = None

    def of(self, given: Labelled, runtime: AbstractRuntime, names: Any = None) -> xr.DataArray:
        """Compute components of opened data like `pca`; `names` (m,) are the sample names."""
        source, rows = autosomal(given.source), given.rows
        m = source.n_samples if rows is None else len(rows)
        self._check(m, source.n_features)
        n_passes = self.n_passes(m)
        self._promised(source, m, n_passes, runtime).check(self.memory_limit)
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
            "scaled_by": "the standard deviation" if ploidy is None else "sqrt(2 p (1 - p))",
            "passes": n_passes or 1,
            "is_exact": int(not n_passes),
            "random_state": self.seed,
            **given.filtered.attributes(),
        }
        dims = "samples", "components"
        name_coords = {} if names is None else {"samples": names}
        return xr.DataArray(vectors, {**name_coords, **coords}, dims, "components", about)

    def n_passes(self, m: int) -> int:
        """Number of passes for randomised components of m samples; 0 for exact ones."""
        return self.passes or (0 if m <= MOST_EXACT else PASSES)

    def width(self, m: int, d: int) -> int:
        """Number of vectors of a block, for m samples and d features."""
        return min(2 * self.n + MORE, m - 1, d)

    def _check(self, m: int, d: int) -> None:
        if not is_count(self.n) or (self.passes is not None and not is_count(self.passes)):
            raise InputError(
                f"n_components={self.n!r} and passes={self.passes!r}; pass whole numbers from 1."
            )
        if self.n > min(m - 1, d):
            raise InputError(
                f"n_components={self.n}, but {m} samples with {d} features have at most "
                f"{max(0, min(m - 1, d))} components; pass fewer."
            )

    def _promised(
        self, source: AbstractSource, m: int, n_passes: int, runtime: AbstractRuntime
    ) -> MemoryEstimate:
        """Estimate the peak memory of the computation."""
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
    reader: Reader, asked: ComponentsRequest, ploidy: int | None, n_passes: int
) -> tuple[Float, Float, Float, float]:
    """Compute the first n eigenvalues (n,) of A and their eigenvectors (m, n).

    Also return relative error bounds (n,), and the trace of A, the sum of all m eigenvalues.
    """
    m = reader.n_samples
    if not n_passes:
        upper = product(reader, Relate(ploidy))
        values, vectors = eigh(Statistic(upper).to_dense(), subset_by_index=[m - asked.n, m - 1])
        values, vectors, errors = values[::-1], vectors[:, ::-1], np.zeros(asked.n)
    else:
        values, vectors, errors = _randomised(reader, asked, ploidy, n_passes)
    reader.check_scaling(asked.missing)
    n_told = int((values > NOTHING * values[0]).sum())
    if n_told < asked.n:
        raise InputError(
            f"n_components={asked.n}, but the data have {n_told} components with a variance above "
            "0. Pass fewer."
        )
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(asked.n)]
    alive = reader.alive
    total = m * float(reader.sizes(alive).sum()) / alive.size
    return values / alive.size, vectors * np.sign(largest), errors, total


def product(reader: Reader, a_pass: Relate, features: Index | None = None) -> Float:
    """Run a pass over `features` (default: all) that sums ``Z Z'``, or its product with Q.

    The first pass must read all features, because it also measures their scaling.
    """
    if reader.is_measured:
        features_read = np.arange(reader.source.n_features) if features is None else features
        return np.asarray(reader.sum_results(a_pass, grouped(reader.jobs(features_read)))[1])
    products: list[Float] = []
    reader.measure(a_pass, products.append)
    return products[0]


def _randomised(
    reader: Reader, asked: ComponentsRequest, ploidy: int | None, n_passes: int
) -> tuple[Float, Float, Float]:
    """Approximate the first n eigenvalues (n,) of ``Z Z'`` and their eigenvectors (m, n).

    Also return relative error bounds (n,).
    """
    m, n = reader.n_samples, asked.n
    start = np.random.default_rng(asked.seed).standard_normal(
        (m, asked.width(m, reader.source.n_features))
    )
    basis, products = np.empty((m, 0)), np.empty((m, 0))
    block, _ = np.linalg.qr(start - start.mean(axis=0))
    for _ in range(n_passes):
        block_products = product(reader, Relate(ploidy, block))
        basis, products = np.hstack([basis, block]), np.hstack([products, block_products])
        block = _beyond(block_products, basis)
        if not block.shape[1]:
            break
    T = basis.T @ products
    theta, S = np.linalg.eigh((T + T.T) / 2)
    positive = theta > NOTHING * theta[-1]
    theta, S = theta[positive][::-1], S[:, positive][:, ::-1]
    along = products @ S
    errors = np.linalg.norm(along - (basis @ S) * theta, axis=0) / theta
    U, roots, _ = np.linalg.svd(along / np.sqrt(theta), full_matrices=False)
    return roots[:n] ** 2, U[:, :n], errors[:n]


def _beyond(products: Float, basis: Float) -> Float:
    """Return the next block of the Krylov space, orthonormal and orthogonal to `basis`.

    It spans the part of `products` (m, l) outside of `basis`. It has fewer than l columns if the
    products depend linearly on the basis.
    """
    remainder = products - basis @ (basis.T @ products)
    U, sizes, _ = np.linalg.svd(remainder, full_matrices=False)
    U = U[:, sizes > NOTHING * np.linalg.norm(products)]
    block, _ = np.linalg.qr(U - basis @ (basis.T @ U))  # again, for precision
    return np.asarray(block)


@dataclass(frozen=True, slots=True)
class Relate(AbstractSum):
    """Pass that computes the upper triangle of ``Z Z'``, or its product with Q (m, l).

    The first pass also returns a list with the scalings of the features; in later passes, the list
    is empty. `ploidy` is the largest possible dosage; None for data other than dosages.
    """

    ploidy: int | None
    Q: Float | None = None

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[list[Scaling], Float]:
        total = zero_upper(m) if self.Q is None else np.zeros_like(self.Q)
        parts = []
        for tile in split_tiles(blocks, TILE):
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
        """Compute the scaling of the c features of a tile, and their scaled values Z (c, m)."""
        scaling, Z = tile.measured(standardize=True)
        if self.ploidy is None:
            return scaling, Z
        varies = ~scaling.constant
        expected = np.where(varies, scaling.mean * (1 - scaling.mean / self.ploidy), 1.0)
        if (expected <= 0).any():
            raise InputError(
                f"The mean dosage of a feature is {scaling.mean.max():.3g}, but at most "
                f"{self.ploidy} alleles are possible. If a number means missing, pass it as "
                "missing_code=."
            )
        ratio = scaling.std / np.sqrt(expected)  # 2 p (1 - p)
        Z *= ratio[:, None]
        return replace(scaling, scale=scaling.scale * ratio), Z

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], Float]:
        (parts, total), (other_parts, part) = left, right
        total += part
        return parts + other_parts, total

    def cost(self, m: int) -> Cost:
        width = m if self.Q is None else self.Q.shape[1]
        flops = 1.0 * m * m if self.Q is None else 4.0 * m * width
        state = 0 if self.Q is None else 8 * m * width
        return Cost(float64=flops, values=m, result=8 * m * width, state=state, tile=exact_tile(m))


def chromosomes_of(source: AbstractSource) -> tuple[list[Index], Index]:
    """Return the indices of the features on each autosome, and the indices of all others.

    "chr6" and "6" are the same chromosome. The other features are not used for prediction: features
    on X, Y and MT differ between the sexes, and some have no known chromosome.

    Raises
    ------
    InputError
        The data have no chromosomes, or fewer than two autosomes.
    """
    codes_and_names = chromosome_codes(source)
    if codes_and_names is None:
        raise InputError(
            "loco=True needs the chromosome of each feature, which the data do not have. Leave it "
            "out, and pass principal components as covariates (dhsic.pca)."
        )
    codes, names = codes_and_names
    is_known = ~np.isin(names, (*NOWHERE, *NOT_AUTOSOMES))
    if is_known.sum() < 2:
        where = "unknown chromosomes"
        if is_known.any():
            where = f"one chromosome ({names[is_known][0]})"
        raise InputError(
            f"All features are on {where}, but loco=True predicts the labels from the other "
            "chromosomes. Leave it out, or use features of all chromosomes."
        )
    of_each = [np.flatnonzero(codes == code) for code in np.flatnonzero(is_known)]
    return of_each, np.flatnonzero(~is_known[codes])


def autosomal(source: AbstractSource) -> AbstractSource:
    """Restrict a source to features on autosomes, as PLINK does; keep all if there are none."""
    codes_and_names = chromosome_codes(source)
    if codes_and_names is None:
        return source
    codes, names = codes_and_names
    on_autosome = ~np.isin(names, (*NOWHERE, *NOT_AUTOSOMES))[codes]
    if on_autosome.all() or not on_autosome.any():
        return source
    return SubsetSource(source, np.flatnonzero(on_autosome))


@dataclass(frozen=True, slots=True)
class Residuals:
    """Residuals (m, n) of the n columns of one target, and their covariance.

    They remain after prediction of the target from all chromosomes but one.
    """

    values: Float
    covariance: ResidualCovariance


def residuals_by_chromosome(
    reader: Reader,
    chromosomes: list[Index],
    targets: Sequence[Float],
    Q: Float,
    ploidy: int | None,
    unplaced: Index | None = None,
) -> Iterator[tuple[Index, list[Residuals]]]:
    """Yield the features of each chromosome, with residuals after prediction from all others.

    Features without a known chromosome are not used for prediction, because they may be close to
    the tested features. They come last, with residuals after prediction from all chromosomes.

    Parameters
    ----------
    reader : Reader
        Reader of all features, before the first pass.
    targets : sequence of (m, n)
        Columns of each target.
    Q : (m, q)
        Orthonormal basis of the mean and the covariates.
    ploidy : int or None
        Scaling of the features, see `Relate`.
    unplaced : (u,), optional
        Features without a known chromosome.
    """
    total = Statistic(product(reader, Relate(ploidy))).to_dense()
    nowhere = np.arange(0) if unplaced is None else unplaced
    if nowhere.size:
        total -= Statistic(product(reader, Relate(ploidy), nowhere)).to_dense()
    targets = [project_out(Q, columns) for columns in targets]
    penalties = _best_penalties(project_out(Q, project_out(Q, total).T), targets, Q.shape[1])
    for features in [*chromosomes, nowhere] if nowhere.size else chromosomes:
        K = total
        if features is not nowhere:
            K = total - Statistic(product(reader, Relate(ploidy), features)).to_dense()
        K = project_out(Q, project_out(Q, K).T)
        size = float(np.trace(K)) / len(K)
        yield (
            features,
            [
                _residuals(K, columns, Q, penalty * size)
                for columns, penalty in zip(targets, penalties, strict=True)
            ],
        )


def _residuals(K: Float, Y: Float, Q: Float, penalty: float) -> Residuals:
    """Compute residuals of Y (m, n) after each sample is predicted from all others.

    K (m, m), Q (m, q) and the penalty lambda are defined in the module docstring.
    """
    P = inverse(K.copy(), penalty)
    P -= (Q / penalty) @ Q.T
    residuals = P @ Y / np.diagonal(P)[:, None]
    return Residuals(residuals, ResidualCovariance.of(P, Q))


def _best_penalties(K: Float, targets: Sequence[Float], q: int) -> list[float]:
    """Find the penalty with the largest restricted likelihood (REML) for each target.

    Penalties are relative to the mean diagonal of K. All columns of a target share one penalty. A
    basis of q columns has been projected out of K and of the targets.
    """
    values, U = eigh(K, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0) / float(values.mean())
    return [reml_penalty(values, np.square(U.T @ columns), q) for columns in targets]


def reml_penalty(values: Float, squares: Float, q: int) -> float:
    """Find the penalty of one target by restricted likelihood, see `_best_penalties`.

    `values` (m,) are the eigenvalues of K, divided by their mean; `squares` (m, n) are squared
    coordinates of the columns of the target along the eigenvectors.
    """
    from scipy.optimize import minimize_scalar  # imported here because it loads slowly

    degrees = len(values) - q
    squares = squares[:, squares.sum(axis=0) > 0]

    def minus_likelihood(power: float) -> float:
        penalty = 10.0**power
        determinant = np.log(values + penalty).sum() - q * np.log(penalty)
        of_columns = degrees * np.log((1.0 / (values + penalty)) @ squares)
        return float(of_columns.sum() + len(of_columns) * determinant)

    power = min(POWERS, key=minus_likelihood)
    near = (max(power - STEP, POWERS[0]), min(power + STEP, POWERS[-1]))
    found = minimize_scalar(minus_likelihood, bounds=near, method="bounded")
    return float(10.0**found.x)
