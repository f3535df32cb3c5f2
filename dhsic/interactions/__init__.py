r"""Interactions: pairs of features with a joint effect on the labels.

A selection scores all features together, so it misses a single pair among thousands. The polynomial
kernel of degree 2, for example, is a sum over all pairs. `find_pairs` tests each pair separately
(`dhsic.pairs.share`): does the product of the two features explain the labels after the mean,
covariates, main effects of known features and *both main effects of the pair* are regressed out? It
tests all d (d - 1) / 2 pairs of d features in tiles (`dhsic.pairs.tiles`), on threads or a Dask
cluster, for any source. Permutations give the null distribution of the largest share
(`dhsic.pairs.scan`). The best pairs are tested again, with the squares of their features regressed
out (`dhsic.pairs.rescore`).

`marginal_interactions` tests each feature for interactions with all others at once.
"""

from __future__ import annotations

from typing import Any, Literal

import xarray as xr

from dhsic.interactions.anova import ChosenFeatures, opened, shares
from dhsic.interactions.feature_sets import feature_sets
from dhsic.interactions.marginal import check_screen, marginal_interactions, screened
from dhsic.joins.filters import Filters
from dhsic.pairs.test import PairTest
from dhsic.renamed import takes_former_names
from dhsic.results.views import pairs_of
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.request import check_opening
from dhsic.validation import BYTES, seed_of

__all__ = ["PairTest", "find_pairs", "marginal_interactions", "pairs_of", "shares"]


