"""The original of an audit: read as its copies were, and in the order of their rows."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cornerwave.cli._options import open_vault
from cornerwave.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cornerwave.choices import ReadingSettings
    from cornerwave.sources import Source
    from cornerwave.spec import CopyMetadata


def as_read(
    reading: "ReadingSettings | None", copies: "Sequence[Path]"
) -> "ReadingSettings | None":
    """Return how to read the original; what is missing there as its copies state, unless given."""
    from cornerwave.choices import ReadingSettings
    from cornerwave.outputs import read_metadata

    settings = reading or ReadingSettings()
    if settings.missing is not None or not copies:
        return reading
    try:
        stated = read_metadata(copies[0])
    except SourceError:  # raised again when the copy itself is opened
        return reading
    if stated is None:
        return reading
    columns = {about.source or name: about.marks for name, about in stated.columns.items()}
    marks = tuple((name, cells) for name, cells in columns.items() if cells is not None)
    return replace(settings, missing=stated.missing, column_missing=marks or None)


def as_copied(
    source: "Source",
    copies: "Sequence[Path]",
    key: str | None,
    vault: Path | None,
    closing: ExitStack,
) -> "tuple[Source, list[str]]":
    """Return the original in the order of its shuffled copies, or with their pseudonyms.

    And a line about it. Only the vault that made them knows either: the original is returned
    as it is if rows can be matched without it, by position or by this key, or if no vault here
    knows their dataset.
    """
    from cornerwave.choices import SHUFFLE
    from cornerwave.outputs import read_metadata
    from cornerwave.sources import open_source
    from cornerwave.spec import CopyMetadata
    from cornerwave.vault import is_vault, vault_place

    try:
        stated = (read_metadata(copies[0]) if copies else None) or CopyMetadata()
    except SourceError:  # raised again when the copy itself is opened
        return source, []
    is_matched = stated.order != SHUFFLE if key is None else not _is_pseudonym(key, stated)
    if is_matched or not (vault or is_vault(vault_place())):
        return source, []
    opened = open_vault(vault)
    names = {each.id: each.name for each in opened.datasets()}
    if (name := names.get(stated.dataset or "")) is None:
        return source, []
    dataset = opened.dataset(name, source=source)
    place = closing.enter_context(dataset.work_folder()) / f"{source.name}.arrow"
    dataset.write_in_copies_order(place, edition=stated.edition, batch=stated.batch)
    done = "put into the order" if key is None else "given the pseudonyms"
    return open_source(place), [f"The rows of {source.name} were {done} of the copies of {name}"]


def _is_pseudonym(key: str, stated: "CopyMetadata") -> bool:
    """Whether a copy states that it has pseudonyms in place of a column of the original."""
    columns = stated.columns.items()
    return any(about.pseudonym and (about.source or name) == key for name, about in columns)
