"""Bad paths, damaged stores and checkpoints of other runs, one kind a row.

Each row makes something in an empty folder and says how it is read, the error, and the words
that the error has to name. What was made is the same afterwards, byte by byte.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from refusals import assert_refused, files_in
from stores import draw_genotypes, write, write_matrix, write_sparse, write_vcz
from test_bad_inputs import TRAIT, X, Y, fit
from zarr.codecs import BloscCodec, Crc32cCodec

import dhsic
from dhsic import CheckpointError, ClusterError, DataError, InputError

CALLS = draw_genotypes(30, 12)


# -- what is made -------------------------------------------------------------------------------


def vcz(genotypes=CALLS):
    """Genotypes of 12 samples with a trait, in chunks of 8 variants."""
    group = write_vcz("x", genotypes, chunks=(8, 12, 2))
    write(group, "sample_trait", Y, ("samples",))
    write(group, "donor_age", Y[:5], ("donors",))
    return group


def changed(index, value):
    out = CALLS.copy()
    out[index] = value
    return out


def group_of(attributes=None, **arrays):
    """A group of arrays, each given as dimensions and values."""
    group = zarr.open_group("x", mode="w", attributes=attributes or {})
    for name, (dims, values) in arrays.items():
        write(group, name, values, dims)
    return group


def checked():
    """A plain matrix, variants first, whose chunks carry crc32c."""
    write_matrix("x", X.astype("f4"), chunks=(3, 12), compressors=(BloscCodec(), Crc32cCodec()))


def sharded():
    write_matrix("x", np.abs(X) + 1, chunks=(1, 12), shards=(3, 12))


def edit(path, change):
    """Change the bytes of a stored file; None removes it."""
    path = Path(path)
    content = change(bytearray(path.read_bytes()))
    path.unlink()
    if content is not None:
        path.write_bytes(content)


def flip(content):
    content[9] ^= 1
    return content


def file(name, content=b"\x1f\x8b not Zarr"):
    return lambda: Path(name).write_bytes(content)


def folder():
    Path("x").mkdir()
    Path("x/genes.csv").touch()


def damaged(make, path, change):
    return lambda: (make(), edit(path, change))


def read(path="x", y=Y, **options):
    return lambda: fit(path, y, **options)


def nothing():
    pass


# -- the tables ---------------------------------------------------------------------------------

PATHS = {
    "not a path": (nothing, read("x.zarr"), InputError, "at x.zarr", "Check the path"),
    "not a path, target by name": (nothing, read("x.zarr", "trait"), InputError, "x.zarr", "Check"),
    "a text file": (file("x.zarr"), read("x.zarr"), InputError, "x.zarr: it is a file", "Pass the"),
    "a folder": (
        folder,
        read(),
        InputError,
        "a folder that contains genes.csv",
        "that itself contains zarr.json",
    ),
    "VCF": (file("x.vcf.gz"), read("x.vcf.gz"), DataError, "x.vcf.gz cannot be read", "restore it"),
    "BCF, target by name": (
        file("x.bcf"),
        read("x.bcf", "t"),
        DataError,
        "x.bcf cannot be read",
        "restore it",
    ),
    "BGEN": (file("x.bgen"), read("x.bgen"), DataError, "is not a BGEN file", "Restore it"),
    "PLINK": (file("x.bed"), read("x.bed"), InputError, "x.bim does not exist", "in sets of three"),
    "PLINK 2": (file("x.pgen"), read("x.pgen"), InputError, "x.pvar or x.bim does not exist"),
    "h5ad": (
        file("x.h5ad"),
        read("x.h5ad"),
        DataError,
        "x.h5ad cannot be read as HDF5",
        "Restore it",
    ),
    "h5ad that is not there": (
        nothing,
        read("x.h5ad"),
        InputError,
        "x.h5ad does not exist",
        "Check",
    ),
    "CSV": (file("x.csv"), read("x.csv"), InputError, "x.csv cannot be read as a table", "damaged"),
    "Parquet": (
        file("x.parquet"),
        read("x.parquet"),
        InputError,
        "x.parquet is not a valid Parquet file",
    ),
    "NumPy": (
        file("x.npy"),
        read("x.npy"),
        InputError,
        "x.npy is not a valid .npy file",
        "numpy.save",
    ),
    "zip without an end": (
        file("x.zip"),
        read("x.zip"),
        DataError,
        "x.zip is not a valid zip",
        "again",
    ),
    "unknown scheme": (nothing, read("foo://b/x"), InputError, "foo://b/x", "Check the scheme"),
    "inside an array": (
        *(vcz, read("x/call_genotype/c"), InputError),
        *(
            "it is a folder that contains 0, 1, 2, 3",
            "Pass the folder that itself contains zarr.json",
        ),
    ),
    "an array of a group": (
        *(vcz, read("x/call_genotype"), InputError),
        *("(30, 12, 2)", "Open the group that contains it"),
    ),
    "an array, target by name": (
        *(checked, read("x", "trait"), InputError),
        *("'trait'", "pass the labels themselves"),
    ),
}

CONTENTS = {
    "empty group": (group_of, read(), InputError, "0 variables", "no numeric arrays", "variable="),
    "several matrices": (
        *(lambda: group_of(a=(None, X), b=(None, X)), read(), InputError),
        *("2 variables", "a (12, 6), b (12, 6)", "as variable="),
    ),
    "unknown variable": (
        *(vcz, read(variable="call_DS"), InputError),
        *("'call_DS'", "call_genotype (30, 12, 2)", "as variable="),
    ),
    "unknown target": (
        *(vcz, read(y="trait"), InputError),
        *(
            "'trait'",
            "such variables are sample_trait. Did you mean 'sample_trait'?",
            "Pass one of them",
        ),
    ),
    "target of another length": (
        *(vcz, read(y="donor_age"), InputError),
        *("12 samples", "5 labels", "Pass one label per sample"),
    ),
    "labels in another order": (
        *(vcz, read(y=TRAIT[::-1]), InputError),
        *("'s0' in X and 's11' in y", "y.loc[dhsic.open_source('x').sample_names()]"),
    ),
    "square without names": (
        *(lambda: write_matrix("x", X[:6]), read(y=Y[:6]), InputError),
        *("(6, 6)", "both axes have this length", "sample_dim=0 or sample_dim=1"),
    ),
    "neither axis fits": (checked, read(y=Y[:5]), InputError, "(6, 12)", "5 labels", "sample_dim"),
    "complex": (lambda: write_matrix("x", X + 1j), read(), InputError, "complex128", "numpy.abs"),
    "one axis": (lambda: write_matrix("x", X[0]), read(), InputError, "(6,)", "two axes"),
    "no features": (lambda: write_matrix("x", X[:, :0]), read(), InputError, "(0, 12)", "empty"),
    "never written": (
        *(lambda: zarr.create_array("x", shape=(12, 6), dtype="f4"), read(), DataError),
        *("'c/0/0' of", "is missing", "missing_chunks='fill'"),
    ),
    "AnnData, sparse": (
        lambda: write_sparse(group_of({"encoding-type": "anndata"}), "X", X),
        *(
            read(),
            DataError,
            "var is absent",
            "the sample or feature names are unknown",
            "Write the store again",
        ),
    ),
    "allele out of range": (
        *(lambda: vcz(changed((9, 3, 1), 7)), read(y="sample_trait"), DataError),
        *("Feature 9 of sample 3", "7]", "'c/1/0/0'", "0 to 2", "write it again"),
    ),
    "allele below -2": (
        *(lambda: vcz(changed((9, 3, 1), -3)), read(), DataError),
        *("Feature 9 of sample 3", "-3]", "-1 (missing)", "write it again"),
    ),
    "negative dosage": (
        lambda: group_of(call_DS=(("variants", "samples"), -np.abs(X.T))),
        *(read(), DataError, "Feature 0 of sample 0 is -0.12", "'c/0/0'", "NaN"),
    ),
    "infinite dosage": (
        lambda: group_of(call_DS=(("variants", "samples"), np.full((6, 12), np.inf))),
        *(read(), DataError, "Feature 0 of sample 0 is inf", "'c/0/0'", "by NaN"),
    ),
    "dosages of several alleles": (
        lambda: group_of(call_DS=(("variants", "samples", "alt_alleles"), np.ones((6, 12, 2)))),
        *(read(variable="call_DS"), InputError, "(6, 12, 2)", "split multi-allelic variants"),
    ),
}

DAMAGE = {
    "missing chunk": (
        *(damaged(vcz, "x/call_genotype/c/1/0/0", lambda _: None), read(), DataError),
        *("'c/1/0/0' of", "call_genotype is missing", "restore it", "missing_chunks='fill'"),
    ),
    "missing chunk, plain": (
        *(damaged(checked, "x/c/1/0", lambda _: None), read(), DataError),
        *("'c/1/0' of", "x is missing", "restore it"),
    ),
    "truncated chunk": (
        *(damaged(vcz, "x/call_genotype/c/1/0/0", lambda b: b[:-5]), read(), DataError),
        *("'c/1/0/0' of", "cannot be decoded", "write it again, or restore it"),
    ),
    "flipped byte": (
        *(damaged(checked, "x/c/1/0", flip), read(), DataError),
        *("'c/1/0' of", "checksum", "write it again"),
    ),
    "empty chunk": (
        *(damaged(checked, "x/c/1/0", lambda _: b""), read(), DataError),
        *("'c/1/0' of", "it is empty", "restore it"),
    ),
    "empty shard": (
        *(damaged(sharded, "x/c/1/0", lambda _: b""), read(), DataError),
        *("'c/1/0' of", "it is empty", "restore it"),
    ),
    "truncated shard": (
        *(damaged(sharded, "x/c/1/0", lambda b: b[:-9]), read(), DataError),
        *("'c/1/0' of", "cannot be decoded", "restore it"),
    ),
    "chunk of the target": (
        *(damaged(vcz, "x/sample_trait/c/0", lambda _: b"abc"), read(y="sample_trait"), DataError),
        *("sample_trait cannot be decoded", "write it again"),
    ),
    "missing chunk of the target": (
        *(damaged(vcz, "x/sample_trait/c/0", lambda _: None), read(y="sample_trait"), DataError),
        *("'c/0' of", "sample_trait is missing", "missing_chunks='fill'"),
    ),
    "chunk of the names": (
        *(damaged(vcz, "x/variant_id/c/0", lambda _: b"abc"), read(), DataError),
        *("variant_id cannot be decoded", "write it again"),
    ),
    "metadata": (
        *(damaged(checked, "x/zarr.json", lambda b: b[:40]), read(), DataError),
        *("metadata of x", "Restore zarr.json"),
    ),
    "metadata of an array": (
        *(damaged(vcz, "x/call_genotype/zarr.json", lambda _: b""), read(), DataError),
        *("The metadata of", "Restore zarr.json"),
    ),
}


def kept(**options):
    """A checkpoint of a run over X, in `run.dhsic`."""
    return lambda: fit(**options)


def newer(content):
    root = json.loads(content)
    root["attributes"]["dhsic_checkpoint"]["format"] = 99
    return json.dumps(root).encode()


ROOT = "run.dhsic/zarr.json"

CHECKPOINTS = {
    "other data": (kept(), read(X + 1), CheckpointError, "other data", "Pass the same data"),
    "other labels": (
        kept(),
        read(X, 1 - Y),
        CheckpointError,
        "the labels differ",
        "or another fold",
    ),
    "other parameters": (
        *(kept(), read(X, step=0.5), CheckpointError),
        *(
            "step is 0.1 in the checkpoint and 0.5 here",
            "Pass the same parameters, or another folder",
        ),
    ),
    "other samples": (kept(), read(X[:10], Y[:10]), CheckpointError, "other data", "another fold"),
    "newer format": (
        *(damaged(kept(), ROOT, newer), read(X), CheckpointError),
        *("format 99", "up to 2", "Upgrade dhsic"),
    ),
    "damaged": (
        *(damaged(kept(), ROOT, lambda b: b.replace(b'"complete": true', b'"complete": 1')),),
        *(read(X), CheckpointError, "zarr.json is damaged", "start again in another folder"),
    ),
    "a file": (file("run.dhsic"), read(X), CheckpointError, "'run.dhsic' is", "Pass a new folder"),
    "another folder": (
        *(checked, read(X, checkpoint="x"), CheckpointError),
        *("x is not a dhsic checkpoint, but a Zarr store with other content", "or a new one"),
    ),
    "a folder in a folder in none": (
        *(nothing, read(X, checkpoint="a/b/run"), CheckpointError),
        *(
            "'a/b/run' cannot be created in",
            "neither that folder nor its parent",
            "Create it first",
        ),
    ),
    "a folder with other things": (
        *(vcz, read(X, checkpoint="x/sample_trait/c"), CheckpointError),
        *("contains other files (0)", "Pass a new or an empty folder"),
    ),
}

CASES = (
    {f"path: {kind}": case for kind, case in PATHS.items()}
    | {f"content: {kind}": case for kind, case in CONTENTS.items()}
    | {f"damage: {kind}": case for kind, case in DAMAGE.items()}
    | {f"checkpoint: {kind}": case for kind, case in CHECKPOINTS.items()}
)


@pytest.mark.parametrize("kind", CASES)
def test_bad_stores_are_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, call, error, *words = CASES[kind]
    make()
    assert_refused(call, error, words, tmp_path)


def test_a_refused_run_does_not_stand_in_the_way_of_the_next(tmp_path):
    """The remedy of one refusal is another parameter, which a checkpoint would hold against it."""
    gaps = np.where(X > 1, np.nan, X)
    run = tmp_path / "run.dhsic"
    with pytest.raises(InputError, match="missing='mean'"):
        fit(gaps, missing="error", checkpoint=run)
    fit(gaps, checkpoint=run)
    before = files_in(run)
    with pytest.raises(CheckpointError, match="missing"):
        fit(gaps, missing="error", checkpoint=run)
    assert files_in(run) == before


def test_text_labels_of_a_store_are_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(vcz(), "sample_group", np.array(["case", "control"] * 6, object), ("samples",))
    by_name = fit("x", "sample_group", checkpoint=None)
    np.testing.assert_array_equal(by_name.ranking_, fit("x", Y, checkpoint=None).ranking_)


def test_text_labels_that_a_store_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(vcz(), "sample_group", np.array(["case", ""] * 6, object), ("samples",))
    words = ("6 of 12 labels are missing", "drop those samples")
    assert_refused(read(y="sample_group"), InputError, words, tmp_path)


# -- clusters -----------------------------------------------------------------------------------


@pytest.fixture
def cluster():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=0, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


def test_clusters_that_cannot_run_it(cluster, tmp_path, monkeypatch):
    from distributed import Client

    from dhsic.runtime import dask

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClusterError, match=r"no Dask client in this process.*runtime='threads'"):
        fit(runtime="dask")
    with Client(cluster, set_as_default=False) as client:
        with pytest.raises(ClusterError, match=r"no worker for 0.2 s.*Start workers"):
            dask.DaskRuntime(client, timeout=0.2)
        cluster.scale(1)
        monkeypatch.setattr(dask, "CLIENT_BYTES", 100)
        with dask.DaskRuntime(client, scratch=tmp_path) as runtime:
            words = ("in the memory of this process", "Write them to Zarr", "runtime='threads'")
            assert_refused(
                lambda: fit(runtime=runtime, checkpoint=None), ClusterError, words, tmp_path
            )


def test_the_path_of_the_matrix_beside_labels_is_advised(tmp_path, rng):
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    X = rng.standard_normal((30, 6))
    for name in "images", "rna/layers", "rna":
        group.require_group(name).create_array("X", data=X)
    group["rna"].create_array("y", data=X[:, 2])
    with pytest.raises(dhsic.InputError, match="its groups have: images/X") as error:
        dhsic.test_features(tmp_path / "s.zarr", X[:, 2])
    path = re.search("with the matrix, (.*), or", str(error.value))[1]
    assert path == str(tmp_path / "s.zarr/rna")
    assert dhsic.test_features(path, "y").p_values.argmin() == 2
