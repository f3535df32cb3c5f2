"""Gene panels for cell types beside scanpy and Spapros: accuracy on held-out cells, and time.

    python benchmarks/panels.py [--cells 4000] [--genes 3000] [--draws 3] [--keep panels]
    python benchmarks/panels.py --file cells.h5ad --target bulk_labels --matrix raw/X

Counts of simulated cells, of nested types, or the cells of a file. Each method selects from two
thirds of the cells; classifiers are trained on these with the panel alone, and their accuracy,
balanced over types, is that of the other third. scanpy's tests give a list of genes for each type;
the panel takes the best of each type in turn. Needs scanpy, and Spapros where it is to be compared.
"""

import argparse
import time
import warnings
from pathlib import Path

import anndata
import kept
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import markdown, number

import dhsic

SIZES = (8, 20, 50)
#: Four lineages of three types each: genes and fold changes that tell lineages, and types, apart.
N_LINEAGES, N_TYPES = 4, 12
LINEAGE_GENES, LINEAGE_FOLD, TYPE_GENES, TYPE_FOLD = 20, 4.0, 6, 2.5
#: Share of cells that are held out, and column with the types of simulated cells.
HELD_OUT, TYPE = 1 / 3, "cell_type"


def simulated(n_cells, n_genes, rng):
    """Log-normalised counts of cells whose types are nested in lineages, some types rare."""
    share = rng.dirichlet(np.full(N_TYPES, 3.0))
    cell_type = rng.choice(N_TYPES, n_cells, p=0.8 * share + 0.2 / N_TYPES)
    mean = np.tile(rng.gamma(0.4, 1.0, n_genes), (N_TYPES, 1))
    expressed = rng.permutation(np.flatnonzero(mean[0] > 0.1))
    genes = iter(np.split(expressed, np.arange(LINEAGE_GENES, expressed.size, LINEAGE_GENES)))
    for lineage in range(N_LINEAGES):
        types = np.arange(N_TYPES) % N_LINEAGES == lineage
        mean[np.ix_(types, next(genes))] *= LINEAGE_FOLD
    for one in range(N_TYPES):
        mean[one, next(genes)[:TYPE_GENES]] *= TYPE_FOLD
    depth = rng.lognormal(0, 0.4, (n_cells, 1))
    counts = rng.poisson(depth * rng.gamma(2.0, 0.5, (n_cells, n_genes)) * mean[cell_type])
    obs = pd.DataFrame(
        {TYPE: pd.Categorical([f"type {i}" for i in cell_type])},
        index=[f"cell{i}" for i in range(n_cells)],
    )
    var = pd.DataFrame(index=[f"gene{j}" for j in range(n_genes)])
    total = counts.sum(axis=1, keepdims=True)
    values = np.log1p(counts * (np.median(total) / total)).astype(np.float32)
    return anndata.AnnData(sp.csr_matrix(values), obs, var, uns={"log1p": {"base": None}})


def from_file(path, target, matrix):
    """Cells of a file, their log counts as X."""
    adata = anndata.read_h5ad(path)
    adata = adata.raw.to_adata() if matrix.startswith("raw") else adata
    if matrix.startswith("layers/"):
        adata.X = adata.layers[matrix.removeprefix("layers/")]
    adata = anndata.AnnData(adata.X, adata.obs[[target]], adata.var[[]])
    adata.uns["log1p"] = {"base": None}
    return adata


def of_dhsic(adata, target, sizes):
    table = dhsic.select_genes(adata, target, n=max(sizes), inplace=False, progress=False)
    order = table.sort_values("hsic_rank").index
    return {k: list(order[:k]) for k in sizes}


def _of_scanpy(method):
    def panels(adata, target, sizes):
        import scanpy as sc

        options = {"max_iter": 1000} if method == "logreg" else {}
        sc.tl.rank_genes_groups(adata, target, method=method, use_raw=False, **options)
        in_turn = np.ravel([[*row] for row in adata.uns["rank_genes_groups"]["names"]])
        order = [*dict.fromkeys(in_turn)]
        return {k: order[:k] for k in sizes}

    return panels


def of_spapros(adata, target, sizes):
    from spapros import se

    np.in1d = np.isin  # noqa: NPY201  # Spapros 0.1.6 calls what NumPy 2.4 no longer has
    adata.var["highly_variable"] = True
    panels = {}
    for k in sizes:
        select = se.ProbesetSelector(adata, celltype_key=target, n=k, verbosity=0, n_jobs=1)
        select.select_probeset()
        panels[k] = [*select.probeset.index[select.probeset["selection"]]][:k]
    return panels


METHODS = {
    "dhsic select_genes": of_dhsic,
    "scanpy Wilcoxon": _of_scanpy("wilcoxon"),
    "scanpy logistic": _of_scanpy("logreg"),
    "Spapros": of_spapros,
}
PACKAGES = ("dhsic", "numpy", "scikit-learn", "scanpy", "spapros", "anndata")


def accuracy(train, test, target, genes):
    """Balanced accuracy on held-out cells, mean of logistic regression and 15 neighbours."""
    X, other = (part[:, genes].to_df() for part in (train, test))
    models = LogisticRegression(max_iter=1000, C=0.1), KNeighborsClassifier(15)
    found = [
        balanced_accuracy_score(
            test.obs[target],
            make_pipeline(StandardScaler(), model).fit(X, train.obs[target]).predict(other),
        )
        for model in models
    ]
    return float(np.mean(found))


def measure(adata, target, seed, methods):
    """Rows: method, size of the panel, accuracy, processor seconds of all sizes."""
    labels = adata.obs[target].astype(str)
    parts = train_test_split(
        np.arange(len(labels)), test_size=HELD_OUT, stratify=labels, random_state=seed
    )
    train, test = (adata[np.sort(part)].copy() for part in parts)
    for name in methods:
        start = time.process_time()
        panels = METHODS[name](train.copy(), target, SIZES)
        took = time.process_time() - start
        for k, genes in panels.items():
            score = accuracy(train, test, target, genes)
            yield {"method": name, "genes": k, "seed": seed, "accuracy": score, "seconds": took}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--cells", type=int, default=4_000)
    add("--genes", type=int, default=3_000)
    add("--file", type=Path, help=".h5ad, instead of simulated cells")
    add("--target", default=TYPE, help="column of obs with the types")
    add("--matrix", default="X", help="X, raw/X or layers/NAME of the file, with log counts")
    add("--draws", type=int, default=3, help="of the held-out cells, and of the simulated ones")
    add("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    kept.add_option(parser)
    return parser.parse_args()


def main():
    warnings.filterwarnings("ignore")
    options, rows = arguments(), []
    for seed in range(options.draws):
        rng = np.random.default_rng(seed)
        if options.file:
            adata = from_file(options.file, options.target, options.matrix)
        else:
            adata = simulated(options.cells, options.genes, rng)
        shape = {"cells": adata.n_obs, "features": adata.n_vars}
        rows += [shape | row for row in measure(adata, options.target, seed, options.methods)]
    frame = pd.DataFrame(rows)
    means = frame.groupby(["method", "genes"], sort=False)["accuracy"].mean().unstack()
    seconds = frame.groupby("method", sort=False)["seconds"].median()
    lines = [
        [name, *(number(of, 1, 100) for of in row), number(seconds[name], 1)]
        for name, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    print(markdown(("method", *(f"{k} genes" for k in means), "seconds"), lines))
    kept.keep(options, rows, PACKAGES)


if __name__ == "__main__":
    main()
