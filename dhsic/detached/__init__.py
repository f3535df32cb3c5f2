"""Runs that outlive the process that started them: `submit`, `attach`, `Run`."""

from dhsic.detached.attach import attach
from dhsic.detached.run import Run
from dhsic.detached.submit import submit

__all__ = ["Run", "attach", "submit"]
