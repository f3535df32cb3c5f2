"""The report: one page that is complete, escapes what stores say, and works in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import run
from test_plot import found_pairs, found_shares

import dhsic
from dhsic.errors import InputError
from dhsic.reports.html import ROWS, page_of

EVIL = "<script>document.title = 'evil'</script>$x^$ & \"q\" --> ]]>"


class Texts(HTMLParser):
    """Tags and their texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.cells, self._in_cell = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_cell = tag == "td"
        if self._in_cell:
            self.cells.append("")

    def handle_data(self, data):
        if self._in_cell:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 40))
    names = [EVIL, *(f"gene{i}" for i in range(1, 40))]
    data = xr.DataArray(X, dims=("cells", "genes"), coords={"genes": names})
    y = X[:, 0] + X[:, 7] + 0.1 * rng.normal(size=80)
    return dhsic.select(data, y, n_features_to_select=6, stability=4, progress=False)


def wide(d):
    """A result of d features."""
    rng = np.random.default_rng(1)
    rank = rng.permutation(d) + 1
    features = {
        "rank": rank,
        "score": 1 / rank,
        "selected": rank <= 100,
        "score_first_round": rng.exponential(size=d),
    }
    rounds = {
        "round_n_features": np.geomspace(d, 1, 150).astype(int),
        "round_hsic": np.linspace(0, 1, 150),
        "round_seconds": np.ones(150),
        "round_engine": np.full(150, "dense", dtype=object),
        "round_bytes_read": np.ones(150, dtype=int),
    }
    return xr.Dataset(
        {name: ("features", of) for name, of in features.items()}
        | {name: ("rounds", of) for name, of in rounds.items()},
        coords={
            "feature": ("features", np.array([f"rs{i}" for i in range(d)], dtype=object)),
            "variant_contig": ("features", np.sort(rng.integers(1, 23, d)).astype(str)),
            "variant_position": ("features", rng.integers(1, 10**8, d)),
        },
        attrs={"n_samples": 10, "n_features": d, "n_selected": 100, "promised_bytes": 1},
    )


def test_names_of_a_store_are_text(result):
    page = page_of(result, found_pairs())
    read = Texts(page)
    assert EVIL in read.cells
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert page.count("<figure>") == 4  # features, path, stability, pairs


def test_the_page_asks_the_network_for_nothing(result):
    read = Texts(page_of(result))
    places = [of.get(name) for _, of in read.tags for name in ("src", "href", "xlink:href")]
    assert all(p.startswith(("#", "data:")) for p in places if p)
    (policy,) = [of["content"] for tag, of in read.tags if of.get("http-equiv")]
    assert policy.startswith("default-src 'none'")


def test_the_same_result_makes_the_same_page(result):
    assert page_of(result) == page_of(result)


def test_points_of_selected_features_lead_to_rows(result):
    read = Texts(page_of(result))
    ids = [of["id"] for _, of in read.tags if "id" in of]
    assert len(ids) == len(set(ids))
    links = [of["xlink:href"] for tag, of in read.tags if tag == "a"]
    chosen = np.flatnonzero(result["selected"].values)
    assert sorted(links) == sorted(f"#feature-{i}" for i in chosen)
    assert {link[1:] for link in links} <= set(ids)


@pytest.mark.slow
def test_a_million_features_make_a_small_page():
    page = page_of(wide(1_000_000))
    assert len(page.encode()) < 3e6
    assert f"The best {ROWS:,} of 1,000,000" in page


