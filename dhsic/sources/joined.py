"""Several sources with the same samples, joined along their features as one source.

If no part is stored in chunks (.bed files, for example), the blocks of features are the same as in
a single file with all features. Sums and rankings are then the same bit for bit. Otherwise no block
extends over two parts.
"""

from __future__ import annotations

import hashlib
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources import FINGERPRINT_CHUNKS, AbstractSource, Names
from dhsic.sources.arrays import PiecesSource
from dhsic.sources.blocks import Block, even_blocks
from dhsic.sources.columns import NAME, Column, bits_of
from dhsic.sources.imputed import join_masks
from dhsic.sources.sexes import DosagesOnX, Sexes
from dhsic.sources.variants import CONTIG, POSITION
from dhsic.sources.vcz import MISSING
from dhsic.sources.views import STORED, described, whole_of

#: Maximum size, in bytes, of integers that float32 always represents exactly.
SMALL_INTEGER = 2
#: Feature coordinate with the name of each feature's matrix, if a source joins several matrices.
BLOCK = "block"


@dataclass(frozen=True, eq=False)
class Part:
    """A source that is joined with others.

    `rows` (m,) are the positions of the joint samples in this part; None if its samples are the
    joint samples, in the same order. `data` is the object or path from which the part was opened;
    it may contain labels and covariates, and is not sent to workers. `has_families` is True if
    sample names are FID_IID in this part but IID in other parts.
    """

    source: AbstractSource
    name: str
    data: Any = None
    rows: Index | None = None
    has_families: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Part, (self.source, self.name, None, self.rows, self.has_families)

    @property
    def short(self) -> str:
        """Name of the file without its folder."""
        return Path(self.name).name

    def samples_of(self, values: Array) -> Array:
        """Select the joint samples (m, ...) from values (m', ...) of the samples of this part."""
        return values if self.rows is None else values[self.rows]

    def take(self, rows: Index | None) -> Index | None:
        """Convert positions among the joint samples to positions among the samples of this part."""
        if self.rows is None or rows is None:
            return self.rows if rows is None else rows
        return self.rows[rows]


