"""Recipes, modules of workflow systems, citations: one version, known options, valid files."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import jinja2
import pytest
import yaml

from dhsic.cli import main

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = DEPLOY / "nf-core" / "modules" / "dhsic"
WRAPPER = DEPLOY / "snakemake" / "dhsic" / "select"
GALAXY = DEPLOY / "galaxy"
ACTIONS = ROOT / ".github" / "workflows"

#: Files with command lines of dhsic.
WITH_COMMANDS = [
    *sorted(MODULES.glob("*/main.nf")),
    *sorted(MODULES.glob("*/tests/main.nf.test")),
    WRAPPER / "wrapper.py",
    WRAPPER / "test" / "Snakefile",
    *sorted(GALAXY.glob("*.xml")),
    DEPLOY / "bioconda" / "meta.yaml",
    ROOT / "docs" / "workflows.md",
]
YAML_FILES = [
    *sorted(MODULES.rglob("*.yml")),
    *sorted(WRAPPER.glob("*.yaml")),
    GALAXY / ".shed.yml",
    *sorted(ACTIONS.glob("*.yml")),
    ROOT / ".github" / "dependabot.yml",
]
by_file = pytest.mark.parametrize(
    "path", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT))
)


def bioconda():
    text = (DEPLOY / "bioconda" / "meta.yaml").read_text()
    words = {"PYTHON": "python", "pin_subpackage": lambda package, max_pin: f"{package} {max_pin}"}
    return yaml.safe_load(jinja2.Template(text).render(words))


def galaxy_tokens():
    tokens = ET.parse(GALAXY / "macros.xml").getroot().iter("token")
    return {token.attrib["name"]: token.text for token in tokens}


def options_of(command):
    return {
        word
        for option in main.commands[command].params
        for word in option.opts + option.secondary_opts
    }


def versions():
    """Version of dhsic in each file that names one."""
    yield "CITATION.cff", yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    yield ".zenodo.json", json.loads((ROOT / ".zenodo.json").read_text())["version"]
    yield (
        "docs/citing.md",
        re.search(r"version = \{(.*)\}", (ROOT / "docs/citing.md").read_text())[1],
    )
    yield "bioconda", bioconda()["package"]["version"]
    yield "galaxy", galaxy_tokens()["@TOOL_VERSION@"]
    yield "snakemake", re.search(r"dhsic =([\d.]+)", (WRAPPER / "environment.yaml").read_text())[1]
    for module in sorted(MODULES.iterdir()):
        environment = (module / "environment.yml").read_text()
        yield module.name, re.search(r"bioconda::dhsic=([\d.]+)", environment)[1]
        for version in re.findall(r"/dhsic:([\d.]+)--", (module / "main.nf").read_text()):
            yield f"{module.name}, container", version


def test_the_version_is_that_of_the_package():
    found = list(versions())
    assert len(found) == 12
    assert [where for where, version in found if version != PROJECT["version"]] == []


def test_bioconda_has_the_dependencies_of_the_package():
    requirements = bioconda()["requirements"]
    expected = {
        re.sub(r"^dask\[array\]", "dask-core", each).replace(">=", " >=")
        for each in PROJECT["dependencies"]
    }
    assert set(requirements["run"]) == expected | {f"python {PROJECT['requires-python']}"}
    floors = {
        re.sub(r"-base|-core", "", each.lower()).replace(" ", "")
        for each in requirements["run_constrained"]
    }
    extras = PROJECT["optional-dependencies"]
    assert floors == {
        each.lower() for name, some in extras.items() if name != "all" for each in some
    }


@by_file
def test_commands_have_the_options_that_they_are_called_with(path):
    text = path.read_text()
    for token, value in galaxy_tokens().items():
        text = text.replace(token, value) if path.suffix == ".xml" else text
    commands = set(re.findall(r"\bdhsic (select|test|simulate)\b", text)) or {"select", "test"}
    if WRAPPER in path.parents:  # the rule in the Snakefile passes options to the wrapper
        commands.add("select")
    known = set.union(*(options_of(command) for command in commands)) | {"--version", "--help"}
    called = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))
    elsewhere = {"--no-deps", "--no-build-isolation", "--no-cache-dir"}  # of pip
    assert called - known - elsewhere == set()
    assert called or path.name == "main.nf.test"


@pytest.mark.parametrize("tool", ["select", "test"])
def test_galaxy_passes_only_options_of_its_command(tool):
    text = (GALAXY / f"dhsic_{tool}.xml").read_text()
    called = set(re.findall(r"--[a-z][a-z-]+", text + galaxy_tokens()["@OPTIONS@"]))
    assert called <= options_of(tool) | {"--version"}
    assert f"dhsic {tool} " in text


def test_galaxy_tests_read_files_that_are_there():
    for path in sorted(GALAXY.glob("dhsic_*.xml")):
        tool = ET.parse(path).getroot()
        assert tool.attrib["id"] == path.stem
        files = [p.attrib["value"] for p in tool.iterfind(".//tests//param") if "ftype" in p.attrib]
        assert files
        assert all((GALAXY / "test-data" / file).is_file() for file in files)


@pytest.mark.parametrize("module", ["select", "test"])
def test_nf_core_modules_describe_their_channels(module):
    text = (MODULES / module / "main.nf").read_text()
    meta = yaml.safe_load((MODULES / module / "meta.yml").read_text())
    assert meta["name"] == f"dhsic_{module}"
    assert f"process DHSIC_{module.upper()} {{" in text
    assert list(meta["output"]) == re.findall(r"emit: (\w+)", text)
    inputs = [next(iter(each)) for each in meta["input"][0]]
    assert inputs == re.findall(r"(?:val|path)\((\w+)\)", re.search(r"input:\n(.*)", text)[1])
    assert meta["output"]["versions_dhsic"] == meta["topics"]["versions"]
    assert "topic: versions" in text


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_files_are_valid(path):
    assert yaml.safe_load(path.read_text())


def test_actions_are_pinned_by_commit_and_start_with_few_rights():
    for path in sorted(ACTIONS.glob("*.yml")):
        text = path.read_text()
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
        for use in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", use), use


def test_the_workflow_runs_on_every_supported_python():
    jobs = yaml.safe_load((ACTIONS / "ci.yml").read_text())["jobs"]
    classifiers = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    assert jobs["test"]["strategy"]["matrix"]["python"] == classifiers
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for job in jobs.values():
        for command in (step["run"] for step in job["steps"] if "run" in step):
            program, *words = shlex.split(command)
            assert set(words) <= set(targets) if program == "make" else (ROOT / program).is_file()


def test_the_paper_cites_what_its_bibliography_has():
    paper = (ROOT / "paper" / "paper.md").read_text()
    front, body = paper.split("---\n", 2)[1:]
    assert (ROOT / "paper" / yaml.safe_load(front)["bibliography"]).is_file()
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), re.MULTILINE)
    assert set(re.findall(r"@(\w+)", body)) == set(keys)
    assert len(body.split()) <= 1750
