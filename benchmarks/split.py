"""`dhsic test` of genotypes in one file per chromosome, beside one file with the same variants.

    python split.py DIRECTORY                                # 22 files of 2,000 x 5,000, .bed
    python split.py DIRECTORY --variants 50000               # 22 files of 2,000 x 50,000
    python split.py DIRECTORY --format zarr

The two commands run in turn. Genotypes are drawn at random, and reused if DIRECTORY has them.
POSIX alone, which counts the processor time of a child.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
from bare_reads import taken
from tables import markdown, number

#: Variants that are drawn at once.
DRAWN = 1000
#: Codes of .bed for 0, 1 and 2 copies of A1.
CODES = np.array([3, 2, 0], dtype=np.uint8)


def write_bed(path, m, d, chromosomes, rng):
    """Write .bed, .bim and .fam of d random variants on each of some chromosomes."""
    people = "".join(f"{i} i{i} 0 0 0 {value:.4f}\n" for i, value in enumerate(trait(m)))
    path.with_suffix(".fam").write_text(people)
    with path.with_suffix(".bim").open("w") as bim, path.with_suffix(".part").open("wb") as bed:
        bed.write(b"\x6c\x1b\x01")
        for chromosome in chromosomes:
            lines = (f"{chromosome}\trs{chromosome}_{j}\t0\t{10 * j + 1}\tA\tG\n" for j in range(d))
            bim.writelines(lines)
            for start in range(0, d, DRAWN):
                n = min(DRAWN, d - start)
                calls = rng.binomial(2, rng.uniform(0.05, 0.5, (n, 1)), (n, m))
                codes = np.zeros((n, -(-m // 4) * 4), dtype=np.uint8)
                codes[:, :m] = CODES[calls]
                bed.write((codes.reshape(n, -1, 4) << np.array([0, 2, 4, 6])).sum(2).astype("u1"))
    path.with_suffix(".part").rename(path)


def trait(m):
    return np.random.default_rng(0).standard_normal(m)


def files(folder, m, d, n_files, form):
    """Paths of the file with all variants, and of the files of one chromosome each."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / f"whole-{m}x{n_files * d}.bed"
    parts = [folder / f"part-{m}x{d}-chr{k}.bed" for k in range(1, n_files + 1)]
    if not whole.exists():
        write_bed(whole, m, d, range(1, n_files + 1), np.random.default_rng(1))
        body = np.memmap(whole, dtype=np.uint8, mode="r", offset=3).reshape(n_files, -1)
        lines = whole.with_suffix(".bim").read_text().splitlines(keepends=True)
        for k, part in enumerate(parts):
            part.with_suffix(".fam").write_text(whole.with_suffix(".fam").read_text())
            part.with_suffix(".bim").write_text("".join(lines[k * d : (k + 1) * d]))
            part.write_bytes(b"\x6c\x1b\x01" + body[k].tobytes())
    if form == "bed":
        return whole, parts
    stores = [path.with_suffix(".zarr") for path in (whole, *parts)]
    for path, store in zip((whole, *parts), stores, strict=True):
        if not store.exists():
            command = [sys.executable, "-m", "dhsic", "convert", path, store]
            subprocess.run(command, check=True, capture_output=True)
    return stores[0], stores[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--variants", type=int, default=5000, help="in each file")
    parser.add_argument("--files", type=int, default=22)
    parser.add_argument("--format", choices=["bed", "zarr"], default="bed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    whole, parts = files(
        options.folder, options.samples, options.variants, options.files, options.format
    )
    labels = options.folder / f"trait-{options.samples}.tsv"
    values = trait(options.samples)
    labels.write_text("IID\ty\n" + "".join(f"i{i}\t{v:.4f}\n" for i, v in enumerate(values)))
    test = (sys.executable, "-m", "dhsic", "test", "--labels", labels, "--target", "y")
    command = [*map(str, test), "--threads", str(options.threads)]
    pairs = [
        (taken([*command, str(whole)]), taken([*command, *map(str, parts)]))
        for _ in range(options.repeat)
    ]
    heads = ("", "one file", f"{options.files} files", "ratio", "ratio of each pair")
    rows = []
    for k, name in enumerate(("clock, s", "processor, s", "peak, GB")):
        one, several = (median(pair[i][k] for pair in pairs) for i in range(2))
        each = ", ".join(f"{pair[1][k] / pair[0][k]:.2f}" for pair in pairs)
        rows.append([name, number(one, 2), number(several, 2), f"{several / one:.2f}", each])
    print(markdown(heads, rows))


if __name__ == "__main__":
    main()
