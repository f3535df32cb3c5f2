"""Which landmarks: samples drawn evenly, or random directions of feature space.

What a policy for the width may know of the data where the statistic is against landmarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import EQUAL
from dhsic.kernels.gaussian import squared_distances
from dhsic.lowrank.base import Landmarks

#: Features whose random numbers come from one generator.
CHUNK = 1024


def uniform_rows(m: int, n: int, seed: int) -> Index:
    """`n` of `m` samples, every set as likely as another; (n,) ascending.

    Raises
    ------
    InputError
        n is not from 1 to m.
    """
    if not 1 <= n <= m:
        raise InputError(f"{n} landmarks of {m} samples; take from 1 to {m}.")
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(m, size=n, replace=False, shuffle=False)).astype(np.int64)


def random_directions(seed: int, features: Index, n: int) -> Float:
    """Entries of `n` standard normal directions at some features, (n, c).

    An entry depends on the seed, the number of its direction and the number of its feature alone,
    so any cut of the features into blocks, and any larger n, gives the same values. They come in
    chunks of `CHUNK` features, each from a generator of its own: blocks that cover few chunks, or
    whole ones, are the cheap ones.

    Parameters
    ----------
    seed : int
        From 0.
    features : (c,) int64
        Numbers of the features in the whole data, from 0.
    n : int
        Number of directions.

    Returns
    -------
    (n, c) float64
        A row a direction.
    """
    features = np.asarray(features, dtype=np.int64)
    chunks, offsets = np.divmod(features, CHUNK)
    directions = np.empty((n, len(features)))
    for chunk in np.unique(chunks):
        here = np.flatnonzero(chunks == chunk)
        key = np.array([seed, chunk], dtype=np.uint64)
        normal = np.random.Generator(np.random.Philox(key=key)).standard_normal((n, CHUNK))
        directions[:, here] = normal[:, offsets[here]]
    return directions


def landmark_statistic(X: Array, rows: Index) -> Landmarks:
    """Statistic of data in memory, X (m, d) standardised, against some of its samples, (b,)."""
    X = np.asarray(X, dtype=np.float64)
    rows = np.asarray(rows, dtype=np.int64)
    return Landmarks(X[rows] @ X.T, np.einsum("ij,ij->i", X, X), rows)


def signs(V: Array) -> Array:
    """Sign per column that makes its largest entry positive, (r,); V is (n, r)."""
    if V.shape[0] == 0:
        return np.ones(V.shape[1])
    largest = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)


@dataclass(frozen=True)
class KnownLandmarks:
    """`dhsic.kernels.bandwidth.Known` from landmarks; `value` is HSIC as a function of sigma."""

    landmarks: Landmarks
    value: Callable[[float], float]

    def pair_distances(self) -> Float:
        """Landmarks with all samples that come after them."""
        rows, norms = self.landmarks.rows, self.landmarks.norms
        assert rows is not None, "landmarks of a run are samples"
        D = squared_distances(self.landmarks.inner, norms[rows], norms)
        D[EQUAL * norms.max() >= D] = 0.0
        is_landmark = np.zeros(len(norms), dtype=bool)
        is_landmark[rows] = True
        counted = ~is_landmark | (np.arange(len(norms)) > rows[:, None])
        return np.asarray(D[counted])

    def hsic(self, sigma: float) -> float:
        """HSIC(sigma, S) by the factor."""
        return self.value(sigma)
