"""Selectors among scikit-learn's own: its checks, pipelines, cross-validation, sparse matrices."""

from itertools import pairwise

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from joblib import Parallel, delayed
from numpy.testing import assert_array_equal
from scipy.sparse import coo_array, csc_matrix, csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import dhsic
from dhsic.criteria import CRITERIA
from dhsic.kernels.labels import LABEL_KERNELS
from dhsic.runtime.cores import threads_of

QUIET = {"progress": False, "runtime": "threads"}
CLASSES = (dhsic.BAHSIC, dhsic.FOHSIC, dhsic.LinearHSIC, dhsic.CCM, dhsic.SVMRFE,
           dhsic.FeatureWeighting, dhsic.OnePass)  # fmt: skip


#: Checks of weights that are not equal, with a few samples: many methods refuse such weights, and
#: the test of single features refuses so few samples.
UNEQUAL_WEIGHTS = {
    f"check_sample_weight{name}": "unequal weights of 15 samples are refused"
    for name in (
        "s_not_overwritten",
        "_equivalence_on_dense_data",
        "_equivalence_on_sparse_data",
    )
}


def failing_checks(model):
    """Checks that fail; BAHSIC re-ranks repeated samples, which it does not do with weights."""
    equivalence = {name: "ranked by HSIC alone" for name in UNEQUAL_WEIGHTS if "equiv" in name}
    takes_weights = {dhsic.BAHSIC: equivalence, dhsic.LinearHSIC: {}}
    return takes_weights.get(type(model), UNEQUAL_WEIGHTS)


@parametrize_with_checks(
    [  # of classes, with weights, and of two classes
        dhsic.BAHSIC(2, **QUIET),
        dhsic.LinearHSIC(2, **QUIET),
        dhsic.OnePass(2, criterion="t", **QUIET),
    ],
    expected_failed_checks=failing_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def changing_labels():
    """All selectors, with every value of every option that says what labels they take."""
    for kind in CLASSES:
        kernels = LABEL_KERNELS if "label_kernel" in kind().get_params() else ("auto",)
        for kernel in kernels:
            criteria = CRITERIA if kind is dhsic.OnePass and kernel == "auto" else ("hsic", "kta")
            for criterion in criteria if kind is dhsic.OnePass else (None,):
                asked = {} if kernel == "auto" else {"label_kernel": kernel}
                model = kind(2, **asked, **({"criterion": criterion} if criterion else {}), **QUIET)
                if kernel != "self" or kind.takes_self:
                    yield model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [*changing_labels(), dhsic.BAHSIC(2, missing="error", **QUIET)])
def test_scikit_learn_checks_whatever_labels_are_asked_for(model):
    check_estimator(model, expected_failed_checks=UNEQUAL_WEIGHTS)


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((80, 30))
    y = (X[:, 4] + 0.3 * rng.standard_normal(80) > 0).astype(int)
    return X, y


@pytest.mark.parametrize("kind", [csr_array, csc_matrix, coo_array])
def test_sparse_matrices_stay_sparse_there_and_back(problem, kind):
    X, y = problem
    X = np.where(np.abs(X) > 0.5, X, 0)
    dense, model = (dhsic.BAHSIC(3, **QUIET).fit(given, y) for given in (X, kind(X)))
    assert_array_equal(model.ranking_, dense.ranking_)
    some = model.transform(kind(X))
    assert_array_equal(some.toarray(), dense.transform(X))
    assert_array_equal(
        model.inverse_transform(some).toarray(), dense.inverse_transform(some.todense())
    )
    with pytest.raises(dhsic.InputError, match="fitted on 30 features"):
        model.transform(kind(X[:30, :29]))  # as many samples as features
    assert make_pipeline(model, LogisticRegression()).fit(kind(X), y).score(kind(X), y) > 0.5


def test_selected_features_go_back_to_their_places(problem):
    X, y = problem
    X[0, 4] = np.nan
    model = dhsic.BAHSIC(3, **QUIET).fit(X, y)
    expected = np.where(model.support_, X, 0)
    lazy = model.inverse_transform(model.transform(da.from_array(X, chunks=(40, 7))))
    assert isinstance(lazy, da.Array)
    for found in (lazy, model.inverse_transform(model.transform(X))):
        assert_array_equal(found, expected)
    with pytest.raises(dhsic.InputError, match=r"shape \(80, 30\), but 3 features are selected"):
        model.inverse_transform(X)


def genotypes(rng, place):
    """A store of dosages, variants first, with names and what is missing; and the dosages."""
    X = rng.integers(0, 3, (60, 40)).astype(np.int8)
    X[3, 5] = X[7, 11] = -1
    root = zarr.open_group(place, mode="w")
    of = {"x": (X.T, ("variants", "samples")), "y": ((X[:, 11] > 0).astype(int), ("samples",))}
    for name, (values, dims) in of.items():
        root.create_array(name, data=values, dimension_names=dims)
    return X, of["y"][0]


