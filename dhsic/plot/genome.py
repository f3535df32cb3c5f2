"""Plots of all features: values along the genome, and a Q-Q plot of p-values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import betaincinv

from dhsic._typing import Array, Float, Index
from dhsic.criteria.independence import inflation_of
from dhsic.errors import InputError
from dhsic.plot.base import CHOSEN, MAIN, MUTED, PALE, axes, names, thinned, variable
from dhsic.results.views import of_selected, result_of_one

#: Values that can be drawn, with axis labels.
VALUES = {
    "p": "$-\\log_{10}\\,p$",
    "p_marginal": "$-\\log_{10}\\,p$, each feature alone",
    "score_first_round": "score in the first round",
    "rank": "rank",
}
#: Values that are p-values: of tests of features, and of features alone in a selection.
P_VALUES = ("p", "p_marginal")
#: The first of these that a result has is drawn by default.
DEFAULTS = ("p", "score_first_round", "rank")
#: Maximum number of selected features that are drawn as large points.
MANY = 100
#: Gap between chromosomes, as a fraction of the total length.
GAP = 0.01
#: Width of a character of a name, as a fraction of the axis.
LETTER = 0.011


def genome(
    result: xr.Dataset,
    value: str | None = None,
    *,
    threshold: float | None = None,
    labelled: int = 5,
    ax: Any = None,
) -> Any:
    r"""Draw a value of every feature along the genome, or in the order of the data.

    Scores of later rounds are not drawn. They are not comparable, because each round has other
    features.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a selection or test of all features.
    value : {"p", "p_marginal", "score_first_round", "rank"}, optional
        Variable to draw; by default the first of these that the result has. p-values are drawn as
        ``-log10 p``, and ranks on a logarithmic scale with the best on top.
    threshold : float, optional
        Value at which a line is drawn.
    labelled : int
        Number of best features to label.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        The result has no such value, or matplotlib is not installed.
    """
    result = result_of_one(result)
    value = value or next((name for name in DEFAULTS if name in result), "rank")
    if value not in VALUES:
        raise InputError(f"value={value!r} cannot be plotted; pass one of {', '.join(VALUES)}.")
    ax = axes(ax)
    heights = value_heights(variable(result, value, "it was not computed in that run"), value)
    x, shade, ticks = _places(result)
    is_finite = np.isfinite(heights)
    chosen = (
        is_finite & np.asarray(result["selected"].values) if "selected" in result else ~is_finite
    )
    for tone, colour in enumerate((MUTED, PALE)):
        at = np.flatnonzero(is_finite & ~chosen & (shade == tone))
        at = at[thinned(x[at], heights[at])] if at.size else at
        ax.scatter(x[at], heights[at], s=3, color=colour, linewidths=0, rasterized=True)
    at = np.flatnonzero(chosen)
    if at.size:
        label = f"{at.size:,} {of_selected(result)}"
        points = ax.scatter(
            x[at],
            heights[at],
            s=18 if at.size <= MANY else 6,
            color=CHOSEN,
            marker="D",
            linewidths=0,
            label=label,
        )
        points.set_gid("selected")
    best = np.argsort(np.where(is_finite, -heights, np.inf), kind="stable")[:labelled]
    _annotate_points(ax, x, heights, best, names(result, best))
    if threshold is not None:
        height = value_heights(np.array([threshold]), value)[0]
        label = f"p = {threshold:.2g}" if value in P_VALUES else f"{threshold:g}"
        ax.axhline(height, color=MAIN, lw=1, ls="--", zorder=3, label=label)
    _legend(ax, str(result.attrs.get("target", "")), right=value == "score_first_round")
    if value == "rank":
        _rank_axis(ax, len(heights))
    ax.set(ylabel=VALUES[value], xlabel="chromosome" if ticks else "position in the data")
    if ticks:
        ax.set_xticks([at for at, _ in ticks], [name for _, name in ticks])
        ax.tick_params(axis="x", length=0)
    ax.margins(x=0.01, y=0.12)
    if value in P_VALUES:
        ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])
    return ax


def _legend(ax: Any, target: str, *, right: bool) -> None:
    """Draw the legend on the left above the axes, and the name of the target on the right.

    If `right`, the legend is on the right, because the left corner shows the exponent of the axis.
    """
    if ax.get_legend_handles_labels()[0]:
        where = {"loc": "upper right" if right else "upper left", "bbox_to_anchor": (right, 1.12)}
        ax.legend(frameon=False, borderpad=0, ncols=2, **where)
    if not right:
        ax.set_title(target, loc="right", fontsize=9, color=MUTED)


def p_value_of(result: xr.Dataset) -> str:
    """Return the name of the variable with p-values of features; InputError if there is none."""
    name = next((name for name in P_VALUES if name in result), None)
    if name is None:
        raise InputError("The result has no p-values. Pass a result of dhsic test.")
    return name


def value_heights(values: Array, value: str) -> Float:
    """Return the heights to draw: ``-log10`` of p-values and ranks; other values unchanged."""
    numbers = np.asarray(values, dtype=np.float64)
    if value in P_VALUES:
        return -np.log10(np.maximum(numbers, np.finfo(float).tiny))
    return -np.log10(numbers) if value == "rank" else numbers


def _rank_axis(ax: Any, d: int) -> None:
    """Label the vertical axis with the ranks 1, 10, 100, ... of d features, the best on top."""
    powers = range(int(np.log10(max(d, 1))) + 1)
    ax.set_yticks([-power for power in powers], [f"{10**power:,}" for power in powers])


def _places(result: xr.Dataset) -> tuple[Float, Index, list[tuple[float, str]]]:
    """Return abscissas and shades (0 or 1) of the d features, and labels of the chromosomes.

    A label is the centre of a chromosome and its name. A name that would overlap the name before is
    on a second line; if it overlaps there too, it is omitted.
    """
    d = result.sizes["features"]
    if "variant_contig" not in result.coords or "variant_position" not in result.coords:
        return np.arange(d, dtype=float), np.zeros(d, dtype=np.int64), []
    contigs = result["variant_contig"].values.astype(str)
    positions = result["variant_position"].values.astype(float)
    called, codes = np.unique(contigs, return_inverse=True)
    lengths = np.zeros(called.size)
    np.maximum.at(lengths, codes, positions)
    order = sorted(range(called.size), key=lambda i: _natural(str(called[i])))
    starts, gap, begin = np.zeros(called.size), GAP * lengths.sum(), 0.0
    for i in order:
        starts[i], begin = begin, begin + lengths[i] + gap
    turn = np.empty(called.size, dtype=np.int64)
    turn[order] = np.arange(called.size) % 2
    lines: tuple[list[tuple[float, str]], ...] = [], []
    for i in order:
        middle, name = starts[i] + lengths[i] / 2, str(called[i]).removeprefix("chr")
        for line in lines:
            before = line[-1] if line else (-np.inf, "")
            if middle - before[0] > LETTER * begin * (len(before[1] + name) / 2 + 1):
                line.append((middle, name))
                break
    ticks = [*lines[0], *((middle, f"\n{name}") for middle, name in lines[1])]
    return starts[codes] + positions, turn[codes], ticks


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts chromosome 2 before 10, and numbers before X."""
    parts = re.findall(r"\d+|\D+", name.removeprefix("chr"))
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def _annotate_points(ax: Any, x: Float, heights: Float, best: Index, called: list[str]) -> None:
    """Write the names `called` of the features `best` beside their points, unless they overlap."""
    span, rise = np.ptp(x) or 1.0, np.ptp(heights[np.isfinite(heights)]) or 1.0
    labels: list[tuple[float, float]] = []
    for i, name in zip(best, called, strict=True):
        if not np.isfinite(heights[i]):
            continue
        if any(
            abs(at - x[i]) < 0.12 * span and abs(high - heights[i]) < 0.07 * rise
            for at, high in labels
        ):
            continue  # omitted, because it overlaps
        labels.append((x[i], heights[i]))
        right = x[i] < x.min() + 0.85 * span
        ax.annotate(
            name,
            (x[i], heights[i]),
            xytext=(4 if right else -4, 3),
            textcoords="offset points",
            ha="left" if right else "right",
            fontsize=8,
        )


