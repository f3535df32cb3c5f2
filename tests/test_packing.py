"""Numbers that xarray packs: the same values by path as opened by xarray."""

import pickle

import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner
from stores import write, write_matrix

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, InputError
from dhsic.joins.variables import read_target
from dhsic.sources.opening import open_source

M, D, PLANTED = 60, 8, 5
RNG = np.random.default_rng(0)
STATUS = RNG.integers(0, 2, M)
X = RNG.standard_normal((M, D))
X[:, PLANTED] += 2 * STATUS
LACKING = RNG.random((M, D)) < 0.1
WHOLE = np.clip(np.round(X * 20 + 100), 0, 200)

#: How values are encoded: the values, the dtype, and what is declared.
ENCODINGS = {
    "float32": (X, {"dtype": "float32", "_FillValue": -999.0}),
    "float32, huge": (X, {"dtype": "float32", "_FillValue": 1e20}),
    "float64": (X, {"dtype": "float64", "_FillValue": -1.0e34}),
    "float64, missing_value": (X, {"dtype": "float64", "missing_value": -9.5, "_FillValue": -9.5}),
    "int16, scaled": (X, {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768}),
    "uint8, offset": (
        X,
        {"dtype": "uint8", "scale_factor": 0.05, "add_offset": -6.0, "_FillValue": 255},
    ),
    "float32, scaled": (X, {"dtype": "float32", "scale_factor": 0.5, "_FillValue": -7.0}),
    "int32": (WHOLE, {"dtype": "int32", "_FillValue": -1}),
    "uint8": (WHOLE, {"dtype": "uint8", "_FillValue": 255}),
    "int64, missing_value": (WHOLE, {"dtype": "int64", "missing_value": -5}),
    "int16, zero": (WHOLE + 1, {"dtype": "int16", "_FillValue": 0}),
}


def stored(path, values, encoding, zarr_format=3, **more):
    """A store that xarray wrote, a chunk of a few features and samples at a time."""
    data = xr.Dataset(
        {"x": (("sample", "gene"), np.where(LACKING, np.nan, values)), "status": ("sample", STATUS)}
    )
    encoding = {"x": {**encoding, "chunks": (25, 3)}}
    data.assign(more).to_zarr(path, zarr_format=zarr_format, encoding=encoding, consolidated=False)
    return str(path)


def values_of(source):
    """All values of a source as floats, NaN where missing."""
    parts = [source.read(block) for block in source.blocks(4)]
    raw = np.concatenate(parts, axis=1)
    if raw.dtype.kind == "f" or source.missing_code is None:
        return raw.astype(float)
    return np.where(raw == source.missing_code, np.nan, raw)


def opened(path, **options):
    return xr.open_zarr(path, consolidated=False, **options)


def ranked(data, target="status", **options):
    found = dhsic.select(data, target, n_features_to_select=2, progress=False, **options)
    return found["rank"].to_numpy().tolist(), found.attrs["n_missing_values"]


#: Encodings in either format; a fill value 0 of format 2 is what other writers put everywhere.
STORED_ENCODINGS = [
    (kind, zarr_format)
    for zarr_format in (2, 3)
    for kind, (_, encoding) in ENCODINGS.items()
    if zarr_format == 3 or encoding.get("_FillValue") != 0
]


@pytest.mark.parametrize(("kind", "zarr_format"), STORED_ENCODINGS)
def test_a_path_gives_what_xarray_reads(kind, zarr_format, tmp_path):
    values, encoding = ENCODINGS[kind]
    path = stored(tmp_path / "s.zarr", values, encoding, zarr_format)
    expected = opened(path)["x"].to_numpy()
    assert np.isnan(expected).sum() == LACKING.sum()
    source = open_source(path)
    for one in (source, pickle.loads(pickle.dumps(source))):
        np.testing.assert_array_equal(values_of(one), expected)
    rows = np.array([3, 1, 40])
    block = source.blocks(4)[1]
    some = source.read(block, rows)
    assert some.dtype == source.dtype
    np.testing.assert_array_equal(some, source.read(block)[rows])
    found, n_missing = ranked(path)
    assert n_missing == LACKING.sum()
    assert found[PLANTED] == 1
    for data in (opened(path), opened(path, mask_and_scale=False), opened(path).load()):
        assert ranked(data) == (found, n_missing)


