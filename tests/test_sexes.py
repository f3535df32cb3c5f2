"""Sexes that files do not tell: X, Y and MT of data from PLINK, VCF Zarr, tables and stores."""

import json
import shutil
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import run, told
from stores import write_plink

import dhsic
from dhsic.reports.sentences import order_of

M, AUTOSOMAL, ON_X, ON_Y, ON_MT = 240, 40, 50, 12, 8
CHROMOSOMES = ["1"] * AUTOSOMAL + ["23"] * ON_X + ["24"] * ON_Y + ["26"] * ON_MT
D = len(CHROMOSOMES)
X_FEATURES = np.arange(AUTOSOMAL, AUTOSOMAL + ON_X)
TAKEN = (
    "samples have almost no heterozygous calls on X, although others have many. They are treated "
    "as males"
)


@pytest.fixture(scope="module")
def cohort():
    """Calls (m, d), -1 where missing, SEX (m,), and a trait that depends on sex alone."""
    rng = np.random.default_rng(5)
    sex = rng.integers(1, 3, M)
    f = rng.uniform(0.2, 0.5, D)
    G = rng.binomial(2, f, (M, D))
    once = 2 * rng.binomial(1, f, (M, D))
    chromosome = np.array(CHROMOSOMES)
    has_one = np.isin(chromosome, ["24", "26"])[None, :] | (
        (chromosome == "23")[None, :] & (sex == 1)[:, None]
    )
    G = np.where(has_one, once, G)
    G[rng.random(G.shape) < 0.02] = -1
    G[np.ix_(sex == 2, chromosome == "24")] = -1
    y = rng.standard_normal(M) + 1.5 * (sex == 1)
    return G.astype(np.int8), sex, y.round(4)


def write_bed(folder, G, sex, y, name="x"):
    """Files of PLINK 1; SEX is `sex`."""
    path = write_plink(folder / name, G, phenotype=[str(v) for v in y])
    bim = pd.read_csv(path.with_suffix(".bim"), sep="\t", header=None, dtype=str)
    bim[0], bim[3] = CHROMOSOMES, 10 * np.arange(D) + 5
    bim.to_csv(path.with_suffix(".bim"), sep="\t", header=False, index=False)
    fam = pd.read_csv(path.with_suffix(".fam"), sep=" ", header=None, dtype=str)
    fam[4] = np.asarray(sex).astype(str)
    fam.to_csv(path.with_suffix(".fam"), sep=" ", header=False, index=False)
    return path


def write_pgen(folder, G, sex, y):
    """Files of PLINK 2; `sex` is text."""
    pgenlib = pytest.importorskip("pgenlib")
    with pgenlib.PgenWriter(bytes(folder / "x.pgen"), M, D, False) as out:
        for calls in np.where(G < 0, -9, G).astype(np.int8).T:
            out.append_biallelic(np.ascontiguousarray(calls))
    rows = [f"{c}\t{10 * j + 5}\trs{j}\tA\tG" for j, c in enumerate(CHROMOSOMES)]
    (folder / "x.pvar").write_text("\n".join(["#CHROM\tPOS\tID\tREF\tALT", *rows]) + "\n")
    rows = [f"s{i}\t{s}\t{v}" for i, (s, v) in enumerate(zip(sex, y, strict=True))]
    (folder / "x.psam").write_text("\n".join(["#IID\tSEX\ty", *rows]) + "\n")
    return folder / "x.pgen"


def write_traw(folder, G):
    """Table of PLINK with a variant a row."""
    about = {
        "CHR": [{"23": "X", "24": "Y", "26": "MT"}.get(c, c) for c in CHROMOSOMES],
        "SNP": [f"rs{j}" for j in range(D)],
        "(C)M": 0,
        "POS": 10 * np.arange(D) + 5,
        "COUNTED": "G",
        "ALT": "A",
    }
    calls = pd.DataFrame(np.where(G < 0, np.nan, G).T, columns=[f"0_s{i}" for i in range(M)])
    table = pd.concat([pd.DataFrame(about), calls.astype("Int64")], axis=1)
    table.to_csv(folder / "x.traw", sep="\t", index=False, na_rep="NA")
    return folder / "x.traw"


