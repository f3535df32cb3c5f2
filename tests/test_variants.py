"""Variants of VCF Zarr: FILTER, several alternative alleles, contigs and what is beside them."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr
from commands import run, told
from stores import draw_genotypes, write, write_vcz

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.results.files import load
from dhsic.sources.opening import open_source
from dhsic.sources.variants import FilterColumn, Multiallelic

M = 24
FILTERS = ["PASS", "q10", ".", "q10;s50", "PASS", "PASS", "s50", "PASS"]
ALTS = ["C", "C,G", "C", "C,G,T", "C", "C,<DEL>", "C", "C"]
PASSED = [j for j, name in enumerate(FILTERS * 3) if name == "PASS"]


# -- what bio2zarr makes of a VCF --------------------------------------------------------------


def write_vcf(path, which):
    """Variants of every FILTER; the calls of variant j are always the same."""
    lines = [
        "##fileformat=VCFv4.3",
        "##contig=<ID=chr1>",
        '##FILTER=<ID=q10,Description="low quality">',
        '##FILTER=<ID=s50,Description="few samples">',
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">',
        "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t"
        + "\t".join(f"S{i}" for i in range(M)),
    ]
    for j in which:
        k = j % len(FILTERS)
        alleles = np.random.default_rng(j).integers(0, len(ALTS[k].split(",")) + 1, (M, 2))
        calls = "\t".join(f"{a}/{b}" for a, b in alleles)
        lines.append(f"chr1\t{10 * j + 5}\trs{j}\tA\t{ALTS[k]}\t.\t{FILTERS[k]}\t.\tGT\t{calls}")
    path.write_text("\n".join(lines) + "\n")


def converted(vcf, path):
    pytest.importorskip("bio2zarr.vcf").convert([vcf], path, variants_chunk_size=5)
    return path


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A VCF as VCF Zarr, and the one of those of its records that `bcftools view -f PASS` keeps."""
    folder = tmp_path_factory.mktemp("filters")
    write_vcf(folder / "all.vcf", range(3 * len(FILTERS)))
    write_vcf(folder / "passed.vcf", PASSED)
    out = [converted(folder / f"{name}.vcf", folder / f"{name}.vcz") for name in ("all", "passed")]
    for path in out:
        group = zarr.open_group(path, mode="a")
        genes = [f"g{position // 60}" for position in group["variant_position"][...]]
        write(group, "sample_trait", (np.arange(M) % 2).astype("i1"), ("samples",))
        write(group, "variant_gene", np.array(genes, object), ("variants",))
    return out


def test_inspect_counts_filters_and_alternatives(stores):
    facts = json.loads(run("inspect", stores[0], "--json").stdout)
    by_id = {"q10": 6, "s50": 6}
    assert facts["filters"] == {"pass": 12, "other": 9, "none": 3, "by_id": by_id}
    assert facts["n_multiallelic"] == 9
    assert (facts["n_features"], facts["n_features_filtered"]) == (24, 0)
    text = run("inspect", stores[0]).stdout
    assert "12 PASS, 9 other (q10 6, s50 6), 3 unset ('.')" in text
    assert "9 variants with several alternative alleles" in text
    facts = json.loads(run("inspect", stores[0], "--pass-only", "--json").stdout)
    assert (facts["n_features"], facts["n_features_filtered"]) == (12, 12)
    assert facts["filters"]["other"] == 9
    assert "; 12 excluded" in run("inspect", stores[0], "--pass-only").stdout


def test_a_store_without_filters_says_nothing_of_them(tmp_path):
    write_vcz(tmp_path / "x.vcz", draw_genotypes(6, 4), n_alleles=2)
    facts = json.loads(run("inspect", tmp_path / "x.vcz", "--json").stdout)
    assert (facts["filters"], facts["n_multiallelic"]) == (None, 0)
    zarr.create_array(tmp_path / "m.zarr", data=np.eye(5))
    facts = json.loads(run("inspect", tmp_path / "m.zarr", "--sample-dim", 0, "--json").stdout)
    assert (facts["filters"], facts["n_multiallelic"]) == (None, None)


