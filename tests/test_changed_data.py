"""Data that changed since: found, value for value, or the ranking that there would have been.

Alterations are drawn at random, and what they did to the values is read back by plain zarr: where
nothing changed a run goes on as if nothing had happened, where something did it ends with an error.
"""

import json
import re
import shutil
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run, selected, told
from numpy.testing import assert_array_equal
from stores import dosage, write, write_vcz
from zarr.codecs import BloscCodec, ZstdCodec

import dhsic
from dhsic.algorithms.state import begin
from dhsic.errors import CheckpointError, DataError
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection import conductor
from dhsic.sources.arrays import DaskSource
from dhsic.storage.checkpoint import Checkpoint

M, CHUNKS, WIDTH = 24, 16, 5  # of which every second is one that the fingerprint looks at
D = CHUNKS * WIDTH
Y = np.arange(M) % 3 == 0
KINDS = ("v2", "v3", "sharded", "zip", "vcz", "numpy")
pytestmark = pytest.mark.filterwarnings("ignore:The fill value of")


# -- stores, and what is done to them ------------------------------------------------------------


def draw(seed):
    """Genotypes (D, M, 2), of which the first features say something about Y."""
    rng = np.random.default_rng(seed)
    calls = rng.integers(0, 2, (D, M, 2), dtype=np.int8)
    calls[:6] |= Y[:, None] & (rng.random((6, M, 2)) < 0.7)
    calls[rng.random((D, M)) < 0.02] = -1
    return calls


def make(kind, path, seed, width=WIDTH):
    """A store of chunks of some features; of zip files the folder that is put into one."""
    calls = draw(seed)
    if kind == "vcz":
        write_vcz(path, calls, chunks=(width, M, 2))
        return
    group = zarr.open_group(path, mode="w", zarr_format=2 if kind == "v2" else 3)
    options = {"shards": (width, M)} if kind == "sharded" else {}
    chunks = (1 if kind == "sharded" else width, M)
    values = dosage(calls).T.astype("f4")
    write(group, "X", values, ("features", "samples"), chunks=chunks, **options)
    names = np.array([f"gene {j}" for j in range(D)], object)
    write(group, "features", names, ("features",))


