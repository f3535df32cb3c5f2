"""Joining of several files: order of features, matching of samples, and checks.

If all files contain chromosomes and positions, features are in this order, and the order in which
files are passed has no effect. Files that cannot belong together are refused; messages name them.

Matrices of different kinds, such as expression and genotypes, are not files of one matrix: each is
a block of features with a name, and blocks are in the order of their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError, warn
from dhsic.sources.columns import NAME, bits_of
from dhsic.sources.compression import SUFFIXES as PACKED
from dhsic.sources.counted_names import Count, counted_anew
from dhsic.sources.delimited import Delimited, is_text_table
from dhsic.sources.file_lists import natural_key
from dhsic.sources.ids import abbreviate
from dhsic.sources.joined import JoinedSource, Part
from dhsic.sources.likeness import BLANKS, difference
from dhsic.sources.mudata import are_modalities
from dhsic.sources.options import text
from dhsic.sources.plink import AbstractPlinkSource
from dhsic.sources.rewriting import WrittenColumn
from dhsic.sources.variants import CONTIG, NOWHERE, OF_PLINK, POSITION, chromosome_names
from dhsic.sources.views import described, whole_of

#: Chromosomes after the numbered ones, in the order of PLINK.
LAST = ("X", "Y", "XY", "MT")
#: Pattern of a file name that states a chromosome: chr7.bed, ukb_chrX_v3.pgen.
OF_CHROMOSOME = re.compile(
    r"(?:^|[^a-z0-9])chr(?:om(?:osome)?)?[_.-]?(\d{1,2}|xy|x|y|mt|m)(?![a-z0-9])", re.IGNORECASE
)
#: Maximum number of names that a message lists.
MOST_LISTED = 3
#: Minimum number of files for which a gap in their numbers causes a warning.
SERIES = 3


@dataclass(frozen=True, eq=False)
class Places:
    """Chromosomes and positions of the features of a part.

    `codes` (d,) are indices into the normalised names `chromosomes`; `positions` is (d,).
    """

    codes: Index
    chromosomes: Array
    positions: Index

    @property
    def only(self) -> str:
        """Name of the chromosome if there is only one and it is known; otherwise ""."""
        names = [str(name) for name in self.chromosomes]
        return names[0] if len(names) == 1 and names[0] not in NOWHERE else ""

    def ranges(self) -> Iterator[tuple[str, int, int]]:
        """Yield the name, lowest position and highest position of each known chromosome."""
        for code, name in enumerate(self.chromosomes):
            here = self.positions[self.codes == code]
            if name not in NOWHERE:
                yield str(name), int(here.min()), int(here.max())

    def first(self) -> tuple[list[tuple[int, int, str]], int]:
        """Return a sort key: the first chromosome (as a key), and the lowest position on it."""
        keys = [_chromosome_key(str(name)) for name in self.chromosomes]
        code = min(range(len(keys)), key=keys.__getitem__)
        return keys[code], int(self.positions[self.codes == code].min())


def joined(
    parts: Sequence[Part], *, intersect_samples: bool, are_blocks: bool = False
) -> JoinedSource:
    """Join sources along their features.

    With `are_blocks`, the parts are different matrices, and each becomes a block with its name. The
    same applies if the parts are neither a series of files nor genotypes with positions.

    Raises
    ------
    InputError
        A file is passed twice, its samples differ from those of other files, or its chromosomes and
        positions contradict its name or another file.
    """
    _refuse_same_file(parts)
    _check_kinds(parts)
    places = _places_of(parts)
    if are_blocks or _are_matrices(parts, places):
        return _blocks(parts, intersect_samples=intersect_samples)
    parts, places = _in_order(parts, places)
    renamed = _check_names(parts, places)
    if places is not None:
        _check_chromosomes(parts, places)
        _warn_of_overlaps(parts, places)
    _warn_of_gaps(parts, places)
    return JoinedSource(_with_samples(parts, intersect=intersect_samples), renamed)


# Blocks ------------------------------------------------------------------------------------


def _are_matrices(parts: Sequence[Part], places: Sequence[Places] | None) -> bool:
    """Whether parts are different matrices, rather than files of one matrix."""
    sources = [part.source for part in parts]
    if len({source.ploidy for source in sources}) > 1:
        return True
    are_paths = all(isinstance(part.data, str | PathLike) for part in parts)
    if places is not None or any(source.pieces(()) is not None for source in sources):
        return False
    is_series = are_paths and _are_a_series([part.short for part in parts])
    return not is_series or are_modalities(part.name for part in parts)


def _are_a_series(names: Sequence[str]) -> bool:
    """Whether file names differ only by numbers, or by the names of chromosomes."""
    return len({re.sub(r"\d+", "0", OF_CHROMOSOME.sub("0", name)) for name in names}) == 1


def _blocks(parts: Sequence[Part], *, intersect_samples: bool) -> JoinedSource:
    """Join different matrices as blocks, which are sorted by their names."""
    names = _block_names(parts)
    order = sorted(range(len(parts)), key=lambda i: natural_key(names[i]))
    names, parts = [names[i] for i in order], [parts[i] for i in order]
    renamed = _check_block_names(parts, names)
    return JoinedSource(_with_samples(parts, intersect=intersect_samples), renamed, names)


def _block_names(parts: Sequence[Part]) -> list[str]:
    """Return names of blocks: file names without suffix, with the folder if names are repeated."""
    names = [
        block_name(part.name) if isinstance(part.data, str | PathLike) else part.name.split(" (")[0]
        for part in parts
    ]
    if len({*names}) < len(names):
        names = [f"{Path(part.name).parent.name}/{block_name(part.name)}" for part in parts]
    if len({*names}) < len(names):
        names = [f"{number}:{name}" for number, name in enumerate(names, 1)]
    return names


def block_name(name: str) -> str:
    """Return the name of a file without its folder and suffixes.

    >>> block_name("data/rna.csv.gz"), block_name("x.h5mu/mod/rna")
    ('rna', 'rna')
    """
    path = Path(name)
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).stem


# Order -------------------------------------------------------------------------------------


def _places_of(parts: Sequence[Part]) -> list[Places] | None:
    """Return chromosomes and positions of each part's features; None if a part has none."""
    contigs, positions = [], []
    for part in parts:
        coords = part.source.feature_places()
        if not {CONTIG, POSITION} <= {*coords}:
            return None
        contigs.append(pd.factorize(text(coords[CONTIG])))
        positions.append(coords[POSITION])
    bare = chromosome_names(dict.fromkeys(name for _, names in contigs for name in names))
    out = []
    for (codes, names), at in zip(contigs, positions, strict=True):
        new, chromosomes = pd.factorize(np.array([bare[name] for name in names], dtype=object))
        out.append(Places(new[codes], chromosomes, at))
    return out