def test_the_command_and_what_it_refuses(result, tmp_path):
    dhsic.save(result, tmp_path / "r.zarr")
    pairs = found_pairs().to_dataframe()
    pairs.to_csv(tmp_path / "pairs.tsv", sep="\t", index=False)
    out = tmp_path / "report.html"
    shared = found_shares().assign(hsic=("effects", [0.1] * 3)).to_dataframe()
    shared.to_csv(tmp_path / "shares.csv", index=False)
    both = ("--pairs", tmp_path / "pairs.tsv", "--shares", tmp_path / "shares.csv")
    run("report", tmp_path / "r.zarr", "-o", out, *both)
    assert "Alone and together" in out.read_text(encoding="utf-8")
    assert "Pairs that act together" in out.read_text(encoding="utf-8")
    assert "exists already" in run("report", tmp_path / "r.zarr", "-o", out, code=2).stderr
    run("report", tmp_path / "r.zarr", "-o", out, "--force")
    pairs.drop(columns="share").to_csv(tmp_path / "pairs.tsv", sep="\t", index=False)
    refused = run(
        *("report", tmp_path / "r.zarr", "-o", out, "--force", "--pairs", tmp_path / "pairs.tsv"),
        code=2,
    )
    assert "has no column share" in refused.stderr
    with pytest.raises(InputError, match=r"ends in \.html"):
        dhsic.report(result, tmp_path / "report.pdf")
    with pytest.raises(InputError, match="not a result"):
        dhsic.report(xr.Dataset(), tmp_path / "other.html")


def test_a_report_says_what_it_lacks(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r'pip install "dhsic\[plot\]"'):
        dhsic.report(result, tmp_path / "report.html")


@pytest.fixture(scope="module")
def genotypes(tmp_path_factory):
    """Simulated genotypes with two traits."""
    folder = tmp_path_factory.mktemp("report")
    where = ("--samples", 120, "--variants", 150, "--causal", 3, "--pairs", 0, "--seed", 1)
    run("simulate", folder / "g.vcz", *where, "--trait", "quantitative")
    y = dhsic.read_target(str(folder / "g.vcz"), "sample_trait")
    names = dhsic.open_source(folder / "g.vcz").sample_names()
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"IID": names, "tall/short": y, "weight": y + rng.standard_normal(120)})
    frame.to_csv(folder / "y.tsv", sep="\t", index=False)
    return folder


def title(page):
    return re.search("<title>(.*)</title>", page)[1]


@pytest.fixture(scope="module")
def results(genotypes):
    """Paths of a test and of a selection, and their pages."""
    found = {}
    for command in ("test", "select"):
        path = genotypes / f"{command}.zarr"
        asked = (genotypes / "g.vcz", "--target", "sample_trait", "-n", 5, "--no-progress")
        run(command, *asked, "--out", path)
        run("report", path, "-o", genotypes / f"{command}.html")
        found[command] = path, (genotypes / f"{command}.html").read_text()
    return found


