"""Plot of a region: p-values by position around a lead variant, with linkage and genes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Float, Index
from dhsic.annotations import feature_places
from dhsic.errors import InputError
from dhsic.joins.genes import Genes
from dhsic.passes.linkage import linkage_with
from dhsic.plot.base import CHOSEN, MAIN, MUTED, PALE, axes, names
from dhsic.plot.genome import VALUES, p_value_of, value_heights
from dhsic.results.tables import variant_ids
from dhsic.results.views import result_of_one
from dhsic.runtime import choose_runtime
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate
from dhsic.sources.opening import open_source
from dhsic.sources.variants import CONTIG, POSITION
from dhsic.validation import is_number

#: Limits between classes of the squared correlation, and colours of the classes.
LIMITS = (0.2, 0.4, 0.6, 0.8)
COLOURS = ("#D9E8F0", "#7FCDBB", "#41A0C4", "#2B5FA8", "#0B1F5C")
#: Maximum number of lanes of genes; heights of a lane and of the points in inches.
LANES, LANE, HEIGHT = 7, 0.3, 3.4
#: Width of a character of a gene's name, as a fraction of the axes; and gap between genes.
LETTER, GAP = 0.0105, 0.012
#: Marks of the strand beside the name of a gene.
STRANDS = {"+": "{} →", "-": "← {}"}
#: Margin beside the first and last variant, as a fraction of the region.
MARGIN = 0.02
#: Bases per megabase.
MEGABASE = 1e6


def region(
    result: xr.Dataset,
    lead: str | None = None,
    *,
    data: Any = None,
    genes: str | PathLike[str] | Genes | None = None,
    kb: float = 250.0,
    threshold: float | None = None,
    ax: Any = None,
) -> Any:
    r"""Draw p-values by position around a lead variant, coloured by linkage with it.

    Parameters
    ----------
    result : xarray.Dataset
        Result of a test or selection, with chromosomes, positions and p-values.
    lead : str, optional
        Id or name of the lead variant; by default the one with the smallest p-value.
    data : path, source of `open_source`, or any data, optional
        Data of the result, or of its features in the region. If they need options, open them with
        `dhsic.open_source`. The squared correlation of a variant with the lead is computed from all
        samples that have a call of both. Without data, all points have the same colour.
    genes : path or Genes, optional
        GTF, GFF3 or BED file of genes of the same genome build, which are drawn below.
    kb : float
        Distance to draw on either side of the lead, in kilobases.
    threshold : float, optional
        p-value at which a line is drawn, such as 5e-8.
    ax : matplotlib.axes.Axes, optional
        Axes of the p-values; genes are drawn in axes below these.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        The result has no positions or p-values, the lead is not in it, or the data do not contain
        the variants of the result.
    """
    result = result_of_one(result)
    if not (is_number(kb) and kb > 0):
        raise InputError(f"kb={kb!r} is not a distance; pass kilobases such as 250.")
    shown = _Region.of(result, lead, kb)
    annotation = genes if genes is None or isinstance(genes, Genes) else Genes.read(genes)
    lanes = None if annotation is None else _Lanes.of(annotation, result, shown)
    n_lanes = 0 if lanes is None else max(1, lanes.n)
    source = None if data is None else open_source(data)
    r2 = None if source is None else _linkage(result, source, shown)
    ax = axes(ax, 7.5, HEIGHT + LANE * n_lanes)
    _draw_points(ax, shown, r2)
    if threshold is not None:
        height = value_heights(np.array([threshold]), "p")[0]
        ax.axhline(height, color=MAIN, lw=1, ls="--", zorder=1)
    top = 1.15 * max(float(np.nanmax(shown.heights)), 1.0)
    ax.set(ylabel=VALUES["p"], xlim=(shown.first, shown.last), ylim=(-0.02 * top, top))
    lowest = ax
    if lanes is not None:
        lowest = _axes_below(ax, LANE * n_lanes)
        ax.tick_params(axis="x", labelbottom=False)
        lanes.draw(lowest)
    _megabases(lowest, shown)
    return ax


def _axes_below(ax: Any, height: float) -> Any:
    """Split `ax`; return new axes below, `height` inches high, with the same horizontal axis."""
    spec = ax.get_subplotspec()
    if spec is None:
        raise InputError(
            "ax= was placed by hand (add_axes), so there is no room for genes below. Pass axes of "
            "plt.subplots, or leave ax= out."
        )
    both = spec.subgridspec(2, 1, height_ratios=(HEIGHT, height), hspace=0.03)
    ax.set_subplotspec(both[0])
    return ax.figure.add_subplot(both[1], sharex=ax)


@dataclass(frozen=True)
class _Region:
    """Region around a lead variant, and the n variants in it.

    `lead` is the index of the lead among the features. `first` and `last` are the ends of the
    region in bases. `features` (n,) are the indices of the variants, `positions` (n,) their
    positions on the chromosome, and `heights` (n,) their ``-log10 p``.
    """

    lead: int
    name: str
    chromosome: str
    first: int
    last: int
    features: Index
    positions: Index
    heights: Float

    @classmethod
    def of(cls, result: xr.Dataset, lead: str | None, kb: float) -> _Region:
        """Choose the variants within `kb` of the lead.

        Raises
        ------
        InputError
            The result has no positions or p-values, or does not contain the lead.
        """
        if not {CONTIG, POSITION} <= {*map(str, result.coords)}:
            raise InputError(
                "A region plot needs the chromosome and position of each feature, which the result "
                "does not have. Use the result for data with positions of variants."
            )
        p = result[p_value_of(result)].to_numpy()
        best = _lead_of(result, lead, p)
        contigs, positions = result[CONTIG].to_numpy(), result[POSITION].to_numpy()
        here, width = int(positions[best]), round(1000 * kb)
        is_near = (contigs == contigs[best]) & (np.abs(positions - here) <= width)
        at = np.flatnonzero(is_near & np.isfinite(p))
        (name,) = names(result, np.array([best]))
        heights = value_heights(p[at], "p")
        margin = round(MARGIN * np.ptp(positions[at]))
        first = max(here - width, int(positions[at].min()) - margin)
        last = min(here + width, int(positions[at].max()) + margin)
        first, last = min(first, here - 1), max(last, here + 1)  # if the lead is alone
        return cls(best, name, str(contigs[best]), first, last, at, positions[at], heights)


def _lead_of(result: xr.Dataset, lead: str | None, p: Float) -> int:
    """Return the index of the lead variant; of several with the same name, the best one."""
    if not np.isfinite(p).any():
        raise InputError("All p-values of the result are missing, so there is nothing to draw.")
    if lead is None:
        return int(np.nanargmin(p))
    ids = variant_ids(result)
    called = result["feature"].to_numpy().astype(str) if "feature" in result.coords else ids
    at = np.flatnonzero((ids == str(lead)) | (called == str(lead)))
    if not at.size:
        raise InputError(
            f"lead={lead!r} is not in the result, whose features are called {abbreviate(ids, 3)}. "
            "Pass one of these names, or leave it out for the smallest p-value."
        )
    if not np.isfinite(p[at]).any():
        raise InputError(f"lead={lead!r} has no p-value, so it cannot be the lead. Pass another.")
    return int(at[np.nanargmin(p[at])])


def _linkage(result: xr.Dataset, source: AbstractSource, shown: _Region) -> Float:
    """Compute squared correlations (n,) of the variants of a region with the lead."""
    stored = feature_places(result, source, shown.features)
    ascending = np.argsort(stored, kind="stable")
    r2 = np.empty(stored.size)
    with closing(choose_runtime("threads")) as runtime:
        lead = int(stored[shown.features == shown.lead][0])
        r2[ascending] = linkage_with(source, lead, stored[ascending], runtime)
    return r2


def _draw_points(ax: Any, shown: _Region, r2: Float | None) -> None:
    """Draw the variants, with strong linkage on top, and the lead as a diamond with its name."""
    is_lead = shown.features == shown.lead
    classes = np.full(is_lead.size, -1) if r2 is None else _classes(r2)
    styles = [(-1, PALE if r2 is not None else MUTED, "unknown" if r2 is not None else None)]
    bounds = (0.0, *LIMITS, 1.0)
    for i, colour in enumerate(COLOURS):
        styles.append((i, colour, f"{bounds[i]:g} to {bounds[i + 1]:g}"))
    for order, (number, colour, label) in enumerate(styles):
        at = np.flatnonzero((classes == number) & ~is_lead)
        if not at.size and number < 0:
            continue
        ax.scatter(shown.positions[at], shown.heights[at], s=16, color=colour, linewidths=0.3,
                   edgecolors=MUTED, label=label, zorder=2 + order,
                   rasterized=True)  # fmt: skip
    x, y = shown.positions[is_lead][0], shown.heights[is_lead][0]
    points = ax.scatter([x], [y], s=42, color=CHOSEN, marker="D", linewidths=0, zorder=9)
    points.set_gid("lead")
    right = x <= (shown.first + shown.last) / 2
    ax.annotate(shown.name, (x, y), xytext=(6 if right else -6, 4), textcoords="offset points",
                ha="left" if right else "right", fontsize=8, zorder=10)  # fmt: skip
    if r2 is not None:
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[::-1], labels[::-1], title=f"$r^2$ with {shown.name}", frameon=False,
                  loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=8,
                  title_fontsize=8)  # fmt: skip


def _classes(r2: Float) -> Index:
    """Bin squared correlations by `LIMITS`: index of the bin, (n,); -1 if r2 is unknown."""
    return np.where(np.isnan(r2), -1, np.searchsorted(LIMITS, r2, "right"))


@dataclass(frozen=True)
class _Lanes:
    """Genes of a region, drawn in n lanes so that they do not overlap.

    `genes` has one row per gene: start, end, text, middle of the text, and lane. There is no free
    lane for `n_hidden` further genes.
    """

    genes: pd.DataFrame
    n: int
    n_hidden: int

    @classmethod
    def of(cls, genes: Genes, result: xr.Dataset, shown: _Region) -> _Lanes:
        """Choose the genes that overlap the region, and place each in the first free lane."""
        called = [str(name) for name in pd.unique(result[CONTIG].to_numpy().astype(object))]
        genes.check(called)
        at = genes.by_chromosome(called).get(shown.chromosome, np.empty(0, dtype=np.int64))
        at = at[(genes.starts[at] <= shown.last) & (genes.ends[at] >= shown.first)]
        frame = pd.DataFrame({
            "start": np.maximum(genes.starts[at], shown.first),
            "end": np.minimum(genes.ends[at], shown.last),
            "text": [STRANDS.get(str(s), "{}").format(n)
                     for n, s in zip(genes.names[at], genes.strands[at], strict=True)],
        }).drop_duplicates().sort_values("start", kind="stable")  # fmt: skip
        span = shown.last - shown.first
        half = np.array([len(text) for text in frame["text"]]) * LETTER * span / 2
        middle = (frame["start"] + frame["end"]).to_numpy(np.float64) / 2
        middle = np.clip(middle, shown.first + half, shown.last - half)
        first = np.minimum(frame["start"].to_numpy(np.float64), middle - half)
        last = np.maximum(frame["end"].to_numpy(np.float64), middle + half)
        lane = _free_lanes(first, last, GAP * span)
        frame = frame.assign(middle=middle, lane=lane)
        drawn = frame[frame["lane"] < LANES]
        n = int(drawn["lane"].max()) + 1 if len(drawn) else 0
        return cls(drawn, n, len(frame) - len(drawn))

    def draw(self, ax: Any) -> None:
        """Draw the genes as bars with their names above."""
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        for gene in self.genes.itertuples():
            y = -float(gene.lane)
            ax.plot([gene.start, gene.end], [y, y], color=MAIN, lw=3, solid_capstyle="butt")
            text = str(gene.text).replace("$", r"\$")
            ax.text(gene.middle, y + 0.25, text, ha="center", va="bottom", fontsize=7,
                    style="italic", clip_on=True)  # fmt: skip
        note = "no gene in this region" if not self.n else ""
        if self.n_hidden:
            note = f"{self.n_hidden:,} more genes are not drawn"
        ax.text(1, 0, note, ha="right", va="bottom", fontsize=7, color=MUTED,
                transform=ax.transAxes)  # fmt: skip
        room = 0.6 if self.n_hidden else 0.0  # for the note
        ax.set(ylim=(-max(self.n, 1) + 0.3 - room, 0.95), yticks=[])


def _free_lanes(first: Float, last: Float, gap: float) -> Index:
    """Assign each of n intervals, sorted by start, to the first free lane; return lanes (n,).

    A lane is free if its last interval ends at least `gap` before the new interval begins.
    """
    ends: list[float] = []
    lanes = np.empty(first.size, dtype=np.int64)
    for i, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        free = [lane for lane, until in enumerate(ends) if until + gap <= begin]
        lanes[i] = free[0] if free else len(ends)
        ends[lanes[i] : lanes[i] + 1] = [end]
    return lanes


def _megabases(ax: Any, shown: _Region) -> None:
    """Label the horizontal axis with positions in megabases."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(6))
    step = (shown.last - shown.first) / MEGABASE / 6
    text = partial(_megabase, decimals=max(0, int(np.ceil(-np.log10(step)))))
    ax.xaxis.set_major_formatter(FuncFormatter(text))
    ax.set_xlabel(f"position on chromosome {shown.chromosome.removeprefix('chr')} (Mb)")


def _megabase(value: float, _: Any, *, decimals: int) -> str:
    return f"{value / MEGABASE:.{decimals}f}"
