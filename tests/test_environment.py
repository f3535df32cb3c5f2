"""Pairs of a feature with an environment, and of two sets of features: shares and messages."""

import json
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from commands import run
from naive_interactions import environment_shares, shares

import dhsic
from dhsic.errors import CheckpointError, InputError
from dhsic.interactions import find_pairs
from dhsic.reports.html import report
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

ALL = {"n_pairs": 1000, "n_permutations": 0}


@pytest.fixture
def treated(rng):
    """Features, labels, age, arm: f3 acts more in the old, and f9 only if treated."""
    X = rng.binomial(2, 0.4, (300, 40)).astype(float)
    age, arm = rng.normal(50, 8, 300), rng.choice(["control", "drug"], 300)
    y = X[:, 3] * (age - 50) / 12 + X[:, 9] * (arm == "drug") + rng.standard_normal(300)
    return X, y + 0.05 * age + 0.002 * (age - 50) ** 2, age, arm


def by_pair(found, names):
    return {
        (int(j), names.index(name)): share
        for j, name, share in zip(
            found["first"].values, found["environment"].values, found["share"].values, strict=True
        )
    }


def test_shares_are_those_of_plain_loops(rng, treated):
    X, y, age, arm = treated
    X[rng.random(X.shape) < 0.05] = np.nan
    C = rng.standard_normal((300, 2))
    E = pd.DataFrame({"age": age, "arm": arm})

    found = find_pairs(X, y, environment=E, covariates=C, **ALL)

    columns = [age.tolist(), (arm == "drug").astype(float).tolist()]
    by_loops = environment_shares(X.T.tolist(), [y.tolist()], columns, C.T.tolist())
    assert by_pair(found, ["age", "arm=drug"]) == pytest.approx(by_loops, rel=1e-9, abs=1e-12)
    assert found.attrs["n_pairs"] == 80
    assert found.attrs["degrees_of_freedom"] == 300 - 1 - 2 - 3 - 1 - 1
    assert "second" not in found


def test_classes_and_an_environment_that_is_a_covariate_too(treated):
    X, y, age, _ = treated
    classes = np.digitize(y, np.quantile(y, [0.3, 0.6]))

    found = find_pairs(X, classes.astype(str), environment=age, covariates=age, **ALL)

    Y = [(classes == k).astype(float).tolist() for k in (0, 1, 2)]
    by_loops = environment_shares(X.T.tolist(), Y, [age.tolist()])
    assert by_pair(found, ["environment"]) == pytest.approx(by_loops, rel=1e-9, abs=1e-12)


def test_what_acts_with_an_environment_is_found(treated):
    X, y, age, arm = treated

    found = find_pairs(X, y, environment=pd.DataFrame({"age": age, "arm": arm}), n_pairs=2)

    pairs = zip(found["first"].values.tolist(), found["environment"].values.tolist(), strict=True)
    assert {*pairs} == {(3, "age"), (9, "arm=drug")}
    assert (found["family_wise"].values < 0.001).all()
    fitted = np.column_stack([np.ones(300), age, arm == "drug", X[:, 9], X[:, 9] * (arm == "drug")])
    of_drug = found["beta"].values[found["environment"].values == "arm=drug"][0]
    assert of_drug == pytest.approx(np.linalg.lstsq(fitted.astype(float), y)[0][-1])


def test_the_level_holds_although_the_environment_acts(rng):
    e = rng.standard_normal(400)
    X = rng.standard_normal((400, 4000))
    y = X[:, 0] + e + e**2 + rng.standard_normal(400)

    p = find_pairs(X, y, environment=e, n_pairs=4000)["p_value"].values

    assert p.size == 4000
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.012)
    assert (p <= 0.5).mean() == pytest.approx(0.5, abs=0.05)


def test_the_same_bits_on_a_cluster_and_with_other_chunks(treated, client):
    X, y, age, _ = treated
    asked = {"environment": age, "n_pairs": 30}
    whole = find_pairs(X, y, **asked, runtime=Threads(1))
    assert find_pairs(X, y, **asked, runtime=DaskRuntime(client)).identical(whole)
    cut = find_pairs(da.from_array(X, chunks=(300, 7)), y, **asked, runtime=Threads(2))
    np.testing.assert_array_equal(cut["share"].values, whole["share"].values)


def test_a_scan_goes_on_and_another_environment_is_another_scan(treated, tmp_path):
    X, y, age, _ = treated
    asked = {"n_pairs": 5, "checkpoint": tmp_path / "scan.dhsic"}
    whole = find_pairs(X, y, environment=age, **asked)
    assert find_pairs(X, y, environment=age, **asked).identical(whole)
    with pytest.raises(CheckpointError):
        find_pairs(X, y, environment=age[::-1].copy(), **asked)


