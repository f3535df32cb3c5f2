"""The definitions, as plain loops: the one slow truth that everything else is compared with.

Nothing here is shared with the package. Formulas are those of Song et al. 2012 (JMLR 13); the
number of each stands beside it. Lists and floats, float64 throughout.
"""

import math
from itertools import combinations, pairwise, permutations

import numpy as np

TIE = 1e-10  # gains closer than this, relative to the round's largest, are equal


# -- kernels on data (JMLR 5.1) -----------------------------------------------------------------


def linear(x, z, sigma):
    return sum(a * b for a, b in zip(x, z, strict=True))


def polynomial(x, z, sigma, degree=2, offset=1.0):
    return (linear(x, z, sigma) + offset) ** degree


def gaussian(x, z, sigma):
    return math.exp(-sigma * sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))


KERNELS = {"linear": linear, "polynomial": polynomial, "gaussian": gaussian}


def gram(X, kernel, sigma):
    """K_ij = k(x_i, x_j); X is a list of samples, the kernel a name or a function of two."""
    k = kernel if callable(kernel) else KERNELS[kernel]
    return [[k(x, z, sigma) for z in X] for x in X]


# -- kernels on labels (JMLR 5.2) ---------------------------------------------------------------


def label_gram(y, kernel):
    m = len(y)
    size = {c: sum(1 for v in y if v == c) for c in y}
    if kernel in ("binary", "balanced"):
        positive = max(size)
        sign = [1.0 if v == positive else -1.0 for v in y]
        if kernel == "balanced":  # eq. 17
            sign = [s / size[v] for s, v in zip(sign, y, strict=True)]
        return [[a * b for b in sign] for a in sign]  # eq. 16
    if kernel == "multiclass":  # eq. 18
        return [[1.0 / size[a] if a == b else 0.0 for b in y] for a in y]
    if kernel == "one-vs-rest":  # eq. 19
        classes = sorted(size)

        def psi(v):
            return [
                (m / (size[v] * (m - size[v])) if c == v else 0.0) - 1.0 / (m - size[c])
                for c in classes
            ]

        return [[sum(p * q for p, q in zip(psi(a), psi(b), strict=True)) for b in y] for a in y]
    if kernel == "linear":
        return [[a * b for b in y] for a in y]
    if kernel == "gaussian":  # eq. 20, the width w being the median distance
        squares = sorted((y[i] - y[j]) ** 2 for i in range(m) for j in range(i + 1, m))
        sigma = 1.0 / (2.0 * _median_or_positive(squares))
        return [[math.exp(-sigma * (a - b) ** 2) for b in y] for a in y]
    raise KeyError(kernel)


def _median(values):
    values = sorted(values)
    n = len(values)
    return values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2


def _median_or_positive(squares):
    middle = _median(squares)
    return middle if middle > 0 else _median([s for s in squares if s > 0])


# -- HSIC (JMLR 2.2) ----------------------------------------------------------------------------


def hsic(K, L, statistic):
    return {"biased": biased, "unbiased": unbiased}[statistic](K, L)


def biased(K, L):
    """Eq. 4: tr(K H L H) / (m - 1)^2."""
    m = len(K)
    H = [[(1.0 if i == j else 0.0) - 1.0 / m for j in range(m)] for i in range(m)]
    HLH = _product(_product(H, L), H)
    return sum(K[i][j] * HLH[j][i] for i in range(m) for j in range(m)) / (m - 1) ** 2


def unbiased(K, L):
    """Eq. 5, with Kt and Lt the matrices without their diagonals."""
    m = len(K)
    Kt = [[0.0 if i == j else K[i][j] for j in range(m)] for i in range(m)]
    Lt = [[0.0 if i == j else L[i][j] for j in range(m)] for i in range(m)]
    trace = sum(Kt[i][j] * Lt[j][i] for i in range(m) for j in range(m))
    sum_K = sum(map(sum, Kt))
    sum_L = sum(map(sum, Lt))
    cross = sum(sum(Kt[i]) * sum(Lt[i]) for i in range(m))  # 1' Kt Lt 1
    inner = trace + sum_K * sum_L / ((m - 1) * (m - 2)) - 2.0 / (m - 2) * cross
    return inner / (m * (m - 3))


