"""The report on a dataset, for its owner or for others.

The report for others is drawn from the copies alone, which have not seen the original.
"""

from collections.abc import Sequence
from pathlib import Path

from cornerwave.documents import _charts as charts
from cornerwave.documents import _document as kit
from cornerwave.documents._answers import result_tables, value_title
from cornerwave.documents._charts import ShareRow
from cornerwave.documents._comparison import (
    MOST_COLUMNS,
    Copies,
    Original,
    copies_of,
    groups,
    look_behind,
)
from cornerwave.documents._distributions import all_tallies, distributions
from cornerwave.documents._levels_page import editions_section
from cornerwave.documents._tallies import most_frequent
from cornerwave.errors import OutputError, discreet
from cornerwave.levels import Level, retention
from cornerwave.outputs import check_place, write_text
from cornerwave.privacy import OF_HISTORY, Coalition
from cornerwave.sources import Progress
from cornerwave.vault import Dataset

ENDINGS = (".html", ".htm")
FOOTER = "This page shows no cell of the table."
MOST_ROWS = 30
"""So many coalitions are drawn; the table has them all."""
MOST_LINES = 12
"""Longer tables open at a click."""


def write_report(
    dataset: Dataset,
    path: str | Path,
    *,
    external: bool = False,
    force: bool = False,
    progress: Progress = lambda rows: None,
) -> Path:
    """Write the report on a dataset, for its owner or, if `external`, for others.

    Raises OutputExists, unless `force`, if there is another file, NoSuchRecipient if no copy has
    been released, and SourceChanged if the table is not the registered one.
    """
    place = Path(path).absolute()
    if not place.name.lower().endswith(ENDINGS):
        raise OutputError(f"{place}: a report is a web page; the file name must end in .html")
    title = f"Copies of {dataset.name}" if external else f"Report on {dataset.name}"
    check_place(place, force=force or kit.is_page(place, title))
    with discreet():
        copies = copies_of(dataset, progress)
        if external:
            text = render_external(dataset.name, copies)
        else:
            text = render_owner(dataset.name, copies, look_behind(dataset, copies))
    write_text(place, text, force=force)
    return place


def render_owner(name: str, copies: Copies, original: Original) -> str:
    """Return the report for the owner."""
    recipients = len({held.recipient for held in original.holdings})
    holders = f"{kit.count(recipients, 'recipient')} {'holds' if recipients == 1 else 'hold'}"
    verdict = (
        f"{holders} copies of {name} at {kit.count(len(copies.levels), 'level')}. Pooled, the "
        "copies reveal no more than the least noisy one: "
        f"{copies.privacy_of(copies.levels[0]):.4g} of the variance stays hidden."
    )
    coalitions = original.coalitions
    names = [_members(each, recipients, "recipients") for each in coalitions]
    parts = [
        _owner_levels(copies, original),
        distributions(copies, original.tally),
        _recovered(coalitions, names, _guesses(coalitions, names), _of_changing(coalitions, names)),
        editions_section(original.editions),
        _estimates(copies, original),
        _outliers(copies, original),
        _against_bayes(copies, original),
        _notes(copies),
    ]
    top = kit.headline(f"Report on {name}", verdict, f"{_size(copies)}; for the owner only")
    return kit.document(f"Report on {name}", [top, kit.contents(parts), *parts], footer=FOOTER)


def render_external(name: str, copies: Copies) -> str:
    """Return the report for others: what the copies themselves tell."""
    levels = copies.levels
    verdict = (
        f"Copies of {name} were released at {kit.count(len(levels), 'level')}. "
        "Pooled copies reveal no more than the least noisy of them alone."
    )
    facts = (
        f"{_size(copies)}; computed from the copies alone, so it tells the holder of the copy at "
        f"{copies.named(levels[0])} nothing new about the original"
    )
    coalitions = [_of_levels(copies, group) for group in groups(levels)]
    names = [_members(each, len(levels), "levels") for each in coalitions]
    parts = [
        _external_levels(copies),
        distributions(copies, None),
        _recovered(coalitions, names, compared=False),
        _estimates(copies, None),
        _notes(copies),
    ]
    top = kit.headline(f"Copies of {name}", verdict, facts)
    return kit.document(f"Copies of {name}", [top, kit.contents(parts), *parts], footer=FOOTER)


def _of_levels(copies: Copies, levels: Sequence[Level]) -> Coalition:
    """Return what the holders of copies at some levels can recover, as the copies promise."""
    best = copies.privacy_of(min(levels))
    members = [(copies.named(level), level) for level in levels]
    return Coalition.of(members, privacy_of=lambda _: best)


