"""The examples of CONTRIBUTING.md: a part of each kind, registered here, goes through all doors.

What is registered here is what a contributor would put into a file of its own; the doors are
`select` on threads and on workers of Dask, `plan`, and the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import naive_kernels
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from distributed import Client
from stores import changed, draw_matrix
from suites.kernel import KernelSuite
from suites.source import Case, SourceSuite

import dhsic
from dhsic.cli import main
from dhsic.criteria import CRITERIA
from dhsic.criteria.base import UNIT_NUMBERS, AbstractCriterion
from dhsic.engines import AbstractEngine
from dhsic.engines.exact_scoring import FAMILIES, Family
from dhsic.errors import InputError
from dhsic.kernels import KERNELS
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.levels import AbstractProduct
from dhsic.kernels.statistic import AbstractSums
from dhsic.results.schema import ranking
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.stage import Stage, StageCost
from dhsic.selection.stages import STAGES, stages_of
from dhsic.selectors import METHODS
from dhsic.selectors.bahsic import BAHSIC
from dhsic.selectors.onepass import OnePass
from dhsic.sources import AbstractSource, fingerprint
from dhsic.sources.blocks import check_dtype, check_finite, check_shape, even_blocks, regular_edges
from dhsic.sources.opening import OPENERS, open_source

M, D, RELEVANT = 60, 40, [3, 17]
TWO = {"n_features_to_select": 2}
ALONE = {"interactions": None, **TWO}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A store of which features 3 and 17 make the target; its path, matrix and target."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((M, D)).astype(np.float32)
    y = X[:, RELEVANT].sum(axis=1) + 0.1 * rng.standard_normal(M)
    path = tmp_path_factory.mktemp("own") / "data.zarr"
    group = zarr.create_group(path)
    group.create_array("X", data=X, chunks=(M, 8), dimension_names=("samples", "features"))
    group.create_array("y", data=y, dimension_names=("samples",))
    return str(path), X, y


@pytest.fixture(scope="module")
def client():
    with Client(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as made:
        yield made


def ranks(result):
    return result["rank"].to_numpy().tolist()


def goes_everywhere(path, client, tmp_path, **asked):
    """Ranking by all doors, which must agree."""
    plan = dhsic.plan(path, "y", **TWO, n_workers=2, **asked)
    assert plan.n_rounds >= 1
    assert "memory" in str(plan)
    here = dhsic.select(path, "y", **TWO, runtime="threads", **asked)
    afar = dhsic.select(path, "y", **TWO, runtime="dask", **asked)
    words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
    command = ["select", path, "--target", "y", "-n", "2", *words, "--out"]
    done = CliRunner().invoke(main, [*command, str(tmp_path / "out.zarr"), "--no-progress"])
    assert done.exit_code == 0, done.output
    assert ranks(here) == ranks(afar) == ranks(dhsic.load(tmp_path / "out.zarr"))
    return here


# A kernel: a file in dhsic/kernels/ and a line in its __init__.py ------------------------------


@dataclass(frozen=True)
class Cauchy(AbstractKernel):
    """``1 / (1 + sigma ||x - x'||^2)``; it says no more than it must."""

    name = "own-kernel"
    has_bandwidth = True

    def gram(self, inner, rows, columns, sigma):
        return 1 / (1 + sigma * (rows[:, None] + columns[None, :] - 2 * inner))

    def decrement(self, inner, rows, columns, x, y, sigma):
        K = self.gram(inner, rows, columns, sigma)
        part = sigma * (x[:, None] - y[None, :]) ** 2 * K
        return K * part / (1 - part)


class TestCauchy(KernelSuite):
    kernel = Cauchy()

    def value(self, x, z, sigma):
        return 1 / (1 + sigma * naive_kernels.squared_distance(x, z))


def test_a_kernel(data, client, tmp_path, monkeypatch):
    monkeypatch.setitem(KERNELS, Cauchy.name, Cauchy)

    result = goes_everywhere(data[0], client, tmp_path, kernel=Cauchy.name)

    assert sorted(np.flatnonzero(result["selected"])) == RELEVANT


@dataclass(frozen=True)
class Logarithms(AbstractSums):
    """``sum_j log(1 + scale (x_ij - x_i'j)^2)``, whatever sigma is."""

    scale: float

    def of(self, z):
        return np.log1p(self.scale * np.subtract.outer(z, z).astype(np.float64) ** 2)

    def add(self, upper, Z):
        for z in Z:
            upper += self.of(z)

    def take_away(self, upper, Z, each):
        for z in Z:
            upper -= self.of(z)


@dataclass(frozen=True)
class HeavyTails(AbstractProduct):
    """``prod_j (1 + scale (x_j - x'_j)^2)^(-sigma)``, no function of inner products."""

    name = "own-product"
    summed = "logarithms of differences"
    scale: float = 0.5

    @property
    def sums(self):
        return Logarithms(self.scale)

    def distance(self, difference):
        return np.log1p(self.scale * difference**2)


class TestHeavyTails(KernelSuite):
    kernel = HeavyTails()
    sigma = 0.3

    def value(self, x, z, sigma):
        return np.prod((1 + 0.5 * (x - z) ** 2) ** -sigma)


@pytest.mark.parametrize("method", ["bahsic", "fohsic"])
def test_a_kernel_of_other_sums(data, client, tmp_path, monkeypatch, method):
    monkeypatch.setitem(KERNELS, HeavyTails.name, HeavyTails)

    result = goes_everywhere(data[0], client, tmp_path, kernel=HeavyTails.name, method=method)

    assert sorted(np.flatnonzero(result["selected"])) == RELEVANT


# A criterion: a file in dhsic/criteria/ and a line in its __init__.py -------------------------


@dataclass(frozen=True)
class Agreement(AbstractCriterion):
    """How often the signs of feature and label agree, or differ, beyond a half."""

    name = "own-criterion"
    labels = UNIT_NUMBERS
    meaning = "part of the samples of one sign less those of another"

    def directions(self, state):
        return np.sign(state)[:, None]

    def columns(self, state, features, place):
        agreeing = features.directions.times(np.sign(features.X))[:, place]
        return np.abs(agreeing.T) / features.X.shape[1]


def test_a_criterion(data, client, tmp_path, monkeypatch):
    path, X, y = data
    monkeypatch.setitem(CRITERIA, Agreement.name, Agreement)
    # METHODS took the criteria when it was imported: a line in the table is enough for both.
    monkeypatch.setitem(METHODS, Agreement.name, (OnePass, {"criterion": Agreement.name}))

    result = goes_everywhere(path, client, tmp_path, method=Agreement.name)

    expected = np.abs(np.sign(X - X.mean(axis=0)).T @ np.sign(y - y.mean())) / M
    np.testing.assert_allclose(result["score"], expected, atol=1e-12)


@dataclass(frozen=True)
class Laborious(Agreement):
    is_timed = False

    def tile_bytes(self, c, m):
        return 10**12

    def label_bytes(self, m):
        return 10**11


def test_what_a_criterion_takes_is_promised(data, monkeypatch):
    monkeypatch.setitem(METHODS, Agreement.name, (OnePass, {"criterion": Agreement.name}))
    promised, is_timed = [], []
    for each in (Agreement, Laborious):
        monkeypatch.setitem(CRITERIA, each.name, each)
        plan = dhsic.plan(
            data[0], "y", **TWO, method=each.name, memory_limit=10**15, runtime="threads"
        )
        promised.append(plan.promise)
        is_timed.append("cannot be estimated" not in str(plan))

    small, large = promised
    assert large.landmarks - small.landmarks == 10**11
    assert (large.total - small.total) // 10**11 >= 11  # a tile of every task, and the labels
    assert is_timed == [True, False]


# An engine: a file in dhsic/engines/ and a line in `FAMILIES`, for kernels that name it ---


@dataclass(frozen=True)
class Loops(AbstractEngine):
    """The definition with nothing done at once."""

    name = "loops"

    def prepare(self, question):
        return question.kernel, question.sigma, question.W, question.statistic.to_dense()

    def score(self, state, X, facts):
        kernel, sigma, W, G = state
        norms = np.diagonal(G)
        changes = (kernel.decrement(G, norms, norms, x, x, sigma) for x in X.astype(np.float64))
        return np.array([np.vdot(W, change) for change in changes])

    def products(self, question, facts):
        return 0


@dataclass(frozen=True)
class Looped(Cauchy):
    name = "own-looped"
    scored_by = "loops"


def test_an_engine(data, client, tmp_path, monkeypatch):
    monkeypatch.setitem(FAMILIES, "loops", Family(lambda *_: Loops(), bases=2))
    monkeypatch.setitem(KERNELS, Looped.name, Looped)

    result = goes_everywhere(data[0], client, tmp_path, kernel=Looped.name)

    meant = dhsic.select(data[0], "y", **TWO, kernel=Cauchy())
    assert ranks(result) == ranks(meant)
    np.testing.assert_allclose(result["score"], meant["score"], rtol=1e-9)
    assert result["round_engine"].to_numpy()[0].startswith("loops")


# An algorithm: a file in dhsic/algorithms/, an estimator in one in dhsic/selectors/ ------------


def halving(dependence, state, step):
    """Backward elimination of half of what is left in every round, whatever the step."""
    while (S := state.survivors).size:
        dependence.move_to(S)
        gone = dependence.least_relevant(dependence.bandwidth(S), S, max(1, S.size // 2))
        state = state.after(gone.features, gone.scores, gone.record)
        yield state


@dataclass(eq=False, repr=False, kw_only=True)
class Halving(BAHSIC):
    """Backward elimination by halves."""

    _method = "halving"
    algorithm = staticmethod(halving)


def test_an_algorithm(data, client, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "own-algorithm", (Halving, {}))

    result = goes_everywhere(data[0], client, tmp_path, method="own-algorithm")

    assert sorted(np.flatnonzero(result["selected"])) == RELEVANT
    left = result["round_n_features"].to_numpy().tolist()
    assert left == [40, 20, 10, 5, 3, 2, 1]


# A source: a file in dhsic/sources/ and a line in `OPENERS` --------------------------------------


class NpyFile(AbstractSource):
    """A matrix in a .npy file, samples one after the other, read where it lies."""

    def __init__(self, path, options):
        self.path = path
        if options.variable is not None:
            raise InputError(f"{path} holds one matrix. Leave out variable={options.variable!r}.")
        try:
            with Path(path).open("rb") as file:
                np.lib.format.read_magic(file)
                shape, is_turned, self.dtype = np.lib.format.read_array_header_1_0(file)
                self.begin = file.tell()
        except (OSError, ValueError) as error:
            raise InputError(
                f"There is no array at {path} ({error}). Pass a local file."
            ) from error
        check_dtype(self.dtype, path)
        check_shape(shape, path)
        if is_turned or options.feature_axis(shape, None, path, convention=1) == 0:
            raise InputError(f"Samples of {path} are apart. Write them one after the other.")
        self.n_samples, self.n_features = shape
        self.missing_code = options.code_of()

    def blocks(self, width):
        return even_blocks(self.n_features, width)

    def read(self, block, rows=None):
        chosen = range(self.n_samples) if rows is None else rows.tolist()
        values = np.empty((block.width, len(chosen)), self.dtype)
        with Path(self.path).open("rb") as file:  # mapped, all pages touched would count as memory
            for at, row in enumerate(chosen):
                n_before = row * self.n_features + block.start
                file.seek(self.begin + n_before * self.dtype.itemsize)
                values[:, at] = np.fromfile(file, self.dtype, block.width)
        check_finite(values, block, rows, None, self.missing_code)
        return values.T

    def fingerprint(self, n_chunks=8):
        return fingerprint(self, regular_edges(self.n_features, 256), ("npy", self.begin), n_chunks)


@pytest.fixture
def npy(monkeypatch):
    monkeypatch.setitem(OPENERS, ".npy", NpyFile)


class TestNpyFile(SourceSuite):
    @pytest.fixture(params=["f4", "i1", "?"])
    def case(self, request, tmp_path, npy):
        X = draw_matrix(dtype=request.param)

        def opened(X, name):
            np.save(tmp_path / name, X)
            return open_source(tmp_path / name, missing_code=-1)

        expected = np.where(X == -1, np.nan, X)
        return Case(
            opened(X, "a.npy"),
            expected,
            lambda: open_source(tmp_path / "a.npy", missing_code=-1),
            lambda: opened(changed(X), "b.npy"),
        )


def test_a_source(data, client, tmp_path, npy):
    path, X, y = data
    own, meant = str(tmp_path / "X.NPY"), ranks(dhsic.select(path, "y", **TWO))
    with Path(own).open("wb") as file:
        np.save(file, X)
    (tmp_path / "y.tsv").write_text("y\n" + "".join(f"{value!r}\n" for value in y.tolist()))

    assert "40 features" in str(dhsic.plan(own, y, **TWO))
    for runtime in ("threads", "dask"):
        assert ranks(dhsic.select(own, y, runtime=runtime, **TWO)) == meant
    command = ["select", own, "--labels", str(tmp_path / "y.tsv"), "--target", "y", "-n", "2"]
    done = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "out.zarr")])
    assert done.exit_code == 0, done.output
    assert ranks(dhsic.load(tmp_path / "out.zarr")) == meant


