"""Methods and options that support categories beside numbers."""

from __future__ import annotations

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


def check_categories(selector: Method, given: Labelled, feature_groups: Any) -> None:
    """Refuse methods and options that do not support categorical features.

    Raises
    ------
    InputError
        The message names the option, the columns, and their remedy.
    """
    names = given.source.feature_names()
    assert names is not None, "columns of tables have names"
    columns = [str(names[j]) for j in given.source.levels]
    options = selector.get_params(deep=False)
    if "criterion" in options:
        options["bandwidth_of_test"] = options.pop("bandwidth")
    refused = [
        f"{name.removesuffix('_of_test')}={options[name]!r}"
        for name, values in SUPPORTED.items()
        if name in options and options[name] not in values
    ]
    if not (selector.takes_groups or "criterion" in options):
        refused = [type(selector).__name__]
    if "kernel" in options and not resolve_kernel(options["kernel"]).of_inner_products:
        refused.append(f"kernel={options['kernel']!r}")
    if selector.label_kernel == SELF:
        refused.append(f"label_kernel={SELF!r}")
    if feature_groups is not None:
        refused.append("feature_groups=")
    if given.blocks is not None:
        refused.append(given.blocks.options)
    if given.sample_weight is not None:
        refused.append("sample_weight (CLI: --weights)")
    if refused:
        listed = abbreviate(map(repr, columns), 5)
        raise InputError(
            f"{refused[0]} does not support categories, and X has {len(columns)} categorical "
            f"feature{'s' if len(columns) > 1 else ''} ({listed}). Exclude the columns with text: "
            f"not_features={columns!r}. Or use BAHSIC, FOHSIC or OnePass(criterion='hsic') with "
            "their other defaults."
        )
