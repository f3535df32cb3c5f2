"""VCF and BCF: the calls, names and filters of VCF Zarr, dosages, and files that are damaged."""

import gzip
import pickle
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from commands import run
from stores import write_plink, write_vcz
from suites.source import Case, SourceSuite, whole

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.runtime.dask import DaskRuntime

pysam = pytest.importorskip("pysam")
bcftools = pytest.importorskip("pysam.bcftools")
pytest.importorskip("cyvcf2")
M, D = 30, 21
CALLS = np.random.default_rng(3).choice(np.array([0, 0, 1, 1, 2, -1], "i1"), (M, D))
CALLS[:, 6] = np.arange(M) % 3
CALLS[0, 0] = 0
Y = (np.arange(M) % 3 == 1).astype(int)
TEXTS = {-1: "./.", 0: "0/0", 1: "0|1", 2: "1/1"}
HEADER = """##fileformat=VCFv4.2
##FILTER=<ID=q10,Description="x">
##contig=<ID=1>
##contig=<ID=X>
##INFO=<ID=R2,Number=1,Type=Float,Description="x">
##FORMAT=<ID=GT,Number=1,Type=String,Description="x">
##FORMAT=<ID=DS,Number=A,Type=Float,Description="x">
##FORMAT=<ID=GP,Number=G,Type=Float,Description="x">
"""
#: The same without dosages.
PLAIN = "".join(f"{line}\n" for line in HEADER.splitlines() if "ID=DS" not in line)


def row(*calls, j=0, contig="1", alleles="A\tG", kind="GT", status="PASS"):
    return f"{contig}\t{10 * j + 5}\trs{j}\t{alleles}\t{j}\t{status}\tR2=0.{j % 10}\t{kind}\t" + (
        "\t".join(calls)
    )


def rows_of(X):
    return [
        row(*(TEXTS[k] for k in X[:, j].tolist()), j=j, status="PASS" if j % 3 else "q10")
        for j in range(X.shape[1])
    ]


def write_vcf(path, rows, m=M, header=HEADER, names=None):
    names = "\t".join([f"s{i}" for i in range(m)] if names is None else names)
    columns = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"
    text = f"{header}{columns}{names}\n" + "".join(f"{each}\n" for each in rows)
    if path.suffix == ".vcf":
        path.write_text(text)
        return path
    plain = path.with_name("plain.vcf")
    plain.write_text(text)
    if path.suffix == ".gz":
        pysam.tabix_compress(str(plain), str(path), force=True)
    else:
        file = pysam.VariantFile(str(plain))
        with pysam.VariantFile(str(path), "wb", header=file.header) as out:
            for record in file:
                out.write(record)
    return path


def ranking(data, **options):
    found = dhsic.select(data, Y, n_features_to_select=3, progress=False, **options)
    return found["rank"].to_numpy().tolist(), found["score"].to_numpy().tolist()


class TestVcf(SourceSuite):
    @pytest.fixture(scope="class", params=["x.vcf", "x.vcf.gz", "x.bcf"])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(X):
            where = folder / f"{X[0, 0]}"
            where.mkdir(exist_ok=True)
            path = where / request.param
            return dhsic.open_source(path if path.exists() else write_vcf(path, rows_of(X)))

        other = CALLS.copy()
        other[0, 0] = 2
        expected = np.where(CALLS == -1, np.nan, CALLS.astype(float))
        return Case(opened(CALLS), expected, lambda: opened(CALLS), lambda: opened(other))


def test_the_ranking_is_that_of_bed(tmp_path, client):
    path = write_vcf(tmp_path / "x.vcf.gz", rows_of(CALLS))
    expected = ranking(write_plink(tmp_path / "x", CALLS))
    assert ranking(path) == ranking(path.as_uri()) == expected
    assert ranking(path, runtime=DaskRuntime(client)) == expected
    dhsic.convert(path, tmp_path / "out.vcz")
    assert ranking(tmp_path / "out.vcz") == expected


