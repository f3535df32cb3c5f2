r"""HSIC of ranks at several widths: what one pass computes for every feature.

A feature is replaced by functions of its ranks (`dhsic.linalg.rank_basis`), labels by a few
directions (`dhsic.criteria.label_functions`). For each feature there is one table

    ``C[r, s] = phi_r . b_s``,  (R, S),

and HSIC at a width h of the features and a width k of the labels is a reweighting of its squares,
``sum_rs lambda_r(h) mu_s(k) C[r, s]^2 / m``. Features without ties are permutations of the same
values, so they share one law under independence; features with ties have that of their pattern
(`dhsic.criteria.patterns`), in mean, variance and skewness of all permutations.

Features of two or three values (genotypes) have two functions: the value itself, and what is left
of three levels, such as dominance.

Samples whose value is missing are left out of the feature: the others are spread evenly over the
places of all, and the labels of the missing ones count as 0 once those of the others are centred.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.criteria.features import Features, Levels
from dhsic.criteria.label_functions import LabelDirections
from dhsic.criteria.leveled import LevelForms
from dhsic.criteria.null import NullOf
from dhsic.criteria.patterns import PatternSums
from dhsic.criteria.rank_law import Calibration, TailTable, WidthLaw, combined
from dhsic.criteria.rare import FEW, OTHERS, Carriers, RareLaw, carriers_of
from dhsic.linalg.covariates import regained
from dhsic.linalg.rank_basis import N_FUNCTIONS, rank_basis, width_weights
from dhsic.linalg.symmetric import LowRankSymmetric

#: Widths of the kernel on ranks, as parts of their range, and the share of each in the combination:
#: the widest kernel is a straight line.
WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
SHARES = np.array([0.6, 0.15, 0.08, 0.07, 0.05, 0.05])
#: The same for features of three values: the value itself, and all differences between levels.
LEVEL_WIDTHS = (1.0, 1 / 8)
LEVEL_SHARES = np.array([0.75, 0.25])
#: Levels of which more than these are merged, next to next, for the law of a pattern; and for that
#: of features without ties.
MOST_LEVELS, MOST_UNTIED = 64, 1024
#: Numbers that are gathered at once.
AT_ONCE = 1 << 20
#: Part of ``||C|| ||A||`` below which HSIC of permutations does not vary.
SAME = 1e-9
#: Shapes of a dependence, by number.
SHAPES = np.array(["", "linear", "monotone", "turning"], dtype=object)
#: Z^2 from which on a function takes part in the shape, and part of a curve that may go back.
PART_OF_SHAPE, GOES_BACK = 6.0, 0.1
#: Held by the thread that draws a law: others ask for the same one.
_DRAWING = threading.Lock()


@dataclass(frozen=True, eq=False)
class WidthFamily:
    """Kernels at several widths on features of one kind, and laws and shares of each with labels.

    `weights` (n, R) are of the functions; `laws` (n K) and `shares` (n K,) are in the order of
    widths for the first label matrix, then for the next.
    """

    widths: Float
    weights: Float
    laws: tuple[WidthLaw, ...]
    shares: Float
    calibration: Calibration

    @staticmethod
    def of(
        widths: tuple[float, ...], shares: Float, n_functions: int, labels: LabelDirections
    ) -> WidthFamily:
        """For features of so many functions."""
        weights = np.array([width_weights(h, n_functions) for h in widths])
        if n_functions == 1:
            widths, weights, shares = widths[:1], weights[:1], np.ones(1)
        each = labels.matrices
        laws = tuple(WidthLaw.of(row, C) for C in each for row in weights)
        both = np.multiply.outer(labels.shares, shares).ravel()
        calibration = Calibration.of(weights, each, laws, both)
        return WidthFamily(np.array(widths), weights, laws, both, calibration)


@dataclass(frozen=True, eq=False)
class Moments3:
    """Mean, deviation and skewness of HSIC at each width and label matrix, (n, K, c)."""

    mean: Float
    spread: Float
    skewness: Float


@dataclass(frozen=True, eq=False)
class Multiscale:
    """Labels that are permuted, with all that scoring a feature asks of them."""

    labels: LabelDirections
    Q: Float  # (m, p), orthonormal basis of ``[1, covariates]``
    nulls: tuple[NullOf, ...]
    ranks: WidthFamily  # of features of many values
    levels: WidthFamily  # of three values
    single: WidthFamily  # of two values
    #: Laws of variants that few samples carry, made where they are asked for.
    laws: dict[tuple[int, Carriers], RareLaw | None] = field(default_factory=dict)

    @staticmethod
    def of(labels: LabelDirections, Q: Float) -> Multiscale:
        """From the directions of labels."""
        m = len(labels.B)
        R = len(rank_basis(m, N_FUNCTIONS))
        return Multiscale(
            labels,
            Q,
            tuple(NullOf.of(C) for C in labels.matrices),
            WidthFamily.of(WIDTHS, SHARES, R, labels),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 2, labels),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 1, labels),
        )

    @property
    def n_samples(self) -> int:
        return len(self.labels.B)

    @property
    def has_covariates(self) -> bool:
        return self.Q.shape[1] > 1

    @property
    def K(self) -> int:
        """Label matrices."""
        return len(self.labels.mu)

    @cached_property
    def matrices(self) -> tuple[LowRankSymmetric, ...]:
        return self.labels.matrices

    @cached_property
    def diagonals(self) -> Float:
        """Of the label matrices, (m, K)."""
        return np.square(self.labels.B) @ self.labels.mu.T

    @cached_property
    def directions(self) -> Float:
        """What sums over levels are taken of: B, diagonals, and Q where there are covariates."""
        Q = self.Q[:, : self.Q.shape[1] if self.has_covariates else 0]
        return np.concatenate([self.labels.B, self.diagonals, Q], axis=1)

    @cached_property
    def basis(self) -> Float:
        """Functions of ranks, (R, m) float32: products with them are sums of thousands of terms."""
        return rank_basis(self.n_samples, N_FUNCTIONS).astype(np.float32)

    @cached_property
    def untied(self) -> PatternSums:
        """Of a feature without ties, (1, n, ...)."""
        edges = np.linspace(0, self.n_samples, min(self.n_samples, MOST_UNTIED) + 1).astype(int)
        functions, counts = self._functions_between(edges[None])
        return PatternSums.of(functions, counts, self.ranks.weights)

    @cached_property
    def untied_tables(self) -> tuple[TailTable, ...]:
        """Laws of features without ties, by deviation alone."""
        skewness = self.moments(self.untied).skewness[..., 0]  # (n, K)
        by_law = zip(self.ranks.laws, skewness.T.ravel(), strict=True)
        return tuple(law.tabulated(float(skew)) for law, skew in by_law)

    @cached_property
    def _cumulated(self) -> Float:
        """Sums of the functions over the places before each, (R, m + 1)."""
        basis = rank_basis(self.n_samples, N_FUNCTIONS)
        return np.concatenate([np.zeros((len(basis), 1)), np.cumsum(basis, axis=1)], axis=1)

    def _functions_between(self, edges: Index) -> tuple[Float, Float]:
        """Means of the functions between edges (c, q + 1), (c, R, q), and places there, (c, q)."""
        counts = np.diff(edges, axis=1)
        sums = np.diff(self._cumulated[:, edges], axis=2).transpose(1, 0, 2)
        return sums / np.maximum(counts, 1)[:, None, :], counts.astype(np.float64)

    def moments(self, sums: PatternSums) -> Moments3:
        """Moments under independence for each label matrix."""
        found = [null.moments(sums.trace, sums.second, sums.third) for null in self.nulls]
        mean, variance, skewness = (
            np.stack([np.asarray(getattr(each, name)).T for each in found], axis=1)
            for name in ("mean", "variance", "skewness")
        )  # (n, K, c)
        return Moments3(mean, np.sqrt(variance), skewness)

    def label_scales(self, diagonal: Float, totals: Float, n: Float) -> tuple[Float, Float]:
        """Trace of the label matrices among the samples present over that of all; and what T lacks.

        Parameters
        ----------
        diagonal : (c, K)
            Sums of the diagonals over the missing samples.
        totals : (c, S)
            Sums of the directions over the samples present.
        n : (c,)
            Samples present.
        """
        whole = self.diagonals.sum(axis=0)
        lost = np.square(totals) @ self.labels.mu.T / np.maximum(n, 1)[:, None]
        part = (whole - diagonal - lost) / whole
        return np.maximum(part, 1e-6).T, part.T  # (K, c)


@dataclass(frozen=True, eq=False)
class Scores:
    """What the test says of c features, (c,) each."""

    log_p: Float
    hsic: Float
    width: Float
    shape: Float

    @staticmethod
    def empty(c: int) -> Scores:
        return Scores(*(np.zeros(c) for _ in range(4)))

    def put(self, which: Index, other: Scores) -> None:
        """Take over those of some features."""
        for name in ("log_p", "hsic", "width", "shape"):
            getattr(self, name)[which] = getattr(other, name)


def scores_of(state: Multiscale, features: Features, place: slice) -> Scores:
    """Scores of all features of a tile; its directions are at `place` among those of all runs."""
    if features.coded is not None:
        return _of_levels(state, features.coded, place)
    X, missing = features.X, features.missing
    found = Scores.empty(len(X))
    height = max(1, AT_ONCE // (state.n_samples * state.labels.B.shape[1]))
    for a in range(0, len(X), height):
        some = slice(a, min(a + height, len(X)))
        mask = None if missing is None else missing[some]
        block = _Block.of(state, X[some], mask, height)
        found.put(np.arange(some.start, some.stop), block.scores())
    return found


@dataclass(frozen=True, eq=False)
class _Block:
    """Some features, in order.

    `order` (c, m) has their samples by ascending value, missing ones last; `starts` (c, m) says
    where a level begins, and `n` (c,) how many samples are present.
    """

    state: Multiscale
    X: Float
    missing: Array | None
    order: Index
    starts: Array
    n: Index
    height: int

    @staticmethod
    def of(state: Multiscale, X: Float, missing: Array | None, height: int) -> _Block:
        order, starts, n = sorted_levels(X, missing)
        return _Block(state, X, missing, order, starts, n, height)

    def scores(self) -> Scores:
        """Those of features of two or three values go by their levels."""
        n_levels = self.starts.sum(axis=1)
        found = Scores.empty(len(self.X))
        few = np.flatnonzero(n_levels <= 3)
        if few.size:
            found.put(few, _of_levels(self.state, self._levels(few)))
        many = np.flatnonzero(n_levels > 3)
        if many.size:
            found.put(many, self._of_ranks(many, n_levels[many]))
        return found

    def _levels(self, which: Index) -> Levels:
        """Features of few values as levels, with sums of all directions over each."""
        D, at = self.state.directions, np.zeros((which.size, 3, self.X.shape[1]))
        values = np.zeros((3, which.size))
        for i, j in enumerate(which.tolist()):
            begins = np.append(np.flatnonzero(self.starts[j]), self.n[j])
            for q, (a, b) in enumerate(pairwise(begins)):
                at[i, q, self.order[j, a:b]] = 1.0
                values[q, i] = self.X[j, self.order[j, a]]
        along = (at.reshape(-1, at.shape[2]) @ D).reshape(which.size, 3, -1)
        counts = at.sum(axis=2)
        absent = D.sum(axis=0) - along.sum(axis=1)
        n_absent = self.X.shape[1] - counts.sum(axis=1)
        return Levels(np.arange(which.size), values, counts, along, counts, absent, n_absent)

    def _of_ranks(self, which: Index, n_levels: Index) -> Scores:
        """Those of many values."""
        state, m = self.state, self.state.n_samples
        tied = n_levels < self.n[which]
        table, part = self._table(which, tied)
        squares = np.square(table)  # (c, R, S)
        per_function = squares @ state.labels.mu.T  # (c, R, K)
        T = np.einsum("nr,crk->nkc", state.ranks.weights, per_function) / m
        moments = state.moments(state.untied)
        explained = self._explained(which) if state.has_covariates else None
        if explained is not None:
            edges = np.linspace(0, m, min(m, MOST_LEVELS) + 1).astype(int)
            functions, counts = state._functions_between(edges[None])
            c = which.size
            own = PatternSums.of(
                np.broadcast_to(functions, (c, *functions.shape[1:])),
                np.broadcast_to(counts, (c, counts.shape[1])),
                state.ranks.weights,
                explained,
            )
            moments = state.moments(own)
        elif tied.any():
            moments = Moments3(
                *(np.repeat(each, which.size, axis=2) for each in (
                    moments.mean, moments.spread, moments.skewness))
            )  # fmt: skip
        if tied.any():
            self._set_tied(moments, which, np.flatnonzero(tied), explained)
        log_p = self._log_p(T, moments, part, shared=explained is None and not tied.any())
        if explained is None and tied.any() and not tied.all():
            free = np.flatnonzero(~tied)
            own = state.moments(state.untied)
            log_p[..., free] = self._log_p(T[..., free], own, part[..., free], shared=True)
        concentration = _concentration(state, moments, which.size)
        return _combined(
            state, state.ranks, log_p, T, moments, part, concentration, table, state.basis
        )

    def _log_p(self, T: Float, moments: Moments3, part: Float, *, shared: bool) -> Float:
        """Logarithms of p-values at each width and label matrix, (n, K, c)."""
        return _tails(
            self.state, self.state.ranks, T, moments, part,
            self.state.untied_tables if shared else None,
        )  # fmt: skip

    def _gathered(self, which: Index, tied: Array, D: Float) -> tuple[Float, Float]:
        """Directions D (m, k) by ascending value of the features, (k, c, m), and their sums (c, k).

        Means over ties; 0 for missing samples, which are spread evenly.
        """
        order, n = self.order[which], self.n[which]
        m = order.shape[1]
        G = np.ascontiguousarray(D.T)[:, order]  # (k, c, m)
        totals = np.zeros((which.size, D.shape[1]))
        absent = n < m
        if absent.any():
            some = np.flatnonzero(absent)
            there = np.arange(m) < n[some, None]
            G[:, some] *= there
            totals[some] = G[:, some].sum(axis=2).T
            G[:, some] -= (totals[some].T / n[some])[:, :, None] * there
        if tied.any():
            some = np.flatnonzero(tied)
            starts = self.starts[which[some]].copy()
            rows = np.arange(some.size)
            behind = n[some] < m
            starts[rows[behind], n[some][behind]] = True  # the missing ones are a run of their own
            begins = np.flatnonzero(starts.ravel())
            sizes = np.diff(np.append(begins, starts.size))
            flat = G[:, some].reshape(len(G), -1)
            means = np.add.reduceat(flat, begins, axis=1) / sizes
            G[:, some] = np.repeat(means, sizes, axis=1).reshape(len(G), some.size, m)
        for j in np.flatnonzero(absent).tolist():
            spread = np.zeros((len(G), m))
            spread[:, _places(int(n[j]), m)] = G[:, j, : n[j]]
            G[:, j] = spread
        return G, totals

    def _table(self, which: Index, tied: Array) -> tuple[Float, Float]:
        """C (c, R, S), and the part of the labels that is among the samples present, (K, c)."""
        state = self.state
        m, S = state.n_samples, state.labels.B.shape[1]
        G, totals = self._gathered(which, tied, state.labels.B)
        # All products are of as many rows, the last ones too, for the same bits wherever a feature
        # stands among others.
        whole = np.zeros((S, self.height, m), dtype=np.float32)
        whole[:, : which.size] = G
        products = (whole.reshape(-1, m) @ state.basis.T).reshape(S, self.height, -1)
        table = products[:, : which.size].transpose(1, 2, 0).astype(np.float64)
        part = np.ones((state.K, which.size))
        if self.missing is not None and (self.n[which] < m).any():
            lost = self.missing[which].astype(np.float64) @ state.diagonals
            part = state.label_scales(lost, totals, self.n[which])[0]
        return table, part

    def _explained(self, which: Index) -> Float:
        """Products of functions and the covariates' basis over ``sqrt(m)``, (c, R, p)."""
        state = self.state
        none = np.zeros(which.size, dtype=bool)
        tied = self.starts[which].sum(axis=1) < self.n[which]
        G, _ = self._gathered(which, tied if tied.any() else none, state.Q)
        found = G.transpose(1, 0, 2) @ rank_basis(state.n_samples, N_FUNCTIONS).T
        return np.asarray(found.transpose(0, 2, 1) / np.sqrt(state.n_samples))

    def _set_tied(
        self, moments: Moments3, which: Index, tied: Index, explained: Float | None
    ) -> None:
        """Fill in moments of features with ties, some of the same number of levels at a time."""
        state, m = self.state, self.state.n_samples
        edges = [self._edges(int(j)) for j in which[tied]]
        sizes = np.array([1 << int(np.ceil(np.log2(len(e) - 1))) for e in edges])
        for size in np.unique(sizes).tolist():
            some = np.flatnonzero(sizes == size)
            padded = np.full((some.size, size + 1), m)
            for i, k in enumerate(some.tolist()):
                padded[i, : len(edges[k])] = edges[k]
            functions, counts = state._functions_between(padded)
            at = tied[some]
            of_some = None if explained is None else explained[at]
            sums = PatternSums.of(functions, counts, state.ranks.weights, of_some)
            own = state.moments(sums)
            for name in ("mean", "spread", "skewness"):
                getattr(moments, name)[..., at] = getattr(own, name)

    def _edges(self, j: int) -> Index:
        """Where levels of a feature begin among the places of all samples, at most 64 of them."""
        m, n = self.state.n_samples, int(self.n[j])
        begins = np.append(np.flatnonzero(self.starts[j]), n)
        if len(begins) - 1 > MOST_LEVELS:
            # Of levels that begin in the same 64th of the places the first is the edge.
            cell = begins[:-1] * MOST_LEVELS // n
            begins = np.append(begins[:-1][np.append(True, np.diff(cell) > 0)], n)
        return begins if n == m else begins * m // n


