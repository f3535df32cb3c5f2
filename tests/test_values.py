"""What numbers of a matrix are missing, what is refused, and which data keep their scale."""

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.independence import test_features as tested
from dhsic.methods.base import scales
from dhsic.passes.single_pass import look_at
from dhsic.runtime.threads import Threads
from dhsic.selection.run import SCALED
from dhsic.simulation import simulate_genotypes
from dhsic.sources.arrays import ArraySource
from dhsic.sources.values import CODES, Census, ValueKind
from dhsic.sources.views import RecodedSource
from dhsic.sources.zarr import ZarrSource

RNG = np.random.default_rng(5)
CALLS = RNG.choice(np.array([0, 0, 1, 2], "i1"), size=(40, 30))
CALLS[:3, :] = [[0], [1], [2]]
GAPS = RNG.random(CALLS.shape) < 0.1
GAPS[:3] = False
Y = (CALLS[:, 3] + RNG.integers(0, 2, 40) > 1).astype(int)
GIVEN = np.where(GAPS, np.nan, CALLS)


def values_of(X, rows=None, **options):
    with Threads(2) as runtime:
        return look_at(dhsic.open_source(X, **options), runtime, rows)


def ranking(X, **options):
    return dhsic.BAHSIC(5, progress=False, **options).fit(X, Y).ranking_


def in_zarr(X, folder):
    root = zarr.open_group(folder, mode="w")
    array = root.create_array(
        "x", shape=X.shape, chunks=(40, 7), dtype=X.dtype, dimension_names=("samples", "features")
    )
    array[...] = X
    return str(folder)


MAKE = {
    "int8": lambda X, folder: X.astype("i1"),
    "int64": lambda X, folder: X.astype("i8"),
    "float32": lambda X, folder: X.astype("f4"),
    "Fortran": lambda X, folder: np.asfortranarray(X.astype("i2")),
    "pandas": lambda X, folder: pd.DataFrame(X),
    "dask": lambda X, folder: da.from_array(X.astype("i1"), chunks=(20, 7)),
    "xarray": lambda X, folder: xr.DataArray(X.astype("f8"), dims=("samples", "features")),
    "zarr": lambda X, folder: in_zarr(X.astype("i1"), folder / "x.zarr"),
    "zarr of floats": lambda X, folder: in_zarr(X.astype("f4"), folder / "x.zarr"),
}

# -- missing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kind", MAKE)
def test_codes_are_missing_in_every_source(kind, code, tmp_path):
    X = MAKE[kind](np.where(GAPS, code, CALLS), tmp_path)

    with pytest.warns(UserWarning, match=rf"{code} \({GAPS.sum()} times, first in feature"):
        found = ranking(X)

    assert_array_equal(found, ranking(GIVEN))


@pytest.mark.parametrize("kind", ["int8", "float32", "zarr"])
def test_several_codes_are(kind, tmp_path):
    coded = np.where(GAPS, RNG.choice(CODES, CALLS.shape), CALLS)

    with pytest.warns(UserWarning, match="-127.*-9.*-1"):
        found = ranking(MAKE[kind](coded, tmp_path))

    assert_array_equal(found, ranking(GIVEN))


def test_the_result_counts_them():
    with pytest.warns(UserWarning, match="-9"):
        result = dhsic.select(np.where(GAPS, -9, CALLS), Y, progress=False, n_features_to_select=5)

    assert result.attrs["n_missing_values"] == GAPS.sum()
    assert f"-9 ({GAPS.sum()} times" in result.attrs["values"]


def test_tests_of_features_know_them():
    with_nan = tested(GIVEN, Y, [3, 5], n_permutations=99)
    with pytest.warns(UserWarning, match=r"-9 \(.* treated as missing.*missing_code=None"):
        with_code = tested(np.where(GAPS, -9, CALLS), Y, [3, 5], n_permutations=99)

    assert_array_equal(with_code.statistics, with_nan.statistics)


@pytest.mark.parametrize("X", [CALLS.clip(0, 1) - (GAPS & (CALLS == 0)), CALLS - 1, CALLS * 2 - 2])
def test_minus_one_is_a_value_where_nothing_counts_to_two(X):
    assert values_of(X).codes == {}


def test_haploid_calls_have_codes_too():
    haploid = CALLS.clip(0, 1)

    assert values_of(np.where(GAPS, -9, haploid)).dosages
    assert list(values_of(np.where(GAPS, -9, haploid)).codes) == [-9]


