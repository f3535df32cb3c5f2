"""What users call: selectors in scikit-learn's manner, a method a file, and `select` by name."""

from dhsic.selectors.bahsic import BAHSIC, LinearHSIC
from dhsic.selectors.ccm import CCM
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.onepass import OnePass
from dhsic.selectors.select import METHODS, select
from dhsic.selectors.svmrfe import SVMRFE
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
