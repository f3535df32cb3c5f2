"""Lists of samples in files, in the formats of PLINK's ``--keep`` and ``--remove``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dhsic.errors import InputError
from dhsic.joins.keys import FAMILY
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import PARENTS, is_id, plain


@dataclass(frozen=True)
class SampleList:
    """Samples listed in a file: IIDs (`own`) and FIDs (`families`).

    In a file without a header, two columns are FID and IID, as in PLINK. But the first column may
    also contain the sample names, so `first` is this column. Otherwise `first` is None.
    """

    own: list[str]
    families: list[str] | None
    first: list[str] | None

    @classmethod
    def read(cls, path: str) -> SampleList:
        """Read a file of ids; InputError if a line has no id."""
        lines = [*Delimited(path, is_list=True).lists()]
        first = [field.removeprefix("#") for field in lines[0]]
        has_header = lines[0][0].startswith("#") or any(map(is_id, first[:2]))
        rows = lines[1:] if has_header else lines
        n = len(first)
        if has_header:
            called = [plain(field) for field in first]
            n_iid = next(
                (i for i, c in enumerate(called) if is_id(c) and c not in {FAMILY, *PARENTS}), 0
            )
            n_fid = called.index(FAMILY) if FAMILY in called else None
        else:
            n_iid, n_fid = (1, 0) if n > 1 else (0, None)
        short = next((row for row in rows if len(row) <= max(n_iid, n_fid or 0)), None)
        if short is not None:
            raise InputError(
                f"Line {' '.join(short)!r} of {path} has fewer columns than the other lines. "
                "Complete this line."
            )
        return cls(
            [row[n_iid] for row in rows],
            None if n_fid is None or n_fid == n_iid else [row[n_fid] for row in rows],
            [row[0] for row in rows] if not has_header and n > 1 else None,
        )

    def keys(self) -> Iterator[list[str]]:
        """Yield lists of possible sample names, most likely first: IID, FID_IID, first column."""
        yield self.own
        if self.families is not None:
            yield [f"{fid}_{iid}" for fid, iid in zip(self.families, self.own, strict=True)]
        if self.first is not None:
            yield self.first
