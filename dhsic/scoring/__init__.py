"""The one place where kernel, engine, runtime and source meet."""

from dhsic.scoring.dependence import Reporter, SourceDependence

__all__ = ["Reporter", "SourceDependence"]