def _size(copies: Copies) -> str:
    numbers = kit.count(len(copies.shown.numbers), "numeric column")
    categories = kit.count(len(copies.shown.categories), "category", "categories")
    edition = f"edition {copies.edition}, " if copies.edition > 1 else ""
    return f"{edition}{kit.count(copies.rows, 'row')}, {numbers}, {categories}"


def _owner_levels(copies: Copies, original: Original) -> str:
    words = [
        ", ".join(
            dict.fromkeys(held.recipient for held in original.holdings if held.spec.level == level)
        )
        for level in copies.levels
    ]
    several = len(original.editions) > 1
    rows = [
        (
            held.recipient,
            *_level(held.spec.level, copies),
            *[held.spec.rows] * several,
            held.since[:16].replace("T", " "),
        )
        for held in original.holdings
    ]
    header = ("recipient", *_level_header(copies), *["edition"] * several, "since (UTC)")
    return _levels(copies, words, kit.table(header, rows))


def _external_levels(copies: Copies) -> str:
    words = [f"noise {level.noise:.4g}" for level in copies.levels]
    rows = [_level(level, copies) for level in copies.levels]
    return _levels(copies, words, kit.table(_level_header(copies), rows))


def _level_header(copies: Copies) -> tuple[str, ...]:
    return ("privacy", "noise", *["categories retained"] * bool(copies.categories))


def _level(level: Level, copies: Copies) -> tuple[str, ...]:
    retained = [f"{retention(level.noise):.1%}"] if copies.categories else []
    return (f"{copies.privacy_of(level):.4g}", f"{level.noise:.4g}", *retained)


def _levels(copies: Copies, words: Sequence[str], html: str) -> str:
    rows = [
        ShareRow(
            copies.named(level), dots=[(copies.privacy_of(level), copies.named(level))], words=text
        )
        for level, text in zip(copies.levels, words, strict=True)
    ]
    explained = kit.hint(
        "Privacy is the share of the variance that the best linear estimate from a copy cannot "
        "recover. Noise is a multiple of the table’s own covariance."
        + " A copy retains some cells of each category and redraws the others."
        * bool(copies.categories)
    )
    chart = charts.share_chart(rows, "Released levels by privacy")
    return kit.section("Released levels", explained, chart, html, anchor="levels")


def _recovered(
    coalitions: Sequence[Coalition], names: Sequence[str], *html: str, compared: bool = True
) -> str:
    """Return what coalitions can recover, `compared` with independent noise.

    What that would reveal depends on the table, so a page for others does not show it.
    """
    explained = kit.hint("Share of each column’s variance that stays hidden from some recipients.")
    beside = [
        ("ring", "if each copy had independent noise"),
        ("gap", "what pooling would gain with independent noise"),
    ]
    marks = kit.legend([("diamond", "from their pooled copies"), *beside * compared])
    drawn = list(map(_coalition_row, coalitions, names))
    rows = [
        (name, *map(_share, _shares(each, compared)))
        for each, name in zip(coalitions, names, strict=True)
    ]
    independent = ("pooled, independent noise", "gain, independent noise")
    header = ("coalition", "best copy", "pooled", "gain", *independent * compared)
    chart = charts.share_chart(drawn[:MOST_ROWS], "Variance that stays hidden from coalitions")
    figures = kit.folded("The figures", kit.table(header, rows), is_open=len(rows) <= MOST_LINES)
    title = "What coalitions can recover"
    return kit.section(title, explained, marks, chart, figures, *html, anchor="coalitions")


def _share(share: float | None) -> str:
    return "not bounded" if share is None else f"{max(share, 0.0):.4f}"


def _shares(each: Coalition, compared: bool) -> tuple[float | None, ...]:
    independent = each.independent_privacy, each.independent_gain
    return each.best_privacy, each.joint_privacy, each.gain, *independent * compared


def _coalition_row(each: Coalition, name: str) -> ShareRow:
    pooled, independent = each.joint_privacy, each.independent_privacy
    if pooled is None or independent is None:
        changed = ", ".join(each.unbounded)
        return ShareRow(name, words=f"not bounded: {changed} changed between editions")
    if pooled - independent < 1e-4:
        return ShareRow(name, diamond=pooled, words=f"{pooled:.3f}")
    return ShareRow(
        name,
        diamond=pooled,
        ring=independent,
        gap=(independent, pooled),
        words=f"{pooled:.3f}, not {independent:.3f}",
    )


def _of_changing(coalitions: Sequence[Coalition], names: Sequence[str]) -> str:
    """Return what coalitions leave hidden of rows that changed; nothing if no edition did."""
    rows = [
        (name, *(f"{each.changing[what]:.4f}" for what in OF_HISTORY))
        for each, name in zip(coalitions, names, strict=True)
        if each.changing
    ]
    if not rows:
        return ""
    title = "What numbers leave hidden of rows that changed in every edition"
    shown = kit.table(("coalition", *OF_HISTORY.values()), rows)
    return kit.folded(title, shown, is_open=len(rows) <= MOST_LINES)


