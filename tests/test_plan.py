"""Plans: what they foresee is what runs then do, and what cannot fit is refused."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from stores import write_matrix

import dhsic
from dhsic.cli import main
from dhsic.errors import ClusterError, InputError, MemoryBudgetError
from dhsic.memory import SLACK_BYTES
from dhsic.passes import AbstractSum, Measure, survivors
from dhsic.passes import reader as reading
from dhsic.passes.candidates import ScoreGroups
from dhsic.passes.reader import Reader
from dhsic.passes.score import ScoreLowRank
from dhsic.passes.statistic import MeasureLandmarks
from dhsic.plans import Plan, PlannedRuntime, Rates, Sizes, plan, rounds
from dhsic.plans.dry_run import CountedSource, CountingReader, DryRun, Step
from dhsic.plans.rounds import work_of
from dhsic.plans.time import Expected, Setting
from dhsic.runtime import partition
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection.run import SelectionRun
from dhsic.selectors import METHODS
from dhsic.sources.arrays import ArraySource

M, D = 60, 1200
RATES = Rates(float32=5e10, float64=2e10, decode=1e9, values=1e9, elements=1e9)
BY_SIZES = (AbstractSum, Measure, MeasureLandmarks, ScoreLowRank, ScoreGroups)
METHODS_OF_ROUNDS = sorted(set(METHODS) - {"ccm", "weighting"})
BYTES = M * D


@pytest.fixture(scope="module")
def data():
    """Genotypes that all vary, (m, d) int8, and two classes."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (M, D), dtype=np.int8)
    X[:3] = np.arange(3)[:, None]
    return X, np.arange(M) % 2


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "x.zarr"
    write_matrix(path, data[0], chunks=(50, M), dims=("variants", "samples"))
    return path


def asked(store, y, **options):
    """Plan, and the history of the run that it is about."""
    told = plan(store, y, rates=RATES, **options)
    options = {"runtime": Threads(2), "progress": False} | options
    return told, dhsic.select(store, y, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "exact", "step": 0.2},
        {"solver": "exact", "kernel": "polynomial", "step": 0.3},
        {"solver": "exact", "kernel": "laplace", "step": 0.5},
        {"solver": "direct", "step": 200},
        {"solver": "lowrank", "step": 0.05},
        {"solver": "lowrank", "kernel": "linear"},
        {"kernel": "linear"},
        {"dtype": "float64", "step": 0.8},
        {"label_kernel": "self", "step": 0.5},
        {"label_kernel": "self", "kernel": "linear"},
        {"method": "linear"},
        {"method": "fohsic", "n_features_to_select": 5},
        {"method": "fohsic", "n_features_to_select": 9, "step": 3, "kernel": "linear"},
        {"method": "svm-rfe", "step": 0.5},
        {"method": "pearson"},
        {"method": "mmd"},
    ],
    ids=str,
)
def test_rounds_and_bytes_are_those_of_the_run(store, data, options):
    y = None if options.get("label_kernel") == "self" else data[1]
    told, result = asked(store, y, **options)

    assert told.work.least.bytes_read == result["round_bytes_read"].to_numpy().tolist()
    assert list(told.work.sizes) == result["round_n_features"].to_numpy().tolist()
    assert (told.n_rounds, told.bytes_read) == (result.sizes["rounds"], BYTES)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "exact", "step": 0.2},
        {"solver": "exact", "kernel": "linear", "label_kernel": "self", "step": 0.5},
        {"solver": "lowrank", "step": 0.02, "max_expected_loss": 1.0},
        {"method": "fohsic", "n_features_to_select": 400, "step": 0.15},
        {"method": "svm-rfe", "step": 0.4},
        {
            "feature_groups": [f"gene{j // 30}" for j in range(D)],
            "step": 0.5,
            "n_features_to_select": 3,
        },
    ],
    ids=lambda options: str(options)[:60],
)
def test_passes_that_sizes_decide_on_are_those_of_the_run(store, data, options, monkeypatch):
    """Which, over how many features, in how many jobs, in their order.

    Not those of the exact engine, which the data decide on.
    """
    seen = {Reader: {}, CountingReader: {}}

    def noted(kind, name):
        do = getattr(kind, name)

        def noting(self, a_pass, jobs, **how):
            if isinstance(a_pass, BY_SIZES):
                n = sum(columns.local.size for job in jobs for columns in job.payload)
                passes = seen[kind].setdefault(self, [])
                passes.append((type(a_pass).__name__, n, len(jobs)))
            return do(self, a_pass, jobs, **how)

        monkeypatch.setattr(kind, name, noting)

    noted(Reader, "results")
    noted(Reader, "summed")
    noted(CountingReader, "results")
    y = None if options.get("label_kernel") == "self" else data[1]
    if "method" not in options:  # the scan of pairs reads by itself, and is not counted
        options = options | {"interactions": None}
    asked(store, y, **options)
    (real,) = seen[Reader].values()
    foreseen, *_ = seen[CountingReader].values()  # others are on a cluster, or low rank needs more
    assert len(real) > 1
    assert foreseen == real


