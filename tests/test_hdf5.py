"""HDF5 by what is in it: counts of Cell Ranger, AnnData under another name, and other files."""

import gzip

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner
from test_h5ad import DENSE, ranking, write_h5ad

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, InputError
from dhsic.sources import hdf5
from dhsic.sources.opening import open_source

h5py = pytest.importorskip("h5py")

CELLS, FEATURES = 30, 12
RNG = np.random.default_rng(0)
TYPE = np.array(["B", "T"])[RNG.integers(0, 2, CELLS)]
COUNTS = RNG.poisson(1.5, (CELLS, FEATURES)).astype("i4")
COUNTS[:, 4] += 8 * (TYPE == "T")
BARCODES = [f"AAAC-{i}" for i in range(CELLS)]
IDS = [f"ENSG{i:03}" for i in range(FEATURES)]
SYMBOLS = [*(f"gene{i}" for i in range(FEATURES - 2)), "gene0", "CD19"]
NAMES = ["gene0_ENSG000", *SYMBOLS[1:-2], "gene0_ENSG010", "CD19"]
KINDS = ["Gene Expression"] * (FEATURES - 1) + ["Antibody Capture"]


def told_of(*args):
    """Output of a command."""
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exit_code == 0, result.output
    return result.output


def write_counts(path, kinds=KINDS, matrix=COUNTS):
    """As Cell Ranger 3 and later write it: features x cells, by cells."""
    columns = sp.csc_matrix(matrix.T)
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(columns, name)
        group["shape"] = np.array(columns.shape, "i4")
        group["barcodes"] = np.array(BARCODES, "S")
        about = {"id": IDS, "name": SYMBOLS, "feature_type": kinds, "genome": ["GRCh38"] * FEATURES}
        for name, values in about.items():
            group[f"features/{name}"] = np.array(values, "S")
    return path


