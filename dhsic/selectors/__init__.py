"""What users call: selectors in scikit-learn's manner, and `select` for stores and datasets."""

from dhsic.selectors.bahsic import BAHSIC
from dhsic.selectors.ccm import CCM
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.linear import LinearHSIC
from dhsic.selectors.once import OnePass
from dhsic.selectors.recursive import SVMRFE
from dhsic.selectors.select import METHODS, select
from dhsic.selectors.weighting import FeatureWeighting

__all__ = [
    "BAHSIC",
    "CCM",
    "FOHSIC",
    "METHODS",
    "SVMRFE",
    "FeatureWeighting",
    "LinearHSIC",
    "OnePass",
    "select",
]
