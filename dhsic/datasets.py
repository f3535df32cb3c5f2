"""Synthetic data of the papers, whose relevant features are known.

| function | paper | features | what selects them |
|---|---|---|---|
| `binary_xor` | JMLR 7.1 (i) | 2 of 22 | a kernel that sees interactions, backwards |
| `collinear_classes` | JMLR 7.1 (ii) | 2 of 22 | HSIC with labels as classes, not numbers |
| `nonlinear_regression` | JMLR 7.1 (iii) | 2 of 22 | a nonlinear kernel |
| `binary_shell` | CCM 6.1 | 4 of 10 | a kernel that sees variances |
| `xor_three` | CCM 6.1 | 3 of 10 | conditional covariance; BAHSIC failed in the paper |
| `additive_regression` | CCM 6.1 | 4 of 10 | nearly anything; the fourth has heavy tails |

Relevant features come first. Classes have as many samples as each other, give or take one, in
random order. The same seed gives the same data.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincinv

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError

#: Standard deviation of a cluster of JMLR Figure 2, whose centres are 1 and 2 apart.
CLUSTER = 0.3
#: Corners of the square: class 1 where both coordinates have the same sign.
SQUARE = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
#: Centres of four classes: 0, 1 and 2 on a line, 3 beside it.
COLLINEAR = np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
#: A corner ``v`` of the cube for each of the classes ``(v1 v3, v2 v3)``; the other is ``-v``.
CUBE = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
#: Squared radii between which the shell lies.
SHELL = (9.0, 16.0)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data, labels, and which features matter.

    Attributes
    ----------
    X : (m, d) float64
        One row per sample.
    y : (m,) int64 or float64
        Classes from 0, or -1 and 1 where there are two; real values for regression.
    relevant : (n,) int64
        The features that y depends on, ascending.
    """

    X: Float
    y: Array
    relevant: Index


def binary_xor(m: int, n_noise: int = 20, random_state: int = 0) -> Dataset:
    """XOR: two classes, each of two clusters at opposite corners of a square (JMLR 7.1 (i)).

    ``x_1`` and ``x_2`` are N(+-1, 0.3^2), y = 1 where the signs of their centres agree, else -1:
    neither tells anything about y alone. The paper shows the clusters in Figure 2 (a) without
    numbers; their centres (+-1, +-1) and deviation 0.3 are of our choice.

    Parameters
    ----------
    m : int
        Number of samples, at least 1.
    n_noise : int
        Standard normal features that y does not depend on.
    random_state : int
        Seed, at least 0.

    Returns
    -------
    Dataset
        With 2 + n_noise features, y of -1 and 1.

    Raises
    ------
    InputError
        Numbers that are none.

    Examples
    --------
    >>> import dhsic
    >>> data = binary_xor(200)
    >>> model = dhsic.BAHSIC(2, kernel="polynomial", progress=False).fit(data.X, data.y)
    >>> model.get_support(indices=True).tolist() == data.relevant.tolist()
    True
    """
    rng = _generator(m, n_noise, random_state)
    corner = _classes(rng, m, 4)
    x = SQUARE[corner] + CLUSTER * rng.standard_normal((m, 2))
    return _with_noise(rng, x, np.where(corner < 2, 1, -1), n_noise)


def collinear_classes(m: int, n_noise: int = 20, random_state: int = 0) -> Dataset:
    """Four classes, three of them on a line (JMLR 7.1 (ii)).

    Classes 0, 1, 2 and 3 are normal around (-1, -1), (0, 0), (1, 1) and (1, -1), deviation 0.3.
    The line makes ``x_1`` and ``x_2`` increase with the class; class 3 takes most of it back from
    ``x_2``. The paper shows the data in Figure 2 (b) without numbers; these are of our choice.

    Parameters and errors are those of `binary_xor`; y is the class, 0 to 3.
    """
    rng = _generator(m, n_noise, random_state)
    y = _classes(rng, m, 4)
    return _with_noise(rng, COLLINEAR[y] + CLUSTER * rng.standard_normal((m, 2)), y, n_noise)


