"""A selection as plain data: what estimators, `select`, `submit`, `plan` and commands all build.

They differ in how users say what they want. What is wanted is always the same: data, one row of
labels a sample of them, and a method with its parameters. Whoever holds that can open the data, do
the selection here or on any cluster, or foresee what it takes.
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
from dhsic.buckets import without_secrets
from dhsic.errors import InputError
from dhsic.joins.filtered import Filtered
from dhsic.joins.filters import AbstractCounting, Filters
from dhsic.joins.labels import Labelled
from dhsic.joins.table import check_order
from dhsic.joins.text import check_coded
from dhsic.joins.variables import values_of_features
from dhsic.memory import MemoryEstimate
from dhsic.passes.call_counts import counting_on
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.cores import threads_of
from dhsic.selection.holdout import without_held_out
from dhsic.selection.run import Groups, Method, SelectionRun
from dhsic.selection.shadows import with_shadows
from dhsic.sources import AbstractSource
from dhsic.sources.ids import some
from dhsic.sources.opening import open_source

#: Options of `open_source` that functions pass on besides those that their signatures name.
OPENING = ("missing_chunks", "ploidy_policy", "storage_options", "not_features")
#: What other packages have a parameter for, and this one not; and what is possible.
NOT_THERE: Mapping[str, str] = {
    "sample_weight": "sample_weight: samples have no weights, each counts once. Leave it out. "
    "Where two classes differ in size, label_kernel='balanced' of the selector gives both the same "
    "weight; filters=dhsic.Filters(keep=names) leaves samples out.",
}

#: Hears a run and its memory promise before the work begins.
Announce = Callable[[SelectionRun, MemoryEstimate], object]
#: Parameters that say how much is selected and how sure it is, which the attribute ``asked`` keeps
#: where they are not the default.
OF_RESULTS = ("stability", "stability_threshold", "clump_r2", "interactions", "control")


@dataclass(frozen=True, eq=False)
class Request:
    """What is to be selected, from what, and how.

    `Request.of` makes one of what users hand over, matching rows by the names of samples; who has
    matched them otherwise, as the command line does by its tables, makes it with the arrays.
    Then `dhsic.selection.execution.result_of` does the selection and returns its result; `new_run`
    is the run that would be done, for its plan or its identity.
    """

    selector: Method  # its runtime counts where `run` is given none
    data: Any  # as of `open_source`; a path or URL where the request is to be kept
    n_samples: int | None = None  # those that do not take part included
    opening: Mapping[str, Any] = field(default_factory=dict)  # other options of `open_source`
    y: Array | None = None  # (m,) or (m, t), one row a sample that takes part
    covariates: Array | None = None  # (m, q)
    rows: Index | None = None  # (m,), which samples take part; None for all
    feature_groups: Groups | None = None
    filtered: Filtered = field(default_factory=Filtered)  # what was left out before
    attributes: Mapping[str, Any] = field(default_factory=dict)  # more of the result
    job: Mapping[str, Any] = field(default_factory=dict)  # what a command resumes from
    #: What features are scored on, as the environment of who asks says it.
    device: str | None = field(default_factory=wanted_device)
    id: str = field(default_factory=partial(secrets.token_hex, 6))  # of a run left to a cluster
    source: AbstractSource | None = None  # the data, where they are open already

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
        opened_by: Callable[..., AbstractSource] = open_source,
        not_features: Collection[str] = (),
        **opening: Any,
    ) -> Request:
        """Request of what users hand over, as of `dhsic.BAHSIC.fit`; no `target` is no labels.

        `opened_by` opens the data; `opening` are its options, as of `dhsic.open_source`. What
        filters ask of values is counted by `counting`, on the runtime of the selector by default.
        `not_features` are columns of a frame or table besides the labels and covariates.
        """
        if not isinstance(filters, Filters | Filtered | None):
            raise InputError(f"filters={filters!r}; pass dhsic.Filters(keep=..., extract=..., ...)")
        given = Labelled.of(
            data,
            target,
            covariates,
            by_position=by_position,
            filters=filters,
            counting=counting or counting_on(partial(running, selector.runtime)),
            opened_by=opened_by,
            not_features=not_features,
            **opening,
        )
        left = given.filtered.samples
        if left is not None and given.y is not None and selector.label_kernel == "precomputed":
            given = replace(given, y=given.y[:, left])  # a matrix
        check_coded(data, y=given.y, covariates=given.covariates)
        told = given_as(data, target, covariates)
        told |= {"labels": "; ".join(given.notes)} if given.notes else {}
        return cls.labelled(
            selector, data, given, feature_groups=feature_groups, attributes=told, **opening
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
        """Request of data that were opened so and have their labels."""
        source = given.source
        groups = None
        if feature_groups is not None:
            if not selector.takes_groups:
                raise InputError(
                    f"{type(selector).__name__} takes no feature_groups: it judges features one by "
                    "one. Leave them out, or use BAHSIC or FOHSIC."
                )
            remedy = "feature_groups.loc[X.columns]"
            check_order(source.feature_names(), feature_groups, "feature_groups", remedy)
            if isinstance(feature_groups, str):
                fill = opening.get("missing_chunks", "error")
                feature_groups = values_of_features(data, feature_groups, source, fill)
            elif len(feature_groups) == source.n_features + source.n_features_filtered:
                feature_groups = source.of_features(np.asarray(feature_groups))
            groups = Groups.of(np.asarray(feature_groups), source.n_features)
        return cls(
            selector,
            data,
            source.n_samples,
            y=given.y,
            covariates=given.covariates,
            rows=given.rows,
            feature_groups=groups,
            filtered=given.filtered,
            attributes=attributes or {},
            job=job or {},
            source=source,
            opening=opening | {"not_features": source.not_features},
        )

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked for besides the method, for the result: matrix, how many."""
        own = self.selector.get_params(deep=False)
        said = {name: own[name] for name in OF_RESULTS if own.get(name)}
        if not self.asks_for_pairs:
            said.pop("interactions", None)
        said |= {"fdr": own["fdr"]} if "control" in said else {}
        said |= {"variable": self.opening["variable"]} if self.opening.get("variable") else {}
        return {"n_features_to_select": own["n_features_to_select"], **said}

    @property
    def asks_for_pairs(self) -> bool:
        """Whether a scan of pairs is asked for that is not the default of the method."""
        asked = self.selector.interactions
        return asked is not None and not (self.selector.scans_pairs and asked == "auto")

    def opened(self) -> AbstractSource:
        """The data, open."""
        if self.source is not None:
            return self.source
        source = open_source(self.data, n_samples=self.n_samples, **self.opening)
        return self.filtered.features_of(source)

    def new_run(self, runtime: AbstractRuntime, announce: Announce | None = None) -> SelectionRun:
        """The run on a runtime, ready to go; opens the data where they are not."""
        run = SelectionRun(
            self.selector,
            self.opened(),
            self.y,
            runtime,
            covariates=self.covariates,
            rows=self.rows,
            groups=self.feature_groups,
            job=self.job,
            announce=announce,
        )
        return with_shadows(without_held_out(run))

    def running(
        self, runtime: AbstractRuntime | None = None
    ) -> AbstractContextManager[AbstractRuntime]:
        """The runtime that is given, or that of the selector, closed if it is made here."""
        asked = self.selector.runtime if runtime is None else runtime
        return running(asked, threads_of(self.selector.n_jobs))