def write_raw(folder, G, sex):
    """Table of PLINK with a sample a row; without SEX if `sex` is None."""
    table = pd.DataFrame({"FID": 0, "IID": [f"s{i}" for i in range(M)], "PAT": 0, "MAT": 0})
    if sex is not None:
        table["SEX"] = sex
    table["PHENOTYPE"] = -9
    names = [f"rs{j}_G" for j in range(D)]
    calls = pd.DataFrame(np.where(G < 0, np.nan, G), columns=names).astype("Int64")
    table = pd.concat([table, calls], axis=1)
    table.to_csv(folder / "x.raw", sep=" ", index=False, na_rep="NA")
    return folder / "x.raw"


def as_dataset(G):
    """Genotypes of sgkit, haploid calls written as two copies."""
    twice = np.stack([G >= 1, G >= 2], axis=-1).astype(np.int8)
    twice[G < 0] = -1
    names, codes = np.unique(CHROMOSOMES, return_inverse=True)
    return xr.Dataset(
        {
            "call_genotype": (("variants", "samples", "ploidy"), twice.transpose(1, 0, 2)),
            "variant_contig": ("variants", codes),
            "contig_id": ("contigs", names.astype(object)),
            "variant_position": ("variants", 10 * np.arange(D) + 5),
            "variant_id": ("variants", np.array([f"rs{j}" for j in range(D)], dtype=object)),
        }
    )


def results_of(data, y, **filters):
    """Test of every feature, by the default method."""
    chosen = dhsic.Filters(**filters) if filters else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(treated as males|Missing values depend)")
        return dhsic.select(data, y, method="hsic", progress=False, filters=chosen)


