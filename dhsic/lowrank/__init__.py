"""Low-rank factors of the data kernel matrix, from inner products with landmarks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dhsic.errors import InputError
from dhsic.lowrank.base import AbstractFactorizer, Landmarks, measured_error
from dhsic.lowrank.factorizers import Cholesky, Nystrom, RandomFeatures, Spectral

__all__ = [
    "AbstractFactorizer",
    "Cholesky",
    "Landmarks",
    "Nystrom",
    "RandomFeatures",
    "Spectral",
    "measured_error",
]

FACTORIZERS: dict[str, type[Any]] = {
    factorizer.name: factorizer for factorizer in (Nystrom, Cholesky, Spectral, RandomFeatures)
}


def resolve_factorizer(
    factorizer: object,
    rank: int | None = None,
    tolerance: float | None = None,
    **parameters: Any,
) -> AbstractFactorizer:
    """Factorizer object for a name; objects pass.

    `rank`, `tolerance` and other parameters are those of its class; None stands for a default.

    Raises
    ------
    InputError
        An unknown name, something that is neither, a parameter that the factorizer does not have
        or one out of its range; parameters besides an object, which has its own.
    """
    given: dict[str, Any] = {"rank": rank, "tolerance": tolerance, **parameters}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(factorizer, AbstractFactorizer):
        if given:
            raise InputError(
                f"{', '.join(given)} came besides the factorizer {factorizer!r}; set them there."
            )
        return factorizer
    if not isinstance(factorizer, str) or factorizer not in FACTORIZERS:
        raise InputError(
            f"factorizer={factorizer!r} is unknown; pass one of {', '.join(FACTORIZERS)} or an "
            "object such as dhsic.lowrank.Nystrom(rank=3)."
        )
    cls = FACTORIZERS[factorizer]
    known = [field.name for field in fields(cls)]
    strange = [name for name in given if name not in known]
    if strange:
        raise InputError(
            f"The {factorizer} factorizer has no {', '.join(strange)}; it takes "
            f"{', '.join(known) or 'no parameters'}."
        )
    made: AbstractFactorizer = cls(**given)
    return made
