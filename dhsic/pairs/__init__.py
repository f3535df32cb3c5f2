"""Scan of all pairs of features: shares of explained labels, tiles, permutations, results."""
