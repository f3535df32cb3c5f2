"""What notebooks show: HTML that is whole and escaped, best features on top, and a live curve."""

import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dhsic
from dhsic import notebook
from dhsic.errors import InputError

X = np.random.default_rng(0).standard_normal((40, 30))
Y = X[:, 3] > 0
NAMES = [f"<b>{j}&" for j in range(30)]
QUIET = {"n_features_to_select": 3, "progress": False}


class Structure(HTMLParser):
    """Tags that are open, cells of tables, and all that is said."""

    def __init__(self, page):
        super().__init__()
        self.open, self.cells, self.said = [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] in (["td"], ["th"]):
            self.cells.append(data)
        self.said += "" if "style" in self.open else data


@pytest.fixture(scope="module")
def result():
    return dhsic.select(pd.DataFrame(X, columns=NAMES), Y, step=0.3, **QUIET)


def test_a_result_is_a_table_of_its_best_features(result):
    page = result.dhsic._repr_html_()
    told = Structure(page)
    best = dhsic.selected_features(result)["feature"].values[0]
    assert told.cells[told.cells.index("name") :].index(best) < 10
    assert "bahsic: 3 of 30 features selected" in told.said
    assert "<polyline" in page
    assert "<b>" not in page


def test_its_table_is_that_which_is_saved(result, tmp_path):
    dhsic.save(result, tmp_path / "all.csv")
    saved = pd.read_csv(tmp_path / "all.csv")
    pd.testing.assert_frame_equal(result.dhsic.table(), saved, check_dtype=False)
    assert len(result.dhsic.table(4)) == 4


def test_runs_stand_side_by_side():
    y = {f"run {i}": X[:, i] > 0 for i in range(8)}
    found = dhsic.select(X, y, per_target=True, step=0.5, **QUIET)
    told = Structure(found.dhsic._repr_html_())
    assert told.cells[:6] == ["run 0", "run 1", "run 2", "run 3", "run 4", "run 5"]
    assert "..." in told.cells
    assert len(found.dhsic.table()) == 30


def test_other_datasets_have_none():
    with pytest.raises(InputError, match="is no result of a selection"):
        _ = xr.Dataset().dhsic


def test_tests_and_sources_are_tables():
    told = Structure(dhsic.test_features(pd.DataFrame(X, columns=NAMES), Y)._repr_html_())
    assert told.cells[:6] == ["feature", "name", "HSIC", "p", "p adjusted", "shape"]
    source = dhsic.open_source(X)
    assert (
        repr(source)
        == "<ArraySource: samples 40, features 30, values float64, missing NaN, in memory>"
    )
    assert "float64" in Structure(source._repr_html_()).cells


@pytest.fixture
def shown(monkeypatch):
    """Pages that a notebook shows, one after the other."""
    pages = []
    handle = SimpleNamespace(update=pages.append)
    display = SimpleNamespace(
        HTML=str, display=lambda page, display_id: pages.append(page) or handle
    )
    kernel = SimpleNamespace(kernel=None)
    python = SimpleNamespace(get_ipython=lambda: kernel, display=display)
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(notebook, "EVERY", 0.0)
    return pages


@pytest.mark.parametrize("target", [Y, {"a": Y, "b": X[:, 4] > 0}])
def test_a_run_in_a_notebook_is_followed(shown, target):
    many = isinstance(target, dict)
    dhsic.select(X, target, per_target=many, step=0.3, n_features_to_select=3)
    first, last = Structure(shown[0]), Structure(shown[-1])
    assert "0%" in first.said
    assert "100%" in last.said
    assert many or ("<polyline" in shown[-1] and "round " in last.said)


def test_a_picture_is_drawn_now_and_then_only(shown, monkeypatch):
    monkeypatch.setattr(notebook, "EVERY", 60.0)
    dhsic.select(X, Y, step=1, n_features_to_select=3)
    assert len(shown) == 2  # the first, and the last
