"""`dhsic test` beside PLINK 2 and a mixed model, on genotypes of 1,940 mice.

    python association.py traits DIRECTORY    # two traits and permutations of them, beside PLINK
    python association.py mixed DIRECTORY     # simulated traits, --loco beside mixed models
    python association.py mixed DIRECTORY --trait cases      # of two classes, 1:9
    python association.py mixed DIRECTORY --samples families # of simulated samples

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
import simulated_samples
import xarray as xr
from scipy.optimize import minimize_scalar
from scipy.stats import chi2
from tables import markdown, number

import dhsic
from dhsic.criteria.independence import inflation_of

GENOME_WIDE, LEVELS = 5e-8, (0.01, 1e-4)
TRAITS = {"CD8": "test0", "MCH": "test5"}
CHROMOSOMES = range(1, 20)
#: Levels of null variants, and of power.
MIXED_LEVELS, POWER_LEVELS = (0.5, 0.1, 0.01, 1e-3, 1e-4), (1e-5, GENOME_WIDE)
#: Kinds of simulated traits, from a real one.
KINDS = {
    "real": lambda y: y,
    "classes": lambda y: (y > np.median(y)).astype(int),
    "cases": lambda y: (y > np.quantile(y, 0.9)).astype(int),
    "scores": lambda y: np.clip(np.round(1.5 * y), -3, 3).astype(int),
    "exponential": lambda y: np.exp(2 * y),
}


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


def p_of_dhsic(data, y, **options):
    """p-values of `dhsic test`, (d,)."""
    return dhsic.test_features(data, y, by_position=True, **options).p_values


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
        ours = p_of_dhsic(f"{prefix}.bed", values)
        theirs = p_of_plink(prefix, values[:, None], folder)[:, 0]
        hits = theirs < GENOME_WIDE
        both = np.isfinite(theirs) & (theirs > 0)
        rank = pd.Series(-np.log10(ours[both])).corr(pd.Series(-np.log10(theirs[both])), "spearman")
        permuted = np.column_stack([rng.permutation(values) for _ in range(options.permutations)])
        null = np.concatenate([p_of_dhsic(f"{prefix}.bed", column) for column in permuted.T])
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


def mice(options, folder):
    """Genotypes of the mice for dhsic, values (m, d) with NaN if missing, and chromosomes (d,)."""
    prefix = genotypes_of(options.directory / "mouse_hs1940.vcf.gz", folder, 0.05)
    source = dhsic.open_source(f"{prefix}.bed")
    blocks = source.blocks(source.n_features)
    G = np.concatenate([source.read(block) for block in blocks], axis=1).astype(float)
    G[G < 0] = np.nan
    return (
        f"{prefix}.bed",
        G,
        pd.read_csv(f"{prefix}.bim", sep="\t", header=None)[0].to_numpy(int),
    )


def simulated(options):
    """Genotypes of simulated samples, as those of `mice`."""
    rng = np.random.default_rng(options.seed)
    X, chromosome = getattr(simulated_samples, options.samples)(rng)
    data = xr.Dataset(
        {
            "call_dosage": (("variants", "samples"), X.T),
            "variant_position": ("variants", np.arange(X.shape[1])),
            "variant_contig": ("variants", chromosome - 1),
            "contig_id": ("contigs", [str(c) for c in CHROMOSOMES]),
        }
    )
    return data, X.astype(float), chromosome


def simulated_trait(options, rng, Z, odd):
    """A trait of many variants among `odd` and one causal one; and the number of that one."""
    causal, *others = rng.choice(odd, options.genes + 1, replace=False)
    polygenic = Z[:, others] @ rng.standard_normal(options.genes)
    parts = options.causal, options.polygenic, 1 - options.causal - options.polygenic
    values = zip(parts, (Z[:, causal], polygenic, rng.standard_normal(len(Z))), strict=True)
    y = sum(np.sqrt(part) * (each - each.mean()) / each.std() for part, each in values)
    return KINDS[options.trait](y - y.mean()), causal


def loco_model(Z, chromosome):
    """Function from a trait to the p-values of a mixed model with a chromosome left out."""
    on = {c: chromosome == c for c in CHROMOSOMES}
    models = {c: MixedModel(Z[:, ~on[c]]) for c in CHROMOSOMES}
    rotated = {c: models[c].U.T @ Z[:, on[c]] for c in CHROMOSOMES}

    def p_values(y):
        p = np.empty(Z.shape[1])
        for c in CHROMOSOMES:
            p[on[c]] = models[c].p_values(y, rotated[c])
        return p

    return p_values


def mixed(options, folder):
    """Traits of many genes on odd chromosomes, and one causal variant there; even ones are null."""
    is_mice = options.samples == "mice"
    data, G, chromosome = mice(options, folder) if is_mice else simulated(options)
    Z = (G - np.nanmean(G, axis=0)) / np.nanstd(G, axis=0)
    Z[np.isnan(Z)] = 0.0
    m = len(Z)
    methods = {
        "nothing taken out (score test)": lambda y: chi2.sf(
            m * np.square(Z.T @ (y - y.mean()) / m) / y.var(), 1
        ),
        "dhsic test": lambda y: p_of_dhsic(data, y),
        "dhsic test --loco": lambda y: p_of_dhsic(data, y, loco=True),
        "mixed model, chromosome left out": loco_model(Z, chromosome),
    }
    if is_mice and shutil.which("gemma"):
        prefix = data.removesuffix(".bed")
        methods["GEMMA, all chromosomes"] = lambda y: p_of_gemma(prefix, y, folder)
    p_values, best = {name: [] for name in methods}, {name: [] for name in methods}
    for repetition in range(options.repetitions):
        rng = np.random.default_rng((options.seed, repetition))
        y, causal = simulated_trait(options, rng, Z, np.flatnonzero(chromosome % 2))
        near = chromosome == chromosome[causal]
        near[near] = np.square(Z[:, near].T @ Z[:, causal] / m) > 0.5
        for name, method in methods.items():
            if name.startswith("GEMMA") and repetition >= options.gemma:
                continue
            p = method(y)
            p_values[name].append(p[chromosome % 2 == 0])
            best[name].append(np.nanmin(p[near]))
    print_mixed(p_values, best)


def print_mixed(p_values, best):
    """Print level, inflation and power of each method.

    `p_values` are those of null variants, a list of arrays for each method, and `best` the smallest
    ones at the causal variants.
    """
    rows = []
    for name, of_traits in p_values.items():
        null, at = np.concatenate(of_traits), np.array(best[name])
        rows.append(
            [
                name,
                len(at),
                *(number(np.nanmean(null <= level) / level, 2) for level in MIXED_LEVELS),
                number(np.median([inflation_of(p[np.isfinite(p)]) for p in of_traits]), 2),
                f"{int(sum((p < GENOME_WIDE).any() for p in of_traits))}",
                *(number(np.mean(at < level), 2) for level in POWER_LEVELS),
                number(np.median(-np.log10(at)), 1),
            ]
        )
    heads = ("", "traits", *(f"level at {level:g}" for level in MIXED_LEVELS), "lambda",
             "traits with a false hit (5e-8)", *(f"power at {level:g}" for level in POWER_LEVELS),
             "median -log10 p")  # fmt: skip
    print(markdown(heads, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("traits", "mixed"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--permutations", type=int, default=100, help="of each trait")
    parser.add_argument("--repetitions", type=int, default=40, help="simulated traits")
    parser.add_argument("--gemma", type=int, default=10, help="simulated traits for GEMMA")
    parser.add_argument("--samples", choices=("mice", "unrelated", "families"), default="mice")
    parser.add_argument("--trait", choices=tuple(KINDS), default="real")
    parser.add_argument("--genes", type=int, default=400)
    parser.add_argument("--polygenic", type=float, default=0.5, help="part of the variance")
    parser.add_argument("--causal", type=float, default=0.02, help="part of the variance")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"traits": traits, "mixed": mixed}[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
