"""Cells of the experiments: one method on one set, all folds of it, in a process of its own.

What a fold selects is filed, and so is what each judge says of it: a cell that was stopped goes on
with the next fold, and experiments that ask the same of the same samples share the answer.
"""

import time
from dataclasses import dataclass
from functools import cache as remember
from functools import cached_property
from pathlib import Path

import numpy as np

from . import protocols
from .cache import checksum, version_of
from .experiments import Experiment
from .methods import METHODS
from .part import Part
from .sets import SETS

#: Runs on drawn data that may take as long as a fold.
RUNS_A_FOLD = 10


@remember
def read(name, folder, most_samples=None):
    """The set of a name; `folder` is that of real data, None where there is none."""
    return SETS[name].read(name, folder).at_most(most_samples)


@dataclass(frozen=True)
class Cell:
    """One method on one set of an experiment."""

    experiment: Experiment
    dataset: str
    method: str
    folder: Path | None

    @property
    def data(self):
        return read(self.dataset, self.folder, self.experiment.most_samples)

    @property
    def size(self):
        return self.data.X.size

    @property
    def takes(self):
        return METHODS[self.method].takes(self.data)

    @property
    def versions(self):
        return METHODS[self.method].versions

    @cached_property
    def tasks(self):
        return self.experiment.tasks_of(self.method, self.data.X.shape[1])

    @cached_property
    def folds(self):
        """(training samples, test samples, samples that are ranked)."""
        everyone = np.arange(len(self.data.y))
        return [
            (train, test, everyone if self.experiment.before else train)
            for train, test in self.experiment.folds.of(self.data)
        ]

    @property
    def n_steps(self):
        """Steps of a run."""
        return self.experiment.folds.total

    #: How many times as long as a fold a step may take.
    folds_a_step = 1

    def run(self, cache):
        """File what is not filed yet, a fold a step."""
        for train, test, ranked in self.folds:
            yield
            found = self._selection(cache, ranked)
            for judge, counts in self.tasks[1]:
                key, versions = self._of_score(ranked, train, judge, counts)
                if cache.read(key, versions) is None:
                    order = np.array(found["order"], dtype=int)
                    scores = judge.scores(self.data, train, test, order, counts)
                    cache.write(key, versions, scores)

    def rows(self, cache):
        """Records of every fold, judge and number of features; None where one is missing."""
        rows = []
        for i, (train, _, ranked) in enumerate(self.folds):
            found = cache.read(self._of_selection(ranked), self.versions)
            if found is None:
                return None
            for judge, counts in self.tasks[1]:
                scores = cache.read(*self._of_score(ranked, train, judge, counts))
                if scores is None:
                    return None
                rows += [
                    {
                        "fold": i,
                        "judge": judge.name,
                        "selected": k,
                        "score": score,
                        "seconds": found["seconds"],
                        "order": found["order"][:k],
                    }
                    for k, score in zip(counts, scores, strict=True)
                ]
        return rows

    def failure_key(self):
        """Of how the cell ended, where it did not end well."""
        folds = self.experiment.folds
        return {
            **self._of_selection(np.arange(len(self.data.y))),
            "folds": [folds.number, folds.repeats, self.experiment.before],
            "judges": [judge.identity for judge, _ in self.tasks[1]],
        }

    def _of_selection(self, ranked):
        """Key of what is selected from some samples."""
        return {
            "data": self.data.checksum,
            "samples": checksum(ranked),
            "wanted": self.tasks[0],
            **METHODS[self.method].identity,
        }

    def _of_score(self, ranked, train, judge, counts):
        """(key, versions) of the scores by a judge."""
        key = {
            **self._of_selection(ranked),
            "judge": judge.identity,
            "counts": list(counts),
            "training": checksum(train),
        }
        return key, self.versions | judge.versions

    def _selection(self, cache, ranked):
        """What the method selects from some samples: filed, or found now."""
        key = self._of_selection(ranked)
        found = cache.read(key, self.versions)
        if found is None:
            X, y = self.data.X[ranked], self.data.y[ranked]
            start = time.process_time()
            order = METHODS[self.method].order(X, y, key["wanted"])
            seconds = time.process_time() - start
            found = {"order": [int(j) for j in order], "seconds": seconds}
            cache.write(key, self.versions, found)
        return found


@dataclass(frozen=True)
class Drawn:
    """One method on one kind of drawn data: the median rank of what is relevant, run after run."""

    protocol: protocols.Protocol
    world: protocols.World
    method: str

    takes = True
    size = 0

    @property
    def dataset(self):
        return self.world.title

    @property
    def versions(self):
        return {name: version_of(name) for name in ("dhsic", "scikit-learn", "skrebate", "numpy")}

    @property
    def n_steps(self):
        return len(self.protocol.samples)

    @property
    def folds_a_step(self):
        return max(1, self.protocol.runs // RUNS_A_FOLD)

    def run(self, cache):
        for m in self.protocol.samples:
            yield
            if cache.read(self._key(m), self.versions) is None:
                runs = range(self.protocol.runs)
                ranks = [protocols.median_rank(self.world, m, i, self.method) for i in runs]
                cache.write(self._key(m), self.versions, ranks)

    def rows(self, cache):
        rows = []
        for m in self.protocol.samples:
            ranks = cache.read(self._key(m), self.versions)
            if ranks is None:
                return None
            rows += [
                {"samples": m, "fold": i, "judge": "median rank", "score": rank}
                for i, rank in enumerate(ranks)
            ]
        return rows

    def failure_key(self):
        return self._key(list(self.protocol.samples))

    def _key(self, m):
        runs = self.protocol.runs
        return {"world": self.world.title, "samples": m, "runs": runs, "method": self.method}


def cells_of(experiment, folder):
    """Every method on every set of an experiment."""
    if isinstance(experiment, Part):
        return experiment.cells()
    if isinstance(experiment, protocols.Protocol):
        worlds = experiment.worlds
        return [Drawn(experiment, world, method) for world in worlds for method in world.methods]
    names, methods = experiment.sets, experiment.all_methods
    return [Cell(experiment, name, method, folder) for name in names for method in methods]
