"""Outcome of a run, and its result: a Dataset with variables per feature and per round.

Attributes of the result count the samples, features and values that a run excludes. `LEFT_OUT`
names and describes these counts; code that excludes anything else must add a name there. Counts
that the source or the run knows are set in `_attributes`. Others are set later; for instance, the
command line counts samples without labels.
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
from dhsic.sources.feature_blocks import FeatureBlocks
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind
from dhsic.sources.views import STORED

#: Version of the layout of results.
FORMAT = 1

DESCRIPTIONS = {
    "rank": "rank of the feature, 1 is the most relevant",
    "rank_in_block": "rank of the feature within its matrix, 1 is the most relevant",
    "score": "decrease of HSIC without the feature, in the round in which it was removed",
    "selected": "whether the feature is selected",
    "round_removed": "round in which the feature was removed, 0 for constant features",
    "n_missing": "number of missing values of the feature, which were replaced by its mean",
    "mean": "mean of the values of the feature that are not missing",
    "allele_frequency": "frequency of non-reference alleles in the calls that are not missing",
    "constant": "whether the feature does not vary",
    "round_n_features": "features left at the start of the round",
    "round_n_removed": "features removed in the round",
    "round_sigma": "kernel parameter of the round",
    "round_hsic": "HSIC of the features left at the start of the round",
    "round_seconds": "duration of the round in seconds",
    "round_bytes_read": "stored bytes read in the round",
    "round_landmarks": "number of landmarks of the low-rank approximation, including check rows; 0 "
    "in exact rounds",
    "round_rank": "rank of the low-rank approximation",
    "round_relative_error": "estimated error of approximate scores, relative to their standard "
    "deviation",
    "round_cut_error": "estimated fraction of the removed features that an exact run would keep",
    "round_turn": "relative change of the scoring matrix since the previous round, up to its scale",
    "round_expected_lost": "expected number of wrong features among the features left after the "
    "round",
    "round_most_lost": "upper limit of round_expected_lost, with a probability of 90%",
    "round_engine": "engines that scored the features, and the number of features scored by each",
}

#: Descriptions that differ for methods that add features.
ADDED = {
    "score": "increase of HSIC with the feature, in the round in which it was added",
    "round_added": "round in which the feature was added, 0 for constant features",
    "round_n_features": "candidates at the start of the round",
    "round_n_selected": "features chosen at the start of the round",
    "round_n_added": "features added in the round",
    "round_hsic": "HSIC of the features chosen at the start of the round",
}

#: Descriptions that differ for methods that weight features.
WEIGHTED = {
    "score": "weight of the feature",
    "round_weighted": "step after which the feature has this weight, 0 for constant features",
    "round_objective": "objective after the step",
    "round_hsic": "HSIC of the weighted features",
    "round_residual": "size of the projected gradient, or of the change of weights",
    "round_step": "length of the step",
    "round_n_evaluations": "number of evaluations of the objective",
    "round_n_nonzero": "number of features with a weight above 0",
}

#: Descriptions that differ for methods that score each feature once.
SCORED = {
    "round_scored": "1; 0 for constant features",
    "round_prior_degrees": "degrees of freedom of the prior of variances (Smyth 2004)",
    "round_prior_variance": "variance of that prior",
    "round_prior_spread": "assumed spread of the true differences, for the odds",
}
OTHERS = {"added": ADDED, "weighted": WEIGHTED, "scored": SCORED}

#: Details of the engines of every round, stored as JSON in the attribute ``engine``: number of
#: columns of m x m matrix products in float32 and in float64; largest observed error of a score,
#: relative to its bound; order of the longest series in low rank; number of features at the last
#: projection; first engine of the next round.
OF_ENGINES = ("products_float32", "products_float64", "error_bound_used", "order", "projected",
              "advice")  # fmt: skip
#: Prefix of the variables that describe pairs.
PAIR = "pair_"
#: Maximum number of features whose names are read from a store immediately.
MOST_NAMED = 1 << 17
#: Attributes that count excluded samples, features and values, with their descriptions.
LEFT_OUT = {
    "n_samples_left_out": "samples excluded because a label or covariate is missing",
    "n_samples_without_label": "of these, samples without a label",
    "n_samples_without_covariate": "of these, samples without a covariate",
    "n_rows_passed_over": "rows of tables that belong to no sample in use",
    "n_rows_elsewhere": "rows matched by position that have the name of another sample",
    "n_samples_filtered": "samples excluded by filters, such as --keep",
    "n_features_filtered": "features excluded by filters, such as --pass-only",
    "n_values_coded": "values that are codes for missing, such as -9 next to 0, 1 and 2",
    "n_constant": "constant features, which are ranked last",
    "n_wholly_missing": "of these, features with only missing values",
}


@dataclass(frozen=True)
class Order:
    """The order of all features that are not constant, with scores and the history of rounds."""

    features: Index  # (s,), the least relevant first
    scores: Float  # (s,), scores of `features`; the method defines their meaning
    rounds: Index  # (s,), number (from 1) of the round that determined the rank of each feature
    history: tuple[Mapping[str, Any], ...]  # one record per round: plain numbers and strings
    placed: str = "removed"  # what rounds do: features are "removed", "added", "weighted", "scored"
    meaning: str = ""  # description of the scores if they are not the usual ones of `placed`
    #: Number of features of each candidate, (g,), least relevant first, if candidates are groups.
    sizes: Index | None = None
    #: Extra columns of the result: name to (values of all d features, description).
    extra: Mapping[str, tuple[Array, str]] = field(default_factory=dict)
    #: Extra attributes of the result.
    attributes: Mapping[str, Any] = field(default_factory=dict)
    #: Number of features of significant pairs that are selected in addition.
    n_joined: int = 0

    def at(
        self, places: Any, attributes: Mapping[str, Any] | None = None, **columns: tuple[Array, str]
    ) -> Order:
        """Return the order of the features at `places` (an index array, mask or slice).

        `attributes` and `columns` are added to the attributes and columns of the order.
        """
        return replace(
            self,
            features=self.features[places],
            scores=self.scores[places],
            rounds=self.rounds[places],
            extra={**self.extra, **columns},
            attributes={**self.attributes, **(attributes or {})},
        )

    def n_features(self, n_candidates: int) -> int:
        """Number of features that are selected with the `n_candidates` most relevant candidates."""
        if self.sizes is None:
            return n_candidates + self.n_joined
        return int(self.sizes[::-1][:n_candidates].sum())


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run of any method; `to_dataset` converts it to a result."""

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
    n_discovered: int | None = None  # number of discovered features, if only these are selected

    def n_selected(self, n_candidates: int) -> int:
        """Number of selected features if `n_candidates` candidates are requested."""
        n = self.order.n_features(n_candidates)
        return n if self.n_discovered is None else min(n, self.n_discovered)

    @property
    def worst_first(self) -> Index:
        """Indices of all features: first constant ones, then others from least to most relevant."""
        return np.concatenate([np.flatnonzero(self.scaling.constant), self.order.features])


