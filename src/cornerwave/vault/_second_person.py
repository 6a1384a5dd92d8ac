"""What waits for a second person: grants and releases below a privacy, if the vault wants that.

    option      the privacy below which a second person must approve; none by default
    proposal    what somebody asked for: open, then approved or declined by another, then used

Both are sealed records, and every decision reads them in the transaction that acts on it: of two
who decide at once one does, and an option that changes meanwhile holds from then on. A release is
looked at twice: before the copy is made, and in the transaction in which the ledger records it.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cornerwave.errors import AccessDenied, ApprovalNeeded, LevelError
from cornerwave.ledger import Record, Records, now

OPTION, SECOND_PERSON, PROPOSAL = "option", "second person", "proposal"
WAITS, APPROVED, DECLINED, USED = "open", "approved", "declined", "used"
_ID_BYTES = 6


def below_in(records: Records) -> float | None:
    """Return the privacy below which a second person must approve; None if none must."""
    options = records.find(OPTION, id=SECOND_PERSON)
    below: float | None = options[0].content["below"] if options else None
    return below


def set_below(records: Records, below: float | None, at: str) -> None:
    """Let a second person approve what is below a privacy, or nothing."""
    records.put(Record(OPTION, SECOND_PERSON, "", at, {"below": below}))


def checked_below(below: float | None) -> float | None:
    """Return a privacy below which a second person can be wanted. Raises LevelError."""
    if below is not None and not 0 < below <= 1:
        raise LevelError(
            f"{below:g} is outside the range: a second person approves what is below a privacy "
            "between 0 and 1"
        )
    return below


@dataclass(frozen=True)
class Proposal:
    """What somebody asked for that another must approve, and what is done then.

    `grants` are records of grants, `request` is the request of a recipient that they answer, and
    `copies` are the id of a dataset, a recipient and a noise each; `below` is a new option.
    """

    id: str
    asker: str
    at: str
    what: str
    datasets: Sequence[str] = ()
    grants: Sequence[Mapping[str, Any]] = ()
    request: str = ""
    answer: str = ""
    copies: Sequence[Sequence[Any]] = ()
    changes_option: bool = False
    below: float | None = None
    state: str = WAITS
    decided_by: str = ""

    @classmethod
    def of(cls, record: Record) -> "Proposal":
        """Read a proposal as it is kept."""
        return cls(record.id, record.of, record.at, **record.content)

    def record(self) -> Record:
        """Return it as it is kept."""
        content = {k: v for k, v in asdict(self).items() if k not in ("id", "asker", "at")}
        return Record(PROPOSAL, self.id, self.asker, self.at, content)

    @property
    def asks_for(self) -> str:
        """What is the same if somebody asks again: a grant gets a new id and a new time."""
        record = self.record()
        grants = [(each["of"], each["content"]) for each in self.grants]
        return json.dumps([record.of, {**record.content, "grants": grants}], sort_keys=True)


def proposals(records: Records, *, state: str | None = None) -> list[Proposal]:
    """Return what was asked for, the oldest first."""
    every = (Proposal.of(each) for each in records.find(PROPOSAL))
    return [each for each in every if state in (None, each.state)]


def propose(records: Records, who: str, what: str, **details: Any) -> Proposal:
    """Write down what waits from now on, once; the ledger states who asked for it.

    Raises AccessDenied without a name: nobody could be another person than that.
    """
    if not who:
        raise AccessDenied(
            f"{what}: this waits for a second person, so state who you are, also by "
            "CORNERWAVE_OWNER=NAME",
            use=("by",),
        )
    at = now().isoformat(timespec="milliseconds")
    made = Proposal(secrets.token_hex(_ID_BYTES), who, at, what, **details)
    for each in proposals(records, state=WAITS):
        if each.asks_for == made.asks_for:
            return each
    records.put(made.record())
    records.note(f"asked for a second person: {what} ({made.id})")
    return made


def needed(waits: Proposal) -> ApprovalNeeded:
    """Return the error that states that something waits, and what to do."""
    return ApprovalNeeded(
        f"{waits.what}: this waits until another owner or approver than {waits.asker!r} approves "
        f"{waits.id}"
    )


# --------------------------------------------------------------------------------------------------
# Copies


@dataclass(frozen=True)
class Wanted:
    """A copy that somebody is about to hold: of a dataset, by its id and its name."""

    dataset: str
    name: str
    recipient: str
    noise: float
    privacy: float


def check_wanted(records: Records, who: str, copies: Sequence[Wanted]) -> None:
    """Raise ApprovalNeeded for copies that wait for a second person, which are written down."""
    if below_in(records) is None:
        return
    with records.together() as within:
        missing = list(_missing(within, copies))
        if not missing:
            return
        waits = propose(
            within,
            who,
            f"release {_described(missing)}",
            datasets=sorted({each.dataset for each in missing}),
            copies=[[each.dataset, each.recipient, each.noise] for each in missing],
        )
    raise needed(waits)


def use_approvals(records: Records, copies: Sequence[Wanted] | None) -> None:
    """Use what was approved, in the transaction that records the copies. Raises ApprovalNeeded.

    `copies` is None if nothing needed an approval before this transaction.
    """
    below = below_in(records)
    if below is None:
        return
    if copies is None:
        raise ApprovalNeeded(
            f"since just now what is below privacy {below:g} needs a second person; release it "
            "again"
        )
    for each in _missing(records, copies):
        raise ApprovalNeeded(
            f"release {_described([each])}: this needs a second person; release it again to ask "
            "for one"
        )
    for each in copies:
        approved = [p for p in proposals(records, state=APPROVED) if _covering(p, each)]
        if approved and each.privacy < below:
            left = [list(copy) for copy in approved[0].copies]
            left.remove(_covering(approved[0], each)[0])
            state = APPROVED if left else USED
            records.put(replace(approved[0], copies=left, state=state).record())


def _missing(records: Records, copies: Iterable[Wanted]) -> Iterator[Wanted]:
    """Yield the copies below the option's privacy that nobody else has approved."""
    below = below_in(records)
    approved = [copy for each in proposals(records, state=APPROVED) for copy in each.copies]
    for each in copies:
        if below is None or each.privacy >= below:
            continue
        if covered := [copy for copy in approved if _covers(copy, each)]:
            approved.remove(covered[0])
        else:
            yield each


def _covering(proposal: Proposal, wanted: Wanted) -> list[list[Any]]:
    return [list(copy) for copy in proposal.copies if _covers(copy, wanted)]


def _covers(approved: Sequence[Any], wanted: Wanted) -> bool:
    dataset, recipient, noise = approved
    return (dataset, recipient) == (wanted.dataset, wanted.recipient) and noise <= wanted.noise


def _described(copies: Sequence[Wanted]) -> str:
    return ", ".join(f"{c.name} to {c.recipient} at privacy {c.privacy:g}" for c in copies)
