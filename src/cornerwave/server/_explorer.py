"""The collusion explorer, and the slider: which privacy should I pick?

With noise independent from copy to copy, recipients with noises v_1, v_2, ... would have what one
copy of noise v reveals, 1/v = 1/v_1 + 1/v_2 + ... (Theorem 3; the indicators of a category that is
drawn from its distribution too). With one path they have the least noisy copy alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, TypedDict

from fastapi import Query
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from cornerwave import document as doc
from cornerwave.document import BAD, GOOD
from cornerwave.documents import body, overlay
from cornerwave.errors import SourceError
from cornerwave.levels import Level
from cornerwave.outlook import USES, Outlook, advice, in_units, outlook_at, outlook_of
from cornerwave.privacy import (
    CategoryDistribution,
    Coalition,
    coalition_verdict,
    independent_level,
)
from cornerwave.server._console import dataset_of, live_grants
from cornerwave.server._page import page, router, signed_in
from cornerwave.server._replies import service_of
from cornerwave.vault import Dataset

pages = router(signed_in)
GUESSED = 8
"""So many members, those with the least noise, are counted for guesses from independent copies."""
LOWEST, FIRST = 0.05, 0.5
"""Where the slider begins, and where it is at first."""


SEEN = 0.0005
"""A difference between shares that can be seen."""
EXPLAINED = (
    "± is half the width of a 90 % interval around the best estimate of one value; for a category, "
    "how often the best guess is right."
)


@pages.get("/datasets/{id}/explore")
def explore(request: Request, id: str, who: Annotated[tuple[str, ...], Query()] = ()) -> Response:
    """Show who could be in a coalition, and what the ticked ones can recover."""
    dataset = dataset_of(request, id)
    everybody = _levels(request, dataset)
    ticked = [name for name in who if name in everybody] or list(everybody)[:3]
    people = [(name, level, held) for name, (level, held) in everybody.items()]
    return page(
        request,
        "explore.html",
        dataset=dataset,
        people=people,
        ticked=ticked,
        together=_together(dataset, {name: everybody[name][0] for name in ticked}),
    )


@pages.get("/datasets/{id}/explore/part")
def explored(request: Request, id: str, who: Annotated[tuple[str, ...], Query()] = ()) -> Response:
    """Return the part of the page that changes with the ticks."""
    request.state.quiet = True
    dataset = dataset_of(request, id)
    everybody = _levels(request, dataset)
    chosen = {name: everybody[name][0] for name in who if name in everybody}
    return HTMLResponse(_together(dataset, chosen))


def _levels(request: Request, dataset: Dataset) -> dict[str, tuple[Level, bool]]:
    """Return each recipient's best level, and whether they hold it or were only granted it."""
    known: dict[str, tuple[Level, bool]] = {}
    held = [(each.recipient, each.spec.level, True) for each in dataset.holdings]
    granted = [(each.recipient, each.spec.level, False) for each in live_grants(request, dataset)]
    for name, level, is_held in held + granted:
        if name not in known or level < known[name][0]:
            known[name] = level, is_held
    return dict(sorted(known.items(), key=lambda each: (each[1][0], each[0])))


def _together(dataset: Dataset, chosen: Mapping[str, Level]) -> Markup:
    """Return the part of the page about a coalition."""
    document = _coalition(dataset, chosen) if chosen else doc.Document("", "Tick a recipient.")
    return Markup(body(document))  # noqa: S704 (the page kit escapes its texts)


def _coalition(dataset: Dataset, chosen: Mapping[str, Level]) -> doc.Document:
    best = min(chosen.values())
    independent = independent_level(level.noise for level in chosen.values()).on_lattice()
    one, other = (outlook_at(dataset.frozen, level) for level in (best, min(independent, best)))
    closest = sorted(chosen.items(), key=lambda member: member[1])[:GUESSED]
    distributions = {
        "+".join(each.columns): CategoryDistribution(each.counts, each.base)
        for each in dataset.frozen.categories
    }
    # guesses are those of a few members, privacies those of the whole copies of all of them
    coalition = replace(
        Coalition.of(closest, distributions),
        best_privacy=one.privacy,
        joint_privacy=one.privacy,
        independent_privacy=min(other.privacy, one.privacy),
    ).over_editions(dataset.moving(chosen))
    verdict, facts = coalition_verdict(coalition)
    marks = [
        ("diamond", "hidden from them together"),
        ("ring", "with independent noise"),
        ("gap", "what pooling would gain"),
    ]
    rows = [_row(name, one, other, coalition) for name in one.hidden]
    picture = doc.Picture(doc.Shares(rows, "What stays hidden of each column"))
    return doc.Document(
        title="",
        verdict=verdict,
        facts=facts,
        kind=BAD if coalition.unbounded else GOOD,
        sections=[doc.Section("", [doc.Legend(marks), picture, doc.Paragraph(EXPLAINED)])],
    )


