"""Tables that change: append."""

from pathlib import Path
from typing import Annotated

import typer

from cornerwave.cli._options import SourceOption, VaultOption, open_vault
from cornerwave.cli._screen import progress, say

Name = Annotated[str, typer.Argument(help="The dataset.")]


def append(
    name: Name,
    batch: Annotated[Path, typer.Argument(help="New rows, with the registered columns.")],
    source: SourceOption = None,
    vault: VaultOption = None,
) -> None:
    """Append new rows to a registered table: the next edition."""
    from cornerwave.editions import Drift

    dataset = open_vault(vault).dataset(name, source=source or None)
    with progress("Reading") as advance:
        made = dataset.append(batch, progress=advance)
    say(
        f"Edition {made.number} of {name}: {made.rows_brought:,} rows came, "
        f"{made.rows:,} rows in all"
    )
    for line in Drift(**made.drift).sentences():
        say(f"  {line}")
