"""Principal components: those of plain loops, the same everywhere, and what takes them."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import simulated_samples
import xarray as xr
import zarr
from commands import QUICK, SIMULATE, run, selected
from hypothesis import given
from hypothesis import strategies as st
from naive_relatedness import predicted, relationship
from strategies import matrices

import dhsic
from dhsic import relatedness
from dhsic.criteria.label_covariance import exchangeable, exchangeable_sums
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.linalg.covariates import covariate_basis
from dhsic.passes import Tile
from dhsic.passes.effects import ResidualEffects
from dhsic.passes.reader import Reader
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.sources.opening import open_source
from dhsic.sources.views import SubsetSource


def check(found, A):
    """Eigenvalues and vectors are those of A, and so is what else is told."""
    values = np.linalg.eigvalsh(A)[::-1][: found.shape[1]]
    np.testing.assert_allclose(found["eigenvalue"], values, rtol=1e-9)
    np.testing.assert_allclose(found["share"], values / np.trace(A), rtol=1e-9)
    V = found.to_numpy()
    np.testing.assert_allclose(A @ V, V * values, atol=1e-7 * values[0])
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-9)
    assert (V.max(axis=0) >= -V.min(axis=0)).all()


@pytest.fixture
def genotypes(rng):
    """Two populations: codes for missing calls, a variant without any other allele."""
    m, d = 40, 150
    p = rng.uniform(0.1, 0.9, (2, d))
    X = rng.binomial(2, np.repeat(p, m // 2, axis=0)).astype(np.int8)
    X[rng.random(X.shape) < 0.05] = -1
    X[:, 3] = np.where(X[:, 3] < 0, -1, 2)
    return X


@pytest.mark.filterwarnings("ignore:X holds")
def test_genotypes_are_scaled_as_by_plink(genotypes):
    known = np.where(genotypes < 0, np.nan, genotypes)
    A = np.array(relationship(known.T.tolist(), 2))

    found = dhsic.pca(genotypes, 4)

    check(found, A)
    assert found.attrs["n_constant"] == 1
    check(dhsic.pca(genotypes, 4, passes=12), A)
    check(dhsic.pca(known, 4), A)  # dosages by what they are, whatever holds them


@given(X=matrices(samples=(6, 12), features=(4, 9), missing=True), n=st.integers(1, 2))
def test_any_data_are_as_plain_loops(X, n):
    X[0, 0] = 2.5  # no dosage
    A = np.array(relationship(X.T.tolist()))

    check(dhsic.pca(X, n, missing_code=None), A)
    check(dhsic.pca(X, n, missing_code=None, passes=4), A)


def test_randomised_eigenvalues_are_below_and_within_their_errors(rng):
    X = rng.standard_normal((300, 500))
    X[:, :200] += np.outer(rng.standard_normal(300), np.ones(200))
    exact = dhsic.pca(X, 6)["eigenvalue"]

    errors = []
    for passes in (1, 2, 4, 8):
        found = dhsic.pca(X, 6, passes=passes)
        ratio = (found["eigenvalue"] / exact).to_numpy()
        assert (ratio < 1 + 1e-9).all()
        assert (ratio * (1 + found["error"]) > 1).all()
        errors.append(1 - ratio)

    assert (np.diff(errors, axis=0) <= 1e-9).all()
    assert errors[1][0] < 1e-3  # the one that there is
    assert errors[3].max() < 1e-3


@pytest.mark.parametrize("passes", [None, 2])
def test_same_bits_on_threads_stores_and_a_cluster(rng, tmp_path, client, passes):
    X = rng.standard_normal((60, 900))
    store = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(60, 70), dtype="float64")
    store[:] = X
    expected = dhsic.pca(str(tmp_path / "x.zarr"), 5, sample_dim=0, passes=passes)

    for runtime in (Threads(1), Threads(3), DaskRuntime(client)):
        found = dhsic.pca(str(tmp_path / "x.zarr"), 5, sample_dim=0, passes=passes, runtime=runtime)
        assert found.identical(expected)
    np.testing.assert_allclose(dhsic.pca(X, 5, passes=passes), expected, atol=1e-9)


def test_passes_over_more_samples_are_two_unless_said(rng, monkeypatch):
    X = rng.standard_normal((30, 40))
    monkeypatch.setattr(relatedness, "MOST_EXACT", 20)

    assert dhsic.pca(X, 2).attrs["passes"] == 2
    assert dhsic.pca(X, 2, passes=3).attrs["is_exact"] == 0
    assert dhsic.pca(X[:20], 2).attrs["is_exact"] == 1


def test_components_are_covariates(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, *SIMULATE)
    keep = tmp_path / "keep.txt"
    keep.write_text("\n".join(open_source(store).sample_names()[5:]))
    filters = dhsic.Filters(keep=str(keep), chromosomes="1-3")

    found = dhsic.pca(store, 3, filters=filters)
    listed = json.loads(
        run(
            *("pca", store, "-n", 3, "--keep", keep, "--chr", "1-3"),
            *("--out", tmp_path / "pcs.tsv", "--json"),
        ).stdout
    )

    table = pd.read_csv(tmp_path / "pcs.tsv", sep="\t")
    assert list(table) == ["#IID", "PC1", "PC2", "PC3"]
    np.testing.assert_allclose(table.iloc[:, 1:], found)
    eigenvalues = pd.read_csv(tmp_path / "pcs.eigenvalues.tsv", sep="\t")
    pd.testing.assert_frame_equal(eigenvalues, pd.DataFrame(listed["components"]), rtol=1e-13)
    np.testing.assert_allclose(eigenvalues["eigenvalue"], found["eigenvalue"])
    few = ("--keep", keep, "--covariates", tmp_path / "pcs.tsv", "--method", "linear")
    there = selected(store, *QUICK, *few)
    here = dhsic.select(
        store,
        "sample_trait",
        method="linear",
        n_features_to_select=8,
        covariates=found,
        filters=dhsic.Filters(keep=str(keep)),
    )
    assert [each["index"] for each in there["selected"]] == list(
        dhsic.selected_features(here)["features"].to_numpy()
    )


def test_what_cannot_be_is_said(rng, tmp_path):
    X = rng.standard_normal((20, 6))
    for asked, sentence in (
        ({"n_components": 7}, "20 samples with 6 features have at most 6"),
        ({"n_components": 0}, "whole numbers from 1"),
        ({"passes": 0}, "whole numbers from 1"),
        ({"missing": "no"}, "missing='no' is unknown"),
    ):
        with pytest.raises(InputError, match=sentence):
            dhsic.pca(X, **{"n_components": 2} | asked)
    X[:, 3:] = X[:, :3]
    for passes in (None, 2):
        with pytest.raises(InputError, match="the data have 3"):
            dhsic.pca(X, 4, passes=passes)
    with pytest.raises(InputError, match="constant"):
        dhsic.pca(np.ones((20, 6)), 2)
    with pytest.raises(MemoryBudgetError):
        dhsic.pca(X, 2, memory_limit=1000)
    np.save(tmp_path / "x.npy", X)
    zarr.save(str(tmp_path / "x.zarr"), X)
    out = ("--out", tmp_path / "pcs.tsv")
    run("pca", tmp_path / "x.zarr", "-n", 2, *out, "--sample-dim", 0)
    assert list(pd.read_csv(tmp_path / "pcs.tsv", sep="\t")) == ["PC1", "PC2"]  # nobody has a name
    assert "exists" in run("pca", tmp_path / "x.zarr", "-n", 2, *out, code=2).output
    assert ".tsv or .csv" in run("pca", tmp_path / "x.zarr", "--out", "a.zarr", code=2).output


def centred_relationship(X):
    """Relationship of samples by genotypes X (m, d), with rows and columns of mean 0."""
    K = np.array(relationship(X.T.tolist(), 2))
    K -= K.mean(axis=0)
    return K - K.mean(axis=1)[:, None]


def residuals_of(X, chromosomes, targets, Q=None):
    """Features of each chromosome, with residuals of the targets, of genotypes X (m, d)."""
    Q = covariate_basis(None, len(X)) if Q is None else Q
    with Threads(2) as runtime:
        reader = Reader(open_source(X, sample_dim=0), runtime)
        return list(relatedness.residuals_by_chromosome(reader, chromosomes, targets, Q, 2))


def test_residuals_are_of_ridge_regression_on_the_other_samples_and_chromosomes(rng, monkeypatch):
    m, penalty = 24, 0.7
    X = rng.integers(0, 3, (m, 60)).astype(np.int8)
    y = X[:, 3] + rng.standard_normal(m)
    chromosomes = [np.arange(0, 20), np.arange(20, 60)]
    monkeypatch.setattr(relatedness, "_best_penalties", lambda *_: [penalty])

    found = residuals_of(X, chromosomes, [y[:, None]])

    for k, (features, (residuals,)) in enumerate(found):
        np.testing.assert_array_equal(features, chromosomes[k])
        K = centred_relationship(X[:, chromosomes[1 - k]])
        lam = penalty * np.trace(K) / m
        expected = y - predicted(K.tolist(), y.tolist(), lam)
        np.testing.assert_allclose(residuals.values[:, 0], expected, rtol=1e-8)

        # Residuals are a linear map M of y, so that V = K + lam I becomes M V M'.
        M = np.column_stack([e - predicted(K.tolist(), e.tolist(), lam) for e in np.eye(m)])
        x = X[:, features].T - X[:, features].mean(axis=0)[:, None]
        S = M @ (K + lam * np.eye(m)) @ M.T
        sizes, squares, slopes = residuals.covariance.forms(x.astype(float))
        np.testing.assert_allclose(sizes, np.vecdot(x, x), rtol=1e-6)
        np.testing.assert_allclose(slopes, np.vecdot(x @ M, x), rtol=1e-4)
        centre = np.eye(m) - 1 / m
        mean = np.trace(centre @ S @ centre) / (m - 1)  # S is known up to a factor
        np.testing.assert_allclose(
            squares / residuals.covariance.mean, np.vecdot(x @ S, x) / mean, rtol=1e-4
        )


def test_penalty_of_each_target_is_that_of_largest_restricted_likelihood(rng):
    m, penalties = 60, 10.0 ** np.linspace(-3, 3, 121)
    X = rng.integers(0, 3, (m, 40))
    Q = covariate_basis(rng.standard_normal((m, 2)), m)
    K = centred_relationship(X)
    K -= Q @ (Q.T @ K)
    K -= (K @ Q) @ Q.T
    targets = [X[:, :30] @ rng.standard_normal((30, 1)), rng.standard_normal((m, 2))]
    targets = [Y - Q @ (Q.T @ Y) for Y in targets]

    found = relatedness._best_penalties(K, targets, Q.shape[1])

    def likelihood(penalty, Y):
        V = K * m / np.trace(K) + penalty * np.eye(m)
        both = np.linalg.slogdet(V)[1] + np.linalg.slogdet(Q.T @ np.linalg.inv(V) @ Q)[1]
        squares = np.vecdot(Y.T @ (np.linalg.inv(V) - Q @ Q.T / penalty), Y.T)
        return -((m - Q.shape[1]) * np.log(squares) + both).sum()

    for penalty, Y in zip(found, targets, strict=True):
        best = max(penalties, key=lambda p, Y=Y: likelihood(p, Y))
        assert np.log10(penalty) == pytest.approx(np.log10(best), abs=0.06)
    assert found[0] < 1 < found[1]


@pytest.fixture
def families(monkeypatch):
    """Genotypes (m, d) of families of two populations, as a data set too, and chromosomes."""
    for name, value in (("SAMPLES", 240), ("CHROMOSOMES", 4), ("VARIANTS", 120)):
        monkeypatch.setattr(simulated_samples, name, value)
    X, chromosome = simulated_samples.families(np.random.default_rng(3))
    return X, on_chromosomes(X.T, chromosome), chromosome


def on_chromosomes(values, chromosome):
    """Data set of features (d, m) on numbered chromosomes (d,)."""
    names, index = np.unique(chromosome.astype(str), return_inverse=True)
    return xr.Dataset(
        {
            "call_dosage": (("variants", "samples"), values),
            "variant_position": ("variants", np.arange(len(values))),
            "variant_contig": ("variants", index),
            "contig_id": ("contigs", names),
        }
    )


def polygenic(rng, X, chromosome):
    """Trait of the variants on odd chromosomes, a heritability of 0.8."""
    odd = X[:, chromosome % 2 == 1] @ rng.standard_normal((chromosome % 2).sum())
    return odd / odd.std() + 0.5 * rng.standard_normal(len(X))


def test_level_is_right_among_relatives(families):
    X, data, chromosome = families
    is_null, p = chromosome % 2 == 0, {"real": [], "classes": [], "one width": []}
    for seed in range(6):
        y = polygenic(np.random.default_rng(seed), X, chromosome)
        widths = {"bandwidth": 0.5, "label_kernel": "linear"}
        for name, labels, options in (
            ("real", y, {}),
            ("classes", y > np.median(y), {}),
            ("one width", y, widths),
        ):
            tested = dhsic.test_features(data, labels, loco=True, **options)
            p[name].append(tested.p_values[is_null])

    for values in p.values():
        null = np.concatenate(values)
        assert np.mean(null <= 0.5) == pytest.approx(0.5, abs=0.05)
        assert np.mean(null <= 0.1) == pytest.approx(0.1, abs=0.025)
        assert np.mean(null <= 0.01) == pytest.approx(0.01, abs=0.006)


def test_calibrated_tests_are_the_same_everywhere(families, client, rng):
    X, data, chromosome = families
    y = polygenic(rng, X, chromosome)
    both = pd.DataFrame({"real": y, "class": np.where(X[:, 5] > 0, "yes", "no")})
    covariates = rng.standard_normal((len(X), 2))

    for labels in (y, both):
        asked = {"loco": True, "covariates": covariates, "by_position": True}
        expected = dhsic.test_features(data, labels, runtime=Threads(1), **asked).p_values
        for runtime in (Threads(3), DaskRuntime(client)):
            found = dhsic.test_features(data, labels, runtime=runtime, **asked).p_values
            np.testing.assert_array_equal(found, expected)
        values = data.assign(call_dosage=data["call_dosage"].astype(float))
        found = dhsic.test_features(values, labels, **asked).p_values
        np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_missing_genotypes_in_float_are_corrected_like_codes(families, rng):
    X, data, chromosome = families
    y = polygenic(rng, X, chromosome)
    lost = rng.random(data["call_dosage"].shape) < 0.1
    codes = data.assign(call_dosage=data["call_dosage"].where(~lost, -1).astype(np.int8))
    values = data.assign(call_dosage=data["call_dosage"].astype(float).where(~lost))
    expected = dhsic.test_features(codes, y, loco=True, missing_code=-1).p_values
    found = dhsic.test_features(values, y, loco=True).p_values
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("statistic", ["unbiased", "biased"])
def test_features_of_many_values_are_calibrated_as_those_of_few(families, rng, statistic):
    X, data, chromosome = families
    y = polygenic(rng, X, chromosome)
    shifted = data["call_dosage"] + 1e-6 * rng.standard_normal(data["call_dosage"].shape)
    asked = {"loco": True, "bandwidth": 1e-3, "label_kernel": "linear", "statistic": statistic}

    few = dhsic.test_features(data, y, **asked)
    many = dhsic.test_features(data.assign(call_dosage=shifted), y, **asked)

    largest = np.abs(few.statistics).max()
    np.testing.assert_allclose(many.statistics, few.statistics, atol=1e-3 * largest)
    if statistic == "biased":  # moments of the unbiased one lose digits at so wide a kernel
        np.testing.assert_allclose(many.p_values, few.p_values, rtol=0.02)


def test_products_are_divided_by_roots_of_their_variance_ratios(rng):
    m = 50
    x = rng.permutation(np.repeat([0.0, 1.0, 2.0], [20, 18, 12]))
    B = rng.standard_normal((m, 3))
    B -= B.mean(axis=0)
    ratios = rng.uniform(0.5, 1.0, (2, 3))
    centred = x - x.mean()

    scaled = exchangeable(B, x, covariate_basis(None, m), ratios[0])
    at = x[:, None] == np.arange(3)
    U = exchangeable_sums(
        (at.T.astype(float) @ B)[None],
        at.sum(axis=0)[None].astype(float),
        np.arange(3.0)[None],
        ratios[None],
    )[0]

    np.testing.assert_allclose(centred @ scaled, centred @ B / np.sqrt(ratios[0]))
    np.testing.assert_allclose(np.arange(3) @ U, centred @ B / np.sqrt(ratios[0]))
    dominance = np.square(centred) - np.square(centred).mean()
    dominance -= centred * (dominance @ centred) / (centred @ centred)
    of_levels = [dominance[x == level][0] for level in range(3)]
    np.testing.assert_allclose(of_levels @ U, dominance @ B / np.sqrt(ratios[1]))


def test_effects_are_those_of_a_mixed_model(families, rng):
    X, _, chromosome = families
    y = polygenic(rng, X, chromosome)
    on = [np.flatnonzero(chromosome == c) for c in np.unique(chromosome)]
    found = residuals_of(X, on, [y[:, None]])
    features, (residuals,) = found[0]

    effects = ResidualEffects(residuals.values[:, 0], residuals.covariance)
    n, beta, error, p, _ = effects.of_tile(Tile(X[:, features].T, None)).T

    m = len(y)
    K = centred_relationship(X[:, np.setdiff1d(np.arange(X.shape[1]), features)])
    (penalty,) = relatedness._best_penalties(centred_relationship(X), [y[:, None] - y.mean()], 1)
    V = K + penalty * np.trace(K) / m * np.eye(m)
    inverse, expected = np.linalg.inv(V), []
    for j in range(0, features.size, 7):
        D = np.column_stack([np.ones(m), X[:, features[j]]])
        covariance = np.linalg.inv(D.T @ inverse @ D)
        b = covariance @ D.T @ inverse @ y
        left = y - D @ b
        se = np.sqrt(covariance[1, 1] * (left @ inverse @ left) / (m - 2))
        expected.append([b[1], se])
    slopes, errors = np.array(expected).T
    # Residuals of samples with many relatives weigh a little more or less than in the mixed model.
    assert np.corrcoef(beta[::7], slopes)[0, 1] > 0.98
    assert (np.abs(beta[::7] - slopes) < 0.5 * errors).all()
    np.testing.assert_allclose(error[::7], errors, rtol=0.2)
    assert (n == m).all()
    np.testing.assert_allclose(p, 2 * scipy.stats.t.sf(np.abs(beta / error), m - 2))


def test_chromosomes_are_one_however_spelled_and_variants_of_none_predict_nothing(rng, tmp_path):
    m, d = 60, 90
    X = rng.integers(0, 3, (m, d)).astype(np.int8)
    y = X[:, :40].sum(axis=1) + rng.standard_normal(m)
    asked = {"method": "hsic", "label_kernel": "linear", "bandwidth": 3.0, "loco": True}

    def tested(contigs, features=None):
        on = np.arange(d) if features is None else features
        names, index = np.unique(np.array(contigs)[on], return_inverse=True)
        data = xr.Dataset(
            {
                "call_dosage": (("variants", "samples"), X[:, on].T),
                "variant_position": ("variants", on),
                "variant_contig": ("variants", index),
                "contig_id": ("contigs", names),
            }
        )
        return dhsic.select(data, y, variable="call_dosage", **asked)["p"].to_numpy()

    plain = [str(1 + j // 30) for j in range(d)]
    spelled = [f"chr0{c}" if j % 2 else c for j, c in enumerate(plain)]
    np.testing.assert_array_equal(tested(spelled), tested(plain))
    placed = np.flatnonzero(np.arange(d) % 10 > 1)
    with pytest.warns(UserWarning, match="18 features are on X, Y, MT or an unknown chromosome"):
        found = tested(["0."[j % 10] if j % 10 < 2 else c for j, c in enumerate(plain)])
    np.testing.assert_allclose(found[placed], tested(plain, placed), rtol=1e-6)
    assert np.isfinite(found).all()
    with pytest.raises(InputError, match=r"on one chromosome \(1\)"):
        tested(["0", "1", "chr1"] * 30)
    with pytest.raises(InputError, match="on unknown chromosomes"):
        tested(["0", ".", ""] * 30)


def test_chromosome_is_left_out(tmp_path, client):
    store = tmp_path / "g.vcz"
    run("simulate", store, "--samples", 100, "--variants", 800, "--populations", 2)
    group = zarr.open_group(store)
    population = group["sample_population"][:]
    labels = population + 0.5 * np.random.default_rng(0).standard_normal(100)
    asked = {"method": "hsic", "label_kernel": "linear", "n_features_to_select": 5}
    frequency = dhsic.select(store, labels, method="linear")["allele_frequency"]
    is_common = abs(frequency.to_numpy() - 0.5) < 0.25  # rare ones have laws that are drawn
    common = SubsetSource(open_source(store), np.flatnonzero(is_common))

    plain = dhsic.select(common, labels, **asked)
    found = dhsic.select(common, labels, loco=True, **asked)
    widths = {"label_kernel": "linear"}
    tested = dhsic.test_features(common, labels, loco=True, **widths)
    there = dhsic.select(common, labels, loco=True, runtime=DaskRuntime(client), **asked)

    assert np.nanmedian(plain["p"]) < 0.3 < np.nanmedian(found["p"])
    assert np.nanmin(plain["p"]) < 1e-4 < np.nanmin(found["p"])
    np.testing.assert_array_equal(found["p"], there["p"])
    np.testing.assert_allclose(tested.p_values, found["p"].fillna(1), rtol=1e-9)
    classes = ("test", store, "--target", "sample_population", "--loco", "--label-kernel", "linear")
    table = "--effects", tmp_path / "e.tsv"
    said = run(*classes, "--json", "--maf", 0.3, *table)
    assert json.loads(said.stdout)["selected"]
    assert "by a mixed model" in said.stderr
    effects = pd.read_csv(tmp_path / "e.tsv", sep="\t")
    assert "ODDS_RATIO" not in effects
    apart = np.abs(np.log10(effects["P"]) - np.log10(effects["P_HSIC"]))
    assert apart.median() < 0.3
    planned = dhsic.plan(store, labels, loco=True, **asked)
    assert planned.work.n_passes == 3
    one = dhsic.Filters(chromosomes="1")
    with pytest.raises(InputError, match="one chromosome"):
        dhsic.select(store, labels, loco=True, filters=one, **asked)
    with pytest.raises(InputError, match="needs the chromosome of each feature"):
        dhsic.test_features(np.eye(20), np.arange(20.0), loco=True)
    with pytest.raises(InputError, match="real values"):
        dhsic.select(common, labels, method="t", loco=True)
    with pytest.raises(InputError, match="leave features= out"):
        dhsic.test_features(common, labels, features=[1], loco=True)
