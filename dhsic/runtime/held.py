"""Values that live where they were made, and what is done with them there.

A *site* has one value: a slice of samples its part of a statistic, a block of features what was
taken of them. In a step the results of the jobs of a site are added along the tree over its jobs
(`dhsic.runtime.tree`), and with the old value they make a new one, which stays, and a *part*, which
is small. Parts are added along the tree over the sites, and their sum alone goes anywhere. Both
trees follow from the sites, so no bit depends on who has which of them, or on how often a step is
done again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from dhsic.linalg.quadratic import Each
from dhsic.runtime.tree import Add, Tree

if TYPE_CHECKING:
    from dhsic.runtime.base import Job
    from dhsic.sources import AbstractSource


@dataclass(frozen=True, slots=True)
class Site:
    """Where a value lives: the jobs of a step there, and what else the step is told of it."""

    jobs: tuple[Job, ...] = ()
    told: Any = None


class AbstractStep(ABC):
    """What is done at every site. Frozen, picklable."""

    #: Whether values change; else parts alone are wanted, and nothing is read.
    renews: bool = True

    @abstractmethod
    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        """Result of a job."""

    @abstractmethod
    def add(self, left: Any, right: Any) -> Any:
        """Sum of the results of two jobs of a site; the left one may be overwritten."""

    @abstractmethod
    def finish(self, value: Any, total: Any, told: Any, state: Any, each: Each) -> tuple[Any, Any]:
        """New value of a site, and its part of what all of them give.

        The old value, None at first, may not be written in; `total` is None where there is no job.
        What `each` is given threads may share out.
        """

    @abstractmethod
    def join(self, left: Any, right: Any) -> Any:
        """Sum of the parts of two sites; the left one may be overwritten."""


#: What is asked of a value: function of it, of what is told of its site, and of a state.
Ask = Callable[[Any, Any, Any], Any]
#: What makes one thing of the answers of all sites.
Make = Callable[[Sequence[Any]], Any]


class Held:
    """Values of all sites, as the runtime that made them keeps them: here in this process."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)


def total(add: Add, results: Iterable[Any], n: int) -> Any:
    """Sum of the next n results, along their tree; None of none.

    >>> total(lambda left, right: f"({left}{right})", "abc", 3)
    '((ab)c)'
    """
    tree = Tree(add, n)
    for number, result in enumerate(islice(results, n)):
        tree.put(result, (0, number))
    return tree.total if n else None
