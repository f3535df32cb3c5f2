"""Rankings of all classes, in the structure that scanpy's plots and tables read."""

import numpy as np
import pytest
from test_h5ad import COUNTS, GENES, LEIDEN, X, cells

import dhsic
from dhsic.errors import InputError

CLASSES = sorted({*LEIDEN})
QUIET = {"n_features_to_select": 3, "progress": False, "interactions": None}
COLUMNS = ("names", "scores", "pvals", "pvals_adj", "logfoldchanges")


def adata():
    data = cells()
    data.uns = {}
    return data


@pytest.fixture(scope="module")
def result():
    return dhsic.select(adata(), "leiden", variable="X", per_class=True, **QUIET)


def naive_fold_change(values, inside, base=np.e):
    """log2 of the ratio of mean expression, one mean at a time."""
    means = [sum(values[inside == side]) / sum(inside == side) for side in (True, False)]
    up, down = (base**mean - 1 + 1e-9 for mean in means)
    return np.log2(up / down) if up / down > 0 else np.nan


def test_the_structure_is_that_of_scanpy(result):
    data = adata()
    assert dhsic.get.rank_genes_groups_like(data, result, layer="X") is None
    made = data.uns["rank_genes_groups"]
    assert made["params"] == {
        "groupby": "leiden",
        "reference": "rest",
        "method": "dhsic",
        "use_raw": False,
        "layer": None,
        "corr_method": "benjamini-hochberg",
    }
    assert {*made} == {"params", *COLUMNS}
    for name in COLUMNS:
        assert made[name].dtype.names == tuple(CLASSES)
        assert made[name].shape == (len(GENES),)
    for name in CLASSES:
        one = result.sel(classes=name)
        order = np.argsort(one["rank"].to_numpy())
        assert made["names"][name].tolist() == [GENES[j] for j in order]
        np.testing.assert_array_equal(made["pvals"][name], one["p_marginal"][order])
        np.testing.assert_array_equal(made["pvals_adj"][name], one["q_marginal"][order])
        np.testing.assert_allclose(made["scores"][name], -np.log10(made["pvals"][name]), rtol=1e-6)
        expected = [naive_fold_change(X[:, j], name == LEIDEN) for j in order]
        np.testing.assert_allclose(made["logfoldchanges"][name], expected, rtol=1e-4)


def test_fold_changes_are_of_the_layer_and_of_the_base_of_its_logarithm(result):
    data = adata()
    data.uns = {"log1p": {"base": 2}}
    made = dhsic.get.rank_genes_groups_like(
        data, result, layer="counts", n_genes=2, key_added="mine", inplace=False
    )
    assert data.uns == {"log1p": {"base": 2}}
    assert (made["params"]["layer"], made["names"].shape) == ("counts", (2,))
    for name in CLASSES:
        at = [GENES.index(gene) for gene in made["names"][name]]
        expected = [naive_fold_change(COUNTS[:, j], name == LEIDEN, base=2.0) for j in at]
        np.testing.assert_allclose(made["logfoldchanges"][name], expected, rtol=1e-4)


def test_methods_without_p_values_have_scores_alone():
    linear = dhsic.select(adata(), "leiden", variable="X", method="linear", per_class=True, **QUIET)
    made = dhsic.get.rank_genes_groups_like(adata(), linear, layer="X", inplace=False)
    assert {*made} == {"params", "names", "scores", "logfoldchanges"}
    for name in CLASSES:
        score = linear["score"].sel(classes=name).to_numpy()
        order = np.argsort(linear["rank"].sel(classes=name).to_numpy())
        np.testing.assert_array_equal(made["scores"][name], score[order].astype("f4"))


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (lambda: X, {}, "rank_genes_groups_like needs an AnnData object, not a ndarray"),
        (adata, {"groupby": "no"}, "adata.obs has no column 'no'. Pass the column"),
        (adata, {"groupby": "treated"}, r"No cell of adata.obs\['treated'\] has the class '0'"),
        (adata, {"n_genes": 0}, "n_genes=0 is invalid. Pass a whole number of at least 1"),
    ],
)
def test_other_data_and_columns_are_refused(result, data, options, said):
    with pytest.raises(InputError, match=said):
        dhsic.get.rank_genes_groups_like(data(), result, **options)


def test_what_a_refusal_advises_works(result):
    one = dhsic.select(adata(), "leiden", variable="X", **QUIET)
    with pytest.raises(InputError, match=r"pass the result of dhsic.select\(adata, key, per_class"):
        dhsic.get.rank_genes_groups_like(adata(), one)
    # The result of per_class=True names its column; another one is passed as groupby=.
    again = dhsic.select(adata(), LEIDEN, variable="X", per_class=True, **QUIET)
    with pytest.raises(InputError, match=r"adata.obs has no column .* as groupby="):
        dhsic.get.rank_genes_groups_like(adata(), again, layer="X")
    made = dhsic.get.rank_genes_groups_like(
        adata(), again, groupby="leiden", layer="X", inplace=False
    )
    assert made["params"]["groupby"] == "leiden"


def test_scanpy_reads_it(result):
    sc = pytest.importorskip("scanpy")
    data = adata()
    dhsic.get.rank_genes_groups_like(data, result, layer="X")
    table = sc.get.rank_genes_groups_df(data, group="1")
    assert table["names"].tolist() == data.uns["rank_genes_groups"]["names"]["1"].tolist()
    plots = sc.pl.rank_genes_groups_dotplot(data, n_genes=2, dendrogram=False, return_fig=True)
    assert plots.var_names == [
        gene for name in CLASSES for gene in data.uns["rank_genes_groups"]["names"][name][:2]
    ]
    sc.pl.rank_genes_groups(data, n_genes=3, show=False)
