"""What survives: names and bytes in a folder or an object store, written by one process at a time.

`store_at` gives the store of a path or URL; both kinds keep one contract, `AbstractStore`.
"""
