"""What a caller says about the data, beside the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic.errors import InputError
from dhsic.sources.dosage import PloidyPolicy
from dhsic.sources.watched import MissingChunks

#: Variables of genotypes that are taken when none is chosen, the first that there is.
PREFERRED = ("call_genotype", "call_dosage")


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `open_source`."""

    variable: str | None
    sample_dim: str | int | None
    n_samples: int | None
    missing_code: int | str | None
    missing_chunks: MissingChunks
    ploidy_policy: PloidyPolicy

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
