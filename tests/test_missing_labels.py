"""Labels and covariates of which some are -9, PLINK's missing value: refused, not ranked with."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import run, told

import dhsic
from dhsic.errors import InputError
from dhsic.independence import hsic_test

M, D = 12, 8
X = np.random.default_rng(0).integers(0, 3, (M, D)).astype("f4")
CLASSES = np.arange(M) % 2


def with_codes(values, code=-9):
    out = np.array(values)
    out[[1, 4]] = code
    return out


CODED = {
    "0 and 1": with_codes(CLASSES),
    "1 and 2": with_codes(CLASSES + 1),
    "as floats": with_codes(CLASSES + 1.0),
    "real values": with_codes(np.linspace(0, 3, M)),
    "z-scores": with_codes(np.linspace(-3, 3, M)),
    "text": with_codes(np.where(CLASSES, "case", "control"), "-9"),
    "text of numbers": with_codes((CLASSES + 1).astype(str), "-9"),
    "text of any width": with_codes(np.where(CLASSES, "a", "b").astype("T"), "-9"),
    "bytes": with_codes(np.where(CLASSES, b"case", b"control"), b"-9"),
    "objects": with_codes(CLASSES.astype(object)),
    "text objects": with_codes(np.where(CLASSES, "case", "control").astype(object), "-9"),
    "lists": with_codes(CLASSES).tolist(),
    "a series": pd.Series(with_codes(CLASSES)),
    "one target of two": np.column_stack([CLASSES, with_codes(CLASSES)]),
    "several times, near others": with_codes(np.linspace(-5.3, 4.3, M)),
}


@pytest.mark.parametrize("kind", CODED)
def test_codes_are_refused(kind):
    with pytest.raises(InputError, match=r"^2 of \d\d values of y are -9, .*y\[keep\].* If -9 is"):
        dhsic.BAHSIC(2).fit(X, CODED[kind])
    with pytest.raises(InputError, match="values of y are -9"):
        dhsic.plan(X, CODED[kind])
    with pytest.raises(InputError, match="values of Y are -9"):
        dhsic.test_features(X, CODED[kind])
    with pytest.raises(InputError, match="values of Y are -9"):
        hsic_test(X, CODED[kind])


@pytest.mark.parametrize("word", ["NA", "nan", "None", "<NA>", "null", "."])
@pytest.mark.parametrize("kind", [str, object, pd.Series, pd.Categorical])
def test_text_for_missing_ones_is_no_class(word, kind):
    text = with_codes(np.where(CLASSES, "case", "control").astype(object), word)
    y = text.astype(str) if kind is str else kind(text) if kind is not object else text
    with pytest.raises(InputError, match=rf"^2 of 12 values of y are '{word}', .*keep = y != '"):
        dhsic.BAHSIC(2).fit(X, y)
    with pytest.raises(InputError, match=f"2 of 12 values of Y are '{word}'"):
        dhsic.test_features(X, y)
    keep = text != word
    dhsic.BAHSIC(2).fit(X[keep], text[keep])
    dhsic.BAHSIC(2).fit(X, np.where(text == word, f"class {word}", text))


VALUES = {
    "among others below 0": with_codes(np.linspace(-12, 3, M)),
    "nothing else": np.where(CLASSES, -9, -3),
    "text with others below 0": with_codes(np.where(CLASSES, "-1", "-2"), "-9"),
    "shifted, as it is said to be": with_codes(CLASSES) + 9,
    "whole numbers that are none": CLASSES.astype("u1"),
    "0, 1 and 2": np.arange(M) % 3,
}


@pytest.mark.parametrize("kind", VALUES)
def test_others_are_values(kind):
    dhsic.BAHSIC(2).fit(X, VALUES[kind])


def test_what_the_message_says_to_do_works():
    y = CODED["0 and 1"]
    keep = y != -9
    model = dhsic.BAHSIC(2).fit(X[keep], y[keep])
    assert model.result_.attrs["n_samples"] == M - 2
    both = CODED["one target of two"]
    with pytest.raises(InputError, match=r"keep = \(y != -9\)\.all\(axis=1\)"):
        dhsic.BAHSIC(2).fit(X, both)
    text = CODED["text"]
    with pytest.raises(InputError, match=r"keep = y != '-9'; .* give it another name"):
        dhsic.BAHSIC(2).fit(X, text)
    renamed = np.where(text == "-9", "minus 9", text)
    dhsic.BAHSIC(2).fit(X, renamed)


def test_shifted_values_rank_alike():
    y = np.linspace(-12, 3, M)
    y[[1, 4]] = -9
    ranks = [dhsic.BAHSIC(2).fit(X, y + shift).ranking_.tolist() for shift in (0, 9)]
    assert ranks[0] == ranks[1]


@pytest.mark.parametrize(
    ("names", "kernel"),
    [
        (["3_0", "3_1", "30"], "auto"),
        (["3_0", "30", "4"], "multiclass"),
        (["1.1", "1.10", "2.1"], "multiclass"),
        (["a ", "b", "c\u00a0"], "auto"),
    ],
)
def test_names_stay_apart_that_python_reads_as_one_number(store, tmp_path, names, kernel):
    def chosen(classes):
        table, out = tmp_path / "t.tsv", tmp_path / "out.tsv"
        table.write_text("kind\n" + "".join(f"{classes[k]}\n" for k in np.arange(M) % 3))
        asked = ("--labels", table, "--target", "kind", *SELECT, "--label-kernel", kernel)
        run("select", store, *asked, "--out", out, "-f")
        return out.read_text()

    assert chosen(names) == chosen(["x", "y", "z"])
    blanks = [" x", "x ", "y "] * (M // 3)
    plain = [text.strip() for text in blanks]
    found = [dhsic.BAHSIC(2).fit(X, np.array(y)).scores_ for y in (blanks, plain)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("made", [pd.Series, pd.Categorical, pd.DataFrame])
def test_categories_are_classes_though_they_be_numbers(made):
    values = pd.Categorical(np.array([0.1, 0.25, 70.0])[np.arange(M) % 3])
    y = (
        values
        if made is pd.Categorical
        else made({"y": values} if made is pd.DataFrame else values)
    )
    found = dhsic.BAHSIC(2).fit(X, y)
    expected = dhsic.BAHSIC(2).fit(X, np.array(["x", "y", "z"])[np.arange(M) % 3])
    assert found.result_.attrs["label_kernel_used"] == "multiclass"
    np.testing.assert_array_equal(found.scores_, expected.scores_)
    with pytest.raises(InputError, match="1 of 12 labels are missing"):
        dhsic.BAHSIC(2).fit(X, pd.Series(values).where(np.arange(M) > 0))


def test_covariates_too():
    age = with_codes(np.linspace(20, 80, M))
    for covariates in (age, np.column_stack([CLASSES, age]), pd.DataFrame({"age": age})):
        with pytest.raises(InputError, match="values of covariates are -9"):
            dhsic.BAHSIC(2).fit(X, np.linspace(0, 1, M), covariates=covariates)


def test_a_kernel_matrix_is_no_phenotype():
    y = np.where(CLASSES, 3, -3.0)
    L = np.outer(y, y)
    L[0] = L[:, 0] = 0
    L[0, 2] = L[2, 0] = -9
    dhsic.BAHSIC(2, label_kernel="precomputed").fit(X, L)


def test_stores_and_datasets_are_told_how(tmp_path):
    dataset = xr.Dataset({"X": (("samples", "genes"), X), "trait": ("samples", CODED["0 and 1"])})
    dataset.to_zarr(tmp_path / "x.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(InputError, match=r"X\.isel\(samples=keep\)"):
        dhsic.select(dataset, "trait", variable="X")
    with pytest.raises(InputError, match=r"xarray\.open_zarr\(path, mask_and_scale=False\)"):
        dhsic.select(str(tmp_path / "x.zarr"), "trait", variable="X")
    with pytest.raises(InputError, match="values of y are -9"):
        dhsic.submit(str(tmp_path / "x.zarr"), "trait", variable="X", checkpoint=tmp_path / "c")
    keep = np.flatnonzero(dataset["trait"] != -9)
    dhsic.select(dataset.isel(samples=keep), "trait", variable="X", n_features_to_select=2)


# -- on the command line -----------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("dosage", data=X, dimension_names=("samples", "variants"))
    for name, values in {
        "binary": CODED["0 and 1"],
        "plink": CODED["1 and 2"],
        "height": CODED["real values"],
        "codes": np.arange(M) % 3,
        "plain": CLASSES,
    }.items():
        group.create_array(name, data=values, dimension_names=("samples",))
    return tmp_path / "g.zarr"


SELECT = ("-n", 2, "--threads", 1, "--no-progress")


@pytest.mark.parametrize("target", ["binary", "plink", "height"])
def test_select_refuses_and_says_both_ways(store, target):
    options = ("select", store, "--target", target, *SELECT)
    message = told(run(*options, code=2))
    assert f"2 of 12 values of '{target}' are -9" in message
    assert f"--na {target}=-9 --drop-missing" in message
    assert "--not-na -9" in message
    facts = json.loads(run(*options, "--na", -9, "--drop-missing", "--json").stdout)
    assert (facts["n_samples"], facts["n_samples_left_out"]) == (M - 2, 2)
    facts = json.loads(run(*options, "--not-na", -9, "--json").stdout)
    assert (facts["n_samples"], facts["n_samples_left_out"]) == (M, 0)


def test_plan_refuses_too(store):
    assert "--not-na -9" in told(run("plan", store, "--target", "plink", "--workers", 2, code=2))


def test_tables_and_covariates(store, tmp_path):
    table = tmp_path / "t.tsv"
    frame = pd.DataFrame({"status": CODED["text"], "age": with_codes(np.arange(20, 20 + M))})
    frame.to_csv(table, sep="\t", index=False)
    said = told(run("select", store, "--labels", table, "--target", "status", *SELECT, code=2))
    assert "2 of 12 values of 'status' are -9" in said
    plain = ("select", store, "--target", "plain", *SELECT)
    for more in (("--covariates", f"{table}:age"), ("--covariate", "height")):
        assert "values of" in told(run(*plain, *more, code=2))
        run(*plain, *more, "--na", -9, "--drop-missing")
        run(*plain, *more, "--not-na", -9)


def test_a_class_may_be_called_what_is_missing_elsewhere(store, tmp_path):
    table = tmp_path / "t.tsv"
    frame = pd.DataFrame({"ion": np.where(CLASSES, "NA", "K")})
    frame.to_csv(table, sep="\t", index=False)
    options = ("select", store, "--labels", table, "--target", "ion", *SELECT)
    assert "6 of 12 samples have missing values" in told(run(*options, code=2))
    assert "2 classes K (6), NA (6)" in told(run(*options, "--not-na", "NA"))


def test_inspect_says_which_labels_are_coded(store):
    facts = json.loads(run("inspect", store, "--sample-dim", "samples", "--json").stdout)
    assert "2 are -9, which PLINK writes for missing values" in facts["targets"]["plink"]
    assert "PLINK" not in facts["targets"]["plain"]


def test_zeros_of_case_and_control_are_told_of(store):
    said = told(run("select", store, "--target", "codes", *SELECT))
    assert "labels are 0, 1 and 2" in said
    assert "--na codes=0 --drop-missing" in said
    assert "PLINK" not in told(run("select", store, "--target", "plain", *SELECT))


@pytest.mark.parametrize("name", ["t.fam", "t.txt"])
def test_zeros_of_a_table_of_plink_are_refused(store, tmp_path, name):
    rows = [f"F{i} S{i} 0 0 {1 + i % 2} {i % 3}" for i in range(M)]
    (tmp_path / name).write_text("\n".join(rows) + "\n")
    target = "PHENO" if name == "t.fam" else "PHENO4"
    options = ("select", store, "--labels", tmp_path / name, "--by-position", *SELECT, "--json")
    said = told(run(*options, "--target", target, code=2))
    assert f"4 of 12 values of '{target}' are 0, next to 1 and 2; PLINK writes" in said
    facts = json.loads(run(*options, "--target", target, "--na", 0, "--drop-missing").stdout)
    assert facts["n_samples"] == 8
    facts = json.loads(run(*options, "--target", target, "--not-na", 0).stdout)
    assert facts["n_samples"] == M


def test_a_resumed_run_keeps_what_was_said(store, tmp_path):
    run(
        "select",
        store,
        "--target",
        "plink",
        *SELECT,
        "--not-na",
        -9,
        "--checkpoint",
        tmp_path / "c",
    )
    run("resume", tmp_path / "c")


def test_codes_are_compared_as_numbers(store, tmp_path):
    table = tmp_path / "t.tsv"
    text = [f"{value:.1f}" for value in with_codes(np.linspace(-2, 2, M))]
    table.write_text("height\n" + "\n".join(text) + "\n")
    asked = ("--labels", table, "--target", "height", *SELECT, "--na", -9, "--drop-missing")
    facts = json.loads(run("select", store, *asked, "--json").stdout)
    assert facts["n_samples_left_out"] == 2


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ((["none"], [f"{v / 7:.3f}" for v in range(M - 1)]), "--na height=none --drop-missing"),
        ((["<0.1", "?"], [f"{v / 7:.3f}" for v in range(M - 2)]), "--na 'height=<0.1'"),
        (([], [f"0,{v}" for v in range(M)]), "To write numbers with decimal points"),
        (
            ([], [f"{v % 3},5" for v in range(M)]),
            "(0,5, 1,5, 2,5). Write numbers with decimal points",
        ),
        (([], [f"{v % 3}0 %" for v in range(M)]), "without percent"),
        (([], [f"{v % 3 + 1},000" for v in range(M)]), "thousands separators"),
        (([], ["1.1", "1.10", "2.1"] * (M // 3)), "several spellings (1.1 and 1.10). If these"),
    ],
)
def test_real_values_do_not_become_classes_by_a_slip(store, tmp_path, cells, words):
    table = tmp_path / "t.tsv"
    table.write_text("height\tx\n" + "".join(f"{c}\t1\n" for part in cells for c in part))
    said = told(run("select", store, "--labels", table, "--target", "height", *SELECT, code=2))
    assert words in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("trait trait\n" + "1 2\n" * M, "two columns are named 'trait'"),
        ("a trait\n" + "1 2\n" * (M - 1) + "1\n", "line 13 has fewer fields"),
    ],
)
def test_tables_that_cannot_be_told(store, tmp_path, text, words):
    (tmp_path / "t.txt").write_text(text)
    asked = ("--labels", tmp_path / "t.txt", "--target", "trait", *SELECT)
    assert words in told(run("select", store, *asked, code=2))


def test_text_of_numbers_is_of_classes_whatever_holds_it():
    clusters = np.array([*"001122001127"])
    ways = (clusters, pd.Series(clusters, dtype=object), pd.Series(pd.Categorical(clusters)))
    kernels = {dhsic.BAHSIC(2).fit(X, y).result_.attrs["label_kernel_used"] for y in ways}
    assert kernels == {"multiclass"}


def test_names_of_samples_are_no_labels(tmp_path):
    ids = pd.Series(np.arange(60) + 1000.0, name="IID")
    data = np.random.default_rng(1).integers(0, 3, (60, D)).astype("f4")
    for y in (ids, ids.rename("sample_id").astype(int)):
        with pytest.raises(
            InputError, match="which looks like a column of sample ids: 60 of 60 values differ"
        ):
            dhsic.BAHSIC(2).fit(data, y)
    dhsic.BAHSIC(2).fit(data, ids.rename("height"))
    dhsic.BAHSIC(2).fit(data, (ids % 3).rename("FID"))
    families = pd.Series(np.arange(153) // 3, name="FID")
    with pytest.raises(InputError, match="51 of 153 values differ"):
        dhsic.BAHSIC(2).fit(np.tile(data, (3, 1))[:153], families)
    dhsic.BAHSIC(2).fit(np.tile(data, (3, 1))[:153], families.astype(str))
    group = zarr.create_group(tmp_path / "i.zarr")
    group.create_array("dosage", data=data, dimension_names=("samples", "variants"))
    group.create_array("IID", data=ids.to_numpy(), dimension_names=("samples",))
    with pytest.raises(InputError, match="'IID', which looks like a column of sample ids"):
        dhsic.select(str(tmp_path / "i.zarr"), "IID")
    options = ("select", tmp_path / "i.zarr", "--target", "IID", *SELECT)
    for more in ((), ("--label-kernel", "gaussian")):
        assert "'IID', which looks like a column of sample ids" in told(
            run(*options, *more, code=2)
        )


def test_labels_and_covariates_in_two_orders_are_refused():
    ids = [f"s{i}" for i in range(M)]
    y, age = pd.Series(np.arange(M) * 0.7, index=ids), pd.DataFrame({"age": X[:, 0]}, index=ids)
    dhsic.BAHSIC(2).fit(X, y, covariates=age)
    with pytest.raises(InputError, match="covariates are in a different order from those of y"):
        dhsic.BAHSIC(2).fit(X, y, covariates=age[::-1])
    dhsic.BAHSIC(2).fit(X, y, covariates=age[::-1], by_position=True)


def test_groups_in_another_order_are_refused():
    names = [f"g{j}" for j in range(D)]
    groups = pd.Series(np.arange(D) // 2, index=names)
    frame = pd.DataFrame(X, columns=names)
    dhsic.BAHSIC(2).fit(frame, CLASSES, feature_groups=groups)
    with pytest.raises(InputError, match="feature_groups are in a different order"):
        dhsic.BAHSIC(2).fit(frame, CLASSES, feature_groups=groups[::-1])


@pytest.mark.parametrize("code", [-99, -999])
def test_other_codes_for_missing_are_refused_too(code):
    y = np.where(np.arange(len(X)) < 2, code, CLASSES)
    with pytest.raises(InputError, match=f"2 of .* are {code}, which many programs write"):
        dhsic.select(X, y)


def test_numbers_with_commas_are_told_though_one_label_is_text(store, tmp_path):
    values = [f"{v / 7:.2f}".replace(".", ",") for v in range(11)]
    frame = pd.DataFrame({"bmi": [*values, "ND"]})
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    options = ("select", store, "--labels", tmp_path / "t.tsv", "--target", "bmi", *SELECT)
    assert "look like numbers, but some cannot be read (0,00," in told(run(*options, code=2))
