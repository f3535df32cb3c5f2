"""Accessor ``result.dhsic``: shows a result in notebooks, as a table, and as a report."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic.errors import InputError
from dhsic.notebook import curve, facts, page, table
from dhsic.results import tables
from dhsic.results.nearest_genes import annotate
from dhsic.sources.columns import NAME

#: Number of features, and of runs of a joint result, that a notebook shows.
SHOWN, RUNS = 10, 6
#: Columns of the table in a notebook, if the result has them.
COLUMNS = ("rank", "name", "contig", "position", "gene", "score", "p", "q", "stability", "group")


@xr.register_dataset_accessor("dhsic")  # type: ignore[no-untyped-call]  # xarray's
class ResultAccessor:
    """Accessor to display a result: evaluate ``result.dhsic`` in a notebook.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((60, 5))
    >>> result = dhsic.select(X, X[:, 3] > 0, n_features_to_select=1)
    >>> result.dhsic.table()["index"].tolist()[0]
    3
    """

    def __init__(self, result: xr.Dataset) -> None:
        if not {"rank", "selected"} <= {*result.variables}:
            raise InputError("The Dataset is no result of a selection: it has no rank.")
        self._result = tables.along_features(result)

    def table(self, n: int | None = None) -> pd.DataFrame:
        """Return the n best features (all by default), best first, as in a saved table."""
        ranks = self._result["rank"].to_numpy()
        best = np.argsort(ranks if ranks.ndim == 1 else ranks.min(axis=0), kind="stable")[:n]
        features = tables.numbered(self._result.drop_dims("rounds", errors="ignore"))
        return pd.DataFrame(tables.columns(features.isel(features=best).compute()))

    def annotate(self, genes: str | PathLike[str]) -> xr.Dataset:
        """Return the result with the nearest gene of each variant, by `dhsic.annotate`."""
        return annotate(self._result, genes)

    def report(self, path: str | PathLike[str], **options: Any) -> list[Path]:
        """Write a report for each run of the result with `dhsic.report`."""
        from dhsic.reports.html import report  # slow to import

        return report(self._result, path, **options)

    @property
    def _title(self) -> str:
        selected = self._result["selected"]
        parameters = json.loads(self._result.attrs.get("parameters", "{}"))
        runs = f"{len(selected):,} runs, " if selected.ndim > 1 else ""
        by = " by one or more" if runs else ""
        n = int(selected.any(selected.dims[:-1]).sum())
        method = parameters.get("method", "selection")
        return f"{method}: {runs}{n:,} of {selected.shape[-1]:,} features selected{by}"

    def __repr__(self) -> str:
        return f"<Result of {self._title}>"

    def _repr_html_(self) -> str:
        attributes, caption = self._result.attrs, self._title
        summary = {
            "samples": f"{int(attributes.get('n_samples', 0)):,}",
            "labels": str(attributes.get("label_kernel_used", "")),
            "values": str(attributes.get("values", "")),
            "rounds": f"{self._result.sizes.get('rounds', 0):,}",
            "run by": f"{attributes.get('source', '')}, {attributes.get('created', '')}",
        }
        if self._result["rank"].ndim > 1:
            return page(table(self._best_of_each(), caption), facts(summary))
        best = self.table(SHOWN)
        columns = {name: best[name].tolist() for name in COLUMNS if name in best}
        values = self._result["round_hsic"].to_numpy() if "round_hsic" in self._result else ()
        return page(table(columns, caption), facts(summary), curve(values, "HSIC over the rounds"))

    def _best_of_each(self) -> dict[str, list[str]]:
        """Return the names of the best features of each of the first runs, by run name."""
        result = self._result
        dim = result["rank"].dims[0]
        names = np.asarray(result.get(NAME, np.arange(result.sizes["features"])))
        best = np.argsort(result["rank"].to_numpy()[:RUNS], axis=1, kind="stable")[:, :SHOWN]
        runs = [str(name) for name in result[dim].to_numpy()]
        more = {"": ["..."] * best.shape[1]} if len(runs) > RUNS else {}
        each = zip(runs, best, strict=False)
        return {run: [str(name) for name in names[at]] for run, at in each} | more
