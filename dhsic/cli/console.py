"""What commands say: results on stdout, what is meant for people beside them on stderr.

Names in a store may hold anything: escapes that colour, move or retitle, line breaks that forge a
line of output, marks that turn the direction of reading. A terminal gets them written out; results
and JSON keep names as they are. Commands are repeated with stars for what may be secret.

Errors and warnings come from below, where parameters have the names of Python (``memory=``);
whoever typed a command knows options (``--memory``). This is the one place that translates.
"""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import click

from dhsic.cli.options import OF_RUNS

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


class _Echo(logging.Handler):
    """Log records as lines on whatever stderr is when they come."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(f"{record.levelname.capitalize()}: {record.getMessage()}")


def listen(*, verbose: bool) -> None:
    """Show what dhsic logs: warnings, or everything."""
    logger = logging.getLogger("dhsic")
    if not any(isinstance(handler, _Echo) for handler in logger.handlers):
        logger.addHandler(_Echo())
        logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)


def tell(text: object) -> None:
    """A line on stderr."""
    click.echo(printable(text), err=True)


def say(label: str, text: str) -> None:
    """One fact on stderr, a label and a paragraph beside it."""
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


# Options of the command line, where messages name parameters of Python ---------------------

#: Parameters whose option has another name.
ALIASES = {"n_features_to_select": "n_features", "overwrite": "force", "n_threads": "threads"}

#: Parameters of `dhsic.open_source` that have no option.
ONLY_IN_PYTHON = ("ploidy_policy", "storage_options")

#: ``name=value`` or ``name=``, not as part of a path.
GIVEN = re.compile(
    r"""(?<![\w/.-])(?P<name>[a-z_]+)=
    (?P<value>'[^']*'|"[^"]*"|\[[^\]]*\]|-?\w[\w+-]*(?:\.\w[\w+-]*)*)?+(?!/)""",
    re.VERBOSE,
)


def in_options(message: str, ctx: click.Context) -> str:
    """Say a message in the options of the command that runs.

    Examples
    --------
    >>> import click
    >>> missing = click.Option(["--sample-dim"])
    >>> ctx = click.Context(click.Command("inspect", params=[missing]))
    >>> in_options("Say sample_dim=0 or sample_dim='obs'.", ctx)
    'Say --sample-dim 0 or --sample-dim obs.'
    """
    options = _options(ctx)
    only = [name for name in ONLY_IN_PYTHON if re.search(rf"\b{name}\b", message)]
    told = GIVEN.sub(lambda match: _option(match, options), message)
    for name in only:
        told += f" The command line has no option for {name}: see dhsic.open_source in Python."
    return told


def _options(ctx: click.Context) -> Mapping[str, click.Option]:
    """Options by parameter; what `resume` goes on with was given to `select`."""
    commands = [ctx.command]
    if ctx.info_name == "resume" and isinstance(group := ctx.find_root().command, click.Group):
        commands.insert(0, group.commands["select"])
    return {
        str(option.name): option
        for command in commands
        for option in command.params
        if isinstance(option, click.Option)
    }


@cache
def _settings() -> frozenset[str]:
    """Parameters of methods that `select` takes by ``--set``."""
    from dhsic.selectors import METHODS, parameters_of

    return frozenset(name for method in METHODS for name in parameters_of(method)) - {*OF_RUNS}


def _option(match: re.Match[str], options: Mapping[str, click.Option]) -> str:
    option = options.get(ALIASES.get(match["name"], match["name"]))
    if option is None:
        is_setting = "settings" in options and match["name"] in _settings()
        return f"--set {match[0]}" if is_setting else match[0]
    name, value = max(option.opts, key=len), match["value"]
    if value is None:
        return name
    if option.is_flag and value in ("True", "False"):
        return name if value == "True" else (option.secondary_opts or [f"no {name}"])[0]
    return f"{name} {value.strip(chr(39) + chr(34) + '[]').replace(', ', ',')}"
