"""Plots: the same pictures as those kept, of data that are drawn here; `python tests/test_plot.py`
draws the kept ones anew."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.testing.compare import compare_images

import dhsic
from dhsic import plot
from dhsic.errors import InputError
from dhsic.joins.genes import Genes
from dhsic.plot.base import CELLS, CHOSEN, MAIN, MUTED, PALE, thinned

mpl.use("agg")
KEPT = Path(__file__).parent / "data" / "plots"
#: Root mean square of the difference in grey values: other versions shift letters by a pixel.
TOLERANCE = 12


def genotypes(d=4000, with_p=True):
    """A result with d features on five chromosomes, some selected."""
    rng = np.random.default_rng(5)
    contig = np.sort(rng.integers(1, 6, d)).astype(str)
    hits = rng.choice(d, 12, replace=False)
    p = rng.uniform(size=d)
    p[hits] = 10 ** -rng.uniform(7, 20, hits.size)
    rank = np.argsort(np.argsort(p)) + 1
    values = {
        "rank": rank,
        "selected": rank <= 12,
        "score_first_round": -np.log10(p) / 100,
        "stability": np.clip(1.2 - rank / 20, 0, 1),
    }
    if with_p:
        values["p"] = p
    n = np.array([4000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2, 1])
    rounds = {
        "round_n_features": n,
        "round_hsic": np.sqrt(1 / n) * np.linspace(1, 0.2, n.size),
        "round_n_removed": n - [*n[1:], 0],
        "round_expected_lost": np.linspace(3, 0, n.size) ** 2,
        "round_most_lost": np.ceil(np.linspace(4, 0, n.size) ** 2).astype(int),
    }
    return xr.Dataset(
        {name: ("features", of) for name, of in values.items()}
        | {name: ("rounds", of) for name, of in rounds.items()},
        coords={
            "variant_contig": ("features", contig),
            "variant_position": ("features", rng.integers(1, 10**8, d)),
            "feature": ("features", [f"rs{i}" for i in range(d)]),
        },
        attrs={"n_selected": 12, "stability_threshold": 0.9},
    )


def found_pairs():
    share = np.array([0.2, 0.1, 0.05, 0.02])
    return xr.Dataset(
        {
            "first": ("pairs", [1, 2, 3, 4]),
            "second": ("pairs", [5, 6, 7, 8]),
            "first_feature": ("pairs", ["a", "b", "c", "d"]),
            "second_feature": ("pairs", ["e", "f", "g", "h"]),
            "share": ("pairs", share),
            "family_wise": ("pairs", [1e-9, 0.001, 0.04, 0.9]),
        },
        attrs={"threshold": 0.04, "alpha": 0.05},
    )


def found_shares():
    return xr.Dataset(
        {
            "first": ("effects", [3, 1, 3]),
            "second": ("effects", [-1, 3, 7]),
            "first_feature": ("effects", ["a", "b", "a"]),
            "second_feature": ("effects", ["", "a", "c"]),
            "share": ("effects", [0.6, 0.3, 0.02]),
        }
    )


def validation():
    mean, rng = np.array([0.7, 0.78, 0.8, 0.81, 0.79]), np.random.default_rng(0)
    splits = {f"split{i}_test_score": mean + rng.normal(0, 0.03, 5) for i in range(5)}
    return {"n_features": np.array([5, 10, 20, 50, 100]), "mean_test_score": mean, **splits}


def dosages():
    rng = np.random.default_rng(2)
    x = rng.integers(0, 3, 200).astype(float)
    y = x + rng.normal(size=200)
    x[:3] = np.nan
    return x, y


def region_of_tests():
    """Arguments for a region plot: tests of 300 variants near a peak, their dosages, and genes."""
    rng, d = np.random.default_rng(4), 300
    walk = np.cumsum(rng.standard_normal((d, 200)) * (rng.random((d, 1)) < 0.1), axis=0)
    G = np.clip(np.round(walk - walk.mean(axis=1, keepdims=True)), -1, 1).T + 1
    lead = 140
    centred = G - G.mean(axis=0)
    lengths = np.maximum(np.linalg.norm(centred, axis=0), 1e-9)
    r = centred.T @ centred[:, lead] / (lengths * lengths[lead])
    p = 10 ** -(12 * r**2 + rng.exponential(0.4, d))
    rank = np.argsort(np.argsort(p)) + 1
    result = xr.Dataset(
        {"rank": ("features", rank), "selected": ("features", rank == 1), "p": ("features", p)},
        coords={
            "variant_contig": ("features", ["6"] * d),
            "variant_position": ("features", 31_000_000 + 1500 * np.arange(d)),
            "feature": ("features", [f"rs{j}" for j in range(d)]),
        },
    )
    starts = np.sort(rng.integers(30_950_000, 31_450_000, 14))
    ends = starts + rng.integers(2000, 60_000, 14)
    names = np.array([f"GENE{i}" for i in range(14)], dtype=object)
    strands = np.array(["+", "-"] * 7, dtype=object)
    genes = Genes(np.array(["chr6"] * 14, dtype=object), starts, ends, names, strands)
    array = xr.DataArray(G, dims=("samples", "v"), coords={"v": result["feature"].values})
    data = dhsic.open_source(array, sample_dim="samples")
    return {"result": result, "data": data, "genes": genes, "threshold": 5e-8}


PICTURES = {
    "region": lambda: plot.region(**region_of_tests()),
    "genome_p": lambda: plot.genome(genotypes(), threshold=1e-6),
    "genome_score": lambda: plot.genome(genotypes(with_p=False)),
    "genome_rank": lambda: plot.genome(genotypes(), "rank", labelled=0),
    "qq": lambda: plot.qq(genotypes()),
    "path": lambda: plot.path(genotypes()),
    "expected_lost": lambda: plot.expected_lost(genotypes()),
    "stability": lambda: plot.stability(genotypes(), n=20),
    "pairs": lambda: plot.pairs(found_pairs()),
    "shares": lambda: plot.shares(found_shares()),
    "against_dosage": lambda: plot.against_target(*dosages(), name="rs7"),
    "against_classes": lambda: plot.against_target(
        dosages()[1], np.where(np.arange(200) % 3, "case", "control")
    ),
    "against_values": lambda: plot.against_target(dosages()[1], dosages()[1] ** 2),
    "accuracy": lambda: plot.accuracy(validation()),
}


def drawn(name, path):
    mpl.rcdefaults()
    mpl.use("agg")
    figure = PICTURES[name]().figure
    figure.savefig(path, dpi=60, metadata={"Software": None})
    plt.close(figure)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_those_kept(name, tmp_path):
    drawn(name, tmp_path / "now.png")
    assert compare_images(KEPT / f"{name}.png", tmp_path / "now.png", TOLERANCE) is None


def test_colours_differ_in_grey_from_what_they_lie_on():
    grey = {c: np.dot(to_rgb(c), (0.2126, 0.7152, 0.0722)) for c in (MAIN, CHOSEN, MUTED, PALE)}
    assert all(abs(grey[PALE] - grey[c]) > 0.1 for c in (MAIN, CHOSEN, MUTED))
    assert all(0 < of < 0.8 for of in grey.values())


def test_axes_given_are_drawn_on_and_returned():
    _, ax = plt.subplots()
    assert plot.path(genotypes(), ax=ax) is ax
    plt.close(ax.figure)


def test_a_million_features_leave_few_points_and_all_that_is_selected():
    d = 1_000_000
    rng = np.random.default_rng(0)
    x, y = np.arange(d, dtype=float), rng.exponential(size=d)
    kept = thinned(x, y)
    assert kept.size <= CELLS[0] * CELLS[1]
    assert kept.size < d
    cell = np.floor((y - y.min()) * ((CELLS[1] - 1) / np.ptp(y))) * CELLS[0]
    cell += np.floor(x * ((CELLS[0] - 1) / (d - 1)))
    assert np.unique(cell).size == np.unique(cell[kept]).size == kept.size


def test_results_of_a_run_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    result = dhsic.select(X, X[:, 3] + X[:, 4], n_features_to_select=5, progress=False)
    for draw in (plot.genome, plot.path):
        ax = draw(result)
        ax.figure.savefig(tmp_path / "one.png")
        plt.close(ax.figure)


def test_what_cannot_be_drawn_is_said():
    result = genotypes(with_p=False)
    with pytest.raises(InputError, match="features were not tested"):
        plot.qq(result)
    with pytest.raises(InputError, match="pass one of p, p_marginal, score_first_round, rank"):
        plot.genome(result, "score")
    with pytest.raises(InputError, match="all scores were exact"):
        plot.expected_lost(result.drop_vars("round_expected_lost"))
    with pytest.raises(InputError, match="pass stability=50"):
        plot.stability(result.drop_vars("stability"))
    with pytest.raises(InputError, match="shapes"):
        plot.against_target(np.zeros(3), np.zeros(4))
    with pytest.raises(InputError, match="from 0 to 1"):
        plot.qq([1.5])
    with pytest.raises(InputError, match="cv_results_"):
        plot.accuracy({})


if __name__ == "__main__":
    KEPT.mkdir(parents=True, exist_ok=True)
    for each in PICTURES:
        drawn(each, KEPT / f"{each}.png")
