"""From the gains of a round to the features that leave, and its record in the history."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.base import Question
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.delta import Delta
from dhsic.selection.bahsic import Removal

#: Part of the sum of all weights that is rounding.
NOTHING = 1e-13


def check_gains(kernel: AbstractKernel, sigma: float, hsic: float, gains: Float) -> None:
    """Refuse gains that say nothing.

    Raises
    ------
    InputError
        Gains that are no numbers, or a kernel matrix that is the identity or constant.
    """
    lost = int((~np.isfinite(gains)).sum())
    if lost:
        raise InputError(
            f"{lost} of {gains.size} scores are not finite at sigma={sigma:.4g}: the kernel "
            "overflows on these data; scale them down, or pass standardize=True."
        )
    if kernel_is_flat(kernel, hsic, gains):
        raise InputError(
            f"HSIC and all {gains.size} scores are 0: at sigma={sigma:.4g} no two samples are "
            "alike to the kernel, or all are. Pass bandwidth='median', or standardize=True."
        )


def check_shared(question: Question, gains: Float) -> None:
    """Refuse features of which the delta kernel sees nothing.

    Raises
    ------
    InputError
        No two samples share a value of any feature.
    """
    if isinstance(question.kernel, Delta) and np.abs(gains).max(initial=0.0) <= NOTHING * float(
        np.abs(question.W).sum()
    ):
        raise InputError(
            "No two samples share a value of any feature, and that is all that the delta kernel "
            "looks at: it is for categories. Take another kernel for measurements, or round them."
        )


def kernel_is_flat(kernel: AbstractKernel, hsic: float, gains: Float) -> bool:
    """Whether the kernel tells nothing: its matrix is the identity, or constant."""
    return kernel.has_bandwidth and gains.size > 1 and hsic == 0 and not gains.any()


def removal_of(
    S: Index,
    first: Index,
    gains: Float,
    *,
    sigma: float,
    hsic: float,
    started: float,
    bytes_read: int,
    record: Mapping[str, float | int | str],
) -> Removal:
    """Removal of the features at positions `first` of S, the first to go first.

    Parameters
    ----------
    gains : (s,) float64
        Of all of S.
    started : float
        When the round began, by `time.perf_counter`.
    record : mapping
        What the engine adds to the history.
    """
    facts = {
        "n_features": S.size,
        "n_removed": first.size,
        "sigma": float(sigma),
        "hsic": hsic,
        "seconds": time.perf_counter() - started,
        "bytes_read": bytes_read,
        **record,
    }
    return Removal(S[first], -gains[first], facts)