def _in_order(
    parts: Sequence[Part], places: list[Places] | None
) -> tuple[list[Part], list[Places] | None]:
    """Return parts and their places, sorted by chromosome and position.

    If places are unknown, files are sorted by name, with numbers by value, and objects in memory
    keep their order.
    """
    are_paths = all(isinstance(part.data, str | PathLike) for part in parts)
    by_name = [(natural_key(part.short), part.name) for part in parts]
    order = [*range(len(parts))]
    if places is not None:
        order.sort(key=lambda i: (places[i].first(), by_name[i] if are_paths else i))
    elif are_paths:
        order.sort(key=by_name.__getitem__)
    return [parts[i] for i in order], None if places is None else [places[i] for i in order]


def _chromosome_key(name: str) -> list[tuple[int, int, str]]:
    """Return the sort key of a chromosome: numbers, X, Y, XY, MT, others, unknown."""
    if name.isdecimal() and name not in NOWHERE:
        return [(0, int(name), "")]
    if name in LAST:
        return [(1, LAST.index(name), "")]
    return [(3 if name in NOWHERE else 2, 0, ""), *natural_key(name)]


# Checks ------------------------------------------------------------------------------------


def _refuse_same_file(parts: Sequence[Part]) -> None:
    """Refuse a file that is passed twice, even if its paths are written differently."""
    seen: dict[str, str] = {}
    for part in parts:
        if not isinstance(part.data, str | PathLike):
            continue
        path = fspath(part.data)
        place = path if "://" in path else str(Path(path).resolve())
        if place in seen:
            raise InputError(
                f"{path} is passed twice, so its features would be counted twice. Pass each "
                "file once."
            )
        seen[place] = path


