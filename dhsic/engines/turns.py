r"""Turns of the kernel: rounds after which features are scored by another form.

To first order the gain of a feature is a quadratic form, ``q_j = x_j' B x_j`` with
``B = 2 A - 2 diag(A 1)`` and ``A = W o K``. While it only grows or shrinks from round to round the
order of the features stays. By how much it turns is

    ``turn_t = min_alpha ||B_t - alpha B_{t-1}|| / ||B_t||``,

here over some rows of it, drawn once for a run: on expression data (golub, 72 samples) 32 rows give
it to 0.01.

Where a kernel turns faster than it did before, there is more than one set of features that it could
turn to, each of which makes a kernel that prefers it; which one may hang on a single sample. In 73
draws of samples of nine data sets, mostly expression, exact runs were repeated four times without
one sample. In 12 of the draws less than 0.75 of the last 100 features came back on average, and in
10 of these 12 some round before had turned by more than `TURN` and so much faster than the slowest
before it (`FASTER`); so it had in 11 of the other 61. `benchmarks/lost.py` counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index

#: A turn that counts, where a tenth of the features leave; and how much larger it is than the
#: least before.
TURN, FASTER = 0.06, 1.8
#: Entries of rows that are compared at a time, 2 MiB, unless one has more.
AT_A_TIME = 1 << 18
#: Part of the features leaving that it is for; with fewer features left than this every one of them
#: turns the kernel by chance, by their root.
PART, FEW = 0.1, 100


def form_rows(A: Float, rows: Index) -> Float:
    """Rows of B, (r, m) float32, from those of ``A = W o K``, (r, m), which samples they are."""
    which = np.arange(len(rows))
    return with_diagonal((2.0 * A).astype(np.float32), rows, A[which, rows], A.sum(axis=1))


def with_diagonal(twice: Array, rows: Index, own: Float, sums: Float) -> Array:
    """Rows of B from those of ``2 A``, (r, m), which get its diagonal: by that of A, and its sums.

    >>> with_diagonal(2 * np.ones((1, 3)), np.array([2]), np.ones(1), 3 * np.ones(1))
    array([[ 2.,  2., -4.]])
    """
    twice[np.arange(len(rows)), rows] = 2.0 * own - 2.0 * sums
    return twice


def turn(B: Array, before: Array) -> float:
    """By how much B, (r, m), is no multiple of what it was `before`, over its size."""
    height = max(1, AT_A_TIME // B.shape[1])

    def parts() -> Iterator[tuple[Float, Float]]:
        """Some rows of both, in float64."""
        for a in range(0, len(B), height):
            yield B[a : a + height].astype(np.float64), before[a : a + height].astype(np.float64)

    size = base = between = left = 0.0
    for this, last in parts():
        size += float(np.vdot(this, this))
        base += float(np.vdot(last, last))
        between += float(np.vdot(this, last))
    if size == 0 or base == 0:
        return 0.0
    for this, last in parts():
        other = this - between / base * last
        left += float(np.vdot(other, other))
    return float(np.sqrt(left / size))


def turned_at(history: Sequence[Mapping[str, Any]], n: int) -> int:
    """How many features were left when the kernel last turned, before n were; 0 if it never did."""
    least, found = np.inf, 0
    for record in history[1:]:  # there is none before the first
        size, turned = int(record["n_features"]), float(record.get("turn", 0.0))
        if size <= n or not turned:
            continue
        least = min(least, turned)
        part = max(int(record["n_removed"]) / size / PART, 1.0)
        if turned >= TURN * part * max(1.0, np.sqrt(FEW / size)) and turned >= FASTER * least:
            found = size
    return found