def _places(n: int, m: int) -> Index:
    """Places of n samples among m, spread evenly."""
    return ((np.arange(n) + 0.5) * m / n).astype(np.int64)


def sorted_levels(X: Float, missing: Array | None) -> tuple[Index, Array, Index]:
    """Samples by ascending value, where levels begin, and samples present: (c, m), (c, m), (c,).

    Values are sorted with the number of their sample in place of their last digits, one sort of
    integers: what differs by less than some 1e-11 of its size is tied. Missing samples come last.
    """
    c, m = X.shape
    n_bits = max(1, int(m - 1).bit_length())
    keys = (X + 0.0).view(np.int64)  # + 0.0: there is no negative zero
    keys ^= (keys >> 63) & np.iinfo(np.int64).max  # negative numbers descend by their bits
    keys >>= n_bits
    keys <<= n_bits
    if missing is not None:
        keys[missing] = np.iinfo(np.int64).max >> n_bits << n_bits
    keys |= np.arange(m)
    keys.sort(axis=1)
    order = keys & ((1 << n_bits) - 1)
    keys >>= n_bits
    starts = np.ones((c, m), dtype=bool)
    np.not_equal(keys[:, 1:], keys[:, :-1], out=starts[:, 1:])
    n = np.full(c, m)
    if missing is not None:
        n = m - missing.sum(axis=1)
        starts &= np.arange(m) < n[:, None]
    return order, starts, n