def test_reference_calls_without_reads_are_noted(tmp_path):
    genotypes = np.zeros((4, 6, 2), "i1")
    genotypes[:, :2, 0], genotypes[1, 5] = 1, -1
    group = write_vcz(tmp_path / "x.vcz", genotypes, n_alleles=2)
    reads = np.full((4, 6), 9, "i2")
    reads[0, 1:4] = reads[1, 4:] = 0
    reads[3] = 0  # nothing was counted
    dims = ("variants", "samples")
    write(group, "call_DP", reads, dims)
    assert "3 reference calls (0/0) in the first chunk have no read" in " ".join(
        run("inspect", tmp_path / "x.vcz").stdout.split()
    )
    write(group, "call_GQ", np.where(np.arange(6) == 3, 7, np.zeros((4, 6), "i2")), dims)
    said = " ".join(run("inspect", tmp_path / "x.vcz").stdout.split())
    assert "2 reference calls (0/0) in the first chunk have no read (call_DP is 0)" in said
    write(group, "call_DS", genotypes.sum(axis=2).astype("f4"), dims)
    assert "have no read" not in run("inspect", tmp_path / "x.vcz").stdout


SELECT = ("--target", "sample_trait", "--threads", "1", "--no-progress")


def test_select_says_what_takes_part(stores):
    said = told(run("select", stores[0], *SELECT))
    assert "variants with any FILTER are used: 12 PASS, 9 other (q10 6, s50 6), 3 unset" in said
    assert "--pass-only keeps only PASS" in said
    assert "9 variants of the store with several alternative alleles" in said
    said = told(run("select", stores[1], *SELECT))
    assert "FILTER" not in said
    said = told(run("select", stores[0], *SELECT, "--pass-only"))
    assert "12 variants excluded by FILTER: 12 PASS, 9 other" in said


@pytest.mark.parametrize("more", [(), ("--groups", "variant_gene"), ("--method", "fohsic")])
def test_pass_only_ranks_what_bcftools_would_keep(stores, tmp_path, more):
    out = [tmp_path / "all.zarr", tmp_path / "passed.zarr"]
    run("select", stores[0], *SELECT, *more, "-n", 3, "--pass-only", "--out", out[0])
    run("select", stores[1], *SELECT, *more, "-n", 3, "--out", out[1])
    found, expected = (load(path) for path in out)
    for name in ("rank", "score", "feature", "variant_position"):
        assert found[name].to_numpy().tolist() == expected[name].to_numpy().tolist()
    assert found["stored_feature"].to_numpy().tolist() == PASSED
    assert found.attrs["n_features"] == len(PASSED)
    assert found.attrs["n_features_filtered"] == 24 - len(PASSED)


def test_positions_that_are_shown_are_those_in_the_store(stores):
    shown = json.loads(run("select", stores[0], *SELECT, "--pass-only", "--json").stdout)
    names = {f"rs{row['index']}" for row in shown["selected"]}
    assert names == {row["name"] for row in shown["selected"]} == {f"rs{j}" for j in PASSED}


def test_a_plan_is_of_what_passed(stores):
    told_of = json.loads(run("plan", stores[0], *SELECT, "--pass-only", "--json").stdout)
    assert told_of["data"]["n_features"] == len(PASSED)


def test_a_run_is_resumed_with_what_passed(stores, tmp_path):
    out = tmp_path / "r.zarr"
    options = ("--pass-only", "--checkpoint", tmp_path / "ck", "--out", out)
    run("select", stores[0], *SELECT, *options)
    first = load(out)
    run("resume", tmp_path / "ck", "--force")
    assert load(out)["rank"].equals(first["rank"])
    message = run("select", stores[0], *SELECT, "--checkpoint", tmp_path / "ck", code=4).stderr
    assert "another" in message


def test_a_detached_run_takes_what_passed(stores, client, tmp_path):
    y = dhsic.read_target(stores[0], "sample_trait")
    expected = dhsic.select(open_source(stores[0], pass_only=True), y, n_features_to_select=3)
    assert expected.attrs["n_features_filtered"] == 12
    place = tmp_path / "run"
    with dhsic.submit(
        str(stores[0]),
        "sample_trait",
        checkpoint=place,
        client=client,
        pass_only=True,
        n_features_to_select=3,
    ) as sent:
        found = sent.result()
    assert found["rank"].equals(expected["rank"])
    assert found.attrs["n_features_filtered"] == 12


