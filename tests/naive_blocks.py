"""Permutations that blocks of samples allow, and moments over all of them, in plain loops.

Nothing here is shared with the package.
"""

from itertools import permutations, product


def strata_of(units, within):
    """Lists of the numbers of units in each stratum; `within` is the stratum of each unit."""
    names = sorted(set(within))
    return [[u for u in range(units) if within[u] == name] for name in names]


def orders(within):
    """All orders of the units in which each unit stays in its stratum."""
    groups = strata_of(len(within), within)
    for choice in product(*(permutations(group) for group in groups)):
        order = list(range(len(within)))
        for group, chosen in zip(groups, choice, strict=True):
            for place, unit in zip(group, chosen, strict=True):
                order[place] = unit
        yield order


def block_means(values, blocks):
    """Mean of the values of the samples of each block, in the sorted order of the blocks."""
    out = []
    for name in sorted(set(blocks)):
        own = [v for v, b in zip(values, blocks, strict=True) if b == name]
        out.append(sum(own) / len(own))
    return out


def centred(values, within):
    """Values of units less the mean of their stratum."""
    out = list(values)
    for group in strata_of(len(within), within):
        mean = sum(values[u] for u in group) / len(group)
        for u in group:
            out[u] -= mean
    return out


def product_moments(a, b, within):
    """Mean and variance of ``sum_u a_u b_order(u)`` over all orders."""
    drawn = [sum(x * b[v] for x, v in zip(a, order, strict=True)) for order in orders(within)]
    mean = sum(drawn) / len(drawn)
    return mean, sum((z - mean) ** 2 for z in drawn) / len(drawn)


def hsic_moments(functions, weights, directions, mu, within):
    """Mean, variance and skewness of HSIC over all orders of the labels.

    HSIC is ``sum_rs weights_r mu_s z_rs^2``, with products z divided by their standard deviations.
    """
    scale = [[product_moments(f, b, within)[1] for b in directions] for f in functions]
    drawn = []
    for order in orders(within):
        total = 0.0
        for r, f in enumerate(functions):
            for s, b in enumerate(directions):
                z = sum(x * b[v] for x, v in zip(f, order, strict=True))
                total += weights[r] * mu[s] * z * z / scale[r][s]
        drawn.append(total)
    mean = sum(drawn) / len(drawn)
    variance = sum((t - mean) ** 2 for t in drawn) / len(drawn)
    third = sum((t - mean) ** 3 for t in drawn) / len(drawn)
    return mean, variance, third / variance**1.5


def assignments(labels, within):
    """All distinct assignments of labels to units that the strata allow."""
    return sorted({tuple(labels[v] for v in order) for order in orders(within)})
