"""Several files as one matrix: the values, names and rankings of one merged file, and refusals."""

import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import run, told
from refusals import remedy_of
from stores import changed, draw_genotypes, write, write_matrix, write_plink, write_vcz
from suites.source import Case, SourceSuite, whole

import dhsic
from dhsic.errors import CheckpointError, DataError, InputError
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources.file_lists import expanded, short_name
from dhsic.sources.joined import JoinedSource

M, PER, CHROMOSOMES = 40, 25, ("1", "2", "3", "10", "X")
SAMPLES = [f"s{i}" for i in range(M)]
D = PER * len(CHROMOSOMES)


def draw(m=M, d=D, seed=0):
    """Dosages (m, d), some missing; males (every second sample) are homozygous on the last 25."""
    rng = np.random.default_rng(seed)
    X = rng.choice(np.array([0, 0, 1, 1, 2, -1], "i1"), (m, d))
    on_x = X[::2, -PER:]
    on_x[on_x == 1] = 2
    return X


X = draw()
BAHSIC = {"method": "bahsic", "solver": "exact", "rerank": False, "interactions": None}
ONE_GROUP = BAHSIC | {"rerank": "auto", "n_features_to_select": 1}
Y = np.nan_to_num(X[:, 7].clip(0)) + 2 * X[:, 60].clip(0) + np.arange(M) % 3 / 9


def write_bed(prefix, X, chromosomes, places, *, ids=None, samples=SAMPLES, labels=None):
    """Write .bed, .bim and .fam with these chromosomes and positions; every second is male."""
    labels = Y if labels is None else labels
    ids = [f"rs{c}_{p}" for c, p in zip(chromosomes, places, strict=True)] if ids is None else ids
    write_plink(prefix, X, ids=ids, samples=samples)
    rows = zip(chromosomes, ids, places, strict=True)
    lines = [f"{c}\t{name}\t0\t{at}\tG\tA\n" for c, name, at in rows]
    prefix.with_suffix(".bim").write_text("".join(lines))
    people = enumerate(zip(samples, labels, strict=True))
    lines = [f"0 {s} 0 0 {1 + int(s[1:]) % 2} {v}\n" for _, (s, v) in people]
    prefix.with_suffix(".fam").write_text("".join(lines))
    return prefix.with_suffix(".bed")


def split(folder, X=X, **options):
    """Write X as one file (all.bed), and as one file per chromosome; return all paths."""
    folder.mkdir(exist_ok=True, parents=True)
    contigs, places = np.repeat(CHROMOSOMES, PER), np.tile(10 * np.arange(PER) + 5, 5)
    merged = write_bed(folder / "all", X, contigs, places)
    files = [
        write_bed(folder / f"chr{c}", X[:, here], contigs[here], places[here], **options)
        for c in CHROMOSOMES
        for here in [np.flatnonzero(contigs == c)]
    ]
    return merged, files


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return split(tmp_path_factory.mktemp("joined"))


