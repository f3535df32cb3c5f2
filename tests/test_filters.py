"""Filters: the ranking is that of a file that holds only what is kept, and what left is counted."""

import gzip
import json

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import run, told
from hypothesis import given
from hypothesis import strategies as st
from stores import dosage, draw_genotypes, encoded, write, write_anndata, write_vcz

import dhsic
from dhsic.errors import CheckpointError, InputError
from dhsic.joins.conditions import Condition
from dhsic.joins.filters import Filters
from dhsic.passes.call_counts import counting_on
from dhsic.results.files import load
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

M, D = 30, 40
SAMPLES = np.array([i for i in range(M) if i % 5 != 2])
FEATURES = np.array([j for j in range(D) if j % 3])
GENOTYPES = draw_genotypes(D, M, seed=4)
COPIES = (GENOTYPES != -2).sum(axis=-1).T
X = np.nan_to_num(dosage(GENOTYPES), nan=1.0) + np.random.default_rng(1).random((M, D))
Y = (X[:, 4] + X[:, 7] > np.median(X[:, 4] + X[:, 7])).astype(int)
QUICK = {"n_features_to_select": 5, "progress": False, "rerank": False}
CLI = ("--target", "sample_trait", "--threads", "1", "--no-progress", "-n", "5")


def names(letter, which):
    return [f"{letter}{i}" for i in which]


def as_array(path, rows, columns):
    return X[np.ix_(rows, columns)]


def as_frame(path, rows, columns):
    data = as_array(path, rows, columns)
    return pd.DataFrame(data, index=names("s", rows), columns=names("g", columns))


def as_dask(path, rows, columns):
    return da.from_array(as_array(path, rows, columns), chunks=(7, 11))


def as_dataset(path, rows, columns):
    data = as_array(path, rows, columns).T
    coords = {"samples": names("s", rows), "features": names("g", columns)}
    return xr.DataArray(data, coords, ("features", "samples"), name="x").to_dataset()


def as_zarr(path, rows, columns):
    group = zarr.open_group(path, mode="w")
    dims = ("samples", "features")
    write(group, "x", as_array(path, rows, columns), dims, chunks=(len(rows), 6))
    write(group, "samples", np.array(names("s", rows), object), dims[:1])
    write(group, "features", np.array(names("g", columns), object), dims[1:])
    return str(path)


def as_anndata(path, rows, columns):
    group = write_anndata(path, as_array(path, rows, columns))
    for frame, letter, which in (("obs", "s", rows), ("var", "g", columns)):
        del group[frame]["_index"]
        encoded(group[frame], "_index", names(letter, which), "string-array")
    return str(path)


def as_vcz(path, rows, columns, **options):
    ids = names("g", columns)
    group = write_vcz(path, GENOTYPES[np.ix_(columns, rows)], ids=ids, **options)
    group["sample_id"][...] = np.array(names("s", rows), object)
    return str(path)


SOURCES = [as_array, as_frame, as_dask, as_dataset, as_zarr, as_anndata, as_vcz]


@pytest.mark.parametrize(
    ("make", "method"),
    [*((make, "bahsic") for make in SOURCES), (as_vcz, "fohsic"), (as_zarr, "pearson")],
)
def test_the_ranking_is_that_of_what_is_kept_alone(make, method, tmp_path):
    whole = make(tmp_path / "all", range(M), range(D))
    alone = make(tmp_path / "some", SAMPLES, FEATURES)
    if make in (as_array, as_dask):
        filters = Filters(
            keep=np.isin(np.arange(M), SAMPLES), exclude=~np.isin(np.arange(D), FEATURES)
        )
    else:
        filters = Filters(
            remove=names("s", np.setdiff1d(range(M), SAMPLES)), extract=names("g", FEATURES)
        )
    asked = QUICK if method == "bahsic" else {"n_features_to_select": 5}
    found = dhsic.select(whole, Y, method=method, filters=filters, **asked)
    expected = dhsic.select(alone, Y[SAMPLES], method=method, **asked)
    for name in ("rank", "selected", "n_missing"):
        assert found[name].to_numpy().tolist() == expected[name].to_numpy().tolist()
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-12)
    assert found["stored_feature"].to_numpy().tolist() == FEATURES.tolist()
    assert found.attrs["n_samples"] == SAMPLES.size
    assert found.attrs["n_samples_filtered"] == M - SAMPLES.size
    assert found.attrs["n_features_filtered"] == D - FEATURES.size
    assert sum(json.loads(found.attrs["left_out"]).values()) == M + D - len(SAMPLES) - len(FEATURES)


