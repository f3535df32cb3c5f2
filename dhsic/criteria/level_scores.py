r"""Scores at several widths of features with two or three values, mainly genotypes.

The functions of such a feature are the value itself and, for three levels, the function orthogonal
to it, such as dominance. Scores only need counts and sums of directions over levels. Samples with a
missing value are excluded. The labels of the other samples are centred, and scaled by their own
variance.
"""

from __future__ import annotations

import threading

import numpy as np

from dhsic._typing import Float
from dhsic.criteria.class_tables import SMALL, ClassTable, exact_log_p, set_skewed
from dhsic.criteria.discrete import LevelForms
from dhsic.criteria.features import Levels
from dhsic.criteria.multiscale import (
    GOES_BACK,
    PART_OF_SHAPE,
    FeatureScores,
    Multiscale,
    WidthFamily,
    WidthMoments,
    combined_scores,
    tails,
)
from dhsic.criteria.patterns import PatternSums
from dhsic.criteria.rare import FEW, OTHERS, Carriers, RareLaw, carriers_of
from dhsic.linalg.rank_basis import level_functions

#: Minimum number of samples of the rarest genotype that are expected in the rarer class.
FEWEST_OF_RARER = 5.0
#: Lock that is held while a law is sampled, because other threads need the same law.
_DRAWING = threading.Lock()


def scores_of_levels(
    state: Multiscale,
    some: Levels,
    place: slice | None = None,
    variance_ratios: Float | None = None,
) -> FeatureScores:
    """Scores of features with two or three values, from sums of directions over levels.

    `place` is the range of columns of `Features.directions` that are the directions of `state`.
    With three levels, the second function is used only if each level has enough samples, also in
    the rarer of two classes: if one case is expected for a genotype, the data say nothing about
    dominance. `variance_ratios` (c, 2, t) are as in `Features`.
    """
    place = slice(None) if place is None else place
    counts, values, along = some.counts, some.values.T, some.along[..., place]
    scores = FeatureScores.empty(len(counts))
    has_three = (counts > FEW).all(axis=1) & (counts.shape[1] == 3)
    has_three &= counts.min(axis=1) * state.rarer_share >= FEWEST_OF_RARER
    for family, which in ((state.single, ~has_three), (state.levels, has_three)):
        at = np.flatnonzero(which)
        if at.size:
            absent = None if some.absent is None else some.absent[at][:, place]
            ratios = None if variance_ratios is None else variance_ratios[at]
            arguments = counts[at], values[at], along[at], absent, ratios
            of_family = _of_family(state, family, *arguments)
            if state.two_classes is not None:
                _set_exact(state, family, of_family, *arguments)
            scores.put(at, of_family)
    return scores


def _set_exact(
    state: Multiscale,
    family: WidthFamily,
    scores: FeatureScores,
    counts: Float,
    values: Float,
    along: Float,
    absent: Float | None,
    variance_ratios: Float | None,
) -> None:
    """Replace small p-values by exact ones, in place, if the labels are two classes.

    See `dhsic.criteria.class_tables`.
    """
    assert state.two_classes is not None, "there are two classes"
    for i in np.flatnonzero(scores.log_p < np.log(SMALL)).tolist():
        table = ClassTable.of(counts[i], along[i, :, 0], state.two_classes)
        if not table.is_skewed(values[i]):
            continue

        def law(sums: Float, i: int = i) -> Float:
            at = np.full(len(sums), i)
            lacking = None if absent is None else absent[at]
            ratios = None if variance_ratios is None else variance_ratios[at]
            of_levels = counts[at], values[at], sums[..., None]
            by_law = _of_family(state, family, *of_levels, lacking, ratios)
            return by_law.log_p

        scores.log_p[i] = exact_log_p(table, float(scores.log_p[i]), law)


def _of_family(
    state: Multiscale,
    family: WidthFamily,
    counts: Float,
    values: Float,
    along: Float,
    absent: Float | None,
    variance_ratios: Float | None,
) -> FeatureScores:
    """Scores of features with the same number of levels, for the kernels of `family`.

    `along` are sums of directions over the samples of each level, `absent` over samples with a
    missing value.
    """
    functions = level_functions(counts, values, family.weights.shape[1])
    return scores_with_functions(state, family, functions, counts, along, absent, variance_ratios)


