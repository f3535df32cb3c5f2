"""Execute requests: opened data become result Datasets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import xarray as xr

from dhsic.accelerator import scored_on
from dhsic.errors import prefix_errors
from dhsic.results.schema import FeatureMetadata, to_dataset
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.batch import outcomes_of
from dhsic.selection.cross_validation import Validation
from dhsic.selection.request import Announce, Request
from dhsic.selection.run import SelectionRun
from dhsic.selection.suspects import warn_of_suspects


def result_of(
    request: Request,
    runtime: AbstractRuntime | None = None,
    *,
    announce: Announce | None = None,
) -> xr.Dataset:
    """Execute one request, from the start or from its checkpoint, and return the result.

    Tasks are executed on `runtime`, by default the runtime of the selector. `announce` is called
    with the run and its memory estimate before the work begins.
    """
    (result,) = results_of([request], runtime, announce=announce)
    return result


def results_of(
    requests: Sequence[Request],
    runtime: AbstractRuntime | None = None,
    *,
    names: Sequence[str] = ("",),
    announce: Announce | None = None,
) -> list[xr.Dataset]:
    """Execute requests for the same data in one reading of the data, and return their results.

    `names` are the names of the runs in messages, if there are several. For other parameters see
    `result_of`.
    """
    first = requests[0]
    for request in requests:
        request.selector.check()
    with scored_on(first.device), first.running(runtime) as there:
        requests = [_sized(request, there) for request in requests]
        source, runs = requests[0].opened(), []
        for request in requests:
            callback = announce if request is requests[0] else None
            runs.append(replace(request, source=source).new_run(there, callback))
        runs = [replace(run, name=name) for run, name in zip(runs, names, strict=True)]
        for run in runs:
            if run.name:
                _check_labels(run)
        results, about = [], None
        for request, run, outcome in zip(requests, runs, outcomes_of(runs), strict=True):
            about = about or FeatureMetadata.of(outcome.source)
            result = to_dataset(outcome, outcome.n_selected(run.n_wanted), about)
            attributes = {
                **request.filtered.attributes(),
                "asked": json.dumps(request.recorded_settings, default=str),
            }
            attributes |= {**request.attributes, "labels": _labels_told(request)}
            results.append(result.assign_attrs(attributes))
        warn_of_suspects(first.data, source, runs, results)
        return results


def _labels_told(request: Request) -> str:
    """Describe the labels of a request for its result: kernel, and how rows were matched."""
    description = request.selector.label_description(in_python=not request.job)
    notes = request.attributes.get("labels")
    return "; ".join(filter(None, (description.of(request.y), notes)))


def _sized(request: Request, runtime: AbstractRuntime) -> Request:
    """Return the request with a known number of features.

    The number is chosen by cross-validation if this is requested.
    """
    validation = Validation.of(request.selector.n_features_to_select)
    if validation is None:
        return request
    run = request.new_run(runtime)
    scores = validation.scores(request, run, runtime, results_of)
    n = scores.chosen(validation.rule)
    columns = {name: values.tolist() for name, values in scores.results().items()}
    attributes = {"cv_results": json.dumps(columns), "cv_chosen": n}
    return replace(
        request,
        selector=copy(request.selector).set_params(n_features_to_select=n),
        source=run.passed_source,
        attributes={**request.attributes, **attributes},
    )


def _check_labels(run: SelectionRun) -> None:
    with prefix_errors(run.name):
        run.selector.check_samples(run)
        if run.y is None or len(run.y) == run.n_samples:  # otherwise a later check raises an error
            run.selector.labels(run)
