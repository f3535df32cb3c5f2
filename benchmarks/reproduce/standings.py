"""Ranks of methods over sets, and the default against each of the others."""

import numpy as np
from tables import markdown, number, probability

from .comparison import holm, paired, ranks_of, stability
from .methods import DEFAULT
from .running import NOT_RUN
from .sets import SETS

#: Features of the redundancy and the stability that are told.
TOLD = 50
#: Numbers of features at which methods are tested against the default.
TESTED = (10, 50)


class Standings:
    """Methods on the sets on which all of them were run, whether or not they came to an end.

    Attributes
    ----------
    by_set : DataFrame
        Accuracy (sets, methods), the mean over folds, SVMs and numbers of features; NaN where a
        method failed or took too long.
    at : dict
        The same at each number of features.
    """

    def __init__(self, experiment, rows, stands):
        self.methods, self.experiment = experiment.methods, experiment
        waiting = set(stands[stands["status"] == NOT_RUN]["set"])
        self.names = [name for name in experiment.sets if name not in waiting]
        rows = rows[rows["set"].isin(self.names)]
        self.spread = rows[rows["judge"] == "redundancy"]
        self.judged = rows[rows["judge"] != "redundancy"]
        self.by_set = self._table(self.judged).reindex(self.names)
        self.at = {k: self._table(part) for k, part in self.judged.groupby("selected")}

    @property
    def ranks(self):
        return ranks_of(self.by_set.to_numpy())

    def _table(self, rows):
        found = rows.groupby(["set", "method"])["score"].mean().unstack("method")
        return found.reindex(columns=self.methods)

    def sections(self):
        """Paragraphs and tables."""
        if not self.names:
            return ["No set was run with all methods yet."]
        if DEFAULT not in self.methods:
            return self._ranked()
        return [*self._ranked(), *self._tested(), *self._by_set()]

    def _ranked(self):
        """Methods by mean rank, with what else is to be told of them."""
        found, counts = self.ranks, [k for k in self.experiment.counts if k in self.at]
        seconds = self.judged.groupby("method")["seconds"].median()
        spread, steady = self.spread.groupby("method")["score"].mean(), self._stability()
        lines = [
            [
                f"**{method}**" if method == DEFAULT else method,
                number(found.mean[i]),
                number(self.by_set[method].mean(), 1, 100),
                *(number(self.at[k][method].mean(), 1, 100) for k in counts),
                number(spread.get(method, np.nan), 2),
                number(steady.get(method, np.nan), 2),
                number(seconds.get(method, np.nan), 2),
            ]
            for i in np.argsort(found.mean, kind="stable")
            for method in [self.methods[i]]
        ]
        told = (
            f"{len(self.names)} sets, {self.experiment.folds.total} folds, percent, mean of both "
            "SVMs. Accuracy: the mean over sets of that over numbers of features. Critical "
            f"difference of mean ranks {found.critical_difference:.1f} (Nemenyi, 5%), Friedman p "
            f"{probability(found.p)}. Redundancy: mean magnitude of the correlation of the first "
            f"{TOLD}; stability: mean Jaccard index of them between folds; seconds: median "
            "processor time of a fold."
        )
        heads = ("method", "mean rank", "accuracy", *map(str, counts))
        return [told, markdown((*heads, "redundancy", "stability", "seconds"), lines)]

    def _stability(self):
        """Of each method, the mean over sets."""
        found = {}
        rows = self.judged[self.judged["selected"] == TOLD]
        once = rows.drop_duplicates(["set", "method", "fold"])
        for (_, method), part in once.groupby(["set", "method"]):
            found.setdefault(method, []).append(stability(list(part["order"]), TOLD))
        return {method: float(np.mean(values)) for method, values in found.items()}

    def _tested(self):
        """The default against each other method, over sets."""
        columns = {"all": self.by_set}
        columns |= {f"{k} features": self.at[k] for k in TESTED if k in self.at}
        others = [method for method in self.methods if method != DEFAULT]
        cells = {name: _cells(scores, others) for name, scores in columns.items()}
        lines = [[method, *(cells[name][i] for name in columns)] for i, method in enumerate(others)]
        told = (
            f"{DEFAULT} less the other, points (standard error), sets on which it is ahead, p of "
            "Wilcoxon's signed ranks (after Holm's correction for all rows):"
        )
        return [told, markdown(("method", *columns), lines)]

    def _by_set(self):
        """How far the default is from the best, on each set."""
        lines = []
        for name, scores in self.by_set.dropna(how="all").iterrows():
            best, mine = scores.idxmax(), scores[DEFAULT]
            place, behind = int((scores > mine).sum()) + 1, scores[best] - mine
            mine = number(mine, 1, 100)
            lines.append([name, mine, place, best, number(behind, 1, 100), SETS[name].note])
        heads = ("set", DEFAULT, "place", "best", "ahead by", "what was taken")
        return [f"Where {DEFAULT} stands on each set:", markdown(heads, lines)]


def _cells(scores, others):
    """Words about the default against each of the others."""
    tests = [paired(scores[DEFAULT].to_numpy(), scores[m].to_numpy()) for m in others]
    corrected = holm([test.p for test in tests])
    return [
        f"{number(test.difference, 1, 100)} ({number(test.standard_error, 1, 100)}), "
        f"{test.won} of {test.n}, {probability(test.p)} ({probability(p)})"
        for test, p in zip(tests, corrected, strict=True)
    ]
