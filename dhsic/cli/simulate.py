"""`dhsic simulate`: genotypes with a trait whose causes are known."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from dhsic.cli.console import counted, seconds
from dhsic.cli.exits import Command, echo_json
from dhsic.errors import InputError
from dhsic.memory import human
from dhsic.simulation.simulate import simulate_genotypes
from dhsic.simulation.truth import truth_path
from dhsic.storage.folder import check_place


@click.command(cls=Command)
@click.argument("path", type=click.Path())
@click.option("--samples", "n_samples", default=500, show_default=True, type=click.IntRange(2))
@click.option("--variants", "n_variants", default=20_000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--causal", "n_causal", default=10, show_default=True, help="Additive variants.")
@click.option(
    "--pairs",
    "n_pairs",
    default=2,
    show_default=True,
    help="Pairs of variants that act only together.",
)
@click.option("--populations", "n_populations", default=3, show_default=True)
@click.option("--missing", default=0.005, show_default=True, help="Fraction of calls missing.")
@click.option(
    "--heritability",
    default=0.8,
    show_default=True,
    help="Fraction of the liability's variance that the planted variants explain.",
)
@click.option(
    "--trait",
    default="binary",
    show_default=True,
    type=click.Choice(["binary", "quantitative"]),
)
@click.option(
    "--layout",
    default="vcz",
    show_default=True,
    type=click.Choice(["vcz", "plain"]),
    help="VCF Zarr (call_genotype), or one matrix (dosage).",
)
@click.option("--zarr-format", default="3", show_default=True, type=click.Choice(["2", "3"]))
@click.option("-f", "--force", is_flag=True, help="Overwrite a store that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def simulate(*, path: str, zarr_format: str, force: bool, as_json: bool, **options: Any) -> None:
    """Write a Zarr store of simulated genotypes to PATH, and the truth beside it.

    Genotypes have linkage, populations and missing calls; the store has a variable sample_trait,
    and the variants behind it are listed in a table, PATH without its suffix + .truth.tsv.
    """
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
