"""Survival curves by the best feature, for labels that are times to an event.

Samples are divided into thirds by the values of the best feature. If it has at most three distinct
values, samples with the same value form a group. The result stores the Kaplan-Meier estimate of
each group, for reports and plots.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.risk_sets import is_censored, kaplan_meier
from dhsic.pairs.rescore import missing_masks
from dhsic.selection.run import Method, SelectionRun
from dhsic.selection.stage import RankedRun, Stage
from dhsic.sources.views import ShadowedSource

#: Maximum number of steps of a curve that are stored.
MOST_STEPS = 200
#: Maximum number of distinct values of a feature for which each value is a group.
MOST_LEVELS = 3
THIRDS = ("lowest third", "middle third", "highest third")


class SurvivalCurves(Stage):
    """Store Kaplan-Meier curves by the best feature, if the labels are times to an event."""

    name = "survival"

    @classmethod
    def of(cls, selector: Method) -> Self | None:  # noqa: ARG003  # the labels decide
        """Return the stage, for every selector."""
        return cls()

    def ranked(self, run: SelectionRun, ranking: RankedRun) -> RankedRun:
        best_first = ranking.order.features[::-1]
        if isinstance(run.source, ShadowedSource):
            best_first = best_first[best_first < run.source.n_real]
        if run.y is None or not is_censored(run.y) or not best_first.size or run.groups is not None:
            return ranking
        feature = best_first[:1]
        if int(feature[0]) in run.source.levels:  # its values are codes
            return ranking
        data = ranking.features.with_scaling(ranking.scaling)
        values = data.values(feature)[0] / ranking.scaling.scale[feature[0]]
        values = values + ranking.scaling.mean[feature[0]]
        masks = missing_masks(data, feature)
        values = np.where(masks[0], np.nan, values) if masks else values
        curves = {"feature": int(feature[0]), "groups": curves_by(values, run.y.ravel())}
        order = ranking.order.at(slice(None), {"survival_curves": json.dumps(curves)})
        return replace(ranking, order=order)


def curves_by(x: Float, y: Array) -> list[dict[str, Any]]:
    """Kaplan-Meier curves of censored times y (m,) in groups of samples by values of a feature.

    x (m,) are the values of the feature, NaN where missing. Each curve has a ``label``, the number
    of samples ``n``, the number of events ``n_events``, lists ``times`` and ``survival``, and the
    largest time, ``end``.
    """
    present = np.isfinite(x)
    x, y = x[present].round(9), y[present]
    levels = np.unique(x)
    if levels.size <= MOST_LEVELS:
        codes, labels = np.searchsorted(levels, x), [f"{level:g}" for level in levels]
    else:
        codes, labels = np.searchsorted(np.quantile(x, [1 / 3, 2 / 3]), x), [*THIRDS]
    groups = []
    for code, label in enumerate(labels):
        part = y[codes == code]
        if not part.size:
            continue
        times, survival = kaplan_meier(part)
        steps = np.unique(np.linspace(0, times.size - 1, MOST_STEPS).round().astype(np.int64))
        steps = steps if times.size else steps[:0]
        group = {"label": label, "n": int(part.size), "n_events": int(part["event"].sum())}
        curve = {"times": times[steps].tolist(), "survival": survival[steps].round(6).tolist()}
        groups.append({**group, **curve, "end": float(part["time"].max())})
    return groups
