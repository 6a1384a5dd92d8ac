"""Which privacy to pick: what each hides of every column, in its own units, and what it costs."""

from collections.abc import Mapping, Sequence

from cornerwave.documents import _charts as charts
from cornerwave.documents import _document as kit
from cornerwave.documents._charts import ShareRow
from cornerwave.editions import HEADINGS, Edition
from cornerwave.outlook import Outlook
from cornerwave.privacy import OF_HISTORY

# --------------------------------------------------------------------------------------------------
# The section on a table's editions, for the owner.


def editions_section(editions: Sequence[Edition], *html: str) -> str:
    """Return the section on the editions of a table; nothing if it has one only."""
    if len(editions) < 2:
        return ""
    explained = kit.hint(
        "Rows that did not change have the same noise in every edition. Hidden: the least share "
        "of a column that a copy at privacy 0.5 hides of the rows that came or changed. Which rows "
        "came, went and changed is visible to holders of two editions."
    )
    told = kit.table(HEADINGS, [each.in_words for each in editions])
    return kit.section("Editions", explained, told, *html, anchor="editions")


NONE = "No privacy from 0.1 on can be had: columns that are shown tell too much of others."
DRAWN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The privacies that each column is shown at."""


def levels_title(name: str) -> str:
    """Return the title of the page about a dataset."""
    return f"Which privacy for {name}?"


def levels_page(
    name: str,
    found: Sequence[Outlook],
    sentences: Sequence[str],
    editions: Sequence[Edition] = (),
    changing: Sequence[Mapping[str, float]] = (),
) -> str:
    """Return the page about the privacies of a dataset.

    `changing` is what copies of all editions at each privacy hide of rows that changed.
    """
    title = levels_title(name)
    verdict = (
        "A copy at a privacy hides at least that share of the variance of every column, from "
        "everything in the copy together."
    )
    facts = "Choose the lowest privacy that hides enough; more noise costs recipients precision."
    shown = (_hidden(found), _cost(found), _units(found)) if found else ()
    facts += f" This is edition {len(editions)}." if len(editions) > 1 else ""
    parts = [
        kit.headline(title, verdict if found else NONE, facts, "plain"),
        *shown,
        editions_section(editions, _of_changing(found, changing)),
        kit.section("What to consider", kit.bullets(sentences)) if sentences else "",
    ]
    return kit.document(title, parts, footer="This page shows no cell of the table.")


def _hidden(found: Sequence[Outlook]) -> str:
    drawn = _drawn(found)
    middle = drawn[len(drawn) // 2]
    rows = [
        ShareRow(
            column,
            dots=[(each.hidden[column], f"privacy {each.privacy:g}") for each in drawn],
            ring=middle.bayes.get(column),
            words=f"{middle.said(column)} at {middle.privacy:g}",
        )
        for column in middle.hidden
    ]
    dots = "; ".join(f"{i}: privacy {each.privacy:g}" for i, each in enumerate(drawn, 1))
    chart = charts.share_chart(rows, "What stays hidden of each column, by privacy")
    explained = kit.hint(
        f"Share of each column’s variance that stays hidden ({dots}). A dot further right than "
        "its privacy is a column that gets more noise than it needs, because another column "
        "needs it."
    )
    ring = (
        f"left at privacy {middle.privacy:g} by a joint adversary who knows how rows are "
        "distributed; no bound, others may recover more"
    )
    marks = kit.legend([("dot", "from the best linear estimate"), ("ring", ring)])
    return kit.section("What stays hidden", explained, marks, chart)


def _cost(found: Sequence[Outlook]) -> str:
    explained = kit.hint(
        "Standard errors from a copy, as multiples of the original’s: 2 means that four times as "
        "many rows would be needed. A record stands out if it lies further out, in a column or in "
        "their combination, than any of as many Gaussian records would in the copy."
    )
    lines = {
        "mean": [(each.privacy, each.mean_error) for each in found],
        "regression": [(each.privacy, each.regression_error) for each in found],
    }
    chart = charts.curves(lines, "What a recipient pays, by privacy", "privacy")
    header = ("privacy", "noise", "error of a mean", "of a regression slope", "stand out")
    table = kit.table(header, [each.costs for each in found])
    return kit.section("What it costs a recipient", explained, chart, table)


def _units(found: Sequence[Outlook]) -> str:
    explained = kit.hint(
        "How far a typical value is hidden: half the width of a 90 % interval, in the column’s own "
        "units; for a category, how often the best guess is right. Columns on a scale of their "
        "own show the share of their variance."
    )
    shown = _drawn(found)
    header = ("column", *(f"privacy {each.privacy:g}" for each in shown))
    rows = [(column, *(each.said(column) for each in shown)) for column in shown[0].hidden]
    return kit.section("In the columns’ own units", explained, kit.table(header, rows))


def _of_changing(found: Sequence[Outlook], changing: Sequence[Mapping[str, float]]) -> str:
    """Return what copies of all editions hide of rows that changed; nothing if none did."""
    if not any(changing):
        return ""
    rows = [
        (f"{each.privacy:g}", *(f"{left[name]:.3f}" for name in OF_HISTORY))
        for each, left in zip(found, changing, strict=True)
    ]
    title = "What the numbers of all editions hide of rows that changed every time"
    return kit.subsection(title, kit.table(("privacy", *OF_HISTORY.values()), rows))


def _drawn(found: Sequence[Outlook]) -> list[Outlook]:
    return [each for each in found if each.privacy in DRAWN] or list(found)
