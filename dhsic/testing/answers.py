"""Answers to a question of independence, one function for every method."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float
from dhsic.hsic import variance_of_hsic
from dhsic.independence.data import estimated
from dhsic.independence.gamma import p_of_gamma
from dhsic.independence.moments import moments_permuted
from dhsic.independence.normal import p_of_normal
from dhsic.independence.permutation import (
    p_of_permutations,
    rounding_of,
    value_observed,
    values_permuted,
)
from dhsic.kernels.choosing import check_reach
from dhsic.panels import PanelPairing, SlicedData
from dhsic.testing.question import Question
from dhsic.testing.result import TestResult


def answer(question: Question, X: Float) -> TestResult:
    """Test of X (m, d) by the method that was asked for."""
    if question.kernel.has_bandwidth:
        X = X - X.mean(axis=0)  # distances keep their digits
    check_reach(question.kernel, float(np.einsum("ij,ij->i", X, X).max()))
    return _ANSWERS[question.draws.method](question, X, question.sigmas(X))


def _by_permutation(question: Question, X: Float, sigmas: tuple[float, ...]) -> TestResult:
    """By the largest HSIC of all widths, in the data and in every permutation."""
    C, rounding, forms = question.C, 0.0, []
    for sigma in sigmas:
        A = estimated(question.K(X, sigma), question.estimator)
        rounding = max(rounding, rounding_of(C, A))
        forms.append(A.projected(question.Q))
    observed = [value_observed(C, A) for A in forms]
    n = question.draws.n_permutations
    drawn = values_permuted(C, forms, n, question.draws.seed).max(axis=0)
    best = int(np.argmax(observed))
    p_value = p_of_permutations(observed[best], drawn, rounding)
    null = float(drawn.mean()), float(drawn.var())
    return TestResult(observed[best], p_value, "permutation", len(X), n, *null, sigmas[best])


def _by_gamma(question: Question, X: Float, sigmas: tuple[float, ...]) -> TestResult:
    """By the moments of all permutations."""
    (sigma,), C = sigmas, question.C
    A = estimated(question.K(X, sigma), question.estimator)
    rounding = rounding_of(C, A)
    A = A.projected(question.Q)
    observed, null = value_observed(C, A), moments_permuted(C, A)
    p_value = p_of_gamma(observed, null, rounding)
    return TestResult(observed, p_value, "gamma", len(X), 0, null.mean, null.variance, sigma)


def _by_theorem_5(question: Question, X: Float, sigmas: tuple[float, ...]) -> TestResult:
    """By the standard error of HSIC_1."""
    (sigma,) = sigmas
    data = SlicedData(X, centred=question.kernel.has_bandwidth)
    row_sums, smoothed = PanelPairing(question.kernel, data, question.W).influence(sigma)
    observed, variance = float(row_sums.sum()), variance_of_hsic(row_sums, smoothed)
    p_value = p_of_normal(observed, variance)
    return TestResult(observed, p_value, "normal", len(X), 0, 0.0, variance, sigma)


_ANSWERS = {"permutation": _by_permutation, "gamma": _by_gamma, "normal": _by_theorem_5}
