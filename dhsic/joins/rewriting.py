"""How to write a column of labels or covariates anew: a command for a table, pandas elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.sources.delimited import Delimited, is_text_table
from dhsic.sources.marked_numbers import command


@dataclass(frozen=True)
class WrittenColumn:
    """A column of labels or covariates, as sentences call it and as remedies reach it.

    Attributes
    ----------
    called : str
        The column, for sentences.
    name : str
        Its name in the table.
    path : str
        The table; "" where there is none.
    values : str
        Expression of Python for its values; "" for those of a table.
    """

    called: str
    name: str
    path: str = ""
    values: str = ""

    def rewritten(self, expression: str) -> str:
        """How to write it anew, by an expression of pandas, {p}, on the text of the column, {v}."""
        if self.values:
            return f"pass {expression.format(p='pandas', v=f'pandas.Series({self.values})')}"
        return self._command(expression) or (
            f"take this of pandas, v being the column: {expression.format(p='pandas', v='v')}"
        )

    def _command(self, expression: str) -> str:
        """Command that writes the table anew; "" if it has no header, or is no text."""
        if not is_text_table(self.path):
            return ""
        table = Delimited(self.path)
        if table.names is None or self.name not in table.names:
            return ""
        changes = {table.names.index(self.name): expression}
        written = command(self.path, table.separator, table.top.n_skipped, changes)
        return f"{written}, then pass NEW.csv"
