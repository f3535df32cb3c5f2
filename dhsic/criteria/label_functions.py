r"""Label directions for the test at several widths; label kernels are weights of these directions.

Real labels are replaced by functions of their ranks, like features (`dhsic.linalg.rank_basis`): the
first function detects differences in location, the second in spread, further ones in tails and
non-monotone shapes. Coordinates in two or three dimensions use products of such functions; the
weight of a product under a Gaussian kernel on all coordinates is the product of the weights.
Classes keep their kernel (JMLR eq. 17 to 19). Integers that may be class numbers or measurements
(`dhsic.kernels.label_parts.MixedTarget`) have two kinds of label matrices. Some use functions of
ranks. Another one has equal weights for all functions of the classes; its p-value has the weight
`CLASS_SHARE`. Several targets are scaled alike: the label matrix of each target has norm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import ndtri

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.censored import N_WEIGHTS, CensoredTarget
from dhsic.kernels.label_parts import (
    ClassTarget,
    GivenMatrix,
    LabelPart,
    MixedTarget,
    RealTargets,
)
from dhsic.kernels.labels import FEW_DIRECTIONS, LabelMatrix
from dhsic.linalg.covariates import orthonormal_columns
from dhsic.linalg.rank_basis import rank_functions, width_weights
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.linalg.weighted_samples import weighted_ranks

#: Number of functions of a real label.
N_LABEL_FUNCTIONS = 5
#: Widths of kernels on real labels, and their shares in the combination: the linear one dominates.
LABEL_WIDTHS, LABEL_SHARES = (1.0, 1 / 8), (0.9, 0.1)
#: Widths and shares for censored times: the wide kernel is the log-rank test.
TIME_WIDTHS, TIME_SHARES = (1.0, 1 / 8), (0.85, 0.15)
#: Share of the class kernel if integers may be class numbers.
CLASS_SHARE = 0.3
#: Widths and shares for coordinates, for which linear dependence is not expected.
PLACE_WIDTHS, PLACE_SHARES = (1 / 2, 1 / 4, 1 / 8), (0.2, 0.4, 0.4)
#: Maximum dimension of coordinates; and by dimension, the maximum sum of the squared numbers of
#: half waves of the functions in a product.
DIMENSIONS, HIGHEST = 3, {2: 26, 3: 14}
#: Minimum fraction of the norm of a function that must be left after projection on earlier ones: if
#: labels have few distinct values, the last functions repeat the first ones.
LEAST_LEFT = 1e-3
#: Difference of residuals, as a fraction of their range, up to which they are tied.
ROUNDED = 1e-11
#: Norm of a direction after covariates are regressed out, relative to before, up to which it counts
#: as 0.
NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class LabelDirections:
    """Label matrices with common directions: ``C_k = B diag(mu_k) B'``, each with norm 1.

    Attributes
    ----------
    B : (m, S)
        Directions, orthogonal to 1 and to the covariates.
    mu : (K, S)
        Weights of the directions in each of the K label matrices, one for each width.
    shares : (K,)
        Weight of the p-value of each label matrix in the combined p-value; they sum to 1.
    """

    B: Float
    mu: Float
    shares: Float

    @staticmethod
    def of(labels: LabelMatrix, Q: Float, *, by_ranks: bool) -> LabelDirections | None:
        """Compute the directions of labels; None if they have too many.

        Parameters
        ----------
        labels : LabelMatrix
            Labels. Real targets are represented by functions of their ranks if `by_ranks` and if
            their kernel is Gaussian, else by their kernel.
        Q : (m, p)
            Orthonormal basis of ``[1, covariates]``.
        by_ranks : bool
            Whether real targets are replaced by functions of their ranks.
        """
        part_directions: list[tuple[Float, Float, Float]] = []
        for part in labels.parts:
            of_part = _of_part(part, Q, by_ranks=by_ranks)
            if of_part is None:
                return None
            part_directions.append(of_part)
        most = max(part_directions, key=lambda each: len(each[2]))
        n = len(most[2])
        mu = [
            np.concatenate([row, np.repeat(row[:1], n - len(row), axis=0)])
            for _, row, _ in part_directions
        ]
        B = np.column_stack([B for B, _, _ in part_directions])
        return LabelDirections(B, np.concatenate(mu, axis=1), most[2]) if B.shape[1] else None

    @property
    def matrices(self) -> tuple[LowRankSymmetric, ...]:
        """The K label matrices ``B diag(mu_k) B'``, each (m, m) in low rank."""
        return tuple(LowRankSymmetric.of(self.B, row) for row in self.mu)


