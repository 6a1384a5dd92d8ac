"""Tables that change: append, update."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cornerwave.cli._options import (
    EngineOption,
    MasterOption,
    SourceOption,
    VaultOption,
    cluster,
    open_vault,
    read_by,
)
from cornerwave.cli._screen import progress, say
from cornerwave.errors import spelled

if TYPE_CHECKING:
    from cornerwave.editions import Edition

Name = Annotated[str, typer.Argument(help="The dataset.")]


def append(
    name: Name,
    batch: Annotated[str, typer.Argument(help="New rows, with the registered columns.")],
    source: SourceOption = None,
    engine: EngineOption = "local",
    master: MasterOption = None,
    vault: VaultOption = None,
) -> None:
    """Append new rows to a registered table: the next edition."""
    with cluster(engine, master) as session, progress("Reading") as advance:
        dataset = open_vault(vault).dataset(name, source=read_by(session, source))
        made = dataset.append(read_by(session, batch), spark=session, progress=advance)
    say(
        f"Edition {made.number} of {name}: {made.rows_brought:,} rows came, "
        f"{made.rows:,} rows in all"
    )
    for line in made.drift.sentences() if made.drift else ():
        say(f"  {line}")


def update(
    name: Name,
    new: Annotated[Path, typer.Argument(help="The whole table as it is now.")],
    old: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The last edition; default: where it was registered."),
    ] = None,
    advancing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Accept a category whose old values predict the new ones: copies of several "
            "editions uncover it (repeatable).",
        ),
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Make a changed table the next edition: rows that came, went and changed."""
    dataset = open_vault(vault).dataset(name)
    with progress("Comparing", 4 * dataset.rows) as advance:
        made = dataset.update(new, old=old, advancing=advancing or (), progress=advance)
    for line in _changes(name, made):
        say(line)
    for line in made.drift.sentences() if made.drift else ():
        say(f"  {line}")


def _changes(name: str, made: "Edition") -> Iterator[str]:
    """Say what an edition changed, and what copies of it and of the one before hide."""
    changes = made.changes
    assert changes is not None, "an updated table states its changes"
    yield (
        f"Edition {made.number} of {name}: {changes.came:,} rows came, {changes.went:,} went "
        f"and {changes.changed:,} changed; {made.rows:,} rows in all"
    )
    if back := changes.returned:
        yield f"  {back:,} of the rows that came were in an earlier edition"
    for column, count in changes.columns.items():
        yield f"  {spelled(column)}: {count:,} values changed"
    if hides := changes.hides:
        yield (
            "  the numbers of both editions at privacy 0.5 hide, of rows that changed, at "
            f"least {hides['value']:.3f} of each value, {hides['mean']:.3f} of their mean and "
            f"{hides['change']:.3f} of each change"
        )
    for name, moved in changes.moves.items():
        yield (
            f"  {name}: of its {moved.rows:,} new values the old one and the change reveal "
            f"{moved.predicted:.0%}; what copies of several editions reveal of them together is "
            "not bounded"
        )
    yield "  which rows came, went and changed is visible to holders of copies of both editions"


# --------------------------------------------------------------------------------------------------
# What happens to a dataset after it was registered: schema, rename, close, unregister.


def schema(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write it to a new file.")
    ] = None,
    vault: VaultOption = None,
) -> None:
    """Print the schema file of what was registered."""
    text = open_vault(vault).dataset(name).schema_file()
    if out is None:
        typer.echo(text, nl=False)
        return
    from cornerwave.outputs import write_text

    write_text(out, text, force=False)
    say(f"Wrote {out}")


def rename(
    old: Annotated[str, typer.Argument(help="The dataset.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    vault: VaultOption = None,
) -> None:
    """Give a dataset another name."""
    open_vault(vault).dataset(old).rename(new)
    say(f"{old} is called {new} from now on")


def close(name: Name, vault: VaultOption = None) -> None:
    """End the releases of a dataset; the ledger keeps who holds what."""
    dataset = open_vault(vault).dataset(name)
    dataset.close()
    say(f"Closed {name} at {dataset.closed}: its copies can be made again, and no others released")


def unregister(name: Name, vault: VaultOption = None) -> None:
    """Forget a dataset of which nothing was released yet."""
    open_vault(vault).unregister(name)
    say(f"Unregistered {name}; its table can be registered again, also with other choices")
