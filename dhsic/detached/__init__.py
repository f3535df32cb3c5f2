"""Runs that outlive the process that started them: `submit`, `attach`, `Run`."""

from dhsic.detached.run import Run, attach
from dhsic.detached.submit import submit

__all__ = ["Run", "attach", "submit"]
