r"""HSIC of few-valued features, and its moments under independence: O(q^3) per feature.

A feature with q levels splits the samples by indicators Z (m, q), and the matrix that an estimator
makes of its kernel matrix (`dhsic.hsic.estimated`) is

    ``A = Z kappa Z' + Diag(Z delta)``,

with kappa (q, q) a kernel between levels, and delta (q,) an addition to the diagonal. So A is
determined by kappa, delta and the counts n of the levels; and of the labels, ``C = B diag(w) B'``,
only the sums ``U = Z'B`` (q, r) and those of the diagonal of C, ``Z'c``, are needed:

    ``HSIC = <C, A> = sum_kl kappa_kl (U diag(w) U')_kl + delta' Z'c``.

The moments over all permutations are computed from sums over the centred A
(`dhsic.criteria.null.sums_over`), which also has levels. With covariates it does not: permuted
labels are multiplied with ``R A R``, ``R = I - Q Q'``. Its traces follow from ``T = Z'Q`` (q, p)
and the sums ``S_l`` (p, p) of ``Q_i Q_i'`` over each level, because by induction

    ``A^k Q = Z X_k + D^k Q``,  ``X_(k+1) = kappa (n X_k + delta^k T) + delta X_k``,  ``X_0 = 0``.

These traces are the moments up to O(1/m). The other sums, over the diagonal, are assumed to shrink
like the norm; this holds if a few samples determine A and covariates explain little of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.sparse import csr_array

from dhsic._typing import Array, Float
from dhsic.criteria.null import Moments, NullOf
from dhsic.namespace import slices

#: Features, samples and columns per product, so that calls are few, because threads wait for each
#: other between them. With 16 columns, or features not a multiple of 12, BLAS sums rows in varying
#: orders.
HEIGHT, WIDTH, COLUMNS = 240, 2048, 8
#: Fraction of missing samples up to which they are added one by one, and of samples without the
#: most frequent code up to which differences lose digits.
SELDOM = 1 / 64


@dataclass(frozen=True, eq=False)
class LevelForms:
    """A of c features with q levels each: `counts` and `delta` (c, q), `kappa` (c, q, q).

    Each A is a matrix over the samples in `counts`, those without a missing value.
    """

    counts: Float
    kappa: Float
    delta: Float

    @classmethod
    def of(cls, K: Float, counts: Float, estimator: str) -> LevelForms:
        """A by `dhsic.hsic.estimated`, from kernel matrices K (c, q, q) between levels."""
        n = counts.sum(axis=1)[:, None]
        own = np.einsum("cll->cl", K)
        if estimator == "biased":
            return cls(counts, K / ((n - 1) ** 2)[..., None], np.zeros_like(own))
        sums = _times(K, counts) - own
        scale = 1.0 / (n * (n - 3))
        g = 2.0 * sums / (n - 2) - np.vecdot(counts, sums)[:, None] / ((n - 1) * (n - 2))
        return cls(counts, scale[..., None] * K, scale * (g - own))

    @property
    def n_samples(self) -> Float:
        """Number of samples of each feature, (c,)."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def diagonal(self) -> Float:
        """Diagonal of A by level, (c, q)."""
        return np.asarray(np.einsum("cll->cl", self.kappa) + self.delta)

    @property
    def norms(self) -> Float:
        """``||A||``, (c,)."""
        n, off = self.counts, self._off_diagonal(self.kappa**2)
        return np.asarray(np.sqrt(np.vecdot(n, off + self.diagonal**2)))

    def _off_diagonal(self, powers: Float) -> Float:
        """Row sums of ``kappa^p`` for each level, without the diagonal entry."""
        return np.asarray(_times(powers, self.counts) - np.einsum("cll->cl", powers))

    def inner(self, U: Float, w: Float, of_diagonal: Float) -> Float:
        """``<C, A>``, (c,), from U (c, q, r) and ``Z'c`` (c, q)."""
        inner = np.einsum("ckl,ckl->c", self.kappa, _products(U * w, U.transpose(0, 2, 1)))
        return np.asarray(inner + np.vecdot(self.delta, of_diagonal))

    def centred(self) -> tuple[LevelForms, Float]:
        """``H A H`` minus its part of ``H = I - 1 1' / m``, which has no trace; and its trace."""
        n, m = self.counts, self.n_samples
        means = (_times(self.kappa, n) + self.delta) / m[:, None]
        kappa = self.kappa - means[:, :, None] - means[:, None, :]
        kappa += (np.vecdot(n, means) / m)[:, None, None]
        trace = np.vecdot(n, np.einsum("cll->cl", kappa) + self.delta)
        less = trace / (m - 1)
        kappa += (less / m)[:, None, None]
        return LevelForms(n, kappa, self.delta - less[:, None]), trace

    def sums(self) -> tuple[Float, Float]:
        """Sums over A (see `dhsic.criteria.null.sums_over`) of both orders: (c, 2) and (c, 5)."""
        n, kappa, a = self.counts, self.kappa, self.diagonal
        square = kappa * kappa
        squares = self._off_diagonal(square) + a * a
        cubes = self._off_diagonal(square * kappa) + _cube(a)
        M = kappa * n[:, None, :]
        M[:, range(n.shape[1]), range(n.shape[1])] += self.delta
        # For the n samples of a level A has n - 1 eigenvectors within it, with eigenvalue delta.
        trace = np.einsum("ckl,clk->c", _products(M, M), M) + np.vecdot(n - 1, _cube(self.delta))
        quadratic = np.vecdot(n * a, _times(M, a))
        third = np.vecdot(n, _cube(a)), np.vecdot(n, cubes), np.vecdot(n * a, squares)
        second = (n * a * a).sum(axis=1), np.vecdot(n, squares)
        return np.stack(second, axis=1), np.stack([*third, quadratic, trace], axis=1)

    def projected_traces(self, T: Float, S: Float) -> tuple[Float, Float, Float]:
        """Traces of ``R A R``, its square and its cube, (c,), from T (c, q, p), S (c, q, p, p).

        Computed as ``tr (A - Q Q' A)^k``, expanded.
        """
        n, delta, X = self.counts[..., None], self.delta[..., None], np.zeros_like(T)
        own, power, between = np.einsum("cll->cl", self.kappa), np.ones_like(T[..., :1]), []
        for _ in range(3):
            X = _products(self.kappa, n * X + power * T) + delta * X
            power = power * delta
            diagonal_part = np.einsum("cl,clpr->cpr", power[..., 0], S)
            between.append(_products(T.transpose(0, 2, 1), X) + diagonal_part)  # Q' A^k Q
        M = self.kappa * self.counts[:, None, :]
        M[:, range(n.shape[1]), range(n.shape[1])] += self.delta
        first, second, _ = between
        of_A = [
            np.vecdot(self.counts, own + self.delta),
            np.einsum("ckl,clk->c", M, M) + np.vecdot(self.counts - 1, self.delta**2),
            np.einsum("ckl,clk->c", _products(M, M), M)
            + np.vecdot(self.counts - 1, _cube(self.delta)),
        ]
        tr = [np.einsum("cpp->c", each) for each in between]
        twice = np.einsum("cpr,crp->c", first, first)
        thrice = np.einsum("cpr,crp->c", first @ first, first)
        mixed = np.einsum("cpr,crp->c", second, first)
        return (
            of_A[0] - tr[0],
            of_A[1] - 2.0 * tr[1] + twice,
            of_A[2] - 3.0 * tr[2] + 3.0 * mixed - thrice,
        )

    def moments(self, null: NullOf, T: Float | None, S: Float | None) -> Moments:
        """Moments of ``<P C P', R A R>`` over all permutations, (c,) each.

        T and S are those of `projected_traces`; None without covariates.
        """
        centred, trace = self.centred()
        second, third = centred.sums()
        if T is not None and S is not None:
            trace, square, cube = self.projected_traces(T, S)
            m = self.n_samples
            less = trace / (m - 1)  # subtracting this times H makes the trace 0
            square = np.maximum(square - less * trace, 0.0)
            cube = cube - 3.0 * less * (square + less * trace) + 2.0 * less**2 * trace
            smaller = square / np.where(second[:, 1] > 0, second[:, 1], 1.0)
            second = np.column_stack([second[:, 0] * smaller, square])
            third = np.column_stack([third[:, :4] * smaller[:, None] ** 1.5, cube])
        return null.moments(trace, second, third)


def _cube(x: Float) -> Float:
    """``x^3``, a hundred times faster than the power operator."""
    return np.asarray(x * x * x)


def _times(K: Float, n: Float) -> Float:
    """``K n`` of each feature, (c, q)."""
    return np.asarray(np.einsum("ckl,cl->ck", K, n))


def _products(A: Float, B: Float) -> Float:
    """``A B`` of each feature, (c, k, r).

    BLAS is not used: it takes a lock for every small product, so two threads took three times as
    long.
    """
    return np.asarray(np.einsum("ckl,clr->ckr", A, B))


def sums_over_codes(raw: Array, code: int | None, Y: Float) -> Float:
    """Sums of few columns Y (m, k) over the samples with code 0, 1, 2 and missing: (4, c, k).

    Genotypes raw (c, m) are int8, with `code`, -1, for missing values (None if there are none). The
    last column of Y is ones: its sums are exact counts. Products are in float32, which takes half
    the time, with errors of a millionth of the standard deviation of a sum over random samples.
    They are in float64 if nearly all samples have code 1 or 2, because the other sums are then
    differences.
    """
    sums = _sums_over_codes(raw, code, Y.astype(np.float32))
    counts = sums[..., -1]
    near = np.flatnonzero(counts[1:3].max(axis=0) > (1.0 - SELDOM) * raw.shape[1])
    if near.size:
        sums[:, near] = _sums_over_codes(raw[near], code, Y)
    return sums


