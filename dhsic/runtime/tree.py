"""Sums that are the same bit for bit however many workers add them up.

The results of n jobs are the leaves of a binary tree, two neighbours of which are added at a time:
node k of level l is the sum over jobs ``k 2^l`` to ``(k + 1) 2^l``, as far as there are so many.
The tree follows from n alone. Who has a run of neighbouring jobs adds the nodes that lie in it,
which leaves at most two of a level, and who gets the nodes of all runs adds the rest. Of jobs that
come in their order no more than one node of a level is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import islice
from typing import Any

#: Level of a node, and its number there.
Place = tuple[int, int]
#: Sum of two results; the left one may be overwritten.
Add = Callable[[Any, Any], Any]


class Tree:
    """Nodes over some of `n_jobs` jobs, and how two are added.

    `nodes` are sums that have no neighbour to be added to yet, by their places.

    >>> tree = Tree(lambda left, right: f"({left}{right})", 5)
    >>> for job, result in enumerate("abcde"):
    ...     tree.put(result, (0, job))
    >>> tree.total
    '(((ab)(cd))e)'
    """

    def __init__(self, add: Add, n_jobs: int) -> None:
        self._add, self._n = add, n_jobs
        self.nodes: dict[Place, Any] = {}

    def put(self, found: Any, place: Place) -> None:
        """Add a node, and all that can be added with it; the result of a job is one of level 0."""
        level, number = place
        while (1 << level) < self._n:
            neighbour = self.nodes.pop((level, number ^ 1), self)
            if neighbour is not self:
                two = (neighbour, found) if number % 2 else (found, neighbour)
                found = self._add(*two)
            elif (number ^ 1) << level < self._n:  # it is to come
                break
            level, number = level + 1, number // 2
        self.nodes[level, number] = found

    def take(self, nodes: dict[Place, Any]) -> None:
        """Add nodes that others may still need: what would be overwritten is copied."""
        for place, found in nodes.items():
            is_left = not place[1] % 2
            self.put(deepcopy(found) if is_left else found, place)

    @property
    def total(self) -> Any:
        """Sum over all jobs, once all of them are in it."""
        (found,) = self.nodes.values()
        return found


def total(add: Add, results: Iterable[Any], n: int) -> Any:
    """Sum of the next n results, along their tree; None of none.

    >>> total(lambda left, right: f"({left}{right})", "abc", 3)
    '((ab)c)'
    """
    tree = Tree(add, n)
    for number, result in enumerate(islice(results, n)):
        tree.put(result, (0, number))
    return tree.total if n else None


def n_nodes(jobs: range, n_jobs: int) -> int:
    """Nodes that neighbouring jobs out of so many leave.

    >>> n_nodes(range(3, 8), 9), n_nodes(range(9), 9)
    (2, 1)
    """
    tree = Tree(lambda left, _: left, n_jobs)
    for job in jobs:
        tree.put(None, (0, job))
    return len(tree.nodes)
