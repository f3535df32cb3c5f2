"""Text among numbers: how many fields of a column are text, which, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from dhsic.sources.ids import NA, abbreviate, is_value
from dhsic.sources.number_fields import is_comma_number
from dhsic.sources.thousands import PointedNumbers

#: Texts that a sentence names, at most; more of them are no markers of missing values.
MOST_NAMED = 5
#: Columns that a sentence describes, at most.
MOST_DESCRIBED = 3
#: Words that are one of few classes, in lower case; none stands for a missing value.
CLASS_WORDS = frozenset(
    (
        *("yes", "no", "y", "n", "j", "ja", "nein", "oui", "non", "si", "true", "false", "t", "f"),
        *("m", "male", "female", "man", "woman", "w", "on", "off", "low", "medium", "high", "+"),
        *("pos", "neg", "positive", "negative", "present", "absent", "case", "control", "cases"),
        *("controls", "ctrl", "wt", "mut", "never", "former", "current", "alive", "dead", "-"),
    )
)


@dataclass
class OddFields:
    """Texts of a column (or of a row, where columns are samples) of numbers.

    Attributes
    ----------
    called : str
        The column, for sentences.
    name : str
        Its name.
    n_present : int
        Fields that are not missing.
    places : dict
        Of each text how often it occurs, and where first.
    """

    called: str
    name: str
    n_present: int = 0
    places: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, text: str, where: str) -> None:
        """Count a field that is not missing, by its text and where it is."""
        self.n_present += 1
        if not is_value(text):
            n, first = self.places.get(text) or (0, where)
            self.places[text] = n + 1, first

    @property
    def n_odd(self) -> int:
        """Fields that are text."""
        return sum(n for n, _ in self.places.values())

    @property
    def are_few(self) -> bool:
        """Whether most fields are numbers."""
        return 0 < 2 * self.n_odd < self.n_present

    def is_only_in(self, line: int) -> bool:
        """Whether text is in one line alone."""
        return [*self.places.values()] == [(1, f"in line {line}")]

    @property
    def is_numeral(self) -> bool:
        """Whether all fields are numbers, though written as text."""
        return self.n_present > 0 and not self.places

    @property
    def listed(self) -> str:
        """Texts, how often they occur and where first, for sentences."""
        most_first = sorted(self.places.items(), key=lambda item: -item[1][0])
        return abbreviate(
            (f"{text!r} ({n}, first {where})" for text, (n, where) in most_first), MOST_NAMED
        )

    @property
    def markers(self) -> list[str]:
        """Texts that may stand for missing values; none where they are many, or classes."""
        texts = [text for text in self.places if not is_comma_number(text)]
        are_markers = self.are_few and len(texts) <= MOST_NAMED
        are_markers &= texts == ["-"] or not any(text.lower() in CLASS_WORDS for text in texts)
        return texts if are_markers else []

    @property
    def commas(self) -> list[str]:
        """Texts that are numbers but for commas."""
        return [text for text in self.places if is_comma_number(text)]

    @property
    def sentence(self) -> str:
        """Sentence on the column."""
        is_name = " " not in self.called  # of Python
        called = self.called if is_name else self.called[:1].upper() + self.called[1:]
        if not self.are_few:
            return f"{called} is text: {self.listed}."
        return f"{called} holds text in {self.n_odd:,} of {self.n_present:,} values: {self.listed}."


def advice(columns: Sequence[OddFields]) -> str:
    """Return what to do about columns of features that hold text."""
    few = [column for column in columns if column.are_few]
    markers = list(dict.fromkeys(text for column in few for text in column.markers))
    steps = []
    if few:
        steps.append("Write numbers there, with decimal points, or nothing where one is missing.")
    if markers:
        them = "it stands for a missing value" if len(markers) == 1 else "all are missing"
        steps.append(f"If {them}, say so: na={markers!r}.")
    if len(few) < len(columns):
        steps.append(no_features([column.name for column in columns if not column.are_few]))
    return " ".join(steps)


def no_features(names: Iterable[str]) -> str:
    """Return what to do about columns that are no numbers."""
    listed = list(names)
    it = "it is no feature" if len(listed) == 1 else "they are no features"
    return (
        f"If {it} (labels, groups, names), say so: not_features={listed!r}. Features that are text "
        "are encoded first (pandas.get_dummies)."
    )


def about_columns(X: pd.DataFrame) -> str:
    """Return what is wrong with columns of a frame that are no numbers, and what to do."""
    columns = [_text_of(X.iloc[:, k]) for k in range(X.shape[1])]
    few = [column for column in columns if column.are_few]
    text_columns = [column.name for column in columns if not (column.are_few or column.is_numeral)]
    numerals = [column.name for column in columns if column.is_numeral]
    sentences = ["are not numbers.", *(column.sentence for column in few[:MOST_DESCRIBED])]
    if any(column.commas for column in few):
        sentences.append("Write numbers with decimal points first.")
    if few:
        names = [column.name for column in few]
        sentences.append(
            f"X[{names!r}].apply(pandas.to_numeric, errors='coerce') has NaN, for missing, in the "
            "place of text."
        )
    thousands = [name for name in numerals if _pointed(X[name]).may_separate_thousands]
    if thousands:
        sentences.append(
            f"In {thousands[0]!r} {_pointed(X[thousands[0]]).sentence} If they do, leave them out "
            f"first: X[{thousands!r}].replace(r'\\.', '', regex=True)."
        )
    if numerals:
        sentences.append(f"Make numbers of text that holds them: X[{numerals!r}].astype(float).")
    if text_columns:
        sentences.append(
            f"Drop them, X.drop(columns={text_columns!r}), or encode categories: "
            f"pandas.get_dummies(X, columns={text_columns!r})."
        )
    return " ".join(sentences)


def _pointed(column: pd.Series) -> PointedNumbers:
    """Numbers of a column as texts; those of columns of one name are no thousands."""
    texts = [str(value).strip() for value in column.to_numpy().ravel().tolist()]
    return PointedNumbers.of(text for text in texts if text.lower() not in NA)


def _text_of(column: pd.Series) -> OddFields:
    """Texts of a column, without missing ones."""
    odd = OddFields(f"column {column.name!r}", column.name)
    for at, value in zip(column.index, column.tolist(), strict=True):
        text = value.strip() if isinstance(value, str) else str(value)
        if not (pd.isna(value) or text.lower() in NA):
            odd.add(text, f"in row {at!r}")
    return odd