def _product(A, B):
    columns = list(zip(*B, strict=True))
    return [[sum(a * b for a, b in zip(row, col, strict=True)) for col in columns] for row in A]


# -- the data (JMLR 3) --------------------------------------------------------------------------


def standardise(X, scale=True):
    """Zero mean and, with `scale`, unit population deviation; NaN becomes the mean, that is 0.

    By "presence", a feature of which q < 1/2 are not of its most common value has the deviation
    sqrt(4 q (1 - q)).
    """
    m, d = len(X), len(X[0])
    out = [[0.0] * d for _ in range(m)]
    for j in range(d):
        known = [X[i][j] for i in range(m) if not math.isnan(X[i][j])]
        mean = sum(known) / len(known)
        full = [mean if math.isnan(X[i][j]) else X[i][j] for i in range(m)]
        spread = math.sqrt(sum((v - mean) ** 2 for v in full) / m)
        q = 1 - max(known.count(v) for v in known) / len(known)
        if scale == "presence" and q < 0.5:
            spread /= math.sqrt(4 * q * (1 - q))
        for i in range(m):
            out[i][j] = (full[i] - mean) / (spread if scale else 1.0)
    return out


def scaled(X):
    """By presence, but data of nothing but 0, 1 and 2 keep their scale."""
    only = all(math.isnan(v) or v in (0, 1, 2) for row in X for v in row)
    return standardise(X, scale=False if only else "presence")


# -- Algorithm 1 (JMLR 4.1) ---------------------------------------------------------------------


def median_sigma(X):
    m = len(X)
    squares = [
        sum((a - b) ** 2 for a, b in zip(X[i], X[j], strict=True))
        for i in range(m)
        for j in range(i + 1, m)
    ]
    return 1.0 / (2.0 * _median_or_positive(squares))


def choose_sigma(bandwidth, X, L, kernel, statistic):
    """Line 3: the three policies, and the median."""
    if bandwidth == "dimension":
        return 1.0 / (2.0 * len(X[0]))
    if bandwidth == "median":
        return median_sigma(X)
    if isinstance(bandwidth, (list, tuple)):
        return max(sorted(bandwidth), key=lambda s: hsic(gram(X, kernel, s), L, statistic))
    return bandwidth


def bahsic(X, L, kernel="gaussian", bandwidth="dimension", statistic="unbiased", step=0.1):
    """S-dagger: all features, the least relevant first. X is standardised, a list of samples."""
    S = list(range(len(X[0])))
    S_dagger = []  # 1
    while S:  # 2 and 7
        XS = columns(X, S)
        sigma = choose_sigma(bandwidth, XS, L, kernel, statistic)  # 3
        whole = hsic(gram(XS, kernel, sigma), L, statistic)
        gains = []
        for j in S:
            rest = [k for k in S if k != j]
            gains.append(hsic(gram(columns(X, rest), kernel, sigma), L, statistic) - whole)
        n = max(1, math.floor(step * len(S))) if isinstance(step, float) else min(step, len(S))
        chosen = [S[p] for p in largest(gains, n)]  # 4
        S = [j for j in S if j not in chosen]  # 5
        S_dagger += chosen  # 6
    return S_dagger


def fohsic(X, L, n_wanted, kernel="gaussian", sigma=None, statistic="unbiased", step=1):
    """S-dagger of Algorithm 2, the most relevant first; sigma None for 1 / (2 |S-dagger + j|)."""
    S = list(range(len(X[0])))
    S_dagger = []  # 1
    while S:  # 2 and 7
        width = sigma or 1.0 / (2.0 * (len(S_dagger) + 1))  # 3
        gains = additions(X, L, S_dagger, S, kernel, width, statistic)
        n = max(1, math.floor(step * len(S))) if isinstance(step, float) else min(step, len(S))
        n = len(S) if len(S_dagger) + n >= n_wanted else n
        chosen = [S[p] for p in largest(gains, n)]  # 4
        S = [j for j in S if j not in chosen]  # 5
        S_dagger += chosen  # 6
    return S_dagger


def additions(X, L, S_dagger, S, kernel, sigma, statistic):
    """HSIC(sigma, S-dagger + {j}) - HSIC(sigma, S-dagger) for j in S."""
    before = value_of(X, L, S_dagger, kernel, sigma, statistic)
    return [value_of(X, L, [*S_dagger, j], kernel, sigma, statistic) - before for j in S]