def test_numbers_that_wrap_are_unsigned(tmp_path):
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    raw = (WHOLE + 50).astype("u1")
    declared = {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5}
    raw[0, 0] = 255
    array = write(group, "x", raw.view("i1"), ("sample", "gene"))
    array.attrs.update(declared)
    source = open_source(tmp_path / "s.zarr")
    np.testing.assert_array_equal(values_of(source), opened(tmp_path / "s.zarr")["x"].to_numpy())


def test_two_codes_are_both_missing(tmp_path):
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    array = write(group, "x", WHOLE.astype("i2"), ("sample", "gene"))
    array.attrs.update({"_FillValue": int(WHOLE[0, 0]), "missing_value": int(WHOLE[1, 1])})
    expected = np.where(np.isin(WHOLE, (WHOLE[0, 0], WHOLE[1, 1])), np.nan, WHOLE)
    np.testing.assert_array_equal(values_of(open_source(tmp_path / "s.zarr")), expected)


@pytest.mark.parametrize("fill", [0, -999.0])
def test_fill_values_of_plain_arrays_of_format_2_say_nothing(fill, tmp_path):
    """Zarr fills chunks that were not written with them, and xarray does not open these arrays."""
    values = np.where(LACKING, fill, X)
    write_matrix(tmp_path / "x.zarr", values, zarr_format=2, fill_value=fill, features_first=False)
    source = open_source(tmp_path / "x.zarr", sample_dim=0)
    np.testing.assert_array_equal(values_of(source), values)


def test_what_callers_say_takes_the_place_of_what_is_declared(tmp_path):
    path = stored(tmp_path / "s.zarr", X, ENCODINGS["float32"][1])
    assert (values_of(open_source(path, missing_code=None)) == -999).sum() == LACKING.sum()
    for code in (-999, [-999, -998]):
        assert np.isnan(values_of(open_source(path, missing_code=code))).sum() == LACKING.sum()
    scaled = stored(tmp_path / "scaled.zarr", X, ENCODINGS["int16, scaled"][1])
    for code in (-32768, [-32768, -9]):
        with pytest.raises(InputError, match=r"scale_factor=0.01 .* Leave out missing_code"):
            open_source(scaled, missing_code=code)


def test_a_fill_value_that_is_no_number_is_refused(tmp_path):
    path = stored(tmp_path / "s.zarr", X, ENCODINGS["float32"][1])
    zarr.open_group(path)["x"].attrs["_FillValue"] = "AAA"
    with pytest.raises(DataError, match=r"_FillValue of .* is 'AAA', .* base64"):
        open_source(path)


# -- labels, covariates, names ------------------------------------------------------------------

BMI = np.where(LACKING[:, 0], np.nan, 27 + 3 * X[:, PLANTED])
GROUP = np.where(LACKING[:, 1], np.nan, STATUS)
SMOKING = np.where(LACKING[:, 2], np.nan, RNG.integers(0, 3, M))


@pytest.fixture(params=[2, 3])
def cohort(request, tmp_path):
    """A store with packed labels and covariates, ids with a fill value, and whole values."""
    data = xr.Dataset(
        {
            "x": (("sample", "gene"), X),
            "bmi": ("sample", BMI),
            "group": ("sample", GROUP),
            "smoking": ("sample", SMOKING),
            "age": ("sample", RNG.integers(20, 80, M).astype(float)),
        },
        coords={"sample": np.arange(100, 100 + M).astype(float)},
    )
    encoding = {
        "bmi": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768},
        "group": {"dtype": "int8", "_FillValue": -1},
        "smoking": {"dtype": "float32", "_FillValue": -999.0},
        "age": {"dtype": "uint8", "_FillValue": 255},
        "sample": {"dtype": "int32", "_FillValue": -1},
    }
    path = str(tmp_path / "cohort.zarr")
    data.to_zarr(path, zarr_format=request.param, encoding=encoding, consolidated=False)
    return path


