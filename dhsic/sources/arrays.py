"""Sources of arrays in memory, and of lazily computed arrays: NumPy, pandas, dask, xarray.

If the dimensions have no names, the first axis is the samples, unless the caller passes another
one. Otherwise the names of the dimensions decide. Features and samples keep their names in the
Dataset or DataFrame.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from pandas.api.types import is_numeric_dtype

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, AbstractStored, Names
from dhsic.sources.blocks import (
    Block,
    check_dtype,
    check_finite,
    check_matrix,
    check_shape,
    row_span,
    run_of,
    take_rows,
)
from dhsic.sources.frame_advice import about_columns
from dhsic.sources.ids import abbreviate, is_id, names_rows_by_name, plain
from dhsic.sources.options import (
    OpenOptions,
    PloidyPolicy,
    naming_array,
    refuse_variable,
)
from dhsic.sources.other_frames import converted_first
from dhsic.sources.packing import Packing, code_among, declared, names_in, of_zarr_2
from dhsic.sources.row_numbers import (
    counting_columns,
    refuse_counting,
    refuse_rising,
    rising_columns,
)
from dhsic.sources.sexes import DIPLOID, SEX, DosagesOnX, coded_sex
from dhsic.sources.summary_rows import refuse_summary, summary_rows
from dhsic.sources.table_formats import PEDIGREE, phenotypes_of_plink
from dhsic.sources.text_features import about_boxes, check_boxes
from dhsic.sources.variants import CONTIG, Variants, are_on_x
from dhsic.sources.vcz import DOSAGES, MISSING, NO_COPY, fold
from dhsic.sources.views import AbstractView
from dhsic.validation import EXACT, WIDE, in_double, refuse_lossy

if TYPE_CHECKING:
    import dask.array as da


class AbstractArraySource(AbstractStored):
    """Source of an array (m, d) in the memory of this process."""

    def __init__(
        self, X: Any, *, missing_code: int | None = None, names: Names | None = None
    ) -> None:
        check_shape(X.shape, "X")
        check_dtype(X.dtype, "X")
        self.n_samples, self.n_features = X.shape
        self.dtype = np.dtype(X.dtype)
        self.missing_code = missing_code
        self.names = names or Names()
        self._X = X
        self.client_bytes = X.nbytes


class ArraySource(AbstractArraySource):
    """Source of a NumPy array (m, d) in this process.

    Columns of a Fortran-ordered array are read without a copy, and are read-only. Columns of a
    C-ordered array are copied, one block at a time.
    """

    in_memory, layout = True, "array"

    def read(self, block: Block, rows: Index | None = None) -> Array:
        span = slice(0, self.n_samples)
        return _checked(self, self._X[:, block.start : block.stop], block, rows, span)


class DaskSource(AbstractArraySource):
    """Source of a dask array (m, d), which is read in whole chunks along the features.

    A block is computed in the calling thread. If the graph contains futures, the cluster that holds
    them computes the block instead.
    """

    def __init__(
        self, X: da.Array, *, missing_code: int | None = None, names: Names | None = None
    ) -> None:
        check_sizes(X)
        check_chunks(X)
        super().__init__(X, missing_code=missing_code, names=names)
        holder = _held_by(X)
        self.client_bytes = sum(value.nbytes for value in holder if isinstance(value, np.ndarray))
        self._on_cluster = any(type(v).__module__.startswith("distributed") for v in holder)

    @property
    def edges(self) -> Index:
        edges: Index = np.unique(np.cumsum((0, *self._X.chunks[1])))
        return edges

    @property
    def layout(self) -> Any:
        return "dask", self._X.chunks

    def read(self, block: Block, rows: Index | None = None) -> Array:
        span = row_span(rows, self.n_samples)
        part = self._X[span, block.start : block.stop]
        computed = part.compute() if self._on_cluster else part.compute(scheduler="synchronous")
        return _checked(self, np.asarray(computed), block, rows, span)

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...]:
        return tuple(self._X[:, block.start : block.stop] for block in blocks)

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        return PiecesSource(self, blocks, arrays)


def check_sizes(X: da.Array) -> None:
    """Refuse a dask array of unknown shape."""
    if any(np.isnan(size) for size in X.shape):
        raise InputError(
            f"The dask array X has chunks of unknown size (shape {X.shape}). Call "
            "X.compute_chunk_sizes() first, or write it to Zarr."
        )


def check_chunks(X: Any) -> None:
    """Refuse a dask array whose chunks are not NumPy arrays."""
    meta = getattr(X, "_meta", None)
    if meta is not None and not isinstance(meta, np.ndarray):
        raise InputError(
            f"The chunks of the dask array X are {type(meta).__module__} arrays. Convert them to "
            "NumPy arrays: X.map_blocks(lambda chunk: chunk.toarray())."
        )


class PiecesSource(AbstractView):
    """Source of some blocks of `base` with values in memory; only these blocks can be read."""

    def __init__(
        self, base: AbstractSource, blocks: tuple[Block, ...], arrays: tuple[Array, ...]
    ) -> None:
        super().__init__(base)
        self.in_memory = True
        self._blocks = blocks
        starts = [(block.start, block.stop) for block in blocks]
        self._pieces = dict(zip(starts, map(np.asarray, arrays), strict=True))
        self.client_bytes = sum(x.nbytes for x in self._pieces.values())

    def blocks(self, width: int) -> tuple[Block, ...]:
        return self._blocks

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        at_hand = self._pieces.get((block.start, block.stop))
        if at_hand is None:
            raise InputError(
                f"Features {block.start}:{block.stop} are not one of the computed blocks "
                f"{sorted(self._pieces)}. Read only these blocks."
            )
        values = _checked(self, at_hand, block, rows, slice(0, self.n_samples))
        return values.T[run_of(local)]


def _checked(
    source: AbstractSource, values: Array, block: Block, rows: Index | None, span: slice
) -> Array:
    """Select `rows` from values (m, c) of the samples in `span`, and check that they are finite.

    The result is Fortran-ordered, and read-only if it is a view.
    """
    transposed = np.ascontiguousarray(take_rows(values.T, rows, span))
    if transposed.base is not None:
        transposed = transposed.view()
        transposed.flags.writeable = False

    def place(feature: int, sample: int) -> str:
        del sample
        names = source.feature_names()
        return "" if names is None else f", in column {str(names[feature])!r}"

    check_finite(transposed, block, rows, place, source.missing_code)
    return transposed.T


def _held_by(X: da.Array) -> list[Any]:
    """Return the arrays and futures in the graph of a dask array; the arrays are sent with it.

    Layers that are not materialised (blockwise) contain only instructions. They are skipped,
    because materialising a large graph takes long.
    """
    graph: Any = X.__dask_graph__()
    layers = getattr(graph, "layers", {"": graph}).values()
    written = [layer for layer in layers if getattr(layer, "is_materialized", lambda: True)()]
    return [getattr(task, "value", task) for layer in written for task in layer.values()]


def open_in_memory(X: Any, options: OpenOptions) -> AbstractSource:
    """Open an array, a frame or a sparse matrix."""
    check_in_memory(X, options.variable)
    if _is_frame(X):
        return _open_frame(X, options)
    is_dask = hasattr(X, "dask") and hasattr(X, "chunks")
    if is_dask:
        check_sizes(X)
    matrix = X if is_dask else np.asarray(X)
    if matrix.ndim == 2 and options.feature_axis(matrix.shape, None, "X", convention=1) == 0:
        matrix = matrix.T
    return _source(matrix, options.code_of())


def _source(matrix: Any, code: int | None, names: Names | None = None) -> AbstractArraySource:
    of_kind = ArraySource if isinstance(matrix, np.ndarray) else DaskSource
    return of_kind(in_double(matrix), missing_code=code, names=names)


def check_in_memory(X: Any, variable: str | None = None) -> None:
    """Refuse input that NumPy would convert to something else.

    It refuses sparse and masked arrays; text, dates and complex numbers; a frame with columns that
    are not numeric or share a name; and objects that are not arrays.
    """
    refuse_lossy(X, "X")
    if not (isinstance(X, np.ndarray | list | tuple) or hasattr(X, "__array__")):
        raise InputError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}, which cannot be read. Pass a "
            "NumPy or dask array, a DataFrame, an xarray DataArray or Dataset, a zarr Array or "
            "Group, a path or a URL."
        )
    refuse_variable(variable, X)
    if _is_frame(X):
        with converted_first(X, "X"):
            _check_frame(X)
        return
    if hasattr(X, "shape"):
        check_matrix(X.shape, "X")
    if hasattr(X, "dtype") and getattr(X.dtype, "kind", "O") != "O":
        check_dtype(X.dtype, "X")


def check_turned(shape: tuple[int, ...], n_labels: int) -> None:
    """Refuse a matrix if it does not have `n_labels` samples, for example if it is transposed."""
    OpenOptions(n_samples=n_labels).feature_axis(shape, None, "X", convention=1)


def _is_frame(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pandas" and hasattr(X, "columns")


def _check_frame(X: pd.DataFrame) -> None:
    kinds, columns = X.dtypes, X.columns
    if columns.nlevels > 1:
        raise InputError(
            f"The columns of the DataFrame have {columns.nlevels} levels of names "
            f"({abbreviate(map(repr, columns), 2)}), but a feature has only one name. Join the "
            "levels: X.columns = ['_'.join(map(str, name)) for name in X.columns]."
        )
    row_names = [isinstance(name, str) and names_rows_by_name(name) for name in columns]
    _refuse_named_rows(X)
    _refuse_columns(
        columns[row_names],
        "have names of ids or row numbers, but would be used as features. Drop them: "
        f"X.drop(columns={[str(name) for name in columns[row_names][:5]]}). If such a column is "
        "a measurement, rename it.",
    )
    _refuse_pedigree(X)
    odd = [not hasattr(t, "kind") or t.kind not in "biuf" for t in kinds]
    _refuse_columns(
        columns[[type(t).__name__ == "SparseDtype" for t in kinds]],
        "are sparse. Pass X.sparse.to_coo().tocsr(), or X.sparse.to_dense().",
    )
    if any(odd):
        _refuse_columns(columns[odd], about_columns(X.loc[:, odd]))
    for kind in set(kinds):  # integers become floats if others are floats
        if kind.kind in "iu" and kind.itemsize >= WIDE:
            part = X.loc[:, kinds == kind]
            beyond = (part.max() > EXACT) | (part.min() < -EXACT)
            _refuse_columns(
                part.columns[beyond.fillna(value=False).to_numpy(bool)],
                "contain integers larger than 2**53. Digits would be lost, because float64 does "
                "not represent all of these integers. Drop columns that are names rather than "
                "numbers. Subtract an offset from the other columns.",
            )
    if len({isinstance(c, str) for c in columns}) > 1:
        raise InputError(
            "Some column names of the DataFrame are text and others numbers "
            f"({list(columns[:3])}, ...). Convert all to text: X.columns = X.columns.astype(str)."
        )
    _refuse_columns(
        columns[columns.duplicated()].unique(),
        "occur more than once. Rename them, or keep the first of each: X.loc[:, "
        "~X.columns.duplicated()].",
    )
    _refuse_row_numbers(X)


def _refuse_named_rows(X: pd.DataFrame) -> None:
    """Refuse a text column with a name typical of ids and a different value in each row."""
    for i, (name, kind) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        is_named = isinstance(name, str) and is_id(name) and not is_numeric_dtype(kind)
        if is_named and X.iloc[:, i].is_unique:
            raise InputError(
                f"Column {name!r} of the DataFrame contains sample names, but features must be "
                f"numbers. Make it the index: X = X.set_index({name!r})."
            )


def _refuse_pedigree(X: pd.DataFrame) -> None:
    """Refuse a frame whose first columns are the pedigree columns of a PLINK .raw table."""
    names = [*map(str, X.columns)]
    pedigree = [*takewhile(lambda name: plain(name) in PEDIGREE, names)]
    of_samples = phenotypes_of_plink(["IID", *pedigree])
    has_parents = {"pat", "mat"} <= {*map(plain, pedigree)}
    if X.index.name is not None and (len(of_samples) > 1 or (of_samples and has_parents)):
        _refuse_columns(
            X.columns[: len(pedigree)],
            "are the pedigree, sex and phenotype of a .raw table of PLINK, but would be used as "
            f"features. Drop them: X.drop(columns={pedigree}).",
        )


def _refuse_row_numbers(X: pd.DataFrame) -> None:
    """Refuse columns that number the rows or increase with them, and rows that summarise others."""

    def values(at: Any) -> Array:
        part: Array = X.iloc[at].to_numpy(float, na_value=np.nan)
        return part

    if counting := counting_columns(values, X.shape):
        names = [str(X.columns[i]) for i in counting]
        refuse_counting("The DataFrame", names, f"X.drop(columns={names[:4]})")
    if rising := rising_columns(values, X.shape):
        names = [str(X.columns[i]) for i, *_ in rising]
        named = [(f"column {n!r}", n, *one[1:]) for n, one in zip(names, rising, strict=True)]
        refuse_rising("The DataFrame", named, f"X.drop(columns={names[:4]})")
    if statistics := summary_rows(values, X.shape):
        k = len(statistics)
        refuse_summary("The DataFrame", X.index, statistics, f"Leave it out: X = X.iloc[:-{k}].")


def _refuse_columns(columns: pd.Index[Any], why: str) -> None:
    if len(columns):
        first_columns = [str(column) for column in columns[:5]]
        raise InputError(f"Columns {first_columns} of the DataFrame ({len(columns)} in all) {why}")


def _open_frame(X: pd.DataFrame, options: OpenOptions) -> AbstractSource:
    transposed = ", and pass X.T if the rows are features"
    options.check_dim(0, X.index.name, "the DataFrame", transposed)
    options.check_length(len(X), "The DataFrame")
    names = Names(X.columns.to_numpy(dtype=object), X.index.to_numpy(dtype=object))
    nullable = any(not isinstance(t, np.dtype) for t in X.dtypes)
    has_some_booleans = len({t.kind == "b" for t in X.dtypes}) > 1  # NumPy makes objects of them
    as_floats = nullable or has_some_booleans
    matrix = X.to_numpy(dtype=float, na_value=np.nan) if as_floats else X.to_numpy()
    source = ArraySource(matrix, missing_code=options.code_of(), names=names)
    boxes = [X.columns[i] for i in check_boxes(matrix)]
    source.hint = about_boxes(boxes, f"X[{boxes!r}] = X[{boxes!r}].fillna(0).") if boxes else ""
    return source


def open_xarray(X: xr.DataArray | xr.Dataset, options: OpenOptions) -> AbstractSource:
    """Open a DataArray, or the variable of a Dataset that contains the matrix."""
    beside: Mapping[Any, Any]
    if isinstance(X, xr.Dataset):
        numeric = {str(n): v.shape for n, v in X.data_vars.items() if v.dtype.kind in "biufc"}
        array, beside = X[options.choose(numeric, "The Dataset")], X.variables
        are_calls = {"variants", "samples"} <= set(array.dims)
        names = Variants.names_of(X, X.sizes["variants"]) if are_calls else None
    elif isinstance(X, xr.DataArray):
        array, beside, names = X, X.coords, None
    else:
        raise InputError(f"X is an xarray {type(X).__name__}. Pass a DataArray or a Dataset.")
    _refuse_masked_zeros(array)
    if "ploidy" in array.dims:
        all_names = names or _names_of(array, "variants", "samples", beside)
        source = _open_genotypes(array, all_names, options)
    else:
        source = _open_matrix(array, names, beside, options)
    is_count = "ploidy" in array.dims and options.ploidy_policy == "count"
    if source.dosages and source.ploidy == DIPLOID and not is_count:
        source.on_x = _dosages_on_x(source, beside)
    return source


def _dosages_on_x(source: AbstractSource, beside: Mapping[Any, Any]) -> DosagesOnX | None:
    """Return the variants on chromosome X, and the sexes of samples; None without contigs."""
    contigs = source.feature_coords().get(CONTIG)
    if contigs is None:
        return None
    sex = beside.get(SEX)
    codes = None if sex is None else coded_sex(np.asarray(sex.values), sex.attrs)
    return DosagesOnX.of(np.flatnonzero(are_on_x(np.asarray(contigs, dtype=object))), codes)


def _open_matrix(
    array: xr.DataArray, names: Names | None, beside: Mapping[Any, Any], options: OpenOptions
) -> AbstractSource:
    what = _title(array)
    if array.ndim != 2:
        raise InputError(
            f"{what} has dimensions {array.dims} and shape {array.shape}, but a matrix has two "
            "dimensions, samples and features. Select one element of the other dimensions "
            "(.isel), or stack them."
        )
    dims = tuple(str(dim) for dim in array.dims)
    if dims[0] == dims[1]:
        raise InputError(
            f"{what} has two dimensions of the same name, {dims}, so samples and features cannot "
            "be distinguished. Rename them: xarray.DataArray(X.values, dims=('samples', "
            "'features'))."
        )
    axis = options.feature_axis(array.shape, dims, what)
    features, samples = array.dims[axis], array.dims[1 - axis]
    attributes, is_auto = declared(array), options.missing_code == "auto"
    packing = Packing.of(attributes, array.dtype, takes_codes=is_auto)
    code = options.code_of(code_among(attributes, array.dtype) if packing is None else None)
    if array.name in DOSAGES and is_auto:
        code = MISSING if packing is None and array.dtype.kind == "i" else None
    all_names = names or _names_of(array, features, samples, beside)
    data = _lazy_or_loaded(array.transpose(samples, features))
    source = _source(data if packing is None else _decoded(data, packing), code, all_names)
    if array.name in DOSAGES:
        genotypes = beside.get("call_genotype")
        source.dosages = True
        source.ploidy = DIPLOID if genotypes is None else genotypes.sizes.get("ploidy", DIPLOID)
    return source


def _decoded(data: Any, packing: Packing) -> Any:
    """Decode the numbers of a dask or NumPy array."""
    if isinstance(data, np.ndarray):
        return packing.decoded(data)
    return data.map_blocks(
        packing.decoded, dtype=packing.dtype, meta=np.empty((0, 0), packing.dtype)
    )


def _open_genotypes(array: xr.DataArray, names: Names, options: OpenOptions) -> AbstractSource:
    calls = array.transpose("variants", "samples", "ploidy")
    options.check_length(calls.sizes["samples"], _title(array))
    policy = options.ploidy_policy
    loaded = _lazy_or_loaded(calls)
    if isinstance(loaded, np.ndarray):
        dosage = _dosage(loaded, policy)
    else:
        dosage = loaded.rechunk({2: -1}).map_blocks(
            _dosage, policy, drop_axis=2, dtype=np.int8, meta=np.empty((0, 0), np.int8)
        )
    source = _source(dosage.T, MISSING, names)
    source.dosages = source.keeps_codes = True
    source.ploidy = array.sizes["ploidy"]
    return source


def _dosage(genotypes: Array, policy: PloidyPolicy) -> Array:
    lowest = int(genotypes.min(initial=0))
    if lowest < NO_COPY:
        raise DataError(
            f"Genotypes contain the allele index {lowest}, but only -1 (missing) and -2 (no copy) "
            "may be negative. Correct the data."
        )
    if lowest == NO_COPY and policy == "error":
        raise DataError(
            f"Genotypes contain the allele index {lowest}, which marks a call of lower ploidy. "
            "Pass ploidy_policy='scale' or 'count', or remove haploid variants."
        )
    return fold(genotypes, policy)


def _lazy_or_loaded(array: xr.DataArray) -> Any:
    """Return the dask or NumPy array of a DataArray; an array in a file becomes a dask array."""
    backed = array.chunks is None and not array._in_memory
    return (array.chunk({}) if backed else array).data


def names_along(X: xr.DataArray | xr.Dataset, features: Any) -> Array | None:
    """Return the feature names that `open_xarray` would use; None if there are none."""
    if isinstance(X, xr.DataArray):
        return _labels(X, features, X.coords, of_features=True)
    if {"variants", "samples"} <= set(X.dims):
        return Variants.of(X, X.sizes["variants"], "the Dataset").names()
    return _labels(X, features, X.variables, of_features=True)


def _names_of(array: xr.DataArray, features: Any, samples: Any, beside: Mapping[Any, Any]) -> Names:
    return Names(
        _labels(array, features, beside, of_features=True),
        _labels(array, samples, beside, of_features=False),
        {
            str(name): of.to_numpy()
            for name, of in array.coords.items()
            if of.dims == (features,) and not isinstance(of.to_index(), pd.MultiIndex)
        },
        dim=str(features),
    )


def _labels(
    X: xr.DataArray | xr.Dataset, dim: Any, beside: Mapping[Any, Any], *, of_features: bool
) -> Array | None:
    """Return the names along a dimension: its coordinate, or a variable named after the dimension.

    The result is None if there is neither.
    """
    arrays = {str(name): v for name, v in beside.items()}  # names need not be text
    name = naming_array(arrays, X.sizes[dim], str(dim), of_features=of_features)
    return None if name is None else names_in(arrays[name])


def _refuse_masked_zeros(array: xr.DataArray) -> None:
    """Refuse integers whose zeros xarray replaced by NaN because the fill value is 0."""
    stored = array.encoding.get("dtype")
    fill = array.encoding.get("_FillValue")
    masked = stored is not None and np.dtype(stored).kind in "iu" and array.dtype.kind == "f"
    if masked and fill is not None and fill == 0 and of_zarr_2(array):
        raise InputError(
            f"{_title(array)} was stored as {stored} with fill value 0, so xarray replaced every "
            "0 by NaN. Open it again with mask_and_scale=False, or pass its path."
        )


def _title(array: xr.DataArray) -> str:
    return f"The DataArray {array.name!r}" if array.name is not None else "The DataArray"
