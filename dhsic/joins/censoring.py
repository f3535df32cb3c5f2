"""Censored times as users pass them: a time, whether its event was observed, and a time of entry.

They are records with a boolean and a number (as in scikit-survival), columns of a frame, names of
variables of the data, or arrays. All become arrays of type `dhsic.kernels.risk_sets.CENSORED`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float, Mask
from dhsic.errors import InputError, warn
from dhsic.joins.frame_rows import id_columns
from dhsic.joins.keys import as_text
from dhsic.joins.reordering import reordered
from dhsic.joins.text import is_missing, stands_for_none, stripped, typed
from dhsic.kernels.risk_sets import CENSORED, check_events, is_censored
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.ids import abbreviate, did_you_mean, plain
from dhsic.validation import is_numeral

#: Words for an event that was observed, and for a censored time, in lower case.
YES, NO = frozenset(("true", "yes", "t", "y")), frozenset(("false", "no", "f", "n"))
#: Words of clinical tables for an event, and for a sample without one, in lower case. They may
#: follow the numbers 1 and 0, as in "1:DECEASED".
EVENTS = frozenset(
    (
        *("dead", "deceased", "died", "death", "event", "observed", "uncensored", "failure"),
        *("progressed", "progression", "recurred", "recurrence", "relapsed", "relapse"),
        *("recurred/progressed", "metastasis", "dead of disease", "died of disease"),
    )
)
NO_EVENTS = frozenset(
    (
        *("alive", "living", "survived", "censored", "event-free", "event free", "diseasefree"),
        *("disease-free", "disease free", "progression-free", "progression free"),
        *("relapse-free", "relapse free", "not progressed", "not recurred", "not relapsed"),
        *(f"no {word}" for word in sorted(EVENTS)),
    )
)
#: Words in names of columns whose 1 or "yes" may mean that there was no event.
OPPOSITE = frozenset(
    (
        *("alive", "living", "survived", "survivor", "cens", "censor", "censored", "censoring"),
        *("free", "lost", "followed", "follow", "ongoing"),
    )
)
#: Texts that mean 1 and 0.
ONE, ZERO = YES | {"1", "1.0"}, NO | {"0", "0.0"}
#: Patterns of plain names of columns that hold times to an event, and events; and the minimum
#: number of different times.
OF_TIME = re.compile(r"time|surv|days|months|years|followup|^(os|pfs|dfs|rfs|dss|efs|ttp)$")
OF_EVENT = re.compile(
    r"event|status|death|dead|died|decease|cens|alive|relapse|progress|recur|^(os|pfs|dfs|rfs)$"
)
FEWEST_TIMES = 10
#: Maximum number of features among which events are looked for.
MOST_FEATURES = 4096
_NUMBERED = re.compile(r"([01])\s*[:=]\s*(\D.*)")


@dataclass(frozen=True)
class Censoring:
    """Names of the columns of censored times: times, events, and times of entry if any.

    `observed` is the value of an observed event, as text; without it, events are 1, yes and so on.
    """

    time: str
    event: str
    entry: str | None = None
    observed: str | None = None

    @staticmethod
    def of(time: str, event: str, entry: str | None, columns: Collection[str] = ()) -> Censoring:
        """Create the object from `event` as users pass it: the name of a column, or NAME=VALUE.

        `columns` are known names of columns, which may contain "=".
        """
        return Censoring(time, event_column(event, columns), entry, observed_value(event, columns))

    def __post_init__(self) -> None:
        if len({*self.names}) < len(self.names):
            raise InputError(
                f"Times, events and entries are {', '.join(map(repr, self.names))}; name three "
                "different columns: target=, event= and entry=."
            )

    @property
    def names(self) -> list[str]:
        return [self.time, self.event, *([] if self.entry is None else [self.entry])]

    def labels(self, columns: Mapping[str, Array]) -> Array:
        """Combine the columns, (m,) each by name, into censored times (m,)."""
        entry = None if self.entry is None else columns[self.entry]
        called = f"{self.time!r}", f"{self.event!r}", f"{self.entry!r}"
        events = columns[self.event]
        if self.observed is None:
            refuse_unclear_events(events, self.event)
        else:
            events = _equal(events, self.observed, self.event)
        return censored_times(columns[self.time], events, entry, called)


def event_column(event: str, columns: Collection[str] = ()) -> str:
    """Return NAME of an event NAME or NAME=VALUE; names in `columns` may contain "="."""
    return event if event in columns else event.rpartition("=")[0] or event


def observed_value(event: str, columns: Collection[str] = ()) -> str | None:
    """Return VALUE of an event NAME=VALUE, as text; None if there is only a name."""
    column = event_column(event, columns)
    return None if column == event else event[len(column) + 1 :]


def warn_of_events(times: Mapping[str, Array], others: Mapping[str, Callable[[], Array]]) -> None:
    """Warn if labels look like times to an event, and another column looks like their events.

    Parameters
    ----------
    times : mapping of str to (m,)
        Labels by name.
    others : mapping of str to callable
        Functions that return another column or label, (m,), by its name. Only columns named like
        events, such as "death" or "status", are read.
    """
    time = next((name for name, values in times.items() if _may_be_times(name, values)), None)
    for name, values in others.items() if time is not None else ():
        if name != time and OF_EVENT.search(plain(name)) and _are_two(values()):
            warn(
                f"{time!r} looks like times to an event, and {name!r} looks like its events. "
                f"Without {name!r}, a time at which a sample was last seen counts like the time of "
                "an event. If some times are censored, pass "
                f"event={name!r}{', and only the times as target' if name in times else ''}."
            )
            return


def features_of_events(source: AbstractSource) -> dict[str, Callable[[], Array]]:
    """Find features named like events ("death", "status"); return a reader of each, by name."""
    names = source.feature_names()
    if names is None or len(names) > MOST_FEATURES:
        return {}
    at = [j for j, name in enumerate(map(str, names)) if OF_EVENT.search(plain(name))]
    return {str(names[j]): partial(_read_feature, source, j) for j in at}


def _read_feature(source: AbstractSource, j: int) -> Array:
    """Read feature j of a source, (m,)."""
    (values,) = source.read_columns(Block(0, j, j + 1), np.zeros(1, np.int64))
    return np.asarray(values)


def _may_be_times(name: str, values: Array) -> bool:
    """Whether labels have a name typical of times, and values that may be times."""
    if not OF_TIME.search(plain(name)) or values.dtype.kind not in "iufO":
        return False
    numbers = pd.to_numeric(pd.Series(values), errors="coerce").dropna()
    return numbers.nunique() >= FEWEST_TIMES and bool((numbers >= 0).all())


def _are_two(values: Array) -> bool:
    """Whether a column has exactly two different values, apart from missing ones."""
    texts = {text for text in map(str, stripped(values)) if not stands_for_none(text)}
    return len(texts) == 2


def _refuse_other_index(role: str, values: Any, what: str, times: Any) -> None:
    """Refuse events or times of entry whose index differs from the index of `times`.

    Equal names in another type, such as 1 and "1", are accepted.
    """
    ours, theirs = as_text(times.index), as_text(values.index)
    if (ours == theirs).all():
        return
    have_all = len({*ours}) == len(ours) and {*ours} == {*theirs}
    code = reordered(role, values, times.index, f"{what}.index") if have_all else ""
    raise InputError(
        f"The index of {role}= differs from the index of {what}. Put both in the same order: "
        f"{code}."
        if code
        else f"The index of {role}= has other names than the index of {what}, or repeated names. "
        "Pass values for the same samples, in the same order."
    )


def with_censoring(target: Any, event: Any, entry: Any, what: str) -> tuple[Any, Censoring | None]:
    """Combine the times of a target with their events and times of entry.

    `what` is the name of the target in messages.

    Returns
    -------
    target : list of str, frame or array
        Names of variables of the data, a frame, or an array of type `CENSORED`. Without events,
        the target is returned unchanged, unless it consists of records with an event.
    censoring : Censoring or None
        Names of the columns of the target; None for an array.
    """
    fields = getattr(getattr(target, "dtype", None), "names", None)
    if fields:
        return of_records(np.asarray(target), event, entry, what), None
    if event is None:
        if entry is not None:
            raise InputError(
                "entry= needs event=: the column that tells whether the event was observed. Pass "
                "both, or leave entry= out."
            )
        return target, None
    if isinstance(target, str):
        _check_named(event, entry, f"{what}={target!r} is a name")
        censoring = Censoring.of(target, event, entry)
        return censoring.names, censoring
    if isinstance(target, pd.DataFrame):
        return _of_frame(target, event, entry, what)
    if isinstance(target, list | tuple | dict) or np.ndim(target) != 1:
        raise InputError(
            f"event= needs one target, the time of each sample, but {what} is of type "
            f"{type(target).__name__}. Pass one column, or the name of one variable."
        )
    return _of_arrays(target, event, entry, what)


def of_records(y: Array, event: Any = None, entry: Any = None, what: str = "y") -> Array:
    """Convert records (m,) of a boolean and a number to censored times; others are unchanged.

    `event` and `entry` may name fields of the records.
    """
    if is_censored(y) and event is None and entry is None:
        return y
    names = list(y.dtype.names or ())
    observed = None if event is None else observed_value(event, names)
    event = None if event is None else event_column(event, names)
    for role, name in (("event", event), ("entry", entry)):
        if name is not None and name not in names:
            raise InputError(
                f"{role}={name!r} is not a field of {what}. The fields are "
                f"{abbreviate(map(repr, names))}. Pass one of these names."
            )
    events = [name for name in names if y.dtype[name].kind == "b"] if event is None else [event]
    times = [name for name in names if y.dtype[name].kind in "iuf" and name not in (event, entry)]
    if not events:
        return y
    if len(events) > 1 or len(times) != 1:
        raise InputError(
            f"{what} contains records with the fields {abbreviate(map(repr, names))}: "
            f"{len(events)} of them are true or false, and {len(times)} are numbers. Pass one "
            "boolean (the event was observed) and one number (the time); name a time of entry with "
            "entry=."
        )
    called = tuple(f"{what}[{name!r}]" for name in (times[0], events[0], entry))
    entries, values = None if entry is None else y[entry], y[events[0]]
    values = values if observed is None else _equal(values, observed, events[0])
    return censored_times(y[times[0]], values, entries, (called[0], called[1], called[2]))


def _check_named(event: Any, entry: Any, because: str) -> None:
    """Reject events and entries that are not column names; `because` is the reason."""
    for role, given in (("event", event), ("entry", entry)):
        if not isinstance(given, str | None):
            raise InputError(
                f"{role}= is of type {type(given).__name__}, but {because}; pass the name of the "
                f"column for {role}= too."
            )


def _of_frame(
    target: pd.DataFrame, event: Any, entry: Any, what: str
) -> tuple[pd.DataFrame, Censoring]:
    """Find the columns of times, events and entries of a frame."""
    _check_named(event, entry, f"{what} is a frame")
    columns = [*map(str, target.columns)]
    censoring = Censoring.of("", event, entry, columns)
    event = censoring.event
    for name in (event, *([] if entry is None else [entry])):
        if columns.count(name) != 1:
            raise InputError(
                f"{what} has {columns.count(name)} columns {name!r}; its columns are "
                f"{abbreviate(map(repr, columns))}.{did_you_mean(name, columns)}"
            )
    ids = [name for name in id_columns(target) if name not in (event, entry)]
    times = [name for name in target.columns if name not in (event, entry, *ids)]
    if len(times) != 1:
        raise InputError(
            f"{what} has {len(times)} columns besides the event {event!r} "
            f"({abbreviate(map(repr, times)) or 'none'}); pass a frame with one column of times."
        )
    return target, replace(censoring, time=times[0])


def _of_arrays(times: Any, event: Any, entry: Any, what: str) -> tuple[Any, Censoring | None]:
    """Combine times with events and entries that are arrays or series of the same samples."""
    given = {"event": event, **({} if entry is None else {"entry": entry})}
    for role, values in given.items():
        if isinstance(values, str) or np.ndim(values) != 1 or len(values) != len(times):
            got = repr(values) if isinstance(values, str) else f"of shape {np.shape(values)}"
            raise InputError(
                f"{role}= is {got}, but {what} has {len(times)} times. Pass one value per time; or "
                f"pass {what} as a name too, if both are columns of the data."
            )
        if hasattr(times, "iloc") and hasattr(values, "iloc"):
            _refuse_other_index(role, values, what, times)
    if isinstance(event, pd.Series) and isinstance(event.name, str):
        refuse_unclear_events(event.to_numpy(), event.name, is_series=True)
    if not hasattr(times, "iloc"):
        called = f"{what}", "event", "entry"
        entries = None if entry is None else np.asarray(entry)
        return censored_times(np.asarray(times), np.asarray(event), entries, called), None
    columns = {"time": times, **{role: np.asarray(values) for role, values in given.items()}}
    censoring = Censoring("time", "event", None if entry is None else "entry")
    return pd.DataFrame(columns, index=times.index), censoring


def censored_times(
    time: Array, event: Array, entry: Array | None, called: tuple[str, str, str]
) -> Array:
    """Check times, events and entries (m,), and combine them into censored times (m,).

    `called` are their names in messages.

    Raises
    ------
    InputError
        Values are missing, negative, or no numbers; events are not two values; nobody has an
        event; or a sample enters after its time.
    """
    y = np.empty(len(time), CENSORED)
    y["time"] = _numbers(time, called[0], "times")
    y["event"] = _events(event, called[1])
    y["entry"] = -np.inf if entry is None else _numbers(entry, called[2], "times of entry")
    check_events(y)
    late = np.flatnonzero(y["entry"] >= y["time"])
    if late.size:
        i = late[0]
        raise InputError(
            f"In {late.size} of {len(y)} samples, the time of entry ({called[2]}) is not before "
            f"the time of the event or of censoring ({called[0]}), such as in sample {i}: "
            f"{y['entry'][i]:g} and {y['time'][i]:g}. Exclude these samples, or correct the times."
        )
    return y


def columns_of_labels(y: Array | None) -> list[Array]:
    """Columns (m,) of labels, (m,) or (m, t); for censored times the times and the events."""
    if y is None:
        return []
    return [y["time"], y["event"]] if is_censored(y) else list(np.atleast_2d(y.T))


def _numbers(values: Array, name: str, what: str) -> Float:
    """Convert times (m,) to float64; reject text, missing, infinite and negative values."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        numbers = typed(values) if values.dtype.kind in "OU" else values
        if numbers.dtype.kind not in "iuf":
            shown = abbreviate(map(repr, np.unique(values.astype(str))), 3)
            raise InputError(f"The {what} ({name}) are text ({shown}); pass numbers.") from None
        numbers = numbers.astype(np.float64)
    if values.dtype.kind == "b":
        raise InputError(
            f"The {what} ({name}) are true or false. Pass numbers as times, and pass the events as "
            "event=."
        )
    missing = int((~np.isfinite(numbers)).sum())
    if missing:
        raise InputError(
            f"{missing} of {len(numbers)} {what} ({name}) are missing or infinite. Drop these "
            "samples (CLI: --drop-missing)."
        )
    if numbers.min(initial=0.0) < 0:
        n = int((numbers < 0).sum())
        column = name.strip("'")
        na = shlex.quote(f"{column}={numbers.min():g}")
        raise InputError(
            f"{n} of {len(numbers)} {what} ({name}) are negative, such as {numbers.min():g}. Times "
            f"count from the start of observation; if {numbers.min():g} means missing, exclude "
            f"those samples (CLI: --na {na} --drop-missing)."
        )
    return np.asarray(numbers)