def _row(name: str, one: Outlook, other: Outlook, coalition: Coalition) -> doc.ShareRow:
    """Return what stays hidden of a column, beside what independent noise would leave."""
    if name in coalition.unbounded:
        return doc.ShareRow(name, words="not bounded: changed between editions")
    if coalition.unbounded:
        changed = ", ".join(coalition.unbounded)
        return doc.ShareRow(name, words=f"not bounded, as far as {changed} reveals it")
    now, otherwise, hidden = one.in_words(name), other.in_words(name), one.hidden[name]
    if (guess := coalition.guesses.get(name)) is not None:
        now, otherwise = f"{guess.best:.0%} right", f"{guess.independent:.0%} right"
    independent = min(hidden, other.hidden[name])
    words = now if otherwise == now else f"{now}, not {otherwise}"
    if hidden - independent <= SEEN:
        return doc.ShareRow(name, diamond=hidden, words=words)
    return doc.ShareRow(
        name, diamond=hidden, ring=independent, gap=(independent, hidden), words=words
    )


# --- which privacy? -----------------------------------------------------------------------


@pages.get("/datasets/{id}/privacy")
def slider(request: Request, id: str, p: float = FIRST) -> Response:
    """Show what a privacy means, and a slider to choose another."""
    dataset = dataset_of(request, id)
    highest = int(dataset.frozen.hidden.highest * 100) / 100
    return page(
        request,
        "privacy.html",
        dataset=dataset,
        advice=advice(dataset.frozen),
        recommended=service_of(request).fitness(dataset).recommended(),
        lowest=min(LOWEST, highest),
        highest=highest,
        **_outlook(request, dataset, min(p, highest)),
    )


@pages.get("/datasets/{id}/privacy/part")
def slid(request: Request, id: str, p: float = FIRST) -> Response:
    """Return the part of the page that changes with the slider."""
    request.state.quiet = True
    dataset = dataset_of(request, id)
    return page(request, "outlook.html", dataset=dataset, **_outlook(request, dataset, p))


class OutlookShown(TypedDict):
    """What a privacy means, for the template of the page; what is wrong with it for each use."""

    p: float
    outlook: Outlook | None
    columns: Sequence[tuple[str, float, str]]
    drawings: Mapping[str, Markup]
    missing: str
    uses: Sequence[tuple[str, Sequence[str]]]


def _outlook(request: Request, dataset: Dataset, privacy: float) -> OutlookShown:
    asked = min(max(privacy, 0.001), 0.999) if privacy == privacy else FIRST
    outlook = outlook_of(dataset.frozen, asked)
    drawings: Mapping[str, doc.Histograms] = {}
    missing, uses = "", list[tuple[str, Sequence[str]]]()
    if outlook is not None:
        fitness = service_of(request).fitness(dataset)
        uses = [(use, [v.words for v in fitness.violations(outlook, use)]) for use in USES]
        try:
            drawings = service_of(request).sketch(dataset).drawings(outlook.level)
        except SourceError:
            missing = "The table is no longer at its place, so its columns cannot be drawn."
    return {
        "p": asked,
        "outlook": outlook,
        "columns": [] if outlook is None else _columns(outlook),
        "drawings": {name: Markup(overlay(each)) for name, each in drawings.items()},  # noqa: S704
        "missing": missing,
        "uses": uses,
    }


def _columns(outlook: Outlook) -> Sequence[tuple[str, float, str]]:
    """Return each column, the share that stays hidden, and what that means."""
    return [(name, share, _meaning(outlook, name)) for name, share in outlook.hidden.items()]


def _meaning(outlook: Outlook, name: str) -> str:
    if name in outlook.within:
        return f"a value is hidden within ±{in_units(outlook.within[name], outlook.units[name])}"
    if name in outlook.right:
        right, blind = outlook.right[name], outlook.blind[name]
        return f"guessed right {right:.0%} of the time; {blind:.0%} without a copy"
    return "perturbed on another scale"
