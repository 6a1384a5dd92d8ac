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
    _approvals    what waits for a second person
    _permitted    grants, tokens and requests, as a transaction reads and writes them
    _owners       owners by name, their roles, and links to set a password
    _permissions  all of it in a vault

A grant is permission, not a copy: the ledger records the holding when the first byte could
leave. Revoking stops downloads and changes nothing about what the recipient already has.
"""

from cornerwave.access._approvals import Approvals
from cornerwave.access._grants import (
    ANYBODY,
    ANYBODY_KNOWN,
    APPROVED,
    DECLINED,
    ENDED,
    EXPIRED,
    LIVE,
    MOST_DAYS,
    OPEN,
    SHARING_PATH,
    Foreseen,
    Grant,
    Recipient,
    Request,
    Token,
    Waiting,
    profile_text,
)
from cornerwave.access._owners import (
    APPROVER,
    FIRST,
    LINK_HOURS,
    OWNER,
    PASSWORD,
    ROLES,
    SESSION,
    VIEWER,
    Owners,
    Person,
    check_may,
    link_at,
    people,
)
from cornerwave.access._permissions import Sharing

__all__ = [
    "ANYBODY",
    "ANYBODY_KNOWN",
    "APPROVED",
    "APPROVER",
    "DECLINED",
    "ENDED",
    "EXPIRED",
    "FIRST",
    "LINK_HOURS",
    "LIVE",
    "MOST_DAYS",
    "OPEN",
    "OWNER",
    "PASSWORD",
    "ROLES",
    "SESSION",
    "SHARING_PATH",
    "VIEWER",
    "Approvals",
    "Foreseen",
    "Grant",
    "Owners",
    "Person",
    "Recipient",
    "Request",
    "Sharing",
    "Token",
    "Waiting",
    "check_may",
    "link_at",
    "people",
    "profile_text",
]
