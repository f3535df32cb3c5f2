"""Times to an event that may be censored, as labels of every command."""

import json
import shutil

import naive_survival as naive
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from stores import write_matrix

import dhsic
from dhsic import plot
from dhsic.cli import main
from dhsic.criteria.hazard_spread import spread_ratios
from dhsic.errors import InputError
from dhsic.interactions import find_pairs
from dhsic.kernels import risk_variance
from dhsic.kernels.censored import CensoredTarget, log_rank_scores
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.risk_sets import CENSORED, NullModel, RiskSets, concordance, kaplan_meier
from dhsic.linalg.covariates import covariate_basis
from dhsic.reports.html import report
from dhsic.selection.cross_validation import records_of
from dhsic.selection.survival_curves import THIRDS

M, D = 120, 30


def censored(time, event, entry=-np.inf):
    y = np.empty(len(time), CENSORED)
    y["time"], y["event"], y["entry"] = time, event, entry
    return y


def drawn(rng, m, share=0.5, log_hazard=0.0, ties=None):
    """Censored times with this share censored, exponential given the logarithm of the hazard."""
    time = rng.exponential(size=m) * np.exp(-log_hazard)
    limit = rng.exponential(size=m) * (1 - share) / share
    observed = np.minimum(time, limit)
    if ties:
        observed = np.ceil(observed * ties) / ties
    y = censored(observed, time <= limit)
    y["event"][0] = True
    return y


def samples_of(y):
    return [(float(t), bool(e), float(v)) for t, e, v in y]


