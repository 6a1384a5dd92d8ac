"""The service: who may have what (recipient, grant, revoke, token), serve, fetch and request."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import (
    AgainstOption,
    ClipOption,
    JsonOption,
    RoundOption,
    VaultOption,
    bounds_of,
    open_vault,
)
from cornerwave.cli._screen import print_json, print_table, progress, say
from cornerwave.errors import ExtraMissing, OutputError, VaultError

if TYPE_CHECKING:
    from cornerwave.access import Sharing

recipient_app = typer.Typer(
    help="Add, list, show and remove recipients.", no_args_is_help=True, rich_markup_mode=None
)
DatasetName = Annotated[str, typer.Argument(help="The dataset.")]
RecipientName = Annotated[
    str, typer.Argument(help="The recipient; 'anybody' makes a level public.")
]


def open_sharing(vault: Path | None) -> "Sharing":
    """Open who may have what of a vault."""
    from cornerwave.access import Sharing

    return Sharing(open_vault(vault))


@recipient_app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="The recipient.")],
    note: Annotated[str, typer.Option(metavar="TEXT", help="Whom to ask there, and why.")] = "",
    vault: VaultOption = None,
) -> None:
    """Add a recipient."""
    open_sharing(vault).add(name, note=note)
    say(f"Added {name}. Next: cornerwave grant DATASET {name} --privacy P")


@recipient_app.command("list")
def list_(as_json: JsonOption = False, vault: VaultOption = None) -> None:
    """List recipients and what they may fetch."""
    from cornerwave.ledger import now

    sharing = open_sharing(vault)
    names = {each.id: each.name for each in sharing.vault.datasets()}
    found = {
        name: [
            {"dataset": names[g.dataset], "noise": g.spec.level.noise, "until": g.until}
            for g in sharing.grants(recipient=name)
            if g.is_live(now())
        ]
        for name in sharing.recipients()
    }
    if as_json:
        print_json(found)
        return
    rows = [
        (name, ", ".join(f"{g['dataset']} (noise {g['noise']:.4g})" for g in grants) or "nothing")
        for name, grants in found.items()
    ]
    print_table("Recipients", ("recipient", "may fetch"), rows)


@recipient_app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="The recipient.")],
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show a recipient's grants and tokens, ended ones too."""
    sharing = open_sharing(vault)
    names = {each.id: each.name for each in sharing.vault.datasets()}
    grants = [
        {
            "dataset": names[g.dataset],
            "noise": g.spec.level.noise,
            "since": g.at,
            "until": g.until,
            "revoked": g.revoked,
        }
        for g in sharing.grants(recipient=name)
    ]
    tokens = [
        {
            "id": t.id,
            "since": t.at,
            "expires": t.expires,
            "revoked": t.revoked,
            "last_used": sharing.last_used(t),
        }
        for t in sharing.tokens(name)
    ]
    if as_json:
        print_json({"recipient": name, "grants": grants, "tokens": tokens})
        return
    for title, rows in (("Grants", grants), ("Tokens", tokens)):
        if rows:
            cells = [tuple(str(value or "") for value in row.values()) for row in rows]
            print_table(f"{title} of {name}", tuple(rows[0]), cells)
        else:
            typer.echo(f"{name} has no {title.lower()}")


@recipient_app.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="The recipient.")], vault: VaultOption = None
) -> None:
    """Remove a recipient: grants and tokens end, the ledger keeps what they hold."""
    open_sharing(vault).remove(name)
    say(f"Removed {name}. The ledger keeps its record of the copies that {name} holds.")


def grant(
    name: DatasetName,
    recipient: RecipientName,
    privacy: Annotated[
        float | None, typer.Option(metavar="P", help="Share of variance to hide.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(metavar="V", help="Noise instead of privacy.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="The last moment, such as 2027-01-31.")
    ] = None,
    round_: RoundOption = None,
    clip: ClipOption = None,
    against: AgainstOption = "linear",
    vault: VaultOption = None,
) -> None:
    """Permit a recipient to fetch a dataset at a level."""
    sharing = open_sharing(vault)
    made = sharing.grant(
        name,
        recipient,
        privacy=privacy,
        noise=noise,
        until=until,
        round=round_ or (),
        clip=bounds_of(clip),
        against=against,
    )
    hides = sharing.vault.dataset(name).privacy_of(made.spec.level)
    ends = f", until {made.until}" if made.until else ""
    say(f"{recipient} may fetch {name} at privacy {hides:g}{ends}")


def revoke(name: DatasetName, recipient: RecipientName, vault: VaultOption = None) -> None:
    """End what a recipient may fetch of a dataset, at once."""
    open_sharing(vault).revoke(name, recipient)
    say(f"{recipient} may fetch nothing of {name} any more; copies that were fetched stay known")


