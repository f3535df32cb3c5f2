"""Samples in blocks: permutations between whole blocks, and within blocks."""

import json
import warnings

import naive_blocks as naive
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from test_h5ad import Cells

import dhsic
from dhsic.cli import main
from dhsic.criteria.blocks import BlockIndependence, _moments
from dhsic.errors import InputError
from dhsic.linalg.blocks import Blocks
from dhsic.linalg.rank_basis import rank_basis
from dhsic.reports.sentences import order_of

DONORS, CELLS, D = 20, 15, 12
DONOR = np.repeat(np.arange(DONORS), CELLS)
NAMES = np.array([f"d{i:02d}" for i in DONOR])
CASE = np.where(np.arange(DONORS) < 10, "case", "control")[DONOR]
SITE = np.array([f"s{i % 2}" for i in DONOR])


def counts(seed=0, n_features=D):
    """Counts of cells with effects of donors; gene 3 is higher in cases."""
    rng = np.random.default_rng(seed)
    effects = np.exp(0.5 * rng.standard_normal((DONORS, n_features)))
    X = rng.poisson(effects[DONOR]).astype(float)
    X[:, 3] = rng.poisson(1.0 + 4.0 * (CASE == "case"))
    return X


X = counts()


def frame():
    table = pd.DataFrame(
        X, columns=[f"g{j}" for j in range(D)], index=[f"c{i}" for i in range(len(X))]
    )
    return table.assign(diagnosis=CASE, donor=NAMES, site=SITE)


def prepared(y, blocks, covariates=None):
    criterion = BlockIndependence(blocks)
    return criterion.prepare(criterion.read(y, covariates), covariates)


# Definitions ------------------------------------------------------------------------


@pytest.mark.parametrize("within", [None, [0, 0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 2, 2, 2]])
def test_products_have_the_variance_of_all_permutations(within):
    rng = np.random.default_rng(1)
    strata = np.zeros(7, dtype=int) if within is None else np.array(within)
    y = rng.standard_normal(7)
    blocks = Blocks(np.arange(7), None if within is None else strata)
    state = prepared(y, blocks)
    M = blocks.centred(rng.standard_normal((1, 7)))
    for s, b in enumerate(state.units.labels.B.T):
        mean, variance = naive.product_moments(M[0].tolist(), b.tolist(), strata.tolist())
        assert_allclose(mean, 0.0, atol=1e-12)
        assert_allclose(np.square(M[0]) @ state.h[:, s], variance, rtol=1e-10)


def test_means_are_those_of_the_samples_of_each_block():
    rng = np.random.default_rng(2)
    donors = rng.permutation(np.repeat(np.arange(6), [1, 2, 3, 4, 5, 6]))
    y = rng.standard_normal(6)[donors]
    blocks = Blocks(donors)
    state = prepared(y, blocks)
    functions, level = rng.standard_normal((3, 21)), rng.permutation(21)
    expected = [naive.centred(naive.block_means(f[level], donors), [0] * 6) for f in functions]
    assert_allclose(state.means(functions, level), expected, atol=1e-12)
    few = rng.integers(0, 3, 21)  # by counts of levels
    expected = [naive.centred(naive.block_means(f[few], donors), [0] * 6) for f in functions]
    assert_allclose(state.means(functions[:, :3], few), expected, atol=1e-12)


def test_moments_are_those_of_all_permutations_of_blocks():
    rng = np.random.default_rng(3)
    state = prepared(rng.standard_normal(6), Blocks(np.arange(6)))
    family, labels = state.units.ranks, state.units.labels
    M = state.blocks.centred(rng.standard_normal((len(rank_basis(6)), 6)))
    moments = _moments(state, family, M[None])
    for w, weights in enumerate(family.weights[:3]):
        expected = naive.hsic_moments(
            M.tolist(), weights.tolist(), labels.B.T.tolist(), labels.mu[0].tolist(), [0] * 6
        )
        found = moments.mean[w, 0, 0], moments.spread[w, 0, 0] ** 2, moments.skewness[w, 0, 0]
        assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("within", [None, [0, 0, 0, 0, 1, 1, 1, 1]])
def test_p_values_of_few_blocks_are_exact(within):
    """Over all assignments of labels, a share of at most p has a p-value of at most p."""
    rng = np.random.default_rng(4)
    donors = np.repeat(np.arange(8), 5)
    strata = [0] * 8 if within is None else within
    x = rng.standard_normal((40, 3)) + rng.standard_normal((8, 3))[donors]
    how = {} if within is None else {"permute_within": np.array(within)[donors]}
    each = naive.assignments([0, 1] * 4, strata)
    found = []
    for labels in each:
        y = np.array(labels)[donors]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(dhsic.test_features(x, y, permute_whole=donors, **how).p_values)
    for column in np.array(found).T:
        for p in np.unique(column):
            assert_allclose((column <= p + 1e-12).mean(), p, rtol=1e-9)


