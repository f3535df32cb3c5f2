"""Checks for problems with samples or labels that would make a ranking wrong.

They run after the labels are matched to the data, in Python and on the command line. Each check has
its own module. A check only warns; it excludes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dhsic._typing import Array, Index
from dhsic.joins.censoring import columns_of_labels
from dhsic.joins.mass_spectra import warn_of_descriptions
from dhsic.joins.quality_controls import Remedy, warn_of_controls
from dhsic.joins.repeated_measurements import warn_of_repeats
from dhsic.joins.replicates import warn_of_replicates
from dhsic.joins.same_samples import warn_of_same_samples
from dhsic.joins.targets import warn_of_leaks
from dhsic.kernels.risk_sets import is_censored
from dhsic.sources import AbstractSource


def warn_of_doubtful_samples(
    data: Any,
    source: AbstractSource,
    y: Array | None,
    rows: Index | None,
    targets: Sequence[tuple[str, Array]],
    apart: tuple[str, ...],
    remedy: Remedy,
    *,
    names: Array | None,
    compares_values: bool = True,
    has_blocks: bool = False,
) -> None:
    """Warn of features that reveal the labels, and of samples that are no independent samples.

    These are quality controls, rows that describe features, and repeated measurements.

    Parameters
    ----------
    data : Any
        Data as passed by the user, from which `source` was opened.
    y : (m,) or (m, t)
        Labels of the samples in `rows` (None: all).
    targets : sequence
        Name and values (m,) of each target whose values may be classes.
    apart : tuple of str
        Columns of the data that are labels or covariates.
    remedy : callable
        Returns advice on how to exclude classes of a target.
    names : array or None
        Names of all samples of the source.
    compares_values : bool
        Whether some features are read, to find samples with equal or similar values.
    has_blocks : bool
        Whether p-values account for blocks of samples, such as those of repeated measurements.
    """
    are_times = y is not None and is_censored(y)
    for column in columns_of_labels(y) if are_times else [y]:
        warn_of_leaks(data, source, column, rows)
    warn_of_same_samples(source, rows, names, skip=not compares_values)
    ours = names if names is None or rows is None else names[rows]
    warn_of_descriptions(ours)
    warn_of_controls(targets, ours, remedy)
    if has_blocks:
        return
    if not warn_of_replicates(ours, data, source, rows, apart) and compares_values:
        labels = y["time"] if y is not None and are_times else y
        warn_of_repeats(data, source, labels, rows, ours, apart)
