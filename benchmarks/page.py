"""Write docs/benchmarks.md and its pictures: page.template with tables of the kept results.

    python page.py        # in benchmarks/; needs matplotlib

Results are in `kept/`, one file for each script that was run with ``--keep NAME``. A part without
kept results refers to the appendix.
"""

from functools import cache
from pathlib import Path
from string import Template

import kept
import numpy as np
import pandas as pd
from reproduce.comparison import holm, paired, ranks_of
from tables import markdown, number, probability

TEMPLATE = Path(__file__).with_suffix(".template")
DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES = DOCS / "benchmarks.md", DOCS / "pictures"
DEFAULT = "BAHSIC, default"
#: Names of methods on the page, where the kept results have others.
NAMES = {DEFAULT: "dhsic", "dhsic, default": "dhsic", "BAHSIC": "BAHSIC, Algorithm 1 alone"}
#: Effects on the page, in its order, by their names in the kept results.
EFFECTS = {
    "linear": "straight line",
    "parabola": "parabola",
    "two-sided step, |x| > 1.2": "two-sided step",
    "sin 2x": "sin 2x",
    "sin 4x": "sin 4x",
    "bump, exp(-8 x^2)": "narrow bump",
    "RING": "RING",
    "XOR": "XOR",
}
#: Methods in the table of genotypes, and traits for which most of them have results.
OF_GENOTYPES = (DEFAULT, "F test, clumped", "F test", "L1", "HSIC Lasso", "mRMR", "ridge on all")
TRAITS = ("mouse CD8", "Arabidopsis FT16", "wheat 1", "wheat 2", "wheat 3", "wheat 4")
#: Kept results of gene panels, with a description of the cells.
PANELS = {
    "panels_pbmc": "700 blood cells, 765 genes, 10 types",
    "panels_simulated": "3,000 simulated cells, 2,000 genes, 12 nested types",
}
NOTHING = "No results are kept for this part; see [the appendix](../benchmarks/README.md)."


def rows_of(name):
    """Rows of a kept result as a data frame."""
    return pd.DataFrame(kept.load(name)["rows"])


def source(name):
    """Command, date, versions and machine of a kept result, as a line of the page."""
    facts = kept.load(name)
    versions = ", ".join(f"{package} {version}" for package, version in facts["versions"].items())
    commit = f" (commit {facts['commit']})" if facts["commit"] else ""
    return f"*`{facts['command']}`; {facts['date']}{commit}; {versions}; {facts['machine']}.*"


def picture(name, words):
    return f"![{words}](pictures/benchmarks_{name}.png)"


def called(method):
    """Name of a method on the page; that of dhsic stands out in tables."""
    return NAMES.get(method, method)


def in_bold(method):
    name = called(method)
    return f"**{name}**" if name.split()[0] == "dhsic" else name


# -- shapes ---------------------------------------------------------------------------------------


def shapes():
    shares = shape_shares()
    if shares is None:
        return NOTHING
    lines = [[effect, *(number(v, 2) for v in row)] for effect, row in shares.iterrows()]
    names = [name for name in ("shapes_single", "shapes_sets") if kept.exists(name)]
    drawn = picture("shapes", "Share of draws in which the relevant features stand first")
    table = markdown(("effect", *map(in_bold, shares.columns)), lines)
    return "\n\n".join([drawn, table, *map(source, names)])


def draws():
    """Number of draws of each effect."""
    names = [name for name in ("shapes_single", "shapes_sets") if kept.exists(name)]
    return min((int(rows_of(name)["n"].min()) for name in names), default=0)


def shape_shares():
    """Shares in which relevant features stand first (effects, methods); None if nothing is kept."""
    names = [name for name in ("shapes_single", "shapes_sets") if kept.exists(name)]
    if not names:
        return None
    rows = pd.concat([rows_of(name) for name in names])
    rows["share"] = rows["found"].fillna(rows["score"]) if "found" in rows else rows["score"]
    rows["effect"] = [
        next((shown for name, shown in EFFECTS.items() if a_set.startswith(f"{name},")), None)
        for a_set in rows["set"]
    ]
    table = rows.pivot_table(index="effect", columns="method", values="share")
    methods = sorted(table, key=lambda m: (called(m) != "dhsic", -table[m].mean()))
    return table.reindex([e for e in EFFECTS.values() if e in table.index])[methods]


# -- classes and genotypes ------------------------------------------------------------------------


@cache
def accuracy():
    """Accuracy (sets, methods), the mean over numbers of features; NaN where a method failed."""
    return rows_of("classes").pivot_table(index="set", columns="method", values="score")


def accuracy_with(k):
    """Mean accuracy of each method with k features."""
    rows = rows_of("classes")
    rows["score"] = [scores.get(str(k), np.nan) for scores in rows["scores"]]
    return rows.groupby("method")["score"].mean()


def critical_difference():
    return number(ranks_of(accuracy().to_numpy()).critical_difference, 1)


def classes():
    """Methods by mean rank, and how far dhsic is ahead of each."""
    scores, others = accuracy(), [m for m in accuracy() if m != DEFAULT]
    ranks = pd.Series(ranks_of(scores.to_numpy()).mean, scores.columns)
    tests = {m: paired(scores[DEFAULT].to_numpy(), scores[m].to_numpy()) for m in others}
    p = dict(zip(others, holm([test.p for test in tests.values()]), strict=True))
    seconds = rows_of("classes").groupby("method")["seconds"].median()
    with_10, with_50 = accuracy_with(10), accuracy_with(50)
    lines = []
    for m in ranks.sort_values(kind="stable").index:
        line = [in_bold(m), number(ranks[m], 1)]
        line += [number(each[m], 1, 100) for each in (scores.mean(), with_10, with_50)]
        if m == DEFAULT:
            line += ["", "", ""]
        else:
            by, error = (number(v, 1, 100) for v in (tests[m].difference, tests[m].standard_error))
            line += [f"{by} ± {error}", f"{tests[m].won} of {tests[m].n}", probability(p[m])]
        lines.append([*line, number(seconds[m], 1)])
    heads = ("method", "mean rank", "accuracy", "10 features", "50 features")
    heads += ("dhsic ahead by", "on sets", "p", "seconds")
    drawn = picture("classes", "Mean ranks of the methods over 47 data sets")
    return "\n\n".join([drawn, markdown(heads, lines), source("classes")])


