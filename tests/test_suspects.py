"""Features at the top of a ranking that are no measurements: labels again, numbers of samples."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import run

import dhsic
from dhsic.errors import InputError
from dhsic.selection.suspects import (
    is_binned,
    is_code,
    is_nearly_code,
    is_same_order,
    is_same_scale,
)

M, D = 60, 30
RNG = np.random.default_rng(7)
AGE = RNG.normal(50, 10, M).round(2)
ILL = np.sort(RNG.random(M) < 0.5)
NAMES = [f"s{i}" for i in range(M)]


select = partial(dhsic.select, n_features_to_select=3)


def frame(**columns):
    X = pd.DataFrame(
        RNG.normal(size=(M, D)),
        columns=[f"g{i}" for i in range(D)],
        index=pd.Index(NAMES, name="id"),
    )
    X["g5"] += 2 * ILL
    return X.assign(**columns)


def written(folder, X):
    """The same matrix in every format, by the option that leaves out its last column."""
    values, names = X.to_numpy(float), X.columns.to_numpy(object)
    X.to_csv(folder / "x.csv")
    X.to_parquet(folder / "x.parquet")
    X.reset_index().to_feather(folder / "x.feather")
    np.save(folder / "x.npy", values)
    np.savez(folder / "x.npz", X=values)
    zarr.save_array(str(folder / "a.zarr"), values)
    ds = xr.Dataset(
        {"X": (("sample", "gene"), values)},
        coords={"sample": np.array(NAMES, object), "gene": names},
    )
    ds.to_zarr(folder / "x.zarr", consolidated=False)
    last = len(names) - 1
    named = dict.fromkeys(("x.csv", "x.parquet", "x.feather", "x.zarr"), names[-1])
    return named | dict.fromkeys(("x.npy", "x.npz", "a.zarr"), last)


def labels(folder, **columns):
    pd.DataFrame({"id": NAMES, **columns}).to_csv(folder / "y.csv", index=False)
    return ("--labels", "y.csv", "--target", next(iter(columns)))


@pytest.mark.parametrize("command", ["select", "test"])
@pytest.mark.parametrize(
    ("column", "y"),
    [
        (AGE * 12, AGE),
        (-(AGE - AGE.mean()) / AGE.std(), AGE),
        (((AGE - AGE.mean()) / AGE.std()).round(3), AGE),
        (np.where(ILL, 3.0, 7.0), np.where(ILL, "case", "control")),
    ],
    ids=["months", "turned z", "rounded z", "code"],
)
@pytest.mark.filterwarnings("default")
def test_labels_again_are_told_in_every_format_and_the_option_leaves_them_out(
    column, y, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    options = labels(tmp_path, y=y)
    for name, said in written(tmp_path, frame(twin=column)).items():
        place = () if isinstance(said, str) else ("--by-position",)
        words = (command, name, *options, *place, "-n", 2)
        told = " ".join(run(*words).stderr.split())
        assert told.count("Warning:") == 1, (name, told)
        assert f"--not-feature {said}" in told, (name, told)
        beside = " ".join(run(*words, "--not-feature", said).stderr.split())
        assert "Warning" not in beside, (name, beside)
        assert f"{M} samples x {D} features" in beside, (name, beside)


def test_labels_again_are_told_of_frames_and_arrays():
    X = frame(twin=AGE / 3.7 + 4)
    for data, remedy in (
        (X, r"not_features=\['twin'\]"),
        (X.to_numpy(), rf"numpy.delete\(X, \[{D}\], axis=1\)"),
    ):
        for function in (select, dhsic.test_features):
            with pytest.warns(UserWarning, match=remedy) as told:
                function(data, AGE)
            assert told[0].filename == __file__
    select(X, AGE, not_features=["twin"])
    select(np.delete(X.to_numpy(), [D], axis=1), AGE)
    with pytest.raises(InputError, match=r"numpy\.delete"):
        select(X.to_numpy(), AGE, not_features=["twin"])


def test_labels_again_are_told_of_each_target_and_class():
    X = frame(twin=AGE * 2, code=np.where(ILL, 1.0, 4.0))
    with pytest.warns(UserWarning, match="^age: |^ill: ") as told:
        select(X, {"age": AGE, "ill": ILL.astype(int)}, per_target=True)
    assert {str(one.message).partition(":")[0] for one in told} == {"age", "ill"}
    with pytest.warns(UserWarning, match=r"^True: 'code'.* one distinct value|^False: 'code'"):
        select(X[["g1", "g5", "code"]], ILL, per_class=True)


BENT = {
    "whole numbers": (10.93 * AGE - 23.5).round(),
    "a tenth": (AGE * 0.7 + 3).round(1),
    "logarithm": np.log(AGE).round(3),
    "square": AGE**2,
    "falling": 1000 / AGE,
    "ranks": AGE.argsort().argsort() + 0.5,
    "classes of width 2": AGE // 2,
}


@pytest.mark.parametrize("name", BENT)
def test_labels_that_were_rounded_ranked_or_transformed_are_told(name):
    said = "'twin', among the best features, (has the same order as the labels|equals the labels)"
    with pytest.warns(UserWarning, match=said):
        dhsic.test_features(frame(twin=BENT[name]), AGE)


@pytest.mark.parametrize("pattern", ["falls in threes", "rises in fractions", "seconds"])
@pytest.mark.filterwarnings("default")
def test_numbers_that_fall_or_rise_in_fractions_are_told_and_left_out(
    pattern, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    column = {
        "falls in threes": 450 - 3 * np.arange(M),
        "rises in fractions": (12.5 * np.arange(M) + RNG.random(M)).round(2),
        "seconds": 1.7e9 + 41.25 * np.arange(M),
    }[pattern]
    frame(order=column).to_csv("x.csv")
    words = ("test", "x.csv", *labels(tmp_path, ill=np.where(ILL, "case", "control")), "-n", 2)
    told = " ".join(run(*words).stderr.split())
    assert "'order', among the best features" in told
    assert "may only encode the order of the samples" in told
    assert "Warning" not in run(*words, "--not-feature", "order").stderr


def test_only_one_order_of_fine_values_is_told():
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    assert is_same_order(y.round(1), y)
    assert is_same_order(y.round(1), y.round(2))
    assert not is_same_order((y > 0) * 1.0, y)  # two groups
    assert not is_same_order(y + rng.normal(0, 0.01, 200), y)
    assert not is_same_order(np.ones(200), y)
    assert not is_same_order(y, np.where(y > 0, "a", "b"))
    assert not is_same_order(y, (y > 0).astype(int))


PARTS = {
    "tertiles": (pd.qcut(AGE, 3, labels=False), AGE, "divides the labels into groups"),
    "a limit": ((AGE < 52) * 1.0, AGE, "divides the labels into groups"),
    "classes": (np.where(np.arange(M) % 30 == 4, ~ILL, ILL) * 2.0, ILL, "with a few errors"),
    "names": (
        np.where(np.arange(M) == 9, ~ILL, ILL) + 1.0,
        np.where(ILL, "case", "control"),
        "with a few errors",
    ),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("command", ["select", "test"])
@pytest.mark.filterwarnings("default")
def test_parts_of_the_labels_and_copies_with_errors_are_told(name, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    column, y, said = PARTS[name]
    frame(part=column).to_csv("x.csv")
    frame(part=column).to_parquet("x.parquet")
    for file in ("x.csv", "x.parquet"):
        words = (command, file, *labels(tmp_path, y=np.asarray(y)), "-n", 2)
        told = " ".join(run(*words).stderr.split())
        assert "'part', among the best features, " in told
        assert said in told
        assert "--not-feature part" in told
        again = run(*words, "--not-feature", "part").stderr
        assert "Warning" not in again


def test_groups_of_ordinary_features_are_no_parts_of_the_labels():
    rng = np.random.default_rng(4)
    y, classes = rng.normal(size=80), rng.random(80) < 0.5
    for _ in range(200):
        x = np.digitize(y + rng.normal(0, 0.5, 80), [-0.5, 0.5]).astype(float)
        assert not is_binned(x, y, 50)
        assert not is_nearly_code(1.0 * (rng.random(80) < 0.2 + 0.6 * classes), classes, 50)
    rare = 1.0 * (y == y.max())
    assert not is_binned(rare, y, 50)  # a single sample may be the largest by chance
    few = np.arange(14) % 2
    assert not is_nearly_code(np.where(np.arange(14) == 3, 1 - few, few) * 1.0, few, 20_000)


def test_what_is_measured_is_no_suspect():
    noisy = AGE * 12 + RNG.normal(0, 2, M)
    assert np.corrcoef(noisy, AGE)[0, 1] > 0.999
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select(frame(noisy=noisy, square=(AGE - 50) ** 2), AGE)
        select(frame(nearly=np.where(np.arange(M) % 12 == 4, ~ILL, ILL) * 2.0), ILL)
        counts = RNG.poisson(30, (M, 8)).astype(float)  # counts of genes
        select(counts, ILL)
        select(RNG.integers(0, 3, (M, 40)), RNG.integers(0, 3, M))


def test_few_samples_are_told_apart_from_many_features_by_chance():
    y = np.arange(20) % 2
    assert is_code(y * 3.0, y, 3)
    assert not is_code(y * 3.0, y, 100_000)  # one of so many is one for each class by chance
    assert not is_same_scale(np.arange(10.0), np.arange(10.0))  # too few


@pytest.mark.parametrize("command", ["select", "test"])
@pytest.mark.parametrize("name", ["z.npy", "z.zarr"])
@pytest.mark.filterwarnings("default")
def test_numbers_of_samples_that_rank_first_are_told(name, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = frame(**{"Unnamed: 0": np.arange(M), "date": 20200101 + 3 * np.arange(M)})
    options = labels(tmp_path, ill=np.where(ILL, "case", "control"))
    if name == "z.npy":
        np.save(name, X.to_numpy(float))
        options, said = (*options, "--by-position"), (f"{D}", f"{D + 1}")
    else:
        xr.Dataset(
            {"X": (("sample", "gene"), X.to_numpy(float))},
            coords={"sample": np.array(NAMES, object), "gene": X.columns.to_numpy(object)},
        ).to_zarr(name, consolidated=False)
        said = ("'Unnamed: 0'", "date")
    words = (command, name, *options, "-n", 2)
    told = " ".join(run(*words).stderr.split())
    assert "may only encode the order of the samples" in told
    assert f"--not-feature {said[0]} --not-feature {said[1]}" in told
    without = [part for one in said for part in ("--not-feature", one.strip("'"))]
    assert "Warning" not in run(*words, *without).stderr


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (20200101 + 3 * np.arange(M), "increase from each sample to the next"),
        (1.7e9 + 86400.0 * np.arange(M), "increase from each sample to the next"),
        (RNG.permutation(M) + 1, "leave no gaps"),
        (np.arange(M)[::-1], "leave no gaps"),
        (RNG.permutation(M) + 1.0, "leave no gaps"),
    ],
    ids=["dates", "timestamps", "order", "falling", "floats"],
)
def test_numbers_of_rows_are_refused_in_frames_and_typed_tables(column, sentence, tmp_path):
    X = frame(run_order=column)
    for name in ("x.parquet", "x.feather"):
        getattr(X.reset_index(), f"to_{name[2:]}")(tmp_path / name)
        with pytest.raises(InputError, match=rf"{sentence}.*not_features=\['run_order'\]"):
            select(tmp_path / name, ILL)
        select(tmp_path / name, ILL, not_features=["run_order"])
    with pytest.raises(InputError, match=rf"{sentence}.*X.drop\(columns=\['run_order'\]\)"):
        select(X, ILL)
    select(X.drop(columns=["run_order"]), ILL)


def test_whole_numbers_that_are_measured_are_taken(tmp_path):
    counts = pd.DataFrame(RNG.poisson(200, (M, 12)), columns=[f"c{i}" for i in range(12)])
    ranks = pd.DataFrame({f"r{i}": RNG.permutation(M) + 1 for i in range(6)})
    sums = pd.DataFrame(np.cumsum(RNG.poisson(9, (M, 6)) + 1, axis=0), columns=[*"abcdef"])
    for numbers in (counts, ranks, sums):
        X = numbers.set_index(pd.Index(NAMES, name="id"))
        X.to_parquet(tmp_path / "x.parquet")
        for data in (X, tmp_path / "x.parquet"):
            assert dhsic.open_source(data).n_features == X.shape[1]


def test_features_of_stores_are_left_out_by_name_and_others_by_position(tmp_path):
    X = frame()
    written(tmp_path, X)
    for name, said in (("x.zarr", ["g2", "g0"]), ("x.npy", [2, 0]), ("a.zarr", ["2", "0"])):
        source = dhsic.open_source(tmp_path / name, not_features=said, n_samples=M)
        values = source.read(source.blocks(D)[0])
        np.testing.assert_array_equal(values[:, :2], X[["g1", "g3"]].to_numpy())
        assert source.n_features == D - 2
        with pytest.raises(InputError, match=r"'gg2'.* is not a feature of X.* Leave it out"):
            dhsic.open_source(tmp_path / name, not_features=["gg2"], n_samples=M)
    model = dhsic.BAHSIC(3).fit(tmp_path / "x.npy", ILL, not_features=[5])
    assert model.transform(tmp_path / "x.npy").shape == (M, 3)
    assert model.result_.attrs["left_out"] == "{}"


def test_positions_that_start_again_on_each_plate_are_told():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30))
    y = np.sort(rng.standard_normal(200))
    X[:, 4] = np.tile(np.arange(100), 2)
    with pytest.warns(UserWarning, match="Feature 4, among the best .* like row numbers"):
        dhsic.select(X, y, n_features_to_select=5, progress=False)
