"""Results: what they hold, and that they come back from disk as they were, or not at all."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr
from commands import run

import dhsic
from dhsic.errors import InputError
from dhsic.results.files import load, save
from dhsic.results.schema import FORMAT, ranking, to_dataset
from dhsic.results.views import selected_features
from dhsic.runtime.threads import Threads
from dhsic.selection.conductor import execute
from dhsic.selection.run import SelectionRun
from dhsic.simulation import simulate_genotypes
from dhsic.sources import Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.opening import open_source

M, D, CONSTANT = 40, 30, (4, 17)


@pytest.fixture(scope="module")
def outcome():
    """Outcome of a run over data with names, missing values and constant features."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((M, D))
    X[:, CONSTANT] = 1.5
    X[3, 7] = X[5, 7] = np.nan
    names = Names(np.array([f"f{j}" for j in range(D)], dtype=object))
    source = ArraySource(X, names=names)
    return execute(SelectionRun(dhsic.BAHSIC(step=0.3), source, X[:, 2] > 0, Threads(1)))


@pytest.fixture(scope="module")
def result(outcome):
    return to_dataset(outcome, 6)


@pytest.fixture
def saved(result, tmp_path):
    path = tmp_path / "result.zarr"
    save(result, path)
    return path


def test_ranks_are_a_permutation_that_begins_with_the_last_to_leave(outcome, result):
    ranks = result["rank"].to_numpy()
    assert sorted(ranks) == list(range(1, D + 1))
    assert ranks[outcome.worst_first[-1]] == 1
    assert set(ranks[list(CONSTANT)]) == {D - 1, D}
    np.testing.assert_array_equal(ranking(np.array([2, 0, 1])), [2, 1, 3])


def test_every_feature_says_how_it_fared(result):
    assert int(result["selected"].sum()) == 6
    np.testing.assert_array_equal(result["selected"], result["rank"] <= 6)
    constant = result["constant"].to_numpy()
    assert np.flatnonzero(constant).tolist() == list(CONSTANT)
    np.testing.assert_array_equal(np.isnan(result["score"]), constant)
    np.testing.assert_array_equal(result["round_removed"] == 0, constant)
    assert result["n_missing"].to_numpy()[7] == 2
    assert int(result["n_missing"].sum()) == 2


def test_history_has_a_row_per_round(result):
    n, gone = result["round_n_features"].to_numpy(), result["round_n_removed"].to_numpy()
    assert n[0] == D - len(CONSTANT)
    assert gone.sum() == n[0]
    np.testing.assert_array_equal(n[1:], n[:-1] - gone[:-1])
    np.testing.assert_allclose(result["round_sigma"], 1 / (2 * n))
    assert int(result["round_removed"].max()) == result.sizes["rounds"]


def test_selected_features_come_best_first(result):
    chosen = selected_features(result)
    assert chosen["rank"].to_numpy().tolist() == [1, 2, 3, 4, 5, 6]
    assert "f2" in chosen["feature"].to_numpy()[:2].tolist()


def test_attributes_say_what_was_done(result):
    attrs = result.attrs
    assert attrs["dhsic_format"] == FORMAT
    assert (attrs["n_samples"], attrs["n_features"], attrs["n_selected"]) == (M, D, 6)
    assert (attrs["n_constant"], attrs["n_missing_values"]) == (2, 2)
    assert json.loads(attrs["parameters"])["step"] == 0.3
    assert json.loads(attrs["parameters"])["kernel"] == "gaussian"
    assert set(json.loads(attrs["versions"])) >= {"dhsic", "numpy", "zarr"}
    assert attrs["label_kernel_used"] == "balanced"
    assert all(variable.attrs["long_name"] for variable in result.data_vars.values())


def test_what_is_saved_comes_back(result, saved):
    again = load(saved)
    assert again.attrs == result.attrs
    assert set(again.variables) == set(result.variables)
    assert set(again.coords) == set(result.coords)
    for name, variable in result.variables.items():
        values = again[name].to_numpy()
        if variable.dtype.kind in "OUT":
            assert values.astype(object).tolist() == variable.to_numpy().tolist()
        else:
            assert values.dtype == variable.dtype
            np.testing.assert_array_equal(values, variable.to_numpy())
        assert again[name].dims == variable.dims
        assert again[name].attrs == variable.attrs


def test_xarray_opens_it_as_it_is(result, saved):
    with xr.open_zarr(saved) as opened:  # a warning would be an error
        np.testing.assert_array_equal(opened["rank"], result["rank"])
        np.testing.assert_array_equal(opened["score"], result["score"])
        assert opened["feature"].to_numpy()[:2].tolist() == ["f0", "f1"]


def arrays_of(path):
    return sorted(name for name, _ in zarr.open_group(path, mode="r").arrays())


def test_every_array_ends_with_crc32c_and_has_all_its_chunks(saved):
    group = zarr.open_group(saved, mode="r")
    assert group.metadata.zarr_format == 3
    for _, array in group.arrays():
        assert array.metadata.codecs[-1].to_dict()["name"] == "crc32c"
        assert array.nchunks_initialized == array.nchunks