class JoinedSource(AbstractSource):
    """Source of the features of all `parts`, in their order.

    Values have the common dtype of the parts, and one missing code. If parts of integers have
    different missing codes, values become floats with NaN, unless they are dosages.

    `renamed` are hashes (`bits_of`) of the feature names that several parts use for different
    variants; such a variant is named by its chromosome and position.

    `block_names` are the names of the parts if these are different matrices, such as expression and
    genotypes, rather than files of one matrix. Then features have the coordinate `BLOCK`, and a
    feature name that is repeated gets the name of its block as a prefix.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        renamed: Array | None = None,
        block_names: Sequence[str] = (),
    ) -> None:
        self.parts, first = tuple(parts), parts[0]
        self.block_names = tuple(block_names)
        sources = [part.source for part in self.parts]
        self._renamed = np.empty(0, dtype=np.uint64) if renamed is None else renamed
        self.starts = np.cumsum([0, *(source.n_features for source in sources)])
        self.n_features = int(self.starts[-1])
        self.n_samples = first.source.n_samples if first.rows is None else first.rows.size
        self.dtype, self.missing_code = _common_values(sources)
        self.client_bytes = sum(source.client_bytes for source in sources)
        self.chunk_bytes = max(source.chunk_bytes for source in sources)
        self.in_memory = all(source.in_memory for source in sources)
        self.dosages = all(source.dosages for source in sources)
        self.keeps_codes = all(source.keeps_codes for source in sources)
        ploidies = {source.ploidy for source in sources}
        self.ploidy = ploidies.pop() if len(ploidies) == 1 else None
        self.counted = _counted(sources)
        self.row_numbers = all(source.row_numbers for source in sources)
        listed = [name for source in sources for name in source.not_features]
        self.not_features = tuple(dict.fromkeys(listed))
        self.read_as = _first_of([source.read_as for source in sources])
        self.hint = _first_of([source.hint for source in sources])
        self.on_x = self._joint_on_x()
        self.names = self._joint_names()

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedSource, (self.parts, self._renamed, self.block_names)

    # Blocks and values ------------------------------------------------------------------------

    def blocks(self, width: int) -> tuple[Block, ...]:
        own = [part.source.blocks(width) for part in self.parts]
        pairs = zip(self.parts, own, strict=True)
        if all(_is_even(part.source, blocks, width) for part, blocks in pairs):
            return even_blocks(self.n_features, width)
        starts = zip(own, self.starts.tolist(), strict=False)
        ends = [(start + b.start, start + b.stop) for blocks, start in starts for b in blocks]
        return tuple(Block(i, start, stop) for i, (start, stop) in enumerate(ends))

    def within(self, block: Block) -> Iterator[tuple[Part, Block, int]]:
        """Yield the parts that contain features of a block.

        Each item is a part, the block within this part, and the part's first feature in this
        source.
        """
        first = int(np.searchsorted(self.starts, block.start, side="right")) - 1
        for part, start in zip(self.parts[first:], self.starts[first:].tolist(), strict=False):
            if start >= block.stop:
                return
            begin = max(block.start - start, 0)
            end = min(block.stop - start, part.source.n_features)
            yield part, Block(block.index, begin, end), start

    def read(self, block: Block, rows: Index | None = None) -> Array:
        return self.read_columns(block, np.arange(block.width), rows).T

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        pieces = [
            self._converted(part, part.source.read_columns(own, at, part.take(rows)))
            for part, own, at in self._located(block, local)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def imputed_features(self, block: Block, local: Index) -> Array | None:
        located = list(self._located(block, local))
        masks = [part.source.imputed_features(own, at) for part, own, at in located]
        return join_masks(masks, [at.size for _, _, at in located])

    def _located(self, block: Block, local: Index) -> Iterator[tuple[Part, Block, Index]]:
        """Yield the parts that contain the features `local` of a block.

        Each item is a part, the block within this part, and the positions of the features in it.
        """
        for part, own, start in self.within(block):
            before = start + own.start - block.start
            a, b = np.searchsorted(local, (before, before + own.width))
            if b > a or not local.size:
                yield part, own, local[a:b] - before
            if not local.size:
                return

    def _converted(self, part: Part, values: Array) -> Array:
        """Convert values of a part to the joint dtype and missing code."""
        code = part.source.missing_code
        is_same = values.dtype == self.dtype
        if is_same and (code is None or code == self.missing_code or self.dtype.kind == "f"):
            return values
        missing = None if code is None or values.dtype.kind == "f" else values == code
        out = values.astype(self.dtype)
        if missing is not None:
            out[missing] = np.nan if self.dtype.kind == "f" else self.missing_code
        return out

    def stored_width(self, block: Block) -> int:
        return sum(part.source.stored_width(own) for part, own, _ in self.within(block))

    def stored_samples(self, rows: Index) -> int:
        return max(
            part.source.stored_samples(rows if part.rows is None else part.rows[rows])
            for part in self.parts
        )

    def unchecked(self) -> AbstractSource:
        parts = [replace(part, source=part.source.unchecked()) for part in self.parts]
        is_same = all(a.source is b.source for a, b in zip(parts, self.parts, strict=True))
        return self if is_same else JoinedSource(parts, self._renamed, self.block_names)

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        """Return a digest of all parts. It reads `n_chunks` chunks, and at least two per part."""
        facts: tuple[Any, ...] = str(self.dtype), self.missing_code
        digest = hashlib.sha256(repr((*facts, *self.block_names)).encode())
        n_of_part = max(2, -(-n_chunks // len(self.parts)))
        for part in self.parts:
            digest.update(part.source.fingerprint(n_of_part).encode())
            digest.update(b"-" if part.rows is None else part.rows.tobytes())
        return digest.hexdigest()

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...] | None:
        if not all(_is_lazy(part.source) for part in self.parts):
            return None
        lazy = []
        for block in blocks:  # no block extends over two parts
            ((part, own, _),) = self.within(block)
            (array,) = part.source.pieces((own,)) or ()
            array = array if part.rows is None else array[part.rows]
            lazy.append(array.astype(self.dtype))
        return tuple(lazy)

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        if self.pieces(()) is None:
            return super().with_pieces(blocks, arrays)
        return PiecesSource(self, blocks, arrays)

    # Names ------------------------------------------------------------------------------------

    def _joint_names(self) -> Names:
        """Return names and coordinates of the joint features and samples, to be read on demand."""
        bases = [part.source.names for part in self.parts]
        are_columns = any(base.columns is not None for base in bases)
        named = [p for p in self.parts if p.source.names.samples is not None]
        first = next((part for part in named if not part.has_families), self.parts[0])
        return Names(
            self._feature_names,
            partial(_samples_of, first),
            self._coords,
            check=_names_are_checked,
            columns=self._columns if are_columns else None,
            sample_coords=self._sample_coords,
            levels=dict(ChainMap(*(dict(base.levels) for base in bases))),
            dim=bases[0].dim,
        )

    def _columns(self) -> dict[str, Column]:
        """Return the columns that all parts have; unnamed features are named by file and number."""
        each = [dict(described(part.source)) for part in self.parts]
        if any(NAME in columns for columns in each):
            for part, columns in zip(self.parts, each, strict=True):
                unnamed = Column(part.source.n_features, np.dtype(object), partial(_numbered, part))
                columns.setdefault(NAME, unnamed)
        joint = {
            name: self._column([columns[name] for columns in each]) for name in _shared_names(each)
        }
        if self.block_names:
            read = partial(_block_names, self.block_names, self.starts)
            joint[BLOCK] = Column(self.n_features, np.dtype(object), read)
        if self._renamed.size and self.block_names:
            read = partial(_by_block, joint[NAME], joint[BLOCK], self._renamed)
            joint[NAME] = Column(self.n_features, np.dtype(object), read)
        elif self._renamed.size and {NAME, CONTIG, POSITION} <= {*joint}:
            read = partial(_by_place, joint[NAME], joint[CONTIG], joint[POSITION], self._renamed)
            joint[NAME] = Column(self.n_features, np.dtype(object), read)
        return joint

    def _column(self, columns: list[Column]) -> Column:
        dtypes = {np.dtype(column.dtype) for column in columns}
        are_numbers = all(dtype.kind in "biuf" for dtype in dtypes)
        dtype = np.result_type(*dtypes) if are_numbers else np.dtype(object)
        read = partial(_read_joined, columns, self.starts, dtype)
        return Column(self.n_features, dtype, read)

    def _feature_names(self) -> Array | None:
        if self._renamed.size:
            return self._columns()[NAME].read(slice(0, self.n_features))
        each = [part.source.feature_names() for part in self.parts]
        if all(names is None for names in each):
            return None
        return np.concatenate([
            _numbered(part, slice(0, part.source.n_features)) if names is None else names
            for part, names in zip(self.parts, each, strict=True)
        ])  # fmt: skip

    def _coords(self) -> dict[str, Array]:
        each = [part.source.feature_coords() for part in self.parts]
        joint = {
            name: np.concatenate([coords[name] for coords in each]) for name in _shared_names(each)
        }
        if self.block_names:
            joint[BLOCK] = _block_names(self.block_names, self.starts, slice(None))
        return joint

    def _sample_coords(self) -> dict[str, Array]:
        out: dict[str, Array] = {}
        for part in self.parts:
            for name, values in part.source.sample_coords().items():
                out.setdefault(name, part.samples_of(values))
        return out

    # Sexes ------------------------------------------------------------------------------------

    def _joint_on_x(self) -> DosagesOnX | None:
        each = [(part, part.source.on_x) for part in self.parts]
        known = [(part, on_x) for part, on_x in each if on_x is not None]
        if not known:
            return None
        is_placed = all(on_x.is_placed for _, on_x in known)
        return DosagesOnX(partial(_on_x, self.parts), partial(_sex, known), is_placed)

    def sexes(self) -> Sexes | None:
        if self.on_x is not None:
            return self.on_x.sexes_of(self)
        for part in self.parts:
            sexes = part.source.sexes()
            if sexes is not None and sexes.are_known:
                males, females = part.samples_of(sexes.males), part.samples_of(sexes.females)
                return replace(sexes, males=males, females=females)
        return None

    def sex_linked_features(self) -> Index:
        return self._positions(lambda source: source.sex_linked_features())

    def haploid_features(self) -> Index:
        if not self.sex_linked_features().size:
            return np.empty(0, dtype=np.int64)
        own = self._positions(
            lambda source: (
                source.haploid_features() if source.on_x is None else np.empty(0, dtype=np.int64)
            )
        )
        return np.union1d(own, super().haploid_features())

    def _positions(self, of: Callable[[AbstractSource], Index]) -> Index:
        """Call `of` for each part, and convert the features to positions in this source."""
        pairs = zip(self.parts, self.starts.tolist(), strict=False)
        found = [start + of(part.source) for part, start in pairs]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])

    def allele_counts(
        self, block: Block, local: Index, rows: Index | None = None
    ) -> tuple[Array, Array]:
        counts = [
            part.source.allele_counts(own, at, part.take(rows))
            if part.source.on_x is None or self.on_x is None
            else self.on_x.allele_counts(self, *self._joint(block, own, at, part), rows)
            for part, own, at in self._located(block, local)
        ]
        alternative, every = zip(*counts, strict=True)
        return np.concatenate(alternative), np.concatenate(every)

    def diploid_genotypes(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        counts = [
            part.source.diploid_genotypes(own, at, part.take(rows))
            if part.source.on_x is None or self.on_x is None
            else self.on_x.genotypes_of_females(self, *self._joint(block, own, at, part), rows)
            for part, own, at in self._located(block, local)
        ]
        return np.concatenate(counts)

    def _joint(self, block: Block, own: Block, at: Index, part: Part) -> tuple[Block, Index]:
        """Convert a block of a part to a block of this source.

        The positions `at` of features in the block do not change.
        """
        start = int(self.starts[self.parts.index(part)])
        return Block(block.index, start + own.start, start + own.stop), at


def parts_of(source: AbstractSource) -> tuple[Part, ...]:
    """Return the parts of a joined source, or of a view of one; () for other sources."""
    whole = whole_of(source)
    return whole.parts if isinstance(whole, JoinedSource) else ()


def _shared_names(each: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of feature coordinates of all parts, without the internal `STORED`."""
    return [n for n in each[0] if n != STORED and all(n in coords for coords in each)]


