"""Advice in sentences about parameters of methods and their stages, followed.

Each case names the function of the package that raises the error, or the beginning of the warning.
"""

import re

import numpy as np
import pytest
import xarray as xr
from advice_cases import (
    CLASSES,
    NUMBERS,
    Case,
    M,
    X,
    check,
    choosing,
    instead,
    leaving_out,
    passing,
    select,
)
from scipy.linalg.lapack import dpotrf

import dhsic

PAIRED = [0, 0, 1, 1, 2, 2]
PLACED = xr.DataArray(
    X,
    dims=("sample", "feature"),
    coords={"variant_contig": ("feature", ["1", "1", "2", "2", "0", "X"])},
    name="x",
)


def cross_validated(data=X, target=CLASSES, **parameters):
    return dhsic.BAHSICCV(progress=False, **parameters).fit(data, target)


def filtering(sentence, parameters):
    """Filter features as the sentence says."""
    code = re.search(r"filters=(dhsic\.Filters\(.*?\))", sentence)[1]
    return [{**parameters, "filters": eval(code, {"dhsic": dhsic})}]


def solves_if_well_conditioned(M, y, rtol):
    """Right-hand side and 0, or 1 if the diagonal of M is small, as conjugate gradients give."""
    del rtol
    return y, int(np.linalg.norm(M.matvec(y)) < 50 * np.linalg.norm(y))


def fails_if_large(matrix, **options):
    """Cholesky factor, which does not exist for a matrix with large entries."""
    factor, _ = dpotrf(matrix, **options)
    return factor, int(np.abs(matrix).max() > 1e6)


def lost_by_low_rank(history, n):
    """Expected loss, which is more than any allowance if a round was approximate."""
    return float(n) if any("expected_lost" in record for record in history) else 0.0


