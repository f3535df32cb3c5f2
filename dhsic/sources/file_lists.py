"""Several files as one matrix: lists of files, glob patterns, and text files that list paths.

Genotypes are usually stored in one file per chromosome. `expanded` converts each of these forms to
a list, which `dhsic.open_source` joins along the features.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from dhsic.errors import InputError
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate
from dhsic.sources.mudata import modalities_of
from dhsic.sources.other_frames import in_pandas
from dhsic.sources.plink import SUFFIXES

#: First character of the path of a text file that lists paths, one per line.
LISTING = "@"
#: Suffixes of files that programs write beside genotypes; glob patterns skip such files.
NO_GENOTYPES = (".log", ".hh", ".nosex", ".sample", ".bgi", ".tbi", ".csi")
#: Maximum number of files that a short description names individually.
MOST_NAMED = 2
#: Maximum number of matrices that a short description names.
MOST_BLOCKS = 5


class NamedMatrices(list[Any]):
    """List of matrices with the same samples; each is a block of features and has a name."""

    def __init__(self, matrices: Iterable[Any], names: Iterable[str]) -> None:
        super().__init__(matrices)
        self.names = tuple(map(str, names))

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedMatrices, ([*self], self.names)


def expanded(X: Any) -> Any:
    """Expand X to a list of matrices; the result is X itself if it is one matrix.

    The text ``"@files.txt"`` means the paths in a file, and ``"chr*.bed"`` the files that match a
    pattern, unless a file has this name. A list of paths or opened data may contain such texts. A
    list of one matrix becomes that matrix. A dict of matrices by name becomes `NamedMatrices`, and
    so does MuData. Frames of other packages become pandas frames.

    Raises
    ------
    InputError
        No file matches a pattern, or a list of paths cannot be read, or is empty.

    Examples
    --------
    >>> expanded("x.bed"), expanded([["a", "b"], [1, 2]])
    ('x.bed', [['a', 'b'], [1, 2]])
    """
    if isinstance(X, NamedMatrices):
        return X
    X = in_pandas(X)
    if type(X).__module__.partition(".")[0] == "mudata" and hasattr(X, "mod"):
        X = dict(X.mod)
    if type(X) is dict and X and all(_is_matrix(x) or _lists_matrices(x) for x in X.values()):
        return _single(NamedMatrices(map(expanded, X.values()), X))
    if modalities := modalities_of(X):
        return _single(NamedMatrices(modalities.values(), modalities))
    if isinstance(X, str | PathLike):
        found: list[Any] = _files_of(fspath(X))
        return X if found == [fspath(X)] else _single(_without_tables(found))
    if not _lists_matrices(X):
        _refuse_other_lists(X)
        return X
    each = [_files_of(fspath(x)) if isinstance(x, str | PathLike) else [x] for x in X]
    return _single(_without_tables([x for files in each for x in files]))


def _refuse_other_lists(X: Any) -> None:
    """Refuse an empty list, and a list that contains paths and other objects."""
    if not isinstance(X, list | tuple):
        return
    others = [x for x in X if not isinstance(x, str | PathLike)]
    if others and len(others) == len(X):
        return
    what = f"paths and {abbreviate(map(repr, others), 3)}" if X else "nothing"
    raise InputError(
        f"X is a list of {what}. Pass a list of paths or matrices that have the same samples."
    )


def is_several(X: Any) -> bool:
    """Whether X, as returned by `expanded`, is a list of matrices to be joined."""
    return _lists_matrices(X) and len(X) > 1


def short_name(X: Any) -> str:
    """Return a short name of data for messages: a file name, or the number and names of files.

    >>> short_name("data/x.bed"), short_name(["chr10.bed", "chr2.bed", "chr1.bed"])
    ('x.bed', '3 files: chr1.bed ... chr10.bed')
    """
    if isinstance(X, str | PathLike):
        return Path(fspath(X)).name
    if not is_several(X):
        return type(X).__name__
    if isinstance(X, NamedMatrices):
        return f"{len(X):,} matrices: {abbreviate(X.names, MOST_BLOCKS)}"
    are_paths = all(isinstance(x, str | PathLike) for x in X)
    names = sorted(map(short_name, X), key=natural_key) if are_paths else [*map(short_name, X)]
    noun = "files" if are_paths else "matrices"
    if len(names) <= MOST_NAMED:
        return f"{len(names)} {noun}: {', '.join(names)}"
    return f"{len(names):,} {noun}: {names[0]} ... {names[-1]}"


def natural_key(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts numbers in text by their value.

    >>> sorted(["chr10", "chrX", "chr2"], key=natural_key)
    ['chr2', 'chr10', 'chrX']
    """
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part.lower())
        for part in re.split(r"(\d+)", text)
        if part
    ]


