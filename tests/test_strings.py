"""Substrings are counted as plain search counts them, whatever the alphabet and length."""

import naive
import naive_structures as plain
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from refusals import assert_refused

from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.kernels.counting import Spectrum, WeightedSubstrings
from dhsic.kernels.labels import label_matrix
from dhsic.structured import rank_substrings

#: One letter; DNA; beyond 16 bits, a lone surrogate, and a letter that C would end a string at.
ALPHABETS = ("A", "ACGT", "ab\0\U0001f600\ud800\xe9")


@st.composite
def texts(draw, least=1):
    """Strings of 0 to 12 letters, one of them at least `least` long."""
    alphabet = draw(st.sampled_from(ALPHABETS))
    word = st.text(alphabet, max_size=12)
    words = draw(st.lists(word, min_size=0, max_size=6))
    return [*words, draw(st.text(alphabet, min_size=least, max_size=12))]


def counted(strings, names):
    return [[plain.occurrences(a, x) for a in names] for x in strings]


@given(data=st.data())
def test_spectrum_is_a_plain_search(data):
    k = data.draw(st.integers(1, 8))
    strings = data.draw(texts(least=k))

    counts, names = Spectrum(k).counts(strings)

    assert names == plain.substrings(strings, [k])
    assert_array_equal(counts.toarray(), counted(strings, names))
    assert counts.nnz == np.count_nonzero(counts.toarray())


@given(data=st.data())
def test_substrings_of_all_lengths_are_a_plain_search(data):
    longest = data.draw(st.integers(1, 8))
    strings = data.draw(texts())

    counts, names = WeightedSubstrings(longest).counts(strings)

    assert names == plain.substrings(strings, range(1, longest + 1))
    assert_array_equal(counts.toarray(), counted(strings, names))


@given(texts(least=2), st.sampled_from([0.3, 1.0, 2.0]))
def test_gram_is_the_definition(strings, decay):
    kernel = WeightedSubstrings(3, decay)
    names = plain.substrings(strings, [1, 2, 3])
    w = [decay ** len(a) for a in names]

    K = kernel.gram(strings)

    assert_allclose(K, plain.additive_gram(counted(strings, names), w), rtol=1e-12)
    assert_array_equal(K, K.T)


def test_substrings_of_more_than_64_bits(rng):
    """A hundred letters of four: 200 bits."""
    strings = ["".join(rng.choice(list("ACGT"), 300)) for _ in range(4)]
    strings.append(strings[0][50:250])

    counts, names = Spectrum(100).counts(strings)

    assert names == plain.substrings(strings, [100])
    assert_array_equal(counts.toarray(), counted(strings, names))


@pytest.mark.parametrize("kind", ["mapping", "callable"])
def test_weights_of_one_s_own(kind):
    strings = ["abab", "ba", "aab"]
    of = {"ab": 2.0, "b": 0.5}
    kernel = WeightedSubstrings(2, of if kind == "mapping" else lambda a: of.get(a, 0.0))
    counts = counted(strings, list(of))

    assert_allclose(kernel.gram(strings), plain.additive_gram(counts, of.values()), rtol=1e-14)


def test_gram_is_the_same_by_dense_and_by_sparse_columns(rng, monkeypatch):
    strings = ["".join(rng.choice(list("AB"), 30)) for _ in range(20)]
    monkeypatch.setattr("dhsic.kernels.counting.DENSE", 2.0)
    sparse = WeightedSubstrings(5).gram(strings)
    monkeypatch.setattr("dhsic.kernels.counting.DENSE", 0.0)
    monkeypatch.setattr("dhsic.kernels.counting.BLOCK", 50)

    assert_allclose(WeightedSubstrings(5).gram(strings), sparse, rtol=1e-12)


