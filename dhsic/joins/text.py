"""Tables of labels and covariates in files, and text that means a missing value.

Files are TSV, CSV, separated by white space, or PLINK files, with or without a header. Text has
several forms for missing values (``NA``). PLINK writes -9, or 0 beside its codes for cases and
controls. Such codes are refused unless the user declares what they mean: treated as values, they
would change the ranking.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
import zarr

from dhsic._typing import Array, Mask
from dhsic.errors import InputError, warn
from dhsic.joins.class_names import refuse_alike
from dhsic.joins.table import REMEDIES, Table
from dhsic.kernels.labels import may_be_classes
from dhsic.kernels.risk_sets import is_censored
from dhsic.sources import AbstractSource
from dhsic.sources.arrow import arrow_table
from dhsic.sources.delimited import Delimited
from dhsic.sources.geo import ACCESSION, geo_samples
from dhsic.sources.headers import GEO
from dhsic.sources.ids import NA, abbreviate, plain
from dhsic.sources.opening import on_disk, opener_of
from dhsic.sources.options import SAMPLE_DIMS
from dhsic.sources.parquet import open_parquet
from dhsic.sources.scales import DIGITS, codes_beside_scale
from dhsic.sources.sentinels import (
    BESIDE_9,
    FEWEST_STEPS,
    FILLS,
    OF_LARGEST,
    OF_MIDDLE,
    OFTEN,
    POSITIVE,
    SCALE,
    in_both_precisions,
    is_apart,
    written,
)
from dhsic.validation import as_array, is_numeral

#: Names of the columns of a .fam file, which has no header, as in PLINK.
FAM = ("FID", "IID", "PAT", "MAT", "SEX", "PHENO")
#: Text of missing Python objects, and of missing categories in PLINK 2; in lower case it is a
#: class.
NONE = frozenset({"None", "NONE"})
#: PLINK's code for a missing phenotype.
PLINK_MISSING = -9
#: PLINK's codes for missing, for controls or males, and for cases or females.
MISSING, CONTROL, CASE = 0, 1, 2
#: Synonyms of the columns of .fam, in lower case.
WORDS = {"phenotype": "pheno"}
#: Numeric codes for missing values that many programs write; and codes that may be values, which
#: are codes only if they repeat, far from all other values.
FAR_CODES = (PLINK_MISSING, *BESIDE_9, -99, -999, -9999)
LONE_CODES = (*POSITIVE, *(-n for n in POSITIVE if -n not in FAR_CODES), -1, *FILLS, -1e20, -1e30)
MISSING_CODES = (*FAR_CODES, *LONE_CODES)
#: With few other values, codes up to `ORDINARY` may be values, unless their distance from the
#: others exceeds `OF_SPAN` times the range of these.
ORDINARY, OF_SPAN = 99, 10
#: Codes within the range of fractions occur at least this many times as often as any other value.
MUCH_MORE_OFTEN = 5
#: Minimum number of values that equal a number far from all others, if the number may be any; and
#: minimum distance from these, as a share of their range.
OFTEN_ALONE, OF_RANGE = 5, 0.2
#: Maximum number of classes next to which -1 may be a missing category.
MOST_LEVELS = 40
#: Codes next to a short scale, such as answers from 1 to 5; the most common codes first.
SCALE_CODES = (*DIGITS[::-1], *POSITIVE)
#: Number added to labels so that none of them is a code.
SHIFT = 100
#: Magnitude of codes from which on labels are halved instead, because an addition would round
#: their differences away.
HUGE = 1e12
#: Codes after such an addition: a caller who adds it takes the code for a value.
SHIFTED = frozenset({1, *(code + SHIFT for code in MISSING_CODES if code > 0)})
#: Pattern of numbers as people write them: decimal commas, thousands separators, percent signs.
WRITTEN = re.compile(
    r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?( ?%)?|[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?", re.ASCII
)
#: If more than this share of labels are numbers as people write them, they are not class names.
MOST_WRITTEN = 0.9
#: Text that spreadsheets append to whole numbers.
POINT_ZERO = re.compile(r"\.0*$")


def levels_in_table(path: str, name: str) -> list[str]:
    """Return the levels of an ordered category of an Arrow file, lowest first; [] for others."""
    is_arrow = opener_of(path) is open_parquet
    return arrow_table(on_disk(path)).levels(name.removeprefix("#")) if is_arrow else []


def read_table(path: str, values: str = "PHENO", remedies: tuple[str, str] = REMEDIES) -> Table:
    """Read a table from a text file, see `dhsic.sources.delimited.Delimited`, or an Arrow file.

    Without a header, columns are named as in PLINK: FID, IID, then `values` with a number
    appended. `remedies` are the advice in messages, see `Table`.
    """
    if opener_of(path) is open_parquet:
        arrow_columns = arrow_table(on_disk(path)).columns().items()
        return Table(path, {name.removeprefix("#"): of for name, of in arrow_columns}, "", remedies)
    text = Delimited(path)
    samples = (text.names or [""])[1:]
    if text.top.format_name == GEO and (about := geo_samples(text.lines_above(), samples)):
        header = text.top.n_skipped + 1  # the names of samples are there, too
        return Table(path, about, "", remedies, (header,) * len(about[ACCESSION]))
    rows, lines = _rows(text)
    if not rows:
        raise InputError(f"{path} has no rows; pass a table with a header and one row per sample.")
    columns = list(np.array(rows, dtype=object).T)
    names, assumed = text.names, ""
    if names is None:
        is_fam = text.file.suffix.lower() in (".fam", ".psam")
        if is_fam and len(columns) not in (len(FAM) - 1, len(FAM)):
            raise InputError(
                f"{path} has no header and {len(columns)} columns, but a .fam file has {len(FAM)}: "
                f"{', '.join(FAM)}."
            )
        names = list(FAM[: len(columns)]) if is_fam else _headless(columns, values)
        assumed = f"no header, columns assumed to be {abbreviate(names, 8)}"
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"Columns of {path} have the same name: {abbreviate(map(repr, twice))}. Rename them "
            "so that all names differ."
        )
    by_name = dict(zip(names, columns, strict=True))
    return Table(path, by_name, assumed, remedies, tuple(lines))


def _rows(text: Delimited) -> tuple[list[list[str]], list[int]]:
    """Return the rows of a table, padded with "", and their line numbers."""
    rows, lines = [], []
    for number, fields in text.rows():
        if len(fields) < text.width and not text.separator:
            raise text.refused(
                f"line {number} has fewer fields than the other lines, and spaces do not show "
                "which field is missing. Write NA for the missing field, or separate columns by "
                "tabs."
            )
        rows.append(fields + [""] * (text.width - len(fields)))
        lines.append(number)
    return rows, lines


def _headless(columns: list[Array], values: str) -> list[str]:
    """Return names for columns without a header: FID and IID if these may be ids, then `values`."""

    def are_measured(column: Array) -> bool:
        """Whether a column has numbers that are not ids: some are missing or not whole."""
        text = [str(value).strip() for value in column]
        are_numbers = all(is_numeral(t) or t.lower() in NA for t in text)
        return are_numbers and not all(t.isdigit() for t in text)

    n_ids = next((i for i, column in enumerate(columns[:2]) if are_measured(column)), 2)
    n_ids = min(n_ids, len(columns) - 1)
    ids = ("FID", "IID")[2 - n_ids :]
    return [*ids, *(f"{values}{i}" for i in range(1, len(columns) - n_ids + 1))]


def typed(values: Array, na: tuple[str, ...] = (), not_na: tuple[str, ...] = ()) -> Array:
    """Convert values to float64 numbers with NaN if missing, or to text objects with "" if missing.

    Numbers and booleans are unchanged, unless `na` contains one of them. Arrays of fixed-width text
    (from a store) contain class names, even if these are "0" and "1", and are unchanged, too.
    Blanks around text are removed. Texts in `not_na` are values, even if they usually mean a
    missing value.

    Examples
    --------
    >>> typed(np.array(["1", "NA", "2.5"], dtype=object))
    array([1. , nan, 2.5])
    >>> typed(np.array(["case", ".", "-9"], dtype=object), na=("-9",))
    array(['case', '', ''], dtype=object)
    """
    coded = [float(code) for code in na if is_numeral(code)]
    if values.dtype.kind not in "OSUT":
        missing = np.isin(values, coded)
        return np.where(missing, np.nan, values) if missing.any() else values
    there = {t.strip().lower() for t in not_na}

    def is_none(text: str) -> bool:
        said = (stands_for_none(text) and text.lower() not in there) or text in na
        return said or (bool(coded) and is_numeral(text) and float(text) in coded)

    text = stripped(values)
    missing = np.array([is_none(t) for t in text], dtype=bool)
    if values.dtype.kind == "U":
        return np.where(missing, "", text.astype(str))
    if missing.all() or not all(map(is_numeral, text[~missing])):
        return np.where(missing, "", text)
    numbers = np.full(text.shape, np.nan)
    numbers[~missing] = text[~missing].astype(np.float64)
    return numbers


def stands_for_none(text: str) -> bool:
    """Whether a text without surrounding blanks means a missing value.

    >>> [stands_for_none(text) for text in ("n/a", "NULL", "None", "NONE", "none", "0")]
    [True, True, True, True, False, False]
    """
    return text in NONE or text.lower() in NA


def stripped(values: Array) -> Array:
    """Return text without surrounding blanks, as objects."""
    return np.array([t.strip() for t in _texts(values)], dtype=object)


def check_numbers(name: str, labels: Array, values: Array) -> None:
    """Refuse table labels (m,) that are read as classes but are probably numbers, or the reverse.

    `labels` are converted from the text `values`. Numbers with decimal commas, thousands separators
    or percent signs would be read as classes. The classes 1.1 and 1.10 would be equal as numbers.
    """
    text = stripped(values)
    there = ~is_missing(labels)
    if labels.dtype.kind != "f":
        odd = sorted({t for t in text[there] if not is_numeral(t)})
        n_written = sum(WRITTEN.fullmatch(t) is not None for t in text[there])
        if any(map(WRITTEN.fullmatch, odd)) and n_written > MOST_WRITTEN * there.sum():
            n_percent = sum(t.endswith("%") for t in text[there])
            fractions = (
                " If numbers without a percent sign are fractions, divide the others by 100."
                if 0 < n_percent < there.sum()
                else ""
            )
            raise InputError(
                f"Labels of {name!r} look like numbers, but some cannot be read "
                f"({abbreviate(odd)}). Write numbers with decimal points, without percent signs "
                f"or thousands separators.{fractions} If they are names of classes, "
                "use --label-kernel multiclass, or pass y as text."
            )
        refuse_alike(
            f"Labels of {name!r}",
            "classes",
            text[there],
            "if they are different classes, use --label-kernel multiclass.",
        )
    elif there.any() and may_be_classes(labels[there]):
        twice = written_twice(text[there])
        if twice:
            raise InputError(
                f"Labels of {name!r} are classes, but some are one number in several spellings "
                f"({abbreviate(map(' and '.join, twice), 3)}). If these are the same class, "
                "spell them the same way. If they are names of different classes, use "
                "--label-kernel multiclass, or pass y as text."
            )


def written_twice(text: Array) -> list[list[str]]:
    """Return groups of texts that are the same number and differ by more than a final ".0".

    The sign of 0 is ignored: programs write -0.0 for small negative numbers after rounding.
    """
    spellings: dict[float, set[str]] = {}
    for t in set(text):
        if is_numeral(t):
            plain = t.removeprefix("-") if float(t) == 0 else t
            spellings.setdefault(float(t), set()).add(POINT_ZERO.sub("", plain))
    return [sorted(texts) for _, texts in sorted(spellings.items()) if len(texts) > 1]


def _texts(values: Array) -> list[str]:
    return list(map(str, np.char.decode(values) if values.dtype.kind == "S" else values))


def is_missing(values: Array) -> Mask:
    """Mask of the missing values of a typed column, (m,)."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "OU":
        return np.asarray(values == "", dtype=bool)
    return np.zeros(values.shape, dtype=bool)


