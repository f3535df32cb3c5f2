"""The command line: simulate, inspect, plan, select, resume; status, attach, cancel.

Every command prints its result on stdout and what it says meanwhile on stderr; with ``--json``
stdout is one JSON object and nothing else.
"""

from __future__ import annotations

import click

from dhsic.cli.console import listen
from dhsic.cli.detached import attach_command, cancel, status
from dhsic.cli.exits import EPILOG
from dhsic.cli.inspect import inspect
from dhsic.cli.plan import plan
from dhsic.cli.select import resume, select
from dhsic.cli.simulate import simulate
from dhsic.versions import VERSION


class _InOrder(click.Group):
    """A group that lists its commands in the order of work, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, prog_name="dhsic")
@click.option("-v", "--verbose", is_flag=True, help="Say more; show the traceback of an error.")
def main(*, verbose: bool) -> None:
    """Feature selection by kernel dependence (HSIC) over chunked Zarr."""
    listen(verbose=verbose)


for command in (simulate, inspect, plan, select, resume, status, attach_command, cancel):
    main.add_command(command)
