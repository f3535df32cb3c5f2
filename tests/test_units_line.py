"""A line of units or questions below the header, above numbers with decimal commas."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import run, told

M, D = 80, 9
RNG = np.random.default_rng(3)
X = RNG.normal(size=(M, D)).round(3)
Y = (X[:, 4] + 0.3 * RNG.normal(size=M)).round(3)
#: Fields of the lines below the header, and their numbers.
LINES = {
    "units": ([["", *["mg/l"] * D, "kg/m2"]], "line 2"),
    "units in brackets": ([["unit", *["[mg/l]"] * D, "[kg]"]], "line 2"),
    "units of most": ([["", *["mg/l"] * 6, *[""] * 3, ""]], "line 2"),
    "questions": ([["", *["How much?"] * D, "Which?"], ["", *["{ImportId}"] * D, "{Id}"]],
                  "lines 2 and 3"),
}  # fmt: skip


def write_table(path, lines, encoding, end):
    frame = pd.DataFrame(X, index=[f"s{i}" for i in range(M)]).add_prefix("g").assign(bmi=Y)
    written = frame.to_csv(sep=";", decimal=",", index_label="id").splitlines()
    written[1:1] = [";".join(fields) for fields in lines]
    path.write_bytes(end.join([*written, ""]).encode(encoding))


@pytest.mark.parametrize(("encoding", "end"), [("utf-8", "\n"), ("utf-8-sig", "\r\n")])
@pytest.mark.parametrize("kind", LINES)
def test_the_line_is_named_and_the_commands_lead_to_a_ranking(
    kind, encoding, end, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    lines, named = LINES[kind]
    write_table(tmp_path / "x.csv", lines, encoding, end)
    said = told(run("test", "x.csv", "--target", "bmi", code=2))
    assert f"has text in {named} in" in said
    removed = re.search(r"Remove (?:that line|those lines): (sed .*? > NEW)", said)[1]
    subprocess.run(["bash", "-c", removed], check=True)
    for path in ("NEW", "NEW.csv"):  # the features, then the labels
        said = told(run("test", path, "--target", "bmi", code=2))
        assert "decimal points" in said
        command = re.search(r'python (-c ".*?")[,.]? ', f"{said} ")[1]
        subprocess.run([sys.executable, *shlex.split(command)], check=True)
    found = run("test", "NEW.csv", "--target", "bmi").output
    assert re.search(r"\n +1 +(\S+) ", found)[1] == "g4"


@pytest.mark.parametrize("word", ["low", "n.m."])
def test_words_among_numbers_with_commas_are_named_by_their_column(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "x.csv", [], "utf-8", "\n")
    text = (tmp_path / "x.csv").read_text().splitlines()
    fields = text[9].split(";")
    fields[3] = word
    text[9] = ";".join(fields)
    (tmp_path / "x.csv").write_text("\n".join([*text, ""]))
    said = told(run("test", "x.csv", "--target", "bmi", code=2))
    assert "--category" not in said
    assert "text in line" not in said
