"""A plan as a table for notebooks; its colours are those of the page, light or dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dhsic.plans.text import rows, times

if TYPE_CHECKING:
    from dhsic.plans.plan import Plan

#: Of this table alone. Lines take the colour of the text, thinned.
STYLE = """
.dhsic-plan { color: inherit; background: transparent; font-size: 0.95em; max-width: 56em; }
.dhsic-plan caption { text-align: left; font-weight: 600; padding: 0 0 0.4em; color: inherit; }
.dhsic-plan table { border-collapse: collapse; background: transparent; color: inherit; margin: 0; }
.dhsic-plan th, .dhsic-plan td { text-align: left; vertical-align: top; padding: 0.25em 0.9em
  0.25em 0; background: transparent; color: inherit; border: 0; white-space: normal; }
.dhsic-plan th { font-weight: 600; white-space: nowrap; }
.dhsic-plan tr { background: transparent; }
.dhsic-plan tbody + tbody { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent);
}
.dhsic-plan .number { font-variant-numeric: tabular-nums; }
.dhsic-plan tbody + tbody tr:first-child > * { padding-top: 0.5em; }
.dhsic-plan details { margin-top: 0.5em; }
.dhsic-plan summary { cursor: pointer; opacity: 0.8; }
.dhsic-plan ul { margin: 0.3em 0 0; padding-left: 1.2em; }
"""


def as_html(plan: Plan) -> str:
    """Table of the rows, the expected times under it, what was assumed folded away."""
    body = "".join(_row(label, told) for label, told in rows(plan))
    timed = "".join(_row(time, f"on {where}", number=True) for time, where in times(plan))
    timed = f"<tbody>{timed}</tbody>" if timed else ""
    assumed = "".join(f"<li>{escape(told)}</li>" for told in plan.assumed)
    return (
        f'<div class="dhsic-plan"><style>{STYLE}</style><table>'
        f"<caption>Plan of a run: {escape(plan.description)}</caption>"
        f"<tbody>{body}</tbody>{timed}</table>"
        f"<details><summary>What was assumed</summary><ul>{assumed}</ul></details></div>"
    )


def _row(label: str, told: str, *, number: bool = False) -> str:
    kind = ' class="number"' if number else ""
    return f'<tr><th scope="row"{kind}>{escape(label)}</th><td>{escape(told)}</td></tr>'
