"""What commands say, and how they end: results on stdout, what is for people beside on stderr.

Names in a store may hold anything: escapes that colour, move or retitle, line breaks that forge a
line of output, marks that turn the direction of reading. A terminal gets them written out; results
and JSON keep names as they are. Commands are repeated with stars for what may be secret.

An error ends a command as one sentence and an exit code.
"""

from __future__ import annotations

import gc
import json
import logging
import re
import shlex
import shutil
import signal
import sys
import textwrap
import threading
import traceback
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from dhsic import startup
from dhsic.cli.options import in_options, of_commands
from dhsic.errors import (
    CheckpointError,
    ClusterError,
    DataError,
    InputError,
    MemoryBudgetError,
    ScratchError,
    StoreError,
)
from dhsic.startup import INTERRUPTED, TERMINATED

#: Categories of Unicode that are not shown: control, format, line and paragraph breaks, halves of
#: pairs, and what has no meaning yet or only between friends.
UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Cn", "Co"})
#: Of these, what writing needs: joiners within words of Persian, Hindi and others.
JOINERS = "\u200c\u200d"


def printable(text: object, keep: str = "") -> str:
    r"""Text in which what a terminal would not show is written as an escape.

    Parameters
    ----------
    text : object
        Its `str` is taken.
    keep : str
        Characters that stay: a line break, in text of several lines.

    Examples
    --------
    >>> printable("rs1\x1b[31m, naïve")
    'rs1\\x1b[31m, naïve'
    """
    whole = str(text)
    if whole.isascii() and whole.isprintable():
        return whole

    def is_seen(c: str) -> bool:
        return c in keep or c in JOINERS or unicodedata.category(c) not in UNSEEN

    return "".join(c if is_seen(c) else c.encode("unicode_escape").decode() for c in whole)


LABEL_WIDTH = 10
#: Seconds after which it is said that a URL is not open yet.
SLOW = 5.0
logger = logging.getLogger("dhsic")


class _Echo(logging.Handler):
    """Log records as lines on whatever stderr is when they come, for people or as JSON."""

    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        level, message = record.levelname.lower(), record.getMessage()
        if not self.as_json:
            tell(f"{level.capitalize()}: {message}")
            return
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {"time": at, "level": level, "message": message, **getattr(record, "record", {})}
        text = json.dumps(told, default=lambda number: number.item())  # of NumPy
        strict = json.loads(text, parse_constant=lambda _: None)  # no NaN
        click.echo(json.dumps(strict), err=True)


#: The one that the command line listens with.
_ECHO = _Echo()


def listen(*, verbose: bool, as_json: bool) -> None:
    """Show what dhsic logs: warnings, with `verbose` everything; with `as_json` all that is said.

    Then stderr has a JSON object a line: ``time``, ``level``, ``message``, and of a round its
    record (``round``, ``n_features``, ``hsic``, ``seconds``, ...).
    """
    _ECHO.as_json = as_json
    logger.addHandler(_ECHO)
    logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.INFO if as_json else logging.WARNING)


def tell(text: object) -> None:
    """A line on stderr."""
    if _ECHO.as_json:
        logger.info("%s", text)
    else:
        click.echo(printable(text), err=True)


@contextmanager
def waiting(path: str) -> Iterator[None]:
    """Say so where a URL takes long to open: an object store that is gone is asked for a while."""
    told = "is not open yet. An object store that does not answer is asked for up to 90 s."
    timer = threading.Timer(SLOW, tell, [f"{masked(path)} {told}"])
    if "://" in path:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def say(label: str, text: str) -> None:
    """One fact on stderr, a label and a paragraph beside it."""
    if _ECHO.as_json:
        logger.info("%s", text, extra={"record": {"about": label}})
    else:
        click.echo(paragraph(label, text), err=True)


