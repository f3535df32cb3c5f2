"""Samples that are related: their principal components."""
