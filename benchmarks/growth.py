"""How time and memory grow with features d, samples m and rank R, and the fitted exponents.

In d and m whole runs, in R one scoring pass: a run chooses its rank by itself.
"""

from dataclasses import dataclass

import numpy as np
from data import genotypes
from measuring import Limits, measure, say
from selecting import how_scored
from tables import mebibytes, remark, seconds, size, table

DOUBLINGS = (1, 2, 4, 8)
#: Values of solver that have no rank.
WITHOUT_RANK = ("exact", "direct")
AXES = {"d": "features d", "m": "samples m", "R": "rank R"}


@dataclass(frozen=True)
class Point:
    """Where a curve is measured."""

    samples: int
    features: int
    rank: int | None = None

    def along(self, axis):
        """Coordinate on an axis of `AXES`."""
        return {"d": self.features, "m": self.samples, "R": self.rank}[axis]


def curves(options):
    """(axis, solver, points) of every curve."""
    m, d = options.growth_size
    for solver in options.solver:
        yield "d", solver, [Point(m, d * k) for k in DOUBLINGS]
        yield "m", solver, [Point(m * k // 2, d) for k in DOUBLINGS]
        if solver not in WITHOUT_RANK:
            yield "R", solver, [Point(m, d * max(DOUBLINGS), rank) for rank in options.ranks]


def measure_growth(options, scratch):
    """Every curve: its points as measured, and the exponents of time and memory."""
    return [measure_curve(*curve, options, scratch) for curve in curves(options)]


def measure_curve(axis, solver, points, options, scratch):
    rows, last = [], None
    for point in points:
        where = f"{size(point.samples, point.features)}" + (
            f", R = {point.rank}" * bool(point.rank)
        )
        if last is not None and not last.ok:  # larger ones would end the same way
            break
        store = genotypes(scratch, point.samples, point.features)
        say(f"growth in {axis}: {where}, {solver}")
        call, arguments = "selecting:job", {"scored": how_scored(solver)}
        if axis == "R":  # a run chooses its rank: one pass over all features
            call, arguments = "selecting:pass_job", {"rank": point.rank}
        last = measure(
            call,
            {"store": str(store), **arguments},
            limits=Limits(options.timeout),
            repeat=options.repeat,
            budget_s=options.timeout / 4,
        )
        rows.append({"at": point.along(axis), "point": where, **last.facts()})
    good = [row for row in rows if row["status"] == "ok"]
    return {
        "axis": axis,
        "solver": solver,
        "points": rows,
        "time_exponent": exponent([r["at"] for r in good], [r["median_s"] for r in good]),
        "memory_exponent": exponent([r["at"] for r in good], [r["rise_bytes"] for r in good]),
    }


def exponent(x, y):
    """Slope of log y over log x by least squares; None for fewer than two points."""
    known = [(a, b) for a, b in zip(x, y, strict=True) if a and b]
    if len(known) < 2:
        return None
    return float(np.polyfit(*np.log(np.array(known, dtype=float)).T, 1)[0])


def growth_table(results):
    heads = (
        "growth",
        "solver",
        "at",
        "time",
        "processor",
        "peak memory",
        "of which the run",
        "remark",
    )
    rows = []
    for curve in results:
        rows += [
            (
                f"in {AXES[curve['axis']]}",
                curve["solver"],
                row["point"],
                seconds(row["median_s"]),
                seconds(row["median_cpu_s"]),
                mebibytes(row["peak_bytes"]),
                mebibytes(row["rise_bytes"]),
                remark(row["status"], row["reason"]),
            )
            for row in curve["points"]
        ]
        fitted = (curve["time_exponent"], curve["memory_exponent"])
        if None not in fitted:
            time, memory = (f"^{value:.2f}" for value in fitted)
            rows.append(("", "", "fitted", time, "", "", memory, ""))
    return table(heads, rows)
