"""What every engine must do: `EngineSuite`, subclassed per engine."""

import pickle
from abc import ABC, abstractmethod

import numpy as np
import pytest
from cases import ESTIMATORS, KERNELS

from dhsic.engines.direct import Direct
from dhsic.engines.scoring_problem import FeatureStats, ScoringProblem
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.statistic import Statistic


def facts_of(X):
    """Facts of the columns of X."""
    levels = np.array([len(np.unique(x)) for x in X.T])
    return FeatureStats(
        np.abs(X).max(axis=0),
        (X**4).mean(axis=0),
        np.where(levels <= 8, levels, 0).astype(np.uint8),
    )


def question_of(X, y, kernel, statistic, sigma=None):
    """The question of a first round: standardised X, sigma = 1 / (2d) unless given."""
    W = weights(label_matrix(y).L, statistic)
    return ScoringProblem(kernel, sigma or 1 / (2 * X.shape[1]), W, Statistic.of(X @ X.T))


class EngineSuite(ABC):
    """Subclasses give `engine(question, facts)`."""

    kernels = tuple(KERNELS)

    @abstractmethod
    def engine(self, question, facts):
        """What subclasses give."""

    @pytest.fixture(params=ESTIMATORS)
    def statistic(self, request):
        return request.param

    @pytest.fixture(params=sorted(KERNELS))
    def kernel(self, request):
        if request.param not in self.kernels:
            pytest.skip("the engine is not meant for it")
        return KERNELS[request.param]

    @pytest.fixture
    def X(self, rng):
        X = rng.standard_normal((60, 90))
        X[:, :30] = rng.integers(0, 3, (60, 30))
        X[:, 30] = np.eye(60)[0]  # a rare variant
        X[:, 31] = X[:, 50]
        return (X - X.mean(axis=0)) / X.std(axis=0)

    @pytest.fixture
    def question(self, X, rng, kernel, statistic):
        return question_of(X, (X[:, 3] + X[:, 40] * X[:, 41]) > 0, kernel, statistic)

    def scores(self, question, X):
        facts = facts_of(X)
        engine = self.engine(question, facts)
        rows = np.ascontiguousarray(X.T)
        scores = engine.score(engine.prepare(question), rows, facts)
        return scores, engine.error(question, facts, scores)

    def test_agrees_with_the_definition_within_its_error(self, question, X):
        scores, error = self.scores(question, X)
        direct = Direct().score(Direct().prepare(question), X.T, facts_of(X))
        rounding = 1e-10 * np.abs(direct).max()

        assert scores.dtype == np.float64
        assert (np.abs(scores - direct) <= error + rounding).all()

    def test_permuting_features_permutes_scores(self, question, X, rng):
        order = rng.permutation(X.shape[1])
        scores, error = self.scores(question, X)
        permuted, _ = self.scores(question, X[:, order])

        tolerance = np.minimum(error[order], 1e-4 * np.abs(scores).max()) + 1e-12
        assert (np.abs(permuted - scores[order]) <= tolerance).all()

    def test_splitting_a_block_changes_nothing_but_rounding(self, question, X):
        scores, _ = self.scores(question, X)
        parts = [self.scores(question, X[:, a:b])[0] for a, b in ((0, 1), (1, 40), (40, 90))]

        np.testing.assert_allclose(
            np.concatenate(parts), scores, rtol=0, atol=2e-5 * np.abs(scores).max()
        )

    def test_flipping_alleles_changes_nothing(self, question, X):
        """x -> -x once standardised: every kernel here but the polynomial is blind to it."""
        scores, _ = self.scores(question, X)
        flipped, _ = self.scores(question, -X)

        np.testing.assert_allclose(flipped, scores, rtol=0, atol=2e-5 * np.abs(scores).max())

    def test_state_travels(self, question, X):
        facts = facts_of(X)
        engine = self.engine(question, facts)
        state = engine.prepare(question)
        there_engine, there = pickle.loads(pickle.dumps((engine, state)))
        rows = np.ascontiguousarray(X.T)

        np.testing.assert_array_equal(
            there_engine.score(there, rows, facts), engine.score(state, rows, facts)
        )

    def test_counts_products(self, question, X):
        facts = facts_of(X)
        assert self.engine(question, facts).products(question, facts) >= 0
