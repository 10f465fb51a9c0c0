"""Beyond the paper: every method on the digits that are embedded in scikit-learn, which anyone can run five times."""

from __future__ import annotations

from lockgate.reproduction.paper_table import PaperTable
from lockgate.reproduction.tables_and_figures.every_method import EveryMethod

DIGITS = EveryMethod("digits", stored=200)
TABLE = PaperTable(
    "digits", "Every method on the embedded digits", "Beyond the paper", DIGITS.lines, seeds=5, ranked=False
)
