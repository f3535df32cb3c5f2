"""Options for opening a matrix: its axes, its missing codes, and the names of features and samples.

Genomic Zarr has features on the first axis, AnnData and NumPy usually samples. The position
therefore does not show which axis has the features. The first of the following decides:

- the option `sample_dim` of the caller;
- the names of dimensions;
- the axis whose length equals the number of labels.

The names of features and samples are the coordinates of these dimensions, or else an array of the
same group with a descriptive name such as ``gene_id``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError

#: Names of dimensions of samples and of features.
# fmt: off
SAMPLE_DIMS = frozenset((
    "samples", "sample", "sample_id", "obs", "n_obs", "observations", "observation", "cells",
    "cell", "individuals", "individual", "subjects", "subject",
))
FEATURE_DIMS = frozenset((
    "variants", "variant", "features", "feature", "var", "vars", "n_vars", "genes", "gene", "snps",
    "snp", "sites", "site", "probes", "loci", "markers",
))
# fmt: on

#: Treatment of absent chunks: an error, or fill values.
MissingChunks = Literal["error", "fill"]
#: Treatment of a call of lower ploidy: scaled to full ploidy, its own alleles, or an error.
PloidyPolicy = Literal["scale", "count", "error"]
#: Genotype variables that are used by default; the first that exists.
PREFERRED = ("call_genotype", "call_dosage")

#: Names of dimensions; None if they have none.
Dims = Sequence[str | None] | None


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options of `open_source`; `is_part` means that the data are one of several files."""

    variable: str | None = None
    sample_dim: str | int | None = None
    n_samples: int | None = None
    missing_code: int | str | None = "auto"
    missing_chunks: MissingChunks = "error"
    ploidy_policy: PloidyPolicy = "scale"
    storage_options: Mapping[str, Any] | None = None
    not_features: Sequence[str] = ()
    na: Sequence[str] = ()
    categories: Sequence[str] | None = None
    is_part: bool = False

    def __post_init__(self) -> None:
        if self.missing_chunks not in get_args(MissingChunks):
            raise InputError(
                f"missing_chunks={self.missing_chunks!r} is unknown. Pass 'error', or 'fill' to "
                "read chunks that are not stored as fill values."
            )
        if self.ploidy_policy not in get_args(PloidyPolicy):
            raise InputError(
                f"ploidy_policy={self.ploidy_policy!r} is unknown. Pass 'scale' (a haploid call "
                "counts as many alleles as other calls), 'count' (a haploid call counts one "
                "allele), or 'error'."
            )

    @property
    def required(self) -> Sequence[str]:
        """Non-feature columns that a table must have; none if it is one of several files."""
        return () if self.is_part else self.not_features

    def feature_axis(
        self, shape: tuple[int, ...], dims: Dims, what: str, convention: int | None = None
    ) -> int:
        """Return the axis of the features, 0 or 1, among the first two axes of an array.

        `convention` is the axis to assume if nothing else decides (1 for NumPy and dask). `what` is
        the name of the array in messages.
        """
        names = [str(name).lower() if name else "" for name in (dims or ("", ""))[:2]]
        says_0 = names[0] in FEATURE_DIMS or names[1] in SAMPLE_DIMS
        says_1 = names[1] in FEATURE_DIMS or names[0] in SAMPLE_DIMS
        if self.sample_dim is not None:
            axis = 1 - self._sample_axis(shape, dims, what)
        elif says_0 != says_1:
            axis = int(says_1)
        else:
            axis = self._by_length(shape, dims, what) if convention is None else convention
        if self.n_samples not in (None, shape[1 - axis]):
            of_array = "" if convention is None else "pass X.T, or "
            turned = f"The axes seem to be swapped: {of_array}pass sample_dim={axis}."
            is_turned = shape[axis] == self.n_samples
            raise InputError(
                f"{what} has shape {shape}, so {shape[1 - axis]} samples, but there are "
                f"{self.n_samples} labels. "
                f"{turned if is_turned else 'Pass one label per sample.'}"
            )
        return axis

    def _sample_axis(self, shape: tuple[int, ...], dims: Dims, what: str) -> int:
        if isinstance(self.sample_dim, int):
            if self.sample_dim in (0, 1, -1, -2):
                return self.sample_dim % 2
        elif dims is not None and self.sample_dim in tuple(dims[:2]):
            return tuple(dims).index(self.sample_dim)
        axes = "no names" if dims is None else f"dimensions {tuple(dims)}"
        raise InputError(
            f"{what} with shape {shape} and {axes} has no sample_dim={self.sample_dim!r}. Pass "
            "one of its dimensions, or 0 or 1."
        )

    def _by_length(self, shape: tuple[int, ...], dims: Dims, what: str) -> int:
        matches = [axis for axis in (0, 1) if shape[axis] == self.n_samples]
        if len(matches) == 1:
            return 1 - matches[0]
        axes = f"dimensions {tuple(dims)}" if dims else "no dimension names"
        n = self.n_samples
        labels = "the number of labels is not known" if n is None else f"there are {n} labels"
        count = (
            "both axes have this length"
            if matches
            else "the axis of the samples cannot be inferred"
        )
        raise InputError(
            f"{what} has shape {shape} and {axes}, and {labels}: {count}. Pass the axis of the "
            "samples: sample_dim=0 or sample_dim=1."
        )

    def check_length(self, n_samples: int, what: str) -> None:
        """Raise InputError if the number of samples differs from the number of labels."""
        if self.n_samples not in (None, n_samples):
            raise InputError(
                f"{what} has {n_samples} samples, but there are {self.n_samples} labels. Pass "
                "one label per sample."
            )

    def check_dim(self, axis: int, name: object, what: str, otherwise: str = "") -> None:
        """Raise InputError if `sample_dim` is neither the number nor the name of the sample axis.

        `axis` is this number, and `name` this name. `otherwise` is additional
        advice for data with samples along the other axis.
        """
        if self.sample_dim not in (None, axis, axis - 2, name):
            raise InputError(
                f"sample_dim={self.sample_dim!r} does not fit: the samples of {what} are along "
                f"axis {axis}. Leave out sample_dim={otherwise}."
            )

    def code_of(
        self, declared: int | None = None, dtype: Any = None, fill_value: Any = None
    ) -> int | None:
        """Return the integer that means a missing value; None if there is none.

        It is the option `missing_code`, or else the code that the data declare (`declared`), or
        else -1 if this is the fill value of an int8 array.
        """
        if not isinstance(self.missing_code, str):
            return self.missing_code
        filled = dtype == np.int8 and fill_value is not None and int(fill_value) == -1
        return -1 if declared is None and filled else declared

    def choose(self, shapes: Mapping[str, tuple[int, ...]], where: str) -> str:
        """Choose the matrix among numeric variables, given their shapes by name."""
        listed = ", ".join(f"{name} {shape}" for name, shape in sorted(shapes.items()))
        if self.variable is not None:
            if self.variable in shapes:
                return self.variable
            problem = f"has no numeric variable {self.variable!r}"
        else:
            for name in PREFERRED:
                if name in shapes:
                    return name
            matrices = [name for name, shape in shapes.items() if len(shape) == 2]
            if len(matrices) == 1:
                return matrices[0]
            problem = f"has {len(matrices)} variables with two dimensions instead of one"
        raise InputError(
            f"{where} {problem}. Its variables are: {listed or 'no numeric arrays'}. Pass the "
            "name of the matrix as variable=."
        )


