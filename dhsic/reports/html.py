"""Reports: an HTML page about a run, its findings and their reliability.

The page contains its plots, tables, style and script, so it needs no network and no server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from io import StringIO
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic import plot
from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.joins.filtered import OF_SAMPLES
from dhsic.memory import human
from dhsic.reports.sentences import (
    costs_of,
    doubts_of,
    loci_sentences,
    order_of,
    told_of_pairs,
    took_loco,
)
from dhsic.results import tables
from dhsic.results.nearest_genes import DISTANCE
from dhsic.results.schema import PAIR_WITH
from dhsic.results.views import of_selected, pairs_of, partner_names, result_of_one
from dhsic.selection.loci import LOCUS, loci_table
from dhsic.selection.multi_output import dimension_of, parts
from dhsic.sources.hdf5 import OTHER_TYPES
from dhsic.storage.folder import replacing
from dhsic.storage.paths import as_path, check_place

#: Allowed suffixes of report files.
SUFFIXES = (".html", ".htm")
#: Maximum number of rows in the tables of the best features and of the last rounds.
ROWS, ROUNDS = 1000, 300
#: Maximum number of rows in the table of loci.
LOCI = 300
#: Maximum number of rows in the table of pairs, and its columns, if present.
PAIRS = 100
OF_PAIRS = ("first", "first_feature", "first_contig", "first_position", "second", "second_feature",
            "second_contig", "second_position", "environment", "share", "p_value", "beta", "se",
            "family_wise", "false_discovery", "linkage")  # fmt: skip
#: Resolution of rasterised points, in dots per inch.
DPI = 130
#: Attributes of a result with the names of the inputs.
GIVEN = ("data", "target", "covariates")
#: Columns omitted from the table of features, because they tell users nothing new.
DULL = ("constant", "index", "id")
#: Labels of the counts of excluded samples, features and values.
COUNTS = {
    "n_samples_left_out": "samples excluded",
    "n_samples_without_label": "of these without a label",
    "n_samples_without_covariate": "of these without a covariate",
    "n_rows_passed_over": "table rows of other samples",
    "n_rows_elsewhere": "rows matched by position despite the name of another sample",
    "n_values_coded": "codes for missing values",
    "n_constant": "constant features",
    "n_wholly_missing": "features with only missing values",
    "n_missing_values": "missing values",
    "n_features_with_missing": "features with missing values",
}
#: Plots: variable that a result needs, function, title, caption.
PLOTS: tuple[tuple[str, Callable[[xr.Dataset], Any], str, str], ...] = (
    ("p", plot.qq, "QQ plot", "Observed p-values against those expected by chance."),
    ("round_hsic", plot.path, "HSIC over the rounds", "HSIC of the remaining features."),
    (
        *("round_expected_lost", plot.expected_lost, "Estimated loss by approximation"),
        "Estimated number of the best features that an exact run would not select.",
    ),
    (
        *("stability", plot.stability, "Stability"),
        "Fraction of random halves of the samples that select each feature.",
    ),
)


def report(
    result: Any,
    path: str | PathLike[str],
    *,
    pairs: xr.Dataset | None = None,
    shares: xr.Dataset | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a report of a selection or of tests as one self-contained HTML page.

    Parameters
    ----------
    result : xarray.Dataset or selector
        A result of `dhsic.select`, or a fitted selector. A result with several runs
        (``per_target=True``) gets one page per run.
    path : str or path
        Path of the page, such as ``report.html``; with several runs ``report.NAME.html``.
    pairs : xarray.Dataset, optional
        Pairs that `dhsic.find_pairs` found in the same data.
    shares : xarray.Dataset, optional
        Shares from `dhsic.interactions.shares` for the selection.
    overwrite : bool
        Replace an existing file.

    Returns
    -------
    list of Path
        The pages written.

    Raises
    ------
    InputError
        A file exists already, `result` is not a result, pairs or shares are given with several
        runs, or matplotlib or jinja2 are not installed (``pip install dhsic[plot]``).
    """
    page = as_path(path)
    if page.suffix.lower() not in SUFFIXES:
        raise InputError(f"{page}: reports are HTML pages; pass a path that ends in .html.")
    check_place(page, "The report", InputError)
    runs = _pages(getattr(result, "result_", result), page)
    if len(runs) > 1 and (pairs is not None or shares is not None):
        raise InputError(
            "pairs= and shares= are for one target, but the result has several. Pass the result "
            "of one target, or leave them out."
        )
    for each in runs:
        if each.exists() and not overwrite:
            raise InputError(
                f"{each} exists already. Choose another path, or overwrite it (overwrite=True)."
            )
    for each, of_run in runs.items():
        text = page_of(of_run, pairs, shares)
        with replacing(each) as file:
            file.write(text.encode())
    return list(runs)