class Store:
    """A store of some kind in a folder: what is fitted, what is in it, and ways to alter it."""

    def __init__(self, kind, path, other):
        self.kind, self.path, self.other = kind, Path(path), Path(other)
        self.name = "call_genotype" if kind == "vcz" else "X"

    @property
    def given(self):
        """What `fit` gets."""
        if self.kind != "zip":
            return str(self.path)
        packed = self.path.with_suffix(".zip")
        with zipfile.ZipFile(packed, "w") as file:
            for part in sorted(self.path.rglob("*")):
                if part.is_file():
                    file.write(part, part.relative_to(self.path).as_posix())
        return str(packed)

    @property
    def array(self):
        return zarr.open_group(self.path, mode="r+")[self.name]

    def content(self):
        """What a ranking depends on, its layout included; None where it cannot be read."""
        files = set(self._chunk_files(self.path))
        if len(files) != CHUNKS or not all(file.stat().st_size for file in files):
            return None
        array, group = self.array, zarr.open_group(self.path, mode="r")
        values = dosage(array[...]) if self.kind == "vcz" else array[...]
        key = "sample_id" if self.kind == "vcz" else "features"
        names = [str(name) for name in group[key][...]]
        return repr((values.shape, array.chunks, array.dtype, names)), values.tobytes()

    def _chunk_files(self, path):
        under = path / self.name
        files = [p for p in under.rglob("*") if p.is_file() and p.name[0] not in "z."]
        return sorted(
            files,
            key=lambda p: [
                int(n)
                for n in str(p.relative_to(under)).replace("c/", "").replace("/", ".").split(".")
            ],
        )

    def chunks(self, rng, n):
        files = self._chunk_files(self.path)
        return [files[i] for i in rng.choice(len(files), n, replace=False)]

    def replace(self, rng):
        for chunk in self.chunks(rng, int(rng.integers(1, CHUNKS + 1))):
            shutil.copyfile(self.other / chunk.relative_to(self.path), chunk)

    def replace_most(self, rng):
        for chunk in self.chunks(rng, CHUNKS * 4 // 5):
            shutil.copyfile(self.other / chunk.relative_to(self.path), chunk)

    def swap(self, rng):
        a, b = self.chunks(rng, 2)
        first, second = a.read_bytes(), b.read_bytes()
        a.write_bytes(second)
        b.write_bytes(first)

    def edit(self, rng):
        array = self.array
        at = tuple(int(rng.integers(n)) for n in array.shape)
        array[at] = 0 if array[at] == 1 else 1

    def turn_calls(self, rng):
        """Swap the copies of calls of VCF Zarr: other bytes, the same dosages; else two samples."""
        array, j = self.array, int(rng.integers(D))
        array[j] = array[j][..., ::-1]

    def append(self, rng):
        array = self.array
        array.append(array[:2], axis=0)

    def shorten(self, rng):
        array = self.array
        array.resize((D - 2, *array.shape[1:]))

    def restore(self, rng):
        """Put in a chunk of another store, and the right one again."""
        (chunk,) = self.chunks(rng, 1)
        before = chunk.read_bytes()
        shutil.copyfile(self.other / chunk.relative_to(self.path), chunk)
        chunk.unlink()
        chunk.write_bytes(before)

    def lose(self, rng):
        self.chunks(rng, 1)[0].unlink()

    def empty(self, rng):
        self.chunks(rng, 1)[0].write_bytes(b"")

    def rename(self, rng):
        names = zarr.open_group(self.path, mode="r+")[
            "sample_id" if self.kind == "vcz" else "features"
        ]
        names[int(rng.integers(names.shape[0]))] = "another name"

    def touch(self, rng):
        for file in self.path.rglob("*"):
            file.touch()

    def move(self, rng):
        copied = self.path.with_name(f"{self.path.name}-{rng.integers(10**9)}")
        shutil.copytree(self.path, copied)
        shutil.rmtree(self.path)
        self.path = copied

    def recompress(self, rng):
        """Write all values again, another way."""
        if self.kind in ("v2", "sharded"):
            self.array[...] = self.array[...]
            return
        group = zarr.open_group(self.path, mode="r+")
        values, chunks = self.array[...], self.array.chunks
        dims = self.array.metadata.dimension_names
        codec = [BloscCodec(), ZstdCodec(level=1)][int(rng.integers(2))]
        del group[self.name]
        write(group, self.name, values, dims, chunks=chunks, compressors=[codec])

    def rewrite(self, rng):
        """Write the other data in the place of these."""
        shutil.rmtree(self.path)
        shutil.copytree(self.other, self.path)

    def rechunk(self, rng):
        values, dims = self.array[...], ("variants", "samples", "ploidy")
        group = zarr.open_group(self.path, mode="r+")
        attributes = dict(self.array.attrs)
        del group[self.name]
        dims = dims if self.kind == "vcz" else ("features", "samples")
        array = write(group, self.name, values, dims, chunks=(2 * WIDTH, *values.shape[1:]))
        array.attrs.update(attributes)


class Matrix:
    """The same of a matrix in memory."""

    def __init__(self, frame, other):
        self.given, self.other = frame, other

    def content(self):
        return repr((self.given.shape, list(self.given.columns))), self.given.to_numpy().tobytes()

    def replace(self, rng):
        which = rng.choice(D, int(rng.integers(1, D + 1)), replace=False)
        self.given.iloc[:, which] = self.other.iloc[:, which]

    def replace_most(self, rng):
        for chunk in rng.choice(CHUNKS, CHUNKS * 4 // 5, replace=False):
            which = slice(chunk * WIDTH, (chunk + 1) * WIDTH)
            self.given.iloc[:, which] = self.other.iloc[:, which]

    def swap(self, rng):
        a, b = rng.choice(D, 2, replace=False)
        self.given.iloc[:, [a, b]] = self.given.iloc[:, [b, a]].to_numpy()

    def edit(self, rng):
        at = int(rng.integers(M)), int(rng.integers(D))
        self.given.iloc[at] = 0 if self.given.iloc[at] == 1 else 1

    def append(self, rng):
        self.given = self.given.assign(more=0.0)

    def rename(self, rng):
        j = int(rng.integers(D))
        self.given = self.given.rename(columns={f"gene {j}": "another name"})

    def move(self, rng):
        self.given = pd.DataFrame(self.given.to_numpy().copy("C"), columns=self.given.columns)

    def recompress(self, rng):
        self.given = pd.DataFrame(self.given.to_numpy().copy("F"), columns=self.given.columns)


ALTERATIONS = {
    Store: (
        *("replace", "replace", "replace_most", "swap", "swap", "edit", "edit", "append"),
        *("shorten", "restore", "lose", "empty", "rename", "touch", "move", "recompress"),
        *("rewrite", "rechunk", "turn_calls"),
    ),
    Matrix: ("replace", "replace_most", "swap", "edit", "append", "rename", "move", "recompress"),
}


def frame(seed):
    values = dosage(draw(seed)).astype("f4")
    return pd.DataFrame(values, columns=[f"gene {j}" for j in range(D)])


def stop_after(number):
    def hook(record):
        if record["round"] == number:
            raise KeyboardInterrupt

    return hook


def fit(X, checkpoint=None, *, progress=False, model=dhsic.BAHSIC, y=Y, **options):
    options = {"step": 0.5} | options if model in (dhsic.BAHSIC, dhsic.FOHSIC) else options
    with Threads(1) as runtime:
        options = {"runtime": runtime} | options
        kept = None if checkpoint is None else str(checkpoint)
        return model(5, checkpoint=kept, progress=progress, **options).fit(X, y)


def assert_same(model, other):
    assert_array_equal(model.ranking_, other.ranking_)
    assert_array_equal(model.scores_, other.scores_)


def another_call(array, feature, sample):
    """Another dosage in the place of one."""
    array[feature, sample] = 0.0 if array[feature, sample] == 1 else 1.0


@pytest.fixture(scope="module", params=KINDS)
def problem(request, tmp_path_factory):
    """A kind of source, a folder with it and with other data, the whole run, and killed ones."""
    kind, folder = request.param, tmp_path_factory.mktemp("changed")
    if kind == "numpy":
        given = frame(0)
    else:
        make(kind, folder / "store", 0)
        make(kind, folder / "other", 1)
        given = Store(kind, folder / "store", folder / "other").given

    @cache
    def killed(number):
        run = folder / f"run-{number}"
        with pytest.raises(KeyboardInterrupt):
            fit(given, run, progress=stop_after(number))
        return run

    return kind, folder, fit(given), killed


def fresh(problem, place):
    """A copy of the store that may be altered."""
    kind, folder, *_ = problem
    if kind == "numpy":
        return Matrix(frame(0), frame(1))
    shutil.copytree(folder / "store", place / "store")
    return Store(kind, place / "store", folder / "other")


def altered_and_resumed(problem, place, number):
    """Alter a store at random between the death of a run and its resumption."""
    kind, _, whole, killed = problem
    rng = np.random.default_rng([KINDS.index(kind), number])
    store = fresh(problem, place)
    before = store.content()
    alter = str(rng.choice(ALTERATIONS[type(store)]))
    if rng.random() < 0.3:
        store.move(rng)
    getattr(store, alter)(rng)
    run = place / "run"
    shutil.copytree(killed(int(rng.choice([1, 2, 4]))), run)
    rounds = {path: path.read_bytes() for path in run.rglob("c/0")}
    if store.content() == before:
        assert_same(fit(store.given, run), whole)
        return "same"
    with pytest.raises((CheckpointError, DataError)):
        fit(store.given, run)
    assert all(path.read_bytes() == data for path, data in rounds.items())
    return "found"


@pytest.mark.parametrize("number", range(3))
def test_altered_data_are_found_or_are_the_same(problem, tmp_path, number):
    altered_and_resumed(problem, tmp_path, number)


@pytest.mark.slow
def test_two_hundred_alterations(problem, tmp_path):
    outcomes = {"same": 0, "found": 0}
    for number in range(3, 40):
        place = tmp_path / str(number)
        place.mkdir()
        outcomes[altered_and_resumed(problem, place, number)] += 1
    assert outcomes["found"] >= 10
    assert outcomes["same"] >= 3


# -- what tells, and what does not ---------------------------------------------------------------


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """Folder of a store and of another one to take chunks from, by kind; nobody alters them."""

    @cache
    def made(kind):
        folder = tmp_path_factory.mktemp(kind)
        make(kind, folder / "store", 0)
        make(kind, folder / "other", 1)
        return folder

    return made


def copied(folder, kind, to):
    shutil.copytree(folder, to, dirs_exist_ok=True)
    return Store(kind, to / "store", to / "other")


@pytest.fixture
def store(intact, tmp_path):
    """A plain store, format 3, and another one to take chunks from."""
    return copied(intact("v3"), "v3", tmp_path)


@pytest.fixture
def calls(intact, tmp_path):
    return copied(intact("vcz"), "vcz", tmp_path)


@pytest.fixture(scope="module")
def ranked(intact):
    """The plain store ranked by a method, once for all tests of the same `circumstances`."""
    path = str(intact("v3") / "store")
    return cache(lambda method, circumstances=None: fit(path, **METHODS[method]))


def stopped(X, run, **options):
    with pytest.raises(KeyboardInterrupt):
        fit(X, run, progress=stop_after(2), **options)
    return run


def test_the_message_names_what_changed(store, tmp_path):
    run = stopped(store.given, tmp_path / "run")
    store.array[17:20] = 1.0
    another_call(store.array, 35, 5)
    with pytest.raises(CheckpointError) as caught:
        fit(store.given, run)
    assert str(caught.value) == (
        f"{run} belongs to other data: the values of 4 features (17 to 19, 35), out of {D}, "
        "changed since the run began. Restore them, or start again in another folder."
    )


def test_32_of_40_chunks_are_found_and_put_back(tmp_path):
    """Those among the replaced ones that the fingerprint looks at are left as they were."""
    make("v3", tmp_path / "store", 0, width=2)
    make("v3", tmp_path / "other", 1, width=2)
    store = Store("v3", tmp_path / "store", tmp_path / "other")
    whole = fit(store.given)
    run = stopped(store.given, tmp_path / "run")
    kept = tmp_path / "kept"
    shutil.copytree(store.path, kept)
    looked_at = set(np.linspace(0, 39, 8).astype(int).tolist())
    replaced = [i for i in range(40) if i not in looked_at]
    assert len(replaced) == 32
    for i in replaced:
        name = f"X/c/{i}/0"
        shutil.copyfile(store.other / name, store.path / name)
    with pytest.raises(CheckpointError, match=r"64 features \(2 to 9, 12 to 21, 24 to 31, \.+\)"):
        fit(store.given, run)
    assert_same(fit(str(kept), run), whole)


@pytest.mark.parametrize("change", ["ids", "alleles", "turned calls"])
def test_what_a_ranking_does_not_depend_on_may_change(calls, tmp_path, change):
    """Not promised: ids and alleles of variants, which have positions, and the order of copies."""
    whole = fit(calls.given)
    run = stopped(calls.given, tmp_path / "run")
    group = zarr.open_group(calls.path, mode="r+")
    if change == "ids":
        group["variant_id"][3] = "rs-new"
    elif change == "alleles":
        group["variant_allele"][3, 1] = "G"
    else:
        calls.array[...] = calls.array[...][..., ::-1]
    assert_same(fit(calls.given, run), whole)


def test_other_samples_are_refused(store, tmp_path):
    run = stopped(store.given, tmp_path / "run")
    store.array.append(store.array[:, :1], axis=1)
    with pytest.raises(dhsic.InputError, match="25 samples, but there are 24 labels"):
        fit(store.given, run)


METHODS = {
    "bahsic": {},
    "direct": {"solver": "direct"},
    "linear kernel": {"kernel": "linear"},
    "low rank": {"solver": "lowrank"},
    "self": {"label_kernel": "self"},
    "fohsic": {"model": dhsic.FOHSIC, "step": 1},
    "floating": {"model": dhsic.FOHSIC, "step": 1, "strategy": "floating"},
    "low rank fohsic": {"model": dhsic.FOHSIC, "step": 1, "solver": "lowrank"},
    "ccm": {"model": dhsic.CCM, "tol": 0.1},
    "random features": {
        "model": dhsic.CCM,
        "approximation": "random_features",
        "n_random_features": 40,
        "tol": 0.1,
    },
    "weighting": {"model": dhsic.FeatureWeighting, "tol": 0.6},
    "svm-rfe": {"model": dhsic.SVMRFE, "step": 0.4},
    "linear": {"model": dhsic.LinearHSIC},
    "one pass": {"model": dhsic.OnePass},
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_one_value(store, ranked, tmp_path, method):
    options = METHODS[method]
    one_round = method in ("linear", "one pass")
    with pytest.raises(KeyboardInterrupt):
        fit(store.given, tmp_path / "run", progress=stop_after(1 if one_round else 2), **options)
    before = store.array[8, 3]
    another_call(store.array, 8, 3)
    with pytest.raises(
        CheckpointError, match=r"the values of 1 feature \(8\), out of \d+, changed"
    ):
        fit(store.given, tmp_path / "run", **options)
    store.array[8, 3] = before
    assert_same(fit(store.given, tmp_path / "run", **options), ranked(method))


def test_groups_find_it(store, tmp_path):
    with Threads(1) as runtime:
        model = dhsic.BAHSIC(5, step=0.4, runtime=runtime, checkpoint=str(tmp_path / "run"))
        groups = np.arange(D) // 4
        model.set_params(progress=stop_after(2))
        with pytest.raises(KeyboardInterrupt):
            model.fit(store.given, Y, feature_groups=groups)
        another_call(store.array, 8, 3)
        with pytest.raises(CheckpointError, match=r"1 feature \(8\)"):
            model.set_params(progress=False).fit(store.given, Y, feature_groups=groups)


# -- while a run goes on -------------------------------------------------------------------------


@pytest.fixture
def reread(monkeypatch):
    """Nothing is kept apart: every round reads the store, as with data that do not fit."""
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)
    monkeypatch.setattr("dhsic.passes.reader.COMPACTING", D + 1)


def between(number, act):
    """A hook that acts between a round and the next."""

    def hook(record):
        if record["round"] == number:
            act()

    return hook


def runtime_of(name, client):
    return Threads(2) if name == "threads" else DaskRuntime(client)


IN_ONE_READ = {"linear", "one pass", "linear kernel"}


@pytest.mark.usefixtures("reread")
@pytest.mark.parametrize(
    ("method", "name"),
    [(method, "threads") for method in METHODS if method not in IN_ONE_READ]
    + [(method, "dask") for method in ("bahsic", "low rank", "ccm")],
)
def test_data_that_change_in_a_run_are_found(store, ranked, tmp_path, client, method, name):
    options = {**METHODS[method], "runtime": runtime_of(name, client)}
    whole = ranked(method, "reread")
    before = store.array[...]

    def change():
        store.array[...] = before[::-1]

    sentence = r"The values of \d+ features? \(.*\) differ from those in the first pass of this run"
    with pytest.raises(DataError, match=sentence):
        fit(store.given, tmp_path / "run", progress=between(2, change), **options)
    store.array[...] = before
    assert_same(fit(store.given, tmp_path / "run", **options), whole)
    options["runtime"].close()


@pytest.mark.parametrize("name", ["threads", "dask"])
def test_survivors_that_are_kept_apart_do_not_change(store, ranked, client, name):
    """All were read before: the ranking is that of the data as they were."""
    runtime = runtime_of(name, client)
    hook = between(2, lambda: store.rewrite(None))
    rounds = {"rerank": False, "interactions": None}  # what comes after reads again
    expected = fit(store.given, runtime="threads", **rounds)
    assert_same(fit(store.given, runtime=runtime, progress=hook, **rounds), expected)
    runtime.close()


def test_data_that_change_before_they_are_kept_apart_are_found(store, monkeypatch):
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)
    hook = between(1, lambda: store.rewrite(None))
    with pytest.raises(DataError, match="differ from those in the first pass"):
        fit(store.given, progress=hook, step=0.6)


def test_survivors_without_a_place_of_their_own_are_compared(store, client, monkeypatch):
    """A cluster that shares no folder reads them where they are."""
    monkeypatch.setattr("dhsic.passes.survivors.HOME_BYTES", 0)
    monkeypatch.setattr(DaskRuntime, "shared_folder", None)
    with DaskRuntime(client) as runtime:
        fit(store.given, runtime=runtime)
        with pytest.raises(DataError, match="differ from those in the first pass"):
            fit(store.given, runtime=runtime, progress=between(2, lambda: store.rewrite(None)))


def test_a_graph_that_computes_other_values_each_time_is_refused(monkeypatch):
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)

    def noise(chunk):
        return chunk + np.random.default_rng().normal(size=chunk.shape)

    X = da.zeros((M, D), chunks=(M, WIDTH)).map_blocks(noise, dtype="f8", meta=np.empty((0, 0)))
    with pytest.raises(DataError, match="are computed differently each time"):
        fit(DaskSource(X))


