"""The report on a dataset, for its owner or for others.

The report for others is drawn from the copies alone, which have not seen the original.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cornerwave import document as doc
from cornerwave.columns import chosen_in, listed
from cornerwave.document import GOOD, count
from cornerwave.documents import is_page, page
from cornerwave.errors import OutputError, discreet
from cornerwave.levels import Level, retention, worth
from cornerwave.outlook import consider_section, editions_section, found_out_section
from cornerwave.outputs import check_place, write_text
from cornerwave.privacy import Coalition, coalition_parts
from cornerwave.report._answers import result_tables, value_title
from cornerwave.report._comparison import (
    MOST_COLUMNS,
    Copies,
    Original,
    copies_of,
    groups,
    look_behind,
    most_frequent,
)
from cornerwave.report._distributions import all_tallies, distributions
from cornerwave.risks import risks_section
from cornerwave.sources import Progress
from cornerwave.vault import Dataset, LinkedDataset

ENDINGS = (".html", ".htm")
RECOVERED = "What coalitions can recover"
FOOTER = "This page shows no cell of the table."
LINKED = (
    "A person has one noise in all of them: pooled, copies of all tables reveal no more than the "
    "least noisy ones."
)
MOST_LINES = 12
"""Longer tables open at a click."""
MOST_HOLDINGS = 1_000
"""So many holdings are on the page."""


def write_report(
    dataset: Dataset | LinkedDataset,
    path: str | Path,
    *,
    external: bool = False,
    force: bool = False,
    progress: Progress = lambda rows: None,
) -> Path:
    """Write the report on a dataset, for its owner or, if `external`, for others.

    That on linked tables has the sections of each.
    Raises OutputExists, unless `force`, if there is another file, NoSuchRecipient if no copy has
    been released, and SourceChanged if the table is not the registered one.
    """
    place = Path(path).absolute()
    if not place.name.lower().endswith(ENDINGS):
        raise OutputError(f"{place}: a report is a web page; the file name must end in .html")
    title = f"Copies of {dataset.name}" if external else f"Report on {dataset.name}"
    check_place(place, force=force or is_page(place, title))
    if isinstance(dataset, LinkedDataset):
        documents = {
            name: report_document(each, external=external, progress=progress)
            for name, each in dataset.tables.items()
        }
        verdict = f"{count(len(documents), 'linked table')}. {LINKED}"
        document = doc.of_tables(title, verdict, documents)
    else:
        document = report_document(dataset, external=external, progress=progress)
    write_text(place, page(document), force=force)
    return place


def report_document(
    dataset: Dataset, *, external: bool = False, progress: Progress = lambda rows: None
) -> doc.Document:
    """Return the report as a document. Raises as `write_report` does."""
    with discreet():
        copies = copies_of(dataset, progress)
        if external:
            document = external_document(dataset.name, copies)
        else:
            document = owner_document(dataset.name, copies, look_behind(dataset, copies))
            document = _with_risks(document, dataset, copies)
    *sections, notes = document.sections
    return replace(document, sections=(*sections, *_meanings(dataset), notes))


def _with_risks(document: doc.Document, dataset: Dataset, copies: Copies) -> doc.Document:
    """Return the report with what copies tell about a person, after the released levels."""
    told = {
        copies.named(level): (copies.privacy_of(level), dataset.risks_at(level))
        for level in copies.levels
    }
    first, *others = document.sections
    return replace(document, sections=(first, risks_section("copy", told), *others))


def _meanings(dataset: Dataset) -> list[doc.Section]:
    """Return what the owner states that columns mean: their copies state it too."""
    stated = chosen_in(dataset.frozen.schema)
    rows = [(stated.name_of(name), text) for name, text in stated.descriptions.items()]
    table = doc.DataTable(("column", "what it means"), rows)
    return [doc.Section("What columns mean", [table])] if rows else []


def owner_document(name: str, copies: Copies, original: Original) -> doc.Document:
    """Return the report for the owner."""
    recipients = len({held.recipient for held in original.holdings})
    holders = f"{count(recipients, 'recipient')} {'holds' if recipients == 1 else 'hold'}"
    coalitions = original.coalitions
    names = [_members(each, recipients, "recipients", original.alike) for each in coalitions]
    return doc.Document(
        title=f"Report on {name}",
        verdict=f"{holders} copies of {name} at {count(len(copies.levels), 'level')}. Pooled, the "
        "copies reveal no more than the least noisy one: "
        f"{copies.privacy_of(copies.levels[0]):.4g} of the variance stays hidden.",
        facts=f"{_size(copies)}; for the owner only",
        kind=GOOD,
        sections=(
            _owner_levels(copies, original),
            found_out_section(original.outlooks),
            *consider_section(original.advice, figures=True),
            distributions(copies, original.tally),
            doc.Section(RECOVERED, coalition_parts(coalitions, names)),
            *editions_section(original.editions),
            _estimates(copies, original),
            _outliers(copies, original),
            *_against_bayes(copies, original),
            _notes(copies),
        ),
        footer=FOOTER,
        contents=True,
    )


def external_document(name: str, copies: Copies) -> doc.Document:
    """Return the report for others: what the copies themselves reveal."""
    levels = copies.levels
    coalitions = [_of_levels(copies, group) for group in groups(levels)]
    names = [_members(each, len(levels), "levels") for each in coalitions]
    return doc.Document(
        title=f"Copies of {name}",
        verdict=f"Copies of {name} were released at {count(len(levels), 'level')}. "
        "Pooled copies reveal no more than the least noisy of them alone.",
        facts=f"{_size(copies)}; computed from the copies alone, so it reveals nothing new about "
        f"the original to the holder of the copy at {copies.named(levels[0])}",
        kind=GOOD,
        sections=(
            _external_levels(copies),
            distributions(copies, None),
            doc.Section(RECOVERED, coalition_parts(coalitions, names, compared=False)),
            _estimates(copies, None),
            _notes(copies),
        ),
        footer=FOOTER,
        contents=True,
    )


def _of_levels(copies: Copies, levels: Sequence[Level]) -> Coalition:
    """Return what the holders of copies at some levels can recover, as the copies promise."""
    best = copies.privacy_of(min(levels))
    members = [(copies.named(level), level) for level in levels]
    return Coalition.of(members, privacy_of=lambda _: best)


def _size(copies: Copies) -> str:
    numbers = count(len(copies.shown.numbers), "numeric column")
    categories = count(len(copies.shown.categories), "category", "categories")
    edition = f"edition {copies.edition}, " if copies.edition > 1 else ""
    return f"{edition}{count(copies.rows, 'row')}, {numbers}, {categories}"


def _owner_levels(copies: Copies, original: Original) -> doc.Section:
    names: dict[float, dict[str, None]] = {level.noise: {} for level in copies.levels}
    for held in original.holdings:
        names[held.spec.level.noise][held.recipient] = None
    words = [listed(list(found), str) for found in names.values()]
    several = len(original.editions) > 1
    rows = [
        (
            held.recipient,
            f"{copies.privacy_of(held.spec.level):.4g}",
            f"{worth(held.spec.level.noise):.0%}",
            *[held.spec.rows] * several,
            held.since[:16].replace("T", " "),
        )
        for held in original.holdings[:MOST_HOLDINGS]
    ]
    header = ("recipient", *_level_header(), *["edition"] * several, "since (UTC)")
    section = _levels(copies, words, doc.DataTable(header, rows))
    if len(original.holdings) <= MOST_HOLDINGS:
        return section
    note = doc.Paragraph(
        f"The {MOST_HOLDINGS:,} holdings with the least noise, of {len(original.holdings):,}; the "
        "ledger lists all."
    )
    return replace(section, parts=(*section.parts, note))


def _external_levels(copies: Copies) -> doc.Section:
    shares = [f"{worth(level.noise):.0%}" for level in copies.levels]
    words = [f"a mean as from {share} of the rows" for share in shares]
    privacies = [f"{copies.privacy_of(level):.4g}" for level in copies.levels]
    rows = list(zip(privacies, shares, strict=True))
    return _levels(copies, words, doc.DataTable(_level_header(), rows))


def _level_header() -> tuple[str, str]:
    return ("privacy", "rows for a mean")


def _figures(copies: Copies) -> doc.Fold:
    """Return the noise of each level, and which share of cells it retains."""
    explained = doc.Paragraph(
        "Privacy is the share of the variance that the best linear estimate from a copy cannot "
        "recover. Noise is a multiple of the table’s own covariance."
        + " A copy retains some cells of each category and redraws the others."
        * bool(copies.categories)
    )
    rows = [
        (
            f"{copies.privacy_of(level):.4g}",
            f"{level.noise:.4g}",
            *[f"{retention(level.noise):.1%}"] * bool(copies.categories),
        )
        for level in copies.levels
    ]
    header = ("privacy", "noise", *["categories retained"] * bool(copies.categories))
    return doc.Fold("Figures", [explained, doc.DataTable(header, rows)], is_open=False)


def _levels(copies: Copies, words: Sequence[str], table: doc.DataTable) -> doc.Section:
    rows = [
        doc.ShareRow(
            copies.named(level), dots=[(copies.privacy_of(level), copies.named(level))], words=text
        )
        for level, text in zip(copies.levels, words, strict=True)
    ]
    explained = doc.Paragraph(
        "Left is known, right is hidden: the share of every column that the best linear estimate "
        "from a copy leaves. Rows for a mean: from how many of the original’s rows a mean would be "
        "as precise as from the copy."
    )
    chart = doc.Picture(doc.Shares(rows, "Released levels by privacy"))
    return doc.Section("Released levels", [explained, chart, table, _figures(copies)])


def _members(
    each: Coalition, everybody: int, kind: str, alike: Mapping[str, int] | None = None
) -> str:
    names = list(dict.fromkeys(name for name, _ in each.members))
    if len(names) == 1 and (n := (alike or {}).get(names[0], 1)) > 1:
        return f"{names[0]}, or any of {n - 1:,} who {'holds' if n == 2 else 'hold'} the same"
    return f"all {everybody} {kind}" if 2 < len(names) == everybody else " + ".join(names)


def _estimates(copies: Copies, original: Original | None) -> doc.Section:
    explained = doc.Paragraph(
        "Unbiased estimates of the original’s statistics from each copy, with the standard error "
        "due to the noise."
    )
    tallies = all_tallies(copies, original.tally if original else None)
    values = [
        value_title(column.name, copies.labels[column.name][place].as_py())
        for column in copies.categories
        for place in most_frequent(tallies, column.name)
    ]
    answers = {
        copies.named(level): each for level, each in zip(copies.levels, copies.answers, strict=True)
    }
    tables = result_tables(answers, original.answers if original else None, values, copies.asked)
    folds = [
        doc.Fold(each.title, [replace(each, title="")], len(each.rows) <= MOST_LINES or i == 0)
        for i, each in enumerate(tables)
    ]
    return doc.Section("Statistics estimated from the copies", [explained, *folds])


def _outliers(copies: Copies, original: Original) -> doc.Section:
    explained = doc.Paragraph(
        "Number of values in each column so far out that they are recognised in the copy too: "
        "further than any of as many Gaussian values would be expected. A record may be ordinary "
        "in each column and stand out in their combination. Cap or remove such records before "
        "release if they matter; more noise or a transform at registration hides them too."
    )
    exposed = original.exposed
    # all columns of a short table, or those that have any
    pairs = list(zip(original.columns, exposed.columns.T, strict=True))
    varying = [(name, held) for name, held in pairs if name in copies.shown.numbers]
    some = [(name, held) for name, held in varying if held.any() or len(varying) <= MOST_LINES]
    total = [("in combination", exposed.combined), ("in any way", exposed.rows)]
    rows = [(name, *(f"{n:,}" for n in held)) for name, held in (*some, *total)]
    table = doc.DataTable(("column", *map(copies.named, copies.levels)), rows)
    return doc.Section("Outliers that the noise does not hide", [explained, table])


def _against_bayes(copies: Copies, original: Original) -> list[doc.Section]:
    """Return what a joint adversary who knows how rows are distributed left of each column."""
    explained = doc.Paragraph(
        "Share of each column that a joint adversary left who knows how rows are distributed, from "
        "all columns of a copy together, as measured at registration. This is what one attack "
        "recovered, not a bound: others may recover more. Privacy is promised against linear "
        "estimates; a level can be chosen against this adversary instead."
    )
    left = original.left
    rows = [(name, *(f"{each[name]:.3f}" for each in left)) for name in (left[0] if left else {})]
    if not rows:
        return []
    table: doc.Part = doc.DataTable(("column", *map(copies.named, copies.levels)), rows)
    if len(rows) > MOST_LINES:
        table = doc.Fold("The figures", [table], is_open=False)
    return [doc.Section("Against a recipient who knows the distributions", [explained, table])]


def _notes(copies: Copies) -> doc.Section:
    lines = [note for answers in copies.answers for note in answers.notes]
    shown = copies.shown
    if copies.ranked:
        names = ", ".join(copies.ranked)
        lines.append(
            f"on the scale of ranks, so not among the statistics above: {names}; the miner "
            "estimates their means and distributions"
        )
    if shown.left_out:
        names = ", ".join(shown.left_out)
        lines.append(f"not shown (constant, kept, derived, key or unit columns): {names}")
    for names_of_kind in (shown.numbers, shown.categories):
        if rest := names_of_kind[MOST_COLUMNS:]:
            lines.append(f"not shown (beyond the first {MOST_COLUMNS}): {', '.join(rest)}")
    lines.append("copies are shown before any rounding or clipping")
    return doc.Section("Notes", [doc.Bullets(list(dict.fromkeys(lines)))])