def _tails(
    state: Multiscale,
    family: WidthFamily,
    T: Float,
    moments: Moments3,
    part: Float,
    tables: tuple[TailTable, ...] | None,
) -> Float:
    """Logarithms of p-values, (n, K, c): 0 where HSIC of permutations does not vary."""
    times = regained(state.Q)
    spread = moments.spread * part * times
    varies = spread > SAME * np.abs(moments.mean * part)
    z = np.zeros_like(T)
    np.divide(T - moments.mean * part * times, spread, out=z, where=varies)
    found, n = np.zeros_like(T), len(family.weights)
    skewness = np.broadcast_to(moments.skewness, T.shape)
    for k in range(state.K):
        for w in range(n):
            number = k * n + w
            found[w, k] = (
                family.laws[number].log_p(z[w, k], skewness[w, k])
                if tables is None
                else tables[number](z[w, k])
            )
    return np.where(varies, found, 0.0)


def _concentration(state: Multiscale, moments: Moments3, c: int) -> Float:
    """How much the laws at different widths differ, over features without ties: 0 to 1, (c,)."""
    free = state.moments(state.untied).skewness[:, 0, 0]
    span = free[0] - free[-1]
    skewness = np.broadcast_to(moments.skewness, (*moments.skewness.shape[:2], c))[:, 0]
    return np.clip((skewness[0] - skewness[-1]) / span, 0.0, 1.0) if span > 0 else np.zeros(c)


