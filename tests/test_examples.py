"""The pages and notebooks of `examples/`: they run, and what they hold is fit to be read."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from commands import run
from notebooks import STEP, bared, executed, of_kernel, texts

import dhsic

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
#: Notebooks that simulate data, and what their outputs must contain.
PLANTED = {
    "shapes": [
        r"\n0\s+1\s+(line|bump|wave|step) ",
        r"\n5\s+6\s+spread ",
        r"\n0 +noise100 +noise200 ",
    ],
    "space": ["hotspots +10\n", "genes of one layer +10\n", "5 of 5 that rise and fall"],
    "omics": [" gene7 +rna +1 ", " cpg42 +methylation +1 ", " protein3 +protein +1 "],
    "survival": ["gene7 +.*e-.*\ngene3 +.*e-"],
}
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_on_a_laptop(tmp_path):
    book = executed(EXAMPLES / "laptop.ipynb", tmp_path)
    said = "\n".join(texts(book))
    assert "stopped\n" in said
    assert "identical after the stop: rank, score, round_hsic" in said
    assert "<progress" in said
    assert "10 of 5,000 features selected" in said
    assert len(pictures(book)) == 1
    assert not complaints(book)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PLANTED)
def test_a_notebook_finds_what_it_plants(name, tmp_path):
    book = executed(EXAMPLES / f"{name}.ipynb", tmp_path)
    said = "\n".join(texts(book))
    assert [claim for claim in PLANTED[name] if not re.search(claim, said)] == []
    assert len(pictures(book)) == (name != "omics")
    assert not complaints(book)


#: A run of many rounds, with a checkpoint.
RUN = """
import numpy as np, dhsic
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 1000))
y = X[:, 7] > 0
def fit(**options):
    return dhsic.BAHSIC(5, step=0.03, **options).fit(X, y).result_
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of zmq
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    "client", ["", "from distributed import Client\nclient = Client(processes=False)"]
)
def test_interrupting_a_cell_leaves_a_checkpoint(tmp_path, client):
    """The stop button, in a real kernel: the cell ends, and the same one goes on."""
    from jupyter_client.manager import start_new_kernel

    manager, kernel = start_new_kernel(env=of_kernel(), cwd=str(tmp_path))

    def do(code):
        messages = []
        reply = kernel.execute_interactive(code, output_hook=messages.append, timeout=STEP)
        contents = [each["content"] for each in messages]
        pages = [c.get("data", {}).get("text/html", "") for c in contents]
        return reply["content"], pages, "".join(c.get("text", "") for c in contents)

    def stop():
        until = time.monotonic() + STEP
        while not (tmp_path / "run.dhsic/rounds/000005").exists() and time.monotonic() < until:
            time.sleep(0.01)
        manager.interrupt_kernel()

    try:
        assert do(f"{client}\n{RUN}")[0]["status"] == "ok"
        threading.Thread(target=stop).start()
        ended, pages, _ = do("fit(checkpoint='run.dhsic')")
        assert ended["ename"] == "KeyboardInterrupt"
        assert "<progress" in "".join(pages)
        code = "again, whole = fit(checkpoint='run.dhsic'), fit(progress=False)\n"
        code += "print(all(again[k].equals(whole[k]) for k in ('rank', 'score', 'round_hsic')))"
        ended, pages, said = do(code)
        assert (ended["status"], said) == ("ok", "True\n")
        assert "<polyline" in "".join(pages)
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)


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
    assert path.stem in PLANTED or "identical" in said
    assert not OF_A_MACHINE.findall(said)
    assert not complaints(book)
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_metadata(path):
    text = path.read_text()
    book = nbformat.reads(text, as_version=4)
    assert nbformat.writes(bared(book)).rstrip() == text.rstrip()


# From files to a table ------------------------------------------------------------------------