def _meanings(column: Array) -> dict[Any, bool | None]:
    """Map each word of a column (m,) to whether it means an event; None if unknown."""

    def meaning(word: str) -> bool | None:
        plain = " ".join(word.lower().split())
        numbered = _NUMBERED.fullmatch(plain)
        if numbered and numbered[2] not in (EVENTS, NO_EVENTS)[int(numbered[1])]:
            return numbered[1] == "1"
        if plain in YES | EVENTS:
            return True
        return False if plain in NO | NO_EVENTS else None

    return {word: meaning(str(word)) for word in dict.fromkeys(column.tolist())}


def _tell_meanings(meanings: Mapping[Any, bool | None], name: str) -> None:
    """Warn how words were read as events, unless they are yes and no, or true and false."""
    if all(str(word).lower() in YES | NO for word in meanings):
        return
    observed, censored = (
        abbreviate(repr(str(word)) for word, is_event in meanings.items() if is_event is wanted)
        for wanted in (True, False)
    )
    warn(
        f"The events ({name}) are words: {observed or 'no word'} is read as an observed event, and "
        f"{censored or 'no word'} as a censored time. If this is wrong, pass 1 and 0."
    )


def refuse_unclear_events(values: Array, name: str, *, is_series: bool = False) -> None:
    """Refuse events (m,) of the column or series `name` that are text of unknown meaning.

    Also refuse 1 and 0, or yes and no, in a column such as "alive" or "censored": in some tables 1
    in a column "cens" is an event, in others it is a censored time.
    """
    column = _typed(values, name)
    words = [*dict.fromkeys(column.astype(str).tolist())]
    parts = re.findall("[A-Z]?[a-z]+|[A-Z]+", name)
    opposite = [part for part in parts if part.lower() in OPPOSITE]
    are_plain = {word.lower() for word in words} <= ONE | ZERO
    if opposite and are_plain:
        raise InputError(
            f"It is unclear whether 1 or yes in {name!r} means an observed event. The name "
            f"suggests the opposite ({opposite[-1]}), so 0 or no usually means it. "
            f"{_way(name, _both(column), is_series=is_series)}"
        )
    is_known = are_plain or None not in _meanings(column).values()
    if column.dtype.kind in "OU" and not is_known:
        shown = abbreviate(map(repr, words), 5)
        raise InputError(
            f"The events ({name!r}) are text ({shown}). "
            f"{_way(name, _both(column), is_series=is_series)}"
        )


