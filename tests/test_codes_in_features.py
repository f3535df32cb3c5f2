"""Codes for missing values that many features share: in counts, bytes, shares, expression."""

import re
import warnings

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from commands import run

import dhsic
from dhsic.sources.opening import open_source
from dhsic.sources.scaling import Scaling, measure

M, D, PLANTED, EXCESS = 240, 60, [10, 40], slice(20, 30)


def dosages(rng):
    """Imputed dosages from 0 to 2."""
    calls = rng.binomial(2, np.linspace(0.1, 0.5, D), (M, D))
    return np.clip(calls + rng.normal(0, 0.1, calls.shape), 0, 2)


def coded(values, code, rng, dtype="f4"):
    """Plant two features; missing values are `code`, in `EXCESS` more often in cases."""
    y = np.arange(M) % 2
    values = values.astype(float)
    for j in PLANTED:
        values[y == 1, j] = np.sort(values[:, j])[rng.integers(M // 3, M, M // 2)]
        values[y == 0, j] = np.sort(values[:, j])[rng.integers(0, 2 * M // 3, M // 2)]
    is_missing = rng.random(values.shape) < 0.03
    is_missing[:, EXCESS] |= (rng.random((M, 10)) < 0.4) & (y == 1)[:, None]
    return np.where(is_missing, code, values).astype(dtype), y, is_missing


CODED = {  # values, code, dtype
    "bytes, 255": (lambda rng: np.round(dosages(rng) * 100), 255, "u1"),
    "bytes, -128": (lambda rng: np.round(dosages(rng) * 60), -128, "i1"),
    "bytes, -1": (lambda rng: np.round(dosages(rng) * 60), -1, "i1"),
    "two bytes, -9": (lambda rng: np.round(dosages(rng) * 100), -9, "i2"),
    "two bytes, 65535": (lambda rng: np.round(dosages(rng) * 30000), 65535, "u2"),
    "whole, -9": (lambda rng: np.round(dosages(rng) * 100), -9, "f4"),
    "signed bytes, -128": (lambda rng: rng.normal(0, 20, (M, D)).round(), -128, "i1"),
    "shares, -1": (lambda rng: rng.beta(2, 2, (M, D)), -1, "f4"),
    "shares, -0.1": (lambda rng: rng.beta(2, 2, (M, D)), -0.1, "f4"),
    "shares, 2": (lambda rng: rng.beta(2, 2, (M, D)), 2, "f4"),
    "shares, 9": (lambda rng: rng.beta(2, 2, (M, D)), 9, "f8"),
    "shares, 99": (lambda rng: rng.beta(2, 2, (M, D)), 99, "f8"),
    "counts, -1": (lambda rng: rng.poisson(6, (M, D)), -1, "i2"),
    "counts, -9": (lambda rng: rng.poisson(6, (M, D)), -9, "f8"),
    "counts, 255": (lambda rng: rng.poisson(6, (M, D)), 255, "i2"),
    "few counts, 255": (lambda rng: rng.poisson(1.5, (M, D)), 255, "i2"),
    "expression, -1": (lambda rng: rng.normal(9, 2, (M, D)), -1, "f4"),
    "scores, 50": (lambda rng: rng.normal(0, 1, (M, D)), 50, "f8"),
}


@pytest.mark.parametrize("name", CODED)
def test_a_code_that_features_share_is_refused_and_declared(name, rng):
    make, code, dtype = CODED[name]
    X, y, is_missing = coded(make(rng), code, rng, dtype)
    with pytest.raises(dhsic.DataError, match=f"of {D}( of {D})? features are {code}[ ,]") as told:
        dhsic.test_features(X, y)
    n = int(str(told.value).split()[0].replace(",", ""))
    assert n == is_missing.sum()
    assert f"feature 0: {is_missing[:, 0].sum()}, others at " in str(told.value)
    assert "pass missing_code=None" in str(told.value)
    option = float(re.search(r"pass missing_code=(\S+?)\. ", str(told.value))[1])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Missing values depend on the labels")
        found = dhsic.test_features(X, y, missing_code=option)
        expected = dhsic.test_features(np.where(is_missing, np.nan, X), y)
    np.testing.assert_allclose(found.p_values, expected.p_values, rtol=1e-6)
    assert set(np.argsort(found.p_values)[:2]) == set(PLANTED)
    dhsic.test_features(X, y, missing_code=None)


FORMS = ("dask", "zarr", "sparse", "parquet", "csv", "h5ad")


@pytest.mark.parametrize("form", FORMS)
def test_a_shared_code_is_refused_in_every_form(form, rng, tmp_path):
    X, y, is_missing = coded(rng.poisson(6, (M, D)), -1, rng, "i2")
    frame = pd.DataFrame(X, index=[f"s{i}" for i in range(M)]).add_prefix("g")
    if form == "zarr":
        data = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(100, 7))
    elif form == "dask":
        data = dask.array.from_array(X, chunks=(90, 11))
    elif form == "sparse":
        data = scipy.sparse.csr_array(X)
    elif form == "h5ad":
        h5py, data = pytest.importorskip("h5py"), tmp_path / "x.h5ad"
        with h5py.File(data, "w") as file:
            file["X"] = X.astype("f4")
            file["obs/_index"], file["var/_index"] = [*frame.index], [*frame.columns]
            for axis in ("obs", "var"):
                file[axis].attrs.update({"_index": "_index", "encoding-type": "dataframe"})
    else:
        data = tmp_path / f"x.{form}"
        frame.to_parquet(data) if form == "parquet" else frame.to_csv(data, index_label="id")
    with pytest.raises(dhsic.DataError, match=f"{is_missing.sum():,} values of {D} of {D} feat"):
        dhsic.test_features(data, y)


def scaling_of(X, width=None):
    """Measure features, some at a time, as runs do; return their scaling and the source."""
    source = open_source(X)
    starts = range(0, X.shape[1], width or X.shape[1])
    blocks = [np.ascontiguousarray(X[:, a : a + (width or X.shape[1])].T) for a in starts]
    parts = [measure(block, source.missing_code, standardize=True)[0] for block in blocks]
    return Scaling.join(parts), source


def check(X):
    scaling, source = scaling_of(X)
    scaling.check("mean", source, standardize=True, has_bandwidth=True, n_samples=source.n_samples)


@pytest.mark.parametrize("name", [*CODED, "cells", "images"])
def test_records_do_not_depend_on_the_division_into_blocks(name, rng):
    X = coded(CODED[name][0](rng), *CODED[name][1:2], rng)[0] if name in CODED else None
    X = ORDINARY[name](rng, M, 100) if X is None else X
    np.testing.assert_array_equal(scaling_of(X)[0].ends, scaling_of(X, width=7)[0].ends)


def test_threads_and_dask_refuse_alike(rng, tmp_path):
    distributed = pytest.importorskip("distributed")
    from dhsic.runtime.dask import DaskRuntime

    X, y, _ = coded(rng.beta(2, 2, (M, D)), 9, rng)
    data, said = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(M, 7)), []
    cluster = distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address="127.0.0.1:0"
    )
    with cluster, distributed.Client(cluster) as client, DaskRuntime(client) as runtime:
        for each in ("threads", runtime):
            with pytest.raises(dhsic.DataError, match="features are 9 ") as told:
                dhsic.test_features(data, y, runtime=each)
            said.append(str(told.value))
    assert said[0] == said[1]


def images(rng, m, d, light=1.0):
    """Photographs in bytes: gradients, waves and noise, saturated where it is bright or dark."""
    side = int(np.sqrt(d))
    down, right = np.mgrid[:side, :side] / side
    a, b, c, e, f = rng.normal(0, 1, (5, m, 1, 1))
    values = 128 + 180 * (a * (right - 0.5) + b * (down - 0.5)) + 40 * c
    values = values + 60 * np.sin(6 * right * e + f) * np.cos(6 * down * f)
    noise = rng.normal(0, 8, values.shape)
    return np.clip(np.round(values * light + noise), 0, 255).astype("u1").reshape(m, -1)


def cells(rng, m, d, mean=0.5):
    """Log-transformed counts of cells with few reads: one count is far from 0."""
    counts = rng.poisson(np.exp(rng.normal(mean, 1, d)) * rng.lognormal(0, 0.2, (m, 1)))
    return np.log1p(counts * rng.uniform(3, 5, (m, 1)))


ORDINARY = {
    "counts": lambda r, m, d: r.negative_binomial(1, 1 / (1 + np.exp(r.normal(1, 2, d))), (m, d)),
    "cells": cells,
    "cells with zeros": lambda r, m, d: cells(r, m, d, 0),
    "logarithms of counts": lambda r, m, d: np.log2(
        r.negative_binomial(3, 1 / (1 + np.exp(r.normal(2, 0.7, d))), (m, d)) + 0.5
    ),
    "images": images,
    "bright images": lambda r, m, d: images(r, m, d, 1.8),
    "images in float": lambda r, m, d: images(r, m, d, 1.4) * 1.0,
    "images of 16 bits": lambda r, m, d: images(r, m, d, 1.4).astype("u2") * 257,
    "images of 16 levels": lambda r, m, d: images(r, m, d, 1.4) // 16 * 17,
    "white images": lambda r, m, d: np.where(r.random((m, d)) < 0.3, images(r, m, d), 255),
    "random bytes": lambda r, m, d: r.integers(0, 256, (m, d)).astype("u1"),
    "saturated bytes": lambda r, m, d: np.clip(r.normal(128, 60, (m, d)).round(), 0, 255),
    "saturated, signed": lambda r, m, d: np.clip(r.normal(0, 50, (m, d)).round(), -128, 127),
    "counts to 255": lambda r, m, d: np.minimum(r.negative_binomial(1, 0.01, (m, d)), 255),
    "z-scores": lambda r, m, d: r.normal(size=(m, d)),
    "z-scores, one decimal": lambda r, m, d: r.normal(size=(m, d)).round(1),
    "z-scores to 2": lambda r, m, d: np.clip(r.normal(size=(m, d)), -2, 2),
    "shares": lambda r, m, d: r.beta(0.5, 0.5, (m, d)),
    "words": lambda r, m, d: r.poisson(r.gamma(0.1, 0.3, d), (m, d)),
    "spectra": lambda r, m, d: (
        r.gamma(5, 20, (m, 1)) * np.sin(np.arange(d) / 20) ** 8 + r.normal(0, 0.4, (m, d))
    ),
    "dosages": lambda r, m, d: r.binomial(2, r.uniform(0.1, 0.5, d), (m, d)),
    "centred": lambda r, m, d: (g := r.binomial(2, 0.3, (m, d))) - g.mean(axis=0),
    "one-hot": lambda r, m, d: np.eye(d)[r.integers(0, d, m)],
    "signs": lambda r, m, d: r.choice([-1, 1], (m, d)),
    "ternary": lambda r, m, d: r.choice([-1, 0, 1], (m, d)),
    "copy numbers": lambda r, m, d: np.clip(r.poisson(1.0, (m, d)) - 1, -1, 3),
    "doses": lambda r, m, d: r.choice([0, 1, 10, 100], (m, d)),
    "heavy tails": lambda r, m, d: np.exp(r.normal(4, 2, (m, d))).round(),
    "rectified": lambda r, m, d: np.maximum(r.normal(2, 1, (m, d)), 0),
}


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("m", [60, 300])
def test_ordinary_data_are_neither_refused_nor_warned_of(name, m, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(ORDINARY[name](rng, m, 100))
        check(ORDINARY[name](rng, m, 36))


def test_dosages_of_minus_1_are_missing_and_told(rng, tmp_path):
    G = np.where(rng.random((M, D)) < 0.02, -1, rng.binomial(2, 0.3, (M, D)))
    frame = pd.DataFrame(G).add_prefix("rs").assign(ill=np.arange(M) % 2)
    frame.to_csv(tmp_path / "g.csv", index_label="id")
    said = " ".join(run("test", tmp_path / "g.csv", "--target", "ill").stderr.split())
    assert f"-1 ({(G == -1).sum()} times" in said


@pytest.mark.filterwarnings("default")
def test_255_next_to_frequent_values_is_warned_of(rng):
    X, y, is_missing = coded(np.round(dosages(rng) * 127), 255, rng, "u1")
    with pytest.warns(UserWarning, match=f"{is_missing.sum():,} values of {D} of {D} features are"):
        dhsic.test_features(X, y)
    with pytest.warns(UserWarning, match="Missing values depend on the labels"):
        found = dhsic.test_features(X, y, missing_code=255)
    assert set(np.argsort(found.p_values)[:2]) == set(PLANTED)


@pytest.mark.filterwarnings("default")
def test_zeros_that_mean_missing_expression_are_warned_of(rng, tmp_path):
    X, y, is_missing = coded(rng.normal(8, 2, (M, D)).round(4), 0, rng, "f8")
    ids = pd.Index([f"s{i}" for i in range(M)], name="id")
    frame = pd.DataFrame(X, index=ids).add_prefix("g").assign(ill=y)
    frame.to_csv(tmp_path / "x.csv")
    command = ("test", tmp_path / "x.csv", "--target", "ill")
    said = " ".join(run(*command).stderr.split())
    told = re.search(r"In (\d+) features, zeros lie far below all other values \(g0: (\d+)", said)
    assert int(told[1]) > 0.8 * D
    assert int(told[2]) == is_missing[:, 0].sum()
    assert "pass --missing-code 0, for all features" in said
    found = run(*command, "--missing-code", "0", "-n", "2")
    assert {f"g{j}" for j in PLANTED} == set(re.findall(r"\bg\d+", found.stdout))


def test_a_code_near_the_values_of_other_features_is_counted_there_too(rng):
    X = rng.integers(1, 98, (M, D)).astype(float)
    X[:, :2] = rng.integers(1, 50, (M, 2))
    X[rng.random((M, D)) < 0.03] = 99
    near = int((X[:, 2:] == 99).sum())
    with pytest.warns(UserWarning, match="2 features contain codes") as told:
        check(X)
    assert f"In {D - 2} other features, the same code is near" in str(told[0].message)
    assert f"({near:,} times)" in str(told[0].message)
    assert "pass missing_code=99, for all features" in str(told[0].message)
