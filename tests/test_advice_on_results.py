"""Advice in sentences about results, files, clusters and commands, followed."""

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from advice_cases import (
    CLASSES,
    FRAME,
    RNG,
    Case,
    D,
    M,
    X,
    check,
    hear,
    instead,
    leaving_out,
    passing,
    select,
)
from commands import run, told
from stores import draw_genotypes, write, write_vcz
from test_h5ad import GENES, OBS, cells
from test_h5ad import X as EXPRESSION

import dhsic
from dhsic.errors import CheckpointError, ClusterError, InputError, MemoryBudgetError
from dhsic.kernels import LaplaceL1, Ridge
from dhsic.kernels.graphs import Walks
from dhsic.results.tables import read_table
from dhsic.runtime import choose_runtime
from dhsic.runtime.threads import Threads


def advised(pattern, error):
    """Part of a sentence that a pattern finds."""
    found = re.search(pattern, str(error.value))
    assert found, str(error.value)
    return found[1]


@pytest.fixture(scope="module")
def result():
    return select(FRAME)


@pytest.fixture(scope="module")
def of_classes():
    return select(FRAME, per_class=True)


def test_columns_of_a_selection_get_another_name_or_replace_the_old_ones():
    adata = cells()
    frame = pd.DataFrame(EXPRESSION, columns=GENES)
    result = select(frame, OBS["leiden"].to_numpy())
    dhsic.merge(adata, result)
    check(
        Case(
            "annotations.py:_check_free",
            partial(dhsic.merge, adata, result),
            {},
            (passing("key_added"), passing("overwrite")),
        )
    )
    assert "mine_rank" in adata.var


def test_genes_are_selected_from_a_layer():
    options = {"n": 2, "progress": False, "inplace": False}
    select_genes = partial(dhsic.select_genes, cells(), "leiden", **options)
    with pytest.raises(InputError) as error:
        select_genes(variable="counts")
    columns = select_genes(layer=advised(r"pass layer='([^']*)'", error))
    assert columns["hsic_selected"].sum() == 2


def test_genes_of_each_class_are_selected_by_select():
    adata = cells()
    with pytest.raises(InputError) as error:
        dhsic.select_genes(adata, "leiden", n=2, per_class=True, progress=False)
    assert advised(r"call dhsic\.select\(adata, key, (.*?)\)", error) == "per_class=True"
    ranked = select(adata, "leiden", per_class=True, variable="X", rerank=False)
    assert ranked.sizes["classes"] == OBS["leiden"].nunique()


