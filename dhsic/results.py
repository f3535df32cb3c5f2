"""The result: an `xarray.Dataset` with one row per feature and one per round.

What a run leaves out is counted in attributes of the result, each a whole number: `LEFT_OUT` names
them all and says what each counts. Code that leaves out something more gives it a name there, and
its count to `_attributes` if a source or a run knows it; who knows it later, as the command line
does of labels, assigns the attribute.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from os import PathLike, fspath
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.abc.store import Store
from zarr.storage import MemoryStore

from dhsic import accessor, tables  # noqa: F401  # results have the accessor `dhsic`
from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.engines.survival import lost_of, most_lost
from dhsic.engines.turns import turned_at
from dhsic.errors import DataError, InputError
from dhsic.memory import MemoryEstimate
from dhsic.rows import write_variables
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources import FEATURES, AbstractSource
from dhsic.sources.columns import NAME
from dhsic.sources.options import dimension_names
from dhsic.sources.scaling import Scaling
from dhsic.sources.stores import FolderStore, metadata_of
from dhsic.sources.values import ValueKind
from dhsic.sources.zarr import check_free, read_array, written_aside
from dhsic.storage import as_path, check_place, check_url, is_url, store_at
from dhsic.storage.format import META, as_bytes, in_memory
from dhsic.storage.objects import ObjectStore

#: Version of the layout below.
FORMAT = 1

DESCRIPTIONS = {
    "rank": "rank of the feature, 1 is the most relevant",
    "score": "by how much HSIC falls without the feature, in the round in which it left",
    "selected": "whether the feature is among those asked for",
    "round_removed": "round in which the feature left, 0 for constant features",
    "n_missing": "missing values of the feature, filled in with its mean",
    "mean": "mean of the values of the feature that are there",
    "allele_frequency": "non-reference alleles of the calls that are there, over their ploidy",
    "constant": "whether the feature does not vary",
    "round_n_features": "features left at the start of the round",
    "round_n_removed": "features removed in the round",
    "round_sigma": "kernel parameter of the round",
    "round_hsic": "HSIC of the features left at the start of the round",
    "round_seconds": "seconds that the round took",
    "round_bytes_read": "stored bytes read in the round",
    "round_landmarks": "landmarks of low rank, rows of its check included; 0 in exact rounds",
    "round_rank": "directions that low rank scored with",
    "round_relative_error": "estimated error of scores in low rank or kept, over their deviation",
    "round_cut_error": "estimated part of the features leaving that are wrong ones",
    "round_turn": "by how much the form that scores features turned since the round before",
    "round_expected_lost": "of the features left after the round, those that are wrong ones",
    "round_most_lost": "the same, no more of them nine times of ten",
    "round_engine": "engines that scored the round, and how many features each",
}

#: The same of methods that add features.
ADDED = {
    "score": "by how much HSIC rose with the feature, in the round in which it joined",
    "round_added": "round in which the feature joined, 0 for constant features",
    "round_n_features": "candidates at the start of the round",
    "round_n_selected": "features chosen at the start of the round",
    "round_n_added": "features added in the round",
    "round_hsic": "HSIC of the features chosen at the start of the round",
}

#: The same of methods that weight features.
WEIGHTED = {
    "score": "weight of the feature",
    "round_weighted": "step of which the weight is, 0 for constant features",
    "round_objective": "objective after the step",
    "round_hsic": "HSIC of the weighted features",
    "round_residual": "size of the projected gradient, or of the change of weights",
    "round_step": "length of the step",
    "round_n_evaluations": "evaluations of the objective",
    "round_n_nonzero": "features of a weight above 0",
}

#: The same of methods that score each feature once.
SCORED = {
    "round_scored": "1, 0 for constant features",
    "round_prior_degrees": "degrees of freedom of the prior of variances (Smyth 2004)",
    "round_prior_variance": "variance of that prior",
    "round_prior_spread": "spread of true differences that the odds suppose",
}
OTHERS = {"added": ADDED, "weighted": WEIGHTED, "scored": SCORED}

#: What the attribute ``engine`` holds of every round, as JSON, for who looks into engines: columns
#: of m x m matrix products; the largest part of its error bound that a score was found to be off;
#: the longest series in low rank; features left when they were last projected; what is to score
#: the next round first.
OF_ENGINES = ("products_float32", "products_float64", "error_bound_used", "order", "projected",
              "advice")  # fmt: skip
#: What names of what was found of pairs begin with.
PAIR = "pair_"
#: Features whose names are read from a store at once.
MOST_NAMED = 1 << 17
#: Attributes that count what was left out, by name: what they count.
LEFT_OUT = {
    "n_samples_left_out": "samples that take no part, as a label or covariate is missing",
    "n_samples_without_label": "samples among those that lack a label",
    "n_samples_without_covariate": "samples among those that lack a covariate",
    "n_rows_passed_over": "rows of tables that are of no sample of the data",
    "n_rows_elsewhere": "rows of tables taken by position that name a sample at another place",
    "n_samples_filtered": "samples that filters leave out, such as --keep",
    "n_features_filtered": "features that filters leave out, such as --pass-only",
    "n_values_coded": "values that are codes for missing ones, such as -9 beside 0, 1 and 2",
    "n_constant": "features that do not vary, which are ranked last",
    "n_wholly_missing": "features among those that have no value at all",
}


@dataclass(frozen=True)
class Order:
    """An order of the features that vary, and how it came about."""

    features: Index  # (s,), the least relevant first
    scores: Float  # (s,), of `features`; what a score means, the method says
    rounds: Index  # (s,), of `features`: the round (from 1) that gave each its place
    history: tuple[Mapping[str, Any], ...]  # a record per round, plain numbers and strings
    placed: str = "removed"  # what a round does with features: or "added", "weighted", "scored"
    meaning: str = ""  # what scores are, where that follows neither from `placed` nor from HSIC
    #: Features of each candidate, (g,), the least relevant first, where candidates are groups.
    sizes: Index | None = None
    #: More columns for the result, name to (values of all d features, what they are).
    extra: Mapping[str, tuple[Array, str]] = field(default_factory=dict)
    #: More attributes for the result.
    told: Mapping[str, Any] = field(default_factory=dict)
    #: Features that joined those asked for, as they act together.
    n_joined: int = 0

    def n_features(self, n_candidates: int) -> int:
        """Features of the n most relevant candidates, and those that joined them."""
        if self.sizes is None:
            return n_candidates + self.n_joined
        return int(self.sizes[::-1][:n_candidates].sum())


@dataclass(frozen=True)
class Outcome:
    """What a run found out, whatever its method; `to_dataset` makes it presentable."""

    order: Order
    scaling: Scaling
    label_kernel: str
    n_targets: int
    parameters: Mapping[str, Any]
    source: AbstractSource
    values: ValueKind
    n_samples: int
    promise: MemoryEstimate
    runtime: str
    pairs: xr.Dataset | None = None  # the best ones, where they were looked at

    @property
    def worst_first(self) -> Index:
        """All features, the least relevant first, and before them those that are constant."""
        return np.concatenate([np.flatnonzero(self.scaling.constant), self.order.features])


def versions() -> dict[str, str]:
    """Versions that a ranking may depend on, down to the last bit of a sum.

    Those of dhsic and of what computes for it, and the device, where there is one.
    """
    device = wanted_device()
    return {**_installed()} if device is None else {**_installed(), "device": device}


@cache
def _installed() -> dict[str, str]:
    """Versions of packages, looked up once: that takes as long as a small run."""
    return {name: version(name) for name in ("dhsic", "numpy", "scipy", "zarr")}


def ranking(order: Index) -> Index:
    """Rank of every feature, 1 the best, from the order of leaving (the worst first)."""
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size, 0, -1)
    return ranks


@dataclass(frozen=True)
class About:
    """What a source says of its features, which takes reading it."""

    coords: Mapping[str, tuple[str, Any]]
    fingerprint: str
    dim: str = FEATURES

    @staticmethod
    def of(source: AbstractSource) -> About:
        """Ask a source; where it has many features, what it says stays in its store."""
        columns = source.feature_columns()
        if columns is not None and source.n_features > MOST_NAMED:
            known = {name: column.lazily() for name, column in columns.items()}
        else:
            known = dict(source.feature_coords())
            names = source.feature_names()
            if names is not None:
                known[NAME] = np.asarray(names, dtype=object)
        coords = {name: (FEATURES, values) for name, values in known.items()}
        return About(coords, source.fingerprint(), source.names.dim)


def to_dataset(outcome: Outcome, n_selected: int, about: About | None = None) -> xr.Dataset:
    """Dataset of an outcome of which the first `n_selected` features count as selected.

    `about` is of its source, which is asked where it is not known.
    """
    about = about or About.of(outcome.source)
    order = outcome.order
    ranks = ranking(outcome.worst_first)
    d = ranks.size
    scores, rounds = np.full(d, np.nan), np.zeros(d, dtype=np.int64)
    scores[order.features] = order.scores
    rounds[order.features] = order.rounds
    per_feature: dict[str, Array] = {
        "rank": ranks,
        "score": scores,
        "selected": ranks <= n_selected,
        f"round_{order.placed}": rounds,
        "n_missing": outcome.scaling.n_missing,
        **_means(outcome),
        "constant": outcome.scaling.constant,
    }
    said = DESCRIPTIONS | OTHERS.get(order.placed, {})
    if order.meaning:
        said = said | {"score": order.meaning, "round_hsic": "criterion before the round"}
    data = {k: (FEATURES, v, {"long_name": said[k]}) for k, v in per_feature.items()}
    for name, (values, meaning) in order.extra.items():
        data[name] = (FEATURES, values, {"long_name": meaning})
    history = _history(outcome)
    inner = {key: history.pop(key).tolist() for key in OF_ENGINES if key in history}
    for key, values in history.items():
        name = f"round_{key}"
        data[name] = ("rounds", values, {"long_name": said.get(name, key)})
    attributes = _attributes(outcome, n_selected) | {"fingerprint": about.fingerprint}
    if outcome.pairs is not None:
        for called, each in outcome.pairs.items():
            data[f"{PAIR}{called}"] = "pairs", each.to_numpy(), dict(each.attrs)
        attributes |= {f"{PAIR}{name}": value for name, value in outcome.pairs.attrs.items()}
        attributes["n_joined"] = order.n_joined
    if inner:
        attributes["engine"] = json.dumps(inner)
    coords = {name: of for name, of in about.coords.items() if name not in data}
    found = xr.Dataset(data, coords=coords, attrs=attributes)
    is_taken = about.dim in {*data, *found.dims, *tables.OF_RUNS, NAME}
    return found if is_taken else found.swap_dims({FEATURES: about.dim})


def rounds_of_engines(result: xr.Dataset) -> dict[str, Array]:
    """What engines did in every round, by names of `OF_ENGINES`; also of a result of before."""
    told = json.loads(result.attrs.get("engine", "{}"))
    text = {"advice": object}
    known = {name: np.array(values, text.get(name)) for name, values in told.items()}
    older = {name: f"round_{name}" for name in OF_ENGINES if f"round_{name}" in result}
    return known | {name: result[variable].to_numpy() for name, variable in older.items()}


def pairs_of(result: Any) -> xr.Dataset | None:
    """The best pairs of a selection with ``interactions=``, as `find_pairs` gives them; or None."""
    result = result_of_one(result)
    if f"{PAIR}share" not in result:
        return None
    known = {n: v for n, v in result.data_vars.items() if v.dims == ("pairs",)}
    return xr.Dataset(
        {str(name).removeprefix(PAIR): each for name, each in known.items()},
        attrs={k.removeprefix(PAIR): v for k, v in result.attrs.items() if k.startswith(PAIR)},
    )


def _means(outcome: Outcome) -> dict[str, Array]:
    """Means of the values that are there; of counts of alleles, how frequent they are."""
    scaling, ploidy = outcome.scaling, outcome.source.ploidy
    means = np.where(scaling.n_missing < outcome.n_samples, scaling.mean, np.nan)
    if ploidy is None or (means > ploidy).any():  # what is called a dosage is none
        return {"mean": means}
    return {"allele_frequency": means / ploidy}


def _history(outcome: Outcome) -> dict[str, Array]:
    """A column of each key of the records, where they lack it 0."""
    records = outcome.order.history
    out: dict[str, Array] = {}
    for key in dict.fromkeys(key for record in records for key in record):
        values = [record.get(key, 0) for record in records]
        text = any(isinstance(v, str) for v in values)
        out[key] = np.array([str(v) for v in values], dtype=object) if text else np.array(values)
    return out


def _attributes(outcome: Outcome, n_selected: int) -> dict[str, Any]:
    scaling, source = outcome.scaling, outcome.source
    n_features = int(scaling.constant.size)
    counted = {
        "n_features_filtered": int(source.n_features_filtered),
        "n_values_coded": sum(found.n for found in outcome.values.codes.values()),
        "n_constant": int(scaling.constant.sum()),
        "n_wholly_missing": int((scaling.n_missing == outcome.n_samples).sum()),
    }
    return {
        "source": f"dhsic-{_installed()['dhsic']}",
        "dhsic_format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_samples": outcome.n_samples,
        "n_features": n_features,
        "n_selected": int(min(n_selected, n_features)),
        **left_out(counted),
        "n_missing_values": int(scaling.n_missing.sum()),
        "n_features_with_missing": int((scaling.n_missing > 0).sum()),
        "label_kernel_used": outcome.label_kernel,
        "n_targets": outcome.n_targets,
        "values": str(outcome.values),
        **({"missing_codes": sorted(outcome.values.codes)} if outcome.values.codes else {}),
        **({"counted_allele": source.counted} if source.counted else {}),
        "runtime": outcome.runtime,
        "promised_bytes": outcome.promise.total,
        "parameters": json.dumps(outcome.parameters),
        "versions": json.dumps(versions()),
        **_consequences(outcome.order, n_selected),
        **outcome.order.told,
    }


def _consequences(order: Order, n_selected: int) -> dict[str, Any]:
    """What low rank may have cost, and what the order hangs on, of methods that remove features."""
    if order.placed != "removed":
        return {}
    return {
        "expected_lost": lost_of(order.history, n_selected),
        "most_lost": most_lost(order.history, n_selected),
        "turn_rank": turned_at(order.history, n_selected),
    }


def left_out(attributes: Mapping[str, Any]) -> dict[str, int]:
    """Counts of what was left out, all of `LEFT_OUT`, from the attributes of a result."""
    return {name: int(attributes.get(name, 0)) for name in LEFT_OUT}


def selected_features(result: Any) -> xr.Dataset:
    """The selected features alone, the best first, without the history of rounds.

    The coordinate ``features`` holds their positions in the data; where some of a store were left
    out, those among the others, and ``stored_feature`` those in the store.

    Raises
    ------
    InputError
        `result` is no result, nor a selector that was fitted.
    """
    result = result_of_one(result)
    chosen = np.flatnonzero(result["selected"].to_numpy())
    best_first = chosen[np.argsort(result["rank"].to_numpy()[chosen])]
    without = result.drop_dims(["rounds", "pairs"], errors="ignore").drop_vars("selected")
    chosen_alone: xr.Dataset = without.isel(features=best_first).compute()
    return chosen_alone.assign_coords(features=best_first)


def result_of_one(given: Any) -> xr.Dataset:
    """Return the result of one run, also of a selector after fit; InputError if it is none."""
    result = _of_one(_as_result(given))
    # One of several runs has variables where these have attributes that differ.
    own = {str(n): v.item() for n, v in result.data_vars.items() if v.ndim == 0 and n != "engine"}
    return tables.along_features(result.drop_vars(list(own)).assign_attrs(own))


def _as_result(given: Any) -> xr.Dataset:
    result = getattr(given, "result_", given)
    if not (isinstance(result, xr.Dataset) and "rank" in result and "selected" in result):
        raise InputError(
            f"{type(given).__name__} is no result of a selection; pass what dhsic.select returns, "
            "or a selector after fit."
        )
    checked: xr.Dataset = result
    return checked


def _of_one(result: xr.Dataset) -> xr.Dataset:
    """Refuse a result of several runs."""
    if result["rank"].ndim == 1:
        return result
    dim = result["rank"].dims[0]
    names = [str(name) for name in result[dim].to_numpy()[:3]]
    raise InputError(
        f"The result is of several runs, along {dim!r} ({', '.join(names)}, ...); pass one of "
        f"them, such as result.sel({dim}={names[0]!r})."
    )


def save(result: Any, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a result: a table of all features, or a Zarr store with everything.

    A path that ends in ``.tsv``, ``.csv`` (both also ``.gz``), ``.parquet`` or ``.json`` becomes a
    table, see `dhsic.tables` for its columns; one in ``.zarr``, or without a suffix, a Zarr store
    (format 3) that `load` and `xarray.open_zarr` read. Who is killed meanwhile leaves what was at
    `path`.

    Every array of a store carries crc32c and a fill value outside its domain. The folder that
    `path` is in is made where it is not there, if the one above is. At a URL of an object store,
    such as ``s3://bucket/result.zarr``, what a store overwrites is removed first.

    Raises
    ------
    InputError
        Something is at `path` and `overwrite` is off, there is no folder to write in, or the
        suffix is of no format that there is.
    StoreError
        An object store does not answer.
    """
    save_by(None, result, path, overwrite=overwrite)


