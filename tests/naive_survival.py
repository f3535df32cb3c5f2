"""Censored times as they are defined: risk sets, log-rank scores, concordance, in plain loops.

Nothing here is shared with the package. A sample is (time, event, entry); the weight functions are
those of `dhsic.kernels.censored`.
"""

import math


def at_risk(samples, t):
    """Positions of the samples at risk at time t."""
    return [i for i, (time, _, entry) in enumerate(samples) if entry < t <= time]


def event_times(samples):
    """Distinct times of events, ascending."""
    return sorted({time for time, event, _ in samples if event})


def deaths(samples, t):
    """Positions of the samples with an event at time t."""
    return [i for i, (time, event, _) in enumerate(samples) if event and time == t]


def weight(samples, t, number):
    """Weight function of this number at event time t."""
    before = sum(event and time < t for time, event, _ in samples)
    total = sum(event for _, event, _ in samples)
    u = (before + len(deaths(samples, t)) / 2) / total
    return 1.0 if number == 0 else math.sqrt(2) * math.cos(math.pi * number * u)


def scores(samples, number=0, eta=None):
    """Log-rank scores: weight of the own event, less the expectation while at risk."""
    eta = [0.0] * len(samples) if eta is None else eta
    out = [0.0] * len(samples)
    for t in event_times(samples):
        there, died = at_risk(samples, t), deaths(samples, t)
        total = sum(math.exp(eta[i]) for i in there)
        for i in there:
            out[i] -= weight(samples, t, number) * len(died) * math.exp(eta[i]) / total
        for i in died:
            out[i] += weight(samples, t, number)
    return out


def log_rank(samples, group):
    """Numerator and hypergeometric variance of the two-sample log-rank test (Mantel, 1966)."""
    numerator = variance = 0.0
    for t in event_times(samples):
        there, died = at_risk(samples, t), deaths(samples, t)
        n, d = len(there), len(died)
        ours = sum(group[i] for i in there)
        numerator += sum(group[i] for i in died) - d * ours / n
        if n > 1:
            variance += d * (n - d) / (n - 1) * (ours / n) * (1 - ours / n)
    return numerator, variance


def partial_likelihood(samples, x, beta):
    """Logarithm of Breslow's partial likelihood of a Cox model with one covariate x."""
    total = 0.0
    for t in event_times(samples):
        died = deaths(samples, t)
        total += sum(beta * x[i] for i in died)
        total -= len(died) * math.log(sum(math.exp(beta * x[i]) for i in at_risk(samples, t)))
    return total


def variance(samples, x, number=0):
    """Variance of the product of a feature x with the scores, from its variances in risk sets."""
    out = 0.0
    for t in event_times(samples):
        there, d = at_risk(samples, t), len(deaths(samples, t))
        n = len(there)
        if n > 1:
            middle = sum(x[i] for i in there) / n
            spread = sum((x[i] - middle) ** 2 for i in there) / n
            out += weight(samples, t, number) ** 2 * d * (n - d) / (n - 1) * spread
    return out


def concordance(samples, risk):
    """Harrell's concordance, over all pairs in which the first sample has the earlier event."""
    concordant, comparable = 0.0, 0
    for i, (time, event, _) in enumerate(samples):
        for j, (other, also, entry) in enumerate(samples):
            is_later = other > time or (other == time and not also)
            if i != j and event and is_later and entry < time:
                comparable += 1
                concordant += 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
    return concordant / comparable


def kaplan_meier(samples):
    """Event times, and the product of 1 - deaths / at risk up to each of them."""
    left, curve = 1.0, []
    for t in event_times(samples):
        left *= 1 - len(deaths(samples, t)) / len(at_risk(samples, t))
        curve.append(left)
    return event_times(samples), curve


def spread_ratio(h, u, weights):
    """Variance of HSIC relative to permutations, of products with cosines of u and variances h.

    `h` has mean 1. Only pairs of functions whose numbers sum to at most len(weights) count.
    """
    m, R = len(h), len(weights)

    def phi(r, i):
        return math.sqrt(2) * math.cos(math.pi * r * u[i])

    spread = sum((value - 1) ** 2 for value in h) / (m * (m - 1))  # of c_k under permutations
    total = 0.0
    for r in range(1, R + 1):
        for q in range(1, R + 1):
            H = sum(h[i] * phi(r, i) * phi(q, i) for i in range(m)) / m
            terms = 1 if r == q else 2
            both = weights[r - 1] * weights[q - 1]
            if r == q == 1:
                total += both
            elif r + q <= R:
                total += both * (H**2 - terms * spread / 2)
            else:
                assert both == 0
    return max(1.0, total / sum(value**2 for value in weights))
