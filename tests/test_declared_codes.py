"""Numbers that look like codes for missing values, where they are declared to be values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from bgen import BgenWriter

import dhsic
from dhsic.errors import DataError

M, D = 200, 40


def codes(seed=0):
    """Features (m, d) of which a half contains 30 times the number 1, far from all others."""
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.random((M, D))
    X[:30, : D // 2] = 1.0
    return X, rng.standard_normal(M)


CALLS = {
    "pca": lambda X, y, **how: dhsic.pca(X, 2, **how),
    "pairs": lambda X, y, **how: dhsic.find_pairs(X, y, n_permutations=0, **how),
    "marginal": dhsic.marginal_interactions,
    "test": dhsic.test_features,
}


@pytest.mark.parametrize("name", CALLS)
def test_codes_are_refused_until_they_are_declared(name):
    X, y = codes()
    with pytest.raises(DataError, match=r"pass missing_code=None"):
        CALLS[name](X, y)
    CALLS[name](X, y, missing_code=None)


@pytest.mark.parametrize("name", ["pca", "pairs", "marginal"])
def test_features_with_codes_are_named(name):
    X, y = codes()
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(D)])
    with pytest.raises(DataError, match=r"\(gene0: 30, others at most"):
        CALLS[name](frame, y)


def test_dosages_of_carriers_are_no_codes(tmp_path, recwarn):
    rng = np.random.default_rng(0)
    samples = [f"s{i}" for i in range(M)]
    with BgenWriter(str(tmp_path / "x.bgen"), M, samples, compression="zlib") as file:
        for j in range(D):
            calls = rng.binomial(1, 0.06, M) if j < D // 2 else rng.binomial(2, 0.4, M)
            P = np.eye(3)[calls]
            for i in np.flatnonzero((calls == 0) & (rng.random(M) < 0.2)):
                P[i] = [1 - 0.3 * rng.random(), 0, 0]
                P[i, 1] = 1 - P[i, 0]
            file.add_variant(f"v{j}", f"rs{j}", "1", 1000 * (j + 1), ["A", "G"], P, bit_depth=8)
    y = rng.standard_normal(M)
    for name, call in CALLS.items():
        call(tmp_path / "x.bgen", y)
        assert not [w for w in recwarn if "missing values" in str(w.message)], name
