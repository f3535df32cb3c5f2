"""Low-rank factors of the data kernel matrix, from inner products with landmarks."""

from dhsic.lowrank.base import AbstractFactorizer, Landmarks
from dhsic.lowrank.cholesky import Cholesky
from dhsic.lowrank.nystrom import Nystrom
from dhsic.lowrank.random_features import RandomFeatures
from dhsic.lowrank.residuals import measured_error
from dhsic.lowrank.spectral import Spectral

__all__ = [
    "AbstractFactorizer",
    "Cholesky",
    "Landmarks",
    "Nystrom",
    "RandomFeatures",
    "Spectral",
    "measured_error",
]
