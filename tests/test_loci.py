"""Loci of a test: those of a plain loop over p-values, in a table and in the report."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run, told
from stores import write, write_vcz

import dhsic

M, D = 400, 120
PLANTED = (24, 93)  # one on each chromosome
TABLE = ["locus", "lead", "contig", "position", "p", "q", "start", "end", "n_variants"]


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Store of 120 variants on two chromosomes, linked in runs of ten, and their dosages (m, d)."""
    path, rng = tmp_path_factory.mktemp("loci") / "x.vcz", np.random.default_rng(3)
    base = np.repeat(rng.integers(0, 2, (M, D // 10, 2)), 10, axis=1)
    calls = (base ^ (rng.random(base.shape) < 0.1)).astype("i1").transpose(1, 0, 2)
    calls[rng.random((D, M)) < 0.01] = -1
    dosage = np.where((calls < 0).any(axis=2), np.nan, calls.sum(axis=2)).T
    y = np.nan_to_num(dosage[:, list(PLANTED)], nan=1).sum(axis=1) + rng.standard_normal(M)
    group = write_vcz(path, calls)
    group["variant_position"][...] = (1000 + 20_000 * (np.arange(D) % 60)).astype("i4")
    write(group, "sample_trait", y, ("samples",))
    return path, dosage


def plain_loci(dosage, p, position, contig, most, r2, kb):
    """Lists of variants, the lead of each first: down by p, to the first better lead in linkage."""
    filled = np.where(np.isnan(dosage), np.nanmean(dosage, axis=0), dosage)
    loci = []
    for j in np.argsort(p, kind="stable"):
        if p[j] > most:
            break
        homes = []
        for locus in loci:
            lead = locus[0]
            is_near = contig[lead] == contig[j] and abs(position[lead] - position[j]) <= 1000 * kb
            if is_near and np.corrcoef(filled[:, lead], filled[:, j])[0, 1] ** 2 > r2:
                homes.append(locus)
        if homes:
            homes[0].append(j)
        else:
            loci.append([j])
    return loci


def of(cohort, folder, *more):
    """Table of loci, result, and what was said."""
    asked = ("--target", "sample_trait", "--force", "--no-progress", *more)
    out = ("--loci", folder / "loci.tsv", "--out", folder / "t.zarr")
    done = run("test", cohort[0], *asked, *out)
    table = pd.read_csv(folder / "loci.tsv", sep="\t", dtype={"contig": str})
    return table, dhsic.load(folder / "t.zarr"), told(done)


def test_two_planted_loci_are_two_rows_with_their_leads(cohort, tmp_path):
    table, _, said = of(cohort, tmp_path)
    assert list(table) == TABLE
    assert set(table["lead"]) == {"rs24", "rs93"}
    assert set(table["contig"]) == {"1", "X"}
    assert (table["p"] <= 5e-8).all()
    assert ((table["start"] <= table["position"]) & (table["position"] <= table["end"])).all()
    assert "2 loci with" in said
    assert "rs93" in said


@pytest.mark.parametrize(
    ("most", "r2", "kb"), [(5e-8, 0.1, 250), (0.05, 0.1, 250), (0.5, 0.02, 60), (0.5, 0.6, 1000)]
)
def test_loci_are_those_of_a_plain_loop(most, r2, kb, cohort, tmp_path):
    asked = ("--loci-p", most, "--loci-r2", r2, "--loci-kb", kb)
    table, result, _ = of(cohort, tmp_path, *asked)
    p, position = result["p"].to_numpy(), result["variant_position"].to_numpy()
    contig = result["variant_contig"].to_numpy().astype(str)
    expected = plain_loci(cohort[1], p, position, contig, most, r2, kb)
    assert len(table) == len(expected)
    for row, locus in zip(table.itertuples(), expected, strict=True):
        assert (row.lead, row.position, row.contig) == (
            f"rs{locus[0]}",
            position[locus[0]],
            contig[locus[0]],
        )
        assert row.p == pytest.approx(p[locus[0]])
        assert (row.start, row.end) == (position[locus].min(), position[locus].max())
        assert row.n_variants == len(locus)
        assert (result["locus"].to_numpy()[locus] == row.locus).all()
    assert (result["locus"].to_numpy() > 0).sum() == sum(map(len, expected))


def test_the_report_has_the_table(cohort, tmp_path):
    of(cohort, tmp_path)
    run("report", tmp_path / "t.zarr", "-o", tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text()
    assert '<h2 id="loci">' in page
    section = page.split('id="loci"')[1].split("</section>")[0]
    assert all(f"<td>{name}</td>" in section for name in ("rs24", "rs93"))
    assert "2 loci with" in page
    for name in ("t.tsv", "t.parquet"):
        dhsic.save(dhsic.load(tmp_path / "t.zarr"), tmp_path / name)
        run("report", tmp_path / name, "-o", tmp_path / "t.html", "--force")
        of_table = (tmp_path / "t.html").read_text()
        assert of_table.split('id="loci"')[1].split("</section>")[0] == section
        assert "2 loci with" in of_table
    run("test", cohort[0], "--target", "sample_trait", "--out", tmp_path / "n.zarr")
    run("report", tmp_path / "n.zarr", "-o", tmp_path / "n.html")
    assert 'id="loci"' not in (tmp_path / "n.html").read_text()


def test_a_threshold_that_none_reaches_is_an_empty_table(cohort, tmp_path):
    table, result, said = of(cohort, tmp_path, "--loci-p", "1e-200")
    assert list(table) == TABLE
    assert table.empty
    assert not result["locus"].any()
    assert "No variant with p <= 1e-200" in said
    run("report", tmp_path / "t.zarr", "-o", tmp_path / "t.html")
    assert "No variant with p" in (tmp_path / "t.html").read_text()


def test_filters_and_codes_change_no_locus(cohort, tmp_path):
    """Missing calls that are numbers in a plain matrix, and variants that filters leave out."""
    path, dosage = cohort
    group = zarr.open_group(tmp_path / "m.zarr", mode="w")
    X = np.where(np.isnan(dosage), -9, dosage).astype("i1")
    write(group, "x", X, ("samples", "variants"))
    for name in ("variant_contig", "variant_position", "variant_id", "sample_trait"):
        array = zarr.open_group(path)[name]
        values = (
            array[...] if name != "variant_contig" else np.array(["1", "X"], object)[array[...]]
        )
        write(group, name, values, ("samples",) if name == "sample_trait" else ("variants",))
    table, *_ = of((tmp_path / "m.zarr", dosage), tmp_path, "--variable", "x")
    expected, *_ = of(cohort, tmp_path)
    assert table["lead"].tolist() == expected["lead"].tolist()
    assert table["n_variants"].tolist() == expected["n_variants"].tolist()
    alone, result, _ = of(cohort, tmp_path, "--chr", "X")
    assert alone["lead"].tolist() == ["rs93"]
    assert result["stored_feature"].to_numpy()[result["rank"].to_numpy() == 1] == 93


def test_what_has_no_loci_is_refused_before_the_work(cohort, tmp_path, rng):
    where = (cohort[0], "--target", "sample_trait")
    asked = ("--loci", tmp_path / "l.tsv")
    for more, sentence in {
        ("--loci-p", "2"): "pass a number between 0 and 1",
        ("--loci-r2", "1"): "pass a number between 0 and 1",
        ("--loci-kb", "-1"): "pass a distance in kilobases",
        ("--target", "sample_trait", "--per-target"): "each once",
    }.items():
        assert sentence in told(run("test", *where, *asked, *more, code=2))
    refused = run("test", *where, "--loci", tmp_path / "l.zarr", code=2)
    assert "loci are written as a text table" in told(refused)
    refused = run("test", *where, *asked, "--effects", tmp_path / "l.tsv", code=2)
    assert "--effects and --loci are the same path" in told(refused)
    frame = pd.DataFrame(rng.standard_normal((30, 4)), columns=list("abcd"))
    frame.assign(y=frame["a"] + frame["b"]).to_csv(tmp_path / "x.csv", index=False)
    refused = run("test", tmp_path / "x.csv", "--target", "y", *asked, code=2)
    assert "needs the chromosome and position" in told(refused)
    labels = pd.DataFrame(rng.standard_normal((M, 2)), columns=["a", "b"])
    labels.insert(0, "IID", [f"s{i}" for i in range(M)])
    labels.to_csv(tmp_path / "y.tsv", sep="\t", index=False)
    several = ("--labels", tmp_path / "y.tsv", "--target", "a", "--target", "b", "--per-target")
    assert "needs exactly one target" in told(run("test", cohort[0], *several, *asked, code=2))
