"""Several runs over one reading: each finds what it finds alone, bit for bit."""

import json
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal
from stores import write_matrix

import dhsic
from dhsic import passes
from dhsic.cli import main
from dhsic.errors import InputError
from dhsic.linalg import directions
from dhsic.passes import reader, shared_scan, statistic
from dhsic.runtime.dask import DaskRuntime
from dhsic.selection import batch as many
from dhsic.selection.multi_output import parts

QUIET = {"progress": False}


def genotypes(rng, m=60, d=400):
    return rng.binomial(2, rng.uniform(0.1, 0.5, d), (m, d)).astype("i1")


def traits(rng, X):
    noise = rng.standard_normal((3, len(X)))
    return {
        "case": (X[:, 3] + X[:, 9] + noise[0] > 2).astype(int),
        "height": X[:, 5] * 1.0 + noise[1],
        "eye": np.array(["blue", "brown", "green"])[(X[:, 7] + (noise[2] > 1)).clip(max=2)],
    }


def assert_same_run(found, alone):
    """Bit for bit, but for what reading took."""
    told = {"round_seconds", "round_bytes_read"}
    assert set(found.data_vars) == set(alone.data_vars)
    for name in set(alone.data_vars) - told:
        assert_array_equal(found[name].to_numpy(), alone[name].to_numpy(), err_msg=name)
    for name in set(alone.attrs) - {"created", "promised_bytes"}:
        assert found.attrs[name] == alone.attrs[name], name


METHODS = {
    "exact": {"solver": "exact", "step": 0.3},
    "low rank": {"solver": "lowrank", "step": 0.3},
    "additive": {"kernel": "linear", "solver": "lowrank", "step": 0.3},
    "forward": {"method": "fohsic", "n_features_to_select": 5},
    "linear": {"method": "linear"},
    "criterion": {"method": "kta"},
    "weighting": {"method": "weighting", "tol": 10.0},
    "ccm": {"method": "ccm", "max_iterations": 3, "tol": 100.0},
}


@pytest.mark.parametrize("method", METHODS)
def test_each_target_is_ranked_as_alone(rng, method):
    X = genotypes(rng)
    y = traits(rng, X)
    options = {"n_features_to_select": 7, **METHODS[method], **QUIET}
    found = dhsic.select(X, y, per_target=True, **options)
    assert found["rank"].dims == ("targets", "features")
    for name, part in parts(found):
        assert_same_run(part, dhsic.select(X, y[name], **options))


@pytest.mark.parametrize("criterion", sorted(dhsic.criteria.CRITERIA))
def test_criteria_of_each_target_are_those_of_one_alone(rng, criterion):
    X = genotypes(rng, d=90)
    y = {str(i): (X[:, i] + rng.standard_normal(60) > 1).astype(int) for i in range(3)}
    options = {"method": criterion, "n_features_to_select": 7, **QUIET}
    for name, part in parts(dhsic.select(X, y, per_target=True, **options)):
        assert_same_run(part, dhsic.select(X, y[name], **options))


def test_passes_that_are_the_same_are_run_once(rng, monkeypatch):
    X, of = genotypes(rng), []
    y = traits(rng, X)["case"]
    settings = [{"bandwidth": 0.001}, {"bandwidth": 0.01}, {"bandwidth": 0.1}]
    over = statistic.MeasureLandmarks.over

    def count(self, *asked):
        of.append(1)
        return over(self, *asked)

    monkeypatch.setattr(statistic.MeasureLandmarks, "over", count)
    options = {"solver": "lowrank", "step": 0.3, "n_features_to_select": 7, **QUIET}
    alone = [dhsic.select(X, y, **options, **own) for own in settings]
    n = len(of) // 3
    found = dhsic.select_many(X, y, settings, **options)
    assert len(of) == 4 * n
    for (_, part), one in zip(parts(found), alone, strict=True):
        assert_same_run(part, one)


@pytest.mark.parametrize("method", ["additive", "linear"])
def test_values_are_standardised_once_for_all_targets(rng, monkeypatch, method):
    X, of = genotypes(rng), []
    y = traits(rng, X)
    counted(monkeypatch, passes, "standardise", of)
    options = {"n_features_to_select": 7, **METHODS[method], **QUIET}
    dhsic.select(X, y["case"], **options)
    n = len(of)
    dhsic.select(X, y, per_target=True, **options)
    assert len(of) == 2 * n > 0


