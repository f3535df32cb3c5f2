"""`dhsic simulate`: genotypes with a trait whose causes are known."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from dhsic.cli.console import counted, echo_json, seconds
from dhsic.errors import InputError
from dhsic.memory import human
from dhsic.simulation import simulate_genotypes
from dhsic.simulation.truth import truth_path
from dhsic.storage import check_place


def simulate(*, path: str, zarr_format: str, force: bool, as_json: bool, **options: Any) -> None:
    """Write a store of simulated genotypes, and the truth beside it."""
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
