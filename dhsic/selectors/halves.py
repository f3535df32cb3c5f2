"""Stability: what part of the halves of the samples selects a feature.

Meinshausen and Buhlmann: Stability selection. J. R. Statist. Soc. B 72, 2010. A feature that is
selected by what a few samples happen to say is not selected from most halves; one that the target
depends on is. Halves are drawn without replacement, class by class where labels are classes, and
each is a run of its own, over the same reading of the data (`dhsic.selectors.many`).

With a threshold halves are complementary pairs (Shah and Samworth, 2013), and how many features
reach it falsely has a bound: `dhsic.selectors.falsely`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.kernels.labels import CLASS_KERNELS, auto_kernel
from dhsic.results import Outcome
from dhsic.selectors.falsely import expected_false, expected_false_concave
from dhsic.selectors.run import SelectionRun
from dhsic.validation import seed_of

#: Of a part of halves.
ROUNDING = 1e-9


def halves(y: Array | None, m: int, n: int, seed: int, *, paired: bool = False) -> list[Index]:
    """Positions of the samples of each of n random halves of m, ascending.

    Classes are halved one by one where y, (m,) or (m, t), is one target of them. With `paired` the
    first two have no sample in common, and so on, but for classes of one sample.
    """
    rng = np.random.default_rng(seed)
    classes = strata(y, m)
    if paired:
        found = []
        for _ in range(n // 2):
            drawn = [(rng.permutation(s), max(1, s.size // 2)) for s in classes]
            found.append(np.sort(np.concatenate([s[:k] for s, k in drawn])))
            found.append(np.sort(np.concatenate([s[-k:] for s, k in drawn])))
        return found
    # Of an odd number one more or one less, by turns: a half of all, and none of no class.
    sizes = [max(1, (s.size + i % 2) // 2) for i, s in enumerate(classes, start=1)]
    return [
        np.sort(
            np.concatenate([rng.permutation(s)[:k] for s, k in zip(classes, sizes, strict=True)])
        )
        for _ in range(n)
    ]


def strata(y: Array | None, m: int) -> list[Index]:
    """Positions of the samples of each class, of y (m,) or (m, t); else all together."""
    everyone = np.arange(m)
    if y is not None and y.dtype.kind == "T":  # NumPy casts text of any width in part only
        y = y.astype(object)
    if y is None or y.ndim != 1 or auto_kernel(y) not in CLASS_KERNELS:
        return [everyone]
    _, codes = np.unique(y.astype(str), return_inverse=True)
    return [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]


def halved(run: SelectionRun) -> Iterator[SelectionRun]:
    """The run on each half of its samples that it asks for, which keep checkpoints next to its own.

    What the values are is as of all samples, once that is known; so are data that were loaded.
    """
    asked = run.selector
    place = asked.checkpoint
    of_all: dict[str, Any] = {"progress": False, "interactions": None}
    if run.values is not None:
        of_all["standardize"] = run.standardizes
    rows, source = run.rows, run.source
    if run.common is not None and run.common.source.in_memory:
        rows, source = None, run.common.source
    of_all["stability_threshold"] = None
    n, paired = int(asked.stability), asked.stability_threshold is not None
    drawn = halves(run.y, run.n_samples, n, seed_of(asked.random_state), paired=paired)
    for number, half in enumerate(drawn):
        kept = place and f"{place}.stability/{number:03d}"
        yield replace(
            run.of_samples(half).asking(checkpoint=kept, stability=0, **of_all),
            source=source,
            rows=half if rows is None else rows[half],
            announce=None,
            given=run.given or (run.source if source is not run.source else None),
            loaded=None,
            common=None,
        )


def check_halves(run: SelectionRun) -> None:
    """Refuse before the work what halves of the samples are too few for."""
    n = int(run.selector.stability)
    if n:
        run.selector.labels(run)  # what is refused of all samples is not blamed on halves
    for part in halved(run) if n else ():
        try:
            part.selector.check_samples(part)
            part.selector.labels(part)
        except InputError as error:
            raise InputError(
                f"stability={n} selects from halves of the samples, {part.n_samples} of "
                f"{run.n_samples}, and there: {error}"
            ) from error


def with_stability(run: SelectionRun, outcome: Outcome, found: Sequence[Outcome]) -> Outcome:
    """The outcome of a run with a column ``stability``: part of halves that select a feature.

    From halves as many features (or groups) are selected as from all samples. With a threshold
    there is a column ``stable`` besides, and what is known of how many are so falsely.
    """
    if not found:
        return outcome
    count = run.n_wanted
    chosen = np.zeros(run.source.n_features)
    for half in found:
        chosen[half.worst_first[::-1][: half.order.n_features(count)]] += 1.0
    meaning = (
        f"part of {len(found)} random halves of the samples from which the feature is selected"
    )
    part, told = chosen / len(found), {}
    columns: dict[str, tuple[Array, str]] = {"stability": (part, meaning)}
    threshold = run.selector.stability_threshold
    if threshold is not None:
        stable = part >= threshold - ROUNDING
        columns["stable"] = stable, f"whether a part {threshold:g} or more of the halves selects it"
        varying = int((~outcome.scaling.constant).sum())
        p = varying if run.groups is None else run.n_candidates
        q = min(count, p)
        told = {
            "stability_threshold": float(threshold),
            "n_stable": int(stable.sum()),
            "expected_false": expected_false(q, p, threshold),
            "expected_false_concave": expected_false_concave(q, p, threshold, len(found) // 2),
        }
    order = outcome.order
    extra, more = {**order.extra, **columns}, {**order.told, **told}
    return replace(outcome, order=replace(order, extra=extra, told=more))
