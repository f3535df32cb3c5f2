"""OnePass: ranking of features in one pass, by a criterion of each feature alone.

The criteria are HSIC and its relatives, see JMLR section 6.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.criteria import CRITERIA, criterion_of
from dhsic.criteria.base import TIE, AbstractCriterion, CriterionScores, worst_first
from dhsic.criteria.blocks import BlockIndependence
from dhsic.criteria.features import resolve_width
from dhsic.criteria.independence import MULTISCALE, Independence, inflation_of
from dhsic.criteria.weighted import WeightedIndependence
from dhsic.errors import InputError, warn
from dhsic.joins.label_description import LabelDescription
from dhsic.kernels.labels import (
    CLASS_KERNELS,
    REAL_KERNELS,
    LabelMatrix,
    joint_labels,
    label_matrix,
    target_kernels,
)
from dhsic.kernels.ordinal import ORDINAL
from dhsic.kernels.risk_sets import is_censored
from dhsic.linalg.covariates import covariate_basis
from dhsic.memory import MemoryEstimate, resident_bytes, task_bytes
from dhsic.methods.base import Selector
from dhsic.pairs.share import target_columns
from dhsic.passes.jobs import block_bytes, n_partials
from dhsic.passes.reader import COMPACT_BYTES, Reader, Reporter
from dhsic.passes.single_pass import Judge, Judged, read_once
from dhsic.relatedness import chromosomes_of, residuals_by_chromosome
from dhsic.results.schema import Order
from dhsic.selection.cross_validation import Validation
from dhsic.selection.missing_calls import warn_of_missing
from dhsic.selection.progress import recording
from dhsic.selection.run import SelectionRun
from dhsic.sources.scaling import PRESENCE, Scale, Scaling
from dhsic.sources.sexes import DIPLOID
from dhsic.sources.values import ValueKind
from dhsic.validation import as_array

#: Parameters that only some criteria have.
OF_SOME = (*("bandwidth", "label_kernel", "statistic", "penalty", "centroid_weight", "proportion"),)
#: Parameters of the steps around a ranking that do not support weights of samples.
OF_SELECTIONS = ("holdout", "clump_r2", "interactions", "stages")
#: Float64 arrays per feature: the scaling twice, columns, scores, order, and sorting.
VECTORS = 39
#: Label kernels that residuals (`loco`) support; and the number of (m, m) matrices that residuals
#: need, besides one per target.
OF_RESIDUALS, SQUARES = ("auto", *REAL_KERNELS, ORDINAL), 8


@dataclass(eq=False, repr=False, kw_only=True)
class OnePass(Selector):
    """Ranking by a criterion of one feature at a time, with the parameters of `dhsic.OnePass`."""

    _method = "once"

    criterion: str = "pearson"
    bandwidth: Any = "auto"
    label_kernel: str = "auto"
    statistic: str = "unbiased"
    penalty: float = 1.0
    centroid_weight: float = 0.5
    proportion: float = 0.01
    loco: bool = False

    def _check_together(self) -> None:
        if self.resolved().tells_more and self.control is not None:
            raise InputError(
                f"criterion={self.criterion!r} has its own p- and q-values, so shadows are not "
                f"needed. Leave out control={self.control!r}."
            )
        if self.loco and (self.criterion != "hsic" or self.label_kernel not in OF_RESIDUALS):
            raise InputError(
                "loco=True tests residuals, so it needs criterion='hsic' and a label kernel for "
                f"real values. It does not support criterion={self.criterion!r} with "
                f"label_kernel={self.label_kernel!r}. Leave loco= out."
            )

    @property
    def _takes_two(self) -> bool:
        kind = CRITERIA.get(self.criterion)
        return super()._takes_two or (kind is not None and kind.labels.of_two)

    @property
    def takes_numbers(self) -> bool:
        return self.loco or super().takes_numbers or self.resolved().labels.of_numbers

    def resolved(self) -> AbstractCriterion:
        """Create the criterion with its parameters."""
        parameters = {name: getattr(self, name) for name in OF_SOME}
        unlike = {k: v for k, v in parameters.items() if repr(v) != repr(getattr(OnePass, k))}
        return criterion_of(self.criterion, unlike)

    def label_description(self, *, in_python: bool) -> LabelDescription:
        """Description of the labels, without a label kernel if the criterion does not use one."""
        criterion = self.resolved()
        kernel = self.label_kernel if hasattr(criterion, "label_kernel") else None
        by_ranks = isinstance(criterion, Independence) and criterion.goes_by_ranks
        return LabelDescription(kernel, by_ranks=by_ranks, in_python=in_python)

    def _criterion(self, run: SelectionRun) -> AbstractCriterion:
        """Create the criterion of a run.

        Blocks or weights of the samples change the criterion.
        """
        if run.sample_weight is not None:
            return WeightedIndependence()
        criterion = self.resolved()
        if run.blocks is None or not isinstance(criterion, Independence):
            return criterion
        return BlockIndependence(run.blocks, criterion.label_kernel)

    def check_blocks(self, options: str) -> None:
        criterion = self.resolved()
        if not isinstance(criterion, Independence):
            raise InputError(
                f"criterion={self.criterion!r} treats samples as independent. {options} does not "
                "allow this. Use criterion='hsic' (dhsic.test_features, CLI: dhsic test)."
            )
        if not criterion.is_multiscale:
            raise InputError(
                f"bandwidth={self.bandwidth!r} treats samples as independent. {options} does not "
                "allow this. Pass bandwidth='multiscale'."
            )
        if self.loco:
            raise InputError(
                f"loco=True does not support {options}; leave loco= out, and pass principal "
                "components (dhsic.pca) as covariates."
            )

    def check_weights(self) -> None:
        if self.criterion != "hsic" or self.loco:
            super().check_weights()
        unlike = [
            name
            for name in ("bandwidth", "label_kernel", "statistic", *OF_SELECTIONS)
            if repr(getattr(self, name)) not in (repr(getattr(OnePass, name)), repr(MULTISCALE))
        ]
        for name in unlike:
            raise InputError(
                f"{name}={getattr(self, name)!r} does not support sample_weight (CLI: --weights). "
                f"Leave out {name}=, or the weights."
            )
        if Validation.of(self.n_features_to_select) is not None:
            raise InputError(
                f"n_features_to_select={self.n_features_to_select!r} does not support "
                "sample_weight (CLI: --weights). Pass a number of features, or leave out the "
                "weights."
            )

    def identity(self) -> dict[str, Any]:
        criterion = self.resolved()
        parameters = criterion.parameters()
        if criterion.has_bandwidth:
            width = parameters["bandwidth"]
            parameters["bandwidth"] = width if width == MULTISCALE else repr(resolve_width(width))
        return {
            "method": self._method,
            "criterion": self.criterion,
            **parameters,
            **({"loco": True} if self.loco else {}),
            "standardize": self._scales,
            "missing": self.missing,
        }

    def described(self) -> str:
        against = ", tested on residuals of a ridge of all other chromosomes" if self.loco else ""
        return f"{self.criterion} of each feature in one pass{against}"

    def scales(self, values: ValueKind) -> Scale:
        """Scaling of features: as requested, or as the criterion needs.

        The default does not depend on `values`.
        """
        return self._scales

    @property
    def _scales(self) -> Scale:
        if self.standardize == "auto":
            return self.resolved().standardize
        return PRESENCE if self.standardize == PRESENCE else bool(self.standardize)

    def memory_estimate(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        m, criterion, n_here = run.n_samples, self._criterion(run), run.runtime.n_here
        tile = Judge(standardize=True, criterion=criterion).cost(m).tile
        square, n_results = (8 * m * m, n_partials(run.source.n_features)) if self.loco else (0, 1)
        stored = m * run.source.n_features * np.dtype(run.source.dtype).itemsize
        n_targets = 1 if run.y is None else _columns_of(run.y).shape[1]
        needed = MemoryEstimate(
            process=resident_bytes(),
            squares=(SQUARES + n_targets) * square,
            survivors=min(COMPACT_BYTES, stored) if self.loco else 0,
            vectors=VECTORS * 8 * run.source.n_features,
            landmarks=criterion.label_bytes(m),
            **task_bytes(n_here, block_bytes(run.source, m), tile, square, n_results),
        )
        return needed, None

    def labels(self, run: SelectionRun) -> LabelMatrix:
        assert run.y is not None, "a criterion compares features with labels"
        criterion = self._criterion(run)
        if run.covariates is not None and not criterion.takes_covariates:
            raise InputError(
                f"{criterion.name!r} does not support covariates. Leave them out, regress them out "
                "of the features first, or use BAHSIC or LinearHSIC."
            )
        if not self.loco:
            return criterion.read(run.y, run.covariates)
        if is_censored(run.y):
            raise InputError(
                "loco=True predicts labels from other chromosomes. It does not support times to "
                "an event. Leave loco= out, and pass principal components (dhsic.pca) as "
                "covariates."
            )
        chromosomes_of(run.source)
        each = target_columns(run.y, self.label_kernel)
        return self._residual_labels(run.y, each, run.covariates)

    def _residual_labels(
        self, y: Array, each: list[Float], covariates: Array | None
    ) -> LabelMatrix:
        """Label matrix of the columns of all targets, or of the residuals of these columns.

        `each` contains the columns (m, k) of every target. If some targets are not real-valued,
        every target has its own label kernel. Residuals of classes have the linear kernel, because
        nonlinear functions of residuals would reveal the prediction, which depends on relatedness.
        """
        criterion, kernels = self.resolved(), target_kernels(_columns_of(y), self.label_kernel)
        if all(kernel in REAL_KERNELS for kernel in kernels):
            return criterion.read(np.column_stack(each), covariates)
        read = [
            label_matrix(columns, "linear", covariates).centred
            if kernel in CLASS_KERNELS
            else criterion.read(columns, covariates)
            for columns, kernel in zip(each, kernels, strict=True)
        ]
        return read[0] if len(read) == 1 else joint_labels(read, covariates)

    def _by_chromosome(
        self, run: SelectionRun, judge: Judge, reporter: Reporter, budget: int | None
    ) -> Judged:
        """Test each chromosome on residual labels, predicted from all other chromosomes."""
        assert run.y is not None, "labels are predicted"
        assert run.values is not None, "they were looked at"
        m, parts = run.n_samples, []
        each, C = target_columns(run.y, self.label_kernel), run.covariates
        ploidy = (run.source.ploidy or DIPLOID) if run.values.dosages else None
        chromosomes, unplaced = chromosomes_of(run.source)
        if unplaced.size:
            warn(
                f"{unplaced.size:,} features are on X, Y, MT or an unknown chromosome (0 or .). "
                "They are not used for prediction, and are tested on the residuals of all "
                "autosomes. To exclude them, pass the autosomes, such as "
                "filters=dhsic.Filters(chromosomes=['1-22']).",
            )
        with closing(Reader(run.source, run.runtime, run.rows, budget)) as reader:
            Q = covariate_basis(C, m)
            arguments = reader, chromosomes, each, Q, ploidy, unplaced
            for features, residuals in residuals_by_chromosome(*arguments):
                if isinstance(criterion := judge.criterion, Independence):
                    values = [of_target.values for of_target in residuals]
                    state = criterion.prepare(self._residual_labels(run.y, values, C), C)
                    covariances = [of_target.covariance for of_target in residuals]
                    state = criterion.of_relatives(state, values, covariances)
                    judge = replace(judge, prepared=state)
                there = run.source, run.runtime, judge, reporter
                parts.append((features, read_once(*there, rows=run.rows, features=features)))
        return Judged.of(parts)

    def rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        assert labels is not None, "y was given"
        started = time.perf_counter()
        criterion, d = self._criterion(run), run.source.n_features
        if isinstance(criterion, WeightedIndependence):
            prepared = criterion.prepare(labels, run.covariates, run.sample_weight)
        else:
            prepared = criterion.prepare(labels, run.covariates)
        with recording(run) as recorder:
            previous = recorder.previous
            done = previous if previous is not None and previous.round else None
            # A finished run recomputes only the columns that its state does not contain.
            again = done is None or bool(criterion.signed) or criterion.tells_more
            # Without a criterion the features are read for their scaling alone.
            judge = Judge(run.standardizes, criterion if again else None, prepared)
            recorder.progress.expect(d)
            if self.loco:
                scan = self._by_chromosome(run, judge, recorder.progress, budget)
            else:
                scan = read_once(run.source, run.runtime, judge, recorder.progress, rows=run.rows)
            recorder.check(scan.scaling, has_bandwidth=criterion.has_bandwidth)
            alive = np.flatnonzero(~scan.scaling.constant)
            scores = criterion.finish(prepared, scan.columns[:, alive]) if again else None
            if again and criterion.leaves_missing_out:
                test = getattr(prepared, "missingness", None)
                n_missing = scan.scaling.n_missing[alive]
                warn_of_missing(run, scan.columns[-1, alive], alive, n_missing, test)
            if done is None:
                assert scores is not None, "scores are computed unless the run is complete"
                order = worst_first(scores.order_by)
                scaled = run.standardizes
                record = _record(criterion, scores, scan, started, standardized=scaled)
                first = recorder.begin(alive, scan.scaling)
                done = first.after(alive[order], scores.score[order], record)
                recorder.note(done)
                recorder.finish()
            else:
                recorder.progress.round_done(done)
        placed = (done.eliminated, done.scores, done.removed_in, done.history)
        extra: dict[str, tuple[Array, str]] = {}
        for name, (values, meaning_of) in (
            {} if scores is None else scores.extra_results(criterion)
        ).items():
            extra[name] = no_value(values, d), meaning_of  # for constant features
            extra[name][0][alive] = values
        attributes = {"inflation": inflation_of(extra["p"][0][alive])} if "p" in extra else {}
        meaning = criterion.meaning
        ranked = Order(
            *placed, placed="scored", meaning=meaning, extra=extra, attributes=attributes
        )
        return ranked, scan.scaling


def no_value(like: Array, d: int) -> Array:
    """Column of d missing values: NaN, or empty strings."""
    return np.full(d, np.nan) if like.dtype.kind == "f" else np.full(d, "", dtype=object)


def _record(
    criterion: AbstractCriterion,
    scores: CriterionScores,
    found: Judged,
    started: float,
    *,
    standardized: Scale,
) -> dict[str, Any]:
    lost = int(np.isnan(scores.score).sum())
    if lost:
        raise InputError(
            f"{lost} of {scores.score.size} scores by {criterion.name!r} are not numbers: values "
            "are too large or too small. Rescale the features, or pass standardize=True."
        )
    flat = np.ptp(scores.score) <= TIE * np.abs(scores.score).max(initial=0.0)
    if criterion.has_bandwidth and not standardized and scores.score.size > 1 and flat:
        raise InputError(
            f"All {scores.score.size} scores by {criterion.name!r} are equal: with this bandwidth, "
            "the kernel values of all pairs of samples are nearly 0, or nearly 1. Pass "
            "bandwidth='median', or standardize=True."
        )
    return {
        "n_features": scores.score.size,
        "n_removed": scores.score.size,
        "seconds": time.perf_counter() - started,
        "bytes_read": found.bytes_read,
        "engine": criterion.name,
        **scores.facts,
    }


def _columns_of(y: Array) -> Array:
    """Targets as columns, (m, t)."""
    Y = as_array(y, "y")
    return Y[:, None] if Y.ndim == 1 else Y
