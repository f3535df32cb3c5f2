"""Rankings in one pass by the relatives of HSIC, for users.

Rankings by a criterion on each feature alone (JMLR section 6), in one pass, from end to end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.algorithms.state import SelectionState, begin
from dhsic.criteria.base import TIE, AbstractCriterion, CriterionScores, worst_first
from dhsic.criteria.sums import ENTRIES, MOST_NODES, ROWS, resolve_width
from dhsic.criteria.table import criterion_of
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.memory import Promise, resident_bytes
from dhsic.passes.once import Judge, Judged, read_once, tile_height
from dhsic.passes.reader import block_bytes
from dhsic.progress import Progress
from dhsic.results import Order
from dhsic.selectors.base import Selector
from dhsic.selectors.parameters import OF_CRITERIA
from dhsic.selectors.run import AbstractRun, Kept
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind

#: Parameters that belong to some criteria only, and what they are unless given.
DEFAULTS: Mapping[str, Any] = {
    "bandwidth": "dimension",
    "label_kernel": "auto",
    "penalty": 1.0,
    "centroid_weight": 0.5,
    "proportion": 0.01,
}
#: float64 arrays per feature: the scaling twice, columns, scores, order and what sorting takes.
VECTORS = 39
#: float64 arrays of a tile: values, deviations, their squares, and masks.
TILES = 6
#: Directions that factors of labels have, and copies of them.
DIRECTIONS, COPIES = 40, 4
#: float64 values per pair of labels while the median of their distances is taken.
PAIRS = 3


@dataclass(frozen=True)
class Once(AbstractRun):
    """A run of one pass."""

    parameters: OnePass

    def check_samples(self, m: int) -> None: ...

    @property
    def smaller(self) -> str:
        return "use fewer samples"

    def fitted(self, m: int) -> tuple[Promise, int | None]:
        """By sizes: blocks and tiles of the tasks in flight, and vectors of all features."""
        d = self.source.n_features
        block = 5 * block_bytes(self.source, m)
        tile = TILES * 8 * tile_height(m) * m
        has_kernel = self.parameters.resolved().has_bandwidth
        kernel = 8 * 4 * (MOST_NODES * ROWS + ENTRIES) if has_kernel else 0
        pairs = PAIRS * min(m, MEDIAN_SAMPLES) ** 2
        needed = Promise(
            process=resident_bytes(),
            squares=0,
            tasks=self.runtime.n_here * (block + tile + kernel),
            survivors=0,
            vectors=VECTORS * 8 * d,
            landmarks=8 * (COPIES * DIRECTIONS * m + pairs) if has_kernel else 0,
        )
        return needed, None

    def labels(self) -> LabelMatrix:
        """As the criterion reads them."""
        assert self.y is not None, "a criterion compares features with labels"
        criterion = self.parameters.resolved()
        if self.covariates is not None:
            raise InputError(
                f"{criterion.name!r} takes no covariates; leave them out, take what they explain "
                "out of the features before, or use BAHSIC or LinearHSIC."
            )
        return criterion.read(self.y)

    def select(self, labels: LabelMatrix | None, budget: int | None) -> tuple[Order, Scaling]:
        assert labels is not None, "y was given"
        with self.kept() as (kept, previous):
            return self._rank(labels, kept, previous)

    def _rank(
        self, labels: LabelMatrix, kept: Kept, previous: SelectionState | None
    ) -> tuple[Order, Scaling]:
        started = time.perf_counter()
        criterion = self.parameters.resolved()
        done = previous if previous is not None and previous.round else None
        prepared = criterion.prepare(labels)
        progress = Progress(self.progress, self.source.n_features)
        try:
            # Of a run that is done, all but what is no part of its state: cheap, as it happens.
            again = done is None or criterion.signed
            # Without a criterion they are read for their scaling alone.
            judge = Judge(self.standardizes, criterion if again else None, prepared)
            found = read_once(self.source, self.runtime, judge, progress, rows=self.rows)
            self.check_found(kept, found.scaling, has_bandwidth=criterion.has_bandwidth)
            alive = np.flatnonzero(~found.scaling.constant)
            scores = criterion.finish(prepared, found.columns[:, alive]) if again else None
            if done is None:
                assert scores is not None, "they are computed unless the run is done"
                first, order = begin(alive), worst_first(scores.order_by)
                scaled = self.standardizes
                record = _record(criterion, scores, found, started, standardized=scaled)
                done = first.after(alive[order], scores.score[order], record)
                if previous is None:
                    kept.start(first, found.scaling.checksum)
                kept.save(done)
                kept.finish()
            progress.round_done(done)
        finally:
            progress.close()
        extra = _signed(criterion, scores, alive, self.source.n_features)
        placed = (done.eliminated, done.scores, done.removed_in, done.history)
        meaning = criterion.meaning
        return Order(*placed, placed="scored", meaning=meaning, extra=extra), found.scaling


def _plain(criterion: AbstractCriterion) -> dict[str, Any]:
    """Parameters of a criterion as plain values."""
    given = criterion.parameters()
    if criterion.has_bandwidth:
        given["bandwidth"] = repr(resolve_width(given["bandwidth"]))
    return given


def _signed(
    criterion: AbstractCriterion, scores: CriterionScores | None, alive: Index, d: int
) -> dict[str, tuple[Array, str]]:
    """The statistic as a column for the result, NaN where a feature does not vary."""
    if scores is None or scores.statistic is None:
        return {}
    statistic = np.full(d, np.nan)
    statistic[alive] = scores.statistic
    return {"statistic": (statistic, criterion.signed)}


def _record(
    criterion: AbstractCriterion,
    scores: CriterionScores,
    found: Judged,
    started: float,
    *,
    standardized: bool,
) -> dict[str, Any]:
    """For the history of rounds, of which there is one.

    Raises
    ------
    InputError
        Scores that are no numbers, or tell nothing apart.
    """
    lost = int(np.isnan(scores.score).sum())
    if lost:
        raise InputError(
            f"{lost} of {scores.score.size} scores by {criterion.name!r} are no numbers: values "
            "are too large or too small for it. Rescale them, or pass standardize=True."
        )
    flat = np.ptp(scores.score) <= TIE * np.abs(scores.score).max(initial=0.0)
    if criterion.has_bandwidth and not standardized and scores.score.size > 1 and flat:
        raise InputError(
            f"All {scores.score.size} scores by {criterion.name!r} are the same: at this bandwidth "
            "no two samples are alike to the kernel, or all are. Pass bandwidth='median', or "
            "standardize=True."
        )
    return {
        "n_features": scores.score.size,
        "n_removed": scores.score.size,
        "seconds": time.perf_counter() - started,
        "bytes_read": found.bytes_read,
        "engine": criterion.name,
        **scores.facts,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class OnePass(Selector):
    r"""Ranking by a criterion of one feature at a time: the relatives of HSIC (JMLR section 6).

    One read of the data at any width. Features that say something only together are not seen;
    take it for a first look, to compare with, or where one of these is what a field reports.

    Parameters
    ----------
    n_features_to_select : int, float or None
        As of `BAHSIC`.
    criterion : str
        ``"pearson"`` (eq. 21), ``"centroid"``, ``"t"`` (eq. 24), ``"snr"``, ``"moderated-t"`` and
        ``"b"`` (Smyth 2004; eq. 25), ``"shrunken-centroid"`` (eq. 28), ``"mmd"`` (eq. 26),
        ``"kta"`` (6.4), ``"qmi"`` (eq. 30), ``"ridge"`` (eq. 29); see `dhsic.criteria`.
    standardize : "auto" or bool
        To unit deviation; ``"auto"`` does, but for the moderated t and B statistics, whose prior
        compares the variances of features.
    bandwidth : "dimension", "median" or float
        Sigma of the kernel on one feature (mmd, kta, qmi): 1/2, the median rule for each, or a
        number.
    label_kernel : str
        Of kta; as of `BAHSIC`.
    penalty : float
        Lambda of ridge.
    centroid_weight : float
        Lambda of centroid, the weight of the positive class.
    proportion : float
        Part of the features that are supposed to differ (b).
    missing, stability, checkpoint, progress, random_state, runtime, memory
        As of `BAHSIC`.

    Attributes
    ----------
    scores_ : (d,) float
        The criterion: larger is more relevant. Where it has a sign, `result_` has it as
        ``statistic``.
    ranking_, support_, result_
        As of `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.OnePass(1, criterion="t").fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

    _run = Once
    _method = "once"
    _constraints = OF_CRITERIA

    criterion: str = "pearson"
    bandwidth: Any = DEFAULTS["bandwidth"]
    label_kernel: str = DEFAULTS["label_kernel"]
    penalty: float = DEFAULTS["penalty"]
    centroid_weight: float = DEFAULTS["centroid_weight"]
    proportion: float = DEFAULTS["proportion"]

    def _check_together(self) -> None:
        self.resolved()

    def resolved(self) -> AbstractCriterion:
        """The criterion, with its parameters."""
        given = {name: getattr(self, name) for name in DEFAULTS}
        unlike = {k: v for k, v in given.items() if repr(v) != repr(DEFAULTS[k])}
        return criterion_of(self.criterion, unlike)

    def identity(self) -> dict[str, Any]:
        return {
            "method": self._method,
            "criterion": self.criterion,
            **_plain(self.resolved()),
            "standardize": self._scales,
            "missing": self.missing,
        }

    def described(self) -> str:
        return f"{self.criterion} of each feature in one pass,"

    def scales(self, values: ValueKind) -> bool:
        """As asked, or as the criterion is meant, whatever the data are."""
        return self._scales

    @property
    def _scales(self) -> bool:
        auto = isinstance(self.standardize, str)
        return self.resolved().standardize if auto else bool(self.standardize)
