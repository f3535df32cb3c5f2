"""Text that spreadsheets keep as formulas, ="0012", means the text between the quotes."""

import csv
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.errors import InputError
from dhsic.joins.text import read_table
from dhsic.sources.formulas import as_plain
from dhsic.sources.opening import open_source

M = 40


def values_of(source):
    return source.read(source.blocks(source.n_features)[0])


def as_text(rng):
    """A table of text: names of digits, three features, and classes that follow the second."""
    X = rng.normal(size=(M, 3)).round(3)
    table = pd.DataFrame(X, columns=["a", "b", "c, corrected"]).astype(str)
    table.insert(0, "id", [f"{i:04d}" for i in range(M)])
    return table.assign(status=np.where(X[:, 1] > 0, "case", "control")), X


def bare(text):
    return f'="{text}"'


def quoted(text):
    return '"' + bare(text).replace('"', '""') + '"'


def written(path, table, mark, separator, columns, *, header):
    """Write a table whose fields in some columns are formulas; others are quoted if need be."""
    rows = [[*table.columns], *table.to_numpy().tolist()]
    with path.open("w") as file:
        for n, row in enumerate(rows):
            fields = [
                mark(text)
                if name in columns and (n or header)
                else (f'"{text}"' if separator in text else text)
                for name, text in zip(table.columns, row, strict=True)
            ]
            file.write(separator.join(fields) + "\n")
    return path


@pytest.mark.parametrize("mark", [bare, quoted])
@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("columns", [["id"], ["b"], ["status"], None])
def test_names_numbers_labels_and_headers_are_read_as_the_text_they_mean(
    mark, separator, header, columns, rng, tmp_path
):
    table, X = as_text(rng)
    columns = [*table.columns] if columns is None else columns
    path = written(tmp_path / "t.csv", table, mark, separator, columns, header=header)
    source = open_source(path, not_features=["status"])
    np.testing.assert_array_equal(values_of(source), X)
    assert source.feature_names().tolist() == ["a", "b", "c, corrected"]
    assert source.sample_names().tolist() == table["id"].tolist()
    labels = read_table(str(path))
    assert labels.column("status").tolist() == table["status"].tolist()
    assert labels.column("id").tolist() == table["id"].tolist()


def test_a_single_formula_below_the_first_rows_is_read(rng, tmp_path):
    table, X = as_text(rng)
    table.loc[30, "id"] = bare("1E5")
    table.loc[33, "a"] = bare(table.loc[33, "a"])
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    source = open_source(path, not_features=["status"])
    np.testing.assert_array_equal(values_of(source), X)
    assert source.sample_names()[30] == "1E5"


def test_rows_that_are_features_and_lists_of_names_may_be_formulas(rng, tmp_path):
    table, X = as_text(rng)
    turned = table.drop(columns="status").set_index("id").T.reset_index(names="gene")
    path = written(tmp_path / "t.tsv", turned, bare, "\t", [*turned.columns], header=True)
    source = open_source(path, sample_dim=1)
    np.testing.assert_array_equal(values_of(source), X)
    listed = tmp_path / "keep.txt"
    listed.write_text("".join(f"{bare(name)}\n" for name in table["id"][:30]))
    data = tmp_path / "data.csv"
    table.to_csv(data, index=False)
    words = ["test", data, "--target", "status", "--keep", listed, "--no-progress"]
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == 0, done.output
    assert "30 samples" in done.output


def test_other_equal_signs_and_quotes_are_text():
    for line in ('a,"b=""c"" d",1', "x=1,y=2", 'k="v" more', 'a="1",2', '"=1+2",=3'):
        assert as_plain(line) == line
    line = ",".join(['"=""he says """"no"""""""', bare(""), quoted("")])
    assert next(csv.reader([as_plain(line)])) == ['he says "no"', "", ""]


def plain_table(message, folder):
    """Return the table that the sed command of a message writes."""
    sed = re.search(r"(sed -E .*) > PLAIN", message)[1]
    plain = folder / "plain.csv"
    with plain.open("w") as out:
        subprocess.run(shlex.split(sed), check=True, stdout=out)
    return plain


@pytest.mark.parametrize("mark", [bare, quoted])
def test_numbers_with_commas_in_formulas_are_refused_and_both_commands_work(
    mark, rng, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    table, X = as_text(rng)
    table["b"] = table["b"].str.replace(".", ",")
    path = written(tmp_path / "t.csv", table, mark, ";", [*table.columns], header=False)
    with pytest.raises(InputError, match="Write decimal points") as refused:
        open_source(path, not_features=["status"])
    assert f"such as {mark('0000')} as plain text" in str(refused.value)
    plain = plain_table(str(refused.value), tmp_path)
    assert "=" not in plain.read_text()
    with pytest.raises(InputError, match="Write decimal points") as again:
        open_source(plain, not_features=["status"])
    assert "plain text" not in str(again.value)
    command = re.search(r"python -c .*?\)\"", str(again.value))[0]
    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True)
    source = open_source("NEW.csv", not_features=["status"])
    np.testing.assert_array_equal(values_of(source), X)