def _check_kinds(parts: Sequence[Part]) -> None:
    """Refuse genotypes of different ploidy, and Dask arrays together with other data."""
    genotypes = [part for part in parts if part.source.ploidy is not None]
    first = genotypes[0] if genotypes else parts[0]
    for part in genotypes[1:]:
        if first.source.ploidy != part.source.ploidy:
            raise InputError(
                f"{part.name} has genotypes of {part.source.ploidy} alleles, but {first.name} has "
                f"genotypes of {first.source.ploidy} alleles. Their dosages have different scales. "
                "Pass them in separate calls."
            )
    facts = [(part.source.dtype, part.source.missing_code) for part in parts]
    are_lazy = [part.source.pieces(()) is not None for part in parts]
    if any(are_lazy) and not (all(are_lazy) and len({*facts}) == 1):
        raise InputError(
            "A list with Dask arrays must contain only Dask arrays of one dtype. Convert them, and "
            "join them by dask.array.concatenate(arrays, axis=1); or write each to Zarr and pass "
            "the paths."
        )


def _check_chromosomes(parts: Sequence[Part], places: Sequence[Places]) -> None:
    """Refuse a file that is named after a chromosome if all its variants are on another one."""
    for part, here in zip(parts, places, strict=True):
        stated = OF_CHROMOSOME.search(part.short)
        if stated is None or not here.only:
            continue
        name = stated[1].upper().lstrip("0")
        name = "MT" if name == "M" else name
        if here.only not in (name, OF_PLINK.get(name)) and OF_PLINK.get(here.only) != name:
            raise InputError(
                f"{part.name} is named after chromosome {name}, but all of its variants are on "
                f"chromosome {here.only}. The file, or its .bim or .pvar, may belong to another "
                "chromosome: restore it. If its content is right, rename it."
            )


def _warn_of_overlaps(parts: Sequence[Part], places: Sequence[Places]) -> None:
    """Warn if the positions of files on the same chromosome overlap."""
    ranges = [
        (name, first, last, part.short)
        for part, here in zip(parts, places, strict=True)
        for name, first, last in here.ranges()
    ]
    for one, other in combinations(sorted(ranges), 2):
        if one[0] == other[0] and other[1] < one[2] and one[3] != other[3]:
            warn(
                f"The positions of {one[3]} and {other[3]} overlap on chromosome {one[0]}. Their "
                "features are read one file after the other, not in order of position. To read "
                "them in order of position, merge the files.",
            )
            return


def _warn_of_gaps(parts: Sequence[Part], places: Sequence[Places] | None) -> None:
    """Warn if numbers are missing in a series of chromosomes or of numbered files."""
    if places is not None:
        noun = "chromosomes"
        found = {int(n) for here in places for n in here.chromosomes if str(n).isdecimal()} - {0}
    else:
        noun, found = "files", _numbers([part.short for part in parts])
    missing = [n for n in range(1, max(found, default=0)) if n not in found]
    if len(parts) >= SERIES and missing and len(missing) < len(found):
        warn(
            f"A series of {len(parts):,} {'files' if places is None else 'parts'} has no "
            f"{noun.removesuffix('s') if len(missing) == 1 else noun} "
            f"{abbreviate(missing, 10)}. Add the missing files if they exist.",
        )


def _numbers(names: Sequence[str]) -> set[int]:
    """Return the numbers in file names that differ only in one number; otherwise an empty set."""
    split = [re.split(r"(\d+)", name) for name in names]
    if len({len(each) for each in split}) > 1:
        return set()
    at = [i for i, each in enumerate(zip(*split, strict=True)) if len({*each}) > 1]
    is_series = len(at) == 1 and all(each[at[0]].isdecimal() for each in split)
    return {int(each[at[0]]) for each in split} if is_series else set()


def _check_block_names(parts: Sequence[Part], names: Sequence[str]) -> Array:
    """Warn of feature names that are in several blocks, and return the hashes of these names."""
    bits = [_bits(part) for part in parts]
    repeated = _repeated(bits)
    _refuse_same_values([p for p, of_part in zip(parts, bits, strict=True) if not of_part.size])
    if repeated.size:
        frame = _repeated_features(bits, None, repeated)
        first = frame.iloc[0]
        name = described(parts[first["part"]].source)[NAME].at(np.array([first["feature"]]))[0]
        blocks = [names[i] for i in frame.loc[frame["bits"] == first["bits"], "part"].unique()]
        listed = abbreviate(blocks, MOST_LISTED)
        warn(
            f"{repeated.size:,} feature names are in several matrices, such as {name} in {listed}. "
            f"The name of the matrix is added to these names, such as {blocks[0]}:{name}.",
        )
    return repeated


