"""Pairs judged again: squares of their features, linkage, relatives, places on the genome."""

import numpy as np
import pytest
import xarray as xr
from commands import SIMULATE, run
from naive_interactions import shares
from scipy.stats import beta

import dhsic
from dhsic.interactions import find_pairs
from dhsic.pairs import rescore
from dhsic.pairs.inflation import Inflation, medians_of

FEW = {"n_pairs": 1000, "n_permutations": 0}


def table(found):
    pairs = zip(found["first"].to_numpy(), found["second"].to_numpy(), strict=True)
    return {(int(j), int(k)): s for (j, k), s in zip(pairs, found["share"].to_numpy(), strict=True)}


def indicators(y):
    return [[float(v == c) for v in y] for c in sorted(set(y))]


@pytest.fixture
def in_linkage(rng):
    """A locus that acts by dominance, what is in linkage with it, and a pair that acts, (8, 20)."""
    m = 400
    X = rng.integers(0, 3, (m, 30)).astype(float)
    for j in range(1, 6):
        X[:, j] = np.where(rng.random(m) < 0.06 * j, X[:, j], X[:, 0])
    y = 3.0 * (X[:, 0] == 1) + (X[:, 8] - 1) * (X[:, 20] - 1) + rng.standard_normal(m)
    return X, y


@pytest.mark.parametrize("kind", ["real", "three"])
def test_dominance_in_linkage_is_no_pair(in_linkage, kind):
    X, y = in_linkage
    labels = y if kind == "real" else np.digitize(y, [0, 3])
    Y = [y.tolist()] if kind == "real" else indicators(labels.tolist())

    found = find_pairs(X, labels, n_pairs=20)

    before = shares(X[:, :6].T.tolist(), Y, squares=False)
    assert max(before.values()) > found["share_before"].values[0]
    assert found.attrs["n_certain"] == 20
    assert (found["first"].values[0], found["second"].values[0]) == (8, 20)
    assert found["family_wise"].values[0] < 1e-3
    is_of_locus = found["first"].values < 6
    assert found["family_wise"].values[is_of_locus].min(initial=1) > 0.05
    assert np.all(found["share"] <= found["share_before"])


def test_features_of_two_values_have_no_square(rng):
    X = rng.integers(0, 2, (80, 12)).astype(float)
    y = X[:, 2] * X[:, 5] + rng.standard_normal(80)

    found = find_pairs(X, y, **FEW)

    np.testing.assert_allclose(found["share"], found["share_before"], rtol=1e-9, atol=1e-12)


def test_pairs_that_a_scan_did_not_keep_are_told_of(in_linkage, monkeypatch):
    X, y = in_linkage
    monkeypatch.setattr(rescore, "LEAST_KEPT", 12)
    monkeypatch.setattr(rescore, "KEPT_EACH", 1)

    found = find_pairs(X, y, n_pairs=12, n_permutations=0)
    whole = find_pairs(X, y, **FEW)

    n = found.attrs["n_certain"]
    assert 0 < n < 12
    least = found["share_before"].values.min()
    np.testing.assert_array_equal(found["share"] >= least, np.arange(12) < n)
    np.testing.assert_array_equal(found["share"][:n], whole["share"][:n])
    assert list(table(found))[:n] == list(table(whole))[:n]
    assert whole.attrs["n_certain"] == whole["share"].size