def test_features_are_measured_once_for_all_targets(rng, monkeypatch):
    X, of = genotypes(rng), []
    y = traits(rng, X)
    counted(monkeypatch, statistic, "scaling_of", of)
    options = {"n_features_to_select": 7, **METHODS["low rank"], **QUIET}
    dhsic.select(X, y["case"], **options)
    n = len(of)
    dhsic.select(X, y, per_target=True, **options)
    assert len(of) == 2 * n > 0


@pytest.mark.parametrize("method", ["additive", "criterion"])
def test_features_are_multiplied_once_for_all_targets(rng, monkeypatch, method):
    X, of = genotypes(rng), []
    y = {name: (X[:, i] > 0).astype(int) for i, name in enumerate("abc")}
    options = {"n_features_to_select": 7, **METHODS[method], **QUIET}
    counted(monkeypatch, directions.Directions, "times", of)
    dhsic.select(X, y["a"], **options)
    n = len(of)
    dhsic.select(X, y, per_target=True, **options)
    assert len(of) == 2 * n > 0


def counted(monkeypatch, module, name, of):
    """Have calls of a function noted."""
    function = getattr(module, name)

    def count(*asked, **told):
        of.append(name)
        return function(*asked, **told)

    monkeypatch.setattr(module, name, count)


def test_a_store_is_read_once(rng, tmp_path):
    path = simulated(tmp_path, 400)
    y = traits(rng, np.zeros((60, 20), dtype=int))
    options = {"n_features_to_select": 7, "solver": "lowrank", "step": 0.3, **QUIET}
    found = dhsic.select(path, y, per_target=True, **options)
    for name, part in parts(found):
        assert_same_run(part, dhsic.select(path, y[name], **options))
    alone = dhsic.select(path, y["case"], **options)
    assert found["round_bytes_read"].sum() == alone["round_bytes_read"].sum()


def simulated(tmp_path, n_variants=2000):
    path = str(tmp_path / "g.vcz")
    CliRunner().invoke(main, ["simulate", path, "--samples", "60", "--variants", str(n_variants)])
    return path


@pytest.mark.slow
def test_memory_that_holds_one_run_does_one_at_a_time(rng, tmp_path, monkeypatch):
    path = simulated(tmp_path)
    y = {"one": rng.standard_normal(60), "two": rng.standard_normal(60)}
    options = {"n_features_to_select": 7, "solver": "lowrank", "step": 0.5, **QUIET}
    together = dhsic.select(path, y, per_target=True, **options)
    monkeypatch.setattr(many, "at_once", lambda asked, _: (1, asked[0].needed))
    assert_same_ranks(dhsic.select(path, y, per_target=True, **options), together)
    monkeypatch.undo()
    monkeypatch.setattr(reader, "COMPACT_BYTES", 0)  # nothing is loaded: blocks are read together
    stored = dhsic.select(path, y, per_target=True, **options)
    for name, part in parts(stored):
        assert_same_run(part, dhsic.select(path, y[name], **options))


def assert_same_ranks(found, expected):
    for name in ("rank", "score"):
        assert_array_equal(found[name].to_numpy(), expected[name].to_numpy())


def test_blocks_that_are_stored_are_read_for_all_runs(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "COMPACT_BYTES", 0)
    path, blocks = simulated(tmp_path), []
    y = {str(i): rng.standard_normal(60) for i in range(4)}
    source = dhsic.open_source(path)
    read = type(source).read

    def counted(self, block, rows=None):
        blocks.append(block)
        return read(self, block, rows)

    monkeypatch.setattr(type(source), "read", counted)
    dhsic.select(path, y["0"], method="pearson", **QUIET)
    n = len(blocks)
    dhsic.select(path, y, method="pearson", per_target=True, **QUIET)
    assert len(blocks) == 2 * n  # with those of the first run


