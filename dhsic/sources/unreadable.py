"""Paths without a Zarr store: the error message, which says what is there and what to do.

Files of other programs are recognised by their suffixes; the message says how to convert them.
"""

from __future__ import annotations

import shlex
from itertools import islice
from pathlib import Path
from zipfile import ZipFile, is_zipfile

from dhsic.sources.hdf5 import is_folder_of_counts
from dhsic.sources.ids import abbreviate
from dhsic.sources.stores import METADATA

#: Advice on table formats that pandas can convert.
PANDAS = (
    "python -c \"import pandas as p; p.read_{reader}({{path!r}}).to_csv('NEW.csv', index=False)\", "
    "then pass NEW.csv (if pandas needs another package for this, its message names it)"
)
#: Options of PLINK that write a fileset in its binary format.
TO_BED = "--make-bed --out {stem}"
#: Suffixes of unsupported files, the name of their format, and advice on how to convert them.
FOREIGN = (
    ((".loom",), "Loom", "anndata.io.read_loom(path).write_h5ad('out.h5ad')"),
    ((".nc",), "NetCDF", "X = xarray.open_dataset({path!r})"),
    (
        (".xlsx", ".xls"),
        "Excel",
        PANDAS.format(reader="excel"),
    ),
    ((".sav", ".zsav"), "SPSS", PANDAS.format(reader="spss")),
    ((".dta",), "Stata", PANDAS.format(reader="stata")),
    ((".sas7bdat", ".xpt"), "SAS", PANDAS.format(reader="sas")),
    ((".ods",), "OpenDocument", PANDAS.format(reader="excel")),
    (
        (".mtx", ".mtx.gz"),
        "Matrix Market",
        "pass the Cell Ranger folder that contains it, or X = scipy.io.mmread({path!r}).T.tocsr()",
    ),
    (
        (".ped",),
        "PLINK text",
        f"plink2 --pedmap {{stem}} {TO_BED} (PLINK 1.9: plink --file {{stem}} {TO_BED})",
    ),
    ((".tped", ".tfam"), "PLINK text", f"plink --tfile {{stem}} {TO_BED}"),
    ((".lgen",), "PLINK text", f"plink --lfile {{stem}} {TO_BED}"),
)
#: Suffixes of workbooks; some programs also use them for text tables.
WORKBOOKS = (".xlsx", ".xls")
#: Maximum number of files in an archive that a message lists.
MOST_FILES = 3
#: Maximum number of entries of a folder in which data are looked for.
MOST_ENTRIES = 1000
#: Suffixes of files that are never read as data, for any content.
UNREAD = tuple(suffix for suffixes, *_ in FOREIGN for suffix in suffixes)


def _files_in(path: str) -> list[str]:
    """Return the names of the files at the top level of a zip archive; [] for other files."""
    if not is_zipfile(path):
        return []
    with ZipFile(path) as archive:
        return [name for name in archive.namelist() if "/" not in name]


def nothing_at(path: str, *, is_url: bool) -> str:
    """Return the error message for a path or URL without a Zarr store."""
    if foreign := _in_foreign_format(path, is_url=is_url):
        return foreign
    if is_url:
        return (
            f"There is no Zarr array or group at {path}. Check the path and the credentials (in "
            "the environment, or storage_options)."
        )
    if Path(path).is_file():
        if files := _files_in(path):
            return (
                f"{path} is an archive of {abbreviate(map(repr, files), MOST_FILES)}, not a Zarr "
                f"store. Unpack it and pass {files[0]}: unzip {shlex.quote(path)}"
            )
        return (
            f"There is no Zarr array or group at {path}: it is a file of another format. Pass "
            "the folder or the .zip file of a Zarr store, or read the file and pass the array."
        )
    if Path(path).is_dir():
        return _not_in_folder(Path(path))
    filesets = (f"{path}{suffix}" for suffix in (".ped", ".tped", ".lgen"))  # of this prefix
    if fileset := next((file for file in filesets if Path(file).is_file()), ""):
        return _in_foreign_format(fileset, is_url=False)
    return f"There is no Zarr array or group at {path}: nothing exists there. Check the path."


def _not_in_folder(path: Path) -> str:
    """Return the error message for a folder without a Zarr store; it lists subfolders with data."""
    entries = sorted(p.name for p in path.iterdir())
    names = ", ".join(entries[:5]) + (", ..." if len(entries) > 5 else "")
    levels = (islice(path.glob(pattern), MOST_ENTRIES) for pattern in ("*", "*/*"))
    with_data = (sorted(str(p) for p in level if _has_data(p)) for level in levels)
    folders = next(filter(None, with_data), [])
    if len(folders) == 1:
        advice = f"Pass the folder of the data: {folders[0]}"
    elif folders:
        advice = f"Pass one of the folders of data inside: {abbreviate(folders, MOST_FILES)}"
    else:
        advice = "Pass the folder that itself contains zarr.json (or .zgroup, .zarray)"
    return (
        f"There is no Zarr array or group at {path}: it is a folder that contains "
        f"{names or 'nothing'}. {advice}."
    )


def _has_data(path: Path) -> bool:
    """Whether a path is a folder with a Zarr store or with counts of Cell Ranger."""
    is_store = any((path / name).is_file() for name in METADATA)
    return path.is_dir() and (is_store or is_folder_of_counts(path))


def _in_foreign_format(path: str, *, is_url: bool) -> str:
    """Return the error message for a file format that dhsic does not read, by its suffix.

    The result is "" for suffixes that are not in `FOREIGN`.
    """
    for suffixes, name, remedy in FOREIGN:
        if path.lower().endswith(suffixes):
            is_there = is_url or Path(path).exists()
            there = "is" if is_there else "does not exist, and would be"
            return (
                f"{path} {there} a file in {name} format, which dhsic does not read. Convert it "
                f"first: {remedy.format(path=path, stem=shlex.quote(path.rpartition('.')[0]))}."
            )
    return ""
