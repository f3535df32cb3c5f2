"""Several matrices of one set of samples: values and scaling of each, balance, ranks in each."""

import json
import pickle
import re
import shutil

import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from commands import run
from stores import write_frame, write_plink

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix
from dhsic.passes import Measure
from dhsic.passes.reader import Reader
from dhsic.reports.sentences import order_of
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection.request import Request
from dhsic.sources.feature_blocks import BlockScaling, FeatureBlocks, FloatBlocks
from dhsic.sources.scaling import PRESENCE, measure

M = 150
SAMPLES = [f"s{i}" for i in range(M)]
PLANTED = {"rna": "g5", "meth": "cg17", "snp": "rs3"}
QUICK = {"n_features_to_select": 10, "interactions": None, "progress": False}


def standardised(values):
    return (values - values.mean()) / values.std()


def standardised_columns(frame):
    return (frame - frame.mean()) / frame.std(ddof=0)


def matrices(sizes=(40, 300, 10), m=M, seed=0):
    """Draw expression, methylation and dosages, and labels that depend on one feature of each."""
    rng = np.random.default_rng(seed)
    rna = np.exp(rng.standard_normal((m, sizes[0])))
    meth = rng.beta(2, 2, (m, sizes[1])).astype("f4")
    snp = rng.binomial(2, rng.uniform(0.2, 0.5, sizes[2]), (m, sizes[2])).astype("i1")
    each = (np.log(rna[:, 5]), meth[:, 17], snp[:, 3])
    y = sum(map(standardised, each)) + 0.8 * rng.standard_normal(m)
    snp[rng.random(snp.shape) < 0.02] = -1
    names = SAMPLES if m == M else [f"s{i}" for i in range(m)]

    def frame(X, prefix):
        return pd.DataFrame(X, index=names, columns=[f"{prefix}{j}" for j in range(X.shape[1])])

    return frame(rna, "g"), frame(meth, "cg"), frame(snp, "rs"), pd.Series(y, names, name="y")


RNA, METH, SNP, Y = matrices()
DATA = {"rna": RNA, "meth": METH, "snp": SNP}
CODES = pytest.mark.filterwarnings("ignore:X holds")


def write(folder):
    """Write the matrices as CSV and PLINK files, and the labels; return the paths."""
    RNA.to_csv(folder / "rna.csv", index_label="sample")
    METH.iloc[::-1].to_csv(folder / "meth.csv.gz", index_label="sample")
    write_plink(folder / "snp", SNP.to_numpy(), ids=[*SNP.columns], samples=SAMPLES)
    Y.to_csv(folder / "y.csv", index_label="sample")
    return [str(folder / name) for name in ("rna.csv", "meth.csv.gz", "snp.bed")]


def ranks(result):
    named = dict(zip(result["feature"].to_numpy(), result["rank"].to_numpy(), strict=True))
    return {block: int(named[name]) for block, name in PLANTED.items()}


def assert_same(one, other):
    assert {*one.variables} == {*other.variables}
    for name in {*one.variables} - {"round_seconds", "round_bytes_read"}:
        np.testing.assert_array_equal(one[name].to_numpy(), other[name].to_numpy(), err_msg=name)


# Values and names ------------------------------------------------------------------------------


def test_values_names_and_blocks_of_all_matrices(tmp_path):
    source = dhsic.open_source(write(tmp_path))
    assert (source.n_samples, source.n_features, source.ploidy) == (M, 350, None)
    assert source.dtype == np.float64
    blocks = source.feature_coords()["block"]
    assert [*dict.fromkeys(blocks)] == ["meth", "rna", "snp"]  # by name, not as passed
    values = np.concatenate([source.read(b) for b in source.blocks(64)], axis=1)
    expected = pd.concat([METH, RNA, SNP.replace(-1, np.nan)], axis=1)
    frame = pd.DataFrame(values, source.sample_names(), source.feature_names())
    np.testing.assert_allclose(frame.loc[SAMPLES, expected.columns], expected, rtol=1e-6)
    again = pickle.loads(pickle.dumps(source))
    assert again.fingerprint() == source.fingerprint()
    np.testing.assert_array_equal(again.feature_coords()["block"], blocks)


