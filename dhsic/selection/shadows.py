r"""Shadow features: permuted copies that estimate how many selected features are false.

The samples of each copy are permuted, so shadows are independent of the labels. With K copies, the
selection ranks (K + 1) d features, and some of the best are shadows. The mean number of shadows per
copy estimates the number of false features. If the best features include S shadows and R real
features, the fraction of false features among the R is about ``(1 + S) / (K R)`` (Barber and
Candes, 2015, "knockoff+"; for several copies, Gimenez and Zou, 2019). Here the estimate is

    ``(1 + S + max_k S_k) / (K R)``,

where S_k is the number of shadows of copy k, so the copy with the most shadows counts twice. The
discoveries are the features down to the last rank at which this estimate is at most ``fdr``. The
number of copies is ``1 / fdr`` plus one; with ``1 / fdr`` copies, a single feature ranked above all
shadows can be discovered.

A false feature is independent of the labels and of all true features. No method can distinguish
such features from their shadows, so they are exchangeable in every copy. If they were also
independent of each other, ``(1 + S) / (K R)`` would control the rate as knockoffs do. But linked
features form clusters, and the largest cluster may be ranked high in one of the K + 1 copies. This
is why there are several copies, and why the worst copy is counted twice. Simulations show that this
controls the rate (``docs/real.md``); there is no proof. Unlike with knockoffs, a feature in linkage
with a causal one depends on the labels and is not a false discovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import xarray as xr

from dhsic.errors import InputError
from dhsic.kernels.labels import SELF
from dhsic.results.schema import Outcome
from dhsic.selection.run import Method, SelectionRun
from dhsic.selection.stage import Stage, StageCost
from dhsic.sources.values import recoded
from dhsic.sources.views import ShadowedSource
from dhsic.validation import is_number, one_of, seed_of, such

#: Tolerance in the number of copies.
ROUNDING = 1e-9
RATE = "estimated false discovery rate among this and all better features (from shadows)"
ABOVE = "number of shadows, in all copies, that rank above the feature"


def n_copies(fdr: float) -> int:
    """Number of permuted copies of the features for a false discovery rate."""
    return int(np.ceil(1.0 / fdr - ROUNDING)) + 1


class Shadows(Stage):
    """Add permuted copies of all features, and count the features that rank above them."""

    name = "shadows"
    constraints: ClassVar = {
        "control": one_of((None, "shadow"), "'shadow', or None."),
        "fdr": such(
            lambda rate: is_number(rate) and 0 < rate < 1,
            "the fraction of discovered features that may be false, such as 0.1.",
        ),
    }
    parameters = ("control",)
    shares_reading = False

    @classmethod
    def check_parameters(cls, selector: Method) -> None:
        if selector.control is None:
            return
        is_default = selector.scans_pairs and selector.interactions == "auto"
        set_ = [name for name in ("stability", "clump_r2") if getattr(selector, name)]
        set_ += ["interactions"] if selector.interactions and not is_default else []
        for name in set_:
            raise InputError(
                f"control={selector.control!r} cannot be combined with {name}=, because {name}= "
                "does not support shadows. Leave one of them out."
            )

    def cost(self, run: SelectionRun) -> StageCost:
        n = n_copies(run.selector.fdr)
        return StageCost(note=f"includes {n} permuted copies of every feature (control='shadow')")

    def before(self, run: SelectionRun) -> SelectionRun:
        """Return the run with shadows added to its features."""
        selector = run.selector
        if selector.label_kernel == SELF or run.groups is not None:
            what = "groups" if run.groups is not None else "label_kernel='self'"
            raise InputError(
                "control='shadow' compares single features with permuted copies, so it does not "
                f"support {what}. Leave one of them out."
            )
        run.check_sizes()
        source = ShadowedSource(
            run.source, n_copies(selector.fdr), seed_of(selector.random_state), run.rows
        )
        return replace(run.asking(n_features_to_select=run.n_wanted), source=source)

    def after(self, run: SelectionRun, outcome: Outcome, parts: Sequence[Outcome]) -> Outcome:
        """Remove the shadows, and record the number of discovered features."""
        shadowed, order = run.source, outcome.order
        assert isinstance(shadowed, ShadowedSource), "they were added"
        d, fdr = shadowed.n_real, run.selector.fdr
        copies = order.features[::-1] // d  # number of the copy, best first; 0 for real features
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
        return replace(
            outcome,
            order=order.at(order.features < d, attributes, **of_real | columns),
            scaling=outcome.scaling.take(slice(d)),
            source=recoded(shadowed.base, outcome.values),
            n_discovered=n_discovered,
        )

    @classmethod
    def sentences(cls, result: xr.Dataset) -> Iterator[str]:
        """Report how many features were discovered with the shadows."""
        about = result.attrs
        if "control" not in about:
            return
        yield (
            f"{about['n_discovered']:,} features were discovered at a false discovery rate of "
            f"{about['fdr']:g}, with {about['n_shadow_copies']} permuted copies of each feature."
        )
        if not about["n_discovered"]:
            yield (
                "No feature ranks clearly above the permuted copies, so none is selected. Try a "
                "larger --fdr, fewer features (--extract, --maf), or dhsic test, which tests each "
                "feature alone. Without --control you get a ranking, but no error control."
            )
