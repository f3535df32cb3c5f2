"""Ordinary ways to write values, as text or numbers: genotypes, categories, check boxes, codes."""

import gzip
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import run
from scipy.stats import zscore

import dhsic
from dhsic.errors import DataError, InputError

M = 60
RNG = np.random.default_rng(4)
NAMES = pd.Index([f"s{i:02d}" for i in range(M)], name="id")
X = pd.DataFrame(RNG.normal(size=(M, 5)).round(3), NAMES, [f"n{i}" for i in range(5)])
Y = RNG.normal(size=M)
COLOURS = RNG.choice(["red", "green", "blue"], M).astype(object)


def values_of(path, **options):
    source = dhsic.open_source(path, **options)
    (block,) = source.blocks(source.n_features)
    return pd.DataFrame(source.read(block), columns=source.feature_names())


def refusal(data, **options):
    with pytest.raises(InputError) as error:
        dhsic.open_source(data, **options)
    return str(error.value)


def followed(sentence, *, in_shell=False):
    """Run the command of a sentence; it writes NEW.csv."""
    code = re.search(r'python( -c ".*?")', sentence)[1]
    if in_shell:
        subprocess.run(["bash", "-c", shlex.quote(sys.executable) + code], check=True)
    else:  # the same in this process, which is faster
        assert not {*code} & {*"$`!"}
        exec(shlex.split(code)[1], {})


def assigned(sentence, data, pattern):
    """Run the statement on X that follows a text of a sentence."""
    names = {"X": data.copy(), "pandas": pd, "numpy": np}
    exec(re.search(rf"{pattern}(X\b.*? = .*?\))\.( |$)", sentence)[1], names)
    return names["X"]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Categories ------------------------------------------------------------------------------------


def with_missing_colours():
    table = X.astype(object).assign(colour=COLOURS, shade=RNG.choice(["dark", "light"], M))
    for i, missing in enumerate(["", "NA", "nan", "?", "n/a", " "]):
        table.iloc[i + 1, 5] = missing
    table.iloc[0, 6] = "unknown"
    table.iloc[2, 1] = "?"
    return table


@pytest.mark.parametrize("na", [("?", "unknown"), ("?", "shade=unknown")])
def test_missing_categories_stay_missing_after_the_command(na):
    table = with_missing_colours()
    table.to_csv("x.csv")
    followed(refusal("x.csv", na=na), in_shell=True)
    values = values_of("NEW.csv", na=na)
    colours = ["blue", "green", "red"]
    names = [*(f"colour_{c}" for c in colours), "shade_dark", "shade_light"]
    assert [*values.columns] == [*X.columns, *names]
    expected = np.array([[c == colour for c in colours] for colour in COLOURS], dtype=float)
    expected[1:7] = np.nan
    np.testing.assert_array_equal(values[names[:3]], expected)
    shade = np.where(table["shade"] == "unknown", np.nan, table["shade"] == "dark")
    np.testing.assert_array_equal(values["shade_dark"], shade)
    numbers = X["n1"].where(np.arange(M) != 2)
    np.testing.assert_array_equal(values["n1"], numbers)


def test_a_mark_among_categories_is_said_with_the_option_that_leaves_it_out():
    with_missing_colours().drop(columns="n1").to_csv("x.csv")
    sentence = refusal("x.csv")
    marks = re.search(r"means missing, pass na=(\[.*?\]) first", sentence)[1]
    assert eval(marks) == ["?"]
    followed(refusal("x.csv", na=eval(marks)))
    assert "colour_?" not in values_of("NEW.csv", na=["?"])


def test_numbers_with_some_text_are_no_categories_and_no_option_excludes_them():
    table = with_missing_colours()
    table.to_csv("x.csv")
    sentence = refusal("x.csv", na=["unknown"])
    assert "not_features=['colour', 'shade']" in sentence
    assert "Column 'n1' contains text in 1 of 60 values: '?'" in sentence
    followed(sentence)
    assert "n1" in pd.read_csv("NEW.csv")