def nonlinear_regression(
    m: int, n_noise: int = 20, random_state: int = 0, *, noise: float = 0.1
) -> Dataset:
    """``y = x_1 exp(-x_1^2 - x_2^2) + e`` with standard normal features (JMLR 7.1 (iii)).

    e is N(0, noise^2); the paper gives no number. Without it y has deviation 1/5.

    Parameters and errors are those of `binary_xor`; `noise` is the deviation of e, at least 0.
    """
    if not 0 <= noise < np.inf:
        raise InputError(f"noise={noise!r}; pass its standard deviation, a number >= 0.")
    rng = _generator(m, n_noise, random_state)
    x = rng.standard_normal((m, 2))
    y = x[:, 0] * np.exp(-(x**2).sum(axis=1)) + noise * rng.standard_normal(m)
    return _with_noise(rng, x, y, n_noise)


def binary_shell(m: int, n_noise: int = 6, random_state: int = 0) -> Dataset:
    """A ball and the shell around it, in four dimensions (CCM 6.1, of Friedman et al.).

    y = -1: all features standard normal. y = 1: so too, but ``x_1 .. x_4`` given that
    ``9 <= x_1^2 + .. + x_4^2 <= 16``. No feature has a mean that depends on y.

    Parameters and errors are those of `binary_xor`.
    """
    rng = _generator(m, n_noise, random_state)
    y = np.where(_classes(rng, m, 2) == 1, 1, -1)
    x = rng.standard_normal((m, 4))
    # The squared radius of 4 normals is 2 Gamma(2): drawn by its inverse distribution function
    # between the limits; the direction does not depend on it.
    low, high = gammainc(2.0, np.array(SHELL) / 2)
    radius = np.sqrt(2 * gammaincinv(2.0, rng.uniform(low, high, m)))
    shell = x * (radius / np.linalg.norm(x, axis=1))[:, None]
    return _with_noise(rng, np.where(y[:, None] == 1, shell, x), y, n_noise)


def xor_three(m: int, n_noise: int = 7, random_state: int = 0) -> Dataset:
    """XOR in three dimensions as four classes (CCM 6.1).

    The corners v of the cube ``{-1, 1}^3`` fall into four classes by ``(v_1 v_3, v_2 v_3)``, each
    a corner and its opposite; ``x_1 .. x_3`` are normal around a corner of the class, either with
    probability 1/2, with variance 1/2. No feature alone depends on y, and no pair of features
    tells all four classes apart.

    Parameters and errors are those of `binary_xor`; y is the class, 0 to 3.
    """
    rng = _generator(m, n_noise, random_state)
    y = _classes(rng, m, 4)
    v = CUBE[y] * rng.choice([-1.0, 1.0], m)[:, None]
    return _with_noise(rng, v + np.sqrt(0.5) * rng.standard_normal((m, 3)), y, n_noise)


def additive_regression(m: int, n_noise: int = 6, random_state: int = 0) -> Dataset:
    """``y = -2 sin(2 x_1) + max(x_2, 0) + x_3 + exp(-x_4) + e``, all standard normal (CCM 6.1).

    Parameters and errors are those of `binary_xor`.
    """
    rng = _generator(m, n_noise, random_state)
    x = rng.standard_normal((m, 4))
    y = -2 * np.sin(2 * x[:, 0]) + np.maximum(x[:, 1], 0) + x[:, 2] + np.exp(-x[:, 3])
    return _with_noise(rng, x, y + rng.standard_normal(m), n_noise)


def _generator(m: int, n_noise: int, random_state: int) -> np.random.Generator:
    minimums: dict[str, tuple[Any, int]] = {
        "m": (m, 1),
        "n_noise": (n_noise, 0),
        "random_state": (random_state, 0),
    }
    for name, (value, least) in minimums.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise InputError(f"{name}={value!r}; pass a whole number >= {least}.")
    return np.random.default_rng(random_state)


def _classes(rng: np.random.Generator, m: int, n: int) -> Index:
    """Classes 0 to n - 1 of m samples, equally many, in random order."""
    return rng.permutation(np.arange(m, dtype=np.int64) % n)


def _with_noise(rng: np.random.Generator, x: Float, y: Array, n_noise: int) -> Dataset:
    m, n = x.shape
    X = np.hstack([x, rng.standard_normal((m, n_noise))])
    return Dataset(X, y, np.arange(n, dtype=np.int64))
