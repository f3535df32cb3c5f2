"""Simulated genotypes: what they hold, that they are stored safely, and that they repeat."""

import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

from dhsic.errors import InputError
from dhsic.simulation import simulate_genotypes
from dhsic.simulation.haplotypes import SEGMENT, Cohort, Haplotypes
from dhsic.simulation.truth import TraitPlan, plant, read_truth, truth_path

M, D = 60, 1500


def simulate(path, **changes):
    simulate_genotypes(path, **{"n_samples": M, "n_variants": D, "seed": 3} | changes)
    return zarr.open_group(path, mode="r")


def arrays(group):
    return {name: array[...] for name, array in group.arrays()}


def correlations(rows):
    """Correlation of the rows that vary."""
    rows = rows[rows.std(axis=1) > 0].astype(float)
    return np.corrcoef(rows)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("simulated") / "g.vcz"
    return path, simulate(path)


@pytest.fixture(scope="module")
def dosage():
    """Complete dosages of a cohort large enough for statistics, and its populations."""
    cohort = Cohort(400, 3, 0.0, 5)
    return Haplotypes(cohort).dosage(0, 4 * SEGMENT), cohort.population


EXPECTED = {
    "call_genotype": (("variants", "samples", "ploidy"), (D, M, 2), "int8"),
    "variant_contig": (("variants",), (D,), "int16"),
    "variant_position": (("variants",), (D,), "int32"),
    "variant_id": (("variants",), (D,), "StringDType()"),
    "variant_allele": (("variants", "alleles"), (D, 2), "StringDType()"),
    "contig_id": (("contigs",), (3,), "StringDType()"),
    "sample_id": (("samples",), (M,), "StringDType()"),
    "sample_population": (("samples",), (M,), "int8"),
    "sample_trait": (("samples",), (M,), "int8"),
}


def test_arrays_are_those_of_vcf_zarr(store):
    _, group = store
    found = {
        name: (array.metadata.dimension_names, array.shape, str(array.dtype))
        for name, array in group.arrays()
    }
    assert found == EXPECTED
    assert group.attrs["vcf_zarr_version"] == "0.4"
    assert group.attrs["source"].startswith("dhsic-")


def test_values_are_those_of_vcf_zarr(store):
    _, group = store
    a = arrays(group)
    assert set(np.unique(a["call_genotype"])) == {-1, 0, 1}
    same_contig = np.diff(a["variant_contig"]) == 0
    assert np.all(np.diff(a["variant_contig"]) >= 0)
    assert np.all(np.diff(a["variant_position"])[same_contig] > 0)
    assert np.unique(a["variant_id"]).size == D
    assert np.all(a["variant_allele"][:, 0] != a["variant_allele"][:, 1])
    assert np.isin(a["variant_allele"], list("ACGT")).all()


def test_xarray_opens_it(store):
    path, group = store
    with xr.open_zarr(path, mask_and_scale=False, consolidated=False, chunks=None) as ds:
        assert dict(ds.sizes) == {
            "variants": D, "samples": M, "ploidy": 2, "alleles": 2, "contigs": 3,
        }  # fmt: skip
        assert ds["call_genotype"].dtype == np.int8
        assert np.array_equal(ds["sample_trait"], group["sample_trait"][...])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("trait", ["binary", "quantitative"])
def test_fill_values_lie_outside_the_domain_and_every_chunk_is_there(tmp_path, zarr_format, trait):
    group = simulate(tmp_path / "g.vcz", zarr_format=zarr_format, trait=trait)
    for name, array in group.arrays():
        assert array.nchunks_initialized == array.nchunks, name
        if array.dtype.kind == "i":
            assert array.fill_value == -1, name
        if array.dtype.kind == "f":
            assert np.isnan(array.fill_value), name
    assert group["sample_trait"].dtype == ("int8" if trait == "binary" else "float64")


def test_format_2_holds_the_same(tmp_path, store):
    group = simulate(tmp_path / "g.vcz", zarr_format=2)
    assert group.metadata.zarr_format == 2
    assert group["call_genotype"].attrs["_ARRAY_DIMENSIONS"] == ["variants", "samples", "ploidy"]
    for name, values in arrays(store[1]).items():
        assert np.array_equal(values, group[name][...].astype(values.dtype)), name


