"""Ids that are the same but for how they are written: sentences, and what they say to do."""

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
from dhsic.sources.likeness import (
    _CHANGES,
    difference,
    lengthening,
    renaming,
    renaming_expression,
)

M = 60
COUNTED = [str(i + 1) for i in range(M)]
ZEROS = [f"{i + 1:03d}" for i in range(M)]
THOUSAND = [str(1001 + i) for i in range(M)]
#: Names of the data, and of a table.
WRITTEN = {
    "zeros in the table": (COUNTED, ZEROS),
    "zeros in the data": (ZEROS, COUNTED),
    "zeros after a letter": ([f"P{i}" for i in range(M)], [f"P{i:04d}" for i in range(M)]),
    "zeros after a letter of the data": (
        [f"P{i:04d}" for i in range(M)],
        [f"P{i}" for i in range(M)],
    ),
    "fractions in the table": (THOUSAND, [f"{n}.0" for n in THOUSAND]),
    "fractions in the data": ([f"{n}.0" for n in THOUSAND], THOUSAND),
    "capitals": ([f"pat{i}" for i in range(M)], [f"PAT{i}" for i in range(M)]),
    "signs": ([f"P.{i}" for i in range(M)], [f"P-{i}" for i in range(M)]),
    "an X of R": ([f"X{n}" for n in THOUSAND], THOUSAND),
    "an X in the table": (THOUSAND, [f"X{n}" for n in THOUSAND]),
    "a family": ([f"P{i}" for i in range(M)], [f"F{i % 7}_P{i}" for i in range(M)]),
    "files": ([f"P{i}" for i in range(M)], [f"/data/P{i}.sorted.bam" for i in range(M)]),
    "files in the data": (
        [f"/bam/P{i:02d}.bam" for i in range(M)],
        [f"P{i:02d}" for i in range(M)],
    ),
    "blanks in the data": ([f"P {i}" for i in range(M)], [f"P{i}" for i in range(M)]),
    "some with blanks": (
        [f"P {i}" for i in range(M)],
        [f"P{i}" if i % 3 else f"P\u00a0{i} " for i in range(M)],
    ),
    "some with zeros": (COUNTED, COUNTED[:30] + ZEROS[30:]),
}


def drawn(rng):
    y = rng.integers(0, 2, M)
    X = rng.standard_normal((M, 5)).round(3)
    X[:, 2] += 3 * y
    return X, np.where(y, "ill", "well")