@pytest.fixture(scope="module")
def data():
    """Features, of which 3 lengthens the time, and the product of 5 and 6 shortens it."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((M, D))
    return X, drawn(rng, M, 0.4, -1.0 * X[:, 3] + 1.0 * X[:, 5] * X[:, 6])


# Definitions ------------------------------------------------------------------------


@pytest.mark.parametrize("entered", [False, True])
def test_scores_of_every_weight_are_as_defined(entered):
    rng = np.random.default_rng(2)
    y = drawn(rng, 40, ties=5)
    if entered:
        y["entry"] = np.where(rng.random(40) < 0.6, y["time"] * rng.random(40), -np.inf)
    found = log_rank_scores(y, None, 4)
    for number in range(4):
        assert_allclose(found[:, number], naive.scores(samples_of(y), number), atol=1e-12)
    assert_allclose(found.sum(axis=0), 0.0, atol=1e-10)


def test_scores_given_a_covariate_are_residuals_of_the_cox_model():
    rng = np.random.default_rng(3)
    x = rng.standard_normal(50)
    y = drawn(rng, 50, 0.3, x, ties=8)
    eta = NullModel(RiskSets.of(y), (x - x.mean())[:, None]).linear_predictor()
    beta = (eta[1] - eta[0]) / (x[1] - x[0])
    best = naive.partial_likelihood(samples_of(y), x, beta)
    for other in (beta - 1e-3, beta + 1e-3):
        assert naive.partial_likelihood(samples_of(y), x, other) < best
    found = log_rank_scores(y, x, 2)
    for number in range(2):
        assert_allclose(found[:, number], naive.scores(samples_of(y), number, eta), atol=1e-8)
    assert abs(x @ found[:, 0]) < 1e-6


def test_a_covariate_that_separates_events_leaves_finite_scores():
    y = censored(np.arange(1.0, 21.0), np.arange(20) < 10)
    found = log_rank_scores(y, (np.arange(20) < 10).astype(float))
    assert np.isfinite(found).all()


def test_the_first_direction_is_the_log_rank_test():
    rng = np.random.default_rng(4)
    group = rng.integers(0, 2, 60)
    y = drawn(rng, 60, 0.4, 0.5 * group, ties=6)
    numerator, variance = naive.log_rank(samples_of(y), group.tolist())
    assert np.isclose(group @ log_rank_scores(y)[:, 0], numerator)
    assert np.isclose(naive.variance(samples_of(y), group.tolist()), variance)
    found = dhsic.test_features(group[:, None], y, label_kernel="linear").p_values[0]
    from scipy.stats import chi2

    assert np.isclose(np.log10(found), np.log10(chi2.sf(numerator**2 / variance, 1)), atol=0.15)


def test_variances_within_risk_sets_are_as_defined():
    rng = np.random.default_rng(5)
    y = drawn(rng, 40, 0.4, ties=10)
    Q = covariate_basis(None, 40)
    target = CensoredTarget.of(y, None, n_weights=1)
    of = target.variance(target.unit_directions(Q)[0], Q)
    X = rng.standard_normal((6, 40))
    X -= X.mean(axis=1, keepdims=True)
    own = np.square(X) @ of.of_squares - np.square(X @ of.means) @ of.of_means
    defined = np.array([naive.variance(samples_of(y), x.tolist()) for x in X])
    assert_allclose(own[:, 0] / own[0, 0], defined / defined[0])
    many = rng.standard_normal((200, 40))
    many -= many.mean(axis=1, keepdims=True)
    raw = np.square(many) @ of.of_squares - np.square(many @ of.means) @ of.of_means
    raw = raw[:, 0] / np.square(many).sum(axis=1)
    assert abs(raw.mean() - 1) < 0.05
    for ratio, found in zip(raw, of.ratios_of(many)[:, 0], strict=True):
        doubt = (0.5 if ratio > 1 else 0.75) * of.errors[0]
        part = max(0.0, 1 - (doubt / (ratio - 1)) ** 2)
        assert np.isclose(found, 1 + (ratio - 1) * part)


def test_spread_ratios_are_as_defined():
    rng = np.random.default_rng(15)
    m, R = 30, 8
    u = (np.arange(m) + 0.5) / m
    phi = 2**0.5 * np.cos(np.pi * np.outer(np.arange(1, R + 1), u))
    h = np.array([np.exp(2.0 * u), np.exp(-4.0 * u), rng.exponential(size=m)])
    h /= h.mean(axis=1, keepdims=True)
    weights = np.array([[1, 0, 0, 0, 0, 0, 0, 0], [1, 0.8, 0.6, 0.4, 0, 0, 0, 0]])
    for values in h:
        c = phi @ (values - 1) / m
        noise = np.square(values - 1).sum() / (m * (m - 1))
        defined = [naive.spread_ratio(values, u, row) for row in weights]
        assert_allclose(spread_ratios(c[None], noise, weights)[:, 0], defined)
    assert defined[0] == 1.0
    assert spread_ratios((phi @ (h[1] - 1) / m)[None], 0.0, weights).max() > 1.1


def test_hazards_are_expected_numbers_of_events(data):
    _, y = data
    Q = covariate_basis(None, M)
    target = CensoredTarget.of(y, None)
    hazards = target.variance(target.unit_directions(Q)[0], Q).hazards[:, 0]
    expected = y["event"] - log_rank_scores(y)[:, 0]
    earlier = y["time"] < y["time"][y["event"]].max()  # nobody is left to compare with the last
    assert np.corrcoef(hazards[earlier], expected[earlier])[0, 1] > 0.999
    assert abs(hazards.mean()) < 1e-12


@pytest.mark.parametrize("ties", [None, 4])
def test_concordance_is_as_defined(ties):
    rng = np.random.default_rng(6)
    y = drawn(rng, 40, 0.5, ties=ties)
    risk = rng.integers(0, 6, 40).astype(float)
    assert np.isclose(concordance(y, risk), naive.concordance(samples_of(y), risk.tolist()))
    assert concordance(censored([1.0, 2.0], [True, True]), np.array([2.0, 1.0])) == 1.0


def test_two_kernels_on_times_and_no_others():
    y = drawn(np.random.default_rng(7), 30)
    assert label_matrix(y).description == "log-rank"
    assert label_matrix(y).factor().rank == 5
    assert label_matrix(y, "linear").factor().rank == 1
    with pytest.raises(InputError, match="'multiclass' does not apply to censored times"):
        label_matrix(y, "multiclass")


# Level and power --------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("follows", [False, True])
def test_level_of_null_features(share, follows):
    rng, p = np.random.default_rng(8), []
    for _ in range(12):
        c = rng.standard_normal(M)
        y = drawn(rng, M, share, 0.7 * c if follows else 0.0)
        X = rng.binomial(2, 1 / (1 + np.exp(1 - 0.8 * follows * c))[:, None], (M, 100))
        found = dhsic.test_features(X * 1.0, y, covariates=c if follows else None)
        p.append(found.p_values)
    assert 0.03 < (np.concatenate(p) < 0.05).mean() < 0.075


@pytest.mark.slow
def test_ratios_restore_the_level_where_features_follow_censoring(monkeypatch):
    p = {1: [], 1e9: []}  # with and without variance ratios
    for factor, values in p.items():
        monkeypatch.setattr(risk_variance, "DOUBT", 0.5 * factor)
        monkeypatch.setattr(risk_variance, "DOUBT_BELOW", 0.75 * factor)
        rng = np.random.default_rng(9)
        for _ in range(25):
            c = rng.standard_normal(400)
            y = drawn(rng, 400, 0.8, 0.7 * c)
            limit = 0.15 * rng.exponential(size=400) * np.exp(c)
            y["event"] &= y["time"] <= limit
            y["time"] = np.minimum(y["time"], limit)
            X = rng.binomial(2, 1 / (1 + np.exp(1 - c))[:, None], (400, 60)) * 1.0
            values.append(dhsic.test_features(X, y, covariates=c).p_values)
    corrected, uncorrected = ((np.concatenate(values) < 0.05).mean() for values in p.values())
    assert corrected < 0.07
    assert uncorrected > corrected + 0.015


def test_power_for_proportional_and_crossing_hazards():
    rng = np.random.default_rng(10)
    x = rng.standard_normal(200)
    y = drawn(rng, 200, 0.3, 0.6 * x)
    assert dhsic.test_features(x[:, None], y).p_values[0] < 1e-6
    unit = rng.exponential(size=200)
    early, late = np.exp(0.8 * x), np.exp(-0.8 * x)
    time = np.where(unit < 0.7 * early, unit / early, 0.7 + (unit - 0.7 * early) / late)
    crossing = censored(np.minimum(time, 3.0), time <= 3.0)
    proportional = dhsic.test_features(x[:, None], crossing, label_kernel="linear").p_values[0]
    assert dhsic.test_features(x[:, None], crossing).p_values[0] < 1e-4 < proportional


# Python -----------------------------------------------------------------------------


def test_every_form_of_censored_times_gives_the_same_ranking(data):
    X, y = data
    records = records_of(y)
    frame = pd.DataFrame(X, [f"s{i}" for i in range(M)], [f"g{i}" for i in range(D)])
    labels = pd.DataFrame({"time": y["time"], "died": y["event"].astype(int)}, frame.index)
    options = {"n_features_to_select": 3, "progress": False}
    first = dhsic.select(X, records, **options)
    assert first["rank"].to_numpy().argmin() == 3
    assert (first.attrs["n_events"], first.attrs["n_censored"]) == (
        y["event"].sum(),
        (~y["event"]).sum(),
    )
    assert first.attrs["label_kernel_used"] == "log-rank"
    assert "120 censored times: " in first.attrs["labels"]
    for found in (
        dhsic.select(X, y["time"], event=y["event"], **options),
        dhsic.select(frame, labels, event="died", **options),
        dhsic.select(frame, labels["time"], event=labels["died"], **options),
        dhsic.select(frame.join(labels), "time", event="died", **options),
    ):
        assert_array_equal(found["score"], first["score"])


def test_entries_change_the_risk_sets(data):
    X, y = data
    entry = 0.3 * y["time"]
    found = dhsic.select(X, y["time"], event=y["event"], entry=entry, n_features_to_select=3)
    assert "entered from" in found.attrs["labels"]
    own = log_rank_scores(censored(y["time"], y["event"], entry))
    assert not np.allclose(own, log_rank_scores(y))


def test_methods_that_take_numbers_take_times(data):
    X, y = data
    for method in ("fohsic", "weighting", "linear", "pearson", "kta", "qmi", "ridge", "hsic"):
        found = dhsic.select(X, records_of(y), method=method, n_features_to_select=2)
        assert 3 in np.argsort(found["rank"].to_numpy())[:2], method
    with pytest.raises(InputError, match="'t' needs classes, but y has times"):
        dhsic.select(X, records_of(y), method="t", n_features_to_select=2)
    with pytest.raises(InputError, match="svm-rfe needs classes"):
        dhsic.select(X, records_of(y), method="svm-rfe", n_features_to_select=2)
    with pytest.raises(InputError, match=r"times to an event\. Leave loco= out"):
        dhsic.test_features(X, records_of(y), loco=True)


@pytest.mark.slow
def test_hold_out_shadows_stability_and_cross_validation(data):
    X, y = data
    options = {"n_features_to_select": 2, "progress": False, "interactions": None}
    held = dhsic.select(X, records_of(y), holdout=0.4, **options)
    assert held["p"].to_numpy()[3] < 0.05
    assert dhsic.select(X, records_of(y), stability=4, **options)["stability"].to_numpy()[3] == 1
    shadow = dhsic.select(X, records_of(y), control="shadow", **options)
    assert shadow["rank"].to_numpy().argmin() == 3
    chosen = dhsic.select(X, records_of(y), **{**options, "n_features_to_select": "auto"})
    table = json.loads(chosen.attrs["cv_results"])
    assert 0.55 < max(table["mean_test_score"]) < 1.0


def test_pairs_are_tested_against_scores_given_covariates(data):
    X, y = data
    for covariates in (None, X[:, [3]]):
        found = find_pairs(X, records_of(y), n_pairs=1, n_permutations=20, covariates=covariates)
        assert (found["first"].item(), found["second"].item()) == (5, 6)
        assert found.attrs["n_events"] == y["event"].sum()
        assert "beta" not in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": -1.0}, "1 of 120 times .* are negative"),
        ({"time": np.nan}, "1 of 120 times .* are missing"),
        ({"event": 3}, "have the values 0, 1, 3. Pass 1 or True"),
        ({"event": np.nan}, "1 of 120 events .* are missing"),
        ({"entry": 1e9}, "In 1 of 120 samples, the time of entry"),
    ],
)
def test_invalid_times_and_events_are_refused(data, change, message):
    X, y = data
    columns = {
        "time": y["time"].copy(),
        "event": y["event"].astype(float),
        "entry": np.zeros(M),
    }
    for name, value in change.items():
        columns[name][7] = value
    with pytest.raises(InputError, match=message):
        dhsic.select(X, columns["time"], event=columns["event"], entry=columns["entry"])


def test_labels_without_an_event_or_with_the_wrong_coding(data):
    X, y = data
    none = np.zeros(M)
    with pytest.raises(InputError, match="None of 120 samples has an event"):
        dhsic.select(X, y["time"], event=none)
    with pytest.raises(InputError, match="are text"):
        dhsic.select(X, y["time"], event=np.where(y["event"], "dead", "moved"))
    with pytest.raises(InputError, match="entry= needs event="):
        dhsic.select(X, y["time"], entry=none)
    with pytest.raises(InputError, match="per_target= and per_class="):
        dhsic.select(X, y["time"], event=y["event"], per_class=True)
    with pytest.warns(UserWarning, match="read as in R's Surv"):
        found = dhsic.select(X, y["time"], event=y["event"] + 1, n_features_to_select=2)
    assert found.attrs["n_events"] == y["event"].sum()


# Everywhere the same ----------------------------------------------------------------


def test_threads_dask_and_a_resumed_run_give_the_same_bits(data, tmp_path):
    from distributed import Client, LocalCluster

    from dhsic.runtime.dask import DaskRuntime

    X, y = data
    write_matrix(tmp_path / "x.zarr", X.astype(np.float32), chunks=(10, M))
    options = {"n_features_to_select": 3, "progress": False}
    place = tmp_path / "run"
    first = dhsic.select(tmp_path / "x.zarr", records_of(y), checkpoint=place, **options)
    tested = dhsic.select(tmp_path / "x.zarr", records_of(y), method="hsic", **options)
    again = dhsic.select(tmp_path / "x.zarr", records_of(y), checkpoint=place, **options)
    assert_array_equal(again["score"], first["score"])
    shutil.rmtree(place)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as c,
        Client(c) as client,
    ):
        runtime = DaskRuntime(client)
        found = dhsic.select(tmp_path / "x.zarr", records_of(y), runtime=runtime, **options)
        options["method"] = "hsic"
        by_dask = dhsic.select(tmp_path / "x.zarr", records_of(y), runtime=runtime, **options)
    assert_array_equal(found["score"], first["score"])
    assert_array_equal(found["rank"], first["rank"])
    assert_array_equal(by_dask["p"], tested["p"])


def test_features_in_memory_and_in_a_pass_agree(data):
    X, y = data
    X = np.column_stack([X, np.random.default_rng(11).binomial(2, 0.4, (M, 5))])
    every = dhsic.test_features(X, records_of(y)).p_values
    some = dhsic.test_features(X, records_of(y), features=np.arange(X.shape[1])).p_values
    assert_allclose(some, every, rtol=1e-4)


# Command line -----------------------------------------------------------------------


@pytest.fixture
def table(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X.round(4), columns=[f"g{i}" for i in range(D)])
    frame.insert(0, "sample", [f"s{i}" for i in range(M)])
    frame["time"], frame["status"] = y["time"], y["event"].astype(int)
    frame["start"] = 0.1 * y["time"]
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_commands_take_events_and_entries(table):
    times = ("--target", "time", "--event", "status")
    found = run("select", table, *times, "--entry", "start", "-n", 2, "--interactions", "best")
    assert found.exit_code == 0, found.output
    assert "120 censored times: " in found.output
    assert "entered from" in " ".join(found.output.split())
    assert "\n   1  g3" in found.output
    found = run("test", table, *times, "--not-feature", "start", "-n", 1)
    assert "\n   1  g3" in found.output
    found = run("pairs", table, *times, "--not-feature", "start", "-n", 1)
    assert "g5" in found.output
    assert "g6" in found.output
    found = run(
        "test", table, *times, "--not-feature", "start", "--effects", table.parent / "e.tsv"
    )
    assert "not on times to an event" in " ".join(found.output.split())


def test_commands_say_what_is_missing(table):
    found = run("select", table, "--target", "time", "--entry", "start")
    assert "pass --event" in found.output
    found = run("select", table, "--target", "time", "--target", "status", "--event", "status")
    assert "exactly one --target" in found.output
    found = run("test", table, "--target", "time", "--target", "status", "--not-feature", "start")
    said = " ".join(found.output.split())
    assert "pass event='status', and only the times as target" in said


def test_samples_without_an_event_value_are_dropped(table):
    frame = pd.read_csv(table)
    frame.loc[3, "status"] = np.nan
    labels = table.parent / "labels.csv"
    frame[["sample", "time", "status"]].to_csv(labels, index=False)
    frame.drop(columns=["time", "status", "start"]).to_csv(table, index=False)
    options = ("--labels", labels, "--target", "time", "--event", "status", "-n", 1)
    assert "status: 1" in run("test", table, *options).output
    found = run("test", table, *options, "--drop-missing")
    assert "119 censored times" in found.output


# Survival curves --------------------------------------------------------------------


def test_kaplan_meier_is_that_of_plain_loops(rng):
    y = drawn(rng, 60, 0.4, ties=6)
    y["entry"][:20] = y["time"][:20] / 2

    times, survival = kaplan_meier(y)

    expected = naive.kaplan_meier(samples_of(y))
    assert_array_equal(times, expected[0])
    assert_allclose(survival, expected[1], atol=1e-12)


@pytest.mark.parametrize("is_genotype", [False, True])
def test_a_result_has_the_curves_of_the_best_feature(rng, is_genotype):
    X = rng.binomial(2, 0.4, (200, 30)) if is_genotype else rng.standard_normal((200, 30))
    X = X.astype(float)
    y = drawn(rng, 200, 0.3, 1.5 * X[:, 7])
    X[rng.random(200) < 0.1, 7] = np.nan

    result = dhsic.select(X, y, n_features_to_select=3, control="shadow", progress=False)
    curves = json.loads(result.attrs["survival_curves"])

    x = X[:, 7]
    assert curves["feature"] == 7
    edges = [0.5, 1.5] if is_genotype else np.nanquantile(x, [1 / 3, 2 / 3])
    groups = np.searchsorted(edges, x)
    for k, group in enumerate(curves["groups"]):
        part = y[(groups == k) & ~np.isnan(x)]
        expected = naive.kaplan_meier(samples_of(part))
        assert (group["n"], group["n_events"]) == (len(part), part["event"].sum())
        assert_allclose(group["times"], expected[0])
        assert_allclose(group["survival"], expected[1], atol=1e-6)
    labels = [group["label"] for group in curves["groups"]]
    assert labels == (["0", "1", "2"] if is_genotype else [*THIRDS])


def test_curves_are_in_the_report_and_not_in_results_of_other_labels(data, tmp_path):
    X, y = data
    tests = dhsic.test_features(X, y)
    (page,) = report(tests, tmp_path / "tests.html")
    assert "lowest third (n=40" in page.read_text()

    plain = dhsic.test_features(X, y["time"]).result_
    assert "survival_curves" not in plain.attrs
    with pytest.raises(InputError, match=r"Pass a result for such labels \(event=\)"):
        plot.survival(plain)
    followed = dhsic.test_features(X, y["time"], event=y["event"]).result_
    assert len(plot.survival(followed).lines) == 3
