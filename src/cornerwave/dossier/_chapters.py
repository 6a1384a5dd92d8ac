"""The chapters of a dossier, in the order of ISO/IEC 27559 and NIST SP 800-226.

    27559    context, data, identifiability, mitigation, governance
    800-226  who is protected, from whom, by which mechanism and parameters; claims, assumptions

Plain words, then pictures, then tables.
"""

from collections.abc import Iterator

from cornerwave import document as doc
from cornerwave.document import BAD, GOOD, PLAIN, count, percent
from cornerwave.dossier._facts import (
    AS_IT_IS,
    NOISE,
    ColumnFacts,
    CopyHeld,
    DossierFacts,
    LevelRisk,
    Permission,
)
from cornerwave.dossier._identified import MOST_LINES, NONE, identifiability
from cornerwave.dossier._plain_words import answers, named, recipients_of
from cornerwave.dossier._promises import promises_of
from cornerwave.ledger import day_of

ASSUMED = (
    "The key is secret, and there is a backup of it.",
    "All copies of the table come from this vault. The vault refuses a table that holds values of "
    "another one, as far as it recognises them.",
    "The machines that make copies are trusted like the owner.",
    "The figures are averages over all rows of the table: single people can be hidden better or "
    "less well.",
)
CHECKS = (
    ("is this document as it was signed? (without vault and table)", "check and public-key"),
    ("do all its figures still hold? (with vault and table)", "check"),
    ("the public key, to be handed over by another way", "public-key"),
)
UNSTATED = "not stated"
NOT_PROMISED = (
    "Averages, and how columns go together: copies are made to show them.",
    "People far from all others, alone or by a combination of columns: the noise has the size of "
    "the population's spread.",
    "A rare value of a category is kept as often as any other, and points to the few who have it.",
    "Names of columns, descriptions and the labels of categories leave as they are.",
    "Columns released unchanged, and whatever can be looked up by them elsewhere.",
    "Values of rows that change again and again: docs/editions.md has the figures.",
    "Differential privacy: no epsilon is claimed, since the noise is shaped by the table itself.",
    "What recipients do: that they keep their copy safe and delete it is for the contract.",
)


def chapters(facts: DossierFacts) -> list[doc.Section]:
    """Return the chapters of a dossier."""
    return [
        doc.Section("Questions and answers", answers(facts)),
        _context(facts),
        _data(facts),
        identifiability(facts),
        _mitigation(facts),
        _assumptions(facts),
        _utility(facts),
        _governance(facts),
        _checking(facts),
    ]


def verdict(facts: DossierFacts) -> tuple[str, str]:
    """Return the verdict of a dossier in two sentences, and of which kind it is."""
    measured = [table.measured for table in facts.tables]
    failed = sum(len(each.failed) + each.gained for each in measured)
    who = f"{count(facts.holders, 'recipient')} {'holds' if facts.holders == 1 else 'hold'}"
    if facts.least is None:
        words = f"{who} copies of {facts.name}. For all of them together no figure can be given."
    else:
        words = (
            f"{who} copies of {facts.name}. Even all together they leave {percent(facts.least)} of "
            "what distinguishes people hidden, in every column: as much as the best copy alone."
        )
    if failed:
        return f"{words} Attacks on the copies found faults: see section 3.", BAD
    clean = all(each.clean for each in measured) and facts.least is not None
    return words, GOOD if clean else PLAIN


# --------------------------------------------------------------------------------------------------
# 1, 2: context and data


def _context(facts: DossierFacts) -> doc.Section:
    several = len(facts.tables) > 1
    parts: list[doc.Part] = [
        doc.Paragraph(
            "What was released, to whom, why and until when. Privacy is the share that stays "
            "hidden, of the column of which least is. Times are in UTC."
        )
    ]
    drawn = [_recipient(each, facts) for each in recipients_of(facts)]
    parts.append(doc.Picture(doc.Shares(drawn, "Who has which copy")))
    header = (
        "recipient",
        *["table"] * several,
        "privacy",
        "what for",
        "contract",
        "until",
        "since",
    )
    copies = [_copy(each, several, facts) for each in facts.copies]
    table = doc.DataTable(header, copies)
    parts.append(doc.Fold("Copies that recipients hold", [table]))
    may = [_permission(each, several) for each in facts.permissions]
    if may:
        head = (
            "recipient",
            *["table"] * several,
            "privacy",
            "state",
            "what for",
            "contract",
            "until",
        )
        parts.append(
            doc.Fold(
                "What recipients may fetch from the service",
                [doc.DataTable(head, may)],
                len(may) <= MOST_LINES,
            )
        )
    return doc.Section("1 Context: who has what, why and until when", parts)


def _recipient(name: str, facts: DossierFacts) -> doc.ShareRow:
    """Return the line of a recipient in the picture: a dot for each privacy of their copies."""
    shares = sorted({each.privacy for each in facts.copies if each.recipient == name})
    words = ", ".join(f"{share:g}" for share in shares)
    return doc.ShareRow(name, dots=[(s, f"privacy {s:g}") for s in shares], words=words)


