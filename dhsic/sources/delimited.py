"""Text of rows and fields, as people write it: TSV, CSV, white space; packed or not.

The first line tells what separates fields, and whether it names the columns. A header that lacks
a name for the first column (as R writes it) is understood, and so are separators at the end of
lines, a mark of the order of bytes, and comments that begin with ``##``.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from itertools import dropwhile, islice
from pathlib import Path
from typing import IO

from dhsic.buckets import fetched
from dhsic.errors import InputError
from dhsic.sources.ids import NA, is_id, plain
from dhsic.validation import is_numeral

#: Bytes of a file that are looked at for what is no text, and how files of gzip begin.
HEAD, GZIP = 1 << 12, b"\x1f\x8b"
#: Bytes that are read at a time.
READ = 1 << 20


class Delimited:
    """Rows of fields in a file, or at a URL; of a list of ids (`is_list`) no line names columns.

    Attributes
    ----------
    separator : str
        What is between fields: a tab, a comma, a semicolon, or "" for blanks.
    names : list of str or None
        Names of the columns without the "#" of a header; None where no line names them.
    width : int
        Fields of a row.

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
            told = dropwhile(lambda one: not one[1].strip() or one[1][:2] == "##", enumerate(lines))
            self._n_skipped, line = next(told, (0, ""))
        if not line:
            raise self.refused("it is empty.")
        self.separator = next((mark for mark in ("\t", ",", ";") if mark in line), "")
        self.names: list[str] | None = None
        self.width, self._has_end = 0, False
        if not is_list:
            with self._reading():
                self._look(line)

    def _look(self, line: str) -> None:
        """Tell the header from the first row, and how many fields there are."""
        first = [fields for _, fields in islice(self._records(), 2)]
        header = first[0] = [field.strip() for field in first[0]]
        is_open = len(header) > 1 and not header[-1]
        while len(header) > 1 and not header[-1]:
            header.pop()
        below = first[1] if len(first) > 1 else []
        if line.startswith("#") and _is_comment(header, [field.strip() for field in below]):
            raise self.refused(
                f"its first line is a comment ({line.strip()[:40]!r}), and the names of the "
                "columns are expected there. Remove it, or begin it with ##."
            )
        self.width = max(len(header), len(below) if not is_open else 0)
        if self._is_of_plink(line, header) or not _is_header(header):
            return
        if len(below) == len(header) + 1:
            self._has_end = is_open or (not below[-1].strip() and is_id(header[0]))
            if not self._has_end:
                header = ["", *header]
        self.width, self._has_end = len(header), self._has_end or is_open
        self.names = [name.removeprefix("#").strip() for name in header]
        if self.names[0].startswith("Unnamed: "):
            self.names[0] = ""
        if len(set(header)) < len(header):
            twice = sorted({name for name in header if header.count(name) > 1})
            more = f" ({len(twice)} names in all)" if len(twice) > 1 else ""
            raise self.refused(
                f"two columns are called {twice[0]!r}{more}; rename one of them, each needs a name "
                "of its own."
            )

    def _is_of_plink(self, line: str, fields: list[str]) -> bool:
        """Whether it is a .fam or .psam file without a header."""
        suffix = self.file.suffix.lower()
        is_fam = suffix == ".fam" or (suffix == ".psam" and not line.startswith("#"))
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
        with self._opened() as lines:
            for _ in range(self._n_skipped):
                next(lines)
            if self.separator:
                yield from self._separated(lines)
                return
            for number, line in enumerate(lines, self._n_skipped + 1):
                if fields := _by_blanks(line):
                    yield number, fields

    def _separated(self, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=True, strict=True)
        number = self._n_skipped + 1
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
            number = self._n_skipped + 1 + reader.line_num

    @contextmanager
    def _bytes(self) -> Iterator[IO[bytes]]:
        """The file, unpacked."""
        with self.file.open("rb") if self._fetched is None else BytesIO(self._fetched) as raw:
            is_packed = raw.read(2) == GZIP
            raw.seek(0)
            if not is_packed:
                yield raw
                return
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked  # type: ignore[misc]  # what it lacks is not used

    @contextmanager
    def _opened(self) -> Iterator[Iterator[str]]:
        with self._bytes() as file:
            if b"\0" in file.read(HEAD):
                raise self.refused(
                    "it is UTF-16, or no text (a workbook?). Save it as text in UTF-8; of a table "
                    "in UTF-16: iconv -f UTF-16 -t UTF-8 FILE > NEW."
                )
            file.seek(0)
            yield TextIOWrapper(file, "utf-8-sig")

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
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.refused(f"{error}. Copy it again, it is damaged.") from error

    def refused(self, why: str) -> InputError:
        """The error of a file that is no table, and why."""
        return InputError(f"{self.path} cannot be read as a table: {why}")


def _by_blanks(line: str) -> list[str]:
    if '"' not in line:
        return line.split()
    return next(csv.reader([" ".join(line.split())], delimiter=" "), [])


def _is_comment(fields: list[str], below: list[str]) -> bool:
    """Whether a line that begins with "#" names no columns: the one below it does.

    >>> _is_comment(["#IID", "y"], ["a", "1"]), _is_comment(["#", "by", "me"], ["IID", "y", "z"])
    (False, True)
    """
    names = [field for field in below if is_id(field)]
    is_said = fields[0] != "#" and any(map(is_id, fields))
    return bool(names) and _is_header(below) and not is_said


def _is_header(fields: list[str]) -> bool:
    """Whether a first line names columns: one is called like ids, or none is a value.

    >>> [_is_header(line.split()) for line in ("IID 1 2", "F1 S1 0.5", "age sex", "S1 NA")]
    [True, False, True, False]
    """
    if fields[0] == "" or fields[0].startswith("#"):
        return True
    values = any(is_numeral(field) or field.lower() in NA for field in fields)
    return not values or any(is_id(field) for field in fields if field)
