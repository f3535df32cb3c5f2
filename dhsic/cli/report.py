"""Output of a result as text, JSON or HTML, and its comparison with the truth of a simulation.

Linkage makes neighbouring variants nearly exchangeable. So a causal variant also counts as found if
a variant near it is selected instead. "Near" means within 20 kb on the same contig. Simulated
variants are 1 kb apart on average, and their r2 at a distance of 20 kb is 0.04.
"""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Index, Mask
from dhsic.cli.console import counted, echo_json, printable, seconds, shown, tell, tell_finding
from dhsic.cli.options import spelled
from dhsic.cli.out import NAMED, OF_ALL
from dhsic.errors import InputError
from dhsic.joins.filtered import OF_SAMPLES
from dhsic.joins.sample_weights import SAMPLE_WEIGHT
from dhsic.memory import human
from dhsic.reports.sentences import costs_of, doubts_of, order_of
from dhsic.results import tables
from dhsic.results.files import from_table, load
from dhsic.results.schema import PAIR_WITH, left_out
from dhsic.results.tables import table_suffix
from dhsic.results.views import partner_names, selected_lazily
from dhsic.selection.multi_output import dimension_of, parts
from dhsic.simulation.truth import Truth
from dhsic.sources.hdf5 import OTHER_TYPES
from dhsic.sources.views import STORED

NEAR_BASES = 20_000


@dataclass(frozen=True)
class Comparison:
    """The selected features, compared with the p causal variants of a simulation."""

    #: Kind of each of the k selected features, best first: "additive" or "pair" if causal, "near
    #: additive" or "near pair" if near a causal variant, else "".
    markers: Array
    exact: Mask  # (p,), causal variants that are selected
    near: Mask  # (p,), causal variants that are not selected, but a variant near them is
    kinds: Array  # (p,), "additive" or "pair"
    among: str = ""  # description of the compared features, if these are not the selected ones

    def sentence(self) -> str:
        """Summary of the comparison for display, in two lines."""
        exact, near = int(self.exact.sum()), int(self.near.sum())
        kinds = ", ".join(
            f"{printable(kind)} {int((self.exact | self.near)[self.kinds == kind].sum())} of "
            f"{int((self.kinds == kind).sum())}"
            for kind in dict.fromkeys(self.kinds)
        )
        return (
            f"recovered {exact + near} of {len(self.exact)} planted variants{self.among} ({exact} "
            f"exactly, {near} by a linked neighbour)\n"
            f"{kinds}; near: within {NEAR_BASES // 1000} kb of a planted variant"
        )

    def plain(self) -> dict[str, object]:
        """Numbers of planted and recovered variants, for JSON."""
        return {
            "planted": len(self.exact),
            "recovered": int((self.exact | self.near).sum()),
            "exactly": int(self.exact.sum()),
            "by_neighbour": int(self.near.sum()),
            "near_bases": NEAR_BASES,
        }


def compare(result: xr.Dataset, truth: Truth) -> Comparison:
    """Compare the selected features of a result with the truth of a simulation."""
    stored = stored_features(result)
    d = stored.size + int(result.attrs.get("n_features_filtered", 0))
    if truth.variant_index.size and int(truth.variant_index.max()) >= d:
        raise InputError(
            f"The truth lists variant {int(truth.variant_index.max())}, but the data have {d} "
            "features; pass the truth of this store."
        )
    order = np.argsort(result["rank"].to_numpy(), kind="stable")
    best = order[: int(result["selected"].sum())]
    same = stored[best][:, None] == truth.variant_index[None, :]  # (k, p)
    close = _close(result, best, truth) & ~same.any(axis=1)[:, None]
    markers = np.full(best.size, "", dtype=object)
    for i in range(best.size):
        for prefix, neighbours in (("", same[i]), ("near ", close[i])):
            if neighbours.any():
                markers[i] = prefix + str(truth.kind[int(np.argmax(neighbours))])
                break
    exact = same.any(axis=0)
    return Comparison(markers, exact, close.any(axis=0) & ~exact, truth.kind)


def stored_features(result: xr.Dataset) -> Index:
    """Return the indices (d,) of a result's features in the store, which filters do not change."""
    if STORED in result.coords:
        return np.asarray(result[STORED].to_numpy(), dtype=np.int64)
    return np.arange(result.sizes["features"])


