"""What coalitions could recover, as a section of the page: beside what independent noise gives."""

from collections.abc import Sequence

from cornerwave.coalition import Coalition
from cornerwave.report import picture
from cornerwave.webpage import scrolling, table

MOST_RAILS = 30
"""So many coalitions are drawn; the table has them all."""


def recovered(found: Sequence[Coalition], everybody: int = 0) -> str:
    """Return the section; a coalition of `everybody` is called so."""
    hint = (
        '<p class="hint">The share of each column’s variance that stays hidden:'
        '<span class="key all"></span>from these together<span class="key ring"></span>had each '
        'copy noise of its own<span class="key gap"></span>what pooling would then have gained.</p>'
    )
    lines = [
        (_who(each, everybody, letters=12), each.joint_privacy, each.independent_privacy)
        for each in found
    ]
    rows = [
        (
            _who(each, everybody),
            f"{each.best_privacy:.4f}",
            f"{each.joint_privacy:.4f}",
            f"{each.gain:.4f}",
            f"{each.independent_privacy:.4f}",
            f"{max(each.independent_gain, 0.0):.4f}",
        )
        for each in found
    ]
    header = ("", "best copy alone", "together", "gain", "independent noise", "gain")
    return (
        f"<h2>What coalitions could recover</h2>{hint}"
        f"{scrolling(picture.rails(lines[:MOST_RAILS]))}{table(header, rows, kind='wrap')}"
    )


def guessed(found: Sequence[Coalition], everybody: int = 0) -> str:
    """Return the table of best guesses; nothing if there are none."""
    rows = [
        (
            name,
            _who(each, everybody),
            *(f"{v:.1%}" for v in (g.blind, g.best, g.joint, g.independent)),
        )
        for each in found
        for name, g in each.guesses.items()
    ]
    if not rows:
        return ""
    rows.sort(key=lambda row: row[0])
    hint = '<p class="hint">How often the best guess of a row’s category is right.</p>'
    header = ("category", "", "without a copy", "best copy", "together", "independent")
    return f"<h3>Categories</h3>{hint}{table(header, rows, kind='wrap pairs')}"


def _who(each: Coalition, everybody: int, letters: int = 255) -> str:
    names = list(dict.fromkeys(name for name, _ in each.members))
    if 2 < len(names) == everybody:
        return f"all {everybody} together"
    room = letters if len(names) > 1 else 2 * letters
    return " + ".join(picture.shortened(name, room) for name in names)
