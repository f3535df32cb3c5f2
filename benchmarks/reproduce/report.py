"""What was found, as Markdown, CSV and figures."""

import datetime as dt
import platform
import subprocess
from pathlib import Path

import pandas as pd
from measuring import OK, version_of

from . import beside, curves
from .part import Part
from .running import NOT_RUN
from .standings import Standings

PACKAGES = (
    *("dhsic", "numpy", "scipy", "scikit-learn", "mrmr-selection", "pyHSICLasso", "skrebate"),
    *("Boruta", "fastcan"),
)
#: Experiments that rank methods over sets.
RANKED = ("classes", "unseen", "after", "all-classes")
#: Others: their tables, and their figure.
SECTIONS = {
    "figure2": (beside.drawn, curves.draw_jmlr),
    "figure1": (beside.drawn, curves.draw_ccm),
    "genotypes": (beside.genotypes, None),
    "table1": (beside.table_1, None),
    "figure3": (beside.curves, curves.draw_curves),
    "tables3and4": (beside.tables_3_and_4, None),
    "ccm": (beside.curves, curves.draw_curves),
    "ccm-inside": (beside.curves, curves.draw_curves),
}


def write(options, experiments, rows, stands):
    """Files of a run in the folder asked for; the text of the report."""
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    rows, stands = pd.DataFrame(rows), pd.DataFrame(stands)
    rows.drop(columns="order", errors="ignore").to_csv(out / "results.csv", index=False)
    stands.to_csv(out / "cells.csv", index=False)
    parts = ["# What is selected", conditions()]
    if options.stale:
        parts.append("Results of other versions than these are taken where there are some.")
    if options.data is None:
        parts.append("Without real data, which are not part of the repository: only what is drawn.")
    for name, one in experiments.items():
        mine = stands[stands["experiment"] == name]
        found = rows[rows["experiment"] == name] if len(rows) else rows
        parts += [f"## {one.title}", *section(name, one, found, mine, out), *missing(mine)]
    text = "\n\n".join(parts) + "\n"
    (out / "report.md").write_text(text)
    return text


def section(name, one, rows, stands, out):
    """Paragraphs of an experiment, and its figure."""
    if rows.empty:
        return ["Nothing is there yet."]
    if isinstance(one, Part):
        return one.tables(rows)
    if name in RANKED:
        found = Standings(one, rows, stands)
        if not found.names:
            return found.sections()
        told, draw, drawn = found.sections(), curves.draw_ranks, (found.methods, found.ranks)
    else:
        tables, draw = SECTIONS[name]
        told, drawn = tables(one, rows), (one, rows)
    if draw:
        draw(*drawn, out / f"{name}.png")
        told.append(f"![{one.title}]({name}.png)")
    return told


def missing(stands):
    """Cells without a number, and why."""
    waiting = stands["status"] == NOT_RUN
    bad = stands[(stands["status"] != OK) & ~waiting]
    told = [f"Not run yet: {waiting.sum()} of {len(stands)} cells."] if waiting.any() else []
    if len(bad):
        lines = [
            f"- {method}, {status} ({reason}): {', '.join(cells['set'])}"
            for (method, status, reason), cells in bad.groupby(["method", "status", "reason"])
        ]
        told += ["No number (the last rank, where methods are ranked):", "\n".join(lines)]
    return told


def conditions():
    """Date, versions and commit."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    commit = done.stdout.strip() or "unknown"
    told = [f"{name} {version_of(name) or '(not installed)'}" for name in PACKAGES]
    when = f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, commit {commit}"
    return f"{when}, Python {platform.python_version()}, {', '.join(told)}."
