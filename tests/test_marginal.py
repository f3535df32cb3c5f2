"""Marginal interactions: moments as plain loops give them, level, hubs, and the screen of pairs."""

import json

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run
from naive_marginal import kernel, moments, of_signs

import dhsic
from dhsic.errors import CheckpointError, InputError, MemoryBudgetError
from dhsic.linalg.covariates import covariate_basis
from dhsic.pairs import marginal_test
from dhsic.pairs.marginal import MarginalScan, PartnerKernel
from dhsic.passes import Tile
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads


@pytest.fixture(autouse=True)
def few_permutations(monkeypatch):
    monkeypatch.setattr(marginal_test, "PERMUTATIONS", 40)


def hub(rng, m=250, d=60, n=20):
    """Normal features and labels; feature 3 acts together with n others."""
    X = rng.standard_normal((m, d))
    y = X[:, 3] * X[:, 10 : 10 + n].sum(axis=1) / np.sqrt(n) + rng.standard_normal(m)
    return X, y


@pytest.mark.parametrize("t", [1, 2])
@pytest.mark.parametrize("q", [1, 3])
def test_moments_are_those_of_plain_loops(rng, t, q):
    m, is_partner = 90, np.array([True, True, False, True, True, False])
    X = rng.standard_normal((m, 6))
    X[:, 3:5] = rng.integers(0, 3, (m, 2))
    X[:, 5] = rng.integers(0, 2, m)
    Q = covariate_basis(rng.standard_normal((m, q - 1)) if q > 1 else None, m)
    R = np.eye(m) - Q @ Q.T
    residuals = R @ rng.standard_normal((m, t))
    P = R @ np.diag(rng.uniform(0.5, 1.5, m)) @ R
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    partners = R @ Z[:, is_partner]
    K = partners @ partners.T / 4
    np.fill_diagonal(K, 0.0)
    a_pass = MarginalScan(PartnerKernel.of(K, P, Q, 4), residuals.astype(np.float32))
    raw = np.ascontiguousarray(X.T)
    scaling, _ = Tile(raw, None).measured(standardize=True)

    found = a_pass.over(iter([Tile(raw, None, scaling, is_partner.astype(int))]), m)

    columns = [list(map(float, c)) for c in X.T]
    fixed, rows = [list(q) for q in Q.T], [list(r) for r in residuals.T]
    expected = moments(columns, fixed, rows, P.tolist(), is_partner.tolist())
    np.testing.assert_allclose(found[:, :2], expected, rtol=2e-4, atol=2e-3)


def test_moments_over_all_signs_are_in_closed_form(rng):
    m = 9
    x = rng.standard_normal((7, m))
    K, w = np.array(kernel(x.tolist())), rng.standard_normal(m)

    second, third = of_signs(K.tolist(), w.tolist())

    M = K * np.outer(w, w)
    assert second == pytest.approx(2 * (M**2).sum())
    assert third == pytest.approx(8 * np.trace(M @ M @ M))


def test_a_hub_is_found_and_its_share_is_estimated(rng):
    X, y = hub(rng, m=600)

    found = dhsic.marginal_interactions(X, y)

    assert found["feature"][0] == 3
    assert found["q_value"][0] < 0.01
    assert found["share"][0] == pytest.approx(0.5, abs=0.25)
    assert found.attrs["n_tested"] == 60
    assert 0 < found.attrs["detectable_share"] < 0.3


def test_classes_and_covariates(rng):
    X, y = hub(rng, m=400)
    age = rng.standard_normal(400)
    X[:, 5] += age
    three = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]

    for labels in (three, np.where(y > 0, "case", "control")):
        found = dhsic.marginal_interactions(X, labels, covariates=age)
        assert found["feature"][0] == 3
        assert found["p_value"][0] < 1e-3


@pytest.mark.parametrize("sibs", [1, 4])
def test_p_values_are_uniform_without_interactions(rng, sibs):
    m, d, draws = 200, 700, 4
    p = []
    for seed in range(draws):
        parents = rng.binomial(1, rng.uniform(0.1, 0.5, d), (m // sibs, 2, 2, d))
        family = np.arange(m) // sibs
        parts = [
            np.where(rng.random((m, d)) < 0.5, parents[family, i, 0], parents[family, i, 1])
            for i in (0, 1)
        ]
        X = sum(parts)
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        polygenic = Z @ rng.standard_normal(d) / np.sqrt(d)
        y = polygenic + rng.standard_normal(m) + Z[:, 0]
        p.append(dhsic.marginal_interactions(X, y, random_state=seed)["p_value"].to_numpy())

    p = np.concatenate(p)
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.015)
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.05)


def test_rare_constant_and_explained_features_are_not_tested(rng):
    X, y = hub(rng)
    X[:, 0], X[:, 1] = 1.0, np.arange(250) < 4
    X[::9, 2] = np.nan

    found = dhsic.marginal_interactions(X, y, covariates=X[:, 4])

    assert set(found["feature"].to_numpy()) == set(range(60)) - {0, 1, 4}


def test_only_some_features_and_partners(rng):
    X, y = hub(rng)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(60)])

    found = dhsic.marginal_interactions(
        frame, y, first=["g3", "g4"], second=[f"g{j}" for j in range(10, 30)]
    )
    elsewhere = dhsic.marginal_interactions(frame, y, first=["g3"], second=["g1", "g2", "g40"])

    assert found["name"].to_numpy().tolist() == ["g3", "g4"]
    assert found.attrs["n_partners"] == 20
    assert found["p_value"][0] < 1e-3 < elsewhere["p_value"][0]


