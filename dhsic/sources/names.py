"""Names of features and samples, from the arrays that stores keep beside a matrix.

Variants have names and coordinates in the arrays of VCF Zarr and sgkit; another axis has names in
the array that is called after what it names (``gene_id``), where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

import numpy as np
import pandas as pd

from dhsic._typing import Array
from dhsic.errors import DataError
from dhsic.sources.request import FEATURE_DIMS, SAMPLE_DIMS

#: Gives an array of the store by name, or None where there is none.
Getter = Callable[[str], Array | None]

#: Shape of an array, its dimensions (None where they have no names) and the kind of its dtype.
Described = tuple[tuple[int, ...], tuple[str | None, ...] | None, str]
#: Arrays that describe variants, and the one that `variant_contig` counts in.
IDS, POSITION, ALLELES = "variant_id", "variant_position", "variant_allele"
CONTIG, CONTIGS = "variant_contig", "contig_id"
#: What VCF writes for what is missing: the contig of a variant whose index of it is -1.
NO_CONTIG = "."


def text(values: Array) -> Array:
    """Return names of any dtype (bytes, text of any width, numbers) as an object array of str."""
    if values.dtype.kind == "S":
        values = np.char.decode(values)
    elif values.dtype.kind in "biuf":
        values = values.astype(str)
    return np.asarray(values, dtype=object)


def naming_array(
    arrays: Mapping[str, Described], length: int, dim: str | None, *, of_features: bool
) -> str | None:
    """Find the array that names an axis by what it is called, or None where that is ambiguous.

    Parameters
    ----------
    arrays : mapping
        Arrays beside the matrix, described.
    length : int
        Elements of the axis.
    dim : str or None
        Name of its dimension.
    of_features : bool
        Whether it is the axis of the features, else that of the samples.

    Examples
    --------
    >>> beside = {"gene_id": ((9,), None, "T"), "gene_length": ((9,), None, "i")}
    >>> naming_array(beside, 9, None, of_features=True)
    'gene_id'
    """
    things = FEATURE_DIMS if of_features else SAMPLE_DIMS
    found = [
        name
        for name, (shape, dims, kind) in arrays.items()
        if shape == (length,)
        and kind in "OSUTiu"
        and (dims is None or dim is None or dims[0] == dim)
        and _says_names(name, things)
    ]
    ids = [name for name in found if _stem_and_end(name)[1] == "id"]
    chosen = ids or found
    return chosen[0] if len(chosen) == 1 else None


def _says_names(name: str, things: Set[str]) -> bool:
    stem, end = _stem_and_end(name)
    return name.lower() in things or (end in ("id", "name") and stem in things)


def _stem_and_end(name: str) -> tuple[str, str]:
    stem, _, end = name.lower().removesuffix("s").rpartition("_")
    return stem, end


def variant_names(get: Getter) -> Array | None:
    """Name the variants: their ids, "contig:position[:ref:alt]" for those without.

    Ids that repeat name nothing, so then every variant is named by its position.
    """
    ids = _ids(get)
    if ids is None:
        return _places(get)
    unnamed = np.isin(ids, (".", ""))
    if not unnamed.any() and pd.Index(ids).is_unique:
        return ids  # the places of a million variants take 100 MB
    places = _places(get)
    if places is None:
        return ids
    names = np.where(unnamed, places, ids)
    return names if pd.Index(names).is_unique else places


def variant_coords(get: Getter) -> dict[str, Array]:
    """Return contig names, positions, ids and alleles of the variants, those that there are."""
    position = get(POSITION)
    coords = {
        CONTIG: _contigs(get),
        POSITION: None if position is None else position.astype(np.int64),
        IDS: _ids(get),
        **_alleles(get(ALLELES)),
    }
    return {name: values for name, values in coords.items() if values is not None}


def _alleles(alleles: Array | None) -> dict[str, Array]:
    """Reference alleles, and all others of each variant between commas."""
    if alleles is None or alleles.ndim != 2 or not alleles.shape[1]:
        return {}
    columns = [text(column) for column in alleles.T]
    alt = columns[1].copy() if columns[1:] else np.full(len(alleles), "", dtype=object)
    for column in columns[2:]:
        more = np.flatnonzero(column != "")
        alt[more] = [f"{a},{b}" for a, b in zip(alt[more], column[more], strict=True)]
    return {"variant_ref": columns[0], "variant_alt": alt}


def _ids(get: Getter) -> Array | None:
    ids = get(IDS)
    return None if ids is None else text(ids)


def _contigs(get: Getter) -> Array | None:
    index, names = get(CONTIG), get(CONTIGS)
    if index is None:
        return None
    if names is None or index.dtype.kind not in "iu":
        return text(index)
    contigs: Array = np.append(text(names), NO_CONTIG)[index]  # the last one, at -1
    return contigs


def check_variants(get: Getter, shapes: Mapping[str, tuple[int, ...]], d: int, where: str) -> None:
    """Refuse what describes other variants than those of the data.

    Parameters
    ----------
    shapes : mapping
        Shapes of the arrays beside the data, by name.
    d : int
        Variants of the data.
    where : str
        How messages call what holds the arrays.

    Raises
    ------
    DataError
        An array is of other length, or a variant is on a contig that there is not.
    """
    for name in (CONTIG, POSITION, ALLELES, IDS):
        if name in shapes and shapes[name][:1] != (d,):
            raise DataError(
                f"{name} of {where} has shape {shapes[name]}, and there are {d} variants. The "
                "store is damaged: write it again."
            )
    index, names = get(CONTIG), get(CONTIGS)
    if index is None or names is None or index.dtype.kind not in "iu":
        return
    outside = np.flatnonzero((index < -1) | (index >= len(names)))
    if outside.size:
        raise DataError(
            f"{CONTIG} of {where} is {index[outside[0]]} for variant {outside[0]} ({outside.size} "
            f"such in all), and {CONTIGS} names {len(names)} contigs, 0 to {len(names) - 1}; -1 is "
            "missing. The store is damaged: write it again."
        )


def _places(get: Getter) -> Array | None:
    contigs, positions, alleles = _contigs(get), get(POSITION), get(ALLELES)
    if contigs is None or positions is None:
        return None
    places = [f"{c}:{p}" for c, p in zip(contigs, positions, strict=True)]
    if alleles is not None and not pd.Index(places).is_unique:
        places = [
            f"{place}:{row[0]}:{','.join(a for a in row[1:] if a)}"
            for place, row in zip(places, text(alleles), strict=True)
        ]
    return np.array(places, dtype=object)