@pytest.mark.parametrize("options", [{"solver": "exact"}, {"solver": "lowrank"}], ids=str)
def test_rounds_that_are_alike_are_gone_through_once(data, options, monkeypatch):
    """To nearly the same work, and the same rounds."""
    X, options = data[0][:, :400], {"step": 1, "rates": RATES} | options
    monkeypatch.setattr(rounds, "ALIKE", 40)
    told = plan(X, data[1], **options)
    monkeypatch.setattr(rounds, "ALIKE", 1 << 40)
    every = plan(X, data[1], **options)

    assert len(told.work.least.steps) < len(every.work.least.steps)
    assert told.work.sizes == every.work.sizes
    assert told.work.n_passes == pytest.approx(every.work.n_passes, rel=0.02)
    ours, theirs = told.times[0].seconds, every.times[0].seconds
    assert ours == pytest.approx(theirs, rel=0.03)


def test_groups_are_counted_by_groups(store, data):
    groups = [f"gene{j // 30}" for j in range(D)]
    told, result = asked(store, data[1], feature_groups=groups, step=0.5, n_features_to_select=3)

    assert list(told.work.sizes) == result["round_n_features"].to_numpy().tolist()
    assert told.work.sizes[0] == D // 30
    assert told.bytes_read == result["round_bytes_read"].sum()


def test_what_does_not_fit_in_memory_is_read_as_foreseen(store, data, monkeypatch):
    """Survivors go to scratch: what is read of blocks that thin out follows from sizes."""
    monkeypatch.setattr(reading, "COMPACT_BYTES", 1000)
    told, result = asked(store, data[1], step=0.2, solver="direct")

    assert told.bytes_read == pytest.approx(int(result["round_bytes_read"].sum()), rel=0.05)
    assert told.bytes_read > 3 * BYTES
    assert told.work.survivors.startswith("in scratch")


