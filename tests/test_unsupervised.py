"""Unsupervised selection: the data are used as labels labels."""

import naive
import naive_kernels
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import matrices
from test_groups import ALL
from thorough import examples

import dhsic
from dhsic.cli import main
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads


@given(data=st.data())
@examples(12)
def test_ranking_is_that_of_the_definition(data):
    X = data.draw(matrices(samples=(6, 11), features=(2, 7)))
    kernel = data.draw(st.sampled_from(list(ALL)))
    statistic = data.draw(st.sampled_from(["unbiased", "biased"]))
    forward = data.draw(st.booleans())
    d = X.shape[1]
    Z = naive.scaled(X.tolist())
    L = naive.gram(Z, ALL[kernel], 1 / (2 * d))
    assume(np.abs(weights(np.array(L), statistic)).max() > 1e-6)  # lone carriers leave nothing
    options = {"kernel": kernel, "statistic": statistic, "step": 1}
    if forward:
        expected = naive.fohsic(Z, L, d, ALL[kernel], None, statistic)
    else:
        expected = naive.bahsic(Z, L, ALL[kernel], "dimension", statistic, 1)[::-1]

    selector = dhsic.FOHSIC if forward else dhsic.BAHSIC
    model = selector(d, label_kernel="self", progress=False, **options).fit(X)

    assert np.argsort(model.ranking_).tolist() == expected


@pytest.mark.parametrize("selector", [dhsic.BAHSIC, dhsic.FOHSIC])
def test_categories_are_their_own_labels(rng, selector):
    X = rng.integers(0, 3, (15, 5)).astype(float)
    X[:, 3] = X[:, 1]
    Z = naive.scaled(X.tolist())
    L = naive.gram(Z, naive_kernels.delta, 1.0)
    W = weights(np.array(L), "unbiased")
    alone = [
        np.vdot(W, naive.gram(naive.columns(Z, [j]), naive_kernels.delta, 1.0)) for j in range(5)
    ]

    model = selector(2, kernel="delta", label_kernel="self", step=1, progress=False).fit(X)

    assert_allclose(model.scores_, alone, rtol=1e-9)


def redundant(rng, m=80):
    """Three features that many others repeat, and noise of their own."""
    source = rng.standard_normal((m, 3))
    copies = source[:, rng.integers(0, 3, 12)] + 0.2 * rng.standard_normal((m, 12))
    return np.column_stack([copies, rng.standard_normal((m, 15))])


@pytest.mark.parametrize("selector", [dhsic.BAHSIC, dhsic.FOHSIC])
def test_same_bits_wherever(rng, client, tmp_path, selector):
    X = redundant(rng)

    def stop(record):
        if record["round"] == 2:
            raise KeyboardInterrupt

    def fit(**options):
        return selector(4, label_kernel="self", **{"progress": False} | options).fit(X)

    one, dask = fit(runtime=Threads(1)), fit(runtime=DaskRuntime(client))
    with pytest.raises(KeyboardInterrupt):
        fit(progress=stop, checkpoint=tmp_path / "run")
    for other in (dask, fit(checkpoint=tmp_path / "run")):
        assert_array_equal(one.ranking_, other.ranking_)
        assert_array_equal(one.scores_, other.scores_)
    assert (one.get_support(indices=True) < 12).all()
    assert one.result_.attrs["label_kernel_used"] == "self"


def test_covariates_and_wide_data(rng):
    """What a covariate explains of the data is no reason to select a feature."""
    X = redundant(rng)
    age = rng.standard_normal(80)
    X[:, 12:] += 3 * age[:, None]
    plain = dhsic.BAHSIC(5, kernel="linear", label_kernel="self", progress=False).fit(X)
    adjusted = dhsic.BAHSIC(5, kernel="linear", label_kernel="self", progress=False)
    adjusted.fit(X, covariates=age)
    assert (plain.get_support(indices=True) >= 12).all()
    assert (adjusted.get_support(indices=True) < 12).sum() > 2


def test_what_cannot_be_gets_a_sentence(rng):
    X = redundant(rng)
    with pytest.raises(InputError, match="requires y to be passed"):
        dhsic.BAHSIC(3).fit(X)
    with pytest.raises(InputError, match="requires y to be passed"):
        dhsic.SVMRFE(3).fit(X)
    with pytest.raises(InputError, match="label matrix of low rank"):
        dhsic.BAHSIC(3, label_kernel="self", solver="lowrank").fit(X)
    with pytest.raises(InputError, match="depend on the bandwidth"):
        dhsic.BAHSIC(3, label_kernel="self", bandwidth=[0.1, 1.0]).fit(X)
    with pytest.raises(InputError, match="uses the data as labels"):
        dhsic.hsic(X, X[:, 0], label_kernel="self")


def test_command_line(tmp_path):
    run, path = CliRunner().invoke, str(tmp_path / "g.vcz")
    run(main, ["simulate", path, "--samples", "60", "--variants", "200"])
    outcome = run(main, ["select", path, "--label-kernel", "self", "-n", "3"])
    assert outcome.exit_code == 0, outcome.output
    assert "the data are used as labels" in outcome.stderr
    missing = run(main, ["select", path, "-n", "3"])
    assert missing.exit_code == 2
    assert "Missing option '--target'" in missing.stderr
    both = run(main, ["select", path, "--label-kernel", "self", "--target", "sample_trait"])
    assert both.exit_code == 2
