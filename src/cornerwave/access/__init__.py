"""Who may have what: recipients, grants, tokens, requests, and the log of who fetched what.

    sharing = Sharing(vault)
    sharing.add("partner")
    sharing.grant("people", "partner", privacy=0.3)
    text = sharing.new_token("partner", days=90)       # shown once; only its HMAC is kept
    for request in sharing.requests():                 # what partners ask for
        sharing.foreseen(request)                      # what each coalition could recover then
        sharing.answer(request.id, privacy=0.4)

    _grants       permissions, tokens, and what recipients ask for
    _permissions  all of it in a vault

A grant is permission, not a copy: the ledger records the holding when the first byte could
leave. Revoking stops downloads and changes nothing about what the recipient knows already.
"""

from cornerwave.access._grants import (
    ANYBODY,
    ANYBODY_KNOWN,
    MOST_DAYS,
    MOST_WORDS,
    OPEN,
    OWNER,
    SHARING_PATH,
    Foreseen,
    Grant,
    Request,
    Token,
    profile_text,
)
from cornerwave.access._permissions import Sharing

__all__ = [
    "ANYBODY",
    "ANYBODY_KNOWN",
    "MOST_DAYS",
    "MOST_WORDS",
    "OPEN",
    "OWNER",
    "SHARING_PATH",
    "Foreseen",
    "Grant",
    "Request",
    "Sharing",
    "Token",
    "profile_text",
]