def _pages(result: Any, page: Path) -> dict[Path, Any]:
    """Return the result of each run by the path of its page; a single run has the path `page`."""
    if not isinstance(result, xr.Dataset) or dimension_of(result) is None:
        return {page: result}
    results: dict[Path, Any] = {}
    for number, (name, part) in enumerate(parts(result)):
        called = re.sub(r"[^\w.-]+", "_", name) or str(number)
        path = page.with_name(f"{page.stem}.{called}{page.suffix}")
        path = (
            page.with_name(f"{page.stem}.{called}.{number}{page.suffix}")
            if path in results
            else path
        )
        results[path] = part.assign_attrs(target=name)
    return results


def page_of(
    result: xr.Dataset, found: xr.Dataset | None = None, shares: xr.Dataset | None = None
) -> str:
    """Render the HTML page of a result.

    `found` are pairs from `dhsic.find_pairs`, by default the pairs in the result. `shares` is the
    result of `dhsic.interactions.shares`.
    """
    if not all(map(find_spec, ("jinja2", "matplotlib"))):
        raise InputError('Reports need jinja2 and matplotlib: pip install "dhsic[plot]".')
    from jinja2 import Environment, StrictUndefined

    here, result = files("dhsic.reports"), result_of_one(result)
    extra_pairs, found = found, pairs_of(result) if found is None else found
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["shown"] = _shown
    template = environment.from_string((here / "page.html").read_text(encoding="utf-8"))
    best = np.argsort(result["rank"].to_numpy(), kind="stable")[:ROWS]
    costs = costs_of(result, {})
    text: str = template.render(
        style=(here / "page.css").read_text(encoding="utf-8"),
        script=(here / "page.js").read_text(encoding="utf-8"),
        attributes=result.attrs,
        heading=_heading(result),
        about=_about(result),
        method=_method(result),
        facts=_facts(result, costs),
        counts=_counts(result),
        sentences=[
            *_loco(result),
            *loci_sentences(result),
            *order_of(result),
            *doubts_of(result, costs),
            *told_of_pairs(extra_pairs),
        ],
        plots=list(_plots(result, best, found, shares)),
        table=_table(result, best),
        meanings=_meanings(result),
        n_features=int(result.sizes["features"]),
        pairs=_pairs(found),
        loci=_loci(result),
        rounds=_rounds(result),
        parameters={k: _format_parameter(v) for k, v in _passed(result).items()},
        versions=json.loads(result.attrs.get("versions", "{}")),
    )
    return text


def _parameters(result: xr.Dataset) -> dict[str, Any]:
    parameters: dict[str, Any] = json.loads(result.attrs.get("parameters", "{}"))
    return parameters


def _format_parameter(value: Any) -> str:
    """Format a parameter: yes or no for booleans, and bandwidths as users pass them.

    >>> [_format_parameter(value) for value in (False, "Dimension()", "auto", None)]
    ['no', 'dimension', 'auto', 'none']
    """
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    nothing = re.fullmatch(r"(\w+)\(\)", str(value))
    return nothing[1].lower() if nothing else _shown(value)


def _counts(result: xr.Dataset) -> dict[str, int]:
    """Numbers of samples, features and values that were excluded or filled in, by reason."""
    filtered = json.loads(result.attrs.get("left_out", "{}"))
    counts = {
        "features of other types excluded"
        if name == OTHER_TYPES
        else f"{'samples' if name in OF_SAMPLES else 'features'} excluded by {name}": n
        for name, n in filtered.items()
    }
    counts |= {told: int(result.attrs.get(name, 0)) for name, told in COUNTS.items()}
    return {told: n for told, n in counts.items() if n}


def _loco(result: xr.Dataset) -> Iterator[str]:
    """Yield a note if features were tested against residuals of the labels (``--loco``)."""
    if took_loco(result):
        yield (
            "features of each chromosome were tested against the residuals of the labels after "
            "ridge regression on all other chromosomes; the test accounts for relatedness (--loco)"
        )


