"""The rounds of a run: kept in its checkpoint, counted, logged and told as they end."""

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


class Progress:
    """Features scored of all that a run will score, with rate and time left, for people.

    It draws a bar, calls a hook after every round, or does nothing, see `check_progress`; in a
    worker of joblib it draws none. The sizes of all rounds follow from `step` before the first; a
    method with rounds of its own ends early.
    """

    def __init__(self, progress: Any) -> None:
        self._hook = progress if callable(progress) else None
        asked = _is_watched() if progress == "auto" else not self._hook and bool(progress)
        self._draws = asked and not in_joblib()
        self._bar: Any = None
        self._done = self._total = 0

    def expect(self, n_features: int) -> None:
        """Begin: all rounds together will score so many features."""
        self._total = n_features
        if self._draws:
            self._bar = _bar(n_features)

    def scored(self, n_features: int) -> None:
        """Count so many more features as scored."""
        self._done += n_features
        if self._bar is not None:
            self._bar.update(n_features)

    def round_done(self, state: SelectionState) -> None:
        """Mark the end of a round."""
        if self._bar is not None:
            left = f", {state.survivors.size} left" if state.survivors.size else ""
            told = f"round {state.round}{left}"
            if isinstance(self._bar, Live):
                self._bar.round_done(_last(state, "hsic")[0], told)
            else:
                self._bar.set_postfix_str(told)
        if self._hook is not None:
            sizes = {"features_done": self._done, "features_total": self._total}
            self._hook({**state.history[-1], "round": state.round, **sizes})

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def _bar(total: int) -> Any:
    """A bar of tqdm; in a notebook a picture that follows the run."""
    if in_kernel():
        return Live(total)
    from tqdm import tqdm

    return tqdm(total=total, unit=" features", unit_scale=True, desc="dhsic", leave=False)


def check_progress(progress: Any) -> None:
    """Refuse what neither draws nor hears.

    ``"auto"`` draws a bar where there is somebody to see it (a terminal, a notebook). A callable
    gets one mapping per round: the round's record and ``round``, ``features_done``,
    ``features_total``.
    """
    known = isinstance(progress, (bool, np.bool_)) or (
        isinstance(progress, str) and progress == "auto"
    )
    if not (known or callable(progress)):
        raise InputError(
            f"progress={progress!r}; pass 'auto', True, False or a function of one mapping."
        )


def _is_watched() -> bool:
    return sys.stderr.isatty() or in_kernel()


@contextmanager
def told(verbose: int) -> Iterator[None]:
    """Show on standard error what dhsic logs: with 1 a line a round, with 2 all."""
    before, shown = logger.level, logging.StreamHandler()
    if verbose:
        logger.addHandler(shown)
        logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(shown)
        logger.setLevel(before)


class RunRecorder:
    """The rounds of a run: kept, where there is a checkpoint, and told as they end."""

    def __init__(self, run: SelectionRun, kept: Checkpoint | None) -> None:
        self._run, self._kept = run, kept
        #: Where the run stopped before, and what `note` was given besides that state.
        self.previous = None if kept is None else kept.begin(run.identity())
        self.arrays: Mapping[str, Array] = {} if kept is None else kept.arrays
        self.progress = Progress(run.selector.progress)

    def begin(self, candidates: Index, scaling: Scaling) -> SelectionState:
        """State where the run stopped before, or its start."""
        if self.previous is not None:
            return self.previous
        state = begin(candidates)
        if self._kept is not None:
            self._kept.start(state, scaling.checksum)
        return state

    def check(self, scaling: Scaling, *, has_bandwidth: bool) -> None:
        """Refuse data of which other rounds are kept, or that nothing can be ranked by."""
        if self._kept is not None:
            self._kept.check_data(scaling.checksum)
        missing, scaled = self._run.selector.missing, self._run.standardizes
        source = self._run.source
        scaling.check(missing, source, standardize=scaled, has_bandwidth=has_bandwidth)

    def note(self, state: SelectionState, *arrays: Mapping[str, Array]) -> None:
        """Keep a round that has ended, with arrays that the next one needs, and tell of it."""
        if self._kept is not None:
            self._kept.save(state, *arrays)
        logger.info(
            "round %d: %d features left, HSIC %.6g, %.3g s",
            *(state.round, state.survivors.size, *_last(state, "hsic", "seconds")),
            extra={"record": {"round": state.round, **state.history[-1]}},
        )
        self.progress.round_done(state)

    def finish(self) -> None:
        """Mark the run as complete."""
        if self._kept is not None:
            self._kept.finish()


def _last(state: SelectionState, *names: str) -> list[float]:
    """Numbers of the last record, NaN where it lacks them."""
    return [float(state.history[-1].get(name, np.nan)) for name in names]


@contextmanager
def recording(run: SelectionRun) -> Iterator[RunRecorder]:
    """Yield the recorder of a run, whose checkpoint is held until the block ends."""
    with ExitStack() as stack:
        place = run.selector.checkpoint
        kept = None if place is None else stack.enter_context(Checkpoint(place))
        recorder = RunRecorder(run, kept)
        stack.callback(recorder.progress.close)
        yield recorder
