"""Joint re-ranking of the last features of Algorithm 1 by ridge regression.

HSIC scores each remaining feature by its contribution to one kernel matrix, so redundant features
all get high scores. `dhsic.algorithms.ridge` scores a feature by its contribution in addition to
the other features. It needs only inner products of features, which one pass over a few thousand
features computes for any number of samples. The ridge penalty is determined by the fraction of the
labels' variance that all features explain before any is eliminated.

For real-valued labels, ridge regression uses y itself (JMLR 6.6), because the eigenvectors of a
Gaussian label kernel predict worse. Orders are compared by the label kernel of the run, which also
detects nonlinear dependence.
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

#: Maximum number of re-ranked features, and of feature values that one task reads.
MOST, ENTRIES = 2048, 1 << 24
#: Maximum number of samples on which two orders are compared.
SAMPLES = 512
#: Spread of labels, relative to the largest, below which they count as equal.
ROUNDING = 1e-12
#: The explained fraction of the labels is estimated on at most `WIDER` times the number of
#: re-ranked features, taken from `PLACES` ranges of neighbouring features in the data.
WIDER, PLACES = 4, 64

#: Minimum explained fraction of the labels to choose between classes and numbers; and minimum ratio
#: of the explained fractions, classes to numbers, for labels to be treated as classes.
TOLD, AS_MUCH = 0.02, 0.5

ALONE = "rank by HSIC alone (Algorithm 1), before the joint re-ranking"
FALL = (
    "decrease of HSIC with the ridge kernel if the feature is removed from the remaining features"
)


def most_again(m: int) -> int:
    """Largest number of features that are re-ranked, for m samples."""
    return max(1, min(MOST, ENTRIES // min(m, 2 * SLICE)))


@dataclass(frozen=True)
class Reranking:
    """Inputs of the joint re-ranking of `features` (n,), which are in ascending order.

    `inner` (n, n) are inner products of the features, and `along` (n, q) their inner products with
    q label directions, see `dhsic.algorithms.ridge`. `values` (n, s) and `labels` (s, q) are values
    and label directions on the s samples on which orders are compared. `noise` is the fraction of
    the labels that all features of the data leave unexplained. With `always`, the ridge order is
    used even if it explains less.
    """

    features: Index
    inner: Float
    along: Float
    values: Float
    labels: Float
    n_samples: int
    noise: float
    always: bool
    #: Candidate of each feature, (n,), if candidates are columns with several indicators.
    members: Index | None = None

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
        """Read the inputs from the data.

        W is the factored (m, m) matrix of biased label weights, which is used to compare orders.
        `of_y` is the matrix for ridge regression, see `RerankingTarget`.
        """
        m, samples, U = data.n_samples, compared_samples(data.n_samples, seed), _root(of_y)
        inner, products = read_again(data, features, ProductsWithLabels(U, samples))
        along, values = np.split(products, [U.shape[1]], axis=1)
        labels = _centred(_root(W)[samples])
        return Reranking(features, inner, along, values, labels, m, noise, always)

    def scaled(self) -> Reranking:
        """Return a copy with features scaled to unit standard deviation."""
        scale = np.sqrt(self.n_samples / np.diagonal(self.inner))
        return replace(
            self,
            inner=self.inner * scale * scale[:, None],
            along=self.along * scale[:, None],
            values=self.values * scale[:, None],
        )

    def ranked(self, order: Order, constant: Mask) -> Order:
        """Put the best features of an order in ridge order, if that explains the labels no worse.

        `order` has the best feature last. `constant` (d,) marks constant features, which are in no
        order.
        """
        candidates, codes = self.features, None
        if self.members is not None:
            candidates, codes = np.unique(self.members, return_inverse=True)
        n = candidates.size
        before = np.searchsorted(candidates, order.features[-n:])
        penalty = ridge_penalty(self.noise)
        after, falls = ridge_order(self.inner, self.along, penalty, self.n_samples, codes)
        orders = before[::-1], after[::-1]
        explained = Explained.of(self.values.T, self.labels, *orders, codes)
        is_taken = self.always or not explained.is_worse
        attributes = {
            "given_others": n if is_taken else 0,
            "explained_alone": explained.alone,
            "explained_given_others": explained.given_others,
            "explained_by_all": 1.0 - self.noise,
            "ridge_penalty": penalty,
        }
        fallen = np.full(constant.size, np.nan)
        fallen[candidates[after]] = falls
        alone = ranking(np.concatenate([np.flatnonzero(constant), order.features]))
        places = np.arange(order.features.size)
        if is_taken:
            places[-n:] = places[-n:][np.argsort(before)[after]]
        beside = {"rank_alone": (alone, ALONE), "fall_given_others": (fallen, FALL)}
        return order.at(places, attributes, **beside)


class RerankingTarget(NamedTuple):
    """Labels for the joint re-ranking.

    `labels` is the label matrix, as classes or numbers. `of_y` is the factored (m, m) matrix of
    label weights for ridge regression; for numbers, it is the matrix of y itself. `noise` is the
    fraction of these weights that all features leave unexplained.
    """

    labels: LabelMatrix
    of_y: LowRankSymmetric
    noise: float

    @staticmethod
    def of(
        data: AbstractReader, labels: LabelMatrix, covariates: Array | None, seed: int
    ) -> RerankingTarget:
        """Decide whether whole-number labels are classes or numbers, before any elimination.

        They are numbers if features explain clearly more of the number than of the classes, and
        classes otherwise. Features explain almost nothing of many classes, such as one class per
        year of age.
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
    """Fraction of each of several label matrices that all features leave unexplained.

    The fractions are estimated before any feature is eliminated, on a sample of the features if
    there are many. Later, the remaining features would seem to explain any labels, because they
    were chosen with these labels.
    """
    samples, everyone = compared_samples(data.n_samples, seed), data.alive
    most = WIDER * most_again(data.n_samples)
    if everyone.size > most:
        width = most // PLACES
        starts = np.linspace(0, everyone.size - width, PLACES).astype(np.int64)
        everyone = everyone[np.unique(starts[:, None] + np.arange(width))]
    nothing = np.empty((data.n_samples, 0))
    beside = data.copy_unread()  # separate from the readers of rounds
    values = beside.scores(ProductsWithLabels(nothing, samples), beside.jobs(everyone))
    return [unexplained(values.T, _centred(_root(of_y)[samples])) for of_y in each]


