"""A step that workers do in the tests of faults: slow, and its last bits depend on its order."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from dhsic.runtime.base import AbstractStep, Job, Site


@dataclass(frozen=True)
class Grams(AbstractStep):
    """Sums of products over blocks, taken away from the values before; a part is a row of it."""

    seconds: float = 0.05

    def of(self, source, job, state):
        time.sleep(self.seconds)
        X = source.read(job.blocks[0])
        return X.astype(np.float64) @ (X.T @ state)

    def add(self, left, right):
        left += right
        return left

    def finish(self, value, total, told, state, each):
        value = total if value is None else value - total
        return value, value[told].copy()

    def join(self, left, right):
        left += right
        return left


def row_of(value, told, state):
    """A row of a value."""
    return value[told] * state


def walk(runtime, source, sites, states, between=lambda number: None):
    """Parts of a step for each state, and what is asked at the end; faults come in between."""
    held, parts = None, []
    for number, state in enumerate(states):
        held, part = runtime.update(held, Grams(), source, sites, state)
        parts.append(part)
        between(number)
    asked = runtime.query(held, row_of, [site.told + 1 for site in sites], 2.0)
    return np.stack([*parts, *asked])


def sites_of(source, width, n):
    """So many sites, of neighbouring blocks each."""
    blocks = source.blocks(width)
    each = len(blocks) // n
    return [Site(tuple(Job((b,)) for b in blocks[i * each : (i + 1) * each]), i) for i in range(n)]
