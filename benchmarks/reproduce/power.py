"""Power of tests of one feature: how often a relevant feature has a p-value below a level.

`dhsic test` sees real labels by their ranks alone. Samples are therefore put in the order of their
labels, so that all draws share one vector of labels and are the features of one call.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, stdtr

from .shapes import SHAPES

#: Levels at which power is counted.
LEVELS = (1e-4, 0.05)


@dataclass(frozen=True)
class PowerSetting:
    """One relevant feature in m samples.

    Attributes
    ----------
    shape : str
        Name in `SHAPES`.
    r2 : float
        Share of the labels' variance that the feature explains, before they are cut to classes.
    n_classes : int
        2, or 0 for real labels.
    """

    shape: str
    m: int
    r2: float
    n_classes: int = 0

    def draw(self, rng, n_draws):
        """Features (m, n_draws) and real labels of the same shape, a column for each draw."""
        X = rng.standard_normal((self.m, n_draws))
        Y = SHAPES[self.shape].labels(rng, X, self.r2)
        order = np.argsort(Y, axis=0)
        return np.take_along_axis(X, order, axis=0), np.take_along_axis(Y, order, axis=0)

    def classes(self):
        """Classes of samples in the order of their real labels."""
        return (np.arange(self.m) >= self.m - self.m // 2).astype(np.int64)


def of_dhsic(setting, X, _):
    """p-values of `dhsic test`, (n_draws,)."""
    from dhsic.independence import test_features
    from dhsic.runtime.threads import Threads

    y = setting.classes() if setting.n_classes else np.arange(setting.m, dtype=np.float64)
    return test_features(X, y, runtime=Threads(1)).p_values


def of_f_test(setting, X, Y):
    """p-values of the F test, equal to those of Pearson's correlation, (n_draws,)."""
    if setting.n_classes:
        Y = np.broadcast_to(setting.classes()[:, None], X.shape)
    x, y = (a - a.mean(axis=0) for a in (X, Y))
    r = (x * y).sum(axis=0) / np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
    df = setting.m - 2
    return 2 * stdtr(df, -np.abs(r) * np.sqrt(df / (1 - r**2)))


#: Tests by name.
TESTS = {"dhsic test": of_dhsic, "F test": of_f_test}


def p_values(setting, test, n_draws, seed):
    """p-values of a relevant feature, (n_draws,)."""
    return test(setting, *setting.draw(np.random.default_rng(seed), n_draws))


def power(setting, test, n_draws, seed):
    """Share of draws at or below each level."""
    p = p_values(setting, test, n_draws, seed)
    return [float(np.mean(p <= level)) for level in LEVELS]


def among_the_first(p, k, d):
    """Probability of a rank of k or better among d features, of which d - 1 are noise, (n_draws,).

    p-values of noise are independent and uniform: those smaller than p are a binomial number.
    """
    return bdtr(k - 1, d - 1, p)
