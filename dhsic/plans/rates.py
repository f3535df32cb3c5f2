"""How fast this machine computes, and this store is read: measured in a second, or given."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.engines.quadratic import Quadratic
from dhsic.errors import InputError
from dhsic.given import is_positive
from dhsic.plans.exact import form_flops
from dhsic.runtime.blas import single_blas_thread
from dhsic.scoring.reader import block_width
from dhsic.scoring.tasks import TILE
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import measure, standardise

#: Seconds that each rate is measured for, at most; and samples that it is measured with.
SECONDS, MOST_SAMPLES = 0.25, 2048


@dataclass(frozen=True, slots=True)
class Rates:
    """What one thread does in a second.

    Attributes
    ----------
    float32, float64 : float
        Flops of quadratic forms, as scoring takes them.
    decode : float
        Stored bytes that are read and decoded; infinite in memory.
    values : float
        Values that are standardised.
    elements : float
        Entries of a kernel matrix.

    Examples
    --------
    >>> Rates.of({"float32": 5e10, "float64": 2e10, "decode": 1e9, "values": 4e8, "elements": 1e8})
    Rates(float32=50000000000.0, float64=20000000000.0, decode=1000000000.0, values=400000000.0, \
elements=100000000.0)
    """

    float32: float
    float64: float
    decode: float
    values: float
    elements: float

    @staticmethod
    def of(given: Any) -> Rates:
        """Rates that were measured elsewhere.

        Raises
        ------
        InputError
            Other names than those of a `Rates`, or what is no positive number.
        """
        if isinstance(given, Rates):
            return given
        names = [field.name for field in fields(Rates)]
        if not isinstance(given, Mapping) or sorted(given) != sorted(names):
            raise InputError(
                f"rates={given!r}; pass a dhsic.plans.Rates, or a mapping with {', '.join(names)} "
                "per second of one thread, such as another plan's .rates."
            )
        for name, value in given.items():
            if not is_positive(value) and value != math.inf:
                raise InputError(f"rates[{name!r}]={value!r}; pass a positive number a second.")
        return Rates(**{name: float(value) for name, value in given.items()})

    @staticmethod
    def measured(source: AbstractSource, m: int) -> Rates:
        """Measure on this machine, with a block of this source; a second in all."""
        n = max(2, min(m, MOST_SAMPLES))
        rng = np.random.default_rng(0)
        X = rng.standard_normal((TILE, n))
        A = rng.standard_normal((n, n))
        K, D = np.empty_like(A), np.abs(A)
        raw = rng.integers(0, 3, X.shape, dtype=np.int8)
        scaling, _ = measure(raw, None, standardize=True)
        with single_blas_thread():
            return Rates(
                float32=_of_forms(A, X, np.float32),
                float64=_of_forms(A, X, np.float64),
                decode=_decoding(source),
                values=_rate(lambda: standardise(raw, None, scaling, np.float32), X.size),
                elements=_rate(lambda: np.exp(np.negative(D, out=K), out=K), K.size),
            )

    def plain(self) -> dict[str, float | None]:
        """For JSON, which knows no infinity."""
        return {k: v if math.isfinite(v) else None for k, v in asdict(self).items()}


def _of_forms(A: Array, X: Array, dtype: Any) -> float:
    """Flops per second of quadratic forms, which most of the time goes to."""
    forms, values = Quadratic.of(A, 1.0, dtype), X.astype(dtype)
    return _rate(lambda: forms.forms(values), len(X) * form_flops(len(A)))


def _rate(work: Callable[[], Any], amount: float) -> float:
    """Amount per second, over `SECONDS` of calls after a first one."""
    work()
    n, started, passed = 0, time.perf_counter(), 0.0
    while passed < SECONDS:
        work()
        n += 1
        passed = time.perf_counter() - started
    return n * amount / passed


def _decoding(source: AbstractSource) -> float:
    """Stored bytes per second of some blocks from the middle of the source."""
    if source.in_memory:
        return math.inf
    itemsize = np.dtype(source.dtype).itemsize
    blocks = source.blocks(block_width(source.n_samples, source.n_features, itemsize))
    source.read(blocks[0])  # the first one opens the store
    n_bytes, started, passed = 0, time.perf_counter(), 0.0
    for block in blocks[len(blocks) // 2 :]:
        source.read(block)
        n_bytes += block.width * source.n_samples * itemsize
        passed = time.perf_counter() - started
        if passed > SECONDS:
            break
    return n_bytes / max(passed, 1e-9)
