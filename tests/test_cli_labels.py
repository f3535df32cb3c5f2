"""Labels and covariates of `dhsic select`: from the store, or from tables of any order."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import QUICK, SIMULATE, M, run, selected, told

import dhsic
from dhsic.sources.ids import NA


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "g.vcz"
    run("simulate", path, *SIMULATE)
    return path


@pytest.fixture
def table(store, tmp_path):
    """Labels by sample name in another order than the store's, with NA and a covariate."""
    group = zarr.open_group(store, mode="r")
    frame = pd.DataFrame(
        {
            "name": group["sample_id"][:].astype(object),
            "trait": np.where(group["sample_trait"][:] == 1, "case", "control"),
            "age": np.linspace(30, 70, M).round(1).astype(str),
        }
    )
    path = tmp_path / "labels.tsv"
    shuffled = frame.sample(frac=1, random_state=1)
    shuffled.to_csv(path, sep="\t", index=False)
    return path, shuffled


def write(path, frame, **options):
    frame.to_csv(path, **{"sep": "\t", "index": False} | options)
    return path


def assert_alike(rows, expected):
    """The same features but for rounding: classes of other names come in another order."""
    pd.testing.assert_frame_equal(pd.DataFrame(rows), pd.DataFrame(expected), rtol=1e-9, atol=1e-12)


def test_a_table_is_matched_by_sample_name(store, table, tmp_path):
    path, frame = table
    expected = selected(store, *QUICK)["selected"]
    options = ("--target", "trait", "-n", 8)
    result = run("select", store, *options, "--labels", path)
    assert "rows matched by sample name" in told(result)
    for file in (
        path,
        write(tmp_path / "a.csv", frame, sep=","),
        write(tmp_path / "spaces.txt", frame, sep=" "),
        write(tmp_path / "index.tsv", frame.rename(columns={"name": ""})),
    ):
        assert_alike(selected(store, *options, "--labels", file)["selected"], expected)
    other = write(tmp_path / "last.tsv", frame[["trait", "age", "name"]])
    by_column = selected(store, *options, "--labels", other, "--sample-column", "name")
    assert_alike(by_column["selected"], expected)


def test_a_table_with_more_samples_is_cut(store, table, tmp_path):
    _, frame = table
    more = pd.concat([frame, pd.DataFrame({"name": ["z"], "trait": ["NA"], "age": ["1"]})])
    result = run(
        "select",
        store,
        "--labels",
        write(tmp_path / "more.tsv", more),
        "--target",
        "trait",
        "-n",
        3,
    )
    assert "1 rows of other samples" in told(result)


def test_partial_overlap_is_an_error_that_counts(store, table, tmp_path):
    _, frame = table
    changed = frame.assign(name=frame.name.where(np.arange(M) >= 3, "other_" + frame.name))
    message = run(
        "select", store, "--labels", write(tmp_path / "p.tsv", changed), "--target", "trait", code=2
    ).stderr
    assert "lacks 3 of the 60 samples" in message
    assert frame.name.iloc[0] in message
    twice = frame.assign(name=frame.name.iloc[0])
    message = run(
        "select", store, "--labels", write(tmp_path / "t.tsv", twice), "--target", "trait", code=2
    ).stderr
    assert "more than once" in message


def test_samples_that_the_table_lacks_are_left_out_when_asked(store, table, tmp_path):
    _, frame = table
    part = write(tmp_path / "part.tsv", frame.iloc[:50])
    options = (store, "--labels", part, "--target", "trait", "-n", 4)
    assert "lacks 10 of the 60 samples" in run("select", *options, code=2).stderr
    facts = selected(*options, "--drop-missing")
    assert (facts["n_samples"], facts["n_samples_left_out"]) == (50, 10)


def test_names_that_match_none_are_no_reason_to_go_by_position(store, table, tmp_path):
    _, frame = table
    other = write(tmp_path / "fid.tsv", frame.assign(name="F1_" + frame.name))
    message = run("select", store, "--labels", other, "--target", "trait", code=2).stderr
    assert "looks like sample names (F1_" in message
    assert "none of them is in the data" in message


def test_without_names_rows_are_taken_by_position_where_that_is_asked_for(store, table, tmp_path):
    _, frame = table
    in_order = frame.sort_index()
    nameless = write(tmp_path / "n.tsv", in_order[["trait", "age"]])
    options = ("--target", "trait", "-n", 8, "--json")
    message = run("select", store, "--labels", nameless, *options, code=2).stderr
    assert "No column of" in message
    assert "--sample-column, or pass --by-position if" in message
    result = run("select", store, "--labels", nameless, *options, "--by-position")
    assert "by position, as requested" in told(result)
    assert_alike(json.loads(result.stdout)["selected"], selected(store, *QUICK)["selected"])
    short = write(tmp_path / "s.tsv", in_order[["trait"]].iloc[:50])
    message = run("select", store, "--labels", short, *options, "--by-position", code=2).stderr
    assert "50 rows, but the data have 60 samples" in message