def test_any_flipped_byte_is_an_error(saved):
    for name in arrays_of(saved):
        chunk = next(p for p in (saved / name / "c").rglob("*") if p.is_file())
        whole = chunk.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 1):
            chunk.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            with pytest.raises(Exception, match=r".+"):
                load(saved)
        chunk.write_bytes(whole)
    load(saved)


def test_a_result_is_not_overwritten_unless_asked(result, saved):
    with pytest.raises(InputError, match="exists already"):
        save(result, saved)
    save(result.assign_attrs(note="second"), saved, overwrite=True)
    assert load(saved).attrs["note"] == "second"
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_one_folder_is_made_to_write_in(result, tmp_path):
    save(result, tmp_path / "runs" / "today.zarr")
    with pytest.raises(
        InputError, match=r"today.zarr' cannot be created in .*runs, because neither"
    ):
        save(result, tmp_path / "more" / "runs" / "today.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def plain_group(**arrays):
    """A group whose arrays have no names of dimensions."""
    group = zarr.create_group({})
    for name, values in arrays.items():
        group.create_array(name, data=np.asarray(values))
    return group


def names_of(group):
    source = open_source(group, variable="dosage", sample_dim=1)
    features, samples = source.feature_names(), source.sample_names()
    return (
        None if features is None else features.tolist(),
        None if samples is None else samples.tolist(),
        dict(source.feature_coords()),
    )


DOSAGE = np.arange(12, dtype="i1").reshape(4, 3) % 3
IDS, PEOPLE = np.array(list("abcd"), "U1"), np.array(list("xyz"), "U1")


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ({"variant_id": IDS, "sample_id": PEOPLE}, (list("abcd"), list("xyz"))),
        ({"gene_names": IDS, "cells": PEOPLE}, (list("abcd"), list("xyz"))),
        ({"gene_id": IDS, "gene_name": IDS[::-1]}, (list("abcd"), None)),
        ({"gene_name": IDS, "feature_name": IDS[::-1]}, (None, None)),
        ({"gene_id": PEOPLE, "sample_id": IDS}, (None, None)),
        ({"gene_biotype": IDS, "sample_group": PEOPLE}, (None, None)),
        ({"gene_id": np.ones(4), "contig_id": IDS}, (None, None)),
    ],
)
@pytest.mark.filterwarnings("ignore:The data type")
def test_arrays_beside_a_plain_matrix_name_its_axes(beside, expected):
    group = plain_group(dosage=DOSAGE, **beside)
    assert names_of(group) == (*expected, {})
    along = {4: "loci", 3: "people"}
    dataset = xr.Dataset(
        {"dosage": (tuple(along.values()), DOSAGE)}
        | {name: (along[len(values)], values) for name, values in beside.items()}
    )
    source = open_source(dataset, variable="dosage", sample_dim="people")
    found = (source.feature_names(), source.sample_names())
    assert tuple(None if v is None else v.tolist() for v in found) == expected


@pytest.mark.filterwarnings("ignore:The data type")
def test_variants_beside_a_plain_matrix_keep_their_places():
    beside = {
        "variant_position": [5, 6, 7, 8],
        "variant_contig": [0, 0, 1, 1],
        "contig_id": np.array(["1", "X"]),
        "sample_id": PEOPLE,
    }
    features, samples, coords = names_of(plain_group(dosage=DOSAGE, **beside))
    assert features == ["1:5", "1:6", "X:7", "X:8"]
    assert samples == list("xyz")
    assert coords["variant_contig"].tolist() == ["1", "1", "X", "X"]
    turned = plain_group(dosage=DOSAGE.T, **beside)
    assert open_source(turned, variable="dosage", sample_dim=0).feature_names().tolist() == features


def test_coordinates_of_variants_travel_with_the_result(tmp_path):
    simulate_genotypes(tmp_path / "g.vcz", n_samples=30, n_variants=600, n_causal=2, n_pairs=0)
    source = open_source(tmp_path / "g.vcz")
    y = zarr.open_group(tmp_path / "g.vcz", mode="r")["sample_trait"][:]
    result = to_dataset(execute(SelectionRun(dhsic.LinearHSIC(), source, y, Threads(1))), 9)
    of_variants = ("contig", "position", "id", "ref", "alt")
    assert set(result.coords) == {"feature", *(f"variant_{name}" for name in of_variants)}
    save(result, tmp_path / "r.zarr")
    again = load(tmp_path / "r.zarr")
    assert set(again.coords) == set(result.coords)
    for name in result.coords:
        assert again[name].to_numpy().tolist() == result[name].to_numpy().tolist()
    assert again["variant_contig"].to_numpy()[0] == "1"


def test_asking_for_more_than_there_is_selects_all(outcome):
    result = to_dataset(outcome, 1000)
    assert int(result["selected"].sum()) == D == result.attrs["n_selected"]


def test_a_result_is_no_data_to_inspect(tmp_path):
    X, y = np.random.default_rng(1).standard_normal((40, 30)), np.arange(40) % 2
    dhsic.save(dhsic.select(X, y, n_features_to_select=3, progress=False), tmp_path / "r.zarr")
    refused = run("inspect", tmp_path / "r.zarr", code=2)
    assert "r.zarr is the result of a selection, not data. Use `dhsic report " in refused.stderr
