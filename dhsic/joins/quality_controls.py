"""Quality controls among the samples: pools, blanks, standards and calibrators.

Laboratories measure them between the samples of a study. If they are not excluded, they form a
class of their own or join the class of healthy controls. Nearly every feature differs between them
and the samples of people. They are recognised by their labels (``QC``) or names (``Blank_07``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

import numpy as np

from dhsic._typing import Array, Mask
from dhsic.errors import warn
from dhsic.sources.ids import abbreviate

#: Words that only quality controls have in their names; words that also have other meanings, but
#: not in names that consist of them and of words `BESIDE` them; and labels with other meanings.
CERTAIN = frozenset(("qc", "qcs", "pqc", "sqc", "qcpool", "poolqc", "pooledqc", "ntc", "nist"))
LIKELY = frozenset(
    (
        *("pool", "pools", "pooled", "blank", "blanks", "standard", "standards", "std", "stds"),
        *("calibrator", "calibrators", "srm", "template", "quality"),
    )
)
BESIDE = frozenset(
    (
        *("control", "controls", "process", "procedural", "extraction", "solvent", "reagent"),
        *("method", "mix", "reference", "internal", "external", "plasma", "serum", "urine", "no"),
        *("sample", "samples", "batch", "run", "plate", "injection", "inj", "rep"),
    )
)
OTHER_MEANINGS = frozenset(("standard", "blank", "quality", "template"))
#: Names beside which a word is a name of another kind: the provinces of Canada, parts of a river.
NEIGHBOURS = {"qc": {"on", "bc", "ab", "ns", "nb"}, "pool": {"riffle", "glide", "run", "step"}}
#: Minimum number of controls, and of other classes; maximum share of controls of all samples.
FEWEST, FEWEST_CLASSES, MOST = 2, 2, 0.5
#: Maximum number of samples: more are cells or molecules, which nobody names by hand.
MOST_SAMPLES = 20_000
#: Number of names that the warning shows, and maximum number that its remedy lists.
SHOWN, MOST_LISTED = 3, 1000

#: Function that returns how to exclude the labels of a column: its name, and these labels.
Remedy = Callable[[str, list[str]], str]


def is_control(name: str) -> bool:
    """Whether a name belongs to a quality control.

    >>> [is_control(name) for name in ("QC_07", "Pooled plasma 3", "S01.QC", "blank2", "NIST1950")]
    [True, True, True, True, True]
    >>> [is_control(name) for name in ("control", "gene pool", "S07", "non-standard", "case")]
    [False, False, False, False, False]
    """
    words = {*re.findall(r"[^\W\d_]+", name.lower())}
    are_likely = bool(words & LIKELY) and words <= LIKELY | BESIDE
    return bool(words & CERTAIN) or are_likely


def _are_controls(names: Array, known: Collection[str] = ()) -> Mask:
    """Mask (m,) of the names of quality controls; all False if other names explain the words."""
    distinct = {str(name): is_control(str(name)) for name in set(names.tolist())}
    first = {re.split(r"[\W\d_]", name.lower(), maxsplit=1)[0] for name in distinct}
    is_other = any(word in first and first & beside for word, beside in NEIGHBOURS.items())
    return np.array(
        [distinct[str(n)] and str(n).lower() not in known and not is_other for n in names],
        dtype=bool,
    )


def _by_label(values: Array) -> Mask:
    """Mask (m,) of samples with a class name such as "QC"; all False unless other classes exist."""
    mask = np.zeros(len(values), dtype=bool)
    if values.ndim == 1 and values.dtype.kind in "OU":
        mask = _are_controls(values.astype(str), OTHER_MEANINGS)
        if len(set(values[~mask].astype(str).tolist())) < FEWEST_CLASSES:
            mask[:] = False
    return mask


def warn_of_controls(
    labels: Sequence[tuple[str, Array]], names: Array | None, remedy: Remedy
) -> None:
    """Warn of samples that are quality controls according to their class or name.

    Parameters
    ----------
    labels : sequence
        Name and values (m,) of each target.
    names : (m,) array or None
        Names of the samples.
    remedy : callable
        Returns advice on how to exclude classes of a target.
    """
    m = len(labels[0][1]) if labels else 0 if names is None else len(names)
    if not 0 < m <= MOST_SAMPLES:
        return
    masks = [(name, values, _by_label(values)) for name, values in labels]
    by_name = np.zeros(m, dtype=bool) if names is None else _are_controls(names)
    by_label = np.any([mask for *_, mask in masks] or [by_name & False], axis=0)
    n = int((by_label | by_name).sum())
    if n < FEWEST or n > MOST * m:
        return
    classes = {name: sorted({*map(str, values[mask])}) for name, values, mask in masks}
    listed = abbreviate((repr(c) for each in classes.values() for c in each), SHOWN)
    reasons = [f"by their labels ({listed})"] if by_label.any() else []
    how = [remedy(name, each) for name, each in classes.items() if each]
    if names is not None and (by_name & ~by_label).any():
        controls = [str(name) for name in names[by_label | by_name]]
        shown = abbreviate((repr(str(name)) for name in names[by_name & ~by_label]), SHOWN)
        reasons.append(f"by their names ({shown})")
        how = [f"filters=dhsic.Filters(remove={controls[:MOST_LISTED]!r})"]
    warn(
        f"{n:,} of {m:,} samples look like quality controls, {' and '.join(reasons)}. They differ "
        "from the samples of a study for technical reasons, so nearly every feature may seem to "
        f"be relevant. Exclude them: {' '.join(how)}. If they belong to the study, ignore this "
        "warning."
    )