def _both(column: Array) -> list[Any]:
    """Return the first two distinct values of a column (m,); "no" or 0 comes first."""
    values = list(dict.fromkeys(column.tolist()))
    return sorted(values, key=lambda value: str(value).lower() not in ZERO)[:2]


def _way(name: str, values: Sequence[Any], *, is_series: bool) -> str:
    """Return advice on which argument to pass, for each of `values` that may mean an event."""
    words = [str(value).removesuffix(".0") for value in values]
    ways = []
    for value, word, other in zip(values, words, words[::-1], strict=True):
        how = f"event={f'{name}={word}'!r}"
        if is_series:
            how = f"event=(event == {value!r}).to_numpy()"
        censored = f" and {other} that the time is censored" if other != word else ""
        ways.append(f"if {word} means that it was observed{censored}, pass {how}")
    return f"Name the value of an observed event: {'; '.join(ways)}."


def _equal(values: Array, observed: str, name: str) -> Mask:
    """Mask of the events (m,) in the column `name` that equal the value `observed`."""
    column, value = _typed(values, name), " ".join(observed.lower().split())
    if column.dtype.kind in "OU":
        is_event = np.array([" ".join(str(word).lower().split()) == value for word in column])
    else:
        number = 1.0 if value in ONE else 0.0 if value in ZERO else np.nan
        is_event = column == (float(value) if is_numeral(value) else number)
    if not is_event.any():
        written = dict.fromkeys(str(word).removesuffix(".0") for word in column.tolist())
        raise InputError(
            f"No sample has the value {observed!r} in {name!r}. The values are "
            f"{abbreviate(written, 5)}. Pass the one that means an observed event."
        )
    return is_event