def test_files_of_one_matrix_are_no_blocks(tmp_path):
    for number in (1, 2):
        part = RNA.iloc[:, 20 * (number - 1) : 20 * number]
        part.to_csv(tmp_path / f"rna{number}.csv", index_label="sample")
    source = dhsic.open_source(str(tmp_path / "rna*.csv"))
    assert "block" not in source.feature_coords()
    assert FeatureBlocks.of(source) is None


def test_repeated_names_begin_with_their_matrix():
    other = RNA.rename(columns={"g1": "gene"}) + 1.0
    with pytest.warns(UserWarning, match=r"39 feature names are in several matrices, such as g0 "):
        source = dhsic.open_source({"rna": RNA, "protein": other})
    names = [*source.feature_names()]
    assert names[:3] == ["protein:g0", "gene", "protein:g2"]
    assert names[40:43] == ["rna:g0", "g1", "rna:g2"]


def test_samples_are_intersected(tmp_path):
    paths = write(tmp_path)
    RNA.iloc[10:].to_csv(paths[0], index_label="sample")
    with pytest.raises(InputError, match="intersect_samples=True"):
        dhsic.open_source(paths)
    with pytest.warns(UserWarning, match="140 samples are in all 3 files"):
        source = dhsic.open_source(paths, intersect_samples=True)
    assert sorted(source.sample_names()) == sorted(SAMPLES[10:])


@pytest.mark.parametrize("several", [[RNA, METH], (METH, RNA)])
def test_lists_in_memory(several):
    source = dhsic.open_source(several)
    names = dict(zip(source.feature_names(), source.feature_coords()["block"], strict=True))
    first = "g5" if several[0] is RNA else "cg17"
    assert names[first] == "matrix 1"
    assert {*names.values()} == {"matrix 1", "matrix 2"}


def test_modalities_of_mudata(tmp_path):
    with h5py.File(tmp_path / "x.h5mu", "w") as file:
        file.attrs["encoding-type"] = "MuData"
        for name, frame in (("rna", RNA), ("prot", METH.iloc[:, :20])):
            group = file.create_group(f"mod/{name}")
            group["X"] = frame.to_numpy()
            for axis, names in (("obs", frame.index), ("var", frame.columns)):
                of = group.create_group(axis)
                of.attrs["_index"], of.attrs["column-order"] = "_index", np.array([], "S")
                of["_index"] = np.array([*names], "S")
    source = dhsic.open_source(tmp_path / "x.h5mu")
    assert [*dict.fromkeys(source.feature_coords()["block"])] == ["prot", "rna"]
    (block,) = source.blocks(10**6)[-1:]
    np.testing.assert_array_equal(source.read(block)[:, -40:], RNA.to_numpy())
    alone = dhsic.open_source(tmp_path / "x.h5mu/mod/rna")
    assert [*alone.feature_names()] == [*RNA.columns]


def write_mudata(path, modalities, zarr_format=3):
    """Write MuData on Zarr by hand: modalities, and the labels of all samples in its `obs`."""
    about = {"encoding-type": "MuData", "encoding-version": "0.1.0"}
    root = zarr.open_group(path, mode="w", attributes=about, zarr_format=zarr_format)
    write_frame(root, "obs", SAMPLES, {"y": (Y.to_numpy(), "array")})
    for name, frame in modalities.items():
        group = root.create_group(f"mod/{name}", attributes={"encoding-type": "anndata"})
        group.create_array("X", data=frame.to_numpy())
        ages = {f"age_{name}": (np.arange(M), "array")}
        write_frame(group, "obs", [*frame.index], ages)
        write_frame(group, "var", [*frame.columns])
    return str(path)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_modalities_of_mudata_on_zarr(tmp_path, zarr_format):
    modalities = {"atac2": RNA, "atac1": METH.iloc[::-1, :20]}  # names of a series, other orders
    path = write_mudata(tmp_path / "x.zarr", modalities, zarr_format)
    expected = np.hstack([METH.iloc[::-1, :20], RNA.iloc[::-1]])
    for X in (path, zarr.open_group(path, mode="r")):
        source = dhsic.open_source(X)
        assert [*dict.fromkeys(source.feature_coords()["block"])] == ["atac1", "atac2"]
        values = np.hstack([source.read(block) for block in source.blocks(64)])
        np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(dhsic.read_target(path, "y"), Y[source.sample_names()])
    np.testing.assert_array_equal(dhsic.read_target(path, "age_atac2"), np.arange(M)[::-1])
    alone = dhsic.open_source(f"{path}/mod/atac2")
    assert [*alone.feature_names()] == [*RNA.columns]


