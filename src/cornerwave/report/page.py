"""The report as one page. The form for others is drawn from the copies alone."""

from collections.abc import Callable, Sequence
from html import escape
from itertools import combinations

import numpy as np

from cornerwave.coalition import Coalition
from cornerwave.levels import retention
from cornerwave.miner import RANK
from cornerwave.report import picture
from cornerwave.report.copies import Copies
from cornerwave.report.figures import Figures, figures, shares_of
from cornerwave.report.original import MOST_RECIPIENTS, Original
from cornerwave.report.picture import Panel, named
from cornerwave.report.pooling import guessed, recovered
from cornerwave.report.tally import MOST_COLUMNS, Counts, Tally, common
from cornerwave.version import __version__
from cornerwave.webpage import document, scrolling, table


def render_owner(name: str, copies: Copies, original: Original) -> str:
    """Return the page for the owner."""
    recipients = {holding.recipient for holding in original.holdings}
    head = (
        f"{_count(len(copies.levels), 'level')} of {escape(name)} "
        f"{'is' if len(copies.levels) == 1 else 'are'} held by "
        f"{_count(len(recipients), 'recipient')}. All of them together recover what the best "
        f"copy tells: {copies.levels[0].privacy:.4g} of the variance stays hidden."
    )
    body = [
        _head(f"Report on {name}", head, copies, "for the owner alone"),
        _owner_ladder(copies, original),
        _distributions(copies, original.tally),
        recovered(original.coalitions, len(recipients)),
        guessed(original.coalitions, len(recipients)),
        _figures(copies, original),
        _exposed(copies, original),
        _notes(copies),
    ]
    return _document(f"Report on {name}", body)


def render_external(name: str, copies: Copies) -> str:
    """Return the page for others: what the copies themselves tell."""
    head = (
        f"{_count(len(copies.levels), 'level')} of {escape(name)} "
        f"{'was' if len(copies.levels) == 1 else 'were'} released. Whoever pools "
        "copies learns what the best of them tells, and no more."
    )
    least = named(copies.levels[0])
    whom = f"drawn from the copies alone; the holder of the copy at {least} has all of it already"
    alone = [Coalition.of([(named(level), level)]) for level in copies.levels]
    pairs = [
        Coalition.of([(named(level), level) for level in pair])
        for pair in combinations(copies.levels[:MOST_RECIPIENTS], 2)
    ]
    body = [
        _head(f"Copies of {name}", head, copies, whom),
        _external_ladder(copies),
        _distributions(copies, None),
        recovered([*alone, *pairs]),
        _figures(copies, None),
        _notes(copies),
    ]
    return _document(f"Copies of {name}", body)


def _document(title: str, body: Sequence[str]) -> str:
    footer = f"<footer>cornerwave {__version__}. No cell of the table is on this page.</footer>"
    return document(title, "".join([*body, footer]), style=picture.STYLE)


def _head(title: str, verdict: str, copies: Copies, whom: str) -> str:
    small = (
        f"{copies.rows:,} rows, {_count(len(copies.shown.numbers), 'number')}, "
        f"{_count(len(copies.shown.categories), 'category', 'categories')}; {escape(whom)}"
    )
    return f'<h1>{escape(title)}</h1><div class="verdict">{verdict}<small>{small}</small></div>'


def _owner_ladder(copies: Copies, original: Original) -> str:
    words = [
        ", ".join(h.recipient for h in original.holdings if h.level == level)
        for level in copies.levels
    ]
    rows = [
        (h.recipient, *_level(h.level.privacy, h.level.noise), h.since) for h in original.holdings
    ]
    header = ("recipient", "privacy", "noise", "a category is kept", "since")
    return _ladder(copies, words) + table(header, rows)


def _external_ladder(copies: Copies) -> str:
    words = [f"noise {level.noise:.4g}" for level in copies.levels]
    rows = [_level(level.privacy, level.noise) for level in copies.levels]
    return _ladder(copies, words) + table(("privacy", "noise", "a category is kept"), rows)


def _level(privacy: float, noise: float) -> tuple[str, str, str]:
    return f"{privacy:.4g}", f"{noise:.4g}", f"{retention(noise):.1%}"


def _ladder(copies: Copies, words: Sequence[str]) -> str:
    return (
        "<h2>The ladder of levels</h2>"
        '<p class="hint">Privacy is the share of the variance that the best linear estimate from '
        "a copy cannot recover; noise is a multiple of the table’s own covariance.</p>"
        + scrolling(picture.ladder(copies.levels, words))
    )