#: Methods of selection.
METHODS = (
    Case(
        "algorithms/ridge.py:inverse",
        select,
        {"data": X * 1e6, "kernel": "linear", "standardize": False, "rerank": True},
        (passing("standardize"), passing("rerank")),
        limits={"dhsic.algorithms.ridge.dpotrf": fails_if_large},
    ),
    Case(
        "criteria/features.py:resolve_width",
        select,
        {"method": "mmd", "bandwidth": [1.0, 2.0]},
        (choosing("bandwidth"), instead("one positive number", bandwidth=1.0)),
    ),
    Case(
        "passes/dependence.py:check_gains",
        select,
        {"bandwidth": 1e6, "standardize": False},
        (passing("bandwidth"),),
    ),
    Case(
        "passes/scorer.py:own_labels",
        select,
        {"label_kernel": "self", "bandwidth": [0.1, 1.0]},
        (instead("pass one bandwidth", bandwidth=0.1),),
    ),
    Case(
        "methods/bahsic.py:BAHSIC.check_samples",
        select,
        {"rerank": True, "label_kernel": "self"},
        (leaving_out("rerank"),),
    ),
    Case(
        "methods/bahsic.py:BAHSIC.check_samples",
        select,
        {"rerank": True, "feature_groups": PAIRED},
        (leaving_out("rerank"),),
    ),
    Case(
        "methods/bahsic.py:BAHSIC.check_samples",
        select,
        {"solver": "lowrank", "label_kernel": "self"},
        (leaving_out("solver"),),
    ),
    Case(
        "methods/base.py:Selector.check",
        select,
        {"control": "shadow", "n_features_to_select": "auto"},
        (
            instead("Pass a maximum number as n_features_to_select", n_features_to_select=2),
            instead("or None", n_features_to_select=None),
        ),
    ),
    Case(
        "methods/descent.py:width_of",
        select,
        {"method": "ccm", "bandwidth": [0.1, 1.0]},
        (choosing("bandwidth"), instead("or a number", bandwidth=0.1)),
    ),
    Case(
        "methods/descent.py:DescentSelector._check_converged",
        select,
        {"method": "ccm", "max_iterations": 1},
        (
            instead("Pass a larger max_iterations=", max_iterations=1000),
            instead("or a larger tol=", tol=1e3),
        ),
        begins="The weights have not converged",
    ),
    Case(
        "methods/ccm.py:CCM._objective",
        select,
        {"method": "ccm", "inverse": "none", "lambda_2": 1e-6},
        (passing("inverse"), instead("Pass a larger lambda_2", lambda_2=1e3)),
        begins="lambda_2=1e-06 is at most",
    ),
    Case(
        "methods/ccm.py:WithoutInverse._solved",
        select,
        {"method": "ccm", "inverse": "none"},
        (passing("inverse"), instead("pass a larger epsilon", epsilon=10.0)),
        limits={"dhsic.methods.ccm.cg": solves_if_well_conditioned},
    ),
    Case(
        "methods/weighting.py:ZeroNorm.steps",
        select,
        {"method": "weighting", "penalty": 1e30},
        (instead("Pass a smaller penalty", penalty=1e-6),),
        begins="All weights are 0",
    ),
    Case(
        "methods/fohsic.py:FOHSIC.check_samples",
        select,
        {"method": "fohsic", "strategy": "floating", "feature_groups": PAIRED},
        (leaving_out("strategy"),),
    ),
    Case(
        "methods/fohsic.py:FOHSIC._check_floating",
        select,
        {"method": "fohsic", "strategy": "floating", "kernel": "laplace-l1"},
        (passing("strategy"), instead("Pass another kernel", kernel="gaussian")),
    ),
    Case(
        "methods/fohsic.py:FOHSIC._check_floating",
        select,
        {"method": "fohsic", "strategy": "floating", "step": 2},
        (passing("strategy"), leaving_out("step")),
    ),
    Case(
        "methods/fohsic.py:FOHSIC._check_low_rank",
        select,
        {"method": "fohsic", "solver": "lowrank", "kernel": "linear"},
        (leaving_out("solver"),),
    ),
    Case(
        "methods/fohsic.py:FOHSIC._check_low_rank",
        select,
        {"method": "fohsic", "solver": "lowrank", "strategy": "floating"},
        (leaving_out("solver"),),
    ),
    Case(
        "methods/kernel.py:KernelSelector._check_statistic",
        select,
        {"solver": "lowrank", "feature_groups": PAIRED},
        (leaving_out("solver"),),
    ),
    Case(
        "methods/kernel.py:AbstractElimination._warn",
        select,
        {"solver": "lowrank"},
        (passing("solver"), instead("Pass a larger max_expected_loss=", max_expected_loss=1.0)),
        begins="Approximate rounds are expected",
        limits={"dhsic.methods.kernel.lost_of": lost_by_low_rank},
    ),
    Case(
        "methods/onepass.py:OnePass._check_together",
        select,
        {"method": "hsic", "control": "shadow"},
        (leaving_out("control"),),
    ),
    Case(
        "methods/onepass.py:OnePass._check_together",
        select,
        {"method": "pearson", "loco": True},
        (leaving_out("loco"),),
    ),
    Case(
        "methods/onepass.py:OnePass._by_chromosome",
        select,
        {"method": "hsic", "data": PLACED, "target": NUMBERS, "loco": True},
        (filtering,),
        begins="2 features are on X, Y, MT or an unknown chromosome",
    ),
    Case(
        "methods/onepass.py:_record",
        select,
        {"method": "mmd", "standardize": False, "bandwidth": 1e9},
        (passing("bandwidth"),),
    ),
    Case(
        "methods/onepass.py:_record",
        select,
        {"method": "kta", "data": X * 1e5, "standardize": False, "bandwidth": "dimension"},
        (passing("bandwidth"), passing("standardize")),
    ),
    Case(
        "methods/svmrfe.py:SVMRFE._check_rounds",
        select,
        {"method": "svm-rfe", "solver": "lowrank"},
        (choosing("solver"),),
    ),
    Case(
        "methods/svmrfe.py:_dual",
        select,
        {
            "method": "svm-rfe",
            "kernel": "linear",
            "penalty": 1.0,
            "data": X * 1e3,
            "standardize": False,
        },
        (passing("standardize"), instead("or a smaller penalty", penalty=1e-6)),
        limits={"dhsic.methods.svmrfe.MOST_STEPS": 1000},
    ),
)

