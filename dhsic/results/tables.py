"""Results as tables of features in TSV, CSV, Parquet or JSON, or as lists; written atomically.

The table has all features or the selected ones, best first. Its columns are, if the result has
them:

===========================  =======================================================================
``rank``                     1 for the most relevant feature
``score``                    score that the method computes; empty for constant features
``selected``                 whether the feature is selected
``block``,                   for several matrices: matrix of the feature, and rank of the feature
``rank_in_block``            among those of its matrix
``index``                    position of the feature in the data, from 0
``name``                     name of the feature; its index if the data have no names
``contig``, ``position``,    description of a variant, as in the store; ``alt`` has all alternative
``id``, ``ref``, ``alt``     alleles, separated by commas
``gene``, ``gene_distance``  nearest gene, and its distance in bases; 0 inside the gene
``allele_frequency``         for genotypes: non-reference alleles over the ploidy of the store,
                             mean over non-missing calls; a call with fewer copies counts these
``mean``                     for other data: mean of the values that are not missing
``missing``                  fraction of the samples in which the feature is missing
``constant``                 whether the feature is constant
``round_removed`` etc.       round that determined the rank of the feature; 0 if it is constant
``group``, ``group_rank``    for groups of features: group of the feature, and rank of the group
``p``, ``q``                 p-value; expected fraction of false features at this p-value or less
``fdr``, ``shadows_above``   with permuted copies: estimated fraction of false features down to this
                             one, and number of copies that rank above it
``stability``, ``stable``    fraction of the random halves of the samples that select the feature,
                             and whether it reaches the threshold
===========================  =======================================================================

followed by other columns of the method. For several runs (``per_target=True``), values that differ
between runs have one column per run, such as ``rank_height`` and ``rank_weight``, and the best
features of each run come first. Missing values (NaN) are empty fields, in JSON null. TSV and CSV
contain only the table. JSON is one object with ``attributes``, ``rounds`` and ``features``. Parquet
stores the attributes as JSON in its metadata, under ``dhsic``. A ``.snplist`` is no table, but a
list of the selected features, for ``--extract`` of dhsic and PLINK.
"""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array
from dhsic.errors import InputError, warn
from dhsic.namespace import slices
from dhsic.results.arrow_text import packed, text_rows
from dhsic.sources import FEATURES
from dhsic.sources.columns import NAME
from dhsic.sources.ids import abbreviate
from dhsic.sources.variants import IDS
from dhsic.sources.views import STORED
from dhsic.storage.folder import replacing
from dhsic.storage.format import plain
from dhsic.storage.objects import ObjectStore
from dhsic.storage.paths import as_path, check_place, check_url, is_url

#: First columns, if present; the others follow by name.
FIRST = (
    *("rank", "score", "selected", "index", "block", "rank_in_block", "name"),
    *("contig", "position", "id", "ref", "alt"),
    *("gene", "gene_distance"),
    *("allele_frequency", "mean", "missing", "constant"),
    *("round_removed", "round_added", "round_weighted", "round_scored"),
    *("rank_alone", "fall_given_others", "score_first_round", "group", "group_rank"),
    *("p_marginal", "q_marginal", "width_marginal", "shape_marginal"),
    *("p", "q", "fdr", "shadows_above", "stability", "stable"),
)
#: Coordinates with the positions of features in the data, including filtered features.
NUMBERS = (STORED, "features")
#: Text columns; and columns that describe variants, which are called ``variant_*`` in results.
TEXT = ("name", "block", "contig", "id", "ref", "alt", "gene", "group", "shape", "shape_marginal")
OF_VARIANTS = ("contig", "position", "id", "ref", "alt")
#: Dimensions along which a result has several runs.
OF_RUNS = ("targets", "settings", "classes")
#: Suffixes of Zarr stores, including checkpoints.
ZARR = ("", ".", ".zarr", ".dhsic")
#: Suffix of lists of selected features, the same as that of PLINK's lists.
LIST = ".snplist"
#: Attributes that hold JSON.
OF_JSON = ("parameters", "versions", "engine", "block_share")
#: Number of rows written at a time; and number of rows read at a time, where each read scans all
#: names.
ROWS, READ = 1 << 16, 1 << 20

