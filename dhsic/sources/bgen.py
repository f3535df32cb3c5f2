"""BGEN: genotype probabilities of versions 1.1 to 1.3, with or without an index (.bgi).

A value is a dosage, the expected number of alleles other than the first. It is a whole number if
all probabilities are 0 or 1, and a fraction otherwise. The first allele is REF, as for UK Biobank,
regenie and ``plink2 ref-first``.

Each variant is compressed separately. The offsets of the variants are read from the index. Without
an index, the whole file is searched for them once. Names and annotations are read from the file.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import pandas as pd
import xarray as xr
from numcodecs.zstd import decompress as decompress_zstd

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractStored, Names
from dhsic.sources.blocks import Block
from dhsic.sources.options import OpenOptions, PloidyPolicy
from dhsic.sources.probabilities import BEFORE, Records, old_dosages
from dhsic.sources.sexes import DIPLOID, SEX, DosagesOnX
from dhsic.sources.stores import file_bytes
from dhsic.sources.variants import ALLELES, CONTIG, CONTIGS, IDS, POSITION, Variants, are_on_x

#: Suffixes of BGEN files, of the indexes that bgenix writes, and of the tables of samples.
SUFFIX, INDEX_SUFFIX, SAMPLES_SUFFIX = ".bgen", ".bgi", ".sample"
#: Types of the columns of a .sample file: ids and rates of missing calls, discrete variables,
#: phenotypes, covariates, and binary phenotypes; and the column of missing calls.
TYPES, MISSING_RATE = frozenset("0DPCB"), "missing"
#: Texts that stand for a missing id of a variant.
UNNAMED = ("", ".")
#: Magic number (zeros in old files), and the layouts of the versions 1.1, and 1.2 and 1.3.
MAGICS, LAYOUTS = (b"bgen", bytes(4)), (1, 2)
#: Compressions of the probabilities; 0 is none.
ZLIB, ZSTD = 1, 2
#: Functions that read an unsigned integer at an offset of a byte string.
UINT16, UINT32 = struct.Struct("<H").unpack_from, struct.Struct("<I").unpack_from
#: Bytes of the probabilities of a sample in layout 1.
BYTES_OF_LAYOUT_1 = 6
#: Number of bytes read first for the description of a variant; long alleles need more.
AT_ONCE = 512
#: Number of first bytes of the BGEN file that its index contains for comparison.
REPEATED = 1000
#: Bytes of records that are decoded at once, small enough for the cache of a processor.
CACHE_BYTES = 1 << 18
#: Maximum number of variants with cached annotations; each takes about 100 bytes.
MOST_KEPT = 1 << 18
#: Number of files with cached offsets; each variant takes 8 bytes.
OPENED = 64
#: Number of variants whose names are part of a fingerprint.
SAMPLED = 1000


class Header(NamedTuple):
    """Header of a BGEN file: its layout, compression, size and offsets."""

    first: int  # offset of the first variant
    n_variants: int
    n_samples: int
    compression: int
    layout: int
    ids_at: int | None  # offset of the ids of the samples

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read the header of a file; DataError if it is not a valid BGEN header."""
        with path.open("rb") as file:
            head = file.read(24)
            if len(head) < 24 or head[16:20] not in MAGICS:
                raise DataError(
                    f"{path} is not a BGEN file: it begins with the bytes {head[:20].hex(' ')}. "
                    "Restore it, or write it again."
                )
            offset, length, n_variants, n_samples = struct.unpack_from("<4I", head)
            file.seek(length)
            flags = int.from_bytes(file.read(4), "little")
        compression, layout = flags & 3, flags >> 2 & 15
        if layout not in LAYOUTS or compression > ZSTD or not (n_variants and n_samples):
            raise DataError(
                f"The header of {path} states {n_variants:,} variants, {n_samples:,} samples, "
                f"layout {layout} and compression {compression}. dhsic reads layouts 1 and 2 with "
                "compression 0, 1 or 2. The file is empty, damaged, or of a newer version: restore "
                "it, or write it again as BGEN 1.2."
            )
        ids_at = length + 4 if flags >> 31 else None
        return cls(offset + 4, n_variants, n_samples, compression, layout, ids_at)