def test_times_to_an_event(rng, treated):
    X, _, _, arm = treated
    hazard = np.exp(1.5 * (X[:, 9] - 0.8) * (arm == "drug"))
    time = rng.exponential(size=300) / hazard
    event = time < 2

    found = find_pairs(
        X, np.minimum(time, 2), event=event, environment=pd.Series(arm, name="arm"), n_pairs=1
    )

    assert (found["first"].item(), found["environment"].item()) == (9, "arm=drug")
    assert found["family_wise"].item() < 0.01


def test_rows_of_a_frame_are_matched_by_name(treated):
    X, y, age, _ = treated
    names = [f"s{i:03d}" for i in range(300)]
    data, labels = pd.DataFrame(X, index=names), pd.Series(y, index=names)
    shuffled = pd.Series(age, index=names, name="age").sample(frac=1, random_state=0)

    with pytest.raises(InputError, match=r"Pass environment\.loc\[X\.index\]"):
        find_pairs(data, labels, environment=shuffled, **ALL)
    found = find_pairs(data, labels, environment=shuffled.loc[data.index], **ALL)

    expected = find_pairs(X, y, environment=age, **ALL)
    np.testing.assert_array_equal(found["share"].values, expected["share"].values)


def test_columns_of_a_frame_by_name(treated):
    X, y, age, arm = treated
    frame = pd.DataFrame(X).add_prefix("g").assign(age=age, arm=arm, bmi=y)

    found = find_pairs(frame, "bmi", environment=["age", "arm"], n_pairs=2)

    assert set(found["first_feature"].values) == {"g3", "g9"}
    assert found.attrs["n_features"] == 40


@pytest.fixture
def clinic(treated, tmp_path):
    X, y, age, arm = treated
    table = pd.DataFrame(X).add_prefix("g").assign(age=age.round(1), arm=arm, bmi=y.round(4))
    table.insert(0, "sample", [f"s{i}" for i in range(300)])
    table.to_csv(tmp_path / "clinic.csv", index=False)
    columns = ["sample", "age", "arm"]
    table[columns].to_csv(tmp_path / "covariates.csv", index=False)
    table.drop(columns=["age", "arm"]).to_csv(tmp_path / "apart.csv", index=False)
    return tmp_path


def test_the_command_line_takes_environments_from_all_tables(clinic):
    here = [clinic / "clinic.csv", "--target", "bmi", "--json", "-n", 2]
    told = json.loads(run("pairs", *here, "--with", "age", "--with", "arm").stdout)
    beside = [clinic / "apart.csv", "--covariates", clinic / "covariates.csv"]
    apart = run("pairs", *beside, "--target", "bmi", "--json", "-n", 2, "--with", "age",
                "--with", "arm")  # fmt: skip

    pairs = {(pair["first_name"], pair["environment"]) for pair in told["pairs"]}
    assert pairs == {("g3", "age"), ("g9", "arm=drug")}
    assert json.loads(apart.stdout)["pairs"] == told["pairs"]
    plan = run("pairs", *here[:3], "--with", "age", "--with", "arm", "--plan").stdout
    assert plan.startswith("pairs     80 in 6 tiles")


def test_an_environment_that_is_no_covariate_is_refused_and_the_advice_works(clinic):
    table = f"{clinic / 'covariates.csv'}:arm"
    asked = ["pairs", clinic / "clinic.csv", "--target", "bmi", "--with", "age", "-n", 1]
    asked += ["--not-feature", "arm", "--covariates", table]
    refused = run(*asked, code=2)
    assert (
        "dhsic pairs --with age needs a covariate of this name; covariates: arm." in refused.stderr
    )
    assert "--covariate" in refused.stderr
    assert "g3" in run(*asked, "--covariate", "age").stdout


def test_a_constant_environment_is_refused_and_the_advice_works(clinic, treated):
    X, y, age, _ = treated
    with pytest.raises(InputError, match="'environment' has the same value in all samples"):
        find_pairs(X, y, environment=np.ones(300))
    assert find_pairs(X, y, environment=age, **ALL)["first"].size == 40


def test_columns_with_one_name_are_refused_and_the_advice_works(treated):
    X, y, age, _ = treated
    E = pd.DataFrame(np.column_stack([age, age**3]), columns=["age", "age"])
    with pytest.raises(InputError, match=r"several columns with the same name \(age\)"):
        find_pairs(X, y, environment=E)
    E.columns = ["age", "cubed"]
    assert find_pairs(X, y, environment=E, **ALL).attrs["n_pairs"] == 80


def test_functions_and_a_second_set_are_refused_and_the_advice_works(treated):
    X, y, age, _ = treated
    asked = {"environment": age, "n_pairs": 1}
    with pytest.raises(InputError, match="Leave out functions="):
        find_pairs(X, y, functions=2, **asked)
    with pytest.raises(InputError, match="Leave out second=, or environment="):
        find_pairs(X, y, second=[1, 2], **asked)
    assert find_pairs(X, y, **asked)["first"].item() == 3
    assert find_pairs(X, y, second=[1, 2], n_pairs=1)["first"].size == 1