def test_settings_are_runs_of_their_own(rng):
    X = genotypes(rng)
    y = traits(rng, X)["case"]
    settings = [{"bandwidth": 0.001}, {"bandwidth": "median"}, {"kernel": "linear"}]
    options = {"n_features_to_select": 7, "step": 0.3, **QUIET}
    found = dhsic.select_many(X, y, settings, **options)
    assert found["settings"].values.tolist()[:2] == ["bandwidth=0.001", "bandwidth=median"]
    for (_, part), own in zip(parts(found), settings, strict=True):
        alone = dhsic.select(X, y, **options, **own)
        assert_same_run(part.drop_vars({*part.data_vars} - {*alone.data_vars}), alone)


@pytest.mark.slow
def test_stability_is_of_each_target(rng):
    X = genotypes(rng, d=50)
    y = traits(rng, X)
    options = {"n_features_to_select": 5, "step": 0.5, "stability": 4, **QUIET}
    options["rerank"] = False
    found = dhsic.select(X, y, per_target=True, **options)
    for name, part in parts(found):
        assert_same_run(part, dhsic.select(X, y[name], **options))


class StopError(Exception):
    """What ends a run in the middle."""


def test_a_run_that_is_killed_goes_on_to_the_same_bits(rng, tmp_path):
    X = genotypes(rng)
    y = traits(rng, X)
    options = {"n_features_to_select": 7, "solver": "lowrank", "step": 0.3}
    expected = dhsic.select(X, y, per_target=True, **options, **QUIET)
    place = tmp_path / "run"

    def stop(told):
        if told["round"] == 4 and told["run"] == 1:
            raise StopError

    kept = {"per_target": True, "checkpoint": place}
    with pytest.raises(StopError):
        dhsic.select(X, y, **options, **kept, progress=stop)
    rounds = []
    found = dhsic.select(X, y, **options, **kept, progress=rounds.append)
    assert 0 < len(rounds) < expected.sizes["rounds"] * 3
    assert_same_ranks(found, expected)
    assert sorted(p.name for p in tmp_path.glob("run.targets/*")) == ["001", "002"]


def test_a_target_that_is_refused_is_named(rng):
    X = genotypes(rng, d=20)
    y = traits(rng, X) | {"bad": np.full(60, np.nan)}
    with pytest.raises(InputError, match=r"^bad: 60 of 60 labels are missing"):
        dhsic.select(X, y, per_target=True, **QUIET)
    with pytest.raises(InputError, match="needs at least one target"):
        dhsic.select(X, {}, per_target=True, **QUIET)
    with pytest.raises(InputError, match="settings= is empty"):
        dhsic.select_many(X, y["case"], [], **QUIET)


def test_targets_come_in_many_forms(rng):
    X = genotypes(rng, d=30)
    named = {name: labels for name, labels in traits(rng, X).items() if name != "eye"}
    frame = pd.DataFrame(named)
    expected = dhsic.select(X, named, per_target=True, **QUIET)
    for target in (frame, frame.to_numpy()):
        found = dhsic.select(X, target, per_target=True, **QUIET)
        assert_array_equal(found["rank"][1], expected["rank"][1])
    one = dhsic.select(X, named["case"], per_target=True, **QUIET)
    assert_array_equal(one["rank"][0], expected["rank"][0])
    assert dhsic.select(X, frame, per_target=True, **QUIET)["targets"].values.tolist() == [*named]


def test_a_result_is_kept_and_read_and_written_as_a_table(rng, tmp_path):
    X = genotypes(rng, d=30)
    y = traits(rng, genotypes(rng))
    found = dhsic.select(X, y, n_features_to_select=3, per_target=True, **QUIET)
    dhsic.save(found, tmp_path / "r.zarr")
    back = dhsic.load(tmp_path / "r.zarr")
    assert_same_ranks(back, found)
    assert back["targets"].values.tolist() == found["targets"].values.tolist()
    dhsic.save(found, tmp_path / "r.tsv")
    table = pd.read_csv(tmp_path / "r.tsv", sep="\t").sort_values("index")
    assert_array_equal(table["rank_height"], found["rank"].sel(targets="height"))
    with pytest.raises(InputError, match="several runs, along 'targets'"):
        dhsic.selected_features(found)
    assert dhsic.selected_features(found.sel(targets="case")).sizes["features"] == 3