@pytest.fixture
def store(tmp_path):
    """VCF Zarr with labels, some sexes missing, and qualities."""
    path = as_vcz(tmp_path / "x.vcz", range(M), range(D))
    group = zarr.open_group(path, mode="a")
    write(group, "sample_trait", Y.astype("i1"), ("samples",))
    sex = np.array([("F", "M", "NA")[i % 3] for i in range(M)], object)
    write(group, "sample_sex", sex, ("samples",))
    write(group, "sample_age", np.arange(M).astype("f4"), ("samples",))
    write(group, "variant_quality", np.arange(D).astype("f4"), ("variants",))
    return path


def filtered(data, source=None, **filters):
    """What filters leave of data."""
    source = dhsic.open_source(data) if source is None else source
    return Filters(**filters).of(data, source, counting_on(Threads))


def kept(store, **filters):
    """Positions of samples and of features that filters leave."""
    source = dhsic.open_source(store)
    found = filtered(store, source, **filters)
    samples = range(M) if found.samples is None else found.samples.tolist()
    return list(samples), list(found.features_of(source).feature_coords().get("stored_feature", []))


# -- files of ids ------------------------------------------------------------------------------

FILES = {
    "one a line": "s1\ns3\ns4\n",
    "FID and IID": "f s1\nf s3\nf s4\n",
    "a header": "#FID IID\nf\ts1\n".replace(" ", "\t") + "f\ts3\nf\ts4\n",
    "IID alone with header": "#IID\ns1\ns3\ns4\n",
    "windows, no end of line": "s1\r\n\r\ns3\r\ns4",
    "a byte order mark": "\ufeffs1\ns3\ns4\n",
    "comments, blanks": "## ours\n\n  s1 \ns3\ns4\ns4\n",
    "a CSV that names the sample first": "sample,population\ns1,GBR\ns3,GBR\ns4,FIN\n",
    "the same without a header": "s1,GBR\ns3,GBR\ns4,FIN\n",
    "a table of PLINK": "#FID\tIID\tPAT\tSEX\nf\ts1\t0\t1\nf\ts3\t0\t2\nf\ts4\t0\t1\n",
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_samples_are_read_as_they_come(name, store, tmp_path):
    path = tmp_path / "keep.txt"
    path.write_text(FILES[name], newline="")
    assert kept(store, keep=path)[0] == [1, 3, 4]
    path.write_bytes(gzip.compress(FILES[name].encode()))
    assert kept(store, remove=str(path))[0] == [i for i in range(M) if i not in (1, 3, 4)]


def test_ids_that_the_data_join_or_write_twice(tmp_path):
    data = as_frame(None, range(M), range(D))
    (tmp_path / "keep").write_text("f s1\nf s2\n")
    data.index = [f"f_s{i}" for i in range(M)]
    assert filtered(data, keep=tmp_path / "keep").samples.tolist() == [1, 2]
    data.index = [f"s{i}_s{i}" for i in range(M)]
    assert filtered(data, keep=["s3"]).samples.tolist() == [3]


def test_features_by_ids_and_by_names(store, tmp_path):
    (tmp_path / "list").write_text("g3 g5\ng7\n")
    assert kept(store, extract=tmp_path / "list")[1] == [3, 5, 7]
    group = zarr.open_group(store, mode="a")
    group["variant_id"][3:5] = np.array(["g5", "."], object)  # so places name the variants
    with pytest.warns(UserWarning, match=r"Repeated in the data: 1 of these names \(g5\)"):
        assert kept(store, extract=["g5", "1:45"])[1] == [3, 4, 5]


def test_what_is_not_there_is_said(store):
    with pytest.warns(
        UserWarning, match=r"keep= lists 2 samples\. Not in the data: 1 of them \(who\)"
    ):
        assert kept(store, keep=["s1", "who"])[0] == [1]
    for filters, why in {
        "keep=['who']": r"keep= lists 1 samples, but none of them is in the data \(who\)",
        "extract=[]": "the list is empty",
        "keep='nowhere.txt'": "The file nowhere.txt does not exist",
        "keep=5": "pass the path of a file, or a list of ids",
        "keep=np.ones(3, bool)": r"mask of shape \(3,\), but there are 30 samples",
        "keep=['s1'], remove=['s1']": "removes the only sample that remains after keep=",
        "chromosomes='7'": "No feature lies in chromosomes='7'; the data have the chromosomes 1, X",
        "keep_if='sample_six == 1'": "Did you mean 'sample_sex'?",
        "keep_if='sample_sex == 1'": "sample_sex contains 'F', 'M', 'NA'",
        "keep_if='call_genotype == 1'": "no variable 'call_genotype' with one value per sample",
        "extract_if='quality == 1'": "Did you mean 'variant_quality'?",
    }.items():
        with pytest.raises(InputError, match=why):
            kept(store, **eval(f"dict({filters})"))
    with pytest.raises(InputError, match="have no sample names"):
        dhsic.select(X, Y, filters=Filters(keep=["s1"]))
    with pytest.raises(InputError, match=r"pass dhsic\.Filters"):
        dhsic.select(X, Y, filters={"keep": ["s1"]})
    with pytest.raises(InputError, match="do not specify the chromosomes"):
        dhsic.select(X, Y, filters=Filters(chromosomes="1"))


# -- places and conditions ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    {
        "1": range(20),
        "chr1,X": range(D),
        "chrx": range(20, D),
        "1-22": range(20),
        "1:45-65": [4, 5, 6],
        "X:1-205,1:5-5": [0, 20],
    }.items(),
)
def test_places(said, expected, store):
    features = filtered(store, chromosomes=said).features
    assert (list(range(D)) if features is None else features.tolist()) == list(expected)
    listed = filtered(store, chromosomes=said.split(",")).features
    assert np.array_equal(features, listed)


