"""Sentences about labels for the terminal: their kind, and possible mistakes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import numpy as np

from dhsic._typing import Array
from dhsic.kernels.labels import CLASS_KERNELS, MIXED, REAL_KERNELS, auto_kernel, target_kernels
from dhsic.sources.ids import abbreviate, plain

#: PLINK's codes of cases (2), controls (1) and missing (0).
CASE_CONTROL = {0, 1, 2}
#: Classes listed with their sizes, at most; and class sizes below this count as small.
MOST_TOLD, FEW = 20, 20
#: Names of survival times, and of events.
OF_TIME = re.compile(r"time|surv|days|months|years|followup|^os$|^pfs$|^dfs$|^rfs$")
OF_EVENT = re.compile(r"event|status|death|dead|died|deceased|censor|alive|relapse|progress")


def notes_on(y: Array | None, target: Sequence[str]) -> Iterator[str]:
    """Yield a note if labels may be PLINK's cases and controls."""
    if y is not None and y.dtype.kind in "iuf" and set(np.unique(y).tolist()) == CASE_CONTROL:
        na = " ".join(f"--na {shlex.quote(f'{name}=0')}" for name in target)
        yield (
            "labels are 0, 1 and 2, and all are taken for values; where PLINK wrote them, 0 is "
            f"missing: {na} --drop-missing"
        )


def censoring_note(targets: Sequence[str], y: Array | None) -> Iterator[str]:
    """Yield a note if joint targets look like times and events of survival data."""
    if y is None or y.ndim != 2 or len(targets) != y.shape[1]:
        return
    names = [plain(name) for name in targets]
    times = [n for n, name in enumerate(names) if OF_TIME.search(name)]
    events = [
        n
        for n, name in enumerate(names)
        if n not in times and OF_EVENT.search(name) and len(np.unique(y[:, n].astype(str))) == 2
    ]
    if times and events:
        time, event = targets[times[0]], targets[events[0]]
        yield (
            f"{time!r} and {event!r} look like survival times and events; censoring cannot be told "
            "yet, and each is taken for a label of its own. Martingale residuals of a Cox model "
            "without features, as one target, take censoring into account"
        )


def single_samples(y: Array | None) -> Iterator[str]:
    """Yield a note on classes of a single sample, which often are mistakes in labels."""
    if y is None or y.ndim > 1 or auto_kernel(y) not in CLASS_KERNELS:
        return
    names, counts = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_counts=True)
    alone = [_plain(name) for name, n in zip(names, counts, strict=True) if n == 1]
    if alone:
        one = "class has" if len(alone) == 1 else "classes have"
        yield (
            f"{len(alone):,} {one} one of {len(y):,} samples ({abbreviate(alone, MOST_TOLD)}), "
            "about which nothing can be found out. Check the labels, or leave that sample out "
            "(--remove)"
        )


def small_classes(y: Array | None) -> Iterator[str]:
    """Yield a note on small classes, before features are ranked for each class."""
    if y is None or y.ndim > 1:
        return
    names, counts = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_counts=True)
    small = [f"{_plain(n)} ({c})" for n, c in zip(names, counts, strict=True) if c < FEW]
    if small:
        yield (
            f"{abbreviate(small, MOST_TOLD)}: of classes of fewer than {FEW} samples what is "
            "selected is weak evidence; dhsic select --stability 20 tells how often it would be"
        )


def describe(y: Array | None, label_kernel: str | None, *, in_columns: bool = False) -> str:
    """Describe the labels, and their kernel unless it is None, for messages.

    With `in_columns`, whole numbers that may name classes are described as numbers, as in tests of
    pairs.
    """
    if y is None:
        return "none: the data are their own"
    Y = y[:, None] if y.ndim == 1 else y
    kernels = target_kernels(Y, label_kernel or "auto")
    descriptions = [
        _describe(column, kernel, label_kernel, in_columns=in_columns)
        for column, kernel in zip(Y.T, kernels, strict=True)
    ]
    if len(descriptions) > 1 and label_kernel is not None:
        is_one = in_columns or all(kernel in REAL_KERNELS for kernel in kernels)
        how = "all with one kernel" if is_one else "each with its kernel, scaled alike"
        descriptions.append(
            f"{len(kernels)} targets together, {'as columns' if in_columns else how}"
        )
    return "; ".join(descriptions)


def _describe(column: Array, kernel: str, label_kernel: str | None, *, in_columns: bool) -> str:
    """Describe one target (m,) and its kernel."""
    suffix = "" if label_kernel is None or in_columns else f", kernel {kernel!r}"
    if kernel in CLASS_KERNELS:
        names, counts = np.unique(
            column.astype(str) if column.dtype.kind == "O" else column, return_counts=True
        )
        order = np.argsort(-counts, kind="stable")
        sizes = abbreviate((f"{_plain(names[i])} ({counts[i]:,})" for i in order), MOST_TOLD)
        plural = "class" if len(names) == 1 else "classes"
        if label_kernel == "auto" and names.dtype.kind in "iuf" and len(names) > 2:
            other = "linear" if in_columns else MIXED
            suffix += f"; if these are steps of a scale, --label-kernel {other}"
        return f"{len(names)} {plural} {sizes}{suffix}"
    values = column.astype(np.float64)
    bounds = f"from {values.min():.4g} to {values.max():.4g}"
    if kernel != MIXED:
        return f"{values.size:,} real values {bounds}{suffix}"
    numbers = f"{values.size:,} whole numbers {bounds} ({len(np.unique(values))} different)"
    if in_columns:
        return f"{numbers}, taken as numbers; if they name classes, --label-kernel multiclass"
    if label_kernel is None:
        return numbers
    return (
        f"{numbers}, taken both as numbers and as classes; --label-kernel gaussian or multiclass "
        "takes them as one alone"
    )


def _plain(name: object) -> str:
    return f"{name:g}" if isinstance(name, float) else str(name)
