"""Convert stores of the worst chunks, a sample or a feature each, under 1 GB; killed, and resumed.

``python benchmarks/converting.py [SAMPLES FEATURES KILLS]`` writes each store to a temporary
folder and prints time and peak memory of `dhsic convert --memory 1GB`, the size that was read and
written, and whether the bytes are the same after kills.
"""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import zarr

#: What a chunk holds of m samples and d features.
CHUNKS = {"a sample": lambda _, d: (1, d), "a feature": lambda m, _: (m, 1)}


def worst(path, m, d, chunks):
    """Write a matrix (samples, features) in such chunks."""
    names = ("samples", "features")
    array = zarr.create_array(path, shape=(m, d), chunks=chunks, dtype="f4", dimension_names=names)
    rng = np.random.default_rng(0)
    height, width = (1, d) if chunks[0] == 1 else (m, 2000)
    for i in range(0, m, height):
        for j in range(0, d, width):
            part = min(height, m - i), min(width, d - j)
            values = rng.standard_normal(part, dtype=np.float32).round(3)
            array[i : i + height, j : j + width] = values


def command(source, out):
    """`dhsic convert`, which prints its peak memory as JSON at the end."""
    code = (
        "import json, sys; from dhsic import convert; from dhsic.memory import peak_bytes;"
        "made = convert(sys.argv[1], sys.argv[2], memory_limit=10**9);"
        "print(json.dumps(made.to_dict() | {'peak': peak_bytes()}))"
    )
    return [sys.executable, "-c", code, str(source), str(out)]


def digest(folder):
    """Digest of all files of a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()


def killed(source, out, longest, n, rng):
    """Kill a conversion n times after random seconds; then let it end."""
    for _ in range(n):
        process = subprocess.Popen(command(source, out), stdout=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(1, longest / n))
        process.kill()
        process.wait()
    done = subprocess.run(command(source, out), check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main(m=2000, d=200_000, n_kills=4):
    """Print what it takes."""
    return [converted(m, d, n_kills, kind) for kind in CHUNKS]


def converted(m, d, n_kills, kind):
    """Convert a store of one kind: whether all is right, and the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        source, whole, resumed = (Path(folder) / name for name in ("in", "whole", "resumed"))
        worst(source, m, d, CHUNKS[kind](m, d))
        started = time.perf_counter()
        done = subprocess.run(command(source, whole), check=True, capture_output=True, text=True)
        took, made = time.perf_counter() - started, json.loads(done.stdout)
        raw = 4 * m * d
        print(f"{m:,} x {d:,} float32 ({raw / 1e9:.2f} GB raw), a chunk {kind}")
        print(f"chunks {made['chunks']}, {made['n_passes']} passes, {took:.0f} s", end=", ")
        print(f"{raw / took / 1e6:.0f} MB/s, peak memory {made['peak'] / 1e6:.0f} MB")
        again = killed(source, resumed, took, n_kills, random.Random(0))
        same = digest(whole) == digest(resumed)
        told = f"(resumed: {again['is_resumed']}, peak memory {again['peak'] / 1e6:.0f} MB)"
        print(f"killed {n_kills} times at random: the same bytes {same} {told}")
        values = zarr.open_array(whole / "X" if (whole / "X").exists() else whole, mode="r")
        theirs = zarr.open_array(source, mode="r")
        some = np.random.default_rng(1).choice(m, 5, replace=False)
        right = all((values[:, i] == theirs[i]).all() for i in some)
        print("values of 5 samples:", right, flush=True)
    return same and right and again["is_resumed"], max(made["peak"], again["peak"])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
