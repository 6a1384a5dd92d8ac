"""The privacies of a dataset as a document: which one for which use, and the figures behind it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cornerwave import document as doc
from cornerwave.outlook._advice import Advice
from cornerwave.outlook._outlook import Outlook
from cornerwave.outlook._uses import LIMITS, USES, Recommendation
from cornerwave.privacy import OF_HISTORY
from cornerwave.risks import risks_section

if TYPE_CHECKING:
    from cornerwave.editions import Edition

DRAWN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The privacies that each column is shown at."""

PROMISE = (
    "A copy at a privacy hides that share of the variance of every column from the best estimate "
    "that is linear in what it shows with noise. Adversaries who know more may recover more."
)
NONE = "No privacy of 0.1 or more is possible: columns without noise reveal too much of others."
CHOOSE = "Choose the lowest privacy that hides enough; more noise costs recipients precision."
NO_ADVICE = Advice()
FOUND_OUT = (
    "Of a number, half the width of a 90 % interval around the best estimate of one value; of a "
    "category, how often the best guess of one cell is right. Rows for a mean: from how many of "
    "the original’s rows a mean would be as precise as from the copy."
)
STAND_OUT = " Records that stand out lie so far out that they are recognised in the copy."
LIMITED = (
    "A level is fit for a use if it keeps all of these limits; the lowest such is recommended. "
    "Internal: people bound by your rules; partner: others bound by an agreement; public: anybody."
)
HIDDEN = (
    "Share of each column’s variance that stays hidden. More than its privacy is hidden of a "
    "column that gets more noise than it needs, because another column needs it."
)
JOINT = (
    "Share of each column that a joint adversary left who knows how rows are distributed, measured "
    "at registration, from the whole copy. There is no bound: others may recover more."
)
COSTS = (
    "Standard errors of a mean and of a regression slope from a copy, as multiples of the "
    "original’s: 2 means that four times as many rows would be needed. A record stands out if it "
    "lies further out, in a column or in their combination, than any of as many Gaussian records "
    "would in the copy."
)
EDITIONS = (
    "Rows that did not change have the same noise in every edition. Hidden: the least share "
    "of a column that a copy at privacy 0.5 hides of the rows that came or changed. Which rows "
    "came, went and changed is visible to holders of two editions."
)


def levels_title(name: str) -> str:
    """Return the title of the document about the privacies of a dataset."""
    return f"Which privacy for {name}?"


def levels_document(
    name: str,
    known: Sequence[Outlook],
    *,
    advice: Advice = NO_ADVICE,
    recommended: Sequence[Recommendation] = (),
    editions: Sequence["Edition"] = (),
    changing: Sequence[Mapping[str, float]] = (),
) -> doc.Document:
    """Return which privacy of a dataset is fit for which use, what each hides and what it costs.

    `changing` is what copies of all editions at each privacy hide of rows that changed.
    """
    shown = [each for each in known if each.privacy in DRAWN] or list(known)
    figures = [doc.Section("Figures", [doc.Bullets(advice.details)], is_detail=True)]
    pairs = zip(known, changing or [{}] * len(known), strict=True)
    return doc.Document(
        title=levels_title(name),
        verdict=_verdict(recommended) if known else NONE,
        facts=f"{PROMISE} {CHOOSE}"
        + (f" This is edition {len(editions)}." if len(editions) > 1 else ""),
        sections=(
            *([recommendations_section(recommended)] if recommended else ()),
            *([found_out_section(shown)] if known else ()),
            *_risks_section(known),
            *editions_section(editions, *_of_changing(known, changing)),
            *consider_section(advice),
            *([_hidden_section(shown), *_joint_section(shown), _cost_section(known)] * bool(known)),
            *(figures if advice.details else ()),
            *([_limits_section()] if recommended else ()),
        ),
        footer="This page shows no cell of the table.",
        data={
            "levels": [_data(each, len(editions), left) for each, left in pairs],
            "recommended": [_recommended(each) for each in recommended],
        },
    )


