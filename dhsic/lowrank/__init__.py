"""Low-rank factors of the kernel matrix of the data, from inner products with landmarks."""

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
    rtol: float | None = None,
    **parameters: Any,
) -> AbstractFactorizer:
    """Create a factorizer by its name; return a factorizer object unchanged.

    `rank`, `rtol` and `parameters` are parameters of the factorizer; None means the default.

    Raises
    ------
    InputError
        `factorizer` is neither a known name nor a factorizer. Or the factorizer does not have a
        parameter, or a value is out of range. Or parameters are passed together with an object.
    """
    settings: dict[str, Any] = {"rank": rank, "rtol": rtol, **parameters}
    settings = {name: value for name, value in settings.items() if value is not None}
    if isinstance(factorizer, AbstractFactorizer):
        if settings:
            raise InputError(
                f"{', '.join(settings)} cannot be combined with the factorizer object "
                f"{factorizer!r}; set them there."
            )
        return factorizer
    if not isinstance(factorizer, str) or factorizer not in FACTORIZERS:
        raise InputError(
            f"factorizer={factorizer!r} is unknown; pass one of {', '.join(FACTORIZERS)} or an "
            "object such as dhsic.lowrank.Nystrom(rank=3)."
        )
    cls = FACTORIZERS[factorizer]
    parameter_names = [field.name for field in fields(cls)]
    unknown_names = [name for name in settings if name not in parameter_names]
    if unknown_names:
        raise InputError(
            f"The {factorizer} factorizer has no {', '.join(unknown_names)}; it has "
            f"{', '.join(parameter_names) or 'no parameters'}."
        )
    resolved: AbstractFactorizer = cls(**settings)
    return resolved
