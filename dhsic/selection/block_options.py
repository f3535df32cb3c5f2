"""Check that the parameters of a method support samples in blocks.

Samples of a block, for example of one donor, are not independent. `dhsic.linalg.blocks` explains
how their labels are permuted.
"""

from __future__ import annotations

from copy import copy
from numbers import Real
from typing import Any

from dhsic.errors import InputError
from dhsic.kernels.labels import SELF
from dhsic.linalg.blocks import Blocks
from dhsic.selection.run import Method

#: Parameters of steps that treat samples as independent, and the reason, for error messages.
OF_SAMPLES = {
    "holdout": "holds out single samples, so samples of a block would be on both sides",
    "stability": "splits samples, so samples of a block would be in both halves",
    "control": "permutes single samples",
}


def takes_blocks(selector: Method) -> bool:
    """Whether the method has p-values that allow for blocks of samples."""
    if selector.label_kernel in ("precomputed", SELF):
        return False
    try:
        selector.check_blocks("")
    except InputError:
        return False
    return True


def with_blocks(selector: Method, blocks: Blocks) -> Method:
    """Return a copy of the method for samples in blocks, without its default scan of pairs.

    Raises
    ------
    InputError
        A parameter of the method treats samples as independent.
    """
    blocks.check()
    own: dict[str, Any] = selector.get_params(deep=False)
    for name, reason in OF_SAMPLES.items():
        if own.get(name):
            raise InputError(
                f"{name}={own[name]!r} {reason}. {blocks.options} does not allow this. Leave one "
                "of the two out."
            )
    if not isinstance(own["n_features_to_select"], Real | None):
        raise InputError(
            "n_features_to_select='auto' splits samples, so samples of a block would be on both "
            f"sides. {blocks.options} does not allow this. Pass a number of features."
        )
    if own.get("interactions") not in (None, "auto"):
        raise InputError(
            f"interactions={own['interactions']!r} tests pairs of features as if samples were "
            f"independent. {blocks.options} does not allow this. Pass interactions=None."
        )
    if selector.label_kernel in ("precomputed", SELF):
        raise InputError(
            f"{blocks.options} needs one label per sample, not "
            f"label_kernel={selector.label_kernel!r}; pass labels, or leave the blocks out."
        )
    selector.check_blocks(blocks.options)
    if own.get("interactions") == "auto":
        return copy(selector).set_params(interactions=None)
    return selector
