"""Plans: what a run will take, said before anything runs."""

from dhsic.plans.asking import plan
from dhsic.plans.plan import Plan
from dhsic.plans.time import Rates

__all__ = ["Plan", "Rates", "plan"]