def whole_numbers(values: Array) -> Array:
    """Convert text to Python integers, which lose no digits; text that is no integer becomes 0."""
    if values.dtype.kind not in "OSUT":
        return values
    stripped_texts = (t.strip() for t in _texts(values))
    return np.array(
        [int(t) if t.lstrip("+-").isdecimal() else 0 for t in stripped_texts], dtype=object
    )


def check_coded(X: Any, **given: Any) -> None:
    """Refuse labels and covariates of X with values that look like missing codes: -9, "NA"."""
    for what, values in given.items():
        if values is None:
            continue
        columns = as_array(values, what)
        are_times = is_censored(columns)
        if are_times:
            columns = columns["time"]
        if columns.ndim > 1 and columns.shape[1] >= len(columns):
            continue  # a kernel matrix, or input that is refused elsewhere
        each = columns.T if columns.ndim == 2 else [columns]
        _refuse_codes(X, what, columns, each)
        likely = (likely_codes(what, column, are_times=are_times) for column in each)
        for code, sentence in chain.from_iterable(likely):
            if code in SHIFTED:
                continue
            without = _without(X, what, columns, [code])
            warn(f"{sentence} If they are missing: {without}")
        _check_words(X, what, columns)


def _refuse_codes(X: Any, what: str, values: Array, columns: Iterable[Array]) -> None:
    """Refuse labels or covariates that contain codes for missing values, in any of `columns`."""
    n_of = Counter[float]()
    for column in columns:
        n_of.update(codes_in(column))
    if not n_of:
        return
    code = next(iter(n_of))
    change = f"+ {SHIFT if code > 0 else written(1 - code)}" if abs(code) < HUGE else "/ 2"
    declared_values = (
        f"pass {what} {change}, which gives the same ranking"
        if values.dtype.kind in "if"
        else f"give it another name, such as 'code {written(code)}'"
    )
    reason = f"all other values are far from {'it' if len(n_of) == 1 else 'them'}"
    if any(is_within(each, values) for each in n_of):
        reason = "no other value repeats as often"
    raise InputError(
        f"{n_of.total()} of {values.size} values of {what} are {either(n_of)}, which "
        f"{written_by(code)} for missing values, and {reason}. "
        f"{_without(X, what, values, [*n_of])} If {written(code)} is a real value, "
        f"{declared_values}."
    )


