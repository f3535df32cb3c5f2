"""`dhsic select`: the selection, from the command line to the table of features."""

from __future__ import annotations

from typing import Any

import click

from dhsic.cli.exits import TYPED, Command
from dhsic.cli.job import Job
from dhsic.cli.options import detach_option, selection_options
from dhsic.cli.selecting import perform


@click.command(cls=Command)
@selection_options
@detach_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def select(ctx: click.Context, /, **options: Any) -> None:
    """Select the features of PATH on which the labels depend most.

    PATH is a Zarr store (a matrix, VCF Zarr or AnnData), a folder or a URL. The table of selected
    features goes to stdout, everything else to stderr.
    """
    perform(ctx, Job.of(options | {"typed": ctx.meta[TYPED]}))
