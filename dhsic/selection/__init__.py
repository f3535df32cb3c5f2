"""One selection run, from a request to its result: the steps around the ranking method.

`request` describes what to select; `execution` runs requests on one data set and builds results;
`batch` executes several runs that share one reading of the data; `conductor` executes one run;
`run` holds its state. Steps after or around the ranking are in `cross_validation`, `holdout`,
`shadows`, `stability`, `clumping` and `interactions`; steps inside it are in `marginal`, `shapes`
and `rerank`.
"""
