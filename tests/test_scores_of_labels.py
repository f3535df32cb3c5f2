"""Scores and predictions that were computed from classes are told; genes that differ are not."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.selection.suspects import is_score

M, D = 50, 40
LIKE = "by wide gaps, like"
DATA = Path(__file__).parents[2] / "shared/data"


def expression(rng):
    """Values (m, d) in which three genes differ between two classes, and the classes."""
    ill = np.arange(M) % 2 == 1
    X = rng.normal(8, 1, (M, D))
    X[:, :3] += np.outer(ill, [4, 3, 2])
    return X, np.where(ill, "case", "control")


def predictions(X, y, penalty=0.1):
    """Decision values of kernel ridge regression, of the samples that it has learnt from."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    K = Z @ Z.T / Z.shape[1]
    return K @ np.linalg.solve(K + penalty * np.eye(len(K)), np.where(y == y[0], -1.0, 1.0))


def messages(X, y, **more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        more = {"n_features_to_select": 5, "progress": False, "interactions": None} | more
        dhsic.select(X, y, **more)
    return [str(each.message) for each in caught if LIKE in str(each.message)]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("is_probability", [False, True])
def test_a_score_of_the_classes_is_told_and_left_out_by_the_statement(sign, is_probability, rng):
    X, y = expression(rng)
    score = sign * predictions(X, y, 0.01)
    with_score = np.column_stack([X, 1 / (1 + np.exp(-5 * score)) if is_probability else score])
    (message,) = messages(with_score, y)
    assert f"Feature {D}, among the best features, separates all classes" in message
    scope = {"X": with_score, "numpy": np}
    exec(re.search(r"exclude it: (X = .*)\.$", message)[1], scope)
    assert not messages(scope["X"], y)


@pytest.mark.filterwarnings("default")
def test_a_score_and_its_probability_are_told_together_on_the_command_line(rng, tmp_path):
    X, y = expression(rng)
    score = predictions(X, y, 0.01)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(D)]).assign(
        risk=score, probability=1 / (1 + np.exp(-4 * score)), status=y
    )
    frame.to_csv(tmp_path / "x.csv", index_label="id")
    words = ["test", tmp_path / "x.csv", "--target", "status", "--no-progress"]
    said = told(run(*words))
    assert "'risk', 'probability', among the best features, separate all classes" in said
    assert "like scores or predictions that were computed from them" in said
    options = re.search(r"exclude them: (--not-feature .*?)\.( |$)", said)[1]
    assert LIKE not in told(run(*words, *options.split()))


def test_many_features_that_separate_classes_are_no_scores(rng):
    X, y = expression(rng)
    X[:, :6] += 12 * (y == "case")[:, None]  # as genes of Y do in men and women
    assert is_score(X[:, 0], y, D)
    assert not messages(X, y)


def test_genes_that_separate_classes_without_wide_gaps_are_no_scores(rng):
    y = np.arange(M) % 2
    strong = rng.normal(size=(2000, M)) + 5 * y
    assert sum(is_score(x, y, 2000) for x in strong) < 5
    few = np.repeat([0, 1], [4, 46])  # a class of few samples may be apart by chance
    assert not is_score(rng.normal(size=M) + 50 * few, few, D)
    assert not is_score(10.0 * y, y, D)  # a code, which has a sentence of its own
    assert not is_score(np.where(y, np.nan, 1.0), y, D)
    three = np.arange(60) % 3
    assert is_score(9 * ((three + 1) % 3) + rng.random(60), three, D)


@pytest.mark.skipif(not DATA.is_dir(), reason="real data are not part of the project")
@pytest.mark.parametrize(
    "name", ["colon_alon", "leukaemia_golub", "breast_west_er_soto", "lymphoma_alizadeh"]
)
def test_microarrays_have_no_scores_unless_planted(name):
    arrays = np.load(DATA / f"microarray/{name}.npz", allow_pickle=False)
    X, y = arrays["X"].astype(float), arrays["y"]
    classes = np.unique(y)
    assert not any(is_score(x, (y == c) * 1, X.shape[1]) for x in X.T for c in classes)
    one = (y == classes[0]) * 1
    assert is_score(predictions(X, one, 0.01), one, X.shape[1])
