r"""Stability: what part of the halves of the samples selects a feature.

Meinshausen and Buhlmann: Stability selection. J. R. Statist. Soc. B 72, 2010. A feature that is
selected by what a few samples happen to say is not selected from most halves; one that the target
depends on is. Halves are drawn without replacement, class by class where labels are classes, and
each is a run of its own, over the same reading of the data (`dhsic.selection.batch`).

With a threshold halves are complementary pairs, and how many features reach it falsely has a bound:
Shah and Samworth: Variable selection with error control: another look at stability selection.
J. R. Statist. Soc. B 75, 2013. Of p features each of B complementary pairs of halves selects q;
features that no more than a part ``theta = q / p`` of halves would select are those that should not
be. Of them at most

- ``q^2 / (p (2 tau - 1))`` are expected among the features that a part tau of the 2 B halves select
  (their Theorem 1 with Markov's inequality), whatever the method and the data;
- ``p min(D(theta^2, 2 tau - 1, B, -1/2), D(theta, tau, 2 B, -1/4))`` where the part of halves has a
  distribution that is r-concave (their eq. 8), which is mostly far less. D is the largest tail
  that such a distribution of a mean on ``0, 1/B, ..., 1`` may have: a power ``(a + k)^(1/r)`` cut
  off, of mean eta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.labels import MIXED, auto_kernel, may_be_classes
from dhsic.results.schema import Outcome
from dhsic.selection.run import SelectionRun
from dhsic.validation import seed_of

#: Of a part of halves.
ROUNDING = 1e-9
#: Concavity of the distribution of the part of pairs, both of which select, and of that of halves.
OF_PAIRS, OF_HALVES = -1 / 2, -1 / 4
#: Samples of a stratum of whole numbers, at least.
SMALLEST_STRATUM = 4
#: Shifts of the power.
LEAST, MOST = 1e-5, 1e5


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
    if y is None or y.ndim != 1 or not may_be_classes(y):
        return [everyone]
    is_mixed = auto_kernel(y) == MIXED
    _, codes = np.unique(y.astype(float if is_mixed else str), return_inverse=True)
    found = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    return _of_several(found) if is_mixed else found


def _of_several(classes: list[Index]) -> list[Index]:
    """Classes by ascending number, those of few samples together with the next ones."""
    found = [classes[0]]
    for some in classes[1:]:
        if found[-1].size < SMALLEST_STRATUM:
            found[-1] = np.sort(np.append(found[-1], some))
        else:
            found.append(some)
    return found


def halved(run: SelectionRun) -> Iterator[SelectionRun]:
    """The run on each half of its samples that it asks for, which keep checkpoints next to its own.

    What the values are is as of all samples, once that is known; so are data that were loaded.
    """
    asked = run.selector
    place = asked.checkpoint
    of_all: dict[str, Any] = {"progress": False, "interactions": None}
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
    return replace(outcome, order=outcome.order.at(slice(None), told, **columns))


def expected_false(q: float, p: int, threshold: float) -> float:
    """Features expected to be selected falsely, at most, whatever the data."""
    return min(float(q), q * q / (p * (2.0 * threshold - 1.0)))


def expected_false_concave(q: float, p: int, threshold: float, n_pairs: int) -> float:
    """The same where distributions are r-concave."""
    theta, B = q / p, n_pairs
    count = int(np.ceil(threshold * 2 * B - 1e-9))  # halves of 2 B that are needed
    of_halves = tails(theta, 2 * B, OF_HALVES)[count]
    of_pairs = tails(theta * theta, B, OF_PAIRS)[count - B] if count > B else 1.0
    return min(expected_false(q, p, threshold), float(min(of_halves, of_pairs)) * p)


def tails(eta: float, B: int, r: float) -> Float:
    """``D(eta, k / B, B, r)`` for k from 0 to B: (B + 1,), 1 where nothing is known."""
    found, mean = np.ones(B + 1), eta * B
    best = int(np.ceil(2.0 * mean)) + 1
    shifts = _shifts(mean, B, r)
    for t in range(best, B + 1 if shifts is not None else 0):
        assert shifts is not None, "else there is no t"
        largest = _tail(shifts[B], B, t, mean, r), B
        for n in range(max(best, t - 1), B):
            bounds = shifts[n + 1], shifts[n]
            most = minimize_scalar(
                lambda a, n=n, t=t: -_tail(a, n, t, mean, r), bounds=bounds, method="bounded"
            )
            largest = max(largest, (-float(most.fun), n))
        found[t], best = min(found[t - 1], max(0.0, largest[0])), largest[1]
    return found


def _shifts(mean: float, B: int, r: float) -> Float | None:
    """Shift a of the power that is cut off after n and has that mean, by n; None for none."""
    shifts, k = np.full(B + 1, MOST), np.arange(B + 1.0)

    def of_mean(a: float, n: int) -> float:
        powers = (a + k[: n + 1]) ** (1.0 / r)
        return float(k[: n + 1] @ powers / powers.sum() - mean)

    for n in range(int(np.ceil(2.0 * mean)) + 1, B + 1):
        if of_mean(LEAST, n) > 0:  # no power is that steep
            return None
        if of_mean(MOST, n) > 0:
            shifts[n] = brentq(of_mean, LEAST, MOST, args=(n,), xtol=1e-12)
    return shifts


def _tail(a: float, n: int, t: int, mean: float, r: float) -> float:
    """Part at t and above: of a power shifted by a up to n, and at n + 1 what the mean asks for."""
    k = np.arange(n + 1.0)
    powers = (a + k) ** (1.0 / r)
    return float(1.0 - (n + 1.0 - mean) * powers[:t].sum() / ((n + 1.0 - k) @ powers))
