"""Lists of selected features (.snplist), for --extract of dhsic and PLINK."""

from __future__ import annotations

import shutil
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run, told
from stores import write, write_vcz

import dhsic


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("lists") / "x.vcz", np.random.default_rng(3)
    calls = rng.integers(0, 2, (30, 200, 2)).astype("i1")
    group = write_vcz(path, calls, n_alleles=2)
    write(group, "sample_trait", calls[[4, 9]].sum(axis=(0, 2)) * 1.0, ("samples",))
    return path


@pytest.mark.filterwarnings("default")
def test_the_command_line_lists_the_selected_features_best_first(store, tmp_path):
    out, where = tmp_path / "best.snplist", ("--target", "sample_trait", "-n", 2)
    done = run("select", store, *where, "--out", out)
    table = pd.DataFrame(dhsic.select(str(store), "sample_trait", n_features_to_select=2)
                         .dhsic.table(2))  # fmt: skip
    assert out.read_text().splitlines() == table["id"].tolist()
    assert set(table["id"]) == {"rs4", "rs9"}
    assert "list of selected features in" in told(done)
    again = told(run("select", store, *where, "--extract", out))
    assert "2 features" in again


def test_plink_extracts_the_listed_variants(tmp_path, rng):
    if shutil.which("plink2") is None:
        pytest.skip("plink2 is not installed")
    m = 60
    (tmp_path / "x.fam").write_text("".join(f"0 i{i} 0 0 0 -9\n" for i in range(m)))
    (tmp_path / "x.bim").write_text("".join(f"1 v{j} 0 {j + 1} A G\n" for j in range(8)))
    columns = rng.integers(0, 256, (8, 15)).astype("u1")
    (tmp_path / "x.bed").write_bytes(b"\x6c\x1b\x01" + columns.tobytes())
    result = dhsic.select(str(tmp_path / "x.bed"), rng.standard_normal(m), n_features_to_select=3)
    dhsic.save(result, tmp_path / "best.snplist")
    listed = (tmp_path / "best.snplist").read_text().split()
    words = ("--bfile", tmp_path / "x", "--extract", tmp_path / "best.snplist")
    subprocess.run(["plink2", *words, "--write-snplist", "--out", tmp_path / "o"], check=True,
                   capture_output=True)  # fmt: skip
    assert sorted((tmp_path / "o.snplist").read_text().split()) == sorted(listed)
    assert len(listed) == 3


def chosen(names, ids=None):
    """A result of four features, of which the first two are selected."""
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 4)), columns=names)
    result = dhsic.select(frame, frame.iloc[:, 0] + frame.iloc[:, 1], n_features_to_select=2)
    places = {} if ids is None else {"variant_id": ("features", np.array(ids, dtype=object))}
    return result.assign_coords(places)


def test_variants_without_an_id_are_listed_by_name(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhsic.save(chosen(list("abcd"), ["rs1", ".", "rs3", "."]), tmp_path / "x.snplist")
    assert sorted((tmp_path / "x.snplist").read_text().splitlines()) == ["b", "rs1"]
    dhsic.save(dhsic.selected_features(chosen(list("abcd"))), tmp_path / "y.snplist")
    assert sorted((tmp_path / "y.snplist").read_text().splitlines()) == ["a", "b"]


@pytest.mark.parametrize(
    ("names", "ids", "sentence"),
    [
        (
            list("abcd"),
            ["rs1", "rs2", "rs1", "rs4"],
            r"not selected share an id with a selected feature \(1 in",
        ),
        (["a b", "b", "c", "d"], None, r"Some names in the list contain blanks \(a b\)"),
    ],
)
def test_lists_by_which_other_features_are_selected_are_told(names, ids, sentence, tmp_path):
    with pytest.warns(UserWarning, match=sentence):
        dhsic.save(chosen(names, ids), tmp_path / "x.snplist")
    dhsic.save(chosen(names, ids), tmp_path / "x.tsv", selected_only=True)  # as it advises
    assert len(pd.read_csv(tmp_path / "x.tsv", sep="\t")) == 2


def test_an_empty_list_is_told(tmp_path):
    result = chosen(list("abcd"))
    none = result.assign(selected=result["selected"] & False)
    with pytest.warns(UserWarning, match="No feature is selected"):
        dhsic.save(none, tmp_path / "x.snplist")
    assert not (tmp_path / "x.snplist").read_text()