def test_missing_categories_of_a_frame_stay_missing():
    data = X.assign(colour=COLOURS)
    data.loc[NAMES[:3], "colour"] = [None, "NA", np.nan]
    data.loc[NAMES[3], "colour"] = "?"
    sentence = refusal(data)
    data = assigned(sentence, data, "means missing, replace it first: ")
    mended = assigned(sentence, data, "where the category is missing: ")
    assert mended.iloc[:4, 5:].isna().all(axis=None)
    np.testing.assert_array_equal(mended["colour_red"][4:], COLOURS[4:] == "red")
    assert np.isfinite(dhsic.test_features(mended, Y).p_values).all()


# Genotypes -------------------------------------------------------------------------------------

DOSAGES = RNG.choice([0, 1, 2, np.nan], (M, 6), p=[0.4, 0.3, 0.2, 0.1])


def written(forms, missing):
    """Genotypes as text, given the text of dosages 0, 1 and 2."""
    texts = np.array([*forms, missing], dtype=object)
    at = np.where(np.isnan(DOSAGES), 3, DOSAGES).astype(int)
    return pd.DataFrame(texts[at], NAMES, [f"rs{i}" for i in range(DOSAGES.shape[1])])


CALLS = {
    "unphased": (("0/0", "0/1", "1/1"), "./."),
    "phased": (("0|0", "1|0", "1|1"), ".|."),
    "half missing": (("0/0", "0/1", "1/1"), "./1"),
    "NA": (("0/0", "0/1", "1/1"), "NA"),
    "second allele": (("0/0", "0/2", "1/2"), "."),
}


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("turned", [False, True])
def test_calls_are_dosages(kind, turned):
    table = written(*CALLS[kind])
    (table.T if turned else table).rename_axis("id").to_csv("x.csv")
    values = values_of("x.csv", **({"sample_dim": 1} if turned else {}))
    np.testing.assert_array_equal(values, DOSAGES)


def test_calls_are_ranked_as_dosages_and_the_allele_is_told():
    written(*CALLS["unphased"]).assign(y=np.nan_to_num(DOSAGES[:, 2]) + Y).to_csv("x.csv")
    said = run("test", "x.csv", "--target", "y", "-n", 1)
    assert "the dosage counts all alleles but 0 in calls such as 0/1" in said.output
    assert re.search(r"\n +1 +rs2 ", said.output)


@pytest.mark.parametrize("text", ["4/5", "120/80", "1", "0.5", "1/0/1"])
def test_other_fractions_and_haploid_calls_among_calls_are_refused(text):
    table = written(*CALLS["unphased"])
    table.iloc[7, 3] = text
    table.to_csv("x.csv")
    sentence = refusal("x.csv")
    assert "line 9, column 'rs3'" in sentence
    assert "A feature of genotype calls must have calls of two alleles" in sentence
    assert "na=" not in sentence
    table.iloc[7, 3] = "1/1"
    table.to_csv("x.csv")
    assert values_of("x.csv").iloc[7, 3] == 2


LETTERS = {
    "letters": (("AA", "AG", "GG"), "--"),
    "no call": (("CC", "TC", "TT"), "NN"),
    "zeros": (("A/A", "G/A", "G/G"), "0/0"),
    "plink": (("AA", "AC", "CC"), "00"),
    "phased": (("A|A", "A|T", "T|T"), ".|."),
    "deletions": (("DD", "DI", "II"), "NA"),
    "na": (("AA", "AG", "GG"), "fail"),
    "array": (("AA", "AB", "BB"), "NC"),
}
FROM_ONE = {
    "plink": (("1/1", "1/2", "2/2"), "0/0"),
    "digits": (("11", "12", "22"), "00"),
    "bases": (("1|1", "1|3", "3|3"), "0|0"),
    "digits of bases": (("22", "24", "44"), "0"),
}


@pytest.mark.parametrize("kind", LETTERS)
@pytest.mark.parametrize("turned", [False, True])
def test_genotypes_of_letters_become_dosages_by_the_command(kind, turned):
    table = written(*LETTERS[kind])
    (table.T if turned else table).rename_axis("id").to_csv("x.csv")
    options = {"na": ["fail"], **({"sample_dim": 1} if turned else {})}
    sentence = refusal("x.csv", **options)
    assert "the allele that is last in the alphabet" in sentence
    followed(sentence, in_shell=kind == "no call")
    np.testing.assert_array_equal(values_of("NEW.csv", **options), DOSAGES)


