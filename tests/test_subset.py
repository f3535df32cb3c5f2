"""Some features of a source: a source like any other, whose ranking is that of those features."""

import pickle

import dask.array as da
import numpy as np
import pytest
import zarr
from stores import changed, dosage, draw_genotypes, draw_matrix, write, write_matrix, write_vcz
from suites.source import Case, SourceSuite, whole

import dhsic
from dhsic.errors import InputError
from dhsic.joins.variables import values_of_features
from dhsic.passes import jobs, reader
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.sources.opening import open_source
from dhsic.sources.views import SubsetSource

FEATURES = np.array([0, 1, 5, 6, 7, 13, 22])


def subset_case(make, X, features=FEATURES):
    return Case(
        SubsetSource(make(X), features),
        X[:, features].astype(float),
        lambda: SubsetSource(make(X), features),
        lambda: SubsetSource(make(changed(X)), features),
    )


class TestOfArray(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls):
        return subset_case(open_source, draw_matrix())


class TestOfDask(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls):
        return subset_case(lambda X: open_source(da.from_array(X, (4, 5))), draw_matrix())

    def test_pieces_of_a_block_are_found_again(self, case):
        blocks = case.source.blocks(6)
        pieces = [piece.compute() for piece in case.source.pieces(blocks)]
        served = case.source.with_pieces(blocks, tuple(pieces))
        assert served.blocks(100) == case.source.blocks(6)
        np.testing.assert_array_equal(whole(served), case.expected)


class TestOfZarr(SourceSuite):
    @pytest.fixture(scope="class", params=[4, 9])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def make(X):
            path = folder / f"{zarr_of(X)}.zarr"
            write_matrix(path, X, chunks=(request.param, 5), dims=("variants", "samples"))
            return open_source(path)

        return subset_case(make, draw_matrix())


