"""Text in numeric columns: counts and positions of the text, and advice for messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dhsic.sources.ids import abbreviate, is_value
from dhsic.sources.marked_numbers import IN_PARENTHESES, LIMIT
from dhsic.sources.number_fields import is_comma_number
from dhsic.sources.quantities import Quantities, quantities_of
from dhsic.sources.text_features import CALLS, dosages_of

#: Maximum number of texts that a message lists; more texts are not markers of missing values.
MOST_NAMED = 5
#: Maximum number of columns that a message describes.
MOST_DESCRIBED = 3
#: Maximum number of columns that are listed as options of a command.
MOST_OPTIONS = 10
#: Maximum number of groups of a text column, and minimum mean number of samples per group.
MOST_GROUPS, OF_A_GROUP = 20, 2
#: Words, in lower case, that are names of classes and never mean a missing value.
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
    """Statistics of the fields of one feature, in particular of text that is not a number.

    Attributes
    ----------
    called : str
        Description of the column, for messages.
    name : str
        Name of the column.
    n_present : int
        Number of fields that are not missing.
    places : dict
        For each text that is not a number: how many fields contain it, and where the first is.
    are_whole : bool
        Whether all fields that are numbers are whole.
    has_numbers : bool
        Whether any field is a number. 00 does not count, because it is a missing genotype.
    n_empty : int
        Number of empty fields.
    """

    called: str
    name: str
    n_present: int = 0
    places: dict[str, tuple[int, str]] = field(default_factory=dict)
    are_whole: bool = True
    has_numbers: bool = False
    n_empty: int = 0

    def add(self, text: str, where: str) -> None:
        """Add a non-missing field to the statistics, given its text and position."""
        self.n_present += 1
        self.are_whole &= "." not in text
        self.has_numbers |= is_value(text) and text != "00"
        if not is_value(text):
            n, first = self.places.get(text) or (0, where)
            self.places[text] = n + 1, first

    @property
    def n_odd(self) -> int:
        """Number of fields that contain text instead of a number."""
        return sum(n for n, _ in self.places.values())

    @property
    def are_few(self) -> bool:
        """Whether there is text, but most fields are numbers."""
        return 0 < 2 * self.n_odd < self.n_present

    @property
    def lone_places(self) -> frozenset[str]:
        """Positions of the text fields if no text occurs twice; otherwise empty."""
        is_lone = all(n == 1 for n, _ in self.places.values())
        return frozenset(where for _, where in self.places.values()) if is_lone else frozenset()

    @property
    def are_groups(self) -> bool:
        """Whether all fields are text with few different values, like group names."""
        n = len(self.places)
        is_text = self.n_odd == self.n_present
        return is_text and n <= MOST_GROUPS and OF_A_GROUP * n <= self.n_present

    @property
    def dosages(self) -> str:
        """Pandas expression that converts genotypes {v} to dosages; "" for other texts."""
        return "" if self.has_numbers else dosages_of(self.places)

    @property
    def are_mostly_calls(self) -> bool:
        """Whether most fields are genotype calls such as 0/1, but not all."""
        n_calls = sum(n for text, (n, _) in self.places.items() if text in CALLS)
        return 2 * n_calls > self.n_present and not self.dosages

    @property
    def is_check_box(self) -> bool:
        """Whether each field is empty or the same word, such as yes."""
        is_word = len({text.lower() for text in self.places}) == 1 and not self.has_numbers
        return is_word and self.n_empty > 0

    @property
    def is_numeral(self) -> bool:
        """Whether all fields are numbers, although written as text."""
        return self.n_present > 0 and not self.places

    @property
    def listed(self) -> str:
        """Description of the texts, with counts and first positions, for messages."""
        most_first = sorted(self.places.items(), key=lambda item: -item[1][0])
        return abbreviate(
            (f"{text!r} ({n}, first {where})" for text, (n, where) in most_first), MOST_NAMED
        )

    @property
    def markers(self) -> list[str]:
        """Texts that may mean missing values; empty if text is frequent or names classes."""
        texts = [text for text in self.places if not _is_number(text)]
        are_markers = self.are_few and len(texts) <= MOST_NAMED
        are_markers &= CALLS.keys().isdisjoint(texts)
        are_markers &= texts == ["-"] or not any(text.lower() in CLASS_WORDS for text in texts)
        return texts if are_markers else []

    @property
    def are_signed(self) -> bool:
        """Whether all texts are negative numbers in parentheses."""
        return all(map(IN_PARENTHESES.fullmatch, self.places))

    @property
    def limits(self) -> list[str]:
        """Texts for values beyond a limit of measurement, such as <4.5 and 90+."""
        return [text for text in self.places if LIMIT.fullmatch(text)]

    @property
    def commas(self) -> list[str]:
        """Texts that are numbers with commas, or with points between thousands."""
        return [text for text in self.places if is_comma_number(text)]

    @property
    def beside_commas(self) -> OddFields:
        """Copy of these statistics that excludes numbers with commas."""
        commas = {*self.commas}
        places = {text: place for text, place in self.places.items() if text not in commas}
        return replace(self, places=places)

    @property
    def quantities(self) -> Quantities | None:
        """Kind and conversion of texts such as numbers with flags or with multiples (K, M).

        It is None for other texts, and for columns without plain numbers.
        """
        is_mixed = 0 < self.n_odd < self.n_present and not self.are_signed
        found = quantities_of([*self.places, "1"]) if is_mixed else None
        return found if found is not None and found.change else None

    @property
    def sentence(self) -> str:
        """Sentence for messages that names the column and lists its text."""
        is_name = " " not in self.called  # a Python expression
        called = self.called if is_name else self.called[:1].upper() + self.called[1:]
        if not self.are_few:
            return f"{called} is text: {self.listed}."
        return (
            f"{called} contains text in {self.n_odd:,} of {self.n_present:,} values: {self.listed}."
        )


def _is_number(text: str) -> bool:
    """Whether a text means a number: with commas, in parentheses, or beyond a limit (<4.5)."""
    return is_comma_number(text) or any(p.fullmatch(text) for p in (LIMIT, IN_PARENTHESES))


def advice(columns: Sequence[OddFields]) -> str:
    """Return advice on feature columns that contain text."""
    few = [column for column in columns if column.are_few]
    markers = list(dict.fromkeys(text for column in few for text in column.markers))
    steps = []
    if few:
        steps.append(
            "Replace the text by numbers with decimal points, and leave missing values empty."
        )
    if markers:
        them = (
            "this text means a missing value"
            if len(markers) == 1
            else "all of these texts mean missing values"
        )
        steps.append(f"Use na={markers!r} if {them}.")
    text_columns = [c.name for c in columns if not (c.are_few or c.limits)]
    if text_columns:
        steps.append(no_features(text_columns))
    return " ".join(steps)


def marks_in(groups: Sequence[OddFields]) -> list[str]:
    """Return the texts without letters or digits, such as ?, which may mean missing values."""
    texts = (text for column in groups for text in column.places)
    return [text for text in dict.fromkeys(texts) if not any(map(str.isalnum, text))]


def about_calls(columns: Sequence[OddFields]) -> str:
    """Return advice on the first column in which most, but not all, fields are genotype calls.

    The result is "" if there is no such column.
    """
    mixed = next((column for column in columns if column.are_mostly_calls), None)
    if mixed is None:
        return ""
    return (
        f"{mixed.sentence} A feature of genotype calls must have calls of two alleles from 0 to 3, "
        "such as 0/1, in all samples. A missing call is ./. Write haploid calls with two "
        "alleles (1 as 1/1), and dosages as 0/0, 0/1 and 1/1."
    )


def no_features(names: Iterable[str]) -> str:
    """Return advice on columns of text: exclude them, or convert them to numbers."""
    listed = list(names)
    one = len(listed) == 1
    it, which = ("it is not a feature", "it") if one else ("they are not features", "them")
    option = (
        f"not_features={listed!r}"
        if len(listed) <= MOST_OPTIONS
        else f"pass their names ({abbreviate(map(repr, listed), MOST_NAMED)}) to not_features="
    )
    return (
        f"If {it} (but labels, groups or names), exclude {which}: {option}. If text is a feature, "
        "write it as numbers first, and leave missing values empty."
    )
