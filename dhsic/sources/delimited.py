"""Text of rows and fields, as people write it: TSV, CSV, white space; compressed or not.

`dhsic.sources.headers` tells the separator and the header by the first rows. A header that lacks
a name for the first column (as R writes it) is understood, and so are separators at the end of
lines, a mark of the order of bytes, and lines above the header that programs write.
"""

from __future__ import annotations

import csv
import shlex
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO, TextIOWrapper
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, Any

from dhsic.errors import InputError
from dhsic.object_store import fetched
from dhsic.sources.compression import DAMAGE, SUFFIXES, decompressed
from dhsic.sources.headers import (
    GEO,
    GEO_END,
    TableTop,
    by_blanks,
    is_header,
    may_be_header,
    top_of,
)
from dhsic.sources.ids import abbreviate, is_id, is_value, plain

#: Bytes of a file that are looked at for what is no text.
HEAD = 1 << 12
#: Bytes that are read at a time.
READ = 1 << 20


class Delimited:
    """Rows of fields in a file, or at a URL; of a list of ids (`is_list`) no line names columns.

    Attributes
    ----------
    separator : str
        What is between fields: a tab, a comma, a semicolon, a bar, or "" for blanks.
    names : list of str or None
        Names of the columns without the "#" of a header; None where no line names them.
    width : int
        Fields of a row.
    top : TableTop
        The first rows, and lines above them.
    may_have_header : bool
        Whether the first row, which is taken for values, may name the columns.

    Raises
    ------
    InputError
        There is no file, or it is no text.
    """

    def __init__(self, path: str, *, is_list: bool = False) -> None:
        self.path, self.file = path, Path(path)
        self._fetched = fetched(path) if "://" in path else None
        if self._fetched is None and not self.file.is_file():
            if self.file.exists():
                raise InputError(f"{path} is no file (a folder, a pipe?); pass a TSV or CSV file.")
            raise InputError(f"There is no table at {path}; pass a TSV or CSV file with a header.")
        with self._reading(), self._opened() as lines:
            top = top_of(lines, is_list=is_list)
        if top is None:
            raise self.refused("it is empty.")
        self.top, self.separator = top, top.separator
        self.names: list[str] | None = None
        self.width, self._has_end, self.may_have_header = 0, False, False
        if not is_list:
            self._look(top)

    def _look(self, top: TableTop) -> None:
        """Tell the header from the first row, and how many fields there are."""
        if top.title:
            raise self.refused(
                f"its first line is a title ({top.title[:40]!r}), and the names of the columns are "
                f"expected there. {self._without_top(top.n_titles)}"
            )
        header, below = [*top.rows[0]], top.rows[1] if len(top.rows) > 1 else []
        is_open = len(header) > 1 and not header[-1]
        while len(header) > 1 and not header[-1]:
            header.pop()
        self.width = max(len(header), len(below) if not is_open else 0)
        if self._is_of_plink(header) or not is_header(header, top.rows[1:]):
            self.may_have_header = may_be_header(header, top.rows[1:])
            return
        if len(below) == len(header) + 1:
            self._has_end = is_open or (not below[-1] and is_id(header[0]))
            if not self._has_end:
                header = ["", *header]
        self.width, self._has_end = len(header), self._has_end or is_open
        self.names = [name.removeprefix("#").strip() for name in header]
        if self.names[0].startswith("Unnamed: "):
            self.names[0] = ""
        if len(set(header)) < len(header):
            self._check_names_below(header, top)
            twice = sorted({name for name in header if header.count(name) > 1})
            more = f" ({len(twice)} names in all)" if len(twice) > 1 else ""
            raise self.refused(
                f"two columns are called {twice[0]!r}{more}; rename one of them, each needs a name "
                "of its own."
            )

    def _check_names_below(self, header: list[str], top: TableTop) -> None:
        """Refuse a header whose second row names the columns, and those below it hold values."""
        names, below = (top.rows[1], top.rows[2]) if len(top.rows) > 2 else ([], [])
        has_names = len(set(names)) == len(names) > 2 and not any(map(is_value, names[1:]))
        if has_names and any(map(is_value, below[1:])):
            groups = abbreviate(dict.fromkeys(filter(None, header)), 3)
            raise self.refused(
                f"its header has two rows: the first names groups of columns ({groups}), the "
                f"second each column. {self._without_top(1)}"
            )

    def _without_top(self, n_rows: int) -> str:
        """How to leave out rows at the top of a table."""
        records = (number for number, fields in self._records() if any(fields))
        with self._reading():
            line = next(islice(records, n_rows, None))
        if self._fetched is not None or self.path.lower().endswith((*SUFFIXES,)):
            return f"Remove what is above line {line}."
        return f"Leave it out: tail -n +{line} {shlex.quote(self.path)} > NEW"

    def _is_of_plink(self, fields: list[str]) -> bool:
        """Whether it is a .fam or .psam file without a header."""
        suffix = self.file.suffix.lower()
        is_fam = suffix == ".fam" or (suffix == ".psam" and not fields[0].startswith("#"))
        return is_fam and {"fid", "iid"}.isdisjoint(map(plain, fields[:2]))

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows below the header that are not empty, each with the number of its line.

        Fields that a line lacks at its end are not there.

        Raises
        ------
        InputError
            A line has more fields than others, or does not read.
        """
        with self._reading():
            records = self._records()
            if self.names is not None:
                next(records)
            for number, fields in records:
                if len(fields) > self.width:
                    if any(fields[self.width :]) or not (self._has_end or self.names is None):
                        raise self.refused(
                            f"line {number} has {len(fields)} fields, and {self.width} are "
                            "expected. Mend that line; text that holds the separator needs quotes "
                            "around it."
                        )
                    del fields[self.width :]
                if any(fields):
                    yield number, fields

    def lists(self) -> Iterator[list[str]]:
        """Fields of all lines that are not empty, of a list of ids."""
        with self._reading():
            for _, fields in self._records():
                if any(fields):
                    yield [field.strip() for field in fields]

    def count(self) -> int:
        """Lines there are: no fewer than rows."""
        n = 1
        with self._bytes() as file:
            while part := file.read(READ):
                n += part.count(b"\n") or part.count(b"\r")
        return n

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Fields of all lines that count, the header too, with the number of the line."""
        with self._opened() as every:
            lines = every
            for _ in range(self.top.n_skipped):
                next(lines)
            if self.top.format_name == GEO:
                lines = takewhile(lambda line: not GEO_END.match(line), lines)
            if self.separator:
                yield from self._separated(lines)
                return
            for number, line in enumerate(lines, self.top.n_skipped + 1):
                if fields := by_blanks(line):
                    yield number, fields

    def _separated(self, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=True, strict=True)
        number = self.top.n_skipped + 1
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "unexpected end" in str(error) or "field limit" in str(error):
                    raise self.refused(
                        f"a quote that is opened in line {number} is not closed. Close it, or "
                        "leave it out."
                    ) from error
                raise self.refused(f"line {number}: {error}. Mend its quotes.") from error
            yield number, fields
            number = self.top.n_skipped + 1 + reader.line_num

    @contextmanager
    def _bytes(self) -> Iterator[IO[bytes]]:
        """The file, decompressed."""
        with self.file.open("rb") if self._fetched is None else BytesIO(self._fetched) as raw:
            yield decompressed(raw, self.path)

    @contextmanager
    def _opened(self) -> Iterator[Iterator[str]]:
        with self._bytes() as file:
            stream: Any = file if hasattr(file, "peek") else BufferedReader(file)
            if b"\0" in stream.peek(HEAD)[:HEAD]:
                raise self.refused(
                    "it is UTF-16, or no text (a workbook?). Save it as text in UTF-8; of a table "
                    "in UTF-16: iconv -f UTF-16 -t UTF-8 FILE > NEW."
                )
            yield TextIOWrapper(stream, "utf-8-sig")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say what is wrong with bytes that are no text."""
        try:
            yield
        except UnicodeDecodeError as error:
            at = error.start
            before = bytes(error.object[max(0, at - 20) : at]).decode(errors="replace")
            raise self.refused(
                f"after {before!r} there is the byte 0x{error.object[at]:02x}, which is no UTF-8. "
                "Save it as UTF-8; of a table in Latin-1: iconv -f LATIN1 -t UTF-8 FILE > NEW."
            ) from error
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk, not of the bytes
            raise self.refused(f"{error}. Copy it again, it is damaged.") from error

    def refused(self, why: str) -> InputError:
        """The error of a file that is no table, and why."""
        return InputError(f"{self.path} cannot be read as a table: {why}")


def is_text_table(path: str) -> bool:
    """Whether there is a file of text at a path, compressed or not, whose rows have columns."""
    file = Path(path)
    if not file.is_file():
        return False
    try:
        with file.open("rb") as raw:
            head = decompressed(raw, path).read(HEAD)
        text = getincrementaldecoder("utf-8-sig")().decode(head)  # it may end within a letter
    except (InputError, UnicodeDecodeError, *DAMAGE):
        return False
    if b"\0" in head or "\x1b" in text:
        return False
    lines = text.splitlines()
    top = top_of(iter(lines[: max(1, len(lines) - (len(head) == HEAD))]))
    return top is not None and len(top.rows[0]) > 1
