"""Nearest genes of variants: files of genes as people have them, distances, doors."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import run, told
from stores import write_vcz

import dhsic
import dhsic.accessor
from dhsic.errors import InputError
from dhsic.joins.genes import Genes, nearest_genes


def line(chromosome, start, end, attributes, kind="gene", strand="+"):
    return f"{chromosome}\tx\t{kind}\t{start}\t{end}\t.\t{strand}\t.\t{attributes}\n"


def result_at(contigs, positions):
    """A result of tests of variants at these places."""
    n = len(positions)
    values = {"rank": np.arange(1, n + 1), "selected": np.arange(n) < 1, "p": np.linspace(0, 1, n)}
    places = {
        "variant_contig": ("features", np.array(contigs, dtype=object)),
        "variant_position": ("features", np.array(positions)),
    }
    return xr.Dataset({name: ("features", of) for name, of in values.items()}, coords=places)


def nearest(genes, contigs, positions):
    """Pairs of gene and distance."""
    contigs = np.array(contigs, dtype=object)
    names, distances = nearest_genes(genes.segments(contigs), contigs, np.array(positions))
    return [*zip(names.tolist(), distances.tolist(), strict=True)]


@pytest.fixture
def gtf(tmp_path):
    """An unsorted GTF with comments, a repeated gene, and genes that overlap."""
    path = tmp_path / "genes.gtf"
    path.write_text(
        "#!genome-build GRCh38\n#!by x\n"
        + line("chr2", 100, 200, 'gene_id "E3"; gene_name "C#1";', strand="-")
        + line("chr1", 1500, 2500, 'gene_id "E2"; note "no name";')
        + line("chr1", 1000, 2000, 'gene_id "E1"; gene_name "A"; note "a;b";')
        + line("chr1", 1000, 2000, 'gene_id "E1"; gene_name "A"; note "again";')
        + line("chr1", 1, 10**6, 'gene_id "E1"; gene_name "A";', kind="exon")
        + line("chrX", 5, 9, 'gene_id "E9"; gene_name "XG";')
        + line("chrM", 5, 9, 'gene_id "E10"; gene_name "MT-A";')
    )
    return path


# -- Distances ------------------------------------------------------------------------------------


def test_distances_are_those_of_all_genes_one_by_one(rng):
    starts = np.sort(rng.integers(1, 5000, 300))
    ends = starts + rng.integers(0, 60, 300)
    names = np.array([f"g{i}" for i in range(300)], dtype=object)
    genes = Genes(np.full(300, "chr1", object), starts, ends, names, np.full(300, "+", object))
    positions = np.arange(1, 5300)

    found = nearest(genes, ["1"] * positions.size, positions)

    away = np.maximum(np.maximum(starts - positions[:, None], positions[:, None] - ends), 0)
    for (name, distance), of_all in zip(found, away, strict=True):
        best = names[of_all == of_all.min()].tolist()
        assert distance == of_all.min()
        assert set(name.split(",")) <= set(best)
        assert distance or name.split(",") == best  # inside, all of them


def test_genes_inside_beside_and_between(gtf):
    places = {1: ("A", 999), 999: ("A", 1), 1000: ("A", 0), 1600: ("A,E2", 0), 2500: ("E2", 0),
              2600: ("E2", 100), 0: ("", -1)}  # fmt: skip
    found = nearest(Genes.read(gtf), ["1"] * len(places), [*places])
    assert found == [*places.values()]


def test_between_two_genes_equally_far_the_first_is_named(tmp_path):
    path = tmp_path / "genes.bed"
    path.write_text("1\t9\t20\tleft\n1\t29\t40\tright\n")
    genes = Genes.read(path)
    assert nearest(genes, ["1"] * 3, [24, 25, 26]) == [("left", 4), ("left", 5), ("right", 4)]


# -- Files ----------------------------------------------------------------------------------------


def test_chromosomes_are_the_same_however_they_are_called(gtf):
    names = ["chr1", "01", "X", "23", "chrX", "M", "26", "XY", "25", "7", "."]
    genes = Genes.read(gtf)
    found = [nearest(genes, [name], [6])[0][0] for name in names]
    assert found == [*["A"] * 2, *["XG"] * 3, *["MT-A"] * 2, *["XG"] * 2,
                                           "", ""]  # fmt: skip


def test_chromosome_23_of_cattle_is_no_x(tmp_path):
    path = tmp_path / "cattle.gtf"
    path.write_text("".join(line(c, 5, 9, f'gene_id "G{c}";') for c in (1, 23, 29, "X")))
    found = nearest(Genes.read(path), ["1", "23", "X"], [6] * 3)
    assert found == [("G1", 0), ("G23", 0), ("GX", 0)]
    assert nearest(Genes.read(path), ["1", "23"], [6] * 2) == found[:2]


def test_gff3_of_ncbi_compressed_with_accessions_and_sequences(tmp_path):
    path = tmp_path / "x.gff3.gz"
    text = (
        "##gff-version 3\n"
        + line("NC_000023.11", 31, 40, "ID=gene-P;Name=P", kind="pseudogene")
        + line("NC_000001.11", 1, 999, "ID=NC_000001.11:1..999", kind="region")
        + line("NC_000001.11", 11, 20, "ID=gene-D;Name=D;gene=D%2C1;gene_biotype=x")
        + line("NC_012920.1", 11, 20, "ID=gene:E;gene_id=E")
        + "##FASTA\n>chr1\nACGTACGT\n"
    )
    path.write_bytes(gzip.compress(text.encode()))
    found = nearest(Genes.read(path), ["chr1", "23", "MT"], [15, 35, 15])
    assert found == [("D,1", 0), ("P", 0), ("E", 0)]


def test_genes_without_lines_of_genes_extend_over_their_parts(tmp_path):
    path = tmp_path / "stringtie.gtf"
    path.write_text(
        line("1", 10, 20, 'gene_id "G"; transcript_id "t1";', "transcript")
        + line("1", 15, 40, 'gene_id "G"; transcript_id "t2";', "exon")
        + line("2", 50, 60, 'gene_id "H"; gene_name "h";', "exon")
    )
    genes = Genes.read(path)
    assert genes.names.tolist() == ["G", "h"]
    assert (genes.starts.tolist(), genes.ends.tolist()) == ([10, 50], [40, 60])


def test_bed_counts_from_0_and_has_comments(tmp_path):
    path = tmp_path / "genes.bed.gz"
    path.write_bytes(gzip.compress(b"# x\ntrack name='a b'\nchr1\t9\t20\tG\t0\t-\n2 0 5 H\n"))
    genes = Genes.read(path)
    assert nearest(genes, ["1", "1", "1", "2"], [9, 10, 20, 1]) == [("G", 1), ("G", 0), ("G", 0),
                                                                   ("H", 0)]  # fmt: skip
    assert genes.strands.tolist() == [".", "-"]


#: The beginning of a compressed file; without a time of writing, so that it is always the same.
TRUNCATED = gzip.compress(line("1", 1, 2, 'gene_id "a"').encode() * 99, mtime=0)[:40]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.txt", b"a", "ends in .gtf, .gff3 or .bed"),
        ("x.gtf", b"", "contains no gene"),
        ("x.gtf", b"#!only\n#!comments\n", "is not a GTF or GFF3 file"),
        ("x.gtf", b"chr1 x gene 1 2 . + . gene_id\n", "nine columns separated by tabs"),
        ("x.gtf", line("1", "q", 2, 'gene_id "a"').encode(), "1:q-2, which is not an interval"),
        ("x.gtf", line("1", 9, 2, 'gene_id "a"').encode(), "1:9-2, which is not an interval"),
        ("x.gtf", line("1", 0, 2, 'gene_id "a"').encode(), "1:0-2, which is not an interval"),
        ("x.bed", b"chr1\t5\t9\n", "has 3 columns. Write four"),
        ("x.gtf.gz", TRUNCATED, "cannot be"),
    ],
)
def test_files_that_hold_no_genes_end_in_a_sentence(name, content, sentence, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        Genes.read(tmp_path / name)


def test_a_file_that_is_not_there():
    with pytest.raises(InputError, match=r"There is no file none\.gtf"):
        Genes.read("none.gtf")


# -- Results --------------------------------------------------------------------------------------


def test_results_get_columns_also_in_tables(gtf, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = dhsic.annotate(result_at(["chr1", "2", "1"], [1600, 90, 3000]), gtf)
    assert result["gene"].values.tolist() == ["A,E2", "C#1", "E2"]
    assert result["gene_distance"].values.tolist() == [0, 10, 500]
    again = result.dhsic.annotate(gtf)
    xr.testing.assert_identical(result, again)
    result = result.assign(score=result["p"]).assign_attrs(dhsic_format=1)
    dhsic.save(result, tmp_path / "t.tsv")
    table = pd.read_csv(tmp_path / "t.tsv", sep="\t")
    assert table["gene"].tolist() == ["A,E2", "C#1", "E2"]
    assert table["gene_distance"].tolist() == [0, 10, 500]
    dhsic.save(result, tmp_path / "t.zarr")
    xr.testing.assert_equal(dhsic.load(tmp_path / "t.zarr")["gene"], result["gene"])


def test_chromosomes_without_genes_are_told(gtf):
    with pytest.warns(UserWarning, match=r"no gene on 2 chromosomes of the data \(7, NC_9\)"):
        result = dhsic.annotate(result_at(["chr1", "7", "NC_9"], [1600, 90, 3000]), gtf)
    assert result["gene_distance"].values.tolist() == [0, -1, -1]


def test_genes_of_other_chromosomes_and_data_without_places_are_refused(gtf, rng):
    with pytest.raises(InputError, match=r"No chromosome of genes\.gtf .* is one of the data"):
        dhsic.annotate(result_at(["NC_9"], [5]), gtf)
    X = rng.standard_normal((40, 3))
    result = dhsic.select(X, X[:, 0], n_features_to_select=1)
    with pytest.raises(InputError, match="need the chromosome and position of each feature"):
        dhsic.annotate(result, gtf)


# -- Commands -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("genes") / "x.vcz", np.random.default_rng(3)
    calls = rng.integers(0, 2, (40, 200, 2)).astype("i1")
    write_vcz(path, calls)
    y = calls[7].sum(axis=1) + 0.2 * rng.standard_normal(200)
    pd.DataFrame({"y": y}).to_csv(path.parent / "y.csv", index=False)
    return path


def asked(store, *more):
    return (store, "--labels", store.parent / "y.csv", "--target", "y", "--by-position",
            "--no-progress", *more)  # fmt: skip


@pytest.fixture
def genes_of_store(store, tmp_path):
    positions = dhsic.open_source(str(store)).feature_coords()["variant_position"]
    contig = dhsic.open_source(str(store)).feature_coords()["variant_contig"][7]
    path = tmp_path / "near.gtf"
    path.write_text(line(f"chr{contig}", positions[7] - 1, positions[7], 'gene_name "HIT"'))
    return path


@pytest.mark.filterwarnings("default")
def test_commands_print_and_write_the_nearest_gene(store, genes_of_store, tmp_path):
    where = ("--annotate", genes_of_store, "--out", tmp_path / "t.zarr")
    done = run("test", *asked(store, "-n", 1, "--loci", tmp_path / "l.tsv", *where))
    assert done.stdout.split()[-2:] == ["HIT", "0"]
    assert "1 gene in near.gtf" in told(done)
    assert "same genome build" in told(done)
    loci = pd.read_csv(tmp_path / "l.tsv", sep="\t")
    assert loci.loc[0, ["gene", "gene_distance"]].tolist() == ["HIT", 0]
    result = dhsic.load(tmp_path / "t.zarr")
    assert result["gene"].values[7] == "HIT"
    run("report", tmp_path / "t.zarr", "--out", tmp_path / "r.html")
    assert "HIT" in (tmp_path / "r.html").read_text()


def test_genes_are_refused_before_the_work(store, gtf, tmp_path):
    (tmp_path / "far.gtf").write_text(line("NC_9", 1, 2, 'gene_name "a"'))
    for genes, sentence in (
        (tmp_path / "far.gtf", "No chromosome of far.gtf"),
        (tmp_path / "none.gtf", "There is no file"),
    ):
        refused = run("test", *asked(store, "--annotate", genes), code=2)
        assert sentence in told(refused)
        assert not refused.stdout
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(f"{i % 5},{i % 3}\n" for i in range(200)))
    words = ("select", *asked(store)[1:], "--annotate", gtf)
    refused = run(words[0], tmp_path / "x.csv", *words[1:], code=2)
    assert "need the chromosome and position" in told(refused)
