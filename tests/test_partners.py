"""Columns that refer to other features: by positions in the data, also with filters; by names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from commands import run

import dhsic

M, D, GONE = 300, 60, 10


@pytest.fixture(scope="module")
def frame():
    """Features of which 50 is a copy of 20 with noise, and labels that depend on 20 and 30."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((M, D))
    X[:, 50] = X[:, 20] + 0.05 * rng.standard_normal(M)
    y = X[:, 20] + X[:, 30] + 1.5 * X[:, 40] * X[:, 45] + 0.5 * rng.standard_normal(M)
    return pd.DataFrame(X, columns=[f"g{j}" for j in range(D)]), y


@pytest.mark.parametrize("n_excluded", [0, GONE])
def test_partners_are_positions_in_the_data(frame, tmp_path, n_excluded):
    X, y = frame
    excluded = [f"g{j}" for j in range(n_excluded)]
    filters = dhsic.Filters(exclude=excluded) if excluded else None
    result = dhsic.select(X, y, clump_r2=0.8, n_features_to_select=6, filters=filters)
    dhsic.save(result, tmp_path / "all.tsv")
    table = pd.read_csv(tmp_path / "all.tsv", sep="\t").set_index("name")
    named = dict(zip(table["index"], table.index, strict=True)) | {-1: ""}
    copies = {"g20", "g50"}
    (behind,) = table.index[table["clumped_by"] >= 0]
    assert behind in copies
    assert {behind, named[table["clumped_by"][behind]]} == copies
    assert named[table["pair_with"]["g40"]] == "g45"
    assert named[table["pair_with"]["g45"]] == "g40"


def test_the_terminal_and_the_report_name_partners(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = frame
    X.assign(y=y).rename_axis("id").reset_index().assign(id=[f"s{i}" for i in range(M)]).to_csv(
        "x.csv", index=False
    )
    (tmp_path / "gone.txt").write_text("\n".join(f"g{j}" for j in range(GONE)))
    words = ("x.csv", "--target", "y", "-n", 6, "--exclude", "gone.txt", "--out", "s.zarr")
    shown = run("select", *words).stdout.splitlines()
    assert shown[0].split()[-1] == "pair_with"
    last = {line.split()[1]: line.split()[-1] for line in shown if len(line.split()) > 2}
    assert (last["g40"], last["g45"]) == ("g45", "g40")
    run("report", "s.zarr", "-o", "s.html")
    page = (tmp_path / "s.html").read_text()
    rows = [row.split("</tr>")[0] for row in page.split("<tr")]
    of_both = [row for row in rows if ">g40<" in row and ">g45<" in row]
    assert len(of_both) == 3  # of the pair, and of each of its features
