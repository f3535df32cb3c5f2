r"""Shadow features: permuted copies that estimate how many selected features are false.

The samples of each copy are permuted, so shadows are independent of the labels. With K copies, (K +
1) d features take part in the selection, and some of the best ones are shadows. The mean number of
shadows per copy estimates the number of false features. If S shadows and R features are in front,
the share of false ones is about ``(1 + S) / (K R)`` (Barber and Candes, 2015, "knockoff+"; for
several copies, Gimenez and Zou, 2019). Here it is

    ``(1 + S + max_k S_k) / (K R)``,

where the copy with the most shadows in front, S_k, counts twice. Features are discovered down to
the last place at which this rate is at most ``fdr``. There are ``1 / fdr`` copies, enough to
discover a single feature ahead of all shadows, and one more.

A false feature is independent of the labels and of all features that are not. No method can tell
such features from their shadows, so they may be exchanged in any copy; if they were also
independent of each other, ``(1 + S) / (K R)`` would control the rate as knockoffs do. Linked
features come in clusters, and one of the K + 1 copies has the largest cluster in front: therefore
there are several copies, and the worst one is added. That this controls the rate is shown by
simulation (``docs/real.md``), not proven. Unlike with knockoffs, a feature in linkage with a causal
one depends on the labels and is not a false discovery.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dhsic.errors import InputError
from dhsic.kernels.labels import SELF
from dhsic.results.schema import Outcome
from dhsic.selection.run import SelectionRun
from dhsic.sources.values import recoded
from dhsic.sources.views import ShadowedSource
from dhsic.validation import seed_of

#: Tolerance in the number of copies.
ROUNDING = 1e-9
RATE = "estimated part of false ones among this feature and all better ones, from their shadows"
ABOVE = "shadows, of all copies, that rank above the feature"


def n_copies(fdr: float) -> int:
    """Number of copies for a false discovery rate."""
    return int(np.ceil(1.0 / fdr - ROUNDING)) + 1


def with_shadows(run: SelectionRun) -> SelectionRun:
    """Add shadows to the features of a run, if it asks for them."""
    selector = run.selector
    if selector.control is None:
        return run
    if selector.label_kernel == SELF or run.groups is not None:
        what = "groups" if run.groups is not None else "label_kernel='self'"
        raise InputError(
            f"control='shadow' compares single features with copies that know nothing of labels, "
            f"and there are {what}; leave one of them out."
        )
    run.check_sizes()
    source = ShadowedSource(
        run.source, n_copies(selector.fdr), seed_of(selector.random_state), run.rows
    )
    return replace(run.asking(n_features_to_select=run.n_wanted), source=source)


def without_shadows(run: SelectionRun, outcome: Outcome) -> tuple[Outcome, int | None]:
    """Remove shadows from an outcome; returns it and the number of discovered features.

    The outcome of a run without shadows is returned unchanged, with None.
    """
    shadowed, order = run.source, outcome.order
    if not isinstance(shadowed, ShadowedSource):
        return outcome, None
    d, fdr = shadowed.n_real, run.selector.fdr
    copies = order.features[::-1] // d  # the best first; 0 for the features themselves
    real, worst = copies == 0, np.zeros(copies.size)
    for copy in range(1, shadowed.n_copies + 1):
        np.maximum(worst, np.cumsum(copies == copy), out=worst)
    n_shadows, n_real = np.cumsum(~real), np.cumsum(real)
    rate = (1.0 + n_shadows + worst) / (shadowed.n_copies * np.maximum(n_real, 1))
    rate = np.minimum(rate, 1.0)
    rate = np.minimum.accumulate(rate[::-1])[::-1][real]
    places, above = order.features[::-1][real], np.full((2, d), np.nan)
    above[:, places] = rate, n_shadows[real]
    columns = {"fdr": (above[0], RATE), "shadows_above": (above[1], ABOVE)}
    of_real = {name: (values[:d], meaning) for name, (values, meaning) in order.extra.items()}
    n_discovered = int((rate <= fdr).sum())
    attributes = {
        "control": "shadow",
        "fdr": float(fdr),
        "n_shadow_copies": shadowed.n_copies,
        "n_discovered": n_discovered,
    }
    order = order.at(order.features < d, attributes, **of_real | columns)
    scaling = outcome.scaling.take(slice(d))
    source = recoded(shadowed.base, outcome.values)
    return replace(outcome, order=order, scaling=scaling, source=source), n_discovered
