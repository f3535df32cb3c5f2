"""`dhsic plot`: pictures of the p-values of a result."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import xarray as xr

from dhsic.cli.console import shown, tell
from dhsic.cli.report import result_at
from dhsic.errors import InputError
from dhsic.plot import genome, qq, region
from dhsic.plot.genome import p_value_of
from dhsic.results.views import result_of_one
from dhsic.sources.file_lists import expanded
from dhsic.sources.variants import CONTIG
from dhsic.storage.folder import replacing
from dhsic.storage.paths import as_path, check_place

#: Suffixes of pictures.
SUFFIXES = (".png", ".pdf", ".svg")
#: Resolution of pictures in dots per inch.
DPI = 200
#: Significance threshold of genome-wide association.
GENOME_WIDE = 5e-8
#: Options that only a picture of a region has.
OF_REGION = {"path": "DATA", "lead": "--lead", "genes": "--genes", "kb": "--kb"}


def plot(
    *,
    kind: str,
    result: str,
    target: str | None,
    threshold: float | None,
    out: str | None,
    force: bool,
    **of_region: Any,
) -> None:
    """Run ``dhsic plot``: draw the p-values of a result and write the picture."""
    out = f"{kind}.png" if out is None else out
    _check_picture(out, force=force)
    given = {name: value for name, value in of_region.items() if value is not None}
    if given and kind != "region":
        names = ", ".join(OF_REGION[name] for name in given)
        raise InputError(f"{names}: only for dhsic plot region. Leave out, or draw a region.")
    loaded = result_of_one(_run_of(result_at(result), target))
    ax = _drawn(kind, loaded, threshold, given)
    with replacing(as_path(out)) as file:
        ax.figure.savefig(file, format=PurePath(out).suffix[1:].lower(), dpi=DPI)
    tell(f"plot in {shown(str(Path(out).absolute()))}")


def _run_of(result: xr.Dataset, target: str | None) -> xr.Dataset:
    """Return the part of a result for one target or class; all of it if there is one run."""
    rank = result["rank"]
    if rank.ndim == 1:
        if target is not None:
            raise InputError(
                "--target chooses one of several runs, but the result has one run. Leave it out."
            )
        return result
    dim = rank.dims[0]
    names = [str(name) for name in result[dim].to_numpy()]
    if target not in names:
        given = "" if target is None else f"--target {target} is none of them. "
        raise InputError(
            f"The result has several runs, along {dim} ({', '.join(names[:5])}"
            f"{', ...' if len(names) > 5 else ''}). {given}Pass one, such as --target {names[0]}."
        )
    return result.isel({dim: names.index(target)})


def _drawn(
    kind: str, result: xr.Dataset, threshold: float | None, of_region: dict[str, Any]
) -> Any:
    """Draw a picture of `kind`, and return its axes; `of_region` are options of a region."""
    if kind == "region":
        path = of_region.pop("path", None)
        data = None if path is None else expanded(path)
        line = GENOME_WIDE if threshold is None else threshold
        return region(result, data=data, threshold=line, **of_region)
    value = p_value_of(result)
    if kind == "qq":
        if threshold is not None:
            raise InputError("--threshold draws a line, but dhsic plot qq has none. Leave it out.")
        return qq(result[value])
    if threshold is None and CONTIG in result.coords:
        threshold = GENOME_WIDE
    return genome(result, value, threshold=threshold)


def _check_picture(out: str, *, force: bool) -> None:
    """Reject a path without a suffix of `SUFFIXES`, and, unless `force`, an existing file."""
    if PurePath(out).suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out}: pass a path that ends in .png, .pdf or .svg.")
    check_place(as_path(out), "--out", InputError)
    if as_path(out).exists() and not force:
        raise InputError(f"{out} exists already. Choose another path, or overwrite it (--force).")
