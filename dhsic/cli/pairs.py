"""`dhsic pairs`: all pairs of features, looked at for products that tell of the labels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import xarray as xr

from dhsic.cli.console import counted, echo_json, heed_signals, paragraph, say, seconds, shown, tell
from dhsic.cli.job import NO_TARGET, SelectJob
from dhsic.cli.label_notes import censoring_note, describe
from dhsic.cli.labels import open_with_labels
from dhsic.cli.out import NAMED, OF_ALL, check_table, in_columns, write_table
from dhsic.cli.report import filters_told
from dhsic.errors import InputError
from dhsic.interactions import PairTest
from dhsic.interactions.anova import ChosenFeatures, shares_of
from dhsic.joins.labels import Labelled
from dhsic.linalg.covariates import covariate_basis
from dhsic.memory import human
from dhsic.pairs.share import Labels, label_columns
from dhsic.plans.time import Rates
from dhsic.reports.sentences import inflation_told
from dhsic.results.files import load
from dhsic.results.views import carried_over
from dhsic.simulation.truth import Truth, read_truth
from dhsic.storage.format import plain

#: Columns that are not printed.
UNSHOWN = ("share_before", "distance")
MISSING_BELOW = "below them better ones may be missing, which a larger -n tells"


def pairs(
    *,
    n_pairs: int,
    selection: str | None,
    alpha: float,
    n_permutations: int,
    functions: int,
    least: float,
    linked: float,
    seed: int,
    checkpoint: str | None,
    out: str | None,
    force: bool,
    is_planned: bool,
    are_shared: bool,
    **options: Any,
) -> None:
    """Scan all pairs and print the best; or share out HSIC of the features of a selection."""
    started = time.perf_counter()
    if not options["target"]:
        raise InputError(NO_TARGET)
    job = SelectJob.of(options).check()
    asked = n_pairs, alpha, n_permutations, least, linked, seed
    test = PairTest(*asked, checkpoint=checkpoint, memory=job.memory, functions=functions)
    test = replace(test, label_kernel=job.labels_as, with_effects=True).check()
    if out is not None:
        check_table(out, "pairs", force=force)
    if are_shared and selection is None:
        raise InputError("--shares are those of selected features; pass --selection as well.")
    chosen = None if selection is None else load(selection)
    planted = None if job.truth is None else read_truth(job.truth)
    given = _opened(job)
    if are_shared:
        found = shares_of(given, chosen, label_kernel=job.labels_as, memory=job.memory)
        about = "shares", found.isel(effects=slice(n_pairs)), [("shares", _parts(found))]
    else:
        heed = partial(heed_signals, click.get_current_context())
        with closing(job.runtime()) as runtime, runtime.heeding(heed):
            if is_planned:
                _plan(test, given, chosen, runtime.n_here, as_json=job.as_json)
                return
            main = ChosenFeatures.of(chosen, given.source)
            found = test.of(given, runtime, main.here, elsewhere=main.elsewhere)
        told = [*_told(found, time.perf_counter() - started, planted)]
        about = "pairs", found, [*told, *_effect_sentences(found, given.source.counted)]
    _show(found, *about, out, as_json=job.as_json)


def _opened(job: SelectJob) -> Labelled:
    """Data and labels, open; says what they are."""
    given = open_with_labels(job)
    size = f"{given.source.n_samples:,} samples x {given.source.n_features:,} features"
    say("data", f"{Path(job.path).name}: {size}, {np.dtype(given.source.dtype).name}")
    if given.filtered.left_out:
        say("filters", filters_told(given.filtered.left_out))
    say("labels", "; ".join([describe(given.y, job.labels_as, in_columns=True), *given.notes]))
    for note in censoring_note(job.target, given.y):
        say("note", note)
    return given


def _show(
    found: xr.Dataset,
    kind: str,
    some: xr.Dataset,
    told: list[tuple[str, str]],
    out: str | None,
    *,
    as_json: bool,
) -> None:
    """Write all that was found; print some of it, and on stderr what there is to tell."""
    # A table has no attributes: what a report needs of them stands in every row.
    constant = {name: found.attrs[name] for name in OF_ALL if name in found.attrs}
    table = found.to_dataframe().rename(columns=NAMED)
    if out is not None:
        write_table(table.assign(**constant), out)
    if as_json:
        echo_json({**plain(dict(found.attrs)), kind: table.to_dict("records")})
        return
    printed = some.drop_vars(UNSHOWN, errors="ignore").to_dataframe().rename(columns=NAMED)
    click.echo(in_columns(printed) if some["first"].size else "no pair")
    for name, sentence in told:
        say(name, sentence)
    if out is not None:
        tell(f"table in {shown(out)}")


def _plan(test: PairTest, given: Labelled, chosen: Any, n_tasks: int, *, as_json: bool) -> None:
    m = given.source.n_samples if given.rows is None else len(given.rows)
    y, C = given.y, given.covariates
    assert y is not None, "a target is asked for"
    main = ChosenFeatures.of(chosen, given.source)
    n_main = main.here.size + main.elsewhere.size
    t = Labels.of(label_columns(y, test.label_kernel), covariate_basis(None, m)).U.shape[1]
    columns = t, 1 + n_main + (0 if C is None else int(np.size(C[0])))
    told = test.forecast(given.source, m, columns, n_tasks, given.source.n_features)
    told.check(test.memory)
    rates = Rates.measured(given.source, m)
    times = {n: told.seconds(rates.float32, rates.values, n) for n in sorted({1, 10, 100, n_tasks})}
    if as_json:
        about = asdict(told) | {"peak_bytes": told.peak_bytes}
        echo_json(about | {"seconds": {str(n): took for n, took in times.items()}})
        return
    products = f"{told.flops:.2g} flops, and {told.permuted_flops:.2g} of permutations"
    click.echo(paragraph("pairs", f"{told.n_pairs:,} in {counted(told.n_tiles, 'tile')}"))
    click.echo(paragraph("products", products))
    click.echo(paragraph("memory", f"at most {human(told.peak_bytes)} on {n_tasks} threads"))
    said = ", ".join(f"{seconds(took)} on {n:,}" for n, took in times.items())
    click.echo(paragraph("time", f"{said} threads or workers as fast as this one, about"))


def _told(found: xr.Dataset, took: float, planted: Truth | None) -> Iterator[tuple[str, str]]:
    about = found.attrs
    told = f"{counted(about['n_pairs'], 'pair')} in {seconds(took)}"
    if "threshold" in about:
        n = about["n_significant"]
        least = "" if about["is_counted"] else "at least "
        told += (
            f"; {least}{n:,} of all are significant family-wise at {about['alpha']:g} (share "
            f"{about['threshold']:.4g} or more){carried_over(about)}"
        )
    yield "pairs", told
    if "inflation" in about:
        yield "inflation", inflation_told(about)
    if (sure := about["n_certain"]) < found["share"].size:
        yield "note", f"the first {sure:,} are the best there are; {MISSING_BELOW}"
    if about.get("n_lost"):
        tried = f"of {about['n_audited']:,} pairs that the screen was tried on it lost "
        advice = "take main effects out with --selection or --covariates"
        yield "note", f"{tried}{about['n_lost']:,}; {advice}"
    if planted is not None:
        yield "planted", _found(found, planted)


def _effect_sentences(found: xr.Dataset, counted_allele: str) -> Iterator[tuple[str, str]]:
    """Meaning of the coefficients, where the table has some."""
    if "beta" not in found or not found["beta"].size:
        return
    what = f"beta is the {found['beta'].attrs['description']}; se its standard error"
    yield "effects", what + (f"; a genotype counts {counted_allele}" if counted_allele else "")
    if n_lacking := int(found["beta"].isnull().sum()):
        pairs = counted(n_lacking, "pair")
        yield "note", f"the regression of {pairs} has no solution: beta is empty"


def _parts(found: xr.Dataset) -> str:
    about = found.attrs
    told = ", ".join(
        f"{name.replace('_', ' ')} {about[name]:.1%}"
        for name in ("main_effects", "pairs", "higher_order")
    )
    return f"{told} of HSIC {about['hsic']:.3g} ({about['kernel']} kernel, {about['estimator']})"


def _found(found: xr.Dataset, planted: Truth) -> str:
    """Which planted pairs are among those found."""
    names = dict(zip(planted.variant_index, planted.variant_id, strict=True))
    wanted = {
        tuple(sorted(pair))
        for pair in zip(planted.variant_index, planted.partner, strict=True)
        if pair[1] >= 0
    }
    firsts, partners = (found[name].to_numpy().tolist() for name in ("first", "second"))
    there = wanted & set(zip(firsts, partners, strict=True))
    told = ", ".join(f"{names[a]} with {names[b]}" for a, b in sorted(there))
    return f"{len(there)} of {counted(len(wanted), 'pair')}{': ' * bool(told)}{told}"