def test_halves_are_of_what_was_loaded(store, monkeypatch):
    """The store changes between two halves, which read nothing more."""
    whole = fit(store.given, stability=3, step=0.7)
    outcome = conductor.outcome_of

    def ended(run, *promise):
        if run.n_samples < M:
            another_call(store.array, 8, 3)
        return outcome(run, *promise)

    monkeypatch.setattr(conductor, "outcome_of", ended)
    again = fit(store.given, stability=3, step=0.7)
    assert_same(again, whole)
    assert_array_equal(again.stability_, whole.stability_)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_halves_are_those_of_the_data_that_were_ranked(store, tmp_path, kept, monkeypatch):
    """The store changes between two halves: the third would be one of other data."""
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)
    whole = fit(store.given, stability=3, step=0.7)
    run = tmp_path / "run" if kept else None
    before = store.array[...]
    outcome = conductor.outcome_of
    done = []

    def ended(run, *promise):
        done.append(run)
        if len(done) == 3:
            another_call(store.array, 8, 3)
        return outcome(run, *promise)

    with monkeypatch.context() as patch:
        patch.setattr(conductor, "outcome_of", ended)
        with pytest.raises(DataError, match="differ from those in the first pass of this run"):
            fit(store.given, run, stability=3, step=0.7)
    if kept:
        with pytest.raises(CheckpointError, match="changed since the run began"):
            fit(store.given, run, stability=3, step=0.7)
    store.array[...] = before
    again = fit(store.given, run, stability=3, step=0.7)
    assert_same(again, whole)
    assert_array_equal(again.stability_, whole.stability_)


