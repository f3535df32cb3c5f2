"""`dhsic pairs`: all pairs of features, looked at for products that tell of the labels."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any

import click
import numpy as np
import xarray as xr

from dhsic.cli.console import counted, echo_json, printable, say, seconds, shown, tell
from dhsic.cli.job import SelectJob
from dhsic.cli.labels import describe, open_with_labels
from dhsic.errors import InputError
from dhsic.interactions import PairTest
from dhsic.results import load
from dhsic.storage import as_path, check_place, is_url, replacing
from dhsic.storage.format import plain

#: Options of `select` that are about something else.
NOT_OURS = {"truth": None, "checkpoint": None, "out": None}
#: What separates columns of a table, by its suffix.
SEPARATORS = {".tsv": "\t", ".csv": ","}


def pairs(
    *,
    n_pairs: int,
    selection: str | None,
    alpha: float,
    n_permutations: int,
    least: float,
    linked: float,
    seed: int,
    checkpoint: str | None,
    out: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Scan all pairs and print the best."""
    started = time.perf_counter()
    job = SelectJob.of(options | NOT_OURS).check()
    test = PairTest(n_pairs, alpha, n_permutations, least, linked, seed, checkpoint=checkpoint)
    test.check()
    if out is not None:
        _check_out(out, force=force)
    chosen = None if selection is None else load(selection)
    given = open_with_labels(job)
    size = f"{given.source.n_samples:,} samples x {given.source.n_features:,} features"
    say("data", f"{Path(job.path).name}: {size}, {np.dtype(given.source.dtype).name}")
    say("labels", "; ".join([describe(given.y, None), *given.notes]))
    with closing(job.runtime()) as runtime:
        found = test.of(given, runtime, selection=chosen)
    if out is not None:
        _write(found, out)
    if job.as_json:
        echo_json({**plain(dict(found.attrs)), "pairs": list(_rows(found))})
        return
    click.echo(_table(found))
    _tell(found, time.perf_counter() - started)
    if out is not None:
        tell(f"table in {shown(out)}")


def _rows(found: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Pairs as plain values."""
    columns = {str(name): found[name].to_numpy().tolist() for name in found}
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _table(found: xr.Dataset) -> str:
    """Pairs as columns of text, the best first."""
    if not found.sizes["pairs"]:
        return "no pair"
    lines = [[str(name) for name in found], *([_text(v) for v in r.values()] for r in _rows(found))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else printable(value)


def _tell(found: xr.Dataset, took: float) -> None:
    """What else there is to know of a scan, on stderr."""
    about = found.attrs
    told = f"{counted(about['n_pairs'], 'pair')} in {seconds(took)}"
    if "threshold" in about:
        n = int((found["family_wise"] <= about["alpha"]).sum())
        told += (
            f"; {n:,} of those above are significant family-wise at {about['alpha']:g} (share "
            f"{about['threshold']:.4g} or more)"
        )
    say("pairs", told)
    if about.get("n_lost"):
        say(
            "note",
            f"of {about['n_audited']:,} pairs that the screen was tried on it lost "
            f"{about['n_lost']:,}; take main effects out with --selection or --covariates",
        )


def _check_out(out: str, *, force: bool) -> None:
    """Refuse before the work what could not be written after it."""
    if is_url(out) or PurePath(out).suffix.lower() not in SEPARATORS:
        raise InputError(f"--out {out}: pairs are written as a table; give a path in .tsv or .csv.")
    check_place(as_path(out), "--out", InputError)
    if as_path(out).exists() and (not force or not as_path(out).is_file()):
        raise InputError(f"--out {out} exists already; choose another path, or pass --force.")


def _write(found: xr.Dataset, out: str) -> None:
    """Write all pairs, and what there is to say of them in a line beside the table."""
    path = as_path(out)
    path.parent.mkdir(exist_ok=True)
    separator = SEPARATORS[PurePath(out).suffix.lower()]
    text = found.to_dataframe().to_csv(sep=separator, index=False, lineterminator="\n")
    with replacing(path) as file:
        file.write(text.encode())