def _copy(each: CopyHeld, several: bool, facts: DossierFacts) -> list[doc.Content]:
    over = each.until is not None and each.until <= facts.made_at
    until = doc.MarkedCell(day_of(each.until), "has passed", BAD) if over else _stated(each.until)
    rows = f", state {each.edition}" if max(t.editions for t in facts.tables) > 1 else ""
    return [
        each.recipient,
        *[each.table] * several,
        f"{each.privacy:g}",
        each.purpose or UNSTATED,
        each.contract or UNSTATED,
        until,
        f"{each.since[:16].replace('T', ' ')}{rows}",
    ]


def _stated(time: str | None) -> str:
    return day_of(time) if time else UNSTATED


def _permission(each: Permission, several: bool) -> list[doc.Content]:
    return [
        each.recipient,
        *[each.table] * several,
        f"{each.privacy:g}",
        each.state,
        each.purpose or UNSTATED,
        each.contract or UNSTATED,
        _stated(each.until),
    ]


def _data(facts: DossierFacts) -> doc.Section:
    parts: list[doc.Part] = [
        doc.Paragraph(
            "What the table has, and what happens to each column. Noise blurs a number; a category "
            "is partly redrawn: some cells keep their value and the others get one by chance."
        )
    ]
    for table in facts.tables:
        unit = " and ".join(table.unit)
        lines = [
            f"{table.rows:,} rows, registered {table.registered_at[:10]}"
            + (f", {table.editions} states since" if table.editions > 1 else ""),
            f"rows of one {unit} belong to one person and are hidden together"
            if unit
            else "each row is taken for one person"
            + (", as the owner states" if table.independent_rows else ""),
            *table.persons,
            *([f"closed since {table.closed[:10]}: nothing more is released"] * bool(table.closed)),
        ]
        rows: list[tuple[doc.Content, ...]] = [
            (
                each.name,
                each.type,
                doc.MarkedCell(each.what, kind="bad" if each.what == AS_IT_IS else ""),
                _scale(each),
                each.gaps or "none",
                *([each.means or NONE] if any(c.means for c in table.columns) else []),
            )
            for each in table.columns
        ]
        header = ["column", "type", "what happens", "scale", "missing values"]
        header += ["what it means"] * any(c.means for c in table.columns)
        parts.append(doc.Bullets(lines))
        shown = doc.DataTable(header, rows)
        is_open = len(rows) <= 2 * MOST_LINES
        parts.append(doc.Fold(facts.titled(table, "Columns"), [shown], is_open))
    return doc.Section("2 The data", parts)


def _scale(each: ColumnFacts) -> str:
    """Return the scale that a number gets its noise on."""
    if each.what != NOISE:
        return ""
    return {None: "its own", "rank": "ranks", "log1p": "logarithm"}.get(each.scale) or "its own"


# --------------------------------------------------------------------------------------------------
# 4 to 6: mitigation, assumptions, utility


def _mitigation(facts: DossierFacts) -> doc.Section:
    promises = promises_of(facts)
    rows = [(each["promise"], each["kind"], each["figure"]) for each in promises]
    proofs: list[tuple[doc.Content, ...]] = [
        (each["proof"], doc.MarkedCell(each["test"], each["control"])) for each in promises
    ]
    levels = [
        (
            facts.titled(table, f"privacy {level.privacy:g}"),
            f"{level.noise:.4g}",
            named(level.recipients),
        )
        for table in facts.tables
        for level in table.levels
    ]
    return doc.Section(
        "4 What protects it: each promise with its proof, its test and its figure",
        [
            doc.Paragraph(
                "All copies of a table read one secret path of noise: one with more noise is one "
                "with less noise and some more on top. So the better copy makes the others "
                "worthless to somebody who has both. The noise is AES-256 under a key of 256 "
                "random bits. Proved is a theorem about how copies are made, estimated a figure "
                "that is measured in the table and has an error, tested a statement about the "
                "programs. Proofs, tests and code are public."
            ),
            doc.DataTable(("promise", "how it is known", "figure for this dataset"), rows),
            doc.Fold(
                "Where the proofs and the tests are, in this order",
                [
                    doc.DataTable(
                        ("proof", "test, and below it a wrong version that it must notice"), proofs
                    )
                ],
            ),
            doc.Fold(
                "Parameters",
                [
                    doc.Paragraph(
                        "Noise is a multiple of how much the values of a column vary, and follows "
                        "how columns go together, so that it cannot be filtered out."
                    ),
                    doc.DataTable(("copy", "noise", "who has it"), levels),
                ],
            ),
        ],
    )


def _assumptions(facts: DossierFacts) -> doc.Section:
    return doc.Section(
        "5 Assumptions, and what is not promised",
        [
            doc.Fold("What this rests on", [doc.Bullets([*ASSUMED, *_assumed_here(facts)])]),
            doc.Fold("What is not promised", [doc.Bullets([*NOT_PROMISED, *_not_here(facts)])]),
        ],
    )