def weighted_directions(labels: LabelMatrix, p: Float, Q: Float) -> LabelDirections:
    """Directions of one target on weighted samples, multiplied by ``sqrt(p)``.

    The weights p (m,) sum to 1. The directions are orthonormal, and orthogonal to Q (m, q), an
    orthonormal basis of ``sqrt(p) [1, C]``. All functions of classes have the same weight. Without
    covariates this is, up to a factor, the kernel of JMLR eq. 18 with weighted class sizes.

    Raises
    ------
    InputError
        Several targets, coordinates, censored times, or kernels without a weighted form.
    """
    root = np.sqrt(p)[:, None]

    def of_ranks(target: RealTargets) -> tuple[Float, Float, Float]:
        values, tie = target.values[:, 0], 0.0
        if Q.shape[1] > 1:
            values = values * root[:, 0]
            values = (values - Q @ (Q.T @ values)) / root[:, 0]
            tie = ROUNDED * float(np.ptp(values))
        u, _ = weighted_ranks(values, p, tie)
        r = np.arange(2, N_LABEL_FUNCTIONS + 1)
        F = np.column_stack([ndtri(u), np.sqrt(2.0) * np.cos(np.pi * r * u[:, None])])
        B, selected = orthonormal_columns(F * root, Q, LEAST_LEFT)
        mu = np.array([width_weights(h, N_LABEL_FUNCTIONS)[selected] for h in LABEL_WIDTHS])
        return B, mu / np.linalg.norm(mu, axis=1, keepdims=True), np.array(LABEL_SHARES)

    def indicators(target: ClassTarget) -> Float:
        return np.asarray((target.codes[:, None] == np.arange(len(target.table))) * root)

    part = labels.parts[0] if len(labels.parts) == 1 else None
    if isinstance(part, ClassTarget) and len(part.table) <= FEW_DIRECTIONS:
        B, _ = orthonormal_columns(indicators(part), Q, LEAST_LEFT)
        n = B.shape[1]
        return LabelDirections(B, np.full((1, n), max(n, 1) ** -0.5), np.ones(1))
    if isinstance(part, MixedTarget):
        of_classes = indicators(part.classes)
        return LabelDirections(*_with_classes(of_ranks(part.numbers), of_classes, Q))
    if isinstance(part, RealTargets) and part.values.shape[1] == 1 and part.sigma is not None:
        return LabelDirections(*of_ranks(part))
    raise InputError(
        f"sample_weight applies to one target, real values or at most {FEW_DIRECTIONS} classes, "
        f"with the default label kernel; these labels have {labels.n_targets} and the kernel "
        f"{labels.description}. Test one target at a time, with label_kernel='auto', or leave "
        "sample_weight out (CLI: --weights)."
    )


def _of_part(part: LabelPart, Q: Float, *, by_ranks: bool) -> tuple[Float, Float, Float] | None:
    """Compute fields of `LabelDirections` for some of the targets (`part`).

    The fields are directions (m, S), weights (K, S) of the directions in K label matrices, and
    shares (K,), the weights of these matrices in the combined p-value. Returns None if there are
    too many directions.
    """
    if isinstance(part, CensoredTarget):
        return _of_scores(part, Q)
    has_width = isinstance(part, RealTargets) and part.sigma is not None
    if isinstance(part, RealTargets) and has_width and by_ranks and _n_functions(part.values):
        return _of_ranks(part.values, Q)
    classes = part.classes if isinstance(part, MixedTarget) else part
    if isinstance(classes, ClassTarget) and len(classes.weights) > FEW_DIRECTIONS:
        return None
    if isinstance(classes, GivenMatrix):
        return None
    if isinstance(part, MixedTarget) and by_ranks:
        return _of_both(part, Q)
    alone = LabelMatrix((part,), len(Q), 1).low_rank(1e-6, 2 * FEW_DIRECTIONS)
    return None if alone is None else _of_kernel(alone, Q)


