"""The project file: what an owner states about the tables of a vault, in TOML.

    vault = ".cornerwave"                  # paths are relative to this file
    recipients = ["partner", "public"]

    [[recipient]]                          # one with the terms that they have everything on
    name = "institute"
    purpose = "a study of wages"
    contract = "DSA 2027-03"
    until = 2027-12-31

    [[table]]
    name = "people"
    source = "people.parquet"              # linked tables: { patients = "p.csv", visits = "v.csv" }
    schema = "people.toml"                 # or [table.schema], with what a schema file has
    unrelated = ["pets"]

    [[table.edition]]
    append = "waves/*.parquet"             # or update = "people-2.parquet"; * is any text

    [[table.copy]]
    to = "partner"
    privacy = 0.5
    out = "copies/partner.parquet"

    [[table.grant]]
    to = "public"
    privacy = 0.8
    until = 2027-12-31

Every key is declared below with the kind of its values; a key that is not declared is refused.
"""

import glob
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from cornerwave.access import ANYBODY, ANYBODY_KNOWN
from cornerwave.choices import FLAG, Bounds
from cornerwave.columns import Finish
from cornerwave.editions import APPENDED, UPDATED
from cornerwave.errors import LevelError, ProjectError, SourceError, nearest
from cornerwave.kinds import Kind, ListOf, OneOf, TableOf, Text
from cornerwave.ledger import MOST_WORDS, NO_TERMS, Terms
from cornerwave.levels import ADVERSARIES, LINEAR, Level, Privacy, asked_for
from cornerwave.schema_file import InlineSchema, SchemaPlace, TomlTable, parsed_toml
from cornerwave.sources import DatabaseAddress, Place, place_of

FILE = "cornerwave.toml"
"""The usual name of a project file."""


class _Number(Kind):
    """A number; whether it can be a level is decided where levels are."""

    allowed = "a number, without quotes"

    def accepts(self, value: Any) -> bool:
        """Whether it is a number."""
        return isinstance(value, int | float) and not isinstance(value, bool)


class _Sources(Kind):
    """A source, or the source of each of several tables."""

    allowed = 'a path or an address, or those of linked tables, as in { patients = "p.csv", ... }'

    def accepts(self, value: Any) -> bool:
        """Whether it is one, or names some."""
        return _NAME.accepts(value) or (TableOf(_NAME, "").accepts(value) and bool(value))


class _FileOrTable(Kind):
    """The name of a schema file, or what it has as a table."""

    allowed = "the name of a schema file, or a [table.schema] with what such a file has"

    def accepts(self, value: Any) -> bool:
        """Whether it is either."""
        return _NAME.accepts(value) or isinstance(value, dict)


class _Moment(Kind):
    """A date, or a time."""

    allowed = "a date, such as 2027-01-31"

    def accepts(self, value: Any) -> bool:
        """Whether it is a date or a time, or states one in quotes."""
        if not isinstance(value, str):
            return isinstance(value, date)
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return False
        return True


_NAME = Text("a name in quotes", least=1)
_WORDS = Text("text in one line", most=MOST_WORDS)
_NAMES = ListOf(_NAME, 'a list of names, as in ["a", "b"]')
_LEVEL = {"privacy": _Number(), "noise": _Number(), "against": OneOf(*ADVERSARIES)}
_TERMS = {"purpose": _WORDS, "contract": _WORDS, "until": _Moment()}
_FINISH = {"round": _NAMES, "clip": TableOf(Bounds(), "bounds by column, as in { age = [0, inf] }")}

