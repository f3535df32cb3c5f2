r"""Blocks of samples, and the permutations of labels that they allow.

Samples often form blocks, such as donors, plates, families or batches. All samples of a block may
have the same label, like the cells of a donor with a diagnosis. A permutation then exchanges the
labels of whole blocks, and the permuted *units* are the blocks. Otherwise a unit is one sample.
Blocks may also differ in other respects than the labels, as batches do. Labels are then exchanged
only within these blocks, the *strata*. Both kinds together permute, for example, donors within
sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError

#: Minimum number of whole blocks for a permutation test.
FEWEST_UNITS = 4
#: Maximum number of blocks that a message names.
NAMED = 3


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of m samples: whole blocks, strata, or both.

    Attributes
    ----------
    whole : (m,) array or None
        For each sample, the name of its block. Labels are exchanged between whole blocks.
    within : (m,) array or None
        For each sample, the name of its stratum. Labels are exchanged within strata.
    """

    whole: Array | None = None
    within: Array | None = None

    def of_samples(self, rows: Index) -> Blocks:
        """Return the blocks of the samples `rows` (n,)."""
        return Blocks(*(None if each is None else each[rows] for each in (self.whole, self.within)))

    @property
    def parts(self) -> tuple[Array | None, Array | None]:
        """The arrays `whole` and `within`, for the identity of a run."""
        return self.whole, self.within

    @property
    def options(self) -> str:
        """Names of the parameters that define the blocks."""
        each = {"permute_whole": self.whole, "permute_within": self.within}
        return " and ".join(f"{name}=" for name, values in each.items() if values is not None)

    @cached_property
    def units(self) -> Index:
        """Number of the unit of each sample, (m,): its block, or else the sample itself.

        The units of a stratum have consecutive numbers.
        """
        strata = self._codes(self.within)
        if self.whole is None:
            units = np.empty(strata.size, dtype=np.int64)
            units[np.argsort(strata, kind="stable")] = np.arange(strata.size)
            return units
        codes = self._codes(self.whole)
        _, first = np.unique(codes, return_index=True)
        place = np.empty(first.size, dtype=np.int64)
        place[np.argsort(strata[first], kind="stable")] = np.arange(first.size)
        return place[codes]

    def _codes(self, values: Array | None) -> Index:
        """Number the blocks by sorted names; return the number of each sample, 0 without blocks."""
        if values is None:
            return np.zeros(len(self.whole if self.whole is not None else ()), dtype=np.int64)
        return np.unique(values, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def first(self) -> Index:
        """Index of the first sample of each of the G units (exchanged blocks or samples), (G,)."""
        return np.unique(self.units, return_index=True)[1]

    @cached_property
    def by_unit(self) -> Index:
        """Sample indices sorted by unit (the block or sample that permutations exchange), (m,)."""
        return np.argsort(self.units, kind="stable")

    @cached_property
    def sizes(self) -> Index:
        """Number of samples of each unit (block or sample that permutations exchange), (G,)."""
        return np.bincount(self.units)

    @cached_property
    def strata(self) -> Index:
        """Number of the stratum of each unit (block or sample that permutations exchange), (G,)."""
        return self._codes(self.within)[self.first]

    @cached_property
    def starts(self) -> Index:
        """Number of the first unit of each stratum.

        Units are the blocks or samples that permutations exchange.
        """
        return np.flatnonzero(np.diff(self.strata, prepend=-1))

    @property
    def n_units(self) -> int:
        return self.sizes.size

    @property
    def has_strata(self) -> bool:
        """Whether there are two or more strata."""
        return self.starts.size > 1

    @property
    def described(self) -> str:
        """Description of the permutations, for sentences about p-values."""
        parts = []
        if self.whole is not None:
            parts.append(f"between {self.n_units:,} whole blocks")
        if self.within is not None:
            n = np.diff(np.append(self.starts, self.n_units))
            single = f" ({np.count_nonzero(n == 1):,} with a single unit, which keeps its label)"
            parts.append(f"within {n.size:,} blocks{single * bool((n == 1).any())}")
        return f"labels are exchanged {' '.join(parts)}"

    def check(self) -> None:
        """Raise InputError for blocks that cannot be permuted.

        Raises
        ------
        InputError
            There are too few blocks, or a block that is exchanged as a whole lies in several
            strata.
        """
        if self.whole is None:
            return
        if self.n_units < FEWEST_UNITS:
            raise InputError(
                f"permute_whole= has {self.n_units} blocks; a test needs {FEWEST_UNITS} or more, "
                "because only labels of whole blocks are exchanged. Pass samples of more blocks, "
                "or a variable with smaller blocks."
            )
        if self.within is None:
            return
        differs = np.flatnonzero(self.within != self.within[self.first][self.units])
        if differs.size:
            raise InputError(
                f"permute_within= differs within blocks of permute_whole= (first: block "
                f"{self.whole[differs[0]]}), but a whole block must lie in a single block of "
                "permute_within=. Leave permute_within= out and pass it as a covariate."
            )

    def of_units(self, labels: Array) -> Array:
        """Convert labels of samples, (m,) or (m, t), to labels of the G units, (G,) or (G, t).

        Units are the blocks or samples that permutations exchange.

        Raises
        ------
        InputError
            Labels differ between samples of a block that is permuted as a whole.
        """
        differs = labels != labels[self.first][self.units]
        differs = differs if differs.ndim == 1 else differs.any(axis=1)
        if differs.any():
            assert self.whole is not None, "a sample has one label"
            names = np.unique(self.whole[differs])
            shown = ", ".join(map(str, names[:NAMED])) + ", ..." * (names.size > NAMED)
            raise InputError(
                f"Labels differ within {names.size:,} of {self.n_units:,} blocks of permute_whole= "
                f"({shown}), so labels of whole blocks cannot be exchanged. If labels may "
                "be exchanged within these blocks, pass them as permute_within=; otherwise leave "
                "permute_whole= out and pass the blocks as a covariate."
            )
        return labels[self.first]

    def means(self, values: Float) -> Float:
        """Average values of samples, (R, m), over the samples of each unit: (R, G).

        Units are the blocks or samples that permutations exchange.
        """
        sums = np.add.reduceat(values[:, self.by_unit], np.cumsum(self.sizes) - self.sizes, axis=1)
        return np.asarray(sums / self.sizes)

    def centred(self, values: Float, present: Float | None = None) -> Float:
        """Subtract the mean of the stratum from values of units (R, G).

        Units are the blocks or samples that permutations exchange. `present` (G,) is 1 for units
        with a value, and 0 for others. The others have value 0 and keep it.
        """
        lengths = np.diff(np.append(self.starts, self.n_units))
        n = lengths if present is None else np.add.reduceat(present, self.starts)
        means = np.add.reduceat(values, self.starts, axis=1) / np.maximum(n, 1)
        centred = values - np.repeat(means, lengths, axis=1)
        return centred if present is None else centred * present
