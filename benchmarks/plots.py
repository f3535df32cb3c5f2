"""Plots of what the suite measured, as PNG files."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from data import LABELS
from growth import AXES
from measuring import MIB
from tables import remark, size

INK, GRAY, FAINT = "#222222", "#7a7a7a", "#d9d9d9"
#: Told apart with any kind of colour vision (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
MARKERS = "os^Dv"
plt.rcParams |= {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "figure.dpi": 130,
    "legend.frameon": False,
}


def plot_growth(results, out):
    """One file an axis: time and memory, log-log, with exponents and slope 1."""
    files = []
    for axis, name in AXES.items():
        chosen = [c for c in results if c["axis"] == axis and c["time_exponent"] is not None]
        if not chosen:
            continue
        figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
        _curves(panels[0], chosen, "median_s", "time_exponent", 1)
        _curves(panels[1], chosen, "rise_bytes", "memory_exponent", MIB)
        panels[0].set(title=f"Time against {name}", xlabel=name, ylabel="seconds")
        panels[1].set(title=f"Memory of the run against {name}", xlabel=name, ylabel="MiB")
        files.append(_save(figure, out / f"growth_{axis}.png"))
    return files


def _curves(panel, curves, key, exponent, unit):
    lowest, ticks = np.inf, set()
    for curve, colour, marker in zip(curves, COLOURS, MARKERS, strict=False):
        good = [p for p in curve["points"] if p["status"] == "ok" and p[key]]
        x, y = np.array([p["at"] for p in good]), np.array([p[key] for p in good]) / unit
        fitted = curve[exponent]
        label = curve["solver"] + ("" if fitted is None else f": slope {fitted:.2f}")
        panel.plot(x, y, marker=marker, color=colour, label=label)
        lowest, ticks = min(lowest, y.min()), ticks | set(x.tolist())
    x = np.array(sorted(ticks))
    panel.plot(x, 0.7 * lowest * x / x[0], "--", color=GRAY, lw=1, label="slope 1")
    panel.set(xscale="log", yscale="log")
    panel.set_xticks(x, [f"{value:,}" for value in x])
    panel.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    _plain_numbers(panel.yaxis)
    panel.grid(visible=True, which="major", color=FAINT, lw=0.6)
    panel.legend()


def _plain_numbers(axis):
    """Ticks of a logarithmic axis at 1, 2, 5, written out."""
    axis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(mpl.ticker.NullFormatter())


def plot_peers(results, out):
    """Bars: a row of panels (time, memory) for every size."""
    rows = results["rows"]
    sizes = list(dict.fromkeys((r["samples"], r["features"]) for r in rows))
    n_bars = max(sum((r["samples"], r["features"]) == s for r in rows) for s in sizes)
    figure, grid = plt.subplots(
        len(sizes),
        2,
        figsize=(12, 0.6 + len(sizes) * (0.9 + 0.34 * n_bars)),
        layout="constrained",
        squeeze=False,
        sharex="col",
        width_ratios=(3, 2),
    )
    for panel, name in zip(grid[-1], ("seconds (log)", "MiB (log)"), strict=True):
        panel.set(xscale="log", xlabel=name)
    for panels, (m, d) in zip(grid, sizes, strict=True):
        chosen = [r for r in rows if (r["samples"], r["features"]) == (m, d)][::-1]
        _time_bars(panels[0], chosen)
        _memory_bars(panels[1], chosen)
        panels[0].set_title(f"{size(m, d)}: time, and planted features found")
        panels[1].set_title("peak memory")
    _limits(grid[-1, 0], [r["median_s"] for r in rows if r["median_s"]], 0.5, 0.7)
    _limits(grid[-1, 1], [r["peak_bytes"] / MIB for r in rows if r["peak_bytes"]], 0.5, 0.5)
    return [_save(figure, out / "peers.png")]


def _limits(panel, values, below, text):
    """Room under the shortest bar, and beyond the longest for what is written there."""
    if values:
        low, high = below * min(values), max(values)
        panel.set_xlim(low, high * (high / low) ** text)
    _plain_numbers(panel.xaxis)
    panel.tick_params(axis="x", labelsize=8)


def _colour(row):
    return COLOURS[0] if row["contender"].startswith("dhsic") else GRAY


def _time_bars(panel, rows):
    places = _places(panel, [row["contender"] for row in rows])
    for place, row in zip(places, rows, strict=True):
        if row["status"] != "ok":
            why = remark(row["status"], row["reason"])
            at_the_left = panel.get_yaxis_transform()
            panel.text(
                0.01, place, why, va="center", fontsize=8, color=COLOURS[1], transform=at_the_left
            )
            continue
        panel.barh(place, row["median_s"], color=_colour(row))
        found, planted = row["found"], row["planted"]
        marks = ", ".join(f"{label} {found[label]}/{planted[label]}" for label in LABELS)
        text = f" {row['median_s']:.3g} s  ({marks})"
        panel.text(row["median_s"], place, text, va="center", fontsize=8, color=INK)


def _places(panel, names):
    """A place on the y axis for every row, whether or not it gets a bar."""
    places = np.arange(len(names))
    panel.set_yticks(places, names)
    panel.set_ylim(-0.6, len(names) - 0.4)
    return places


def _memory_bars(panel, rows):
    places = _places(panel, [""] * len(rows))
    for place, row in zip(places, rows, strict=True):
        if not row["peak_bytes"]:
            continue
        ended = row["status"] == "ok"
        panel.barh(
            place,
            row["peak_bytes"] / MIB,
            color=_colour(row) if ended else "white",
            edgecolor=_colour(row),
            hatch=None if ended else "///",
        )
        text = f" {row['peak_bytes'] / MIB:,.0f}" + ("" if ended else f" when it {_ended(row)}")
        panel.text(row["peak_bytes"] / MIB, place, text, va="center", fontsize=8, color=INK)


def _ended(row):
    return {"timed out": "was stopped", "out of memory": "ran out"}.get(row["status"], "failed")


def plot_roofline(rows, out):
    """Bars of whole run and floor, a pair for every value of solver."""
    good = [row for row in rows if "reason" not in row]
    if not good:
        return []
    figure, panel = plt.subplots(figsize=(8, 1.2 + 0.9 * len(good)), layout="constrained")
    places = np.arange(len(good))[::-1]
    runs, floors = [r["run_s"] for r in good], [r["floor_s"] for r in good]
    panel.barh(places + 0.2, runs, 0.38, color=COLOURS[0], label="whole run")
    panel.barh(places - 0.2, floors, 0.38, color=FAINT, label="floor")
    for place, row in zip(places, good, strict=True):
        panel.text(row["run_s"], place + 0.2, f" {row['run_over_floor']:.2f} x floor", va="center")
    labels = [
        f"{r['solver']}, {size(r['samples'], r['features'])}\nfloor: {r['floor']}" for r in good
    ]
    panel.set_yticks(places, labels)
    panel.set(xlabel="seconds", title="Whole run over what it cannot avoid")
    panel.margins(x=0.2)
    panel.legend(loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2)
    return [_save(figure, out / "roofline.png")]


def _save(figure, path):
    figure.savefig(path)
    plt.close(figure)
    return path
