"""`dhsic test` beside `plink2 --glm`, and `dhsic pairs` beside `plink1.9`, on simulated genotypes.

    python beside_plink.py missing    # calls that are missing more often in cases, or at random
    python beside_plink.py traits     # hits of four kinds of traits, and levels of permuted ones
    python beside_plink.py pairs      # planted pairs that are found, and time
    python beside_plink.py speed      # processor time of commands that do the same, one thread each

plink2 and plink1.9 are Debian packages of these names. Genotypes are unrelated samples in
Hardy-Weinberg equilibrium, written as .bed files that all programs read.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kept
import numpy as np
import pandas as pd
from scipy.stats import chi2
from tables import markdown, number

import dhsic

#: Samples, variants and planted pairs of a draw of `pairs`; share of cases in the cells of a pair.
PAIR_SAMPLES, PAIR_VARIANTS, PLANTED = 2_000, 4_000, 5
CASES = {"product": (0.44, 0.62), "exclusive or": (0.44, 0.60)}
#: Variants of the work whose time is compared, and the commands; the first is of dhsic.
SPEED = {"pairs": 10_000, "tests": 200_000}
PROGRAMS = {
    "pairs": {
        "dhsic pairs": "data.bed --labels y.tsv --target y --threads 1",
        "plink1.9 --fast-epistasis boost": "--bfile data --epi1 1e-6 --threads 1 --allow-no-sex",
    },
    "tests": {
        "dhsic test": "data.bed --labels y.tsv --target y --threads 1 --out t.tsv --force",
        "plink2 --glm": "allow-no-covars --bfile data --pheno y.tsv --threads 1 --out glm",
    },
}
GENOME_WIDE, LEVELS = 5e-8, (0.01, 1e-4)
#: Codes of a .bed file for 0, 1, 2 copies of A1 and for a missing call.
BED_CODES, MISSING = np.array([3, 2, 0, 1], dtype=np.uint8), 3
FREQUENCIES, SAMPLE_SIZES = (0.05, 0.2, 0.4), (500, 2_000, 10_000)
#: Share of calls that are missing in cases, or above the median of real labels, and in others.
MISSING_SHARES = {"10% and 2%": (0.10, 0.02), "6% in all": (0.06, 0.06)}
#: Samples and variants of the comparison of traits; causal variants and their share of variance.
M, D, CAUSAL, EXPLAINED = 2_000, 22_000, 20, 0.5


@dataclass(frozen=True)
class Beside:
    """p-values of both programs for the same variants, (d,) each; NaN where there is none."""

    dhsic: np.ndarray
    plink: np.ndarray


def write_bed(prefix, dosages, chromosome=1):
    """Write dosages of A1 (m, d) with 3 where a call is missing as .bed, .bim and .fam."""
    m, d = dosages.shape
    codes = np.zeros((d, 4 * -(-m // 4)), dtype=np.uint8)
    codes[:, :m] = BED_CODES[dosages.T]
    packed = codes[:, 0::4] | codes[:, 1::4] << 2 | codes[:, 2::4] << 4 | codes[:, 3::4] << 6
    Path(f"{prefix}.bed").write_bytes(b"\x6c\x1b\x01" + packed.tobytes())
    variants = (f"{chromosome}\tv{j}\t0\t{1000 * (j + 1)}\tA\tC\n" for j in range(d))
    Path(f"{prefix}.bim").write_text("".join(variants))
    samples = (f"0\ti{i}\t0\t0\t1\t-9\n" for i in range(m))
    Path(f"{prefix}.fam").write_text("".join(samples))


def p_of_plink(prefix, y, folder):
    """p-values of `plink2 --glm`, logistic regression (hybrid with Firth's) for two classes."""
    are_classes = np.unique(y).size == 2
    labels = y + 1 if are_classes else y
    names = [f"i{i}" for i in range(y.size)]
    pd.DataFrame({"#IID": names, "t": labels}).to_csv(folder / "t.txt", sep="\t", index=False)
    command = ("plink2", "--bfile", prefix, "--pheno", folder / "t.txt", "--threads", 2,
               "--glm", "allow-no-covars", "--out", folder / "glm")  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    end = "glm.logistic.hybrid" if are_classes else "glm.linear"
    return pd.read_csv(folder / f"glm.t.{end}", sep="\t")["P"].to_numpy()


def p_of_both(dosages, y, folder, seconds=None):
    """p-values of both programs for variants (m, d) and labels (m,); adds to their `seconds`."""
    prefix, seconds = folder / "data", {} if seconds is None else seconds
    write_bed(prefix, dosages)
    with timed(seconds, "dhsic"):
        ours = dhsic.test_features(f"{prefix}.bed", y, by_position=True, missing="mean").p_values
    with timed(seconds, "plink"):
        theirs = p_of_plink(prefix, y, folder)
    return Beside(ours, theirs)


@contextmanager
def timed(seconds, program):
    """Add the processor seconds of this process and of the programs that it runs."""
    began = sum(os.times()[:4])
    yield
    seconds[program] = seconds.get(program, 0.0) + sum(os.times()[:4]) - began


def draw_pairs(kind, rng):
    """Unlinked dosages (m, d), cases (m,), and planted pairs of variants that act only together."""
    frequency = rng.uniform(0.2, 0.5, PAIR_VARIANTS)
    dosages = rng.binomial(2, frequency, (PAIR_SAMPLES, PAIR_VARIANTS)).astype(np.uint8)
    planted = rng.choice(PAIR_VARIANTS, (PLANTED, 2), replace=False)
    odds = np.zeros(PAIR_SAMPLES)
    low, high = (np.log(share / (1 - share)) for share in CASES[kind])
    for i, j in planted:
        a, b = (dosages[:, k] - dosages[:, k].mean() for k in (i, j))
        acts = a * b > 0 if kind == "product" else (dosages[:, i] > 0) != (dosages[:, j] > 0)
        odds += np.where(acts, high, low)
    return dosages, (rng.random(PAIR_SAMPLES) < 1 / (1 + np.exp(-odds))).astype(int), planted


def pairs_of_plink(prefix, y, folder):
    """Significant pairs of `plink1.9 --fast-epistasis boost`, after Bonferroni's correction."""
    fam = pd.read_csv(f"{prefix}.fam", sep="\t", header=None)
    fam[5] = y + 1
    fam.to_csv(f"{prefix}.fam", sep="\t", header=False, index=False)
    level = 0.05 / (PAIR_VARIANTS * (PAIR_VARIANTS - 1) / 2)
    command = ("plink1.9", "--bfile", prefix, "--fast-epistasis", "boost", "--epi1", level,
               "--threads", 2, "--allow-no-sex", "--out", folder / "epi")  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    found = pd.read_csv(folder / "epi.epi.cc", sep=r"\s+")
    return {frozenset(pair) for pair in zip(found["SNP1"], found["SNP2"], strict=True)}


def pairs_of_dhsic(prefix, y):
    """Pairs of `dhsic pairs` with a family-wise p-value of at most 0.05."""
    found = dhsic.find_pairs(f"{prefix}.bed", y, by_position=True)
    found = found.isel(pairs=found["family_wise"].to_numpy() <= 0.05)
    names = zip(found["first_feature"].values, found["second_feature"].values, strict=True)
    return {frozenset(pair) for pair in names}


def pairs(options, folder):
    """Planted pairs found, other pairs found, and processor seconds of a scan."""
    rng, records = np.random.default_rng(options.seed), []
    for kind in CASES:
        counts = {"dhsic pairs": [0, 0], "plink1.9 --fast-epistasis boost": [0, 0]}
        seconds = {}
        for _ in range(options.repetitions):
            dosages, y, planted = draw_pairs(kind, rng)
            true = {frozenset((f"v{i}", f"v{j}")) for i, j in planted}
            write_bed(folder / "data", dosages)
            for program, count in counts.items():
                with timed(seconds, program):
                    if program.startswith("dhsic"):
                        found = pairs_of_dhsic(folder / "data", y)
                    else:
                        found = pairs_of_plink(folder / "data", y, folder)
                count[0] += len(found & true)
                count[1] += len(found - true)
        for program, (found, false) in counts.items():
            records.append({
                "effect": kind, "program": program, "found": found, "false": false,
                "planted": PLANTED * options.repetitions,
                "seconds": round(seconds[program] / options.repetitions, 2),
                "samples": PAIR_SAMPLES, "features": PAIR_VARIANTS,
            })  # fmt: skip
            print(records[-1], file=sys.stderr, flush=True)
    print(markdown(("effect", "program", "planted", "found", "others", "seconds"), [
        [r["effect"], r["program"], r["planted"], r["found"], r["false"], number(r["seconds"], 1)]
        for r in records
    ]))  # fmt: skip
    keep_all(options, records)


def keep_all(options, records):
    """Keep records with the versions of both programs of PLINK."""
    versions = {name: kept.version_of(name) for name in ("dhsic", "numpy")}
    for program in ("plink1.9", "plink2"):
        if shutil.which(program):
            words = subprocess.run(
                [program, "--version"], capture_output=True, text=True, check=True
            )
            versions[program] = words.stdout.split()[1]
    kept.keep(options, records, versions=versions)


def inflation(p_values):
    """Median chi-square of one degree of freedom over that of chance (genomic control)."""
    p_values = p_values[np.isfinite(p_values)]
    return chi2.isf(np.median(p_values), 1) / chi2.median(1)


def draw_labels(kind, m, rng):
    """Labels that nothing explains, and whether a sample is a case or above the median, (m,)."""
    if kind == "real values":
        y = rng.standard_normal(m)
        return y, y > np.median(y)
    cases = int(m / {"two classes, 1:1": 2, "two classes, 1:20": 21}[kind])
    y = rng.permutation(np.arange(m) < cases).astype(int)
    return y, y == 1


def missing(options, folder):
    """Null variants, of which calls are missing more often in cases, or in all alike."""
    rng, rows = np.random.default_rng(options.seed), []
    for shares, (in_cases, in_others) in MISSING_SHARES.items():
        for kind in ("two classes, 1:1", "two classes, 1:20", "real values"):
            for m in SAMPLE_SIZES:
                row = [shares, kind, f"{m:,}"]
                for frequency in FREQUENCIES:
                    y, is_case = draw_labels(kind, m, rng)
                    dosages = rng.binomial(2, frequency, (m, options.variants)).astype(np.uint8)
                    share = np.where(is_case, in_cases, in_others)[:, None]
                    dosages[rng.random(dosages.shape) < share] = MISSING
                    both = p_of_both(dosages, y, folder)
                    row += [number(inflation(both.dhsic), 3), number(inflation(both.plink), 3)]
                rows.append(row)
                print(*row, file=sys.stderr, flush=True)
    programs = [f"{f:g}: {program}" for f in FREQUENCIES for program in ("dhsic", "PLINK")]
    print(f"\nlambda of {options.variants:,} null variants, by frequency and program\n")
    print(markdown(("missing calls", "labels", "samples", *programs), rows))


def trait(kind, value):
    """Labels of a kind from a liability (m,) of deviation 1."""
    if kind == "normal":
        return value
    if kind == "log-normal":
        return np.exp(value)
    share = {"two classes": 0.5, "3% cases": 0.03}[kind]
    return (value > np.quantile(value, 1 - share)).astype(int)


def traits(options, folder):
    """Hits of PLINK that dhsic has, and p-values of permuted traits below two levels."""
    rng, rows, records = np.random.default_rng(options.seed), [], []
    frequency = rng.uniform(0.05, 0.5, D)
    dosages = rng.binomial(2, frequency, (M, D)).astype(np.uint8)
    for kind in ("normal", "log-normal", "two classes", "3% cases"):
        hits = found = hits_of_dhsic = 0
        below, seconds = {program: np.zeros(len(LEVELS)) for program in ("dhsic", "plink")}, {}
        for _ in range(options.repetitions):
            causal = rng.choice(D, CAUSAL, replace=False)
            signal = scaled(dosages[:, causal].astype(float)) @ rng.standard_normal(CAUSAL)
            noise = np.sqrt(1 - EXPLAINED) * rng.standard_normal(M)
            y = trait(kind, np.sqrt(EXPLAINED) * scaled(signal) + noise)
            both = p_of_both(dosages, y, folder, seconds)
            is_hit = both.plink < GENOME_WIDE
            hits += is_hit.sum()
            found += (is_hit & (both.dhsic < GENOME_WIDE)).sum()
            hits_of_dhsic += (both.dhsic < GENOME_WIDE).sum()
            null = p_of_both(dosages, rng.permutation(y), folder)
            for program in below:
                p_values = getattr(null, program)
                below[program] += [np.nanmean(p_values <= level) / level for level in LEVELS]
        levels = [number(sum_ / options.repetitions, 2) for sum_ in np.ravel([*below.values()])]
        rows.append([kind, hits, found, number(100 * found / max(hits, 1), 1), hits_of_dhsic])
        rows[-1] += levels
        by_program = {
            f"{program} {level:g}": round(float(sums[i] / options.repetitions), 3)
            for program, sums in below.items()
            for i, level in enumerate(LEVELS)
        }
        records.append({
            "trait": kind, "hits_plink": int(hits), "both": int(found),
            "hits_dhsic": int(hits_of_dhsic), "levels": by_program,
            "seconds": {k: round(v / options.repetitions, 2) for k, v in seconds.items()},
            "repetitions": options.repetitions, "samples": M, "features": D,
        })  # fmt: skip
        print(*rows[-1], file=sys.stderr, flush=True)
    heads = ("trait", "hits of PLINK", "of these dhsic", "percent", "hits of dhsic",
             "permuted, dhsic: 0.01", "1e-4", "PLINK: 0.01", "1e-4")  # fmt: skip
    print(f"\n{M:,} samples, {D:,} variants, {CAUSAL} causal, {options.repetitions} traits each\n")
    print(markdown(heads, rows))
    keep_all(options, records)


def scaled(X):
    """Columns or values of mean 0 and deviation 1."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def speed(options, folder):
    """Median processor seconds of commands of dhsic and PLINK for the same work, and the ratio."""
    rng, m, records = np.random.default_rng(options.seed), PAIR_SAMPLES, []
    for work, d in SPEED.items():
        dosages = rng.binomial(2, rng.uniform(0.05, 0.5, d), (m, d)).astype(np.uint8)
        write_bed(folder / "data", dosages)
        y = rng.integers(1, 3, m) if work == "pairs" else rng.standard_normal(m)
        table = pd.DataFrame({"#FID": 0, "IID": [f"i{i}" for i in range(m)], "y": y})
        table.to_csv(folder / "y.tsv", sep="\t", index=False)
        fam = pd.read_csv(folder / "data.fam", sep="\t", header=None)
        fam[5] = y
        fam.to_csv(folder / "data.fam", sep="\t", header=False, index=False)
        seconds = {program: [] for program in PROGRAMS[work]}
        for _ in range(options.repetitions):
            for program, words in PROGRAMS[work].items():
                began = sum(os.times()[2:4])
                environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
                subprocess.run(
                    [*program.split(), *words.split()], cwd=folder, env=environment,
                    capture_output=True, check=True,
                )  # fmt: skip
                seconds[program].append(sum(os.times()[2:4]) - began)
        ours, theirs = (float(np.median(of)) for of in seconds.values())
        names = list(seconds)
        records.append({
            "work": work, "samples": m, "variants": d, "plink": names[1],
            "seconds": round(ours, 2), "seconds_of_plink": round(theirs, 2),
            "ratio": round(ours / theirs, 2),
        })  # fmt: skip
        print(records[-1], file=sys.stderr, flush=True)
    print(markdown(("work", "samples", "variants", "dhsic, s", "PLINK, s", "ratio"), [
        [r["work"], r["samples"], f"{r['variants']:,}", r["seconds"], r["seconds_of_plink"],
         r["ratio"]] for r in records
    ]))  # fmt: skip
    keep_all(options, records)


COMMANDS = {"speed": speed, "missing": missing, "traits": traits, "pairs": pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=int, default=20_000, help="null variants of a setting")
    parser.add_argument("--repetitions", type=int, default=10, help="traits, or pairs, of a kind")
    kept.add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        COMMANDS[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
