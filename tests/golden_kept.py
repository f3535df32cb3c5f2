"""Checkpoints of runs that were stopped, and results, as this version of their formats has them.

They lie in one archive of tests/data, a folder each. Two things of a checkpoint are not of its
format: the versions that it was begun with, and the folder of its store. What is unpacked has
those of today.
"""

import io
import json
import shutil
import tarfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import golden_data as data
import golden_table as table
from commands import run

import dhsic

ARCHIVE = Path(__file__).parent / "data" / "golden_kept.tar.xz"
#: Runs that were stopped, and after which round.
STOPPED = {
    "backward, chunks": 4,
    "backward, polynomial": 3,
    "backward, one at a time": 20,
    "backward, itself": 5,
    "forward, dosages": 2,
    "forward, low rank": 3,
    "floating": 4,
    "low rank, gaussian": 1,
    "low rank, real target": 3,
    "groups, gaussian": 4,
    "groups, forward": 2,
    "svm-rfe": 3,
    "weighting, random start": 2,
    "ccm, real target": 2,
}
#: The one that the command line ran.
COMMAND, COMMAND_ROUND = "backward, variants", 5
RESULTS = ("backward, cells", "groups, of a store", "floating", "one pass, b")
PLACE = "/the/folder/of/the/store"


class Enough(Exception):  # noqa: N818  # no error
    """The run has gone on for long enough."""


# -- what is kept ---------------------------------------------------------------------------------


def keep(folder):
    """Make all of them anew."""
    kept = folder / "kept"
    kept.mkdir()
    for name, last in STOPPED.items():
        with suppress(Enough):
            _go(name, folder, kept / name, stop_after=last)
    run(*_command(folder, kept / "command"))
    _cut(kept / "command", COMMAND_ROUND)
    for name in RESULTS:
        dhsic.save(table.selected(*table.SELECTIONS[name], folder), kept / f"result {name}")
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as packed:
        for file in sorted(kept.rglob("*")):
            if file.is_file() and file.name != "lock":
                content = file.read_bytes().replace(str(folder).encode(), PLACE.encode())
                about = tarfile.TarInfo(str(file.relative_to(kept)))
                about.size = len(content)
                packed.addfile(about, io.BytesIO(content))


def _go(name, folder, path, stop_after=None):
    """The result of a run with a checkpoint, and the rounds that it did."""
    source, options = table.SELECTIONS[name]
    heard = []

    def hear(record):
        heard.append(record["round"])
        if record["round"] == stop_after:
            raise Enough

    asked = options | {"checkpoint": str(path), "progress": hear}
    return table.selected(source, asked, folder), heard


def _command(folder, path):
    return ("select", data.store(folder, "variants"), "--target", "sample_trait", "-n", 8,
            "--checkpoint", path, "--out", folder / "command.zarr", "--no-progress")  # fmt: skip


def _cut(path, last):
    """Make of a checkpoint that is complete the one that a kill after this round would leave."""
    for later in (path / "rounds").glob("0*"):
        if int(later.name) > last:
            shutil.rmtree(later)
    _sign(path, last_round=last, complete=False)


def _sign(path, **changes):
    """Change what the root of a checkpoint says."""
    root = json.loads((path / "zarr.json").read_text())
    content = root["attributes"]["dhsic_checkpoint"]
    versions = changes.pop("versions", content["identity"]["versions"])
    content |= changes
    content["identity"]["versions"] = versions
    content.pop("sha256")
    content["sha256"] = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (path / "zarr.json").write_text(json.dumps(root, indent=1))


# -- what comes of it -----------------------------------------------------------------------------


def results(folder):
    """Pairs of the name of what was kept and of arrays; those of `meant` are to be the same."""
    kept = unpacked(folder)
    for name, last in STOPPED.items():
        result, rounds = _go(name, folder, begun_here(kept / name, folder))
        assert rounds[0] == last + 1, f"{name} went on with round {rounds[0]}, not {last + 1}"
        yield f"resumed: {name}", table.arrays_of(result)
    data.store(folder, "variants")
    run("resume", begun_here(kept / "command", folder), "--no-progress")
    yield f"resumed by command: {COMMAND}", table.arrays_of(dhsic.load(folder / "command.zarr"))
    for name in RESULTS:
        yield f"read: {name}", table.arrays_of(dhsic.load(kept / f"result {name}"))


def meant(name):
    """Name of the run that is to have the same result; runs of `golden_table` are themselves."""
    return name.partition(": ")[2] or name


def unpacked(folder):
    """The folder of all that is kept."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder / "kept", filter="data")
    return folder / "kept"


def begun_here(path, folder):
    """The same checkpoint, as if it had been begun by the versions that are here."""
    root = path / "zarr.json"
    root.write_text(root.read_text().replace(PLACE, str(folder)))
    _sign(path, versions=_versions(folder))
    return path


def _versions(folder):
    """What checkpoints that begin today say of versions."""
    path = folder / "begun.dhsic"
    if not path.exists():
        options = {"checkpoint": str(path), "method": "linear"}
        table.selected("few", options, folder)
    kept = json.loads((path / "zarr.json").read_text())["attributes"]["dhsic_checkpoint"]
    return kept["identity"]["versions"]