def test_a_registered_suffix_is_more_than_a_foreign_one(tmp_path, monkeypatch):
    monkeypatch.setitem(OPENERS, ".csv.gz", NpyFile)
    with (tmp_path / "a.CSV.gz").open("wb") as file:
        np.save(file, draw_matrix())
    assert open_source(tmp_path / "a.CSV.gz").n_features == 23


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"target": "y"}, "has no variable 'y'; pass the labels"),
        ({"feature_groups": "gene"}, "no variable 'gene'"),
        ({"variable": "X"}, "Leave out variable"),
        ({"sample_dim": 1, "target": np.arange(23) / 7}, "Write them one after the other"),
        ({"pass_only": True}, "Leave out pass_only"),
        ({"target": np.arange(7.0)}, "there are 7 labels"),
        ({"data": "absent.npy"}, "no array at absent.npy"),
    ],
)
def test_what_a_source_cannot_do_gets_a_sentence(tmp_path, npy, asked, words):
    np.save(tmp_path / "a.npy", draw_matrix())
    given = {"data": tmp_path / "a.npy", "target": np.arange(11) / 7} | asked
    with pytest.raises(InputError, match=words):
        dhsic.select(**given)


# A stage: a file in dhsic/selection/ and a line in `STAGES` -----------------------------------


