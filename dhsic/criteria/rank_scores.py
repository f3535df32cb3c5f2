r"""Scores of features with many values by functions of their ranks, at several widths.

Values are sorted once; labels are gathered in this order and multiplied by the functions, which are
the same for all features. All features without ties have the same null distribution of HSIC; for
other features it follows from their pattern of ties (`dhsic.criteria.patterns`).

Samples with a missing value are excluded for this feature: the ranks of the other samples are
spread evenly over the ranks of all samples, their labels are centred, and the labels of missing
samples are set to 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.criteria.features import Features, Levels
from dhsic.criteria.hazard_spread import spread_ratios
from dhsic.criteria.level_scores import scores_of_levels
from dhsic.criteria.multiscale import (
    AT_ONCE,
    MOST_LEVELS,
    FeatureScores,
    Multiscale,
    WidthMoments,
    combined_scores,
    concentration_of,
    shapes_of,
    tails,
)
from dhsic.criteria.patterns import PatternSums
from dhsic.criteria.rare import FEW

#: Products of features without ties have a multiple of this number of rows: kernels of matrix
#: products treat a smaller rest of rows differently.
ROWS = 8


def scores_of(state: Multiscale, features: Features, place: slice) -> FeatureScores:
    """Compute the scores of all features of a tile.

    `place` is the range of columns of `features.directions` that are the directions of `state`.
    """
    if features.coded is not None:
        return scores_of_levels(state, features.coded, place, features.variance_ratios)
    X, missing, ratios = features.X, features.missing, features.variance_ratios
    scores = FeatureScores.empty(len(X))
    height = max(1, AT_ONCE // (state.n_samples * state.labels.B.shape[1]))
    for a in range(0, len(X), height):
        batch = slice(a, min(a + height, len(X)))
        mask = None if missing is None else missing[batch]
        of_batch = None if ratios is None else ratios[batch]
        block = OrderedBlock.of(state, X[batch], mask, height, of_batch)
        scores.put(np.arange(batch.start, batch.stop), block.scores())
    return scores


@dataclass(frozen=True, eq=False)
class OrderedBlock:
    """Features with their samples in order of value.

    `order` (c, m) are the samples of each feature by ascending value, missing ones last. `starts`
    (c, m) is the mask of positions at which a level begins. `n` (c,) is the number of samples with
    a value. `variance_ratios` are as in `Features`. `tie_sums` are computed when needed. Copies of
    a block for other labels of the same samples and covariates share them.
    """

    state: Multiscale
    X: Float
    missing: Array | None
    order: Index
    starts: Array
    n: Index
    height: int
    variance_ratios: Float | None = None
    #: Sums over kernel matrices of features with ties, with the positions of these features.
    tie_sums: list[tuple[Index, PatternSums]] = field(default_factory=list)

    @staticmethod
    def of(
        state: Multiscale,
        X: Float,
        missing: Array | None,
        height: int,
        variance_ratios: Float | None = None,
    ) -> OrderedBlock:
        order, starts, n = sorted_levels(X, missing)
        return OrderedBlock(state, X, missing, order, starts, n, height, variance_ratios)

    def scores(self) -> FeatureScores:
        """Compute the scores of all features.

        Features with two or three values, or with few carriers, are scored by their levels.
        """
        n_levels = self.starts.sum(axis=1)
        scores = FeatureScores.empty(len(self.X))
        few = n_levels <= 3
        for j in np.flatnonzero((n_levels > 3) & (n_levels <= FEW + 1)).tolist():
            few[j] = self.n[j] - self._sizes(j).max() <= FEW
        if few.any():
            which = np.flatnonzero(few)
            ratios = None if self.variance_ratios is None else self.variance_ratios[which]
            scores.put(which, scores_of_levels(self.state, self._levels(which), None, ratios))
        if not few.all():
            which = np.flatnonzero(~few)
            scores.put(which, self._of_ranks(which, n_levels[which] < self.n[which]))
        return scores

    def _sizes(self, j: int) -> Index:
        """Numbers of samples at the levels of feature j, (q,)."""
        begins = np.flatnonzero(self.starts[j])
        return np.diff(np.append(begins, self.n[j]))

    def _levels(self, which: Index) -> Levels:
        """Levels (two or three) of the features `which`, with sums of all directions.

        If a feature has more values, all of them except the most frequent one are rare, and are
        merged into one level.
        """
        D = self.state.directions
        values, counts = np.zeros((3, which.size)), np.zeros((which.size, 3))
        along = np.zeros((which.size, 3, D.shape[1]))
        for i, j in enumerate(which.tolist()):
            begins, sizes = np.flatnonzero(self.starts[j]), self._sizes(j)
            order = self.order[j, : self.n[j]]
            sums = np.add.reduceat(D[order], begins, axis=0)
            if sizes.size <= 3:
                q = slice(0, sizes.size)
                values[q, i], counts[i, q], along[i, q] = self.X[j, order[begins]], sizes, sums
            else:
                common = int(sizes.argmax())
                values[1, i] = 1.0
                counts[i, :2] = sizes[common], self.n[j] - sizes[common]
                along[i, :2] = sums[common], sums.sum(axis=0) - sums[common]
        absent = D.sum(axis=0) - along.sum(axis=1)
        n_absent = len(D) - counts.sum(axis=1)
        rare = np.flatnonzero((counts.sum(axis=1) - counts.max(axis=1) <= FEW) & (n_absent > 0))
        common = counts[rare].argmax(axis=1)  # as in `missing_as_commonest`
        counts[rare, common] += n_absent[rare]
        along[rare, common] += absent[rare]
        absent[rare] = 0.0
        return Levels(np.arange(which.size), values, counts, along, counts, absent)

    def _of_ranks(self, which: Index, tied: Array) -> FeatureScores:
        """Scores of features `which` with many values; the mask `tied` marks ties."""
        state, family = self.state, self.state.ranks
        table, part = self._table(which, tied)
        per_function = np.square(table) @ state.labels.mu.T  # (c, R, K)
        T = np.einsum("nr,crk->nkc", family.weights, per_function) / state.n_samples
        explained = self._explained(which, tied) if state.has_covariates else None
        moments = self._moments(which, tied, explained).scaled(part)
        if state.hazards is not None:
            moments = moments.spread_by(self._spread_ratios(which, tied, state.hazards))
        has_table = explained is None and state.hazards is None
        free = np.flatnonzero(~tied) if has_table else np.empty(0, dtype=np.int64)
        log_p = np.empty_like(T)
        if free.size:
            log_p[..., free] = tails(
                state, family, T[..., free], moments.take(free), state.untied_tables
            )
        others_at = np.setdiff1d(np.arange(which.size), free, assume_unique=True)
        log_p[..., others_at] = tails(state, family, T[..., others_at], moments.take(others_at))
        concentration = concentration_of(state, moments)
        shape = shapes_of(table, state.labels.mu, state.basis)
        return combined_scores(state, family, log_p, T, moments, concentration, shape)

    def _moments(self, which: Index, tied: Array, explained: Float | None) -> WidthMoments:
        """Moments of HSIC under independence, over all samples, (n, K, c).

        There are n kernel widths, K label matrices and c features. `explained` are the products of
        `_explained`; None without covariates.
        """
        state = self.state
        if tied.all():
            moments = WidthMoments.empty(len(state.ranks.weights), state.K, which.size)
        elif explained is None:
            moments = state.moments(state.untied).repeated(which.size)
        else:
            moments = state.moments(state.untied.without(explained, state.ranks.weights))
        if tied.any():
            self._set_tied(moments, which, np.flatnonzero(tied), explained)
        return moments

    def _table(self, which: Index, tied: Array) -> tuple[Float, Float]:
        """Compute the tables C (c, R, S) of products of rank functions and label directions.

        Also returns the fractions (K, c) of the labels' variance in samples with a value, for K
        label matrices.
        """
        state, m = self.state, self.state.n_samples
        table, totals = self._products(which, tied, state.labels.B)
        if self.variance_ratios is not None and state.covariance is not None:
            # The first function follows the values, and so their relatedness; others hardly do.
            table[:, :1] /= np.sqrt(state.covariance.ratios(self.variance_ratios[which, :1]))
        part = np.ones((state.K, which.size))
        if self.missing is not None and (self.n[which] < m).any():
            lost = self.missing[which].astype(np.float64) @ state.diagonals
            part = state.label_parts(lost, totals, self.n[which].astype(np.float64))
        return table, part

    def _spread_ratios(self, which: Index, tied: Array, hazards: Float) -> Float:
        """Ratios of the variance of HSIC to its variance under permutations, (n, c).

        `hazards` (m, 1) are as in `Multiscale`.
        """
        m = self.state.n_samples
        c = self._products(which, tied, hazards)[0][..., 0] / m
        noise = float(np.square(hazards).sum()) / (m * (m - 1))
        return spread_ratios(c, noise, self.state.ranks.weights)

    def _explained(self, which: Index, tied: Array) -> Float:
        """Products of rank functions with the covariate basis, over ``sqrt(m)``, (c, R, p)."""
        Q = self.state.Q - self.state.Q.mean(axis=0)
        return np.asarray(self._products(which, tied, Q)[0] / np.sqrt(self.state.n_samples))

    def _products(self, which: Index, tied: Array, D: Float) -> tuple[Float, Float]:
        """Products (c, R, k) of rank functions with directions D (m, k), and sums of D, (c, k).

        The directions are centred over the samples with a value; the sums are over these samples.
        """
        table = np.empty((which.size, len(self.state.basis), D.shape[1]))
        totals = np.zeros((which.size, D.shape[1]))
        free = np.flatnonzero(~tied)
        if free.size:
            table[free], totals[free] = self._untied_products(which[free], D)
        for i in np.flatnonzero(tied).tolist():
            table[i], totals[i] = self._tied_products(int(which[i]), D)
        return table, totals

    def _untied_products(self, which: Index, D: Float) -> tuple[Float, Float]:
        """Compute `_products` for features without ties, all at once.

        Samples with a value are spread evenly over the ranks; other samples are 0. All products
        have the same number of rows, a multiple of `ROWS`, so the bits of a feature do not depend
        on its position. (Products in float32 are faster, but on some processors their bits depend
        on the position.)
        """
        order, n, m = self.order[which], self.n[which], self.order.shape[1]
        k, c = D.shape[1], which.size
        stacked = np.zeros((-(-k * self.height // ROWS) * ROWS, m))
        G = stacked[: k * self.height].reshape(k, self.height, m)
        for of_direction, direction in zip(G, np.ascontiguousarray(D.T), strict=True):
            np.take(direction, order, out=of_direction[:c], mode="clip")  # no copy of the output
        totals = np.zeros((c, k))
        for j in np.flatnonzero(n < m).tolist():
            present = G[:, j, : n[j]].copy()
            totals[j] = present.sum(axis=1)
            G[:, j] = 0.0
            G[:, j, _places(int(n[j]), m)] = present - (totals[j] / n[j])[:, None]
        products = (stacked @ self.state.basis.T)[: k * self.height].reshape(k, self.height, -1)
        return products[:, :c].transpose(1, 2, 0), totals

    def _tied_products(self, j: int, D: Float) -> tuple[Float, Float]:
        """Compute `_products` for feature j with ties, (R, k) and (k,), from sums over its levels.

        Sums over the largest level, such as the zeros of counts, are computed from the other sums.
        """
        n, m = int(self.n[j]), self.order.shape[1]
        order, begins = self.order[j, :n], np.flatnonzero(self.starts[j, :n])
        sizes = np.diff(np.append(begins, n))
        largest = int(sizes.argmax()) if n == m else -1
        U = np.zeros((sizes.size, D.shape[1]))
        if largest < 0:
            U[:] = np.add.reduceat(D[order], begins, axis=0)
        else:
            end = begins[largest] + sizes[largest]
            rows = D[np.concatenate([order[: begins[largest]], order[end:]])]
            first = np.delete(begins, largest)
            first[largest:] -= sizes[largest]
            not_largest = np.arange(sizes.size) != largest
            U[not_largest] = np.add.reduceat(rows, first, axis=0)
            U[largest] = -U[not_largest].sum(axis=0)
        totals = U.sum(axis=0)
        U -= (sizes / n)[:, None] * totals
        edges = np.append(begins, n) * m // n
        functions, _ = self.state.functions_between(edges[None])
        return functions[0] @ U, totals

    def _set_tied(
        self, moments: WidthMoments, which: Index, tied: Index, explained: Float | None
    ) -> None:
        """Set the `moments` of features with ties, at the positions `tied` of `which`, in place."""
        if not self.tie_sums:
            self.tie_sums.extend(self._sums_of_ties(which, tied, explained))
        for at, sums in self.tie_sums:
            own = self.state.moments(sums)
            for name in ("mean", "spread", "skewness"):
                getattr(moments, name)[..., at] = getattr(own, name)

    def _sums_of_ties(
        self, which: Index, tied: Index, explained: Float | None
    ) -> Iterator[tuple[Index, PatternSums]]:
        """Yield positions and `PatternSums` of features with ties.

        Features with similar numbers of levels are processed together. The sums depend on the ties
        and the covariates, but not on the labels.
        """
        state, m = self.state, self.state.n_samples
        edges = [self._edges(int(j)) for j in which[tied]]
        sizes = np.array([1 << int(np.ceil(np.log2(len(e) - 1))) for e in edges])
        for size in np.unique(sizes).tolist():
            same_size = np.flatnonzero(sizes == size)
            padded = np.full((same_size.size, size + 1), m)
            for i, k in enumerate(same_size.tolist()):
                padded[i, : len(edges[k])] = edges[k]
            functions, counts = state.functions_between(padded)
            at = tied[same_size]
            sums = PatternSums.of(functions, counts, state.ranks.weights)
            if explained is not None:
                sums = sums.without(explained[at], state.ranks.weights)
            yield at, sums

    def _edges(self, j: int) -> Index:
        """Ranks at which the levels of feature j begin and end, for at most 64 levels."""
        m, n = self.state.n_samples, int(self.n[j])
        begins = np.append(np.flatnonzero(self.starts[j]), n)
        if len(begins) - 1 > MOST_LEVELS:
            # Levels that begin in the same 64th of the ranks are merged.
            cell = begins[:-1] * MOST_LEVELS // n
            begins = np.append(begins[:-1][np.append(True, np.diff(cell) > 0)], n)
        return begins if n == m else begins * m // n


def _places(n: int, m: int) -> Index:
    """Positions of n ranks, spread evenly over m ranks, (n,)."""
    return ((np.arange(n) + 0.5) * m / n).astype(np.int64)


def sorted_levels(X: Float, missing: Array | None) -> tuple[Index, Array, Index]:
    """Sort the samples of each feature X (c, m) by value, missing ones last.

    Returns sample indices in this order (c, m), a mask of the starts of levels (c, m), and the
    numbers of samples with a value (c,). Values are sorted as integers that contain the sample
    number in their last digits. Values with a relative difference of less than about 1e-11 are
    therefore ties.
    """
    c, m = X.shape
    n_bits = max(1, int(m - 1).bit_length())
    keys = (X + 0.0).view(np.int64)  # + 0.0 converts negative zeros
    keys ^= (keys >> 63) & np.iinfo(np.int64).max  # bits of negative numbers are descending
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
