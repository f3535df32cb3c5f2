"""Selected on some samples, tested on others."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

import dhsic
from dhsic.cli import main
from dhsic.errors import InputError


def data(rng, m=90, d=12):
    X = rng.standard_normal((m, d))
    X[rng.random(X.shape) < 0.02] = np.nan
    return X, np.nan_to_num(X[:, 4]) + 0.5 * rng.standard_normal(m)


@pytest.mark.parametrize(
    "selector",
    [
        dhsic.BAHSIC(4, step=0.4, rerank=False),
        dhsic.OnePass(4, criterion="pearson"),
        dhsic.OnePass(4, criterion="hsic", label_kernel="linear"),
    ],
)
def test_it_is_a_selection_on_some_and_tests_on_others(rng, selector):
    X, y = data(rng)
    C = None if getattr(selector, "criterion", "") == "pearson" else rng.standard_normal((90, 2))
    mask = rng.random(90) < 0.4
    selector.set_params(holdout=mask, progress=False, stability=2)
    found = selector.fit(X, y, covariates=C).result_
    selector.set_params(holdout=None)
    alone = selector.fit(X[~mask], y[~mask], covariates=None if C is None else C[~mask]).result_
    kernel = "linear" if selector.label_kernel == "linear" else "auto"

    tests = dhsic.test_features(X, y, covariates=C, rows=mask, label_kernel=kernel)

    for name in ("rank", "score", "selected", "stability"):
        assert_array_equal(found[name], alone[name])
    chosen = np.flatnonzero(found["selected"])
    p = tests.p_values[chosen]
    adjusted = [min(min(1, pk * 4 / (p <= pk).sum()) for pk in p if pk >= pj) for pj in p]
    assert_allclose(found["p"][chosen], p, rtol=1e-5)
    assert_allclose(found["q"][chosen], adjusted, rtol=1e-5)
    assert found["p"].count() == found["q"].count() == 4
    assert (found.attrs["n_samples"], found.attrs["n_held_out"]) == ((~mask).sum(), mask.sum())


def test_p_values_of_what_noise_selects_are_those_of_noise(rng):
    """On the samples that selected them they would be below 0.05 all of them."""
    p = []
    for run in range(15):
        X, y = rng.standard_normal((60, 200)), np.arange(60) % 2
        model = dhsic.OnePass(5, criterion="t", holdout=0.5, random_state=run, progress=False)
        found = model.fit(X, y).result_
        p += found["p"].to_numpy()[model.support_].tolist()
        assert found.attrs["n_held_out"] == 30
    assert abs(np.mean(np.array(p) < 0.2) - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 75)


def test_from_the_command_line_with_samples_that_take_no_part(rng, tmp_path):
    X, y = data(rng, m=60)
    frame = pd.DataFrame(np.column_stack([X, y]), index=[f"s{i}" for i in range(60)])
    frame.columns = [*(f"g{j}" for j in range(12)), "trait"]
    frame.iloc[7, -1] = np.nan
    frame.to_csv(tmp_path / "x.csv")
    asked = ["select", str(tmp_path / "x.csv"), "--target", "trait", "--drop-missing", "-n", "3"]
    out = ["--holdout", "0.25", "--out", str(tmp_path / "x.tsv"), "--json"]

    told = CliRunner().invoke(main, [*asked, "--method", "pearson", *out])

    assert told.exit_code == 0, told.output
    selected = json.loads(told.stdout)["selected"]
    assert selected[0]["name"] == "g4"
    assert pd.read_csv(tmp_path / "x.tsv", sep="\t")["q"].notna().sum() == 3
    words = CliRunner().invoke(main, [*asked, "--method", "pearson", "--holdout", "0.25"])
    assert "selected features have, on the 15 held-out samples, q <= 0.05" in " ".join(
        words.output.split()
    )


@pytest.mark.parametrize(
    ("holdout", "match"),
    [
        (1.5, "fraction of the samples to hold out, such as 0.3"),
        (np.arange(90), r"array of int64 \(90,\)"),
        (np.ones(7, dtype=bool), "holds out 7 of 7 samples, and the data have 90"),
        (np.zeros(90, dtype=bool), "holds out 0 of 90"),
        (0.01, "holds out 1 of 90 samples, which cannot"),
    ],
)
def test_what_holds_out_nothing_to_test_on_gets_a_sentence(rng, holdout, match):
    X, y = data(rng)
    with pytest.raises(InputError, match=match):
        dhsic.LinearHSIC(3, holdout=holdout, progress=False).fit(X, y)


def test_labels_that_are_the_data_are_not_tested(rng):
    with pytest.raises(InputError, match="label_kernel='self'"):
        dhsic.LinearHSIC(3, label_kernel="self", holdout=0.5).fit(data(rng)[0])
