"""Feature selection by kernel dependence (HSIC) for matrices that do not fit in memory."""

from dhsic import startup  # noqa: F401  # before all that takes time to load

# isort: split
from typing import TYPE_CHECKING, Any

from dhsic import datasets, kernels
from dhsic.detached import Run, attach, submit
from dhsic.errors import (
    CheckpointError,
    ClusterError,
    DataError,
    DhsicError,
    InputError,
    MemoryBudgetError,
    ScratchError,
    StoreError,
)
from dhsic.independence import FeatureTests, TestResult, hsic_test, test_features
from dhsic.independence.estimate import hsic, hsic_variance
from dhsic.plans import Plan, Rates, plan
from dhsic.results import load, save, selected_features
from dhsic.selectors import (
    BAHSIC,
    CCM,
    FOHSIC,
    SVMRFE,
    FeatureWeighting,
    LinearHSIC,
    OnePass,
    select,
)
from dhsic.sources.opening import open_source
from dhsic.sources.target import read_target
from dhsic.structured import rank_kernels, rank_subgraphs, rank_substrings
from dhsic.versions import VERSION

if TYPE_CHECKING:
    from dhsic.matrix import kernel_matrix

__version__ = VERSION

__all__ = [
    "BAHSIC",
    "CCM",
    "FOHSIC",
    "SVMRFE",
    "CheckpointError",
    "ClusterError",
    "DataError",
    "DhsicError",
    "FeatureTests",
    "FeatureWeighting",
    "InputError",
    "LinearHSIC",
    "MemoryBudgetError",
    "OnePass",
    "Plan",
    "Rates",
    "Run",
    "ScratchError",
    "StoreError",
    "TestResult",
    "__version__",
    "attach",
    "datasets",
    "hsic",
    "hsic_test",
    "hsic_variance",
    "kernel_matrix",
    "kernels",
    "load",
    "open_source",
    "plan",
    "rank_kernels",
    "rank_subgraphs",
    "rank_substrings",
    "read_target",
    "save",
    "select",
    "selected_features",
    "submit",
    "test_features",
]


def __getattr__(name: str) -> Any:
    """`kernel_matrix`, which alone brings dask with it, when it is first asked for."""
    if name != "kernel_matrix":
        raise AttributeError(f"module 'dhsic' has no attribute {name!r}")
    from dhsic.matrix import kernel_matrix

    return kernel_matrix


def __dir__() -> list[str]:
    """Public names alone."""
    return sorted(__all__)
