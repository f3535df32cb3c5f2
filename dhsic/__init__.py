"""Feature selection by kernel dependence (HSIC) for matrices that do not fit in memory."""

from dhsic import kernels
from dhsic.errors import (
    CheckpointError,
    ClusterError,
    DataError,
    DhsicError,
    InputError,
    MemoryBudgetError,
)
from dhsic.hsic import hsic
from dhsic.results import load, save, selected_features
from dhsic.selectors import BAHSIC, LinearHSIC, select
from dhsic.sources.opening import open_source
from dhsic.sources.target import read_target
from dhsic.versions import VERSION

__version__ = VERSION

__all__ = [
    "BAHSIC",
    "CheckpointError",
    "ClusterError",
    "DataError",
    "DhsicError",
    "InputError",
    "LinearHSIC",
    "MemoryBudgetError",
    "__version__",
    "hsic",
    "kernels",
    "load",
    "open_source",
    "read_target",
    "save",
    "select",
    "selected_features",
]
