"""The dossier: one signed document for an auditor about what was released of a table.

write_dossier     measure, sign and write it, as a page or as JSON
Dossier           the same as a value: `document` and `to_json()`
check_dossier     is one as it was signed, and what differs if all is measured again?
check_signature   the same with the public key alone, without vault and table

_facts        what the ledger and registration state: who, what, why, until when; risks, coalitions
_measured     copies made again, and attacked
_promises     each promise with its proof, its test and its figure
_plain_words  questions and answers
_chapters     the chapters of the document; _identified is the one on what could be found out
_dossier      gathered, signed, written
_signed       canonical JSON, its signature, and the page that carries both
_compared     what differs

In: a vault and a table of it. Out: a file that can be handed out; nothing is recorded. No cell of
the table and no key is in it. To add a figure: a field in `_facts` (or `_measured`), and the place
where `_chapters` shows it; the check compares every field.
"""

from cornerwave.dossier._compared import Checked, check_dossier, check_signature
from cornerwave.dossier._dossier import Dossier, write_dossier
from cornerwave.dossier._signed import SignedDossier

__all__ = [
    "Checked",
    "Dossier",
    "SignedDossier",
    "check_dossier",
    "check_signature",
    "write_dossier",
]
