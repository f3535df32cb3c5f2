"""Snakemake wrapper of dhsic select."""

__author__ = "the dhsic developers"
__copyright__ = "Copyright 2026, the dhsic developers"
__license__ = "BSD-3-Clause"

from snakemake.shell import shell

log = snakemake.log_fmt_shell(stdout=True, stderr=True)
extra = snakemake.params.get("extra", "")
data, target = snakemake.input.data, snakemake.params.target
labels, covariates = snakemake.input.get("labels"), snakemake.input.get("covariates")
labels_option = "--labels {labels:q}" if labels else ""
covariates_option = "--covariates {covariates:q}" if covariates else ""
memory = snakemake.resources.get("mem_mb")
memory_option = "--memory {memory}MB" if isinstance(memory, int) else ""

shell(
    "dhsic select {data:q} --target {target:q}"
    f" {labels_option} {covariates_option}"
    f" --threads {{snakemake.threads}} {memory_option}"
    " --out {snakemake.output[0]:q} --force"
    " {extra} {log}"
)
