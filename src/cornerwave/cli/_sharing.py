"""Who may have what: recipient, grant, revoke, token, log, requests; and `serve`."""

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import (
    AgainstOption,
    ClipOption,
    ContractOption,
    JsonOption,
    PurposeOption,
    RoundOption,
    UntilOption,
    VaultOption,
    bounds_of,
    named,
    open_vault,
    tables_of,
)
from cornerwave.cli._roles import under_a_name
from cornerwave.cli._screen import print_json, print_table, say, tell
from cornerwave.document import one_line
from cornerwave.errors import ExtraMissing, LevelError, OutputError, VaultError
from cornerwave.kinds import JsonObject

if TYPE_CHECKING:
    from cornerwave.access import Foreseen, Sharing, Waiting
    from cornerwave.vault import Proposal, Vault

recipient_app = typer.Typer(
    help="Add, list, show and remove recipients.", no_args_is_help=True, rich_markup_mode=None
)
NEVER = "never"
DatasetName = Annotated[str, typer.Argument(help="The dataset.")]
OneRecipient = Annotated[str, typer.Argument(help="The recipient.")]
RecipientName = Annotated[
    str, typer.Argument(help="The recipient; 'anybody' makes a level public.")
]


def open_sharing(vault: Path | None) -> "Sharing":
    """Open who may have what of a vault."""
    from cornerwave.access import Sharing

    return Sharing(open_vault(vault))


@recipient_app.command("add")
@under_a_name
def add(
    name: OneRecipient,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Contact, for owners alone.")] = "",
    purpose: PurposeOption = "",
    contract: ContractOption = "",
    until: UntilOption = None,
    vault: VaultOption = None,
) -> None:
    """Add a recipient: what for, by which contract and until when they may have anything."""
    sharing = open_sharing(vault)
    sharing.add(name, note=note, purpose=purpose, contract=contract, until=until)
    say(f"Added {name}. Next: cornerwave grant DATASET {name} --privacy P")


@recipient_app.command("change")
@under_a_name
def change(
    name: OneRecipient,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Contact, for owners alone.")
    ] = None,
    purpose: Annotated[str | None, typer.Option(metavar="TEXT", help="Another purpose.")] = None,
    contract: Annotated[str | None, typer.Option(metavar="TEXT", help="Another contract.")] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Another end, such as 2027-01-31, or 'never'."),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Change why and until when a recipient may have anything; what is not given stays."""
    from cornerwave.ledger import Terms

    sharing = open_sharing(vault)
    known = sharing.recipient(name).terms
    terms = Terms.of(
        purpose=known.purpose if purpose is None else purpose,
        contract=known.contract if contract is None else contract,
        until=known.until if until is None else None if until == NEVER else until,
    )
    sharing.change(name, terms, note=note)
    say(f"{name} may fetch what they are granted{', ' * bool(terms)}{terms.in_words}")


@recipient_app.command("list")
def list_(as_json: JsonOption = False, vault: VaultOption = None) -> None:
    """List recipients and what they may fetch."""
    sharing = open_sharing(vault)
    permitted = {
        name: [
            {key: grant[key] for key in ("dataset", "privacy", "noise", "until")}
            for grant in _grants(sharing, name)
            if grant["state"] == "live"
        ]
        for name in sharing.recipients()
    }
    if as_json:
        print_json(permitted)
        return
    rows = [
        (name, ", ".join(f"{g['dataset']} ({_level(g)})" for g in grants) or "nothing")
        for name, grants in permitted.items()
    ]
    print_table("Recipients", ("recipient", "may fetch"), rows)