def value_of(X, L, T, kernel, sigma, statistic):
    """HSIC(sigma, T); samples of no features are all alike."""
    return hsic(gram(columns(X, T) if T else [[0.0]] * len(X), kernel, sigma), L, statistic)


def grouped(X, L, groups, forward, n_wanted, kernel="gaussian", statistic="unbiased"):
    """Algorithm 1 or 2 with a group at a time, one a round: S-dagger, a list of groups."""
    size = len(groups) / len(set(groups))

    def value(chosen, sigma):
        T = [j for j in range(len(groups)) if groups[j] in chosen]
        return value_of(X, L, T, kernel, sigma, statistic)

    S, S_dagger = sorted(set(groups)), []
    while S:
        inside = S_dagger if forward else S
        n = sum(g in inside for g in groups) + (size if forward else 0)
        sigma = 1.0 / (2.0 * n)
        before = value(inside, sigma)
        sets = [[*inside, g] if forward else [k for k in S if k != g] for g in S]
        gains = [value(chosen, sigma) - before for chosen in sets]
        last = forward and len(S_dagger) + 1 >= n_wanted
        found = [S[p] for p in largest(gains, len(S) if last else 1)]
        S = [g for g in S if g not in found]
        S_dagger += found
    return S_dagger


def floating(X, L, n_wanted, kernel="gaussian", statistic="unbiased"):
    """S-dagger of floating selection (Pudil et al. 1994), sigma = 1 / (2 |T|) for a set T."""

    def value(T):
        return value_of(X, L, T, kernel, 1.0 / (2.0 * len(T)), statistic)

    S, T, best = list(range(len(X[0]))), [], {}
    while len(T) < n_wanted:
        gains = additions(X, L, T, S, kernel, 1.0 / (2.0 * (len(T) + 1)), statistic)
        i = S[largest(gains, 1)[0]]
        S.remove(i)
        T.append(i)
        reached = {len(T): value(T)}
        while len(T) >= 3:
            values = [value([k for k in T if k != j]) for j in T]
            p = largest(values, 1)[0]
            known = best.get(len(T) - 1)
            if T[p] == i or (known is not None and values[p] <= known + TIE * abs(known)):
                break
            S = sorted([*S, T.pop(p)])
            reached[len(T)] = values[p]
        for size, number in reached.items():
            best[size] = max(number, best.get(size, number))
    if S:
        gains = additions(X, L, T, S, kernel, 1.0 / (2.0 * (len(T) + 1)), statistic)
        T += [S[p] for p in largest(gains, len(S))]
    return T


def columns(X, S):
    return [[row[j] for j in S] for row in X]


def largest(gains, n):
    """Positions of the n largest gains; a chain of ties goes by position."""
    tie = TIE * max(abs(g) for g in gains)
    by_gain = sorted(range(len(gains)), key=lambda p: -gains[p])
    chains = [[by_gain[0]]]
    for before, after in pairwise(by_gain):
        if gains[before] - gains[after] > tie:
            chains.append([])
        chains[-1].append(after)
    return [p for chain in chains for p in sorted(chain)][:n]


def bahsic_gaussian_in_arrays(X, L, statistic="unbiased", step=0.1):
    """`bahsic` for the Gaussian with sigma = 1/(2|S|), loops over features only.

    The same definition with NumPy inside, for hundreds of features; a test holds it to the
    plain loops above.
    """
    X, L = np.asarray(X, dtype=float), np.asarray(L, dtype=float)
    value = {"biased": _biased_array, "unbiased": _unbiased_array}[statistic]
    squares = [np.subtract.outer(x, x) ** 2 for x in X.T]
    S = list(range(X.shape[1]))
    S_dagger = []
    while S:
        sigma = 1.0 / (2.0 * len(S))
        D = sum(squares[j] for j in S)
        whole = value(np.exp(-sigma * D), L)
        gains = [value(np.exp(-sigma * (D - squares[j])), L) - whole for j in S]
        n = max(1, math.floor(step * len(S)))
        chosen = [S[p] for p in largest(gains, n)]
        S = [j for j in S if j not in chosen]
        S_dagger += chosen
    return S_dagger


