"""`Run`: handle of a run that another process executes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import xarray as xr

import dhsic.errors
from dhsic import notebook
from dhsic.detached.driver import LOST, drive_here, name_of, published, send
from dhsic.detached.folder import ENDS, Folder
from dhsic.errors import CheckpointError, ClusterError, DhsicError
from dhsic.methods import method_of
from dhsic.results.files import load
from dhsic.selection.progress import Hook
from dhsic.storage.checkpoint import Checkpoint

ANSWER = 3.0  # seconds that a scheduler may take to answer whether it knows a run
AGAIN = 10.0  # seconds before a scheduler that did not answer is asked again
PATIENCE = 5.0  # seconds for which a run must seem lost before it is reported as lost
LOOKS = 0.2  # seconds between checks of the folder
PROGRESS = (
    *("round", "features_left", "features_done", "features_total", "seconds", "seconds_left"),
)


class Run:
    """A run that outlives the process that started it, returned by `dhsic.submit` and `attach`.

    Progress and final status are read from the checkpoint folder. The cluster is contacted only if
    the folder does not show whether the run is still being executed. By default it is the cluster
    that the run was submitted to.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        client: Any = None,
        scheduler: str | None = None,
        security: Any = None,
    ) -> None:
        self.folder = folder
        self.id = folder.request().id
        self._given = client
        self._scheduler = scheduler
        self._security = security
        self._made: Any = None  # client created by this object
        self._asked = -AGAIN
        self._driver: Any = None  # future of the driver
        self._listens = False

    @property
    def path(self) -> Path | str:
        """Folder or URL of the checkpoint."""
        return self.folder.path

    @property
    def status(self) -> str:
        """Status of the run.

        The status is ``"waiting"`` (for a worker), ``"running"``, ``"done"``, ``"failed"``,
        ``"cancelled"``, or ``"lost"``. A lost run is not executed by any process; `resume`
        continues it from the last round.
        """
        status = self.folder.status
        if status.state in ENDS:
            return status.state
        if self.folder.is_driven():
            return "running"
        if not self._is_known():
            status = self.folder.status  # it may have ended since
            if status.state not in ENDS:
                return "cancelled" if self.folder.stop_wanted else "lost"
        return status.state

    def progress(self) -> dict[str, Any]:
        """Return the progress of the run.

        Returns
        -------
        dict
            ``round`` (number of rounds done), ``features_left`` (candidates after this round),
            ``features_done`` (features scored since the run was last started or resumed),
            ``features_total`` (features to score until the end, counted in the same way),
            ``seconds`` (time that the run has been executed), ``seconds_left`` (estimate from the
            speed since the last start). All are 0 before the first round ends.
        """
        record = self.folder.progress
        return {name: record.get(name, 0) for name in PROGRESS}

    @property
    def history(self) -> tuple[Mapping[str, float | int | str], ...]:
        """Records of all rounds so far, as in the result."""
        state = Checkpoint(self.path).load()
        return () if state is None else state.history

    def wait(self, timeout: float | None = None, *, callback: Hook | None = None) -> str:
        """Wait until the run has ended or is lost, or until the timeout; return its status.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.
        callback : callable, optional
            Called after every round, with the return value of `progress`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        last_round, lost_since = -1, None
        while True:
            status = self.status
            now = self.progress()
            if callback is not None and now["round"] > last_round:
                last_round = now["round"]
                callback(now)
            lost_since = None if status != "lost" else lost_since or time.monotonic()
            is_lost = lost_since is not None and time.monotonic() - lost_since > PATIENCE
            is_late = deadline is not None and time.monotonic() > deadline
            if status in ENDS or is_lost or is_late:
                return status
            time.sleep(LOOKS * self.folder.store.rarer)

    def result(self, timeout: float | None = None) -> xr.Dataset:
        """Wait for the result and read it.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        xarray.Dataset
            Result, as `dhsic.select` returns it.

        Raises
        ------
        DhsicError
            The error that ended the run; ClusterError if the run was cancelled or is lost.
        TimeoutError
            The run has not ended within `timeout`.
        """
        status = self.wait(timeout)
        if status == "done":
            return load(self.folder.result)
        if status == "failed":
            raise self._failure()
        done = f"{self.progress()['round']} completed rounds are saved in {self.path}"
        if status == "cancelled":
            raise ClusterError(
                f"The run was cancelled. {done}; to continue, use Run.resume or `dhsic resume`."
            )
        if status == "lost":
            raise ClusterError(
                f"The run was lost: {self._why_lost()}. {done}. To continue on another cluster or "
                "on threads, with the same result, use Run.resume or `dhsic resume`."
            )
        raise TimeoutError(f"The run has not ended within {timeout:g} s: it is {status}. {done}.")

    def cancel(self) -> None:
        """Stop the run; completed rounds are kept, and `resume` continues from them.

        The run stops between two results of tasks, so `status` may be ``"running"`` for a while.
        """
        if self.status in ENDS:
            return
        self.folder.want_stop()
        client = self._client()
        if client is not None and not self.folder.is_driven() and self._driver is not None:
            client.cancel([self._driver], force=True)  # the driver has not begun yet

    def resume(
        self,
        client: Any = None,
        *,
        scheduler: str | None = None,
        security: Any = None,
        n_threads: int | None = None,
    ) -> Self:
        """Continue a run that is lost, cancelled or failed; the result is unaffected.

        Parameters
        ----------
        client, scheduler, security
            Cluster that continues the run in the background, see `attach`.
        n_threads : int, optional
            Number of threads of this process if no cluster is given; by default all usable
            cores. In this case the call returns when the run has ended.

        Raises
        ------
        CheckpointError
            The run is already being continued.
        """
        status = self.status
        if status in ("waiting", "running"):
            raise CheckpointError(
                f"The run in {self.path} is {status}, so it cannot be resumed. Wait for it, or "
                "cancel it first."
            )
        if status == "done":
            return self
        self.close()
        if client is None and scheduler is None:
            drive_here(self.folder, n_threads)
        else:
            self._security = security or self._security
            self._given = send(
                None, self.folder, client=client, scheduler=scheduler, security=self._security
            )
            self._scheduler = scheduler
        return self

    def listen(self, callback: Hook) -> None:
        """Call `callback` with every event of the run, past events first.

        Events are mappings with ``event`` (``"running"``, ``"round"``, ``"done"``, ``"failed"``,
        ``"cancelled"``). Events of rounds also contain the values of `progress`, and the record of
        the round. The cluster sends the events, and `callback` runs in the thread of the client.
        `wait` does not need a cluster.

        Raises
        ------
        ClusterError
            There is no cluster that sends events.
        """
        client = self._client()
        if client is None:
            raise ClusterError(
                f"Events of the run in {self.path} need its cluster. Pass client= or scheduler= to "
                "dhsic.attach, or follow the checkpoint with Run.wait(callback=...)."
            )
        client.subscribe_topic(name_of(self.id), lambda event: callback(event[1]))
        self._listens = True
        for _, event in client.get_events(name_of(self.id)) or ():
            callback(event)  # some events may be passed twice

    def close(self) -> None:
        """Close the connection to the cluster; the run continues."""
        client, self._driver = self._client(ask=False), None
        if self._listens and client is not None:
            with suppress(ValueError, *LOST):
                client.unsubscribe_topic(name_of(self.id))
            self._listens = False
        if self._made is not None:
            self._made.close()
            self._made = None
        self._asked = -AGAIN

    def _client(self, *, ask: bool = True) -> Any:
        """Return the client of this object.

        If there is none and `ask` is true, a client is created. The result is None if the scheduler
        of the run does not answer.
        """
        client = self._given or self._made
        if client is not None and client.status != "closed":
            return client
        address = self._scheduler or self.folder.status.scheduler
        if not ask or address is None or time.monotonic() - self._asked < AGAIN:
            return None
        self._asked = time.monotonic()
        self._made = reached(address, self._security)
        return self._made

    def _is_known(self) -> bool:
        """Whether the driver of the run is still pending on a cluster."""
        client = self._client()
        if client is None or client.status != "running":
            return False
        if self._driver is None:
            entry = published(client, self.id)
            self._driver = None if entry is None else entry[1]
        return self._driver is not None and self._driver.status == "pending"

    def _failure(self) -> DhsicError:
        status = self.folder.status
        kind = getattr(dhsic.errors, status.kind, None)
        if isinstance(kind, type) and issubclass(kind, DhsicError):
            return kind(status.message)
        return ClusterError(
            f"The run failed on the cluster: {status.message.rstrip('.')}. Check the logs of its "
            f"workers; the completed rounds are kept in {self.path}."
        )

    def _why_lost(self) -> str:
        driver = self._driver
        if driver is not None and driver.status == "error":
            try:
                error = driver.exception(timeout=ANSWER)
            except (OSError, TimeoutError, CancelledError):
                error = None
            if error is not None:
                return f"its driver ended with {type(error).__name__}: {str(error).rstrip('.')}"
        where = self.folder.status.scheduler
        return "no driver is running" if where is None else f"no cluster at {where} is running it"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _facts(self) -> dict[str, str]:
        now, request = self.progress(), self.folder.request()
        return {
            "run": self.id,
            "status": self.status,
            "method": method_of(request.selector)[0],
            "data": request.data,
            "rounds done": f"{now['round']:,}",
            "features left": f"{now['features_left']:,}" if now["round"] else "all",
            "time": f"{now['seconds']:.1f} s",
            "checkpoint": str(self.path),
        }

    def __repr__(self) -> str:
        facts = self._facts()
        return (
            f"<Run {facts['run']}: {facts['status']}, {facts['rounds done']} rounds done, "
            f"{facts['features left']} features left, {facts['time']}, {facts['checkpoint']}>"
        )

    def _repr_html_(self) -> str:
        hsic = [float(record.get("hsic", "nan")) for record in self.history]
        return notebook.page(notebook.facts(self._facts()), notebook.curve(hsic, "HSIC"))


def reached(scheduler: str, security: Any) -> Any:
    """Return a client of the scheduler at an address; None if it does not answer."""
    from dhsic.runtime.clients import client_at

    try:
        return client_at(scheduler, ANSWER, security)
    except ClusterError:
        return None
