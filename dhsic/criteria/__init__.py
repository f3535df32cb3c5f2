"""Criteria related to HSIC that score each feature by itself (JMLR section 6), in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dhsic.criteria.base import AbstractCriterion
from dhsic.criteria.independence import Independence
from dhsic.criteria.kernels import MMD, QMI, TargetAlignment
from dhsic.criteria.linear import (
    Centroid,
    Pearson,
    RidgeRegression,
    ShrunkenCentroid,
    SignalToNoise,
    Welch,
)
from dhsic.criteria.moderated import LogOdds, ModeratedT
from dhsic.errors import InputError

#: Criteria by their names in the interface.
CRITERIA: Mapping[str, type[AbstractCriterion]] = {
    kind.name: kind
    for kind in (
        Pearson,
        Centroid,
        Welch,
        SignalToNoise,
        ModeratedT,
        LogOdds,
        ShrunkenCentroid,
        MMD,
        TargetAlignment,
        QMI,
        RidgeRegression,
        Independence,
    )
}


def criterion_of(name: object, given: Mapping[str, Any]) -> AbstractCriterion:
    """Create the criterion `name`, using the parameters in `given` that are not None.

    Raises
    ------
    InputError
        If the name is unknown, or a parameter is unknown or invalid.
    """
    if not isinstance(name, str) or name not in CRITERIA:
        raise InputError(f"criterion={name!r} is unknown; pass one of {', '.join(CRITERIA)}.")
    kind = CRITERIA[name]
    chosen = {key: value for key, value in given.items() if value is not None}
    # Concrete criteria are dataclasses; the base class is not, because it has no fields.
    field_names = [f.name for f in fields(kind)]  # type: ignore[arg-type]  # all are data classes
    for key, value in chosen.items():
        if key not in field_names:
            has = f"It has {', '.join(field_names) or 'no parameters'}"
            raise InputError(f"{key}={value!r}: {name!r} has no {key}; leave it out. {has}.")
    return kind(**chosen)
