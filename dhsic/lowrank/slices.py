r"""A low-rank round over slices of the samples: arrays of size m stay on the slices' workers.

A round needs only the b x b part of K among the landmarks, and sums over samples. The directions of
K (`Extension`) are computed from this part. Every slice extends them to its own s samples, F
(s, r), because it has the rows of K at the landmarks for these samples.

Notation: U are the directions of ``W = U M U'``. Row i of Z, z_i, is the Kronecker product of rows
i of U and F. C are the *check rows*: rows of K at landmarks that F does not use. The sums are used
as follows:

- ``F'F``, ``C F`` and ``||C||^2`` give the residual ``||C - P w F'||^2`` of rows outside the fit
  for the first 1, 2, ... directions. The number of directions that predicts C best is used.
- ``U'F`` gives ``(W o K) 1``, row by row.
- ``Z'Z`` gives the leading directions of ``A = W o K ~ Z Theta Z'``, as in
  `dhsic.linalg.symmetric`. With directions V of an earlier round,
  ``V' A V = (V'Z) Theta (V'Z)'``, and no decomposition is needed.
- The residual of A on the check rows, times the values of sampled features, gives their error.
- A few rows of ``2 A`` show the drift of the kernel (`dhsic.engines.kernel_drift`).

Each slice returns its part of these sums. The parts are added up, except for the rows of ``2 A``,
which are concatenated. Landmarks are samples, too: an additional `Slice` contains only the
landmarks, and computes the same quantities for them.

Differences of such sums lose digits: ``||C||^2`` has a relative rounding error of 1e-16, so
residuals below the square root of `ROUNDING` cannot be distinguished. Sums over 10^6 features in
float32 are not more precise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.kernels.base import AbstractKernel
from dhsic.linalg.quadratic import Each
from dhsic.linalg.symmetric import LowRankSymmetric, products_of
from dhsic.lowrank.factorizers import Extension

#: Key of the matrix of inner products, in place of the number of a base matrix.
LINEAR = -1
#: Number of samples in a strip: intermediate arrays fit into the CPU cache, and threads work on
#: one strip each.
STRIP = 2048
#: Fewer directions are preferred if their residual on check rows is at most this many times the
#: smallest residual.
AS_GOOD = 1.01
#: Relative rounding error of a sum of squares that is computed from other sums.
ROUNDING = 1e-12

#: Partial sums of a round, from one slice; slices are added up by `add_sums`.
Sums = dict[Hashable, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """Partial result (r, s) with one column per sample of a slice; ``+`` joins the columns."""

    columns: Array

    def __add__(self, other: Beside) -> Beside:
        return Beside(np.concatenate([self.columns, other.columns], axis=1))


def add_sums(left: Sums, right: Sums) -> Sums:
    """Add the partial sums of two slices of the samples, entry by entry."""
    return {name: value + right[name] for name, value in left.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Slice of the samples: its s samples, and their part of all arrays along the samples.

    Attributes
    ----------
    samples : (s,) int64
        Ascending sample indices.
    sums : (b + q, s) float64
        Inner products with b landmarks, and with q weighted sums of samples. The weights of the
        sums are the directions of W.
    norms : (s,) float64
        Squared norms of the samples.
    W : LowRankSymmetric
        Rows of the weight matrix W at these samples.
    X : (c, s) array or None
        Values of sampled features.
    F : dict
        Directions in this round, (s, r), by number of the base matrix.
    P, B : dict
        Orthonormal directions of A, (s, k), and functionals, (s, n), by number of the base matrix
        (see `dhsic.lowrank.directions`).
    """

    samples: Index
    sums: Float
    norms: Float
    W: LowRankSymmetric
    X: Any = None
    F: Mapping[int, Float] = field(default_factory=dict)
    P: Mapping[int, Float] = field(default_factory=dict)
    B: Mapping[int, Float] = field(default_factory=dict)

    @property
    def inner(self) -> Float:
        """Inner products with landmarks, (b, s)."""
        return self.sums[: len(self.sums) - self.W.F.shape[1]]

    @property
    def products(self) -> Float:
        """Inner products of these samples with the q weighted sums of samples, (q, s)."""
        return self.sums[len(self.sums) - self.W.F.shape[1] :]

    def strips(self) -> Iterator[Slice]:
        """Yield pieces of the slice with `STRIP` samples each."""
        for a in range(0, len(self.samples), STRIP):
            yield self.part(slice(a, a + STRIP))

    def places(self, rows: Index) -> tuple[Index, Index]:
        """Find the sample indices `rows` that are in this slice.

        Returns their positions in `rows`, and their positions in the slice.
        """
        column = np.searchsorted(self.samples, rows).clip(max=len(self.samples) - 1)
        here = np.flatnonzero(self.samples[column] == rows)
        return here, column[here]

    def part(self, which: slice | Index) -> Slice:
        """Return the slice of the samples at positions `which`."""

        def rows(of: Mapping[int, Float]) -> dict[int, Float]:
            return {base: array[which] for base, array in of.items()}

        return Slice(
            self.samples[which],
            self.sums[:, which],
            self.norms[which],
            rows_of(self.W, which),
            None if self.X is None else self.X[:, which],
            rows(self.F),
            rows(self.P),
            rows(self.B),
        )