def _n_functions(values: Float) -> int:
    """Number of functions for each of t targets, values (m, t); 0 if there are too many."""
    t = values.shape[1]
    return N_LABEL_FUNCTIONS if t <= DIMENSIONS else min(N_LABEL_FUNCTIONS, FEW_DIRECTIONS // t)


def _of_ranks(values: Float, Q: Float) -> tuple[Float, Float, Float]:
    """Compute fields of `LabelDirections` from the ranks of real targets (m, t).

    The fields are directions (m, S), weights (K, S) of the directions in K label matrices, and
    shares (K,), the weights of these matrices in the combined p-value.
    """
    t, n = values.shape[1], _n_functions(values)
    widths: tuple[float, ...]
    shares: tuple[float, ...]
    each = [rank_functions(column, n) for column in values.T]
    if t == 1 or t > DIMENSIONS:
        F = np.concatenate(each).T
        numbers = np.concatenate([np.arange(1, len(some) + 1) for some in each])
        widths, shares = LABEL_WIDTHS, LABEL_SHARES
        weights = [width_weights(h, n)[numbers - 1] for h in widths]
    else:
        with_one = [np.vstack([np.ones(len(values)), some]) for some in each]
        powers = [
            some
            for some in product(*(range(len(rows)) for rows in with_one))
            if 0 < sum(a * a for a in some) <= HIGHEST[t]
        ]
        powers.sort(key=lambda some: (sum(a * a for a in some), some))
        columns = [
            np.prod([rows[a] for rows, a in zip(with_one, some, strict=True)], axis=0)
            for some in powers
        ]
        F = np.column_stack(columns)
        squares = np.array([sum(a * a for a in some) for some in powers], dtype=float)
        widths, shares = PLACE_WIDTHS, PLACE_SHARES
        weights = [np.exp(-((np.pi * h) ** 2) * (squares - 1.0) / 2.0) for h in widths]
    B, selected = orthonormal_columns(F, Q, LEAST_LEFT)
    mu = np.array(weights)[:, selected]
    return B, mu / np.linalg.norm(mu, axis=1, keepdims=True), np.array(shares)


def _of_scores(part: CensoredTarget, Q: Float) -> tuple[Float, Float, Float]:
    """Compute fields of `LabelDirections` from log-rank scores of censored times.

    The fields are directions (m, S), weights (K, S) of the directions in K label matrices, and
    shares (K,), the weights of these matrices in the combined p-value.
    """
    B, numbers = part.unit_directions(Q)
    if len(numbers) < 2:
        return B, np.ones((1, len(numbers))), np.ones(1)
    mu = np.array([width_weights(h, N_WEIGHTS)[[*numbers]] for h in TIME_WIDTHS])
    return B, mu / np.linalg.norm(mu, axis=1, keepdims=True), np.array(TIME_SHARES)


def _of_both(part: MixedTarget, Q: Float) -> tuple[Float, Float, Float]:
    """Compute fields of `LabelDirections` for integers that may be numbers or classes.

    The fields are directions, their weights, and shares (weights of label matrices in the combined
    p-value). Label matrices of functions of ranks come first, then the one for classes.
    """
    names, codes = np.unique(part.classes.codes, return_inverse=True)
    F = np.asarray(codes[:, None] == np.arange(len(names)), dtype=np.float64)
    return _with_classes(_of_ranks(part.numbers.values, Q), F, Q)


def _with_classes(
    of_ranks: tuple[Float, Float, Float], F: Float, Q: Float
) -> tuple[Float, Float, Float]:
    """Add a label matrix of all functions of classes, F (m, n), to the matrices `of_ranks`."""
    B, mu, shares = of_ranks
    more, _ = orthonormal_columns(F, np.column_stack([Q, B]), LEAST_LEFT)
    S = B.shape[1] + more.shape[1]
    rows = np.zeros((len(mu) + 1, S))
    rows[:-1, : B.shape[1]] = mu
    rows[-1] = S**-0.5
    shares = np.append(shares * (1 - CLASS_SHARE), CLASS_SHARE)
    return np.column_stack([B, more]), rows, shares


def _of_kernel(L: LowRankSymmetric, Q: Float) -> tuple[Float, Float, Float]:
    """Compute fields of `LabelDirections` from eigenvectors of a low-rank label matrix L.

    The fields are directions, their weights, and shares (weights of label matrices in the combined
    p-value).
    """
    F = L.F - Q @ (Q.T @ L.F)
    values, vectors = np.linalg.eigh((F * np.sqrt(L.weights)).T @ (F * np.sqrt(L.weights)))
    before = float(np.abs(L.weights @ np.square(L.F).sum(axis=0)))
    non_zero = values > max(NOTHING * before, 1e-6 * values.max(initial=0.0))
    mu = values[non_zero][::-1]
    B = (F * np.sqrt(L.weights)) @ vectors[:, non_zero][:, ::-1] / np.sqrt(mu)
    return B, (mu / np.linalg.norm(mu))[None], np.ones(1)
