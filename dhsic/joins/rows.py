"""Which row of a table is which sample: by name, or by position where somebody says so.

The rule, for tables of the command line and frames of Python alike:

1. Keys are all columns of the table but those that are wanted as values and those that name
   parents, and FID and IID joined by "_". Only where none of them names a sample, and nobody is
   of a family, are ids tried that one side writes twice (``1_1`` for ``1``).
2. The key that names *all* samples is used. It is refused where a sample has several rows, and
   where another key says otherwise: any that names all samples too, or a column of ids that names
   some of them by other rows. Columns of ids that name any sample go before others, FID and one
   without a name after the rest. A FID that repeats, beside an IID, is a family and says nothing.
3. Without such a key the table is refused, with the counts of the one that names most. Where
   samples may be left out, that one is used if it names half of the samples, or half of the rows
   name some, and no other says otherwise.
4. What may be luck is no key: whole numbers in a column that is not called like ids, where the
   names of the samples are a dense range of whole numbers; a nameless count of rows, which is what
   programs write for an index, unless it changes no order.
5. Rows go by position where that is asked for, or where neither side names anything: the data have
   no sample names, and the table has no column of ids and a row for each sample.

A column holds ids by what it is called (`dhsic.joins.keys.is_id`); in a table for data without
names, by what it holds too: a word of its own in every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.joins.keys import (
    JOINED,
    Key,
    Keys,
    as_text,
    free,
    is_id,
    is_index,
    names_rows,
    plain,
    quoted,
    some,
)


@dataclass(frozen=True)
class RowOrder:
    """Which row of a table is which sample.

    Attributes
    ----------
    rows : (m,) int64
        Row of every sample, in the order of the samples; -1 where the table has none.
    key : tuple of str
        Columns with the sample names; empty where rows were taken in order.
    note : str
        How it came about, for people.
    n_passed_over : int
        Rows of no sample of the data.
    """

    rows: Index
    key: tuple[str, ...]
    note: str
    n_passed_over: int = 0

    def take(self, values: Array) -> Array:
        """Rows of the table in the order of the samples; "" where it lacks one."""
        if (self.rows >= 0).all():
            return values[self.rows]
        return np.append(values, "")[self.rows]  # the last one, at -1


@dataclass(frozen=True)
class Ways:
    """What a caller may do about a table that does not fit, for sentences."""

    key: str
    lacking: str


@dataclass(frozen=True)
class TableRows:
    """Rows of a table that are to be matched to the m samples of the data.

    Attributes
    ----------
    columns : mapping of str to (rows,) array
        The table.
    wanted : tuple of str
        Columns that hold labels or covariates, so no names.
    m : int
        Number of samples.
    what, ways
        How messages call the table, and what they say can be done.
    """

    columns: Mapping[str, Array]
    wanted: tuple[str, ...]
    m: int
    what: str
    ways: Ways

    def joins(self, said: str) -> bool:
        """Whether a column that somebody says is none, but FID and IID joined."""
        return said not in self.columns and plain(said) == JOINED

    def in_order(self, why: str = "as asked for") -> RowOrder:
        """Take rows as they come; refused where there are more or fewer than samples."""
        n_rows = len(next(iter(self.columns.values())))
        if n_rows != self.m:
            raise InputError(
                f"{self.what} has {n_rows} rows and the data have {self.m} samples; to go by "
                "position, pass one row a sample."
            )
        order = np.arange(self.m, dtype=np.int64)
        return RowOrder(order, (), f"rows taken in order, by position, {why}")

    def by_name(
        self, names: Array | None, *, said: str | None = None, drop_missing: bool = False
    ) -> RowOrder:
        """Match rows by name, as the rule above has it.

        Parameters
        ----------
        names : (m,) array or None
            Sample names of the data.
        said : str, optional
            The column with the sample names.
        drop_missing : bool
            Samples that the table lacks are left out.

        Raises
        ------
        InputError
            Rows cannot be matched, or not in one way only.
        """
        text = {name: as_text(values) for name, values in self.columns.items()}
        if names is None:
            self._check_nameless(text, said)
            return self.in_order("for neither the table nor the data name samples")
        ours = as_text(names)
        self._check_unique(ours)
        key = self._chosen(Keys(text, self.wanted, ours).all(said), text, ours)
        if not key.is_whole:
            is_sure = key.n_named > 0 and (said is not None or key.is_large)
            self._check_lacking(key, ours, is_asked=drop_missing, is_sure=is_sure)
        return RowOrder(key.rows, key.columns, _note(key), int((key.at < 0).sum()))

    def _check_nameless(self, text: Mapping[str, Array], said: str | None) -> None:
        """Refuse a table that names samples where the data have no names."""
        if said is not None:
            raise InputError(
                f"sample_column={said!r} was given, and the data have no sample names to compare "
                "with; leave it out, and pass by_position=True to take the rows in order."
            )
        ids = [name for name in _ids(text, self.wanted) if not is_index(name, text[name])]
        if ids:
            raise InputError(
                f"{self.what} names its rows (column {quoted(ids[0])}: {some(text[ids[0]], 3)}), "
                "and the data have no sample names to compare with. Pass by_position=True if the "
                "rows are in the order of the data."
            )

    def _check_unique(self, ours: Array) -> None:
        index = pd.Index(ours)
        if not index.is_unique:
            twice = np.unique(ours[index.duplicated()].astype(str))
            raise InputError(
                f"The data name {len(twice)} samples more than once ({some(twice)}), so rows of "
                f"{self.what} cannot be matched by name; make sample names unique, or pass "
                "by_position=True if the rows are in the order of the data."
            )

    def _chosen(self, keys: list[Key], text: Mapping[str, Array], ours: Array) -> Key:
        """The key that names all samples, or most of them; refused where others differ."""
        able = sorted((k for k in keys if k.counts), key=lambda k: k.worth, reverse=True)
        if not able:
            self._refuse_strangers(text, ours)
        best = able[0]
        if best.is_luck:
            raise InputError(
                f"Column {best.told} of {self.what} holds whole numbers, as the names of the "
                f"samples are ({some(ours)}), and may be no names: it is not called like ids. If "
                f"it holds the names of the samples, {self.ways.key}; or pass by_position=True if "
                "the rows are in the order of the data."
            )
        if best.repeated.size:
            raise InputError(
                f"Column {best.told} of {self.what} names {len(best.repeated)} samples more than "
                f"once ({some(best.repeated)}); make sample names unique, a row each."
            )
        for other in able[1:]:
            self._check_other(best, other)
        return best

    def _check_other(self, best: Key, other: Key) -> None:
        """Refuse a key that says otherwise than the best."""
        differs = best.differs(other)
        if not differs.size or (best.is_whole and not (other.is_whole or other.is_id)):
            return
        raise InputError(
            f"{best.told} and {other.told} of {self.what} name samples of the data in ways that "
            f"differ: the first names {best.n_named} of {self.m}, the second {other.n_named}, and "
            f"{len(differs)} of them by other rows. If one of them holds the names of the "
            f"samples, {self.ways.key}; or pass by_position=True if the rows are in the order of "
            "the data."
        )

    def _refuse_strangers(self, text: Mapping[str, Array], ours: Array) -> NoReturn:
        ids = _ids(text, self.wanted)
        if ids:
            problem = (
                f"Column {quoted(ids[0])} of {self.what} looks like names ({some(text[ids[0]])}), "
                f"and none of them is a sample of the data ({some(ours)})"
            )
        else:
            problem = (
                f"No column of {self.what} names the samples of the data ({some(ours)}); it has "
                f"{some(map(repr, text), 20)}"
            )
        raise InputError(
            f"{problem}. Make names the same, {self.ways.key}, or pass by_position=True if the "
            "rows are in the order of the data."
        )

    def _check_lacking(self, key: Key, ours: Array, *, is_asked: bool, is_sure: bool) -> None:
        """Refuse samples without a row, unless they may be left out and the key is sure."""
        lacking = ours[key.rows < 0]
        if set(lacking) & set(self.columns):
            raise InputError(
                f"The first row of {self.what} names a sample of the data "
                f"({some(self.columns)}), and the names of the columns are expected there; write "
                "a row of them."
            )
        if is_asked and is_sure:
            return
        more = int((key.at < 0).sum())
        luck = " Those that it names are few, and may be there by luck." if is_asked else ""
        raise InputError(
            f"Column {key.told} of {self.what} lacks {len(lacking)} of the {self.m} samples of "
            f"the data: {some(lacking)}. It names {more} that they do not have.{luck} "
            f"{self.ways.lacking}, or {self.ways.key}."
        )


def _ids(text: Mapping[str, Array], wanted: Iterable[str]) -> list[str]:
    """Columns that name rows, by what they are called or hold."""
    return [name for name in free(text, tuple(wanted)) if is_id(name) or names_rows(text[name])]


def _note(key: Key) -> str:
    """What was done, for people."""
    taken = key.rows[key.rows >= 0]
    order = "the same" if (np.diff(taken) > 0).all() else "another"
    told = f" ({key.told})" if key.columns != ("",) else ""
    note = f"rows matched by sample name{told}, in {order} order"
    more, lacking = int((key.at < 0).sum()), int((key.rows < 0).sum())
    if more:
        note += f"; {more:,} rows of samples that the data do not have were passed over"
    if lacking:
        note += f"; {lacking:,} samples of the data are not there"
    return note
