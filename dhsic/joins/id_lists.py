"""Lists of sample or feature ids that users pass to filters, matched to the names in the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Mask
from dhsic.errors import InputError, warn
from dhsic.joins.keys import as_text
from dhsic.joins.sample_list import SampleList
from dhsic.namespace import slices
from dhsic.sources.columns import NAME, STRETCH, Column
from dhsic.sources.counted_names import written_once
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import abbreviate
from dhsic.sources.likeness import difference
from dhsic.sources.variants import IDS

#: Maximum number of names of the list, and of the data, that are compared for similarity.
MOST_ALIKE = 1 << 20


class IdList:
    """Ids of a filter, and how often each occurs in the data."""

    def __init__(self, given: Iterable[str]) -> None:
        self.names = pd.Index(pd.unique(as_text(given)), dtype=object)
        self.counts = np.zeros(self.names.size, dtype=np.int64)

    def among(self, *names: Array) -> Mask:
        """Return the mask of the items in the list, and count how often each id occurs.

        `names` are arrays of alternative names of the items; the first ones take precedence.
        """
        at = np.full(len(names[0]), -1)
        for item_names in names[::-1]:
            positions = self.names.get_indexer(pd.Index(item_names, dtype=object))
            at = np.where(positions >= 0, positions, at)
        np.add.at(self.counts, at[at >= 0], 1)
        return at >= 0

    def tell(self, name: str, noun: str, ours: Iterable[str]) -> None:
        """Warn of ids that are absent from the data, or repeated; InputError if all are absent.

        `ours` are the names in the data; the error explains how the ids are spelled differently.
        `name` is the filter, and `noun` is "samples" or "features".
        """
        lacking, repeated = self.names[self.counts == 0], self.names[self.counts > 1]
        if lacking.size == self.names.size:
            hint = difference(self.names[:MOST_ALIKE], islice(ours, MOST_ALIKE))[0]
            hint += " " * bool(hint)
            raise InputError(
                f"{name}= lists {self.names.size:,} {noun}, but none of them is in the data "
                f"({abbreviate(self.names) or 'the list is empty'}). {hint}Compare the names "
                f"with those in the data (dhsic inspect), or do not use {name}=."
            )
        if lacking.size:
            warn(
                f"{name}= lists {self.names.size:,} {noun}. Not in the data: {lacking.size:,} of "
                f"them ({abbreviate(lacking)}).",
            )
        if repeated.size:
            warn(
                f"{name}= lists {self.names.size:,} {noun}. Repeated in the data: "
                f"{repeated.size:,} of these names ({abbreviate(repeated)}). All occurrences are "
                "used.",
            )


def _listed(given: Any, name: str) -> Array:
    """Convert a sequence of ids to text; InputError for other input."""
    values = np.array([given] if np.ndim(given) == 0 else [*given], dtype=object)
    if values.ndim != 1 or np.ndim(given) == 0:
        raise InputError(
            f"{name}={given!r} is not a list; pass the path of a file, or a list of ids."
        )
    return as_text(values)


def samples_listed(
    given: Any, name: str, known: Array | None, families: tuple[Array, Array] | None = None
) -> Mask:
    """Return the mask of samples in a list or file of ids; `families` are their FIDs and IIDs.

    `known` (m,) are the sample names of the data; InputError if there are none.
    """
    if known is None:
        raise InputError(
            f"The data have no sample names, so {name}= cannot find any samples. In Python, pass "
            "a mask instead: a bool array with one value per sample."
        )
    names = as_text(known)
    once = written_once(names)
    of_each = [names] if once is None else [names, once]
    listed = SampleList.read(fspath(given)) if isinstance(given, str | PathLike) else None
    keys = iter([_listed(given, name)]) if listed is None else listed.keys()
    matches = [(key := IdList(ids), key.among(*of_each)) for ids in keys]
    ids, mask = max(matches, key=lambda one: int((one[0].counts > 0).sum()))
    ids.tell(name, "samples", names)
    if listed is None or listed.families is None or families is None:
        return mask
    pairs = pd.MultiIndex.from_arrays([listed.families, listed.own])
    is_pair = pd.MultiIndex.from_arrays([*map(as_text, families)]).isin(pairs)
    is_own = np.isin(as_text(families[1]), listed.own)
    wrong = np.flatnonzero(mask & is_own & ~is_pair)
    if wrong.size:
        own = families[1][wrong[0]]
        theirs = listed.families[listed.own.index(own)]
        sentence = (
            f"{name}= lists {wrong.size:,} samples whose IID is in the data but with a different "
            f"FID (first: IID {own} has FID {theirs} in the list and {families[0][wrong[0]]} in "
            "the data)"
        )
        remedy = "Correct the FIDs, or list only IIDs, one per line."
        if wrong.size == mask.sum():
            raise InputError(f"{sentence}, and no other samples. {remedy}")
        warn(f"{sentence}. These samples do not match, as in PLINK. {remedy}")
        mask[wrong] = False
    return mask


def features_listed(given: Any, name: str, known: Mapping[str, Column]) -> Mask:
    """Return the mask of features in a list or file; ids take precedence over other names."""
    columns = [known[of] for of in (IDS, NAME) if of in known]
    if not columns:
        raise InputError(
            f"The data have no feature names, so {name}= cannot find any features. In Python, "
            "pass a mask instead: a bool array with one value per feature."
        )
    if isinstance(given, str | PathLike):
        text = Delimited(fspath(given), is_list=True)
        text.separator = ""  # ids may contain commas
        ids = IdList(word for line in text.lists() for word in line)
    else:
        ids = IdList(_listed(given, name))
    parts = [
        ids.among(*(as_text(column.read(rows)) for column in columns))
        for rows in slices(columns[0].n, STRETCH)
    ]
    ids.tell(name, "features", _names_in(columns))
    return np.concatenate(parts)


def _names_in(columns: list[Column]) -> Iterator[str]:
    """Yield all feature names of the columns."""
    return (name for column in columns for part in column.parts() for name in as_text(part))