PROJECT: Mapping[str, Kind | None] = {
    "vault": _NAME,
    "recipients": _NAMES,
    "recipient": None,
    "table": None,
}
RECIPIENT: Mapping[str, Kind | None] = {"name": _NAME, **_TERMS}
TABLE: Mapping[str, Kind | None] = {
    "name": _NAME,
    "source": _Sources(),
    "schema": _FileOrTable(),
    "unrelated": _NAMES,
    **dict.fromkeys(("edition", "copy", "grant")),
}
EDITION: Mapping[str, Kind | None] = {
    "append": _NAME,
    "update": _NAME,
    "table": _NAME,
    "advancing": _NAMES,
}
COPY: Mapping[str, Kind | None] = {
    "to": _NAME,
    **_LEVEL,
    "out": _NAME,
    **_TERMS,
    **_FINISH,
    **dict.fromkeys(("raw", "dictionary", "another"), FLAG),
}
GRANT: Mapping[str, Kind | None] = {"to": _NAME, **_LEVEL, **_TERMS, **_FINISH}
"""The keys of each table of the file, and the kind of their values; None is a list of tables."""


def is_there(path: Path) -> bool:
    """Whether something lies at a path; at a name that no file can have, nothing does."""
    try:
        return path.exists()
    except OSError:
        return False


@dataclass(frozen=True)
class StatedPlace:
    """A place, and how the file names it."""

    place: Place
    written: str

    @property
    def file(self) -> Path | None:
        """The file or directory on this machine, if it is one, or a database in one."""
        return (
            self.place.file
            if isinstance(self.place, DatabaseAddress)
            else (self.place if isinstance(self.place, Path) else None)
        )

    @property
    def is_missing(self) -> bool:
        """Whether it is on this machine, and nothing lies there."""
        return self.file is not None and not is_there(self.file)


@dataclass(frozen=True)
class StatedEdition:
    """New rows, or a new state of the whole table; of linked tables, those of one `table`."""

    kind: str
    at: StatedPlace
    table: str = ""
    advancing: tuple[str, ...] = ()


@dataclass(frozen=True)
class StatedCopy:
    """A copy for a recipient, and where it is to be; `another` allows a second level."""

    to: str
    asked: Level | Privacy
    out: StatedPlace
    finish: Finish = field(default_factory=Finish)
    terms: Terms = NO_TERMS
    raw: bool = False
    dictionary: bool = False
    another: bool = False


@dataclass(frozen=True)
class StatedGrant:
    """What a recipient may fetch from the service, on some terms."""

    to: str
    asked: Level | Privacy
    terms: Terms = NO_TERMS
    finish: Finish = field(default_factory=Finish)


@dataclass(frozen=True)
class StatedTable:
    """A table, or several linked ones: their `sources` by name, by '' that of a single one."""

    name: str
    sources: Mapping[str, StatedPlace]
    schema: SchemaPlace | None = None
    unrelated: tuple[str, ...] = ()
    editions: tuple[StatedEdition, ...] = ()
    copies: tuple[StatedCopy, ...] = ()
    grants: tuple[StatedGrant, ...] = ()

    @property
    def is_linked(self) -> bool:
        """Whether these are several tables of the same persons."""
        return "" not in self.sources

    def dataset_name(self, table: str) -> str:
        """Return what the ledger calls one of the tables."""
        return f"{self.name}.{table}" if table else self.name


@dataclass(frozen=True)
class ProjectFile:
    """What a project file states."""

    path: Path
    vault: Path | None
    recipients: Mapping[str, Terms | None]
    """By name the terms that they have everything on, None for those that are named alone."""
    tables: tuple[StatedTable, ...]


def read_project(path: Path) -> ProjectFile:
    """Read a project file; a directory stands for the file FILE in it. Raises ProjectError."""
    path = path / FILE if is_there(path) and path.is_dir() else path
    content, folder = parsed_toml(path, ProjectError), path.absolute().parent
    where = path.name
    _check(content, PROJECT, where)
    stated: list[tuple[str, Terms | None]] = [(n, None) for n in content.get("recipients", ())]
    stated += [
        _recipient(each, f"{where}, recipient {number}")
        for number, each in enumerate(_tables(content, "recipient", where), start=1)
    ]
    _check_once([name for name, _ in stated], f"{where}: recipient")
    recipients = dict(stated)
    if reserved := [name for name in recipients if name in (ANYBODY, ANYBODY_KNOWN)]:
        raise ProjectError(f"{where}: {reserved[0]!r} is no recipient to add; only grants name it")
    tables = tuple(
        _TableReader(folder, recipients, where).table(each, number)
        for number, each in enumerate(_tables(content, "table", where), start=1)
    )
    _check_once([each.name for each in tables], f"{where}: table")
    for each in tables:
        for other in tables:
            if each.is_linked and other.name.rpartition(".")[0] == each.name:
                raise ProjectError(f"{where}: {other.name!r} is the name of a table of {each.name}")
    outputs = [str(copy.out.place) for each in tables for copy in each.copies]
    _check_once(outputs, f"{where}: out")
    vault = content.get("vault")
    return ProjectFile(path, None if vault is None else folder / vault, recipients, tables)


