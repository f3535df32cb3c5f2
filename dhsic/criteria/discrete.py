r"""HSIC of features with few values, and its moments under independence: O(q^3) per feature.

The samples are partitioned by the q levels (distinct values) of a feature, with indicators Z (m,
q). The matrix A with ``HSIC = <C, A>`` for an estimator (`dhsic.hsic.estimated`) is

    ``A = Z kappa Z' + Diag(Z delta)``,

where kappa (q, q) is a kernel between levels, and delta (q,) is added to the diagonal. So A is
determined by kappa, delta and the counts n of the levels. Of the label matrix ``C = B diag(w) B'``
with diagonal c, only the sums ``U = Z'B`` (q, r) and ``Z'c`` are needed:

    ``HSIC = <C, A> = sum_kl kappa_kl (U diag(w) U')_kl + delta' Z'c``.

The moments over all permutations are computed from sums over the centred A
(`dhsic.criteria.null.sums_over`), which has the same form. With covariates, permuted labels are
multiplied by ``R A R`` with ``R = I - Q Q'``, which does not have this form. Its traces follow from
``T = Z'Q`` (q, p) and the sums ``S_l`` (p, p) of ``Q_i Q_i'`` over each level, because by induction

    ``A^k Q = Z X_k + D^k Q``,  ``X_(k+1) = kappa (n X_k + delta^k T) + delta X_k``,  ``X_0 = 0``.

These traces determine the moments up to O(1/m). The other sums, over the diagonal, are assumed to
decrease like the norm; this holds if a few samples determine A and covariates explain little of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.sparse import csr_array

from dhsic._typing import Array, Float
from dhsic.criteria.null import Moments, NullOf
from dhsic.namespace import slices

#: Number of features, samples and columns per product. They are large because threads wait for each
#: other between calls. With 16 columns, or a number of features that is not a multiple of 12, the
#: order in which BLAS sums rows would vary.
HEIGHT, WIDTH, COLUMNS = 240, 2048, 8
#: Fraction of missing samples up to which they are added one by one; also the fraction of samples
#: with other codes than the most frequent one, up to which differences lose digits.
SELDOM = 1 / 64


@dataclass(frozen=True, eq=False)
class LevelForms:
    """Matrices A with ``HSIC = <C, A>`` for c features with q distinct values (levels) each.

    C is the label matrix; the module docstring has the equations. The matrices are determined by
    `counts` and `delta` (c, q), and `kappa` (c, q, q). Each A is a matrix over the samples with a
    value, which `counts` includes.
    """

    counts: Float
    kappa: Float
    delta: Float

    @classmethod
    def of(cls, K: Float, counts: Float, statistic: str) -> LevelForms:
        """Compute the matrices A, with ``HSIC = <C, A>``, from kernels K (c, q, q) between levels.

        C is the label matrix; levels are the distinct values of a feature. `statistic` is "biased"
        or "unbiased", see `dhsic.hsic.estimated`.
        """
        n = counts.sum(axis=1)[:, None]
        own = np.einsum("cll->cl", K)
        if statistic == "biased":
            return cls(counts, K / ((n - 1) ** 2)[..., None], np.zeros_like(own))
        sums = _times(K, counts) - own
        scale = 1.0 / (n * (n - 3))
        g = 2.0 * sums / (n - 2) - np.vecdot(counts, sums)[:, None] / ((n - 1) * (n - 2))
        return cls(counts, scale[..., None] * K, scale * (g - own))

    @property
    def n_samples(self) -> Float:
        """Number of samples with a value, for each feature, (c,)."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def diagonal(self) -> Float:
        """Diagonal of the matrix A of each feature, for the samples of each level, (c, q)."""
        return np.asarray(np.einsum("cll->cl", self.kappa) + self.delta)

    @property
    def norms(self) -> Float:
        """Frobenius norms of the matrices A, one per feature, (c,)."""
        n, off = self.counts, self._off_diagonal(self.kappa**2)
        return np.asarray(np.sqrt(np.vecdot(n, off + self.diagonal**2)))

    def _off_diagonal(self, powers: Float) -> Float:
        """Row sums over samples, without the diagonal, of entrywise `powers` of kappa, (c, q)."""
        return np.asarray(_times(powers, self.counts) - np.einsum("cll->cl", powers))

    def inner(self, U: Float, w: Float, of_diagonal: Float) -> Float:
        """Compute HSIC, ``<C, A>``, from sums over the distinct values (levels) of features, (c,).

        C is the label matrix ``B diag(w) B'``, and A the matrix of each feature. U (c, q, r) are
        the sums of B over levels, and `of_diagonal` (c, q) the sums of the diagonal of C over
        levels.
        """
        inner = np.einsum("ckl,ckl->c", self.kappa, _products(U * w, U.transpose(0, 2, 1)))
        return np.asarray(inner + np.vecdot(self.delta, of_diagonal))

    def centred(self) -> tuple[LevelForms, Float]:
        """Centre the matrix A of each feature, and subtract a multiple of H so that its trace is 0.

        H is ``I - 1 1' / m``. Returns ``H A H`` minus this multiple of H, and the trace of ``H A
        H``.
        """
        n, m = self.counts, self.n_samples
        means = (_times(self.kappa, n) + self.delta) / m[:, None]
        kappa = self.kappa - means[:, :, None] - means[:, None, :]
        kappa += (np.vecdot(n, means) / m)[:, None, None]
        trace = np.vecdot(n, np.einsum("cll->cl", kappa) + self.delta)
        less = trace / (m - 1)
        kappa += (less / m)[:, None, None]
        return LevelForms(n, kappa, self.delta - less[:, None]), trace

    def sums(self) -> tuple[Float, Float]:
        """Sums of products of 2 and 3 entries of the matrix A of each feature: (c, 2) and (c, 5).

        `dhsic.criteria.null.sums_over` defines them.
        """
        n, kappa, a = self.counts, self.kappa, self.diagonal
        square = kappa * kappa
        squares = self._off_diagonal(square) + a * a
        cubes = self._off_diagonal(square * kappa) + _cube(a)
        M = kappa * n[:, None, :]
        M[:, range(n.shape[1]), range(n.shape[1])] += self.delta
        # Within a level of n samples A has n - 1 eigenvectors, with eigenvalue delta.
        trace = np.einsum("ckl,clk->c", _products(M, M), M) + np.vecdot(n - 1, _cube(self.delta))
        quadratic = np.vecdot(n * a, _times(M, a))
        third = np.vecdot(n, _cube(a)), np.vecdot(n, cubes), np.vecdot(n * a, squares)
        second = (n * a * a).sum(axis=1), np.vecdot(n, squares)
        return np.stack(second, axis=1), np.stack([*third, quadratic, trace], axis=1)

    def projected_traces(self, T: Float, S: Float) -> tuple[Float, Float, Float]:
        """Traces of ``R A R``, its square and its cube, (c,) each.

        A is the matrix of each feature with ``HSIC = <C, A>``; ``R = I - Q Q'`` removes the
        covariates. The traces are computed by expanding ``(A - Q Q' A)^k``. T (c, q, p) are the
        sums of the rows Q_i of the covariate basis over each level, and S (c, q, p, p) the sums of
        ``Q_i Q_i'``.
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
        """Moments of HSIC, ``<P C P', R A R>``, over all permutations P of the labels, (c,) each.

        C is the label matrix, A the matrix of each feature, and R removes the covariates. T and S
        are as in `projected_traces`. They are None without covariates.
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
    """Cubes ``x^3``; multiplication is a hundred times faster than the power operator."""
    return np.asarray(x * x * x)


