r"""How many features are selected falsely, at most, of those that many halves of samples select.

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

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from dhsic._typing import Float

#: Concavity of the distribution of the part of pairs, both of which select, and of that of halves.
OF_PAIRS, OF_HALVES = -1 / 2, -1 / 4
#: Shifts of the power.
LEAST, MOST = 1e-5, 1e5


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
