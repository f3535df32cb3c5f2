"""Data of the golden runs: made by whole-number arithmetic, so the same on every machine."""

from functools import cache

import numpy as np
import zarr
from stores import write, write_anndata, write_vcz


def integers(seed, n, *shape):
    """Whole numbers from 0 to below n, by SplitMix64 of their positions."""
    with np.errstate(over="ignore"):
        z = np.arange(1, np.prod(shape) + 1, dtype=np.uint64) + np.uint64(seed << 32)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) % np.uint64(n)).astype(np.int64).reshape(shape)


def bells(seed, *shape):
    """Values that are about standard normal, each a multiple of 1/512 and exact in float32."""
    return (integers(seed, 1024, 4, *shape).sum(axis=0) - 2046) / 512


@cache
def reals(m=90, d=110):
    """Real features; one is constant, one is the copy of another, one has a single carrier."""
    X = bells(d, m, d)
    X[:, 5] = 1.5
    X[:, 11] = X[:, 17]
    X[:, 23] = np.arange(m) == 4
    return X


@cache
def gaps():
    """The same in float32 with values missing, one feature wholly."""
    X = reals().astype(np.float32)
    X[integers(1, 25, *X.shape) == 0] = np.nan
    X[:, 30] = np.nan
    return X


@cache
def dosages(m=80, d=150):
    """Counts of alleles, commoner ones to the right; -1 where missing."""
    chance = 10 + 80 * np.arange(d) // d
    calls = (integers(2, 200, 2, m, d) < chance).sum(axis=0)
    calls[integers(3, 40, m, d) == 0] = -1
    return calls.astype(np.int8)


def alone_and_together(X):
    """A real target: one feature by itself, and two that say nothing but together."""
    X = np.nan_to_num(np.asarray(X, dtype=np.float64))
    return X[:, 7] + X[:, 40] * X[:, 31] + bells(4, len(X)) / 4


def classes(X, n=2):
    """The target cut into n classes of about the same size."""
    y = alone_and_together(X)
    return np.argsort(np.argsort(y, kind="stable"), kind="stable") * n // len(y)


def groups(d):
    """Genes of different sizes, whose features lie apart."""
    return np.array([f"g{k}" for k in integers(5, 19, d)])


def covariates(m):
    """Two columns that a target could follow."""
    return bells(6, m, 2)


STRINGS = tuple("".join("ACGT"[k] for k in row[: 8 + i % 5]) for i, row in
                enumerate(integers(7, 4, 24, 12)))  # fmt: skip


def graphs(n=16, nodes=6):
    """Undirected graphs with atoms at their nodes."""
    edges = np.triu(integers(8, 3, n, nodes, nodes) == 0, 1)
    atoms = integers(9, 3, n, nodes)
    return [(a | a.T, ["CNO"[k] for k in row]) for a, row in zip(edges, atoms, strict=True)]


def store(folder, kind):
    """Path of a small store, in chunks, with its labels where it can hold them."""
    path = folder / f"{kind}.zarr"
    if not path.exists():
        STORES[kind](path)
    return path


def _plain(path, X, chunks, **options):
    array = zarr.create_array(
        path, shape=X.T.shape, dtype=X.dtype, chunks=chunks, compressors=None, **options
    )
    array[...] = X.T


def _variants(path):
    calls = dosages()
    genotypes = np.stack([calls > 0, calls > 1], axis=2).astype(np.int8)
    genotypes[calls < 0] = -1
    group = write_vcz(path, genotypes.transpose(1, 0, 2), chunks=(40, 80, 2))
    write(group, "sample_trait", classes(calls).astype(np.int8), ("samples",))
    write(group, "variant_gene", groups(calls.shape[1]).astype(object), ("variants",))
    write(group, "variant_filter", integers(10, 4, 150, 1) > 0, ("variants", "filters"))
    write(group, "filter_id", np.array(["PASS"], object), ("filters",))


def _cells(path):
    X = reals().astype(np.float32)
    kinds = [f"c{k}" for k in classes(X, 3)]
    write_anndata(
        path, X, obs={"leiden": (kinds, "categorical"), "age": (bells(12, len(X)), "array")}
    )


STORES = {
    "chunks": lambda path: _plain(path, gaps(), (16, 90)),
    "shards": lambda path: _plain(path, gaps(), (10, 45), shards=(30, 90)),
    "dosages": lambda path: _plain(path, dosages(), (32, 80)),
    "wide": lambda path: _plain(path, reals(60, 5200).astype(np.float32), (700, 60)),
    "variants": _variants,
    "cells": _cells,
}