def test_labels_are_what_xarray_reads(cohort):
    ds = opened(cohort)
    for name in ("bmi", "group", "smoking", "age"):
        expected = ds[name].to_numpy()
        for data in (cohort, ds, opened(cohort, mask_and_scale=False)):
            np.testing.assert_array_equal(read_target(data, name), expected)
    with pytest.raises(InputError, match=f"{LACKING[:, 1].sum()} of 60 labels are missing"):
        ranked(cohort, "group")
    with pytest.raises(InputError, match="Covariate 'smoking' is missing"):
        ranked(cohort, "age", covariates=["smoking"])


def test_ids_with_a_fill_value_are_whole(cohort):
    names = [str(i) for i in range(100, 100 + M)]
    for data in (cohort, opened(cohort), opened(cohort, mask_and_scale=False)):
        assert open_source(data).sample_names().tolist() == names


@pytest.mark.parametrize("target", ["bmi", "group"])
def test_the_command_line_leaves_out_samples_without_a_label(cohort, target, tmp_path):
    out = str(tmp_path / "out.zarr")
    arguments = [cohort, "--target", target, "--covariate", "smoking", "--drop-missing"]
    result = CliRunner().invoke(
        main, ["select", *arguments, "-n", "2", "--no-progress", "--out", out]
    )
    assert result.exit_code == 0, result.output
    lacking = LACKING[:, {"bmi": 0, "group": 1}[target]] | LACKING[:, 2]
    found = xr.open_zarr(out)
    assert found.attrs["n_samples"] == M - lacking.sum()
    ds = opened(cohort).isel(sample=~lacking)
    expected = ranked(ds, target, covariates=["smoking"])[0]
    assert found["rank"].to_numpy().tolist() == expected
    told = CliRunner().invoke(main, ["inspect", cohort]).output
    assert f"{LACKING[:, 1].sum()} missing" in told


def test_text_that_stands_for_missing_is_missing(tmp_path):
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    write(group, "x", X, ("sample", "gene"))
    words = np.where(LACKING[:, 0], "unknown", np.where(STATUS, "case", "control")).astype(object)
    write(group, "status", words, ("sample",)).attrs["missing_value"] = "unknown"
    labels = read_target(str(tmp_path / "s.zarr"), "status")
    assert set(labels) == {"", "case", "control"}
    assert (labels == "").sum() == LACKING[:, 0].sum()


def test_integers_beyond_floats_are_refused_beside_missing_ones(tmp_path):
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    write(group, "x", X, ("sample", "gene"))
    write(group, "y", np.where(STATUS, -1, 2**60 + 1), ("sample",)).attrs["_FillValue"] = -1
    with pytest.raises(InputError, match=r"larger than 2\*\*53"):
        read_target(str(tmp_path / "s.zarr"), "y")


# -- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_converted_stores_hold_decoded_values(cohort, zarr_format, tmp_path):
    out = tmp_path / "converted.zarr"
    dhsic.convert(cohort, out, zarr_format=zarr_format)
    for name in ("bmi", "group", "smoking", "age"):
        np.testing.assert_array_equal(read_target(out, name), opened(cohort)[name].to_numpy())
        np.testing.assert_array_equal(opened(out)[name].to_numpy(), opened(cohort)[name].to_numpy())
    assert open_source(out).sample_names()[0] == "100"


