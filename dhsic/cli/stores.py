"""Commands that write a store: `dhsic simulate` and `dhsic convert`.

`simulate` writes simulated genotypes and a trait with known causal variants. `convert` writes
existing data as a store that is fast to read.
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from dhsic.cli.console import counted, echo_json, say, seconds
from dhsic.cli.job import SelectJob
from dhsic.conversion import convert as write
from dhsic.errors import InputError
from dhsic.memory import human, peak_bytes
from dhsic.simulation import simulate_genotypes
from dhsic.simulation.truth import truth_path
from dhsic.sources.file_lists import expanded
from dhsic.sources.ids import abbreviate
from dhsic.storage.paths import check_place

#: Options of `dhsic.open_source` that a conversion accepts.
OPENING = (
    *("variable", "sample_dim", "missing_chunks", "not_features", "na", "intersect_samples"),
)


def simulate(*, path: str, zarr_format: str, force: bool, as_json: bool, **options: Any) -> None:
    """Write a store of simulated genotypes, and a table of the causal variants."""
    started = time.perf_counter()
    check_place(Path(path), "The store", InputError)
    bar = tqdm(
        total=options["n_variants"],
        unit=" variants",
        unit_scale=True,
        desc="simulate",
        leave=False,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        truth = simulate_genotypes(
            path,
            zarr_format=3 if zarr_format == "3" else 2,
            overwrite=force,
            on_block=bar.update,
            **options,
        )
    stored = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    if as_json:
        facts = {"store": path, "truth": str(truth_path(path)), "stored_bytes": stored}
        echo_json(facts | {"planted": truth.variant_index.tolist()} | options)
        return
    n_samples, n_variants = options["n_samples"], options["n_variants"]
    click.echo(
        f"store  {path} ({n_samples:,} samples x {n_variants:,} variants, {human(stored)} stored, "
        f"{seconds(time.perf_counter() - started)})\n"
        f"truth  {truth_path(path)} ({counted(len(truth.variant_index), 'planted variant')}: "
        f"{options['n_causal']} additive, {counted(options['n_pairs'], 'pair')})\n"
        "next\n"
        f"dhsic select {shlex.quote(path)} --target sample_trait "
        f"--truth {shlex.quote(str(truth_path(path)))}"
    )


def convert(
    *,
    path: str | list[str],
    out: str,
    memory: int | None,
    zarr_format: str,
    force: bool,
    progress: bool | None,
    as_json: bool,
    **opening: Any,
) -> None:
    """Convert data to a Zarr store, and print what it contains."""
    started = time.perf_counter()
    path = expanded(path)
    arguments = SelectJob(path, **opening).opening
    shown = sys.stderr.isatty() if progress is None else progress
    with tqdm(unit="B", unit_scale=True, desc="convert", leave=False, disable=not shown) as bar:

        def on_part(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        result = write(
            path,
            out,
            memory_limit=memory,
            zarr_format=3 if zarr_format == "3" else 2,
            overwrite=force,
            on_part=on_part,
            **{name: arguments[name] for name in OPENING},
        )
    if as_json:
        echo_json(result.to_dict())
        return
    if result.is_resumed:
        say("note", "continued an earlier, interrupted conversion")
    if result.left:
        say("note", f"not converted: {abbreviate(result.left)}")
    took = f"{seconds(time.perf_counter() - started)}, peak memory {human(peak_bytes())}"
    passes = "one pass" if result.n_passes == 1 else f"{result.n_passes} passes"
    click.echo(
        f"store  {result.path} ({result.n_samples:,} samples x {result.n_features:,} features, "
        f"{result.dtype}, chunks of {result.chunks[0]:,} features; {passes}, {took})\n"
        f"next\ndhsic inspect {shlex.quote(result.path)}"
    )