@takes_former_names
def find_pairs(
    data: Any,
    target: Any,
    *,
    n_pairs: int = 100,
    selection: Any = None,
    first: Any = None,
    second: Any = None,
    environment: Any = None,
    screen: int | None = None,
    covariates: Any = None,
    label_kernel: str = "auto",
    alpha: float = 0.05,
    n_permutations: int = 100,
    functions: Literal[1, 2, 4] = 1,
    least: float = 0.5,
    linked: float = 0.9,
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
    """Find the pairs of features whose products explain the labels best.

    Parameters
    ----------
    data : path, URL, array, frame, xarray or source
        Samples x features, as in `dhsic.select`.
    target : array, frame or str
        Labels, (m,) or (m, t): classes or real values, as in `dhsic.select`; or the name of the
        variable of `data` that contains them. Times to an event, with `event` or as a structured
        array: products are tested against log-rank scores, as in a Cox model.
    n_pairs : int
        Maximum number of pairs to return.
    selection : Dataset, selector or sequence, optional
        Main effects of these features are regressed out of the labels first: a result of
        `dhsic.select`, a fitted selector, or positions or names of features. Pairs of these
        features are tested too. Main effects of features that `filters` exclude are regressed out
        as well, with a warning.
    first, second : sequence, optional
        Names or positions of features: only pairs of a feature of `first` with a feature of
        `second` are tested. If one of them is None, it contains all features. Features that
        `filters` exclude are ignored.
    environment : str, list of str, array or frame, optional
        Instead of pairs of features, test each feature (of `first`, if passed) together with each
        of these columns, such as an exposure or a treatment: names of variables of `data`, or
        values, (m,) or (m, k), passed like covariates. Text is converted to one indicator per
        group, except for the first group. All columns and their squares are regressed out, as
        covariates are.
    screen : int, optional
        Scan only pairs that contain one of this number of features, those with the smallest
        p-values of `marginal_interactions`. Other pairs are not scored, which saves time. The
        p-values are the same as in a scan of all pairs, because the features were chosen with the
        labels.
    covariates : (m, q) array or frame, optional
        Covariates that are regressed out of labels and features, linearly.
    label_kernel : str
        Class kernels (``"multiclass"``) test against one indicator per class, ``"linear"`` and
        ``"gaussian"`` against the numbers. ``"auto"`` treats labels as classes if they are text,
        have two values, or are 3 to 5 whole numbers counted from 0 or 1; other labels are numbers.
    alpha : float
        Family-wise level of the threshold in the attributes of the result.
    n_permutations : int
        Permutations of the labels for the family-wise and false-discovery rates; 0 for none.
    functions : {1, 2, 4}
        Number of functions of each feature that are multiplied. 1: the feature itself. 2: the
        normal scores of its ranks, and a parabola of them. 4: two more functions with more turning
        points. With 2 or 4, main effects of both features by these functions are regressed out, and
        ring-shaped interactions are found, see `dhsic.pairs.products`; the scan takes 4 or 16 times
        as long.
    least : float
        A pair is tested only if its product keeps at least this share of its variance after both
        main effects are regressed out, relative to independent features. For example, pairs of rare
        variants without common carriers are not tested.
    linked : float
        A pair is tested only if the squared correlation of its features is at most this value.
    missing : {"mean", "error"}
        Replace missing values by the mean of their feature, or raise an error.
    random_state : int
        Seed of the permutations.
    checkpoint : path or URL, optional
        Folder, or URL in an object store, where partial results are saved: the same call continues
        from there, to the same result bit for bit.
    memory_limit : int, optional
        Memory limit of this process in bytes; by default the memory of the machine. A scan that
        needs more is rejected before it begins.
    runtime : {"auto", "threads", "dask"} or AbstractRuntime
        As in `dhsic.select`.
    sample_dim, variable, missing_code, pass_only, filters, by_position, event, entry, **opening
        As in `dhsic.select`; `opening` are other options of `dhsic.open_source`.

    Returns
    -------
    xarray.Dataset
        A row for each pair, the best first: ``first``, ``second`` (positions), names, chromosomes
        and positions of variants, ``share``, ``p_value``, ``family_wise``, ``false_discovery``,
        ``linkage``. ``share`` is the share of the labels that the product explains, with the
        squares of both features regressed out if that makes it smaller (``share_before`` is without
        squares). ``beta`` and ``se`` are the coefficient of the product and its standard error in a
        regression with covariates and both main effects (`dhsic.pairs.effects`), for one real
        target or two classes (then ``beta`` is a log odds ratio) and ``functions=1``. With
        `environment`, a column of this name replaces the columns of the second feature. Attributes
        give the number of pairs, the p-value down to which all of them were searched (``reach``),
        how many of the first pairs are certainly the best (``n_certain``), the share that is
        significant at family-wise level `alpha` (``threshold``), and the inflation of all shares
        relative to permuted labels (``inflation``), by which p-values are corrected
        (``corrected_by``) if it is significant. With `screen`, ``n_features_screened`` features and
        their pairs were scanned, of ``n_pairs_screened`` pairs.

    Raises
    ------
    InputError
        Labels or parameters are invalid, or there are too few samples.
    MemoryBudgetError
        The scan does not fit in memory.
    CheckpointError
        The checkpoint belongs to another scan, or has a writer.

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
    BYTES("memory_limit", memory_limit)
    test = PairTest(
        n_pairs=n_pairs,
        alpha=alpha,
        n_permutations=n_permutations,
        functions=functions,
        label_kernel=label_kernel,
        least=least,
        linked=linked,
        seed=seed_of(random_state),
        missing=missing,
        checkpoint=checkpoint,
        memory_limit=memory_limit,
        with_effects=True,
    ).check()
    check_screen(screen, functions)
    where: Any = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    where |= {"pass_only": pass_only, "filters": filters, "by_position": by_position}
    where |= {"event": event, "entry": entry, "environment": environment}
    check_opening("find_pairs", opening)
    labelled = opened(data, target, covariates, runtime, **where, **opening)
    with running(runtime) as there:
        chosen = ChosenFeatures.of(selection, labelled.source)
        sets = feature_sets(first, second, labelled)
        test, (among, partners) = screened(test, screen, labelled, there, chosen, sets)
        elsewhere = chosen.elsewhere
        return test.of(labelled, there, chosen.here, among, second=partners, elsewhere=elsewhere)