def qq(p: Any, *, ax: Any = None) -> Any:
    r"""Draw sorted p-values against the values expected by chance, both as ``-log10 p`` (Q-Q plot).

    Parameters
    ----------
    p : array of float, FeatureTests or xarray.Dataset
        p-values, NaN where missing; for a Dataset its variable ``p``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    For independent tests, each sorted p-value lies in the band with probability 0.95 under the null
    hypothesis: the i-th of n has the distribution ``Beta(i, n - i + 1)``. ``lambda`` is the genomic
    inflation factor: the p-values are converted to chi-squared values with one degree of freedom,
    and their median is divided by the expected median.
    """
    p_values = getattr(p, "p_values", p)
    is_result = isinstance(p_values, xr.Dataset)
    values = variable(p_values, "p", "features were not tested") if is_result else p_values
    sorted_p = np.sort(np.asarray(values, dtype=np.float64).ravel())
    sorted_p = sorted_p[np.isfinite(sorted_p)]
    n = sorted_p.size
    if not n or sorted_p[0] < 0 or sorted_p[-1] > 1:
        raise InputError(
            "p= must contain p-values from 0 to 1, and at least one of them. Check its values."
        )
    ax = axes(ax, 3.8, 3.6)
    i = np.unique(np.geomspace(1, n, min(n, 2000)).astype(np.int64))
    expected = -np.log10((i - 0.5) / n)
    low, high = (-np.log10(betaincinv(i, n - i + 1, q)) for q in (0.975, 0.025))
    observed = -np.log10(np.maximum(sorted_p[i - 1], np.finfo(float).tiny))
    ax.fill_between(expected, low, high, color=PALE, alpha=0.5, lw=0, label="95% range by chance")
    ax.plot(expected, expected, color=MUTED, lw=1)
    ax.scatter(expected, observed, s=6, color=MAIN, linewidths=0, label=f"{n:,} features")
    ax.plot([], [], " ", label=f"$\\lambda$ = {inflation_of(sorted_p):.2f}")
    ax.set(xlabel="$-\\log_{10}\\,p$ by chance", ylabel="$-\\log_{10}\\,p$ observed")
    ax.legend(frameon=False, loc="upper left")
    return ax
