"""Sentences about labels for the terminal: their kind, and possible mistakes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import numpy as np

from dhsic._typing import Array
from dhsic.kernels.censored import described
from dhsic.kernels.labels import CLASS_KERNELS, MIXED, REAL_KERNELS, auto_kernel, target_kernels
from dhsic.kernels.risk_sets import is_censored
from dhsic.sources.ids import abbreviate, plain

#: PLINK's codes of cases (2), controls (1) and missing (0).
CASE_CONTROL = {0, 1, 2}
#: Maximum number of classes listed with their sizes; classes with fewer samples than FEW are small.
MOST_TOLD, FEW = 20, 20
#: Patterns of names of survival times, and of events.
OF_TIME = re.compile(r"time|surv|days|months|years|followup|^os$|^pfs$|^dfs$|^rfs$")
OF_EVENT = re.compile(r"event|status|death|dead|died|deceased|censor|alive|relapse|progress")


def notes_on(y: Array | None, target: Sequence[str]) -> Iterator[str]:
    """Yield a note if labels are 0, 1 and 2, which may be PLINK's codes of cases and controls."""
    if y is not None and y.dtype.kind in "iuf" and set(np.unique(y).tolist()) == CASE_CONTROL:
        na = " ".join(f"--na {shlex.quote(f'{name}=0')}" for name in target)
        yield (
            "labels are 0, 1 and 2, and all three are used as values; if 0 means missing, as in "
            f"PLINK files, pass {na} --drop-missing"
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
            f"{time!r} and {event!r} look like times to an event and events, but each is used as a "
            f"separate label. To account for censoring, pass --target {shlex.quote(time)} --event "
            f"{shlex.quote(event)}"
        )


def single_samples(y: Array | None, target: Sequence[str]) -> Iterator[str]:
    """Yield a note on classes that have a single sample; they are often mistakes in labels.

    `target` are the names of the labels; `y` (m,) are the labels of the first.
    """
    if y is None or is_censored(y) or y.ndim > 1 or auto_kernel(y) not in CLASS_KERNELS:
        return
    names, counts = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_counts=True)
    alone = [_plain(name) for name, n in zip(names, counts, strict=True) if n == 1]
    if alone:
        one = "class has" if len(alone) == 1 else "classes have"
        sentence = (
            f"{len(alone):,} {one} only one of {len(y):,} samples ({abbreviate(alone, MOST_TOLD)})"
        )
        if len(names) - len(alone) < 2:
            yield (
                f"{sentence}, which is too few to learn from, and without "
                f"{'it' if len(alone) == 1 else 'them'} fewer than two classes remain. Check the "
                "labels, or choose another target"
            )
            return
        yield (
            f"{sentence}, which is too few to learn from. Check the labels, or exclude "
            f"{'this sample' if len(alone) == 1 else 'these samples'} with "
            f"{' '.join(_na(target, name) for name in alone[:MOST_TOLD])} --drop-missing"
        )


def _na(target: Sequence[str], name: str) -> str:
    """Return the option that makes a class of the first labels a missing value."""
    return f"--na {shlex.quote(f'{target[0]}={name}' if target else name)}"


def small_classes(y: Array | None) -> Iterator[str]:
    """Yield a note on small classes, for a selection per class."""
    if y is None or y.ndim > 1:
        return
    names, counts = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_counts=True)
    small = [f"{_plain(n)} ({c})" for n, c in zip(names, counts, strict=True) if c < FEW]
    if small:
        yield (
            f"{abbreviate(small, MOST_TOLD)}: the evidence for features of classes with fewer than "
            f"{FEW} samples is weak. To see how stable they are, use dhsic select --stability 20"
        )


def describe(y: Array | None, label_kernel: str | None, *, in_columns: bool = False) -> str:
    """Describe the labels, and their kernel unless it is None, for messages.

    With `in_columns`, whole numbers that may be class codes are described as numbers, because tests
    of pairs use them as numbers.
    """
    if y is None:
        return "none: the data are used as labels"
    if is_censored(y):
        return described(y)
    Y = y[:, None] if y.ndim == 1 else y
    kernels = target_kernels(Y, label_kernel or "auto")
    descriptions = [
        _describe(column, kernel, label_kernel, in_columns=in_columns)
        for column, kernel in zip(Y.T, kernels, strict=True)
    ]
    if len(descriptions) > 1 and label_kernel is not None:
        is_one = in_columns or all(kernel in REAL_KERNELS for kernel in kernels)
        how = "all with one kernel" if is_one else "each with its own kernel, equally weighted"
        descriptions.append(
            f"{len(kernels)} targets jointly, {'as columns' if in_columns else how}"
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
            suffix += f"; if they are ordered levels, pass --label-kernel {other}"
        return f"{len(names)} {plural} {sizes}{suffix}"
    values = column.astype(np.float64)
    bounds = f"from {values.min():.4g} to {values.max():.4g}"
    if kernel != MIXED:
        return f"{values.size:,} real values {bounds}{suffix}"
    numbers = f"{values.size:,} whole numbers {bounds} ({len(np.unique(values))} different)"
    if in_columns:
        return f"{numbers}, used as numbers; if they are classes, pass --label-kernel multiclass"
    if label_kernel is None:
        return numbers
    return (
        f"{numbers}, used both as numbers and as classes; for only one of these, pass "
        "--label-kernel gaussian (numbers) or multiclass (classes)"
    )


def _plain(name: object) -> str:
    return f"{name:g}" if isinstance(name, float) else str(name)
