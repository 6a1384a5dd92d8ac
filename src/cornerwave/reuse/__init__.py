"""Marks: by which a vault sees that the values of a table are registered already.

cells     a keyed hash of each value, the same in every type that could hold it
learned   what one pass learns: samples of values, windows, rows and keyed rows; parts add up
kept      what a ledger keeps of it, about 7 KB a column; it grows with the table
repeated  whether two tables have a column, or their rows, in common: beyond chance
related   whether the columns of one are computed from those of the other
"""

from cornerwave.reuse._cells import Cells
from cornerwave.reuse._compare import Relation, Repeat, related, repeated
from cornerwave.reuse._kept import ColumnMarks, TableMarks, grown, kept_of
from cornerwave.reuse._learned import Learned

__all__ = [
    "Cells",
    "ColumnMarks",
    "Learned",
    "Relation",
    "Repeat",
    "TableMarks",
    "grown",
    "kept_of",
    "related",
    "repeated",
]
