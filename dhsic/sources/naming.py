"""Names and coordinates of variants, from the arrays that VCF Zarr and sgkit keep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from dhsic._typing import Array

#: Gives an array of the store by name, or None where there is none.
Getter = Callable[[str], Array | None]


def text(values: Array) -> Array:
    """Return names of any dtype (bytes, text of any width, numbers) as an object array of str."""
    if values.dtype.kind == "S":
        values = np.char.decode(values)
    elif values.dtype.kind in "biuf":
        values = values.astype(str)
    return np.asarray(values, dtype=object)


def variant_names(get: Getter) -> Array | None:
    """Name the variants: their ids, "contig:position[:ref:alt]" for those without.

    Ids that repeat name nothing, so then every variant is named by its position.
    """
    ids, places = _ids(get), _places(get)
    if ids is None or places is None:
        return ids if ids is not None else places
    names = np.where(np.isin(ids, (".", "")), places, ids)
    return names if pd.Index(names).is_unique else places


def variant_coords(get: Getter) -> dict[str, Array]:
    """Return contig names, positions and ids of the variants, those that there are."""
    position = get("variant_position")
    coords = {
        "variant_contig": _contigs(get),
        "variant_position": None if position is None else position.astype(np.int64),
        "variant_id": _ids(get),
    }
    return {name: values for name, values in coords.items() if values is not None}


def _ids(get: Getter) -> Array | None:
    ids = get("variant_id")
    return None if ids is None else text(ids)


def _contigs(get: Getter) -> Array | None:
    index, names = get("variant_contig"), get("contig_id")
    if index is None:
        return None
    if names is None or index.dtype.kind not in "iu":
        return text(index)
    contigs: Array = text(names)[index]
    return contigs


def _places(get: Getter) -> Array | None:
    contigs, positions, alleles = _contigs(get), get("variant_position"), get("variant_allele")
    if contigs is None or positions is None:
        return None
    places = [f"{c}:{p}" for c, p in zip(contigs, positions, strict=True)]
    if alleles is not None and not pd.Index(places).is_unique:
        places = [
            f"{place}:{row[0]}:{','.join(a for a in row[1:] if a)}"
            for place, row in zip(places, text(alleles), strict=True)
        ]
    return np.array(places, dtype=object)
