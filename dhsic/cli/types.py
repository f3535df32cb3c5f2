"""What users write on the command line, turned into values."""

from __future__ import annotations

import click


def size(value: str | int) -> int:
    """Bytes of an amount of memory.

    >>> size("2GB"), size("500MiB")
    (2000000000, 524288000)
    """
    from dask.utils import parse_bytes

    try:
        amount = int(parse_bytes(value))
    except ValueError:
        amount = 0
    if amount <= 0:
        raise click.BadParameter(f"{value!r} is no amount of memory; write it like 2GB or 500MiB.")
    return amount


def number(value: str | float) -> float | int:
    """Fraction of the features as a float, count of them as an int.

    >>> number("0.1"), number("100")
    (0.1, 100)
    """
    if not isinstance(value, str):  # the default
        return value
    try:
        return int(value) if value.strip().isdigit() else float(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is neither a fraction like 0.1 nor a count like 100."
        ) from error


def codes(value: str | int | list[int] | None) -> str | int | list[int] | None:
    """What stands for missing: ``auto``, ``none``, a number, or several between commas.

    >>> codes("auto"), codes("none"), codes("9"), codes("3,9")
    ('auto', None, 9, [3, 9])
    """
    if not isinstance(value, str) or value == "auto":
        return value
    if value.lower() == "none":
        return None
    try:
        numbers = [int(part) for part in value.strip("()").split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is none of auto, none, a whole number, whole numbers between commas."
        ) from error
    return numbers[0] if len(numbers) == 1 else numbers


def sigma(value: str | float) -> str | float | list[float]:
    """Name of a policy, a number, or several between commas.

    >>> sigma("median"), sigma("0.5"), sigma("0.1,1")
    ('median', 0.5, [0.1, 1.0])
    """
    if not isinstance(value, str) or value in ("dimension", "median"):
        return value
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is none of dimension, median, a number, numbers between commas."
        ) from error
    return numbers[0] if len(numbers) == 1 else numbers
