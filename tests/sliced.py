"""Rounds of low rank over slices of data that are at hand: for tests of `dhsic.lowrank.slices`."""

from dataclasses import replace

import numpy as np

from dhsic.kernels.dot import Linear
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank import Landmarks, Spectral
from dhsic.lowrank.base import BaseRows
from dhsic.lowrank.directions import Along, HeldForms, Lead, gram, lead, leading, weigh
from dhsic.lowrank.slices import (
    LINEAR,
    Slice,
    SlicedRound,
    add_sums,
    factor,
    fit_directions,
    rows_of,
)


def joined(parts):
    """Rows of all slices, one after the other."""

    def of(name):
        return np.concatenate([getattr(part, name) for part in parts])

    sums = None if parts[0].sums is None else of("sums")
    return LowRankSymmetric(of("F"), parts[0].weights, of("diagonal"), sums=sums)


class Sliced:
    """A round on X (m, d), W (m, q) and landmarks: rows `fit` make factors, `check` check them.

    Other samples may be landmarks too, `beside`, which a round may take for its check rows.
    """

    def __init__(self, X, W, kernel, sigma, fit, check, *, edges=(), rank=32, beside=()):
        self.W, self.m = W, len(X)
        rows = np.unique(np.concatenate([fit, check, beside]).astype(int))
        inner, norms = X[rows] @ X.T, (X**2).sum(axis=1)
        sums = np.concatenate([inner, W.F.T @ X @ X.T])
        cuts = [slice(a, b) for a, b in zip((0, *edges), (*edges, self.m), strict=True)]
        every = np.arange(self.m)

        def part(s):
            return Slice(every[s], sums[:, s], norms[s], rows_of(W, s))

        self.slices, self.block = [part(s) for s in cuts], part(rows)
        at = np.searchsorted(rows, fit)
        some = Landmarks(inner[at][:, rows], norms[rows], at)

        def extension(kernel, base):
            found, _ = Spectral(rank).extension(BaseRows(kernel, sigma, some, base), self.m, 0)
            return replace(found, used=at[found.used])

        terms = kernel.expansion(kernel.exact_order or 1, sigma).terms
        bases = tuple(sorted({term.base for term in terms}))
        extensions = {base: extension(kernel, base) for base in {0, *bases}}
        if kernel.has_bandwidth:
            extensions[LINEAR] = extension(Linear(), None)
        check = np.searchsorted(rows, check)
        self.rows = rows
        turning = check[:3]
        given = kernel, sigma, rows, norms[rows], check, extensions, bases
        self.asked = SlicedRound(*given, turning, rows_of(W, rows[turning]))
        self.of_differences = kernel.power_series(kernel.exact_order or 1, sigma).of_differences

    def step(self, function, state):
        done = [function(known, state) for known in self.slices]
        self.slices = [known for known, _ in done]
        self.block = function(self.block, state)[0]
        total = done[0][1]
        for _, sums in done[1:]:
            total = add_sums(total, sums)
        return total

    def ask(self, question, state):
        return [question(known, state) for known in self.slices]

    def fit(self):
        """Directions that are kept; and all that was said of them."""
        sums = self.step(factor, self.asked)
        return fit_directions(self.asked, self.block, sums, self.m), sums

    def lead(self, found, *, tolerance=1e-4, most=None, multiplied=0):
        mix, T = leading(found, self.step(gram, found), self.W, tolerance, most)
        core = {base: np.diag(values) for base, values in T.items()}
        along = Along(found, core, self.of_differences)
        return along, self.step(lead, Lead(along, mix, multiplied))

    def home(self, along, basis=None, even=None):
        """A of each base, of all samples."""
        held = HeldForms.of_round(along, basis or {}, even or {}, self.m)
        parts = [held.of(known) for known in self.slices]
        return {base: joined([part[base] for part in parts]) for base in along.core}

    def weigh(self, along, X, check=None):
        """What slices say of A along directions and of features X; check rows may be others."""
        if check is not None:
            asked = replace(along.fitted.asked, check=np.searchsorted(self.rows, check))
            along = replace(along, fitted=replace(along.fitted, asked=asked))
        self.slices = [replace(known, X=X[:, known.samples]) for known in self.slices]
        self.block = replace(self.block, X=X[:, self.rows])
        along = replace(along.from_checks(self.block), sampled=np.arange(len(X)))
        return along, self.step(weigh, along)

    def joined(self, name, base):
        return np.concatenate([getattr(known, name)[base] for known in self.slices])
