"""Which recipients and grants the service needs, and what the file no longer has."""

from collections.abc import Iterator
from functools import partial

from cornerwave.access import LIVE, Grant, Sharing
from cornerwave.errors import CornerwaveError
from cornerwave.kinds import Json
from cornerwave.ledger import NO_TERMS, Terms
from cornerwave.levels import LINEAR, Level, Privacy
from cornerwave.project._actions import (
    ENDED,
    NEW,
    REPLACED,
    STAYS,
    Action,
    Findings,
    PlanLine,
    asked_facts,
    asked_words,
    terms_words,
)
from cornerwave.project._project_file import ProjectFile, StatedGrant
from cornerwave.project._table_plan import TableOfProject
from cornerwave.sources import Progress
from cornerwave.spec import CopySpec
from cornerwave.vault import Dataset


def plan_recipients(file: ProjectFile, sharing: Sharing, found: Findings) -> None:
    """Find which recipients are to be added, and which the file does not name."""
    known, at = sharing.recipients(), sharing.clock()
    for name, terms in file.recipients.items():
        is_new, stated = name not in known, terms or NO_TERMS
        if is_new and stated.has_ended(at):
            continue
        if is_new or (terms is not None and terms != sharing.recipient(name).terms):
            facts = {"action": "recipient", "recipient": name, **stated.to_json()}
            words = f"recipient {name}{terms_words(stated)}"
            line = PlanLine(NEW if is_new else REPLACED, words, facts)
            do = partial(_add if is_new else _change, sharing, name, stated)
            found.actions.append(Action((line,), do))
    for name in known:
        if name not in file.recipients:
            found.stays.append(
                PlanLine(STAYS, f"recipient {name} is not in the file", {"recipient": name})
            )


def _add(sharing: Sharing, name: str, terms: Terms, progress: Progress) -> None:
    sharing.add(name, purpose=terms.purpose, contract=terms.contract, until=terms.until)


def _change(sharing: Sharing, name: str, terms: Terms, progress: Progress) -> None:
    sharing.change(name, terms)


def plan_grants(table: TableOfProject, sharing: Sharing, found: Findings) -> None:
    """Find which grants of a table are to be made."""
    for stated in table.stated.grants:
        if stated.terms.has_ended(sharing.clock()):
            continue  # it has ended, by the file and so in the vault
        with found.refusing(table.name):
            if (mark := _mark_of(table, sharing, stated)) is None:
                continue
            words = f"{asked_words(stated.asked)}{terms_words(stated.terms)}"
            facts: dict[str, Json] = {
                "action": "grant",
                "table": table.name,
                "recipient": stated.to,
                **asked_facts(stated.asked),
                "until": stated.terms.until,
                "purpose": stated.terms.purpose,
                "contract": stated.terms.contract,
            }
            line = PlanLine(mark, f"grant {table.name} to {stated.to}: {words}", facts)
            do = partial(_grant, table, sharing, stated)
            found.actions.append(Action((line,), do, table=table.name))


def _mark_of(table: TableOfProject, sharing: Sharing, stated: StatedGrant) -> str | None:
    """Return how the line of a grant begins; None if it is there."""
    if table.registered is None:
        return NEW
    level = table.registered.level_of(stated.asked)
    live = [
        each
        for dataset in table.members.values()
        for each in sharing.grants(dataset=dataset.id, recipient=stated.to)
        if each.state(sharing.clock()) == LIVE
    ]
    same = [each for each in live if _is_same(each, table, level, stated)]
    # new rows of persons may take another level for the same privacy
    moves = table.is_changing and any(each.frozen.persons for each in table.members.values())
    if len(same) == len(table.members) and not moves:
        return None
    return REPLACED if live else NEW


def _is_same(grant: Grant, table: TableOfProject, level: Level, stated: StatedGrant) -> bool:
    [dataset] = [each for each in table.members.values() if each.id == grant.dataset]
    schema = dataset.frozen.schema
    stated.finish.check(schema)
    wanted = CopySpec(level, stated.finish.counted(schema))
    return (grant.spec, grant.terms) == (wanted, stated.terms)


