r"""Share of a pair: fraction of the labels that the product explains in addition to both features.

Features x_j are centred and have unit variance over m samples; missing values are 0. Labels are
columns: one column for a real target, k indicators for a target with k classes. Q (m, q) is an
orthonormal basis of everything that is regressed out: the mean, covariates, main effects of known
features. Let ``z = x_j o x_k``, M the projection onto the orthogonal complement of ``[Q, x_j,
x_k]``, and Y the labels. The share of the pair is the fraction of the variance of ``M z`` that ``M
Y`` explains:

    ``share = 1 - |z - fit of z on [Q, x_j, x_k, Y]|^2 / |z - fit of z on [Q, x_j, x_k]|^2``.

For one real target, or two classes, this is the squared partial correlation of product and labels:
the share of the labels' variance that the term ``x_j x_k`` explains in a linear model with both
main effects. Recoding a feature as ``a x_j + b`` does not change it. If z or the labels are normal,
the share has under the null hypothesis the law ``Beta(t / 2, (n - t) / 2)``, where t is the number
of independent columns of labels and ``n = m - q - 2``. The p-value is exact for normal labels, and
approximate for other labels.

The share is computed from a few inner products. Let ``P = (I - Q Q') X``, ``g = P'P``, U an
orthonormal basis of ``(I - Q Q') Y``, ``C = P'U``. For a pair,

    ``b_j = P_j'z, b_k = P_k'z, v = z'z - |Q'z|^2, T = U'z``,
    ``beta = [g_jj g_jk; g_jk g_kk]^-1 (b_j, b_k)``,  the fit of z on both features,
    ``|M z|^2 = v - b'beta``,  ``e = T - C'beta = U'M z``,
    ``share = e' N^-1 e / |M z|^2``,  ``N = U'M U = I - C_jk' [g]^-1 C_jk``,

and by Woodbury's identity ``e' N^-1 e = e'e + w' ([g] - C_jk C_jk')^-1 w`` with ``w = C_jk e``, so
only 2 x 2 systems are solved, for any number of label columns. For all pairs of two sets of
features, each of g, b_j, b_k, v, T is a matrix product: ``X'X``, ``(P o X)'X``, ``X'(P o X)``, ``(X
o X)'(X o X)``, ``X' diag(u) X``.

Two kinds of pairs are uninformative and not tested (their share is NaN):

- *linked*: the squared correlation of x_j and x_k is above `linked`, so the product is nearly the
  square of one feature. This does not depend on Q. Pairs of features that are equal after Q is
  regressed out (squared correlation of P_j and P_k above `ALIKE`) are not tested either.
- *empty*: ``|M z|^2 < least m``; for two independent features it is about m. This happens if both
  features are rare variants and at most two samples carry both.

If relatedness or population structure inflates the deviance ``-n log(1 - share)`` of all pairs by a
factor, `deflated` divides by it (genomic control; Devlin and Roeder, 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betainccinv

from dhsic._typing import Array, Float, Index, Mask
from dhsic.criteria.null import log_of_tail
from dhsic.errors import InputError
from dhsic.kernels.censored import log_rank_scores
from dhsic.kernels.labels import CLASS_KERNELS, label_matrix, target_kernels
from dhsic.kernels.ordinal import SCORE_KERNELS
from dhsic.kernels.risk_sets import is_censored
from dhsic.linalg.covariates import nothing_left
from dhsic.validation import as_array

#: Q explains a feature completely if the unexplained share of its variance is below this.
EXPLAINED = 1e-6
#: Determinant of a 2 x 2 system, relative to its diagonal, below which it counts as singular: two
#: features explain the labels, so the product has nothing to explain.
SINGULAR = 1e-6
#: Squared correlation of two residual features above which they count as equal.
ALIKE = 0.99
#: Singular value of labels, relative to the largest, below which a direction is dropped.
ROUNDING = 1e-8
#: Blocks of products of a pair, if features have several functions.
BLOCKS = 4
#: Exact shares are computed for pairs whose rough share is at least this fraction of the largest.
NEAR = 0.8


def label_columns(y: Array, label_kernel: str = "auto", covariates: Array | None = None) -> Float:
    """Columns of the labels of all targets side by side, (m, t'); see `target_columns`.

    Censored times have one column, the log-rank score given the covariates (m, q).
    """
    if is_censored(y):
        label_matrix(y, label_kernel)  # rejects label kernels for other labels
        return log_rank_scores(np.ravel(y), covariates)
    return np.column_stack(target_columns(y, label_kernel))


def target_columns(y: Array, label_kernel: str = "auto") -> list[Float]:
    """Columns of each target, (m, n): the values of a real target, or one indicator per class.

    With the label kernel ``"ordinal"`` or ``"rank"``, a target has one column of rank scores.

    Whole numbers that may be values or classes are treated as values, because dozens of class
    indicators would dilute the evidence. A label kernel for classes always gives indicators.
    """
    Y = as_array(y, "y")
    Y = Y[:, None] if Y.ndim == 1 else Y
    label_matrix(Y, label_kernel)  # rejects invalid labels
    matrices = [
        label_matrix(column, _kernel_of_columns(kernel))
        for column, kernel in zip(Y.T, target_kernels(Y, label_kernel), strict=True)
    ]
    return [each.linear.factor().F for each in matrices]


def _kernel_of_columns(label_kernel: str) -> str:
    """Label kernel that provides the columns of a target with the kernel `label_kernel`.

    The columns are taken from its factor.
    """
    if label_kernel in SCORE_KERNELS:
        return label_kernel
    return "multiclass" if label_kernel in CLASS_KERNELS else "linear"


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Labels for tests of pairs: orthonormal residual labels U (m, t), and Q (m, q).

    `linked` and `least` define which pairs are tested, see the module docstring. `functions` is the
    number of functions of each feature, see `dhsic.pairs.products`. `sides` is the number of
    members of a pair that are not in Q: 1 if features are paired with columns of Q.
    """

    U: Array
    Q: Array
    linked: float = 0.9
    least: float = 0.5
    functions: int = 1
    sides: int = 2

    @classmethod
    def of(
        cls,
        columns: Float,
        Q: Float,
        *,
        linked: float = 0.9,
        least: float = 0.5,
        functions: int = 1,
        sides: int = 2,
    ) -> Labels:
        """Regress Q out of label columns (m, t').

        Raises InputError if the residual labels are zero or no degree of freedom is left.
        """
        centred = columns - columns.mean(axis=0)
        sizes = np.sqrt((centred**2).sum(axis=0))
        U, singular, _ = np.linalg.svd(_project_out(centred / sizes, Q), full_matrices=False)
        U = U[:, singular > ROUNDING]
        if U.shape[1] == 0:
            raise nothing_left()
        labels = cls(U, Q, linked, least, functions, sides)
        if labels.degrees[1] <= 0:
            raise InputError(
                f"{len(U)} samples are too few for {Q.shape[1] - 1} covariates and main effects, "
                f"two features{labels.functions_told} and {U.shape[1]} columns of labels: no "
                "degrees of freedom are left. Pass more samples, fewer classes, or fewer "
                "covariates."
            )
        return labels

    def permuted(self, order: Array) -> Labels:
        """Permute the samples of the labels and project out Q again (Freedman and Lane, 1983)."""
        U, _ = np.linalg.qr(_project_out(self.U[order], self.Q))
        return replace(self, U=U)

    def narrowed(self) -> Labels:
        """Return a copy in float32."""
        U, Q = self.U.astype(np.float32), self.Q.astype(np.float32)
        return replace(self, U=U, Q=Q)

    @property
    def functions_told(self) -> str:
        """Number of functions per feature, as text for messages; empty if it is one."""
        return "" if self.functions == 1 else f" with {self.functions} functions each"

    @property
    def degrees(self) -> tuple[int, int]:
        """Degrees of freedom of the distribution of a share: t and n - t for one product."""
        (m, t), g = self.U.shape, max(1, self.functions // 2) ** 2
        n, s = m - self.Q.shape[1] - self.sides * self.functions, min(g, t)
        return s * max(g, t), s * (n - g - t + s)

    def log_p(self, share: Any) -> Float:
        """Log p-values of shares; at least -690, because of the limit of floating-point numbers."""
        t, n_minus_t = self.degrees
        shape, share = (t / 2, n_minus_t / 2), np.clip(share, 0.0, 1.0)
        log_tail = log_of_tail(betaincc(*shape, share), betainc(*shape, share))
        if self.functions > 1:  # the largest of four blocks
            log_tail = _log_p_of_least(log_tail)
        return np.asarray(np.maximum(log_tail, -690.0))

    def share_at(self, p: float) -> float:
        """Share of variance that has the p-value p."""
        (t, n_minus_t), p = self.degrees, min(p, 1.0)
        if self.functions > 1 and p < 1.0:
            p = -np.expm1(np.log1p(-p) / BLOCKS)
        return float(betainccinv(t / 2, n_minus_t / 2, p))


def _log_p_of_least(log_p: Float) -> Float:
    """Logarithm of ``1 - (1 - p)^4``, the p-value of the smallest of four p-values."""
    with np.errstate(divide="ignore"):
        log_q = np.log1p(-np.exp(log_p))  # log of the probability that one p-value is larger
        log_least = np.log(-np.expm1(BLOCKS * log_q))
    return np.asarray(np.where(log_p < -30.0, log_p + np.log(BLOCKS), log_least))


def _project_out(B: Float, Q: Float) -> Float:
    """Project Q out of the columns of B, twice for numerical accuracy."""
    B = B - Q @ (Q.T @ B)
    return np.asarray(B - Q @ (Q.T @ B))


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Features on one side of a set of pairs: X and P (c, m), g (c,), C (c, t).

    The module docstring defines them. P is X itself if Q is only the mean. If Q explains a feature
    completely, its P is 0, and its g is set to m.
    """

    X: Array
    P: Array
    g: Array
    C: Array

    @classmethod
    def of(cls, X: Array, labels: Labels) -> Side:
        """Compute P, g and C of standardised features X (c, m)."""
        P, m = X, X.shape[1]
        if labels.Q.shape[1] > 1:
            P = X - _times(X, labels.Q) @ labels.Q.T
        g = np.vecdot(P, P)
        explained = g < EXPLAINED * m
        if explained.any():
            P = np.where(explained[:, None], X.dtype.type(0), P)
            g = np.where(explained, X.dtype.type(m), g)
        return cls(X, P, g, _times(P, labels.U))

    def take(self, which: Any) -> Side:
        """Select some of the features."""
        X = self.X[which]
        P = X if self.P is self.X else self.P[which]
        return Side(X, P, self.g[which], self.C[which])


def _times(Z: Array, B: Array) -> Array:
    """Product ``Z B``; in float64 a row does not depend on the other rows."""
    if Z.dtype == np.float32:
        return np.asarray(Z @ B)
    return np.stack([np.vecdot(Z, np.ascontiguousarray(b)) for b in B.T], axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class ProductFit:
    """Least-squares fit of products on both features of a pair; labels are not involved.

    All fields have the same shape, one entry per pair. `beta_j` and `beta_k` are coefficients,
    `linked` is the squared correlation of the raw features, and `left` is ``|M z|^2``, the squared
    norm of the residual. `is_told` is the mask of the tested pairs; values of other pairs are
    finite but meaningless.
    """

    beta_j: Array
    beta_k: Array
    g: Array
    linked: Array
    left: Array
    is_told: Array

    @classmethod
    def of(
        cls,
        sizes: tuple[Array, Array],
        inner: tuple[Array, Array],
        b: tuple[Array, Array],
        v: Array,
        labels: Labels,
    ) -> ProductFit:
        """Fit products from the inner products that the module docstring defines.

        `sizes` are g_jj and g_kk, `inner` are ``x_j'x_k`` and g_jk, `b` are b_j and b_k.
        """
        (g_j, g_k), (raw, g), (b_j, b_k) = sizes, inner, b
        both, m = g_j * g_k, len(labels.U)
        linked = (raw / m) ** 2
        is_told = (linked <= labels.linked) & (g * g <= max(labels.linked, ALIKE) * both)
        det = np.where(is_told, both - g * g, both)
        beta_j, beta_k = (g_k * b_j - g * b_k) / det, (g_j * b_k - g * b_j) / det
        residual = v - b_j * beta_j - b_k * beta_k
        is_told &= residual >= labels.least * m
        return cls(beta_j, beta_k, g, linked, residual, is_told)

    def part(self, which: Any) -> ProductFit:
        """Select the fits of some pairs, by their positions in the arrays."""
        return ProductFit(*(getattr(self, each.name)[which] for each in fields(self)))

    @classmethod
    def of_all(cls, left: Side, right: Side, labels: Labels) -> ProductFit:
        """Fits of all pairs of two sets of features, (c, c')."""
        v = (left.X**2) @ (right.X**2).T
        for q in labels.Q.T:
            v -= ((left.X * q) @ right.X.T) ** 2
        g = left.P @ right.P.T
        raw = g if left.P is left.X else left.X @ right.X.T
        b = (left.P * left.X) @ right.X.T, left.X @ (right.P * right.X).T
        return cls.of((left.g[:, None], right.g), (raw, g), b, v, labels)


def shares_of_rows(left: Side, right: Side, labels: Labels) -> tuple[Array, Array]:
    """Shares (n,) and squared correlations (n,) of pairs: row i of `left` with row i of `right`."""
    z = left.X * right.X
    v = np.vecdot(z, z) - (_times(z, labels.Q) ** 2).sum(axis=-1)
    inner = np.vecdot(left.X, right.X), np.vecdot(left.P, right.P)
    b = np.vecdot(left.P, z), np.vecdot(right.P, z)
    fit = ProductFit.of((left.g, right.g), inner, b, v, labels)
    C = left.C.T, right.C.T
    e = _residual(list(_times(z, labels.U).T), fit, C)
    return _shares(fit, left.g, right.g, *C, e), fit.linked


def shares_of_all(left: Side, right: Side, labels: Labels, fit: ProductFit) -> Array:
    """Shares (c, c') of all pairs of two sets of features."""
    T = [(left.X * u) @ right.X.T for u in labels.U.T]
    C = left.C.T[:, :, None], right.C.T
    return _shares(fit, left.g[:, None], right.g, *C, _residual(T, fit, C))


def _residual(T: list[Array], fit: ProductFit, C: tuple[Array, Array]) -> list[Array]:
    """Products ``z' M u`` of pairs with each column of labels, given T = ``z' u``."""
    return [t - c * fit.beta_j - d * fit.beta_k for t, c, d in zip(T, *C, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class ResidualProducts:
    """Products of all pairs of two sets of features with the columns of many labels.

    The products are regressed on both features first. Each of L labels has t columns.

    Attributes
    ----------
    left, right : Side
        The features; C (c, L t) and (c', L t) belong to the columns of all labels.
    fit : ProductFit
        Fits of the products, (c, c').
    e : (c, c', L t)
        ``z' M u`` for the product z of each pair and each column u.
    n_labels : int
        L.
    """

    left: Side
    right: Side
    fit: ProductFit
    e: Array
    n_labels: int

    @classmethod
    def of(
        cls,
        left: Side,
        right: Side,
        fit: ProductFit,
        columns: Array,
        n_labels: int,
        room: Sequence[Array],
    ) -> ResidualProducts:
        """Multiply the features of each pair with each other, and with the columns (m, L t).

        `room` are arrays of at least the sizes of the products and of e, which are overwritten.
        """
        m, n, shape = len(columns), fit.left.size, fit.left.shape
        z, e = room[0][: n * m].reshape(n, m), room[1][: n * columns.shape[1]].reshape(n, -1)
        np.multiply(left.X[:, None], right.X, out=z.reshape(*shape, m))
        np.matmul(z, columns, out=e)
        e = e.reshape(*shape, -1)
        e -= left.C[:, None] * fit.beta_j[..., None]
        e -= right.C * fit.beta_k[..., None]
        return cls(left, right, fit, e, n_labels)

    def rough_shares(self) -> Array:
        """Lower bounds (c, c', L) of shares, computed with N = I; 0 for untested pairs."""
        squares = np.square(self.e)
        if self.n_labels < squares.shape[2]:
            squares = squares.reshape(*squares.shape[:2], self.n_labels, -1).sum(axis=3)
        squares /= np.where(self.fit.is_told, self.fit.left, np.inf)[..., None]
        return squares

    def shares(self, j: Index, k: Index, labels: Index) -> Array:
        """Shares (n,) of pairs of features j and k, each for one of the labels."""
        c, d, e = (
            each.reshape(len(each), self.n_labels, -1)[i, labels].T
            for each, i in (
                (self.left.C, j),
                (self.right.C, k),
                (self.e.reshape(-1, self.e.shape[2]), j * len(self.right.g) + k),
            )
        )
        return _shares(self.fit.part((j, k)), self.left.g[j], self.right.g[k], c, d, list(e))


def share_given_squares(x: Float, w: Float, labels: Labels, gaps: Mask | None = None) -> float:
    """Share of the product of two features x, w (m,), with their squares regressed out as well.

    A square is ignored if the feature itself explains it, as for a binary feature. If the squares
    explain the product, the share is 0. `gaps` (m,) marks the samples in which a value is missing.
    There the product is 0, whereas its mean over other samples is not 0 for linked features. So an
    indicator of these samples is regressed out too, because one class may have more missing values.
    """
    own = np.column_stack([x, w, x * x, w * w])
    if gaps is not None:
        own = np.column_stack([own, gaps])
    own = _project_out(own / np.sqrt(np.vecdot(own.T, own.T)), labels.Q)
    basis, singular, _ = np.linalg.svd(own, full_matrices=False)
    basis = basis[:, singular > EXPLAINED]
    z = _project_out(_project_out((x * w)[:, None], labels.Q), basis)[:, 0]
    if (size := float(z @ z)) < EXPLAINED * len(z):
        return 0.0
    U, singular, _ = np.linalg.svd(_project_out(labels.U, basis), full_matrices=False)
    return min(float(((U[:, singular > ROUNDING].T @ z) ** 2).sum()) / size, 1.0)


def deflated(share: Any, by: float) -> Float:
    """Return shares after division of their deviance ``-log(1 - share)`` by the factor `by`."""
    with np.errstate(divide="ignore"):  # a share of 1 stays 1
        return np.asarray(-np.expm1(np.log1p(-np.asarray(share, dtype=np.float64)) / by))


def _shares(
    fit: ProductFit, g_j: Array, g_k: Array, C_j: Array, C_k: Array, e: list[Array]
) -> Array:
    """Shares of pairs, from the fit of the products and the residual products e.

    C_j, C_k and e have one array per column of the labels. e are ``z' M u`` for the product z of a
    pair and a column u, see `_residual`.
    """
    w_j = sum(c * each for c, each in zip(C_j, e, strict=True))
    w_k = sum(d * each for d, each in zip(C_k, e, strict=True))
    a, b = g_j - (C_j * C_j).sum(axis=0), g_k - (C_k * C_k).sum(axis=0)
    off = fit.g - sum(c * d for c, d in zip(C_j, C_k, strict=True))
    det = a * b - off * off
    more = b * w_j * w_j - 2 * off * w_j * w_k + a * w_k * w_k
    is_sound = det > SINGULAR * g_j * g_k
    more = np.where(is_sound, more / np.where(is_sound, det, 1), 0)
    size = sum(each * each for each in e) + more
    share = np.minimum(size / np.where(fit.is_told, fit.left, 1), 1)
    return np.where(fit.is_told, share, np.nan)
