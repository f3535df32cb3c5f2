"""Random Fourier features of the Gaussian kernel (CCM 5.2; Rahimi and Recht, 2007).

``exp(-sigma ||x - y||^2)`` is the mean of ``2 cos(w'x + p) cos(w'y + p)`` over normal directions
w of variance ``2 sigma`` and even phases p. The landmarks are such directions of variance 1: the
statistic is again a sum over features, and sigma may change without another pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.lowrank.base import AbstractFactorizer, BaseRows
from dhsic.lowrank.residuals import relative

#: Features whose random numbers come from one generator.
CHUNK = 1024
#: Samples whose squares are taken at a time.
STRIP = 4096


def random_directions(seed: int, features: Index, n: int) -> Float:
    """Entries of `n` standard normal directions at features of these numbers, from 0: (n, c).

    An entry depends on the seed, the number of its direction and the number of its feature alone,
    so any cut of the features into blocks, and any larger n, gives the same values. They come in
    chunks of `CHUNK` features, each from a generator of its own: blocks that cover few chunks, or
    whole ones, are the cheap ones.
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


@dataclass(frozen=True)
class RandomFeatures(AbstractFactorizer):
    """One cosine a landmark; the landmarks are standard normal directions of feature space.

    The error is that of a mean of b independent values, from their own variance over all pairs
    of samples; it falls as ``1 / sqrt(b)``, however simple K is. It is infinite where K drowns in
    it, and for b = 1.
    """

    name: ClassVar[str] = "random_features"

    def _directions(self, rows: BaseRows, seed: int) -> tuple[Float, Float, float]:
        """``F = sqrt(2 / b) cos(sqrt(2 sigma) inner' + phase)``; weights are 1."""
        kernel, landmarks = rows.kernel, rows.landmarks
        if not kernel.has_normal_frequencies:
            raise InputError(
                f"Random features are those of the Gaussian kernel, and kernel is {kernel.name!r}. "
                "Take the 'nystrom' or 'cholesky' factorizer, which any kernel has."
            )
        if landmarks.rows is not None:
            raise InputError(
                f"Random features need random directions and these {landmarks.n_landmarks} "
                "landmarks are samples. Pass inner products with random_directions(...) and "
                "rows=None, or take the 'nystrom' factorizer."
            )
        b = landmarks.n_landmarks
        phases = np.random.default_rng(seed).uniform(0.0, 2 * np.pi, size=b)
        F = np.multiply(landmarks.inner.T, np.sqrt(2 * rows.sigma), order="C")
        F += phases
        np.cos(F, out=F)
        F *= np.sqrt(2 / b)
        return F, np.ones(b), _sampling_error(F)


def _sampling_error(F: Float) -> float:
    """Standard error of the mean over features, relative to what it leaves of ``||F F'||``.

    With ``z_k = b F_ik F_jk`` for pair ij the mean is ``A_ij = sum_k z_k / b``, its variance
    ``(sum_k z_k^2 / b - A_ij^2) / (b - 1)``; both summed over all pairs i != j in O(m b^2).
    """
    b = F.shape[1]
    if b == 1:
        return float("inf")
    squares = np.zeros(b)  # sum_i F_ik^2
    own = fourths = 0.0  # sum_i A_ii^2, sum_ik F_ik^4
    for a in range(0, len(F), STRIP):
        S = F[a : a + STRIP] ** 2
        squares += S.sum(axis=0)
        own += float((S.sum(axis=1) ** 2).sum())
        fourths += float(np.vdot(S, S))
    G = F.T @ F
    total = float(np.vdot(G, G)) - own  # sum of A_ij^2
    variance = max((b * (float(squares @ squares) - fourths) - total) / (b - 1), 0.0)
    return relative(variance, total - variance)
