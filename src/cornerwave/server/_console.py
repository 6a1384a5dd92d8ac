"""The console: datasets, their grants and requests, the report, and the ledger with its check."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from anyio.to_thread import run_sync as in_thread
from fastapi import Depends
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from cornerwave.access import (
    ANYBODY,
    ANYBODY_KNOWN,
    APPROVED,
    APPROVER,
    DECLINED,
    LIVE,
    OPEN,
    VIEWER,
    Approvals,
    Foreseen,
    Grant,
)
from cornerwave.dossier import Dossier
from cornerwave.errors import ApprovalNeeded, CornerwaveError, LedgerDamaged, LevelError
from cornerwave.ledger import Access, Holding, now, page_of
from cornerwave.levels import LINEAR, Level, worth
from cornerwave.outlook import Advice, advice
from cornerwave.server._page import (
    PREFIX,
    Fields,
    PageNumber,
    Ticked,
    acting,
    approvals_of,
    go,
    page,
    permits,
    router,
    signed_in,
    status_of,
    terms_in,
    words_of,
)
from cornerwave.server._replies import service_of
from cornerwave.vault import Dataset, Proposal, Vault

pages = router(signed_in)
MOST_DOWNLOADS, SEARCHED_FOR_DOWNLOADS = 20, 5000
"""Downloads of a dataset that are shown, and lines of the access log that are searched for them."""
MOST_ACTS = 200
"""What owners did last, of which so much is shown."""
ROLES = {
    "perturbed": "noise",
    "category": "category",
    "kept": "unchanged",
    "key": "identifies the row",
    "unit": "names the person that rows belong to",
    "dropped": "left out",
}


@dataclass(frozen=True)
class Rung:
    """A level of a dataset: who holds it, and who was granted it and has not fetched it yet."""

    privacy: float
    level: Level
    holders: tuple[str, ...]
    granted: tuple[str, ...]

    @property
    def worth(self) -> float:
        """The share of the rows that give a mean as precisely as its copies do."""
        return worth(self.level.noise)


def dataset_of(request: Request, id: str) -> Dataset:
    """Return a dataset by its id. Raises NoSuchDataset."""
    return service_of(request).dataset(id)


def family_name(dataset: Dataset) -> str:
    """Return the name of the linked tables that a dataset is one of, '' if it is none."""
    return "" if dataset.frozen.family is None else dataset.name.rpartition(".")[0]


ThisDataset = Annotated[Dataset, Depends(dataset_of)]


@pages.get("")
def datasets(request: Request) -> Response:
    """List the datasets."""
    service = service_of(request)
    known, count = service.vault.datasets(), service.sharing.open_requests()
    gone = count.keys() - {each.id for each in known}
    return page(
        request,
        "datasets.html",
        families=[
            (name, [(each, ladder(request, each), count.get(each.id, 0)) for each in tables])
            for name, tables in groupby(known, key=family_name)
        ],
        proposals=_with_coalitions(approvals_of(request)),
        elsewhere=service.sharing.request_page(datasets=gone, state=OPEN).items,
        allowed=bool(request.app.state.allowed),
    )


@pages.get("/")
def with_slash() -> Response:
    """Lead to the first page."""
    return RedirectResponse(PREFIX, 303)


@pages.get("/datasets/{id}")
def dataset(
    request: Request,
    chosen: ThisDataset,
    privacy: str = "",
    asked: PageNumber = 1,
    granted: PageNumber = 1,
    holders: PageNumber = 1,
    answered: PageNumber = 1,
) -> Response:
    """Show a dataset; of each long list a page."""
    places = ListPages(asked, granted, holders, answered)
    return dataset_page(request, chosen, places, privacy=privacy)


@dataclass(frozen=True)
class ListPages:
    """Which page is shown of each long list of a dataset's page."""

    asked: int = 1
    granted: int = 1
    holders: int = 1
    answered: int = 1


FIRST_PAGES = ListPages()


def dataset_page(
    request: Request,
    dataset: Dataset,
    places: ListPages = FIRST_PAGES,
    *,
    privacy: str = "",
    error: CornerwaveError | None = None,
) -> Response:
    """Return the page of a dataset."""
    sharing, holdings = service_of(request).sharing, dataset.holdings
    linked = [each.id for each in linked_with(service_of(request).vault, dataset)]
    answers = (APPROVED, DECLINED)
    return page(
        request,
        "dataset.html",
        status=status_of(error) if error else 200,
        error=words_of(error) if error else "",
        dataset=dataset,
        frozen=dataset.frozen,
        family=family_name(dataset),
        roles=ROLES,
        path=f"{PREFIX}/datasets/{dataset.id}",
        ladder=ladder(request, dataset, holdings),
        holdings=page_of(holdings, places.holders),
        grants=sharing.grant_page(places.granted, dataset=dataset.id).of(
            lambda each: (each, each.state(sharing.clock()))
        ),
        recipients=[each.name for each in sharing.recipient_page().items],
        everybody=[ANYBODY_KNOWN, ANYBODY],
        proposals=_with_coalitions(approvals_of(request), datasets=[dataset.id]),
        below=approvals_of(request).below,
        requests=sharing.waiting_page(places.asked, datasets=linked),
        answered=sharing.request_page(places.answered, datasets=[dataset.id], state=answers),
        downloads=_downloads(sharing.accesses(SEARCHED_FOR_DOWNLOADS), dataset.name),
        advice=advice(dataset.frozen),
        change=change_form(request, dataset),
        privacy=privacy,
        allowed=bool(request.app.state.allowed),
    )


