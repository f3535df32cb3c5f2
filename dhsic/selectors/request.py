"""A selection as plain data: what estimators, `select`, `submit`, `plan` and commands all build.

They differ in how users say what they want. What is wanted is always the same: data, one row of
labels a sample of them, and a method with its parameters. Whoever holds that can open the data, do
the selection here or on any cluster, or foresee what it takes.

A request for stability also runs on halves of the samples and counts how often each selects a
feature (Meinshausen and Buhlmann: Stability selection. J. R. Statist. Soc. B 72, 2010). One that is
selected by what a few samples happen to say is not selected from most halves; one that the target
depends on is. Halves are drawn without replacement, class by class where labels are classes, and
each is a run of its own over the same blocks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Index
from dhsic.accelerator import scored_on, wanted_device
from dhsic.algorithms import how_many
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled, read_groups
from dhsic.joins.table import check_order
from dhsic.joins.text import check_coded
from dhsic.kernels.labels import CLASS_KERNELS, auto_kernel
from dhsic.memory import MemoryEstimate
from dhsic.results import Outcome, to_dataset
from dhsic.runtime import choose_runtime
from dhsic.runtime.base import AbstractRuntime
from dhsic.selectors.run import Groups, SelectionRun
from dhsic.sources import AbstractSource
from dhsic.sources.opening import open_source
from dhsic.sources.options import MissingChunks
from dhsic.sources.views import ChecksummedSource
from dhsic.validation import seed_of

if TYPE_CHECKING:
    from dhsic.selectors.base import Selector


def halves(y: Array | None, m: int, n: int, seed: int) -> list[Index]:
    """Positions of the samples of each of n random halves of m, ascending.

    Classes are halved one by one where y, (m,) or (m, t), is one target of them.
    """
    rng = np.random.default_rng(seed)
    strata = _strata(y, m)
    # Of an odd number one more or one less, by turns: a half of all, and none of no class.
    sizes = [max(1, (s.size + i % 2) // 2) for i, s in enumerate(strata, start=1)]
    return [
        np.sort(
            np.concatenate([rng.permutation(s)[:k] for s, k in zip(strata, sizes, strict=True)])
        )
        for _ in range(n)
    ]


def _strata(y: Array | None, m: int) -> list[Index]:
    everyone = np.arange(m)
    if y is not None and y.dtype.kind == "T":  # NumPy casts text of any width in part only
        y = y.astype(object)
    if y is None or y.ndim != 1 or auto_kernel(y) not in CLASS_KERNELS:
        return [everyone]
    _, codes = np.unique(y.astype(str), return_inverse=True)
    return [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]


def halved(run: SelectionRun, n: int, seed: int) -> Iterator[SelectionRun]:
    """The run on each of n halves of its samples; they keep checkpoints next to its own."""
    is_matrix, place = run.selector.label_kernel == "precomputed", run.selector.checkpoint
    for number, half in enumerate(halves(run.y, run.n_samples, n, seed)):
        kept = place and f"{place}.stability/{number:03d}"
        yield replace(
            run.asking(checkpoint=kept, progress=False),
            y=run.y if run.y is None else run.y[np.ix_(half, half) if is_matrix else half],
            covariates=None if run.covariates is None else run.covariates[half],
            rows=half if run.rows is None else run.rows[half],
            announce=None,
        )


def check_halves(run: SelectionRun, n: int, seed: int) -> None:
    """Refuse before the work what halves of the samples are too few for."""
    run.selector.labels(run)  # what is refused of all samples is not blamed on halves
    for part in halved(run, n, seed):
        try:
            part.selector.check_samples(part)
            part.selector.labels(part)
        except InputError as error:
            raise InputError(
                f"stability={n} selects from halves of the samples, {part.n_samples} of "
                f"{run.n_samples}, and there: {error}"
            ) from error


def with_stability(run: SelectionRun, outcome: Outcome, n: int, count: int, seed: int) -> Outcome:
    """The outcome of a run with a column ``stability``: part of n halves that select a feature.

    From halves `count` features (or groups) are selected, as from all samples.
    """
    chosen = np.zeros(run.source.n_features)
    # Halves of the data that the run itself has read, and as it took them.
    source = ChecksummedSource.over(outcome.source, outcome.scaling.checksum, run.rows)
    run = replace(run, source=source, values=outcome.values)
    for part in halved(run.asking(standardize=outcome.parameters["standardize"]), n, seed):
        found = part.execute()
        chosen[found.worst_first[::-1][: found.order.n_features(count)]] += 1.0
    meaning = f"part of {n} random halves of the samples from which the feature is selected"
    column = {"stability": (chosen / n, meaning)}
    return replace(outcome, order=replace(outcome.order, extra={**outcome.order.extra, **column}))


#: Hears a run and its memory promise before the work begins.
Announce = Callable[[SelectionRun, MemoryEstimate], object]


@dataclass(frozen=True, eq=False)
class Request:
    """What is to be selected, from what, and how.

    `Request.of` makes one of what users hand over, matching rows by the names of samples; who has
    matched them otherwise, as the command line does by its tables, makes it with the arrays.
    Then `run` does the selection and returns its result; `new_run` is the run that would be done,
    for its plan or its identity.
    """

    selector: Selector  # its runtime counts where `run` is given none
    data: Any  # as of `open_source`; a path or URL where the request is to be kept
    #: How data are opened, as of `open_source`; samples include those that do not take part.
    n_samples: int | None = None
    variable: str | None = None
    sample_dim: str | int | None = None
    missing_code: str | int | Sequence[int] | None = "auto"
    missing_chunks: MissingChunks = "error"
    pass_only: bool = False
    y: Array | None = None  # (m,) or (m, t), one row a sample that takes part
    covariates: Array | None = None  # (m, q)
    rows: Index | None = None  # (m,), which samples take part; None for all
    groups: Groups | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)  # more of the result
    job: Mapping[str, Any] = field(default_factory=dict)  # what a command resumes from
    #: What features are scored on, as the environment of who asks says it.
    device: str | None = field(default_factory=wanted_device)
    id: str = field(default_factory=partial(secrets.token_hex, 6))  # of a run left to a cluster
    source: AbstractSource | None = None  # the data, where they are open already

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
        """Request of what users hand over, as of `Selector.fit`; no `target` is no labels.

        `opened_by` opens the data; `opening` are its options, as of `dhsic.open_source`.
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
        """Request of data that are open and have their labels; `options` are other fields."""
        source = given.source
        if groups is not None:
            if not selector.takes_groups:
                raise InputError(
                    f"{type(selector).__name__} takes no groups: it judges features one by one. "
                    "Leave them out, or use BAHSIC or FOHSIC."
                )
            check_order(source.feature_names(), groups, "groups", "groups.loc[X.columns]")
            if isinstance(groups, str):
                groups = read_groups(data, groups, source, options.get("missing_chunks", "error"))
            groups = Groups.of(np.asarray(groups), source.n_features)
        return cls(
            selector,
            data,
            source.n_samples,
            y=given.y,
            covariates=given.covariates,
            rows=given.rows,
            groups=groups,
            source=source,
            **options,
        )

    def new_run(self, runtime: AbstractRuntime, announce: Announce | None = None) -> SelectionRun:
        """The run on a runtime, ready to go; opens the data where they are not."""
        source = self.source
        if source is None:
            source = open_source(
                self.data,
                variable=self.variable,
                sample_dim=self.sample_dim,
                n_samples=self.n_samples,
                missing_code=self.missing_code,
                missing_chunks=self.missing_chunks,
                pass_only=self.pass_only,
            )
        return SelectionRun(
            self.selector,
            source,
            self.y,
            runtime,
            covariates=self.covariates,
            rows=self.rows,
            groups=self.groups,
            job=self.job,
            announce=announce,
        )

    def run(
        self, runtime: AbstractRuntime | None = None, *, announce: Announce | None = None
    ) -> xr.Dataset:
        """Result of the selection, done from the start or from where the checkpoint left off.

        `runtime` is where tasks run, by default that of the selector; `announce` hears the run and
        its memory promise before the work begins.
        """
        asked = self.selector
        asked.check()
        n_halves, seed = int(asked.stability), seed_of(asked.random_state)
        with scored_on(self.device), self.running(runtime) as there:
            run = self.new_run(there, announce)
            count = how_many(asked.n_features_to_select, run.n_candidates)
            if n_halves:
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