def test_same_bits_on_threads_stores_and_a_cluster(rng, tmp_path, client, monkeypatch):
    X, y = hub(rng, d=100)
    stored = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(250, 9))
    expected = dhsic.marginal_interactions(stored, y, runtime=Threads(1))

    for runtime in (Threads(3), DaskRuntime(client)):
        assert dhsic.marginal_interactions(stored, y, runtime=runtime).equals(expected)


def test_a_test_that_is_stopped_goes_on_to_the_same_bits(rng, tmp_path, monkeypatch):
    X, y = hub(rng, d=400)
    monkeypatch.setattr(marginal_test, "SAVED", 1)
    expected = dhsic.marginal_interactions(X, y)
    put, n_saved = marginal_test.SavedResults.put, []

    def put_two(kept, name, **arrays):
        put(kept, name, **arrays)
        n_saved.append(name)
        if len(n_saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(marginal_test.SavedResults, "put", put_two)
    with pytest.raises(KeyboardInterrupt):
        dhsic.marginal_interactions(X, y, checkpoint=tmp_path / "run")
    continued = dhsic.marginal_interactions(X, y, checkpoint=tmp_path / "run")

    assert n_saved[:3] == ["null", "tiles/000000", "tiles/000001"]
    assert continued.equals(expected)
    with pytest.raises(CheckpointError):
        dhsic.marginal_interactions(X, -(y**2), checkpoint=tmp_path / "run")


def test_a_screen_scans_pairs_of_the_best_features(rng):
    X, y = hub(rng, n=4, m=500)

    whole = dhsic.find_pairs(X, y, n_pairs=4)
    some = dhsic.find_pairs(X, y, n_pairs=4, screen=2)

    assert some.attrs["n_pairs"] == 59 + 58
    assert some.attrs["n_features_screened"] == 2
    assert some.attrs["n_pairs_screened"] == 60 * 59 // 2
    assert set(some["second"].to_numpy()) == set(whole["second"].to_numpy()) == {10, 11, 12, 13}
    np.testing.assert_array_equal(some["share"], whole["share"])
    assert (some["family_wise"] < 0.05).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": 2}, "pass a number between 0 and 1"),
        ({"missing": "x"}, "pass 'mean' or 'error'"),
        ({"label_kernel": "self"}, "pass labels, and 'auto'"),
    ],
)
def test_what_does_not_fit_is_refused(rng, options, sentence):
    X, y = hub(rng)
    frame = pd.DataFrame(X, columns=[str(j) for j in range(60)])
    with pytest.raises(InputError, match=sentence):
        dhsic.marginal_interactions(frame, y, **options)


def test_what_is_too_large_is_refused(rng):
    X, y = hub(rng)
    with pytest.raises(MemoryBudgetError, match="memory_limit="):
        dhsic.marginal_interactions(X, y, memory_limit=1000)


def test_nothing_is_left_to_test(rng):
    X, y = np.zeros((60, 20)), rng.standard_normal(60)
    X[:3] = 1.0
    with pytest.raises(InputError, match="carried by too few samples"):
        dhsic.marginal_interactions(X, y)
    X[:, 5] = np.arange(60) % 2
    with pytest.raises(InputError, match="second= are constant"):
        dhsic.marginal_interactions(np.column_stack([X[:, 5], np.ones(60)]), y, second=[1])


@pytest.mark.parametrize("screen", [0, 1.5])
def test_a_screen_is_a_number_of_features(rng, screen):
    X, y = hub(rng)
    with pytest.raises(InputError, match="whole number from 1"):
        dhsic.find_pairs(X, y, screen=screen)
    assert dhsic.find_pairs(X, y, screen=1, n_pairs=1, n_permutations=0)["first"].item() == 3


def test_a_screen_has_one_function_and_no_environment(rng):
    X, y = hub(rng)
    with pytest.raises(InputError, match="Leave out one of the two"):
        dhsic.find_pairs(X, y, screen=2, functions=2)
    with pytest.raises(InputError, match="Leave out one of the two"):
        dhsic.find_pairs(X, y, screen=2, environment=X[:, 0])
    assert dhsic.find_pairs(X, y, functions=2, n_pairs=1)["first"].size == 1


def test_on_the_command_line(rng, tmp_path):
    X, y = hub(rng)
    path, out = tmp_path / "g.csv", tmp_path / "found.tsv"
    names = [f"g{j}" for j in range(60)]
    pd.DataFrame(X, columns=names).assign(trait=y).to_csv(path, index=False)
    asked = "pairs", path, "--target", "trait"

    planned = json.loads(run(*asked, "--marginal", "--plan", "--json").stdout)
    result = run(*asked, "--marginal", "-n", "3", "--out", out)
    screened = run(*asked, "--screen", "2", "-n", "2", "--permutations", "0")

    assert planned["peak_bytes"] > 0
    assert "partners" in run(*asked, "--marginal", "--plan").stdout
    assert pd.read_csv(out, sep="\t")["name"][0] == "g3"
    assert "60 features tested for interactions with 60" in " ".join(result.stderr.split())
    assert "Only pairs of 2 features" in " ".join(screened.stderr.split())
    rows = json.loads(run(*asked, "--marginal", "--json").stdout)["features"]
    assert len(rows) == 60


@pytest.mark.parametrize("options", [("--shares",), ("--screen", "2"), ("--functions", "2")])
def test_options_that_do_not_go_with_marginal_tests(tmp_path, options):
    path = tmp_path / "g.csv"
    path.write_text("x,trait\n1,2\n")
    asked = "pairs", path, "--target", "trait"

    assert "Leave out --marginal" in run(*asked, "--marginal", *options, code=2).stderr
