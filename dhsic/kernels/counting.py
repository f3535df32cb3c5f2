r"""Kernels that count substructures: additive in their features (JMLR 5.1.4).

    ``k(x, x') = sum_a w_a #_a(x) #_a(x')``

``#_a(x)`` says how often x, a string or a graph, holds the substructure a. With the counts of all
samples in the columns ``c_a`` of a sparse matrix, ``K = sum_a w_a c_a c_a'``, and as for the linear
kernel ``HSIC = <W, K> = sum_a w_a c_a' W c_a``: one pass scores every substructure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.validation import is_positive

#: Numbers of a dense block of columns.
BLOCK = 2**22
#: Columns with a larger part of non-zeros are multiplied as dense ones, some ten times faster each.
DENSE = 1 / 16


class AbstractCountingKernel(ABC):
    """A kernel on structured samples, by what it counts in them and the weight of each."""

    @abstractmethod
    def counts(self, samples: Any) -> tuple[Any, list[Any]]:
        """How often each substructure is in each sample.

        Returns
        -------
        counts : (m, n) scipy.sparse.csr_array
            ``#_a(x_i)``, for the n substructures that are in any sample.
        names : list
            The substructures a, sorted.
        """

    @abstractmethod
    def weights(self, names: Sequence[Any]) -> Float:
        """``w_a``, not below 0, of the substructures `names`; (n,)."""

    def gram(self, samples: Any) -> Float:
        """K, (m, m) float64, symmetric to the last bit; errors as of `counts`."""
        counts, names = self.counts(samples)
        return gram_of_counts(counts, self.weights(names))


def gram_of_counts(counts: Any, weights: Float) -> Float:
    """``C diag(w) C'``, (m, m), of the sparse counts C (m, n) and weights w (n,) not below 0."""
    # One factor times its own transpose rounds both triangles alike.
    F = csc_array(counts.multiply(np.sqrt(weights)))
    m = F.shape[0]
    is_dense = np.diff(F.indptr) > DENSE * m
    thin = F[:, ~is_dense].tocsr()
    K = np.asarray((thin @ thin.T).toarray(), dtype=np.float64)
    width = max(1, BLOCK // max(m, 1))
    filled = np.flatnonzero(is_dense)
    for a in range(0, filled.size, width):
        block = F[:, filled[a : a + width]].toarray()
        K += block @ block.T
    return K


def quadratic_forms(W: Float, counts: Any) -> Float:
    """``c_a' W c_a`` for every column of the sparse counts C (m, n) not below 0; (n,) float64.

    Rows of W (m, m) sum to 0, so a column may be shifted: by its smallest count, which keeps it
    sparse and takes what is as often in every sample to 0, not to rounding errors.
    """
    C = csc_array(counts, dtype=np.float64)
    m, n = C.shape
    C.data -= np.repeat(C.min(axis=0).toarray(), np.diff(C.indptr))
    width = max(1, BLOCK // m)
    out = np.empty(n)
    for a in range(0, n, width):
        block = C[:, a : a + width]
        products = block.T @ W  # (c, m), a row for each c_a' W
        out[a : a + width] = (block.T.multiply(products)).sum(axis=1)
    return out


def check_length(what: str, value: object) -> None:
    """Refuse a length that is no whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{what}={value!r}; pass a whole number >= 1.")


def check_decay(what: str, value: Any) -> None:
    """Refuse a decay that is no positive number."""
    if not is_positive(value):
        raise InputError(f"{what}={value!r}; pass a positive number.")