def _meanings(result: xr.Dataset) -> dict[str, str]:
    """Return descriptions of the table's columns, by name; the ranking score comes first."""
    by = "fall_given_others" if result.attrs.get("given_others") else "score"
    names = [by, *(str(name) for name in result.data_vars if name != by)]
    return {n: str(said) for n in names if (said := result[n].attrs.get("long_name"))}


def _method(result: xr.Dataset) -> str:
    """Name of the method, as in ``--method``."""
    parameters = _parameters(result)
    if "criterion" in parameters:
        return f"criterion {parameters['criterion']}"
    is_linear = parameters.get("kernel") == "linear" and result.sizes.get("rounds", 0) == 1
    return (
        f"method {'linear' if is_linear else parameters['method']}"
        if "method" in parameters
        else ""
    )


def _passed(result: xr.Dataset) -> dict[str, Any]:
    """Inputs of the run by name: data, labels, settings, and parameters of the method."""
    inputs = {name: result.attrs[name] for name in GIVEN if result.attrs.get(name)}
    settings = json.loads(result.attrs.get("asked", "{}"))
    return {**inputs, **settings, **_parameters(result)}


def _heading(result: xr.Dataset) -> str:
    """Return the heading, with the numbers of selected features and of all features."""
    n, d = (_shown(int(result.attrs[name])) for name in ("n_selected", "n_features"))
    by = result.attrs.get("selected_by")
    return f"{n} of {d} features selected" if by is None else f"{n} of {d} features have {by}"


def _about(result: xr.Dataset) -> str:
    """Return a text with the names of the target and of the data, as far as they are known."""
    target, data = (str(result.attrs.get(name, "")) for name in ("target", "data"))
    name = PurePosixPath(data.replace("\\", "/").rstrip("/")).name
    return " in ".join(filter(None, (target, name)))


def _facts(result: xr.Dataset, costs: Mapping[str, Any]) -> dict[str, str]:
    """Key figures at the head of the page, by label."""
    attributes = result.attrs
    figures = {
        "samples": f"{int(attributes['n_samples']):,}" if "n_samples" in attributes else "",
        "features": f"{int(attributes['n_features']):,}",
        of_selected(result): f"{int(attributes['n_selected']):,}",
        "target": str(attributes.get("target", "")),
        "matrix": json.loads(attributes.get("asked", "{}")).get("variable", ""),
        "label kernel": str(attributes.get("label_kernel_used", "")),
    }
    if costs["rounds"]:  # tables have no rounds
        figures["rounds"] = f"{costs['rounds']:,}"
        figures["time for rounds"] = f"{costs['seconds']:,.1f} s"
        figures["read"] = human(costs["bytes_read"])
        figures["estimated memory"] = human(costs["promised_bytes"])
    return {name: value for name, value in figures.items() if value}


def _table(result: xr.Dataset, best: Index) -> dict[str, list[Any]]:
    """Return the table of the features `best` as lists by column; ``index`` has their indices."""
    best_part = result.drop_dims(["rounds", "pairs"], errors="ignore").isel(features=best).compute()
    columns = tables.columns(best_part.assign_coords(features=best))
    if not result.attrs.get("given_others"):  # it does not determine the order
        columns.pop("fall_given_others", None)
    lists = {
        name: _plain(columns[name]) for name in sorted(columns, key=_place) if name not in DULL
    }
    several = {name: of for name, of in lists.items() if any(v not in (None, "") for v in of)}
    if DISTANCE in several:  # -1 marks features without a gene
        several[DISTANCE] = [None if v < 0 else v for v in several[DISTANCE]]
    if PAIR_WITH in several:
        several[PAIR_WITH] = partner_names(result, np.array(several[PAIR_WITH]))
    return {"index": [int(i) for i in best], **several}


def _pairs(found: xr.Dataset | None) -> dict[str, list[Any]]:
    """Columns of the best pairs as lists, by label; empty without pairs."""
    if found is None:
        return {}
    names = [name for name in OF_PAIRS if name in found]
    names = [name for name in names if f"{name}_feature" not in names]  # names replace positions
    called = {name: name.replace("_feature", "").replace("_", " ") for name in names}
    return {called[name]: _plain(found[name].to_numpy()[:PAIRS]) for name in names}


def _loci(result: xr.Dataset) -> dict[str, list[Any]]:
    """Columns of the loci of tests as lists; empty if loci were not requested."""
    table = loci_table(result) if LOCUS in result else pd.DataFrame()
    if table.empty:
        return {}
    return {str(n).replace("_", " "): _plain(table[n].to_numpy()[:LOCI]) for n in table}


