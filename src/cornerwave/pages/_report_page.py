"""The report on a dataset, for its owner or for others.

The report for others is drawn from the copies alone, which have not seen the original.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.coalition import Coalition
from cornerwave.dataset import Dataset
from cornerwave.errors import OutputError, discreet
from cornerwave.levels import Level, retention
from cornerwave.pages import _charts as charts
from cornerwave.pages import _document as kit
from cornerwave.pages._answers import result_tables, value_title
from cornerwave.pages._canvas import shortened
from cornerwave.pages._charts import Panel, ShareRow
from cornerwave.pages._comparison import (
    MOST_COLUMNS,
    Copies,
    Original,
    copies_of,
    groups,
    look_behind,
    title_of,
)
from cornerwave.pages._tallies import FEW, Tally, most_frequent, pooled
from cornerwave.table import Progress, check_place, write_text

ENDINGS = (".html", ".htm")
FOOTER = "This page shows no cell of the table."
NAME_LETTERS, WORD_LETTERS = 25, 19
"""What fits on the left and on the right of a share chart."""
MOST_ROWS = 30
"""So many coalitions are drawn; the table has them all."""


def write_report(
    dataset: Dataset,
    path: str | Path,
    *,
    external: bool = False,
    force: bool = False,
    progress: Progress = lambda rows: None,
) -> Path:
    """Write the report on a dataset, for its owner or, if `external`, for others.

    Raises OutputExists unless `force`, NoSuchRecipient if no copy has been released, and
    SourceChanged if the table is not the registered one.
    """
    place = Path(path).absolute()
    if not place.name.lower().endswith(ENDINGS):
        raise OutputError(f"{place}: a report is a web page; the file name must end in .html")
    check_place(place, force=force)
    with discreet():
        copies = copies_of(dataset, progress)
        if external:
            text = render_external(dataset.name, copies)
        else:
            text = render_owner(dataset.name, copies, look_behind(dataset, copies))
    write_text(place, text)
    return place


def render_owner(name: str, copies: Copies, original: Original) -> str:
    """Return the report for the owner."""
    recipients = len({recipient for recipient, _, _ in original.holdings})
    holders = f"{kit.count(recipients, 'recipient')} {'holds' if recipients == 1 else 'hold'}"
    verdict = (
        f"{holders} copies of {name} at {kit.count(len(copies.levels), 'level')}. Pooled, the "
        "copies reveal no more than the least noisy one: "
        f"{copies.levels[0].privacy:.4g} of the variance stays hidden."
    )
    coalitions = original.coalitions
    names = [_members(each, recipients, "recipients") for each in coalitions]
    parts = [
        kit.headline(f"Report on {name}", verdict, f"{_size(copies)}; for the owner only"),
        _owner_levels(copies, original),
        _distributions(copies, original.tally),
        _recovered(coalitions, names, _guesses(coalitions, names)),
        _estimates(copies, original),
        _outliers(copies, original),
        _against_bayes(copies, original),
        _notes(copies),
    ]
    return kit.document(f"Report on {name}", parts, footer=FOOTER)


def render_external(name: str, copies: Copies) -> str:
    """Return the report for others: what the copies themselves tell."""
    levels = copies.levels
    verdict = (
        f"Copies of {name} were released at {kit.count(len(levels), 'level')}. "
        "Pooled copies reveal no more than the least noisy of them alone."
    )
    facts = (
        f"{_size(copies)}; computed from the copies alone, so it tells the holder of the copy at "
        f"{named(levels[0])} nothing new about the original"
    )
    coalitions = [Coalition.of([(named(one), one) for one in group]) for group in groups(levels)]
    names = [_members(each, len(levels), "levels") for each in coalitions]
    parts = [
        kit.headline(f"Copies of {name}", verdict, facts),
        _external_levels(copies),
        _distributions(copies, None),
        _recovered(coalitions, names),
        _estimates(copies, None),
        _notes(copies),
    ]
    return kit.document(f"Copies of {name}", parts, footer=FOOTER)


def named(level: Level) -> str:
    """Return what a level is called on the page."""
    return f"privacy {level.privacy:.4g}"


def _size(copies: Copies) -> str:
    numbers = kit.count(len(copies.shown.numbers), "numeric column")
    categories = kit.count(len(copies.shown.categories), "category", "categories")
    return f"{kit.count(copies.rows, 'row')}, {numbers}, {categories}"


def _owner_levels(copies: Copies, original: Original) -> str:
    words = []
    for level in copies.levels:
        names = [recipient for recipient, held, _ in original.holdings if held == level]
        fits = len(names) == 1 or len(", ".join(names)) <= WORD_LETTERS
        words.append(", ".join(names) if fits else f"{len(names)} recipients")
    rows = [
        (recipient, *_level(level, copies), since[:16].replace("T", " "))
        for recipient, level, since in original.holdings
    ]
    header = ("recipient", *_level_header(copies), "since (UTC)")
    return _levels(copies, words, kit.table(header, rows))


def _external_levels(copies: Copies) -> str:
    words = [f"noise {level.noise:.4g}" for level in copies.levels]
    rows = [_level(level, copies) for level in copies.levels]
    return _levels(copies, words, kit.table(_level_header(copies), rows))


def _level_header(copies: Copies) -> tuple[str, ...]:
    return ("privacy", "noise", *["categories retained"] * bool(copies.categories))


def _level(level: Level, copies: Copies) -> tuple[str, ...]:
    retained = [f"{retention(level.noise):.1%}"] if copies.categories else []
    return (f"{level.privacy:.4g}", f"{level.noise:.4g}", *retained)


def _levels(copies: Copies, words: Sequence[str], html: str) -> str:
    rows = [
        ShareRow(named(level), dots=[(level.privacy, named(level))], words=text)
        for level, text in zip(copies.levels, words, strict=True)
    ]
    explained = kit.hint(
        "Privacy is the share of the variance that the best linear estimate from a copy cannot "
        "recover. Noise is a multiple of the table’s own covariance."
        + " A copy retains some cells of each category and redraws the others."
        * bool(copies.categories)
    )
    chart = charts.share_chart(rows, "Released levels by privacy")
    return kit.section("Released levels", explained, kit.scrolling(chart), html)


def _distributions(copies: Copies, original: Tally | None) -> str:
    marks = [("original", "original"), ("copy", "copy"), ("outline", "original, over a copy")]
    explained = kit.hint(
        "Share of the rows, in the same bins and to the same height in every panel. Missing "
        f"values and values beyond the axis are not shown. Neighbouring bins with fewer than {FEW} "
        "rows are drawn as one, at their mean height."
    )
    tallies = _tallies(copies, original)
    parts = [_histogram(copies, original, name) for name in copies.axes]
    parts += [_bars(copies, original, column.name, tallies) for column in copies.categories]
    return kit.section(
        "Distribution of each column", explained, kit.legend(marks) if original else "", *parts
    )


def _histogram(copies: Copies, original: Tally | None, name: str) -> str:
    column, axis = copies.axes[name]
    title = title_of(column)
    panels = _panels(copies, original, lambda tally: pooled(tally.numbers[name]))
    unit = copies.shown.units.get(name)
    chart = charts.histograms(panels, axis, unit, f"Histograms of {title}")
    return kit.subsection(title, kit.scrolling(chart))


def _bars(copies: Copies, original: Tally | None, name: str, tallies: Sequence[Tally]) -> str:
    places = most_frequent(tallies, name)
    if not places:
        return kit.subsection(name, kit.hint("No value is frequent enough to be shown."))
    labels = [copies.labels[name][place].as_py() for place in places]
    names = ["missing" if label is None else str(label) for label in labels]
    rest = any(tally.labels[name][places].sum() < tally.rows for tally in tallies)

    def counts(tally: Tally) -> Ints:
        shown = tally.labels[name][places]
        return np.append(shown, tally.rows - shown.sum()) if rest else shown

    panels = _panels(copies, original, counts)
    chart = charts.bars(panels, [*names, *["other or missing"] * rest], f"Frequencies of {name}")
    return kit.subsection(name, kit.scrolling(chart))


def _panels(
    copies: Copies, original: Tally | None, counts: Callable[[Tally], Floats | Ints]
) -> list[Panel]:
    """Return a panel per copy, after the original's if it is given."""
    panels = [
        Panel(named(level), counts(tally) / max(tally.rows, 1))
        for level, tally in zip(copies.levels, copies.tallies, strict=True)
    ]
    if original is None:
        return panels
    own = counts(original) / max(original.rows, 1)
    return [Panel("original", own, is_original=True), *panels]


