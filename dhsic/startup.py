"""Signal handling while the command `dhsic` loads its libraries.

While libraries load, a signal ends the process at once with a message of one line, because there is
no work to lose yet. Later signals raise exceptions in the command, see `dhsic.cli.console`. This
module is imported before all slow imports. It does nothing in other processes.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final

INTERRUPTED: Final = 130
TERMINATED: Final = 75
_KNOWN: Final = {
    signal.SIGINT: (INTERRUPTED, "interrupted", "Interrupted."),
    signal.SIGTERM: (TERMINATED, "terminated", "Terminated."),
}
_JSON: Final = '{{\n  "error": {{\n    "kind": "{}",\n    "message": "{}"\n  }}\n}}\n'


def is_command(argv: list[str], original: list[str]) -> bool:
    """Whether this process is the command `dhsic`, according to its arguments.

    >>> is_command(["/usr/bin/dhsic", "plan"], ["python", "/usr/bin/dhsic", "plan"])
    True
    >>> is_command(["-m", "plan"], ["python", "-m", "dhsic", "plan"])
    True
    >>> is_command(["-m", "dhsic"], ["python", "-m", "pytest", "dhsic"])
    False
    """
    if argv[:1] == ["-m"]:  # Python has not resolved the module yet
        return ("-m", "dhsic") in pairwise(original)
    return bool(argv) and PurePath(argv[0]).stem == "dhsic"


def end(number: int, _frame: Any) -> None:
    """Signal handler: print one line and end this process at once."""
    code, kind, message = _KNOWN[signal.Signals(number)]
    if "--json" in sys.argv:
        os.write(1, _JSON.format(kind, message).encode())
    os.write(2, f"{message}\n".encode())
    os._exit(code)


def listen() -> None:
    """Install the handler `end` for SIGINT and SIGTERM, unless these have other handlers."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


if is_command(getattr(sys, "argv", []), sys.orig_argv):
    listen()