def _data(each: Outlook, edition: int, changing: Mapping[str, float]) -> dict[str, object]:
    errors = {"mean_error": each.mean_error, "regression_error": each.regression_error}
    return asdict(each) | errors | {"edition": edition, "changing_rows": dict(changing)}


def _recommended(each: Recommendation) -> dict[str, object]:
    return {
        "use": each.use,
        "privacy": each.privacy,
        "noise": each.outlook and each.outlook.level.noise,
        "reasons": list(each.reasons),
        "remedies": list(each.remedies),
        "untested": list(each.untested),
    }


def consider_section(advice: Advice, *, figures: bool = False) -> list[doc.Section]:
    """Return what an owner should know and do, perhaps with the figures at a click, if anything."""
    lines = advice.lines()
    at_click = doc.Fold("Figures", [doc.Bullets(advice.details)], is_open=False)
    parts: list[doc.Part] = [doc.Bullets(lines), *[at_click] * (figures and bool(advice.details))]
    return [doc.Section("What to consider", parts)] if lines else []


# --- what a steward decides by ------------------------------------------------------------


def _verdict(recommended: Sequence[Recommendation]) -> str:
    """Return which privacy is recommended for which use."""
    if not recommended:
        return CHOOSE
    if len(recommended) == 1:
        return f"Recommended for {recommended[0].words}"
    named = (
        f"{each.use} {'none is fit' if each.privacy is None else f'{each.privacy:g}'}"
        for each in recommended
    )
    return f"Recommended privacy: {', '.join(named)}."


def recommendations_section(recommended: Sequence[Recommendation]) -> doc.Section:
    """Return the privacy that is recommended for each use, with its reason."""
    rows = [(each.use, *_fit(each.outlook)) for each in recommended]
    header = ("use", "privacy", "a mean is as precise as from")
    parts: list[doc.Part] = [
        doc.DataTable(header, rows),
        doc.Bullets([each.words for each in recommended]),
    ]
    if untested := dict.fromkeys(what for each in recommended for what in each.untested):
        parts.append(
            doc.Paragraph(
                f"Not compared with the limits, since the table is not at its place: "
                f"{' and '.join(untested)}."
            )
        )
    return doc.Section("Recommended", parts)


def _fit(outlook: Outlook | None) -> tuple[doc.Content, doc.Content]:
    if outlook is None:
        return doc.MarkedCell("none is fit", kind=doc.BAD), "–"
    return f"{outlook.privacy:g}", f"{outlook.worth:.0%} of the rows"