def test_minus_one_is_a_value_on_a_longer_scale():
    assert values_of(RNG.integers(-1, 6, CALLS.shape)).codes == {}


def test_numbers_that_are_names_are_no_codes():
    codes = RNG.integers(0, 4, CALLS.shape)
    codes[3, 5] = 9

    found = ranking(codes, kernel="delta")

    assert_array_equal(found, ranking(np.where(codes == 9, 77, codes), kernel="delta"))


def test_codes_beside_more_copies():
    tetraploid = RNG.integers(0, 5, CALLS.shape)

    found = values_of(np.where(GAPS, -9, tetraploid))

    assert list(found.codes) == [-9]
    assert not found.dosages


# -- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stray", [3, 9, 255, -2, -99, 4.5])
@pytest.mark.parametrize("kind", ["int64", "float32", "zarr of floats"])
def test_a_lone_other_value_is_refused(kind, stray, tmp_path):
    if kind == "int64" and stray != int(stray):
        return
    X = CALLS.astype("f8")
    X[7, 11] = stray

    with pytest.raises(DataError, match=rf"only {stray:g} \(once, first in feature 11 of sample 7"):
        ranking(MAKE[kind](X, tmp_path))


def test_two_strays_are_named():
    X = CALLS.astype(int)
    X[7, 11], X[9, 2], X[9, 3] = 9, 3, 3

    with pytest.raises(DataError, match=r"only 3 \(2 times.*9 \(once.*missing_code=\[3, 9\]"):
        ranking(X)
    meant = dhsic.open_source(X, missing_code=(3, 9))
    assert_array_equal(ranking(meant), ranking(np.where(X > 2, np.nan, X)))


def test_a_stray_far_from_the_first_blocks_is_found(tmp_path):
    X = RNG.choice(np.array([0, 1, 2], "u1"), size=(40, 700))
    X[5, 333] = 255
    path = in_zarr(X, tmp_path / "x.zarr")

    with pytest.raises(DataError, match=r"only 255 \(once, first in feature 333 of sample 5"):
        ranking(path)
    told = ranking(dhsic.open_source(path, missing_code=255))
    assert_array_equal(told, ranking(np.where(X == 255, np.nan, X)))


def test_kept_as_asked():
    X = CALLS.astype(int)
    X[7, 11] = 9
    X[8, 12] = -9

    kept = dhsic.open_source(X, missing_code=None)

    assert_array_equal(ranking(kept), ranking(kept, standardize="presence"))
    assert "0, 1 and 2, and also -9 (once" in str(values_of(X, missing_code=None))


def test_only_samples_that_take_part_count():
    X = CALLS.astype(int)
    X[7, 11] = 9

    assert values_of(X, rows=np.delete(np.arange(40), 7)).dosages
    with pytest.raises(DataError, match="of sample 7"):
        values_of(X, rows=np.arange(5, 40))


@pytest.mark.parametrize("code", ["none", np.nan, True, (), ("a",), (1, "b")])
def test_codes_that_are_none(code):
    with pytest.raises(InputError, match="missing_code="):
        dhsic.open_source(CALLS, missing_code=code)


@pytest.mark.parametrize("code", [-9, -127])
def test_a_few_features_of_another_kind_change_nothing(code):
    ages = RNG.integers(20, 80, 40)
    coded = np.column_stack([np.where(GAPS, code, CALLS), ages])

    assert list(values_of(coded).codes) == [code]
    stray = np.column_stack([CALLS, ages])
    stray[7, 11] = 9
    with pytest.raises(DataError, match="only 9"):
        values_of(stray)


def test_codes_beside_many_features_of_another_kind_are_refused():
    degrees = RNG.integers(-20, 30, (40, 20))
    mixed = np.column_stack([np.where(GAPS, -9, CALLS), degrees])

    with pytest.raises(
        DataError, match=r"contain -9 \(.*a missing value in all features, pass missing_code=-9"
    ):
        values_of(mixed)
    assert values_of(mixed, missing_code=None).codes == {}
    assert values_of(np.column_stack([np.where(GAPS, -1, CALLS), degrees])).codes == {}


# -- left alone ---------------------------------------------------------------------------------

