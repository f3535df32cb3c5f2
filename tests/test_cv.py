"""How many features: `BAHSICCV` and ``n_features_to_select="auto"``, against plain loops."""

import numpy as np
import pytest
import zarr
from commands import run
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import dhsic
from dhsic.errors import InputError
from dhsic.reports.sentences import order_of
from dhsic.selection.cross_validation import Scores

SIZES = [1, 2, 4, 8]


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((90, 20))
    y = (X[:, 4] + X[:, 7] + 0.3 * rng.standard_normal(90) > 0).astype(int)
    return X, y


def plain(X, y, splits, model, selector, C=None):
    """Scores in a loop: a ranking of its own a fold, of which the best n are taken."""
    C = np.empty((len(X), 0)) if C is None else C
    found = []
    for train, test in splits:
        asked = {"covariates": C[train]} if C.size else {}
        best = clone(selector).fit(X[train], y[train], **asked).ranking_.argsort()
        for n in SIZES:
            Z = np.hstack([C, X[:, best[:n]]])
            found.append(clone(model).fit(Z[train], y[train]).score(Z[test], y[test]))
    return np.reshape(found, (-1, len(SIZES)))


@pytest.mark.parametrize("kind", [dhsic.BAHSIC, dhsic.FOHSIC])
def test_scores_are_those_of_a_ranking_in_each_fold(problem, kind):
    X, y = problem
    C, people = X[:, [9]] + 0.1, np.arange(90) // 3
    selector = kind(8, progress=False, **({"step": 0.3} if kind is dhsic.BAHSIC else {}))
    for target, cv, model, asked in (
        (y, StratifiedKFold(3), LogisticRegression(), {}),
        (X[:, 3] + X[:, 9], GroupKFold(2), KNeighborsRegressor(), {"covariates": C}),
    ):
        groups = people if asked else None
        cvs = dhsic.BAHSICCV(model, selector=selector, n_features=SIZES, cv=cv, n_jobs=2)
        cvs.fit(X, target, groups=groups, **asked)
        expected = plain(X, target, cv.split(X, target, groups), model, selector, *asked.values())
        found = cvs.cv_results_
        assert_array_equal(found["n_features"], SIZES)
        for i, scores in enumerate(expected):
            assert_array_equal(found[f"split{i}_test_score"], scores)
        assert_allclose(found["mean_test_score"], expected.mean(axis=0))
        assert_allclose(found["std_test_score"], expected.std(axis=0))
        whole = clone(selector).set_params(n_features_to_select=cvs.n_features_)
        whole.fit(X, target, **asked)
        assert_array_equal(cvs.ranking_, whole.ranking_)
        assert_array_equal(cvs.transform(X), whole.transform(X))
        assert_array_equal(cvs.inverse_transform(cvs.transform(X)) != 0, cvs.support_ & (X != 0))


def test_the_fewest_within_one_standard_error_are_taken():
    scores = np.array([[0.6, 0.8, 0.82, 0.7], [0.7, 0.9, 0.92, 0.7], [0.5, 0.7, 0.73, 0.7]])
    found = Scores(np.array([1, 2, 4, 8]), scores)
    assert found.chosen("best") == 4
    assert found.chosen("one-standard-error") == 2
    assert Scores(np.array([1, 2]), np.array([[0.5, 0.6]])).chosen("one-standard-error") == 2


@pytest.mark.slow
def test_auto_finds_what_the_labels_depend_on(problem, tmp_path):
    """On arrays, on stores and the command line, and resumed: the same."""
    X, y = problem
    found = dhsic.BAHSIC("auto", step=0.5, progress=False).fit(X, y)
    assert found.get_support(indices=True).tolist() == [4, 7]
    assert found.cv_results_["n_features"].tolist() == [1, 2, 3, 4, 6, 8, 11, 16, 20]
    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    for name, values, dims in (("x", X, ("samples", "features")), ("y", y, ("samples",))):
        root.create_array(name, data=values, dimension_names=dims)
    place, out = str(tmp_path / "x.zarr"), str(tmp_path / "out.zarr")
    kept = ("--checkpoint", str(tmp_path / "run.dhsic"))
    asked = ("--variable", "x", "--target", "y", "-n", "auto", "--step", 0.5, "--out", out)
    for more in ((*kept, "--threads", 1), (*kept, "--threads", 2, "--force")):
        run("select", place, *asked, *more)
        again = dhsic.load(out)
        assert again.attrs["cv_results"] == found.result_.attrs["cv_results"]
        assert_array_equal(again["selected"], found.support_)
        assert any("chose 2 features: their mean score" in line for line in order_of(again))
    drawn = dhsic.plot.accuracy(again).get_legend().get_texts()
    assert drawn[1].get_text() == f"{again.attrs['cv_chosen']:,} chosen"
    with pytest.raises(InputError, match="a plan describes one ranking; pass a number"):
        dhsic.plan(place, "y", variable="x", n_features_to_select="auto")