def rows_of(page):
    """Cells of each row of the table of features."""
    body = re.search(r"<tbody>\n<tr id=.*?</tbody>", page, re.DOTALL)[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>")]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".tsv.gz", ".parquet", ".json"])
@pytest.mark.parametrize("command", ["test", "select"])
def test_tables_have_reports_too(suffix, command, results, tmp_path):
    path, of_result = results[command]
    table, has_no_attributes = tmp_path / f"r{suffix}", suffix not in (".parquet", ".json")
    dhsic.save(dhsic.load(path), table)
    run("report", table, "-o", tmp_path / "t.html")
    of_table = (tmp_path / "t.html").read_text()
    assert title(of_table).startswith(title(of_result).split(": ")[0] + ": ")
    n = 2 if command == "select" and has_no_attributes else None  # which say what ranks are by
    assert [row[:n] for row in rows_of(of_table)] == [row[:n] for row in rows_of(of_result)]
    if command == "test":
        assert "QQ plot" in of_table
        lambdas = [
            re.search(r"lambda of the median p-value\) is ([\d.]+)", page)[1]
            for page in (of_table, of_result)
        ]
        assert lambdas[0] == lambdas[1]
    assert "sample_trait in g.vcz" in title(of_result)
    assert (f"r{suffix}" if has_no_attributes else "sample_trait in g.vcz") in title(of_table)


def test_tables_that_are_no_results_are_refused(genotypes, tmp_path):
    asked = (genotypes / "g.vcz", "--labels", genotypes / "y.tsv", "--no-progress")
    few, both = tmp_path / "few.tsv", tmp_path / "both.tsv"
    run("select", *asked, "--target", "weight", "-n", 5, "--out", few, "--selected-only")
    several = ("--target", "weight", "--target", "tall/short", "--per-target")
    run("test", *asked, *several, "--out", both)
    (tmp_path / "bad.parquet").write_text("no parquet")
    for path, sentence in {
        few: "contains only the selected features",
        both: "is a table of several runs",
        genotypes / "y.tsv": "has no column index, rank, score, selected",
        tmp_path / "bad.parquet": "is not a table of a result",
        tmp_path / "none.tsv": "There is no result at",
    }.items():
        refused = run("report", path, "-o", tmp_path / "x.html", code=2)
        assert sentence in " ".join(refused.stderr.split())


def test_each_target_has_a_page_that_names_it(genotypes, tmp_path):
    asked = (genotypes / "g.vcz", "--labels", genotypes / "y.tsv", "--no-progress")
    several = ("--target", "weight", "--target", "tall/short", "--per-target")
    run("test", *asked, *several, "--out", tmp_path / "both.zarr")
    done = run("report", tmp_path / "both.zarr", "-o", tmp_path / "r.html")
    pages = {"weight": tmp_path / "r.weight.html", "tall/short": tmp_path / "r.tall_short.html"}
    for name, path in pages.items():
        assert f": {name} in g.vcz" in title(path.read_text())
        assert path.name in done.stderr
    alone = tmp_path / "w.zarr"
    run("test", *asked, "--target", "weight", "--out", alone)
    expected = re.findall(r"<td[^>]*>(.*?)</td>", page_of(dhsic.load(alone)))
    found = re.findall(r"<td[^>]*>(.*?)</td>", pages["weight"].read_text())
    assert found[:300] == expected[:300]
    assert (
        "exists already"
        in run("report", tmp_path / "both.zarr", "-o", tmp_path / "r.html", code=2).stderr
    )
    with pytest.raises(InputError, match="pairs= and shares= are for one target"):
        dhsic.report(dhsic.load(tmp_path / "both.zarr"), tmp_path / "p.html", pairs=found_pairs())


@pytest.mark.parametrize("option", ["--pairs", "--shares"])
def test_a_table_that_is_not_there_is_a_sentence(option, result, tmp_path):
    dhsic.save(result, tmp_path / "r.zarr")
    asked = ("report", tmp_path / "r.zarr", "-o", tmp_path / "x.html", option)
    for path in (tmp_path / "none.tsv", tmp_path):
        said = " ".join(run(*asked, path, code=2).stderr.split())
        assert "There is no" in said
        assert "dhsic pairs" in said
    assert not (tmp_path / "x.html").exists()


#: What somebody does with the table, and what the page then shows.
ACTS = """
<script>
const cells = (n) => [...document.querySelectorAll("#table tbody tr:not([hidden])")]
  .slice(0, 3).map((row) => row.cells[n].textContent);
const heads = [...document.querySelectorAll("#table thead th")].map((th) => th.textContent);
const buttons = document.querySelectorAll("#table thead button");
const press = (name) => buttons[heads.indexOf(name)].click();
const said = {};
press("rank"); said.last = cells(0);
press("name"); said.names = cells(heads.indexOf("name"));
document.querySelector("#filter").value = "gene1";
document.querySelector("#filter").dispatchEvent(new Event("input"));
said.filtered = document.querySelector("#count").textContent;
document.querySelector("#filter").value = "";
document.querySelector("#only").click();
said.only = document.querySelector("#count").textContent;
said.title = document.title;
said.points = [...document.querySelectorAll(".plot a[aria-label]")].length;
said.wide = document.documentElement.scrollWidth > window.innerWidth;
document.body.dataset.said = JSON.stringify(said);
</script>
</body>"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [390, 820, 1400])
def test_in_a_browser(result, tmp_path, width):
    import html
    import json

    page = page_of(result).replace("</body>", ACTS)
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [
        f"--window-size={width},900",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}",
    ]
    ended = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in ended.stderr
    (said,) = re.findall(r'data-said="([^"]*)"', ended.stdout)
    said = json.loads(html.unescape(said))
    assert said["last"] == ["40", "39", "38"]
    assert said["names"] == [EVIL, "gene1", "gene2"]
    assert said["filtered"] == "11 rows"
    assert said["only"] == "6 rows"
    assert said["title"].startswith("Selection of 6 of 40")
    assert said["points"] == 6
    assert not said["wide"]