def _place(column: str) -> int:
    """Sort key of a column: rank, name, scores and measures of reliability come first."""
    first = ("rank", "name", "fall_given_others", "score", "selected", "p", "q", "fdr", "stability")
    return first.index(column) if column in first else len(first)


def _plain(values: Array) -> list[Any]:
    if values.dtype.kind == "f":
        return [float(v) if np.isfinite(v) else None for v in values]
    plain_values: list[Any] = values.tolist()
    return plain_values


def _rounds(result: xr.Dataset) -> dict[str, list[Any]]:
    """Columns of the history of the last `ROUNDS` rounds, as lists by name."""
    names = ("n_features", "n_removed", "n_added", "sigma", "hsic", "seconds", "bytes_read",
             "engine")  # fmt: skip
    return {
        name: _plain(result[f"round_{name}"].to_numpy()[-ROUNDS:])
        for name in names
        if f"round_{name}" in result and result[f"round_{name}"].ndim == 1
    }


def _shown(value: Any) -> str:
    """Format a value: floats with four digits, integers with thousands separators."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value + 0.0:.4g}"  # no -0
    return str(value)


def _plots(
    result: xr.Dataset, best: Index, found: xr.Dataset | None, shares: xr.Dataset | None
) -> Iterator[tuple[str, str, Any]]:
    """Yield title, caption and SVG of each plot that the result supports."""
    from matplotlib import pyplot as plt

    along = "along the genome" if "variant_position" in result.coords else "in the data"
    is_shown = np.zeros(result.sizes["features"], dtype=bool)
    is_shown[best] = True
    chosen = np.flatnonzero(result["selected"].to_numpy())

    def all_of_them() -> Any:
        _, ax = plt.subplots(figsize=(11, 3.6), layout="constrained")
        plot.genome(result, ax=ax)
        for points in ax.collections:
            if points.get_gid() == "selected":
                points.set_urls([f"#feature-{i}" if is_shown[i] else None for i in chosen])
        return ax

    words = f"All features {along}. Orange points link to their rows in the table."
    yield _render_svg(f"Features {along}", words, all_of_them)
    for needed, draw, title, words in PLOTS:
        if needed in result and result[needed].size > 1:  # a single round has no path
            yield _render_svg(title, words, partial(draw, result))
    if "cv_results" in result.attrs:
        words = "Score on held-out samples by number of features, and the chosen number."
        yield _render_svg("Cross-validation", words, partial(plot.accuracy, result))
    if "survival_curves" in result.attrs:
        words = (
            "Fraction of samples without event over time (Kaplan-Meier), by the values of the best "
            "feature. The same times chose the feature, so the curves of new samples differ less."
        )
        yield _render_svg("Survival", words, partial(plot.survival, result))
    yield from _plots_of_pairs(found, shares)


def _plots_of_pairs(
    found: xr.Dataset | None, shares: xr.Dataset | None
) -> Iterator[tuple[str, str, Any]]:
    """Yield title, caption and SVG of the plots of pairs (`found`) and shares, if passed."""
    if shares is not None:
        words = "Share of HSIC due to each selected feature alone, and due to each pair."
        yield _render_svg("Alone and together", words, partial(plot.shares, shares))
    if found is not None and found["share"].size:
        words = (
            "Share of the target's variance that the product of two features explains, beyond each "
            "feature alone and their squares."
        )
        yield _render_svg("Pairs that act together", words, partial(plot.pairs, found))


def _render_svg(title: str, words: str, draw: Callable[[], Any]) -> tuple[str, str, Any]:
    """Render the plot that `draw` returns; return title, caption and SVG."""
    from markupsafe import Markup
    from matplotlib import pyplot as plt
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": title, "svg.fonttype": "path"}):
        ax = draw()
        text = StringIO()
        ax.figure.savefig(text, format="svg", dpi=DPI, metadata={"Date": None, "Creator": None})
        plt.close(ax.figure)
    svg = "<svg" + text.getvalue().partition("<svg")[2]  # HTML allows no XML declaration
    # Ids must be unique in a page, but every plot numbers its ids from 1.
    mark = f"in-{title.lower().replace(' ', '-')}-"
    svg = re.sub(r'\bid="', f'id="{mark}', svg)
    svg = re.sub(r'(url\(|xlink:href=")#(?!feature-)', rf"\1#{mark}", svg)
    return title, words, Markup(svg)  # matplotlib escapes its text
