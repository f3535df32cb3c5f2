"""How to write a column of labels or covariates anew: a command for a table, pandas elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.sources.delimited import Delimited, is_text_table


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
        return self._command(expression.format(p="p", v="t[c].str.strip()")) or (
            f"take this of pandas, v being the column: {expression.format(p='pandas', v='v')}"
        )

    def _command(self, expression: str) -> str:
        """Command that writes the table anew; "" if it has no header, or is no text."""
        if not is_text_table(self.path):
            return ""
        table = Delimited(self.path)
        if table.names is None or self.name not in table.names:
            return ""
        sep = {"": r"r'\s+'", "\t": r"'\t'"}.get(table.separator, repr(table.separator))
        return (
            f'python -c "import pandas as p; t = p.read_csv({self.path!r}, sep={sep}, '
            f"skiprows={table.top.n_skipped}, dtype=str, keep_default_na=False, "
            f"skipinitialspace=True); c = t.columns[{table.names.index(self.name)}]; t[c] = "
            f"{expression}; t.to_csv('NEW.tsv', sep='\\t', index=False)\", then pass NEW.tsv"
        )