@recipient_app.command("show")
def show(name: OneRecipient, as_json: JsonOption = False, vault: VaultOption = None) -> None:
    """Show a recipient's grants and tokens, ended ones too."""
    from cornerwave.access import ANYBODY, ANYBODY_KNOWN

    sharing = open_sharing(vault)
    sharing.check_known(name)
    grants = _grants(sharing, name)
    known = None if name in (ANYBODY, ANYBODY_KNOWN) else sharing.recipient(name)
    terms = {} if known is None else known.terms.to_json()
    made = sharing.tokens(name)
    used = sharing.last_used(made)
    tokens = [
        {
            "id": each.id,
            "state": each.state(sharing.clock()),
            "since": each.at,
            "expires": each.expires,
            "last_used": used.get(each.id),
        }
        for each in made
    ]
    if as_json:
        print_json({"recipient": name, **terms, "grants": grants, "tokens": tokens})
        return
    if known is not None and known.terms:
        typer.echo(f"{name}: {one_line(known.terms.in_words)}")
    for title, rows in (("Grants", grants), ("Tokens", tokens)):
        if rows:
            cells = [tuple(str(value or "") for value in row.values()) for row in rows]
            header = tuple(key.replace("_", " ") for key in rows[0])
            print_table(f"{title} of {name}", header, cells)
        else:
            typer.echo(f"{name} has no {title.lower()}")


def _grants(sharing: "Sharing", recipient: str) -> list[JsonObject]:
    """Return a recipient's grants as they are printed; of an unregistered dataset, by its id."""
    known = {each.id: each for each in sharing.vault.datasets()}
    return [
        {
            "dataset": known[each.dataset].name if each.dataset in known else each.dataset,
            "privacy": known[each.dataset].privacy_of(each.spec.level)
            if each.dataset in known
            else None,
            "noise": each.spec.level.noise,
            "state": each.state(sharing.clock()),
            "since": each.at,
            "until": each.until,
            "revoked": each.revoked,
            "purpose": each.terms.purpose,
            "contract": each.terms.contract,
        }
        for each in sharing.grants(recipient=recipient)
    ]


def _level(grant: JsonObject) -> str:
    return "unregistered" if grant["privacy"] is None else f"privacy {grant['privacy']:g}"


@recipient_app.command("remove")
@under_a_name
def remove(name: OneRecipient, vault: VaultOption = None) -> None:
    """Remove a recipient: grants and tokens end, the ledger keeps what they hold."""
    open_sharing(vault).remove(name)
    say(f"Removed {name}. The ledger keeps which copies {name} holds.")


def grant(
    name: DatasetName,
    recipient: RecipientName,
    privacy: Annotated[
        float | None, typer.Option(metavar="P", help="Share of variance to hide.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(metavar="V", help="Noise variance, instead of a privacy.")
    ] = None,
    linked: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="The least noise that links no more rows than this."),
    ] = None,
    bits: Annotated[
        float | None,
        typer.Option(metavar="BITS", help="The least noise that tells no more bits than this."),
    ] = None,
    purpose: PurposeOption = "",
    contract: ContractOption = "",
    until: UntilOption = None,
    round_: RoundOption = None,
    clip: ClipOption = None,
    against: AgainstOption = "linear",
    vault: VaultOption = None,
) -> None:
    """Permit a recipient to fetch a dataset at a level."""
    sharing = open_sharing(vault)
    if linked is not None or bits is not None:
        if privacy is not None or noise is not None:
            raise LevelError("give one of --privacy, --noise, --linked and --bits")
        asked = named(sharing.vault, name)
        noise = asked.level_at_most(linked=linked, bits=bits).noise
    if sharing.vault.has_linked(name):
        if round_ or clip:
            raise VaultError("linked tables are granted whole: leave out --round and --clip")
        made, *_ = sharing.grant_linked(
            name,
            recipient,
            privacy=privacy,
            noise=noise,
            purpose=purpose,
            contract=contract,
            until=until,
            against=against,
        )
    else:
        made = sharing.grant(
            name,
            recipient,
            privacy=privacy,
            noise=noise,
            purpose=purpose,
            contract=contract,
            until=until,
            round=round_ or (),
            clip=bounds_of(clip),
            against=against,
        )
    hides = named(sharing.vault, name).privacy_of(made.spec.level)
    terms = f", {made.terms.in_words}" if made.terms else ""
    say(f"{recipient} may fetch {name} at privacy {hides:g}{terms}")


