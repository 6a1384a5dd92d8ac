"""The report on a dataset: the copies that were released, and the original behind them.

write_report     the report as a page, for its owner or for others
report_document  the same as a document
ColumnSketch     what a level makes of the columns, drawn before any copy is made

_comparison      the copies and the original, and the counts of each
_answers         estimates from one table
_distributions   how each column is distributed
_report          the document
"""

from cornerwave.report._distributions import ColumnSketch
from cornerwave.report._report import report_document, write_report

__all__ = ["ColumnSketch", "report_document", "write_report"]
