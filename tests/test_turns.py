"""Turns of the kernel: by how much the form that scores features is another than before."""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import dhsic
from dhsic.engines.kernel_drift import form_rows, turn, turned_at
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix
from dhsic.passes.landmark_sampling import turning_rows


def forms(m, seed):
    """Two symmetric A, (m, m), of nothing on the diagonal."""
    A = np.random.default_rng(seed).standard_normal((2, m, m))
    A = A + A.transpose(0, 2, 1)
    A[:, np.arange(m), np.arange(m)] = 0
    return A


def whole(A):
    return 2 * A - 2 * np.diag(A.sum(axis=1))


@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_rows_of_the_form_are_its_rows(m, seed):
    A, _ = forms(m, seed)
    rows = np.sort(np.random.default_rng(seed).permutation(m)[: m // 2 + 1])

    assert_allclose(form_rows(A[rows], rows), whole(A)[rows], rtol=1e-5, atol=1e-6)


@given(st.integers(3, 40), st.floats(-50, 50).filter(lambda a: abs(a) > 1e-3), st.integers(0, 99))
def test_a_multiple_is_no_turn_and_a_turn_does_not_know_sizes(m, alpha, seed):
    A, other = (whole(A) for A in forms(m, seed))

    assert turn(alpha * A, A) < 1e-7
    assert_allclose(turn(alpha * other, A), turn(other, A), rtol=1e-9)
    cosine = np.vdot(A, other) / np.linalg.norm(A) / np.linalg.norm(other)
    assert_allclose(turn(other, A), np.sqrt(1 - cosine**2), rtol=1e-6)
    assert turn(0 * A, A) == turn(A, 0 * A) == 0


def history(turns, *, step=0.1, first=10000):
    out, size = [], first
    for turned in turns:
        n = max(1, int(step * size))
        out.append({"n_features": size, "n_removed": n, "turn": turned})
        size -= n
    return out


@pytest.mark.parametrize(
    ("turns", "n", "at"),
    [
        ([0, 0.03, 0.02, 0.02], 10, 0),  # small ones
        ([0, 0.09, 0.08, 0.07], 10, 0),  # it slows down
        ([0, 0.03, 0.02, 0.09, 0.03], 10, 7290),
        ([0, 0.03, 0.09, 0.02, 0.08], 10, 6561),  # the last one
        ([0, 0.03, 0.09, 0.02, 0.08], 7000, 8100),  # of those that are not asked for
        ([0, 0.03, 0.09], 9000, 0),
        ([0], 10, 0),
        ([], 10, 0),
    ],
)
def test_a_turn_is_a_large_one_that_is_faster_than_before(turns, n, at):
    assert turned_at(history(turns), n) == at


def test_larger_steps_and_few_features_turn_more_without_meaning_it():
    turns = [0, 0.03, 0.02, 0.1]

    assert turned_at(history(turns), 1) > 0
    assert turned_at(history(turns, step=0.3), 1) == 0
    assert turned_at(history(turns, first=40), 1) == 0
    assert turned_at([{"n_features": 5, "n_removed": 5}] * 3, 1) == 0  # a run that tells none


# -- of a run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 300)) + 0.7 * rng.standard_normal((3, 300))[rng.integers(0, 3, 60)]
    return X, X[:, :6].sum(axis=1) + rng.standard_normal(60) > 0


def fit(problem, solver="exact", **options):
    options = {"step": 0.25, "progress": False, "standardize": False, **options}
    return dhsic.BAHSIC(20, solver=solver, **options).fit(*problem)


def test_turns_are_those_of_the_definition(problem):
    """On the rows that were drawn, and nearly so on all."""
    X, y = problem
    result = fit(problem).result_
    told, left = result["round_turn"].values, result["round_removed"].values
    Z, W, rows = X - X.mean(axis=0), weights(label_matrix(y).L, "unbiased"), turning_rows(60, 0)
    before = None
    for number, sigma in enumerate(result["round_sigma"].values[:12]):
        S = Z[:, left > number]
        D = ((S[:, None] - S[None]) ** 2).sum(axis=2)
        B = whole(np.exp(-sigma * D) * W)
        if before is not None:
            assert_allclose(told[number], turn(B[rows], before[rows]), rtol=1e-3)
            assert_allclose(told[number], turn(B, before), rtol=0.3)
        before = B
    assert told[0] == 0


def test_both_engines_tell_the_same_turns(problem):
    exact, low = (fit(problem, solver).result_ for solver in ("exact", "lowrank"))
    same = exact["round_removed"].values == low["round_removed"].values

    assert same.mean() > 0.9
    assert_allclose(low["round_turn"], exact["round_turn"], rtol=0.2)


@pytest.mark.parametrize("solver", ["exact", "lowrank"])
@pytest.mark.parametrize("kernel", ["gaussian", "polynomial"])
def test_a_run_that_goes_on_tells_the_same_turns(problem, solver, kernel, tmp_path):
    options = {"solver": solver, "kernel": kernel}

    def keep(record):
        shutil.copytree(tmp_path / "run", tmp_path / f"{record['round']}")

    once = fit(problem, checkpoint=tmp_path / "run", progress=keep, **options).result_
    for after in (1, 4):
        again = fit(problem, checkpoint=tmp_path / f"{after}", **options).result_
        assert_array_equal(again["round_turn"], once["round_turn"])


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"kernel": "ridge"}])
def test_kernels_that_do_not_turn_or_are_known_as_a_whole_tell_none(problem, options):
    result = fit(problem, **options).result_

    assert "round_turn" not in result
    assert result.attrs["turn_rank"] == 0
