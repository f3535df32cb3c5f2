"""A round's progressive refinement: all features first, then those whose place is undecided.

Which engine goes when is `dhsic.engines.refine`'s to say; here they are run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.refine import AbstractEngines, EngineChoice, tie_width
from dhsic.passes.scaled import ScaledReader, dtype_of


@dataclass(frozen=True)
class Refinement:
    """Gains of S, good enough to place the n largest.

    Attributes
    ----------
    engines : AbstractEngines
        Which engine goes when.
    data : ScaledReader
        Reads features of S.
    aloud : bool
        Whether its reporter hears of the first scores.
    """

    engines: AbstractEngines
    data: ScaledReader
    S: Index
    n: int
    aloud: bool = True

    def run(self, choice: EngineChoice | None) -> tuple[Float, dict[str, Any]]:
        """Gains of S, (s,), and a record of what it took; `choice` is of the first engine."""
        engines, d = self.engines, self.S.size
        facts = self.data.facts(self.S)
        gains, errors, settled = np.zeros(d), np.zeros(d), np.zeros(d, dtype=bool)
        open_, engine = np.arange(d), engines.first(facts, self.n, choice)
        passes: list[str] = []
        products = {"float32": 0, "float64": 0}
        used, caution = 0.0, 1.0
        while open_.size:
            some = facts.take(open_)
            state = engine.prepare(engines.question)
            found = self.data.scores(self.S[open_], engine, state, aloud=self.aloud and not passes)
            if found.ndim == 2:  # the engine measures what it leaves out
                new, error = found.T
            else:
                new, error = found, caution * engine.error(engines.question, some, found)
            if passes:  # be wary of the next bounds where the last were too small
                used = max(used, _share(new - gains[open_], errors[open_]))
                caution = max(caution, 2 * used if used > 1 else 1.0)
            final = engines.settles(engine)
            # What no number holds at this order and precision is for a dearer engine.
            lost = ~np.isfinite(new) & (not final)
            gains[open_], errors[open_] = np.where(lost, 0.0, new), np.where(lost, np.inf, error)
            settled[open_] = final
            errors[settled] = tie_width(gains) / 2
            passes.append(f"{engines.name(engine)}: {open_.size}")
            products[dtype_of(engine)] += engine.products(engines.question, some)
            open_ = np.flatnonzero(engines.still_open(gains, errors, self.n) & ~settled)
            if open_.size:
                engine = engines.then(facts, gains, errors, open_, self.n, caution)
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
