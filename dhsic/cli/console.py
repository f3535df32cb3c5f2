"""Output and exit codes of commands: results go to stdout, messages to stderr.

Names in a store may contain escape sequences that control the terminal, line breaks that forge a
line of output, and characters that change the direction of text. In messages these are replaced by
visible escapes; results and JSON contain the names unchanged. Commands are printed with secrets
masked by stars. An error ends a command with a message and an exit code.
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
from dhsic.cli.options import COMMON, FEW_OPTIONS, FORMER_OPTIONS, in_options, of_commands
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

#: Unicode categories that are replaced by escapes: control, format, line and paragraph breaks,
#: surrogates, unassigned and private-use characters.
UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Cn", "Co"})
#: Exceptions: joiners, which Persian, Hindi and other languages need.
JOINERS = "\u200c\u200d"


def printable(text: object, keep: str = "") -> str:
    r"""Replace characters that are unsafe to print on a terminal by escapes.

    Parameters
    ----------
    text : object
        Object whose `str` is shown.
    keep : str
        Characters to keep, such as line breaks.

    Examples
    --------
    >>> printable("rs1\x1b[31m, naïve")
    'rs1\\x1b[31m, naïve'
    """
    string = str(text)
    if string.isascii() and string.isprintable():
        return string

    def is_seen(c: str) -> bool:
        return c in keep or c in JOINERS or unicodedata.category(c) not in UNSEEN

    return "".join(c if is_seen(c) else c.encode("unicode_escape").decode() for c in string)


LABEL_WIDTH = 10
#: Seconds after which a message says that a URL is still being opened.
SLOW = 5.0
logger = logging.getLogger("dhsic")


class _Echo(logging.Handler):
    """Log handler that writes lines to the current stderr, as text or JSON."""

    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        level, message = record.levelname.lower(), record.getMessage()
        if not self.as_json:
            tell(f"{level.capitalize()}: {message}")
            return
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        record_fields = {
            "time": at,
            "level": level,
            "message": message,
            **getattr(record, "record", {}),
        }
        text = json.dumps(record_fields, default=lambda number: number.item())  # NumPy scalars
        strict = json.loads(text, parse_constant=lambda _: None)  # JSON has no NaN
        click.echo(json.dumps(strict), err=True)


#: Log handler of the command line.
_ECHO = _Echo()


def listen(*, verbose: bool, as_json: bool) -> None:
    """Show the log of dhsic on stderr: warnings, or all messages with `verbose`.

    With `as_json`, all messages are JSON objects, one per line, with ``time``, ``level`` and
    ``message``, and for a round its record (``round``, ``n_features``, ``hsic``, ``seconds``, ...).
    """
    _ECHO.as_json = as_json
    logger.addHandler(_ECHO)
    logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.INFO if as_json else logging.WARNING)


def tell(text: object) -> None:
    """Print a line on stderr."""
    if _ECHO.as_json:
        logger.info("%s", text)
    else:
        click.echo(printable(text), err=True)


@contextmanager
def waiting(path: str) -> Iterator[None]:
    """Context for opening `path`; print a message if this takes long and `path` is a URL."""
    notice = "is still being opened. dhsic waits up to 90 s for an object store to answer."
    timer = threading.Timer(SLOW, tell, [f"{masked(path)} {notice}"])
    if "://" in path:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def say(label: str, text: str) -> None:
    """Print a labelled fact on stderr: the label, and the text to the right of it."""
    if _ECHO.as_json:
        logger.info("%s", text, extra={"record": {"about": label}})
    else:
        click.echo(paragraph(label, text), err=True)


def tell_finding(sentence: str) -> None:
    """Print a sentence about a result on stderr, as an item of a list."""
    if _ECHO.as_json:
        logger.info("%s", sentence)
    else:
        click.echo(paragraph("-", sentence, width=2), err=True)


def paragraph(label: str, text: str, width: int = LABEL_WIDTH) -> str:
    """Wrap text to the terminal's width, beside a label that occupies `width` columns."""
    text = printable(text)
    indent = " " * width
    unbroken = re.sub(r"(\d) ([kMGT]?B)\b", "\\1\u00a0\\2", text)  # no line break before a unit
    wrapped = textwrap.fill(
        unbroken,
        width=max(60, min(shutil.get_terminal_size((100, 24)).columns, 120)),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    wrapped = wrapped.replace("\u00a0", " ")
    return click.style(f"{label:<{width}}", bold=True) + wrapped[width:]


def shown(path: str) -> str:
    """Return a path for display: relative if it is in the current folder, else unchanged."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def counted(n: int, noun: str) -> str:
    """Format a count with its noun.

    >>> counted(1, "pair"), counted(2000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def seconds(value: float) -> str:
    """Format a duration, given in seconds.

    >>> seconds(3.21), seconds(250)
    ('3.2 s', '4 min 10 s')
    """
    if value < 120:
        return f"{value:.1f} s"
    minutes, remaining_seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {remaining_seconds} s"


# Secrets -----------------------------------------------------------------------------------

MASK = "***"
SECRET = r"secret|token|passw|signature|credential|sas|(?:access|account|api)[-_]?key"
#: Options whose next word is a secret.
OPTION = re.compile(rf"--[\w-]*(?:key|{SECRET})[\w-]*", re.IGNORECASE)
#: Settings whose value is a secret according to their name, as NAME=VALUE or in JSON.
SETTING = re.compile(
    rf"""((?:--[\w-]*key|(?:{SECRET})[\w-]*)["']?\s*[=:]\s*["']?)[^\s"',;&}}]+""", re.IGNORECASE
)
#: User part of a URL (before ``@``), and query of a URL (after ``?``).
WHO = re.compile(r"(\w+)://(\S*)@")
QUERY = re.compile(r"(://[^?]*\?).*", re.DOTALL)


def masked(word: str) -> str:
    """Replace secrets in a word of a command by stars.

    >>> masked("s3://me:pw@b/x"), masked("https://a.b/x.zarr?sig=x"), masked("secret=x")
    ('s3://***@b/x', 'https://a.b/x.zarr?***', 'secret=***')
    >>> masked("abfs://container@account/x"), masked("s3://b/x@2")
    ('abfs://container@account/x', 's3://b/x@2')
    """
    word = QUERY.sub(rf"\1{MASK}", WHO.sub(_masked_who, word))
    return SETTING.sub(rf"\1{MASK}", word)


def _masked_who(match: re.Match[str]) -> str:
    """Return a matched URL up to its ``@`` with the user part masked.

    A password may contain any character, including ``@``.
    """
    scheme, who = match.groups()
    is_plain = ":" not in who and ("/" in who or scheme in ("abfs", "abfss"))
    return match[0] if is_plain else f"{scheme}://{MASK}@"


def masked_command(words: Iterable[str]) -> str:
    """Format a command as a shell line with secrets masked.

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
    """The command received SIGTERM, for example because it reached its time limit."""


#: Exit code and kind of each class of errors; other errors have code 1.
CODES: dict[type[BaseException], tuple[int, str]] = {
    InputError: (2, "input"),
    DataError: (3, "data"),
    CheckpointError: (4, "checkpoint"),
    MemoryError: (5, "memory"),  # includes MemoryBudgetError
    ClusterError: (6, "cluster"),
    StoreError: (1, "store"),
    ScratchError: (1, "scratch"),
    Terminated: (TERMINATED, "terminated"),
    KeyboardInterrupt: (INTERRUPTED, "interrupted"),
}

EPILOG = """\b
Exit codes:
    0  done
    1  unexpected error (a bug, a full disk, deleted scratch files, an object
       store that does not answer): run dhsic -v to see the traceback
    2  wrong usage or input; the message explains what to change
    3  the data are damaged, or have invalid values
    4  the checkpoint belongs to another run, or is damaged
    5  the run needs more memory than the machine has or --memory allows
    6  the cluster cannot run the job
   75  stopped by SIGTERM; a checkpoint is valid, the same command resumes
  130  interrupted (Ctrl-C); a checkpoint is valid
"""

#: Exit codes of commands that were stopped on purpose.
STOPPED = (TERMINATED, INTERRUPTED)
#: Context key of the path of a command's checkpoint, for the message after an interruption.
CHECKPOINT = "dhsic.storage.checkpoint"
#: Context key of the command as typed, without secrets.
TYPED = "dhsic.typed"
#: Context key that is set if help shows all options.
SHOW_ALL = "dhsic.show_all"
#: Context key that is set once the work has begun.
BEGUN = "dhsic.begun"
#: Context key of the exception that a signal raised.
SIGNALLED = "dhsic.signalled"
#: Options that may not be repeated, because only the last one would be used.
ONCE = ("--labels", "--pheno", "--keep", "--remove", "--extract", "--exclude", "--keep-if",
        "--extract-if", "--chr")  # fmt: skip


class Command(click.Command):
    """Click command that prints errors as messages and exits with a code from `CODES`.

    Parameters
    ----------
    does : str
        ``module.function`` of `dhsic.cli` that implements the command. Its import takes seconds;
        until it is imported, a signal ends the command immediately, see `dhsic.startup`.
    """

    def __init__(self, *args: Any, does: str = "", **about: Any) -> None:
        super().__init__(*args, **about)
        self.does = does
        if self.has_more:
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_all_options,
                    help="Show all options, including rarely used ones.",
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = [_current_word(ctx, word) for word in args]
        words = list(args)
        ctx.meta[TYPED] = masked_command([*ctx.command_path.split(), *words])
        try:
            _refuse_twice(words)
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            usage_error = (
                of_commands(error, ctx) if isinstance(error, click.NoSuchOption) else error
            )
            if "--json" in words:
                echo_json({"error": {"kind": "usage", "message": usage_error.format_message()}})
            raise usage_error from error.__cause__

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            if self.has_more and not ctx.meta.get(SHOW_ALL) and option.name not in COMMON:
                continue
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                default_section = "Output" if "Output" in sections else "Options"  # such as --help
                sections.setdefault(getattr(option, "section", default_section), []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)

    @property
    def has_more(self) -> bool:
        """Whether ``--help`` shows only some options, so that ``--help-all`` is needed for all."""
        return len(self.params) > FEW_OPTIONS

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


def _show_all_options(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001  # click passes it
    """Print the help with all options, and exit."""
    if is_asked:
        ctx.meta[SHOW_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _loaded(module: str) -> ModuleType:
    """Import and return a module. Garbage collection is off, which saves a sixth of the time."""
    if module in sys.modules:
        return sys.modules[module]
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _current_word(ctx: click.Context, word: str) -> str:
    """Replace a former name of an option by the current name, with a warning.

    Other words are returned unchanged.
    """
    option, equals, value = word.partition("=")
    known = {name for p in ctx.command.params for name in (*p.opts, *p.secondary_opts)}
    current = next((name for name in FORMER_OPTIONS.get(option, ()) if name in known), None)
    if current is None or option in known:
        return word
    click.echo(f"Warning: {option} has been renamed to {current}.", err=True)
    return f"{current}{equals}{value}"


def _refuse_twice(args: list[str]) -> None:
    """Reject options that were passed twice; Click would ignore the first value."""
    names = [arg.partition("=")[0] for arg in args]
    for name in ONCE:
        if names.count(name) > 1:
            raise click.UsageError(
                f"{name} was passed {names.count(name)} times, but accepts one value. Combine "
                "the values into one, for example one table with all columns."
            )


@contextmanager
def _warnings_as_sentences(ctx: click.Context) -> Iterator[None]:
    """Context in which warnings for users are printed as sentences, without the source line."""

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):
            sentence = in_options(str(message), ctx)
            if _ECHO.as_json:
                logger.warning("%s", sentence)
                return
            shown = f"{click.style('Warning:', fg='yellow')} {printable(sentence)}"
            click.echo(shown, err=True)
        else:
            usual(message, category, *where, **more)

    with warnings.catch_warnings():
        usual, warnings.showwarning = warnings.showwarning, show
        yield


@contextmanager
def _signals_as_errors(ctx: click.Context) -> Iterator[None]:
    """Context in which Ctrl-C and the first SIGTERM raise exceptions; a second SIGTERM kills."""
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
    """Raise the exception of an earlier signal again, in case a callback suppressed it."""
    if SIGNALLED in ctx.meta:
        raise ctx.meta[SIGNALLED]


def _tell(ctx: click.Context, error: BaseException) -> int:
    """Print an error message, and return the exit code."""
    code, kind = next(
        (known for type_, known in CODES.items() if isinstance(error, type_)), (1, "unexpected")
    )
    if ctx.find_root().params.get("verbose") and not _ECHO.as_json:
        # Indented, so that no line looks like output of dhsic.
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
    text = printable(message)
    click.echo(text if code in STOPPED else f"{click.style('Error:', fg='red')} {text}", err=True)
    return code


def _message(ctx: click.Context, error: BaseException, code: int) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "Terminated." if isinstance(error, Terminated) else "Interrupted."
    is_clear = isinstance(error, StoreError | ScratchError | MemoryBudgetError)
    if not is_clear and (code == 1 or isinstance(error, MemoryError)):
        return f"{type(error).__name__}: {error}".rstrip(": .") + "."
    return in_options(str(error), ctx)


def _hint(ctx: click.Context) -> str:
    """Return advice on how to continue an interrupted run; "" if there is none."""
    from dhsic.storage.paths import is_url

    path = ctx.meta.get(CHECKPOINT)
    if path is not None and is_url(path):  # not opened: this store may be the one that fails
        if BEGUN not in ctx.meta and ctx.info_name != "resume":
            return ""
        return f"Saved rounds are valid; resume with: dhsic resume {shlex.quote(path)}"
    if path is not None and (Path(path) / "zarr.json").exists():
        return f"The checkpoint is valid; resume with: dhsic resume {shlex.quote(shown(path))}"
    if ctx.info_name == "select" and BEGUN in ctx.meta:
        return "Nothing was saved. To be able to resume a run, pass --checkpoint PATH."
    return ""


def echo_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))