@dataclass(frozen=True)
class _TableReader:
    """Reads the tables of a project file that lies in a folder."""

    folder: Path
    recipients: Collection[str]
    file: str

    def table(self, stated: TomlTable, number: int) -> StatedTable:
        """Return a [[table]]."""
        name = stated.get("name")
        called = repr(name) if isinstance(name, str) else str(number)
        where = f"{self.file}, table {called}"
        _check(stated, TABLE, where, needed=("name", "source"))
        source = stated["source"]
        sources = {"": source} if isinstance(source, str) else source
        editions = [
            each
            for number, edition in enumerate(_tables(stated, "edition", where), start=1)
            for each in self._editions(edition, f"{where}, edition {number}", list(sources))
        ]
        copies = [
            self._copy(each, f"{where}, copy {number}")
            for number, each in enumerate(_tables(stated, "copy", where), start=1)
        ]
        grants = [
            self._grant(each, f"{where}, grant {number}")
            for number, each in enumerate(_tables(stated, "grant", where), start=1)
        ]
        finishes = [*(each.finish for each in copies), *(each.finish for each in grants)]
        if "" not in sources and any(each.round or each.clip for each in finishes):
            raise ProjectError(f"{where}: linked tables are released whole: leave out round, clip")
        return StatedTable(
            name=stated["name"],
            sources={table: self._at(place, where) for table, place in sources.items()},
            schema=self._schema(stated.get("schema"), where),
            unrelated=tuple(stated.get("unrelated", ())),
            editions=tuple(editions),
            copies=tuple(copies),
            grants=tuple(grants),
        )

    def _schema(self, stated: Any, where: str) -> SchemaPlace | None:
        if isinstance(stated, dict):
            return InlineSchema(stated, f"{where.replace('/', ' ')}, schema")
        return None if stated is None else self.folder / stated

    def _editions(
        self, stated: TomlTable, where: str, tables: list[str]
    ) -> Iterator[StatedEdition]:
        """Yield the edition of a [[table.edition]], or those of all files that a name fits."""
        _check(stated, EDITION, where)
        if ("append" in stated) == ("update" in stated):
            raise ProjectError(f"{where}: give new rows as append, or the whole table as update")
        key = "append" if "append" in stated else "update"
        table = stated.get("table", "")
        if table not in tables:
            known = ", ".join(tables)
            raise ProjectError(
                f"{where}: {table!r} is no table of these; name one of {known} as table"
                if known
                else f"{where}: this is a single table; leave out table"
            )
        if key == "append" and "advancing" in stated:
            raise ProjectError(f"{where}: advancing is for update")
        for written in self._files(stated[key]):
            yield StatedEdition(
                APPENDED if key == "append" else UPDATED,
                self._at(written, where),
                table,
                tuple(stated.get("advancing", ())),
            )

    def _files(self, written: str) -> list[str]:
        """Return a name, or those of all files that a name with * fits, in their order."""
        if "*" not in written or "://" in written or "\0" in written:
            return [written]
        # in brackets [ and ? stand for themselves
        pattern = written.replace("[", "[[]").replace("?", "[?]")
        return sorted(glob.glob(pattern, root_dir=self.folder))  # noqa: PTH207 (keeps it relative)

    def _copy(self, stated: TomlTable, where: str) -> StatedCopy:
        _check(stated, COPY, where, needed=("to", "out"))
        flags = {key: stated.get(key, False) for key in ("raw", "dictionary", "another")}
        to = self._recipient(stated["to"], where)
        out = self._at(stated["out"], where)
        if flags["dictionary"] and isinstance(out.place, DatabaseAddress) and out.place.table:
            raise ProjectError(f"{where}: a dictionary is a file beside a copy, and out is a table")
        asked, terms = _asked(stated, where), _terms(stated)
        return StatedCopy(to, asked, out, _finish(stated), terms, **flags)

    def _grant(self, stated: TomlTable, where: str) -> StatedGrant:
        _check(stated, GRANT, where, needed=("to",))
        to = stated["to"]
        if to not in (ANYBODY, ANYBODY_KNOWN):
            self._recipient(to, where)
        return StatedGrant(to, _asked(stated, where), _terms(stated), _finish(stated))

    def _recipient(self, name: str, where: str) -> str:
        if name not in self.recipients:
            close = nearest(name, self.recipients)
            raise ProjectError(f"{where}: recipients does not name {name!r}{close}; add it there")
        return name

    def _at(self, written: str, where: str) -> StatedPlace:
        """Return the place of a name: of a path, relative to the folder of the file."""
        try:
            return StatedPlace(
                place_of(written if "://" in written else str(self.folder / written)), written
            )
        except SourceError as error:
            raise ProjectError(f"{where}: {error}") from None


