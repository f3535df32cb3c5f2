"""Genes of a genome from GTF, GFF3 or BED files, and the genes nearest to positions."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError, warn
from dhsic.object_store import fetched
from dhsic.sources.compression import DAMAGE, SUFFIXES, decompressed
from dhsic.sources.ids import abbreviate
from dhsic.sources.variants import (
    NOWHERE,
    chromosome_name,
    chromosome_names,
    plink_numbers,
)

#: Suffixes of files of genes, without those of compression.
GFF, BED = (".gtf", ".gff", ".gff3"), (".bed",)
#: Columns of GTF and GFF3 that are read, by position; and the first columns of BED.
OF_GFF = {0: "chromosome", 2: "kind", 3: "start", 4: "end", 6: "strand", 8: "attributes"}
OF_BED = {0: "chromosome", 1: "start", 2: "end", 3: "name", 5: "strand"}
#: Number of columns of a GTF or GFF3 file, and number of lines that are read at a time.
GFF_WIDTH, LINES = 9, 1 << 16
#: Attributes that name a gene, the best first: of GENCODE and Ensembl, of NCBI and Ensembl's GFF3.
NAMES = ("gene_name", "gene", "Name", "gene_id", "ID")
#: Attributes of the lines of a gene's parts that name the gene, and those that identify it.
PART_NAMES, PART_IDS = ("gene_name", "gene", "gene_id"), ("gene_id", "gene_name", "gene")
#: Pattern of an attribute: ``key "value"`` in GTF, ``key=value`` in GFF3.
ATTRIBUTE = r'(?:^|;)\s*{key}(?:\s+"([^"]*)"|[= ]\s*([^";]*))'
#: Kinds of lines of a whole gene: gene, and pseudogene or ncRNA_gene in GFF3.
GENE = re.compile(r"(?:.*_)?(?:pseudo)?gene")
#: Lines that are comments, by their first column.
COMMENT = re.compile("#.*")
#: Largest number of a human autosome.
AUTOSOMES = 22
#: Names of human chromosomes in the files of NCBI; 23 and 24 are X and Y.
REFSEQ = re.compile(r"NC_0000(0[1-9]|1\d|2[0-4])\.\d+")
REFSEQ_MT = re.compile(r"NC_012920\.\d+")
#: Text between the names of genes that overlap at a position.
BETWEEN = ","
#: Distance of positions without a gene on their chromosome.
UNKNOWN = -1


@dataclass(frozen=True)
class Genes:
    """Genes (n,): chromosome, first and last base (counted from 1), name and strand ("+", "-").

    Chromosomes have their names in the file; `source` is the name of the file, for messages.
    """

    chromosomes: Array
    starts: Index
    ends: Index
    names: Array
    strands: Array
    source: str = "genes"

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Genes:
        """Read genes from a GTF, GFF3 or BED file, compressed or not, at a path or URL.

        GTF and GFF3: lines of genes; if there are none, a gene extends from the first to the last
        base of the lines that share its name. Memory does not depend on the number of other lines.

        Raises
        ------
        InputError
            The file does not exist, has another format, is damaged, or contains no gene.
        """
        where = fspath(path)
        suffixes = [s.lower() for s in Path(where).suffixes if s.lower() not in (*SUFFIXES, ".bgz")]
        suffix = suffixes[-1] if suffixes else ""
        if suffix not in (*GFF, *BED):
            raise InputError(
                f"{where} is not recognised as a file of genes. Pass a file that ends in .gtf, "
                ".gff3 or .bed (compressed: .gz)."
            )
        try:
            frame = _of_bed(where) if suffix in BED else _of_gff(where)
        except DAMAGE as error:
            raise InputError(
                f"{where} cannot be read ({type(error).__name__}: {error}). Copy or download it "
                "again."
            ) from error
        if frame.empty:
            raise InputError(
                f"{where} contains no gene. Pass an annotation of the whole genome, such as the "
                "GTF files of GENCODE or Ensembl."
            )
        frame = frame.sort_values(["chromosome", "start", "end", "name"], kind="stable")
        starts, ends = (frame[name].to_numpy(np.int64) for name in ("start", "end"))
        texts = (frame[name].to_numpy(object) for name in ("chromosome", "name", "strand"))
        chromosomes, names, strands = texts
        return cls(chromosomes, starts, ends, names, strands, Path(where).name)

    @cached_property
    def _codes(self) -> dict[str, Index]:
        """Indices of the genes on each chromosome, by the chromosome's name in the file."""
        codes, names = pd.factorize(self.chromosomes)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(names.size + 1))
        return {str(n): order[edges[i] : edges[i + 1]] for i, n in enumerate(names)}

    def by_chromosome(self, chromosomes: Iterable[str]) -> dict[str, Index]:
        """Return the indices of the genes on each of these chromosomes; omit those without genes.

        "chr6", "6", "06" and "NC_000006.12" are the same chromosome, and so are "X" and, in human
        data, PLINK's "23".
        """
        said = [*dict.fromkeys(chromosomes)]
        bare = {name: _without_accession(name) for name in self._codes}
        own = chromosome_names(bare.values())
        at_home: dict[str, list[Index]] = defaultdict(list)
        for name, at in self._codes.items():
            at_home[own[bare[name]]].append(at)
        names = _names_beside(said, bare.values())
        homes = {name: names[name] for name in said if name not in NOWHERE}
        if "XY" not in at_home:  # PLINK's name of the regions that X and Y share, by positions on X
            homes = {name: "X" if home == "XY" else home for name, home in homes.items()}
        return {
            name: np.sort(np.concatenate(at_home[home]))
            for name, home in homes.items()
            if home in at_home
        }

    def check(self, chromosomes: Iterable[str]) -> list[str]:
        """Return the chromosomes of the data that have no gene; InputError if none has one."""
        said = [*dict.fromkeys(chromosomes)]
        matched = self.by_chromosome(said)
        if not matched:
            raise InputError(
                f"No chromosome of {self.source} ({abbreviate(self._codes, 30)}) is one of the "
                f"data ({abbreviate(said, 30)}). Pass the genes of the same species and genome "
                "build."
            )
        return [name for name in said if name not in matched]

    def segments(self, chromosomes: Iterable[str]) -> dict[str, Segments]:
        """Split these chromosomes into segments for `nearest_genes`; omit those without genes."""
        return {
            name: Segments.of(self.starts[at], self.ends[at], self.names[at])
            for name, at in self.by_chromosome(chromosomes).items()
        }


