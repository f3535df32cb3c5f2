"""Advice about columns that are no numbers, or have another place: it is followed, and works."""

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

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
    assert "--label-kernel gaussian needs numbers" in sentence
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
    with pytest.raises(InputError, match=r"about the features.*not_features=\['gene_name'\]"):
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


def features_of(path, **options):
    """Matrix of a source, and names of its features."""
    source = dhsic.open_source(path, **options)
    return source.read(source.blocks(source.n_features)[0]), source.feature_names().tolist()


def refusal(path, **options):
    with pytest.raises(InputError) as caught:
        dhsic.open_source(path, **options)
    return str(caught.value)


def edited(sentence):
    """Run the last command of a sentence, of the shell."""
    command = re.search(r"(sed|tail|head|unzip|printf) .*$", sentence)
    assert command, sentence
    subprocess.run(["bash", "-c", command[0]], check=True)


def test_values_below_a_limit_become_half_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    low = X.abs().round(3) + 1
    table = low.astype(object)
    table.loc[low["g1"] < 1.5, "g1"] = "<1.5"
    table.iloc[3, 4] = "> 3"
    table.to_csv("x.csv")
    sentence = refusal("x.csv")
    assert "na=['<1.5'] would make it a missing value" in sentence
    followed(sentence)
    expected = low.copy()
    expected.loc[low["g1"] < 1.5, "g1"] = 0.75
    expected.iloc[3, 4] = 3
    np.testing.assert_allclose(features_of("NEW.csv")[0], expected)
    # the limit itself, by the change that the sentence says
    followed(sentence.replace(" / (1 + v.str.strip().str.startswith('<'))", "", 1))
    expected.loc[low["g1"] < 1.5, "g1"] = 1.5
    np.testing.assert_allclose(features_of("NEW.csv")[0], expected)


def test_labels_below_a_limit_become_half_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.to_csv("x.csv")
    texts = ["<60" if w < 60 else str(w) for w in WEIGHTS]
    pd.DataFrame({"id": NAMES, "y": texts}).to_csv("y.csv", index=False)
    sentence = refused("test", "x.csv", "--labels", "y.csv", "--target", "y")
    assert (
        "--na 'y=<60' --drop-missing would exclude those samples, which have the lowest" in sentence
    )
    followed(sentence)
    written = pd.read_csv("NEW.csv")["y"]
    np.testing.assert_allclose(written, np.where(WEIGHTS < 60, 30, WEIGHTS))
    more = ("--labels", "NEW.csv", "--target", "y", "-n", 2)
    assert f"{M} real values" in run("test", "x.csv", *more).stderr


def test_negative_numbers_of_accountants_get_a_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers = X.round(2)
    numbers.map(lambda v: f"({-v:.2f})" if v < 0 else f"{v:.2f}").to_csv("x.csv")
    sentence = refusal("x.csv")
    assert "is a negative number in parentheses, -" in sentence
    assert "not_features" not in sentence
    followed(sentence)
    np.testing.assert_allclose(features_of("NEW.csv")[0], numbers)


def test_features_of_words_and_of_groups_are_encoded_by_one_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    smoker = np.array(["never", "ex", "current"] * 8)
    yes = np.where(X["g2"] > 0, "ja", "nein")
    dates = [f"2020-01-{i + 1:02d}" for i in range(M)]
    X.assign(a=yes, smoker=smoker, sex=["male", "female"] * 12, date=dates).to_csv("x.csv")
    sentence = refusal("x.csv")
    assert "If 'a', 'sex', 'smoker' are features" in sentence
    followed(sentence)
    values, names = features_of("NEW.csv", not_features=["date"])
    groups = ["smoker_current", "smoker_ex", "smoker_never"]
    assert names == [*X.columns, "a", "sex", *groups]
    np.testing.assert_allclose(values[:, 6], yes == "ja")
    np.testing.assert_allclose(values[:, 8:], [[s == g[7:] for g in groups] for s in smoker])