def _close(result: xr.Dataset, features: Index, truth: Truth) -> Mask:
    """Mask (k, p): whether each of k features is near each of p causal variants."""
    if not {"variant_contig", "variant_position"} <= set(result.coords):
        return np.zeros((features.size, truth.variant_index.size), dtype=bool)
    stored = stored_features(result)
    is_there = np.isin(truth.variant_index, stored)
    at = np.searchsorted(stored, truth.variant_index[is_there])
    if not (_of(result, "variant_position", at) == truth.position[is_there]).all():
        raise InputError(
            "Positions in the truth differ from the data; pass the truth of this store."
        )
    same_contig = _of(result, "variant_contig", features)[:, None] == truth.contig[None, :]
    position = _of(result, "variant_position", features).astype(np.int64)
    distance = np.abs(position[:, None] - truth.position[None, :])
    return np.asarray(same_contig & (distance <= NEAR_BASES))


def _of(result: xr.Dataset, name: str, features: Index) -> Array:
    """Return the values of the variable `name` of a result for the features at these indices."""
    return np.asarray(result[name].isel(features=features).to_numpy())


#: Maximum number of rows of a printed table; --json and --out have all rows.
MOST_ROWS = 200
GAP = "  "


def show(
    result: xr.Dataset,
    truth: Truth | None,
    out: str | None,
    *,
    as_json: bool,
    first: int | None = None,
    took: Mapping[str, Any] | None = None,
) -> None:
    """Print a result, its comparison with causal variants, and the path `out`.

    The selected features are printed; for tests, the best `first` features. If this process
    computed the result, `took` contains its ``seconds`` and ``peak_bytes``. Several runs are
    printed one after the other, with their names.
    """
    shown_runs = {
        name: _RunPrinter.of(part, truth, took or {}, first) for name, part in parts(result)
    }
    if as_json:
        each = {
            name: _as_json(one.chosen, one.costs, one.planted) for name, one in shown_runs.items()
        }
        dim = dimension_of(result)
        echo_json((each[""] if dim is None else {dim: each}) | {"out": out})
        return
    width = max(80, min(shutil.get_terminal_size((100, 24)).columns, 120))
    for number, (name, one) in enumerate(shown_runs.items()):
        if name:
            click.echo(("\n" if number else "") + click.style(printable(name), bold=True))
        click.echo(as_text(one.chosen, one.planted, width))
    costs = [one.costs for one in shown_runs.values()]
    rounds = counted(max(c["rounds"] for c in costs), "round")
    each_of = f"{len(costs):,} runs of {rounds}" if len(costs) > 1 else rounds
    time = seconds(max(c["seconds"] for c in costs))
    summary = f"{each_of}{f', {time} in all' if took else f' in {time}'}, "
    summary += f"{human(sum(c['bytes_read'] for c in costs))} read"
    if took:
        summary += f", peak memory {human(costs[0]['peak_bytes'])}"
        summary += f" (estimated: {human(costs[0]['promised_bytes'])})"
    tell(summary)
    for name, lines in _lines(shown_runs).items():
        for line in lines:
            tell_finding(f"{name}: {line}" if name else line)
    if out is not None:
        suffix = table_suffix(out)
        what = "list of selected features" if suffix == tables.LIST else "table" if suffix else ""
        tell(f"{what or 'result'} in {shown(out)}")


def _lines(told: Mapping[str, _RunPrinter]) -> dict[str, list[str]]:
    """Return sentences about each run, by the run's name; sentences common to all are at ""."""
    every = {
        name: [*_filters(one.result), *order_of(one.result), *doubts_of(one.result, one.costs)]
        for name, one in told.items()
    }
    first = next(iter(every.values()))
    same = [line for line in first if all(line in lines for lines in every.values())]
    each = {name: [line for line in lines if line not in same] for name, lines in every.items()}
    return {**each, "": each.get("", []) + same}


def report(*, path: str, out: str, pairs: str | None, shares: str | None, force: bool) -> None:
    """Write an HTML report about the result at `path`."""
    from dhsic.reports.html import report as write

    pair_table = None if pairs is None else _of_pairs(pairs, "--out", "family_wise")
    shared = None if shares is None else _of_pairs(shares, "--shares --out", "hsic")
    for page in write(result_at(path), out, pairs=pair_table, shares=shared, overwrite=force):
        tell(f"report in {shown(str(page))}")


def result_at(path: str) -> xr.Dataset:
    """Read a result from a table of all features, or from a Zarr store."""
    return from_table(path) if table_suffix(path) and Path(path).is_file() else load(path)


