"""The main job against the definition: the ranking is that of tests/naive.py, whatever the way."""

from functools import cache

import dask.array as da
import naive
import numpy as np
import pytest
import xarray as xr
import zarr
from cases import BANDWIDTHS, CLASS_KERNELS, ESTIMATORS, PLAIN_KERNELS
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from strategies import labels, matrices
from thorough import examples

import dhsic
from dhsic.algorithms import check_step, removed, sizes
from dhsic.kernels.labels import label_matrix
from dhsic.results.views import rounds_of_engines
from dhsic.runtime.threads import Threads

SOURCES = ("numpy", "dask", "xarray", "zarr 2", "zarr 3", "sharded", "features first")


def as_source(X, kind, width, folder):
    """X, samples as rows, in one of the forms that fit takes; `width` features a chunk."""
    m, d = X.shape
    width = min(width, d)
    if kind == "numpy":
        return X
    if kind == "dask":
        return da.from_array(X, chunks=(max(1, m // 2), width))
    if kind == "xarray":
        return xr.DataArray(X.T, dims=("features", "samples"))
    features_first = kind == "features first"
    dims = ("features", "samples") if features_first else ("samples", "features")
    options = {"chunks": (width, m) if features_first else (m, width)}
    if kind == "zarr 2":
        options |= {"zarr_format": 2, "attributes": {"_ARRAY_DIMENSIONS": list(dims)}}
    else:
        options |= {"dimension_names": dims}
    if kind == "sharded":
        options["shards"] = (m, 2 * width)
    values = X.T if features_first else X
    path = folder / "x.zarr"
    array = zarr.create_array(
        path, shape=values.shape, dtype=X.dtype, fill_value=np.nan, overwrite=True, **options
    )
    array[...] = values
    return str(path)


def order_of(model):
    """Features in the order of leaving, as the definition gives it."""
    return np.argsort(-model.ranking_, kind="stable").tolist()


@pytest.fixture(scope="module")
def client():
    from distributed import Client

    with Client(
        processes=False, n_workers=2, threads_per_worker=2, dashboard_address="127.0.0.1:0"
    ) as client:
        yield client


@given(data=st.data())
@examples(40)
def test_ranking_is_that_of_the_definition(data, client, tmp_path_factory):
    X = data.draw(matrices(missing=True))
    y, label_kernel = data.draw(labels(len(X)))
    kernel = data.draw(st.sampled_from(PLAIN_KERNELS))
    statistic = data.draw(st.sampled_from(ESTIMATORS))
    bandwidth = data.draw(st.sampled_from(BANDWIDTHS)) if kernel == "gaussian" else "dimension"
    step = data.draw(st.sampled_from([0.1, 0.5, 1, 2]))
    kind = data.draw(st.sampled_from(SOURCES))
    folder = tmp_path_factory.mktemp("source")
    source = as_source(X, kind, data.draw(st.integers(1, 4)), folder)
    runtime = data.draw(st.sampled_from([Threads(1), Threads(3), "dask"]))
    L = naive.label_gram(y.tolist(), label_kernel)
    Z = naive.scaled(X.tolist())

    model = dhsic.BAHSIC(
        n_features_to_select=1,
        step=step,
        kernel=kernel,
        bandwidth=bandwidth,
        label_kernel=label_kernel,
        statistic=statistic,
        solver=data.draw(st.sampled_from(["exact", "direct"])),
        dtype=data.draw(st.sampled_from(["float32", "float64"])),
        rerank=False,
        progress=False,
        runtime=runtime,
    ).fit(source, y, sample_dim="samples" if kind not in ("numpy", "dask") else None)

    scores = np.abs(model.scores_[np.isfinite(model.scores_)])
    assume((scores > 1e-14).all())  # others are 0 but for rounding, which orders nothing
    assert order_of(model) == naive.bahsic(Z, L, kernel, bandwidth, statistic, step)
    assert model.result_.attrs["n_missing_values"] == np.isnan(X).sum()


@given(
    matrices(samples=(12, 20), features=(90, 130)),
    st.sampled_from(ESTIMATORS),
    st.sampled_from(CLASS_KERNELS),
    st.sampled_from(["float32", "float64"]),
)
@examples(3)
def test_ranking_is_that_of_the_definition_where_float32_is_used(X, statistic, kernel, dtype):
    """Hundreds of features, copies and flips among them: the whole ladder is climbed."""
    y = np.arange(len(X)) % 2
    L = label_matrix(y, kernel).L
    Z = np.array(naive.scaled(X.tolist()))

    model = fit(X, y, step=0.1, label_kernel=kernel, statistic=statistic, dtype=dtype)

    assert order_of(model) == naive.bahsic_gaussian_in_arrays(Z, L, statistic)


@pytest.fixture(scope="module")
def problem():
    """Genotypes and measurements, 150 samples x 400 features, some copied and some flipped."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((150, 400))
    X[:, :300] = rng.integers(0, 3, (150, 300))
    X[:, 20:30] = X[:, 40:50]
    X[:, 30:40] = 2 - X[:, 40:50]
    y = (X[:, 5] + X[:, 310] * X[:, 320] + rng.standard_normal(150) > 1).astype(int)
    return X, y


def fit(X, y, **options):
    options = {"step": 0.25, "progress": False, "runtime": "threads", **options}
    return dhsic.BAHSIC(5, rerank=False, **options).fit(X, y)


@pytest.fixture(scope="module")
def plain(problem):
    """Fit of the problem as it is, by a kernel and a step."""
    return cache(lambda kernel="gaussian", step=0.25: fit(*problem, kernel=kernel, step=step))


def test_flipping_alleles_does_not_change_the_ranking(problem, plain, rng):
    X, y = problem
    flip = rng.random(300) < 0.5
    flipped = X.copy()
    flipped[:, :300][:, flip] = 2 - flipped[:, :300][:, flip]

    assert_array_equal(fit(flipped, y).ranking_, plain().ranking_)


def test_permuting_features_permutes_the_ranking(problem, rng):
    """But for exact copies, which are ranked by their position."""
    X, y = problem
    X = np.delete(X, np.s_[20:40], axis=1)
    order = rng.permutation(X.shape[1])

    assert_array_equal(fit(X[:, order], y).ranking_, fit(X, y).ranking_[order])


@pytest.mark.parametrize("kernel", PLAIN_KERNELS)
def test_block_splitting_does_not_change_the_ranking(problem, plain, kernel, tmp_path, monkeypatch):
    X, y = problem
    expected = plain(kernel).ranking_
    for width in (7, 64, 400):
        source = as_source(X, "zarr 3", width, tmp_path)
        assert_array_equal(fit(source, y, kernel=kernel).ranking_, expected)
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)  # read from the store for ever
    assert_array_equal(fit(source, y, kernel=kernel).ranking_, expected)


@pytest.mark.parametrize("kind", ["numpy", "dask", "sharded", "features first"])
@pytest.mark.parametrize("kernel", PLAIN_KERNELS)
def test_a_cluster_gives_the_same_ranking(problem, plain, kernel, kind, client, tmp_path):
    X, y = problem
    source = as_source(X, kind, 100, tmp_path)
    on_cluster = fit(source, y, kernel=kernel, step=0.5, runtime="dask")

    assert on_cluster.result_.attrs["runtime"] == "dask"
    assert_array_equal(on_cluster.ranking_, plain(kernel, 0.5).ranking_)


@pytest.mark.parametrize("kernel", PLAIN_KERNELS)
def test_number_of_threads_does_not_change_a_bit(problem, kernel):
    X, y = problem
    one, four = (fit(X, y, kernel=kernel, runtime=Threads(n)) for n in (1, 4))

    assert_array_equal(one.ranking_, four.ranking_)
    assert_array_equal(one.scores_, four.scores_)
    assert_array_equal(one.result_["round_hsic"], four.result_["round_hsic"])


def test_linear_needs_no_loop(problem, plain):
    """One pass gives the ranking of the loop, and its scores are x' W x."""
    X, y = problem
    loop = plain("linear")
    once = dhsic.LinearHSIC(5, progress=False).fit(X, y)
    from dhsic.hsic import weights

    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    W = weights(label_matrix(y).L)

    assert_array_equal(once.ranking_, loop.ranking_)
    np.testing.assert_allclose(once.scores_, np.einsum("ij,ik,kj->j", Z, W, Z), rtol=1e-9)
    assert once.n_iter_ == 1
    assert once.result_["round_hsic"].item() == pytest.approx(loop.result_["round_hsic"][0].item())


def test_history_says_what_happened(problem, plain):
    X, y = problem
    result = plain().result_

    assert result["round_n_features"].values.tolist() == sizes(0.25, 400)
    assert result["round_n_removed"].sum() == 400
    np.testing.assert_allclose(result["round_sigma"], 1 / (2 * result["round_n_features"]))
    first = dhsic.hsic((X - X.mean(0)) / X.std(0), y, bandwidth=1 / 800)
    assert result["round_hsic"][0].item() == pytest.approx(first)
    assert (rounds_of_engines(result)["error_bound_used"] <= 1).all()


def test_score_is_the_fall_of_hsic(problem):
    X, y = problem
    X = X[:, 260:360]
    model = fit(X, y, step=1)
    Z = (X - X.mean(0)) / X.std(0)
    last_two = np.argsort(model.ranking_)[:2]
    both, best = (dhsic.hsic(Z[:, list(S)], y, bandwidth=1 / 4) for S in (last_two, last_two[:1]))

    assert model.scores_[last_two[1]] == pytest.approx(both - best, rel=1e-8)


def test_constant_features_come_last_and_are_reported(problem):
    X, y = problem
    X = X.copy()
    X[:, [3, 200]] = 7.0
    X[0, 200] = np.nan
    model = fit(X, y)

    assert model.ranking_[[3, 200]].tolist() == [400, 399]
    assert model.result_.attrs["n_constant"] == 2
    assert np.isnan(model.scores_[[3, 200]]).all()
    kept = np.delete(np.arange(400), [3, 200])
    assert_array_equal(model.ranking_[kept], fit(X[:, kept], y).ranking_)


def test_missing_values_become_the_mean_and_are_counted(problem, rng):
    X, y = problem
    gaps = rng.random(X.shape) < 0.02
    holed = np.where(gaps, np.nan, X)
    filled = np.where(gaps, np.nanmean(holed, axis=0), X)
    model = fit(holed, y)

    assert_array_equal(model.ranking_, fit(filled, y).ranking_)
    assert_array_equal(model.result_["n_missing"], gaps.sum(axis=0))


def test_covariates_take_confounding_away(rng):
    """A feature that follows the batch, and through it the labels, falls behind."""
    m = 120
    batch = rng.integers(0, 2, m)
    y = (batch + 0.8 * rng.standard_normal(m) + (real := rng.standard_normal(m))).round(3)
    X = rng.standard_normal((m, 16))
    X[:, 4] = batch + 0.1 * rng.standard_normal(m)
    X[:, 9] = real + 0.5 * rng.standard_normal(m)
    plain = dhsic.BAHSIC(2, progress=False).fit(X, y).ranking_
    adjusted = dhsic.BAHSIC(2, progress=False).fit(X, y, covariates=batch[:, None]).ranking_

    assert plain[4] <= 2
    assert adjusted[9] == 1
    assert adjusted[4] > 2


def test_precomputed_label_matrix(problem, plain):
    X, y = problem
    L = label_matrix(y).L

    assert_array_equal(fit(X, L, label_kernel="precomputed").ranking_, plain().ranking_)


def test_several_targets_at_once(rng):
    X = rng.standard_normal((120, 40))
    Y = np.column_stack([X[:, 3] + 0.3 * rng.standard_normal(120), np.sin(3 * X[:, 8])])

    model = dhsic.BAHSIC(2, progress=False).fit(X, Y)

    assert model.get_support(indices=True).tolist() == [3, 8]


def test_steps():
    assert sizes(0.5, 7) == [7, 4, 2, 1]
    assert sizes(3, 7) == [7, 4, 1]
    assert removed(0.1, 5) == 1
    assert check_step(np.int64(3)) == 3


@pytest.mark.parametrize("bad", [0, -1, 1.5, 0.0, 1.0, "half", True, None])
def test_bad_steps(bad):
    with pytest.raises(dhsic.InputError, match="step="):
        check_step(bad)