def _single(found: list[Any]) -> Any:
    return found[0] if len(found) == 1 else found


def _lists_matrices(X: Any) -> bool:
    """Whether X is a list of paths or matrices, rather than the rows of one matrix."""
    is_list = isinstance(X, list | tuple) and len(X) > 0
    return is_list and (isinstance(X, NamedMatrices) or all(map(_is_matrix, X)))


def _is_matrix(x: Any) -> bool:
    """Whether x is a matrix: a path, a store, or an object with two axes."""
    if isinstance(x, NamedMatrices):
        return True
    is_store = type(x).__module__.partition(".")[0] in ("zarr", "xarray", "anndata")
    has_axes = len(getattr(x, "shape", ())) == 2  # samples and features
    return isinstance(x, str | PathLike | AbstractSource) or is_store or has_axes


def _files_of(name: str) -> list[str]:
    """Return the paths for `name`, which is a path, a glob pattern, or @FILE with paths."""
    if "://" in name or Path(name).exists():
        return [name]
    if name.startswith(LISTING):
        return _listed(Path(name[1:]))
    if not has_magic(name):
        return [name]
    files = sorted(glob(name), key=natural_key)  # noqa: PTH207  # a pattern may be absolute
    if not files:
        raise InputError(
            f"No file matches {name} in the folder {Path(name).absolute().parent}. Check the "
            "pattern, which must include the suffix, such as .bed."
        )
    return [file for file in files if not file.endswith(NO_GENOTYPES)] or files


def _listed(path: Path) -> list[str]:
    """Return the paths that a file lists.

    Relative paths begin in the current folder, or else in the folder of the file.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read as a list of paths ({error}). Pass a text file with one path "
            f"per line, as {LISTING}FILE."
        ) from error
    paths = [line for line in lines if line and not line.startswith("#")]
    if not paths:
        raise InputError(f"{path} lists no paths. Write one path per line.")
    found = [_near(name, path.parent) for name in paths]
    absent = [name for name in found if "://" not in name and not _is_there(name)]
    if absent:
        raise InputError(
            f"{path} lists {len(absent):,} path{'s' * (len(absent) > 1)} at which nothing exists: "
            f"{abbreviate(absent, 3)}. Write one path per line, without quotes, patterns or "
            "comments after it. Paths are relative to the current folder, or to the folder of the "
            "list."
        )
    return found


def _near(name: str, folder: Path) -> str:
    """Return a path unchanged if it is a URL or exists; otherwise joined to `folder`."""
    return name if "://" in name or _is_there(name) else str(folder / name)


def _is_there(name: str) -> bool:
    """Whether a path exists, or is the common prefix of PLINK files."""
    return Path(name).exists() or any(Path(name + suffix).is_file() for suffix in SUFFIXES)


def _without_tables(found: Iterable[Any]) -> list[Any]:
    """Exclude PLINK tables, such as x.bim, if their genotypes, x.bed, are also in the list."""
    listed = [*found]
    paths = {x for x in listed if isinstance(x, str)}

    def is_beside(x: Any) -> bool:
        suffix = Path(x).suffix.lower() if isinstance(x, str) else ""
        calls = SUFFIXES.get(suffix, suffix)
        stem = x[: len(x) - len(suffix)] if suffix else ""
        others = {stem + other for other in set(SUFFIXES.values()) if other != suffix}
        return calls != suffix and bool(others & paths)

    return [x for x in listed if not is_beside(x)]
