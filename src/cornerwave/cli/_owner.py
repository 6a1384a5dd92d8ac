"""What the owner begins with: init, inspect, register."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.choices import Choices, ReadingSettings
from cornerwave.cli._options import (
    EngineOption,
    MasterOption,
    VaultOption,
    advice_for,
    cluster,
    open_vault,
    read_by,
)
from cornerwave.cli._screen import progress, say
from cornerwave.errors import CornerwaveError, OutputExists, spelled

if TYPE_CHECKING:
    from cornerwave.vault import Dataset


def init(
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Keep the ledger in PostgreSQL: postgresql://HOST/DATABASE."
        ),
    ] = None,
    new_ledger: Annotated[
        bool,
        typer.Option(
            "--new-ledger",
            help="Create an empty ledger for the existing key, if the ledger was lost.",
        ),
    ] = False,
    vault: VaultOption = None,
) -> None:
    """Create a vault: a secret key and an empty ledger."""
    from cornerwave.vault import KEY_FILE, Vault, is_vault, key_place, vault_place

    place = vault_place(vault)
    existed = is_vault(place)
    made = Vault.create(
        place, key_file=key_place(), ledger=ledger, new_ledger=new_ledger, exist_ok=True
    )
    if existed:
        held = [spelled(dataset.name) for dataset in made.datasets()]
        contents = f"It holds {', '.join(held)}" if held else "It is empty"
        say(f"There is a vault in {made.path} already. {contents}. Nothing was changed.")
        return
    if new_ledger:
        say(
            f"Created an empty ledger for the vault {made.path}. Register the same tables with "
            "the same choices to get the same copies. The record of who holds them is lost."
        )
        return
    say(f"Created a vault in {made.path}")
    say(
        f"Its key is {key_place() or made.path / KEY_FILE}. Back it up in a safe place: without "
        "it no copy can be made again, and anyone who has it can remove the noise."
    )


def register(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    source: Annotated[
        str,
        typer.Argument(
            help="CSV, Parquet, Arrow, Excel, Stata, SPSS, SAS, a directory, a database; a path, "
            "or an address: s3://, gs://, abfs://, https://, postgresql://."
        ),
    ],
    choices: Choices,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Read all choices from a file; `inspect` drafts one."
        ),
    ] = None,
    unrelated: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATASET",
            help="Do not compare with a dataset whose values agree by chance (repeatable).",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do everything but record the dataset.")
    ] = False,
    engine: EngineOption = "local",
    master: MasterOption = None,
    vault: VaultOption = None,
    *,
    reading: ReadingSettings,
) -> None:
    """Register a table before its first release."""
    from cornerwave.outlook import explained

    opened = open_vault(vault)
    with (
        advice_for(schema),
        cluster(engine, master) as session,
        progress("Reading") as advance,
    ):
        dataset = opened.register_as(
            name,
            read_by(session, source),
            choices,
            schema=schema,
            reading=reading,
            unrelated=tuple(unrelated or ()),
            dry_run=dry_run,
            spark=session,
            progress=advance,
        )
    for line in _registered(dataset, "Would register" if dry_run else "Registered"):
        say(line)
    for line in explained(dataset.frozen):
        say(f"  {line}")


_ORDERS = {
    "shuffle": "order of the rows: shuffled, the same in every copy",
    "keep": "order of the rows: kept, whatever it reveals",
}


def _registered(dataset: "Dataset", done: str) -> Iterator[str]:
    from cornerwave.columns import chosen_in, listed

    frozen = dataset.frozen
    key, pseudonym = frozen.schema.key, frozen.schema.pseudonym
    yield f"{done} {dataset.name}: {frozen.rows:,} rows"
    for what, groups in (
        ("perturbed", [(name,) for name in frozen.schema.perturbed]),
        ("refreshed", frozen.schema.categories),
        ("released unchanged", [(name,) for name in frozen.schema.kept]),
        ("key, a pseudonym in copies", [(pseudonym,)] if pseudonym else []),
        ("key, released unchanged", [(n,) for n in frozen.schema.unchanged if n == key]),
        ("missing values stay missing", [(name,) for name in frozen.missing]),
    ):
        if groups:
            yield f"  {what}: {listed(['+'.join(map(spelled, group)) for group in groups], str)}"
    looks = chosen_in(frozen.schema)
    for what, columns_ in (("always rounded", looks.round), ("clipped", looks.clip)):
        if columns_:
            yield f"  {what} in copies: {', '.join(map(spelled, sorted(columns_)))}"
    for column, called in looks.names.items():
        yield f"  called {spelled(called)} in copies: {spelled(column)}"
    if dataset.entry.unrelated:
        yield "  not compared with datasets that you declared unrelated: if they share values,"
        yield "  recipients of both can average the noise"
    if frozen.schema.order is not None:
        yield f"  {_ORDERS[frozen.schema.order]}"
    if frozen.schema.independent_rows:
        yield "  rows: independent, as stated; several rows of one person are not hidden together"
    for each in frozen.categories:
        if each.pooled:
            name = "+".join(map(spelled, each.columns))
            yield f"  pooled: rare values of {name}, {each.counts[-1]:,} rows in total"


def inspect(
    source: Annotated[str, typer.Argument(help="A table, as for `register`.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the draft to a new file.")
    ] = None,
    *,
    reading: ReadingSettings,
) -> None:
    """Look at a table and draft a schema file for `register`."""
    from cornerwave.inspection import draft, how_read
    from cornerwave.inspection import inspect as look
    from cornerwave.outputs import write_text
    from cornerwave.sources import open_to_inspect

    with progress("Inspecting") as advance:
        opened = open_to_inspect(source, reading)
        text = draft(look(opened, progress=advance)) + how_read(opened)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        write_text(out, text, force=False)
    except OutputExists:
        raise OutputExists(f"{out} exists with other content; choose another name") from None
    if (name := _registered_as(source)) is None:
        place = shlex.quote(str(opened.path))
        say(f"Wrote {out}; edit it, then: cornerwave register NAME {place} --schema {out}")
        return
    say(
        f"Wrote {out}. The vault has this table already, as {name}; next: cornerwave release "
        f"{name} --to RECIPIENT --privacy P --out FILE"
    )


def _registered_as(source: str) -> str | None:
    """Return the name under which the vault at hand, if there is one, has registered a file."""
    from cornerwave.vault import is_vault, vault_place

    if not is_vault(vault_place()):
        return None
    try:
        datasets = open_vault(None).datasets()
    except CornerwaveError:  # a vault that cannot be opened is no matter of this table
        return None
    return next((d.name for d in datasets if d.is_from(source)), None)
