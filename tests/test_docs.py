"""README and the pages of `docs/`: what README shows runs, and links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from commands import run

ROOT = Path(__file__).parents[1]
#: Pages whose code needs a cluster or files of other tools, or is that of README; tutorials, which
#: are run when the documentation is built.
NAMES = ("clusters", "inputs", "command_line", "genotypes", "cells", "cluster_tour")
ELSEWHERE = [f"docs/{name}.md" for name in NAMES]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/*.md")])
WITH_CODE = [
    name
    for path in sorted((ROOT / "docs").glob("*.md"))
    if (name := str(path.relative_to(ROOT))) not in ELSEWHERE
    and re.search(r"```(python|bash|{code-cell} ipython3)\n", path.read_text())
]


def blocks(language, page="README.md"):
    begins = rf"```(?:{language}|{{code-cell}} i{language}3)\n"
    return re.findall(rf"{begins}(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def commands(page="README.md"):
    """Commands of dhsic on a page, as words."""
    lines = [line for block in blocks("bash", page) for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [some[1:] for some in words if some[:1] == ["dhsic"]]


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_commands_and_lines_of_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [words[0] for words in commands()] == ["simulate", "inspect", "select", "pairs"]
    for words in commands():
        run(*words)
    (code,) = blocks("python")
    ended = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=240
    )
    assert "score" in ended.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with what the pages of `docs/` begin from."""
    folder = tmp_path_factory.mktemp("docs")
    store = folder / "genotypes.vcz"
    run("simulate", store, "--samples", 200, "--variants", 600, "--trait", "quantitative")
    options = ("--target", "sample_trait", "-n", 20)
    run("select", store, *options, "--out", folder / "selection.zarr")
    run("pairs", store, *options, "--out", folder / "pairs.tsv")
    shared = ("--selection", folder / "selection.zarr", "--shares")
    run("pairs", store, *options, *shared, "--out", folder / "shares.tsv")
    rng = np.random.default_rng(0)
    people = pd.Index([f"s{i}" for i in range(40)], name="sample")
    genes = pd.DataFrame(rng.normal(size=(40, 60)), people, [f"g{i}" for i in range(60)])
    about = pd.DataFrame({"disease": np.where(genes["g3"] > 0, "yes", "no")}, people)
    genes.join(about).to_csv(folder / "expression.csv")
    genes.T.to_csv(folder / "expression.tsv.gz", sep="\t")
    about.to_csv(folder / "samples.tsv", sep="\t")
    return folder


@pytest.mark.filterwarnings("ignore:Shares of all pairs")  # the data are of several populations
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.slow] * (p != "docs/start.md")) for p in WITH_CODE],
)
def test_what_a_page_shows_runs(page, made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    for words in commands(page):
        more = ["--force"] * (words[0] in ("simulate", "select", "report"))
        more += ["--memory", "8GB"] * (words[0] == "convert")  # tests before took some of it
        run(*words, *more)
    names: dict[str, object] = {}
    for code in blocks("python", page):
        exec(compile(code, page, "exec"), names)
    plt.close("all")


def test_the_reference_has_every_public_name():
    text, known = (ROOT / "docs" / "reference.md").read_text(), set()
    for module, names in re.findall(r"currentmodule:: (\S+)(.*?)```", text, re.DOTALL):
        known |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", names, re.MULTILINE)}
    modules = ("dhsic", "dhsic.get", "dhsic.kernels", "dhsic.interactions", "dhsic.plot")
    public = {f"{name}.{one}" for name in modules for one in import_module(name).__all__}
    datasets = vars(import_module("dhsic.datasets")).items()
    public |= {
        f"dhsic.datasets.{name}"
        for name, one in datasets
        if getattr(one, "__module__", "") == "dhsic.datasets" and name.islower() and name[0] != "_"
    }
    assert public - {"dhsic.__version__", "dhsic.datasets", "dhsic.get", "dhsic.kernels"} == known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, _anchor = link.partition("#")
        if path and "://" not in path:
            assert (page.parent / path).exists(), link
