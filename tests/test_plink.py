"""Files of PLINK: the dosages of A1, names as tables have them, phenotypes by PLINK's rules."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run, selected, told
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from stores import changed, write, write_plink
from suites.source import Case, SourceSuite, whole
from thorough import examples

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources import plink
from dhsic.sources.compact import CompactText, RepeatedText

DATA = Path(__file__).parents[2] / "shared/data/genotypes"
QUICK = ("-n", 3, "--threads", 2, "--no-progress")
M, D = 30, 21
CALLS = np.random.default_rng(3).choice(np.array([0, 0, 1, 1, 2, -1], "i1"), (M, D))
CALLS[:, 6] = np.arange(M) % 3
Y = (np.arange(M) % 3 == 1).astype(int)


def expected_of(X):
    return np.where(X == -1, np.nan, X.astype(float))


def ranking(data, y=Y, **options):
    found = dhsic.select(data, y, n_features_to_select=3, progress=False, **options)
    return found["rank"].to_numpy().tolist(), found["score"].to_numpy().tolist()


def write_pgen(prefix, X, *, alternatives="G", dosages=None):
    """Write dosages of all but REF as .pgen, beside a .pvar with a header and a .psam of IIDs."""
    pgenlib = pytest.importorskip("pgenlib")
    m, d = X.shape
    path = prefix.with_suffix(".pgen")
    has = dosages is not None
    with pgenlib.PgenWriter(bytes(path), m, d, False, dosage_present=has) as out:
        for j in range(d):
            if has:
                filled = np.where(np.isnan(dosages[:, j]), -9, dosages[:, j])
                out.append_dosages(filled.astype("f4"))
            else:
                out.append_biallelic(np.where(X[:, j] == -1, -9, X[:, j]).astype("i1"))
    lines = ["##fileformat=VCFv4.3", "#CHROM\tPOS\tID\tREF\tALT\tQUAL"]
    lines += [f"1\t{10 * j + 5}\trs{j}\tA\t{alternatives}\t." for j in range(d)]
    prefix.with_suffix(".pvar").write_text("\n".join(lines) + "\n")
    lines = ["#IID\tSEX\ttrait", *(f"s{i}\t1\t{i % 5}.5" for i in range(m))]
    prefix.with_suffix(".psam").write_text("\n".join(lines) + "\n")
    return path


def case_of(write_one, X, folder, **options):
    def opened(X):
        return dhsic.open_source(write_one(folder / f"x{int(X[0, 0])}", X), **options)

    return Case(opened(X), expected_of(X), lambda: opened(X), lambda: opened(changed(X)))


class TestBed(SourceSuite):
    @pytest.fixture(scope="class", params=[12, 13, 30])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")
        return case_of(write_plink, CALLS[: request.param], folder)

    def test_it_opens_itself_where_it_is_read(self, source):
        assert (source.client_bytes, source.dtype, source.missing_code) == (0, np.int8, -1)

    def test_names(self, source):
        assert source.feature_names()[:2].tolist() == ["rs0", "rs1"]
        assert source.sample_names()[:2].tolist() == ["s0", "s1"]
        first = {name: values[0] for name, values in source.feature_coords().items()}
        assert first == {
            "variant_contig": "1",
            "variant_position": 5,
            "variant_id": "rs0",
            "variant_ref": "A",
            "variant_alt": "G",
        }


class TestPgen(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        return case_of(write_pgen, CALLS, tmp_path_factory.mktemp("case"))


class TestPgenDosages(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")
        X = np.where(CALLS == -1, np.nan, np.clip(CALLS + 0.25, 0, 2)).astype("f4")

        def opened(X):
            path = write_pgen(folder / f"x{X[0, 0]}", CALLS, dosages=X)
            return dhsic.open_source(path, variable="dosages")

        other = X.copy()
        other[0, 0] = 1.5
        return Case(opened(X), X.astype(float), lambda: opened(X), lambda: opened(other))


@examples(10)
@given(st.data())
def test_bed_reader_reads_the_same(tmp_path_factory, data):
    bed_reader = pytest.importorskip("bed_reader")
    m, d = data.draw(st.integers(1, 11)), data.draw(st.integers(1, 9))
    values = st.lists(st.sampled_from([0, 1, 2, -127]), min_size=m * d, max_size=m * d)
    X = np.array(data.draw(values), "i1").reshape(m, d)
    path = tmp_path_factory.mktemp("bed") / "x.bed"
    bed_reader.to_bed(path, X)
    np.testing.assert_array_equal(
        whole(dhsic.open_source(path)), np.where(X == -127, np.nan, X.astype(float))
    )


def test_the_ranking_is_that_of_the_matrix_and_of_vcf_zarr(tmp_path, client):
    path = write_plink(tmp_path / "x", CALLS)
    write_pgen(tmp_path / "x", CALLS)
    group = zarr.open_group(tmp_path / "x.vcz", mode="w")
    genotypes = np.stack([CALLS.T > 0, CALLS.T > 1], axis=2).astype("i1")
    genotypes[CALLS.T == -1] = -1
    write(group, "call_genotype", genotypes, ("variants", "samples", "ploidy"))
    expected = ranking(CALLS, missing_code=-1)
    assert expected[0][6] == 1
    for data in (path, str(tmp_path / "x"), path.with_suffix(".fam"), tmp_path / "x.vcz"):
        assert ranking(data) == expected
    assert ranking(tmp_path / "x.pgen") == ranking(tmp_path / "x.pvar") == expected
    assert ranking(path, runtime=DaskRuntime(client)) == expected


def test_the_result_says_which_allele_is_counted(tmp_path):
    path = write_plink(tmp_path / "x", CALLS)
    result = dhsic.select(path, Y, n_features_to_select=3, progress=False)
    assert result.attrs["counted_allele"] == "A1 of .bim (variant_alt)"
    there = np.ma.masked_equal(CALLS, -1)
    np.testing.assert_allclose(result["allele_frequency"], there.mean(axis=0) / 2)
    assert result["n_missing"].to_numpy().tolist() == (CALLS == -1).sum(axis=0).tolist()
    written = run("select", tmp_path / "x", *QUICK, "--labels", _table(tmp_path), "--target", "y")
    assert "alleles the dosage counts A1 of .bim (variant_alt)" in told(written)


def _table(folder, ids="IID", name=str):
    """A table of labels in another order."""
    rows = [f"{name(f's{i}')}\t{'case' if Y[i] else 'control'}" for i in range(M)][::-1]
    (folder / "y.tsv").write_text("\n".join([f"{ids}\ty", *rows]) + "\n")
    return folder / "y.tsv"


def test_tables_join_by_iid_and_by_families(tmp_path, monkeypatch):
    write_plink(tmp_path / "x", CALLS, families=[f"f{i // 2}" for i in range(M)])
    monkeypatch.chdir(tmp_path)
    facts = selected("x.bed", *QUICK, "--labels", _table(tmp_path), "--target", "y")
    best = [row["name"] for row in facts["selected"]]
    assert best[0] == "rs6"
    twins = [f"s{i % (M // 2)}" for i in range(M)]
    families = ["a"] * (M // 2) + ["b"] * (M // 2)
    write_plink(tmp_path / "x", CALLS, families=families, samples=twins)
    assert dhsic.open_source("x").sample_names()[-1] == f"b_s{M // 2 - 1}"
    rows = [f"{f} {s} {y}" for f, s, y in zip(families, twins, Y, strict=True)][::-1]
    (tmp_path / "y.txt").write_text("\n".join(["#FID IID y", *rows]) + "\n")
    one = selected("x", *QUICK, "--labels", "y.txt", "--target", "y")["selected"]
    assert [row["name"] for row in one] == best


@pytest.mark.parametrize("header", ["#IID\tSID", "#FID\tIID\tSID"])
def test_samples_of_one_person_are_told_apart_by_their_sources(header, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people, sources = [f"p{i // 2}" for i in range(M)], [f"t{i % 2}" for i in range(M)]
    ids = pd.DataFrame({"IID": people, "SID": sources})
    if header.startswith("#FID"):
        ids.insert(0, "FID", "0")
    write_pgen(tmp_path / "x", CALLS)
    ids.to_csv("x.psam", sep="\t", index=False, header=header.split("\t"))
    assert dhsic.open_source("x").sample_names()[:3].tolist() == ["p0_t0", "p0_t1", "p1_t0"]
    shuffled = ids.assign(y=Y).sample(frac=1, random_state=1)
    shuffled.to_csv("y.tsv", sep="\t", index=False)
    words = ("x.pgen", *QUICK, "--labels", "y.tsv", "--target", "y")
    assert selected(*words)["selected"][0]["name"] == "rs6"
    shuffled.drop(columns="SID").to_csv("y.tsv", sep="\t", index=False)
    run("select", *words, code=2)
    run("pca", "x.pgen", "--out", "pcs.tsv", "--components", "2")
    assert {"IID", "SID"} <= {name.removeprefix("#") for name in pd.read_csv("pcs.tsv", sep="\t")}


def test_a_table_of_other_sources_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = pd.DataFrame({"#IID": [f"p{i}" for i in range(M)], "SID": "tumor"})
    write_pgen(tmp_path / "x", CALLS)
    ids.to_csv("x.psam", sep="\t", index=False)
    labels = ids.assign(y=Y).sample(frac=1, random_state=1)
    words = ("x.pgen", *QUICK, "--labels", "y.tsv", "--target", "y")
    for table in labels, labels.drop(columns="SID"):
        table.to_csv("y.tsv", sep="\t", index=False)
        assert selected(*words)["selected"][0]["name"] == "rs6"
    labels.assign(SID="blood").to_csv("y.tsv", sep="\t", index=False)
    said = " ".join(run("select", *words, code=2).stderr.split())
    assert f"the SID of {M} of {M} samples differs from that in the data (first: IID" in said
    remedy = re.search(r"pass (--sample-column IID)", said)[1].split()
    assert selected(*words, *remedy)["selected"][0]["name"] == "rs6"


@pytest.mark.parametrize("rows", [slice(None), slice(5, 6)])
def test_ids_with_blanks_are_read_if_tabs_separate_columns(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = np.array([f"p{i}" for i in range(M)], dtype=object)
    names[rows] = [f"of {name}" for name in names[rows]]
    write_plink(tmp_path / "x", CALLS)
    lines = [["f", name, "0", "0", "1", str(y + 1)] for name, y in zip(names, Y, strict=True)]
    Path("x.fam").write_text("".join("\t".join(line) + "\n" for line in lines))
    assert dhsic.open_source("x").sample_names().tolist() == names.tolist()
    table = pd.DataFrame({"IID": names, "y": Y}).sample(frac=1, random_state=1)
    table.to_csv("y.tsv", sep="\t", index=False)
    for words in ("--target", "PHENO"), ("--labels", "y.tsv", "--target", "y"):
        assert selected("x.bed", *QUICK, *words)["selected"][0]["name"] == "rs6"
    Path("x.fam").write_text("".join(" ".join(line) + "\n" for line in lines))
    with pytest.raises(DataError, match=rf"Line {1 + range(M)[rows][0]} of .* contains a blank"):
        dhsic.open_source("x").sample_names()


def test_variants_with_blanks_are_read_if_tabs_separate_columns(tmp_path):
    path = write_plink(tmp_path / "x", CALLS)
    table = tmp_path / "x.bim"
    rows = [line.split() for line in table.read_text().splitlines()]
    rows[4][1] = "rs 4"
    table.write_text("".join("\t".join(row) + "\n" for row in rows))
    source = dhsic.open_source(path)
    assert source.feature_names()[4] == "rs 4"
    assert source.feature_coords()["variant_position"].tolist() == [int(row[3]) for row in rows]
    table.write_text("".join(" ".join(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"Line 5 of .* more fields than the columns CHROM, ID"):
        dhsic.open_source(path).feature_names()


@pytest.mark.parametrize("n", [1, 12])
def test_wide_tables_of_samples_are_read_by_tabs(n, tmp_path):
    path = write_pgen(tmp_path / "x", CALLS)
    names = ["#IID", *(f"trait {j}" for j in range(n))]
    rows = [[f"of p{i}", *(f"{i % 7}.{j}" for j in range(n))] for i in range(M)]
    text = "\n".join("\t".join(row) for row in [names, *rows])
    (tmp_path / "x.psam").write_text(text + "\n")
    assert dhsic.open_source(path).sample_names()[-1] == f"of p{M - 1}"
    told = " ".join(run("inspect", path).stdout.split())
    assert f"target trait {n - 1}: " in told
    run("test", path, "--target", f"trait {n - 1}")


def test_inspect_says_what_files_hold(tmp_path):
    path = write_plink(tmp_path / "x", CALLS, phenotype=[f"{i % 5}.5" for i in range(M)])
    told = " ".join(run("inspect", path).stdout.split())
    for words in (
        "x.bed: 30 samples x 21 features",
        "values int8, missing: -1; genotype calls (0, 1 and 2)",
        "alleles the dosage counts A1",
        "features rs0, rs1, rs2, ... (21 names)",
        "target PHENO: 30 real values from 0.5 to 4.5",
        "advice The layout is good",
    ):
        assert words in told
    path = write_pgen(tmp_path / "y", CALLS)
    told = " ".join(run("inspect", path).stdout.split())
    assert "target trait: 5 classes" in told or "target trait: 30 real values" in told
    assert "target SEX: constant" in told
    run("test", path, "--target", "trait")
    (tmp_path / "x.csv").write_text("sample,a,b,c\ns,1,2,u\nt,2,1,v\nr,2,3,v\n")
    told = " ".join(run("inspect", tmp_path / "x.csv", "--not-feature", "c").stdout.split())
    assert "3 samples x 2 features" in told
    assert "target c: 2 classes v (2), u (1)" in told
    assert f"dhsic convert {tmp_path}/x.csv OUT.zarr" in told
    facts = run("inspect", tmp_path / "x.csv", "--not-feature", "c", "--json").stdout
    assert '"layout": null' in facts


def test_variants_without_ids_are_named_by_their_places(tmp_path):
    ids = ["rs0", ".", *(f"rs{j}" for j in range(2, D))]
    source = dhsic.open_source(write_plink(tmp_path / "x", CALLS, ids=ids))
    assert source.feature_names()[:3].tolist() == ["rs0", "1:15:A:G", "rs2"] or (
        source.feature_names()[1] == "1:15"
    )
    twice = write_plink(tmp_path / "y", CALLS, ids=["rs1"] * D, places=[7] * D)
    assert dhsic.open_source(twice).feature_names()[0] == "1:7:A:G"


def test_several_alternatives_are_counted_together(tmp_path):
    """As of VCF Zarr: at a site of three alleles every copy that is not REF counts."""
    pgenlib = pytest.importorskip("pgenlib")
    path = write_pgen(tmp_path / "x", CALLS[:3, :1], alternatives="G,T")
    with pgenlib.PgenWriter(bytes(path), 3, 1, False, allele_ct_limit=3) as out:
        out.append_alleles(np.array([0, 2, 1, 2, -9, -9], "i4"), allele_ct=3)
    source = dhsic.open_source(path)
    np.testing.assert_array_equal(whole(source), [[1], [2], [np.nan]])
    assert source.feature_coords()["variant_alt"].tolist() == ["G,T"]


# -- phenotypes -----------------------------------------------------------------------------------

PHENOTYPES = {
    "cases": (["1", "2", "0", "-9", "NA"], [1, 2, np.nan, np.nan, np.nan]),
    "a trait": (["0.5", "-9", "0", "nan", "-8.5"], [0.5, np.nan, 0, np.nan, -8.5]),
    "classes": (["a", "b", "-9", "a", "b"], ["a", "b", "", "a", "b"]),
}


@pytest.mark.parametrize("case", PHENOTYPES)
def test_phenotypes_by_the_rules_of_plink(tmp_path, case):
    given, expected = PHENOTYPES[case]
    path = write_plink(tmp_path / "x", CALLS[:5], phenotype=given)
    for name in ("PHENO", "pheno", "phenotype"):
        np.testing.assert_array_equal(dhsic.read_target(path, name), expected)
    np.testing.assert_array_equal(
        dhsic.read_target(tmp_path / "x", "sex"), [np.nan, 2, 1, 1, np.nan]
    )


def test_a_phenotype_is_a_target(tmp_path):
    trait = [f"{v}" for v in Y + 1]
    path = write_plink(tmp_path / "x", CALLS, phenotype=["-9", *trait[1:]])
    facts = selected(path, "--target", "PHENO", *QUICK, "--drop-missing", "--covariate", "SEX")
    assert (facts["n_samples"], facts["n_samples_without_label"]) == (M - 2 * M // 5, 1)
    facts = selected(path, "--target", "phenotype", *QUICK, "--drop-missing")
    assert facts["selected"][0]["name"] == "rs6"
    assert "have missing values (PHENO: 1)" in told(
        run("select", path, "--target", "PHENO", code=2)
    )
    write_pgen(tmp_path / "y", CALLS)
    assert dhsic.read_target(tmp_path / "y.pgen", "trait")[:2].tolist() == [0.5, 1.5]


# -- what is refused ------------------------------------------------------------------------------


def _edited(name, change):
    def edit(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return edit


def _without(name):
    return lambda folder: (folder / name).unlink()


DAMAGED = {
    "another magic": (_edited("x.bed", lambda b: b"chr" + b[3:]), "x", DataError, "6c 1b", "UCSC"),
    "sample-major": (
        *(_edited("x.bed", lambda b: b[:2] + b"\0" + b[3:]), "x", DataError),
        *("sample by sample", "--make-bed"),
    ),
    "cut": (
        *(_edited("x.bed", lambda b: b[:-5]), "x.bed", DataError),
        *("room for 20 variants and a part of one of 30 samples", "21 variants", "restore"),
    ),
    "empty": (_edited("x.bed", lambda b: b""), "x", DataError, "is empty", "Restore"),
    "more samples": (
        *(_edited("x.fam", lambda b: b.replace(b"\n", b"\nz z 0 0 1 1\n", 6)), "x", DataError),
        *("36 samples", "do not belong together"),
    ),
    "no .bim": (_without("x.bim"), "x.bed", InputError, "does not exist", "x.bim", "sets of three"),
    "no .fam": (_without("x.fam"), "x.bed", InputError, "does not exist", "x.fam", "sets of three"),
    "no .bed": (_without("x.bed"), "x.fam", InputError, "does not exist", "x.bed", "sets of three"),
    "an empty .fam": (_edited("x.fam", lambda b: b""), "x", DataError, "x.fam has no rows"),
    "a short row": (
        *(_edited("x.bim", lambda b: b.replace(b"\t0\t15\tG\tA", b"")), "x", DataError),
        *("Row 2", "x.bim has no POS"),
    ),
    "no position": (
        *(_edited("x.bim", lambda b: b.replace(b"\t15\t", b"\tx\t")), "x", DataError),
        *("position", "'x'"),
    ),
    "a variable": (lambda folder: None, "x", InputError, "contains calls", "'dosages'"),
    "0 and 1": (
        *(_edited("x.fam", lambda b: b.replace(b" -9\n", b" 0\n").replace(b"0\n", b"1\n", 5)), "x"),
        *(InputError, "has only the values 0 and 1", "--1"),
    ),
    "no phenotype": (lambda folder: None, "x", InputError, "missing for all samples", "--labels"),
    "no such phenotype": (lambda folder: None, "x", InputError, "no column 'height'", "PHENO"),
}
TARGETS = {"0 and 1": "PHENO", "no phenotype": "PHENO", "no such phenotype": "height"}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused_in_a_sentence(tmp_path, monkeypatch, case):
    edit, path, error, *words = DAMAGED[case]
    write_plink(tmp_path / "x", CALLS)
    edit(tmp_path)
    monkeypatch.chdir(tmp_path)
    variable = "dosages" if case == "a variable" else None
    assert_refused(
        lambda: dhsic.BAHSIC(3, progress=False).fit(path, TARGETS.get(case, Y), variable=variable),
        *(error, words, tmp_path),
    )


def test_a_pgen_of_other_tables_is_refused(tmp_path):
    path = write_pgen(tmp_path / "x", CALLS)
    with path.with_suffix(".psam").open("a") as table:
        table.write("more\t1\t1\n")
    with pytest.raises(DataError, match=r"21 variants\) and x\.psam \(31 samples\): restore"):
        dhsic.open_source(path)
    write_pgen(tmp_path / "x", CALLS)
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(DataError, match="restore them"):
        whole(dhsic.open_source(path))


def test_a_file_that_is_cut_under_way(tmp_path):
    path = write_plink(tmp_path / "x", CALLS)
    source = dhsic.open_source(path)
    os.truncate(path, 60)
    with pytest.raises(DataError, match=r"x\.bed now ends before variant 14.*Restore it"):
        whole(source)


# -- real genotypes -------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0, 0.5, 1])
def test_dosages_that_are_not_read_are_said(part, tmp_path):
    """Calls were read without a word: p = 1e-10 against 4e-17 by the dosages."""
    pgenlib = pytest.importorskip("pgenlib")
    m, d, path = 40, 70_000, tmp_path / "x.pgen"  # two parts of the index
    has = np.arange(d) % 2 < 2 * part
    with pgenlib.PgenWriter(bytes(path), m, d, False, dosage_present=True) as out:
        dosages = [np.full(m, 0.25 * (i % 2), "f4") for i in range(2)]
        dosages[1][:20] = 0.0
        for j in range(d):
            calls = np.zeros(m, "i1")
            calls[j % m] = 1
            if has[j]:
                out.append_dosages(dosages[1] + calls)
            else:
                out.append_biallelic(calls)
    rows = "".join(f"1\t{j + 1}\trs{j}\tA\tG\n" for j in range(d))
    path.with_suffix(".pvar").write_text(f"#CHROM\tPOS\tID\tREF\tALT\n{rows}")
    rows = "".join(f"s{i}\t2\t{i % 5}.5\n" for i in range(m))
    path.with_suffix(".psam").write_text(f"#IID\tSEX\ttrait\n{rows}")

    hint = dhsic.open_source(path).hint
    said = f"imputed dosages of {has.sum():,} of {d:,} variants, but the rounded calls are read"
    assert (said in hint) == bool(part)
    assert bool(hint) == bool(part)
    assert dhsic.open_source(path, variable="dosages").hint == ""
    if part == 1:
        asked = (path, "--chr", "1:1-30")
        assert f"{said}. Pass --variable dosages" in " ".join(run("inspect", *asked).stdout.split())
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            shown = told(run("test", *asked, "--target", "trait", "-n", "1", "--no-progress"))
        assert f"{said}. Pass --variable dosages" in shown
        again = run("inspect", *asked, "--variable", "dosages").stdout
        assert "imputed" not in again
        assert "; dosages" in " ".join(again.split())


def test_the_example_of_regenie():
    if not DATA.exists():
        pytest.skip(f"{DATA} is not here")
    facts = selected(
        *(DATA / "regenie_example.bed", "--labels", DATA / "regenie_phenotype_bin.txt"),
        *("--target", "Y1", "--covariates", DATA / "regenie_covariates.txt", *QUICK),
    )
    assert (facts["n_samples"], facts["n_features"]) == (500, 1000)
    assert facts["label_kernel"] == "balanced"


def test_compact_texts_are_those_encoded(rng):
    parts = [np.array(["rs1", "", "ä1", "x" * 300], object), np.array(["rs1", "1:5:A:T"], object)]
    every = np.concatenate(parts)
    for kind in (CompactText, RepeatedText):
        column = kind.joined([kind.of(part) for part in parts]).column()
        assert column.read(slice(None)).tolist() == every.tolist()
        assert column.read(slice(1, 4)).tolist() == every[1:4].tolist()
        assert column.at(np.array([5, 0])).tolist() == [every[5], every[0]]
    many = rng.integers(0, 1000, 5000).astype(str).astype(object)
    joint = RepeatedText.joined([RepeatedText.of(many[:400]), RepeatedText.of(many[400:])])
    assert joint.read(slice(None)).tolist() == many.tolist()
    assert joint.codes.dtype == np.uint16


def test_tables_of_many_variants_are_read_in_parts(tmp_path, monkeypatch):
    """Names and coordinates, and the row of an error, do not depend on the parts."""
    rows = [f"{1 + j // 5}\trs{j}\t0\t{10 * j}\tA\t0\n" for j in range(11)]
    path = tmp_path / "x.bim"
    path.write_text("".join(rows))
    whole = plink.VariantTable(path)
    monkeypatch.setattr(plink, "STRETCH", 3)
    parts = plink.VariantTable(path)
    assert parts.names().tolist() == whole.names().tolist() == [f"rs{j}" for j in range(11)]
    for name, values in whole.coords().items():
        np.testing.assert_array_equal(parts.coords()[name], values)
    assert whole.coords()["variant_ref"].tolist() == ["."] * 11
    path.write_text("".join([*rows[:7], "2\trs7\t0\n", *rows[8:]]))
    with pytest.raises(DataError, match=r"Row 8 of .*x\.bim has no POS"):
        plink.VariantTable(path).names()


@pytest.mark.filterwarnings("default")
def test_none_in_a_psam_is_told_and_a_class_by_the_option(tmp_path):
    write_pgen(tmp_path / "x", CALLS)
    groups = np.array(["NONE", "MCI", "AD"])[np.clip(CALLS[:, 6], 0, 2)]
    lines = [f"s{i}\t{group}\n" for i, group in enumerate(groups)]
    (tmp_path / "x.psam").write_text("#IID\tDX\n" + "".join(lines))

    message = run("test", tmp_path / "x.pgen", "--target", "DX", code=2).stderr
    options = re.search(r"--labels \S+ --target DX --not-na NONE", message)[0].split()
    assert "NONE in DX" in message
    assert f"{(groups == 'NONE').sum()} of {M} samples have missing values" in message
    best = run("test", tmp_path / "x.pgen", *options, "-n", "1").stdout
    assert re.search(r"^ +1 +\S*v?6 ", best, re.MULTILINE), best
