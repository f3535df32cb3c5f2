"""A selection request as plain data; estimators, `select`, `submit`, `plan` and commands build it.

Users describe a selection to these functions in different ways. A request always consists of data,
one row of labels per sample, and a method with its parameters. A request can be used to open the
data, to run the selection in this process or on a cluster, or to estimate its cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.accelerator import wanted_device
from dhsic.errors import InputError
from dhsic.joins.donors import warn_of_donors
from dhsic.joins.filtered import Filtered
from dhsic.joins.filters import AbstractCounting, Filters
from dhsic.joins.frame_rows import check_order
from dhsic.joins.labels import Inputs, Labelled
from dhsic.joins.text import check_coded
from dhsic.joins.variables import values_of_features
from dhsic.kernels.risk_sets import event_counts
from dhsic.linalg.blocks import Blocks
from dhsic.linalg.weighted_samples import effective_size
from dhsic.memory import MemoryEstimate
from dhsic.object_store import without_secrets
from dhsic.passes.call_counts import counting_on
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.cores import threads_of
from dhsic.selection.block_options import takes_blocks, with_blocks
from dhsic.selection.categories import refuse_unsupported
from dhsic.selection.run import Groups, Method, SelectionRun
from dhsic.selection.stages import STAGES, before
from dhsic.sources import AbstractSource
from dhsic.sources.categories import IndicatorSource
from dhsic.sources.feature_blocks import FeatureBlocks
from dhsic.sources.file_lists import expanded, is_several, short_name
from dhsic.sources.ids import abbreviate
from dhsic.sources.opening import open_source

#: Options of `open_source` that functions accept in addition to those in their signatures.
OPENING = (
    *("missing_chunks", "ploidy_policy", "storage_options", "not_features", "na", "categories"),
    "intersect_samples",
)
#: Parameters that other packages have and dhsic does not; the message names an alternative.
NOT_THERE: dict[str, str] = {
    "sample_weight": "sample_weight is not supported here: every sample has the same weight. Leave "
    "sample_weight out. To test single features with weights, call dhsic.test_features with "
    "sample_weight.",
}

NOT_THERE |= dict.fromkeys(
    ("permute_whole", "permute_within"),
    "Blocks of samples (permute_whole=, permute_within=) are supported by dhsic.test_features, "
    "dhsic.select and dhsic.select_genes; call one of these, or leave the blocks out.",
)

#: Callback that receives the run and its memory estimate before work starts.
Announce = Callable[[SelectionRun, MemoryEstimate], object]


@dataclass(frozen=True, eq=False)
class Request:
    """Data, labels, method and options of one selection.

    `Request.of` builds a request from user input and matches rows by sample names. Callers that
    have already matched the rows, such as the command line, pass the arrays.
    `dhsic.selection.execution.result_of` executes it; `new_run` builds the run, for a plan or its
    identity.
    """

    selector: Method  # its runtime is the default
    data: Any  # as in `open_source`; must be a path or URL if the request is stored
    n_samples: int | None = None  # number of samples in the data, including excluded ones
    opening: Mapping[str, Any] = field(default_factory=dict)  # other options of `open_source`
    y: Array | None = None  # (m,) or (m, t), one row per sample of `rows`
    covariates: Array | None = None  # (m, q)
    sample_weight: Array | None = None  # (m,), positive and not all equal; None: no weights
    rows: Index | None = None  # (m,), positions of the samples used; None for all
    feature_groups: Groups | None = None
    filtered: Filtered = field(default_factory=Filtered)  # samples and features filtered out
    attributes: Mapping[str, Any] = field(default_factory=dict)  # extra attributes of the result
    job: Mapping[str, Any] = field(default_factory=dict)  # arguments with which a command resumes
    #: Device that scores features, from the environment of the caller.
    device: str | None = field(default_factory=wanted_device)
    id: str = field(default_factory=partial(secrets.token_hex, 6))  # id of a detached run
    source: AbstractSource | None = None  # the data, if already open
    blocks: Blocks | None = None  # blocks that restrict the permutations of labels

    @classmethod
    def of(
        cls,
        selector: Method,
        data: Any,
        target: Any,
        *,
        covariates: Any = None,
        feature_groups: Any = None,
        by_position: bool = False,
        filters: Filters | Filtered | None = None,
        counting: AbstractCounting | None = None,
        source: AbstractSource | None = None,
        not_features: Collection[str] = (),
        compares_samples: bool = True,
        event: Any = None,
        entry: Any = None,
        permute_whole: Any = None,
        permute_within: Any = None,
        sample_weight: Any = None,
        **opening: Any,
    ) -> Request:
        """Build a request from user input, see `dhsic.BAHSIC.fit`; None as `target`: no labels.

        The selector opens the data with the options `opening` of `dhsic.open_source`, unless an
        open `source` is passed. `counting` computes the per-feature counts that filters need, by
        default on the selector's runtime. `not_features` are columns of a frame or table that are
        not features, besides labels and covariates. `compares_samples` is as in `Inputs.join`.
        `event` and `entry` belong to a target of censored times. `permute_whole` and
        `permute_within` are blocks of samples, see `dhsic.linalg.blocks`.
        """
        opening["categories"] = tuple(opening.get("categories") or ())
        if not isinstance(filters, Filters | Filtered | None):
            raise InputError(f"filters={filters!r}; pass dhsic.Filters(keep=..., extract=..., ...)")
        data = expanded(data)
        inputs = Inputs.of(
            data,
            target,
            covariates,
            by_position=by_position,
            filters=filters,
            not_features=not_features,
            event=event,
            entry=entry,
            permute_whole=permute_whole,
            permute_within=permute_within,
            sample_weight=sample_weight,
            **opening,
        )
        if source is None:
            n_samples = inputs.n_samples
            source = selector.open_data(inputs.data, n_samples=n_samples, **inputs.opening)
        counting = counting or counting_on(partial(running, selector.runtime))
        labelled = inputs.join(source, counting, compares_samples=compares_samples)
        rows = labelled.filtered.samples
        if rows is not None and labelled.y is not None and selector.label_kernel == "precomputed":
            labelled = replace(
                labelled, y=labelled.y[:, rows]
            )  # the rows and columns of a label matrix are samples
        check_coded(data, y=labelled.y, covariates=labelled.covariates)
        attributes = given_as(data, target, covariates, sample_weight)
        attributes |= {"labels": "; ".join(labelled.notes)} if labelled.notes else {}
        return cls.labelled(
            selector,
            data,
            labelled,
            feature_groups=feature_groups,
            attributes=attributes,
            **opening,
        )

    @classmethod
    def labelled(
        cls,
        selector: Method,
        data: Any,
        given: Labelled,
        *,
        feature_groups: Any = None,
        attributes: Mapping[str, Any] | None = None,
        job: Mapping[str, Any] | None = None,
        **opening: Any,
    ) -> Request:
        """Build a request from opened data with their labels."""
        source = given.source
        refuse_unsupported(selector, given, feature_groups)
        if given.sample_weight is not None:
            selector.check_weights()
            if given.blocks is not None:
                raise InputError(
                    f"{given.blocks.options} does not support sample_weight (CLI: --weights), "
                    "because labels of samples with different weights cannot be exchanged. Leave "
                    "one of the two out."
                )
        groups = None
        if feature_groups is not None:
            if not selector.takes_groups:
                raise InputError(
                    f"{type(selector).__name__} does not support feature_groups, because it scores "
                    "each feature separately. Leave them out, or use BAHSIC or FOHSIC."
                )
            check_order(source.feature_names(), feature_groups, "feature_groups", "X.columns")
            if isinstance(feature_groups, str):
                fill = opening.get("missing_chunks", "error")
                feature_groups = values_of_features(data, feature_groups, source, fill)
            elif len(feature_groups) == source.n_features + source.n_features_filtered:
                feature_groups = source.of_features(np.asarray(feature_groups))
            groups = Groups.of(np.asarray(feature_groups), source.n_features)
        if given.blocks is None and given.y is not None and takes_blocks(selector):
            warn_of_donors(data, given.y, given.rows)
        return cls(
            selector,
            data,
            source.n_samples,
            y=given.y,
            covariates=given.covariates,
            sample_weight=given.sample_weight,
            rows=given.rows,
            feature_groups=groups,
            filtered=given.filtered,
            attributes={
                **(attributes or {}),
                **event_counts(given.y),
                **_effective_samples(given.sample_weight),
                **({} if given.blocks is None else {"blocks": given.blocks.described}),
            },
            job=job or {},
            source=source,
            blocks=given.blocks,
            opening=opening | {"not_features": source.not_features},
        )

    @property
    def recorded_settings(self) -> dict[str, Any]:
        """Settings that the result records in addition to the method, by name."""
        own = self.selector.get_params(deep=False)
        of_stages = [name for stage in STAGES.values() for name in stage.parameters]
        defaults = type(self.selector)
        settings = {
            name: own[name]
            for name in of_stages
            if isinstance(own.get(name), str | int | float) and own[name] != getattr(defaults, name)
        }
        settings |= {"fdr": own["fdr"]} if "control" in settings else {}
        settings |= {"variable": self.opening["variable"]} if self.opening.get("variable") else {}
        return {"n_features_to_select": own["n_features_to_select"], **settings}

    def opened(self) -> AbstractSource:
        """Return the source of the data; open the data if necessary."""
        if self.source is not None:
            return self.source
        source = open_source(self.data, n_samples=self.n_samples, **self.opening)
        return self.filtered.features_of(source)

    def new_run(self, runtime: AbstractRuntime, announce: Announce | None = None) -> SelectionRun:
        """Build the run of this request on a runtime; open the data if necessary."""
        selector = self.selector
        if self.blocks is not None:
            selector = with_blocks(selector, self.blocks)
        source, table, groups = self.opened(), None, self.feature_groups
        if source.levels and selector.takes_groups:
            columns, source = source, IndicatorSource(source)
            if source.n_features > columns.n_features:  # otherwise each column is a number
                table, groups = columns, Groups.of_columns(source)
        run = SelectionRun(
            selector,
            source,
            self.y,
            runtime,
            covariates=self.covariates,
            sample_weight=self.sample_weight,
            rows=self.rows,
            groups=groups,
            table=table,
            blocks=self.blocks,
            feature_blocks=FeatureBlocks.of(source),
            job=self.job,
            announce=announce,
        )
        return before(run)

    def running(
        self, runtime: AbstractRuntime | None = None
    ) -> AbstractContextManager[AbstractRuntime]:
        """Context that yields `runtime`, or by default the runtime of the selector.

        A runtime that is created here is closed when the context ends.
        """
        chosen = self.selector.runtime if runtime is None else runtime
        return running(chosen, threads_of(self.selector.n_jobs))


def check_opening(function: str, given: Mapping[str, Any]) -> None:
    """Reject keyword arguments of a function that are not in `OPENING`.

    Raises
    ------
    InputError
        The argument is one of `NOT_THERE`. The message names the alternative.
    TypeError
        The argument is unknown, as in Python.
    """
    for name in given:
        if name in NOT_THERE:
            raise InputError(NOT_THERE[name])
        if name not in OPENING:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _effective_samples(weights: Array | None) -> dict[str, float]:
    """Result attribute with the effective number of weighted samples; empty without weights."""
    return {} if weights is None else {"n_effective_samples": effective_size(weights)}


def given_as(data: Any, target: Any, covariates: Any, sample_weight: Any = None) -> dict[str, str]:
    """Result attributes that name the data, labels, covariates and weights as the user passed them.

    Arrays without names are left out; data without a path are named by type and shape.
    """
    path = fspath(data) if isinstance(data, str | PathLike) else None
    path = without_secrets(path) if path is not None and "://" in path else path
    path = short_name(data) if is_several(data) else path
    shape = getattr(data, "shape", None)
    size = f" ({' x '.join(map(str, shape))})" if isinstance(shape, tuple) and shape else ""
    attributes = {"data": path or f"{type(data).__name__}{size}"}
    named = {"target": target, "covariates": covariates, "sample_weight": sample_weight}
    for name, given in named.items():
        if names := _names_of(given):
            attributes[name] = names
    return attributes


def _names_of(given: Any) -> str:
    """Joined names of labels or covariates: strings as passed, or names of columns of a frame."""
    several = given if isinstance(given, list | tuple) else getattr(given, "columns", ())
    names = [given if isinstance(given, str) else getattr(given, "name", None), *several]
    return abbreviate(name for name in names if isinstance(name, str))
