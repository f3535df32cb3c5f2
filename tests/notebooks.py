"""Notebooks of `examples/`, run in real kernels, with a cluster where they ask for one.

python tests/notebooks.py examples/remote_cluster.ipynb     # writes its outputs again
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from faults.processes import TESTS, Processes

ADDRESS = "DASK_SCHEDULER_ADDRESS"
STEP = 240  # seconds that a cell may take on a busy machine
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """A notebook after its last cell, in an empty folder; a scheduler and two workers are there.

    Raises
    ------
    CellExecutionError
        A cell failed.
    """
    book = nbformat.read(path, as_version=4)
    if ADDRESS not in path.read_text():
        return run(book, folder)
    with Processes(folder) as cluster:
        cluster.scheduler()
        cluster.add_workers(2)
        return run(book, folder, **{ADDRESS: cluster.address})


def run(book: nbformat.NotebookNode, folder: Path, **environment: str) -> nbformat.NotebookNode:
    """Run the cells of a notebook, in an empty folder."""
    from nbclient import NotebookClient  # half a second, for slow tests

    place = folder / "notebook"
    place.mkdir()
    client = NotebookClient(
        book,
        timeout=STEP,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(place)}},
    )
    client.execute(env=of_kernel(**environment))
    return book


def of_kernel(**environment: str) -> dict[str, str]:
    """Environment of a kernel."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TESTS.parent), **environment}


def bared(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with nothing in it of who ran it, and when."""
    book.metadata = nbformat.from_dict({**KERNEL, "language_info": {"name": "python"}})
    for cell in book.cells:
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", ()):
            output.pop("metadata", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = nbformat.from_dict({})
    return book


def texts(book: nbformat.NotebookNode) -> list[str]:
    """Everything that the outputs of a notebook say, pictures left out."""
    said = []
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            said.append(str(output.get("text", "")))
            data = output.get("data", {})
            said += [str(value) for kind, value in data.items() if kind.startswith("text/")]
    return said


def main() -> None:
    path = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        book = executed(path, Path(folder))
    nbformat.write(bared(book), path)


if __name__ == "__main__":
    main()
