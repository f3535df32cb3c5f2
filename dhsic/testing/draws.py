"""Where p-values come from."""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.errors import InputError
from dhsic.lowrank.parameters import is_count

METHODS = ("permutation", "gamma", "normal")


@dataclass(frozen=True)
class Draws:
    """Method of a test, and its permutations."""

    method: str
    n_permutations: int
    seed: int

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(
                f"method={self.method!r} is unknown; pass one of {', '.join(METHODS)}."
            )
        if not is_count(self.n_permutations):
            raise InputError(
                f"n_permutations={self.n_permutations!r}; pass a whole number >= 1, such as 1000."
            )
        if not (is_count(self.seed) or (self.seed == 0 and self.seed is not False)):
            raise InputError(f"random_state={self.seed!r}; pass a whole number >= 0.")