class TestOfCalls(SourceSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def make(genotypes):
            path = folder / f"{zarr_of(genotypes)}.vcz"
            write_vcz(path, genotypes, chunks=(4, 5, 2))
            return SubsetSource(open_source(path), FEATURES)

        genotypes = draw_genotypes(23, 9)
        return Case(
            make(genotypes),
            dosage(genotypes)[:, FEATURES],
            lambda: make(genotypes),
            lambda: make(changed(genotypes)),
        )

    def test_names_and_places_are_those_of_the_features(self, source):
        assert source.feature_names().tolist() == [f"rs{j}" for j in FEATURES]
        coords = source.feature_coords()
        assert coords["stored_feature"].tolist() == FEATURES.tolist()
        assert coords["variant_position"].tolist() == (FEATURES * 10 + 5).tolist()


def zarr_of(values):
    return f"{np.abs(values.astype(float)[~np.isnan(values)]).sum():.0f}-{values.flat[0]}"


def test_which_features_is_part_of_the_fingerprint():
    source = open_source(draw_matrix())
    some = SubsetSource(source, FEATURES)
    prints = {source.fingerprint(), some.fingerprint(), SubsetSource(source, [0, 1]).fingerprint()}
    assert len(prints) == 3


def test_some_of_some_are_some():
    source = open_source(draw_matrix())
    once = SubsetSource(source, FEATURES[[1, 2, 5]])
    twice = SubsetSource(SubsetSource(source, FEATURES), np.array([1, 2, 5]))
    assert twice.base is source
    assert twice.n_features_filtered == 20
    assert twice.fingerprint() == once.fingerprint()
    np.testing.assert_array_equal(whole(twice), whole(once))


@pytest.mark.parametrize("features", [[], [3, 2], [2, 2], [-1, 2], [0, 23], [[0, 1]]])
def test_what_are_no_positions(features):
    with pytest.raises(InputError, match="features"):
        SubsetSource(open_source(draw_matrix()), features)


def test_it_travels_as_bits(tmp_path):
    write_matrix(tmp_path / "x", np.zeros((2, 200_000), "i1"), dims=("variants", "samples"))
    every_other = SubsetSource(open_source(tmp_path / "x"), np.arange(0, 200_000, 2))
    assert len(pickle.dumps(every_other)) < 2000


def test_blocks_promise_what_is_read_for_them():
    one_chunk = open_source(da.from_array(draw_matrix(), (11, 23)))
    some = SubsetSource(one_chunk, np.array([0, 9, 10]))
    (block,) = some.blocks(23)
    assert (block.width, some.stored_width(block)) == (3, 11)
    assert jobs.block_bytes(some, 11) == 11 * 11 * 4


# -- rankings -----------------------------------------------------------------------------------

METHODS = {
    "bahsic, exact": {"solver": "exact", "step": 0.3},
    "bahsic, by definition": {"solver": "direct", "step": 0.3},
    "bahsic, low rank": {"solver": "lowrank", "step": 0.3},
    "fohsic": {"method": "fohsic", "n_features_to_select": 5},
    "linear": {"method": "linear"},
    "pearson": {"method": "pearson"},
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store; one of every third variant of it and some more; which those are; a trait."""
    rng = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("subset")
    genotypes = rng.choice(np.array([0, 0, 0, 1, -1], "i1"), size=(300, 80, 2))
    kept = np.sort(rng.choice(300, 130, replace=False))
    write_vcz(folder / "all.vcz", genotypes, chunks=(32, 80, 2))
    write_vcz(folder / "some.vcz", genotypes[kept], chunks=(32, 80, 2))
    trait = np.where(np.isnan(dosage(genotypes)), 0, dosage(genotypes))[:, kept[[7, 50]]].sum(1)
    return folder / "all.vcz", folder / "some.vcz", kept, trait + rng.standard_normal(80)


@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("compact", [True, False])
def test_the_ranking_is_that_of_a_store_of_those_features(stores, monkeypatch, how, compact):
    whole_store, part, kept, trait = stores
    if not compact:  # read from where they are stored, in every pass
        monkeypatch.setattr(reader, "COMPACT_BYTES", 0)
        monkeypatch.setattr(reader, "COMPACTING", 1000)
    runtime = Threads(2)
    found = dhsic.select(
        SubsetSource(open_source(whole_store), kept), trait, runtime=runtime, **METHODS[how]
    )
    expected = dhsic.select(part, trait, runtime=runtime, **METHODS[how])
    assert found["rank"].to_numpy().tolist() == expected["rank"].to_numpy().tolist()
    is_cut_alike = compact and how != "pearson"  # which reads blocks where they are stored
    same = np.array_equal if is_cut_alike else np.allclose
    assert same(found["score"].to_numpy(), expected["score"].to_numpy(), equal_nan=True)
    assert found["stored_feature"].to_numpy().tolist() == kept.tolist()
    assert found.attrs["n_features_filtered"] == 170
    assert expected.attrs["n_features_filtered"] == 0


def test_groups_by_name_are_those_of_the_features(stores, tmp_path):
    whole_store, part, kept, trait = stores
    gene = np.array([f"g{j // 7}" for j in range(300)], object)
    folder = tmp_path / "g.vcz"
    source = open_source(whole_store)
    group = zarr.open_group(folder, mode="w")
    write(group, "call_dosage", np.hstack([source.read(b) for b in source.blocks(50)]).T,
          ("variants", "samples"))  # fmt: skip
    write(group, "variant_gene", gene, ("variants",))
    write(group, "variant_filter", np.isin(np.arange(300), kept)[:, None], ("variants", "filters"))
    write(group, "filter_id", np.array(["PASS"], object), ("filters",))
    taken = open_source(folder, pass_only=True)
    known = values_of_features(str(folder), "variant_gene", taken)
    assert known.tolist() == gene[kept].tolist()
    found = dhsic.select(taken, trait, feature_groups=known, n_features_to_select=3)
    expected = dhsic.select(part, trait, feature_groups=gene[kept], n_features_to_select=3)
    assert found["rank"].to_numpy().tolist() == expected["rank"].to_numpy().tolist()


def test_a_checkpoint_is_of_those_features(stores, tmp_path):
    whole_store, _, kept, trait = stores
    source = open_source(whole_store)
    options = {"checkpoint": str(tmp_path / "ck"), "n_features_to_select": 5, "step": 0.3}
    first = dhsic.select(SubsetSource(source, kept), trait, **options)
    again = dhsic.select(SubsetSource(source, kept), trait, **options)
    assert again["rank"].equals(first["rank"])
    with pytest.raises(dhsic.CheckpointError):
        dhsic.select(SubsetSource(source, kept[1:]), trait, **options)
    with pytest.raises(dhsic.CheckpointError):
        dhsic.select(source, trait, **options)


@pytest.mark.parametrize("kind", ["store", "memory", "graph"])
def test_workers_rank_as_threads_do(stores, client, kind):
    path, _, kept, trait = stores
    source = open_source(path)
    if kind != "store":
        X = np.hstack([source.read(block) for block in source.blocks(300)])
        source = open_source(X if kind == "memory" else da.from_array(X, (80, 16)), missing_code=-1)
    some = SubsetSource(source, kept)
    options = {"n_features_to_select": 9, "step": 0.3}
    expected = dhsic.select(some, trait, runtime=Threads(2), **options)
    with DaskRuntime(client) as runtime:
        found = dhsic.select(some, trait, runtime=runtime, **options)
    for name in ("rank", "score", "round_hsic"):
        np.testing.assert_array_equal(found[name].to_numpy(), expected[name].to_numpy())