def token(
    recipient: Annotated[
        str | None, typer.Argument(help="The recipient.", show_default=False)
    ] = None,
    owner: Annotated[
        bool, typer.Option("--owner", help="For your own work over REST, not for a recipient.")
    ] = False,
    days: Annotated[float, typer.Option(metavar="N", help="How many days it lasts.")] = 90,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Where the service is.")
    ] = "http://127.0.0.1:8050",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.share", help="Write a profile file.")
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Make a token for a recipient, or for yourself, which is shown once."""
    from cornerwave.access import OWNER

    if owner == (recipient is not None):
        raise VaultError("name a recipient, or say --owner for a token of your own")
    sharing = open_sharing(vault)
    recipient = recipient or OWNER
    if out is not None and out.exists():
        raise OutputError(f"{out} exists already; choose another name")
    text = sharing.new_token(recipient, days=days)
    if out is None:
        typer.echo(text)
        return
    expires = sharing.tokens(recipient)[-1].expires
    write_profile(out, url, text, expires)
    say(f"Wrote {out}: give it to {recipient} over a safe channel; it lasts {days:g} days")


def write_profile(path: Path, url: str, token: str, expires: str) -> None:
    """Write a profile file that only its owner can read."""
    from cornerwave.access import profile_text

    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(profile_text(url, token, expires))


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port.")] = 8050,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="How recipients reach it, behind a proxy."),
    ] = None,
    cache: Annotated[
        str, typer.Option(metavar="SIZE", help="Room for copies that were made.")
    ] = "10GB",
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE.pem", help="A certificate, to serve https.")
    ] = None,
    certificate_key: Annotated[
        Path | None, typer.Option(metavar="FILE.pem", help="Its private key.")
    ] = None,
    allow: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Tables in it may be registered in the console (repeatable)."
        ),
    ] = None,
    new_password: Annotated[
        bool,
        typer.Option("--new-password", help="Print a link to set the console's password anew."),
    ] = False,
    vault: VaultOption = None,
) -> None:
    """Serve copies to recipients, and the console to the owner."""
    try:
        import uvicorn

        from cornerwave.server import application, first_link, settings
    except ImportError:
        raise ExtraMissing(
            "the service needs packages that are not installed: pip install 'cornerwave[service]'"
        ) from None
    opened = open_vault(vault)
    app = application(opened, cache_bytes=size_of(cache), public_url=url, allowed=allow or ())
    scheme = "https" if certificate else "http"
    say(f"Serving {opened.path} on {url or f'{scheme}://{host}:{port}'}")
    if host not in ("127.0.0.1", "::1", "localhost") and not certificate and not url:
        say("warning: without a certificate, tokens and copies travel in the open")
    local = f"{scheme}://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"  # noqa: S104
    say(f"The owner's console: {url or local}/console")
    if link := first_link(opened, url or local, again=new_password):
        say(f"Set the console's password here, once, within a day: {link}")
    uvicorn.run(
        app,
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=certificate_key,
        **settings(),
    )


def size_of(text: str) -> int:
    """Return a number of bytes.

    >>> size_of("10GB"), size_of("512 MB"), size_of("1000")
    (10000000000, 512000000, 1000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", text.strip())
    if not found:
        raise VaultError(f"{text!r} is no size; write 500MB or 10GB")
    return int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " "))


def fetch(
    profile: Annotated[Path, typer.Argument(help="The profile file that the owner gave you.")],
    dataset: Annotated[
        str | None, typer.Argument(help="The dataset; default: the only one.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output file (.csv, .csv.gz, .parquet, .arrow)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Fetch your copy from a service; run it again to go on where it ended."""
    from cornerwave.miner import Profile
    from cornerwave.miner import fetch as download

    if out is None:
        rows = [
            (
                each.name,
                f"{each.privacy:g}",
                f"{each.rows:,}",
                f"{each.edition}",
                each.until or "",
            )
            for each in Profile.read(profile).datasets()
        ]
        print_table("You may fetch", ("dataset", "privacy", "rows", "edition", "until"), rows)
        return
    with progress("Fetching") as advance:
        path = download(profile, dataset, out=out, force=force, progress=advance)
    say(f"Wrote {path}")


def request(
    profile: Annotated[Path, typer.Argument(help="The profile file that the owner gave you.")],
    dataset: Annotated[str | None, typer.Argument(help="The dataset.")] = None,
    privacy: Annotated[
        float | None, typer.Option(metavar="P", help="The privacy that you ask for.")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in a sentence.")] = "",
) -> None:
    """Ask the owner for another level of a dataset; without one, list what you asked for."""
    from cornerwave.miner import Profile

    own = Profile.read(profile)
    if dataset is None or privacy is None:
        if dataset is not None or privacy is not None:
            raise VaultError("name a dataset and a privacy with --privacy, or neither")
        rows = [
            (each.dataset, f"{each.privacy:g}", each.state, each.answer) for each in own.asked()
        ]
        print_table("You asked for", ("dataset", "privacy", "state", "answer"), rows)
        return
    own.ask(dataset, privacy=privacy, reason=reason)
    say(f"Asked for {dataset} at privacy {privacy:g}. The owner decides; see: request {profile}")