def test_rounds_in_low_rank_read_what_was_foreseen(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(reading, "COMPACT_BYTES", 1000)
    X = rng.integers(0, 3, (M, 2400), dtype=np.int8)
    write_matrix(tmp_path / "x.zarr", X, chunks=(50, M), dims=("variants", "samples"))
    told, result = asked(tmp_path / "x.zarr", np.arange(M) % 2, step=0.2, solver="lowrank")

    thin = [str(e).startswith("low rank") for e in result["round_engine"].to_numpy()]
    assert sum(thin) == 4
    read = result["round_bytes_read"].to_numpy()[thin]
    assert told.work.least.bytes_read[:4] == read.tolist()


def test_bytes_of_a_cluster_are_foreseen(store, data, client, tmp_path, monkeypatch):
    monkeypatch.setattr(survivors, "HOME_FLOPS", 0)
    options = {"solver": "exact", "step": 0.5, "kernel": "polynomial", "standardize": True}
    told = plan(store, data[1], rates=RATES, n_workers=4, **options)
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        result = dhsic.select(store, data[1], runtime=runtime, progress=False, **options)

    read = int(result["round_bytes_read"].sum())
    assert told.bytes_read == pytest.approx(read, rel=0.35)  # undecided features were supposed
    assert told.n_rounds == result.sizes["rounds"]


@pytest.mark.parametrize("many", [False, True])
def test_tasks_of_a_cluster_are_foreseen(tmp_path, monkeypatch, rng, many):
    """Of every pass, those that do it and those that add it up; many, where much is read."""
    monkeypatch.setattr(survivors, "HOME_BYTES", -1)
    if many:
        monkeypatch.setattr(partition, "MOST_VALUES", M * 200)
    X, n_processes = rng.integers(0, 3, (M, 12_000), dtype=np.int8), 7
    write_matrix(tmp_path / "x.zarr", X, chunks=(50, M), dims=("variants", "samples"))
    setting = Setting(RATES, 2 * n_processes, n_processes)
    with (
        LocalCluster(
            n_workers=n_processes,
            threads_per_worker=2,
            processes=False,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        DaskRuntime(client, scratch=tmp_path) as runtime,
    ):
        asked = {"solver": "lowrank", "step": 0.5, "progress": False}
        dhsic.select(tmp_path / "x.zarr", np.arange(M) % 2, runtime=runtime, **asked)
        passes = list(runtime.traffic)
    assert any(done.n_joins for done in passes)
    assert any(done.n_tasks > n_processes for done in passes) == many
    for done in passes:
        step = Step(n_jobs=done.n_jobs, n_values=done.n_values, sum_bytes=int(done.is_sum))
        foreseen = len(setting.shares(step)), sum(setting.joins(step))
        assert (done.n_tasks, done.n_joins) == foreseen
        assert many or done.n_tasks + done.n_joins < 2 * n_processes


@given(st.data())
def test_a_reader_that_counts_decides_as_one_that_reads(data):
    """The same blocks, the same bytes, whatever was kept apart before."""
    m, d = data.draw(st.integers(2, 9)), data.draw(st.integers(40, 300))
    compact = data.draw(st.sampled_from([0, 300, 1 << 20]))
    X = np.ones((m, d), dtype=data.draw(st.sampled_from(["i1", "f4"])))
    source = ArraySource(X)
    source.in_memory = data.draw(st.booleans())
    with Threads(1) as runtime, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "COMPACT_BYTES", compact)
        real = Reader(source, runtime)
        counting = CountingReader(DryRun(), source, runtime)
        S = np.arange(d)
        try:
            real.measure(Measure())
            counting.measure(Measure())
            assert real.bytes_read == counting.bytes_read
            for _ in range(4):
                kept = data.draw(st.sets(st.sampled_from(S.tolist()), min_size=1))
                S = np.array(sorted(kept))
                real.compact(S)
                counting.compact(S)
                ours, theirs = real.jobs(S), counting.jobs(S)
                assert [job.blocks for job in ours] == [job.blocks for job in theirs]
                assert real.bytes_of(ours) == counting.bytes_of(theirs)
        finally:
            real.close()


@pytest.mark.parametrize("solver", ["exact", "lowrank"])
def test_memory_is_what_the_run_promises(store, data, solver):
    with Threads(3) as runtime:
        told = plan(store, data[1], rates=RATES, solver=solver, runtime=runtime, interactions=None)
        source = dhsic.open_source(store)
        run = SelectionRun(dhsic.BAHSIC(solver=solver), source, data[1], runtime)
        promised = run.selector.memory_estimate(run)[0]

    for part in ("squares", "tasks", "survivors", "vectors", "landmarks"):
        assert getattr(told.promise, part) == getattr(promised, part), part
    assert told.worker is None


def test_a_worker_needs_no_more_where_there_are_more(store, data):
    few, many = (plan(store, data[1], rates=RATES, n_workers=n) for n in (2, 200))

    assert few.worker == many.worker
    parts = few.worker.process, few.worker.states, few.worker.tasks, few.worker.survivors
    assert few.worker.total == sum(parts) + SLACK_BYTES


def test_a_worker_needs_more_with_more_threads(store, data):
    one, four = (
        plan(store, data[1], rates=RATES, n_workers=2, worker_threads=n) for n in (None, 4)
    )

    assert (one.worker_threads, four.worker_threads, four.n_workers) == (1, 4, 2)
    assert four.worker.blocks == 4 * one.worker.blocks
    assert "each worker with 4 threads: at most" in str(four)
    assert "workers have 4 threads each" in " ".join(str(four).split())
    assert "2 workers of a cluster, 4 threads each" in str(four)


def test_a_worker_of_a_cluster_needs_what_the_run_checks(store, data, client, tmp_path):
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        told = plan(store, data[1], rates=RATES, runtime=runtime)
        tightest = runtime.tightest()
        run = SelectionRun(dhsic.BAHSIC(), dhsic.open_source(store), data[1], runtime)

        assert (told.n_workers, told.worker_threads) == (2, 2)
        assert told.worker == run.on_worker(tightest)

        small = replace(tightest, limit=told.worker.total - told.worker.survivors - 1)
        runtime.tightest = lambda: small
        with pytest.raises(MemoryBudgetError) as planned:
            plan(store, data[1], rates=RATES, runtime=runtime)
        with pytest.raises(MemoryBudgetError) as selected:
            dhsic.select(store, data[1], runtime=runtime, progress=False)
    assert str(planned.value) == str(selected.value)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_plan(store, data, method):
    told = plan(store, data[1], method=method, rates=RATES, n_workers=7)

    lines = str(told).splitlines()
    assert lines[0].startswith("Plan of a run: ")
    assert max(map(len, lines)) <= 100
    plain = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    assert plain["data"]["n_features"] == D
    assert plain["data"]["chunk"] == [50, M]
    assert plain["memory"]["total"] == told.promise.total
    assert plain["worker_memory"]["total"] == told.worker.total
    if method in METHODS_OF_ROUNDS:
        assert plain["rounds"]["count"] == told.n_rounds
    else:
        assert (plain["rounds"], plain["work"], plain["times"]) == (None, None, [])
        assert "depends on the data" in str(told)


def test_times_are_told_for_a_few_sizes(store, data):
    here = plan(store, data[1], rates=RATES, solver="exact", runtime=Threads(3))
    there = plan(store, data[1], rates=RATES, solver="exact", n_workers=25)

    assert [t.n_workers for t in here.times] == [1, 2, 3, 10]
    assert [t.n_workers for t in there.times] == [1, 2, 10, 25]
    assert all(t.on_cluster for t in there.times)
    assert [t.on_cluster for t in here.times][:3] == [False] * 3
    assert all(t.seconds == t.at_most for t in here.times)


def test_low_rank_has_two_ends(data):
    X = np.zeros((700, 50_000), dtype=np.int8)
    told = plan(X, np.arange(700) % 2, rates=RATES, solver="auto", runtime=Threads(1))

    assert told.times[0].seconds < told.times[0].at_most
    assert any("low rank" in line for line in told.assumed)
    lowrank, exact = (
        plan(X, np.arange(700) % 2, rates=RATES, solver=solver, runtime=Threads(1))
        for solver in ("lowrank", "exact")
    )
    assert lowrank.times[0].seconds < exact.times[0].seconds


def test_time_follows_from_rates(store, data):
    """Twice as fast a machine takes half of what is not overhead."""
    told = plan(store, data[1], rates=RATES, solver="exact")

    def alone(factor):
        rates = Rates(*(factor * rate for rate in RATES.plain().values()))
        return Expected.of(told.work, rates, 1, on_cluster=False).seconds

    overhead = alone(1e9)
    assert alone(1.0) - overhead == pytest.approx(2 * (alone(2.0) - overhead))


def test_rates_are_measured_where_none_are_given(store, data):
    told = plan(store, data[1])
    again = plan(store, data[1], rates=told.rates.plain())

    assert all(rate > 0 for rate in told.rates.plain().values())
    assert again.rates == told.rates
    assert plan(data[0], data[1]).rates.plain()["decode"] is None


def test_nothing_is_read_where_rates_are_given(store, data, monkeypatch):
    source = dhsic.open_source(store)
    monkeypatch.setattr(type(source), "read", lambda *args: pytest.fail("it was read"))

    assert plan(source, data[1], rates=RATES).n_rounds > 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_workers": 2, "worker_memory": "100MB"}, MemoryBudgetError, "worker_memory=.*give"),
        ({"worker_memory": "100MB"}, MemoryBudgetError, "memory_limit="),
        ({"memory_limit": 10**7}, MemoryBudgetError, "memory_limit="),
        ({"worker_memory": "some"}, InputError, "worker_memory='some' is not an amount"),
        ({"worker_memory": -1}, InputError, "number of bytes"),
        ({"n_workers": 0}, InputError, "n_workers=0; pass a number of workers"),
        (
            {"n_workers": 2, "worker_threads": 0},
            InputError,
            "worker_threads=0; pass a number of",
        ),
        (
            {"worker_threads": 2},
            InputError,
            "worker_threads=2 describes .*pass n_workers=",
        ),
        ({"rates": {"float32": 1.0}}, InputError, "pass a dhsic.plans.Rates, or a mapping"),
        ({"rates": RATES.plain() | {"decode": 0}}, InputError, "rates.'decode'.=0"),
        ({"stepp": 1}, InputError, "stepp: unknown parameter of method 'bahsic'"),
        ({"step": 2.5}, InputError, "step=2.5"),
        ({"method": "best"}, InputError, "method='best' is unknown"),
        (
            {"method": "ccm", "feature_groups": ["a"] * D},
            InputError,
            "not support feature_groups",
        ),
    ],
)
def test_what_cannot_be_is_refused(store, data, options, error, message):
    with pytest.raises(error, match=message):
        plan(store, data[1], **({"rates": RATES} | options))