def _bits(part: Part) -> Array:
    """Return hashes (d,) of the feature names of a part; empty if features have no names."""
    return np.concatenate([np.empty(0, dtype=np.uint64), *map(bits_of, part.source.name_parts())])


def _repeated(bits: Sequence[Array]) -> Array:
    """Return the hashes that occur in several parts; `bits` are the hashes of each part."""
    every = np.sort(np.concatenate(bits))
    repeated = np.unique(every[1:][every[1:] == every[:-1]])
    if not repeated.size:
        return repeated
    each = np.sort(np.concatenate([np.intersect1d(of_part, repeated) for of_part in bits]))
    return np.unique(each[1:][each[1:] == each[:-1]])


def _check_names(parts: Sequence[Part], places: Sequence[Places] | None) -> Array:
    """Refuse files with the same features, and warn of feature names that are in several files.

    The result is the hashes of the names that files use for features on different chromosomes.
    """
    bits = [_bits(part) for part in parts]
    repeated = _repeated(bits)
    unnamed = [part for part, of_part in zip(parts, bits, strict=True) if not of_part.size]
    _refuse_same_values(unnamed)
    if not repeated.size:
        return repeated
    frame = _repeated_features(bits, places, repeated)
    _refuse_builds(parts, frame, places)
    _refuse_whole(parts, bits, frame)
    first = frame.drop_duplicates("bits").iloc[0]
    name = described(parts[first["part"]].source)[NAME].at(np.array([first["feature"]]))[0]
    files = [parts[i].short for i in frame.loc[frame["bits"] == first["bits"], "part"].unique()]
    elsewhere = frame.drop_duplicates(["bits", "contig"]).duplicated("bits", keep=False)
    renamed = np.unique(frame.loc[elsewhere[elsewhere].index, "bits"].to_numpy())
    how = " They are named by chromosome and position." if renamed.size == repeated.size else ""
    warn(
        f"{repeated.size:,} feature names are in several files, such as {name} in "
        f"{abbreviate(files, MOST_LISTED)}.{how}",
    )
    return renamed


def _repeated_features(
    bits: Sequence[Array], places: Sequence[Places] | None, repeated: Array
) -> pd.DataFrame:
    """Return a table of features with repeated names: hash, part, index in part, and place."""
    rows = []
    for i, of_part in enumerate(bits):
        at = np.flatnonzero(np.isin(of_part, repeated))
        here = None if places is None else places[i]
        contig = "" if here is None else here.chromosomes[here.codes[at]]
        position = 0 if here is None else here.positions[at]
        columns = {"bits": of_part[at], "part": i, "feature": at}
        rows.append(pd.DataFrame({**columns, "contig": contig, "position": position}))
    return pd.concat(rows, ignore_index=True)


def _refuse_same_values(parts: Sequence[Part]) -> None:
    """Refuse files without feature names if two of them have the same content."""
    seen: dict[str, Part] = {}
    for part in parts if len(parts) > 1 else ():
        digest = part.source.fingerprint()
        if digest in seen:
            raise InputError(
                f"{part.name} has the same content as {seen[digest].name}. Pass each matrix once."
            )
        seen[digest] = part


def _refuse_builds(
    parts: Sequence[Part], frame: pd.DataFrame, places: Sequence[Places] | None
) -> None:
    """Refuse two files in which a variant has different positions on the same chromosome."""
    if places is None:
        return
    distinct = frame.drop_duplicates(["bits", "contig", "position"])
    moved = distinct[distinct.duplicated(["bits", "contig"], keep=False)]
    moved = moved[moved.groupby(["bits", "contig"])["part"].transform("nunique") > 1]
    if not len(moved):
        return
    pair = moved[moved["bits"] == moved["bits"].iloc[0]].iloc[:2]
    (a, at, first), (b, other, _) = zip(
        pair["part"], pair["position"], pair["feature"], strict=True
    )
    name = described(parts[a].source)[NAME].at(np.array([first]))[0]
    raise InputError(
        f"{parts[a].name} and {parts[b].name} have {moved['bits'].nunique():,} variants of the "
        f"same name at different positions, such as {name} at {at:,} and {other:,} of chromosome "
        f"{pair['contig'].iloc[0]}. They use different genome builds, or one lists the variants of "
        "another file. Convert all files to one build, or restore the file."
    )


