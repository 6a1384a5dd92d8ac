"""Web pages: the owner's report, a copy's dictionary, an audit, the reproduction of the paper.

    write_report        the report on a dataset, for its owner or for others
    levels_page         which privacy to pick
    write_dictionary    the data dictionary of a copy, for its recipient
    audit_page          a measured audit
    reproduction_page   statements of the paper with verdicts; Picture is one of its figures
    Canvas              a drawing in SVG, as on all pages
    ShareRow, share_strip, ColumnSketch    drawings that stand on the pages of the service
    inner, style_sheet  a page within another one

Each page is one HTML file that loads nothing, with one style sheet (`pages.css`) and no
script.

    _document           page kit: document, sections, tables
    _canvas, _charts    SVG kit: a canvas; share charts, histograms, bars, meters
    _tallies, _answers  distributions and estimates of one table
    _distributions      how each column of a report is distributed
    _comparison         the copies and the original of a report
    _sketch             what a level makes of the columns, from a sample
"""

from cornerwave.pages._audit_page import audit_page
from cornerwave.pages._canvas import Canvas
from cornerwave.pages._charts import ShareRow, share_strip
from cornerwave.pages._dictionary_page import write_dictionary
from cornerwave.pages._document import inner, is_page, style_sheet
from cornerwave.pages._levels_page import levels_page, levels_title
from cornerwave.pages._report_page import write_report
from cornerwave.pages._reproduction_page import Picture, reproduction_page
from cornerwave.pages._sketch import ColumnSketch

__all__ = [
    "Canvas",
    "ColumnSketch",
    "Picture",
    "ShareRow",
    "audit_page",
    "inner",
    "is_page",
    "levels_page",
    "levels_title",
    "reproduction_page",
    "share_strip",
    "style_sheet",
    "write_dictionary",
    "write_report",
]