def nearest_genes(
    segments: Mapping[str, Segments], chromosomes: Array, positions: Index
) -> tuple[Array, Index]:
    """Find the nearest gene of each position, and the distance in bases (0 inside a gene).

    Both results have shape (n,). Genes that overlap at a position are all named, separated by
    commas. At equal distances, the gene with smaller positions is named. If the chromosome has no
    gene, or the position is unknown (0 or less), the name is "" and the distance `UNKNOWN`.
    """
    names = np.full(len(positions), "", dtype=object)
    distances = np.full(len(positions), UNKNOWN, dtype=np.int64)
    codes, called = pd.factorize(chromosomes)
    for code, name in enumerate(map(str, called)):
        if name in segments:
            at = np.flatnonzero((codes == code) & (positions > 0))
            names[at], distances[at] = segments[name].nearest(positions[at])
    return names, distances


@dataclass(frozen=True)
class Segments:
    """Segments of a chromosome; a new one begins wherever a gene starts or ends.

    Segment i begins at `edges[i]`. `inside[i]` names the genes that overlap in it. Between genes,
    `inside[i]` is "", and `before[i]` and `after[i]` name the genes on both sides.
    """

    edges: Index
    inside: Array
    before: Array
    after: Array

    @classmethod
    def of(cls, starts: Index, ends: Index, names: Array) -> Segments:
        """Create the segments from the genes of a chromosome, which are sorted by start."""
        edges = np.unique(np.concatenate([[1], starts, ends + 1]))
        opening, closing = defaultdict(list), defaultdict(list)
        for i, (first, after_last) in enumerate(zip(starts.tolist(), ends + 1, strict=True)):
            opening[first].append(i)
            closing[int(after_last)].append(i)
        open_genes: dict[int, str] = {}
        inside, before, after = (np.full(edges.size, "", dtype=object) for _ in range(3))
        for segment, edge in enumerate(edges.tolist()):
            for i in closing[edge]:
                del open_genes[i]
            open_genes.update((i, names[i]) for i in opening[edge])
            inside[segment] = _joined(open_genes.values())
            before[segment] = _joined(names[i] for i in closing[edge])
            if segment:
                after[segment - 1] = _joined(names[i] for i in opening[edge])
        return cls(edges, inside, before, after)

    def nearest(self, positions: Index) -> tuple[Array, Index]:
        """Return the names and distances of the genes nearest to positions, see `nearest_genes`."""
        at = np.searchsorted(self.edges, positions, "right") - 1
        far = np.iinfo(np.int64).max
        following = np.append(self.edges[1:], far)
        left = np.where(self.before[at] != "", positions - self.edges[at] + 1, far)
        right = np.where(self.after[at] != "", following[at] - positions, far)
        is_inside = self.inside[at] != ""
        beside = np.where(left <= right, self.before[at], self.after[at])
        names = np.where(is_inside, self.inside[at], beside)
        return names, np.where(is_inside, 0, np.minimum(left, right))


