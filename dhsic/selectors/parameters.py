"""The parameters of a run: what is asked for, checked before any work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from dhsic.algorithms.policies import check_step
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.table import check_approx, check_bandwidth, resolve_kernel
from dhsic.sources.values import Values

APPROX = ("auto", "exact", "lowrank", "direct")
#: Of `standardize`: as suits the data.
AUTO = "auto"
Standardize = bool | str


class AbstractParameters(ABC):
    """What identifies a run besides its data; the same names as of the estimators.

    Attributes
    ----------
    method : str
        What the command line calls the method.
    label_kernel : str
        How labels are read, see `dhsic.kernels.labels.label_matrix`.
    """

    method: ClassVar[str]
    label_kernel: str

    @abstractmethod
    def check(self) -> Self:
        """Refuse what is unknown before any work."""

    @abstractmethod
    def settled(self, values: Values) -> Self:
        """The parameters with ``standardize="auto"`` decided by what the values of the data are."""

    @property
    def takes_names(self) -> bool:
        """Whether the numbers of features are names of categories, so that none is a code."""
        return False

    @property
    @abstractmethod
    def standardizes(self) -> bool:
        """Whether features are scaled to unit deviation."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run."""

    @abstractmethod
    def __str__(self) -> str:
        """What is done, for people, such as "BAHSIC with the gaussian kernel"."""


@dataclass(frozen=True)
class Parameters(AbstractParameters):
    """Of backward elimination, and of the linear kernel's one pass (``step=None``)."""

    method: ClassVar[str] = "bahsic"

    step: float | int | None = 0.1
    kernel: str | AbstractKernel = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    estimator: str = "unbiased"
    approx: str = "auto"
    standardize: bool | str = AUTO
    missing: str = "mean"
    dtype: Any = "float32"
    tolerance: float = 0.02
    random_state: Any = 0

    def check(self) -> Parameters:
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
        check_approx(resolve_kernel(self.kernel), self.approx)
        check_missing(self.missing)
        check_standardize(self.standardize)
        check_dtype(self.dtype)
        check_tolerance(self.tolerance)
        seed_of(self.random_state)
        return self

    def identity(self) -> dict[str, Any]:
        kernel = resolve_kernel(self.kernel)
        return {
            "method": self.method,
            "step": self.step,
            "kernel": kernel.name,
            **{f"kernel_{k}": v for k, v in kernel.parameters().items()},
            "bandwidth": repr(resolve_bandwidth(self.bandwidth)),
            "label_kernel": self.label_kernel,
            "estimator": self.estimator,
            "approx": self.approx,
            "standardize": self.standardize,
            "missing": self.missing,
            "dtype": str(self.dtype),
            "tolerance": float(self.tolerance),
            "seed": seed_of(self.random_state),
        }

    def settled(self, values: Values) -> Self:
        return replace(self, standardize=scales(self.standardize, values, alone=self.step is None))

    @property
    def takes_names(self) -> bool:
        """Whether the kernel only sees which values are equal."""
        return resolve_kernel(self.kernel).is_of_categories

    @property
    def standardizes(self) -> bool:
        return is_settled(self.standardize)

    def __str__(self) -> str:
        """In a few words."""
        if self.step is None:
            return f"linear kernel in one pass, {self.estimator} HSIC,"
        name = resolve_kernel(self.kernel).name
        return f"BAHSIC with the {name} kernel, {self.estimator} HSIC, step {self.step:g},"


def check_standardize(value: object) -> None:
    """Refuse what says nothing of scaling.

    Raises
    ------
    InputError
        Neither True, False nor ``"auto"``.
    """
    if not (isinstance(value, str) and value == AUTO):
        try:
            check_flag("standardize", value)
        except InputError as error:
            raise InputError(f"standardize={value!r}; pass 'auto', True or False.") from error


def scales(asked: Standardize, values: Values, *, alone: bool = False) -> bool:
    """Whether features are scaled to unit deviation: as asked, or as suits the data.

    Scaled, a variant that three people carry weighs as much as a common one, and its few large
    values drown the rest in a kernel of all features. So dosages keep their scale, unless every
    feature is judged `alone`.
    """
    return alone or not values.dosages if isinstance(asked, str) else bool(asked)


def is_settled(standardize: Standardize) -> bool:
    """What ``standardize`` was settled to."""
    assert not isinstance(standardize, str), "a run settles it before its first pass"
    return bool(standardize)


def check_missing(missing: object) -> None:
    """Refuse an unknown policy for missing values.

    Raises
    ------
    InputError
        Neither ``"mean"`` nor ``"error"``.
    """
    if missing not in ("mean", "error"):
        raise InputError(
            f"missing={missing!r} is unknown; pass 'mean' (fill in the mean of the feature) or "
            "'error'."
        )


def check_dtype(dtype: object) -> None:
    """Refuse a precision that products do not run in.

    Raises
    ------
    InputError
        Neither ``"float32"`` nor ``"float64"``.
    """
    if str(dtype) not in ("float32", "float64"):
        raise InputError(f"dtype={dtype!r}; pass 'float32' or 'float64'.")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    InputError
        Anything else.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name}={value!r}; pass True or False.")


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
