"""Groups with a kernel each: sums in one pass, products by Algorithms 1 and 2."""

import naive
import naive_structures as plain
import numpy as np
import pytest
from cases import ESTIMATORS
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from refusals import assert_refused
from strategies import labels

from dhsic.datasets import binary_xor
from dhsic.errors import InputError
from dhsic.structured import rank_kernels

STEPS = (1, 2, 0.5)


@st.composite
def kernel_matrices(draw):
    """Matrices (m, m) for 1 to 5 groups: Gaussian, linear, with zeros, copies of each other."""
    m = draw(st.integers(5, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    out = []
    for kind in draw(
        st.lists(st.sampled_from(["gaussian", "linear", "zeros", "copy"]), min_size=1, max_size=5)
    ):
        if kind == "copy" and out:
            out.append(out[rng.integers(len(out))].copy())
            continue
        x = rng.standard_normal((m, 2))
        if kind == "gaussian":
            out.append(np.exp(-np.square(x[:, None] - x[None]).sum(axis=2)))
        elif kind == "zeros":
            out.append(np.equal.outer(x[:, 0] > 0, x[:, 0] > 0).astype(float))
        else:
            out.append(x @ x.T)
    return out


@given(data=st.data())
def test_scores_of_a_sum_are_those_of_each_kernel(data):
    kernels = data.draw(kernel_matrices())
    y, label_kernel = data.draw(labels(len(kernels[0])))
    statistic = data.draw(st.sampled_from(ESTIMATORS))
    L = naive.label_gram(y.tolist(), label_kernel)

    backward, forward = (
        rank_kernels(kernels, y, strategy=s, label_kernel=label_kernel, statistic=statistic)
        for s in ("backward", "forward")
    )

    expected = [naive.hsic(K.tolist(), L, statistic) for K in kernels]
    near = 1e-12 * max(1.0, *map(abs, expected))
    assert_allclose(backward.scores, expected, rtol=1e-9, atol=near)
    assert backward.order.tolist() == naive.largest(backward.scores.tolist(), len(kernels))
    assert_array_equal(forward.ranking, backward.ranking)
    whole = naive.hsic(sum(kernels).tolist(), L, statistic)
    assert backward.rounds[0]["hsic"] == pytest.approx(whole, rel=1e-9, abs=near)


@given(data=st.data())
def test_a_product_backwards_is_algorithm_1(data):
    kernels = data.draw(kernel_matrices())
    y, label_kernel = data.draw(labels(len(kernels[0])))
    statistic, step = data.draw(st.sampled_from(ESTIMATORS)), data.draw(st.sampled_from(STEPS))
    L = naive.label_gram(y.tolist(), label_kernel)

    found = rank_kernels(
        kernels, y, combine="product", step=step, label_kernel=label_kernel, statistic=statistic
    )

    S_dagger = plain.backward_product([K.tolist() for K in kernels], L, statistic, step)
    assert found.order.tolist() == S_dagger[::-1]
    assert_array_equal(found.ranking[S_dagger], np.arange(len(kernels), 0, -1))


@given(data=st.data())
def test_a_product_forwards_is_algorithm_2(data):
    kernels = data.draw(kernel_matrices())
    y, label_kernel = data.draw(labels(len(kernels[0])))
    statistic, step = data.draw(st.sampled_from(ESTIMATORS)), data.draw(st.sampled_from(STEPS))
    L = naive.label_gram(y.tolist(), label_kernel)

    found = rank_kernels(
        kernels,
        y,
        combine="product",
        strategy="forward",
        step=step,
        label_kernel=label_kernel,
        statistic=statistic,
    )

    S_dagger = plain.forward_product([K.tolist() for K in kernels], L, statistic, step)
    assert found.order.tolist() == S_dagger


@pytest.mark.parametrize("strategy", ["backward", "forward"])
def test_scores_of_a_product_are_falls_and_rises_of_hsic(strategy, rng):
    """They add up from nothing to all kernels, one a round."""
    kernels = [np.exp(-(np.subtract.outer(x, x) ** 2)) for x in rng.standard_normal((5, 12))]
    y = np.arange(12) % 3
    L = naive.label_gram(y.tolist(), "multiclass")

    found = rank_kernels(kernels, y, combine="product", strategy=strategy)

    whole = naive.hsic(np.prod(kernels, axis=0).tolist(), L, "unbiased")
    assert found.scores.sum() == pytest.approx(whole, rel=1e-9)
    assert len(found.rounds) == 5
    sizes = [record["n_features"] for record in found.rounds]
    assert sizes == [5, 4, 3, 2, 1]


def test_small_differences_of_a_product_keep_their_digits(rng):
    """A kernel within 1e-12 of all ones: HSIC with and without it agree to 12 digits."""
    x, z = rng.standard_normal((2, 30))
    nearly = 1.0 - 1e-12 * np.subtract.outer(z, z) ** 2
    K = np.exp(-(np.subtract.outer(x, x) ** 2))
    y = (x > 0).astype(int)
    from dhsic.hsic import weights
    from dhsic.kernels.labels import label_matrix

    found = rank_kernels([nearly, K], y, combine="product")

    W = weights(label_matrix(y).L)
    assert found.order.tolist() == [1, 0]
    assert found.scores[0] == pytest.approx(np.sum(W * K * (nearly - 1.0)), rel=1e-9)


def test_a_product_finds_what_matters_only_together():
    """XOR: no single kernel shows it, the product backwards does; a sum cannot."""
    data = binary_xor(120, n_noise=4, random_state=1)
    kernels = [np.exp(-(np.subtract.outer(x, x) ** 2)) for x in data.X.T]

    found = rank_kernels(kernels, data.y, names=list("abcdef"), combine="product")
    alone = rank_kernels(kernels, data.y)

    assert {found.names[g] for g in found.order[:2]} == {"a", "b"}
    assert found.scores[0] > 20 * alone.scores[0]


def test_names_are_numbers_where_none_are_given(rng):
    kernels = [np.eye(6), np.ones((6, 6)), np.eye(6) + 1]

    found = rank_kernels(kernels, [0, 1] * 3)

    assert found.names == ("0", "1", "2")


K = np.eye(6)
Y = [0, 1] * 3
REFUSED = {
    "none": (lambda: rank_kernels([], Y), "0 kernels"),
    "not square": (lambda: rank_kernels([np.ones((6, 5))], Y), "Kernel 0", "(6, 5)"),
    "sizes": (lambda: rank_kernels([K, np.eye(5)], Y), "Kernel 1", "(5, 5)", "6 samples"),
    "not symmetric": (
        lambda: rank_kernels([K, np.triu(np.ones((6, 6)))], Y),
        *("Kernel 1", "largest difference 1", "(K + K') / 2"),
    ),
    "NaN": (lambda: rank_kernels([K * np.nan], Y), "kernel 0", "NaN"),
    "names": (lambda: rank_kernels([K, K], Y, names=["a"]), "2 kernels", "1 names"),
    "names twice": (lambda: rank_kernels([K, K], Y, names="aa"), "1 of them distinct"),
    "combine": (lambda: rank_kernels([K], Y, combine="mean"), "combine='mean'", "'product'"),
    "strategy": (lambda: rank_kernels([K], Y, strategy="up"), "strategy='up'", "'forward'"),
    "step": (lambda: rank_kernels([K], Y, step=1.5), "step=1.5", "(0, 1)"),
    "labels": (lambda: rank_kernels([K], Y[:4]), "6 samples", "y has 4"),
    "statistic": (lambda: rank_kernels([K], Y, statistic="x"), "statistic='x'", "'biased'"),
    "overflow": (
        lambda: rank_kernels([np.outer(Y, Y) * 1e59 + K] * 7, Y, combine="product"),
        *("7 kernels overflows", "np.diag(K)"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case, tmp_path):
    call, *words = REFUSED[case]
    assert_refused(call, InputError, [w for w in words if "np." not in w], tmp_path)
