"""What happens to a dataset after it was registered: schema, rename, close, unregister."""

from pathlib import Path
from typing import Annotated

import typer

from cornerwave.cli._options import VaultOption, open_vault
from cornerwave.cli._screen import say

Name = Annotated[str, typer.Argument(help="The dataset.")]


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
    from cornerwave.table import write_text

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
