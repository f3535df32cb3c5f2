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

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dhsic._typing import Float, Index

#: A turn that counts, where a tenth of the features leave; and how much larger it is than the
#: least before.
TURN, FASTER = 0.06, 1.8
#: Part of the features leaving that it is for; with fewer features left than this every one of them
#: turns the kernel by chance, by their root.
PART, FEW = 0.1, 100


def form_rows(A: Float, rows: Index) -> Float:
    """Rows of B, (r, m) float32, from those of ``A = W o K``, (r, m), which samples they are."""
    B = 2.0 * A
    B[np.arange(len(rows)), rows] -= 2.0 * A.sum(axis=1)
    return B.astype(np.float32)


def turn(B: Float, before: Float) -> float:
    """By how much B, (r, m), is no multiple of what it was `before`, over its size."""
    now, was = B.astype(np.float64), before.astype(np.float64)
    size, base = float(np.vdot(now, now)), float(np.vdot(was, was))
    if size == 0 or base == 0:
        return 0.0
    now -= float(np.vdot(now, was)) / base * was
    return float(np.sqrt(np.vdot(now, now) / size))


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
