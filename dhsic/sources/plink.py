"""PLINK: genotypes in .bed (PLINK 1) or .pgen (PLINK 2), with tables of variants and samples.

A .bed file stores two bits per call, one variant after the other. The lists of variants and samples
are in .bim and .fam, and the size of the .bed must match their lengths exactly. A dosage counts the
alleles that VCF calls ALT, as everywhere in dhsic. In .bim this is A1 (column 5), as in bed-reader
and bio2zarr. In .pgen it is all alleles except REF together.
"""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractStored, Names
from dhsic.sources.blocks import Block, run_of
from dhsic.sources.columns import NAME, STRETCH, Column, repeated_bits
from dhsic.sources.compact import CompactText, RepeatedText
from dhsic.sources.options import OpenOptions
from dhsic.sources.sexes import DIPLOID, SEX, DosagesOnX
from dhsic.sources.stores import file_bytes
from dhsic.sources.variants import (
    ALLELES,
    ALT,
    CONTIG,
    IDS,
    POSITION,
    REF,
    Variants,
    are_on_x,
    unnamed,
)
from dhsic.sources.vcz import MISSING

#: Suffixes of genotype files, and of the tables that describe their variants and samples.
TABLES = {".bed": ((".bim",), (".fam",)), ".pgen": ((".pvar", ".bim"), (".psam", ".fam"))}
#: Suffix of the genotype file for each suffix of PLINK files.
SUFFIXES = {
    **{suffix: ".pgen" for kinds in TABLES[".pgen"] for suffix in kinds},
    **{suffix: ".bed" for kinds in TABLES[".bed"] for suffix in kinds},
    **{suffix: suffix for suffix in TABLES},
}
#: Columns of tables without a header; a .bim with 5 columns has no centimorgans.
BIM, BIM_SHORT = ("CHROM", "ID", "CM", "POS", "ALT", "REF"), ("CHROM", "ID", "POS", "ALT", "REF")
FAM = ("FID", "IID", "PAT", "MAT", "SEX", "PHENO")
#: Name of a column after the last one, which is empty unless a row has too many fields.
TOO_MANY = "\0"
#: First bytes of a .bed: magic number, then the flag of variant-major order.
MAGIC, BY_VARIANT, BY_SAMPLE = b"\x6c\x1b", 1, 0
HEADER = 3
CALLS_A_BYTE = 4
#: Dosage of A1 for each code of two bits: A1 twice, missing, once, not at all.
CODES = np.array((2, MISSING, 1, 0), dtype=np.int8)
#: The four dosages of each byte, as one integer: decodes 1 GB/s, 5 times as fast as bed-reader.
FOUR = np.ascontiguousarray(CODES[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3]).view(
    np.uint32
)[:, 0]
#: Code of missing values in pgenlib.
PGEN_MISSING = -9
#: Header of a .pgen: number of its bytes; storage modes for records of variable length, and for
#: dosages without calls; number of variants in a part of the index; and the bits of a record type
#: that mean dosages.
PGEN_HEADER, BY_RECORD, DOSAGES_ALONE = 12, 0x10, (0x03, 0x04)
INDEXED, OF_DOSAGES = 1 << 16, 0x60


