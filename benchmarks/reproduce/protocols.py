"""Median rank of the relevant features against the number of samples, on data of the papers.

`JMLR` is Figure 2 of Song et al. (2012), section 7.1, `CCM` Figure 1 of Chen et al. (2017), 6.1. A
data set is drawn anew for every run and number of samples, its features shuffled, and every method
gets the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dhsic import datasets

from .rankers import RANKERS


@dataclass(frozen=True)
class World:
    """A kind of data, and which methods are compared on it.

    Attributes
    ----------
    title : str
        For people.
    draw : callable
        (m, random_state=) to a `dhsic.datasets.Dataset`.
    n_relevant, n_features : int
        Of its features.
    methods : tuple of str
        Names in `RANKERS`.
    """

    title: str
    draw: Callable
    n_relevant: int
    n_features: int
    methods: tuple[str, ...]

    @property
    def ideal(self):
        """Median rank of the relevant features where they are the first."""
        return (self.n_relevant + 1) / 2

    @property
    def chance(self):
        """Median rank to be expected of an order at random."""
        return (self.n_features + 1) / 2


@dataclass(frozen=True)
class Protocol:
    """Worlds, numbers of samples, and how often each is drawn."""

    title: str
    worlds: tuple[World, ...]
    samples: tuple[int, ...]
    runs: int

    def quick(self):
        """The fewest and the most samples and few runs, to see whether all is well."""
        return replace(self, samples=(self.samples[0], self.samples[-1]), runs=3)


ALONE = ("FOHSIC", "mutual information", "Pearson")
FIRST = "BAHSIC, first iteration"
OF_JMLR = ("BAHSIC", *ALONE, FIRST)
OF_CCM = ("CCM", "BAHSIC", *ALONE, "CCM, soft budget", "CCM, no inverse", "CCM, random features")

JMLR = Protocol(
    "Song et al. 2012, Figure 2",
    (
        World("Binary XOR", datasets.binary_xor, 2, 22, ("BAHSIC", "ReliefF", *ALONE, FIRST)),
        World("Four classes, three collinear", datasets.collinear_classes, 2, 22, OF_JMLR),
        World("Nonlinear regression", datasets.nonlinear_regression, 2, 22, OF_JMLR),
    ),
    samples=tuple(range(40, 401, 40)),
    runs=10,
)
CCM = Protocol(
    "Chen et al. 2017, Figure 1",
    (
        World("Ball and shell, two classes", datasets.binary_shell, 4, 10, OF_CCM),
        World("Three-dimensional XOR, four classes", datasets.xor_three, 3, 10, OF_CCM),
        World("Additive regression", datasets.additive_regression, 4, 10, OF_CCM),
    ),
    samples=tuple(range(10, 101, 10)),
    runs=20,
)


def median_rank(world, m, run, method):
    """Median rank of the relevant features by a method, for one data set."""
    data = world.draw(m, random_state=1000 * run + m)
    # Relevant features come first in the data, and first comes who is equal.
    order = np.random.default_rng([run, m]).permutation(data.X.shape[1])
    X, relevant = data.X[:, order], np.isin(order, data.relevant)
    return float(np.median(RANKERS[method](X, data.y, world.n_relevant)[relevant]))
