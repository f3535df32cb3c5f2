"""PLINK: genotypes in .bed (PLINK 1) and .pgen (PLINK 2), beside tables of variants and samples.

A .bed holds two bits a call, a variant after the other, and nothing that tells which samples and
variants they are: that is said by .bim and .fam alone, so sizes have to fit to the byte. A dosage
counts what VCF calls ALT, as everywhere in dhsic: A1, column 5 of .bim, which bed-reader and
bio2zarr count too; in .pgen all alleles but REF together.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
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
from dhsic.sources.options import OpenOptions
from dhsic.sources.stores import file_bytes
from dhsic.sources.variants import (
    ALLELES,
    CONTIG,
    CONTIGS,
    IDS,
    POSITION,
    Variants,
    chromosome_names,
)
from dhsic.sources.vcz import DIPLOID, MISSING

#: Suffixes of genotypes, and of what their variants and samples are described in.
TABLES = {".bed": ((".bim",), (".fam",)), ".pgen": ((".pvar", ".bim"), (".psam", ".fam"))}
#: Each suffix of PLINK's files, and that of the genotypes which it belongs to.
SUFFIXES = {
    **{suffix: ".pgen" for kinds in TABLES[".pgen"] for suffix in kinds},
    **{suffix: ".bed" for kinds in TABLES[".bed"] for suffix in kinds},
    **{suffix: suffix for suffix in TABLES},
}
#: Columns of tables without a header; one of 5 columns has no centimorgans.
BIM, BIM_SHORT = ("CHROM", "ID", "CM", "POS", "ALT", "REF"), ("CHROM", "ID", "POS", "ALT", "REF")
FAM = ("FID", "IID", "PAT", "MAT", "SEX", "PHENO")
#: Sex of males and of females.
MALE, FEMALE = ("1", "M", "m"), ("2", "F", "f")
#: First bytes of a .bed: magic number, then the flag of variant-major order.
MAGIC, BY_VARIANT, BY_SAMPLE = b"\x6c\x1b", 1, 0
HEADER = 3
CALLS_A_BYTE = 4
#: Dosage of A1 for each code of two bits: A1 twice, missing, once, not at all.
CODES = np.array((2, MISSING, 1, 0), dtype=np.int8)
#: The dosages of all bytes, four in an integer: looked up at 1 GB/s, 5 times as fast as bed-reader.
FOUR = np.ascontiguousarray(CODES[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3]).view(
    np.uint32
)[:, 0]
#: Missing values of pgenlib.
PGEN_MISSING = -9


@dataclass(frozen=True, slots=True)
class Fileset:
    """The files of one set of genotypes: calls, and tables of variants and samples."""

    calls: Path
    variants: Path
    samples: Path

    @classmethod
    def at(cls, path: str) -> Self:
        """Those at a path: of any of them, or what their names have in common.

        Raises
        ------
        InputError
            One of them is not there.
        """
        stem_suffix = SUFFIXES.get(Path(path).suffix.lower())
        table_suffix = next((s for s in TABLES if Path(path + s).is_file()), ".bed")
        stem = path if stem_suffix is None else path[: -len(Path(path).suffix)]
        suffix = stem_suffix or table_suffix
        calls = _there((stem + suffix,))
        variants, samples = (_there(tuple(stem + s for s in kinds)) for kinds in TABLES[suffix])
        return cls(calls, variants, samples)

    def dataset(self) -> xr.Dataset:
        """Return the annotations of the variants, under the names of VCF Zarr."""
        table = _table(self.variants, ("CHROM", "ID", "POS", "REF", "ALT"))
        index, contigs = pd.factorize(table["CHROM"])
        alleles = np.column_stack([table["REF"], table["ALT"]]).astype(object)
        alleles[alleles == "0"] = "."  # missing, as VCF has it
        try:
            positions = table["POS"].astype(np.int64)
        except ValueError as error:
            raise DataError(
                f"{self.variants} holds a position that is no whole number ({error}). Its columns "
                f"are {', '.join(BIM)}, unless a header says otherwise: mend it, or write it again."
            ) from error
        return xr.Dataset({
            CONTIG: ("variants", index),
            CONTIGS: ("contigs", np.asarray(contigs, dtype=object)),
            POSITION: ("variants", positions),
            ALLELES: (("variants", "alleles"), alleles),
            IDS: ("variants", table["ID"]),
        })  # fmt: skip

    def variant_names(self) -> Array | None:
        """Names of the variants, as in VCF Zarr: ids, or positions where ids are missing."""
        return Variants(self.dataset()).names()

    def coords(self) -> dict[str, Array]:
        """Contigs, positions, ids and alleles."""
        return Variants(self.dataset()).coords()

    def sample_names(self) -> Array:
        """IID of the samples; where several have one, FID_IID of all, as PLINK writes to VCF."""
        table = _table(self.samples, ("IID",), ("FID",))
        iid = table["IID"]
        if "FID" not in table or pd.Index(iid).is_unique:
            return iid
        return np.array([f"{a}_{b}" for a, b in zip(table["FID"], iid, strict=True)], dtype=object)

    def family_ids(self) -> tuple[Array, Array] | None:
        """FID and IID of the samples; None where the table has no FID."""
        table = _table(self.samples, ("IID",), ("FID",))
        return (table["FID"], table["IID"]) if "FID" in table else None

    def of_sex(self, codes: tuple[str, ...]) -> Array:
        """Samples whose SEX is one of these, (m,) bool; none where the table has no such column."""
        table = _table(self.samples, (), ("SEX",))
        return np.isin(table["SEX"], codes) if "SEX" in table else np.empty(0, dtype=bool)

    def on_x(self) -> Index:
        """Variants on X, without the regions that Y shares where these are XY."""
        chromosomes = _table(self.variants, ("CHROM",))["CHROM"]
        codes, names = pd.factorize(chromosomes)
        bare = chromosome_names(names.tolist())
        return np.flatnonzero(
            np.isin(codes, [i for i, name in enumerate(names) if bare[name] == "X"])
        )

    def key(self) -> tuple[Array, ...]:
        """Return the bytes of the tables, which stand for all names in a fingerprint."""
        return tuple(map(_digest, (self.variants, self.samples)))


def is_prefix(path: str) -> bool:
    """Whether a path at which there is nothing is what names of PLINK's files begin with."""
    return not Path(path).exists() and any(Path(path + suffix).is_file() for suffix in TABLES)


