"""The runner that makes the papers' tables again: what it files, computes, and goes on with."""

import multiprocessing
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reproduce import judges, papers, protocols
from reproduce.beside import tables_3_and_4
from reproduce.cache import Cache, checksum
from reproduce.cells import Cell
from reproduce.comparison import (
    critical_difference,
    friedman,
    holm,
    overlap,
    paired,
    ranks_of,
    stability,
)
from reproduce.experiments import DRAWN, EXPERIMENTS, LEFT_OUT, QUICK_SETS, planned
from reproduce.methods import DEFAULT, METHODS, standardised
from reproduce.rivals import clumped_f_test, l1, rfe
from reproduce.running import work
from reproduce.sets import CLASSES, SCIKIT_FEATURE, SETS, Data, Matlab, Recipe
from reproduce.standings import Standings
from scipy.io import savemat
from scipy.spatial.distance import pdist

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
KEY, VERSIONS = {"data": "a", "method": "b"}, {"dhsic": "1"}


def test_a_result_counts_for_its_versions(tmp_path):
    cache = Cache(tmp_path)
    assert cache.read(KEY, VERSIONS) is None
    cache.write(KEY, VERSIONS, [1.5, None])
    assert cache.read(KEY, VERSIONS) == [1.5, None]
    assert cache.read(KEY | {"data": "c"}, VERSIONS) is None
    assert cache.read(KEY, {"dhsic": "2"}) is None
    assert replace(cache, stale=True).read(KEY, {"dhsic": "2"}) == [1.5, None]
    cache.write(KEY, {"dhsic": "2"}, [2.5])
    assert cache.read(KEY, VERSIONS) is None


def test_a_torn_result_is_none(tmp_path):
    cache = Cache(tmp_path)
    cache.write(KEY, VERSIONS, [1.5])
    (path,) = tmp_path.rglob("*.json")
    path.write_text(path.read_text()[:-5])
    assert cache.read(KEY, VERSIONS) is None


def test_checksums_tell_values_types_and_shapes_apart():
    x = np.arange(6)
    others = x.reshape(2, 3), x.astype(np.int32), x[::-1], x[:5]
    assert len({checksum(a) for a in (x, *others)}) == 5
    assert checksum(x) == checksum(x.copy())


def test_ranks_are_those_of_demsar():
    """Demsar (2006), JMLR 7, 3.2.2: four methods on fourteen sets."""
    mean = np.array([3.143, 2.000, 2.893, 1.964])
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)
    assert critical_difference(2, 14, level=0.05) == pytest.approx(1.960 / np.sqrt(14), abs=0.001)
    # F_F = 3.69 with 3 and 39 degrees of freedom.
    assert friedman(mean, 14) == pytest.approx(0.0197, abs=0.0005)


def test_what_failed_ranks_last_and_equals_share():
    found = ranks_of(np.array([[0.9, 0.9, 0.1, np.nan], [0.3, 0.2, np.nan, np.nan]]))
    np.testing.assert_allclose(found.mean, [1.25, 1.75, 3.25, 3.75])


def test_paired_tests_leave_out_what_one_lacks():
    ours, theirs = np.array([3.0, 5.0, np.nan, 4.0]), np.array([1.0, 4.0, 9.0, 4.0])
    found = paired(ours, theirs)
    assert (found.difference, found.won, found.n) == (1.0, 2, 3)
    assert np.isnan(paired(ours[:1], theirs[:1]).p)
    assert paired(ours[:2], ours[:2]).p == 1


def test_holm_corrects_in_order():
    np.testing.assert_allclose(
        holm([0.01, 0.04, np.nan, 0.03, 0.005]), [0.03, 0.06, np.nan, 0.06, 0.02]
    )


def test_stability_and_overlap_of_folds():
    orders = [[1, 2, 3], [2, 1, 4], [1, 5, 2]]
    assert overlap(orders, 2) == 1
    assert stability(orders, 2) == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert np.isnan(stability(orders[:1], 2))


def test_everything_declared_is_there():
    for name, one in EXPERIMENTS.items():
        assert set(one.sets) <= set(SETS), name
        assert set(one.all_methods) <= set(METHODS), name
        assert set(QUICK_SETS[name]) <= set(one.sets), name
        assert one.all_methods, name
    assert set(LEFT_OUT) <= set(METHODS)
    assert len(set(CLASSES)) == len(CLASSES) >= 15
    assert list(planned(quick=True, has_data=False)) == [*DRAWN, "classes"]


def test_the_papers_numbers_have_places():
    absent = {"musk", "german", "gissette", "usps"}
    assert {name for name, _ in papers.TABLE_1} - set(SETS) == absent
    assert {name for name, _ in papers.TABLES_3_AND_4} <= set(EXPERIMENTS["tables3and4"].sets)
    assert papers.TABLE_1["arcene", "RFE"] == (34.0, 4.5)
    assert ("satimage", "ReliefF") not in papers.TABLE_1
    assert ("adult", "R2W2") not in papers.TABLE_1
    assert papers.TABLES_3_AND_4["colon", "BAHSIC"] == (9.5, 6)


