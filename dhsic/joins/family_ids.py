"""Family ids (FID) of a table, compared with those of PLINK data.

PLINK matches samples by FID and IID. Tables are matched by IID if it is unique, so a table of other
people who have the same IIDs, such as 1, 2, 3, ..., would be matched without a word.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.keys import FAMILY, SAMPLE, as_text
from dhsic.joins.table import RowOrder
from dhsic.sources import AbstractSource
from dhsic.sources.ids import plain
from dhsic.sources.joined import parts_of
from dhsic.sources.plink import AbstractPlinkSource
from dhsic.sources.views import whole_of

#: FIDs that mean no family, as PLINK 2 writes them.
NO_FAMILY = ("0", "")


def family_ids(source: AbstractSource) -> tuple[Array, Array] | None:
    """Return FID and IID of all samples in the files of a source; None if they have no FID."""
    for part in parts_of(source):
        ids = family_ids(part.source)
        if ids is not None:
            return part.samples_of(ids[0]), part.samples_of(ids[1])
    whole = whole_of(source)
    return whole.files.family_ids() if isinstance(whole, AbstractPlinkSource) else None


def check_families(
    what: str,
    columns: Mapping[str, Array],
    order: RowOrder,
    families: Array,
    remedy: str,
) -> None:
    """Refuse a table in which samples have another FID than in the data.

    FIDs that are 0, or the IID, name no family and are not compared.

    Parameters
    ----------
    what : str
        Name of the table in messages.
    columns : mapping
        Columns of the table, (rows,) each.
    order : RowOrder
        Match of the rows to the samples.
    families : (m,)
        FIDs of the samples in the data.
    remedy : str
        Advice on how to match by IID alone.
    """
    by_name = {plain(name): name for name in columns}
    if FAMILY not in by_name or [*map(plain, order.key)] != [SAMPLE]:
        return
    has_row = order.rows >= 0
    rows = order.rows[has_row]
    theirs, iids = (as_text(columns[by_name[name]])[rows] for name in (FAMILY, SAMPLE))
    ours = as_text(families)[has_row]
    are_named = ~np.isin(theirs, NO_FAMILY) & ~np.isin(ours, NO_FAMILY)
    are_named &= (theirs != iids) & (ours != iids)
    wrong = np.flatnonzero(are_named & (theirs != ours))
    if wrong.size:
        first = wrong[0]
        raise InputError(
            f"In {what}, {wrong.size:,} of {rows.size:,} samples have another FID than in the data "
            f"(first: IID {iids[first]} has FID {theirs[first]} in the table and {ours[first]} in "
            "the data), so they may be other people; PLINK would not match them. Correct the FIDs, "
            f"or {remedy} to match by IID alone."
        )
