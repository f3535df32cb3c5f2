"""Estimators of backward elimination, and of the linear kernel in one pass."""

from dhsic.methods import bahsic
from dhsic.selectors.base import Estimator


class BAHSIC(Estimator, bahsic.BAHSIC):
    r"""Backward elimination with HSIC (Song et al. 2012, JMLR 13, Algorithm 1).

    Starting from all features, each round removes the features that matter least: without them, the
    dependence between the remaining features and the labels decreases least. Rounds continue until
    no feature is left. The feature removed last is the best.

    Parameters
    ----------
    n_features_to_select : int, float, "auto" or None
        Number of features to select: a count, a fraction of all features, half of them (None), or
        the number that cross-validation chooses (``"auto"``, see `BAHSICCV`). The ranking itself
        always contains all features.
    step : float or int
        Features removed per round: a fraction of the remaining features, or a count.
    kernel : {"gaussian", "linear", "polynomial", "laplace", "laplace-l1", "rational", \
            "inverse-distance", "ridge", "delta"} or kernel object
        Kernel on the data; ``"polynomial"`` is ``(<x, x'> + 1)^2``.
    bandwidth : "dimension", "median", float or sequence of floats
        Sigma of ``exp(-sigma ||x - x'||^2)``: ``1/(2|S|)`` for |S| remaining features, the median
        rule, a fixed number, or the value of a grid that maximises HSIC (JMLR 4.1). Kernels without
        a width accept only the default.
    label_kernel : {"auto", "binary", "balanced", "multiclass", "one-vs-rest", "linear", \
            "gaussian", "rank", "ordinal", "mixed", "self"} or "precomputed"
        Kernel on the labels: for classes, for real values, for ranks of real values with heavy
        tails such as counts and incomes (``"rank"``), for levels with an order (``"ordinal"``;
        numbers, or an ordered categorical), for whole numbers that may be classes or values
        (``"mixed"``), or chosen by the kind of labels (``"auto"``). See
        `dhsic.kernels.labels.label_matrix`.
    standardize : "auto", "presence" or bool
        Scale features to unit standard deviation; they are centred in any case. With ``"auto"``,
        dosages (data with only 0, 1, 2 and missing values) are not scaled, because rare variants
        would dominate the kernel, and other data are scaled by ``"presence"``: to unit standard
        deviation, with one exception. If more than half of the samples share one value of a
        feature, such as 0, and a fraction q has other values, its standard deviation becomes
        ``sqrt(4 q (1 - q))``. Rare words, counts and categories therefore do not dominate either.
        The result records the scaling.
    rerank : "auto" or bool
        Re-rank the last 2,048 features (fewer for many samples) jointly by ridge regression (JMLR
        6.6 with one feature removed at a time, see `dhsic.algorithms.ridge`). Redundant features
        move back, and the first few features predict better. Ridge regression is linear, so
        ``"auto"`` keeps the HSIC ranking if its first features explain held-out labels clearly
        better, for example if only pairs of features have an effect. ``"auto"`` also tests every
        feature alone, for any shape of dependence (columns ``p_marginal`` and ``q_marginal`` of the
        result), and moves features that the ranking missed to the front, see
        `dhsic.selection.shapes`. The result records which ranking was used. False gives the order
        of Algorithm 1 as in the paper.
    balance : bool
        Give each of several matrices (`docs/omics.md`) the same share of the kernel matrix, so that
        a matrix of a million features does not displace one of a hundred. The features of a matrix
        are multiplied by a weight, so that all matrices have the same mean squared distance of
        samples. This decides which features reach the joint re-ranking. The re-ranking is then
        always used, and compares all features at unit standard deviation.
    missing : {"mean", "error"}
        Replace missing values by the mean of their feature, or raise an error.
    stability : int
        Number of random halves of the samples on which the selection is repeated. The fraction of
        halves that select a feature shows how reliable it is. Each half takes as long as a run over
        half of the samples.
    clump_r2 : float, optional
        Squared correlation above which features count as redundant. Only the best of redundant
        features keeps its rank, see `dhsic.selection.clumping`. Use 0.2 for variants in linkage.
    interactions : {"auto", "best", "all"}, optional
        Also scan pairs of features for an effect on the labels beyond main effects (`dhsic.pairs`).
        Features of significant pairs (family-wise level 0.05) are placed before all features with
        weaker evidence, and are selected even beyond the requested number; the result contains the
        pairs. ``"auto"`` scans all pairs if that takes less than about a minute of one core (76,000
        features of 400 samples, 46,000 of 1,000), and pairs of the 128 best features by several
        functions of each, which finds ring-shaped interactions; main effects of significant
        features, of any shape, are regressed out. The choice depends on sizes alone. ``"auto"``
        makes no scan with groups, precomputed labels, ``rerank=False``, kernels without a width,
        `control`, or fewer than 100 samples. ``"best"`` scans pairs of the best features, for at
        most two minutes of one core, and regresses out linear main effects of the selected
        features. ``"all"`` does the same for all pairs, however long it takes. None makes no scan.
        If many features are scanned, the significance threshold is extrapolated from pairs of a
        subset of them.
    holdout : float or (m,) array, optional
        Hold out samples: select on the other samples, and test the selected features on these
        (columns ``p`` and ``q`` of the result, see `dhsic.selection.holdout`). Pass a fraction of
        the samples, such as 0.3, which is drawn at random within each class; or a mask, such as
        whole families or batches, over all samples or over those that are used.
    control : {"shadow"}, optional
        Select among the features and permuted copies of them, and keep only features that are
        discovered at the false discovery rate `fdr`; see `dhsic.selection.shadows` for the
        guarantee, and columns ``fdr`` and ``shadows_above`` of the result. There are ``1 / fdr +
        1`` copies, and the run time grows by about that factor.
    checkpoint : path or URL, optional
        Save the state here after every round; a run that finds a saved state continues from it. A
        missing folder is created if its parent exists. A URL of an object store, such as
        ``s3://bucket/run.dhsic``, needs ``dhsic[cloud]``, and credentials in the environment.
    progress : "auto", bool, "log", "debug" or callable
        Show a progress bar (True; ``"auto"`` in a terminal or notebook); write one line per round
        (``"log"``) or all messages (``"debug"``) of the logger `dhsic` to standard error; or call a
        function with a mapping after every round.
    random_state : int
        Random seed, for the landmarks and samples of low rank; exact rounds use no random numbers.
    runtime : {"auto", "threads", "dask"} or runtime object
        Where tasks run; ``"auto"`` uses the active Dask client if there is one.
    memory_limit : int, optional
        Memory limit in bytes: a run with a larger memory estimate does not start. By default it is
        the memory of the machine.

    Other Parameters
    ----------------
    statistic : {"unbiased", "biased"}
        Unbiased estimator of HSIC (JMLR eq. 5), or the biased one (eq. 4).
    solver : {"auto", "exact", "lowrank", "direct"}
        How candidates are scored: by an expansion of the kernel, with exact results (``"exact"``);
        by low-rank factors, in time linear in the samples (``"lowrank"``); by the definition
        (``"direct"``); or by the cheaper of the first two (``"auto"``). With ``"auto"``, the
        expansion is used if a round takes seconds and there are at most 6,000 samples, and low rank
        otherwise, for kernels and labels that it supports. While more than 1,024 features remain,
        rounds with the Gaussian kernel may reuse scores of earlier rounds with a first-order
        correction, and score exactly near the cut. The loss by low rank and reused scores is
        estimated, see `max_expected_loss`; ``round_engine`` in the result records the engine. The
        choice depends on sizes alone, so it is the same on every machine.
    max_expected_loss : float
        Fraction of the selected features that low rank or reused scores may lose: 0.01 is one in a
        hundred; 0 reuses no scores. It does not matter if a feature is removed too early when it
        would have been removed soon anyway, so early rounds may be less accurate. If the estimated
        loss is larger, more of the kernel matrix is computed. The result has the estimate as
        ``expected_lost``, which is not a bound (see `dhsic.results`). It has no effect on exact
        rounds.
    stability_threshold : float
        Minimum fraction of halves, above 0.5, that must select a stable feature. The halves are
        then complementary pairs, and the result bounds the expected number of falsely stable
        features: by ``expected_false``, and by the tighter ``expected_false_concave`` if the
        fraction of halves has an r-concave distribution (Shah and Samworth, 2013).
    fdr : float
        Allowed fraction of false features among the discovered features, with `control`.
    stages : list of str or Stage
        Additional stages of the run: objects of `dhsic.selection.stage.Stage`, or names of stages
        that were added to `dhsic.selection.stages.STAGES`.
    dtype : {"float32", "float64"}
        Precision of the large matrix products; if it is not enough for a comparison, float64 is
        used.
    n_jobs : int, optional
        Number of threads in this process, -1 for all cores. The default is all cores, but 1 inside
        a joblib worker (``n_jobs=`` of `GridSearchCV`). The result is the same with any number.

    Attributes
    ----------
    ranking_ : (d,) int
        1 is the best; a permutation of 1..d.
    support_ : (d,) bool
        The selected features.
    scores_ : (d,) float
        Decrease of HSIC without the feature, in the round in which it was removed; NaN if constant.
        Comparable within a round only.
    stability_ : (d,) float
        Fraction of halves that select the feature; only with `stability`.
    result_ : xarray.Dataset
        All of the above with the history of rounds; see `dhsic.results`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 30))
    >>> y = (X[:, 3] * X[:, 7] > 0).astype(int)   # neither feature has an effect alone
    >>> model = dhsic.BAHSIC(n_features_to_select=2, kernel="polynomial").fit(X, y)
    >>> model.get_support(indices=True).tolist()
    [3, 7]
    """


class LinearHSIC(BAHSIC, bahsic.LinearHSIC):
    """Ranking by HSIC with the linear kernel, in one pass over the data (JMLR 5.1.1).

    The score of feature j is ``x_j' W x_j``. With the linear kernel, backward and forward selection
    agree and need no loop. The parameters are the same as in `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.LinearHSIC(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """
