"""From what users write to a kernel object."""

from __future__ import annotations

from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.linear import Linear
from dhsic.kernels.polynomial import Polynomial

KERNELS: dict[str, type[AbstractKernel]] = {
    "gaussian": Gaussian,
    "linear": Linear,
    "polynomial": Polynomial,
}


def resolve_kernel(kernel: object) -> AbstractKernel:
    """Kernel object for a name; objects pass.

    Raises
    ------
    InputError
        An unknown name, or something that is neither.
    """
    if isinstance(kernel, AbstractKernel):
        return kernel
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise InputError(
            f"kernel={kernel!r} is unknown; pass one of {', '.join(KERNELS)} or a kernel object "
            "such as dhsic.kernels.Polynomial(degree=3)."
        )
    return KERNELS[kernel]()
