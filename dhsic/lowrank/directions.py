"""Directions of ``A = W o K`` that slices of the samples keep, and what is summed along them.

They are the leading ones of one round, and in rounds that follow A is known along them: what is
needed of it then is ``P' A P``, what of ``A 1`` lies along few functionals, and what the check rows
say is missed. See `dhsic.lowrank.slices`.
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
from dhsic.lowrank.slices import Fitted, Slice, Sums, over_strips

#: Directions, scaled, whose squared size is less than this part of the largest are rounding.
DEPENDENT = 1e-10


def gram(known: Slice, asked: Fitted, each: Each = map) -> tuple[Slice, Sums]:
    """``Z'Z`` for every base."""

    def of(strip: Slice) -> tuple[None, Sums]:
        sums: Sums = {}
        for base in asked.asked.bases:
            Z = products_of(strip.W.F, asked.factor(base, strip).F)
            sums[base] = Z.T @ Z
        return None, sums

    return known, over_strips(known, of, each)[1]


def leading(
    asked: Fitted, sums: Sums, W: LowRankSymmetric, tolerance: float, most: int | None = None
) -> tuple[dict[int, Float], dict[int, Float]]:
    """Of every base, `mix` and T with ``A ~ P diag(T) P'``, ``P = Z mix``: at most so many columns.

    `sums` are those of `gram`; a part `tolerance` of A may be lost.
    """
    mix, T = {}, {}
    for base in asked.asked.bases:
        Theta = np.asarray(np.kron(W.core, np.diag(asked.fits[base].weights)), dtype=np.float64)
        found, values, _ = compression(sums[base], Theta, None, tolerance)
        mix[base], T[base] = found[:, :most], values[:most]
    return mix, T


def core_along(asked: Fitted, sums: Sums, W: LowRankSymmetric, base: int) -> Float:
    """``P' A P``, (k, k), for directions that slices have; `sums` are those of `factor`."""
    found, fit = sums["P'Z", base], asked.fits[base]
    across = found.reshape(len(found), W.F.shape[1], -1)[:, :, fit.kept]  # (k, q, r)
    weighted = np.einsum("qp,lpr->lqr", W.core, across * fit.weights)
    return np.asarray(across.reshape(len(found), -1) @ weighted.reshape(len(found), -1).T)


@dataclass(frozen=True, slots=True, eq=False)
class Along:
    """A of a round along directions P of slices: ``A ~ P core P'`` off the diagonal.

    Attributes
    ----------
    core : dict
        (k, k) of each base.
    of_differences : bool
        As of `dhsic.kernels.base.PowerSeries`.
    ends, weights : dict and (n, q)
        ``P core`` and ``U M`` at the check rows.
    sampled : (c,) int64
        Which of the features whose values slices have are looked at.
    """

    fitted: Fitted
    core: Mapping[int, Float]
    of_differences: bool
    ends: Mapping[int, Float] = field(default_factory=dict)
    weights: Any = None
    sampled: Any = None

    def from_checks(self, block: Slice) -> Along:
        """With what it says of the check rows, in the slice of the landmarks."""
        some = block.part(self.fitted.asked.check)
        ends = {base: some.P[base] @ core for base, core in self.core.items()}
        return replace(self, ends=ends, weights=some.W.F @ some.W.core)

    def functional(self, base: int, known: Slice) -> Float:
        """What goes with even powers besides products along the directions, (s,)."""
        P = known.P[base]
        own = np.einsum("ij,ij->i", P @ self.core[base], P)
        diagonal = known.W.diagonal * self.fitted.asked.diagonal(base, known)
        if self.of_differences:
            return np.asarray(self.fitted.sums(base, known) - diagonal + own)
        return np.asarray(diagonal - own)

    def missed(self, base: int, known: Slice) -> tuple[Float, Float]:
        """Check rows of A, less what this makes of them, (n, s), and their sums; no diagonals."""
        asked = self.fitted.asked
        A = asked.checks(base, known)
        A *= self.weights @ known.W.F.T
        sums = A.sum(axis=1)
        A -= self.ends[base] @ known.P[base].T
        A[asked.itself(asked.check, known)] = 0.0
        return A, sums


@dataclass(frozen=True, slots=True, eq=False)
class Lead:
    """Leading directions of A, ``P = Z mix``, and with `multiplied` functionals of even powers.

    They are what goes with even powers in the round, ones, and products of that many directions.
    """

    along: Along
    mix: Mapping[int, Float]
    multiplied: int = 0