def _check_words(X: Any, what: str, columns: Array) -> None:
    """Refuse text labels that mean a missing value."""
    texts = [v.strip() if isinstance(v, str) else "" for v in columns.ravel().tolist()]
    for word in sorted({t for t in texts if t and stands_for_none(t)}):
        raise InputError(
            f"{texts.count(word)} of {columns.size} values of {what} are {word!r}, which usually "
            f"means a missing value. {_without(X, what, columns, [word])} If it is a class, give "
            f"it another name, such as 'class {word}'."
        )


def written_by(code: float) -> str:
    """Return the program that writes a missing-value code, for messages: "PLINK writes"."""
    return "PLINK writes" if code in (PLINK_MISSING, 0) else "many programs write"


def either(codes: Iterable[float]) -> str:
    """Join codes by "or", for messages."""
    return " or ".join(map(written, codes))


def codes_in(values: Array, kept: Collection[float] = ()) -> dict[float, int]:
    """Count the values that look like codes for missing values, most frequent first.

    Codes in `kept` are values.

    >>> codes_in(np.array([3, 1, 2, 5, 4, 77, 77, 77, 99, 99, 99, 88, 88, 88]))
    {77: 3, 88: 3, 99: 3}
    >>> codes_in(np.array([1, 2, 2, 1, 1, 2, 9, 1, 2]))
    {9: 1}
    """
    numbers = as_numbers(values)
    if numbers is None:
        return {}
    code_counts: dict[float, int] = {}
    if np.isin(numbers, in_both_precisions(MISSING_CODES)).any():
        counts = {code: n_coded(numbers, code, kept) for code in MISSING_CODES if code not in kept}
        code_counts = {code: n for code, n in counts.items() if n}
    if PLINK_MISSING not in code_counts:  # -8 and -7 may be values
        code_counts = {code: n for code, n in code_counts.items() if code not in BESIDE_9}
    code_counts |= _beside_scale(numbers, kept)
    return dict(sorted(code_counts.items(), key=lambda code_and_count: -code_and_count[1]))


