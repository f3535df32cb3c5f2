"""The selected features as a table for people, and as plain values."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

import click
import numpy as np
import xarray as xr

from dhsic import tables
from dhsic._typing import Array
from dhsic.cli.planted import Comparison
from dhsic.cli.printable import printable
from dhsic.cli.talk import counted
from dhsic.results import left_out

#: Rows that a table shows; --json and --out have all.
MOST_ROWS = 200
GAP = "  "


@dataclass(frozen=True)
class Costs:
    """What a run took; bytes as stored, memory in bytes."""

    rounds: int
    seconds: float
    bytes_read: int
    peak_bytes: int
    promised_bytes: int
    rounds_in_low_rank: int = 0
    largest_cut_error: float = 0.0

    def sentence(self) -> str:
        """What low rank did, empty where there was none."""
        if not self.rounds_in_low_rank:
            return ""
        return (
            f"low rank in {counted(self.rounds_in_low_rank, 'round')}; estimated part of the "
            f"features removed that an exact round would have kept: at most "
            f"{self.largest_cut_error:.2%}"
        )


def as_json(
    chosen: xr.Dataset, label_kernel: str, costs: Costs, planted: Comparison | None
) -> dict[str, Any]:
    """Everything as plain values; what is not a number is null."""
    known = tables.columns(chosen)
    if planted is not None:
        known["planted"] = np.array([marker or None for marker in planted.markers], dtype=object)
    out = {
        "n_samples": int(chosen.attrs["n_samples"]),
        "n_features": int(chosen.attrs["n_features"]),
        **left_out(chosen.attrs),
        "label_kernel": label_kernel,
        "selected": list(tables.rows(known)),
        **asdict(costs),
    }
    return out if planted is None else out | {"recovered": planted.plain()}


def as_text(chosen: xr.Dataset, planted: Comparison | None, width: int) -> str:
    """The table, at most `width` characters wide."""
    if "group" in chosen:
        return "\n".join(_of_groups(chosen, width))
    n = min(chosen.sizes["features"], MOST_ROWS)
    names = {key: values[:n] for key, values in _names(chosen).items()}
    columns = {"rank": [str(r) for r in chosen["rank"].to_numpy()[:n]]}
    for key, values in names.items():
        columns[key] = [f"{v:,}" if key == "position" else str(v) for v in values]
    columns["score"] = [_score(s) for s in chosen["score"].to_numpy()[:n]]
    if "stability" in chosen:
        columns["stability"] = [f"{s:.0%}" for s in chosen["stability"].to_numpy()[:n]]
    if planted is not None:
        columns["planted"] = list(planted.markers[:n])
    lines = _aligned(columns, width)
    if n < chosen.sizes["features"]:
        lines.append(
            f"... {chosen.sizes['features'] - n:,} more (--out keeps all, --json lists all)"
        )
    if str(chosen["score"].attrs.get("long_name", "")).startswith("by how much HSIC falls"):
        lines += _without_dependence(chosen["score"].to_numpy(), width)
    if planted is not None:
        lines += ["", planted.sentence()]
    return "\n".join(lines)


def _of_groups(chosen: xr.Dataset, width: int) -> list[str]:
    """A line for each group; --json lists its features."""
    ranks, first = np.unique(chosen["group_rank"].to_numpy(), return_index=True)
    sizes = np.bincount(chosen["group_rank"].to_numpy())[ranks]
    columns = {
        "rank": [str(rank) for rank in ranks[:MOST_ROWS]],
        "group": [str(name) for name in chosen["group"].to_numpy()[first][:MOST_ROWS]],
        "features": [f"{size:,}" for size in sizes[:MOST_ROWS]],
        "score": [_score(s) for s in chosen["score"].to_numpy()[first][:MOST_ROWS]],
    }
    if "stability" in chosen:
        columns["stability"] = [f"{s:.0%}" for s in chosen["stability"].to_numpy()[first]]
    lines = _aligned(columns, width)
    if ranks.size > MOST_ROWS:
        lines.append(f"... {ranks.size - MOST_ROWS:,} more (--out keeps all, --json lists all)")
    return lines


def _without_dependence(scores: Array, width: int) -> list[str]:
    """What a score of 0 or less means, in lines below the table, where there is one."""
    low = np.flatnonzero(scores <= 0)
    if not low.size:
        return []
    note = (
        f"{counted(low.size, 'feature')} of these {'has' if low.size == 1 else 'have'} a score of "
        f"0 or less (the first at rank {low[0] + 1}): HSIC did not fall when it left, so it added "
        "no dependence to that of the features left with it."
    )
    return ["", *textwrap.wrap(note, width)]


def _names(chosen: xr.Dataset) -> dict[str, Array]:
    """Columns that name the features: what the store has, or their numbers."""
    out = {}
    index = chosen["features"].to_numpy()
    out["name"] = chosen["feature"].to_numpy() if "feature" in chosen.coords else index
    for column in ("contig", "position"):
        if f"variant_{column}" in chosen.coords:
            out[column] = chosen[f"variant_{column}"].to_numpy()
    return out


def _score(value: float) -> str:
    return f"{value:.3e}" if np.isfinite(value) else "constant"


def _aligned(columns: dict[str, list[str]], width: int) -> list[str]:
    """Lines of a table: numbers to the right, long names shortened to what fits."""
    columns = {key: [printable(cell) for cell in cells] for key, cells in columns.items()}
    left = ("name", "group", "planted")
    sizes = {key: max(len(v) for v in (key, *values)) for key, values in columns.items()}
    excess = sum(sizes.values()) + len(GAP) * (len(sizes) - 1) - width
    long = "name" if "name" in sizes else "group"
    sizes[long] = max(12, sizes[long] - max(0, excess))
    rows = [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            f"{_short(v, sizes[k]):<{sizes[k]}}" if k in left else f"{v:>{sizes[k]}}"
            for k, v in zip(columns, row, strict=True)
        ]
        lines.append(
            _coloured(GAP.join(cells).rstrip(), number, row[-1] if "planted" in columns else "")
        )
    return lines


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


def _coloured(line: str, number: int, marker: str) -> str:
    if number == 0:
        return click.style(line, bold=True)
    if not marker:
        return line
    return click.style(line, fg="yellow" if marker.startswith("near") else "green")
