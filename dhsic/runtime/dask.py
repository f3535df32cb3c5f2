"""The cluster runtime: Dask futures, one task per worker process and pass.

The jobs of a pass are partitioned into *shares*, one per worker process (`partition.py`), and
`ordered_map.py` tracks the task of each share. Everything that workers hold can be recomputed: if a
worker dies, only its share of the current pass is repeated. A worker that joins later is used from
the next pass. Workers add up sums, so this process receives only totals.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, TypeVar

from dhsic.errors import ClusterError
from dhsic.runtime.base import AbstractStep, Ask, Jobs, Make, Sites, SiteValues, Task
from dhsic.runtime.broadcast import SMALL, Broadcast, Gathered, Parcel
from dhsic.runtime.calls import sealed
from dhsic.runtime.cluster import Cluster
from dhsic.runtime.ordered_map import Map
from dhsic.runtime.partition import n_values
from dhsic.runtime.task_attempt import Traffic
from dhsic.runtime.threads import Threads
from dhsic.runtime.tree_reduce import Add
from dhsic.runtime.worker import hold
from dhsic.runtime.worker_state import (
    GatherMap,
    Lineage,
    PartitionedState,
    QueryMap,
    SumMap,
    UpdateMap,
)
from dhsic.sources import AbstractSource

TOGETHER = 4 << 20  # bytes that may be sent along with all tasks of a pass
CLIENT_BYTES = 64 * 2**20  # bytes of data in this process that may be sent to workers
REMEMBERED = 1000  # passes whose traffic is recorded
M = TypeVar("M", bound=Map)
A = TypeVar("A", bound=QueryMap)


class DaskRuntime(Cluster):
    """Ordered map over the workers of an existing Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional
        Client to use; it stays open.
    scheduler : str, optional
        Address to connect to when no `client` is given. Without either, the active client of this
        process is used (inside a task, the client of the worker).
    window : int, optional
        Maximum number of unfinished tasks; by default two per worker process, which are counted
        every few seconds. A pass has one task per worker process; it has more if these would take
        long, or if the window is larger. An adaptive cluster starts one worker per task: pass its
        maximum number of worker processes to make it grow at once.
    scratch : path, optional
        Folder for states that are too large to be sent with every task, and for copies of the
        surviving features; by default the folder for temporary files. If workers cannot read it,
        states are sent over the network, and features are not copied.
    timeout : float, optional
        Seconds to wait for a first worker, and for a scheduler that was lost. At the start, the
        scheduler must be reached within `CONNECT` seconds.
    security : distributed.Security, optional
        Certificates for `scheduler`; by default the certificates of Dask's configuration.

    Raises
    ------
    ClusterError
        No client, no workers, or workers with other versions of dhsic or numpy.
    """

    #: Source that was broadcast last.
    _source: tuple[AbstractSource, Broadcast] | None = None

    @cached_property
    def _here(self) -> Threads:
        """Thread pool for tasks that run in this process."""
        return Threads()

    @cached_property
    def traffic(self) -> deque[Traffic]:
        """Numbers of tasks and bytes of each of the last passes."""
        return deque(maxlen=REMEMBERED)

    def results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, *, divisible: bool
    ) -> Generator[Any]:
        """Yield results, see `AbstractRuntime.results`; jobs of lost workers are run again.

        When a task fails or the iterator is closed, jobs that have not begun are dropped. Running
        jobs are not interrupted.
        """
        if not jobs:
            return
        with self._mapping(partial(Map, divisible=divisible), task, source, state) as running_map:
            yield from running_map.results(jobs)

    def sum_results(
        self, task: Task, source: AbstractSource, jobs: Jobs, state: Any, add: Add
    ) -> Any:
        with self._mapping(partial(SumMap, add=add), task, source, state) as running_map:
            return running_map.sum_results(jobs)

    def update(
        self,
        held: SiteValues | None,
        step: AbstractStep,
        source: AbstractSource,
        sites: Sites,
        state: Any,
    ) -> tuple[SiteValues, Any]:
        """Update the stored values (see `AbstractRuntime.update`); workers keep those they compute.

        If there is a single value, it stays in this process, and only the jobs that read data are
        distributed.
        """
        begins = held is None and len(sites) > 1 and source.pieces(()) is None
        if not (begins or isinstance(held, PartitionedState)):
            return super().update(held, step, source, sites, state)
        self.await_workers()
        if isinstance(held, PartitionedState) and not step.renews:
            with self._asking(QueryMap, held, step, state) as query:
                return held, query.sum_parts(step, sites)
        before = (
            held if isinstance(held, PartitionedState) else self._partition_sites(source, sites)
        )
        if any(site.jobs for site in sites) or not before.lineage.links:
            sent = self._send_source(source)
        else:  # the step reads no data: reuse the source sent before
            source, sent = before.lineage.links[-1].source, before.lineage.links[-1].sent
        broadcast = self._broadcast(state)
        stepping = UpdateMap(self, step, source, sent, broadcast, held=before)
        self.traffic.append(stepping.traffic)
        parts = stepping.update(step, sites)
        values = [stepping.values[i] for i in range(len(before.shares))]
        return before.then(values), parts

    def _partition_sites(self, source: AbstractSource, sites: Sites) -> PartitionedState:
        """Partition the sites (owners of one stored value each) over the workers, for a first step.

        They have no stored values yet.
        """
        jobs = [job for site in sites for job in site.jobs]
        n = n_values(source, jobs)
        workers, shares = zip(*self.shared_out(len(sites), n), strict=True)
        return PartitionedState(Lineage(), [*shares], [*workers], n)

    def query(self, held: SiteValues, ask: Ask, told: Sequence[Any], state: Any) -> Iterator[Any]:
        if not isinstance(held, PartitionedState):
            yield from super().query(held, ask, told, state)
            return
        with self._asking(QueryMap, held, ask, state) as query:
            for answer in query.answers(ask, told):
                self.poll_interrupt()
                yield answer

    def gather(
        self, held: SiteValues, ask: Ask, told: Sequence[Any], state: Any, make: Make
    ) -> Any:
        """Build an object from answers, see `AbstractRuntime.gather`.

        Large answers stay in files. The workers that unpickle the result combine them.
        """
        if not isinstance(held, PartitionedState):
            return super().gather(held, ask, told, state, make)
        with self._asking(GatherMap, held, ask, state) as query:
            parts = list(query.of_shares(ask, told))
        if any(isinstance(part, Parcel) for part in parts):
            return Gathered(make, parts)
        return make([answer for part in parts for answer in part])

    @contextmanager
    def _asking(self, kind: type[A], held: PartitionedState, ask: Any, state: Any) -> Iterator[A]:
        self.await_workers()
        link, broadcast = held.lineage.links[-1], self._broadcast(state)
        query = kind(self, ask, link.source, link.sent, broadcast, held=held)
        self.traffic.append(query.traffic)
        yield query
        held.values = [query.values.get(i, value) for i, value in enumerate(held.values)]
        broadcast.discard()

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return self._here.each(function, items)

    @contextmanager
    def _mapping(
        self, kind: Callable[..., M], task: Task, source: AbstractSource, state: Any
    ) -> Iterator[M]:
        self.await_workers()
        sent, broadcast = self._send_source(source), self._broadcast(state)
        running_map = kind(self, task, source, sent, broadcast)
        self.traffic.append(running_map.traffic)
        yield running_map
        # Skipped after a failure, when running tasks may still read the file; `close` removes it.
        broadcast.discard()

    def _send_source(self, source: AbstractSource) -> Broadcast:
        if source.client_bytes > CLIENT_BYTES:
            raise ClusterError(
                f"The data ({source.client_bytes / 2**20:.0f} MiB) are in the memory of this "
                f"process, and at most {CLIENT_BYTES / 2**20:.0f} MiB are sent to workers. Write "
                "them to Zarr where workers can read them and pass the path, or use "
                "runtime='threads'."
            )
        if self._source is None or self._source[0] is not source:
            self._source = source, self._broadcast(source)
        return self._source[1]

    def _broadcast(self, value: Any) -> Broadcast:
        folder = self.folder if self.workers_see_folder else None
        return Broadcast(value, folder, self._send, min(SMALL, TOGETHER // len(self.threads)))

    def _send(self, data: bytes) -> Any:
        """Submit a task that returns `data`; Dask can run it again if its result is lost."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            key = self.unique("state")
            where = self.workers_for(())
            return self.client.submit(*sealed(hold), data, key=key, pure=False, workers=where)

    def close(self) -> None:
        self._here.close()
        self._source = None
        super().close()