def _tallies(copies: Copies, original: Tally | None) -> list[Tally]:
    return [*copies.tallies, *([original] if original else [])]


def _recovered(coalitions: Sequence[Coalition], names: Sequence[str], html: str = "") -> str:
    explained = kit.hint("Share of each column’s variance that stays hidden from some recipients.")
    marks = kit.legend(
        [
            ("diamond", "from their pooled copies"),
            ("ring", "if each copy had independent noise"),
            ("gap", "what pooling would gain with independent noise"),
        ]
    )
    drawn = list(map(_coalition_row, coalitions, names))
    rows = [
        (name, *(f"{max(share, 0.0):.4f}" for share in _shares(each)))
        for each, name in zip(coalitions, names, strict=True)
    ]
    independent = ("pooled, independent noise", "gain, independent noise")
    header = ("coalition", "best copy", "pooled", "gain", *independent)
    chart = charts.share_chart(drawn[:MOST_ROWS], "Variance that stays hidden from coalitions")
    title = "What coalitions can recover"
    return kit.section(title, explained, marks, kit.scrolling(chart), kit.table(header, rows), html)


def _shares(each: Coalition) -> tuple[float, ...]:
    together = each.best_privacy, each.joint_privacy, each.gain
    return *together, each.independent_privacy, each.independent_gain


