"""A selection as plain values: what `select` was asked, what its checkpoint keeps for `resume`."""

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
#: Options that are files of ids, and all that are paths.
LISTS = ("keep", "remove", "extract", "exclude", "extract_regions", "exclude_regions")
PATHS = ("path", "labels", "out", "truth", "effects", "loci", "checkpoint", *LISTS)
#: Methods whose default is a kernel of their own on the labels.
OWN_KERNELS = ("ccm", *CRITERIA)
#: What is said where no labels are named.
NO_TARGET = (
    "Missing option '--target': the labels, a variable of the store along the samples or a column "
    "of --labels."
)
#: Options that ask for several runs, and the dimension that their result has more.
SEVERAL = {"per_target": "targets", "per_class": "classes"}
#: Options that say how a method does its work.
OF_METHODS = frozenset(parameters_of("bahsic")) - {*OF_RUNS}


@dataclass(frozen=True, slots=True)
class SelectJob:
    """What ``dhsic select`` is asked: its options, see `dhsic.cli.options`, and who asked them.

    Paths are absolute where they are local, so that a job resumes from any folder. `parameters` is
    what was said of `OF_METHODS`, by the names of Python; `data` and `typed` are the path and the
    whole command without secrets, as they were typed, for people. Of one that `tests` the first
    `n_features` are shown, and those of small q are selected.

    Data
    ----
    variable : NAME
        Matrix of the store that holds the features, such as raw/X or layers/NAME of AnnData.
    sample_dim : DIM
        Name or number of the samples' dimension.
    transpose : flag
        Rows of a table are features, and columns samples (genes x samples), as of --sample-dim 1.
    not_feature : NAME, repeated
        Column of a table that is no feature; labels and covariates of it are none anyway.
    missing_code : CODE
        Numbers of the data that stand for missing, such as 9 or 3,9; none to take every number as
        it is. By default what the store says, and -1, -9 and -127 beside 0, 1 and 2.
    missing_chunks : {"error", "fill"}
        Chunks that the store lacks: an error, for they may be lost, or the fill value, which a
        writer may leave out on purpose.
    ploidy : {"scale", "count", "error"}
        Dosage of a haploid genotype in a diploid store, such as of males on X: scaled to 0 or 2, as
        PLINK has it, the count of its own alleles (0 or 1), or an error.
    pass_only : flag
        Leave out variants of VCF Zarr whose FILTER is not PASS; one without (.) has not passed.
    keep : FILE
        Samples that alone take part, others are left out: a file with FID and IID, or one id, in
        each line, with a header or without.
    remove : FILE
        Samples that are left out, likewise.
    keep_if : CONDITION
        Samples that take part, by variables of the store along them: 'age >= 18 and sex == "F"'.
    mind : float
        Largest part of the values of a sample that may be missing, such as 0.1 (PLINK's --mind),
        of the features that the filters by name and place leave.
    chromosomes : LIST
        Where features lie that take part: 1-5,X or places such as 6:25000000-34000000.
    extract : FILE
        Features that alone take part: ids or names, between blanks.
    exclude : FILE
        Features that are left out, likewise.
    extract_regions : FILE
        Regions whose features alone take part: chromosome, start and end in each line, which count
        from 1, ends included (PLINK's bed1); a file in .bed or .bed.gz counts from 0 (bed0).
    exclude_regions : FILE
        Regions whose features are left out, likewise.
    regions_start : {"0", "1"}
        What the first base of a chromosome is called in these files, whatever their suffix.
    extract_if : CONDITION
        Features that take part, by what the store says of them: 'variant_quality >= 30'.
    maf : float
        Least frequency of the rarer allele, such as 0.01, in the samples that take part.
    max_missing : float
        Largest part of the values of a feature that may be missing in these samples, such as 0.1.
    hwe : float
        Least p-value of the exact test of Hardy-Weinberg equilibrium in these samples, such as 1e-6
        (PLINK's --hwe); on X in females.
    groups : NAME
        Variable of the store that names the group of each feature (its gene): groups are selected
        as a whole, by definition, and -n counts them.

    Target
    ------
    target : NAME, repeated
        Labels: a variable of the store along the samples, coordinates such as obsm/spatial of
        AnnData, or a column of --labels. Several are selected for jointly, unless --per-target.
        Needed, unless --label-kernel self.
    per_target : flag
        Select for each --target by itself, with one reading of the data: each as alone, with the
        samples that have it where --drop-missing.
    per_class : flag
        Select for each class of --target against the rest, with one reading of the data: what tells
        one cell type from all others.
    labels : FILE
        Table of labels: TSV, CSV, white space, .fam, .psam; rows are matched by name.
    sample_column : NAME
        Column with the sample names, of the tables that have it; FID_IID for both of them.
    by_position : flag
        Rows of the tables are in the order of the samples, whatever they are called.
    covariates : FILE[:COLS], repeated
        Table of covariates whose linear effect is taken out of the labels; COLS as a,b. Of several
        tables (covariates, components) each is joined by the names of the samples.
    covariate : NAME, repeated
        A covariate: a column of --labels or a variable of the store. May be repeated.
    drop_missing : flag
        Leave out samples without a label or covariate.
    na : TEXT, repeated
        Read this as missing besides NA, NaN, "." and nothing, for instance -9 or "?": in labels
        and covariates, and in features of a table of text; NAME=TEXT in a column alone (bmi=0).
    not_na : TEXT, repeated
        Read this as a value, though it is usual for missing: NA, or PLINK's -9.

    Method
    ------
    method : {"bahsic", "fohsic", "ccm", "weighting", "svm-rfe", "linear", "pearson", "centroid", \
              "t", "snr", "moderated-t", "b", "shrunken-centroid", "mmd", "kta", "qmi", "ridge", \
              "hsic"}
        Backward elimination (bahsic), forward selection (fohsic), conditional covariance
        minimisation (ccm), feature weights (weighting), support vectors (svm-rfe), or a ranking
        in one pass by the linear kernel or another criterion.
    n_features : N|auto
        How many to select, or auto: as many as cross-validation chooses. The ranking covers all.
    settings : NAME=VALUE, repeated
        Any other parameter of the method, by its name in Python: strategy=floating, epsilon=0.1,
        constraint=soft. May be repeated.

    Output
    ------
    checkpoint : PATH
        Keep the state here, for `dhsic resume`: in a folder, or at a URL such as
        s3://bucket/run.dhsic. Its folder is made where there is none, if the one above is there.
    out : PATH
        Write the result here; in a folder as of --checkpoint. The suffix says how: .tsv, .csv
        (also .gz), .parquet or .json for a table of all features, the best first (rank, score,
        selected, index, name, ...), .zarr or none for a Zarr store, which xarray reads.
    selected_only : flag
        Leave out of the table of --out what is not selected; of tests, what has q > 0.05.
    force : flag
        Overwrite --out.
    truth : FILE
        Compare with what was planted.
    progress : bool
        Progress bar; default: on a terminal.
    as_json : flag
        Print one JSON object.

    Machine
    -------
    threads : N
        Run in this process on so many threads; all usable cores by default.
    memory : SIZE
        Refuse to start if more may be needed, like 2GB.

    Cluster
    -------
    scheduler : ADDRESS
        Run on a Dask cluster, tcp://... or tls://...
    detach : flag
        Leave the run to the cluster of --scheduler and return; see status, attach, cancel.
    """

    path: str
    target: tuple[str, ...] = ()
    per_target: bool = False
    per_class: bool = False
    labels: str | None = None
    sample_column: str | None = None
    by_position: bool = False
    covariates: tuple[str, ...] = ()
    covariate: tuple[str, ...] = ()
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
        """SelectJob of the options of the command line."""
        given = {**options, "data": options["path"]}
        for name in PATHS:
            given[name] = absolute(given.get(name))
        given["covariates"] = tuple(str(absolute(spec)) for spec in given.get("covariates", ()))
        said = {name: given.pop(name, None) for name in OF_METHODS}
        return cls(**given, parameters={n: value for n, value in said.items() if value is not None})

    @classmethod
    def kept_in(cls, path: str) -> SelectJob:
        """SelectJob that a checkpoint keeps."""
        checkpoint = Checkpoint(path)
        if not checkpoint.store.is_there():
            raise CheckpointError(
                f"There is no checkpoint at {path}; pass what was given as --checkpoint."
            )
        kept = checkpoint.job() or {}
        if kept.get("command") != COMMAND:
            raise CheckpointError(
                f"{path} was not made by `{COMMAND}`, so there is no command to go on with; "
                "call fit again with the same arguments and this checkpoint."
            )
        known = {of.name for of in fields(cls)}
        options: dict[str, Any] = {k: v for k, v in kept.items() if k in known}
        for of in fields(cls):
            if of.default == ():  # JSON has no tuples
                kept_value = options.get(of.name) or ()
                options[of.name] = (
                    (kept_value,) if isinstance(kept_value, str) else tuple(kept_value)
                )
        said = {k: v for k, v in kept.items() if k in OF_METHODS and v is not None}
        return cls(**options | {"parameters": said, "checkpoint": path})  # it may have moved since

    def plain(self) -> dict[str, Any]:
        """Values for JSON."""
        content = asdict(self)
        return {"command": COMMAND, **content.pop("parameters"), **content}

    @property
    def labels_as(self) -> str:
        """Kernel on the labels."""
        return str(self.parameters.get("label_kernel", "auto"))

    @property
    def takes_label_kernel(self) -> bool:
        """Whether the method looks at labels through a kernel of that name."""
        is_own = self.method in OWN_KERNELS and not self.tests
        return "label_kernel" in parameters_of(self.method) and not is_own

    def request(self, given: Labelled, attributes: Mapping[str, Any] | None = None) -> Request:
        """What is to be done with data and labels that are open; `attributes` of the result."""
        asked = {"checkpoint": self.checkpoint, "memory": self.memory}
        asked["progress"] = "auto" if self.progress is None else self.progress
        return Request.labelled(
            self.selector().set_params(**asked),
            self.path,
            given,
            feature_groups=self.groups,
            attributes=attributes,
            job=self.plain(),
            **self.opening,
        )

    @property
    def opening(self) -> dict[str, Any]:
        """How its data are opened, as of `dhsic.open_source`."""
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
        """Columns of the data that are no features: said to be none, labels and covariates."""
        holds_labels = self.labels is None and is_table(self.path)
        labels = (*self.target, *self.covariate) if holds_labels else ()
        return tuple(dict.fromkeys((*self.not_feature, *labels)))

    @property
    def _turned(self) -> int | None:
        return 1 if self.transpose else None

    @property
    def filters(self) -> Filters:
        """Which samples and features take part."""
        return Filters(**{of.name: getattr(self, of.name) for of in fields(Filters)})

    @property
    def each(self) -> list[SelectJob]:
        """The job for each target by itself; all of it where they are selected for jointly."""
        if not self.per_target:
            return [self]
        no_features = self._not_features  # labels of one run are no features of another
        return [replace(self, target=(name,), not_feature=no_features) for name in self.target]

    @property
    def dim(self) -> str | None:
        """What its runs differ in, where they are several."""
        return next((dim for name, dim in SEVERAL.items() if getattr(self, name)), None)

    def runtime(self) -> AbstractRuntime:
        """What it runs on."""
        return choose_runtime("auto", scheduler=self.scheduler, n_threads=self.threads)

    def selector(self) -> Selector:
        """Selector of the method, with what was said and defaults for the rest."""
        known = parameters_of(self.method)
        for name in self.parameters:
            if name not in known:
                raise InputError(
                    f"{spelled(name)} is no option of --method {self.method}; leave it out."
                )
        return selector_of(self.method, self.n_features, {**self.parameters, **self._set(known)})

    def _set(self, known: list[str]) -> dict[str, Any]:
        """What ``--set NAME=VALUE`` says, by the names of the method's parameters."""
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
        """Refuse what can be seen to fail before any work."""
        selector = self.selector()
        selector.check()
        if self.checkpoint is not None:  # a slip: a folder that is far from any, or no URL
            store = store_at(self.checkpoint, "--checkpoint ", InputError)
            if isinstance(store, FileStore):
                check_place(store.path, "--checkpoint", InputError)

        def refuse(is_wrong: object, sentence: str) -> None:
            if is_wrong:
                raise InputError(sentence)

        is_self, by_name = self.labels_as == SELF, self.sample_column is not None
        said = "--sample-column" if by_name else "--by-position"
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
            f"{said} is about the rows of a table, and there is none; pass --labels FILE.",
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
        for name, given in (("--out", self.out), ("--truth", self.truth)):
            refuse(
                self.detach and given is not None,
                f"{name} comes when the run is done: leave it out here, and pass it to `dhsic "
                "attach`.",
            )
        return self

    def check_read(self, out: str, option: str = "--out") -> None:
        """Refuse to write what an option names over what the run reads."""
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
    """A number, True, False or None where the text is one; else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