def _combined(
    state: Multiscale,
    family: WidthFamily,
    log_p: Float,
    T: Float,
    moments: Moments3,
    part: Float,
    concentration: Float,
    table: Float,
    curve: Float,
) -> Scores:
    """Scores from p-values at all widths (n, K, c)."""
    n, K, c = log_p.shape
    by_law = log_p.transpose(1, 0, 2).reshape(n * K, c)
    together = combined(by_law, family.shares)
    of_one = state.single.calibration.log_ratio(together)
    ratio = of_one + concentration * (family.calibration.log_ratio(together) - of_one)
    together = np.minimum(together + ratio, 0.0)
    best = np.argmin(by_law, axis=0)
    at_k, at_w = best // n, best % n
    every = np.arange(c)
    mean = np.broadcast_to(moments.mean, T.shape) * part
    excess = (T - mean)[at_w, at_k, every]
    m = state.n_samples
    hsic = excess / (m - 1)
    return Scores(together, hsic, family.widths[at_w], shapes_of(table, state.labels.mu, curve))


def shapes_of(table: Float, mu: Float, curve: Float) -> Float:
    """Shape of each dependence by number in `SHAPES`, (c,).

    Of the label direction that says most, the functions that stand out make a curve: a straight
    line, one that goes up or down throughout, or one that turns.

    Parameters
    ----------
    table : (c, R, S)
        C of each feature.
    mu : (K, S)
        Weights of the directions.
    curve : (R, n)
        The functions at ascending ranks; empty where the first alone is monotone.
    """
    size = np.square(table)
    size = size / np.maximum(size.mean(axis=(1, 2), keepdims=True), np.finfo(float).tiny)
    weighted = np.square(table) * mu[0]
    s = weighted.sum(axis=1).argmax(axis=1)
    own = np.take_along_axis(table, s[:, None, None], axis=2)[..., 0]  # (c, R)
    z2 = np.square(own)
    kept = np.where(z2 > PART_OF_SHAPE, own, 0.0)
    leading = z2.argmax(axis=1)
    every = np.arange(len(own))
    kept[every, leading] = own[every, leading]
    is_line = (np.count_nonzero(kept, axis=1) == 1) & (leading == 0)
    places = np.linspace(0, curve.shape[1] - 1, 49).astype(int)
    steps = np.diff(kept @ curve[:, places], axis=1)
    up, down = np.maximum(steps, 0).sum(axis=1), np.maximum(-steps, 0).sum(axis=1)
    turns = np.minimum(up, down) > GOES_BACK * np.maximum(up, down)
    return np.where(is_line, 1.0, np.where(turns, 3.0, 2.0))


