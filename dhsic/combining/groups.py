r"""Groups of features with a kernel matrix each, ranked by Algorithms 1 and 2.

Pathways, chromosomes, sensors, or kinds of data that share no columns (expression, sequence,
images): any kernel of any library, computed beforehand. ``K(S)`` is the sum or the product of the
``K_g``, g in S.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from dhsic._typing import Float
from dhsic.combining.labelled import label_weights
from dhsic.combining.product import ProductDependence
from dhsic.combining.ranking import Ranking
from dhsic.errors import InputError
from dhsic.given import as_numbers
from dhsic.selection.bahsic import bahsic
from dhsic.selection.fohsic import fohsic
from dhsic.selection.policies import check_step
from dhsic.selection.state import begin

COMBINATIONS = ("sum", "product")
STRATEGIES = ("backward", "forward")


def rank_kernels(
    kernels: Sequence[Any],
    y: Any,
    *,
    names: Sequence[str] | None = None,
    combine: str = "sum",
    strategy: str = "backward",
    step: float | int = 1,
    label_kernel: str = "auto",
    estimator: str = "unbiased",
    covariates: Any = None,
) -> Ranking:
    r"""Groups of features, one precomputed kernel each, by dependence on y (JMLR 4.1, 4.2).

    A sum of kernels asks of each group what it tells alone: HSIC is ``sum_g <W, K_g>``, one pass
    ranks all groups, and forward and backward selection agree (JMLR 5.1.1). A product, as the
    Gaussian kernel of all features is one, asks what a group tells beside others: two groups that
    matter only together are found, backwards. Scale kernels alike before: divide each by its
    trace, or by its mean.

    Parameters
    ----------
    kernels : sequence of n (m, m) arrays
        ``K_g``, symmetric, for the same samples in the same order.
    y : (m,) or (m, t) array
        Labels; see `dhsic.kernels.labels.label_matrix`.
    names : sequence of n str, optional
        Of the groups; "0", "1", ... by default.
    combine : {"sum", "product"}
        How ``K(S)`` is made of the ``K_g``; elementwise.
    strategy : {"backward", "forward"}
        Algorithm 1 (BAHSIC) or 2 (FOHSIC); makes no difference to a sum.
    step : float or int
        Groups a round, a fraction of those left or a count; makes no difference to a sum.
    label_kernel : str
        Kernel on the labels.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Linear effects to project out of the labels.

    Returns
    -------
    Ranking
        Scores are ``<W, K_g>`` for a sum; for a product, by how much HSIC falls without the group
        (forward: rises with it), in the round in which it was decided on.

    Raises
    ------
    InputError
        Kernels, labels or parameters that do not fit, or that do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.datasets import binary_xor
    >>> data = binary_xor(100, n_noise=2)
    >>> kernels = [np.exp(-np.subtract.outer(x, x) ** 2) for x in data.X.T]
    >>> found = rank_kernels(kernels, data.y, names=["a", "b", "c", "d"], combine="product")
    >>> sorted(found.names[g] for g in found.order[:2])
    ['a', 'b']
    """
    _check_choice("combine", combine, COMBINATIONS)
    _check_choice("strategy", strategy, STRATEGIES)
    step = check_step(step)
    matrices = _checked(kernels)
    named = _names(names, len(matrices))
    W = label_weights(len(matrices[0]), y, label_kernel, estimator, covariates)
    if combine == "sum":
        return Ranking.of_scores(named, np.array([float(np.vdot(W, K)) for K in matrices]))
    return _of_product(ProductDependence(W, matrices), named, strategy, step)


def _of_product(
    dependence: ProductDependence, names: list[str], strategy: str, step: float | int
) -> Ranking:
    state = begin(np.arange(len(names)))
    rounds = (
        bahsic(dependence, state, step)
        if strategy == "backward"
        else fohsic(dependence, state, step, len(names))
    )
    (end,) = deque(rounds, maxlen=1)
    scores = np.empty(len(names))
    scores[end.eliminated] = end.scores
    order = end.eliminated[::-1] if strategy == "backward" else end.eliminated
    return Ranking.of_order(names, scores, order, end.history)


def _check_choice(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{what}={value!r} is unknown; pass {' or '.join(map(repr, known))}.")


def _checked(kernels: Sequence[Any]) -> list[Float]:
    """The matrices in float64; refuse what is no kernel of the same samples."""
    matrices = [as_numbers(K, f"kernel {g}") for g, K in enumerate(kernels)]
    if not matrices:
        raise InputError("There are 0 kernels; pass one (m, m) matrix a group of features.")
    shape = (len(matrices[0]), len(matrices[0]))
    for g, K in enumerate(matrices):
        if K.shape != shape:
            raise InputError(
                f"Kernel {g} has shape {K.shape} and the first one {len(matrices[0])} samples; "
                "pass matrices (m, m) of the same samples."
            )
        worst = float(np.abs(K - K.T).max(initial=0.0))
        if worst > 1e-8 * float(np.abs(K).max(initial=0.0)):
            raise InputError(
                f"Kernel {g} is not symmetric (largest difference {worst:.3g}); pass (K + K') / 2."
            )
    return matrices


def _names(names: Sequence[str] | None, n: int) -> list[str]:
    if names is None:
        return [str(g) for g in range(n)]
    named = list(names)
    if len(named) != n or len(set(named)) != n:
        raise InputError(
            f"There are {n} kernels and {len(named)} names, {len(set(named))} of them different; "
            "pass one name a kernel."
        )
    return named
