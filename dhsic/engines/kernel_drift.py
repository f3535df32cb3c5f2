r"""Turns of the kernel: rounds after which features are scored by a different quadratic form.

To first order the gain of a feature is a quadratic form, ``q_j = x_j' B x_j`` with ``B = 2 A - 2
diag(A 1)`` and ``A = W o K``. If it only changes by a factor between rounds, the order of the
features stays. The turn is the other part of its change,

    ``turn_t = min_alpha ||B_t - alpha B_{t-1}|| / ||B_t||``,

here estimated on some rows, drawn once for a run: on expression data (golub, 72 samples) 32 rows
give it to 0.01.

If a kernel turns faster than before, there are several sets of features that it could turn to, each
of which makes a kernel that prefers it; a single sample may decide between them. In 73 samples
drawn from nine data sets, mostly expression, exact runs were repeated four times without one
sample. In 12 of the draws less than 0.75 of the last 100 features were selected again on average.
In 10 of these 12 some earlier round had turned by more than `TURN`, and by `FASTER` times the
slowest turn before it; so had 11 of the other 61. `benchmarks/lost.py` computes these counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index

#: Turn that counts, for rounds that remove a tenth of the features; and its minimum ratio to the
#: smallest turn before.
TURN, FASTER = 0.06, 1.8
#: Entries of rows compared at a time (2 MiB), unless one row has more.
AT_A_TIME = 1 << 18
#: Fraction of removed features that `TURN` is for; and number of features below which chance turns
#: the kernel, like their inverse square root.
PART, FEW = 0.1, 100


def form_rows(A: Float, rows: Index) -> Float:
    """Rows of B, (r, m) float32, from rows of ``A = W o K``, (r, m), with sample numbers `rows`."""
    which = np.arange(len(rows))
    return with_diagonal((2.0 * A).astype(np.float32), rows, A[which, rows], A.sum(axis=1))


def with_diagonal(twice: Array, rows: Index, own: Float, sums: Float) -> Array:
    """Replace the diagonal in rows of ``2 A``, (r, m), to make rows of B, by A's diagonal and sums.

    >>> with_diagonal(2 * np.ones((1, 3)), np.array([2]), np.ones(1), 3 * np.ones(1))
    array([[ 2.,  2., -4.]])
    """
    twice[np.arange(len(rows)), rows] = 2.0 * own - 2.0 * sums
    return twice


def turn(B: Array, before: Array) -> float:
    """Residual of B (r, m) after projection on B of the round `before`, relative to its norm."""
    height = max(1, AT_A_TIME // B.shape[1])

    def parts() -> Iterator[tuple[Float, Float]]:
        """Yield some rows of both, in float64."""
        for a in range(0, len(B), height):
            yield B[a : a + height].astype(np.float64), before[a : a + height].astype(np.float64)

    size = base = between = residual = 0.0
    for this, last in parts():
        size += float(np.vdot(this, this))
        base += float(np.vdot(last, last))
        between += float(np.vdot(this, last))
    if size == 0 or base == 0:
        return 0.0
    for this, last in parts():
        other = this - between / base * last
        residual += float(np.vdot(other, other))
    return float(np.sqrt(residual / size))


def turned_at(history: Sequence[Mapping[str, Any]], n: int) -> int:
    """Number of features when the kernel last turned, before n were left; 0 if it never did."""
    least, turned_size = np.inf, 0
    for record in history[1:]:  # the first round has no turn
        size, turned = int(record["n_features"]), float(record.get("turn", 0.0))
        if size <= n or not turned:
            continue
        least = min(least, turned)
        part = max(int(record["n_removed"]) / size / PART, 1.0)
        if turned >= TURN * part * max(1.0, np.sqrt(FEW / size)) and turned >= FASTER * least:
            turned_size = size
    return turned_size