def _of_levels(state: Multiscale, some: Levels, place: slice | None = None) -> Scores:
    """Scores of features of two or three values by sums over their levels."""
    along = some.along if place is None else some.along[..., place]
    absent = None if some.absent is None else (
        some.absent if place is None else some.absent[..., place]
    )  # fmt: skip
    counts, values = some.counts, some.values.T
    found = Scores.empty(len(counts))
    n = counts.sum(axis=1)
    has_three = (counts > FEW).all(axis=1) & (counts.shape[1] == 3)
    for family, which in ((state.single, ~has_three), (state.levels, has_three)):
        at = np.flatnonzero(which)
        if at.size:
            lost = None if absent is None else absent[at]
            found.put(at, _by_level(state, family, counts[at], values[at], along[at], lost, n[at]))
    return found


def level_functions(counts: Float, values: Float, n_functions: int) -> Float:
    """Orthonormal functions of levels (c, q): the value, and what is left of three, (c, R, q)."""
    n = counts.sum(axis=1, keepdims=True)
    first = values - np.vecdot(counts, values)[:, None] / n
    size = np.sqrt(np.vecdot(counts, first * first)[:, None] / n)
    first = np.divide(first, size, out=np.zeros_like(first), where=size > 0)
    if n_functions == 1:
        return np.asarray(first[:, None])
    second = np.square(first)
    second -= np.vecdot(counts, second)[:, None] / n
    second -= first * np.vecdot(counts, second * first)[:, None] / n
    size = np.sqrt(np.vecdot(counts, second * second)[:, None] / n)
    second = np.divide(second, size, out=np.zeros_like(second), where=size > 0)
    return np.stack([first, second], axis=1)