def _refuse_whole(parts: Sequence[Part], bits: Sequence[Array], frame: pd.DataFrame) -> None:
    """Refuse a file if another file contains all of its features at the same places.

    Chromosome 23 is treated as X, because names and positions are compared as well.
    """
    frame = frame.assign(contig=frame["contig"].replace(OF_PLINK))
    for i, j in combinations(frame["part"].unique().tolist(), 2):
        small, large = sorted((i, j), key=lambda k: len(bits[k]))
        keys = [
            pd.MultiIndex.from_frame(frame.loc[frame["part"] == k, ["bits", "contig", "position"]])
            for k in (small, large)
        ]
        if len(keys[0]) == len(bits[small]) and keys[0].isin(keys[1]).all():
            raise InputError(
                f"All {len(bits[small]):,} features of {parts[small].name} are also in "
                f"{parts[large].name}. Pass only one of them."
            )


# Samples -----------------------------------------------------------------------------------


def _with_samples(parts: Sequence[Part], *, intersect: bool) -> list[Part]:
    """Match samples by name to the first part with names, and set the `rows` of all parts."""
    names = [None if part.source.row_numbers else part.source.sample_names() for part in parts]
    parts, names = _without_families(parts, names)
    named = [i for i, each in enumerate(names) if each is not None]
    unnamed = [i for i, each in enumerate(names) if each is None]
    reference = named[0] if named else 0
    _match_by_order(parts, unnamed, reference)
    if not named:
        return [*parts]
    ours = pd.Index(names[reference])
    common = ours
    for i in named:
        theirs = names[i]
        assert theirs is not None, "it is one of the named parts"
        if np.array_equal(ours, theirs):
            continue
        other = pd.Index(theirs)
        _refuse_repeated(parts[reference], ours, parts[i])
        _refuse_repeated(parts[i], other, parts[reference])
        _refuse_other_start(parts[reference], ours, parts[i], other)
        if not intersect:
            _refuse_other_samples(parts[reference], ours, parts[i], other)
        common = common[common.isin(other)]
    if not len(common):
        raise InputError(
            f"No sample is in all {len(parts):,} files; the first names in {parts[reference].name} "
            f"are {abbreviate(ours[:MOST_LISTED])}. Check that all files use the same ids."
        )
    if len(common) < max(part.source.n_samples for part in parts):
        counts = [part.source.n_samples for part in parts]
        span = f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else counts[0]
        warn(
            f"{len(common):,} samples are in all {len(parts):,} files, which have {span} samples; "
            "the others are excluded.",
        )
    return [
        replace(part, rows=_rows(ours if each is None else pd.Index(each), common))
        for part, each in zip(parts, names, strict=True)
    ]


def _without_families(
    parts: Sequence[Part], names: list[Array | None]
) -> tuple[Sequence[Part], list[Array | None]]:
    """Replace sample names FID_IID by IID, and return the changed parts and names.

    PLINK 2 writes FID_IID to VCF files. FID and IID are read from the first PLINK file among the
    parts. Other names are unchanged.
    """
    known = {i: [*map(str, each)] for i, each in enumerate(names) if each is not None}
    wholes = [whole_of(part.source) for part in parts]
    first = next((i for i, of in enumerate(wholes) if isinstance(of, AbstractPlinkSource)), None)
    if first is None or all(each == known[first] for each in known.values()):
        return parts, names
    plink, own = wholes[first], {*known[first]}
    assert isinstance(plink, AbstractPlinkSource), "it was chosen as one"
    ids = plink.files.ids()
    pairs = zip(ids["FID"], ids["IID"], strict=True) if "FID" in ids else ()
    iid_of = {f"{family}_{iid}": iid for family, iid in pairs}
    parts, renamed = [*parts], list[str]()
    for i, each in known.items():
        if isinstance(wholes[i], AbstractPlinkSource):  # a .fam in which IIDs repeat
            continue
        if own.isdisjoint(each) and {*each} <= {*iid_of} and own == {*iid_of.values()}:
            names[i] = np.array([iid_of[name] for name in each], dtype=object)
            parts[i] = replace(parts[i], has_families=True)
            renamed.append(parts[i].short)
    if renamed:
        warn(
            f"Samples of {abbreviate(renamed, MOST_LISTED)} are named FID_IID, as in VCF files "
            f"from PLINK 2. They are matched to FID and IID in {plink.files.samples.name}.",
        )
    return parts, names


