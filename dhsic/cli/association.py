"""Extra tables of `dhsic test`: additive effects (`--effects`) and loci (`--loci`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from pathlib import PurePath

import xarray as xr

from dhsic.cli.console import say, shown, tell
from dhsic.cli.effects import response_of, write_effects
from dhsic.cli.gwas_ssf import check_ssf, is_ssf
from dhsic.cli.job import SelectJob
from dhsic.cli.options import split_columns
from dhsic.cli.out import check_table, is_same, write_table
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.reports.sentences import loci_sentences
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.loci import LociRequest, loci_table


@dataclass
class AssociationTables:
    """Extra tables that a job requests; `sentences` are pairs of a label and a message."""

    job: SelectJob
    data: Labelled
    loci: LociRequest | None
    sentences: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, job: SelectJob, given: list[Labelled]) -> AssociationTables:
        """Check the extra tables that a job requests; `write` computes and writes them later.

        Raises
        ------
        InputError
            The data or labels do not support a table, or its path cannot be written.
        """
        loci = None
        separately = "--per-target" * job.per_target or "--per-class" * job.per_class
        for option, path in (("--effects", job.effects), ("--loci", job.loci)):
            if path is not None and separately:
                raise InputError(
                    f"{option} needs exactly one target; pass one --target, without {separately}."
                )
        _check_samples(job, given[0])
        if job.effects is not None:
            check_table(job.effects, "effects", force=job.force, option="--effects")
            job.check_read(job.effects, "--effects")
            response_of(given[0].y, job.labels_as)
            if is_ssf(job.effects):
                check_ssf(given[0].source, job.effects, force=job.force)
        if job.loci is not None:
            check_table(job.loci, "loci", force=job.force, option="--loci")
            job.check_read(job.loci, "--loci")
            loci = LociRequest(job.loci_p, job.loci_r2, job.loci_kb)
            loci.check(given[0].source)
        written = {"--out": job.out, "--effects": job.effects, "--loci": job.loci}
        for (one, path), (other, at) in combinations(written.items(), 2):
            if path and at and is_same(path, at):
                raise InputError(f"{one} and {other} are the same path, {path}; change one.")
        return cls(job, given[0], loci)

    def write(self, result: xr.Dataset, runtime: AbstractRuntime) -> xr.Dataset:
        """Write the tables; return the result, with a locus for each variant if requested."""
        if self.loci is not None and self.job.loci is not None:
            result = self.loci.of(result, self.data, runtime)
            write_table(loci_table(result), self.job.loci)
            self.sentences += [("loci", sentence) for sentence in loci_sentences(result)]
        if self.job.effects is not None:
            kernel, path = self.job.labels_as, self.job.effects
            names = _covariate_names(self.job)
            about = write_effects(self.data, result, runtime, path, kernel, names)
            self.sentences += [("effects", sentence) for sentence in about]
        return result

    def tell(self) -> None:
        """Print the messages about the tables and their paths."""
        for label, sentence in self.sentences:
            say(label, sentence)
        for what, path in (("loci", self.job.loci), ("effects", self.job.effects)):
            if path is not None:
                tell(f"{what} in {shown(path)}")


def _covariate_names(job: SelectJob) -> tuple[str, ...]:
    """Return the names of the covariates of a job, or of the file if all columns are used."""
    names = [*job.covariate]
    for spec in job.covariates:
        path, columns = split_columns(spec)
        names += columns or [PurePath(path).name]
    return tuple(names)


def _check_samples(job: SelectJob, given: Labelled) -> None:
    """Reject extra tables if samples have weights or blocks that these tables do not support."""
    for option, path in (("--effects", job.effects), ("--loci", job.loci)):
        if path is not None and given.sample_weight is not None:
            raise InputError(
                f"{option} does not support --weights: effects and linkage are those of "
                f"unweighted samples. Leave out {option}, or --weights."
            )
    if job.effects is not None and job.block_columns:
        raise InputError(
            "--effects estimates standard errors for independent samples, so it does not support "
            "--permute-whole and --permute-within. Leave out --effects."
        )