def _typed(values: Array, name: str) -> Array:
    """Convert events (m,) to numbers, booleans or text; reject missing ones."""
    column = typed(values.astype(object)) if values.dtype.kind in "OUST" else values
    missing = int(is_missing(column).sum())
    if missing:
        raise InputError(
            f"{missing} of {len(column)} events ({name}) are missing. Drop these samples (CLI: "
            "--drop-missing)."
        )
    return column


def _events(values: Array, name: str) -> Array:
    """Convert events (m,) to booleans: from True and False, 1 and 0, yes and no, or 2 and 1."""
    if values.dtype.kind == "b":
        return values
    column = _typed(values, name)
    if column.dtype.kind in "OU":
        meanings = _meanings(column)
        if all(meaning is not None for meaning in meanings.values()):
            _tell_meanings(meanings, name)
            return np.array([bool(meanings[word]) for word in column.tolist()])
        shown = abbreviate(map(repr, sorted(map(str, meanings))), 5)
        raise InputError(
            f"The events ({name}) are text ({shown}). Pass 1 or True if the event was observed, "
            "and 0 or False if the time is censored."
        )
    distinct = np.unique(column)
    if np.isin(distinct, (0, 1)).all():
        return np.asarray(column == 1)
    if distinct.tolist() == [1, 2]:
        warn(
            f"The events ({name}) are 1 and 2, which are read as in R's Surv: 1 means censored, 2 "
            "means that the event was observed. If 1 means observed, pass 1 and 0.",
        )
        return np.asarray(column == 2)
    shown = abbreviate((f"{value:g}" for value in distinct), 5)
    raise InputError(
        f"The events ({name}) have the values {shown}. Pass 1 or True if the event was observed, "
        "and 0 or False if the time is censored. If there are several kinds of events, name the "
        "value of one: event='NAME=VALUE'."
    )