@pytest.mark.parametrize("head", ["sample,ill", "# of today\nill;#IID", "ill\tsubject_id"])
@pytest.mark.parametrize("name", WRITTEN)
def test_ids_written_otherwise_are_made_the_same_by_the_command(
    name, head, rng, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    ours, theirs = WRITTEN[name]
    X, y = drawn(rng)
    order = rng.permutation(M)
    pd.DataFrame(X, index=pd.Index(ours, name="sample")).add_prefix("g").to_csv("x.csv")
    separator = re.search(r"[,;\t]", head)[0]
    rows = [{"ill": y[i], "id": theirs[i]} for i in order]
    first_is_id = not head.split("\n")[-1].startswith("ill")
    keys = ("id", "ill") if first_is_id else ("ill", "id")
    lines = [head, *(separator.join(row[key] for key in keys) for row in rows)]
    (tmp_path / "my labels.csv").write_text("\n".join(lines) + "\n")
    command = ("test", "x.csv", "--target", "ill", "-n", "1", "--labels")
    said = run(*command, "my labels.csv", code=2).stderr
    said = " ".join(said.split(" ")).replace("\n", " ")
    assert "differ only in" in said
    assert "--by-position" not in said
    remedy = re.search(r'(python -c ".*")\. Then pass NEW\.tsv', said)[1]
    remedy = remedy.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    subprocess.run(["bash", "-c", remedy.replace("DATA", "x.csv")], check=True)
    assert "g2" in run(*command, "NEW.tsv").stdout


@pytest.mark.parametrize("name", WRITTEN)
def test_ids_written_otherwise_are_made_the_same_in_python(name, rng):
    ours, theirs = WRITTEN[name]
    X, y = drawn(rng)
    data = pd.DataFrame(X, index=ours)
    more = {"n_features_to_select": 1, "progress": False}
    best = dhsic.select(data, pd.Series(y, index=ours), **more)["rank"].values
    order = rng.permutation(M)
    names = {"pd": pd, "X": data, "y": pd.DataFrame({"sample": theirs, "ill": y}).iloc[order]}
    with pytest.raises(dhsic.InputError, match="differ only in") as told:
        dhsic.select(data, names["y"], **more)
    exec(
        re.search(r"the same: (.*y\['sample'\] = \[.*?astype\(str\)\])", str(told.value))[1],
        names,
    )
    np.testing.assert_array_equal(dhsic.select(data, names["y"], **more)["rank"].values, best)
    names = {"X": data, "y": pd.Series(y, index=theirs)}
    with pytest.raises(dhsic.InputError, match="differ only in") as told:
        dhsic.select(data, names["y"], **more)
    exec(
        re.search(r"the names the same: (.*y\.index = \[.*?astype\(str\)\])", str(told.value))[1],
        names,
    )
    np.testing.assert_array_equal(dhsic.select(data, names["y"], **more)["rank"].values, best)
    data = xr.DataArray(X, dims=("sample", "gene"), coords={"sample": ours})
    names = {"X": data, "y": xr.DataArray(y, dims="sample", coords={"sample": theirs})}
    with pytest.raises(dhsic.InputError, match="differ only in") as told:
        dhsic.select(data, names["y"], **more)
    exec(re.search(r"the names the same: (.*?)\. Otherwise", str(told.value))[1], names)
    np.testing.assert_array_equal(dhsic.select(data, names["y"], **more)["rank"].values, best)


PATIENTS = [f"TCGA-{'A1' if i % 2 else 'BH'}-{4000 + 7 * i}" for i in range(M)]
ALIQUOTS = [f"{p}-01A-{11 + i % 3}R-A{100 + i}-07" for i, p in enumerate(PATIENTS)]


#: Names of the data, of a table, and the part by which they differ.
LONGER = {
    "aliquots": (ALIQUOTS, PATIENTS, "parts at the end"),
    "patients": (PATIENTS, ALIQUOTS, "parts at the end"),
    "families": (
        [f"F{i % 7}_P_{i}" for i in range(M)],
        [f"P_{i}" for i in range(M)],
        "the part before",
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "way"), LONGER.values(), ids=LONGER)
def test_longer_names_are_joined_by_the_remedies(ours, theirs, way, rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = drawn(rng)
    order = rng.permutation(M)
    data = pd.DataFrame(X, index=pd.Index(ours, name="sample")).add_prefix("g")
    data.to_csv("x.csv")
    table = pd.DataFrame({"bcr_patient_barcode": theirs, "ill": y}).iloc[order]
    table.to_csv("l.csv", index=False)
    command = ("test", "x.csv", "--target", "ill", "-n", "1", "--labels")
    said = " ".join(run(*command, "l.csv", code=2).stderr.split())
    assert f"differ only in {way}" in said
    remedy = re.search(r'(python -c ".*")\. Then pass NEW\.tsv', said)[1]
    remedy = remedy.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    subprocess.run(["bash", "-c", remedy.replace("DATA", "x.csv")], check=True)
    assert pd.read_csv("NEW.tsv", sep="\t")["bcr_patient_barcode"].tolist() == list(
        np.array(ours)[order]
    )
    assert "g2" in run(*command, "NEW.tsv").stdout
    more = {"n_features_to_select": 1, "progress": False}
    best = dhsic.select(data, pd.Series(y, index=ours), **more)["rank"].values
    for labels, where in (
        (table, r"y\['bcr_patient_barcode'\]"),
        (pd.Series(y, theirs), "y.index"),
    ):
        names = {"X": data, "y": labels}
        with pytest.raises(dhsic.InputError, match=f"differ only in {way}") as told:
            dhsic.select(data, labels, **more)
        exec(re.search(rf"the same: (.*{where} = \[.*?\)\])", str(told.value))[1], names)
        np.testing.assert_array_equal(dhsic.select(data, names["y"], **more)["rank"].values, best)


def test_samples_that_differ_only_in_blanks_are_not_dropped(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = drawn(rng)
    pd.DataFrame(X, pd.Index([f"P {i}" for i in range(M)], name="id")).add_prefix("g").to_csv(
        "x.csv"
    )
    ids = [f"P{i}" if i % 3 else f"P {i}" for i in range(M - 1)]
    pd.DataFrame({"id": ids, "ill": y[:-1]}).to_csv("l.csv", index=False)
    command = ("test", "x.csv", "--target", "ill", "-n", "1", "--labels")
    said = " ".join(run(*command, "l.csv", code=2).stderr.split())
    assert "--drop-missing" not in said
    refused = run(*command, "l.csv", "--drop-missing", code=2).stderr
    assert "39 of these names differ only in spaces" in " ".join(refused.split())
    remedy = re.search(r'python( -c ".*")\. Then pass NEW\.tsv', said)[1].replace("DATA", "x.csv")
    subprocess.run(["bash", "-c", shlex.quote(sys.executable) + remedy], check=True)
    assert "--drop-missing" in " ".join(run(*command, "NEW.tsv", code=2).stderr.split())
    assert "g2" in run(*command, "NEW.tsv", "--drop-missing").stdout


def test_the_note_on_ignored_rows_tells_names_that_differ_only_in_case(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = drawn(rng)
    names = pd.Index([f"P{i}" for i in range(M)], name="id")
    pd.DataFrame(X, names).add_prefix("g").to_csv("x.csv")
    pd.DataFrame({"id": [*names[:-3], "p1x", f"p{M - 2}"], "ill": y[:-1]}).to_csv(
        "l.csv", index=False
    )
    said = run("test", "x.csv", "--labels", "l.csv", "--target", "ill", "--drop-missing").stderr
    said = " ".join(said.split())
    assert "1 ignored name differs only in upper and lower case: for example, " in said
    assert f"'p{M - 2}' is 'P{M - 2}' in the data;" in said


def test_patients_of_several_samples_have_no_rule():
    twice = [f"{p}-{kind}" for p in PATIENTS for kind in ("01A", "11A")]
    assert lengthening(PATIENTS, twice) == ("", 0)


@pytest.mark.parametrize("expression", _CHANGES)
def test_expressions_do_what_they_say(expression):
    for s in ("007", "P-01_2", "X12.0", "/a/b_c.bam", "a  b", "F1_I2", ""):
        assert eval(expression, {"re": re, "s": s}) == _CHANGES[expression](s)


def test_changes_that_make_two_names_one_are_not_proposed():
    assert renaming(["01", "1"], ["1", "2"]) == ("", 0)
    assert renaming(["P-1", "P_1"], ["P.1", "P.2"]) == ("", 0)


def test_names_that_are_part_of_several_names_get_no_affix():
    patients = [f"P-{i}" for i in range(20)]
    pairs = [f"{name}-{kind}" for name in patients for kind in ("01A", "11A")]
    assert renaming_expression(patients, pairs, "X") == ("", "")
    assert "'P-0' is a part of several names" in difference(patients, pairs)[0]
    members = [f"F{i // 2}_{i % 2 + 1}" for i in range(20)]
    assert renaming_expression(["1", "2"] * 10, members, "X") == ("", "")
    assert "so full names are needed" in difference(["1", "2"] * 10, members)[0]


def test_the_rule_that_matches_more_names_is_advised():
    names = [f"T-{i:03d}" for i in range(40)]
    ours = [f"{name}-{'06A' if i % 9 == 0 else '01A'}" for i, name in enumerate(names)]
    shuffled = names[1:] + names[:1]  # the first one has the more frequent end
    change, setup = renaming_expression(shuffled, ours, "X")
    assert change == "names.get(s, s)"
    assert "n.split('-')" in setup


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("SAMPLE{0:03d}XY{1}", "SAMPLE{0:03d}"),
        ("SAMPLE{0:03d}", "SAMPLE{0:03d}XY{1}"),
        ("TCGA-{0:03d}-01A", "TCGA-{0:03d}"),
        ("{0:05d}_{1}_long_name", "{0:05d}_{1}_lo"),
        ("chip{1}_{0:05d}", "{0:05d}"),
    ],
)
def test_names_that_are_parts_of_others_are_not_matched_by_position(
    ours, theirs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    m = 60
    X = rng.normal(size=(m, 8)).round(3)
    names = [form.format(7 * i, i % 5) for form in (ours, theirs) for i in range(m)]
    pd.DataFrame(X, pd.Index(names[:m], name="id")).add_prefix("g").to_csv("x.csv")
    order = rng.permutation(m)
    labels = pd.DataFrame({"id": names[m:], "y": X[:, 5] + 0.1 * rng.normal(size=60)}).iloc[order]
    labels.to_csv("l.csv", index=False)
    words = ("test", "x.csv", "--target", "y", "--labels")
    said = " ".join(run(*words, "l.csv", code=2).stderr.split())
    assert "position" not in said
    command = re.search(r'python( -c ".*?to_csv.*?")', said)[1].replace("DATA", "x.csv")
    subprocess.run(["bash", "-c", shlex.quote(sys.executable) + command], check=True)
    assert re.search(r"\n +1 +(\S+) ", run(*words, "NEW.tsv").output)[1] == "g5"
    frame = pd.DataFrame(X, names[:m])
    with pytest.raises(dhsic.InputError) as error:
        dhsic.test_features(frame, labels.set_index("id")["y"])
    assert "by_position" not in str(error.value)


def test_names_that_have_nothing_in_common_may_be_matched_by_position(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 8)).round(3)
    pd.DataFrame(X, pd.Index([f"GSM{i}" for i in range(60)], name="id")).add_prefix("g").to_csv(
        "x.csv"
    )
    pd.DataFrame(
        {"id": [f"patient {i}" for i in range(60)], "y": X[:, 5] + 0.1 * rng.normal(size=60)}
    ).to_csv("l.csv", index=False)
    words = ("test", "x.csv", "--target", "y", "--labels", "l.csv")
    said = " ".join(run(*words, code=2).stderr.split())
    assert "pass --by-position if the rows are in the order of the data" in said
    assert re.search(r"\n +1 +(\S+) ", run(*words, "--by-position").output)[1] == "g5"
