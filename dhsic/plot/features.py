"""Plots of features and pairs of features: target, stability, and joint effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.plot.base import CHOSEN, MAIN, MUTED, PALE, axes, names, variable
from dhsic.results.views import result_of_one

#: Maximum number of distinct values for which a feature is drawn as groups; maximum number of
#: points per group.
LEVELS, POINTS = 6, 400
#: Number of characters that fit below an axis; maximum number of characters of a name.
ROOM, LONGEST = 40, 20
#: Default family-wise level of significant pairs, if the result does not have a level.
ALPHA = 0.05


def stability(
    result: xr.Dataset, *, n: int = 30, threshold: float | None = None, ax: Any = None
) -> Any:
    """Draw the fraction of random halves of the samples that select each of the best features.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a selection with ``stability=``.
    n : int
        Number of best features to draw.
    threshold : float, optional
        Value at which a line is drawn; by default the threshold of the result, if it has one.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    result = result_of_one(result)
    part = variable(result, "stability", "pass stability=50 to the selection")
    best = np.argsort(result["rank"].values, kind="stable")[:n]
    ax = axes(ax, 5.0, 0.8 + 0.18 * len(best))
    selected = result["selected"].values[best]
    places = np.arange(len(best))[::-1]
    colours = [MAIN if chosen else PALE for chosen in selected]
    ax.barh(places, part[best], color=colours, height=0.7)
    ax.set_yticks(places, names(result, best), fontsize=8)
    line = result.attrs.get("stability_threshold") if threshold is None else threshold
    if line is not None:
        ax.axvline(float(line), color=CHOSEN, lw=1.2, ls="--", label=f"threshold {line:g}")
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
    ax.set(xlim=(0, 1), xlabel="fraction of halves that select it")
    ax.margins(y=0.01)
    return ax


def against_target(x: Any, y: Any, *, name: str = "feature", ax: Any = None) -> Any:
    """Draw a feature against the target.

    Parameters
    ----------
    x : array (m,)
        Values of the feature, NaN where missing.
    y : array (m,)
        Target: real values, or classes (text, booleans, whole numbers with few values).
    name : str
        Name of the feature.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"x and y have shapes {x.shape} and {y.shape}; pass one value per sample.")
    is_finite = np.isfinite(x)
    x, y = x[is_finite], y[is_finite]
    ax = axes(ax, 3.6, 3.0)
    in_classes = y.dtype.kind != "f" and len(np.unique(y)) <= 50
    levels = np.unique(x)
    if in_classes:
        _groups(ax, [(str(label), x[y == label]) for label in np.unique(y)])
        ax.set(xlabel="class", ylabel=name)
    elif len(levels) <= LEVELS:
        y = y.astype(np.float64)
        _groups(ax, [(f"{level:g}", y[x == level]) for level in levels])
        ax.set(xlabel=name, ylabel="target")
    else:
        ax.scatter(x, y, s=6, color=MAIN, alpha=0.5, linewidths=0, rasterized=True)
        ax.set(xlabel=name, ylabel="target")
    return ax


def _groups(ax: Any, groups: list[tuple[str, Array]]) -> None:
    """Draw the values of named groups as jittered points, with medians and quartiles."""
    rng = np.random.default_rng(0)
    for place, (_, values) in enumerate(groups):
        points = values if values.size <= POINTS else rng.choice(values, POINTS, replace=False)
        jittered = place + rng.uniform(-0.25, 0.25, points.size)
        ax.scatter(jittered, points, s=5, color=MUTED, alpha=0.5, linewidths=0, rasterized=True)
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
        ax.plot([place, place], [low, high], color=MAIN, lw=4, solid_capstyle="butt")
        ax.plot([place - 0.3, place + 0.3], [middle, middle], color=CHOSEN, lw=2)
    called = [label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…" for label, _ in groups]
    longest = max(map(len, called)) * len(groups)
    slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if longest > ROOM else {}
    between = " " if slanted else "\n"
    sizes = [f"(n={values.size:,})" for _, values in groups]
    ticks = [f"{label}{between}{size}" for label, size in zip(called, sizes, strict=True)]
    ax.set_xticks(range(len(groups)), ticks, **slanted)


def pairs(found: xr.Dataset, *, n: int = 20, ax: Any = None) -> Any:
    """Draw the best pairs, with the fraction of the target's variance that each explains.

    This is the fraction that the product of both features explains in addition to each of them.

    Parameters
    ----------
    found : xarray.Dataset
        Result of `dhsic.find_pairs`.
    n : int
        Number of best pairs to draw.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    share = variable(found, "share", "pass a result of dhsic.find_pairs")[:n]
    ax = axes(ax, 5.6, 0.9 + 0.2 * len(share))
    places, line = np.arange(len(share))[::-1], float(found.attrs.get("threshold", np.nan))
    level = float(found.attrs.get("alpha", ALPHA))
    is_real = found["family_wise"].values[:n] <= level if "family_wise" in found else None
    ax.hlines(places, 0, share, color=PALE, lw=1.2, zorder=1)
    for colour, which, label in (
        (MAIN, is_real, f"significant family-wise ({level:g})"),
        ("white", None if is_real is None else ~is_real, "not significant"),
    ):
        if which is not None and which.any():
            dots = {"s": 30, "color": colour, "edgecolors": MAIN, "label": label}
            ax.scatter(share[which], places[which], **dots)
    if is_real is None:
        ax.scatter(share, places, s=30, color=MAIN)
    if np.isfinite(line):
        ax.axvline(line, color=CHOSEN, lw=1.2, ls="--", label=f"significant from {line:.3g}")
    if is_real is not None:
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8)
    called = [
        f"{_escape_dollars(a)} x {_escape_dollars(b)}"
        for a, b in zip(*_ends(found, n), strict=True)
    ]
    ax.set_yticks(places, called, fontsize=8)
    ax.set(xlabel="share of the target's variance that the product explains")
    ax.set_xlim(0, 1.08 * float(np.nanmax([line, *share, 0])))
    return ax


def shares(found: xr.Dataset, *, n: int = 20, ax: Any = None) -> Any:
    """Draw the share of HSIC due to each selected feature alone, and due to each pair.

    Parameters
    ----------
    found : xarray.Dataset
        Result of `dhsic.interactions.shares`.
    n : int
        Number of largest shares to draw.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    share = variable(found, "share", "pass a result of dhsic.interactions.shares")[:n]
    ax = axes(ax, 5.6, 0.9 + 0.2 * len(share))
    is_main = found["second"].values[:n] < 0
    places = np.arange(len(share))[::-1]
    for kind, colour, these in (("alone", MAIN, is_main), ("together", CHOSEN, ~is_main)):
        if these.any():
            ax.barh(places[these], share[these], color=colour, height=0.7, label=kind)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    called = [_escape_dollars(a) if alone else f"{_escape_dollars(a)} x {_escape_dollars(b)}"
              for a, b, alone in zip(*_ends(found, n), is_main, strict=True)]  # fmt: skip
    ax.set_yticks(places, called, fontsize=8)
    ax.set(xlabel="share of HSIC of the selected features")
    ax.margins(y=0.01)
    return ax


def _ends(found: xr.Dataset, n: int) -> list[Array]:
    """Return the names in the n best pairs: first features, and second features or environments."""
    ends = ("first", "environment" if "environment" in found else "second")
    return [
        found[f"{end}_feature" if f"{end}_feature" in found else end].values[:n] for end in ends
    ]


def _escape_dollars(name: Any) -> str:
    return str(name).replace("$", r"\$")
