"""Columns of tables: which of them name rows, which are features, and which are neither.

Columns that are no features (labels, covariates) are said by name; so are ids, and what a published
format has beside its values. Tables of text are read by `dhsic.sources.text_tables`, those of
Parquet by `dhsic.sources.parquet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.memory import available_bytes, human
from dhsic.sources.ids import (
    PARENTS,
    abbreviate,
    did_you_mean,
    is_id,
    is_index,
    names_rows_by_name,
    plain,
)
from dhsic.sources.options import OpenOptions, says_names
from dhsic.sources.table_formats import TableFormat, phenotypes_of_plink


def refuse_parts(path: str, options: OpenOptions) -> None:
    """Refuse the name of a part of a file of one matrix."""
    if options.variable is not None:
        raise InputError(
            f"{path} holds one matrix, and variable={options.variable!r} names a part of a store. "
            "Leave it out."
        )


def check_room(n_bytes: int, path: str, shape: tuple[int, ...]) -> None:
    """Refuse what is read whole and does not fit into memory."""
    there = available_bytes()
    if n_bytes > there:
        raise MemoryBudgetError(
            f"{path} holds a table of {shape[0]:,} x {shape[1]:,}; reading it takes "
            f"{human(n_bytes)}, and there are {human(there)}. Make it a store, which is read in "
            "blocks: dhsic convert PATH OUT.zarr."
        )


def is_turned(options: OpenOptions, path: str, convention: int = 1) -> bool:
    """Whether the columns of a table are samples, and its rows features.

    `convention` is the axis of the features where nobody says it.
    """
    only = replace(options, n_samples=None)
    return only.feature_axis((0, 0), None, path, convention=convention) == 0


@dataclass(frozen=True)
class TableColumns:
    """Roles of the columns of a table, by position: row names, other columns, features."""

    names: tuple[str, ...]  # "column 1" and so on where no line names them
    are_named: bool
    ids: tuple[int, ...]
    apart: tuple[int, ...]
    numbers: tuple[int, ...]
    assumed: tuple[int, ...] = ()  # those apart that nobody named: ids, sex and phenotype of PLINK

    @classmethod
    def of(
        cls,
        names: Sequence[str] | int,
        apart: Sequence[str],
        *,
        is_text: bool,
        turned: bool,
        known: TableFormat | None = None,
    ) -> TableColumns:
        """Tell columns, names or so many, by these and by whether the first one `is_text`.

        The first one names the rows, if it is text or called like ids; ids of PLINK and others
        with an underscore may follow, unless columns are samples (`turned`). Further columns that
        are called like ids are no features, nor are those of a `known` format about features.
        """
        are_named, n_ids = not isinstance(names, int), 0
        called = tuple(
            [f"column {i + 1}" for i in range(names)] if isinstance(names, int) else names
        )
        if known is not None:
            ids = (called.index(known.names),)
            held = [i for i, name in enumerate(called) if name in known.about]
            return cls._split(called, ids, apart, held)
        is_called = are_named and (is_id(called[0]) or says_names(called[0], of_features=turned))
        if called[0] not in apart and (is_text or is_called):
            n_ids = 1
            while are_named and not turned and n_ids < len(called):
                if not _is_more(called[n_ids], apart):
                    break
                n_ids += 1
        held = []
        if are_named and not turned:
            of_plink = phenotypes_of_plink(called)
            held = [
                i
                for i in range(n_ids, len(called))
                if called[i] in of_plink or names_rows_by_name(called[i])
            ]
        found = cls._split(called, tuple(range(n_ids)), apart, held)
        return found if are_named else replace(found, are_named=False)

    @classmethod
    def _split(
        cls, names: tuple[str, ...], ids: tuple[int, ...], apart: Sequence[str], held: list[int]
    ) -> TableColumns:
        others = [i for i in range(len(names)) if i not in ids]
        said = {i for i in others if names[i] in apart}
        return cls(
            names,
            are_named=True,
            ids=ids,
            apart=tuple(i for i in others if i in said or i in held),
            numbers=tuple(i for i in others if i not in said and i not in held),
            assumed=tuple(i for i in held if i not in said),
        )

    def hint(self, path: str) -> str:
        """Columns that were taken for names or numbers of rows, in a sentence; "" for none."""
        beyond = [i for i in self.ids[1:] if self.names[i].startswith("Unnamed: ")]
        names = [self.names[i] for i in (*beyond, *self.assumed)]
        names = [name for name in names if names_rows_by_name(name)]
        if not names:
            return ""
        return (
            f"Columns that name or count rows are no features: {abbreviate(map(repr, names))} of "
            f"{path}. A measurement among them needs another name."
        )

    def number_names(self) -> Array | None:
        """Names of the columns of numbers, None where no line names them."""
        names = np.array([self.names[i] for i in self.numbers], dtype=object)
        return names if self.are_named else None

    def called(self, i: int) -> str:
        """A column for sentences."""
        return f"column {self.names[i]!r}" if self.are_named else self.names[i]

    def row_names(self, path: str, columns: Sequence[Array], *, turned: bool) -> Array | None:
        """Names of the rows by columns of ids: IID where there is one, FID_IID if that repeats.

        Refused where features have names that repeat, or where text that is not called like names
        does.
        """
        if not self.ids:
            return None
        by_name = {
            plain(self.names[i]): values for i, values in zip(self.ids, columns, strict=True)
        }
        iid, fid = by_name.get("iid"), by_name.get("fid")
        called = zip((self.names[i] for i in self.ids), columns, strict=True)
        able = [v for name, v in called if not is_index(name, v) and plain(name) not in PARENTS]
        unique = (values for values in able if not _repeated(values))
        names = next(unique, columns[0]) if iid is None else iid
        repeated = _repeated(names)
        if repeated and iid is not None and fid is not None:
            pairs = zip(fid, iid, strict=True)
            names = np.array([f"{family}_{sample}" for family, sample in pairs], dtype=object)
        elif repeated and (turned or not is_id(self.names[0])):
            what = "feature" if turned else "sample"
            raise InputError(
                f"The first column of {path} ({self.called(0)}) would name the {what}s, and "
                f"{len(repeated)} of its texts are there more than once "
                f"({abbreviate(repeated, 3)}). Give each {what} a name of its own; if it holds "
                f"labels or groups, say so: not_features={[self.names[0]]!r}."
            )
        return names


def _is_more(name: str, apart: Sequence[str]) -> bool:
    """Whether a column beside ids holds some too, and is no gene called ID1."""
    is_one = plain(name) in PARENTS or names_rows_by_name(name) or (is_id(name) and "_" in name)
    return is_one and name not in apart


def _repeated(names: Array) -> list[str]:
    if len(set(names)) == len(names):
        return []
    texts, counts = np.unique(names.astype(str), return_counts=True)
    return [str(text) for text in texts[counts > 1]]


def check_known(path: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names of columns that a table does not have."""
    for name in wanted:
        if name not in known:
            raise InputError(
                f"{path} has no column {name!r}; its columns are "
                f"{abbreviate(map(repr, known), 20)}.{did_you_mean(name, known)}"
            )


def refuse_counted(path: str, called: str, column: Array, *, turned: bool = False) -> None:
    """Refuse a first column of numbers that all differ, whole or in order: names, most likely."""
    values = column[~np.isnan(column)]
    is_whole = bool((values == np.floor(values)).all())
    is_ordered = turned and values.size > 2 and bool((np.diff(values) > 0).all())
    if (is_whole or is_ordered) and values.size > 2 and len(np.unique(values)) == len(column):
        shown = column.astype(np.int64) if is_whole else column
        kind = "whole numbers" if is_whole else "numbers in order"
        raise InputError(
            f"The first column of {path} ({called}) holds {kind} that all differ "
            f"({abbreviate(shown, 3)}), as names do. If it names the rows, call it so: "
            "id, sample_id. If it is a feature, put a column of names before it."
        )
