"""Opening of any supported data as a source: `open_source`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit
from urllib.request import url2pathname
from zipfile import BadZipFile

import numpy as np
import zarr
from zarr.abc.store import Store

from dhsic.errors import DataError, DhsicError, InputError, warn
from dhsic.sources import AbstractSource
from dhsic.sources.arrays import open_in_memory, open_xarray
from dhsic.sources.arrow import begins, is_arrow
from dhsic.sources.bgen import SUFFIX as BGEN
from dhsic.sources.bgen import open_bgen
from dhsic.sources.compression import SUFFIXES as PACKED
from dhsic.sources.delimited import is_text_table
from dhsic.sources.fetching import Copy, FetchedSource, fetch
from dhsic.sources.file_lists import NamedMatrices, expanded, is_several, short_name
from dhsic.sources.h5ad import H5AD, MODALITY, is_anndata, open_h5ad, open_object
from dhsic.sources.hdf5 import HDF5, is_folder_of_counts, open_counts_folder, open_hdf5
from dhsic.sources.hdf5 import SUFFIXES as HDF5_SUFFIXES
from dhsic.sources.ids import abbreviate, did_you_mean
from dhsic.sources.joined import JoinedSource, Part
from dhsic.sources.joining import joined
from dhsic.sources.mixed_tables import (
    is_frame,
    open_mixed_frame,
    open_mixed_table,
    refuse_categories,
    refuse_codes,
)
from dhsic.sources.npy import NUMPY, open_npy, open_npz
from dhsic.sources.options import (
    MissingChunks,
    OpenOptions,
    PloidyPolicy,
)
from dhsic.sources.other_frames import in_pandas
from dhsic.sources.parquet import open_parquet
from dhsic.sources.plink import SUFFIXES as PLINK_SUFFIXES
from dhsic.sources.plink import is_prefix, open_plink
from dhsic.sources.sparse import is_sparse, open_sparse
from dhsic.sources.stores import (
    METADATA,
    UNKNOWN_DTYPE,
    ArchiveStore,
    BucketStore,
    FolderStore,
    file_bytes,
    metadata_of,
)
from dhsic.sources.summary_rows import OUTSIDE_GENES
from dhsic.sources.text_tables import open_table
from dhsic.sources.unreadable import UNREAD, WORKBOOKS, nothing_at
from dhsic.sources.variants import passing
from dhsic.sources.vcf import DecodedStore, decoded_store, decoded_vcf, is_vcf
from dhsic.sources.views import RecodedSource, SubsetSource
from dhsic.sources.zarr_matrices import open_array, open_group, parent

#: Suffixes of text tables; files with other suffixes are recognised by their content.
TABLES = (".csv", ".tsv", ".txt", ".tab", ".dat", ".raw", ".traw", ".gct")
#: Suffixes of text files of PLINK, which are not tables of features.
BESIDE_PLINK = (".bim", ".fam", ".psam", ".pvar", ".ped", ".map")
#: Functions that open files other than Zarr, by suffix in lower case; for other files see
#: `FOREIGN`. The functions get a local path, which may not exist; files at URLs have been
#: downloaded (`fetching`). They apply the options `sample_dim`, `n_samples` and `missing_code`, and
#: apply or refuse `variable`. They raise InputError for files that they refuse.
OPENERS: dict[str, Callable[[str, OpenOptions], AbstractSource]] = {
    **dict.fromkeys(PLINK_SUFFIXES, open_plink),
    **dict.fromkeys((text + packed for text in TABLES for packed in ("", *PACKED)), open_table),
    **dict.fromkeys((".parquet", ".pq", ".parq", ".feather", ".arrow"), open_parquet),
    **dict.fromkeys(HDF5_SUFFIXES, open_hdf5),
    ".npy": open_npy,
    ".npz": open_npz,
    H5AD: open_h5ad,
    BGEN: open_bgen,
}
#: Openers of files that may contain labels beside the matrix; they apply `not_features`.
OF_TABLES = (open_table, open_parquet, open_npz)
#: Openers of files that may contain counts of genes.
OF_COUNTS = (open_h5ad, open_hdf5, open_counts_folder)


def opener_of(X: Any) -> Callable[[str, OpenOptions], AbstractSource] | None:
    """Choose the function that opens a path or URL, by the suffix or by a local file's content.

    The result is None for Zarr, for VCF, which is decoded to Zarr, and for data in memory.
    """
    name = fspath(X) if isinstance(X, str | PathLike) else ""
    ends = name.lower().endswith
    matching = next((opener for suffix, opener in OPENERS.items() if ends(suffix)), None)
    if matching is not None or not name or is_vcf(name):
        return matching
    if MODALITY.fullmatch(name):
        return open_h5ad
    return open_plink if is_prefix(name) else _opener_by_content(name)


def _opener_by_content(name: str) -> Callable[[str, OpenOptions], AbstractSource] | None:
    """Choose the function that opens a local file or folder, by its content.

    The result is None if the content is unknown, and for Zarr.
    """
    if "://" in name and not name.startswith("file://"):
        return None
    path = Path(on_disk(name))
    if path.is_dir():
        if any((path / mark).exists() for mark in METADATA):
            return None
        if is_folder_of_counts(path):
            return open_counts_folder
        return open_parquet if is_arrow(str(path)) else None
    return _opener_by_beginning(path) if path.is_file() else None


def _opener_by_beginning(path: Path) -> Callable[[str, OpenOptions], AbstractSource] | None:
    """Choose the function that opens a file, by its first bytes; None if these are unknown."""
    ends = path.name.lower().endswith
    if not ends(UNREAD):
        by_mark = {HDF5: open_hdf5, NUMPY: open_npy}
        head = begins(path)
        found = next((opener for mark, opener in by_mark.items() if head.startswith(mark)), None)
        if found is not None:
            return found
    if is_arrow(str(path)):
        return open_parquet
    # Some programs write text tables with the suffix .xls; a workbook is not text.
    is_other = ends((*BESIDE_PLINK, ".zip", *UNREAD)) and not ends(WORKBOOKS)
    return open_table if not is_other and is_text_table(str(path)) else None


def is_text(X: Any) -> bool:
    """Whether X is the path of a text table, or a list with such a path."""
    return any(map(is_text, X)) if is_several(X) else opener_of(X) is open_table


def is_table(X: Any) -> bool:
    """Whether X is the path of a table that may contain labels, or a list with such a path."""
    return any(map(is_table, X)) if is_several(X) else opener_of(X) in OF_TABLES


def has_sample_table(X: Any) -> bool:
    """Whether X is the path of a file that has a separate table of samples (BGEN)."""
    return opener_of(X) is open_bgen


def open_source(
    X: Any,
    *,
    variable: str | None = None,
    sample_dim: str | int | None = None,
    n_samples: int | None = None,
    missing_code: float | Sequence[float] | str | None = "auto",
    missing_chunks: MissingChunks = "error",
    ploidy_policy: PloidyPolicy = "scale",
    pass_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    not_features: Sequence[str] = (),
    na: Sequence[str] = (),
    categories: Sequence[str] | None = None,
    intersect_samples: bool = False,
) -> AbstractSource:
    """Open data as a source of samples x features.

    Parameters
    ----------
    X : array, dataset, group, path or URL
        In memory: a NumPy, dask or sparse (scipy) array (samples, features), a pandas, polars or
        dask DataFrame, an xarray DataArray or Dataset, a zarr Array or Group, an AnnData object, or
        an AbstractSource. A path or URL of: a Zarr array or group (a folder, a ``.zip`` file, or in
        an object store), including VCF Zarr and AnnData; an ``.h5ad`` file; PLINK genotypes
        (``.bed`` or ``.pgen``, with or without the suffix); BGEN, VCF or BCF; a table (CSV, TSV,
        Parquet); or ``.npy`` or ``.npz``. Text files with an unknown suffix are read as tables.
        Several files with the same samples are one matrix, such as one file per chromosome: a list
        of any of these, a pattern (``"chr*.bed"``), or a text file of paths (``"@files.txt"``).
        Features are ordered by chromosome and position if all files state them, otherwise by the
        numbers in the file names. Samples are matched by name.
    variable : str, optional
        Name of the matrix in a Dataset or group. By default ``call_genotype``, otherwise
        ``call_dosage``, otherwise the only variable with two dimensions. For AnnData the default
        is ``X``; another matrix is, for example, ``layers/counts``. For VCF it is ``GT``
        (genotypes), otherwise ``DS`` (dosages), otherwise ``GP`` (probabilities).
    sample_dim : str or int, optional
        Dimension or axis of the samples. Needed only if it cannot be inferred from the dimension
        names or from `n_samples`.
    n_samples : int, optional
        Number of labels, which must be the number of samples of X.
    missing_code : int, sequence of int, None or "auto"
        Numbers that mean missing. ``"auto"`` uses -1 in VCF Zarr, and the code that a Zarr or
        xarray array declares (attribute ``missing_value`` or ``_FillValue``, or fill value -1 of
        int8). In data of 0, 1 and 2 it uses -1, -9 and -127; any other single extra value raises
        an error. A number or several numbers replace all of these. None: no number means missing.
        NaN in floats always means missing.
    missing_chunks : {"error", "fill"}
        Whether chunks that are absent from a Zarr array raise an error or are read as fill values.
    ploidy_policy : {"scale", "count", "error"}
        Dosage of a genotype of lower ploidy, such as a haploid call of males on X in a diploid
        store. ``"scale"``: scaled to the ploidy of the store (0 or 2, as in PLINK). ``"count"``:
        the number of its own alleles (0 or 1; the dosage then also depends on sex). ``"error"``:
        raise an error.
    pass_only : bool
        Exclude variants of VCF or VCF Zarr whose FILTER is not PASS, like ``bcftools view -f
        PASS``. This includes variants without a FILTER (".").
    storage_options : mapping, optional
        Options of the store at a URL, with the names of obstore, such as
        ``{"skip_signature": True}`` for a public bucket. Put keys into environment variables
        instead.
    not_features : sequence of str
        Columns of a table that are not features, such as labels and covariates (rows, if the
        features are rows). They are available as `sample_coords` of the source. For other data:
        features to exclude, by name, or by position from 0 if features have no names.
    na : sequence of str
        Text that means a missing value in a text table, such as ``["?", "n.d."]``, in addition to
        an empty field, ".", NA, NaN and null. ``"bmi=0"`` applies only to the column ``bmi``.
    categories : sequence of str, optional
        Read text columns of a DataFrame or text table as categorical features. Columns with these
        names become categorical, too, even if they contain numbers (see `AbstractSource.levels`).
        By default, text raises an error.
    intersect_samples : bool
        For several files with different samples: use only the samples that all files have. Their
        number is reported. By default, different samples raise an error.

    Returns
    -------
    AbstractSource

    Raises
    ------
    InputError
        X cannot be read as a matrix of samples x features, or its layout is ambiguous.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.arange(6.0).reshape(2, 3), n_samples=2)
    >>> source.n_samples, source.n_features
    (2, 3)
    """
    X = expanded(X)
    options = OpenOptions(
        *(variable, sample_dim, n_samples, None, missing_chunks, ploidy_policy, storage_options),
        not_features=not_features,
        na=na,
        categories=categories,
    )
    if is_several(X):
        return _open_parts(
            X, options, missing_code, pass_only=pass_only, intersect_samples=intersect_samples
        )
    return _open_one(X, options, missing_code, pass_only=pass_only)


def _open_one(
    X: Any,
    options: OpenOptions,
    missing_code: Any,
    *,
    pass_only: bool,
) -> AbstractSource:
    """Open data that are a single matrix."""
    X = in_pandas(X)
    several = _codes_of(missing_code)
    options = replace(options, missing_code=None if several else missing_code)
    if isinstance(X, AbstractSource):
        options.check_length(X.n_samples, "X")
        if pass_only or options.sample_dim is not None or options.variable is not None:
            raise InputError(
                "X is already open; pass sample_dim=, variable= and pass_only= when you open it."
            )
        refuse_codes(X, options.categories)
        return _without(X, options.not_features)
    opener = opener_of(X)
    if options.na and opener is not open_table:
        _refuse_na(options.na)
    opener = _with_categories(X, opener, options.categories)
    source, X = _opened_at(X, opener, options)
    source.keeps_codes |= not isinstance(missing_code, str)  # declared: no code is inferred
    _refuse_scaled(source, missing_code)
    if source.dtype.kind == "f" and source.missing_code is not None:
        several = (*several, source.missing_code)
    source = _recoded(source, several)
    if pass_only:
        store = parent(X) if isinstance(X, zarr.Array) else X
        source = passing(source, store, options.missing_chunks)
    if _may_hold_genes(X, opener):
        source = _without_unassigned(source, short_name(X))
    if opener in (open_table, open_mixed_table, open_parquet):  # they exclude columns themselves
        return source
    not_columns = [name for name in options.not_features if name not in source.sample_coords()]
    return _without(source, not_columns)


def _open_parts(
    X: Sequence[Any],
    options: OpenOptions,
    missing_code: Any,
    *,
    pass_only: bool,
    intersect_samples: bool,
) -> AbstractSource:
    """Open several matrices and join them along the feature axis."""
    if options.na and not is_text(X):
        _refuse_na(options.na)
    refuse_categories(options.categories)
    passing_of, parts = dict[int, SubsetSource](), list[Part]()
    names = X.names if isinstance(X, NamedMatrices) else ()
    for number, x in enumerate(X, 1):
        own = replace(
            options,
            n_samples=None if intersect_samples else options.n_samples,
            not_features=options.not_features if is_table(x) else (),
            na=options.na if is_text(x) else (),
            categories=None,
            is_part=True,
        )
        if is_several(x):
            source = _open_parts(
                x, own, missing_code, pass_only=pass_only, intersect_samples=intersect_samples
            )
        else:
            source = _open_one(x, own, missing_code, pass_only=pass_only)
        if pass_only and isinstance(source, SubsetSource):  # the joint source is filtered instead
            passing_of[id(source.base)] = source
            source = source.base
        is_path = isinstance(x, str | PathLike)
        name = fspath(x) if is_path else f"matrix {number} ({type(x).__name__})"
        parts.append(Part(source, names[number - 1] if names else name, x))
    source = joined(parts, intersect_samples=intersect_samples, are_blocks=bool(names))
    options.check_length(source.n_samples, short_name(X))
    not_columns = [name for name in options.not_features if name not in source.sample_coords()]
    return _without(_passing_parts(source, passing_of), not_columns)


def _passing_parts(source: JoinedSource, passing_of: Mapping[int, SubsetSource]) -> AbstractSource:
    """Return a view of a joined source that contains only variants with FILTER PASS.

    `passing_of` maps the ``id()`` of the source of each part to the view of its variants with PASS.
    """
    if not passing_of:
        return source
    views = [passing_of[id(part.source)] for part in source.parts]
    starts = source.starts.tolist()
    view = SubsetSource(
        source,
        np.concatenate([s + one.features for s, one in zip(starts, views, strict=False)]),
    )
    if n := source.n_features - view.n_features:
        view.left_out = (("pass_only", n),)
    return view


def _refuse_na(na: Sequence[str]) -> NoReturn:
    """Raise InputError for the option `na` with data other than text tables."""
    raise InputError(
        f"na={[*na]} is text that means a missing value in a text table (CSV, TSV), but the "
        "data are not a text table. Leave out na=; to declare missing numbers, use "
        "missing_code=."
    )


def _with_categories(
    X: Any,
    opener: Callable[[str, OpenOptions], AbstractSource] | None,
    categories: Sequence[str] | None,
) -> Callable[[str, OpenOptions], AbstractSource] | None:
    """Return the function that opens X with `categories`; refuse the option for other data."""
    if not (is_frame(X) or opener is open_table):
        refuse_categories(categories)
    is_mixed = categories is not None and opener is open_table
    return open_mixed_table if is_mixed else opener


def _opened_at(
    X: Any, opener: Callable[[str, OpenOptions], AbstractSource] | None, options: OpenOptions
) -> tuple[AbstractSource, Any]:
    """Download or decode data if necessary, and open them.

    Returns the source, and the object that it reads: a path, store, group or array.
    """
    copy = _copy_of(X, options.storage_options)
    try:
        if isinstance(X, str | PathLike):
            X = on_disk(X, copy)
            if is_vcf(X):
                opener, (X, options) = None, _decoded(X, options)
            elif opener is None:
                X = open_store(X, options.storage_options)
        source = _opened(X, options) if opener is None else opener(X, options)
    except DhsicError as error:
        if copy is None:
            raise
        raise type(error)(copy.in_sentence(error)) from error
    if copy is not None and not source.client_bytes:  # data in memory need no file
        source = FetchedSource(source, copy)
    return source, X


def _decoded(path: str, options: OpenOptions) -> tuple[zarr.Group, OpenOptions]:
    """Open a VCF as a VCF Zarr group.

    Returns the group, and the options with the variable of its calls.
    """
    store = decoded_vcf(path, options.variable)
    return zarr.open_group(store, mode="r"), replace(options, variable=store.decoded.variable)


def _copy_of(X: Any, storage_options: Mapping[str, Any] | None = None) -> Copy | None:
    """Return the local copy of a file at a URL; None if no copy is needed.

    Local data need no copy, and neither do stores that are read directly from the URL.
    """
    name = fspath(X) if isinstance(X, str | PathLike) else ""
    is_url = "://" in name and not name.startswith("file://")
    is_file = is_url and (
        opener_of(name) is not None or is_vcf(name) or name.lower().endswith(".zip")
    )
    return fetch(name, storage_options) if is_file else None


def on_disk(path: str | PathLike[str], copy: Copy | None = None) -> str:
    """Return the local path of a file; a file at a URL is downloaded first."""
    copy, name = copy or _copy_of(path), fspath(path)
    if copy is not None:
        return str(copy.path)
    return url2pathname(urlsplit(name).path) if name.startswith("file://") else name


def _codes_of(missing_code: Any) -> tuple[float, ...]:
    """Return the codes as a tuple if `missing_code` is a sequence or a float; otherwise ().

    Raises
    ------
    InputError
        The value is not valid.
    """
    numbers = int | float | np.integer | np.floating
    if missing_code is None or isinstance(missing_code, str | int | np.integer):
        is_known = missing_code in (None, "auto") or not isinstance(missing_code, str | bool)
        codes: tuple[Any, ...] = ()
    elif isinstance(missing_code, numbers):
        is_known, codes = bool(np.isfinite(missing_code)), (missing_code,)
    else:
        codes = tuple(missing_code) if isinstance(missing_code, Iterable) else ()
        is_known = bool(codes) and all(isinstance(code, numbers) for code in codes)
    if not is_known:
        raise InputError(
            f"missing_code={missing_code!r} is not valid; pass 'auto', a number, several "
            "numbers, or None if no number means missing."
        )
    return codes


def _recoded(source: AbstractSource, codes: Sequence[float]) -> AbstractSource:
    """Return a view of a source in which values equal to any of the codes are missing.

    Fractional codes are ignored for integer data.
    """
    if source.dtype.kind != "f":
        codes = [int(code) for code in codes if code == int(code)]
    return RecodedSource(source, codes) if codes else source


def _without(source: AbstractSource, not_features: Iterable[Any]) -> AbstractSource:
    """Exclude features of a matrix by name, or by position from 0 if they have no names."""
    left_out = {str(name): name for name in not_features if name not in source.not_features}
    if not left_out:
        return source
    names = source.feature_names()
    known = [*map(str, range(source.n_features) if names is None else names)]
    absent = [given for name, given in left_out.items() if name not in set(known)]
    if absent:
        what = (
            f"features have no names, and their positions are 0 to {source.n_features - 1}"
            if names is None
            else f"features are {abbreviate(map(repr, known), 8)}"
        )
        raise InputError(
            f"not_features={absent!r} is not a feature of X: its "
            f"{what}.{'' if names is None else did_you_mean(str(absent[0]), known)} Leave it out."
        )
    view = SubsetSource(source, np.flatnonzero([name not in left_out for name in known]))
    view.not_features = (*source.not_features, *left_out.values())
    return view


def _may_hold_genes(X: Any, opener: Any) -> bool:
    """Whether the features of the data may be genes: in tables, counts and AnnData.

    X is the store, path or object that `opener` opened.
    """
    is_store = isinstance(X, zarr.Group) and X.attrs.get("encoding-type") == "anndata"
    is_file = opener in (*OF_TABLES, open_mixed_table, *OF_COUNTS)
    return is_store or is_file or is_frame(X) or is_anndata(X)


def _without_unassigned(source: AbstractSource, where: str) -> AbstractSource:
    """Exclude the counts of reads outside genes that htseq-count and STAR add, with a warning."""
    names = source.feature_names()
    counted = [] if names is None else sorted(OUTSIDE_GENES.intersection(names.tolist()))
    if not counted:
        return source
    warn(
        f"{where} contains counts of reads outside genes ({abbreviate(map(repr, counted))}), as "
        "htseq-count and STAR write them. They are left out. To use them as features, rename them."
    )
    return _without(source, counted)


def _refuse_scaled(source: AbstractSource, missing_code: Any) -> None:
    """Refuse the option `missing_code` if values are stored with a scale factor and offset."""
    packing = None if source.chunked is None else source.chunked.packing
    if packing is None or not packing.is_scaled or missing_code in (None, "auto"):
        return
    raise InputError(
        f"missing_code={missing_code!r} cannot be used here, because X is stored as numbers that "
        f"are transformed with scale_factor={packing.scale} and add_offset={packing.offset}. "
        "Leave out missing_code: the array attributes _FillValue and missing_value define which "
        "stored numbers are missing."
    )


def _opened(X: Any, options: OpenOptions) -> AbstractSource:
    if isinstance(X, zarr.Array):
        return open_array(X, options)
    if isinstance(X, zarr.Group):
        source = open_group(X, options)
        if isinstance(X.store, DecodedStore):
            source.hint = X.store.decoded.hint
        return source
    if type(X).__module__.partition(".")[0] == "xarray":
        return open_xarray(X, options)
    if is_anndata(X):
        return open_object(X, options)
    if is_sparse(X):
        return open_sparse(X, options)
    if options.categories is not None and is_frame(X):
        return open_mixed_frame(X, options)
    return open_in_memory(X, options)


def open_store(path: str, storage_options: Mapping[str, Any] | None = None) -> Any:
    """Open the Zarr array or group at a path or URL.

    Raises
    ------
    InputError
        Nothing exists there, or the data have another format. The message says how to convert them.
    DataError
        The metadata or the zip file are damaged.
    """
    path = on_disk(path) if path.startswith("file://") else path
    if is_vcf(path):
        return zarr.open_group(decoded_store(path), mode="r")
    is_url = "://" in path
    try:
        with metadata_of(path):
            store = BucketStore(path, storage_options) if is_url else _local(Path(path))
            try:
                return zarr.open(store, mode="r")
            except ValueError as error:
                if UNKNOWN_DTYPE not in str(error):
                    raise
            # One array of an unknown type makes the consolidated metadata of all arrays invalid.
            return zarr.open_group(store, mode="r", use_consolidated=False)
    except BadZipFile as error:
        raise DataError(
            f"{path} is not a valid zip file, or its end is missing ({error}). Copy or write it "
            "again."
        ) from error
    except (FileNotFoundError, NotADirectoryError) as error:  # zarr's own not-found errors too
        raise InputError(nothing_at(path, is_url=is_url)) from error


def _local(path: Path) -> Store:
    """Return a Zarr store for a folder or zip file; it reads only regular files, no devices."""
    if path.suffix.lower() != ".zip":
        return FolderStore(path, read_only=True)
    if not path.is_dir():
        file_bytes(path)
    return ArchiveStore(path, mode="r")