def _check(
    stated: TomlTable,
    known: Mapping[str, Kind | None],
    where: str,
    needed: tuple[str, ...] = (),
) -> None:
    """Raise ProjectError for a key that is not known or not there, or a value of another kind."""
    if unknown := [key for key in stated if key not in known]:
        close = nearest(unknown[0], known)
        raise ProjectError(f"{where}: unknown key {unknown[0]!r}{close}; use {', '.join(known)}")
    if missing := [key for key in needed if key not in stated]:
        raise ProjectError(f"{where}: {missing[0]} is missing")
    for key, value in stated.items():
        kind = known[key]
        if kind is not None and not kind.accepts(value):
            raise ProjectError(f"{where}: {key} must be {kind.allowed}")


def _tables(stated: TomlTable, key: str, where: str) -> list[TomlTable]:
    tables = stated.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        header = key if key in PROJECT else f"table.{key}"
        raise ProjectError(f"{where}: write each {key} as a [[{header}]] table")
    return tables


def _check_once(names: Any, what: str) -> None:
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ProjectError(f"{what} {twice[0]!r} is stated twice")


def _asked(stated: TomlTable, where: str) -> Level | Privacy:
    against = stated.get("against", LINEAR)
    try:
        return asked_for(noise=stated.get("noise"), privacy=stated.get("privacy"), against=against)
    except LevelError as error:
        raise ProjectError(f"{where}: {error}") from None


def _recipient(stated: TomlTable, where: str) -> tuple[str, Terms | None]:
    """Return the name and the terms of a [[recipient]]."""
    _check(stated, RECIPIENT, where, needed=("name",))
    return stated["name"], _terms(stated)


def _terms(stated: TomlTable) -> Terms:
    until = _time(stated["until"]) if "until" in stated else None
    return Terms.of(
        purpose=stated.get("purpose", ""), contract=stated.get("contract", ""), until=until
    )


def _finish(stated: TomlTable) -> Finish:
    bounds = Bounds()
    clip = {name: bounds.parsed(ends) for name, ends in stated.get("clip", {}).items()}
    return Finish(frozenset(stated.get("round", ())), clip)


def _time(stated: Any) -> datetime:
    """Return a time; a date alone is its beginning in UTC."""
    if isinstance(stated, str):
        stated = datetime.fromisoformat(stated)
    if not isinstance(stated, datetime):
        stated = datetime(stated.year, stated.month, stated.day)
    at: datetime = stated
    return at if at.tzinfo else at.replace(tzinfo=UTC)
