"""Jobs on a store that benchmarks measure: a selection, and one pass in low rank."""

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from data import matrix_of

import dhsic
from dhsic import open_source, read_target
from dhsic.engines.lowrank import LowRank
from dhsic.engines.scoring_problem import LowRankScoringProblem
from dhsic.hsic import factored_weights
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.labels import label_matrix
from dhsic.lowrank import Nystrom
from dhsic.passes.lowrank import LowRankScorer
from dhsic.passes.reader import Reader
from dhsic.passes.score import ScoreLowRank
from dhsic.passes.scorer import Choices
from dhsic.runtime.threads import Threads, single_blas_thread


def how_scored(solver, max_expected_loss=None):
    """Arguments of BAHSIC that say how candidates are scored."""
    return {"solver": solver} | (
        {} if max_expected_loss is None else {"max_expected_loss": max_expected_loss}
    )


def select(store, scored, *, n_select=100, step=0.1, runtime="threads"):
    """BAHSIC of a store of `data.genotypes`, fitted."""
    model = dhsic.BAHSIC(n_select, step=step, progress=False, runtime=runtime, **scored)
    return model.fit(str(store), "sample_trait", variable=matrix_of(store))


def facts(model):
    """What a benchmark wants to know of a fitted model, for JSON."""
    result = model.result_
    sizes = result["round_n_features"].values
    return {
        "rounds": int(sizes.size),
        "passes": float(sizes.sum() / sizes[0]),
        "engine": str(result["round_engine"].values[0]),
        "largest_cut_error": float(result.get("round_cut_error", np.zeros(1)).max()),
        "expected_lost": float(result.attrs.get("expected_lost", 0.0)),
        "bytes_read": int(result["round_bytes_read"].sum()),
        "promised_bytes": int(result.attrs["promised_bytes"]),
        "selected": np.flatnonzero(model.support_).tolist(),
    }


@contextmanager
def job(store, scored, n_select=100, step=0.1, n_workers=0, threads=1):
    """The selection, on threads of the process or on a cluster of `n_workers` others."""
    options = {"n_select": n_select, "step": step}
    if not n_workers:
        yield lambda: facts(select(store, scored, **options))
        return
    from child import peak_bytes
    from cluster import Cluster

    from dhsic.runtime.dask import DaskRuntime

    with (
        TemporaryDirectory() as folder,
        Cluster(Path(folder), n_workers, threads=threads) as cluster,
        cluster.client() as client,
        DaskRuntime(client) as runtime,
    ):

        def work():
            told = facts(select(store, scored, runtime=runtime, **options))
            return told | {"driver_peak_bytes": peak_bytes()}

        yield work


@contextmanager
def pass_job(store, rank):
    """Scores of all features from R directions, the statistic being known."""
    labels = label_matrix(read_target(store, "sample_trait"))
    kernel = resolve_kernel("gaussian")
    choices = Choices(kernel, resolve_bandwidth("dimension"), standardize=False)
    weights = factored_weights(labels.factor())
    with Threads() as runtime, single_blas_thread():
        source = open_source(store, variable=matrix_of(store))
        data = Reader(source, runtime)
        scorer = LowRankScorer(choices, data, weights)
        S = np.flatnonzero(~scorer.measure().constant)
        fit, sigma = scorer.sum.fit, choices.bandwidth(scorer.bandwidth_stats(), S.size)
        factor = Nystrom().factor(kernel, sigma, fit)
        question = LowRankScoringProblem(
            kernel, sigma, weights, lambda _: factor, rank, tolerance=0.0
        )
        state = LowRank(1).prepare(question)
        jobs = data.jobs(S)

        def score():
            parts = data.map_blocks(ScoreLowRank(state), jobs)
            return {"directions": len(state.A[0].theta), "scored": sum(len(part) for part in parts)}

        yield score
