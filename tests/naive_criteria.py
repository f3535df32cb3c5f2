"""Criteria of JMLR section 6 as they are defined: one feature at a time, plain loops.

Nothing here is shared with the package; equation numbers are of Song et al. 2012 (JMLR 13). What
Smyth 2004 defines follows limma's functions of the same names.
"""

import math

import numpy as np
from scipy import special, stats


def filled(X):
    """Columns of X with missing values replaced by the mean of their feature."""
    out = []
    for column in zip(*X, strict=True):
        known = [v for v in column if not math.isnan(v)]
        mean = sum(known) / len(known)
        out.append([mean if math.isnan(v) else v for v in column])
    return out


def mean(values):
    return math.fsum(values) / len(values)


def variance(values, ddof=1):
    middle = mean(values)
    return math.fsum((v - middle) ** 2 for v in values) / (len(values) - ddof)


def split(x, y):
    """Values of a feature by class, classes in the order of their names."""
    return [[v for v, c in zip(x, y, strict=True) if c == name] for name in sorted(set(y))]


# -- means (6.2, 6.5) ---------------------------------------------------------------------------


def centroid(x, y, weight):
    negative, positive = split(x, y)
    return weight * mean(positive) - (1 - weight) * mean(negative)


def welch(x, y):
    """Eq. 24."""
    negative, positive = split(x, y)
    error = variance(negative) / len(negative) + variance(positive) / len(positive)
    return (mean(positive) - mean(negative)) / math.sqrt(error)


def signal_to_noise(x, y):
    negative, positive = split(x, y)
    spread = math.sqrt(variance(negative)) + math.sqrt(variance(positive))
    return (mean(positive) - mean(negative)) / spread


def shrunken_centroid(x, y):
    """Eq. 28."""
    return sum((mean(values) - mean(x)) ** 2 for values in split(x, y))


# -- limma: lmFit for two groups, eBayes ---------------------------------------------------------


def two_groups(columns, y):
    """Differences of means and pooled variances of all features, and the degrees of freedom."""
    differences, variances = [], []
    for x in columns:
        negative, positive = split(x, y)
        differences.append(mean(positive) - mean(negative))
        squares = sum((v - mean(group)) ** 2 for group in (negative, positive) for v in group)
        variances.append(squares / (len(y) - 2))
    return np.array(differences), np.array(variances), len(y) - 2


def trigamma_inverse(x):
    """Newton's iteration in 1/y, as limma's trigammaInverse."""
    y = 0.5 + 1.0 / x
    for _ in range(50):
        tri = special.polygamma(1, y)
        step = tri * (1 - tri / x) / special.polygamma(2, y)
        y += step
        if -step / y < 1e-12:
            break
    return y


def fit_f_dist(s2, df1):
    """Limma's fitFDist: (scale, df2)."""
    if len(s2) == 1:
        return s2[0], 0.0
    s2 = np.maximum(s2, 1e-5 * np.median(s2))
    e = np.log(s2) - special.digamma(df1 / 2) + math.log(df1 / 2)
    evar = np.sum((e - np.mean(e)) ** 2) / (len(e) - 1) - special.polygamma(1, df1 / 2)
    if evar <= 0:
        return np.mean(s2), math.inf
    df2 = 2 * trigamma_inverse(evar)
    return math.exp(np.mean(e) + special.digamma(df2 / 2) - math.log(df2 / 2)), df2


def e_bayes(differences, s2, df, unscaled, proportion=0.01):
    """Limma's ebayes: moderated t, log odds, and the prior (scale, df)."""
    scale, df0 = fit_f_dist(s2, df)
    post = np.full(len(s2), scale) if math.isinf(df0) else (df0 * scale + df * s2) / (df0 + df)
    t = differences / np.sqrt(unscaled) / np.sqrt(post)
    total = min(df + df0, df * len(s2))
    v0 = t_mixture(t, unscaled, total, proportion, (0.1**2 / scale, 4.0**2 / scale))
    r = (unscaled + v0) / unscaled
    if df0 > 1e6:
        kernel = t**2 * (1 - 1 / r) / 2
    else:
        kernel = (1 + total) / 2 * np.log((t**2 + total) / (t**2 / r + total))
    lods = math.log(proportion / (1 - proportion)) - math.log(r) / 2 + kernel
    return t, lods, (scale, df0)


