"""Family ids (FID) and source ids (SID) of a table, compared with those of PLINK data.

PLINK matches samples by FID, IID and SID. Here, tables are matched by IID if it is unique. Without
these checks, a table of other people with the same IIDs, such as 1, 2, 3, ..., would be matched
silently, and so would a table of other samples of the same people.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.keys import FAMILY, SAMPLE, SOURCE, as_text
from dhsic.joins.table import RowOrder
from dhsic.sources import AbstractSource
from dhsic.sources.ids import plain
from dhsic.sources.joined import parts_of
from dhsic.sources.plink import AbstractPlinkSource
from dhsic.sources.views import whole_of

#: FIDs and SIDs that mean no family and no source, as PLINK 2 writes them.
NONE = ("0", "")
#: What samples with other ids may be, by the column of the ids.
OTHERS = {"FID": "other people", "SID": "other samples of the same people"}


def plink_ids(source: AbstractSource) -> dict[str, Array]:
    """Return those of IID, FID and SID that the PLINK files of a source contain, for all samples.

    The result is {} if no part of the source is a PLINK file.
    """
    for part in parts_of(source):
        if ids := plink_ids(part.source):
            return {name: part.samples_of(values) for name, values in ids.items()}
    whole = whole_of(source)
    return whole.files.ids() if isinstance(whole, AbstractPlinkSource) else {}


def family_ids(source: AbstractSource) -> tuple[Array, Array] | None:
    """Return FID and IID of all samples in the files of a source; None if they have no FID."""
    ids = plink_ids(source)
    return (ids["FID"], ids["IID"]) if "FID" in ids else None


def check_plink_ids(
    what: str,
    columns: Mapping[str, Array],
    order: RowOrder,
    ids: Mapping[str, Array],
    remedy: str = "",
) -> None:
    """Refuse a table in which samples have another FID or SID than in the data.

    A table whose column FID was matched to the IIDs of the data is refused if the data have FIDs of
    the same names, in another order.

    A FID or SID that is 0 or equals the IID names no family or source, and is not compared.

    Parameters
    ----------
    what : str
        Name of the table in messages.
    columns : mapping
        Columns of the table, (rows,) each.
    order : RowOrder
        Match of the rows to the samples.
    ids : mapping
        FID and SID of the samples in the data, (m,) each; either may be absent.
    remedy : str
        Advice on how to match by IID alone, as an alternative to dropping the column.
    """
    by_name = {plain(name): name for name in columns}
    if [*map(plain, order.key)] == [FAMILY] and "FID" in ids:
        _check_families_alone(what, as_text(columns[by_name[FAMILY]]), order, as_text(ids["FID"]))
    if SAMPLE not in map(plain, order.key):
        return
    has_row = order.rows >= 0
    rows = order.rows[has_row]
    iids = as_text(columns[by_name[SAMPLE]])[rows]
    for column, word in ("FID", FAMILY), ("SID", SOURCE):
        if word not in by_name or word in map(plain, order.key) or column not in ids:
            continue
        theirs, ours = as_text(columns[by_name[word]])[rows], as_text(ids[column])[has_row]
        are_named = ~np.isin(theirs, NONE) & ~np.isin(ours, NONE)
        are_named &= (theirs != iids) & (ours != iids)
        wrong = np.flatnonzero(are_named & (theirs != ours))
        if wrong.size:
            first = wrong[0]
            is_dropped = len(order.key) > 1 or not remedy
            how = f"drop the column {column}" if is_dropped else remedy
            raise InputError(
                f"In {what}, the {column} of {wrong.size:,} of {rows.size:,} samples differs from "
                f"that in the data (first: IID {iids[first]} has {column} {theirs[first]} in the "
                f"table and {ours[first]} in the data), so they may be {OTHERS[column]}. PLINK "
                f"would not match them. Correct the {column}s, or {how} to match without the "
                f"{column}."
            )


def _check_families_alone(what: str, families: Array, order: RowOrder, ours: Array) -> None:
    """Refuse `families` of a table that equal IIDs, if samples of the data have these as FIDs."""
    has_row = order.rows >= 0
    matched, own = families[order.rows[has_row]], ours[has_row]
    wrong = np.flatnonzero((matched != own) & np.isin(matched, ours))
    if wrong.size:
        first = matched[wrong[0]]
        raise InputError(
            f"Column FID of {what} contains family ids, which {wrong.size:,} of {len(own):,} "
            f"samples of the data share with the IIDs of others: {first} is the IID of one sample "
            "and the FID of another. Rename the column: to IID if it contains the IIDs, or add a "
            "column IID."
        )
