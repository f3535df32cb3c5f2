r"""Hardy-Weinberg equilibrium: the exact test of genotype counts, as in ``plink2 --hwe``.

For n genotypes with a alternative and b other alleles, the probability of h heterozygous genotypes
under random mating is

    ``P(h) = 2^h n! a! b! / (((a - h) / 2)! h! ((b - h) / 2)! (2 n)!)``,

and the p-value is the sum of ``P`` over all h with the parity of a that are at most as likely as
the observed h (Wigginton, Cutler and Abecasis, 2005). There is no mid-p correction.

A filter needs only to know whether the p-value reaches a limit. The p-value lies between ``P(h)``
of the observed h, and this probability times the number of possible h. These bounds decide for most
variants, without the sum.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from dhsic._typing import Array, Float, Index, Mask

#: Relative difference below which two probabilities are equal up to rounding.
ROUNDING = 1e-7


def log_factorials(n: int) -> Float:
    """Return the logarithms of ``0!`` to ``n!``, (n + 1,)."""
    return np.asarray(gammaln(np.arange(1.0, n + 2.0)))


def log_probability(heterozygous: Array, alternative: Array, n: Array, factorial: Float) -> Float:
    """Logarithm of the probability of `heterozygous` among n genotypes, given the allele counts.

    `factorial` are the `log_factorials` up to at least ``2 n``, the number of alleles.
    """
    h, a, b = heterozygous, alternative, 2 * n - alternative
    of_all = factorial[n] + factorial[a] + factorial[b] - factorial[2 * n]
    parts = factorial[(a - h) // 2] + factorial[h] + factorial[(b - h) // 2]
    return np.asarray(h * np.log(2.0) + of_all - parts)


def exact_p(counts: Index) -> Float:
    """p-values (c,) of counts (c, 3) of genotypes with 0, 1 and 2 alternative alleles."""
    n, alternative = counts.sum(axis=1), counts[:, 1] + 2 * counts[:, 2]
    factorial = log_factorials(2 * int(n.max(initial=0)))
    observed = log_probability(counts[:, 1], alternative, n, factorial)
    p = np.empty(len(counts))
    for i, (a, size) in enumerate(zip(alternative.tolist(), n.tolist(), strict=True)):
        possible = np.arange(a % 2, min(a, 2 * size - a) + 1, 2)
        each = log_probability(possible, np.array(a), np.array(size), factorial)
        p[i] = np.exp(each[each <= observed[i] + ROUNDING]).sum()
    return np.minimum(p, 1.0)


def is_in_equilibrium(counts: Index, least: float) -> Mask:
    """Mask (c,) of genotype counts (c, 3) with a p-value of `least` or more; True without calls."""
    n, alternative = counts.sum(axis=1), counts[:, 1] + 2 * counts[:, 2]
    factorial = log_factorials(2 * int(n.max(initial=0)))
    observed = log_probability(counts[:, 1], alternative, n, factorial)
    n_possible = np.minimum(alternative, 2 * n - alternative) // 2 + 1
    with np.errstate(divide="ignore"):
        limit = np.log(least)
    holds = observed >= limit
    in_doubt = np.flatnonzero(~holds & (observed + np.log(n_possible) >= limit))
    holds[in_doubt] = exact_p(counts[in_doubt]) >= least * (1.0 - ROUNDING)
    return np.asarray(holds)
