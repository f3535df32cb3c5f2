"""Real and simulated data with several draws of labels each, for `agreement.py`.

Draw 0 is what the data come with: classes, a trait. The others are simulated from the data's own
features, so that classes, populations and linkage stay what they are: a handful of features that
vary and are not rare have normal effects on their standardised values, and normal noise makes up
the rest of the variance. Every second draw of genotypes is the liability itself, a real trait with
heritability 0.5; all others are two classes, as large as those that the data come with, or halves.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from data import genotypes, matrix_of

#: Features behind a simulated label, and the part of its variance that they explain.
N_CAUSAL, HERITABILITY = 5, 0.5
#: Least frequency of an allele behind it.
LEAST_FREQUENCY = 0.05


@dataclass(frozen=True)
class Data:
    """A data set: the file it is in, or the number of variants that are simulated.

    `n_left_out` is how many runs without one sample a draw is worth.
    """

    name: str
    n_left_out: int
    file: str = ""
    n_simulated: int = 0
    n_samples: int = 2000

    def load(self, folder, scratch):
        """X (m, d), features contiguous, and y (m,), samples without label left out."""
        if self.n_simulated:
            path = genotypes(scratch, self.n_samples, self.n_simulated)
            group = zarr.open_group(path, mode="r")
            return group[matrix_of(path)][:].T, group["sample_trait"][:]
        with np.load(next(Path(folder).rglob(self.file)), allow_pickle=False) as stored:
            X, y = stored["X"], stored["y"]
        labelled = np.isfinite(y.astype(np.float64))
        return np.asfortranarray(X[labelled]), y[labelled]


DATA = (
    Data("golub", 5, "leukaemia_golub.npz"),
    Data("ALLAML", 5, "ALLAML.npz"),
    Data("mouse_hs1940", 2, "mouse_hs1940.npz"),
    Data("arabidopsis_ft16", 3, "arabidopsis_ft16.npz"),
    Data("simulated 20,000", 1, n_simulated=20_000),
    Data("simulated 50,000", 1, n_simulated=50_000),
)


def labels(X, y, draw):
    """Labels (m,) of a draw, from 0; what is missing in X is -1, and has the mean of the rest."""
    if draw == 0:
        return y
    m, are_genotypes = len(X), X.dtype.itemsize == 1
    rng = np.random.default_rng([draw, *X.shape])
    liability = np.zeros(m)
    for effect in rng.standard_normal(N_CAUSAL):
        x = np.zeros(m)
        while x.std() == 0:
            x = X[:, rng.integers(X.shape[1])].astype(np.float64)
            if are_genotypes:
                x[x < 0] = x[x >= 0].mean()
                x *= min(x.mean(), x.max() - x.mean()) >= LEAST_FREQUENCY * x.max()
        liability += effect * (x - x.mean()) / x.std()
    liability *= np.sqrt(HERITABILITY) / liability.std()
    liability += np.sqrt(1 - HERITABILITY) * rng.standard_normal(m)
    if are_genotypes and draw % 2:
        return liability
    classes, counts = np.unique(y, return_counts=True)
    part = counts[0] / m if len(classes) == 2 else 0.5
    return (liability > np.quantile(liability, part)).astype(int)


def left_out(m, draw, n):
    """Samples that are left out of a draw, one at a time."""
    return np.random.default_rng([draw, m, 1]).choice(m, size=n, replace=False).tolist()
