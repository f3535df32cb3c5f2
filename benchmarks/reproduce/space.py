"""Genes with patterns in space, drawn as counts, and the tests that look for them."""

from dataclasses import dataclass

import numpy as np

#: q-value at or below which a gene is found.
LEVEL = 0.05
#: Factor by which the mean of a gene is larger inside its pattern.
FOLD = 3.0


@dataclass(frozen=True)
class SpaceSetting:
    """Spots and genes, of which the first few have a pattern.

    Attributes
    ----------
    pattern : str
        Name in `PATTERNS`.
    mean : float
        Mean count outside the pattern.
    """

    pattern: str
    n_spots: int = 2_000
    n_genes: int = 300
    n_patterned: int = 30
    mean: float = 0.5

    def draw(self, rng):
        """Counts (spots, genes), coordinates (spots, 2), and the mask of patterned genes."""
        xy = rng.random((self.n_spots, 2))
        means = np.full((self.n_spots, self.n_genes), self.mean)
        for j in range(self.n_patterned):
            means[PATTERNS[self.pattern](rng, xy), j] *= FOLD
        return rng.poisson(means).astype(np.float64), xy, np.arange(self.n_genes) < self.n_patterned


def disc(rng, xy):
    """Spots within a disc of radius .15 to .25."""
    centre, radius = rng.uniform(0.2, 0.8, 2), rng.uniform(0.15, 0.25)
    return np.hypot(*(xy - centre).T) <= radius


def stripes(rng, xy):
    """Spots of every other stripe, in a direction at random; a stripe is .2 wide."""
    angle, start = rng.uniform(0, np.pi), rng.random()
    along = xy @ [np.cos(angle), np.sin(angle)] / 0.4 + start
    return along % 1 < 0.5


def half(rng, xy):
    """Spots of one side of a line through the middle."""
    angle = rng.uniform(0, 2 * np.pi)
    return (xy - 0.5) @ [np.cos(angle), np.sin(angle)] > 0


PATTERNS = {"disc": disc, "stripes": stripes, "half": half}


def of_dhsic(counts, xy):
    """q-values of `dhsic test`."""
    from dhsic.independence import test_features
    from dhsic.runtime.threads import Threads

    return test_features(counts, xy, runtime=Threads(1)).adjusted


def _of_quadsv(method):
    def q_values(counts, xy):
        from quadsv.kernels import SpatialKernel
        from quadsv.statistics import spatial_q_test
        from scipy.stats import false_discovery_control

        # Its widths are in units of the distance between spots.
        kernel = SpatialKernel.from_coordinates(xy * np.sqrt(len(xy)), method=method)
        _, p = spatial_q_test(counts, kernel, null_params={"method": "liu"})
        return false_discovery_control(np.clip(p, 0, 1))

    return q_values


#: Tests by name.
TESTS = {
    "dhsic test": of_dhsic,
    "quadsv, Matern": _of_quadsv("matern"),
    "quadsv, CAR": _of_quadsv("car"),
}


def found_and_false(setting, test, seed):
    """Genes with a pattern that are found, and genes without one that are."""
    counts, xy, patterned = setting.draw(np.random.default_rng(seed))
    found = test(counts, xy) <= LEVEL
    return int((found & patterned).sum()), int((found & ~patterned).sum())
