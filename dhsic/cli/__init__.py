"""The command line: simulate, inspect, plan, select, resume; status, attach, cancel.

Every command prints its result on stdout and what it says meanwhile on stderr; with ``--json``
stdout is one JSON object and nothing else.
"""

from dhsic.cli.commands import main

__all__ = ["main"]
