"""The last features of Algorithm 1, ranked again: each given the others, by ridge regression.

HSIC of the features that are left judges a feature by its part in one kernel matrix, where many
that say the same are all good. `dhsic.algorithms.ridge` judges what one adds to the others, from
inner products alone, which one pass over a few thousand features gives at any number of samples.
Its penalty follows from how much of the labels all features explain, before any has left.

Of real labels it is regression of y itself (JMLR 6.6): by the directions of a Gaussian kernel on
labels it predicts worse. Orders are compared by the label kernel of the run, which sees more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.algorithms.ridge import Explained, ridge_order, ridge_penalty, unexplained
from dhsic.algorithms.state import SelectionState
from dhsic.errors import InputError
from dhsic.hsic import checked_factored_weights
from dhsic.kernels.labels import FEW_DIRECTIONS, LabelMatrix
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.passes.inner import AT_ONCE, ProductsWithLabels, inner_products
from dhsic.passes.landmarks import SLICE
from dhsic.passes.reader import AbstractReader
from dhsic.results.schema import Order, ranking
from dhsic.sources import AbstractSource

#: Features that are ranked again, at most, and their values that one task reads.
MOST, ENTRIES = 2048, 1 << 24
#: Samples that two orders are compared on, at most.
SAMPLES = 512
#: Part of the largest label by which equal ones differ.
ROUNDING = 1e-12
#: As many times as many features say how much of the labels all explain, side by side in so many
#: places.
WIDER, PLACES = 4, 64

#: Part of labels that features tell, at least, for it to say whether they are classes or numbers;
#: and part of what they tell of the number that they tell of classes.
TOLD, AS_MUCH = 0.02, 0.5

ALONE = "rank by HSIC of all that were left, as the feature left"
FALL = "by how much HSIC with the ridge kernel falls without the feature, given those left"


def most_again(m: int) -> int:
    """Features that are ranked again, at most."""
    return max(1, min(MOST, ENTRIES // min(m, 2 * SLICE)))


@dataclass(frozen=True)
class Reranking:
    """What ranking some features again takes: `features` (n,) ascending.

    `inner` (n, n) and `along` (n, q) are of `dhsic.algorithms.ridge`; `values` (n, s) and `labels`
    (s, q) those of the samples that orders are compared on. `noise` is the part of the labels that
    all features leave unexplained, `always` whether ridge regression counts whatever it explains.
    """

    features: Index
    inner: Float
    along: Float
    values: Float
    labels: Float
    n_samples: int
    noise: float
    always: bool

    @staticmethod
    def of(
        data: AbstractReader,
        features: Index,
        W: LowRankSymmetric,
        of_y: LowRankSymmetric,
        seed: int,
        *,
        noise: float,
        always: bool,
    ) -> Reranking:
        """Read them; the weights of the biased estimator are W, and `of_y` with y as it is."""
        m, samples, U = data.n_samples, compared_samples(data.n_samples, seed), _root(of_y)
        inner, found = read_again(data, features, ProductsWithLabels(U, samples))
        along, values = np.split(found, [U.shape[1]], axis=1)
        labels = _centred(_root(W)[samples])
        return Reranking(features, inner, along, values, labels, m, noise, always)

    def scaled(self) -> Reranking:
        """With features of unit deviation."""
        scale = np.sqrt(self.n_samples / np.diagonal(self.inner))
        return replace(
            self,
            inner=self.inner * scale * scale[:, None],
            along=self.along * scale[:, None],
            values=self.values * scale[:, None],
        )

    def ranked(self, order: Order, constant: Mask) -> Order:
        """The order with these features in that of ridge regression, where it explains as much.

        `constant` (d,) are features that no order has.
        """
        n = self.features.size
        before = np.searchsorted(self.features, order.features[-n:])
        penalty = ridge_penalty(self.noise)
        after, falls = ridge_order(self.inner, self.along, penalty, self.n_samples)
        found = Explained.of(self.values.T, self.labels, before[::-1], after[::-1])
        is_taken = self.always or not found.is_worse
        told = {
            "given_others": n if is_taken else 0,
            "explained_alone": found.alone,
            "explained_given_others": found.given_others,
            "explained_by_all": 1.0 - self.noise,
            "ridge_penalty": penalty,
        }
        fallen = np.full(constant.size, np.nan)
        fallen[self.features[after]] = falls
        alone = ranking(np.concatenate([np.flatnonzero(constant), order.features]))
        places = np.arange(order.features.size)
        if is_taken:
            places[-n:] = places[-n:][np.argsort(before)[after]]
        beside = {"rank_alone": (alone, ALONE), "fall_given_others": (fallen, FALL)}
        return order.at(places, told, **beside)


class RerankingTarget(NamedTuple):
    """Labels that the last features are ranked again by.

    `of_y` are the weights with y as it is, `noise` the part of it that all features leave.
    """

    labels: LabelMatrix
    of_y: LowRankSymmetric
    noise: float

    @staticmethod
    def of(
        data: AbstractReader, labels: LabelMatrix, covariates: Array | None, seed: int
    ) -> RerankingTarget:
        """Labels, by what features tell of them before any has left.

        Whole numbers that may be either are classes where features tell about as much of the
        classes as of the number, and numbers where they tell clearly more of that: a class of its
        own for each age is not told by anything.
        """
        readings = labels.readings
        each = [checked_factored_weights(L.linear.factor(), "biased", covariates) for L in readings]
        noise = noise_of(data, each, seed)
        chosen = 0
        if len(readings) > 1:
            _, of_classes, of_numbers = (1.0 - part for part in noise)
            if max(of_classes, of_numbers) > TOLD:
                chosen = 1 if of_classes >= AS_MUCH * of_numbers else 2
        return RerankingTarget(readings[chosen], each[chosen], noise[chosen])


def noise_of(data: AbstractReader, each: Sequence[LowRankSymmetric], seed: int) -> list[float]:
    """Part of each of some labels that features leave unexplained: of all, or of many of them.

    Read before any has left: those that are left were chosen by these labels, and would explain
    them whatever they are.
    """
    samples, everyone = compared_samples(data.n_samples, seed), data.alive
    most = WIDER * most_again(data.n_samples)
    if everyone.size > most:
        width = most // PLACES
        starts = np.linspace(0, everyone.size - width, PLACES).astype(np.int64)
        everyone = everyone[np.unique(starts[:, None] + np.arange(width))]
    nothing = np.empty((data.n_samples, 0))
    beside = data.apart()  # no round has read it
    values = beside.scores(ProductsWithLabels(nothing, samples), beside.jobs(everyone))
    return [unexplained(values.T, _centred(_root(of_y)[samples])) for of_y in each]


def compared_samples(m: int, seed: int) -> Index:
    """Samples that orders are compared on, ascending."""
    return np.sort(np.random.default_rng(seed).permutation(m)[:SAMPLES])


def _centred(U: Float) -> Float:
    """Labels of mean 0, and 0 where they do not vary."""
    centred = np.asarray(U - U.mean(axis=0))
    centred[:, np.ptp(U, axis=0) <= ROUNDING * np.abs(U).max()] = 0.0
    return centred


def _root(W: LowRankSymmetric) -> Float:
    """U of ``W = U U'``, (m, q)."""
    if W.weights.min(initial=0.0) < 0:
        raise InputError(
            "The label matrix is not positive semidefinite, and given_others=True takes it for "
            "inner products of labels; leave it out."
        )
    return np.asarray(W.F * np.sqrt(W.weights))


def read_again(
    data: AbstractReader, features: Index, along: ProductsWithLabels
) -> tuple[Float, Float]:
    """Inner products of features, and what is `along` them: the passes that it takes."""
    found = data.scores(along, data.jobs(features))
    return inner_products(data, features), found


def ranked_again(state: SelectionState, most: int) -> Index:
    """Features left at the start of the first round that had at most so many, ascending."""
    everyone = np.concatenate([state.eliminated, state.survivors])
    sizes = [int(record["n_features"]) for record in state.history]
    n = next((size for size in sizes if size <= most), state.survivors.size)
    return np.sort(everyone[everyone.size - n :])


def bytes_again(n: int, m: int) -> int:
    """Bytes kept to rank n features again; doing it takes less than tasks, which have ended.

    Or, before, of the values that say how much all explain.
    """
    s = min(SAMPLES, m)
    return 8 * n * max(n + s + FEW_DIRECTIONS, WIDER * s)


def bytes_read_again(n: int, m: int, source: AbstractSource) -> int:
    """Bytes of the task that reads them."""
    stored = n * min(m, 2 * SLICE) * np.dtype(source.dtype).itemsize
    return int(stored + 8 * n * (2 * n + AT_ONCE))
