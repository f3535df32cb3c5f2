"""Runs: from a source and labels to an order of the features, one kind of method a file."""
