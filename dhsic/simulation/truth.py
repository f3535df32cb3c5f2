"""The truth of a simulation: the causal variants and their effects.

The trait is a standardised liability: the sum of additive effects of common variants, of products
of pairs of common variants, and of noise. The marginal effects of both variants are regressed out
of each product. Therefore a method cannot find a pair if it tests one variant at a time, or only
linear dependence.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.simulation.haplotypes import SEGMENT, Cohort, Haplotypes, generator

COMMON = 0.2  # causal variants have at least this minor allele frequency


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """Causal variants of a simulated store: one array element per variant.

    The fields are the columns of the truth table.
    """

    variant_index: Index  # position in the store
    variant_id: Array
    contig: Array
    position: Index
    kind: Array  # "additive", or "pair" for a variant that acts only together with its partner
    effect: Float  # standard deviations of the liability per standard deviation of the term
    partner: Index  # `variant_index` of the partner of a pair, -1 for additive variants

    def frame(self) -> pd.DataFrame:
        """Return the truth as a table with one row per causal variant."""
        return pd.DataFrame(asdict(self))

    def write(self, path: Path) -> None:
        """Write the table as tab-separated text, to a temporary file that is then renamed."""
        aside = path.with_name(f".{path.name}.partial")
        self.frame().to_csv(aside, sep="\t", index=False)
        aside.replace(path)


def truth_path(store: str | Path) -> Path:
    """Return the path of the truth table of a store: ``x.truth.tsv`` next to ``x.vcz``."""
    return Path(store).with_suffix(".truth.tsv")


def read_truth(path: str | Path) -> Truth:
    """Read the truth table ``<store stem>.truth.tsv``, which `Truth.write` wrote."""
    if not Path(path).is_file():
        raise InputError(f"There is no truth table at {path}; pass the .truth.tsv of a simulation.")
    text = dict.fromkeys(("variant_id", "contig", "kind"), str)
    table = pd.read_csv(path, sep="\t", dtype=text, keep_default_na=False)
    missing = set(Truth.__dataclass_fields__) - set(table.columns)
    if missing:
        raise InputError(
            f"{path} has no columns {sorted(missing)}; pass the .truth.tsv of a simulation."
        )
    columns = {name: table[name].to_numpy() for name in Truth.__dataclass_fields__}
    return Truth(**columns | {name: columns[name].astype(object) for name in text})


@dataclass(frozen=True, slots=True)
class TraitPlan:
    """Parameters of the simulated trait.

    They are numbers of causal variants and fractions of variance, as in `simulate_genotypes`.
    """

    n_causal: int
    n_pairs: int
    heritability: float
    stratification: float

    def __post_init__(self) -> None:
        if min(self.n_causal, self.n_pairs) < 0:
            raise InputError(
                f"n_causal={self.n_causal} and n_pairs={self.n_pairs}; pass counts of at least 0."
            )
        if not 0 <= self.heritability <= 1:
            raise InputError(f"heritability={self.heritability}; pass a fraction from 0 to 1.")
        if not 0 <= self.stratification < np.inf:
            raise InputError(
                f"stratification={self.stratification}; pass a standard deviation of at least 0."
            )

    @property
    def n_sites(self) -> int:
        """Number of causal variants."""
        return self.n_causal + 2 * self.n_pairs

    def check_room(self, n_variants: int) -> None:
        """Reject too few variants; causal variants would be too close together."""
        least = max(1, 8 * self.n_sites)
        if n_variants < least:
            raise InputError(
                f"n_variants={n_variants} is too few for {self.n_sites} planted variants; pass "
                f"n_variants={least} or more, or plant fewer."
            )


@dataclass(frozen=True, slots=True)
class Planted:
    """Sites, effects and partners of the causal variants, and the resulting liability."""

    site: Index  # (k,), positions: additive variants first, then the variants of each pair
    effect: Float  # (k,)
    partner: Index  # (k,), -1 for additive variants
    liability: Float  # (m,), mean 0 and variance 1


def plant(cohort: Cohort, n_variants: int, plan: TraitPlan) -> Planted:
    """Choose common causal variants that are far from each other, and simulate the liability."""
    rng = generator(cohort.seed, 3)
    site, dosage = _choose_sites(Haplotypes(cohort), n_variants, plan.n_sites, rng)
    order = rng.permutation(plan.n_sites)
    site, dosage = site[order], dosage[order]
    terms = _terms(dosage, plan.n_causal)  # (terms, m)
    weight = rng.choice([-1.0, 1.0], size=len(terms))
    genetic = weight @ terms
    scale = np.sqrt(plan.heritability) / max(float(genetic.std()), 1e-12)
    noise = _standardised(rng.standard_normal(cohort.n_samples))
    shift = rng.standard_normal(cohort.n_populations)[cohort.population]
    raw = scale * genetic + np.sqrt(1 - plan.heritability) * noise
    raw += plan.stratification * _standardised(shift)
    effect = weight * scale / raw.std()
    return Planted(
        site,
        np.r_[effect[: plan.n_causal], np.repeat(effect[plan.n_causal :], 2)],
        np.r_[np.full(plan.n_causal, -1), site[plan.n_causal :].reshape(-1, 2)[:, ::-1].ravel()],
        _standardised(raw),
    )


def _choose_sites(
    haplotypes: Haplotypes, n_variants: int, n_sites: int, rng: np.random.Generator
) -> tuple[Index, Float]:
    """Choose `n_sites` common variants; return their positions (n,) and dosages (n, m).

    All variants are divided into `n_sites` ranges of equal length. One variant is chosen in the
    middle half of each range.
    """
    sites, dosages = [], []
    for low, high in pairwise(np.linspace(0, n_variants, n_sites + 1)):
        first = int(low + (high - low) / 4)
        last = max(first + 1, int(high - (high - low) / 4))
        start = int(rng.integers(first, max(first + 1, last - SEGMENT)))
        dosage = haplotypes.dosage(start, min(start + SEGMENT, last), complete=True)
        frequency = dosage.mean(axis=1) / 2
        minor = np.minimum(frequency, 1 - frequency)
        common = np.flatnonzero(minor > COMMON)
        chosen = int(rng.choice(common)) if common.size else int(minor.argmax())
        sites.append(start + chosen)
        dosages.append(dosage[chosen])
    return np.array(sites, np.int64), np.array(dosages, np.float64).reshape(
        n_sites, haplotypes.cohort.n_samples
    )


def _terms(dosage: Float, n_causal: int) -> Float:
    """Standardised terms of the liability, (n_causal + n_pairs, m), from dosages (k, m).

    The terms are additive variants, then products of pairs.
    """
    x = _standardised(dosage)
    products = []
    for a, b in zip(x[n_causal::2], x[n_causal + 1 :: 2], strict=True):
        marginal = np.stack([np.ones_like(a), a, b], axis=1)  # (m, 3)
        fitted = marginal @ np.linalg.lstsq(marginal, a * b)[0]
        products.append(_standardised(a * b - fitted))
    return np.array([*x[:n_causal], *products]).reshape(-1, dosage.shape[1])


def _standardised(x: Float) -> Float:
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = centred.std(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(scale > 0, scale, 1.0), dtype=np.float64)
