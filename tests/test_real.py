"""Which features are real: every feature tested in one pass, by its levels or as it is."""

import json
from functools import partial
from itertools import permutations
from math import comb

import naive
import naive_independence as plain
import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, false_discovery_control, pearson3

import dhsic
from dhsic.cli import main
from dhsic.criteria.discrete import LevelForms, sums_over_codes
from dhsic.criteria.features import median_square, medians_of_levels
from dhsic.criteria.independence import Independence, Permuted
from dhsic.criteria.mixture import log_mixture_tail
from dhsic.criteria.null import NullOf, log_tail
from dhsic.criteria.rare import DRAWS, RareLaw, subsets
from dhsic.errors import InputError
from dhsic.hsic import estimated
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.symmetric import DenseSymmetric

ESTIMATORS = ("unbiased", "biased")
TAKEN = partial(pytest.warns, UserWarning, match="treated as missing")


@pytest.fixture
def genotypes(rng):
    """120 samples of 40 variants, some calls missing; labels that follow two."""
    common = rng.uniform(0.15, 0.5, 40)
    X = rng.binomial(2, common, (120, 40)).astype(np.int8)
    X[rng.random(X.shape) < 0.02] = -1
    return X, (X[:, 3] == 1) + 0.8 * X[:, 7] + 0.7 * rng.standard_normal(120)


def assert_alike(p, of_permutations, n=1000):
    """p-values are those of n permutations, but for their errors and for steps of few values."""
    error = 4 * np.sqrt(p * (1 - p) / n) + 1 / n
    near = np.abs(p - of_permutations) < error + 0.06 * p
    assert near[of_permutations < 0.8].all()


def leveled(levels, K, statistic):
    """The feature by its levels, and the same written out, of a kernel between 3 levels."""
    counts = np.array([[np.count_nonzero(levels == k) for k in range(3)]], dtype=float)
    whole = DenseSymmetric(K[np.ix_(levels, levels)])
    return LevelForms.of(K[None], counts, statistic), estimated(whole, statistic)


def kernel_between(rng):
    points = rng.standard_normal(3)
    return np.exp(-np.square(points[:, None] - points))


@given(
    st.lists(st.integers(0, 2), min_size=5, max_size=6).filter(lambda g: len(set(g)) > 1),
    st.integers(0, 99),
    st.sampled_from(ESTIMATORS),
)
def test_moments_by_levels_are_those_of_all_permutations(levels, seed, statistic):
    rng, levels = np.random.default_rng(seed), np.array(levels)
    K = kernel_between(rng)
    y = rng.standard_normal(len(levels))
    L = np.exp(-np.square(y[:, None] - y))
    forms, whole = leveled(levels, K, statistic)
    state = Permuted.of(label_matrix(L, "precomputed"), None)

    found = forms.moments(state.null, None, None)

    mean, variance, third = plain.moments(K[np.ix_(levels, levels)].tolist(), L.tolist(), statistic)
    assert_allclose(forms.norms, whole.norm)
    assert_allclose(found.mean, mean, atol=1e-12)
    assert_allclose(found.variance, variance, rtol=1e-6, atol=1e-14)
    if variance > 1e-10:
        assert_allclose(found.skewness, third / variance**1.5, rtol=1e-6, atol=1e-6)


@given(st.integers(0, 99), st.integers(1, 4), st.sampled_from(ESTIMATORS))
def test_traces_without_covariates(seed, q, statistic):
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 3, 15)
    forms, whole = leveled(levels, kernel_between(rng), statistic)
    Q = covariate_basis(rng.standard_normal((15, q)), 15)
    Z = (levels[:, None] == np.arange(3)).astype(float)
    S = np.einsum("ik,ip,ir->kpr", Z, Q, Q)

    found = forms.projected_traces((Z.T @ Q)[None], S[None])

    A = whole.projected(Q).matrix
    expected = [np.trace(A), np.trace(A @ A), np.trace(A @ A @ A)]
    assert_allclose(np.concatenate(found), expected, rtol=1e-9, atol=1e-15)


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=2, max_size=9).filter(
        lambda x: len(set(x)) > 1
    )
)
def test_median_distance_by_levels(values):
    levels = np.array([-1.0, 0.0, 0.5, 2.0])
    counts = np.array([np.count_nonzero(values == level) for level in levels], dtype=float)

    found = medians_of_levels(levels[None], counts[None])

    assert_allclose(found, median_square(np.array(values)))