@pytest.mark.parametrize("width", [7, 100, 512, 1500])
def test_chunks_change_nothing(tmp_path, store, width):
    group = simulate(tmp_path / "g.vcz", chunk_variants=width)
    assert group["call_genotype"].chunks == (width, M, 2)
    for name, values in arrays(store[1]).items():
        assert np.array_equal(values, group[name][...]), name


def test_another_seed_is_another_store(tmp_path, store):
    other = simulate(tmp_path / "g.vcz", seed=4)["call_genotype"][...]
    assert np.mean(other != store[1]["call_genotype"][...]) > 0.05


def test_a_variant_depends_on_its_index_not_on_how_many_there_are():
    cohort = Cohort(30, 2, 0.1, 0)
    whole = Haplotypes(cohort).genotypes(0, 1100)
    assert np.array_equal(whole[500:530], Haplotypes(cohort).genotypes(500, 530))


def test_plain_layout_is_the_sum_of_the_alleles(tmp_path, store):
    plain = simulate(tmp_path / "g.zarr", layout="plain")["dosage"]
    calls = store[1]["call_genotype"][...]
    expected = np.where(calls.min(axis=2) < 0, -1, calls.sum(axis=2))
    assert plain.metadata.dimension_names == ("variants", "samples")
    assert np.array_equal(plain[...], expected)


def test_linkage_decays_and_ends_with_the_segment(dosage):
    X, _ = dosage
    C = correlations(X) ** 2
    near, middle, far = (np.mean(np.diag(C, lag)) for lag in (1, 20, 300))
    assert near > 0.15
    assert near > 2 * middle > 4 * far
    assert far < 0.01


def test_populations_are_the_first_direction(dosage):
    X, population = dosage
    X = X - X.mean(axis=1, keepdims=True)
    scores = np.linalg.svd(X, full_matrices=False)[2][:2]  # (2, m)
    centres = np.stack([scores[:, population == k].mean(axis=1) for k in range(3)])
    nearest = np.linalg.norm(scores.T[:, None] - centres, axis=2).argmin(axis=1)
    assert np.mean(nearest == population) > 0.99


def test_most_alleles_are_rare(dosage):
    X, _ = dosage
    frequency = X.mean(axis=1) / 2
    minor = np.minimum(frequency, 1 - frequency)
    assert 0.05 < np.median(minor) < 0.2
    assert np.mean(minor > 0.2) > 0.15
    assert np.mean(minor == 0) < 0.01


@pytest.mark.parametrize("missing", [0.0, 0.03])
def test_missing_rate(missing):
    calls = Haplotypes(Cohort(200, 1, missing, 0)).genotypes(0, 1000)
    lost = calls < 0
    assert np.array_equal(lost[..., 0], lost[..., 1])
    assert np.mean(lost) == pytest.approx(missing, rel=0.1)


def test_trait_is_balanced(store):
    assert store[1]["sample_trait"][...].mean() == 0.5


def explained(cohort, planted, n_additive):
    """R2 of the liability on the planted terms, and on each planted variant alone."""
    haplotypes = Haplotypes(cohort)
    x = np.stack([haplotypes.dosage(i, i + 1, complete=True)[0] for i in planted.site]).astype(
        float
    )
    x -= x.mean(axis=1, keepdims=True)
    products = x[n_additive::2] * x[n_additive + 1 :: 2]
    design = np.vstack([np.ones(cohort.n_samples), x, products]).T
    rest = planted.liability - design @ np.linalg.lstsq(design, planted.liability)[0]
    alone = [np.corrcoef(row, planted.liability)[0, 1] ** 2 for row in x]
    return 1 - rest.var(), np.array(alone)


@pytest.mark.parametrize("heritability", [0.0, 0.4, 0.8, 1.0])
def test_heritability(heritability):
    cohort = Cohort(1500, 3, 0.005, 11)
    planted = plant(cohort, 20_000, TraitPlan(8, 2, heritability, 0.0))
    total, alone = explained(cohort, planted, 8)
    assert total == pytest.approx(heritability, abs=0.05)
    assert planted.liability.mean() == pytest.approx(0, abs=1e-12)
    assert planted.liability.var() == pytest.approx(1)
    if heritability >= 0.4:
        assert np.median(alone[:8]) > 4 * alone[8:].max()  # a pair is not seen one by one


