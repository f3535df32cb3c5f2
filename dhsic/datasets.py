"""Synthetic data sets of the papers, with known relevant features.

| function | paper | relevant features | methods that select these features |
|---|---|---|---|
| `binary_xor` | JMLR 7.1 (i) | 2 of 22 | backward elimination; a kernel that detects interactions |
| `collinear_classes` | JMLR 7.1 (ii) | 2 of 22 | HSIC with labels as classes, not numbers |
| `nonlinear_regression` | JMLR 7.1 (iii) | 2 of 22 | a nonlinear kernel |
| `binary_shell` | CCM 6.1 | 4 of 10 | a kernel that detects differences in variance |
| `xor_three` | CCM 6.1 | 3 of 10 | conditional covariance; BAHSIC failed in the paper |
| `additive_regression` | CCM 6.1 | 4 of 10 | nearly all; the effect of the fourth has heavy tails |

Relevant features come first. The sizes of classes differ by at most one, and samples are in random
order. The same seed gives the same data.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincinv

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError

#: Standard deviation of the clusters of JMLR Figure 2, whose centres differ by 1 or 2 per axis.
CLUSTER = 0.3
#: Corners of the square; those whose coordinates have the same sign are class 1.
SQUARE = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
#: Centres of four classes: 0, 1 and 2 on a line, 3 beside it.
COLLINEAR = np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
#: One corner ``v`` of the cube for each of the classes ``(v1 v3, v2 v3)``; the other is ``-v``.
CUBE = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
#: Squared inner and outer radius of the shell.
SHELL = (9.0, 16.0)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features, labels, and the positions of the relevant features.

    Attributes
    ----------
    X : (m, d) float64
        One row per sample.
    y : (m,) int64 or float64
        Classes: -1 and 1, or 0, 1, ... if there are more than two; real values for regression.
    relevant : (n,) int64
        Positions of the features on which y depends, ascending.
    """

    X: Float
    y: Array
    relevant: Index


def binary_xor(m: int, n_noise: int = 20, random_state: int = 0) -> Dataset:
    """XOR: two classes, each of two clusters at opposite corners of a square (JMLR 7.1 (i)).

    ``x_1`` and ``x_2`` are N(+-1, 0.3^2). y is 1 if both centres have the same sign, else -1, so
    neither feature alone depends on y. The paper shows the clusters in Figure 2 (a) without
    numbers; the centres (+-1, +-1) and the standard deviation 0.3 are our choice.

    Parameters
    ----------
    m : int
        Number of samples, at least 1.
    n_noise : int
        Number of standard normal features on which y does not depend.
    random_state : int
        Seed, at least 0.

    Returns
    -------
    Dataset
        Data with 2 + n_noise features, and y of -1 and 1.

    Raises
    ------
    InputError
        An argument is not a whole number, or is too small.

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

    Classes 0, 1, 2 and 3 are normally distributed around (-1, -1), (0, 0), (1, 1) and (1, -1), with
    standard deviation 0.3. Along the line, ``x_1`` and ``x_2`` increase with the number of the
    class; class 3 removes most of the correlation of this number with ``x_2``. The paper shows the
    data in Figure 2 (b) without numbers; the numbers are our choice.

    Parameters and errors are those of `binary_xor`; y is the class, 0 to 3.
    """
    rng = _generator(m, n_noise, random_state)
    y = _classes(rng, m, 4)
    return _with_noise(rng, COLLINEAR[y] + CLUSTER * rng.standard_normal((m, 2)), y, n_noise)


def nonlinear_regression(
    m: int, n_noise: int = 20, random_state: int = 0, *, noise: float = 0.1
) -> Dataset:
    """``y = x_1 exp(-x_1^2 - x_2^2) + e`` with standard normal features (JMLR 7.1 (iii)).

    e is N(0, noise^2); the paper does not state its size. Without e, the standard deviation of y is
    1/5.

    Parameters and errors are those of `binary_xor`; `noise` is the standard deviation of e, at
    least 0.
    """
    if not 0 <= noise < np.inf:
        raise InputError(f"noise={noise!r} is not a standard deviation. Pass a number >= 0.")
    rng = _generator(m, n_noise, random_state)
    x = rng.standard_normal((m, 2))
    y = x[:, 0] * np.exp(-(x**2).sum(axis=1)) + noise * rng.standard_normal(m)
    return _with_noise(rng, x, y, n_noise)


def binary_shell(m: int, n_noise: int = 6, random_state: int = 0) -> Dataset:
    """A ball and the shell around it, in four dimensions (CCM 6.1, from Friedman et al.).

    If y is -1, all features are standard normal. If y is 1, ``x_1, ..., x_4`` have the standard
    normal distribution conditional on ``9 <= x_1^2 + ... + x_4^2 <= 16``. The means of the features
    do not depend on y.

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

    The corners v of the cube ``{-1, 1}^3`` are divided into four classes by ``(v_1 v_3, v_2 v_3)``;
    each class has two opposite corners. For each sample, one of the two corners of its class is
    chosen with probability 1/2, and ``x_1, ..., x_3`` are normally distributed around it with
    variance 1/2. No single feature depends on y, and no pair of features distinguishes all four
    classes.

    Parameters and errors are those of `binary_xor`; y is the class, 0 to 3.
    """
    rng = _generator(m, n_noise, random_state)
    y = _classes(rng, m, 4)
    v = CUBE[y] * rng.choice([-1.0, 1.0], m)[:, None]
    return _with_noise(rng, v + np.sqrt(0.5) * rng.standard_normal((m, 3)), y, n_noise)


def additive_regression(m: int, n_noise: int = 6, random_state: int = 0) -> Dataset:
    """``y = -2 sin(2 x_1) + max(x_2, 0) + x_3 + exp(-x_4) + e`` (CCM 6.1).

    All features and e are standard normal. Parameters and errors are those of `binary_xor`.
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
    """Draw classes 0 to n - 1 of m samples in random order; their sizes differ by at most 1."""
    return rng.permutation(np.arange(m, dtype=np.int64) % n)


def _with_noise(rng: np.random.Generator, x: Float, y: Array, n_noise: int) -> Dataset:
    m, n = x.shape
    X = np.hstack([x, rng.standard_normal((m, n_noise))])
    return Dataset(X, y, np.arange(n, dtype=np.int64))
