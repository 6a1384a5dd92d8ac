"""What recipients ask for, what each coalition could recover then, and the owner's answer."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.cli._options import JsonOption, VaultOption
from cornerwave.cli._screen import print_json, print_table, say, tell
from cornerwave.cli._sharing import open_sharing
from cornerwave.errors import VaultError

if TYPE_CHECKING:
    from cornerwave.access import Foreseen, Sharing, Waiting


def requests(
    name: Annotated[str | None, typer.Argument(help="One dataset; default: all.")] = None,
    approve: Annotated[
        str | None, typer.Option(metavar="ID", help="Approve the request with this id.")
    ] = None,
    decline: Annotated[
        str | None, typer.Option(metavar="ID", help="Decline the request with this id.")
    ] = None,
    privacy: Annotated[
        float | None,
        typer.Option(metavar="P", help="Show or approve another privacy than was asked for."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="With --approve: when it ends, such as 2027-01-31."),
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
    found = sharing.waiting(dataset=id, answered=all_, privacy=privacy)
    if as_json:
        print_json([_json(each) for each in found])
        return
    if not found:
        say("Nobody has asked for anything." if all_ else "No request waits for an answer.")
    for each in found:
        _show(each)


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


def _json(waiting: "Waiting") -> dict[str, Any]:
    coalitions = [asdict(each) for each in waiting.coalitions]
    return {**asdict(waiting.asked), "coalitions": coalitions, "refusal": waiting.refusal or None}


def _show(waiting: "Waiting") -> None:
    asked = waiting.asked
    reason = f": {asked.reason}" if asked.reason else ""
    tell(
        f"{asked.id}  {asked.recipient} asks for {asked.name} at privacy {asked.privacy:g}{reason}"
    )
    if asked.state != "open":
        tell(f"  {asked.state}{': ' if asked.answer else ''}{asked.answer}")
    elif waiting.refusal:
        tell(f"  cannot be approved as it is: {waiting.refusal}")
    else:
        _show_coalitions(waiting.coalitions)


def _show_coalitions(then: Sequence["Foreseen"]) -> None:
    rows = [
        (_called(each.members), f"{each.before:.1%}", f"{each.after:.1%}", "less" * each.loses)
        for each in then
    ]
    print_table("Hidden from", ("coalition", "today", "if approved", ""), rows)


def _called(members: Sequence[str]) -> str:
    return " and ".join(members) if len(members) < 3 else "all of them"
