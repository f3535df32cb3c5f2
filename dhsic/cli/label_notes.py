"""Notes on possible mistakes in labels, for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import numpy as np

from dhsic._typing import Array
from dhsic.joins.label_description import MOST_TOLD, plain_number
from dhsic.kernels.labels import CLASS_KERNELS, auto_kernel
from dhsic.kernels.risk_sets import is_censored
from dhsic.sources.ids import abbreviate

#: PLINK's codes of cases (2), controls (1) and missing (0).
CASE_CONTROL = {0, 1, 2}
#: Classes with fewer samples than this are small.
FEW = 20


def notes_on(y: Array | None, target: Sequence[str]) -> Iterator[str]:
    """Yield a note if labels are 0, 1 and 2, which may be PLINK's codes of cases and controls."""
    if y is not None and y.dtype.kind in "iuf" and set(np.unique(y).tolist()) == CASE_CONTROL:
        na = " ".join(f"--na {shlex.quote(f'{name}=0')}" for name in target)
        yield (
            "labels are 0, 1 and 2, and all three are used as values; if 0 means missing, as in "
            f"PLINK files, pass {na} --drop-missing; if some samples are coded 0 and 1, and others "
            "1 and 2, use one coding for all"
        )


def single_samples(y: Array | None, target: Sequence[str]) -> Iterator[str]:
    """Yield a note on classes with a single sample, which are often mistakes in labels.

    `target` are the names of all targets; `y` (m,) are the labels of the first target.
    """
    if y is None or is_censored(y) or y.ndim > 1 or auto_kernel(y) not in CLASS_KERNELS:
        return
    names, counts = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_counts=True)
    alone = [plain_number(name) for name, n in zip(names, counts, strict=True) if n == 1]
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
    """Return the option that declares the class `name` of the first target as missing."""
    return f"--na {shlex.quote(f'{target[0]}={name}' if target else name)}"


def small_classes(y: Array | None) -> Iterator[str]:
    """Yield a note on classes with fewer than `FEW` samples, for a selection per class."""
    if y is None or y.ndim > 1:
        return
    names, counts = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_counts=True)
    small = [f"{plain_number(n)} ({c})" for n, c in zip(names, counts, strict=True) if c < FEW]
    if small:
        yield (
            f"{abbreviate(small, MOST_TOLD)}: the evidence for features of classes with fewer than "
            f"{FEW} samples is weak. To see how stable they are, use dhsic select --stability 20"
        )
