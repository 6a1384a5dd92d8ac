"""What could be found out, and by whom: the chapter of a dossier on identifiability."""

from collections.abc import Iterator

from cornerwave import document as doc
from cornerwave.document import percent
from cornerwave.dossier._facts import ColumnRisk, DossierFacts, PersonRisk, Pooling
from cornerwave.dossier._plain_words import named
from cornerwave.outlook import in_units
from cornerwave.risks import bits_in_words, share

NONE = "–"
MOST_LINES = 12
"""Longer tables open at a click."""

HIDDEN = (
    "What stays hidden. 100% would mean that a copy says nothing about a column, 0% that "
    "it shows it. 50% means that half of what distinguishes people from each other in this column "
    "cannot be recovered. The figure is always that of the column of which least is hidden."
)
POOLED = (
    "Each line is somebody who holds copies, or several who pool them. The diamond is what stays "
    "hidden from them. The ring is where it would be if each copy had ordinary noise of its own: "
    "further to the left with everyone who joins in."
)
THREATS = (
    (
        "a recipient who reads the copy",
        "one copy",
        "the stated share stays hidden of every column",
    ),
    (
        "recipients who pool their copies",
        "several copies, at any levels",
        "they learn no more than the best of them alone",
    ),
    (
        "somebody who knows rows of the table",
        "one or more copies, and true rows",
        "the noise of other rows cannot be computed from these",
    ),
    (
        "somebody who knows how values are distributed",
        "one copy, and statistics about people",
        "may do better than the stated share; measured below for one such attack, no limit",
    ),
    (
        "somebody who knows a person and looks for the row",
        "one copy, and facts about the person",
        "no limit: how often that succeeds is measured below",
    ),
    ("whoever intercepts or steals a copy", "that copy", "what is promised for its recipient"),
    ("whoever gets the key or the table", "everything", "nothing"),
)
FOUND = (
    "Somebody who knows a person’s true row may look for it in a copy, by taking the row that fits "
    "best: how often that is right, on average and for the tenth of the rows that are easiest to "
    "find. Whoever finds it also reads what is unchanged in it. Bits at most: what anybody can "
    "learn about a person from the noisy columns, whatever they know; one bit answers one question "
    "with yes or no. A coalition’s figures are those of its best copy."
)
MEASURED = (
    "What stays hidden of each column. Computed: from what registration fixed, for the best "
    "estimate that weighs the blurred values and uses everything else as it likes. Attacked: what "
    "attacks on the copy itself left, which vary by chance around that. Knows people: what one "
    "adversary left who knows how values are distributed among people; no limit, others may "
    "recover more."
)


def identifiability(facts: DossierFacts) -> doc.Section:
    """Return what could be found out: by whom, of which column, of which records."""
    return doc.Section(
        "3 What could be found out",
        [
            *_coalitions(facts),
            *_threats(),
            *_found(facts),
            *_columns(facts),
            _unusual(facts),
            *_audits(facts),
        ],
    )


def _coalitions(facts: DossierFacts) -> Iterator[doc.Part]:
    marks = [("diamond", "what stays hidden"), ("ring", "with ordinary noise instead")]
    yield from (doc.Paragraph(HIDDEN), doc.Paragraph(POOLED), doc.Legend(marks))
    for table in facts.tables:
        drawn = [_drawn(each) for each in table.groups]
        label = facts.titled(table, "What stays hidden from recipients and from coalitions")
        yield doc.Picture(doc.Shares(drawn, label))
        rows = [_group(each) for each in table.groups]
        header = ("who", "best copy alone", "together", "with ordinary noise", *_FIGURES)
        is_open = len(rows) <= MOST_LINES
        yield doc.Fold(facts.titled(table, "The figures"), [doc.DataTable(header, rows)], is_open)


def _threats() -> Iterator[doc.Part]:
    table = doc.DataTable(("who", "what they have", "what is promised"), THREATS)
    yield doc.Fold("From whom, and what stands against it", [table])