def test_blocks_of_one_sample_are_samples():
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((150, 4)), rng.standard_normal(150)
    x[:, 1] += 0.4 * y
    plain = dhsic.test_features(x, y)
    blocked = dhsic.test_features(x, y, permute_whole=np.arange(150))
    assert_allclose(np.log10(blocked.p_values), np.log10(plain.p_values), rtol=0.05, atol=0.05)


def test_strata_remove_what_differs_between_them():
    rng = np.random.default_rng(6)
    batch = np.repeat(np.arange(4), 60)
    y = (rng.random(240) < np.array([0.1, 0.4, 0.6, 0.9])[batch]).astype(int)
    x = rng.standard_normal((240, 60)) + 2.0 * batch[:, None]
    x[:, 0] += 1.2 * y
    assert (dhsic.test_features(x, y).p_values < 1e-3).mean() > 0.9
    found = dhsic.test_features(x, y, permute_within=batch)
    assert found.p_values[0] < 1e-6
    assert (found.p_values[1:] < 0.05).mean() < 0.15


def test_matched_pairs_are_tested_by_their_differences():
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(7)
    pair, y = np.repeat(np.arange(80), 2), np.tile([0, 1], 80)
    x = (
        0.5 * rng.standard_normal((160, 1))
        + rng.standard_normal(80)[pair, None]
        + 0.15 * y[:, None]
    )
    found = dhsic.test_features(x, y, permute_within=pair).p_values[0]
    expected = ttest_rel(x[y == 1, 0], x[y == 0, 0]).pvalue
    assert abs(np.log10(found) - np.log10(expected)) < 1.0


# Level ------------------------------------------------------------------------------


def test_cells_of_donors_are_not_tested_as_if_independent():
    x = counts(8, 300)
    plain = dhsic.test_features(x, CASE).p_values
    whole = dhsic.test_features(x, CASE, permute_whole=NAMES)
    assert (np.delete(plain, 3) < 0.05).mean() > 0.3
    assert (np.delete(whole.p_values, 3) < 0.05).mean() < 0.1
    assert whole.p_values[3] < 1e-3


@pytest.mark.slow
def test_missing_values_and_covariates_keep_the_level():
    rng, x = np.random.default_rng(9), counts(9, 200)
    age = rng.standard_normal(DONORS)[DONOR]
    x[:, 5:] += np.maximum(0, age)[:, None]
    y = age + rng.standard_normal(DONORS)[DONOR]
    x[rng.random(x.shape) < 0.1] = np.nan
    found = dhsic.test_features(x, y, permute_whole=NAMES, covariates=age)
    assert (np.delete(found.p_values, 3) < 0.05).mean() < 0.1
    without = dhsic.test_features(x, y, permute_whole=NAMES)
    assert (without.p_values[5:] < 0.05).mean() > 0.3


# The same everywhere ----------------------------------------------------------------


def test_all_ways_give_the_same_bits(tmp_path):
    how = {"permute_whole": NAMES, "permute_within": SITE}
    found = dhsic.test_features(X, CASE, runtime="threads", **how)
    assert_array_equal(
        dhsic.test_features(X, CASE, features=range(D), **how).p_values, found.p_values
    )
    table = frame()
    named = dhsic.test_features(table, "diagnosis", permute_whole="donor", permute_within="site")
    assert_array_equal(named.p_values, found.p_values)
    import zarr

    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    root.create_array("X", data=X, chunks=(7, 2), dimension_names=("samples", "features"))
    for name, values in (("donor", DONOR), ("case", (CASE == "case").astype(int))):
        root.create_array(name, data=values, dimension_names=("samples",))
    chunked = dhsic.test_features(
        str(tmp_path / "x.zarr"), "case", variable="X", permute_whole="donor", permute_within=SITE
    )
    assert_array_equal(chunked.p_values, found.p_values)
    place = tmp_path / "run"
    for _ in range(2):  # the second time, the run is done
        again = dhsic.test_features(X, CASE, checkpoint=place, **how)
        assert_array_equal(again.p_values, found.p_values)


def test_workers_give_the_same_bits(client):
    from dhsic.runtime.dask import DaskRuntime

    here = dhsic.test_features(X, CASE, permute_whole=NAMES)
    there = dhsic.test_features(X, CASE, permute_whole=NAMES, runtime=DaskRuntime(client))
    assert_array_equal(here.p_values, there.p_values)


