"""Names of a store on a terminal, which takes some of what they hold for commands."""

import json
import re

import numpy as np
import pytest
import zarr
from commands import run
from stores import write

from dhsic.cli.console import printable
from dhsic.results.files import load

BAD = "\x1b]0;owned\x07\x1b[31m\nError: forged\r\u202eevil\u2066\x9b2J\u2028"
ESCAPED = r"\x1b]0;owned\x07\x1b[31m\nError: forged\r\u202eevil\u2066\x9b2J\u2028"
#: What a terminal may be sent: colours of our own, and line breaks.
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028]")


def assert_printable(*outputs):
    for output in outputs:
        assert not RAW.search(output), output
        assert not any(line.startswith("Error: forged") for line in output.splitlines())


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(3)
    group = zarr.open_group(tmp_path / "x", mode="w")
    y = rng.integers(0, 2, 20)
    X = rng.standard_normal((20, 8)) + y[:, None]
    write(group, "X", X, ("samples", "features"))
    write(group, "features", np.array([f"{BAD}{i}" for i in range(8)], object), ("features",))
    write(group, "samples", np.array([f"{BAD}{i}" for i in range(20)], object), ("samples",))
    classes = np.array([f"{BAD}a", f"{BAD}b"], object)
    write(group, "classes", classes[y], ("samples",))
    write(group, "groups", np.array([f"{BAD}{i // 2}" for i in range(8)], object), ("features",))
    write(group, "unlike", np.array([f"{BAD}{i}" for i in range(20)], object), ("samples",))
    write(group, "gaps", np.array([*([""] * 2), *([f"{BAD}a", "b"] * 9)], object), ("samples",))
    return tmp_path / "x"


def test_what_is_printable():
    assert printable(BAD) == ESCAPED
    assert printable("naïve Σ 日本 😀 é") == "naïve Σ 日本 😀 é"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
    assert printable("\ud800") == r"\ud800"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inspect",), 0),
        (("select", "--target", "classes", "-n", "3"), 0),
        (("select", "--target", "classes", "-n", "2", "--groups", "groups"), 0),
        (("select", "--target", "classes", "-n", "3", "--stability", "2"), 0),
        (("plan", "--target", "classes", "-n", "3"), 0),
        (("select", "--target", "unlike", "-n", "3"), 2),
        (("select", "--target", "gaps", "-n", "3"), 2),
        (("select", "--target", BAD, "-n", "3"), 2),
        (("select", "--target", "classes", "-n", "3", "--variable", BAD), 2),
        (("-v", "select", "--target", BAD, "-n", "3"), 2),
    ],
)
def test_commands(words, code, store):
    at = words.index("-v") + 2 if "-v" in words else 1
    done = run(*words[:at], store, *words[at:], code=code)
    assert_printable(done.stdout, done.stderr)


def test_tables_of_labels(store, tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text(f'name,class\n"{BAD}x",a\n' + "".join(f'"q{i}",b\n' for i in range(19)))
    ask = ("select", store, "--labels", table, "--target", "class", "-n", "2")
    done = run(*ask, "--sample-column", "name", code=2)
    assert_printable(done.stdout, done.stderr)
    assert r"\x1b]0;owned" in done.stderr


def test_results_keep_names_as_they_are(store, tmp_path):
    ask = ("select", store, "--target", "classes", "-n", "3", "--no-progress")
    done = run(*ask, "--json", "--out", tmp_path / "r")
    assert_printable(done.stdout)
    assert all(row["name"].startswith(BAD) for row in json.loads(done.stdout)["selected"])
    assert load(tmp_path / "r")["feature"].to_numpy()[0] == f"{BAD}0"
    kept = run(*ask, "--checkpoint", tmp_path / "run")
    assert_printable(kept.stdout, kept.stderr)
    status = run("status", tmp_path / "run")
    assert_printable(status.stdout, status.stderr)
