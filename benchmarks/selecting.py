"""A selection from a store: the job that growth, roofline and million measure."""

from contextlib import contextmanager

import numpy as np
from data import matrix_of

import dhsic


def how_scored(approx, rank=None, tolerance=None):
    """Arguments of BAHSIC that say how candidates are scored.

    The only place that knows how a rank is asked for.
    """
    asked = {"approx": approx}
    if rank is not None:
        asked["rank"] = rank
    if tolerance is not None:
        asked["tolerance"] = tolerance
    return asked


def select(store, scored, *, n_select=100, step=0.1, runtime="threads"):
    """BAHSIC of a store of `data.genotypes`, fitted."""
    model = dhsic.BAHSIC(
        n_select, step=step, standardize=False, progress=False, runtime=runtime, **scored
    )
    return model.fit(str(store), "sample_trait", variable=matrix_of(store))


def facts(model):
    """What a benchmark wants to know of a fitted model, for JSON."""
    result = model.result_
    sizes = result["round_n_features"].values
    return {
        "rounds": int(sizes.size),
        "passes": float(sizes.sum() / sizes[0]),
        "engine": str(result["round_engine"].values[0]),
        "bytes_read": int(result["round_bytes_read"].sum()),
        "promised_bytes": int(result.attrs["promised_bytes"]),
        "selected": np.flatnonzero(model.support_).tolist(),
    }


@contextmanager
def job(store, scored, n_select=100, step=0.1, n_workers=0):
    """The selection, on threads of the process or on a local cluster of `n_workers` processes."""
    options = {"n_select": n_select, "step": step}
    if not n_workers:
        yield lambda: facts(select(store, scored, **options))
        return
    from distributed import Client, LocalCluster

    from dhsic.runtime.dask import DaskRuntime

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        DaskRuntime(client) as runtime,
    ):
        yield lambda: facts(select(store, scored, runtime=runtime, **options))