def _biased_array(K, L):
    m = len(K)
    H = np.eye(m) - 1.0 / m
    return float(np.sum(K * (H @ L @ H))) / (m - 1) ** 2


def _unbiased_array(K, L):
    m = len(K)
    Kt, Lt = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    inner = np.sum(Kt * Lt) + Kt.sum() * Lt.sum() / ((m - 1) * (m - 2))
    return float(inner - 2 / (m - 2) * (Kt.sum(0) @ Lt.sum(0))) / (m * (m - 3))


# -- HSIC in linear time and its variance (JMLR 2.5, 2.6) ---------------------------------------


def h(K, L, quadruple):
    """Eq. 11: the kernel of the U-statistic on four samples."""
    return sum(
        K[s][t] * (L[s][t] + L[u][v] - 2.0 * L[s][u]) for s, t, u, v in permutations(quadruple)
    ) / math.factorial(4)


def u_statistic(K, L):
    """Eq. 10: HSIC_1 as the mean of h over all quadruples; h is symmetric, so each once."""
    values = [h(K, L, quadruple) for quadruple in combinations(range(len(K)), 4)]
    return sum(values) / len(values)


def variance(K, L):
    """Eq. 15: Theorem 5."""
    m = len(K)
    squares = []
    for i in range(m):
        others = [j for j in range(m) if j != i]
        values = [h(K, L, (i, *triple)) for triple in combinations(others, 3)]
        squares.append((sum(values) / len(values)) ** 2)
    R = sum(squares) / m
    return 16.0 / m * (R - unbiased(K, L) ** 2)


def printed_variance(K, L):
    """Eq. 15 by the vector h that stands, in matrices, above section 2.6."""
    K, L = np.array(K, dtype=float), np.array(L, dtype=float)
    np.fill_diagonal(K, 0.0)
    np.fill_diagonal(L, 0.0)
    m, one = len(K), np.ones(len(K))
    vector = (
        (m - 2) ** 2 * (K * L) @ one
        + (m - 2) * (np.trace(K @ L) * one - K @ L @ one - L @ K @ one)
        - m * (K @ one) * (L @ one)
        + (one @ L @ one) * (K @ one)
        + (one @ K @ one) * (L @ one)
        - (one @ K @ L @ one) * one
    )
    R = vector @ vector / (4 * m * ((m - 1) * (m - 2) * (m - 3)) ** 2)
    return 16.0 / m * (R - _unbiased_array(K, L) ** 2)


# -- low-rank factors (JMLR 2.6.2) --------------------------------------------------------------


def nystrom(K, landmarks):
    """``K_mb K_bb^{-1} K_bm``; K_bb is regular."""
    b = len(landmarks)
    solved = _solve([[K[i][j] for j in landmarks] for i in landmarks], [K[i] for i in landmarks])
    return [
        [sum(row[landmarks[a]] * solved[a][j] for a in range(b)) for j in range(len(K))]
        for row in K
    ]


def _solve(A, B):
    """``A^{-1} B`` by Gaussian elimination, the largest pivot first."""
    n = len(A)
    rows = [list(a) + list(b) for a, b in zip(A, B, strict=True)]
    for k in range(n):
        largest_row = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[largest_row] = rows[largest_row], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
    return [row[n:] for row in rows]


def incomplete_cholesky(K, rank):
    """What `rank` greedy pivots make of K, and the pivots (Fine and Scheinberg, 2000)."""
    m = len(K)
    residual = [list(row) for row in K]
    pivots = []
    for _ in range(rank):
        p = max(range(m), key=lambda i: residual[i][i])
        pivots.append(p)
        pivot_row = list(residual[p])
        for i in range(m):
            for j in range(m):
                residual[i][j] -= pivot_row[i] * pivot_row[j] / pivot_row[p]
    approximation = [[K[i][j] - residual[i][j] for j in range(m)] for i in range(m)]
    return approximation, pivots


def off_diagonal_error(K, A):
    """``||K - A||_F / ||K||_F`` without the diagonals."""
    pairs = [(i, j) for i in range(len(K)) for j in range(len(K)) if i != j]
    wrong = sum((K[i][j] - A[i][j]) ** 2 for i, j in pairs)
    return math.sqrt(wrong / sum(K[i][j] ** 2 for i, j in pairs))
