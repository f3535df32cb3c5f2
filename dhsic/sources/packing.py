"""Decoding of arrays that xarray wrote: missing codes, scale factor and offset.

The decoding follows the CF conventions. A stored number is missing if it equals `_FillValue` or
`missing_value`. Otherwise its value is ``stored * scale_factor + add_offset``. xarray stores
`_FillValue` as an attribute in Zarr 3 (floats in base64), and as the fill value of the array in
Zarr 2. In Zarr 2, a fill value does not declare missing values in two cases: the array has no
dimension names, so xarray did not write it; or the fill value is 0, which is the default of other
programs.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
import zarr

from dhsic._typing import Array
from dhsic.errors import DataError
from dhsic.sources.options import text
from dhsic.validation import refuse_wide

#: Attributes that declare missing values, and those that transform the other values.
FILL, MISSING, SCALE, OFFSET, UNSIGNED = (
    *("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned"),
)
DECLARING = (FILL, MISSING, SCALE, OFFSET, UNSIGNED)


def declared(of: zarr.Array[Any] | xr.DataArray) -> dict[str, Any]:
    """Return the attributes that define how stored numbers are decoded, as in xarray.

    Raises
    ------
    DataError
        `_FillValue` is not a number.
    """
    if not isinstance(of, zarr.Array):
        return _declared_in_memory(of)
    attributes: dict[str, Any]
    attributes = {name: of.attrs[name] for name in DECLARING if name in of.attrs}
    fill = of.fill_value
    if of.metadata.zarr_format == 2:
        is_packed = not attributes.keys().isdisjoint((SCALE, OFFSET))  # xarray declares 0, too
        has_fill = fill is not None and (fill or is_packed)
        if "_ARRAY_DIMENSIONS" in of.attrs and of.dtype.kind in "iuf" and has_fill:
            attributes[FILL] = fill.item()
    elif of.dtype.kind == "f" and isinstance(attributes.get(FILL), str):
        attributes[FILL] = _from_base64(str(attributes[FILL]), str(of.store_path))
    return attributes


def xarray_masks_zeros(of: zarr.Array[Any]) -> bool:
    """Whether xarray reads zeros of floats in Zarr 2 as missing, because the fill value is 0."""
    is_of_xarray = of.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in of.attrs
    is_packed = not {*of.attrs}.isdisjoint((SCALE, OFFSET))
    return is_of_xarray and of.dtype.kind == "f" and of.fill_value == 0 and not is_packed


def _declared_in_memory(of: xr.DataArray) -> dict[str, Any]:
    """Return the decoding attributes that xarray has not yet applied to a DataArray."""
    declared_attributes = dict(of.attrs)
    if of.dtype.kind in "iu":
        declared_attributes = {
            name: of.encoding[name] for name in (FILL, MISSING) if name in of.encoding
        } | declared_attributes
    is_packed = not {*declared_attributes, *of.encoding}.isdisjoint((SCALE, OFFSET))
    if of_zarr_2(of) and declared_attributes.get(FILL) == 0 and not is_packed:
        del declared_attributes[FILL]
    return {name: declared_attributes[name] for name in DECLARING if name in declared_attributes}


def of_zarr_2(of: xr.DataArray) -> bool:
    """Whether xarray read a variable from Zarr 2, where a fill value of 0 is not missing."""
    return "compressors" in of.encoding and "serializer" not in of.encoding


def _from_base64(written: str, where: str) -> float:
    try:
        return float(struct.unpack("<d", base64.standard_b64decode(written))[0])
    except (ValueError, struct.error) as error:
        raise DataError(
            f"The attribute _FillValue of {where} is {written!r}, which is not a base64 number "
            "as xarray writes it. Write the array again, or remove the attribute."
        ) from error


def codes_of(attributes: Mapping[str, Any]) -> list[float]:
    """Return the stored numbers that mean a missing value, according to the attributes."""
    codes = [one for name in (FILL, MISSING) for one in np.ravel(attributes.get(name, [])).tolist()]
    return sorted({one for one in codes if isinstance(one, int | float) and not np.isnan(one)})


@dataclass(frozen=True, eq=False)
class Packing:
    """Rule that decodes stored numbers: missing if in `codes`, otherwise scaled and shifted."""

    codes: tuple[float, ...]
    scale: float | None
    offset: float | None
    stored: np.dtype[Any]  # dtype as which the stored numbers are interpreted
    dtype: np.dtype[Any]  # dtype of the decoded numbers, as in xarray

    @classmethod
    def of(
        cls,
        attributes: Mapping[str, Any],
        dtype: Any,
        *,
        takes_codes: bool = True,
        keeps_code: bool = True,
    ) -> Packing | None:
        """Create the packing that attributes declare; None if no decoding is needed.

        Nothing is decoded if nothing is declared, or if integers have a single missing code and
        `keeps_code` is True. If `takes_codes` is False, only scale and offset are used.
        """
        dtype = np.dtype(dtype)
        if dtype.kind not in "iuf":
            return None
        codes = codes_of(attributes) if takes_codes else []
        stored = dtype
        if dtype.kind in "iu" and UNSIGNED in attributes:
            is_unsigned = str(attributes[UNSIGNED]).lower() == "true"
            stored = np.dtype(f"{'u' if is_unsigned else 'i'}{dtype.itemsize}")
            codes = [np.array(int(c)).astype(dtype).view(stored).item() for c in codes]
        scale, offset = attributes.get(SCALE), attributes.get(OFFSET)
        is_plain = scale is None and offset is None and stored == dtype
        if is_plain and len(codes) <= (keeps_code and dtype.kind in "iu"):
            return None
        declared_fields = {name: attributes[name] for name in (SCALE, OFFSET) if name in attributes}
        declared_fields |= {FILL: codes[0]} if codes else {}
        empty = xr.Dataset({"x": ("i", np.empty(0, stored), declared_fields)})
        decoded = xr.decode_cf(empty, decode_times=False, decode_coords=False)["x"].dtype
        return cls(tuple(codes), scale, offset, stored, decoded)

    @property
    def is_scaled(self) -> bool:
        """Whether decoding changes the numbers that are not missing."""
        return self.scale is not None or self.offset is not None

    def decoded(self, values: Array, *, in_place: bool = False) -> Array:
        """Decode stored numbers of any shape, as an array of `dtype`.

        `in_place` allows overwriting `values` if the dtype does not change.
        """
        values = values.view(self.stored)
        missing = np.zeros(values.shape, dtype=bool)
        for code in self.codes:
            missing |= values == code
        out = values.astype(self.dtype, copy=not (in_place and values.flags.writeable))
        if self.scale is not None:
            out *= self.scale
        if self.offset is not None:
            out += self.offset
        if self.dtype.kind == "f":
            out[missing] = np.nan
        return out


def code_among(attributes: Mapping[str, Any], dtype: Any) -> int | None:
    """Return the missing code of integers if exactly one is declared; otherwise None."""
    codes, dtype = codes_of(attributes), np.dtype(dtype)
    if len(codes) != 1 or dtype.kind not in "iu" or not float(codes[0]).is_integer():
        return None
    code, limits = int(codes[0]), np.iinfo(dtype)
    return code if limits.min <= code <= limits.max else None


def unpacked(values: Array, attributes: Mapping[str, Any]) -> Array:
    """Decode stored labels or covariates, (m,) or (m, t); NaN or "" if missing.

    Integers remain integers if no value is missing.

    Raises
    ------
    InputError
        Some values are missing, and other values are integers beyond 2**53.
    """
    packing = Packing.of(attributes, values.dtype)
    if packing is not None:
        return packing.decoded(values)
    if values.dtype.kind in "OSUT":
        return _text_without(values, attributes)
    code = code_among(attributes, values.dtype)
    missing = values == code
    if code is None or not missing.any():
        return values
    refuse_wide(values[~missing], "the labels")
    return np.where(missing, np.nan, values.astype(np.float64))


def _text_without(values: Array, attributes: Mapping[str, Any]) -> Array:
    """Replace texts by "" if the attributes declare that they mean missing values."""
    texts = {str(attributes[name]) for name in (FILL, MISSING) if attributes.get(name)}
    return np.where(np.isin(text(values), [*texts]), "", text(values)) if texts else values


def names_in(variable: xr.DataArray) -> Array:
    """Return the names in an xarray variable; restore integer ids that xarray made floats."""
    values, stored = np.asarray(variable.values), variable.encoding.get("dtype")
    if values.dtype.kind == "f" and stored is not None and np.dtype(stored).kind in "iu":
        missing = np.isnan(values)
        integers = np.where(missing, 0, values).astype(stored)
        return np.where(missing, "", text(integers))
    return names_among(values, declared(variable) if hasattr(variable, "attrs") else {})


def names_among(values: Array, attributes: Mapping[str, Any]) -> Array:
    """Convert stored values to names (text), "" if missing."""
    code = code_among(attributes, values.dtype) if values.dtype.kind in "iu" else None
    names = _text_without(text(values), attributes if code is None else {})
    return names if code is None else np.where(values == code, "", names)
