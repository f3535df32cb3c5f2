"""BGEN, VCF and BCF by chromosome: values and rankings of the merged file, and altered files."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import run
from suites.source import whole
from test_bgen import of_calls
from test_joined import BAHSIC, CHROMOSOMES, PER, SAMPLES, assert_equal_results, quiet, select
from test_joined import X as CALLS
from test_joined import split as split_bed
from test_vcf import HEADER, TEXTS
from test_vcf import write_vcf as write_rows

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.runtime.dask import DaskRuntime

pytest.importorskip("bgen")
CONTIGS, PLACES = np.repeat(CHROMOSOMES, PER), np.tile(10 * np.arange(PER) + 5, 5)
FORMATS = ("16.bgen", "vcf.gz")


def ids_of(contigs, places):
    return [f"rs{c}_{p}" for c, p in zip(contigs, places, strict=True)]


def write_bgen(path, X, contigs, places, *, bits=8, samples=SAMPLES, shift=0):
    import bgen

    P = of_calls(X)
    with bgen.BgenWriter(path, len(X), samples=samples) as out:
        for j, name in enumerate(ids_of(contigs, places)):
            place = (name, name, contigs[j], int(places[j]) + shift, ["A", "G"])
            out.add_variant(*place, P[:, j], bit_depth=bits)
    return path


def write_vcf(path, X, contigs, places, *, samples=SAMPLES, shift=0):
    rows = [
        f"{c}\t{p + shift}\t{name}\tA\tG\t.\t.\t.\tGT\t"
        + "\t".join(TEXTS[k] for k in X[:, j].tolist())
        for j, (name, c, p) in enumerate(zip(ids_of(contigs, places), contigs, places, strict=True))
    ]
    known = "".join(f"##contig=<ID={c}>\n" for c in CHROMOSOMES)
    lines = [line for line in HEADER.splitlines() if "contig" not in line and "ID=DS" not in line]
    header = "\n".join(lines) + "\n" + known
    return write_rows(path, rows, m=len(samples), header=header, names=samples)


def write_as(kind, folder, name, here=slice(None), samples=SAMPLES, shift=0):
    """Write some variants of the calls, with shifted positions, in one of the formats."""
    values = CALLS[[SAMPLES.index(s) for s in samples]][:, here]
    bits, _, suffix = kind.rpartition(".")
    path = folder / (f"{name}.{kind}" if suffix != "bgen" else f"{name}.bgen")
    variants = (CONTIGS[here], PLACES[here])
    if suffix == "bgen":
        return write_bgen(path, values, *variants, bits=int(bits), samples=samples, shift=shift)
    return write_vcf(path, values, *variants, samples=samples, shift=shift)


def split(folder, kinds):
    """Write one file per chromosome, each of one of the formats in turn; return their paths."""
    folder.mkdir(exist_ok=True, parents=True)
    at = {c: np.flatnonzero(c == CONTIGS) for c in CHROMOSOMES}
    kind_of = {c: kinds[i % len(kinds)] for i, c in enumerate(CHROMOSOMES)}
    return [write_as(kind_of[c], folder, f"chr{c}", at[c]) for c in CHROMOSOMES]


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    return split_bed(tmp_path_factory.mktemp("bed"))


@pytest.mark.parametrize("kind", FORMATS)
def test_files_rank_as_the_merged_file_everywhere(kind, bed, client, tmp_path):
    files = split(tmp_path / "split", (kind,))
    random.Random(3).shuffle(files)
    one, joint = quiet(write_as(kind, tmp_path, "all")), quiet(files)
    np.testing.assert_array_equal(whole(joint), whole(dhsic.open_source(bed[0])))
    for of in ("feature_names", "sample_names"):
        assert getattr(joint, of)().tolist() == getattr(one, of)().tolist()
    expected = select(one, **BAHSIC)
    np.testing.assert_array_equal(expected["rank"], select(bed[0], **BAHSIC)["rank"])
    assert_equal_results(select(joint, **BAHSIC), expected)
    assert_equal_results(select(files[::-1], runtime=DaskRuntime(client), **BAHSIC), expected)

    def stop(record):
        if record["round"] == 3:
            raise KeyboardInterrupt

    pattern = str(tmp_path / f"split/chr*.{kind.removeprefix('8.').removeprefix('16.')}")
    with pytest.raises(KeyboardInterrupt):
        select(files, checkpoint=tmp_path / "run", progress=stop, **BAHSIC)
    assert_equal_results(select(pattern, checkpoint=tmp_path / "run", **BAHSIC), expected)


def test_formats_beside_each_other_rank_as_one_file(bed, client, tmp_path):
    others = split(tmp_path, ("vcf.gz", "8.bgen", "bcf", "16.bgen"))
    files = [bed[1][0], *others[1:]]
    expected = select(bed[0])
    for order in (files, files[::-1], random.Random(1).sample(files, 5)):
        found = select(order)
        for name in ("rank", "score", "feature"):
            np.testing.assert_array_equal(found[name], expected[name])
    found = select(files, runtime=DaskRuntime(client))
    np.testing.assert_array_equal(found["score"], expected["score"])
    run("convert", *files, tmp_path / "joint.zarr")
    source = dhsic.open_source(tmp_path / "joint.zarr")
    np.testing.assert_array_equal(whole(source), whole(dhsic.open_source(bed[0])))
    assert source.feature_names().tolist() == ids_of(CONTIGS, PLACES)


@pytest.mark.filterwarnings("default")
def test_patterns_leave_out_indexes_and_tables_of_samples(tmp_path, monkeypatch):
    split(tmp_path, ("8.bgen",))
    rows = "".join(f"{s} {s} 0\n" for s in SAMPLES)
    (tmp_path / "chr1.sample").write_text("ID_1 ID_2 missing\n0 0 0\n" + rows)
    (tmp_path / "y.tsv").write_text("IID\ty\n" + "".join(f"{s}\t{s[1:]}\n" for s in SAMPLES))
    monkeypatch.chdir(tmp_path)
    labels = ("--labels", "y.tsv", "--target", "y", "--no-progress")
    assert "5 files" in run("select", "chr*", *labels, "-n", 2, "--method", "linear").stderr
    assert run("test", "chr*.bgen", *labels).exit_code == 0


def copied(folder, files):
    shutil.copy(files[1], folder / f"copy{''.join(files[1].suffixes)}")
    files.append(folder / f"copy{''.join(files[1].suffixes)}")


def linked(folder, files):
    link = folder / f"link{''.join(files[1].suffixes)}"
    link.symlink_to(files[1])
    files.append(link)


def swapped(folder, files):
    one, other = files[1].read_bytes(), files[2].read_bytes()
    files[1].write_bytes(other)
    files[2].write_bytes(one)
    for path in files[1:3]:
        path.with_name(path.name + ".bgi").unlink(missing_ok=True)


def index_of_another(folder, files):
    for path in files[1:3]:
        path.with_name(path.name + ".bgi").unlink(missing_ok=True)
    shutil.copy(f"{files[0]}.bgi", f"{files[1]}.bgi")


def truncated(folder, files):
    files[1].write_bytes(files[1].read_bytes()[:-40])


def kind_of(files):
    return {".gz": "vcf.gz", ".bcf": "bcf"}.get(files[1].suffix, "8.bgen")


SECOND = np.flatnonzero(CONTIGS == "2")


def other_samples(folder, files):
    write_as(kind_of(files), folder, "chr2", SECOND, samples=SAMPLES[:-4])


def other_build(folder, files):
    files.append(write_as(kind_of(files), folder, "build", SECOND, shift=2))


def renamed_samples(folder, files):
    names = [f"person{i}" for i in range(len(SAMPLES))]
    path, here = files[1], (CONTIGS[SECOND], PLACES[SECOND])
    write = write_bgen if path.suffix == ".bgen" else write_vcf
    write(path, CALLS[:, SECOND], *here, samples=names)


def other_chromosome(folder, files):
    path, places = files[1], PLACES[SECOND]
    write = write_bgen if path.suffix == ".bgen" else write_vcf
    write(path, CALLS[:, SECOND], np.repeat("3", len(SECOND)), places + 10_000)


def cut_in_half(folder, files):
    files[1].write_bytes(files[1].read_bytes()[: files[1].stat().st_size // 2])


def without_its_end(folder, files):
    """Cut the last block, which is empty in BGZF, or the last byte."""
    n = 1 if files[1].suffix == ".bgen" else 28
    files[1].write_bytes(files[1].read_bytes()[:-n])


def longer(folder, files):
    files[1].write_bytes(files[1].read_bytes() + bytes(100))


def emptied(folder, files):
    files[1].write_bytes(b"")


def without_variants(folder, files):
    write_as(kind_of(files), folder, "chr2", SECOND[:0])


def flipped_bytes(folder, files):
    data = bytearray(files[1].read_bytes())
    middle = len(data) // 2
    data[middle : middle + 16] = bytes(255 - byte for byte in data[middle : middle + 16])
    files[1].write_bytes(bytes(data))


def of_another_format(folder, files):
    files[1].write_bytes(Path(__file__).read_bytes())


def removed(folder, files):
    files[1].unlink()


def a_folder(folder, files):
    files[1].unlink()
    files[1].mkdir()


REFUSED = {
    copied: "All 25 features of",
    linked: "is passed twice",
    swapped: "is named after chromosome",
    truncated: "chr2",
    other_build: "25 variants of the same name at different positions",
    other_samples: "chr2.* does not have the same samples|chr1.* does not have the same samples",
    renamed_samples: "chr2.* does not have the same samples|chr1.* does not have the same samples",
    other_chromosome: "chr2.* is named after chromosome 2, but all of its variants are on .* 3",
    **dict.fromkeys((cut_in_half, without_its_end, longer, emptied, without_variants), "chr2"),
    **dict.fromkeys((flipped_bytes, of_another_format, removed, a_folder), "chr2"),
}


@pytest.mark.parametrize("kind", ["8.bgen", "vcf.gz", "bcf"])
@pytest.mark.parametrize("alter", REFUSED, ids=lambda alter: alter.__name__)
def test_altered_files_are_refused_by_name(alter, kind, tmp_path):
    files = split(tmp_path, (kind,))[:3]
    alter(tmp_path, files)
    with pytest.raises((DataError, InputError), match=REFUSED[alter]):
        whole(quiet(files))


def test_an_index_of_another_chromosome_is_refused(tmp_path):
    files = split(tmp_path, ("8.bgen",))
    index_of_another(tmp_path, files)
    with pytest.raises(
        DataError, match=r"chr2\.bgen\.bgi does not match .*: the index lists 25 variants"
    ):
        quiet(files)


def test_an_index_older_than_its_file_is_refused(tmp_path):
    files = split(tmp_path, ("8.bgen",))[:3]
    index = files[1].with_name("chr2.bgen.bgi")
    older = index.read_bytes()
    write_as("16.bgen", tmp_path, "chr2", SECOND)
    index.write_bytes(older)
    with pytest.raises(DataError, match=r"chr2\.bgen\.bgi"):
        quiet(files)


SAMPLE_FILES = {
    "one more": [*SAMPLES, "another"],
    "one less": SAMPLES[:-1],
    "others": [f"person{i}" for i in range(len(SAMPLES))],
    "another order": SAMPLES[::-1],
    "one twice": [*SAMPLES[:-1], SAMPLES[0]],
    "none": [],
}


@pytest.mark.parametrize("names", SAMPLE_FILES.values(), ids=SAMPLE_FILES)
def test_a_table_of_other_samples_is_refused(names, tmp_path):
    files = split(tmp_path, ("8.bgen",))[:3]
    rows = "".join(f"{s} {s} 0\n" for s in names)
    (tmp_path / "chr2.sample").write_text("ID_1 ID_2 missing\n0 0 0\n" + rows)
    with pytest.raises((DataError, InputError), match=r"chr2\.(sample|bgen)"):
        quiet(files)


@pytest.mark.parametrize("kind", ["8.bgen", "vcf.gz"])
def test_samples_are_matched_by_name(kind, tmp_path):
    files = split(tmp_path, (kind,))
    expected = select(files)
    order = random.Random(2).sample(SAMPLES, len(SAMPLES))
    write_as(kind, tmp_path, "chr2", np.flatnonzero(CONTIGS == "2"), samples=order)
    found = select(files)
    for name in ("rank", "score", "feature"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("is_first", [True, False])
def test_samples_of_vcf_named_by_family_and_id_are_matched(is_first, bed, tmp_path):
    """PLINK 2 writes FID_IID to VCF; both are in .fam."""
    files = split_bed(tmp_path)[1]
    for fam in tmp_path.glob("*.fam"):
        lines = [line.split() for line in fam.read_text().splitlines()]
        fam.write_text(
            "".join(" ".join([f"F{i % 7}", *rest]) + "\n" for i, (_, *rest) in enumerate(lines))
        )
    order = random.Random(2).sample(range(len(SAMPLES)), len(SAMPLES))
    number = 0 if is_first else 1
    here = np.flatnonzero(CHROMOSOMES[number] == CONTIGS)
    names = [f"F{i % 7}_{SAMPLES[i]}" for i in order]
    name = f"chr{CHROMOSOMES[number]}.vcf.gz"
    files[number] = write_vcf(
        tmp_path / name, CALLS[order][:, here], CONTIGS[here], PLACES[here], samples=names
    )
    with pytest.warns(UserWarning, match=rf"Samples of {name} are named FID_IID, .* in chr\w\.fam"):
        source = quiet(files)
    assert sorted(source.sample_names()) == sorted(SAMPLES)
    frame = pd.DataFrame(whole(source), source.sample_names()).loc[SAMPLES]
    np.testing.assert_array_equal(frame, whole(dhsic.open_source(bed[0])))
    others = [name.replace("s", "t") for name in names]
    write_vcf(files[number], CALLS[order][:, here], CONTIGS[here], PLACES[here], samples=others)
    with pytest.raises(InputError, match="does not have the same samples"):
        quiet(files)


KILLED = {
    "BCF": ("bcf",),
    "formats beside each other": ("bed", "8.bgen", "vcf.gz", "bcf"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", KILLED.values(), ids=KILLED)
def test_a_killed_selection_resumes_to_the_same_table(kinds, tmp_path):
    if "bed" in kinds:
        split_bed(tmp_path)
    others = split(tmp_path / "other", tuple(kind.replace("bed", "8.bgen") for kind in kinds))
    files = [tmp_path / "chr1.bed" if "bed" in kinds else others[0], *others[1:]]
    labels = pd.DataFrame(
        {"IID": SAMPLES, "y": np.random.default_rng(3).standard_normal(len(SAMPLES))}
    )
    labels.to_csv(tmp_path / "y.tsv", sep="\t", index=False)
    asked = ["select", *map(str, files), "--labels", str(tmp_path / "y.tsv"), "--target", "y"]
    asked += ["-n", "3", "--step", "1", "--solver", "exact", "--no-rerank", "--no-progress"]
    run(*asked, "--out", tmp_path / "whole.tsv")
    more = ["--checkpoint", str(tmp_path / "run"), "--out", str(tmp_path / "resumed.tsv")]
    command = [sys.executable, "-m", "dhsic", *asked, *more]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    late, round_ = time.monotonic() + 120, tmp_path / "run/rounds/000005"
    while not round_.exists() and process.poll() is None and time.monotonic() < late:
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "resumed.tsv").exists()
    run("resume", tmp_path / "run")
    assert (tmp_path / "resumed.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()