def test_conditions_of_samples_and_features(store):
    assert kept(store, keep_if="sample_sex != 'F' and sample_age < 10")[0] == [1, 4, 7]
    assert kept(store, extract_if="variant_quality >= 38 or variant_position < 20")[1] == [
        *(0, 1),
        *(38, 39),
    ]
    assert kept(store, extract_if="variant_contig == 'X' and variant_alt == 'T,C'")[1][0] == 20


@given(
    st.lists(st.sampled_from(["1", "2", "-1.5", "NA", ""]), min_size=1),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.integers(-2, 3),
    st.booleans(),
)
def test_a_condition_is_what_python_says_of_each_value(values, op, limit, negated):
    condition = Condition.of(f"{'not ' * negated}x {op} {limit}", "keep_if")
    found = condition.holds({"x": np.array([*values, "0"], object)})
    for value, met in zip([*values, "0"], found, strict=True):
        is_there = value not in ("NA", "")
        expected = is_there and bool(eval(f"{float(value)} {op} {limit}")) != negated
        assert met == expected


@pytest.mark.parametrize(
    "said",
    [
        *("__import__('os').system('ls')", "a.b == 1", "a[0] == 1", "f(a) == 1", "1 == 1", "a; b"),
        *(
            "",
            "\0",
            "a == [1]",
            "a in []",
            "a in b",
            "lambda: 1",
            "a is 1",
            "(a := 1)",
            "a == None",
        ),
        *("(" * 10_000, "not " * 10_000 + "a", 5, "a == 1j", "[a for a in b]", "f'{a}' == '1'"),
    ],
)
def test_what_is_no_condition_is_refused(said):
    with pytest.raises(InputError, match="is not a valid condition"):
        Condition.of(said, "keep_if")