def quiet(*arguments, **options):
    """Open data whose series of chromosomes has a gap, which is warned of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A series of")
        return dhsic.open_source(*arguments, **options)


def select(data, target=Y, **options):
    options = {"n_features_to_select": 5, "progress": False, "method": "linear"} | options
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A series of")
        return dhsic.select(data, target, **options)


def assert_equal_results(one, other):
    """All variables are equal bit for bit, apart from times."""
    assert {*one.variables} == {*other.variables}
    for name in {*one.variables} - {"round_seconds", "round_bytes_read"}:
        np.testing.assert_array_equal(one[name].to_numpy(), other[name].to_numpy(), err_msg=name)


# The suite -------------------------------------------------------------------------------------


def case_of(opened, X):
    expected = np.where(X == -1, np.nan, X.astype(float))
    return Case(opened(X), expected, lambda: opened(X), lambda: opened(changed(X)))


class TestJoinedBed(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(X):
            _, files = split(folder / str(X[0, 0]), X)
            return quiet(files[::-1])

        return case_of(opened, X)

    @pytest.mark.parametrize("width", [1, 7, 33, 10_000])
    def test_blocks_are_those_of_one_file(self, source, data, width):
        assert source.blocks(width) == dhsic.open_source(data[0]).blocks(width)


class TestOtherOrderOfSamples(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(X):
            _, files = split(folder / str(X[0, 0]), X)
            order = np.random.default_rng(1).permutation(M)
            write_bed(
                files[2].with_suffix(""),
                X[order, 50:75],
                ["3"] * PER,
                10 * np.arange(PER) + 5,
                samples=[SAMPLES[i] for i in order],
                labels=Y[order],
            )
            return quiet(files)

        return case_of(opened, X)


class TestChunkedBesideUnchunked(SourceSuite):
    """Zarr of int8 with code -1, and floats of 32 bits with NaN."""

    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(X):
            kind = str(X[0, 0])
            (folder / kind).mkdir(exist_ok=True)
            path = folder / kind / "a.zarr"
            shutil.rmtree(path, ignore_errors=True)
            dims = ("variants", "samples")
            write_matrix(path, X[:, :40], chunks=(9, M), fill_value=-1, dims=dims)
            floats = np.where(X[:, 40:] == -1, np.nan, X[:, 40:]).astype("f4")
            np.save(folder / kind / "b.npy", floats)
            with pytest.warns(UserWarning, match="2 of 2 files have no sample names"):
                return dhsic.open_source([folder / kind / "b.npy", path])

        return case_of(opened, X)

    def test_values_are_floats(self, source):
        assert (source.dtype, source.missing_code) == (np.float32, None)


class TestDask(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls):
        def opened(X):
            values = np.where(X == -1, np.nan, X.astype(float))
            parts = [da.from_array(p, chunks=(M, 6)) for p in np.split(values, [30], axis=1)]
            with pytest.warns(UserWarning, match="no sample names"):
                return dhsic.open_source(parts)

        return case_of(opened, X)


class TestGenotypesOfStores(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(X):
            calls = np.stack([np.where(X == -1, -1, X > 0), np.where(X == -1, -1, X > 1)], -1)
            parts = np.split(calls.transpose(1, 0, 2).astype("i1"), [60])
            paths = []
            for i, part in enumerate(parts):
                paths.append(folder / f"{X[0, 0]}part{i}.vcz")
                d = len(part)
                group = write_vcz(
                    paths[-1], part, chunks=(17, M, 2), ids=[f"r{i}_{j}" for j in range(d)]
                )
                group["variant_contig"][...] = np.zeros(d, "i1")
                group["variant_position"][...] = 1000 * i + np.arange(d)
            return dhsic.open_source(paths[::-1])

        return case_of(opened, X)

    def test_no_block_crosses_files(self, source):
        assert 60 in [block.start for block in source.blocks(1000)]


# One matrix ------------------------------------------------------------------------------------


def test_files_are_one_matrix_in_the_order_of_chromosomes(data):
    merged, files = data
    one, joint = dhsic.open_source(merged), quiet(random.Random(3).sample(files, 5))
    np.testing.assert_array_equal(whole(joint), whole(one))
    assert joint.feature_names().tolist() == one.feature_names().tolist()
    assert joint.sample_names().tolist() == one.sample_names().tolist()
    for name, values in one.feature_coords().items():
        assert joint.feature_coords()[name].tolist() == values.tolist()
    assert (joint.dtype, joint.missing_code, joint.ploidy) == (np.int8, -1, 2)
    assert joint.counted == one.counted
    assert joint.dosages
    assert joint.keeps_codes
    assert joint.client_bytes == 0


def test_the_order_of_files_does_not_matter(data):
    _, files = data
    digests = {quiet(random.Random(i).sample(files, 5)).fingerprint() for i in range(4)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    "options",
    [BAHSIC, {"method": "fohsic"}, {"method": "hsic"}],
    ids=str,
)
def test_the_ranking_is_that_of_one_file(data, options):
    merged, files = data
    assert_equal_results(select(files[::-1], **options), select(merged, **options))


def test_the_ranking_on_workers_and_resumed_is_that_of_threads(data, client, tmp_path):
    merged, files = data
    expected = select(merged, **BAHSIC)
    assert_equal_results(select(files, runtime=DaskRuntime(client), **BAHSIC), expected)

    def stop(record):
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        select(files, checkpoint=tmp_path / "run", progress=stop, **BAHSIC)
    resumed = select(files[::-1], checkpoint=tmp_path / "run", **BAHSIC)
    assert_equal_results(resumed, expected)
    with pytest.raises(CheckpointError):
        select(files[1:], checkpoint=tmp_path / "run", **BAHSIC)


@pytest.mark.parametrize(
    "filters",
    [
        {"maf": 0.3},
        {"hwe": 0.2},
        {"max_missing": 0.15},
        {"chromosomes": "2-3,X"},
        {"extract": ["rs2_15", "rsX_5", "rs10_45", "rs1_5"]},
        {"keep": SAMPLES[3:]},
        {"mind": 0.2},
    ],
    ids=str,
)
def test_filters_select_the_same_of_files_as_of_one(data, filters):
    merged, files = data
    target = "PHENO"
    results = [select(which, target, filters=dhsic.Filters(**filters)) for which in (files, merged)]
    assert_equal_results(*results)
    assert results[0].sizes["features"] < D or "keep" in filters or "mind" in filters


def test_sexes_are_those_of_the_merged_file(data):
    merged, files = data
    one, joint = dhsic.open_source(merged), quiet(files)
    assert joint.sexes().males.tolist() == one.sexes().males.tolist()
    assert joint.haploid_features().tolist() == one.haploid_features().tolist() != []
    block, local = joint.blocks(200)[0], joint.haploid_features()
    rows = np.arange(3, 20)
    for name in ("allele_counts", "diploid_genotypes"):
        found = [getattr(source, name)(block, local, rows) for source in (joint, one)]
        np.testing.assert_array_equal(*found)


def test_files_that_contradict_each_other_on_sexes_are_refused(tmp_path):
    _, files = split(tmp_path)
    other_sexes(tmp_path, files)
    said = r"7 of 40 samples have different sexes in .*chr2.bed and .*chr1.bed"
    with pytest.raises(InputError, match=said):
        quiet(files).sexes()
    with pytest.raises(InputError, match=said):
        select(files, filters=dhsic.Filters(maf=0.05))


def test_haploid_calls_of_stores_count_once(tmp_path):
    G = draw_genotypes(20, 12)
    whole_store = tmp_path / "all.vcz"
    write_vcz(whole_store, G)
    parts = []
    for i, here in enumerate((slice(0, 10), slice(10, 20))):
        parts.append(tmp_path / f"p{i}.vcz")
        group = write_vcz(parts[-1], G[here], ids=[f"rs{j}" for j in range(20)[here]])
        group["variant_contig"][...] = np.full(10, i, "i1")
        group["variant_position"][...] = (np.arange(20) * 10 + 5)[here].astype("i4")
    one, joint = dhsic.open_source(whole_store), dhsic.open_source(parts[::-1])
    np.testing.assert_array_equal(whole(joint), whole(one))
    assert joint.haploid_features().tolist() == one.haploid_features().tolist() != []
    local = joint.haploid_features()
    block = joint.blocks(100)[1]
    found = joint.allele_counts(block, local - block.start)
    expected = one.allele_counts(one.blocks(100)[0], local)
    np.testing.assert_array_equal(found, expected)


def test_labels_and_variables_are_read_from_the_files(data):
    _, files = data
    source = quiet(files)
    np.testing.assert_allclose(dhsic.read_target(source, "PHENO"), Y)
    with pytest.raises(InputError, match="no column 'height'"):
        dhsic.read_target(source, "height")


def test_labels_that_differ_between_files_are_refused(tmp_path):
    _, files = split(tmp_path)
    split(tmp_path / "other", labels=Y[::-1])
    shutil.copy(tmp_path / "other/chr3.fam", tmp_path)
    with pytest.raises(InputError, match=r"'PHENO' has different values in .*chr3.bed and .*chr1"):
        select(files, "PHENO")


def test_parts_of_a_table_are_joined_and_hold_the_labels(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((30, 12))
    frame = pd.DataFrame(values, columns=[f"g{j}" for j in range(12)]).round(6)
    frame.insert(0, "sample", [f"p{i}" for i in range(30)])
    frame["y"] = (values[:, 3] + values[:, 8]).round(6)
    frame.drop(columns="y").to_csv(tmp_path / "all.csv", index=False)
    frame[["sample", *(f"g{j}" for j in range(5)), "y"]].to_csv(tmp_path / "part1.csv", index=False)
    shuffled = frame[["sample", *(f"g{j}" for j in range(5, 12))]].sample(frac=1, random_state=1)
    shuffled.to_parquet(tmp_path / "part2.parquet", index=False)
    expected = select(tmp_path / "all.csv", frame["y"].to_numpy())
    found = select([tmp_path / "part2.parquet", tmp_path / "part1.csv"], "y")
    assert found["feature"].to_numpy().tolist() == expected["feature"].to_numpy().tolist()
    np.testing.assert_array_equal(found["rank"], expected["rank"])
    with pytest.raises(InputError, match=r"not_features=.'wrong'. is not a feature of X"):
        dhsic.open_source(str(tmp_path / "part*"), not_features=["y", "wrong"])


def test_groups_of_stores_are_read_from_each(tmp_path):
    rng, paths = np.random.default_rng(0), []
    for i in (1, 2):
        genes, names = [f"g{i}_{j}" for j in range(4)], [f"c{k}" for k in range(20)]
        dataset = xr.Dataset(
            {"X": (("samples", "genes"), rng.standard_normal((20, 4)))},
            {"samples": names, "genes": genes, "pathway": ("genes", [f"p{i}"] * 2 + ["q"] * 2)},
        )
        paths.append(tmp_path / f"part{i}.zarr")
        group = zarr.open_group(paths[-1], mode="w")
        for name, of in dataset.variables.items():
            values = of.to_numpy()
            write(
                group, name, values.astype(object) if values.dtype.kind == "U" else values, of.dims
            )
    result = select(paths, np.arange(20.0), feature_groups="pathway", **ONE_GROUP)
    assert result["group"].to_numpy().tolist() == ["p1"] * 2 + ["q"] * 2 + ["p2"] * 2 + ["q"] * 2


def test_opened_data_and_arrays_are_joined_in_their_order(rng):
    cells = [f"c{i}" for i in range(15)]
    frames = [
        pd.DataFrame(rng.standard_normal((15, 3)), cells, columns=list(names))
        for names in ("abc", "def")
    ]
    source = dhsic.open_source([frames[1], dhsic.open_source(frames[0])])
    assert source.feature_names().tolist() == list("defabc")
    assert source.sample_names().tolist() == cells
    np.testing.assert_array_equal(whole(source), np.hstack([frames[1], frames[0]]))


def test_pass_only_and_excluded_features_are_those_of_the_joint_source(tmp_path):
    paths = []
    for i in range(2):
        paths.append(tmp_path / f"p{i}.vcz")
        group = write_vcz(
            paths[-1], draw_genotypes(6, 8, seed=i), ids=[f"v{i}_{j}" for j in range(6)]
        )
        group["variant_contig"][...] = np.full(6, i, "i1")
        passed = np.array([[True], [False], [True], [True], [False], [True]])
        group.create_array("variant_filter", data=passed, dimension_names=("variants", "filters"))
        write(group, "filter_id", np.array(["PASS"], object), ("filters",))
    source = dhsic.open_source(paths[::-1], pass_only=True, not_features=["v1_0"])
    expected = [f"v0_{j}" for j in (0, 2, 3, 5)] + [f"v1_{j}" for j in (2, 3, 5)]
    assert source.feature_names().tolist() == expected
    everything = whole(dhsic.open_source(paths))
    np.testing.assert_array_equal(whole(source), everything[:, [0, 2, 3, 5, 8, 9, 11]])


def test_integers_with_other_missing_codes_become_floats():
    a, b = np.array([[1, -9], [5, 3]], "i2"), np.array([[-1, -9], [7, 4]], "i2")
    with pytest.warns(UserWarning, match="no sample names"):
        source = dhsic.open_source(
            [dhsic.open_source(a, missing_code=-9), dhsic.open_source(b, missing_code=-1)]
        )
    expected = [[1, np.nan, np.nan, -9], [5, 3, 7, 4]]
    np.testing.assert_array_equal(whole(source), expected)


# Samples ---------------------------------------------------------------------------------------


def test_other_samples_are_refused_and_the_remedy_works(tmp_path):
    _, files = split(tmp_path)
    split(tmp_path / "few", samples=[f"s{i}" for i in range(2, M + 2)])
    for suffix in (".bed", ".bim", ".fam"):
        shutil.copy(tmp_path / f"few/chr2{suffix}", tmp_path)
    with pytest.raises(InputError, match=r"chr2.bed does not have the same samples") as caught:
        dhsic.open_source(files)
    message = str(caught.value)
    assert (
        "38 are in both, 2 only in chr1.bed (s0, s1) and 2 only in chr2.bed (s40, s41)" in message
    )
    name, value = remedy_of(message, "intersect_samples")
    with pytest.warns(UserWarning, match="38 samples are in all 5 files, which have 40 samples"):
        source = quiet(files, **{name: value})
    assert source.sample_names().tolist() == SAMPLES[2:]
    expected = np.where(X == -1, np.nan, X)[2:]
    expected[:, 25:50] = np.where(X == -1, np.nan, X)[:-2, 25:50]
    np.testing.assert_array_equal(whole(source), expected)
    table = pd.DataFrame({"IID": SAMPLES, "y": Y})
    with pytest.warns(UserWarning, match="38 samples"):
        result = select(files, table[::-1], intersect_samples=value)
    assert result.attrs["n_samples"] == 38
    with (
        pytest.warns(UserWarning, match="38 samples"),
        pytest.raises(InputError, match=r"chrX.bed has 38 samples, but there are 40 labels"),
    ):
        select(files, Y, intersect_samples=value)


def tables(folder, starts, prefix="", suffix="csv", only=slice(None)):
    """Two tables of the same samples, counted from different starts."""
    every = pd.DataFrame(np.where(X == -1, 0, X)).add_prefix("g")
    paths = []
    for k, start in enumerate(starts):
        ids = [f"{prefix}{i}" if prefix else i for i in range(start, start + M)]
        part = every.iloc[:, 20 * k : 20 * (k + 1)].set_axis(pd.Index(ids, name="id"))
        paths.append(str(folder / f"part{k + 1}.{suffix}"))
        part = part.iloc[only] if k else part
        part.to_parquet(paths[-1]) if suffix == "parquet" else part.to_csv(paths[-1])
    return every, paths


@pytest.mark.parametrize("intersect", [False, True])
@pytest.mark.parametrize("prefix", ["", "s"])
@pytest.mark.parametrize("starts", [(0, 1), (1, 0)])
def test_files_counted_from_0_and_from_1_are_refused_and_the_command_counts_anew(
    starts, prefix, intersect, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    every, paths = tables(tmp_path, starts, prefix)
    with pytest.raises(InputError, match="would be matched to its neighbour") as caught:
        dhsic.open_source(paths, intersect_samples=intersect)
    command = re.search(r'python (-c ".*?"), then pass NEW.csv instead of part2', str(caught.value))
    subprocess.run([sys.executable, *shlex.split(command[1])], check=True)
    source = quiet([paths[0], "NEW.csv"])
    np.testing.assert_array_equal(whole(source), every[source.feature_names()])


def test_equal_numbers_in_files_are_the_same_sample_if_sample_0_is_removed(tmp_path):
    every, paths = tables(tmp_path, (0, 1))
    with pytest.raises(InputError, match=r"remove sample 0 from part1.csv"):
        dhsic.open_source(paths, intersect_samples=True)
    pd.read_csv(paths[0], index_col="id").iloc[1:].to_csv(paths[0])
    with pytest.warns(UserWarning, match="39 samples are in all 2 files"):
        source = quiet(paths, intersect_samples=True)
    np.testing.assert_array_equal(whole(source)[:, :20], every.iloc[1:, :20])
    np.testing.assert_array_equal(whole(source)[:, 20:], every.iloc[:-1, 20:40])


def test_other_files_counted_from_other_starts_are_refused_and_parts_of_a_range_are_not(tmp_path):
    _, paths = tables(tmp_path, (0, 1), "s", "parquet")
    with pytest.raises(InputError, match=r"make the names the same\. If equal numbers"):
        dhsic.open_source(paths, intersect_samples=True)
    every, paths = tables(tmp_path, (0, 0), only=slice(1, None))
    with pytest.warns(UserWarning, match="39 samples are in all 2 files"):
        source = quiet(paths, intersect_samples=True)
    np.testing.assert_array_equal(whole(source), every.iloc[1:, :40])


@pytest.mark.parametrize(
    ("change", "way"),
    [(str.upper, "upper and lower case"), (lambda s: f"fam_{s}", "such as a FID")],
)
def test_names_that_are_spelt_differently_are_compared(change, way, tmp_path):
    _, files = split(tmp_path)
    fam = tmp_path / "chr2.fam"
    table = pd.read_csv(fam, sep=" ", header=None)
    table[1] = table[1].map(change)
    table.to_csv(fam, sep=" ", header=False, index=False)
    with pytest.raises(InputError, match=way) as caught:
        dhsic.open_source(files)
    assert f"{change('s0')!r} is 's0' in chr1.bed. Write the names in the same" in str(caught.value)
    assert "intersect_samples" not in str(caught.value)


@pytest.mark.parametrize("others", [[None], [3], []])
def test_lists_of_other_things_are_refused(others, data):
    X = [*data[1], *others] if others else []
    with pytest.raises(InputError, match=r"X is a list of .* Pass a list of paths or matrices"):
        dhsic.open_source(X)


def test_a_list_of_paths_without_its_mark_and_an_empty_file_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, files = split(tmp_path)
    Path("files.txt").write_text("".join(f"{file}\n" for file in files))
    with pytest.raises(InputError, match="lists paths of files") as caught:
        dhsic.open_source("files.txt")
    at = re.search(r"pass (@\S+)\.$", str(caught.value))[1]
    assert dhsic.open_source(at).n_features == D
    files[1].write_bytes(b"")
    with pytest.raises(DataError, match=r"chr2.bed is empty"):
        dhsic.open_source(files)


def test_genotypes_are_never_overwritten_by_a_conversion(tmp_path):
    _, files = split(tmp_path)
    before = files[1].read_bytes()
    with pytest.raises(InputError, match=r"chr2.bed has the suffix of a data file"):
        dhsic.convert(files[0], files[1], overwrite=True)
    assert files[1].read_bytes() == before


def test_files_without_names_need_equal_numbers_of_samples(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((5, 2)))
    np.save(tmp_path / "b.npy", np.ones((6, 2)))
    with pytest.raises(InputError, match=r"b.npy has 6 samples without names, but .*a.npy has 5"):
        dhsic.open_source(str(tmp_path / "*.npy"))


# Altered files ---------------------------------------------------------------------------------


def truncated(folder, files):
    files[1].write_bytes(files[1].read_bytes()[:-3])


def longer(folder, files):
    files[1].write_bytes(files[1].read_bytes() + b"\0")


def swapped_variants(folder, files):
    swap(files[1].with_suffix(".bim"), files[2].with_suffix(".bim"))


def swapped_calls_and_variants(folder, files):
    for suffix in (".bed", ".bim"):
        swap(files[1].with_suffix(suffix), files[2].with_suffix(suffix))


def variants_of_another(folder, files):
    shutil.copy(files[0].with_suffix(".bim"), files[1].with_suffix(".bim"))


def swap(one, other):
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def no_variants(folder, files):
    files[3].with_suffix(".bim").unlink()


def no_calls(folder, files):
    files[0].unlink()


def fewer_samples(folder, files):
    lines = files[1].with_suffix(".fam").read_text().splitlines(keepends=True)
    files[1].with_suffix(".fam").write_text("".join(lines[:-4]))


def other_samples(folder, files):
    text = files[1].with_suffix(".fam").read_text().replace(" s3 ", " t3 ")
    files[1].with_suffix(".fam").write_text(text)


def samples_twice(folder, files):
    text = files[1].with_suffix(".fam").read_text().replace(" s3 ", " s4 ")
    files[1].with_suffix(".fam").write_text(text)


def copied(folder, files):
    for suffix in (".bed", ".bim", ".fam"):
        shutil.copy(files[1].with_suffix(suffix), folder / f"copy{suffix}")
    files.append(folder / "copy.bed")


def copied_samples_first(folder, files):
    order = np.random.default_rng(0).permutation(M)
    names, places = [SAMPLES[i] for i in order], 10 * np.arange(PER) + 5
    files.append(write_bed(folder / "copy", X[order, 25:50], ["2"] * PER, places, samples=names))


def passed_twice(folder, files):
    files.append(folder / "." / "chr2.bed")


def linked(folder, files):
    for suffix in (".bed", ".bim", ".fam"):
        (folder / f"link{suffix}").symlink_to(files[1].with_suffix(suffix))
    files.append(folder / "link.bed")


def other_build(folder, files):
    places = 10 * np.arange(PER) + 7
    ids = [f"rs2_{p - 2}" for p in places]
    files.append(write_bed(folder / "build", X[:, 25:50], ["2"] * PER, places, ids=ids))


def one_of_other_build(folder, files):
    ids = ["new", "rs2_5"]
    files.append(write_bed(folder / "build", X[:, 25:27], ["2"] * 2, [900, 910], ids=ids))


def merged_too(folder, files):
    files.append(folder / "all.bed")


def shuffled_files(folder, files):
    random.Random(1).shuffle(files)


def by_spelling(folder, files):
    files[1] = str(files[1].with_suffix(".fam"))
    files[2] = str(files[2].with_suffix(""))


def chromosomes_by_other_names(folder, files):
    for path in files[1:3]:
        bim = path.with_suffix(".bim")
        lines = bim.read_text().splitlines()
        bim.write_text("".join(f"chr{line}\n" for line in lines))


def x_by_number(folder, files):
    bim = files[-1].with_suffix(".bim")
    bim.write_text(bim.read_text().replace("X\t", "23\t"))


def samples_in_other_order(folder, files):
    order = np.random.default_rng(0).permutation(M)
    write_bed(
        files[1].with_suffix(""),
        X[order, 25:50],
        ["2"] * PER,
        10 * np.arange(PER) + 5,
        samples=[SAMPLES[i] for i in order],
        labels=Y[order],
    )


def in_two_files(folder, files):
    places = 10 * np.arange(PER) + 5
    files[1] = write_bed(folder / "chr2b", X[:, 40:50], ["2"] * 10, places[15:])
    files.append(write_bed(folder / "chr2a", X[:, 25:40], ["2"] * 15, places[:15]))


def x_also_by_number(folder, files):
    places = 10 * np.arange(PER) + 5
    ids = [f"rsX_{p}" for p in places]
    files.append(write_bed(folder / "chr23", X[:, -PER:], ["23"] * PER, places, ids=ids))


def other_sexes(folder, files):
    table = files[1].with_suffix(".fam")
    rows = [line.split() for line in table.read_text().splitlines()]
    for row in rows[:7]:
        row[4] = str(3 - int(row[4]))
    table.write_text("".join(" ".join(row) + "\n" for row in rows))


def sexes_unknown_in_one(folder, files):
    table = files[0].with_suffix(".fam")
    rows = [line.split() for line in table.read_text().splitlines()]
    table.write_text("".join(" ".join([*row[:4], "0", row[5]]) + "\n" for row in rows))


REFUSED = {
    x_also_by_number: (InputError, "All 25 features of"),
    truncated: (DataError, "chr2.bed"),
    longer: (DataError, "chr2.bed"),
    swapped_variants: (InputError, "chr3.bed is named after chromosome 3"),
    swapped_calls_and_variants: (InputError, "chr3.bed is named after chromosome 3"),
    variants_of_another: (InputError, "chr2.bed"),
    no_variants: (InputError, "chr10.bim does not exist"),
    no_calls: (InputError, "chr1.bed does not exist"),
    fewer_samples: (DataError, "chr2.bed"),
    other_samples: (InputError, "chr2.bed does not have the same samples"),
    samples_twice: (InputError, "chr2.bed has 1 sample names twice (0_s4)"),
    copied: (InputError, "All 25 features of"),
    copied_samples_first: (InputError, "copy.bed"),
    passed_twice: (InputError, "chr2.bed is passed twice"),
    linked: (InputError, "link.bed is passed twice"),
    other_build: (InputError, "25 variants of the same name at different positions"),
    one_of_other_build: (InputError, "1 variants of the same name at different positions"),
    merged_too: (InputError, "All 25 features of"),
}
ALLOWED = (
    sexes_unknown_in_one,
    shuffled_files,
    by_spelling,
    chromosomes_by_other_names,
    x_by_number,
    samples_in_other_order,
    in_two_files,
)


@pytest.mark.parametrize("alter", REFUSED, ids=lambda alter: alter.__name__)
def test_altered_files_are_refused_by_name(alter, tmp_path):
    _, files = split(tmp_path)
    alter(tmp_path, files)
    error, words = REFUSED[alter]
    with pytest.raises(error) as caught:
        quiet(files)
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("alter", ALLOWED, ids=lambda alter: alter.__name__)
def test_files_in_another_form_have_the_same_ranking(alter, tmp_path):
    merged, files = split(tmp_path)
    expected = select(merged)
    alter(tmp_path, files)
    found = select(files)
    for name in ("rank", "score", "feature"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_missing_chromosome_is_told(tmp_path):
    _, files = split(tmp_path)
    with pytest.warns(UserWarning, match="A series of 3 parts has no chromosome 2") as caught:
        dhsic.open_source([files[0], files[2], files[4]])
    assert len(caught) == 1
    for i in (1, 2, 4):
        np.save(tmp_path / f"part{i}.npy", np.random.default_rng(i).standard_normal((5, 3)))
    with (
        pytest.warns(UserWarning, match="no sample names"),
        pytest.warns(UserWarning, match=r"3 files has no file 3\."),
    ):
        dhsic.open_source(str(tmp_path / "part*.npy"))


def test_names_that_files_share_are_told_and_replaced_by_places(tmp_path):
    places = [10, 20, 30]
    for c in "12":
        write_bed(tmp_path / f"c{c}", X[:, :3], [c] * 3, places, ids=["snp1", f"own{c}", "snp3"])
    with pytest.warns(UserWarning, match="2 feature names are in several files, such as snp1"):
        source = dhsic.open_source(str(tmp_path / "c?.bed"))
    assert source.feature_names().tolist() == ["1:10", "own1", "1:30", "2:10", "own2", "2:30"]


def test_positions_that_overlap_are_told(tmp_path):
    a = write_bed(tmp_path / "a", X[:, :3], ["1"] * 3, [10, 20, 30])
    b = write_bed(tmp_path / "b", X[:, 3:5], ["1"] * 2, [15, 40])
    with pytest.warns(UserWarning, match="positions of a.bed and b.bed overlap on chromosome 1"):
        dhsic.open_source([b, a])


def test_kinds_that_do_not_belong_together_are_refused(tmp_path):
    bed = write_bed(tmp_path / "a", X[:, :3], ["1"] * 3, [10, 20, 30])
    calls = write_vcz(tmp_path / "b.zarr", np.zeros((2, M, 1), "i1"))
    with pytest.raises(InputError, match="has genotypes of 1 alleles, but"):
        dhsic.open_source([bed, calls])
    parts = [da.ones((5, 2)), np.zeros((5, 3))]
    with pytest.raises(InputError, match=r"join them by dask.array.concatenate\(arrays, axis=1\)"):
        dhsic.open_source(parts)
    joint = dhsic.open_source(da.concatenate([parts[0], da.from_array(parts[1])], axis=1))
    assert (joint.n_samples, joint.n_features) == (5, 5)


# Lists of files --------------------------------------------------------------------------------


def test_patterns_and_lists_of_paths(tmp_path, monkeypatch):
    split(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    names = [f"data/chr{c}.bed" for c in CHROMOSOMES]
    assert expanded("data/chr*.bed") == names
    assert expanded("data/chr*") == names  # without .bim and .fam
    assert expanded("data/chr1.bed") == "data/chr1.bed"
    assert expanded(["data/chr1*.bed"]) == ["data/chr1.bed", "data/chr10.bed"]
    (tmp_path / "data/files.txt").write_text("# one per line\nchr1.bed\n\ndata/chr2.bed\n")
    assert expanded("@data/files.txt") == ["data/chr1.bed", "data/chr2.bed"]
    assert short_name(expanded("data/chr*.bed")) == "5 files: chr1.bed ... chrX.bed"
    (tmp_path / "x[1].npy").touch()
    assert expanded("x[1].npy") == "x[1].npy"
    for pattern, words in (
        ("data/none*.bed", "No file matches data/none"),
        ("@nothing.txt", "nothing.txt cannot be read as a list of paths"),
    ):
        with pytest.raises(InputError, match=words):
            dhsic.open_source(pattern)
    (tmp_path / "files.txt").write_text("absent.bed\n")
    with pytest.raises(InputError, match=r"lists 1 path at which nothing exists: absent.bed"):
        dhsic.open_source("@files.txt")
    (tmp_path / "files.txt").write_text("# nothing\n")
    with pytest.raises(InputError, match="lists no paths"):
        dhsic.open_source("@files.txt")


def test_rows_of_one_matrix_are_not_several_matrices():
    source = dhsic.open_source([[1.0, 2.0], [3.0, 4.0]])
    assert not isinstance(source, JoinedSource)
    rows = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    np.testing.assert_array_equal(whole(dhsic.open_source(rows)), np.array(rows))


# Commands --------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    _, files = split(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    return [f"data/{path.name}" for path in files]


QUICK = ("--target", "PHENO", "-n", 4, "--threads", 2)


@pytest.mark.filterwarnings("default")
def test_select_and_resume_name_the_files(here, tmp_path):
    options = (*QUICK, "--no-progress", "--method", "fohsic")
    out = [tmp_path / f"{i}.tsv" for i in range(4)]
    one = run("select", "data/all.bed", *options, "--out", out[0])
    several = run("select", *here[::-1], *options, "--out", out[1], "--checkpoint", "run.dhsic")
    run("select", "data/chr*.bed", *options, "--out", out[2])
    run("resume", "run.dhsic", "--out", out[3])
    assert "5 files: chr1.bed ... chrX.bed: 40 samples x 125 features" in told(several)
    assert "A series of" not in told(one)
    assert len({path.read_text() for path in out}) == 1
    said = told(run("select", "data/chr?.bed", *options, "--checkpoint", "run.dhsic", code=4))
    assert "checkpoint" in said


@pytest.mark.filterwarnings("default")
def test_other_commands_take_several_files(here, tmp_path):
    facts = json.loads(run("inspect", *here, "--json").stdout)
    assert [file["n_features"] for file in facts["files"]] == [PER] * 5
    assert "PHENO" in facts["targets"]
    shown = run("inspect", "data/chr*.bed").stdout
    assert "data/chr10.bed: 40 samples x 25 features" in shown
    run("convert", *here, "joint.zarr")
    source = dhsic.open_source("joint.zarr")
    np.testing.assert_array_equal(whole(source), whole(dhsic.open_source("data/all.bed")))
    np.testing.assert_allclose(dhsic.read_target("joint.zarr", "PHENO"), Y)
    run("pca", *here, "--components", 2, "--out", "pcs.tsv")
    run("pca", "data/all.bed", "--components", 2, "--out", "expected.tsv")
    assert (tmp_path / "pcs.tsv").read_text() == (tmp_path / "expected.tsv").read_text()
    assert "40 samples" in run("plan", *here, *QUICK).stdout
    tests = [
        json.loads(run("test", *which, *QUICK, "--json").stdout)
        for which in (here, ["data/all.bed"])
    ]
    assert tests[0]["selected"] == tests[1]["selected"]
    pairs = [
        run("pairs", *which, *QUICK[:4], "--permutations", 0).stdout
        for which in (here, ["data/all.bed"])
    ]
    assert pairs[0] == pairs[1]


@pytest.mark.filterwarnings("default")
def test_an_output_over_a_file_of_the_data_is_refused(here):
    said = told(run("select", *here, *QUICK, "--out", here[1], "--force", code=2))
    assert "chr2.bed" in said


@pytest.mark.filterwarnings("default")
def test_intersect_samples_is_an_option(here, tmp_path):
    split(tmp_path / "few", samples=[f"s{i}" for i in range(2, M + 2)])
    paths = [*here[:-1], "few/chrX.bed"]
    said = told(run("select", *paths, *QUICK, "--method", "linear", code=2))
    assert "--intersect-samples" in said
    table = pd.DataFrame({"IID": SAMPLES, "y": Y})
    table.to_csv("labels.csv", index=False)
    options = ("--labels", "labels.csv", "--target", "y", "--method", "linear", "-n", 3)
    said = told(run("select", *paths, *options, "--intersect-samples", "--threads", 2))
    assert "38 samples are in all 5 files" in said


@pytest.mark.filterwarnings("default")
def test_a_person_whom_one_file_lacks_is_told_beside_a_table_of_labels(here, tmp_path):
    """Not by the number of labels, which are matched by name."""
    few = np.delete(np.arange(M), 5)
    write_plink(tmp_path / "data/chr2", X[few][:, PER : 2 * PER], samples=[SAMPLES[i] for i in few])
    fam, bim = tmp_path / "data/chr2.fam", tmp_path / "data/chr2.bim"
    fam.write_text(re.sub(r"(?m) \d -9$", " 0 -9", fam.read_text()))  # sex unknown
    bim.write_text(re.sub(r"(?m)^\d+\t(\w+)", r"2\t\1_of_2", bim.read_text()))
    for n in (M, M - 1):
        pd.DataFrame({"IID": SAMPLES[:n], "y": Y[:n]}).to_csv("y.tsv", sep="\t", index=False)
        words = ("test", "data/chr*.bed", "--labels", "y.tsv", "--target", "y", "--drop-missing")
        said = told(run(*words, code=2))
        assert "chr2.bed does not have the same samples" in said
        option = re.search(r"(--intersect-samples)", said)[1]
        assert f"{M - 1 - (n < M)} real values" in told(run(*words, option))


@pytest.mark.parametrize("which", [0, 1])
def test_files_whose_names_differ_in_blanks_are_joined_by_the_command(which, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    every, paths = tables(tmp_path, (1, 1), "s")
    table = pd.read_csv(paths[which])
    table["id"] = table["id"].str.replace("s", "s ")
    table.to_csv(paths[which], index=False)
    with pytest.raises(InputError, match="differ only in spaces") as caught:
        dhsic.open_source(paths)
    command = re.search(r'python (-c ".*?"), then pass NEW.csv instead of (\w+)', str(caught.value))
    subprocess.run([sys.executable, *shlex.split(command[1])], check=True)
    assert command[2] == f"part{which + 1}"
    paths[which] = "NEW.csv"
    source = quiet(paths)
    np.testing.assert_array_equal(whole(source), every[source.feature_names()])