def found_out_section(shown: Sequence[Outlook]) -> doc.Section:
    """Return what holders of copies can find out of each column, in its own units."""
    middle = shown[len(shown) // 2]
    rows = [
        doc.ShareRow(
            column,
            dots=[(each.hidden[column], f"privacy {each.privacy:g}") for each in shown],
            ring=middle.bayes.get(column),
            words=f"{middle.in_words(column)} at {middle.privacy:g}",
        )
        for column in middle.hidden
    ]
    dots = ", ".join(f"{i}: {each.privacy:g}" for i, each in enumerate(shown, 1))
    ring = (
        f"left at privacy {middle.privacy:g} by a joint adversary who knows how rows are "
        "distributed; no bound, others may recover more"
    )
    dot = f"from the best linear estimate, at privacy {dots}"
    marks = [("dot", dot), *[("ring", ring)] * bool(middle.bayes)]
    picture = doc.Picture(doc.Shares(rows, "What stays hidden of each column, by privacy"))
    cells = [(name, *(each.in_words(name) for each in shown)) for name in middle.hidden]
    cells.append(("rows for a mean", *(f"{each.worth:.0%}" for each in shown)))
    counted = middle.stand_out is not None
    if counted:
        cells.append(("records that stand out", *(f"{each.stand_out:,}" for each in shown)))
    table = doc.DataTable(_header(shown), cells)
    return doc.Section(
        "What a recipient can find out",
        [doc.Paragraph(FOUND_OUT + STAND_OUT * counted), doc.Legend(marks), picture, table],
    )


def _risks_section(known: Sequence[Outlook]) -> list[doc.Section]:
    by_level = {
        f"{each.privacy:g}": (min(each.hidden.values(), default=each.privacy), each.risks)
        for each in known
        if each.risks is not None
    }
    return [risks_section("privacy", by_level)] if by_level else []


def editions_section(editions: Sequence["Edition"], *parts: doc.Part) -> list[doc.Section]:
    """Return the section on the editions of a table; nothing if it has one only."""
    if len(editions) < 2:
        return []
    from cornerwave.editions import editions_table  # not on import: `inspect` has no ledger

    return [doc.Section("Editions", [doc.Paragraph(EDITIONS), editions_table(editions), *parts])]


# --- the figures behind it ----------------------------------------------------------------


def _header(shown: Sequence[Outlook]) -> tuple[str, ...]:
    return ("column", *(f"privacy {each.privacy:g}" for each in shown))


def _hidden_section(shown: Sequence[Outlook]) -> doc.Section:
    rows = [(name, *(f"{each.hidden[name]:.0%}" for each in shown)) for name in shown[0].hidden]
    parts: list[doc.Part] = [doc.Paragraph(HIDDEN), doc.DataTable(_header(shown), rows)]
    return doc.Section("What stays hidden", parts, is_detail=True)


def _joint_section(shown: Sequence[Outlook]) -> list[doc.Section]:
    rows = [(name, *(f"{each.bayes[name]:.0%}" for each in shown)) for name in shown[0].bayes]
    parts: list[doc.Part] = [doc.Paragraph(JOINT), doc.DataTable(_header(shown), rows)]
    title = "Against a recipient who knows the distributions"
    return [doc.Section(title, parts, is_detail=True)] if rows else []


def _cost_section(known: Sequence[Outlook]) -> doc.Section:
    lines = {
        "mean": [(each.privacy, each.mean_error) for each in known],
        "regression": [(each.privacy, each.regression_error) for each in known],
    }
    chart = doc.Picture(doc.Curves(lines, "What a recipient pays, by privacy", "privacy"))
    rows = [
        (
            f"{each.privacy:g}",
            f"{each.level.noise:.4g}",
            f"{each.mean_error:.2f}",
            f"{each.regression_error:.2f}",
            "not counted" if each.stand_out is None else f"{each.stand_out:,}",
        )
        for each in known
    ]
    header = ("privacy", "noise", "mean", "regression slope", "records that stand out")
    parts: list[doc.Part] = [doc.Paragraph(COSTS), chart, doc.DataTable(header, rows)]
    return doc.Section("What it costs a recipient", parts, is_detail=True)


def _limits_section() -> doc.Section:
    rows = [(each.what, *(f"{each.allowed[use]:g}" for use in USES)) for each in LIMITS.values()]
    parts: list[doc.Part] = [
        doc.Paragraph(LIMITED),
        doc.DataTable(("limit", *USES), rows),
        doc.Bullets([f"{each.what}: {each.source}" for each in LIMITS.values()]),
    ]
    return doc.Section("Limits of each use, and their sources", parts, is_detail=True)


def _of_changing(
    known: Sequence[Outlook], changing: Sequence[Mapping[str, float]]
) -> Iterator[doc.DataTable]:
    """Yield what copies of all editions hide of rows that changed; nothing if none did."""
    if any(changing):
        rows = [
            (f"{each.privacy:g}", *(f"{left[name]:.3f}" for name in OF_HISTORY))
            for each, left in zip(known, changing, strict=True)
        ]
        title = "What the numbers of all editions hide of rows that changed every time"
        yield doc.DataTable(("privacy", *OF_HISTORY.values()), rows, title)
