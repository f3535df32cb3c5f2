"""Levels of ordinal labels: their order, from ``--order``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.text import is_missing
from dhsic.kernels.ordinal import levels_of
from dhsic.sources.ids import abbreviate
from dhsic.sources.sentinels import written
from dhsic.validation import is_numeral


def levels_by_target(order: Sequence[str], targets: Sequence[str]) -> dict[str, list[str]]:
    """Parse the values of ``--order``: the levels of each target, from the lowest to the highest.

    Each text in `order` is ``low,medium,high``. If there are several targets, it must be
    ``NAME=low,medium,high``.

    >>> levels_by_target(["low,high"], ["grade"]), levels_by_target(["b=1,2"], ["a", "b"])
    ({'grade': ['low', 'high']}, {'b': ['1', '2']})
    """
    levels: dict[str, list[str]] = {}
    for text in order:
        name = next((target for target in targets if text.startswith(f"{target}=")), None)
        listed = text.removeprefix(f"{name}=")
        if name is None:
            if len(targets) != 1:
                raise InputError(
                    f"--order {shlex.quote(text)} does not name its target. Pass --order "
                    f"NAME=LEVELS, where NAME is one of {', '.join(targets) or 'the targets'}."
                )
            name = targets[0]
        names = [each.strip() for each in listed.split(",")]
        if len({*map(_key, names)}) < max(2, len(names)) or "" in names or name in levels:
            raise InputError(
                f"--order {shlex.quote(text)} does not list two or more levels of {name!r}, each "
                "once. Pass them from the lowest to the highest, between commas, for example "
                "--order low,medium,high."
            )
        levels[name] = names
    return levels


def in_order(name: str, values: Array, levels: Mapping[str, list[str]]) -> Array:
    """Convert labels `name` (m,) to levels, "" if missing; other labels are returned unchanged.

    Raises
    ------
    InputError
        Some values are not among the levels.
    """
    if name not in levels:
        return values
    names = levels[name]
    positions = {_key(level): position for position, level in enumerate(names)}
    present = np.flatnonzero(~is_missing(values))
    texts = [written(v) if isinstance(v, float) else str(v).strip() for v in values[present]]
    codes = np.full(values.size, -1)
    codes[present] = [positions.get(_key(text), len(names)) for text in texts]
    unlisted = codes == len(names)
    if unlisted.any():
        others = sorted({text for text in texts if _key(text) not in positions})
        na = " ".join(f"--na {shlex.quote(f'{name}={text}')}" for text in others[:5])
        raise InputError(
            f"{int(unlisted.sum()):,} of {values.size:,} labels of {name!r} are not levels of "
            f"--order: {abbreviate(map(repr, others))}. Add these levels to --order, each at its "
            f"place; or, if they mean missing, pass {na} --drop-missing."
        )
    return levels_of(codes, names)


def _key(text: str) -> float | str:
    """Return the key for comparing levels: a number if possible, so that "1" equals "1.0"."""
    return float(text) if is_numeral(text) else text