def refuse_variable(variable: str | None, X: Any) -> None:
    """Refuse the option `variable` if X is a single matrix."""
    if variable is not None:
        raise InputError(
            f"variable={variable!r} selects a part of a Dataset or group, but X is a single "
            f"{type(X).__name__}. Leave out variable=."
        )


def text(values: Array) -> Array:
    """Convert names of any dtype (bytes, text of any width, numbers) to an object array of str."""
    if values.dtype.kind == "S":
        values = np.char.decode(values)
    elif values.dtype.kind in "biuf":
        values = values.astype(str)
    return np.asarray(values, dtype=object)


def dimension_names(of: Any) -> tuple[str | None, ...] | None:
    """Return the dimension names of an xarray variable or Zarr array; None if it has none.

    Zarr has them in the metadata (format 3) or in an attribute (format 2).
    """
    if hasattr(of, "dims"):
        return tuple(map(str, of.dims))
    names: Any = getattr(of.metadata, "dimension_names", None)
    if not names or not any(names):
        names = of.attrs.get("_ARRAY_DIMENSIONS")
    return tuple(names) if names and len(names) == of.ndim else None


def naming_array(
    arrays: Mapping[str, Any], length: int, dim: str | None, *, of_features: bool
) -> str | None:
    """Find the array with the names of features or samples; return its key, or None if unclear.

    It is the coordinate of the dimension `dim`, or else the only array of this `length` with a
    descriptive name such as ``gene_id``.

    Examples
    --------
    >>> from xarray import Variable
    >>> beside = {"gene_id": Variable("g", ["a", "b"]), "gene_length": Variable("g", [4, 9])}
    >>> naming_array(beside, 2, None, of_features=True)
    'gene_id'
    """
    if dim is not None and dim in arrays and arrays[dim].shape == (length,):
        return dim
    candidates = []
    for name, of in arrays.items():
        dims = dimension_names(of)
        is_along = of.shape == (length,) and (dims is None or dim is None or dims[0] == dim)
        if says_names(name, of_features=of_features) and is_along and of.dtype.kind in "OSUTiu":
            candidates.append(name)
    ids = [name for name in candidates if name.lower().removesuffix("s").endswith("_id")]
    chosen = ids or candidates
    return chosen[0] if len(chosen) == 1 else None


def says_names(name: str, *, of_features: bool) -> bool:
    """Whether an array or column contains names of features or samples, judging by its name.

    >>> says_names("gene_id", of_features=True), says_names("gene_length", of_features=True)
    (True, False)
    """
    things = FEATURE_DIMS if of_features else SAMPLE_DIMS
    stem, _, end = name.lower().removesuffix("s").rpartition("_")
    return name.lower() in things or (end in ("id", "name") and stem in things)