# -- how rare and how complete ------------------------------------------------------------------


def rare_or_lacking(calls, maf, max_missing, copies=None):
    """Features that are left: `calls` (m, d) are copies of two, NaN where missing.

    Of `copies` (m, d) a call of one is one allele.
    """
    copies, left = np.full(calls.shape, 2) if copies is None else copies, []
    for j, column in enumerate(calls.T):
        there = [
            (value / 2, n) for value, n in zip(column, copies[:, j], strict=True) if value == value
        ]
        n_alleles = sum(n for _, n in there)
        minor = min(sum(part * n for part, n in there), sum((1 - part) * n for part, n in there))
        frequency = minor / n_alleles if there else 0.0
        if frequency >= maf and (len(column) - len(there)) / len(column) <= max_missing:
            left.append(j)
    return left


@given(
    st.sampled_from(["i1", "u1", "f4", "f8"]),
    st.sampled_from([-1, -9, -127, 9]),
    st.sampled_from([0, 0.05, 0.1, 0.5]),
    st.sampled_from([0.0, 0.1, 0.25, 1]),
    st.integers(0, 99),
)
def test_alleles_are_counted_as_one_by_one(dtype, code, maf, max_missing, seed):
    rng = np.random.default_rng(seed)
    calls = rng.binomial(2, rng.random(12), (20, 12)).astype(float)
    calls[rng.random((20, 12)) < rng.choice([0.0, 0.1, 0.4], 12)] = np.nan
    calls[:3, 0], rows = (0, 1, 2), rng.random(20) < 0.8  # genotypes by the look of it
    rows[:3] = True
    code = 9 if dtype == "u1" else code
    stored = np.where(np.isnan(calls), np.nan if dtype == "f8" else code, calls).astype(dtype)
    expected = rare_or_lacking(calls[rows], maf, max_missing)
    source = dhsic.open_source(stored, missing_code=9 if code == 9 else "auto")
    asked = {"keep": rows, "maf": maf, "max_missing": max_missing}
    if not expected:
        with pytest.raises(InputError, match=r"removes (all|the only)"):
            filtered(stored, source, **asked)
        return
    found = filtered(stored, source, **asked).features
    assert (list(range(12)) if found is None else found.tolist()) == expected


def test_alleles_of_other_ploidies_and_of_what_is_none(tmp_path):
    def left(values, **filters):
        source = dhsic.open_source(values)
        return filtered(values, source, **filters).features_of(source)

    four = np.random.default_rng(0).integers(0, 5, (30, 6))
    four[:, 1] = np.arange(30) == 0  # one copy of 120
    assert left(four, maf=1 / 120).n_features == 6
    assert left(four, maf=1 / 119).n_features == 5
    assert left(four[:, 1:2] > 0, maf=1 / 30).n_features == 1
    doses = np.round(np.random.default_rng(1).random((30, 6)) * 2, 2)
    doses[:, 2] = 0.02
    assert left(doses, maf=0.02).n_features == 5
    for values in (X + 5, doses / 2, np.column_stack([four, 40 + np.arange(30)])):
        with pytest.raises(
            InputError, match=r"maf=0\.1 filters by allele frequency, but X contains"
        ):
            left(values, maf=0.1)
    assert left(X + 5, max_missing=0).n_features == D  # whatever the values are
    for filters in ({"maf": 1}, {"maf": "1%"}, {"max_missing": 5}, {"max_missing": True}):
        with pytest.raises(InputError, match=r"pass a number from 0 to .* \(1% is 0\.01\)"):
            left(X, **filters)
    with pytest.warns(UserWarning, match=r"must be present, .* pass 0\.1"):
        left(X, max_missing=0.9)


