"""A dossier in plain words: what a data protection officer asks first, and the answers.

No answer needs a term of statistics. Figures are those of the copy with the least noise, unless
they say otherwise: nobody who holds another one, and no coalition, knows more.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from cornerwave.document import Answer, count, one_line, percent
from cornerwave.dossier._facts import (
    AS_IT_IS,
    DRAWN,
    NOISE,
    PSEUDONYM,
    ColumnRisk,
    CopyHeld,
    DossierFacts,
    LevelRisk,
    TableFacts,
)
from cornerwave.ledger import Terms, day_of, time_of
from cornerwave.outlook import in_units
from cornerwave.risks import share

MOST = 6
"""So many columns, or recipients, are named in an answer."""


def answers(facts: DossierFacts) -> list[Answer]:
    """Return the questions and their answers."""
    told = {
        "Who has it?": _who(facts),
        "Why do they have it?": _why(facts),
        "Until when?": _until(facts),
        "What could they find out about one person?": _one_person(facts),
        "Could somebody find the row of a person they know?": _found(facts),
        "What if they pool their copies?": _pooled(facts),
        "Could somebody be recognised because they are unusual?": _unusual(facts),
        "What was released without noise?": _without_noise(facts),
        "Is the data still of use?": _use(facts),
        "How do I know that these figures are right?": _right(facts),
        "What is not covered?": _not_covered(facts),
        "What happens if the key leaks?": _key_leaks(),
        "How is access taken back?": _revoked(facts),
        "Who decides about all this?": _decided(facts),
    }
    # of linked tables some sentences are the same
    return [Answer(question, " ".join(dict.fromkeys(lines))) for question, lines in told.items()]


def least_noisy(facts: DossierFacts) -> list[tuple[TableFacts, LevelRisk]]:
    """Return each table with the least noisy of the levels that the dossier is about."""
    return [(table, table.levels[0]) for table in facts.tables if table.levels]


def recipients_of(facts: DossierFacts) -> list[str]:
    """Return the recipients that the dossier is about."""
    return list(dict.fromkeys(copy.recipient for copy in facts.copies))


def named(names: Sequence[str]) -> str:
    """Return some names in a sentence; of many the first and how many more.

    >>> named(["a"]), named(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    shown = [one_line(name) for name in names[:MOST]]
    if more := len(names) - len(shown):
        shown.append(count(more, "other"))
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def terms_by_recipient(facts: DossierFacts) -> dict[str, list[Terms]]:
    """Return on which terms each recipient holds copies, each once."""
    found: dict[str, list[Terms]] = {name: [] for name in recipients_of(facts)}
    for copy in facts.copies:
        if (terms := terms_of(copy)) not in found[copy.recipient]:
            found[copy.recipient].append(terms)
    return found


def terms_of(copy: CopyHeld) -> Terms:
    """Return on which terms a copy is held."""
    return Terms(copy.purpose, copy.contract, copy.until)


# --------------------------------------------------------------------------------------------------
# Context


def _who(facts: DossierFacts) -> Iterator[str]:
    names = recipients_of(facts)
    holds = "holds" if len(names) == 1 else "hold"
    yield f"{count(len(names), 'recipient')} {holds} a copy of {facts.name}: {named(names)}."
    if facts.only:
        yield f"This document is about them alone; {facts.holders} hold copies in all."
    yield (
        "Nobody but the owner has the original. Each copy was written down in a ledger before its "
        "first byte left, and lines of the ledger cannot be changed or removed without notice."
    )


def _why(facts: DossierFacts) -> Iterator[str]:
    known, silent = [], []
    for name, every in terms_by_recipient(facts).items():
        stated = [each for each in every if each.purpose or each.contract]
        if not stated:
            silent.append(name)
        for each in stated:
            by = f" (contract: {each.contract})" if each.contract else ""
            known.append(f"{name}: {each.purpose or 'no purpose is stated'}{by}")
    if known:
        yield f"{'; '.join(map(one_line, known))}."
    if silent:
        yield f"No purpose and no contract is stated for {named(silent)}."


def _until(facts: DossierFacts) -> Iterator[str]:
    at = datetime.fromisoformat(facts.made_at)
    ends, over, open_ = [], [], []
    for name, every in terms_by_recipient(facts).items():
        for each in every:
            if each.until is None:
                open_.append(name)
            elif time_of(each.until) <= at:
                over.append(f"{name} ({day_of(each.until)})")
            else:
                ends.append(f"{name} until {day_of(each.until)}")
    if ends:
        yield f"{named(ends)}."
    if over:
        yield f"The time has passed of {named(over)}: they are to have deleted their copies."
    if open_:
        yield f"No end is stated for {named(list(dict.fromkeys(open_)))}."
    yield "After an end the service refuses every download. It cannot delete a copy that has left."


# --------------------------------------------------------------------------------------------------
# What could be found out


def _one_person(facts: DossierFacts) -> Iterator[str]:
    yield (
        "Whoever has a copy sees a row for each row of the table, but the values in it are blurred "
        "on purpose."
    )
    for table, level in least_noisy(facts):
        of = f" of {table.name}" if len(facts.tables) > 1 else ""
        words = [text for each in level.columns if (text := _of_column(each))]
        if words:
            more = f" and {count(len(words) - MOST, 'more column')}" * (len(words) > MOST)
            yield (
                f"From the copy{of} with the least noise, even somebody who knows which row "
                f"belongs to a person learns the {'; the '.join(words[:MOST])}{more}."
            )
    yield (
        "For numbers, nine of ten values lie within the distance given; they can be known better "
        "by somebody who knows how the values of people usually go together, as section 3 shows."
    )


def _of_column(each: ColumnRisk) -> str:
    """Return what a copy reveals of a typical value of a column."""
    if each.within is not None and each.within_blind is not None:
        near, far = (in_units(value, each.unit) for value in (each.within, each.within_blind))
        return f"{each.column} only to within ±{near} (without any copy: ±{far})"
    if each.right is not None and each.right_blind is not None:
        return (
            f"{each.column} by a guess that is right {100 * each.right:.0f} times in 100 (without "
            f"any copy: {100 * each.right_blind:.0f})"
        )
    return ""


def _found(facts: DossierFacts) -> Iterator[str]:
    for table, level in least_noisy(facts):
        of = f" of {table.name}" if len(facts.tables) > 1 else ""
        known = level.person
        if known.found is None or known.worst is None:
            yield f"How often that succeeds{of} was not measured."
            continue
        yield (
            f"Somebody who knows all that the table has of a person, and takes the row that "
            f"fits best in the copy{of} with the least noise, is right in {share(known.found)} of "
            f"cases, and in {share(known.worst)} for the tenth of people who are easiest to find."
        )
    yield (
        "Whoever finds a row reads in it what was released unchanged; its blurred values stay "
        "blurred."
    )


def _pooled(facts: DossierFacts) -> Iterator[str]:
    if facts.holders == 1:
        yield "One recipient holds copies, so there is nobody to pool them with."
    if facts.least is None:
        yield (
            "No figure can be given: between the states of the table that they hold, a category "
            "changed in ways that few people share."
        )
        return
    yield (
        f"All {facts.holders} together" * (facts.holders > 2)
        + "Both together" * (facts.holders == 2)
        + "The recipient" * (facts.holders == 1)
        + f" can recover no more than the best single copy shows: {percent(facts.least)} of what "
        "distinguishes people stays hidden in every column. This is so by construction, whatever "
        "they compute: every other copy is the best one with more noise on top."
    )
    alone = [table.groups[-1].independent for table in facts.tables]
    known = [each for each in alone if each is not None]
    if facts.holders > 1 and known and min(known) < facts.least:
        yield (
            "With ordinary noise, drawn anew for each copy, they could have averaged it away: "
            f"{percent(min(known))} would have stayed hidden."
        )


def _unusual(facts: DossierFacts) -> Iterator[str]:
    for table, level in least_noisy(facts):
        of = f" of {table.name}" if len(facts.tables) > 1 else ""
        if level.stand_out is None:
            yield f"Unusual records{of} were not counted: no numbers were measured."
        elif level.stand_out:
            yield (
                f"In the copy{of} with the least noise {count(level.stand_out, 'record')} of "
                f"{table.rows:,} {'lies' if level.stand_out == 1 else 'lie'} so far out that noise "
                "does not hide that: somebody who knows of such a person may find the row."
            )
        else:
            yield f"No record{of} lies so far out that it would be recognised in a copy."
    for table in facts.tables:
        drawn = any(column.what == DRAWN for column in table.columns)
        if drawn:
            yield (
                f"Category values that fewer than {table.min_count} people share were pooled."
                if table.min_count
                else "Rare category values were not pooled, so a rare one can point to few people."
            )


def _without_noise(facts: DossierFacts) -> Iterator[str]:
    for table in facts.tables:
        of = f" of {table.name}" if len(facts.tables) > 1 else ""
        kept = [each.name for each in table.columns if each.what == AS_IT_IS]
        coded = [each.name for each in table.columns if each.what == PSEUDONYM]
        gaps = [each.name for each in table.columns if each.gaps == "visible"]
        yield (
            f"Released unchanged{of}: {named(kept)}. Anybody who knows these of a person can look "
            "the row up in every copy."
            if kept
            else f"No column{of} was released unchanged."
        )
        if coded:
            yield (
                f"In place of {named(coded)} copies have a code, the same in all of them, that "
                "nobody without the key can compute."
            )
        if gaps:
            yield f"Copies show which values are missing of {named(gaps)}."
        yield {
            "shuffle": "The rows are in a random order.",
            "keep": "The rows are in the order of the table.",
        }.get(table.order or "", "The rows are in the order of the table, which reveals nothing.")
    yield "What these reveal of the other columns is counted in the figures."


def _use(facts: DossierFacts) -> Iterator[str]:
    yield "Yes, for questions about many people."
    for table in facts.tables:
        if len(table.levels) == 0:
            continue
        first, last = table.levels[0], table.levels[-1]
        of = f" of {table.name}" if len(facts.tables) > 1 else ""
        between = (
            f"{first.mean_error:.2f} times as uncertain"
            if first == last
            else f"{first.mean_error:.2f} to {last.mean_error:.2f} times as uncertain"
        )
        yield (
            f"Averages{of} from a copy are {between} "
            "as those from the original; they are not shifted to one side."
        )
    yield "A copy is of no use for decisions about a single person, and is not meant to be."


# --------------------------------------------------------------------------------------------------
# Governance


def _right(facts: DossierFacts) -> Iterator[str]:
    checks = sum(table.measured.checks for table in facts.tables)
    failed = sum(len(table.measured.failed) for table in facts.tables)
    few = not checks
    yield (
        "The table is too short for its copies to be attacked for this document."
        if few
        else (
            "For this document each copy was made again and attacked, by programs that share "
            f"nothing with those that make copies: {count(checks, 'check')}, "
            f"{'none failed' if not failed else f'{failed} failed'}."
        )
    )
    yield (
        "The owner, or an auditor with the table, repeats all of it with one command (section 8), "
        "which states line by line what differs. The document is signed: if a word or a figure of "
        "it is changed, the check fails. A signature shows who made the document and that it is "
        "unchanged; it does not show that its figures are true. Repeating them does."
    )


def _not_covered(facts: DossierFacts) -> Iterator[str]:
    kept = [each.name for table in facts.tables for each in table.columns if each.what == AS_IT_IS]
    noisy = [each.name for table in facts.tables for each in table.columns if each.what == NOISE]
    yield (
        "What is known about a whole group stays known: copies are made to show averages and "
        "relations between columns."
    )
    if noisy:
        yield (
            "The stated share stays hidden from estimates that weigh the blurred numbers. Somebody "
            "who knows how values are distributed among people can do better with one copy, though "
            "no better with several; section 3 has a figure for one such attack, which is no limit."
        )
    if kept:
        yield f"Columns released unchanged ({named(kept)}) are not protected."
    yield (
        "Not covered is who has the key, the original table, or other data about the same people "
        "from elsewhere; nor copies of the same table that were made with another key. No figure "
        "of differential privacy is claimed. Section 5 lists the rest."
    )


def _key_leaks() -> Iterator[str]:
    yield (
        "Whoever has the key of the vault can remove the noise from every copy, past ones too. So "
        "a leaked key is to be treated as if the table itself had been published to all who hold a "
        "copy: end all grants, ask the recipients to delete their copies, and report it as you "
        "would the loss of the table. A new key does not mend it, and copies of the same table "
        "under a new key must not go to the same recipients: averaged with the old ones they hide "
        "less. The key is a file that only its owner can read; it is in no copy, no message and "
        "not in this document."
    )


def _revoked(facts: DossierFacts) -> Iterator[str]:
    live = [each for each in facts.permissions if each.state == "live"]
    who = list(dict.fromkeys(each.recipient for each in live))
    yield (
        f"{named(who)} may fetch copies from the service now."
        if who
        else "Nobody may fetch copies from the service now."
    )
    yield (
        "The owner ends that with one command or in the console (cornerwave revoke), at once, also "
        "for downloads that are under way. Copies that recipients have stay with them, so the "
        "contract has to oblige them to delete these; the figures here go on counting them."
    )


def _decided(facts: DossierFacts) -> Iterator[str]:
    roles = [count(number, role) for role, number in facts.roles.items()]
    yield (
        f"{named(roles)} of the vault may act in it."
        if len(roles) > 1
        else (f"{roles[0]} may act in the vault.")
    )
    yield (
        f"What is below privacy {facts.second_person_below:g} needs the approval of a second "
        "person."
        if facts.second_person_below is not None
        else "No release needs the approval of a second person."
    )
    yield "What owners do under their names is written down in the ledger."
