"""Passes of several runs over the same features, of which most is done once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from dhsic.passes import AbstractSizedPass, Tile


class AbstractShared(AbstractSizedPass):
    """A pass that does for several runs at once what does not differ between them."""

    @property
    @abstractmethod
    def shares(self) -> Hashable:
        """What is the same in passes that are done together."""

    @classmethod
    @abstractmethod
    def together(cls, passes: Sequence[Any], blocks: Iterable[Tile], m: int) -> Sequence[Any]:
        """Results of passes that share that."""

    def over(self, blocks: Iterator[Tile], m: int) -> Any:
        return self.together([self], blocks, m)[0]

    @classmethod
    def over_all(cls, passes: Sequence[Any], blocks: Sequence[Tile], m: int) -> tuple[Any, ...]:
        found: list[Any] = [None] * len(passes)
        for shared in dict.fromkeys(each.shares for each in passes):
            alike = [i for i, each in enumerate(passes) if each.shares == shared]
            of_alike = cls.together([passes[i] for i in alike], blocks, m)
            for i, result in zip(alike, of_alike, strict=True):
                found[i] = result
        return tuple(found)