@pytest.mark.parametrize("kind", FROM_ONE)
@pytest.mark.parametrize("turned", [False, True])
def test_alleles_counted_from_1_become_dosages_by_the_command(kind, turned):
    table = written(*FROM_ONE[kind])
    (table.T if turned else table).rename_axis("id").to_csv("x.csv")
    options = {"sample_dim": 1} if turned else {}
    sentence = refusal("x.csv", **options)
    assert "0 means a missing allele here" in sentence
    followed(sentence)
    np.testing.assert_array_equal(values_of("NEW.csv", **options), DOSAGES)


def test_genotypes_of_two_digits_in_python_become_dosages_by_the_statement():
    table = written(*FROM_ONE["digits"]).astype(float)
    with pytest.raises(DataError, match="like genotypes of two alleles, 1 and 2") as error:
        dhsic.test_features(table, Y)
    names = {"X": table.to_numpy(), "numpy": np}
    exec(re.search(r"X = numpy.*?nan\)", str(error.value))[0], names)
    np.testing.assert_array_equal(names["X"], DOSAGES)


def test_two_digits_are_numbers_if_no_number_is_missing():
    written(*FROM_ONE["digits"]).to_csv("x.csv")
    assert values_of("x.csv", missing_code=None).to_numpy().max() == 22


@pytest.mark.parametrize(
    "forms",
    [LETTERS["letters"], LETTERS["zeros"], CALLS["unphased"], FROM_ONE["plink"], LETTERS["array"]],
)
def test_genotypes_of_frames_and_parquet_become_dosages(forms):
    table = written(*forms)
    mended = assigned(refusal(table), table, r"\. ")
    np.testing.assert_array_equal(mended, DOSAGES)
    assert dhsic.test_features(mended, Y).p_values.shape == (6,)
    table.to_parquet("x.parquet")
    followed(refusal("x.parquet"))
    np.testing.assert_array_equal(values_of("NEW.parquet"), DOSAGES)


def test_letters_beside_other_text_are_converted_together():
    table = written(*LETTERS["letters"]).assign(sex=RNG.choice(["M", "F"], M), n=X["n0"])
    table.to_csv("x.csv")
    followed(refusal("x.csv"))
    values = values_of("NEW.csv")
    np.testing.assert_array_equal(values.filter(like="rs"), DOSAGES)
    np.testing.assert_array_equal(values["sex"], table["sex"] == "F")


# Check boxes -----------------------------------------------------------------------------------

TICKED = RNG.random(M) < 0.4


@pytest.mark.parametrize("word", ["yes", "x", "ticked"])
def test_empty_check_boxes_of_text_become_0_and_na_stays_missing(word):
    boxes = np.where(TICKED, word, "").astype(object)
    boxes[5] = "NA"
    X.assign(smoker=boxes, drinks=boxes[::-1]).to_csv("x.csv")
    sentence = refusal("x.csv")
    assert "Empty fields of 'smoker', 'drinks' are written as 0" in sentence
    followed(sentence)
    values = values_of("NEW.csv")
    expected = np.where(np.arange(M) == 5, np.nan, TICKED)
    np.testing.assert_array_equal(values["smoker"], expected)
    np.testing.assert_array_equal(values["drinks"], expected[::-1])


