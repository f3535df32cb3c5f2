r"""Tests of independence: what HSIC would be if X and Y had nothing to do with each other.

For labels that sum to zero HSIC is a plain inner product: with ``C = R L R``, R the projection
onto the complement of ``[1, covariates]``, and ``Kt`` = K without its diagonal,

    ``HSIC = <C, A>``,  biased (JMLR eq. 4): ``A = K / (m-1)^2``,
    unbiased (JMLR eq. 5): ``A = (Kt + Diag(g)) / (m (m-3))``,
    ``g = 2 Kt 1 / (m-2) - 1' Kt 1 / ((m-1)(m-2))``.

An estimator is a diagonal, then, and to permute the samples of the labels is to permute rows and
columns of C. Three distributions say how large ``<C, A>`` is:

- `permutation`: ``<P C P', R A R>``; with covariates the residuals of the labels are permuted and
  projected again (Freedman and Lane, 1983);
- `gamma`: a gamma distribution with the first three moments of all m! permutations;
- `normal`: the distribution of HSIC_1 under *dependence* (JMLR Theorem 5).

Labels and data of few features have kernel matrices of a few tens of directions; others are dense
(`dhsic.linalg.symmetric`). Where both are of low rank, a permutation costs O(m r g) and no (m, m)
matrix is made; hundreds of permutations are one product.
"""

from dhsic.independence.features import FeatureTests, test_features
from dhsic.independence.test import METHODS, TestResult, hsic_test

__all__ = ["METHODS", "FeatureTests", "TestResult", "hsic_test", "test_features"]
