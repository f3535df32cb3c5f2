"""Whole runs over what they cannot avoid.

Exact scoring cannot avoid its matrix products (as `exact.py` measures them), low-rank scoring
cannot avoid reading: every chunk read and decoded, once for every pass that the steps ask for
(about ten at step 0.1).
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import zarr
from data import genotypes, matrix_of
from exact import bare_products, normal_data, passes, timed
from measuring import say
from selecting import facts, how_scored, select
from tables import remark, seconds, size, table

import dhsic

N_READERS = 2
#: Values of solver whose floor is products, not reads.
BY_PRODUCTS = ("exact",)


def bare_pass(store):
    """Read and decode every chunk of a store's matrix, two threads and nothing else."""
    array = zarr.open_group(str(store), mode="r")[matrix_of(store)]
    width = array.chunks[0]

    def decode(start):
        return array[start : start + width].shape[0]

    with ThreadPoolExecutor(N_READERS) as pool:
        return sum(pool.map(decode, range(0, array.shape[0], width)))


def against_products(m, d, repeat):
    """Exact runs on normal data in memory over their bare products."""
    X, y = normal_data(m, d)
    totals, bares = [], []
    for i in range(repeat):
        say(f"roofline {size(m, d)} exact, {i + 1} of {repeat}")
        model = dhsic.BAHSIC(50, solver="exact", rerank=False, progress=False, runtime="threads")
        total, _ = timed(lambda model=model: model.fit(X, y))
        totals.append(total)
        bares.append(bare_products(m, list(passes(model.result_)))[0])
    return _row("exact", "matrix products", m, d, totals, bares)


def against_reads(store, m, d, solver, repeat):
    """Runs from a store over as many bare passes."""
    totals, bares = [], []
    for i in range(repeat):
        say(f"roofline {size(m, d)} {solver}, {i + 1} of {repeat}")
        bare, _ = timed(lambda: bare_pass(store))
        total, model = timed(lambda: select(store, how_scored(solver)))
        totals.append(total)
        bares.append(bare * facts(model)["passes"])
    return _row(solver, "reading, each pass", m, d, totals, bares)


def _row(solver, floor, m, d, totals, bares):
    return {
        "solver": solver,
        "floor": floor,
        "samples": m,
        "features": d,
        "run_s": float(np.median(totals)),
        "floor_s": float(np.median(bares)),
        "run_over_floor": float(np.median(np.array(totals) / np.array(bares))),
        "repeats": len(totals),
    }


def measure_roofline(options, scratch):
    """Rows of all values of solver; one that is refused says why."""
    rows = []
    for solver in options.solver:
        by_products = solver in BY_PRODUCTS
        m, d = options.exact_size if by_products else options.store_size
        try:
            if by_products:
                rows.append(against_products(m, d, options.repeat))
            else:
                store = genotypes(scratch, m, d)
                rows.append(against_reads(store, m, d, solver, options.repeat))
        except (dhsic.DhsicError, TypeError) as error:  # TypeError: no such parameter yet
            rows.append({"solver": solver, "samples": m, "features": d, "reason": str(error)})
    return rows


def roofline_table(rows):
    heads = ("solver", "data", "whole run", "floor", "run / floor", "what the floor is")
    return table(heads, [_cells(row) for row in rows])


def _cells(row):
    data = size(row["samples"], row["features"])
    if "reason" in row:
        return (row["solver"], data, "-", "-", "-", remark("refused", row["reason"]))
    ratio = f"{row['run_over_floor']:.2f}"
    return (
        row["solver"],
        data,
        seconds(row["run_s"]),
        seconds(row["floor_s"]),
        ratio,
        row["floor"],
    )
