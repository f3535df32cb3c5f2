"""Feature selection by kernel dependence (HSIC) for matrices that do not fit in memory.

Public names are imported at first use, so ``dhsic --help`` does not wait for libraries.
"""

from dhsic import results, startup  # noqa: F401  # startup before all that takes time to load

# isort: split
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dhsic import datasets, detached, get, kernels, plans, selectors
    from dhsic.annotations import merge, select_genes
    from dhsic.conversion import convert
    from dhsic.detached import Run, attach
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
    from dhsic.interactions import find_pairs, marginal_interactions
    from dhsic.joins.filters import Filters
    from dhsic.joins.variables import read_target
    from dhsic.matrix import kernel_matrix
    from dhsic.plans import Plan, Rates
    from dhsic.relatedness import pca
    from dhsic.reports.html import report
    from dhsic.results.files import load, save
    from dhsic.results.nearest_genes import annotate
    from dhsic.results.views import selected_features
    from dhsic.selectors import (
        BAHSIC,
        BAHSICCV,
        CCM,
        FOHSIC,
        SVMRFE,
        FeatureWeighting,
        LinearHSIC,
        OnePass,
    )
    from dhsic.sources.opening import open_source
    from dhsic.structured import rank_kernels, rank_subgraphs, rank_substrings

    plan, select, submit = plans.plan, selectors.select, detached.submit
    select_many = selectors.select_many
    __version__: str

__all__ = [
    "BAHSIC",
    "BAHSICCV",
    "CCM",
    "FOHSIC",
    "SVMRFE",
    "CheckpointError",
    "ClusterError",
    "DataError",
    "DhsicError",
    "FeatureTests",
    "FeatureWeighting",
    "Filters",
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
    "annotate",
    "attach",
    "convert",
    "datasets",
    "find_pairs",
    "get",
    "hsic",
    "hsic_test",
    "hsic_variance",
    "kernel_matrix",
    "kernels",
    "load",
    "marginal_interactions",
    "merge",
    "open_source",
    "pca",
    "plan",
    "rank_kernels",
    "rank_subgraphs",
    "rank_substrings",
    "read_target",
    "report",
    "save",
    "select",
    "select_genes",
    "select_many",
    "selected_features",
    "submit",
    "test_features",
]

#: Public names of `__all__`, by the module that defines them.
_HOMES = {
    "annotations": "merge select_genes",
    "conversion": "convert",
    "detached": "Run attach submit",
    "errors": "CheckpointError ClusterError DataError DhsicError InputError MemoryBudgetError "
    "ScratchError StoreError",
    "independence": "FeatureTests TestResult hsic_test test_features",
    "independence.estimate": "hsic hsic_variance",
    "interactions": "find_pairs marginal_interactions",
    "joins.filters": "Filters",
    "joins.variables": "read_target",
    "matrix": "kernel_matrix",
    "plans": "Plan Rates plan",
    "relatedness": "pca",
    "reports.html": "report",
    "results.files": "load save",
    "results.nearest_genes": "annotate",
    "results.views": "selected_features",
    "selectors": "BAHSIC BAHSICCV CCM FOHSIC SVMRFE FeatureWeighting LinearHSIC OnePass select "
    "select_many",
    "sources.opening": "open_source",
    "structured": "rank_kernels rank_subgraphs rank_substrings",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
results.call_at_first_result(partial(import_module, "dhsic.accessor"))  # registers `.dhsic`


def __getattr__(name: str) -> Any:
    """Import and return a public name, or a module of dhsic."""
    if name in _HOME:
        value = getattr(import_module(f"dhsic.{_HOME[name]}"), name)
    elif name == "__version__":
        value = import_module("importlib.metadata").version("dhsic")
    elif name.startswith("_") or find_spec(f"dhsic.{name}") is None:
        raise AttributeError(f"module 'dhsic' has no attribute {name!r}")
    else:
        value = import_module(f"dhsic.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)


class _Front(ModuleType):
    """Type of the package, which keeps the attribute `hsic` a function.

    The import of the module `dhsic.hsic` would otherwise replace the function by the module.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "hsic" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Front
