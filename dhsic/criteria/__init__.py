"""The relatives of HSIC: criteria that judge each feature alone (JMLR section 6), in one pass."""
