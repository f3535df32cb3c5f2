"""Linear algebra that several rooms share: symmetric updates and quadratic forms."""
