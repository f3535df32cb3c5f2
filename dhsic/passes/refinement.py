"""A round's progressive refinement: all features first, then those whose place is undecided.

What is removed or added are `AbstractCandidates`: features, each for itself (`Singles`), or groups
of them (`dhsic.passes.groups`). For features `refined` runs engine after engine; which goes when is
`dhsic.engines.refine`'s to say. `Threshold` comes after low rank, where K is known: features that
an error could move across the threshold are scored exactly. Of a million features few lie next to
it; the others leave or stay whatever their error. So a round costs little more than low rank alone,
and its result is that of the exact engine, but for the part of the tolerance that is left to
features further off.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.engines import AbstractEngine
from dhsic.engines.certificate import (
    CHANCE,
    Certificate,
    expected_swaps,
    nearest_to_threshold,
    next_to_threshold,
)
from dhsic.engines.dense import Dense
from dhsic.engines.final import final_engine
from dhsic.engines.lowrank import orders_for
from dhsic.engines.question import Question
from dhsic.engines.refine import AbstractEngines, EngineChoice, tie_width
from dhsic.passes.scaled import ScaledReader, dtype_of
from dhsic.sources.scaling import Scaling

#: Widths of the band next to the threshold that is scored exactly, in deviations of the error.
BANDS = tuple(0.25 * step for step in range(1, 17))
#: The band is tried out at this part of the estimated error, on so many features at least, and then
#: drawn by the error seen.
PROBE, PROBED = 0.5, 256
#: Part of the tolerance that is left to features outside.
LEFT = 0.5
#: Part of the spread of gains that their series may neglect, and its highest order in float32.
EXACTLY, HIGHEST_ORDER = 1e-3, 6


class AbstractCandidates(ABC):
    """What may be removed or added, and the features of each."""

    #: Whether rounds have several engines to choose from.
    has_engines: ClassVar[bool] = True

    def __init__(self) -> None:
        self._alive: Mask = np.empty(0, dtype=bool)

    def drop_constant(self, scaling: Scaling) -> None:
        """Features that do not vary are no candidates, nor part of one."""
        self._alive = ~scaling.constant

    @property
    @abstractmethod
    def every(self) -> Index:
        """All candidates, ascending."""

    @abstractmethod
    def features(self, candidates: Index) -> Index:
        """Features of some candidates, ascending where they are."""

    @abstractmethod
    def summed(self, candidates: Index, of_features: Float) -> Float:
        """Sums over the features of each candidate."""

    @property
    @abstractmethod
    def mean_size(self) -> float:
        """Features of a candidate, on average: sigma is the same for all of a round."""

    @abstractmethod
    def gains(
        self,
        engines: AbstractEngines,
        data: ScaledReader,
        S: Index,
        n: int,
        choice: EngineChoice | None,
        *,
        aloud: bool = True,
    ) -> tuple[Float, dict[str, Any]]:
        """Gains of the candidates S, (s,), good enough to place the n largest, and a record.

        `choice` is of the first engine, where rounds have several. Where `aloud` the reporter of
        `data` hears of what was scored.
        """


class Singles(AbstractCandidates):
    """Features, each for itself."""

    @property
    def every(self) -> Index:
        return np.flatnonzero(self._alive)

    def features(self, candidates: Index) -> Index:
        return candidates

    def summed(self, candidates: Index, of_features: Float) -> Float:
        return of_features

    @property
    def mean_size(self) -> float:
        return 1.0

    def gains(
        self,
        engines: AbstractEngines,
        data: ScaledReader,
        S: Index,
        n: int,
        choice: EngineChoice | None,
        *,
        aloud: bool = True,
    ) -> tuple[Float, dict[str, Any]]:
        return refined(engines, data, S, n, choice, aloud=aloud)


def refined(
    engines: AbstractEngines,
    data: ScaledReader,
    S: Index,
    n: int,
    choice: EngineChoice | None,
    *,
    aloud: bool = True,
) -> tuple[Float, dict[str, Any]]:
    """Gains of S, (s,), good enough to place the n largest, and a record of what it took.

    `choice` is of the first engine; where `aloud` the reporter of `data` hears of its scores.
    """
    d, facts = S.size, data.facts(S)
    gains, errors, sure = np.zeros(d), np.zeros(d), np.zeros(d, dtype=bool)
    open_, engine = np.arange(d), engines.first(facts, n, choice)
    passes: list[str] = []
    products = {"float32": 0, "float64": 0}
    used, caution = 0.0, 1.0
    while open_.size:
        some = facts.take(open_)
        state = engine.prepare(engines.question)
        found = data.gains(S[open_], engine, state, aloud=aloud and not passes)
        if found.ndim == 2:  # the engine measures what it leaves out
            new, error = found.T
        else:
            new, error = found, caution * engine.error(engines.question, some, found)
        if passes:  # be wary of the next bounds where the last were too small
            used = max(used, _share(new - gains[open_], errors[open_]))
            caution = max(caution, 2 * used if used > 1 else 1.0)
        final = engine.is_final
        # What no number holds at this order and precision is for a dearer engine.
        lost = ~np.isfinite(new) & (not final)
        gains[open_], errors[open_] = np.where(lost, 0.0, new), np.where(lost, np.inf, error)
        sure[open_] = final
        errors[sure] = tie_width(gains) / 2
        passes.append(f"{engine.name}: {open_.size}")
        products[dtype_of(engine)] += engine.products(engines.question, some)
        open_ = np.flatnonzero(engines.still_open(gains, errors, n) & ~sure)
        if open_.size:
            engine = engines.then(facts, gains, errors, open_, n, caution)
    return gains, {
        "engine": ", ".join(passes),
        "products_float32": products["float32"],
        "products_float64": products["float64"],
        "error_bound_used": used,
    }


def _share(difference: Float, errors: Float) -> float:
    """Largest part of its error bound that a score turned out to be off."""
    known = np.isfinite(errors) & (errors > 0)
    return float((np.abs(difference[known]) / errors[known]).max(initial=0.0))


@dataclass(frozen=True)
class Threshold:
    """Of a round: half way below the `n` largest gains of S.

    Of the features leaving, a part `tolerance` may be wrong ones.
    """

    question: Question
    data: ScaledReader
    tolerance: float
    S: Index
    n: int

    def corrected(self, gains: Float, certificate: Certificate) -> tuple[Float, Index, Certificate]:
        """Gains, exact where the error could move them across it; which those are.

        The others are moved by the mean difference, which is no error of the order.
        """
        exact, sizes = gains.copy(), self.data.sizes(self.S)
        scored = np.zeros(self.S.size, dtype=bool)
        offset, deviation = np.zeros(self.S.size), certificate.deviation
        band = self._first_band(gains, deviation * sizes)
        while band.any():
            which = np.flatnonzero(band)
            exact[which] = self._score(self.S[which])
            scored |= band
            off = (exact[scored] - gains[scored]) / sizes[scored]
            offset, deviation = float(off.mean()) * sizes, float(off.std())
            exact[~scored] = (gains + offset)[~scored]
            band = self._band(exact, deviation * sizes, scored) & ~scored
        swaps = expected_swaps(exact, self.n, deviation * sizes, sure=scored)
        left = Certificate(certificate.relative_error, swaps, deviation)
        return exact, np.flatnonzero(scored), left

    def _first_band(self, gains: Float, deviations: Float) -> Mask:
        """Enough features next to the threshold to see the error by."""
        if self.tolerance == 0 or not np.isfinite(deviations).all():
            return np.ones(len(gains), dtype=bool)
        band = self._band(gains, PROBE * deviations, np.zeros(len(gains), dtype=bool))
        too_few = band.any() and band.sum() < PROBED
        return nearest_to_threshold(gains, self.n, PROBED) if too_few else band

    def _band(self, gains: Float, deviations: Float, sure: Mask) -> Mask:
        """Features next to it: as many as leave too few others for the tolerance to mind."""
        band = sure
        for width in BANDS:
            swaps = expected_swaps(gains, self.n, deviations, band)
            if swaps + CHANCE * np.sqrt(swaps / self.n) <= LEFT * self.tolerance:
                break
            band = next_to_threshold(gains, self.n, width * deviations) | sure
        return band

    def _score(self, features: Index) -> Float:
        """Gains by the exact engine in float32; as far as needed where the series is long."""
        question = self.question
        facts = self.data.facts(features)
        orders = orders_for(question.kernel, question.sigma, facts, question.n_samples, EXACTLY)
        gains = np.empty(features.size)
        for order in np.unique(orders):
            which = np.flatnonzero(orders == order)
            engine: AbstractEngine = Dense(int(order), "float32")
            if order > HIGHEST_ORDER:
                engine = final_engine(question, facts.take(which))
            state = engine.prepare(question)
            gains[which] = self.data.gains(features[which], engine, state, aloud=False)
        return gains
