r"""Labels that a chromosome is tested against: less what all other chromosomes predict of them.

A trait of many genes follows relatedness and populations, and so does every variant. As REGENIE
does (Mbatchou et al., 2021), each chromosome meets residuals of ridge regression on the variants of
all others: what is predicted is taken out, and what the chromosome itself tells stays in (leave one
chromosome out). With K of the other chromosomes, after mean and covariates (basis Q) are out of it,
and ``V = K + lambda I``, a sample is predicted from all others:

    ``e_i = (V^-1 y)_i / ((V^-1)_ii - (Q Q')_ii / lambda)``,

which but for the denominator, nearly the same everywhere, is ``V^-1 y`` of a linear mixed model.
Lambda is the one of `PENALTIES` by which all chromosomes together predict best.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.linalg import eigh

from dhsic._typing import Float, Index
from dhsic.algorithms.ridge import PENALTIES, inverse
from dhsic.errors import InputError
from dhsic.joins.filters import described
from dhsic.joins.keys import as_text
from dhsic.kernels.statistic import Statistic
from dhsic.passes.reader import Reader
from dhsic.relatedness.components import Relate, product
from dhsic.sources import AbstractSource
from dhsic.sources.variants import CONTIG


def chromosomes_of(source: AbstractSource) -> list[Index]:
    """Features of each chromosome, ascending; refused where there are not two at least."""
    known = described(source)
    if CONTIG not in known:
        raise InputError(
            "The data do not say on which chromosome features lie, which loco=True leaves out one "
            "by one; leave it out, and pass principal components as covariates (dhsic.pca)."
        )
    codes, names = pd.factorize(as_text(known[CONTIG].read(slice(0, source.n_features))))
    if len(names) < 2:
        raise InputError(
            f"All features lie on one chromosome ({names[0]}), and loco=True takes out what others "
            "predict; leave it out, or take features of all chromosomes."
        )
    return [np.flatnonzero(codes == code) for code in range(len(names))]


def residuals_by_chromosome(
    reader: Reader, chromosomes: list[Index], Y: Float, Q: Float, ploidy: int | None
) -> Iterator[tuple[Index, Float]]:
    """Features of each chromosome, and what all others leave of labels Y (m, t).

    Parameters
    ----------
    reader : Reader
        Reader of all features, which has measured none.
    Q : (m, q)
        Orthonormal basis of the mean and the covariates.
    ploidy : int or None
        How features are scaled, as of `dhsic.relatedness.components.Relate`.
    """
    whole = Statistic(product(reader, Relate(ploidy))).whole()
    Y = _without(Q, Y)
    penalty = _best_penalty(_without(Q, _without(Q, whole).T), Y, Q)
    for features in chromosomes:
        own = product(reader, Relate(ploidy), features)
        K = _without(Q, _without(Q, whole - Statistic(own).whole()).T)
        penalised = penalty * float(np.trace(K)) / len(K)
        V = inverse(K, penalised)
        yield features, V @ Y / (np.diagonal(V) - (Q**2).sum(axis=1) / penalised)[:, None]


def _best_penalty(K: Float, Y: Float, Q: Float) -> float:
    """Penalty over the mean of the diagonal of K by which left-out labels are predicted best."""
    values, P = eigh(K, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0) / float(values.mean())
    along, squares, explained = P.T @ Y, P * P, (Q**2).sum(axis=1)

    def lost(penalty: float) -> float:
        shrunk = penalty / (values + penalty)
        left = np.maximum(squares @ shrunk - explained, np.finfo(float).eps)
        return float(np.square((P @ (shrunk[:, None] * along)) / left[:, None]).sum())

    return float(min(PENALTIES, key=lost))


def _without(Q: Float, B: Float) -> Float:
    """What the columns of Q leave of those of B."""
    return np.asarray(B - Q @ (Q.T @ B))
