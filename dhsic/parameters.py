"""The parameters of a run: what is asked for, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from dhsic.errors import InputError
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import check_bandwidth, resolve_kernel
from dhsic.selection.policies import check_step

APPROX = ("auto", "exact", "lowrank", "direct")


@dataclass(frozen=True)
class Parameters:
    """What identifies a run besides its data; the same names as of the estimators."""

    step: float | int | None = 0.1
    kernel: str | AbstractKernel = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    estimator: str = "unbiased"
    approx: str = "auto"
    standardize: bool = True
    missing: str = "mean"
    dtype: Any = "float32"
    tolerance: float = 0.02
    random_state: Any = 0

    def check(self) -> Parameters:
        """Refuse what is unknown before any work; ``step=None`` ranks in one pass."""
        if self.step is not None:
            check_step(self.step)
        resolve_kernel(self.kernel)
        resolve_bandwidth(self.bandwidth)
        check_bandwidth(self.kernel, self.bandwidth)
        if self.approx not in APPROX:
            raise InputError(
                f"approx={self.approx!r} is unknown; pass 'auto', 'exact' (the expansion, exact "
                "in its result), 'lowrank' (in linear time) or 'direct' (the definition, slow)."
            )
        if self.missing not in ("mean", "error"):
            raise InputError(
                f"missing={self.missing!r} is unknown; pass 'mean' (fill in the mean of the "
                "feature) or 'error'."
            )
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise InputError(f"standardize={self.standardize!r}; pass True or False.")
        if str(self.dtype) not in ("float32", "float64"):
            raise InputError(f"dtype={self.dtype!r}; pass 'float32' or 'float64'.")
        check_tolerance(self.tolerance)
        seed_of(self.random_state)
        return self

    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run."""
        kernel = resolve_kernel(self.kernel)
        return {
            "step": self.step,
            "kernel": kernel.name,
            **{f"kernel_{k}": v for k, v in kernel.parameters().items()},
            "bandwidth": repr(resolve_bandwidth(self.bandwidth)),
            "label_kernel": self.label_kernel,
            "estimator": self.estimator,
            "approx": self.approx,
            "standardize": bool(self.standardize),
            "missing": self.missing,
            "dtype": str(self.dtype),
            "tolerance": float(self.tolerance),
            "seed": seed_of(self.random_state),
        }


def check_tolerance(tolerance: object) -> None:
    """Refuse what is no part of the features that leave.

    Raises
    ------
    InputError
        Anything but a number from 0 to 1.
    """
    part = float(tolerance) if isinstance(tolerance, Real) else -1.0
    if isinstance(tolerance, (bool, np.bool_)) or not 0 <= part <= 1:
        raise InputError(
            f"tolerance={tolerance!r}; pass the part of the features leaving in a round that may "
            "be wrong ones, a number from 0 to 1, such as 0.02."
        )


def seed_of(random_state: object) -> int:
    """Seed of all random draws: a whole number, None for 0, or from a NumPy `RandomState`.

    Raises
    ------
    InputError
        Anything else.
    """
    if random_state is None:
        return 0
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if random_state >= 0:
            return int(random_state)
    elif isinstance(random_state, np.random.RandomState):
        return int(random_state.get_state(legacy=False)["state"]["key"][0])
    raise InputError(f"random_state={random_state!r}; pass a whole number from 0.")
