"""`dhsic pairs --marginal`: features that act together with any of the others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click
import numpy as np
import xarray as xr

from dhsic._typing import Index
from dhsic.cli.console import counted, echo_json, paragraph, say, seconds, shown, tell
from dhsic.cli.out import in_columns, write_table
from dhsic.interactions.anova import ChosenFeatures
from dhsic.joins.labels import Labelled
from dhsic.pairs.marginal_test import MarginalTest
from dhsic.pairs.share import label_columns
from dhsic.plans.time import Rates
from dhsic.runtime.base import AbstractRuntime
from dhsic.storage.format import plain


def show_marginal(
    test: MarginalTest,
    labelled: Labelled,
    selected: Any,
    runtime: AbstractRuntime,
    sets: tuple[Index | None, Index | None],
    started: float,
    *,
    n: int,
    out: str | None,
    plans: bool,
    as_json: bool,
) -> None:
    """Test features, print the best n, and write all of them to `out`; or print the plan."""
    if plans:
        _plan(test, labelled, sets, runtime.n_here, as_json=as_json)
        return
    main = ChosenFeatures.of(selected, labelled.source)
    result = test.of(labelled, runtime, main.here, *sets, elsewhere=main.elsewhere)
    table = result.to_dataframe()
    if out is not None:
        write_table(table, out)
    if as_json:
        echo_json({**plain(dict(result.attrs)), "features": table.to_dict("records")})
        return
    click.echo(in_columns(table.head(n)))
    for label, sentence in _sentences(result, time.perf_counter() - started):
        say(label, sentence)
    if out is not None:
        tell(f"table in {shown(out)}")


def _sentences(result: xr.Dataset, took: float) -> Iterator[tuple[str, str]]:
    """Yield (label, sentence) about the result of a test that took so many seconds."""
    about = result.attrs
    n = int((result["q_value"] <= about["alpha"]).sum())
    yield (
        "marginal",
        f"{counted(about['n_tested'], 'feature')} tested for interactions with "
        f"{about['n_partners']:,} in {seconds(took)}; {n:,} {'is' if n == 1 else 'are'} "
        f"significant (false discovery rate {about['alpha']:g}).",
    )
    yield (
        "power",
        f"The interactions of a feature must explain {about['detectable_share']:.2g} of the labels' "
        "remaining variance together to be found with a probability of 0.8 (family-wise level "
        f"{about['alpha']:g}).",
    )
    untested = about["n_features"] - about["n_constant"] - about["n_tested"]
    if untested > 0 and about["n_tested"] < about["n_features"]:
        yield (
            "note",
            f"{counted(untested, 'feature')} not tested: carried by too few samples, explained by "
            "covariates and main effects, or not in --first.",
        )


def _plan(
    test: MarginalTest,
    labelled: Labelled,
    sets: tuple[Index | None, Index | None],
    n_tasks: int,
    *,
    as_json: bool,
) -> None:
    """Print memory and time of a test; reject it if it does not fit."""
    m = labelled.source.n_samples if labelled.rows is None else len(labelled.rows)
    assert labelled.y is not None, "a target is asked for"
    t = label_columns(labelled.y, test.label_kernel).shape[1]
    forecast = test.forecast(labelled.source, m, t, n_tasks, *sets)
    forecast.memory.check(test.memory_limit)
    rates = Rates.measured(labelled.source, m)
    times = {
        n: forecast.seconds(rates.float32, rates.values, n) for n in sorted({1, 10, 100, n_tasks})
    }
    if as_json:
        peak = {"peak_bytes": forecast.memory.total, "flops": forecast.flops}
        echo_json({**peak, "seconds": {str(n): float(np.float64(s)) for n, s in times.items()}})
        return
    pairs = f"{forecast.n_features:,}, each with {forecast.n_partners:,} partners"
    click.echo(paragraph("features", pairs))
    click.echo(paragraph("products", f"{forecast.flops:.2g} flops"))
    click.echo(paragraph("memory", f"{forecast.memory} on {n_tasks} threads"))
    durations = ", ".join(f"{seconds(took)} on {n:,}" for n, took in times.items())
    click.echo(paragraph("time", f"about {durations} threads or workers of this speed"))