class Variant(NamedTuple):
    """Description of a variant, and the location of its probabilities in the file."""

    varid: str
    rsid: str
    contig: str
    position: int
    alleles: tuple[str, ...]
    start: int  # of the compressed probabilities
    stop: int


@dataclass(frozen=True)
class BgenFile:
    """A BGEN file, its header and its variants."""

    path: Path
    header: Header

    @classmethod
    def at(cls, path: str) -> Self:
        """Open the file at `path`; InputError if there is none."""
        place = Path(path).absolute()
        if file_bytes(place) is None:
            raise InputError(f"{path} does not exist. Check the path.")
        return cls(place, Header.of(place))

    def __reduce__(self) -> tuple[Any, ...]:
        return BgenFile, (self.path, self.header)

    @property
    def offsets(self) -> Index:
        """Offsets (d + 1,) in bytes: the start of each variant, and the end of the last variant."""
        facts = self.path.stat()
        return _offsets(self, facts.st_size, facts.st_mtime_ns)

    def variants(self) -> Iterator[Variant]:
        """Yield the descriptions of all variants, in the order of the file."""
        at = self.header.first
        with self.path.open("rb", buffering=AT_ONCE) as file:
            for number in range(self.header.n_variants):
                variant = self._variant(file, at, number)
                at = variant.stop
                yield variant

    def _variant(self, file: BinaryIO, at: int, number: int) -> Variant:
        n_read = AT_ONCE
        while True:
            file.seek(at)
            data = file.read(n_read)
            try:
                return self.variant_of(data, at)
            except (struct.error, UnicodeDecodeError) as error:
                if len(data) < n_read or n_read > os.fstat(file.fileno()).st_size:
                    raise self.damaged(number, f"ends at byte {at + len(data):,}") from error
            n_read *= 16

    def variant_of(self, data: bytes, start: int, at: int = 0) -> Variant:
        """Parse the variant description at ``data[at:]``; `start` is its offset in the file."""
        spans, position_at = self._texts(data, at)
        varid, rsid, contig, *alleles = [data[a:b].decode() for a, b in spans]
        (position,) = UINT32(data, position_at)
        first, stop, _ = self.record_at(data, spans[-1][1])
        shift = start - at
        return Variant(varid, rsid, contig, position, tuple(alleles), first + shift, stop + shift)

    def _texts(self, data: bytes, at: int) -> tuple[list[tuple[int, int]], int]:
        """Return the byte ranges of varid, rsid, contig and alleles, and the offset of position."""
        is_old, spans = self.header.layout == 1, []
        at += 4 if is_old else 0  # number of samples
        for _ in range(3):
            end = at + 2 + UINT16(data, at)[0]
            spans.append((at + 2, end))
            at = end
        position_at = at
        n_alleles = 2 if is_old else UINT16(data, at + 4)[0]
        at += 4 if is_old else 6
        for _ in range(n_alleles):
            end = at + 4 + UINT32(data, at)[0]
            spans.append((at + 4, end))
            at = end
        if at > len(data):
            raise struct.error
        return spans, position_at

    def record_at(self, data: bytes, at: int) -> tuple[int, int, int]:
        """Return start, stop and decompressed size of a variant's probabilities, in bytes.

        `at` is the offset in `data` of the first byte after the alleles of the variant.
        """
        is_packed, is_old = self.header.compression > 0, self.header.layout == 1
        n_bytes = n_stored = self.header.n_samples * BYTES_OF_LAYOUT_1
        if is_packed or not is_old:
            n_bytes = n_stored = UINT32(data, at)[0]
            at += 4
        if is_packed and is_old:
            n_bytes = self.header.n_samples * BYTES_OF_LAYOUT_1
        elif is_packed:
            (n_bytes,), n_stored = UINT32(data, at), n_stored - 4
            at += 4
        return at, at + n_stored, n_bytes

    def probabilities(self, data: bytes, at: int) -> bytes:
        """Decompress the probabilities of the variant at ``data[at:]``.

        Raises
        ------
        ValueError
            The probabilities are damaged. The message is a predicate, such as "cannot be decoded".
        """
        try:
            spans = self._texts(data, at)[0]
            start, stop, n_bytes = self.record_at(data, spans[-1][1])
            if n_bytes > most_bytes(self.header.n_samples, len(spans) - 3):
                raise ValueError(f"has {n_bytes:,} bytes, which is too many for its samples,")
            record = self._decompressed(data[start:stop], n_bytes)
        except (struct.error, zlib.error, RuntimeError) as error:
            raise ValueError("cannot be decoded") from error
        if stop > len(data) or len(record) != n_bytes:
            raise ValueError(f"has {len(record):,} bytes instead of {n_bytes:,}")
        return record

    def _decompressed(self, data: bytes, n_bytes: int) -> bytes:
        """Decompress probabilities that should have `n_bytes`, without exceeding this size."""
        if self.header.compression == ZSTD:
            return bytes(decompress_zstd(data, bytearray(n_bytes)))
        if self.header.compression == ZLIB:
            return zlib.decompressobj().decompress(data, n_bytes + 1)
        return data

    def damaged(self, number: int, why: str) -> DataError:
        """Return the error for damage at variant `number`.

        `why` is a predicate that describes the damage, such as "ends at byte 12".
        """
        return DataError(
            f"{self.path} {why} in variant {number:,} of {self.header.n_variants:,}. It is damaged "
            "or incomplete: restore it."
        )

    def dataset(self) -> xr.Dataset:
        """Return the annotations of the variants, as variables with the names of VCF Zarr."""
        facts = self.path.stat()
        read = _annotations if self.header.n_variants <= MOST_KEPT else _annotations.__wrapped__
        return read(self, facts.st_size, facts.st_mtime_ns)

    def variant_names(self) -> Array | None:
        """Return the names of the variants: rsid, or else varid, or else the position."""
        return Variants(self.dataset()).names()

    def coords(self) -> dict[str, Array]:
        """Return contigs, positions, ids and alleles of the variants."""
        return Variants(self.dataset()).coords()

    def on_x(self) -> Index:
        """Return the ascending positions, among all variants, of variants on chromosome X."""
        data = self.dataset()
        are_x = are_on_x(data[CONTIGS].to_numpy())
        return np.flatnonzero(are_x[data[CONTIG].to_numpy()])

    @cached_property
    def samples(self) -> SampleTable | None:
        """Table in the .sample file beside the BGEN file; None if there is no such file."""
        path = self.path.with_suffix(SAMPLES_SUFFIX)
        return None if file_bytes(path) is None else _samples(path, self.header.n_samples)

    def sample_ids(self) -> Array | None:
        """Return the sample ids (m,), from the .sample file or else from the BGEN file."""
        embedded = self._embedded_ids()
        if self.samples is None:
            return embedded
        families, ids = self.samples.ids[0], self.samples.ids[-1]
        both = zip(families, ids, strict=True)
        pasted = np.array([f"{family}_{one}" for family, one in both], dtype=object)
        if embedded is not None:
            for each in (ids, families, pasted):
                if sorted(each) == sorted(embedded) and not np.array_equal(each, embedded):
                    raise self._order_differs(each, embedded)
        return ids if pd.Index(ids).is_unique else pasted

    def _order_differs(self, ids: Array, embedded: Array) -> DataError:
        """Return the error for a .sample file that lists the samples in a different order."""
        row = int(np.argmax(ids != embedded))
        return DataError(
            f"{self.path.with_suffix(SAMPLES_SUFFIX)} lists the samples of {self.path.name} in "
            f"another order: sample {row + 1:,} is {ids[row]} there, but {embedded[row]} in the "
            "BGEN file. Restore it, or remove it to use the ids in the BGEN file."
        )

    def sex(self) -> Array | None:
        """Return the column `sex` of the .sample file as text (m,); None if there is none."""
        named = {name.lower(): values for name, values in self.variables().items()}
        return named.get(SEX.lower())

    def variables(self) -> dict[str, Array]:
        """Return the variables in the .sample file, without ids, as text (m,) each, by name."""
        return {} if self.samples is None else self.samples.variables

    def _embedded_ids(self) -> Array | None:
        if self.header.ids_at is None:
            return None
        with self.path.open("rb") as file:
            file.seek(self.header.ids_at)
            data = file.read(max(self.header.first - self.header.ids_at, 0))
        at, ids = 8, list[str]()  # after the bytes of the ids, and the number of samples
        try:
            for _ in range(self.header.n_samples):
                start, at = at + 2, at + 2 + UINT16(data, at)[0]
                ids.append(data[start:at].decode())
            UINT16(data, at - 2)  # the end of the last id
        except (struct.error, UnicodeDecodeError) as error:
            raise DataError(
                f"{self.path} has {self.header.n_samples:,} samples, but only {len(ids):,} "
                "complete sample ids. It is damaged: restore it."
            ) from error
        return np.array(ids, dtype=object)

    def check(self) -> None:
        """Read the descriptions of all variants, to validate them."""
        for _ in self.variants():
            pass

    def key(self) -> tuple[Array | None, ...]:
        """Return arrays for a fingerprint of the file.

        They are a digest of all offsets and some variant descriptions, and the sample ids.
        """
        digest, offsets = hashlib.sha256(self.offsets.tobytes()), self.offsets
        chosen = np.unique(np.linspace(0, len(offsets) - 2, SAMPLED).astype(np.int64))
        with self.path.open("rb") as file:
            for number in chosen.tolist():
                variant = self._variant(file, int(offsets[number]), number)
                digest.update(repr(variant[:5]).encode())
        return np.frombuffer(digest.digest(), dtype=np.uint8), self.sample_ids()


