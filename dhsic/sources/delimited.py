"""Text tables: TSV, CSV, or fields separated by blanks, compressed or uncompressed.

`dhsic.sources.headers` recognises the separator and the header from the first rows. The table may
have a header without a name for the first column (written by R), separators at the end of lines, a
byte-order mark, text as formulas (``="0012"``), and lines above the header.
"""

from __future__ import annotations

import csv
import re
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO, TextIOWrapper
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, Any

from dhsic.errors import InputError
from dhsic.object_store import fetched
from dhsic.sources.compression import DAMAGE, SUFFIXES, decompressed
from dhsic.sources.formulas import as_plain, formula_advice
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
from dhsic.validation import is_numeral

#: Number of first bytes of a file that are checked for binary content.
HEAD = 1 << 12
#: Number of bytes that are read at a time.
READ = 1 << 20
#: Pattern of a line of dashes in a table that was formatted for display. Options of sed that remove
#: such lines, the row count below the table, and the spaces around values.
RULE = re.compile(r"[-+|=: ]*--[-+|=: ]*")
DRAWN = (
    r"-e '/^[-+|=: ]*$/d' -e '/^\([0-9]+ rows?\)$/d' -e 's/^ *\|(.*)\| *$/\1/' "
    r"-e 's/ *\| */|/g' -e 's/^ +//' -e 's/ +$//'"
)


