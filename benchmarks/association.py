"""`dhsic test` beside PLINK 2 and a mixed model, on genotypes of 1,940 mice.

    python association.py traits DIRECTORY    # two traits and permutations of them, beside PLINK
    python association.py mixed DIRECTORY     # simulated traits, --loco beside mixed models

DIRECTORY has mouse_hs1940.vcf.gz and mouse_hs1940.pheno (the example data of GEMMA). plink2 and
gemma are Debian packages of these names; without gemma its columns stay empty. REGENIE and GCTA are
in no package index. The mixed model is that of GCTA (MLMA-LOCO), written here: for each chromosome,
variance components of the relationship matrix of all others by REML, then generalised least squares
of each variant.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.stats import chi2
from tables import markdown, number

import dhsic
from dhsic.criteria.independence import inflation_of

GENOME_WIDE, LEVELS = 5e-8, (0.01, 1e-4)
TRAITS = {"CD8": "test0", "MCH": "test5"}
CHROMOSOMES = range(1, 20)


def run(*command):
    """Run a command and return nothing; its output is shown if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def genotypes_of(vcf, folder, maf, *options):
    """Write PLINK's files of variants of a frequency of `maf` or more, and return their prefix."""
    out = folder / f"mice_{maf}"
    run("plink2", "--vcf", vcf, "--double-id", "--maf", maf, *options, "--make-bed", "--out", out)
    return out


def p_of_plink(prefix, values, folder):
    """p-values of `plink2 --glm` for traits, columns of `values` (m, t): (d, t)."""
    ids = pd.read_csv(f"{prefix}.fam", sep=r"\s+", header=None, dtype=str)[1]
    names = [f"t{k}" for k in range(values.shape[1])]
    table = pd.DataFrame(values, columns=names)
    table.insert(0, "IID", ids)
    table.insert(0, "#FID", ids)
    table.to_csv(folder / "traits.txt", sep="\t", index=False)
    run("plink2", "--bfile", prefix, "--pheno", folder / "traits.txt", "--glm", "allow-no-covars",
        "--out", folder / "glm")  # fmt: skip
    return np.column_stack(
        [pd.read_csv(folder / f"glm.{name}.glm.linear", sep="\t")["P"] for name in names]
    )


def p_of_dhsic(prefix, y, **options):
    """p-values of `dhsic test`, (d,)."""
    return dhsic.test_features(f"{prefix}.bed", y, by_position=True, **options).p_values


def traits(options, folder):
    """Two traits, and permutations of each, beside PLINK."""
    rng, rows = np.random.default_rng(options.seed), []
    table = pd.read_csv(
        options.directory / "mouse_hs1940.pheno", sep="\t", index_col=0, dtype={0: str}
    )
    for name, column in TRAITS.items():
        y = table[column].dropna()
        keep = folder / "keep.txt"
        keep.write_text("".join(f"{iid}\t{iid}\n" for iid in y.index))
        vcf = options.directory / "mouse_hs1940.vcf.gz"
        prefix = genotypes_of(vcf, folder, 0.01, "--keep", keep)
        values = y.to_numpy()
        ours, theirs = p_of_dhsic(prefix, values), p_of_plink(prefix, values[:, None], folder)[:, 0]
        hits = theirs < GENOME_WIDE
        both = np.isfinite(theirs) & (theirs > 0)
        rank = pd.Series(-np.log10(ours[both])).corr(pd.Series(-np.log10(theirs[both])), "spearman")
        permuted = np.column_stack([rng.permutation(values) for _ in range(options.permutations)])
        null = np.concatenate([p_of_dhsic(prefix, column) for column in permuted.T])
        of_plink = p_of_plink(prefix, permuted, folder).ravel()
        rows.append(
            [
                name,
                f"{len(y):,} x {len(ours):,}",
                f"{hits.sum():,}",
                f"{(hits & (ours < GENOME_WIDE)).sum():,}",
                f"{100 * np.mean(ours[hits] < GENOME_WIDE):.1f}%",
                f"{(ours < GENOME_WIDE).sum():,}",
                number(rank, 3),
                *(number(np.mean(null <= level) / level, 2) for level in LEVELS),
                *(number(np.nanmean(of_plink <= level) / level, 2) for level in LEVELS),
            ]
        )
    heads = ("trait", "mice x variants", "hits of PLINK", "of these dhsic", "part", "hits of dhsic",
             "Spearman", "permuted, dhsic: 0.01", "1e-4", "PLINK: 0.01", "1e-4")  # fmt: skip
    print(markdown(heads, rows))


class MixedModel:
    """A linear mixed model with the relationship matrix of variants Z (m, d), standardised."""

    def __init__(self, Z):
        eigenvalues, self.U = np.linalg.eigh(Z @ Z.T / Z.shape[1])
        self.eigenvalues = np.maximum(eigenvalues, 0.0)
        self.ones = self.U.T @ np.ones(len(Z))

    def fit(self, y):
        """Rotate the trait, and find the share of the variance that is genetic by REML."""
        y = self.U.T @ y

        def minus_likelihood(h2):
            v = h2 * self.eigenvalues + 1 - h2
            information = (self.ones**2 / v).sum()
            residual = y - self.ones * (self.ones * y / v).sum() / information
            square = (residual**2 / v).sum()
            return (len(y) - 1) * np.log(square) + np.log(v).sum() + np.log(information)

        h2 = minimize_scalar(minus_likelihood, bounds=(0.0, 0.999), method="bounded").x
        return y, h2 * self.eigenvalues + 1 - h2

    def p_values(self, y, X):
        """p-values of variants X (m, d), rotated by U already, each beside an intercept."""
        y, v = self.fit(y)
        w = 1 / v
        information = (w * self.ones**2).sum()
        X = X - np.outer(self.ones, (w * self.ones) @ X / information)
        y = y - self.ones * (w * self.ones * y).sum() / information
        inner, sizes = (w * y) @ X, (w[:, None] * X * X).sum(axis=0)
        beta = inner / sizes
        variance = ((w * y * y).sum() - beta * inner) / (len(y) - 2)
        return chi2.sf(beta**2 * sizes / variance, 1)


