"""Kernels on data and on labels: the statistic, the Gram matrix and the expansion of each."""

from dhsic.kernels.base import AbstractKernel, Expansion, Term
from dhsic.kernels.counting import Spectrum, WeightedSubstrings
from dhsic.kernels.dot import Linear, Polynomial
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.graphs import ShortestPaths, Walks
from dhsic.kernels.levels import Delta, LaplaceL1
from dhsic.kernels.radial import InverseDistance, Laplace, RationalQuadratic
from dhsic.kernels.ridge import KernelRidge, Ridge

__all__ = [
    "AbstractKernel",
    "Delta",
    "Expansion",
    "Gaussian",
    "InverseDistance",
    "KernelRidge",
    "Laplace",
    "LaplaceL1",
    "Linear",
    "Polynomial",
    "RationalQuadratic",
    "Ridge",
    "ShortestPaths",
    "Spectrum",
    "Term",
    "Walks",
    "WeightedSubstrings",
]
