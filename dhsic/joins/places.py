"""Chromosomes and intervals in the notation of genome browsers, such as chr6:25,000-34,000."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index, Mask
from dhsic.errors import InputError
from dhsic.joins.keys import as_text
from dhsic.namespace import slices
from dhsic.sources import AbstractSource
from dhsic.sources.columns import STRETCH, Column
from dhsic.sources.ids import abbreviate
from dhsic.sources.variants import (
    CONTIG,
    POSITION,
    chromosome_name,
    chromosome_names,
    plink_numbers,
)

#: Pattern of a range of chromosomes, and of an interval on one.
SPAN = re.compile(r"(?:chr)?(\d+)-(?:chr)?(\d+)", re.IGNORECASE)
NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
PLACE = re.compile(rf"(.+):({NUMBER})-({NUMBER})")
#: Pattern of the text between commas; commas within the numbers of an interval do not separate.
BETWEEN = re.compile(rf"[^,]+:{NUMBER}-{NUMBER}(?=\s*(?:,|$))|[^,]+")


@dataclass(frozen=True)
class Place:
    """Chromosomes, or an interval of one, as the user wrote it (`said`).

    `alias` maps chromosome names, see `plink_numbers`.
    """

    said: str
    alias: Mapping[str, str]

    def holds(self, chromosome: str, positions: Array | None) -> Mask | bool:
        """Return the mask of the features on `chromosome` that lie inside, or one bool for all.

        `positions` are the positions of these features.
        """
        name, span = self._name(chromosome), SPAN.fullmatch(self.said)
        if name == self._name(self.said):
            return True
        if span is not None:
            numbers = {other: number for number, other in self.alias.items() if number.isdecimal()}
            number = numbers.get(name, name)
            return number.isdecimal() and int(span[1]) <= int(number) <= int(span[2])
        place = PLACE.fullmatch(self.said)
        if place is None or self._name(place[1]) != name:
            return False
        if positions is None:
            raise InputError(
                f"chromosomes={self.said!r} is an interval, but the data have no feature "
                "positions. Pass only chromosomes."
            )
        first, last = (int(place[i].replace(",", "")) for i in (2, 3))
        return np.asarray((first <= positions) & (positions <= last))

    def _name(self, said: str) -> str:
        bare = chromosome_name(said)
        return self.alias.get(bare, bare)


def places_in(said: Any) -> list[str]:
    """Split text into chromosomes and intervals; commas within numbers do not separate.

    >>> places_in("1-5,X,chr6:25,000,000-34,000,000"), places_in(["6:1-5", "7"])
    (['1-5', 'X', 'chr6:25,000,000-34,000,000'], ['6:1-5', '7'])
    """
    if not isinstance(said, str):
        return [str(each).strip() for each in said]
    texts = [text.strip() for text in BETWEEN.findall(said)]
    return [text for text in texts if text]


def features_at(said: Any, known: Mapping[str, Column]) -> Mask:
    """Return the mask (d,) of the features on the chromosomes or in the intervals in `said`.

    Raises
    ------
    InputError
        A chromosome or interval contains no feature, or the data have no chromosomes.
    """
    texts = places_in(said)
    if CONTIG not in known:
        raise InputError(
            "The data do not specify the chromosomes of features, so chromosomes= cannot find "
            "any. Select features by name (extract=), or by a variable of the data (extract_if=)."
        )
    stretches = [*slices(known[CONTIG].n, STRETCH)]
    each = [pd.factorize(as_text(known[CONTIG].read(rows))) for rows in stretches]
    chromosomes = dict.fromkeys(name for _, names in each for name in names.tolist())
    alias = plink_numbers(chromosomes)
    places = [Place(text, alias) for text in texts]
    mask, is_matched = np.zeros(known[CONTIG].n, dtype=bool), np.zeros(len(places), dtype=bool)
    for rows, (codes, names) in zip(stretches, each, strict=True):
        positions = known[POSITION].read(rows) if POSITION in known else None
        for code, name in enumerate(names):
            for i, place in enumerate(places):
                there = (codes == code) & place.holds(name, positions)
                mask[rows] |= there
                is_matched[i] |= there.any()
    unknown = [
        place.said for place, is_there in zip(places, is_matched, strict=True) if not is_there
    ]
    if unknown or not places:
        which = "" if len(unknown) == len(places) else f"{abbreviate(unknown, 30)}, part of "
        raise InputError(
            f"No feature lies in {which}chromosomes={said!r}; the data have the chromosomes "
            f"{abbreviate(chromosomes, 30)}. Pass names, numbers such as 1-5, or intervals such "
            "as 6:25000000-34000000."
        )
    return mask


def chromosome_codes(source: AbstractSource) -> tuple[Index, Array] | None:
    """Return the chromosome of each feature as a code (d,), and the names; None if unknown.

    A code is an index into the names. The names are normalised: "chr6" becomes "6", and PLINK's 23
    becomes "X".
    """
    places = source.feature_places()
    if CONTIG not in places:
        return None
    spelled, texts = pd.factorize(as_text(places[CONTIG]))
    bare = chromosome_names(texts.tolist())
    codes, names = pd.factorize(np.array([bare[name] for name in texts.tolist()], dtype=object))
    return codes[spelled], names