def _found(facts: DossierFacts) -> Iterator[doc.Part]:
    """Yield how often a row that somebody knows is found in each copy."""
    yield doc.Paragraph(FOUND)
    for table in facts.tables:
        if any(level.person.found is None for level in table.levels):
            words = "how often rows are found was not measured for this table"
            yield doc.Bullets([facts.titled(table, words)])
            continue
        rows: list[tuple[doc.Content, ...]] = [
            (
                f"privacy {level.privacy:g}",
                named(level.recipients),
                doc.Bar(each.found or 0.0, 1.0, "rows that are found"),
                f"{share(each.low or 0.0)} to {share(each.high or 0.0)}",
                share(each.worst or 0.0),
                share(each.among_ten or 0.0),
            )
            for level in table.levels
            for each in [level.person]
        ]
        header = ("copy", "who has it", "found", "95% interval", "easiest tenth", "among ten")
        title = facts.titled(table, "Looking for the row of a person who is known")
        yield doc.Fold(title, [doc.DataTable(header, rows)])


def most_bits(person: PersonRisk) -> float:
    """Return the bits of a person, who may be a row."""
    return person.bits if person.person_bits is None else person.person_bits


def _columns(facts: DossierFacts) -> Iterator[doc.Part]:
    yield doc.Paragraph(MEASURED)
    for table in facts.tables:
        for level in table.levels:
            title = f"Column by column, at privacy {level.privacy:g}: {named(level.recipients)}"
            columns = doc.DataTable(_COLUMN_HEADER, [_column(each) for each in level.columns])
            is_open = len(table.levels) * len(level.columns) <= 2 * MOST_LINES
            yield doc.Fold(facts.titled(table, title), [columns], is_open)


def _unusual(facts: DossierFacts) -> doc.Part:
    rows = [
        (
            facts.titled(table, f"privacy {level.privacy:g}"),
            named(level.recipients),
            NONE if level.stand_out is None else f"{level.stand_out:,} of {table.rows:,}",
        )
        for table in facts.tables
        for level in table.levels
    ]
    table = doc.DataTable(("copy", "who has it", "records that stand out"), rows)
    return doc.Fold("Unusual records that the noise does not hide", [table])


def _audits(facts: DossierFacts) -> Iterator[doc.Part]:
    for table in facts.tables:
        found = table.measured
        lines = [found.verdict, *(f"failed: {each}" for each in found.failed)]
        lines += [f"not tested: {each}" for each in found.untested]
        yield doc.Fold(facts.titled(table, "The audit of the copies"), [doc.Bullets(lines)])


def _called(each: Pooling) -> str:
    together = each.everybody and each.number > 1
    return f"everybody together ({each.number})" if together else " + ".join(each.members)


def _drawn(each: Pooling) -> doc.ShareRow:
    name = _called(each)
    if each.hidden is None or each.independent is None:
        return doc.ShareRow(name, words="no figure")
    if each.number == 1:
        return doc.ShareRow(name, diamond=each.hidden, words=percent(each.hidden))
    return doc.ShareRow(
        name,
        diamond=each.hidden,
        ring=each.independent,
        gap=(each.independent, each.hidden),
        words=f"{percent(each.hidden)}, not {percent(each.independent)}",
    )


def _group(each: Pooling) -> tuple[str, ...]:
    shares = (each.alone, each.hidden, each.independent)
    found = NONE if each.person.found is None else share(each.person.found)
    hidden = (NONE if s is None else percent(s) for s in shares)
    return (_called(each), *hidden, found, bits_in_words(most_bits(each.person)))


_FIGURES = ("a known row is found", "bits at most")

_COLUMN_HEADER = (
    "column",
    "computed",
    "attacked",
    "knows people",
    "a value is known to",
    "without any copy",
)


def _column(each: ColumnRisk) -> tuple[str, ...]:
    shares = (each.hidden, each.measured, each.joint)
    known, blind = NONE, NONE
    if each.within is not None and each.within_blind is not None:
        known, blind = (f"±{in_units(v, each.unit)}" for v in (each.within, each.within_blind))
    elif each.right is not None and each.right_blind is not None:
        known, blind = (f"{percent(v)} right" for v in (each.right, each.right_blind))
    return (each.column, *(NONE if s is None else percent(s) for s in shares), known, blind)
