"""HSIC of permuted labels, and the p-value that its values give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dhsic._typing import Float, Index
from dhsic.independence.forms import AbstractForm

#: Size of the permutations that are in memory together.
BLOCK_BYTES = 32 * 2**20
#: Permuted values closer than this part of the largest one are equal.
TIE = 1e-9
#: Part of ``||C|| ||A||`` that is rounding.
ROUNDING = 64 * np.finfo(np.float64).eps


def value_observed(C: AbstractForm, A: AbstractForm) -> float:
    """``<C, A>``, HSIC itself."""
    nobody = np.arange(len(C.diagonal))[None, :]
    return float(C.inner(nobody, [A])[0, 0])


def values_permuted(
    C: AbstractForm, forms: Sequence[AbstractForm], n_permutations: int, seed: int
) -> Float:
    """``<P C P', A>`` for random permutations P, the same ones for every A.

    Parameters
    ----------
    C : AbstractForm
        ``R L R`` of m samples.
    forms : sequence of AbstractForm
        ``R A R``, one or several.
    n_permutations : int
        How many are drawn.
    seed : int
        Permutations are drawn one after the other, so that they do not depend on how many of
        them are worked on together.

    Returns
    -------
    (len(forms), n_permutations) float64
    """
    rng = np.random.default_rng(seed)
    m, at_once = len(C.diagonal), max(1, BLOCK_BYTES // max(1, C.bytes_permuted))
    blocks = [C.inner(P, forms) for P in _drawn(rng, m, n_permutations, at_once)]
    return np.concatenate(blocks, axis=1)


def _drawn(rng: np.random.Generator, m: int, n: int, at_once: int) -> Iterator[Index]:
    for a in range(0, n, at_once):
        yield np.stack([rng.permutation(m) for _ in range(min(at_once, n - a))])


def rounding_of(C: AbstractForm, A: AbstractForm) -> float:
    """Size below which ``<C, R A R>`` is rounding; A as it was before R was applied."""
    return float(ROUNDING * np.sqrt(max(C.square, 0.0) * max(A.square, 0.0)))


def p_of_permutations(observed: float, drawn: Float, rounding: float) -> float:
    """``(1 + #{drawn >= observed}) / (1 + n)``: at most its level, whatever n is.

    The permutation that changes nothing is one of them, hence the ones. Values that differ by
    rounding are equal, which they often are for classes and genotypes.

    Parameters
    ----------
    observed : float
        ``<C, A>``.
    drawn : (n,) float64
        Its values under permutations.
    rounding : float
        See `rounding_of`.
    """
    tie = TIE * max(abs(observed), float(np.abs(drawn).max())) + rounding
    return float(1 + np.count_nonzero(drawn >= observed - tie)) / (1 + len(drawn))
