"""A run over its rounds: HSIC, what low rank may have cost, and accuracy by number of features."""

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

#: How far from the first number of features a power of ten stands apart, as a factor.
APART = 1.6


def path(result: xr.Dataset, *, ax: Any = None) -> Any:
    """Draw HSIC over the rounds of an elimination, by the number of features left.

    Parameters
    ----------
    result : xarray.Dataset
        Of a selection by rounds.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    result = result_of_one(result)
    why = "only methods that go by rounds have a path"
    left, hsic = variable(result, "round_n_features", why), variable(result, "round_hsic", why)
    ax = axes(ax)
    ax.plot(left, hsic, color=MAIN, marker="o", ms=3, lw=1.2)
    n = int(result.attrs["n_selected"])
    ax.axvline(n, color=CHOSEN, lw=1.2, ls="--", label=f"{n:,} selected")
    ax.axhline(0, color=PALE, lw=0.8)
    ax.legend(frameon=False)
    _features_axis(ax, left)
    ax.set_ylabel("HSIC")
    return ax


def expected_lost(result: xr.Dataset, *, ax: Any = None) -> Any:
    """Draw how many of the best features are there in place of lost ones, by how many are taken.

    Parameters
    ----------
    result : xarray.Dataset
        Of a selection by backward elimination some of whose rounds were approximate.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    result = result_of_one(result)
    why = "all scores were exact, or the method is not backward elimination"
    lost = variable(result, "round_expected_lost", why)
    after = variable(result, "round_n_features", why) - variable(result, "round_n_removed", why)
    n, some = int(result.attrs["n_selected"]), after > 0
    ax = axes(ax)
    most = variable(result, "round_most_lost", why)[some]
    ax.fill_between(after[some], 0, most, step="mid", color=PALE, alpha=0.5, lw=0,
                    label="at most, nine times of ten")  # fmt: skip
    ax.plot(after[some], lost[some], color=MAIN, lw=1.4, label="expected")
    ax.axvline(n, color=CHOSEN, lw=1.2, ls="--", label=f"{n:,} selected")
    ax.legend(frameon=False)
    _features_axis(ax, after[some])
    ax.set(xlabel="best features", ylabel="of these not an exact run's")
    ax.set_ylim(0, max(1.15 * float(np.max([*most, *lost[some]], initial=0)), 1))
    return ax


def accuracy(cv: Any, *, ax: Any = None) -> Any:
    """Draw the score of cross-validation by the number of features, with its standard error.

    Parameters
    ----------
    cv : BAHSICCV, Dataset or mapping
        A fitted one, a result with ``n_features_to_select="auto"``, or its ``cv_results_``:
        ``n_features``, ``mean_test_score`` and ``split<i>_test_score``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found, chosen = getattr(cv, "cv_results_", cv), getattr(cv, "n_features_", None)
    if isinstance(cv, xr.Dataset) and "cv_results" in cv.attrs:
        found, chosen = json.loads(cv.attrs["cv_results"]), int(cv.attrs["cv_chosen"])
    if not isinstance(found, Mapping) or "mean_test_score" not in found:
        raise InputError(
            "accuracy takes a fitted BAHSICCV, its cv_results_, or a result with "
            'n_features_to_select="auto".'
        )
    n, mean = np.asarray(found["n_features"]), np.asarray(found["mean_test_score"])
    splits = [found[key] for key in found if key.startswith("split")]
    error = np.std(splits, axis=0, ddof=1) / np.sqrt(len(splits))
    ax, order = axes(ax), np.argsort(n)
    n, mean, error = n[order], mean[order], error[order]
    ax.fill_between(n, mean - error, mean + error, color=PALE, alpha=0.5, lw=0)
    ax.plot(n, mean, color=MAIN, marker="o", ms=3, lw=1.2, label="mean, one standard error")
    best = int(np.argmax(mean))
    ax.axhline(mean[best] - error[best], color=MUTED, lw=1, ls=":")
    if chosen is not None:
        ax.axvline(chosen, color=CHOSEN, lw=1.2, ls="--", label=f"{chosen:,} chosen")
    ax.legend(frameon=False)
    ax.set(xscale="log", xlabel="features", ylabel="score on samples left out")
    _plain(ax)
    return ax


def _features_axis(ax: Any, left: Array) -> None:
    """From all features on the left to the last one, on a logarithmic scale."""
    ax.set(xscale="log", xlabel="features left")
    first, last = float(np.max(left)), max(float(np.min(left)), 1)
    ax.set_xlim(1.1 * first, 0.9 * last)
    powers = 10.0 ** np.arange(np.ceil(np.log10(0.9 * last)), np.log10(first / APART))
    ax.set_xticks([first, *powers])  # where it begins too
    _plain(ax)


def _plain(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