@dataclass(frozen=True)
class ChangeForm:
    """Where the choices of a dataset are changed, and which columns to refresh as one by then."""

    address: str
    together: tuple[str, ...] = ()


def change_form(request: Request, dataset: Dataset) -> ChangeForm | None:
    """Return where to register a dataset with other choices; None if that cannot be done here.

    Nobody may hold a copy, and its table must be in a folder that the service may read.
    """
    is_open = not (dataset.holdings or dataset.closed or family_name(dataset))
    place = allowed_path(request, dataset.entry.source or "")
    if not is_open or place is None or len(dataset.editions) > 1:
        return None
    query = urlencode({"path": str(place), "instead": dataset.id})
    return ChangeForm(
        f"{PREFIX}/register/columns?{query}", joined_by(advice(dataset.frozen), dataset)
    )


def joined_by(advised: Advice, dataset: Dataset) -> tuple[str, ...]:
    """Return the columns that are better refreshed as one, in the table's order, if some are."""
    change = advised.change
    if change is None or change.action != "together":
        return ()
    return tuple(name for name in dataset.frozen.source_types.names if name in change.columns)


def allowed_path(request: Request, text: str) -> Path | None:
    """Return a path in a folder that the service may read, links followed, None if it is none."""
    allowed: Sequence[Path] = request.app.state.allowed
    try:
        path = Path(text).resolve()
        inside = any(path.is_relative_to(folder) for folder in allowed)
        return path if text and inside and path.exists() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _with_coalitions(
    approvals: Approvals, datasets: Collection[str] | None = None
) -> list[tuple[Proposal, Sequence[Foreseen]]]:
    """Return what waits for a second person, each with what approving it would change."""
    return [(each, approvals.foreseen(each)) for each in approvals.waiting(datasets=datasets)]


def linked_with(vault: Vault, dataset: Dataset) -> list[Dataset]:
    """Return a dataset and the tables that it is linked with."""
    name = family_name(dataset)
    return list(vault.linked(name).tables.values()) if name else [vault.dataset(dataset.name)]


@pages.post("/datasets/{id}/grant")
def grant(request: Request, dataset: ThisDataset, ticked: Ticked) -> Response:
    """Permit a recipient a level."""
    fields = {name: values[-1] for name, values in ticked.items()}
    try:
        sharing, recipient = acting(request), fields.get("recipient", "")
        privacy, terms = _share(fields.get("privacy", "")), terms_in(fields)
        against = fields.get("against", LINEAR)
        if name := family_name(dataset):
            sharing.grant_linked(name, recipient, privacy=privacy, against=against, **terms)
        else:
            sharing.grant(
                dataset.name,
                recipient,
                privacy=privacy,
                round=ticked.get("round", ()),
                against=against,
                **terms,
            )
    except ApprovalNeeded:
        return go(f"/datasets/{dataset.id}")  # which shows what waits
    except CornerwaveError as error:
        return dataset_page(request, dataset, privacy=fields.get("privacy", ""), error=error)
    return go(f"/datasets/{dataset.id}")


@pages.post("/datasets/{id}/revoke")
def revoke(request: Request, dataset: ThisDataset, fields: Fields) -> Response:
    """End what a recipient may fetch."""
    name = family_name(dataset) or dataset.name
    acting(request).revoke(name, fields.get("recipient", ""))
    return go(f"/datasets/{dataset.id}")


@pages.post("/datasets/{id}/answer")
@permits(APPROVER)
def answer(request: Request, dataset: ThisDataset, fields: Fields) -> Response:
    """Approve a request, perhaps at another level, or decline it."""
    declined = fields.get("act") != "approve"
    text = fields.get("privacy", "")
    try:
        changed = text != fields.get("asked")
        acting(request).answer(
            fields.get("request", ""),
            privacy=_share(text) if changed and not declined else None,
            contract=fields.get("contract", ""),
            until=fields.get("until") or None,
            decline=declined,
            words=fields.get("words", ""),
        )
    except ApprovalNeeded:
        return go(f"/datasets/{dataset.id}")
    except CornerwaveError as error:
        return dataset_page(request, dataset, error=error)
    return go(f"/datasets/{dataset.id}")


@pages.post("/second")
@permits(APPROVER)
def decide(request: Request, fields: Fields) -> Response:
    """Approve what waits for a second person, or decline it."""
    approve = fields.get("act") == "approve"
    approvals_of(request).decide(fields.get("proposal", ""), approve=approve)
    return go("")


@pages.post("/decline")
@permits(APPROVER)
def decline(request: Request, fields: Fields) -> Response:
    """Decline a request for a dataset that does not exist."""
    acting(request).answer(fields.get("request", ""), decline=True, words=fields.get("words", ""))
    return go("")


