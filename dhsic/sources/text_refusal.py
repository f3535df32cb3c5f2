"""Text among the numbers of a text table: InputError that says what the text may mean.

The message shows the first text and names the columns that contain text. It advises a command that
writes numbers (genotypes, units, decimal commas, check boxes), or the option that declares the text
missing, or excludes the column.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dhsic.errors import InputError
from dhsic.sources.answers import answers_advice, are_answers
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import NA, abbreviate, na_of
from dhsic.sources.marked_numbers import (
    ABOUT_LIMITS,
    AT_LIMIT,
    IN_PARENTHESES,
    WITH_MINUS,
    command,
    numbers_of,
    words_of,
)
from dhsic.sources.number_fields import (
    comma_advice,
    decimal_mark,
    has_comma_numbers,
    rewritten_fields,
)
from dhsic.sources.odd_fields import (
    OF_A_GROUP,
    OddFields,
    about_calls,
    advice,
    marks_in,
    no_features,
)
from dhsic.sources.tables import TableColumns
from dhsic.sources.text_features import (
    ABOUT_LETTERS,
    OF_ALLELES,
    OF_CODES,
    OF_LETTERS,
    about_dosages,
    about_ticks,
    about_words,
    are_bases,
    dosages_of,
    if_all_are_letters,
    is_field,
    missing_among,
    ticks,
)

#: Maximum number of text columns that a message describes.
MOST_TOLD = 3
#: Maximum number of features that a command lists; with more, it changes all features.
MOST_LISTED = 20


@dataclass(frozen=True)
class TextRefusal:
    """Refuses text among the features of a table.

    Attributes
    ----------
    text : Delimited
        Fields of the table.
    path : str
        File, as the user wrote it.
    columns : TableColumns
        Which columns are features, names and labels.
    na : tuple of str
        Texts that mean a missing value, of all columns ("?") or of one ("age=99").
    turned : bool
        Whether columns are samples and rows are features.
    is_apart : Callable
        Whether the row of a name is not a feature; used only if columns are samples.
    """

    text: Delimited
    path: str
    columns: TableColumns
    na: tuple[str, ...]
    turned: bool
    is_apart: Callable[[str], bool]

    def refuse(self, i: int, field: str, line: int) -> NoReturn:
        """Refuse a field of a feature that is not a number, or that is mixed with numbers."""
        at = self.columns.numbers[i]
        called = self.columns.called(at)
        if not self.turned and is_field(field) and not self._odd_columns([at])[0].places:
            self._refuse_mixed(called, field, line)
        self.refuse_text(
            f"{self.path} has {field!r} in line {line}, {called}, but features must be numbers.",
            [at],
            line,
        )

    def _refuse_mixed(self, called: str, field: str, line: int) -> NoReturn:
        """Refuse a column that mixes numbers with True and False, or with genotype calls."""
        booleans = "{v}.str.lower().map({{'true': '1', 'false': '0'}}).fillna({v})"
        raise InputError(
            f"{self.path} mixes numbers with True and False, or with genotype calls, in {called}; "
            f"the first such field is {field!r} in line {line}"
            f"{self.in_every_column(booleans) or '. Write all its fields as numbers'}."
        )

    def refuse_text(self, sentence: str, at: Sequence[int], line: int) -> NoReturn:
        """Raise InputError for columns `at` that contain text, or for the row in `line`.

        The row is refused if columns are samples. `sentence` begins the message; advice follows.
        """
        odd = self._odd_row(line) if self.turned else self._odd_columns(at)
        if not self.turned:
            self._refuse_lines(odd)
        remedy = about_calls(odd) or self._answers(odd) or self._marked(odd)
        remedy = remedy or self._number_advice(odd)
        about_formulas = self.text.formula_advice() if "python -c" in remedy else ""
        raise InputError(f"{sentence} {remedy}{'' if about_formulas in remedy else about_formulas}")

    def rewritten(self, features: Sequence[Any], change: str) -> str:
        """Return a shell command that applies `change` to the fields of some features.

        `features` are row names if columns are samples, and column positions otherwise.
        """
        columns, top = self.columns, self.text.top
        where = "1:" if columns.are_named else ":"
        places = _listed(columns.numbers)
        if not self.turned:
            listed = _listed(features)
            places = listed if listed.count(",") <= MOST_LISTED else places
        elif columns.ids and len(features) <= MOST_LISTED:
            where = f"t[{columns.ids[0]}].str.strip().isin({[*features]!r})"
        where = f"{where}, {places}"
        command = rewritten_fields(self.path, self.text.separator, top.n_skipped, where, change)
        return f"{command}{self.text.formula_advice()}"

    def _decimal_marks(self) -> dict[Any, set[str]]:
        """Return the set of decimal marks in each feature, by row name or column position."""
        marks: dict[Any, set[str]] = {}
        for line, fields in self.text.rows():
            row = fields[self.columns.ids[0]].strip() if self.columns.ids else f"of line {line}"
            for i in self.columns.numbers:
                if i < len(fields) and not (self.turned and self.is_apart(row)):
                    key = row if self.turned else i
                    marks.setdefault(key, set()).add(decimal_mark(fields[i]))
        return marks

    def missing_texts(self, at: int) -> set[str]:
        """Return the texts that mean a missing value in the column `at`, in lower case."""
        return {*NA, *(text.lower() for text in na_of(self.na, self.columns.names[at]))}

    def in_every_column(self, change: str, *, turned: bool = False) -> str:
        """Return the end of a sentence: a command that applies `change` to all features.

        If `turned`, rows are features, and `change` is an expression for a row.
        """
        if self.text.names is None:
            return ""
        columns = dict.fromkeys(self.columns.numbers, change)
        top = self.text.top
        written = command(self.path, self.text.separator, top.n_skipped, columns, axis=int(turned))
        return f". Write numbers instead: {written}, then pass NEW.csv"

    def refuse_descriptions(self, odd: Sequence[int]) -> None:
        """Refuse text columns that describe features (other gene names) if columns are samples."""
        rows = self.text.top.rows[1:]
        described = [
            self.columns.names[i]
            for i in odd
            if len(rows) > 1
            and all(i < len(row) and not is_field(row[i]) for row in rows)
            and not dosages_of(row[i] for row in rows if row[i] not in self.na)
        ]
        if described and len(described) == len(odd) and len(odd) < len(self.columns.numbers):
            raise InputError(
                f"Columns of {self.path} are samples, but {abbreviate(map(repr, described), 4)} "
                f"contain text about the features. Exclude them: not_features={described!r}."
            )

    def _refuse_lines(self, odd: Sequence[OddFields]) -> None:
        """Refuse lines of units, questions or notes, in which most numeric columns contain text."""
        few = [column for of in odd if (column := of.beside_commas).are_few]
        lines = sorted(int(where.removeprefix("in line ")) for where in _shared_places(few))
        if not lines or len(few) < 2 or 2 * len(few) <= len(odd) or len(lines) > MOST_TOLD:
            return
        one = len(lines) == 1
        line, like = ("line", "like a line") if one else ("lines", "like lines")
        drop = f"{lines[0]}d" if one else " ".join(f"-e {line}d" for line in lines)
        raise InputError(
            f"{self.path} has text in {line} {' and '.join(map(str, lines))} in {len(few):,} "
            f"numeric columns, such as {abbreviate(map(repr, few[0].places), 1)} in "
            f"{few[0].called}, {like} of units, questions or notes. Remove "
            f"{'that' if one else 'those'} {line}: sed {drop} {shlex.quote(self.path)} > NEW"
            f"{self._labels_in(lines)}"
        )

    def _labels_in(self, lines: Sequence[int]) -> str:
        """Return the end of a message: text in `lines` may be labels, if columns are samples."""
        if not self.columns.ids:
            return ""
        rows = [fields for number, fields in self.text.rows() if number in lines]
        names = [fields[self.columns.ids[0]].strip() for fields in rows]
        texts = [{fields[i].strip() for i in self.columns.numbers} for fields in rows]
        if not all(names) or OF_A_GROUP * len(max(texts, key=len)) > len(self.columns.numbers):
            return ""
        return (
            f". If the columns are samples and {abbreviate(map(repr, names))} their labels, pass "
            f"sample_dim=1 (--transpose) and not_features={names!r}."
        )

    def _number_advice(self, odd: Sequence[OddFields]) -> str:
        """Return advice on text that means numbers or missing values."""
        commas = [text for column in odd for text in column.commas]
        if commas and all(len(column.commas) == len(column.places) for column in odd):
            return self._comma_advice(commas[0])
        return self._advice(odd)

    def _comma_advice(self, example: str) -> str:
        """Return advice on all numbers with commas in the table, of which `example` is one."""
        marks = self._decimal_marks()
        features = [key for key, of in marks.items() if has_comma_numbers(of)]
        every = set().union(*marks.values())
        return comma_advice(lambda v: self.rewritten(features, v), example, every)

    def _answers(self, odd: Sequence[OddFields]) -> str:
        """Return advice on columns with several answers per field; "" if `odd` is other text."""
        top, separator = self.text.top, self.text.separator
        if self.turned or self.text.names is None:
            return ""
        every = {
            column.name
            for column in self._every_odd(odd)
            if column.are_whole and are_answers(column.places, separator)
        }
        if not every.issuperset(column.name for column in odd):
            return ""
        names = self.columns.names
        named = {i: names[i] for i in self.columns.numbers if names[i] in every}
        advice_on_answers = answers_advice(self.path, separator, top.n_skipped, named)
        texts = [text for column in odd for text in column.places]
        if any(text.count(",") > 1 or " " in text for text in texts):
            return advice_on_answers
        return f"{advice_on_answers} If they are numbers instead: {self._comma_advice(texts[0])}"

    def _marked(self, odd: Sequence[OddFields]) -> str:
        """Return advice on columns of numbers with units, genotypes, check boxes or categories.

        It is a command that converts all such columns of the table; "" if `odd` is other text.
        """
        if self.turned:
            return self._genotype_rows(odd)
        are_beside = any((c.are_few and not c.dosages) or c.quantities for c in odd)
        if self.text.names is None or are_beside:
            return ""
        every = self._every_odd(odd)
        few = [column for column in every if column.are_few and not column.dosages]
        position = {name: i for i, name in enumerate(self.columns.names)}
        columns = {position[c.name]: c for c in every if c.dosages or not c.are_few}
        changes, groups = self._changes(columns)
        if not (changes or groups):
            return ""
        encoded = [columns[i].name for i in (*changes, *groups)]
        written = command(self.path, self.text.separator, self.text.top.n_skipped, changes, groups)
        which = (
            "they are features"
            if len(encoded) == len(columns)
            else f"{abbreviate(map(repr, encoded), MOST_TOLD)} "
            f"{'is a feature' if len(encoded) == 1 else 'are features'}"
        )
        sentences = [
            odd[0].sentence,
            f"If {which}, write only numbers: {written}, then pass NEW.csv.",
            about_ticks([c.name for c in columns.values() if c.is_check_box]),
            *map(about_dosages, {*changes.values()} & {OF_LETTERS, OF_CODES, OF_ALLELES}),
            about_words(text for i in changes if columns[i].dosages for text in columns[i].places),
            f"If {abbreviate(map(repr, marks), 3)} means missing, pass na={marks!r} first."
            if (marks := marks_in([columns[i] for i in groups]))
            else "",
            no_features(column.name for column in columns.values()),
            f"{few[0].sentence} {advice(few)}" if few else "",
        ]
        return " ".join(filter(None, sentences))

    def _changes(self, columns: Mapping[int, OddFields]) -> tuple[dict[int, str], dict[int, str]]:
        """Return expressions for `command`, by column position: `changes` and `groups`.

        `changes` convert columns to numbers; `groups` mark missing values of categories.
        """
        changes, groups = dict[int, str](), dict[int, str]()
        have_codes = any(column.dosages == OF_CODES for column in columns.values())
        for at, column in sorted(columns.items()):
            na, is_text = na_of(self.na, column.name), column.n_odd == column.n_present
            change = ticks(na) if column.is_check_box else column.dosages
            if have_codes and is_text and are_bases(column.places):
                change = OF_CODES
            change = change or numbers_of(column.places, beside_numbers=not is_text)
            change = change or (words_of(column.places) if is_text else "")
            if change:
                changes[at] = change
            elif column.are_groups and len(column.commas) < len(column.places):
                groups[at] = missing_among(na)
        return changes, groups

    def _genotype_rows(self, odd: Sequence[OddFields]) -> str:
        """Return advice on rows of genotypes of letters: a command that converts them; or ""."""
        if odd[0].dosages != OF_LETTERS or self.text.names is None:
            return ""
        changes = dict.fromkeys(self.columns.numbers, if_all_are_letters(self.na))
        top = self.text.top
        written = command(self.path, self.text.separator, top.n_skipped, changes, axis=1)
        return (
            f"{odd[0].sentence} {ABOUT_LETTERS} If rows are variants, write dosages: {written}, "
            "then pass NEW.csv."
        )

    def _advice(self, odd: Sequence[OddFields]) -> str:
        """Return advice on all text among the numbers of the table; `odd` is the first of it."""
        every = odd if self.turned else self._every_odd(odd)
        told = [column.sentence for column in every[:MOST_TOLD]]
        if len(every) > MOST_TOLD:
            others = abbreviate((column.called for column in every[MOST_TOLD:]), MOST_TOLD)
            told.append(f"{len(every) - MOST_TOLD:,} more contain text: {others}.")
        texts = [text for column in every for text in column.places]
        negative = next(filter(IN_PARENTHESES.fullmatch, texts), None)
        limit = next((text for column in every for text in column.limits), None)
        if negative is not None:
            number = f"-{negative.strip('() ')}"
            told.append(
                f"{negative!r} is a negative number in parentheses, {number}"
                f"{self.in_every_column(WITH_MINUS)}."
            )
        if limit is not None:
            told.append(
                f"{limit!r} means that a value is beyond a limit"
                f"{self.in_every_column(AT_LIMIT)} {ABOUT_LIMITS}. na={[limit]!r} would make "
                "it a missing value: the mean of the feature replaces it, or a test excludes the "
                "sample."
            )
        without_flags = self._without_flags(every)
        is_said = all(c.are_signed or c.limits or (without_flags and c.quantities) for c in every)
        return " ".join(filter(None, [*told, without_flags, "" if is_said else advice(every)]))

    def _without_flags(self, every: Sequence[OddFields]) -> str:
        """Return advice on columns in which some numbers have flags or multiples; "" for others."""
        found = {column.name: of for column in every if (of := column.quantities)}
        if not found or self.turned or self.text.names is None:
            return ""
        at = {self.columns.names.index(name): of.change for name, of in found.items()}
        written = command(self.path, self.text.separator, self.text.top.n_skipped, at)
        kinds = abbreviate((f"{of.kind} in {name!r}" for name, of in found.items()), MOST_TOLD)
        units = "; ".join(dict.fromkeys(of.unit for of in found.values()))
        return f"These are {kinds}. To write {units}: {written}, then pass NEW.csv."

    def _every_odd(self, first: Sequence[OddFields]) -> list[OddFields]:
        """Return all columns that contain text, the `first` ones before others."""
        known = {column.name for column in first}
        suspects = set[int]()
        for _, fields in self.text.rows():
            suspects |= {i for i in self.columns.numbers if not is_field(fields[i])}
        others = [i for i in sorted(suspects) if self.columns.names[i] not in known]
        return [*first, *(column for column in self._odd_columns(others) if column.places)]

    def _odd_columns(self, at: Sequence[int]) -> list[OddFields]:
        """Return the fields of the columns `at`, with the texts among them."""
        names = self.columns.names
        odd = {i: OddFields(self.columns.called(i), names[i]) for i in at}
        missing = {i: na_of(self.na, names[i]) for i in at}
        for line, fields in self.text.rows():
            for i in at:
                text = fields[i].strip() if i < len(fields) else ""
                odd[i].n_empty += not text
                if text.lower() not in NA and text not in missing[i]:
                    odd[i].add(text, f"in line {line}")
        return list(odd.values())

    def _odd_row(self, line: int) -> list[OddFields]:
        """Return the fields of the row in `line`, which is a feature, with the texts among them."""
        fields = next(fields for number, fields in self.text.rows() if number == line)
        name = fields[self.columns.ids[0]] if self.columns.ids else f"of line {line}"
        row = OddFields(f"row {name!r}" if self.columns.ids else f"the row {name}", name)
        for i in self.columns.numbers:
            text = fields[i].strip()
            if text.lower() not in NA and text not in self.na:
                row.add(text, f"in {self.columns.called(i)}")
        return [row]


def _shared_places(columns: Sequence[OddFields]) -> frozenset[str]:
    """Return the positions of texts if they are the same in all columns; otherwise empty."""
    each = {column.lone_places for column in columns}
    return each.pop() if len(each) == 1 else frozenset()


def _listed(places: Sequence[int]) -> str:
    """Return column positions as Python code of a list; contiguous positions become ranges."""
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    runs = [run.tolist() for run in np.split(np.asarray(places), breaks)]
    parts = [
        f"*range({run[0]}, {run[-1] + 1})" if len(run) > 2 else ", ".join(map(str, run))
        for run in runs
    ]
    return f"[{', '.join(parts)}]"