def test_a_worker_is_refused_by_what_it_would_spend_memory_on(tmp_path):
    """Wide chunks ask for another layout, many samples for fewer of them or low rank."""
    wide = tmp_path / "wide.zarr"
    write_matrix(wide, np.zeros((2000, 75_000), dtype=np.int8), chunks=(75_000, 2000))
    with pytest.raises(MemoryBudgetError, match="narrower chunks"):
        plan(wide, np.arange(2000) % 2, n_workers=4, worker_memory="1GB", rates=RATES)

    with pytest.raises(MemoryBudgetError, match=r"memory_limit=.*narrower chunks"):
        plan(wide, np.arange(2000) % 2, rates=RATES, memory_limit=10**9, runtime=Threads(2))


@pytest.mark.parametrize(
    ("m", "remedy"), [(5000, "use fewer samples, or"), (7000, "samples or solver='lowrank'")]
)
def test_many_samples_are_refused_with_what_helps(m, remedy):
    X, y = np.zeros((m, 50), dtype=np.int8), np.arange(m) % 2
    ample = {"rates": RATES, "memory_limit": 10**12}
    with pytest.raises(MemoryBudgetError, match=remedy):
        plan(X, y, n_workers=4, worker_memory="900MB", solver="exact", **ample)
    with pytest.raises(MemoryBudgetError, match=r"memory_limit=.*Most of it holds m x m matrices"):
        plan(X, y, rates=RATES, memory_limit=10**9, solver="exact")

    if "lowrank" in remedy:
        for solver in ("lowrank", "auto"):
            told = plan(X, y, n_workers=4, worker_memory="900MB", solver=solver, **ample)
            assert told.worker.total < 900 * 10**6


