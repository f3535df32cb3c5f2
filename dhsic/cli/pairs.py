"""`dhsic pairs`: scan of all pairs of features for joint effects on the labels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import click
import numpy as np
import xarray as xr

from dhsic._typing import Index
from dhsic.cli.console import counted, echo_json, heed_signals, paragraph, say, seconds, shown, tell
from dhsic.cli.job import NO_TARGET, SelectJob
from dhsic.cli.labels import open_with_labels
from dhsic.cli.marginal import MarginalCommand, refuse_beside_marginal
from dhsic.cli.out import NAMED, OF_ALL, check_table, in_columns, write_table
from dhsic.cli.report import filters_told
from dhsic.errors import InputError
from dhsic.interactions import PairTest
from dhsic.interactions.anova import ChosenFeatures, shares_of
from dhsic.interactions.feature_sets import feature_sets
from dhsic.interactions.marginal import check_screen, planned_sets, screened
from dhsic.joins.label_description import LabelDescription
from dhsic.joins.labels import Labelled
from dhsic.linalg.covariates import covariate_basis
from dhsic.memory import human
from dhsic.pairs.share import Labels, label_columns
from dhsic.pairs.test import pairs_tested
from dhsic.plans.time import Rates
from dhsic.results.files import load
from dhsic.results.views import carried_over, inflation_sentence
from dhsic.simulation.truth import Truth, read_truth
from dhsic.sources.file_lists import short_name
from dhsic.storage.format import plain

#: Columns that are not printed.
UNSHOWN = ("share_before", "distance")
MISSING_BELOW = "further pairs may be missing from the list; a larger -n finds them"


def pairs(
    *,
    n_pairs: int,
    selection: str | None,
    first: str | None,
    second: str | None,
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
    is_marginal: bool,
    screen: int | None,
    **options: Any,
) -> None:
    """Run ``dhsic pairs``: print the best pairs, or the results of --marginal or --shares."""
    started = time.perf_counter()
    if not options["target"]:
        raise InputError(NO_TARGET)
    job = SelectJob.of(options).check()
    settings = n_pairs, alpha, n_permutations, least, linked, seed
    test = PairTest(*settings, checkpoint=checkpoint, memory_limit=job.memory, functions=functions)
    test = replace(test, label_kernel=job.labels_as, with_effects=True).check()
    check_screen(screen, functions)
    if is_marginal:
        others = {"--shares": are_shared, "--screen": screen, "--functions": functions > 1}
        refuse_beside_marginal(others | {"--with": options["environment"]})
    if are_shared:
        _check_shares(selection, first, second, screen, *options["environment"])
    if out is not None:
        check_table(out, "features" if is_marginal else "pairs", force=force)
    chosen = None if selection is None else load(selection)
    planted = None if job.truth is None else read_truth(job.truth)
    labelled = _opened(job)
    sets = feature_sets(first, second, labelled)
    if are_shared:
        result = shares_of(labelled, chosen, label_kernel=job.labels_as, memory_limit=job.memory)
        about = "shares", result.isel(effects=slice(n_pairs)), [("shares", _parts(result))]
        _show(result, *about, out, as_json=job.as_json)
        return
    heed = partial(heed_signals, click.get_current_context())
    with closing(job.runtime()) as runtime, runtime.polling_interrupt(heed):
        if is_marginal:
            command = MarginalCommand(test, labelled, chosen, runtime, sets, job.as_json)
            command.plan() if is_planned else command.run(n_pairs, out, started)
            return
        if is_planned:
            sets = planned_sets(screen, labelled, sets)
            _plan(test, labelled, chosen, runtime.n_here, sets, as_json=job.as_json)
            return
        main = ChosenFeatures.of(chosen, labelled.source)
        test, (among, partners) = screened(test, screen, labelled, runtime, main, sets)
        more: dict[str, Any] = {"second": partners, "elsewhere": main.elsewhere}
        result = test.of(labelled, runtime, main.here, among, **more)
    notes = [*_summary_lines(result, time.perf_counter() - started, planted)]
    notes += _effect_sentences(result, labelled.source.counted)
    _show(result, "pairs", result, notes, out, as_json=job.as_json)


def _check_shares(selection: str | None, *others: Any) -> None:
    """Reject --shares without selected features, and with options that limit a scan of pairs."""
    if selection is None:
        raise InputError("--shares needs selected features; pass --selection as well.")
    if any(others):
        raise InputError("--shares works without --with, --first, --second and --screen.")


def _opened(job: SelectJob) -> Labelled:
    """Open the data of a job with labels; print their sizes, filters and labels."""
    labelled = open_with_labels(job)
    size = f"{labelled.source.n_samples:,} samples x {labelled.source.n_features:,} features"
    say("data", f"{short_name(job.path)}: {size}, {np.dtype(labelled.source.dtype).name}")
    if labelled.filtered.left_out:
        say("filters", filters_told(labelled.filtered.left_out))
    description = LabelDescription(job.labels_as, in_columns=True)
    say("labels", "; ".join([description.of(labelled.y), *labelled.notes]))
    return labelled


def _show(
    found: xr.Dataset,
    kind: str,
    some: xr.Dataset,
    told: list[tuple[str, str]],
    out: str | None,
    *,
    as_json: bool,
) -> None:
    """Write all pairs (`found`) as a table to `out`; print some of them (`some`) and notes.

    `kind` is the key of the rows in JSON. The notes, `told`, are pairs of a label and a sentence.
    """
    # Tables have no attributes, so the attributes that a report needs are constant columns.
    constant = {name: found.attrs[name] for name in OF_ALL if name in found.attrs}
    table = found.to_dataframe().rename(columns=NAMED)
    if out is not None:
        write_table(table.assign(**constant), out)
    if as_json:
        echo_json({**plain(dict(found.attrs)), kind: table.to_dict("records")})
        return
    printed = some.drop_vars(UNSHOWN, errors="ignore").to_dataframe().rename(columns=NAMED)
    click.echo(in_columns(printed) if some["first"].size else "no pairs found")
    for name, sentence in told:
        say(name, sentence)
    if out is not None:
        tell(f"table in {shown(out)}")


def _plan(
    test: PairTest,
    given: Labelled,
    chosen: Any,
    n_tasks: int,
    sets: tuple[Index | None, Index | None],
    *,
    as_json: bool,
) -> None:
    m = given.source.n_samples if given.rows is None else len(given.rows)
    y, C = given.y, given.covariates
    assert y is not None, "a target is asked for"
    main = ChosenFeatures.of(chosen, given.source)
    n_main = main.here.size + main.elsewhere.size
    t = Labels.of(label_columns(y, test.label_kernel), covariate_basis(None, m)).U.shape[1]
    columns = t, 1 + n_main + (0 if C is None else int(np.size(C[0])))
    among, second = sets
    among = np.arange(given.source.n_features) if among is None else among
    pairs = pairs_tested(given, among, second)
    scan_forecast = test.forecast(given.source, m, columns, n_tasks, pairs)
    scan_forecast.check(test.memory_limit)
    rates = Rates.measured(given.source, m)
    times = {
        n: scan_forecast.seconds(rates.float32, rates.values, n)
        for n in sorted({1, 10, 100, n_tasks})
    }
    if as_json:
        about = asdict(scan_forecast) | {"peak_bytes": scan_forecast.peak_bytes}
        echo_json(about | {"seconds": {str(n): took for n, took in times.items()}})
        return
    products = (
        f"{scan_forecast.flops:.2g} flops, and {scan_forecast.permuted_flops:.2g} for permutations"
    )
    click.echo(
        paragraph("pairs", f"{scan_forecast.n_pairs:,} in {counted(scan_forecast.n_tiles, 'tile')}")
    )
    click.echo(paragraph("products", products))
    click.echo(
        paragraph("memory", f"at most {human(scan_forecast.peak_bytes)} on {n_tasks} threads")
    )
    durations = ", ".join(f"{seconds(took)} on {n:,}" for n, took in times.items())
    click.echo(paragraph("time", f"about {durations} threads or workers of this speed"))


def _summary_lines(
    found: xr.Dataset, took: float, planted: Truth | None
) -> Iterator[tuple[str, str]]:
    about = found.attrs
    sentence = f"{counted(about['n_pairs'], 'pair')} scanned in {seconds(took)}"
    if "threshold" in about:
        n = about["n_significant"]
        least = "" if about["is_counted"] else "at least "
        sentence += (
            f"; {least}{n:,} {'is' if n == 1 else 'are'} significant (family-wise level "
            f"{about['alpha']:g}: at least {about['threshold']:.4g} of the labels' variance "
            f"explained){carried_over(about)}"
        )
    yield "pairs", f"{sentence}."
    if n_all := about.get("n_pairs_screened"):
        sentence = (
            f"Only pairs of {counted(about['n_features_screened'], 'feature')} with the strongest "
            f"marginal interactions were scored, out of {n_all:,} pairs. The p-values are valid "
            "for a scan of all pairs."
        )
        yield "screen", sentence
    if "inflation" in about:
        yield "inflation", inflation_sentence(about)
    if (sure := about["n_certain"]) < found["share"].size:
        yield "note", f"The first {sure:,} are certainly the best; {MISSING_BELOW}."
    if about.get("n_lost"):
        audit = f"The screen missed {about['n_lost']:,} of {about['n_audited']:,} pairs in a check."
        advice = "Regress out main effects with --selection or --covariates."
        yield "note", f"{audit} {advice}"
    if planted is not None and "second" in found:
        yield "planted", _report_planted(found, planted)


def _effect_sentences(found: xr.Dataset, counted_allele: str) -> Iterator[tuple[str, str]]:
    """Yield a sentence on the meaning of the coefficients, if the table has coefficients."""
    if "beta" not in found or not found["beta"].size:
        return
    what = f"beta is the {found['beta'].attrs['description']}; se is its standard error."
    yield "effects", what + (f" Genotypes count {counted_allele}." if counted_allele else "")
    if n_lacking := int(found["beta"].isnull().sum()):
        pairs = counted(n_lacking, "pair")
        yield "note", f"The regression for {pairs} has no solution: beta is empty."


def _parts(found: xr.Dataset) -> str:
    about = found.attrs
    parts = ", ".join(
        f"{name.replace('_', ' ')} {about[name]:.1%}"
        for name in ("main_effects", "pairs", "higher_order")
    )
    return f"{parts} of HSIC {about['hsic']:.3g} ({about['kernel']} kernel, {about['estimator']})"


def _report_planted(found: xr.Dataset, planted: Truth) -> str:
    """Return a sentence on which causal pairs of a simulation are in the table."""
    names = dict(zip(planted.variant_index, planted.variant_id, strict=True))
    planted_pairs = {
        tuple(sorted(pair))
        for pair in zip(planted.variant_index, planted.partner, strict=True)
        if pair[1] >= 0
    }
    firsts, partners = (found[name].to_numpy().tolist() for name in ("first", "second"))
    there = planted_pairs & set(zip(firsts, partners, strict=True))
    listed = ", ".join(f"{names[a]} and {names[b]}" for a, b in sorted(there))
    n = counted(len(planted_pairs), "planted pair")
    return f"found {len(there)} of {n}{': ' * bool(listed)}{listed}"
