"""Groups of features as candidates, against Algorithms 1 and 2 over groups in plain loops."""

import naive
import naive_kernels
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import labels, matrices
from thorough import examples

import dhsic
from dhsic.cli import main
from dhsic.errors import InputError
from dhsic.passes import candidates
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

#: Kernels, and their definitions where tests/naive.py has them by no name.
ALL = {name: name for name in ("gaussian", "polynomial", "linear")} | {
    "laplace": naive_kernels.laplace,
    "laplace-l1": naive_kernels.laplace_l1,
    "rational": naive_kernels.rational,
}


@given(data=st.data())
@examples(30)
def test_order_is_that_of_the_definition(data):
    X = data.draw(matrices(samples=(6, 11), features=(3, 8)))
    y, label_kernel = data.draw(labels(len(X)))
    d = X.shape[1]
    groups = data.draw(
        st.lists(st.integers(0, 3), min_size=d, max_size=d).filter(lambda g: len(set(g)) > 1)
    )
    kernel = data.draw(st.sampled_from(list(ALL)))
    forward = data.draw(st.booleans())
    n = data.draw(st.integers(1, len(set(groups))))
    L = naive.label_gram(y.tolist(), label_kernel)
    first = list(dict.fromkeys(groups))  # ties go by the first feature
    names = [first.index(g) for g in groups]
    Z = naive.scaled(X.tolist())
    # Biased: of lone carriers the unbiased estimate is 0 but for rounding, in whatever order.
    expected = naive.grouped(Z, L, names, forward, n, ALL[kernel], "biased")

    options = {"kernel": kernel, "label_kernel": label_kernel, "step": 1, "progress": False}
    options["statistic"] = "biased"
    selector = dhsic.FOHSIC if forward else dhsic.BAHSIC
    result = selector(n, **options).fit(X, y, feature_groups=groups).result_

    ranks = result["group_rank"].to_numpy()
    order = sorted(set(names), key=lambda g: ranks[names.index(g)])
    assert order == (expected if forward else expected[::-1])
    assert result["selected"].to_numpy().sum() == sum(g in order[:n] for g in names)
    assert sorted(result["rank"].to_numpy()) == list(range(1, d + 1))


@pytest.mark.parametrize("forward", [True, False])
def test_order_of_groups_of_categories(rng, forward):
    X = rng.integers(0, 3, (16, 7)).astype(float)
    y = (X[:, 2] + X[:, 5] > 1).astype(int)
    groups = [2, 0, 1, 2, 0, 1, 3]
    L = naive.label_gram(y.tolist(), "balanced")
    Z = naive.scaled(X.tolist())
    first = list(dict.fromkeys(groups))  # ties go by the first feature
    names = [first.index(g) for g in groups]
    expected = naive.grouped(Z, L, names, forward, 2, naive_kernels.delta)

    selector = dhsic.FOHSIC if forward else dhsic.BAHSIC
    model = selector(2, kernel="delta", step=1, progress=False).fit(X, y, feature_groups=groups)

    ranks = model.result_["group_rank"].to_numpy()
    order = sorted(set(names), key=lambda g: ranks[names.index(g)])
    assert order == (expected if forward else expected[::-1])


def wide(rng, m=50, d=60):
    X = rng.standard_normal((m, d))
    X[:, 1::4] = rng.integers(0, 3, (m, len(range(1, d, 4))))
    y = (X[:, 8] + X[:, 9] + X[:, 10] > 0).astype(int)
    return X, y, np.array([f"gene{j // 4:02d}" for j in range(d)])


def _write_names(root, name, values):
    array = root.create_array(name, shape=values.shape, dtype=str, dimension_names=("features",))
    array[...] = values.astype(object)


