"""What each extra of the wheel is for, used where that extra alone is installed (`make extras`).

python tests/extras.py plot     # runs what belongs to it, and sees that the others say their names
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import dhsic
from dhsic.errors import InputError

rng = np.random.default_rng(0)
X = rng.integers(0, 3, (40, 30)).astype(float)
NAMES = [f"g{j}" for j in range(30)]
y = X[:, 3] > 0


def select(data):
    result = dhsic.select(data, y, n_features_to_select=3, progress=False)
    assert result["rank"].values[3] == 1
    return result


def none(folder):
    dhsic.save(select(pd.DataFrame(X, columns=NAMES)), folder / "all.tsv")


def anndata(folder):
    path = folder / "cells.h5ad"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    try:
        import h5py
    except ImportError:
        return select(path)
    with h5py.File(path, "w") as file:
        file["X"] = X
        for axis, names in (("obs", [f"c{i}" for i in range(40)]), ("var", NAMES)):
            group = file.create_group(axis)
            group["_index"] = np.array(names, dtype=h5py.string_dtype())
            group.attrs.update({"encoding-type": "dataframe", "_index": "_index"})
            group.attrs["column-order"] = np.array([], dtype=h5py.string_dtype())
    return select(path)


def plink(folder):
    path = folder / "x.pgen"
    path.touch()
    variants = "".join(f"1\t{j + 1}\t{name}\tA\tG\n" for j, name in enumerate(NAMES))
    path.with_suffix(".pvar").write_text(f"#CHROM\tPOS\tID\tREF\tALT\n{variants}")
    people = "".join(f"s{i}\n" for i in range(40))
    path.with_suffix(".psam").write_text(f"#IID\n{people}")
    try:
        import pgenlib
    except ImportError:
        return select(path)
    with pgenlib.PgenWriter(bytes(path), 40, 30, nonref_flags=False) as out:
        out.append_biallelic_batch(np.ascontiguousarray(X.T.astype(np.int8)))
    return select(path)


def parquet(folder):
    dhsic.save(select(X), folder / "all.parquet")
    assert len(pd.read_parquet(folder / "all.parquet")) == 30


def plot(folder):
    result = select(X)
    dhsic.plot.path(result).figure.savefig(folder / "path.png")
    dhsic.report(result, folder / "report.html")


def cloud(folder):
    from s3 import S3

    store = S3()
    os.environ |= store.environment | {"AWS_ALLOW_HTTP": "true"}
    dhsic.save(select(X), "s3://bucket/all.tsv")
    assert "all.tsv" in store.objects


EXTRAS = {extra.__name__: extra for extra in (none, anndata, plink, parquet, plot, cloud)}


def main(installed):
    for name, use in EXTRAS.items():
        with tempfile.TemporaryDirectory() as folder:
            if name in ("none", installed):
                use(Path(folder))
                continue
            try:
                use(Path(folder))
            except InputError as refused:
                if f"dhsic[{name}]" not in str(refused):
                    raise
            else:
                raise SystemExit(f"{name} worked without dhsic[{name}]: what is it for?")
    print(f"dhsic[{installed}] on Python {sys.version.split()[0]}: works, and names the others")


if __name__ == "__main__":
    main(sys.argv[1])
