"""Directions of ``A = W o K`` that slices of the samples keep, and what is summed along them.

They are the leading ones of one round, and in rounds that follow A is known along them: what is
needed of it then is ``P' A P``, what of ``A 1`` lies along few functionals, and what the check rows
say is missed. See `dhsic.lowrank.slices`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.linalg.symmetric import LowRankSymmetric, compression, products_of
from dhsic.lowrank.slices import Fitted, Slice, Sums, add_sums

#: Directions, scaled, whose squared size is less than this part of the largest are rounding.
DEPENDENT = 1e-10


def gram(known: Slice, asked: Fitted) -> tuple[Slice, Sums]:
    """``Z'Z`` for every base."""
    total: Sums = {}
    for strip in known.strips():
        sums: Sums = {}
        for base in asked.asked.bases:
            Z = products_of(strip.W.F, asked.factor(base, strip).F)
            sums[base] = Z.T @ Z
        total = add_sums(total, sums) if total else sums
    return known, total


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


def lead(known: Slice, asked: Lead) -> tuple[Slice, Sums]:
    """Directions of A for some samples, and functionals, ``B'B`` of which are summed."""
    P: dict[int, list[Float]] = {base: [] for base in asked.mix}
    B: dict[int, list[Float]] = {base: [] for base in asked.mix}
    total: Sums = {}
    for strip in known.strips():
        sums: Sums = {}
        for base, mix in asked.mix.items():
            K = asked.along.fitted.factor(base, strip)
            V = products_of(strip.W.F, K.F) @ mix
            P[base].append(V)
            if asked.multiplied:
                f = asked.along.functional(base, replace(strip, P={base: V}))
                some = V.T[: asked.multiplied]
                pairs = [v * w for v, w in combinations_with_replacement(some, 2)]
                every = np.column_stack([f, np.ones(len(V)), *pairs])
                B[base].append(every)
                sums[base] = every.T @ every
        total = add_sums(total, sums) if total else sums
    joined = {base: np.concatenate(parts) for base, parts in P.items()}
    beside = {base: np.concatenate(parts) for base, parts in B.items() if parts}
    return replace(known, P=joined, B=beside), total


def orthonormal(gram: Float) -> Float:
    """T such that columns of ``B T`` are orthonormal, (n, r), from ``B'B``; dependent ones go."""
    sizes = np.sqrt(np.diagonal(gram))
    sizes[sizes == 0] = 1.0
    values, V = np.linalg.eigh(gram / np.multiply.outer(sizes, sizes))
    kept = values > DEPENDENT * values.max(initial=0.0)
    return np.asarray(V[:, kept] / np.sqrt(values[kept]) / sizes[:, None])


def weigh(known: Slice, asked: Along) -> tuple[Slice, Sums]:
    """What the samples say of A along the directions: HSIC, functionals, errors on check rows."""
    fitted, kernel = asked.fitted, asked.fitted.asked.kernel
    expansion = kernel.expansion(kernel.exact_order or 1, fitted.asked.sigma)
    total: Sums = {}
    for strip in known.strips():
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
        total = add_sums(total, sums) if total else sums
    return known, total


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


def held_at_home(
    known: Slice, asked: tuple[Along, Mapping[int, Float], Mapping[int, Float]]
) -> dict[int, tuple[Float, Float, Float]]:
    """Directions of A, its row sums and its diagonal, of each base; for who needs them together.

    Of what goes with even powers only what the functionals ``B T`` say is left, for each base with
    T and those coefficients.
    """
    along, basis, coefficients = asked
    found = {}
    for base, P in known.P.items():
        diagonal = known.W.diagonal * along.fitted.asked.diagonal(base, known)
        sums, lost = along.fitted.sums(base, known), np.zeros(1)
        if base in basis:
            f = along.functional(base, known)
            lost = f - known.B[base] @ (basis[base] @ coefficients[base])
        if along.of_differences:
            found[base] = P, sums - lost, diagonal
        else:
            found[base] = P, sums, diagonal - lost
    return found


def at_home(
    parts: Sequence[Mapping[int, tuple[Float, Float, Float]]], core: Mapping[int, Float]
) -> dict[int, LowRankSymmetric]:
    """A of each base, all samples together; `parts` are what slices hold of it."""
    whole = {}
    for base, matrix in core.items():
        mine = [part[base] for part in parts]
        P, sums, diagonal = (np.concatenate([found[i] for found in mine]) for i in range(3))
        T, Q = np.linalg.eigh(matrix)
        m = len(P)
        F = (np.sqrt(m) * (Q.T @ P.T)).T  # directions are contiguous
        whole[base] = LowRankSymmetric(F, T / m, diagonal, is_orthogonal=True, sums=sums)
    return whole


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