#: Columns of features, by name.
OfFeatures = dict[str, Array]


def along_features(result: xr.Dataset) -> xr.Dataset:
    """Return the result with the feature dimension renamed to ``features``."""
    dim = result["rank"].dims[-1]
    return result if dim == FEATURES else result.swap_dims({dim: FEATURES})


def selected_alone(result: xr.Dataset) -> xr.Dataset:
    """Return the result without features that no run selects."""
    result = numbered(along_features(result))
    selected = result["selected"].to_numpy()
    in_one = selected if selected.ndim == 1 else selected.any(axis=0)
    return result.isel(features=np.flatnonzero(in_one))


def numbered(result: xr.Dataset) -> xr.Dataset:
    """Add a coordinate with the index of each feature in the data to a result."""
    if any(name in result.coords for name in NUMBERS):
        return result
    return result.assign_coords({STORED: ("features", np.arange(result.sizes["features"]))})


def variant_ids(result: xr.Dataset) -> Array:
    """Return the ids of the variants, (d,); features without an id get their name or index."""
    size = result["rank"].sizes[result["rank"].dims[-1]]
    feature_names = result[NAME].to_numpy() if NAME in result.coords else np.arange(size)
    if IDS not in result.coords:
        return feature_names.astype(str)
    ids = result[IDS].to_numpy().astype(str)
    return np.asarray(np.where(np.isin(ids, (".", "")), feature_names.astype(str), ids))


def columns(result: xr.Dataset) -> OfFeatures:
    """Return the columns of the table of a result, by name."""
    result = along_features(result)
    # A result of `dhsic.selected_features` already has positions of its features.
    numbered = [name for name in NUMBERS if name in result.coords]
    d = result.sizes["features"]
    index = result[numbered[0]].to_numpy() if numbered else np.arange(d)
    by_name = {"index": index, "name": index}
    several = {name: [name] for name in by_name}  # columns of each variable along features
    for name, variable in result.variables.items():
        if variable.dims == ("features",) and name not in NUMBERS:
            column = _column(str(name), variable.to_numpy(), result.attrs)
            by_name |= column
            several |= {shown: [shown] for shown in column}
        elif variable.dims[1:] == ("features",) and variable.dims[0] in OF_RUNS:
            runs = result[variable.dims[0]].to_numpy()
            for run, values in zip(runs, variable.to_numpy(), strict=True):
                ((shown, of_run),) = _column(str(name), values, result.attrs).items()
                by_name[f"{shown}_{run}"] = of_run
                several.setdefault(shown, []).append(f"{shown}_{run}")
    names = [*FIRST, *sorted({*several} - {*FIRST})]
    ordered = [each for name in names for each in several.get(name, ())]
    return {name: by_name[name] for name in ordered if name in by_name}


def _column(name: str, values: Array, attributes: Mapping[str, Any]) -> OfFeatures:
    """Convert the variable `name` of a result to a column with its name in tables."""
    if name == "n_missing" and "n_samples" in attributes:
        return {"missing": values / max(1, attributes["n_samples"])}
    shown = "name" if name == "feature" else name.removeprefix("variant_")
    if values.dtype.kind in "OSUT":
        values = values.astype(object, copy=False)
        if pd.api.types.infer_dtype(values, skipna=False) == "string":
            return {shown: values}
        is_missing = pd.isna(values)
        if pd.api.types.infer_dtype(values, skipna=True) != "string":
            values = np.array([*map(str, values)], dtype=object)
        values = np.where(is_missing, "", values) if is_missing.any() else values
    return {shown: values}


def rows(known: OfFeatures) -> Iterator[dict[str, Any]]:
    """Yield the rows of columns as plain values by name; non-finite numbers are None."""
    lists = []
    for values in known.values():
        column = values.astype(object) if values.dtype.kind == "f" else values
        if column is not values:
            column[~np.isfinite(values)] = None
        lists.append(column.tolist())
    for row in zip(*lists, strict=True):
        yield dict(zip(known, row, strict=True))


