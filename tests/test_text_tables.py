"""Tables of features as programs write them: PLINK, R, pandas, spreadsheets, spectrometers, GEO."""

import bz2
import gzip
import itertools
import json
import lzma
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, InputError
from dhsic.sources.opening import open_source
from dhsic.sources.summary_rows import summary_rows

pytestmark = pytest.mark.filterwarnings("ignore:Columns of .* that look like row names")
M = 40


def ran(*words, code=0):
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


def values_of(source):
    return source.read(source.blocks(source.n_features)[0])


def frame(rng, d=5, m=M):
    """Rows sorted by class, as most tables are; g2 tells it."""
    y = np.repeat([0, 1], m // 2)
    X = rng.normal(size=(m, d)).round(3)
    X[:, 2] += 4 * y
    table = pd.DataFrame(X, columns=[f"g{i}" for i in range(d)])
    return table.assign(status=np.where(y, "case", "control"))


def best(path, *words):
    said = ran("select", path, "--target", "status", "-n", 1, "--json", "--no-progress", *words)
    return json.loads(said[said.index("{") :])["selected"][0]["name"]


# PLINK ---------------------------------------------------------------------------------------


def genotypes(rng, d=6):
    dosages = rng.integers(0, 3, (M, d)).astype(float)
    dosages[3, 1] = dosages[5, d - 1] = np.nan
    return dosages


def raw(G, iid, fid=None, names=None):
    y = np.where(np.nan_to_num(G[:, 2]) > 0, 2, 1)
    fixed = {"FID": iid if fid is None else fid, "IID": iid, "PAT": 0, "MAT": 0}
    table = pd.DataFrame({**fixed, "SEX": 1 + np.arange(M) % 2, "PHENOTYPE": y})
    names = [f"rs{i}_A" for i in range(G.shape[1])] if names is None else names
    return table.join(pd.DataFrame(G, columns=names).astype("Int64"))


@pytest.mark.parametrize("suffix", [".raw", ".txt", ".tsv", ""])
@pytest.mark.parametrize("lacks", [(), ("PAT", "MAT"), ("FID", "PAT", "MAT")])
def test_a_table_of_plink_holds_variants_alone(rng, tmp_path, suffix, lacks):
    G, iid = genotypes(rng), [f"i{k}" for k in range(M)]
    path = tmp_path / f"geno{suffix}"
    table = raw(G, iid).drop(columns=list(lacks))
    table.to_csv(path, sep="\t" if suffix == ".tsv" else " ", index=False, na_rep="NA")
    source = open_source(path)
    np.testing.assert_array_equal(values_of(source), G)
    assert source.feature_names().tolist() == [f"rs{i}_A" for i in range(6)]
    assert source.sample_names().tolist() == iid
    assert source.not_features == ("SEX", "PHENOTYPE")
    assert "after the last '_'" in source.counted
    assert dhsic.read_target(source, "PHENOTYPE").tolist() == table["PHENOTYPE"].tolist()
    if suffix == ".raw" and not lacks:
        said = ran("select", path, "--target", "PHENOTYPE", "-n", 1, "--no-progress")
        assert "not features: PHENOTYPE, SEX" in " ".join(said.split())
        assert " rs2_A " in said.splitlines()[-2] + said


def test_a_table_of_plink_that_pandas_wrote_again_holds_variants_alone(rng, tmp_path):
    G, iid = genotypes(rng), [f"i{k}" for k in range(M)]
    raw(G, iid).to_csv(tmp_path / "geno.csv")
    source = open_source(tmp_path / "geno.csv")
    assert source.feature_names().tolist() == [f"rs{i}_A" for i in range(6)]
    assert source.sample_names().tolist() == iid
    assert source.not_features == ("SEX", "PHENOTYPE")


def test_a_table_of_phenotypes_keeps_sex_as_a_feature(tmp_path):
    (tmp_path / "t.txt").write_text("IID SEX AGE\na 1 40\nb 2 30\nc 2 20\n")
    assert open_source(tmp_path / "t.txt").feature_names().tolist() == ["SEX", "AGE"]


def test_people_of_one_name_in_two_families_are_joined(rng, tmp_path):
    G, iid, fid = genotypes(rng), [f"i{k // 2}" for k in range(M)], [f"f{k % 2}" for k in range(M)]
    raw(G, iid, fid).to_csv(tmp_path / "g.raw", sep=" ", index=False, na_rep="NA")
    status = np.where(np.nan_to_num(G[:, 4]) > 0, "case", "control")
    labels = pd.DataFrame({"FID": fid, "IID": iid, "status": status})[::-1]
    labels.to_csv(tmp_path / "y.txt", sep=" ", index=False)
    assert best(tmp_path / "g.raw", "--labels", tmp_path / "y.txt") == "rs4_A"


def traw(G, samples):
    d = G.shape[1]
    about = {"CHR": [1 + i // 4 for i in range(d)], "SNP": [f"rs{i}" for i in range(d)], "(C)M": 0}
    about |= {"POS": 100 + 7 * np.arange(d), "COUNTED": "A", "ALT": ["G", "T"] * (d // 2)}
    return pd.DataFrame(about).join(pd.DataFrame(G.T, columns=samples).astype("Int64"))


@pytest.mark.parametrize("suffix", [".traw", ".txt.gz"])
@pytest.mark.parametrize("family", ["0", "f"])
def test_a_transposed_table_of_plink_is_turned_by_itself(rng, tmp_path, suffix, family):
    G, path = genotypes(rng), tmp_path / f"geno{suffix}"
    table = traw(G, [f"{family}_i{k}" for k in range(M)])
    table.to_csv(path, sep="\t", index=False, na_rep="NA")
    source = open_source(path)
    np.testing.assert_array_equal(values_of(source), G)
    assert source.feature_names().tolist() == [f"rs{i}" for i in range(6)]
    assert source.sample_names()[1] == ("i1" if family == "0" else "f_i1")
    coords = source.feature_coords()
    assert coords["variant_contig"].tolist() == ["1"] * 4 + ["2"] * 2
    assert coords["variant_position"].tolist() == [100, 107, 114, 121, 128, 135]
    assert coords["variant_alt"].tolist() == ["A"] * 6
    assert coords["variant_ref"].tolist() == ["G", "T"] * 3
    assert np.array_equal(values_of(open_source(path, sample_dim=1)), G, equal_nan=True)
    dhsic.convert(path, tmp_path / "g.vcz")
    stored = open_source(tmp_path / "g.vcz")
    np.testing.assert_array_equal(values_of(stored), G)
    for name, values in coords.items():
        assert stored.feature_coords()[name].tolist() == values.tolist()
    assert stored.sample_names().tolist() == source.sample_names().tolist()


def test_a_transposed_table_without_genetic_distances_is_turned(rng, tmp_path):
    G, path = genotypes(rng), tmp_path / "g.traw"
    table = traw(G, [f"0_i{k}" for k in range(M)]).drop(columns="(C)M")
    table.to_csv(path, sep="\t", index=False, na_rep="NA")
    source = open_source(path)
    np.testing.assert_array_equal(values_of(source), G)
    assert source.feature_coords()["variant_position"].tolist() == [100, 107, 114, 121, 128, 135]


def test_columns_that_mark_heterozygotes_are_told(rng, tmp_path):
    G = genotypes(rng)
    ids = [f"i{k}" for k in range(M)]
    table = raw(G, ids, ["f"] * M)
    dominance = (table.filter(like="rs") == 1).fillna(False).astype(int)
    both = table.join(dominance.rename(columns=lambda name: f"{name.split('_')[0]}_HET"))
    both.to_csv(tmp_path / "ad.raw", sep=" ", index=False, na_rep="NA")
    assert "6 columns of" in (hint := open_source(tmp_path / "ad.raw").hint)
    assert "(rs0_HET, rs1_HET, ... (6 in all)) mark heterozygotes" in hint
    table.to_csv(tmp_path / "a.raw", sep=" ", index=False, na_rep="NA")
    assert not open_source(tmp_path / "a.raw").hint


def test_a_position_that_is_none_is_refused(rng, tmp_path):
    table = traw(genotypes(rng), [f"f_i{k}" for k in range(M)]).astype({"POS": str})
    table.loc[2, "POS"] = "chr"
    table.to_csv(tmp_path / "g.traw", sep="\t", index=False, na_rep="NA")
    with pytest.raises(DataError, match=r"position in POS that is not a whole number .*'chr'"):
        open_source(tmp_path / "g.traw")


def test_a_category_that_plink_calls_none_is_missing(rng, tmp_path):
    table = frame(rng)
    table.index = [f"i{k}" for k in range(M)]
    table.drop(columns="status").to_csv(tmp_path / "x.csv", index_label="IID")
    origin = table["status"].where(np.arange(M) % 5 > 0, "NONE")
    pd.DataFrame({"#IID": table.index, "status": origin.values, "site": "NONE"}).to_csv(
        tmp_path / "y.pheno", sep="\t", index=False
    )
    words = ("select", tmp_path / "x.csv", "--labels", tmp_path / "y.pheno", "--target")
    assert "8 of 40 samples have missing values" in ran(*words, "status", code=2)
    said = ran(*words, "status", "--drop-missing", "-n", 1)
    assert "2 classes case (16), control (16)" in said
    assert "NONE" in ran(*words, "status", "--not-na", "NONE", "-n", 1)
    assert "No sample has values" in ran(*words, "site", "--drop-missing", code=2)


# Columns that name or count rows ---------------------------------------------------------------


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_the_index_of_a_table_that_was_saved_again_is_no_feature(rng, tmp_path, named, times):
    table, path = frame(rng), tmp_path / "t.csv"
    if named:
        table.index = [f"s{i}" for i in range(M)]
    table.to_csv(path)
    for _ in range(times - 1):
        pd.read_csv(path).to_csv(path)
    source = open_source(path, not_features=("status",))
    assert source.feature_names().tolist() == [f"g{i}" for i in range(5)]
    assert source.sample_names()[1] == ("s1" if named else "1")
    assert ("'Unnamed: 0'." in source.hint) == (times > 1)
    assert best(path) == "g2"


@pytest.mark.parametrize(
    "name", ["patient_id", "PatientID", "Sample ID", "IID", "ID", "row_number"]
)
def test_ids_are_no_features_wherever_they_stand(rng, tmp_path, name):
    table = frame(rng)
    table.insert(3, name, 1001 + rng.permutation(M))
    table.to_csv(tmp_path / "t.csv", index=False)
    source = open_source(tmp_path / "t.csv", not_features=("status",))
    assert name not in source.feature_names()
    assert name in source.not_features
    assert repr(name) in source.hint
    assert best(tmp_path / "t.csv") == "g2"
    frame(rng).drop(columns="status").assign(**{name: 1.0}).T.to_csv(
        tmp_path / "turned.csv", index_label="gene"
    )
    assert name not in open_source(tmp_path / "turned.csv", sample_dim=1).feature_names()


@pytest.mark.parametrize("name", ["ID1", "index", "name", "sampling", "Unnamed: 7"])
def test_genes_and_measurements_are_features_though_they_look_like_ids(rng, tmp_path, name):
    frame(rng).assign(**{name: rng.normal(size=M)}).to_csv(tmp_path / "t.csv")
    assert name in open_source(tmp_path / "t.csv", not_features=("status",)).feature_names()


@pytest.mark.parametrize("way", ["counted", "with gaps", "turned"])
def test_numbers_that_count_samples_are_refused_and_the_remedy_works(rng, tmp_path, way):
    table, path = frame(rng), tmp_path / "t.csv"
    steps = rng.integers(1, 5, M) if way == "with gaps" else np.ones(M, dtype=int)
    table.insert(3, "visit no", 1000 + np.cumsum(steps))
    table.index = [f"s{i}" for i in range(M)]
    more = ()
    if way == "turned":
        table, more = table.T, ("--transpose",)
    table.to_csv(path, index_label="id")
    said = ran("select", path, "--target", "status", *more, code=2)
    assert "increase from each sample to the next" in said
    assert "visit no" in said
    remedy = shlex.split(said[said.index("--not-feature") :].partition(". If they were")[0])
    assert best(path, *remedy, *more) == "g2"
    with pytest.raises(InputError, match="increase from each sample"):
        dhsic.convert(
            path, tmp_path / "x.zarr", not_features=("status",), sample_dim=1 if more else None
        )
    if not more:
        table.assign(**{"visit no": table["visit no"] / 10}).to_csv(path, index_label="id")
        assert "visit no" in open_source(path, not_features=("status",)).feature_names()


def test_what_rises_by_chance_or_in_time_is_a_feature(rng, tmp_path):
    few = pd.DataFrame({"a": [1, 5, 9, 12], "b": [4, 2, 7, 1]}, index=list("wxyz"))
    few.to_csv(tmp_path / "few.csv")
    assert open_source(tmp_path / "few.csv").n_features == 2
    rises = np.cumsum(rng.uniform(0.1, 1, M)).round(3)  # fractions that rise
    frame(rng).drop(columns="status").assign(dose=rises).to_csv(tmp_path / "dose.csv")
    assert "dose" in open_source(tmp_path / "dose.csv").feature_names()
    genes = pd.DataFrame(rng.integers(0, 99, (4, M)), index=list("abcd"))
    genes.loc["a"] = np.cumsum(rng.integers(1, 9, M))  # counts of a gene over time
    genes.columns = [f"s{i}" for i in range(M)]
    genes.to_csv(tmp_path / "genes.csv", index_label="gene")
    assert open_source(tmp_path / "genes.csv", sample_dim=1).n_features == 4


def test_wavelengths_that_nothing_names_are_refused(rng, tmp_path):
    spectra = pd.DataFrame(rng.normal(size=(8, 5)), index=400.5 + 2 * np.arange(8))
    spectra.columns = [f"s{i}" for i in range(5)]
    spectra.to_csv(tmp_path / "t.csv", index_label="wavelength")
    with pytest.raises(
        InputError, match=r"numbers in order that all differ .*rename it to id: sed"
    ):
        open_source(tmp_path / "t.csv", sample_dim=1)
    spectra.to_csv(tmp_path / "t.csv", index_label="id")
    named = open_source(tmp_path / "t.csv", sample_dim=1).feature_names()
    assert named.tolist() == [str(v) for v in spectra.index]


# Headers of numbers ----------------------------------------------------------------------------

SPECTRA = {
    "wavelengths": ("spectrum", [900 + 2 * i for i in range(8)], "fractions"),
    "three": ("spectrum", [900, 902, 904], "fractions"),
    "falling": ("wave", [4000.5 - 1.7 * i for i in range(9)], "whole"),
    "years": ("country", list(range(1990, 2000)), "whole"),
    "genes by number": ("line", [7157, 672, 5290, 1956], "fractions"),
}


@pytest.mark.parametrize("label", ["", "status", "first"])
@pytest.mark.parametrize("kind", SPECTRA)
def test_numbers_in_order_name_the_columns(rng, tmp_path, kind, label):
    first, names, values = SPECTRA[kind]
    X = rng.normal(size=(M, len(names))).round(4) + 1e-5
    X = rng.integers(0, 500, X.shape) if values == "whole" else X
    table = pd.DataFrame(X, columns=names, index=[f"s{i}" for i in range(M)])
    if label:
        at = 0 if label == "first" else len(names)
        table.insert(at, "status", np.repeat(["case", "control"], M // 2))
    table.to_csv(tmp_path / "t.csv", index_label=first)
    apart = ("status",) if label else ()
    source = open_source(tmp_path / "t.csv", not_features=apart)
    assert source.feature_names().tolist() == [str(name) for name in names]
    assert source.sample_names()[0] == "s0"
    np.testing.assert_allclose(values_of(source), X)
    said = ran("inspect", tmp_path / "t.csv", *(("--target", "status") if label else ()))
    shown = names[0] if label != "first" else "status"
    assert f"header in line 1 ({first}, {shown}" in " ".join(said.split())


@pytest.mark.parametrize(
    "text",
    [
        "S1 0.5 1\nS2 1 2\n",
        "a 1 2\nb 3 4\n",
        "a 3 1 2 9 4\nb 1 2 0 4 1\n",
        "s 0 1 2\nt 1 2 0\nu 0 1 1\n",
    ],
)
def test_a_first_sample_is_no_header(tmp_path, text):
    (tmp_path / "t.txt").write_text(text)
    if text.startswith("s 0"):
        with pytest.raises(InputError, match=r"first line .s, 0, 1, 2. may be a header"):
            open_source(tmp_path / "t.txt")
        (tmp_path / "t.txt").write_text("id a b c\n" + text)
    assert open_source(tmp_path / "t.txt").n_samples == text.count("\n")


def test_a_first_line_that_may_be_either_is_refused_and_the_remedy_works(rng, tmp_path):
    table = pd.DataFrame(rng.integers(0, 900, (M, 4)), columns=[900, 902, 904, 906])
    table.index = [f"s{i}" for i in range(M)]
    table.to_csv(tmp_path / "t.csv", index_label="spectrum")
    with pytest.raises(InputError, match=r"may be a header.* write id as its first field"):
        open_source(tmp_path / "t.csv")
    table.to_csv(tmp_path / "t.csv", index_label="id")
    assert open_source(tmp_path / "t.csv").feature_names().tolist() == ["900", "902", "904", "906"]


STEPS = np.cumsum(np.random.default_rng(2).integers(1, 9, 12))
AXES = {
    "whole, equal steps": np.arange(900, 924, 2),
    "fractions, equal steps": np.arange(900, 924, 2) + 0.5,
    "whole, unequal steps": 900 + STEPS,
    "fractions, unequal steps": 900.5 + STEPS,
    "counted": np.arange(1, 13),
}


@pytest.mark.parametrize("column", ["none", "", "spectrum", "short", "label"])
@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("are_whole", [False, True])
def test_a_header_of_rising_or_falling_numbers_is_no_sample(
    rng, tmp_path, axis, falls, column, are_whole
):
    names = [f"{x:g}" for x in AXES[axis][:: -1 if falls else 1]]
    X = rng.normal(1, 0.3, (M, len(names))).round(4)
    X = (1000 * X).round().astype(int) if are_whole else X
    X[1, 0] = X[0, 0]  # what all differs in a first column may be names
    table = pd.DataFrame(X, columns=names, index=[f"s{i}" for i in range(M)])
    path = tmp_path / "t.csv"
    if column in ("none", "label"):
        more = {"status": np.repeat(["case", "control"], M // 2)} if column == "label" else {}
        table.assign(**more).to_csv(path, index=False)
    else:
        table.to_csv(path, index_label="" if column == "short" else column)
    if column == "short":  # as R writes a header
        path.write_text(path.read_text().removeprefix(","))
    apart = ("--not-feature", "status") if column == "label" else ()
    ran("convert", path, tmp_path / "t.zarr", *apart)
    source = open_source(tmp_path / "t.zarr")
    assert source.feature_names().tolist() == names
    np.testing.assert_allclose(values_of(source), X)


UNLIKE = {
    "few, far from values": ([2500.5, 2498.1, 2490.7], lambda rng: rng.random((M, 3)).round(3)),
    "in no order, far": ([700, 950, 820, 610], lambda rng: rng.integers(0, 90, (M, 4))),
    "ids of genes": (
        [7157, 2, 1956, 672, 675, 5728, 4609, 1029, 3845, *range(40, 80)],
        lambda rng: rng.poisson(3, (M, 49)),
    ),
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_numbers_unlike_those_below_are_refused_and_both_remedies_work(rng, tmp_path, kind):
    names, make = UNLIKE[kind]
    table, path = pd.DataFrame(make(rng), columns=names), tmp_path / "t.csv"
    table.to_csv(path, index=False)
    with pytest.raises(InputError, match=r"differ from those below.* a letter before each of them"):
        open_source(path)
    table.add_prefix("w").to_csv(path, index=False)
    source = open_source(path)
    assert (source.n_samples, source.n_features) == table.shape
    table.to_csv(path, index_label="spectrum")
    if kind == "few, far from values":
        with pytest.raises(InputError, match="write id as its first field"):
            open_source(path)


HEADERLESS = {
    "fractions": lambda rng: rng.normal(size=(M, 30)),
    "genotypes": lambda rng: rng.integers(0, 3, (M, 60)),
    "counts": lambda rng: rng.poisson(3, (M, 40)),
    "curves": lambda rng: np.cumsum(rng.random((M, 9)), axis=1),
    "heavy tails": lambda rng: np.exp(rng.normal(3, 2, (M, 8))),
}


@pytest.mark.parametrize("make", HEADERLESS.values(), ids=HEADERLESS)
def test_values_without_a_header_are_all_samples(rng, tmp_path, make):
    np.savetxt(tmp_path / "t.csv", make(rng), delimiter=",", fmt="%.4g")
    assert open_source(tmp_path / "t.csv").n_samples == M


# Lines above the header ------------------------------------------------------------------------


def counts(rng):
    return rng.poisson(50, (4, 6)), [f"s{i}" for i in range(6)], [f"ENSG{i}" for i in range(4)]


def written(path, above, header, rows, end=()):
    lines = [*above, "\t".join(header), *("\t".join(map(str, row)) for row in rows), *end]
    path.write_text("\n".join(lines) + "\n")


UNSAID = ["plain", "featureCounts"]  # which axis is which
FORMATS = [
    *UNSAID,
    "featureCounts whole",
    "GCT 1.2",
    "GCT of names",
    "GCT 1.3",
    "GEO",
    "GEO data set",
]


@pytest.mark.parametrize("kind", FORMATS)
def test_formats_of_genes_are_read_as_they_are(rng, tmp_path, kind):
    C, samples, genes = counts(rng)
    path, options = tmp_path / "t.txt", {"sample_dim": 1} if kind in UNSAID else {}
    in_format(path, kind, C, samples, genes)
    source = open_source(path, **options)
    np.testing.assert_array_equal(values_of(source), C.T)
    assert source.feature_names().tolist() == genes
    assert source.sample_names().tolist() == samples
    if kind == "GCT 1.2":
        assert source.feature_coords()["description"].tolist() == ["symbol of it"] * 4
    if kind == "GCT 1.3":
        assert dhsic.read_target(source, "disease").tolist() == [*"ababab"]
    dhsic.convert(path, tmp_path / "x.zarr", **options)
    np.testing.assert_array_equal(values_of(open_source(tmp_path / "x.zarr")), C.T)


def in_format(path, kind, C, samples, genes):
    """Write counts as a program does."""
    rows = [[g, *c] for g, c in zip(genes, C, strict=True)]
    remark = '# Program:featureCounts v2.0.3; Command:"featureCounts" "-o" "counts.txt"'
    if kind == "plain":
        written(path, [], ["Geneid", *samples], rows)
    elif kind == "featureCounts":
        written(path, [remark], ["Geneid", *samples], rows)
    elif kind == "featureCounts whole":
        about = ["chr1;chr1", "1;9", "5;20", "+;+", "17"]
        header = ["Geneid", "Chr", "Start", "End", "Strand", "Length", *samples]
        written(path, [remark], header, [[g, *about, *c] for g, *c in rows])
    elif kind == "GCT 1.2":
        described = [[g, "symbol of it", *c] for g, *c in rows]
        written(path, ["#1.2", "4\t6"], ["Name", "Description", *samples], described)
    elif kind == "GCT of names":
        written(path, ["#1.2", "4\t6"], ["Name", *samples], rows)
    elif kind == "GCT 1.3":
        of_samples = [["disease", "na", "na", *"ababab"], ["age", "na", "na", *range(6)]]
        described = [[g, "symbol", 7, *c] for g, *c in rows]
        above, header = ["#1.3", "4\t6\t2\t2"], ["id", "symbol", "length", *samples]
        written(path, above, header, [*of_samples, *described])
    elif kind == "GEO data set":
        above = ["^DATABASE = Geo", "!Database_name = GEO", "^DATASET = GDS1", "!dataset_type = x"]
        above += ["#ID_REF = Platform reference identifier", "#s0 = Value", "!dataset_table_begin"]
        described = [[g, "symbol", *c] for g, *c in rows]
        header = ["ID_REF", "IDENTIFIER", *samples]
        written(path, above, header, described, ["!dataset_table_end"])
    else:
        quoted = [[f'"{g}"', *c] for g, *c in rows]
        above = ['!Series_title\t"A, study"', "!Sample_title\t" + "\t".join(samples), ""]
        header = ['"ID_REF"', *(f'"{s}"' for s in samples)]
        ends = ["!series_matrix_table_begin", "!series_matrix_table_end"]
        written(path, [*above, ends[0]], header, quoted, ends[1:])


# Fields ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_booleans_are_numbers(rng, tmp_path, words):
    table = frame(rng)
    flags = rng.random(M) < 0.5
    table["flag"] = np.where(flags, *words)
    table.loc[3, "flag"] = "NA"
    table.to_csv(tmp_path / "t.csv", index_label="sample")
    source = open_source(tmp_path / "t.csv", not_features=("status",))
    expected = np.where(np.arange(M) == 3, np.nan, flags)
    np.testing.assert_array_equal(values_of(source)[:, -1], expected)


def test_indicators_of_pandas_are_the_remedy_for_text(rng, tmp_path):
    table = frame(rng).assign(tissue=["lung", "liver"] * (M // 2))
    table.to_csv(tmp_path / "t.csv")
    assert "get_dummies" in ran("pairs", tmp_path / "t.csv", "--target", "status", code=2)
    pd.get_dummies(table, columns=["tissue"]).to_csv(tmp_path / "t.csv")
    assert best(tmp_path / "t.csv") == "g2"


@pytest.mark.parametrize("column", ["0.5,True,0.7", "True,0.5,False", "NA,True,3"])
def test_booleans_among_numbers_are_refused(tmp_path, column):
    rows = [f"s{i},{v},{i * 0.5}" for i, v in enumerate(column.split(","))]
    (tmp_path / "t.csv").write_text("\n".join(["id,a,b", *rows]))
    with pytest.raises(
        InputError, match=r"in column .a.; the first such field is .* in line [34]\."
    ):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (["1,370", "0,5", "12,25"], [1.370, 0.5, 12.25]),
        (["1,370", "12,000,000", "950"], [1370, 12e6, 950]),
        (["1,370", "2,415.5", "950"], [1370, 2415.5, 950]),
        (["-1,370", "2,4", ""], [-1.37, 2.4, np.nan]),
        (["1.053,40", "2,5", "3"], [1053.4, 2.5, 3]),
        (["1.053", "2,5", "-12.345.678,9"], [1053, 2.5, -12345678.9]),
        (["1.053.200", "950", "12.345"], [1053200, 950, 12345]),
    ],
)
def test_commas_mean_what_all_values_say_and_the_remedy_works(
    tmp_path, monkeypatch, separator, written, numbers
):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"id": ["007", "b", "c"], "Glucose, fasting": [1, 3, 2], "a": written})
    table.to_csv("t.csv", sep=separator, index=False)
    with pytest.raises(InputError) as refused:
        open_source("t.csv")
    command = str(refused.value)
    command = command[command.find(" python -c") :].strip()
    command = command.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    subprocess.run(["bash", "-c", command.replace("NEW.csv", "NEW")], check=True)
    source = open_source((tmp_path / "NEW").rename(tmp_path / "new.csv"))
    np.testing.assert_allclose(values_of(source), np.column_stack([[1, 3, 2], numbers]))
    assert source.sample_names().tolist() == ["007", "b", "c"]
    assert source.feature_names().tolist() == ["Glucose, fasting", "a"]


def test_commas_and_points_that_contradict_each_other_are_not_rewritten(tmp_path):
    for cells in (["1.053,40", "1,053.40"], ["1,370,000", "0,5"], ["1.053,4", "2.75"]):
        (tmp_path / "t.tsv").write_text("id\ta\n" + "".join(f"s{c}\t{c}\n" for c in cells))
        with pytest.raises(InputError, match="no single rule can rewrite them") as told:
            open_source(tmp_path / "t.tsv")
        assert "sed" not in str(told.value)
        assert "python" not in str(told.value)


def test_the_command_for_numbers_with_commas_leaves_all_else_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "# made by a tool; 1\nid;IL-1,2;day;a\ns#1;1.053,4;01.02.2020;v1,2\nt;2,5;03.04.2021;w\n"
    with gzip.open("t.csv.gz", "wt") as file:
        file.write(text)
    with pytest.raises(InputError, match="points separate thousands") as told:
        open_source("t.csv.gz", not_features=["day", "a"])
    command = str(told.value).partition("thousands separators: ")[2]
    command = command.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    subprocess.run(["bash", "-c", command], check=True)
    source = open_source("NEW.csv", not_features=["day", "a"])
    assert values_of(source).tolist() == [[1053.4], [2.5]]
    assert source.feature_names().tolist() == ["IL-1,2"]
    held = source.sample_coords()
    assert held["day"].tolist() == ["01.02.2020", "03.04.2021"]
    assert held["a"].tolist() == ["v1,2", "w"]
    assert source.sample_names().tolist() == ["s#1", "t"]


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize("n_features", [2, 30])
def test_the_command_for_german_numbers_leaves_other_columns(n_features, separator, rng, tmp_path):
    X = rng.normal(2000, 900, (8, n_features)).round(1)
    y = (rng.uniform(1, 9, 8) + 0.0005).round(3)
    german = [[f"{x:,.1f}".translate(str.maketrans(",.", ".,")) for x in row] for row in X]
    table = pd.DataFrame(german, columns=[f"1,3-diol {i}" for i in range(n_features)])
    table.insert(0, "id", [f"1.00{i}" for i in range(8)])
    table.insert(1, "first", [f"{v:.3f}" for v in y])
    table.insert(3, "note, as said", "1,5")
    table["last"] = table["first"]
    beside = {"not_features": ["first", "note, as said", "last"]}
    table.to_csv(tmp_path / "t.csv", sep=separator, index=False)
    with pytest.raises(InputError, match="points separate thousands") as told:
        open_source(tmp_path / "t.csv", **beside)
    command = re.search(r'python -c ".*?to_csv.*?"', str(told.value))[0]
    subprocess.run(
        ["bash", "-c", command.replace("python", sys.executable, 1)], check=True, cwd=tmp_path
    )
    source = open_source(tmp_path / "NEW.csv", **beside)
    np.testing.assert_allclose(values_of(source), X)
    assert source.sample_names().tolist() == [*table["id"]]
    assert source.feature_names().tolist() == [*table.columns[[2, *range(4, n_features + 3)]]]
    held = pd.read_csv(tmp_path / "NEW.csv", dtype=str)
    pd.testing.assert_frame_equal(held[[*beside["not_features"]]], table[beside["not_features"]])
    # a column of three decimals that nobody named is a feature, and is not made 1000 times it
    with pytest.raises(InputError, match="points separate thousands") as told:
        open_source(tmp_path / "t.csv", not_features=["first", "note, as said"])
    command = re.search(r'python -c ".*?to_csv.*?"', str(told.value))[0]
    subprocess.run(
        ["bash", "-c", command.replace("python", sys.executable, 1)], check=True, cwd=tmp_path
    )
    source = open_source(tmp_path / "NEW.csv", not_features=["first", "note, as said"])
    np.testing.assert_allclose(values_of(source)[:, -1], y)


def test_the_command_for_german_numbers_in_rows_leaves_other_rows(rng, tmp_path):
    lines = ["gene;a;b;c", "age;2.123;1.500;3.250", "g1;1.234,5;2,5;0,5", "g2;5;1.234;7"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match="points separate thousands") as told:
        open_source(tmp_path / "t.csv", sample_dim=1, not_features=["age"])
    command = re.search(r'python -c ".*?to_csv.*?"', str(told.value))[0]
    subprocess.run(
        ["bash", "-c", command.replace("python", sys.executable, 1)], check=True, cwd=tmp_path
    )
    source = open_source(tmp_path / "NEW.csv", sample_dim=1, not_features=["age"])
    assert values_of(source).T.tolist() == [[1234.5, 2.5, 0.5], [5, 1234, 7]]
    assert (tmp_path / "NEW.csv").read_text().splitlines()[1] == "age,2.123,1.500,3.250"


HEADER, WIDE = "id,a,b,c,d,e,f", ",,,,,,"
ABOVE = {
    "a title": "Supplementary Table 3. Expression of genes\n\n",
    "a title with commas": "Supplementary Table 3. Expression, in log2\n\n",
    "a title in quotes": '"Table 3: expression, in log2, of genes"\n',
    "titles of a workbook": f"Table 3,,,,,,\nValues, in log2,,,,,\n{WIDE}\n",
    "merged cells": ",group A,,,group B,,\n",
    "groups of columns": "id,A,A,A,B,B,B\n",
    "groups, and no name of the first column": ",treated,treated,treated,not,not,not\n",
}
BELOW = {
    "a source": "\nSource: our own measurements\n",
    "a source without an empty line": "Source: our own measurements\n",
    "notes of a workbook": f"{WIDE}\n* in log2,,,,,,\nNote,see methods,,,,,\n",
    "notes in quotes": '\n"Note: values are in log2, n = 9"\n\n* p < 0.05\n',
    "a sum": "Total,1,2,3,4,5,6\n",
}


@pytest.mark.parametrize("kind", [*ABOVE, *BELOW])
def test_lines_above_and_below_a_table_are_left_out_by_the_command(kind, rng, tmp_path):
    X = rng.normal(size=(9, 6)).round(3)
    body = "".join(f"s{i},{','.join(map(str, x))}\n" for i, x in enumerate(X.tolist()))
    text = f"{ABOVE.get(kind, '')}{HEADER}\n{body}{BELOW.get(kind, '')}"
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=r"title|two rows|like notes|summarise") as told:
        open_source(tmp_path / "t.csv")
    command = re.search(r"(tail|head) -n .*", str(told.value))[0]
    subprocess.run(["bash", "-c", command.replace("NEW", "NEW.csv")], check=True, cwd=tmp_path)
    source = open_source(tmp_path / "NEW.csv")
    np.testing.assert_allclose(values_of(source), X)
    assert source.sample_names().tolist() == [f"s{i}" for i in range(9)]
    assert source.feature_names().tolist() == [*"abcdef"]


def test_a_sample_without_values_is_no_note(tmp_path):
    (tmp_path / "t.csv").write_text("id,a,b,c\ns1,1,2,3\ns2,,,\ns3,0.5,,\n\ns4,2,,\n")
    assert open_source(tmp_path / "t.csv").sample_names().tolist() == ["s1", "s2", "s3", "s4"]
    (tmp_path / "t.csv").write_text("id,a,a,b\ns1,1,2,3\ns2,1,1,1\n")
    with pytest.raises(InputError, match="two columns are named 'a'"):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize("option", [("--na", "-"), ("--na=-",)])
def test_a_dash_is_declared_missing_as_the_sentence_says(option, rng, tmp_path):
    table, path = frame(rng).astype(object), tmp_path / "t.csv"
    table.iloc[3, 1] = "-"
    table.to_csv(path, index_label="sample")
    assert "Use --na - if this text means a missing value." in ran(
        "select", path, "--target", "status", code=2
    )
    assert best(path, *option, "--drop-missing") == "g2"


def test_commas_that_no_value_explains_have_two_readings(tmp_path):
    (tmp_path / "t.csv").write_text("id;a\ns;1,370\nt;2,415\nu;950\n")
    words = "no value shows which: 1,370 is 1.370 or 1370.* marks, write points: .*thousands, rem"
    with pytest.raises(InputError, match=words):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize("mark", ["?", "<1", "#DIV/0!", "-999"])
def test_text_for_missing_is_missing_in_features_too(rng, tmp_path, mark):
    table, path = frame(rng).astype(object), tmp_path / "t.csv"
    table.iloc[3, 1] = mark
    table.iloc[7, -1] = mark
    table.to_csv(path, index_label="sample")
    source = open_source(path, not_features=("status",), na=[mark])
    assert np.isnan(values_of(source)[3, 1])
    assert np.isnan(values_of(source)).sum() == 1
    if mark != "-999":
        said = ran("select", path, "--target", "status", code=2)
        remedy = shlex.split(said[said.rindex("--na") :])[:2]
        assert remedy == ["--na", mark]
        assert best(path, *remedy, "--drop-missing") == "g2"
        dhsic.convert(path, tmp_path / "x.zarr", not_features=("status",), na=[mark])
        assert np.isnan(values_of(open_source(tmp_path / "x.zarr"))).sum() == 1


def test_text_for_missing_of_data_that_hold_none_is_refused():
    with pytest.raises(InputError, match=r"na=.'.'. is text that means a missing value in a"):
        open_source(np.eye(3), na=["?"])


# Files -----------------------------------------------------------------------------------------

NAMES = ["t.tab", "t.dat", "t.raw", "t.data", "t", "t.tsv.bz2", "t.csv.xz", "t.bz2", "t.txt.zst"]


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_known_by_their_content(rng, tmp_path, name):
    content = frame(rng).to_csv(sep="\t", index_label="sample").encode()
    if name.endswith(".bz2"):
        content = bz2.compress(content)
    elif name.endswith(".xz"):
        content = lzma.compress(content)
    elif name.endswith(".zst"):
        compress = pytest.importorskip("pyarrow").compress
        content = compress(content, "zstd", asbytes=True)
    (tmp_path / name).write_bytes(content)
    assert best(tmp_path / name) == "g2"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.map", b"1 rs1 0 5\n1 rs2 0 7\n"),
        ("x", bytes(range(256))),
        ("x.bin", b"a,b\n1,2\n\0\0"),
        ("x.md", b"words\nand more\n"),
    ],
)
def test_other_files_are_no_tables(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="a file of another format"):
        open_source(tmp_path / name)


# Commands --------------------------------------------------------------------------------------


def test_inspect_describes_the_labels_of_a_table(rng, tmp_path):
    frame(rng).to_csv(tmp_path / "t.csv", index_label="sample", sep=";")
    assert "exclude it: --not-feature status" in ran("inspect", tmp_path / "t.csv", code=2)
    ran("inspect", tmp_path / "t.csv", "--not-feature", "status")
    said = ran("inspect", tmp_path / "t.csv", "--target", "status")
    assert "status: 2 classes case (20), control (20)" in said
    header = "one sample per row, semicolons between columns, header in line 1 (sample, g0"
    assert header in " ".join(said.split())
    told = json.loads(ran("inspect", tmp_path / "t.csv", "--target", "status", "--json"))
    assert told["targets"]["status"].startswith("2 classes")
    assert "has no column 'stat'" in ran("inspect", tmp_path / "t.csv", "--target", "stat", code=2)


def test_covariates_come_from_several_tables(rng, tmp_path):
    table = frame(rng)
    table.index = pd.Index([f"s{i}" for i in range(M)], name="IID")
    table.to_csv(tmp_path / "t.csv")
    age, site = rng.normal(size=M), np.arange(M) % 3
    first = pd.DataFrame({"#IID": table.index, "age": age, "sex": 1.0})[::-1]
    first.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    ran("pca", tmp_path / "t.csv", "--not-feature", "status", "-n", 2, "--out", tmp_path / "p.tsv")
    assert (tmp_path / "p.tsv").read_text().startswith("#IID\tPC1\tPC2\ns0\t")
    table.assign(site=site)[["site"]].to_csv(tmp_path / "b.csv")
    words = ("--covariates", f"{tmp_path / 'a.tsv'}:age", "--covariates", tmp_path / "p.tsv")
    words = (*words, "--covariates", tmp_path / "b.csv")
    every = ("select", tmp_path / "t.csv", "--target", "status", "-n", 1)
    assert "covariates age, PC1, PC2, site" in " ".join(ran(*every, *words).split())
    one = table.assign(age=age, site=site).join(
        pd.read_csv(tmp_path / "p.tsv", sep="\t", index_col=0)
    )
    one[["age", "PC1", "PC2", "site"]].to_csv(tmp_path / "all.csv")
    asked = (*every, "--json", "--no-progress")
    several, whole = (
        json.loads(said[said.index("{") :])
        for said in (ran(*asked, *words), ran(*asked, "--covariates", tmp_path / "all.csv"))
    )
    assert several["selected"] == whole["selected"]

    table.assign(age=1.0)[["age"]].to_csv(tmp_path / "c.csv")
    said = ran(*every, *words, "--covariates", tmp_path / "c.csv", code=2)
    assert "Covariate 'age' is both a column of" in said
    assert "a.tsv. List the columns" in said


def test_components_of_plink_have_families(tmp_path):
    pytest.importorskip("bed_reader")
    from bed_reader import to_bed

    G = np.random.default_rng(0).integers(0, 3, (12, 30)).astype("i1")
    people = {"fid": [f"f{i // 2}" for i in range(12)], "iid": [f"i{i % 2}" for i in range(12)]}
    to_bed(tmp_path / "x.bed", G, properties=people)
    ran("pca", tmp_path / "x.bed", "-n", 2, "--out", tmp_path / "p.tsv")
    assert (tmp_path / "p.tsv").read_text().startswith("#FID\tIID\tPC1\tPC2\nf0\ti0\t")
    y = pd.DataFrame({"FID": people["fid"], "IID": people["iid"], "status": G[:, 3] > 0})
    y.to_csv(tmp_path / "y.txt", sep=" ", index=False)
    words = ("--labels", tmp_path / "y.txt", "--target", "status", "-n", 1)
    said = ran("select", tmp_path / "x.bed", *words, "--covariates", tmp_path / "p.tsv")
    assert "covariates PC1, PC2" in said


def test_ids_beside_features_are_no_features_in_parquet_and_are_refused_in_frames(tmp_path, rng):
    X = pd.DataFrame(rng.standard_normal((60, 5)), columns=list("abcde"))
    y = np.arange(60) // 30
    X["c"] += 2 * y
    X.insert(2, "patient_id", np.arange(1001, 1061))
    X.insert(0, "Unnamed: 0", np.arange(60))
    X.insert(0, "sample", [f"s{i}" for i in range(60)])
    X.assign(status=y).to_parquet(tmp_path / "x.parquet", index=False)

    with pytest.warns(
        UserWarning, match="look like row names or numbers .*'Unnamed: 0', 'patient_id'"
    ):
        result = dhsic.select(
            tmp_path / "x.parquet", "status", n_features_to_select=1, progress=False
        )

    assert result["feature"].values.tolist() == list("abcde")
    assert result["rank"].values[2] == 1
    frame = X.set_index("sample")
    with pytest.raises(InputError, match="have names of ids or row numbers") as refused:
        dhsic.select(frame, y, n_features_to_select=1, progress=False)
    assert "X.drop(columns=['Unnamed: 0', 'patient_id'])" in str(refused.value)
    remedied = frame.drop(columns=["Unnamed: 0", "patient_id"])
    assert dhsic.select(remedied, y, n_features_to_select=1, progress=False)["rank"].values[2] == 1


@pytest.mark.parametrize("kind", ["shuffled", "falling", "with a gap"])
def test_whole_numbers_that_count_rows_in_any_order_are_refused(tmp_path, rng, kind):
    table = frame(rng)
    counts = {
        "shuffled": rng.permutation(M),
        "falling": np.arange(M)[::-1],
        "with a gap": np.append(np.arange(M // 2), np.arange(M // 2, M) + 3),
    }[kind]
    order = rng.permutation(M) if kind == "with a gap" else np.arange(M)
    table.insert(2, "index", counts)
    table = table.iloc[order]
    table.to_csv(tmp_path / "t.csv", index=False)

    out = ran("select", tmp_path / "t.csv", "--target", "status", code=2)

    assert "that all differ and leave no gaps ('index')" in " ".join(out.split())
    asked = ("--target", "status", "-n", 1, "--no-progress")
    out = ran("select", tmp_path / "t.csv", *asked, "--not-feature", "index")
    assert "1  g2" in out
    y = (table["status"] == "case").to_numpy()
    with pytest.raises(InputError, match=r"X.drop\(columns=\['index'\]\)"):
        dhsic.select(table.drop(columns="status"), y, n_features_to_select=1)


def test_ranks_of_all_features_are_features(tmp_path, rng):
    table = frame(rng).drop(columns="status").rank()
    y = np.repeat([0, 1], M // 2)

    result = dhsic.select(table, y, n_features_to_select=1, progress=False)

    assert result["rank"].values[2] == 1


@pytest.mark.filterwarnings("default:Missing values depend on the labels")
def test_the_warning_of_missing_values_names_columns_that_can_be_left_out(tmp_path, rng):
    y = np.arange(400) % 2
    X = pd.DataFrame(rng.standard_normal((400, 5)), columns=list("abcde"))
    X.loc[(y == 1) & (rng.random(400) < 0.4), "d"] = np.nan
    X.index = pd.Index([f"s{i}" for i in range(400)], name="sample")
    X.assign(status=np.where(y, "case", "control")).to_csv(tmp_path / "t.csv")
    asked = ("select", tmp_path / "t.csv", "--target", "status", "-n", 1, "--no-progress")

    said = " ".join(ran(*asked).split())

    assert "in 1 feature (d; " in said
    assert "To exclude it: --exclude ids.txt (printf '%s\\n' d > ids.txt writes" in said
    command = re.search(r"printf .* > ids.txt", said)[0]
    subprocess.run(["bash", "-c", command], check=True, cwd=tmp_path)
    ran(*asked, "--exclude", tmp_path / "ids.txt")


# Text among numbers ------------------------------------------------------------------------------


def with_text(rng, path, cells, *, name="g2"):
    """A table some of whose cells, by row, are text."""
    table = frame(rng, 4).astype(object)
    for row, text in cells.items():
        table.loc[row, name] = text
    table.to_csv(path, index_label="id")
    return table


def test_text_that_stands_for_missing_values_is_counted_named_and_declared(rng, tmp_path):
    path = tmp_path / "t.csv"
    with_text(rng, path, {3: "?", 9: "?", 12: "n.d."})
    said = " ".join(ran("test", path, "--target", "status", code=2).split())
    assert "has '?' in line 5, column 'g2', but features must be numbers" in said
    assert "text in 3 of 40 values: '?' (2, first in line 5), 'n.d.' (1, first in line 14)" in said
    option = shlex.split(re.search(r"Use (--na .*?) if ", said)[1])
    assert option == ["--na", "?", "--na", "n.d."]
    assert "g2" in ran("test", path, "--target", "status", *option, "-n", "1")


@pytest.mark.parametrize("cell", [">90", "12,5 mg", "5 years", "missing", "n/a (lost)"])
def test_any_text_among_numbers_is_named_with_its_line(rng, tmp_path, cell):
    with_text(rng, tmp_path / "t.csv", {7: cell})
    with pytest.raises(InputError, match="text in 1 of 40 values: ") as told:
        open_source(tmp_path / "t.csv", not_features=["status"])
    assert f"{cell!r} (1, first in line 9)" in str(told.value)
    assert f"na=[{cell!r}]" in str(told.value)
    assert open_source(tmp_path / "t.csv", not_features=["status"], na=[cell]).n_samples == M


PAIRS = (("yes", "no"), ("True", "no"), ("M", "F"), ("male", "female"), ("low", "high"), ("+", "-"))


@pytest.mark.parametrize("words", PAIRS)
def test_classes_are_never_proposed_as_missing(rng, tmp_path, words):
    path = tmp_path / "t.csv"
    with_text(rng, path, {i: words[i % 2] for i in range(M)}, name="smoker")
    said = " ".join(ran("pairs", path, "--target", "status", code=2).split())
    assert "--na" not in said
    option = shlex.split(said.partition("exclude it: ")[2].partition(". ")[0])
    assert option == ["--not-feature", "smoker"]
    ran("select", path, "--target", "status", *option, "--no-progress")
    some = {0: words[0], 5: words[1], **{i: str(i % 3) for i in (2, 4, 7, 8, 11, 12)}}
    with_text(rng, path, some, name="smoker")
    assert "--na" not in ran("select", path, "--target", "status", code=2)


def test_columns_of_text_of_several_kinds_are_left_out_by_the_options_that_are_said(rng, tmp_path):
    table = frame(rng, 4).assign(site=["a", "b"] * 20, **{"smoking status": ["no", "yes"] * 20})
    table.to_csv(tmp_path / "t.csv", index_label="id")
    said = " ".join(ran("pairs", tmp_path / "t.csv", "--target", "status", code=2).split())
    option = shlex.split(said.partition("exclude them: ")[2].partition(". ")[0])
    assert option == ["--not-feature", "site", "--not-feature", "smoking status"]
    ran("select", tmp_path / "t.csv", "--target", "status", *option, "--no-progress")


def test_text_in_a_row_of_a_feature_is_named_with_its_column(rng, tmp_path):
    table = frame(rng, 4).drop(columns="status").astype(object)
    table.loc[6, "g1"] = "<LOD"
    table.index = [f"s{i}" for i in range(M)]
    table.T.to_csv(tmp_path / "t.csv", index_label="gene")
    with pytest.raises(
        InputError, match="Row 'g1' contains text in 1 of 40 values: '<LOD'"
    ) as told:
        open_source(tmp_path / "t.csv", sample_dim=1)
    assert "in column 's6'" in str(told.value)
    assert open_source(tmp_path / "t.csv", sample_dim=1, na=["<LOD"]).n_samples == M


def test_a_line_of_units_below_the_header_is_left_out_by_the_command(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header, *rows = frame(rng).to_csv(index_label="id").splitlines()
    units = ",".join(["", *["mg/l"] * 5, ""])
    (tmp_path / "t.csv").write_text("\n".join([header, units, *rows]) + "\n")
    said = " ".join(ran("test", "t.csv", "--target", "status", code=2).split())
    assert "has text in line 2 in 5 numeric columns, such as" in said
    subprocess.run(["bash", "-c", said.partition("that line: ")[2]], check=True)
    assert "g2" in ran("test", "NEW", "--target", "status", "-n", 1)


@pytest.mark.parametrize("name", ["Total", "mean", "SD"])
def test_rows_that_sum_up_samples_are_left_out_by_the_command(rng, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    table = frame(rng)
    table.index = [f"s{i}" for i in range(M)]
    table.to_csv("plain.csv", index_label="id")
    last = table.iloc[:1].copy()
    last.index = [name]
    pd.concat([table, last, last.rename(index={name: "max"})]).to_csv("t.csv", index_label="id")
    said = " ".join(ran("test", "t.csv", "--target", "status", code=2).split())
    assert f"ends with '{name}', 'max' (from line {M + 2} on); these rows summarise" in said
    subprocess.run(["bash", "-c", said.partition("after them: ")[2]], check=True)
    assert (tmp_path / "NEW").read_text() == (tmp_path / "plain.csv").read_text()
    last.index = ["mean"]
    pd.concat([last, table]).to_csv("first.csv", index_label="id")
    ran("test", "first.csv", "--target", "status")


SUMS = {
    "Summe": ["sum"],
    "": ["sum"],
    "Mittelwert": ["mean"],
    "moyenne, écart type": ["mean", "std"],
    "n": ["count"],
    "describe": ["count", "mean", "std", "min", "25%", "50%", "75%", "max"],
}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *itertools.product(SUMS, ["csv", "frame"]),
        *itertools.product(["Summe", "describe"], ["turned", "parquet", "feather"]),
    ],
)
def test_rows_that_sum_up_samples_are_known_by_their_numbers(
    rng, tmp_path, monkeypatch, name, form
):
    monkeypatch.chdir(tmp_path)
    table = frame(rng).drop(columns="status").abs()
    table.index = [f"s{i}" for i in range(M)]
    table.index.name = "id"
    last = table.describe()
    last.loc["sum"] = table.sum()
    last = last.loc[SUMS[name]].round(3)
    last.index = [*name.split(", "), *"abcdefg"][: len(last)]
    whole = pd.concat([table, last])
    whole.index.name = "id"
    if form == "frame":
        with pytest.raises(
            InputError, match="which summarises the samples and is not a sample"
        ) as told:
            dhsic.open_source(whole)
        n = int(re.search(r"X = X.iloc\[:-(\d+)\]", str(told.value))[1])
        assert dhsic.open_source(whole.iloc[:-n]).n_samples == M
        return
    path = {"csv": "t.csv", "turned": "t.csv"}.get(form, f"t.{form}")
    options = {"sample_dim": 1} if form == "turned" else {}
    if form == "csv":
        whole.to_csv(path)
    elif form == "turned":
        whole.T.to_csv(path, index_label="gene")
    else:
        getattr(whole if form == "parquet" else whole.reset_index(), f"to_{form}")(path)
    with pytest.raises(
        InputError, match="which summarises the samples and is not a sample"
    ) as told:
        open_source(path, **options)
    command = re.search(r"(head -n .*|python -c .*)", str(told.value))[0]
    new = re.search(r"NEW(\.\w+)?", command)[0]
    command = command.replace("python -c", f"{sys.executable} -c")
    subprocess.run(["bash", "-c", command], check=True)
    Path(new).replace(path)
    source = open_source(path, **options)
    np.testing.assert_allclose(values_of(source), table)
    assert source.sample_names().tolist() == table.index.tolist()


def test_last_samples_that_look_like_others_are_samples(rng):
    tables = {
        "answers": rng.integers(1, 6, (30, 12)),
        "zeros": np.vstack([rng.integers(0, 2, (30, 12)), np.zeros(12)]),
        "ones": np.vstack([rng.integers(0, 2, (30, 12)), np.ones(12)]),
        "middle of answers": np.vstack([rng.integers(1, 6, (30, 12)), np.full(12, 3)]),
        "reference": np.vstack([rng.normal(size=(30, 12)).round(2), np.zeros(12)]),
        "counts": rng.poisson(0.2, (30, 12)),
        "alike": rng.normal(size=(30, 1)) + rng.normal(0, 0.01, (30, 12)),
        "few": rng.normal(size=(6, 3)).round(1),
    }
    for name, X in tables.items():
        assert summary_rows(X.__getitem__, X.shape) == [], name


@pytest.mark.filterwarnings("default:2 rows")
def test_rows_that_are_there_twice_are_told_and_visits_are_not(rng, tmp_path):
    table = frame(rng)
    table.index = [f"s{i}" for i in range(M)]
    pd.concat([table, table.iloc[3:5]]).to_csv(tmp_path / "t.csv")
    said = " ".join(ran("test", tmp_path / "t.csv", "--target", "status").split())
    assert "2 rows of" in said
    assert "repeat the name and all values of another row ('s3', 's4')" in said
    visits = table.copy()
    visits["g0"] += 1
    pd.concat([table, visits.iloc[3:5]]).to_csv(tmp_path / "t.csv")
    assert "twice" not in ran("test", tmp_path / "t.csv", "--target", "status")


def test_booleans_beside_numbers_are_refused_and_the_command_writes_numbers(
    rng, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    G = rng.random((40, 5)) < 0.5
    table = pd.DataFrame(G, pd.Index([f"s{i}" for i in range(40)], name="id")).add_prefix("g")
    mixed = table.astype(str)
    mixed.iloc[7, 2], mixed.iloc[9, 4] = "1", "0"
    mixed.to_csv("x.csv")
    with pytest.raises(
        InputError, match=r"mixes numbers with True and False, .* in column 'g\d'"
    ) as e:
        open_source("x.csv")
    command = re.search(r'python (-c ".*"), then pass NEW.csv', str(e.value))[1]
    subprocess.run([sys.executable, *shlex.split(command)], check=True)
    expected = table.astype(float)
    expected.iloc[7, 2], expected.iloc[9, 4] = 1, 0
    np.testing.assert_array_equal(values_of(open_source("NEW.csv")), expected)
