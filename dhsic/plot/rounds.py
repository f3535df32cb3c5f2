"""Plots over rounds: HSIC, expected loss of low rank, and accuracy by number of features."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.plot.base import CHOSEN, MAIN, MUTED, PALE, axes, variable
from dhsic.results.views import result_of_one

#: Minimum ratio of the largest number of features to a power of ten for a label of this power.
APART = 1.6


def path(result: xr.Dataset, *, ax: Any = None) -> Any:
    """Draw HSIC in the rounds of an elimination against the number of remaining features.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a selection by rounds.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    result = result_of_one(result)
    why = "only methods with rounds have a path"
    n_features, hsic = (
        variable(result, "round_n_features", why),
        variable(result, "round_hsic", why),
    )
    ax = axes(ax)
    ax.plot(n_features, hsic, color=MAIN, marker="o", ms=3, lw=1.2)
    n = int(result.attrs["n_selected"])
    ax.axvline(n, color=CHOSEN, lw=1.2, ls="--", label=f"{n:,} selected")
    ax.axhline(0, color=PALE, lw=0.8)
    ax.legend(frameon=False)
    _features_axis(ax, n_features)
    ax.set_ylabel("HSIC")
    return ax


def expected_lost(result: xr.Dataset, *, ax: Any = None) -> Any:
    """Draw the expected error of approximate rounds against the number n of best features.

    The error is the expected number of the best n features that an exact run would not select.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a backward elimination with approximate rounds.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    result = result_of_one(result)
    why = "all scores were exact, or the method is not backward elimination"
    lost = variable(result, "round_expected_lost", why)
    after = variable(result, "round_n_features", why) - variable(result, "round_n_removed", why)
    n, is_nonempty = int(result.attrs["n_selected"]), after > 0
    ax = axes(ax)
    most = variable(result, "round_most_lost", why)[is_nonempty]
    ax.fill_between(after[is_nonempty], 0, most, step="mid", color=PALE, alpha=0.5, lw=0,
                    label="upper limit (90%)")  # fmt: skip
    ax.plot(after[is_nonempty], lost[is_nonempty], color=MAIN, lw=1.4, label="expected")
    ax.axvline(n, color=CHOSEN, lw=1.2, ls="--", label=f"{n:,} selected")
    ax.legend(frameon=False)
    _features_axis(ax, after[is_nonempty])
    ax.set(xlabel="best features", ylabel="number lost to approximation")
    ax.set_ylim(0, max(1.15 * float(np.max([*most, *lost[is_nonempty]], initial=0)), 1))
    return ax


def accuracy(cv: Any, *, ax: Any = None) -> Any:
    """Draw the cross-validation score, with its standard error, against the number of features.

    Parameters
    ----------
    cv : BAHSICCV, Dataset or mapping
        Fitted BAHSICCV, a result with ``n_features_to_select="auto"``, or its ``cv_results_``:
        ``n_features``, ``mean_test_score`` and ``split<i>_test_score``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    cv_results, chosen = getattr(cv, "cv_results_", cv), getattr(cv, "n_features_", None)
    if isinstance(cv, xr.Dataset) and "cv_results" in cv.attrs:
        cv_results, chosen = json.loads(cv.attrs["cv_results"]), int(cv.attrs["cv_chosen"])
    if not isinstance(cv_results, Mapping) or "mean_test_score" not in cv_results:
        raise InputError(
            "accuracy needs a fitted BAHSICCV, its cv_results_, or a result with "
            'n_features_to_select="auto".'
        )
    n, mean = np.asarray(cv_results["n_features"]), np.asarray(cv_results["mean_test_score"])
    splits = [cv_results[key] for key in cv_results if key.startswith("split")]
    error = np.std(splits, axis=0, ddof=1) / np.sqrt(len(splits))
    ax, order = axes(ax), np.argsort(n)
    n, mean, error = n[order], mean[order], error[order]
    ax.fill_between(n, mean - error, mean + error, color=PALE, alpha=0.5, lw=0)
    ax.plot(n, mean, color=MAIN, marker="o", ms=3, lw=1.2, label="mean and standard error")
    best = int(np.argmax(mean))
    ax.axhline(mean[best] - error[best], color=MUTED, lw=1, ls=":")
    if chosen is not None:
        ax.axvline(chosen, color=CHOSEN, lw=1.2, ls="--", label=f"{chosen:,} chosen")
    ax.legend(frameon=False)
    ax.set(xscale="log", xlabel="features", ylabel="score on held-out samples")
    _plain(ax)
    return ax


def _features_axis(ax: Any, left: Array) -> None:
    """Make the horizontal axis logarithmic, from many to few remaining features (`left`)."""
    ax.set(xscale="log", xlabel="features left")
    first, last = float(np.max(left)), max(float(np.min(left)), 1)
    ax.set_xlim(1.1 * first, 0.9 * last)
    powers = 10.0 ** np.arange(np.ceil(np.log10(0.9 * last)), np.log10(first / APART))
    ax.set_xticks([first, *powers])  # label the start too
    _plain(ax)


def _plain(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
