"""Commands `dhsic select`, `resume`, `test` and `plan`, from options to the printed result.

`resume` continues a run; `test` is a selection by p-values; `plan` forecasts a run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import click
import numpy as np

from dhsic._typing import Array
from dhsic.cli.association import AssociationTables
from dhsic.cli.console import (
    BEGUN,
    CHECKPOINT,
    TYPED,
    counted,
    echo_json,
    heed_signals,
    masked,
    paragraph,
    printable,
    say,
    shown,
    tell,
)
from dhsic.cli.detached import detach, settle
from dhsic.cli.job import LISTS, SelectJob
from dhsic.cli.label_notes import notes_on, single_samples, small_classes
from dhsic.cli.labels import open_with_labels
from dhsic.cli.options import spelled
from dhsic.cli.out import absolute
from dhsic.cli.report import filters_told, show
from dhsic.cli.sites import Sites
from dhsic.errors import InputError
from dhsic.joins.genes import Genes
from dhsic.joins.labels import Labelled
from dhsic.joins.places import chromosome_codes
from dhsic.memory import MemoryEstimate, available_bytes, human, peak_bytes, resident_bytes
from dhsic.plans import PlannedRuntime, Sizes, plan_of
from dhsic.results.files import exists, load, save_by
from dhsic.results.nearest_genes import annotate, check_places
from dhsic.results.tables import table_suffix
from dhsic.results.views import of_tests
from dhsic.selection.multi_output import numbered, of_classes, result_of
from dhsic.selection.request import Request
from dhsic.selection.run import SelectionRun
from dhsic.simulation.truth import read_truth
from dhsic.sources.file_lists import short_name
from dhsic.sources.ids import abbreviate
from dhsic.sources.scaling import PRESENCE, Scale
from dhsic.sources.views import described
from dhsic.storage.checkpoint import Checkpoint

#: Advice for messages on how to change the scaling of features, by current scaling.
OTHERWISE: dict[Scale, str] = {
    True: "to keep their scale, use --no-standardize",
    False: "to scale them, use --standardize",
    PRESENCE: "--standardize scales all features, --no-standardize none",
}
#: Assumption about the file of genes, for messages.
SAME_BUILD = "their positions must be of the same genome build as the data"
#: Options of `select` for output; a plan ignores them.
OF_RESULTS = {
    "checkpoint": None,
    "out": None,
    "truth": None,
    "annotate": None,
    "force": False,
    "selected_only": False,
}


def select(**options: Any) -> None:
    """Run ``dhsic select``."""
    perform(SelectJob.of(options | {"typed": click.get_current_context().meta[TYPED]}))


def test(*, loco: bool, **options: Any) -> None:
    """Run ``dhsic test``: a selection by the p-value of the HSIC of each feature alone."""
    typed, settings = click.get_current_context().meta[TYPED], ("loco=True",) if loco else ()
    test_options = {"method": "hsic", "settings": settings, "typed": typed, "tests": True}
    perform(SelectJob.of(options | test_options))


def plan(
    *,
    n_workers: int | None,
    worker_memory: int | None,
    worker_threads: int | None,
    n_samples: int | None,
    n_variants: int | None,
    n_classes: int | None,
    **options: Any,
) -> None:
    """Print a forecast of a selection."""
    sizes = _supposed(options, n_samples, n_variants, n_classes)
    job = SelectJob.of(options | OF_RESULTS).check()
    if n_workers is not None and (job.scheduler or job.threads):
        raise InputError(
            "--workers plans for a cluster that need not exist; leave out --scheduler and "
            "--threads."
        )
    if n_workers is None and worker_threads is not None:
        raise InputError(
            "--worker-threads describes the workers of --workers; pass --workers N too. The "
            "workers of --scheduler report their own number of threads."
        )
    foreseen = PlannedRuntime(n_workers, worker_threads) if n_workers else None
    with closing(foreseen or job.runtime()) as runtime:
        labelled = sizes or _read(job.each[0])
        left_out = labelled.filtered.left_out
        first, *other_requests = _requests(job, [labelled]).values()
        forecast = plan_of(
            first,
            runtime,
            worker_memory=worker_memory,
            n_runs=max(len(job.each), 1 + len(other_requests)),
            asked_by="--per-target" if job.per_target else "--per-class",
        )
    labels = None if sizes else _labels_told(job, labelled.y)
    if job.as_json:
        echo_json(forecast.to_dict() | {"left_out": left_out, "labels": labels})
    else:
        if left_out:
            click.echo(paragraph("filters", filters_told(left_out)))
        if labels is not None:
            click.echo(paragraph("labels", labels))
        click.echo(printable(forecast, keep="\n"))


def _supposed(
    options: dict[str, Any], n_samples: int | None, n_variants: int | None, n_classes: int | None
) -> Labelled | None:
    """Create placeholder data for a plan, of the size passed by --samples and --variants.

    Return None if PATH is passed. `options` is changed to match the placeholder.
    """
    if options["path"] is not None:
        if (n_samples, n_variants, n_classes) != (None, None, None):
            raise InputError(
                "--samples, --variants and --classes plan without data. Leave out these options, "
                "or PATH."
            )
        return None
    if n_samples is None or n_variants is None:
        raise InputError(
            "Pass the data, PATH; or, to plan without data, --samples N and --variants D."
        )
    named = ("target", "labels", "covariates", "covariate", "permute_whole", "permute_within")
    for name in (*named, *LISTS, "groups"):
        if options.get(name):
            raise InputError(
                f"{spelled(name)} needs data, but --samples plans without data; pass only one of "
                "them."
            )
    options.update(path="sizes", target=("labels",))
    numbers = np.random.default_rng(0).standard_normal(n_samples)
    classes = None if n_classes is None else np.arange(n_samples) % n_classes
    y = numbers if classes is None else classes
    return Labelled(Sizes(n_samples, n_variants), y, None)


def perform(job: SelectJob) -> None:
    """Run a job and print its result."""
    started, ctx = time.perf_counter(), click.get_current_context()
    ctx.meta[CHECKPOINT] = job.checkpoint
    job.check()
    truth = None if job.truth is None else read_truth(job.truth)
    labelled = _opened(job)
    genes = _genes(job, labelled)
    beside = AssociationTables.of(job, labelled)
    _say_data(job, labelled)
    if genes is not None:
        n = counted(genes.starts.size, "gene")
        say("genes", f"{n} in {genes.source}; {SAME_BUILD}")
    if job.scheduler is not None and not job.as_json:
        say("cluster", f"connecting to {job.scheduler}")
    requests = _requests(job, labelled)
    if job.detach:
        detach(job, requests[""])
        return
    with closing(job.runtime()) as runtime:
        announce = partial(_announce, ctx, job)
        with runtime.polling_interrupt(partial(heed_signals, ctx)):
            result = result_of(requests, job.dim, runtime, announce=announce)
        result = of_tests(result) if job.tests else result
        result = result if genes is None else annotate(result, genes)
        result = beside.write(result, runtime)
        settle(job, result)
        if job.out is not None:
            only = {"selected_only": job.selected_only}
            save_by(runtime, result, job.out, overwrite=job.force, **only)
    took = {"seconds": time.perf_counter() - started, "peak_bytes": peak_bytes()}
    show(result, truth, job.out, as_json=job.as_json, first=_first(job), took=took)
    beside.tell()


def _genes(job: SelectJob, given: list[Labelled]) -> Genes | None:
    """Read the genes of --annotate; None without this option.

    Raise InputError if the data have no positions, or share no chromosome with the genes.
    """
    if job.annotate is None:
        return None
    source = given[0].source
    check_places(described(source))
    genes = Genes.read(job.annotate)
    placed = chromosome_codes(source)
    if placed is not None:
        genes.check(map(str, placed[1]))
    return genes


def _first(job: SelectJob) -> int | None:
    """Return the number of features that a test prints; None for a selection."""
    return int(job.n_features) if job.tests else None


def _opened(job: SelectJob) -> list[Labelled]:
    """Open the data once; return them with the labels of each run."""
    labelled = [_read(job.each[0])]
    return labelled + [open_with_labels(one, labelled[0]) for one in job.each[1:]]


def _requests(job: SelectJob, given: list[Labelled]) -> dict[str, Request]:
    """Build the request of each run, by name; each stores the whole job."""
    requests = {}
    pairs = zip(job.each, given, strict=False)  # a plan opens only the first
    for number, (one, labelled) in enumerate(pairs):
        request = replace(one.request(labelled, _provenance(one, labelled)), job=job.plain())
        name = one.target[0] if job.per_target else ""
        requests[name] = replace(request, selector=numbered(request.selector, "targets", number))
    return of_classes(requests[""]) if job.per_class else requests


def _announce(
    ctx: click.Context, job: SelectJob, run: SelectionRun, promise: MemoryEstimate
) -> None:
    """Print the settings of a run when it begins, and record in `ctx` that it has begun."""
    ctx.meta[BEGUN] = True
    scaling_note = (
        "as requested" if "standardize" in job.parameters else OTHERWISE[run.standardizes]
    )
    say("values", run.values_told() + ("" if job.tests else f" ({scaling_note})"))
    allowed = available_bytes() + resident_bytes() if job.memory is None else job.memory
    where = run.runtime.name
    where = f"{run.runtime.n_workers} threads" if where == "threads" else where
    say("run", f"{run.selector.described()}, on {where}{_checkpoint_note(job)}")
    say("memory", f"peak memory {promise}; limit {human(allowed)}")


def _read(job: SelectJob) -> Labelled:
    """Open the data of a job with labels; columns of text become categorical features."""
    return open_with_labels(job, categories=job.feature_categories)


def _say_data(job: SelectJob, every: list[Labelled]) -> None:
    source, filtered = every[0].source, every[0].filtered
    n_left = source.n_samples if filtered.samples is None else filtered.samples.size
    size = f"{n_left:,} samples x {source.n_features:,} features"
    not_features = (
        f"; not features: {abbreviate(source.not_features)}" if source.not_features else ""
    )
    say("data", f"{short_name(job.path)}: {size}, {np.dtype(source.dtype).name}{not_features}")
    if levels := [(j, of) for j, of in source.levels.items() if of]:
        called = source.feature_names()
        names = (f"{j if called is None else called[j]} ({len(of)})" for j, of in levels)
        say("columns", f"categories, without order (number of levels): {abbreviate(names, 8)}")
    if filtered.left_out:
        say("filters", filters_told(filtered.left_out))
    if source.counted:
        say("alleles", f"the dosage counts {source.counted}")
    each = ["each class against the rest"] if job.per_class else []
    for labelled in every:
        say("labels", "; ".join([_labels_told(job, labelled.y), *each, *labelled.notes]))
    sites = Sites.of(source, filtered.left_out)
    y = every[0].y
    small = small_classes(y) if job.per_class else single_samples(y, job.target)
    for note in (
        *sites.notes(),
        *(
            n
            for one, labelled in zip(job.each, every, strict=True)
            for n in notes_on(labelled.y, one.target)
        ),
        *small,
    ):
        say("note", note)
    sizes = [
        source.n_samples if labelled.rows is None else len(labelled.rows) for labelled in every
    ]
    if len({*sizes}) > 1:
        counts = ", ".join(f"{name} {m:,}" for name, m in zip(job.target, sizes, strict=True))
        say("note", f"targets have different samples: {counts} of {source.n_samples:,}")
    if not isinstance(job.n_features, str) and job.n_features > source.n_features:
        more = (
            f"--n-features {job.n_features:,} exceeds the number of features, {source.n_features:,}"
        )
        say("note", f"{more}; all are {'shown' if job.tests else 'selected'}")


def _labels_told(job: SelectJob, y: Array | None) -> str:
    """Describe labels, and the label kernel of the job."""
    return job.selector().label_description(in_python=False).of(y)


def _checkpoint_note(job: SelectJob) -> str:
    if job.checkpoint is None:
        return ""
    checkpoint = Checkpoint(job.checkpoint)
    if not checkpoint.is_begun():
        return f", checkpoint {shown(job.checkpoint)}"
    state = checkpoint.load()
    done = 0 if state is None else state.round
    return f", continues checkpoint {shown(job.checkpoint)} after {counted(done, 'round')}"


def _provenance(job: SelectJob, given: Labelled) -> dict[str, str | int]:
    """Return attributes for the result: the command, data and labels."""
    return {
        **({"command": job.typed} if job.typed else {}),
        "data": masked(job.data or short_name(job.path)),
        "target": ", ".join(job.target),
        "labels": "; ".join(given.notes),
        **given.left_out,
    }


def resume(*, checkpoint: str, **options: Any) -> None:
    """Run ``dhsic resume``; `options` replace the job's options on the machine and the output."""
    job = _with(SelectJob.kept_in(checkpoint), options)
    click.get_current_context().params["as_json"] = job.as_json
    if options["out"] is None and _is_written(job, checkpoint):
        _show_again(job)
        return
    if job.detach:
        for name, path in (("--out", job.out), ("--truth", job.truth)):
            if path is not None:
                sentence = f"after the run, pass {name} {shown(path)} to `dhsic attach`"
                say("note", sentence)
        job = replace(job, out=None, truth=None)
    perform(job)


def _with(job: SelectJob, options: Mapping[str, Any]) -> SelectJob:
    """Replace options of a job by those passed to this command."""
    overrides = {name: value for name, value in options.items() if value is not None}
    if "threads" in overrides:
        job = replace(job, scheduler=None)
    if "scheduler" in overrides:
        job = replace(job, threads=None)
    if "out" in overrides:  # the stored --force applied to another path
        overrides = {"force": False, **overrides, "out": absolute(overrides["out"])}
    return replace(job, **overrides)


def _show_again(job: SelectJob) -> None:
    """Print the result of a completed run again; compute its tables from the checkpoint."""
    out = job.out or ""
    if table_suffix(out):
        perform(replace(job, out=None, detach=False))
    else:
        truth = None if job.truth is None else read_truth(job.truth)
        show(load(out), truth, None, as_json=job.as_json, first=_first(job))
    tell(f"The run of {job.checkpoint} is complete; its result is in {out}.")


def _is_written(job: SelectJob, checkpoint: str) -> bool:
    if job.force or job.out is None or not exists(job.out):
        return False
    with Checkpoint(checkpoint) as kept:
        return kept.is_complete()