def test_conversion_succeeds_with_the_memory_that_the_sentence_names(tmp_path):
    write_vcz(tmp_path / "g.vcz", draw_genotypes(D, M))
    convert = partial(dhsic.convert, tmp_path / "g.vcz", tmp_path / "out.zarr")
    with pytest.raises(MemoryBudgetError) as error:
        convert(memory_limit=1_000_000)
    number, unit = re.search(r"needs ([\d.]+) ([MG])B of memory", str(error.value)).groups()
    assert "Raise the limit (memory_limit=)" in str(error.value)
    convert(memory_limit=int(1.05 * float(number) * {"M": 1e6, "G": 1e9}[unit]))
    assert (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize(
    ("suffix", "place"),
    [("tsv", "results/files.py:check_vacant"), ("zarr", "sources/zarr.py:check_free")],
)
def test_a_result_is_not_overwritten_unless_asked(result, suffix, place, tmp_path):
    dhsic.save(result, tmp_path / f"r.{suffix}")
    check(
        Case(
            place,
            partial(dhsic.save, result),
            {"path": tmp_path / f"r.{suffix}"},
            (
                passing("overwrite"),
                instead("Choose another path", path=tmp_path / f"other.{suffix}"),
            ),
        )
    )


def test_a_store_has_all_features(result, tmp_path):
    check(
        Case(
            "results/files.py:check_vacant",
            partial(dhsic.save, result, tmp_path / "r.zarr"),
            {"selected_only": True},
            (leaving_out("selected_only"),),
        )
    )
    with pytest.raises(InputError) as error:
        dhsic.save(result, tmp_path / "s.zarr", selected_only=True)
    for suffix in re.findall(r"\.(?:tsv|csv|json)\b", str(error.value)):
        dhsic.save(result, tmp_path / f"s{suffix}", selected_only=True)
        assert (tmp_path / f"s{suffix}").exists()


def test_a_table_is_read_as_the_sentence_says(result, tmp_path):
    dhsic.save(result, tmp_path / "r.tsv")
    with pytest.raises(InputError) as error:
        dhsic.load(tmp_path / "r.tsv")
    call = advised(r"Read the table with (.*?)\. To get both", error)
    dhsic.save(result, tmp_path / "X.zarr")
    both = advised(r"then (dhsic\.save\(.*\))\.$", error)
    for code in (call, both):
        here = code.replace("'X", f"'{tmp_path}/X")
        eval(here, {"dhsic": dhsic, "path": tmp_path / "r.tsv", "pd": pd, "pandas": pd})
    assert (tmp_path / "X.tsv").exists()


def test_a_table_of_all_features_is_read(result, tmp_path):
    dhsic.save(result, tmp_path / "few.tsv", selected_only=True)
    with pytest.raises(InputError, match=r"written without --selected-only, or the result"):
        read_table(tmp_path / "few.tsv")
    dhsic.save(result, tmp_path / "all.tsv")
    read_table(tmp_path / "all.tsv")
    (tmp_path / "other.tsv").write_text("a\tb\n1\t2\n")
    with pytest.raises(InputError, match=r"Pass a table written by --out of dhsic select or test"):
        read_table(tmp_path / "other.tsv")


def test_reports_of_several_targets_have_no_pairs_and_replace_files(of_classes, result, tmp_path):
    report = partial(dhsic.report, of_classes, tmp_path / "pages.html")
    pairs = dhsic.find_pairs(FRAME, CLASSES)
    check(Case("reports/html.py:report", report, {"pairs": pairs}, (leaving_out("pairs"),)))
    report = partial(dhsic.report, result, tmp_path / "page.html")
    report()
    check(Case("reports/html.py:report", report, {}, (passing("overwrite"),)))


def test_former_parameters_are_replaced_by_the_new_ones(caplog):
    def fit(**parameters):
        return dhsic.BAHSIC(2, rerank=False, **parameters).fit(X, CLASSES)

    heard = hear(fit, {"verbose": 1})
    levels = re.findall(r"progress='(\w+)'", heard.warned[0])
    assert levels == ["log", "debug"]
    for level in levels:
        assert not hear(fit, {"progress": level}).warned


def test_kernels_that_are_not_of_inner_products_are_replaced_by_one_that_is():
    for kernel in (Ridge(), LaplaceL1()):
        with pytest.raises(InputError) as error:
            kernel.gram(X @ X.T, np.ones(M), np.ones(M), 1.0)
        dhsic.hsic(X, CLASSES, kernel=advised(r"use kernel='(\w+)'", error))
    with pytest.raises(InputError) as error:
        Ridge().gram(X @ X.T, np.ones(M), np.ones(M), 1.0)
    for solver in re.findall(r"'(auto|exact|direct)'", str(error.value)):
        select(kernel="ridge", solver=solver)
    with pytest.raises(InputError) as error:
        LaplaceL1().expansion(2, 1.0)
    select(kernel="laplace-l1", solver=advised(r"solver='(\w+)'", error))


def test_walks_are_counted_up_to_the_length_that_the_sentence_names():
    graphs = [(np.ones((3, 3)), None)]
    with pytest.raises(InputError) as error:
        Walks(60).counts(graphs)
    Walks(longest=int(advised(r"pass Walks\(longest=(\d+)\)", error))).counts(graphs)


def test_threads_are_all_cores_if_their_number_is_left_out():
    ways = (leaving_out("n_threads"),)
    check(Case("runtime/threads.py:Threads.__init__", Threads, {"n_threads": 0}, ways))


# Clusters ---------------------------------------------------------------------------------------


def test_runs_in_this_process_and_runs_on_a_cluster_are_told_apart(client):
    check(
        Case(
            "runtime/__init__.py:choose_runtime",
            choose_runtime,
            {"runtime": "threads", "client": client},
            (passing("runtime"),),
        )
    )
    assert isinstance(choose_runtime(runtime="threads"), Threads)


def test_data_in_memory_are_selected_on_threads(client, monkeypatch):
    from dhsic.runtime.dask import DaskRuntime

    monkeypatch.setattr("dhsic.runtime.dask.CLIENT_BYTES", 10)
    check(
        Case(
            "runtime/dask.py:DaskRuntime._send_source",
            select,
            {"runtime": DaskRuntime(client)},
            (passing("runtime"),),
        )
    )


def test_a_detached_run_without_labels_is_found_by_its_folder(client, tmp_path, monkeypatch):
    write_vcz(tmp_path / "g.vcz", draw_genotypes(D, M))
    folder = tmp_path / "run.dhsic"
    submit = partial(dhsic.submit, tmp_path / "g.vcz", None, checkpoint=folder, client=client)
    with pytest.raises(InputError) as error:
        submit(n_features_to_select=2)
    kernel = advised(r"pass label_kernel='(\w+)'", error)
    submit(n_features_to_select=2, label_kernel=kernel).result(60)
    with pytest.raises(CheckpointError, match=r"Pass the folder that was passed as checkpoint="):
        dhsic.attach(tmp_path)
    events = []
    with dhsic.attach(folder) as found, monkeypatch.context() as without_cluster:
        without_cluster.setattr(dhsic.Run, "_client", lambda self, **options: None)
        with pytest.raises(ClusterError, match=r"Pass client= .* or follow .*callback=\.\.\."):
            found.listen(events.append)
        found.wait(callback=events.append)
    with dhsic.attach(folder, client=client) as found:
        found.listen(events.append)
    assert events


# Commands ---------------------------------------------------------------------------------------


@pytest.fixture
def cohort(tmp_path):
    """Store of 12 variants on one chromosome, the first of which tells the trait."""
    calls = draw_genotypes(12, 60)
    group = write_vcz(tmp_path / "g.vcz", calls)
    trait = calls[0].clip(0).sum(axis=1) + 0.01 * RNG.standard_normal(60)
    write(group, "sample_trait", trait, ("samples",))
    return tmp_path / "g.vcz"


def test_a_smaller_threshold_leaves_fewer_loci(cohort, tmp_path, monkeypatch):
    monkeypatch.setattr("dhsic.selection.loci.MOST", 1)
    command = ("test", cohort, "--target", "sample_trait", "--loci", tmp_path / "loci.tsv")
    refused = told(run(*command, "--loci-p", 0.99, code=2))
    option = re.search(r"pass a smaller (--[\w-]+)", refused)[1]
    run(*command, option, 1e-12, "--force")
    assert (tmp_path / "loci.tsv").exists()


def test_data_without_positions_are_tested_without_loci(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(y=np.arange(M) * 1.0).to_csv("x.csv", index=False)
    command = ("test", "x.csv", "--target", "y")
    refused = told(run(*command, "--loci", "loci.tsv", code=2))
    assert re.search(r"--loci needs .* Leave --loci out", refused)
    run(*command)


def test_enough_variants_are_simulated_for_the_planted_ones(tmp_path):
    command = ("simulate", tmp_path / "g.vcz", "--samples", 20, "--causal", 4, "--pairs", 1)
    refused = told(run(*command, "--variants", 10, code=2))
    option, least = re.search(r"pass (--variants) (\d+) or more", refused).groups()
    run(*command, option, least)


def test_a_command_runs_on_threads_without_a_scheduler(cohort):
    command = ("select", cohort, "--target", "sample_trait", "-n", 2)
    refused = told(run(*command, "--scheduler", "nowhere", code=6))
    assert re.search(r"leave it out to run on threads", refused)
    run(*command)


@pytest.mark.parametrize("value", ["", "inf"])
def test_samples_without_finite_labels_are_dropped(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(y=[value, *np.arange(M - 1)]).to_csv("x.csv", index=False)
    command = ("select", "x.csv", "--target", "y", "-n", 2)
    refused = told(run(*command, code=2))
    options = re.search(r"((?:--na \w+ )?--drop-missing)", refused)[1]
    run(*command, *options.split())