def p_of_gemma(prefix, y, folder):
    """p-values of GEMMA's Wald test with the relationship matrix of all chromosomes, (d,)."""
    fam = pd.read_csv(f"{prefix}.fam", sep=r"\s+", header=None, dtype=str)
    fam[5] = y
    copy = folder / "gemma"
    for suffix in ("bed", "bim"):
        if not copy.with_suffix(f".{suffix}").exists():
            shutil.copy(f"{prefix}.{suffix}", copy.with_suffix(f".{suffix}"))
    fam.to_csv(copy.with_suffix(".fam"), sep=" ", header=False, index=False)
    files = ("gemma", "-bfile", copy, "-outdir", folder, "-maf", 0, "-miss", 1, "-r2", 1)
    if not (folder / "kinship.cXX.txt").exists():
        run(*files, "-gk", 1, "-o", "kinship")
    run(*files, "-k", folder / "kinship.cXX.txt", "-lmm", 1, "-o", "lmm")
    p = pd.read_csv(folder / "lmm.assoc.txt", sep="\t").set_index("rs")["p_wald"]
    return p.reindex(pd.read_csv(f"{prefix}.bim", sep="\t", header=None)[1]).to_numpy()


def mixed(options, folder):
    """Traits of many genes on odd chromosomes, and one causal variant there; even ones are null."""
    prefix = genotypes_of(options.directory / "mouse_hs1940.vcf.gz", folder, 0.05)
    source = dhsic.open_source(f"{prefix}.bed")
    blocks = source.blocks(source.n_features)
    G = np.concatenate([source.read(block) for block in blocks], axis=1).astype(float)
    G[G < 0] = np.nan
    Z = (G - np.nanmean(G, axis=0)) / np.nanstd(G, axis=0)
    Z[np.isnan(Z)] = 0.0
    chromosome = pd.read_csv(f"{prefix}.bim", sep="\t", header=None)[0].to_numpy(int)
    odd, m = np.flatnonzero(chromosome % 2), len(Z)
    models = {c: MixedModel(Z[:, chromosome != c]) for c in CHROMOSOMES}
    rotated = {c: models[c].U.T @ Z[:, chromosome == c] for c in CHROMOSOMES}

    def loco_model(y):
        p = np.empty(Z.shape[1])
        for c in CHROMOSOMES:
            p[chromosome == c] = models[c].p_values(y, rotated[c])
        return p

    methods = {
        "nothing taken out (score test)": lambda y: chi2.sf(
            m * np.square(Z.T @ y / m) / y.var(), 1
        ),
        "dhsic test": lambda y: p_of_dhsic(prefix, y),
        "dhsic test --loco": lambda y: p_of_dhsic(prefix, y, loco=True),
        "mixed model, chromosome left out": loco_model,
    }
    if shutil.which("gemma"):
        methods["GEMMA, all chromosomes"] = lambda y: p_of_gemma(prefix, y, folder)
    p_values = {name: [] for name in methods}
    at = {name: [] for name in methods}
    for repetition in range(options.repetitions):
        rng = np.random.default_rng((options.seed, repetition))
        causal, *others = rng.choice(odd, options.genes + 1, replace=False)
        polygenic = Z[:, others] @ rng.standard_normal(options.genes)
        noise = rng.standard_normal(m)
        parts = options.causal, options.polygenic, 1 - options.causal - options.polygenic
        values = zip(parts, (Z[:, causal], polygenic, noise), strict=True)
        y = sum(np.sqrt(part) * (each - each.mean()) / each.std() for part, each in values)
        y -= y.mean()
        near = chromosome == chromosome[causal]
        near[near] = np.square(Z[:, near].T @ Z[:, causal] / m) > 0.5
        for name, method in methods.items():
            if name.startswith("GEMMA") and repetition >= options.gemma:
                continue
            p = method(y)
            p_values[name].append(p[chromosome % 2 == 0])
            at[name].append(np.nanmin(p[near]))
    rows = []
    for name in methods:
        null, best = np.concatenate(p_values[name]), np.array(at[name])
        rows.append(
            [
                name,
                len(best),
                *(number(np.nanmean(null <= level) / level, 2) for level in LEVELS),
                number(np.median([inflation_of(p[np.isfinite(p)]) for p in p_values[name]]), 2),
                f"{int(sum((p < GENOME_WIDE).any() for p in p_values[name]))}",
                *(number(np.mean(best < level), 2) for level in (1e-5, GENOME_WIDE)),
                number(np.median(-np.log10(best)), 1),
            ]
        )
    heads = ("", "traits", "level at 0.01", "at 1e-4", "lambda", "traits with a false hit (5e-8)",
             "power at 1e-5", "at 5e-8", "median -log10 p")  # fmt: skip
    print(markdown(heads, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("traits", "mixed"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--permutations", type=int, default=100, help="of each trait")
    parser.add_argument("--repetitions", type=int, default=40, help="simulated traits")
    parser.add_argument("--gemma", type=int, default=10, help="simulated traits for GEMMA")
    parser.add_argument("--genes", type=int, default=400)
    parser.add_argument("--polygenic", type=float, default=0.5, help="part of the variance")
    parser.add_argument("--causal", type=float, default=0.02, help="part of the variance")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"traits": traits, "mixed": mixed}[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
