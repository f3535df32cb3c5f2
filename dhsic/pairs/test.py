"""Test of all pairs of features: from an opened source to a table of the best pairs.

`Forecast` computes the number of products and tiles of a scan and its memory, from sizes alone.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError, MemoryBudgetError, warn
from dhsic.joins.label_description import LabelDescription
from dhsic.joins.labels import Labelled
from dhsic.kernels.labels import SELF
from dhsic.kernels.risk_sets import event_counts
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.rank_basis import rank_functions
from dhsic.memory import SLACK_BYTES, VECTORS, available_bytes, human, resident_bytes
from dhsic.pairs import scan
from dhsic.pairs.effects import product_effects
from dhsic.pairs.inflation import every, main_inflation
from dhsic.pairs.pair_set import PairSet
from dhsic.pairs.products import FUNCTIONS, task_bytes_of
from dhsic.pairs.rescore import n_kept
from dhsic.pairs.scan import is_screened, kept_at, scan_pairs
from dhsic.pairs.share import Labels, label_columns
from dhsic.pairs.table import table_of
from dhsic.pairs.tiles import MEASURED, STRIP_ENTRIES, columns_beside
from dhsic.passes import Measure
from dhsic.passes.reader import COMPACT_BYTES, AbstractReader, Reader
from dhsic.passes.single_pass import look_at, looked_at
from dhsic.results.schema import versions
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate
from dhsic.sources.values import recoded
from dhsic.sources.views import SubsetSource, whole_of
from dhsic.validation import is_count, is_number

#: Minimum number of permutations to which a law can be fitted.
FEWEST_PERMUTATIONS = 20
#: Number of float32 copies of a run of features in a task, per side: values as read, during
#: standardisation, X, and `lifted` for the screen (P is added if more than the mean is regressed
#: out). And number of arrays of a strip.
COPIES, STRIPS = 4, 20
#: Number of copies of the sampled shares for the inflation: per tile, of all tiles, for medians.
COPIED = 3


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected cost of a scan.

    Attributes
    ----------
    n_pairs, n_tiles : int
        Number of pairs, and number of tiles (tasks) that contain them.
    flops, permuted_flops : float
        Float32 operations of matrix products, for the scan and for its permutations.
    values : float
        Number of values that are read and standardised, counted once per tile.
    task_bytes, kept_bytes : int
        Memory of one task, and of the features that stay in memory during the scan, in bytes.
    n_tasks : int
        Number of concurrent tasks in this process.
    """

    n_pairs: int
    n_tiles: int
    flops: float
    permuted_flops: float
    values: float
    task_bytes: int
    kept_bytes: int
    n_tasks: int

    @property
    def bytes_beside(self) -> int:
        """Bytes that the scan needs in addition to the present memory of the process."""
        return self.kept_bytes + self.n_tasks * self.task_bytes

    @property
    def peak_bytes(self) -> int:
        """Peak memory of this process, in bytes."""
        return resident_bytes() + SLACK_BYTES + self.bytes_beside

    def check(self, limit: Any) -> None:
        """Reject a scan that needs more than `limit` bytes; the default is the available memory."""
        allowed = available_bytes() + resident_bytes() if limit is None else int(limit)
        if self.peak_bytes > allowed:
            raise MemoryBudgetError(
                f"A scan of pairs needs {human(self.peak_bytes)} ({human(self.task_bytes)} for "
                f"each of {self.n_tasks} parallel tasks), but the limit is {human(allowed)}; use "
                "fewer threads, or raise the limit (memory_limit=)."
            )

    def seconds(self, flops_a_second: float, values_a_second: float, n: int) -> float:
        """Estimated time in seconds on n threads; the rates are per thread and second."""
        products = (self.flops + self.permuted_flops) / flops_a_second
        at_once = min(n, self.n_tiles)
        return float(np.float64(products + self.values / values_a_second) / at_once)


