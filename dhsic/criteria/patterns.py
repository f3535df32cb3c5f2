r"""Permutation moments of HSIC for features with ties, from sums over their levels.

The kernel matrix of a feature is ``A = Psi' diag(lambda) Psi``, where Psi (R, m) are its functions
divided by ``sqrt(m)``, constant on each level. The sums over A that moments need (`NullOf`) follow
from the functions at the levels, (R, q), and the numbers of samples of the levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float


@dataclass(frozen=True, eq=False)
class PatternSums:
    """Sums over the kernel matrices A of c features at n widths, for `NullOf.moments`.

    Attributes
    ----------
    trace : (c, n)
        Trace of A.
    second, third : (c, n, 2) and (c, n, 5)
        Sums over A after its trace is removed, see `dhsic.criteria.null.sums_over`.
    gram : (c, R, R)
        Gram matrix of the functions, ``Psi Psi'``.
    n_samples : (c,)
        Number of samples with a value, per feature.
    """

    trace: Float
    second: Float
    third: Float
    gram: Float
    n_samples: Float

    @staticmethod
    def of(functions: Float, counts: Float, weights: Float) -> PatternSums:
        """Compute the sums of c features with q levels.

        Parameters
        ----------
        functions : (c, R, q)
            Functions at the levels, with mean 0 over the samples.
        counts : (c, q)
            Number of samples in each level; it may be 0.
        weights : (n, R)
            Weights of the functions at each width, lambda.
        """
        m = counts.sum(axis=1)
        psi = functions / np.sqrt(m)[:, None, None]
        gram = (psi * counts[:, None, :]) @ psi.transpose(0, 2, 1)
        parts = [_of_width(psi, counts, gram, row) for row in weights]
        trace, second, third = (np.stack(each, axis=1) for each in zip(*parts, strict=True))
        return PatternSums(trace, second, third, gram, m)

    def without(self, explained: Float, weights: Float) -> PatternSums:
        """Return the sums over the kernel matrices after covariates are projected out.

        Only the traces are projected. The other sums are assumed to decrease in proportion to the
        norm.

        Parameters
        ----------
        explained : (c, R, p)
            Products of Psi and an orthonormal basis of the covariates. If the present sums are
            those of one feature, the result is for all c features.
        weights : (n, R)
            Weights of the functions, see `of`.
        """
        gram = self.gram - explained @ explained.transpose(0, 2, 1)
        traces, seconds, thirds = [], [], []
        for number, row in enumerate(weights):
            trace, squared, cubes = _traces(gram, row, self.n_samples)
            second, third = self.second[:, number], self.third[:, number]
            squares = np.broadcast_to(second[:, 1], squared.shape)
            smaller = np.divide(squared, squares, out=np.zeros_like(squared), where=squares > 0)
            traces.append(trace)
            seconds.append(np.column_stack([second[:, 0] * smaller, squared]))
            thirds.append(np.column_stack([third[:, :4] * smaller[:, None] ** 1.5, cubes]))
        trace, second, third = (np.stack(each, axis=1) for each in (traces, seconds, thirds))
        return PatternSums(trace, second, third, gram, np.broadcast_to(self.n_samples, len(gram)))


def _of_width(psi: Float, counts: Float, gram: Float, row: Float) -> tuple[Float, Float, Float]:
    """Trace of A (c,), and sums of order 2 (c, 2) and 3 (c, 5), at one kernel width.

    `psi` are the functions at the levels, `row` are their weights, and `gram` is ``Psi Psi'``.
    """
    m = counts.sum(axis=1)
    trace, squares, cubes = _traces(gram, row, m)
    less = trace / (m - 1.0)
    kappa = (psi * row[:, None]).transpose(0, 2, 1) @ psi + (less / m)[:, None, None]
    own = np.einsum("cll->cl", kappa)
    a = own - less[:, None]  # diagonal of A without its trace
    square = kappa * kappa
    of_rows = (square @ counts[:, :, None])[..., 0] - own * own + a * a
    cube_rows = ((square * kappa) @ counts[:, :, None])[..., 0] - own**3 + a**3
    na = counts * a
    inner = (kappa @ na[:, :, None])[..., 0] - less[:, None] * a
    second = np.stack([np.vecdot(na, a), squares], axis=1)
    third = [
        np.vecdot(na, a * a),
        np.vecdot(counts, cube_rows),
        np.vecdot(na, of_rows),
        np.vecdot(na, inner),
        cubes,
    ]
    return trace, second, np.stack(third, axis=1)


def _traces(gram: Float, row: Float, m: Float) -> tuple[Float, Float, Float]:
    """Trace of A, and traces of its square and cube after its trace is removed, (c,) each.

    A is the matrix of each feature, for which HSIC is ``<C, A>`` with the label matrix C.
    """
    used = row > 1e-9
    root = np.sqrt(row[used])
    M = gram[:, used][:, :, used] * root[:, None] * root
    square = M @ M
    one, two = np.einsum("crr->c", M), np.einsum("crr->c", square)
    three = np.einsum("crs,crs->c", square, M)
    less = one / (m - 1.0)
    cubes = three - 3.0 * less * two + 2.0 * less**2 * one
    return one, np.maximum(two - less * one, 0.0), cubes
