"""The section on a table's editions, for the owner."""

from collections.abc import Sequence

from cornerwave.editions import TOLD, Edition
from cornerwave.pages import _document as kit


def editions_section(editions: Sequence[Edition], *html: str) -> str:
    """Return the section on the editions of a table; nothing if it has one only."""
    if len(editions) < 2:
        return ""
    explained = kit.hint(
        "Rows that did not change have the same noise in every edition. Hidden: the least share "
        "of a column that a copy at privacy 0.5 hides of the rows that came or changed. Which rows "
        "came, went and changed is visible to holders of two editions."
    )
    told = kit.table(TOLD, [each.told for each in editions])
    return kit.section("Editions", explained, told, *html, anchor="editions")
