"""Processor time of `dhsic test` over that of sorting every feature once."""

import time

import numpy as np

LABELS = {"real labels": 0, "two classes": 2}


def seconds_of(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def sorting_ratio(n_classes, m, d, seed):
    """Seconds of `test_features`, of `numpy.argsort` of the columns, on one thread.

    The values are in memory feature after feature, so that both read them in their order.
    """
    from dhsic.independence import test_features
    from dhsic.runtime.threads import Threads

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((d, m)).T
    y = np.arange(m) % n_classes if n_classes else rng.standard_normal(m)
    test_features(X[:, :50], y, runtime=Threads(1))  # imports
    test = seconds_of(lambda: test_features(X, y, runtime=Threads(1)))
    sort = seconds_of(lambda: np.argsort(X, axis=0))
    return test, sort
