r"""HSIC of features of few values, and what it would be under independence: O(q^3) a feature.

A feature that has q levels splits the samples by indicators Z (m, q), and the matrix that an
estimator makes of its kernel matrix (`dhsic.hsic.estimated`) is

    ``A = Z kappa Z' + Diag(Z delta)``,

kappa (q, q) a kernel between levels, delta (q,) what the diagonal has besides. So all there is to
know of A is kappa, delta and the counts n of the levels; and of the labels, ``C = B diag(w) B'``,
the sums ``U = Z'B`` (q, r) and those of the diagonal of C, ``Z'c``:

    ``HSIC = <C, A> = sum_kl kappa_kl (U diag(w) U')_kl + delta' Z'c``.

The moments of all permutations are made of sums over A without its mean
(`dhsic.criteria.null.sums_over`), which has levels too. With covariates it has none: what permuted
labels meet is ``R A R``, ``R = I - Q Q'``. Its traces follow from ``T = Z'Q`` (q, p) and the sums
``S_l`` (p, p) of ``Q_i Q_i'`` over each level, for by induction

    ``A^k Q = Z X_k + D^k Q``,  ``X_(k+1) = kappa (n X_k + delta^k T) + delta X_k``,  ``X_0 = 0``.

They are all but a part O(1/m) of the moments; the other sums, those of the diagonal, are taken to
shrink as the norm does, which holds where a few samples make all of A and covariates take little
from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.sparse import csr_array

from dhsic._typing import Array, Float
from dhsic.criteria.null import Moments, NullOf
from dhsic.namespace import slices

#: Features, samples and columns of a product: few calls, for threads wait for each other between
#: them. Of 16 columns, or of features that are no multiple of 12, BLAS sums rows in several orders.
HEIGHT, WIDTH, COLUMNS = 240, 2048, 8
#: Part of the samples up to which what is missing of a feature is added call by call, and up to
#: which those that are not of the commonest code are few.
SELDOM = 1 / 64


@dataclass(frozen=True, eq=False)
class LevelForms:
    """A of c features of q levels each: `counts` and `delta` (c, q), `kappa` (c, q, q).

    Each is a matrix of the samples that `counts` count, those whose value is not missing.
    """

    counts: Float
    kappa: Float
    delta: Float

    @classmethod
    def of(cls, K: Float, counts: Float, estimator: str) -> LevelForms:
        """As `dhsic.hsic.estimated`, of kernel matrices K (c, q, q) between levels."""
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
        """Samples of each feature, (c,)."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def diagonal(self) -> Float:
        """Of A, by level, (c, q)."""
        return np.asarray(np.einsum("cll->cl", self.kappa) + self.delta)

    @property
    def norms(self) -> Float:
        """``||A||``, (c,)."""
        n, off = self.counts, self._off_diagonal(self.kappa**2)
        return np.asarray(np.sqrt(np.vecdot(n, off + self.diagonal**2)))

    def _off_diagonal(self, powers: Float) -> Float:
        """Sums of ``kappa^p`` over a row of each level, less what stands on the diagonal."""
        return np.asarray(_times(powers, self.counts) - np.einsum("cll->cl", powers))

    def inner(self, U: Float, w: Float, of_diagonal: Float) -> Float:
        """``<C, A>``, (c,), of U (c, q, r) and ``Z'c`` (c, q)."""
        inner = np.einsum("ckl,ckl->c", self.kappa, _products(U * w, U.transpose(0, 2, 1)))
        return np.asarray(inner + np.vecdot(self.delta, of_diagonal))

    def centred(self) -> tuple[LevelForms, Float]:
        """``H A H`` less its part of ``H = I - 1 1' / m``, and its trace, (c,)."""
        n, m = self.counts, self.n_samples
        means = (_times(self.kappa, n) + self.delta) / m[:, None]
        kappa = self.kappa - means[:, :, None] - means[:, None, :]
        kappa += (np.vecdot(n, means) / m)[:, None, None]
        trace = np.vecdot(n, np.einsum("cll->cl", kappa) + self.delta)
        less = trace / (m - 1)
        kappa += (less / m)[:, None, None]
        return LevelForms(n, kappa, self.delta - less[:, None]), trace

    def sums(self) -> tuple[Float, Float]:
        """As `dhsic.criteria.null.sums_over` for both orders: (c, 2) and (c, 5)."""
        n, kappa, a = self.counts, self.kappa, self.diagonal
        square = kappa * kappa
        squares = self._off_diagonal(square) + a * a
        cubes = self._off_diagonal(square * kappa) + _cube(a)
        M = kappa * n[:, None, :]
        M[:, range(n.shape[1]), range(n.shape[1])] += self.delta
        # Of the n samples of a level n - 1 directions are its own: A has delta there.
        trace = np.einsum("ckl,clk->c", _products(M, M), M) + np.vecdot(n - 1, _cube(self.delta))
        quadratic = np.vecdot(n * a, _times(M, a))
        third = np.vecdot(n, _cube(a)), np.vecdot(n, cubes), np.vecdot(n * a, squares)
        second = (n * a * a).sum(axis=1), np.vecdot(n, squares)
        return np.stack(second, axis=1), np.stack([*third, quadratic, trace], axis=1)

    def projected_traces(self, T: Float, S: Float) -> tuple[Float, Float, Float]:
        """Traces of ``R A R``, of its square and its cube, (c,), from T (c, q, p), S (c, q, p, p).

        ``tr (A - Q Q' A)^k``, multiplied out.
        """
        n, delta, X = self.counts[..., None], self.delta[..., None], np.zeros_like(T)
        own, power, between = np.einsum("cll->cl", self.kappa), np.ones_like(T[..., :1]), []
        for _ in range(3):
            X = _products(self.kappa, n * X + power * T) + delta * X
            power = power * delta
            rest = np.einsum("cl,clpr->cpr", power[..., 0], S)
            between.append(_products(T.transpose(0, 2, 1), X) + rest)  # Q' A^k Q
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

        T and S are as of `projected_traces`, None without covariates.
        """
        centred, trace = self.centred()
        second, third = centred.sums()
        if T is not None and S is not None:
            trace, square, cube = self.projected_traces(T, S)
            m = self.n_samples
            less = trace / (m - 1)  # what is left without this times H has no trace
            square = np.maximum(square - less * trace, 0.0)
            cube = cube - 3.0 * less * (square + less * trace) + 2.0 * less**2 * trace
            smaller = square / np.where(second[:, 1] > 0, second[:, 1], 1.0)
            second = np.column_stack([second[:, 0] * smaller, square])
            third = np.column_stack([third[:, :4] * smaller[:, None] ** 1.5, cube])
        return null.moments(trace, second, third)


def _cube(x: Float) -> Float:
    """``x^3``, a hundred times as fast as by a power."""
    return np.asarray(x * x * x)


def _times(K: Float, n: Float) -> Float:
    """``K n`` of each feature, (c, q)."""
    return np.asarray(np.einsum("ckl,cl->ck", K, n))


def _products(A: Float, B: Float) -> Float:
    """``A B`` of each feature, (c, k, r).

    Not by BLAS, which takes a lock for every small product: two threads took three times as long.
    """
    return np.asarray(np.einsum("ckl,clr->ckr", A, B))


def sums_over_codes(raw: Array, code: int | None, Y: Float) -> Float:
    """Sums of few columns Y (m, k) over the samples of 0, 1, 2 and missing: (4, c, k).

    Of genotypes raw (c, m) int8, in which `code`, -1, is what is missing, None where nothing is.
    The last column of Y is ones: its sums are counts, and exact. Products are in float32, which
    takes half the time and leaves a millionth of the deviation that a sum over random samples has;
    in float64 where nearly all samples are of code 1 or 2, for those of the others are differences.
    """
    sums = _sums_over_codes(raw, code, Y.astype(np.float32))
    counts = sums[..., -1]
    near = np.flatnonzero(counts[1:3].max(axis=0) > (1.0 - SELDOM) * raw.shape[1])
    if near.size:
        sums[:, near] = _sums_over_codes(raw[near], code, Y)
    return sums


def _sums_over_codes(raw: Array, code: int | None, Y: Array) -> Float:
    """As of `sums_over_codes`, in the precision of Y."""
    out = np.zeros((4, len(raw), Y.shape[1]))
    zero, one, two, missing = out
    _add_products(raw, Y, one, two)  # of g and of g^2: g^2 - g is 2 where g is 2 or -1, else 0
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
    """Add sums of Y over what the mask (c, m) says is missing to `out` (c, k)."""
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

    In the precision of Y, a strip of samples after the other, which are added in float64. All
    products are of as many features, the last ones too, so that their bits are the same wherever a
    feature stands among others.
    """
    c, m = values.shape
    strip = np.zeros((HEIGHT, min(m, WIDTH)), dtype=Y.dtype)
    panels = [np.ascontiguousarray(Y[:, k]) for k in slices(Y.shape[1], COLUMNS)]
    for a, b in product(range(0, m, WIDTH), range(0, c, HEIGHT)):
        some = values[b : b + HEIGHT, a : a + WIDTH]
        n, g = len(some), strip[:, : some.shape[1]]
        g[:n] = some
        for number, out in enumerate(outs):
            if number:
                np.multiply(g, g, out=g)
            for k, y in zip(slices(Y.shape[1], COLUMNS), panels, strict=True):
                out[b : b + HEIGHT, k] += (g @ y[a : a + WIDTH])[:n]