def _coalition_row(each: Coalition, name: str) -> ShareRow:
    pooled, independent = each.joint_privacy, each.independent_privacy
    if pooled - independent < 1e-4:
        return ShareRow(name, diamond=pooled, words=f"{pooled:.3f}")
    return ShareRow(
        _short(name),
        diamond=pooled,
        ring=independent,
        gap=(independent, pooled),
        words=f"{pooled:.3f}, not {independent:.3f}",
    )


def _short(name: str) -> str:
    """Return the names of two with each shortened, so that both can be recognised."""
    if len(name) <= NAME_LETTERS or " + " not in name:
        return name
    return " + ".join(shortened(part, NAME_LETTERS // 2 - 1) for part in name.split(" + "))


def _guesses(coalitions: Sequence[Coalition], names: Sequence[str]) -> str:
    """Return the table of best guesses; nothing if there are no categories."""
    rows = [
        (column, name, *(f"{share:.1%}" for share in (g.blind, g.best, g.joint, g.independent)))
        for each, name in zip(coalitions, names, strict=True)
        for column, g in each.guesses.items()
    ]
    if not rows:
        return ""
    rows.sort(key=lambda row: row[0])
    explained = kit.hint("How often the best guess of a row’s category is correct.")
    header = ("category", "coalition", "no copy", "best copy", "pooled", "independent noise")
    return kit.subsection("Categories", explained, kit.table(header, rows))


def _members(each: Coalition, everybody: int, kind: str) -> str:
    names = list(dict.fromkeys(name for name, _ in each.members))
    return f"all {everybody} {kind}" if 2 < len(names) == everybody else " + ".join(names)


def _estimates(copies: Copies, original: Original | None) -> str:
    explained = kit.hint(
        "Unbiased estimates of the original’s statistics from each copy, with the standard error "
        "due to the noise."
    )
    tallies = _tallies(copies, original.tally if original else None)
    values = [
        value_title(column.name, copies.labels[column.name][place].as_py())
        for column in copies.categories
        for place in most_frequent(tallies, column.name)
    ]
    answers = {named(level): a for level, a in zip(copies.levels, copies.answers, strict=True)}
    found = result_tables(answers, original.answers if original else None, values)
    tables = [kit.subsection(title, kit.table(header, rows)) for title, header, rows in found]
    return kit.section("Statistics estimated from the copies", explained, *tables)


def _outliers(copies: Copies, original: Original) -> str:
    explained = kit.hint(
        "Number of values in each column so far out that they stand out in the copy too: "
        "further than any of as many Gaussian values would be expected. A record may be ordinary "
        "in each column and stand out in their combination. Cap or remove such records before "
        "release if they matter; more noise or a transform at registration hides them too."
    )
    exposed = original.seen.exposed
    rows = [
        (
            named(level),
            *(f"{n:,}" for n in (*exposed.columns[i], exposed.combined[i], exposed.rows[i])),
        )
        for i, level in enumerate(copies.levels)
    ]
    header = ("level", *original.columns, "in combination", "in any way")
    return kit.section("Outliers that the noise does not hide", explained, kit.table(header, rows))


def _against_bayes(copies: Copies, original: Original) -> str:
    """Return what each column keeps from a recipient who knows how its values are distributed."""
    explained = kit.hint(
        "Share of each column that stays hidden from a recipient who knows how its values are "
        "distributed and takes the best estimate there is from that column of the copy. For a "
        "normal column it is the privacy. Columns with many zeros or a long tail keep less; the "
        "rank scale at registration mends that."
    )
    rows = [
        (name, *(f"{share:.3f}" for share in left)) for name, left in original.seen.bayes.items()
    ]
    if not rows:
        return ""
    header = ("column", *map(named, copies.levels))
    title = "Against a recipient who knows the distributions"
    return kit.section(title, explained, kit.table(header, rows))


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
    return kit.section("Notes", kit.bullets(dict.fromkeys(lines)))