def _rows(own: pd.Index, common: pd.Index) -> Index | None:
    """Return positions of the `common` samples in `own`; None if both are the same."""
    if own.equals(common):
        return None
    return np.asarray(own.get_indexer(common), dtype=np.int64)


def _match_by_order(parts: Sequence[Part], unnamed: Iterable[int], reference: int) -> None:
    """Warn that `unnamed` parts are matched by order; refuse different numbers of samples."""
    m, listed = parts[reference].source.n_samples, [*unnamed]
    for i in listed:
        if parts[i].source.n_samples != m:
            raise InputError(
                f"{parts[i].name} has {parts[i].source.n_samples:,} samples without names, but "
                f"{parts[reference].name} has {m:,}. Files without sample names must have the same "
                "samples in the same order."
            )
    if listed:
        warn(
            f"{len(listed):,} of {len(parts):,} files have no sample names "
            f"({abbreviate((parts[i].short for i in listed), MOST_LISTED)}): their samples are "
            f"assumed to be in the order of {parts[reference].short}.",
        )


def _refuse_repeated(part: Part, names: pd.Index, other: Part) -> None:
    """Refuse repeated sample names of a part that must be matched by name to another part."""
    if not names.is_unique:
        twice = names[names.duplicated()].unique()
        raise InputError(
            f"{part.name} has {len(twice):,} sample names twice "
            f"({abbreviate(twice, MOST_LISTED)}). Its samples cannot be matched by name to "
            f"{other.name}, which has another order. Make the names unique."
        )


def _refuse_other_start(part: Part, ours: pd.Index, other: Part, theirs: pd.Index) -> None:
    """Refuse two files if one counts its samples from 0 and the other from 1."""
    names = np.array([*map(str, theirs)], dtype=object)
    first, second = Count.of(np.array([*map(str, ours)], dtype=object)), Count.of(names)
    if first is None or second is None or not first.is_shifted(second):
        return
    expression = counted_anew(names, first.prefix, first.first - second.first)
    from_0 = part if first.first == 0 else other
    raise InputError(
        f"The samples are numbered {first} in {part.name}, and {second} in {other.name}. If one "
        "file counts from 0 and the other from 1, a sample would be matched to its neighbour. In "
        f"this case, make the names the same{_renamed(other, names, expression)}. If equal numbers "
        f"mean the same sample, remove sample {first.prefix}0 from {from_0.short}."
    )


def _renamed(part: Part, names: Array, expression: str) -> str:
    """Return ": " and a command that renames the samples of a text table; "" for other data."""
    if not expression or not is_text_table(part.name):
        return ""
    table = Delimited(part.name)
    _, fields = next(table.rows())
    if table.names is None or fields[0].strip() != names[0]:
        return ""
    column = WrittenColumn("the sample names", table.names[0], part.name)
    return f": {column.rewritten(expression)} instead of {part.short}"


def _without_blanks(files: Iterable[tuple[Part, pd.Index]]) -> str:
    """Return a colon and a command that removes blanks from the names of a file; or ""."""
    for part, names in files:
        if names.str.contains(r"\s").any():
            return _renamed(part, names.to_numpy(), r"{v}.str.replace(r'\s+', '', regex=True)")
    return ""


def _refuse_other_samples(part: Part, ours: pd.Index, other: Part, theirs: pd.Index) -> None:
    """Refuse a file whose samples are not those of the first file."""
    only = [(part, ours[~ours.isin(theirs)]), (other, theirs[~theirs.isin(ours)])]
    if not any(len(names) for _, names in only):
        return
    listed = " and ".join(
        f"{len(names):,} only in {of.short} ({abbreviate(names, MOST_LISTED)})"
        for of, names in only
        if len(names)
    )
    n = int(ours.isin(theirs).sum())
    differ = (
        f"{other.name} does not have the same samples as {part.name}: {n:,} are in both, {listed}."
    )
    about, n_alike = difference(map(str, only[1][1]), map(str, only[0][1]))
    if 2 * n_alike > len(only[1][1]):
        renamed = "" if BLANKS not in about else _without_blanks(((other, theirs), (part, ours)))
        raise InputError(
            f"{differ} {about.replace('in the data', f'in {part.short}')} Write the names in the "
            f"same way in all files{renamed}."
        )
    raise InputError(
        f"{differ} Pass intersect_samples=True to use only the samples that all files have, or "
        "restore the files."
    )