def test_samples_without_a_label_are_left_out_only_when_asked(store, table, tmp_path):
    _, frame = table
    spoiled = frame.assign(
        trait=frame.trait.where(np.arange(M) >= 4, list("    ") + ["-9"] * (M - 4))
    )
    spoiled.loc[spoiled.index[:4], "trait"] = ["NA", ".", "", "-9"]
    path = write(tmp_path / "na.tsv", spoiled)
    options = (store, "--labels", path, "--target", "trait", "-n", 8)
    assert "3 of 60 samples have missing values" in run(
        "select", *options, "--not-na", "-9", code=2
    ).stderr  # fmt: skip
    facts = selected(*options, "--drop-missing", "--na", "-9")
    assert (facts["n_samples"], facts["n_samples_left_out"]) == (M - 4, 4)
    assert "-9" not in NA
    said = told(run("select", *options, "--drop-missing", "--na", "-9"))
    assert "4 of 60 samples excluded" in said
    assert "2 classes" in said
    said = told(run("select", *options, "--drop-missing", "--not-na", "-9"))
    assert "-9 (1)" in said
    assert "3 classes" in said
    message = run("select", *options, "--drop-missing", code=2).stderr
    assert "1 of 60 values of 'trait' are -9" in message
    assert "--na trait=-9 --drop-missing" in message


