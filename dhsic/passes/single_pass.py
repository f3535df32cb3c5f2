"""Single pass over a source that scores each feature by itself, or determines the kind of values.

A task reads a block, measures its scaling and applies the criterion while the values are in memory,
so the data are read once. The result is a few numbers per feature. Before any other pass, `look_at`
examines values, to find out whether they are dosages with codes for missing values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.criteria.base import AbstractCriterion
from dhsic.criteria.blocks import BlockState
from dhsic.criteria.categories import scores_of_category
from dhsic.criteria.discrete import sums_over_codes
from dhsic.criteria.features import Features, Levels
from dhsic.criteria.independence import LOG_10
from dhsic.criteria.multiscale import Multiscale
from dhsic.criteria.rare import missing_as_commonest
from dhsic.criteria.weighted import WeightedSamples
from dhsic.errors import InputError, prefix_errors, warn
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.linalg.directions import PANEL, Directions
from dhsic.linalg.residual_covariance import variance_ratios
from dhsic.passes import CODE_ENTRIES, AbstractPass, AbstractShared, Cost, Tile, tile_height
from dhsic.passes.jobs import merged
from dhsic.passes.reader import Reader, Reporter
from dhsic.runtime.base import AbstractRuntime, Job, Jobs
from dhsic.sources import AbstractSource
from dhsic.sources.categories import codes_at
from dhsic.sources.feature_blocks import FeatureBlocks
from dhsic.sources.scaling import (
    MISSING,
    Codes,
    Scale,
    Scaling,
    code_values,
    count_levels,
    missing_mask,
    scaling_of,
)
from dhsic.sources.values import KEEPING, BlockKinds, Census, ValueKind, recoded
from dhsic.sources.views import checksums

#: Maximum number of values in the data for which a plan examines all of them.
LOOKED_AT = 1 << 30
#: Number of jobs examined first. If their values are not dosages, no other jobs are examined.
FEW_JOBS = 3
#: Minimum number of jobs after jobs are merged in pairs. Tasks then process two blocks per call:
#: fewer calls are faster, because threads wait for each other between calls.
MANY_JOBS = 128
#: Number of float64 arrays of the size of a tile: values, deviations, their squares, and masks.
TILES = 6

#: Directions of each run, grouped by distinct rows (see `Directions.alike`).
Alike = Sequence[tuple[Array, Float] | None]


@dataclass(frozen=True, slots=True)
class Judge(AbstractShared):
    """Pass that measures the scaling of features, and scores each feature by a criterion.

    The criterion computes k numbers per feature, (k, c). `prepared` is the state of the criterion,
    computed from the labels. Without a criterion only the scaling is measured.
    """

    standardize: Scale
    criterion: AbstractCriterion | None = None
    prepared: object = None

    @property
    def shares(self) -> Hashable:
        return self.standardize, self._takes_codes, self.leaves_missing_out, self.goes_by_ranks

    @property
    def leaves_missing_out(self) -> bool:
        """Whether the criterion excludes missing values instead of imputing the mean."""
        return self.criterion is not None and self.criterion.leaves_missing_out

    @property
    def goes_by_ranks(self) -> bool:
        """Whether the criterion uses only the ranks of the values."""
        return self.criterion is not None and self.criterion.goes_by_ranks

    @classmethod
    def together(
        cls, passes: Sequence[Judge], blocks: Iterable[Tile], m: int
    ) -> list[tuple[Scaling, Float]]:
        scalings: list[Scaling] = []
        columns: list[list[Float]] = [[] for _ in passes]
        directions = Directions.of([each._directions(m) for each in passes])
        places = directions.places if directions.panels else ()
        alike = [directions.alike(place) for place in places]
        for tile in _split_blocks(blocks, m, coded=passes[0]._takes_codes):
            scaling, features, alive = _features(tile, directions, alike, passes[0])
            scalings.append(scaling)
            for each, place, run_columns in zip(passes, directions.places, columns, strict=True):
                own = each._with_variance_ratios(features, tile, alive)
                run_columns.append(each._columns(own, place, alive, len(tile.raw)))
        scaling = Scaling.join(scalings)
        return [(scaling, np.concatenate(run_parts, axis=1)) for run_parts in columns]

    def cost(self, m: int) -> Cost:
        c = float64_height(m)
        of_criterion = 0 if self.criterion is None else self.criterion.tile_bytes(c, m)
        code_bytes = 2 * CODE_ENTRIES if self._takes_codes else 0
        return Cost(values=m, tile=8 * TILES * c * m + of_criterion + code_bytes)

    @property
    def _takes_codes(self) -> bool:
        return self.criterion is not None and self.criterion.takes_codes

    def _directions(self, m: int) -> Float:
        """Matrix (m, k) that the criterion multiplies features by; k may be 0."""
        if self.criterion is None:
            return np.empty((m, 0))
        return self.criterion.directions(self.prepared)

    def _with_variance_ratios(self, features: Features, tile: Tile, alive: Index) -> Features:
        """Add variance ratios to features, for labels with samples that are not exchangeable."""
        if self.criterion is None or not (covs := self.criterion.covariances(self.prepared)):
            return features
        if features.coded is None:
            ratios = variance_ratios(covs, features.X, features.missing)
            return replace(features, variance_ratios=ratios)
        height, parts = float64_height(tile.raw.shape[1]), []
        for start in range(0, alive.size, height):  # codes are a byte each, values eight
            rows = slice(start, start + height)
            X, missing = _values_of_codes(tile.raw[alive[rows]], tile.missing_code)
            parts.append(variance_ratios(covs, X, missing))
        return replace(features, variance_ratios=np.concatenate(parts) if parts else None)

    def _columns(self, features: Features, place: slice, alive: Index, c: int) -> Float:
        """Results of the criterion for a tile of c features, (k, c).

        `alive` are the positions of the usable features: they vary and do not overflow. Results of
        the other features are NaN. `place` are the columns of the products with directions.
        """
        if self.criterion is None:
            return np.empty((0, c))
        columns = self.criterion.columns(self.prepared, features, place)
        if alive.size == c:
            return columns
        out = np.full((len(columns), c), np.nan)
        out[:, alive] = columns
        return out


def _values_of_codes(raw: Array, missing_code: int | None) -> tuple[Float, Array | None]:
    """Centred values (c, m) of genotype codes, 0 if missing; and the mask of missing values."""
    missing = missing_mask(raw, missing_code)
    X = raw.astype(np.float64)
    if missing is None:
        return X - X.mean(axis=1, keepdims=True), None
    X[missing] = 0.0
    X -= X.sum(axis=1, keepdims=True) / (~missing).sum(axis=1, keepdims=True)
    X[missing] = 0.0
    return X, missing


def _split_blocks(blocks: Iterable[Tile], m: int, *, coded: bool) -> Iterator[Tile]:
    """Split blocks into tiles; tiles of genotype codes are larger if the criterion uses codes.

    Codes of two blocks are processed together, to limit the number of calls (see `CODE_ENTRIES`).
    """
    height, waiting, n = max(1, 2 * CODE_ENTRIES // m), list[Tile](), 0
    for block in blocks:
        is_coded = coded and block.codes is not None
        if waiting and (not is_coded or n + len(block.raw) > height):
            yield from Tile.concatenate(waiting).split(height)
            waiting, n = [], 0
        if is_coded:
            waiting.append(block)
            n += len(block.raw)
        else:
            yield from block.split(float64_height(m))
    if waiting:
        yield from Tile.concatenate(waiting).split(height)


def _features(
    tile: Tile, directions: Directions, alike: Alike, judge: Judge
) -> tuple[Scaling, Features, Index]:
    """Measure a tile, and compute the products of its features with the directions.

    Returns the scaling of the tile, its varying features with their products, and their positions.
    """
    codes = tile.codes if judge._takes_codes else None
    if codes is not None and directions.panels:
        return _coded(codes, directions, alike, judge)
    scaling, X = tile.measured(standardize=judge.standardize)
    mask = missing_mask(tile.raw, tile.missing_code) if judge.leaves_missing_out else None
    if judge.goes_by_ranks:
        X = tile.in_order(X, mask, scaling)
    alive: Index = np.flatnonzero(scaling.std > 0)
    X = X if alive.size == len(X) else X[alive]
    mask = None if mask is None else mask[alive]
    missing = mask if mask is not None and mask.any() else None
    n_levels = scaling.n_levels[alive]
    if judge.goes_by_ranks and tile.imputed is not None:
        own = np.flatnonzero(tile.imputed[alive])  # rounded, to fewer values
        of_own = None if missing is None else missing[own]
        n_levels[own] = count_levels(X[own], of_own, np.zeros(own.size))
    return scaling, Features(X, n_levels, directions, missing=missing), alive


def _sums_over_levels(codes: Codes, directions: Directions, alike: Alike) -> tuple[Float, Float]:
    """Sum directions over the samples with each genotype code.

    Returns the sums, (4, c, k), and the counts of codes, (4, c). If directions have few distinct
    rows, as for classes, the rows of each kind are counted instead. This is exact in float32.
    """
    c, m = codes.raw.shape
    sums, at = np.zeros((4, c, PANEL * len(directions.panels))), 0
    of_few = [few[0] for few in alike if few is not None]
    counted = codes.sums(np.concatenate(of_few, axis=1)) if of_few else np.empty(0)
    for place, few in zip(directions.places, alike, strict=True):
        if few is None:
            n = place.stop - place.start  # the next column is 1, and sums to the counts
            Y = np.zeros((m, PANEL * (n // PANEL + 1)))
            Y[:, :n], Y[:, -1] = directions.of_run(place), 1.0
            own = sums_over_codes(codes.raw, MISSING if codes.has_missing else None, Y)
            sums[..., place], counts = own[..., :n], own[..., -1]
        else:
            own = np.ascontiguousarray(counted[..., at : at + len(few[1])])
            sums[..., place], counts = own @ few[1], own.sum(axis=-1)
            at += len(few[1])
    return sums, counts


def _coded(
    codes: Codes, directions: Directions, alike: Alike, judge: Judge
) -> tuple[Scaling, Features, Index]:
    """Measure a tile of genotype codes; return its scaling, varying features and their positions.

    The results equal those of `_features`; they are computed from sums over the samples of each
    code.
    """
    sums, counts = _sums_over_levels(codes, directions, alike)
    counts, stride = np.rint(counts), -(-codes.raw.shape[1] // MEDIAN_SAMPLES)
    scaling = scaling_of(counts, standardize=judge.standardize)
    scaling = replace(scaling, checksum=checksums(codes.raw))
    alive: Index = np.flatnonzero(scaling.std > 0)
    sampled = counts
    if stride > 1 and not judge.goes_by_ranks:
        sampled = codes.take_samples(slice(None, None, stride)).counts()
    missing = None
    if codes.has_missing:
        missing = sums[3, alive].copy(), counts[3, alive].copy()
        missing_as_commonest(counts, sums, *(() if sampled is counts else (sampled,)))
    values = np.repeat(np.arange(3.0)[:, None], alive.size, axis=1)
    if not judge.goes_by_ranks:
        values = np.where(counts > 0, code_values(scaling), 0.0)[:3, alive]
    levels = Levels(
        np.arange(alive.size),
        values,
        counts[:3, alive].T,
        sums[:3, alive].transpose(1, 0, 2),
        sampled[:3, alive].T,
        sums[3, alive] if codes.has_missing else None,
    )
    none = np.empty((alive.size, 0))
    n_levels = scaling.n_levels[alive]
    return scaling, Features(none, n_levels, directions, levels, coded_missing=missing), alive


def by_ploidy(source: AbstractSource, features: Index, judge: Judge) -> list[tuple[Index, Judge]]:
    """Split features (n,) into diploid features, and features with haploid and diploid calls.

    Each of the two groups has its own pass: the second group is tested by dosage only
    (`Multiscale.additive`). There is one group if all features are of one kind, or if the criterion
    does not test dominance.
    """
    state = judge.prepared
    if not isinstance(state, Multiscale | BlockState | WeightedSamples):
        return [(features, judge)]
    is_mixed = np.isin(features, source.haploid_features())
    mixed = replace(judge, prepared=state.additive)
    parts = [(features[~is_mixed], judge), (features[is_mixed], mixed)]
    return [(subset, by) for subset, by in parts if subset.size]


@dataclass(frozen=True, slots=True)
class Judged:
    """Results of a single pass for d features.

    `columns` (k, d) are the numbers computed by `AbstractCriterion.columns`, NaN for constant
    features.
    """

    scaling: Scaling
    columns: Float
    bytes_read: int

    @staticmethod
    def of(parts: Sequence[tuple[Index, Judged]]) -> Judged:
        """Merge the results for subsets of the features, in the order of the features."""
        order = np.argsort(np.concatenate([features for features, _ in parts]))
        parts_in_order = [judged for _, judged in parts]
        return Judged(
            Scaling.join([each.scaling for each in parts_in_order]).take(order),
            np.concatenate([each.columns for each in parts_in_order], axis=1)[:, order],
            sum(each.bytes_read for each in parts_in_order),
        )


def read_once(
    source: AbstractSource,
    runtime: AbstractRuntime,
    judge: Judge,
    reporter: Reporter,
    *,
    rows: Index | None = None,
    features: Index | None = None,
) -> Judged:
    """Run a pass over the given features and samples (None: all), and report progress."""
    every = np.arange(source.n_features, dtype=np.int64) if features is None else features
    parts = [
        (subset, _read(source, runtime, each, reporter, rows, subset))
        for subset, each in by_ploidy(source, every, judge)
    ]
    judged = parts[0][1] if len(parts) == 1 else Judged.of(parts)
    _set_categories(judged, judge, source, rows, every)
    return judged


def _set_categories(
    judged: Judged, judge: Judge, source: AbstractSource, rows: Index | None, features: Index
) -> None:
    """Replace the results of categorical features by results for unordered levels, in place.

    The pass reads the category codes as numbers. With two levels this gives the same p-value. The
    width and the shape of an effect are not defined for categories, so they become NaN and 0.
    """
    for place, feature in enumerate(features.tolist()):
        if feature not in source.levels or judge.criterion is None:
            continue
        if not isinstance(judge.prepared, Multiscale):
            raise InputError(
                "Categories cannot be tested with these labels, which have more than 64 classes or "
                "are a kernel matrix. Exclude the columns with categories (not_features=), or pass "
                "labels with fewer classes."
            )
        if judged.scaling.constant[place]:
            continue
        judged.columns[2:4, place] = np.nan, 0.0
        if len(source.levels[feature]) > 2:
            scores = scores_of_category(judge.prepared, codes_at(source, feature, rows))
            judged.columns[:2, place] = -scores.log_p[0] / LOG_10, scores.hsic[0]


def _read(
    source: AbstractSource,
    runtime: AbstractRuntime,
    judge: Judge,
    reporter: Reporter,
    rows: Index | None,
    features: Index,
) -> Judged:
    """Run a pass over features for which the criterion prepares the same state from the labels."""
    reader = Reader(source, runtime, rows)
    jobs = reader.jobs(features)
    jobs = merged(jobs, max(MANY_JOBS, -(-len(jobs) // 2)))
    scalings, columns = [], []
    for scaling, values in reader.map_blocks(judge, jobs):
        scalings.append(scaling)
        columns.append(values)
        reporter.scored(values.shape[1])
    return Judged(Scaling.join(scalings), np.concatenate(columns, axis=1), reader.bytes_read)


def float64_height(m: int) -> int:
    """Number of features per float64 tile.

    It is chosen such that the tile takes as much memory as a float32 tile.
    """
    return tile_height(2 * m)


def look_at(
    source: AbstractSource,
    runtime: AbstractRuntime,
    rows: Index | None,
    features: Index | None = None,
    *,
    whole: bool = True,  # whether all blocks may be read
    as_they_are: bool = False,  # whether no number is a code for missing values
    loading: Reader | None = None,  # loads all features into memory if all are read
) -> ValueKind:
    """Determine the kind of the values of a source.

    The values of a few blocks are read, for the samples `rows` and the `features` (default: all).
    If these values look like dosages, all blocks are read, unless the format declares the kind. If
    several matrices are joined, each has its own kind. Raises the errors of `ValueKind.judged`.
    """
    declared = ValueKind.declared(source)
    if declared is not None:
        return declared
    blocks = FeatureBlocks.of(source)
    if blocks is not None:
        look = partial(look_at, whole=whole, as_they_are=as_they_are)
        kinds = []
        for number, (name, part) in enumerate(zip(blocks.names, blocks.parts, strict=True)):
            with prefix_errors(name):
                own, of_part = blocks.features_of(source, number, features), part.take(rows)
                kinds.append(look(part.source, runtime, of_part, own))
        return BlockKinds.of(blocks.names, kinds)
    reader, census = loading or Reader(source, runtime, rows), TakeCensus(rows)
    every = np.arange(source.n_features, dtype=np.int64) if features is None else features
    tally, remaining = look_at_few(reader, census, reader.jobs(every, tags=every))
    if whole and not tally.is_ordinary:
        if loading is not None and loading.load_here():
            tally, remaining = Census(), reader.jobs(every, tags=every)
        tally = sum(reader.map_blocks(census, remaining), tally)
    return ValueKind.judged(source, tally, as_they_are=as_they_are)


def looked_at(
    source: AbstractSource,
    runtime: AbstractRuntime,
    rows: Index | None,
    features: Index | None = None,
) -> tuple[Reader, ValueKind]:
    """Determine the kind of the values by `look_at`.

    Returns a reader of the source, and the kind. Warns if codes are treated as missing values.
    """
    values = look_at(source, runtime, rows, features)
    if values.codes:
        warn(f"X holds {values}. {KEEPING}")
    return Reader(recoded(source, values), runtime, rows), values


def look_at_few(reader: Reader, census: TakeCensus, jobs: Jobs) -> tuple[Census, list[Job]]:
    """Take a census of the values of a few jobs; return it, and the other jobs."""
    first_jobs = sorted({*np.linspace(0, len(jobs) - 1, FEW_JOBS).astype(int).tolist()})
    tally = sum(reader.map_blocks(census, [jobs[i] for i in first_jobs]), Census())
    return tally, [job for i, job in enumerate(jobs) if i not in first_jobs]


@dataclass(frozen=True, slots=True)
class TakeCensus(AbstractPass):
    """Pass that computes a `Census`, a summary that distinguishes dosages from other values.

    Tags are feature numbers; `rows` are the sample indices of the run (None: all samples).
    """

    rows: Index | None

    def over(self, blocks: Iterator[Tile], m: int) -> Census:
        censuses = (Census.of(b.raw, b.missing_code, b.tags, self.rows) for b in blocks)
        return sum(censuses, Census())