def _beside_scale(numbers: Array, kept: Collection[float]) -> dict[float, int]:
    """Count missing-value codes beside a short scale of whole numbers; omit numbers in `kept`."""
    levels, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    at = codes_beside_scale(levels, counts, [code for code in SCALE_CODES if code not in kept])
    n_of = zip(levels[at].tolist(), counts[at].tolist(), strict=True)
    return {int(code): n for code, n in n_of}


def as_numbers(values: Array) -> Array | None:
    """Convert a column of numbers or text to float64; None for other columns.

    In a column of text, text that is not a number becomes 0, and empty text NaN.
    """
    if values.dtype.kind in "OSUT":
        stripped_texts = (t.strip() for t in _texts(values))
        return np.array(
            [float(t) if is_numeral(t) else 0.0 if t else np.nan for t in stripped_texts]
        )
    return values.astype(np.float64) if values.dtype.kind in "if" else None


def n_coded(values: Array, code: float = PLINK_MISSING, kept: Collection[float] = ()) -> int:
    """Count the values that equal `code` and look like a code for missing values.

    A number is counted in three cases: it is far below all other numbers; all other values are
    text; or it repeats, and the others are fractions that hardly repeat (`_repeats_alone`). A
    number that may be a real value (999, 99, -1) must lie apart from many other values, and farther
    if it occurs only once or twice. Other codes are not compared, unless they are in `kept`.

    Examples
    --------
    >>> n_coded(np.array([1, 2, -9])), n_coded(np.array([-9.0, -8.5, 1.0]))
    (1, 0)
    >>> n_coded(np.array(["case", "-9", "control"])), n_coded(np.array([0.5, -999.0]), -999)
    (1, 1)
    >>> n_coded(np.array([-9.0, -9.0, -5.3, 0.4, 1.7]))
    2
    >>> n_coded(np.array([-9.0] * 5 + [-11.2, -5.3, 0.4, 1.7, 1.2, 2.4]))
    5
    >>> n_coded(np.append(np.arange(20, 70), [999] * 4), 999), n_coded(np.arange(-1, 30), -1)
    (4, 0)
    >>> n_coded(np.array([1, 2, 3, 4, 5, 6, 7] * 3 + [99] * 4), 99)
    4
    """
    numbers = as_numbers(values)
    if numbers is None:
        return 0
    coded = np.isin(numbers, in_both_precisions([code]))
    n = int(coded.sum())
    if not n:
        return 0
    codes = [each for each in MISSING_CODES if each not in kept and each != -1]
    remaining = numbers[~(coded | np.isin(numbers, in_both_precisions(codes))) & ~np.isnan(numbers)]
    if not remaining.size:
        return 0
    if code in LONE_CODES:
        return n if _is_apart(code, remaining, n) else 0
    is_far = remaining.min() > code / 2 and remaining.max() >= 0
    return n if is_far or _repeats_alone(code, n, remaining) else 0