def _parts(
    result: xr.Dataset, pack: Callable[[Array], Any] = lambda values: values
) -> Iterator[dict[str, Any]]:
    """Yield the columns of the table in batches of rows, best feature first.

    `pack` converts a column to an object with the method `take`, which then sorts the rows.
    """
    result, ranks = along_features(result), result["rank"].to_numpy()
    best_first = np.argsort(ranks if ranks.ndim == 1 else ranks.min(axis=0), kind="stable")
    result, nothing = numbered(result), [slice(0, 0)]
    for batch in slices(best_first.size, READ) or nothing:
        part, places = result, best_first
        if best_first.size > READ:
            chosen = np.sort(best_first[batch])
            part, places = result.isel(features=chosen), np.searchsorted(chosen, best_first[batch])
        known = {name: pack(values) for name, values in columns(part.compute()).items()}
        for rows in slices(places.size, ROWS) or nothing:
            yield {name: values.take(places[rows]) for name, values in known.items()}


# Formats -----------------------------------------------------------------------------------


def _write_text(result: xr.Dataset, file: IO[bytes], *, separator: str) -> None:
    pack = partial(packed, special=f'"\r\n{separator}')
    for number, part in enumerate(_parts(result, pack)):
        fast = text_rows(part, separator)
        columns = {name: np.asarray(values) for name, values in part.items() if fast is None}
        words = (v for values in columns.values() if values.dtype == object for v in values)
        returns = any("\r" in word for word in words)  # older Python does not quote them
        head = pd.DataFrame(columns or None, columns=[*part]).to_csv(
            sep=separator,
            index=False,
            header=number == 0,
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
        )
        file.write(head.encode("utf-8", "backslashreplace") + (fast or b""))


def _write_json(result: xr.Dataset, file: IO[bytes]) -> None:
    encode = json.JSONEncoder(allow_nan=False).encode
    head = {"attributes": _attributes(result), "rounds": list(_rounds(result))}
    file.write(encode(head).removesuffix("}").encode() + b', "features": [')
    before = "\n"
    for part in _parts(result):
        for row in rows(part):
            file.write(f"{before}{encode(row)}".encode())
            before = ",\n"
    file.write(b"\n]}\n")


def _write_list(result: xr.Dataset, file: IO[bytes]) -> None:
    """Write the ids of the selected variants, or names of other features, one per line."""
    chosen = selected_alone(result) if "selected" in result else along_features(result)
    ranks = chosen["rank"].to_numpy()
    best_first = np.argsort(ranks if ranks.ndim == 1 else ranks.min(axis=0), kind="stable")
    ids = [str(name) for name in variant_ids(chosen)[best_first]]
    _warn_of_list(result, ids)
    file.write("".join(f"{name}\n" for name in dict.fromkeys(ids)).encode())


def _warn_of_list(result: xr.Dataset, ids: list[str]) -> None:
    """Warn if the list is empty, or if ids are ambiguous and would select more features."""
    if not ids:
        warn("No feature is selected, so the list is empty.")
    blanks = [name for name in ids if len(name.split()) != 1]
    if blanks:
        warn(
            f"Some names in the list contain blanks ({abbreviate(blanks)}), but --extract and "
            "PLINK split lines at blanks. Rename these features, or use a table (.tsv)."
        )
    listed, n_alike = pd.Index(ids).unique(), 0
    for rows in slices(along_features(result).sizes[FEATURES], ROWS):
        part = along_features(result).isel(features=rows)
        n_alike += int(np.isin(variant_ids(part), listed).sum())
    if n_alike > len(ids):
        warn(
            "Features that are not selected share an id with a selected feature "
            f"({n_alike - len(ids):,} in total), so --extract keeps them, too. Give variants "
            "unique ids (plink2 --set-all-var-ids), or use a table (.tsv)."
        )


