"""All pairs of features: the share of each, tiles, permutations, and what a scan keeps."""
