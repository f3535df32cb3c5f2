"""`dhsic pairs --marginal`: test whether a feature interacts with any other feature."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
import xarray as xr

from dhsic._typing import Index
from dhsic.cli.console import counted, echo_json, paragraph, say, seconds, shown, tell
from dhsic.cli.out import in_columns, write_table
from dhsic.errors import InputError
from dhsic.interactions.anova import ChosenFeatures
from dhsic.joins.labels import Labelled
from dhsic.pairs.marginal_test import MarginalInteractionTest
from dhsic.pairs.share import label_columns
from dhsic.pairs.test import PairTest
from dhsic.plans.time import Rates
from dhsic.runtime.base import AbstractRuntime
from dhsic.storage.format import plain


def refuse_beside_marginal(others: Mapping[str, Any]) -> None:
    """Reject options that do not apply to `--marginal`; `others` maps their names to values."""
    if names := [name for name, value in others.items() if value]:
        raise InputError(
            f"--marginal tests each feature by its products with all others, without "
            f"{' and '.join(names)}. Leave out --marginal, or the rest."
        )


@dataclass(frozen=True)
class MarginalCommand:
    """Command `dhsic pairs --marginal` on opened data.

    `pairs` has the parameters of the test, `selected` is the result of --selection, and `sets` are
    the features of --first and --second.
    """

    pairs: PairTest
    labelled: Labelled
    selected: Any
    runtime: AbstractRuntime
    sets: tuple[Index | None, Index | None]
    as_json: bool

    @property
    def test(self) -> MarginalInteractionTest:
        """Test of marginal interactions, with the parameters of `pairs`."""
        return MarginalInteractionTest.like(self.pairs)

    def run(self, n: int, out: str | None, started: float) -> None:
        """Test features, print the best n, and write all of them to `out`.

        `started` is the time at which the command began, by `time.perf_counter`.
        """
        main = ChosenFeatures.of(self.selected, self.labelled.source)
        result = self.test.of(
            self.labelled, self.runtime, main.here, *self.sets, elsewhere=main.elsewhere
        )
        table = result.to_dataframe()
        if out is not None:
            write_table(table, out)
        if self.as_json:
            echo_json({**plain(dict(result.attrs)), "features": table.to_dict("records")})
            return
        click.echo(in_columns(table.head(n)))
        for label, sentence in _sentences(result, time.perf_counter() - started):
            say(label, sentence)
        if out is not None:
            tell(f"table in {shown(out)}")

    def plan(self) -> None:
        """Print memory and time of the test; reject a test that does not fit into memory."""
        source, rows, y = self.labelled.source, self.labelled.rows, self.labelled.y
        assert y is not None, "a target is asked for"
        m, n_tasks = source.n_samples if rows is None else len(rows), self.runtime.n_here
        t = label_columns(y, self.test.label_kernel).shape[1]
        forecast = self.test.forecast(source, m, t, n_tasks, *self.sets)
        forecast.memory.check(self.test.memory_limit)
        rates = Rates.measured(source, m)
        times = {
            n: forecast.seconds(rates.float32, rates.values, n)
            for n in sorted({1, 10, 100, n_tasks})
        }
        if self.as_json:
            about = {"peak_bytes": forecast.memory.total, "flops": forecast.flops}
            echo_json({**about, "seconds": {str(n): took for n, took in times.items()}})
            return
        partners = f"{forecast.n_features:,}, each with {forecast.n_partners:,} partners"
        click.echo(paragraph("features", partners))
        click.echo(paragraph("products", f"{forecast.flops:.2g} flops"))
        click.echo(paragraph("memory", f"{forecast.memory}, on {n_tasks} threads"))
        durations = ", ".join(f"{seconds(took)} on {n:,}" for n, took in times.items())
        click.echo(paragraph("time", f"about {durations} threads or workers of this speed"))


def _sentences(result: xr.Dataset, took: float) -> Iterator[tuple[str, str]]:
    """Yield pairs of a label and a sentence about a result; the test took `took` seconds."""
    about = result.attrs
    n = int((result["q_value"] <= about["alpha"]).sum())
    sentence = (
        f"{counted(about['n_tested'], 'feature')} tested for interactions with "
        f"{about['n_partners']:,} in {seconds(took)}; {n:,} {'is' if n == 1 else 'are'} "
        f"significant (false discovery rate {about['alpha']:g})."
    )
    yield "marginal", sentence
    sentence = (
        f"To be found with a probability of 0.8 (family-wise level {about['alpha']:g}), the "
        f"interactions of a feature must explain about {about['detectable_share']:.2g} of the "
        "labels' remaining variance together."
    )
    yield "power", sentence
    if n_untested := about["n_untested"]:
        reasons = "carried by too few samples, or explained by covariates and main effects"
        yield "note", f"{counted(n_untested, 'feature')} could not be tested: {reasons}."