@pytest.mark.parametrize("kind", ["int16, scaled", "float32", "uint8"])
@pytest.mark.parametrize("formats", [(2, 3), (3, 2), (3, 3)])
def test_converted_matrices_hold_decoded_values(kind, formats, tmp_path):
    values, encoding = ENCODINGS[kind]
    path = stored(tmp_path / "s.zarr", values, encoding, formats[0])
    dhsic.convert(path, tmp_path / "out.zarr", zarr_format=formats[1])
    expected = opened(path)["x"].to_numpy()
    np.testing.assert_array_equal(values_of(open_source(tmp_path / "out.zarr")), expected)
    np.testing.assert_array_equal(opened(tmp_path / "out.zarr")["x"].to_numpy().T, expected)


def test_labels_of_minus_one_are_written_as_numbers(tmp_path):
    signs = np.where(STATUS, 1, -1)
    ds = xr.Dataset({"x": (("sample", "gene"), X), "sign": ("sample", signs)})
    ds.to_zarr(tmp_path / "s.zarr", consolidated=False)
    dhsic.convert(tmp_path / "s.zarr", tmp_path / "out.zarr", zarr_format=2)
    np.testing.assert_array_equal(read_target(tmp_path / "out.zarr", "sign"), signs)


# -- dosages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [{"_FillValue": 99}, {"scale_factor": 0.01}, {}])
def test_packed_dosages(declared, tmp_path):
    calls = RNG.integers(0, 3, (D, M)).astype("i2")
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    stored_calls = calls * 100 if "scale_factor" in declared else calls.copy()
    if "_FillValue" in declared:
        stored_calls[LACKING.T] = 99
    write(group, "call_dosage", stored_calls, ("variants", "samples")).attrs.update(declared)
    expected = calls.T.astype(float)
    expected[LACKING if "_FillValue" in declared else []] = np.nan
    for data in (str(tmp_path / "s.zarr"), opened(tmp_path / "s.zarr")):
        np.testing.assert_allclose(values_of(open_source(data)), expected, rtol=1e-6)


@pytest.mark.parametrize("fill", [-2, -1])
def test_calls_of_format_2_are_missing_where_they_are_minus_one(fill, tmp_path):
    """VCF Zarr fills arrays with -2, which is no call, and -1 is a missing one."""
    calls = RNG.integers(0, 3, (D, M)).astype("i1")
    calls[LACKING.T] = -1
    group = zarr.open_group(tmp_path / "s.zarr", mode="w", zarr_format=2)
    write(group, "call_dosage", calls, ("variants", "samples"), fill_value=fill)
    source = open_source(tmp_path / "s.zarr")
    assert source.missing_code == -1
    np.testing.assert_array_equal(values_of(source), np.where(LACKING, np.nan, calls.T))


@pytest.mark.filterwarnings("ignore:In . features, zeros lie far below")
@pytest.mark.parametrize("fill", [0.0, -1.0])
def test_zeros_of_format_2_are_told_where_xarray_masks_them(fill, tmp_path):
    X = np.exp(np.random.default_rng(0).normal(3, 0.5, (40, 6))).astype(np.float32)
    gaps = xr.DataArray(np.where(X > 30, np.nan, X), dims=("sample", "feature"), name="conc")
    path = tmp_path / "s.zarr"
    gaps.to_dataset().to_zarr(path, zarr_format=2, encoding={"conc": {"_FillValue": fill}})
    source = open_source(path)
    if fill:
        assert not source.hint
        np.testing.assert_array_equal(values_of(source), gaps)
        return
    assert (
        "If they are missing, pass missing_code=0; if not, pass missing_code=None." in source.hint
    )
    source = open_source(path, missing_code=0)
    np.testing.assert_array_equal(values_of(source), gaps)
    assert not source.hint
    source = open_source(path, missing_code=None)
    np.testing.assert_array_equal(values_of(source), gaps.fillna(0))
    assert not source.hint
    with pytest.warns(UserWarning, match="xarray reads its zeros as missing"):
        dhsic.test_features(path, np.arange(40.0))
