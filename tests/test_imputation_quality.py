"""Filter by imputation quality: variance of dosages over that of genotypes (MaCH's R2)."""

import shutil
import subprocess

import numpy as np
import pytest
from test_bgen import write_bgen

import dhsic
from dhsic.errors import InputError
from dhsic.passes.call_counts import counting_on
from dhsic.runtime.threads import Threads

M, D = 60, 40
RNG = np.random.default_rng(8)
SHARPNESS = np.linspace(0.2, 6, D)[:, None]
P = np.swapaxes(np.stack([RNG.dirichlet(np.array([2, 1.5, 1]) / s, M) for s in SHARPNESS]), 0, 1)
P[RNG.random((M, D)) < 0.05] = np.nan
P[:, 3] = 1, 0, 0


def naive(dosages):
    """Variance of the dosages that are there over 2p(1-p); 0 if it is undefined."""
    out = []
    for column in dosages.T:
        x = column[~np.isnan(column)].astype(float)
        p = x.mean() / 2
        out.append(x.var() / (2 * p * (1 - p)) if 0 < p < 1 else 0.0)
    return np.array(out)


def left(path, rows=None, variable=None, **filters):
    source = dhsic.open_source(path, variable=variable)
    keep = None if rows is None else np.isin(np.arange(source.n_samples), rows)
    found = dhsic.Filters(keep=keep, **filters).of(path, source, counting_on(Threads))
    features = np.arange(source.n_features) if found.features is None else found.features
    return features.tolist(), found.left_out


@pytest.mark.parametrize("rows", [None, range(0, M, 2)])
def test_it_is_the_ratio_of_variances(rows, tmp_path):
    path = write_bgen(tmp_path / "x.bgen", P, bits=16)
    source = dhsic.open_source(path)
    X = np.hstack([source.read(block) for block in source.blocks(7)])
    quality = naive(X if rows is None else X[list(rows)])
    assert 0 < quality[4:].min() < 0.4 < 0.8 < quality.max()
    for least in (0.4, 0.8):
        features, left_out = left(path, rows, min_info=least)
        assert features == np.flatnonzero(quality >= least).tolist()
        assert left_out["min_info"] == D - len(features)
        assert 3 not in features


def test_plink_computes_the_same(tmp_path):
    if (plink := shutil.which("plink2")) is None:
        pytest.skip("plink2 is not installed")
    path = write_bgen(tmp_path / "x.bgen", P, bits=16)
    data = (plink, "--bgen", path, "ref-first", "--out", tmp_path / "out", "--threads", "1")
    filters = ("--mach-r2-filter", "0.6", "2", "--write-snplist")
    subprocess.run([*map(str, (*data, *filters))], check=True, capture_output=True)
    names = (tmp_path / "out.snplist").read_text().split()
    names.remove("rs3")  # constant: plink2 keeps it, because its quality is undefined
    assert [f"rs{j}" for j in left(path, min_info=0.6)[0]] == names


def test_on_x_it_is_that_of_females(tmp_path):
    sex = 1 + np.arange(M) % 2
    calls = RNG.choice(3, (M, D), p=(0.3, 0.4, 0.3))
    calls[sex == 1] = np.where(calls[sex == 1] == 1, 2, calls[sex == 1])
    some = 0.97 * np.eye(3)[calls] + 0.01
    path = write_bgen(tmp_path / "x.bgen", some, bits=16, contig="X")
    rows = "".join(f"s{i} s{i} 0 {code}\n" for i, code in enumerate(sex))
    (tmp_path / "x.sample").write_text("ID_1 ID_2 missing sex\n0 0 0 D\n" + rows)
    dosages = some[..., 1] + 2 * some[..., 2]
    expected = np.flatnonzero(naive(dosages[sex == 2]) >= 1)
    assert left(path, min_info=1)[0] == expected.tolist()
    assert (naive(dosages) >= 1).sum() > expected.size


def test_dosages_beside_calls_are_filtered_as_advised(tmp_path):
    pytest.importorskip("cyvcf2")
    from test_vcf import row, write_vcf

    calls = np.arange(M) % 3
    texts = [[f"0/{min(k, 1)}:{0.5 * k + 0.1 * j}" for k in calls] for j in range(4)]
    rows = [row(*each, j=j, kind="GT:DS") for j, each in enumerate(texts)]
    path = write_vcf(tmp_path / "x.vcf", rows, m=M)
    with pytest.raises(InputError, match=r"open the dosages of the data \(variable=\)"):
        left(path, min_info=0.1)
    assert left(path, variable="DS", min_info=0.1)[0] == [0, 1, 2, 3]


def test_whole_calls_and_other_numbers_are_refused():
    calls = RNG.choice(3, (M, D)).astype("i1")
    with pytest.raises(InputError, match=r"min_info=0\.3 filters imputed dosages .* \(int8\)"):
        dhsic.select(calls, calls[:, 1], filters=dhsic.Filters(min_info=0.3))
    X = RNG.normal(size=(M, D))
    with pytest.raises(InputError, match="not allele counts"):
        dhsic.select(X, X[:, 1], filters=dhsic.Filters(min_info=0.3))
    with pytest.raises(InputError, match="min_info=2 is out of range"):
        dhsic.select(X, X[:, 1], filters=dhsic.Filters(min_info=2))
