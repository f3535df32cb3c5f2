"""Rows counted from 0 or 1 or in another order, labels among features, and codes in columns."""

import re
import shlex
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from advice import Advice, follow, message_of
from commands import run, told

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.joins.covariates import may_be_codes
from dhsic.joins.text import repeated_extreme

M, D = 60, 12
RNG = np.random.default_rng(7)
X = RNG.normal(size=(M, D)).round(4)
FRAME = pd.DataFrame(X, columns=[f"g{j}" for j in range(D)])
Y = (3 * X[:, 4] + 0.2 * RNG.normal(size=M)).round(4)
#: Rows of shuffled tables.
ORDER = RNG.permutation(M)
TEST = ("--target", "y", "-n", "2", "--no-progress")
OTHER_START = "numbers its rows"


def named(start, prefix=""):
    """Names that count the samples."""
    return [f"{prefix}{i}" if prefix else i for i in range(start, start + M)]


def write_data(path, names=None):
    data = FRAME.copy()
    if names is not None:
        data.insert(0, "id", names)
    data.to_csv(path, index=False)
    return path


def labels(names, column="id", order=None, **others):
    table = pd.DataFrame({column: names, "y": Y, **others})
    return table if order is None else table.iloc[order]


def write_labels(path, *args, **options):
    labels(*args, **options).to_csv(path, index=False, sep="\t")
    return path


def best(*words):
    """Name of the first feature that a command lists."""
    lines = run(*words).stdout.splitlines()
    return next(line.split()[1] for line in lines if line.split()[:1] == ["1"])


def association(data, target, **options):
    return dhsic.test_features(data, target, **options)


def first_of(result):
    return int(np.argmin(result.p_values))


# -- counted from 0 and from 1 ---------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "s"])
@pytest.mark.parametrize("starts", [(0, 1), (1, 0)])
@pytest.mark.parametrize("order", [None, ORDER])
def test_names_counted_from_0_and_from_1_are_refused(starts, prefix, order, tmp_path):
    data = write_data(tmp_path / "x.csv", named(starts[0], prefix))
    table = write_labels(tmp_path / "y.tsv", named(starts[1], prefix), order=order)
    words = ("test", data, "--labels", table, *TEST)
    ranges = [f"from {prefix}{start} to {prefix}{start + M - 1}" for start in starts]
    for more in ((), ("--drop-missing",), ("--drop-missing", "--sample-column", "id")):
        said = told(run(*words, *more, code=2))
        assert OTHER_START in said
        assert all(each in said for each in ranges)
        assert f"remove sample {prefix}0" in said


