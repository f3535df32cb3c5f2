"""Warning of features with missing values that depend on the labels.

The test is in `dhsic.criteria.missingness`. On chromosome Y it only uses males, because females
have no Y. Filters do the same (`dhsic.joins.sexes`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.criteria.missingness import LEVEL, MissingnessTest, missing_by_label
from dhsic.errors import warn
from dhsic.joins.sexes import males_of, on_y
from dhsic.selection.run import SelectionRun
from dhsic.sources.columns import NAME
from dhsic.sources.sexes import dosages_of
from dhsic.sources.views import SubsetSource, described

#: Maximum number of features that the warning names, and that it lists in the parameter that
#: excludes them.
MOST_NAMED, MOST_LISTED = 5, 50
#: Minimum number of males for a test of features on Y; number of features read at a time.
FEWEST_MALES, BLOCK_FEATURES = 3, 1024
#: Maximum missing rates that the warning proposes.
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def warn_of_missing(
    run: SelectionRun,
    log10_p: Float,
    alive: Index,
    n_missing: Index,
    test: MissingnessTest | None,
) -> int:
    """Warn of features with missing values that depend on the labels; return their number.

    Parameters
    ----------
    run : SelectionRun
        Run that tests the features.
    log10_p : (n,)
        ``-log10 p`` of the test whether missing values of a feature depend on the labels.
    alive : (n,)
        Positions of these n features; they are the features that vary.
    n_missing : (n,)
        Number of missing values of each feature.
    test : MissingnessTest or None
        Test for the labels of the run; it tests features on Y again, in males. If None,
        features on Y are not tested.
    """
    source = run.source
    features = missing_by_label(_with_y_of_males(run, log10_p, alive, test), alive)
    n = features.size
    if not n:
        return 0
    first, name_variable = features[:MOST_LISTED].tolist(), described(source).get(NAME)
    if name_variable is not None:
        names = [str(name_variable.read(slice(j, j + 1))[0]) for j in first]
    elif (all_names := source.feature_names()) is not None:
        names = [str(all_names[j]) for j in first]
    else:
        names = []
    m = source.n_samples if run.rows is None else len(run.rows)
    remedy = _threshold(n_missing / m, np.isin(alive, features))
    if names and n <= MOST_LISTED:
        these = "it" if n == 1 else "them"
        remedy = f"To exclude {these}: {_exclusion(names)}. {remedy}"
    shown = (names or [f"feature {j}" for j in first])[:MOST_NAMED]
    more = ", ..." if n > MOST_NAMED else ""
    what = "1 feature" if n == 1 else f"{n:,} features"
    warn(
        f"Missing values depend on the labels in {what} ({', '.join(shown)}{more}; Bonferroni "
        f"level {LEVEL:g}). The missing values themselves cannot cause an association, because "
        "each feature is tested on the samples that have a value. But if samples were measured "
        f"in different ways, the values may differ too. {remedy}",
    )
    return int(n)


def _threshold(rates: Float, is_warned: Mask) -> str:
    """Advise on the `max_missing` that excludes the features of a warning.

    `rates` (n,) are the missing rates of all features; `is_warned` (n,) marks the features of the
    warning.

    >>> _threshold(np.array([0.01, 0.08, 0.03, 0.3]), np.array([False, True, False, True]))
    'max_missing=0.05 excludes them by their missing rate.'
    """
    lowest = rates[is_warned].min()
    below = [rate for rate in RATES if rate < lowest]
    if not below:
        return "max_missing= excludes features by their missing rate."
    n_others = int((rates[~is_warned] > below[-1]).sum())
    others = f", with {n_others:,} other{'s' * (n_others > 1)}" if n_others else ""
    them, whose = ("it", "its") if is_warned.sum() == 1 else ("them", "their")
    return f"max_missing={below[-1]:g} excludes {them} by {whose} missing rate{others}."


def _exclusion(names: Sequence[str]) -> str:
    """Return the Python argument that excludes the features with these `names`."""
    is_plain = all(name.split() == [name] for name in names)  # spaces separate ids in a file
    listed = [*names]
    return f"filters=dhsic.Filters(exclude={listed!r})" if is_plain else f"not_features={listed!r}"


def _with_y_of_males(
    run: SelectionRun, log10_p: Float, alive: Index, test: MissingnessTest | None
) -> Float:
    """Return ``-log10 p`` (n,), in which features on Y have the result of a test in males.

    Features on Y get 0 if sexes are unknown, or if there are too few males.
    """
    mask = on_y(run.source) if (log10_p > 0).any() else None
    if mask is None:
        return log10_p
    log10_p, at = log10_p.copy(), np.flatnonzero(mask[alive])
    log10_p[at], males = 0.0, males_of(run.source)
    if males is None or test is None or not at.size:
        return log10_p
    rows = np.arange(run.source.n_samples) if run.rows is None else run.rows
    is_male = males[rows]
    F = test.F[is_male]
    F = F - F.mean(axis=0) if len(F) else F
    if len(F) < FEWEST_MALES or np.allclose(F, 0.0):
        return log10_p
    test_of_males, features_on_y = MissingnessTest(F), SubsetSource(run.source, alive[at])
    for block in features_on_y.blocks(BLOCK_FEATURES):
        _, mask_of_males = dosages_of(features_on_y, block, np.arange(block.width), rows[is_male])
        missing = mask_of_males.astype(np.float64)
        values = test_of_males.log10_p(missing @ F, missing.sum(axis=1))
        log10_p[at[block.start : block.stop]] = values
    return log10_p
