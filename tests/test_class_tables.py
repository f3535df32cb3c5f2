"""Exact tails for two classes of which one is rare: by enumeration, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import hypergeom, multivariate_hypergeom

import dhsic

M, CASES = 400, 16


def tables(n, k):
    """Genotypes (m, t) of every table of k cases and n of each genotype, and probabilities (t,)."""
    columns, probabilities = [], []
    for one in range(min(k, n[1]) + 1):
        for two in range(min(k - one, n[2]) + 1):
            members = [k - one - two, one, two]
            p = multivariate_hypergeom.pmf(members, n, k)
            if p > 1e-13 and members[0] <= n[0]:
                of_cases = np.repeat([0, 1, 2], members)
                of_others = np.repeat([0, 1, 2], np.subtract(n, members))
                columns.append(np.concatenate([of_cases, of_others]))
                probabilities.append(p)
    return np.array(columns, dtype=np.int8).T, np.array(probabilities)


@pytest.mark.parametrize("n", [(358, 38, 4), (362, 38, 0), (200, 160, 40)])
@pytest.mark.parametrize("missing", [0, 40])
def test_no_small_p_value_is_more_frequent_than_it_says(n, missing, rng):
    """Laws by moments gave 1.5 to 4 times as many of 1e-4 and 1e-5."""
    G, probabilities = tables(n, CASES)
    y = (np.arange(M) < CASES).astype(int)
    if missing:  # at random: the samples present are all that count
        G = np.concatenate([G, np.full((missing, G.shape[1]), -1, dtype=np.int8)])
        y = np.append(y, np.arange(missing) % 20 == 0)
    order = rng.permutation(len(y))

    p = dhsic.test_features(G[order], y[order], missing_code=-1).p_values

    for level in (5e-4, 1e-4, 1e-5, 1e-6):
        assert probabilities[p <= level].sum() <= level * (1 + 1e-6)
    assert 0.05 < probabilities[p <= 1e-3].sum() / 1e-3 < 2


def test_small_p_values_of_two_values_are_those_of_the_hypergeometric_law(rng):
    n_carriers, observed = 60, np.arange(7, 16)
    law = hypergeom(M, n_carriers, CASES)
    every = np.arange(CASES + 1)
    mean = law.mean()
    expected = [law.pmf(every)[abs(every - mean) >= abs(x - mean) - 1e-9].sum() for x in observed]
    G = np.zeros((M, observed.size), dtype=np.int8)
    for j, x in enumerate(observed):
        G[:x, j] = G[CASES : CASES + n_carriers - x, j] = 1
    y = np.arange(M) < CASES

    for X, labels in ((G, y), (G, ~y), (G * 2.5, np.where(y, "case", "control"))):
        p = dhsic.test_features(X, labels).p_values
        small = np.array(expected) < 5e-4
        assert small.sum() >= 5
        np.testing.assert_allclose(p[small], np.array(expected)[small], rtol=1e-6)