def _of_pairs(path: str, written_by: str, column: str) -> xr.Dataset:
    """Read a table that ``dhsic pairs`` wrote with the option `written_by`.

    The table must have the column `column`.
    """
    if not Path(path).is_file():
        raise InputError(
            f"There is no file {shown(path)}. Pass the table from dhsic pairs {written_by}."
        )
    table = pd.read_csv(path, sep=None, engine="python", comment=None, keep_default_na=False)
    table = table.rename(columns=NAMED)  # older versions used the names of results
    if missing := {*NAMED.values(), "share", column} - set(table):
        raise InputError(
            f"{shown(path)} has no column {', '.join(sorted(missing))}; pass the table "
            f"from dhsic pairs {written_by}."
        )
    table = table.rename(columns={name: of for of, name in NAMED.items()})
    about = {name: float(table.pop(name)[0]) for name in OF_ALL if name in table and len(table)}
    dataset = xr.Dataset.from_dataframe(table.rename_axis("rows")).drop_vars("rows")
    return dataset.assign_attrs(about)


@dataclass(frozen=True)
class _RunPrinter:
    """One run for printing: result, selected features, costs, and comparison with the truth."""

    result: xr.Dataset
    chosen: xr.Dataset
    costs: Mapping[str, Any]
    planted: Comparison | None

    @staticmethod
    def of(
        result: xr.Dataset, truth: Truth | None, took: Mapping[str, Any], first: int | None
    ) -> _RunPrinter:
        """Create the object for the result of one run; for the other arguments, see `show`."""
        shown = result
        if first is not None:
            shown = result.assign(selected=result["rank"] <= first)
        planted = None if truth is None else compare(shown, truth)
        if planted is not None and first is not None:
            planted = replace(planted, among=f" among the first {planted.markers.size:,} features")
        return _RunPrinter(result, selected_lazily(shown), costs_of(result, took), planted)


def filters_told(left_out: Mapping[str, int]) -> str:
    """Format the numbers of samples and features that each filter excluded.

    >>> filters_told({"keep": 17, "chromosomes": 300, "exclude": 1})
    'excluded 17 samples (17 by --keep), 301 features (300 by --chr, 1 by --exclude)'
    """
    parts = []
    for noun in ("sample", "feature"):
        of = {k: n for k, n in left_out.items() if (k in OF_SAMPLES) == (noun == "sample")}
        each = ", ".join(f"{n:,} {_reason(name)}" for name, n in of.items())
        parts += [f"{counted(sum(of.values()), noun)} ({each})"] if of else []
    return f"excluded {', '.join(parts)}"


def _reason(name: str) -> str:
    """Return the reason why the filter `name` excluded samples or features, for messages."""
    if name == SAMPLE_WEIGHT:
        return "of weight 0"
    return "of other types than --variable" if name == OTHER_TYPES else f"by {spelled(name)}"


def _filters(result: xr.Dataset) -> list[str]:
    """Return a list of one sentence on excluded samples and features; empty if there are none."""
    left_out_by = json.loads(result.attrs.get("left_out", "{}"))
    return [f"Filters {filters_told(left_out_by)}."] if left_out_by else []


def _as_json(
    chosen: xr.Dataset, costs: Mapping[str, Any], planted: Comparison | None
) -> dict[str, Any]:
    """Convert one run to plain values for JSON; non-finite numbers become null."""
    columns = tables.columns(chosen)
    if planted is not None:
        columns["planted"] = np.array([marker or None for marker in planted.markers], dtype=object)
    out = {
        "n_samples": int(chosen.attrs["n_samples"]),
        "n_features": int(chosen.attrs["n_features"]),
        **left_out(chosen.attrs),
        "left_out": json.loads(chosen.attrs.get("left_out", "{}")),
        "label_kernel": str(chosen.attrs["label_kernel_used"]),
        **{name: chosen.attrs[name] for name in ("inflation",) if name in chosen.attrs},
        "selected": list(tables.rows(columns)),
        **costs,
    }
    return out if planted is None else out | {"recovered": planted.plain()}