def over_strips(
    known: Slice, of: Callable[[Slice], tuple[Any, Sums]], each: Each
) -> tuple[list[Any], Sums]:
    """Apply the function `of` to each strip of samples of a slice.

    `of` returns a result and sums. Returns the list of results, and the total of the sums.
    """
    found, sums = zip(*each(of, known.strips()), strict=True)
    return [*found], reduce(add_sums, sums)


def concatenate_slices(parts: Sequence[Slice]) -> Slice:
    """Concatenate slices of the samples in the given order."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]

    def rows(name: str) -> dict[int, Float]:
        every = [getattr(part, name) for part in parts]
        return {base: np.concatenate([arrays_of[base] for arrays_of in every]) for base in every[0]}

    F, diagonal = (
        np.concatenate([getattr(p.W, name) for p in parts]) for name in ("F", "diagonal")
    )
    return Slice(
        np.concatenate([part.samples for part in parts]),
        np.concatenate([part.sums for part in parts], axis=1),
        np.concatenate([part.norms for part in parts]),
        LowRankSymmetric(F, first.W.weights, diagonal),
        None if first.X is None else np.concatenate([part.X for part in parts], axis=1),
        rows("F"),
        rows("P"),
        rows("B"),
    )


def rows_of(W: LowRankSymmetric, which: slice | Index) -> LowRankSymmetric:
    """Return the rows `which` of the low-rank label weights W, again in low-rank form."""
    return LowRankSymmetric(W.F[which], W.weights, W.diagonal[which])


@dataclass(frozen=True, slots=True, eq=False)
class SlicedRound:
    """Description of a selection round, which is sent to all slices of the samples.

    Attributes
    ----------
    rows, norms : (b,)
        Sample indices of the landmarks, and their squared norms.
    check : (n,) int64
        Positions of the check rows among the landmarks.
    extensions : dict
        Extension of every base matrix, by its number. The key `LINEAR` means the matrix of inner
        products.
    bases : tuple of int
        Numbers of the base matrices that score features; K itself may be absent.
    turning : (t,) int64
        Positions of the landmarks at which rows of K measure the drift of the kernel.
    W : LowRankSymmetric
        Rows of W at these t landmarks.
    """

    kernel: AbstractKernel
    sigma: float
    rows: Index
    norms: Float
    check: Index
    extensions: Mapping[int, Extension]
    bases: tuple[int, ...]
    turning: Index
    W: LowRankSymmetric

    def at(self, base: int, which: Index, known: Slice) -> Float:
        """Compute a base matrix between n landmarks `which` and s samples of a slice, (n, s).

        Base matrices are the terms of the kernel's series expansion; `base` is the number of one.
        """
        inner = known.inner[which]
        if base == LINEAR:
            return inner
        return self.kernel.part(base, inner, self.norms[which], known.norms, self.sigma)

    def diagonal(self, base: int, known: Slice) -> Float:
        """Compute the diagonal of a base matrix at the samples of a slice, (s,).

        Base matrices are the terms of the kernel's series expansion; `base` is the number of one.
        """
        if base == LINEAR:
            return known.norms
        return self.kernel.diagonal(base, known.norms, self.sigma)

    def itself(self, which: Index, known: Slice) -> tuple[Index, Index]:
        """Find the landmarks `which` that are samples of a slice.

        Returns their positions in `which`, and their positions in the slice.
        """
        return known.places(self.rows[which])

    def checks(self, base: int, known: Slice) -> Float:
        """Compute n rows of a base matrix (term of the kernel's series) at s samples, (n, s).

        They are the check rows: rows at landmarks that the low-rank factor does not use. Entries on
        the diagonal are 0.
        """
        C = self.at(base, self.check, known)
        C[self.itself(self.check, known)] = 0.0
        return C

    def turned(self, known: Slice) -> Sums:
        """Compute the rows of ``2 A`` (float32) that measure the drift of the kernel.

        A is the elementwise product of the label weights W and the kernel matrix K. Also computes
        the row sums and the diagonal of A for the same rows. All are restricted to the samples of a
        slice; the diagonal is 0 for other samples.
        """
        here, itself = self.itself(self.turning, known)
        A = (self.W.F @ self.W.core) @ known.W.F.T
        A[here, itself] = self.W.diagonal[here]
        inner, norms = known.inner[self.turning], self.norms[self.turning]
        A *= self.kernel.part(None, inner, norms, known.norms, self.sigma)
        own = np.zeros(len(A))
        own[here] = A[here, itself]
        return {"2 A": Beside((2.0 * A).astype(np.float32)), "A 1": A.sum(axis=1), "diag A": own}

    def columns(self, base: int) -> slice:
        """Return the columns of one base matrix in the concatenated directions of all of them.

        Base matrices are the terms of the kernel's series expansion.
        """
        sizes = {key: extension.rank for key, extension in self.extensions.items()}
        start = sum(size for key, size in sizes.items() if key < base)
        return slice(start, start + sizes[base])


def factor(known: Slice, asked: SlicedRound, each: Each = map) -> tuple[Slice, Sums]:
    """Compute the low-rank directions F of a slice; return the slice with F, and sums.

    A slice is some of the samples. The sums contain the input of `fit_directions`, rows of ``2 A``
    (A is the elementwise product of the label weights W and the kernel matrix K), and, if the slice
    has directions P of an earlier round, ``P'Z``; the docstring of the module defines Z.
    """
    keys = sorted(asked.extensions)

    def of(strip: Slice) -> tuple[Float, Sums]:
        parts = [_extended(asked, key, strip) for key in keys]
        C = {key: asked.checks(key, strip) for key in keys}
        F = np.concatenate(parts, axis=1)
        sums: Sums = {"F'F": F.T @ F, "U'F": strip.W.F.T @ F} | asked.turned(strip)
        for i, key in enumerate(keys):
            sums["C F", key] = C[key] @ F
            for other in keys[: i + 1]:
                sums["C C", other, key] = np.array(np.vdot(C[other], C[key]))
        for base, P in strip.P.items():
            sums["P'Z", base] = P.T @ products_of(strip.W.F, F[:, asked.columns(base)])
        return F, sums

    strip_factors, total = over_strips(known, of, each)
    stacked = np.concatenate(strip_factors)
    return replace(known, F={key: stacked[:, asked.columns(key)] for key in keys}), total


def _extended(asked: SlicedRound, key: int, known: Slice) -> Float:
    extension = asked.extensions[key]
    K = asked.at(key, extension.used, known)
    return extension.over(K, *asked.itself(extension.used, known))


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Choice of the low-rank directions F of the kernel matrix that a round uses.

    `kept` (r,) contains their columns, and `weights` (r,) their weights w. `between` (q, r) is ``M
    U'F diag(w)``, where the label weights are ``U M U'``.
    """

    kept: Index
    weights: Float
    between: Float


@dataclass(frozen=True, slots=True, eq=False)
class FittedRound:
    """Description of a selection round, with the directions chosen for each base matrix.

    Attributes
    ----------
    slope : float
        Regression coefficient of the residual of K on the residual of the inner products G.
    row_sums : (m,) array or None
        Row sums ``(W o K) 1`` if they were computed exactly, otherwise None.
    """

    asked: SlicedRound
    fits: Mapping[int, Fit]
    slope: float = 0.0
    row_sums: Float | None = None

    def factor(self, base: int, known: Slice) -> LowRankSymmetric:
        """Return the rows of a low-rank factor of the kernel matrix at the samples of a slice.

        `base` is the number of the factored matrix, a term of the kernel's series expansion.
        """
        fit = self.fits[base]
        F = known.F[base][:, fit.kept]
        return LowRankSymmetric(F, fit.weights, self.asked.diagonal(base, known))

    def sums(self, base: int, known: Slice) -> Float:
        """Compute the row sums ``(W o K) 1`` at the samples of a slice, (s,).

        They are corrected for the residual of K, which is about `slope` times the residual of the
        inner products G. This residual is known, because ``(W o G) 1`` follows exactly from the
        products of G with the directions of W.
        """
        if self.row_sums is not None:
            return np.asarray(self.row_sums[known.samples], dtype=np.float64)
        W, sums = known.W, self._by_factor(base, known)
        if self.slope:
            linear_sums = (
                np.einsum("iq,qi->i", W.F @ W.core, known.products)
                + W.diagonal_residual * known.norms
            )
            sums += self.slope * (linear_sums - self._by_factor(LINEAR, known))
        return sums

    def _by_factor(self, base: int, known: Slice) -> Float:
        """Compute the row sums of ``W o K`` from the low-rank factor of K, as in JMLR 2.6.3.

        W are the label weights.
        """
        K, W = self.factor(base, known), known.W
        sums = np.einsum("ij,ij->i", W.F @ self.fits[base].between, K.F)
        return np.asarray(sums - W.own * K.own + W.diagonal * K.diagonal)


def fit_directions(asked: SlicedRound, block: Slice, sums: Sums, m: int) -> FittedRound:
    """Choose the low-rank directions that best predict rows of K that no factor uses.

    They are chosen for K and the other terms of the kernel's series expansion (base matrices).
    `sums` is the result of `factor`, added up over slices. `block` is the slice of the landmarks,
    and m is the number of samples.
    """
    fits = {}
    for key, extension in asked.extensions.items():
        columns = asked.columns(key)
        steady = extension.steady(np.diagonal(sums["F'F"])[columns], m)
        columns_kept, weights = np.flatnonzero(steady), extension.weights[steady]
        if key != LINEAR:
            residuals = _squared_residuals(asked, block, sums, key, columns_kept, weights)
            columns_kept = columns_kept[: int(np.argmax(residuals <= AS_GOOD * np.min(residuals)))]
            weights = weights[: len(columns_kept)]
        between = block.W.core @ (sums["U'F"][:, columns][:, columns_kept] * weights)
        fits[key] = Fit(columns_kept, weights, between)
    slope = _slope(asked, block, sums, fits) if LINEAR in fits else 0.0
    return FittedRound(asked, fits, slope)


def _squared_residuals(
    asked: SlicedRound, block: Slice, sums: Sums, key: int, kept: Index, weights: Float
) -> Float:
    """Sum the squared residuals of check rows for the first 0 to r low-rank directions, (r + 1,).

    Check rows are rows of the kernel matrix at landmarks that the factor does not use.
    """
    at = block.F[key][asked.check][:, kept] * weights  # (n, r)
    columns = asked.columns(key).start + kept
    first = np.append(0.0, np.cumsum(np.einsum("ij,ij->j", at, sums["C F", key][:, columns])))
    both = (at.T @ at) * sums["F'F"][np.ix_(columns, columns)]
    square = np.append(0.0, np.diagonal(both.cumsum(axis=0).cumsum(axis=1)))
    own = np.cumsum(at * block.F[key][asked.check][:, kept], axis=1)
    square[1:] -= np.square(own).sum(axis=0)  # the diagonal is not predicted
    total = float(sums["C C", key, key])
    return np.asarray(np.maximum(total - 2.0 * first + square, ROUNDING * total))


def _slope(asked: SlicedRound, block: Slice, sums: Sums, fits: Mapping[int, Fit]) -> float:
    """Compute the slope ``<R_K, R_G> / ||R_G||^2`` of the residuals of K on the residuals of G.

    K is the kernel matrix, and G is the matrix of inner products. The residuals are those of
    low-rank factors on rows that the factors do not use (check rows), off the diagonal.
    """

    def missed(one: int, other: int) -> float:
        one, other = sorted((one, other))
        (at, f), (beside, g) = rows(one), rows(other)
        own = np.einsum("ij,ij->i", at, f[1]) * np.einsum("ij,ij->i", beside, g[1])
        between = sums["F'F"][np.ix_(f[0], g[0])]
        total = float(sums["C C", one, other]) + float(np.vdot(at.T @ beside, between) - own.sum())
        total -= float(np.vdot(sums["C F", one][:, g[0]], beside))
        return total - float(np.vdot(sums["C F", other][:, f[0]], at))

    def rows(key: int) -> tuple[Float, tuple[Index, Float]]:
        f = block.F[key][asked.check][:, fits[key].kept]
        return f * fits[key].weights, (asked.columns(key).start + fits[key].kept, f)

    beside = missed(LINEAR, LINEAR)
    if beside <= ROUNDING * float(sums["C C", LINEAR, LINEAR]):
        return 0.0
    return missed(0, LINEAR) / beside


def value(known: Slice, asked: FittedRound) -> float:
    """Compute the contribution of the samples of a slice to HSIC, ``1' (W o K) 1``.

    W are the label weights, and K is the kernel matrix of the data.
    """
    return float(asked.sums(0, known).sum())