def _by_level(
    state: Multiscale,
    family: WidthFamily,
    counts: Float,
    values: Float,
    along: Float,
    absent: Float | None,
    n: Float,
) -> Scores:
    """Scores of features of as many functions each."""
    m, S, K = state.n_samples, state.labels.B.shape[1], state.K
    functions = level_functions(counts, values, family.weights.shape[1])
    U = along[..., :S]
    totals, part = U.sum(axis=1), np.ones((K, len(counts)))
    if absent is not None:
        U = U - (counts / n[:, None])[..., None] * totals[:, None]
        part = state.label_scales(absent[:, S : S + K], totals, n)[0]
    table = functions @ U * np.sqrt(m / n)[:, None, None]
    T = np.einsum("nr,crk->nkc", family.weights, np.square(table) @ state.labels.mu.T) / m
    explained = None
    if state.has_covariates:
        explained = functions @ along[..., S + K + 1 :] / np.sqrt(n)[:, None, None]
    sums = PatternSums.of(functions, counts, family.weights, explained)
    moments = state.moments(sums)
    log_p = _tails(state, family, T, moments, part, None)
    if len(family.weights) == 1:
        _set_rare(state, log_p, T, moments, part, counts)
    concentration = np.full(len(counts), 0.0 if len(family.weights) == 1 else 1.0)
    line = np.zeros((functions.shape[1], 2))
    line[:, 1] = [1.0, *([0.0] * (functions.shape[1] - 1))]
    found = _combined(state, family, log_p, T, moments, part, concentration, table, line)
    return Scores(found.log_p, found.hsic, found.width, _level_shapes(functions, table))


