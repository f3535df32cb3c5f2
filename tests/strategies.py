"""Data as hypothesis draws it: matrices, labels and ways to cut features into blocks.

Values come from a seeded generator, so that examples are plain to print and to shrink; hypothesis
chooses sizes, kinds and what is special: few-valued features, copies, flipped alleles, gaps.
"""

import numpy as np
from cases import CLASS_KERNELS, REAL_KERNELS
from hypothesis import strategies as st

KINDS = ("normal", "skewed", "genotype", "one-hot", "copy", "flip")


@st.composite
def matrices(draw, samples=(6, 14), features=(2, 9), missing=False):
    """(m, d) float64, no feature constant: normal, skewed, counts, genotypes, copies, flips.

    Hypothesis chooses the kinds of the first twelve features.
    """
    m = draw(st.integers(*samples))
    d = draw(st.integers(*features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = np.empty((m, d))
    for j in range(d):
        kind = draw(st.sampled_from(KINDS)) if j < 12 else KINDS[rng.integers(len(KINDS))]
        if kind in ("copy", "flip") and j == 0:
            kind = "normal"
        X[:, j] = _column(kind, X[:, :j], rng)
        if np.ptp(X[:, j]) == 0:
            X[0, j] = 0.0 if X[0, j] else 1.0
    if missing:
        gaps = rng.random((m, d)) < 0.15
        gaps[:3] = False
        for j in range(d):
            if np.ptp(X[~gaps[:, j], j]) == 0:
                gaps[:, j] = False
        X[gaps] = np.nan
    return X


def _column(kind, before, rng):
    m, j = before.shape
    if kind in ("copy", "flip"):
        source = before[:, rng.integers(j)]
        return source if kind == "copy" else 2 - source
    draws = {
        "normal": lambda: rng.standard_normal(m) * 3 + 5,
        "skewed": lambda: rng.exponential(size=m) ** 2,
        "genotype": lambda: rng.integers(0, 3, m),
        "one-hot": lambda: np.eye(m)[rng.integers(m)],
    }
    return draws[kind]()


@st.composite
def labels(draw, m):
    """(y, label kernel): classes or real values with a kernel that takes them."""
    kernel = draw(st.sampled_from([*CLASS_KERNELS, *(f"real {k}" for k in REAL_KERNELS)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kernel.startswith("real"):
        return rng.standard_normal(m), kernel.removeprefix("real ")
    n = 2 if kernel in ("binary", "balanced") else draw(st.integers(2, 3))
    y = np.arange(m) % n
    rng.shuffle(y)
    return y, kernel


@st.composite
def splits(draw, d):
    """Edges of consecutive blocks that cover 0..d."""
    inner = draw(st.lists(st.integers(1, max(1, d - 1)), max_size=4, unique=True))
    return sorted({0, d, *(e for e in inner if e < d)})