# -- labels of those that are left -------------------------------------------------------------


def test_labels_are_of_all_samples_or_name_those_that_are_left():
    data, filters = as_frame(None, range(M), range(D)), Filters(keep=names("s", SAMPLES))
    y = pd.Series(Y, index=data.index)
    table = pd.DataFrame({"sample": data.index, "y": Y})
    expected = dhsic.select(data, Y, filters=filters, **QUICK)
    for labels in (y, y.iloc[SAMPLES], table.iloc[SAMPLES][::-1], table[::-1]):
        found = dhsic.select(data, labels, filters=filters, **QUICK)
        assert found["score"].equals(expected["score"])
    with pytest.raises(InputError, match="30 samples, but there are 24 labels"):
        dhsic.select(data, Y[SAMPLES], filters=filters, **QUICK)
    with pytest.raises(
        InputError, match=r"covariates has 24 rows.*, and 24 of them remain after the filters"
    ):
        dhsic.select(data, Y, covariates=X[SAMPLES, :1], filters=filters, **QUICK)
    L = np.equal.outer(Y, Y).astype(float)
    found = dhsic.select(data, L, filters=filters, label_kernel="precomputed", **QUICK)
    L = L[np.ix_(SAMPLES, SAMPLES)]
    alone = dhsic.select(data.iloc[SAMPLES], L, label_kernel="precomputed", **QUICK)
    assert found["score"].equals(alone["score"])


def test_several_targets_and_groups_of_what_is_left(store):
    filters = Filters(chromosomes="1", remove=["s0"])
    both = {"a": Y, "b": 1 - np.roll(Y, 3)}
    groups = np.array([f"gene{j // 4}" for j in range(D)])
    asked = {"filters": filters, "feature_groups": groups, **QUICK}
    found = dhsic.select(store, both, per_target=True, **asked)
    for name, labels in both.items():
        alone = dhsic.select(store, labels, **asked)
        assert found["rank"].sel(targets=name).to_numpy().tolist() == alone["rank"].values.tolist()
    assert alone["group"].to_numpy().tolist() == groups[:20].tolist()


def test_a_table_of_labels_may_hold_those_that_are_left_alone(store, tmp_path):
    (tmp_path / "keep").write_text("\n".join(names("s", SAMPLES)))
    rows = "".join(f"s{i}\t{Y[i]}\n" for i in SAMPLES[::-1])
    (tmp_path / "labels.tsv").write_text("IID\ty\n" + rows)
    asked = ("--threads", "1", "--no-progress", "--keep", tmp_path / "keep", "--json")
    by_table = ("--labels", tmp_path / "labels.tsv", "--target", "y")
    found = json.loads(run("select", store, *by_table, *asked).stdout)
    expected = json.loads(run("select", store, "--target", "sample_trait", *asked).stdout)
    assert found["selected"] == expected["selected"]
    assert expected["n_samples_filtered"] == M - len(SAMPLES)


# -- commands ----------------------------------------------------------------------------------