@dataclass(frozen=True, slots=True)
class PairTest:
    """Test of all pairs with its parameters, see `find_pairs`."""

    n_pairs: int = 100
    alpha: float = 0.05
    n_permutations: int = 100
    least: float = 0.5
    linked: float = 0.9
    seed: int = 0
    missing: str = "mean"
    checkpoint: Any = None
    memory_limit: int | None = None
    functions: int = 1
    #: Maximum number of features whose pairs are permuted; None for `scan.MOST_PERMUTED`.
    n_permuted: int | None = None
    #: Number of functions of the ranks of each main feature that are regressed out, in addition to
    #: its values.
    main_functions: int = 0
    #: Label kernel: a class kernel tests against one indicator per class; "auto" does this only for
    #: labels that are not numbers.
    label_kernel: str = "auto"
    #: Whether to warn of doubtful p-values.
    warns: bool = True
    #: Whether the table gets the coefficient of each product, if features have one function.
    with_effects: bool = False
    #: Both sets of features from whose pairs the tested ones were chosen by the labels
    #: (`dhsic.interactions.marginal.screened`); None if they were not chosen.
    screened: tuple[Index, Index] | None = None

    def check(self) -> PairTest:
        """Reject invalid parameters."""
        if not is_count(self.n_pairs):
            raise InputError(f"n_pairs={self.n_pairs!r}; pass a whole number from 1.")
        n = self.n_permutations
        if not is_count(n, 0) or 0 < n < FEWEST_PERMUTATIONS:
            raise InputError(
                f"n_permutations={n!r}; pass a whole number from {FEWEST_PERMUTATIONS}, such as "
                "100, or 0 for no family-wise p-values."
            )
        if not is_count(self.functions) or self.functions not in FUNCTIONS:
            raise InputError(
                f"functions={self.functions!r}; pass 1 for the product of two features, or 2 or 4 "
                "for products of 2 or 4 functions of the ranks of each feature."
            )
        for name in ("alpha", "least", "linked"):
            check_part(name, getattr(self, name))
        check_columns("Pairs", self.missing, self.label_kernel)
        return self

    def of(
        self,
        given: Labelled,
        runtime: AbstractRuntime,
        main: Index,
        among: Index | None = None,
        *,
        elsewhere: Index | None = None,
        effects: Float | None = None,
        with_all: bool = False,
        second: Index | None = None,
        reader: Reader | None = None,
    ) -> xr.Dataset:
        """Find the best pairs of features of an opened source, see `dhsic.find_pairs`.

        Main effects of the features `main` are regressed out. All pairs among the features `among`
        (ascending; by default all features) are tested, and with `with_all` also their pairs with
        all other features. With `second`, pairs of a feature in `among` with a feature in `second`
        are tested instead. If `given` has an environment, features in `among` are paired with its
        columns. Main effects of features `elsewhere`, which filters exclude, and the columns of
        `effects` (m, r) are regressed out too. A `reader` of inspected data, without scaling,
        avoids inspecting the values again.
        """
        source = given.source
        if given.environment is not None and self.functions > 1:
            raise InputError(
                f"functions={self.functions} multiplies functions of two features, but a feature "
                "and an environment are tested by their product. Leave out functions=."
            )
        is_inspected = reader is not None
        if reader is not None:
            reader = reader.copy_unread()
        else:
            reader, _ = looked_at(source, runtime, given.rows)
        measure(reader, self.missing, codes_checked=is_inspected or source.keeps_codes)
        with closing(reader), single_blas_thread():  # more threads would sum in another order
            n_main = int(main.size) + (0 if elsewhere is None else int(elsewhere.size))
            Q = regressed_out(
                *(reader, given, main, elsewhere, effects), self.missing, self.main_functions
            )
            environment = given.environment
            y = checked_labels(given.y, reader.n_samples)
            labels = Labels.of(
                label_columns(y, self.label_kernel, given.covariates),
                Q,
                linked=self.linked,
                least=self.least,
                functions=self.functions,
                sides=2 if environment is None else 1,
            )
            columns = labels.U.shape[1], Q.shape[1]
            alive = reader.alive if among is None else np.intersect1d(among, reader.alive)
            partners = np.setdiff1d(reader.alive, alive) if with_all else None
            second = None if second is None else np.intersect1d(second, reader.alive)
            pairs = pairs_tested(given, alive, second, partners)
            if self.screened is not None:
                sides = (np.intersect1d(side, reader.alive) for side in self.screened)
                pairs = replace(pairs, whole=PairSet.between(*sides))
            self.forecast(source, len(y), columns, runtime.n_here, pairs).check(self.memory_limit)
            beside = None
            if environment is not None:
                beside = columns_beside(environment.columns, source.n_features)
            with kept_at(self.checkpoint, self._identity(reader, given, labels, pairs)) as kept:
                result = scan_pairs(
                    reader,
                    pairs,
                    labels,
                    kept,
                    n=self.n_pairs,
                    n_permutations=self.n_permutations,
                    seed=self.seed,
                    n_permuted=self.n_permuted,
                    beside=beside,
                )
            of_main = None
            if self.warns and result.n_significant(self.alpha):
                of_main = main_inflation(reader, alive, labels)
            of_products = None
            if self.with_effects and self.functions == 1:
                of_products = product_effects(
                    *(reader, result.judged.found.pairs, y, given.covariates, self.label_kernel),
                    beside,
                )
        C = given.covariates
        about: dict[str, Any] = {
            "n_samples": reader.n_samples,
            "n_features": source.n_features,
            "n_constant": int(reader.scaling.constant.sum()),
            "n_main_effects": n_main,
            "n_covariates": 0 if C is None else int(np.size(C[0])),
            "least": self.least,
            "linked": self.linked,
            "random_state": self.seed,
            "n_permutations": self.n_permutations,
            "alpha": self.alpha,
        }
        if pairs.whole is not None:
            n_whole = pairs.whole.n_pairs
            about |= {"n_features_screened": alive.size, "n_pairs_screened": n_whole}
        description = LabelDescription(self.label_kernel, in_columns=True, in_python=True)
        about |= event_counts(y)
        about |= {"labels": description.of(y)}
        about |= given.filtered.attributes() | {"n_features_filtered": source.n_features_filtered}
        names = None if environment is None else environment.names
        return table_of(result, source, about, of_products, of_main, names, warns=self.warns)

    def forecast(
        self,
        source: AbstractSource,
        m: int,
        columns: tuple[int, int],
        n_tasks: int,
        pairs: PairSet,
    ) -> Forecast:
        """Forecast a scan of pairs over m samples of a source, with `n_tasks` tasks at once.

        `columns` are the numbers of columns of the labels (t) and of Q (q).
        """
        (t, q), n_permutations, n_pairs = columns, self.n_permutations, pairs.n_pairs
        width = pairs.width(m, self.functions)
        if pairs.one_run and pairs.crosses:
            width = max(width, pairs.within.size)
        most = self.n_permuted or scan.MOST_PERMUTED
        n_permuted = 0
        if n_permutations:
            whole = pairs.whole or pairs
            n_permuted = whole.sampled(self.seed, most, scan.PERMUTED_RUNS).n_pairs
        state = 8 * m * t * (n_permutations + 1) if n_permuted else 0
        each, permuted = self._products(n_pairs, t, q)
        if self.functions == 1:
            strip = min(STRIP_ENTRIES, width * width * m)
            task_bytes = 2 * (COPIES + (q > 1)) * 4 * m * width + 4 * STRIPS * strip
        else:
            task_bytes = task_bytes_of(self.functions, m, t, n_permutations, width)
        n_sampled = n_permuted // every(n_permuted) * (1 + min(n_permutations, MEASURED))
        stored = m * pairs.n_features * np.dtype(source.dtype).itemsize
        return Forecast(
            n_pairs,
            pairs.n_tiles(width),
            2.0 * m * n_pairs * each,
            2.0 * m * n_permuted * permuted,
            float(m) * pairs.n_read(width),
            task_bytes + state,
            min(COMPACT_BYTES, stored) + 8 * VECTORS * pairs.n_features + COPIED * 4 * n_sampled,
            n_tasks,
        )

    def _products(self, n_pairs: int, t: int, q: int) -> tuple[float, float]:
        """Number of inner products of m values per pair: in the scan, and with all permutations."""
        screens = is_screened(n_pairs, self.n_pairs, self.functions)
        if self.functions == 1:
            fit = 4 + q + (q > 1)
            return (t if screens else t + fit), t * (self.n_permutations + 1) + fit
        g, both = self.functions**2, 2 * self.functions
        fit = g * (2 * q + 3 * both + g) + both * (both + t)
        return (g * t if screens else fit + g * t), fit + (g + both) * t * (self.n_permutations + 1)

    def _identity(
        self, reader: Reader, given: Labelled, labels: Labels, pairs: PairSet
    ) -> dict[str, Any]:
        """Values that identify the scan; the checkpoint of another scan has different values."""
        if self.checkpoint is None:
            return {}
        values = sha256(reader.scaling.checksum.tobytes())
        digest = sha256(labels.U.tobytes() + labels.Q.tobytes())
        digest.update(repr(None if given.rows is None else given.rows.tolist()).encode())
        digest.update(pairs.identity())
        if given.environment is not None:
            digest.update(given.environment.columns.tobytes())
        parameters = {
            "scan": "pairs",
            "n_pairs": self.n_pairs,
            "n_kept": n_kept(self.n_pairs),
            "n_permutations": self.n_permutations,
            "least": self.least,
            "linked": self.linked,
            "functions": self.functions,
            "n_permuted": self.n_permuted,
            "main_functions": self.main_functions,
            "random_state": self.seed,
            "labels": digest.hexdigest(),
            "values": values.hexdigest(),
        }
        source = given.source.fingerprint()
        return {"source": source, "parameters": parameters, "versions": versions()}