OTHERS = {
    "normal": RNG.standard_normal((40, 30)),
    "counts": RNG.poisson(1.0, (40, 30)) * RNG.integers(1, 4, 30),
    "few counts": RNG.poisson(0.4, (40, 30)).clip(0, 4) + np.eye(40, 30, dtype=int) * 3,
    "unit interval": RNG.random((40, 30)),
    "signs": RNG.choice([-1, 1], (40, 30)),
    "shifted": CALLS.astype(int) - 1,
    "ages and sexes": np.column_stack([RNG.integers(20, 80, (40, 3)), CALLS[:, 0] > 0]),
    "rooms beside real values": np.column_stack(
        [CALLS[:, :8] > 0, RNG.integers(0, 4, (40, 2)), RNG.standard_normal((40, 2))]
    ),
    "four levels": RNG.choice([0, 5, 10, 20, 40], (40, 30)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_data_are_left_as_they_are(kind):
    found = values_of(OTHERS[kind])

    assert not found.dosages
    assert found.codes == {}


def test_a_constant_feature_is_of_no_kind():
    assert values_of(np.column_stack([CALLS, np.full(40, 7)])).dosages


def test_values_from_a_format_are_known(tmp_path):
    path = str(tmp_path / "g.vcz")
    simulate_genotypes(path, n_samples=30, n_variants=600, n_causal=2, n_pairs=0)

    assert values_of(path) == ValueKind(dosages=True, because="genotype calls (0, 1 and 2)")


@pytest.mark.parametrize("code", [None, -1])
@pytest.mark.parametrize("values", [[0, 1, 2], [-1, 0, 1, 2], [-1, 2], [-1], [0], [1]])
def test_counts_are_counted_as_other_numbers_are(rng, values, code):
    raw = rng.choice(np.array(values, "i1"), size=(6, 9))
    where = np.arange(20, 26)
    slowly = raw.astype("f8")
    if code is not None:
        slowly[raw == code] = np.nan

    assert Census.of(raw, code, where, None) == Census.of(slowly, None, where, None)


@given(st.data())
def test_a_tally_does_not_depend_on_the_cut(data):
    levels = data.draw(st.sampled_from([(0, 1, 2), (0, 1, 2, -9), (0, 1, 2, 3), (0, 1, 7, -1, 40)]))
    kind = data.draw(st.sampled_from(["i1", "i4", "f4", "f8"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    few = [0.1 / (len(levels) - 2)] * (len(levels) - 2)
    raw = rng.choice(levels, (7, 40), p=[0.5, 0.4, *few]).astype(kind)
    cut = data.draw(st.integers(0, 7))
    where = np.arange(7) + 100

    whole = Census.of(raw, None, where, None)
    parts = Census.of(raw[:cut], None, where[:cut], None) + Census.of(
        raw[cut:], None, where[cut:], None
    )

    assert parts == whole
    for value, found in whole.outside.items():
        at = [(c + 100, i) for c, row in enumerate(raw) for i, x in enumerate(row) if x == value]
        assert (found.n, found.place) == (len(at), at[0])


# -- recoded ------------------------------------------------------------------------------------


def test_a_recoded_source_reads_as_the_definition_says():
    coded = np.where(GAPS, -9, CALLS).astype("i1")
    source = RecodedSource(ArraySource(coded), (-9,), -1)
    block = source.blocks(10)[1]

    assert_array_equal(source.read(block), np.where(GAPS, -1, CALLS)[:, 10:20])
    columns = source.read_columns(block, np.array([1, 4]), np.array([5, 2]))
    assert_array_equal(columns, np.where(GAPS, -1, CALLS)[[5, 2]][:, [11, 14]].T)
    assert source.fingerprint() != ArraySource(coded).fingerprint()


# -- scale --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bahsic", "fohsic", "ccm", "weighting", "svm-rfe"])
def test_dosages_keep_their_scale_and_nothing_else_does(method):
    def chosen(X, **options):
        if method == "bahsic":
            options["rerank"] = False
        found = dhsic.select(X, Y, method=method, progress=False, n_features_to_select=5, **options)
        return found["rank"].to_numpy()

    more = GIVEN + 0.5 * CALLS
    uneven = more + np.linspace(0, 0.1, more.size).reshape(more.shape)
    for X, asked in ((GIVEN, False), (CALLS > 0, False), (more, "presence"), (uneven, True)):
        assert_array_equal(chosen(X), chosen(X, standardize=asked))


def test_what_is_rare_drowns_nothing():
    """Words of which each text has few: one in fifty says what a text is about."""
    rng = np.random.default_rng(0)
    often = rng.random((300, 3)) < 0.3
    X = np.where(rng.random((300, 1500)) < 0.01, rng.integers(1, 9, (300, 1500)), 0)
    X[:, :3] = often * rng.integers(1, 9, (300, 3))
    y = often.sum(axis=1) + 0.3 * rng.standard_normal(300) > 1

    def worst(X, **options):
        found = dhsic.BAHSIC(3, rerank=False, progress=False, **options).fit(X, y)
        return found.ranking_[:3].max()

    scaled = (X - X.mean(axis=0)) / X.std(axis=0).clip(1e-9)
    for same in (X, 10 - 2 * X, scaled, scaled.astype(np.float32)):
        assert worst(same) == 3
    assert worst(X, standardize=True) > 50


def test_a_run_says_how_features_are_scaled():
    plain = ValueKind(dosages=False, because="more")
    told = {of: SCALED[scales(of, plain)] for of in ("auto", "presence", True, False)}
    assert told["auto"] == told["presence"] != told[True] != told[False]
    assert scales("auto", ValueKind(dosages=True)) is False
    assert scales("auto", plain, alone=True) is True


def test_a_feature_alone_is_scaled():
    assert_array_equal(
        dhsic.LinearHSIC(5, progress=False).fit(CALLS, Y).ranking_,
        dhsic.LinearHSIC(5, standardize=True, progress=False).fit(CALLS, Y).ranking_,
    )


@pytest.mark.parametrize("kernel", ["polynomial", "linear", "gaussian", "ridge"])
def test_where_zero_is_changes_nothing(kernel):
    """Features are centred whether they are scaled or not."""
    shifted = dhsic.open_source(CALLS.astype(int) + 50, missing_code=None)
    options = {"kernel": kernel, "standardize": False}

    assert_array_equal(ranking(shifted, **options), ranking(CALLS, **options))


def test_halves_are_taken_as_the_whole():
    """Where a half alone would not tell: a single 2 shows that -1 is missing."""
    calls = CALLS.clip(0, 1)
    calls[0, 29] = 2
    options = {"stability": 4, "progress": False, "n_features_to_select": 5}

    with pytest.warns(UserWarning, match="-1 .* treated as missing"):
        found = dhsic.select(np.where(GAPS, -1, calls), Y, **options)

    expected = dhsic.select(np.where(GAPS, np.nan, calls), Y, **options)
    assert_array_equal(found["stability"], expected["stability"])


# -- what is said takes the place of what is guessed ---------------------------------------------


@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_a_code_that_is_said_is_the_only_one(dtype):
    centred = np.where(GAPS, 9, CALLS.astype(int) - 1).astype(dtype)

    found = ranking(dhsic.open_source(centred, missing_code=9), standardize=True)

    assert_array_equal(found, ranking(np.where(GAPS, np.nan, CALLS - 1.0), standardize=True))


@pytest.mark.parametrize("code", ["-9", "none", "banana"])
def test_fit_refuses_codes_that_are_none(code):
    with pytest.raises(InputError, match="missing_code="):
        dhsic.BAHSIC(5).fit(CALLS, Y, missing_code=code)


@pytest.mark.parametrize(
    "levels", [(-2, -1, 0, 1, 2), (-1, 0, 1, 2, 3), (-3, -2, -1, 0, 1, 2, 3), (1, 2, 3)]
)
def test_scales_are_left_alone(levels):
    found = values_of(RNG.choice(levels, (40, 30)))

    assert not found.dosages
    assert found.codes == {}


def test_variants_that_are_wholly_missing_change_nothing():
    coded = CALLS.astype(int)
    coded[:, 5] = 9

    assert values_of(coded).dosages
    coded[:, 6] = np.where(np.arange(40) < 30, 9, coded[:, 6])
    with pytest.raises(DataError, match=r"only 9 \("):
        values_of(coded)


def test_the_sentence_says_what_was_seen():
    with pytest.raises(DataError, match="X contains -1, 0, 1, and otherwise only 9"):
        values_of(np.where(GAPS, 9, CALLS.astype(int) - 1))


def test_levels_without_any_count_are_values_though_some_are_missing():
    for moved in (10.0, 1000.0):
        found = values_of(GIVEN + moved)
        assert not found.dosages
        assert found.codes == {}


def test_a_lone_value_has_all_of_its_digits():
    X = CALLS.astype("f8")
    X[7, 11] = 1000.000001
    with pytest.raises(DataError, match=r"only 1000\.000001 \(once.*missing_code=1000\.000001\."):
        values_of(X)


IMPUTED = np.random.default_rng(3).uniform(0, 2, (40, 30)).astype("f4")


@pytest.mark.parametrize("code", [9, -99, 255, -2])
def test_a_lone_code_among_imputed_dosages_is_refused(code):
    X = IMPUTED.copy()
    X[3, ::4] = code
    with pytest.raises(DataError, match=rf"0 to 2, and .* only {code} \(8 times, first in feature"):
        values_of(X)
    with_nan = np.where(code == X, np.nan, X)
    said = dhsic.BAHSIC(3).fit(X, Y, missing_code=code)
    assert_array_equal(said.ranking_, dhsic.BAHSIC(3).fit(with_nan, Y).ranking_)
    dhsic.BAHSIC(3).fit(X, Y, missing_code=None)


@pytest.mark.parametrize(
    "X",
    [
        IMPUTED / 2 + (IMPUTED > 1.99) * 8.5,
        np.round(IMPUTED / 2, 3) + 9 * np.eye(40, 30),
        np.random.default_rng(0).standard_normal((40, 30)),
        np.exp(np.random.default_rng(0).standard_normal((40, 30))),
        IMPUTED + (np.arange(30) % 3 == 0) * np.random.default_rng(0).integers(0, 30, (40, 1)),
        np.where(np.eye(40, 30) > 0, 3, IMPUTED),
        np.column_stack([IMPUTED[:, :9], np.arange(20, 60)]),
        np.where(np.arange(1200).reshape(40, 30) % 9, IMPUTED, np.arange(40)[:, None] % 7 + 9),
    ],
)
def test_other_fractions_are_left_as_they_are(X):
    values_of(X)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
@pytest.mark.parametrize("code", [None, -1, -9])
def test_a_store_that_is_looked_at_whole_is_read_once(tmp_path, monkeypatch, dtype, code):
    """Once, and a few blocks to see what it is; it ranks as from memory, whatever is missing."""
    read, read_columns = [], ZarrSource.read_columns

    def counted(self, block, local, rows=None):
        read.append(local.size)
        return read_columns(self, block, local, rows)

    monkeypatch.setattr(ZarrSource, "read_columns", counted)
    rng = np.random.default_rng(5)
    X, y = rng.integers(0, 3, (60, 900)).astype(dtype), np.arange(60) % 2
    if code is not None:
        X[rng.random(X.shape) < 0.02] = code
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(60, 50))
    # Candidates and pairs, which come after the rounds, read features again.
    asked = {"n_features_to_select": 5, "solver": "lowrank", "progress": False}
    asked |= {"rerank": False, "interactions": None}

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X holds")
        found, expected = (dhsic.select(of, y, **asked) for of in (tmp_path / "x.zarr", X))

    np.testing.assert_array_equal(found["rank"], expected["rank"])
    np.testing.assert_array_equal(found["score"], expected["score"])
    # Codes that do not pack, or are not what is kept: it is read again as what they are.
    read_again = code is not None and (code != -1 or dtype == np.float32)
    assert 900 < sum(read) < (4 if read_again else 2) * 900


def test_pairs_and_candidates_read_a_store_once_more(tmp_path, monkeypatch):
    read, read_columns = [], ZarrSource.read_columns

    def counted(self, block, local, rows=None):
        read.append(local.size)
        return read_columns(self, block, local, rows)

    monkeypatch.setattr(ZarrSource, "read_columns", counted)
    X, y = np.random.default_rng(5).standard_normal((120, 300)), np.arange(120) % 2
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(120, 50))
    n_read = []

    for interactions in (None, "auto"):
        read.clear()
        found = dhsic.select(tmp_path / "x.zarr", y, interactions=interactions, progress=False)
        n_read.append(sum(read))

    expected = dhsic.select(X, y, progress=False)
    own = ["round_seconds", "round_bytes_read"]
    assert found.drop_vars(own).equals(expected.drop_vars(own))
    assert n_read[1] <= n_read[0] + 300
