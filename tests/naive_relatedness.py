"""Relationship of samples as it is defined, as plain loops.

Lists and floats; nothing here is shared with the package.
"""

import math


def scaled(column, ploidy):
    """A feature as it counts, missing values (NaN) its mean; None where it does not vary.

    Counts of one of `ploidy` alleles by ``sqrt(ploidy p (1 - p))``, others (None) by the deviation.
    """
    there = [v for v in column if not math.isnan(v)]
    if len(set(there)) < 2:
        return None
    mean = math.fsum(there) / len(there)
    left = [0.0 if math.isnan(v) else v - mean for v in column]
    size = math.sqrt(math.fsum(v * v for v in left) / len(left))
    if ploidy is not None:
        p = mean / ploidy
        size = math.sqrt(ploidy * p * (1 - p))
    return [v / size for v in left]


def relationship(X, ploidy=None):
    """Relationship of every two samples, m lists of m, over the features that vary (columns X)."""
    features = [z for column in X if (z := scaled(column, ploidy)) is not None]
    m = len(X[0])
    return [
        [math.fsum(z[i] * z[k] for z in features) / len(features) for k in range(m)]
        for i in range(m)
    ]
