"""Weights of samples: reading and checking them, and excluding samples with weight 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.joins.filtered import Filtered
from dhsic.joins.frame_rows import values_of
from dhsic.joins.mixed_values import text_among_numbers
from dhsic.joins.text import is_missing, typed
from dhsic.joins.variables import has_variables, read_target
from dhsic.linalg.weighted_samples import effective_size
from dhsic.sources.frame_advice import numbers_in_python
from dhsic.sources.ids import abbreviate
from dhsic.sources.options import MissingChunks
from dhsic.sources.rewriting import WrittenColumn

#: Name of the parameter, and of the excluded samples in `Filtered.left_out`.
SAMPLE_WEIGHT = "sample_weight"
#: Relative difference up to which weights are equal.
EQUAL = 1e-12


def read_weights(given: Any, data: Any, missing_chunks: MissingChunks = "error") -> Array:
    """Return weights as an array (n,): the values passed, or the variable of `data` they name."""
    if not isinstance(given, str):
        values = values_of(given, SAMPLE_WEIGHT)
    elif has_variables(data):
        values = read_target(data, given, missing_chunks)
    else:
        raise InputError(
            f"sample_weight={given!r} is the name of a variable, but X is of type "
            f"{type(data).__name__}, which has no variables. Pass one weight per sample."
        )
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise InputError(
            f"sample_weight has shape {values.shape}; pass one number per sample (1D array)."
        )
    return values


def checked_weights(
    values: Array,
    m: int,
    called: str,
    option: str = SAMPLE_WEIGHT,
    column: WrittenColumn | None = None,
) -> Float:
    """Convert the weights of m samples to float64.

    Messages call the weights `called` and the parameter `option`. If the weights are a column of
    a table, `column` is used for advice.

    Raises
    ------
    InputError
        There are not m values; values are text, missing, infinite or negative; or all are 0.
    """
    if values.size != m:
        raise InputError(
            f"There are {values.size} weights {called}, but {m} samples; pass one weight per "
            "sample."
        )
    numbers = typed(values.astype(object)) if values.dtype.kind in "OUST" else values
    if numbers.dtype.kind not in "biuf":
        _refuse_commas(values, column or WrittenColumn(f"weights {called}", "", values=called))
        shown = abbreviate(map(repr, np.unique(values.astype(str)).tolist()), 3)
        raise InputError(
            f"The weights {called} are text ({shown}); pass numbers that are 0 or more."
        )
    missing = is_missing(numbers) | ~np.isfinite(numbers.astype(np.float64))
    numbers = numbers.astype(np.float64)
    if missing.any():
        raise InputError(
            f"{int(missing.sum())} of {len(numbers)} weights {called} are missing or infinite "
            f"(first at sample {int(missing.argmax())}). Fill in these weights, or pass 0 to "
            "exclude the samples (CLI: --drop-missing)."
        )
    if numbers.min(initial=0.0) < 0:
        raise InputError(
            f"{int((numbers < 0).sum())} of {len(numbers)} weights {called} are negative, such as "
            f"{numbers.min():g}. A weight states how many members of the population a sample "
            "represents. Pass numbers that are 0 or more."
        )
    if not numbers.any():
        raise InputError(
            f"All {len(numbers)} weights {called} are zero, so no sample remains. Pass positive "
            f"weights, or leave out {option}."
        )
    return numbers


def _refuse_commas(values: Array, column: WrittenColumn) -> None:
    """Refuse numbers with decimal or thousands commas (m,), with advice on converting them."""
    odd = text_among_numbers(column.called, "", values, lambda i: f"in row {i}")
    changes = numbers_in_python([odd], (str(value).strip() for value in values.tolist()))
    if odd.commas and changes and len(odd.commas) == len(odd.places):
        raise InputError(
            f"The {column.called} are numbers with commas ({abbreviate(odd.commas, 3)}). "
            + " ".join(f"{said} {column.rewritten(change)}." for change, said in changes)
        )


def without_zeros(before: Filtered, weights: Float, n_samples: int) -> Filtered:
    """Exclude samples with weight 0 from the m samples of `before`; `weights` is (m,)."""
    positive = weights > 0
    if positive.all():
        return before
    at: Index = np.arange(n_samples) if before.samples is None else before.samples
    left_out = {**before.left_out, SAMPLE_WEIGHT: int((~positive).sum())}
    return replace(before, samples=at[positive], left_out=left_out)


def unequal(weights: Float, notes: list[str]) -> Float | None:
    """Return positive weights (m,); None if all are equal, because equal weights change nothing.

    A sentence on the weights is appended to `notes`.
    """
    if np.ptp(weights) <= EQUAL * weights.max():
        notes.append("all weights are equal and have no effect")
        return None
    notes.append(
        f"weights from {weights.min():.4g} to {weights.max():.4g}: {weights.size:,} samples count "
        f"as {effective_size(weights):,.1f}"
    )
    return weights
