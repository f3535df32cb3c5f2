"""Test of marginal interactions: from an opened source to a table of features.

`dhsic.pairs.marginal` has the mathematics. A first pass measures the features and sums the kernel
of the partners. If only some features are partners, this takes two passes. The next pass computes
the moments of every feature, which are saved block by block. If a test is interrupted, it computes
the kernel again and continues after the last saved block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ndtri

from dhsic._typing import Float, Index
from dhsic.criteria.independence import adjusted_p_values
from dhsic.errors import InputError
from dhsic.joins.label_description import LabelDescription
from dhsic.joins.labels import Labelled
from dhsic.kernels.risk_sets import event_counts
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.covariates import project_out
from dhsic.memory import VECTORS, MemoryEstimate, resident_bytes, task_bytes
from dhsic.pairs.marginal import (
    CALIBRATED,
    PERMUTATIONS,
    SQUARES,
    VALUES,
    Gram,
    MarginalCalibration,
    MarginalScan,
    MixedModel,
    PartnerKernel,
    calibration_moments,
    scan_cost,
)
from dhsic.pairs.scan import NULL, SavedResults, kept_at
from dhsic.pairs.share import Labels, label_columns
from dhsic.pairs.table import DESCRIPTIONS as OF_PAIRS
from dhsic.pairs.table import pair_table
from dhsic.pairs.test import (
    PairTest,
    check_columns,
    check_part,
    checked_labels,
    regressed_out,
)
from dhsic.passes.jobs import block_bytes, grouped, n_partials
from dhsic.passes.reader import COMPACT_BYTES, Reader
from dhsic.passes.single_pass import looked_at
from dhsic.results.schema import versions
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource

#: Descriptions of the columns.
DESCRIPTIONS = {
    "share": "estimated fraction of the labels' remaining variance that all interactions of the "
    "feature explain together; may be negative by chance",
    "se": "standard error of share if there are no interactions",
    "p_value": "probability of at least such evidence if the feature has no interactions",
    "q_value": "smallest false discovery rate at which the feature is significant (Benjamini and "
    "Hochberg)",
}
#: Names of the columns of a single feature, by the names for the first feature of a pair.
OF_FEATURE = {
    "first": "feature",
    "first_feature": "name",
    "first_contig": "contig",
    "first_position": "position",
}
PLACES = {
    "feature": "position of the feature in the data",
    "name": "name of the feature",
    "contig": "chromosome of the variant",
    "position": "position of the variant on its chromosome",
}
#: Number of jobs whose results are saved together.
SAVED = 4
#: Power at which `detectable_share` is found, as a normal quantile (0.8).
POWER = float(ndtri(0.8))


@dataclass(frozen=True, slots=True)
class MarginalForecast:
    """Expected cost of a test: memory, and float32 operations of matrix products."""

    memory: MemoryEstimate
    flops: float
    values: float
    n_features: int
    n_partners: int

    def seconds(self, flops_a_second: float, values_a_second: float, n: int) -> float:
        """Estimated time in seconds on n threads; the rates are per thread and second."""
        return float(self.flops / flops_a_second + self.values / values_a_second) / n


@dataclass(frozen=True, slots=True)
class MarginalInteractionTest:
    """Test of marginal interactions with its parameters, see `marginal_interactions`."""

    alpha: float = 0.05
    seed: int = 0
    missing: str = "mean"
    checkpoint: Any = None
    memory_limit: int | None = None
    label_kernel: str = "auto"

    @classmethod
    def like(cls, test: PairTest) -> MarginalInteractionTest:
        """Create a test with the parameters that it has in common with a test of pairs."""
        return cls(**{field.name: getattr(test, field.name) for field in fields(cls)})

    def check(self) -> MarginalInteractionTest:
        """Reject invalid parameters."""
        check_part("alpha", self.alpha)
        check_columns("Interactions", self.missing, self.label_kernel)
        return self

    def of(
        self,
        given: Labelled,
        runtime: AbstractRuntime,
        main: Index,
        among: Index | None = None,
        partners: Index | None = None,
        elsewhere: Index | None = None,
    ) -> xr.Dataset:
        """Test features of an opened source, see `dhsic.marginal_interactions`.

        Main effects of the features `main` are regressed out, and also main effects of features
        `elsewhere`, which filters exclude. Features `among` are tested for interactions with
        features `partners`; by default both are all features.
        """
        source = given.source
        reader, _ = looked_at(source, runtime, given.rows)
        m = reader.n_samples
        y = checked_labels(given.y, m)
        columns = label_columns(y, self.label_kernel, given.covariates)
        self.forecast(source, m, columns.shape[1], runtime.n_here, among, partners).memory.check(
            self.memory_limit
        )
        with closing(reader), single_blas_thread():  # more threads would sum in another order
            gram, d = _partner_products(reader, partners, self.missing)
            Q = regressed_out(reader, given, main, elsewhere, None, self.missing)
            U = Labels.of(columns, Q, sides=1, functions=2).U
            features = reader.alive if among is None else np.intersect1d(among, reader.alive)
            K = project_out(Q, project_out(Q, gram / d).T)
            model = MixedModel.of(K, U, Q)
            np.fill_diagonal(K, 0.0)
            state = PartnerKernel.of(K, model.covariance(model.penalty), Q, d)
            is_partner = np.zeros(source.n_features, dtype=np.int64)
            is_partner[reader.alive if partners is None else partners] = 1
            jobs = reader.jobs(features, tags=is_partner[features])
            with kept_at(self.checkpoint, self._identity(reader, given, Q, U, features)) as kept:
                calibration = self._calibration(reader, features, is_partner, K, model, state, kept)
                moments = _moments(reader, MarginalScan(state, model.residuals()), jobs, kept)
        about: dict[str, Any] = {
            "n_samples": m,
            "n_features": source.n_features,
            "n_constant": int(reader.scaling.constant.sum()),
            "n_partners": d,
            "n_main_effects": int(main.size) + (0 if elsewhere is None else int(elsewhere.size)),
            "n_covariates": 0 if given.covariates is None else int(np.size(given.covariates[0])),
            "noise_over_polygenic": model.penalty,
            "null_mean": calibration.mean,
            "null_std": calibration.std,
            "random_state": self.seed,
            "alpha": self.alpha,
            "labels": LabelDescription(self.label_kernel, in_columns=True, in_python=True).of(y),
        }
        about |= event_counts(y) | given.filtered.attributes()
        about |= {"n_features_filtered": source.n_features_filtered}
        return self._table(source, features, moments, calibration).assign_attrs(
            about | self._power(moments, calibration)
        )

    def _calibration(
        self,
        reader: Reader,
        features: Index,
        is_partner: Index,
        K: Float,
        model: MixedModel,
        state: PartnerKernel,
        kept: SavedResults,
    ) -> MarginalCalibration:
        """Calibrate the test with permuted labels and a sample of the features."""
        saved = kept.get(NULL)
        if saved is None:
            places = np.linspace(0, features.size - 1, min(CALIBRATED, features.size))
            some = features[places.round().astype(np.int64)]
            X, of_partners = reader.values(some, np.float32), is_partner[some] == 1
            draws = [*model.permuted(PERMUTATIONS, self.seed)]
            each = reader.runtime.each
            saved = {"moments": calibration_moments(X, of_partners, K, model, state, draws, each)}
            kept.put(NULL, **saved)
        if np.isnan(saved["moments"]).all():
            raise InputError(
                "No feature can be tested for interactions: all are constant, explained by "
                "covariates and main effects, or carried by too few samples. Use more samples, or "
                "fewer covariates."
            )
        return MarginalCalibration.of(saved["moments"])

    def _table(
        self,
        source: AbstractSource,
        features: Index,
        moments: Float,
        calibration: MarginalCalibration,
    ) -> xr.Dataset:
        """Table of the tested features, by ascending p-value."""
        tested = ~np.isnan(moments[:, 0])
        features, moments = features[tested], moments[tested]
        log_p = calibration.log_p(moments)
        order = np.argsort(log_p, kind="stable")
        p = np.exp(log_p[order])
        shares, errors = calibration.shares(moments[order])
        values = {"share": shares, "se": errors, "p_value": p}
        values["q_value"] = adjusted_p_values(p)
        first = features[order]
        described = {**OF_PAIRS, **DESCRIPTIONS}
        table = pair_table(source, "features", first, np.full_like(first, -1), values, described)
        table = table.drop_vars([name for name in table if str(name).startswith("second")])
        table = table.drop_vars("distance", errors="ignore")
        table = table.rename({a: b for a, b in OF_FEATURE.items() if a in table})
        for name, description in PLACES.items():
            if name in table:
                table[name].attrs["description"] = description
        return table

    def _power(self, moments: Float, calibration: MarginalCalibration) -> dict[str, float]:
        """Number of tested and untestable features, and the share detectable with power 0.8.

        The share is significant at family-wise level `alpha` (Bonferroni), for the median standard
        error.
        """
        tested = moments[~np.isnan(moments[:, 0])]
        _, errors = calibration.shares(tested)
        reach = -float(ndtri(self.alpha / len(tested))) + POWER
        n_untested = len(moments) - len(tested)
        known = {"n_tested": len(tested), "n_untested": n_untested}
        return known | {"detectable_share": reach * float(np.median(errors))}

    def forecast(
        self,
        source: AbstractSource,
        m: int,
        t: int,
        n_tasks: int,
        among: Index | None = None,
        partners: Index | None = None,
    ) -> MarginalForecast:
        """Forecast a test with t label columns of m samples, with `n_tasks` tasks at once."""
        d = source.n_features
        n, n_partners = (d if some is None else some.size for some in (among, partners))
        scan = scan_cost(m, t)
        tile = max(scan.tile, Gram().cost(m).tile)
        result = Gram().cost(m).result
        tasks = n_tasks, block_bytes(source, m), tile, result, n_partials(n_partners)
        memory = MemoryEstimate(
            resident_bytes(),
            squares=SQUARES * 8 * m * m,
            survivors=min(COMPACT_BYTES, m * d * np.dtype(source.dtype).itemsize),
            vectors=8 * (VECTORS * d + VALUES * (2 * n + CALIBRATED * PERMUTATIONS)),
            states=scan.state + 4 * PERMUTATIONS * m * t,
            **task_bytes(*tasks),
        )
        flops = scan.float32 * (n + min(n, CALIBRATED) * PERMUTATIONS)
        flops += Gram().cost(m).float32 * n_partners
        return MarginalForecast(memory, flops, float(m) * (n + n_partners), n, n_partners)

    def _identity(
        self, reader: Reader, given: Labelled, Q: Float, U: Float, features: Index
    ) -> dict[str, Any]:
        """Values that identify the test; the checkpoint of another test has different values."""
        if self.checkpoint is None:
            return {}
        digest = sha256(U.tobytes() + Q.tobytes() + features.tobytes())
        digest.update(repr(None if given.rows is None else given.rows.tolist()).encode())
        parameters = {
            "scan": "marginal interactions",
            "random_state": self.seed,
            "labels": digest.hexdigest(),
            "values": sha256(reader.scaling.checksum.tobytes()).hexdigest(),
        }
        source = given.source.fingerprint()
        return {"source": source, "parameters": parameters, "versions": versions()}


def _partner_products(reader: Reader, partners: Index | None, missing: str) -> tuple[Float, int]:
    """Inner products (m, m) of samples over the varying partners, and the number of partners.

    The scaling of all features is measured too.
    """
    sums: list[Float] = []
    reader.measure(Gram(), sums.append)
    reader.check_scaling(missing, codes_checked=reader.original.keeps_codes)
    d = reader.alive.size
    if partners is not None:
        varying = np.intersect1d(partners, reader.alive)
        if not varying.size:
            raise InputError("All features of second= are constant; pass features that vary.")
        sums, d = [reader.sum_results(Gram(), grouped(reader.jobs(varying)))[1]], varying.size
    return Statistic(sums[0]).to_dense().astype(np.float64), d


def _moments(reader: Reader, a_pass: MarginalScan, jobs: list[Job], kept: SavedResults) -> Float:
    """Moments of all features (c, 4); saved blocks are loaded instead of computed."""
    parts: list[Float] = []
    n_saved = 0
    while (saved := kept.get(f"tiles/{n_saved:06d}")) is not None:
        parts.append(saved["moments"])
        n_saved += 1
    for part in _batches(reader, a_pass, jobs[n_saved * SAVED :]):
        kept.put(f"tiles/{n_saved:06d}", moments=part)
        parts.append(part)
        n_saved += 1
    return np.concatenate(parts)


def _batches(reader: Reader, a_pass: MarginalScan, jobs: list[Job]) -> Iterator[Float]:
    """Yield the moments of `SAVED` jobs at a time."""
    batch: list[Float] = []
    for i, part in enumerate(reader.map(a_pass, jobs) if jobs else (), 1):
        batch.append(part)
        if i % SAVED == 0 or i == len(jobs):
            yield np.concatenate(batch)
            batch = []
