"""Figures of the papers and of the comparisons, as PNG files."""

from io import BytesIO

import numpy as np
from matplotlib.ticker import MaxNLocator
from PIL import Image
from plots import COLOURS, FAINT, GRAY, INK, MARKERS, plt

from . import protocols

#: Method: colour (Okabe and Ito: told apart with any kind of colour vision) and marker.
LOOKS = {
    "CCM": ("#0072B2", "D"),
    "BAHSIC": ("#D55E00", "s"),
    "FOHSIC": (INK, "^"),
    "mutual information": ("#CC79A7", "v"),
    "Pearson": ("#56B4E9", "o"),
    "ReliefF": ("#009E73", "P"),
    "RFE": ("#E69F00", "X"),
    "mRMR": ("#009E73", "X"),
    "mRMR, three levels": ("#009E73", "X"),
    protocols.FIRST: ("#D55E00", "s"),
    "CCM, soft budget": ("#E69F00", "o"),
    "CCM, no inverse": ("#CC79A7", "v"),
    "CCM, random features": (INK, "^"),
}
VARIANTS = tuple(name for name in protocols.OF_CCM if name.startswith("CCM"))
OTHERS = tuple(name for name in protocols.OF_CCM if name not in VARIANTS[1:])
WIDTH = 10.0
#: Markers, in points.
SMALLEST, LARGER = 4.0, 1.1
#: Of a file: lines, markers, and what lies between them and the ground.
N_COLOURS = 128
#: Samples in the first row of the figure of JMLR.
N_SHOWN = 400


#: Panels in a row.
N_ACROSS = 3


def draw_jmlr(protocol, rows, path):
    """Rows: the two relevant features; all methods; the first iteration of BAHSIC."""
    figure, grid = plt.subplots(3, 3, figsize=(WIDTH, 9.4), layout="constrained")
    for panels, world in zip(grid.T, protocol.worlds, strict=True):
        _show(panels[0], world)
        _ranks(panels[1], rows, world, [m for m in world.methods if m != protocols.FIRST])
        _ranks(panels[2], rows, world, [protocols.FIRST])
        panels[0].set_title(world.title)
        panels[2].set_xlabel("samples")
    _level(grid[1])
    _level(grid[2])
    grid[1, 0].set_ylabel("median rank")
    grid[2, 0].set_ylabel("median rank,\nfirst iteration of BAHSIC")
    _legend(figure, grid[1, 0])
    _save(figure, path)


def draw_ccm(protocol, rows, path):
    """Rows: CCM and other methods; the variants of CCM."""
    figure = plt.figure(figsize=(WIDTH, 7.4), layout="constrained")
    parts = figure.subfigures(2, 1, hspace=0.06)
    for part, methods in zip(parts, (OTHERS, VARIANTS), strict=True):
        panels = part.subplots(1, 3)
        for panel, world in zip(panels, protocol.worlds, strict=True):
            _ranks(panel, rows, world, methods)
            panel.set(title=world.title, xlabel="samples")
        _level(panels)
        panels[0].set_ylabel("median rank")
        _legend(part, panels[0])
    _save(figure, path)


def draw_curves(experiment, rows, path):
    """A panel a data set: scores in percent against the number of features."""
    there = set(rows["set"])
    names = [name for name in experiment.sets if name in there]
    n_down = -(-len(names) // N_ACROSS)
    figure = plt.figure(figsize=(WIDTH, 1 + 3.2 * n_down), layout="constrained")
    for i, name in enumerate(names):
        panel = figure.add_subplot(n_down, N_ACROSS, i + 1)
        _lines(panel, _by_method(rows[rows["set"] == name], experiment.methods, "selected", 100))
        panel.set(title=name, xlabel="features selected")
        panel.grid(visible=True, color=FAINT, lw=0.6)
        if i % N_ACROSS == 0:
            panel.set_ylabel("error, %" if experiment.judges[0].error else "accuracy, %")
    _legend(figure, figure.axes[0])
    _save(figure, path)


def draw_ranks(methods, ranks, path):
    """Mean ranks of methods, the best above, and how far from it they do not differ."""
    order = np.argsort(ranks.mean, kind="stable")[::-1]
    figure, panel = plt.subplots(figsize=(WIDTH, 1 + 0.24 * len(methods)), layout="constrained")
    best, reach = ranks.mean.min(), ranks.critical_difference
    panel.axvspan(best, best + reach, color=FAINT, label="critical difference from the best")
    panel.plot(ranks.mean[order], range(len(order)), "o", color=COLOURS[0])
    panel.set_yticks(range(len(order)), [methods[i] for i in order])
    panel.set(xlabel="mean rank")
    panel.grid(visible=True, axis="x", color=FAINT, lw=0.6)
    panel.legend(loc="lower left")
    _save(figure, path)


def _by_method(rows, methods, key, factor=1.0):
    """{method: (values of the key, mean scores)} of the methods that there is something of."""
    mean = factor * rows.groupby(["method", key])["score"].mean()
    there = set(rows["method"])
    return {m: (mean[m].index.to_numpy(), mean[m].to_numpy()) for m in methods if m in there}


def _show(panel, world):
    """The first two features, coloured by y."""
    data = world.draw(N_SHOWN, random_state=0)
    panel.scatter(*data.X[:, :2].T, c=data.y, s=6, cmap="viridis", linewidths=0)
    panel.set_aspect("equal", adjustable="datalim")
    panel.set(xlabel="$x_1$", ylabel="$x_2$")


def _ranks(panel, rows, world, methods):
    """Median ranks against samples; the ideal and the rank by chance as lines."""
    _lines(panel, _by_method(rows[rows["set"] == world.title], methods, "samples"))
    panel.axhline(world.chance, color=GRAY, lw=0.8, ls="--", label="by chance")
    panel.axhline(world.ideal, color=INK, lw=1.0, ls=":", label="ideal")
    panel.grid(visible=True, color=FAINT, lw=0.6)
    panel.yaxis.set_major_locator(MaxNLocator(integer=True))


def _level(panels):
    """The same ranks in all, from the best there is."""
    top = max(panel.get_ylim()[1] for panel in panels)
    for panel in panels:
        panel.set_ylim(1, top)


def _lines(panel, curves):
    """The first is drawn last; rings around it are curves that run under it."""
    for i, (method, (x, y)) in reversed(list(enumerate(curves.items()))):
        colour, marker = LOOKS.get(method, (COLOURS[i % 5], MARKERS[i % 5]))
        inside = colour if i == 0 else "none"
        size = SMALLEST + i * LARGER
        panel.plot(x, y, marker=marker, ms=size, mfc=inside, lw=1.3, color=colour, label=method)


def _legend(figure, panel):
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=len(labels))


def _save(figure, path):
    """In a palette: a third of the bytes."""
    drawn = BytesIO()
    figure.savefig(drawn)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(N_COLOURS).save(path, optimize=True)