@dataclass(frozen=True)
class Jackknife(Stage):
    """The worst rank of each feature if a part of the samples is left out."""

    name = "own-stage"
    n: int = 3

    def cost(self, run):
        return StageCost(note=f"{self.n} runs without a part of the samples come besides")

    def parts(self, run):
        for i in range(self.n):
            samples = np.flatnonzero(np.arange(run.n_samples) % self.n != i)
            yield run.part(samples, f"{self.name}/{i:03d}")

    def after(self, run, outcome, parts):
        worst = np.max([ranking(part.worst_first) for part in parts], axis=0)
        columns = {"worst_rank": (worst, "worst rank without a part of the samples")}
        return replace(outcome, order=outcome.order.at(slice(None), **columns))

    @classmethod
    def sentences(cls, result):
        if "worst_rank" in result:
            n = int((result["worst_rank"] <= result.attrs["n_selected"]).sum())
            yield f"{n:,} features are selected whichever part of the samples is left out"


def _worst_rank(X, y, n):
    parts = [np.arange(M) % n != i for i in range(n)]
    return np.max([ranks(dhsic.select(X[part], y[part], **ALONE)) for part in parts], axis=0)


def test_a_stage(data, client, tmp_path, monkeypatch):
    path, X, y = data
    monkeypatch.setitem(STAGES, Jackknife.name, Jackknife)

    result = goes_everywhere(path, client, tmp_path, stages=Jackknife.name)

    assert result["worst_rank"].to_numpy().tolist() == _worst_rank(X, y, 3).tolist()
    assert "3 runs without a part" in str(dhsic.plan(path, "y", **TWO, stages=Jackknife.name))
    stored = dhsic.load(tmp_path / "out.zarr")
    assert np.array_equal(stored["worst_rank"], result["worst_rank"])
    told = CliRunner().invoke(
        main, ["select", path, "--target", "y", "-n", "2", "--stages", "own-stage"]
    )
    assert "2 features are selected whichever part" in " ".join(told.output.split())


