"""Files of GEO: labels are what the lines above the table say about the samples."""

import gzip
import re
import shlex

import numpy as np
import pytest
from commands import run, told

import dhsic
from dhsic.errors import InputError
from dhsic.joins.text import read_table
from dhsic.sources.opening import open_source

M, D = 30, 8


@pytest.fixture
def study(rng):
    """Values (m, d) whose third feature follows the disease, and what is known of the samples."""
    samples = [f"GSM{500 + i}" for i in range(M)]
    disease = np.where(np.arange(M) % 2, "tumor", "normal")
    ages = [str(40 + 7 * i % 31) for i in range(M)]
    X = rng.normal(7, 1, (M, D)).round(4)
    X[:, 2] += 5 * (disease == "tumor")
    return X, samples, disease, ages


def line(name, texts):
    return "\t".join([name, *(f'"{text}"' for text in texts)])


def described(samples, disease, ages):
    """Lines of a series above its table; the last samples have one characteristic less."""
    second = [f"age: {age}" for age in ages[:-3]] + ["batch: b2"] * 3
    third = [f"batch: b{i // 3 % 2}" for i in range(M - 3)] + [""] * 3
    return [
        '!Series_title\t"Genes: a study"',
        "",
        line("!Sample_title", [f"patient {i}" for i in range(M)]),
        line("!Sample_geo_accession", samples),
        line("!Sample_taxid_ch1", ["9606"] * M),
        line("!Sample_source_name_ch1", [["left", "right"][i // 5 % 2] for i in range(M)]),
        line("!Sample_characteristics_ch1", [f"disease state: {each}" for each in disease]),
        line("!Sample_characteristics_ch1", second),
        line("!Sample_characteristics_ch1", third),
        line("!Sample_characteristics_ch2", ["disease state: pool"] * (M - 1) + ["reference"]),
        "!series_matrix_table_begin",
    ]


def series(path, study, *, has_values=True):
    X, samples, disease, ages = study
    rows = [f'"{100 + j}_at"\t' + "\t".join(map(str, x)) for j, x in enumerate(X.T)]
    lines = [*described(samples, disease, ages), line('"ID_REF"', samples)]
    lines += [*(rows if has_values else []), "!series_matrix_table_end"]
    text = "\n".join(lines) + "\n"
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
def test_characteristics_of_a_series_are_labels_and_covariates(suffix, study, tmp_path):
    X, _, disease, ages = study
    path = series(tmp_path / f"GSE1_series_matrix.{suffix}", study)
    source = open_source(path)
    np.testing.assert_array_equal(source.read(source.blocks(D)[0]), X)
    about = source.sample_coords()
    assert [*about] == [
        *("source_name_ch1", "disease state", "age", "batch", "disease state ch2"),
        "characteristics_ch2",
    ]
    assert about["disease state"].tolist() == disease.tolist()
    assert about["age"].tolist() == [*ages[:-3], *[""] * 3]
    assert about["batch"].tolist() == [f"b{i // 3 % 2}" for i in range(M - 3)] + ["b2"] * 3
    assert about["characteristics_ch2"].tolist() == [""] * (M - 1) + ["reference"]
    result = dhsic.select(
        path, "disease state", covariates="source_name_ch1", n_features_to_select=1, progress=False
    )
    assert result["feature"][result["selected"].to_numpy()].item() == "102_at"
    said = run("test", path, "--target", "disease state", "--covariate", "batch", "--no-progress")
    assert "1 of 8 features has q <= 0.05" in said.output
    run("convert", path, tmp_path / "x.zarr")
    assert dhsic.read_target(tmp_path / "x.zarr", "disease state").tolist() == disease.tolist()


def test_a_variable_that_a_series_lacks_is_refused_with_those_that_it_has(study, tmp_path):
    path = series(tmp_path / "GSE1_series_matrix.txt", study)
    said = told(run("test", path, "--target", "!Sample_characteristics_ch1", code=2))
    assert "'disease state', 'age', 'batch'" in said
    assert "target disease state: 2 classes" in " ".join(run("inspect", path).output.split())


@pytest.mark.parametrize("target", ["group", "title", "Sample_title", "!Sample_title"])
def test_titles_that_name_groups_are_told(target, study, tmp_path):
    X, samples, disease, _ = study
    path = tmp_path / "GSE1_series_matrix.txt"
    titles = line("!Sample_title", [f"{each} rep {i}" for i, each in enumerate(disease)])
    rows = [f'"{100 + j}_at"\t' + "\t".join(map(str, x)) for j, x in enumerate(X.T)]
    lines = ['!Series_title\t"a study"', titles, line("!Sample_geo_accession", samples)]
    lines += ["!series_matrix_table_begin", line('"ID_REF"', samples), *rows]
    path.write_text("\n".join([*lines, "!series_matrix_table_end"]) + "\n")
    said = " ".join(told(run("test", path, "--target", target, code=2)).split())
    assert "Lines above the table (!Sample_title" in said
    assert (
        "In the line !Sample_title, every sample has a different text ('normal rep 0', ...)" in said
    )
    assert "write a table with the columns geo_accession and group" in said
    rows = [f"{name},{each}" for name, each in zip(samples, disease, strict=True)]
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["geo_accession,group", *rows[::-1]]) + "\n")
    words = ("--labels", labels, "--target", "group")
    assert re.search(r"\n +1 +(\S+) ", run("test", path, *words).output)[1] == "102_at"


def test_a_series_without_accessions_names_samples_in_its_header(study, tmp_path):
    path = series(tmp_path / "GSE1_series_matrix.txt", study)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(each for each in lines if "geo_accession" not in each))
    assert open_source(path).sample_coords()["disease state"].tolist() == study[2].tolist()
    words = ("test", path, "--target", "disease state")
    for labels in (), ("--labels", path):
        assert re.search(r"\n +1 +(\S+) ", run(*words, *labels).output)[1] == "102_at"