@pytest.mark.parametrize("prefix", ["", "s"])
def test_the_command_that_counts_anew_gives_labels_of_each_sample(prefix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = write_data("x.csv", named(0, prefix))
    words = ("test", data, *TEST, "--labels")
    said = told(run(*words, write_labels("y.tsv", named(1, prefix), order=ORDER), code=2))
    command = re.search(r'make the names the same: python (-c ".*?"), then pass NEW.csv', said)
    assert command, said
    subprocess.run([sys.executable, *shlex.split(command[1])], check=True)
    assert best(*words, "NEW.csv") == "g4"


def test_equal_numbers_are_the_same_sample_if_sample_0_is_removed(tmp_path):
    data = write_data(tmp_path / "x.csv", named(0))
    table = labels(named(0)).iloc[1:]  # sample 0 has no label, and 60 is not in the data
    table = pd.concat([table, pd.DataFrame({"id": [M], "y": [0.0]})])
    table.to_csv(tmp_path / "y.tsv", index=False, sep="\t")
    words = ("test", data, "--labels", tmp_path / "y.tsv", *TEST, "--drop-missing")
    assert "remove sample 0 from the data" in told(run(*words, code=2))
    (tmp_path / "out.txt").write_text("0\n")
    assert best(*words, "--remove", tmp_path / "out.txt") == "g4"


@pytest.mark.parametrize(
    "table", [labels(named(0)).iloc[1:], labels(named(0)).iloc[:50], labels(named(0)).iloc[7:40]]
)
def test_a_range_within_the_other_is_matched_by_number(table, tmp_path):
    data = write_data(tmp_path / "x.csv", named(0))
    table.to_csv(tmp_path / "y.tsv", index=False, sep="\t")
    words = ("test", data, "--labels", tmp_path / "y.tsv", *TEST)
    assert best(*words, "--drop-missing") == "g4"


def test_more_labels_than_samples_are_matched_by_number(tmp_path):
    data = FRAME.assign(id=named(0)).iloc[1:40].set_index("id")
    data.to_csv(tmp_path / "x.csv")
    table = write_labels(tmp_path / "y.tsv", named(0))
    assert best("test", tmp_path / "x.csv", "--labels", table, *TEST) == "g4"


def test_the_ends_of_families_are_compared_too(tmp_path):
    data = write_data(tmp_path / "x.csv", [f"{i}_{i}" for i in named(0)])
    table = labels(named(1), "IID")
    table.insert(0, "FID", table["IID"])
    table.to_csv(tmp_path / "y.tsv", index=False, sep="\t")
    words = ("test", data, "--labels", tmp_path / "y.tsv", *TEST, "--drop-missing")
    assert OTHER_START in told(run(*words, code=2))


@pytest.mark.parametrize(
    ("index", "target"),
    [
        (named(1), labels(named(0))),
        (named(1), pd.Series(Y, named(0))),
        (named(0), pd.Series(Y, named(1))),
        (named(1, "s"), labels(named(0, "s"))),
    ],
)
def test_frames_counted_from_0_and_from_1_are_refused(index, target):
    with pytest.raises(InputError, match=f"{OTHER_START}|, and the index of "):
        association(FRAME.set_axis(index), target)


def test_a_frame_counted_anew_is_matched():
    data, target = FRAME.set_axis(named(1)), labels(named(0), order=ORDER)
    pattern = r"make the names the same: Y\['id'\] = (?P<code>Y\['id'\]\.astype\(int\) \+ 1)\."
    with pytest.raises(InputError, match=pattern) as raised:
        association(data, target)
    message = re.search(pattern, str(raised.value))
    target["id"] = eval(message["code"], {"Y": target})
    assert first_of(association(data, target)) == 4


# -- numbered in another order ---------------------------------------------------------------------


@pytest.mark.parametrize("column", ["nr", "order", "Record no."])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("form", ["npy", "csv"])
def test_a_table_in_another_order_than_its_numbers_is_refused(column, start, form, tmp_path):
    data = tmp_path / f"x.{form}"
    np.save(data, X) if form == "npy" else write_data(data)
    table = write_labels(tmp_path / "y.tsv", named(start), column, ORDER)
    words = ("test", data, "--labels", table, *TEST)
    said = told(run(*words, code=2))
    assert f"Column {column!r} of {table} numbers the rows, but in another order" in said
    # the remedies
    pd.read_table(table).sort_values(column).to_csv(table, index=False, sep="\t")
    assert best(*words) == ("4" if form == "npy" else "g4")
    table = write_labels(tmp_path / "z.tsv", named(start), column, ORDER)
    run("test", data, "--labels", table, *TEST, "--by-position")


def test_removed_rows_leave_gaps_in_the_numbers(tmp_path):
    kept = np.setdiff1d(np.arange(M), [3, 10, 11])
    np.save(tmp_path / "x.npy", X[kept])
    table = labels(named(1), "nr").iloc[kept]
    words = ("test", tmp_path / "x.npy", "--labels", tmp_path / "y.tsv", *TEST)
    table.to_csv(tmp_path / "y.tsv", index=False, sep="\t")
    assert best(*words) == "4"
    table.sample(frac=1, random_state=1).to_csv(tmp_path / "y.tsv", index=False, sep="\t")
    assert "numbers the rows, but in another order" in told(run(*words, code=2))


def test_covariates_in_another_order_are_refused_and_values_are_not_numbers(tmp_path):
    data, table = write_data(tmp_path / "x.csv"), write_labels(tmp_path / "y.tsv", named(1), "nr")
    covariates = labels(named(1), "nr", ORDER).rename(columns={"y": "age"})
    covariates.to_csv(tmp_path / "c.tsv", index=False, sep="\t")
    words = ("test", data, "--labels", table, *TEST, "--covariates", tmp_path / "c.tsv")
    assert "Column 'nr' of" in told(run(*words, code=2))
    ranks = write_labels(tmp_path / "r.tsv", named(1), "nr", severity=np.argsort(ORDER))
    words = ("test", data, "--labels", ranks, "--no-progress", "-n", 2, "--target")
    run(*words, "y", "--covariate", "severity")
    run(*words, "severity", "--covariate", "y")


@pytest.mark.parametrize("start", [0, 1])
def test_a_shuffled_index_is_refused_if_x_has_no_names(start):
    target = pd.Series(Y, named(start)).iloc[ORDER]
    pattern = r"The index of Y has the numbers from"
    with pytest.raises(InputError, match=pattern):
        association(X, target)
    with pytest.raises(InputError, match=pattern):
        association(X, target.to_frame("y"))
    association(X, Y, covariates=pd.Series(Y[::-1]))
    with pytest.raises(InputError, match="The index of covariates has the numbers from"):
        association(X, Y, covariates=target)
    expected = association(X, Y).p_values
    given = association(X, target.sort_index()).p_values
    np.testing.assert_array_equal(given, expected)
    assert first_of(association(X[ORDER], target.to_numpy())) == 4  # the other remedy


def test_part_of_an_index_is_matched_by_position():
    part = ORDER[:45]  # of train_test_split
    target = pd.Series(Y).iloc[part]
    np.testing.assert_array_equal(
        association(X[part], target).p_values, association(X[part], Y[part]).p_values
    )


def test_a_frame_with_numbers_in_another_order_is_refused():
    target = labels(named(1), "nr", ORDER).reset_index(drop=True)
    with pytest.raises(InputError, match="Column 'nr' of Y numbers the rows, but in another order"):
        association(X, target)


# -- labels among the features ---------------------------------------------------------------------


def test_a_frame_of_labels_that_holds_a_feature_is_refused():
    target = pd.DataFrame({"y": Y, "g5": FRAME["g5"]})
    with pytest.raises(InputError, match="'g5' is also a column of X"):
        association(FRAME, target)
    with pytest.raises(InputError, match="'g5' is also a column of X"):
        dhsic.select(FRAME, target, progress=False)
    message, _ = message_of(association, data=FRAME, target=target.rename(columns={"g5": "trait"}))
    assert "Column 'g5' of X has the values of Y" in message
    with pytest.raises(InputError, match="Column 'g5' of X has the values of Y"):
        association(FRAME, target.to_numpy())


def test_labels_with_the_name_of_a_feature_of_xarray_are_refused():
    data = xr.DataArray(X, dims=("sample", "gene"), coords={"gene": list(FRAME)})
    pattern = r"Remove it from X: (?P<code>X\.drop_sel\(gene='g4'\))"
    advice = Advice(association, {"data": data, "target": pd.Series(Y, name="g4")}, pattern, "data")
    follow(advice)


# -- codes for missing values ----------------------------------------------------------------------

TIMES = np.sort(RNG.exponential(20, 200))


@pytest.mark.parametrize("code", [0.0, -5.0, 120.0, 500.0, 1000.0])
@pytest.mark.filterwarnings("default")
def test_many_equal_values_far_from_all_others_give_a_warning(code, tmp_path):
    values = (50 + 3 * Y).round(3)
    values[:8] = code
    data = write_data(tmp_path / "x.csv", named(0, "s"))
    labels(named(0, "s"), y=values).to_csv(tmp_path / "y.tsv", index=False, sep="\t")
    words = ("test", data, "--labels", tmp_path / "y.tsv", *TEST)
    said = told(run(*words))
    assert f"8 of {M} values of 'y' are {code:.0f}, far" in said
    na = re.search(r"pass (--na y=\S+ --drop-missing)", said)
    again = run(*words, *shlex.split(na[1]))
    assert "Warning" not in again.stderr
    assert f"8 of {M} samples excluded" in told(again)
    assert "Warning" not in run(*words, "--not-na", f"{code:.0f}").stderr
    with pytest.warns(
        UserWarning, match=rf"values of Y are {code:.0f}, far .* keep = Y != {code:.0f};"
    ):
        association(X, values)


@pytest.mark.parametrize(
    "values",
    [
        np.append(np.zeros(60), TIMES),  # zeros next to other values
        np.minimum(TIMES, np.quantile(TIMES, 0.7)),  # end of follow-up
        np.maximum(TIMES, np.quantile(TIMES, 0.3)),  # detection limit
        np.append(np.full(60, TIMES.min() / 2), TIMES),  # half of a detection limit
        np.repeat([1.0, 2.0, 3.0, 10.0], 50),  # levels
        np.append(TIMES, [4000.0] * 4),  # few
        RNG.poisson(2, 300).astype(float),
        RNG.negative_binomial(1, 0.02, 300).astype(float),
        np.append(np.arange(20.0, 90), [90.0] * 30),
    ],
)
def test_limits_zeros_and_levels_give_no_warning(values):
    assert repeated_extreme(values) is None


# -- covariates that are codes ---------------------------------------------------------------------


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", ["select", "test", "pairs"])
def test_codes_that_are_used_as_numbers_are_said_so(command, tmp_path):
    columns = {"site": np.resize([1.1, 1.2, 2.1], M), "plate": np.resize(np.arange(1, 41), M)}
    data = write_data(tmp_path / "x.csv", named(0, "s"))
    table = write_labels(tmp_path / "y.tsv", named(0, "s"), **columns, age=np.resize(X[:4, 0], M))
    chosen = ("--covariate", "site", "--covariate", "plate", "--covariate", "age")
    words = (command, data, "--labels", table, "--target", "y", *chosen, "-n", 2)
    said = " ".join(run(*words).output.split())
    assert "covariate 'site' has 3 distinct numbers from 1.1 to 2.1 and is used as a number" in said
    assert "'plate' has 40 distinct whole numbers from 1 to 40" in said
    assert "covariate 'age'" not in said
    said = run(*words, "--category", "site", "--category", "plate").output
    assert "is used as a number" not in " ".join(said.split())


def test_codes_in_frames_give_a_warning_and_their_groups_other_scores():
    plate = pd.DataFrame({"plate": np.resize(np.arange(1, 21), M)})
    y = Y + 20 * (plate["plate"] % 3 == 0)
    with pytest.warns(UserWarning, match=r"'plate' has 20 .* frame.astype\(\{'plate': 'category'"):
        as_number = association(X, y, covariates=plate)
    as_groups = association(X, y, covariates=plate.astype({"plate": "category"}))
    assert as_groups.p_values[4] < 1e-3 * as_number.p_values[4]
    with pytest.warns(UserWarning, match="Covariate 'part' has 3 distinct numbers"):
        association(X, Y, covariates=pd.DataFrame({"part": np.resize([1.1, 1.2, 2.1], M)}))


@pytest.mark.parametrize("values", [[36.5, 36.9, 37.0], [0.5, 1, 2.5], [1, 2, 3], [0.1, 0.2, 1.1]])
def test_measurements_of_few_values_give_no_warning(values):
    association(X, Y, covariates=pd.DataFrame({"value": np.resize(np.array(values), M)}))


def test_plates_are_codes_only_by_their_name():
    assert may_be_codes(np.resize(np.arange(40), M), "Plate")
    assert not may_be_codes(np.resize(np.arange(40), M), "age")
    assert not may_be_codes(np.arange(M), "plate")  # each sample has its own


# -- genotypes counted from 1 ----------------------------------------------------------------------

GENOTYPES = RNG.binomial(2, 0.4, (M, D)) + 1
CALLED = np.where(RNG.random((M, D)) < 0.04, 0, GENOTYPES)


@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_genotypes_counted_from_1_have_0_for_missing(dtype, tmp_path):
    y = GENOTYPES[:, 4] + 0.1 * Y
    advice = Advice(
        association,
        {"data": CALLED.astype(dtype), "target": y},
        r"0 is a missing call, pass (?P<name>missing_code)=(?P<value>0)\.",
    )
    follow(advice)
    declared = association(CALLED.astype(dtype), y, missing_code=0)
    masked = association(np.where(CALLED == 0, np.nan, CALLED), y)
    np.testing.assert_allclose(declared.p_values, masked.p_values)
    np.save(tmp_path / "x.npy", CALLED.astype(dtype))
    path = tmp_path / "x.npy"
    said = " ".join(run("inspect", path).stdout.split())
    assert "and 0 is a missing call, pass --missing-code 0. If 3 means missing" in said
    said = " ".join(run("inspect", path, "--missing-code", 0).stdout.split())
    assert "1, 2 and 3, which are treated as numbers; if they are genotypes, subtract 1" in said


def test_other_codes_beside_0_are_declared_with_it():
    values = CALLED.copy()
    values[5, 3] = -9
    with pytest.raises(DataError, match=re.escape("pass missing_code=[0, -9].")):
        association(values, Y)
    association(values, Y, missing_code=[0, -9])


def test_genotypes_counted_from_1_without_missing_calls_rank_as_from_0():
    y = GENOTYPES[:, 4] + 0.1 * Y
    from_one, from_zero = association(GENOTYPES, y), association(GENOTYPES - 1, y)
    np.testing.assert_allclose(from_one.p_values, from_zero.p_values, rtol=1e-6)


# -- dosages of haploid males in .raw tables -------------------------------------------------------


def raw_table(path, *, single, n_on_x=8, seed=5, m=240):
    """Write a .raw table whose last features are on X, where males count 0 and `single`."""
    rng, d = np.random.default_rng(seed), 40
    sex = rng.integers(1, 3, m)
    dosages = rng.binomial(2, 0.45, (m, d))
    on_x = np.arange(d) >= d - n_on_x
    haploid = single * rng.binomial(1, 0.45, (m, d))
    dosages = np.where(on_x & (sex == 1)[:, None], haploid, dosages)
    names = [f"s{i}" for i in range(m)]
    table = pd.DataFrame({"FID": names, "IID": names, "PAT": 0, "MAT": 0, "SEX": sex})
    table["PHENOTYPE"] = (2.0 * (sex == 1) + rng.normal(size=m)).round(4)
    genotypes = pd.DataFrame(dosages, columns=[f"rs{j}_A" for j in range(d)])
    pd.concat([table, genotypes], axis=1).to_csv(path, sep=" ", index=False)
    return path


def test_males_that_count_0_or_1_are_said_and_sex_removes_their_features(tmp_path):
    path = raw_table(tmp_path / "x.raw", single=1)
    note = "in at least 8 features (rs32_A, rs33_A, rs34_A, ... (8 in all)), males (SEX 1) count 0"
    assert note in " ".join(run("inspect", path).stdout.split())
    words = ("test", path, "--target", "PHENOTYPE", "-n", "40", "--no-progress")
    alone = run(*words)
    assert note in told(alone)
    assert "pass --covariate SEX" in told(alone)

    def hits(result):
        return int(re.search(r"- (\d+) of 40 features have q <= 0.05", told(result))[1])

    assert hits(alone) == 6
    assert hits(run(*words, "--covariate", "SEX")) == 0


def test_few_males_that_count_0_or_1_are_said(tmp_path):
    path = raw_table(tmp_path / "x.raw", single=1, n_on_x=20, m=60)
    assert "males (SEX 1) count 0 or 1" in " ".join(run("inspect", path).stdout.split())


@pytest.mark.parametrize(("single", "n_on_x"), [(2, 14), (1, 0), (1, 2)])
def test_other_tables_have_no_such_note(single, n_on_x, tmp_path):
    path = raw_table(tmp_path / "x.raw", single=single, n_on_x=n_on_x)
    assert "males (SEX 1) count 0 or 1" not in " ".join(run("inspect", path).stdout.split())


# -- row numbers with slips ------------------------------------------------------------------------


def with_a_blank(rows):
    return np.where(rows == 7, np.nan, rows)


def with_a_slip(rows):
    return np.where(rows == 7, 700, rows)


def in_boxes(rows):
    return rows // 10


@pytest.mark.parametrize("spoilt", [with_a_blank, with_a_slip, in_boxes])
def test_numbers_that_nearly_follow_the_rows_are_said(spoilt):
    rng, m = np.random.default_rng(3), 160
    y = np.arange(m) >= m // 2
    data = pd.DataFrame(rng.normal(size=(m, 9)) + y[:, None] * [0, 0, 1, *[0] * 6]).add_prefix("g")
    data["case_no"] = spoilt(np.arange(1.0, m + 1))
    with pytest.warns(UserWarning, match="'case_no', among the best features, looks like row"):
        association(data, y)
    shuffled = rng.permutation(m)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        association(data.drop(columns="case_no").iloc[shuffled], y[shuffled])


def test_covariates_far_from_all_others_are_said():
    rng, m = np.random.default_rng(3), 160
    ages = rng.integers(30, 80, m).astype(float)
    ages[[3, 9]] = 720
    with pytest.warns(UserWarning, match="2 values of covariates lie extremely far from all"):
        association(rng.normal(size=(m, 4)), rng.normal(size=m), covariates=ages[:, None])