def test_a_stage_of_its_own_parameters_needs_no_table(data, tmp_path):
    path, X, y = data
    result = dhsic.select(path, "y", **ALONE, stages=[Jackknife(5)])
    assert result["worst_rank"].to_numpy().tolist() == _worst_rank(X, y, 5).tolist()
    assert "worst_rank" not in dhsic.select(path, "y", **ALONE)
    again = {"checkpoint": str(tmp_path / "c"), "stages": [Jackknife(5)]}
    assert ranks(dhsic.select(path, "y", **ALONE, **again)) == ranks(result)
    resumed = dhsic.select(path, "y", **ALONE, **again)
    assert np.array_equal(resumed["worst_rank"], result["worst_rank"])


NESTED = {
    "holdout": {"holdout": 0.3},
    "stability": {"stability": 2},
    "shadows": {"control": "shadow", "fdr": 0.5},
}


@pytest.mark.parametrize("beside", NESTED)
def test_a_stage_nests_with_others(data, beside):
    alone = dhsic.select(data[0], "y", **ALONE, **NESTED[beside])
    both = dhsic.select(data[0], "y", **ALONE, **NESTED[beside], stages=[Jackknife(2)])
    for column in {*alone.data_vars} - {"round_seconds", "round_bytes_read"}:
        assert alone[column].equals(both[column]), column
    assert both.attrs.get("n_held_out") == alone.attrs.get("n_held_out")
    assert both["worst_rank"].size == D


