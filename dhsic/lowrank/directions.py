"""Leading directions P of ``A = W o K``, stored in slices of the samples, and sums along them.

The directions are computed in one round and reused in the next rounds. Those rounds need only
``P' A P``, the projection of ``A 1`` on a few functionals, and the residual of A on the check rows
(landmarks that no fit uses). `dhsic.lowrank.slices` explains the notation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.linalg.quadratic import Each
from dhsic.linalg.symmetric import LowRankSymmetric, compression, products_of
from dhsic.lowrank.slices import FittedRound, Slice, Sums, over_strips

#: Eigenvalues of a scaled Gram matrix below this fraction of the largest eigenvalue are rounding
#: errors.
DEPENDENT = 1e-10


def gram(known: Slice, asked: FittedRound, each: Each = map) -> tuple[Slice, Sums]:
    """Compute a slice's contribution to the Gram matrix ``Z'Z``, for every base matrix.

    A slice is some of the samples; base matrices are the (m, m) terms of the kernel's series
    expansion. Row i of Z is the Kronecker product of rows i of two low-rank factors, of the label
    weights W and of the base matrix. The slice is returned unchanged, together with the Gram
    matrices.
    """

    def of(strip: Slice) -> tuple[None, Sums]:
        sums: Sums = {}
        for base in asked.asked.bases:
            Z = products_of(strip.W.F, asked.factor(base, strip).F)
            sums[base] = Z.T @ Z
        return None, sums

    return known, over_strips(known, of, each)[1]


def leading(
    asked: FittedRound, sums: Sums, W: LowRankSymmetric, tolerance: float, most: int | None = None
) -> tuple[dict[int, Float], dict[int, Float]]:
    """Compute the leading directions ``P = Z mix`` and eigenvalues T of ``A = W o K``.

    A is the elementwise product of the label weights W and a base matrix K (a term of the kernel's
    series expansion). Then ``A ~ P diag(T) P'``. Returns `mix` and T for every base matrix K, by
    its number. Z is the matrix of `gram`, and `sums` is the result of `gram`, added up over slices.
    The relative error of A is at most `tolerance`, unless P would need more than `most` columns.
    """
    mix, T = {}, {}
    for base in asked.asked.bases:
        Theta = np.asarray(np.kron(W.core, np.diag(asked.fits[base].weights)), dtype=np.float64)
        columns, values, _ = compression(sums[base], Theta, None, tolerance)
        mix[base], T[base] = columns[:, :most], values[:most]
    return mix, T


def core_along(asked: FittedRound, sums: Sums, W: LowRankSymmetric, base: int) -> Float:
    """Compute ``P' A P``, (k, k), for the k directions P that slices of the samples store.

    A is the elementwise product of the label weights W and the base matrix with the number `base`
    (a term of the kernel's series expansion). `sums` is the result of
    `dhsic.lowrank.slices.factor`, added up over slices.
    """
    P_Z, fit = sums["P'Z", base], asked.fits[base]
    across = P_Z.reshape(len(P_Z), W.F.shape[1], -1)[:, :, fit.kept]  # (k, q, r)
    weighted = np.einsum("qp,lpr->lqr", W.core, across * fit.weights)
    return np.asarray(across.reshape(len(P_Z), -1) @ weighted.reshape(len(P_Z), -1).T)


@dataclass(frozen=True, slots=True, eq=False)
class Along:
    """Low-rank form ``A ~ P core P'`` off the diagonal, for every base matrix of the kernel.

    A is the elementwise product of W and the base matrix (`dhsic.lowrank.slices`). The directions P
    are stored in slices of the samples.

    Attributes
    ----------
    core : dict
        Matrix `core` (k, k), by number of the base matrix.
    of_differences : bool
        Whether the kernel depends on differences of values, as in `dhsic.kernels.base.PowerSeries`.
    ends : dict
        Rows of ``P core`` at the n check rows, (n, k), by number of the base matrix.
    weights : (n, q) array
        Rows of ``U M`` at the check rows, where ``W = U M U'``.
    sampled : (c,) int64
        Positions of the sampled features, among the features that have values in the slices.
    """

    fitted: FittedRound
    core: Mapping[int, Float]
    of_differences: bool
    ends: Mapping[int, Float] = field(default_factory=dict)
    weights: Any = None
    sampled: Any = None

    def from_checks(self, block: Slice) -> Along:
        """Return a copy with `ends` and `weights`, computed from the slice of all landmarks."""
        check_rows = block.part(self.fitted.asked.check)
        ends = {base: check_rows.P[base] @ core for base, core in self.core.items()}
        return replace(self, ends=ends, weights=check_rows.W.F @ check_rows.W.core)

    def functional(self, base: int, known: Slice) -> Float:
        """Compute the coefficients f (s,) of even powers of a feature at the s samples of a slice.

        ``f' x^p`` is the term of the gain of a feature x (the change of HSIC if x is removed) that
        products along the directions do not include (see `dhsic.passes.projection`). `base` is the
        number of the base matrix, a term of the kernel's series expansion.
        """
        P = known.P[base]
        own = np.einsum("ij,ij->i", P @ self.core[base], P)
        diagonal = known.W.diagonal * self.fitted.asked.diagonal(base, known)
        if self.of_differences:
            return np.asarray(self.fitted.sums(base, known) - diagonal + own)
        return np.asarray(diagonal - own)

    def missed(self, base: int, known: Slice) -> tuple[Float, Float]:
        """Compute the residual (n, s) and the row sums (n,) of A at the n check rows.

        Check rows are landmarks that the low-rank form does not use. Both results are restricted to
        the s samples of a slice. The residual is A minus its low-rank form ``P core P'``, and is 0
        on the diagonal. `base` is the number of the base matrix.
        """
        round_ = self.fitted.asked
        A = round_.checks(base, known)
        A *= self.weights @ known.W.F.T
        sums = A.sum(axis=1)
        A -= self.ends[base] @ known.P[base].T
        A[round_.itself(round_.check, known)] = 0.0
        return A, sums


@dataclass(frozen=True, slots=True, eq=False)
class Lead:
    """Request to compute directions ``P = Z mix`` of ``A = W o K``, and functionals B, in slices.

    Slices contain some of the samples each; W are label weights, and K is a term of the kernel's
    series. Z is the matrix of `gram`. In later rounds, linear combinations of the functionals
    approximate the coefficients of even powers. The columns of B are the coefficients of the
    present round, a column of ones, and the pairwise products of the first `multiplied` directions.
    If `multiplied` is 0, B is not computed.
    """

    along: Along
    mix: Mapping[int, Float]
    multiplied: int = 0


def lead(known: Slice, asked: Lead, each: Each = map) -> tuple[Slice, Sums]:
    """Compute directions P (n, k) of ``A = W o K`` and functionals B (n, b) for n samples.

    `Lead` describes both; there is one P and one B per base matrix (term of the kernel's series
    expansion). Returns the slice of the samples with P and B, and its contribution to the sums
    ``B'B``, (b, b).
    """

    def of(strip: Slice) -> tuple[tuple[dict[int, Float], dict[int, Float]], Sums]:
        P: dict[int, Float] = {}
        B: dict[int, Float] = {}
        sums: Sums = {}
        for base, mix in asked.mix.items():
            K = asked.along.fitted.factor(base, strip)
            V = products_of(strip.W.F, K.F) @ mix
            P[base] = V
            if asked.multiplied:
                f = asked.along.functional(base, replace(strip, P={base: V}))
                leading_directions = V.T[: asked.multiplied]
                pairs = [v * w for v, w in combinations_with_replacement(leading_directions, 2)]
                every = np.column_stack([f, np.ones(len(V)), *pairs])
                B[base] = every
                sums[base] = every.T @ every
        return (P, B), sums

    strip_results, total = over_strips(known, of, each)
    P, B = (
        {base: np.concatenate([parts[base] for parts in of_all]) for base in of_all[0]}
        for of_all in zip(*strip_results, strict=True)
    )
    return replace(known, P=P, B=B), total


def orthonormal(gram: Float) -> Float:
    """Compute T (n, r) from the Gram matrix ``B'B`` so that ``B T`` has orthonormal columns.

    The number r is smaller than n if columns of B are linearly dependent.
    """
    sizes = np.sqrt(np.diagonal(gram))
    sizes[sizes == 0] = 1.0
    values, V = np.linalg.eigh(gram / np.multiply.outer(sizes, sizes))
    independent = values > DEPENDENT * values.max(initial=0.0)
    return np.asarray(V[:, independent] / np.sqrt(values[independent]) / sizes[:, None])


def weigh(known: Slice, asked: Along, each: Each = map) -> tuple[Slice, Sums]:
    """Compute a slice's contribution to HSIC, to projections, and to errors of gains.

    A slice is some of the samples. The projections are on the functionals B of `Lead`. Errors of
    the gains of sampled features are estimated on rows of the kernel matrix that the low-rank
    factor does not use. The slice is returned unchanged, together with the sums.
    """
    fitted, kernel = asked.fitted, asked.fitted.asked.kernel
    expansion = kernel.expansion(kernel.exact_order or 1, fitted.asked.sigma)

    def of(strip: Slice) -> tuple[None, Sums]:
        sums: Sums = {"hsic": np.array(fitted.sums(0, strip).sum())} if 0 in fitted.fits else {}
        for base, B in strip.B.items():
            sums["B'f", base] = B.T @ asked.functional(base, strip)
        if strip.X is not None and asked.sampled is not None:
            X = strip.X[asked.sampled]
            missed = {}
            for base in fitted.asked.bases:
                R, sums["sums", base] = asked.missed(base, strip)
                missed[base] = R.astype(X.dtype)
            with np.errstate(over="ignore", invalid="ignore"):  # terms that overflow: inf or nan
                functions = expansion.functions(X)
                for t, (term, f) in enumerate(zip(expansion.terms, functions, strict=True)):
                    if not term.linear:
                        sums["missed", t] = (missed[term.base] @ f.T).astype(np.float64)
        return None, sums

    return known, over_strips(known, of, each)[1]


def lead_and_weigh(known: Slice, asked: Lead, each: Each = map) -> tuple[Slice, Sums]:
    """Compute new directions of a slice by `lead`, then sums along them by `weigh`.

    Returns the slice of the samples and the sums of both.
    """
    with_directions, sums = lead(known, asked, each)
    return with_directions, sums | weigh(with_directions, asked.along, each)[1]


def row_errors(asked: Along, block: Slice, sums: Sums, lost: Mapping[int, Float]) -> Float:
    """Compute the contribution of each check row to the errors of the gains of features, (n, c).

    Check rows are rows of the kernel matrix at landmarks that no factor uses; the gain of a feature
    is the change of HSIC without it. Only c sampled features are included. The contributions are
    t_ij in `dhsic.engines.certificate`, to first order in sigma. `sums` is the result of `weigh`,
    added up over slices of the samples. `lost` (n,), by number of the base matrix, is the
    difference between the true row sums of ``A = W o K`` at the check rows and the row sums that
    the scores use.
    """
    fitted, check = asked.fitted, asked.fitted.asked.check
    kernel = fitted.asked.kernel
    ends = block.part(check)
    expansion = kernel.expansion(kernel.exact_order or 1, fitted.asked.sigma)
    X = ends.X[asked.sampled]
    total = np.zeros((len(check), len(X)))
    with np.errstate(over="ignore", invalid="ignore"):
        for t, (term, f) in enumerate(zip(expansion.terms, expansion.functions(X), strict=True)):
            if term.linear:
                row_sums = fitted.sums(term.base, ends) - lost.get(term.base, 0.0)
                own = ends.W.diagonal * fitted.asked.diagonal(term.base, ends)
                part = f.T * (sums["sums", term.base] + own - row_sums)[:, None]
            else:
                part = f.T * sums["missed", t]
            total += term.coefficient * part
    return total


@dataclass(frozen=True, slots=True, eq=False)
class HeldForms:
    """Quadratic forms of a low-rank ``A = W o K``, from stored directions, row sums and diagonal.

    W are label weights, and K is a base matrix (term of the kernel's series). For each base matrix
    in `basis`, the coefficients of even powers are replaced by their projection on the functionals
    ``B T`` (see `Lead`).

    Attributes
    ----------
    basis : dict
        Matrix T, by number of the base matrix.
    coefficients : dict
        Coefficients of the projection, by number of the base matrix.
    turned : dict
        Eigenvalues and eigenvectors of the matrix ``P' A P`` of each base matrix.
    n_samples : int
        Number of samples m in all slices.
    """

    along: Along
    basis: Mapping[int, Float]
    coefficients: Mapping[int, Float]
    turned: Mapping[int, tuple[Float, Float]]
    n_samples: int

    @staticmethod
    def of_round(
        along: Along, basis: Mapping[int, Float], coefficients: Mapping[int, Float], m: int
    ) -> HeldForms:
        """Create the low-rank matrices for m samples; decompose each matrix ``P' A P``."""
        turned = {base: (*np.linalg.eigh(core),) for base, core in along.core.items()}
        return HeldForms(along, basis, coefficients, turned, m)

    def of(self, known: Slice) -> dict[int, LowRankSymmetric]:
        """Return the low-rank matrix ``A = W o K`` at the samples of a slice.

        W are label weights. There is one A per base matrix K (term of the kernel's series
        expansion), by its number. The row sums of A are over all samples.
        """
        return {base: self._of_base(base, known) for base in self.turned}

    def _of_base(self, base: int, known: Slice) -> LowRankSymmetric:
        diagonal = known.W.diagonal * self.along.fitted.asked.diagonal(base, known)
        sums = self.along.fitted.sums(base, known)
        if base in self.basis:
            f = self.along.functional(base, known)
            lost = f - known.B[base] @ (self.basis[base] @ self.coefficients[base])
            if self.along.of_differences:
                sums = sums - lost
            else:
                diagonal = diagonal - lost
        (T, Q), m = self.turned[base], self.n_samples
        F = (np.sqrt(m) * (Q.T @ known.P[base].T)).T  # directions are contiguous
        return LowRankSymmetric(F, T / m, diagonal, is_orthogonal=True, sums=sums)

    def sizes(self, known: Slice) -> dict[int, Float]:
        """Compute squared norms of the low-rank and the exact diagonal of ``A = W o K``, (2,).

        W are the label weights and K is a base matrix (term of the kernel's series expansion). The
        result is by number of the base matrix, and includes only the samples of the slice.
        """
        A = self.of(known)
        return {base: np.array([a.own @ a.own, a.diagonal @ a.diagonal]) for base, a in A.items()}

    def norm(self, base: int, own: float, diagonal: float) -> float:
        """Compute the norm ``||A||_F`` of ``A = W o K`` for one base matrix K.

        W are label weights; base matrices are the terms of the kernel's series. `own` and
        `diagonal` are the two results of `sizes`, summed over slices of the samples.
        """
        T = self.turned[base][0]
        return float(np.sqrt(max(float(T @ T) - own, 0.0) + diagonal))


def projected_on(known: Slice, basis: Mapping[int, Float]) -> Array:
    """Return the directions on which features are projected, as rows (n, s).

    For each base matrix (term of the kernel's series expansion) they are the leading directions P
    and the functionals ``B T`` of `HeldForms`. `basis` contains T by number of the base matrix, and
    s is the number of samples of the slice.
    """
    rows = [B.T for base in sorted(basis) for B in (known.P[base], known.B[base] @ basis[base])]
    return np.concatenate(rows, dtype=np.float32, casting="same_kind")


@dataclass(frozen=True, eq=False)
class Weighed:
    """State of a low-rank round: ``A = W o K`` along stored directions, and sums over samples.

    W are label weights, and K is a base matrix (term of the kernel's series).

    Attributes
    ----------
    even : dict
        Coefficients of the functionals ``B T``, which replace the coefficients of even powers, by
        number of the base matrix.
    lost : dict
        Row sums of A at the n check rows minus the row sums from these functionals, (n,), by number
        of the base matrix.
    """

    along: Along
    sums: Sums
    even: Mapping[int, Float]
    lost: Mapping[int, Float]

    @property
    def sigma(self) -> float:
        """Bandwidth parameter sigma of the kernel."""
        return self.along.fitted.asked.sigma

    @property
    def rank(self) -> int:
        """Maximum number of low-rank directions, over all terms of the kernel's series."""
        return max((len(core) for core in self.along.core.values()), default=0)
