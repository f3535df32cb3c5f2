"""Kernels on data and on labels: the statistic, the Gram matrix and the expansion of each."""

from dhsic.kernels.base import AbstractKernel, Expansion, Term
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.linear import Linear
from dhsic.kernels.polynomial import Polynomial

__all__ = ["AbstractKernel", "Expansion", "Gaussian", "Linear", "Polynomial", "Term"]
