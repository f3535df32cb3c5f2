"""Tables of an experiment, with the paper's number beside ours where it has one.

Each function takes the experiment and its rows and gives paragraphs.
"""

import numpy as np
from tables import markdown, number, with_error

from . import papers
from .comparison import overlap
from .sets import SETS

#: Standard errors of a difference within which a number is the paper's.
WITHIN = 2


def summed(rows, *keys):
    """(mean, standard error) over folds of the scores by those keys."""
    folds = rows.groupby(list(keys))["score"]
    return folds.mean(), folds.std() / np.sqrt(folds.count())


def names_of(experiment, rows):
    """Sets of which there is something, in the order of the experiment."""
    there = set(rows["set"])
    return [name for name in experiment.sets if name in there]


def table_1(experiment, rows):
    """Errors on five features, and on how many sets they are the paper's."""
    mean, error = summed(rows, "set", "method")
    lines, near = [], {}
    for name in names_of(experiment, rows):
        line = [name]
        for method in experiment.methods:
            key = (name, method)
            if key not in mean.index:
                line.append("-")
                continue
            ours = 100 * mean[key], 100 * error[key]
            line.append(with_error(*ours))
            if key in papers.TABLE_1:
                theirs = papers.TABLE_1[key]
                same = abs(ours[0] - theirs[0]) <= WITHIN * np.hypot(ours[1], theirs[1])
                near.setdefault(method, []).append(same)
                line[-1] += f" / {with_error(*theirs)}{'' if same else ' *'}"
        lines.append([*line, SETS[name].note])
    agreed = ", ".join(f"{method} {sum(found)} of {len(found)}" for method, found in near.items())
    told = (
        "Error in percent on five features, of real values 1 - r2: ours / Table 1, each with its "
        "standard error, ours over folds. A star: apart by more than two standard errors of the "
        f"difference. Not apart: {agreed or 'nothing to compare'}."
    )
    return [told, markdown(("set", *experiment.methods, "what was taken"), lines)]


def tables_3_and_4(experiment, rows):
    """Errors on ten features and features in common."""
    names, lines = names_of(experiment, rows), []
    parts = dict(list(rows.groupby(["set", "method"])))
    for method in experiment.methods:
        line = [method]
        for name in names:
            part = parts.get((name, method))
            if part is None:
                line.append("-")
                continue
            common = overlap(list(part["order"]), int(part["selected"].iloc[0]))
            line.append(f"{100 * part['score'].mean():.1f}, {common}")
            if (name, method) in papers.TABLES_3_AND_4:
                theirs = papers.TABLES_3_AND_4[name, method]
                line[-1] += f" / {theirs[0]:.1f}, {theirs[1]:.0f}"
        lines.append(line)
    told = (
        "Error in percent on ten features, and how many of the ten are the same in all folds: ours "
        "/ Table 3 (breast, colon, leukaemia) or Table 4 (aml, lymphoma, yeast)."
    )
    return [told, markdown(("method", *names), lines)]


def genotypes(experiment, rows):
    """Correlations of predictions, a row a method, a column a trait."""
    mean, error = summed(rows, "method", "set", "selected")
    names, lines = names_of(experiment, rows), []
    for method in experiment.all_methods:
        line = [method]
        for name in names:
            if (method, name) not in mean.index:
                line.append("-")
                continue
            values = " / ".join(number(value, 2) for value in mean[method, name])
            line.append(f"{values} ({number(error[method, name].max(), 2)})")
        lines.append(line)
    told = (
        "Correlation of a trait with its prediction by ridge regression on "
        f"{', '.join(map(str, experiment.counts))} variants, mean of {experiment.folds.total} "
        "folds (the largest standard error)."
    )
    return [told, markdown(("method", *names), lines)]


def curves(experiment, rows):
    """Means over all numbers of features of a figure."""
    mean = 100 * summed(rows, "set", "method")[0]
    names = names_of(experiment, rows)
    lines = [
        [method, *(number(mean.get((name, method), np.nan)) for name in names)]
        for method in experiment.methods
    ]
    what = "error" if experiment.judges[0].error else "accuracy"
    told = f"Mean {what} over the numbers of features of the figure, percent."
    return [told, markdown(("method", *names), lines)]


def drawn(protocol, rows):
    """Median ranks, a table a world."""
    mean, parts = summed(rows, "set", "method", "samples")[0], []
    for world in protocol.worlds:
        lines = [
            [
                method,
                *(number(mean.get((world.title, method, m), np.nan), 2) for m in protocol.samples),
            ]
            for method in world.methods
        ]
        told = (
            f"{world.title}: median rank of the relevant features, mean of {protocol.runs} runs; "
            f"ideal {world.ideal:g}, by chance {world.chance:g}."
        )
        parts += [told, markdown(("samples", *protocol.samples), lines)]
    return parts