#: Stages around the ranking.
STAGES = (
    Case(
        "selection/cross_validation.py:Validation.scores",
        cross_validated,
        {"data": X[:, :1]},
        (instead("pass more features", data=X),),
    ),
    Case(
        "selection/cross_validation.py:Validation._sizes",
        cross_validated,
        {"n_features": [10, 20], "cv": 2},
        (instead("pass the numbers of features to score, from 1 to 6", n_features=[1, 6]),),
    ),
    Case(
        "selection/cross_validation.py:Validation._folds",
        select,
        {"data": X[:7], "target": CLASSES[:7], "n_features_to_select": "auto"},
        (instead("pass a number of features, n_features_to_select=", n_features_to_select=2),),
    ),
    Case(
        "selection/cross_validation.py:Validation._folds",
        cross_validated,
        {"data": X[:8], "target": CLASSES[:8]},
        (passing("cv"),),
    ),
    Case(
        "selection/cross_validation.py:Scores.__post_init__",
        cross_validated,
        {"data": X[:8, :2], "target": NUMBERS[:8], "cv": 8, "scoring": "r2"},
        (
            instead("pass another scoring=", scoring="neg_mean_squared_error"),
            instead("or larger folds", cv=2),
        ),
    ),
    Case(
        "selection/cross_validation.py:_labels",
        select,
        {"n_features_to_select": "auto", "label_kernel": "self"},
        (instead("pass a number as n_features_to_select=", n_features_to_select=2),),
    ),
    Case(
        "selection/holdout.py:HoldOut.before",
        select,
        {"holdout": 0.3, "label_kernel": "self"},
        (leaving_out("holdout"),),
    ),
    Case(
        "selection/holdout.py:_mask",
        select,
        {"holdout": 0.99},
        (
            instead("Pass a fraction that leaves samples in both parts", holdout=0.5),
            instead("or a mask with one value per sample", holdout=np.arange(M) % 4 < 2),
        ),
    ),
    Case(
        "selection/multi_output.py:classes_of",
        select,
        {"target": np.repeat([0.5, 1.2, 2.5, 3.1], 6), "per_class": True, "rerank": False},
        (passing("label_kernel"), leaving_out("per_class")),
    ),
    Case(
        "selection/pair_scan.py:planned_scan",
        select,
        {"interactions": "best", "label_kernel": "self"},
        (leaving_out("interactions", "label_kernel"),),
    ),
    Case(
        "selection/rerank.py:_root",
        select,
        {
            "target": -np.outer(NUMBERS, NUMBERS),
            "label_kernel": "precomputed",
            "rerank": True,
            "statistic": "biased",
        },
        (leaving_out("rerank"),),
    ),
    Case(
        "selection/run.py:SelectionRun.check_sizes",
        select,
        {"method": "ccm", "label_kernel": "self"},
        (
            instead("Pass y and another label kernel", label_kernel="auto"),
            instead("or use BAHSIC", method="bahsic"),
            instead("FOHSIC", method="fohsic"),
            instead("or LinearHSIC", method="linear"),
        ),
    ),
    Case(
        "selection/shadows.py:Shadows.check_parameters",
        select,
        {"control": "shadow", "stability": 4},
        (leaving_out("control", "stability"),),
    ),
    Case(
        "selection/shadows.py:Shadows.before",
        select,
        {"control": "shadow", "label_kernel": "self"},
        (leaving_out("control", "label_kernel"),),
    ),
    Case(
        "selection/stability.py:Stability.check_parameters",
        select,
        {"stability": 5, "stability_threshold": 0.8},
        (instead("pass an even number as stability=", stability=4),),
    ),
    Case(
        "selection/stability.py:Stability.check",
        select,
        {"data": X[:6], "target": CLASSES[:6], "stability": 2},
        (passing("statistic"),),
    ),
    Case(
        "selection/stages.py:_resolved",
        select,
        {"stages": ["holdout"]},
        (instead("pass holdout=", stages=(), holdout=0.5),),
    ),
    Case(
        "selectors/__init__.py:select",
        select,
        {"per_class": True, "per_target": True},
        (instead("pass only one of them", per_target=False),),
    ),
    Case(
        "runtime/clients.py:connect",
        select,
        {"runtime": "dask"},
        (passing("runtime"),),
    ),
)

CASES = (*METHODS, *STAGES)


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case.place}" for n, case in enumerate(CASES)])
def test_a_call_succeeds_once_its_advice_is_followed(case, monkeypatch):
    for name, value in case.limits.items():
        monkeypatch.setattr(name, value)
    check(case)
