r"""Pairs of features that tell of the labels together what neither tells alone.

A selection judges features by all others at once, and a pair among thousands is lost in that: the
polynomial kernel of degree 2, for instance, is a sum over all pairs. `find_pairs` looks at each
pair by itself: whether the product of two features tells anything of the labels once the mean,
covariates, main effects of features already known and *both main effects of the pair* are out
(`dhsic.interactions.share`). It goes through all pairs of d features, d (d - 1) / 2 of them, in
tiles (`dhsic.interactions.tiles`) on threads or a Dask cluster, from whatever source; and says by
permutations what the largest share would be if there was nothing (`dhsic.interactions.null`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.interactions.anova import shares
from dhsic.interactions.chosen import chosen_features
from dhsic.interactions.forecast import Forecast
from dhsic.interactions.kept import kept_at
from dhsic.interactions.null import HEAVY
from dhsic.interactions.scan import MOST_PERMUTED, Scanned, is_screened, n_pairs_of, scan_pairs
from dhsic.interactions.share import Labels, label_columns
from dhsic.joins.filters import Filters
from dhsic.joins.labels import Labelled
from dhsic.joins.text import check_coded
from dhsic.linalg.covariates import covariate_basis
from dhsic.passes import Measure
from dhsic.passes.once import counting_on, looked_at
from dhsic.passes.reader import Reader
from dhsic.results import versions
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources import AbstractSource
from dhsic.sources.views import stored_positions
from dhsic.validation import BYTES, is_count, is_number, seed_of

__all__ = ["PairTest", "find_pairs", "shares"]


#: Permutations that a law is fitted to, at least.
FEWEST_PERMUTATIONS = 20
#: What the columns of a result are.
DESCRIPTIONS = {
    "first": "position in the data of the first feature of the pair",
    "second": "position of the second feature",
    "first_feature": "name of the first feature",
    "second_feature": "name of the second feature",
    "share": "part of what main effects leave of the labels that the product explains",
    "p_value": "probability of such a share for this pair alone, where there is nothing",
    "family_wise": "probability that any pair reaches it, where there is nothing",
    "false_discovery": "pairs expected here and above where there is nothing, over those found",
    "linkage": "squared correlation of the two features",
}


def find_pairs(
    data: Any,
    target: Any,
    *,
    n_pairs: int = 100,
    selection: Any = None,
    covariates: Any = None,
    alpha: float = 0.05,
    n_permutations: int = 100,
    least: float = 0.5,
    linked: float = 0.9,
    missing: Literal["mean", "error"] = "mean",
    random_state: Any = 0,
    checkpoint: Any = None,
    memory: int | None = None,
    runtime: Literal["auto", "threads", "dask"] | AbstractRuntime = "auto",
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
) -> xr.Dataset:
    """Find the pairs of features whose product tells most of the labels.

    Parameters
    ----------
    data : path, URL, array, frame, xarray or source
        Samples x features, as of `dhsic.select`.
    target : array, frame or str
        Labels, (m,) or (m, t): classes or real values, as of `dhsic.select`; or the variable of
        `data` that holds them.
    n_pairs : int
        How many pairs to return, at most.
    selection : Dataset, selector or sequence, optional
        Features whose main effects are taken out of the labels before: what `dhsic.select` returns,
        a selector after fit, or positions or names of features. Pairs of them are looked at too.
    covariates : (m, q) array or frame, optional
        Taken out of labels and features, linearly.
    alpha : float
        Family-wise level of the threshold in the attributes of the result.
    n_permutations : int
        Permutations of the labels for the family-wise and false-discovery rates; 0 for none.
    least : float
        Pairs are tested whose product keeps at least this part of the variance that it has where
        features are independent, once both main effects are out: where two rare variants never
        meet there is nothing to test.
    linked : float
        Pairs are tested whose squared correlation is at most this.
    missing : {"mean", "error"}
        Missing values are the mean of their feature, or refused.
    random_state : int
        Seed of the permutations.
    checkpoint : path or URL, optional
        Folder, or place in an object store, where what was found so far is kept: the same call
        goes on from there, to the same result bit for bit.
    memory : int, optional
        Bytes that this process may take; by default what the machine has. What needs more is
        refused before the scan begins.
    runtime : {"auto", "threads", "dask"} or AbstractRuntime
        As of `dhsic.select`.
    sample_dim, variable, missing_code, pass_only, filters, by_position
        As of `dhsic.select`.

    Returns
    -------
    xarray.Dataset
        A row for each pair, the best first: ``first``, ``second`` (positions), names, ``share``,
        ``p_value``, ``family_wise``, ``false_discovery``, ``linkage``. Attributes say how many
        pairs there are, down to which p-value all of them were looked for (``reach``), and the
        share that is significant at `alpha` family-wise (``threshold``).

    Raises
    ------
    InputError
        Labels or parameters that do not fit, or too few samples.
    MemoryBudgetError
        The scan does not fit.
    CheckpointError
        What is kept is of another scan, or has a writer.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.interactions import find_pairs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 30))
    >>> y = X[:, 3] * X[:, 8] + rng.standard_normal(200)
    >>> found = find_pairs(X, y, n_pairs=1)
    >>> found["first"].item(), found["second"].item(), found["family_wise"].item() < 0.05
    (3, 8, True)
    """
    BYTES("memory", memory)
    test = PairTest(
        n_pairs=n_pairs,
        alpha=alpha,
        n_permutations=n_permutations,
        least=least,
        linked=linked,
        seed=seed_of(random_state),
        missing=missing,
        checkpoint=checkpoint,
        memory=memory,
    ).check()
    where = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    given = Labelled.of(
        data,
        target,
        covariates,
        by_position=by_position,
        filters=filters,
        counting=counting_on(partial(running, runtime)),
        pass_only=pass_only,
        **where,
    )
    check_coded(data, y=given.y, covariates=given.covariates)
    with running(runtime) as there:
        return test.of(given, there, selection=selection)


@dataclass(frozen=True, slots=True)
class PairTest:
    """What is asked of all pairs; parameters as of `find_pairs`."""

    n_pairs: int = 100
    alpha: float = 0.05
    n_permutations: int = 100
    least: float = 0.5
    linked: float = 0.9
    seed: int = 0
    missing: str = "mean"
    checkpoint: Any = None
    memory: int | None = None

    def check(self) -> PairTest:
        """Refuse parameters that mean nothing."""
        if not is_count(self.n_pairs):
            raise InputError(f"n_pairs={self.n_pairs!r}; pass a whole number from 1.")
        n = self.n_permutations
        if not is_count(n, 0) or 0 < n < FEWEST_PERMUTATIONS:
            raise InputError(
                f"n_permutations={n!r}; pass a whole number from {FEWEST_PERMUTATIONS}, such as "
                "100, or 0 for no family-wise p-values."
            )
        for name in ("alpha", "least", "linked"):
            value = getattr(self, name)
            if not (is_number(value) and 0 < value < 1):
                raise InputError(f"{name}={value!r}; pass a number between 0 and 1.")
        if self.missing not in ("mean", "error"):
            raise InputError(f"missing={self.missing!r} is unknown; pass 'mean' or 'error'.")
        return self

    def of(self, given: Labelled, runtime: AbstractRuntime, *, selection: Any = None) -> xr.Dataset:
        """The best pairs of data that are open, see `find_pairs`."""
        main, source = chosen_features(selection, given.source), given.source
        with closing(measured(source, runtime, given.rows, self.missing)) as reader:
            Q = basis(reader, given.covariates, main)
            y = _checked(given.y, reader.n_samples)
            labels = Labels.of(label_columns(y), Q, linked=self.linked, least=self.least)
            columns = labels.U.shape[1], Q.shape[1]
            self.forecast(source, len(y), columns, runtime.n_here).check(self.memory)
            asked = {"n": self.n_pairs, "n_permutations": self.n_permutations, "seed": self.seed}
            with kept_at(self.checkpoint, self._identity(reader, given, labels)) as kept:
                found = scan_pairs(reader, labels, kept, **asked)
        C = given.covariates
        about = {
            "n_samples": reader.n_samples,
            "n_features": source.n_features,
            "n_constant": int(reader.scaling.constant.sum()),
            "n_main_effects": int(main.size),
            "n_covariates": 0 if C is None else int(np.size(C[0])),
            "least": self.least,
            "linked": self.linked,
            "random_state": self.seed,
            "n_permutations": self.n_permutations,
            "alpha": self.alpha,
        }
        about |= given.filtered.attributes() | {"n_features_filtered": source.n_features_filtered}
        return _result(found, labels, source, about)

    def forecast(
        self, source: AbstractSource, m: int, columns: tuple[int, int], n_tasks: int
    ) -> Forecast:
        """What it will take over m samples of a source; `columns` and `n_tasks` as there."""
        d = source.n_features
        n_pairs, permuted = n_pairs_of(d), n_pairs_of(min(d, MOST_PERMUTED))
        return Forecast.of(
            m,
            d,
            columns=columns,
            permuted=(permuted if self.n_permutations else 0, self.n_permutations),
            screens=is_screened(n_pairs, self.n_pairs),
            itemsize=np.dtype(source.dtype).itemsize,
            n_tasks=n_tasks,
        )

    def _identity(self, reader: Reader, given: Labelled, labels: Labels) -> dict[str, Any]:
        """What a scan must share with the one whose findings are kept."""
        if self.checkpoint is None:
            return {}
        values = sha256(reader.scaling.checksum.tobytes())
        taken = sha256(labels.U.tobytes() + labels.Q.tobytes())
        taken.update(repr(None if given.rows is None else given.rows.tolist()).encode())
        parameters = {
            "scan": "pairs",
            "n_pairs": self.n_pairs,
            "n_permutations": self.n_permutations,
            "least": self.least,
            "linked": self.linked,
            "random_state": self.seed,
            "labels": taken.hexdigest(),
            "values": values.hexdigest(),
        }
        source = given.source.fingerprint()
        return {"source": source, "parameters": parameters, "versions": versions()}


def measured(
    source: AbstractSource, runtime: AbstractRuntime, rows: Index | None, missing: str
) -> Reader:
    """Reader of a source, of which it knows the scaling, and has loaded what fits in memory."""
    reader, _ = looked_at(source, runtime, rows, stacklevel=4)
    reader.measure(Measure(standardize=True)).check(missing, standardize=True, has_bandwidth=False)
    return reader


def basis(reader: Reader, covariates: Array | None, main: Index) -> Float:
    """Orthonormal basis Q (m, q) of the mean, covariates and main effects."""
    m, varying = reader.n_samples, main[~reader.scaling.constant[main]]
    if not varying.size:
        return covariate_basis(covariates, m)
    if varying.size >= m // 2:
        raise InputError(
            f"selection= has {varying.size} features and there are {m} samples: their main effects "
            "leave too little of the labels. Pass fewer than half as many as samples."
        )
    columns = [reader.values(varying).T]
    if covariates is not None:
        columns.insert(0, covariate_basis(covariates, m)[:, 1:])
    return covariate_basis(np.column_stack(columns), m)


def _checked(y: Array | None, m: int) -> Array:
    """Labels; refused where they are of other samples."""
    if y is None or len(y) != m:
        n = 0 if y is None else len(y)
        raise InputError(
            f"target has {n} labels and the data have {m} samples; pass one label a sample, in "
            "the order of the samples."
        )
    return y


def _result(
    scanned: Scanned, labels: Labels, source: AbstractSource, about: Mapping[str, Any]
) -> xr.Dataset:
    """Pairs as a table, and what there is to say of them."""
    found, log_p, null = scanned.found, scanned.log_p, scanned.null
    first, second = found.pairs.T
    stored, names = stored_positions(source), source.feature_names()
    columns: dict[str, Array] = {"first": stored[first], "second": stored[second]}
    if names is not None:
        columns |= {"first_feature": names[first], "second_feature": names[second]}
    columns |= {"share": found.shares, "p_value": np.exp(log_p)}
    attributes = dict(about) | {
        "n_pairs": scanned.n_pairs,
        "n_reaching": found.n_reaching,
        "n_judged": found.n_judged,
        "reach": scanned.reach,
        "label_columns": labels.degrees[0],
        "degrees_of_freedom": labels.degrees[1],
    }
    if null is not None:
        columns["family_wise"] = null.family_wise(log_p)
        columns["false_discovery"] = null.false_discovery(log_p)
        attributes |= {
            "threshold": labels.share_at(float(np.exp(null.log_p_at(about["alpha"])))),
            "n_pairs_permuted": scanned.n_permuted,
            "null_location": null.location,
            "null_scale": null.scale,
        }
        if scanned.audited is not None:
            attributes["n_audited"], attributes["n_lost"] = scanned.audited
        if null.scale > HEAVY:
            warnings.warn(
                "The largest shares of permuted labels are far above those of normal labels (scale "
                f"{null.scale:.1f} in place of 1): few samples decide them. Family-wise p-values "
                "allow for that and find less; take ranks or logarithms of the labels, or leave "
                "out rare features.",
                stacklevel=4,
            )
    columns["linkage"] = found.linked
    return xr.Dataset(
        {
            name: ("pairs", values, {"description": DESCRIPTIONS[name]})
            for name, values in columns.items()
        },
        attrs=attributes,
    )
