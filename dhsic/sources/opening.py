"""`open_source`: open any supported data as a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname
from zipfile import BadZipFile

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.storage import StorePath

from dhsic._typing import Array
from dhsic.errors import DataError, DhsicError, InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.anndata import AnnDataStore, open_anndata, refuse_mudata
from dhsic.sources.arrays import open_in_memory, open_xarray
from dhsic.sources.arrow import begins, is_arrow
from dhsic.sources.blocks import check_shape
from dhsic.sources.chunked import (
    array_at,
    arrays_of,
    child,
    chunked_of,
    group_at,
    member,
    place_of,
    read_names,
)
from dhsic.sources.columns import NAME, Column
from dhsic.sources.compression import SUFFIXES as PACKED
from dhsic.sources.delimited import is_text_table
from dhsic.sources.fetching import Copy, FetchedSource, fetch
from dhsic.sources.h5ad import H5AD, is_anndata, open_h5ad, open_object
from dhsic.sources.hdf5 import HDF5, is_folder_of_counts, open_counts_folder, open_hdf5
from dhsic.sources.hdf5 import SUFFIXES as HDF5_SUFFIXES
from dhsic.sources.ids import abbreviate, did_you_mean
from dhsic.sources.npy import NUMPY, open_npy, open_npz
from dhsic.sources.options import (
    MissingChunks,
    OpenOptions,
    PloidyPolicy,
    dimension_names,
    naming_array,
)
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
from dhsic.sources.text_tables import open_table
from dhsic.sources.variants import POSITION, Variants, passing
from dhsic.sources.vcz import holds_calls, open_calls
from dhsic.sources.views import RecodedSource, SubsetSource
from dhsic.sources.zarr import ZarrSource

#: What says whether arrays of VCF Zarr describe a matrix whose dimensions have no names.
NAMING = (POSITION, "sample_id")
#: Suffixes of tables of text; others are known by their content.
TABLES = (".csv", ".tsv", ".txt", ".tab", ".dat", ".raw", ".traw", ".gct")
#: Text files beside genotypes of PLINK, which are no tables of features.
BESIDE_PLINK = (".bim", ".fam", ".psam", ".pvar", ".ped", ".map")
#: What opens files that are no Zarr, by suffix in lower case; others: `FOREIGN`.
#: It gets a path, at which there may be nothing; what is at a URL was fetched (`fetching`). It
#: honours the options `sample_dim`, `n_samples` and `missing_code`, and honours or refuses
#: `variable`. What it refuses gets an InputError.
OPENERS: dict[str, Callable[[str, OpenOptions], AbstractSource]] = {
    **dict.fromkeys(PLINK_SUFFIXES, open_plink),
    **dict.fromkeys((text + packed for text in TABLES for packed in ("", *PACKED)), open_table),
    **dict.fromkeys((".parquet", ".pq", ".parq", ".feather", ".arrow"), open_parquet),
    **dict.fromkeys(HDF5_SUFFIXES, open_hdf5),
    ".npy": open_npy,
    ".npz": open_npz,
    H5AD: open_h5ad,
}
#: Those of files that may hold labels beside the matrix, and honour `not_features`.
OF_TABLES = (open_table, open_parquet, open_npz)
#: From any VCF, sorted or not, to VCF Zarr: bio2zarr wants one that is sorted and has an index.
FROM_VCF = (
    "pip install pysam 'bio2zarr[vcf]' && python -c \"from pysam import bcftools as b; "
    "b.sort('-Ob', '-o', 'sorted.bcf', {path!r}, catch_stdout=False); b.index('sorted.bcf')\" && "
    "vcf2zarr convert sorted.bcf out.vcz (where bcftools is at hand: bcftools sort and index; or "
    "plink2 --vcf FILE --make-pgen --out out, then pass out.pgen)"
)
#: What ends the name of a file that is not Zarr, what it is, and how it becomes readable.
FOREIGN = (
    ((".vcf", ".vcf.gz", ".vcf.bgz", ".bcf"), "VCF", FROM_VCF),
    (
        (".bgen",),
        "BGEN",
        "plink2 --bgen {path} ref-first --make-pgen --out x, then pass x.pgen",
    ),
    ((".loom",), "Loom", "anndata.io.read_loom(path).write_h5ad('out.h5ad')"),
    ((".nc",), "NetCDF", "X = xarray.open_dataset({path!r})"),
    (
        (".xlsx", ".xls"),
        "Excel",
        "X = pandas.read_excel({path!r}, index_col=0), then X.to_csv('NEW.csv')",
    ),
    (
        (".mtx", ".mtx.gz"),
        "Matrix Market",
        "pass the folder of Cell Ranger that holds it, or X = scipy.io.mmread({path!r}).T.tocsr()",
    ),
)

#: Ends of names of workbooks, and of tables of text that are called so.
WORKBOOKS = (".xlsx", ".xls")
#: Groups within groups that are looked through for matrices, at most.
GROUP_DEPTH = 4
#: Ends of names of files that are not read, whatever they hold.
UNREAD = tuple(suffix for suffixes, *_ in FOREIGN for suffix in suffixes)


def opener_of(X: Any) -> Callable[[str, OpenOptions], AbstractSource] | None:
    """Find the opener of a path or URL by its suffix, or of a local file by its content.

    None for Zarr, and for what is in memory.
    """
    name = fspath(X) if isinstance(X, str | PathLike) else ""
    ends = name.lower().endswith
    matching = next((opener for suffix, opener in OPENERS.items() if ends(suffix)), None)
    if matching is not None or not name:
        return matching
    return open_plink if is_prefix(name) else _opener_by_content(name)


def _opener_by_content(name: str) -> Callable[[str, OpenOptions], AbstractSource] | None:
    """Find the opener of a file or folder without a known suffix."""
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
    """Find the opener of a file by its first bytes."""
    ends = path.name.lower().endswith
    if not ends(UNREAD):
        by_mark = {HDF5: open_hdf5, NUMPY: open_npy}
        head = begins(path)
        found = next((opener for mark, opener in by_mark.items() if head.startswith(mark)), None)
        if found is not None:
            return found
    if is_arrow(str(path)):
        return open_parquet
    # Programs call tables of text .xls, which spreadsheets open; a workbook is no text.
    is_other = ends((*BESIDE_PLINK, ".zip", *UNREAD)) and not ends(WORKBOOKS)
    return open_table if not is_other and is_text_table(str(path)) else None


def is_text(X: Any) -> bool:
    """Whether it is the path of a table of text."""
    return opener_of(X) is open_table


def is_table(X: Any) -> bool:
    """Whether it is the path of a table, columns of which may be labels."""
    return opener_of(X) in OF_TABLES


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
) -> AbstractSource:
    """Open data as a source of samples x features.

    Parameters
    ----------
    X : array, dataset, group, path or URL
        NumPy, dask or sparse (scipy) array (samples, features), pandas or polars DataFrame,
        xarray DataArray or Dataset, zarr Array or Group, AbstractSource, or the path or URL of a
        Zarr array or group (a folder, a ``.zip`` file, an object store), VCF Zarr and AnnData
        included; an object of anndata, or the path of its ``.h5ad``; the path of genotypes of
        PLINK, ``.bed`` or ``.pgen``, with or without the suffix; or a local file: a table (CSV,
        TSV, Parquet), ``.npy`` or ``.npz``. Text without a suffix that is known is a table.
    variable : str, optional
        Which variable of a Dataset or group. By default ``call_genotype``, else
        ``call_dosage``, else the only one with two dimensions; of AnnData ``X``, or another
        matrix such as ``layers/counts``.
    sample_dim : str or int, optional
        Dimension, or axis, of the samples. Needed only where neither the names of the dimensions
        nor `n_samples` tell.
    n_samples : int, optional
        Length of y, which X must have as many samples as.
    missing_code : int, sequence of int, None or "auto"
        Numbers that mean missing. ``"auto"``: -1 in VCF Zarr; what a Zarr or xarray array
        declares (attribute ``missing_value`` or ``_FillValue``, or fill value -1 of int8); and in
        data of 0, 1 and 2 the numbers -1, -9 and -127, any other lone value being refused. What is
        said takes the place of all that; None: every number counts as it is. In floats NaN is
        missing, always.
    missing_chunks : {"error", "fill"}
        Whether chunks that a Zarr array lacks are an error or fill values.
    ploidy_policy : {"scale", "count", "error"}
        Dosage of a genotype of lower ploidy, such as a haploid one of males on X in a diploid
        store: scaled to the ploidy of the store (0 or 2, as PLINK has it), the count of its own
        alleles (0 or 1, by which sex becomes a genotype), or an error.
    pass_only : bool
        Leave out variants of VCF Zarr whose FILTER is not PASS, as ``bcftools view -f PASS`` does:
        those with another one, and those with none, ".", to which filters were not applied.
    storage_options : mapping, optional
        Options for the store at a URL, by the names of obstore: ``{"skip_signature": True}`` for a
        public bucket. Keys are better said by the environment.
    not_features : sequence of str
        Columns of a table (or its rows, where these are features) that are no features: labels,
        covariates. The source has them as `sample_coords`. Of other data, features that are left
        out, by name; by position, from 0, where they have no names.
    na : sequence of str
        Text that stands for a missing value in a table of text, such as ``["?", "n.d."]``, besides
        nothing, ".", NA, NaN and null; ``"bmi=0"`` in that column alone.

    Returns
    -------
    AbstractSource

    Raises
    ------
    InputError
        X cannot be read as a matrix of samples x features, or it cannot be told how.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.arange(6.0).reshape(2, 3), n_samples=2)
    >>> source.n_samples, source.n_features
    (2, 3)
    """
    several = _codes_of(missing_code)
    single_code: Any = None if several else missing_code
    options = OpenOptions(
        *(
            variable,
            sample_dim,
            n_samples,
            single_code,
            missing_chunks,
            ploidy_policy,
            storage_options,
        ),
        not_features=not_features,
        na=na,
    )
    if isinstance(X, AbstractSource):
        options.check_length(X.n_samples, "X")
        if pass_only or sample_dim is not None or variable is not None:
            raise InputError(
                "X is open already: say sample_dim=, variable= and pass_only= where it is opened."
            )
        return _without(X, not_features)
    opener = opener_of(X)
    if na and opener is not open_table:
        raise InputError(
            f"na={[*na]} is text that stands for a missing value in a table of text (CSV, TSV), "
            "and the data are none. Leave it out; missing_code= says which numbers are missing."
        )
    source, X = _opened_at(X, opener, options)
    source.keeps_codes |= not isinstance(missing_code, str)  # said: nothing is guessed
    _refuse_scaled(source, missing_code)
    if source.dtype.kind == "f" and source.missing_code is not None:
        several = (*several, source.missing_code)
    source = _recoded(source, several)
    if pass_only:
        source = passing(source, parent(X) if isinstance(X, zarr.Array) else X, missing_chunks)
    if opener in (open_table, open_parquet):  # which leave out columns themselves
        return source
    return _without(source, [name for name in not_features if name not in source.sample_coords()])


def _opened_at(
    X: Any, opener: Callable[[str, OpenOptions], AbstractSource] | None, options: OpenOptions
) -> tuple[AbstractSource, Any]:
    """The source of data, and what it was opened from: a store where they were a path."""
    copy = _copy_of(X, options.storage_options)
    try:
        if isinstance(X, str | PathLike):
            X = on_disk(X, copy)
            X = open_store(X, options.storage_options) if opener is None else X
        source = _opened(X, options) if opener is None else opener(X, options)
    except DhsicError as error:
        if copy is None:
            raise
        raise type(error)(copy.in_sentence(error)) from error
    if copy is not None and not source.client_bytes:  # what is in memory needs no file
        source = FetchedSource(source, copy)
    return source, X


def _copy_of(X: Any, storage_options: Mapping[str, Any] | None = None) -> Copy | None:
    """The copy of a file at a URL; None of what is here, or is read where it lies."""
    name = fspath(X) if isinstance(X, str | PathLike) else ""
    is_url = "://" in name and not name.startswith("file://")
    is_file = is_url and (opener_of(name) is not None or name.lower().endswith(".zip"))
    return fetch(name, storage_options) if is_file else None


def on_disk(path: str | PathLike[str], copy: Copy | None = None) -> str:
    """Return the local path of a file: its own, or that of the copy of a URL."""
    copy, name = copy or _copy_of(path), fspath(path)
    if copy is not None:
        return str(copy.path)
    return url2pathname(urlsplit(name).path) if name.startswith("file://") else name


def _codes_of(missing_code: Any) -> tuple[float, ...]:
    """Codes where there are several, or one with a fraction; none elsewhere."""
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
            f"missing_code={missing_code!r}; pass 'auto', a number, several of them, or None where "
            "every number counts."
        )
    return codes


def _recoded(source: AbstractSource, codes: Sequence[float]) -> AbstractSource:
    """The source without several codes, of whole numbers without those that are none."""
    if source.dtype.kind != "f":
        codes = [int(code) for code in codes if code == int(code)]
    return RecodedSource(source, codes) if codes else source


def _without(source: AbstractSource, not_features: Iterable[Any]) -> AbstractSource:
    """Leave out features of a matrix by name; by position, from 0, where they have no names."""
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
            f"not_features={absent!r} is no feature of X: its {what}."
            f"{'' if names is None else did_you_mean(str(absent[0]), known)} Leave it out."
        )
    view = SubsetSource(source, np.flatnonzero([name not in left_out for name in known]))
    view.not_features = (*source.not_features, *left_out.values())
    return view


def _refuse_scaled(source: AbstractSource, missing_code: Any) -> None:
    """Refuse codes said of numbers that are stored otherwise than they are read."""
    packing = None if source.chunked is None else source.chunked.packing
    if packing is None or not packing.is_scaled or missing_code in (None, "auto"):
        return
    raise InputError(
        f"missing_code={missing_code!r} names numbers of X, and X is stored as others, which "
        f"scale_factor={packing.scale} and add_offset={packing.offset} change. Leave missing_code "
        "out: the attributes _FillValue and missing_value of the array say which stored numbers "
        "are missing."
    )


def _opened(X: Any, options: OpenOptions) -> AbstractSource:
    if isinstance(X, zarr.Array):
        return _open_array(X, options)
    if isinstance(X, zarr.Group):
        return _open_group(X, options)
    if type(X).__module__.partition(".")[0] == "xarray":
        return open_xarray(X, options)
    if is_anndata(X):
        return open_object(X, options)
    if is_sparse(X):
        return open_sparse(X, options)
    return open_in_memory(X, options)


def _open_group(group: zarr.Group, options: OpenOptions) -> AbstractSource:
    """Open the matrix of a group: AnnData, VCF Zarr, a dataset of xarray, or one plain array."""
    refuse_mudata(group)
    store = AnnDataStore.of(group)
    if store is not None:
        return open_anndata(store, options)
    name = options.variable or ""
    inner = child(group, name) if "/" in name else None
    if isinstance(inner, zarr.Array):
        return _open_array(inner, options)
    arrays = arrays_of(group)
    shapes = {name: a.shape for name, a in arrays.items() if a.dtype.kind in "biufc"}
    if not any(len(shape) > 1 for shape in shapes.values()):
        refuse_groups(group)
    variable = options.choose(shapes, str(group.store_path))
    if holds_calls(arrays[variable]):
        return open_calls(group, variable, options)
    return _open_matrix(arrays[variable], group, arrays, options)


def refuse_groups(group: zarr.Group) -> None:
    """Raise InputError, naming the paths, for a group whose matrices are all in subgroups."""
    with metadata_of(group.store_path):
        members = dict(group.members(max_depth=GROUP_DEPTH))
    found = {
        name: node.shape
        for name, node in sorted(members.items())
        if isinstance(node, zarr.Array) and node.ndim > 1 and node.dtype.kind in "biufc"
    }
    if found:
        first, where = next(iter(found)), str(group.store_path).removeprefix("file://")
        raise InputError(
            f"{where} holds no matrix itself; its groups hold "
            f"{abbreviate((f'{name} {shape}' for name, shape in found.items()), 8)}. Pass the path "
            f"of the group that holds the matrix, {where}/{first.rpartition('/')[0]}, or "
            f"variable={first!r}, and labels with their group likewise (rna/cell_type)."
        )


def _open_array(array: zarr.Array[Any], options: OpenOptions) -> AbstractSource:
    anndata = AnnDataStore.containing(array)
    if anndata is not None:
        store, variable = anndata
        return open_anndata(store, replace(options, variable=variable))
    group = parent(array)
    if group is None:
        return _open_matrix(array, None, {}, options)
    if holds_calls(array):
        return open_calls(group, array.basename, options)
    found = {dim: member(group, dim) for dim in dimension_names(array) or () if dim}
    coordinates = {dim: of for dim, of in found.items() if of is not None}
    return _open_matrix(array, group, coordinates, options)


def _open_matrix(
    array: zarr.Array[Any],
    group: zarr.Group | None,
    beside: Mapping[str, zarr.Array[Any]],
    options: OpenOptions,
) -> ZarrSource:
    """Open an array with two axes, with the names that those beside it in its group have for it."""
    what = str(array.store_path)
    if array.ndim != 2:
        raise InputError(
            f"{what} has shape {array.shape}; a matrix has two axes, samples and features. Open "
            "the group that it is in, or choose another variable."
        )
    axis = options.feature_axis(array.shape, dimension_names(array), what)
    names = Names() if group is None else _names_in(group, array, axis, beside)
    chunked, code = chunked_of(array, axis, options)
    check_shape(chunked.shape, chunked.label)
    return ZarrSource(chunked, names, missing_code=code)


def _names_in(
    group: zarr.Group, array: zarr.Array[Any], axis: int, beside: Mapping[str, zarr.Array[Any]]
) -> Names:
    """Names that a group has for the features, along an axis of an array, and for the samples.

    Names of dimensions lead to names at once; a matrix without may still have ``variant_id`` or
    ``sample_id`` beside it, if what describes variants is there for each, and none for others.
    """
    dims, lengths = dimension_names(array), {at: (array.shape[at],) for at in (0, 1)}
    if dims is None:
        of_features, of_samples = (getattr(beside.get(name), "shape", None) for name in NAMING)
        fits = of_features == lengths[axis] and of_samples in (None, lengths[1 - axis])
    else:
        fits = dims[axis] == "variants" and POSITION in group
    if fits:
        return Variants.names_of(group, array.shape[axis])

    def along(at: int) -> Callable[..., Array] | None:
        dim = dims[at] if dims else None
        name = naming_array(beside, array.shape[at], dim, of_features=at == axis)
        return None if name is None else partial(_stored_names, place_of(beside[name]))

    of_features = along(axis)
    if of_features is None:
        return Names(None, along(1 - axis))
    column = Column(array.shape[axis], np.dtype(object), of_features)
    return Names(of_features, along(1 - axis), columns={NAME: column})


def _stored_names(place: StorePath, rows: Any = ...) -> Array:
    return read_names(array_at(place), rows)


def parent(array: zarr.Array[Any]) -> zarr.Group | None:
    """Open the group that an array is in; none for an array at the root of its store."""
    if not array.path:
        return None
    try:
        return group_at(StorePath(array.store, array.path.rpartition("/")[0]))
    except FileNotFoundError:
        return None


def open_store(path: str, storage_options: Mapping[str, Any] | None = None) -> Any:
    """Open the Zarr array or group at a path or URL.

    Raises
    ------
    InputError
        There is none, or something else; the message says how to make one of it.
    DataError
        Its metadata, or the zip file that it is in, are damaged.
    """
    path = on_disk(path) if path.startswith("file://") else path
    is_url = "://" in path
    try:
        with metadata_of(path):
            store = BucketStore(path, storage_options) if is_url else _local(Path(path))
            try:
                return zarr.open(store, mode="r")
            except ValueError as error:
                if UNKNOWN_DTYPE not in str(error):
                    raise
            # An array of a type that zarr does not know spoils consolidated metadata of all others.
            return zarr.open_group(store, mode="r", use_consolidated=False)
    except BadZipFile as error:
        raise DataError(
            f"{path} is not a zip file, or its end is lost ({error}). Copy or write it again."
        ) from error
    except (FileNotFoundError, NotADirectoryError) as error:  # zarr's own not-found errors too
        raise InputError(nothing_at(path, is_url=is_url)) from error


def _local(path: Path) -> Store:
    """Return a store for a folder or a zip file that reads only regular files."""
    if path.suffix.lower() != ".zip":
        return FolderStore(path, read_only=True)
    if not path.is_dir():
        file_bytes(path)
    return ArchiveStore(path, mode="r")


def nothing_at(path: str, *, is_url: bool) -> str:
    """Return the error for a path or URL without a Zarr store."""
    for suffixes, name, remedy in FOREIGN:
        if path.lower().endswith(suffixes):
            is_there = is_url or Path(path).exists()
            there = "is" if is_there else "is not there, and would be"
            return (
                f"{path} {there} a file in {name} format, and dhsic reads Zarr. Read or convert it "
                f"first: {remedy.format(path=path, stem=path.rpartition('.')[0])}."
            )
    if is_url:
        return (
            f"There is no Zarr array or group at {path}. Check the path, and the credentials "
            "(in the environment, or storage_options)."
        )
    if Path(path).is_file():
        return (
            f"There is no Zarr array or group at {path}: it is a file of another format. Pass the "
            "folder or the .zip file of a Zarr store, or read it and pass the array."
        )
    if Path(path).is_dir():
        entries = sorted(p.name for p in Path(path).iterdir())
        names = ", ".join(entries[:5]) + (", ..." if len(entries) > 5 else "")
        return (
            f"There is no Zarr array or group at {path}: it is a folder with {names or 'nothing'} "
            "in it. Pass the folder that holds zarr.json (or .zgroup, .zarray) itself."
        )
    return f"There is no Zarr array or group at {path}, nor anything else. Check the path."