def test_commands_on_mudata_on_zarr(tmp_path):
    path = write_mudata(tmp_path / "x.zarr", {"p2": RNA, "p1": METH.iloc[:, :20]})
    shown = run("inspect", path).stdout
    for line in (
        "matrix    p1: 150 samples x 20",
        "matrix    p2: 150 samples x 40",
        "y: ",
        "age_p2: ",
    ):
        assert line in shown
    run("select", path, "--target", "y", "-n", 5, "--out", tmp_path / "r.csv")
    table = pd.read_csv(tmp_path / "r.csv")
    expected = dhsic.select({"p1": METH.iloc[:, :20], "p2": RNA}, Y, n_features_to_select=5)
    in_order = expected["feature"].to_numpy()[np.argsort(expected["rank"].to_numpy())]
    assert [*table["name"]] == [*in_order]
    assert {*table["block"]} == {"p1", "p2"}


def test_mudata_beside_other_data_is_refused_with_its_matrices(tmp_path):
    path = write_mudata(tmp_path / "x.zarr", {"a": RNA, "b": METH.iloc[:, :20]})
    snp = write(tmp_path)[2]
    with pytest.raises(InputError, match=r"MuData.*pass each matrix: \S+/mod/a \S+/mod/b") as error:
        dhsic.open_source([path, snp])
    paths = re.search(r"each matrix: (\S+) (\S+) ", str(error.value)).groups()
    source = dhsic.open_source([*paths, snp])
    assert [*dict.fromkeys(source.feature_coords()["block"])] == ["a", "b", "snp"]
    shutil.rmtree(tmp_path / "x.zarr" / "mod")
    with pytest.raises(InputError, match="MuData without modalities"):
        dhsic.open_source(path)


def test_labels_of_mudata_that_do_not_name_all_samples(tmp_path):
    more = RNA.set_axis([*SAMPLES[:-1], "other"])
    path = write_mudata(
        tmp_path / "x.zarr", {"a": more, "b": METH.iloc[:, :20].set_axis(more.index)}
    )
    with pytest.raises(DataError, match="does not name each sample"):
        dhsic.select(path, "y", **QUICK)


def test_objects_of_mudata_are_recognised():
    kind = type("MuData", (), {"__module__": "mudata._core", "mod": {"a": RNA, "b": METH}})
    source = dhsic.open_source(kind())
    assert [*dict.fromkeys(source.feature_coords()["block"])] == ["a", "b"]


# Scaling ---------------------------------------------------------------------------------------


@CODES
def test_each_matrix_has_its_own_scaling():
    request = Request.of(
        dhsic.BAHSIC(),
        DATA,
        Y,
        sample_dim=None,
        variable=None,
        missing_code="auto",
        pass_only=False,
    )
    blocks = request.new_run(Threads(1)).with_value_kind()
    assert isinstance(blocks.source, FloatBlocks)
    reader = blocks.reader(None)
    scaling = reader.measure(Measure(PRESENCE))
    is_snp = blocks.source.feature_coords()["block"] == "snp"
    alone, _ = measure(SNP.T.to_numpy(), -1, standardize=False)
    np.testing.assert_array_equal(scaling.scale[is_snp], 1.0)
    np.testing.assert_allclose(scaling.mean[is_snp], alone.mean)
    np.testing.assert_allclose(scaling.max_abs[is_snp], alone.max_abs)
    np.testing.assert_allclose(scaling.fourth_moment[is_snp], alone.fourth_moment)
    np.testing.assert_array_equal(scaling.n_missing[is_snp], (SNP == -1).sum())
    others, _ = measure(pd.concat([METH, RNA], axis=1).T.to_numpy(), None, standardize=PRESENCE)
    np.testing.assert_allclose(scaling.scale[~is_snp], others.scale)
    assert "not scaled: snp" in blocks.values_told()