def check_opening(function: str, given: Mapping[str, Any]) -> None:
    """Refuse arguments of a function that are no options of `OPENING`.

    Raises
    ------
    InputError
        It is one of `NOT_THERE`, with what is possible.
    TypeError
        It is another one, as Python says it.
    """
    for name in given:
        if name in NOT_THERE:
            raise InputError(NOT_THERE[name])
        if name not in OPENING:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def given_as(data: Any, target: Any, covariates: Any) -> dict[str, str]:
    """What data, labels and covariates are called, for the attributes of a result."""
    path = fspath(data) if isinstance(data, str | PathLike) else None
    path = without_secrets(path) if path is not None and "://" in path else path
    shape = getattr(data, "shape", None)
    size = f" ({' x '.join(map(str, shape))})" if isinstance(shape, tuple) and shape else ""
    told = {"data": path or f"{type(data).__name__}{size}"}
    for name, given in (("target", target), ("covariates", covariates)):
        if called := _called(given):
            told[name] = called
    return told


def _called(given: Any) -> str:
    """Names of labels or covariates: what they were said by, or what a frame calls them."""
    several = given if isinstance(given, list | tuple) else getattr(given, "columns", ())
    names = [given if isinstance(given, str) else getattr(given, "name", None), *several]
    return some(name for name in names if isinstance(name, str))
