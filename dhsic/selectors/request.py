"""A selection as plain data: what estimators, `select`, `submit`, `plan` and commands all build.

They differ in how users say what they want. What is wanted is always the same: data, one row of
labels a sample of them, and a method with its parameters. Whoever holds that can open the data, do
the selection here or on any cluster, or foresee what it takes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Index
from dhsic.accelerator import wanted_device
from dhsic.algorithms.policies import how_many
from dhsic.errors import InputError
from dhsic.joins.frames import check_order
from dhsic.joins.labels import Labelled
from dhsic.joins.missing import check_coded
from dhsic.joins.variables import read_groups
from dhsic.memory import MemoryEstimate
from dhsic.results import to_dataset
from dhsic.runtime import choose_runtime
from dhsic.runtime.base import AbstractRuntime
from dhsic.selectors.groups import Groups
from dhsic.selectors.parameters import HALVES, seed_of
from dhsic.selectors.run import SelectionRun
from dhsic.selectors.stability import check_halves, with_stability
from dhsic.sources.base import AbstractSource
from dhsic.sources.opening import open_source
from dhsic.sources.options import MissingChunks
from dhsic.versions import scored_on

if TYPE_CHECKING:
    from dhsic.selectors.base import Selector

#: Hears a run and its memory promise before the work begins.
Announce = Callable[[SelectionRun, MemoryEstimate], object]


@dataclass(frozen=True, eq=False)
class Request:
    """What is to be selected, from what, and how.

    `Request.of` makes one of what users hand over, matching rows by the names of samples; who has
    matched them otherwise, as the command line does by its tables, makes it with the arrays.
    Then `run` does the selection and returns its result; `new_run` is the run that would be done,
    for its plan or its identity; `open` gives the data alone.

    Attributes
    ----------
    selector : Selector
        Method and parameters, with ``n_features_to_select``, ``stability``, ``checkpoint``,
        ``progress`` and ``memory``; its ``runtime`` counts where `run` is given none.
    data : path, URL, array, dataset or AbstractSource
        As of `dhsic.open_source`; a path or URL where the request is to be kept.
    n_samples : int, optional
        Samples of the data, those that do not take part included.
    variable, sample_dim, missing_code, missing_chunks, pass_only
        As of `dhsic.open_source`.
    y : (m,) or (m, t) array, optional
        Labels, one a sample that takes part; None where the data are their own.
    covariates : (m, q) array, optional
        As of `Selector.fit`.
    rows : (m,) int64, optional
        Samples of the data that take part; all by default.
    groups : Groups, optional
        Of the features.
    attributes : mapping
        More attributes of the result.
    job : mapping
        What the checkpoint keeps for a command to resume.
    device : str or None
        What features are scored on, as the environment of who asks says it.
    id : str
        Name of the run where it is left to a cluster.
    source : AbstractSource, optional
        The data where they are open already.
    """

    selector: Selector
    data: Any
    n_samples: int | None = None
    variable: str | None = None
    sample_dim: str | int | None = None
    missing_code: str | int | Sequence[int] | None = "auto"
    missing_chunks: MissingChunks = "error"
    pass_only: bool = False
    y: Array | None = None
    covariates: Array | None = None
    rows: Index | None = None
    groups: Groups | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = field(default_factory=wanted_device)
    id: str = field(default_factory=partial(secrets.token_hex, 6))
    source: AbstractSource | None = None

    @classmethod
    def of(
        cls,
        selector: Selector,
        data: Any,
        target: Any,
        *,
        covariates: Any = None,
        groups: Any = None,
        by_position: bool = False,
        opened_by: Callable[..., AbstractSource] = open_source,
        **opening: Any,
    ) -> Request:
        """Request of what users hand over; opens the data.

        Parameters
        ----------
        target, covariates, groups, by_position
            As `y` and the others of `Selector.fit`; None for no labels.
        opened_by : callable
            What opens the data; `opening` are its options, as of `dhsic.open_source`.

        Raises
        ------
        InputError
            See `Selector.fit`.
        """
        given = Labelled.of(
            data, target, covariates, by_position=by_position, opened_by=opened_by, **opening
        )
        check_coded(data, y=given.y, covariates=given.covariates)
        told = {"labels": "; ".join(given.notes)} if given.notes else {}
        return cls.labelled(selector, data, given, groups=groups, attributes=told, **opening)

    @classmethod
    def labelled(
        cls, selector: Selector, data: Any, given: Labelled, *, groups: Any = None, **options: Any
    ) -> Request:
        """Request of data that are open and have their labels.

        Parameters
        ----------
        groups : (d,) array or str, optional
            As of `Selector.fit`; `options` are as of the attributes.
        """
        if groups is not None:
            chunks = options.get("missing_chunks", "error")
            groups = _groups(groups, data, given.source, selector, chunks)
        return cls(
            selector,
            data,
            given.source.n_samples,
            y=given.y,
            covariates=given.covariates,
            rows=given.rows,
            groups=groups,
            source=given.source,
            **options,
        )

    def open(self) -> AbstractSource:
        """The data."""
        if self.source is not None:
            return self.source
        return open_source(
            self.data,
            variable=self.variable,
            sample_dim=self.sample_dim,
            n_samples=self.n_samples,
            missing_code=self.missing_code,
            missing_chunks=self.missing_chunks,
            pass_only=self.pass_only,
        )

    def new_run(self, runtime: AbstractRuntime, announce: Announce | None = None) -> SelectionRun:
        """The run on a runtime, ready to go."""
        asked = self.selector
        return asked.new_run(
            self.open(),
            self.y,
            runtime,
            covariates=self.covariates,
            rows=self.rows,
            groups=self.groups,
            checkpoint=asked.checkpoint,
            job=self.job,
            progress=asked.progress,
            memory=asked.memory,
            announce=announce,
        )

    def run(
        self, runtime: AbstractRuntime | None = None, *, announce: Announce | None = None
    ) -> xr.Dataset:
        """Result of the selection, done from the start or from where the checkpoint left off.

        Parameters
        ----------
        runtime : AbstractRuntime, optional
            Where tasks run; by default that of the selector, closed in the end if made here.
        announce : callable, optional
            Called with the run and its memory promise before the work begins.

        Returns
        -------
        xarray.Dataset
            See `dhsic.results`.
        """
        HALVES("stability", self.selector.stability)
        n_halves = int(self.selector.stability)
        with scored_on(self.device), self.running(runtime) as there:
            run = self.new_run(there, announce)
            count = how_many(self.selector.n_features_to_select, run.n_candidates)
            seed = seed_of(self.selector.random_state) if n_halves else 0
            check_halves(run, n_halves, seed)
            outcome = run.execute()
            if n_halves:
                outcome = with_stability(run, outcome, n_halves, count, seed)
            result = to_dataset(outcome, outcome.order.n_features(count))
        return result.assign_attrs(self.attributes)

    @contextmanager
    def running(self, runtime: AbstractRuntime | None = None) -> Iterator[AbstractRuntime]:
        """Yield a runtime: the one given, or that of the selector, closed if it is made here."""
        asked = self.selector.runtime if runtime is None else runtime
        if isinstance(asked, AbstractRuntime):
            yield asked
            return
        with closing(choose_runtime(asked)) as made:
            yield made


def _groups(
    given: Any, data: Any, source: AbstractSource, selector: Selector, chunks: MissingChunks
) -> Groups:
    """Groups by name, or as they are given."""
    if not selector.takes_groups:
        raise InputError(
            f"{type(selector).__name__} takes no groups: it judges features one by one. Leave "
            "them out, or use BAHSIC or FOHSIC."
        )
    check_order(source.feature_names(), given, "groups", "groups.loc[X.columns]")
    names = read_groups(data, given, source, chunks) if isinstance(given, str) else given
    return Groups.of(np.asarray(names), source.n_features)