def test_an_error_of_a_pass_is_told_and_no_thread_is_left(rng, monkeypatch):
    X = genotypes(rng, d=20)

    def fails(*_):
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr(shared_scan, "run_together", fails)
    before = threading.active_count()
    with pytest.raises(OSError, match="the disk is gone"):
        dhsic.select(X, traits(rng, X), per_target=True, method="kta", **QUIET)
    assert not [t for t in threading.enumerate() if t.name == "dhsic-run"]
    assert threading.active_count() <= before + 2


def test_command_line(rng, tmp_path):
    path = simulated(tmp_path)
    names = dhsic.open_source(path).sample_names()
    frame = pd.DataFrame({"sample": names, "a": rng.standard_normal(60), "b": np.arange(60) % 2})
    frame["b"] = frame["b"].map({0: "no", 1: "yes"})
    frame.loc[[1, 2], "b"] = "NA"
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    asked = ["select", path, "--labels", str(tmp_path / "t.tsv"), "-n", "3", "--step", "0.5"]
    asked += ["--drop-missing", "--json", "--no-rerank"]

    def selected(*more):
        outcome = CliRunner().invoke(main, [*asked, *more])
        assert outcome.exit_code == 0, outcome.output
        return json.loads(outcome.stdout), outcome.stderr

    both, said = selected("--target", "a", "--target", "b", "--per-target")
    assert "targets have different samples: a 60, b 58 of 60" in " ".join(said.split())
    for name in "ab":
        alone, _ = selected("--target", name)
        assert both["targets"][name]["selected"] == alone["selected"]
    refused = CliRunner().invoke(main, [*asked, "--target", "a", "--target", "a", "--per-target"])
    assert refused.exit_code != 0
    assert "each once" in refused.output


@pytest.mark.slow
def test_command_line_ranks_for_each_class(rng, tmp_path):
    path, out = simulated(tmp_path), tmp_path / "o.tsv"
    names = dhsic.open_source(path).sample_names()
    cells = np.array(["B", "NK", "T"])[rng.integers(0, 3, 60)]
    frame = pd.DataFrame({"sample": names, "cell": cells, "age": rng.standard_normal(60)})
    frame["code"] = rng.integers(0, 2, 60) + rng.integers(1, 3, 60) / 2
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    asked = ["--labels", str(tmp_path / "t.tsv"), "-n", "3", "--target"]
    step = ["--step", "0.5", "--no-rerank"]

    def run(command, *more):
        return CliRunner().invoke(main, [command, path, *asked, *more])

    place = str(tmp_path / "run")
    found = run("select", "cell", "--per-class", *step, "--out", str(out), "--checkpoint", place)
    assert found.exit_code == 0, found.output
    assert "each class against the rest" in " ".join(found.stderr.split())
    options = {"n_features_to_select": 3, "step": 0.5, "rerank": False, **QUIET}
    expected = dhsic.select(path, cells, per_class=True, **options)
    table = pd.read_csv(out, sep="\t").set_index("index").sort_index()
    for name in ("B", "NK", "T"):
        np.testing.assert_array_equal(table[f"rank_{name}"], expected["rank"].sel(classes=name))
    again = CliRunner().invoke(main, ["resume", place, "--out", str(tmp_path / "o.zarr"), "--json"])
    assert [*json.loads(again.stdout)["classes"]] == ["B", "NK", "T"]
    assert_same_ranks(dhsic.load(tmp_path / "o.zarr"), expected)
    tested = run("test", "cell", "--per-class", "--json")
    assert [*json.loads(tested.stdout)["classes"]] == ["B", "NK", "T"]
    planned = run("plan", "cell", "--per-class", *step)
    assert "this is one of 3 runs (--per-class)" in " ".join(planned.stdout.split())
    classes = run("select", "code", "--per-class", "--label-kernel", "multiclass", *step, "--json")
    assert len(json.loads(classes.stdout)["classes"]) == frame["code"].nunique()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ["age", "--per-class"],
            r"values \(-?[0-9.]+ to [0-9.]+\).*pass --label-kernel multiclass",
        ),
        (["cell", "--target", "age", "--per-class"], "each class of one --target"),
        (["cell", "--per-target", "--per-class"], "one --target, without --per-target"),
        (["cell", "--per-class", "--detach"], "--per-class needs one run per class; pass only"),
        (["one", "--per-class"], "so nothing can depend on them"),
        (["rare", "--per-class"], "Error: c: The labels do not vary .* a class of one sample"),
    ],
)
def test_what_has_no_classes_is_refused(more, said, rng, tmp_path):
    path = simulated(tmp_path)
    frame = pd.DataFrame({"sample": dhsic.open_source(path).sample_names(), "one": "a"})
    frame["cell"], frame["age"] = np.arange(60) % 3, rng.standard_normal(60)
    frame["rare"] = ["c", *["a", "b"] * 29, "a"]
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    asked = ["select", path, "--labels", str(tmp_path / "t.tsv"), "--target", *more]
    refused = CliRunner().invoke(main, asked)
    assert refused.exit_code == 2
    assert re.search(said, " ".join(refused.output.split()))