def paragraph(label: str, text: str) -> str:
    """`text`, whatever it holds, wrapped to the terminal beside `label`."""
    text = printable(text)
    indent = " " * LABEL_WIDTH
    whole = re.sub(r"(\d) ([kMGT]?B)\b", "\\1\u00a0\\2", text)  # a number stays with its unit
    wrapped = textwrap.fill(
        whole,
        width=max(60, min(shutil.get_terminal_size((100, 24)).columns, 120)),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    wrapped = wrapped.replace("\u00a0", " ")
    return click.style(f"{label:<{LABEL_WIDTH}}", bold=True) + wrapped[LABEL_WIDTH:]


def shown(path: str) -> str:
    """A path as short as can be: from the folder we are in, where it lies there."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def counted(n: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "pair"), counted(2000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def seconds(value: float) -> str:
    """Time for people.

    >>> seconds(3.21), seconds(250)
    ('3.2 s', '4 min 10 s')
    """
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


# Secrets -----------------------------------------------------------------------------------

MASK = "***"
SECRET = r"secret|token|passw|signature|credential|sas|(?:access|account|api)[-_]?key"
#: Options of which the next word is nobody's business.
OPTION = re.compile(rf"--[\w-]*(?:key|{SECRET})[\w-]*", re.IGNORECASE)
#: Settings whose value is secret by their names, as NAME=VALUE or in JSON.
SETTING = re.compile(
    rf"""((?:--[\w-]*key|(?:{SECRET})[\w-]*)["']?\s*[=:]\s*["']?)[^\s"',;&}}]+""", re.IGNORECASE
)
#: What a URL has before an ``@``, and after a ``?``.
WHO = re.compile(r"(\w+)://(\S*)@")
QUERY = re.compile(r"(://[^?]*\?).*", re.DOTALL)


def masked(word: str) -> str:
    """A word of a command, with stars for what may be secret.

    >>> masked("s3://me:pw@b/x"), masked("https://a.b/x.zarr?sig=x"), masked("secret=x")
    ('s3://***@b/x', 'https://a.b/x.zarr?***', 'secret=***')
    >>> masked("abfs://container@account/x"), masked("s3://b/x@2")
    ('abfs://container@account/x', 's3://b/x@2')
    """
    word = QUERY.sub(rf"\1{MASK}", WHO.sub(_masked_who, word))
    return SETTING.sub(rf"\1{MASK}", word)


def _masked_who(match: re.Match[str]) -> str:
    """Who it is that a URL names; a password may hold any sign, also an ``@``."""
    scheme, who = match.groups()
    is_plain = ":" not in who and ("/" in who or scheme in ("abfs", "abfss"))
    return match[0] if is_plain else f"{scheme}://{MASK}@"


def masked_command(words: Iterable[str]) -> str:
    """A command as a line for a shell.

    >>> masked_command(["dhsic", "select", "a b.zarr", "--tls-key", "me.pem", "-n", "5"])
    "dhsic select 'a b.zarr' --tls-key '***' -n 5"
    """
    out: list[str] = []
    is_secret = False
    for word in words:
        out.append(MASK if is_secret else masked(word))
        is_secret = OPTION.fullmatch(word) is not None
    return shlex.join(out)


# How commands end ----------------------------------------------------------------------------


class Terminated(KeyboardInterrupt):
    """SIGTERM reached the command: its pod moves, its job's time is up, somebody stops it."""


#: What the caller can mend, by exit code; anything else is 1, Ctrl-C is 130.
CODES: dict[type[BaseException], tuple[int, str]] = {
    InputError: (2, "input"),
    DataError: (3, "data"),
    CheckpointError: (4, "checkpoint"),
    MemoryError: (5, "memory"),  # MemoryBudgetError is one
    ClusterError: (6, "cluster"),
    StoreError: (1, "store"),
    ScratchError: (1, "scratch"),
    Terminated: (TERMINATED, "terminated"),
    KeyboardInterrupt: (INTERRUPTED, "interrupted"),
}

EPILOG = """\b
Exit codes:
    0  done
    1  unexpected error (a bug, a full disk, scratch that was cleaned away,
       an object store that does not answer): see it with dhsic -v
    2  wrong usage or input; the message says what to change
    3  the data are damaged or outside their domain
    4  the checkpoint belongs to another run, or is damaged
    5  more memory needed than there is or --memory allows
    6  the cluster cannot run the job
   75  ended by SIGTERM; a checkpoint stays valid, the same command goes on
  130  interrupted (Ctrl-C); a checkpoint stays valid
"""

#: Codes of those that somebody stopped, for whom nothing went wrong.
STOPPED = (TERMINATED, INTERRUPTED)
#: Where a command leaves the path of its checkpoint, for the message of an interruption.
CHECKPOINT = "dhsic.storage.checkpoint"
#: Where a command keeps how it was typed, without secrets.
TYPED = "dhsic.typed"
#: Where a command notes that its work has begun, so that there is something to lose.
BEGUN = "dhsic.begun"
#: Where it notes what a signal raised.
SIGNALLED = "dhsic.signalled"
#: Options that people give twice to have both, where the last one would be all there is.
ONCE = ("--labels", "--keep", "--remove", "--extract", "--exclude", "--keep-if",
        "--extract-if", "--chr")  # fmt: skip