def test_tails_of_all_sizes():
    z, skewness = np.array([0.3, 4.0, 40.0, 1000.0, -9.0]), np.array([0.0, 1.0, 2.0, 2.0, 1.5])

    found = log_tail(z, skewness)

    assert_allclose(found[[0, 1, 4]], pearson3.logsf(z, skewness)[[0, 1, 4]], atol=1e-12)
    assert_allclose(found[2:4], [-41.0, -1001.0])  # exponential


def test_mixtures_of_chi_squares():
    x = np.array([0.05, 1.0, 7.0, 90.0, 700.0])
    rng = np.random.default_rng(0)
    drawn = (rng.standard_normal((400_000, 3)) ** 2) @ [1.0, 0.5, 0.2]

    for n in (1, 2, 7):
        assert_allclose(log_mixture_tail(np.full(n, 2.0), 2 * x), chi2.logsf(x, n), rtol=1e-3)
    for at in (0.3, 1.5, 4.0, 8.0):
        p = (drawn > at).mean()
        found = np.exp(log_mixture_tail(np.array([1.0, 0.5, 0.2]), np.array([at])))[0]
        assert abs(found - p) < 4 * np.sqrt(p / drawn.size)


@pytest.mark.parametrize("kind", ["two classes", "real"])
@pytest.mark.parametrize("carriers", [(1, 0), (2, 0), (1, 1), (2, 1)])
def test_variants_of_few_carriers_are_tested_by_all_of_their_sets(rng, carriers, kind):
    """By every set of carriers there is, one after the other."""
    m = 14
    y = rng.standard_normal(m) if kind == "real" else np.arange(m) % 3 == 0
    criterion = Independence(bandwidth="median", statistic="biased")
    state = criterion.prepare(criterion.read(y))
    L = (state.C.F * state.C.weights @ state.C.F.T).tolist()
    values = []
    for which in permutations(range(m), sum(carriers)):
        x = np.zeros(m)
        x[list(which[: carriers[0]])], x[list(which[carriers[0] :])] = 1, 2
        K = np.exp(-np.square(x[:, None] - x) / (2 * median_square(x)))
        values.append(sum(map(sum, (K * L).tolist())) / (m - 1) ** 2)
    values = np.array(values)

    law = RareLaw.of(state.C, state.null, (0, *carriers), "biased")

    for value in np.quantile(values, [0.1, 0.6, 0.95], method="nearest"):
        expected = np.mean(values >= value - 1e-9)
        found = np.exp(law.log_p(np.array([(value - values.mean()) / values.std()])))[0]
        error = 4 * np.sqrt(expected / DRAWS) if law.is_drawn else 1e-9
        assert abs(found - expected) < error


def testsubsets_are_those_of_numpy():
    for m, k in ((17, 16), (300, 1), (300, 5)):
        expected, drawn = np.random.default_rng(m), np.random.default_rng(m)
        sets = np.stack([expected.choice(m, k, replace=False) for _ in range(20)])

        assert_array_equal(subsets(drawn, m, k, 20), sets)
        assert drawn.integers(1 << 40) == expected.integers(1 << 40)


@pytest.mark.parametrize("m", [7, 130, 9000])
def test_sums_over_codes_are_those_of_indicators(rng, m):
    """Of features without a call missing, with few and with many."""
    raw, Y = rng.integers(0, 3, (90, m)).astype(np.int8), rng.standard_normal((m, 8))
    raw[30:][rng.random((60, m)) < np.repeat([0.005, 0.4], 30)[:, None]] = -1
    raw[-4:] = 2
    raw[-4:, 3] = [0, 1, -1, 2]
    Y[:, -1] = 1.0
    expected = np.stack([(raw == code).astype(float) @ Y for code in (0, 1, 2, -1)])

    found = sums_over_codes(raw, -1, Y)

    assert_allclose(found, expected, rtol=0, atol=5e-6 * m**0.5)
    assert_array_equal(found[..., -1], expected[..., -1])
    if m > 64:  # all but one sample are alike there
        assert_allclose(found[:, -4:], expected[:, -4:], atol=1e-11)
    assert_array_equal(sums_over_codes(raw[:30], None, Y), found[:, :30])
    for some in (slice(0, 1), slice(5, 40), slice(77, 90)):
        assert_array_equal(sums_over_codes(raw[some], -1, Y), found[:, some])