class SampleTable(NamedTuple):
    """Columns of an Oxford .sample file as text (m,): one or two columns of ids, and variables."""

    ids: list[Array]
    variables: dict[str, Array]


def _samples(path: Path, n_samples: int) -> SampleTable:
    """Read an Oxford .sample file: a header, a line of column types, and one row per sample.

    The first column contains ids. The second column also contains ids if its type is 0, unless it
    is the rate of missing calls.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    rows = [line.split() for line in lines if line.strip()]
    names = rows[0] if rows else []
    types = rows[1] if len(rows) > 1 else []
    is_typed = len(types) == len({*names}) and types[:1] == ["0"] and {*types} <= TYPES
    columns = rows[2:]
    if not is_typed or len(columns) != n_samples or {*map(len, columns)} != {len(names)}:
        raise DataError(
            f"{path} does not describe the {n_samples:,} samples of the BGEN file beside it. A "
            ".sample file needs a header (ID_1 ID_2 missing, or ID), a row of types (0 0 0, or 0), "
            f"and one row per sample with a value in each column. This file has {len(columns):,} "
            "rows below the first two. Restore it, or remove it if the BGEN file has sample ids."
        )
    values = np.array(columns, dtype=object)
    is_pair = types[1:2] == ["0"] and names[1].lower() != MISSING_RATE
    ids = [values[:, k] for k in range(1 + is_pair)]
    others = [k for k in range(len(ids), len(names)) if names[k].lower() != MISSING_RATE]
    return SampleTable(ids, {names[k]: values[:, k] for k in others})


def most_bytes(n_samples: int, n_alleles: int) -> int:
    """Return the maximum size in bytes of a variant's probabilities.

    It is the size for diploid calls with 32 bits per probability.
    """
    n_probabilities = max(n_alleles * (n_alleles + 1) // 2, 3)
    return 16 + n_samples * (1 + 4 * n_probabilities)


@lru_cache(maxsize=1)
def _annotations(file: BgenFile, _size: int, _changed_at: int) -> xr.Dataset:
    """Read the annotations of the variants of a file; the result for the last file is cached."""
    each = [(v.rsid, v.varid, v.contig, v.position, v.alleles) for v in file.variants()]
    rsids, varids, chromosomes, positions, alleles = zip(*each, strict=True)
    index, contigs = pd.factorize(np.array(chromosomes, dtype=object))
    width = max(map(len, alleles))
    padded = [(*each, *[""] * (width - len(each))) for each in alleles]
    ids = [rsid if rsid not in UNNAMED else v for rsid, v in zip(rsids, varids, strict=True)]
    return xr.Dataset({
        CONTIG: ("variants", index),
        CONTIGS: ("contigs", np.asarray(contigs, dtype=object)),
        POSITION: ("variants", np.array(positions, dtype=np.int64)),
        ALLELES: (("variants", "alleles"), np.array(padded, dtype=object)),
        IDS: ("variants", np.array(ids, dtype=object)),
    })  # fmt: skip


@lru_cache(maxsize=OPENED)
def _offsets(file: BgenFile, size: int, _changed_at: int) -> Index:
    """Read the offsets of the variants from the index, or else from the file."""
    index = file.path.with_name(file.path.name + INDEX_SUFFIX)
    if index.is_file():
        return np.append(_indexed(file, index, size), size)
    offsets = np.empty(file.header.n_variants + 1, dtype=np.int64)
    offsets[0] = file.header.first
    for number, variant in enumerate(file.variants()):
        if variant.stop > size:
            raise file.damaged(number, f"ends at byte {size:,}")
        offsets[number + 1] = variant.stop
    return offsets


def _indexed(file: BgenFile, index: Path, size: int) -> Index:
    """Read the offsets of the variants from an index, in the order of the file."""
    remedy = f"Remove it, or write it again: bgenix -index -clobber -g {file.path}."
    ordered = "SELECT file_start_position FROM Variant ORDER BY file_start_position"
    connection = sqlite3.connect(f"{index.as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        places = np.fromiter((at for (at,) in connection.execute(ordered)), dtype=np.int64)
        about = connection.execute("SELECT file_size, first_1000_bytes FROM Metadata").fetchone()
    except sqlite3.Error as error:
        raise DataError(f"{index} cannot be read as an index ({error}). {remedy}") from error
    finally:
        connection.close()
    with file.path.open("rb") as data:
        first = data.read(REPEATED)
    fits = about is None or (int(about[0]) == size and bytes(about[1]) == first[: len(about[1])])
    n = file.header.n_variants
    if not fits or places.size != n or places[0] != file.header.first or places[-1] >= size:
        raise DataError(
            f"{index} does not match {file.path.name}: the index lists {places.size:,} variants, "
            f"and the file has {n:,} variants in {size:,} bytes. The index was written for another "
            f"file, or for another version of it. {remedy}"
        )
    return places


class BgenSource(AbstractStored):
    """Source of dosages in a BGEN file, which count all alleles except the first.

    Values are float32, NaN if missing.
    """

    layout = "bgen"
    counted = "all alleles except the first of the BGEN file (variant_alt)"
    dosages = keeps_codes = True
    ploidy = DIPLOID

    def __init__(self, file: BgenFile, policy: PloidyPolicy = "scale") -> None:
        self.file, self.policy, self.dtype = file, policy, np.dtype(np.float32)
        self.n_samples, self.n_features = file.header.n_samples, file.header.n_variants
        self.names = Names(
            *(file.variant_names, file.sample_ids, file.coords, file.key),
            check=file.check,
            sample_coords=file.variables,
        )
        self.on_x = DosagesOnX(file.on_x, file.sex)

    def __reduce__(self) -> tuple[Any, ...]:
        return BgenSource, (self.file, self.policy)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        out = np.empty((local.size, self.n_samples), dtype=self.dtype)
        alike: dict[Any, list[tuple[int, bytes]]] = {}
        for at, record in enumerate(self._records(block, local)):
            is_old, end = self.file.header.layout == 1, BEFORE + self.n_samples
            form = len(record) if is_old else (len(record), record[:6], record[end : end + 2])
            batch = alike.setdefault(form, [])
            batch.append((at, record))
            if len(batch) * len(record) >= CACHE_BYTES:
                self._decode(alike.pop(form), block.start + local, out)
        for batch in alike.values():
            self._decode(batch, block.start + local, out)
        return out if rows is None else np.take(out, rows, axis=1)

    def _decode(self, batch: list[tuple[int, bytes]], features: Index, out: Array) -> None:
        """Decode records with the same layout into rows of `out` (c, m).

        `batch` contains pairs of a row number and a record.
        """
        places, records = zip(*batch, strict=True)
        stacked = np.frombuffer(b"".join(records), dtype=np.uint8).reshape(len(batch), -1)
        out[list(places)] = self._decoded(stacked, features[list(places)])

    def _decoded(self, records: Array, features: Index) -> Array:
        """Return the dosages (c, m) in records (c, bytes) with the same layout.

        `features` (c,) are the numbers of the variants, for error messages.
        """
        if self.file.header.layout == 1:
            return old_dosages(records)
        try:
            decoded = Records(records, self.n_samples)
            self._check_ploidy(decoded.ploidies, features)
            return decoded.dosages()
        except (DataError, InputError):  # the file is valid, but has calls that are refused
            raise
        except ValueError as error:
            if len(records) > 1:  # find the damaged one
                for record, feature in zip(records, features, strict=True):
                    self._decoded(record[None], feature[None])
            raise self.file.damaged(int(features[0]), str(error)) from error

    def _check_ploidy(self, ploidies: Array, features: Index) -> None:
        """Refuse polyploid calls, and, if the policy is "error", haploid ones."""
        if ploidies.max(initial=0) > DIPLOID:
            feature = features[np.argmax((ploidies > DIPLOID).any(axis=1))]
            raise InputError(
                f"Variant {feature:,} of {self.file.path} has calls with {ploidies.max()} alleles, "
                "but dhsic reads only calls with 1 or 2 alleles. Remove such variants from the "
                "file."
            )
        if self.policy == "error" and (ploidies == 1).any():
            feature = features[np.argmax((ploidies == 1).any(axis=1))]
            raise DataError(
                f"Variant {feature:,} of {self.file.path} has haploid calls. Pass "
                "ploidy_policy='scale', or remove haploid variants."
            )

    def _records(self, block: Block, local: Index) -> Iterator[bytes]:
        """Yield the decompressed probabilities of some variants of a block."""
        file, offsets = self.file, self.file.offsets[block.start : block.stop + 1]
        begin = int(offsets[0])
        with file.path.open("rb") as opened:
            opened.seek(begin)
            data = opened.read(int(offsets[-1]) - begin)
        for number in local.tolist():
            try:
                yield file.probabilities(data, int(offsets[number]) - begin)
            except ValueError as error:
                raise file.damaged(block.start + number, str(error)) from error


def open_bgen(path: str, options: OpenOptions) -> BgenSource:
    """Open the dosages of a BGEN file.

    Raises
    ------
    InputError
        The file does not exist, or an option does not apply to it.
    DataError
        The file, its index or its table of samples are damaged, or do not belong together.
    """
    if options.variable not in (None, "dosages"):
        raise InputError(
            f"{path} contains dosages, but no variable {options.variable!r}. Leave out variable=."
        )
    if options.ploidy_policy == "count":
        raise InputError(
            f"{path} has dosages from 0 to 2, even for haploid calls, so ploidy_policy='count' "
            "does not apply. Leave out ploidy_policy=."
        )
    source = BgenSource(BgenFile.at(path), options.ploidy_policy)
    _ = source.file.offsets, source.sample_names()  # refuses damaged files now
    options.check_dim(0, "samples", path)
    options.check_length(source.n_samples, path)
    return source