def versions() -> dict[str, str]:
    """Return versions that may change the last bits of scores, by name.

    These are the versions of dhsic and of the numerical packages, and the device, if one is used.
    """
    device = wanted_device()
    return {**_installed()} if device is None else {**_installed(), "device": device}


@cache
def _installed() -> dict[str, str]:
    """Versions of packages; cached, because the look-up takes as long as a small run."""
    return {name: version(name) for name in ("dhsic", "numpy", "scipy", "zarr")}


def ranking(order: Index) -> Index:
    """Rank (d,) of every feature, 1 for the best; `order` (d,) has the worst feature first."""
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size, 0, -1)
    return ranks


#: Variables that refer to other features, by their positions: the better feature with which one is
#: redundant, and the feature with which one acts together.
CLUMPED_BY, PAIR_WITH = "clumped_by", "pair_with"
PARTNERS = (CLUMPED_BY, PAIR_WITH)


@dataclass(frozen=True)
class FeatureMetadata:
    """Names and coordinates of the features of a source, and its fingerprint."""

    coords: Mapping[str, tuple[str, Any]]
    fingerprint: str
    dim: str = FEATURES

    @staticmethod
    def of(source: AbstractSource) -> FeatureMetadata:
        """Read the metadata of a source; names of many features are read only on demand."""
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

    `about` describes the features of the source; by default it is read from the source.
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
    in_blocks, shares = _of_blocks(outcome, ranks)
    per_feature |= in_blocks
    text_of = DESCRIPTIONS | OTHERS.get(order.placed, {})
    if order.meaning:
        text_of = text_of | {"score": order.meaning, "round_hsic": "criterion before the round"}
    data = {k: (FEATURES, v, {"long_name": text_of[k]}) for k, v in per_feature.items()}
    for name, (values, meaning) in order.extra.items():
        shown = _in_store(values, about) if name in PARTNERS else values
        data[name] = (FEATURES, shown, {"long_name": meaning})
    history = _history(outcome)
    inner = {key: history.pop(key).tolist() for key in OF_ENGINES if key in history}
    for key, values in history.items():
        name = f"round_{key}"
        data[name] = ("rounds", values, {"long_name": text_of.get(name, key)})
    attributes = _attributes(outcome, n_selected) | shares | {"fingerprint": about.fingerprint}
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


