"""Median rank of the relevant features against the number of samples, on data of the papers.

`JMLR` is Figure 2 of Song et al. (2012), section 7.1, `CCM` Figure 1 of Chen et al. (2017), 6.1. A
data set is drawn anew for every run and number of samples, its features shuffled, and every method
gets the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import joblib
import numpy as np
from rankers import RANKERS
from tables import table

from dhsic import datasets


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
    (
        World("Binary XOR", datasets.binary_xor, 2, 22, ("BAHSIC", "ReliefF", *ALONE, FIRST)),
        World("Four classes, three collinear", datasets.collinear_classes, 2, 22, OF_JMLR),
        World("Nonlinear regression", datasets.nonlinear_regression, 2, 22, OF_JMLR),
    ),
    samples=tuple(range(40, 401, 40)),
    runs=10,
)
CCM = Protocol(
    (
        World("Ball and shell, two classes", datasets.binary_shell, 4, 10, OF_CCM),
        World("Three-dimensional XOR, four classes", datasets.xor_three, 3, 10, OF_CCM),
        World("Additive regression", datasets.additive_regression, 4, 10, OF_CCM),
    ),
    samples=tuple(range(10, 101, 10)),
    runs=20,
)


def measure(protocol, n_jobs):
    """Records of world, samples, method, mean of the median ranks, and its standard error."""
    cells = [
        (i, m, run)
        for i in range(len(protocol.worlds))
        for m in protocol.samples
        for run in range(protocol.runs)
    ]
    found = joblib.Parallel(n_jobs)(
        joblib.delayed(median_ranks)(protocol.worlds[i], m, run) for i, m, run in cells
    )
    by_cell = dict(zip(cells, found, strict=True))
    records = []
    for i, world in enumerate(protocol.worlds):
        for m in protocol.samples:
            for method in world.methods:
                values = [by_cell[i, m, run][method] for run in range(protocol.runs)]
                error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                records.append(
                    {
                        "world": world.title,
                        "samples": m,
                        "method": method,
                        "median_rank": float(np.mean(values)),
                        "standard_error": float(error),
                        "runs": len(values),
                    }
                )
    return records


def median_ranks(world, m, run):
    """Median rank of the relevant features by every method, for one data set."""
    data = world.draw(m, random_state=1000 * run + m)
    # Relevant features come first in the data, and first comes who is equal.
    order = np.random.default_rng([run, m]).permutation(data.X.shape[1])
    X, relevant = data.X[:, order], np.isin(order, data.relevant)
    return {
        method: float(np.median(RANKERS[method](X, data.y, world.n_relevant)[relevant]))
        for method in world.methods
    }


def curve(records, world, method):
    """Numbers of samples and mean median ranks."""
    chosen = [r for r in records if r["world"] == world.title and r["method"] == method]
    return [r["samples"] for r in chosen], [r["median_rank"] for r in chosen]


def printed(protocol, records):
    """A table for each world: a row a method, a column a number of samples."""
    parts = []
    for world in protocol.worlds:
        rows = [
            [method, *(f"{rank:.2f}" for rank in curve(records, world, method)[1])]
            for method in world.methods
        ]
        heads = ("samples", *protocol.samples)
        parts.append(f"{world.title} (ideal {world.ideal:g})\n\n{table(heads, rows)}")
    return "\n\n".join(parts)
