"""Scan of all pairs of features for interactions.

The modules compute the share of the labels' variance that the product of two features explains,
process pairs in tiles, permute labels to get the null distribution, and build the table of results.
"""
