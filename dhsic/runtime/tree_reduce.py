"""Tree reduction: sums that are the same bit for bit for any number of workers.

The results of n jobs are the leaves of a binary tree. Neighbours are added in pairs: node k of
level l is the sum over jobs ``k 2^l`` to ``(k + 1) 2^l - 1``, as far as these exist. The tree
depends on n alone. A worker with a range of neighbouring jobs adds the nodes inside this range,
which leaves at most two nodes per level. The process that receives the nodes of all ranges adds
them. If jobs arrive in order, at most one node per level is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import islice
from typing import Any

#: Level of a node, and its number within the level.
Place = tuple[int, int]
#: Sum of two results; the left one may be overwritten.
Add = Callable[[Any, Any], Any]


class Tree:
    """Partial reduction over some of `n_jobs` jobs by the function `add`.

    `nodes` maps places (level, number) to sums, for the nodes that still wait for their neighbour.

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
        """Insert the sum of the tree node at `place`.

        All pairs that are now complete are added. The result of a job is a node of level 0.
        """
        level, number = place
        while (1 << level) < self._n:
            neighbour = self.nodes.pop((level, number ^ 1), self)
            if neighbour is not self:
                two = (neighbour, found) if number % 2 else (found, neighbour)
                found = self._add(*two)
            elif (number ^ 1) << level < self._n:  # the neighbour is still missing
                break
            level, number = level + 1, number // 2
        self.nodes[level, number] = found

    def take(self, nodes: dict[Place, Any]) -> None:
        """Insert the partial sums (tree nodes) of another task without changing their arrays.

        Other tasks may still read these arrays, so left operands are copied before results are
        added to them in place.
        """
        for place, node in nodes.items():
            is_left = not place[1] % 2
            self.put(deepcopy(node) if is_left else node, place)

    @property
    def total(self) -> Any:
        """Sum over all jobs, once all of them have been inserted."""
        (root,) = self.nodes.values()
        return root


def total(add: Add, results: Iterable[Any], n: int) -> Any:
    """Return the sum of the next n results along their tree; None if n is 0.

    >>> total(lambda left, right: f"({left}{right})", "abc", 3)
    '((ab)c)'
    """
    tree = Tree(add, n)
    for number, result in enumerate(islice(results, n)):
        tree.put(result, (0, number))
    return tree.total if n else None


def n_nodes(jobs: range, n_jobs: int) -> int:
    """Return the number of tree nodes that remain after adding the results of a range of jobs.

    `jobs` are neighbours among `n_jobs` jobs.

    >>> n_nodes(range(3, 8), 9), n_nodes(range(9), 9)
    (2, 1)
    """
    tree = Tree(lambda left, _: left, n_jobs)
    for job in jobs:
        tree.put(None, (0, job))
    return len(tree.nodes)