def test_planted_variants_are_found_by_their_place_in_the_store(tmp_path):
    path = tmp_path / "g.vcz"
    run("simulate", path, "--samples", 60, "--variants", 1200, "--causal", 3, "--pairs", 0)
    planted = dhsic.simulation.truth.read_truth(tmp_path / "g.truth.tsv").variant_index
    group = zarr.open_group(path, mode="a")
    passed = np.arange(1200) % 2 == 1
    passed[planted[:2]] = True, False
    write(group, "variant_filter", passed[:, None], ("variants", "filters"))
    write(group, "filter_id", np.array(["PASS"], object), ("filters",))
    more = ("-n", 1200, "--pass-only", "--truth", tmp_path / "g.truth.tsv", "--json")
    shown = json.loads(run("select", path, *SELECT, *more).stdout)
    exactly = {row["index"] for row in shown["selected"] if row["planted"] == "additive"}
    assert exactly == {j for j in planted.tolist() if passed[j]}
    assert shown["recovered"]["planted"] == 3
    assert shown["recovered"]["recovered"] == 3  # the other one by its neighbours


# -- what may be wrong with filters ------------------------------------------------------------


def filtered(path, filters, ids, **options):
    group = write_vcz(path, draw_genotypes(6, 4))
    write(group, "variant_filter", np.array(filters), ("variants", "filters"), **options)
    write(group, "filter_id", np.array(ids, object), ("filters",))
    return group


def test_other_features_have_no_filter(tmp_path):
    group = filtered(tmp_path / "x", [[False, True]] * 6, ["PASS", "q"])
    write(group, "expression", np.random.default_rng(0).random((4, 9)), ("samples", "genes"))
    write(group, "trait", np.array([0, 1, 0, 1]), ("samples",))
    more = ("--variable", "expression", "--target", "trait", "-n", 2)
    assert "FILTER" not in told(run("select", tmp_path / "x", *more))
    message = told(run("select", tmp_path / "x", *more, "--pass-only", code=3))
    assert "shape (6, 2), but there are 9 features" in message


def test_select_fit_and_plan_take_it(stores):
    path, passed = map(str, stores)
    options = {"n_features_to_select": 3}
    found = dhsic.select(
        path, "sample_trait", pass_only=True, feature_groups="variant_gene", **options
    )
    expected = dhsic.select(passed, "sample_trait", feature_groups="variant_gene", **options)
    assert found["rank"].to_numpy().tolist() == expected["rank"].to_numpy().tolist()
    assert dhsic.plan(path, "sample_trait", pass_only=True).data.n_features == len(PASSED)
    with pytest.raises(InputError, match="Leave out pass_only"):
        dhsic.BAHSIC(2).fit(np.eye(4), [0, 1, 0, 1], pass_only=True)


def test_what_passes_in_a_group_a_dataset_and_an_array(tmp_path):
    has = [[True, False], [False, False], [False, True], [True, False], [True, True], [False, True]]
    group = filtered(tmp_path / "x", has, ["PASS", "q"])
    dataset = xr.open_zarr(tmp_path / "x", consolidated=False, mask_and_scale=False)
    for X in (tmp_path / "x", group, dataset, dataset.compute(), group["call_genotype"]):
        source = open_source(X, pass_only=True)
        assert source.features.tolist() == [0, 3, 4]
        assert source.feature_names().tolist() == ["rs0", "rs3", "rs4"]
    filters = FilterColumn.of(group, 6)
    assert (filters.n_failed, filters.n_unset, filters.by_id) == (2, 1, {"q": 3})


def test_where_it_is_not_known_what_passes(tmp_path):
    write_vcz(tmp_path / "x", draw_genotypes(6, 4))
    for X in (tmp_path / "x", np.eye(4), xr.DataArray(np.eye(4), dims=("samples", "genes"))):
        with pytest.raises(InputError, match=r"not contain variant_filter .* Leave out pass_only"):
            open_source(X, pass_only=True)
    with pytest.raises(InputError, match="already open"):
        open_source(open_source(np.eye(4)), pass_only=True)
    message = run("inspect", tmp_path / "x", "--pass-only", code=2).stderr
    assert "Leave out --pass-only." in message


@pytest.mark.parametrize("ids", [["PASS", "q"], ["q", "s"]])
def test_nothing_passes(tmp_path, ids):
    filtered(tmp_path / "x", [[False, True], [False, False]] * 3, ids)
    with pytest.raises(
        InputError, match=r"None of the 6 variants has FILTER PASS: 0 PASS, 3 other.*3 unset"
    ):
        open_source(tmp_path / "x", pass_only=True)


def test_filters_of_other_variants_are_damage(tmp_path):
    filtered(tmp_path / "x", [[True, False]] * 5, ["PASS", "q"])
    with pytest.raises(DataError, match=r"shape \(5, 2\), but there are 6 features and 2 filters"):
        open_source(tmp_path / "x", pass_only=True)
    open_source(tmp_path / "x")