def test_rare_variants_among_others(rng):
    """p-values of variants that few samples carry are those of counting their carriers."""
    X = rng.binomial(2, 0.3, (60, 6)).astype(np.int8)
    X[:, 1:4] = 0
    X[5, 1] = X[:3, 2] = X[:4, 3] = 1
    y = np.arange(60) < 12
    found = dhsic.test_features(X, y)

    expected = [comb(12, k) / comb(60, k) for k in (1, 3, 4)]
    assert_allclose(found.p_values[1:4], expected, rtol=1e-6)
    of_one_width = dhsic.test_features(X, y, bandwidth="median").p_values
    assert_allclose(of_one_width[1:4], [1.0, *expected[1:]], rtol=1e-6)


@pytest.mark.parametrize("statistic", ESTIMATORS)
@pytest.mark.parametrize("target", ["real", "two classes", "three classes"])
def test_all_features_in_one_pass_are_as_some_of_them(genotypes, target, statistic):
    X, y = genotypes
    y = y if target == "real" else np.digitize(y, [0.8] if target == "two classes" else [0.3, 1.2])
    options = {"statistic": statistic}
    with TAKEN():
        found = dhsic.test_features(X, y, **options)
        some = dhsic.test_features(X, y, np.arange(40), **options)

    assert found.together is None
    assert "together" not in str(found)
    assert_alike(found.p_values, some.p_values)
    assert_allclose(found.statistics, some.statistics, rtol=1e-3, atol=1e-6)
    assert_allclose(found.adjusted, false_discovery_control(found.p_values))
    assert found.p_values.argmin() in (3, 7)


def test_floats_and_continuous_features_are_tested_too(genotypes, rng):
    X, y = genotypes
    floats = np.where(X < 0, np.nan, X).astype(np.float32)
    floats[:, 20:] = rng.standard_normal((120, 20))
    floats[:, 5] = 1.0
    with TAKEN():
        coded = dhsic.test_features(X, y)

    found = dhsic.test_features(floats, y)
    some = dhsic.test_features(floats, y, np.arange(40))

    mine = np.delete(np.arange(20), 5)
    assert_allclose(found.p_values[mine], coded.p_values[mine], rtol=1e-3)
    assert_alike(found.p_values, some.p_values)
    assert (found.p_values[5], found.adjusted[5], found.statistics[5]) == (1.0, 1.0, 0.0)
    assert np.isnan(found.sigmas[5])


def test_covariates_are_taken_out(genotypes, rng):
    """As by permutations of the residuals."""
    X, y = genotypes
    C = rng.standard_normal((120, 3))
    C[:, 0] += X[:, 11]
    y = y + 3 * C[:, 0]
    with TAKEN():
        plain_one = dhsic.test_features(X, y)
        found = dhsic.test_features(X, y, covariates=C)
        some = dhsic.test_features(X, y, np.arange(40), covariates=C)

    assert plain_one.p_values[11] < 1e-4
    assert found.p_values[11] > 0.01
    assert_allclose(found.statistics, some.statistics, rtol=1e-3, atol=1e-6)
    assert_alike(found.p_values, some.p_values)


def test_rows_and_labels_of_many_directions(genotypes, rng):
    X, _ = genotypes
    L = rng.standard_normal((120, 120))
    L = L @ L.T
    rows = np.arange(10, 90)
    options = {"label_kernel": "precomputed", "rows": rows}
    with TAKEN():
        found = dhsic.test_features(X, L, **options)
        some = dhsic.test_features(X, L, np.arange(40), n_permutations=300, **options)

    assert_alike(found.p_values, some.p_values, n=300)


