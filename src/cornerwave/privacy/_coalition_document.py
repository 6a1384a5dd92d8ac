"""What coalitions can recover, as parts of a document: one coalition, or all of a report."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from cornerwave import document as doc
from cornerwave.document import BAD, GOOD
from cornerwave.errors import spelled
from cornerwave.privacy._coalition import OF_HISTORY, BestGuess, Coalition

MOST_ROWS = 30
"""So many coalitions are drawn; the table has them all."""
MOST_LINES = 12
"""Longer tables open at a click."""
SEEN = 1e-4
"""A difference between shares that can be seen in a picture and in a figure."""

EXPLAINED = "Share of every column’s variance that stays hidden from some recipients, at least."
GUESSED = (
    "Without a copy, from the best copy, from all copies, and if each copy had been refreshed "
    "independently. Hidden: the share of the variance, over all values and of the most visible one."
)


def coalition_document(dataset: str, coalition: Coalition) -> doc.Document:
    """Return what some recipients can recover together."""
    names = sorted({recipient for recipient, _ in coalition.members})
    moving = [_of_moving(name, each) for name, each in coalition.guesses.items() if each.moving]
    verdict, facts = coalition_verdict(coalition)
    return doc.Document(
        title=f"{dataset}: {', '.join(names)}",
        verdict=verdict,
        facts=facts,
        kind=BAD if coalition.unbounded else GOOD,
        sections=(
            doc.Section("What they can recover", coalition_parts([coalition], [" + ".join(names)])),
            *([doc.Section("What changed between editions", [doc.Bullets(moving)])] * bool(moving)),
        ),
        data={
            "recipients": names,
            "joint_privacy": coalition.joint_privacy,
            "best_member": coalition.best_member,
            "best_privacy": coalition.best_privacy,
            "gain": coalition.gain,
            "independent_privacy": coalition.independent_privacy,
            "independent_gain": coalition.independent_gain,
            "changing_rows": dict(coalition.changing),
            "unbounded": coalition.unbounded,
            "best_guess_right": {name: asdict(each) for name, each in coalition.guesses.items()},
        },
    )


def coalition_verdict(coalition: Coalition) -> tuple[str, str]:
    """Return in a sentence what the members can recover, and in another what it compares with."""
    names = {name for name, _ in coalition.members}
    best, hidden = coalition.best_member, f"leaves {doc.percent(coalition.best_privacy)} hidden"
    if coalition.unbounded or coalition.independent_privacy is None:
        changed = ", ".join(map(spelled, coalition.unbounded))
        return (
            f"What they can recover together is not bounded: {changed} moved in ways that few rows "
            "share between the editions held, which shows what was replaced in it, and more of "
            "every column that it reveals.",
            f"The best copy alone, of {best}, {hidden}; of rows that did not change, so do all "
            "together.",
        )
    if len(names) == 1:
        return f"{best} alone {hidden}.", ""
    return (
        f"Together they leave {doc.percent(coalition.best_privacy)} hidden: exactly what {best} "
        "alone leaves.",
        "With noise drawn independently for each copy it would be "
        f"{doc.percent(coalition.independent_privacy)}.",
    )


def _of_moving(name: str, guess: BestGuess) -> str:
    """Return what is known of a category that changed between the editions held."""
    assert guess.moving is not None
    least = (
        f"Even someone who knows which cells were replaced guesses right at most "
        f"{guess.moving.right:.1%} and leaves {guess.moving.hidden:.4f} hidden"
    )
    if guess.moving.alone:
        return (
            f"{spelled(name)} changed between the editions held, in ways that few rows share: that "
            "shows what was replaced, and no figure bounds what it reveals of other columns. "
            f"{least}"
        )
    return (
        f"{spelled(name)} changed between the editions held. What was replaced stays so, and moves "
        "as other rows moved: as far as a new value depends on the last one alone, all copies "
        f"reveal what the best one reveals. {least}"
    )


def coalition_parts(
    coalitions: Sequence[Coalition], names: Sequence[str], *, compared: bool = True
) -> list[doc.Part]:
    """Return what coalitions can recover, `compared` with independent noise.

    What that would reveal depends on the table, so a page for others does not show it.
    """
    beside = [
        ("ring", "if each copy had independent noise"),
        ("gap", "what pooling would gain with independent noise"),
    ]
    drawn = list(map(_row, coalitions, names))[:MOST_ROWS]
    rows = [
        (name, *map(_share, _shares(each, compared)))
        for each, name in zip(coalitions, names, strict=True)
    ]
    independent = ("pooled, independent noise", "gain, independent noise")
    header = ("coalition", "best copy", "pooled", "gain", *independent * compared)
    label = "Variance that stays hidden from coalitions"
    return [
        doc.Paragraph(EXPLAINED),
        doc.Legend([("diamond", "from their pooled copies"), *beside * compared]),
        doc.Picture(doc.Shares(drawn, label)),
        doc.Fold("The figures", [doc.DataTable(header, rows)], is_open=len(rows) <= MOST_LINES),
        *(_guesses(coalitions, names) if compared else ()),
        *(_of_changing(coalitions, names) if compared else ()),
    ]


def _share(share: float | None) -> str:
    return "not bounded" if share is None else f"{max(share, 0.0):.4f}"


def _shares(each: Coalition, compared: bool) -> tuple[float | None, ...]:
    independent = each.independent_privacy, each.independent_gain
    return each.best_privacy, each.joint_privacy, each.gain, *independent * compared


def _row(each: Coalition, name: str) -> doc.ShareRow:
    pooled, independent = each.joint_privacy, each.independent_privacy
    if pooled is None or independent is None:
        changed = ", ".join(each.unbounded)
        return doc.ShareRow(name, words=f"not bounded: {changed} changed between editions")
    if pooled - independent < SEEN:
        return doc.ShareRow(name, diamond=pooled, words=f"{pooled:.3f}")
    return doc.ShareRow(
        name,
        diamond=pooled,
        ring=independent,
        gap=(independent, pooled),
        words=f"{pooled:.3f}, not {independent:.3f}",
    )


def _guesses(coalitions: Sequence[Coalition], names: Sequence[str]) -> Iterator[doc.Fold]:
    """Yield a table of best guesses of each category; of many coalitions without the pairs."""
    many = len(coalitions) > MOST_LINES
    shown = [
        (each.guesses, name)
        for each, name in zip(coalitions, names, strict=True)
        if not many or len(dict(each.members)) != 2
    ]
    rows = [
        (
            category,
            name,
            *(_or_not(share, ".1%") for share in (g.blind, g.best, g.joint, g.independent)),
            *(_or_not(share, ".4f") for share in (g.hidden, g.least_hidden)),
        )
        for category in coalitions[0].guesses
        for guesses, name in shown
        for g in [guesses[category]]
    ]
    if rows:
        guessed = ("no copy", "best copy", "pooled", "independent")
        header = ("category", "coalition", *guessed, "hidden", "at least")
        title = "How often the best guess of a category is right, and what stays hidden"
        parts = (doc.Paragraph(GUESSED), doc.DataTable(header, rows))
        yield doc.Fold(title, parts, is_open=len(rows) <= MOST_LINES)


def _or_not(share: float | None, how: str) -> str:
    return "not bounded" if share is None else format(share, how)


def _of_changing(coalitions: Sequence[Coalition], names: Sequence[str]) -> Iterator[doc.Fold]:
    """Yield what coalitions leave hidden of rows that changed; nothing if no edition did."""
    rows = [
        (name, *(f"{each.changing[what]:.4f}" for what in OF_HISTORY))
        for each, name in zip(coalitions, names, strict=True)
        if each.changing
    ]
    if rows:
        title = "What numbers leave hidden of rows that changed in every edition"
        table = doc.DataTable(("coalition", *OF_HISTORY.values()), rows)
        yield doc.Fold(title, [table], is_open=len(rows) <= MOST_LINES)