def save_by(
    runtime: AbstractRuntime | None,
    result: Any,
    path: str | PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """As `save`; what a store says of features workers write, where they see the path."""
    result = _as_result(result)
    check_vacant(path, overwrite=overwrite)
    if tables.table_suffix(path):
        tables.write_table(result, path)
        return
    if is_url(path):
        _save_at(result, fspath(path))
        return
    check_place(as_path(path), "The result", InputError)
    with written_aside(as_path(path), overwrite=overwrite) as part:
        _write(result, str(part.absolute()), runtime)


def _save_at(result: xr.Dataset, url: str) -> None:
    """Put a result at a URL, its root last: before that there is none."""
    at = ObjectStore(check_url(url, "", InputError))
    files: dict[str, Any] = {}
    _write(result, MemoryStore(files))
    written = as_bytes(files)
    root = written.pop(META)
    at.remove(META)
    at.remove("")
    at.write_all(written)
    at.write(META, root)


def _write(result: xr.Dataset, store: Any, runtime: AbstractRuntime | None = None) -> None:
    group = zarr.open_group(store, mode="w", zarr_format=3, attributes=dict(result.attrs))
    known = {str(name): variable for name, variable in result.variables.items()}
    write_variables(group, known, runtime, None if runtime is None else store)
    coordinates = " ".join(map(str, result.coords))
    if coordinates:
        group.attrs["coordinates"] = coordinates
    with warnings.catch_warnings():  # where xarray looks for the metadata of all arrays
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)  # of format 3
        zarr.consolidate_metadata(store)