def test_data_of_this_process_do_not_travel():
    X = np.zeros((100, 700_000), dtype=np.int8)
    y = np.arange(100) % 2

    with pytest.raises(ClusterError, match="Write them to Zarr"):
        plan(X, y, n_workers=2, rates=RATES)
    assert not any(t.on_cluster for t in plan(X, y, rates=RATES, runtime=Threads(1)).times)


def test_halves_are_told_of(store, data):
    told = plan(store, data[1], rates=RATES, stability=20)

    assert "20 runs over half of the samples" in " ".join(str(told).split())


def test_labels_of_another_length_are_refused(store):
    with pytest.raises(InputError, match="7"):
        plan(store, np.arange(7), rates=RATES)


class Structure(HTMLParser):
    """Tags that are open, and how many there were of each."""

    def __init__(self):
        super().__init__()
        self.open, self.counts = [], {}

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_notebook_gets_a_table(store, data):
    told = plan(store, data[1], rates=RATES, n_workers=3)
    page, parser = told._repr_html_(), Structure()
    parser.feed(page)

    assert parser.open == []
    assert parser.counts["table"] == 1
    assert parser.counts["tr"] == parser.counts["td"] == parser.counts["th"]
    assert page.count("#") == 0  # colours are those of the page
    assert isinstance(told, Plan)


def test_a_plan_is_a_line_where_it_is_not_printed(store, data):
    told = plan(store, data[1], rates=RATES, n_workers=3)
    assert repr(told) == "<Plan of bahsic: 60 samples x 1,200 features, 60 rounds, 3 workers>"


def test_html_is_escaped(store, data):
    told = plan(store, data[1], rates=RATES)
    object.__setattr__(told, "description", "<b>&")

    assert "&lt;b&gt;&amp;" in told._repr_html_()


def test_a_plan_runs_nothing():
    with pytest.raises(TypeError, match="does not run anything"):
        PlannedRuntime(2).map(None, None, [], None)


