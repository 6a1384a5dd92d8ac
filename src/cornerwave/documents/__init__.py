"""Web pages: the owner's report, a copy's dictionary, an audit, which privacy to pick.

    write_report        the report on a dataset, for its owner or for others
    levels_page         which privacy to pick
    write_dictionary    the data dictionary of a copy, for its recipient
    audit_page          a measured audit
    Canvas              a drawing in SVG, as on all pages
    ShareRow, share_strip, ColumnSketch    drawings that stand on the pages of the service
    inner, style_sheet  a page within another one

Each page is one HTML file that loads nothing, with one style sheet (`pages.css`) and no
script.

    _document           page kit: document, sections, tables
    _charts             SVG kit: a canvas; share charts, histograms, bars, meters
    _tallies, _answers  distributions and estimates of one table
    _distributions      how each column is distributed, and what a level makes of it
    _comparison         the copies and the original of a report
"""

from cornerwave.documents._audit_page import audit_page
from cornerwave.documents._charts import Canvas, ShareRow, share_strip
from cornerwave.documents._dictionary_page import write_dictionary
from cornerwave.documents._distributions import ColumnSketch
from cornerwave.documents._document import inner, is_page, style_sheet
from cornerwave.documents._levels_page import levels_page, levels_title
from cornerwave.documents._report import write_report

__all__ = [
    "Canvas",
    "ColumnSketch",
    "ShareRow",
    "audit_page",
    "inner",
    "is_page",
    "levels_page",
    "levels_title",
    "share_strip",
    "style_sheet",
    "write_dictionary",
    "write_report",
]
