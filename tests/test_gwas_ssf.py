"""GWAS-SSF files of `dhsic test --effects`: columns, their order and values, metadata."""

from __future__ import annotations

import gzip
import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run, told
from scipy.special import betaln, hyp2f1
from scipy.stats import norm, t
from stores import write, write_vcz

from dhsic.passes.effects import minus_log10_tail

M, D = 120, 24
#: Columns of which the specification fixes the names and the order.
REQUIRED = ["chromosome", "base_pair_location", "effect_allele", "other_allele", "beta",
            "standard_error", "effect_allele_frequency", "p_value"]  # fmt: skip
#: Contigs of the variants, and their numbers in GWAS-SSF.
CONTIGS = {"chr1": 1, "chrX": 23, "chrY": 24, "chrM": 25}


@pytest.fixture
def cohort(tmp_path):
    """Store of 24 variants on four chromosomes, with alleles of several kinds, and its labels."""
    path, rng = tmp_path / "x.vcz", np.random.default_rng(5)
    calls = (rng.random((D, M, 2)) < rng.uniform(0.2, 0.5, (D, 1, 1))).astype("i1")
    calls[3] = 0  # does not vary
    group = write_vcz(path, calls)
    for name in ("contig_id", "variant_contig", "variant_position", "variant_allele", "variant_id"):
        if name in group:
            del group[name]
    alleles = np.array([["A", "G"]] * D, dtype=object)
    alleles[1], alleles[2] = ["TC", "T"], ["A", "<DEL>"]
    ids = np.array([f"rs{j}" for j in range(D)], dtype=object)
    ids[5] = "."
    contigs = [*CONTIGS, "GL000191.1"]
    index = np.minimum(np.arange(D) // 6, 3)
    index[9] = 4
    write(group, "contig_id", np.array(contigs, dtype=object), ("contigs",))
    write(group, "variant_contig", index.astype("i4"), ("variants",))
    write(group, "variant_position", (1000 + 10 * (np.arange(D) % 6)).astype("i4"), ("variants",))
    write(group, "variant_allele", alleles, ("variants", "alleles"))
    write(group, "variant_id", ids, ("variants",))
    y = calls[0].sum(axis=1) + rng.standard_normal(M)
    ids = group["sample_id"][...]
    labels = pd.DataFrame({"IID": ids, "height": y, "age": rng.integers(30, 70, M)})
    labels["cc"] = np.where(y > 0.5, "case", "control")
    labels.to_csv(tmp_path / "ph.tsv", sep="\t", index=False)
    return path


def effects_of(cohort, target, out, *more, code=0):
    where = ("--labels", cohort.parent / "ph.tsv", "--target", target, "--no-progress")
    return run("test", cohort, *where, "--effects", out, *more, code=code)


def meta_of(path):
    """Metadata, in which every value is JSON or a date."""
    lines = path.with_name(f"{path.name}-meta.yaml").read_text().splitlines()
    pairs = [line.split(": ", 1) for line in lines]
    return {k: v if k.startswith("date") else json.loads(v) for k, v in pairs}


@pytest.mark.filterwarnings("default")
def test_columns_rows_and_values_are_those_of_the_specification(cohort, tmp_path):
    out = tmp_path / "e.ssf.tsv.gz"
    said = told(effects_of(cohort, "height", out, "--covariate", "age"))
    plain = tmp_path / "e.tsv"
    effects_of(cohort, "height", plain, "--covariate", "age")
    table, others = pd.read_csv(out, sep="\t"), pd.read_csv(plain, sep="\t")

    assert [*table][:8] == REQUIRED
    assert not (table[REQUIRED].astype(str) == "#NA").to_numpy().any()
    kept = np.delete(np.arange(D), [2, 3, 9])
    assert "3 variants (1 on no chromosome from 1 to 22, X, Y or MT, 1 with alleles other" in said
    assert "1 without an effect that can be estimated)" in said
    others = others.loc[kept]
    assert table["chromosome"].tolist() == [CONTIGS[name] for name in others["CHROM"]]
    for ssf, name in (("base_pair_location", "POS"), ("n", "N"),
                      ("effect_allele", "A1"), ("other_allele", "A2"),
                      ("beta", "BETA"), ("standard_error", "SE"), ("p_value", "P"),
                      ("effect_allele_frequency", "A1_FREQ"), ("p_hsic", "P_HSIC")):  # fmt: skip
        assert table[ssf].tolist() == others[name].tolist(), ssf
    assert table["variant_id"].tolist()[:2] == ["1_1000_A_G", "1_1010_TC_T"]
    assert all(table["variant_id"].str.fullmatch(r"\d+_\d+_[ACGT]+_[ACGT]+"))
    assert table.loc[kept == 5, "rsid"].isna().all()
    assert all(re.fullmatch(r"rs\d+", name) for name in table.loc[kept != 5, "rsid"])
    assert set(table["ref_allele"]) == {"OA"}


@pytest.mark.filterwarnings("default")
def test_metadata_describe_the_file_and_the_study(cohort, tmp_path):
    out = tmp_path / "e.ssf.tsv.gz"
    said = told(effects_of(cohort, "cc", out, "--covariate", "age"))
    meta = meta_of(out)
    assert meta["data_file_name"] == "e.ssf.tsv.gz"
    assert meta["data_file_md5sum"] == hashlib.md5(out.read_bytes()).hexdigest()
    assert meta["trait_description"] == ["cc"]
    cases = int((pd.read_csv(tmp_path / "ph.tsv", sep="\t")["cc"] == "case").sum())
    (sample,) = meta["samples"]
    assert sample["sample_size"] == M
    assert (sample["case_count"], sample["control_count"]) == (cases, M - cases)
    assert meta["adjusted_covariates"] == ["age"]
    assert meta["is_sorted"]
    assert meta["coordinate_system"] == "1-based"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", meta["date_metadata_last_modified"])
    assert "log odds ratio of case" in meta["author_notes"]
    assert "replace NR in e.ssf.tsv.gz-meta.yaml" in said
    first = gzip.decompress(out.read_bytes())
    effects_of(cohort, "cc", out, "--covariate", "age", "--force")
    assert gzip.decompress(out.read_bytes()) == first


@pytest.mark.filterwarnings("default")
def test_p_values_too_small_for_a_number_are_logarithms(tmp_path, rng):
    m = 3000
    calls = rng.integers(0, 2, (3, m, 2)).astype("i1")
    write_vcz(tmp_path / "x.vcz", calls, n_alleles=2)
    y = calls[1].sum(axis=1) + 0.05 * rng.standard_normal(m)
    pd.DataFrame({"y": y}).to_csv(tmp_path / "y.csv", index=False)
    out = tmp_path / "e.ssf.tsv"
    where = ("--labels", tmp_path / "y.csv", "--target", "y", "--by-position", "--effects", out)
    said = told(run("test", tmp_path / "x.vcz", *where))
    assert "neg_log_10_p_value instead of p_value" in said
    assert "divide" not in said
    table = pd.read_csv(out, sep="\t")
    assert [*table][:8] == [*REQUIRED[:7], "neg_log_10_p_value"]
    size, df = np.abs(table["beta"] / table["standard_error"]).to_numpy(), m - 2
    # the tail of Student's t as a hypergeometric function, in logarithms
    a, b, x = df / 2, 0.5, df / (df + size**2)
    log_p = a * np.log(x) + b * np.log1p(-x) - np.log(a) - betaln(a, b)
    log_p += np.log(hyp2f1(a + b, 1, a + 1, x))
    log_p = np.where(size > 10, log_p, np.log(2 * t.sf(np.minimum(size, 10), df)))
    np.testing.assert_allclose(table["neg_log_10_p_value"], -log_p / np.log(10), rtol=1e-9)
    assert table["neg_log_10_p_value"].max() > 310


@pytest.mark.parametrize(("size", "degrees"), [(25, 1e3), (37, 1e6), (60, 300), (1e20, 10)])
def test_logarithms_of_tails_are_those_of_scipy(size, degrees):
    expected = -np.log10(2 * t.sf(size, degrees))
    np.testing.assert_allclose(minus_log10_tail(size, degrees), expected, rtol=1e-12)
    normal = -np.log10(2 * norm.sf(30))
    np.testing.assert_allclose(minus_log10_tail(30, np.inf), normal, rtol=1e-12)


def test_data_that_are_no_human_variants_are_refused_before_the_work(cohort, tmp_path):
    out = tmp_path / "e.ssf.tsv"
    pd.DataFrame(np.arange(240).reshape(M, 2) % 7, columns=["a", "b"]).to_csv(
        tmp_path / "x.csv", index=False
    )
    where = ("--labels", tmp_path / "ph.tsv", "--target", "height", "--by-position")
    refused = told(run("test", tmp_path / "x.csv", *where, "--effects", out, code=2))
    assert "the data have no variant_alt, variant_contig" in refused
    advised = re.search(r"pass (--effects) (effects\.tsv)", refused).groups()
    run("test", tmp_path / "x.csv", *where, advised[0], tmp_path / advised[1])
    group = zarr.open_group(str(cohort), mode="r+")
    group["contig_id"][...] = np.array(["1", "23", "29", "X", "3"], dtype=object)
    refused = told(effects_of(cohort, "height", out, code=2))
    assert "GWAS-SSF supports the human chromosomes 1 to 22, X, Y and MT, but the data" in refused
    assert "23, 29" in refused
    assert not out.exists()


def test_files_that_exist_are_kept(cohort, tmp_path):
    out = tmp_path / "e.ssf.tsv"
    beside = tmp_path / "e.ssf.tsv-meta.yaml"
    beside.write_text("mine")
    refused = told(effects_of(cohort, "height", out, code=2))
    assert "e.ssf.tsv-meta.yaml exists already" in refused
    assert beside.read_text() == "mine"
    effects_of(cohort, "height", out, re.search(r"\((--force)\)", refused)[1])
    assert meta_of(out)["file_type"] == "GWAS-SSF v1.0"
