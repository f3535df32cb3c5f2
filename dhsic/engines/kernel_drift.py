r"""Drift of the kernel: large changes of the quadratic form that scores features.

To first order the gain of a feature is a quadratic form, ``q_j = x_j' B x_j`` with ``B = 2 A - 2
diag(A 1)`` and ``A = W o K``. If B only changes by a factor between rounds, the order of the
features does not change. The *turn* of a round is the rest of the change of B,

    ``turn_t = min_alpha ||B_t - alpha B_{t-1}|| / ||B_t||``,

estimated on some rows of B that are drawn once for a run. On expression data (golub, 72 samples),
32 rows estimate it to 0.01.

If the turn is larger than in earlier rounds, the run could continue with any of several sets of
features, because the kernel of each set prefers this set. A single sample may decide between them.
In 73 subsets of the samples, drawn from nine data sets, mostly expression, exact runs were repeated
four times, each without one sample. In 12 of the subsets less than 0.75 of the last 100 features
were selected again on average. In 10 of these 12, the turn of some earlier round exceeded `TURN`,
and `FASTER` times the smallest turn before it; the same holds for 11 of the other 61.
`benchmarks/lost.py` computes these counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index

#: Minimum turn that is reported, for rounds that remove a tenth of the features; and its minimum
#: ratio to the smallest turn before.
TURN, FASTER = 0.06, 1.8
#: Maximum number of entries compared at a time (2 MiB), unless one row has more.
AT_A_TIME = 1 << 18
#: Fraction of removed features to which `TURN` applies; and number of features below which turns
#: are larger by chance, in proportion to the inverse square root of their number.
PART, FEW = 0.1, 100


def form_rows(A: Float, rows: Index) -> Float:
    """Compute rows of B (r, m), float32, from rows of ``A = W o K``, (r, m).

    To first order, ``x' B x`` is the change of HSIC without the feature x; W are label weights and
    K is the kernel matrix. `rows` (r,) are the sample indices of the rows.
    """
    which = np.arange(len(rows))
    return with_diagonal((2.0 * A).astype(np.float32), rows, A[which, rows], A.sum(axis=1))


def with_diagonal(twice: Array, rows: Index, own: Float, sums: Float) -> Array:
    """Compute rows of the quadratic form B, (r, m), from rows of ``2 A``, (r, m).

    `twice` contains the rows of ``2 A``, and is modified in place. `rows` (r,) are the sample
    indices of the rows; `own` and `sums` (r,) are the diagonal and the row sums of A.

    >>> with_diagonal(2 * np.ones((1, 3)), np.array([2]), np.ones(1), 3 * np.ones(1))
    array([[ 2.,  2., -4.]])
    """
    twice[np.arange(len(rows)), rows] = 2.0 * own - 2.0 * sums
    return twice


def turn(B: Array, before: Array) -> float:
    """Compute the relative change of B (r, m) since the round `before`, up to a factor.

    To first order, ``x' B x`` is the change of HSIC without the feature x. The result is the norm
    of the residual of B after projection on `before`, relative to the norm of B.
    """
    height = max(1, AT_A_TIME // B.shape[1])

    def parts() -> Iterator[tuple[Float, Float]]:
        """Yield a few rows of B and of `before` at a time, in float64."""
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
    """Number of features in the last round with a large turn; 0 if there is none.

    Only rounds with more than n features count. `history` contains the records of the rounds. A
    turn is large if it is at least `TURN`, and at least `FASTER` times the smallest turn before it.
    `TURN` is raised if a round removes more than a fraction `PART` of the features, or has fewer
    than `FEW`.
    """
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
