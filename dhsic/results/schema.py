"""Outcome of a run, and its result: a Dataset with one row per feature and one per round.

Attributes of the result count what a run leaves out, as whole numbers: `LEFT_OUT` names them and
describes what each counts. Code that leaves out something else adds a name there; the count is
added in `_attributes` if a source or a run knows it, or assigned later, as the command line does
for labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.engines.expected_loss import lost_of, most_lost
from dhsic.engines.kernel_drift import turned_at
from dhsic.joins.filters import with_haploid
from dhsic.memory import MemoryEstimate
from dhsic.results import announce_result, tables
from dhsic.sources import FEATURES, AbstractSource
from dhsic.sources.columns import NAME
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind

#: Version of the layout of results.
FORMAT = 1

DESCRIPTIONS = {
    "rank": "rank of the feature, 1 is the most relevant",
    "score": "by how much HSIC falls without the feature, in the round in which it left",
    "selected": "whether the feature is among those asked for",
    "round_removed": "round in which the feature left, 0 for constant features",
    "n_missing": "missing values of the feature, filled in with its mean",
    "mean": "mean of the values of the feature that are there",
    "allele_frequency": "non-reference alleles of the calls that are there, over their ploidy",
    "constant": "whether the feature does not vary",
    "round_n_features": "features left at the start of the round",
    "round_n_removed": "features removed in the round",
    "round_sigma": "kernel parameter of the round",
    "round_hsic": "HSIC of the features left at the start of the round",
    "round_seconds": "seconds that the round took",
    "round_bytes_read": "stored bytes read in the round",
    "round_landmarks": "landmarks of low rank, rows of its check included; 0 in exact rounds",
    "round_rank": "directions that low rank scored with",
    "round_relative_error": "estimated error of scores in low rank or kept, over their deviation",
    "round_cut_error": "estimated part of the features leaving that are wrong ones",
    "round_turn": "by how much the form that scores features turned since the round before",
    "round_expected_lost": "of the features left after the round, those that are wrong ones",
    "round_most_lost": "the same, no more of them nine times of ten",
    "round_engine": "engines that scored the round, and how many features each",
}

#: Descriptions that differ for methods that add features.
ADDED = {
    "score": "by how much HSIC rose with the feature, in the round in which it joined",
    "round_added": "round in which the feature joined, 0 for constant features",
    "round_n_features": "candidates at the start of the round",
    "round_n_selected": "features chosen at the start of the round",
    "round_n_added": "features added in the round",
    "round_hsic": "HSIC of the features chosen at the start of the round",
}

#: Descriptions that differ for methods that weight features.
WEIGHTED = {
    "score": "weight of the feature",
    "round_weighted": "step of which the weight is, 0 for constant features",
    "round_objective": "objective after the step",
    "round_hsic": "HSIC of the weighted features",
    "round_residual": "size of the projected gradient, or of the change of weights",
    "round_step": "length of the step",
    "round_n_evaluations": "evaluations of the objective",
    "round_n_nonzero": "features of a weight above 0",
}

#: Descriptions that differ for methods that score each feature once.
SCORED = {
    "round_scored": "1, 0 for constant features",
    "round_prior_degrees": "degrees of freedom of the prior of variances (Smyth 2004)",
    "round_prior_variance": "variance of that prior",
    "round_prior_spread": "spread of true differences that the odds suppose",
}
OTHERS = {"added": ADDED, "weighted": WEIGHTED, "scored": SCORED}

#: Engine details of every round, stored as JSON in the attribute ``engine``: columns of m x m
#: matrix products; the largest observed error of a score relative to its bound; the longest series
#: in low rank; features left at the last projection; the first engine of the next round.
OF_ENGINES = ("products_float32", "products_float64", "error_bound_used", "order", "projected",
              "advice")  # fmt: skip
#: Prefix of the variables that describe pairs.
PAIR = "pair_"
#: Features up to which names are read from a store at once.
MOST_NAMED = 1 << 17
#: Attributes that count what was left out, with their descriptions.
LEFT_OUT = {
    "n_samples_left_out": "samples that take no part, as a label or covariate is missing",
    "n_samples_without_label": "samples among those that lack a label",
    "n_samples_without_covariate": "samples among those that lack a covariate",
    "n_rows_passed_over": "rows of tables that are of no sample that takes part",
    "n_rows_elsewhere": "rows of tables taken by position that name a sample at another place",
    "n_samples_filtered": "samples that filters leave out, such as --keep",
    "n_features_filtered": "features that filters leave out, such as --pass-only",
    "n_values_coded": "values that are codes for missing ones, such as -9 beside 0, 1 and 2",
    "n_constant": "features that do not vary, which are ranked last",
    "n_wholly_missing": "features among those that have no value at all",
}


@dataclass(frozen=True)
class Order:
    """Order of the features that vary, with scores and the history of rounds."""

    features: Index  # (s,), the least relevant first
    scores: Float  # (s,), of `features`; the method defines their meaning
    rounds: Index  # (s,), of `features`: round (from 1) that placed each feature
    history: tuple[Mapping[str, Any], ...]  # a record per round, plain numbers and strings
    placed: str = "removed"  # how rounds place features: "removed", "added", "weighted" or "scored"
    meaning: str = ""  # description of scores, if it follows neither from `placed` nor HSIC
    #: Features per candidate, (g,), the least relevant first, if candidates are groups.
    sizes: Index | None = None
    #: Extra columns of the result: name to (values of all d features, description).
    extra: Mapping[str, tuple[Array, str]] = field(default_factory=dict)
    #: Extra attributes of the result.
    told: Mapping[str, Any] = field(default_factory=dict)
    #: Features of significant pairs that are selected in addition.
    n_joined: int = 0

    def at(
        self, places: Any, told: Mapping[str, Any] | None = None, **columns: tuple[Array, str]
    ) -> Order:
        """Return the order indexed by `places`, with more columns and attributes."""
        return replace(
            self,
            features=self.features[places],
            scores=self.scores[places],
            rounds=self.rounds[places],
            extra={**self.extra, **columns},
            told={**self.told, **(told or {})},
        )

    def n_features(self, n_candidates: int) -> int:
        """Number of features in the n most relevant candidates, with those of pairs."""
        if self.sizes is None:
            return n_candidates + self.n_joined
        return int(self.sizes[::-1][:n_candidates].sum())


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run, for any method; `to_dataset` converts it to a result."""

    order: Order
    scaling: Scaling
    label_kernel: str
    n_targets: int
    parameters: Mapping[str, Any]
    source: AbstractSource
    values: ValueKind
    n_samples: int
    promise: MemoryEstimate
    runtime: str
    pairs: xr.Dataset | None = None  # best pairs, if pairs were scanned
    rows: Index | None = None  # samples used; None for all
    n_discovered: int | None = None  # features discovered, if that limits how many are selected

    def n_selected(self, n_candidates: int) -> int:
        """Number of features selected if n candidates are wanted."""
        n = self.order.n_features(n_candidates)
        return n if self.n_discovered is None else min(n, self.n_discovered)

    @property
    def worst_first(self) -> Index:
        """All features: constant ones first, then the others with the least relevant first."""
        return np.concatenate([np.flatnonzero(self.scaling.constant), self.order.features])


