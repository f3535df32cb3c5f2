"""What users call: selectors in scikit-learn's manner, and `select` for stores and datasets.

Runs: from a source and labels to an order of the features, one kind of method a file.
"""

from dhsic.selectors.bahsic import BAHSIC
from dhsic.selectors.ccm import CCM
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.linear import LinearHSIC
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
