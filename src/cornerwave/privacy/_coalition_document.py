"""What coalitions can recover, as parts of a document: one coalition, or all of a report."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from cornerwave.document import (
    BAD,
    GOOD,
    Bullets,
    DataTable,
    Document,
    Fold,
    Legend,
    Paragraph,
    Part,
    Picture,
    Section,
    ShareRow,
    Shares,
)
from cornerwave.errors import spelled
from cornerwave.privacy._coalition import OF_HISTORY, Coalition

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


def coalition_document(dataset: str, found: Coalition) -> Document:
    """Return what some recipients can recover together."""
    names = sorted({recipient for recipient, _ in found.members})
    moving = list(_of_moving(found))
    return Document(
        title=f"{dataset}: {', '.join(names)}",
        verdict=_verdict(found, names),
        kind=BAD if found.unbounded else GOOD,
        sections=(
            Section("What they can recover", coalition_parts([found], [" + ".join(names)])),
            *([Section("What is not bounded", [Bullets(moving)])] if moving else []),
        ),
        data={
            "recipients": names,
            "joint_privacy": found.joint_privacy,
            "best_member": found.best_member,
            "best_privacy": found.best_privacy,
            "gain": found.gain,
            "independent_privacy": found.independent_privacy,
            "independent_gain": found.independent_gain,
            "changing_rows": dict(found.changing),
            "unbounded": found.unbounded,
            "best_guess_right": {name: asdict(each) for name, each in found.guesses.items()},
        },
    )


def _verdict(found: Coalition, names: Sequence[str]) -> str:
    best = f"{found.best_privacy:.4g} of the variance of every column"
    if found.unbounded:
        changed = ", ".join(map(spelled, found.unbounded))
        return (
            f"What they can recover together is not bounded: {changed} changed between the "
            f"editions held. The best copy alone, of {found.best_member}, leaves {best} hidden."
        )
    if len(names) == 1:
        return f"{names[0]} alone leaves {best} hidden."
    return (
        f"Together they leave {best} hidden: what {found.best_member} alone leaves. With "
        f"independent noise it would be {found.independent_privacy:.4g}."
    )


def _of_moving(found: Coalition) -> Iterator[str]:
    """Yield what is not bounded of categories that changed between editions."""
    for name, each in found.guesses.items():
        if each.looks is not None:
            yield (
                f"{spelled(name)} changed between the editions held, and each new value of a row "
                f"is a fresh look: nothing bounds what is revealed of such rows. Where the old "
                f"value determines the new one, {each.looks.number} looks are guessed right "
                f"{each.looks.right:.1%} and hide {each.looks.hidden:.4f}; less where the change "
                "itself reveals the value"
            )
    if found.unbounded:
        yield (
            "Nor is any other column of such rows bounded, as far as "
            f"{', '.join(map(spelled, found.unbounded))} reveals it. Of rows that did not change, "
            "all together leave what the best copy leaves"
        )


def coalition_parts(
    coalitions: Sequence[Coalition], names: Sequence[str], *, compared: bool = True
) -> list[Part]:
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
        Paragraph(EXPLAINED),
        Legend([("diamond", "from their pooled copies"), *beside * compared]),
        Picture(Shares(drawn, label)),
        Fold("The figures", [DataTable(header, rows)], is_open=len(rows) <= MOST_LINES),
        *(_guesses(coalitions, names) if compared else ()),
        *(_of_changing(coalitions, names) if compared else ()),
    ]


def _share(share: float | None) -> str:
    return "not bounded" if share is None else f"{max(share, 0.0):.4f}"


def _shares(each: Coalition, compared: bool) -> tuple[float | None, ...]:
    independent = each.independent_privacy, each.independent_gain
    return each.best_privacy, each.joint_privacy, each.gain, *independent * compared


def _row(each: Coalition, name: str) -> ShareRow:
    pooled, independent = each.joint_privacy, each.independent_privacy
    if pooled is None or independent is None:
        changed = ", ".join(each.unbounded)
        return ShareRow(name, words=f"not bounded: {changed} changed between editions")
    if pooled - independent < SEEN:
        return ShareRow(name, diamond=pooled, words=f"{pooled:.3f}")
    return ShareRow(
        name,
        diamond=pooled,
        ring=independent,
        gap=(independent, pooled),
        words=f"{pooled:.3f}, not {independent:.3f}",
    )


def _guesses(coalitions: Sequence[Coalition], names: Sequence[str]) -> Iterator[Fold]:
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
        parts = (Paragraph(GUESSED), DataTable(header, rows))
        yield Fold(title, parts, is_open=len(rows) <= MOST_LINES)


def _or_not(share: float | None, how: str) -> str:
    return "not bounded" if share is None else format(share, how)


def _of_changing(coalitions: Sequence[Coalition], names: Sequence[str]) -> Iterator[Fold]:
    """Yield what coalitions leave hidden of rows that changed; nothing if no edition did."""
    rows = [
        (name, *(f"{each.changing[what]:.4f}" for what in OF_HISTORY))
        for each, name in zip(coalitions, names, strict=True)
        if each.changing
    ]
    if rows:
        title = "What numbers leave hidden of rows that changed in every edition"
        table = DataTable(("coalition", *OF_HISTORY.values()), rows)
        yield Fold(title, [table], is_open=len(rows) <= MOST_LINES)