def _repeats_alone(code: float, n: int, others: Array) -> bool:
    """Whether other values are fractions that hardly repeat, although the code occurs n times.

    A code within the range of the others must repeat much more often than any other value.
    """
    values, counts = np.unique(others, return_counts=True)
    if (values == np.floor(values)).all():
        return False
    if values[0] > code:
        return bool(n > 1 and counts.max() == 1)
    return bool(n >= MUCH_MORE_OFTEN * counts.max())


def is_within(code: float, values: Array) -> bool:
    """Whether some values are smaller than a code, and others larger."""
    numbers = as_numbers(values)
    return numbers is not None and bool(np.nanmin(numbers) < code < np.nanmax(numbers))


def _is_apart(code: float, others: Array, n: int) -> bool:
    """Whether a code that occurs n times is farther from all other values than these are apart.

    A code that occurs once may be the largest ordinary value, so its distance must be twice the
    range of the others. An exception is -1 below whole numbers that are all positive.
    """
    scale = np.unique(others)
    if scale.size < 2:
        return False
    gap, span = max(code - scale[-1], scale[0] - code), scale[-1] - scale[0]
    if scale.size < SCALE:
        return bool(gap > span * (1 if abs(code) > ORDINARY and n >= OFTEN else OF_SPAN))
    is_below = code == -1 and scale[0] > 0 and (scale == np.floor(scale)).all()
    is_far = n > 1 or gap > 2 * span or is_below
    return bool(is_far and (code != -1 or n >= OFTEN or is_below) and is_apart(code, scale))


