"""The picture of README, of the data of `make demo`: ``python docs/pictures/demo.py``."""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from click.testing import CliRunner

import dhsic
from dhsic.cli import main

mpl.use("agg")
HERE = Path(__file__).parent
TARGET = ("--target", "sample_trait")


def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    if done.exit_code:
        raise SystemExit(done.stderr)


def draw(folder):
    store, truth = folder / "genotypes.vcz", folder / "genotypes.truth.tsv"
    simulated = ("--samples", 1000, "--variants", 10_000, "--trait", "quantitative", "--seed", 7)
    run("simulate", store, *simulated)
    run("test", store, *TARGET, "--out", folder / "alone.zarr")
    run("select", store, *TARGET, "-n", 50, "--out", folder / "selection.zarr")
    run(
        "pairs", store, *TARGET, "--selection", folder / "selection.zarr", "--out", folder / "p.tsv"
    )

    alone, planted = dhsic.load(folder / "alone.zarr"), pd.read_table(truth)
    partners = planted.loc[planted["kind"] == "pair", "variant_index"]
    is_partner = np.isin(np.arange(alone.sizes["features"]), partners)
    alone["selected"] = ("features", is_partner)  # what is drawn in colour
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(9, 6.4), height_ratios=(3, 2), layout="constrained"
    )
    dhsic.plot.genome(alone, "p", labelled=0, ax=above)
    above.legend(above.collections[-1:], ["planted: they act only in pairs"], frameon=False)
    above.set_title("dhsic test: every variant by itself", loc="left")
    pairs = pd.read_table(folder / "p.tsv").iloc[:8].to_xarray()
    dhsic.plot.pairs(pairs, ax=below)
    below.set_title("dhsic pairs: all 49.5 million, given what was selected", loc="left")
    return figure


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        draw(Path(folder)).savefig(HERE / "demo.png", dpi=110)