def _is_even(source: AbstractSource, blocks: tuple[Block, ...], width: int) -> bool:
    """Whether any range of features of a source can be read, because it is not stored in chunks."""
    has_chunks = source.chunk_bytes > 0 or _is_lazy(source)
    return not has_chunks and blocks == even_blocks(source.n_features, width)


def _is_lazy(source: AbstractSource) -> bool:
    """Whether a source is a Dask graph, whose blocks a cluster computes."""
    return source.pieces(()) is not None


def _common_values(sources: Sequence[AbstractSource]) -> tuple[np.dtype[Any], int | None]:
    """Return the common dtype and missing code of several sources."""
    dtype = np.result_type(*(source.dtype for source in sources))
    integers = [source for source in sources if np.dtype(source.dtype).kind != "f"]
    codes = {source.missing_code for source in integers}
    if dtype.kind == "f" or len(codes) == 1:
        return dtype, None if dtype.kind == "f" else codes.pop()
    if all(source.dosages for source in sources):
        return np.result_type(dtype, np.int8), MISSING
    return np.dtype(np.float32 if dtype.itemsize <= SMALL_INTEGER else np.float64), None


def _counted(sources: Sequence[AbstractSource]) -> str:
    """Return a text on the alleles that dosages count; if files differ, it has numbers of files."""
    texts = [source.counted for source in sources]
    distinct = [text for text in dict.fromkeys(texts) if text]
    if len(distinct) < 2 and "" not in texts:
        return distinct[0]
    return "; ".join(
        f"{text} in {texts.count(text):,} of {len(texts):,} files" for text in distinct
    )