def test_several_codes_are_told_at_once_and_no_mark_is_glued_to_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = X.astype(object)
    for i, code in enumerate(["#DIV/0!", "n.a.", "-"]):
        table.iloc[i + 2, i] = code
    table.assign(y=["a", "b"] * 12).to_csv("x.csv")
    sentence = refused("test", "x.csv", "--target", "y")
    options = shlex.split(sentence.partition("Use ")[2].partition(" if all of these")[0])
    assert options == ["--na", "#DIV/0!", "--na", "n.a.", "--na", "-"]
    run("test", "x.csv", "--target", "y", "-n", 2, *options)


def test_many_columns_of_text_are_no_sixty_options(tmp_path):
    data = pd.DataFrame({f"t{i}": [f"w{i}{j}" for j in range(M)] for i in range(60)}, index=NAMES)
    data.assign(g=range(M)).to_csv(tmp_path / "x.csv")
    sentence = refusal(tmp_path / "x.csv")
    assert "pass their names ('t0', 't1'" in sentence
    assert len(sentence) < 1500


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_numbers_that_are_text_in_typed_tables(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = X.reset_index().assign(g1=[*X["g1"].astype(str)[:-1], "NA"], day="monday")
    getattr(data, f"to_{ending}")(f"x.{ending}")
    sentence = refusal(f"x.{ending}")
    assert "'g1' contains numbers written as text" in sentence
    assert "exclude it: not_features=['day']" in sentence
    followed(sentence)
    values, names = features_of(f"NEW.{ending}", not_features=["day"])
    assert names == [*X.columns]
    expected = X.copy()
    expected.iloc[-1, 1] = np.nan
    np.testing.assert_allclose(values, expected)


def test_lines_of_questions_below_the_header_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.assign(response=[f"R_{i}" for i in range(M)]).to_csv("plain.csv")
    lines = (tmp_path / "plain.csv").read_text().splitlines()
    lines[1:1] = [",".join(f'"How, {i} {n}"' for n in range(8)) for i in ("much", "often")]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    sentence = refusal("x.csv")
    assert "in lines 2 and 3 in 6 numeric columns" in sentence
    edited(sentence)
    assert (tmp_path / "NEW").read_text() == (tmp_path / "plain.csv").read_text()


def test_a_line_of_names_of_rows_is_no_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = X.copy()
    table.columns = pd.MultiIndex.from_tuples([("a", name) for name in X.columns])
    table.to_csv("x.csv")
    edited(refusal("x.csv"))
    (tmp_path / "NEW").rename("half.csv")
    edited(refusal("half.csv"))
    values, names = features_of("NEW")
    assert names == [*X.columns]
    np.testing.assert_allclose(values, X)


DRAWN = {"psql": (" {} ", " | ", "-", "+"), "markdown": ("| {} |", " | ", "|", "|")}


@pytest.mark.parametrize("kind", DRAWN)
def test_a_table_that_a_program_drew_is_read_after_the_command(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    around, between, end, cross = DRAWN[kind]
    table = X.round(3).astype(object)
    table.iloc[4, 5] = ""
    lines = [line.replace(",", between) for line in table.to_csv().splitlines()]
    lines = [around.format(line) for line in lines]
    lines.insert(1, end + cross.join(["------"] * 7) + end)
    (tmp_path / "x.txt").write_text("\n".join([*lines, f"({M} rows)" * (kind == "psql"), ""]))
    edited(refusal("x.txt"))
    expected = X.round(3)
    expected.iloc[4, 5] = np.nan
    np.testing.assert_allclose(features_of("NEW")[0], expected)
    assert dhsic.open_source("NEW").sample_names().tolist() == NAMES


def test_merged_cells_are_filled_down(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arms = ["case", *[""] * 11, "control", *[""] * 11]
    X.assign(arm=arms).to_csv("x.csv")
    sentence = refused("test", "x.csv", "--target", "arm")
    assert "like the merged cells of a workbook" in sentence
    followed(sentence)
    said = run("test", "NEW.csv", "--target", "arm", "-n", 2).stderr
    assert "2 classes case (12), control (12)" in said


def test_numbers_that_name_features_are_called_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    turned = X.T.set_axis(range(400, 412, 2)).rename_axis("Wavelength, nm")
    turned.to_csv("x.csv")
    edited(refusal("x.csv", sample_dim=1))
    values, names = features_of("NEW", sample_dim=1)
    assert names == [str(n) for n in range(400, 412, 2)]
    np.testing.assert_allclose(values, X)


@pytest.mark.parametrize("separator", ["\t", ",", ";"])
def test_names_of_features_that_repeat_are_made_unique_and_stay(separator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    turned = X.T.set_axis(["G1", "G2", "G1", "", "G4", ""]).rename_axis("gene")
    turned.to_csv("x.tsv", sep=separator)
    sentence = refusal("x.tsv", sample_dim=1)
    assert "not_features" not in sentence
    assert refusal("x.tsv", sample_dim=1, not_features=["gene"]) == sentence
    followed(sentence)
    values, names = features_of("NEW.csv", sample_dim=1, not_features=["gene"])
    assert names == ["G1", "G2", "G1.1", "", "G4", "unnamed.1"]  # are not lost
    np.testing.assert_allclose(values, X)


@pytest.mark.parametrize("kind", ["percent", "years", "pressure"])
def test_labels_with_units_that_samples_share_are_measured(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.to_csv("x.csv")
    numbers = np.arange(M) // 2 + 40
    write = {"percent": "{}%", "years": "{}y", "pressure": "{}/70"}[kind].format
    pd.DataFrame({"id": NAMES, "y": map(write, numbers)}).to_csv("y.csv", index=False)
    followed(refused("test", "x.csv", "--labels", "y.csv", "--target", "y"))
    assert pd.read_csv("NEW.csv")["y"].tolist() == numbers.tolist()


def test_an_archive_of_a_table_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.to_csv("t.csv")
    with zipfile.ZipFile("t.csv.zip", "w") as archive:
        archive.write("t.csv")
    sentence = refusal("t.csv.zip")
    assert sentence.endswith("Unpack it and pass t.csv: unzip t.csv.zip")
    (tmp_path / "t.csv").unlink()
    zipfile.main(["-e", "t.csv.zip", "."])  # unzip is not everywhere
    np.testing.assert_allclose(features_of("t.csv")[0], X)


@pytest.mark.parametrize(("name", "format_name"), [("t.sav", "SPSS"), ("t.xlsx", "Excel")])
def test_tables_of_other_programs_get_the_command_of_pandas(name, format_name, tmp_path):
    (tmp_path / name).write_bytes(b"PK\3\4\0\0\0\1")
    sentence = refusal(tmp_path / name)
    assert f"is a file in {format_name} format, which dhsic does not read" in sentence
    code = re.search(r'python -c "([^"]*)"', sentence)[1]
    written = []

    class Reader:
        @staticmethod
        def to_csv(path, **options):
            written.append((path, options))

    known = {"read_spss", "read_excel"}
    fake = type("pandas", (), {reader: staticmethod(lambda path: Reader) for reader in known})
    exec(code.replace("import pandas as p; ", ""), {"p": fake})
    assert written == [("NEW.csv", {"index": False})]
    assert all(hasattr(pd, reader) for reader in known)


@pytest.mark.parametrize(
    ("suffix", "command"),
    [(".ped", "plink2 --pedmap"), (".tfam", "plink --tfile"), (".tped", "plink --tfile"),
     (".lgen", "plink --lfile"), ("", "plink --tfile")],
)  # fmt: skip
def test_text_filesets_of_plink_get_the_command_of_plink(suffix, command, tmp_path):
    stem = tmp_path / "my file"
    Path(f"{stem}{suffix or '.tped'}").write_text("f1 s1 0 0 1 1 A A A G\n")
    sentence = refusal(f"{stem}{suffix}")
    assert "is a file in PLINK text format, which dhsic does not read" in sentence
    assert f"{command} '{stem}' --make-bed --out '{stem}'" in sentence


def test_text_of_numbers_is_no_label(rng):
    y = [f"{value:.2f}" for value in rng.normal(size=120)]
    with pytest.raises(InputError, match="are numbers as text") as caught:
        dhsic.select(rng.normal(size=(120, 5)), y, n_features_to_select=2)
    expression = re.search(r"as numbers: pass (.*?)\. If", str(caught.value))[1]
    numbers = eval(expression, {"pandas": pd, "y": y})
    found = dhsic.test_features(np.column_stack([rng.normal(size=(120, 5)), numbers]), numbers)
    assert found.p_values.argmin() == 5