def test_commands_count_what_each_filter_left_out(store, tmp_path):
    (tmp_path / "keep").write_text("\n".join(names("s", SAMPLES)))
    asked = ("--keep", tmp_path / "keep", "--keep-if", "sample_age >= 5", "--chr", "X")
    asked = (*asked, "--maf", "0.2", "--max-missing", "0.1")
    rows = [i for i in SAMPLES if i >= 5]
    some = np.ix_(rows, range(20, 40))
    n_left = len(rare_or_lacking(dosage(GENOTYPES)[some], 0.2, 0.1, COPIES[some]))
    n_rare = 20 - len(rare_or_lacking(dosage(GENOTYPES)[some], 0.2, 1, COPIES[some]))
    counts = {"keep": 6, "keep_if": 4, "chromosomes": 20, "maf": n_rare}
    counts["max_missing"] = 20 - n_rare - n_left
    sentence = (
        f"excluded 10 samples (6 by --keep, 4 by --keep-if), {40 - n_left} features (20 by --chr, "
        f"{n_rare} by --maf, {counts['max_missing']} by --max-missing)"
    )
    done = run("select", store, *CLI, *asked)
    assert told(done).count(sentence) == 2
    assert f"20 samples x {n_left} features" in told(done)
    found = json.loads(run("select", store, *CLI, *asked, "--json").stdout)
    assert found["left_out"] == counts
    assert {row["index"] for row in found["selected"]} <= {*range(20, 40)}
    assert sentence in " ".join(run("inspect", store, *asked).stdout.split())
    facts = json.loads(run("inspect", store, *asked, "--json").stdout)
    assert (facts["n_samples"], facts["n_features"], facts["left_out"]) == (20, n_left, counts)
    plan = json.loads(run("plan", store, *CLI, *asked, "--json").stdout)
    assert (plan["data"]["n_samples"], plan["left_out"]) == (20, counts)
    refused = run("select", store, *CLI, "--extract-if", "quality > 1", code=2).stderr
    assert "with --extract" in refused


def test_frequencies_are_those_of_samples_that_have_labels(store, tmp_path):
    labelled = np.arange(4, 25)
    rows = "\n".join(f"s{i}\t{i % 2 + 1}" for i in labelled)
    (tmp_path / "labels.tsv").write_text(f"IID\ty\n{rows}\n")
    expected = rare_or_lacking(dosage(GENOTYPES)[labelled], 0.3, 0.2, COPIES[labelled])
    asked = ("--labels", tmp_path / "labels.tsv", "--drop-missing", "--maf", 0.3)
    asked = (*asked, "--max-missing", 0.2, "--no-progress", "--json")
    found = json.loads(run("select", store, *asked, "--target", "y").stdout)
    assert sorted(row["index"] for row in found["selected"]) == expected
    assert expected != rare_or_lacking(dosage(GENOTYPES), 0.3, 0.2, COPIES)


def test_a_run_goes_on_with_its_filters_alone(store, tmp_path):
    out, asked = tmp_path / "r.zarr", ("--maf", "0.4", "--keep-if", "sample_age >= 5")
    run("select", store, *CLI, *asked, "--checkpoint", tmp_path / "ck", "--out", out)
    first = load(out)
    run("resume", tmp_path / "ck", "--force")
    assert load(out)["rank"].equals(first["rank"])
    other = run("select", store, *CLI, *asked[2:], "--checkpoint", tmp_path / "ck", code=4)
    assert "another" in other.stderr
    with pytest.raises(CheckpointError):
        dhsic.select(store, "sample_trait", n_features_to_select=5, checkpoint=tmp_path / "ck")


def test_workers_and_detached_runs_take_positions(store, client, tmp_path):
    filters = Filters(
        keep=names("s", SAMPLES), extract=names("g", FEATURES), maf=0.1, mind=0.9, hwe=1e-4
    )
    expected = dhsic.select(store, "sample_trait", filters=filters, runtime="threads", **QUICK)
    there = dhsic.select(
        store, "sample_trait", filters=filters, runtime=DaskRuntime(client), **QUICK
    )
    assert there["score"].equals(expected["score"])
    asked = {k: v for k, v in QUICK.items() if k != "progress"}
    place = tmp_path / "run"
    with dhsic.submit(
        store, "sample_trait", checkpoint=place, client=client, filters=filters, **asked
    ) as handle:
        found = handle.result(60)
    assert found["score"].equals(expected["score"])
    assert found.attrs["left_out"] == expected.attrs["left_out"]


