"""Former names of parameters and options."""

import numpy as np
import pytest
from commands import run

import dhsic
from dhsic.errors import InputError

QUIET = {"n_features_to_select": 3, "progress": False, "interactions": None}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    return X, X[:, 4] + 0.1 * rng.standard_normal(60)


MADE = {
    "class": lambda X, y, **by: dhsic.BAHSIC(**QUIET, **by).fit(X, y).result_,
    "set_params": lambda X, y, **by: dhsic.BAHSIC(**QUIET).set_params(**by).fit(X, y).result_,
    "select": lambda X, y, **by: dhsic.select(X, y, **QUIET, **by),
}


@pytest.mark.parametrize("made", MADE)
def test_former_names_work_and_a_warning_says_what_to_pass(data, made):
    today = MADE[made](*data, rerank=False, solver="direct")
    with pytest.warns(DeprecationWarning, match=r"Pass (rerank|solver)=") as told:
        former = MADE[made](*data, given_others=False, approx="direct")
    assert former["rank"].equals(today["rank"])
    assert former.attrs["parameters"] == today.attrs["parameters"]
    assert {warning.filename for warning in told} == {__file__}
    today = MADE[made](*data, statistic="biased", max_expected_loss=0.2, memory_limit=10**10)
    with pytest.warns(
        DeprecationWarning, match=r"Pass (statistic|max_expected_loss|memory_limit)="
    ):
        former = MADE[made](*data, estimator="biased", tolerance=0.2, memory=10**10)
    assert former["rank"].equals(today["rank"])
    assert former.attrs["parameters"] == today.attrs["parameters"]
    with pytest.raises(InputError, match="approx= is the former name of solver="):
        MADE[made](*data, approx="direct", solver="direct")


FUNCTIONS = {
    "hsic": (dhsic.hsic, {"statistic": "biased"}),
    "rank": (lambda X, y, **by: dhsic.hsic(X, y, method="cholesky", **by), {"rtol": 1e-2}),
    "test": (
        lambda X, y, **by: dhsic.test_features(X, y, method="normal", **by).p_values.tolist(),
        {"bandwidth": "median", "statistic": "unbiased", "memory_limit": 10**10},
    ),
    "pca": (lambda X, y, **by: dhsic.pca(X, 2, **by).to_numpy().tolist(), {"memory_limit": 10**10}),
    "pairs": (
        lambda X, y, **by: dhsic.find_pairs(X, y, **by)["p_value"].to_numpy().tolist(),
        {"memory_limit": 10**10},
    ),
}
FORMER = {"statistic": "estimator", "rtol": "tolerance", "memory_limit": "memory"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_former_names(data, name):
    function, parameters = FUNCTIONS[name]
    today = function(*data, **parameters)
    with pytest.warns(DeprecationWarning, match="is called") as told:
        former = function(*data, **{FORMER.get(key, key): v for key, v in parameters.items()})
    assert former == today
    assert {warning.filename for warning in told} == {__file__}


def test_a_parameter_that_split_gets_the_name_of_its_method(data):
    with pytest.warns(DeprecationWarning, match=r"tolerance= is called tol= now"):
        model = dhsic.FeatureWeighting(tolerance=0.5)
    assert model.tol == 0.5
    assert model.identity()["tolerance"] == 0.5


@pytest.mark.parametrize(("level", "progress"), [(0, "auto"), (1, "log"), (2, "debug")])
def test_verbose_is_part_of_progress(level, progress):
    for selector in (dhsic.BAHSIC, dhsic.BAHSICCV):
        with pytest.warns(DeprecationWarning, match="verbose= is part of progress= now"):
            model = selector(verbose=level)
        untouched = selector().progress
        assert model.progress == (progress if level else untouched)


def test_plans_take_former_names(data):
    with pytest.warns(DeprecationWarning, match="solver="):
        former = dhsic.plan(*data, approx="exact")
    assert former.n_rounds == dhsic.plan(*data, solver="exact").n_rounds


def test_runs_are_known_to_checkpoints_by_the_first_names():
    identity = dhsic.BAHSIC(solver="exact", rerank=False).identity()
    assert (identity["approx"], identity["given_others"]) == ("exact", False)
    assert {"estimator", "tolerance"} <= {*identity}
    assert not {"solver", "rerank", "statistic", "max_expected_loss", "tol"} & {*identity}


def test_former_options_work_and_are_told(tmp_path):
    path = tmp_path / "g.vcz"
    run("simulate", path, "--samples", "60", "--variants", "200")
    command = ("select", path, "--target", "sample_trait", "-n", "3", "--step", "0.5")
    today = run(*command, "--no-rerank", "--solver=exact")
    former = run(*command, "--no-given-others", "--approx=exact")
    assert former.stdout == today.stdout
    assert "--no-given-others has been renamed to --no-rerank" in former.stderr
    assert "--approx has been renamed to --solver" in former.stderr
    loose = run(*command, "--tolerance=0.5", "--estimator=biased")
    assert "--tolerance has been renamed to --max-expected-loss" in loose.stderr
    assert loose.stdout == run(*command, "--max-expected-loss=0.5", "--statistic", "biased").stdout
