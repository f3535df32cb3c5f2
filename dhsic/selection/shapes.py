r"""Move features with a non-monotone effect to the front of the order of a selection.

Elimination by HSIC of all features together, and ridge regression on linear terms, miss features
with an effect like a parabola or a wave. The marginal test (`dhsic.selection.marginal`) finds them.
Two alternative orders with such features in front are tried:

- *Missed features.* Linear terms of the first features of the order are regressed out of the
  labels, and candidates (the features with the smallest marginal p-values) are tested again. A
  candidate moves to the front if it is significant among all features, or if its p-value is smaller
  than the p-value of every feature it would overtake.
- *Forward steps.* An additive model starts empty. In each step, the candidate with the smallest
  p-value enters the model, with its leading functions of ranks, and the others are tested on the
  residual labels. Steps continue while the expected number of features that have such a small
  p-value by chance is below one.

The order by forward steps is used if its first features explain held-out labels clearly better. The
order with missed features in front is used if it explains them about as well (or, if no first
feature is individually significant, not clearly worse). Otherwise, missed features that are
individually significant at the `STRICT` level move before the first feature that is not
significant. The order of all other features is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.algorithms.additive import (
    N_FUNCTIONS,
    OrderErrors,
    RankedFeature,
    extended_basis,
    leading_functions,
)
from dhsic.algorithms.ridge import CLEARLY, COMPARED
from dhsic.criteria.label_functions import LabelDirections
from dhsic.criteria.multiscale import (
    AT_ONCE,
    DISTANCE_WIDTH,
    SHARES,
    WIDTHS,
    Multiscale,
    WidthFamily,
)
from dhsic.criteria.null import NullOf
from dhsic.criteria.rank_scores import OrderedBlock
from dhsic.linalg.covariates import orthonormal_columns
from dhsic.namespace import slices
from dhsic.passes import AbstractByTile, Cost, Tile, tile_height
from dhsic.passes.reader import AbstractReader
from dhsic.results.schema import Order
from dhsic.selection.marginal import MarginalTest
from dhsic.selection.rerank import SAMPLES, Reranking
from dhsic.sources.scaling import missing_mask

#: Maximum number of candidates, and maximum number of their values.
MOST_CANDIDATES, ENTRIES = 256, 1 << 22
#: Maximum number of first features of the order whose linear terms are regressed out, and minimum
#: number of samples per such feature.
FIRST, PART_OF_FIRST = 20, 8
#: Family-wise level of a missed feature; maximum number of features with so small a p-value that
#: are expected by chance in a forward step; maximum number of forward steps.
LEVEL, BY_CHANCE, MOST_STEPS = 0.05, 1.0, 32
#: Family-wise level at which a missed feature counts as individually significant.
STRICT = 1e-3
#: Minimum number of samples per function of a model; and number of functions that are allowed even
#: if their values exceed `ENTRIES`.
PART_OF_MODEL, FEW_FUNCTIONS = 4, 16
#: Number of arrays of `AT_ONCE` float64 values in memory while a block of candidates is tested.
GATHERED = 8
#: Number of standard errors by which an order with missed features in front may explain held-out
#: labels worse, if a first feature is significant.
SLIGHTLY = 0.5
#: Label directions (unit vectors) with a smaller residual length than this are not tested.
LEAST_LEFT = 1e-3**0.5


def n_candidates(m: int) -> int:
    """Maximum number of features among which models with shapes are compared, for m samples."""
    return max(16, min(MOST_CANDIDATES, ENTRIES // m))


def most_functions(m: int) -> int:
    """Maximum number of functions in a model for m samples."""
    return min(m // PART_OF_MODEL, max(FEW_FUNCTIONS, ENTRIES // m))


def front_bytes(d: int, m: int) -> int:
    """Memory that `with_shapes` needs for d features and m samples, in bytes."""
    n = min(d, n_candidates(m) + max(FIRST, *COMPARED))
    of_candidates = 3 * n * m  # values, their order, missing ones and levels
    of_models = 4 * m * most_functions(m)
    of_comparison = 8 * min(m, SAMPLES) * (min(m, SAMPLES) + max(COMPARED) * N_FUNCTIONS)
    return 8 * (of_candidates + of_models + of_comparison + GATHERED * AT_ONCE)


@dataclass(frozen=True, slots=True)
class PresentValues(AbstractByTile):
    """Job that returns the standardised values of c features, (c, m), NaN where missing.

    If rounding of the standardised values would change the order of the samples, a feature is
    replaced by its ranks.
    """

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Float]]:
        def read_tile(tile: Tile) -> Float:
            mask = missing_mask(tile.raw, tile.missing_code)
            X = tile.in_order(np.array(tile.values(np.float64)), mask, tile.scaling)
            if mask is not None:
                X[mask] = np.nan
            return X

        return tile_height(m), read_tile

    def cost(self, m: int) -> Cost:
        return Cost(values=m, columns=8 * m)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates for the front: `features` (c,) ascending, with their values X (c, m).

    X is 0 where values are missing. `missing` (c, m) is the mask of missing values, or None if no
    value is missing.
    """

    features: Index
    X: Float
    missing: Mask | None

    @staticmethod
    def read(data: AbstractReader, features: Index) -> Candidates:
        """Read the values of features, given in ascending order."""
        X = data.scores(PresentValues(), data.jobs(features))
        mask = np.isnan(X)
        if not mask.any():
            return Candidates(features, X, None)
        X[mask] = 0.0
        return Candidates(features, X, mask)

    def place(self, feature: int) -> int:
        """Position of a feature among the candidates."""
        return int(np.searchsorted(self.features, feature))

    def of_samples(self, samples: Index, width: Float) -> dict[int, RankedFeature]:
        """Values of each candidate on a subset of samples, with its kernel width from `width` (c,).

        The keys are positions of the features in the data.
        """
        masks = [None] * len(self.X) if self.missing is None else self.missing[:, samples]
        each = zip(self.features.tolist(), self.X[:, samples], masks, width.tolist(), strict=True)
        return {j: RankedFeature(x, missing, h) for j, x, missing, h in each}

    def functions(self, place: int, width: float) -> Float:
        """Leading rank functions (r, m) of the candidate at position `place`, by kernel width."""
        missing = None if self.missing is None else self.missing[place]
        return leading_functions(self.X[place], width, missing)


