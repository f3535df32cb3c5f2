"""Columns: what a store says of many features is read for some at a time, and says the same."""

import pickle
import threading

import numpy as np
import pytest
import xarray as xr
import zarr
from stores import draw_genotypes, write, write_vcz

import dhsic
from dhsic.results import files, schema, tables
from dhsic.results.files import _write_stretch
from dhsic.runtime.base import Job
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources import columns, variants
from dhsic.sources.columns import Column, all_differ

D, M, WIDTH = 40, 12, 7

NAMED = {
    "ids": {},
    "ids, some blank": {"ids": ["", "."] + [f"rs{i}" for i in range(2, D)]},
    "ids that repeat": {"ids": ["rs1"] * D},
    "a blank id that another one has": {"ids": ["", *["1:5"] * (D - 1)]},
    "no ids": {"without": ("variant_id",)},
    "places that repeat": {"without": ("variant_id",), "place": 5},
    "places that repeat, without alleles": {
        "without": ("variant_id", "variant_allele"),
        "place": 5,
    },
    "ids alone": {"without": ("variant_position",), "ids": [".", *["rs"] * (D - 1)]},
    "nothing": {"without": ("variant_id", "variant_position")},
}


def variants_of(path, without=(), place=None, ids=None):
    """VCF Zarr whose variants are named in one of the ways there are."""
    group = write_vcz(path, draw_genotypes(D, M), ids=ids)
    if place is not None:
        group["variant_position"][...] = place
        group["variant_allele"][:, 1] = np.array([f"T{i}" for i in range(D)], object)
    for name in without:
        del group[name]
    return path


def plain(path):
    """A plain Zarr group whose features have names."""
    group = zarr.open_group(path, mode="w")
    write(group, "X", np.random.default_rng(3).standard_normal((M, D)), ("samples", "genes"))
    write(group, "gene_id", np.array([f"g{i}" for i in range(D)], object), ("genes",))
    return path


@pytest.fixture
def some_at_a_time(monkeypatch):
    """Few features are many."""

    def begin():
        monkeypatch.setattr(schema, "MOST_NAMED", 0)
        for module in (columns, variants, files):
            monkeypatch.setattr(module, "STRETCH", WIDTH)
        monkeypatch.setattr(tables, "READ", 2 * WIDTH)
        monkeypatch.setattr(tables, "ROWS", WIDTH)

    return begin


def selected(path, **options):
    y = np.arange(M) % 2
    model = dhsic.BAHSIC(5, progress=False, runtime="threads")
    return model.fit(path, y, **options)


def same(one, other):
    """Whether two results are, but for when they came about."""
    drop = {"created": "", "promised_bytes": 0}
    for result in (one, other):
        result.attrs |= drop
    return one.drop_vars("round_seconds").identical(other.drop_vars("round_seconds"))


@pytest.mark.parametrize("named", NAMED)
def test_variants_are_named_alike_at_once_and_some_at_a_time(tmp_path, some_at_a_time, named):
    source = dhsic.open_source(variants_of(tmp_path / "g.vcz", **NAMED[named]))
    names, coords = source.feature_names(), source.feature_coords()
    some_at_a_time()
    there = dhsic.open_source(tmp_path / "g.vcz").feature_columns()
    known = {name: np.concatenate([*column.parts()]) for name, column in there.items()}
    found = known.pop("feature", None)
    assert (names is None) == (found is None)
    if names is not None:
        assert found.tolist() == names.tolist()
    assert list(known) == list(coords)
    for name, values in coords.items():
        assert known[name].dtype == values.dtype == there[name].dtype
        assert known[name].tolist() == values.tolist()


@pytest.mark.parametrize("kind", ["variants", "passing", "plain"])
def test_results_are_the_same(tmp_path, some_at_a_time, kind):
    if kind == "plain":
        path, options = plain(tmp_path / "x.zarr"), {"variable": "X"}
    else:
        path, options = variants_of(tmp_path / "g.vcz"), {}
    if kind == "passing":
        group = zarr.open_group(path)
        write(group, "filter_id", np.array(["PASS"], object), ("filters",))
        passed = (np.arange(D) % 3 > 0)[:, None]
        write(group, "variant_filter", passed, ("variants", "filters"))
        options = {"pass_only": True}
    at_once = selected(path, **options)
    some_at_a_time()
    model = selected(path, **options)
    assert "values with dtype" in repr(model.result_["feature"].variable)  # unread
    for suffix in ("zarr", "tsv", "json"):
        dhsic.save(at_once, tmp_path / f"a.{suffix}")
        dhsic.save(model, tmp_path / f"b.{suffix}")
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()
    read = [dhsic.load(tmp_path / f"{name}.zarr") for name in "ab"]
    assert same(*read)
    chosen = dhsic.selected_features(pickle.loads(pickle.dumps(model.result_)))
    assert same_rows(chosen, dhsic.selected_features(at_once))
    assert model.feature_names_in_.tolist() == at_once.feature_names_in_.tolist()
    assert same(model.result_, at_once.result_)
    assert list(model.result_.variables) == list(at_once.result_.variables)
    assert "feature_names_in_" in vars(model)  # read once


