"""Blocks of samples as users pass them: names of variables of the data, arrays or series."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.frame_rows import values_of
from dhsic.joins.text import is_missing, typed
from dhsic.joins.variables import labels_at
from dhsic.linalg.blocks import Blocks
from dhsic.sources.ids import did_you_mean
from dhsic.sources.opening import is_table
from dhsic.sources.options import MissingChunks

#: What can be passed in place of the name of a variable, for messages.
OTHERWISE = "the block of every sample, as an array"
#: Function that returns the rows of values for the samples used: of (given, name, values).
Aligned = Callable[[Any, str, Array], Array | None]


@dataclass(frozen=True)
class BlockNames:
    """Arguments `permute_whole` and `permute_within` as users pass them.

    `columns` are the names of columns of a frame or table among these arguments.
    """

    whole: Any = None
    within: Any = None
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Any, whole: Any, within: Any) -> BlockNames:
        """Create the object from the arguments; columns of a frame replace their names."""
        is_frame = isinstance(data, pd.DataFrame)
        if not (is_frame or is_table(data)):
            return cls(whole, within)
        columns = tuple(name for name in (whole, within) if isinstance(name, str))
        if not is_frame:
            return cls(whole, within, columns)
        each = []
        for parameter, name in (("permute_whole", whole), ("permute_within", within)):
            if isinstance(name, str) and name not in data.columns:
                known = [str(column) for column in data.columns]
                raise InputError(
                    f"{parameter}={name!r} is not a column of X.{did_you_mean(name, known)} Pass "
                    f"the name of a column, or {OTHERWISE}."
                )
            each.append(data[name] if isinstance(name, str) else name)
        return cls(each[0], each[1], columns)

    def not_features(self, others: Collection[str]) -> Collection[str]:
        """Return the names of columns that are not features: `others` and the block columns."""
        return (*others, *self.columns) if self.columns else others

    def joined(
        self, data: Any, missing_chunks: MissingChunks, aligned: Aligned, m: int
    ) -> Blocks | None:
        """Read the blocks and match them to the m samples in use; None if no blocks were passed."""
        each: list[Array | None] = []
        for parameter, given in (("permute_whole", self.whole), ("permute_within", self.within)):
            if given is None:
                each.append(None)
                continue
            if isinstance(given, str):
                values = labels_at(data, given, missing_chunks, OTHERWISE)
                rows = aligned(values, parameter, values)
            else:
                rows = aligned(given, parameter, values_of(given, parameter))
            assert rows is not None, "there are values"
            if len(rows) != m:
                raise InputError(
                    f"{parameter}= has {len(rows)} rows, but there are {m} samples; pass one block "
                    "per sample."
                )
            each.append(names_of_blocks(parameter, rows))
        blocks = Blocks(*each)
        return blocks if blocks.options else None


def names_of_blocks(parameter: str, values: Array) -> Array:
    """Check the blocks (m,) passed as `parameter`, and convert them to whole numbers or text.

    Raises
    ------
    InputError
        The blocks have more than one column, or some are missing.
    """
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise InputError(f"{parameter}= has shape {values.shape}; pass one block per sample, (m,).")
    missing = is_missing(typed(values))
    if missing.any():
        raise InputError(
            f"The block of {parameter}= is missing for {int(missing.sum())} of {values.size} "
            f"samples (first: sample {int(np.argmax(missing))}). Remove these samples from the "
            "data and the labels, or give each a block of its own (CLI: --drop-missing)."
        )
    return values if values.dtype.kind in "iu" else np.asarray(values.astype(str))
