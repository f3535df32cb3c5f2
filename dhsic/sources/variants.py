"""Variants of VCF Zarr: names, positions, FILTER and alleles, in arrays that are read on demand.

Arrays of a group are read a few rows at a time if possible, because ten million ids need half a
gigabyte as text. A rule for all variants (`Naming`) decides between names by id and by position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import pandas as pd
import xarray as xr
import zarr
from zarr.storage import StorePath

from dhsic._typing import Array, Index, Mask
from dhsic.errors import DataError, InputError
from dhsic.namespace import slices
from dhsic.sources import PLACES, AbstractSource, Names
from dhsic.sources.chunked import group_at, member, place_of, read_array
from dhsic.sources.columns import NAME, STRETCH, Column, all_differ, bits_of, repeated_bits
from dhsic.sources.options import MissingChunks, text
from dhsic.sources.views import SubsetSource

#: Arrays that describe variants, and the array into which `variant_contig` is an index.
IDS, ALLELES = "variant_id", "variant_allele"
REF, ALT = "variant_ref", "variant_alt"
CONTIG, POSITION = PLACES
CONTIGS = "contig_id"
FILTER, FILTER_IDS = "variant_filter", "filter_id"
PASS = "PASS"
#: Allele of a variant within a deletion that begins before it.
SPANNING_DELETION = "*"
#: Name of a missing contig (index -1), as in VCF.
NO_CONTIG = "."
#: Chromosome names of variants on an unknown chromosome, in VCF and PLINK.
NOWHERE = ("", NO_CONTIG, "0")
#: Human chromosomes by PLINK number, and PLINK's names of the regions that X and Y share.
OF_PLINK = {"23": "X", "24": "Y", "25": "XY", "26": "MT", "PAR1": "XY", "PAR2": "XY"}
MOST_OF_PLINK = 26
#: Number of rows of text that are read at a time.
AT_A_TIME = 2**16


def chromosome_name(name: str) -> str:
    """Return the standard name of a chromosome: upper case, without chr and leading zeros.

    >>> chromosome_name("chr06"), chromosome_name("M"), chromosome_name("chrX")
    ('6', 'MT', 'X')
    """
    bare = re.sub("^chr", "", name.strip(), flags=re.IGNORECASE).upper()
    return "MT" if bare == "M" else bare.lstrip("0") or bare[:1]


def plink_numbers(names: Iterable[str]) -> Mapping[str, str]:
    """Return the human chromosomes that PLINK writes as numbers, such as 23 for X.

    `names` are all chromosomes of the data. The result is {} for other species: if a number is
    above 26, or if X, Y or Z occurs beside numbers from 23 on, as in cattle.

    >>> plink_numbers(["1", "chr23"])["23"], plink_numbers(["22", "23", "X"])
    ('X', {})
    """
    known_names = {chromosome_name(name) for name in names}
    numbers = {name for name in known_names if name.isdecimal()}
    is_other = any(int(number) > MOST_OF_PLINK for number in numbers)
    return {} if is_other or (known_names & {"X", "Y", "Z"} and numbers & {*OF_PLINK}) else OF_PLINK


#: Sex chromosomes of humans and birds, and the mitochondrial one.
NOT_AUTOSOMES = ("X", "Y", "XY", "Z", "W", "ZW", "MT")


def chromosome_names(names: Iterable[str]) -> dict[str, str]:
    """Map names of chromosomes to standard names, in which only autosomes are numbers.

    >>> chromosome_names(["chr1", "23", "M"])
    {'chr1': '1', '23': 'X', 'M': 'MT'}
    """
    listed = [*names]
    alias = plink_numbers(listed)
    bare = {name: chromosome_name(name) for name in listed}
    return {name: alias.get(each, each) for name, each in bare.items()}


def are_on_x(chromosomes: Array) -> Mask:
    """Return the mask (d,) of the variants on X, given the names (d,) of their chromosomes.

    >>> are_on_x(np.array(["1", "23", "25"], dtype=object)).tolist()
    [False, True, False]
    """
    codes, names = pd.factorize(chromosomes)
    bare = chromosome_names(names.tolist())
    return np.isin(codes, [i for i, name in enumerate(names) if bare[name] == "X"])


class Variants:
    """The arrays ``variant_*``, ``sample_id`` and ``contig_id`` of a VCF Zarr group or Dataset.

    Text from a group is cached only while it is in use, because a million ids need 60 MB.
    """

    def __init__(self, data: StorePath | zarr.Group | xr.Dataset) -> None:
        self._data = data
        self._held: WeakValueDictionary[str, Array] = WeakValueDictionary()
        self._found: dict[str, zarr.Array[Any] | xr.Variable | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Variants, (self._data,)

    @classmethod
    def of(cls, data: StorePath | xr.Dataset, d: int, where: str) -> Variants:
        """Create the variants of `data`; raise DataError unless there are d with valid contigs."""
        variants = cls(data)
        for name in (CONTIG, POSITION, ALLELES, IDS):
            array = variants._find(name)
            if array is not None and array.shape[:1] != (d,):
                raise DataError(
                    f"{name} of {where} has shape {array.shape}, but there are {d} variants. The "
                    "store is damaged: write it again."
                )
        index, names = variants.get(CONTIG), variants.get(CONTIGS)
        if index is None or names is None or index.dtype.kind not in "iu":
            return variants
        outside = np.flatnonzero((index < -1) | (index >= len(names)))
        if outside.size:
            raise DataError(
                f"{CONTIG} of {where} is {index[outside[0]]} for variant {outside[0]} "
                f"({outside.size} such variants in total), but {CONTIGS} lists {len(names)} "
                f"contigs, with indices 0 to {len(names) - 1}; -1 means missing. The store is "
                "damaged: write it again."
            )
        return variants

    @classmethod
    def names_of(cls, data: zarr.Group | xr.Dataset, d: int) -> Names:
        """Return names and coordinates of d variants; those of a group are read on demand."""
        if isinstance(data, xr.Dataset):
            here = cls.of(data, d, "the Dataset")
            return Names(here.names(), here.samples(), here.coords(), dim="variants")
        stored = cls.of(place_of(data), d, str(data.store_path))
        of_each = stored.names, stored.samples, stored.coords
        return Names(*of_each, stored.key, stored.check, partial(stored.columns, d))

    def names(self) -> Array | None:
        """Return the names of the variants: ids, or else "contig:position[:ref:alt]".

        Variants without an id and variants that share an id are named by position. The result is
        None if the data have neither ids nor positions.
        """
        naming = self._naming
        return None if naming is None else self._variant_names(naming)

    def on_x(self) -> Index:
        """Return the ascending positions of the variants on X, counted from 0."""
        index, names = self.get(CONTIG), self.get(CONTIGS)
        if index is None:
            return np.empty(0, dtype=np.int64)
        if names is None or index.dtype.kind not in "iu":
            return np.flatnonzero(are_on_x(text(index)))
        return np.flatnonzero(np.isin(index, np.flatnonzero(are_on_x(text(names)))))

    def samples(self) -> Array | None:
        """Return the ids of the samples (m,); None if they are not stored."""
        return self._text("sample_id")

    def coords(self) -> dict[str, Array]:
        """Return contigs, positions, ids and alleles of the variants, if they are stored."""
        return {name: read() for name, (_, read) in self._readers().items()}

    def columns(self, d: int) -> dict[str, Column]:
        """Return coordinates and names of d variants as columns, which are read in parts."""
        readers, naming = self._readers(), self._naming
        if naming is not None:
            readers[NAME] = np.dtype(object), partial(self._variant_names, naming)
        return {name: Column(d, dtype, read) for name, (dtype, read) in readers.items()}

    def _readers(self) -> dict[str, tuple[Any, Callable[..., Array]]]:
        """Return the dtype of each coordinate, and a function that reads it or a slice of it."""
        text_, alleles = np.dtype(object), self._find(ALLELES)
        readers: dict[str, tuple[Any, Callable[..., Any]]] = {
            CONTIG: (text_, self._contigs),
            POSITION: (np.dtype(np.int64), self._positions),
            IDS: (text_, partial(self._text, IDS)),
        }
        available = {name: of for name, of in readers.items() if self._find(name) is not None}
        if alleles is not None and alleles.ndim == 2 and alleles.shape[1]:
            available |= {REF: (text_, self._ref), ALT: (text_, self._alt)}
        return available

    def key(self) -> tuple[Array | None, ...]:
        """Return positions, contigs and sample ids for a fingerprint.

        Ids of variants are not used, because reading them takes 100 times as long.
        """
        return self.get(POSITION), self.get(CONTIG), self.samples()

    def check(self) -> None:
        """Read the arrays of variant names in parts, so that damaged chunks raise an error."""
        for name in (IDS, POSITION, CONTIG, CONTIGS):
            array = self._find(name)
            if array is not None and not isinstance(array, xr.Variable):
                for rows in _stretches(array):
                    read_array(array, "fill", rows)

    def get(
        self, name: str, missing_chunks: MissingChunks = "fill", rows: slice | None = None
    ) -> Array | None:
        """Return the array `name`, or some rows of it; None if it does not exist."""
        array = self._find(name)
        if array is None or isinstance(array, xr.Variable):
            return None if array is None else np.asarray(array[rows or slice(None)].values)
        if name not in (IDS, ALLELES):
            return read_array(array, missing_chunks, ... if rows is None else rows)
        if rows is not None:
            return text(read_array(array, missing_chunks, rows))
        cached = self._held.get(name)
        if cached is None:
            cached = np.empty(array.shape, dtype=object)
            for some in _stretches(array):  # reading all at once needs twice the memory
                cached[some] = text(read_array(array, missing_chunks, some))
            self._held[name] = cached
        return cached

    def _find(self, name: str) -> zarr.Array[Any] | xr.Variable | None:
        if name not in self._found:
            data = self._opened
            self._found[name] = (
                data.variables.get(name) if isinstance(data, xr.Dataset) else member(data, name)
            )
        return self._found[name]

    @cached_property
    def _opened(self) -> zarr.Group | xr.Dataset:
        return group_at(self._data) if isinstance(self._data, StorePath) else self._data

    def _text(self, name: str, rows: slice | None = None) -> Array | None:
        values = self.get(name, rows=rows)
        return None if values is None else text(values)

    def _positions(self, rows: slice | None = None) -> Array:
        position = self.get(POSITION, rows=rows)
        assert position is not None, "callers check that positions are stored"
        return position.astype(np.int64)

    def _contigs(self, rows: slice | None = None) -> Array | None:
        index, names = self.get(CONTIG, rows=rows), self._contig_names
        if index is None:
            return None
        if names is None or index.dtype.kind not in "iu":
            return text(index)
        contigs: Array = np.append(names, NO_CONTIG)[index]  # -1 is the appended one
        return contigs

    @cached_property
    def _contig_names(self) -> Array | None:
        return self._text(CONTIGS)

    def _ref(self, rows: slice | None = None) -> Array:
        return _alleles(self.get(ALLELES, rows=rows))[REF]

    def _alt(self, rows: slice | None = None) -> Array:
        return _alleles(self.get(ALLELES, rows=rows))[ALT]

    @cached_property
    def _naming(self) -> Naming | None:
        """Naming rule for all variants; None if there are neither ids nor positions."""
        has_places = self._find(CONTIG) is not None and self._find(POSITION) is not None
        ids = self._find(IDS)
        if ids is None:
            return Naming(by_id=False, by_alleles=self._repeat_places) if has_places else None
        n = int(ids.shape[0])
        of_ids = Naming(by_id=True, by_place=False)
        if not has_places:
            return of_ids
        are_named = True

        def present() -> Iterator[Array]:
            nonlocal are_named
            for part in self._parts(of_ids, n):
                missing = unnamed(part)
                are_named = are_named and not missing.any()
                yield part[~missing]

        repeated = repeated_bits(present())
        if are_named and not repeated.size:
            return of_ids
        by_alleles = self._repeat_places
        some = Naming(by_id=True, by_alleles=by_alleles, repeated=repeated)
        places = Naming(by_id=False, by_alleles=by_alleles)
        if all_differ(partial(self._parts, some, n)):
            return some
        # An id may look like the position of another variant.
        return places if all_differ(partial(self._parts, places, n)) else some

    @property
    def _repeat_places(self) -> bool:
        """Whether positions are repeated, so that names of variants must contain alleles."""
        positions = self._find(POSITION)
        if positions is None or self._find(ALLELES) is None:
            return False
        n = int(positions.shape[0])
        return not all_differ(partial(self._parts, Naming(by_id=False), n))

    def _parts(self, naming: Naming, n: int) -> Iterator[Array]:
        return (self._variant_names(naming, rows) for rows in slices(n, STRETCH))

    def _variant_names(self, naming: Naming, rows: slice | None = None) -> Array:
        """Return the names of all variants, or of the variants `rows`, by a naming rule."""
        if not naming.by_place:
            ids = self._text(IDS, rows)
            assert ids is not None, "they name the variants"
            return ids  # avoids positions, 100 MB per million
        places = self._places(rows, by_alleles=naming.by_alleles)
        if not naming.by_id:
            return places
        ids = self._text(IDS, rows)
        assert ids is not None, "they name the variants"
        lacking = unnamed(ids)
        if naming.repeated is not None and naming.repeated.size:
            lacking |= np.isin(bits_of(ids), naming.repeated)
        return np.where(lacking, places, ids)

    def _places(self, rows: slice | None, *, by_alleles: bool) -> Array:
        contigs, positions = self._contigs(rows), self.get(POSITION, rows=rows)
        assert contigs is not None, "they name the variants"
        assert positions is not None, "they name the variants"
        places = [f"{c}:{p}" for c, p in zip(contigs, positions, strict=True)]
        if by_alleles:
            alleles = self.get(ALLELES, rows=rows)
            places = [
                f"{place}:{row[0]}:{','.join(a for a in row[1:] if a)}"
                for place, row in zip(places, text(np.asarray(alleles)), strict=True)
            ]
        return np.array(places, dtype=object)


class Naming(NamedTuple):
    """Rule for names of variants: id, or else position, with alleles if positions are repeated.

    `repeated` contains hashes (`repeated_bits`) of the ids that several variants share. These
    variants are named by position.
    """

    by_id: bool
    by_place: bool = True
    by_alleles: bool = False
    repeated: Array | None = None


def unnamed(ids: Array) -> Mask:
    """Return the mask (n,) of missing ids."""
    return np.isin(ids, (".", ""))


def _alleles(alleles: Array | None) -> dict[str, Array]:
    """Return the reference alleles, and the other alleles joined by commas, of the variants."""
    assert alleles is not None, "callers check that the alleles are stored"
    columns = [text(column) for column in alleles.T]
    alt = columns[1].copy() if columns[1:] else np.full(len(alleles), "", dtype=object)
    for column in columns[2:]:
        more = np.flatnonzero(column != "")
        alt[more] = [f"{a},{b}" for a, b in zip(alt[more], column[more], strict=True)]
    return {REF: columns[0], ALT: alt}


@dataclass(frozen=True, eq=False)
class FilterColumn:
    """FILTER of d variants: PASS, other filters, or "." if no filters were applied.

    `passed` is the mask of PASS. `n_failed` is the number of variants with other filters, and
    `n_unset` the number of variants with ".". `by_id` contains the number of variants per filter
    other than PASS; a variant may have several filters.
    """

    passed: Mask  # (d,)
    n_failed: int
    n_unset: int
    by_id: Mapping[str, int]

    @classmethod
    def of(cls, data: Any, d: int, missing_chunks: MissingChunks = "error") -> FilterColumn | None:
        """Read the FILTER of d variants from a group or Dataset; None if it has none."""
        if not isinstance(data, zarr.Group | xr.Dataset):
            return None
        variants = Variants(data)
        given, listed = (variants.get(name, missing_chunks) for name in (FILTER, FILTER_IDS))
        if given is None or listed is None:
            return None
        if given.shape != (d, listed.size):
            raise DataError(
                f"{FILTER} has shape {given.shape}, but there are {d} features and {listed.size} "
                f"filters in {FILTER_IDS}. The features are not variants, or the store is "
                "damaged: choose another variable, or write it again."
            )
        ids = [str(name) for name in listed]
        has = given.astype(bool)
        passed = has[:, ids.index(PASS)] if PASS in ids else np.zeros(d, dtype=bool)
        n_set = int(has.any(axis=1).sum())
        counts = zip(ids, has.sum(axis=0), strict=True)
        by_id = {name: int(n) for name, n in counts if n and name != PASS}
        return cls(passed, n_set - int(passed.sum()), d - n_set, by_id)

    def plain(self) -> dict[str, Any]:
        """Return the counts as plain data, for JSON."""
        n_passed = int(self.passed.sum())
        counts = {"pass": n_passed, "other": self.n_failed, "none": self.n_unset}
        return {**counts, "by_id": dict(self.by_id)}

    def __str__(self) -> str:
        named = ", ".join(f"{name} {n:,}" for name, n in self.by_id.items())
        failed = f"{self.n_failed:,} other{f' ({named})' if named else ''}"
        return f"{int(self.passed.sum()):,} PASS, {failed}, {self.n_unset:,} unset ('.')"


def passing(source: AbstractSource, data: Any, missing_chunks: MissingChunks) -> SubsetSource:
    """Return a view of a source that contains only the variants with FILTER PASS.

    `data` is the group or Dataset from which the source was opened.
    """
    filters = FilterColumn.of(data, source.n_features, missing_chunks)
    if filters is None:
        raise InputError(
            f"The data do not contain {FILTER} and {FILTER_IDS} of VCF Zarr, so it is not known "
            "which features pass the filters. Leave out pass_only=True."
        )
    if not filters.passed.any():
        raise InputError(
            f"None of the {source.n_features} variants has FILTER PASS: {filters}. Leave out "
            "pass_only=True, or apply filters before conversion."
        )
    view = SubsetSource(source, np.flatnonzero(filters.passed))
    if n := source.n_features - view.n_features:
        view.left_out = (*source.left_out, ("pass_only", n))
    return view


class Multiallelic(NamedTuple):
    """Number of multi-allelic variants, and how many have a spanning deletion (allele ``*``)."""

    n: int
    n_spanned: int = 0

    @classmethod
    def of(cls, group: zarr.Group) -> Multiallelic | None:
        """Count the variants of a group; None if alleles are not stored."""
        alleles = member(group, ALLELES)
        if alleles is None or alleles.ndim != 2:
            return None
        n = n_spanned = 0
        # With less than three alleles, the reference and one other, nothing is read.
        for rows in _stretches(alleles) if alleles.shape[1] > 2 else ():
            others = read_array(alleles, "fill", rows)[:, 1:]
            are_several = (others != "").sum(axis=1) > 1
            n += int(are_several.sum())
            n_spanned += int((are_several & (others == SPANNING_DELETION).any(axis=1)).sum())
        return cls(n, n_spanned)


def _stretches(array: zarr.Array[Any]) -> list[slice]:
    """Return slices of whole chunks, with at least `AT_A_TIME` rows each, that cover an array."""
    chunk = (array.shards or array.chunks)[0]
    step = chunk * -(-AT_A_TIME // chunk)
    return [slice(start, start + step) for start in range(0, array.shape[0], step)]
