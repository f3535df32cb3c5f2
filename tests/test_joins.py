"""Rows of tables meet samples by name: every kind of header, in every order, through every door."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run, told
from stores import GENOTYPE_DIMS, draw_genotypes, write
from thorough import one_in

import dhsic
from dhsic.cli.job import SelectJob
from dhsic.cli.labels import open_with_labels
from dhsic.errors import InputError
from dhsic.joins.text import read_table
from dhsic.selection import conductor

M, D = 20, 12
rng = np.random.default_rng(5)
TRAIT, AGE = rng.normal(size=M).round(3), rng.integers(20, 80, M)
GENOTYPES = draw_genotypes(D, M, seed=2).clip(0, 1)

# Ids of samples: families and names, in the order of the data.
NUMBERS = rng.permutation(M) + 1
IDS = {
    "words, no families": (["0"] * M, [f"S{i}" for i in NUMBERS]),
    "words, families": ([f"F{i // 3}" for i in range(M)], [f"S{i}" for i in NUMBERS]),
    "numbers, families": ([str(i // 3) for i in range(M)], [str(i) for i in NUMBERS]),
    "numbers, a family each": ([str(i) for i in NUMBERS],) * 2,
    "numbers, other numbers": ([str(i % M + 1) for i in NUMBERS], [str(i) for i in NUMBERS]),
}
STORES = {
    "IID": lambda fid, iid: iid,
    "FID_IID": lambda fid, iid: [f"{f}_{i}" for f, i in zip(fid, iid, strict=True)],
}


@dataclass(frozen=True)
class Kind:
    """A kind of table: its columns, how it is written, and what joins it to samples."""

    columns: Callable[[pd.DataFrame], dict]
    suffix: str = ".txt"
    sep: str = " "
    header: bool | list[str] = True
    target: str = "pheno"
    covariate: str = "pheno"
    ids: str = "both"  # or iid, or joined
    index: bool = False


KINDS = {
    "FID IID pheno": Kind(lambda t: {"FID": t.fid, "IID": t.iid, "pheno": t.value}),
    "#FID IID pheno": Kind(
        lambda t: {"#FID": t.fid, "IID": t.iid, "pheno": t.value}, ".pheno", "\t"
    ),
    "#IID pheno": Kind(lambda t: {"#IID": t.iid, "pheno": t.value}, sep="\t", ids="iid"),
    "IID pheno": Kind(lambda t: {"IID": t.iid, "pheno": t.value}, ".csv", ",", ids="iid"),
    "sample pheno": Kind(lambda t: {"sample": t.iid, "pheno": t.value}, ids="iid"),
    "fid iid, lower case": Kind(lambda t: {"fid": t.fid, "iid": t.iid, "pheno": t.value}),
    ".fam": Kind(
        lambda t: {
            "FID": t.fid, "IID": t.iid, "PAT": 0, "MAT": t.iid.shift(1, fill_value="0"),
            "SEX": 1 + t.value.gt(0), "PHENO": t.value,
        },
        *(".fam", "\t", False, "PHENO", "PHENO"),
    ),
    "FID IID value": Kind(
        lambda t: {"FID": t.fid, "IID": t.iid, "V": t.value},
        *(".pheno", " ", False, "PHENO1", "COVAR1"),
    ),
    ".psam": Kind(
        lambda t: {"#FID": t.fid, "IID": t.iid, "SEX": 1, "MAT": 0, "pheno": t.value},
        *(".psam", "\t"),
    ),
    "pheno IID": Kind(lambda t: {"pheno": t.value, "IID": t.iid}, ids="iid"),
    "sample, joined": Kind(lambda t: {"sample": t.fid + "_" + t.iid, "pheno": t.value}, ids="join"),
    "no name": Kind(lambda t: {"": t.iid, "pheno": t.value}, ".tsv", "\t", ids="iid"),
    "no name, as of R": Kind(
        lambda t: {"": t.iid, "pheno": t.value}, ".txt", " ", ["pheno"], ids="iid"
    ),
    "a count, FID, IID": Kind(
        lambda t: {"": range(len(t)), "FID": t.fid, "IID": t.iid, "pheno": t.value}, ".csv", ","
    ),
}  # fmt: skip


def in_order(table):
    return table


def shuffled(table):
    return table.sample(frac=1, random_state=1)


def lacking(table):
    return shuffled(table).iloc[: -(M // 10)]


def with_more(table):
    names = [f"{i}" if table.iid.iloc[0].isdigit() else f"X{i}" for i in range(900, 905)]
    return shuffled(pd.concat([table, table.iloc[:5].assign(fid=names, iid=names)]))


def repeated(table):
    return shuffled(pd.concat([table, table.iloc[3:5].assign(value=9.0)]))


CHANGES = (in_order, shuffled, lacking, with_more, repeated)


def text_of(kind, table):
    """A table of a kind, as it lies in a file."""
    frame = pd.DataFrame(kind.columns(table.reset_index(drop=True)))
    lines = [[*map(str, row)] for row in frame.itertuples(index=False)]
    if kind.header:
        lines.insert(0, list(frame.columns) if kind.header is True else kind.header)
    return "".join(kind.sep.join(line) + "\n" for line in lines)


def joins(kind, ids, names):
    """Whether a table is to be joined to names: as few as can be are refused."""
    fid, iid = IDS[ids]
    if kind.ids == "both":  # where another column names all samples otherwise nobody can tell
        return not (ids == "numbers, other numbers" and names == "IID")
    return names == {"iid": "IID", "join": "FID_IID"}[kind.ids] or fid == iid


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    paths = {}
    for ids, (fid, iid) in IDS.items():
        for names, of in STORES.items():
            path = str(tmp_path_factory.mktemp("stores") / "g.vcz")
            group = zarr.open_group(path, mode="w")
            write(group, "call_genotype", GENOTYPES, GENOTYPE_DIMS)
            write(group, "sample_id", np.array(of(fid, iid), dtype=object), ("samples",))
            write(group, "sample_trait", TRAIT, ("samples",))
            paths[ids, names] = path
    return paths


class ReachedError(Exception):
    """A run would begin with these labels and covariates."""


def reached(_event):
    """Asked for as the progress of runs that are to stop where they have their labels."""


@pytest.fixture(autouse=True)
def doors(monkeypatch):
    """Have such runs stop."""
    execute = conductor.execute

    def reach(run):
        if run.selector.progress is reached:
            raise ReachedError(run.y, run.covariates, run.rows)
        return execute(run)

    def send(request, *args, **options):
        raise ReachedError(request.y, request.covariates, request.rows)

    monkeypatch.setattr(conductor, "execute", reach)
    monkeypatch.setattr(import_module("dhsic.detached"), "send", send)


def by_command(store, kind, path, role, **options):
    """What the command line begins a run with; `plan` and detached runs take the same."""
    tables = {"labels": str(path), "target": (kind.target,)}
    if role == "covariates":
        tables = {"target": ("sample_trait",), "covariates": (f"{path}:{kind.covariate}",)}
    taken = open_with_labels(SelectJob(path=store, **tables, **options))
    return taken.y, taken.covariates, taken.rows


def frame_of(kind, path, role):
    """The table, as a reader of tables has it."""
    table = read_table(str(path), "COVAR" if role == "covariates" else "PHENO")
    numbers = {kind.target, kind.covariate, "SEX", "PHENO"} & set(table.columns)
    frame = pd.DataFrame(dict(table.columns))
    return frame.astype(dict.fromkeys(numbers, float)).drop(
        columns=sorted({"SEX"} & set(table.columns))
    )


def in_python(store, kind, path, role, call):
    given = frame_of(kind, path, role)
    if given.columns[0] == "" and role == "labels":
        given = given.rename(columns={"": "Unnamed: 0"})
    y, options = (given, {}) if role == "labels" else (TRAIT, {"covariates": given})
    with pytest.raises(ReachedError) as reached:
        call(store, y, **options)
    y, C, rows = reached.value.args
    return y if y.ndim == 1 else y[:, 0], C, rows


def by_fit(store, kind, path, role):
    def call(store, y, **options):
        dhsic.select(
            store, y, n_features_to_select=3, progress=reached, runtime="threads", **options
        )

    return in_python(store, kind, path, role, call)


def detached(store, kind, path, role):
    def call(store, y, **options):
        dhsic.submit(store, y, checkpoint="run.dhsic", **options)

    return in_python(store, kind, path, role, call)


DOORS = [
    (role, front) for role in ("labels", "covariates") for front in (by_command, by_fit, detached)
]


def cells():
    product = itertools.product(CHANGES, KINDS.items())
    for cell, (change, (name, kind)) in enumerate(product):
        yield pytest.param(cell, change, kind, id=f"{name}, {change.__name__}")


@pytest.mark.parametrize(("cell", "change", "kind"), list(cells()))
def test_every_table_is_joined_rightly_or_refused(
    cell, change, kind, stores, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for k, ((ids, names), store) in one_in(4, list(enumerate(stores.items())), first=cell):
        fid, iid = IDS[ids]
        table = change(pd.DataFrame({"fid": fid, "iid": iid, "value": TRAIT}, dtype=object))
        path = tmp_path / f"table{kind.suffix}"
        path.write_text(text_of(kind, table))
        fits = joins(kind, ids, names) and change not in (lacking, repeated)
        for role, front in (DOORS[0], DOORS[1 + (cell + k) % 5]):
            assert_right(store, kind, path, role, front, fits=fits)
        if change is lacking and joins(kind, ids, names):
            y, _, rows = by_command(store, kind, path, "labels", drop_missing=True)
            assert len(rows) == M - M // 10
            assert y.tolist() == TRAIT[rows].tolist()


def assert_right(store, kind, path, role, front, *, fits):
    if not fits:
        with pytest.raises(InputError):
            front(store, kind, path, role)
        return
    y, C, rows = front(store, kind, path, role)
    assert rows is None
    assert np.asarray(y, dtype=float).tolist() == TRAIT.tolist()
    if role == "covariates":
        assert np.asarray(C, dtype=float)[:, -1].tolist() == TRAIT.tolist()


# Rankings, whole.


def ranked(store, *options):
    said = run("select", store, "-n", 3, "--threads", 1, "--no-progress", "--json", *options)
    return [row["index"] for row in json.loads(said.stdout)["selected"]], told(said)


@pytest.mark.parametrize("kind", ["FID IID pheno", ".fam", "FID IID value", "pheno IID"])
def test_the_ranking_is_that_of_the_labels_of_the_store(kind, stores, tmp_path):
    kind, ids = KINDS[kind], "words, families"
    store = stores[ids, "IID"]
    expected, _ = ranked(store, "--target", "sample_trait")
    fid, iid = IDS[ids]
    table = with_more(pd.DataFrame({"fid": fid, "iid": iid, "value": TRAIT}, dtype=object))
    path = tmp_path / f"table{kind.suffix}"
    path.write_text(text_of(kind, table))

    found, said = ranked(store, "--labels", path, "--target", kind.target)
    assert found == expected
    assert "rows matched by sample name ('IID'), in another order; 5 rows of other samples" in said
    given = frame_of(kind, path, "labels")
    result = dhsic.select(store, given, n_features_to_select=3, runtime="threads", progress=False)
    by_name = dhsic.select(
        store, "sample_trait", n_features_to_select=3, runtime="threads", progress=False
    )
    assert result["rank"].values.tolist() == by_name["rank"].values.tolist()
    assert "; y: rows matched by sample name ('IID'), in another" in result.attrs["labels"]
    assert "rows matched" not in by_name.attrs["labels"]
    assert "features" in run("plan", store, "--labels", path, "--target", kind.target).stdout
    assert dhsic.plan(store, given).data.n_features == D


def test_a_ranking_by_position_is_one_that_was_asked_for(stores, tmp_path):
    store = stores["words, families", "IID"]
    expected, _ = ranked(store, "--target", "sample_trait")
    table = pd.DataFrame({"IID": [f"T{i}" for i in range(M)], "pheno": TRAIT})
    path = tmp_path / "others.tsv"
    table.to_csv(path, sep="\t", index=False)
    options = ("--labels", path, "--target", "pheno")

    for command in ("select", "plan"):
        message = told(run(command, store, *options, code=2))
        assert "Column 'IID' of" in message
        assert "none of them is in the data (S" in message
        assert "--sample-column, or pass --by-position if the rows are in the order" in message
        assert "matches them by order" in told(
            run(command, store, *options, "--by-position", "--sample-column", "IID", code=2)
        )
    found, said = ranked(store, *options, "--by-position")
    assert found == expected
    assert "rows matched by position, as requested" in said
    assert "no table was passed; pass --labels" in told(
        run("select", store, "--target", "sample_trait", "--by-position", code=2)
    )

    calls = (dhsic.select, dhsic.plan)
    for call in calls:
        with pytest.raises(InputError, match="by_position=True"):
            call(store, table, n_features_to_select=3)
        call(store, table, n_features_to_select=3, by_position=True)
    with pytest.raises(InputError, match="by_position=True"):
        dhsic.submit(store, table, checkpoint=tmp_path / "run")
    with pytest.raises(ReachedError) as reached:
        dhsic.submit(store, table, checkpoint=tmp_path / "run", by_position=True)
    assert reached.value.args[0][:, 0].tolist() == TRAIT.tolist()


def test_what_is_joined_travels_with_the_request_of_a_command(stores, tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr("dhsic.cli.detached.send", lambda request, *a, **o: sent.append(request))
    store = stores["numbers, families", "FID_IID"]
    fid, iid = IDS["numbers, families"]
    table = shuffled(pd.DataFrame({"#FID": fid, "IID": iid, "pheno": TRAIT, "age": AGE}))
    path = tmp_path / "table.psam"
    table.to_csv(path, sep="\t", index=False)
    run(
        "select", store, "--labels", path, "--target", "pheno", "--detach",
        "--scheduler", "tcp://127.0.0.1:9", "--checkpoint", tmp_path / "run", "--na", "-9",
        "--covariates", f"{path}:age",
    )  # fmt: skip
    (request,) = sent
    assert request.y.tolist() == TRAIT.tolist()
    assert request.covariates[:, 0].tolist() == AGE.tolist()
    assert request.attributes["labels"].count("('FID' and 'IID' as FID_IID), in another") == 2


def test_ids_are_no_covariates_unless_they_are_named(stores, tmp_path):
    store = stores["words, families", "IID"]
    fid, iid = IDS["words, families"]
    table = shuffled(
        pd.DataFrame(
            {"#FID": fid, "IID": iid, "SID": "0", "PAT": "0", "MAT": iid[1:] + iid[:1],
             "eid": range(900, 900 + M), "age": AGE}
        )
    )  # fmt: skip
    path = tmp_path / "covariates.tsv"
    table.to_csv(path, sep="\t", index=False)
    job = SelectJob(path=store, target=("sample_trait",), covariates=(str(path),))
    taken = open_with_labels(job)
    assert taken.covariates[:, 0].tolist() == AGE.tolist()
    assert taken.covariates.shape == (M, 1)
    assert taken.notes[-1] == "covariates age"
    named = f"{path}:#FID,age"
    taken = open_with_labels(SelectJob(path=store, target=("sample_trait",), covariates=(named,)))
    assert taken.covariates.shape == (M, len(set(fid)))
    with pytest.raises(ReachedError) as reached:
        dhsic.submit(store, TRAIT, covariates=table, checkpoint=tmp_path / "run")
    assert reached.value.args[1].tolist() == [[age] for age in AGE]
    only = str(tmp_path / "only.tsv")
    table[["#FID", "IID"]].to_csv(only, sep="\t", index=False)
    with pytest.raises(InputError, match="only columns with sample names"):
        open_with_labels(SelectJob(path=store, target=("sample_trait",), covariates=(only,)))


def test_names_of_columns_are_taken_with_their_sign_and_without(stores, tmp_path):
    store = stores["words, families", "IID"]
    table = pd.DataFrame({"#IID": IDS["words, families"][1], "#y": TRAIT}).sample(
        frac=1, random_state=4
    )
    path = tmp_path / "t.tsv"
    table.to_csv(path, sep="\t", index=False)
    for key in ("IID", "#IID", None):
        for target in ("y", "#y"):
            job = SelectJob(path=store, labels=str(path), target=(target,), sample_column=key)
            assert open_with_labels(job).y.tolist() == TRAIT.tolist()
    with pytest.raises(InputError, match=r"no column 'FID'; its columns are 'IID', 'y'"):
        open_with_labels(
            SelectJob(path=store, labels=str(path), target=("y",), sample_column="FID")
        )


# Numbers of rows -----------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path, monkeypatch):
    """Features in one order and labels in another, which people join; x2 tells y."""
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(2)
    X = pd.DataFrame(draws.normal(size=(40, 6))).add_prefix("x")
    y = (X["x2"] + draws.normal(0, 0.1, 40)).round(3).rename("y")
    return X, [f"P{i:03d}" for i in draws.permutation(40)], y, np.argsort(y.to_numpy())


def ranked_first(result):
    return json.loads(result.stdout[result.stdout.index("{") :])["selected"][0]["name"]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_of_rows_are_no_names_and_a_column_of_both_tables_is(people, first, suffix):
    X, names, y, order = people
    X, L = X.assign(Patient=names), pd.DataFrame({"Patient": names, "y": y}).iloc[order]
    X.index = L.index = pd.RangeIndex(first, first + 40)
    L.to_csv("l.csv")
    if suffix == "csv":
        X.to_csv("x.csv")
    else:
        X.reset_index(names="Unnamed: 0").to_parquet("x.parquet", index=False)
    command = ("select", f"x.{suffix}", "--labels", "l.csv", "--target", "y", "-n", 1)
    assert "not-feature Patient" in told(run(*command, code=2))
    command = (*command, "--not-feature", "Patient")
    done = run(*command, "--json")
    assert ranked_first(done) == "x2"
    assert "matched by sample name ('Patient'), in another order" in told(run(*command))
    for more in ({}, {"by_position": True}):
        labels = pd.read_csv("l.csv") if not more else pd.Series(y)
        opened = dhsic.select(
            f"x.{suffix}", labels, n_features_to_select=1, not_features=["Patient"], **more
        )
        assert dhsic.selected_features(opened)["feature"].to_numpy().tolist() == ["x2"]


@pytest.mark.parametrize("column", ["subject", "Proband"])
def test_labels_of_people_and_numbers_of_rows_are_refused_until_position_is_asked_for(
    people, column
):
    X, names, y, order = people
    X.to_csv("x.csv")
    pd.DataFrame({column: names, "y": y}).to_csv("l.csv")
    pd.DataFrame({column: names, "y": y}).iloc[order].reset_index(drop=True).to_csv("other.csv")
    for labels in ("l.csv", "other.csv"):
        command = ("select", "x.csv", "--labels", labels, "--target", "y", "-n", 1)
        said = told(run(*command, code=2))
        assert f"has sample names (column '{column}'" in said
        assert "Pass --by-position" in said
    command = ("select", "x.csv", "--labels", "l.csv", "--target", "y", "-n", 1, "--json")
    assert ranked_first(run(*command, "--by-position")) == "x2"
    X.set_axis(names, axis="index").to_csv("x.csv", index_label=column)  # the other remedy
    other = ("select", "x.csv", "--labels", "other.csv", "--target", "y", "-n", 1, "--json")
    assert ranked_first(run(*other)) == "x2"


def test_numbers_of_one_table_whose_rows_were_sorted_are_its_names(people):
    X, _, y, order = people
    X.to_csv("x.csv")
    y.iloc[order].to_frame().to_csv("l.csv")  # with the numbers of rows of x.csv
    command = ("select", "x.csv", "--labels", "l.csv", "--target", "y", "-n", 1)
    assert ranked_first(run(*command, "--json")) == "x2"
    assert "in another order" in told(run(*command))


def test_ids_that_count_are_ids(people):
    X, _, y, order = people
    ids = np.arange(1, 41)
    X.set_axis(ids, axis="index").to_csv("x.csv", index_label="IID")
    pd.DataFrame({"FID": ids, "IID": ids, "y": y}).iloc[order].to_csv("l.csv", index=False)
    command = ("select", "x.csv", "--labels", "l.csv", "--target", "y", "-n", 1, "--json")
    assert ranked_first(run(*command)) == "x2"


def test_tables_that_only_count_their_rows_go_by_position(people):
    X, _, y, _ = people
    X.to_csv("x.csv")
    y.to_frame().to_csv("l.csv")
    command = ("select", "x.csv", "--labels", "l.csv", "--target", "y", "-n", 1)
    assert "by position, for table and data only count their rows" in told(run(*command))
    y.iloc[:30].rename("y").to_frame().to_csv("l.csv")
    assert "30 rows, but the data have 40 samples" in told(run(*command, "--drop-missing", code=2))
