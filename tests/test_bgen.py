"""BGEN: dosages of the package bgen, of .bed where all are whole; files that are damaged."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from commands import run
from stores import write_plink
from suites.source import Case, SourceSuite, whole

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.runtime.dask import DaskRuntime

M, D = 30, 21
RNG = np.random.default_rng(3)
CALLS = RNG.choice(np.array([0, 0, 1, 1, 2, -1], "i1"), (M, D))
CALLS[:, 6] = np.arange(M) % 3
CALLS[0, 0] = 0
Y = (np.arange(M) % 3 == 1).astype(int)
FRACTIONS = RNG.dirichlet((1, 1, 1), (M, D))
FRACTIONS[CALLS == -1] = np.nan


def of_calls(X):
    """Probabilities (m, d, 3) of calls; NaN where missing."""
    return np.where(X[..., None] == -1, np.nan, np.eye(3)[X])


def write_bgen(path, P, *, phased=False, index=True, ids=True, contig="1", ploidy=2, **options):
    """Write probabilities (m, d, k) as BGEN, with an index."""
    bgen = pytest.importorskip("bgen")
    m, bits = len(P), options.pop("bits", 8)
    names = [f"s{i}" for i in range(m)] if ids else None
    with bgen.BgenWriter(path, m, samples=names, **options) as out:
        for j in range(P.shape[1]):
            place = (f"v{j}", f"rs{j}", contig, 10 * j + 5, ["A", "G"])
            out.add_variant(*place, P[:, j], ploidy=ploidy, phased=phased, bit_depth=bits)
    if not index:
        path.with_name(path.name + ".bgi").unlink()
    return path


def by_package(path):
    """Dosages (m, d) of the second allele as the package bgen reads them."""
    with pytest.importorskip("bgen").BgenReader(path, delay_parsing=True) as file:
        return np.column_stack([variant.alt_dosage for variant in file])


def haplotypes(P):
    """Probabilities of the alleles of two haplotypes, (m, d, 4), with the same dosages."""
    share = (2 * P[..., 0] + P[..., 1]) / 2
    return np.stack([share, 1 - share, share, 1 - share], axis=-1)


def ranking(data, **options):
    found = dhsic.select(data, Y, n_features_to_select=3, progress=False, **options)
    return found["rank"].to_numpy().tolist(), found["score"].to_numpy().tolist()


class TestBgen(SourceSuite):
    @pytest.fixture(scope="class", params=[True, False])
    @classmethod
    def case(cls, request, tmp_path_factory):
        folder = tmp_path_factory.mktemp("case")

        def opened(P):
            path = folder / f"x{P[0, 0, 0]}.bgen"
            return dhsic.open_source(write_bgen(path, P, index=request.param, bits=16))

        source, other = opened(FRACTIONS), FRACTIONS.copy()
        other[0, 0] = 1, 0, 0
        expected = whole(source)
        np.testing.assert_allclose(expected, by_package(source.file.path), atol=1e-6)
        return Case(source, expected, lambda: opened(FRACTIONS), lambda: opened(other))


@pytest.mark.parametrize("compression", [None, "zlib", "zstd"])
@pytest.mark.parametrize(
    ("bits", "phased"), [(8, False), (8, True), (3, False), (16, True), (21, False), (32, False)]
)
def test_dosages_are_those_of_the_package(compression, bits, phased, tmp_path):
    P = haplotypes(FRACTIONS) if phased else FRACTIONS
    path = write_bgen(tmp_path / "x.bgen", P, phased=phased, bits=bits, compression=compression)
    source = dhsic.open_source(path)
    got = whole(source)
    np.testing.assert_allclose(got, by_package(path), atol=1e-6)
    dosages = FRACTIONS[..., 1] + 2 * FRACTIONS[..., 2]
    np.testing.assert_allclose(got, dosages, atol=2.5 / (2**bits - 1))
    assert (source.dtype, source.ploidy, source.client_bytes) == (np.float32, 2, 0)


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_version_1_1(compression, tmp_path):
    path = write_bgen(
        tmp_path / "x.bgen", np.nan_to_num(FRACTIONS), layout=1, ids=False, compression=compression
    )
    expected = FRACTIONS[..., 1] + 2 * FRACTIONS[..., 2]
    np.testing.assert_allclose(whole(dhsic.open_source(path)), expected, atol=1e-4)
    exact = write_bgen(
        tmp_path / "y.bgen", np.nan_to_num(of_calls(CALLS)), layout=1, compression=compression
    )
    np.testing.assert_array_equal(
        whole(dhsic.open_source(exact)), np.where(CALLS == -1, np.nan, CALLS)
    )


@pytest.mark.parametrize("bits", [1, 8, 11, 16, 32])
@pytest.mark.parametrize("phased", [False, True])
def test_whole_dosages_rank_as_calls(bits, phased, tmp_path, client):
    P = of_calls(np.where(CALLS == 1, 2, CALLS) if phased else CALLS)
    calls = np.where(CALLS == 1, 2, CALLS) if phased else CALLS
    if phased:
        P = haplotypes(P)
    path = write_bgen(tmp_path / "x.bgen", P, phased=phased, bits=bits, index=False)
    expected = ranking(write_plink(tmp_path / "x", calls))
    assert ranking(path) == expected
    if bits == 8:
        assert ranking(path, runtime=DaskRuntime(client)) == expected
        dhsic.convert(path, tmp_path / "out.zarr")
        assert ranking(tmp_path / "out.zarr") == expected


def test_haploid_calls_of_males_are_scaled(tmp_path):
    ploidy = np.where(np.arange(M) % 2, 1, 2)
    P = of_calls(np.where((CALLS == 1) & (ploidy[:, None] == 1), 0, CALLS))
    males = ploidy == 1
    P[males] = np.where(np.isnan(P[males][..., :1]), np.nan, P[males][..., [0, 2, 1]])
    P[males, :, 2] = np.nan
    path = write_bgen(tmp_path / "x.bgen", P, ploidy=ploidy, contig="X", index=False)
    expected = np.where(CALLS == -1, np.nan, CALLS.astype(float))
    expected[males] = np.where(expected[males] == 1, 0, expected[males])
    source = dhsic.open_source(path)
    np.testing.assert_array_equal(whole(source), expected)
    assert source.sex_linked_features().size == D
    with pytest.raises(
        DataError, match=r"Variant 0 of .* has haploid calls\. Pass ploidy_policy='scale'"
    ):
        whole(dhsic.open_source(path, ploidy_policy="error"))
    with pytest.raises(InputError, match="Leave out ploidy_policy="):
        dhsic.open_source(path, ploidy_policy="count")


def test_all_alternative_alleles_count_together(tmp_path):
    bgen = pytest.importorskip("bgen")
    P = RNG.dirichlet(np.ones(6), M)
    with bgen.BgenWriter(tmp_path / "x.bgen", M) as out:
        out.add_variant("", "", "3", 7, ["A", "C", "G"], P, bit_depth=16)
        out.add_variant("", ".", "3", 7, ["A", "T"], FRACTIONS[:, 0], bit_depth=16)
        out.add_variant("v", "", "3", 9, ["A" * 2000, "T"], FRACTIONS[:, 0], bit_depth=16)
    source = dhsic.open_source(tmp_path / "x.bgen")
    copies = np.array([0, 1, 2, 1, 2, 2])  # AA AC CC AG CG GG
    np.testing.assert_allclose(whole(source)[:, 0], P @ copies, atol=1e-4)
    assert source.feature_names().tolist() == ["3:7:A:C,G", "3:7:A:T", "v"]
    assert source.sample_names() is None or len(source.sample_names()) == M


def test_variables_are_dosages_alone(tmp_path):
    path = write_bgen(tmp_path / "x.bgen", FRACTIONS)
    with pytest.raises(InputError, match=r"no variable 'GT'\. Leave out variable="):
        dhsic.open_source(path, variable="GT")
    assert dhsic.open_source(path, variable="dosages").n_features == D
    source = dhsic.open_source(write_bgen(tmp_path / "y.bgen", np.eye(4)[np.abs(CALLS)], ploidy=3))
    with pytest.raises(
        InputError, match="has calls with 3 alleles, but dhsic reads only calls with 1 or 2"
    ):
        whole(source)


def test_names_and_samples(tmp_path):
    path = write_bgen(tmp_path / "x.bgen", of_calls(CALLS))
    source = dhsic.open_source(path)
    assert source.feature_names()[:2].tolist() == ["rs0", "rs1"]
    assert source.sample_names()[:2].tolist() == ["s0", "s1"]
    assert {name: values[1] for name, values in source.feature_coords().items()} == {
        "variant_contig": "1",
        "variant_position": 15,
        "variant_id": "rs1",
        "variant_ref": "A",
        "variant_alt": "G",
    }
    rows = [f"f{i} t{i} 0 {1 + i % 2}\n" for i in range(M)]
    samples = tmp_path / "x.sample"
    samples.write_text("ID_1 ID_2 missing sex\n0 0 0 D\n" + "".join(rows))
    source = dhsic.open_source(path)
    assert source.sample_names()[:2].tolist() == ["t0", "t1"]
    samples.write_text("ID_1 ID_2 missing sex\n0 0 0 D\n" + "".join(rows[1:]))
    with pytest.raises(DataError, match="does not describe the 30 samples"):
        dhsic.open_source(path)
    samples.write_text("".join(rows))
    with pytest.raises(DataError, match="needs a header"):
        dhsic.open_source(path)


@pytest.mark.parametrize("names", ["f{0} s{0}", "s{0} f{0}", "s{0} s{0}"])
def test_samples_in_another_order_than_in_the_file_are_refused(names, tmp_path):
    path = write_bgen(tmp_path / "x.bgen", of_calls(CALLS))
    rows = [f"{names.format(i)} 0\r\n" for i in range(M)]
    samples = tmp_path / "x.sample"
    samples.write_text("ID_1 ID_2 missing\n0 0 0\n" + "".join(rows))
    assert dhsic.open_source(path).sample_names()[1] == names.split()[1].format(1)
    samples.write_text("ID_1 ID_2 missing\n0 0 0\n" + "".join(rows[1:] + rows[:1]))
    with pytest.raises(DataError, match=r"another order: sample 1 is s1 there, but s0 in the BGEN"):
        dhsic.open_source(path)
    samples.unlink()
    assert dhsic.open_source(path).sample_names()[0] == "s0"


@pytest.mark.parametrize(
    ("header", "types", "row"),
    [
        ("ID missing sex y", "0 0 D P", "s{0} 0 1 {1}"),
        ("ID y", "0 P", "s{0} {1}"),
        ("ID_1", "0", "s{0}"),
        ("ID_1 missing", "0 0", "s{0} 0"),
        ("ID_1 ID_2", "0 0", "f{0} s{0}"),
    ],
)
@pytest.mark.parametrize("ids", [True, False])
def test_samples_with_one_column_of_ids(header, types, row, ids, tmp_path):
    path = write_bgen(tmp_path / "x.bgen", of_calls(CALLS), ids=ids)
    rows = [row.format(i, y) for i, y in enumerate(Y)]
    (tmp_path / "x.sample").write_text("\n".join([header, types, *rows]) + "\n")
    assert dhsic.open_source(path).sample_names().tolist() == [f"s{i}" for i in range(M)]
    if header.endswith("y"):
        found = dhsic.select(path, "y", n_features_to_select=3, progress=False)
        assert found["rank"].to_numpy().tolist() == ranking(path)[0]


@pytest.mark.parametrize("types", ["D 0", "0 X", "0", "0 0 0"])
def test_samples_without_types_are_refused(types, tmp_path):
    path = write_bgen(tmp_path / "x.bgen", of_calls(CALLS))
    rows = [f"s{i} {y}" for i, y in enumerate(Y)]
    (tmp_path / "x.sample").write_text("\n".join(["ID y", types, *rows]) + "\n")
    with pytest.raises(DataError, match="a row of types"):
        dhsic.open_source(path)


def test_inspect_lists_the_variables_of_the_sample_table(tmp_path):
    path = write_bgen(tmp_path / "x.bgen", of_calls(CALLS))
    rows = "".join(f"s{i} s{i} 0 {1 + i % 2} {i}.5\n" for i in range(M))
    (tmp_path / "x.sample").write_text("ID_1 ID_2 missing sex bmi\n0 0 0 D P\n" + rows)
    said = " ".join(run("inspect", path).stdout.split())
    assert "target sex: 2 classes 1 (15), 2 (15)" in said
    assert "target bmi: 30 real values from 0.5 to 29.5" in said
    for name in "sex", "bmi":
        run("test", path, "--target", name)


def test_sex_of_the_sample_table(tmp_path):
    sex = 1 + np.arange(M) % 2
    path = write_bgen(tmp_path / "x.bgen", of_calls(np.where(CALLS == 1, 2, CALLS)), contig="X")
    rows = "".join(f"s{i} s{i} 0 {code}\n" for i, code in enumerate(sex))
    (tmp_path / "x.sample").write_text("ID_1 ID_2 missing sex\n0 0 0 D\n" + rows)
    source = dhsic.open_source(path)
    np.testing.assert_array_equal(source.sexes().males, sex == 1)
    assert source.haploid_features().size == D


@pytest.mark.parametrize("index", [True, False])
def test_truncated_files_are_refused(index, tmp_path):
    path = write_bgen(tmp_path / "x.bgen", FRACTIONS, index=index)
    content = path.read_bytes()
    for size in (0, 10, 30, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match=r"estore it|write it again"):
            whole(dhsic.open_source(path))
    with pytest.raises(InputError, match="does not exist"):
        dhsic.open_source(tmp_path / "y.bgen")


def test_damaged_bytes_end_in_a_sentence(tmp_path):
    n_refused = 0
    for compression in (None, "zlib", "zstd"):
        path = write_bgen(tmp_path / "x.bgen", FRACTIONS, index=False, compression=compression)
        content = np.frombuffer(path.read_bytes(), np.uint8)
        for seed in range(25):
            rng, damaged = np.random.default_rng(seed), content.copy()
            damaged[rng.integers(0, content.size, 3)] ^= rng.integers(1, 256, 3).astype(np.uint8)
            path.write_bytes(damaged.tobytes())
            try:
                source = dhsic.open_source(path)
                assert whole(source).shape[0] == source.n_samples
                source.feature_names()
            except (DataError, InputError) as error:  # a changed ploidy is no sure damage
                n_refused += str(path) in str(error)
    assert n_refused > 20


def test_an_index_of_another_file_is_refused(tmp_path):
    path = write_bgen(tmp_path / "x.bgen", FRACTIONS)
    write_bgen(tmp_path / "y.bgen", FRACTIONS[:, 1:])
    index = Path(f"{path}.bgi")
    index.write_bytes(Path(f"{tmp_path / 'y.bgen'}.bgi").read_bytes())
    with pytest.raises(DataError, match="bgenix -index -clobber -g"):
        dhsic.open_source(path)
    whole_index = Path(f"{write_bgen(tmp_path / 'z.bgen', FRACTIONS)}.bgi").read_bytes()
    for part in (b"", b"SQLite format 3", whole_index[: len(whole_index) // 2]):
        index.write_bytes(part)
        with pytest.raises(DataError, match="bgenix -index -clobber -g"):
            dhsic.open_source(path)
    index.unlink()
    assert whole(dhsic.open_source(path)).shape == (M, D)


def test_probabilities_above_1_are_refused(tmp_path):
    path = write_bgen(tmp_path / "x.bgen", of_calls(np.abs(CALLS)), index=False, compression="zlib")
    content = path.read_bytes()
    start = content.index(zlib.compress(b"")[:1], content.index(b"rs20"))
    data = bytearray(zlib.decompress(content[start:]))
    data[-2:] = b"\xff\xff"
    packed = zlib.compress(bytes(data))
    head = content[: start - 8] + struct.pack("<2I", len(packed) + 4, len(data))
    path.write_bytes(head + packed)
    with pytest.raises(DataError, match="probabilities with a sum above 1, in variant 20"):
        whole(dhsic.open_source(path))


def test_commands(tmp_path):
    path = write_bgen(tmp_path / "x.bgen", FRACTIONS)
    (tmp_path / "y.tsv").write_text(
        "sample\ty\n" + "".join(f"s{i}\t{y}\n" for i, y in enumerate(Y))
    )
    labels = ("--labels", tmp_path / "y.tsv", "--target", "y")
    assert "dosages" in run("inspect", path).stdout
    for command in ("select", "plan"):
        assert run(command, path, *labels, "-n", 3).exit_code == 0
    assert run("test", path, *labels).exit_code == 0