SHARED = Path(__file__).parents[2] / "shared/data"
#: Parts of the page, and the files of others that they begin from.
PARTS = {
    "PLINK": [f"genotypes/regenie_{name}" for name in ("example.bed", "example.bim", "example.fam")]
    + ["genotypes/regenie_phenotype_bin.txt", "genotypes/regenie_covariates.txt"],
    "VCF": ["genotypes/mouse_hs1940.vcf.gz", "genotypes/mouse_hs1940.pheno"],
    "Single cells": [
        "singlecell/pbmc68k_reduced_v050.h5ad",
        "singlecell/pbmc68k_reduced.zarr.zip",
    ],
    "A CSV": [],
    "A bucket": [],
}


def part_of(title):
    """Commands and lines of Python of a part of the page."""
    page = (EXAMPLES / "files.md").read_text()
    (part,) = (text for text in page.split("\n## ") if text.startswith(title))
    (commands,), (code,) = (
        re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL) for language in ("bash", "python")
    )
    return commands.splitlines(), code


@pytest.fixture
def begun(request, tmp_path, monkeypatch):
    """A folder with what a part begins from, and its title."""
    title = request.param
    monkeypatch.chdir(tmp_path)
    for name in PARTS[title]:
        if not (SHARED / name).is_file():
            pytest.skip(f"{name} is not there")
        shutil.copy(SHARED / name, tmp_path)
    if title == "VCF":
        pytest.importorskip("cyvcf2")
        thinned("mouse_hs1940.vcf.gz")
    elif title == "A CSV":
        write_expression("expression.csv")
    elif title == "A bucket":
        fill(request.getfixturevalue("s3"), tmp_path)
    return title


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(title, marks=[pytest.mark.slow] * (title in ("VCF", "Single cells")))
        for title in PARTS
    ],
    indirect=True,
)
def test_from_a_file_to_a_table(begun, request):
    commands, code = part_of(begun)
    assert len(commands) <= 5
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    for line in commands:
        first, *words = shlex.split(line, comments=True)
        if first == "dhsic":
            run(*words)
        else:
            here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            subprocess.run([first, *words], check=True, env=os.environ | {"PATH": here})
    if begun == "A bucket":
        Path("top.tsv").write_bytes(request.getfixturevalue("s3").objects["top.tsv"][0])
    table = pd.read_csv("top.tsv", sep="\t")
    assert table["rank"].tolist() == [*range(1, len(table) + 1)]
    Path("top.tsv").unlink()
    exec(compile(code, begun, "exec"), {})
    assert begun == "A bucket" or len(pd.read_csv("top.tsv", sep="\t")) == len(table)


def thinned(path):
    """Leave every fiftieth variant of a VCF."""
    lines = gzip.decompress(Path(path).read_bytes()).decode().splitlines(keepends=True)
    kept = [line for i, line in enumerate(lines) if line.startswith("#") or i % 50 == 0]
    Path(path).write_bytes(gzip.compress("".join(kept).encode()))


def write_expression(path):
    rng = np.random.default_rng(0)
    people = pd.Index([f"s{i}" for i in range(40)], name="sample")
    genes = pd.DataFrame(rng.normal(size=(40, 60)), people, [f"g{i}" for i in range(60)])
    genes.assign(disease=np.where(genes["g3"] > 0, "yes", "no")).to_csv(path)


def fill(s3, folder):
    """Put genotypes and labels into the bucket, and nothing else."""
    s3.objects.clear()
    store = folder / "genotypes.vcz"
    run("simulate", store, "--samples", 60, "--variants", 200, "--trait", "quantitative")
    for path in store.rglob("*"):
        if path.is_file():
            s3.set(f"genotypes.vcz/{path.relative_to(store)}", path.read_bytes())
    rng, names = np.random.default_rng(0), dhsic.open_source(store).sample_names()
    rows = "".join(f"{name}\t{rng.normal()}\n" for name in names)
    s3.set("labels.tsv", f"IID\ttrait\n{rows}".encode())
