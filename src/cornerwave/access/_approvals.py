"""Second persons: what waits until another owner or approver than the one who asked approves it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from cornerwave.access._grants import APPROVED, DECLINED, LIVE, Foreseen, Grant, Holders
from cornerwave.access._owners import APPROVER, OWNER, check_may, signed
from cornerwave.access._permitted import open_request, put_grant
from cornerwave.errors import AccessDenied, LevelError, NoSuchDataset, VaultError
from cornerwave.ledger import Record, Records, now, written
from cornerwave.levels import Level
from cornerwave.vault import (
    USED,
    WAITS,
    Dataset,
    Proposal,
    Vault,
    below_in,
    checked_below,
    needed,
    proposals,
    propose,
    set_below,
)


class Approvals:
    """What waits for a second person in a vault, and below which privacy anything does."""

    def __init__(self, vault: Vault, *, clock: Callable[[], datetime] = now) -> None:
        """`clock` gives the time by which grants end."""
        self._vault, self._clock = vault, clock
        self._records = signed(vault)

    @property
    def below(self) -> float | None:
        """The privacy below which grants and releases wait for a second person, if any do."""
        return below_in(self._records)

    def change(self, *, below: float | None) -> None:
        """Let grants and releases below a privacy wait for a second person; none if it is None.

        Raises ApprovalNeeded if they do already: then this change waits itself.
        """
        checked_below(below)
        what = _wanted(below)
        with self._records.together() as records:
            check_may(records, self._vault.who, OWNER)
            if below_in(records) == below:
                raise VaultError(f"this is so already: {what}")
            if below_in(records) is None:
                set_below(records, below, written(self._clock()))
                records.note(what)
                return
            waits = propose(records, self._vault.who, what, changes_option=True, below=below)
        raise needed(waits)

    def waiting(
        self, *, state: str | None = WAITS, datasets: Collection[str] | None = None
    ) -> list[Proposal]:
        """Return what waits for a second person, the oldest first; `datasets` are ids."""
        every = proposals(self._records, state=state)
        return [e for e in every if datasets is None or not set(datasets).isdisjoint(e.datasets)]

    def foreseen(self, proposal: Proposal) -> list[Foreseen]:
        """Return what stays hidden from coalitions now, and if a proposal were approved.

        For each recipient: alone, with each holder, with all. What is not registered is left out.
        """
        wanted = [(g.dataset, g.recipient, g.spec.level) for g in map(_grant, proposal.grants)]
        wanted += [(id, recipient, Level(noise)) for id, recipient, noise in proposal.copies]
        states = self._vault.states(proposal.datasets)
        by_recipient: dict[str, list[tuple[Dataset, Level]]] = {}
        for id, recipient, level in wanted:
            if id in states:
                dataset = self._vault.dataset(states[id].name)
                by_recipient.setdefault(recipient, []).append((dataset, level))
        return [
            each
            for recipient, copies in by_recipient.items()
            for each in Holders.of([dataset for dataset, _ in copies]).foreseen(
                recipient, min(level for _, level in copies)
            )
        ]

    def decide(self, proposal: str, *, approve: bool) -> Proposal:
        """Approve what somebody else has asked for, which is done at once, or decline it.

        Raises AccessDenied for who has asked for it and approves, VaultError if it was decided
        already, or if what it grants cannot be granted any more.
        """
        who = self._vault.who
        with self._records.together() as records:
            check_may(records, who, APPROVER)
            known = [each for each in proposals(records, state=WAITS) if each.id == proposal]
            if not known:
                raise VaultError(f"nothing waits for a second person under {proposal!r}")
            [asked] = known
            if approve and who in ("", asked.asker):
                raise AccessDenied(
                    f"{asked.id} waits for another person than {asked.asker!r}; "
                    f"{'you are ' + repr(who) if who else 'state who you are'}",
                    use=() if who else ("by",),
                )
            if approve:
                check_may(records, asked.asker, APPROVER)  # they may have been removed meanwhile
            done = replace(asked, state=APPROVED if approve else DECLINED, decided_by=who)
            records.note(f"{done.state} {asked.id} of {asked.asker}: {asked.what}")
            if approve:
                self._do(records, asked)
            if approve and not asked.copies:
                done = replace(done, state=USED)
            records.put(done.record())
        return done

    def _do(self, records: Records, asked: Proposal) -> None:
        """Do what was approved; a copy is released by who has asked for it."""
        at = written(self._clock())
        for each in asked.grants:
            grant = _grant(each)
            if grant.state(self._clock()) != LIVE:
                raise LevelError("the end of this grant has passed; decline it")
            if not self._vault.states([grant.dataset]):
                raise NoSuchDataset("the dataset of this grant is not registered any more")
            put_grant(records, grant, at)
        if asked.request:
            answered = open_request(records, asked.request)
            done = replace(answered, state=APPROVED, answer=asked.answer)
            records.put(done.record())
        if asked.changes_option:
            set_below(records, asked.below, at)


def _grant(kept: Mapping[str, Any]) -> Grant:
    return Grant.of(Record(**kept))


def _wanted(below: float | None) -> str:
    if below is None:
        return "let nothing wait for a second person"
    return f"let a second person approve what is below privacy {below:g}"
