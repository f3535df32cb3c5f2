"""Advice on how to convert a column of labels or covariates: a shell command, or pandas code."""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.sources.delimited import Delimited, is_text_table
from dhsic.sources.marked_numbers import command


@dataclass(frozen=True)
class WrittenColumn:
    """Column of labels or covariates, and its origin: a table or a Python object.

    Attributes
    ----------
    called : str
        Description of the column, for messages.
    name : str
        Name of the column in its table.
    path : str
        Path of the table; "" if there is none.
    values : str
        Python expression that returns the values; "" if the column is in a table.
    """

    called: str
    name: str
    path: str = ""
    values: str = ""

    def rewritten(self, expression: str) -> str:
        """Return advice on how to convert the column: a command, or Python code.

        `expression` is a pandas expression with two placeholders: {p} for the module pandas, and
        {v} for the series of the column's texts.
        """
        if self.values:
            return f"pass {expression.format(p='pandas', v=f'pandas.Series({self.values})')}"
        return self._command(expression) or (
            "compute this with pandas, where v is the column: "
            f"{expression.format(p='pandas', v='v')}"
        )

    def _command(self, expression: str) -> str:
        """Return a shell command that converts the column in a copy of its table, NEW.csv.

        The result is "" if the table is not a text file, or if no header names the column.
        """
        if not is_text_table(self.path):
            return ""
        table = Delimited(self.path)
        if table.names is None or self.name not in table.names:
            return ""
        changes = {table.names.index(self.name): expression}
        conversion = command(self.path, table.separator, table.top.n_skipped, changes)
        return f"{conversion}, then pass NEW.csv{table.formula_advice()}"