def as_text(chosen: xr.Dataset, planted: Comparison | None, width: int) -> str:
    """Format the table of selected features or groups, at most `width` characters wide."""
    is_grouped = "group" in chosen
    place = chosen["group_rank" if is_grouped else "rank"].to_numpy()
    ranks, first, sizes = np.unique(place, return_index=True, return_counts=True)
    at = first[:MOST_ROWS]
    columns = {"rank": [str(rank) for rank in ranks[:MOST_ROWS]]}
    if is_grouped:
        columns["group"] = [str(name) for name in chosen["group"].to_numpy()[at]]
        columns["features"] = [f"{size:,}" for size in sizes[:MOST_ROWS]]
    else:
        columns |= _names(chosen, at)
    columns |= _numbers(chosen, at)
    if planted is not None and not is_grouped:
        columns["planted"] = list(planted.markers[at])
    if not ranks.size:
        return "no features selected"
    lines = _aligned(columns, width)
    if ranks.size > MOST_ROWS:
        lines.append(f"... {ranks.size - MOST_ROWS:,} more (to see all, use --out or --json)")
    if is_grouped:
        return "\n".join(lines)
    is_loss = str(chosen["score"].attrs.get("long_name", "")).startswith(LOSSES)
    if is_loss and "rank_alone" not in chosen:  # otherwise scores did not make the order
        lines += _without_dependence(chosen["score"].to_numpy(), width)
    if planted is not None:
        lines += ["", planted.sentence()]
    return "\n".join(lines)


def _names(chosen: xr.Dataset, at: Index) -> dict[str, list[str]]:
    """Columns that identify the features `at`: names or indices, and genomic positions."""
    labels = chosen["feature" if "feature" in chosen.coords else "features"].to_numpy()[at]
    out = {"name": [str(name) for name in labels]}
    if "variant_contig" in chosen.coords:
        out["contig"] = [str(name) for name in chosen["variant_contig"].to_numpy()[at]]
    if "variant_position" in chosen.coords:
        out["position"] = [f"{p:,}" for p in chosen["variant_position"].to_numpy()[at]]
    return out


#: Beginnings of the description of scores that are losses of HSIC; the second in older results.
LOSSES = ("decrease of HSIC", "by how much HSIC falls")
#: Columns of text.
WORDS = ("shape", "gene", "gene_distance")


def _numbers(chosen: xr.Dataset, at: Index) -> dict[str, list[str]]:
    """Formatted columns of the statistics of the features at positions `at`."""
    # the column that determines the order
    by = "fall_given_others" if chosen.attrs.get("given_others") else "score"
    specs = {by: ".3e", "p": ".3g", "q": ".3g", "fdr": ".3g", "stability": ".0%"}
    if not {"p", "fdr"} & {*chosen}:  # p and fdr are more specific
        specs |= {"p_marginal": ".3g", "q_marginal": ".3g"}
    still = chosen["constant"].to_numpy()[at]
    words = {
        name: [str(v) for v in chosen[name].to_numpy()[at]] for name in WORDS if name in chosen
    }
    numbers = {
        name: [
            format(value + 0.0, spec) if np.isfinite(value) else "constant" if is_still else ""
            for value, is_still in zip(chosen[name].to_numpy()[at], still, strict=True)
        ]
        for name, spec in specs.items()
        if name in chosen
    }
    if PAIR_WITH not in chosen:
        return numbers | words
    partners = partner_names(chosen, chosen[PAIR_WITH][at].to_numpy())
    return numbers | words | ({PAIR_WITH: partners} if any(partners) else {})


def _without_dependence(scores: Array, width: int) -> list[str]:
    """Lines of a note on features with scores <= 0, to print below the table; else empty."""
    low = np.flatnonzero(scores <= 0)
    if not low.size:
        return []
    note = (
        f"{counted(low.size, 'selected feature')} {'has' if low.size == 1 else 'have'} a score of "
        f"0 or less (the first at rank {low[0] + 1}): HSIC did not decrease when the feature was "
        "removed, so it adds no dependence to that of the remaining features."
    )
    return ["", *textwrap.wrap(note, width)]


def _aligned(columns: dict[str, list[str]], width: int) -> list[str]:
    """Lines of a table: numbers right-aligned, long names shortened to fit."""
    columns = {key: [printable(cell) for cell in cells] for key, cells in columns.items()}
    left_aligned = ("name", "group", "planted")
    sizes = {key: max(len(v) for v in (key, *values)) for key, values in columns.items()}
    excess = sum(sizes.values()) + len(GAP) * (len(sizes) - 1) - width
    long = "name" if "name" in sizes else "group"
    sizes[long] = max(12, sizes[long] - max(0, excess))
    rows = [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            f"{_short(v, sizes[k]):<{sizes[k]}}" if k in left_aligned else f"{v:>{sizes[k]}}"
            for k, v in zip(columns, row, strict=True)
        ]
        line, marker = GAP.join(cells).rstrip(), row[-1] if "planted" in columns else ""
        if number == 0:
            line = click.style(line, bold=True)
        elif marker:
            line = click.style(line, fg="yellow" if marker.startswith("near") else "green")
        lines.append(line)
    return lines


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