def _first_of(sentences: Sequence[str]) -> str:
    """Return the first sentence, with the number of other sentences; "" if there are none."""
    present = [sentence for sentence in dict.fromkeys(sentences) if sentence]
    if len(present) < 2:
        return "".join(present)
    return f"{present[0]} ({len(present) - 1:,} other files have similar remarks.)"


def _samples_of(part: Part) -> Array | None:
    names = part.source.sample_names()
    return None if names is None else part.samples_of(names)


def _names_are_checked() -> None:
    """Do nothing, because all feature names were read when the parts were joined."""


def _numbered(part: Part, rows: slice) -> Array:
    """Return names of unnamed features `rows`: file name and position, such as chr1:0."""
    stem = Path(part.name).stem
    return np.array([f"{stem}:{i}" for i in range(rows.start, rows.stop)], dtype=object)


def _read_joined(columns: list[Column], starts: Index, dtype: Any, rows: slice) -> Array:
    """Read some rows of concatenated columns; `starts` are the first rows of the columns."""
    begin, end, _ = rows.indices(int(starts[-1]))
    parts = [np.empty(0, dtype=dtype)]
    for column, start in zip(columns, starts.tolist(), strict=False):
        a, b = max(begin - start, 0), min(end - start, column.n)
        if b > a:
            parts.append(np.asarray(column.read(slice(a, b))).astype(dtype, copy=False))
    return np.concatenate(parts)


