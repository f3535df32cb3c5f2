r"""Kernels on strings: substrings that two strings share (JMLR 5.1.4).

    ``k(x, x') = sum_a w_a #_a(x) #_a(x')``

over substrings a, ``#_a(x)`` being the number of places in x, overlapping ones too, where a begins
(Leslie et al. 2002; Vishwanathan and Smola 2003). For DNA, proteins, text, event logs: data without
columns, whose features are only found by counting.

Substrings are counted by whole-number codes that are exact, never by hashes. A substring of t
letters over an alphabet of q is a number in base q; where ``q^t`` would leave 64 bits, the prefixes
that do occur are numbered in their order and their numbers stand for them. Codes therefore sort as
the substrings do.

Memory: strings are counted a block of `BLOCK` letters at a time, some 100 bytes a letter of a block
besides 4 bytes a letter in all. What remains is the result: 12 bytes for every string and distinct
substring in it, and for every distinct substring its name, 50 bytes and one a letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack, vstack

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.counting import AbstractCountingKernel, check_decay, check_length

#: Letters that are counted together.
BLOCK = 2**20
#: Codes stay below this.
LARGEST_CODE = 2**62


@dataclass(frozen=True)
class Spectrum(AbstractCountingKernel):
    """Substrings of one length, each of weight 1: the spectrum kernel (Leslie et al. 2002).

    For motifs of a known length: k-mers of DNA (6 to 12), of proteins (3), of text (4 or 5).

    Parameters
    ----------
    k : int
        Letters of a substring, at least 1.

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
        check_length("Spectrum k", self.k)

    def counts(self, samples: Sequence[str]) -> tuple[Any, list[str]]:
        """How often each substring of k letters is in each string.

        Upper and lower case are different letters.

        Raises
        ------
        InputError
            Anything but strings, or none with k letters.
        """
        return _counts(samples, [int(self.k)])

    def weights(self, names: Sequence[str]) -> Float:
        return np.ones(len(names))


@dataclass(frozen=True)
class WeightedSubstrings(AbstractCountingKernel):
    """All substrings of 1 to `longest` letters, weighted (Vishwanathan and Smola 2003).

    For motifs whose length is not known, or when some substrings are known to matter more.

    Parameters
    ----------
    longest : int
        Letters of the longest substrings, at least 1.
    decay : float, mapping or callable
        ``w_a``: a positive number stands for ``decay**len(a)``, below 1 in favour of short
        substrings, above 1 of long ones; a mapping from substring to weight leaves out all
        others; a callable is asked for the weight of each substring.

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
        check_length("WeightedSubstrings longest", self.longest)
        if not (isinstance(self.decay, Mapping) or callable(self.decay)):
            check_decay("WeightedSubstrings decay", self.decay)

    def counts(self, samples: Sequence[str]) -> tuple[Any, list[str]]:
        """How often each substring is in each string; as of `Spectrum.counts`.

        Raises
        ------
        InputError
            Anything but strings, or only empty ones.
        """
        return _counts(samples, range(1, int(self.longest) + 1))

    def weights(self, names: Sequence[str]) -> Float:
        """``w_a``, (n,).

        Raises
        ------
        InputError
            The mapping or the callable gives what is no number from 0.
        """
        if isinstance(self.decay, Mapping):
            given = [self.decay.get(a, 0.0) for a in names]
        elif callable(self.decay):
            given = [self.decay(a) for a in names]
        else:
            return np.power(float(self.decay), [len(a) for a in names])
        w = np.array(given, dtype=np.float64)
        bad = np.flatnonzero(~((w >= 0) & np.isfinite(w)))
        if bad.size:
            raise InputError(
                f"The weight of substring {names[bad[0]]!r} is {given[bad[0]]!r}; weights are "
                "finite and not below 0."
            )
        return w


@dataclass(frozen=True)
class _Block:
    """Strings one after the other.

    Attributes
    ----------
    letters : (N,) int32
        Places in the alphabet.
    sizes : (s,) int64
        Letters of each string.
    """

    letters: Array
    sizes: Index

    def rows(self, length: int) -> tuple[Index, Index]:
        """Where a substring of that length begins, and in which string of the block; (n,) each."""
        rows = np.repeat(np.arange(self.sizes.size), self.sizes)
        ends = np.repeat(np.cumsum(self.sizes), self.sizes)
        starts = np.flatnonzero(np.arange(rows.size) + length <= ends)
        return starts, rows[starts]


@dataclass(frozen=True)
class _Vocabulary:
    """All substrings of a length: `codes` (n,) ascending, `spelled` (n, length) as letters."""

    length: int
    codes: Index
    spelled: Array


@dataclass(frozen=True)
class _Coder:
    """From substrings to codes and back.

    Attributes
    ----------
    q : int
        Letters of the alphabet.
    anchors : tuple of _Vocabulary
        Of the lengths at which codes begin anew as numbers of known prefixes; ascending.
    """

    q: int
    anchors: tuple[_Vocabulary, ...]

    def codes(self, letters: Array, length: int) -> Index:
        """Of the substrings that begin at every place, also across the ends of strings; (n,)."""
        n = max(0, letters.size - length + 1)
        codes, done = np.zeros(n, dtype=np.int64), 0
        for anchor in self.anchors:
            codes = self._append(codes, letters, done, anchor.length)
            # Across an end, where the prefix may be unknown, the number is any: not used.
            codes, done = np.searchsorted(anchor.codes, codes), anchor.length
        return self._append(codes, letters, done, length)

    def _append(self, codes: Index, letters: Array, done: int, length: int) -> Index:
        """Codes (n,) of the first `done` letters, carried on to `length`."""
        for i in range(done, length):
            codes *= self.q
            codes += letters[i : i + codes.size]
        return codes

    def vocabulary(self, codes: Index, length: int) -> _Vocabulary:
        """What the codes (n,), ascending, say."""
        done = self.anchors[-1].length if self.anchors else 0
        digits = np.empty((codes.size, length - done), dtype=np.min_scalar_type(self.q - 1))
        rest = codes
        for i in reversed(range(length - done)):
            rest, digits[:, i] = np.divmod(rest, self.q)
        if not self.anchors:
            return _Vocabulary(length, codes, digits)
        return _Vocabulary(length, codes, np.hstack([self.anchors[-1].spelled[rest], digits]))

    def room(self) -> int:
        """The longest substring whose code fits."""
        known = self.anchors[-1] if self.anchors else None
        bound, length = (known.codes.size + 1, known.length) if known else (1, 0)
        if self.q == 1:
            return LARGEST_CODE
        while bound * self.q <= LARGEST_CODE:
            bound, length = bound * self.q, length + 1
        return length


def _counts(strings: Sequence[str], lengths: Sequence[int]) -> tuple[Any, list[str]]:
    """Counts (m, n) of all substrings of these lengths, ascending, and their names."""
    checked = _checked(strings)
    longest = max(map(len, checked))
    if longest < lengths[0]:
        raise InputError(
            f"The longest of {len(checked)} strings has {longest} letters and a substring "
            f"{lengths[0]}; pass shorter substrings, or longer strings."
        )
    blocks, alphabet = _encoded(checked)
    coder = _Coder(alphabet.size, ())
    tables, names = [], []
    for length in range(lengths[0], min(lengths[-1], longest) + 1):
        coder = _reaching(coder, blocks, length)
        table, vocabulary = _table(coder, blocks, length)
        tables.append(table)
        names += _names(vocabulary, alphabet)
    if len(tables) == 1:  # codes sort as substrings of one length do
        return tables[0], names
    order = sorted(range(len(names)), key=names.__getitem__)
    return csr_array(hstack(tables, format="csr")[:, order]), [names[a] for a in order]


def _checked(strings: Sequence[str]) -> list[str]:
    if isinstance(strings, (str, bytes)):
        raise InputError(
            f"One {type(strings).__name__} came for the strings; pass a list with one string a "
            "sample."
        )
    given = list(strings)
    for i, x in enumerate(given):
        if not isinstance(x, str):
            raise InputError(
                f"Sample {i} is {str(x)[:40]!r} ({type(x).__name__}), no string; pass text, and "
                "drop or fill what is missing."
            )
    if not given:
        raise InputError("There are 0 strings; pass one a sample.")
    return given


def _encoded(strings: list[str]) -> tuple[list[_Block], Array]:
    """Blocks of letters, as places in the alphabet of all strings, and that alphabet's points."""
    texts = [(_points("".join(part)), [len(x) for x in part]) for part in _parts(strings)]
    alphabet = np.unique(np.concatenate([np.unique(points) for points, _ in texts]))
    blocks = [
        _Block(np.searchsorted(alphabet, points).astype(np.int32), np.array(sizes, dtype=np.int64))
        for points, sizes in texts
    ]
    return blocks, alphabet


