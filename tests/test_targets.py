"""Targets of Python by name, as on the command line; labels that are a column of X are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from commands import run
from refusals import assert_refused

import dhsic
from dhsic.errors import InputError
from dhsic.independence import test_features
from dhsic.interactions import find_pairs

#: The labels of the frame are features under another name, which a warning reports.
pytestmark = pytest.mark.filterwarnings("ignore:.*has the same order as the labels:UserWarning")

M = 40
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.standard_normal((M, 4)), columns=list("abcd"))
STATUS = np.where(FRAME["b"] > 0, "case", "control")
BMI = 27 + 2 * FRAME["c"].to_numpy() ** 3
WHOLE = FRAME.assign(status=STATUS, bmi=BMI, age=RNG.integers(20, 80, M).astype(float))
WHOLE.index = pd.Index([f"s{i}" for i in range(M)], name="sample")
X = WHOLE[[*"abcd"]]


def ranks(found):
    return dict(zip(found["feature"].values.tolist(), found["rank"].values.T.tolist(), strict=True))


def select(data, target, **options):
    return dhsic.select(data, target, n_features_to_select=2, progress=False, **options)


def dataset(frame):
    return xr.Dataset(
        {"x": (("sample", "gene"), frame[[*"abcd"]].to_numpy())}
        | {"status": ("sample", frame["status"].to_numpy(object))}
        | {name: ("sample", frame[name].to_numpy()) for name in ("bmi", "age")},
        coords={"gene": np.array([*"abcd"], object), "sample": frame.index.to_numpy(object)},
    )


@pytest.fixture(params=["frame", "polars", "csv", "parquet", "dataset", "zarr"])
def data(request, tmp_path):
    """The same samples, features, labels and a covariate, in everything that has names for them."""
    kind = request.param
    if kind == "frame":
        return WHOLE
    if kind == "polars":
        return pl.DataFrame({name: WHOLE[name].to_numpy() for name in WHOLE})
    if kind == "csv":
        WHOLE.to_csv(tmp_path / "x.csv")
        return tmp_path / "x.csv"
    if kind == "parquet":
        WHOLE.to_parquet(tmp_path / "x.parquet")
        return str(tmp_path / "x.parquet")
    if kind == "zarr":
        dataset(WHOLE).to_zarr(tmp_path / "x.zarr", consolidated=False)
        return tmp_path / "x.zarr"
    return dataset(WHOLE)


def without(data, *names):
    """Data of which other columns are no features either."""
    if isinstance(data, pd.DataFrame):
        return data.drop(columns=[*names])
    if isinstance(data, pl.DataFrame):
        return data.drop(names)
    is_table = isinstance(data, str) or str(data).endswith(".csv")
    return dhsic.open_source(data, not_features=["status", "bmi", "age"]) if is_table else data


def test_a_name_is_a_column_and_no_feature(data):
    found = select(without(data, "bmi", "age"), "status")
    assert ranks(found) == ranks(select(X, STATUS))
    with pytest.raises(InputError, match=r"'stats'.*Did you mean 'status'"):
        select(without(data, "bmi", "age"), "stats")


def test_several_names_are_one_target(data):
    found = select(data, ["status", "bmi"], covariates=["age"])
    both = WHOLE[["status", "bmi"]]
    assert ranks(found) == ranks(select(X, both, covariates=WHOLE["age"]))
    for other in (("status", "bmi"), ["bmi", "status"]):
        again = select(data, other, covariates="age" if hasattr(data, "columns") else ["age"])
        np.testing.assert_allclose(again["score"], found["score"], rtol=1e-6)
    assert ranks(select(data, ["bmi"], covariates=["status", "age"])) == ranks(
        select(X, BMI, covariates=WHOLE[["status", "age"]])
    )


def test_each_name_is_a_target_of_its_own(data):
    found = select(data, ["status", "bmi"], per_target=True, covariates=["age"])
    assert found["targets"].values.tolist() == ["status", "bmi"]
    for name in ("status", "bmi"):
        alone = select(X, WHOLE[name], covariates=WHOLE["age"])
        assert ranks(found.sel(targets=name)) == ranks(alone)


def test_classes_by_name_and_settings(data):
    left = without(data, "bmi", "age")
    found = select(left, "status", per_class=True)
    assert ranks(found.sel(classes="case")) == ranks(select(X, STATUS == "case"))
    many = dhsic.select_many(left, "status", [{"kernel": "linear"}], progress=False)
    assert set(many["feature"].values) == set("abcd")


def test_estimators_and_tests_take_names(data):
    left = without(data, "bmi", "age")
    model = dhsic.BAHSIC(2, progress=False).fit(left, "status")
    assert model.feature_names_in_.tolist() == [*"abcd"]
    tested = test_features(left, "status")
    np.testing.assert_array_equal(tested.p_values, test_features(X, STATUS).p_values)
    found, expected = (find_pairs(*given, n_pairs=3) for given in ((left, "status"), (X, STATUS)))
    xr.testing.assert_allclose(found.drop_vars(found.coords), expected.drop_vars(expected.coords))


# -- labels that X holds too ----------------------------------------------------------------------

HELD = {
    "a column": lambda: (
        WHOLE.drop(columns=["status", "age"]),
        WHOLE["bmi"],
        "drop(columns='bmi')",
    ),
    "classes": lambda: (
        WHOLE[[*"abcd"]].assign(case=(STATUS == "case").astype(int)),
        pd.Series(STATUS == "case", WHOLE.index, name="case"),
        "X.drop(columns='case')",
    ),
    "a frame": lambda: (WHOLE[[*"abcd", "bmi", "age"]], WHOLE[["bmi"]], "X.drop(columns='bmi')"),
    "values": lambda: (WHOLE[[*"abcd", "bmi"]], BMI, "X.drop(columns='bmi')"),
    "zeros and ones": lambda: (
        X.assign(case=(STATUS == "case") * 1.0),
        (STATUS == "case").astype(int),
        "X.drop(columns='case')",
    ),
    "polars": lambda: (
        pl.DataFrame({name: WHOLE[name].to_numpy() for name in ("a", "bmi")}),
        pl.Series("bmi", BMI),
        "X.drop(columns='bmi')",
    ),
}


@pytest.mark.parametrize("kind", HELD)
def test_labels_that_are_a_column_of_X_are_refused(kind, tmp_path):
    data, y, remedy = HELD[kind]()
    for call in (
        lambda: select(data, y),
        lambda: dhsic.BAHSIC(2, progress=False).fit(data, y),
        lambda: test_features(data, y),
    ):
        assert_refused(call, InputError, ("would be a feature that reveals", remedy), tmp_path)


@pytest.mark.filterwarnings("ignore:Column 'bmi' of X has the values of y")
def test_the_remedies_work():
    held = WHOLE[[*"abcd", "bmi"]]
    expected = ranks(select(X, BMI))
    with pytest.raises(InputError) as caught:
        select(held, WHOLE["bmi"])
    remedy = str(caught.value).partition("Remove it from X: ")[2].partition(". If")[0]
    assert ranks(select(eval(remedy, {"X": held}), WHOLE["bmi"])) == expected
    named = pd.Series(BMI, index=held.index, name="labels")
    assert ranks(select(held, named))["bmi"] == 1  # said to be another measurement
    assert ranks(select(held, WHOLE["bmi"].rename("mass")))["bmi"] == 1


def test_a_table_that_holds_the_labels(tmp_path):
    WHOLE[[*"abcd", "bmi"]].to_csv(tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"open_source\(X, not_features=\['bmi'\]\)") as caught:
        select(tmp_path / "x.csv", WHOLE["bmi"])
    remedy = str(caught.value).partition("Remove it from X: ")[2].partition(". If")[0]
    opened = eval(remedy, {"X": tmp_path / "x.csv", "dhsic": dhsic})
    assert ranks(select(opened, WHOLE["bmi"])) == ranks(select(X, BMI))


# -- asked for and not there ----------------------------------------------------------------------


def test_records_are_censored_times_if_one_field_is_true_or_false():
    records = np.array(list(zip(STATUS == "case", BMI, strict=True)), [("event", "?"), ("t", "f8")])
    assert select(X, records).attrs["n_events"] == (STATUS == "case").sum()
    assert ranks(select(X, records["event"])) == ranks(select(X, STATUS))
    with pytest.raises(
        InputError, match=r"records with the fields 't', 'u'\. Pass one field: y\['t'\]"
    ):
        select(X, np.zeros(M, [("t", "f8"), ("u", "f8")]))


def test_weights_of_samples_are_refused_with_what_is_possible():
    y, weights = STATUS == "case", 1.0 + np.arange(M)
    for call in (
        lambda: dhsic.SVMRFE(2, progress=False).fit(X, y, sample_weight=weights),
        lambda: select(X, y, method="ccm", sample_weight=weights),
    ):
        with pytest.raises(InputError, match=r"sample_weight .* not .* label_kernel='balanced'"):
            call()
    select(X, y, label_kernel="balanced")
    with pytest.raises(TypeError, match="weight"):
        dhsic.BAHSIC(2).fit(X, y, weight=weights)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_is_transformed_without_its_labels(suffix, tmp_path):
    path = tmp_path / f"x.{suffix}"
    getattr(WHOLE, f"to_{suffix}")(path)
    model = dhsic.BAHSIC(2, progress=False).fit(path, "status", not_features=["bmi", "age"])
    expected = model.feature_names_in_[model.get_support()]
    assert model.transform(path)["features"].values.tolist() == expected.tolist()


def test_a_named_column_is_no_leak_and_another_with_its_values_is_told(rng, recwarn):
    frame = pd.DataFrame(rng.standard_normal((40, 4)), columns=list("abcd"))
    frame = frame.assign(status=rng.integers(0, 2, 40))

    dhsic.select(frame, "status", n_features_to_select=2, progress=False)

    assert not recwarn.list
    with pytest.warns(UserWarning, match="Column 'outcome' of X has the values of y"):
        dhsic.select(frame.assign(outcome=frame["status"]), "status", n_features_to_select=2)


@pytest.mark.filterwarnings("default:.*the labels, and so reveals them")
@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_columns_that_tell_the_labels_under_another_name_are_told(suffix, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 3
    table = pd.DataFrame(rng.standard_normal((40, 4)), columns=[*"abcd"])
    table["a"] += y
    table["code"] = np.array([7.0, 2.0, 4.0])[y]
    table["bmi"] = rng.normal(25, 3, 40)
    table["kg"] = table["bmi"]
    table["arm"] = np.array(["x", "y", "z"])[y]
    table.insert(0, "id", [f"s{i}" for i in range(40)])
    path = tmp_path / f"t.{suffix}"
    table.to_csv(path, index=False)
    options = {"n_features_to_select": 2, "progress": False}
    with pytest.warns(UserWarning, match="'code' has a different value for each class") as told:
        dhsic.select(path, "arm", **options)
    assert "not_features=['code']" in str(told[0].message)
    with pytest.warns(UserWarning, match="'kg' has the same values as the labels"):
        dhsic.select(path, "bmi", not_features=["arm"], **options)
    said = " ".join(run("test", path, "--target", "arm").stderr.split())
    remedy = said.partition("not a measurement, exclude it: ")[2].partition(".")[0].split()
    assert remedy == ["--not-feature", "code"]
    assert "and so reveals them" not in run("test", path, "--target", "arm", *remedy).stderr


def test_labels_that_name_columns_of_a_table_say_that_it_is_turned(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((5, 30)), columns=[f"s{i}" for i in range(30)])
    table.insert(0, "gene", [*"abcde"])
    table.to_csv(tmp_path / "x.csv", index=False)
    labels = pd.DataFrame({"id": table.columns[1:], "y": np.arange(30) % 2})
    labels.to_csv(tmp_path / "y.csv", index=False)
    command = ("test", tmp_path / "x.csv", "--labels", tmp_path / "y.csv", "--target", "y")
    assert "samples, pass --transpose" in " ".join(run(*command, code=2).stderr.split())
    run(*command, "--transpose")


@pytest.mark.parametrize("is_stored", [True, False])
def test_codes_with_meanings_are_classes_by_their_words(is_stored, rng, tmp_path):
    X, codes = rng.normal(size=(60, 4)), np.repeat([-1, 0, 1, 2], 15).astype("i1")
    about = {"flag_values": [-1, 0, 1, 2], "flag_meanings": "not_available lo mid hi_risk"}
    data = xr.Dataset({"x": (("sample", "gene"), X), "y": ("sample", codes, about)})
    path = tmp_path / "x.zarr"
    data.to_zarr(path, consolidated=False)
    where = path if is_stored else data
    with pytest.raises(InputError, match=r"15 of 60 values of .* are 'not available'"):
        dhsic.test_features(where, "y", variable="x")
    words = ["not available", "lo", "mid", "hi risk"]
    assert dhsic.read_target(where, "y").tolist() == np.repeat(words, 15).tolist()
    said = run("test", path, "--variable", "x", "--target", "y", "--na", "y=not available",
               "--drop-missing").output  # fmt: skip
    assert "3 classes hi risk (15), lo (15), mid (15)" in " ".join(said.split())
    incomplete = data.assign(y=("sample", codes, {**about, "flag_meanings": "lo hi"}))
    assert dhsic.read_target(incomplete, "y").tolist() == codes.tolist()


@pytest.mark.parametrize("first", [0, 1980])
def test_columns_that_are_called_by_numbers_are_names_and_may_not_hold_the_labels(rng, first):
    X = rng.standard_normal((60, 8)).round(3)
    X[:, 7] = X[:, 2] + X[:, 5]
    frame = pd.DataFrame(X, columns=range(first, first + 8))
    name = first + 7

    result = dhsic.select(frame, name, n_features_to_select=2)
    assert {2, 5} == set(np.flatnonzero(result["selected"].to_numpy()))
    assert result.sizes["features"] == 7
    for labels in (frame[name], frame[name].to_numpy()):
        with pytest.raises(InputError, match=f"Column {name} of X has the values of y"):
            dhsic.select(frame, labels, n_features_to_select=2)
    again = dhsic.select(frame.drop(columns=name), frame[name], n_features_to_select=2)
    np.testing.assert_array_equal(again["rank"], result["rank"])
    assert dhsic.test_features(frame, name).p_values.argmin() in (2, 5)
    with pytest.raises(InputError, match=f"called by numbers: pass {name} without quotes"):
        dhsic.select(frame, str(name))
    with pytest.raises(InputError, match="has no column 2077"):
        dhsic.select(frame, 2077)
