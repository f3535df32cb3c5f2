"""SelectJob: a selection as plain values, as options of `select` and stored for `resume`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from dhsic.cli.options import OF_RUNS, spelled, split_columns
from dhsic.cli.out import NO_TABLE, absolute, check_out, is_same
from dhsic.criteria import CRITERIA
from dhsic.errors import CheckpointError, InputError
from dhsic.joins.filters import Filters
from dhsic.joins.labels import Labelled
from dhsic.kernels.labels import SELF
from dhsic.renamed import RENAMED
from dhsic.runtime import choose_runtime
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.request import Request
from dhsic.selectors import parameters_of, selector_of
from dhsic.selectors.base import Selector
from dhsic.sources.opening import is_table, is_text
from dhsic.sources.options import MissingChunks, PloidyPolicy
from dhsic.storage import store_at
from dhsic.storage.checkpoint import Checkpoint
from dhsic.storage.folder import FileStore
from dhsic.storage.paths import check_place

COMMAND = "dhsic select"
#: Options that are files of ids; and all options that are paths.
LISTS = ("keep", "remove", "extract", "exclude", "extract_regions", "exclude_regions")
PATHS = ("path", "labels", "out", "truth", "effects", "loci", "checkpoint", *LISTS)
#: Methods with a label kernel of their own by default.
OWN_KERNELS = ("ccm", *CRITERIA)
#: Message if no labels are named.
NO_TARGET = (
    "Missing option '--target': the labels, a variable of the store along the samples or a column "
    "of --labels."
)
#: Options that ask for several runs, with the extra dimension of their result.
SEVERAL = {"per_target": "targets", "per_class": "classes"}
#: Options that are parameters of methods.
OF_METHODS = frozenset(parameters_of("bahsic")) - {*OF_RUNS}


@dataclass(frozen=True, slots=True)
class SelectJob:
    """Options of ``dhsic select``, see `dhsic.cli.options`.

    Local paths are absolute, so that a job resumes from any folder. `parameters` holds the options
    of `OF_METHODS` that were passed, by their names in Python; `data` and `typed` are the path and
    the command as typed, without secrets, for display. If `tests` is set, the first `n_features`
    are shown, and features of small q are selected.

    Data
    ----
    variable : NAME
        Matrix of the store that holds the features, such as raw/X or layers/NAME of AnnData.
    sample_dim : DIM
        Name or number of the samples' dimension.
    transpose : flag
        Take rows of a table as features and columns as samples (genes x samples), like --sample-dim
        1.
    not_feature : NAME, repeated
        Column of a table that is not a feature; labels and covariates are never features.
    missing_code : CODE
        Numbers in the data that mean missing, such as 9 or 3,9; none takes every number as a value.
        By default those that the store declares, and -1, -9 and -127 next to 0, 1 and 2.
    missing_chunks : {"error", "fill"}
        Chunks that the store lacks: error, because they may be lost, or fill, because some writers
        leave out chunks of the fill value.
    ploidy : {"scale", "count", "error"}
        Dosage of a haploid genotype in a diploid store, such as of males on X: scale to 0 or 2, as
        PLINK does; count its own alleles (0 or 1); or error.
    pass_only : flag
        Leave out variants of VCF Zarr whose FILTER is not PASS; a missing FILTER (.) is not PASS.
    keep : FILE
        Keep only these samples: a file with FID and IID, or with one id, per line, with or without
        a header.
    remove : FILE
        Leave out these samples; same format as --keep.
    keep_if : CONDITION
        Keep samples that meet a condition on variables of the store: 'age >= 18 and sex == "F"'.
    mind : float
        Maximum missing rate per sample, such as 0.1 (PLINK's --mind), over the features that
        filters by name and position keep.
    chromosomes : LIST
        Keep only features in these places: 1-5,X or regions such as 6:25000000-34000000.
    extract : FILE
        Keep only these features: a file of ids or names, separated by blanks.
    exclude : FILE
        Leave out these features; same format as --extract.
    extract_regions : FILE
        Keep only features in these regions: chromosome, start and end per line, counted from 1,
        ends included (PLINK's bed1); a file in .bed or .bed.gz counts from 0 (bed0).
    exclude_regions : FILE
        Leave out features in these regions; same format as --extract-regions.
    regions_start : {"0", "1"}
        Number of the first base of a chromosome in region files, whatever their suffix.
    extract_if : CONDITION
        Keep features that meet a condition on their variables in the store: 'variant_quality >=
        30'.
    maf : float
        Minimum minor allele frequency, such as 0.01, in the samples used.
    max_missing : float
        Maximum missing rate per feature in these samples, such as 0.1 (PLINK's --geno).
    hwe : float
        Minimum p-value of the exact test of Hardy-Weinberg equilibrium in these samples, such as
        1e-6 (PLINK's --hwe); on X in females.
    groups : NAME
        Variable of the store with the group of each feature (its gene): groups are selected as a
        whole, scored by the definition, and counted by -n.

    Target
    ------
    target : NAME, repeated
        Labels: a variable of the store along the samples, coordinates such as obsm/spatial of
        AnnData, or a column of --labels. Several targets are selected for jointly, unless
        --per-target. Needed, unless --label-kernel self.
    per_target : flag
        Select for each --target separately, with one reading of the data: each as if alone, with
        --drop-missing on the samples that have that label.
    per_class : flag
        Select for each class of --target against the rest, with one reading of the data: features
        that distinguish, for example, one cell type from all others.
    pheno_name : NAME,..., repeated
        The same as --target, several names between commas, as PLINK takes them.
    labels : FILE
        Table of labels: TSV, CSV, white space, .fam, .psam; rows are matched by sample name.
    sample_column : NAME
        Column with the sample names, in the tables that have it; FID_IID combines both.
    by_position : flag
        Match rows of the tables to samples by their order, whatever their names.
    covariates : FILE[:COLS], repeated
        Table of covariates whose linear effect is regressed out of the labels; COLS as a,b. Several
        tables (covariates, components) are joined by sample name.
    covariate : NAME, repeated
        A covariate: a column of --labels or a variable of the store. May be repeated.
    covar_name : NAME,..., repeated
        Columns of the --covariates tables, between commas, as PLINK takes them; without such a
        table the same as --covariate.
    drop_missing : flag
        Leave out samples without a label or covariate.
    na : TEXT, repeated
        Text that means missing, in addition to NA, NaN, "." and empty, for instance -9 or "?": in
        labels and covariates, and in features of a text table; NAME=TEXT for one column only
        (bmi=0).
    not_na : TEXT, repeated
        Text that is a value, although it usually means missing: NA, or PLINK's -9.

    Method
    ------
    method : {"bahsic", "fohsic", "ccm", "weighting", "svm-rfe", "linear", "pearson", "centroid", \
              "t", "snr", "moderated-t", "b", "shrunken-centroid", "mmd", "kta", "qmi", "ridge", \
              "hsic"}
        Backward elimination (bahsic), forward selection (fohsic), conditional covariance
        minimisation (ccm), feature weights (weighting), support vectors (svm-rfe), or a ranking
        in one pass by the linear kernel or another criterion.
    n_features : N|auto
        Number of features to select, or auto for cross-validation. The ranking covers all.
    settings : NAME=VALUE, repeated
        Any other parameter of the method, by its name in Python: strategy=floating, epsilon=0.1,
        constraint=soft. May be repeated.

    Output
    ------
    checkpoint : PATH
        Save the state here, for `dhsic resume`: in a folder, or at a URL such as
        s3://bucket/run.dhsic. A missing folder is created if its parent exists.
    out : PATH
        Write the result here; the folder is created as for --checkpoint. The suffix sets the
        format: .tsv, .csv (also .gz), .parquet or .json for a table of all features, the best first
        (rank, score, selected, index, name, ...), .zarr or none for a Zarr store, which xarray
        reads.
    selected_only : flag
        Leave unselected features out of the table of --out; for tests, features with q > 0.05.
    force : flag
        Overwrite --out.
    truth : FILE
        Table of the planted variants of a simulation, to compare with the selection.
    progress : bool
        Show a progress bar; default: on a terminal.
    as_json : flag
        Print one JSON object.

    Machine
    -------
    threads : N
        Number of threads in this process; all usable cores by default.
    memory : SIZE
        Refuse to start if more memory may be needed, like 2GB.

    Cluster
    -------
    scheduler : ADDRESS
        Run on a Dask cluster, tcp://... or tls://...
    detach : flag
        Leave the run on the cluster of --scheduler and return; see status, attach, cancel.
    """

    path: str
    target: tuple[str, ...] = ()
    pheno_name: tuple[str, ...] = ()
    per_target: bool = False
    per_class: bool = False
    labels: str | None = None
    sample_column: str | None = None
    by_position: bool = False
    covariates: tuple[str, ...] = ()
    covariate: tuple[str, ...] = ()
    covar_name: tuple[str, ...] = ()
    drop_missing: bool = False
    na: tuple[str, ...] = ()
    not_na: tuple[str, ...] = ()
    variable: str | None = None
    sample_dim: str | None = None
    transpose: bool = False
    not_feature: tuple[str, ...] = ()
    pass_only: bool = False
    keep: str | None = None
    remove: str | None = None
    keep_if: str | None = None
    mind: float | None = None
    chromosomes: str | None = None
    extract: str | None = None
    exclude: str | None = None
    extract_regions: str | None = None
    exclude_regions: str | None = None
    regions_start: str | None = None
    extract_if: str | None = None
    maf: float | None = None
    max_missing: float | None = None
    hwe: float | None = None
    groups: str | None = None
    method: str = "bahsic"
    n_features: int | str = 50
    parameters: Mapping[str, Any] = field(default_factory=dict)
    missing_code: str | float | list[float] | None = "auto"
    missing_chunks: MissingChunks = "error"
    ploidy: PloidyPolicy = "scale"
    settings: tuple[str, ...] = ()
    checkpoint: str | None = None
    out: str | None = None
    selected_only: bool = False
    force: bool = False
    truth: str | None = None
    scheduler: str | None = None
    detach: bool = False
    threads: int | None = None
    memory: int | None = None
    progress: bool | None = None
    as_json: bool = False
    data: str = ""
    typed: str = ""
    tests: bool = False
    effects: str | None = None
    loci: str | None = None
    loci_p: float = 5e-8
    loci_r2: float = 0.1
    loci_kb: float = 250.0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SelectJob:
        """Create the job from the options of the command line."""
        values = _without_names_of_plink({**options, "data": options["path"]})
        for name in PATHS:
            values[name] = absolute(values.get(name))
        values["covariates"] = tuple(str(absolute(spec)) for spec in values.get("covariates", ()))
        parameters = {name: values.pop(name, None) for name in OF_METHODS}
        return cls(
            **values, parameters={n: value for n, value in parameters.items() if value is not None}
        )

    @classmethod
    def kept_in(cls, path: str) -> SelectJob:
        """Load the job that a checkpoint stores."""
        checkpoint = Checkpoint(path)
        if not checkpoint.store.is_there():
            raise CheckpointError(
                f"There is no checkpoint at {path}; pass what was given as --checkpoint."
            )
        stored = checkpoint.job() or {}
        if stored.get("command") != COMMAND:
            raise CheckpointError(
                f"{path} was not made by `{COMMAND}`, so there is no command to go on with; "
                "call fit again with the same arguments and this checkpoint."
            )
        names = {of.name for of in fields(cls)}
        options: dict[str, Any] = {k: v for k, v in stored.items() if k in names}
        for of in fields(cls):
            if of.default == ():  # JSON has no tuples
                kept_value = options.get(of.name) or ()
                options[of.name] = (
                    (kept_value,) if isinstance(kept_value, str) else tuple(kept_value)
                )
        stored = {RENAMED.get(name, name): value for name, value in stored.items()}
        parameters = {k: v for k, v in stored.items() if k in OF_METHODS and v is not None}
        return cls(
            **options | {"parameters": parameters, "checkpoint": path}
        )  # the checkpoint may have moved

    def plain(self) -> dict[str, Any]:
        """Values for JSON."""
        content = asdict(self)
        return {"command": COMMAND, **content.pop("parameters"), **content}

    @property
    def labels_as(self) -> str:
        """Label kernel."""
        return str(self.parameters.get("label_kernel", "auto"))

    @property
    def takes_label_kernel(self) -> bool:
        """Whether the method uses the label kernel of that option."""
        is_own = self.method in OWN_KERNELS and not self.tests
        return "label_kernel" in parameters_of(self.method) and not is_own

    def request(self, given: Labelled, attributes: Mapping[str, Any] | None = None) -> Request:
        """Request of the job for open data and labels; `attributes` are added to the result."""
        settings = {"checkpoint": self.checkpoint, "memory": self.memory}
        settings["progress"] = "auto" if self.progress is None else self.progress
        return Request.labelled(
            self.selector().set_params(**settings),
            self.path,
            given,
            feature_groups=self.groups,
            attributes=attributes,
            job=self.plain(),
            **self.opening,
        )

    @property
    def opening(self) -> dict[str, Any]:
        """Options for `dhsic.open_source`."""
        dim = self.sample_dim
        is_number = dim is not None and dim.lstrip("-").isdigit()
        return {
            "variable": self.variable,
            "sample_dim": (int(dim) if is_number else dim) if dim is not None else self._turned,
            "not_features": self._not_features,
            "na": self.na if self.na and is_text(self.path) else (),
            "missing_code": self.missing_code,
            "missing_chunks": self.missing_chunks,
            "ploidy_policy": self.ploidy,
            "pass_only": self.pass_only,
        }

    @property
    def _not_features(self) -> tuple[str, ...]:
        """Columns of the data that are not features: those named, labels and covariates."""
        holds_labels = self.labels is None and is_table(self.path)
        labels = (*self.target, *self.covariate) if holds_labels else ()
        return tuple(dict.fromkeys((*self.not_feature, *labels)))

    @property
    def _turned(self) -> int | None:
        return 1 if self.transpose else None

    @property
    def filters(self) -> Filters:
        """Filters of samples and features."""
        return Filters(**{of.name: getattr(self, of.name) for of in fields(Filters)})

    @property
    def each(self) -> list[SelectJob]:
        """One job per target with --per-target; otherwise this job."""
        if not self.per_target:
            return [self]
        no_features = self._not_features  # targets of other runs are not features
        return [replace(self, target=(name,), not_feature=no_features) for name in self.target]

    @property
    def dim(self) -> str | None:
        """Dimension along which its runs differ; None for a single run."""
        return next((dim for name, dim in SEVERAL.items() if getattr(self, name)), None)

    def runtime(self) -> AbstractRuntime:
        """Create the runtime of the job."""
        return choose_runtime("auto", scheduler=self.scheduler, n_threads=self.threads)

    def selector(self) -> Selector:
        """Create the selector of the method, with the parameters passed."""
        names = parameters_of(self.method)
        for name in self.parameters:
            if name not in names:
                raise InputError(
                    f"{spelled(name)} is no option of --method {self.method}; leave it out."
                )
        return selector_of(self.method, self.n_features, {**self.parameters, **self._set(names)})

    def _set(self, known: list[str]) -> dict[str, Any]:
        """Parameters of ``--set NAME=VALUE``, by name."""
        out = {}
        free = sorted({*known} - OF_METHODS - {*OF_RUNS})
        for setting in self.settings:
            name, equals, value = setting.partition("=")
            name = name.strip().replace("-", "_")
            if not equals:
                raise InputError(f"--set {setting!r}: pass NAME=VALUE, such as strategy=floating.")
            if name in OF_METHODS:
                raise InputError(
                    f"--set has no {name}, which has an option: {spelled(name)} VALUE."
                )
            if name not in free:
                raise InputError(
                    f"--set has no {name} for --method {self.method}: "
                    + (f"there are {', '.join(free)}." if free else "there are no settings.")
                )
            out[name] = _literal(value.strip())
        return out

    def check(self) -> SelectJob:
        """Reject jobs that cannot succeed, before any work."""
        selector = self.selector()
        selector.check()
        if (
            self.checkpoint is not None
        ):  # a typing error: a missing parent folder, or an invalid URL
            store = store_at(self.checkpoint, "--checkpoint ", InputError)
            if isinstance(store, FileStore):
                check_place(store.path, "--checkpoint", InputError)

        def refuse(is_wrong: object, sentence: str) -> None:
            if is_wrong:
                raise InputError(sentence)

        is_self, by_name = self.labels_as == SELF, self.sample_column is not None
        option = "--sample-column" if by_name else "--by-position"
        refuse(
            not self.target and not is_self,
            NO_TARGET
            + " Without any, dhsic select --label-kernel self selects the features that the others "
            "depend on.",
        )
        refuse(
            self.target and is_self,
            "--label-kernel self takes the data for labels, and --target names others; pass "
            "one of them.",
        )
        refuse(
            self.per_target and (is_self or len({*self.target}) < len(self.target)),
            "--per-target takes each --target by itself; pass one or more, each once.",
        )
        refuse(
            self.per_class and (is_self or len(self.target) != 1 or self.per_target),
            "--per-class takes each class of one --target against the rest; pass one, without "
            "--per-target.",
        )
        for name in SEVERAL:
            refuse(
                getattr(self, name) and self.detach,
                f"--detach leaves one run to a cluster, and {spelled(name)} is one a "
                f"{name.removeprefix('per_')}; leave one of them out.",
            )
        if self.out is not None:
            check_out(self.out, force=self.force, selected_only=self.selected_only)
            self.check_read(self.out)
        refuse(self.selected_only and self.out is None, NO_TABLE)
        refuse(
            (by_name or self.by_position) and self.labels is None and not self.covariates,
            f"{option} is about the rows of a table, and there is none; pass --labels FILE.",
        )
        refuse(
            by_name and self.by_position,
            "--sample-column matches rows by name, and --by-position takes them in order; pass "
            "one of them.",
        )
        refuse(
            self.transpose and self.sample_dim is not None,
            "--transpose is --sample-dim 1 of a table; pass one of them.",
        )
        refuse(
            self.groups is not None and not selector.takes_groups,
            f"--groups is no option of --method {self.method}, which judges features one by "
            "one; leave it out.",
        )
        refuse(
            self.scheduler is not None and self.threads is not None,
            "--threads is for runs in this process, and --scheduler gives the work to its "
            "workers; pass one of them.",
        )
        refuse(
            self.detach and (self.scheduler is None or self.checkpoint is None),
            "--detach leaves the run to a cluster and follows it by its checkpoint; pass "
            "--scheduler ADDRESS and --checkpoint PATH, a folder that its workers see or a URL.",
        )
        for name, path in (("--out", self.out), ("--truth", self.truth)):
            refuse(
                self.detach and path is not None,
                f"{name} comes when the run is done: leave it out here, and pass it to `dhsic "
                "attach`.",
            )
        return self

    def check_read(self, out: str, option: str = "--out") -> None:
        """Reject an output path that the run also reads."""
        read = {
            "PATH": self.path,
            "--labels": self.labels,
            **{f"--covariates {spec}": split_columns(spec)[0] for spec in self.covariates},
            **{spelled(name): getattr(self, name) for name in LISTS},
            "--truth": self.truth,
            "--checkpoint": self.checkpoint,
        }
        for name, path in read.items():
            if path and is_same(path, out):
                raise InputError(
                    f"{option} {out} is {name} of this run, which it would overwrite; choose "
                    "another path."
                )


def _literal(text: str) -> Any:
    """Parse a number, True, False or None; other text is returned as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _without_names_of_plink(options: dict[str, Any]) -> dict[str, Any]:
    """Options with ``--pheno-name`` and ``--covar-name`` as targets and columns of covariates.

    Raises
    ------
    InputError
        Columns of covariates are named in two ways, or several tables might have them.
    """

    def names(option: str) -> tuple[str, ...]:
        given = options.pop(option, None) or ()
        return tuple(name for one in given for name in one.split(",") if name)

    if targets := names("pheno_name"):
        options["target"] = (*options.get("target", ()), *targets)
    columns, tables = names("covar_name"), options.get("covariates", ())
    if columns and tables:
        if len(tables) > 1 or split_columns(tables[0])[1]:
            raise InputError(
                f"--covar-name {','.join(columns)} names columns of one table of covariates. Write "
                "them behind the table that has them: --covariates FILE:A,B."
            )
        options["covariates"] = (f"{tables[0]}:{','.join(columns)}",)
    elif columns:
        options["covariate"] = (*options.get("covariate", ()), *columns)
    return options
