"""Features that are scored by their values: slices make the forms, and their part of the sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sliced import Sliced
from suites.engine import facts_of
from suites.factorizer import standardised, three_populations

from dhsic.engines.lowrank import LowRank, SampledRows
from dhsic.engines.scoring_problem import LowRankScoringProblem
from dhsic.hsic import factored_weights
from dhsic.kernels import Gaussian, Polynomial
from dhsic.kernels.labels import label_matrix
from dhsic.lowrank.directions import HeldForms
from dhsic.passes.sliced import (
    Forms,
    Sampled,
    combine_contributions,
    concatenate_states,
    sizes,
    slice_contributions,
    state_of,
)

M = 130
KERNELS = {"gaussian": Gaussian(), "polynomial": Polynomial()}


@pytest.fixture(params=KERNELS)
def problem(request, rng):
    X = standardised(three_populations(M, 90, rng))
    X[:, 3] *= 1.5  # the series takes more terms
    W = factored_weights(label_matrix(X[:, 0] > 0).factor(), "unbiased")
    order = rng.permutation(M)
    return X, W, KERNELS[request.param], 1 / 180, np.sort(order[20:80]), np.sort(order[:20])


def asked(problem, edges, **options):
    """A round in slices, and what they are told of it."""
    case = Sliced(*problem, edges=edges)
    along, _ = case.weigh(case.lead(case.fit()[0])[0], problem[0].T[:12])
    held = HeldForms.of_round(along, {}, {}, M)
    forms = Forms.of(held, case.ask(sizes, held))
    return case, Forms(held, forms.norms, **options)


def test_slices_make_the_state_of_all_samples(problem):
    case, forms = asked(problem, ())
    question = LowRankScoringProblem(problem[2], problem[3], problem[1], None)
    for base, A in case.home(forms.held.along).items():
        question.suppose(base, A)
    wanted = LowRank().prepare(question)
    for edges in ((), (40,), (1, 50, 129)):
        case, forms = asked(problem, edges)
        found = concatenate_states(case.ask(state_of, forms))
        assert_allclose(found.scale, wanted.scale, rtol=1e-12)
        assert found.norms == pytest.approx(wanted.norms)
        facts = facts_of(problem[0])
        score = LowRank().score
        X = np.ascontiguousarray(problem[0].T)
        gains = score(wanted, X, facts)
        assert_allclose(score(found, X, facts), gains, atol=1e-5 * np.abs(gains).max())


@pytest.mark.parametrize("edges", [(), (40,), (1, 50, 129)])
def test_slices_score_the_features_that_they_have(problem, edges):
    case, forms = asked(problem, edges)
    which = np.array([0, 3, 4, 9])
    X = np.ascontiguousarray(problem[0].T[which])
    sampled = Sampled(forms, which, facts_of(X.T))
    found = combine_contributions(case.block, sampled, case.ask(slice_contributions, sampled))
    wanted = LowRank().score(concatenate_states(case.ask(state_of, forms)), X, sampled.facts)
    if edges:
        assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())
    else:
        assert_array_equal(found, wanted)


def test_rows_for_the_definition_come_from_slices(problem):
    X, W, _, _, _, check = problem
    case, forms = asked(problem, (1, 50, 129), with_rows=True)
    found = concatenate_states(case.ask(state_of, forms)).definition
    wanted = SampledRows(check, X[check] @ X.T, W.rows(check), (X**2).sum(axis=1))
    for name in ("which", "inner", "W", "norms"):
        assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-12)
