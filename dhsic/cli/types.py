"""What users write on the command line, turned into values."""

from __future__ import annotations

from typing import Any

import click


class Bytes(click.ParamType):
    """An amount of memory: 2GB, 500MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes of what was written."""
        from dask.utils import parse_bytes

        try:
            amount = int(parse_bytes(value))
        except ValueError:
            amount = 0
        if amount <= 0:
            self.fail(f"{value!r} is no amount of memory; write it like 2GB or 500MiB.", param, ctx)
        return amount


class Step(click.ParamType):
    """Fraction of the features, or a count of them."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | int:
        """Float for a fraction, int for a count."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # converted already
        try:
            return int(value)
        except ValueError:
            pass
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a fraction like 0.1 nor a count like 100.", param, ctx)


class Bandwidth(click.ParamType):
    """A name, a sigma, or several sigmas between commas."""

    name = "sigma"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | float | list[float]:
        """Name, number or list of numbers."""
        if not isinstance(value, str) or value in ("dimension", "median"):
            return value  # type: ignore[no-any-return]  # converted already
        try:
            numbers = [float(part) for part in value.split(",")]
        except ValueError:
            self.fail(
                f"{value!r} is none of dimension, median, a number, numbers between commas.",
                param,
                ctx,
            )
        return numbers[0] if len(numbers) == 1 else numbers