def test_names_and_filters(tmp_path):
    path = write_vcf(tmp_path / "x.bcf", rows_of(CALLS))
    source = dhsic.open_source(path, pass_only=True)
    assert source.n_features == D - D // 3
    assert source.feature_names()[:2].tolist() == ["rs1", "rs2"]
    assert source.sample_names()[:2].tolist() == ["s0", "s1"]
    coords = {name: values[0] for name, values in source.feature_coords().items()}
    assert coords == {
        "stored_feature": 1,
        "variant_contig": "1",
        "variant_position": 15,
        "variant_id": "rs1",
        "variant_ref": "A",
        "variant_alt": "G",
    }
    for condition, n in (("variant_R2 >= 0.5", 10), ("variant_quality >= 18", 3)):
        found = dhsic.select(
            path,
            Y,
            n_features_to_select=2,
            filters=dhsic.Filters(extract_if=condition),
            progress=False,
            interactions=None,
        )
        assert found.sizes["features" if "features" in found.sizes else "variants"] == n


def test_calls_of_several_alleles_and_of_one_copy(tmp_path):
    rows = [
        row("0/2", "1/2", "./1", alleles="A\tG,T"),
        row("0/1", "1", ".", j=1, contig="X"),
        row("0", "1", ".", j=2, contig="X", alleles="A\tG,T,C"),
        row("1.5", "1", ".", j=3, kind="DS"),
    ]
    path = write_vcf(tmp_path / "x.vcf", rows, m=3)
    expected = [[1, 2, -1], [1, 2, -1], [0, 2, -1], [-1, -1, -1]]
    with pytest.warns(UserWarning, match=r"1 of 4 variants .* have no GT, so they have no value"):
        source = dhsic.open_source(path)
    assert source.read(source.blocks(9)[0]).T.tolist() == expected
    counted = dhsic.open_source(path, ploidy_policy="count")
    assert counted.read(counted.blocks(9)[0]).T.tolist()[1] == [1, 1, -1]
    assert source.feature_coords()["variant_alt"].tolist() == ["G,T", "G", "G,T,C", "G"]


