"""Check that the method and its options support categorical features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.kernels import resolve_kernel
from dhsic.kernels.labels import SELF
from dhsic.selection.run import Method
from dhsic.sources.ids import abbreviate

#: Values of options that support categories, by option.
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "interactions": (None, "auto"),
    "control": (None,),
    "clump_r2": (None,),
    "loco": (False,),
    "strategy": ("forward",),
    "solver": ("auto", "exact", "direct"),
    "criterion": ("hsic",),
    "bandwidth_of_test": ("auto", "multiscale"),
    "stages": ((),),
}


def refuse_unsupported(selector: Method, given: Labelled, feature_groups: Any) -> None:
    """Reject methods and options without support of categories, if features are categorical.

    Raises
    ------
    InputError
        The message names the option and the columns, and says what to do.
    """
    if not given.source.levels:
        return
    names = given.source.feature_names()
    assert names is not None, "columns of tables have names"
    columns = [str(names[j]) for j in given.source.levels]
    conflicts = {
        "feature_groups=": feature_groups is not None,
        "sample_weight (CLI: --weights)": given.sample_weight is not None,
        "" if given.blocks is None else given.blocks.options: given.blocks is not None,
    }
    refused = [*_unsupported(selector), *(name for name, is_so in conflicts.items() if is_so)]
    if refused:
        several = "s" if len(columns) > 1 else ""
        raise InputError(
            f"{refused[0]} does not support categories, and X has {len(columns)} categorical "
            f"feature{several} ({abbreviate(map(repr, columns), 5)}). Exclude them: "
            f"not_features={columns!r}. Or use BAHSIC, FOHSIC or OnePass(criterion='hsic') without "
            "this option."
        )


def _unsupported(selector: Method) -> Iterator[str]:
    """Yield the names of the method and of those parameters that do not support categories."""
    options = selector.get_params(deep=False)
    if not (selector.takes_groups or "criterion" in options):
        yield type(selector).__name__
    if "criterion" in options:
        options["bandwidth_of_test"] = options.pop("bandwidth")
    for name, values in SUPPORTED.items():
        if name in options and options[name] not in values:
            yield f"{name.removesuffix('_of_test')}={options[name]!r}"
    if "kernel" in options and not resolve_kernel(options["kernel"]).of_inner_products:
        yield f"kernel={options['kernel']!r}"
    if selector.label_kernel == SELF:
        yield f"label_kernel={SELF!r}"