def _rounds(result: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Yield the rows of the history of rounds.

    For several runs, the rows of each run follow those of the run before, with its name.
    """
    variables = sorted(result.variables.items())  # sorted, as in a result read from disk
    dim = next((dim for dim in OF_RUNS if dim in result.dims), None)
    if dim is None:
        yield from rows({str(n): v.to_numpy() for n, v in variables if v.dims == ("rounds",)})
        return
    of_rounds = {str(n): v.to_numpy() for n, v in variables if v.dims == (dim, "rounds")}
    for i, name in enumerate(result[dim].to_numpy()):
        for row in rows({key: values[i] for key, values in of_rounds.items()}):
            yield {dim: str(name), **row}


def _write_parquet(result: xr.Dataset, file: IO[bytes]) -> None:
    pa, parquet = _pyarrow()
    about = {b"dhsic": json.dumps(_attributes(result)).encode()}
    writer = None
    for part in _parts(result, packed):
        arrays = {
            name: pa.array(values, from_pandas=True) if isinstance(values, np.ndarray) else values
            for name, values in part.items()
        }
        table = pa.table(arrays).replace_schema_metadata(about)
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _attributes(result: xr.Dataset) -> dict[str, Any]:
    """Attributes of a result, ready for JSON."""
    attributes = {name: _strict(value) for name, value in plain(dict(result.attrs)).items()}
    return attributes | {
        name: json.loads(attributes[name]) for name in OF_JSON if name in attributes
    }


def _strict(value: Any) -> Any:
    """Replace numbers that JSON lacks (NaN, infinity) by None."""
    if isinstance(value, dict):
        return {name: _strict(of) for name, of in value.items()}
    if isinstance(value, list):
        return [_strict(of) for of in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "A Parquet table needs the package pyarrow, which is not installed. Install "
            "dhsic[parquet], or choose another suffix: .tsv, .csv or .json."
        ) from error
    return pa, pyarrow.parquet


#: Writer of each table format, by suffix without ``.gz``, and how to read it in pandas.
FORMATS: Mapping[str, tuple[Callable[[xr.Dataset, IO[bytes]], None], str]] = {
    ".tsv": (partial(_write_text, separator="\t"), "pandas.read_csv(path, sep='\\t')"),
    ".csv": (partial(_write_text, separator=","), "pandas.read_csv(path)"),
    ".parquet": (_write_parquet, "pandas.read_parquet(path)"),
    ".json": (_write_json, "json.load, and pandas.DataFrame of its 'features'"),
    LIST: (_write_list, "pathlib.Path(path).read_text().splitlines()"),
}
PACKED = (".tsv.gz", ".csv.gz")

# Reading -----------------------------------------------------------------------------------


def read_table(path: str | PathLike[str]) -> xr.Dataset:
    """Read the result of one run from a table of all its features.

    Features are in the order of the data. Text tables contain no attributes. Some attributes are
    computed from the columns, and ``data`` is the path.

    Raises
    ------
    InputError
        The file is not a table of `write_table`, has several runs, or only selected features.
    """
    frame, attributes = _frame_of(path)
    if any(name.startswith("rank_") and name[5:] != "alone" for name in frame):
        raise InputError(
            f"{path} is a table of several runs. Pass the result as a store (.zarr) instead."
        )
    if lacking := {"rank", "score", "selected", "index"} - set(frame):
        raise InputError(
            f"{path} has no column {', '.join(sorted(lacking))}, so it is not a table of features. "
            "Pass a table written by --out of dhsic select or test."
        )
    frame = frame.sort_values("index", kind="stable")
    selected, n = frame["selected"].to_numpy().astype(bool), len(frame)
    if n < attributes.get("n_features", int(frame["index"].max()) + 1 if selected.all() else n):
        raise InputError(
            f"{path} contains only the selected features, but all features are needed; pass a "
            "table written without --selected-only, or the result (.zarr)."
        )
    attributes_of_columns = {
        "n_features": n,
        "n_selected": int(selected.sum()),
        "data": fspath(path),
    }
    if "constant" in frame:
        attributes_of_columns["n_constant"] = int(frame["constant"].sum())
    if "missing" in frame:
        attributes_of_columns["n_wholly_missing"] = int((frame["missing"] == 1).sum())
    columns = {str(name): frame[name].to_numpy() for name in frame} | {"selected": selected}
    coords = {f"variant_{name}": columns.pop(name) for name in OF_VARIANTS if name in columns}
    coords |= {STORED: columns.pop("index"), NAME: columns.pop("name")}
    return xr.Dataset(
        {name: ("features", values) for name, values in columns.items()},
        {name: ("features", values) for name, values in coords.items()},
        {**attributes_of_columns, "promised_bytes": 0, **attributes},
    )


def _frame_of(path: str | PathLike[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a table; return a frame with typed columns, and the attributes of the result."""
    suffix, file = table_suffix(path), as_path(path)
    try:
        if suffix == ".parquet":
            table = _pyarrow()[1].read_table(file)
            about = json.loads((table.schema.metadata or {}).get(b"dhsic", b"{}"))
            return table.to_pandas(), _as_attributes(about)
        if suffix == ".json":
            content = json.loads(file.read_text(encoding="utf-8"))
            return pd.DataFrame(content["features"]), _as_attributes(content["attributes"])
        separator = "\t" if suffix.startswith(".tsv") else ","
        frame = pd.read_csv(file, sep=separator, dtype=str, na_filter=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a table of a result ({error}).") from error
    for name in set(frame) - {*TEXT}:
        values = frame[name]
        is_bool = values.isin(("True", "False")).all()
        frame[name] = values == "True" if is_bool else pd.to_numeric(values, errors="coerce")
    return frame, {}


def _as_attributes(about: Mapping[str, Any]) -> dict[str, Any]:
    """Convert attributes from JSON to those of a result; the inverse of `_attributes`."""
    return {k: json.dumps(v) if k in OF_JSON else v for k, v in about.items() if v is not None}


# Places ------------------------------------------------------------------------------------


def table_suffix(path: str | PathLike[str]) -> str:
    """Suffix of a path or URL if it is one of `FORMATS`; otherwise "".

    >>> table_suffix("all.TSV"), table_suffix("s3://b/all.csv.gz"), table_suffix("all.tsv.zarr")
    ('.tsv', '.csv.gz', '')
    """
    name = fspath(path).lower()
    return next((suffix for suffix in (*FORMATS, *PACKED) if name.endswith(suffix)), "")


def check_suffix(path: str | PathLike[str]) -> str:
    """Return the suffix of a table, "" for a Zarr store; InputError for unknown suffixes."""
    suffix = table_suffix(path)
    other = PurePosixPath(fspath(path)).suffix
    if not suffix and other.lower() not in ZARR:
        raise InputError(
            f"{path} ends in {other}, which is not a format for results. Use the suffix .tsv, .csv "
            "(both also .gz), .parquet or .json for a table of all features, .snplist for a list "
            "of the selected features, or .zarr for a Zarr store."
        )
    if suffix == ".parquet":
        _pyarrow()
    return suffix


def write_table(result: xr.Dataset, path: str | PathLike[str]) -> None:
    """Write a result as a table to a path or URL, in the format of its suffix.

    If the write is interrupted, the previous file remains.
    """
    suffix = check_suffix(path)
    write, _ = FORMATS[suffix.removesuffix(".gz")]
    with _open_atomically(path) as file:
        if suffix not in PACKED:
            write(result, file)
            return
        with gzip.GzipFile(
            "", "wb", compresslevel=1, fileobj=file, mtime=0
        ) as packed:  # no time stamp, so equal tables are equal bytes
            write(result, packed)  # type: ignore[arg-type]  # only methods that it has are used


@contextmanager
def _open_atomically(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Context that yields a file; it appears at the path or URL only if no error occurs."""
    if not is_url(path):
        check_place(as_path(path), "The result", InputError)
        as_path(path).parent.mkdir(exist_ok=True)
        with replacing(as_path(path)) as file:
            yield file
        return
    with tempfile.TemporaryDirectory(prefix="dhsic-table-") as folder:
        aside = Path(folder) / "table"
        with aside.open("wb") as file:
            yield file
        ObjectStore(check_url(fspath(path), "", InputError)).write("", aside)
