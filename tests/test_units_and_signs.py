"""Typographic minus signs and partial units: the printed commands keep signs and mix no units."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.joins.slips import _groups_apart
from dhsic.joins.text import read_table

M, D = 90, 30
RNG = np.random.default_rng(4)
X = RNG.normal(size=(M, D)).round(3)
Y = (X[:, 7] + 0.1 * RNG.normal(size=M)).round(2)
AGES = np.round(60 + 20 * X[:, 7] + RNG.normal(size=M)).astype(int).clip(14, 140)  # months
IDS = [f"s{i}" for i in range(M)]


def signed(number, form="{}", minus="\u2212"):
    return form.format(f"{number}".replace("-", minus))


#: Labels of each row, and the numbers that the command writes, by kind.
LABELS = {
    "percent": ([signed(y, "{} %") for y in Y], Y),
    "percent, en dash": ([signed(y, "{} %", "\u2013") for y in Y], Y),
    "degrees": ([signed(y, "{} \u00b0C") for y in Y], Y),
    "thousands": ([signed(y, "{}k") if abs(y) > 1 else signed(int(1000 * y)) for y in Y],
                  np.where(abs(Y) > 1, 1000 * Y, (1000 * Y).astype(int))),
    "days and hours": ([signed(y, "{} d") if y > 0 else signed(y, "{} h") for y in Y],
                       np.where(Y > 0, 24 * Y, Y)),
    "years, and months beside them": (
        [f"{a // 12} y {a % 12} m" if a % 12 else f"{a // 12} y" for a in AGES], AGES),
    "years and months, or months": (
        [f"{a // 12} years {a % 12} months" if a > 60 else f"{a} months" for a in AGES], AGES),
    "years and months, in short": (
        [f"{a // 12}y{a % 12}m" if a > 60 else f"{a} months" for a in AGES], AGES),
    "below and above limits": (
        ["<40" if a < 40 else "90+" if a > 90 else str(a) for a in AGES],
        np.where(AGES < 40, 20, np.minimum(AGES, 90))),
}  # fmt: skip


def write_tables(features=X, **labels):
    pd.DataFrame(features, pd.Index(IDS, name="id")).add_prefix("g").to_csv("x.csv")
    pd.DataFrame({"id": IDS, **labels}).to_csv("l.csv", index=False)


def follow(said):
    command = re.search(r'python( -c ".*?to_csv.*?")', said)[1]
    subprocess.run(["bash", "-c", shlex.quote(sys.executable) + command], check=True)


def best(*words):
    return re.search(r"\n +1 +(\S+) ", run("test", *words).output)[1]


@pytest.mark.parametrize("kind", LABELS)
def test_commands_for_labels_keep_signs_and_units(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, numbers = LABELS[kind]
    write_tables(y=texts)
    follow(told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2)))
    written = read_table("NEW.csv").columns["y"].astype(float)
    np.testing.assert_allclose(written, numbers)
    assert best("x.csv", "--labels", "NEW.csv", "--target", "y") == "g7"


@pytest.mark.parametrize("form", ["{} %", "decimal comma"])
def test_commands_for_features_keep_signs(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features = X.astype(object)
    if form == "decimal comma":
        features[:, 7] = [signed(x).replace(".", ",") for x in X[:, 7]]
    else:
        features[:, 7] = [signed(x, form) for x in X[:, 7]]
    write_tables(features, y=Y)
    follow(told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2)))
    np.testing.assert_allclose(read_table("NEW.csv").columns["g7"].astype(float), X[:, 7])
    assert best("NEW.csv", "--labels", "l.csv", "--target", "y") == "g7"


@pytest.mark.parametrize(
    "texts",
    [
        [f"{a} mo" if a < 24 else f"{a / 12:.1f}" for a in AGES],
        [f"{100 * abs(y):.0f} mg" if y < -1 else f"{abs(y) / 10:.3f}" for y in Y],
        [f"{abs(y)}%" if y < -1 else f"{abs(y) / 100:.4f}" for y in Y],
    ],
)
def test_no_command_strips_the_unit_of_some_values(texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(y=texts)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "python -c" not in said
    said = " ".join(said.split())
    assert "as numbers in the same unit" in said or "divide the others by 100" in said
    features = X.astype(object)
    features[:, 7] = texts
    write_tables(features, y=Y)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "python -c" not in said


@pytest.mark.parametrize("mark", ["{:.2e} IU/mL", "{}\u00b10.1", "{}*", "{}\u00d710^3"])
def test_measurements_with_marks_are_told_what_to_write(mark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(y=[mark.format(abs(y) + i / 1000) for i, y in enumerate(Y)])
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "no units, stars, errors (\u00b1) or powers (x10^3)" in said or "python -c" in said


@pytest.mark.parametrize(
    "word", ["9 = Missing", "999: unknown", "99. DK/REF", ".a", ".z", "-666", "-77"]
)
def test_missing_words_with_numbers_and_reasons_are_no_classes(word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    classes = np.where(X[:, 7] > 0, "case", "control").astype(object)
    if word[0] == "9":
        classes = np.where(X[:, 7] > 0, "1 = case", "2 = control").astype(object)
    classes[:6] = word
    write_tables(y=classes)
    words = ("x.csv", "--labels", "l.csv", "--target", "y")
    said = told(run("test", *words, code=2))
    options = shlex.split(re.search(r"with (--na .*? --drop-missing)", said)[1])
    shown = run("test", *words, *options)
    assert "2 classes" in told(shown)
    with pytest.raises(dhsic.InputError, match="usually means a missing value"):
        dhsic.test_features(X, classes)


def test_numbered_levels_are_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(y=np.where(X[:, 7] > 0, "1 = Known", "2 = Unknown"))
    assert "2 classes" in told(run("test", "x.csv", "--labels", "l.csv", "--target", "y"))


@pytest.mark.parametrize("every", [2, 3, 30])
@pytest.mark.parametrize("are_numbers", [True, False])
@pytest.mark.parametrize("form", ["%d/%m/%Y", "%Y-%m-%d", "%Y-%m-%d %H:%M"])
def test_dates_as_numbers_of_excel_beside_dates(form, are_numbers, every, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days = np.round(43000 + 300 * X[:, 7] + 90 * RNG.normal(size=M)).astype(int)
    dates = pd.Timestamp("1899-12-30") + pd.to_timedelta(days, unit="D")
    texts = [
        f"{d}" if (i % every == 0) is are_numbers else t.strftime(form)
        for i, (d, t) in enumerate(zip(days, dates, strict=True))
    ]
    write_tables(y=texts)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "Excel's number of days since 1899-12-30" in " ".join(said.split())
    follow(said)
    np.testing.assert_array_equal(read_table("NEW.csv").columns["y"].astype(float), days)
    assert best("x.csv", "--labels", "NEW.csv", "--target", "y") == "g7"


@pytest.mark.parametrize("n", [1, 45])
def test_covariates_of_dates_beside_numbers_of_excel(n, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days = 44000 + np.arange(M) % 10
    dates = (pd.Timestamp("1899-12-30") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d")
    texts = [f"{d}" if i < n else t for i, (d, t) in enumerate(zip(days, dates, strict=True))]
    write_tables(y=Y, day=texts)
    words = ("x.csv", "--target", "y", "--covariate", "day", "--labels")
    follow(told(run("test", *words, "l.csv", code=2)))
    np.testing.assert_array_equal(read_table("NEW.csv").columns["day"].astype(float), days)
    assert best(*words, "NEW.csv") == "g7"
    with pytest.raises(dhsic.InputError, match="Excel's number of days"):
        dhsic.test_features(X, Y, covariates=pd.DataFrame({"day": texts}))


@pytest.mark.parametrize(
    ("flags", "form"),
    [("HL", "{} {}"), ("H", "{} ({})"), ("*", "{}{}"), (["HH", "L"], "{}{}"), (["DR"], "{} {}")],
)
@pytest.mark.parametrize("every", [2, 3, 30])
def test_flags_of_laboratories_are_removed_by_the_command(
    flags, form, every, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    numbers = np.round(12 + Y, 2)
    texts = [
        form.format(x, flags[i // every % len(flags)]) if i % every == 0 else f"{x}"
        for i, x in enumerate(numbers)
    ]
    write_tables(y=texts)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "with flags of a laboratory" in " ".join(said.split())
    follow(said)
    np.testing.assert_array_equal(read_table("NEW.csv").columns["y"].astype(float), numbers)
    assert best("x.csv", "--labels", "NEW.csv", "--target", "y") == "g7"


@pytest.mark.parametrize("form", ["{}-", "{} -", "-\u20ac{}", "$-{}", "(${})"])
@pytest.mark.parametrize("shift", [-1.0, 0.0, 2.0])
def test_the_command_for_features_with_negative_amounts_writes_numbers(
    form, shift, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    numbers = np.round(X + np.where(np.arange(X.shape[1]) % 2, shift, 0), 2)  # most are negative
    features = [[form.format(-x) if x < 0 else f"{x}" for x in row] for row in numbers]
    write_tables(np.array(features, dtype=object), y=Y)
    words = ("--labels", "l.csv", "--target", "y")
    follow(told(run("test", "x.csv", *words, code=2)))
    written = read_table("NEW.csv").columns
    for j in range(X.shape[1]):
        np.testing.assert_allclose(written[f"g{j}"].astype(float), numbers[:, j])
    assert best("NEW.csv", *words) == "g7"


@pytest.mark.parametrize("n_flags", [10, 60])
def test_the_command_for_features_removes_flags_of_most_values(n_flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    features = np.round(12 + X, 2).astype(object)
    features[:n_flags, 7] = [f"{x} H" for x in features[:n_flags, 7]]
    write_tables(features, y=Y)
    words = ("--labels", "l.csv", "--target", "y")
    follow(told(run("test", "x.csv", *words, code=2)))
    assert best("NEW.csv", *words) == "g7"


@pytest.mark.parametrize(
    ("numbers", "form"),
    [(np.round(12 + Y, 2), "{} H"), (43000 + 7 * np.arange(M), "date"), (Y, "{} -")],
)
def test_remedies_in_python_keep_numbers_beside_text(numbers, form):
    texts = [form.format(x) for x in numbers]
    if form == "date":
        dates = pd.Timestamp("1899-12-30") + pd.to_timedelta(numbers, unit="D")
        texts = [*dates.strftime("%d.%m.%Y")]
    if form == "{} -":  # negative numbers of accounting
        texts = [form.format(abs(x)) if x < 0 else x for x in numbers]
    labels = [text if i % 2 else x for i, (x, text) in enumerate(zip(numbers, texts, strict=True))]
    Y = np.array(labels, dtype=object)
    with pytest.raises(dhsic.InputError) as refused:
        dhsic.test_features(X, Y)
    change = re.search(r"pass (pandas\..*?)\. If they are names", str(refused.value))[1]
    np.testing.assert_allclose(eval(change, {"pandas": pd, "Y": Y}), numbers)


@pytest.mark.parametrize("flags", ["H*", "*#", ["DR", "QC"], ["KG", ""], ["BP", "KB"]])
def test_flags_of_several_kinds_and_units_are_not_removed(flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [f"{y + 12:.2f} {flags[i % len(flags)]}".strip() for i, y in enumerate(Y)]
    write_tables(y=texts)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "python -c" not in said


@pytest.mark.parametrize(
    ("texts", "command"),
    [(("70 kg", "154 lb"), True), (("178 cm", "70 in"), True), (("5.5 mmol/L", "99 mg/dL"), False),
     (("37 C", "98.6 F"), False)],
)  # fmt: skip
def test_few_values_in_units_of_two_systems_are_no_classes(texts, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(y=np.where(X[:, 7] > 0, *texts), z=Y)
    for words in ("--target", "y"), ("--target", "z", "--covariate", "y"):
        said = told(run("test", "x.csv", "--labels", "l.csv", *words, code=2))
        assert "numbers in different units" in " ".join(said.split())
        assert ("python -c" in said) is command
    write_tables(y=np.where(X[:, 7] > 0, "500 mg", "1 g"))
    assert "2 classes" in told(run("test", "x.csv", "--labels", "l.csv", "--target", "y"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_the_command_for_utf_16_knows_the_order_of_bytes(encoding, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(y=Y)
    text = (tmp_path / "x.csv").read_text()
    (tmp_path / "wide.csv").write_bytes(text.encode(encoding))
    said = told(run("test", "wide.csv", "--labels", "l.csv", "--target", "y", code=2))
    words = re.search(r"(iconv -f \S+ -t UTF-8) FILE > NEW", " ".join(said.split()))[1].split()
    done = subprocess.run([*words, "wide.csv"], capture_output=True, check=True)
    (tmp_path / "new.csv").write_bytes(done.stdout)
    assert best("new.csv", "--labels", "l.csv", "--target", "y") == "g7"


def test_a_comment_among_rows_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(y=Y)
    lines = (tmp_path / "x.csv").read_text().splitlines(keepends=True)
    (tmp_path / "c.csv").write_text("".join([*lines[:30], "# plate 2\n", *lines[30:]]))
    said = told(run("test", "c.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "line 31 begins with #, so it looks like a comment" in " ".join(said.split())


def test_a_column_passed_as_a_table_of_covariates_is_a_covariate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ages = AGES + np.random.default_rng(1).integers(0, 30, M)
    write_tables(y=Y, age=ages)
    words = ("x.csv", "--labels", "l.csv", "--target", "y")
    said = told(run("test", *words, "--covariates", "age", code=2))
    option = re.search(r"pass (--covariate age)\.", " ".join(said.split()))[1].split()
    assert best(*words, *option)


# -- groups of labels ------------------------------------------------------------------------------


def in_two_ways(first, second, share=0.3):
    """Labels of which a part is written in the second way."""
    return np.where(np.random.default_rng(4).random(len(first)) < share, second, first)


TEMPERATURES = 37.5 + 0.4 * X[:, 7]
HBA1C = 7 + 1.2 * X[:, 7].clip(-2, 3)
SHIFTED = {
    "Fahrenheit": (TEMPERATURES, 1.8 * TEMPERATURES + 32, "by 1.8 and add 32"),
    "HbA1c": (HBA1C, 10.929 * HBA1C - 23.5, "by 10.929 and subtract 23.5"),
}


@pytest.mark.parametrize("kind", SHIFTED)
def test_units_with_a_shift_are_told_and_the_conversion_works(kind):
    first, second, how = SHIFTED[kind]
    y = in_two_ways(first, second)
    with pytest.warns(UserWarning, match=f"To write all in one unit, multiply values.*{how}") as w:
        dhsic.test_features(X, y)
    limit = float(re.search(r"values below ([\d.]+)", str(w[0].message))[1])
    ratio, shift = ((1.8, 32.0), (10.929, -23.5))[kind == "HbA1c"]
    converted = np.where(y < limit, ratio * y + shift, y)
    np.testing.assert_allclose(converted, second)
    assert np.argmin(dhsic.test_features(X, converted).p_values) == 7


def test_features_with_a_shift_are_told():
    table = X.copy()
    table[:, 3] = in_two_ways(*SHIFTED["HbA1c"][:2])
    with pytest.warns(UserWarning, match="two groups of values apart.*by 10.929 and subtract 23.5"):
        dhsic.test_features(table, Y)


def test_ages_beside_years_of_birth_are_told():
    ages = (50 + 10 * X[:, 7]).round()
    with pytest.warns(UserWarning, match="form two groups.*with a wide gap between"):
        dhsic.test_features(X, in_two_ways(ages, 2020 - ages))


@pytest.mark.parametrize("seed", range(20))
def test_ordinary_labels_have_no_groups(seed):
    r = np.random.default_rng(seed)
    two = np.where(r.random(90) < 0.3, 170, 180) + r.normal(size=90)
    for y in (r.normal(size=90), np.exp(r.normal(size=90)), r.pareto(1, 90), r.poisson(3, 90), two):
        assert _groups_apart(np.asarray(y, dtype=float)) == ""


def test_thousands_that_lost_their_zeros_are_told():
    rng = np.random.default_rng(0)
    whole = rng.integers(200, 3000, 120)
    read = np.where(whole >= 1000, whole / 1000, whole)
    X = rng.standard_normal((120, 6))
    with pytest.warns(UserWarning, match="1000|1,000"):
        dhsic.test_features(X, read)
