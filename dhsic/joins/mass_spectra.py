"""Columns or rows of metabolomics tables that are not samples: m/z and retention times (RT).

Programs for metabolomics write them between the names of features and the samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dhsic._typing import Array
from dhsic.errors import warn
from dhsic.sources.ids import abbreviate

#: Pattern of a name, in lower case, of a mass-to-charge ratio or a retention time, perhaps with
#: a statistic and a unit: "row m/z" (MZmine), "Average Rt(min)" (MS-DIAL), "mzmed" (XCMS).
_DESCRIPTION = re.compile(
    r"((row|average|avg|mean|median|quant|alignment)[ ._-]*)?"
    r"(m[/.]?z([ ._-]*ratio)?|mass[ ._-]to[ ._-]charge([ ._-]ratio)?|rt|ret(ention)?[ ._-]*time)"
    r"[ ._-]*(med|mean|min|max|start|end)?[ ._-]*[(\[]?(s|sec|seconds|min|minutes|da)?[)\]]?"
)


def describes_features(name: str) -> bool:
    """Whether a name stands for a mass-to-charge ratio or a retention time.

    >>> all(map(describes_features, ("m/z", "row retention time", "Average Rt(min)", "mzmed")))
    True
    >>> any(map(describes_features, ("RT1", "MZ_control", "art", "S01")))
    False
    """
    return _DESCRIPTION.fullmatch(name.strip().lower()) is not None


def about_descriptions(names: Iterable[object]) -> str:
    """Return a sentence on samples named like m/z or retention times; "" if there are none."""
    found = [name for name in map(str, names) if describes_features(name)]
    if not found:
        return ""
    seems = "seems" if len(found) == 1 else "seem"
    return (
        f"{abbreviate(map(repr, found), 3)} {seems} to describe features (mass or retention time), "
        "not samples."
    )


def warn_of_descriptions(names: Array | None) -> None:
    """Warn of samples named like mass-to-charge ratios or retention times; `names` is (m,)."""
    listed = [] if names is None else [n for n in map(str, names) if describes_features(n)]
    if listed:
        warn(
            f"{about_descriptions(listed)} Exclude {'it' if len(listed) == 1 else 'them'}: "
            f"filters=dhsic.Filters(remove={listed!r})."
        )