def _by_place(
    names: Column, contigs: Column, positions: Column, renamed: Array, rows: slice
) -> Array:
    """Read names of features; names with hashes in `renamed` are replaced by contig:position."""
    values = names.read(rows)
    places = zip(contigs.read(rows), positions.read(rows), strict=True)
    by_place = np.array([f"{contig}:{position}" for contig, position in places], dtype=object)
    return np.where(np.isin(bits_of(values), renamed), by_place, values)


def _block_names(names: Sequence[str], starts: Index, rows: slice) -> Array:
    """Return the name of the block of each feature in `rows`; the blocks begin at `starts`."""
    at = np.arange(*rows.indices(int(starts[-1])))
    return np.array(names, dtype=object)[np.searchsorted(starts, at, side="right") - 1]


def _by_block(names: Column, blocks: Column, renamed: Array, rows: slice) -> Array:
    """Read names of features; names with hashes in `renamed` get the prefix of their block."""
    values = names.read(rows)
    pairs = zip(blocks.read(rows), values, strict=True)
    by_block = np.array([f"{block}:{name}" for block, name in pairs], dtype=object)
    return np.where(np.isin(bits_of(values), renamed), by_block, values)


def _on_x(parts: Sequence[Part]) -> Index:
    """Return the features on X with dosages, as ascending positions in the joined source."""
    found, start = [np.empty(0, dtype=np.int64)], 0
    for part in parts:
        if part.source.on_x is not None:
            found.append(start + part.source.on_x.positions)
        start += part.source.n_features
    return np.concatenate(found)


def _sex(known: Sequence[tuple[Part, DosagesOnX]]) -> Array | None:
    """Return SEX codes (m,) of the joint samples, from the first file in which any sex is known.

    Raises
    ------
    InputError
        Two files have different sexes for the same sample.
    """
    first, part_of_first, unknown = None, "", None
    for part, on_x in known:
        sex = on_x.sex()
        if sex is None:
            continue
        codes = part.samples_of(np.asarray(sex))
        sexes = Sexes.of_codes(codes, len(codes))
        if not sexes.are_known:
            unknown = codes if unknown is None else unknown
        elif first is None:
            first, part_of_first = codes, part.name
        else:
            _refuse_other_sexes(Sexes.of_codes(first, len(first)), sexes, part_of_first, part.name)
    return unknown if first is None else first


def _refuse_other_sexes(ours: Sexes, theirs: Sexes, name: str, other: str) -> None:
    """Refuse two files in which a sample has different known sexes."""
    n = int(((ours.males & theirs.females) | (ours.females & theirs.males)).sum())
    if n:
        raise InputError(
            f"{n:,} of {len(ours.males):,} samples have different sexes in {other} and {name} (SEX "
            "of .fam, .psam or .sample). Genotypes on X depend on the sex: correct SEX in one of "
            "the files, or write 0 (unknown) in it."
        )