def test_a_recipe_leaves_out_what_it_says(tmp_path):
    X = np.array([[1, 7, 0], [2, 7, 0], [3, 7, 1], [4, 8, 0]], dtype=np.int8)
    path = tmp_path / "some.npz"
    np.savez(path, X=X, y=np.array([1.0, np.nan, 2.0, 3.0]), task="regression", split=[0, 0, 0, 1])
    data = Recipe("some", without=(0,), split=0).read("some", tmp_path)
    assert data.is_real
    assert data.X.tolist() == [[0], [1]]  # 7 does not vary any more, and a target is missing
    assert data.y.tolist() == [1, 2]
    assert data.X.dtype == np.int8


def test_a_class_is_told_from_the_rest(tmp_path):
    path = tmp_path / "some.npz"
    np.savez(path, X=np.arange(4)[:, None], y=[7, 5, 9, 5], task="multiclass")
    data = Recipe("some", one=0).read("some", tmp_path)
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.task == "binary"


def test_files_of_matlab_are_read(tmp_path):
    X = np.array([[1, 7, 0], [2, 7, 0], [3, 7, 1]], dtype=np.uint8)
    savemat(tmp_path / "some.mat", {"X": X, "Y": np.array([[3], [1], [3]])})
    data = Matlab("some").read("some", tmp_path)
    assert data.X.tolist() == [[1, 0], [2, 0], [3, 1]]
    assert data.y.tolist() == [1, 0, 1]
    assert not set(SCIKIT_FEATURE) & set(CLASSES)


def made(m=60, d=12):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d))
    return Data("made", X, (X[:, 3] + X[:, 5] > 0).astype(int), "binary")


def test_of_many_samples_some_are_taken():
    data = made()
    some = data.at_most(40)
    assert data.at_most(60) is data.at_most(None) is data
    assert some.X.shape == (40, 12)
    assert some.checksum == data.at_most(40).checksum != data.checksum


def test_standardising_fills_gaps_by_the_training_samples():
    train, test = np.array([[1.0, np.nan], [3.0, 5.0]]), np.array([[np.nan, 7.0]])
    x, x_test = standardised(train, test)
    np.testing.assert_allclose(x, [[-1, 0], [1, 0]])
    np.testing.assert_allclose(x_test, [[0, 2]])


@pytest.mark.parametrize("method", [DEFAULT, "ridge 3", "F test", "RFE", "L1", "CCM", "FOHSIC"])
def test_orders_begin_with_what_matters(method):
    data = made()
    X = np.column_stack([data.X, np.ones(len(data.y))])  # does not vary
    assert set(METHODS[method].order(X, data.y, 2).tolist()) == {3, 5}


@pytest.mark.parametrize("method", ["mRMR, three levels", "RFE", "FOHSIC", "CCM", "F test"])
def test_all_features_may_be_asked_for(method):
    data = made()
    order = METHODS[method].order(data.X, data.y, 12)
    assert order[0] in (3, 5)
    assert sorted(order.tolist()) == list(range(12))


@pytest.mark.parametrize("select", [rfe, l1])
def test_rivals_take_real_values(select):
    data = made()
    order = select(data.X, 2 * data.X[:, 1] + data.X[:, 7], 4)
    assert set(order[:2].tolist()) == {1, 7}


def test_clumping_passes_over_copies():
    data = made()
    copy = data.X[:, 3] + 0.1 * data.X[:, 0]
    order = clumped_f_test(np.column_stack([data.X, copy]), data.y, 13, r2=0.2)
    assert order[-1] in (3, 12)
    assert sorted(order.tolist()) == list(range(13))


