"""Figures of the protocols of the papers, as PNG files."""

from io import BytesIO

import accuracy
import protocols
from matplotlib.ticker import MaxNLocator
from PIL import Image
from plots import FAINT, GRAY, INK, plt

#: Method: colour (Okabe and Ito: told apart with any kind of colour vision) and marker.
LOOKS = {
    "CCM": ("#0072B2", "D"),
    "BAHSIC": ("#D55E00", "s"),
    "FOHSIC": (INK, "^"),
    "mutual information": ("#CC79A7", "v"),
    "Pearson": ("#56B4E9", "o"),
    "ReliefF": ("#009E73", "P"),
    "mRMR": ("#009E73", "X"),
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


def draw_jmlr(records, out):
    """Rows: the two relevant features; all methods; the first iteration of BAHSIC."""
    figure, grid = plt.subplots(3, 3, figsize=(WIDTH, 9.4), layout="constrained")
    for panels, world in zip(grid.T, protocols.JMLR.worlds, strict=True):
        _show(panels[0], world)
        _ranks(panels[1], records, world, [m for m in world.methods if m != protocols.FIRST])
        _ranks(panels[2], records, world, [protocols.FIRST])
        panels[0].set_title(world.title)
        panels[2].set_xlabel("samples")
    _level(grid[1])
    _level(grid[2])
    grid[1, 0].set_ylabel("median rank")
    grid[2, 0].set_ylabel("median rank,\nfirst iteration of BAHSIC")
    _legend(figure, grid[1, 0])
    return _save(figure, out / "jmlr.png")


def draw_ccm(records, out):
    """Rows: CCM and other methods; the variants of CCM."""
    figure = plt.figure(figsize=(WIDTH, 7.4), layout="constrained")
    rows = figure.subfigures(2, 1, hspace=0.06)
    for row, methods in zip(rows, (OTHERS, VARIANTS), strict=True):
        panels = row.subplots(1, 3)
        for panel, world in zip(panels, protocols.CCM.worlds, strict=True):
            _ranks(panel, records, world, methods)
            panel.set(title=world.title, xlabel="samples")
        _level(panels)
        panels[0].set_ylabel("median rank")
        _legend(row, panels[0])
    return _save(figure, out / "ccm.png")


def draw_accuracy(records, out):
    """A panel for each data set, two in a row; below, whether the folds rank for themselves."""
    titles, honest = accuracy.named(records), records[0]["honest"]
    n_rows = -(-len(titles) // 2)
    figure = plt.figure(figsize=(WIDTH, 1 + 3.6 * n_rows), layout="constrained")
    panels = [figure.add_subplot(n_rows, 2, i + 1) for i in range(len(titles))]
    for panel, (data, title) in zip(panels, titles.items(), strict=True):
        _lines(panel, {m: accuracy.curve(records, data, m) for m in accuracy.METHODS})
        panel.set(title=title, xlabel="features selected")
        panel.grid(visible=True, color=FAINT, lw=0.6)
    panels[0].set_ylabel("accuracy of a kernel SVM, %")
    _legend(figure, panels[0], title=accuracy.CAPTIONS[honest])
    return _save(figure, out / ("accuracy_honest.png" if honest else "accuracy.png"))


def _show(panel, world):
    """The first two features, coloured by y."""
    data = world.draw(N_SHOWN, random_state=0)
    panel.scatter(*data.X[:, :2].T, c=data.y, s=6, cmap="viridis", linewidths=0)
    panel.set_aspect("equal", adjustable="datalim")
    panel.set(xlabel="$x_1$", ylabel="$x_2$")


def _ranks(panel, records, world, methods):
    """Median ranks against samples; the ideal and the rank by chance as lines."""
    _lines(panel, {method: protocols.curve(records, world, method) for method in methods})
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
        colour, marker = LOOKS[method]
        inside = colour if i == 0 else "none"
        size = SMALLEST + i * LARGER
        panel.plot(x, y, marker=marker, ms=size, mfc=inside, lw=1.3, color=colour, label=method)


def _legend(figure, panel, title=None):
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles[::-1], labels[::-1], loc="outside lower center", ncols=len(labels), title=title
    )


def _save(figure, path):
    """In a palette: a third of the bytes."""
    drawn = BytesIO()
    figure.savefig(drawn)
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(N_COLOURS).save(path, optimize=True)
    return path