def test_samples_are_matched_by_their_names(study, tmp_path):
    _, samples, disease, _ = study
    path = series(tmp_path / "GSE1_series_matrix.txt", study)
    header = line('"ID_REF"', samples)
    turned = path.read_text().replace(header, line('"ID_REF"', samples[::-1]))
    path.write_text(turned)
    labels = open_source(path).sample_coords()["disease state"]
    assert labels.tolist() == disease[::-1].tolist()


def test_a_series_without_values_is_a_table_of_labels(study, tmp_path):
    X, samples, _, _ = study
    path = series(tmp_path / "GSE1_series_matrix.txt", study, has_values=False)
    with pytest.raises(InputError, match="its table has no values") as refused:
        open_source(path)
    counts = tmp_path / "counts.txt"
    rows = ["\t".join([f"g{j}", *map(str, x)]) for j, x in enumerate(X[::-1].T)]
    counts.write_text("\n".join(["\t".join(["gene", *samples[::-1]]), *rows]) + "\n")
    option = str(refused.value).rstrip(".").split("dhsic test DATA ")[-1]
    words = ["test", counts, "--transpose", *shlex.split(option), "--target", "disease state"]
    result = tmp_path / "r.tsv"
    run(*words, "--no-progress", "--out", result)
    best = result.read_text().splitlines()[1].split("\t")
    assert "g2" in best
    table = read_table(str(path))
    assert table.column("title").tolist() == [f"patient {i}" for i in range(M)]
    assert table.column("geo_accession").tolist() == samples


def test_groups_of_a_data_set_are_labels(study, tmp_path):
    X, samples, disease, _ = study
    lines = ["^DATABASE = Geo", "!Database_name = GEO", "^DATASET = GDS7"]
    for n, state in enumerate(("tumor", "normal"), 1):
        held = ",".join(name for name, each in zip(samples, disease, strict=True) if each == state)
        lines += [f"^SUBSET = GDS7_{n}", "!subset_dataset_id = GDS7"]
        lines += [f"!subset_description = {state}", f"!subset_sample_id = {held}"]
        lines += ["!subset_type = disease state"]
    lines += ["^DATASET = GDS7", "#ID_REF = Platform reference identifier", "!dataset_table_begin"]
    lines += ["\t".join(["ID_REF", "IDENTIFIER", *samples])]
    lines += ["\t".join([f"{j}_at", f"G{j}", *map(str, x)]) for j, x in enumerate(X.T)]
    path = tmp_path / "GDS7.soft"
    path.write_text("\n".join([*lines, "!dataset_table_end"]) + "\n")
    source = open_source(path)
    np.testing.assert_array_equal(source.read(source.blocks(D)[0]), X)
    assert source.sample_coords()["disease state"].tolist() == disease.tolist()
