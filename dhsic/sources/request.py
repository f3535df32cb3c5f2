"""What a caller says about the data, beside the data.

Which axis of a matrix holds the features.

Genomic Zarr is features-first, AnnData and NumPy practice samples-first, so the answer is never
taken from the position: names of dimensions decide, then what the caller says, then which axis
has as many elements as there are labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dhsic.errors import InputError
from dhsic.sources.names import FEATURE_DIMS, SAMPLE_DIMS

#: What a chunk that is not stored is: damage, or fill values.
MissingChunks = Literal["error", "fill"]
#: What a call of lower ploidy counts: its alleles, as many as full ploidy has, or an error.
PloidyPolicy = Literal["count", "scale", "error"]
#: Variables of genotypes that are taken when none is chosen, the first that there is.
PREFERRED = ("call_genotype", "call_dosage")

#: Names of dimensions, where they have some.
Dims = Sequence[str | None] | None


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The options of `open_source`."""

    variable: str | None = None
    sample_dim: str | int | None = None
    n_samples: int | None = None
    missing_code: int | str | None = "auto"
    missing_chunks: MissingChunks = "error"
    ploidy_policy: PloidyPolicy = "count"

    def feature_axis(
        self, shape: tuple[int, ...], dims: Dims, what: str, convention: int | None = None
    ) -> int:
        """Return the axis of the features, 0 or 1, of the first two axes of an array.

        Parameters
        ----------
        shape, dims
            Shape and names of the axes; names may be missing.
        what : str
            How messages call the array.
        convention : int, optional
            The axis of the features where names do not tell (1 for NumPy and dask).
        """
        named = _by_name(dims)
        if self.sample_dim is not None:
            axis = 1 - self._sample_axis(shape, dims, what)
        elif named is not None:
            axis = named
        else:
            axis = self._by_length(shape, dims, what) if convention is None else convention
        if self.n_samples not in (None, shape[1 - axis]):
            turned = f"It looks turned: pass X.T, or say sample_dim={axis}."
            is_turned = shape[axis] == self.n_samples
            raise InputError(
                f"{what} has shape {shape}, so {shape[1 - axis]} samples, and y has "
                f"{self.n_samples} labels. {turned if is_turned else 'Pass one label per sample.'}"
            )
        return axis

    def _sample_axis(self, shape: tuple[int, ...], dims: Dims, what: str) -> int:
        if isinstance(self.sample_dim, int):
            if self.sample_dim in (0, 1, -1, -2):
                return self.sample_dim % 2
        elif dims is not None and self.sample_dim in tuple(dims[:2]):
            return tuple(dims).index(self.sample_dim)
        known = "no names" if dims is None else f"dimensions {tuple(dims)}"
        raise InputError(
            f"{what} with shape {shape} and {known} has no sample_dim={self.sample_dim!r}. Pass "
            "one of its dimensions, or 0 or 1."
        )

    def _by_length(self, shape: tuple[int, ...], dims: Dims, what: str) -> int:
        matches = [axis for axis in (0, 1) if shape[axis] == self.n_samples]
        if len(matches) == 1:
            return 1 - matches[0]
        known = f"dimensions {tuple(dims)}" if dims else "no dimension names"
        labels = "y is not known" if self.n_samples is None else f"y has {self.n_samples} labels"
        count = "both axes fit" if matches else "no axis can be told to be the samples"
        raise InputError(
            f"{what} has shape {shape} and {known}, and {labels}: {count}. Say which axis holds "
            "the samples: sample_dim=0 or sample_dim=1."
        )

    def check_length(self, n_samples: int, what: str) -> None:
        """Refuse data that have not as many samples as y."""
        if self.n_samples not in (None, n_samples):
            raise InputError(
                f"{what} has {n_samples} samples, and y has {self.n_samples} labels. Pass one "
                "label per sample."
            )

    def check_dim(self, axis: int, name: object, what: str) -> None:
        """Refuse samples along another axis than `axis`, called `name`, where that is certain."""
        if self.sample_dim not in (None, axis, axis - 2, name):
            raise InputError(
                f"sample_dim={self.sample_dim!r}, and {what} has its samples along axis {axis}. "
                "Leave it out, or pass the array turned."
            )

    def code_of(
        self, attributes: Mapping[str, Any], dtype: Any = None, fill_value: Any = None
    ) -> int | None:
        """Return the integer that means missing: the caller's, the declared, or int8's fill -1.

        A declared ``_FillValue`` of 0 is no declaration: xarray puts it there for every integer
        array of format 2, and 0 is a dosage.
        """
        if not isinstance(self.missing_code, str):
            return self.missing_code
        declared = attributes.get("missing_value", attributes.get("_FillValue") or None)
        if isinstance(declared, int | np.integer) or (
            isinstance(declared, float | np.floating) and float(declared).is_integer()
        ):
            return int(declared)
        filled = dtype == np.int8 and fill_value is not None and int(fill_value) == -1
        return -1 if filled else None

    def choose(self, shapes: Mapping[str, tuple[int, ...]], where: str) -> str:
        """Choose among numeric variables, given with their shapes."""
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
            problem = f"has {len(matrices)} variables with two dimensions, not one"
        raise InputError(
            f"{where} {problem}. It holds {listed or 'no numeric arrays'}. Pass variable= with the "
            "name of the matrix."
        )


def _by_name(dims: Dims) -> int | None:
    if dims is None:
        return None
    first, second = ((str(name).lower() if name else "") for name in dims[:2])
    says_0 = first in FEATURE_DIMS or second in SAMPLE_DIMS
    says_1 = second in FEATURE_DIMS or first in SAMPLE_DIMS
    return None if says_0 == says_1 else int(says_1)
