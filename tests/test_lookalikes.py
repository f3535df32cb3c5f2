"""Names of classes that look the same and are written with different characters."""

import re
import shlex
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.errors import InputError
from dhsic.joins.lookalikes import lookalikes

M = 60
RNG = np.random.default_rng(1)
ILL = RNG.random(M) < 0.5
STATUS = np.where(ILL, "non-case A", "case A").astype(object)
SOME = RNG.random(M) < 0.3
#: Characters of a name, and what they are replaced by in some samples.
REPLACED = {
    "zero-width space": ("A", "A\u200b"),
    "soft hyphen": ("A", "\u00adA"),
    "byte-order mark": ("c", "\ufeffc"),
    "Cyrillic": ("c", "\u0441"),
    "a Greek capital": ("A", "\u0391"),
    "a hyphen": ("-", "\u2011"),
    "full width": ("A", "\uff21"),
}


def frame(name):
    X = pd.DataFrame(RNG.normal(size=(M, 8)), columns=[f"g{i}" for i in range(8)])
    X["g3"] += 3 * ILL
    old, new = REPLACED[name]
    changed = [str(text).replace(old, new) for text in STATUS]
    return X, np.where(SOME, np.array(changed, object), STATUS).astype(object)


@pytest.mark.parametrize("name", REPLACED)
def test_names_that_look_the_same_are_made_the_same_by_the_command(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, status = frame(name)
    X.assign(status=status).to_csv("x.csv", index_label="id")
    words = ("test", "x.csv", "--target", "status", "-n", 1)
    said = told(run(*words, code=2))
    assert re.search(r"look the same, but are different names.* \(U\+[0-9A-F]{4}", said)
    remedy = re.search(r'(python -c ".*"), then pass NEW\.csv', said)[1]
    if name == "Cyrillic":  # a shell leaves the escapes as they are
        remedy = remedy.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
        subprocess.run(["bash", "-c", remedy], check=True)
    else:
        exec(shlex.split(remedy)[2], {})
    again = run("test", "NEW.csv", *words[2:])
    assert "2 classes" in again.stderr
    assert re.search(r"\b1\s+g3\b", again.stdout)
    if name == "Cyrillic":
        assert "4 classes" in run(*words, "--label-kernel", "multiclass").stderr
    y = pd.Series(status, X.index)
    with pytest.raises(InputError, match="look the same") as error:
        dhsic.test_features(X, y)
    code = re.search(r"pass (pandas\.Series\(.*?\)\.replace\(.*?\))\.", str(error.value))[1]
    mended = eval(code, {"pandas": pd, "Y": y})
    np.testing.assert_array_equal(mended, STATUS)


def test_groups_of_covariates_are_compared_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, site = frame("Cyrillic")
    X.assign(site=site, y=ILL.astype(int)).to_csv("x.csv", index_label="id")
    said = told(run("test", "x.csv", "--target", "y", "--covariate", "site", "-n", 1, code=2))
    assert "U+0441 cyrillic small letter es" in said
    with pytest.raises(InputError, match="look the same"):
        dhsic.test_features("x.csv", "y", covariates=["site"])


@pytest.mark.parametrize(
    "names",
    [
        ["Ja", "Nein", "weiß nicht"],
        ["\u0434\u0430", "\u043d\u0435\u0442"],  # yes and no in Russian
        ["10 \u00b5M", "10 mM", "10 nM"],
        ["m\u00b2", "m2"],
        ["TNF-\u03b1", "TNF-a"],
        ["\u03b1", "\u03b2", "\u03b3"],
        ["\u0410", "\u0412", "\u0410\u0412"],  # blood groups, all in Cyrillic letters
        ["中", "日本"],
        ["Zürich", "Zurich"],
    ],
)
def test_names_that_differ_visibly_are_names(names):
    assert not lookalikes(Counter(names))