def zeros_apart(values: Array) -> tuple[int, float]:
    """Count zeros far below all other values, which may mean missing; also return the next value.

    >>> zeros_apart(np.append(np.arange(90.0, 180), [0] * 5)), zeros_apart(np.arange(-9.0, 9))
    ((5, 90.0), (0, 0.0))
    """
    if values.dtype.kind not in "if":
        return 0, 0.0
    n, scale = int((values == 0).sum()), np.unique(values[(values != 0) & ~np.isnan(values)])
    is_likely = OFTEN <= n < values.size / 2 and scale[0] > 0 and is_apart(0, scale)
    return (n, float(scale[0])) if is_likely else (0, 0.0)


def _gap_from(nearest: float, number: float) -> float:
    """Distance of the smallest or largest number from the nearest other value.

    A positive smallest number may stand for values below a limit of detection: it is the limit
    divided by 1, by the square root of 2, or by 2. The distance is then measured from the limit.
    """
    if not 0 < number < nearest:
        return abs(number - nearest)
    limits = [factor * number for factor in (1.0, 2.0**0.5, 2.0) if factor * number <= nearest]
    return nearest - max(limits)


def repeated_extreme(values: Array) -> tuple[float, int, float] | None:
    """Find one number that repeats often, far below or far above all other values.

    Return the number, its count, and the nearest other value. Limits of a measurement and ends of
    follow-up are close to other values. So the distance (`_gap_from`) must exceed a fifth of the
    range of the other values, and each gap between them (twice the gap, if the number is above).
    Ordinary values repeat, too, so the number must repeat much more often than any other. If it is
    farther away than the range of the others, it need only repeat more often.

    Examples
    --------
    >>> real = np.linspace(20, 60, 90) ** 1.01
    >>> repeated_extreme(np.append(real, [120] * 9))[:2]
    (120.0, 9)
    >>> repeated_extreme(np.append(real, [real.max() + 1] * 9)), repeated_extreme(real)
    (None, None)
    >>> repeated_extreme(np.append(real, [real.min() / 2] * 9))  # half of a limit
    """
    if values.ndim != 1 or values.dtype.kind not in "if":
        return None
    numbers, counts = np.unique(values[np.isfinite(values)].astype(np.float64), return_counts=True)
    for end, others, of_others in (
        (0, numbers[1:], counts[1:]),
        (-1, numbers[:-1], counts[:-1]),
    ):
        n = int(counts[end]) if counts.size > SCALE else 0
        if not OFTEN_ALONE <= n < values.size / 2 or n <= of_others.max():
            continue
        gap, gaps, span = _gap_from(others[end], numbers[end]), np.diff(others), np.ptp(others)
        is_alone = n >= MUCH_MORE_OFTEN * of_others.max() or gap > span
        largest = gaps.max() * (OF_LARGEST if end else 1)  # follow-up ends above, not below
        is_far = gap > max(largest, OF_RANGE * span) and gap > OF_MIDDLE * np.median(gaps)
        if is_alone and is_far:
            return float(numbers[end]), n, float(others[end])
    return None


