"""The evidence on shapes: what is drawn, what is measured, and the tables of it."""

import time
from dataclasses import dataclass, replace

import numpy as np
from tables import markdown, number

from . import noise, power, sorting, space
from .part import Part
from .shape_methods import RANKING
from .shapes import FIGURES, SHAPES, Drawn, best_rank, share_found

#: Samples of the sets of Passemiers et al., of which five of six folds train.
FIGURE_SAMPLES = 833
#: Rank at or below which a single relevant feature counts as found, and features asked for.
FOUND_RANK, WANTED = 3, 50
#: Draws of a relevant feature for each power.
POWER_DRAWS = 2_000
#: Levels at which the p-value of a relevant feature stands before noise.
ALONE_LEVELS = (1e-6, 1e-5)
#: Blocks of noise for each setting of a full run, and features of each: 10^7 tests.
NOISE_BLOCKS, NOISE_FEATURES = 1_000, 10_000


@dataclass(frozen=True)
class FigureSetting:
    """One of the four sets, with d features."""

    name: str
    d: int

    def draw(self, rng) -> Drawn:
        return FIGURES[self.name].draw(rng, FIGURE_SAMPLES, self.d)

    def score(self, order, relevant):
        return share_found(order, relevant)

    def n_wanted(self):
        return FIGURES[self.name].n_relevant


@dataclass(frozen=True)
class ShapeSetting:
    """A single shape of which the relevant feature is to be found."""

    name: str
    m: int
    d: int
    r2: float
    n_classes: int

    def draw(self, rng) -> Drawn:
        return SHAPES[self.name].draw(rng, self.m, self.d, self.r2, self.n_classes)

    def score(self, order, relevant):
        return best_rank(order, relevant)

    def n_wanted(self):
        return WANTED


def ranking(setting, method, seed):
    """Score of the order by a method, and processor seconds."""
    drawn = setting.draw(np.random.default_rng([seed, setting.d]))
    start = time.process_time()
    order = method(drawn.X, drawn.y, setting.n_wanted())
    seconds = time.process_time() - start
    return {"score": setting.score(order, drawn.relevant), "seconds": seconds}


def noise_counts(setting, _, seed):
    """p-values of one block at or below each level."""
    kind, m, c = setting
    start = time.process_time()
    below = noise.count_below(kind, m, [seed], c)[0]
    found = {f"{level:g}": int(n) for level, n in zip(noise.LEVELS, below, strict=True)}
    return {"tests": c, **found, "seconds": time.process_time() - start}


def powers(setting, method, seed):
    """Power at each level."""
    start = time.process_time()
    found = power.power(setting, method, POWER_DRAWS, seed)
    named = {f"{level:g}": share for level, share in zip(power.LEVELS, found, strict=True)}
    return {**named, "seconds": time.process_time() - start}


def alone(setting, method, seed):
    """p-values of the relevant feature below each level, and how often it is among the first."""
    start = time.process_time()
    single = power.PowerSetting(setting.name, setting.m, setting.r2, setting.n_classes)
    p = power.p_values(single, method, POWER_DRAWS, seed)
    below = {f"{level:g}": float((p <= level).mean()) for level in ALONE_LEVELS}
    first = {
        f"first {k}": float(power.among_the_first(p, k, setting.d).mean()) for k in (1, FOUND_RANK)
    }
    return {**below, **first, "draws": p.size, "seconds": time.process_time() - start}


def spatial(setting, method, seed):
    """Genes found and falsely found."""
    start = time.process_time()
    found, false = space.found_and_false(setting, method, seed)
    return {"found": found, "false": false, "seconds": time.process_time() - start}


def sorting_times(setting, _, seed):
    """Processor seconds of the test and of sorting."""
    n_classes, m, d = setting
    test, sort = sorting.sorting_ratio(n_classes, m, d, seed)
    return {"seconds": test, "sorting": sort, "ratio": test / sort}


def names_in_order(rows, column):
    return list(dict.fromkeys(rows[column]))


def pivoted(rows, heads, cell):
    """Table of a line for each setting and a column for each method."""
    methods, lines = names_in_order(rows, "method"), []
    for name in names_in_order(rows, "set"):
        mine = rows[rows["set"] == name]
        parts = [mine[mine["method"] == method] for method in methods]
        lines.append([name, *(cell(part) if len(part) else "-" for part in parts)])
    return markdown((heads, *methods), lines)