@pytest.mark.parametrize("selector", [dhsic.BAHSIC, dhsic.FOHSIC])
def test_same_bits_wherever_and_however_cut(rng, client, tmp_path, monkeypatch, selector):
    X, y, groups = wide(rng)
    shuffled = groups[rng.permutation(60)]

    def stop(record):
        if record["round"] == 3:
            raise KeyboardInterrupt

    def fit(**options):
        return selector(4, **{"progress": False} | options).fit(X, y, feature_groups=shuffled)

    one, dask = fit(runtime=Threads(1)), fit(runtime=DaskRuntime(client))
    with pytest.raises(KeyboardInterrupt):
        fit(progress=stop, checkpoint=tmp_path / "run")
    resumed = fit(checkpoint=tmp_path / "run")
    monkeypatch.setattr(candidates, "JOB_FEATURES", 5)
    monkeypatch.setattr(candidates, "OPEN_GROUPS", 1)
    cut = fit(runtime=Threads(3))
    for other in (dask, resumed, cut):
        assert_array_equal(one.ranking_, other.ranking_)
        assert_allclose(one.scores_, other.scores_, rtol=1e-12)
    assert_array_equal(one.scores_, resumed.scores_)


def test_a_gene_is_found_by_name_in_the_store(rng, tmp_path):
    X, y, groups = wide(rng)
    X[:, 5] = 3.0
    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    root.create_array("x", data=X, dimension_names=("samples", "features"))
    _write_names(root, "gene", groups)
    result = dhsic.select(
        str(tmp_path / "x.zarr"),
        y,
        variable="x",
        feature_groups="gene",
        n_features_to_select=1,
        progress=False,
    )
    chosen = dhsic.selected_features(result)
    assert set(chosen["group"].to_numpy()) == {"gene02"}
    assert chosen.sizes["features"] == 4
    assert result["group_rank"].to_numpy()[5] == 0
    assert result["rank"].to_numpy()[5] == 60
    dhsic.save(result, tmp_path / "out.zarr")
    assert_array_equal(dhsic.load(tmp_path / "out.zarr")["group"], result["group"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda g: g[:-1], "feature_groups have shape"),
        (lambda g: np.full(60, "one"), "in one group"),
        (lambda g: np.where(np.arange(60) == 7, "", g), "1 features have no group"),
        (
            lambda g: "gene",
            "feature_groups='gene' is the name of a variable, but ndarray has no variables",
        ),
    ],
)
def test_groups_that_are_none_get_a_sentence(rng, make, words):
    X, y, groups = wide(rng)
    with pytest.raises(InputError, match=words):
        dhsic.BAHSIC(2, progress=False).fit(X, y, feature_groups=make(groups))


def test_a_name_that_no_variable_has_is_told_with_those_there_are(rng, tmp_path):
    X, y, groups = wide(rng)
    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    root.create_array("x", data=X, dimension_names=("samples", "features"))
    _write_names(root, "gene", groups)
    with pytest.raises(
        InputError,
        match=r"no variable 'genes' with .* the 60 features; such variables are g",
    ):
        dhsic.BAHSIC(2).fit(str(tmp_path / "x.zarr"), y, variable="x", feature_groups="genes")


def test_methods_that_take_no_groups_say_so(rng):
    X, y, groups = wide(rng)
    for model in (dhsic.LinearHSIC(2), dhsic.SVMRFE(2)):
        with pytest.raises(InputError, match="does not support feature_groups"):
            model.fit(X, y, feature_groups=groups)
    with pytest.raises(InputError, match="scores single features"):
        dhsic.BAHSIC(2, solver="lowrank").fit(X, y, feature_groups=groups)
    with pytest.raises(InputError, match="removes single features"):
        dhsic.FOHSIC(2, strategy="floating").fit(X, y, feature_groups=groups)


def test_stability_counts_groups(rng):
    X, y, groups = wide(rng)
    model = dhsic.BAHSIC(1, stability=3, progress=False).fit(X, y, feature_groups=groups)
    assert (model.stability_[8:12] == model.stability_[8]).all()
    assert model.stability_.sum() == pytest.approx(4)


def test_command_line(rng, tmp_path):
    X, y, groups = wide(rng)
    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    root.create_array("x", data=X, dimension_names=("samples", "features"))
    _write_names(root, "gene", groups)
    root.create_array("y", data=y, dimension_names=("samples",))
    options = ["--target", "y", "--variable", "x", "-n", "1", "--groups", "gene"]
    outcome = CliRunner().invoke(main, ["select", str(tmp_path / "x.zarr"), *options])
    assert outcome.exit_code == 0, outcome.output
    assert [line.split() for line in outcome.stdout.splitlines()][1][:3] == ["1", "gene02", "4"]
