"""A request: all that a run is, as plain data and arrays, so that any process can do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import xarray as xr

from dhsic import kernels
from dhsic._typing import Array
from dhsic.accelerator import wanted_device
from dhsic.algorithms.policies import how_many
from dhsic.errors import CheckpointError, InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.progress import Hook
from dhsic.results import to_dataset
from dhsic.runtime.base import AbstractRuntime
from dhsic.selectors.base import Selector
from dhsic.selectors.groups import Groups
from dhsic.selectors.parameters import seed_of
from dhsic.selectors.run import AbstractRun
from dhsic.selectors.select import selector_of
from dhsic.selectors.stability import check_halves, check_stability, with_stability
from dhsic.sources.base import AbstractSource
from dhsic.sources.opening import open_source
from dhsic.sources.watched import MissingChunks
from dhsic.storage.base import plain
from dhsic.versions import scored_on

ARRAYS = ("y", "covariates", "rows", "groups")
#: Bytes of labels and the like that a request may carry.
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True, eq=False)
class Request:
    """What is to be selected, from what, and how.

    Attributes
    ----------
    id : str
        Name of the run on a cluster.
    path : str
        Path or URL of the data.
    n_samples : int
        Samples of the data, those that do not take part included.
    method, n_features, parameters
        As of `dhsic.select`; parameters are `plain_parameters`.
    variable, sample_dim : str, int or None
        As of `dhsic.select`.
    missing_code, missing_chunks, pass_only
        As of `dhsic.open_source`.
    device : str or None
        What features are scored on, as the environment of who sends it says.
    job, attributes : mapping
        What the checkpoint keeps for a command to resume, and more attributes of the result.
    y, covariates, rows, groups : array or None
        As of `dhsic.selectors.run.AbstractRun`; groups as one name a feature.
    """

    id: str
    path: str
    n_samples: int
    method: str
    n_features: int | float | None
    parameters: Mapping[str, Any]
    variable: str | None = None
    sample_dim: str | int | None = None
    missing_code: str | int | Sequence[int] | None = "auto"
    missing_chunks: MissingChunks = "error"
    pass_only: bool = False
    device: str | None = field(default_factory=wanted_device)
    job: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    y: Array | None = None
    covariates: Array | None = None
    rows: Array | None = None
    groups: Array | None = None

    def plain(self) -> dict[str, Any]:
        """All but the arrays, for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ARRAYS}

    def arrays(self) -> dict[str, Array]:
        """Arrays that there are.

        Raises
        ------
        InputError
            They are large, or hold what cannot be kept without pickling it.
        """
        given = {name: getattr(self, name) for name in ARRAYS}
        out = {name: _storable(name, a) for name, a in given.items() if a is not None}
        size = sum(array.nbytes for array in out.values())
        if size > MOST_BYTES:
            raise InputError(
                f"Labels, covariates and groups take {size / 2**20:.0f} MiB, and a run on the "
                f"cluster carries at most {MOST_BYTES / 2**20:.0f} MiB of them. Pass fewer "
                "columns, or call dhsic.select."
            )
        return out

    def open(self) -> AbstractSource:
        """The data."""
        return open_source(
            self.path,
            variable=self.variable,
            sample_dim=self.sample_dim,
            n_samples=self.n_samples,
            missing_code=self.missing_code,
            missing_chunks=self.missing_chunks,
            pass_only=self.pass_only,
        )

    def selector(self) -> Selector:
        """Selector of the method."""
        return selector_of(self.method, self.n_features, as_parameters(self.parameters))

    def new_run(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        *,
        checkpoint: str | None = None,
        progress: bool | Hook = False,
        memory: int | None = None,
    ) -> AbstractRun:
        """Run of this request; `memory` where the request says nothing of it."""
        selector = self.selector()
        asked = getattr(selector, "memory", None)
        return selector.new_run(
            source,
            self.y,
            runtime,
            covariates=self.covariates,
            rows=self.rows,
            groups=None if self.groups is None else Groups.of(self.groups, source.n_features),
            checkpoint=checkpoint,
            job=self.job,
            progress=progress,
            memory=memory if asked is None else asked,
        )

    def perform(self, runtime: AbstractRuntime, **options: Any) -> xr.Dataset:
        """Do it; `options` as of `new_run`."""
        with scored_on(self.device):
            return self._performed(runtime, **options)

    def _performed(self, runtime: AbstractRuntime, **options: Any) -> xr.Dataset:
        source, selector = self.open(), self.selector()
        run = self.new_run(source, runtime, **options)
        n_halves = check_stability(selector.stability)
        seed = seed_of(getattr(selector, "random_state", 0))
        check_halves(run, n_halves, seed)
        outcome = run.execute()
        n_candidates = source.n_features if run.groups is None else run.groups.n
        count = how_many(self.n_features, n_candidates)
        if n_halves:
            outcome = with_stability(run, outcome, n_halves, count, seed)
        result = to_dataset(outcome, outcome.order.n_features(count))
        return result.assign_attrs(self.attributes)


def _storable(name: str, values: Array) -> Array:
    """An array that is read without unpickling: numbers, or text."""
    array = np.asarray(values)
    if array.dtype.kind != "O":
        return array
    if all(isinstance(value, str) for value in array.flat):
        return array.astype(str)
    raise InputError(
        f"{name} hold objects of several types, and what a run keeps on disk is numbers or text. "
        "Pass an array of numbers or of text."
    )


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a method as plain data; `as_parameters` gives them back.

    Raises
    ------
    InputError
        One cannot be said in plain data, such as a kernel of your own.

    Examples
    --------
    >>> from dhsic.kernels import Polynomial
    >>> plain_parameters({"kernel": Polynomial(3), "step": 0.2})
    {'kernel': {'kernel': 'Polynomial', 'settings': {'degree': 3, 'offset': 1.0}}, 'step': 0.2}
    """
    out = {}
    for name, value in parameters.items():
        try:
            out[name] = plain(_plain(value))
        except TypeError as error:
            raise InputError(
                f"{name}={value!r} cannot be kept as plain data, which a run that outlives its "
                "caller needs. Pass names and numbers, or a kernel of dhsic.kernels."
            ) from error
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, AbstractKernel):
        name = type(value).__name__
        if getattr(kernels, name, None) is not type(value):
            raise TypeError(f"{value!r} is no kernel of ours")
        told: Any = value  # a data class, all of them
        settings = {f.name: _plain(getattr(told, f.name)) for f in fields(told) if f.init}
        return {"kernel": name, "settings": settings}
    return value.name if isinstance(value, np.dtype) else value


def as_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that `plain_parameters` made plain."""
    return {name: _as_given(value) for name, value in given.items()}


def _as_given(value: Any) -> Any:
    if not (isinstance(value, dict) and value.keys() == {"kernel", "settings"}):
        return value
    if value["kernel"] not in kernels.__all__:
        raise CheckpointError(
            f"A run was asked for with the kernel {value['kernel']!r}, which this dhsic does not "
            "know. Upgrade dhsic."
        )
    return getattr(kernels, value["kernel"])(**as_parameters(value["settings"]))