@given(data=st.data())
def test_scores_are_the_part_of_hsic_that_each_substring_has(data):
    strings = data.draw(st.lists(st.text("ACG", min_size=3, max_size=9), min_size=6, max_size=9))
    statistic = data.draw(st.sampled_from(["unbiased", "biased"]))
    kernel = data.draw(st.sampled_from([Spectrum(2), WeightedSubstrings(3, 0.7)]))
    y = [i % 2 for i in range(len(strings))]
    L = naive.label_gram(y, "balanced")

    found = rank_substrings(kernel, strings, y, statistic=statistic)

    w = kernel.weights(found.names)
    expected = [
        naive.hsic(plain.additive_gram([[c] for c in column], [v]), L, statistic)
        for column, v in zip(
            zip(*counted(strings, found.names), strict=True), w.tolist(), strict=True
        )
    ]
    assert_allclose(found.scores, expected, rtol=1e-9, atol=1e-12)
    assert found.order.tolist() == naive.largest(found.scores.tolist(), len(found.names))
    assert found.names == tuple(sorted(found.names))
    assert sorted(found.ranking) == list(range(1, len(found.names) + 1))
    assert_array_equal(found.ranking[found.order], np.arange(1, len(found.names) + 1))
    whole = naive.hsic(kernel.gram(strings).tolist(), L, statistic)
    assert found.rounds[0]["hsic"] == pytest.approx(whole, rel=1e-9, abs=1e-12)


def test_a_planted_motif_is_found(rng):
    strings = ["".join(rng.choice(list("ACGT"), 200)) for _ in range(60)]
    y = np.arange(60) % 2
    for i in np.flatnonzero(y):
        strings[i] = strings[i][:50] + "TATAAT" + strings[i][56:120] + "TATAAT" + strings[i][126:]

    found = rank_substrings(Spectrum(6), strings, y)

    assert found.names[found.order[0]] == "TATAAT"


def test_equal_scores_go_by_name():
    strings = ["xay", "xby"] * 3

    found = rank_substrings(Spectrum(1), strings, ["p", "q"] * 3)

    assert [found.names[a] for a in found.order] == ["a", "b", "x", "y"]


def test_covariates_leave_nothing_of_what_they_explain(rng):
    strings = ["".join(rng.choice(list("AB"), 20)) for _ in range(30)]
    y = rng.standard_normal(30)
    C = rng.standard_normal((30, 2))
    W = weights(label_matrix(y).L, covariates=C)
    counts, _ = Spectrum(2).counts(strings)
    dense = counts.toarray().astype(float)

    found = rank_substrings(Spectrum(2), strings, y, covariates=C)

    assert_allclose(found.scores, np.einsum("ia,ij,ja->a", dense, W, dense), rtol=1e-10)


STRINGS = ["AB", "BA", "AA", "BB"]
Y = [0, 1, 0, 1]
REFUSED = {
    "one string": (lambda: Spectrum(1).counts("ABBA"), "str", "a list"),
    "bytes": (lambda: Spectrum(1).counts([b"AB"]), "Sample 0", "bytes", "pass text"),
    "missing": (lambda: Spectrum(1).counts(["A", None]), "Sample 1", "None", "drop"),
    "none": (lambda: Spectrum(1).counts([]), "0 strings"),
    "too short": (lambda: Spectrum(3).counts(STRINGS), "2 letters", "3", "shorter"),
    "empty": (lambda: WeightedSubstrings(3).counts(["", ""]), "0 letters", "longer strings"),
    "k": (lambda: Spectrum(0), "k=0", ">= 1"),
    "k, a half": (lambda: Spectrum(1.5), "k=1.5", "whole"),
    "longest": (lambda: WeightedSubstrings(True), "longest=True", "whole"),
    "decay": (lambda: WeightedSubstrings(2, -1.0), "decay=-1.0", "positive"),
    "decay, text": (lambda: WeightedSubstrings(2, "x"), "decay='x'", "positive"),
    "a weight": (
        lambda: WeightedSubstrings(1, {"A": -2.0}).gram(STRINGS),
        *("'A'", "-2.0", "of at least 0"),
    ),
    "labels": (
        lambda: rank_substrings(Spectrum(1), STRINGS, [0, 1, 0, 1, 0]),
        *("4 samples", "y has 5", "one label"),
    ),
    "order of samples": (
        lambda: rank_substrings(
            Spectrum(1), pd.Series(STRINGS, index=list("abcd")), pd.Series(Y, index=list("bacd"))
        ),
        *("a different order", "y.loc[strings.index]"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case, tmp_path):
    call, *words = REFUSED[case]
    assert_refused(call, InputError, words, tmp_path)