class Command(click.Command):
    """A command whose errors become a sentence and an exit code.

    Parameters
    ----------
    does : str
        ``module.function`` of `dhsic.cli` that does the work. It takes seconds to load, meanwhile
        nothing is at stake, and a signal ends the command on the spot, see `dhsic.startup`.
    """

    def __init__(self, *args: Any, does: str = "", **about: Any) -> None:
        super().__init__(*args, **about)
        self.does = does

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        ctx.meta[TYPED] = masked_command([*ctx.command_path.split(), *given])
        try:
            _refuse_twice(given)
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            told = of_commands(error, ctx) if isinstance(error, click.NoSuchOption) else error
            if "--json" in given:
                echo_json({"error": {"kind": "usage", "message": told.format_message()}})
            raise told from error.__cause__

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                others = "Output" if "Output" in sections else "Options"  # such as --help
                sections.setdefault(getattr(option, "section", others), []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        if self.does:
            module, _, function = self.does.partition(".")
            self.callback = getattr(_loaded(f"dhsic.cli.{module}"), function)
        try:
            with _warnings_as_sentences(ctx), _signals_as_errors(ctx):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(_tell(ctx, error))


def _loaded(module: str) -> ModuleType:
    """A module; nothing is collected meanwhile, for loading leaves no garbage: a sixth faster."""
    if module in sys.modules:
        return sys.modules[module]
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _refuse_twice(args: list[str]) -> None:
    """Refuse a table or a list that another of its kind would silently replace."""
    names = [arg.partition("=")[0] for arg in args]
    for name in ONCE:
        if names.count(name) > 1:
            raise click.UsageError(
                f"{name} is there {names.count(name)} times, and the last would be all that "
                "counts. Put what it names into one, such as one table with all the columns."
            )


@contextmanager
def _warnings_as_sentences(ctx: click.Context) -> Iterator[None]:
    """Show what users should know without the line of code that it comes from."""

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            told = in_options(str(message), ctx)
            if _ECHO.as_json:
                logger.warning("%s", told)
                return
            shown = f"{click.style('Warning:', fg='yellow')} {printable(told)}"
            click.echo(shown, err=True)
        else:
            usual(message, category, *where, **more)

    with warnings.catch_warnings():
        usual, warnings.showwarning = warnings.showwarning, show
        yield


@contextmanager
def _signals_as_errors(ctx: click.Context) -> Iterator[None]:
    """Have Ctrl-C and the first SIGTERM end the command tidily; the second ends it at once."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, startup.end):
        yield
        return

    def end(number: int, _frame: Any) -> None:
        if number == signal.SIGTERM:
            signal.signal(number, signal.SIG_DFL)
        ctx.meta[SIGNALLED] = Terminated if number == signal.SIGTERM else KeyboardInterrupt
        raise ctx.meta[SIGNALLED]

    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGINT) in (startup.end, signal.default_int_handler):
        signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is end:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def heed_signals(ctx: click.Context) -> None:
    """End a command that a signal has not ended: what it raised in a callback went nowhere."""
    if SIGNALLED in ctx.meta:
        raise ctx.meta[SIGNALLED]


def _tell(ctx: click.Context, error: BaseException) -> int:
    """Print what went wrong; return the exit code."""
    code, kind = next(
        (known for type_, known in CODES.items() if isinstance(error, type_)), (1, "unexpected")
    )
    if ctx.find_root().params.get("verbose") and not _ECHO.as_json:
        # No line of it is ours.
        trace = textwrap.indent("".join(traceback.format_exception(error)), "  ")
        click.echo(printable(trace, keep="\n"), err=True, nl=False)
    message = _message(ctx, error, code)
    if code in (1, 3, 6, *STOPPED):
        message = f"{message} {_hint(ctx)}".strip()
    if ctx.params.get("as_json"):
        echo_json({"error": {"kind": kind, "message": message}})
    if _ECHO.as_json:
        logger.error("%s", message, extra={"record": {"error": kind, "exit_code": code}})
        return code
    told = printable(message)
    click.echo(told if code in STOPPED else f"{click.style('Error:', fg='red')} {told}", err=True)
    return code


def _message(ctx: click.Context, error: BaseException, code: int) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "Terminated." if isinstance(error, Terminated) else "Interrupted."
    told = isinstance(error, StoreError | ScratchError | MemoryBudgetError)
    if not told and (code == 1 or isinstance(error, MemoryError)):
        return f"{type(error).__name__}: {error}".rstrip(": .") + "."
    return in_options(str(error), ctx)


def _hint(ctx: click.Context) -> str:
    """How to go on after a run that did not end."""
    from dhsic.storage.paths import is_url

    path = ctx.meta.get(CHECKPOINT)
    if path is not None and is_url(path):  # which is not asked: it may be what does not answer
        if BEGUN not in ctx.meta and ctx.info_name != "resume":
            return ""
        return f"What is kept is valid; go on with: dhsic resume {shlex.quote(path)}"
    if path is not None and (Path(path) / "zarr.json").exists():
        return f"The checkpoint is valid; go on with: dhsic resume {shlex.quote(shown(path))}"
    if ctx.info_name == "select" and BEGUN in ctx.meta:
        return "Nothing was kept; with --checkpoint PATH a run can be resumed."
    return ""


def echo_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))