def _points(text: str) -> Array:
    """Code points, by which Python sorts."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _parts(strings: list[str]) -> Iterator[list[str]]:
    """Consecutive strings of about `BLOCK` letters together."""
    part: list[str] = []
    size = 0
    for x in strings:
        if part and size + len(x) > BLOCK:
            yield part
            part, size = [], 0
        part.append(x)
        size += len(x)
    yield part


def _reaching(coder: _Coder, blocks: list[_Block], length: int) -> _Coder:
    """The coder with as many anchors as substrings of that length take."""
    while coder.room() < length:
        anchor = _table(coder, blocks, coder.room())[1]
        coder = _Coder(coder.q, (*coder.anchors, anchor))
    return coder


def _table(coder: _Coder, blocks: list[_Block], length: int) -> tuple[Any, _Vocabulary]:
    """Counts (m, n) of the substrings of one length, and what these are."""
    found = []
    for block in blocks:
        starts, rows = block.rows(length)
        codes = coder.codes(block.letters, length)[starts]
        distinct, columns = np.unique(codes, return_inverse=True)
        shape = (block.sizes.size, distinct.size)
        ones = np.ones(rows.size, dtype=np.int64)
        found.append((distinct, coo_array((ones, (rows, columns)), shape).tocsr()))
    codes = np.unique(np.concatenate([distinct for distinct, _ in found]))
    tables = [
        csr_array(
            (table.data, np.searchsorted(codes, distinct)[table.indices], table.indptr),
            shape=(table.shape[0], codes.size),
        )
        for distinct, table in found
    ]
    return vstack(tables, format="csr"), coder.vocabulary(codes, length)


def _names(vocabulary: _Vocabulary, alphabet: Array) -> list[str]:
    """The substrings as text."""
    k = vocabulary.length
    width = max(1, BLOCK // k)
    names: list[str] = []
    for a in range(0, len(vocabulary.spelled), width):
        points = alphabet[vocabulary.spelled[a : a + width]].astype("<u4")
        text = points.tobytes().decode("utf-32-le", "surrogatepass")
        names += (text[i : i + k] for i in range(0, len(text), k))
    return names
