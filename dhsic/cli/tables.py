"""Small tables: on stdout in columns, and in a file of text."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pandas as pd

from dhsic.cli.console import printable
from dhsic.cli.job import check_out
from dhsic.errors import InputError
from dhsic.storage import as_path, is_url, replacing

#: What separates columns of a table, by its suffix.
SEPARATORS = {".tsv": "\t", ".csv": ","}
#: Names of the features of a pair, as results call them, and tables, where a name is `name`.
NAMED = {"first_feature": "first_name", "second_feature": "second_name"}


def check_table(out: str, what: str, *, force: bool) -> None:
    """Refuse what is no table of text in a folder, or is there already."""
    if is_url(out) or PurePath(out).suffix.lower() not in SEPARATORS:
        raise InputError(
            f"--out {out}: {what} are written as a table; give a path in .tsv or .csv."
        )
    check_out(out, force=force)


def write_table(frame: pd.DataFrame, out: str) -> None:
    """Write all of a frame but its index."""
    separator = SEPARATORS[PurePath(out).suffix.lower()]
    text = frame.to_csv(sep=separator, index=False, lineterminator="\n")
    with replacing(as_path(out)) as file:
        file.write(text.encode())


def in_columns(frame: pd.DataFrame) -> str:
    """Rows below each other, numbers in a few digits."""
    lines = [
        [*map(str, frame)],
        *([_text(v) for v in r.values()] for r in frame.to_dict("records")),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else printable(value)