@pytest.mark.slow
def test_classes_of_several_columns_count_whatever_their_numbers(rng):
    X, classes = rng.standard_normal((120, 12)), np.arange(120) % 4
    X[:, 0] += 3 * (classes == 1)
    X[:, 1] += 3 * (classes == 2)
    X[:, 2] += 3 * (classes == 3)
    scores = []
    for names in ([0, 1, 2, 3], [2, 0, 3, 1], ["d", "a", "c", "b"]):
        y = np.column_stack([np.array(names, dtype=object)[classes], X[:, 5]])
        model = dhsic.BAHSICCV(n_features=SIZES).fit(X, y)
        scores.append(model.cv_results_["mean_test_score"])
    assert scores[0][-1] > 0.4
    assert_allclose(scores[1], scores[0])
    assert_allclose(scores[2], scores[0])


def test_groups_of_features_are_counted_whole_and_missing_values_filled_in(problem):
    X, y = problem
    X[::7, 4] = np.nan
    genes = np.arange(20) // 2
    model = dhsic.BAHSICCV(LogisticRegression(), n_features=[1, 2, 5], cv=KFold(3), rule="best")
    model.fit(X, y, feature_groups=genes)
    assert model.n_features_ == 2
    assert model.get_support(indices=True).tolist() == [4, 5, 6, 7]


def test_it_takes_its_place_in_pipelines_and_searches(problem):
    X, y = problem
    pipe = make_pipeline(dhsic.BAHSICCV(cv=3, n_features=[1, 2]), LogisticRegression())
    grid = {"bahsiccv__selector": [dhsic.LinearHSIC(), dhsic.OnePass()]}
    with parallel_config(backend="threading"):
        assert GridSearchCV(pipe, grid, cv=2, n_jobs=2).fit(X, y).best_score_ > 0.8


def test_groups_of_samples_go_with_the_samples_that_are_left(problem):
    X, y = problem
    people, keep = np.arange(90) // 3, np.arange(90) % 9 < 6
    asked = {"n_features": [1, 2], "cv": GroupKFold(2), "selector": dhsic.LinearHSIC()}
    some = dhsic.BAHSICCV(**asked).fit(X, y, groups=people, filters=dhsic.Filters(keep=keep))
    alone = dhsic.BAHSICCV(**asked).fit(X[keep], y[keep], groups=people[keep])
    assert_array_equal(
        some.cv_results_["split1_test_score"], alone.cv_results_["split1_test_score"]
    )
    with pytest.raises(InputError, match=r"cv=GroupKFold.*inconsistent numbers of samples"):
        dhsic.BAHSICCV(**asked).fit(X, y, groups=people[:7])


@pytest.mark.parametrize(
    ("options", "labels", "words"),
    [
        ({"n_features": [1, 30]}, None, "there are 20 features; pass the numbers"),
        ({"rule": "fewest"}, None, "rule='fewest' is unknown; pass 'one-standard-error'"),
        ({"cv": 1}, None, "cv=1: k-fold"),
        (
            {"n_features": [1], "scoring": lambda *_: np.nan},
            None,
            "score of 1 features in fold 1 is nan",
        ),
        (
            {"selector": dhsic.BAHSIC(label_kernel="precomputed")},
            np.eye(90),
            "no labels to",
        ),
        ({}, np.ones(90), "so nothing can depend on them"),
        ({}, np.arange(80) % 2, "so 90 samples, but there are 80 labels"),
    ],
)
def test_what_cannot_be_gets_a_sentence(problem, options, labels, words):
    with pytest.raises(InputError, match=words):
        dhsic.BAHSICCV(**options).fit(problem[0], problem[1] if labels is None else labels)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks():
    check_estimator(dhsic.BAHSICCV(cv=2, n_jobs=1))