class Delimited:
    """Text table in a file or at a URL; or a list of ids (`is_list`), which has no header.

    Attributes
    ----------
    separator : str
        Separator of fields: a tab, comma, semicolon or bar; "" for blanks.
    names : list of str or None
        Names of the columns without the "#" of a header; None without a header.
    width : int
        Number of fields in each row.
    top : TableTop
        The first rows, and the lines above them.
    may_have_header : bool
        Whether the first row, which is read as values, may be a header.

    Raises
    ------
    InputError
        The file does not exist, or is not text.
    """

    def __init__(self, path: str, *, is_list: bool = False) -> None:
        self.path, self.file = path, Path(path)
        self._fetched = fetched(path) if "://" in path else None
        if self._fetched is None and not self.file.is_file():
            if self.file.exists():
                raise InputError(
                    f"{path} is not a regular file (it may be a folder or a pipe); pass a TSV or "
                    "CSV file."
                )
            if is_list:
                raise InputError(
                    f"The file {path} does not exist; ids are read from a file with one id per "
                    f"line. If {self.file.name!r} is an id, write it to a file and pass ids.txt: "
                    f"printf '%s\\n' {shlex.quote(self.file.name)} > ids.txt"
                )
            raise InputError(
                f"The table {path} does not exist; pass a TSV or CSV file with a header."
            )
        with self._reading(), self._opened() as lines:
            top = top_of(lines, is_list=is_list)
        if top is None:
            raise self.refused("it is empty.")
        self.top, self.separator = top, top.separator
        self.names: list[str] | None = None
        self.width, self._has_end, self.may_have_header = 0, False, False
        if not is_list:
            self._refuse_rules(top)
            self._read_header(top)

    def _refuse_rules(self, top: TableTop) -> None:
        """Refuse a table that was formatted for display, with lines of dashes."""
        if any(RULE.fullmatch("".join(fields)) for fields in top.rows[:3]):
            raise self.refused(
                "it contains lines of dashes, as in tables that databases print (psql --csv writes "
                "tables without them). Write a table separated by |: "
                f"sed -E {DRAWN} {shlex.quote(self.path)} > NEW"
            )

    def _read_header(self, top: TableTop) -> None:
        """Set `names`, `width` and `may_have_header` from the first rows; refuse a bad header."""
        if top.title:
            raise self.refused(
                f"its first line is a title ({top.title[:40]!r}), but it should contain the "
                f"column names. {self._without_top(top.n_titles)}"
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
            repeated = sorted({name for name in header if header.count(name) > 1})
            more = f" ({len(repeated)} such names in total)" if len(repeated) > 1 else ""
            raise self.refused(
                f"two columns are named {repeated[0]!r}{more}, but column names must be unique. "
                "Rename one of them."
            )

    def _check_names_below(self, header: list[str], top: TableTop) -> None:
        """Refuse a header of two rows in which the second row names the columns."""
        names, below = (top.rows[1], top.rows[2]) if len(top.rows) > 2 else ([], [])
        has_names = len(set(names)) == len(names) > 2 and not any(map(is_value, names[1:]))
        if has_names and any(map(is_value, below[1:])):
            groups = abbreviate(dict.fromkeys(filter(None, header)), 3)
            raise self.refused(
                f"its header has two rows: the first names groups of columns ({groups}), the "
                f"second names the columns. {self._without_top(1)}"
            )

    def _without_top(self, n_rows: int) -> str:
        """Return advice on how to remove the first `n_rows` rows of the table."""
        records = (number for number, fields in self._records() if any(fields))
        with self._reading():
            line = next(islice(records, n_rows, None))
        if self._fetched is not None or self.path.lower().endswith((*SUFFIXES,)):
            return f"Remove the lines above line {line}."
        return f"Remove them: tail -n +{line} {shlex.quote(self.path)} > NEW"

    def _without_repeated(self) -> str:
        """Return advice on how to remove further copies of the header."""
        if self._fetched is not None or self.path.lower().endswith((*SUFFIXES,)):
            return "Remove it, and all other copies below the first."
        n = self.top.n_skipped + 1
        keep = shlex.quote(f"NR == {n} {{h = $0}} NR <= {n} || $0 != h")
        return f"Remove all copies below the first: awk {keep} {shlex.quote(self.path)} > NEW"

    @staticmethod
    def _is_other_order(fields: list[str], header: list[str]) -> bool:
        """Whether a row repeats the names of the header in some order; False if all are numbers."""
        is_header = len(fields) == len(header) and sorted(fields) == sorted(header)
        return is_header and not all(map(is_numeral, fields))

    def _joined_by_names(self, line: int) -> str:
        """Return advice on how to join two tables in one file; the second begins at `line`."""
        if self._fetched is not None or self.path.lower().endswith((*SUFFIXES,)):
            return f"Split the file before line {line}, and join the two tables with pandas.concat."
        parts = f"lines[{self.top.n_skipped}:{line - 1}], lines[{line - 1}:]"
        read = f"p.read_csv(io.StringIO(''.join(part)), sep={self.separator or ' +'!r}, dtype=str"
        return (
            'Join the two tables by the names of columns: python -c "import io, pathlib, pandas as '
            f"p; lines = pathlib.Path({self.path!r}).read_text().splitlines(True); p.concat([{read}"
            f", keep_default_na=False) for part in ({parts})]).to_csv('NEW.csv', index=False)\""
        )

    def _is_of_plink(self, fields: list[str]) -> bool:
        """Whether the file is a PLINK .fam or .psam file without a header."""
        suffix = self.file.suffix.lower()
        is_fam = suffix == ".fam" or (suffix == ".psam" and not fields[0].startswith("#"))
        return is_fam and {"fid", "iid"}.isdisjoint(map(plain, fields[:2]))

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the fields of each row below the header.

        Empty rows are skipped. A line with too few fields gives a shorter list.

        Raises
        ------
        InputError
            A line has too many fields, or cannot be read.
        """
        with self._reading():
            records, header = self._records(), [""]
            if self.names is not None:
                _, header = next(records)
            for number, fields in records:
                if len(fields) > self.width:
                    if any(fields[self.width :]) or not (self._has_end or self.names is None):
                        raise self.refused(
                            f"line {number} has {len(fields)} fields instead of {self.width}. "
                            "Correct this line. If text contains the separator, put it in quotes."
                        )
                    del fields[self.width :]
                if fields == header and self.width > 1:
                    raise self.refused(
                        f"line {number} repeats the header, as if several files were joined. "
                        f"{self._without_repeated()}"
                    )
                if fields and fields[0] in header and self._is_other_order(fields, header):
                    raise self.refused(
                        f"line {number} is a second header, with the same names in another order, "
                        "as if two tables were put one below the other. "
                        f"{self._joined_by_names(number)}"
                    )
                if any(fields):
                    yield number, fields

    def lists(self) -> Iterator[list[str]]:
        """Yield the fields of each line of a list of ids; empty lines are skipped."""
        with self._reading():
            for _, fields in self._records():
                if any(fields):
                    yield [field.strip() for field in fields]

    def lines_above(self) -> list[str]:
        """Return the lines above the header, which may describe the samples."""
        with self._reading(), self._opened() as lines:
            return [*islice(lines, self.top.n_skipped)]

    def count(self) -> int:
        """Return the number of lines, an upper bound on the number of rows."""
        n = 1
        with self._reading(), self._bytes() as file:
            while part := file.read(READ):
                n += part.count(b"\n") or part.count(b"\r")
        return n

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the fields of all lines of the table, including the header."""
        with self._opened() as all_lines:
            lines = all_lines
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
        """Yield the line number and the fields of each record; a quoted field may span lines."""
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
                        f"a quote opened in line {number} is never closed. Close or remove it."
                    ) from error
                raise self.refused(f"line {number}: {error}. Correct the quotes in it.") from error
            yield number, fields
            number = self.top.n_skipped + 1 + reader.line_num

    @contextmanager
    def _bytes(self) -> Iterator[IO[bytes]]:
        """Open the file, or its copy in memory, as a stream of decompressed bytes."""
        with self.file.open("rb") if self._fetched is None else BytesIO(self._fetched) as raw:
            yield decompressed(raw, self.path)

    def short_line(self, line: int, fields: list[str]) -> InputError:
        """Return the error for a line with fewer fields than the header."""
        if fields and fields[0].lstrip().startswith("#"):
            return self.refused(
                f"line {line} begins with #, so it looks like a comment among the rows. Remove "
                "this line, and others like it."
            )
        return self.refused(
            f"line {line} has {len(fields)} fields instead of {self.width}. Write NA, or nothing "
            "between separators, for missing values."
        )

    def formula_advice(self) -> str:
        """Return advice to write formulas as text before running a command; "" without formulas."""
        with self._as_written() as lines:
            return formula_advice(self.path, lines)

    @contextmanager
    def _opened(self) -> Iterator[Iterator[str]]:
        """Open the file as lines of text; formulas are replaced by the text that they contain."""
        with self._as_written() as lines:
            yield map(as_plain, lines)

    @contextmanager
    def _as_written(self) -> Iterator[Iterator[str]]:
        """Open the file as lines of text, formulas included; InputError if it is binary."""
        with self._bytes() as file:
            stream: Any = file if hasattr(file, "peek") else BufferedReader(file)
            head = stream.peek(HEAD)[:HEAD]
            if b"\0" in head:
                order = (
                    "" if head[:2] in (BOM_UTF16_BE, BOM_UTF16_LE) else "LE" if head[0] else "BE"
                )
                raise self.refused(
                    "it is UTF-16, or not a text file (perhaps a workbook). Save it as text in "
                    f"UTF-8; to convert a table from UTF-16: iconv -f UTF-16{order} -t UTF-8 FILE "
                    "> NEW."
                )
            yield TextIOWrapper(stream, "utf-8-sig")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Convert errors of text decoding and of decompression to InputError."""
        try:
            yield
        except UnicodeDecodeError as error:
            at = error.start
            before = bytes(error.object[max(0, at - 20) : at]).decode(errors="replace")
            raise self.refused(
                f"the byte 0x{error.object[at]:02x} after {before!r} is not valid UTF-8. Save the "
                "file as UTF-8; to convert a table from Latin-1: iconv -f LATIN1 -t UTF-8 FILE > "
                "NEW."
            ) from error
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the disk, not of the data
            raise self.refused(
                f"{error}. The file is damaged, or it was not copied completely. Copy it again."
            ) from error

    def refused(self, why: str) -> InputError:
        """Return an InputError: the file cannot be read as a table. `why` is the reason."""
        return InputError(f"{self.path} cannot be read as a table: {why}")


def is_text_table(path: str) -> bool:
    """Whether a path is a text file, possibly compressed, with several columns."""
    file = Path(path)
    if not file.is_file():
        return False
    try:
        with file.open("rb") as raw:
            head = decompressed(raw, path).read(HEAD)
        text = getincrementaldecoder("utf-8-sig")().decode(head)  # it may end within a character
    except (InputError, UnicodeDecodeError, *DAMAGE):
        return False
    if b"\0" in head or "\x1b" in text:
        return False
    lines = text.splitlines()
    top = top_of(iter(lines[: max(1, len(lines) - (len(head) == HEAD))]))
    return top is not None and len(top.rows[0]) > 1
