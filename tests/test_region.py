"""Pictures of p-values: linkage of NumPy, genes in lanes, sentences, the commands."""

from __future__ import annotations

import warnings
from contextlib import closing

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import run, told
from matplotlib.colors import to_hex

import dhsic
from dhsic import plot
from dhsic.cli import plot as cli_plot
from dhsic.errors import InputError
from dhsic.passes.linkage import linkage_with
from dhsic.plot.base import CHOSEN, MUTED
from dhsic.plot.region import COLOURS, LANES
from dhsic.results.files import from_table
from dhsic.runtime import choose_runtime

mpl.use("agg")
M, D = 150, 40


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    """A .bed of 40 variants in linkage, 5% of the calls missing, and its dosages (m, d)."""
    folder, rng = tmp_path_factory.mktemp("region"), np.random.default_rng(3)
    base = rng.integers(0, 2, (M, D // 10, 2)).repeat(10, axis=1)
    G = (base ^ (rng.random(base.shape) < 0.15)).sum(axis=2)
    missing = rng.random((M, D)) < 0.05
    G[:, 7] = 1  # does not vary
    missing[:, 7] = False
    codes = np.where(missing, 1, np.array([3, 2, 0])[G]).T  # A1 counts: 0 of them is 11
    padded = np.pad(codes, ((0, 0), (0, -M % 4))).reshape(D, -1, 4)
    packed = (padded << np.array([0, 2, 4, 6])).sum(axis=2).astype("u1")
    (folder / "x.bed").write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    (folder / "x.bim").write_text(
        "".join(f"2 rs{j} 0 {1_000_000 + 9_000 * j} A G\n" for j in range(D))
    )
    (folder / "x.fam").write_text("".join(f"0 i{i} 0 0 0 -9\n" for i in range(M)))
    return folder / "x.bed", np.where(missing, np.nan, G)


@pytest.fixture(scope="module")
def result(bed):
    p = np.random.default_rng(1).uniform(size=D)
    p[23] = 1e-9
    values = {"rank": np.argsort(np.argsort(p)) + 1, "selected": p < 1e-5, "p": p}
    names = [f"rs{j}" for j in range(D)]
    coords = {
        "variant_contig": ["2"] * D,
        "variant_position": 1_000_000 + 9_000 * np.arange(D),
        "variant_id": names,
        "feature": names,
    }
    return xr.Dataset(
        {name: ("features", of) for name, of in values.items()},
        {name: ("features", np.array(of)) for name, of in coords.items()},
    )


def linkage(bed, lead, features):
    with closing(choose_runtime("threads", n_threads=1)) as runtime:
        return linkage_with(dhsic.open_source(str(bed)), lead, np.array(features), runtime)


# -- Linkage --------------------------------------------------------------------------------------


def test_linkage_is_that_of_pairs_of_calls(bed):
    path, G = bed
    found = linkage(path, 23, [*range(D)])
    for j in range(D):
        both = np.isfinite(G[:, j]) & np.isfinite(G[:, 23])
        if j == 7:
            assert np.isnan(found[j])
            continue
        expected = np.corrcoef(G[both, j], G[both, 23])[0, 1] ** 2
        np.testing.assert_allclose(found[j], expected, rtol=1e-10, atol=1e-12)
    assert found[23] == pytest.approx(1)


# -- Pictures -------------------------------------------------------------------------------------


def colours(ax):
    """Number of points of each colour."""
    points = [p for p in ax.collections if p.get_offsets().size]
    return {to_hex(p.get_facecolor()[0]).upper(): len(p.get_offsets()) for p in points}


def test_points_have_the_colours_of_their_linkage(bed, result):
    ax = plot.region(result, data=str(bed[0]), kb=100)
    near = np.flatnonzero(np.abs(np.arange(D) - 23) <= 11)
    r2 = linkage(bed[0], 23, near)[near != 23]
    edges = [-1, 0.2, 0.4, 0.6, 0.8, 2]
    expected = dict(zip(COLOURS, np.histogram(r2, edges)[0].tolist(), strict=True))
    assert colours(ax) == {c: n for c, n in expected.items() if n} | {CHOSEN: 1}
    assert "rs23" in ax.get_legend().get_title().get_text()
    plt.close(ax.figure)


def test_points_without_linkage_have_one_colour(bed, result):
    ax = plot.region(result, kb=5000)
    assert colours(ax) == {MUTED: D - 1, CHOSEN: 1}
    plt.close(ax.figure)
    ax = plot.region(result, "rs7", data=str(bed[0]), kb=5000)  # the lead does not vary
    assert colours(ax)[CHOSEN] == 1
    assert len(colours(ax)) == 2
    plt.close(ax.figure)


def test_a_filtered_result_is_matched_with_its_data_by_name(bed, result):
    part = result.isel(features=np.arange(D)[::-2])
    ax = plot.region(part, "rs23", data=str(bed[0]), kb=100)
    r2 = linkage(bed[0], 23, [*range(13, 34, 2)])
    strong = int((r2 > 0.4).sum()) - 1
    found = colours(ax)
    assert sum(n for c, n in found.items() if c in COLOURS[2:]) == strong
    plt.close(ax.figure)


def genes_at(tmp_path, places, chromosome="chr2"):
    path = tmp_path / "genes.bed"
    lines = [f"{chromosome}\t{a}\t{b}\t{name}\t0\t{s}\n" for a, b, name, s in places]
    path.write_text("".join(lines))
    return path


def test_genes_of_the_region_are_drawn_below_in_lanes(result, tmp_path):
    places = [(1_190_000, 1_230_000, "A$x", "+"), (1_200_000, 1_210_000, "B", "-"),
              (1_290_000, 1_299_000, "C", "."), (9_000_000, 9_100_000, "FAR", "+")]  # fmt: skip
    ax = plot.region(result, genes=genes_at(tmp_path, places), kb=100)
    below = next(other for other in ax.figure.axes if other is not ax)
    texts = {text.get_text(): text for text in below.texts if text.get_text()}
    assert set(texts) == {r"A\$x →", "← B", "C"}
    heights = [texts[name].get_position()[1] for name in (r"A\$x →", "← B", "C")]
    assert heights[0] != heights[1]
    assert heights[0] == heights[2]
    assert below.get_xlim() == ax.get_xlim()
    ax.figure.savefig(tmp_path / "x.png")  # the name is no formula
    plt.close(ax.figure)


def test_genes_without_room_are_counted_and_axes_are_shared(result, tmp_path):
    places = [(1_200_000, 1_210_000, f"G{i}", "+") for i in range(LANES + 3)]
    _, (first, second) = plt.subplots(2, 1, figsize=(7, 8), layout="constrained")
    ax = plot.region(result, genes=genes_at(tmp_path, places), kb=100, ax=second)
    assert ax is second
    below = ax.figure.axes[-1]
    assert "3 more genes are not drawn" in [text.get_text() for text in below.texts]
    ax.figure.canvas.draw()
    assert first.get_position().y0 > ax.get_position().y1 > below.get_position().y1
    plt.close(ax.figure)


def test_regions_without_genes_and_with_one_variant(result, tmp_path):
    genes = genes_at(tmp_path, [(5, 9, "A", "+")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = plot.region(result.isel(features=[3]), genes=genes)
        ax.figure.canvas.draw()
    below = ax.figure.axes[-1]
    assert "no gene in this region" in [text.get_text() for text in below.texts]
    plt.close(ax.figure)


# -- Sentences ------------------------------------------------------------------------------------


def test_results_and_arguments_without_a_region_are_refused(bed, result, tmp_path):
    places = ["variant_contig", "variant_position"]
    for given, more, sentence in (
        (result.drop_vars(places), {}, "needs the chromosome and position"),
        (result.drop_vars("p"), {}, "has no p-values. Pass a result of dhsic test"),
        (result.assign(p=result["p"] * np.nan), {}, "All p-values of the result are missing"),
        (result, {"lead": "rs99"}, r"lead='rs99' is not in the result, .* called rs0, rs1"),
        (result, {"kb": 0}, "kb=0 is not a distance"),
        (result, {"genes": genes_at(tmp_path, [(1, 2, "A", "+")], "NC_9")}, "No chromosome of"),
        (result.assign_coords(feature=("features", [f"v{j}" for j in range(D)])),
         {"data": str(bed[0])}, "40 of 40 features of the result are not in the data"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=sentence):
            plot.region(given, **more)


def test_sentences_about_the_lead_and_the_axes_are_followed(result, tmp_path):
    with pytest.raises(InputError, match="or leave it out for the smallest p-value"):
        plot.region(result, lead="rs99")
    assert plot.region(result).texts[0].get_text() == "rs23"
    genes = genes_at(tmp_path, [(1, 2, "A", "+")])
    with pytest.raises(InputError, match=r"Pass axes of plt\.subplots, or leave ax= out"):
        plot.region(result, genes=genes, ax=plt.figure().add_axes((0.1, 0.1, 0.8, 0.8)))
    ax = plt.subplots()[1]
    assert plot.region(result, genes=genes, ax=ax) is ax
    plot.region(result, genes=genes)
    plt.close("all")


def test_the_command_draws_a_picture(bed, tmp_path):
    path, G = bed
    y = np.nan_to_num(G[:, 23], nan=1) + np.random.default_rng(0).standard_normal(M)
    ids = [f"i{i}" for i in range(M)]
    pd.DataFrame({"IID": ids, "y": y}).to_csv(tmp_path / "y.tsv", sep="\t", index=False)
    where = ("--labels", tmp_path / "y.tsv", "--target", "y", "--no-progress")
    run("test", path, *where, "--out", tmp_path / "t.tsv")
    genes = genes_at(tmp_path, [(1_200_000, 1_210_000, "A", "+")])
    words = ("plot", "region", tmp_path / "t.tsv", path, "--genes", genes, "--kb", 120)
    out = tmp_path / "r.svg"
    assert "plot in" in told(run(*words, "--lead", "rs23", "-o", out))
    assert b"<svg" in out.read_bytes()
    assert "exists already" in told(run(*words, "-o", out, code=2))
    run(*words, "-o", out, "--force")
    refused = told(run(*words, "-o", tmp_path / "r.jpg", code=2))
    assert "ends in .png, .pdf or .svg" in refused
    refused = told(run(*words, "--lead", "rs99", "-o", tmp_path / "r.png", code=2))
    assert "is not in the result" in refused
    assert not (tmp_path / "r.png").exists()


# -- The other pictures, and results in another format --------------------------------------------


@pytest.fixture
def tested(bed, tmp_path):
    """A result of tests of the .bed for two targets in turn: of the first, and of both."""
    path, G = bed
    y = np.nan_to_num(G[:, 23], nan=1) + np.random.default_rng(0).standard_normal(M)
    ids = [f"i{i}" for i in range(M)]
    pd.DataFrame({"IID": ids, "y": y, "z": -y}).to_csv(tmp_path / "y.tsv", sep="\t", index=False)
    where = ("--labels", tmp_path / "y.tsv", "--target", "y", "--no-progress")
    run("test", path, *where, "--out", tmp_path / "one.zarr")
    run("test", path, *where, "--target", "z", "--per-target", "--out", tmp_path / "two.zarr")
    return tmp_path


@pytest.mark.parametrize("kind", ["manhattan", "qq"])
def test_manhattan_and_qq_plots(tested, kind):
    one, two = tested / "one.zarr", tested / "two.zarr"
    out = tested / "x.png"
    run("plot", kind, one, "-o", out)
    assert out.read_bytes().startswith(b"\x89PNG")
    refused = told(run("plot", kind, one, "-o", out, "-f", "--kb", 100, "--lead", "rs3", code=2))
    assert "--kb, --lead: only for dhsic plot region" in " ".join(refused.split())
    refused = told(run("plot", kind, two, "-o", out, "-f", code=2))
    assert "Pass one, such as --target y" in " ".join(refused.split())
    run("plot", kind, two, "-o", out, "-f", "--target", "z")
    refused = told(run("plot", kind, one, "-o", out, "-f", "--target", "y", code=2))
    assert "has one run. Leave it out" in refused


def test_sentences_about_lines_and_missing_p_values_are_followed(tested):
    one, out = tested / "one.zarr", tested / "x.png"
    refused = told(run("plot", "qq", one, "--threshold", 0.1, "-o", out, code=2))
    assert "Leave it out" in " ".join(refused.split())
    run("plot", "qq", one, "-o", out)
    table = dhsic.load(one).drop_vars(["p", "q"])
    dhsic.save(table, tested / "without.zarr")
    assert "has no p-values" in told(
        run("plot", "qq", tested / "without.zarr", "-o", out, "-f", code=2)
    )


def test_manhattan_lines_are_at_5e_8_for_variants(tested):
    with_places = dhsic.load(tested / "one.zarr")
    drawn = cli_plot._drawn("manhattan", with_places, None, {})
    assert drawn.lines[0].get_ydata()[0] == pytest.approx(-np.log10(5e-8))
    without = with_places.drop_vars(["variant_contig", "variant_position"])
    assert not cli_plot._drawn("manhattan", without, None, {}).lines
    (line,) = cli_plot._drawn("manhattan", without, 0.01, {}).lines
    assert line.get_ydata()[0] == pytest.approx(2)
    plt.close("all")


def test_manhattan_of_a_selection_draws_its_marginal_p_values(bed):
    G = np.nan_to_num(bed[1], nan=1)
    y = G[:, 23] + 0.5 * np.random.default_rng(0).standard_normal(M)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        selected = dhsic.select(G.astype(np.float32), y, n_features_to_select=5)
    ax = cli_plot._drawn("manhattan", selected, None, {})
    assert "each feature alone" in ax.get_ylabel()
    heights = np.concatenate([of.get_offsets()[:, 1] for of in ax.collections])
    p = selected["p_marginal"].to_numpy()
    np.testing.assert_allclose(np.sort(heights), np.sort(-np.log10(p[np.isfinite(p)])))
    plt.close("all")


def test_data_of_the_region_alone_are_enough(bed, result):
    path, _ = bed
    near = slice(18, 30)  # of the 40 variants
    part = xr.DataArray(
        bed[1][:, near],
        dims=("samples", "features"),
        coords={"features": [f"rs{j}" for j in range(D)[near]]},
    )
    one, other = (plot.region(result, data=of, kb=40).collections for of in (str(path), part))
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine.get_offsets(), theirs.get_offsets())
        np.testing.assert_array_equal(mine.get_facecolors(), theirs.get_facecolors())
    with pytest.raises(InputError, match="11 of 23 features of the result are not in the data"):
        plot.region(result, data=part, kb=100)
    plt.close("all")


def test_a_result_is_written_in_another_format(tested):
    one, genes = tested / "one.zarr", genes_at(tested, [(1_200_000, 1_210_000, "A", "+")])
    run("export", one, "--out", tested / "a.tsv.gz")
    dhsic.save(dhsic.load(one), tested / "b.tsv.gz")
    assert (tested / "a.tsv.gz").read_bytes() == (tested / "b.tsv.gz").read_bytes()
    run("export", tested / "a.tsv.gz", "--out", tested / "c.parquet")
    table = from_table(tested / "c.parquet")
    np.testing.assert_array_equal(dhsic.load(one)["p"], table["p"])
    run("export", one, "--out", tested / "x.snplist")
    assert (tested / "x.snplist").read_text().split()[0] == "rs23"
    run("export", one, "--out", tested / "d.tsv", "--annotate", genes, "--selected-only")
    frame = pd.read_csv(tested / "d.tsv", sep="\t")
    assert frame["selected"].all()
    assert set(frame["gene"]) == {"A"}
    assert "exists already" in told(run("export", one, "--out", tested / "d.tsv", code=2))
    refused = told(run("export", one, "--out", one, "-f", code=2))
    assert "is the result itself" in refused
    assert dhsic.load(one).sizes["features"] == D
