"""Filters by quality and by regions: against plain loops, and what is said of what lacks."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from math import factorial

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run, told
from hypothesis import given
from hypothesis import strategies as st
from stores import write, write_plink, write_vcz

import dhsic
from dhsic.errors import InputError
from dhsic.joins.hardy_weinberg import exact_p, is_in_equilibrium
from dhsic.passes.call_counts import counting_on
from dhsic.runtime.threads import Threads
from dhsic.sources.zarr import ZarrSource

M, D = 60, 48
HALF = D // 2  # variants on chromosome 1, the others are on X


def plain_p(counts):
    """Exact test of Hardy-Weinberg: a fraction, by going through all numbers of heterozygous."""
    n, a = sum(counts), counts[1] + 2 * counts[2]
    b = 2 * n - a

    def ways(h):
        parts = factorial((a - h) // 2) * factorial(h) * factorial((b - h) // 2)
        return 2**h * factorial(n) // parts

    each = [ways(h) for h in range(a % 2, min(a, b) + 1, 2)]
    return sum(w for w in each if w <= ways(counts[1])) / sum(each)


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3), min_size=1, max_size=6))
def test_p_values_are_sums_of_probabilities(counts):
    expected = [plain_p(each) for each in counts]
    np.testing.assert_allclose(exact_p(np.array(counts)), expected, rtol=1e-6)
    for least in (0, 1e-6, 0.01, 0.5, 1):
        met = is_in_equilibrium(np.array(counts), least)
        assert met.tolist() == [p >= least * (1 - 1e-7) for p in expected]


def test_many_genotypes_are_no_matter():
    counts = np.array([[250_000, 500_000, 250_000], [250_000, 490_000, 260_000], [1, 0, 999_999]])
    assert is_in_equilibrium(counts, 1e-6).tolist() == [True, False, False]


@pytest.fixture
def store(tmp_path):
    """Genotypes out of equilibrium here and there, samples that lack calls, males on X."""
    rng = np.random.default_rng(11)
    calls = (rng.random((D, M, 2)) < rng.uniform(0.05, 0.5, D)[:, None, None]).astype("i1")
    out = rng.choice(D, 20, replace=False)
    calls[out, :, 1] = np.where(rng.random((20, M)) < 0.6, calls[out, :, 0], calls[out, :, 1])
    calls[rng.random((D, M)) < rng.choice([0, 0.05, 0.3], M)] = -1
    calls[HALF:, ::2, 1] = -2  # every other sample is male
    group = write_vcz(tmp_path / "x.vcz", calls)
    write(group, "sample_trait", rng.standard_normal(M), ("samples",))
    return tmp_path / "x.vcz"


def calls_of(store):
    """Alternative alleles of each call (d, m), -1 where missing, and copies (d, m)."""
    calls = zarr.open_group(store)["call_genotype"][...]
    copies = (calls != -2).sum(axis=2)
    alternative = np.where((calls == -1).any(axis=2), -1, (calls > 0).sum(axis=2))
    return alternative, copies


def left(data, **filters):
    """Positions of samples and features that filters leave, and counts of those left out."""
    source = dhsic.open_source(data)
    found = dhsic.Filters(**filters).of(data, source, counting_on(Threads))
    samples = np.arange(source.n_samples) if found.samples is None else found.samples
    features = np.arange(source.n_features) if found.features is None else found.features
    return samples.tolist(), features.tolist(), dict(found.left_out)


def in_equilibrium(alternative, copies, least, rows):
    """Variants whose p-value is `least` or more, of diploid calls of some samples."""
    kept = []
    for j in range(len(alternative)):
        counts = [0, 0, 0]
        for i in rows:
            if alternative[j, i] >= 0 and copies[j, i] == 2:
                counts[alternative[j, i]] += 1
        if plain_p(counts) >= least:
            kept.append(j)
    return kept


@pytest.mark.parametrize("least", [1e-4, 0.05, 0.5])
def test_equilibrium_is_that_of_diploid_calls_of_those_that_take_part(least, store):
    alternative, copies = calls_of(store)
    rows = [i for i in range(M) if i % 5]
    expected = in_equilibrium(alternative, copies, least, rows)
    samples, features, left_out = left(store, hwe=least, keep=[f"s{i}" for i in rows])
    assert (samples, features) == (rows, expected)
    assert 0 < left_out["hwe"] == D - len(expected)


@pytest.mark.parametrize("most", [0.02, 0.1, 0.3])
def test_samples_that_lack_many_calls_leave_before_variants_are_counted(most, store):
    alternative, _ = calls_of(store)
    rate = [sum(column[:HALF] < 0) / HALF for column in alternative.T]
    rows = [i for i in range(M) if rate[i] <= most]
    missing = [sum(alternative[j, i] < 0 for i in rows) / len(rows) for j in range(HALF)]
    expected = [j for j in range(HALF) if missing[j] <= 0.05]
    samples, features, left_out = left(store, mind=most, max_missing=0.05, chromosomes="1")
    assert (samples, features) == (rows, expected)
    assert left_out["mind"] == M - len(rows) > 0
    assert list(left_out)[:1] == ["mind"]


@pytest.mark.parametrize("code", [-1, -9, None])
def test_codes_of_a_plain_matrix_are_missing_calls(code, rng):
    X = rng.integers(0, 3, (M, 30)).astype("f4" if code is None else "i1")
    lacks = rng.random(X.shape) < np.where(np.arange(M) < 8, 0.5, 0.02)[:, None]
    X[lacks] = np.nan if code is None else code
    rows = [i for i in range(M) if lacks[i].mean() <= 0.2]
    assert left(X, mind=0.2)[0] == rows
    counts = np.stack([(X[rows] == n).sum(axis=0) for n in range(3)], axis=1)
    expected = [j for j in range(30) if plain_p(counts[j].tolist()) >= 0.2]
    assert left(X, mind=0.2, hwe=0.2)[1] == expected


def test_all_counts_come_from_one_reading(store, monkeypatch):
    read = []
    plainly = ZarrSource.read_columns

    def counted(self, block, local, rows=None):
        read.append(len(local))
        return plainly(self, block, local, rows)

    monkeypatch.setattr(ZarrSource, "read_columns", counted)
    left(store, maf=0.01, max_missing=0.5, hwe=1e-9)
    assert sum(read) == D


def test_haploid_and_unsexed_chromosomes(tmp_path, store):
    calls = zarr.open_group(store)["call_genotype"][...]
    calls[HALF:] = np.where(calls[HALF:] == -2, calls[HALF:, :, :1], calls[HALF:])  # all diploid
    write_vcz(tmp_path / "u.vcz", calls)
    alternative, copies = calls_of(tmp_path / "u.vcz")
    expected = in_equilibrium(alternative[:HALF], copies[:HALF], 0.05, range(M))
    with pytest.warns(
        UserWarning, match=rf"hwe= was not applied to {HALF} features on X, because the sexes"
    ):
        _, features, _ = left(tmp_path / "u.vcz", hwe=0.05)
    assert features == [*expected, *range(HALF, D)]
    group = write_vcz(tmp_path / "y.vcz", calls)
    group["contig_id"][...] = np.array(["1", "chrY"], object)
    assert left(tmp_path / "y.vcz", hwe=0.05)[1] == [*expected, *range(HALF, D)]
    calls[HALF:, 1::2] = -1  # females lack Y
    group = write_vcz(tmp_path / "f.vcz", calls)
    group["contig_id"][...] = np.array(["1", "24"], object)
    rate = (alternative[:HALF] < 0).mean(axis=0)
    assert left(tmp_path / "f.vcz", mind=0.1)[0] == np.flatnonzero(rate <= 0.1).tolist()


def test_females_of_plink_are_those_of_the_samples_table(tmp_path, rng):
    pgenlib = pytest.importorskip("pgenlib")
    G, sex = rng.integers(0, 3, (M, 20)), rng.integers(0, 3, M)
    with pgenlib.PgenWriter(bytes(tmp_path / "x.pgen"), M, variant_ct=20, nonref_flags=False) as w:
        for column in G.T:
            w.append_biallelic(column.astype(np.int8))
    rows = "".join(f"{1 if j < 10 else 'X'}\t{10 + j}\trs{j}\tA\tG\n" for j in range(20))
    (tmp_path / "x.pvar").write_text(f"#CHROM\tPOS\tID\tREF\tALT\n{rows}")

    def kept(sex):
        frame = pd.DataFrame({"#IID": [f"i{i}" for i in range(M)], "SEX": sex})
        frame.to_csv(tmp_path / "x.psam", sep="\t", index=False)
        return left(str(tmp_path / "x.pgen"), hwe=0.3)[1]

    def expected(females):
        copies = np.full(G.T.shape, 2)
        of_x = in_equilibrium(G.T[10:], copies[10:], 0.3, females)
        return [*in_equilibrium(G.T[:10], copies[:10], 0.3, range(M)), *(10 + j for j in of_x)]

    assert kept(sex) == expected(np.flatnonzero(sex == 2))
    assert kept(np.full(M, 2)) == expected(range(M))  # a cohort of women
    with pytest.warns(UserWarning, match="sexes of the samples are unknown"):
        assert kept(np.zeros(M, int))[-10:] == [*range(10, 20)]


def write_bed(path, G, chromosomes, sex):
    """Files of PLINK of genotypes G (m, d), -1 where missing."""
    m, d = G.shape
    write_plink(path.with_suffix(""), G, ids=[f"v{j}" for j in range(d)])
    bim = pd.read_csv(path.with_suffix(".bim"), sep=r"\s+", header=None)
    bim[0], bim[1], bim[3] = chromosomes, [f"v{j}" for j in range(d)], 10 + np.arange(d)
    bim.to_csv(path.with_suffix(".bim"), sep="\t", header=False, index=False)
    ids = [f"i{i}" for i in range(m)]
    fam = pd.DataFrame({"FID": ids, "IID": ids, "PAT": 0, "MAT": 0, "SEX": sex, "PHENO": -9})
    fam.to_csv(path.with_suffix(".fam"), sep="\t", header=False, index=False)
    return path


@pytest.fixture
def with_y(rng):
    """Genotypes of 50 men, 40 women and 10 of unknown sex; the first 20 variants are on Y."""
    sex = np.repeat([1, 2, 0], [50, 40, 10])
    G = rng.integers(0, 3, (100, 40))
    G[:, :20] = rng.choice([0, 2], (100, 20))
    G[rng.random(G.shape) < rng.choice([0.01, 0.05, 0.15], 40)] = -1
    G[sex == 2, :10] = -1  # women have calls of the other ten
    return G, ["24"] * 20 + ["1"] * 20, sex


@pytest.mark.parametrize("most", [0.02, 0.06, 0.1, 0.2])
def test_missing_calls_on_y_are_those_of_males(most, with_y, tmp_path):
    G, chromosomes, sex = with_y
    path = write_bed(tmp_path / "x.bed", G, chromosomes, sex)
    others = G[:, 20:]
    on_y = [j for j in range(20) if (G[sex == 1, j] < 0).mean() <= most]
    expected = [*on_y, *(20 + j for j in range(20) if (others[:, j] < 0).mean() <= most)]

    assert left(str(path), max_missing=most)[1] == expected
    keep = [f"i{i}" for i in range(20, 100)]
    on_y = [j for j in range(20) if (G[20:50, j] < 0).mean() <= most]
    expected_of_some = [*on_y, *(20 + np.flatnonzero((others[20:] < 0).mean(axis=0) <= most))]
    assert left(str(path), max_missing=most, keep=keep)[1] == expected_of_some
    if plink := shutil.which("plink2"):
        names = ("--bfile", path.with_suffix(""), "--out", tmp_path / "p", "--write-snplist")
        subprocess.run([plink, *names, "--geno", str(most)], check=True, capture_output=True)
        listed = (tmp_path / "p.snplist").read_text().split()
        assert sorted(listed) == sorted(f"v{j}" for j in expected)


def test_missing_calls_on_y_of_unknown_sexes_and_of_women(with_y, tmp_path):
    G, chromosomes, sex = with_y
    path = write_bed(tmp_path / "x.bed", G, chromosomes, np.zeros_like(sex))
    others = [20 + j for j in range(20) if (G[:, 20 + j] < 0).mean() <= 0.1]
    n = int((G[:, :20] < 0).any(axis=0).sum())

    with pytest.warns(UserWarning, match=rf"max_missing= was not applied to {n} features on Y"):
        assert left(str(path), max_missing=0.1)[1] == [*range(20), *others]
    women = write_bed(tmp_path / "w.bed", G, chromosomes, np.full_like(sex, 2))
    assert left(str(women), max_missing=0.1)[1] == [*range(20), *others]


def test_males_of_vcf_zarr_are_told_by_haploid_calls(with_y, tmp_path):
    G, _, sex = with_y
    is_male = sex == 1
    calls = np.stack([G.T > 0, G.T > 1], axis=-1).astype("i1")
    calls[G.T < 0] = -1
    calls[20:, is_male, 1] = -2  # X
    calls[20, :30] = -1  # a few X calls are missing
    group = write_vcz(tmp_path / "y.vcz", calls)
    group["contig_id"][...] = np.array(["Y", "X"], object)
    expected = [j for j in range(20) if (G[is_male, j] < 0).mean() <= 0.1]

    features = left(tmp_path / "y.vcz", max_missing=0.1, chromosomes="Y")[1]

    assert features == expected


def test_what_is_no_genotype_or_no_rate_is_refused(store, rng):
    for values in (rng.random((M, 4)) * 2, rng.integers(0, 5, (M, 4)), rng.standard_normal((M, 4))):
        with pytest.raises(
            InputError, match=r"hwe=0\.1 filters diploid genotypes with two alleles"
        ):
            left(values, hwe=0.1)
    for filters in ({"hwe": 2}, {"hwe": "1e-6"}, {"mind": -0.1}, {"mind": 10}):
        with pytest.raises(InputError, match=r"pass a number from 0 to 1 \(1% is 0\.01\)"):
            left(store, **filters)
    with pytest.raises(InputError, match="mind= removes all 60 samples"):
        left(np.full((M, 4), np.nan), mind=0.5)


# -- Regions -----------------------------------------------------------------------------------

#: Positions are 5, 15, ..., on chromosome 1 up to 235, on X from 245 on.
REGIONS = {
    "r.txt": ("chr1 15 35 a\nX 1 250\n1 30 40\n", [1, 2, 3, HALF]),
    "r.csv": ("CHROM,START,END\n1,15,35\n", [1, 2, 3]),
    "r.range": ("# ours\n1\t15\t15\n23\t255\t255\tname\t+\n", [1, HALF + 1]),
    "r.bed": ("track name=x\nchr1\t15\t35\nchrX\t244\t245\t.\n", [2, 3, HALF]),
    "r.bed1": ("1 15 35\n", [1, 2, 3]),
}


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("packed", [False, True])
def test_regions_of_files(name, packed, store, tmp_path):
    text, expected = REGIONS[name]
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert left(store, extract_regions=path)[1] == expected
    others = [j for j in range(D) if j not in expected]
    assert left(store, exclude_regions=str(path))[1:] == (
        others,
        {"exclude_regions": len(expected)},
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["1", "X", "7"]), st.integers(1, 500), st.integers(0, 90)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0, 1]),
)
@pytest.mark.filterwarnings("ignore:extract_regions")
def test_regions_are_those_of_a_plain_loop(regions, first):
    store = places()
    contig = np.asarray(store["variant_contig"])
    position = np.asarray(store["variant_position"])
    listed = [(c, start - 1 + first, start + size) for c, start, size in regions]
    expected = [
        j
        for j in range(len(position))
        if any(
            contig[j] == c and (a <= position[j] <= b if first else a < position[j] <= b)
            for c, a, b in listed
        )
    ]
    if not expected:
        with pytest.raises(InputError, match="no feature of the data lies in any"):
            left(store["x"], extract_regions=listed, regions_start=first)
    else:
        assert left(store["x"], extract_regions=listed, regions_start=first)[1] == expected


def places():
    """A dataset with 40 features in no order on two chromosomes, several at one position."""
    import xarray as xr

    rng = np.random.default_rng(5)
    contig, position = rng.choice(["1", "X"], 40), rng.integers(1, 600, 40) // 3 * 3 + 1
    coords = {
        "variant_contig": ("features", contig.astype(object)),
        "variant_position": ("features", position),
    }
    x = xr.DataArray(rng.standard_normal((9, 40)), dims=("samples", "features"), coords=coords)
    return {"x": x, "variant_contig": contig, "variant_position": position}


def test_what_is_no_region_is_refused(store, tmp_path):
    path = tmp_path / "r.txt"
    for text, sentence in {
        "1 0 35\n": "counted from 1 here. If they are counted from 0, .* pass regions_start=0",
        "1 35 15\n": "ends before it starts",
        "rs1\nrs2\n": "is not a region. Write three columns: chromosome, start and end",
        "1 a 5\n2 b c\n": "is not a region. Write three columns",
        "7 1 500\nchr9 1 9\n": r"lists 2 regions, but no feature .*\(7:1-500, chr9:1-9\).* 1, X",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError, match=sentence):
            left(store, extract_regions=path)
    path.write_text("1 0 35\n")
    assert left(store, extract_regions=path, regions_start=0)[1] == [0, 1, 2, 3]  # the remedy works
    path.write_text("1 1 35\n7 1 500\nX 1 9\n")
    with pytest.warns(
        UserWarning,
        match=r"3 regions. Without a feature of the data: 2 of them .*\(7:1-500, X:1-9\)",
    ):
        left(store, exclude_regions=path)
    for filters, sentence in (
        ({"regions_start": 1}, "neither is used"),
        ({"regions_start": 2, "extract_regions": path}, "is not 0 or 1"),
    ):
        with pytest.raises(InputError, match=sentence):
            left(store, **filters)
    with pytest.raises(InputError, match="do not specify the chromosomes"):
        left(np.zeros((5, 3)), extract_regions=path)


# -- Commands, and lists ------------------------------------------------------------------------


def test_commands_take_all_of_them(store, tmp_path):
    (tmp_path / "r.bed").write_text("1\t0\t200\n")
    filters = ("--mind", 0.2, "--hwe", 0.01, "--exclude-regions", tmp_path / "r.bed")
    expected = left(store, mind=0.2, hwe=0.01, exclude_regions=tmp_path / "r.bed")
    labels = ("--target", "sample_trait")
    for command, more in {
        "select": (*labels, "-n", 3, "--no-progress"),
        "test": (*labels, "--no-progress"),
        "pairs": (*labels, "--permutations", 0),
        "pca": ("--components", 2),
        "inspect": (),
        "plan": labels,
    }.items():
        done = run(command, store, *more, *filters)
        said = " ".join((done.stdout + done.stderr).split())
        assert f"excluded {M - len(expected[0])} samples ({M - len(expected[0])} by --mind)" in said
        assert f"{expected[2]['hwe']} by --hwe" in said
        assert f"{expected[2]['exclude_regions']} by --exclude-regions" in said
    found = dhsic.select(
        store,
        "sample_trait",
        n_features_to_select=3,
        progress=False,
        filters=dhsic.Filters(mind=0.2, hwe=0.01, exclude_regions=tmp_path / "r.bed"),
    )
    assert json.loads(found.attrs["left_out"]) == expected[2]
    assert found["stored_feature"].to_numpy().tolist() == expected[1]
    assert found.attrs["n_samples"] == len(expected[0])
    (tmp_path / "r.txt").write_text("1 0 200\n")
    wrong = (*labels, "--extract-regions", tmp_path / "r.txt")
    said = told(run("select", store, *wrong, code=2))
    assert "pass --regions-start 0" in said
    run("select", store, *wrong, "--regions-start", "0", "-n", 2)
    (tmp_path / "k.tsv").write_text("s1\ns2\n")
    over = ("--keep", tmp_path / "k.tsv", "--out", tmp_path / "k.tsv", "--force")
    assert "would overwrite" in told(run("select", store, *labels, *over, code=2))


@pytest.mark.filterwarnings("default:.* lists 14")
@pytest.mark.parametrize("option", ["--keep", "--remove", "--extract", "--exclude"])
def test_names_that_the_data_lack_are_counted(option, store, tmp_path):
    letter = "s" if option in ("--keep", "--remove") else "rs"
    listed = [f"{letter}{i}" for i in range(12)]
    (tmp_path / "list").write_text("\n".join([*listed, "who", "else"]))
    noun = "samples" if letter == "s" else "features"
    asked = ("--target", "sample_trait", "-n", 2, "--no-progress", option, tmp_path / "list")
    said = told(run("select", store, *asked))
    assert f"{option} lists 14 {noun}. Not in the data: 2 of them (else, who)" in said or (
        f"{option} lists 14 {noun}. Not in the data: 2 of them (who, else)" in said
    )
    (tmp_path / "list").write_text("\n".join(name.upper() for name in listed))
    said = told(run("select", store, *asked, code=2))
    assert f"{option} lists 12 {noun}, but none of them is in the data" in said
    assert (
        f"upper and lower case: for example, '{letter.upper()}0' is '{letter}0' in the data" in said
    )


def test_variants_are_told_how_their_ids_differ(tmp_path):
    ids = ["chr1:5:A:T", "chr1:15:A:T", "chr1:25:A:T"]
    X = pd.DataFrame(np.eye(3), columns=ids)
    for listed, way in {
        "1:5:A:T 1:15:A:T": "'chr' at the front: for example, '1:5:A:T' is 'chr1:5:A:T'",
        "chr1:5 chr1:25": "the alleles at the end: for example, 'chr1:5' is 'chr1:5:A:T'",
        "1_5_A_T": "several details of spelling: for example, '1_5_A_T' is 'chr1:5:A:T'",
    }.items():
        with pytest.raises(InputError, match=way):
            left(X, extract=listed.split())
    with pytest.raises(InputError, match=r"none of them is in the data \(rs7\)\. Compare"):
        left(X, exclude=["rs7"])
