"""The command line: a round trip, its output, and how it fails."""

import json
import re
import signal
import subprocess
import sys
import time
from typing import get_args

import click
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import QUICK, SIMULATE, D, M, run, selected, told

import dhsic
from dhsic.cli import main
from dhsic.cli.job import SelectJob
from dhsic.cli.options import OF_RUNS
from dhsic.errors import ClusterError
from dhsic.hsic import ESTIMATORS
from dhsic.kernels import KERNELS
from dhsic.kernels.labels import LABEL_KERNELS
from dhsic.methods.kernel import SOLVERS
from dhsic.results.files import load
from dhsic.selectors import METHODS, parameters_of
from dhsic.simulation.truth import read_truth
from dhsic.sources.options import MissingChunks

#: How a round was done. A resumed run has no earlier scores to guess from in its first round, and
#: may take another way to the same order.
HOW = (
    "seconds",
    "bytes_read",
    "engine",
)


#: Columns of the test of each feature alone.
MARGINAL = ("p_marginal", "q_marginal", "width_marginal", "shape_marginal")


def findings(result):
    """Content of a result that does not depend on when and how it ran, without scores."""
    kept = result.drop_vars(["score", *(f"round_{name}" for name in HOW)])
    when = ("created", "command", "promised_bytes", "engine")
    kept.attrs = {k: v for k, v in kept.attrs.items() if k not in when}
    return kept


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "g.vcz"
    run("simulate", path, *SIMULATE)
    return path


# A round trip ------------------------------------------------------------------------------


def test_simulate_says_where_things_are(tmp_path):
    path = tmp_path / "s.vcz"
    out = run("simulate", path, "--samples", 20, "--variants", 600).stdout
    assert out.splitlines()[-1].startswith("dhsic select ")
    assert str(path) in out
    assert str(tmp_path / "s.truth.tsv") in out
    assert run("simulate", path, "--samples", 20, code=2).stderr.startswith("Error: ")
    again = run("simulate", path, "--samples", 20, "--variants", 600, "--force", "--json")
    planted = json.loads(again.stdout)["planted"]
    assert planted == read_truth(tmp_path / "s.truth.tsv").variant_index.tolist()


def test_inspect_tells_shape_layout_and_targets(store):
    facts = json.loads(run("inspect", store, "--json").stdout)
    assert (facts["n_samples"], facts["n_features"], facts["missing_code"]) == (M, D, -1)
    layout = facts["layout"]
    assert layout["axes"] == ["features", "samples", "ploidy"]
    assert layout["has_checksum"]
    assert layout["sample_chunks"] == 1
    assert set(facts["targets"]) == {"sample_trait", "sample_population"}
    assert "2 classes" in facts["targets"]["sample_trait"]
    assert facts["promised_bytes"] > 0
    text = run("inspect", store).stdout
    assert "crc32c; checksummed" in text
    assert "60 samples x 1,200 features" in text


def test_inspect_gives_the_exact_fix_of_a_bad_layout(tmp_path):
    zarr.create_array(
        tmp_path / "bad.zarr",
        shape=(40_000, 1000),
        chunks=(100, 100),
        dtype="i1",
        dimension_names=("variants", "samples"),
    )
    facts = json.loads(run("inspect", tmp_path / "bad.zarr", "--json").stdout)
    advice = " ".join(facts["advice"])
    assert "split over 10 chunks" in advice
    assert "4,000 small chunks" in advice
    assert "chunks=(4096, 1000) along (variants, samples)" in advice
    assert "no checksums" in advice
    assert facts["targets"] == {}


def test_select_prints_a_table_and_writes_a_result(store, tmp_path):
    out = tmp_path / "sel.zarr"
    result = run("select", store, *QUICK, "--out", out)
    lines = result.stdout.splitlines()
    columns = [*("rank", "name", "contig", "position", "fall_given_others"), *MARGINAL[:2]]
    assert lines[0].split() == columns
    assert [line.split()[0] for line in lines[1:9]] == [str(i) for i in range(1, 9)]
    assert "peak memory" in result.stderr
    assert "2 classes 0 (30), 1 (30), kernel 'balanced'" in told(result)
    assert "peak memory at most" in result.stderr
    with xr.open_zarr(out) as opened:
        assert int(opened["selected"].sum()) == 8
        best = opened["feature"].to_numpy()[int(np.argmin(opened["rank"].to_numpy()))]
        assert opened.attrs["target"] == "sample_trait"
    assert lines[1].split()[1] == best


