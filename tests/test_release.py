"""What is released says one version and one set of dependencies, wherever it says them."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Names of packages that conda has another name for.
IN_CONDA = {"dask[array]": "dask-core"}


def recipe():
    return yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text())


def test_the_version_is_everywhere_the_same():
    version = PROJECT["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert recipe()["context"]["version"] == version
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1].split()[0] == version


def test_conda_asks_for_what_pip_asks_for():
    asked = {IN_CONDA.get(name, name): floor for name, floor in split(PROJECT["dependencies"])}
    found = dict(split(each.replace(" ", "") for each in recipe()["requirements"]["run"]))
    assert found == asked | {"python": PROJECT["requires-python"].removeprefix(">=")}


def split(requirements):
    """Name and floor of each."""
    return [tuple(each.split(">=")) for each in requirements]
