"""Kernels on data and on labels, by name: the statistic, the Gram matrix, the expansion of each."""

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

#: Largest kernel values that may be multiplied by weights and summed.
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
    """Kernel object for a name; kernel objects are returned as they are."""
    if isinstance(kernel, AbstractKernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise InputError(
            f"kernel={kernel!r} is unknown; pass one of {', '.join(KERNELS)} or a kernel object "
            "such as dhsic.kernels.Polynomial(degree=3)."
        )
    return KERNELS[kernel]()


def check_bandwidth(kernel: object, bandwidth: object) -> None:
    """Raise an error if a width is given for a kernel without one (except ``"dimension"``)."""
    chosen = resolve_kernel(kernel)
    if not chosen.has_bandwidth and resolve_bandwidth(bandwidth) != Dimension():
        raise InputError(
            f"bandwidth={bandwidth!r} is the width of a kernel, and the {chosen.name} kernel has "
            "none; leave it out, or pass kernel='gaussian'."
        )


def check_solver(kernel: object, solver: object) -> None:
    """Raise an error if low rank is requested for a kernel that does not support it."""
    chosen = resolve_kernel(kernel)
    if solver == "lowrank" and not chosen.low_rank:
        raise InputError(
            f"solver='lowrank' is there for the gaussian, linear and polynomial kernels, and "
            f"kernel is {chosen.name!r}; pass solver='exact', or leave it out."
        )


def check_overflow(kernel: AbstractKernel, squared_norm: float) -> None:
    """Raise an error if the kernel overflows on data.

    By Cauchy and Schwarz a kernel of inner products is largest for the longest sample with itself;
    `squared_norm` is the squared norm of this sample. Other kernels always raise an
    error.
    """
    if not kernel.of_inner_products:
        raise InputError(
            f"The {kernel.name} kernel is no function of the inner product of two samples and is "
            "for selecting features alone: dhsic.BAHSIC takes it. Pass kernel='laplace', 'linear' "
            "or another one here."
        )
    n = np.array([squared_norm])
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(kernel.gram(n[:, None], n, n, 1.0)[0, 0])
    if not (squared_norm < LARGEST_VALUE and abs(value) < LARGEST_VALUE):
        raise InputError(
            f"The {kernel.name} kernel overflows: the longest sample has norm "
            f"{squared_norm**0.5:.3g}, and the kernel of it with itself is {value:.3g}. Pass "
            "standardize=True, rescale the data, or take a lower degree."
        )
