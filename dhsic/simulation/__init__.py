"""Simulated genotypes with a trait whose causes are known, as stores of any size."""
