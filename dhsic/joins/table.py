"""Match of the rows of a table of labels or covariates to the samples of the data.

A table is a file (`dhsic.joins.text`) or a frame with id columns (`dhsic.joins.frame_rows`). Id
columns contain names, never values. The rules:

1. A key is a column, or FID and IID, IID and SID, or all three joined by "_", that may name the
   samples. All columns are possible keys, except those used as values and those that name parents.
   Doubled ids (``1_1`` for ``1``) are tried only if none of these keys matches a sample, and the
   table has no family names (every FID is 0 or the IID).
2. The key that matches *all* samples is used. It is refused if a sample has several rows, or if
   another key matches the samples to different rows: any other key that matches all samples, or an
   id column that matches some. Id columns that match any sample take precedence over other columns;
   FID and unnamed columns are the last of the id columns. A FID with repeats, in a table with IIDs,
   contains families and is not a key.
3. If no key matches all samples, the table is refused, with the counts of the key that matches
   most. If samples may be dropped, this key is used if it matches at least half of the samples or
   of the rows, and no other key contradicts it.
4. Matches that may be chance are not used: whole numbers in a column whose name does not suggest
   ids, if the sample names are a dense range of whole numbers; and an unnamed row count, which
   programs write as an index, unless it leaves the order unchanged. If both sides count their rows,
   neither count is a name; a column that both have is then used, if it names the samples.
5. Rows are matched by position if the user requests it, or if neither side has names: the data have
   no sample names, or count their rows as the table does, and the table has no id column and one
   row per sample.

An id column is recognised by its name (`dhsic.sources.ids.is_id`). If the data have no names, a
column with a different word in every row is an id column, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.joins.counted_rows import refuse_other_order, refuse_other_start
from dhsic.joins.keys import (
    FAMILY,
    JOINED,
    SAMPLE,
    Key,
    Keys,
    as_text,
    free,
    names_rows,
    quoted,
)
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import abbreviate, did_you_mean, is_id, is_index, plain
from dhsic.sources.likeness import BLANKS, containment, difference, renaming_expression
from dhsic.sources.rewriting import WrittenColumn

#: Advice if a table does not match: on columns that contain no sample names, and on samples without
#: a row.
REMEDIES = "drop the columns that do not contain them", "Keep only the samples that are in both"
#: Advice on how to match rows by position.
BY_POSITION = "pass by_position=True if the rows are in the order of the data."


@dataclass(frozen=True)
class RowOrder:
    """Match of the rows of a table to the samples of the data."""

    rows: Index  # (m,), row of each sample of the data; -1 if it has none
    key: tuple[str, ...]  # columns with the sample names; empty if matched by position
    note: str  # sentence on how rows were matched
    n_passed_over: int = 0  # number of rows that match no sample of the data
    n_elsewhere: int = 0  # number of rows matched by position that name another sample

    def take(self, values: Array) -> Array:
        """Return the rows of `values` in the order of the samples; "" for samples without a row."""
        if (self.rows >= 0).all():
            return values[self.rows]
        return np.append(values, "")[self.rows]  # index -1 is the appended ""


@dataclass(frozen=True)
class Table:
    """A table of labels or covariates, with one row per sample."""

    what: str  # name for messages; the path of a file
    columns: Mapping[str, Array]  # (rows,) each, by name without a leading "#"
    assumed: str = ""  # sentence on the columns of a file without header
    remedies: tuple[str, str] = REMEDIES
    lines: tuple[int, ...] = ()  # (rows,), line numbers of the rows of a text file

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def column_name(self, name: str) -> str:
        """Return the name of a column without the header's "#"; InputError if it is unknown."""
        bare = name.removeprefix("#")
        if bare not in self.columns:
            assumed = f" ({self.assumed})" if self.assumed else ""
            raise InputError(
                f"{self.what} has no column {name!r}; its columns are "
                f"{abbreviate((repr(c) for c in self.columns), 20)}{assumed}."
                f"{did_you_mean(bare, self.columns)}"
            )
        return bare

    def column(self, name: str) -> Array:
        """Return the values of a column, (rows,)."""
        return self.columns[self.column_name(name)]

    def place(self, row: int) -> str:
        """Describe the position of a row, for messages."""
        return f"in line {self.lines[row]}" if self.lines else f"in row {row + 1}"

    def in_order(self, m: int, why: str = "as requested") -> RowOrder:
        """Match rows by position; InputError unless there are m rows.

        The note on the match ends with the reason, `why`.
        """
        if self.n_rows != m:
            raise InputError(
                f"{self.what} has {self.n_rows} rows, but the data have {m} samples. To match by "
                "position, pass one row per sample."
            )
        return RowOrder(np.arange(m), (), f"rows matched by position, {why}")

    def n_elsewhere(self, names: Array, wanted: tuple[str, ...] = ()) -> int:
        """Count the rows that name another sample of the data than the one at their position.

        `names` (m,) are the sample names of the data. Columns in `wanted` are values, not names.
        """
        text = {name: as_text(values) for name, values in self.columns.items()}
        keys = [key for key in Keys(text, wanted, as_text(names)).all() if key.counts]
        best = max(keys, key=lambda key: key.worth, default=None)
        if best is None or best.is_luck:
            return 0
        return int(((best.at >= 0) & (best.at != np.arange(best.at.size))).sum())

    def has_key(self, column: str) -> bool:
        """Whether the table has a column with this name; FID_IID means both FID and IID."""
        has_both = {FAMILY, SAMPLE} <= set(map(plain, self.columns))
        is_joined = has_both and plain(column) == JOINED
        return column.removeprefix("#") in self.columns or is_joined

    def by_name(
        self,
        names: Array | None,
        m: int,
        *,
        wanted: tuple[str, ...] = (),
        sample_column: str | None = None,
        drop_missing: bool = False,
        count_rows: bool = False,
    ) -> RowOrder:
        """Match rows by name, according to the rules of `dhsic.joins.table`.

        Parameters
        ----------
        names : (m,) array or None
            Sample names of the data.
        wanted : tuple of str
            Columns that contain labels or covariates, and therefore no names.
        sample_column : str, optional
            Column with the sample names; FID_IID for both FID and IID.
        drop_missing : bool
            Whether samples without a row are dropped.
        count_rows : bool
            Whether `names` are only numbers of the rows of the data, see `names_to_match`.
        """
        is_joined = sample_column not in self.columns and plain(sample_column or "") == JOINED
        if sample_column is not None and not is_joined:
            sample_column = self.column_name(sample_column)
        text = {name: as_text(values) for name, values in self.columns.items()}
        if names is None:
            self._check_nameless(text, wanted, sample_column)
            return self.in_order(m, "because neither the table nor the data have sample names")
        ours = as_text(names)
        if not pd.Index(ours).is_unique:
            repeated = np.unique(ours[pd.Index(ours).duplicated()].astype(str))
            raise InputError(
                f"Some sample names occur more than once in the data ({abbreviate(repeated)}), so "
                f"rows of {self.what} cannot be matched by name. Make sample names unique, or "
                f"{BY_POSITION}"
            )
        all_keys = Keys(text, wanted, ours, count_rows).all(sample_column)
        keys = [key for key in all_keys if key.counts]
        if not keys and count_rows and any(is_index(name, text[name]) for name in text):
            self._check_nameless(text, wanted, sample_column)
            return self.in_order(m, "for table and data only count their rows")
        if not keys:
            is_all = sample_column is None or sample_column not in text
            columns = {name: text[name] for name in text if is_all or name == sample_column}
            self._refuse_strangers(columns, wanted, ours)
        key = self._best(keys, ours)
        if not key.is_whole:
            refuse_other_start(self.what, key, ours, self._rewriting(key))
            is_certain = sample_column is not None or key.is_large
            self._check_lacking(key, ours, may_drop=drop_missing, is_certain=is_certain)
        return RowOrder(key.rows, key.columns, _note(key, ours), int((key.at < 0).sum()))

    def _check_nameless(
        self, text: Mapping[str, Array], wanted: tuple[str, ...], sample_column: str | None
    ) -> None:
        """Refuse a table with sample names if the data have none."""
        if sample_column is not None:
            raise InputError(
                f"{sample_column=} has no effect, because the data have no sample names to "
                "compare with. Remove it, and pass by_position=True to match rows by position."
            )
        for name in _ids(text, wanted):
            if not is_index(name, text[name]):
                raise InputError(
                    f"{self.what} has sample names (column {quoted(name)}: "
                    f"{abbreviate(text[name], 3)}), but the data have no sample names to compare "
                    "with. Pass by_position=True if the rows are in the order of the data, or add "
                    "a first column with these names to the data."
                )
        refuse_other_order(self.what, self.columns, wanted, BY_POSITION)

    def _rewriting(self, key: Key) -> Callable[[str], str]:
        """Return a function that turns a pandas expression into advice on renaming samples."""

        def advice(expression: str) -> str:
            column = key.columns[0]
            if len(key.columns) > 1 or column not in self.columns:
                return ""
            if self.lines:
                return WrittenColumn(key.description, column, self.what).rewritten(expression)
            values = f"{self.what}[{column!r}]"
            return f"{values} = {expression.format(v=values)}"

        return advice

    def _best(self, keys: list[Key], ours: Array) -> Key:
        """Return the key that matches all or most samples; InputError if others contradict it."""
        best, *other_keys = sorted(keys, key=lambda key: key.worth, reverse=True)
        if best.is_luck:
            raise InputError(
                f"Column {best.description} of {self.what} contains whole numbers, like the sample "
                f"names of the data ({abbreviate(ours)}). But the name of the column does not "
                "suggest ids, so the match may be due to chance. If the column contains the sample "
                f"names, {self.remedies[0]}; or {BY_POSITION}"
            )
        if best.repeated.size:
            raise InputError(
                f"In column {best.description} of {self.what}, some sample names occur more than "
                f"once ({abbreviate(best.repeated)}). Give each sample one row."
            )
        for other in other_keys:
            self._check_other(best, other)
        return best

    def _check_other(self, best: Key, other: Key) -> None:
        """Raise InputError if another key matches different rows and contradicts the best key."""
        differs = best.differs(other)
        if not differs.size or (best.is_whole and not (other.is_whole or other.is_id)):
            return
        raise InputError(
            f"{best.description} and {other.description} of {self.what} match different rows to "
            f"the samples of the data: the first matches {best.n_named} of {best.m} samples, and "
            f"the second {other.n_named}. For {len(differs)} of these samples, the rows differ. If "
            f"one of them contains the sample names, {self.remedies[0]}; or {BY_POSITION}"
        )

    def _refuse_strangers(
        self, text: Mapping[str, Array], wanted: tuple[str, ...], ours: Array
    ) -> NoReturn:
        """Raise InputError: no column contains sample names. Explain how the names differ."""
        self._check_turned(ours)
        differences = {name: difference(text[name], ours) for name in free(text, wanted)}
        differences |= self._family_difference(text, ours)
        likely = max(differences, key=lambda name: differences[name][1], default="")
        hint = ""
        if differences and differences[likely][1]:
            ids, hint = [likely], f" {differences[likely][0]}"
        else:  # with IID, FID contains family names
            ids = sorted(_ids(text, wanted), key=lambda name: plain(name) == FAMILY)
        if ids:
            problem = (
                f"Column {quoted(ids[0])} of {self.what} looks like sample names "
                f"({abbreviate(text[ids[0]])}), but none of them is in the data "
                f"({abbreviate(ours)})"
            )
        else:
            problem = (
                f"No column of {self.what} contains the sample names of the data "
                f"({abbreviate(ours)}); its columns are {abbreviate(map(repr, text), 20)}"
            )
        if ids and not hint:
            hint = f" {containment(text[ids[0]], ours)}".rstrip()
        if hint and (remedy := self._renamed(ids[0], text[ids[0]], ours)):
            raise InputError(f"{problem}.{hint} {remedy}")
        remedy = f"or {self.remedies[0]}." if hint else f"{self.remedies[0]}, or {BY_POSITION}"
        raise InputError(f"{problem}.{hint} Make the names the same, {remedy}")

    def _check_turned(self, ours: Array) -> None:
        """Raise InputError if most samples of the data are columns of the table."""
        columns = [name for name in ours if name in self.columns]
        if 2 * len(columns) <= len(ours):
            return
        command = ""
        if self.lines:
            top = Delimited(self.what)
            sep = {"": r"r'\s+'"}.get(top.separator, repr(top.separator))
            command = (
                f': python -c "import pandas as p; p.read_csv({self.what!r}, sep={sep}, '
                f"skiprows={top.top.n_skipped}, index_col=0, dtype=str, keep_default_na=False, "
                "skipinitialspace=True).T.to_csv('NEW.csv', index_label='id')\", then pass NEW.csv"
            )
        raise InputError(
            f"Columns of {self.what} are samples of the data ({abbreviate(columns, 3)}), but a "
            f"table of labels or covariates has one row per sample. Transpose it{command}."
        )

    def _renamed(self, column: str, names: Array, ours: Array) -> str:
        """Return advice on how to make the names of a column equal to the data's; "" if unknown."""
        change, setup = renaming_expression(names, ours, "'DATA'" if self.lines else "X")
        if not change:
            return ""
        if not self.lines:
            where = f"{self.what}[{column!r}]"
            setup = f"import re; {setup}" if "re." in change else setup
            return (
                f"Make the names the same: {setup}{where} = [{change} for s in "
                f"{where}.astype(str)]."
            )
        top = Delimited(self.what)
        if top.names is None or column not in top.names:
            return f"Make the names the same; for each name s of the table: {setup}{change}."
        sep = {"": r"r'\s+'"}.get(top.separator, repr(top.separator))
        at, skipped = top.names.index(column), top.top.n_skipped
        return (
            f"Make the names the same{' (DATA is the path of the data)' if setup else ''}: "
            f'python -c "import re, pandas as p; {setup}t = p.read_csv({self.what!r}, sep={sep}, '
            f"skiprows={skipped}, dtype=str, keep_default_na=False, skipinitialspace=True); c = "
            f"t.columns[{at}]; t[c] = [{change} for s in t[c].str.strip()]; t.to_csv('NEW.tsv', "
            "sep='\\t', index=False)\". Then pass NEW.tsv."
        )

    @staticmethod
    def _family_difference(text: Mapping[str, Array], ours: Array) -> dict[str, tuple[str, int]]:
        """Explain how the names of the data differ from IID, or from FID_IID, see `difference`.

        The key of the result is the IID column. The result is {} if FID or IID is lacking.
        """
        by_name = {plain(name): name for name in text}
        if not {FAMILY, SAMPLE} <= set(by_name):
            return {}
        iid = by_name[SAMPLE]
        pairs = zip(text[by_name[FAMILY]], text[iid], strict=True)
        of_both = difference((f"{fid}_{sample}" for fid, sample in pairs), ours)
        of_iid = difference(text[iid], ours)
        return {iid: max(of_both, of_iid, key=lambda sentence_and_count: sentence_and_count[1])}

    def _check_lacking(self, key: Key, ours: Array, *, may_drop: bool, is_certain: bool) -> None:
        """Refuse samples without a row, unless they may be dropped and the match is certain."""
        lacking = ours[key.rows < 0]
        if set(lacking) & set(self.columns):
            raise InputError(
                f"The first row of {self.what} contains a sample name of the data "
                f"({abbreviate(self.columns)}), but it should contain the column names. Add a "
                "row of column names."
            )
        unknown = key.values[key.at < 0]
        spelling, n_alike = difference(unknown, lacking)
        if may_drop and is_certain and BLANKS not in spelling:
            return
        n_unknown = len(unknown)
        hints = ""
        if n_unknown:
            hints = f" It also has {n_unknown} name{'s' * (n_unknown > 1)} not in the data."
        if may_drop and not is_certain:
            hints += " Only few samples match, which may be chance."
        advice = ""
        if spelling:
            hints += f" {spelling.replace('They', f'{n_alike} of these names', 1)}"
            advice = self._renamed(key.columns[0], key.values, ours) if self._is_column(key) else ""
        remedies = [advice] if advice else []
        if not (advice and (n_alike == len(lacking) or BLANKS in spelling)):
            remedies.append(f"{self.remedies[1]}, or {self.remedies[0]}.")
        raise InputError(
            f"Column {key.description} of {self.what} lacks {len(lacking)} of the {key.m} samples "
            f"of the data: {abbreviate(lacking)}.{hints} {' '.join(remedies)}"
        )

    def _is_column(self, key: Key) -> bool:
        """Whether a key is one named column of the table."""
        return len(key.columns) == 1 and key.columns[0] in self.columns


def _ids(text: Mapping[str, Array], wanted: tuple[str, ...]) -> list[str]:
    """Return the columns that contain sample names, judged by the column name or the values."""
    return [name for name in free(text, wanted) if is_id(name) or names_rows(text[name])]


def _note(key: Key, ours: Array) -> str:
    """Return a sentence on how rows were matched by a key to the samples `ours` (m,)."""
    named_rows = key.rows[key.rows >= 0]
    order = "the same" if (np.diff(named_rows) > 0).all() else "another"
    columns = f" ({key.description})" if key.columns != ("",) else ""
    note = f"rows matched by sample name{columns}, in {order} order"
    n_ignored, n_lacking = int((key.at < 0).sum()), int((key.rows < 0).sum())
    if n_ignored:
        note += f"; {n_ignored:,} rows of other samples were ignored"
    if n_lacking:
        note += f"; {n_lacking:,} samples of the data have no row"
    spelling, n_alike = difference(key.values[key.at < 0], ours[key.rows < 0])
    if spelling.startswith("They "):
        names = f"; {n_alike:,} ignored name{'s differ' if n_alike > 1 else ' differs'}"
        note += spelling[:-1].replace("They differ", names, 1)
    return note