@pytest.mark.parametrize("contig", ["X", "chrX", "23"])
@pytest.mark.parametrize("suffix", ["vcf", "vcf.gz"])
def test_half_calls_of_males_are_refused_and_the_command_writes_haploid_calls(
    suffix, contig, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    males = np.arange(M) % 2 == 0
    alleles = np.where(CALLS < 0, 0, CALLS) > np.arange(M)[:, None] % 3

    def write(name, of_males):
        def call(i, j):
            if j > 8 and males[i]:
                return of_males.format(int(alleles[i, j]))
            return TEXTS[int(alleles[i, j]) + int(alleles[i, j - 1])]

        rows = [
            row(*(call(i, j) for i in range(M)), j=j, contig=contig if j > 8 else "1")
            for j in range(D)
        ]
        header = HEADER.replace("##contig=<ID=X>", f"##contig=<ID={contig}>")
        return write_vcf(tmp_path / name, rows, header=header)

    path = write(f"half.{suffix}", "{}/.")
    with pytest.raises(
        InputError, match=rf"15 of 30 samples .* only half calls .* on {contig}:"
    ) as e:
        dhsic.test_features(path, Y)
    command = re.search("haploid calls: (.*), then pass NEW.vcf", str(e.value))[1]
    subprocess.run(command, shell=True, check=True)
    right = dhsic.test_features(write("right.vcf", "{}"), Y)
    np.testing.assert_array_equal(dhsic.test_features("NEW.vcf", Y).p_values, right.p_values)
    autosomes = dhsic.Filters(chromosomes="1")
    result = dhsic.select(path, Y, n_features_to_select=3, filters=autosomes, progress=False)
    assert 9 in result.sizes.values()


def test_half_calls_of_a_store_are_refused_where_all_calls_are(tmp_path):
    calls = np.random.default_rng(0).integers(0, 2, (40, 20, 2)).astype(np.int8)
    calls[:, :9, 1] = -1
    calls[::7, 12] = -1
    path = write_vcz(tmp_path / "x", calls).store_path.store.root
    with pytest.raises(
        InputError, match=r"9 of 20 samples .* the absent allele of a haploid call is -2"
    ):
        dhsic.test_features(path, np.arange(20) % 3)
    calls[20:, :9, 1] = -2
    path = write_vcz(tmp_path / "y", calls).store_path.store.root
    assert dhsic.test_features(path, np.arange(20) % 3).p_values.size == 40


def test_dosages_of_ds_and_gp(tmp_path, client):
    rows = [
        row("0/1:1.25:0.1,0.5,0.4", ".:.:.", "1/1:2:0,0,1", kind="GT:DS:GP"),
        row("0/1:1,0.5:0,0,0.5,0,0.5,0", ".", "0/0", j=1, alleles="A\tG,T", kind="GT:DS:GP"),
        row("0:0.1:0.75,0.25", "1:1:0,0,1", ".", j=2, kind="GT:DS:GP"),
        row("0|1", "1", "./1", j=3),
    ]
    path = write_vcf(tmp_path / "x.vcf.gz", rows, m=3)
    with pytest.warns(UserWarning, match=r"3 genotype calls \(GT\) without DS"):
        dosages = dhsic.open_source(path, variable="DS")
    calls = dhsic.open_source(path)
    assert calls.dtype == np.int8
    assert "Pass variable='DS' to read the dosages" in calls.hint
    assert not dosages.hint
    expected = [[1.25, np.nan, 2], [1.5, np.nan, 0], [0.2, 2, np.nan], [1, 2, np.nan]]
    np.testing.assert_allclose(whole(dosages).T, expected, atol=1e-6)
    same = dhsic.open_source(path, variable="call_DS")  # decoded already
    np.testing.assert_array_equal(whole(same), whole(dosages))
    with pytest.warns(UserWarning, match=r"3 genotype calls \(GT\) without GP"):
        of_gp = whole(dhsic.open_source(path, variable="GP")).T
    expected = [[1.3, np.nan, 2], [2, np.nan, 0], [0.5, 2, np.nan], [1, 2, np.nan]]
    np.testing.assert_allclose(of_gp, expected, atol=1e-6)
    without = HEADER.replace("##FORMAT=<ID=GT", "##FORMAT=<ID=XX")
    only = [row("1.25", ".", "2", kind="DS")]
    path = write_vcf(tmp_path / "y.vcf", only, m=3, header=without)
    np.testing.assert_array_equal(whole(dhsic.open_source(path)).T, [[1.25, np.nan, 2]])
    with pytest.raises(InputError, match=r"no field 'GT' that is read: its fields .* DS, GP, XX"):
        dhsic.open_source(path, variable="GT")
    assert dhsic.open_source(path, variable="DS").n_features == 1
    write_vcf(path, [*only, row("1", "0.5", "2", j=1, contig="X", kind="DS")], m=3)
    with pytest.warns(UserWarning, match=r"1 variants on X with dosages .* from 0 to 2, as"):
        source = dhsic.open_source(path, variable="DS")
    assert whole(source)[:, 1].tolist() == [1, 0.5, 2]


def test_whole_dosages_rank_as_calls(tmp_path):
    texts = {-1: ".", 0: "0", 1: "1", 2: "2"}
    rows = [row(*(texts[k] for k in CALLS[:, j].tolist()), j=j, kind="DS") for j in range(D)]
    path = write_vcf(tmp_path / "x.vcf", rows)
    expected = ranking(write_plink(tmp_path / "x", CALLS))
    assert ranking(dhsic.open_source(path, variable="DS")) == expected


READS = """##FORMAT=<ID=DP,Number=1,Type=Integer,Description="x">
##FORMAT=<ID=GQ,Number=1,Type=Integer,Description="x">
##FORMAT=<ID=PL,Number=G,Type=Integer,Description="x">
"""


def test_reference_calls_without_reads_are_missing(tmp_path):
    rows = [
        row("0/0:0:0", "0/1:9:9", "0|0:0:.", "0/0:9:0", kind="GT:DP:GQ"),
        row("0/0:0:7", "0/1:0:0", "1/1:2:9", "./0:0:0", j=1, kind="GT:DP:GQ"),  # of positive GQ
        row("0/0:0", "0/1:0", "1/1:0", "0/0:0", j=2, kind="GT:DP"),  # DP was not counted
        row("0:0", "1:3", "0/0:.", "0/1:3", j=3, contig="X", kind="GT:DP"),
        row("0/0:0:0.1", "0/1:2:1", "0/0:3:0", "1/1:4:2", j=4, kind="GT:DP:DS"),  # imputed
    ]
    path = write_vcf(tmp_path / "x.vcf.gz", rows, m=4, header=HEADER + READS)
    with pytest.warns(UserWarning, match=r"3 reference calls \(0/0\) without .* FORMAT/DP") as told:
        source = dhsic.open_source(path)
    expected = [[-1, 1, -1, 0], [0, 1, 2, -1], [0, 1, 2, 0], [-1, 2, 0, 1], [0, 1, 0, 2]]
    assert source.read(source.blocks(9)[0]).T.tolist() == expected
    command = str(told[0].message).partition("bcftools annotate ")[2].split()
    command[-1] = str(tmp_path / "NEW.vcf")
    bcftools.annotate(*command, catch_stdout=False)
    source = dhsic.open_source(tmp_path / "NEW.vcf")
    expected = [[0, 1, 0, 0], [0, 1, 2, -1], [0, 1, 2, 0], [0, 2, 0, 1], [0, 1, 0, 2]]
    assert source.read(source.blocks(9)[0]).T.tolist() == expected


def test_spanning_deletions_are_told_and_missing_after_the_command(tmp_path):
    rows = rows_of(CALLS)
    texts = ["0/0", "0/1", "1/1", "1/2", "2/2"] * (M // 5)
    rows[0] = row(*texts, alleles="A\tG,*")
    rows[1] = row(*texts, j=1, alleles="A\tG,T")
    path = write_vcf(tmp_path / "x.vcf", rows)
    (tmp_path / "y.csv").write_text("id,y\n" + "".join(f"s{i},{Y[i]}\n" for i in range(M)))
    told = run("test", path, "--labels", tmp_path / "y.csv", "--target", "y").output
    told = " ".join(told.split())
    assert "2 variants of the store with several alternative alleles" in told
    assert "1 variant of these with the allele *, a deletion that spans" in told
    assert "2 variants with several alternative alleles, 1 of them with * (" in run(
        "inspect", path
    ).output.replace("\n          ", " ")
    norm, view = re.search(
        r"bcftools (norm -m -any .*) IN.vcf.gz \| bcftools (view .*) -o NEW", told
    ).groups()
    split = tmp_path / "split.vcf"
    bcftools.norm(*shlex.split(norm)[1:], str(path), "-o", str(split), catch_stdout=False)
    new = tmp_path / "NEW.vcf"
    bcftools.view(*shlex.split(view)[1:], str(split), "-o", str(new), catch_stdout=False)
    source = dhsic.open_source(new)
    assert source.n_features == D + 1
    assert whole(source)[:5, 0].tolist()[:3] == [0, 1, 2]
    assert np.isnan(whole(source)[3:5, 0]).all()


def test_variants_without_calls_are_told_or_refused(tmp_path):
    likelihoods = row("0,30,90", "30,0,30", "90,30,0", kind="PL")
    path = write_vcf(tmp_path / "x.vcf", [likelihoods], m=3, header=HEADER + READS)
    with pytest.raises(InputError, match=r"no GT in any variant: .* are PL\. .* -- --PL-to-GT"):
        dhsic.open_source(path)
    without = "".join(f"{line}\n" for line in HEADER.splitlines() if "FORMAT" not in line) + READS
    write_vcf(path, [likelihoods], m=3, header=without)
    with pytest.raises(InputError, match=r"neither GT nor DS nor GP: .* DP, GQ, PL\. .*tag2tag"):
        dhsic.open_source(path)
    calls, dosages = row("0/0", "0/1", "1/1"), row("1.5", "0.5", "1", j=1, kind="DS")
    write_vcf(path, [calls, dosages], m=3)
    with pytest.warns(UserWarning, match=r"1 of 2 variants .* Pass variable='DS' to read these"):
        dhsic.open_source(path)
    expected = [[0, 1, 2], [1.5, 0.5, 1]]
    with pytest.warns(UserWarning, match="3 genotype calls"):
        np.testing.assert_array_equal(whole(dhsic.open_source(path, variable="DS")).T, expected)
    write_vcf(path, [dosages, calls], m=3)  # a first variant of dosages alone
    with pytest.warns(UserWarning, match="3 genotype calls"):
        np.testing.assert_array_equal(whole(dhsic.open_source(path)).T, expected[::-1])
    with pytest.raises(InputError, match=r"no GT in any variant: .* Pass variable='DS'\."):
        dhsic.open_source(write_vcf(path, [dosages], m=3), variable="GT")


def test_many_variants_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("dhsic.sources.vcf.good_chunks", lambda *_: (4, M))
    monkeypatch.setattr("dhsic.sources.vcf.PART", 6)
    rows = rows_of(CALLS)
    rows[-1] = rows[-1].replace("A\tG", "A\tG,T").replace("q10", "q20;q10")
    path = write_vcf(tmp_path / "x.vcf", rows, header=HEADER + '##FILTER=<ID=q20,Description="">\n')
    source = dhsic.open_source(path)
    np.testing.assert_array_equal(whole(source), np.where(CALLS == -1, np.nan, CALLS))
    assert source.edges.tolist() == [0, 4, 8, 12, 16, 20, 21]
    assert source.feature_coords()["variant_alt"][-2:].tolist() == ["G", "G,T"]
    assert dhsic.open_source(path, pass_only=True).n_features == D - D // 3


def test_a_process_without_the_folder_decodes_again(tmp_path):
    path = write_vcf(tmp_path / "x.vcf.gz", rows_of(CALLS))
    source = dhsic.open_source(path)
    pickled, folder = pickle.dumps(source), source.chunked.store.root
    folder.rename(tmp_path / "moved")
    copy = pickle.loads(pickled)
    np.testing.assert_array_equal(whole(copy), np.where(CALLS == -1, np.nan, CALLS))
    folder.rename(tmp_path / "again")
    write_vcf(path, rows_of(CALLS[:, 1:]))
    with pytest.raises(DataError, match="has changed since it was first read"):
        pickle.loads(pickled)
    assert dhsic.open_source(path).n_features == D - 1


def test_truncated_and_damaged_files(tmp_path):
    path = write_vcf(tmp_path / "x.vcf.gz", rows_of(CALLS))
    content = path.read_bytes()
    for size in (0, 20, len(content) // 2, len(content) - 1, len(content) - 28):
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match=r"incomplete|in another format"):
            dhsic.open_source(path)
    path.write_bytes(gzip.compress(gzip.decompress(content))[:-200])
    with pytest.raises(DataError, match=r"incomplete|in another format"):
        dhsic.open_source(path)
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"incomplete|in another format"):
        dhsic.open_source(path)
    text = gzip.decompress(content).decode()
    plain = tmp_path / "y.vcf"
    for cut in (text[:-30], text[: text.index("rs7")]):
        plain.write_text(cut)
        with pytest.raises(DataError, match="incomplete"):
            dhsic.open_source(plain)
    write_vcf(plain, [])
    with pytest.raises(DataError, match="has no variants"):
        dhsic.open_source(plain)
    with pytest.raises(InputError, match="does not exist"):
        dhsic.open_source(tmp_path / "z.vcf")
    write_vcf(plain, [row("0/0/1", "0/0", "1/1")], m=3)
    with pytest.raises(InputError, match="calls of 3 alleles"):
        dhsic.open_source(plain)


def with_rows(change):
    """Alteration of the rows of a VCF (without its header)."""

    def altered(text):
        lines = text.splitlines()
        n = sum(line.startswith("#") for line in lines)
        return "\n".join([*lines[:n], *change(lines[n:])]) + "\n"

    return altered


def without(line):
    return lambda text: "".join(f"{each}\n" for each in text.splitlines() if line not in each)


def after_five(row):
    return with_rows(lambda rows: [*rows[:5], row(rows[5]), *rows[6:]])


#: Alterations of the text of a VCF after which the ranking is the same.
HARMLESS = {
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "no last line end": lambda text: text.rstrip("\n"),
    "contigs are not declared": without("##contig"),
    "filters are not declared": without("##FILTER"),
    "two contigs, none declared": lambda text: with_rows(
        lambda rows: [*rows[:9], *(f"2{row[1:]}" for row in rows[9:])]
    )(without("##contig")(text)),
    "spanning deletions": lambda text: text.replace("A\tG", "A\t*"),
    "symbolic alleles": lambda text: text.replace("A\tG", "A\t<DEL>"),
    "several alleles": lambda text: text.replace("A\tG", "A\tG,*"),
    "half calls": lambda text: text.replace("./.", "./1"),
    "points for missing calls": lambda text: text.replace("./.", "."),
    "numbers that are text": lambda text: text.replace("R2=0.3", "R2=x").replace(
        "G\t4\t", "G\tx\t"
    ),
}
#: Alterations that are refused; the first ones ended the process.
HARMFUL = {
    "blank line": lambda text: text + "\n",
    "spaces": with_rows(lambda rows: [row.replace("\t", " ") for row in rows]),
    "header in the middle": lambda text: text + text,
    "first row of a contig is short": after_five(lambda row: "7" + row[1:30]),
    "no contigs, short row": lambda text: with_rows(lambda rows: [rows[0][:-4], *rows[1:]])(
        without("##contig")(text)
    ),
    "one sample less": after_five(lambda row: row.rpartition("\t")[0]),
    "no header": lambda text: "",
    "no line of samples": without("#CHROM"),
    "samples twice": lambda text: text.replace("\ts1\t", "\ts0\t"),
    "no samples": lambda text: "".join(
        "\t".join(line.split("\t")[:8]) + "\n" for line in text.splitlines()
    ),
    "no genotypes": without("##FORMAT"),
    "allele that is not there": lambda text: text.replace("1/1", "1/3", 1),
    "words for calls": lambda text: text.replace("1/1", "x/y", 1),
    "position that is text": lambda text: text.replace("\t5\trs0", "\tfive\trs0"),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_other_forms_have_the_same_ranking(change, tmp_path):
    expected = ranking(write_plink(tmp_path / "x", CALLS))
    path = write_vcf(tmp_path / "x.vcf", rows_of(CALLS), header=PLAIN)
    path.write_text(change(path.read_text()), newline="")
    assert ranking(path) == expected


def test_gzip_and_suffixes_do_not_matter(tmp_path):
    expected = ranking(write_plink(tmp_path / "x", CALLS))
    text = write_vcf(tmp_path / "x.vcf", rows_of(CALLS)).read_bytes()
    for name, content in (
        ("y.vcf.gz", gzip.compress(text)),
        ("z.vcf", gzip.compress(text)),
        ("y.bcf", text),
    ):
        (tmp_path / name).write_bytes(content)
        assert ranking(tmp_path / name) == expected


@pytest.mark.parametrize("change", HARMFUL.values(), ids=HARMFUL)
def test_altered_files_are_refused_by_name(change, tmp_path):
    path = write_vcf(tmp_path / "x.vcf", rows_of(CALLS), header=PLAIN)
    path.write_text(change(path.read_text()))
    with pytest.raises((DataError, InputError), match=r"x\.vcf"):
        ranking(path)


def test_names_that_are_not_utf8_are_refused(tmp_path):
    path = write_vcf(tmp_path / "x.vcf", rows_of(CALLS))
    path.write_bytes(path.read_bytes().replace(b"\ts1\t", b"\ts\xff\t"))
    with pytest.raises(DataError, match="has text that is not UTF-8"):
        dhsic.open_source(path)


def test_without_the_package(tmp_path, monkeypatch):
    path = write_vcf(tmp_path / "x.vcf", rows_of(CALLS))
    monkeypatch.setitem(sys.modules, "cyvcf2", None)
    with pytest.raises(InputError, match=r"pip install 'dhsic\[vcf\]'"):
        dhsic.open_source(path)


def test_commands(tmp_path):
    path = write_vcf(tmp_path / "x.vcf.gz", rows_of(CALLS))
    (tmp_path / "y.tsv").write_text(
        "sample\ty\n" + "".join(f"s{i}\t{y}\n" for i, y in enumerate(Y))
    )
    labels = ("--labels", tmp_path / "y.tsv", "--target", "y")
    told = run("--verbose", "inspect", path)
    assert "q10 7" in told.stdout
    assert told.stderr.count("convert it: dhsic convert") == 1
    for command in ("select", "plan"):
        assert run(command, path, *labels, "-n", 3).exit_code == 0
    assert run("test", path, *labels).exit_code == 0


def test_reads_without_a_declared_quality_are_no_error(tmp_path):
    header = PLAIN + '##FORMAT=<ID=DP,Number=1,Type=Integer,Description="x">\n'
    calls = [f"{TEXTS[k]}:9" for k in CALLS[:, 6].tolist()]
    path = write_vcf(tmp_path / "x.vcf", [row(*calls, kind="GT:DP")], header=header)
    np.testing.assert_array_equal(whole(dhsic.open_source(path)), CALLS[:, [6]])
