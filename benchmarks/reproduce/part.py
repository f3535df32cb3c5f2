"""Parts of the evidence on shapes: settings, methods, seeds, and one measurement for each.

A measurement is a cell as `running.Run` wants it: filed seed by seed, each within its time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from .cache import version_of
from .shape_methods import PACKAGES


@dataclass(frozen=True)
class Part:
    """One table of the evidence.

    Attributes
    ----------
    title : str
        For people.
    settings : dict
        What is drawn, by name.
    methods : dict
        What is compared, by name.
    measure : callable
        (setting, method, seed) to a record of numbers, JSON.
    tables : callable
        Rows of all measurements (data frame) to paragraphs.
    seeds : int
        Measurements of each method in each setting.
    patience : int
        Limits of processor time that one measurement may take.
    quick_settings : callable
        Name of a setting to whether a quick run measures it.
    quick_seeds : int
        Seeds of a quick run.
    """

    title: str
    settings: dict
    methods: dict
    measure: Callable
    tables: Callable
    seeds: int
    patience: int = 5
    quick_settings: Callable = bool
    quick_seeds: int = 2

    def quick(self):
        """Few seeds in the settings that are small."""
        few = {name: one for name, one in self.settings.items() if self.quick_settings(name)}
        return replace(self, settings=few, seeds=self.quick_seeds)

    def cells(self):
        return [
            Measurement(self, name, method) for name in self.settings for method in self.methods
        ]


@dataclass(frozen=True)
class Measurement:
    """One method in one setting of a part, for all seeds."""

    part: Part
    dataset: str
    method: str

    takes = True
    size = 0

    @property
    def versions(self):
        packages = PACKAGES.get(self.method, ("scikit-learn",))
        return {name: version_of(name) for name in (*packages, "numpy")}

    @property
    def n_steps(self):
        return self.part.seeds

    @property
    def folds_a_step(self):
        return self.part.patience

    def run(self, cache):
        """File the seeds that are not filed yet, one a step."""
        part = self.part
        setting, method = part.settings[self.dataset], part.methods[self.method]
        for seed in range(part.seeds):
            yield
            if cache.read(self._key(seed), self.versions) is None:
                cache.write(self._key(seed), self.versions, part.measure(setting, method, seed))

    def rows(self, cache):
        """One record for each seed; None where one is missing."""
        found = [cache.read(self._key(seed), self.versions) for seed in range(self.part.seeds)]
        if any(one is None for one in found):
            return None
        return [{"fold": seed, **one} for seed, one in enumerate(found)]

    def failure_key(self):
        return self._key("all")

    def _key(self, seed):
        return {
            "part": self.part.title,
            "setting": self.dataset,
            "method": self.method,
            "seed": seed,
        }
