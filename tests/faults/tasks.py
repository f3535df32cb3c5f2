"""Tasks that workers run in the tests of faults: pure, as all tasks are, but slow or greedy."""

from __future__ import annotations

import time

import numpy as np

MIB = 1 << 20


def slow_gram(source, job, state):
    """A result whose last bits depend on the order of its sums; a tenth of a second."""
    time.sleep(0.1)
    X = source.read(job.blocks[0])
    return X.astype(np.float64) @ (X.T @ state)


def greedy_columns(source, job, state):
    """Columns of all blocks, with so much memory for each block, where it is a greedy job."""
    is_greedy = any(block.index in state["greedy"] for block in job.blocks)
    held = [np.ones(state["bytes"], np.uint8) for _ in job.blocks if is_greedy]
    time.sleep(0.5 if is_greedy else 0.05)  # so that the nanny sees it
    parts = [source.read(block).T for block in job.blocks]
    assert all(array[-1] == 1 for array in held)
    return np.concatenate(parts)


def add_slowly(left, right):
    """Sum of two results, so late that faults hit the tasks that add them."""
    time.sleep(0.3)
    return left + right