def test_stages_nest_as_their_table_says():
    asked = {"holdout": 0.3, "stability": 2, "clump_r2": 0.2, "interactions": "all"}
    names = [stage.name for stage in stages_of(dhsic.BAHSIC(**asked, stages=[Jackknife()]))]
    first = ["holdout", "survival", "stability", "interactions", "clumping"]
    assert names == [*first, Jackknife.name]
    assert [*STAGES] == ["holdout", "survival", "shadows", "stability", "interactions", "clumping"]


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ("stability", "pass stability= or stability_threshold="),
        (["jacknife"], "stages= contains 'jacknife'"),
        ([3], "stages= contains 3; pass objects"),
    ],
)
def test_what_is_no_stage_gets_a_sentence(data, stages, words):
    with pytest.raises(InputError, match=words):
        dhsic.select(data[0], "y", **TWO, stages=stages)


# A runtime: a file in dhsic/runtime/; estimators take the object ---------------------------------


class OneByOne(AbstractRuntime):
    """Every task here and now."""

    name = "one by one"
    n_workers = 1

    def results(self, task, source, jobs, state, *, divisible):
        for job in jobs:
            yield task(source, job, state)


def test_a_runtime(data):
    path, _, _ = data
    assert ranks(dhsic.select(path, "y", runtime=OneByOne(), **TWO)) == ranks(
        dhsic.select(path, "y", **TWO)
    )
    assert dhsic.plan(path, "y", runtime=OneByOne(), **TWO).n_rounds > 1
