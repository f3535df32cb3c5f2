"""Advice in messages about features, labels and covariates: it is followed, and the run goes on."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from advice import Advice, follow, message_of
from commands import run
from stores import write_vcz

import dhsic
from dhsic import Filters

M, D = 20, 6
RNG = np.random.default_rng(4)
X = RNG.standard_normal((M, D))
Y = np.arange(M) % 2
NAMES = [f"s{i}" for i in range(M)]
FEATURES = [f"g{j}" for j in range(D)]
FRAME = pd.DataFrame(X, NAMES, FEATURES)


def select(data, target=Y, **options):
    """Select two features."""
    options = {"n_features_to_select": 2, "interactions": None, "progress": False} | options
    return dhsic.select(data, target, **options)


def filtered(data, target=Y, **filters):
    """Select features of filtered data; `filters` are arguments of `dhsic.Filters`."""
    return select(data, target, filters=Filters(**filters))


# -- filters --------------------------------------------------------------------------------------


def placed(*without):
    """Matrix with chromosomes, positions and qualities of its features."""
    coords = {
        "feature": FEATURES,
        "variant_contig": ("feature", np.repeat(["1", "2"], D // 2)),
        "variant_position": ("feature", 10 * np.arange(D) + 5),
        "quality": ("feature", np.arange(D)),
    }
    data = xr.DataArray(X, dims=("sample", "feature"), coords=coords, name="x")
    return data.drop_vars(without)


def share_of_present_values(folder):
    del folder
    arguments = {"data": FRAME, "max_missing": 0.95}
    yield Advice(filtered, arguments, r"vcftools, pass (?P<value>[\d.]*\d)", "max_missing")


def start_without_regions(folder):
    del folder
    arguments = {"data": placed(), "regions_start": 1}
    yield Advice(filtered, arguments, r"Remove (?P<leave>\w+)=")
    regions = [("1", 1, 20)]
    yield Advice(filtered, arguments, r"only to (?P<name>\w+)= and .* pass regions", value=regions)
    yield Advice(filtered, arguments, r" and (?P<name>\w+)=, and .* pass regions", value=regions)


def interval_without_positions(folder):
    del folder
    arguments = {"data": placed("variant_position"), "chromosomes": "1:1-30"}
    yield Advice(filtered, arguments, r"Pass only (?P<name>chromosomes)\.", value="1")


def unknown_chromosomes(folder):
    del folder
    arguments = {"data": placed("variant_contig"), "chromosomes": "1"}
    for name, value in (("extract", FEATURES[:4]), ("extract_if", "quality < 4")):
        pattern = rf"Select features .* \((?P<name>{name})=\)"
        yield Advice(filtered, arguments, pattern, value=value, instead_of="chromosomes")


def absent_chromosome(folder):
    del folder
    arguments = {"data": placed(), "chromosomes": "7"}
    of_listed = r"the data have the chromosomes (?P<text>\d)"
    of_numbers = r"numbers such as (?P<text>[\d-]+)"
    yield Advice(filtered, arguments, of_listed, "chromosomes")
    yield Advice(filtered, arguments, of_numbers, "chromosomes")
    on_six = placed().assign_coords(
        variant_contig=("feature", np.repeat(["6", "8"], D // 2)),
        variant_position=("feature", 30_000_000 + np.arange(D)),
    )
    of_intervals = r"intervals such as (?P<text>[\d:-]+\d)"
    yield Advice(filtered, {"data": on_six, "chromosomes": "7"}, of_intervals, "chromosomes")


def regions_without_chromosomes(folder):
    del folder
    for regions in ("extract_regions", "exclude_regions"):
        arguments = {"data": placed("variant_contig"), regions: [("1", 1, 30)]}
        for name in ("extract", "exclude"):
            pattern = rf"by name instead \(.*(?P<name>{name})="
            yield Advice(filtered, arguments, pattern, value=FEATURES[:4], instead_of=regions)


def chromosomes_written_as_regions(folder):
    (folder / "regions.txt").write_text("1:1-30\n")
    arguments = {"data": placed(), "extract_regions": folder / "regions.txt"}
    pattern = "use (?P<name>chromosomes)="
    for value in ("1", "1:1-30"):
        yield Advice(filtered, arguments, pattern, value=value, instead_of="extract_regions")


def regions_counted_from_zero(folder):
    del folder
    arguments = {"data": placed(), "extract_regions": [("1", 0, 30)]}
    yield Advice(filtered, arguments, r"as in BED, pass (?P<name>\w+)=(?P<value>\d)")


def genotypes_of_unknown_sexes(folder):
    """Diploid calls on chromosomes 1 and X, those of the first three variants."""
    calls = np.random.default_rng(0).integers(0, 2, (D, M, 2)).astype("i1")
    group = write_vcz(folder / "x.vcz", calls)
    return group, folder / "x.vcz"


def hardy_weinberg_on_x(folder):
    _, path = genotypes_of_unknown_sexes(folder)
    arguments = {"data": path, "hwe": 1e-6}
    yield Advice(filtered, arguments, r"To exclude X, use (?P<name>chromosomes)=", value="1-22")


def missing_calls_on_y(folder):
    group, path = genotypes_of_unknown_sexes(folder)
    group["contig_id"][...] = np.array(["1", "Y"], object)
    group["call_genotype"][D - 1, :4] = -1
    arguments = {"data": path, "max_missing": 0.1}
    yield Advice(filtered, arguments, r"To exclude Y, use (?P<name>chromosomes)=", value="1-22")


def inbred_samples_on_x(folder):
    rng = np.random.default_rng(0)
    calls = rng.integers(0, 2, (60, M, 2)).astype("i1")
    calls[30:, ::2, 1] = calls[30:, ::2, 0]  # no heterozygous calls on X
    write_vcz(folder / "x.vcz", calls)
    pattern = r"exclude X \((?P<name>chromosomes)=\)"
    yield Advice(filtered, {"data": folder / "x.vcz", "maf": 0.01}, pattern, value="1-22")


def values_without_frequencies(folder):
    del folder
    values = FRAME.assign(rs1=np.arange(M) % 3, rs2=np.arange(M) // 3 % 3)
    for limits in ({"maf": 0.01}, {"hwe": 1e-6}):
        arguments = {"data": values} | limits
        genotypes = r"exclude these features \((?P<name>extract)="
        others = r"exclude these features \(.*(?P<name>exclude)="
        yield Advice(filtered, arguments, genotypes, value=["rs1", "rs2"])
        yield Advice(filtered, arguments, others, value=FEATURES)


def replicates(folder):
    del folder
    names = [f"P{i // 2:02d}_rep{i % 2 + 1}" for i in range(M)]
    arguments = {"data": FRAME.set_axis(names), "target": np.arange(M) % 4 // 2}
    keep = names[::2]
    yield Advice(filtered, arguments, r"list their names for (?P<name>keep)=", value=keep)


# -- labels and covariates in Python --------------------------------------------------------------


def names_of_features_of_an_array(folder):
    del folder
    arguments = {"data": X, "not_features": ["3"]}
    pattern = r"X = (?P<code>numpy\.delete\(.*\))\.$"
    yield Advice(select, arguments, pattern, "data", instead_of="not_features")


def labels_and_covariates_in_two_orders(folder):
    del folder
    age = pd.Series(RNG.normal(50, 9, M), NAMES[::-1])
    arguments = {"data": X, "target": pd.Series(Y, NAMES), "covariates": age}
    yield Advice(select, arguments, r"pass (?P<name>\w+)=(?P<value>\w+)")


def numbers_as_text(folder):
    del folder
    values = RNG.normal(size=60)
    arguments = {"data": RNG.normal(size=(60, 3)), "target": [f"{value:.6f}" for value in values]}
    yield Advice(select, arguments, r"as numbers: pass (?P<code>.*\))\. If they", "target")


def without_missing_labels(arguments):
    """Remove the samples without a label."""
    present = arguments["target"].notna()
    return {"data": arguments["data"][present], "target": arguments["target"][present]}


def text_among_numbers(folder):
    del folder
    values = [*(np.arange(M - 1) % 9 + 0.5), "n.d."]
    for target in (pd.Series(values, NAMES), pd.DataFrame({"bmi": values}, NAMES)):
        arguments = {"data": FRAME, "target": target}
        numbers = r"(?P<code>pandas\.to_numeric\(.*?\)) replaces text by NaN; then remove"
        yield Advice(select, arguments, numbers, "target", completed=without_missing_labels)
        yield Advice(select, arguments, r"(?P<code>pandas\.Series\(.*\))\.$", "target")


def labels_among_the_features(folder):
    del folder
    arguments = {"data": FRAME.assign(ill=Y), "target": pd.Series(Y, NAMES)}
    removed = r"Remove it from X: (?P<code>X\.drop\(.*?\))\."
    yield Advice(select, arguments, removed, "data")
    yield Advice(select, arguments | {"target": pd.Series(Y, NAMES, name="sick")}, removed, "data")
    yield Advice(select, arguments | {"target": pd.Series(Y, NAMES, name="ill")}, removed, "data")
    yield Advice(select, arguments, r"give y a name: (?P<code>pandas\.Series\(.*\))\.$", "target")


def feature_that_tells_the_classes(folder):
    code = np.array([7.5, 2.5])[Y]
    FRAME.assign(code=code, ill=Y).to_csv(folder / "x.csv", index_label="id")
    arguments = {"data": folder / "x.csv", "target": "ill"}
    yield Advice(select, arguments, r"exclude it: (?P<name>\w+)=(?P<value>\[.*?\])")


def labels_that_look_like_numbers(folder):
    names = ["1.1", "1.10", "2.1", "2.1"] * (M // 4)
    FRAME.assign(dose=names).to_csv(folder / "x.csv", index_label="id")
    text = {"data": folder / "x.csv", "target": np.array(names), "not_features": ["dose"]}
    arguments = {"data": folder / "x.csv", "target": "dose"}
    pattern = r"several spellings .* or pass y as text"
    yield Advice(select, arguments, pattern, completed=lambda _: text)


def labels_in_several_groups(folder):
    data = xr.Dataset({"x": (("sample", "gene"), X), "y": ("sample", Y)})
    for name in ("rna", "protein"):
        data.to_zarr(folder / "x.zarr", group=name, mode="a", consolidated=False)
    arguments = {"data": folder / "x.zarr", "target": "y"}
    matrix = r"or (?P<name>variable)=(?P<value>'[^']+')"
    yield Advice(select, arguments | {"target": Y}, matrix)
    labels = r"The labels are then (?P<name>target)=(?P<value>'[^']+')"
    yield Advice(select, arguments | {"variable": "rna/x"}, labels)


CASES = (
    *(share_of_present_values, start_without_regions, interval_without_positions),
    *(unknown_chromosomes, absent_chromosome, regions_without_chromosomes),
    *(chromosomes_written_as_regions, regions_counted_from_zero, hardy_weinberg_on_x),
    *(missing_calls_on_y, inbred_samples_on_x, values_without_frequencies, replicates),
    *(names_of_features_of_an_array, labels_and_covariates_in_two_orders, numbers_as_text),
    *(text_among_numbers, labels_among_the_features, feature_that_tells_the_classes),
    *(labels_that_look_like_numbers, labels_in_several_groups),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_advice_leads_on(case, tmp_path):
    for advice in case(tmp_path):
        follow(advice)


def test_missing_covariates_are_excluded_by_the_option_for_the_command_line(tmp_path):
    path, age = tmp_path / "x.csv", [np.nan, *RNG.normal(50, 9, M - 1)]
    FRAME.assign(ill=Y, age=age).to_csv(path, index_label="id")
    message, _ = message_of(select, data=path, target="ill", covariates="age")
    option = re.search(r"Remove these samples .* \(CLI: (--[\w-]+)\)", message)[1]
    words = ("select", path, "--target", "ill", "--covariate", "age", "-n", 2)
    assert "1 of 20 samples excluded" in " ".join(run(*words, option).stderr.split())
    FRAME.assign(ill=Y, age=age)[1:].to_csv(path, index_label="id")
    select(path, "ill", covariates="age")