def _sums_over_codes(raw: Array, code: int | None, Y: Array) -> Float:
    """Sums of `sums_over_codes`, in the precision of Y."""
    out = np.zeros((4, len(raw), Y.shape[1]))
    zero, one, two, missing = out
    _add_products(raw, Y, one, two)  # sums of g and g^2: g^2 - g is 2 if g is 2 or -1, else 0
    if code is not None:
        _add_missing(raw == code, Y, missing)
    two -= one
    two /= 2
    two -= missing
    one -= 2 * two
    one += missing
    zero += Y.sum(axis=0, dtype=np.float64) - one - two - missing
    return out


def _add_missing(mask: Array, Y: Float, out: Float) -> None:
    """Add sums of Y over the missing samples, by mask (c, m), to `out` (c, k)."""
    c, m = mask.shape
    at = np.flatnonzero(mask)
    n = np.diff(np.searchsorted(at, m * np.arange(c + 1)))
    often = n > SELDOM * m
    calls = at[np.repeat(~often, n)] % m
    ends = np.append(0, np.cumsum(np.where(often, 0, n)))
    out += csr_array((np.ones(calls.size), calls, ends), shape=(c, m)) @ Y
    if often.any():
        of_often = out[often]
        _add_products(mask[often], Y, of_often)
        out[often] = of_often


def _add_products(values: Array, Y: Array, *outs: Float) -> None:
    """Add products of values (c, m) with Y (m, k), and of their squares, to one or two (c, k).

    Products are in the precision of Y, for strips of samples that are added in float64. All
    products have equal numbers of features, including the last ones, so that the bits of a feature
    do not depend on its position.
    """
    c, m = values.shape
    strip = np.zeros((HEIGHT, min(m, WIDTH)), dtype=Y.dtype)
    panels = [np.ascontiguousarray(Y[:, k]) for k in slices(Y.shape[1], COLUMNS)]
    for a, b in product(range(0, m, WIDTH), range(0, c, HEIGHT)):
        part = values[b : b + HEIGHT, a : a + WIDTH]
        n, g = len(part), strip[:, : part.shape[1]]
        g[:n] = part
        for number, out in enumerate(outs):
            if number:
                np.multiply(g, g, out=g)
            for k, y in zip(slices(Y.shape[1], COLUMNS), panels, strict=True):
                out[b : b + HEIGHT, k] += (g @ y[a : a + WIDTH])[:n]
