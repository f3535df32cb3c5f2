"""Tests of independence: whether HSIC is larger than chance makes it (JMLR section 2)."""

from dhsic.testing.draws import METHODS
from dhsic.testing.features import FeatureTests, test_features
from dhsic.testing.hsic import hsic_test
from dhsic.testing.result import TestResult

__all__ = ["METHODS", "FeatureTests", "TestResult", "hsic_test", "test_features"]