@dataclass(frozen=True, slots=True)
class Fileset:
    """The three files of one PLINK data set: calls, and tables of variants and samples."""

    calls: Path
    variants: Path
    samples: Path

    @classmethod
    def at(cls, path: str) -> Self:
        """Find the three files, given the path of one of them or their common prefix.

        Raises
        ------
        InputError
            One of the files does not exist.
        """
        stem_suffix = SUFFIXES.get(Path(path).suffix.lower())
        table_suffix = next((s for s in TABLES if Path(path + s).is_file()), ".bed")
        stem = path if stem_suffix is None else path[: -len(Path(path).suffix)]
        suffix = stem_suffix or table_suffix
        calls = _there((stem + suffix,))
        variants, samples = (_there(tuple(stem + s for s in kinds)) for kinds in TABLES[suffix])
        return cls(calls, variants, samples)

    def sample_names(self) -> Array:
        """Return the sample names: IIDs, or joined ids as in PLINK's VCF if IIDs are repeated.

        Joined ids are the first of FID_IID, IID_SID and FID_IID_SID that is unique. If none is
        unique, they are the last of the three for which all columns exist.
        """
        table = self.ids()
        names = table["IID"]
        for columns in ("FID", "IID"), ("IID", "SID"), ("FID", "IID", "SID"):
            if pd.Index(names).is_unique:
                break
            if set(columns) <= table.keys():
                ids = zip(*(table[column] for column in columns), strict=True)
                names = np.array(["_".join(each) for each in ids], dtype=object)
        return names

    def ids(self) -> dict[str, Array]:
        """Return the columns IID, FID and SID of the sample table, each text (m,).

        FID and SID are omitted if the table does not have them.
        """
        return _table(self.samples, ("IID",), ("FID", "SID"))

    def sex(self) -> Array | None:
        """Return the column SEX of the sample table as text (m,); None if there is none."""
        return _table(self.samples, (), (SEX,)).get(SEX)

    def key(self) -> tuple[Array, ...]:
        """Return digests of the two tables; a fingerprint uses them instead of all names."""
        return tuple(map(_digest, (self.variants, self.samples)))


def is_prefix(path: str) -> bool:
    """Whether a path is the common prefix of PLINK files rather than a file itself."""
    return not Path(path).exists() and any(Path(path + suffix).is_file() for suffix in TABLES)


def samples_table(path: str) -> str | None:
    """Return the path of the sample table (.fam, .psam) of PLINK files; None for other files."""
    is_plink = Path(path).suffix.lower() in SUFFIXES or is_prefix(path)
    return str(Fileset.at(path).samples) if is_plink else None


def _there(paths: tuple[str, ...]) -> Path:
    """Return the absolute path of the first file that exists; raise InputError if none does."""
    for path in paths:
        if file_bytes(Path(path)) is not None:
            return Path(path).absolute()
    packed = next((f"{path}.zst" for path in paths if Path(f"{path}.zst").exists()), "")
    if packed:
        raise InputError(
            f"{packed} is compressed, but must be plain text. Decompress it: zstd -d {packed}."
        )
    raise lacking(paths)


def lacking(paths: tuple[str, ...]) -> InputError:
    """Return the error for a missing PLINK file; it may have any of the names `paths`."""
    return InputError(
        f"{' or '.join(paths)} does not exist. PLINK files come in sets of three in one folder "
        "(.bed, .bim and .fam; .pgen, .pvar and .psam). Check the path, or copy the file there."
    )


def _digest(path: Path) -> Array:
    with path.open("rb") as file:
        return np.frombuffer(hashlib.file_digest(file, "sha256").digest(), dtype=np.uint8)


def _rows(path: Path) -> int:
    """Count the rows of a table without parsing them."""
    with path.open("rb") as lines:
        return sum(bool(line.strip()) and not line.startswith(b"#") for line in lines)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        yield from lines


