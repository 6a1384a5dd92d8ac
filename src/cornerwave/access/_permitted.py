"""What is kept of grants, tokens and requests, as one transaction reads and writes it."""

import secrets
from dataclasses import replace

from cornerwave.access._grants import ANYBODY, ANYBODY_KNOWN, OPEN, Grant, Request
from cornerwave.columns import listed
from cornerwave.errors import NoSuchRecipient, VaultError, nearest
from cornerwave.ledger import Record, Records

_ID_BYTES = 6


def put_grant(records: Records, made: Grant, at: str) -> Grant:
    """Write a grant in place of what the recipient had of the dataset. Raises NoSuchRecipient."""
    if made.recipient not in (ANYBODY, ANYBODY_KNOWN):
        check_recipient(records, made.recipient)  # they may have been removed meanwhile
    end_grants(records, made.dataset, made.recipient, at)
    made = replace(made, at=at)
    records.put(made.record())
    return made


def end_grants(records: Records, dataset: str, recipient: str, at: str) -> bool:
    """End the grants of a dataset to a recipient; return whether there were any."""
    live = [
        each
        for each in records.find("grant", of=recipient)
        if each.content["dataset"] == dataset and each.content["revoked"] is None
    ]
    for each in live:
        end(records, each, at)
    return bool(live)


def recipients(records: Records) -> list[str]:
    """Return the names of all recipients, the oldest first."""
    return [each.id for each in records.find("recipient", about=[""])]


def is_recipient(records: Records, name: str) -> bool:
    """Whether there is a recipient of this name, who was not removed."""
    return any(not each.content["removed"] for each in records.find("recipient", id=name))


def check_recipient(records: Records, name: str) -> None:
    """Raise NoSuchRecipient unless there is a recipient of this name."""
    if not is_recipient(records, name):
        known = recipients(records)
        have = f"there are {listed(known, str)}" if known else "add one first"
        raise NoSuchRecipient(
            f"there is no recipient {name!r}; {have}{nearest(name, known)}",
            use=() if known else ("recipient",),
        )


def new_id() -> str:
    """Return an id for a grant, a token or a request."""
    return secrets.token_hex(_ID_BYTES)


def end(records: Records, kept: Record, at: str) -> None:
    """Write that a grant or a token has ended."""
    records.put(replace(kept, content={**kept.content, "revoked": at}))


def open_request(records: Records, request: str) -> Request:
    """Return a request that waits for an answer. Raises VaultError if none does."""
    known = [Request.of(each) for each in records.find("request", id=request)]
    if not known or known[0].state != OPEN:
        raise VaultError(f"there is no open request {request!r}")
    return known[0]