def figure_tables(rows):
    """Share of the relevant features found, and seconds."""
    share = pivoted(rows, "set", lambda part: number(part["score"].mean(), 2))
    seconds = pivoted(rows, "set", lambda part: number(part["seconds"].mean(), 1))
    return [
        "Share of the k relevant features among the first k of each method, mean over draws.",
        share,
        "Processor seconds of one run.",
        seconds,
    ]


def shape_tables(rows):
    """Share of runs in which the relevant feature has rank 3 or better, and median rank."""

    def cell(part):
        share = (part["score"] <= FOUND_RANK).mean()
        rank = part["score"].median()
        return f"{share:.2f} ({'>' if rank > WANTED else ''}{min(rank, WANTED):.0f})"

    text = (
        f"Share of runs in which the relevant feature is among the first {FOUND_RANK}, and in "
        "brackets its median rank."
    )
    return [
        text,
        pivoted(rows, "effect", cell),
        "Processor seconds of one run.",
        pivoted(rows, "effect", lambda part: number(part["seconds"].mean(), 1)),
    ]


def noise_tables(rows):
    """Frequency over level; a star outside the deviation allowed and beyond chance."""
    levels, lines = noise.LEVELS, []
    for name in names_in_order(rows, "set"):
        mine = rows[rows["set"] == name]
        n = int(mine["tests"].sum())
        ratios = [mine[f"{level:g}"].sum() / (n * level) for level in levels]
        cells = [
            f"{ratio:.3f}{' *' if outside(ratio, level, n) else ''}"
            for ratio, level in zip(ratios, levels, strict=True)
        ]
        lines.append([name, f"{n:,}", *cells])
    allowed = ", ".join(f"{100 * part:.0f}% at {level:g}" for level, part in levels.items())
    text = (
        "Frequency of p-values of noise at or below a level, over the level. A star marks a ratio "
        f"that is further from 1 than {allowed}, by more than two standard errors."
    )
    return [text, markdown(("noise", "tests", *(f"{level:g}" for level in levels)), lines)]


def outside(ratio, level, n):
    """Whether a ratio is further from 1 than allowed, beyond two standard errors."""
    error = ((1 - level) / (n * level)) ** 0.5
    return abs(ratio - 1) > noise.LEVELS[level] + 2 * error


def power_tables(rows):
    """Power of both tests and their ratio, a table for each level."""
    parts = []
    for level in power.LEVELS:
        key, lines = f"{level:g}", []
        for name in names_in_order(rows, "set"):
            mine = rows[rows["set"] == name].groupby("method")[key].mean()
            ours, theirs = (mine.get(test, np.nan) for test in power.TESTS)
            ratio = ours / theirs if theirs > 0 else np.nan
            lines.append([name, *(number(value, 3) for value in (ours, theirs)), number(ratio, 2)])
        parts += [
            f"Power at p <= {key}, over {POWER_DRAWS:,} draws.",
            markdown(("effect", *power.TESTS, "ratio"), lines),
        ]
    return parts


def alone_tables(rows):
    """Share of p-values below each level, and expected share among the first."""
    columns = [*(f"{level:g}" for level in ALONE_LEVELS), "first 1", f"first {FOUND_RANK}"]
    lines = [
        [
            name,
            method,
            f"{int(part['draws'].sum()):,}",
            *(f"{part[key].mean():.4f}" for key in columns),
        ]
        for (name, method), part in rows.groupby(["set", "method"], sort=False)
    ]
    text = (
        "One relevant feature, tested alone: share of draws with a p-value at or below a level, "
        f"and the expected share in which it is first, or among the first {FOUND_RANK}, by its "
        "p-value among as many features of noise as the setting has."
    )
    heads = ("effect", "test", "draws", *(f"p <= {level:g}" for level in ALONE_LEVELS))
    return [text, markdown((*heads, "first", f"first {FOUND_RANK}"), lines)]


def space_tables(rows):
    """Genes found, falsely found, and seconds."""

    def cell(part):
        found, false = part["found"].mean(), part["false"].mean()
        return f"{found:.1f}, {false:.1f} ({part['seconds'].mean():.1f} s)"

    text = (
        f"Genes with a pattern found at q <= {space.LEVEL}, genes found without one, and processor "
        "seconds; means over draws of 30 genes with a pattern among 300."
    )
    return [text, pivoted(rows, "pattern", cell)]


