"""Imputed dosages are tested like the genotypes they are close to."""

import numpy as np
import pandas as pd
import pytest

import dhsic
from dhsic.sources.imputed import rounded_dosages

M = 200


@pytest.fixture
def calls():
    """Genotypes (m, d); the second has a recessive effect on the labels."""
    return np.random.default_rng(0).binomial(2, 0.4, (M, 4)).astype(np.int8)


@pytest.fixture
def labels(calls):
    return (calls[:, 1] == 2) * 1.5 + np.random.default_rng(1).standard_normal(M)


def noisy(calls, size):
    noise = np.random.default_rng(2).uniform(-size, size, calls.shape)
    return np.round(np.clip(calls + noise, 0, 2), 4)


def write_vcf(path, dosages, missing=()):
    """Write dosages (m, d) as the field DS of a VCF; `missing` are pairs of sample and variant."""
    m, d = dosages.shape
    names = "\t".join(f"s{i}" for i in range(m))
    lines = [
        "##fileformat=VCFv4.2",
        "##contig=<ID=1>",
        '##FORMAT=<ID=DS,Number=A,Type=Float,Description="Dosage">',
        f"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t{names}",
    ]
    for j in range(d):
        values = ["." if (i, j) in missing else f"{dosages[i, j]:g}" for i in range(m)]
        lines.append("\t".join(["1", str(j + 1), f"v{j}", "A", "G", ".", ".", ".", "DS", *values]))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_dosages_have_the_p_values_of_the_genotypes(tmp_path, calls, labels):
    path = write_vcf(tmp_path / "x.vcf", noisy(calls, 0.12))
    found, expected = dhsic.test_features(path, labels), dhsic.test_features(calls, labels)
    np.testing.assert_allclose(found.p_values, expected.p_values, rtol=1e-4)
    assert found.p_values[1] == min(found.p_values) < 1e-8


def test_missing_dosages_are_left_out(tmp_path, calls, labels):
    missing = {(i, 1) for i in range(0, M, 9)}
    path = write_vcf(tmp_path / "x.vcf", noisy(calls, 0.12), missing)
    coded = calls.copy()
    coded[::9, 1] = -1
    expected = dhsic.test_features(coded, labels, missing_code=-1)
    np.testing.assert_allclose(
        dhsic.test_features(path, labels).p_values, expected.p_values, rtol=1e-4
    )


def test_all_genotypes_uncertain_keep_the_order_of_the_dosages(tmp_path, calls, labels):
    low = np.round(calls * 0.05, 4)  # all dosages are rounded to 0
    path = write_vcf(tmp_path / "x.vcf", low)
    expected = dhsic.test_features(low, labels)
    np.testing.assert_allclose(
        dhsic.test_features(path, labels).p_values, expected.p_values, rtol=1e-4
    )


def test_dosages_beside_calls_and_expression_are_tested_as_alone(tmp_path, calls, labels):
    """Files are joined into blocks that contain dosages, calls, or numbers."""
    dosages = noisy(calls, 0.12)
    vcf = write_vcf(tmp_path / "2.vcf", dosages)
    names = [f"s{i}" for i in range(M)]
    expression = labels[:, None] * [0.3, 0.0] + np.random.default_rng(3).standard_normal((M, 2))
    others = {"1.csv": (expression, "g"), "3.csv": (dosages, "f")}
    for file, (X, letter) in others.items():
        columns = [f"{letter}{j}" for j in range(X.shape[1])]
        pd.DataFrame(X, index=names, columns=columns).rename_axis("id").to_csv(tmp_path / file)
    files = [tmp_path / "1.csv", vcf, tmp_path / "3.csv"]
    joint = dhsic.test_features(files, labels)
    alone = [dhsic.test_features(file, labels).p_values for file in files]
    np.testing.assert_array_equal(joint.p_values, np.concatenate(alone))


@pytest.mark.parametrize("effect", ["recessive", "heterozygous"])
def test_the_shape_of_an_effect_is_that_of_the_genotypes(tmp_path, calls, effect):
    genotypes = calls[:, 1]
    y = (genotypes == (2 if effect == "recessive" else 1)) * 2.0
    y += np.random.default_rng(1).standard_normal(M)
    path = write_vcf(tmp_path / "x.vcf", noisy(calls, 0.12))
    found, expected = dhsic.test_features(path, y), dhsic.test_features(calls, y)
    assert found.shapes[1] == expected.shapes[1] != "linear"


def test_a_selection_tests_dosages_like_the_marginal_test(tmp_path, calls, labels):
    path = write_vcf(tmp_path / "x.vcf", noisy(calls, 0.12))
    selected = dhsic.select(path, labels, n_features_to_select=2, progress=False)
    found = dhsic.test_features(path, labels)
    np.testing.assert_array_equal(selected["p_marginal"], found.p_values)


def test_label_matrices_are_tested_with_the_rounded_dosages(tmp_path, calls):
    """Labels of many directions are tested at one width, by sums over few values."""
    y = (calls[:, 1] == 2) + 0.5 * np.random.default_rng(4).standard_normal(M)
    L = np.exp(-2.0 * np.subtract.outer(y, y) ** 2)
    dosages = np.where(np.arange(M)[:, None] % 3 == 0, np.abs(calls - 0.1), calls)
    missing = {(i, j) for i in range(0, M, 9) for j in range(4)}
    path = write_vcf(tmp_path / "x.vcf", dosages, missing)
    coded = calls.astype(float)
    coded[::9] = np.nan
    found = dhsic.test_features(path, L, label_kernel="precomputed")
    expected = dhsic.test_features(coded, L, label_kernel="precomputed")
    assert found.p_values[1] == min(found.p_values) < 1e-6
    np.testing.assert_allclose(found.p_values, expected.p_values, rtol=1e-4)


def test_dosages_are_rounded_to_quarters_and_centred():
    raw = np.array([[0.02, 0.3, 1.9, np.nan]], dtype=np.float32)
    X = rounded_dosages(raw)
    np.testing.assert_allclose(X, [[-0.75, -0.5, 1.25, 0.0]])
