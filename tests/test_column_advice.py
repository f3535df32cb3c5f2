"""Advice about columns that are no numbers, or have another place: it is followed, and works."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import run

import dhsic
from dhsic.errors import InputError
from dhsic.sources.marked_numbers import numbers_of, words_of

M = 24
RNG = np.random.default_rng(11)
NAMES = [f"s{i}" for i in range(M)]
WEIGHTS = RNG.uniform(50, 90, M).round(1) + np.arange(M) / 100
X = pd.DataFrame(
    RNG.normal(size=(M, 6)), columns=[f"g{i}" for i in range(6)], index=pd.Index(NAMES, name="id")
)
MARKED = {
    "dollars": [f"${w:.2f}" for w in WEIGHTS],
    "euros": [f"{w:.2f} €" for w in WEIGHTS],
    "weight": [f"{w:.2f} kg" for w in WEIGHTS],
    "swiss": [f"{int(w * 250):,}".replace(",", "'") for w in WEIGHTS],
    "blank": [f"{int(w * 250):,}".replace(",", " ") for w in WEIGHTS],
    "narrow": [f"{int(w * 250):,}".replace(",", "\u202f") for w in WEIGHTS],
}


def followed(sentence):
    """Run the command of a sentence."""
    command = re.search(r'python -c "[^"]*"', sentence)
    assert command, sentence
    command = command[0].replace("python", shlex.quote(sys.executable), 1)
    subprocess.run(["bash", "-c", command], check=True)


def refused(*words):
    return " ".join(run(*words, "-n", 2, code=2).stderr.split())


@pytest.mark.parametrize("kind", MARKED)
def test_labels_with_marks_are_written_as_numbers_by_the_command(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.to_csv("x.csv")
    pd.DataFrame({"id": NAMES, "y": MARKED[kind]}).to_csv("y.csv", index=False)
    words = ("select", "x.csv", "--labels", "y.csv", "--target", "y")
    for more in ((), ("--label-kernel", "gaussian")):
        sentence = refused(*words, *more)
        assert "Traceback" not in sentence
    followed(sentence)
    written = pd.read_csv("NEW.csv")["y"]
    scale = 250 if written.max() > 1000 else 1
    np.testing.assert_allclose(written, WEIGHTS * scale, atol=1)
    words = ("select", "x.csv", "--labels", "NEW.csv", "--target", "y", "-n", 2)
    assert "real values" in run(*words).stderr


def test_names_and_doses_are_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.to_csv("x.csv")
    pd.DataFrame({"id": NAMES, "dose": ["10mg", "20mg", "50mg"] * 8}).to_csv("y.csv", index=False)
    words = ("select", "x.csv", "--labels", "y.csv", "--target", "dose")
    assert "3 classes" in run(*words, "-n", 2).stderr
    sentence = refused(*words, "--label-kernel", "gaussian")
    assert "--label-kernel gaussian takes numbers" in sentence
    for texts in (["Sym0", "Sym1"], ["s1", "s2"], ["A-1", "A-2"], ["a", "b"], ["1", "2.5"]):
        assert numbers_of(texts) == ""
    assert words_of(["red", "blue"]) == words_of(["1", "0"]) == ""


@pytest.mark.parametrize("kind", [*MARKED, "words"])
def test_features_with_marks_are_written_as_numbers_by_the_command(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = np.where(np.arange(M) % 3 == 0, "Yes", "no")
    data = X.assign(z=MARKED.get(kind, words))
    if kind == "words":
        data = pd.DataFrame(dict.fromkeys(data.columns, words), index=X.index)
    data.to_csv("x.csv")
    with pytest.raises(InputError, match="pass NEW") as caught:
        dhsic.open_source("x.csv")
    followed(str(caught.value))
    source = dhsic.open_source("NEW.csv")
    assert (source.n_samples, source.n_features) == (M, 7)
    z = source.read(source.blocks(7)[0])[:, -1]
    expected = (words == "Yes") if kind == "words" else WEIGHTS * (250 if z.max() > 1000 else 1)
    np.testing.assert_allclose(z, expected, atol=1)


def test_an_index_that_repeats_is_left_out_as_the_sentence_says(tmp_path):
    path = tmp_path / "x.parquet"
    repeated = pd.Index(np.arange(M) % 5)
    X.reset_index().set_index(repeated).to_parquet(path)  # beside names
    assert dhsic.open_source(path).sample_names().tolist() == NAMES
    X.set_index(repeated).to_parquet(path)
    with pytest.raises(InputError, match=r"not_features=\['__index_level_0__'\]"):
        dhsic.open_source(path)
    source = dhsic.open_source(path, not_features=["__index_level_0__"])
    assert source.n_features == 6
    assert source.sample_names() is None


@pytest.mark.parametrize("name", ["t.xls", "t.xlsx", "T.XLS"])
def test_text_that_is_called_a_workbook_is_read(name, tmp_path):
    X.to_csv(tmp_path / name, sep="\t")
    assert dhsic.open_source(tmp_path / name).feature_names().tolist() == [*X.columns]
    (tmp_path / name).write_bytes(b"PK\3\4\0\0workbook\0\1")
    with pytest.raises(InputError, match="Excel format"):
        dhsic.open_source(tmp_path / name)


def test_further_names_of_features_are_left_out_as_the_sentence_says(tmp_path):
    turned = X.T.rename_axis("gene")
    turned.insert(0, "gene_name", [f"Sym{i}" for i in range(6)])
    turned.to_csv(tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"about features.*not_features=\['gene_name'\]"):
        dhsic.open_source(tmp_path / "x.csv", sample_dim=1)
    source = dhsic.open_source(tmp_path / "x.csv", sample_dim=1, not_features=["gene_name"])
    assert (source.n_samples, source.n_features) == (M, 6)
    np.testing.assert_allclose(source.read(source.blocks(6)[0]), X.to_numpy())


def test_names_of_samples_in_a_frame_become_the_index_as_the_sentence_says():
    frame = X.rename_axis("sample").reset_index()
    with pytest.raises(InputError, match=r"X = X.set_index\('sample'\)"):
        dhsic.open_source(frame)
    assert dhsic.open_source(frame.set_index("sample")).sample_names().tolist() == NAMES


def test_a_target_in_a_group_is_said_with_its_path(tmp_path):
    data = xr.Dataset({"x": (("sample", "gene"), X.to_numpy()), "y": ("sample", WEIGHTS)})
    data.to_zarr(tmp_path / "x.zarr", group="rna", consolidated=False)
    with pytest.raises(InputError, match="target='rna/y'"):
        dhsic.select(tmp_path / "x.zarr", "y", variable="rna/x", n_features_to_select=2)
    dhsic.select(tmp_path / "x.zarr", "rna/y", variable="rna/x", n_features_to_select=2)
