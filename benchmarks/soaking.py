"""The runs of the soak: small ones that between them go every way through a cluster."""

import shutil

import numpy as np
import zarr
from measuring import say

import dhsic
from dhsic.passes import reader, survivors
from dhsic.runtime.dask import DaskRuntime
from dhsic.simulation import simulate_genotypes

M, D, SEED = 200, 6000, 7
N_SELECT = 8
#: Features that methods get which look at all of them together.
FEW = 60
#: Genes of features, for runs in groups.
GENES = 300


class Runs:
    """Data of the runs, and the runs.

    Parameters
    ----------
    folder : Path
        For data and checkpoints; not the one in which files are counted.
    scratch : Path
        What runs share with workers.
    """

    def __init__(self, folder, scratch):
        survivors.HOME_BYTES = -1  # small data are to stay on the cluster
        self._folder, self._scratch = folder, scratch
        folder.mkdir(parents=True, exist_ok=True)
        scratch.mkdir(parents=True, exist_ok=True)
        self._genotypes = str(folder / "genotypes.vcz")
        say("simulate genotypes")
        simulate_genotypes(
            self._genotypes, n_samples=M, n_variants=D, seed=SEED, chunk_variants=250
        )
        self._y = dhsic.read_target(self._genotypes, "sample_trait")
        group = zarr.open_group(self._genotypes, mode="r")
        dosages = group["call_genotype"][:].clip(0).sum(axis=2).astype(np.float32).T
        self._few = np.ascontiguousarray(dosages[:, :FEW])
        self._genes = np.arange(D) // (D // GENES)

    def ways(self):
        """(what a run is, the run as a function of a client), over and over in this order."""
        store, few = self._genotypes, self._few
        return [
            ("low rank", self._on(store)),
            ("exact", self._on(store, solver="exact")),
            ("polynomial", self._on(store, kernel="polynomial", solver="exact", step=0.5)),
            ("forward", self._on(store, method="fohsic")),
            ("groups", self._on(store, feature_groups=self._genes, step=0.5)),
            ("in memory", self._on(few, step=0.5)),
            ("ccm", self._on(few, method="ccm", max_iterations=10)),
            ("weighting", self._on(few, method="weighting", max_iterations=10)),
            ("vectors", self._on(few, method="svm-rfe", step=0.5)),
            ("one pass", self._on(store, method="mmd")),
            ("own client", self._own_client),
            ("submitted", self._submitted),
            ("closed early", self._closed_early),
        ]

    def _on(self, data, **asked):
        def run(client):
            with DaskRuntime(client, scratch=self._scratch) as runtime:
                dhsic.select(data, self._y, **self._options(runtime=runtime, **asked))

        return run

    def _options(self, **asked):
        return {"n_features_to_select": N_SELECT, "progress": False} | asked

    def _own_client(self, client):
        """The runtime makes a client, and closes it."""
        address = client.scheduler.address
        with DaskRuntime(scheduler=address, scratch=self._scratch) as runtime:
            dhsic.select(self._genotypes, self._y, **self._options(runtime=runtime, step=0.5))

    def _submitted(self, client):
        """The loop runs on a worker; its checkpoint goes with the run."""
        place = self._folder / "run.dhsic"
        shutil.rmtree(place, ignore_errors=True)
        sent = dhsic.submit(
            self._genotypes, self._y, checkpoint=place, client=client, n_features_to_select=N_SELECT
        )
        heard = []
        sent.listen(heard.append)
        sent.result(600)
        sent.close()
        shutil.rmtree(place)

    def _closed_early(self, client):
        """Results that nobody takes: the map is left after its first."""
        with DaskRuntime(client, scratch=self._scratch) as runtime:
            source = dhsic.open_source(self._genotypes)
            jobs = [reader.Job((block,)) for block in source.blocks(100)]
            results = runtime.map(_wide, source, jobs, np.ones(1 << 16))
            next(results)
            results.close()


def _wide(source, job, state):
    """A result that is too large to travel with its task, on a shelf."""
    return np.outer(source.read(job.blocks[0]).mean(axis=1)[:100], state[:4096])