def lead(known: Slice, asked: Lead, each: Each = map) -> tuple[Slice, Sums]:
    """Directions of A for some samples, and functionals, ``B'B`` of which are summed."""

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
                some = V.T[: asked.multiplied]
                pairs = [v * w for v, w in combinations_with_replacement(some, 2)]
                every = np.column_stack([f, np.ones(len(V)), *pairs])
                B[base] = every
                sums[base] = every.T @ every
        return (P, B), sums

    found, total = over_strips(known, of, each)
    P, B = (
        {base: np.concatenate([parts[base] for parts in of_all]) for base in of_all[0]}
        for of_all in zip(*found, strict=True)
    )
    return replace(known, P=P, B=B), total


def orthonormal(gram: Float) -> Float:
    """T such that columns of ``B T`` are orthonormal, (n, r), from ``B'B``; dependent ones go."""
    sizes = np.sqrt(np.diagonal(gram))
    sizes[sizes == 0] = 1.0
    values, V = np.linalg.eigh(gram / np.multiply.outer(sizes, sizes))
    kept = values > DEPENDENT * values.max(initial=0.0)
    return np.asarray(V[:, kept] / np.sqrt(values[kept]) / sizes[:, None])


def weigh(known: Slice, asked: Along, each: Each = map) -> tuple[Slice, Sums]:
    """What the samples say of A along the directions: HSIC, functionals, errors on check rows."""
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
            with np.errstate(over="ignore", invalid="ignore"):  # outliers: no number
                functions = expansion.functions(X)
                for t, (term, f) in enumerate(zip(expansion.terms, functions, strict=True)):
                    if not term.linear:
                        sums["missed", t] = (missed[term.base] @ f.T).astype(np.float64)
        return None, sums

    return known, over_strips(known, of, each)[1]


def lead_and_weigh(known: Slice, asked: Lead, each: Each = map) -> tuple[Slice, Sums]:
    """As of `lead`, then of `weigh`."""
    found, sums = lead(known, asked, each)
    return found, sums | weigh(found, asked.along, each)[1]


def row_errors(asked: Along, block: Slice, sums: Sums, lost: Mapping[int, Float]) -> Float:
    """``n e_j / m`` row by row, (n, c), of features that leave, to first order in sigma.

    `sums` is what all slices say, and what row sums of A are taken to be is short of what they are
    by `lost` at the check rows, (n,); see `dhsic.engines.certificate`.
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
                known = fitted.sums(term.base, ends) - lost.get(term.base, 0.0)
                own = ends.W.diagonal * fitted.asked.diagonal(term.base, ends)
                part = f.T * (sums["sums", term.base] + own - known)[:, None]
            else:
                part = f.T * sums["missed", t]
            total += term.coefficient * part
    return total


@dataclass(frozen=True, slots=True, eq=False)
class HeldForms:
    """A of a round as forms: along directions that slices have, its row sums and its diagonal.

    Of what goes with even powers only what the functionals ``B T`` say is left, for each base with
    T in `basis` and those coefficients.

    Attributes
    ----------
    turned : dict
        Eigenvalues and -vectors of the core of each base.
    n_samples : int
        Of all slices, m.
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
        """Of m samples."""
        turned = {base: (*np.linalg.eigh(core),) for base, core in along.core.items()}
        return HeldForms(along, basis, coefficients, turned, m)

    def of(self, known: Slice) -> dict[int, LowRankSymmetric]:
        """A of each base, rows of some samples: F there, the diagonal and sums over all."""
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
        """Of each base squares of the diagonal that the directions give, and of the true one."""
        A = self.of(known)
        return {base: np.array([a.own @ a.own, a.diagonal @ a.diagonal]) for base, a in A.items()}

    def norm(self, base: int, own: float, diagonal: float) -> float:
        """``||A||_F``, from sums over slices of their `sizes`."""
        T = self.turned[base][0]
        return float(np.sqrt(max(float(T @ T) - own, 0.0) + diagonal))


def projected_on(known: Slice, basis: Mapping[int, Float]) -> Array:
    """Directions that features are projected on, a row each, (n, s): P and functionals ``B T``."""
    rows = [of.T for base in sorted(basis) for of in (known.P[base], known.B[base] @ basis[base])]
    return np.concatenate(rows, dtype=np.float32, casting="same_kind")


@dataclass(frozen=True, eq=False)
class Weighed:
    """A round along directions that slices have, and what they say of it.

    Attributes
    ----------
    even : dict
        Coefficients of the functionals that features are projected on.
    lost : dict
        What these leave out of row sums at the check rows.
    """

    along: Along
    sums: Sums
    even: Mapping[int, Float]
    lost: Mapping[int, Float]

    @property
    def sigma(self) -> float:
        """Of the kernel."""
        return self.along.fitted.asked.sigma

    @property
    def rank(self) -> int:
        """Most directions of a base matrix."""
        return max((len(core) for core in self.along.core.values()), default=0)
