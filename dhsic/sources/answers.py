"""Several answers in one field: "1,3" for the first and third option of a question.

Surveys write multiple choices this way. In a comma-separated table, such a field is more likely to
be a list of answers than a number with a decimal comma.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

#: Maximum number of options of a question, largest number of an option, and minimum number of
#: different lists of answers.
MOST_OPTIONS, LARGEST, FEWEST = 20, 99, 2


def are_answers(texts: Collection[str], separator: str) -> bool:
    """Whether the non-numeric texts of a column are lists of answers, such as "1,3".

    Each text must be an ascending list of whole numbers, and all lists together must contain few
    different numbers. In tables not separated by commas, one of the lists must have three answers,
    because "1,3" may be a decimal number.

    >>> are_answers(["1,2", "1,3", "2,3"], ","), are_answers(["1,2", "1,3"], ";")
    (True, False)
    >>> are_answers(["1,2,3", "1,3"], ";"), are_answers(["1,5", "0,7"], ",")
    (True, False)
    """
    lists = [[part.strip() for part in text.split(",")] for text in texts]
    if len(lists) < FEWEST or not all(part.isdecimal() for parts in lists for part in parts):
        return False
    options = {int(part) for parts in lists for part in parts}
    are_sorted = all(0 < int(a) < int(b) for parts in lists for a, b in pairwise(parts))
    is_likely = separator == "," or any(len(parts) > 2 for parts in lists)
    return is_likely and are_sorted and len(options) <= MOST_OPTIONS and max(options) <= LARGEST


def answers_advice(path: str, separator: str, n_skipped: int, named: Mapping[int, str]) -> str:
    """Return advice to convert columns with several answers per field to dummy variables.

    The advice contains a command. `named` maps the positions of these columns to their names.
    """
    sep = {"\t": r"'\t'", "": r"r'\s+'"}.get(separator, repr(separator))
    at = [*named]
    written = (
        f'python -c "import pandas as p; t = p.read_csv({path!r}, sep={sep}, '
        f"skiprows={n_skipped}, dtype=str, keep_default_na=False, skipinitialspace=True); "
        "clean = lambda v: v.str.replace(' ', '').replace(['NA', 'nan', 'NaN', '.'], ''); "
        "dummies = lambda v: v.str.get_dummies(',').add_prefix(v.name + '_').astype(str)"
        ".apply(lambda d: d.where(v != '', '')); "
        f"t = p.concat([t.drop(columns=t.columns[{at}]), *(dummies(clean(t.iloc[:, i])) "
        f"for i in {at})], axis=1); t.to_csv('NEW.csv', index=False)\""
    )
    one = len(at) == 1
    names = [*named.values()]
    return (
        f"These fields may be several answers to {'a question' if one else 'questions'}, separated "
        f"by commas. Write a column of 0 and 1 for each answer: {written}, then pass NEW.csv. If "
        f"{'it is no feature, exclude it' if one else 'they are no features, exclude them'}: "
        f"not_features={names!r}."
    )
