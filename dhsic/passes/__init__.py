"""The one place where kernel, engine, runtime and source meet."""

from dhsic.passes.dependence import SourceDependence
from dhsic.passes.scaled import Reporter

__all__ = ["Reporter", "SourceDependence"]