def test_the_p_of_a_label_that_is_permuted_is_uniform(rng):
    X = rng.binomial(2, 0.3, (200, 4000)).astype(np.int8)

    p = dhsic.test_features(X, rng.standard_normal(200)).p_values

    for level in (0.5, 0.1, 0.01):
        assert abs((p <= level).mean() - level) < 4.5 * np.sqrt(level / 4000)


def test_what_of_the_labels_is_left_and_how_many_samples_there_are(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    with pytest.raises(InputError, match="explain target 0 completely"):
        dhsic.test_features(X, y, covariates=y)
    with pytest.raises(InputError, match="othing"):
        dhsic.test_features(X, y > 0, covariates=(y > 0).astype(float))
    with pytest.raises(InputError, match="at least 4 samples"):
        dhsic.OnePass(1, criterion="hsic").fit(X[:3], y[:3])


def test_q_is_as_benjamini_and_hochberg_say(rng):
    X = rng.standard_normal((40, 12))
    found = dhsic.select(X, X[:, 2] + 0.5 * X[:, 5], method="hsic", n_features_to_select=2)

    p = found["p"].to_numpy()
    rates = [min(1.0, pk * 12 / sum(p <= pk)) for pk in p]
    expected = [min(r for r, pk in zip(rates, p, strict=True) if pk >= pj) for pj in p]

    assert_allclose(found["q"], expected)
    assert_allclose(found["score"], -np.log10(p))
    assert_array_equal(found["rank"].to_numpy().argsort()[:2], p.argsort()[:2])


def test_from_the_command_line(genotypes, tmp_path):
    X, y = genotypes
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("X", data=X, chunks=(120, 8), dimension_names=("samples", "features"))
    group.create_array("trait", data=y, dimension_names=("samples",))
    asked = [str(tmp_path / "g.zarr"), "--target", "trait", "--checkpoint", str(tmp_path / "run")]
    out = tmp_path / "tests.tsv"

    told = CliRunner().invoke(main, ["test", *asked, "--out", str(out), "-n", "3", "--json"])

    assert told.exit_code == 0, told.output
    table = pd.read_csv(out, sep="\t").set_index("index")
    with TAKEN():
        found = dhsic.test_features(X, y)
    assert_allclose(table.loc[np.arange(40), "p"], found.p_values, rtol=1e-12)
    assert_allclose(table.loc[np.arange(40), "q"], found.adjusted, rtol=1e-12)
    selected = json.loads(told.stdout)["selected"]
    assert [row["index"] for row in selected] == table.index[:3].tolist()
    assert_array_equal(table["selected"], table["q"] <= 0.05)
    again = CliRunner().invoke(main, ["resume", asked[-1], "--out", str(tmp_path / "again.tsv")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again.tsv").read_bytes() == out.read_bytes()


def test_tests_are_saved_drawn_and_reported(genotypes, tmp_path):
    X, y = genotypes
    with TAKEN():
        found = dhsic.test_features(X, y)

    dhsic.save(found, tmp_path / "tests.tsv")
    dhsic.report(found, tmp_path / "tests.html")

    table = pd.read_csv(tmp_path / "tests.tsv", sep="\t", index_col="index")
    n = int((found.adjusted <= 0.05).sum())
    assert table["selected"].sum() == found.result_.attrs["n_selected"] == n > 0
    assert f"{n} of 40 features have q &lt;= 0.05" in (tmp_path / "tests.html").read_text()


def test_definitions_agree(rng):
    """HSIC that the criterion tells is that of the definition."""
    X, y = rng.integers(0, 3, (12, 5)).astype(np.int8), rng.standard_normal(12)
    criterion = Independence(bandwidth=0.3)
    state = criterion.prepare(criterion.read(y))
    assert isinstance(state.null, NullOf)
    found = dhsic.select(X, y, method="hsic", bandwidth=0.3, n_features_to_select=1)
    L = label_matrix(y).centred.L.tolist()
    for j in range(5):
        z = (X[:, j] - X[:, j].mean()) / X[:, j].std()
        K = np.exp(-0.3 * np.square(z[:, None] - z)).tolist()
        assert_allclose(found["hsic"][j], naive.hsic(K, L, "unbiased"), rtol=1e-3, atol=1e-6)