def code_at_end(values: Array) -> tuple[float, int, float] | None:
    """Find a code such as 99 or 999 that is the largest and the most frequent value.

    Return the code, its count, and the next smaller value. Unlike in `repeated_extreme`, the code
    may be close to the other values, such as 99 above ages up to 92.

    >>> code_at_end(np.append(np.arange(20, 93), [99] * 9))
    (99.0, 9, 92.0)
    >>> code_at_end(np.append(np.arange(20, 99), [99] * 9))
    """
    if values.ndim != 1 or values.dtype.kind not in "if":
        return None
    numbers, counts = np.unique(values[np.isfinite(values)].astype(np.float64), return_counts=True)
    if numbers.size <= SCALE or numbers[-1] not in POSITIVE:
        return None
    n, gap = int(counts[-1]), numbers[-1] - numbers[-2]
    is_frequent = max(OFTEN_ALONE, counts[:-1].max() + 1) <= n < values.size / 2
    is_apart = gap > OF_LARGEST * np.median(np.diff(numbers[:-1]))
    return (float(numbers[-1]), n, float(numbers[-2])) if is_frequent and is_apart else None


def grades_below(values: Array) -> tuple[int, float]:
    """Count values -1 below a scale of whole numbers 1, 2, ...; also return the end of the scale.

    >>> grades_below(np.array([1, 2, 3, 4, 5, -1, -1, -1])), grades_below(np.arange(-1, 6))
    ((3, 5.0), (0, 0.0))
    """
    numbers = as_numbers(values)
    if numbers is None:
        return 0, 0.0
    n, scale = int((numbers == -1).sum()), np.unique(numbers[(numbers != -1) & ~np.isnan(numbers)])
    is_scale = n >= OFTEN and scale.size >= FEWEST_STEPS and scale[0] >= 1
    is_likely = is_scale and n < values.size / 2 and (scale == np.floor(scale)).all()
    return (n, float(scale[-1])) if is_likely else (0, 0.0)


def below_classes(values: Array) -> int:
    """Count values -1 beside classes 0, 1, 2, ...: the code of pandas for a missing category.

    >>> below_classes(np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, -1, -1, -1]))
    3
    >>> below_classes(np.array([-1, 1, -1, 1])), below_classes(np.array([-1, 0, 1] * 5))
    (0, 0)
    """
    numbers = as_numbers(values)
    if numbers is None:
        return 0
    levels, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    classes = np.arange(-1, levels.size - 1)
    if not 3 <= levels.size <= MOST_LEVELS or not np.array_equal(levels, classes):
        return 0
    return int(counts[0]) if OFTEN <= counts[0] <= counts[1:].min() / 2 else 0


def likely_codes(
    name: str, values: Array, *, are_times: bool = False
) -> Iterator[tuple[float, str]]:
    """Yield numbers that may mean missing values, such as 0 and -1, each with a sentence.

    `values` are labels or a covariate, which messages call `name`. With `are_times`, many
    samples may have the same time, at the end of follow-up.
    """
    n, nearest = zeros_apart(values)
    if n:
        sentence = (
            f"{n:,} of {values.size:,} values of {name} are 0, far below all others (the next is "
            f"{nearest:.6g}). They are treated as values, not as missing."
        )
        yield 0, sentence
    repeated = None if n or are_times else repeated_extreme(values)
    if repeated is not None and repeated[0] != -1:  # -1 follows
        code, n, nearest = repeated
        side = "below" if code < nearest else "above"
        sentence = (
            f"{n:,} of {values.size:,} values of {name} are {written(code)}, far {side} all others "
            f"(the next is {nearest:.6g}). They are treated as values, not as missing."
        )
        yield int(code) if code.is_integer() else code, sentence
    at_end = None if repeated or are_times else code_at_end(values)
    if at_end is not None:
        code, n, nearest = at_end
        sentence = (
            f"{n:,} of {values.size:,} values of {name} are {written(code)}, more than of any "
            f"other number, and none is between {nearest:.6g} and {written(code)}. They are "
            "treated as values, not as missing."
        )
        yield int(code), sentence
    n, largest = grades_below(values)
    if n:
        sentence = (
            f"{n:,} of {values.size:,} values of {name} are -1, and all others are whole numbers "
            f"from 1 to {largest:.6g}. The -1 are treated as values, not as missing."
        )
        yield -1, sentence
    n = below_classes(values)
    if n:
        sentence = (
            f"{n:,} of {values.size:,} values of {name} are -1, which pandas writes for missing "
            "categories (cat.codes), and all others count from 0. The -1 are treated as values, "
            "not as missing."
        )
        yield -1, sentence


