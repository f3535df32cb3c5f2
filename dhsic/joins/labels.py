"""Labels and covariates as users hand them over, in the order of the samples of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.joins.frames import id_columns, join, names_of, values_of
from dhsic.joins.keys import NAMELESS, is_id, plain, some
from dhsic.joins.table import RowOrder
from dhsic.joins.variables import read_target
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.sources.base import AbstractSource
from dhsic.sources.opening import open_source


@dataclass(frozen=True)
class Labelled:
    """Data that are open, with a row of labels and covariates for every sample that takes part."""

    source: AbstractSource
    y: Array | None  # (m,) or (m, t); None where the data are their own labels
    covariates: Array | None  # (m, q)
    rows: Index | None = None  # (m,), which samples of the data; None for all
    #: Counts, by the names of `dhsic.results.LEFT_OUT`.
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # where it came from and how rows were matched, for people

    @classmethod
    def of(
        cls,
        data: Any,
        target: Any,
        covariates: Any = None,
        *,
        what: str = "y",
        by_position: bool = False,
        opened_by: Callable[..., AbstractSource] = open_source,
        **opening: Any,
    ) -> Labelled:
        """Open data, and match labels and covariates to its samples where both have names.

        Parameters
        ----------
        target : str, array or None
            Labels, called `what` in messages, or the variable of `data` that holds them.
        by_position : bool
            Rows are in the order of the samples, whatever they are called.
        opened_by : callable
            What opens the data; `opening` are its options, as of `dhsic.open_source`.
        """
        labels = None if target is None else as_labels(target, data)
        is_matched = not by_position and bool(id_columns(target))
        n_labels = None if labels is None or is_matched else len(labels)
        source = opened_by(data, n_samples=n_labels, **opening)
        names = source.sample_names()
        if not by_position and names is None and names_of(data) is None:
            _check_each_other(target, covariates, what)
        names = names_of(data) if hasattr(data, "iloc") else names

        def joined(given: Any, called: str) -> RowOrder | None:
            store = hasattr(given, "iloc") and not hasattr(data, "iloc")
            remedy = f"{called}.loc[dhsic.open_source(X).sample_names()]" if store else None
            return join(names, given, called, by_position=by_position, remedy=remedy)

        of_labels, of_covariates = joined(target, what), joined(covariates, "covariates")
        C = None if covariates is None else values_of(covariates, "covariates")
        told = ((what, of_labels), ("covariates", of_covariates))
        return cls(
            source,
            _taken(labels, of_labels),
            _taken(C, of_covariates),
            notes=tuple(f"{called}: {order.note}" for called, order in told if order is not None),
        )


def _taken(values: Any, order: RowOrder | None) -> Any:
    return values if values is None or order is None else order.take(values)


def _check_each_other(target: Any, covariates: Any, what: str) -> None:
    """Refuse what names samples in several orders, where the data name none."""
    first, second = names_of(target), names_of(covariates)
    if first is None or second is None or set(map(str, first)) != set(map(str, second)):
        return
    if not (first.astype(str) == second.astype(str)).all():
        raise InputError(
            f"Samples are in another order in covariates than in {what}, and X does not name them. "
            "Put both in the order of X, or pass by_position=True if rows belong together by "
            "position."
        )


def as_labels(y: Any, data: Any) -> Array:
    """Labels as an array: what was given, or the variable of `data` that it names.

    Columns of ids are left out of frames.
    """
    labels = read_target(data, y) if isinstance(y, str) else values_of(y, "y")
    refuse_ids(y if isinstance(y, str) else getattr(y, "name", None), labels)
    if labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1]:
        raise InputError(
            f"y has shape {labels.shape}, one row of {labels.shape[1]}. Pass one row a sample: "
            "y.ravel(), or y.T."
        )
    if labels.dtype.kind == "O" and all(isinstance(value, str) for value in labels.flat):
        return labels.astype(str)  # text names classes, though they be called "0" and "1"
    return labels


def refuse_ids(name: Any, labels: Array) -> None:
    """Refuse labels that are called like ids, and nearly all differ: they name the samples."""
    is_named = isinstance(name, str) and is_id(name) and plain(name) not in NAMELESS
    if not is_named or labels.ndim != 1:
        return
    n = len(set(labels.tolist()))
    is_measured = n > MOST_CLASSES and labels.dtype.kind in "iuf"  # no classes that samples share
    if 2 * n > len(labels) > 2 or is_measured:
        raise InputError(
            f"The labels are {name!r}, which names the samples: {n:,} of {len(labels):,} values "
            f"differ ({some(labels.tolist(), 3)}). Pass what was measured of the samples; if this "
            "is it, give it a name that is not one of ids."
        )