def test_json_is_one_object_and_nothing_else_on_stdout(store):
    facts = selected(store, *QUICK)
    assert [row["rank"] for row in facts["selected"]] == list(range(1, 9))
    assert facts["label_kernel"] == "balanced"
    assert facts["peak_bytes"] > 0
    assert list(facts["selected"][0]) == [
        *("rank", "score", "index", "name", "contig", "position", "id", "ref", "alt"),
        *("allele_frequency", "missing", "constant", "round_removed"),
        *("rank_alone", "fall_given_others", "score_first_round", *MARGINAL),
    ]
    said = " ".join(run("select", store, *QUICK).stderr.split())
    assert "re-ranked jointly by ridge regression" in said
    alone = run("select", store, *QUICK, "--no-rerank")
    assert "given the others" not in alone.stderr


def test_threads_and_method(store):
    one = selected(store, *QUICK[:-3], "--threads", 1)
    assert one["selected"] == selected(store, *QUICK)["selected"]
    assert selected(store, *QUICK, "--method", "linear")["rounds"] == 1
    linear = ("select", store, *QUICK, "--method", "linear")
    assert "--step" in run(*linear, "--step", 2, code=2).stderr


def test_truth_marks_planted_variants(store):
    truth = store.with_name("g.truth.tsv")
    args = (store, *QUICK[:2], "-n", D, "--truth", truth)
    facts = selected(*args)
    exactly = {row["index"] for row in facts["selected"] if row["planted"] in ("additive", "pair")}
    assert exactly == set(read_truth(truth).variant_index.tolist())
    found = facts["recovered"]
    assert [found[k] for k in ("planted", "recovered", "exactly", "by_neighbour")] == [6, 6, 6, 0]
    near = [row for row in facts["selected"] if str(row["planted"]).startswith("near")]
    places = read_truth(truth).frame()
    for row in near:
        same = places[places.contig == row["contig"]]
        assert (same.position - row["position"]).abs().min() <= found["near_bases"]
    text = run("select", *args).stdout
    assert "recovered 6 of 6 planted variants (6 exactly, 0 by a linked neighbour" in text
    assert "1,000 more" in text


def test_scores_that_are_not_above_0_are_explained(store):
    asked = (*QUICK[:2], "--no-rerank", "-n")
    scores = np.array([row["score"] for row in selected(store, *asked, 300)["selected"]])
    low = np.flatnonzero(scores <= 0)
    text = " ".join(run("select", store, *asked, 300).stdout.split())
    assert f"{low.size} selected features have a score of 0 or less (the first at rank" in text
    assert f"at rank {low[0] + 1}): HSIC did not decrease when the" in text
    assert "score of 0 or less" not in run("select", store, *asked, low[0]).stdout


def test_more_than_there_are_is_said(store):
    said = told(run("select", store, *QUICK, "-n", D + 1))
    assert "--n-features 1,201 exceeds the number of features, 1,200; all are selected" in said


def test_the_result_names_the_data_as_they_were_typed(store, tmp_path, monkeypatch):
    monkeypatch.chdir(store.parent)
    kept, out = tmp_path / "ck", tmp_path / "r.zarr"
    run("select", store.name, *QUICK, "--checkpoint", kept, "--out", out)
    assert load(out).attrs["data"] == "g.vcz"
    monkeypatch.chdir(tmp_path)
    run("resume", kept, "--force")
    assert load(out).attrs["data"] == "g.vcz"


@pytest.mark.filterwarnings("default::UserWarning")
def test_codes_for_missing_values_are_said(tmp_path):
    calls = np.random.default_rng(3).choice(np.array([0, 0, 1, 2, -9], "i1"), size=(12, 8))
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("dosage", data=calls, dimension_names=("samples", "variants"))
    trait = np.where(np.arange(12) < 2, -9, np.arange(12) % 2)
    group.create_array("trait", data=trait, dimension_names=("samples",))
    said = told(run("select", tmp_path / "g.zarr", "--target", "trait", "-n", "2", "--not-na", -9))
    assert "only 0, 1 and 2; -9 (" in said
    assert "treated as missing; features are centred, not scaled" in said
    assert "UserWarning" not in said


def test_truth_of_another_store_is_refused(store, tmp_path):
    run("simulate", tmp_path / "o.vcz", "--samples", M, "--variants", D, "--seed", 9)
    other = tmp_path / "o.truth.tsv"
    message = run("select", store, *QUICK, "--truth", other, code=2).stderr
    assert "pass the truth of this store" in message


