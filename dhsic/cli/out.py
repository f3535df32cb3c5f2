"""Output paths of commands, and small tables as text or files."""

from __future__ import annotations

import gzip
import os
from pathlib import PurePath
from typing import Any

import pandas as pd

from dhsic.cli.console import printable
from dhsic.errors import InputError
from dhsic.results.files import check_vacant
from dhsic.storage.folder import replacing
from dhsic.storage.paths import as_path, check_place, is_url

#: Message for --selected-only without a table.
NO_TABLE = "--selected-only applies to the table of --out; pass --out X.tsv as well."
#: Column separators of tables, by suffix.
SEPARATORS = {".tsv": "\t", ".csv": ","}
#: Suffix of compressed tables.
PACKED = ".gz"
#: Columns with the names of the two features of a pair: their names in results, and in tables.
NAMED = {"first_feature": "first_name", "second_feature": "second_name"}

#: Attributes of a table of pairs that are repeated in every row, because reports need them.
OF_ALL = ("alpha", "threshold", "inflation", "corrected_by")


def check_out(out: str, *, force: bool, selected_only: bool = False) -> None:
    """Reject an output path that cannot be written, before the work begins."""
    check_vacant(out, overwrite=force, selected_only=selected_only)
    if is_url(out):
        return
    path = as_path(out)
    check_place(path, "--out", InputError)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {path} cannot be written ({error}); pass another.") from error
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"--out {path}: this folder is not writable; pass another path.")


def absolute(path: str | None) -> str | None:
    """Convert a path to an absolute one; None and URLs are returned unchanged."""
    return path if path is None or "://" in path else os.path.abspath(path)  # noqa: PTH100  # keeps symbolic links


def is_same(one: str, other: str) -> bool:
    """Whether two paths or URLs refer to the same place."""
    if is_url(one) or is_url(other):
        return one.rstrip("/") == other.rstrip("/")
    return as_path(one).resolve() == as_path(other).resolve()


def check_table(out: str, what: str, *, force: bool, option: str = "--out") -> None:
    """Reject a path that is not a local .tsv or .csv file, or that exists (unless `force`)."""
    if is_url(out) or _suffix(out) not in SEPARATORS:
        raise InputError(
            f"{option} {out}: {what} are written as a text table; pass a path that ends in .tsv "
            "or .csv."
        )
    check_out(out, force=force)


def write_table(frame: pd.DataFrame, out: str, *, missing: str = "") -> None:
    """Write a frame without its index as a text table; NaN is written as `missing`."""
    separator = SEPARATORS[_suffix(out)]
    text = frame.to_csv(sep=separator, index=False, na_rep=missing, lineterminator="\n").encode()
    is_packed = out.lower().endswith(PACKED)
    with replacing(as_path(out)) as file:  # no time stamp, so equal tables are equal bytes
        file.write(gzip.compress(text, compresslevel=6, mtime=0) if is_packed else text)


def _suffix(out: str) -> str:
    """Return the suffix of a path in lower case: ".tsv" for "X.TSV" and for "x.tsv.gz"."""
    return PurePath(out.lower().removesuffix(PACKED)).suffix


def in_columns(frame: pd.DataFrame) -> str:
    """Format a frame as text in aligned columns, with four digits of each float."""
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
