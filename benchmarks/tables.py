"""Text tables and the units in them."""

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
