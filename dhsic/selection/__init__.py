"""One selection run, from a request to its result: the steps around the ranking method.

`request` describes what to select; `execution` runs requests on one data set and builds results;
`batch` executes several runs that share one reading of the data; `conductor` executes one run;
`run` holds its state. Steps around the ranking are stages, `stage` (their interface) and `stages`
(their table): `holdout`, `shadows`, `stability`, `interactions` and `clumping`; `cross_validation`
chooses the number of features. Steps inside the ranking are in `marginal`, `shapes` and `rerank`.
"""