def worst_sets(n=4):
    """The sets on which dhsic is furthest behind, with the best method and the distance."""
    scores = accuracy()
    behind = (scores.max(axis=1) - scores[DEFAULT]).sort_values(ascending=False)[:n]
    named = [
        f"{a_set} ({called(scores.loc[a_set].idxmax())}, {number(points, 1, 100)} points)"
        for a_set, points in behind.items()
    ]
    return f"{', '.join(named[:-1])} and {named[-1]}"


def genotypes():
    """Correlations of each trait by method, for 10, 50 and 200 variants."""
    scores = rows_of("genotypes").set_index(["method", "set"])["scores"].to_dict()
    lines = []
    for method in OF_GENOTYPES:
        cells = [scores.get((method, trait), {}).values() for trait in TRAITS]
        cells = [" / ".join(dict.fromkeys(f"{value:.2f}" for value in cell)) for cell in cells]
        lines.append([in_bold(method), *(cell or "-" for cell in cells)])
    return "\n\n".join([markdown(("method", *TRAITS), lines), source("genotypes")])


# -- beside PLINK, quadsv and scanpy --------------------------------------------------------------


def tests():
    """Hits, levels and seconds of `dhsic test` and plink2."""
    if not kept.exists("tests"):
        return NOTHING
    lines = [
        [
            *(row.trait, row.repetitions, row.hits_plink, row.both, row.hits_dhsic),
            *(number(row.levels[f"{program} 0.01"], 2) for program in ("dhsic", "plink")),
            *(number(row.seconds[program], 1) for program in ("dhsic", "plink")),
        ]
        for row in rows_of("tests").itertuples()
    ]
    heads = ("trait", "draws", "hits of plink2", "of these dhsic", "hits of dhsic")
    heads += ("permuted, dhsic", "permuted, plink2", "dhsic, s", "plink2, s")
    return "\n\n".join([markdown(heads, lines), source("tests")])


def pairs():
    """Planted pairs found, and seconds, of `dhsic pairs` and plink1.9."""
    if not kept.exists("pairs"):
        return NOTHING
    lines = [
        [
            *(row.effect, f"`{row.program}`", f"{row.found} of {row.planted}", row.false),
            number(row.seconds, 1),
        ]
        for row in rows_of("pairs").itertuples()
    ]
    heads = ("effect", "program", "planted pairs found", "other pairs", "seconds")
    return "\n\n".join([markdown(heads, lines), source("pairs")])


def space():
    """Genes found and falsely found, by pattern and method."""
    if not kept.exists("space"):
        return NOTHING
    rows = rows_of("space")
    rows["genes"] = [f"{row.found:.1f}, {row.false:.1f}" for row in rows.itertuples()]
    table = rows.pivot_table(index="set", columns="method", values="genes", aggfunc="first")
    lines = [[a_set.partition(",")[0], *row.fillna("-")] for a_set, row in table.iterrows()]
    seconds = rows.groupby("method")["seconds"].median()
    lines.append(["*seconds*", *(number(seconds[method], 1) for method in table)])
    return "\n\n".join([markdown(("pattern", *map(in_bold, table)), lines), source("space")])


def panels():
    """Accuracy by size of the panel, and seconds, by cells and method."""
    names = [name for name in PANELS if kept.exists(name)]
    if not names:
        return NOTHING
    lines = []
    for name in names:
        by_method = rows_of(name).groupby("method", sort=False)
        seconds = by_method["seconds"].median()
        for method, rows in by_method:
            means = rows.groupby("genes")["accuracy"].mean()
            cells = [PANELS[name], in_bold(method), *(number(v, 1, 100) for v in means)]
            lines.append([*cells, number(seconds[method], 1)])
    heads = ("cells", "method", "8 genes", "20 genes", "50 genes", "seconds")
    drawn = picture("panels", "Accuracy on held-out cells by size of the panel")
    return "\n\n".join([drawn, markdown(heads, lines), *map(source, names)])


def growth():
    """Time and memory by number of variants."""
    if not kept.exists("growth"):
        return NOTHING
    lines = [
        [
            *(f"{row.features:,}", number(row.clock_seconds, 1), number(row.seconds, 1)),
            *(number(row.bare_seconds, 2), f"{row.peak_mib:,}", f"{row.found} of {row.planted}"),
        ]
        for row in rows_of("growth").itertuples()
    ]
    heads = ("variants", "clock, s", "processor, s", "reading once, s", "peak memory, MiB")
    drawn = picture("growth", "Time and memory against the number of variants")
    table = markdown((*heads, "planted found"), lines)
    return "\n\n".join([drawn, table, source("growth")])


#: Functions that give the parts of the page, by their names in page.template.
PARTS = (
    *(shapes, draws, critical_difference, classes, worst_sets, genotypes),
    *(tests, pairs, space, panels, growth),
)


def text():
    """The page, as Markdown."""
    parts = {part.__name__: part() for part in PARTS}
    return Template(TEMPLATE.read_text()).substitute(parts)


def main():
    import page_pictures

    PAGE.write_text(text())
    page_pictures.draw(PICTURES)


if __name__ == "__main__":
    main()
