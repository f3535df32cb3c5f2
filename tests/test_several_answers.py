"""Commas in fields: several answers to a question, and numbers of two sites."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic

M = 60
RNG = np.random.default_rng(6)
ILL = np.arange(M) % 2 == 1


def frame():
    X = pd.DataFrame(RNG.uniform(1, 9, (M, 6)).round(3), columns=[f"g{i}" for i in range(6)])
    X.insert(0, "id", [f"s{i}" for i in range(M)])
    return X.assign(y=np.where(ILL, "ill", "well"))


def commands_in(sentence):
    commands = re.findall(r'python -c ".*?to_csv.*?"', sentence)
    return [command.replace("python", shlex.quote(sys.executable), 1) for command in commands]


def refused(name):
    return told(run("test", name, "--target", "y", "-n", "1", code=2))


@pytest.mark.parametrize(("separator", "more"), [(",", ""), ("\t", ",3"), (";", ",3")])
def test_several_answers_become_columns_of_0_and_1(separator, more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers = np.where(ILL, f"1,2{more}", np.where(np.arange(M) % 4 == 0, "1", "1,3"))
    answers[[3, 8]] = ""
    X = frame().assign(Q5=answers, Q6=["1, 2, 4", "2", "4, 5"] * 20)
    X.to_csv("x.csv", sep=separator, index=False)
    said = refused("x.csv")
    assert "may be several answers" in said
    (command,) = commands_in(said)
    subprocess.run(["bash", "-c", command], check=True)
    written = pd.read_csv("NEW.csv")
    there = answers != ""
    assert written["Q5_2"].isna().tolist() == (~there).tolist()
    np.testing.assert_array_equal(written["Q5_2"][there], ILL[there])
    assert written["Q6_4"].tolist() == [1, 0, 1] * 20
    assert "Q5_2" in run("test", "NEW.csv", "--target", "y", "-n", "2").stdout
    options = re.search(r"exclude them: (--not-feature \w+ --not-feature \w+)\.", said)[1]
    run("test", "x.csv", "--target", "y", "-n", "1", *options.split())


def test_pairs_of_answers_may_be_decimal_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame().assign(Q5=["1,2", "1,3", "3"] * 20).to_csv("x.csv", index=False)
    said = refused("x.csv")
    answers, points = commands_in(said)
    subprocess.run(["bash", "-c", answers], check=True)
    assert pd.read_csv("NEW.csv")["Q5_3"].tolist() == [0, 1, 1] * 20
    subprocess.run(["bash", "-c", points], check=True)
    assert pd.read_csv("NEW.csv")["Q5"].tolist() == [1.2, 1.3, 3] * 20


@pytest.mark.parametrize("cells", [["1,5", "0,7", "3"], ["1,25", "12,5", "3,1"]])
def test_decimal_commas_get_points(cells, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame().assign(Q5=cells * 20).to_csv("x.csv", index=False)
    said = refused("x.csv")
    assert "Write decimal points, not commas" in said
    (command,) = commands_in(said)
    subprocess.run(["bash", "-c", command], check=True)
    expected = [float(cell.replace(",", ".")) for cell in cells] * 20
    assert pd.read_csv("NEW.csv")["Q5"].tolist() == expected


@pytest.mark.parametrize("is_german", [False, True])
@pytest.mark.parametrize("separator", [";", ",", "\t"])
def test_numbers_of_two_sites_have_a_command_for_each_reading(
    is_german, separator, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    X = frame()
    X["g3"] += 12 * ILL
    is_other = np.arange(M) % 3 == 0
    texts = X.astype(object)
    for name in [f"g{i}" for i in range(6)]:
        two = X[name].map("{:.2f}".format)
        texts[name] = two.str.replace(".", ",") if is_german else two
    three = X["g3"].map("{:.3f}".format)
    three = three if is_german else three.str.replace(".", ",")
    texts.loc[is_other, "g3"] = three[is_other]
    texts.to_csv("x.csv", sep=separator, index=False)
    said = refused("x.csv")
    assert "no value shows which" in said
    decimal, thousands = commands_in(said)
    subprocess.run(["bash", "-c", decimal], check=True)
    read = pd.read_csv("NEW.csv")
    np.testing.assert_allclose(read["g3"], X["g3"], atol=0.006)
    np.testing.assert_allclose(read["g1"], X["g1"], atol=0.006)
    assert "g3" in run("test", "NEW.csv", "--target", "y", "-n", "1").stdout
    subprocess.run(["bash", "-c", thousands], check=True)
    read = pd.read_csv("NEW.csv")
    np.testing.assert_allclose(read["g3"][is_other], 1000 * X["g3"][is_other])
    np.testing.assert_allclose(read["g3"][~is_other], X["g3"][~is_other], atol=0.006)


@pytest.mark.parametrize("surely", ["1,370,000", "1,370.5"])
def test_thousands_that_one_number_shows_have_one_command(surely, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = ["950.25", "2,415", surely] * 20
    frame().assign(n=cells).to_csv("x.csv", index=False)
    said = refused("x.csv")
    assert "These commas separate thousands" in said
    (command,) = commands_in(said)
    subprocess.run(["bash", "-c", command], check=True)
    assert pd.read_csv("NEW.csv")["n"].tolist() == [float(c.replace(",", "")) for c in cells]
    assert dhsic.open_source("NEW.csv", not_features=["y"]).n_features == 7