def test_pairs_are_those_of_what_is_left(store, tmp_path):
    filters = Filters(keep=names("s", SAMPLES), chromosomes="X", maf=0.0)
    source = as_vcz(tmp_path / "some.vcz", SAMPLES, range(20, D))
    find, asked = dhsic.interactions.find_pairs, {"n_pairs": 5, "n_permutations": 0}
    found = find(store, "sample_trait", filters=filters, **asked)
    expected = find(source, Y[SAMPLES], **asked)
    assert found["share"].equals(expected["share"])
    assert found["first"].to_numpy().tolist() == (expected["first"].to_numpy() + 20).tolist()
    chosen = dhsic.select(store, "sample_trait", filters=filters, **QUICK)
    without = find(store, "sample_trait", filters=filters, selection=chosen, **asked)
    assert without.attrs["n_main_effects"] == 5
    with pytest.raises(InputError, match="that the filters exclude"):
        dhsic.interactions.shares(store, "sample_trait", chosen, filters=Filters(chromosomes="1"))


def test_main_effects_of_variants_that_filters_leave_out_are_taken_out(tmp_path):
    """As if they were covariates, which is said; pairs with them are not scanned."""
    store = as_vcz(tmp_path / "x.vcz", range(M), range(D))
    filled = dosage(GENOTYPES)
    filled = np.where(np.isnan(filled), np.nanmean(filled, axis=0), filled)
    rng = np.random.default_rng(0)
    y = filled[:, 4] + filled[:, 25] + 0.5 * rng.standard_normal(M)
    find, asked = dhsic.interactions.find_pairs, {"n_pairs": 5, "n_permutations": 0}
    asked["filters"] = Filters(chromosomes="X", keep=names("s", range(M)))
    said = r"exclude 2 features of selection= \(g2, g4\)\. Their main effects are still regressed"
    with pytest.warns(UserWarning, match=said):
        found = find(store, y, selection=["g4", "g25", "g2"], **asked)
    expected = find(store, y, selection=["g25"], covariates=filled[:, [2, 4]], **asked)
    np.testing.assert_allclose(found["share"], expected["share"], rtol=1e-9)
    assert found["first"].equals(expected["first"])
    assert found.attrs["n_main_effects"] == 3
    assert found["first"].min() >= 20
    without = find(store, y, selection=["g25"], **asked)
    assert not np.allclose(found["share"], without["share"])


@pytest.mark.filterwarnings("default:The filters exclude")
def test_a_selection_made_by_another_frequency_is_conditioned_on(store, tmp_path):
    out = tmp_path / "s.zarr"
    run("select", store, "--target", "sample_trait", "-n", 4, "--no-progress", "--out", out)
    chosen = load(out)
    frequency = np.minimum(chosen["allele_frequency"], 1 - chosen["allele_frequency"])
    limit = float(np.sort(frequency.to_numpy()[chosen["selected"].to_numpy()])[2])
    lost = chosen["feature"].to_numpy()[(chosen["selected"] & (frequency < limit)).to_numpy()]
    pairs = ("pairs", store, "--target", "sample_trait", "--selection", out, "--maf", limit)
    done = run(*pairs, "--permutations", 0, "-n", 3, "--out", tmp_path / "p.tsv")
    said = f"exclude {len(lost)} features of --selection ({', '.join(lost)})"
    assert len(lost) == 2
    assert said in told(done)
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    assert not set(lost) & {*table["first_name"], *table["second_name"]}
    assert "memory" in run(*pairs, "--plan").stdout


def test_lists_are_told_how_their_names_differ(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0]}, index=["Andr\xe9", "s-1", "s-2"])
    frame.to_csv(tmp_path / "t.csv", index_label="id")
    (tmp_path / "keep.txt").write_text("Andre\u0301\ns-2\n", encoding="utf-8")
    filters = dhsic.Filters(keep=str(tmp_path / "keep.txt"))
    filtered = filters.of(str(tmp_path / "t.csv"), dhsic.open_source(tmp_path / "t.csv"), None)
    assert filtered.samples.tolist() == [0, 2]
    (tmp_path / "keep.txt").write_text("S-1\nS-2\n")
    with pytest.raises(
        InputError,
        match=r"none of them is in the data .*upper and lower case: for example, 'S-1' is",
    ):
        filters.of(str(tmp_path / "t.csv"), dhsic.open_source(tmp_path / "t.csv"), None)
