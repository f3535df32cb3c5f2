"""`dhsic pca`: principal components of the samples, as a table for `--covariates`."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import PurePath
from typing import Any

import click
import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array
from dhsic.cli.console import counted, echo_json, heed_signals, say, seconds, shown, tell
from dhsic.cli.job import SelectJob
from dhsic.cli.out import absolute, check_table, in_columns, write_table
from dhsic.cli.report import filters_told
from dhsic.joins.labels import Labelled
from dhsic.joins.plink_ids import plink_ids
from dhsic.passes.call_counts import counting_on
from dhsic.relatedness import ComponentsRequest
from dhsic.sources import AbstractSource
from dhsic.sources.file_lists import short_name
from dhsic.sources.opening import open_source
from dhsic.storage.format import plain


def _scores(components: xr.DataArray, given: Labelled) -> pd.DataFrame:
    """Return components (m, k) as a table, with sample names in the first columns."""
    scores = pd.DataFrame(components.to_numpy(), columns=components["components"].to_numpy())
    names = given.source.sample_names()
    if names is not None:
        for i, (name, values) in enumerate(_ids(given.source, names).items()):
            scores.insert(i, name, given.filtered.samples_of(values))
    return scores


def pca(
    *, n_components: int, passes: int | None, seed: int, missing: str, force: bool, **options: Any
) -> None:
    """Run ``dhsic pca``: write the components, and print the variance that each explains."""
    started = time.perf_counter()
    job = SelectJob.of(options)
    request = ComponentsRequest(n_components, passes, missing, seed, job.memory)
    beside = None
    if job.out is not None:
        check_table(job.out, "components", force=force)
        path = PurePath(job.out)
        beside = str(path.with_name(f"{path.stem}.eigenvalues{path.suffix}"))
        job.check_read(job.out)
        check_table(beside, "eigenvalues", force=force)
    source = open_source(job.path, **job.opening)
    filtered = job.filters.of(job.path, source, counting_on(job.runtime), job.missing_chunks)
    source = filtered.features_of(source)
    labelled = Labelled(source, None, None, filtered.samples, filtered=filtered)
    size = f"{source.n_samples:,} samples x {source.n_features:,} features"
    say("data", f"{short_name(job.path)}: {size}, {np.dtype(source.dtype).name}")
    if filtered.left_out:
        say("filters", filters_told(filtered.left_out))
    heed = partial(heed_signals, click.get_current_context())
    with closing(job.runtime()) as runtime, runtime.polling_interrupt(heed):
        components = request.of(labelled, runtime)
    scores = _scores(components, labelled)
    columns = {name: components[name].to_numpy() for name in ("eigenvalue", "share", "error")}
    table = pd.DataFrame({"component": scores.columns[-len(components["components"]) :], **columns})
    if job.out is not None and beside is not None:
        write_table(scores, job.out)
        write_table(table, beside)
    about = dict(components.attrs)
    if job.as_json:
        echo_json({**plain(about), "components": table.to_dict("records")})
        return
    click.echo(in_columns(table))
    how = "exact" if about["is_exact"] else f"randomised, {about['passes']} passes"
    scaled = f"features are centred and divided by {about['scaled_by']}"
    if n := about["n_not_autosomal"]:
        say("autosomes", f"excluded {counted(n, 'feature')} on X, Y, MT or an unknown chromosome")
    say("pca", f"{how}, in {seconds(time.perf_counter() - started)}; {scaled}")
    if job.out is None:
        tell("The components were not written to a file; to do so, pass --out pcs.tsv")
    else:
        tell(f"components in {shown(job.out)}, eigenvalues in {shown(absolute(beside) or '')}")


def _ids(source: AbstractSource, names: Array) -> dict[str, Array]:
    """Return columns of sample names: FID, IID and SID for PLINK files, otherwise IID.

    For other data, IID are the `names` (m,).
    """
    ids = plink_ids(source)
    columns = {name: ids[name] for name in ("FID", "IID", "SID") if name in ids}
    first, *others = columns.items() if "FID" in ids or "SID" in ids else [("IID", names)]
    return {f"#{first[0]}": first[1], **dict(others)}