def write_folder(path, *, packed=True, version=3):
    """As Cell Ranger writes text: matrix.mtx, barcodes, and features (genes in version 2)."""
    path.mkdir()
    scipy.io.mmwrite(path / "matrix.mtx", sp.csc_matrix(COUNTS.T))
    features = pd.DataFrame({"id": IDS, "name": SYMBOLS, "type": KINDS})
    features = features if version == 3 else features[["id", "name"]]
    name = "features.tsv" if version == 3 else "genes.tsv"
    features.to_csv(path / name, sep="\t", header=False, index=False)
    (path / "barcodes.tsv").write_text("".join(f"{one}\n" for one in BARCODES))
    for file in list(path.iterdir()) if packed else []:
        (path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    return path


def check(source):
    assert source.sample_names().tolist() == BARCODES
    assert source.feature_names().tolist() == NAMES
    assert source.feature_coords()["feature_id"].tolist() == IDS
    values = np.concatenate([source.read(block) for block in source.blocks(5)], axis=1)
    np.testing.assert_array_equal(values, COUNTS)


@pytest.mark.parametrize("name", ["filtered_feature_bc_matrix.h5", "counts.hdf5", "counts"])
@pytest.mark.parametrize("held", [1 << 26, 0])
def test_counts_of_cell_ranger(name, held, tmp_path, monkeypatch):
    monkeypatch.setattr("dhsic.sources.stored_sparse.HELD_BYTES", held)
    path = write_counts(tmp_path / name)
    check(open_source(path))
    with pytest.warns(UserWarning, match="11 of 'Gene Expression', 1 of 'Antibody Capture'"):
        found = dhsic.select(path, TYPE, n_features_to_select=1, progress=False)
    assert found["feature"].values[found["rank"].values.argmin()] == "gene4"
    genes = open_source(path, variable="Gene Expression")
    assert genes.feature_names().tolist() == NAMES[:-1]
    left_out = dhsic.select(
        path, TYPE, variable="Gene Expression", n_features_to_select=1, progress=False
    ).attrs["left_out"]
    assert left_out == '{"other_types": 1}'  # and no filter of variants
    said = " ".join(told_of("inspect", path, "--variable", "Gene Expression").split())
    assert "excluded 1 feature (1 of other types than --variable)" in said
    assert "FILTER" not in said
    assert "pass-only" not in said
    assert "excluded" not in told_of("inspect", write_counts(path, ["Gene Expression"] * FEATURES))
    write_counts(path)
    with pytest.raises(
        InputError, match="type 'CRISPR'; its types are 'Gene Expression', 'Antibody"
    ):
        open_source(path, variable="CRISPR")


@pytest.mark.filterwarnings("ignore:X has features of several types")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("packed", [True, False])
def test_folders_of_cell_ranger(version, packed, tmp_path):
    path = write_folder(tmp_path / "filtered_feature_bc_matrix", packed=packed, version=version)
    check(open_source(path))
    dhsic.convert(path, tmp_path / "out.zarr")
    check_names = open_source(tmp_path / "out.zarr")
    assert check_names.feature_names().tolist() == NAMES


def test_the_command_line_joins_labels_by_barcode(tmp_path):
    path = write_counts(tmp_path / "counts.h5", ["Gene Expression"] * FEATURES)
    labels = pd.DataFrame({"barcode": BARCODES, "type": TYPE}).sample(frac=1, random_state=0)
    labels.to_csv(tmp_path / "types.csv", index=False)
    said = ["--labels", str(tmp_path / "types.csv"), "--target", "type", "-n", "1", "--no-progress"]
    for command in (["select", str(path), *said], ["inspect", str(path)]):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
    top = CliRunner().invoke(main, ["select", str(path), *said]).output
    assert "1  gene4" in top


def test_counts_of_version_2_are_by_genome(tmp_path):
    columns = sp.csc_matrix(COUNTS.T)
    with h5py.File(tmp_path / "counts.h5", "w") as file:
        for genome in ("hg19", "mm10"):
            group = file.create_group(genome)
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(columns, name)
            group["shape"], group["barcodes"] = columns.shape, np.array(BARCODES, "S")
            group["genes"], group["gene_names"] = np.array(IDS, "S"), np.array(SYMBOLS, "S")
    with pytest.raises(InputError, match=r"2 genomes: hg19, mm10\. Pass one of them as variable="):
        open_source(tmp_path / "counts.h5")
    check(open_source(tmp_path / "counts.h5", variable="mm10"))
    with h5py.File(tmp_path / "counts.h5", "a") as file:
        del file["hg19"]
    check(open_source(tmp_path / "counts.h5"))


def test_folders_of_counts_inside_a_folder_are_named(tmp_path):
    (tmp_path / "run" / "outs").mkdir(parents=True)
    folder = write_folder(tmp_path / "run" / "outs" / "filtered_feature_bc_matrix")
    for path in (folder.parent, tmp_path / "run"):
        with pytest.raises(InputError, match="Pass the folder of the data: ") as error:
            open_source(path)
        check(open_source(str(error.value).partition("of the data: ")[2].rstrip(".")))
    raw = write_folder(folder.parent / "raw_feature_bc_matrix")
    with pytest.raises(InputError, match=f"one of the folders of data inside: {folder}, {raw}\\."):
        open_source(folder.parent)


def test_counts_that_do_not_fit_their_names_are_refused(tmp_path):
    path = write_counts(tmp_path / "counts.h5")
    with h5py.File(path, "a") as file:
        del file["matrix/barcodes"]
        file["matrix/barcodes"] = np.array(BARCODES[:-1], "S")
    with pytest.raises(DataError, match="in 30 cells, but names of 12 features and 29 cells"):
        open_source(path)
    folder = write_folder(tmp_path / "counts")
    (folder / "barcodes.tsv.gz").unlink()
    with pytest.raises(InputError, match=r"no barcodes.tsv.gz .* Copy the whole folder"):
        open_source(folder)
    (folder / "matrix.mtx.gz").write_bytes(b"")
    with pytest.raises(InputError, match="is not a valid Matrix Market file"):
        open_source(folder)


@pytest.mark.parametrize("name", ["cells.h5", "cells"])
def test_anndata_under_another_name(name, tmp_path):
    assert ranking(write_h5ad(tmp_path / name)) == DENSE


def test_other_files_are_refused_with_what_they_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("x.h5", "w") as file:
        file["layer/weights"] = COUNTS
        file["names"] = np.array(BARCODES, "S")
    with pytest.raises(InputError, match="matrices layer/weights, but it is neither") as caught:
        open_source("x.h5")
    remedy = str(caught.value).partition("Pass ")[2].partition(";")[0]
    values = eval(remedy, {"h5py": h5py})
    np.testing.assert_array_equal(
        open_source(values).read(open_source(values).blocks(99)[0]), COUNTS
    )
    with h5py.File("x.h5mu", "w") as file:
        file.create_group("mod/rna")
        file.create_group("mod/prot")
        file.create_group("obs"), file.create_group("var")
    with pytest.raises(InputError, match=r"x.h5mu/mod/prot has no matrix 'X'"):
        open_source("x.h5mu")


def test_names_that_repeat_have_their_id():
    names = hdf5._unique(np.array(SYMBOLS, object), np.array(IDS, object))
    assert names.tolist() == NAMES


def test_counts_without_names_of_features_get_a_sentence(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file.create_group("matrix")
        counts = scipy.sparse.random(50, 20, 0.3, format="csc", random_state=0)
        for name in ("data", "indices", "indptr", "shape"):
            group[name] = getattr(counts, name)
        group["barcodes"] = np.array([f"AAAC-{i}" for i in range(20)], "S")

    with pytest.raises(DataError, match="no feature names"):
        dhsic.open_source(tmp_path / "x.h5")