def _level_shapes(functions: Float, table: Float) -> Float:
    """Shapes of features of two or three levels, by number, (c,)."""
    if functions.shape[1] == 1:
        return np.ones(len(functions))
    s = np.square(table).sum(axis=1).argmax(axis=1)
    own = np.take_along_axis(table, s[:, None, None], axis=2)[..., 0]  # (c, 2)
    curve = np.einsum("cr,crq->cq", own, functions)
    steps = np.diff(curve, axis=1)
    turns = steps[:, 0] * steps[:, 1] < 0
    is_line = np.square(own[:, 1]) <= PART_OF_SHAPE
    return np.where(is_line, 1.0, np.where(turns, 3.0, 2.0))


def _set_rare(
    state: Multiscale, log_p: Float, T: Float, moments: Moments3, part: Float, counts: Float
) -> None:
    """Fill in p-values of variants that few samples carry, by the law of as many carriers."""
    q = counts.shape[1]
    padded = np.zeros((len(counts), 4))
    padded[:, :q] = counts
    carriers = carriers_of(padded)
    rare = np.flatnonzero((carriers[:, 1:].sum(axis=1) <= FEW) & (moments.spread[0, 0] > 0))
    kinds, of_kind = np.unique(carriers[rare], axis=0, return_inverse=True)
    for number, kind in enumerate(kinds.tolist()):
        these = rare[of_kind.ravel() == number]
        for k in range(state.K):
            law = _rare_law(state, k, tuple(kind))
            z = (T - moments.mean * part)[0, k, these] / (moments.spread * part)[0, k, these]
            log_p[0, k, these] = 0.0 if law is None else law.log_p(z)


def _rare_law(state: Multiscale, k: int, carriers: Carriers) -> RareLaw | None:
    """Law of variants of so many carriers with the labels' matrix k."""
    with _DRAWING:
        if (k, carriers) not in state.laws:
            code, *numbers = carriers
            counts = np.array([[state.n_samples - sum(numbers), *numbers]], dtype=np.float64)
            values = np.array([OTHERS[code]], dtype=np.float64)
            f = level_functions(counts, values, 1)[:, 0]
            kappa = f[:, :, None] * f[:, None, :] / state.n_samples
            forms = LevelForms(counts, kappa, np.zeros_like(f))
            state.laws[k, carriers] = RareLaw.by(state.matrices[k], state.nulls[k], numbers, forms)
    return state.laws[k, carriers]
