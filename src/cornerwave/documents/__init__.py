"""Documents for readers: a page of HTML, or text on a terminal.

    page, body       a Document as one HTML file that loads nothing, or as part of another page
    carrying, carried_by    a page with data for programs in it, and without
    print_document   a Document on a terminal
    print_table      a table alone
    Canvas           a drawing in SVG, as on all pages
    share_strip, overlay    drawings by themselves, on the pages of the service

What a document states is built by the rooms that know the result (`cornerwave.document`).

    _html       sections and tables as HTML; its looks are `pages.css`, without a script
    _charts     SVG kit: a canvas; share charts, histograms, curves, bars, meters
    _terminal   sections and tables as text
"""

from cornerwave.documents._charts import Canvas, overlay, share_strip
from cornerwave.documents._html import body, carried_by, carrying, is_page, page, style_sheet
from cornerwave.documents._terminal import print_document, print_table

__all__ = [
    "Canvas",
    "body",
    "carried_by",
    "carrying",
    "is_page",
    "overlay",
    "page",
    "print_document",
    "print_table",
    "share_strip",
    "style_sheet",
]