def pairs_tested(
    given: Labelled, features: Index, second: Index | None = None, partners: Index | None = None
) -> PairSet:
    """Set of pairs that a scan tests, see `PairTest.of`; all `features` must vary."""
    if given.environment is not None:
        return PairSet.with_columns(features, len(given.environment.names))
    if second is not None:
        return PairSet.between(features, second)
    return PairSet.of_all(features, partners)


def regressed_out(
    reader: Reader,
    given: Labelled,
    main: Index,
    elsewhere: Index | None,
    effects: Float | None = None,
    missing: str = "mean",
    functions: int = 0,
) -> Float:
    """Orthonormal basis Q (m, q) of all regressed-out effects, except those of the pairs.

    For `main`, `elsewhere` and `effects` see `PairTest.of`, for `functions` see `basis`.
    """
    m = reader.n_samples
    Q = basis(reader, given.covariates, main, functions)
    more = [] if effects is None else [effects]
    if elsewhere is not None and elsewhere.size:
        check_main(int(main.size + elsewhere.size), m)
        more.insert(0, filtered_features(given, reader.runtime, elsewhere, missing).T)
    if given.environment is not None:
        more.append(given.environment.main_effects)
    for columns in more:
        Q = covariate_basis(np.column_stack([Q, columns]), m)
    return Q


