"""Genotypes of simulated samples with linkage: unrelated ones, and families of two populations.

Haplotypes are mosaics of the founders of their population; children get theirs from their parents,
with one crossover per chromosome.
"""

import numpy as np

#: Chromosomes, variants of each, founders of a population, and share of places where a mosaic
#: changes its founder.
CHROMOSOMES, VARIANTS, FOUNDERS, SWITCH = 19, 300, 60, 0.05
#: Samples, children of a family, and distance of the two populations (F_ST).
SAMPLES, CHILDREN, DISTANCE = 1_500, 4, 0.05
#: Least frequency of the rarer allele.
RARER = 0.05


def founders(rng, frequency):
    """Haplotypes of the founders of a population, (`FOUNDERS`, d), in linkage."""
    ancestors = rng.random((12, frequency.size)) < frequency
    return mosaic(rng, ancestors, FOUNDERS, 0.2)


def mosaic(rng, haplotypes, n, switch=SWITCH):
    """n mosaics of haplotypes (k, d)."""
    d = haplotypes.shape[1]
    changes = rng.random((n, d)) < switch
    changes[:, ::VARIANTS] = True
    source = np.where(changes, rng.integers(len(haplotypes), size=(n, d)), 0)
    last = np.maximum.accumulate(np.where(changes, np.arange(d), 0), axis=1)
    return haplotypes[np.take_along_axis(source, last, axis=1), np.arange(d)]


def gamete(rng, parent):
    """Haplotype of a parent, haplotypes (2, d), with one crossover per chromosome."""
    d = parent.shape[1]
    within = np.arange(d) % VARIANTS
    crossover = np.repeat(rng.integers(VARIANTS, size=CHROMOSOMES), VARIANTS)
    first = np.repeat(rng.integers(2, size=CHROMOSOMES), VARIANTS)
    return parent[(first + (within > crossover)) % 2, np.arange(d)]


def unrelated(rng):
    """Genotypes (m, d) of unrelated samples of one population, and chromosomes (d,)."""
    d = CHROMOSOMES * VARIANTS
    pool = founders(rng, rng.uniform(0.1, 0.9, d))
    haplotypes = mosaic(rng, pool, 2 * SAMPLES).reshape(SAMPLES, 2, d)
    return common(haplotypes.sum(axis=1))


def families(rng):
    """Genotypes (m, d) of families, half of each of two populations, and chromosomes (d,)."""
    d, people = CHROMOSOMES * VARIANTS, []
    frequency = rng.uniform(0.1, 0.9, d)
    for _ in range(2):
        scale = (1 - DISTANCE) / DISTANCE
        own = rng.beta(frequency * scale, (1 - frequency) * scale)
        pool = founders(rng, own)
        for _ in range(SAMPLES // (2 * (CHILDREN + 2))):
            parents = mosaic(rng, pool, 4).reshape(2, 2, d)
            people += [*parents]
            people += [
                np.stack([gamete(rng, parents[0]), gamete(rng, parents[1])])
                for _ in range(CHILDREN)
            ]
    return common(np.stack(people).sum(axis=1))


def common(X):
    """Variants of a frequency of `RARER` or more, (m, d'), and their chromosomes (d',)."""
    frequency = X.mean(axis=0) / 2
    at = np.flatnonzero(np.minimum(frequency, 1 - frequency) >= RARER)
    return X[:, at].astype(np.int8), at // VARIANTS + 1
