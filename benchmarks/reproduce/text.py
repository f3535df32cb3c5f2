"""Markdown, and numbers in it."""

import numpy as np


def markdown(heads, rows):
    """A table; the first column to the left, the others to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def number(value, digits=1, factor=1.0):
    return "-" if np.isnan(value) else f"{factor * value:.{digits}f}"


def probability(p):
    return "-" if np.isnan(p) else f"{p:.2g}"


def with_error(mean, error, digits=1):
    return f"{mean:.{digits}f}±{error:.{digits}f}"