@CODES
@pytest.mark.parametrize("method", [dhsic.CCM, dhsic.FeatureWeighting])
def test_methods_of_weights_scale_each_matrix_for_itself(method):
    missing = SNP.replace(-1, np.nan)
    one = pd.concat([standardised_columns(METH), standardised_columns(RNA), missing], axis=1)
    options = {"n_features_to_select": 5, "max_iterations": 200, "progress": False}
    found = method(**options).fit(DATA, Y).result_["score"].to_numpy()
    expected = method(**options, standardize=False).fit(one, Y).result_["score"].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:X holds")
def test_codes_are_missing_in_their_matrix_for_pairs_and_components():
    declared = DATA | {"snp": SNP.replace(-1, np.nan)}
    rna = RNA - 1.0
    rna.iloc[0, 0] = -1.0  # a value, not a code
    components = [
        dhsic.pca(data | {"rna": rna}, 2)["eigenvalue"].to_numpy() for data in (DATA, declared)
    ]
    np.testing.assert_array_equal(*components)
    pairs = [dhsic.find_pairs(data | {"rna": rna}, Y, n_pairs=5) for data in (DATA, declared)]
    pd.testing.assert_frame_equal(*[found.to_dataframe() for found in pairs])


def test_balance_gives_all_blocks_the_same_mean_squared_distance():
    X = np.random.default_rng(0).standard_normal((12, 30)) * np.arange(1, 13)[:, None]
    X[3] = 1.0  # constant
    codes = np.repeat([0, 1, 2], [2, 9, 1])
    known, Z = measure(X, None, standardize=False)
    scaling, factor = BlockScaling(codes, np.zeros(3, bool), True).of(known)
    of_block = np.bincount(codes, np.square(scaling.std * scaling.scale))
    np.testing.assert_allclose(of_block, of_block[0])
    np.testing.assert_allclose(of_block.sum(), np.square(known.std * known.scale).sum())
    scaled = Z * factor[:, None]
    np.testing.assert_allclose(scaling.max_abs, np.abs(scaled).max(axis=1))
    np.testing.assert_allclose(scaling.fourth_moment, (scaled**4).mean(axis=1))
    assert scaling.scale[3] == 0


@CODES
@pytest.mark.parametrize("solver", ["exact", "lowrank", "direct"])
def test_engines_use_the_weights(solver):
    """HSIC of the first round is that of the weighted features, by the definition."""
    data = {"rna": RNA.iloc[:, :8], "snp": SNP}
    options = QUICK | {"solver": solver, "balance": True, "max_expected_loss": 0.0}
    result = dhsic.select(data, Y, **options)
    parts = [RNA.iloc[:, :8].to_numpy(), SNP.replace(-1, np.nan).to_numpy(np.float64)]
    Z = [
        measure(X.T, None, standardize=PRESENCE if i == 0 else False)[1]
        for i, X in enumerate(parts)
    ]
    sizes = [np.square(z).mean(axis=1).sum() for z in Z]
    Z = np.concatenate([z * np.sqrt(sum(sizes) / 2 / v) for z, v in zip(Z, sizes, strict=True)])
    sigma = 1 / (2 * sum(sizes))
    np.testing.assert_allclose(float(result["round_sigma"][0]), sigma)
    D = np.square(Z.T[:, None] - Z.T[None]).sum(axis=2)
    W = weights(label_matrix(Y.to_numpy(), "auto").L, "unbiased")
    expected = float((W * np.exp(-sigma * D)).sum())
    tolerance = 0.02 if solver == "lowrank" else 1e-5
    np.testing.assert_allclose(float(result["round_hsic"][0]), expected, rtol=tolerance)


# Selection -------------------------------------------------------------------------------------