@pytest.mark.filterwarnings("ignore:X .* 0, 1 and 2")
def test_a_pipeline_goes_on_with_a_path_and_a_dataset(rng, tmp_path):
    """Of two selectors, and what comes behind gets samples first, and NaN where they miss."""
    place = str(tmp_path / "x.zarr")
    X, y = genotypes(rng, place)
    steps = dhsic.LinearHSIC(10, **QUIET), dhsic.BAHSIC(2, **QUIET)
    for given in (place, xr.open_zarr(place, mask_and_scale=False, consolidated=False)):
        first, second = (clone(step) for step in steps)
        asked = {"linearhsic__variable": "x"}
        pipe = make_pipeline(first, second).fit(given, y, **asked)
        out = pipe.transform(given)
        assert isinstance(out.data, da.Array)
        chosen = np.flatnonzero(first.support_)[second.support_]
        assert 11 in chosen
        assert_array_equal(out, np.where(X < 0, np.nan, X)[:, chosen])


@pytest.mark.filterwarnings("ignore:X .* 0, 1 and 2")
def test_what_filters_left_out_is_left_out_again(rng, tmp_path):
    place = str(tmp_path / "x.zarr")
    X, y = genotypes(rng, place)
    some = np.arange(40) % 3 == 2
    filters = dhsic.Filters(extract=some, keep=np.arange(60) < 50)
    for given, values in ((place, np.where(X < 0, np.nan, X)), (X, X)):
        asked = {} if given is X else {"variable": "x"}
        model = dhsic.BAHSIC(2, missing="mean", **QUIET).fit(given, y, filters=filters, **asked)
        chosen = np.flatnonzero(some)[model.support_]
        assert 11 in chosen
        assert_array_equal(model.transform(given), values[:, chosen])
        assert_array_equal(model.get_support(indices=True), chosen)
        assert model.inverse_transform(model.transform(X)).shape == X.shape


def test_a_worker_of_joblib_draws_no_bar(problem, capsys):
    told = []
    models = [dhsic.BAHSIC(3, step=0.5, progress=progress) for progress in (True, told.append)]
    Parallel(n_jobs=2, backend="threading")(delayed(model.fit)(*problem) for model in models)
    assert told
    assert "features" not in capsys.readouterr().err
    models[0].fit(*problem)
    assert "features" in capsys.readouterr().err


def test_threads_are_one_in_a_worker_of_joblib(problem):
    workers = Parallel(n_jobs=2, backend="threading")
    assert workers(delayed(threads_of)(n) for n in (None, 3)) == [1, 3]
    assert threads_of(None) is None
    found = [dhsic.BAHSIC(3, n_jobs=n, progress=False).fit(*problem).scores_ for n in (1, 2, -1)]
    assert all((one == other).all() for one, other in pairwise(found))
    for wrong in (0, 1.5, True):
        with pytest.raises(dhsic.InputError, match=r"n_jobs=.*a number of threads"):
            dhsic.BAHSIC(3, n_jobs=wrong).fit(*problem)


def test_rounds_are_told(problem, capsys):
    model = dhsic.BAHSIC(3, progress="log").fit(*problem)
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("round ") for line in lines) == model.n_iter_
    dhsic.BAHSIC(3, progress=False).fit(*problem)
    assert capsys.readouterr().err == ""


def test_covariates_and_sample_groups_go_where_they_belong(problem):
    """By scikit-learn's routing: covariates fold by fold, groups of samples to the splits."""
    X, y = problem
    C, people = X[:, [4]], np.arange(80) // 4
    heard = []

    class Heard(dhsic.LinearHSIC):
        def fit(self, X, y=None, *, covariates=None, **options):
            heard.append(len(covariates))
            return super().fit(X, y, covariates=covariates, **options)

    with config_context(enable_metadata_routing=True):
        model = make_pipeline(
            Heard(2, **QUIET).set_fit_request(covariates=True), LogisticRegression()
        )
        params = {"covariates": C, "groups": people}
        cross_val_score(model, X, y, cv=GroupKFold(4), params=params)
        assert heard == [60] * 4
        search = GridSearchCV(model, {"heard__n_features_to_select": [1, 2]}, cv=GroupKFold(2))
        search.fit(X, y, **params)
    plain = GridSearchCV(dhsic.BAHSIC(2, **QUIET), {"step": [0.5]}, cv=GroupKFold(2),
                         scoring=lambda model, X, y: model.support_[4])  # fmt: skip
    assert plain.fit(X, y, groups=people).best_score_ == 1


def test_names_of_a_frame_are_those_of_its_features(problem):
    X, y = problem
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(30)])
    model = dhsic.BAHSIC(1, **QUIET).set_output(transform="pandas")
    assert list(model.fit_transform(frame, y)) == ["gene4"]