def _times(K: Float, n: Float) -> Float:
    """Multiply the matrices K (c, q, q) by the vectors n (c, q), feature by feature: (c, q)."""
    return np.asarray(np.einsum("ckl,cl->ck", K, n))


def _products(A: Float, B: Float) -> Float:
    """Multiply the matrices A by the matrices B, feature by feature: (c, k, r).

    BLAS is not used, because it locks for every small product: two threads took three times as
    long.
    """
    return np.asarray(np.einsum("ckl,clr->ckr", A, B))


def sums_over_codes(raw: Array, code: int | None, Y: Float) -> Float:
    """Sums of a few columns Y (m, k) over the samples with code 0, 1, 2 and missing: (4, c, k).

    The genotypes `raw` (c, m) are int8. `code` is -1, the code of missing values, or None if no
    values are missing. The last column of Y is 1, so its sums are the exact counts. Products are in
    float32, which takes half the time; the errors are about a millionth of the standard deviation
    of a sum over random samples. If nearly all samples have code 1 or 2, the other sums are small
    differences, and products are in float64.
    """
    sums = _sums_over_codes(raw, code, Y.astype(np.float32))
    counts = sums[..., -1]
    near = np.flatnonzero(counts[1:3].max(axis=0) > (1.0 - SELDOM) * raw.shape[1])
    if near.size:
        sums[:, near] = _sums_over_codes(raw[near], code, Y)
    return sums


def _sums_over_codes(raw: Array, code: int | None, Y: Array) -> Float:
    """Compute `sums_over_codes` in the precision of the summed columns Y."""
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
    """Add the sums of Y (m, k) over samples with missing values to `out` (c, k).

    `mask` (c, m) marks the missing values.
    """
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
    """Add the products of values (c, m) with Y (m, k) to the first of `outs`, (c, k).

    If there is a second array in `outs`, the products of the squared values are added to it.
    Products of a strip of samples have the precision of Y, and strips are added in float64. All
    products have the same number of features, including the last one, so the bits of a feature do
    not depend on its position.
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
