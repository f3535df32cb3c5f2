"""Pictures of docs/benchmarks.md, drawn from the kept results."""

import kept
import matplotlib as mpl
import numpy as np
import page
from plots import COLOURS, FAINT, GRAY, INK, MARKERS, plt

WIDTH = 8.0


def draw(folder):
    """Draw the picture of each part that has kept results, as folder/benchmarks_NAME.png."""
    drawn = {"shapes": _shapes, "classes": _classes, "panels": _panels, "growth": _growth}
    for name, function in drawn.items():
        figure = function()
        if figure is not None:
            figure.savefig(folder / f"benchmarks_{name}.png", dpi=110)
            plt.close(figure)


def _shapes():
    """Shares found: effects down, methods across; the number in each cell."""
    table = page.shape_shares()
    if table is None:
        return None
    shares = table.to_numpy()
    figure, panel = plt.subplots(figsize=(WIDTH, 0.9 + 0.36 * len(table)), layout="constrained")
    colours = ["#ffffff", COLOURS[0]]
    blues = mpl.colors.LinearSegmentedColormap.from_list("blues", colours).with_extremes(bad=FAINT)
    panel.imshow(np.ma.masked_invalid(shares), cmap=blues, vmin=0, vmax=1, aspect="auto")
    for (i, j), share in np.ndenumerate(shares):
        known = np.isfinite(share)
        colour = "white" if known and share > 0.6 else INK
        panel.text(j, i, f"{share:.2f}" if known else "-", ha="center", va="center", color=colour)
    panel.set_yticks(range(len(table)), table.index)
    panel.set_xticks(range(shares.shape[1]), map(page.called, table.columns))
    panel.tick_params(length=0)
    panel.xaxis.tick_top()
    for side in panel.spines.values():
        side.set_visible(False)
    return figure


def _classes():
    """Mean ranks, the best above, and the critical difference from the best."""
    accuracy = page.accuracy()
    ranks = page.ranks_of(accuracy.to_numpy())
    order = np.argsort(ranks.mean, kind="stable")[::-1]
    figure, panel = plt.subplots(figsize=(WIDTH, 1 + 0.26 * order.size), layout="constrained")
    best = ranks.mean.min()
    far = best + ranks.critical_difference
    panel.axvspan(best, far, color=FAINT, lw=0)
    panel.text((best + far) / 2, 0, "no significant difference\nfrom the best", ha="center")
    is_ours = np.array([accuracy.columns[i] == page.DEFAULT for i in order])
    places = np.arange(order.size)
    for mask, colour in ((is_ours, COLOURS[0]), (~is_ours, GRAY)):
        panel.plot(ranks.mean[order][mask], places[mask], "o", ms=8, color=colour)
    panel.set_yticks(places, [page.called(accuracy.columns[i]) for i in order])
    panel.set(xlabel="mean rank over 47 data sets (1 is best)")
    panel.grid(visible=True, axis="x", color=FAINT, lw=0.6)
    return figure


def _panels():
    """Accuracy by number of genes, a panel for each set of cells."""
    names = [name for name in page.PANELS if kept.exists(name)]
    if not names:
        return None
    size = (WIDTH, 3.4)
    figure, panels = plt.subplots(1, len(names), figsize=size, layout="constrained", squeeze=False)
    methods = list(dict.fromkeys(m for name in names for m in page.rows_of(name)["method"]))
    for panel, name in zip(panels[0], names, strict=True):
        means = page.rows_of(name).groupby(["method", "genes"])["accuracy"].mean()
        for method, colour, marker in zip(methods, COLOURS, MARKERS, strict=False):
            if method in means:
                mine = 100 * means[method]
                panel.plot(mine.index, mine, color=colour, marker=marker, label=method)
        panel.set_xscale("log")
        panel.set_xticks(sorted(means.index.levels[1]), sorted(means.index.levels[1]))
        panel.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        panel.set_title(page.PANELS[name].partition(", ")[0])
        panel.set(xlabel="genes in the panel")
        panel.grid(visible=True, color=FAINT, lw=0.6)
    panels[0, 0].set_ylabel("accuracy on held-out cells, %")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _growth():
    """Time and peak memory against the number of variants, and slope 1."""
    if not kept.exists("growth"):
        return None
    rows = page.rows_of("growth")
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.2), layout="constrained")
    parts = (("seconds", "processor seconds"), ("peak_mib", "peak memory, MiB"))
    for panel, (key, name) in zip(panels, parts, strict=True):
        panel.plot(rows["features"], rows[key], "o-", color=COLOURS[0], label="dhsic select")
        proportional = rows[key].iloc[-1] * rows["features"] / rows["features"].iloc[-1]
        panel.plot(rows["features"], proportional, "--", color=GRAY, lw=1, label="proportional")
        panel.set(xscale="log", yscale="log", xlabel="variants", title=name)
        panel.set_xticks(rows["features"], [f"{d:,}" for d in rows["features"]])
        panel.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda v, _: f"{v:,.6g}"))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_locator(mpl.ticker.NullLocator())
        panel.grid(visible=True, color=FAINT, lw=0.6)
    panels[0].legend()
    return figure
