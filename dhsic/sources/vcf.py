"""VCF and BCF: decoded once to VCF Zarr in a temporary folder, and read from there.

A VCF can only be read from its beginning, but a selection reads features repeatedly and in any
order. The first process that opens a file therefore reads it once, in bounded memory, and writes
the same arrays as bio2zarr. They are read like any VCF Zarr (`dhsic.sources.vcz`). The folder is in
``TMPDIR`` and is removed when the process ends. Workers without access to the folder decode the
file themselves.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Lock
from typing import Any

import numpy as np
import zarr

from dhsic._typing import Array, Float
from dhsic.errors import DataError, InputError, warn
from dhsic.memory import human
from dhsic.namespace import slices
from dhsic.sources.probabilities import reference_copies
from dhsic.sources.sexes import DIPLOID
from dhsic.sources.stores import FolderStore, file_bytes
from dhsic.sources.variants import (
    ALLELES,
    CONTIG,
    CONTIGS,
    FILTER,
    FILTER_IDS,
    IDS,
    PASS,
    POSITION,
    are_on_x,
)
from dhsic.sources.vcz import MISSING, NO_COPY, unsupported_calls
from dhsic.sources.zarr import create_array, good_chunks, write_array

#: Suffixes of files that are decoded.
SUFFIXES = (".vcf", ".vcf.gz", ".vcf.bgz", ".bcf")
#: Array of VCF Zarr for each field of FORMAT that is read, the first that a file has; dosages are
#: computed from GP. Users may also name the array.
FIELDS = {"GT": "call_genotype", "DS": "call_DS", "GP": "call_dosage"}
QUALITY = "variant_quality"
#: Fields of FORMAT with the number of reads of a call, and its quality.
READS, CALL_QUALITY = "DP", "GQ"
#: Fields of FORMAT with genotype likelihoods, from which bcftools calls genotypes.
LIKELIHOODS = ("PL", "GL")
#: First bytes of a compressed file, and the last ones of a complete file of bgzip.
GZIP, BGZIP_MARK = b"\x1f\x8b", b"BC"
BGZIP_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
#: Types of the numbers in INFO that are read, if a variant has one of them.
NUMBERS = {"Float": np.float32, "Integer": np.float64}
#: Number of variants whose names and annotations are written at once.
PART = 1 << 16
#: From this number of bytes on, decoding is announced by a warning, even without logs.
LARGE = 64 << 20

logger = logging.getLogger("dhsic")
_lock = Lock()
#: Files that this process has decoded, by process id, path and field; the last one for each path.
_decoded: dict[tuple[int, str, str], Decoded] = {}


def is_vcf(path: str) -> bool:
    """Whether a path or URL has the suffix of a VCF or BCF file."""
    return path.lower().endswith(SUFFIXES)


@dataclass(frozen=True)
class Decoded:
    """Description of one field of a VCF that is decoded to VCF Zarr in a folder.

    Attributes
    ----------
    path : Path
        The VCF.
    stamp : tuple of int
        Size and time of modification of the VCF.
    name : str
        Field of FORMAT that is decoded.
    has_dosages : bool
        Whether the first variant of the VCF has DS.
    folder : Path
        The folder of the decoded store.
    """

    path: Path
    stamp: tuple[int, int]
    name: str
    has_dosages: bool
    folder: Path

    @property
    def variable(self) -> str:
        """Name of the VCF Zarr array that contains the calls."""
        return FIELDS[self.name]

    @property
    def hint(self) -> str:
        """Advice if calls are read although the file has dosages; otherwise ""."""
        if self.name != "GT" or not self.has_dosages:
            return ""
        return (
            f"{self.path} contains imputed dosages (DS), but the rounded calls (GT) are read. Pass "
            "variable='DS' to read the dosages."
        )

    def decode(self) -> None:
        """Decode the VCF and write the store, unless the store exists on this machine.

        Raises
        ------
        DataError
            The VCF has changed, or is damaged.
        """
        with _lock:
            if self.folder.is_dir():
                return
            if stamp_of(self.path) != self.stamp:
                raise DataError(
                    f"{self.path} has changed since it was first read. Restore it and resume, or "
                    "start again."
                )
            aside = Path(f"{self.folder}.partial-{os.getpid()}")
            if not self.folder.parent.is_dir():  # another machine
                atexit.register(shutil.rmtree, self.folder.parent, ignore_errors=True)
            try:
                Writer(self.path, self.name, aside).write()
                aside.replace(self.folder)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self.path} has text that is not UTF-8 ({error}). Restore it, or convert it: "
                    f"bcftools view {shlex.quote(str(self.path))} | iconv -f latin1 -t utf-8 > "
                    "NEW.vcf"
                ) from error
            except OSError as error:
                if self.folder.is_dir():  # another worker was faster
                    return
                if error.errno != errno.ENOSPC:
                    raise
                raise InputError(
                    f"The disk of {aside.parent} is full, so the calls of {self.path} cannot be "
                    "decoded there. Free some space, or set TMPDIR to a folder on a larger disk. "
                    "Or convert the file there: dhsic convert "
                    f"{shlex.quote(str(self.path))} OUT.vcz"
                ) from error
            finally:
                shutil.rmtree(aside, ignore_errors=True)


class DecodedStore(FolderStore):
    """Zarr store of a decoded VCF; a process without access to its folder decodes the VCF again."""

    def __init__(self, decoded: Decoded) -> None:
        decoded.decode()
        super().__init__(decoded.folder, read_only=True)
        self.decoded = decoded

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodedStore, (self.decoded,)

    def __str__(self) -> str:
        return str(self.decoded.path)


def stamp_of(path: Path) -> tuple[int, int]:
    """Return size and time of modification of a file."""
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


@cache
def _folder(pid: int) -> TemporaryDirectory[str]:  # noqa: ARG001  # each process has its own
    """Create the temporary folder of a process, which is removed when the process ends."""
    return TemporaryDirectory(prefix="dhsic-decoded-", ignore_cleanup_errors=True)


def decoded_store(path: str) -> DecodedStore:
    """Return the store that this process last decoded from a VCF; if none, decode the VCF."""
    place = Path(path).absolute()
    found = _decoded.get((os.getpid(), str(place), ""))
    is_same = found is not None and place.is_file() and found.stamp == stamp_of(place)
    return DecodedStore(found) if found is not None and is_same else decoded_vcf(path)


def decoded_vcf(path: str, variable: str | None = None) -> DecodedStore:
    """Decode one field of a VCF, unless this process has decoded it; return the Zarr store.

    `variable` is a field of FORMAT, or the name of its Zarr array. By default it is the first of
    `FIELDS` that the file has.

    Raises
    ------
    InputError
        The file does not exist, has no samples or no such field, or cyvcf2 is not installed.
    DataError
        The file is damaged.
    """
    place = Path(path).absolute()
    if file_bytes(place) is None:
        raise InputError(f"{path} does not exist. Check the path.")
    pid, stamp = os.getpid(), stamp_of(place)
    name, has_dosages = _field_of(place, variable)
    found = _decoded.get((pid, str(place), name))
    if found is None or found.stamp != stamp:
        root = _folder(pid).name
        logger.log(
            logging.WARNING if stamp[0] >= LARGE else logging.INFO,
            "Decoding %s of %s (%s) to %s. To do this only once, convert it: dhsic convert %s "
            "OUT.vcz",
            *(name, place, human(stamp[0]), root, shlex.quote(str(path))),
        )
        folder = Path(mkdtemp(dir=root)) / "calls"
        found = Decoded(place, stamp, name, has_dosages, folder)
    store = DecodedStore(found)
    _decoded[pid, str(place), name] = _decoded[pid, str(place), ""] = found
    return store


def _field_of(path: Path, variable: str | None) -> tuple[str, bool]:
    """Return the field of FORMAT to read, and whether the first variant has dosages (DS).

    Raises
    ------
    InputError
        The file does not have the field.
    """
    file = _opened(path)
    fields = _ids(file, "FORMAT")
    arrays = {array: name for name, array in FIELDS.items()}
    name = arrays.get(variable or "", variable)
    chosen = name or next((known for known in FIELDS if known in fields), "")
    if chosen not in FIELDS or chosen not in fields:
        what = f"no field {name!r} that is read" if name else "neither GT nor DS nor GP"
        raise _without_calls(path, what, fields)
    declared, of_first = {*file.seqnames}, list[str]()
    try:
        first = next(file)  # a damaged one on a contig that is not declared ends the process
        of_first = first.FORMAT if first.CHROM in declared else [*fields]
    except Exception:  # no variants, or damage, which decoding finds
        logger.debug("The first variant of %s cannot be read.", path, exc_info=True)
    file.close()
    if not variable:  # a header may declare GT for variants that have dosages alone
        chosen = next((known for known in FIELDS if known in of_first and known in fields), chosen)
    return chosen, "DS" in of_first


def _without_calls(path: Path, what: str, fields: Iterable[str]) -> InputError:
    """Return the error for a VCF without the calls that were requested.

    `what` completes the sentence "The file has ...", for example "no field 'GT' that is read".
    `fields` are the fields of FORMAT that the file has.
    """
    has = sorted(fields)
    known = [name for name in FIELDS if name in has]
    likelihoods = next((name for name in LIKELIHOODS if name in has), "")
    if known:
        remedy = f"Pass variable={known[0]!r}."
    elif likelihoods:
        remedy = (
            f"Call the genotypes from {likelihoods}, and pass the new file: bcftools +tag2tag "
            f"{shlex.quote(str(path))} -o NEW.vcf -- --{likelihoods}-to-GT"
        )
    else:
        remedy = "Write the file again with genotype calls (GT)."
    return InputError(
        f"{path} has {what}: its fields of FORMAT are {', '.join(has) or 'none'}. dhsic reads the "
        f"fields GT (genotypes), DS (dosages) and GP (probabilities). {remedy}"
    )


def _ids(file: Any, kind: str) -> dict[str, dict[str, Any]]:
    """Return the header entries of one kind (FORMAT or INFO) of a VCF, by ID."""
    entries = (entry.info() for entry in file.header_iter() if entry.type == kind)
    return {entry["ID"]: entry for entry in entries}


def _opened(path: Path) -> Any:
    """Open a VCF with cyvcf2."""
    try:
        import cyvcf2
    except ImportError as error:
        raise InputError(
            f"{path} needs the package cyvcf2, which is not installed. Install it here and on all "
            "workers: pip install 'dhsic[vcf]'. Or write it as .pgen: plink2 --make-pgen --out NEW "
            f"--vcf {shlex.quote(str(path))}"
        ) from error
    _check_end(path)
    try:
        return cyvcf2.VCF(str(path))
    except Exception as error:  # cyvcf2 raises OSError, ValueError and Exception
        raise DataError(
            f"{path} cannot be read as VCF ({error}). It is damaged, or in another format: restore "
            "it, or check it with bcftools view."
        ) from error


def _check_end(path: Path) -> None:
    """Raise DataError for an incomplete bgzip file, which lacks the final block of the format."""
    with path.open("rb") as file:
        head = file.read(14)
        if not (head.startswith(GZIP) and head[12:14] == BGZIP_MARK):
            return
        file.seek(-min(len(BGZIP_END), path.stat().st_size), os.SEEK_END)
        if file.read() == BGZIP_END:
            return
    raise DataError(
        f"{path} is incomplete: it lacks the block that bgzip writes at the end of a file. Copy or "
        "write it again."
    )


def genotype_dosages(alleles: Array) -> Float:
    """Convert genotype calls (m, 2) to dosages (m,) float32; NaN if an allele is missing.

    >>> genotype_dosages(np.array([[0, 2], [1, NO_COPY], [1, MISSING]])).tolist()
    [1.0, 2.0, nan]
    """
    dosages: Float = (alleles > 0).sum(axis=1).astype(np.float32)
    dosages[(alleles == NO_COPY).any(axis=1)] *= DIPLOID
    dosages[(alleles == MISSING).any(axis=1)] = np.nan
    return dosages


@dataclass
class Columns:
    """Annotations of the variants in one part of a VCF: lists with one element per variant."""

    contigs: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    alleles: list[list[str]] = field(default_factory=list)
    qualities: list[float] = field(default_factory=list)
    filters: list[list[str]] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)


class Writer:
    """Writer that converts one field of a VCF to VCF Zarr, some variants at a time."""

    def __init__(self, path: Path, name: str, folder: Path) -> None:
        self.path, self.name, self.folder = path, name, folder
        self.file = _opened(path)
        self.samples = list(self.file.samples)
        if not self.samples:
            raise InputError(
                f"{path} has variants, but no samples. Pass a VCF with genotypes of samples."
            )
        self.contigs = {name: code for code, name in enumerate(self.file.seqnames)}
        self.filter_ids = {PASS: 0}
        entries = _ids(self.file, "INFO")
        self.info = {
            name: NUMBERS[entry["Type"]]
            for name, entry in entries.items()
            if entry.get("Number") == "1" and entry.get("Type") in NUMBERS
        }
        self.is_genotype, self.array = name == "GT", FIELDS[name]
        self.dims = ("variants", "samples", *(["ploidy"] if self.is_genotype else []))
        self.shape = (len(self.samples), *([DIPLOID] if self.is_genotype else []))
        self.group: Any = None
        self.n_called = 0  # dosages that the file has as genotype calls alone
        self.n_without_calls = Counter[str]()  # variants with dosages alone, by chromosome
        self.n_without_reads = 0  # reference calls that no read supports
        self.n_without_values = 0  # variants that have neither the field nor GT
        self.other_fields = set[str]()  # fields of FORMAT of these variants

    def write(self) -> None:
        """Decode the whole file, and write it as VCF Zarr."""
        dtype = np.dtype(np.int8 if self.is_genotype else np.float32)
        m = len(self.samples)
        bytes_per_call = dtype.itemsize * (DIPLOID if self.is_genotype else 1)
        width = good_chunks(1 << 40, m, bytes_per_call)[0]  # the number of variants is not known
        values, columns, n = np.empty((width, *self.shape), dtype), Columns(), 0
        for n, record in enumerate(self._records(), start=1):
            values[(n - 1) % width] = self._calls(record, n - 1)
            self._add(record, columns)
            if n % width == 0:
                self._append({self.array: values}, n - width)
            if n % PART == 0:
                self._append(self._arrays(columns), n - PART)
                columns = Columns()
        if not n:
            raise DataError(f"{self.path} has no variants. Restore it, or write it again.")
        if n % width:
            self._append({self.array: values[: n % width]}, n - n % width)
        if n % PART:
            self._append(self._arrays(columns), n - n % PART)
        self._finish()
        self._tell_lacking(n)
        self._tell()

    def _tell_lacking(self, n: int) -> None:
        """Warn if some of n variants lack the field; raise InputError if all lack it."""
        if not self.n_without_values:
            return
        names = " nor ".join(dict.fromkeys([self.name, "GT"]))
        lack = f"neither {names}" if " nor " in names else f"no {names}"
        if self.n_without_values == n:
            raise _without_calls(self.path, f"{lack} in any variant", self.other_fields)
        has = ", ".join(sorted(self.other_fields)) or "none"
        other = next((name for name in FIELDS if name in self.other_fields), "")
        remedy = f" Pass variable={other!r} to read these variants, too." if other else ""
        warn(
            f"{self.n_without_values:,} of {n:,} variants of {self.path} have {lack}, so they have "
            f"no value in any sample: their fields of FORMAT are {has}.{remedy}"
        )

    def _tell(self) -> None:
        """Warn of calls that are read as missing, and of assumptions about dosages."""
        if self.n_without_reads:
            warn(
                f"{self.path} has {self.n_without_reads:,} reference calls (0/0) without a single "
                f"read ({READS} is 0). They are read as missing, because some versions of GATK "
                "write them where nothing was called. To read them as 0/0, remove "
                f"{READS}: bcftools annotate -x FORMAT/{READS} {shlex.quote(str(self.path))} "
                "-o NEW.vcf"
            )
        if self.n_called:
            warn(
                f"{self.path} has {self.n_called:,} genotype calls (GT) without {self.name}. Their "
                "dosages are computed from the calls: the number of alternative alleles, as in "
                "PLINK 2."
            )
        contigs = np.array([*self.n_without_calls], dtype=object)
        n_on_x = sum(self.n_without_calls[name] for name in contigs[are_on_x(contigs)])
        if n_on_x and self.name == "DS":
            warn(
                f"{self.path} has {n_on_x:,} variants on X with dosages (DS) but no "
                "genotype calls (GT), so haploid calls of males cannot be recognised. Dosages of "
                "males are assumed to range from 0 to 2, as for females. If they range from 0 to "
                "1, exclude X, or write the file again with GT."
            )

    def _records(self) -> Iterator[Any]:
        n, declared = 0, {*self.file.seqnames}
        while (record := self._next(n)) is not None:
            if record.CHROM not in declared:
                declared |= self._declare(record.CHROM)
                for i in range(n + 1):
                    record = self._next(i)
            yield record
            n += 1

    def _next(self, n: int) -> Any:
        """Return the next record; None at the end. `n` is the number of records before it."""
        try:
            return next(self.file)
        except StopIteration:
            return None
        except Exception as error:  # cyvcf2 raises Exception
            raise DataError(
                f"{self.path} cannot be read after {n:,} variants ({error}). It is damaged or "
                "incomplete: restore it, or check it with bcftools view."
            ) from error

    def _declare(self, contig: str) -> set[str]:
        """Open the file again, add all contigs to its header, and return the contigs.

        If a contig is not in the header, cyvcf2 returns its first variant even if the record is
        damaged. Reading the alleles of that record may crash the process.
        """
        contigs = {contig: None}
        with suppress(Exception):  # of damage, which the second reading finds
            contigs |= dict.fromkeys(record.CHROM for record in self.file)
        self.file.close()
        self.file = _opened(self.path)
        for name in contigs:
            self.file.add_to_header(f"##contig=<ID={name}>")
        return {*contigs}

    def _add(self, record: Any, columns: Columns) -> None:
        """Add the annotations of a variant to `columns`."""
        columns.contigs.append(self.contigs.setdefault(record.CHROM, len(self.contigs)))
        columns.positions.append(record.POS)
        columns.ids.append(record.ID or ".")
        columns.alleles.append([record.REF, *record.ALT])
        columns.qualities.append(np.nan if record.QUAL is None else record.QUAL)
        columns.filters.append(record.FILTERS)
        values = (record.INFO.get(name) for name in self.info)
        columns.numbers.append([np.nan if value is None else value for value in values])

    def _calls(self, record: Any, number: int) -> Array:
        """Return the calls of a variant: alleles (m, 2) int8, or dosages (m,)."""
        if self.is_genotype:
            return self._alleles(record, number)
        dosages = self._dosages(record, number)
        if "GT" not in record.FORMAT:
            self.n_without_calls[record.CHROM] += 1
            if self.name not in record.FORMAT:
                self._add_lacking(record)
            return dosages
        alleles, missing = self._alleles(record, number), np.isnan(dosages)
        if self.name == "DS":  # from 0 to 1 for a haploid call
            dosages[(alleles == NO_COPY).any(axis=1)] *= DIPLOID
        called = genotype_dosages(alleles)
        self.n_called += int((missing & ~np.isnan(called)).sum())
        return np.where(missing, called, dosages)

    def _alleles(self, record: Any, number: int) -> Array:
        """Return the alleles (m, 2) int8 of the genotype calls of a variant."""
        try:
            alleles = record.genotype.array()[:, :-1]  # the last column says whether it is phased
        except Exception:  # cyvcf2 raises it if a variant has no GT
            self._add_lacking(record)
            return np.full((len(self.samples), DIPLOID), MISSING, np.int8)
        if alleles.shape[1] > DIPLOID or alleles.max(initial=0) > np.iinfo(np.int8).max:
            raise self._refused(
                number,
                f"calls of {alleles.shape[1]} alleles among {len(record.ALT) + 1}",
                "dhsic reads at most 2 alleles per call, and at most 127 alleles per variant. "
                "Exclude such variants",
            )
        if READS in record.FORMAT:
            alleles = self._supported(record, alleles)
        if alleles.shape[1] == DIPLOID:
            return np.asarray(alleles)
        missing = np.full((len(alleles), 1), NO_COPY)
        return np.hstack([alleles, missing])

    def _add_lacking(self, record: Any) -> None:
        """Count a variant that has neither the field nor GT, and record its other fields."""
        self.n_without_values += 1
        self.other_fields |= {*record.FORMAT}

    def _supported(self, record: Any, alleles: Array) -> Array:
        """Return alleles (m, p); reference calls without any supporting read become missing.

        See `unsupported_calls`. Calls of imputed variants (DS or GP) are not changed.
        """
        reads = record.format(READS)
        quality = record.format(CALL_QUALITY) if CALL_QUALITY in record.FORMAT else None
        are_numbers = all(each is None or each.dtype.kind in "iuf" for each in (reads, quality))
        if reads is None or not are_numbers or {"DS", "GP"} & {*record.FORMAT}:
            return alleles
        no_call = unsupported_calls(
            alleles, reads[:, 0], None if quality is None else quality[:, 0]
        )
        self.n_without_reads += int(no_call.sum())
        return np.where(no_call[:, None] & (alleles == 0), MISSING, alleles)

    def _dosages(self, record: Any, number: int) -> Float:
        """Return the dosages (m,) of all alleles except REF, from DS or GP; NaN if missing."""
        values = record.format(self.name)
        if values is None:
            return np.full(self.shape, np.nan, np.float32)
        if self.name == "DS":
            dosages: Float = values.sum(axis=1)
            return dosages
        n_alleles = len(record.ALT) + 1
        of_one, of_two = (reference_copies(ploidy, n_alleles) for ploidy in (1, DIPLOID))
        if values.shape[1] != of_two.size:
            if values.shape[1] == of_one.size:
                return np.asarray(DIPLOID * (1.0 - values @ of_one))
            raise self._refused(
                number,
                f"{values.shape[1]} probabilities (GP) per call of {n_alleles} alleles",
                f"Calls of two alleles have {of_two.size}. Exclude such variants",
            )
        haploid = np.isnan(values[:, of_one.size :]).all(axis=1)
        dosages = values @ (DIPLOID - of_two)
        dosages[haploid] = DIPLOID * (1.0 - values[haploid, : of_one.size] @ of_one)
        return dosages

    def _refused(self, number: int, what: str, remedy: str) -> InputError:
        return InputError(
            f"Variant {number:,} of {self.path} has {what}. {remedy}, for example with bcftools "
            "view."
        )

    def _arrays(self, columns: Columns) -> dict[str, Array]:
        """Convert the annotations of some variants to arrays, by their VCF Zarr names."""
        return {
            CONTIG: np.array(columns.contigs, dtype=np.int32),
            POSITION: np.array(columns.positions, dtype=np.int32),
            IDS: np.array(columns.ids, dtype=object),
            QUALITY: np.array(columns.qualities, dtype=np.float32),
            ALLELES: self._padded(columns.alleles),
            FILTER: self._filters(columns.filters),
            **self._numbers(columns.numbers),
        }

    def _append(self, parts: dict[str, Array], n_done: int) -> None:
        """Append the values of some variants to arrays of the store, after `n_done` variants."""
        if self.group is None:
            self.folder.mkdir(parents=True)
            self.group = zarr.create_group(self.folder, zarr_format=3)
        for name, part in parts.items():
            array = self.group.get(name)
            array = self._create(name, part) if array is None else array
            before, after = array.shape[1:], part.shape[1:]
            array.resize((n_done + len(part), *map(max, zip(before, after, strict=True))))
            if before < after:  # more alleles or filters than before
                for rows in slices(n_done, PART):
                    array[rows, before[0] :] = "" if part.dtype == object else False
            array[(slice(n_done, None), *(slice(0, n) for n in after))] = part

    def _create(self, name: str, part: Array) -> Any:
        """Create an empty array in the store, with dtype and shape for values like `part`."""
        dims = {self.array: self.dims, ALLELES: ("variants", "alleles")}
        is_calls = name == self.array
        return create_array(
            self.group,
            name,
            shape=(0, *part.shape[1:]),
            dtype=str if part.dtype == object else part.dtype,
            chunks=part.shape if is_calls else (min(len(part), PART), *(1 for _ in part.shape[1:])),
            dims=dims.get(name, ("variants", "filters")[: part.ndim]),
            fill_value=False if part.dtype == bool else None,
            codec="lz4",
        )

    @staticmethod
    def _padded(alleles: list[list[str]]) -> Array:
        width = max(DIPLOID, *map(len, alleles))
        return np.array([[*each, *[""] * (width - len(each))] for each in alleles], dtype=object)

    def _filters(self, filters: list[list[str]]) -> Array:
        codes = [
            [self.filter_ids.setdefault(name, len(self.filter_ids)) for name in names]
            for names in filters
        ]
        matrix = np.zeros((len(codes), len(self.filter_ids)), dtype=bool)
        for row, each in enumerate(codes):
            matrix[row, each] = True
        return matrix

    def _numbers(self, rows: list[list[float]]) -> dict[str, Array]:
        columns = zip(*rows, strict=True)
        each = zip(self.info.items(), columns, strict=True)
        return {f"variant_{name}": np.array(values, dtype) for (name, dtype), values in each}

    def _finish(self) -> None:
        """Write the names of samples, contigs and filters, and close the VCF."""
        names = {
            "sample_id": (self.samples, "samples"),
            CONTIGS: (list(self.contigs), "contigs"),
            FILTER_IDS: (list(self.filter_ids), "filters"),
        }
        for name, (values, dim) in names.items():
            write_array(self.group, name, np.array(values, dtype=object), (dim,))
        self.file.close()