def test_planted_variants_are_common_and_apart():
    cohort = Cohort(300, 3, 0.005, 2)
    planted = plant(cohort, 20_000, TraitPlan(10, 2, 0.8, 0.0))
    frequency = [
        Haplotypes(cohort).dosage(i, i + 1, complete=True).mean() / 2 for i in planted.site
    ]
    assert np.all(np.minimum(frequency, 1 - np.array(frequency)) > 0.2)
    assert np.diff(np.sort(planted.site)).min() > SEGMENT


def test_stratification_moves_the_populations():
    cohort = Cohort(900, 3, 0.0, 1)
    plans = (TraitPlan(2, 0, 0.3, stratification) for stratification in (0.0, 1.0))
    between = [
        np.var([planted.liability[cohort.population == k].mean() for k in range(3)])
        for planted in (plant(cohort, 3000, plan) for plan in plans)
    ]
    assert between[1] > 0.3 > 3 * between[0]


def test_truth_table_round_trip(tmp_path):
    path = tmp_path / "g.vcz"
    truth = simulate_genotypes(path, n_samples=M, n_variants=D)
    again = read_truth(truth_path(path))
    assert truth_path(path) == tmp_path / "g.truth.tsv"
    pd.testing.assert_frame_equal(again.frame(), truth.frame(), rtol=1e-13)
    group = zarr.open_group(path, mode="r")
    assert np.array_equal(group["variant_id"][...][truth.variant_index], truth.variant_id)
    assert np.array_equal(group["variant_position"][...][truth.variant_index], truth.position)
    pairs = truth.frame()[lambda t: t["kind"] == "pair"].set_index("variant_index")["partner"]
    assert dict(pairs) == {b: a for a, b in pairs.items()}
    assert (truth.kind == "additive").sum() == 10
    assert len(pairs) == 4


def test_nothing_planted(tmp_path):
    truth = simulate_genotypes(
        tmp_path / "g.vcz", n_samples=10, n_variants=1, n_causal=0, n_pairs=0
    )
    assert len(truth.frame()) == len(read_truth(tmp_path / "g.truth.tsv").frame()) == 0


def test_a_run_that_stops_half_way_leaves_no_store(tmp_path):
    def stop(_):
        raise KeyboardInterrupt

    path = tmp_path / "g.vcz"
    with pytest.raises(KeyboardInterrupt):
        simulate(path, chunk_variants=100, on_block=stop)
    assert list(tmp_path.iterdir()) == []


def test_blocks_are_reported(tmp_path):
    written = []
    simulate(tmp_path / "g.vcz", chunk_variants=200, on_block=written.append)
    assert sum(written) == D
    assert len(written) == 4  # stretches of 400: the whole chunks that a segment holds


def test_an_existing_store_is_replaced_only_when_asked(tmp_path):
    path = tmp_path / "g.vcz"
    simulate(path)
    with pytest.raises(InputError, match="exists already"):
        simulate(path)
    assert simulate(path, n_samples=20, overwrite=True)["sample_id"].shape == (20,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_samples": 9},
        {"n_variants": 100},
        {"n_causal": -1},
        {"n_populations": 0},
        {"n_populations": 101, "n_samples": 200},
        {"missing": 1.0},
        {"missing": float("nan")},
        {"heritability": 1.5},
        {"stratification": -1.0},
        {"seed": -1},
        {"trait": "other"},
        {"layout": "other"},
        {"zarr_format": 4},
        {"contigs": 0},
        {"chunk_variants": 0},
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        simulate(tmp_path / "g.vcz", **wrong)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from dhsic.simulation import simulate_genotypes
simulate_genotypes(sys.argv[1], n_samples=50, n_variants=3000, chunk_variants=256,
                   on_block=lambda _: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_killed_run_leaves_no_store_and_the_next_clears_up(tmp_path):
    path = tmp_path / "g.vcz"
    run = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == [".g.vcz.partial"]
    simulate(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.truth.tsv", "g.vcz"]


MEASURED = """
import sys
from dhsic.memory import peak_bytes
from dhsic.simulation import simulate_genotypes
simulate_genotypes(sys.argv[1], n_samples=2000, n_variants=int(sys.argv[2]))
print(peak_bytes() // 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_variants(tmp_path):
    def peak(n_variants):
        command = [sys.executable, "-c", MEASURED, str(tmp_path / str(n_variants)), str(n_variants)]
        return int(subprocess.run(command, check=True, capture_output=True).stdout)

    assert peak(400_000) < peak(50_000) + 150 * 1024  # KiB; the calls would be 1.6 GB
