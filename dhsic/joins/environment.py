"""Environments: columns beside the data whose interaction with each feature is tested.

They are read like covariates: numbers are used unchanged, text is converted to one indicator for
each group but the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.joins.covariates import design_of
from dhsic.joins.frame_rows import id_columns, values_of
from dhsic.sources.ids import abbreviate


@dataclass(frozen=True, eq=False)
class Environment:
    """Named columns (m, k) with which features are paired."""

    names: tuple[str, ...]
    columns: Float

    @classmethod
    def of(cls, columns: Iterable[tuple[str, Array]]) -> Environment:
        """Create the environment from raw columns (m,); InputError if a column is constant."""
        columns = list(columns)
        _check_distinct([name for name, _ in columns])
        names, designs = list[str](), list[Float]()
        for name, values in columns:
            design = design_of(name, values)
            if not np.ptp(design, axis=0).all() or not design.size:
                raise InputError(
                    f"{name!r} has the same value in all samples, so no interaction with it can be "
                    "tested. Pass a column that varies (environment=, dhsic pairs --with)."
                )
            names += _design_names(name, values, design)
            designs.append(design.reshape(len(design), -1))
        return cls(tuple(names), np.column_stack(designs))

    def take(self, columns: Array) -> Environment:
        """Replace the columns, for other samples."""
        return Environment(self.names, np.asarray(columns, dtype=np.float64))

    @property
    def main_effects(self) -> Float:
        """Centred columns and their squares, (m, 2 k), which are regressed out before the test.

        Without the squares, a curved effect of a column would look like an interaction with every
        feature that is correlated with it.
        """
        centred = self.columns - self.columns.mean(axis=0)
        return np.column_stack([centred, centred**2])


def _design_names(name: str, values: Array, design: Float) -> list[str]:
    """Name each column of a design after its raw column; indicators also name their group."""
    if design.ndim == 1:
        return [name]
    if values.ndim == 2:
        return [f"{name}[{i}]" for i in range(design.shape[1])]
    return [f"{name}={group}" for group in np.unique(values.astype(str))[1:]]


def named_columns(given: Any) -> list[tuple[str, Array]]:
    """Split an array or frame into named columns (m,), without id columns of a frame."""
    if hasattr(given, "iloc"):
        frame = given.to_frame() if given.ndim == 1 else given.drop(columns=id_columns(given))
        names = ["environment" if name is None or name == 0 else str(name) for name in frame]
        return [(name, _plain(frame.iloc[:, i])) for i, name in enumerate(names)]
    values = values_of(given, "environment")
    if values.ndim == 1:
        return [("environment", values)]
    if values.ndim != 2:
        raise InputError(
            f"environment= has shape {values.shape}. Pass one row per sample, and one column per "
            "environment."
        )
    return [(f"environment {i}", column) for i, column in enumerate(values.T)]


def _plain(column: pd.Series) -> Array:
    """Values of a column; categories and other objects as text, missing values as empty text."""
    if isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind in "OUT":
        return np.asarray(column.astype(object).where(column.notna(), "").to_numpy(), dtype=str)
    return np.asarray(column.to_numpy())


def _check_distinct(names: list[str]) -> None:
    """Raise InputError if columns have the same name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            f"environment= has several columns with the same name ({abbreviate(repeated)}); rename "
            "all but one."
        )
