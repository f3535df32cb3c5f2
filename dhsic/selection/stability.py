r"""Stability selection: the fraction of random halves of the samples that select a feature.

Meinshausen and Buhlmann: Stability selection. J. R. Statist. Soc. B 72, 2010. A feature that is
associated with the target is selected in most halves. A feature that is selected by chance is not.
Halves are drawn without replacement, stratified by class if labels are classes. Each half is a
separate run; all runs share one reading of the data (`dhsic.selection.batch`).

With a threshold tau, halves are drawn as complementary pairs. Then there is a bound on the number
of features that reach the threshold falsely. Shah and Samworth: Variable selection with error
control: another look at stability selection. J. R. Statist. Soc. B 75, 2013. There are B
complementary pairs, and each half selects q of p features. A feature whose probability of being
selected from a half is at most ``theta = q / p`` is a false one. The expected number of false
features among those that at least a fraction tau of the 2 B halves select is at most

- ``q^2 / (p (2 tau - 1))``, for any method and any data (their Theorem 1 with Markov's inequality);
- ``p min(D(theta^2, 2 tau - 1, B, -1/2), D(theta, tau, 2 B, -1/4))`` if the fraction of halves has
  an r-concave distribution (their eq. 8). This bound is usually far smaller. ``D(eta, t, B, r)`` is
  the largest probability of a fraction of at least t, for r-concave distributions on ``0, 1/B, ...,
  1`` with mean eta. It is attained by probabilities of k / B that are proportional to a truncated
  power ``(a + k)^(1/r)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.labels import MIXED, auto_kernel, may_be_classes
from dhsic.kernels.risk_sets import is_censored
from dhsic.results.schema import Outcome
from dhsic.selection.run import Method, SelectionRun
from dhsic.selection.stage import Stage, StageCost
from dhsic.validation import is_count, is_number, seed_of, such

#: Tolerance in the comparison of a fraction of halves with the threshold.
ROUNDING = 1e-9
#: Concavity r of the distribution of the fraction of pairs in which both halves select the feature,
#: and of the distribution of the fraction of halves that select it.
OF_PAIRS, OF_HALVES = -1 / 2, -1 / 4
#: Minimum number of samples in a stratum, if labels are whole numbers.
SMALLEST_STRATUM = 4
#: Smallest and largest shift a of the truncated power.
LEAST, MOST = 1e-5, 1e5


def halves(y: Array | None, m: int, n: int, seed: int, *, paired: bool = False) -> list[Index]:
    """Draw n random halves of m samples; return the positions of each half, ascending.

    If y, (m,) or (m, t), is one target of classes, each class is halved separately. With `paired`,
    halves 0 and 1 are disjoint, as are halves 2 and 3, and so on. Classes of one sample are an
    exception.
    """
    rng = np.random.default_rng(seed)
    classes = strata(y, m)
    if paired:
        samples = []
        for _ in range(n // 2):
            shuffled = [(rng.permutation(s), max(1, s.size // 2)) for s in classes]
            samples.append(np.sort(np.concatenate([s[:k] for s, k in shuffled])))
            samples.append(np.sort(np.concatenate([s[-k:] for s, k in shuffled])))
        return samples
    # Sizes of odd classes are rounded up and down in turn, so that a half has m / 2 samples; no
    # class is empty.
    sizes = [max(1, (s.size + i % 2) // 2) for i, s in enumerate(classes, start=1)]
    return [
        np.sort(
            np.concatenate([rng.permutation(s)[:k] for s, k in zip(classes, sizes, strict=True)])
        )
        for _ in range(n)
    ]


def strata(y: Array | None, m: int) -> list[Index]:
    """Positions of the samples of each class of y, (m,) or (m, t).

    Censored times have the classes of samples with and without an event. If y has no classes, there
    is one group of all samples.
    """
    everyone = np.arange(m)
    if y is not None and y.dtype.kind == "T":  # NumPy cannot cast variable-width text directly
        y = y.astype(object)
    if y is not None and is_censored(y):
        return [each for each in map(np.flatnonzero, (y["event"], ~y["event"])) if each.size]
    if y is None or y.ndim != 1 or not may_be_classes(y):
        return [everyone]
    is_mixed = auto_kernel(y) == MIXED
    _, codes = np.unique(y.astype(float if is_mixed else str), return_inverse=True)
    classes = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    return _of_several(classes) if is_mixed else classes


def _of_several(classes: list[Index]) -> list[Index]:
    """Merge small classes with the next larger class.

    `classes` contains the sample positions of each class, in ascending order of the class values. A
    class is small if it has fewer than `SMALLEST_STRATUM` samples.
    """
    merged = [classes[0]]
    for members in classes[1:]:
        if merged[-1].size < SMALLEST_STRATUM:
            merged[-1] = np.sort(np.append(merged[-1], members))
        else:
            merged.append(members)
    return merged


class Stability(Stage):
    """Repeat the selection on random halves of the samples, and count selections per feature."""

    name = "stability"
    constraints: ClassVar = {
        "stability": such(
            lambda n: is_count(n, 0) and n != 1,
            "the number of random halves of the samples, such as 50, or 0 for none.",
        ),
        "stability_threshold": such(
            lambda part: part is None or (is_number(part) and 0.5 < float(part) <= 1),
            "a fraction of the halves, above 0.5 and at most 1, such as 0.9, or None.",
        ),
    }
    parameters = ("stability", "stability_threshold")
    off: ClassVar = {"stability": 0, "stability_threshold": None}

    @classmethod
    def check_parameters(cls, selector: Method) -> None:
        n, threshold = selector.stability, selector.stability_threshold
        if threshold is not None and (not n or n % 2):
            raise InputError(
                f"stability_threshold={threshold!r} needs pairs of halves, but stability={n!r}; "
                "pass an even number as stability=, such as 100."
            )

    def cost(self, run: SelectionRun) -> StageCost:
        halves = f"{run.selector.stability} runs over half of the samples (stability=)"
        return StageCost(note=f"{halves} are not included")

    def check(self, run: SelectionRun) -> None:
        """Reject a run if halves have too few samples, or labels that cannot be used alone."""
        run.selector.labels(run)  # errors that are not due to halves
        for part in self.parts(run):
            try:
                part.selector.check_samples(part)
                part.selector.labels(part)
            except InputError as error:
                raise InputError(
                    f"stability={int(run.selector.stability)} needs selections from halves of the "
                    f"samples ({part.n_samples} of {run.n_samples}), but this is not possible: "
                    f"{error}"
                ) from error

    def parts(self, run: SelectionRun) -> Iterator[SelectionRun]:
        """Yield the run on each of its random halves."""
        selector = run.selector
        n, paired = int(selector.stability), selector.stability_threshold is not None
        subsets = halves(run.y, run.n_samples, n, seed_of(selector.random_state), paired=paired)
        for number, half in enumerate(subsets):
            yield run.part(half, f"stability/{number:03d}")

    def after(self, run: SelectionRun, outcome: Outcome, parts: Sequence[Outcome]) -> Outcome:
        """Add a column ``stability``: the fraction of halves that select each feature.

        Each half selects the same number of features (or groups) as the run on all samples. With a
        threshold, a column ``stable`` and bounds on the number of false stable features are added.
        """
        count, chosen = run.n_wanted, np.zeros(outcome.source.n_features)
        for half in parts:
            chosen[half.worst_first[::-1][: half.order.n_features(count)]] += 1.0
        meaning = f"fraction of {len(parts)} random halves of the samples that select the feature"
        part, attributes = chosen / len(parts), {}
        columns: dict[str, tuple[Array, str]] = {"stability": (part, meaning)}
        threshold = run.selector.stability_threshold
        if threshold is not None:
            stable = part >= threshold - ROUNDING
            columns["stable"] = (
                stable,
                f"whether at least a fraction {threshold:g} of the halves selects the feature",
            )
            varying = int((~outcome.scaling.constant).sum())
            p = varying if run.groups is None else run.n_candidates
            q = min(count, p)
            attributes = {
                "stability_threshold": float(threshold),
                "n_stable": int(stable.sum()),
                "expected_false": expected_false(q, p, threshold),
                "expected_false_concave": expected_false_concave(q, p, threshold, len(parts) // 2),
            }
        return replace(outcome, order=outcome.order.at(slice(None), attributes, **columns))

    @classmethod
    def sentences(cls, result: xr.Dataset) -> Iterator[str]:
        """Report the number of stable features, and bounds on the number of false ones."""
        about = result.attrs
        if "stability_threshold" in about:
            bounds = about["expected_false"], about["expected_false_concave"]
            yield (
                f"{about['n_stable']:,} features were selected in at least a fraction "
                f"{about['stability_threshold']:g} of the halves. The expected number of false "
                f"features among them is at most {bounds[0]:.2g}, or {bounds[1]:.2g} if the "
                "fraction of halves has an r-concave distribution."
            )


def expected_false(q: float, p: int, threshold: float) -> float:
    """Upper bound on the expected number of false stable features, for any method and data.

    q of p features are selected from each half. The module docstring has the definitions.
    """
    return min(float(q), q * q / (p * (2.0 * threshold - 1.0)))


def expected_false_concave(q: float, p: int, threshold: float, n_pairs: int) -> float:
    """Upper bound on the expected number of false stable features, for r-concave distributions.

    q of p features are selected from each half. The module docstring has the definitions.
    """
    theta, B = q / p, n_pairs
    count = int(
        np.ceil(threshold * 2 * B - 1e-9)
    )  # number of the 2 B halves that must select a feature
    of_halves = tails(theta, 2 * B, OF_HALVES)[count]
    of_pairs = tails(theta * theta, B, OF_PAIRS)[count - B] if count > B else 1.0
    return min(expected_false(q, p, threshold), float(min(of_halves, of_pairs)) * p)


def tails(eta: float, B: int, r: float) -> Float:
    """Bounds ``D(eta, k / B, B, r)`` of the module docstring for k = 0, ..., B, (B + 1,).

    The bound is 1 where none is known.
    """
    from scipy.optimize import minimize_scalar  # imported here because it loads slowly

    bounds_of, mean = np.ones(B + 1), eta * B
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
        bounds_of[t], best = min(bounds_of[t - 1], max(0.0, largest[0])), largest[1]
    return bounds_of


def _shifts(mean: float, B: int, r: float) -> Float | None:
    """Shifts a, (B + 1,), for which ``(a + k)^(1/r)`` on 0..n has the given mean, for each n.

    An entry is `MOST` if n is too small for the mean. Returns None if the mean is too small for any
    shift.
    """
    from scipy.optimize import brentq  # imported here because it loads slowly

    shifts, k = np.full(B + 1, MOST), np.arange(B + 1.0)

    def of_mean(a: float, n: int) -> float:
        powers = (a + k[: n + 1]) ** (1.0 / r)
        return float(k[: n + 1] @ powers / powers.sum() - mean)

    for n in range(int(np.ceil(2.0 * mean)) + 1, B + 1):
        if of_mean(LEAST, n) > 0:  # no shift gives such a small mean
            return None
        if of_mean(MOST, n) > 0:
            shifts[n] = brentq(of_mean, LEAST, MOST, args=(n,), xtol=1e-12)
    return shifts


def _tail(a: float, n: int, t: int, mean: float, r: float) -> float:
    """Probability of at least t, if probabilities are proportional to ``(a + k)^(1/r)`` on 0..n.

    A mass at n + 1 is added so that the distribution has the mean `mean`.
    """
    k = np.arange(n + 1.0)
    powers = (a + k) ** (1.0 / r)
    return float(1.0 - (n + 1.0 - mean) * powers[:t].sum() / ((n + 1.0 - k) @ powers))
