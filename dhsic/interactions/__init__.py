r"""Pairs of features that tell of the labels together what neither tells alone.

A selection judges features by all others at once, and a pair among thousands is lost in that: the
polynomial kernel of degree 2, for instance, is a sum over all pairs. `find_pairs` looks at each
pair by itself: whether the product of two features tells anything of the labels once the mean,
covariates, main effects of features already known and *both main effects of the pair* are out
(`dhsic.pairs.share`). It goes through all pairs of d features, d (d - 1) / 2 of them, in
tiles (`dhsic.pairs.tiles`) on threads or a Dask cluster, from whatever source; and says by
permutations what the largest share would be if there was nothing (`dhsic.pairs.scan`). The best
pairs are judged once more, given the squares of their features (`dhsic.pairs.judge`).
"""

from __future__ import annotations

from typing import Any, Literal

import xarray as xr

from dhsic.interactions.anova import ChosenFeatures, opened, shares
from dhsic.joins.filters import Filters
from dhsic.pairs.test import PairTest
from dhsic.results.views import pairs_of
from dhsic.runtime import running
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.request import check_opening
from dhsic.validation import BYTES, seed_of

__all__ = ["PairTest", "find_pairs", "pairs_of", "shares"]


def find_pairs(
    data: Any,
    target: Any,
    *,
    n_pairs: int = 100,
    selection: Any = None,
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
    memory: int | None = None,
    runtime: Literal["auto", "threads", "dask"] | AbstractRuntime = "auto",
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
    **opening: Any,
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
        Main effects of features that `filters` leave out are taken out all the same, of which a
        warning tells.
    covariates : (m, q) array or frame, optional
        Taken out of labels and features, linearly.
    label_kernel : str
        A kernel on classes (``"multiclass"``) tests against an indicator of each class,
        ``"linear"`` and ``"gaussian"`` against the numbers. ``"auto"``: classes where labels are
        text, of two values, or 3 to 5 numbers counted from 0 or 1; other numbers as they are.
    alpha : float
        Family-wise level of the threshold in the attributes of the result.
    n_permutations : int
        Permutations of the labels for the family-wise and false-discovery rates; 0 for none.
    functions : {1, 2, 4}
        Functions of each feature that are multiplied. 1: the feature itself. 2: the normal score of
        its ranks, and a parabola of them; 4: two more that turn more often. With several, both
        features' main effects of all these shapes are taken out, and pairs are found that act like
        a ring, see `dhsic.pairs.products`. It takes 4 or 16 times as long.
    least : float
        Pairs are tested whose product keeps at least this part of the variance that it has where
        features are independent, once both main effects are out: where two rare variants never
        meet there is nothing to test.
    linked : float
        Pairs are tested whose squared correlation, of the features as they are, is at most this.
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
    sample_dim, variable, missing_code, pass_only, filters, by_position, **opening
        As of `dhsic.select`; `opening` are other options of `dhsic.open_source`.

    Returns
    -------
    xarray.Dataset
        A row for each pair, the best first: ``first``, ``second`` (positions), names, chromosomes
        and positions of variants, ``share``, ``p_value``, ``family_wise``, ``false_discovery``,
        ``linkage``. ``share`` is what the product tells, given the squares of both features too if
        that is less (``share_before`` is without them). ``beta`` and ``se`` are the coefficient of
        the product, and its standard error, in a regression with covariates and both main effects
        (`dhsic.pairs.effects`): of one real target, or of two classes, for which ``beta`` is the
        logarithm of an odds ratio; with ``functions=1``. Attributes say how many pairs there are,
        down to which p-value all of them were looked for (``reach``), how many of the first are
        the best for certain (``n_certain``), the share that is significant at `alpha` family-wise
        (``threshold``), and how much larger all shares are than those of permuted labels
        (``inflation``), by which p-values are corrected (``corrected_by``) if chance does not give
        that.

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
        functions=functions,
        label_kernel=label_kernel,
        least=least,
        linked=linked,
        seed=seed_of(random_state),
        missing=missing,
        checkpoint=checkpoint,
        memory=memory,
        with_effects=True,
    ).check()
    where: Any = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    where |= {"pass_only": pass_only, "filters": filters, "by_position": by_position}
    check_opening("find_pairs", opening)
    given = opened(data, target, covariates, runtime, **where, **opening)
    with running(runtime) as there:
        chosen = ChosenFeatures.of(selection, given.source)
        return test.of(given, there, chosen.here, elsewhere=chosen.elsewhere)