@pages.get("/datasets/{id}/report")
async def report(request: Request, dataset: ThisDataset) -> Response:
    """Show the owner's report."""
    held, shown = await in_thread(lambda: dataset.holdings), None
    if held:
        text = await service_of(request).report(dataset)
        shown = Markup(text)  # noqa: S704 (the page kit escapes its texts)
    return page(request, "report.html", dataset=dataset, body=shown)


@pages.get("/datasets/{id}/dossier.html")
async def dossier(request: Request, dataset: ThisDataset) -> Response:
    """Send the signed dossier of a table, or of all that it is linked with: a file to hand out."""
    vault, family = service_of(request).vault, family_name(dataset)
    name = family or dataset.name

    def made() -> str:
        known = vault.linked(name) if family else vault.dataset(name)
        return Dossier.of(vault, known).signed(vault).as_page

    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "dataset"
    headers = {
        "Content-Disposition": f'attachment; filename="{plain}-dossier.html"',
        "Cache-Control": "no-store",
    }
    return Response(await in_thread(made), media_type="text/html", headers=headers)


# --- the ledger ---------------------------------------------------------------------------


@pages.get("/ledger")
def ledger(request: Request) -> Response:
    """Check every chain of the ledger, and show its lines."""
    return _ledger(request)


@pages.post("/ledger")
@permits(VIEWER)
def check_heads(request: Request, fields: Fields) -> Response:
    """Check that heads which were kept elsewhere are still part of the ledger."""
    lines = [line for line in fields.get("heads", "").splitlines() if line.strip()]
    try:
        service_of(request).vault.check_heads(lines)
    except CornerwaveError as error:
        return _ledger(request, heads=fields.get("heads", ""), error=str(error))
    result = f"{len(lines)} of {len(lines)} heads are still in the ledger" if lines else ""
    return _ledger(request, heads=fields.get("heads", ""), result=result)


@pages.get("/ledger/public-key.pem")
def public_key(request: Request) -> Response:
    """Send the public key of the vault's signatures."""
    headers = {"Content-Disposition": 'attachment; filename="cornerwave-public-key.pem"'}
    content = service_of(request).vault.public_key
    return Response(content, media_type="application/x-pem-file", headers=headers)


@pages.get("/ledger/heads.txt")
def heads(request: Request) -> Response:
    """Send the head of each chain, to be kept elsewhere."""
    known = service_of(request).vault.heads()
    text = "".join(f"{head}\t{name}\n" for name, head in known.items())
    name = f"cornerwave-heads-{now():%Y-%m-%d}.txt"
    return PlainTextResponse(
        text, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def _ledger(request: Request, *, heads: str = "", result: str = "", error: str = "") -> Response:
    """Show the ledger; reading a chain checks each of its lines."""
    vault, chains, damaged = service_of(request).vault, [], ""
    try:
        known = vault.heads()
        # from before the first line of each, so that all of it is checked
        vault.check_heads(f"{head.rsplit(':', 2)[0]}:0:" for head in known.values())
        for each in vault.datasets():
            chains.append((each, known[each.name], each.holdings))
    except LedgerDamaged as damage:
        damaged = str(damage)
    lines = sum(int(head.rsplit(":", 2)[1]) for _, head, _ in chains)
    acts = [] if damaged else vault.acts()
    return page(
        request,
        "ledger.html",
        chains=chains,
        acts=acts[: -MOST_ACTS - 1 : -1],
        lines=lines,
        damaged=damaged,
        heads=heads,
        result=result,
        error=error,
        at=now().isoformat(),
    )


# --- what several pages show --------------------------------------------------------------


def live_grants(request: Request, dataset: Dataset) -> list[Grant]:
    """Return what may be fetched of a dataset now."""
    sharing = service_of(request).sharing
    return [g for g in sharing.grants(dataset=dataset.id) if g.state(sharing.clock()) == LIVE]


def ladder(
    request: Request, dataset: Dataset, holdings: Sequence[Holding] | None = None
) -> list[Rung]:
    """Return the levels of a dataset, least noise first."""
    held: dict[float, set[str]] = {}
    may: dict[float, set[str]] = {}
    for holding in dataset.holdings if holdings is None else holdings:
        held.setdefault(holding.spec.level.noise, set()).add(holding.recipient)
    for grant in live_grants(request, dataset):
        may.setdefault(grant.spec.level.noise, set()).add(grant.recipient)
    return [
        Rung(
            dataset.privacy_of(Level(noise)),
            Level(noise),
            tuple(sorted(held.get(noise, ()))),
            tuple(sorted(may.get(noise, set()) - held.get(noise, set()))),
        )
        for noise in sorted(held.keys() | may.keys())
    ]


def _downloads(log: Iterable[Access], name: str) -> list[Any]:
    """Return the downloads of a dataset, the newest first."""
    wanted = f"copy of {name} as "
    return [line for line in log if line.what.startswith(wanted)][:MOST_DOWNLOADS]


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise LevelError("privacy must be a number between 0 and 1, such as 0.5") from None