def check_part(name: str, value: Any) -> None:
    """Reject a parameter that is not a number between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        raise InputError(f"{name}={value!r}; pass a number between 0 and 1.")


def check_columns(tested: str, missing: str, label_kernel: str) -> None:
    """Reject invalid `missing` and `label_kernel`; messages name what is `tested`."""
    if missing not in ("mean", "error"):
        raise InputError(f"missing={missing!r} is unknown; pass 'mean' or 'error'.")
    if label_kernel in (SELF, "precomputed"):
        raise InputError(
            f"{tested} are tested against columns of labels, which label_kernel={label_kernel!r} "
            "does not have; pass labels, and 'auto', 'multiclass' or 'linear'."
        )


def check_main(n: int, m: int) -> None:
    """Reject n main effects if too few degrees of freedom are left with m samples."""
    if n and n >= m // 2:
        raise InputError(
            f"selection= has {n} features, which are too many main effects for {m} samples. Pass "
            f"fewer than {m // 2} features."
        )


def filtered_features(
    given: Labelled, runtime: AbstractRuntime, features: Index, missing: str
) -> Float:
    """Standardised values (r, m) of features that filters exclude from a source.

    A warning names these features. Constant features are omitted.
    """
    unfiltered = whole_of(given.source)
    names = unfiltered.feature_names()
    called = features.astype(str) if names is None else np.asarray(names)[features]
    warn(
        f"The filters exclude {features.size:,} features of selection= "
        f"({abbreviate(called, 10)}). Their main effects are still regressed out of the labels, "
        "but pairs with them are not scanned.",
    )
    values = look_at(given.source, runtime, given.rows)
    reader = Reader(recoded(SubsetSource(unfiltered, features), values), runtime, given.rows)
    measure(reader, missing)
    return reader.values(reader.alive)


def measure(reader: Reader, missing: str, *, codes_checked: bool = False) -> None:
    """Compute the scaling of features, and keep features in memory if they fit."""
    reader.measure(Measure(standardize=True))
    reader.check_scaling(missing, codes_checked=codes_checked)


def basis(
    reader: AbstractReader, covariates: Array | None, main: Index, functions: int = 0
) -> Float:
    """Orthonormal basis Q (m, q) of the mean, covariates and main effects.

    Main effects are linear. If `functions` is given, effects of this number of functions of each
    feature's ranks are added.
    """
    m, varying = reader.n_samples, main[~reader.scaling.constant[main]]
    if not varying.size:
        return covariate_basis(covariates, m)
    check_main(varying.size, m)
    X = reader.values(varying)
    columns = [X.T]
    if functions:
        columns += [rank_functions(x, functions).T for x in X]
    if covariates is not None:
        columns.insert(0, covariate_basis(covariates, m))
    return covariate_basis(np.column_stack(columns), m)


def checked_labels(y: Array | None, m: int) -> Array:
    """Return the labels; raises InputError if their number is not m."""
    if y is None or len(y) != m:
        n = 0 if y is None else len(y)
        raise InputError(
            f"target has {n} labels, but the data have {m} samples; pass one label per sample, in "
            "the order of the samples."
        )
    return y