@pytest.mark.slow
def test_linkage_is_that_of_features_as_they_are(in_linkage):
    X, y = in_linkage
    X[:, 6] = np.where(np.arange(400) < 4, X[:, 6], X[:, 0])  # r2 of 0.98
    r2 = np.corrcoef(X.T) ** 2

    found = find_pairs(X, y, selection=[0, 1, 2], covariates=X[:, [9]], **FEW)

    pairs = list(table(found))
    np.testing.assert_allclose(found["linkage"], [r2[pair] for pair in pairs], atol=1e-12)
    assert (0, 6) not in pairs
    assert (1, 2) in pairs  # what is left of them is nothing, and they are not alike
    C = X[:, [0, 1, 2, 9]].T.tolist()
    expected = shares(X.T.tolist(), [y.tolist()], C)
    assert table(found) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def of_families(rng, n=60, size=4, d=120):
    """Genotypes of families, and an additive trait of many variants."""
    parents = rng.integers(0, 2, (n, 2, 2, d))
    at = np.arange(d)
    pick = rng.integers(0, 2, (n, size, 2, d))
    X = sum(parents[:, None, p, :, :].repeat(size, 1)[np.arange(n)[:, None, None],
            np.arange(size)[None, :, None], pick[:, :, p], at] for p in (0, 1))  # fmt: skip
    X = X.reshape(n * size, d).astype(float)
    g = X @ rng.standard_normal(d)
    return X, g / g.std() + 0.2 * rng.standard_normal(len(X))


@pytest.mark.filterwarnings("ignore:Shares of all pairs")
def test_inflation_among_relatives_is_told_and_corrected(rng):
    X, y = of_families(rng)
    few = {"n_pairs": 30, "n_permutations": 40}

    found = find_pairs(X, y, **few)
    none = find_pairs(X, rng.permutation(y), **few)

    about = found.attrs
    assert about["inflation"] > 1.2
    assert about["inflation_p_value"] == pytest.approx(1 / 41)
    assert about["corrected_by"] == about["inflation"]
    share = -np.expm1(np.log1p(-found["share"].values) / about["inflation"])
    t, n = about["label_columns"], about["degrees_of_freedom"]
    np.testing.assert_allclose(found["p_value"], beta.sf(share, t / 2, n / 2), rtol=1e-6)
    is_beyond = found["share"] >= about["threshold"]
    np.testing.assert_array_equal(is_beyond, found["family_wise"] <= about["alpha"])
    assert none.attrs["inflation"] < about["inflation"]
    with pytest.warns(UserWarning, match=r"times as large as with permuted labels.*selection="):
        find_pairs(X, y, **few)


def test_inflation_is_none_where_there_is_nothing(rng):
    assert Inflation.of(np.empty(0)) is None
    times = [Inflation.of(rng.chisquare(1, (100, 2000)).mean(axis=1)) for _ in range(100)]

    assert sum(each.is_real for each in times) <= 15
    assert all(each.corrected == 1 for each in times if not each.is_real)
    assert Inflation(1.5, 0.01).corrected == 1.5
    assert Inflation(0.7, 0.01).corrected == 1
    few = np.ones((3, 10))
    assert medians_of(few).size == 0


def test_variants_have_their_places(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, *SIMULATE, "--trait", "quantitative")

    found = find_pairs(str(store), "sample_trait", n_pairs=40, n_permutations=0)

    source = dhsic.open_source(str(store))
    contigs, positions = (source.feature_coords()[f"variant_{n}"] for n in ("contig", "position"))
    for end in ("first", "second"):
        at = found[end].values
        np.testing.assert_array_equal(found[f"{end}_contig"], contigs[at])
        np.testing.assert_array_equal(found[f"{end}_position"], positions[at])
    same = found["first_contig"].values == found["second_contig"].values
    gaps = np.abs(found["first_position"].values - found["second_position"].values)
    np.testing.assert_array_equal(found["distance"], np.where(same, gaps, -1))


def test_a_chromosome_is_one_however_it_is_spelled(rng):
    contigs = ["1", "chr1", "2", "0", "chr0"]
    X = xr.Dataset(
        {
            "call_dosage": (("variants", "samples"), rng.standard_normal((5, 60))),
            "variant_position": ("variants", np.arange(5) * 100),
            "variant_contig": ("variants", np.arange(5)),
            "contig_id": ("contigs", contigs),
        }
    )
    asked = {"n_pairs": 10, "n_permutations": 0, "variable": "call_dosage"}
    found = find_pairs(X, rng.standard_normal(60), **asked)
    pairs = zip(found["first"].values, found["second"].values, strict=True)
    distance = dict(zip(pairs, found["distance"].values, strict=True))
    assert distance.pop((0, 1)) == 100
    assert {*distance.values()} == {-1}