# -- the checkpoint ------------------------------------------------------------------------------

IDENTITY = {"source": "5f3a", "parameters": {}, "versions": {}, "job": None}


def test_checksums_are_kept_where_the_checkpoint_is(spot):
    values = np.array([3, -1, 2**63 - 1, -(2**63)])
    with Checkpoint(spot.path) as kept:
        kept.begin(IDENTITY)
        kept.check_data(values)
        kept.start(begin(np.arange(3)), values)
    with Checkpoint(spot.path) as kept:
        kept.begin(IDENTITY)
        kept.check_data(values)
        with pytest.raises(CheckpointError, match=r"the values of 1 feature \(2\), out of 4"):
            kept.check_data(np.array([3, -1, 5, -(2**63)]))


def test_checkpoints_without_checksums_are_read(spot):
    """As they were before there were any."""
    with Checkpoint(spot.path) as kept:
        kept.begin(IDENTITY)
        kept.start(begin(np.arange(3)))
    with Checkpoint(spot.path) as kept:
        assert kept.begin(IDENTITY).survivors.tolist() == [0, 1, 2]
        kept.check_data(np.arange(3))


@pytest.mark.parametrize("part", ["checksums/0", "checksums/zarr.json", "zarr.json"])
@pytest.mark.parametrize("harm", ["lost", "changed"])
def test_damaged_checksums_are_no_excuse(spot, part, harm):
    with Checkpoint(spot.path) as kept:
        kept.begin(IDENTITY)
        kept.start(begin(np.arange(3)), np.arange(3))
    name = f"start/{part}"
    if harm == "lost":
        spot.unlink(name)
    else:
        data = bytearray(spot.read(name))
        data[len(data) // 2] ^= 1
        spot.write(name, data)

    def go_on():
        with Checkpoint(spot.path) as kept:
            kept.begin(IDENTITY)
            kept.check_data(np.arange(3))

    with pytest.raises(CheckpointError, match="Restore the folder from a copy, or start again"):
        go_on()


def test_commands_end_with_their_exit_codes(store, tmp_path, monkeypatch):
    write(zarr.open_group(store.path), "trait", Y.astype("i1"), ("samples",))
    before, kept = store.array[...], tmp_path / "run.dhsic"
    select = ("select", store.path, "--variable", "X", "--target", "trait", "-n", 5)
    select += ("--threads", 1, "--step", 0.4)
    whole = selected(*select[1:])
    save = Checkpoint.save

    def saved(self, state, *more):
        save(self, state, *more)
        if state.round == 3:
            store.array[...] = before[:, ::-1]

    with monkeypatch.context() as patch:
        patch.setattr("dhsic.storage.checkpoint.Checkpoint.save", saved)
        patch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)
        patch.setattr("dhsic.passes.reader.COMPACTING", D + 1)
        said = told(run(*select, "--checkpoint", kept, "--no-progress", code=3))
        assert re.search(
            r"The values of \d+ features \(.*\) differ from those in the first pass", said
        )
    store.array[...] = before
    another_call(store.array, 8, 3)
    said = told(run("resume", kept, code=4))
    assert "the values of 1 feature (8), out of 80, changed since the run began" in said
    store.array[...] = before
    again = json.loads(run("resume", kept, "--json").stdout)
    assert again["selected"] == whole["selected"]