def _assumed_here(facts: DossierFacts) -> Iterator[str]:
    for table in facts.tables:
        if table.unit:
            yield f"{table.name}: rows of one {' and '.join(table.unit)} are all rows of a person."
        elif table.independent_rows:
            yield f"{table.name}: no two rows belong to one person. The owner states this."
        else:
            yield f"{table.name}: no two rows belong to one person. None were found to."
        if table.order == "keep":
            yield f"{table.name}: the order of the rows reveals nothing. The owner keeps it."
        if table.unrelated:
            yield (
                f"{table.name}: {count(table.unrelated, 'other table')} of the vault, declared "
                "unrelated by the owner or linked with it, was not compared with it."
            )


def _not_here(facts: DossierFacts) -> Iterator[str]:
    for table in facts.tables:
        for level in table.levels[:1]:
            less = [
                c.column for c in level.columns if c.joint is not None and c.joint < 0.8 * c.hidden
            ]
            if less:
                yield (
                    f"{table.name}: somebody who knows how values are distributed recovered "
                    f"clearly more than the stated share of {named(less)} (section 3)."
                )
        if table.measured.unseen:
            yield (
                f"{table.name}: the audit could not have seen some faults in a table of this size: "
                f"{'; '.join(table.measured.unseen)}."
            )


def _utility(facts: DossierFacts) -> doc.Section:
    rows = [
        (
            facts.titled(table, f"privacy {level.privacy:g}"),
            named(level.recipients),
            f"{level.mean_error:.2f}",
            f"{level.regression_error:.2f}",
        )
        for table in facts.tables
        for level in table.levels
    ]
    header = ("copy", "who has it", "average", "relation of two columns")
    return doc.Section(
        "6 What stays useful",
        [
            doc.Paragraph(
                "How much more uncertain a result from a copy is than the same from the original: "
                "2 means that four times as many rows would be needed for the same certainty. "
                "Results are not shifted to one side. docs/miner.md lists what can be computed."
            ),
            *_cost_curve(facts),
            doc.DataTable(header, rows),
        ],
    )


def _cost_curve(facts: DossierFacts) -> Iterator[doc.Part]:
    """Yield the picture of what each copy costs, if there are several."""
    levels: dict[float, LevelRisk] = {}
    for table in facts.tables:
        for level in table.levels:
            levels.setdefault(level.privacy, level)
    if len(levels) > 1:
        lines = {
            "average": [(p, each.mean_error) for p, each in sorted(levels.items())],
            "relation": [(p, each.regression_error) for p, each in sorted(levels.items())],
        }
        yield doc.Picture(doc.Curves(lines, "What a recipient pays, by privacy", "privacy"))


# --------------------------------------------------------------------------------------------------
# 7, 8: governance, and how to check


def _governance(facts: DossierFacts) -> doc.Section:
    roles = ", ".join(count(number, role) for role, number in facts.roles.items())
    second = facts.second_person_below
    lines = [
        f"Who may act in the vault: {roles}.",
        "Second person: "
        + (f"for what is below privacy {second:g}." if second is not None else "not required."),
        "Every release is a line of the ledger before its first byte leaves; each line vouches for "
        "all before it.",
        "Access ends at its stated end, or by cornerwave revoke; a recipient as a whole by "
        "cornerwave recipient remove. The service checks this for each request and while it sends.",
        "Who fetched what and when: cornerwave log. What owners did stands in the ledger.",
        "The key is in one file that only its owner can read. Without it no copy can be made "
        "again; with it the noise of every copy can be removed.",
    ]
    heads = [(name or "the vault itself", head) for name, head in facts.heads.items()]
    return doc.Section(
        "7 Governance",
        [
            doc.Bullets(lines),
            doc.Fold(
                "The ledger's heads when this was made",
                [
                    doc.Paragraph(
                        "The head of a chain changes with every line. If one of these is no longer "
                        "part of the ledger, an older state was restored, or lines are missing: "
                        "cornerwave ledger with the option since checks it."
                    ),
                    doc.DataTable(("chain", "head"), heads),
                ],
            ),
        ],
    )


def _checking(facts: DossierFacts) -> doc.Section:
    rows = [*facts.versions.items(), ("key of the signature", facts.key)]
    return doc.Section(
        "8 How to check this document",
        [
            doc.Paragraph(
                "This page carries its figures as data for programs, with a signature (Ed25519) "
                "over them and over every word of the page. The same state of the ledger gives the "
                "same document, byte for byte, but for its time."
            ),
            doc.DataTable(("to find out", "cornerwave dossier, with the options"), CHECKS),
            doc.DataTable(("made with", "version"), rows),
            doc.Paragraph(
                "The chapters follow ISO/IEC 27559:2022 (context, data, identifiability, "
                "mitigation, governance); claims, parameters, assumptions and threats are stated "
                "as NIST SP 800-226 asks for. That is an order of contents, not a certificate."
            ),
        ],
    )
