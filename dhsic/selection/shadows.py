r"""Shadows: permuted copies of the features, which say how many of those selected are false.

Copies of all features whose samples are permuted have nothing to do with the labels. They take part
in a selection like any feature, with K copies (K + 1) d of them, and of the best ones some are
shadows. That many, in the mean of the copies, are expected to be false among as many features, so
that where S shadows and R features are in front the part of false ones is about ``(1 + S) / (K R)``
(Barber and Candes, 2015, "knockoff+"; of several copies, Gimenez and Zou, 2019). Here it is

    ``(1 + S + max_k S_k) / (K R)``,

the copy that has most in front, S_k of them, counting twice. Features are discovered down to the
last place at which it is ``fdr`` or less. Copies are as many that one feature in front of all
shadows is discovered: ``1 / fdr`` and one more.

False is a feature that is independent of the labels, and of all features that are not. Those and
their shadows may change places in any copy, for no method can tell them apart: where
they are independent of each other, too, ``(1 + S) / (K R)`` would control the rate as knockoffs do.
Linked ones come in heaps, of which copies have as many, and one of K + 1 has the largest: therefore
several copies, and what the worst of them adds. That this keeps the rate is seen by simulation
(``docs/real.md``), not proven. A feature in linkage with one that matters depends on the labels and
is no false discovery, in which shadows differ from knockoffs.
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

#: Of a number of copies.
ROUNDING = 1e-9
RATE = "estimated part of false ones among this feature and all better ones, from their shadows"
ABOVE = "shadows, of all copies, that rank above the feature"


def n_copies(fdr: float) -> int:
    """Copies that take part for a rate."""
    return int(np.ceil(1.0 / fdr - ROUNDING)) + 1


def with_shadows(run: SelectionRun) -> SelectionRun:
    """The run with shadows among its features, where it asks for them."""
    asked = run.selector
    if asked.control is None:
        return run
    if asked.label_kernel == SELF or run.groups is not None:
        what = "groups" if run.groups is not None else "label_kernel='self'"
        raise InputError(
            f"control='shadow' compares single features with copies that know nothing of labels, "
            f"and there are {what}; leave one of them out."
        )
    run.check_sizes()
    source = ShadowedSource(run.source, n_copies(asked.fdr), seed_of(asked.random_state), run.rows)
    return replace(run.asking(n_features_to_select=run.n_wanted), source=source)


def without_shadows(run: SelectionRun, outcome: Outcome) -> tuple[Outcome, int | None]:
    """The outcome of the features alone, and how many of them are discovered.

    Of a run without shadows as it is, and None.
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
    of_real = {name: (values[:d], said) for name, (values, said) in order.extra.items()}
    n_discovered = int((rate <= fdr).sum())
    told = {
        "control": "shadow",
        "fdr": float(fdr),
        "n_shadow_copies": shadowed.n_copies,
        "n_discovered": n_discovered,
    }
    order = order.at(order.features < d, told, **of_real | columns)
    scaling = outcome.scaling.take(slice(d))
    source = recoded(shadowed.base, outcome.values)
    return replace(outcome, order=order, scaling=scaling, source=source), n_discovered