def samples_table(path: str) -> str | None:
    """Path of the .fam or .psam of a path or prefix of PLINK's files; None for anything else."""
    is_plink = Path(path).suffix.lower() in SUFFIXES or is_prefix(path)
    return str(Fileset.at(path).samples) if is_plink else None


def _there(paths: tuple[str, ...]) -> Path:
    """Return the first of these files that exists."""
    for path in paths:
        if file_bytes(Path(path)) is not None:
            return Path(path).absolute()
    packed = next((f"{path}.zst" for path in paths if Path(f"{path}.zst").exists()), "")
    if packed:
        raise InputError(f"{packed} is compressed, and read as text. Unpack it: zstd -d {packed}.")
    raise lacking(paths)


def lacking(paths: tuple[str, ...]) -> InputError:
    """Return the error for files none of which exists."""
    return InputError(
        f"There is no {' nor '.join(paths)}, which belongs to the genotypes of that name: files of "
        "PLINK come in threes (.bed, .bim and .fam; .pgen, .pvar and .psam) and lie in one folder. "
        "Check the path, or copy it there."
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
    """Columns of a table as text, those `wanted` and, where it has them, some more."""
    n_skipped, names = 0, list[str]()
    for line in _lines(path):
        if not line.startswith("#"):
            names = names or _headless(path, len(line.split()))
            break
        n_skipped += 1
        names = [] if line.startswith("##") else line.removeprefix("#").split()
    some = [name for name in (*wanted, *more) if name in names]
    lacking = [name for name in wanted if name not in names]
    if lacking:
        raise DataError(
            f"{path} has no column {', '.join(lacking)}; its columns are {', '.join(names)}. "
            "Restore its header, or write it again."
        )
    try:
        frame = pd.read_csv(
            path, sep=r"\s+", header=None, names=names, usecols=some, skiprows=n_skipped,
            dtype=str, na_filter=False, index_col=False,
        )  # fmt: skip
    except ValueError as error:  # pandas' own, and text that is no UTF-8
        raise DataError(f"{path} cannot be read as a table: {error}. Mend that line.") from error
    columns = {name: frame[name].to_numpy(dtype=object) for name in some}
    for name, values in columns.items():
        short = np.flatnonzero(values == "")
        if short.size:
            raise DataError(
                f"Row {short[0] + 1} of {path} has no {name}: it has fewer fields than the "
                f"columns {', '.join(names)}. Mend it, or write the file again."
            )
    return columns


def _headless(path: Path, n: int) -> list[str]:
    """Return the column names of a table with n columns and no header."""
    if path.suffix.lower() in (".fam", ".psam"):
        names = FAM[:n]
    else:
        names = BIM_SHORT if n == len(BIM_SHORT) else BIM
    if n < min(len(names), len(BIM_SHORT)):
        raise DataError(
            f"{path} has {n} columns in its first row; without a header they are "
            f"{', '.join(FAM if names[0] == 'FID' else BIM)}. Write it again."
        )
    return list(names)


class AbstractPlinkSource(AbstractStored):
    """Genotypes of m samples and d variants in files of PLINK, which every worker opens itself."""

    missing_code = MISSING
    dosages = keeps_codes = True
    ploidy = DIPLOID

    def __init__(self, files: Fileset) -> None:
        self.files, self.dtype = files, np.dtype(np.int8)
        self.n_samples, self.n_features = _rows(files.samples), _rows(files.variants)
        for n, path in (self.n_samples, files.samples), (self.n_features, files.variants):
            if not n:
                raise DataError(f"{path} holds no rows. Restore it, or write it again.")
        self.names = Names(
            *(files.variant_names, files.sample_names, files.coords, files.key),
            check=files.variant_names,
        )

    @cached_property
    def males(self) -> Array:
        """Samples that have one X, (m,) bool, or none, (0,)."""
        return self.files.of_sex(MALE)

    @cached_property
    def females(self) -> Array:
        """Samples that have two X, (m,) bool, or none, (0,)."""
        return self.files.of_sex(FEMALE)

    def haploid_features(self) -> Index:
        return self.files.on_x() if self.males.any() else super().haploid_features()

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        """Calls of males on X count 0 or 2, and are one allele each."""
        raw = self.read_columns(block, local, rows).astype(np.float64)
        missing = np.isnan(raw) if self.dtype.kind == "f" else raw == MISSING
        copies = np.where(self.males if rows is None else self.males[rows], 1, DIPLOID)
        alternative = np.where(missing, 0.0, raw) @ (copies / DIPLOID)
        return alternative, ~missing @ copies

    def diploid_genotypes(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Calls of females on X, by SEX."""
        every = np.arange(self.n_samples) if rows is None else rows
        raw = self.read_columns(block, local, every[self.females[every]])
        return np.stack([(raw == n).sum(axis=1) for n in range(DIPLOID + 1)], axis=1)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    @abstractmethod
    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array: ...


class BedSource(AbstractPlinkSource):
    """Dosages of A1 in a .bed, int8, -1 where missing."""

    layout = "bed"
    counted = "A1 of .bim, which is variant_alt"

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
                f"{self.files.calls} ends before variant {block.stop}, and did not when it was "
                "opened: it is being written, or was cut. Restore it, then go on or start again."
            )
        calls = FOUR[raw.reshape(-1, stride)[run_of(local)]].view(np.int8)[:, : self.n_samples]
        return np.ascontiguousarray(calls) if rows is None else np.take(calls, rows, axis=1)


def _check_bed(files: Fileset, m: int, d: int) -> None:
    """Raise an error for an invalid .bed, or one of another number of samples or variants."""
    path, stride = files.calls, -(-m // CALLS_A_BYTE)
    with path.open("rb") as file:
        head = file.read(HEADER)
    if head[:2] != MAGIC:
        raise DataError(
            f"{path} does not begin as a .bed of PLINK does (6c 1b), but with {head.hex(' ')}. "
            "If it is a list of regions (UCSC's BED), pass genotypes; else restore it."
        )
    if head[2:] != bytes([BY_VARIANT]):
        why = "holds a sample after the other" if head[2:] == bytes([BY_SAMPLE]) else "is cut"
        raise DataError(
            f"{path} {why}, and is read a variant after the other. Write it again: "
            f"plink --bfile {path.with_suffix('')} --make-bed --out NEW."
        )
    size, expected = path.stat().st_size, HEADER + d * stride
    if size != expected:
        fits, remainder = divmod(size - HEADER, stride)
        would = f"room for {fits:,} variants{' and a part of one' if remainder else ''}"
        raise DataError(
            f"{path} has {size:,} bytes, {would} of {m:,} samples; {files.variants.name} has "
            f"{d:,} variants and {files.samples.name} {m:,} samples, which take {expected:,}. The "
            "three files are not of one writing, or one was cut: restore them."
        )


class PgenSource(AbstractPlinkSource):
    """Dosages of all alleles but REF in a .pgen: calls, int8, or imputed dosages, float32."""

    layout = "pgen"
    counted = "all alleles but REF of .pvar, which are variant_alt"

    def __init__(self, files: Fileset, *, imputed: bool = False) -> None:
        super().__init__(files)
        self.imputed, self._lock = imputed, Lock()
        self.dtype = np.dtype(np.float32 if imputed else np.int8)
        _ = self._reader  # which refuses files that are not of one writing

    def __reduce__(self) -> tuple[Any, ...]:
        return _pgen, (self.files, self.imputed)

    @cached_property
    def _reader(self) -> Any:
        pgenlib = _pgenlib(self.files.calls)
        calls, variants = bytes(self.files.calls), self.files.variants
        try:
            if variants.suffix == ".pvar":  # which says how many alleles there are
                table = pgenlib.PvarReader(bytes(variants))
                return pgenlib.PgenReader(calls, self.n_samples, pvar=table)
            return pgenlib.PgenReader(calls, self.n_samples, self.n_features)
        except RuntimeError as error:
            raise self._damaged("cannot be read", error) from error

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        """Read REF's copies, which stand for all others together where there are several."""
        of_ref = np.empty((block.width, self.n_samples), dtype=self.dtype)
        with self._lock:
            reader = self._reader
            read = reader.read_dosages_range if self.imputed else reader.read_range
            try:
                read(block.start, block.stop, of_ref, allele_idx=0)
            except RuntimeError as error:
                what = f"does not give variants {block.start} to {block.stop - 1}"
                raise self._damaged(what, error) from error
        of_ref = of_ref[run_of(local)]
        of_ref = of_ref if rows is None else np.take(of_ref, rows, axis=1)
        missing = np.nan if self.imputed else MISSING
        return np.where(of_ref == PGEN_MISSING, self.dtype.type(missing), DIPLOID - of_ref)

    def _damaged(self, what: str, error: RuntimeError) -> DataError:
        said = error.args[0] if error.args else ""
        said = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return DataError(
            f"{self.files.calls} {what} ({said.strip().rstrip('.')}). It is damaged, or not of one "
            f"writing with {self.files.variants.name} ({self.n_features:,} variants) and "
            f"{self.files.samples.name} ({self.n_samples:,} samples): restore them."
        )


def _pgen(files: Fileset, imputed: bool) -> PgenSource:  # noqa: FBT001  # as pickled
    return PgenSource(files, imputed=imputed)


def _pgenlib(path: Path) -> Any:
    try:
        import pgenlib
    except ImportError as error:
        raise InputError(
            f"{path} needs the package pgenlib, which is not installed. Install dhsic[plink], here "
            "and on all workers; or write it as .bed: plink2 --pfile "
            f"{path.with_suffix('')} --make-bed --out NEW."
        ) from error
    return pgenlib


def open_plink(path: str, options: OpenOptions) -> AbstractPlinkSource:
    """Open genotypes at the path of one of the files of PLINK, or of what their names begin with.

    ``variable="dosages"`` reads imputed dosages of a .pgen rather than calls.

    Raises
    ------
    InputError
        A file is not there.
    DataError
        The files are not of one writing, or damaged.
    """
    files = Fileset.at(path)
    is_bed, variable = files.calls.suffix.lower() == ".bed", options.variable
    if variable not in (None, "calls") and (is_bed or variable != "dosages"):
        has = "calls" if is_bed else "calls and dosages"
        raise InputError(f"{files.calls} holds {has}, and no variable {variable!r}. Leave it out.")
    source: AbstractPlinkSource
    source = BedSource(files) if is_bed else PgenSource(files, imputed=variable == "dosages")
    options.check_dim(0, "samples", str(files.calls))
    options.check_length(source.n_samples, str(files.calls))
    return source
