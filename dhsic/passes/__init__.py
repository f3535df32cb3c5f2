"""The one place where kernel, engine, runtime and source meet."""

from dhsic.passes.dependence import Reporter, SourceDependence

__all__ = ["Reporter", "SourceDependence"]
