"""AnnData on Zarr: where its matrices lie, and the names of their rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import zarr
from zarr.storage import StorePath

from dhsic.errors import DataError, InputError
from dhsic.sources.chunked import group_at
from dhsic.sources.frame import Frame, FrameLabels, Node, child
from dhsic.sources.stores import metadata_of

#: What the two axes of a matrix are; None has no names.
Axes = tuple[str | None, str | None]
#: Axes of X, of that before features were left out, and of what lies in a folder.
AXES: Mapping[str, Axes] = {
    "X": ("obs", "var"),
    "raw/X": ("obs", "var"),
    "layers": ("obs", "var"),
    "obsm": ("obs", None),
    "varm": ("var", None),
}
SPARSE = ("csr_matrix", "csc_matrix")


@dataclass(frozen=True, slots=True, eq=False)
class AnnDataStore:
    """A group that holds AnnData: X and its layers (obs, var), and a dataframe for either axis."""

    group: zarr.Group

    @classmethod
    def of(cls, group: zarr.Group) -> AnnDataStore | None:
        """Return the group as AnnData; None where it is something else."""
        encoding = group.attrs.get("encoding-type")
        if encoding is None:  # AnnData before 0.8 did not say what it is
            is_one = all(_is_frame(child(group, name)) for name in ("obs", "var"))
        else:
            is_one = encoding == "anndata"
        return cls(group) if is_one else None

    @classmethod
    def around(cls, array: zarr.Array[Any]) -> tuple[AnnDataStore, str] | None:
        """Return the AnnData that an array is a matrix of, and which; None where it is none."""
        parts = array.path.split("/")
        for n in (1, 2):
            name = "/".join(parts[-n:])
            if len(parts) < n or _axes(name) == (None, None):
                continue
            place = StorePath(array.store, "/".join(parts[:-n]))
            with suppress(FileNotFoundError):
                store = cls.of(group_at(place))
                if store is not None:
                    return store, name
        return None

    @property
    def obs(self) -> Frame:
        """What there is about the samples."""
        return Frame.of(self.group, "obs")

    @property
    def var(self) -> Frame:
        """What there is about the features of X and of the layers."""
        return Frame.of(self.group, "var")

    def matrix(self, variable: str | None) -> tuple[zarr.Array[Any], Axes]:
        """Return a dense matrix, X by default, and what its axes are.

        Raises
        ------
        InputError
            There is none of that name, or it is sparse; the message lists those that would do.
        """
        name = variable or "X"
        node = child(self.group, name)
        if isinstance(node, zarr.Array) and node.ndim == 2:
            return node, _axes(name)
        raise InputError(f"{self.group.store_path} is AnnData {self._problem(name, node)}")

    def _problem(self, name: str, node: Node | None) -> str:
        dense = [other for other, of in self.matrices().items() if isinstance(of, zarr.Array)]
        known = f"dense are {', '.join(dense)}" if dense else "no matrix of it is dense"
        of_features = [other for other in dense if _axes(other)[1] == "var"]
        choose = f" Or choose variable={of_features[0]!r}." if of_features else ""
        kind = "absent" if node is None else str(node.attrs.get("encoding-type", "no matrix"))
        if kind in SPARSE:
            field = f"adata.{_attribute(name)}"
            return (
                f"whose {name} is sparse ({kind}), and dhsic reads dense matrices; {known}. Write "
                f"it densely: {field} = {field}.toarray(), then adata.write_zarr('dense.zarr')."
                f"{choose}"
            )
        what = f"has shape {node.shape}" if isinstance(node, zarr.Array) else f"is {kind}"
        return f"whose {name} {what}, no matrix with two axes; {known}.{choose or ' Write one.'}"

    def matrices(self) -> dict[str, Node]:
        """X, layers, X of raw and what is in obsm, dense or sparse, by name."""
        found = {name: child(self.group, name) for name in ("X", "raw/X")}
        for folder in ("layers", "obsm"):
            group = child(self.group, folder)
            if isinstance(group, zarr.Group):
                with metadata_of(group.store_path):
                    members = dict(group.members())
                found |= {f"{folder}/{name}": members[name] for name in sorted(members)}
        return {name: node for name, node in found.items() if node is not None and _holds(node)}

    def labels(
        self, variable: str | None, shape: tuple[int, ...], dims: Axes, axis: int
    ) -> FrameLabels:
        """Names along the axis of the features and along the other one.

        Raises
        ------
        DataError
            A dataframe cannot be read, or has other than one row for each of them.
        """
        prefix = "raw/" if (variable or "").startswith("raw/") else ""

        def frame(at: int) -> Frame | None:
            name = dims[at]
            if name is None:
                return None
            found = Frame.of(self.group, f"{prefix}{name}" if name == "var" else name)
            if found.n != shape[at]:
                raise DataError(
                    f"{found.place} has {found.n} rows, and {variable or 'X'} of shape {shape} has "
                    f"{shape[at]} along that axis: the store was written in part, or by two "
                    "writers. Write it again."
                )
            return found

        return FrameLabels(frame(axis), frame(1 - axis))


def _axes(name: str) -> Axes:
    return AXES.get(name) or AXES.get(name.rpartition("/")[0]) or (None, None)


def _is_frame(node: Node | None) -> bool:
    if isinstance(node, zarr.Array):
        return node.dtype.kind == "V"
    return node is not None and node.attrs.get("encoding-type") == "dataframe"


def _holds(node: Node) -> bool:
    """Whether it is a matrix, dense or sparse."""
    if isinstance(node, zarr.Array):
        return node.ndim == 2
    return node.attrs.get("encoding-type") in SPARSE


def _attribute(name: str) -> str:
    """What AnnData calls a matrix in Python."""
    folder, _, key = name.rpartition("/")
    return f"{folder}[{key!r}]" if folder in ("layers", "obsm", "varm") else name.replace("/", ".")


def refuse_mudata(group: zarr.Group) -> None:
    """Refuse several AnnData in one group, of which one has to be chosen."""
    if group.attrs.get("encoding-type") != "MuData":
        return
    listed: Any = group.attrs.get("mod-order", [])
    names = [str(name) for name in listed] or ["..."]
    raise InputError(
        f"{group.store_path} is MuData, which holds several AnnData: {', '.join(names)}. Pass one "
        f"of them: the path of its folder, mod/{names[0]}, or the group "
        f"zarr.open_group(...)['mod/{names[0]}']."
    )
