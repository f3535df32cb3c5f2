"""How much of many cases is tried: some by default, all with ``--hypothesis-profile=thorough``."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")

#: How many times as many examples the profile in use has as the default one, of 15.
TIMES = max(1, settings.default.max_examples // 15)


def examples(n: int) -> settings:
    """Settings of a law whose examples are dear: n of them, and more as the profile has more."""
    return settings(max_examples=n * TIMES)


def one_in(n: int, cases: Sequence[Case], *, first: int = 0) -> Sequence[Case]:
    """Every n-th case from case `first % n` on; every case with a thorough profile."""
    return cases if TIMES > 1 else cases[first % n :: n]