def t_mixture(t, unscaled, df, proportion, limits):
    """Limma's tmixture.vector for equal degrees of freedom."""
    n = len(t)
    n_target = math.ceil(proportion / 2 * n)
    p = max(n_target / n, proportion)
    found = []
    for rank, size in enumerate(sorted(np.abs(t), reverse=True)[:n_target], start=1):
        p0 = 2 * stats.t.sf(size, df)
        target = ((rank - 0.5) / n - (1 - p) * p0) / p
        v0 = unscaled * ((size / stats.t.isf(target / 2, df)) ** 2 - 1) if target > p0 else 0.0
        found.append(min(max(v0, limits[0]), limits[1]))
    return mean(found)


# -- kernels on one feature (6.3, 6.4, 6.7) ------------------------------------------------------


def gram(x, sigma):
    return [[math.exp(-sigma * (a - b) ** 2) for b in x] for a in x]


def median_sigma(x):
    distances = [(a - b) ** 2 for i, a in enumerate(x) for b in x[:i]]
    middle = float(np.median(distances))
    return 1 / (2 * (middle or float(np.median([v for v in distances if v > 0]))))


def present(x, y):
    """Values and labels of the samples whose value is not missing."""
    pairs = [(v, c) for v, c in zip(x, y, strict=True) if not math.isnan(v)]
    return [v for v, _ in pairs], [c for _, c in pairs]


def class_weights(x, y):
    """Weights of the samples present: each class counts as all of its samples do."""
    _, labels = present(x, y)
    return [y.count(c) / labels.count(c) if c in labels else 0.0 for c in labels]


def equal_weights(x, y):
    """Weights of the samples present: all alike, m in all."""
    n = sum(1 for v in x if not math.isnan(v))
    return [len(y) / n] * n


def weighted(K, weights):
    """Matrix with its rows and columns weighted by square roots."""
    root = [math.sqrt(w) for w in weights]
    return [
        [a * v * b for v, b in zip(row, root, strict=True)] for row, a in zip(K, root, strict=True)
    ]


def mmd(x, y, sigma):
    """Eq. 26, middle line."""
    negative, positive = split(*present(x, y))

    def average(a, b):
        return sum(math.exp(-sigma * (u - v) ** 2) for u in a for v in b) / (len(a) * len(b))

    return (
        average(positive, positive) + average(negative, negative) - 2 * average(positive, negative)
    )


def alignment(K, L):
    """The cosine of 6.4."""
    m = len(K)
    pairs = [(K[i][j], L[i][j]) for i in range(m) for j in range(m)]
    size = math.sqrt(sum(k * k for k, _ in pairs)) * math.sqrt(sum(v * v for _, v in pairs))
    return sum(k * v for k, v in pairs) / size


def window(u, sigma):
    """Gaussian Parzen window of unit mass."""
    return np.sqrt(sigma / np.pi) * np.exp(-sigma * np.square(u))


def qmi_of_numbers(x, y, sigma_x, sigma_y, n=400, reach=9.0):
    """Eq. 30 by the trapezoidal rule on a grid, from densities: no inner products."""
    x, y = (np.asarray(values) for values in present(x, y))
    gx = np.linspace(x.min() - reach, x.max() + reach, n)
    gy = np.linspace(y.min() - reach, y.max() + reach, n)
    kx = window(x[:, None] - gx, sigma_x)  # (m, n)
    ky = window(y[:, None] - gy, sigma_y)
    joint = kx.T @ ky / len(x)
    gap = joint - np.outer(kx.mean(axis=0), ky.mean(axis=0))
    return float((gap**2).sum()) * (gx[1] - gx[0]) * (gy[1] - gy[0])


def qmi_of_classes(x, y, sigma_x, n=2000, reach=9.0):
    """Eq. 30 with a sum over classes in place of the integral over y.

    A class counts as all of its samples do, also those whose value is missing.
    """
    weights = np.array(class_weights(x, y)) / len(y)
    x, labels = (np.asarray(values) for values in present(x, y))
    grid = np.linspace(x.min() - reach, x.max() + reach, n)
    kx = weights[:, None] * window(x[:, None] - grid, sigma_x)
    density, total = kx.sum(axis=0), 0.0
    for name in sorted(set(y)):
        joint = kx[labels == name].sum(axis=0)
        total += float(((joint - y.count(name) / len(y) * density) ** 2).sum())
    return total * (grid[1] - grid[0])


# -- ridge (6.6) ---------------------------------------------------------------------------------


def ridge(x, y, penalty):
    """Part explained and coefficient, by least squares on one row more, ``sqrt(penalty) w = 0``."""
    x, y = np.asarray(x) - np.mean(x), np.asarray(y) - np.mean(y)
    design, target = np.append(x, math.sqrt(penalty)), np.append(y, 0.0)
    (w,), _, _, _ = np.linalg.lstsq(design[:, None], target, rcond=None)
    J = np.sum((y - x * w) ** 2) + penalty * w**2
    return 1 - J / (y @ y), w