def test_a_lost_chunk_of_filters_lets_nothing_go_unsaid(tmp_path):
    filtered(tmp_path / "x", [[True, False]] * 6, ["PASS", "q"], chunks=(2, 2))
    (tmp_path / "x" / "variant_filter" / "c" / "1" / "0").unlink()
    with pytest.raises(DataError, match="missing_chunks='fill'"):
        open_source(tmp_path / "x", pass_only=True)
    filled = open_source(tmp_path / "x", pass_only=True, missing_chunks="fill")
    assert filled.features.tolist() == [0, 1, 4, 5]


def test_alternatives_are_counted_by_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("dhsic.sources.variants.AT_A_TIME", 3)
    group = zarr.open_group(tmp_path / "x", mode="w")
    alleles = [["A", "C", "", ""], ["A", "C", "G", ""], ["A", "", "", ""], ["A", "C", "G", "T"]] * 5
    write(group, "variant_allele", np.array(alleles, object), ("variants", "alleles"),
          chunks=(2, 4))  # fmt: skip
    assert Multiallelic.of(group) == (10, 0)


# -- contigs and what else is beside -----------------------------------------------------------


def test_a_missing_contig_is_not_the_last_one(tmp_path):
    group = write_vcz(tmp_path / "x", draw_genotypes(6, 4), ids=["."] * 6)
    group["variant_contig"][1] = -1
    dataset = xr.open_zarr(tmp_path / "x", consolidated=False, mask_and_scale=False)
    for X in (tmp_path / "x", dataset):
        source = open_source(X)
        assert source.feature_names()[:2].tolist() == ["1:5", ".:15"]
        assert source.feature_coords()["variant_contig"][:3].tolist() == ["1", ".", "1"]


@pytest.mark.parametrize("index", [2, 99, -2])
def test_a_contig_that_there_is_not_is_damage(tmp_path, index):
    group = write_vcz(tmp_path / "x", draw_genotypes(6, 4))
    group["variant_contig"][4] = index
    dataset = xr.open_zarr(tmp_path / "x", consolidated=False, mask_and_scale=False)
    for X in (tmp_path / "x", dataset):
        with pytest.raises(
            DataError, match=rf"{index} for variant 4 .* 2 contigs, with indices 0 to 1"
        ):
            open_source(X)
    assert run("inspect", tmp_path / "x", code=3).stderr.startswith("Error: variant_contig of ")


BESIDE = {
    "variant_position": ("variants",),
    "variant_contig": ("variants",),
    "variant_id": ("variants",),
    "variant_allele": ("variants", "alleles"),
    "sample_id": ("samples",),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_describes_others_is_damage(tmp_path, name):
    group = write_vcz(tmp_path / "x", draw_genotypes(6, 4))
    values = group[name][...][:-1]
    del group[name]
    write(group, name, values, BESIDE[name])
    with pytest.raises(DataError, match=rf"{name} of .* has shape .{len(values)},.*write it"):
        open_source(tmp_path / "x")


@pytest.mark.parametrize("kind", ["path", "Dataset"])
def test_only_variants_that_ids_do_not_name_are_named_by_place(kind, tmp_path):
    """Two ids that repeat, or one that is missing, renamed all variants."""
    d = 12
    ids = [f"rs{j}" for j in range(d)]
    ids[2] = ids[7] = "rs1"  # three of them
    ids[4], ids[5] = ".", ""
    write_vcz(tmp_path / "x.vcz", draw_genotypes(d, 6), ids=ids)

    def names():
        data = tmp_path / "x.vcz"
        if kind == "Dataset":
            data = xr.open_zarr(data, mask_and_scale=False, consolidated=False).load()
        return open_source(data).feature_names().tolist()

    contigs = ["1"] * (d // 2) + ["X"] * (d // 2)
    expected = [
        f"{contigs[j]}:{10 * j + 5}" if j in (1, 2, 4, 5, 7) else f"rs{j}" for j in range(d)
    ]
    assert names() == expected
    group = zarr.open_group(tmp_path / "x.vcz", mode="a")
    group["variant_id"][...] = np.array(
        ["1:15" if j == 0 else v for j, v in enumerate(ids)], object
    )
    by_place = [f"{c}:{10 * j + 5}" for j, c in enumerate(contigs)]
    assert names() == by_place  # an id is the place of another variant
