"""Tables as text and as Markdown, and the numbers in them."""

import numpy as np
from measuring import MIB

WIDEST = 90


def table(heads, rows):
    """Aligned text; the first column to the left, the others to the right."""
    cells = [list(map(str, heads)), *(list(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def remark(status, reason):
    """Why there is no number, short enough for a table; JSON has it whole."""
    text = f"{status}: {reason}" if reason else ""
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def seconds(value):
    return "-" if value is None else f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def mebibytes(n_bytes):
    return f"{n_bytes / MIB:,.0f} MiB"


def size(m, d):
    return f"{m:,} x {d:,}"


def markdown(heads, rows):
    """A table; the first column to the left, the others to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def replace_table(page, heads, rows):
    """Replace the Markdown table with these heads in a page, which must have one."""
    lines, new = page.read_text().splitlines(), markdown(heads, rows).splitlines()
    start = lines.index(new[0])
    length = next((k for k, line in enumerate(lines[start:]) if line[:1] != "|"), len(lines))
    lines[start : start + length] = new
    page.write_text("\n".join(lines) + "\n")


def number(value, digits=1, factor=1.0):
    return "-" if np.isnan(value) else f"{factor * value:.{digits}f}"


def probability(p):
    return "-" if np.isnan(p) else f"{p:.2g}"


def with_error(mean, error, digits=1):
    return f"{mean:.{digits}f}±{error:.{digits}f}"