# Resuming ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_selection_resumes_to_the_same_result(store, tmp_path):
    args = [store, *QUICK, "--step", "18"]
    run("select", *args, "--out", tmp_path / "whole.zarr")
    out, checkpoint = tmp_path / "resumed.zarr", tmp_path / "ck"
    command = [sys.executable, "-m", "dhsic", "select", *args]
    process = subprocess.Popen(
        [str(a) for a in (*command, "--checkpoint", checkpoint, "--out", out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not (checkpoint / "rounds" / "000005").exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    result = run("resume", checkpoint, "--threads", 1)
    assert re.search(r"continues checkpoint \S+ after \d+ rounds?", told(result))
    resumed, whole = load(out), load(tmp_path / "whole.zarr")
    xr.testing.assert_identical(findings(resumed), findings(whole))
    np.testing.assert_array_equal(resumed["score"], whole["score"])
    again = run("resume", checkpoint)
    assert "is complete; its result is in" in again.stderr
    forced = run("resume", checkpoint, "--force")
    assert again.stdout == forced.stdout == result.stdout


def test_what_low_rank_cost_and_a_turn_are_told(store, monkeypatch):
    monkeypatch.setattr("dhsic.results.schema.turned_at", lambda history, n: 1203 if n == 8 else 0)
    args = ("select", store, *QUICK, "--solver", "lowrank")
    said, costs = told(run(*args)), json.loads(run(*args, "--json").stdout)

    few = "less than 0.01" if costs["expected_lost"] < 0.01 else f"{costs['expected_lost']:.2g}"
    lost = f"It is expected to have lost {few} of the 8 features that an exact run would select"
    assert 0 <= costs["expected_lost"] <= 0.08
    assert costs["most_lost"] in (0, 1)
    sentence = f"{lost}; with a probability of 90%, at most {costs['most_lost']}"
    if few == "less than 0.01" and not costs["most_lost"]:
        sentence = "An exact run would be expected to select the same 8 features"
    assert f"rounds. {sentence}" in said
    assert costs["turn_rank"] == 1203
    assert "when 1,203 features were left, the scoring of features changed strongly" in said


def test_an_exact_run_costs_nothing(store):
    result = run("select", store, *QUICK, "--solver", "exact", "--json")

    assert json.loads(result.stdout)["expected_lost"] == 0
    assert "low rank" not in told(result)


def test_an_interruption_says_how_to_go_on(store, tmp_path, monkeypatch):
    def interrupted(self, state, *_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("dhsic.storage.checkpoint.Checkpoint.save", interrupted)
        checkpoint = tmp_path / "a folder"
        args = ("select", store, *QUICK, "--checkpoint", checkpoint)
        assert f"dhsic resume '{checkpoint}'" in run(*args, code=130).stderr
        error = json.loads(run(*args, "--json", code=130).stdout)["error"]
        assert error["kind"] == "interrupted"
    assert json.loads(run("resume", checkpoint, "--json").stdout)["rounds"] > 1


def test_sigterm_ends_a_run_tidily(store, tmp_path, monkeypatch):
    def terminated(self, state, *_):
        signal.raise_signal(signal.SIGTERM)

    checkpoint = tmp_path / "run.dhsic"
    with monkeypatch.context() as patched:
        patched.setattr("dhsic.storage.checkpoint.Checkpoint.save", terminated)
        result = run("select", store, *QUICK, "--checkpoint", checkpoint, code=75)
    assert "Terminated. The checkpoint is valid; resume with: dhsic resume" in told(result)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert json.loads(run("resume", checkpoint, "--json").stdout)["rounds"] > 1


def test_python_m_dhsic():
    done = subprocess.run(
        [sys.executable, "-m", "dhsic", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("dhsic, version ")


# Help --------------------------------------------------------------------------------------


def test_help_waits_for_no_library():
    code = """
import sys
import dhsic
from dhsic.cli import main
for words in ([], *([name] for name in main.commands)):
    main([*words, "--help"], standalone_mode=False)
print({"numpy", "dask", "zarr", "pandas", "sklearn"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
    assert done.stdout.count("Example:") == len(main.commands)


def test_short_help_says_where_all_options_are():
    for name, command in main.commands.items():
        options = [each for each in command.params if isinstance(each, click.Option)]
        short = run(name, "--help").stdout
        whole = run(name, "--help-all").stdout if command.has_more else short
        assert ("--help-all" in short) == command.has_more
        for option in options:
            assert max(option.opts, key=len) in whole, (name, option.name)
        assert len(short.splitlines()) <= 170


def test_names_of_plink_are_those_of_dhsic(tmp_path):
    path = str(tmp_path / "g.vcz")
    run("simulate", path, "--samples", "80", "--variants", "200")
    rng = np.random.default_rng(0)
    ids = dhsic.open_source(path).sample_names()
    table = {"#IID": ids, "bmi": rng.normal(size=80), "age": rng.normal(size=80)}
    pheno, covar = tmp_path / "p.tsv", tmp_path / "c.tsv"
    pd.DataFrame(table).to_csv(pheno, sep="\t", index=False)
    pd.DataFrame({"#IID": ids, **{n: rng.normal(size=80) for n in ("pc1", "pc2", "pc3")}}).to_csv(
        covar, sep="\t", index=False
    )

    def tested(*words):
        return json.loads(run("test", path, *words, "--json").stdout)["selected"]

    ours = tested(
        *("--labels", pheno, "--target", "bmi", "--covariates", f"{covar}:pc1,pc3"),
        *("--max-missing", "0.004"),
    )
    theirs = tested(
        *("--pheno", pheno, "--pheno-name", "bmi", "--covar", covar, "--covar-name", "pc1,pc3"),
        *("--geno", "0.004"),
    )
    assert ours == theirs
    of_labels = tested("--pheno", pheno, "--pheno-name", "bmi", "--covar-name", "age")
    assert of_labels == tested("--labels", pheno, "--target", "bmi", "--covariate", "age")
    assert of_labels != tested("--labels", pheno, "--target", "bmi")
    twice = ("--covar", f"{covar}:pc1", "--covar-name", "pc2")
    said = run("test", path, "--pheno", pheno, "--pheno-name", "bmi", *twice, code=2).stderr
    assert "--covariates FILE:A,B" in said


def test_what_help_lists_is_what_there_is():
    options = {each.name: each for each in main.commands["select"].params}
    tables = {
        "method": METHODS,
        "kernel": KERNELS,
        "label_kernel": {*LABEL_KERNELS} - {"precomputed"},  # a matrix
        "statistic": ESTIMATORS,
        "solver": SOLVERS,
        "missing_chunks": get_args(MissingChunks),
    }
    for name, table in tables.items():
        listed = f"{name} in the docstring of SelectJob (dhsic/cli/job.py) is not what there is"
        assert set(options[name].type.choices) == set(table), listed
    assert {*parameters_of("bahsic")} - {*OF_RUNS} < set(options)


# How it fails ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--target", "nothing"), "such variables are sample_population, sample_trait. Pass one"),
        (("--target", "sample_tarit"), "Did you mean 'sample_trait'?"),
        (("--target", "nothing"), "or a table of labels with --labels FILE"),
        (("--target", "sample_id"), "be its own class"),
        (("--target", "sample_trait", "--sample-column", "x"), "--labels"),
        (("--target", "sample_trait", "--scheduler", "tcp://x:1", "--threads", 1), "--threads"),
        (("--target", "sample_trait", "--step", "1.5"), "--step 1.5"),
        (("--target", "sample_trait", "--memory", "much"), "2GB"),
        (("--target", "sample_trait", "--bandwidth", "wide"), "median"),
        (("--target", "sample_trait", "--kernel", "sigmoid"), "gaussian"),
        (("--target", "sample_trait", "--kernel", "linear", "--bandwidth", 3), "--bandwidth 3.0"),
        (("--target", "sample_trait", "--variable", "x"), "as --variable"),
        (("--target", "variant_position"), "60 samples"),
        (("--target", "t", "--labels", "absent.tsv"), "does not exist"),
    ],
)
def test_bad_input_ends_with_2_and_a_sentence(store, args, words):
    result = run("select", store, *args, "--json", code=2)
    error = json.loads(result.stdout)["error"]
    assert error["kind"] in ("input", "usage")
    assert words in error["message"]
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr


def test_labels_that_name_the_samples_are_refused_first(store):
    result = run("select", store, "--target", "sample_id", code=2)
    assert result.stderr.startswith("Error: All 60 labels of 'sample_id' are different (")
    real = ("--target", "sample_trait", "--label-kernel", "multiclass")
    assert run("select", store, *QUICK, *real).stdout


def test_absent_store_ends_with_2(tmp_path):
    assert "no Zarr" in run("inspect", tmp_path / "none.vcz", code=2).stderr
    assert "no Zarr" in run("select", tmp_path / "none.vcz", "--target", "t", code=2).stderr


def test_what_could_not_be_written_is_refused_before_the_work(store, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out, *force in (
        (tmp_path / "file",),
        (tmp_path / "file", "--force"),
        (tmp_path / "file" / "x",),
    ):
        result = run("select", store, *QUICK, "--out", out, *force, code=2)
        assert "peak memory" not in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("option", ["--out", "--checkpoint"])
def test_one_folder_is_made_to_write_in(store, tmp_path, option):
    run("select", store, *QUICK, option, tmp_path / "runs" / "today")
    assert (tmp_path / "runs" / "today" / "zarr.json").exists()
    far = tmp_path / "more" / "runs" / "today"
    message = run("select", store, *QUICK, option, far, code=2).stderr
    there = f"'{far}' cannot be created in {far.parent}, because neither"
    assert message.startswith(f"Error: {option} {there}")
    assert run("simulate", far, code=2).stderr.startswith(f"Error: The store {there}")
    assert not (tmp_path / "more").exists()
    help_text = " ".join(run("select", "--help").stdout.split())
    assert "A missing folder is created if its parent exists" in help_text


def test_verbose_shows_the_traceback(tmp_path):
    assert "Traceback" in run("-v", "inspect", tmp_path / "none.vcz", code=2).stderr


def test_damaged_data_end_with_3(tmp_path):
    path = tmp_path / "d.vcz"
    run("simulate", path, "--samples", 30, "--variants", 600)
    chunk = next(p for p in (path / "call_genotype" / "c").rglob("*") if p.is_file())
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    result = run("select", path, *QUICK, "--json", code=3)
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "data"
    assert "call_genotype" in error["message"]
    chunk.unlink()
    assert "missing" in run("select", path, *QUICK, code=3).stderr


def test_foreign_checkpoints_end_with_4(store, tmp_path):
    assert "no checkpoint" in run("resume", tmp_path / "none", code=4).stderr
    kept = tmp_path / "ck"
    run("select", store, *QUICK, "--checkpoint", kept)
    message = run("select", store, *QUICK, "--step", 5, "--checkpoint", kept, code=4).stderr
    assert "other parameters: step is 0.1 in the checkpoint and 5 here" in message
    other = (*QUICK, "--target", "sample_population", "--checkpoint", kept)
    message = run("select", store, *other, code=4).stderr
    assert "other parameters: the labels differ (y, its covariates" in message
    message = run("resume", store, code=4).stderr
    assert f"{store} is not a dhsic checkpoint, but a Zarr store with other content" in message
    assert "--checkpoint" in message


def test_checkpoint_of_the_estimator_has_no_command(tmp_path, rng):
    import dhsic

    X = rng.standard_normal((20, 5))
    dhsic.LinearHSIC(2, checkpoint=tmp_path / "ck").fit(X, X[:, 0] > 0)
    assert "call fit again" in run("resume", tmp_path / "ck", code=4).stderr


def test_too_much_memory_ends_with_5(store):
    result = run("select", store, *QUICK, "--memory", "1MB", "--json", code=5)
    assert json.loads(result.stdout)["error"]["kind"] == "memory"


def test_a_scheduler_that_does_not_answer_ends_with_6(store, monkeypatch):
    from dhsic.runtime import cluster

    monkeypatch.setattr(cluster, "CONNECT", 0.3)
    args = ("select", store, *QUICK[:4], "--scheduler", "tcp://127.0.0.1:9")
    said = told(run(*args, code=6))
    assert "connecting to tcp://127.0.0.1:9" in said
    assert "No Dask scheduler answered at 'tcp://127.0.0.1:9' within 0.3 s. Check that" in said
    assert said.endswith("Or leave --scheduler out to run on threads.")
    silent = run(*args, "--json", code=6)
    assert json.loads(silent.stdout)["error"]["kind"] == "cluster"
    assert "connecting" not in silent.stderr
    said = told(run(*args[:-1], "nowhere", code=6))
    assert "Cannot connect to --scheduler nowhere: missing port number" in said


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (ClusterError("No worker."), 6, "cluster"),
        (RuntimeError("a bug"), 1, "unexpected"),
        (MemoryError(), 5, "memory"),
    ],
)
def test_other_errors(store, monkeypatch, error, code, kind):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(SelectJob, "runtime", fail)
    result = run("select", store, *QUICK, "--json", code=code)
    assert json.loads(result.stdout)["error"]["kind"] == kind
    assert result.stderr.splitlines()[-1].startswith("Error: ")