FORMS = {
    ".bed": lambda folder, G, sex, y: write_bed(folder, G, 0 * sex, y),
    ".pgen": lambda folder, G, sex, y: write_pgen(folder, G, ["NA"] * M, y),
    ".traw": lambda folder, G, sex, y: write_traw(folder, G),
    ".raw": lambda folder, G, sex, y: write_raw(folder, G, sex),
    "Dataset": lambda folder, G, sex, y: as_dataset(G),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_trait_that_depends_on_sex_alone_has_no_hits_on_x(form, cohort, tmp_path):
    """62 of 260 variants had q <= 0.05, all on X; the least p was 7e-17."""
    G, sex, y = cohort
    (tmp_path / "known").mkdir()
    known = results_of(write_bed(tmp_path / "known", G, sex, y), y)
    data = FORMS[form](tmp_path, G, sex, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        source = dhsic.open_source(data)
        np.testing.assert_array_equal(source.haploid_features(), X_FEATURES)
        np.testing.assert_array_equal(source.sexes().males, sex == 1)
    is_said = any(TAKEN in str(one.message) for one in caught)
    assert is_said == (form != ".raw")  # which has SEX
    found = results_of(data, y)
    np.testing.assert_allclose(found["p"], known["p"], rtol=1e-4 if "raw" in form else 1e-12)
    assert float(found["q"].min()) > 0.05
    for filters in ({"maf": 0.3}, {"hwe": 0.3}, {"max_missing": 0.02}):
        expected, left = (
            results_of(path, y, **filters)["stored_feature"].to_numpy()
            for path in (tmp_path / "known" / "x.bed", data)
        )
        known_to = AUTOSOMAL + ON_X if form == ".raw" else D  # which does not tell Y and MT
        np.testing.assert_array_equal(left[left < known_to], expected[expected < known_to])


def test_a_selection_does_not_put_x_first(cohort, tmp_path):
    G, sex, y = cohort
    (tmp_path / "known").mkdir()
    paths = (
        write_bed(tmp_path / "known", G, sex, y),
        write_bed(tmp_path, G, np.where(sex == 2, 2, 0), y),  # the sexes of women alone
    )
    ranks = []
    for path in paths:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*treated as males")
            warnings.filterwarnings("ignore", message="Missing values depend")
            ranks.append(dhsic.select(path, y, n_features_to_select=10, progress=False)["rank"])
    np.testing.assert_array_equal(*ranks)


def test_sexes_of_plink_are_taken_as_they_are(cohort, tmp_path):
    """Where SEX tells a male, others of unknown sex have two copies, as in plink2."""
    G, sex, y = cohort
    given = np.where(np.arange(M) < 20, 0, sex)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = dhsic.open_source(write_bed(tmp_path, G, given, y))
        np.testing.assert_array_equal(source.haploid_features(), X_FEATURES)
    np.testing.assert_array_equal(source.sexes().males, given == 1)
    copies = np.where(given == 1, 1, 2)[:, None] * (G >= 0)
    expected = ((np.maximum(G, 0) * copies) / 2).sum(axis=0) / copies.sum(axis=0)
    found = results_of(tmp_path / "x.bed", y)["allele_frequency"]
    np.testing.assert_allclose(found[X_FEATURES], expected[X_FEATURES])


def test_it_is_said_where_sexes_cannot_be_told(cohort, tmp_path):
    G, sex, y = cohort
    few, inbred = G.copy(), G.copy()
    few[:, X_FEATURES[12:]] = -1
    inbred[:, X_FEATURES] = 2 * (G[:, X_FEATURES] > 0)
    for calls in (few, inbred):
        path = write_bed(tmp_path, calls, 0 * sex, y)
        said = " ".join(run("inspect", path).stdout.split())
        assert "SEX of the samples is missing" in said
        assert "If there are males, fill in SEX, or pass sex as a covariate" in said
        assert "SEX of the samples is missing" not in " ".join(
            run("inspect", path, "--chr", "1").stdout.split()
        )
    women = G.copy()
    women[:, X_FEATURES] = np.random.default_rng(1).binomial(2, 0.4, (M, ON_X))
    path = write_bed(tmp_path, women, 0 * sex, y)
    assert "males" not in run("inspect", path).stdout
    said = " ".join(run("inspect", write_raw(tmp_path, G, None)).stdout.split())
    assert "this .raw table has neither chromosomes nor known sexes" in said
    # the remedy
    fam = pd.DataFrame({"IID": [f"s{i}" for i in range(M)], "y": y, "sex": sex})
    fam.to_csv(tmp_path / "y.tsv", sep="\t", index=False)
    asked = ("--labels", tmp_path / "y.tsv", "--target", "y", "--no-progress", "--json")
    with_sex = ("--covariates", f"{tmp_path / 'y.tsv'}:sex")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        hits = [
            sum(one["q"] <= 0.05 for one in json.loads(result.stdout)["selected"])
            for result in (
                run("test", tmp_path / "x.raw", *asked, "-n", D),
                run("test", tmp_path / "x.raw", *asked, "-n", D, *with_sex),
            )
        ]
    assert hits[0] > 20
    assert hits[1] == 0


def test_hits_on_x_are_said_to_be_of_sex(cohort, tmp_path):
    G, sex, y = cohort
    twice = np.random.default_rng(2).binomial(2, 0.4, G.shape).astype(np.int8)
    twice[:, X_FEATURES] = np.where(
        sex[:, None] == 1, 2, np.random.default_rng(3).integers(0, 3, (M, ON_X))
    )
    path = write_bed(tmp_path, twice, sex, y)
    found = dhsic.select(path, y, method="hsic", progress=False)
    said = " ".join(order_of(found))
    n = int((found["q"] <= 0.05).sum())
    assert n >= ON_X
    assert f"of the {n} features with q <= 0.05 lie on X or Y" in said
    assert "sex as one of --covariates" in said or "pass it as a covariate" in said
    others = dhsic.select(path, twice[:, 0], method="hsic", progress=False)
    assert "lie on X" not in " ".join(order_of(others))


# -- Conversion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["SEX", "some", "letters", *FORMS])
def test_a_store_keeps_the_sexes(form, cohort, tmp_path):
    """Results are the same before and after, and after a second conversion, up to rounding."""
    G, sex, y = cohort
    if form in FORMS:
        data = FORMS[form](tmp_path, G, sex, y)
    elif form == "letters":
        data = write_pgen(tmp_path, G, np.array(["", "M", "F"])[sex], y)
    else:  # "some": all that are known are men, which PLINK's 0 and 1 may be taken for phenotypes
        data = write_bed(tmp_path, G, sex if form == "SEX" else np.where(sex == 1, 1, 0), y)
    stores = [tmp_path / "1.zarr", tmp_path / "2.zarr"]
    dhsic.convert(data, stores[0])
    dhsic.convert(stores[0], stores[1])
    for filters in ({}, {"maf": 0.3}, {"max_missing": 0.02}, {"hwe": 0.3}):
        before = results_of(data, y, **filters)
        for store in stores:
            after = results_of(store, y, **filters)
            np.testing.assert_allclose(after["p"], before["p"], rtol=1e-13)
            for name in {"allele_frequency", "stored_feature"} & {*before.variables}:
                np.testing.assert_array_equal(after[name], before[name])


def test_numbers_of_other_programs_are_no_sexes(cohort, tmp_path):
    import zarr

    G, sex, y = cohort
    dhsic.convert(write_bed(tmp_path, G, sex, y), tmp_path / "x.zarr")
    group = zarr.open_group(tmp_path / "x.zarr", mode="a", use_consolidated=False)
    del group["SEX"].attrs["flag_meanings"]
    group["SEX"][...] = 1.0
    with pytest.warns(UserWarning, match=TAKEN):
        sexes = dhsic.open_source(tmp_path / "x.zarr").sexes()
    np.testing.assert_array_equal(sexes.males, sex == 1)


# -- Effects on Y and MT --------------------------------------------------------------------------


def fitted(x, y):
    """Slope and its standard error by least squares on 1 and x."""
    A = np.column_stack([np.ones_like(x), x])
    slope = np.linalg.lstsq(A, y, rcond=None)[0]
    variance = np.square(y - A @ slope).sum() / (len(x) - 2)
    return slope[1], np.sqrt(variance * np.linalg.inv(A.T @ A)[1, 1])


def write_haploid(path, G, sex, *, written_twice):
    """VCF Zarr whose single copies are haploid calls, or written as two."""
    import zarr
    from stores import write, write_vcz

    calls = np.stack([G >= 1, G >= 2], axis=-1).astype(np.int8)
    calls[G < 0] = -1
    chromosome = np.array(CHROMOSOMES)
    if not written_twice:
        once = np.isin(chromosome, ["24", "26"])[None, :] | (
            (chromosome == "23")[None, :] & (sex == 1)[:, None]
        )
        calls[..., 1][once] = -2
    write_vcz(path, calls.transpose(1, 0, 2), n_alleles=2)
    group = zarr.open_group(path, mode="a")
    names, codes = np.unique(chromosome, return_inverse=True)
    again = {"overwrite": True}
    write(group, "contig_id", names.astype(object), ("contigs",), **again)
    write(group, "variant_contig", codes.astype("i1"), ("variants",), **again)
    return path


@pytest.mark.parametrize("form", ["SEX", "no SEX", ".pgen", "haploid", "count", "diploid"])
def test_effects_of_one_copy_are_those_of_plink(form, cohort, tmp_path):
    """Half of them for one more copy of A1: on Y and MT a call of A1 is one copy."""
    G, sex, y = cohort
    G = G.copy()
    if form in ("SEX", ".pgen"):  # calls of women on Y do not count
        women = np.ix_(sex == 2, np.array(CHROMOSOMES) == "24")
        G[women] = np.random.default_rng(0).choice([-1, 0, 2], G[women].shape)
    where = {
        "SEX": lambda: write_bed(tmp_path, G, sex, y),
        "no SEX": lambda: write_bed(tmp_path, G, 0 * sex, y),
        ".pgen": lambda: write_pgen(tmp_path, G, sex, y),
    }
    more = ("--ploidy", "count") if form == "count" else ()
    path = (
        where[form]()
        if form in where
        else write_haploid(tmp_path / "x.vcz", G, sex, written_twice=form == "diploid")
    )
    ids = [f"s{i}" for i in range(M)]
    names = {"#FID": ids, "IID": ids} if form == "SEX" else {"#IID": ids}
    pd.DataFrame(names | {"y": y}).to_csv(tmp_path / "y.tsv", sep="\t", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        run(
            *("test", path, "--labels", tmp_path / "y.tsv", "--target", "y", "--no-progress"),
            *("--effects", tmp_path / "e.tsv", *more),
        )
    effects = pd.read_csv(tmp_path / "e.tsv", sep="\t")
    for j in [*range(3), *range(AUTOSOMAL + ON_X, D)]:
        of_males = CHROMOSOMES[j] == "24"
        here = (G[:, j] >= 0) & ((sex == 1) | (not of_males))
        copies = G[here, j] / (2.0 if CHROMOSOMES[j] in ("24", "26") else 1.0)
        slope, error = fitted(copies, y[here])
        row = effects.iloc[j]
        assert row["N"] == here.sum()
        np.testing.assert_allclose([row["BETA"], row["SE"]], [slope, error], rtol=1e-4)
        np.testing.assert_allclose(row["A1_FREQ"], G[here, j].mean() / 2, rtol=1e-4)
    if (plink := shutil.which("plink2")) and form in ("SEX", ".pgen"):
        files = ("--bfile" if form == "SEX" else "--pfile", tmp_path / "x")
        asked = ("--glm", "allow-no-covars", "no-x-sex", "omit-ref", "--freq", "--out")
        pheno = ("--pheno", tmp_path / "y.tsv", "--pheno-name", "y")
        subprocess.run([plink, *files, *pheno, *asked, tmp_path / "p"], check=True)
        expected = pd.read_csv(tmp_path / "p.y.glm.linear", sep="\t")
        frequency = pd.read_csv(tmp_path / "p.afreq", sep="\t")["ALT_FREQS"]
        for ours, theirs in {"BETA": "BETA", "SE": "SE", "P": "P", "N": "OBS_CT"}.items():
            np.testing.assert_allclose(effects[ours], expected[theirs], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(effects["A1_FREQ"], frequency, rtol=1e-4)


# -- Missing calls that depend on the labels ------------------------------------------------------


def test_missing_calls_on_y_by_label_are_those_of_males(cohort, tmp_path):
    """Females lack Y; a trait that follows sex named all variants on Y."""
    G, sex, y = cohort
    on_y = np.flatnonzero(np.array(CHROMOSOMES) == "24")
    G = G.copy()
    high = y > np.median(y[sex == 1])
    lacking = (sex == 1) & high & (np.random.default_rng(0).random(M) < 0.6)
    G[lacking, on_y[3]] = -1
    G[high & (np.random.default_rng(1).random(M) < 0.6), 7] = -1
    path = write_bed(tmp_path, G, sex, y)
    asked = ("test", path, "--target", "PHENO", "--no-progress")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        said = told(run(*asked))
        assert f"Missing values depend on the labels in 2 features (rs7, rs{on_y[3]};" in said or (
            f"Missing values depend on the labels in 2 features (rs{on_y[3]}, rs7;" in said
        )
        unknown = G.copy()
        unknown[:, X_FEATURES] = -1  # nothing tells the sexes
        said = told(run("test", write_bed(tmp_path, unknown, 0 * sex, y), *asked[2:]))
        assert "Missing values depend on the labels in 1 feature (rs7;" in said
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classes = np.where(high, "a", "b")
        dhsic.select(
            write_bed(tmp_path, G, sex, y), classes, n_features_to_select=3, progress=False
        )
    said = " ".join(str(one.message) for one in caught)
    assert "Missing values depend on the labels in 2 features" in said
