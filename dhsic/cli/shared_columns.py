"""Check of a table that is matched by position: a column shared with the data shows the order."""

from __future__ import annotations

import shlex

from dhsic.errors import InputError, warn
from dhsic.joins.shared_columns import described, shared_columns
from dhsic.joins.table import Table
from dhsic.sources import AbstractSource

#: Minimum number of samples with different whole numbers that probably were not measured.
FEWEST_TOLD = 20


def check_shared_columns(
    table: Table, path: str, source: AbstractSource, wanted: tuple[str, ...]
) -> None:
    """Refuse a table that is in another order than the data, according to a shared column.

    `source` was opened from `path`, and `wanted` are columns of labels or covariates. If the shared
    column has the same order and seems to name the samples, warn that it is used as a feature.
    """
    shared = shared_columns(source, table.columns, wanted)
    if not shared:
        return
    one = next((one for one in shared if one.moves), shared[0])
    what = described(one, table.what, path)
    remedy = f"--not-feature {shlex.quote(one.feature)} --sample-column {shlex.quote(one.name)}"
    if one.moves and one.is_key:
        raise InputError(
            f"{what}, so it identifies the samples. A match by position would assign rows to wrong "
            f"samples. Match rows by this column: pass {remedy}. If the rows are in the order of "
            "the data, pass --by-position."
        )
    if one.moves:
        raise InputError(
            f"{what}, so the rows seem to be in a different order, and no column identifies the "
            "samples. Add a first column, called id, with the same sample names to both tables. If "
            "the rows are in the order of the data, pass --by-position."
        )
    if one.is_key and len(one.ours) >= FEWEST_TOLD:
        warn(
            f"{what}. It seems to identify the samples, but is used as a feature. If it is not a "
            f"measurement, pass {remedy}."
        )
