"""The notebooks of `examples/`: they run, and what they hold is fit to be read by others."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from notebooks import bared, executed, texts

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
#: What belongs to one machine: absolute paths, addresses of hosts and of objects, warnings.
OF_A_MACHINE = re.compile(
    r"(?<![\w.<])/(home|Users|root|tmp|var|work|usr|opt|private|mnt)\b|[A-Z]:\\|"
    r"(tcp|tls|inproc)://|0x[0-9a-f]{6,}|\w*Warning\b|Traceback"
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_on_a_remote_cluster(tmp_path):
    book = executed(EXAMPLES / "remote_cluster.ipynb", tmp_path)
    said = "\n".join(texts(book))
    assert "2 workers, 2 threads" in said
    assert "Plan of a run: BAHSIC" in said
    assert re.search(r"done after \d+ rounds", said)
    assert "identical on threads: rank, score, round_hsic" in said
    assert len(pictures(book)) == 2
    assert not complaints(book)


def outputs(book):
    return [output for cell in book.cells for output in cell.get("outputs", ())]


def pictures(book):
    return [o for o in outputs(book) if "image/png" in o.get("data", {})]


def complaints(book):
    return [o.text for o in outputs(book) if o.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_there_and_hold_nothing_of_a_machine(path):
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    said = "\n".join(texts(book))
    assert "identical" in said
    assert not OF_A_MACHINE.findall(said)
    assert not complaints(book)
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_metadata(path):
    text = path.read_text()
    book = nbformat.reads(text, as_version=4)
    assert nbformat.writes(bared(book)).rstrip() == text.rstrip()
