"""Marginal interactions: features that act together with any of many others; screen of pairs.

A test of all pairs finds one strong pair among a million, but not a feature with many weak
partners, because each of its pairs is too weak. `marginal_interactions` adds up the evidence of all
pairs in one statistic for each feature (`dhsic.pairs.marginal`). This takes one more pass over the
data instead of a scan of all pairs. `screened` uses it to limit a scan to pairs of the best
features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from dhsic._typing import Index
from dhsic.errors import InputError
from dhsic.interactions.anova import ChosenFeatures, opened
from dhsic.interactions.feature_sets import feature_sets
from dhsic.joins.filters import Filters
from dhsic.joins.labels import Labelled
from dhsic.pairs.marginal_test import MarginalInteractionTest
from dhsic.pairs.test import PairTest
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.request import check_opening
from dhsic.sources.views import stored_positions
from dhsic.validation import BYTES, is_count, seed_of


def marginal_interactions(
    data: Any,
    target: Any,
    *,
    selection: Any = None,
    first: Any = None,
    second: Any = None,
    covariates: Any = None,
    label_kernel: str = "auto",
    alpha: float = 0.05,
    missing: Literal["mean", "error"] = "mean",
    random_state: Any = 0,
    checkpoint: Any = None,
    memory_limit: int | None = None,
    runtime: Literal["auto", "threads", "dask"] | AbstractRuntime = "auto",
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
    event: Any = None,
    entry: Any = None,
    **opening: Any,
) -> xr.Dataset:
    """Test whether each feature acts together with any of the others (marginal epistasis).

    The products of a feature with all others are one kernel, as in MAPIT (Crawford et al., 2017).
    `dhsic.pairs.marginal` has the statistic and its null distribution. It takes a few matrix
    products of (m, m) matrices per block of features: 2,000 samples x 1,000,000 features take
    minutes, and memory of twelve (m, m) matrices in float64 is needed.

    Parameters
    ----------
    data, target
        As in `dhsic.find_pairs`. Several targets or classes are tested jointly.
    selection : Dataset, selector or sequence, optional
        Main effects of these features are regressed out of labels and features first, as in
        `dhsic.find_pairs`. Pass the features that act alone.
    first : sequence, optional
        Names or positions of the features that are tested; default: all.
    second : sequence, optional
        Names or positions of their possible partners; default: all.
    covariates : (m, q) array or frame, optional
        Covariates that are regressed out of labels and features, linearly.
    label_kernel, missing
        As in `dhsic.find_pairs`.
    alpha : float
        Family-wise level of ``detectable_share`` in the attributes.
    random_state : int
        Seed of the permutations that calibrate the p-values.
    checkpoint : path or URL, optional
        Folder, or URL in an object store, where results are saved: the same call continues from
        there, to the same result bit for bit.
    memory_limit : int, optional
        Memory limit of this process in bytes; by default the memory of the machine. A test that
        needs more is rejected before it begins.
    runtime : {"auto", "threads", "dask"} or AbstractRuntime
        As in `dhsic.select`.
    sample_dim, variable, missing_code, pass_only, filters, by_position, event, entry, **opening
        As in `dhsic.find_pairs`.

    Returns
    -------
    xarray.Dataset
        A row for each tested feature, the smallest p-value first: ``feature`` (position), name,
        chromosome and position of a variant, ``share`` (estimated fraction of the remaining
        variance of the labels that all its interactions explain; below 0 by chance), ``se``,
        ``p_value`` and ``q_value``. Features that are carried by fewer than about 16 samples are
        not tested. Attributes give their number (``n_tested``), and the share that is found with a
        power of 0.8 at family-wise level `alpha` (``detectable_share``).

    Raises
    ------
    InputError
        Labels or parameters are invalid, there are too few samples, or no feature can be tested.
    MemoryBudgetError
        The test does not fit in memory.
    CheckpointError
        The checkpoint belongs to another test, or has a writer.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.interactions import marginal_interactions
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 60))
    >>> y = X[:, 3] * X[:, 10:30].sum(axis=1) / 4 + rng.standard_normal(300)
    >>> found = marginal_interactions(X, y)
    >>> found["feature"][0].item(), found["p_value"][0].item() < 1e-4
    (3, True)
    """
    BYTES("memory_limit", memory_limit)
    test = MarginalInteractionTest(
        alpha=alpha,
        seed=seed_of(random_state),
        missing=missing,
        checkpoint=checkpoint,
        memory_limit=memory_limit,
        label_kernel=label_kernel,
    ).check()
    where: Any = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    where |= {"pass_only": pass_only, "filters": filters, "by_position": by_position}
    where |= {"event": event, "entry": entry}
    check_opening("marginal_interactions", opening)
    labelled = opened(data, target, covariates, runtime, **where, **opening)
    with running(runtime) as there:
        chosen = ChosenFeatures.of(selection, labelled.source)
        sets = feature_sets(first, second, labelled)
        return test.of(labelled, there, chosen.here, *sets, elsewhere=chosen.elsewhere)


def check_screen(screen: int | None, functions: int) -> None:
    """Reject an invalid number of features to screen."""
    if screen is None:
        return
    if not is_count(screen):
        raise InputError(f"screen={screen!r}; pass a whole number from 1.")
    if functions > 1:
        raise InputError(
            f"screen={screen} ranks features by products of their values, but "
            f"functions={functions} multiplies functions of their ranks. Leave out one of the two."
        )


def screened(
    test: PairTest,
    n: int | None,
    given: Labelled,
    runtime: AbstractRuntime,
    chosen: ChosenFeatures,
    sets: tuple[Index | None, Index | None],
) -> tuple[PairTest, tuple[Index | None, Index | None]]:
    """Limit a test to pairs of the n features with the smallest marginal p-values.

    Returns the test and both sets of features; p-values are for a test of all pairs. If n is None,
    the test and the sets are unchanged. The checkpoint of the marginal test is stored beside the
    checkpoint of the scan, with the suffix ``.marginal``.
    """
    if n is None:
        return test, sets
    if given.environment is not None:
        raise InputError(
            "screen= limits a scan of pairs of features, but environment= tests single features. "
            "Leave out one of the two."
        )
    checkpoint = None if test.checkpoint is None else f"{test.checkpoint}.marginal"
    marginal = replace(MarginalInteractionTest.like(test), checkpoint=checkpoint)
    table = marginal.of(given, runtime, chosen.here, *sets, elsewhere=chosen.elsewhere)
    best = table["feature"].to_numpy()[:n]
    everyone = np.arange(given.source.n_features)
    among, partners = (everyone if some is None else some for some in sets)
    here = np.flatnonzero(np.isin(stored_positions(given.source), best))
    return replace(test, screened=(among, partners)), (np.intersect1d(among, here), partners)


def planned_sets(
    screen: int | None, given: Labelled, sets: tuple[Index | None, Index | None]
) -> tuple[Index | None, Index | None]:
    """Sets of features for a plan.

    The first `screen` features stand for the features that will be chosen later.
    """
    if screen is None:
        return sets
    everyone = np.arange(given.source.n_features)
    among, partners = (everyone if some is None else some for some in sets)
    return among[:screen], partners