def check_vacant(path: str | PathLike[str], *, overwrite: bool) -> None:
    """Refuse to write a result where something is, unless to overwrite it, or in no format."""
    is_table, is_there = bool(tables.check_suffix(path)), exists(path)
    if not (is_table or is_url(path)):
        check_free(as_path(path), overwrite=overwrite)
        return
    at = store_at(path, "", InputError)
    is_file = not at.is_there() if is_url(path) else as_path(path).is_file() or not is_there
    if is_table and not is_file:
        raise InputError(
            f"{path} is a folder, or something else than a file, so no table is written over it. "
            "Choose another path, or remove it yourself."
        )
    if not (is_table or is_there) and (held := sorted(at.names())):
        raise InputError(
            f"{path} holds other things ({', '.join(held[:3])}) and is not a Zarr store, so it is "
            "not overwritten. Choose another path, or remove it yourself."
        )
    if is_there and not overwrite:
        raise InputError(
            f"{path} exists already. Choose another path, or overwrite it (overwrite=True)."
        )


def exists(path: str | PathLike[str]) -> bool:
    """Return whether anything is at a path, or a Zarr store or table at a URL."""
    if is_url(path):
        return store_at(path, "", InputError).has("" if tables.table_suffix(path) else META)
    return as_path(path).exists()


