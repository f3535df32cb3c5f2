"""What users call: selectors in scikit-learn's manner, and `select` for stores and datasets."""

from dhsic.selectors.bahsic import BAHSIC
from dhsic.selectors.fohsic import FOHSIC
from dhsic.selectors.linear import LinearHSIC
from dhsic.selectors.recursive import SVMRFE
from dhsic.selectors.select import METHODS, select

__all__ = ["BAHSIC", "FOHSIC", "METHODS", "SVMRFE", "LinearHSIC", "select"]
