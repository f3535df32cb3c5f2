"""Stability selection: how often a feature is selected from half of the samples.

Meinshausen and Buhlmann: Stability selection. J. R. Statist. Soc. B 72 (2010). A feature that is
selected by what a few samples happen to say is not selected from most halves; one that the target
depends on is. Halves are drawn without replacement, class by class where labels are classes, and
each is a run of its own over the same blocks.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.kernels.labels import CLASS_KERNELS, auto_kernel
from dhsic.results import Outcome
from dhsic.selectors.run import SelectionRun
from dhsic.sources.views import ChecksummedSource


def halves(y: Array | None, m: int, n: int, seed: int) -> list[Index]:
    """Positions of the samples of each of n random halves of m, ascending.

    Classes are halved one by one where y, (m,) or (m, t), is one target of them.
    """
    rng = np.random.default_rng(seed)
    strata = _strata(y, m)
    # Of an odd number one more or one less, by turns: a half of all, and none of no class.
    sizes = [max(1, (s.size + i % 2) // 2) for i, s in enumerate(strata, start=1)]
    return [
        np.sort(
            np.concatenate([rng.permutation(s)[:k] for s, k in zip(strata, sizes, strict=True)])
        )
        for _ in range(n)
    ]


def check_halves(run: SelectionRun, n: int, seed: int) -> None:
    """Refuse before the work what halves of the samples are too few for."""
    if not n:
        return
    run.selector._labels(run)  # what is refused of all samples is not blamed on halves
    for number, half in enumerate(halves(run.y, run.n_samples, n, seed)):
        part = _of_half(run, half, number)
        try:
            part.selector.check_samples(part)
            part.selector._labels(part)
        except InputError as error:
            raise InputError(
                f"stability={n} selects from halves of the samples, {half.size} of "
                f"{run.n_samples}, and there: {error}"
            ) from error


def _strata(y: Array | None, m: int) -> list[Index]:
    everyone = np.arange(m)
    if y is not None and y.dtype.kind == "T":  # NumPy casts text of any width in part only
        y = y.astype(object)
    if y is None or y.ndim != 1 or auto_kernel(y) not in CLASS_KERNELS:
        return [everyone]
    _, codes = np.unique(y.astype(str), return_inverse=True)
    return [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]


def with_stability(run: SelectionRun, outcome: Outcome, n: int, count: int, seed: int) -> Outcome:
    """The outcome of a run with a column ``stability``: part of n halves that select a feature.

    From halves `count` features (or groups) are selected, as from all samples; they keep their
    checkpoints next to that of the run.
    """
    chosen = np.zeros(run.source.n_features)
    source = ChecksummedSource.over(outcome.source, outcome.scaling.checksum, run.rows)
    asked = copy(run.selector)
    asked.standardize = outcome.parameters["standardize"]
    # Halves of the data that the run itself has read, and as it took them.
    run = replace(run, source=source, values=outcome.values, selector=asked)
    for number, half in enumerate(halves(run.y, run.n_samples, n, seed)):
        found = _of_half(run, half, number).execute()
        chosen[found.worst_first[::-1][: found.order.n_features(count)]] += 1.0
    meaning = f"part of {n} random halves of the samples from which the feature is selected"
    order = replace(
        outcome.order, extra={**outcome.order.extra, "stability": (chosen / n, meaning)}
    )
    return replace(outcome, order=order)


def _of_half(run: SelectionRun, half: Index, number: int) -> SelectionRun:
    is_matrix = run.selector.label_kernel == "precomputed"
    return replace(
        run,
        y=run.y if run.y is None else run.y[np.ix_(half, half) if is_matrix else half],
        covariates=None if run.covariates is None else run.covariates[half],
        rows=half if run.rows is None else run.rows[half],
        checkpoint=run.checkpoint and f"{run.checkpoint}.stability/{number:03d}",
        progress=False,
        announce=None,
    )
