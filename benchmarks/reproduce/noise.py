"""Calibration: how often p-values of noise are at or below a level, over the level itself.

Features come in blocks, and labels are drawn again for every block.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Levels at which frequencies are counted, and the deviation that is allowed at each.
LEVELS = {0.5: 0.05, 0.1: 0.05, 0.01: 0.05, 1e-3: 0.1, 1e-4: 0.15}
#: Features that share one draw of the labels.
BLOCK = 2_000
#: Share of missing values, and of those in either class where it depends on the class.
MISSING, MISSING_BY_CLASS = 0.1, (0.15, 0.05)
#: Share of features that depend on the covariates, and correlation of each with one of them.
CORRELATED, CORRELATION = 0.5, 0.6
N_COVARIATES = 5
#: Share of zeros in features that are mostly 0.
ZEROS = 0.95


@dataclass(frozen=True)
class Noise:
    """A kind of labels with a kind of features that do not depend on them.

    Attributes
    ----------
    labels : callable
        (rng, m) to labels, (m,) or (m, 2).
    features : callable
        (rng, labels, covariates, c) to features, (m, c).
    has_covariates : bool
        Whether labels, and half of the features, depend on five covariates.
    """

    labels: Callable
    features: Callable
    has_covariates: bool = False

    def draw(self, rng, m, c):
        """Features (m, c), labels, and covariates (m, 5) or None."""
        y = self.labels(rng, m)
        if not self.has_covariates:
            return self.features(rng, y, None, c), y, None
        C = rng.standard_normal((m, N_COVARIATES))
        shift = C @ rng.standard_normal(N_COVARIATES)
        if y.dtype.kind == "f":
            y = y + shift
        else:  # the class is more frequent where the covariates are large
            y = (shift + 2.0 * rng.standard_normal(m) > 0).astype(np.int64)
        return self.features(rng, y, C, c), y, C


def real(rng, m):
    return rng.standard_normal(m)


def halves(rng, m):
    return rng.permutation(np.arange(m) % 2)


def cases(share):
    """Two classes, of which this share of the samples are cases."""
    return lambda rng, m: rng.permutation((np.arange(m) < round(share * m)).astype(np.int64))


one_in_21 = cases(1 / 21)


def coordinates(rng, m):
    return rng.random((m, 2))


def normal(rng, y, _, c):
    return rng.standard_normal((len(y), c))


def counts(mean):
    """Poisson counts of one mean."""
    return lambda rng, y, _, c: rng.poisson(mean, (len(y), c)).astype(np.float64)


def genotypes(frequency):
    """Genotypes in equilibrium, with an allele of one frequency (to 16 bits)."""
    both, either = (round(65_536 * share) for share in (frequency**2, 1 - (1 - frequency) ** 2))

    def draw(rng, y, _, c):
        u = rng.integers(65_536, size=(len(y), c), dtype=np.uint16)
        return (u < either).astype(np.int8) + (u < both)

    return draw


def mostly_zero(rng, y, _, c):
    X = rng.exponential(size=(len(y), c))
    X[rng.random(X.shape) < ZEROS] = 0.0
    return X


def on_covariates(rng, y, C, c):
    """Half of the features are correlated with one covariate."""
    X = rng.standard_normal((len(y), c))
    n = round(CORRELATED * c)
    which = rng.integers(C.shape[1], size=n)
    X[:, :n] = CORRELATION * C[:, which] + (1 - CORRELATION**2) ** 0.5 * X[:, :n]
    return X


def with_missing(rng, y, _, c):
    X = rng.standard_normal((len(y), c))
    X[rng.random(X.shape) < MISSING] = np.nan
    return X


def missing_by_class(rng, y, _, c):
    X = rng.standard_normal((len(y), c))
    X[rng.random(X.shape) < np.array(MISSING_BY_CLASS)[y][:, None]] = np.nan
    return X


#: Kinds of noise by name.
NOISES = {
    "real labels": Noise(real, normal),
    "two classes, 1:1": Noise(halves, normal),
    "two classes, 1:20": Noise(one_in_21, normal),
    "counts of mean 1, real labels": Noise(real, counts(1)),
    "counts of mean 1, two classes 1:1": Noise(halves, counts(1)),
    "counts of mean 1, two classes 1:20": Noise(one_in_21, counts(1)),
    "counts of mean 5, real labels": Noise(real, counts(5)),
    "counts of mean 5, two classes 1:1": Noise(halves, counts(5)),
    "zeros of 95%, real labels": Noise(real, mostly_zero),
    "zeros of 95%, two classes 1:1": Noise(halves, mostly_zero),
    "zeros of 95%, two classes 1:20": Noise(one_in_21, mostly_zero),
    "genotypes of frequency .05, 3% cases": Noise(cases(0.03), genotypes(0.05)),
    "genotypes of frequency .05, two classes 1:20": Noise(one_in_21, genotypes(0.05)),
    "5 covariates, real labels": Noise(real, on_covariates, has_covariates=True),
    "5 covariates, two classes": Noise(halves, on_covariates, has_covariates=True),
    "coordinates": Noise(coordinates, normal),
    "coordinates, counts of mean 1": Noise(coordinates, counts(1)),
    "coordinates, zeros of 95%": Noise(coordinates, mostly_zero),
    "missing values of 10%, real labels": Noise(real, with_missing),
    "missing values of 10%, two classes 1:1": Noise(halves, with_missing),
    "missing values of 15% and 5% in two classes": Noise(halves, missing_by_class),
}


def p_values(noise, m, c, seed):
    """p-values of one block of features, (c,)."""
    from dhsic.independence import test_features
    from dhsic.runtime.threads import Threads

    X, y, C = noise.draw(np.random.default_rng(seed), m, c)
    found = test_features(X, y, covariates=C, missing_code=None, runtime=Threads(1))
    return found.p_values


def count_below(noise, m, blocks, c=BLOCK):
    """Numbers of p-values at or below each level, a row for each block, (blocks, levels)."""
    levels = np.array(list(LEVELS))
    return np.array(
        [(p_values(noise, m, c, [m, b])[:, None] <= levels).sum(axis=0) for b in blocks]
    )