def test_a_cell_goes_on_where_it_was(tmp_path, monkeypatch):
    """Selections that are filed are not asked for again, and experiments share them."""
    monkeypatch.setattr("reproduce.cells.read", lambda *_: made())
    one = replace(EXPERIMENTS["classes"], sets=("made",), methods=("F test",))
    cell, cache = Cell(one, "made", "F test", None), Cache(tmp_path)
    assert cell.rows(cache) is None
    list(cell.run(cache))
    rows = cell.rows(cache)
    assert len(rows) == 5 * 2 * 2  # folds, SVMs, 5 and 10 features
    assert all(0 <= row["score"] <= 1 for row in rows)
    assert {len(row["order"]) for row in rows} == {5, 10}

    def refuse(*_):
        raise AssertionError("asked again")

    monkeypatch.setattr("reproduce.methods.Method.order", refuse)
    list(Cell(one, "made", "F test", None).run(cache))
    inside = replace(EXPERIMENTS["ccm-inside"], sets=("made",), methods=("F test",))
    list(Cell(inside, "made", "F test", None).run(cache))
    before = replace(EXPERIMENTS["ccm"], sets=("made",), methods=("F test",))
    with pytest.raises(AssertionError, match="asked again"):
        list(Cell(before, "made", "F test", None).run(cache))


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize(("seconds", "ended"), [((0.6, 0.6, 0.6), 0), ((0, 9), -signal.SIGXCPU)])
def test_each_fold_has_its_time(seconds, ended):
    """One that takes longer ends there, whatever the others took."""

    class Burning:
        def run(self, _):
            for more in seconds:
                yield
                until = time.process_time() + more
                while time.process_time() < until:
                    pass

    process = multiprocessing.get_context("fork").Process(target=work, args=(Burning(), None, 1.0))
    process.start()
    process.join()
    assert process.exitcode == ended


def test_the_width_of_jmlr_is_of_all_features():
    data, half = made(), np.arange(30)
    x = standardised(data.X[half])[0]
    expected = 0.5 / np.median(pdist(x)) ** 2
    assert judges.JMLR.width(x) == pytest.approx(expected)
    (error,) = judges.JMLR.scores(data, half, half + 30, np.array([3, 5, 1]), [2])
    assert 0 <= error < 0.3


def test_folds_rank_their_training_samples_alone():
    one = EXPERIMENTS["classes"]
    data = made()
    cell = Cell(one, "made", DEFAULT, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reproduce.cells.read", lambda *_: data)
        for train, test, ranked in cell.folds:
            assert not set(ranked) & set(test)
            assert sorted([*train, *test]) == list(range(60))


def test_tables_show_the_papers_numbers_beside_ours():
    order = list(range(10))
    rows = pd.DataFrame(
        {"set": "colon", "method": "BAHSIC", "fold": i, "selected": 10, "score": s, "order": order}
        for i, s in enumerate((0.1, 0.2))
    )
    _, text = tables_3_and_4(EXPERIMENTS["tables3and4"], rows)
    assert "| BAHSIC | 15.0, 10 / 9.5, 6 |" in text


def test_standings_wait_for_all_methods():
    one = replace(EXPERIMENTS["classes"], sets=("heart", "sonar"), methods=(DEFAULT, "RFE"))
    rows = pd.DataFrame(
        {"set": "heart", "method": method, "fold": 0, "judge": "linear SVM", "selected": 10}
        | {"score": score, "seconds": 1.0, "order": list(range(10))}
        for method, score in ((DEFAULT, 0.75), ("RFE", 0.5))
    )
    stands = pd.DataFrame(
        {"set": name, "method": method, "status": "not run" if name == "sonar" else "ok"}
        for name in one.sets
        for method in one.methods
    )
    found = Standings(one, rows, stands)
    assert found.names == ["heart"]
    assert found.ranks.mean.tolist() == [1, 2]
    assert "| **BAHSIC, default** | 1.0 | 75.0 | 75.0 |" in found.sections()[1]


def test_drawn_data_have_a_median_rank_a_run(tmp_path):
    world = protocols.JMLR.worlds[1]
    assert protocols.median_rank(world, 400, 0, "FOHSIC") == world.ideal


@pytest.mark.slow
def test_sets_whose_files_are_not_there_are_left_out(tmp_path):
    command = [sys.executable, "-W", "ignore", "-m", "reproduce", "--data", str(tmp_path)]
    command += ["--only", "unseen", "table1", "--hours", "0", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "left out, for their files are not in" in done.stderr
    assert "lung_small" in done.stderr
    assert "0 cells to run" in done.stderr


@pytest.mark.slow
def test_without_data_it_draws_and_goes_on(tmp_path):
    """The whole of it, in a process of its own; the second run finds everything filed."""
    command = [sys.executable, "-W", "ignore", "-m", "reproduce", "--quick", "--only", "classes"]
    command += ["--sets", "XOR", "--methods", "F test", DEFAULT, "Boruta", "--jobs", "1"]
    command += ["--repeats", "2"]
    command += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    told = []
    for _ in range(2):
        done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        told.append(done.stderr)
    assert "real data are not part of this repository" in told[0]
    assert "2 cells to run" in told[0]
    assert "0 cells to run" in told[1]
    out = tmp_path / "out"
    assert "| **BAHSIC, default** |" in (out / "report.md").read_text()
    assert len(pd.read_csv(out / "results.csv")) == 2 * 2 * 5 * 2 * 2  # of two draws of the folds
    assert (out / "classes.png").stat().st_size > 1000
    more = [*command[:10], "--methods", DEFAULT, "trees", "--hours", "0", *command[-4:]]
    done = subprocess.run(more, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "No set was run with all methods yet." in done.stdout
