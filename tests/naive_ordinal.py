"""Rank scores of ordinal and heavy-tailed labels as they are defined, in plain loops.

Nothing here is shared with the package.
"""

import math
from statistics import NormalDist, median


def normal_scores(y):
    """Scores of each label: the mean, over the ranks of its ties, of the normal quantiles."""
    m, order = len(y), sorted(y)
    quantiles = [NormalDist().inv_cdf((rank + 0.5) / m) for rank in range(m)]
    mean = sum(quantiles) / m
    size = math.sqrt(sum((q - mean) ** 2 for q in quantiles) / m)
    scores = []
    for value in y:
        tied = [
            (q - mean) / size for q, other in zip(quantiles, order, strict=True) if other == value
        ]
        scores.append(sum(tied) / len(tied))
    return scores


def label_kernel(y):
    """Gaussian kernel on the scores, whose width is their median distance."""
    scores = normal_scores(y)
    squares = [(a - b) ** 2 for i, a in enumerate(scores) for b in scores[i + 1 :]]
    middle = median(squares)
    if middle <= 0:
        middle = median([square for square in squares if square > 0])
    return [[math.exp(-((a - b) ** 2) / (2 * middle)) for b in scores] for a in scores]


def midranks(y):
    """Rank of each value, counted from 1; tied values have the mean of their ranks."""
    return [
        sum(other < value for other in y) + (sum(other == value for other in y) + 1) / 2
        for value in y
    ]


def rank_correlation(y, z):
    """Spearman's correlation: that of the midranks."""
    a, b = midranks(y), midranks(z)
    mean = (len(y) + 1) / 2
    products = sum((s - mean) * (t - mean) for s, t in zip(a, b, strict=True))
    sizes = [math.sqrt(sum((s - mean) ** 2 for s in ranks)) for ranks in (a, b)]
    return products / (sizes[0] * sizes[1])


def proportional_odds(y, x):
    """Square of the score of a proportional-odds model at 0, over its variance: chi-squared, 1 df.

    The score of a sample is the difference between the shares of samples above and below its level.
    """
    m = len(y)
    u = [(sum(o > v for o in y) - sum(o < v for o in y)) / m for v in y]
    mean = sum(x) / m
    score = sum(s * (t - mean) for s, t in zip(u, x, strict=True))
    variance = sum(s * s for s in u) * sum((t - mean) ** 2 for t in x) / (m - 1)
    return score**2 / variance
