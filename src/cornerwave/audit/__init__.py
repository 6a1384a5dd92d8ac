"""Copies in files, attacked and checked: what recipients can recover, measured.

    audit, Audit       read source and copies, accumulate, test, judge        (_audit, the spine)
    attack_copies      the adversary's view: estimate the original from copies    (_recovery)
    verdict, findings, notes, as_json      the audit in words and as JSON          (_verdict)
    sections                               the audit as tables                    (_sections)
    count_exposed, Exposed                 records too extreme for the noise to hide (_exposure)

    _alignment, _stated    source and copies row by row, and what copies state
    _chance                what a check is, and the limits that it is compared with
    _untested              what a verdict does not cover

    numbers:     _sums, _watch, _repeats   what one pass keeps of all rows
                 _kept_rows, _directions   some rows, completed, and their noise in many directions
                 _number_checks            sums of products, and what stays hidden
                 _row_checks               sorted rows, and low digits
                 _single_rows              leaks in few rows, noise that came from other rows
                 _gain                     what coalitions recover, linear or not
                 _apart                    columns clipped or on ranks, each by itself
    categories:  _shown                    what one pass keeps
                 _category_checks          refreshes, replacements, path
                 _guesses                  what stays hidden, alone and together
    both:        _kinds                    do noise and draws have nothing in common?
                 _whole                    does everything in a copy hide what it states?
                 _everything               the rows in which this is measured
                 _noise_free               what stands without noise, and the copy smoothed over it
                 _attacks, _fits           the attacks, and the estimators that they use

The audit imports no key and no ledger: an auditor has neither.
"""

from cornerwave.audit._audit import CATEGORY_CHECKS, MIXED_CHECKS, NUMBER_CHECKS, Audit, audit
from cornerwave.audit._chance import ALPHA
from cornerwave.audit._exposure import Exposed, count_exposed
from cornerwave.audit._recovery import Recovered, attack_copies
from cornerwave.audit._sections import sections
from cornerwave.audit._verdict import as_json, findings, notes, verdict

__all__ = [
    "ALPHA",
    "CATEGORY_CHECKS",
    "MIXED_CHECKS",
    "NUMBER_CHECKS",
    "Audit",
    "Exposed",
    "Recovered",
    "as_json",
    "attack_copies",
    "audit",
    "count_exposed",
    "findings",
    "notes",
    "sections",
    "verdict",
]