def _guesses(coalitions: Sequence[Coalition], names: Sequence[str]) -> str:
    """Return a table of best guesses for each category; of many coalitions without the pairs."""
    header = ("coalition", "no copy", "best copy", "pooled", "independent noise")
    rows: dict[str, list[tuple[str, ...]]] = {}
    many = len(coalitions) > MOST_LINES
    for each, name in zip(coalitions, names, strict=True):
        if many and len(dict(each.members)) == 2:
            continue
        for column, g in each.guesses.items():
            pooled = "not bounded" if g.joint is None else f"{g.joint:.1%}"
            shares = (f"{g.blind:.1%}", f"{g.best:.1%}", pooled, f"{g.independent:.1%}")
            rows.setdefault(column, []).append((name, *shares))
    few = sum(map(len, rows.values())) <= MOST_LINES
    tables = [
        kit.folded(f"How often the best guess of {column} is correct", html, is_open=few)
        for column, lines in sorted(rows.items())
        for html in [kit.table(header, lines)]
    ]
    return "".join(tables)


def _members(each: Coalition, everybody: int, kind: str) -> str:
    names = list(dict.fromkeys(name for name, _ in each.members))
    return f"all {everybody} {kind}" if 2 < len(names) == everybody else " + ".join(names)


def _estimates(copies: Copies, original: Original | None) -> str:
    explained = kit.hint(
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
        copies.named(level): own for level, own in zip(copies.levels, copies.answers, strict=True)
    }
    found = result_tables(answers, original.answers if original else None, values, copies.asked)
    tables = [
        kit.folded(title, kit.table(header, rows), is_open=len(rows) <= MOST_LINES or i == 0)
        for i, (title, header, rows) in enumerate(found)
    ]
    title = "Statistics estimated from the copies"
    return kit.section(title, explained, *tables, anchor="statistics")


def _outliers(copies: Copies, original: Original) -> str:
    explained = kit.hint(
        "Number of values in each column so far out that they stand out in the copy too: "
        "further than any of as many Gaussian values would be expected. A record may be ordinary "
        "in each column and stand out in their combination. Cap or remove such records before "
        "release if they matter; more noise or a transform at registration hides them too."
    )
    exposed = original.seen.exposed
    # all columns of a short table, or those that have any
    pairs = list(zip(original.columns, exposed.columns.T, strict=True))
    varying = [(name, own) for name, own in pairs if name in copies.shown.numbers]
    some = [(name, own) for name, own in varying if own.any() or len(varying) <= MOST_LINES]
    total = [("in combination", exposed.combined), ("in any way", exposed.rows)]
    rows = [(name, *(f"{n:,}" for n in own)) for name, own in (*some, *total)]
    table = kit.table(("column", *map(copies.named, copies.levels)), rows)
    title = "Outliers that the noise does not hide"
    return kit.section(title, explained, table, anchor="outliers")


def _against_bayes(copies: Copies, original: Original) -> str:
    """Return what a joint adversary who knows how rows are distributed left of each column."""
    explained = kit.hint(
        "Share of each column that a joint adversary left who knows how rows are distributed, from "
        "all columns of a copy together, as measured at registration. This is what one attack "
        "recovered, not a bound: others may recover more. Privacy is promised against linear "
        "estimates; a level can be chosen against this adversary instead."
    )
    left = original.left
    rows = [(name, *(f"{own[name]:.3f}" for own in left)) for name in (left[0] if left else {})]
    if not rows:
        return ""
    html = kit.table(("column", *map(copies.named, copies.levels)), rows)
    if len(rows) > MOST_LINES:
        html = kit.folded("The figures", html, is_open=False)
    title = "Against a recipient who knows the distributions"
    return kit.section(title, explained, html, anchor="distributions-known")


def _notes(copies: Copies) -> str:
    lines = [note for answers in copies.answers for note in answers.notes]
    shown = copies.shown
    if copies.ranked:
        names = ", ".join(copies.ranked)
        lines.append(f"perturbed on the rank scale, so no statistics can be estimated: {names}")
    if shown.left_out:
        lines.append(f"not shown (constant, kept or key columns): {', '.join(shown.left_out)}")
    for names_of_kind in (shown.numbers, shown.categories):
        if rest := names_of_kind[MOST_COLUMNS:]:
            lines.append(f"not shown (beyond the first {MOST_COLUMNS}): {', '.join(rest)}")
    lines.append("copies are shown before any rounding or clipping")
    return kit.section("Notes", kit.bullets(dict.fromkeys(lines)), anchor="notes")
