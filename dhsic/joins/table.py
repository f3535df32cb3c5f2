"""Tables of labels and covariates, and which of their rows is which sample.

They are frames of Python, or text (`dhsic.joins.text`). Arrays of NumPy go by position. Where both
sides carry names (the index of pandas, the coordinate of xarray, the sample names of a store) and
the names say otherwise, position is wrong, and silently so; then there is an error. Columns of ids
are names, never values.

The rule, for tables and frames with columns of ids alike:

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

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.joins.keys import (
    FAMILY,
    JOINED,
    SAMPLE,
    Key,
    Keys,
    as_text,
    free,
    is_count,
    is_whole,
    names_rows,
    quoted,
)
from dhsic.joins.likeness import difference, lengthening, renaming
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import PARENTS, abbreviate, did_you_mean, is_id, is_index, plain
from dhsic.validation import as_array

#: What callers may do about a table that does not fit: about its key, about samples that it lacks.
REMEDIES = "drop the columns that do not hold them", "Take the samples that both have"
BY_POSITION = "pass by_position=True if the rows are in the order of the data."


@dataclass(frozen=True)
class RowOrder:
    """Which row of a table is which sample."""

    rows: Index  # (m,), row of every sample in the order of the samples, -1 where there is none
    key: tuple[str, ...]  # columns with the sample names; empty where rows were taken in order
    note: str  # how it came about, for people
    n_passed_over: int = 0  # rows of no sample of the data
    n_elsewhere: int = 0  # rows taken in order that name a sample at another place

    def take(self, values: Array) -> Array:
        """Rows of the table in the order of the samples; "" where it lacks one."""
        if (self.rows >= 0).all():
            return values[self.rows]
        return np.append(values, "")[self.rows]  # the last one, at -1


@dataclass(frozen=True)
class Table:
    """A table, with a row for each of some samples."""

    what: str  # how messages call it; the path of a file
    columns: Mapping[str, Array]  # (rows,) each, by name without a leading "#"
    assumed: str = ""  # what was assumed of a file without a header, for people
    remedies: tuple[str, str] = REMEDIES
    lines: tuple[int, ...] = ()  # (rows,), where rows stand in a file of text

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def column_name(self, name: str) -> str:
        """Name of a column, which may be written with or without the "#" of a header."""
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
        """Values of a column, (rows,)."""
        return self.columns[self.column_name(name)]

    def place(self, row: int) -> str:
        """Where a row stands, for sentences."""
        return f"in line {self.lines[row]}" if self.lines else f"in row {row + 1}"

    def in_order(self, m: int, why: str = "as asked for") -> RowOrder:
        """Take rows as they come; refused where there are more or fewer than the m samples."""
        if self.n_rows != m:
            raise InputError(
                f"{self.what} has {self.n_rows} rows and the data have {m} samples; to go by "
                "position, pass one row a sample."
            )
        return RowOrder(np.arange(m), (), f"rows taken in order, by position, {why}")

    def n_elsewhere(self, names: Array, wanted: tuple[str, ...] = ()) -> int:
        """Rows that name a sample of the data other than the one at their place.

        Names are those of the samples; what is `wanted` as values names none.
        """
        text = {name: as_text(values) for name, values in self.columns.items()}
        keys = [key for key in Keys(text, wanted, as_text(names)).all() if key.counts]
        best = max(keys, key=lambda key: key.worth, default=None)
        if best is None or best.is_luck:
            return 0
        return int(((best.at >= 0) & (best.at != np.arange(best.at.size))).sum())

    def has_key(self, said: str) -> bool:
        """Whether it has the column that somebody said; FID_IID are both of them."""
        both = {FAMILY, SAMPLE} <= set(map(plain, self.columns))
        return said.removeprefix("#") in self.columns or (both and plain(said) == JOINED)

    def by_name(
        self,
        names: Array | None,
        m: int,
        *,
        wanted: tuple[str, ...] = (),
        said: str | None = None,
        drop_missing: bool = False,
    ) -> RowOrder:
        """Match rows by name, as the rule above has it.

        Parameters
        ----------
        names : (m,) array or None
            Sample names of the data.
        wanted : tuple of str
            Columns that hold labels or covariates, so no names.
        said : str, optional
            The column with the sample names; FID_IID for both of them.
        drop_missing : bool
            Samples that the table lacks are left out.
        """
        if said is not None and (said in self.columns or plain(said) != JOINED):
            said = self.column_name(said)
        text = {name: as_text(values) for name, values in self.columns.items()}
        if names is None:
            self._check_nameless(text, wanted, said)
            return self.in_order(m, "for neither the table nor the data name samples")
        ours = as_text(names)
        if not pd.Index(ours).is_unique:
            twice = np.unique(ours[pd.Index(ours).duplicated()].astype(str))
            raise InputError(
                f"The data name {len(twice)} samples more than once ({abbreviate(twice)}), so rows "
                f"of {self.what} cannot be matched by name; make sample names unique, or "
                f"{BY_POSITION}"
            )
        able = [key for key in Keys(text, wanted, ours).all(said) if key.counts]
        if not able:
            self._refuse_strangers(text, wanted, ours)
        key = self._best(able, ours)
        if not key.is_whole:
            is_sure = said is not None or key.is_large
            self._check_lacking(key, ours, is_asked=drop_missing, is_sure=is_sure)
        return RowOrder(key.rows, key.columns, _note(key), int((key.at < 0).sum()))

    def _check_nameless(
        self, text: Mapping[str, Array], wanted: tuple[str, ...], said: str | None
    ) -> None:
        """Refuse a table that names samples where the data have no names."""
        if said is not None:
            raise InputError(
                f"sample_column={said!r} was given, and the data have no sample names to compare "
                "with; leave it out, and pass by_position=True to take the rows in order."
            )
        for name in _ids(text, wanted):
            if not is_index(name, text[name]):
                raise InputError(
                    f"{self.what} names its rows (column {quoted(name)}: "
                    f"{abbreviate(text[name], 3)}), and the data have no sample names to compare "
                    "with. Pass by_position=True if the rows are in the order of the data."
                )

    def _best(self, able: list[Key], ours: Array) -> Key:
        """The key that names all samples, or most of them; refused where others differ."""
        best, *other_keys = sorted(able, key=lambda key: key.worth, reverse=True)
        if best.is_luck:
            raise InputError(
                f"Column {best.told} of {self.what} holds whole numbers, as the names of the "
                f"samples are ({abbreviate(ours)}), and may be no names: it is not called like "
                f"ids. If it holds the names of the samples, {self.remedies[0]}; or {BY_POSITION}"
            )
        if best.repeated.size:
            raise InputError(
                f"Column {best.told} of {self.what} names {len(best.repeated)} samples more than "
                f"once ({abbreviate(best.repeated)}); make sample names unique, a row each."
            )
        for other in other_keys:
            self._check_other(best, other)
        return best

    def _check_other(self, best: Key, other: Key) -> None:
        differs = best.differs(other)
        if not differs.size or (best.is_whole and not (other.is_whole or other.is_id)):
            return
        raise InputError(
            f"{best.told} and {other.told} of {self.what} name samples of the data in ways that "
            f"differ: the first names {best.n_named} of {best.m}, the second {other.n_named}, and "
            f"{len(differs)} of them by other rows. If one of them holds the names of the "
            f"samples, {self.remedies[0]}; or {BY_POSITION}"
        )

    def _refuse_strangers(
        self, text: Mapping[str, Array], wanted: tuple[str, ...], ours: Array
    ) -> NoReturn:
        alike = {name: difference(text[name], ours) for name in free(text, wanted)}
        alike |= self._alike_by_family(text, ours)
        likely = max(alike, key=lambda name: alike[name][1], default="")
        hint = ""
        if alike and alike[likely][1]:
            ids, hint = [likely], f" {alike[likely][0]}"
        else:  # FID names families where there is an IID
            ids = sorted(_ids(text, wanted), key=lambda name: plain(name) == FAMILY)
        if ids:
            problem = (
                f"Column {quoted(ids[0])} of {self.what} looks like names "
                f"({abbreviate(text[ids[0]])}), and none of them is a sample of the data "
                f"({abbreviate(ours)})"
            )
        else:
            problem = (
                f"No column of {self.what} names the samples of the data ({abbreviate(ours)}); it "
                f"has {abbreviate(map(repr, text), 20)}"
            )
        if hint and (remedy := self._renamed(likely, text[likely], ours)):
            raise InputError(f"{problem}.{hint} {remedy}")
        raise InputError(
            f"{problem}.{hint} Make names the same, {self.remedies[0]}, or {BY_POSITION}"
        )

    def _renamed(self, column: str, names: Array, ours: Array) -> str:
        """How to write the names of a column as the data have them; "" where no rule does."""
        change, setup = _renaming(names, ours, "'DATA'" if self.lines else "X")
        if not change:
            return ""
        if not self.lines:
            where = f"{self.what}[{column!r}]"
            return (
                f"Make names the same: import re; {setup}{where} = [{change} for s in "
                f"{where}.astype(str)]."
            )
        top = Delimited(self.what)
        if top.names is None or column not in top.names:
            return f"Make names the same, for each name s there: {setup}{change}."
        sep = {"": r"r'\s+'"}.get(top.separator, repr(top.separator))
        at, skipped = top.names.index(column), top.top.n_skipped
        return (
            f"Make names the same{', DATA being the data' if setup else ''}: "
            f'python -c "import re, pandas as p; {setup}t = p.read_csv('
            f"{self.what!r}, sep={sep}, skiprows={skipped}, dtype=str, keep_default_na=False, "
            f"skipinitialspace=True); c = t.columns[{at}]; t[c] = [{change} for s in "
            f"t[c].str.strip()]; t.to_csv('NEW.tsv', sep='\\t', index=False)\". Then pass NEW.tsv."
        )

    @staticmethod
    def _alike_by_family(text: Mapping[str, Array], ours: Array) -> dict[str, tuple[str, int]]:
        """How FID and IID, joined, differ from the names of the data, by the column of IID."""
        by_name = {plain(name): name for name in text}
        if not {FAMILY, SAMPLE} <= set(by_name):
            return {}
        iid = by_name[SAMPLE]
        pairs = zip(text[by_name[FAMILY]], text[iid], strict=True)
        joined = difference((f"{fid}_{sample}" for fid, sample in pairs), ours)
        own = difference(text[iid], ours)
        return {iid: max(joined, own, key=lambda one: one[1])}

    def _check_lacking(self, key: Key, ours: Array, *, is_asked: bool, is_sure: bool) -> None:
        """Refuse samples without a row, unless they may be left out and the key is sure."""
        lacking = ours[key.rows < 0]
        if set(lacking) & set(self.columns):
            raise InputError(
                f"The first row of {self.what} names a sample of the data "
                f"({abbreviate(self.columns)}), and the names of the columns are expected there; "
                "write a row of them."
            )
        if is_asked and is_sure:
            return
        more = int((key.at < 0).sum())
        luck = " Those that it names are few, and may be there by luck." if is_asked else ""
        told, n_alike = difference(key.values[key.at < 0], lacking)
        luck += f" {told.replace('They', f'{n_alike} of these', 1)}" if told else ""
        if told and len(key.columns) == 1 and key.columns[0] in self.columns:
            renamed = self._renamed(key.columns[0], key.values, ours)
            luck += f" {renamed}" if renamed else ""
        raise InputError(
            f"Column {key.told} of {self.what} lacks {len(lacking)} of the {key.m} samples of "
            f"the data: {abbreviate(lacking)}. It names {more} that they do not have.{luck} "
            f"{self.remedies[1]}, or {self.remedies[0]}."
        )


def _ids(text: Mapping[str, Array], wanted: tuple[str, ...]) -> list[str]:
    """Columns that name rows, by what they are called or hold."""
    return [name for name in free(text, wanted) if is_id(name) or names_rows(text[name])]


def _note(key: Key) -> str:
    named_rows = key.rows[key.rows >= 0]
    order = "the same" if (np.diff(named_rows) > 0).all() else "another"
    told = f" ({key.told})" if key.columns != ("",) else ""
    note = f"rows matched by sample name{told}, in {order} order"
    more, lacking = int((key.at < 0).sum()), int((key.rows < 0).sum())
    if more:
        note += f"; {more:,} rows of samples that take no part were passed over"
    if lacking:
        note += f"; {lacking:,} samples of the data are not there"
    return note


def in_pandas(given: Any) -> Any:
    """A frame or series of polars as pandas has it, nulls as NaN or None; others as they are."""
    if type(given).__module__.partition(".")[0] != "polars":
        return given
    if hasattr(given, "collect"):
        raise InputError("A LazyFrame of polars is a query, not data. Pass its .collect().")
    if hasattr(given, "columns"):
        return pd.DataFrame({name: _of_polars(given[name]) for name in given.columns})
    return pd.Series(_of_polars(given), name=given.name or None)


def _of_polars(series: Any) -> Array:
    """Values of a series of polars; decimal numbers and columns of nothing as floats."""
    kind = str(series.dtype)
    is_float = kind.startswith("Decimal") or kind == "Null"
    return np.asarray(series.cast(float).to_numpy() if is_float else series.to_numpy())


def names_of(given: Any) -> Array | None:
    """Names that a pandas or xarray object carries for its rows, or None."""
    if hasattr(given, "iloc"):  # pandas, whose names are its index
        return np.asarray(given.index)
    dims = getattr(given, "dims", ())
    if hasattr(given, "coords") and isinstance(dims, tuple) and dims and dims[0] in given.coords:
        return np.asarray(given.coords[dims[0]].values)
    return None


def id_columns(given: Any) -> list[Hashable]:
    """Columns of a frame that hold ids: by what they are called, or a word of its own in each row.

    A word is no name where there is no other column.
    """
    if not (hasattr(given, "iloc") and hasattr(given, "columns")):
        return []

    def names(i: int, dtype: Any) -> bool:
        is_text = not pd.api.types.is_numeric_dtype(dtype) and dtype.kind not in "mM"
        return len(given.columns) > 1 and is_text and names_rows(as_text(given.iloc[:, i]))

    return [
        name
        for i, (name, dtype) in enumerate(zip(given.columns, given.dtypes, strict=True))
        if (is_id(name) and isinstance(name, str)) or names(i, dtype)
    ]


def values_of(given: Any, what: str) -> Array:
    """Labels or covariates as an array, without columns of ids."""
    ids = id_columns(given)
    if not ids:
        return as_array(given, what)
    if len(ids) == len(given.columns):
        raise InputError(
            f"{what} has no column but {', '.join(map(repr, ids))}, which name samples. Pass "
            f"values too; or {what}.to_numpy() if these are the values."
        )
    return as_array(given.drop(columns=ids), what)


def join(
    names: Array | None,
    given: Any,
    what: str,
    *,
    by_position: bool = False,
    remedy: str | None = None,
) -> RowOrder | None:
    """Match labels or covariates (`what`) to the samples of the data; None leaves them in order.

    `names` are those of the samples (m,); `given` has its own, if any. With `by_position` rows are
    in the order of the samples, whatever they are called; `remedy` is an expression that puts them
    in order, for people.
    """
    ids = [] if by_position else [c for c in id_columns(given) if plain(c) not in PARENTS]
    if not ids:
        check_order(names, given, what, remedy, by_position=by_position)
        return None
    columns = {str(name): np.asarray(given[name]) for name in ids}
    row_names = None if names is None or is_count(names) else names
    index = given.index
    is_same = names is not None and np.array_equal(as_text(names), as_text(index))
    if index.name is not None or is_same or not is_whole(index):
        columns[str(index.name or "index")] = np.asarray(index)
    m = len(given) if row_names is None else len(row_names)
    return Table(what, columns).by_name(row_names, m)


def in_order(
    X: Any,
    given: Any,
    what: str,
    values: Array | None = None,
    *,
    by_position: bool = False,
    remedy: str | None = None,
) -> Array:
    """Labels or covariates as an array, in the order of the samples of X, which is in memory.

    `values` are those of `given`, where they are known.
    """
    alignment = join(names_of(X), given, what, remedy=remedy, by_position=by_position)
    values = values_of(given, what) if values is None else values
    return values if alignment is None else alignment.take(values)


def check_order(
    samples: Array | None,
    given: Any,
    what: str,
    remedy: str | None = None,
    *,
    by_position: bool = False,
) -> None:
    """Refuse labels or covariates (`what`) that name other samples than the data, or another order.

    A count 0, 1, 2, ..., which pandas gives where nobody named anything, says nothing; unless the
    other side holds whole numbers some of which are the same, so that both may be of one frame.
    Parameters are those of `join`, `samples` the names of the data's.
    """
    theirs = names_of(given)
    if by_position or samples is None or theirs is None or len(samples) != len(theirs):
        return
    ours, row_names = as_text(samples), as_text(theirs)
    if (ours == row_names).all():
        return
    if is_count(samples) or is_count(theirs):
        shared = len(set(ours) & set(row_names))
        are_numbers = is_whole(samples) and is_whole(theirs)
        if shared == 0 or (not are_numbers and shared < len(set(samples))):
            return
    first = next(
        i for i, pair in enumerate(zip(ours, row_names, strict=True)) if pair[0] != pair[1]
    )
    problem = f"sample {first} is {ours[first]!r} in X and {row_names[first]!r} in {what}"
    position = "by_position=True if the rows belong together by position"
    lacking = len(set(ours) - set(row_names))
    if lacking:
        told, _ = difference(row_names, set(ours) - set(row_names))
        raise InputError(
            f"Samples of {what} are others than those of X: {lacking} of X's {len(set(ours))} "
            f"names are not among them ({problem}). "
            f"{_explain_mismatch(told, what, row_names, ours)}Take the samples that both have, or "
            f"pass {position}."
        )
    if len(set(ours)) < len(ours):
        raise InputError(
            f"Samples are in another order in {what} than in X ({problem}), and names repeat, so "
            f"they cannot be matched. Make names unique, or pass {position}."
        )
    in_pandas = hasattr(given, "iloc")
    put = ".loc[X.index]" if in_pandas else f".sel({given.dims[0]}=X[{given.dims[0]!r}])"
    raise InputError(
        f"Samples are in another order in {what} than in X: {problem}. Pass "
        f"{remedy or f'{what}{put}'}, or {position}."
    )


def _renaming(names: Array, ours: Array, data: str) -> tuple[str, str]:
    """Return an expression of s that renames a sample, and statements that go before it.

    `data` are the data in Python. Both are "" where no rule makes names the same.
    """
    if change := renaming(names, ours):
        return change, ""
    if not (long_names := lengthening(names, ours)):
        return "", ""
    samples = f"dhsic.open_source({data}).sample_names()"
    return "names.get(s, s)", f"import dhsic; names = {long_names.format(samples=samples)}; "


def _explain_mismatch(told: str, what: str, named: Array, ours: Array) -> str:
    """How names of an index differ from those of the data, and what makes them the same."""
    change, setup = _renaming(named, ours, "X") if told else ("", "")
    if not change:
        return f"{told} " if told else ""
    return (
        f"{told} Make them the same: import re; {setup}{what}.index = [{change} for s in "
        f"{what}.index.astype(str)]. Otherwise: "
    )