def time_tables(rows):
    """Seconds of test and sorting, and the median ratio."""
    lines = [
        [name, *(number(part[key].median(), 2) for key in ("seconds", "sorting", "ratio"))]
        for name, part in rows.groupby("set", sort=False)
    ]
    heads = ("labels", "test, s", "numpy.argsort, s", "ratio")
    return ["Processor seconds of all features, median of the draws.", markdown(heads, lines)]


def _shape_settings():
    found = {}
    for m, d, r2 in ((500, 1_000, 0.3), (1_000, 10_000, 0.1)):
        for n_classes, labels in ((0, "real labels"), (2, "two classes")):
            for name, shape in SHAPES.items():
                if not (shape.spread and n_classes):
                    key = f"{name}, {labels}, R2 = {r2}, {m:,} x {d:,}"
                    found[key] = ShapeSetting(name, m, d, r2, n_classes)
    return found


def _power_settings():
    found = {}
    for n_classes, labels in ((0, "real labels"), (2, "two classes")):
        for m in (400, 1_000):
            for name, shape in SHAPES.items():
                if shape.spread and n_classes:
                    continue
                for r2 in (0.0,) if shape.spread else (0.02, 0.04, 0.06, 0.08, 0.1):
                    of_size = "" if shape.spread else f"R2 = {r2}, "
                    key = f"{name}, {labels}, {of_size}{m:,} samples"
                    found[key] = power.PowerSetting(name, m, r2, n_classes)
    return found


SHAPE_PARTS = {
    "shapes-figures": Part(
        "Four sets of Passemiers et al.",
        {
            f"{name}, {d:,} features": FigureSetting(name, d)
            for d in (2_048, 20_000)
            for name in FIGURES
        },
        RANKING,
        ranking,
        figure_tables,
        seeds=20,
        patience=10,
        quick_settings=lambda name: "2,048" in name,
    ),
    "shapes-single": Part(
        "One relevant feature",
        _shape_settings(),
        RANKING,
        ranking,
        shape_tables,
        seeds=100,
        patience=10,
        quick_settings=lambda name: "500 x" in name,
        quick_seeds=5,
    ),
    "shapes-noise": Part(
        "p-values of noise",
        {
            f"{name}, {m:,} samples": (kind, m, NOISE_FEATURES)
            for name, kind in noise.NOISES.items()
            for m in (100, 500, 2_000)
        },
        {"dhsic test": None},
        noise_counts,
        noise_tables,
        seeds=NOISE_BLOCKS,
        quick_settings=lambda name: "500 samples" in name,
        quick_seeds=10,
    ),
    "shapes-power": Part(
        "Power of single tests",
        _power_settings(),
        power.TESTS,
        powers,
        power_tables,
        seeds=2,
        quick_settings=lambda name: "400 samples" in name,
        quick_seeds=1,
    ),
    "shapes-alone": Part(
        "One relevant feature, tested alone",
        _shape_settings(),
        power.TESTS,
        alone,
        alone_tables,
        seeds=5,
        quick_settings=lambda name: "500 x" in name,
        quick_seeds=1,
    ),
    "shapes-space": Part(
        "Patterns in space",
        {
            f"{pattern}, mean {mean}": space.SpaceSetting(pattern, mean=mean)
            for pattern in space.PATTERNS
            for mean in (0.5, 2.0)
        },
        space.TESTS,
        spatial,
        space_tables,
        seeds=20,
        quick_settings=lambda name: "mean 0.5" in name,
    ),
    "shapes-time": Part(
        "Time against sorting",
        {
            f"{name}, 1,000 x 20,000": (n_classes, 1_000, 20_000)
            for name, n_classes in sorting.LABELS.items()
        },
        {"dhsic test": None},
        sorting_times,
        time_tables,
        seeds=5,
    ),
}


def shape_parts(names, methods=None, sets=None, seeds=None, *, quick=False):
    """Parts by name, all of them for "shapes", with the methods, settings and seeds asked for."""
    chosen = {}
    for name, whole in SHAPE_PARTS.items():
        if "shapes" not in names and name not in names:
            continue
        part = whole.quick() if quick else whole
        part = replace(
            part,
            methods=with_names(part.methods, methods),
            settings=with_names(part.settings, sets),
            seeds=seeds or part.seeds,
        )
        if part.methods and part.settings:
            chosen[name] = part
    return chosen


def with_names(entries, names):
    """Entries whose name is among these; all of them where no names are asked for."""
    return {name: entry for name, entry in entries.items() if not names or name in names}
