"""How a matrix is brought into other chunks: by rectangles that fit into memory, in a pass or two.

A rectangle is read whole and written as whole chunks, so nothing is read twice to be written. But
where a stored chunk spans many rectangles (a sample of all features, of which a block of features
for all samples is wanted), it is decoded for each of them. Then the first pass writes what it has
read of some samples into chunks in between, narrow as those that are wanted, and the second one
gathers these. This is what the rechunker of Pangeo does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, prod

from dhsic.conversion.matrices import AbstractMatrix
from dhsic.errors import MemoryBudgetError
from dhsic.memory import SLACK_BYTES, human
from dhsic.sources import regular_edges
from dhsic.sources.codecs import AT_ONCE

#: How often a rectangle, or a chunk that is decoded, is in memory: decoded, turned, and encoded.
COPIES = 4
#: A rectangle is no larger where it need not be.
ENOUGH = 64 << 20
#: A pass that decodes each chunk so often is worth another one, which writes and reads once more.
OFTEN = 3.0


@dataclass(frozen=True)
class Pass:
    """Chunks (features, samples) that are written, by rectangles of whole ones."""

    chunks: tuple[int, int]
    rectangle: tuple[int, int]

    def rectangles(self, d: int, m: int) -> Iterator[tuple[slice, slice]]:
        """All of them: those of some samples after each other, as text is read."""
        for s, t in pairwise(regular_edges(m, self.rectangle[1]).tolist()):
            for a, b in pairwise(regular_edges(d, self.rectangle[0]).tolist()):
                yield slice(a, b), slice(s, t)

    def decoded(self, grid: tuple[int, int], shape: tuple[int, ...]) -> float:
        """How often a chunk of a grid is decoded, on average."""
        times = 1.0
        for n, run, chunk in zip(shape, self.rectangle, grid, strict=False):
            edges = regular_edges(n, run).tolist()
            times *= sum(ceil(b / chunk) - a // chunk for a, b in pairwise(edges))
            times /= ceil(n / chunk)
        return times


def passes_of(
    matrix: AbstractMatrix, chunks: tuple[int, int], process: int, memory: int
) -> list[Pass]:
    """One pass or two that bring a matrix into chunks, in so much memory.

    Parameters
    ----------
    process : int
        Bytes that the process holds already.

    Raises
    ------
    MemoryBudgetError
        It does not fit; both numbers are in the message.
    """
    room = room_of(matrix, process, memory)
    if room < prod(chunks):
        lacking = (prod(chunks) - room) * COPIES * matrix.value_bytes
        needed = human(memory + lacking)
        raise MemoryBudgetError(
            f"Converting a matrix of {matrix.shape[0]:,} features and {matrix.shape[1]:,} samples, "
            f"{human(matrix.chunk_bytes)} of which are stored in one chunk, needs peak memory "
            f"{needed}, and there are {human(memory)}. Raise the limit (memory=), if there is more."
        )
    direct = Pass(chunks, _direct(matrix, chunks, room))
    often = direct.decoded(matrix.grid, matrix.shape)
    between = _between(matrix, chunks, room)
    if often <= max(OFTEN, 2 * between.decoded(matrix.grid, matrix.shape)):
        return [direct]
    n = max(1, min(room, ENOUGH // matrix.value_bytes) // prod(chunks))
    return [between, Pass(chunks, (n * chunks[0], chunks[1]))]


def room_of(matrix: AbstractMatrix, process: int, memory: int) -> int:
    """Values of a rectangle that fit into memory."""
    n_chunks = prod(ceil(n / k) for n, k in zip(matrix.shape, matrix.grid, strict=False))
    held = process + SLACK_BYTES + COPIES * min(AT_ONCE, n_chunks) * matrix.chunk_bytes
    return (memory - held) // (COPIES * matrix.value_bytes)


def _direct(matrix: AbstractMatrix, chunks: tuple[int, int], room: int) -> tuple[int, int]:
    """Rectangle of whole chunks, with all samples where these fit."""
    (d, m), (width, height) = matrix.shape[:2], chunks
    enough = max(ENOUGH // matrix.value_bytes, width * height)
    samples = m if width * m <= room else max(height, room // width // height * height)
    wanted = max(enough // samples, min(matrix.grid[0], d))
    n = max(1, min(room // samples, wanted) // width)
    return min(n * width, ceil(d / width) * width), samples


def _between(matrix: AbstractMatrix, chunks: tuple[int, int], room: int) -> Pass:
    """Pass that reads all features of as many samples as fit, into chunks of these samples."""
    (d, m), width, (_, rows) = matrix.shape[:2], chunks[0], matrix.grid
    features = ceil(d / width) * width
    if features * rows > room:
        features = max(1, room // rows // width) * width
    samples = min(max(1, room // features // rows) * rows, m)
    return Pass((width, samples), (features, samples))
