"""Classification of the columns of tables as row names, features, or other columns.

Labels, covariates, id columns and the additional columns of published formats are not features;
they are recognised by their names. `dhsic.sources.text_tables` reads text tables, and
`dhsic.sources.parquet` reads Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    """Raise InputError for the option `variable` if a file contains a single matrix."""
    if options.variable is not None:
        raise InputError(
            f"{path} contains a single matrix, but variable={options.variable!r} selects a part "
            "of a store. Leave out variable=."
        )


def check_room(n_bytes: int, path: str, shape: tuple[int, ...]) -> None:
    """Raise MemoryBudgetError if a table must be read completely but does not fit into memory."""
    there = available_bytes()
    if n_bytes > there:
        raise MemoryBudgetError(
            f"{path} is a table of {shape[0]:,} x {shape[1]:,} values. Reading it needs "
            f"{human(n_bytes)}, but only {human(there)} of memory are free. Convert it to a "
            "store, which is read in blocks: dhsic convert PATH OUT.zarr."
        )


#: Advice for a text table whose columns are samples.
TRANSPOSE = "pass sample_dim=1 (--transpose)."


def is_turned(options: OpenOptions, path: str, convention: int = 1) -> bool:
    """Whether the columns of a table are samples, and its rows are features.

    `convention` is the axis of the features if the options do not determine it.
    """
    only = replace(options, n_samples=None)
    return only.feature_axis((0, 0), None, path, convention=convention) == 0


@dataclass(frozen=True)
class TableColumns:
    """Positions of columns by role: row names (`ids`), features (`numbers`), others (`apart`)."""

    names: tuple[str, ...]  # "column 1" and so on without a header
    are_named: bool
    ids: tuple[int, ...]
    apart: tuple[int, ...]
    numbers: tuple[int, ...]
    assumed: tuple[int, ...] = ()  # columns in `apart` that the user did not exclude

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
        """Determine the roles of columns, given their names, or their number without a header.

        The first column contains the row names if it is text (`is_text`), or if it has a name that
        is typical of ids. Unless columns are samples (`turned`), further id columns may follow:
        those of PLINK, and those with an underscore in the name. Columns are not features if they
        are in `apart`, if their names are typical of ids, or if they describe features in a
        published format (`known`).
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
        is_apart = called[0] in apart and not (turned and is_text)  # a text column is not a sample
        if not is_apart and (is_text or is_called):
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
        """Return a sentence on columns that are not used because they look like ids; or ""."""
        beyond = [i for i in self.ids[1:] if self.names[i].startswith("Unnamed: ")]
        names = [self.names[i] for i in (*beyond, *self.assumed)]
        names = [name for name in names if names_rows_by_name(name)]
        if not names:
            return ""
        return (
            f"Columns of {path} that look like row names or numbers are not used as features: "
            f"{abbreviate(map(repr, names))}. If one of them is a measurement, rename it."
        )

    def number_names(self) -> Array | None:
        """Return the names of the numeric columns; None without a header."""
        names = np.array([self.names[i] for i in self.numbers], dtype=object)
        return names if self.are_named else None

    def called(self, i: int) -> str:
        """Return a description of column i, for messages."""
        return f"column {self.names[i]!r}" if self.are_named else self.names[i]

    def row_names(
        self, path: str, columns: Sequence[Array], *, turned: bool, unique: str = ""
    ) -> Array | None:
        """Return the row names from the id columns: IID, or FID_IID if IIDs are repeated.

        Without a column IID, the names are the first id column without repeated values. `unique` is
        a command for messages that makes the names unique.

        Raises
        ------
        InputError
            Names of features are repeated. Or names of samples are repeated in a column with a name
            that is not typical of ids.
        """
        if not self.ids:
            return None
        by_name = {
            plain(self.names[i]): values for i, values in zip(self.ids, columns, strict=True)
        }
        iid, fid = by_name.get("iid"), by_name.get("fid")
        called = zip((self.names[i] for i in self.ids), columns, strict=True)
        able = [v for name, v in called if not is_index(name, v) and plain(name) not in PARENTS]
        distinct = (values for values in able if not _repeated(values))
        names = next(distinct, columns[0]) if iid is None else iid
        repeated = _repeated(names)
        if repeated and iid is not None and fid is not None:
            pairs = zip(fid, iid, strict=True)
            names = np.array([f"{family}_{sample}" for family, sample in pairs], dtype=object)
        elif repeated and (turned or not is_id(self.names[0])):
            what = "feature" if turned else "sample"
            command = f": {unique}" if unique else "."
            labels = (
                ". If the column contains labels or groups, exclude it: "
                f"not_features={[self.names[0]]!r}."
            )
            raise InputError(
                f"The first column of {path} ({self.called(0)}) would be used as {what} names, "
                "but some of them occur more than once "
                f"({abbreviate(map(repr, repeated), 3)}). Make the names unique"
                f"{command if turned else labels}"
            )
        return names

    def are_counted(self, names: object) -> bool:
        """Whether the row names only number the rows, like an index that a program wrote."""
        if not self.are_named or not self.ids or not isinstance(names, np.ndarray):
            return False
        return is_index(self.names[self.ids[0]], names)


def _is_more(name: str, apart: Sequence[str]) -> bool:
    """Whether a column after an id column is a further id column, not a gene called ID1."""
    is_one = plain(name) in PARENTS or names_rows_by_name(name) or (is_id(name) and "_" in name)
    return is_one and name not in apart


def _repeated(names: Array) -> list[str]:
    if len(set(names)) == len(names):
        return []
    texts, counts = np.unique(names.astype(str), return_counts=True)
    return [str(text) for text in texts[counts > 1]]


def check_known(
    path: str,
    wanted: Sequence[str],
    known: Sequence[str],
    row_names: Iterable[str],
    turned: str,
    advice: str = "",
) -> None:
    """Raise InputError for names in `wanted` that are not columns of a table.

    `known` are the columns of the table. If a name is absent from them but is among `row_names`,
    the columns may be samples, and the message contains the advice `turned`. The message ends with
    `advice`.
    """
    for name in wanted:
        if name not in known:
            is_row = name in map(str.strip, row_names)
            raise InputError(
                f"{path} has no column {name!r}; its columns are "
                f"{abbreviate(map(repr, known), 20)}.{did_you_mean(name, known)}"
                + f" A row is named {name!r}, so the columns seem to be samples: {turned}" * is_row
                + advice
            )


def refuse_counted(
    path: str, called: str, column: Array, *, turned: bool = False, renamed: str = ""
) -> None:
    """Raise InputError for a first column of numbers that are probably row names.

    The numbers are all different, and whole or sorted. `called` describes the column. `renamed`
    continues a sentence with a command that renames the column to id. `turned` means that columns
    are samples.
    """
    values = column[~np.isnan(column)]
    is_whole = bool((values == np.floor(values)).all())
    is_ordered = turned and values.size > 2 and bool((np.diff(values) > 0).all())
    if (is_whole or is_ordered) and values.size > 2 and len(np.unique(values)) == len(column):
        shown = column.astype(np.int64) if is_whole else column
        kind = "whole numbers" if is_whole else "numbers in order"
        raise InputError(
            f"The first column of {path} ({called}) contains {kind} that all differ "
            f"({abbreviate(shown, 3)}), like names. If it is a "
            f"{'sample' if turned else 'feature'}, put a column of names before it. If it names "
            f"the {'features' if turned else 'samples'}, rename it to id{renamed or '.'}"
        )
