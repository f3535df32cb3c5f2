"""What was found, as Markdown, CSV and figures."""

import datetime as dt
import platform

import kept
import pandas as pd
from measuring import OK, version_of

from . import beside, curves
from .part import Part
from .running import NOT_RUN
from .shape_parts import FOUND_RANK
from .standings import Standings

PACKAGES = (
    *("dhsic", "numpy", "scipy", "scikit-learn", "mrmr-selection", "pyHSICLasso", "skrebate"),
    *("Boruta", "fastcan", "quadsv"),
)
#: Columns that name a row of the kept results.
KEYS = ["experiment", "set", "method"]
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


def write(options, experiments, rows, stands, versions):
    """Files of a run in the folder asked for; the text of the report.

    `versions` are those with which the results were made, a set for each package.
    """
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
    if len(rows):
        more = {"date": options.measured, "commit": ""} if options.measured else {}
        more["versions"] = {
            name: ", ".join(sorted(each)) for name, each in sorted(versions.items())
        }
        kept.keep(options, summary(rows), **more)
    return text


def summary(rows):
    """Records of means over folds, judges and draws, for the kept results.

    Parameters
    ----------
    rows : DataFrame
        Measurements. Of `shapes-single`, whose score is a rank, the share of runs is kept in which
        it is among the first.

    Returns
    -------
    list of dict
        One for each experiment, set and method; `scores` are by number of features, `score` is
        the mean of all.
    """
    rows = rows[rows["judge"] != "redundancy"] if "judge" in rows else rows
    records = []
    for (experiment, a_set, method), mine in rows.groupby(KEYS, sort=False):
        one = {"experiment": experiment, "set": a_set, "method": method}
        if "selected" in mine:
            by_number = mine.groupby("selected")["score"].mean()
            one["scores"] = {str(k): round(float(score), 4) for k, score in by_number.items()}
            one["score"] = round(float(mine["score"].mean()), 12)
        elif experiment == "shapes-single":
            one["found"] = round(float((mine["score"] <= FOUND_RANK).mean()), 4)
        else:
            for name in ("score", "found", "false"):
                if name in mine and mine[name].notna().any():
                    one[name] = round(float(mine[name].mean()), 4)
        one["seconds"] = round(float(mine["seconds"].median()), 3)
        records.append(one | {"n": int(mine["fold"].nunique())})
    return records


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
    told = [f"{name} {version_of(name) or '(not installed)'}" for name in PACKAGES]
    when = f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, commit {kept.commit()}"
    return f"{when}, Python {platform.python_version()}, {', '.join(told)}."
