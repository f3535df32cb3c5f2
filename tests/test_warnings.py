"""Warnings point at the line that called dhsic, whatever of it warns."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dhsic

M, D = 40, 30
RNG = np.random.default_rng(5)
X = RNG.normal(size=(M, D))
Y = X[:, 3] + RNG.normal(size=M)
COPY = np.concatenate([X, X[:1]])  # the first sample twice
LABELS = np.append(Y, Y[0])
SAYS = "in the data twice"
DOORS = {
    "select": lambda: dhsic.select(COPY, LABELS, n_features_to_select=2, progress=False),
    "test_features": lambda: dhsic.test_features(COPY, LABELS),
    "find_pairs": lambda: dhsic.find_pairs(COPY, LABELS),
    "fit": lambda: dhsic.BAHSIC(2, progress=False).fit(COPY, LABELS),
}


@pytest.mark.parametrize("door", DOORS)
def test_the_file_of_a_warning_is_that_of_the_caller(door):
    with pytest.warns(UserWarning, match=SAYS) as caught:
        DOORS[door]()
    assert {warning.filename for warning in caught} == {__file__}


def test_the_line_of_a_warning_is_that_of_the_call():
    y = np.resize([1, 2, 3, 4, 5, 1, 2, 3, 4, -1], M)
    with pytest.warns(UserWarning, match="values of y are -1") as caught:
        dhsic.select(X, y, n_features_to_select=2, progress=False)  # here
    line = Path(__file__).read_text().splitlines()[caught[0].lineno - 1]
    assert line.endswith("# here")


def test_plans_and_former_names_warn_at_the_caller():
    with pytest.warns(DeprecationWarning, match="rerank") as caught:
        dhsic.plan(X, Y, n_features_to_select=2, given_others=False)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(DeprecationWarning, match="rerank") as caught:
        dhsic.BAHSIC(2, given_others=False)
    assert {warning.filename for warning in caught} == {__file__}


def test_warnings_behind_other_packages_point_at_the_caller():
    frame = pd.DataFrame({"y": [0]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame.apply(lambda _: type(DOORS["select"]()))
    assert caught
    assert {warning.filename for warning in caught} == {__file__}
