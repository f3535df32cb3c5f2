"""The array version of the definition is held to the plain loops."""

import naive
import numpy as np
from cases import ESTIMATORS
from hypothesis import given
from hypothesis import strategies as st
from strategies import matrices


@given(matrices(), st.sampled_from(ESTIMATORS), st.sampled_from([0.1, 0.4]))
def test_arrays_follow_the_loops(X, statistic, step):
    m = len(X)
    L = naive.label_gram([i % 2 for i in range(m)], "balanced")
    Z = naive.standardise(X.tolist())

    fast = naive.bahsic_gaussian_in_arrays(Z, L, statistic, step)

    assert fast == naive.bahsic(Z, L, "gaussian", "dimension", statistic, step)


def test_unbiased_is_unbiased():
    """Mean over all permutations of independent labels is zero; the biased one's is not."""
    from itertools import permutations

    x = [[0.0], [1.0], [3.0], [4.0], [7.0]]
    y = [1.0, -1.0, 2.0, 0.5, 3.0]
    K = naive.gram(x, "gaussian", 0.3)
    values = {"unbiased": [], "biased": []}
    for p in permutations(y):
        L = naive.label_gram(list(p), "linear")
        for statistic, into in values.items():
            into.append(naive.hsic(K, L, statistic))

    assert abs(np.mean(values["unbiased"])) < 1e-15
    assert np.mean(values["biased"]) > 1e-3
