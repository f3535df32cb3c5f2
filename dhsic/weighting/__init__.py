"""Weights on features, found by descent: CCM, and HSIC with a concave zero norm."""
