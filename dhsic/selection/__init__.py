"""A run of a selection, around what its method does: from a request to its result.

`request` holds what is asked for; `execution` runs requests for one data set and makes results;
`batch` runs several over one reading; `conductor` runs one; `run` is what a run knows. Around the
ranking of a method are `cross_validation`, `holdout`, `shadows`, `stability`, `clumping`,
`interactions`, and within it `marginal`, `shapes` and `rerank`.
"""
