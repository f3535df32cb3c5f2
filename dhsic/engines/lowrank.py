r"""Low-rank engine: scores features in linear time, with an individual series order for each.

Every base matrix has a factor ``F diag(w) F'`` (`dhsic.lowrank`), so ``A = W o base`` also has few
directions R (`dhsic.linalg.symmetric`), which give quadratic forms (`dhsic.linalg.quadratic`). From
A, the gain of a feature can be computed in three ways. The first and the third are implemented
here:

- the series, to the order at which its remainder is small compared with the spread of the gains:
  one product of 2 m R c flops per term for a block of c features;
- sums over the levels of a feature, if its values are genotype codes (`dhsic.engines.levels`),
  computed by the pass that reads codes (`dhsic.passes.score.ScoreLowRank`);
- the definition on a sample of rows, for the few features that would need too long a series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines import AbstractSplitEngine
from dhsic.engines.dense import sufficient_orders
from dhsic.engines.scoring_problem import FeatureStats, LowRankScoringProblem, RoundState
from dhsic.kernels.base import AbstractKernel, Expansion
from dhsic.namespace import at_a_time, cast, host, namespace_of, slices, zeros

#: Number of samples summed in the working dtype; these sums are added in float64.
TILE_SAMPLES = 4096
#: Number of entries scored at a time: temporaries stay in the cache.
SCORED_ENTRIES = 1 << 17
#: Maximum remainder of the series, relative to the spread of gains by chance.
NEGLECTED = 0.02
#: Highest order of the series.
LONGEST_LOW_RANK = 24


@dataclass(frozen=True, slots=True)
class SampledRows:
    """State for direct evaluation of HSIC on a sample of the rows of two matrices; NumPy only.

    They are the label weights W and the kernel matrix K.
    """

    which: Index  # (n,), sample indices of the rows
    inner: Float  # (n, m), inner products with all samples
    W: Float  # (n, m), weights
    norms: Float  # (m,), squared norms of all samples

    def gains(self, kernel: AbstractKernel, sigma: float, X: Array) -> Float:
        """Unbiased estimates of the gains of features X (c, m), from the n sampled rows: (c,).

        The gain of a feature is the change of HSIC without it. The estimates are ``(m / n) sum_i in
        rows sum_i' W_ii' decrement_ii'`` with label weights W.
        """
        own, factor = self.norms[self.which], X.shape[1] / len(self.which)
        gains = np.empty(len(X))
        with np.errstate(over="ignore", invalid="ignore"):
            for j, x in enumerate(X.astype(np.float64)):
                change = kernel.decrement(self.inner, own, self.norms, x[self.which], x, sigma)
                gains[j] = factor * np.vdot(self.W, change)
        return gains


@dataclass(frozen=True, slots=True)
class Part:
    """Sums over some samples, from which the gains of c features are computed.

    The gain of a feature is the change of HSIC without it; `gains` (c,) is its linear term. `along`
    contains the projections ``Y f``, (c, R), on the directions Y of a low-rank matrix, for each
    quadratic term, by its position in the expansion.
    """

    gains: Float
    along: Mapping[int, Float]

    def plus(self, other: Part) -> Part:
        """Add the sums over other samples, for the same features."""
        along = {t: projections + other.along[t] for t, projections in self.along.items()}
        return Part(self.gains + other.gains, along)

    @staticmethod
    def concatenate(parts: Sequence[Part]) -> Part:
        """Concatenate the sums over the same samples for different features."""
        along = {t: np.concatenate([part.along[t] for part in parts]) for t in parts[0].along}
        return Part(np.concatenate([part.gains for part in parts]), along)


@dataclass(frozen=True)
class LowRank(AbstractSplitEngine):
    """Engine that sums the kernel's expansion in O(m R) per feature, with products in `dtype`.

    If `order` is None, each feature has its own order. Features that need an order above
    `LONGEST_LOW_RANK` are evaluated directly on sampled rows, if the state has `SampledRows`.
    """

    order: int | None = None
    dtype: Any = "float32"

    def prepare(self, question: LowRankScoringProblem) -> RoundState:
        kernel = question.kernel
        order = self.order or kernel.exact_order or 1  # all orders have the same bases
        bases = {term.base for term in kernel.expansion(order, question.sigma).terms}
        return RoundState.of(question, bases, self.dtype)

    def ways(
        self, known: LowRankScoringProblem | RoundState, facts: FeatureStats
    ) -> Iterator[tuple[int, Mask]]:
        """Yield series orders with the mask of their features.

        An order above `LONGEST_LOW_RANK` means direct evaluation.
        """
        if self.order is None:
            orders = orders_for(known.kernel, known.sigma, facts, known.n_samples)
        else:
            orders = np.full(len(facts.max_abs), self.order)
        for order in np.unique(orders):
            yield int(order), orders == order

    def columns(self, way: int, known: LowRankScoringProblem, facts: FeatureStats) -> int:
        n_forms = known.kernel.expansion(min(way, LONGEST_LOW_RANK), known.sigma).n_forms
        return n_forms * len(facts.max_abs)

    def one_way(self, way: int, state: RoundState, X: Array, facts: FeatureStats) -> Float:
        if way > LONGEST_LOW_RANK and state.definition is not None:
            gains: Float = state.definition.gains(state.kernel, state.sigma, host(X))
            return gains
        expansion = _expansion(way, state)
        gains = zeros(X.shape[0], like=X)
        for tile, part in self._parts(state, expansion, X):
            gains[tile] = _gains(state, expansion, part)
        return host(gains * state.scale)

    def contributions(self, state: RoundState, X: Array, facts: FeatureStats) -> list[Part]:
        """Compute the contributions of some samples to the gains of features X (c, m).

        The gain of a feature is the change of HSIC without it. X and `state` are restricted to
        these samples. There is one item for each order of the series; no feature is evaluated
        directly.
        """
        return [
            Part.concatenate(
                [part for _, part in self._parts(state, _expansion(way, state), X[which])]
            )
            for way, which in self.ways(state, facts)
        ]

    def combine_contributions(
        self, state: RoundState, facts: FeatureStats, total: list[Part]
    ) -> Float:
        """Compute the gains (changes of HSIC without a feature), (c,), from sums over all samples.

        `total` is the sum of the `contributions` of all samples. `state` may contain only some of
        the samples.
        """
        gains = np.empty(len(facts.max_abs))
        for (way, which), part in zip(self.ways(state, facts), total, strict=True):
            gains[which] = _gains(state, _expansion(way, state), part) * state.scale
        return gains

    def _parts(
        self, state: RoundState, expansion: Expansion, X: Array
    ) -> Iterator[tuple[slice, Part]]:
        """Yield sums over samples for tiles of features that fit in the cache.

        `_part` computes the sums, from which gains (changes of HSIC) follow.
        """
        c, m = X.shape
        width = max(1, at_a_time(X, SCORED_ENTRIES) // min(m, TILE_SAMPLES))
        for tile in slices(c, width):
            with np.errstate(over="ignore", invalid="ignore"):  # gains that overflow become NaN
                part = self._part(state, expansion, X[tile, :])
            yield tile, part

    def _part(self, state: RoundState, expansion: Expansion, X: Array) -> Part:
        """Sum all terms of the expansion over samples, for features X (c, m).

        Each piece of X is read once: all functions are computed while it is in the cache.
        """
        xp = namespace_of(X)
        c, m = X.shape
        gains = zeros(c, like=X)
        along = {  # y_k' f for each quadratic term, (c, R)
            t: zeros((c, state.A[term.base].theta.shape[0]), like=X)
            for t, term in enumerate(expansion.terms)
            if not term.linear
        }
        for samples in slices(m, TILE_SAMPLES):
            x = cast(X[:, samples], self.dtype)
            functions = expansion.functions(x)
            for t, (term, f) in enumerate(zip(expansion.terms, functions, strict=True)):
                if term.linear:
                    row_sums = cast(state.row_sums[term.base][samples], self.dtype)
                    gains += term.coefficient * (f @ row_sums)
                else:
                    A = state.A[term.base]
                    along[t] += f @ A.Y[:, samples].T
                    gains += term.coefficient * (xp.square(f) @ A.correction[samples])
        return Part(gains, along)


def _expansion(way: int, state: RoundState) -> Expansion:
    return state.kernel.expansion(min(way, LONGEST_LOW_RANK), state.sigma)


def _gains(state: RoundState, expansion: Expansion, part: Part) -> Float:
    gains, xp = part.gains, namespace_of(part.gains)
    with np.errstate(over="ignore", invalid="ignore"):
        for t, projections in part.along.items():
            term = expansion.terms[t]
            gains = gains + term.coefficient * (xp.square(projections) @ state.A[term.base].theta)
    return gains


def orders_for(
    kernel: AbstractKernel, sigma: float, facts: FeatureStats, m: int, neglected: float = NEGLECTED
) -> Index:
    """Series order for each feature, (c,); above `LONGEST_LOW_RANK` if too many are needed.

    The remainder is at most `neglected` times ``2 sqrt(2) sigma ||A||_F``, the standard deviation
    of the gain (change of HSIC) of a feature that is independent of A, the label weights times the
    kernel matrix.
    """
    if kernel.exact_order is not None:
        return np.full(len(facts.max_abs), kernel.exact_order)
    # Remainders of pairs have random signs, so their sum grows like the root of their number.
    chance = neglected * 2 * np.sqrt(2)
    return sufficient_orders(kernel, sigma, facts, np.sqrt(m), chance, LONGEST_LOW_RANK)