@dataclass(frozen=True, eq=False)
class ConditionalTest:
    """Independence test of candidates on residual labels, after regression on other features.

    It gives all kernel widths the same weight, whereas the marginal test favours linear effects.
    """

    state: Multiscale
    candidates: Candidates
    blocks: tuple[OrderedBlock, ...]  # of the candidates

    @staticmethod
    def of(state: Multiscale, candidates: Candidates) -> ConditionalTest:
        """Create the test from the state of the marginal test."""
        state = _without_preference(state)
        X, missing, m = candidates.X, candidates.missing, state.n_samples
        height = max(1, AT_ONCE // (m * state.labels.B.shape[1]))
        blocks = tuple(
            OrderedBlock.of(state, X[rows], None if missing is None else missing[rows], height)
            for rows in slices(len(X), height)
        )
        return ConditionalTest(state, candidates, blocks)

    def log_p_and_width(self, basis: Float) -> tuple[Float, Float] | None:
        """Log p-values and strongest kernel widths of the c candidates, (c,) each.

        Returns None if no labels are left after `basis` is projected out.

        Parameters
        ----------
        basis : (m, p)
            Orthonormal basis that is projected out of the labels. Its first columns span the
            constant and the covariates.
        """
        state = self._residual_state(basis)
        if state is None:
            return None
        scores = [replace(block, state=state).scores() for block in self.blocks]
        log_p, width = ([getattr(each, name) for each in scores] for name in ("log_p", "width"))
        return np.concatenate(log_p), np.concatenate(width)

    def _residual_state(self, basis: Float) -> Multiscale | None:
        """State of the test after `basis` (m, p) is projected out of the labels.

        The result is None if no labels are left.
        """
        state = self.state
        if basis.shape[1] == state.Q.shape[1]:
            return state
        labels = state.labels
        B, columns = orthonormal_columns(labels.B, basis, LEAST_LEFT)
        if not columns:
            return None
        if len(columns) < labels.B.shape[1]:
            mu = labels.mu[:, columns]
            mu = mu / np.linalg.norm(mu, axis=1, keepdims=True)
            residual = LabelDirections(B, mu, labels.shares)
            return _without_preference(Multiscale.of(residual, state.Q))
        residual = LabelDirections(B, labels.mu, labels.shares)
        nulls = tuple(NullOf.of(C) for C in residual.matrices)
        families = state.ranks, state.levels, state.single  # these follow from weights alone
        return Multiscale(residual, state.Q, nulls, *families)

    def steps(self, basis: Float, goes_on: Callable[[float], bool]) -> list[int]:
        """Select candidates forward; return their positions in the data, in the order of entry.

        Parameters
        ----------
        basis : (m, p)
            Orthonormal basis of the model to start from, see `log_p_and_width`.
        goes_on : callable
            Function of the logarithm of the smallest p-value of a step, which returns whether the
            feature with this p-value enters the model.
        """
        m, entered = self.candidates.X.shape[1], list[int]()
        while len(entered) < MOST_STEPS and basis.shape[1] < most_functions(m):
            tested = self.log_p_and_width(basis)
            if tested is None:
                break
            log_p, width = tested
            log_p[entered] = 0.0
            j = int(log_p.argmin())  # the first one if several are equal
            if not goes_on(float(log_p[j])):
                break
            entered.append(j)
            basis = extended_basis(basis, self.candidates.functions(j, float(width[j])))
        return [int(self.candidates.features[j]) for j in entered]

    def falls(self, features: Sequence[int], width: Float) -> dict[int, float]:
        """Loss of fit of a model if one of its features is left out, for each of `features`.

        Parameters
        ----------
        features : sequence of int
            Candidates; the model consists of their leading functions.
        width : (c,)
            Kernel width of each candidate.

        Returns
        -------
        dict
            Loss, the decrease of the explained sum of squares, by feature.
        """
        places = [self.candidates.place(j) for j in features]
        groups = [self.candidates.functions(i, float(width[i])) for i in places]
        if not groups:
            return {}
        # In coordinates of the whole model, the time does not depend on the number of samples.
        Q = self.state.Q
        basis = extended_basis(Q, np.concatenate(groups))[:, Q.shape[1] :]
        labels = basis.T @ (self.state.labels.B * np.sqrt(self.state.labels.mu[0]))
        groups = [functions @ basis for functions in groups]
        nothing = np.empty((len(labels), 0))

        def explained_without(i: int) -> float:
            others = groups[:i] + groups[i + 1 :]
            if not others:
                return 0.0
            return float(
                np.square(extended_basis(nothing, np.concatenate(others)).T @ labels).sum()
            )

        by_all = float(np.square(labels).sum())
        return {j: by_all - explained_without(i) for i, j in enumerate(features)}


def _without_preference(state: Multiscale) -> Multiscale:
    """Copy the state of a test; in the copy all kernel widths have the same weight."""
    shares = np.full(len(SHARES), 1.0 / len(SHARES))
    n_functions, nu = state.ranks.weights.shape[1], state.n_samples - state.Q.shape[1]
    ranks = WidthFamily.of(WIDTHS, shares, n_functions, state.labels, nu, DISTANCE_WIDTH)
    return Multiscale(state.labels, state.Q, state.nulls, ranks, state.levels, state.single)


def with_shapes(
    order: Order, marginal: MarginalTest, again: Reranking, data: AbstractReader, samples: Index
) -> Order:
    """Move missed features to the front if this explains held-out labels no worse.

    Parameters
    ----------
    order : Order
        All features that vary, the least relevant first.
    marginal : MarginalTest
        Test of all features.
    again : Reranking
        Joint re-ranking. Its `labels` belong to the samples on which orders are compared.
    data : AbstractReader
        Reader of all features that knows how they are scaled.
    samples : (s,) int
        Positions of the samples on which orders are compared.

    Returns
    -------
    Order
        New order; the same order if nothing moves. The attributes `in_front_by` and `n_in_front`
        record which step moved features, and how many.
    """
    best = order.features[::-1]
    n_tests, m = best.size, data.n_samples
    by_p = best[np.lexsort((best, marginal.p[best]))][: n_candidates(m)]
    features = np.unique(np.concatenate([by_p, best[: max(FIRST, *COMPARED)]]))
    candidates = Candidates.read(data, features)
    assert isinstance(marginal.state, Multiscale), "it is conditional on independent samples"
    test = ConditionalTest.of(marginal.state, candidates)
    alone = test.log_p_and_width(test.state.Q)
    assert alone is not None, "labels were tested"
    first = best[: min(FIRST, max(1, m // PART_OF_FIRST))]
    missed, with_missed, tolerance = _missed(test, *alone, first, n_tests)
    level = np.log(BY_CHANCE / n_tests)
    entered = test.steps(marginal.state.Q, lambda log_p: log_p < level)

    U, values = again.labels, candidates.of_samples(samples, alone[1])
    error_cache: dict[tuple[int, ...], Float] = {}

    def errors_of(front: Sequence[int]) -> OrderErrors:
        return OrderErrors.of(values, _with_front(best, front)[: max(COMPARED) * 2], U, error_cache)

    front: list[int] = []
    attributes: dict[str, float | int | str] = {"in_front_by": "", "n_in_front": 0}
    if missed or not set(entered) <= set(first[:10].tolist()):
        unchanged = errors_of([])
        chosen = unchanged
        if missed and (other := errors_of(with_missed)).excess(unchanged) <= tolerance:
            front, chosen, attributes["in_front_by"] = with_missed, other, "missed features"
        if chosen.is_clearly_worse(by_steps := errors_of(entered)):
            front, chosen, attributes["in_front_by"] = entered, by_steps, "forward steps"
        attributes |= {
            "n_in_front": len(missed) if front is with_missed else len(front),
            "explained_with_front": chosen.explained,
            "explained_without_front": unchanged.explained,
        }
    if not front:
        return _with_significant(order, missed, marginal.p * n_tests <= STRICT, attributes)
    positions = np.flatnonzero(np.isin(order.features, front))
    position_of = {int(order.features[i]): int(i) for i in positions}
    last = np.array([position_of[j] for j in front[::-1]])
    positions = np.concatenate([np.delete(np.arange(best.size), positions), last])
    return order.at(positions, attributes)


def _with_significant(
    order: Order, missed: Sequence[int], significant: Mask, attributes: dict[str, float | int | str]
) -> Order:
    """Move individually significant missed features before all features without significance.

    `significant` (d,) marks the significant features. The order is unchanged if the missed features
    already precede all others. `attributes` are added to the order.
    """
    best = order.features[::-1]
    place = int(np.argmin(significant[best])) if not significant[best].all() else best.size
    behind = set(best[place:].tolist())
    promoted = [j for j in missed if significant[j] and j in behind]
    if not promoted:
        return order.at(slice(None), attributes)
    front = [*best[:place].tolist(), *promoted]
    positions = {int(j): i for i, j in enumerate(order.features)}
    new = [positions[j] for j in _with_front(best, front)[::-1]]
    more = {"in_front_by": "significance alone", "n_in_front": len(promoted)}
    return order.at(np.array(new), attributes | more)


def _with_front(best: Index, front: Sequence[int]) -> list[int]:
    """Order of features, the most relevant first; it begins with `front`."""
    return [*front, *best[~np.isin(best, front)].tolist()]


def _missed(
    test: ConditionalTest, log_p: Float, width: Float, first: Index, n_tests: int
) -> tuple[list[int], list[int], float]:
    """Find missed features; return them, the front of the new order, and a tolerance.

    `log_p` and `width` (c,) are log p-values and kernel widths of the candidates, each tested
    alone; `n_tests` is the number of all tested features.

    A feature is missed if the labels depend on it after the linear terms of the `first` features
    (best first) are regressed out. Only first features that are associated with the labels on their
    own are regressed out. The others were chosen by chance, and their terms would remove part of
    the effect of the missed feature. If no first feature is significant, a weaker level is used.

    The front consists of the associated first features, in their order, and the missed features. A
    missed feature precedes every first feature that matters less in a model of the whole front, see
    `ConditionalTest.falls`.

    The tolerance is the number of standard errors by which the new order may explain held-out
    labels worse. It is small (`SLIGHTLY`), because an effect that matters improves the prediction.
    It is `CLEARLY` if a missed feature is significant and no first feature is, because then noise
    may hide the improvement.
    """
    candidates = test.candidates
    at = np.array([candidates.place(int(j)) for j in first])
    level, by_chance = np.log(LEVEL / n_tests), np.log(min(BY_CHANCE / n_tests, LEVEL))
    associated = at[log_p[at] < by_chance]
    basis = test.state.Q
    if associated.size:
        basis = extended_basis(basis, candidates.X[associated])
    strongest = first_strongest = float(log_p[at].min())

    def goes_on(log_p: float) -> bool:
        nonlocal strongest
        threshold = level if strongest < level else by_chance
        strongest = min(strongest, log_p)
        return bool(log_p < threshold)

    missed = test.steps(basis, goes_on)
    staying = [int(j) for j in candidates.features[associated] if j not in missed]
    stands_out = strongest < level <= first_strongest
    tolerance = CLEARLY if stands_out else SLIGHTLY
    falls = test.falls([*staying, *missed], width)
    front = staying
    for j in sorted(missed, key=lambda j: falls[j]):  # the strongest last
        weaker = (i for i, other in enumerate(front) if falls[other] < falls[j])
        front.insert(next(weaker, len(front)), j)
    return missed, front, tolerance