def _without(X: Any, what: str, columns: Array, codes: Sequence[object]) -> str:
    """Return advice on how to exclude samples with one of these codes as value."""
    are_text = columns.dtype.kind in "SUT"
    code_texts = [repr(str(c)) if are_text or isinstance(c, str) else str(c) for c in codes]
    if len(code_texts) == 1:
        keep = (
            f"({what} != {code_texts[0]}).all(axis=1)"
            if columns.ndim == 2
            else f"{what} != {code_texts[0]}"
        )
    else:
        coded = f"numpy.isin({what}, [{', '.join(code_texts)}])"
        keep = f"~{coded}.any(axis=1)" if columns.ndim == 2 else f"~{coded}"
    if isinstance(X, (str, PathLike, zarr.Group, zarr.Array, AbstractSource)):
        return (
            f"Exclude these samples: keep = numpy.flatnonzero({keep}); then pass "
            "xarray.open_zarr(path, mask_and_scale=False).isel(samples=keep) for the data and "
            f"{what}[keep] (dhsic.read_target reads the labels by name)."
        )
    if hasattr(X, "isel"):
        samples = next((dim for dim in X.dims if str(dim).lower() in SAMPLE_DIMS), "samples")
        return (
            f"Exclude these samples: keep = numpy.flatnonzero({keep}); then pass "
            f"X.isel({samples}=keep) and {what}[keep]."
        )
    return f"Exclude these samples: keep = {keep}; then pass X[keep] and {what}[keep]."


def phenotype(path: str, name: str) -> Array:
    """Read a column of .fam or .psam, (m,): numbers with NaN if missing, or text with "".

    -9 is missing. 0 is missing too if all other values are 1 and 2, the codes of sexes and cases.

    Raises
    ------
    InputError
        There is no such column, it has no values, or its only values are 0 and 1. PLINK would treat
        0 as missing in that case, but the author of the file may have meant a control.
    """
    table = read_table(path)
    called = {plain(column): column for column in table.columns}
    word = plain(name)
    column_name = name if name in table.columns else called.get(WORDS.get(word, word), name)
    texts = table.column(column_name)
    column = typed(texts, na=(str(PLINK_MISSING),))
    where = f"{column_name} of {path}"
    if column.dtype.kind == "f":
        distinct = set(np.unique(column[~is_missing(column)]).tolist())
        if distinct == {MISSING, CONTROL}:
            raise InputError(
                f"{where} has only the values 0 and 1. In PLINK 0 means missing and 1 means "
                "control, unless PLINK runs with --1. If 0 means control, pass labels as a table "
                f"or array: --labels {path} --target {column_name}. Otherwise correct the file."
            )
        if distinct <= {MISSING, CONTROL, CASE} and column_name.upper() in ("PHENO", "SEX"):
            column[column == MISSING] = np.nan
    if is_missing(column).all():
        raise InputError(
            f"{where} is missing for all samples (-9 or 0). Pass labels as a table or array, for "
            "example --labels FILE --target NAME."
        )
    if words := sorted(NONE.intersection(stripped(texts))):
        warn(
            f"{words[0]} in {where} is read as missing, because PLINK 2 writes it for a missing "
            f"category. If it names a class, pass the file as a table: --labels {path} --target "
            f"{column_name} --not-na {words[0]}."
        )
    return column