def test_pairs_of_two_sets_are_those_of_all_pairs(treated):
    X, y, _, _ = treated
    first, second = [0, 3, 4, 7, 20], [3, 7, 8, 30, 31, 39]

    found = find_pairs(X, y, first=first, second=second, **ALL)

    of_all = shares(X.T.tolist(), [y.tolist()])
    wanted = {tuple(sorted((j, k))) for j in first for k in second if j != k}
    pairs = zip(found["first"].values.tolist(), found["second"].values.tolist(), strict=True)
    told = {tuple(sorted(pair)): s for pair, s in zip(pairs, found["share"].values, strict=True)}
    assert told == pytest.approx({pair: of_all[pair] for pair in wanted if pair in of_all})
    assert found.attrs["n_pairs"] == len(wanted) == 27
    assert set(found["first"].values.tolist()) <= {*first}


@pytest.mark.parametrize("functions", [1, 2])
def test_one_set_with_all_features(treated, functions):
    X, y, _, _ = treated
    some = find_pairs(X, y, first=[5, 6], functions=functions, **ALL)
    whole = find_pairs(X, y, functions=functions, **ALL)

    def table(found):
        at = np.sort(np.column_stack([found["first"], found["second"]]), axis=1)
        return {tuple(row): s for row, s in zip(at.tolist(), found["share"].values, strict=True)}

    expected = {pair: s for pair, s in table(whole).items() if {5, 6} & {*pair}}
    assert table(some) == pytest.approx(expected)


def test_sets_with_permutations_and_filters(treated, tmp_path):
    X, y, _, _ = treated
    X = np.hstack([X, np.zeros((300, 1))])
    y = y + 2 * (X[:, 15] - 0.8) * (X[:, 33] - 0.8)
    frame = pd.DataFrame(X).add_prefix("g")
    (tmp_path / "first.txt").write_text("g15\ng16\ng40\n")

    found = find_pairs(frame, y, first=tmp_path / "first.txt", n_pairs=1)
    some = find_pairs(
        frame, y, first=["g15", "g2"], n_pairs=1, filters=dhsic.Filters(exclude=["g2"])
    )

    for each in (found, some):
        assert (each["first_feature"].item(), each["second_feature"].item()) == ("g15", "g33")
        assert each["family_wise"].item() < 0.001
    assert found.attrs["n_pairs"] == 2 * 38 + 1
    with pytest.raises(InputError, match="The filters exclude the only feature of first="):
        find_pairs(frame, y, first=["g2"], filters=dhsic.Filters(exclude=["g2"]))


def test_many_features_are_sampled_for_permutations(rng, monkeypatch):
    from dhsic.pairs import scan

    monkeypatch.setattr(scan, "MOST_PERMUTED", 20)
    monkeypatch.setattr(scan, "PERMUTED_RUNS", 4)
    X, y = rng.standard_normal((80, 300)), rng.standard_normal(80)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = find_pairs(X, y, environment=rng.standard_normal(80), n_pairs=3)
        sets = find_pairs(X, y, first=np.arange(150), second=np.arange(100, 300), n_pairs=3)
    assert alone.attrs["n_pairs_permuted"] == 188
    assert 100 <= sets.attrs["n_pairs_permuted"] <= 250
    assert (alone["family_wise"].values > 0.001).all()


def test_a_report_and_a_plot_name_the_environment(treated, tmp_path):
    X, y, _, arm = treated
    arm = pd.Series(arm, name="arm")
    found = find_pairs(X, y, environment=arm, n_pairs=2, n_permutations=20)
    selection = dhsic.select(X, y, n_features_to_select=3, interactions=None)

    (page,) = report(selection, tmp_path / "report.html", pairs=found)

    assert "9 x arm=drug" in page.read_text()


def test_values_of_the_wrong_shape_are_refused_and_the_advice_works(treated):
    X, y, age, _ = treated
    with pytest.raises(InputError, match="one row per sample, and one column per environment"):
        find_pairs(X, y, environment=np.ones((300, 2, 2)))
    assert find_pairs(X, y, environment=age[:, None], **ALL).attrs["n_pairs"] == 40


def test_sets_on_the_command_line(clinic):
    (clinic / "first.txt").write_text("g3\ng4\n")
    (clinic / "second.txt").write_text("g5\ng6\ng7\n")
    files = ["--first", clinic / "first.txt", "--second", clinic / "second.txt"]
    beside = ["--covariate", "age", "--covariate", "arm", "--json"]
    told = json.loads(
        run("pairs", clinic / "clinic.csv", "--target", "bmi", *beside, *files).stdout
    )
    assert told["n_pairs"] == 6
    assert {pair["first_name"] for pair in told["pairs"]} == {"g3", "g4"}
    assert {pair["second_name"] for pair in told["pairs"]} == {"g5", "g6", "g7"}