@pytest.mark.parametrize("word", ["1", "True"])
def test_check_boxes_of_1_are_told_and_filled_by_the_command(word):
    X.assign(a=np.where(TICKED, word, ""), b=np.where(TICKED, "", word), y=Y).to_csv("x.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        said = run("test", "x.csv", "--target", "y")
    text = " ".join(said.output.split())
    assert "2 features ('a', 'b') contain only 1 and missing values" in text
    assert "2 of 7 features (a, b) are constant in these samples" in text
    followed(said.output.replace("\n", " "))
    np.testing.assert_array_equal(values_of("NEW.csv")["a"], TICKED)


@pytest.mark.parametrize("word", ["1", "True", "yes"])
def test_check_boxes_as_labels_and_events_are_filled_by_the_command(word):
    X.assign(y=np.where(TICKED, word, ""), time=np.exp(Y).round(3)).to_csv("x.csv")
    for options in (("--target", "y"), ("--target", "time", "--event", "y")):
        words = ("test", "x.csv", *options, *(("--not-feature", "time") * (len(options) == 2)))
        said = run(*words, code=2).output.replace("\n", " ")
        assert f"All other values of 'y' are {word}. If an empty field means no" in said
        followed(said)
        np.testing.assert_array_equal(pd.read_csv("NEW.csv")["y"], TICKED)
        run(words[0], "NEW.csv", *words[2:])


@pytest.mark.parametrize("sign", ["\u2212", "\u2013"])
def test_typographic_minus_signs_are_read(sign):
    table = X.map(str).assign(y=Y.round(2)).map(lambda v: str(v).replace("-", sign))
    table.rename_axis("id").to_csv("x.csv")
    np.testing.assert_array_equal(values_of("x.csv", not_features=["y"]), X)
    table[["y"]].to_csv("l.csv", sep="\t")
    table.drop(columns="y").to_csv("x.csv", sep=";")
    assert "60 real values" in run("test", "x.csv", "--labels", "l.csv", "--target", "y").output


def test_labels_with_commas_are_converted_by_either_command():
    numbers = (3000 + 1000 * Y).round()
    X.assign(y=[f"{v:,.0f}" for v in numbers]).to_csv("x.csv")
    said = run("test", "x.csv", "--target", "y", code=2).output.replace("\n", " ")
    followed(said[said.index("If commas separate thousands") :])
    np.testing.assert_array_equal(pd.read_csv("NEW.csv")["y"], numbers)


def test_check_boxes_of_frames_are_told_and_filled():
    data = X.assign(a=np.where(TICKED, 1, np.nan))
    with pytest.warns(UserWarning, match="1 feature \\('a'\\) contains only 1 and missing") as told:
        dhsic.test_features(data, Y)
    mended = assigned(str(told[0].message), data, "write 0: ")
    np.testing.assert_array_equal(mended["a"], TICKED)
    few = X.assign(a=np.where(np.arange(M) == 3, np.nan, 1))
    assert dhsic.test_features(few, Y).p_values[-1] == 1


@pytest.mark.parametrize("command", ["test", "select"])
def test_constant_features_are_counted_and_named(command):
    constant = {f"c{i}": i for i in range(5)}
    X.assign(**constant, y=Y).to_csv("x.csv")
    said = " ".join(run(command, "x.csv", "--target", "y").output.split())
    assert "5 of 10 features (c0, c1, c2, ...) are constant in these samples" in said


def test_features_without_values_are_told_apart_from_constant_ones():
    empty = np.full(len(X), np.nan)
    X.assign(c=1.0, e=empty, f=empty, y=Y).to_csv("x.csv")
    said = " ".join(run("test", "x.csv", "--target", "y", "--out", "r.tsv").output.split())
    assert (
        "3 of 8 features (c, e, f) do not vary (1 is constant in these samples, apart from missing "
        "values; 2 have no value in any sample), and cannot be ranked."
    ) in said
    X.assign(e=empty, y=Y).to_csv("x.csv")
    said = " ".join(run("test", "x.csv", "--target", "y").output.split())
    assert "1 of 6 features (e) has no value in any sample, and cannot be ranked." in said
    with pytest.raises(InputError, match="None of the 2 features has a value in any sample"):
        dhsic.test_features(np.column_stack([empty, empty]), Y)


# Repeated far numbers --------------------------------------------------------------------------

CODED = {
    "-1 beside fractions": (-1, RNG.uniform(0.03, 0.98, (M, 8)).round(2)),
    "-9 beside scores": (-9, RNG.normal(size=(M, 8)).round(2)),
    "-5 beside measurements": (-5, RNG.lognormal(3, 0.5, (M, 8)).round(1)),
    "15 beside scores": (15, RNG.normal(size=(M, 8)).round(3)),
    "-1 beside a share of zeros": (-1, np.maximum(RNG.uniform(-0.3, 1, (M, 8)), 0).round(3)),
}


@pytest.mark.parametrize("kind", CODED)
def test_a_far_number_that_repeats_in_one_feature_is_told_and_left_out_by_the_option(kind):
    code, values = CODED[kind]
    values = values.copy()
    values[3:50:8, 2] = code
    with pytest.warns(UserWarning, match=rf"1 feature contains .* \(2: {code} 6 times, others"):
        dhsic.test_features(values, Y)
    pd.DataFrame(values, NAMES).add_prefix("f").assign(y=Y).to_csv("x.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        said = " ".join(run("test", "x.csv", "--target", "y").output.split())
    option = shlex.split(re.search(r"missing values, pass (--na .*?); otherwise", said)[1])
    assert option == ["--na", f"f2={code}"]
    values[values == code] = np.nan
    np.testing.assert_array_equal(values_of("x.csv", na=option[1:], not_features=["y"]), values)
    assert run("test", "x.csv", "--target", "y", *option).exit_code == 0


COUNTS = np.random.default_rng(0).negative_binomial(2, 0.05, (200, 80))
DROPOUTS = np.where(np.random.default_rng(1).random((200, 80)) < 0.1, 0, COUNTS + 20)
NO_CODES = {
    "counts": COUNTS.astype(float),
    "integers": COUNTS,
    "logarithms": np.log10(DROPOUTS + 0.1),
    "two logarithms": np.column_stack([np.log2(DROPOUTS[:, :2] + 0.5), np.sqrt(COUNTS[:, 2:])]),
    "standardised": zscore(np.log1p(COUNTS)),
    "standardised dropouts": zscore(np.log1p(DROPOUTS)),
    "capped": np.minimum(COUNTS * 1.5, 90.0),
    "from -1 on": np.column_stack([COUNTS[:, :1] - 1, COUNTS[:, 1:]]).astype(float),
    "mostly -1": np.where(COUNTS > 50, COUNTS / 100, -1.0),
}


@pytest.mark.parametrize("kind", NO_CODES)
def test_ordinary_values_are_not_told(kind):
    y = np.random.default_rng(2).normal(size=200)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dhsic.test_features(NO_CODES[kind], y)
    assert not [w for w in told if "far from all other values" in str(w.message)]


# Damaged tables --------------------------------------------------------------------------------


def test_a_truncated_table_is_refused_in_a_sentence():
    X.assign(y=Y).to_csv("x.csv")
    packed = gzip.compress(Path("x.csv").read_bytes())
    Path("x.csv.gz").write_bytes(packed[: len(packed) // 2])
    said = run("test", "x.csv.gz", "--target", "y", code=2).output
    assert "damaged, or it was not copied completely. Copy it again" in " ".join(said.split())


@pytest.mark.parametrize("turned", [False, True])
def test_a_repeated_header_is_refused_by_line_and_removed_by_the_command(turned):
    (X.T if turned else X).rename_axis("id").to_csv("x.csv")
    lines = Path("x.csv").read_text().splitlines()
    joined = [*lines[:3], lines[0], *lines[3:], lines[0]]
    Path("x.csv").write_text("\n".join(["# a note", *joined, ""]))
    options = {"sample_dim": 1} if turned else {}
    sentence = refusal("x.csv", **options)
    assert "line 5 repeats the header" in sentence
    subprocess.run(["bash", "-c", re.search("awk .*", sentence)[0]], check=True)
    np.testing.assert_array_equal(values_of("NEW", **options), X)


def test_tables_with_columns_in_another_order_are_joined_by_names():
    other = X.iloc[20:, [3, 0, 4, 1, 2]]
    Path("x.csv").write_text("# a note\n" + X.iloc[:20].to_csv() + other.to_csv())
    sentence = refusal("x.csv")
    assert "line 23 is a second header, with the same names in another order" in sentence
    followed(sentence)
    np.testing.assert_array_equal(values_of("NEW.csv"), X)


@pytest.mark.parametrize("at", [(3, 3), ([3, 4], 3), (5, slice(None)), (slice(None), 2)])
@pytest.mark.parametrize("form", ["frame", "csv", "turned"])
def test_infinite_values_give_no_other_warning(at, form):
    data = X.copy()
    data.iloc[at] = -np.inf
    options = {"sample_dim": 1} if form == "turned" else {}
    if form != "frame":
        (data.T if options else data).rename_axis("id").to_csv("x.csv")
    with pytest.raises(dhsic.DataError, match=r"is -inf.* Values must be finite"):
        dhsic.test_features(data if form == "frame" else "x.csv", Y, **options)
