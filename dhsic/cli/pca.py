"""`dhsic pca`: principal components of the samples, as a table that `--covariates` takes."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import click
import numpy as np
import pandas as pd

from dhsic.cli.console import counted, echo_json, heed_signals, say, seconds, shown, tell
from dhsic.cli.job import SelectJob
from dhsic.cli.out import absolute, check_table, in_columns, write_table
from dhsic.cli.report import filters_told
from dhsic.joins.labels import Labelled
from dhsic.passes.once import counting_on
from dhsic.relatedness import ComponentsAsked
from dhsic.sources.opening import open_source
from dhsic.storage.format import plain


def pca(
    *, n_components: int, passes: int | None, seed: int, missing: str, force: bool, **options: Any
) -> None:
    """Find components and print how much each of them explains."""
    started = time.perf_counter()
    job = SelectJob.of(options)
    asked = ComponentsAsked(n_components, passes, missing, seed, job.memory)
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
    given = Labelled(source, None, None, filtered.samples, filtered=filtered)
    size = f"{source.n_samples:,} samples x {source.n_features:,} features"
    say("data", f"{Path(job.path).name}: {size}, {np.dtype(source.dtype).name}")
    if filtered.left_out:
        say("filters", filters_told(filtered.left_out))
    heed = partial(heed_signals, click.get_current_context())
    with closing(job.runtime()) as runtime, runtime.heeding(heed):
        found = asked.of(given, runtime)
    names = source.sample_names()
    scores = pd.DataFrame(found.to_numpy(), columns=found["components"].to_numpy())
    if names is not None:
        scores.insert(0, "sample_id", filtered.samples_of(names))
    told = {name: found[name].to_numpy() for name in ("eigenvalue", "share", "error")}
    table = pd.DataFrame({"component": scores.columns[-len(found["components"]) :], **told})
    if job.out is not None and beside is not None:
        write_table(scores, job.out)
        write_table(table, beside)
    about = dict(found.attrs)
    if job.as_json:
        echo_json({**plain(about), "components": table.to_dict("records")})
        return
    click.echo(in_columns(table))
    how = "exact" if about["is_exact"] else f"randomised, {about['passes']} passes"
    scaled = f"features are centred and over {about['scaled_by']}"
    if n := about["n_not_autosomal"]:
        say("autosomes", f"{counted(n, 'feature')} on X, Y, MT or no known chromosome left out")
    say("pca", f"{how}, in {seconds(time.perf_counter() - started)}; {scaled}")
    if job.out is None:
        tell("nothing is written; --out pcs.tsv keeps the components")
    else:
        tell(f"components in {shown(job.out)}, eigenvalues in {shown(absolute(beside) or '')}")
