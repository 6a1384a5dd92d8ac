"""Who may have what: recipients, grants, tokens, requests, and the log of who fetched what.

    sharing = Sharing(vault)
    sharing.add("partner")
    sharing.grant("people", "partner", privacy=0.3)
    text = sharing.new_token("partner", days=90)       # shown once; only its HMAC is kept
    for each in sharing.waiting():                     # what partners ask for, and what each
        each.coalitions                                # coalition could recover then
        sharing.answer(each.asked.id, privacy=0.4)

`Sharing` has everything that an owner does about access; the console and the command line call it,
so that both can do the same.

    _grants       permissions, tokens, and what recipients ask for
    _permissions  all of it in a vault

A grant is permission, not a copy: the ledger records the holding when the first byte could
leave. Revoking stops downloads and changes nothing about what the recipient already has.
"""

from cornerwave.access._grants import (
    ANYBODY,
    ANYBODY_KNOWN,
    LIVE,
    MOST_DAYS,
    MOST_WORDS,
    OPEN,
    SHARING_PATH,
    Foreseen,
    Grant,
    Request,
    Token,
    Waiting,
    profile_text,
)
from cornerwave.access._permissions import Sharing

__all__ = [
    "ANYBODY",
    "ANYBODY_KNOWN",
    "LIVE",
    "MOST_DAYS",
    "MOST_WORDS",
    "OPEN",
    "SHARING_PATH",
    "Foreseen",
    "Grant",
    "Request",
    "Sharing",
    "Token",
    "Waiting",
    "profile_text",
]
