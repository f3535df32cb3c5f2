"""Principal components: those of plain loops, the same everywhere, and what takes them."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import QUICK, SIMULATE, run, selected
from hypothesis import given
from hypothesis import strategies as st
from naive_relatedness import predicted, relationship
from strategies import matrices

import dhsic
from dhsic import relatedness
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.linalg.covariates import covariate_basis
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
        ({"n_components": 7}, "20 samples of 6 features have at most 6"),
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
        dhsic.pca(X, 2, memory=1000)
    np.save(tmp_path / "x.npy", X)
    zarr.save(str(tmp_path / "x.zarr"), X)
    out = ("--out", tmp_path / "pcs.tsv")
    run("pca", tmp_path / "x.zarr", "-n", 2, *out, "--sample-dim", 0)
    assert list(pd.read_csv(tmp_path / "pcs.tsv", sep="\t")) == ["PC1", "PC2"]  # nobody has a name
    assert "exists" in run("pca", tmp_path / "x.zarr", "-n", 2, *out, code=2).output
    assert ".tsv or .csv" in run("pca", tmp_path / "x.zarr", "--out", "a.zarr", code=2).output


def test_residuals_are_of_ridge_regression_on_the_other_samples_and_chromosomes(rng, monkeypatch):
    m = 24
    X = rng.integers(0, 3, (m, 60)).astype(np.int8)
    y = X[:, 3] + rng.standard_normal(m)
    chromosomes = [np.arange(0, 20), np.arange(20, 60)]
    monkeypatch.setattr(relatedness, "PENALTIES", (0.7,))
    with Threads(2) as runtime:
        reader = Reader(open_source(X, sample_dim=0), runtime)
        found = list(
            relatedness.residuals_by_chromosome(
                reader, chromosomes, y[:, None] - y.mean(), covariate_basis(None, m), 2
            )
        )

    for k, (features, residuals) in enumerate(found):
        np.testing.assert_array_equal(features, chromosomes[k])
        K = np.array(relationship(X[:, chromosomes[1 - k]].T.tolist(), 2))
        K -= K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
        expected = y - predicted(K.tolist(), y.tolist(), 0.7 * np.trace(K) / m)
        np.testing.assert_allclose(residuals[:, 0], expected, rtol=1e-8)


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
    with pytest.warns(UserWarning, match="18 features lie on X, Y, MT or no known chromosome"):
        found = tested(["0."[j % 10] if j % 10 < 2 else c for j, c in enumerate(plain)])
    np.testing.assert_allclose(found[placed], tested(plain, placed), rtol=1e-6)
    assert np.isfinite(found).all()
    with pytest.raises(InputError, match=r"on one chromosome \(1\)"):
        tested(["0", "1", "chr1"] * 30)
    with pytest.raises(InputError, match="lie nowhere known"):
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
    assert json.loads(run(*classes, "--json", "--maf", 0.3).stdout)["selected"]
    planned = dhsic.plan(store, labels, loco=True, **asked)
    assert planned.work.n_passes == 3
    one = dhsic.Filters(chromosomes="1")
    with pytest.raises(InputError, match="one chromosome"):
        dhsic.select(store, labels, loco=True, filters=one, **asked)
    with pytest.raises(InputError, match="on which chromosome"):
        dhsic.test_features(np.eye(20), np.arange(20.0), loco=True)
    with pytest.raises(InputError, match="real values"):
        dhsic.select(common, labels, method="t", loco=True)
    with pytest.raises(InputError, match="leave features= out"):
        dhsic.test_features(common, labels, features=[1], loco=True)
