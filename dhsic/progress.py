"""Progress for people: features scored of all that a run will score, with rate and time left.

The sizes of all rounds are known from the start, so the total is exact.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dhsic.algorithms.state import SelectionState
from dhsic.errors import InputError

Hook = Callable[[Mapping[str, Any]], object]


class Progress:
    """Hears of scored features and finished rounds; draws a bar, calls a hook, or does nothing.

    Parameters
    ----------
    progress : "auto", True, False or callable
        ``"auto"`` draws a bar where there is somebody to see it (a terminal, a notebook). A
        callable gets one mapping per round: the round's record and ``round``, ``features_done``,
        ``features_total``.
    total : int
        Features that all rounds together will score.
    """

    def __init__(self, progress: Any, total: int) -> None:
        check_progress(progress)
        self.total = total
        self.done = 0
        self._hook = progress if callable(progress) else None
        draw = _is_watched() if progress == "auto" else not self._hook and bool(progress)
        self._bar = _bar(total) if draw else None

    def scored(self, n_features: int) -> None:
        """So many more features have been scored."""
        self.done += n_features
        if self._bar is not None:
            self._bar.update(n_features)

    def round_done(self, state: SelectionState) -> None:
        """Mark the end of a round."""
        record = state.history[-1]
        if self._bar is not None:
            left = f", {state.survivors.size} left" if state.survivors.size else ""
            self._bar.set_postfix_str(f"round {state.round}{left}")
        if self._hook is not None:
            self._hook(
                {
                    **record,
                    "round": state.round,
                    "features_done": self.done,
                    "features_total": self.total,
                }
            )

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def _bar(total: int) -> Any:
    """A bar of tqdm: in a notebook a widget, or text where there are no widgets."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")  # of no use to who has no widgets
        from tqdm.auto import tqdm
    return tqdm(total=total, unit=" features", unit_scale=True, desc="dhsic", leave=False)


def check_progress(progress: Any) -> None:
    """Refuse what neither draws nor hears."""
    known = isinstance(progress, (bool, np.bool_)) or (
        isinstance(progress, str) and progress == "auto"
    )
    if not (known or callable(progress)):
        raise InputError(
            f"progress={progress!r}; pass 'auto', True, False or a function of one mapping."
        )


def _is_watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
