"""Estimator of recursive elimination with support vectors."""

from dhsic.methods import svmrfe
from dhsic.selectors.base import Estimator


class SVMRFE(Estimator, svmrfe.SVMRFE):
    r"""Recursive feature elimination with support vectors (Guyon et al. 2002; JMLR 6.8).

    Each round trains a support vector machine on the remaining features. It removes the features
    that matter least for the margin term ``1/2 alpha' (K o y y') alpha`` (eq. 31): for fixed alpha,
    the term decreases least without them. K is the kernel matrix, y (m,) the labels, -1 or 1, and
    alpha (m,) the dual coefficients. The term is HSIC with a conformal kernel. Only samples close
    to the boundary between classes count. Use this method as a comparison, or if the features are
    meant for a support vector machine.

    Parameters
    ----------
    n_features_to_select : int, float or None
        As in `BAHSIC`.
    penalty : float
        C of the support vector machine.
    kernel : {"linear", "gaussian", "polynomial"} or kernel object
        Kernel of the machine. With the linear kernel the criterion is ``w_j^2 / 2``.
    step, bandwidth, standardize, missing, solver, dtype
        As in `BAHSIC`; low rank is not available.
    stability, checkpoint, progress, random_state, runtime, n_jobs, memory_limit
        As in `BAHSIC`.

    Notes
    -----
    Labels are classes. With more than two classes, one machine is trained for each class against
    the rest, and the margin terms are added. Machines are trained by scikit-learn's `SVC` on the
    (m, m) kernel matrix.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.SVMRFE(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """
