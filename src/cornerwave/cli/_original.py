"""The original of an audit: read as its copies were, and in the order of their rows.

Of linked tables each is audited against its copies, with what the others show of its persons.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cornerwave.cli._options import open_vault, table_and_place
from cornerwave.cli._screen import progress, say
from cornerwave.errors import SourceError

if TYPE_CHECKING:
    from cornerwave.audit import Audit, PersonsBeside
    from cornerwave.choices import ReadingSettings
    from cornerwave.document import Document
    from cornerwave.outputs import LinkedFile
    from cornerwave.sources import Source
    from cornerwave.spec import CopyMetadata
    from cornerwave.vault import LinkedDataset


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


def linked_named(source: str, vault: Path | None) -> "LinkedDataset | None":
    """Return the linked tables of this name, if the vault at hand has them and no file does."""
    from cornerwave.vault import is_vault, vault_place

    if Path(source).exists() or not (vault or is_vault(vault_place())):
        return None
    opened = open_vault(vault)
    return opened.linked(source) if opened.has_linked(source) else None


def tables_and_copies(first: str, words: Sequence[str]) -> tuple[dict[str, str], list[Path]]:
    """Return the linked tables that are named with their sources, if they are, and the copies."""
    tables = dict[str, str]()
    words = [first, *words]
    while words and not Path(words[0]).exists():
        table, place = table_and_place(words[0])
        if not table:
            break
        tables[table] = place
        words = words[1:]
    if tables and not words:
        raise SourceError("name the copies after the tables")
    return tables, [Path(word) for word in (words if tables else words[1:])]


def audit_linked_files(
    tables: Mapping[str, str],
    copies: Sequence[Path],
    *,
    unit: "Sequence[str] | None",
    privacy: list[float] | None,
    vault: Path | None,
    reading: "ReadingSettings | None",
) -> "dict[str, Audit]":
    """Audit copies of linked tables from files alone; a vault that knows them orders their rows.

    Raises SourceError for copies of other tables.
    """
    from cornerwave.audit import audit
    from cornerwave.outputs import linked_files
    from cornerwave.sources import open_source

    opened, audits = [linked_files(path) for path in copies], {}
    for path, files in zip(copies, opened, strict=True):
        if unlike := sorted(files.keys() ^ tables.keys()):
            raise SourceError(
                f"{path} has the tables {', '.join(files)}: name each of them with its source, and "
                f"no other ({', '.join(unlike)})"
            )
    with progress("Auditing") as advance, ExitStack() as closing:
        for table, place in tables.items():
            paths = [files[table].path for files in opened]
            truth = open_source(place, reading=as_read(reading, paths))
            original, done = as_copied(truth, paths, None, vault, closing)
            result = audit(
                original,
                paths,
                unit=unit if unit and {*unit} <= {*truth.schema.names} else None,
                privacy=privacy,
                others=[_beside(files, table) for files in opened],
                progress=advance,
            )
            for line in done:
                say(line)
            audits[table] = replace(result, source=table, copies=_names(copies))
    return audits


def _names(copies: Sequence[Path]) -> tuple[str, ...]:
    names = tuple(path.name for path in copies)
    return names if len(set(names)) == len(names) else tuple(map(str, copies))


def audit_linked(
    linked: "LinkedDataset",
    copies: Sequence[Path],
    *,
    unit: "Sequence[str] | None",
    privacy: list[float] | None,
) -> "dict[str, Audit]":
    """Audit copies of linked tables, each a folder, a .zip or a .duckdb file, table by table.

    Raises SourceError for copies of other tables.
    """
    from cornerwave.audit import audit
    from cornerwave.outputs import linked_files

    opened, audits = [linked_files(path) for path in copies], {}
    _check(linked, opened, copies)
    with progress("Auditing") as advance, ExitStack() as closing:
        for table, dataset in linked.tables.items():
            stated = opened[0][table].stated
            place = closing.enter_context(dataset.work_folder()) / f"{dataset.name}.arrow"
            dataset.write_in_copies_order(place, edition=stated.edition, batch=stated.batch)
            result = audit(
                place,
                [files[table].path for files in opened],
                unit=unit if stated.unit else None,
                privacy=privacy,
                others=[_beside(files, table) for files in opened],
                progress=advance,
            )
            audits[dataset.name] = replace(result, source=dataset.name, copies=_names(copies))
    return audits


def _check(
    linked: "LinkedDataset", opened: "Sequence[dict[str, LinkedFile]]", copies: Sequence[Path]
) -> None:
    ids = {table: dataset.id for table, dataset in linked.tables.items()}
    for path, files in zip(copies, opened, strict=True):
        if {table: file.stated.dataset for table, file in files.items()} != ids:
            raise SourceError(f"{path} is not a copy of the linked tables {linked.name!r}")


def _beside(files: "dict[str, LinkedFile]", table: str) -> "PersonsBeside":
    """Return what the other tables of a copy show of persons."""
    from cornerwave.audit import PersonsBeside
    from cornerwave.sources import open_source

    others = [file for name, file in files.items() if name != table]
    return PersonsBeside.of([(open_source(file.path), file.stated) for file in others])


def linked_audit_document(name: str, audits: "dict[str, Audit]") -> "Document":
    """Return the audits of all tables as one document."""
    from cornerwave.audit import audit_document
    from cornerwave.document import of_tables

    tables = {table: audit_document(each) for table, each in audits.items()}
    verdict = " ".join(f"{table}: {each.verdict}" for table, each in tables.items())
    return of_tables(f"Audit of {name}", verdict, tables)
