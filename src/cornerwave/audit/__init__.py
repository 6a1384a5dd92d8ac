"""Copies in files, attacked and checked: what recipients can recover, measured.

    audit, Audit       read source and copies, accumulate, test, judge        (_audit, the spine)
    PersonsBeside      what holders of a copy have of its persons from other tables (_linked_view)
    Aligned, audit_aligned    the same, of rows that an engine reads          (_alignment)
    attack_copies, attack_document    the adversary's view: the original, estimated from copies
                                                                                  (_recovery)
    search_copies, Searched, searched_document    rows looked for in copies (_searched)
    audit_document     the audit as a document for a terminal, a page or programs   (_sections)
    verdict, notes, as_json    its words and fields by themselves                   (_verdict)
    count_exposed, Exposed                 records too extreme for the noise to hide (_exposed)

    _alignment, _blocks    source and copies row by row, in blocks of the same rows
    _stated                what copies state
    _chance                what a check is, and the limits that it is compared with
    _membership            which rows belong to a person; one row of each, or all of some

    numbers:     _numbers                  what passes over all rows keep, which checks look at
                 _sums                     sums of products over all rows, grids of rounding
                 _steps                    single rows: steps of the path
                 _repeats                  noise that came twice, or not at all
                 _completion               rows with missing values, completed
                 _rows                     some rows, and their noise in many directions
                 _number_checks            sums of products, and what stays hidden
                 _row_checks               sorted rows, low digits, and the order of the rows
                 _single_rows              leaks in few rows, noise that came from other rows
                 _coalitions               what coalitions recover, linear or not
                 _apart                    columns clipped or on ranks, each by itself
    categories:  _guesses                  what a pass keeps, and what stays hidden
                 _guessed_cells            the best guess of each cell, without a truth
                 _category_checks          refreshes, replacements, path
    both:        _whole                    does everything in a copy hide what it states?
                 _left                     what is left of a column, and its error
                 _everything               the rows in which this is measured
                 _noise_free               what has no noise, and the copy smoothed over it
                 _groupings                ways to group rows by it, and which are worth an estimate
                 _attacks, _fits           the attacks, and the estimators that they use
                 _mixed_checks             draws beside noise; columns that follow from others
    persons:     _linked                   what copies hide of a person whose rows are linked
                 _linked_view              what copies of this and of other tables show of them

What is kept of rows are passes (cornerwave.passes): parts of a table add up, in any order.
The audit imports no key and no ledger: an auditor has neither.
"""

from cornerwave.audit._alignment import Aligned
from cornerwave.audit._audit import (
    CATEGORY_CHECKS,
    MIXED_CHECKS,
    NUMBER_CHECKS,
    Audit,
    audit,
    audit_aligned,
)
from cornerwave.audit._blocks import BLOCK_ROWS, AlignedCategories, AlignedRows, BlockReading
from cornerwave.audit._chance import ALPHA, refuse_overflow
from cornerwave.audit._exposed import Exposed, count_exposed
from cornerwave.audit._linked_view import PersonsBeside
from cornerwave.audit._recovery import Recovered, attack_copies, attack_document
from cornerwave.audit._searched import Searched, search_copies, searched_document
from cornerwave.audit._sections import audit_document
from cornerwave.audit._stated import with_metadata
from cornerwave.audit._verdict import as_json, notes, verdict

__all__ = [
    "ALPHA",
    "BLOCK_ROWS",
    "CATEGORY_CHECKS",
    "MIXED_CHECKS",
    "NUMBER_CHECKS",
    "Aligned",
    "AlignedCategories",
    "AlignedRows",
    "Audit",
    "BlockReading",
    "Exposed",
    "PersonsBeside",
    "Recovered",
    "Searched",
    "as_json",
    "attack_copies",
    "attack_document",
    "audit",
    "audit_aligned",
    "audit_document",
    "count_exposed",
    "notes",
    "refuse_overflow",
    "search_copies",
    "searched_document",
    "verdict",
    "with_metadata",
]
