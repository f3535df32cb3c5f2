"""Selection runs, from a request to its result: the steps around the ranking method.

- `request` describes a selection as data; `execution` executes requests and builds results.
- `run` holds the state of one run; `conductor` executes one run, and `batch` executes several runs
  that share one reading of the data.
- Steps around the ranking are stages: `stage` is their interface, `stages` their table. They are
  `holdout`, `shadows`, `stability`, `interactions` and `clumping`.
- `cross_validation` chooses the number of features.
- Steps inside the ranking are in `marginal`, `shapes` and `rerank`.
"""