def versions() -> dict[str, str]:
    """Versions on which a ranking may depend, down to the last bit of a sum.

    These are dhsic, the numerical packages, and the device, if there is one.
    """
    device = wanted_device()
    return {**_installed()} if device is None else {**_installed(), "device": device}


@cache
def _installed() -> dict[str, str]:
    """Versions of packages; cached, because the look-up takes as long as a small run."""
    return {name: version(name) for name in ("dhsic", "numpy", "scipy", "zarr")}


def ranking(order: Index) -> Index:
    """Rank of every feature, 1 is the best, from an order with the worst first."""
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size, 0, -1)
    return ranks


@dataclass(frozen=True)
class FeatureMetadata:
    """Names and coordinates of the features of a source, which must be read from it."""

    coords: Mapping[str, tuple[str, Any]]
    fingerprint: str
    dim: str = FEATURES

    @staticmethod
    def of(source: AbstractSource) -> FeatureMetadata:
        """Read them from a source; for many features they are read from the store on demand."""
        columns = source.feature_columns()
        if columns is not None and source.n_features > MOST_NAMED:
            coordinates = {name: column.lazily() for name, column in columns.items()}
        else:
            coordinates = dict(source.feature_coords())
            names = source.feature_names()
            if names is not None:
                coordinates[NAME] = np.asarray(names, dtype=object)
        coords = {name: (FEATURES, values) for name, values in coordinates.items()}
        return FeatureMetadata(coords, source.fingerprint(), source.names.dim)


