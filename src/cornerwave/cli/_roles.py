"""Owners by name: owner add, list, remove, link; approval; and under which name a command acts."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cornerwave.cli._options import JsonOption, VaultOption, open_vault, stated_owner
from cornerwave.cli._screen import print_json, print_table, say
from cornerwave.errors import VaultError

if TYPE_CHECKING:
    from cornerwave.access import Owners

owner_app = typer.Typer(
    help="Add, list and remove owners.", no_args_is_help=True, rich_markup_mode=None
)
OneOwner = Annotated[str, typer.Argument(help="The owner.")]
UrlOption = Annotated[
    str, typer.Option(metavar="URL", help="Address of the service, for the link.")
]
LOCAL = "http://127.0.0.1:8050"


def under_a_name(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the option `--by`, which states who gives it."""

    @wraps(command)
    def run(*arguments: Any, as_owner: str | None = None, **options: Any) -> None:
        before = stated_owner.set(as_owner)
        try:
            command(*arguments, **options)
        finally:
            stated_owner.reset(before)

    wanted = Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="NAME",
            help="Which owner you are; default: CORNERWAVE_OWNER.",
        ),
    ]
    known = signature(command)
    added = Parameter("as_owner", Parameter.KEYWORD_ONLY, default=None, annotation=wanted)
    # Typer reads the options from signature and annotations.
    run.__signature__ = known.replace(  # type: ignore[attr-defined]
        parameters=[*known.parameters.values(), added]
    )
    run.__annotations__ = {**command.__annotations__, "as_owner": wanted}
    return run


def open_owners(vault: Path | None) -> "Owners":
    """Open the owners of a vault."""
    from cornerwave.access import Owners

    return Owners(open_vault(vault))


def approval(
    below: Annotated[
        float | None,
        typer.Option(metavar="P", help="Let a second person approve what is below privacy P."),
    ] = None,
    off: Annotated[
        bool, typer.Option("--off", help="Let nothing wait for a second person any more.")
    ] = False,
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show or change below which privacy grants and releases wait for a second person."""
    from cornerwave.access import Approvals

    approvals = Approvals(open_vault(vault))
    if off and below is not None:
        raise VaultError("give one of --below and --off")
    if off or below is not None:
        approvals.change(below=below)
    if as_json:
        print_json({"below": approvals.below})
    elif approvals.below is None:
        say("Nothing waits for a second person.")
    else:
        say(f"Grants and releases below privacy {approvals.below:g} wait for a second person.")


@owner_app.command("add")
@under_a_name
def add(
    name: OneOwner,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="owner, approver or viewer.")
    ] = "viewer",
    url: UrlOption = LOCAL,
    vault: VaultOption = None,
) -> None:
    """Add an owner and print a link to set a password, or give an owner another role."""
    secret = open_owners(vault).add(name, role=role)
    say(f"{name} has the role {role} from now on")
    if secret:
        _print_link(name, url, secret)


@owner_app.command("link")
@under_a_name
def link(name: OneOwner, url: UrlOption = LOCAL, vault: VaultOption = None) -> None:
    """Print a new link by which an owner sets a password, once; an older one ends."""
    _print_link(name, url, open_owners(vault).new_link(name))


def _print_link(name: str, url: str, secret: str) -> None:
    from cornerwave.access import LINK_HOURS, link_at

    say(f"{name} sets a password here, once, within {LINK_HOURS} hours:")
    typer.echo(link_at(url, secret))


@owner_app.command("list")
def list_(as_json: JsonOption = False, vault: VaultOption = None) -> None:
    """List owners, their roles, and whether they have set a password."""
    owners = open_owners(vault)
    every = [
        {
            "name": each.name,
            "role": each.role,
            "since": each.since or None,
            "password": owners.has_password(each.name),
        }
        for each in owners.people().values()
    ]
    if as_json:
        print_json(every)
        return
    rows = [
        (
            str(each["name"]),
            str(each["role"]),
            str(each["since"] or "the beginning")[:19],
            "yes" if each["password"] else "no",
        )
        for each in every
    ]
    print_table("Owners", ("owner", "role", "since (UTC)", "password"), rows)


@owner_app.command("remove")
@under_a_name
def remove(name: OneOwner, vault: VaultOption = None) -> None:
    """Remove an owner: password and sessions end, the ledger keeps what they did."""
    open_owners(vault).remove(name)
    say(f"Removed {name}. The ledger keeps what {name} did.")
