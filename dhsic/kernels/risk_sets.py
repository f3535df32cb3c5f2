r"""Risk sets of censored times, the Cox model without features, and log-rank scores.

A censored time is the time of an event, or the time up to which no event was observed. A sample
with entry time ``v_i`` and time ``t_i`` is *at risk* at t if ``v_i < t <= t_i``. With distinct
event times ``t_1 < ... < t_K``, with ``d_k`` events and ``n_k`` samples at risk at ``t_k``, the
log-rank score of a sample with a weight function w is

    ``s_i = delta_i w(t_i) - exp(eta_i) sum_{k: v_i < t_k <= t_i} w(t_k) d_k / S0_k``,
    ``S0_k = sum_{i at risk at t_k} exp(eta_i)``,

where delta_i is 1 for an event, and ``eta_i`` is the linear predictor of a Cox model on the
covariates, 0 without covariates (then ``S0_k = n_k``). With w = 1 the scores are the martingale
residuals of this model, and ``sum_i x_i s_i`` is the numerator of the log-rank test of a feature x
(Mantel, 1966; Peto and Peto, 1972), which is the score test of a Cox model (Cox, 1972). Tied events
share one risk set (Breslow, 1974).

All sums over risk sets are differences of cumulative sums, in O(m log m) operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError

#: Type of censored times: time, whether the event was observed, and the time of entry (minus
#: infinity if a sample was observed from the start).
CENSORED = np.dtype([("time", np.float64), ("event", np.bool_), ("entry", np.float64)])
#: Newton's method for the Cox model: maximum number of steps and of halvings of a step, smallest
#: increase of the log likelihood, and largest linear predictor (a covariate may separate events
#: from censored times, so that its coefficient is infinite).
STEPS, HALVINGS, TOLERANCE, LARGEST = 30, 20, 1e-10, 20.0


def is_censored(y: Array) -> bool:
    """Whether labels are censored times, of type `CENSORED`."""
    return bool(y.dtype == CENSORED)


def check_events(y: Array) -> None:
    """Reject censored times y (m,) without any event."""
    if not y["event"].any():
        raise InputError(
            f"None of {len(y)} samples has an event, so times cannot be compared. Check how events "
            "are coded: 1 or True means that the event was observed."
        )


def event_counts(y: Array | None) -> dict[str, int]:
    """Numbers of events and censored samples, as result attributes; {} for other labels."""
    if y is None or not is_censored(y):
        return {}
    n = int(y["event"].sum())
    return {"n_events": n, "n_censored": len(y) - n}


@dataclass(frozen=True, eq=False)
class RiskSets:
    """Samples at risk at each of the K distinct event times.

    Attributes
    ----------
    event : (m,) bool
        Whether the event of a sample was observed.
    deaths : (K,)
        Number of events at each event time, in ascending order of time.
    first, last : (m,)
        A sample is at risk at the event times numbered from `first` to `last` - 1.
    """

    event: Array
    deaths: Float
    first: Index
    last: Index

    @staticmethod
    def of(y: Array) -> RiskSets:
        """Compute the risk sets of censored times y (m,), which include at least one event."""
        times, deaths = np.unique(y["time"][y["event"]], return_counts=True)
        first = np.searchsorted(times, y["entry"], side="right")
        last = np.searchsorted(times, y["time"], side="right")
        return RiskSets(y["event"], deaths.astype(np.float64), first, last)

    def sums(self, values: Float) -> Float:
        """Sums of values (m,) over the samples at risk, for each of the K event times: (K,)."""
        K = self.deaths.size
        leaving = np.bincount(self.last, values, minlength=K + 1)
        entering = np.bincount(self.first, values, minlength=K + 1)
        difference = np.cumsum(leaving[::-1])[::-1] - np.cumsum(entering[::-1])[::-1]
        return np.asarray(difference[1:])

    def cumulated(self, increments: Float) -> Float:
        """Sums of increments over the event times at which a sample is at risk: (m, ...).

        The increments (K, ...), one per event time, may be steps of the cumulative hazard, for
        example.
        """
        nothing = np.zeros((1, *increments.shape[1:]))
        upto = np.concatenate([nothing, np.cumsum(increments, axis=0)])
        return np.asarray(upto[self.last] - upto[self.first])

    def scores(self, weights: Float, eta: Float) -> Float:
        """Log-rank scores (m, R) for weights (K, R) at K event times.

        The linear predictors of the samples are `eta` (m,).
        """
        relative = np.exp(eta)
        hazard = self.deaths / np.maximum(self.sums(relative), np.finfo(float).tiny)
        expected = relative[:, None] * self.cumulated(weights * hazard[:, None])
        observed = np.where(self.event[:, None], weights[np.maximum(self.last - 1, 0)], 0.0)
        return np.asarray(observed - expected)

    @property
    def event_ranks(self) -> Float:
        """Fraction of events before each of the K event times, (K,).

        Half of the tied events count.
        """
        return np.asarray((np.cumsum(self.deaths) - self.deaths / 2) / self.deaths.sum())


@dataclass(frozen=True, eq=False)
class NullModel:
    """Cox model of the covariates Z (m, q) alone, with ties as in Breslow (1974)."""

    risk: RiskSets
    Z: Float

    def linear_predictor(self) -> Float:
        """Linear predictor eta (m,) at the maximum of the partial likelihood.

        Newton's method with halved steps; it stops where the predictor exceeds `LARGEST`, because
        the likelihood may have no maximum.
        """
        m, q = self.Z.shape
        beta = np.zeros(q)
        if not q:
            return np.zeros(m)
        value = self._log_likelihood(beta)
        for _ in range(STEPS):
            step = self._step(beta)
            for _ in range(HALVINGS):
                higher = self._log_likelihood(beta + step)
                if higher >= value:
                    break
                step = step / 2
            else:
                break
            gain = higher - value
            if np.abs(self.Z @ (beta + step)).max() > LARGEST:
                break
            beta, value = beta + step, higher
            if gain <= TOLERANCE * (1.0 + abs(value)):
                break
        return np.asarray(self.Z @ beta)

    def _log_likelihood(self, beta: Float) -> float:
        eta = np.clip(self.Z @ beta, -10 * LARGEST, 10 * LARGEST)
        sums = np.maximum(self.risk.sums(np.exp(eta)), np.finfo(float).tiny)
        return float(eta[self.risk.event].sum() - self.risk.deaths @ np.log(sums))

    def _step(self, beta: Float) -> Float:
        """Newton step (q,): the gradient divided by the information matrix."""
        risk, Z = self.risk, self.Z
        relative = np.exp(Z @ beta)
        hazard = risk.deaths / risk.sums(relative)
        means = np.column_stack([risk.sums(relative * z) for z in Z.T]) * hazard[:, None]
        expected = relative * risk.cumulated(hazard)
        gradient = Z.T @ (risk.event - expected)
        information = (Z.T * expected) @ Z - (means.T / risk.deaths) @ means
        return np.asarray(np.linalg.lstsq(information, gradient, rcond=1e-10)[0])


def concordance(y: Array, risk: Float) -> float:
    """Harrell's concordance: fraction of comparable pairs with more risk for the earlier event.

    A pair is comparable if the earlier time is an event, and the other sample was at risk at this
    time. If times are equal, an event comes before a censored time. Pairs of equal risk count one
    half. NaN if no pair is comparable.

    Parameters
    ----------
    y : (m,) of type `CENSORED`
        Censored times.
    risk : (m,)
        Predicted risk: larger means an earlier event.
    """
    n_concordant, n_comparable = 0.0, 0
    for i in np.flatnonzero(y["event"]):
        t = y["time"][i]
        later = (y["time"] > t) | ((y["time"] == t) & ~y["event"])
        others = risk[later & (y["entry"] < t)]
        n_comparable += others.size
        n_concordant += float((others < risk[i]).sum()) + 0.5 * float((others == risk[i]).sum())
    return n_concordant / n_comparable if n_comparable else float("nan")


def kaplan_meier(y: Array) -> tuple[Float, Float]:
    """Kaplan-Meier estimate of censored times y (m,) (Kaplan and Meier, 1958).

    Returns
    -------
    times, survival : (K,)
        Distinct event times, ascending, and the estimated probability of no event until and
        including each of them; empty if there is no event.
    """
    if not y["event"].any():
        return np.empty(0), np.empty(0)
    sets = RiskSets.of(y)
    at_risk = sets.sums(np.ones(len(y)))
    times = np.asarray(np.unique(y["time"][y["event"]]), dtype=np.float64)
    return times, np.asarray(np.cumprod(1.0 - sets.deaths / at_risk), dtype=np.float64)
