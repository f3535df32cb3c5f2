"""`dhsic convert`: data in the layout that is read fastest."""

from __future__ import annotations

import shlex
import sys
import time
from typing import Any

import click
from tqdm import tqdm

from dhsic.cli.console import echo_json, say, seconds
from dhsic.cli.job import SelectJob
from dhsic.conversion import convert as write
from dhsic.memory import human, peak_bytes
from dhsic.sources.ids import some


def convert(
    *,
    path: str,
    out: str,
    memory: int | None,
    zarr_format: str,
    force: bool,
    progress: bool | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Write the store, and say what it holds."""
    started = time.perf_counter()
    asked = SelectJob(path, **opening).opening
    shown = sys.stderr.isatty() if progress is None else progress
    with tqdm(unit="B", unit_scale=True, desc="convert", leave=False, disable=not shown) as bar:

        def on_part(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        made = write(
            path,
            out,
            memory=memory,
            zarr_format=3 if zarr_format == "3" else 2,
            overwrite=force,
            on_part=on_part,
            **{name: asked[name] for name in OPENING},
        )
    if as_json:
        echo_json(made.to_dict())
        return
    if made.is_resumed:
        say("note", "what an earlier conversion had written was kept")
    if made.left:
        say("note", f"left behind: {some(made.left)}")
    took = f"{seconds(time.perf_counter() - started)}, peak memory {human(peak_bytes())}"
    passes = "one pass" if made.n_passes == 1 else f"{made.n_passes} passes"
    click.echo(
        f"store  {made.path} ({made.n_samples:,} samples x {made.n_features:,} features, "
        f"{made.dtype}, chunks of {made.chunks[0]:,} features; {passes}, {took})\n"
        f"next\ndhsic inspect {shlex.quote(made.path)}"
    )


#: Options of `dhsic.open_source` that a conversion takes.
OPENING = ("variable", "sample_dim", "missing_chunks", "not_features")
