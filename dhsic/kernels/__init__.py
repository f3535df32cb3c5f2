"""Kernels on data and on labels: their names, statistics, kernel matrices and expansions."""

import numpy as np

from dhsic.errors import InputError
from dhsic.kernels.bandwidth import Dimension, resolve_bandwidth
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

#: Maximum kernel value that may be multiplied by weights and summed without overflow.
LARGEST_VALUE = 1e150

#: Kernels on data by name, in the order of their documentation.
KERNELS: dict[str, type[AbstractKernel]] = {
    kernel.name: kernel
    for kernel in (
        *(Gaussian, Linear, Polynomial, Laplace, LaplaceL1, RationalQuadratic, InverseDistance),
        *(Ridge, Delta),
    )
}


def resolve_kernel(kernel: object) -> AbstractKernel:
    """Return the kernel with this name; a kernel object is returned unchanged."""
    if isinstance(kernel, AbstractKernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise InputError(
            f"kernel={kernel!r} is unknown; pass one of {', '.join(KERNELS)} or a kernel object "
            "such as dhsic.kernels.Polynomial(degree=3)."
        )
    return KERNELS[kernel]()


def check_bandwidth(kernel: object, bandwidth: object) -> None:
    """Raise an error if a width is given for a kernel without one; ``"dimension"`` is allowed."""
    chosen = resolve_kernel(kernel)
    if not chosen.has_bandwidth and resolve_bandwidth(bandwidth) != Dimension():
        raise InputError(
            f"bandwidth={bandwidth!r}, but the {chosen.name} kernel has no width; leave it out, or "
            "pass kernel='gaussian'."
        )


def check_solver(kernel: object, solver: object) -> None:
    """Raise an error if low rank is requested for a kernel that does not support it."""
    chosen = resolve_kernel(kernel)
    if solver == "lowrank" and not chosen.low_rank:
        raise InputError(
            f"solver='lowrank' supports the gaussian, linear and polynomial kernels, but kernel is "
            f"{chosen.name!r}; pass solver='exact', or leave it out."
        )


def check_overflow(kernel: AbstractKernel, squared_norm: float) -> None:
    """Raise an error if a kernel of inner products overflows on the data.

    By the Cauchy-Schwarz inequality, its largest value is for the sample with the largest norm and
    itself. `squared_norm` is the squared norm of this sample. Other kernels always raise an error.
    """
    if not kernel.of_inner_products:
        raise InputError(
            f"The {kernel.name} kernel is not a function of the inner product of two samples, so "
            "only selectors such as dhsic.BAHSIC support it. Here, pass kernel='laplace', 'linear' "
            "or another one."
        )
    n = np.array([squared_norm])
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(kernel.gram(n[:, None], n, n, 1.0)[0, 0])
    if not (squared_norm < LARGEST_VALUE and abs(value) < LARGEST_VALUE):
        raise InputError(
            f"The {kernel.name} kernel overflows: the largest norm of a sample is "
            f"{squared_norm**0.5:.3g}, and its kernel value with itself is {value:.3g}. Rescale "
            "the data (selectors and dhsic.test_features do with standardize=True), or use a "
            "kernel of a lower degree."
        )