def scores_with_functions(
    state: Multiscale,
    family: WidthFamily,
    functions: Float,
    counts: Float,
    along: Float,
    absent: Float | None,
    variance_ratios: Float | None,
) -> FeatureScores:
    """Scores of features with q levels, from R orthonormal functions of the levels, (c, R, q).

    For the other parameters, see `_of_family`.
    """
    m, S, K = state.n_samples, state.labels.B.shape[1], state.K
    n = counts.sum(axis=1)
    U = along[..., :S]
    totals, part = U.sum(axis=1), np.ones((K, len(counts)))
    if absent is not None:
        U = U - (counts / n[:, None])[..., None] * totals[:, None]
        part = state.label_parts(absent[:, S : S + K], totals, n)
    table = functions @ U
    if variance_ratios is not None and state.covariance is not None:
        of_functions = variance_ratios[:, : functions.shape[1]]
        table /= np.sqrt(state.covariance.ratios(of_functions))
    T = np.einsum("nr,crk->nkc", family.weights, np.square(table) @ state.labels.mu.T) / m
    sums = PatternSums.of(functions, counts, family.weights)
    if state.has_covariates:
        explained = functions @ along[..., S + K :] / np.sqrt(n)[:, None, None]
        sums = sums.without(explained, family.weights)
    moments = state.moments(sums).scaled(part)
    log_p = tails(state, family, T, moments)
    is_single = len(family.weights) == 1
    if is_single:
        if state.two_classes is not None and variance_ratios is None:
            totals = along[..., 0].sum(axis=1)
            set_skewed(
                log_p[0, 0], functions[:, 0], counts, table[:, 0, 0], totals, state.two_classes
            )
        _set_rare(state, log_p, T, moments, counts)
    concentration = np.full(len(counts), 0.0 if is_single else 1.0)
    shape = shapes_of_levels(functions, table)
    return combined_scores(state, family, log_p, T, moments, concentration, shape)


def shapes_of_levels(functions: Float, table: Float) -> Float:
    """Shapes of the dependence on features with two or three levels, (c,).

    The values are positions in `SHAPES`. As for other features
    (`dhsic.criteria.multiscale.shapes_of`), a curve is turning if it falls by more than a fraction
    (`GOES_BACK`) of its rise. A recessive effect is therefore monotone.
    """
    if functions.shape[1] == 1:
        return np.ones(len(functions))
    s = np.square(table).sum(axis=1).argmax(axis=1)
    own = np.take_along_axis(table, s[:, None, None], axis=2)[..., 0]  # (c, 2)
    curve = np.einsum("cr,crq->cq", own, functions)
    steps = np.diff(curve[:, :3], axis=1)  # categories may have more levels, but no shape
    smaller, larger = np.sort(np.abs(steps), axis=1).T
    turns = (steps[:, 0] * steps[:, 1] < 0) & (smaller > GOES_BACK * larger)
    is_line = np.square(own[:, 1]) <= PART_OF_SHAPE
    return np.where(is_line, 1.0, np.where(turns, 3.0, 2.0))


def _set_rare(
    state: Multiscale, log_p: Float, T: Float, moments: WidthMoments, counts: Float
) -> None:
    """Replace p-values of variants with few carriers, in place, using `RareLaw`."""
    padded = np.zeros((len(counts), 4))
    padded[:, : counts.shape[1]] = counts
    carriers = carriers_of(padded)
    rare = np.flatnonzero((carriers[:, 1:].sum(axis=1) <= FEW) & (moments.spread[0, 0] > 0))
    kinds, of_kind = np.unique(carriers[rare], axis=0, return_inverse=True)
    for number, kind in enumerate(kinds.tolist()):
        these = rare[of_kind.ravel() == number]
        for k in range(state.K):
            law = _rare_law(state, k, tuple(kind))
            z = (T - moments.mean)[0, k, these] / moments.spread[0, k, these]
            log_p[0, k, these] = 0.0 if law is None else law.log_p(z)


def _rare_law(state: Multiscale, k: int, carriers: Carriers) -> RareLaw | None:
    """Null distribution of HSIC with label matrix k, for variants with these carriers.

    It is computed once and then stored. The result is None if HSIC does not vary.
    """
    with _DRAWING:
        if (k, carriers) not in state.laws:
            code, *numbers = carriers
            counts = np.array([[state.n_samples - sum(numbers), *numbers]], dtype=np.float64)
            values = np.array([OTHERS[code]], dtype=np.float64)
            f = level_functions(counts, values, 1)[:, 0]
            kappa = f[:, :, None] * f[:, None, :] / state.n_samples
            forms = LevelForms(counts, kappa, np.zeros_like(f))
            state.laws[k, carriers] = RareLaw.by(state.matrices[k], state.nulls[k], numbers, forms)
    return state.laws[k, carriers]