def _joined(names: Iterable[str]) -> str:
    return BETWEEN.join(dict.fromkeys(names))


def _without_accession(name: str) -> str:
    """Replace NCBI's accession of a human chromosome by its name; keep other names.

    >>> _without_accession("NC_000006.12"), _without_accession("NC_000023.11")
    ('6', 'X')
    """
    if REFSEQ_MT.fullmatch(name):
        return "MT"
    accession = REFSEQ.fullmatch(name)
    if accession is None:
        return name
    number = int(accession[1])
    return {23: "X", 24: "Y"}.get(number, str(number))


def _names_beside(said: list[str], of_genes: Iterable[str]) -> dict[str, str]:
    """Map the chromosome names `said` of the data to normalised names, to match those of genes.

    `of_genes` are the chromosome names of the genes. PLINK's 23 becomes X, unless the genes lie on
    an autosome 23, as in cattle.
    """
    listed = [*of_genes]
    numbers = {chromosome_name(name) for name in listed}
    more = any(n.isdecimal() and int(n) > AUTOSOMES for n in numbers)
    if more and not plink_numbers(listed):
        return {name: chromosome_name(name) for name in said}
    return chromosome_names(said)


# Reading -----------------------------------------------------------------------------------


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file at a path or URL as a stream of decompressed bytes."""
    if "://" not in path and not Path(path).is_file():
        raise InputError(
            f"There is no file {path}. Pass the path of a GTF, GFF3 or BED file of genes."
        )
    with BytesIO(fetched(path)) if "://" in path else Path(path).open("rb") as raw:
        yield decompressed(raw, path)


def _of_gff(path: str) -> pd.DataFrame:
    """Read the genes of a GTF or GFF3 file."""
    parts = [part[_matching(part["kind"], GENE)] for part in _lines_of_gff(path)]
    frame = pd.concat(parts) if parts else pd.DataFrame()
    if not frame.empty:
        return _placed(frame.assign(name=_first_of(NAMES, frame["attributes"])), path, 1)
    extents = [_extents(_placed(_named(part), path, 1)) for part in _lines_of_gff(path)]
    return _extents(pd.concat(extents)) if extents else frame


def _lines_of_gff(path: str) -> Iterator[pd.DataFrame]:
    """Yield the complete lines in chunks; comments and sequences are omitted."""
    with _opened(path) as file:
        try:
            for part in pd.read_csv(
                file,
                sep="\t",
                header=None,
                names=range(GFF_WIDTH),
                usecols=[*OF_GFF],
                dtype=str,
                quoting=csv.QUOTE_NONE,
                na_filter=False,
                encoding_errors="replace",
                chunksize=LINES,
            ):
                frame = part.rename(columns=OF_GFF)
                is_comment = _matching(frame["chromosome"], COMMENT)
                yield frame[(frame["attributes"] != "") & ~is_comment]
        except pd.errors.EmptyDataError:
            return
        except ValueError as error:
            raise InputError(
                f"{path} is not a GTF or GFF3 file: these have nine columns separated by tabs "
                f"({str(error).strip()}). Download it again."
            ) from error


def _matching(values: pd.Series[str], pattern: re.Pattern[str]) -> pd.Series[bool]:
    """Mask of the values that match a pattern; fast if few values are distinct."""
    return values.isin([value for value in values.unique() if pattern.fullmatch(value)])


def _named(lines: pd.DataFrame) -> pd.DataFrame:
    """Add the name and the id of the gene to lines that describe parts of genes, such as exons."""
    attributes = lines["attributes"]
    named = lines.assign(id=_first_of(PART_IDS, attributes), name=_first_of(PART_NAMES, attributes))
    return named[named["id"] != ""]


def _extents(lines: pd.DataFrame) -> pd.DataFrame:
    """Merge parts of genes into genes: from the first to the last base, by id and chromosome."""
    genes = lines.groupby(["chromosome", "id"], as_index=False, sort=False)
    return genes.agg(
        name=("name", "first"),
        start=("start", "min"),
        end=("end", "max"),
        strand=("strand", "first"),
    )


def _first_of(keys: Iterable[str], attributes: pd.Series[str]) -> pd.Series[str]:
    """Return the first of the attributes `keys` that each line has; "" if it has none."""
    names = pd.Series("", index=attributes.index, dtype=object)
    for key in keys:
        is_open = names == ""
        if not is_open.any():
            break
        values = attributes[is_open].str.extract(ATTRIBUTE.format(key=key))
        names[is_open] = values[0].fillna(values[1]).fillna("").str.strip()
    names = names.str.removeprefix("gene:")  # of Ensembl's ID
    return names.map(unquote)


def _of_bed(path: str) -> pd.DataFrame:
    """Read the genes of a BED file, which counts from 0 and excludes the end."""
    with _opened(path) as file:
        text = file.read().decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    rows = [line.split("\t" if "\t" in line else None) for line in lines]
    rows = [row for row in rows if row[0].split()[0] not in ("track", "browser")]
    short = next((row for row in rows if len(row) < len(OF_BED) - 1), None)
    if short is not None:
        raise InputError(
            f"Line {' '.join(short)!r} of {path} has {len(short)} columns. Write four: chromosome, "
            "start, end and the name of the gene."
        )
    columns = {name: [row[i] if i < len(row) else "." for row in rows]
               for i, name in OF_BED.items()}  # fmt: skip
    return _placed(pd.DataFrame(columns), path, 0)


def _placed(frame: pd.DataFrame, path: str, first: int) -> pd.DataFrame:
    """Convert start and end to numbers, counted from 1; InputError for invalid intervals.

    `first` is the number of the first base of a chromosome in the file.
    """
    numbers = frame[["start", "end"]].apply(pd.to_numeric, errors="coerce")
    is_bad = numbers.isna().any(axis=1) | (numbers["start"] < first)
    is_bad |= numbers["end"] < numbers["start"]
    if is_bad.any():
        line = frame.loc[is_bad, ["chromosome", "start", "end"]].iloc[0].tolist()
        raise InputError(
            f"{path} has a gene at {line[0]}:{line[1]}-{line[2]}, which is not an interval of "
            f"bases ({int(is_bad.sum()):,} lines are invalid). Correct these lines, or download "
            "the file again."
        )
    numbers = numbers.astype(np.int64)
    return frame.assign(start=numbers["start"] + (1 - first), end=numbers["end"])


def warn_of_chromosomes(genes: Genes, chromosomes: Iterable[str]) -> None:
    """Warn of chromosomes of the data without a gene; InputError if none has one."""
    lacking = genes.check(chromosomes)
    if lacking:
        warn(
            f"{genes.source} has no gene on {len(lacking):,} chromosomes of the data "
            f"({abbreviate(lacking)}). Features on them get no gene."
        )
