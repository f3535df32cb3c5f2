"""Genotypes as text: with a blank between alleles, IUPAC codes, and words for missing ones."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic

M, D = 120, 8
RNG = np.random.default_rng(8)
G = RNG.binomial(2, 0.4, (M, D))
IS_MISSING = RNG.random((M, D)) < 0.1
Y = G[:, 3] + RNG.normal(0, 0.3, M)
DOSAGES = np.where(IS_MISSING, np.nan, G)
#: Names of the three genotypes, and of a missing one.
FORMS = {
    "blank": (["A A", "A G", "G G"], "0 0"),
    "blank, N": (["C C", "C T", "T T"], "N N"),
    "IUPAC": (["A", "R", "G"], "N"),
    "IUPAC, other alleles": (["C", "M", "A"][::-1], "N"),
    "IUPAC, no calls": (["G", "K", "T"], "fail"),
    "fail": (["AA", "AG", "GG"], "fail"),
    "failed": (["A/A", "A/G", "G/G"], "FAILED"),
    "no call": (["AA", "AB", "BB"], "No Call"),
    "undetermined": (["A|A", "A|C", "C|C"], "Undetermined"),
}


def texts(form, without_heterozygotes=()):
    names, missing = FORMS[form]
    values = np.where(IS_MISSING, missing, np.array(names)[G])
    calls = G.copy()
    for j in without_heterozygotes:
        calls[:, j] = np.where(G[:, j] == 1, 2, G[:, j])
        values[:, j] = np.where(IS_MISSING[:, j], missing, np.array(names)[calls[:, j]])
    frame = pd.DataFrame(values, index=[f"s{i}" for i in range(M)]).add_prefix("rs")
    return frame, np.where(IS_MISSING, np.nan, calls)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("homozygous", [(), (0, 5)])
@pytest.mark.parametrize("form", FORMS)
def test_the_command_writes_dosages(form, homozygous, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, dosages = texts(form, homozygous)
    table = frame.assign(y=Y)
    table.rename_axis("id").to_csv("x.csv") if suffix == "csv" else table.to_parquet("x.parquet")
    said = told(run("test", f"x.{suffix}", "--target", "y", code=2))
    if suffix == "csv" and form in ("fail", "failed", "no call", "undetermined"):
        assert f"{FORMS[form][1]!r} means a missing genotype here" in said
    command = re.search(r"python (-c \".*?\")(, then|;)", said)[1]
    subprocess.run([sys.executable, *shlex.split(command)], check=True)
    new = pd.read_csv("NEW.csv") if suffix == "csv" else pd.read_parquet("NEW.parquet")
    np.testing.assert_array_equal(new[[*frame.columns]], dosages)
    found = run("test", f"NEW.{suffix}", "--target", "y").output
    assert re.search(r"\n +1 +(\S+) ", found)[1] == "rs3"


@pytest.mark.parametrize("homozygous", [(), (0, 5)])
@pytest.mark.parametrize("form", FORMS)
def test_the_code_for_frames_writes_dosages(form, homozygous):
    X, dosages = texts(form, homozygous)
    with pytest.raises(dhsic.InputError) as told_:
        dhsic.test_features(X, Y)
    code = re.search(r"(X\[\S.*?\] = X\[.*\.apply\(lambda v: .*\))\.", str(told_.value))[1]
    exec(code, {"X": X})
    np.testing.assert_array_equal(X.astype(float), dosages)
    assert dhsic.test_features(X.astype(float), Y).p_values.argmin() == 3


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["wt", "het", "hom"], "fail"),
        (["Allele1", "Heterozygote", "Allele2"], "Undetermined"),
        (["ref", "HET", "alt"], "no_call"),
    ],
)
def test_words_among_genotypes_in_words_are_missing_by_one_option(
    names, missing, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    values = np.where(IS_MISSING, missing, np.array(names)[G])
    frame = pd.DataFrame(values, index=[f"s{i}" for i in range(M)]).add_prefix("rs")
    frame.assign(y=Y).to_csv("x.csv", index_label="id")
    said = told(run("test", "x.csv", "--target", "y", code=2))
    assert f"are {missing!r}, which usually means a missing value" in said
    option = shlex.split(re.search(r"means missing, pass (--na \S+)\. ", said)[1])
    found = run("test", "x.csv", "--target", "y", *option).output
    assert re.search(r"\n +1 +(\S+) ", found)[1] == "rs3"


@pytest.mark.parametrize(
    "levels",
    [["A", "C", "N"], ["T", "N"], ["A", "M", "T"], ["M", "W", "X"], ["a", "r", "g"], ["K", "S"]],
)
def test_other_letters_are_categories(levels):
    letters = np.array(levels)[RNG.integers(0, len(levels), M)]
    X = pd.DataFrame({"a": letters, "b": RNG.normal(size=M)})
    assert dhsic.test_features(X, Y).p_values.size == 2
