"""HTML for notebooks: tables of facts and of features, a curve, and the progress of a run.

The colours adapt to a light or dark page. Text is escaped, and nothing is loaded from the network.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

STYLE = """
.dhsic { color: inherit; background: transparent; font-size: 0.95em; max-width: 56em; }
.dhsic caption { text-align: left; font-weight: 600; padding: 0 0 0.4em; color: inherit; }
.dhsic table { border-collapse: collapse; background: transparent; color: inherit; margin: 0; }
.dhsic th, .dhsic td { text-align: left; vertical-align: top; padding: 0.25em 0.9em 0.25em 0;
  background: transparent; color: inherit; border: 0; white-space: normal; }
.dhsic th { font-weight: 600; white-space: nowrap; }
.dhsic tr { background: transparent; }
.dhsic tbody + tbody, .dhsic table + table { border-top: 1px solid
  color-mix(in srgb, currentColor 25%, transparent); }
.dhsic .number { font-variant-numeric: tabular-nums; }
.dhsic tbody + tbody tr:first-child > * { padding-top: 0.5em; }
.dhsic details { margin-top: 0.5em; }
.dhsic summary { cursor: pointer; opacity: 0.8; }
.dhsic ul { margin: 0.3em 0 0; padding-left: 1.2em; }
.dhsic progress { width: 24em; max-width: 60%; vertical-align: middle; }
"""
#: Width and height of a curve, in pixels.
WIDTH, HEIGHT = 360, 60
#: Seconds between two updates of the progress of a run.
EVERY = 0.3


def page(*parts: str) -> str:
    """Join parts of HTML into one element with the style sheet."""
    return f'<div class="dhsic"><style>{STYLE}</style>{"".join(parts)}</div>'


def row(label: str, told: str, *, number: bool = False) -> str:
    """Return a row of a table of facts, a label and a value, as HTML."""
    kind = ' class="number"' if number else ""
    return f'<tr><th scope="row"{kind}>{escape(label)}</th><td>{escape(told)}</td></tr>'


def facts(known: Mapping[str, str], caption: str = "") -> str:
    """Return an HTML table with a label and a value in each row; omit empty values."""
    rows = "".join(row(label, told) for label, told in known.items() if told)
    return f"<table>{_caption(caption)}<tbody>{rows}</tbody></table>"


def table(columns: Mapping[str, Sequence[Any]], caption: str = "") -> str:
    """Return an HTML table of columns, by name."""
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in columns)
    rows = "".join(
        f"<tr>{''.join(map(_cell, values))}</tr>" for values in zip(*columns.values(), strict=True)
    )
    return f"<table>{_caption(caption)}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _caption(text: str) -> str:
    return f"<caption>{escape(text)}</caption>" if text else ""


def _cell(value: Any) -> str:
    text = str(value)
    if isinstance(value, float):
        text = "" if math.isnan(value) else f"{value:.4g}"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    return f'<td class="number">{escape(text)}</td>'


def curve(values: Iterable[float], label: str) -> str:
    """Return an SVG curve of values, one per round; "" for fewer than two finite values."""
    points_of = [(i, v) for i, v in enumerate(values) if math.isfinite(v)]
    if len(points_of) < 2:
        return ""
    low, high = min(v for _, v in points_of), max(v for _, v in points_of)
    across, up = WIDTH / max(1, points_of[-1][0]), (HEIGHT - 4) / ((high - low) or 1)
    points = " ".join(f"{i * across:.1f},{HEIGHT - 2 - (v - low) * up:.1f}" for i, v in points_of)
    words = escape(f"{label}: {points_of[0][1]:.3g} to {points_of[-1][1]:.3g}, {high:.3g} at most")
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}"><title>{words}</title><polyline points="{points}" fill="none" '
        f'stroke="currentColor" stroke-width="1.5"/></svg><div>{words}</div>'
    )


def in_kernel() -> bool:
    """Whether this process is a notebook kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Live:
    """Progress bar of a run in a notebook, with a curve of HSIC so far; used like a tqdm bar."""

    def __init__(self, total: int) -> None:
        self._show: Any = import_module("IPython.display")  # untyped
        self._total = total
        self._done, self._said, self._values = 0, "", list[float]()
        self._begun = self._drawn = time.monotonic()
        self._handle = self._show.display(self._show.HTML(self._picture()), display_id=True)

    def update(self, n: int) -> None:
        """Report that n more features were scored."""
        self._done += n
        self._draw()

    def round_done(self, hsic: float, told: str) -> None:
        """Report the end of a round: its HSIC, and a text (`told`) to show beside the bar."""
        self._values.append(hsic)
        self._said = f", {told}"
        self._draw()

    def close(self) -> None:
        """Draw the final state of the bar."""
        self._drawn = -math.inf
        self._draw()

    def _draw(self) -> None:
        if time.monotonic() - self._drawn >= EVERY:
            self._drawn = time.monotonic()
            self._handle.update(self._show.HTML(self._picture()))

    def _picture(self) -> str:
        took, part = time.monotonic() - self._begun, self._done / max(1, self._total)
        remaining = f", {took * (1 / part - 1):,.0f} s left" if 0 < part < 1 else ""
        return page(
            f'<progress max="1" value="{part:.4f}"></progress> ',
            escape(f"{min(1.0, part):.0%}{self._said}, {took:,.0f} s{remaining}"),
            f"<div>{curve(self._values, 'HSIC')}</div>",
        )
