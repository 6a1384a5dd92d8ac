"""What recipients ask for, what each coalition could recover then, and the owner's answer."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.cli._options import JsonOption, VaultOption
from cornerwave.cli._screen import print_json, print_table, say, tell
from cornerwave.cli._sharing import open_sharing
from cornerwave.errors import LevelError, NoSuchDataset, VaultError

if TYPE_CHECKING:
    from cornerwave.access import Foreseen, Request, Sharing


def requests(
    name: Annotated[str | None, typer.Argument(help="One dataset; default: all.")] = None,
    approve: Annotated[
        str | None, typer.Option(metavar="ID", help="Approve the request with this id.")
    ] = None,
    decline: Annotated[str | None, typer.Option(metavar="ID", help="Or decline it.")] = None,
    privacy: Annotated[
        float | None,
        typer.Option(metavar="P", help="Show or approve another privacy than was asked for."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="With --approve: the last moment.")
    ] = None,
    words: Annotated[
        str, typer.Option(metavar="TEXT", help="What the recipient reads with the answer.")
    ] = "",
    all_: Annotated[bool, typer.Option("--all", help="List answered requests too.")] = False,
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show what recipients ask for and what each coalition could recover then; answer them."""
    sharing = open_sharing(vault)
    if approve is not None or decline is not None:
        _check_answer(approve, decline, privacy, until)
        _answer(sharing, approve, decline, privacy=privacy, until=until, words=words)
        return
    id = None if name is None else sharing.vault.dataset(name).id
    asked = [r for r in sharing.requests(dataset=id) if all_ or r.state == "open"]
    found = [(each, *_foreseen(sharing, each, privacy)) for each in asked]
    if as_json:
        print_json([_json(*each) for each in found])
        return
    if not found:
        say("Nobody has asked for anything." if all_ else "No request waits for an answer.")
    for each in found:
        _show(*each)


def _check_answer(
    approve: str | None, decline: str | None, privacy: float | None, until: str | None
) -> None:
    if approve is not None and decline is not None:
        raise VaultError("approve a request or decline it: give one of --approve and --decline")
    if decline is not None and (privacy is not None or until is not None):
        raise VaultError("--privacy and --until belong to a request that you --approve")


def _answer(
    sharing: "Sharing",
    approve: str | None,
    decline: str | None,
    *,
    privacy: float | None,
    until: str | None,
    words: str,
) -> None:
    """Answer a request; what approving it changes is shown first."""
    asked = sharing.open_request(approve or decline or "")
    if decline is not None:
        sharing.answer(asked.id, decline=True, words=words)
        say(f"Declined: {asked.recipient} does not get {asked.name} at {asked.privacy:g}")
        return
    _show_coalitions(sharing.foreseen(asked, privacy=privacy))
    sharing.answer(asked.id, privacy=privacy, until=until, words=words)
    level = asked.privacy if privacy is None else privacy
    say(f"{asked.recipient} may fetch {asked.name} at privacy {level:g}")


def _foreseen(
    sharing: "Sharing", asked: "Request", privacy: float | None
) -> tuple[Sequence["Foreseen"], str]:
    """Return what coalitions could recover if a request were approved, or why it cannot be."""
    if asked.state != "open":
        return (), ""
    try:
        return sharing.foreseen(asked, privacy=privacy), ""
    except (LevelError, NoSuchDataset) as error:
        return (), str(error)


def _json(asked: "Request", then: Sequence["Foreseen"], refusal: str) -> dict[str, Any]:
    coalitions = [asdict(each) for each in then]
    return {**asdict(asked), "coalitions": coalitions, "refusal": refusal or None}


def _show(asked: "Request", then: Sequence["Foreseen"], refusal: str) -> None:
    reason = f": {asked.reason}" if asked.reason else ""
    tell(
        f"{asked.id}  {asked.recipient} asks for {asked.name} at privacy {asked.privacy:g}{reason}"
    )
    if asked.state != "open":
        tell(f"  {asked.state}{': ' if asked.answer else ''}{asked.answer}")
    elif refusal:
        tell(f"  cannot be approved as it is: {refusal}")
    else:
        _show_coalitions(then)


def _show_coalitions(then: Sequence["Foreseen"]) -> None:
    rows = [
        (_called(each.members), f"{each.before:.1%}", f"{each.after:.1%}", "less" * each.loses)
        for each in then
    ]
    print_table("Hidden from", ("coalition", "today", "if approved", ""), rows)


def _called(members: Sequence[str]) -> str:
    return " and ".join(members) if len(members) < 3 else "all of them"
