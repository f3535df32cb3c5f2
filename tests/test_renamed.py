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
    with pytest.raises(InputError, match="approx= is the former name of solver="):
        MADE[made](*data, approx="direct", solver="direct")


def test_plans_take_former_names(data):
    with pytest.warns(DeprecationWarning, match="solver="):
        former = dhsic.plan(*data, approx="exact")
    assert former.n_rounds == dhsic.plan(*data, solver="exact").n_rounds


def test_runs_are_known_to_checkpoints_by_the_first_names():
    identity = dhsic.BAHSIC(solver="exact", rerank=False).identity()
    assert (identity["approx"], identity["given_others"]) == ("exact", False)
    assert not {"solver", "rerank"} & {*identity}


def test_former_options_work_and_are_told(tmp_path):
    path = tmp_path / "g.vcz"
    run("simulate", path, "--samples", "60", "--variants", "200")
    command = ("select", path, "--target", "sample_trait", "-n", "3", "--step", "0.5")
    today = run(*command, "--no-rerank", "--solver=exact")
    former = run(*command, "--no-given-others", "--approx=exact")
    assert former.stdout == today.stdout
    assert "--no-given-others is called --no-rerank now" in former.stderr
    assert "--approx is called --solver now" in former.stderr
