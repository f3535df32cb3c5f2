"""What is crossed with what, once: kernels, label kernels, estimators and how close is equal."""

from dhsic.kernels import Gaussian, Linear, Polynomial

KERNELS = {
    "gaussian": Gaussian(),
    "linear": Linear(),
    "polynomial": Polynomial(),
    "polynomial-3": Polynomial(degree=3, offset=0.5),
    "polynomial-1": Polynomial(degree=1, offset=0.0),
}
#: Names that tests/naive.py knows too.
PLAIN_KERNELS = ("gaussian", "linear", "polynomial")
CLASS_KERNELS = ("binary", "balanced", "multiclass", "one-vs-rest")
REAL_KERNELS = ("linear", "gaussian")
ESTIMATORS = ("unbiased", "biased")
BANDWIDTHS = ("dimension", "median", 0.05, [0.01, 0.1, 1.0])
