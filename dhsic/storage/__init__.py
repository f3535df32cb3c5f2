"""What survives: names and bytes in a folder or an object store, written by one process at a time.

`place_at` gives the place of a path or URL; both kinds keep one contract, `AbstractPlace`.
"""