def _distributions(copies: Copies, original: Tally | None) -> str:
    owner_key = (
        '<span class="key own"></span>the original<span class="key line"></span>the original '
        "again, over a copy"
        if original
        else ""
    )
    hint = (
        '<p class="hint">Shares of the rows, in the same bins and to the same height:'
        f'<span class="key bar"></span>a copy{owner_key}. Values beyond the '
        "axis and missing ones are not in it.</p>"
    )
    parts = [_histogram(copies, original, name) for name in copies.axes]
    parts += [_bars(copies, original, column.name) for column in copies.categories]
    return f"<h2>Each column in each copy</h2>{hint}{''.join(parts)}"


def _histogram(copies: Copies, original: Tally | None, name: str) -> str:
    panels = _panels(copies, original, lambda tally: tally.numbers[name])
    unit = (copies.shown.units or {}).get(name)
    title = copies.title(name)
    axis = copies.axes[name][1]
    words = f"<h3>{escape(title)}</h3>"
    return words + scrolling(picture.histograms(panels, axis, unit, f"Histograms of {title}"))


def _bars(copies: Copies, original: Tally | None, name: str) -> str:
    places = common(_tallies(copies, original), name)
    if not places:
        return f'<h3>{escape(name)}</h3><p class="hint">No value is common enough to be shown.</p>'
    labels = [copies.labels[name][place].as_py() for place in places]
    names = ["missing" if label is None else str(label) for label in labels]
    tallies = _tallies(copies, original)
    rest = any(tally.labels[name][places].sum() < tally.rows for tally in tallies)
    panels = _panels(copies, original, lambda tally: _with_rest(tally, name, places, rest))
    drawn = picture.bars(panels, [*names, *(["others or missing"] * rest)], f"Shares of {name}")
    return f"<h3>{escape(name)}</h3>{scrolling(drawn)}"


def _with_rest(tally: Tally, name: str, places: Sequence[int], rest: bool) -> Counts:
    shown = tally.labels[name][list(places)]
    return np.append(shown, tally.rows - shown.sum()) if rest else shown


def _panels(
    copies: Copies, original: Tally | None, count: Callable[[Tally], Counts]
) -> list[Panel]:
    """Return a panel per copy, after the original's if it is given."""
    panels = [
        Panel(named(level), shares_of(count(tally), tally.rows))
        for level, tally in zip(copies.levels, copies.tallies, strict=True)
    ]
    if original is None:
        return panels
    own = shares_of(count(original), original.rows)
    return [Panel("original", own, is_original=True), *panels]


def _tallies(copies: Copies, original: Tally | None) -> list[Tally]:
    return [*copies.tallies, *([original] if original else [])]


def _figures(copies: Copies, original: Original | None) -> str:
    hint = (
        '<p class="hint">Unbiased estimates of the original’s own figures from each copy, with '
        "the standard errors that the noise gives them.</p>"
    )
    tallies = _tallies(copies, original.tally if original else None)
    parts = figures(copies, original.mined if original else None, tallies)
    return f"<h2>What a miner {'loses' if original else 'finds'}</h2>{hint}" + "".join(
        _figure_table(part) for part in parts
    )


def _figure_table(part: Figures) -> str:
    return f"<h3>{escape(part.title)}</h3>{table(part.header, part.rows)}"


def _exposed(copies: Copies, original: Original) -> str:
    hint = (
        '<p class="hint">A value further out than any that so many Gaussian rows would reach in '
        "the copy stands alone there. Cap or remove such records before release if they matter; "
        "more noise, or a transform at registration, hides them too.</p>"
    )
    rows = [
        (
            named(level),
            *(f"{n:,}" for n in (*original.exposed.columns[i], original.exposed.rows[i])),
        )
        for i, level in enumerate(copies.levels)
    ]
    header = ("level", *original.columns, "any column")
    return f"<h2>Records that stand out at each level</h2>{hint}{table(header, rows)}"


def _notes(copies: Copies) -> str:
    lines = [note for mined in copies.mined for note in mined.notes]
    shown = copies.shown
    if ranks := [name for name, (column, _) in copies.axes.items() if column.transform == RANK]:
        lines.append(f"perturbed on the ranks, so no figures can be mined: {', '.join(ranks)}")
    if shown.left_out:
        lines.append(f"not shown, for being constant, kept or a key: {', '.join(shown.left_out)}")
    for names in (shown.numbers, shown.categories):
        if len(names) > MOST_COLUMNS:
            lines.append(f"beyond the first {MOST_COLUMNS}: {', '.join(names[MOST_COLUMNS:])}")
    lines.append("copies are shown as they are before any rounding or clipping")
    items = "".join(f"<li>{escape(line)}</li>" for line in dict.fromkeys(lines))
    return f"<h2>Notes</h2><ul>{items}</ul>"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