def _grant(
    table: TableOfProject, sharing: Sharing, stated: StatedGrant, progress: Progress
) -> None:
    asked, finish = stated.asked, stated.finish
    privacy = asked.share if isinstance(asked, Privacy) else None
    noise = asked.noise if isinstance(asked, Level) else None
    against = asked.against if isinstance(asked, Privacy) else LINEAR
    if table.stated.is_linked:
        sharing.grant_linked(
            table.name,
            stated.to,
            privacy=privacy,
            noise=noise,
            purpose=stated.terms.purpose,
            contract=stated.terms.contract,
            until=stated.terms.until,
            against=against,
        )
        return
    sharing.grant(
        table.name,
        stated.to,
        privacy=privacy,
        noise=noise,
        purpose=stated.terms.purpose,
        contract=stated.terms.contract,
        until=stated.terms.until,
        round=sorted(finish.round),
        clip=finish.clip,
        against=against,
    )


# --------------------------------------------------------------------------------------------------
# What the vault has and the file has not.


def plan_the_rest(
    tables: list[TableOfProject], sharing: Sharing, found: Findings, *, prune: bool
) -> None:
    """Find what the file does not have; with `prune`, its grants are revoked."""
    at = sharing.clock()
    stated = {
        (table.name, each.to)
        for table in tables
        for each in table.stated.grants
        if not each.terms.has_ended(at)
    }
    known = {dataset.id: dataset for dataset in sharing.vault.datasets()}
    more = dict[tuple[str, str], float]()
    for grant in sharing.grants():
        if grant.state(at) == LIVE and grant.dataset in known:
            dataset = known[grant.dataset]
            key = _name_of(dataset), grant.recipient
            if key not in stated:
                hides = dataset.privacy_of(grant.spec.level)
                more[key] = min(hides, more.get(key, hides))
    revoked = []
    for (name, recipient), privacy in sorted(more.items()):
        facts: dict[str, Json] = {"table": name, "recipient": recipient, "privacy": privacy}
        words = f"{name} from {recipient}: privacy {privacy:g}"
        if prune:
            line = PlanLine(ENDED, f"revoke {words}", {"action": "revoke", **facts})
            revoked.append(Action((line,), partial(_revoke, sharing, name, recipient), table=name))
        else:
            words = f"grant of {name} to {recipient}, privacy {privacy:g}, is not in the file"
            found.stays.append(PlanLine(STAYS, words, facts))
    found.actions[:0] = revoked  # first, whatever fails later
    named = {table.name for table in tables}
    for name in dict.fromkeys(_name_of(dataset) for dataset in known.values()):
        if name not in named:
            found.stays.append(PlanLine(STAYS, f"table {name} is not in the file", {"table": name}))
    for table in tables:
        found.stays += _held_beside(table)


def _revoke(sharing: Sharing, name: str, recipient: str, progress: Progress) -> None:
    sharing.revoke(name, recipient)


def _name_of(dataset: Dataset) -> str:
    """Return what a file calls a dataset: linked tables by the name of all."""
    return dataset.name if dataset.frozen.family is None else dataset.name.rpartition(".")[0]


def _held_beside(table: TableOfProject) -> Iterator[PlanLine]:
    """Yield the copies that recipients hold at levels that the file does not have."""
    if table.registered is None:
        return
    stated = set[tuple[str, Level]]()
    asked = [(each.to, each.asked) for each in table.stated.copies]
    asked += [(each.to, each.asked) for each in table.stated.grants]
    for to, level_or_privacy in asked:
        try:
            stated.add((to, table.registered.level_of(level_or_privacy)))
        except CornerwaveError:  # no level gives it, as the plan states
            continue
    public = {level for to, level in stated if to not in table.recipients}
    held = {
        (each.recipient, each.spec.level)
        for dataset in table.members.values()
        for each in dataset.holdings
    }
    for recipient, level in sorted(held - stated):
        if level not in public:
            privacy = table.registered.privacy_of(level)
            yield PlanLine(
                STAYS,
                f"{recipient} holds {table.name} at privacy {privacy:g}, which is not in the file",
                {"table": table.name, "recipient": recipient, "privacy": privacy},
            )
