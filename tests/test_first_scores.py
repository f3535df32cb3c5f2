"""Scores of the first round: of every feature, as one round alone gives them, kept with a run."""

import naive
import numpy as np
import pytest

import dhsic
from dhsic.storage.format import FIRST_SCORES

M, D, CONSTANT = 40, 12, 4
X = np.random.default_rng(3).standard_normal((M, D))
X[:, CONSTANT] = 1.0
Y = X[:, 2] * X[:, 5] + X[:, 7]
EXACT = {dhsic.BAHSIC: {"rerank": False}, dhsic.FOHSIC: {}}
GROUPS = np.array([f"g{j // 2}" for j in range(D)])


class StoppedError(Exception):
    pass


def stop_after(number):
    def hear(told):
        if told["round"] == number:
            raise StoppedError

    return hear


def first_of(selector, **options):
    return selector.fit(X, Y, **options).result_["score_first_round"].to_numpy()


@pytest.mark.parametrize("kind", [dhsic.BAHSIC, dhsic.FOHSIC])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_they_are_the_scores_of_one_round_alone(kind, groups):
    """A round that takes all features scores them as the first of many does."""
    many = first_of(kind(2, step=0.3), feature_groups=groups)
    one = first_of(kind(2, step=D), feature_groups=groups)
    alone = kind(2, step=D, **EXACT[kind]).fit(X, Y, feature_groups=groups).scores_
    np.testing.assert_allclose(many, alone, rtol=1e-4)
    np.testing.assert_array_equal(one, alone)
    assert np.isnan(many).nonzero()[0].tolist() == [CONSTANT]


def test_they_are_falls_of_hsic_by_definition():
    found = first_of(dhsic.BAHSIC(2, step=0.3, label_kernel="linear"))
    S = [j for j in range(D) if j != CONSTANT]
    Z, L = naive.standardise(X[:, S].tolist()), naive.label_gram(Y.tolist(), "linear")

    def value(T):
        return naive.unbiased(naive.gram(naive.columns(Z, T), "gaussian", 1 / (2 * len(S))), L)

    places = range(len(S))
    for place in places:
        fall = value(places) - value([other for other in places if other != place])
        assert found[S[place]] == pytest.approx(fall, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_run_that_was_stopped_has_them_too(tmp_path, damaged, caplog):
    """Unless they were damaged, which spoils nothing else."""
    place = tmp_path / "run.dhsic"
    whole = dhsic.BAHSIC(2, step=0.3).fit(X, Y).result_
    with pytest.raises(StoppedError):
        dhsic.BAHSIC(2, step=0.3, checkpoint=place, progress=stop_after(4)).fit(X, Y)
    if damaged:
        chunk = place / "rounds/000001" / FIRST_SCORES / "0"
        chunk.write_bytes(chunk.read_bytes()[::-1])
    again = dhsic.BAHSIC(2, step=0.3, checkpoint=place).fit(X, Y).result_
    np.testing.assert_array_equal(again["score"], whole["score"])
    assert ("score_first_round" in again) != damaged
    assert ("first round are damaged" in caplog.text) == damaged
    if not damaged:
        np.testing.assert_array_equal(again["score_first_round"], whole["score_first_round"])
