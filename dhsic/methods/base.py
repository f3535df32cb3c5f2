"""Base class of all methods: parameters, their validation, and steps that methods share.

A method is one class, its selector. `Request` combines it with the data; `SelectionRun` executes
the steps that all methods share, and calls `check_samples`, `memory_estimate`, `labels` and `rank`
of the method.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from inspect import Signature, get_annotations, signature
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from dhsic.algorithms import how_many
from dhsic.errors import InputError
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.labels import CLASS_KERNELS, SELF, LabelMatrix, label_matrix
from dhsic.memory import release_pages
from dhsic.renamed import RenamingMeta, first_name
from dhsic.selection.cross_validation import Validation
from dhsic.selection.progress import check_progress
from dhsic.selection.run import Method, SelectionRun
from dhsic.selection.stages import STAGES, passed_stages
from dhsic.sources import AbstractSource
from dhsic.sources.opening import open_source
from dhsic.sources.scaling import PRESENCE, Scale
from dhsic.sources.values import ValueKind
from dhsic.validation import (
    BYTES,
    SCALING,
    Constraint,
    by,
    one_of,
    seed_of,
    such,
)

#: Type of `standardize`: "auto", or a `Scale`.
Standardize = bool | str


class MethodFirst:
    """Descriptor for the signature of a selector.

    The parameters of its method come first, then the parameters that all methods share.
    """

    def __get__(self, _: object, selector: type[Selector]) -> Signature:
        parameters = dict(signature(selector.__init__).parameters)
        declared = [name for cls in selector.__mro__ for name in get_annotations(cls)]
        first = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        names = dict.fromkeys((*first[1:], *(name for name in declared if name in parameters)))
        return Signature([parameters[name] for name in names])


@dataclass(eq=False, repr=False, kw_only=True)
class Selector(Method, metaclass=RenamingMeta):
    """Base class of all methods.

    A method declares its parameters as dataclass fields, from which ``__init__`` is generated; a
    field with ``init=False`` is fixed. `_parameter_constraints` validates single parameters;
    `_check_together` rejects combinations.
    """

    __signature__: ClassVar[Any] = MethodFirst()
    #: Name of the method in the identity of a run.
    _method: ClassVar[str]
    #: Validator of each parameter.
    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_features_to_select": by(lambda n: Validation.of(n) or how_many(n, 1)),
        "missing": one_of(
            ("mean", "error"), "'mean' (fill in the mean of the feature) or 'error'."
        ),
        "standardize": SCALING,
        "random_state": by(seed_of),
        "stages": by(passed_stages),
        **{name: of for stage in STAGES.values() for name, of in stage.constraints.items()},
        "progress": by(check_progress),
        "n_jobs": such(
            lambda n: (
                n is None or (not isinstance(n, bool) and isinstance(n, Integral) and int(n) != 0)
            ),
            "a number of threads, -1 for all cores, or None.",
        ),
        "memory_limit": BYTES,
    }
    #: Parameters that change how many features are selected or how a run executes, not its ranking.
    _aside: ClassVar[Set[str]]
    #: Parameters without effect unless another parameter has a value: (other parameter, value).
    _idle_unless: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    #: Whether the method itself draws random numbers, which `random_state` seeds.
    _draws: ClassVar[bool] = False
    #: Whether a round judges every feature alone.
    _alone: ClassVar[bool] = False

    n_features_to_select: int | float | str | None = field(default=50, kw_only=False)
    standardize: bool | str = "auto"
    missing: str = "mean"
    stability: int = 0
    stability_threshold: float | None = None
    clump_r2: float | None = None
    holdout: Any = None
    interactions: str | None = None
    control: str | None = None
    fdr: float = 0.1
    stages: Any = ()
    checkpoint: str | Path | None = None
    progress: Any = "auto"
    random_state: Any = 0
    runtime: Any = "auto"
    n_jobs: int | None = None
    memory_limit: int | None = None

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters, in alphabetical order."""
        return sorted(of.name for of in fields(cls) if of.init)

    def get_params(self, *, deep: bool = True) -> dict[str, Any]:  # none are nested
        """Parameters by name."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name."""
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def open_data(self, X: Any, sample_dim: str | int | None, **options: Any) -> AbstractSource:
        """Open X as a source; `options` are the options of `dhsic.open_source`."""
        source = open_source(X, sample_dim=sample_dim, **options)
        source.check_names()
        release_pages()
        return source

    def check(self) -> None:
        """Reject invalid parameters; `InputError.parameter` names a single invalid parameter."""
        for name, value in self.get_params(deep=False).items():
            try:
                if name in self._parameter_constraints:
                    self._parameter_constraints[name](name, value)
            except InputError as error:
                error.parameter = name
                raise
        for stage in STAGES.values():
            stage.check_parameters(self)
        if self.control is not None and Validation.of(self.n_features_to_select) is not None:
            raise InputError(
                f"control={self.control!r} and n_features_to_select='auto' both choose the number "
                "of features. Pass a maximum number as n_features_to_select, or None."
            )
        self._check_together()

    def check_weights(self) -> None:
        """Reject sample weights; methods that support them override this."""
        raise InputError(
            f"sample_weight (CLI: --weights) is not supported by {self.described()}. To select "
            "features with weights, use BAHSIC or FOHSIC; to test single features, OnePass with "
            "criterion='hsic', dhsic.test_features, or dhsic test. To give two classes of "
            "different sizes the same weight, leave the weights out, and pass "
            "label_kernel='balanced'."
        )

    def _check_together(self) -> None:
        """Reject combinations of parameters that are not allowed, although each is valid."""

    def identity(self) -> dict[str, Any]:
        """Plain values that identify the run.

        For two runs on the same data they are equal if and only if the runs are the same.
        Parameters have their original names, so that old checkpoints remain readable.
        """
        parameters = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in self._aside
        }
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in parameters.items()}
        if not plain.get("balance"):  # checkpoints of older versions lack it
            plain.pop("balance", None)
        for name, (other, value) in self._idle_unless.items():
            if getattr(self, other) != value:
                plain[name] = None
        if "kernel" in plain:
            kernel = resolve_kernel(plain["kernel"])
            plain |= {"kernel": kernel.name, "dtype": str(plain["dtype"])}
            plain |= {f"kernel_{name}": value for name, value in kernel.parameters().items()}
        plain["bandwidth"] = repr(resolve_bandwidth(plain["bandwidth"]))
        plain = {first_name(name): value for name, value in plain.items()}
        return {"method": self._method, **plain, "seed": self._seed}

    def scales(self, values: ValueKind) -> Scale:
        """Scaling of features for values of a given kind."""
        return scales(self.standardize, values, alone=self._alone)

    def check_samples(self, run: SelectionRun) -> None:
        """Reject too few samples, and options that do not suit the number of samples."""

    def check_blocks(self, options: str) -> None:
        """Reject blocks of samples (`options`) if the method has no p-values for them."""
        raise InputError(
            f"{type(self).__name__} has no p-values, so {options} does not apply to it; leave it "
            "out, use BAHSIC or FOHSIC, or call dhsic.test_features (CLI: dhsic test)."
        )

    def labels(self, run: SelectionRun) -> LabelMatrix | None:
        """Label matrix of the label kernel; None if the data are their own labels."""
        if self.label_kernel == SELF:
            return None
        assert run.y is not None, "a method without labels says so"
        return label_matrix(run.y, self.label_kernel, run.covariates, run.p).centred

    def smaller(self, run: SelectionRun) -> str:
        """Advice for error messages on how to reduce the memory of (m, m) matrices."""
        return "use fewer samples"

    @property
    def takes_numbers(self) -> bool:
        """Whether numeric labels are never classes."""
        return self.label_kernel not in ("auto", *CLASS_KERNELS)

    @property
    def _takes_two(self) -> bool:
        return self.label_kernel in ("binary", "balanced")

    @property
    def _seed(self) -> int:
        return seed_of(self.random_state) if self._draws else 0


# Of the shared parameters only those that change feature values affect the ranking.
Selector._aside = {of.name for of in fields(Selector)} - {"standardize", "missing"}


def scales(asked: Standardize, values: ValueKind, *, alone: bool = False) -> Scale:
    """Scaling of features: as requested, or by the kind of values.

    If all variants had unit standard deviation, a variant with three carriers would have the same
    weight as a common one, and its few large values would dominate a kernel of all features.
    Dosages therefore keep their scale, and other features with mostly one value are scaled by
    `PRESENCE`, unless every feature is tested `alone`.
    """
    if not isinstance(asked, str):
        return bool(asked)
    if asked == PRESENCE:
        return PRESENCE
    return alone or (PRESENCE if not values.dosages else False)