@pytest.mark.slow
@CODES
def test_all_planted_features_are_found_with_balance():
    *several, y = matrices((200, 2200, 30), seed=1)
    data = dict(zip(PLANTED, several, strict=True))
    result = dhsic.select(data, y, balance=True, **QUICK)
    assert max(ranks(result).values()) <= 10
    shares = json.loads(result.attrs["block_share"])
    np.testing.assert_allclose([*shares.values()], 1 / 3)
    told = " ".join(order_of(result))
    assert "Balance: each of the 3 matrices has the same share" in told
    for block, name in PLANTED.items():
        assert f"{block}: {name} (rank {ranks(result)[block]})" in told
    plain = dhsic.select(data, y, **QUICK)
    told = " ".join(order_of(plain))
    share = json.loads(plain.attrs["block_share"])["meth"]
    assert share > 0.8
    assert f"meth dominates the kernel: its 2,200 features have {share:.1%}" in told


@CODES
def test_ranks_in_blocks_and_tables(tmp_path):
    result = dhsic.select(DATA, Y, **QUICK)
    for block in PLANTED:
        here = result["block"].to_numpy() == block
        within = pd.Series(result["rank"].to_numpy()[here]).rank().astype(int)
        np.testing.assert_array_equal(result["rank_in_block"].to_numpy()[here], within)
    dhsic.save(result, tmp_path / "out.tsv")
    table = pd.read_csv(tmp_path / "out.tsv", sep="\t")
    assert {"block", "rank_in_block"} <= {*table.columns}
    assert {*table.loc[table["rank_in_block"] == 1, "name"]} == {*PLANTED.values()}


def test_order_of_files_threads_and_resumed_runs_are_equal(tmp_path, client):
    paths = write(tmp_path)
    options = QUICK | {"balance": True}
    y = Y.rename_axis("sample").reset_index()  # matched by name
    first = dhsic.select(paths, y, n_jobs=1, **options)
    assert_same(first, dhsic.select(paths[::-1], y, n_jobs=3, **options))
    assert_same(first, dhsic.select(paths, y, runtime=DaskRuntime(client), **options))

    class StoppedError(Exception):
        pass

    def stop(record):
        if record["round"] == 3:
            raise StoppedError

    checkpoint = str(tmp_path / "run")
    with pytest.raises(StoppedError):
        dhsic.select(paths, y, checkpoint=checkpoint, **options | {"progress": stop})
    assert_same(first, dhsic.select(paths, y, checkpoint=checkpoint, **options))


@CODES
def test_single_features_are_tested(tmp_path):
    result = dhsic.select(DATA, Y, **QUICK | {"method": "hsic"} | {"interactions": None})
    alone = dhsic.select(RNA, Y, n_features_to_select=10, method="hsic", progress=False)
    here = result["block"].to_numpy() == "rna"
    np.testing.assert_allclose(result["p"].to_numpy()[here], alone["p"].to_numpy(), rtol=1e-4)
    assert "block_share" not in result.attrs
    assert result["rank_in_block"].to_numpy()[here].min() == 1


def test_balance_is_refused_where_it_has_no_meaning():
    with pytest.raises(InputError, match=r"features of X are one matrix\. Pass several matrices"):
        dhsic.select(RNA, Y, balance=True, **QUICK)
    with pytest.raises(InputError, match="balance=True needs the joint re-ranking"):
        dhsic.select({"a": RNA, "b": METH}, Y, balance=True, rerank=False, **QUICK)
    two = {"a": RNA.iloc[:, :8], "b": METH.iloc[:, :20]}  # as the messages advise
    for options in ({"balance": True}, {"rerank": False}):
        assert dhsic.select(two, Y, **QUICK | options).attrs["n_selected"] == 10


def test_command_line(tmp_path):
    paths = write(tmp_path)
    labels = ("--labels", tmp_path / "y.csv", "--target", "y", "--no-progress")
    out = tmp_path / "out.csv"
    run("select", *paths, *labels, "-n", 10, "--balance", "--out", out)
    table = pd.read_csv(out)
    assert {*table["name"][:10]} >= {*PLANTED.values()}
    run("test", *paths, *labels, "--out", tmp_path / "p.csv")
    assert {*pd.read_csv(tmp_path / "p.csv")["block"]} == {*PLANTED}


def test_checkpoints_without_balance_have_the_former_identity():
    assert "balance" not in dhsic.BAHSIC().identity()
    assert dhsic.BAHSIC(balance=True).identity()["balance"] is True
    assert Reader(dhsic.open_source(RNA), Threads(1)).block_scaling is None
