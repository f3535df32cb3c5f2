"""`dhsic export`: write a stored result in another format."""

from __future__ import annotations

from pathlib import Path

from dhsic.cli.console import shown, tell
from dhsic.cli.out import check_out, is_same
from dhsic.cli.report import result_at
from dhsic.errors import InputError
from dhsic.joins.genes import Genes
from dhsic.results.files import save
from dhsic.results.nearest_genes import annotate as add_genes


def export(
    *, result: str, out: str, selected_only: bool, force: bool, annotate: str | None
) -> None:
    """Run ``dhsic export``: write a stored result in another format."""
    genes = None if annotate is None else Genes.read(annotate)
    if is_same(result, out):
        raise InputError(f"--out {out} is the result itself; pass another path.")
    check_out(out, force=force, selected_only=selected_only)
    loaded = result_at(result)
    if genes is not None:
        loaded = add_genes(loaded, genes)
    save(loaded, out, overwrite=force, selected_only=selected_only)
    tell(f"result in {shown(str(Path(out).absolute()))}")
