"""Records of the rounds of a run: checkpoint, log and progress reports."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.algorithms.state import SelectionState, begin
from dhsic.errors import InputError
from dhsic.notebook import Live, in_kernel
from dhsic.runtime.cores import in_joblib
from dhsic.selection.run import SelectionRun, logger
from dhsic.sources.scaling import Scaling
from dhsic.storage.checkpoint import Checkpoint

Hook = Callable[[Mapping[str, Any]], object]
#: Level of the log that is written to standard error, by value of `progress`.
LOG_LEVELS = {"log": logging.INFO, "debug": logging.DEBUG}


class Progress:
    """Progress of a run: number of features scored, and total over all rounds.

    Depending on its setting (see `check_progress`), it draws a bar, calls a hook after every round,
    or does nothing. It never draws a bar in a worker of joblib. The total is known before the first
    round, because `step` determines the sizes of all rounds. Other methods may end before the total
    is reached.
    """

    def __init__(self, progress: Any) -> None:
        self._hook = progress if callable(progress) else None
        wants_bar = (
            _is_watched()
            if progress == "auto"
            else isinstance(progress, (bool, np.bool_)) and bool(progress)
        )
        self._draws = wants_bar and not in_joblib()
        self._bar: Any = None
        self._done = self._total = 0

    def expect(self, n_features: int) -> None:
        """Start the bar; `n_features` is the number of scored features, summed over all rounds."""
        self._total = n_features
        if self._draws:
            self._bar = _bar(n_features)

    def scored(self, n_features: int) -> None:
        """Report that `n_features` more features were scored."""
        self._done += n_features
        if self._bar is not None:
            self._bar.update(n_features)

    def round_done(self, state: SelectionState) -> None:
        """Report the end of a round, which is the last one in the history of the state."""
        if self._bar is not None:
            remaining = f", {state.survivors.size} left" if state.survivors.size else ""
            text = f"round {state.round}{remaining}"
            if isinstance(self._bar, Live):
                self._bar.round_done(_last(state, "hsic")[0], text)
            else:
                self._bar.set_postfix_str(text)
        if self._hook is not None:
            sizes = {"features_done": self._done, "features_total": self._total}
            self._hook({**state.history[-1], "round": state.round, **sizes})

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


def _bar(total: int) -> Any:
    """Create a tqdm bar; in a notebook, a plot that follows the run."""
    if in_kernel():
        return Live(total)
    from tqdm import tqdm

    return tqdm(total=total, unit=" features", unit_scale=True, desc="dhsic", leave=False)


def check_progress(progress: Any) -> None:
    """Reject values that are neither a setting of the bar nor a callable.

    ``"auto"`` draws a bar in a terminal or a notebook. ``"log"`` writes one line per round to
    standard error, and ``"debug"`` all messages. A callable gets one mapping per round: the record
    of the round, and ``round``, ``features_done`` and ``features_total``.
    """
    is_setting = isinstance(progress, (bool, np.bool_)) or (
        isinstance(progress, str) and progress in ("auto", *LOG_LEVELS)
    )
    if not (is_setting or callable(progress)):
        raise InputError(
            f"progress={progress!r}; pass 'auto', True, False, 'log', 'debug' or a function with "
            "one argument, a mapping."
        )


def _is_watched() -> bool:
    return sys.stderr.isatty() or in_kernel()


@contextmanager
def log_messages(progress: Any) -> Iterator[None]:
    """Show dhsic's log on standard error if `progress` names one of the `LOG_LEVELS`."""
    before, shown = logger.level, logging.StreamHandler()
    if isinstance(progress, str) and progress in LOG_LEVELS:
        logger.addHandler(shown)
        logger.setLevel(LOG_LEVELS[progress])
    try:
        yield
    finally:
        logger.removeHandler(shown)
        logger.setLevel(before)


class RunRecorder:
    """Recorder of the rounds of a run: saves them to the checkpoint, if any, and reports them."""

    def __init__(self, run: SelectionRun, kept: Checkpoint | None) -> None:
        self._run, self._kept = run, kept
        #: State where the run stopped before, and the extra arrays that `note` saved with it.
        self.previous = None if kept is None else kept.begin(run.identity())
        self.arrays: Mapping[str, Array] = {} if kept is None else kept.arrays
        self.progress = Progress(run.selector.progress)

    def begin(self, candidates: Index, scaling: Scaling) -> SelectionState:
        """Return the state from the checkpoint; without one, the state before the first round."""
        if self.previous is not None:
            return self.previous
        state = begin(candidates)
        if self._kept is not None:
            self._kept.start(state, scaling.checksum)
        return state

    def check(self, scaling: Scaling, *, has_bandwidth: bool) -> None:
        """Reject data that cannot be ranked, or that differ from the data of the checkpoint."""
        if self._kept is not None:
            self._kept.check_data(scaling.checksum)
        missing, scaled = self._run.selector.missing, self._run.standardizes
        source = self._run.source
        scaling.check(
            missing,
            source,
            standardize=scaled,
            has_bandwidth=has_bandwidth,
            n_samples=self._run.n_samples,
        )

    def note(self, state: SelectionState, *arrays: Mapping[str, Array]) -> None:
        """Save a finished round, with arrays that the next round needs, and report the round."""
        if self._kept is not None:
            self._kept.save(state, *arrays)
        logger.info(
            "round %d: %d features left, HSIC %.6g, %.3g s",
            *(state.round, state.survivors.size, *_last(state, "hsic", "seconds")),
            extra={"record": {"round": state.round, **state.history[-1]}},
        )
        self.progress.round_done(state)

    def finish(self) -> None:
        """Mark the checkpoint as complete."""
        if self._kept is not None:
            self._kept.finish()


def _last(state: SelectionState, *names: str) -> list[float]:
    """Values of the record of the last round; NaN for `names` that are not in it."""
    return [float(state.history[-1].get(name, np.nan)) for name in names]


@contextmanager
def recording(run: SelectionRun) -> Iterator[RunRecorder]:
    """Context that yields the recorder of a run.

    The checkpoint of the run is locked until the end of the context.
    """
    with ExitStack() as stack:
        place = run.selector.checkpoint
        checkpoint = None if place is None else stack.enter_context(Checkpoint(place))
        recorder = RunRecorder(run, checkpoint)
        stack.callback(recorder.progress.close)
        yield recorder
