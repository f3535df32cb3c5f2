"""Warning of features whose missing values depend on the labels (`dhsic.criteria.missingness`).

Females lack Y, so missing values on Y are those of males, as in the filters (`dhsic.joins.sexes`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhsic._typing import Float, Index
from dhsic.criteria.missingness import LEVEL, MissingnessTest, missing_by_label
from dhsic.errors import warn
from dhsic.joins.places import described
from dhsic.joins.sexes import males_of, on_y
from dhsic.selection.run import SelectionRun
from dhsic.sources.columns import NAME
from dhsic.sources.sexes import dosages_of
from dhsic.sources.views import SubsetSource

#: Maximum number of features that the warning names, and that its filter lists.
MOST_NAMED, MOST_LISTED = 5, 50
#: Fewest males whose missing values are tested, and features read at a time.
FEWEST_MALES, BLOCK_FEATURES = 3, 1024


def warn_of_missing(
    run: SelectionRun, log10_p: Float, alive: Index, test: MissingnessTest | None
) -> int:
    """Warn of features whose missing values depend on the labels; return their number.

    Parameters
    ----------
    run : SelectionRun
        Run whose samples and features they are.
    log10_p : (n,)
        ``-log10 p`` of the test of missing values (`dhsic.criteria.missingness`).
    alive : (n,)
        Positions of the features that vary.
    test : MissingnessTest or None
        Test of the labels of the run, for features on Y.
    """
    source = run.source
    features = missing_by_label(_of_males_on_y(run, log10_p, alive, test), alive)
    n = features.size
    if not n:
        return 0
    first, variable = features[:MOST_LISTED].tolist(), described(source).get(NAME)
    if variable is not None:
        names = [str(variable.read(slice(j, j + 1))[0]) for j in first]
    elif (every := source.feature_names()) is not None:
        names = [str(every[j]) for j in first]
    else:
        names = []
    exclude = _exclusion(names, n)
    named = (names or [f"feature {j}" for j in first])[:MOST_NAMED]
    more = ", ..." if n > MOST_NAMED else ""
    what = "1 feature" if n == 1 else f"{n:,} features"
    warn(
        f"Missing values depend on the labels in {what} ({', '.join(named)}{more}; Bonferroni "
        f"level {LEVEL:g}). The missing values themselves cannot cause an association, because "
        "each feature is tested on the samples that have a value. But if samples were measured "
        "in different ways, the values may differ too. To exclude "
        f"{'it' if n == 1 else 'them'}: {exclude}. Or allow fewer missing values (max_missing=).",
    )
    return int(n)


def _exclusion(names: Sequence[str], n: int) -> str:
    """Return the parameter that excludes `n` features, with their names if all are known."""
    if not names or n > MOST_LISTED:
        return "exclude="
    is_plain = all(name.split() == [name] for name in names)  # spaces separate ids in a file
    listed = [*names]
    return f"filters=dhsic.Filters(exclude={listed!r})" if is_plain else f"not_features={listed!r}"


def _of_males_on_y(
    run: SelectionRun, log10_p: Float, alive: Index, test: MissingnessTest | None
) -> Float:
    """``-log10 p`` (n,) in which features on Y have that of males; 0 if sexes are not known."""
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
    of_males, here = MissingnessTest(F), SubsetSource(run.source, alive[at])
    for block in here.blocks(BLOCK_FEATURES):
        _, missing = dosages_of(here, block, np.arange(block.width), rows[is_male])
        lacking = missing.astype(np.float64)
        values = of_males.log10_p(lacking @ F, lacking.sum(axis=1))
        log10_p[at[block.start : block.stop]] = values
    return log10_p
