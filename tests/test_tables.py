"""Tables of features: that they say what the result says, and are there whole or not at all."""

import csv
import gzip
import io
import json
import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import QUICK, SIMULATE, run, selected, told

import dhsic
from dhsic.errors import InputError
from dhsic.results import tables
from dhsic.results.files import check_vacant
from dhsic.results.schema import LEFT_OUT, left_out

TEXT = {".tsv": "\t", ".csv": ",", ".tsv.gz": "\t", ".csv.gz": ","}
SUFFIXES = (*TEXT, ".json", ".parquet")
#: Names that a separator, a quote or the end of a line is in, and one that pandas would not read.
UNTIDY = ["a\tb", "a,b", 'say "a"', "two\nlines", "a\rb", " a ", "", "é", "#a", "'a"]


def needs(suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")


def strict(text):
    """JSON that is JSON."""

    def refuse(constant):
        raise ValueError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def read(path):
    """A table as pandas reads it; all that is text stays text."""
    name = str(path)
    if name.endswith(".json"):
        return pd.DataFrame(strict(path.read_text())["features"])
    if name.endswith(".parquet"):
        return pd.read_parquet(path)
    of_text = dict.fromkeys(("name", "contig", "id", "ref", "alt", "group"), str)
    separator = "\t" if ".tsv" in name else ","
    return pd.read_csv(path, sep=separator, dtype=of_text, keep_default_na=False, na_values="")


def assert_is(table, result):
    """Hold a table against the result that it is of, the best feature first."""
    order = np.argsort(result["rank"].to_numpy())
    d = result.sizes["features"]
    np.testing.assert_array_equal(table["rank"], np.arange(1, d + 1))
    np.testing.assert_array_equal(table["index"], order)
    as_they_are = {"score": "score", "selected": "selected", "constant": "constant"}
    as_they_are |= {name: name for name in ("mean", "allele_frequency") if name in result}
    as_they_are |= {str(n): str(n) for n in result.data_vars if str(n).startswith("round_")}
    for column, name in as_they_are.items():
        if result[name].dims == ("features",):
            there = result[name].to_numpy()[order]
            assert table[column].dtype == there.dtype
            # pandas 2 reads numbers to some units in the last place.
            np.testing.assert_allclose(table[column], there, rtol=1e-12)
    for coord in result.coords:
        column = "name" if coord == "feature" else str(coord).removeprefix("variant_")
        there = result[coord].to_numpy()[order]
        assert table[column].fillna("").tolist() == there.tolist()
    missing = result["n_missing"].to_numpy()[order] / result.attrs["n_samples"]
    np.testing.assert_allclose(table["missing"], missing)
    assert not table["missing"].isna().any()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "g.vcz"
    run("simulate", path, *SIMULATE)
    return path


@pytest.fixture(scope="module")
def of_variants(store):
    return dhsic.select(store, "sample_trait", n_features_to_select=8, progress=False)


@pytest.fixture(scope="module")
def of_genes(tmp_path_factory):
    """Result from a plain Zarr group whose features have untidy names; one varies not at all."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, len(UNTIDY)))
    X[:, 3] = 1.25
    X[4, 5] = np.nan
    X[:, 7] = np.nan
    group = zarr.create_group(tmp_path_factory.mktemp("tables") / "x.zarr")
    group.create_array("X", data=X, dimension_names=("samples", "genes"))
    names = np.array(UNTIDY, dtype=np.dtypes.StringDType())
    group.create_array("gene_id", data=names, dimension_names=("genes",))
    y = X[:, 0] + rng.normal(size=30)
    path = group.store_path.store.root
    return dhsic.select(path, y, variable="X", n_features_to_select=3, progress=False)


@pytest.fixture(scope="module")
def of_numpy():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(25, 9))
    model = dhsic.BAHSIC(n_features_to_select=3, stability=2, progress=False)
    return model.fit(X, X[:, 1] > 0)


@pytest.fixture(params=["of_variants", "of_genes", "of_numpy"])
def result(request):
    given = request.getfixturevalue(request.param)
    return getattr(given, "result_", given)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_says_what_the_result_says(result, suffix, tmp_path):
    needs(suffix)
    path = tmp_path / f"all{suffix}"
    dhsic.save(result, path)
    table = read(path)
    assert_is(table, result)
    assert list(table.columns)[:3] == ["rank", "score", "selected"]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if "stability" in result:
        np.testing.assert_array_equal(table.sort_values("index")["stability"], result["stability"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_selected_alone_are_the_rows_that_are_selected(result, suffix, tmp_path):
    needs(suffix)
    dhsic.save(result, tmp_path / f"all{suffix}")
    dhsic.save(result, tmp_path / f"some{suffix}", selected_only=True)
    some, every = (read(tmp_path / f"{name}{suffix}") for name in ("some", "all"))
    assert 0 < len(some) < len(every)
    kept = every[every["selected"].astype(bool)].reset_index(drop=True)
    pd.testing.assert_frame_equal(some, kept, check_dtype=False)

    dhsic.save(dhsic.selected_features(result), tmp_path / f"same{suffix}")
    same = read(tmp_path / f"same{suffix}")
    assert same["index"].tolist() == some["index"].tolist()
    assert "selected" not in same
    none = result.assign(selected=result["selected"] & False)
    dhsic.save(none, tmp_path / f"none{suffix}", selected_only=True)
    assert len(read(tmp_path / f"none{suffix}")) == 0


def test_a_store_has_all_features(result, tmp_path):
    with pytest.raises(InputError, match="selected_only=True works for tables"):
        dhsic.save(result, tmp_path / "some.zarr", selected_only=True)
    with pytest.raises(InputError, match="not a result"):
        dhsic.save(dhsic.selected_features(result), tmp_path / "some.zarr")


def test_a_selector_is_saved_as_its_result_is(of_numpy, tmp_path):
    dhsic.save(of_numpy, tmp_path / "a.tsv")
    dhsic.save(of_numpy.result_, tmp_path / "b.tsv")
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()
    assert read(tmp_path / "a.tsv")["name"].tolist() == [
        str(i) for i in read(tmp_path / "a.tsv")["index"]
    ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_make_the_same_table(of_variants, suffix, tmp_path, monkeypatch):
    needs(suffix)
    dhsic.save(of_variants, tmp_path / f"whole{suffix}")
    monkeypatch.setattr(tables, "ROWS", 7)
    dhsic.save(of_variants, tmp_path / f"parts{suffix}")
    if suffix != ".parquet":
        whole, parts = ((tmp_path / f"{n}{suffix}").read_bytes() for n in ("whole", "parts"))
        assert whole == parts
    pd.testing.assert_frame_equal(
        read(tmp_path / f"whole{suffix}"), read(tmp_path / f"parts{suffix}")
    )


def test_untidy_names_are_quoted(of_genes, tmp_path):
    for suffix, separator in TEXT.items():
        path = tmp_path / f"all{suffix}"
        dhsic.save(of_genes, path)
        content = gzip.decompress(path.read_bytes()) if ".gz" in suffix else path.read_bytes()
        lines = list(csv.reader(io.StringIO(content.decode(), newline=""), delimiter=separator))
        at = lines[0].index("name")
        assert sorted(line[at] for line in lines[1:]) == sorted(UNTIDY)
        assert {len(line) for line in lines} == {len(lines[0])}
        scores = [float(line[1] or "nan") for line in lines[1:]]  # every digit of them
        best_first = of_genes.sortby("rank")["score"]
        np.testing.assert_array_equal(scores, best_first)
        assert "nan" not in content.decode().lower()


def test_what_is_no_number_is_null_in_json(of_genes, tmp_path):
    noted = of_genes.assign_attrs(note=float("nan"), notes=[1.0, float("inf"), {"a": np.int64(3)}])
    dhsic.save(noted, tmp_path / "all.json")
    known = strict((tmp_path / "all.json").read_text())
    assert [row["score"] for row in known["features"]].count(None) == 2
    assert [row["mean"] for row in known["features"]].count(None) == 1
    assert known["attributes"]["notes"] == [1.0, None, {"a": 3}]
    assert known["attributes"]["note"] is None
    assert known["attributes"]["parameters"]["step"] == 0.1
    left = [row["round_n_features"] for row in known["rounds"]]
    assert left == of_genes["round_n_features"].to_numpy().tolist()


def test_parquet_keeps_the_attributes(of_genes, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    dhsic.save(of_genes, tmp_path / "all.parquet")
    schema = parquet.read_schema(tmp_path / "all.parquet")
    about = strict(schema.metadata[b"dhsic"])
    assert about["n_features"] == len(UNTIDY)
    assert parquet.read_table(tmp_path / "all.parquet")["score"].null_count == 2


# What columns hold ---------------------------------------------------------------------------


def test_allele_frequencies_and_missing_calls_are_those_of_the_samples_that_take_part(
    store, tmp_path
):
    y = zarr.open_group(store, mode="r")["sample_trait"][:].astype(str)
    labels = tmp_path / "labels.tsv"
    y[:7] = "NA"
    labels.write_text("trait\n" + "\n".join(y) + "\n")
    asked = ("--labels", labels, "--target", "trait", "--drop-missing", "-n", 5, "--by-position")
    run("select", store, *asked, "--out", tmp_path / "all.tsv")
    calls = zarr.open_group(store, mode="r")["call_genotype"][:, 7:]
    there = (calls >= 0).all(axis=2)
    alleles = np.where(there, calls.clip(0, 1).sum(axis=2), 0).sum(axis=1)
    table = read(tmp_path / "all.tsv").sort_values("index")
    np.testing.assert_allclose(table["allele_frequency"], alleles / (2 * there.sum(axis=1)))
    np.testing.assert_allclose(table["missing"], 1 - there.mean(axis=1))
    kept = zarr.open_group(store, mode="r")["variant_allele"][:]
    assert table["ref"].tolist() == kept[:, 0].tolist()
    assert table["alt"].tolist() == kept[:, 1].tolist()


def variants(tmp_path, alleles=None, **calls):
    """A VCF Zarr of four variants and six samples."""
    group = zarr.create_group(tmp_path / "v.vcz")
    for name, values in calls.items():
        dims = ("variants", "samples", "ploidy")[: values.ndim]
        group.create_array(name, data=values, dimension_names=dims)
    group.create_array(
        "variant_position", data=np.array([3, 5, 7, 9]), dimension_names=("variants",)
    )
    if alleles is not None:
        data = alleles.astype(np.dtypes.StringDType())
        group.create_array("variant_allele", data=data, dimension_names=("variants", "alleles"))
    return tmp_path / "v.vcz"


def ranked(data, **how):
    y = np.array([0, 0, 0, 1, 1, 1])
    return dhsic.select(data, y, n_features_to_select=2, progress=False, **how)


GENOTYPES = np.array(
    [
        [[0, 0], [0, 1], [0, 2], [1, 1], [2, 1], [-1, 0]],
        [[0, 0], [0, 0], [0, 1], [0, 0], [1, 0], [1, 1]],
        [[-1, -1]] * 6,
        [[0, 1]] * 6,
    ],
    dtype="i1",
)
ALLELES = np.array([["A", "C", "GT"], ["T", "", ""], ["G", "A", ""], ["C", "T", ""]], dtype=object)


def test_all_other_alleles_are_counted_and_named(tmp_path):
    path = variants(tmp_path, ALLELES, call_genotype=GENOTYPES)
    result = ranked(path)
    expected = [6 / 10, 4 / 12, np.nan, 0.5]
    np.testing.assert_allclose(result["allele_frequency"], expected)
    assert result["variant_ref"].to_numpy().tolist() == ["A", "T", "G", "C"]
    assert result["variant_alt"].to_numpy().tolist() == ["C,GT", "", "A", "T"]
    assert result.attrs["n_wholly_missing"] == 1
    opened = xr.open_zarr(path, consolidated=False, mask_and_scale=False)
    np.testing.assert_allclose(ranked(opened)["allele_frequency"], expected)
    dhsic.save(result, tmp_path / "all.tsv")
    table = read(tmp_path / "all.tsv").sort_values("index")
    np.testing.assert_allclose(table["missing"], [1 / 6, 0, 1, 0])
    assert table["allele_frequency"].isna().tolist() == [False, False, True, False]


def test_frequencies_are_over_the_ploidy_of_the_store(tmp_path):
    four = np.concatenate([GENOTYPES, np.where(GENOTYPES < 0, -1, 0)], axis=2).astype("i1")
    result = ranked(variants(tmp_path, call_genotype=four))
    np.testing.assert_allclose(result["allele_frequency"], [6 / 20, 4 / 24, np.nan, 0.25])


@pytest.mark.parametrize(
    ("name", "factor", "expected"),
    [
        ("call_DS", 1.0, "allele_frequency"),
        ("call_dosage", 1.0, "allele_frequency"),
        ("call_DP", 1.0, "mean"),
        ("call_DS", 30.0, "mean"),
    ],
)
def test_numbers_that_count_no_alleles_have_means(tmp_path, name, factor, expected):
    values = np.random.default_rng(2).uniform(0, 2, (4, 6)) * factor
    values[1, 2] = np.nan
    path = variants(tmp_path, **{name: values})
    means = np.nanmean(values, axis=1) / (2 if expected == "allele_frequency" else 1)
    for data in (path, xr.open_zarr(path, consolidated=False, mask_and_scale=False)):
        result = ranked(data, variable=name)
        assert {"mean", "allele_frequency"} & set(result.data_vars) == {expected}
        np.testing.assert_allclose(result[expected], means)


def test_groups_are_columns(store, tmp_path):
    X = np.random.default_rng(3).normal(size=(20, 6))
    groups = np.array(["b", "a", "b", "c", "a", "c"])
    model = dhsic.BAHSIC(n_features_to_select=1, progress=False).fit(
        X, X[:, 1], feature_groups=groups
    )
    dhsic.save(model, tmp_path / "all.csv")
    table = read(tmp_path / "all.csv").sort_values("index")
    assert table["group"].tolist() == groups.tolist()
    np.testing.assert_array_equal(table["group_rank"], model.result_["group_rank"])


# Places --------------------------------------------------------------------------------------

UNKNOWN = ("a.txt", "a.xlsx", "a.h5ad", "a.npz", "a.tsv.bak", "a.tsv.bz2", "a.json.gz", "a.vcz")


@pytest.mark.parametrize("name", [*UNKNOWN, "s3://bucket/a.txt"])
def test_an_unknown_suffix_is_refused_before_anything_is_done(of_variants, name, tmp_path):
    path = name if "://" in name else tmp_path / name
    suffix = name[name.rindex(".") :]
    with pytest.raises(InputError, match=rf"ends in \{suffix}, .* \.tsv, \.csv"):
        dhsic.save(of_variants, path, overwrite=True)
    said = run("select", tmp_path / "none.vcz", *QUICK, "--out", path, code=2)  # never looked at
    assert f"ends in {suffix}, which is not a format for results" in told(said)
    assert "labels" not in said.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a", "a.zarr", "a.ZARR", "a.dhsic", "a.tsv.zarr", "a.b/c"])
def test_all_else_is_a_store_that_is_loaded(of_variants, name, tmp_path):
    dhsic.save(of_variants, tmp_path / name)
    xr.testing.assert_identical(dhsic.load(tmp_path / name), of_variants)


def test_the_suffix_may_be_in_capitals(of_variants, tmp_path):
    dhsic.save(of_variants, tmp_path / "a.TSV")
    assert (tmp_path / "a.TSV").read_text().startswith("rank\tscore\tselected\t")


def test_a_table_is_overwritten_if_asked_and_a_folder_never_is(of_variants, tmp_path):
    path = tmp_path / "all.tsv"
    path.write_text("mine")
    with pytest.raises(InputError, match=r"all.tsv exists already. .* \(overwrite=True\)"):
        dhsic.save(of_variants, path)
    assert path.read_text() == "mine"
    dhsic.save(of_variants, path, overwrite=True)
    assert_is(read(path), of_variants)
    for folder in (tmp_path / "old.tsv", tmp_path / "full.json"):
        folder.mkdir()
        (folder / "mine").write_text("mine")
        with pytest.raises(InputError, match=r"is not a file \(for example, it is a folder\)"):
            dhsic.save(of_variants, folder, overwrite=True)
        assert (folder / "mine").read_text() == "mine"
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="is not a file"):
        check_vacant(tmp_path / "pipe.csv", overwrite=True)
    with pytest.raises(InputError, match="neither that folder"):
        dhsic.save(of_variants, tmp_path / "no" / "such" / "all.tsv")
    dhsic.save(of_variants, tmp_path / "new" / "all.tsv")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_what_was_there(
    of_variants, suffix, error, tmp_path, monkeypatch
):
    needs(suffix)
    path = tmp_path / f"all{suffix}"
    path.write_text("mine")
    columns, parts = tables.columns, []

    def break_off(result):
        if parts:
            assert len(list(tmp_path.iterdir())) == 2  # it is being written, elsewhere
            raise error
        parts.append(columns(result))
        return parts[0]

    monkeypatch.setattr(tables, "READ", 100)
    monkeypatch.setattr(tables, "columns", break_off)
    with pytest.raises(type(error)):
        dhsic.save(of_variants, path, overwrite=True)
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_parquet_needs_a_package_that_is_asked_for_first(of_variants, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"Install dhsic\[parquet\], or choose another suffix"):
        dhsic.save(of_variants, tmp_path / "all.parquet")
    said = run("select", tmp_path / "none.vcz", *QUICK, "--out", tmp_path / "a.parquet", code=2)
    assert "Install dhsic[parquet]" in told(said)


@pytest.mark.parametrize(("suffix", "how"), [(".tsv", r"sep='\\t'"), (".json", r"json\.load")])
def test_a_table_is_not_loaded(of_variants, suffix, how, tmp_path):
    dhsic.save(of_variants, tmp_path / f"all{suffix}")
    with pytest.raises(InputError, match=rf"is a table; .* Read the table with .*{how}"):
        dhsic.load(tmp_path / f"all{suffix}")
    with pytest.raises(InputError, match="There is no result at"):
        dhsic.load(tmp_path / f"none{suffix}")


@pytest.mark.parametrize("suffix", [".tsv", ".csv.gz", ".json"])
def test_tables_at_urls(of_variants, suffix, s3, short_leases, tmp_path):
    url = f"s3://bucket/{tmp_path.name}/all{suffix}"
    dhsic.save(of_variants, url)
    dhsic.save(of_variants, tmp_path / f"all{suffix}")
    there = s3.below(tmp_path.name)
    assert there == {f"{tmp_path.name}/all{suffix}": (tmp_path / f"all{suffix}").read_bytes()}
    with pytest.raises(InputError, match="exists already"):
        dhsic.save(of_variants, url)
    with pytest.raises(InputError, match="is a table"):
        dhsic.load(url)
    dhsic.save(of_variants, url, overwrite=True)
    folder = f"s3://bucket/{tmp_path.name}/old{suffix}"
    s3.set(f"{tmp_path.name}/old{suffix}/zarr.json", b"{}")
    with pytest.raises(InputError, match="for example, it is a folder"):
        dhsic.save(of_variants, folder, overwrite=True)


# The command line ----------------------------------------------------------------------------


def test_select_writes_a_table_and_says_so(store, tmp_path):
    out, kept = tmp_path / "all.csv", tmp_path / "ck"
    first = run("select", store, *QUICK, "--out", out, "--checkpoint", kept)
    assert first.stderr.splitlines()[-1] == f"table in {out}"
    run("select", store, *QUICK, "--out", tmp_path / "all.zarr")
    assert_is(read(out), dhsic.load(tmp_path / "all.zarr"))
    again = run("resume", kept)
    assert again.stdout == first.stdout
    assert f"is complete; its result is in {out}." in told(again)
    written = out.read_bytes()
    assert run("select", store, *QUICK, "--out", out, code=2).stderr.startswith("Error: ")
    out.write_text("mine")
    run("resume", kept, "--force")
    assert out.read_bytes() == written
    run("resume", kept, "--out", tmp_path / "other.json")
    assert "exists already" in told(
        run("resume", kept, "--out", store.with_suffix(".truth.tsv"), code=2)
    )
    known = strict((tmp_path / "other.json").read_text())
    assert_is(pd.DataFrame(known["features"]), dhsic.load(tmp_path / "all.zarr"))
    assert known["attributes"]["command"].startswith(f"dhsic select {store} --target sample_trait")


def test_select_and_test_write_what_is_selected(store, tmp_path):
    some = tmp_path / "some.tsv"
    run("select", store, *QUICK, "--out", some, "--selected-only")
    assert read(some)["rank"].tolist() == list(range(1, 9))
    asked = ("--target", "sample_trait", "--selected-only", "--no-progress")
    run("test", store, *asked, "--out", some, "--force")
    assert (read(some)["q"] <= 0.05).all()
    assert "--selected-only applies to the table" in run("test", store, *asked, code=2).stderr
    refused = run("test", store, *asked, "--out", tmp_path / "x.zarr", code=2).stderr
    assert "--selected-only works for tables" in refused


def test_rows_of_json_on_stdout_are_those_of_the_table(store, tmp_path):
    facts = selected(store, *QUICK, "--out", tmp_path / "all.json")
    rows = strict((tmp_path / "all.json").read_text())["features"]
    chosen = [{k: v for k, v in row.items() if k != "selected"} for row in rows if row["selected"]]
    assert facts["selected"] == chosen
    assert facts["out"] == str(tmp_path / "all.json")


@pytest.mark.parametrize("option", ["--labels", "--covariates", "--truth"])
def test_what_a_run_reads_is_not_written_over(store, tmp_path, option):
    table = tmp_path / "mine.tsv"
    table.write_text("trait\n" + "1\n2\n" * 30)
    (tmp_path / "link.tsv").symlink_to(table)
    for out in (table, tmp_path / "link.tsv"):
        given = f"{table}:trait" if option == "--covariates" else table
        said = run("select", store, *QUICK, option, given, "--out", out, "--force", code=2)
        called = f"{option} {given}" if option == "--covariates" else option
        assert f"would overwrite {called} of this run" in told(said)
    assert table.read_text().startswith("trait\n1\n")
    same = ("select", tmp_path / "d.zarr", *QUICK, "--out", tmp_path / "d.zarr", "--force")
    assert "would overwrite PATH of this run" in told(run(*same, code=2))


# What else a result records ------------------------------------------------------------------


def test_the_command_is_recorded_without_secrets(store, tmp_path, monkeypatch):
    monkeypatch.chdir(store.parent)
    key, out = tmp_path / "my.key", tmp_path / "all result.zarr"
    key.write_text("")
    run("select", store.name, *QUICK, "--tls-key", key, "--out", out, "--seed=3")
    command = dhsic.load(out).attrs["command"]
    expected = f"dhsic select g.vcz {' '.join(QUICK)} --tls-key '***' --out '{out}' --seed=3"
    assert command == expected
    assert "command" not in dhsic.select(store, "sample_trait", progress=False).attrs


def test_what_was_left_out_is_counted_in_one_place(store, tmp_path):
    ids = zarr.open_group(store, mode="r")["sample_id"][:].tolist()
    y = ["NA" if i < 3 else str(i % 2) for i in range(len(ids))]
    rows = [f"{name}\t{value}" for name, value in zip(ids, y, strict=True)]
    (tmp_path / "y.tsv").write_text("\n".join(["id\ttrait", *rows, "who\t1", "else\t0"]) + "\n")
    ages = ["" if i in (2, 3, 4) else str(i) for i in range(len(ids))]
    rows = [f"{name}\t{value}" for name, value in zip(ids, ages, strict=True)]
    (tmp_path / "c.tsv").write_text("\n".join(["id\tage", *rows, "who\t1"]) + "\n")
    asked = ("--labels", tmp_path / "y.tsv", "--target", "trait", "--drop-missing", "-n", 4)
    out = tmp_path / "r.zarr"
    facts = selected(store, *asked, "--covariates", tmp_path / "c.tsv", "--out", out)
    attributes = dhsic.load(out).attrs
    counts = left_out(attributes)
    assert list(counts) == list(LEFT_OUT)
    assert {name: facts[name] for name in LEFT_OUT} == counts
    constant = counts.pop("n_constant")
    assert constant == int(dhsic.load(out)["constant"].sum())
    assert counts == {
        "n_samples_left_out": 5,
        "n_samples_without_label": 3,
        "n_samples_without_covariate": 3,
        "n_rows_passed_over": 3,
        "n_rows_elsewhere": 0,
        "n_samples_filtered": 0,
        "n_features_filtered": 0,
        "n_values_coded": 0,
        "n_wholly_missing": 0,
    }
    assert attributes["n_samples"] == len(ids) - 5


@pytest.mark.parametrize("suffix", [".tsv", ".json"])
def test_a_result_that_was_read_again_makes_the_same_table(tmp_path, rng, suffix):
    """As `dhsic attach --out` writes it, and `dhsic select --out` where it was run."""
    X, y = rng.integers(0, 3, (60, 90)).astype("i1"), np.arange(60) % 2
    result = dhsic.select(X, y, n_features_to_select=5, progress=False)
    dhsic.save(result, tmp_path / "kept.zarr")
    again = dhsic.load(tmp_path / "kept.zarr")
    for name, one in (("here", result), ("again", again)):
        dhsic.save(one, tmp_path / f"{name}{suffix}")

    assert list(again.attrs) == list(result.attrs)
    assert (tmp_path / f"again{suffix}").read_bytes() == (tmp_path / f"here{suffix}").read_bytes()