def revoke(
    name: DatasetName,
    recipient: Annotated[
        str, typer.Argument(help="The recipient; 'anybody' ends the public level.")
    ],
    vault: VaultOption = None,
) -> None:
    """End what a recipient may fetch of a dataset, at once."""
    open_sharing(vault).revoke(name, recipient)
    say(f"{recipient} may not fetch {name} any more; the ledger keeps what was fetched")


def token(
    recipient: OneRecipient,
    days: Annotated[float, typer.Option(metavar="N", help="How many days it lasts.")] = 90,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Address of the service, for the profile file.")
    ] = "http://127.0.0.1:8050",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.share", help="Write a profile file.")
    ] = None,
    end: Annotated[
        str | None, typer.Option(metavar="ID", help="End the token with this id instead.")
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Make a token for a recipient, which is shown once, or end one."""
    sharing = open_sharing(vault)
    if end is not None:
        sharing.end_token(recipient, end)
        say(f"Ended token {end} of {recipient}")
        return
    if out is not None and out.exists():
        raise OutputError(f"{out} exists already; choose another name")
    text = sharing.new_token(recipient, days=days)
    if out is None:
        typer.echo(text)
        return
    write_profile(out, url, text, sharing.bearer(text).expires)
    say(f"Wrote {out}: give it to {recipient} over a safe channel; it lasts {days:g} days")


def log(
    who: Annotated[
        str, typer.Option(metavar="TEXT", help="Only lines of those whose name contains this.")
    ] = "",
    owners: Annotated[
        bool, typer.Option("--owners", help="What owners did, as the ledger states it.")
    ] = False,
    most: Annotated[
        int, typer.Option("--lines", min=1, metavar="N", help="How many lines, the newest first.")
    ] = 100,
    as_json: JsonOption = False,
    vault: VaultOption = None,
) -> None:
    """Show the service's access log, or what owners did."""
    if owners:
        _show_acts(open_vault(vault), who, most, as_json=as_json)
        return
    lines = open_sharing(vault).accesses(most, who=who)
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    rows = [(line.at[:19], line.who, line.what, line.outcome, f"{line.bytes:,}") for line in lines]
    print_table("Access log", ("when (UTC)", "who", "what", "outcome", "bytes"), rows)


def _show_acts(vault: "Vault", who: str, most: int, *, as_json: bool) -> None:
    """Show what owners did under their names, the newest first."""
    acts = [act for act in vault.acts() if who.casefold() in act.who.casefold()]
    newest = acts[: -most - 1 : -1]
    if as_json:
        print_json([asdict(act) for act in newest])
        return
    rows = [(act.at[:19], act.who, act.what, act.about or "-") for act in newest]
    print_table("What owners did", ("when (UTC)", "who", "what", "dataset"), rows)


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
        typer.Option(metavar="URL", help="Public address, if it is behind a proxy."),
    ] = None,
    cache: Annotated[
        str, typer.Option(metavar="SIZE", help="Disk space for cached copies.")
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
            metavar="DIR", help="Folder whose tables may be registered in the console (repeatable)."
        ),
    ] = None,
    new_password: Annotated[
        bool,
        typer.Option("--new-password", help="Print a link to set a new password for the console."),
    ] = False,
    sign_in_header: Annotated[
        str | None,
        typer.Option(metavar="HEADER", help="A header by which a proxy states which owner it is."),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="A proxy that --sign-in-header is believed from (repeatable)."
        ),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Serve copies to recipients, and the console to the owner."""
    try:
        import uvicorn

        from cornerwave.server import SignInHeader, application, first_link, settings
    except ImportError:
        raise ExtraMissing(
            "the service needs packages that are not installed: pip install 'cornerwave[service]'"
        ) from None
    if proxy and not sign_in_header:
        raise VaultError("--proxy names who --sign-in-header is believed from; give both")
    header = SignInHeader.of(sign_in_header, proxy or ()) if sign_in_header else None
    opened = open_vault(vault)
    app = application(
        opened,
        cache_bytes=size_of(cache),
        public_url=url,
        allowed=allow or (),
        sign_in_header=header,
    )
    scheme = "https" if certificate else "http"
    say(f"Serving {opened.path} on {url or f'{scheme}://{host}:{port}'}")
    if host not in ("127.0.0.1", "::1", "localhost") and not certificate and not url:
        say("warning: without a certificate, tokens and copies are sent unencrypted")
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
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", text.strip())
    if not parts:
        raise VaultError(f"{text!r} is not a valid size; write 500MB or 10GB")
    return int(float(parts[1]) * 1000 ** " kMGT".index(parts[2] or " "))


# --------------------------------------------------------------------------------------------------
# What recipients ask for, what each coalition could recover then, and the answer.


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
    contract: Annotated[
        str, typer.Option(metavar="TEXT", help="With --approve: the agreement that permits it.")
    ] = "",
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
    """Show what recipients ask for and what each coalition could recover then; answer them.

    What waits for a second person is shown and answered too.
    """
    from cornerwave.access import Approvals

    sharing = open_sharing(vault)
    approvals = Approvals(sharing.vault)
    if approve is not None or decline is not None:
        _check_answer(approve, decline, privacy, until or contract)
        if any(each.id in (approve, decline) for each in approvals.waiting()):
            _check_second_answer(privacy, until or contract, words)
            done = approvals.decide(approve or decline or "", approve=approve is not None)
            then = "; release it again" * bool(done.copies and approve)
            say(f"{'Approved' if approve else 'Declined'}: {done.what}{then}")
            return
        _answer(
            sharing,
            approve,
            decline,
            privacy=privacy,
            contract=contract,
            until=until,
            words=words,
        )
        return
    ids = None if name is None else [each.id for each in tables_of(sharing.vault, name)]
    every = sharing.waiting(datasets=ids, answered=all_, privacy=privacy)
    second = approvals.waiting(datasets=ids, state=None if all_ else "open")
    if as_json:
        print_json([*(_json(each) for each in every), *(_second_json(each) for each in second)])
        return
    for waits in second:
        by = f" by {waits.decided_by}" if waits.decided_by else ""
        asks = f"{waits.asker} asks for a second person: {waits.what}"
        tell(f"{waits.id}  {asks} ({waits.state}{by})")
        if waits.state == "open" and (coalitions := approvals.foreseen(waits)):
            _show_coalitions(coalitions)
    if not every and not second:
        say("Nobody has asked for anything." if all_ else "No request waits for an answer.")
    for each in every:
        _show(each)


def _check_answer(
    approve: str | None, decline: str | None, privacy: float | None, terms: str | None
) -> None:
    if approve is not None and decline is not None:
        raise VaultError("approve a request or decline it: give one of --approve and --decline")
    if decline is not None and (privacy is not None or terms):
        raise VaultError("--privacy, --contract and --until belong to a request that you --approve")


def _check_second_answer(privacy: float | None, terms: str | None, words: str) -> None:
    if privacy is not None or terms or words:
        raise VaultError(
            "this waits for a second person, who approves or declines it as it is: leave out "
            "--privacy, --contract, --until and --words"
        )


def _second_json(each: "Proposal") -> JsonObject:
    return {
        "id": each.id,
        "second_person": each.what,
        "asker": each.asker,
        "at": each.at,
        "state": each.state,
        "decided_by": each.decided_by or None,
    }


def _answer(
    sharing: "Sharing",
    approve: str | None,
    decline: str | None,
    *,
    privacy: float | None,
    contract: str,
    until: str | None,
    words: str,
) -> None:
    """Answer a request; what approving it changes is shown first."""
    from cornerwave.columns import listed

    asked = sharing.open_request(approve or decline or "")
    if decline is not None:
        sharing.answer(asked.id, decline=True, words=words)
        say(f"Declined: {asked.recipient} does not get {asked.name} at {asked.privacy:g}")
        return
    tables = sharing.requested(asked)
    _show_coalitions(sharing.foreseen(asked, privacy=privacy))
    sharing.answer(asked.id, privacy=privacy, contract=contract, until=until, words=words)
    level = asked.privacy if privacy is None else privacy
    names = [each.name for each in tables]
    say(f"{asked.recipient} may fetch {listed(names, str)} at privacy {level:g}")


def _json(waiting: "Waiting") -> JsonObject:
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
