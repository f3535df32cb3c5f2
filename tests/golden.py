"""Golden files: rankings and scores as they are today, to the last bit.

`results` does all runs of `golden_table` and of `golden_kept` and gives what they found as plain
data; `told` compares two such. Bits of sums depend on the instructions that BLAS and NumPy choose
for the processor, so the runs are done in a process of `PINNED` instructions, and `probe` says
whether two machines do the same arithmetic even so.

``python tests/golden.py --write`` writes the files of tests/data anew, which is right only where
results are meant to change; ``python tests/golden.py FILE`` writes what is found to another file.
"""

import json
import lzma
import math
import os
import subprocess
import sys
import tempfile
import warnings
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.linalg

GOLDEN = Path(__file__).parent / "data" / "golden.json.xz"
#: Arrays longer than this are kept as a digest and their first values.
LONGEST, FIRST = 400, 16
#: How close numbers are where machines round differently: in parts of the largest of an array
#: (scores that decide nothing are of float32, machines of SVMs stop at 1e-3), and at all.
NEAR, NOISE = 1e-6, 1e-18
#: In names of what differs wherever rounding does.
ABOUT_ROUNDING = ("error", "round_order", "round_rank", "products", "residual", "evaluations")


# -- arithmetic -----------------------------------------------------------------------------------


def pinned():
    """An environment of one thread, and of instructions that most x86 processors have."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    wide = [name for name in found if name.startswith("AVX512") or name == "X86_V4"]
    kept = {k: v for k, v in os.environ.items() if k not in ("DHSIC_DEVICE", "PYTHONWARNINGS")}
    return kept | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(wide),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def probe():
    """Digest of what this process computes: products, sums, functions and factors."""
    from golden_data import bells

    X = bells(1, 97, 301)
    y, G = X.astype(np.float32), X @ X.T / 301 + np.eye(97)
    found = [X @ X.T, y @ y.T, y.T @ y, X @ X[0], X.sum(axis=0), X.sum(axis=1), y.sum(axis=1)]
    found += [np.exp(X), np.exp(y), np.log(np.abs(X) + 1), np.cos(X), np.tanh(X), np.sqrt(G + 4)]
    found += [np.einsum("ij,ij->i", X, X), np.abs(X) ** 0.3, X.std(axis=0), np.linalg.cholesky(G)]
    found += [*np.linalg.eigh(G), *np.linalg.svd(X[:, :40]), np.linalg.qr(X[:, :40])[0]]
    found += [scipy.linalg.cho_solve(scipy.linalg.cho_factor(G), X), *scipy.linalg.eigh(G)]
    found += [scipy.linalg.blas.dsyrk(1.0, X), scipy.linalg.blas.sgemm(1.0, y, y.T)]
    found += [np.array([math.exp(x) + math.lgamma(x + 9) for x in X[0]])]
    return sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in found)).hexdigest()


def arithmetic():
    """What bits depend on besides the code of dhsic."""
    return {"probe": probe()} | {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}


# -- arrays as plain data -------------------------------------------------------------------------


def plain(array):
    """An array as JSON has it: whole numbers and texts as they are, others by their bits."""
    flat = array.ravel()
    if array.dtype.kind == "f":
        values = np.where(np.isnan(flat), np.nan, flat).astype(">f8")  # NaN of one pattern
        content = values.tobytes().hex()
        first = content[: FIRST * 16]
    else:
        content = [str(v) for v in flat] if array.dtype.kind in "OUT" else flat.tolist()
        first = content[:FIRST]
    about = {"dtype": str(array.dtype) if array.dtype.kind != "O" else "text"}
    about["shape"] = list(array.shape)
    if flat.size <= LONGEST:
        return about | {"values": content}
    digest = sha256(json.dumps(content).encode()).hexdigest()
    return about | {"values": first, "sha256": digest}


def floats(values):
    return np.frombuffer(bytes.fromhex(values), dtype=">f8")


def results(folder):
    """What all runs find, as plain data."""
    import golden_kept
    import golden_table

    found = {}
    for module in (golden_table, golden_kept):
        for name, arrays in module.results(folder):
            found[name] = {k: plain(np.asarray(v)) for k, v in sorted(arrays.items())}
    return found


# -- what differs ---------------------------------------------------------------------------------


def told(found, golden, *, exactly):
    """Sentence on the first difference of two runs, as arrays by name; None where there is none."""
    missing = sorted(set(golden) - set(found))
    if missing:
        return f"{', '.join(missing)}: not there"
    for name in golden:
        if exactly or not any(word in name for word in ABOUT_ROUNDING):
            difference = _difference(found[name], golden[name], exactly=exactly)
            if difference:
                return f"{name}: {difference}"
    return None


def _difference(found, golden, *, exactly):
    """The same of two arrays; where bits differ, of numbers, and of ranks that are all kept."""
    real = golden["dtype"].startswith("float")
    if found == golden or not (exactly or real or golden["dtype"] in ("int64", "bool")):
        return None
    about = [[each[k] for k in ("dtype", "shape")] for each in (found, golden)]
    if about[0] != about[1]:
        return f"is of {about[0]} and was of {about[1]}"
    a, b = (
        floats(each["values"]) if real else np.array(each["values"]) for each in (found, golden)
    )
    if exactly or not real:
        apart = ~((a == b) | (a != a) & (b != b)) if real else a != b  # NaN
    else:
        apart = ~np.isclose(a, b, 0, NOISE + NEAR * np.nanmax(np.abs(b), initial=0), equal_nan=True)
    if "sha256" in golden and not exactly and not real:
        return None  # in low rank the order of neighbours is that of their errors
    if apart.any():
        at = int(np.flatnonzero(apart)[0])
        was = f"first at {at}: is {a.flat[at]!r} and was {b.flat[at]!r}"
        return f"{apart.sum()} of {b.size} values differ, {was}"
    return "values beyond the first differ (sha256)" if exactly else None


# -- files ----------------------------------------------------------------------------------------


def found_here(to):
    """What runs in a process of pinned instructions find, by way of the file `to`."""
    command = [sys.executable, "-W", "ignore", __file__, str(to)]
    done = subprocess.run(command, env=pinned(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return read(to)


def write(to, *, anew=False):
    """Do all runs and write what they find; `anew`: what is kept in tests/data first."""
    import golden_kept

    if anew:
        with tempfile.TemporaryDirectory() as folder:
            golden_kept.keep(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        found = results(Path(folder))
    if anew:  # what is to be the same as another run is not kept twice
        found = {name: arrays for name, arrays in found.items() if golden_kept.meant(name) == name}
    with lzma.open(to, "wt") as file:
        json.dump({"arithmetic": arithmetic(), "runs": found}, file)


def read(path):
    """What `write` wrote."""
    with lzma.open(path, "rt") as file:
        return json.load(file)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:] != ["--write"]:
        write(Path(sys.argv[1]))
    elif os.environ.get("OPENBLAS_CORETYPE") == "Haswell":
        write(GOLDEN, anew=True)
    else:
        os.execve(sys.executable, [sys.executable, __file__, "--write"], pinned())
