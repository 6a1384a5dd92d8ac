"""`dossier`: write one, check one, export the public key of signatures."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import (
    SourceOption,
    VaultOption,
    named,
    open_vault,
    tables_of,
)
from cornerwave.cli._screen import progress, say, tell
from cornerwave.errors import DossierError, VaultError

if TYPE_CHECKING:
    from cornerwave.dossier import Checked

DIFFERS = 1


def dossier(
    name: Annotated[
        str | None, typer.Argument(help="The dataset, or linked tables; none with --check.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write it: a page (.html), or .json."),
    ] = None,
    for_: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="RECIPIENT", help="Only about this recipient (repeatable)."),
    ] = None,
    coalition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...", help="Recipients who might pool their copies (repeatable)."
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Check a dossier: its signature, and all its figures."),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.pem",
            help="With --check: check the signature by this key alone, without a vault. "
            "Otherwise: write the public key of this vault there.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    source: SourceOption = None,
    vault: VaultOption = None,
) -> None:
    """Write one signed document for an auditor about a dataset, or check one."""
    if check is not None:
        if name is not None or out is not None or for_ or coalition:
            raise VaultError("--check reads all it needs from the file: leave out the rest")
        _report(_checked(check, public_key, vault, source))
    elif name is None:
        if public_key is None or out is not None:
            raise VaultError("name a dataset, or give --check FILE, or --public-key FILE.pem")
        _write_public_key(public_key, vault, force=force)
    elif public_key is not None:
        raise VaultError("write the public key by itself: leave out the dataset")
    elif out is None:
        raise VaultError("name the file to write with --out: FILE.html or FILE.json")
    else:
        _write(name, out, for_ or [], coalition or [], source, vault, force=force)


def _write(
    name: str,
    out: Path,
    recipients: list[str],
    coalitions: list[str],
    source: list[str] | None,
    vault: Path | None,
    *,
    force: bool,
) -> None:
    from cornerwave.dossier import write_dossier

    opened = open_vault(vault)
    rows = sum(each.rows for each in tables_of(opened, name, source))
    pooling = [[each.strip() for each in text.split(",")] for text in coalitions]
    with progress("Measuring", rows) as advance:
        path = write_dossier(
            opened,
            named(opened, name, source),
            out,
            recipients=recipients,
            coalitions=pooling,
            force=force,
            progress=advance,
        )
    say(f"Wrote {path}, signed. Next: cornerwave dossier --check {path}")


def _write_public_key(path: Path, vault: Path | None, *, force: bool) -> None:
    """Write the public key of a vault's signatures."""
    from cornerwave.keyed import fingerprint_of
    from cornerwave.outputs import check_place, write_text

    key = open_vault(vault).public_key
    check_place(path, force=force)
    write_text(path, key.decode(), force=force)
    say(f"Wrote {path}: the public key {fingerprint_of(key)}. Hand it over by another way than")
    say("dossiers, so that nobody can exchange both")


def _checked(
    path: Path, public_key: Path | None, vault: Path | None, source: list[str] | None
) -> "Checked":
    """Return what a check finds: with a public key of the signature alone."""
    from cornerwave.dossier import check_dossier, check_signature

    if public_key is None:
        with progress("Measuring again") as advance:
            opened = open_vault(vault)
            find = partial(named, opened, source=source)
            return check_dossier(opened, path, find=find, progress=advance)
    if source:
        raise VaultError("--source is for measuring again, which takes the vault: no --public-key")
    try:
        key = public_key.read_bytes()
    except OSError as error:
        raise DossierError(f"{public_key} cannot be read: {error.strerror}") from None
    return check_signature(path, key)


def _report(found: "Checked") -> None:
    """Print what a check found line by line. Exits 1 if anything differs."""
    for line in found.differs:
        tell(f"DIFFERS {line}")
    for line in found.noted:
        say(f"note: {line}")
    if not found.holds:
        lines = "line differs" if len(found.differs) == 1 else "lines differ"
        say(f"{len(found.differs)} {lines}")
        raise typer.Exit(DIFFERS)
    tell(f"Nothing differs: {'; '.join(found.checked)}")