@pytest.fixture(scope="module")
def genotypes(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "x.vcz"
    done = CliRunner().invoke(main, ["simulate", str(path), "--samples", "60", "--variants", "400"])
    assert done.exit_code == 0, done.output
    return path


def told_by(*args, code=0):
    done = CliRunner().invoke(main, ["plan", *map(str, args)], prog_name="dhsic")
    assert done.exit_code == code, done.output
    return done


def test_the_command_takes_the_options_of_select(genotypes, tmp_path):
    out, kept = tmp_path / "new" / "out.zarr", tmp_path / "run.dhsic"
    options = ("--target", "sample_trait", "--step", "0.5", "--solver", "exact", "--threads", 2)
    shown = told_by(genotypes, *options, "--out", out, "--checkpoint", kept).stdout
    plain = json.loads(told_by(genotypes, *options, "--json").stdout)

    assert "Plan of a run: BAHSIC with the gaussian kernel" in shown
    assert "60 samples x 400 features" in shown
    assert plain["rounds"]["count"] == 10
    assert plain["n_workers"] == 2
    assert list(tmp_path.iterdir()) == []


def test_the_command_plans_for_a_cluster(genotypes):
    options = (genotypes, "--target", "sample_trait", "--workers", 12)
    plain = json.loads(told_by(*options, "--worker-memory", "4GB", "--json").stdout)
    refused = told_by(*options, "--worker-memory", "10MB", code=5)

    assert plain["runtime"] == "dask"
    assert [t["n_workers"] for t in plain["times"]] == [1, 2, 10, 12]
    assert "--worker-memory" in refused.stderr
    assert "leave out --scheduler" in told_by(*options, "--threads", 2, code=2).stderr


def test_slices_of_many_samples_stay_on_workers():
    """What is of size m is worked on there, slice by slice, and little of it is promised here."""
    m = 500_000
    asked = dhsic.BAHSIC(10, step=0.5, standardize=False, memory_limit=1 << 62)
    kept = []
    for chunk in (1000, m):  # of a store that spans all samples there is one slice
        source = CountedSource(m, 20_000, np.int8, 1000, in_memory=False, samples=chunk)
        run = SelectionRun(asked, source, np.arange(m) % 2, PlannedRuntime(160))
        promise, budget = asked.memory_estimate(run)
        steps = work_of(run, budget).least.steps
        kept.append((promise.total - promise.process, max(s.sum_bytes for s in steps)))
        assert any(s.n_jobs == 30 for s in steps) == (chunk < m)
    (few, small), (many, large) = kept

    assert few < 4.5e8 < 5e9 < many
    assert small < 1e6 < 1e8 < large


def test_genotypes_that_nobody_has_are_planned_as_those_of_a_store(genotypes):
    """Sizes alone say what the store of the same sizes says, but for how its chunks lie."""
    asked = ("--step", "0.5", "--solver", "exact", "--threads", 2, "--json")
    there = json.loads(told_by(genotypes, "--target", "sample_trait", *asked).stdout)
    given = ("--samples", 60, "--variants", 400, "--classes", 2)
    to_come = json.loads(told_by(*given, *asked).stdout)

    assert (to_come["data"]["n_samples"], to_come["data"]["n_features"]) == (60, 400)
    for part in ("squares", "vectors", "landmarks"):
        assert to_come["memory"][part] == there["memory"][part]
    assert to_come["rounds"] == there["rounds"]
    assert "nobody" not in to_come["values"]
    assert any("stored as in VCF Zarr" in told for told in to_come["assumed"])


@pytest.mark.slow
def test_sizes_make_a_plan_at_once():
    told = plan(Sizes(100_000, 5_000_000), n_workers=8, worker_threads=4, rates=RATES, step=0.2)
    assert (told.data.n_samples, told.data.n_features) == (100_000, 5_000_000)
    assert told.work.bytes_read[0] > 100_000 * 5_000_000
    values = Sizes(30, 2500).read(Sizes(30, 2500).blocks(1000)[1])
    assert values.shape == (30, 1000)
    assert set(np.unique(values)) == {0, 1, 2}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("x.zarr", "--samples", 5), "Leave out these options, or PATH"),
        (("--samples", 5), "--variants D"),
        (("--samples", 5, "--variants", 9, "--target", "y"), "--target needs data"),
    ],
)
def test_sizes_stand_alone(options, said):
    assert said in " ".join(told_by(*options, code=2).stderr.split())


@pytest.mark.parametrize("sizes", [(1, 5), (5, 0), (True, 5), ("a", 5)])
def test_sizes_are_numbers(sizes):
    with pytest.raises(InputError, match="pass a whole number, at least"):
        Sizes(*sizes)
