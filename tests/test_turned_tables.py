"""Labels that are a row of a table, because its columns are samples: the remedy is followed."""

import re
import shlex
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run, told
from stores import write_anndata, write_frame

import dhsic
from dhsic.errors import InputError

M, D = 40, 6


@pytest.fixture
def table(rng):
    """Samples in rows: six features, an age that follows the third, and a class that it gives."""
    X = rng.normal(size=(M, D)).round(3)
    names = pd.Index([f"s{i}" for i in range(M)], name="id")
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(D)], index=names)
    frame.insert(0, "status", np.where(X[:, 2] > 0, "case", "control"))
    return frame.assign(age=(50 + 9 * X[:, 2] + rng.normal(0, 3, M)).round())


def turned(frame):
    return frame.T.rename_axis(index="gene", columns=None)


def following(message, folder):
    """Run the Python command of a message in a folder, and return the path that it writes."""
    command = re.search(r'python -c ".*?"(?=,|$)', message)[0]
    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True, cwd=folder)
    return folder / re.search(r"then pass (NEW\.\w+)", message)[1]


def best(path, *words, target="status"):
    result = path.parent / "r.tsv"
    run("test", path, *words, "--target", target, "--no-progress", "--out", result, "--force")
    return pd.read_csv(result, sep="\t").iloc[0]["name"]


@pytest.mark.parametrize("target", ["status", "age"])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_target_that_is_a_row_is_found_with_the_option_of_the_sentence(
    target, separator, table, tmp_path
):
    path = tmp_path / "t.csv"
    others = {"status", "age"} - {target}
    turned(table.drop(columns=[*others])).to_csv(path, sep=separator)
    said = told(run("test", path, "--target", target, code=2))
    assert f"A row is named {target!r}, so the columns seem to be samples" in said
    option, flag = re.search(r"pass (--sample-dim 1) \((--transpose)\)", said).groups()
    assert best(path, *option.split(), target=target) == "g2"
    assert best(path, flag, target=target) == "g2"
    with pytest.raises(InputError, match=r"pass sample_dim=1 \(--transpose\)"):
        dhsic.select(path, target, progress=False)


def test_a_name_that_is_nowhere_gets_no_hint_at_rows(table, tmp_path):
    path = tmp_path / "t.csv"
    turned(table).to_csv(path)
    said = told(run("test", path, "--target", "stage", code=2))
    assert "has no column 'stage'" in said
    assert "row" not in said
    with pytest.raises(InputError, match="no column 'stage'") as refused:
        dhsic.select(turned(table), "stage", progress=False)
    assert "row" not in str(refused.value)


@pytest.mark.parametrize(
    ("suffix", "is_index"), [("parquet", False), ("parquet", True), ("feather", False)]
)
def test_a_row_of_parquet_is_found_after_the_command(suffix, is_index, table, tmp_path):
    path = tmp_path / f"t.{suffix}"
    frame = turned(table.drop(columns="status"))
    frame = frame if is_index else frame.reset_index()
    getattr(frame, f"to_{suffix}")(path)
    said = told(run("test", path, "--target", "age", code=2))
    assert best(following(said, tmp_path), target="age") == "g2"


@pytest.mark.parametrize("is_index", [False, True])
def test_a_row_of_a_frame_is_found_after_the_statement(is_index, table):
    X = turned(table.drop(columns="status"))
    X = X if is_index else X.reset_index()
    with pytest.raises(InputError, match="A row is named 'age'") as refused:
        dhsic.select(X, "age", progress=False)
    scope = {"X": X}
    exec(re.search(r"(X = X.*\.T)\.$", str(refused.value))[1], scope)
    result = dhsic.select(scope["X"], "age", n_features_to_select=1, progress=False)
    assert str(result["feature"][result["selected"].to_numpy()].item()) == "g2"


@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_table_of_labels_with_samples_in_columns_is_turned_by_the_command(
    separator, table, tmp_path
):
    data, labels = tmp_path / "data.csv", tmp_path / "labels.csv"
    table.drop(columns=["status", "age"]).to_csv(data)
    turned(table[["status", "age"]]).to_csv(labels, sep=separator)
    said = told(run("test", data, "--labels", labels, "--target", "status", code=2))
    assert "Columns of" in said
    assert "are samples of the data (s0, s1, s2, ... (40 in all))" in said
    assert best(data, "--labels", following(said, tmp_path)) == "g2"


def test_labels_in_a_row_are_no_line_of_units(table, tmp_path):
    path = tmp_path / "t.csv"
    turned(table.drop(columns="age")).to_csv(path)
    said = told(run("inspect", path, code=2))
    options = re.search(r"pass (--sample-dim 1) \(--transpose\) and (--not-feature status)", said)
    words = " ".join(options.groups()).split()
    assert "40 samples x 6 features" in run("inspect", path, *words).output
    assert best(path, *words) == "g2"


@pytest.mark.parametrize("name", ["", "unit"])
def test_units_that_differ_are_no_labels(name, rng, tmp_path):
    path = tmp_path / "t.csv"
    rows = [",".join([f"s{i}", *map(str, x)]) for i, x in enumerate(rng.normal(size=(M, 4)))]
    path.write_text("\n".join(["id,a,b,c,d", f"{name},kg,m,mm,s", *rows]) + "\n")
    said = told(run("inspect", path, code=2))
    assert "Remove that line: sed 2d" in said
    assert "transpose" not in said


def test_counts_of_reads_outside_genes_are_left_out(table, tmp_path):
    genes = table.drop(columns=["status", "age"])
    counts = genes.assign(__no_feature=table["age"], N_ambiguous=3 * table["age"])
    turned(counts).to_csv(tmp_path / "htseq.tsv", sep="\t")
    counts.reset_index().to_parquet(tmp_path / "htseq.parquet")
    group = write_anndata(tmp_path / "htseq.zarr", counts.to_numpy())
    del group["var"]
    write_frame(group, "var", [*counts.columns])
    sentence = r"reads outside genes \('N_ambiguous', '__no_feature'\), as htseq-count and STAR"
    for X, options in (
        (tmp_path / "htseq.tsv", {"sample_dim": 1}),
        (tmp_path / "htseq.parquet", {}),
        (tmp_path / "htseq.zarr", {"not_features": ["__no_feature"]}),
        (counts, {}),
    ):
        with pytest.warns(UserWarning, match=sentence):
            source = dhsic.open_source(X, **options)
        assert source.feature_names().tolist() == genes.columns.tolist()
        assert source.not_features[:2] == ("N_ambiguous", "__no_feature")
    table[["age"]].to_csv(tmp_path / "y.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = run("test", tmp_path / "htseq.tsv", "--transpose", "--labels",
                     tmp_path / "y.csv", "--target", "age", "--no-progress")  # fmt: skip
    said = " ".join(result.output.split())
    assert said.count("reads outside genes") == 1
    assert "6 features, float64; not features: N_ambiguous, __no_feature" in said
