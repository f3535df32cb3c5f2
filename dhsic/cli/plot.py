"""`dhsic plot region`: picture of a region of the genome from a result."""

from __future__ import annotations

from pathlib import Path, PurePath

from dhsic.cli.console import shown, tell
from dhsic.cli.report import result_at
from dhsic.errors import InputError
from dhsic.plot import region
from dhsic.sources.file_lists import expanded
from dhsic.storage.folder import replacing
from dhsic.storage.paths import as_path, check_place

#: Suffixes of pictures.
SUFFIXES = (".png", ".pdf", ".svg")
#: Resolution of pictures in dots per inch.
DPI = 200


def plot(
    *,
    kind: str,
    result: str,
    path: str | list[str] | None,
    lead: str | None,
    genes: str | None,
    kb: float,
    threshold: float,
    out: str,
    force: bool,
) -> None:
    """Draw a region of a result and write the picture."""
    assert kind == "region", "the only choice"
    _check_picture(out, force=force)
    loaded = result_at(result)
    data = None if path is None else expanded(path)
    ax = region(loaded, lead, data=data, genes=genes, kb=kb, threshold=threshold)
    with replacing(as_path(out)) as file:
        ax.figure.savefig(file, format=PurePath(out).suffix[1:].lower(), dpi=DPI)
    tell(f"plot in {shown(str(Path(out).absolute()))}")


def _check_picture(out: str, *, force: bool) -> None:
    """Reject a path that is no picture, or that exists unless `force`."""
    if PurePath(out).suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out}: pass a path that ends in .png, .pdf or .svg.")
    check_place(as_path(out), "--out", InputError)
    if as_path(out).exists() and not force:
        raise InputError(f"{out} exists already. Choose another path, or overwrite it (--force).")
