"""Criteria related to HSIC that judge each feature alone (JMLR section 6), in one pass."""