def load(path: str | PathLike[str]) -> xr.Dataset:
    """Read a result back, into memory.

    Raises
    ------
    InputError
        There is none at `path`, or a table.
    StoreError
        An object store does not answer.
    """
    at = store_at(path, "", InputError)
    if not at.is_there():
        suffix = tables.table_suffix(path)
        if suffix and exists(path):
            raise InputError(
                f"{path} is a table, and a result is read from the Zarr store that dhsic.save "
                f"wrote. Read the table with {tables.FORMATS[suffix.removesuffix('.gz')][1]}."
            )
        raise InputError(f"There is no result at {path}; pass the folder that dhsic.save wrote.")
    if isinstance(at, ObjectStore):
        store: Store = in_memory(at.read_all(at.tree()))
    else:
        store = FolderStore(as_path(path), read_only=True)
    try:
        with metadata_of(path):
            group = zarr.open_group(store, mode="r", use_consolidated=False)
            arrays = dict(group.arrays())
    except OSError as error:
        raise InputError(
            f"{path} holds no result of a selection ({type(error).__name__}); pass the folder that "
            "dhsic.save wrote."
        ) from error
    if "dhsic_format" not in group.attrs:
        raise InputError(
            f"{path} is a Zarr store of something else; pass the folder that dhsic.save wrote."
        )
    if "rank" not in arrays:  # zarr 3.1.0 passes over arrays that it cannot open
        raise DataError(f"{path} lacks the ranks of a result; it is damaged: save it again.")
    attributes = dict(group.attrs)
    coordinates = str(attributes.pop("coordinates", "")).split()
    read = xr.Dataset({name: _variable(array) for name, array in arrays.items()}, attrs=attributes)
    return read.set_coords([name for name in coordinates if name in read])


def _variable(array: zarr.Array[Any]) -> xr.Variable:
    values = read_array(array)
    dims = [str(dim) for dim in dimension_names(array) or ()]
    if len(dims) != values.ndim:
        raise InputError(
            f"{array.store_path} has no names of dimensions, so it is no part of a result; pass "
            "the folder that dhsic.save wrote."
        )
    values = values.astype(object) if values.dtype.kind == "T" else values
    return xr.Variable(dims, values, dict(array.attrs))
