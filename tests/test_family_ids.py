"""Family ids of tables that differ from those of PLINK data, whose IIDs are the same."""

import re

import numpy as np
import pandas as pd
import pytest
from commands import run
from stores import write_plink

import dhsic
from dhsic.errors import InputError

M, D = 60, 12


@pytest.fixture
def data(tmp_path, rng):
    """PLINK files of family A with IIDs 1, 2, ..., and labels that follow variant 3."""
    X = rng.integers(0, 3, (M, D))
    iids = [str(i + 1) for i in range(M)]
    path = write_plink(tmp_path / "x", X, families=["A"] * M, samples=iids)
    return path, pd.DataFrame({"FID": "A", "IID": iids, "y": X[:, 3] + rng.normal(0, 0.3, M)})


@pytest.mark.parametrize("option", ["--labels", "--covariates"])
@pytest.mark.parametrize("others", [range(M), range(20, 30)])
def test_samples_of_another_family_are_refused_and_the_remedy_works(option, others, data, tmp_path):
    path, labels = data
    labels.to_csv(tmp_path / "y.txt", sep="\t", index=False)
    labels.iloc[[*others], 0] = "B"
    table = labels.rename(columns={"y": "age"}) if option == "--covariates" else labels
    table.to_csv(tmp_path / "others.txt", sep="\t", index=False)
    words = ["test", path, "--target", "y", "-n", "1", option, tmp_path / "others.txt"]
    if option == "--covariates":
        words += ["--labels", tmp_path / "y.txt"]

    said = " ".join(run(*words, code=2).stderr.split())

    assert f"the FID of {len(others)} of {M} samples differs from that in the data" in said
    assert f"IID {others[0] + 1} has FID B in the table and A in the data" in said
    if option == "--labels":
        remedy = re.search(r"pass (--sample-column \w+)", said)[1]
        assert "rs3" in run(*words, *remedy.split()).stdout


@pytest.mark.parametrize("fids", ["0", "own"])
def test_tables_without_families_are_matched_by_iid(fids, data, tmp_path):
    path, labels = data
    labels["FID"] = labels["IID"] if fids == "own" else "0"
    labels.sample(frac=1, random_state=0).to_csv(tmp_path / "y.txt", sep="\t", index=False)
    found = run("test", path, "--target", "y", "-n", "1", "--labels", tmp_path / "y.txt")
    assert "rs3" in found.stdout


def test_frames_with_other_families_are_refused(data):
    path, labels = data
    found = dhsic.test_features(path, labels[["FID", "IID", "y"]].sample(frac=1, random_state=0))
    assert np.argmin(found.p_values) == 3
    with pytest.raises(InputError, match=rf"{M} of {M} samples .* drop the column FID to match"):
        dhsic.test_features(path, labels.assign(FID="B"))
    assert np.argmin(dhsic.test_features(path, labels.drop(columns="FID")).p_values) == 3


def test_family_ids_that_are_the_iids_of_others_are_refused(tmp_path, rng):
    X = rng.integers(0, 3, (M, D))
    iids = np.array([f"P{i}" for i in range(M)])
    fids = np.roll(iids, 7)
    path = write_plink(tmp_path / "x", X, families=[*fids], samples=[*iids])
    y = X[:, 3] + rng.normal(0, 0.3, M)
    table = pd.DataFrame({"FID": fids, "y": y})
    table.to_csv(tmp_path / "y.csv", index=False)
    words = ["test", path, "--target", "y", "-n", "1", "--labels", tmp_path / "y.csv"]

    said = " ".join(run(*words, code=2).stderr.split())

    assert "is the IID of one sample and the FID of another" in said
    assert "Rename the column: to IID if it contains the IIDs, or add a column IID." in said
    table.assign(IID=iids).rename(columns={"FID": "family"}).to_csv(tmp_path / "y.csv", index=False)
    assert "rs3 " in run(*words, "--sample-column", "IID").stdout
    pd.DataFrame({"IID": iids, "y": y}).to_csv(tmp_path / "y.csv", index=False)
    assert "rs3 " in run(*words).stdout


def test_families_of_one_that_equal_the_iid_are_matched(tmp_path, rng):
    X = rng.integers(0, 3, (M, D))
    iids = [f"P{i}" for i in range(M)]
    path = write_plink(tmp_path / "x", X, families=iids, samples=iids)
    y = X[:, 3] + rng.normal(0, 0.3, M)
    pd.DataFrame({"FID": iids, "y": y})[::-1].to_csv(tmp_path / "y.csv", index=False)
    assert (
        "rs3 "
        in run("test", path, "--target", "y", "-n", "1", "--labels", tmp_path / "y.csv").stdout
    )