def to_dataset(
    outcome: Outcome, n_selected: int, about: FeatureMetadata | None = None
) -> xr.Dataset:
    """Convert an outcome to a Dataset in which the first `n_selected` features are selected.

    `about` describes the features of its source; it is read if not given.
    """
    announce_result()
    about = about or FeatureMetadata.of(outcome.source)
    order = outcome.order
    ranks = ranking(outcome.worst_first)
    d = ranks.size
    scores, rounds = np.full(d, np.nan), np.zeros(d, dtype=np.int64)
    scores[order.features] = order.scores
    rounds[order.features] = order.rounds
    per_feature: dict[str, Array] = {
        "rank": ranks,
        "score": scores,
        "selected": ranks <= n_selected,
        f"round_{order.placed}": rounds,
        "n_missing": outcome.scaling.n_missing,
        **_means(outcome),
        "constant": outcome.scaling.constant,
    }
    text_of = DESCRIPTIONS | OTHERS.get(order.placed, {})
    if order.meaning:
        text_of = text_of | {"score": order.meaning, "round_hsic": "criterion before the round"}
    data = {k: (FEATURES, v, {"long_name": text_of[k]}) for k, v in per_feature.items()}
    for name, (values, meaning) in order.extra.items():
        data[name] = (FEATURES, values, {"long_name": meaning})
    history = _history(outcome)
    inner = {key: history.pop(key).tolist() for key in OF_ENGINES if key in history}
    for key, values in history.items():
        name = f"round_{key}"
        data[name] = ("rounds", values, {"long_name": text_of.get(name, key)})
    attributes = _attributes(outcome, n_selected) | {"fingerprint": about.fingerprint}
    if outcome.pairs is not None:
        for called, each in outcome.pairs.items():
            data[f"{PAIR}{called}"] = "pairs", each.to_numpy(), dict(each.attrs)
        attributes |= {f"{PAIR}{name}": value for name, value in outcome.pairs.attrs.items()}
        attributes["n_joined"] = order.n_joined
    if inner:
        attributes["engine"] = json.dumps(inner)
    coords = {name: of for name, of in about.coords.items() if name not in data}
    dataset = xr.Dataset(data, coords=coords, attrs=attributes)
    is_taken = about.dim in {*data, *dataset.dims, *tables.OF_RUNS, NAME}
    return dataset if is_taken else dataset.swap_dims({FEATURES: about.dim})


def _means(outcome: Outcome) -> dict[str, Array]:
    """Means of the values that are not missing; for dosages, allele frequencies."""
    scaling, ploidy = outcome.scaling, outcome.source.ploidy
    means = np.where(scaling.n_missing < outcome.n_samples, scaling.mean, np.nan)
    if ploidy is None or (means > ploidy).any():  # these are not dosages
        return {"mean": means}
    return {"allele_frequency": with_haploid(means / ploidy, outcome.source, outcome.rows)}


def _history(outcome: Outcome) -> dict[str, Array]:
    """Columns of the records, one per key; 0 in records without the key."""
    records = outcome.order.history
    out: dict[str, Array] = {}
    for key in dict.fromkeys(key for record in records for key in record):
        values = [record.get(key, 0) for record in records]
        text = any(isinstance(v, str) for v in values)
        out[key] = np.array([str(v) for v in values], dtype=object) if text else np.array(values)
    return out


def _attributes(outcome: Outcome, n_selected: int) -> dict[str, Any]:
    scaling, source = outcome.scaling, outcome.source
    n_features = int(scaling.constant.size)
    counted = {
        "n_features_filtered": int(source.n_features_filtered),
        "n_values_coded": sum(found.n for found in outcome.values.codes.values()),
        "n_constant": int(scaling.constant.sum()),
        "n_wholly_missing": int((scaling.n_missing == outcome.n_samples).sum()),
    }
    return {
        "source": f"dhsic-{_installed()['dhsic']}",
        "dhsic_format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_samples": outcome.n_samples,
        "n_features": n_features,
        "n_selected": int(min(n_selected, n_features)),
        **left_out(counted),
        "n_missing_values": int(scaling.n_missing.sum()),
        "n_features_with_missing": int((scaling.n_missing > 0).sum()),
        "label_kernel_used": outcome.label_kernel,
        "n_targets": outcome.n_targets,
        "values": str(outcome.values),
        **({"missing_codes": sorted(outcome.values.codes)} if outcome.values.codes else {}),
        **({"counted_allele": source.counted} if source.counted else {}),
        "runtime": outcome.runtime,
        "promised_bytes": outcome.promise.total,
        "parameters": json.dumps(outcome.parameters),
        "versions": json.dumps(versions()),
        **_consequences(outcome.order, n_selected),
        **outcome.order.told,
    }


def _consequences(order: Order, n_selected: int) -> dict[str, Any]:
    """Expected losses of approximate rounds, and rank stability, of backward elimination."""
    if order.placed != "removed":
        return {}
    return {
        "expected_lost": lost_of(order.history, n_selected),
        "most_lost": most_lost(order.history, n_selected),
        "turn_rank": turned_at(order.history, n_selected),
    }


def left_out(attributes: Mapping[str, Any]) -> dict[str, int]:
    """All counts of `LEFT_OUT`, from the attributes of a result."""
    return {name: int(attributes.get(name, 0)) for name in LEFT_OUT}
