"""Every method by its name: from Python and the command line, on threads and Dask, and resumed."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal

import dhsic
from dhsic.cli import main
from dhsic.criteria import CRITERIA
from dhsic.errors import InputError
from dhsic.runtime.dask import DaskRuntime
from dhsic.selectors import METHODS, parameters_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("methods") / "g.vcz"
    outcome = CliRunner().invoke(
        main, ["simulate", str(path), "--samples", "40", "--variants", "112", "--seed", "3"]
    )
    assert outcome.exit_code == 0, outcome.output
    return str(path)


@pytest.mark.parametrize("method", METHODS)
def test_same_from_python_command_line_dask_and_checkpoint(method, store, client, tmp_path):
    result = dhsic.select(
        store, "sample_trait", method=method, n_features_to_select=7, progress=False
    )
    ranks = result["rank"].to_numpy()
    assert sorted(ranks) == list(range(1, 113))
    assert result["score"].attrs["long_name"]

    dask = dhsic.select(
        store,
        "sample_trait",
        method=method,
        n_features_to_select=7,
        progress=False,
        runtime=DaskRuntime(client),
    )
    assert_array_equal(ranks, dask["rank"])

    run, kept = CliRunner().invoke, str(tmp_path / "run.dhsic")
    options = ["select", store, "--target", "sample_trait", "-n", "7", "--method", method, "--json"]
    first = run(main, [*options, "--checkpoint", kept])
    assert first.exit_code == 0, first.output
    chosen = [row["index"] for row in json.loads(first.stdout)["selected"]]
    assert chosen == np.argsort(ranks)[:7].tolist()
    again = run(main, ["resume", kept, "--json"])
    assert json.loads(again.stdout)["selected"] == json.loads(first.stdout)["selected"]


def test_settings_reach_the_method(store):
    run = CliRunner().invoke
    options = ["select", store, "--target", "sample_trait", "-n", "4", "--method"]
    floating = run(main, [*options, "fohsic", "--set", "strategy=floating"])
    assert "floating FOHSIC" in floating.stderr
    soft = run(main, [*options, "ccm", "--set", "constraint=soft", "--set", "epsilon=0.1"])
    assert soft.exit_code == 0, soft.output
    assert "epsilon 0.1" in soft.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["bahsic", "--set", "epsilon=1"],
            "--set does not accept epsilon for --method bahsic, which has no settings",
        ),
        (["ccm", "--set", "epsilon"], "has no value; pass --set epsilon=VALUE"),
        (["bahsic", "--set", "kernel=linear"], "which has its own option: pass --kernel VALUE"),
        (["ccm", "--set", "epsilon=-1"], "--set epsilon=-1"),
        (["t", "--step", "0.5"], "--step does not apply to --method t"),
        (["ccm", "--groups", "variant_contig"], "--groups does not apply to --method ccm"),
    ],
)
def test_options_that_a_method_does_not_have_get_a_sentence(store, options, words):
    base = ["select", store, "--target", "sample_trait", "-n", "4", "--method"]
    outcome = CliRunner().invoke(main, [*base, *options])
    assert outcome.exit_code == 2, outcome.output
    assert words in outcome.stderr


def test_parameters_of_methods():
    assert set(CRITERIA) < set(METHODS)
    assert "criterion" not in parameters_of("pearson")
    with pytest.raises(InputError, match="method='best' is unknown; pass one of bahsic, fohsic"):
        parameters_of("best")