def stored(rng, folder):
    """A store of values and one of dosages, and three targets."""
    X = rng.standard_normal((60, 900)).astype(np.float32)
    write_matrix(folder / "x.zarr", X, chunks=(300, 60))
    write_matrix(folder / "dosages.zarr", genotypes(rng, d=900), chunks=(300, 60))
    return {str(i): (X[:, i] + rng.standard_normal(60) > 0).astype(int) for i in range(3)}


@pytest.mark.parametrize(
    ("name", "survivors"),
    [
        ("exact", "have no place"),
        ("low rank", "come home"),
        ("low rank", "stay away"),
        ("low rank", "have no place"),
        ("forward", "stay away"),
        ("weighting", "come home"),
    ],
)
def test_on_a_cluster_runs_find_what_they_find_alone_here(
    name, survivors, rng, client, tmp_path, monkeypatch
):
    y, options = stored(rng, tmp_path), {"n_features_to_select": 7, **METHODS[name], **QUIET}
    if survivors != "come home":
        monkeypatch.setattr("dhsic.passes.survivors.HOME_BYTES", 0)
    store = tmp_path / ("x.zarr" if name == "exact" else "dosages.zarr")

    def source():
        return dhsic.open_source(store, n_samples=60)

    with DaskRuntime(client, scratch=tmp_path) as runtime:
        runtime.workers_see_folder = survivors != "have no place"
        found = dhsic.select(source(), y, per_target=True, runtime=runtime, **options)
    for target, part in parts(found):
        alone = dhsic.select(source(), y[target], runtime="threads", **options)
        part.attrs["runtime"] = alone.attrs["runtime"]
        assert_same_run(part, alone)


@pytest.mark.slow
def test_a_killed_command_resumes_to_the_same_bits(tmp_path):
    path = simulated(tmp_path)
    names, rng = dhsic.open_source(path).sample_names(), np.random.default_rng(3)
    frame = pd.DataFrame({"sample": names, "a": rng.standard_normal(60), "b": np.arange(60) % 2})
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    asked = ["select", path, "--labels", str(tmp_path / "t.tsv"), "--target", "a", "--target", "b"]
    asked += ["--per-target", "-n", "3", "--step", "18", "--solver", "exact"]
    asked += ["--no-rerank"]
    whole = CliRunner().invoke(main, [*asked, "--out", str(tmp_path / "whole.zarr")])
    assert whole.exit_code == 0, whole.output
    place, out = tmp_path / "run", str(tmp_path / "out.zarr")
    command = [sys.executable, "-m", "dhsic", *asked, "--checkpoint", str(place), "--out", out]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    late, round_ = time.monotonic() + 60, tmp_path / "run.targets" / "001" / "rounds" / "000005"
    while not round_.exists() and time.monotonic() < late:
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    resumed = CliRunner().invoke(main, ["resume", str(place)])
    assert resumed.exit_code == 0, resumed.output
    assert resumed.stdout == whole.stdout
    assert_same_ranks(dhsic.load(out), dhsic.load(tmp_path / "whole.zarr"))
