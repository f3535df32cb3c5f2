"""The options of `dhsic select` as plain values, which a checkpoint stores for `resume`."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any

from dhsic.cli.label_levels import levels_by_target
from dhsic.cli.options import OF_RUNS, spelled, split_columns
from dhsic.cli.out import NO_TABLE, absolute, check_out, is_same
from dhsic.errors import CheckpointError, InputError
from dhsic.joins.censoring import event_column
from dhsic.joins.filters import Filters
from dhsic.joins.labels import Labelled
from dhsic.kernels.labels import CLASS_KERNELS, SELF
from dhsic.methods import parameters_of, selector_of
from dhsic.methods.base import Selector
from dhsic.renamed import current_name
from dhsic.runtime import choose_runtime
from dhsic.runtime.base import AbstractRuntime
from dhsic.selection.request import Request
from dhsic.sources.delimited import Delimited
from dhsic.sources.file_lists import expanded, is_several, short_name
from dhsic.sources.opening import is_table, is_text
from dhsic.sources.options import MissingChunks, PloidyPolicy
from dhsic.storage import store_at
from dhsic.storage.checkpoint import Checkpoint
from dhsic.storage.folder import FileStore
from dhsic.storage.paths import check_place

COMMAND = "dhsic select"
#: Options that are files with lists of ids or regions; and all options that are paths.
LISTS = ("keep", "remove", "extract", "exclude", "extract_regions", "exclude_regions")
PATHS = ("labels", "out", "truth", "annotate", "effects", "loci", "checkpoint", *LISTS)
#: Message if no labels are named.
NO_TARGET = (
    "Missing option '--target'. Pass the labels: a variable of the store along the samples, or a "
    "column of --labels. dhsic inspect lists the variables."
)
#: Options that request several runs, and the additional dimension of the result.
SEVERAL = {"per_target": "targets", "per_class": "classes"}
#: Options that are parameters of methods.
OF_METHODS = frozenset(parameters_of("bahsic")) - {*OF_RUNS}


@dataclass(frozen=True, slots=True)
class SelectJob:
    """Options of ``dhsic select``, see `dhsic.cli.options`.

    Local paths are absolute, so that a job resumes from any folder. `parameters` are the options of
    `OF_METHODS` that the user passed, by their names in Python. `data` and `typed` are the path and
    the command as typed, without secrets, for display. If `tests` is set, the job tests features:
    those with small q-values are selected, and the best `n_features` are printed.

    Data
    ----
    variable : NAME
        Matrix of the store with the features, such as raw/X or layers/NAME of AnnData.
    sample_dim : DIM
        Name or number of the samples' dimension.
    transpose : flag
        Use rows of a table as features and columns as samples (genes x samples), like --sample-dim
        1.
    not_feature : NAME, repeated
        Column of a table that is not a feature; labels and covariates are never features.
    missing_code : CODE
        Numbers in the data that mean missing, such as 9 or 3,9; with none, every number is a value.
        By default, the codes that the store declares, and -1, -9 and -127 next to 0, 1 and 2.
    missing_chunks : {"error", "fill"}
        Chunks that are missing in the store: report an error, because they may be lost, or fill
        them, because some writers omit chunks of the fill value.
    ploidy : {"scale", "count", "error"}
        Dosage of a haploid genotype in a diploid store, such as of males on X: scale to 0 or 2, as
        PLINK does; count its own alleles (0 or 1); or error.
    intersect_samples : flag
        For several paths whose samples differ: use only the samples that all of them have.
    pass_only : flag
        Exclude variants of VCF Zarr whose FILTER is not PASS; a missing FILTER (.) is not PASS.
    keep : FILE
        Keep only the samples in this file: FID and IID, or one id, per line, with or without a
        header.
    remove : FILE
        Exclude the samples in this file; same format as --keep.
    keep_if : CONDITION
        Keep samples that meet a condition on variables of the store: 'age >= 18 and sex == "F"'.
    mind : float
        Maximum missing rate per sample, such as 0.1 (PLINK's --mind), in the features that remain
        after filters by name and position.
    chromosomes : LIST
        Keep only features on these chromosomes, such as 1-5,X, or in regions such as
        6:25000000-34000000.
    extract : FILE
        Keep only the features in this file of ids or names, separated by whitespace.
    exclude : FILE
        Exclude the features in this file; same format as --extract.
    extract_regions : FILE
        Keep only features in the regions in this file: chromosome, start and end per line, counted
        from 1, ends included (PLINK's bed1); a .bed or .bed.gz file counts from 0 (bed0).
    exclude_regions : FILE
        Exclude features in the regions in this file; same format as --extract-regions.
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
    min_info : float
        Minimum imputation quality (R2 of MaCH; PLINK 2's --mach-r2-filter) in these samples, such
        as 0.8; for imputed dosages.
    groups : NAME
        Variable of the store with the group of each feature (such as its gene). Groups are selected
        as a whole and scored by the definition; -n is a number of groups.

    Target
    ------
    target : NAME, repeated
        Labels: a variable of the store along the samples, coordinates such as obsm/spatial of
        AnnData, or a column of --labels. Features are selected for several targets jointly, unless
        --per-target. Required, unless --label-kernel self.
    event : NAME or NAME=VALUE
        For times to an event in --target: the column, or variable of the store, that is 1 if the
        event was observed and 0 if the time is censored; or the value of an observed event.
    entry : NAME
        For times to an event: the column with the time from which a sample was observed (left
        truncation).
    order : LEVELS, repeated
        Levels of an ordinal --target from the lowest to the highest, such as low,medium,high; with
        several targets NAME=LEVELS. Numbers need no list: --label-kernel ordinal sorts them.
    permute_whole : NAME
        Column, or variable of the store, with the block of each sample, such as its donor, if all
        samples of a block have the same label: p-values are those of exchanging the labels of whole
        blocks.
    permute_within : NAME
        Column, or variable of the store, with the block of each sample, such as its batch: p-values
        are those of exchanging labels only within blocks.
    weights : NAME|FILE[:NAME]
        Weights of the samples, such as survey weights: a column of --labels, a variable of the
        store, or a table with sample names. Samples with weight 0 are excluded.
    per_target : flag
        Select for each --target separately, with one reading of the data and the same results as
        separate runs; with --drop-missing, on the samples that have that label.
    per_class : flag
        Select for each class of --target against the rest, with one reading of the data: features
        that distinguish, for example, one cell type from all others.
    pheno_name : NAME,..., repeated
        The same as --target, with several names between commas, as in PLINK.
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
        Columns of the --covariates tables, between commas, as in PLINK; without such a table the
        same as --covariate.
    category : NAME, repeated
        A covariate, or a feature of a text table, whose numbers are codes for groups, such as
        centres or types of pain. Columns of text are categories anyway.
    drop_missing : flag
        Exclude samples without a label or covariate.
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
        Save the state of the run here, for `dhsic resume`: a folder, or a URL such as
        s3://bucket/run.dhsic. A missing folder is created if its parent exists.
    out : PATH
        Write the result here. The suffix sets the format: .tsv, .csv (also .gz), .parquet or .json
        for a table of all features, the best first; .snplist for the selected names; .zarr or none
        for a Zarr store.
    selected_only : flag
        Write only selected features to the table of --out; for tests, features with q <= 0.05.
    force : flag
        Overwrite --out.
    truth : FILE
        Table of the planted variants of a simulation, to compare with the selection.
    annotate : FILE
        Add the nearest genes, from GTF, GFF3 or BED.
    progress : bool
        Show a progress bar; default: on a terminal.
    as_json : flag
        Print one JSON object.

    Machine
    -------
    threads : N
        Number of threads in this process; all usable cores by default.
    memory : SIZE
        Memory limit, such as 2GB: refuse to start if more may be needed.

    Cluster
    -------
    scheduler : ADDRESS
        Run on a Dask cluster, tcp://... or tls://...
    detach : flag
        Submit the run to the cluster of --scheduler and return; see status, attach, cancel.
    """

    path: str | list[str]
    target: tuple[str, ...] = ()
    pheno_name: tuple[str, ...] = ()
    event: str | None = None
    entry: str | None = None
    order: tuple[str, ...] = ()
    permute_whole: str | None = None
    permute_within: str | None = None
    weights: str | None = None
    per_target: bool = False
    per_class: bool = False
    labels: str | None = None
    sample_column: str | None = None
    by_position: bool = False
    covariates: tuple[str, ...] = ()
    covariate: tuple[str, ...] = ()
    covar_name: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    drop_missing: bool = False
    na: tuple[str, ...] = ()
    not_na: tuple[str, ...] = ()
    variable: str | None = None
    sample_dim: str | None = None
    transpose: bool = False
    not_feature: tuple[str, ...] = ()
    intersect_samples: bool = False
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
    min_info: float | None = None
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
    annotate: str | None = None
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
        path = expanded(options["path"])
        values = _without_names_of_plink({**options, "data": ""})
        for name in PATHS:
            values[name] = absolute(values.get(name))
        is_list = is_several(path)
        values["path"] = [absolute(each) for each in path] if is_list else absolute(path)
        values["data"] = short_name(path) if is_list else path
        values["covariates"] = tuple(str(absolute(spec)) for spec in values.get("covariates", ()))
        if not values["covariates"]:  # otherwise the tables contain the environments
            beside = (*values.get("covariate", ()), *values.get("environment", ()))
            values["covariate"] = tuple(dict.fromkeys(beside))
        if (spec := values.get("weights")) is not None and _is_table(spec):
            values["weights"] = absolute(spec)
        parameters = {name: values.pop(name, None) for name in OF_METHODS}
        return cls(
            **values, parameters={n: value for n, value in parameters.items() if value is not None}
        )

    @classmethod
    def kept_in(cls, path: str) -> SelectJob:
        """Load the job that is stored in the checkpoint at `path`."""
        checkpoint = Checkpoint(path)
        if not checkpoint.store.is_there():
            raise CheckpointError(
                f"There is no checkpoint at {path}; pass the path of --checkpoint of the run."
            )
        stored = checkpoint.job() or {}
        if stored.get("command") != COMMAND:
            raise CheckpointError(
                f"{path} was not made by `{COMMAND}`, so there is no command to resume. In "
                "Python, call fit again with the same arguments and this checkpoint."
            )
        names = {of.name for of in fields(cls)}
        options: dict[str, Any] = {k: v for k, v in stored.items() if k in names}
        for of in fields(cls):
            if of.default == ():  # JSON has no tuples
                kept_value = options.get(of.name) or ()
                options[of.name] = (
                    (kept_value,) if isinstance(kept_value, str) else tuple(kept_value)
                )
        of_method = {*parameters_of(stored.get("method") or "bahsic")} - {*OF_RUNS}
        stored = {current_name(name, of_method): value for name, value in stored.items()}
        parameters = {k: v for k, v in stored.items() if k in of_method and v is not None}
        return cls(
            **options | {"parameters": parameters, "checkpoint": path}
        )  # the checkpoint may have moved

    def plain(self) -> dict[str, Any]:
        """Options of the job as plain values for JSON, by name."""
        content = asdict(self)
        return {"command": COMMAND, **content.pop("parameters"), **content}

    @property
    def labels_as(self) -> str:
        """Name of the kernel used for the labels."""
        return str(self.parameters.get("label_kernel", "auto"))

    def request(self, given: Labelled, attributes: Mapping[str, Any] | None = None) -> Request:
        """Build the request of the job for open data with labels.

        `attributes` are added to the attributes of the result.
        """
        settings = {"checkpoint": self.checkpoint, "memory_limit": self.memory}
        settings["progress"] = "auto" if self.progress is None else self.progress
        return Request.labelled(
            self.selector().set_params(**settings),
            self.path,
            given,
            feature_groups=self.groups,
            attributes=attributes,
            job=self.plain(),
            **self.opening,
            categories=self.feature_categories,
        )

    @property
    def data_name(self) -> str:
        """Path of the data for messages; for several paths, their number and names."""
        return self.path if isinstance(self.path, str) else short_name(self.path)

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
            "intersect_samples": self.intersect_samples,
        }

    @property
    def feature_categories(self) -> tuple[str, ...]:
        """Feature columns of a text table that are categories although they contain numbers."""
        one = self.path if isinstance(self.path, str) and is_text(self.path) else ""
        if not self.category or not Path(one).is_file():
            return ()
        columns = {*(Delimited(one).names or ())} - {*self._not_features}
        return tuple(name for name in self.category if name in columns)

    @property
    def _not_features(self) -> tuple[str, ...]:
        """Columns of the data that are not features.

        These are the columns of --not-feature, and, if the data contain them, those of labels,
        covariates, blocks and weights.
        """
        holds_labels = self.labels is None and is_table(self.path)
        columns = (*self.label_columns, *self.covariate, *self.block_columns, *self.weight_column)
        labels = columns if holds_labels else ()
        return tuple(dict.fromkeys((*self.not_feature, *labels)))

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names of the targets and, for censored times, of the columns of --event and --entry."""
        event = None if self.event is None else event_column(self.event)
        return (*self.target, *(name for name in (event, self.entry) if name is not None))

    @property
    def levels(self) -> dict[str, list[str]]:
        """Names of the levels of ordinal targets, from the lowest to the highest."""
        return levels_by_target(self.order, self.target)

    def has_names(self, target: str) -> bool:
        """Whether values of a target are names of classes or levels, even if they are numbers."""
        return self.labels_as in CLASS_KERNELS or target in self.levels

    @property
    def block_columns(self) -> tuple[str, ...]:
        """Names of the columns that contain the blocks of samples."""
        return tuple(name for name in (self.permute_whole, self.permute_within) if name is not None)

    @property
    def has_weight_table(self) -> bool:
        """Whether ``--weights`` is the path of a table, rather than the name of a column."""
        return self.weights is not None and _is_table(self.weights)

    @property
    def weight_column(self) -> tuple[str, ...]:
        """Name of the variable, or column of --labels, with the sample weights; () if none."""
        return () if self.weights is None or self.has_weight_table else (self.weights,)

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
        orders = {name: (f"{name}={','.join(each)}",) for name, each in self.levels.items()}
        return [
            replace(self, target=(name,), order=orders.get(name, ()), not_feature=no_features)
            for name in self.target
        ]

    @property
    def dim(self) -> str | None:
        """Dimension of the result that holds several runs; None for a single run."""
        return next((dim for name, dim in SEVERAL.items() if getattr(self, name)), None)

    def runtime(self) -> AbstractRuntime:
        """Create the runtime of the job."""
        return choose_runtime("auto", scheduler=self.scheduler, n_threads=self.threads)

    def selector(self) -> Selector:
        """Create the selector of the method, with the parameters that were passed."""
        names = parameters_of(self.method)
        for name in self.parameters:
            if name not in names:
                raise InputError(
                    f"{spelled(name)} does not apply to --method {self.method}; leave it out."
                )
        return selector_of(self.method, self.n_features, {**self.parameters, **self._set(names)})

    def _set(self, known: list[str]) -> dict[str, Any]:
        """Parse ``--set NAME=VALUE``; return values by parameter, which must be among `known`."""
        out = {}
        free = sorted({*known} - OF_METHODS - {*OF_RUNS})
        for setting in self.settings:
            name, equals, value = setting.partition("=")
            name = current_name(name.strip().replace("-", "_"), known)
            if name in OF_METHODS:
                raise InputError(
                    f"--set does not accept {name}, which has its own option: pass "
                    f"{spelled(name)} VALUE."
                )
            if name not in free:
                raise InputError(
                    f"--set does not accept {name} for --method {self.method}, which has "
                    + (f"the settings {', '.join(free)}." if free else "no settings.")
                )
            if not equals:
                raise InputError(f"--set {name} has no value; pass {name}=VALUE.")
            out[name] = _literal(value.strip())
        return out

    def check(self) -> SelectJob:
        """Reject options that contradict each other; return the job unchanged."""
        selector = self.selector()
        selector.check()
        if (
            self.checkpoint is not None
        ):  # rejects a missing parent folder or an invalid URL, probably a typing error
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
            + " Without labels, dhsic select --label-kernel self selects the features on which the "
            "other features depend.",
        )
        refuse(
            self.target and is_self,
            "--label-kernel self uses the data as labels, but --target names other labels; pass "
            "only one of them.",
        )
        refuse(
            self.per_target and (is_self or len({*self.target}) < len(self.target)),
            "--per-target selects for each --target separately. Pass one or more targets, each "
            "once.",
        )
        refuse(
            self.per_class and (is_self or len(self.target) != 1 or self.per_target),
            "--per-class selects for each class of one --target; pass exactly one --target, "
            "without --per-target.",
        )
        refuse(
            self.event is not None and (len(self.target) != 1 or self.per_target or self.per_class),
            "--event states which times of a --target are censored. Pass exactly one --target, "
            "without --per-target and --per-class.",
        )
        refuse(
            self.entry is not None and self.event is None,
            "--entry applies only to times to an event. Also pass --event, the column that states "
            "whether the event was observed.",
        )
        refuse(
            self.levels and self.event is not None,
            "--order lists levels of an ordinal target, and --event applies to times to an event; "
            "pass only one of them.",
        )
        for name in SEVERAL:
            refuse(
                getattr(self, name) and self.detach,
                f"--detach sends one run to a cluster, but {spelled(name)} needs one run per "
                f"{name.removeprefix('per_')}; pass only one of them.",
            )
        if self.out is not None:
            check_out(self.out, force=self.force, selected_only=self.selected_only)
            self.check_read(self.out)
        refuse(self.selected_only and self.out is None, NO_TABLE)
        refuse(
            (by_name or self.by_position)
            and self.labels is None
            and not self.covariates
            and not self.has_weight_table,
            f"{option} applies to the rows of a table, but no table was passed; pass --labels "
            "FILE.",
        )
        self._check_covariates()
        refuse(
            by_name and self.by_position,
            "--sample-column matches rows by name, but --by-position matches them by order; pass "
            "only one of them.",
        )
        refuse(
            self.transpose and self.sample_dim is not None,
            "--transpose is the same as --sample-dim 1 of a table; pass only one of them.",
        )
        refuse(
            self.groups is not None and not selector.takes_groups,
            f"--groups does not apply to --method {self.method}, which scores each feature "
            "separately; leave it out.",
        )
        refuse(
            self.scheduler is not None and self.threads is not None,
            "--threads is for runs in this process, but --scheduler runs on the workers of a "
            "cluster; pass only one of them.",
        )
        refuse(
            self.detach and (self.scheduler is None or self.checkpoint is None),
            "--detach runs on a cluster, and saves the state of the run in a checkpoint. Pass "
            "--scheduler ADDRESS and --checkpoint PATH (a folder that the workers can access, or "
            "a URL).",
        )
        for name, path in (
            ("--out", self.out),
            ("--truth", self.truth),
            ("--annotate", self.annotate),
        ):
            refuse(
                self.detach and path is not None,
                f"{name} is used after the run is complete: leave it out here, and pass it to "
                "`dhsic attach`.",
            )
        return self

    def _check_covariates(self) -> None:
        """Reject a column name passed to --covariates, which needs the path of a table."""
        for table in (split_columns(spec)[0] for spec in self.covariates):
            name = PurePath(table).name
            if "://" not in table and "." not in name and not Path(table).exists():
                raise InputError(
                    f"There is no table {table}. If {name!r} is a column of --labels or a variable "
                    f"of the data, pass --covariate {shlex.quote(name)}."
                )

    def check_read(self, out: str, option: str = "--out") -> None:
        """Reject an output path `out` that is also an input; `option` is the option that set it."""
        paths = [self.path] if isinstance(self.path, str) else self.path
        read = {
            **{"PATH" if len(paths) == 1 else path: path for path in paths},
            "--labels": self.labels,
            **{f"--covariates {spec}": split_columns(spec)[0] for spec in self.covariates},
            "--weights": None if self.weights is None else split_columns(self.weights)[0],
            **{spelled(name): getattr(self, name) for name in LISTS},
            "--truth": self.truth,
            "--annotate": self.annotate,
            "--checkpoint": self.checkpoint,
        }
        for name, path in read.items():
            if path and is_same(path, out):
                raise InputError(
                    f"{option} {out} would overwrite {name} of this run; choose another path."
                )


def _is_table(spec: str) -> bool:
    """Whether a text is the path of a file, or ``FILE:COLUMNS``, see `split_columns`."""
    return Path(split_columns(spec)[0]).is_file()


def _literal(text: str) -> Any:
    """Parse a Python literal, such as a number or True; other text is returned unchanged."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _without_names_of_plink(options: dict[str, Any]) -> dict[str, Any]:
    """Replace PLINK's options: ``--pheno-name`` by targets, ``--covar-name`` by covariates.

    Raises
    ------
    InputError
        Columns of covariates are named in two ways, or there are several tables of covariates.
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
                f"--covar-name {','.join(columns)} works with one table of covariates. Append the "
                "columns to the path of their table: --covariates FILE:A,B."
            )
        options["covariates"] = (f"{tables[0]}:{','.join(columns)}",)
    elif columns:
        options["covariate"] = (*options.get("covariate", ()), *columns)
    return options
