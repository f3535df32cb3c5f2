"""Conditions on variables, as users write them: ``18 <= age < 65 and sample_sex == 1``.

A condition is parsed with Python's grammar and is never executed as code. It may contain
comparisons of variables with numbers and text, `in` with lists of these, `and`, `or` and `not`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import count, pairwise
from typing import Any

import numpy as np

from dhsic._typing import Array, Mask
from dhsic.errors import InputError
from dhsic.joins.keys import as_text
from dhsic.joins.text import is_missing, typed
from dhsic.sources.ids import abbreviate
from dhsic.sources.options import text

COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
#: Variable in backticks, as in pandas, if its name is not an identifier; prefix of the identifier
#: that replaces it for parsing.
QUOTED, MARK = re.compile(r"`([^`]+)`"), "quoted_name_"


@dataclass(frozen=True)
class Condition:
    """A condition on variables, whose names are in `names`.

    Samples or features with a missing value in one of these variables never meet it. `said` is
    the text of the condition, `tree` its syntax tree, and `what` the parameter that contains it,
    for messages.

    Examples
    --------
    >>> grown = Condition.of("18 <= age and `home town` in ['Ulm', 'Bern']", "keep_if")
    >>> grown.names
    ('age', 'home town')
    >>> age, town = np.array([40.0, 9.0, np.nan]), np.array(["Ulm", "Ulm", "Bern"])
    >>> grown.holds({"age": age, "home town": town})
    array([ True, False, False])
    """

    what: str
    said: str
    tree: ast.expr
    names: tuple[str, ...]

    @classmethod
    def of(cls, said: Any, what: str) -> Condition:
        """Parse a condition; InputError if it is invalid."""
        try:
            quoted, number = QUOTED.findall(said), count()
            marked = QUOTED.sub(lambda _: f"{MARK}{next(number)}", said.strip())
            tree = ast.parse(marked, mode="eval").body
            variables = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            for node in variables:
                if node.id.startswith(MARK):
                    node.id = quoted[int(node.id.removeprefix(MARK))]
            is_one = _is_condition(tree)
        except (SyntaxError, TypeError, ValueError, LookupError, RecursionError, MemoryError):
            is_one = False
        if not is_one:
            raise InputError(
                f"{what}={said!r} is not a valid condition. Write one like 'age >= 18 and sex == "
                '"F"\'. Compare variables with numbers or quoted text by ==, !=, <, <=, >, >= '
                "or in [...], and combine conditions with and, or, not. Names of variables that "
                "are not plain words go in `backticks`."
            )
        return cls(what, said, tree, tuple(dict.fromkeys(node.id for node in variables)))

    def holds(self, values: Mapping[str, Array]) -> Mask:
        """Return the mask (n,) of the items that meet the condition.

        `values` contains an array (n,) for each variable.
        """
        missing = (is_missing(_typed(values[name])) for name in self.names)
        return self._evaluate(self.tree, values) & ~reduce(operator.or_, missing)

    def _evaluate(self, node: ast.expr, values: Mapping[str, Array]) -> Mask:
        if isinstance(node, ast.BoolOp):
            parts = [self._evaluate(part, values) for part in node.values]
            return reduce(operator.and_ if isinstance(node.op, ast.And) else operator.or_, parts)
        if isinstance(node, ast.UnaryOp):
            return ~self._evaluate(node.operand, values)
        if isinstance(node, ast.Compare):
            sides = pairwise([node.left, *node.comparators])
            steps = zip(sides, node.ops, strict=True)
            return reduce(operator.and_, (self._compared(*s, op, values) for s, op in steps))
        return self._compared(node, ast.Constant(1), ast.Eq(), values)

    def _compared(
        self, left: ast.expr, right: ast.expr, op: ast.cmpop, values: Mapping[str, Array]
    ) -> Mask:
        if isinstance(op, ast.In | ast.NotIn):
            assert isinstance(right, ast.List | ast.Tuple), "it was checked"
            each = [self._compared(left, one, ast.Eq(), values) for one in right.elts]
            mask = reduce(operator.or_, each)
            return ~mask if isinstance(op, ast.NotIn) else mask
        sides = [
            values[side.id] if isinstance(side, ast.Name) else ast.literal_eval(side)
            for side in (left, right)
        ]
        if all(map(_is_number, sides)):
            mask = COMPARED[type(op)](*map(_typed, sides))
        elif all(map(_is_text, sides)) and isinstance(op, ast.Eq | ast.NotEq):
            texts = (as_text([s])[0] if isinstance(s, str) else as_text(s) for s in sides)
            mask = COMPARED[type(op)](*texts)
        else:
            names = [side.id for side in (left, right) if isinstance(side, ast.Name)]
            held = "; ".join(f"{n} contains {abbreviate(_first(values[n]))}" for n in names)
            raise InputError(
                f"{self.what}={self.said!r} compares numbers with text, or compares texts by < or "
                f">: {held}. Compare numbers with numbers, and compare text with quoted text by == "
                "or !=."
            )
        return np.asarray(mask, dtype=bool)


def _is_condition(node: ast.expr) -> bool:
    """Whether a syntax tree contains only comparisons of variables."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_condition, node.values))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and _is_condition(node.operand)
    if not isinstance(node, ast.Compare):
        return isinstance(node, ast.Name)
    sides = [node.left, *node.comparators]
    return all(
        _is_value(a) and any(isinstance(side, ast.Name) for side in (a, b)) and _fits(op, b)
        for (a, b), op in zip(pairwise(sides), node.ops, strict=True)
    )


def _fits(op: ast.cmpop, right: ast.expr) -> bool:
    """Whether `right` is a valid right side of the comparison operator `op`."""
    if not isinstance(op, ast.In | ast.NotIn):
        return type(op) in COMPARED and _is_value(right)
    listed = right.elts if isinstance(right, ast.List | ast.Tuple) else []
    return bool(listed) and all(_is_value(e) and not isinstance(e, ast.Name) for e in listed)


def _is_value(node: ast.expr) -> bool:
    """Whether a node is a variable, a number or text."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
        return isinstance(node, ast.Constant) and type(node.value) in (int, float)
    is_constant = isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bool)
    return is_constant or isinstance(node, ast.Name)


def _typed(values: Any) -> Any:
    """Convert text to numbers if all values are numeric; other input is unchanged."""
    is_written = isinstance(values, np.ndarray) and values.dtype.kind in "OSUT"
    return typed(text(values)) if is_written else values


def _is_number(side: Any) -> bool:
    return np.asarray(_typed(side)).dtype.kind in "biuf"


def _is_text(side: Any) -> bool:
    return isinstance(side, str) or np.asarray(side).dtype.kind in "OSUT"


def _first(values: Array) -> list[str]:
    """Return the distinct values among the first 1,000, as texts for messages."""
    return [repr(value) for value in dict.fromkeys(values[:1000].tolist())]