def compared_samples(m: int, seed: int) -> Index:
    """Random samples on which orders are compared, (s,), ascending."""
    return np.sort(np.random.default_rng(seed).permutation(m)[:SAMPLES])


def _centred(U: Float) -> Float:
    """Centre the columns of U; columns that do not vary become 0."""
    centred = np.asarray(U - U.mean(axis=0))
    centred[:, np.ptp(U, axis=0) <= ROUNDING * np.abs(U).max()] = 0.0
    return centred


def _root(W: LowRankSymmetric) -> Float:
    """Factor U (m, q) of label weights ``W = U U'``.

    Raises an error if W is not positive semidefinite.
    """
    if W.weights.min(initial=0.0) < 0:
        raise InputError(
            "rerank=True needs a positive semidefinite label matrix, and this one is not; leave it "
            "out."
        )
    return np.asarray(W.F * np.sqrt(W.weights))


def read_again(
    data: AbstractReader, features: Index, along: ProductsWithLabels
) -> tuple[Float, Float]:
    """Read n features; return their inner products (n, n), and the result of the pass `along`."""
    products = data.scores(along, data.jobs(features))
    return inner_products(data, features), products


def ranked_again(state: SelectionState, most: int) -> Index:
    """Positions of the features in the first round with at most `most` features, ascending."""
    everyone = np.concatenate([state.eliminated, state.survivors])
    sizes = [int(record["n_features"]) for record in state.history]
    n = next((size for size in sizes if size <= most), state.survivors.size)
    return np.sort(everyone[everyone.size - n :])


def bytes_again(n: int, m: int) -> int:
    """Memory of the inputs for re-ranking n features with m samples, in bytes.

    The inputs include the values that are used to estimate the fraction explained by all features.
    The re-ranking itself needs less memory than earlier tasks.
    """
    s = min(SAMPLES, m)
    return 8 * n * max(n + s + FEW_DIRECTIONS, WIDER * s)


def bytes_read_again(n: int, m: int, source: AbstractSource) -> int:
    """Memory of the task that reads the features to re-rank, in bytes."""
    stored = n * min(m, 2 * SLICE) * np.dtype(source.dtype).itemsize
    return int(stored + 8 * n * (2 * n + AT_ONCE))