def same_rows(one, other):
    """Whether two tables of selected features are the same."""
    return one.drop_attrs().identical(other.drop_attrs())


def test_a_selector_fitted_again_forgets_names(tmp_path, some_at_a_time):
    some_at_a_time()
    model = selected(plain(tmp_path / "x.zarr"), variable="X")
    assert model.feature_names_in_[1] == "g1"
    model.fit(np.random.default_rng(0).normal(size=(M, 6)), np.arange(M) % 2)
    assert not hasattr(model, "feature_names_in_")


def test_names_come_a_stretch_at_a_time(tmp_path, some_at_a_time, monkeypatch):
    path = plain(tmp_path / "x.zarr")
    some_at_a_time()
    widths = []
    read = columns.Column.at

    def counted(column, features):
        widths.append(features.size)
        return read(column, features)

    monkeypatch.setattr(columns.Column, "at", counted)
    source = dhsic.open_source(path, variable="X")
    monkeypatch.setattr(type(source), "feature_names", None)  # never asked for
    dhsic.save(selected(path, variable="X"), tmp_path / "a.tsv")
    of_best = 32  # features that are looked at for labels under another name
    assert sorted({*widths})[-2:] == [2 * WIDTH, of_best]


@pytest.mark.parametrize(
    "key",
    [3, -1, slice(None), slice(5, 31), slice(30, 2, -3), [4, -2, 4, 39, 0], np.arange(D) > 20],
)
def test_a_column_is_indexed_as_an_array(monkeypatch, key):
    monkeypatch.setattr(columns, "STRETCH", WIDTH)
    values = np.random.default_rng(1).permutation(D)
    column = Column(D, values.dtype, values.__getitem__)
    variable = xr.Variable(("features",), column.lazily())
    expected = values[key]
    np.testing.assert_array_equal(variable[key].to_numpy(), expected)
    np.testing.assert_array_equal(variable[2:][:20].to_numpy(), values[2:][:20])
    np.testing.assert_array_equal(variable.to_numpy(), values)


def test_texts_that_differ_are_told_from_those_that_share_their_bits(monkeypatch):
    parts = [np.array(["a", "b"], object), np.array(["c", ""], object)]
    assert all_differ(lambda: parts)
    assert not all_differ(lambda: [*parts, np.array(["b"], object)])
    monkeypatch.setattr(columns, "bits_of", lambda texts: np.zeros(texts.size, np.uint64))
    assert all_differ(lambda: parts)
    assert not all_differ(lambda: [*parts, np.array(["b"], object)])
    assert all_differ(list)


@pytest.mark.parametrize("is_seen", [True, False])
def test_workers_write_what_a_store_says_where_they_see_the_result(
    tmp_path, some_at_a_time, client, is_seen, monkeypatch
):
    path = variants_of(tmp_path / "g.vcz")
    dhsic.save(selected(path), tmp_path / "a.zarr")
    some_at_a_time()
    result = selected(path).result_
    stored, here = files._stored, []

    def counted(values):
        here.append(threading.current_thread() is threading.main_thread())
        return stored(values)

    monkeypatch.setattr(files, "_stored", counted)
    if not is_seen:
        monkeypatch.setattr(files, "_write_stretch", _elsewhere)
    with DaskRuntime(client) as runtime:
        files.save_by(runtime, result, tmp_path / "b.zarr")
    n_text = 6 * -(-D // WIDTH)  # five coordinates, and names
    assert here.count(False) == (n_text if is_seen else 0)
    assert same(*(files.load(tmp_path / f"{name}.zarr") for name in "ab"))


def _elsewhere(source, job, state):
    """A worker of another machine, which does not see the result."""
    return _write_stretch(source, job, ("/no/such/result", *state[1:]))


def test_a_worker_writes_to_no_other_result(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", attributes={"created": "today"})
    write(group, "feature", np.zeros(D), ("features",))
    unread = {"feature": xr.Variable(("features",), np.ones(D))}
    job = Job((), slice(0, D))
    assert not _write_stretch(None, job, (str(tmp_path / "a.zarr"), ["yesterday", None], unread))
    assert not group["feature"][:].any()
    assert _write_stretch(None, job, (str(tmp_path / "a.zarr"), ["today", None], unread))
    assert group["feature"][:].all()