def _in_store(partners: Index, about: FeatureMetadata) -> Index:
    """Convert feature indices `partners` (d,) from the source to the store; -1 stays -1.

    They differ if the source excludes features of the store.
    """
    if STORED not in about.coords:
        return partners
    stored = np.asarray(about.coords[STORED][1])
    return np.where(partners < 0, partners, stored[partners])


def _of_blocks(outcome: Outcome, ranks: Index) -> tuple[dict[str, Array], dict[str, str]]:
    """Return ranks of features within their matrices, and an attribute with matrix weights.

    The weight of a matrix is its share in the mean squared distance between samples. Both results
    are empty if the data are one matrix. Methods without a kernel of all features have no weights.
    """
    blocks = FeatureBlocks.of(outcome.source)
    if blocks is None or blocks.codes.size != ranks.size:
        return {}, {}
    has_kernel = outcome.order.placed == "removed"
    shares = {"block_share": json.dumps(blocks.shares(outcome.scaling))} if has_kernel else {}
    return {"rank_in_block": blocks.ranks(ranks)}, shares


def _means(outcome: Outcome) -> dict[str, Array]:
    """Return a column with the mean of each feature or, for dosages, the allele frequency."""
    scaling, ploidy = outcome.scaling, outcome.source.ploidy
    is_number = ~np.isin(np.arange(scaling.mean.size), [*outcome.source.levels])
    has_mean = is_number & (scaling.n_missing < outcome.n_samples)
    means = np.where(has_mean, scaling.mean, np.nan)
    if ploidy is None or (means > ploidy).any():  # these are not dosages
        return {"mean": means}
    return {"allele_frequency": with_haploid(means / ploidy, outcome.source, outcome.rows)}


def _history(outcome: Outcome) -> dict[str, Array]:
    """Convert the history to columns, one per key of its records; records without it get 0."""
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
        **outcome.order.attributes,
    }


def _consequences(order: Order, n_selected: int) -> dict[str, Any]:
    """Return attributes for backward elimination: `turn_rank`, and losses by approximation."""
    if order.placed != "removed":
        return {}
    return {
        "expected_lost": lost_of(order.history, n_selected),
        "most_lost": most_lost(order.history, n_selected),
        "turn_rank": turned_at(order.history, n_selected),
    }


def left_out(attributes: Mapping[str, Any]) -> dict[str, int]:
    """Return all counts of `LEFT_OUT` from the attributes of a result; absent counts are 0."""
    return {name: int(attributes.get(name, 0)) for name in LEFT_OUT}