@pytest.mark.slow
def test_covariates_from_store_labels_and_table(store, table):
    path, frame = table
    plain = selected(store, *QUICK)["selected"]
    by_name = selected(
        store, "--labels", path, "--target", "trait", "-n", 8, "--covariate", "age",
        "--covariate", "sample_population",
    )["selected"]  # fmt: skip
    from_table = (store, *QUICK, "--covariate", "sample_population", "--covariates")
    assert [r["score"] for r in by_name] != [r["score"] for r in plain]
    reordered = selected(*from_table, f"{path}:age")["selected"]
    assert [r["index"] for r in reordered] == [r["index"] for r in by_name]
    message = run("select", *from_table, f"{path}:height", code=2).stderr
    assert "no column 'height'" in message
    frame["site"] = np.tile(["north", "south", "west"], M // 3)
    three = write(path.with_name("three.tsv"), frame[["name", "age", "site"]])
    result = run("select", *from_table, three)  # all columns but the names, text as groups
    assert "covariates sample_population, age, site" in told(result)
    message = run("select", *from_table, f"{path}:name", code=2).stderr
    assert "No column of" in message  # a column that is wanted names nobody
    message = run("select", *from_table, f"{path}:name", "--sample-column", "name", code=2).stderr
    assert "more like names than groups" in message
    message = run("select", *from_table, f"{path}:trait", code=2).stderr
    assert "Nothing is left of the labels" in message


def test_several_targets_are_selected_for_jointly(store, table):
    path, _ = table
    facts = selected(store, "--labels", path, "--target", "trait", "--target", "age", "-n", 3)
    assert facts["label_kernel"] == "balanced + gaussian"


@pytest.mark.slow
def test_a_sample_column_is_of_the_tables_that_have_it(store, table, tmp_path):
    path, frame = table
    labels = write(tmp_path / "eid.tsv", frame[["name", "trait"]].rename(columns={"name": "eid"}))
    asked = ("--target", "trait", "--covariates", f"{path}:age", "-n", 4)
    expected = selected(store, "--labels", path, *asked)["selected"]
    for column in ("eid", "name"):
        found = selected(store, "--labels", labels, *asked, "--sample-column", column)
        assert found["selected"] == expected
    message = run("select", store, "--labels", labels, *asked, "--sample-column", "who", code=2)
    assert "--sample-column who: no table has this column" in told(message)
    assert "eid.tsv has 'eid', 'trait'" in told(message)


@pytest.mark.filterwarnings("default:.*have the names of samples at other positions")
def test_rows_by_position_that_name_samples_elsewhere_are_told_of_and_counted(
    store, table, tmp_path
):
    path, frame = table
    asked = ("--target", "trait", "--by-position", "-n", 4, "--json")
    result = run("select", store, "--labels", path, *asked)
    n = int((frame.index != np.arange(M)).sum())
    assert f"{n} of {M} rows of {path} have the names of samples at other positions" in told(result)
    assert json.loads(result.stdout)["n_rows_elsewhere"] == n
    in_order = write(tmp_path / "in order.tsv", frame.sort_index())
    result = run("select", store, "--labels", in_order, *asked)
    assert "elsewhere" not in told(result)
    assert json.loads(result.stdout)["n_rows_elsewhere"] == 0


def test_what_is_said_of_infinite_labels_leaves_them_out(store, table, tmp_path):
    _, frame = table
    values = frame["age"].to_numpy(copy=True)
    values[3], values[7], values[9] = "inf", "-inf", "NA"
    labels = write(tmp_path / "inf.tsv", frame.assign(age=values))
    asked = ("--labels", labels, "--target", "age", "-n", 4, "--drop-missing")
    message = told(run("select", store, *asked, code=2))
    assert "(CLI: --na -inf --na inf --drop-missing)" in message
    facts = selected(store, *asked, "--na", "-inf", "--na", "inf")
    assert facts["n_samples"] == M - 3


def test_covariates_in_codes_are_told_and_become_groups(tmp_path):
    rng = np.random.default_rng(8)
    centre = rng.integers(0, 5, 200)
    effect = np.array([0.0, 4, -3, 6, -2])[centre]
    X = pd.DataFrame(rng.normal(size=(200, 30)), columns=[f"g{i}" for i in range(30)])
    X["g7"] += np.array([0, 1, -0.7, 1.4, -0.5])[centre]
    X.index = pd.Index([f"s{i}" for i in range(200)], name="id")
    write(tmp_path / "x.tsv", X, index=True)
    codes = {"y": effect + rng.normal(size=200), "centre": centre + 11000, "sex": centre % 2}
    labels = write(tmp_path / "y.tsv", pd.DataFrame(codes, index=X.index), index=True)
    words = ("test", tmp_path / "x.tsv", "--labels", labels, "--target", "y", "-n", 1)
    words += ("--covariate", "centre", "--covariate", "sex")
    message = told(run(*words))
    assert (
        "covariate 'centre' has 5 distinct whole numbers from 11000 to 11004 and is used as a "
        "number (with a linear effect); if they are codes for groups, pass --category centre"
        in message
    )
    assert "'sex' has" not in message
    result = run(*words, "--category", "centre", "--json")
    assert "linear effect" not in told(result)
    groups = pd.get_dummies(centre).assign(sex=centre % 2).to_numpy(float)
    expected = dhsic.test_features(X, codes["y"], covariates=groups)
    found = json.loads(result.stdout)["selected"][0]
    assert found["p"] == pytest.approx(expected.p_values.min(), rel=1e-6)
    assert found["p"] > 1e-3
    said = told(run(*words, "--category", "center", code=2))
    assert "is not the name of a covariate; covariates: centre, sex. Did you mean 'centre'?" in said
    with pytest.warns(
        UserWarning, match="Covariate 'centre' has 5 distinct whole numbers"
    ) as warned:
        dhsic.test_features(X, codes["y"], covariates=pd.DataFrame(codes, X.index)[["centre"]])
    change = re.search(r"for groups, pass (frame\.astype\(.*?\))\.$", str(warned[0].message))[1]
    frame = eval(change, {"frame": pd.DataFrame(codes, X.index)[["centre"]]})
    again = dhsic.test_features(X, codes["y"], covariates=frame)
    assert again.p_values.min() == pytest.approx(expected.p_values.min(), rel=1e-6)


def test_codes_of_several_columns_are_told_at_once(store, table, tmp_path):
    _, frame = table
    coded = frame.assign(sex=np.arange(M) % 3, age=np.where(np.arange(M) < 4, -9, frame["age"]))
    labels = write(tmp_path / "coded.tsv", coded)
    words = ("--labels", labels, "--target", "trait", "--covariate", "age", "--covariate", "sex")
    message = told(run("test", store, *words, "-n", 2, code=2))
    options = re.search(r"samples with (.*) --drop-missing", message)[1].split()
    assert options == ["--na", "age=-9", "--na", "sex=0"]
    facts = run("test", store, *words, "-n", 2, "--json", "--drop-missing", *options).stdout
    assert json.loads(facts)["n_samples"] == int(((coded["sex"] > 0) & (coded["age"] != -9)).sum())


def test_a_class_of_one_sample_is_left_out_where_others_stay(store, table, tmp_path):
    _, frame = table
    alone = frame.assign(trait=["other", *frame["trait"][1:]])
    words = ("test", store, "--target", "trait", "-n", 2, "--labels")
    message = told(run(*words, write(tmp_path / "alone.tsv", alone)))
    options = re.search(r"exclude this sample with (--na .* --drop-missing)", message)[1]
    message = told(run(*words, tmp_path / "alone.tsv", *options.split()))
    assert "only one of" not in message
    one = frame.assign(trait=["case", *["control"] * (M - 1)])
    message = told(run(*words, write(tmp_path / "one.tsv", one)))
    assert "fewer than two classes remain" in message
    assert "--drop-missing" not in message


@pytest.mark.filterwarnings("default")
def test_a_square_table_by_position_is_told_and_turned_by_the_option(tmp_path, rng):
    X = rng.standard_normal((40, 40)).round(3)
    genes, samples = [f"g{j}" for j in range(40)], [f"s{i}" for i in range(40)]
    pd.DataFrame(X.T, genes, samples).to_csv(tmp_path / "x.csv")
    pd.DataFrame({"score": X[:, 7]}).to_csv(tmp_path / "y.csv", index=False)
    asked = ("test", tmp_path / "x.csv", "--labels", tmp_path / "y.csv", "--target", "score")

    told = run(*asked, "--by-position")
    assert "equal numbers of samples and features (40)" in told.stderr
    assert (
        "Features are s0, s1, s2, ... (40 in all); if these are samples, pass --transpose."
        in told.stderr
    )
    best = run(*asked, "--by-position", "--transpose", "-n", "1").stdout
    assert "   1  g7 " in best
