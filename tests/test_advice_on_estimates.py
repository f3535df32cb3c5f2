"""Advice in sentences about estimators, tests, kernels, pairs and plans, followed.

Each case names the function of the package that raises the error.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from advice_cases import (
    CLASSES,
    FRAME,
    NAMES,
    NUMBERS,
    Case,
    M,
    X,
    check,
    choosing,
    instead,
    leaving_out,
    passing,
    raising,
    select,
)

import dhsic
from dhsic.interactions import shares
from dhsic.kernels import Polynomial

EIGHT_CLASSES = np.repeat(np.arange(8), 3)
SAME_CLASS = np.equal.outer(CLASSES, CLASSES).astype(float)
ONE_CASE = np.arange(M) == 0
FIRST_THREE = dhsic.Filters(extract=["a", "b", "c"])


def feature_tests(data=X, target=CLASSES, **parameters):
    return dhsic.test_features(data, target, **parameters)


def interval(**parameters):
    return dhsic.hsic_test(X, CLASSES, **parameters).interval()


def hsic(X=X, Y=CLASSES, **parameters):
    return dhsic.hsic(X, Y, **parameters)


def hsic_test(X=X, Y=CLASSES, **parameters):
    return dhsic.hsic_test(X, Y, **parameters)


find_pairs = partial(dhsic.find_pairs, FRAME, CLASSES)
plan = partial(dhsic.plan, X, CLASSES)

#: Estimators, tests and kernels.
ESTIMATES = (
    Case(
        "hsic.py:check_statistic",
        select,
        {"data": X[:3], "target": CLASSES[:3]},
        (passing("statistic"),),
    ),
    Case(
        "hsic.py:check_statistic",
        hsic_test,
        {"X": X[:3], "Y": CLASSES[:3]},
        (passing("statistic"),),
    ),
    Case(
        "hsic.py:_check_left",
        select,
        {"target": ONE_CASE, "rerank": False},
        (passing("statistic"),),
    ),
    Case(
        "independence/__init__.py:test_features",
        feature_tests,
        {"loco": True, "features": [0, 1]},
        (leaving_out("loco"),),
    ),
    Case(
        "independence/__init__.py:_some_rows",
        feature_tests,
        {
            "data": FRAME,
            "target": pd.Series(CLASSES, index=NAMES),
            "filters": dhsic.Filters(keep=NAMES[:8]),
            "rows": [10, 11, 12, 13],
        },
        (leaving_out("rows", "filters"), instead("pass other rows", rows=[0, 1, 2, 3, 4])),
    ),
    Case(
        "independence/__init__.py:_features_left",
        feature_tests,
        {"data": FRAME, "filters": FIRST_THREE, "features": ["d"]},
        (
            instead("pass features that it keeps", features=["a"]),
            instead("or other filters", filters=None),
        ),
    ),
    Case(
        "independence/__init__.py:features_at",
        feature_tests,
        {"features": ["a"]},
        (instead("pass positions", features=[0]),),
    ),
    Case(
        "independence/estimate.py:hsic",
        hsic,
        {"Y": CLASSES, "normalize": True, "method": "blockwise"},
        (passing("method"),),
    ),
    Case(
        "independence/estimate.py:_form",
        hsic,
        {"Y": CLASSES, "rank": 3},
        (passing("method"), leaving_out("rank")),
    ),
    Case(
        "independence/estimate.py:_factored",
        hsic,
        {"Y": NUMBERS, "label_kernel": "gaussian", "method": "nystrom"},
        (passing("method"),),
        limits={"dhsic.independence.estimate.LABEL_ERROR": -1.0},
    ),
    Case(
        "independence/test.py:TestResult.interval",
        interval,
        {"method": "permutation"},
        (passing("method"),),
    ),
    Case(
        "independence/test.py:HsicTest.__post_init__",
        hsic_test,
        {"Y": CLASSES, "method": "normal", "statistic": "biased"},
        (passing("statistic"), passing("method")),
    ),
    Case(
        "independence/test.py:HsicTest.__post_init__",
        feature_tests,
        {"method": "gamma", "bandwidth": [0.1, 1.0]},
        (passing("method"), instead("pass one bandwidth", bandwidth=0.1)),
    ),
    Case(
        "independence/test.py:HsicTest._check_room",
        hsic_test,
        {"Y": NUMBERS, "label_kernel": "gaussian", "method": "gamma"},
        (passing("method"),),
        limits={"dhsic.independence.test.available_bytes": lambda: 1000},
    ),
    Case(
        "criteria/null.py:NullOf.of",
        feature_tests,
        {"data": X[:3], "target": CLASSES[:3], "statistic": "biased"},
        (passing("method"),),
    ),
    Case(
        "kernels/__init__.py:check_bandwidth",
        select,
        {"kernel": "linear", "bandwidth": 2.0},
        (passing("kernel"), leaving_out("bandwidth")),
    ),
    Case(
        "kernels/__init__.py:check_solver",
        select,
        {"kernel": "laplace", "solver": "lowrank"},
        (passing("solver"), leaving_out("solver")),
    ),
    Case(
        "kernels/__init__.py:check_overflow",
        hsic,
        {"Y": CLASSES, "kernel": "laplace-l1"},
        (passing("kernel"),),
    ),
    Case(
        "kernels/__init__.py:check_overflow",
        hsic_test,
        {"X": X * 1e30, "Y": CLASSES, "kernel": Polynomial(9)},
        (
            instead("Rescale the data", X=X),
            instead("kernel of a lower degree", kernel=Polynomial(2)),
        ),
    ),
    Case(
        "kernels/label_parts.py:ClassTarget.factor",
        hsic,
        {"Y": EIGHT_CLASSES, "label_kernel": "multiclass", "method": "nystrom"},
        (passing("method"),),
        limits={"dhsic.kernels.label_parts.MOST_DIRECTIONS": 2},
    ),
    Case(
        "kernels/label_parts.py:ClassTarget.factor",
        select,
        {"target": EIGHT_CLASSES, "label_kernel": "multiclass", "solver": "lowrank"},
        (passing("solver", "rerank"),),
        limits={"dhsic.kernels.label_parts.MOST_DIRECTIONS": 2},
    ),
    Case(
        "kernels/label_parts.py:GivenMatrix.factor",
        hsic,
        {"Y": SAME_CLASS, "label_kernel": "precomputed", "method": "nystrom"},
        (passing("method"),),
        limits={"dhsic.kernels.label_parts.MOST_DECOMPOSED": 10},
    ),
    Case(
        "kernels/label_parts.py:GivenMatrix.factor",
        select,
        {"target": SAME_CLASS, "label_kernel": "precomputed", "solver": "lowrank"},
        (passing("solver"),),
        limits={"dhsic.kernels.label_parts.MOST_DECOMPOSED": 10},
    ),
    Case(
        "kernels/labels.py:label_matrix",
        hsic,
        {"Y": CLASSES, "label_kernel": "self"},
        (instead("pass Y and another label kernel", label_kernel="auto"),),
    ),
    Case(
        "kernels/labels.py:_class_target",
        hsic,
        {"Y": NUMBERS, "label_kernel": "multiclass"},
        (passing("label_kernel"),),
    ),
    Case(
        "kernels/labels.py:_class_target",
        select,
        {"target": np.arange(M) % 3, "label_kernel": "binary"},
        (choosing("label_kernel"),),
    ),
    Case(
        "kernels/real_labels.py:_numbers",
        select,
        {"target": np.array([*"ab"] * (M // 2)), "label_kernel": "linear"},
        (passing("label_kernel"),),
    ),
    Case(
        "matrix.py:_sigma",
        partial(dhsic.kernel_matrix, X),
        {"bandwidth": [1.0, 2.0]},
        (choosing("bandwidth"), instead("one positive number", bandwidth=1.0)),
    ),
)

#: Decompositions, pairs, components and plans.
ANALYSES = (
    Case(
        "interactions/anova.py:KernelTerms.of",
        partial(shares, FRAME, X[:, 0] > 0),
        {"selection": ["a", "d"], "kernel": "laplace"},
        (passing("kernel"),),
    ),
    Case(
        "interactions/anova.py:shares_of",
        partial(shares, FRAME, X[:, 0] > 0),
        {"selection": ["a", "d"], "filters": FIRST_THREE},
        (instead("or fewer", filters=None),),
    ),
    Case(
        "pairs/test.py:Forecast.check",
        find_pairs,
        {"memory_limit": 1000},
        (raising("memory_limit"),),
    ),
    Case(
        "pairs/test.py:check_columns",
        find_pairs,
        {"label_kernel": "precomputed"},
        (choosing("label_kernel"),),
    ),
    Case(
        "pairs/test.py:check_main",
        partial(dhsic.find_pairs, X[:10], CLASSES[:10]),
        {"selection": [0, 1, 2, 3, 4, 5]},
        (instead("Pass fewer than 5 features", selection=[0, 1]),),
    ),
    Case(
        "plans/__init__.py:plan",
        plan,
        {"worker_threads": 2},
        (instead("pass n_workers= too", n_workers=1),),
    ),
    Case(
        "plans/__init__.py:plan_of",
        plan,
        {"n_features_to_select": "auto"},
        (instead("pass a number", n_features_to_select=2),),
    ),
    Case(
        "plans/__init__.py:_check_reach",
        plan,
        {"n_workers": 2},
        (leaving_out("n_workers"),),
        limits={"dhsic.runtime.dask.CLIENT_BYTES": 10},
    ),
    Case(
        "memory.py:MemoryEstimate.check", select, {"memory_limit": 1000}, (raising("memory_limit"),)
    ),
    Case(
        "relatedness.py:ComponentsRequest._check",
        partial(dhsic.pca, X),
        {"n_components": 40},
        (instead("at most 6 components; pass fewer", n_components=6),),
    ),
    Case(
        "relatedness.py:_components",
        partial(dhsic.pca, np.tile(X[:, :2], 3)),
        {"n_components": 4},
        (instead("the data have 2 components.* Pass fewer", n_components=2),),
    ),
    Case(
        "relatedness.py:chromosomes_of",
        select,
        {"method": "hsic", "target": NUMBERS, "loco": True},
        (leaving_out("loco"),),
    ),
)

CASES = (*ESTIMATES, *ANALYSES)


def selections():
    """Cases of selections that do not fit the data."""
    selection = select(FRAME)
    of_classes = select(FRAME, per_class=True)
    return (
        Case(
            "interactions/anova.py:_selected",
            find_pairs,
            {"selection": selection.drop_vars("selected")},
            (
                instead("pass a result of dhsic.select", selection=selection),
                instead("or positions of features", selection=[0, 1]),
            ),
        ),
        Case(
            "interactions/anova.py:_selected",
            find_pairs,
            {"selection": of_classes},
            (instead("pass one of them", selection=of_classes.isel(classes=0)),),
        ),
        Case(
            "interactions/anova.py:_selected",
            find_pairs,
            {"selection": select(X[:, :5])},
            (instead("pass a selection from the same data", selection=selection),),
        ),
        Case(
            "interactions/anova.py:_called",
            find_pairs,
            {"selection": select(FRAME.set_axis([*"uvwxyz"], axis=1))},
            (instead("from data with the same, unique names", selection=selection),),
        ),
    )


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.place}" for n, case in enumerate(CASES)])
def test_a_call_succeeds_once_its_advice_is_followed(case, monkeypatch):
    for name, value in case.limits.items():
        monkeypatch.setattr(name, value)
    check(case)


def test_selections_that_fit_are_accepted():
    for case in selections():
        check(case)