def _table(path: Path, wanted: tuple[str, ...], more: tuple[str, ...] = ()) -> dict[str, Array]:
    """Read columns of a table as text: all of `wanted`, and any of `more` that exist."""
    parts = [*_parts_of_table(path, wanted, more)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _parts_of_table(
    path: Path, wanted: tuple[str, ...], more: tuple[str, ...] = ()
) -> Iterator[dict[str, Array]]:
    """Yield the columns that `_table` reads in parts of `STRETCH` rows."""
    n_skipped, names, separator = _layout(path)
    some = [name for name in (*wanted, *more) if name in names]
    lacking = [name for name in wanted if name not in names]
    if lacking:
        raise DataError(
            f"{path} has no column {', '.join(lacking)}; its columns are {', '.join(names)}. "
            "Restore its header, or write it again."
        )
    are_few = separator != "\t" or len(names) <= len(BIM)  # wide tables are not read whole
    # Without usecols, pandas allows a last column that no row has.
    how: dict[str, Any] = {"names": [*names, TOO_MANY]} if are_few else {"usecols": some}
    try:
        with pd.read_csv(
            path, sep=separator, header=None, skiprows=n_skipped, dtype=str, na_filter=False,
            index_col=False, chunksize=STRETCH, **({"names": names} | how),
        ) as frames:  # fmt: skip
            for number, frame in enumerate(frames):
                columns = {name: frame[name].to_numpy(dtype=object) for name in some}
                _check_fields(path, columns, names, number * STRETCH)
                _check_end(path, frame, names, number * STRETCH + n_skipped)
                yield columns
    except DataError:
        raise
    except ValueError as error:  # errors of pandas, and text that is not UTF-8
        raise DataError(f"{path} cannot be read as a table: {error}. Correct that line.") from error


def _check_fields(path: Path, columns: Mapping[str, Array], names: list[str], start: int) -> None:
    """Refuse rows with too few fields; `start` is the position of the first row in the table."""
    for name, values in columns.items():
        short = np.flatnonzero(values == "")
        if short.size:
            raise DataError(
                f"Row {start + short[0] + 1} of {path} has no {name}: it has fewer fields than the "
                f"columns {', '.join(names)}. Correct it, or write the file again."
            )


def _check_end(path: Path, frame: pd.DataFrame, names: list[str], start: int) -> None:
    """Refuse rows with too many fields: their extra fields are in the column `TOO_MANY`.

    The first row of the frame is line ``start + 1`` of the file.
    """
    if TOO_MANY in frame and (long := np.flatnonzero(frame[TOO_MANY] != "")).size:
        raise _too_many(path, start + int(long[0]) + 1, names)


def _too_many(path: Path, line: int, names: list[str]) -> DataError:
    """Return the error for a line of a table with more fields than columns."""
    return DataError(
        f"Line {line} of {path} has more fields than the columns {', '.join(names)}, perhaps "
        "because an id contains a blank. Separate the columns of all lines by tabs, or replace the "
        "blank, for instance by an underscore."
    )


def _layout(path: Path) -> tuple[int, list[str], str]:
    """Return the number of lines above a table, its column names, and its separator.

    The separator is a regular expression. It is a tab if tabs split the first row into one field
    per column; ids may then contain blanks. Otherwise it is blanks.
    """
    n_skipped, header, first = 0, "", ""
    for line in _lines(path):
        if not line.startswith("#"):
            first = line.rstrip("\n")
            break
        n_skipped += 1
        header = "" if line.startswith("##") else line.removeprefix("#").strip()
    fields, by_tab = first.split(), first.split("\t")
    names = header.split("\t")
    if len(names) == len(by_tab) > 1 or (not header and len(by_tab) in (len(BIM_SHORT), len(BIM))):
        fields, separator = by_tab, "\t"
    else:
        names, separator = header.split(), r"\s+"
    names = [name.strip() for name in names] if header else _headless(path, len(fields))
    if len(fields) > len(names):
        raise _too_many(path, n_skipped + 1, names)
    return n_skipped, names, separator


def _headless(path: Path, n: int) -> list[str]:
    """Return the column names of a table with n columns and no header."""
    if path.suffix.lower() in (".fam", ".psam"):
        names = FAM[:n]
    else:
        names = BIM_SHORT if n == len(BIM_SHORT) else BIM
    if n < min(len(names), len(BIM_SHORT)):
        raise DataError(
            f"{path} has {n} columns in its first row, but without a header it should have "
            f"{', '.join(FAM if names[0] == 'FID' else BIM)}. Write it again."
        )
    return list(names)


class VariantTable:
    """Variant annotations of a .bim or .pvar file, under the names of VCF Zarr variables.

    The file is read once. Its columns need about 40 bytes per variant, and are not pickled.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return VariantTable, (self.path,)

    def columns(self) -> Mapping[str, Column]:
        """Return contigs, positions, ids, alleles and names of the variants, in compact form."""
        return self._columns

    def names(self) -> Array:
        """Return the names of the variants as in VCF Zarr: ids, or else positions."""
        return self._columns[NAME].read(slice(None))

    def coords(self) -> dict[str, Array]:
        """Return contigs, positions, ids and alleles of the variants as arrays."""
        columns = self._columns.items()
        return {name: of.read(slice(None)) for name, of in columns if name != NAME}

    def on_x(self) -> Index:
        """Return the positions of the variants on X; contig XY (pseudoautosomal) is not X."""
        return np.flatnonzero(are_on_x(self._columns[CONTIG].read(slice(None))))

    @cached_property
    def _columns(self) -> dict[str, Column]:
        ids, positions, repeated = list[CompactText](), list[Index](), list[list[RepeatedText]]()
        for part in _parts_of_table(self.path, ("CHROM", "ID", "POS", "REF", "ALT")):
            ids.append(CompactText.of(part["ID"]))
            positions.append(self._positions(part["POS"]))
            alleles = [np.where(part[name] == "0", ".", part[name]) for name in ("REF", "ALT")]
            repeated.append([*map(RepeatedText.of, (part["CHROM"], *alleles))])
        each = zip(*repeated, strict=True)
        contigs, refs, alts = (RepeatedText.joined(parts).column() for parts in each)
        position = np.concatenate(positions)
        columns = {
            CONTIG: contigs,
            POSITION: Column(position.size, position.dtype, position.__getitem__),
            IDS: CompactText.joined(ids).column(),
            REF: refs,
            ALT: alts,
        }
        return {**columns, NAME: _names_of(columns)}

    def _positions(self, texts: Array) -> Index:
        try:
            return np.asarray(texts.astype(np.int64))
        except ValueError as error:
            raise DataError(
                f"{self.path} contains a position that is not a whole number ({error}). Without a "
                f"header its columns are {', '.join(BIM)}. Correct it, or write it again."
            ) from error


def _names_of(columns: Mapping[str, Column]) -> Column:
    """Return the names of variants: their ids, or unique names if ids are missing or repeated."""
    are_missing = any(unnamed(part).any() for part in columns[IDS].parts())
    if not are_missing and not repeated_bits(columns[IDS].parts()).size:
        return columns[IDS]
    texts = {name: of.read(slice(None)) for name, of in columns.items()}
    known = {name: ("variants", texts[name]) for name in (CONTIG, POSITION, IDS)}
    alleles = np.column_stack([texts[REF], texts[ALT]]).astype(object)
    names = Variants(xr.Dataset({**known, ALLELES: (("variants", "alleles"), alleles)})).names()
    assert names is not None, "variants have ids and positions"
    return CompactText.of(names).column()


class AbstractPlinkSource(AbstractStored):
    """Source of genotypes of m samples and d variants in PLINK files; every worker opens them."""

    missing_code = MISSING
    dosages = keeps_codes = True
    ploidy = DIPLOID

    def __init__(self, files: Fileset) -> None:
        self.files, self.dtype = files, np.dtype(np.int8)
        self.n_samples, self.n_features = _rows(files.samples), _rows(files.variants)
        for n, path in (self.n_samples, files.samples), (self.n_features, files.variants):
            if not n:
                raise DataError(f"{path} has no rows. Restore it, or write it again.")
        table = VariantTable(files.variants)
        of_each = table.names, files.sample_names, table.coords, files.key
        self.names = Names(*of_each, check=table.columns, columns=table.columns)
        self.on_x = DosagesOnX(table.on_x, files.sex)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    @abstractmethod
    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array: ...


class BedSource(AbstractPlinkSource):
    """Source of dosages of A1 in a .bed file, int8, -1 if missing."""

    layout = "bed"
    counted = "A1 of .bim (variant_alt)"

    def __init__(self, files: Fileset) -> None:
        super().__init__(files)
        _check_bed(files, self.n_samples, self.n_features)

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        stride = -(-self.n_samples // CALLS_A_BYTE)
        n_bytes = block.width * stride
        with self.files.calls.open("rb") as file:
            file.seek(HEADER + block.start * stride)
            raw = np.frombuffer(file.read(n_bytes), dtype=np.uint8)
        if raw.size < n_bytes:
            raise DataError(
                f"{self.files.calls} now ends before variant {block.stop}: it became shorter since "
                "it was opened. It may be being written, or damaged. Restore it, then resume or "
                "start again."
            )
        calls = FOUR[raw.reshape(-1, stride)[run_of(local)]].view(np.int8)[:, : self.n_samples]
        return np.ascontiguousarray(calls) if rows is None else np.take(calls, rows, axis=1)


def _check_bed(files: Fileset, m: int, d: int) -> None:
    """Raise DataError if a .bed file is invalid or does not have m samples and d variants."""
    path, stride = files.calls, -(-m // CALLS_A_BYTE)
    with path.open("rb") as file:
        head = file.read(HEADER)
    if not head:
        raise DataError(f"{path} is empty. Restore it, or write it again.")
    if head[:2] != MAGIC:
        raise DataError(
            f"{path} does not begin like a PLINK .bed file (6c 1b), but with {head.hex(' ')}. If "
            "it is a list of regions (UCSC BED), pass genotypes instead; otherwise restore it."
        )
    if head[2:] != bytes([BY_VARIANT]):
        why = (
            "stores genotypes sample by sample"
            if head[2:] == bytes([BY_SAMPLE])
            else "is incomplete"
        )
        raise DataError(
            f"{path} {why}, but must store them variant by variant. Write it again: plink "
            f"--bfile {path.with_suffix('')} --make-bed --out NEW."
        )
    size, expected = path.stat().st_size, HEADER + d * stride
    if size != expected:
        fits, remainder = divmod(size - HEADER, stride)
        would = f"room for {fits:,} variants{' and a part of one' if remainder else ''}"
        raise DataError(
            f"{path} has {size:,} bytes, which is {would} of {m:,} samples. But "
            f"{files.variants.name} has {d:,} variants and {files.samples.name} has {m:,} "
            f"samples, which need {expected:,} bytes. The three files do not belong together, or "
            "one is incomplete: restore them."
        )


class PgenSource(AbstractPlinkSource):
    """Source of dosages in a .pgen file, from calls (int8) or imputed (float32).

    A dosage counts all alleles except REF.
    """

    layout = "pgen"
    counted = "all alleles except REF in .pvar (variant_alt)"

    def __init__(self, files: Fileset, *, imputed: bool = False) -> None:
        super().__init__(files)
        self.imputed, self._lock = imputed, Lock()
        self.dtype = np.dtype(np.float32 if imputed else np.int8)
        _ = self._reader  # which refuses files that are not of one writing
        n = 0 if imputed else n_with_dosages(files.calls)
        if n:
            self.hint = (
                f"{files.calls} contains imputed dosages of {n:,} of {self.n_features:,} variants, "
                "but the rounded calls are read. Pass variable='dosages' to read the dosages."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _pgen, (self.files, self.imputed)

    @cached_property
    def _reader(self) -> Any:
        pgenlib = _pgenlib(self.files.calls)
        calls, variants = bytes(self.files.calls), self.files.variants
        try:
            if variants.suffix == ".pvar":  # it contains the number of alleles
                table = pgenlib.PvarReader(bytes(variants))
                return pgenlib.PgenReader(calls, self.n_samples, pvar=table)
            return pgenlib.PgenReader(calls, self.n_samples, self.n_features)
        except RuntimeError as error:
            raise self._damaged("cannot be read", error) from error

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read dosages (c, m) of all alleles except REF, as 2 minus the copies of REF."""
        of_ref = np.empty((block.width, self.n_samples), dtype=self.dtype)
        with self._lock:
            reader = self._reader
            read = reader.read_dosages_range if self.imputed else reader.read_range
            try:
                read(block.start, block.stop, of_ref, allele_idx=0)
            except RuntimeError as error:
                what = f"cannot be read at variants {block.start} to {block.stop - 1}"
                raise self._damaged(what, error) from error
        of_ref = of_ref[run_of(local)]
        of_ref = of_ref if rows is None else np.take(of_ref, rows, axis=1)
        missing = np.nan if self.imputed else MISSING
        return np.where(of_ref == PGEN_MISSING, self.dtype.type(missing), DIPLOID - of_ref)

    def _damaged(self, what: str, error: RuntimeError) -> DataError:
        said = error.args[0] if error.args else ""
        said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return DataError(
            f"{self.files.calls} {what} ({said.strip().rstrip('.')}). It is damaged, or does not "
            f"belong to {self.files.variants.name} ({self.n_features:,} variants) and "
            f"{self.files.samples.name} ({self.n_samples:,} samples): restore them."
        )


def n_with_dosages(path: Path) -> int:
    """Count the variants with imputed dosages in a .pgen file, by the file's index.

    The result is 0 for versions of the format with a different index.
    """
    with path.open("rb") as file:
        head = file.read(PGEN_HEADER)
        if len(head) < PGEN_HEADER:
            return 0
        n_variants, mode, control = int.from_bytes(head[3:7], "little"), head[2], head[11]
        if mode in DOSAGES_ALONE:
            return n_variants
        layout, count_bytes = control & 0xF, control >> 4 & 3
        if (
            mode != BY_RECORD or not 4 <= layout < 8
        ):  # record types of 4 bits: the file has only calls
            return 0
        n_parts, n = -(-n_variants // INDEXED), 0
        file.seek(PGEN_HEADER + 8 * n_parts)
        for start in range(0, n_variants, INDEXED):
            size = min(INDEXED, n_variants - start)
            types = np.frombuffer(file.read(size), dtype=np.uint8)
            n += int(((types & OF_DOSAGES) != 0).sum())
            flag_bytes = -(-size // 8) if control >> 6 == 3 else 0
            file.seek(size * ((layout & 3) + 1 + count_bytes) + flag_bytes, os.SEEK_CUR)
    return n


def _pgen(files: Fileset, imputed: bool) -> PgenSource:  # noqa: FBT001  # as pickled
    return PgenSource(files, imputed=imputed)


def _pgenlib(path: Path) -> Any:
    try:
        import pgenlib
    except ImportError as error:
        raise InputError(
            f"{path} needs the package pgenlib, which is not installed. Install dhsic[plink] "
            "here and on all workers, or write the data as .bed: plink2 --pfile "
            f"{path.with_suffix('')} --make-bed --out NEW."
        ) from error
    return pgenlib


def open_plink(path: str, options: OpenOptions) -> AbstractPlinkSource:
    """Open PLINK genotypes, given the path of one of the files or their common prefix.

    ``variable="dosages"`` reads imputed dosages of a .pgen instead of calls.

    Raises
    ------
    InputError
        A file does not exist.
    DataError
        The files do not belong together, or are damaged.
    """
    files = Fileset.at(path)
    is_bed, variable = files.calls.suffix.lower() == ".bed", options.variable
    if variable not in (None, "calls") and (is_bed or variable != "dosages"):
        has = "calls" if is_bed else "calls and dosages"
        raise InputError(
            f"{files.calls} contains {has}, but no variable {variable!r}. Leave out variable=."
        )
    source: AbstractPlinkSource
    source = BedSource(files) if is_bed else PgenSource(files, imputed=variable == "dosages")
    options.check_dim(0, "samples", str(files.calls))
    options.check_length(source.n_samples, str(files.calls))
    return source
