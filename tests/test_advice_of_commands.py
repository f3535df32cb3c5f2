"""Advice in messages of commands: it is followed, and the command ends well."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from advice import CommandAdvice, follow_command
from commands import run
from stores import write_plink

M, D = 20, 6
RNG = np.random.default_rng(4)
Y = np.arange(M) % 2
NAMES = [f"s{i}" for i in range(M)]
FEATURES = pd.DataFrame(RNG.normal(size=(M, D)), pd.Index(NAMES, name="id")).add_prefix("g")
AGE = RNG.normal(50, 9, M).round(1)
SELECT = ("select", "x.csv", "-n", 2)
LABELLED = (*SELECT, "--labels", "y.csv")
ILL = (*LABELLED, "--target", "ill")


def features(names=NAMES, **columns):
    """Write x.csv; `names` is None for a table without sample names."""
    table = FEATURES.assign(**columns)
    table = table.reset_index(drop=True) if names is None else table.set_axis(names)
    table.to_csv("x.csv", index=names is not None, index_label=names and "id")


def labels(**columns):
    """Write y.csv: the labels `ill`, `sick` and `age` by sample name."""
    ill = np.where(Y, "yes", "no")
    table = {"id": NAMES, "ill": ill, "sick": ill[::-1], "age": AGE} | columns
    pd.DataFrame(table).to_csv("y.csv", index=False)


# -- targets and label kernels --------------------------------------------------------------------


def several_targets():
    features(), labels()
    path = write_plink(Path("x"), np.random.default_rng(0).integers(0, 3, (M, D)))
    words = ("test", path, "--labels", "y.csv", "--target", "ill", "--force")
    effects, loci = ("--effects", "effects.tsv"), ("--loci", "loci.tsv")
    once = {"values": "ill", "instead_of": "--target"}
    one = r"pass one (?P<options>--target)\."
    yield CommandAdvice((*words, "--target", "age", *effects), one, **once)
    for table in (effects, loci):
        for separately in ("--per-target", "--per-class"):
            pattern = r"pass one (?P<options>--target), without (?P<leave>--per-\w+)"
            yield CommandAdvice((*words, *table, separately), pattern, **once)


def effects_of_three_classes():
    features(), labels(stage=[*"abc", "a"] * 5)
    words = ("test", "x.csv", "--labels", "y.csv", "--target", "stage", "--effects", "effects.tsv")
    yield CommandAdvice(words, r"(?P<leave>--effects) needs .* Leave it out")
    of_two = r"pass labels of two classes: one class against the rest"
    options = ("--target", "ill")
    yield CommandAdvice(words, of_two, values=options, instead_of="--target")


def labels_beside_the_features_as_labels():
    features(), labels()
    for option in ("--label-kernel", "--target"):
        pattern = rf"(?P<leave>{option}) .* pass only one of them"
        yield CommandAdvice((*ILL, "--label-kernel", "self"), pattern)


def targets_that_are_repeated():
    features(), labels()
    words = (*ILL, "--target", "ill", "--per-target")
    pattern = r"for each (?P<options>--target) separately. Pass one or more targets, each once"
    for one in (("ill",), ("ill", "--target", "age")):
        yield CommandAdvice(words, pattern, values=one, instead_of="--target")


def classes_of_several_targets():
    features(), labels(stage=[*"abc", "a"] * 5)
    words = (*LABELLED, "--method", "t", "--target", "stage", "--target", "ill")
    words = (*words, "--per-class", "--per-target")
    pattern = r"pass exactly one (?P<options>--target), without (?P<leave>--per-target)"
    yield CommandAdvice(words, pattern, values="stage", instead_of="--target")


def runs_that_are_not_sent():
    features(), labels()
    for option in ("--per-target", "--per-class"):
        pattern = rf"(?P<leave>--detach) .* but {option} .* pass only one of them"
        yield CommandAdvice((*ILL, option, "--detach"), pattern)


# -- methods and their settings -------------------------------------------------------------------


def options_of_other_methods():
    features(), labels()
    leave = r"(?P<leave>--[\w-]+) does not apply to --method \w+.* leave it out"
    yield CommandAdvice((*ILL, "--method", "t", "--step", 0.5), leave)
    yield CommandAdvice((*ILL, "--method", "ccm", "--groups", "gene"), leave)


def settings_of_methods():
    features(), labels()
    words = (*ILL, "--method", "ccm", "--set")
    without_value = r"pass (?P<options>--set epsilon=VALUE)"
    values = {"epsilon=VALUE": "epsilon=0.1"}
    yield CommandAdvice((*words, "epsilon"), without_value, values, instead_of="--set")
    own_option = r"has its own option: pass (?P<options>--kernel VALUE)"
    words_of_fohsic = (*ILL, "--method", "fohsic", "--set", "kernel=linear")
    yield CommandAdvice(words_of_fohsic, own_option, {"VALUE": "linear"}, instead_of="--set")
    listed = r"does not accept strategy .* has the settings .*epsilon"
    other = (*words, "strategy=floating")
    yield CommandAdvice(other, listed, ("--set", "epsilon=0.1"), instead_of="--set")
    none = r"(?P<leave>--set) does not accept epsilon .* has no settings"
    yield CommandAdvice((*ILL, "--set", "epsilon=1"), none)


# -- tables of labels and covariates --------------------------------------------------------------


def rows_of_no_table():
    features(ill=Y), labels()
    words = (*SELECT, "--target", "ill")
    pattern = r"pass (?P<options>--labels FILE)"
    for option in (("--sample-column", "id"), ("--by-position",)):
        leaking = ("--not-feature", "ill")
        yield CommandAdvice((*words, *option, *leaking), pattern, {"FILE": "y.csv"})


def rows_in_two_ways():
    features(), labels()
    words = (*ILL, "--sample-column", "id", "--by-position")
    for option in ("--sample-column", "--by-position"):
        yield CommandAdvice(words, rf"(?P<leave>{option}) matches .* pass only one of them")


def axes_in_two_ways():
    FEATURES.T.to_csv("x.csv", index_label="gene")
    labels()
    for option in ("--transpose", "--sample-dim"):
        pattern = rf"(?P<leave>{option}) .*pass only one of them"
        yield CommandAdvice((*ILL, "--transpose", "--sample-dim", 1), pattern)


def covariates(path="z.csv", **columns):
    """Write a table of covariates by sample name."""
    table = pd.DataFrame({"id": NAMES, "age": AGE, "dose": AGE[::-1]} | columns)
    table.to_csv(path, index=False)


def columns_of_several_tables():
    features(), labels(), covariates(), covariates("w.csv", weight=AGE)
    words = (*ILL, "--covariates", "z.csv", "--covariates", "w.csv", "--covar-name", "age")
    pattern = r"(?P<leave>--covar-name) .* of their table: (?P<options>--covariates FILE:A,B)"
    files = {"FILE:A,B": "z.csv:age,dose"}
    yield CommandAdvice(words, pattern, files, instead_of="--covariates")


def covariates_without_columns():
    features(), labels()
    pd.DataFrame({"id": NAMES}).to_csv("z.csv", index=False)
    words = (*ILL, "--covariates", "z.csv")
    pattern = r"covariates with (?P<options>--covariates FILE:a,b)"
    covariates("w.csv")
    files = {"FILE:a,b": "w.csv:age,dose"}
    yield CommandAdvice(words, pattern, files, instead_of="--covariates")


def covariates_that_are_names():
    names = [f"patient {i}" for i in range(60)]
    table = pd.DataFrame(RNG.normal(size=(60, D)), pd.Index(names, name="id")).add_prefix("g")
    table.to_csv("x.csv")
    address = [f"street {i}" for i in range(60)]
    columns = {"ill": np.arange(60) % 2, "address": address, "age": np.arange(60) % 7}
    pd.DataFrame(columns, table.index).to_csv("y.csv")
    words = (*ILL, "--covariate", "address")
    pattern = r"Choose other columns \(CLI: (?P<options>--covariates FILE:a,b)\)"
    yield CommandAdvice(words, pattern, {"FILE:a,b": "y.csv:age"}, instead_of="--covariate")


def sample_column_of_no_table():
    features(), labels(), covariates()
    words = (*ILL, "--covariates", "z.csv", "--sample-column", "who")
    column = r"(?P<options>--sample-column) who: no table .*y.csv has 'id'.* Pass a column"
    yield CommandAdvice(words, column, "id")


def sample_column_for_nameless_data():
    features(None), labels()
    pattern = r"(?P<leave>--sample-column) id has no effect.* pass (?P<options>--by-position)"
    yield CommandAdvice((*ILL, "--sample-column", "id"), pattern)


def rows_of_other_samples():
    features(NAMES[::-1]), labels()
    yield CommandAdvice((*ILL, "--by-position"), r"leave out (?P<leave>--by-position)", code=0)


def category_that_is_no_covariate():
    site = [*"1122"] * 5
    features(), labels(site=site), covariates(site=site)
    words = (*ILL, "--category", "site")
    pattern = r"pass the column to .*(?P<options>%s)\b(?!s)"
    yield CommandAdvice(words, pattern % "--covariate", "site")
    yield CommandAdvice(words, pattern % "--covariates", "z.csv:site")


def missing_code_of_no_column():
    features(), labels(age=[-9, *AGE[1:]])
    words = (*LABELLED, "--target", "age", "--drop-missing", "--na", "aeg=-9")
    correct = {"values": ("--na", "age=-9"), "instead_of": "--na"}
    yield CommandAdvice(words, r"needs a column 'aeg'.* Correct the name", **correct)
    yield CommandAdvice((*ILL, "--na", "aeg=-9"), r"(?P<leave>--na) aeg=.* or leave it out")


# -- values of labels -----------------------------------------------------------------------------


def labels_in_merged_cells():
    features(), labels(arm=["old", *[""] * 4, "new", *[""] * 4] * 2)
    yield CommandAdvice((*LABELLED, "--target", "arm"), r"pass (?P<options>--drop-missing)")


def label_that_may_be_a_code():
    features(), labels(score=[*[-1] * 4, *np.arange(M - 4) % 8 + 1])
    words = (*LABELLED, "--target", "score")
    pattern = r"If they are missing, pass (?P<options>--na .* --drop-missing)"
    yield CommandAdvice(words, pattern, code=0)


def labels_with_markers():
    features(), labels(bmi=[*AGE[1:].astype(str), "n/d"])
    words = (*LABELLED, "--target", "bmi")
    yield CommandAdvice(words, r"missing, pass (?P<options>--na .*? --drop-missing)")


def labels_with_limits():
    features(), labels(crp=[*map(str, np.arange(M - 1) % 9 + 3), "<3"])
    words = (*LABELLED, "--target", "crp")
    yield CommandAdvice(words, r"(?P<options>--na \S+ --drop-missing) would exclude")
    yield CommandAdvice(words, r"classes, pass (?P<options>--label-kernel \w+)")


def labels_with_decimal_commas():
    features(), labels(bmi=["ND", *[f"{i % 3},5" for i in range(M - 1)]])
    words = (*LABELLED, "--target", "bmi")
    yield CommandAdvice(words, r"look like numbers.* use (?P<options>--label-kernel \w+)")


def labels_of_plink():
    calls = np.random.default_rng(0).integers(0, 3, (M, D))
    path = write_plink(Path("x"), calls, phenotype=Y)
    words = ("select", path, "--target", "PHENO", "-n", 2)
    pattern = r"array: (?P<options>--labels \S+ --target \S+)\. Otherwise"
    yield CommandAdvice(words, pattern, instead_of="--target")
    empty, _ = write_plink(Path("empty"), calls, samples=NAMES), labels()
    words = ("select", empty, "--target", "PHENO", "-n", 2)
    pattern = r"example (?P<options>--labels FILE --target NAME)"
    yield CommandAdvice(words, pattern, {"FILE": "y.csv", "NAME": "ill"}, instead_of="--target")


# -- places, checkpoints and plans ----------------------------------------------------------------


def output_in_a_file():
    features(), labels()
    Path("file").write_text("")
    words = (*ILL, "--out", "file/ranking.tsv")
    pattern = r"(?P<options>--out) .*(pass|[Cc]hoose) another"
    yield CommandAdvice(words, pattern, "ranking.tsv", instead_of="--out")


def checkpoint_that_is_absent():
    features(), labels()
    run(*ILL, "--checkpoint", "run.zarr")
    words = ("resume", "ran.zarr")
    pattern = r"There is no checkpoint at (?P<leave>\S+); pass the path of --checkpoint"
    yield CommandAdvice(words, pattern, "run.zarr", code=4)


def shares_without_a_selection():
    features(), labels()
    run(*ILL, "--out", "selection.zarr")
    words = ("pairs", "x.csv", "--labels", "y.csv", "--target", "ill", "--shares")
    yield CommandAdvice(words, r"pass (?P<options>--selection) as well", "selection.zarr")


def threads_beside_a_cluster():
    features(), labels()
    words = (*ILL, "--threads", 1, "--scheduler", "tcp://127.0.0.1:9")
    yield CommandAdvice(words, r"(?P<leave>--scheduler) .* pass only one of them")


def plans_for_a_cluster():
    features(), labels()
    words = ("plan", *ILL[1:])
    leave = r"leave out (?P<leave>--scheduler and --threads)"
    yield CommandAdvice((*words, "--workers", 2, "--threads", 1), leave)
    count = r"pass (?P<options>--workers N) too"
    yield CommandAdvice((*words, "--worker-threads", 2), count, {"N": "2"})


def plans_without_data():
    features(), labels()
    sizes = ("--samples", 100, "--variants", 1000)
    leave = r"(?P<leave>--samples, --variants and --classes) plan without data. Leave out these"
    yield CommandAdvice(("plan", *ILL[1:], *sizes), leave)
    both = r"plan without data, (?P<options>--samples N) and --variants D"
    yield CommandAdvice(("plan", "--variants", 1000), both, {"N": "100"})
    both = r"--samples N and (?P<options>--variants D)"
    yield CommandAdvice(("plan", "--samples", 100), both, {"D": "1000"})
    one = r"(?P<leave>--\w+) needs data, but --samples plans .* pass only one"
    yield CommandAdvice(("plan", *sizes, "--target", "ill"), one)


CASES = (
    *(several_targets, effects_of_three_classes, labels_beside_the_features_as_labels),
    *(targets_that_are_repeated, classes_of_several_targets, runs_that_are_not_sent),
    *(options_of_other_methods, settings_of_methods, rows_of_no_table, rows_in_two_ways),
    *(axes_in_two_ways, columns_of_several_tables, covariates_without_columns),
    *(covariates_that_are_names, sample_column_of_no_table, sample_column_for_nameless_data),
    *(rows_of_other_samples, category_that_is_no_covariate, missing_code_of_no_column),
    *(labels_in_merged_cells, label_that_may_be_a_code, labels_with_markers, labels_with_limits),
    *(labels_with_decimal_commas, labels_of_plink, output_in_a_file, checkpoint_that_is_absent),
    *(shares_without_a_selection, threads_beside_a_cluster, plans_for_a_cluster),
    *(plans_without_data,),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.filterwarnings("default")
def test_advice_leads_on(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for advice in case():
        follow_command(advice)