def test_a_selection_has_the_p_values_of_blocks():
    tested = dhsic.test_features(X, CASE, permute_whole=NAMES)
    found = dhsic.select(X, CASE, n_features_to_select=3, permute_whole=NAMES, progress=False)
    assert_array_equal(found["p_marginal"], tested.p_values)
    assert found["p_marginal"][3] < 1e-3
    assert "20 whole blocks" in found.attrs["blocks"]
    assert any("no search for pairs or for features" in text for text in order_of(found))
    assert not any("blocks of samples" in text for text in order_of(tested.result_))
    ranked = dhsic.OnePass(3, criterion="hsic").fit(X, CASE, permute_whole=NAMES)
    assert_array_equal(ranked.result_["p"], tested.p_values)


def test_the_command_tests_like_python(tmp_path):
    table, tested = frame(), dhsic.test_features(X, CASE, permute_whole=NAMES)
    table.drop(columns=["diagnosis", "donor", "site"]).to_csv(tmp_path / "x.csv")
    table[["diagnosis", "donor"]].sample(frac=1, random_state=1).to_csv(
        tmp_path / "labels.tsv", sep="\t", index_label="cell"
    )
    command = ["test", "x.csv", "--labels", "labels.tsv", "--target", "diagnosis"]
    command += ["--permute-whole", "donor", "-n", str(D), "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        found = {row["index"]: row["p"] for row in json.loads(result.stdout)["selected"]}
        assert_array_equal([found[j] for j in range(D)], tested.p_values)
        incomplete = table[["diagnosis", "donor"]].copy()
        incomplete.loc["c0", "donor"] = "NA"
        incomplete.to_csv(tmp_path / "labels.tsv", sep="\t", index_label="cell")
        refused = CliRunner().invoke(main, command)
        assert "--drop-missing" in refused.output
        assert CliRunner().invoke(main, [*command, "--drop-missing"]).exit_code == 0
        refused = CliRunner().invoke(main, [*command, "--drop-missing", "--effects", "e.tsv"])
        assert refused.exit_code
        assert "--effects" in refused.output
        refused = CliRunner().invoke(main, ["pairs", *command[1:6], "--permute-whole", "donor"])
        assert refused.exit_code
        assert "dhsic plan, select, test" in refused.output


# Advice -----------------------------------------------------------------------------


def refused(call, *arguments, **options):
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    return str(error.value)


def test_labels_that_differ_within_whole_blocks_are_refused():
    y = np.tile([0, 1, 0], 100)
    message = refused(dhsic.test_features, X, y, permute_whole=NAMES)
    assert "20 of 20 blocks" in message
    assert "d00" in message
    assert "permute_within=" in message
    dhsic.test_features(X, y, permute_within=NAMES)
    dhsic.test_features(X, y, covariates=pd.Series(NAMES))


def test_labels_that_are_constant_within_strata_are_refused():
    message = refused(dhsic.test_features, X, CASE, permute_within=NAMES)
    assert "permute_whole=" in message
    dhsic.test_features(X, CASE, permute_whole=NAMES)


def test_too_few_blocks_are_refused_and_few_are_told():
    message = refused(dhsic.test_features, X, CASE, permute_whole=CASE)
    assert "2 blocks" in message
    keep = np.isin(DONOR, [0, 1, 2, 10, 11, 12])
    with pytest.warns(UserWarning, match="no p-value is below 0.1"):
        found = dhsic.test_features(X[keep], CASE[keep], permute_whole=NAMES[keep])
    assert found.p_values.min() == pytest.approx(0.1)


def test_strata_that_divide_whole_blocks_are_refused():
    batch = np.tile([0, 1, 2], 100)
    message = refused(dhsic.test_features, X, CASE, permute_whole=NAMES, permute_within=batch)
    assert "block d00" in message
    assert "covariate" in message
    dhsic.test_features(X, CASE, permute_whole=NAMES, covariates=batch)


@pytest.mark.parametrize(
    ("options", "without"),
    [
        ({"holdout": 0.5}, {}),
        ({"stability": 10}, {}),
        ({"control": "shadow"}, {}),
        ({"n_features_to_select": "auto"}, {"n_features_to_select": 3}),
        ({"interactions": "all"}, {"interactions": None}),
        ({"label_kernel": "precomputed"}, {}),
        ({"method": "ccm"}, {}),
        ({"method": "t"}, {"method": "hsic"}),
        ({"method": "hsic", "bandwidth": "median"}, {"method": "hsic", "bandwidth": "multiscale"}),
        ({"method": "hsic", "loco": True}, {"method": "hsic"}),
    ],
)
def test_what_treats_samples_as_independent_is_refused(options, without):
    how = {"permute_whole": NAMES, "progress": False}
    y = np.eye(len(X)) if "label_kernel" in options else CASE
    message = refused(dhsic.select, X, y, **how, **{"n_features_to_select": 3, **options})
    assert "permute_whole=" in message
    dhsic.select(X, CASE, **how, **{"n_features_to_select": 3, **without})


def test_one_width_is_refused_for_blocks():
    for how in ({"bandwidth": "median"}, {"method": "permutation"}, {"kernel": "linear"}):
        message = refused(dhsic.test_features, X, CASE, permute_whole=NAMES, **how)
        assert "bandwidth='multiscale'" in message
    message = refused(
        dhsic.test_features,
        X,
        np.eye(len(X)),
        features=[1],
        label_kernel="precomputed",
        permute_whole=NAMES,
    )
    assert "label_kernel='precomputed'" in message


def test_many_classes_are_refused_for_blocks():
    y = np.array([f"k{i}" for i in np.repeat(np.arange(70), 4)])
    x = np.random.default_rng(0).standard_normal((280, 3))
    message = refused(dhsic.test_features, x, y, permute_whole=np.repeat(np.arange(140), 2))
    assert "64 classes" in message


def test_blocks_of_a_wrong_shape_or_with_gaps_are_refused():
    assert "(m,)" in refused(dhsic.test_features, X, CASE, permute_whole=np.c_[DONOR, DONOR])
    assert "19 rows" in refused(dhsic.test_features, X, CASE, permute_whole=np.arange(19))
    gaps = NAMES.astype(object)
    gaps[4] = None
    assert "1 of 300" in refused(dhsic.test_features, X, CASE, permute_whole=gaps)
    keep = np.arange(len(X)) != 4
    dhsic.test_features(X[keep], CASE[keep], permute_whole=gaps[keep])
    message = refused(dhsic.test_features, frame(), "diagnosis", permute_whole="donr")
    assert "Did you mean 'donor'?" in message


def test_series_are_joined_by_sample_names():
    table = frame()
    features = table.drop(columns=["diagnosis", "donor", "site"])
    message = refused(
        dhsic.test_features, features, table["diagnosis"], permute_whole=table["donor"][::-1]
    )
    assert "order" in message
    named = table[["donor"]].reset_index(names="sample_id")[::-1]
    found = dhsic.test_features(features, table["diagnosis"], permute_whole=named)
    expected = dhsic.test_features(X, CASE, permute_whole=NAMES)
    assert_array_equal(found.p_values, expected.p_values)


def of_cells():
    """An object like those of anndata, of the first 9 genes."""
    obs = frame()[["diagnosis", "donor", "site"]]
    adata = Cells(X[:, :9].astype("f4"), obs, pd.Index([f"g{j}" for j in range(9)]))
    adata.obsm = {}
    return adata


def test_cells_of_few_donors_are_told_with_a_remedy():
    adata = of_cells()
    with pytest.warns(UserWarning, match="20 groups of 'donor'.*permute_whole='donor'"):
        dhsic.test_features(adata, "diagnosis")
    with pytest.warns(UserWarning, match="permute_whole='donor'"):
        dhsic.select_genes(adata, "diagnosis", n=3, progress=False, inplace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dhsic.test_features(adata, "diagnosis", permute_whole="donor")
        dhsic.select_genes(adata, "diagnosis", n=3, donor="donor", progress=False, inplace=False)
        dhsic.select(adata, "diagnosis", n_features_to_select=3, method="ccm", progress=False)
    expected = dhsic.test_features(X[:, :9].astype("f4"), CASE, permute_whole=NAMES)
    assert_array_equal(found.p_values, expected.p_values)
    message = refused(dhsic.select_genes, adata, "diagnosis", donor="donor", permute_whole="donor")
    assert "same parameter" in message


def test_other_functions_name_those_that_support_blocks():
    from dhsic.interactions import find_pairs

    with pytest.raises(InputError, match=r"dhsic\.test_features, dhsic\.select"):
        find_pairs(X, CASE, permute_whole=NAMES)
    with pytest.raises(InputError, match=r"dhsic\.test_features, dhsic\.select"):
        dhsic.select_many(X, CASE, [{"kernel": "linear"}], permute_whole=NAMES)


def test_a_detached_run_has_the_same_blocks(tmp_path):
    from dhsic.detached.folder import arrays_of, plain_request, request_of
    from dhsic.selection.request import Request

    path = tmp_path / "cells.csv"
    frame().to_csv(path, index=False)
    how = {"permute_whole": "donor", "permute_within": "site", "sample_dim": None}
    how |= {"pass_only": False, "variable": None, "missing_code": "auto"}
    request = Request.of(dhsic.OnePass(3, criterion="hsic"), str(path), "diagnosis", **how)
    again = request_of(plain_request(request), arrays_of(request))
    assert_array_equal(again.blocks.whole, NAMES)
    assert_array_equal(again.blocks.within, SITE)
    assert "between 20 whole blocks within 2 blocks" in request.attributes["labels"]
