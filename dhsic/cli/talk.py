"""What commands say on stderr while they work, and how numbers are written."""

from __future__ import annotations

import logging
import re
import shutil
import textwrap
from pathlib import Path

import click

from dhsic.cli.printable import printable

LABEL_WIDTH = 10


class _Echo(logging.Handler):
    """Log records as lines on whatever stderr is when they come."""

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.capitalize()
        click.echo(f"{level}: {printable(record.getMessage())}", err=True)


def listen(*, verbose: bool) -> None:
    """Show what dhsic logs: warnings, or everything."""
    logger = logging.getLogger("dhsic")
    if not any(isinstance(handler, _Echo) for handler in logger.handlers):
        logger.addHandler(_Echo())
        logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)


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
