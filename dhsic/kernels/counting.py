r"""Kernels that count substructures, here of strings: additive in their features (JMLR 5.1.4).

    ``k(x, x') = sum_a w_a #_a(x) #_a(x')``

``#_a(x)`` is the count of substructure a in x, a string or a graph (`dhsic.kernels.graphs`).
With the counts in all samples as columns ``c_a`` of a sparse matrix, ``K = sum_a w_a c_a c_a'``,
and as for the linear kernel ``HSIC = <W, K> = sum_a w_a c_a' W c_a``: one pass scores every
substructure.

Substructures of strings are substrings a; ``#_a(x)`` counts their occurrences in x, including
overlapping ones (Leslie et al. 2002; Vishwanathan and Smola 2003). Use them for data without
columns, such as DNA, proteins, text or event logs; the features are counts. Strings are counted one
after another. Memory: 16 bytes for each string and distinct substring in it, and for each distinct
substring 150 bytes plus one per letter, for its name and column number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.validation import is_count, is_positive

#: Maximum number of entries of a dense block of columns.
BLOCK = 2**22
#: Fraction of non-zeros above which columns are multiplied as dense arrays, about ten times faster.
DENSE = 1 / 16


class AbstractCountingKernel(ABC):
    """Kernel on structured samples, defined by counts of substructures and their weights."""

    @abstractmethod
    def counts(self, samples: Any) -> tuple[Any, list[Any]]:
        """Count each substructure in each sample.

        Returns
        -------
        counts : (m, n) scipy.sparse.csr_array
            ``#_a(x_i)``, for the n substructures that occur in any sample.
        names : list
            The substructures a, sorted.

        Raises
        ------
        InputError
            If samples have a wrong type, or contain nothing to count.
        """

    @abstractmethod
    def weights(self, names: Sequence[Any]) -> Float:
        """Weights ``w_a`` of the substructures `names`, (n,); at least 0."""

    def gram(self, samples: Any) -> Float:
        """Kernel matrix K, (m, m) float64, symmetric to the last bit; raises errors as `counts`."""
        counts, names = self.counts(samples)
        # A factor times its own transpose has the same rounding errors in both triangles.
        F = csc_array(counts.multiply(np.sqrt(self.weights(names))))
        m = F.shape[0]
        is_dense = np.diff(F.indptr) > DENSE * m
        sparse = F[:, ~is_dense].tocsr()
        K = np.asarray((sparse @ sparse.T).toarray(), dtype=np.float64)
        width = max(1, BLOCK // max(m, 1))
        filled = np.flatnonzero(is_dense)
        for a in range(0, filled.size, width):
            block = F[:, filled[a : a + width]].toarray()
            K += block @ block.T
        return K


def quadratic_forms(W: Float, counts: Any) -> Float:
    """Quadratic forms ``c_a' W c_a`` of the columns of sparse counts (m, n): (n,), at least 0.

    Rows of W (m, m) sum to 0, so a constant may be subtracted from a column. Subtracting the
    smallest count keeps a column sparse, and makes the result exactly 0 if all counts are equal.
    """
    C = csc_array(counts, dtype=np.float64)
    m, n = C.shape
    C.data -= np.repeat(C.min(axis=0).toarray(), np.diff(C.indptr))
    width = max(1, BLOCK // m)
    out = np.empty(n)
    for a in range(0, n, width):
        block = C[:, a : a + width]
        products = block.T @ W  # (c, m), rows are c_a' W
        out[a : a + width] = (block.T.multiply(products)).sum(axis=1)
    return out


def check_lengths(kernel: str, parameter: str, length: object, decay: object = 1.0) -> None:
    """Raise an error unless the length is an integer of at least 1, and the decay is positive."""
    if not is_count(length):
        raise InputError(f"{kernel} {parameter}={length!r}; pass a whole number >= 1.")
    if not is_positive(decay):
        raise InputError(f"{kernel} decay={decay!r}; pass a positive number.")


@dataclass(frozen=True)
class Spectrum(AbstractCountingKernel):
    """Substrings of one length, each with weight 1: the spectrum kernel (Leslie et al. 2002).

    Use it for motifs of a known length: k-mers of DNA (6 to 12 letters), of proteins (3), or of
    text (4 or 5).

    Parameters
    ----------
    k : int
        Number of letters of a substring, at least 1.

    Examples
    --------
    >>> counts, names = Spectrum(2).counts(["GATTA", "TATA"])
    >>> names
    ['AT', 'GA', 'TA', 'TT']
    >>> counts.toarray().tolist()
    [[1, 1, 1, 1], [1, 0, 2, 0]]
    >>> Spectrum(2).gram(["GATTA", "TATA"]).tolist()
    [[4.0, 3.0], [3.0, 5.0]]
    """

    k: int

    def __post_init__(self) -> None:
        check_lengths("Spectrum", "k", self.k)

    def counts(self, samples: Sequence[str]) -> tuple[Any, list[str]]:
        """Count each substring of k letters in each string; raises an error for other samples.

        Upper and lower case are different letters.
        """
        return _counts(samples, [int(self.k)])

    def weights(self, names: Sequence[str]) -> Float:
        return np.ones(len(names))


@dataclass(frozen=True)
class WeightedSubstrings(AbstractCountingKernel):
    """All substrings of 1 to `longest` letters, weighted (Vishwanathan and Smola 2003).

    Use it for motifs of unknown length, or if some substrings are known to matter more.

    Parameters
    ----------
    longest : int
        Number of letters of the longest substrings, at least 1.
    decay : float, mapping or callable
        Weights ``w_a``. A positive number means ``decay**len(a)``: below 1 it favours short
        substrings, above 1 long ones. A mapping from substring to weight excludes all other
        substrings. A callable is called with each substring and returns its weight.

    Examples
    --------
    >>> strings = ["AB", "ABB"]
    >>> WeightedSubstrings(2, decay=0.25).counts(strings)[1]
    ['A', 'AB', 'B', 'BB']
    >>> WeightedSubstrings(2, decay=0.25).gram(strings).tolist()
    [[0.5625, 0.8125], [0.8125, 1.375]]
    >>> WeightedSubstrings(2, decay={"AB": 4.0}).gram(strings).tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """

    longest: int
    decay: float | Mapping[str, float] | Callable[[str], float] = 0.5

    def __post_init__(self) -> None:
        own = isinstance(self.decay, Mapping) or callable(self.decay)
        check_lengths("WeightedSubstrings", "longest", self.longest, 1.0 if own else self.decay)

    def counts(self, samples: Sequence[str]) -> tuple[Any, list[str]]:
        """Count each substring in each string, like `Spectrum.counts`."""
        return _counts(samples, range(1, int(self.longest) + 1))

    def weights(self, names: Sequence[str]) -> Float:
        """Weights ``w_a`` of the substructures, (n,).

        Weights from a mapping or callable must be numbers of at least 0.
        """
        if isinstance(self.decay, Mapping):
            raw = [self.decay.get(a, 0.0) for a in names]
        elif callable(self.decay):
            raw = [self.decay(a) for a in names]
        else:
            return np.power(float(self.decay), [len(a) for a in names])
        w = np.array(raw, dtype=np.float64)
        bad = np.flatnonzero(~((w >= 0) & np.isfinite(w)))
        if bad.size:
            raise InputError(
                f"The weight of substring {names[bad[0]]!r} is {raw[bad[0]]!r}; pass finite "
                "weights of at least 0."
            )
        return w


def _counts(strings: Sequence[str], lengths: Sequence[int]) -> tuple[Any, list[str]]:
    """Counts (m, n) of all substrings of these lengths (ascending), and their sorted names."""
    checked = _checked(strings)
    longest = max(map(len, checked))
    if longest < lengths[0]:
        raise InputError(
            f"The longest of {len(checked)} strings has {longest} letters, fewer than a substring "
            f"({lengths[0]}); pass shorter substrings, or longer strings."
        )
    places: defaultdict[str, int] = defaultdict(count().__next__)  # in order of first occurrence
    columns, counts = [], []
    for x in checked:
        tally = Counter(x[i : i + k] for k in lengths for i in range(len(x) - k + 1))
        columns.append(np.fromiter((places[a] for a in tally), np.int32, len(tally)))
        counts.append(np.fromiter(tally.values(), np.int64, len(tally)))
    names = sorted(places)
    order = np.empty(len(names), dtype=np.int32)
    order[[places[a] for a in names]] = np.arange(len(names))
    ends = np.cumsum([0, *map(len, columns)])
    data = np.concatenate(counts), order[np.concatenate(columns)], ends
    table = csr_array(data, shape=(len(checked), len(names)))
    table.sort_indices()
    return table, names


def _checked(strings: Sequence[str]) -> list[str]:
    if isinstance(strings, (str, bytes)):
        raise InputError(
            f"The strings are a single {type(strings).__name__}; pass a list with one string per "
            "sample."
        )
    samples = list(strings)
    for i, x in enumerate(samples):
        if not isinstance(x, str):
            raise InputError(
                f"Sample {i} is {str(x)[:40]!r} ({type(x).__name__}), not a string; pass text, and "
                "drop or fill missing values."
            )
    if not samples:
        raise InputError("There are 0 strings; pass one per sample.")
    return samples
