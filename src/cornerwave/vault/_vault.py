"""What the owner works with: a vault, and through it its datasets and their releases.

vault = Vault.create("here/.cornerwave")
people = vault.register("people", "people.parquet", drop=["name"])
people.release(to="partner", privacy=0.3).write("partner.parquet")
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from cornerwave.choices import ChoiceArguments, Choices, ReadingArguments, ReadingSettings, names_of
from cornerwave.columns import chosen_in
from cornerwave.errors import (
    AlreadyRegistered,
    NoSuchDataset,
    UnsafeKey,
    VaultError,
    VaultExists,
    VaultMissing,
    discreet,
)
from cornerwave.ledger import (
    Act,
    Entry,
    Key,
    Ledger,
    Records,
    State,
    check_address,
    check_name,
    remove_leftovers,
)
from cornerwave.outputs import make_directory, sync_directory
from cornerwave.schema_file import orphans_in
from cornerwave.sources import Progress, silent
from cornerwave.vault._dataset import Dataset
from cornerwave.vault._families import LinkedDataset, check_table_names, register_tables
from cornerwave.vault._parts import WORK, KeptKeys
from cornerwave.vault._to_register import Registration, TableToRegister, read_table, read_tables

VAULT_NAME = ".cornerwave"
KEY_FILE, LEDGER_FILE, LEDGER_URL = "key", "ledger.db", "ledger.url"


class Vault:
    """A directory with a key and a ledger; everything else can be made again from them.

    Make one with `Vault.create`, open it with `Vault.open`.
    """

    def __init__(self, path: Path, key: Key, ledger: Ledger) -> None:
        self.path = path
        self._key = key
        self._ledger = ledger

    @classmethod
    def create(
        cls,
        path: str | Path = VAULT_NAME,
        *,
        key: Key | None = None,
        key_file: str | Path | None = None,
        ledger: str | None = None,
        new_ledger: bool = False,
        exist_ok: bool = False,
    ) -> "Vault":
        """Make a new vault. Raises VaultExists if there is one, UnsafeKey for a seeded key.

        With `exist_ok`, a vault that is there already is opened as it is.

        The key is fresh unless `key`, or a `key_file` made before, is given; a given
        `key_file` stays where it is and must be named again whenever the vault is opened.
        `ledger` names a PostgreSQL database ('postgresql://...') to keep the ledger in,
        instead of a file beside the key. `new_ledger` makes an empty ledger for the key
        that is there: tables registered again give the same copies, but who held what
        before is lost.
        """
        path = Path(path).absolute()
        if ledger is not None:
            check_address(ledger)
        if key is not None and key.is_unsafe:
            raise UnsafeKey("a key made from a seed can be guessed; a vault takes none")
        if is_vault(path):
            is_asked_for = key is None and not new_ledger and ledger in (None, _ledger_place(path))
            if exist_ok and is_asked_for:
                return cls.open(path, key_file=key_file)
            raise VaultExists(f"there is a vault in {path} already; it is never replaced")
        if new_ledger:
            key = Key.read(Path(key_file or path / KEY_FILE))
        elif (path / KEY_FILE).exists():
            raise VaultExists(
                f"there is a key in {path} but no ledger. A key is never replaced: restore the "
                "ledger's latest backup, or make a new ledger for this key",
                use=("new_ledger",),
            )
        with ExitStack() as undo:
            try:
                make_directory(path, 0o700)
                if key_file is not None:
                    key = Key.read(Path(key_file))
                elif not new_ledger:
                    key = key or Key.generate()
                    key.write(path / KEY_FILE)
                    undo.callback((path / KEY_FILE).unlink)  # no ledger, so nothing depends on it
                made = Ledger.create(ledger or path / LEDGER_FILE, _known(key))
                undo.pop_all()
                if ledger is not None:
                    _write_secret(path / LEDGER_URL, ledger + "\n")
                sync_directory(path)  # copies that leave soon depend on what is in it
            except VaultError:
                raise
            except OSError as error:
                raise VaultError(f"no vault can be made in {path}: {error.strerror}") from None
        return cls(path, _known(key), made)

    @classmethod
    def open(cls, path: str | Path = VAULT_NAME, *, key_file: str | Path | None = None) -> "Vault":
        """Open a vault. Raises VaultMissing, WrongKey or LedgerDamaged."""
        path = Path(path).absolute()
        try:
            is_empty = not path.is_dir() or not any(path.iterdir())
        except OSError as error:
            raise VaultError(f"{path} cannot be read: {error.strerror}") from None
        if is_empty:
            raise VaultMissing(f"there is no vault in {path}; make one first", use=("init",))
        key = Key.read(Path(key_file) if key_file else path / KEY_FILE)
        remove_leftovers(path / WORK)
        return cls(path, key, Ledger.open(_ledger_place(path), key))

    def register(
        self,
        name: str,
        source: Any,
        *,
        schema: str | Path | None = None,
        reading: ReadingArguments | None = None,
        unrelated: Iterable[str] = (),
        dry_run: bool = False,
        spark: Any = None,
        progress: Progress = silent,
        **choices: Unpack[ChoiceArguments],
    ) -> "Dataset":
        """Register a table, a file or a frame, and return its dataset.

        Numbers, dates and times are perturbed; text, booleans and `categorical` columns
        are refreshed, from their own frequencies or evenly if `uniform`, those named
        `together` as one; values of fewer than `min_count` rows are pooled. Missing
        values stay so unless the column is in `hide_missing`. `transform` maps columns
        to 'log1p' or 'rank'. `schema` names a file that states all this instead.

        A `key` identifies the rows. Copies have a pseudonym in its place, the same in all of
        them, unless it is released as it is (`key_as_is`) or also dropped.

        If the order of the rows reveals a column, copies `shuffle` the rows, all in the same
        way, or `keep_order` for recipients who need it; otherwise neither is needed.

        A `unit` names the person, or other thing, that rows belong to, as the visits of a patient
        do: copies hide all rows of a person together, and have a pseudonym in its place, unless it
        is also dropped or kept. A table whose rows belong together is refused without a unit,
        unless `independent_rows` states that they do not.

        A table of fewer than 100 rows is refused unless `few_rows` accepts it, and one of fewer
        than 500 warned of: privacy holds on average over rows, and in few each record counts.

        `reading` states how the cells of a text file are spelled, such as {"decimal": ","}; what
        it does not state is found, and the same for every release.

        Copies look like the table where that costs a miner nothing; columns in `round` always
        do, those in `clip` stay between two bounds, and `released_as` gives them other names.
        `describe` states what columns mean, in words that copies carry.

        A table that holds values of another dataset, or functions of them, is refused. Datasets in
        `unrelated` are not compared: if they do have values in common, recipients of both can
        average the noise.

        A `dry_run` does everything but record the dataset.

        A frame of Spark is read by its cluster, and needs a key; with a session as `spark` a
        cluster reads a Parquet file or directory that all of its machines see.

        The same table with the same choices is the same dataset, also in a new ledger.
        Raises SourceError or AlreadyRegistered.
        """
        how = Registration(
            Choices.of(**choices),
            schema=schema,
            reading=None if reading is None else ReadingSettings.of(**reading),
            unrelated=names_of(unrelated),
            dry_run=dry_run,
            spark=spark,
            progress=progress,
        )
        return self.register_as(name, source, how)

    def register_as(self, name: str, source: Any, how: Registration) -> "Dataset":
        """Register a table with choices made as one, or with those in a schema file."""
        check_name(name, what="a dataset's name")
        opened, decided = read_table(source, how)
        others = tuple(self._ledger.dataset(each).id for each in how.unrelated)
        with TableToRegister(opened, decided, self.path, self._key) as table:
            with discreet():
                table.survey(how)
                frozen = table.frozen()
                new = table.entry(name, frozen, unrelated=others)
                beside = table.beside(frozen)
            ledger, former = self._ledger, self.dataset(how.instead) if how.instead else None
            instead = "" if former is None else former.id
            if how.dry_run:
                entry = ledger.rehearse(new, instead=instead)
            else:
                entry = ledger.register(new, beside, instead=instead)
                if former is not None:
                    KeptKeys(self.path, self._key).remove(former)
            if replace(entry, macs={}) == new and not how.dry_run:
                table.keys.publish()
        dataset = self._dataset(entry, opened)
        known, asked = dataset.frozen.schema, frozen.schema
        for what, here, there in (
            ("key", known.pseudonym, asked.pseudonym),
            ("unit", known.unit_pseudonyms or None, asked.unit_pseudonyms or None),
        ):
            if here != there:
                raise AlreadyRegistered(
                    f"{name!r} is registered already, and what its copies have in place of the "
                    f"{what} is decided for all of them: "
                    f"{f'the {what} as it is' if here is None else 'a pseudonym'}"
                )
        if chosen_in(dataset.frozen.schema) != chosen_in(frozen.schema):
            raise AlreadyRegistered(
                f"{name!r} is registered already, with another rounding, clipping, type or name "
                "of a column, or another description. Say for each release what should differ"
            )
        return dataset

    def register_linked(
        self,
        name: str,
        tables: Mapping[str, object],
        *,
        schema: str | Path | None = None,
        orphans: bool = False,
        unrelated: Iterable[str] = (),
        dry_run: bool = False,
        spark: Any = None,
        progress: Progress = silent,
        **choices: Unpack[ChoiceArguments],
    ) -> LinkedDataset:
        """Register several tables of the same persons, such as patients and their visits.

        `tables` maps the name of each to a file or a frame. They have a `unit`, the column that
        states whose row it is; a table may have one row for each person, or several. Copies hide
        what all tables together reveal of a person, and their pseudonyms join. A table without
        that column is released with the others, and its rows are hidden as rows.

        A choice names columns of all tables that have them, or one of a table, as in
        'visits.cost'. `schema` names a file that states all this instead, with a [[table]] for
        each. A person without a row in the table that has one for each is refused unless
        `orphans` may be.

        Raises what `register` raises; then nothing is recorded.
        """
        how = Registration(
            Choices.of(**choices),
            schema=schema,
            unrelated=names_of(unrelated),
            dry_run=dry_run,
            spark=spark,
            progress=progress,
        )
        return self.register_linked_as(name, tables, how, orphans=orphans)

    def register_linked_as(
        self, name: str, tables: Mapping[str, object], how: Registration, *, orphans: bool = False
    ) -> LinkedDataset:
        """Register linked tables with choices made as one, or with those in a schema file."""
        check_name(name, what="a dataset's name")
        check_table_names(tables)
        sources = read_tables(tables, how)
        orphans = orphans or (how.schema is not None and orphans_in(how.schema))
        key, ledger = self._key, self._ledger
        entries = register_tables(ledger, key, self.path, name, sources, how, orphans=orphans)
        made = zip(entries, sources.items(), strict=True)
        return LinkedDataset(name, {t: self._dataset(e, opened) for e, (t, (opened, _)) in made})

    def linked(self, name: str, *, sources: Mapping[str, object] | None = None) -> LinkedDataset:
        """Return linked tables; `sources` states where some of them are now."""
        tables = [n for n in self._ledger.names() if n.rpartition(".")[0] == name]
        given = sources or {}
        members = dict[str, Dataset]()
        order: Sequence[str] = ()
        for each in tables:
            dataset = self.dataset(each, source=given.get(each.rpartition(".")[2]))
            if (family := dataset.frozen.family) is not None:
                members[family.table], order = dataset, family.tables
        if not members:
            self._ledger.dataset(name)  # raises, and states what there is
            raise NoSuchDataset(f"{name!r} is one table, not several linked ones")
        return LinkedDataset(name, {table: members[table] for table in order if table in members})

    def has_linked(self, name: str) -> bool:
        """Whether linked tables, and no single one, have this name."""
        names = self._ledger.names()
        return name not in names and any(each.rpartition(".")[0] == name for each in names)

    def unregister(self, name: str) -> None:
        """Forget a dataset of which nothing was released. Raises DatasetReleased otherwise.

        The ledger keeps a line that it was there. Its table can be registered again, also with
        other choices.
        """
        dataset = self.dataset(name)
        self._ledger.unregister(dataset.id)
        KeptKeys(self.path, self._key).remove(dataset)

    def dataset(self, name: str, *, source: Any = None) -> "Dataset":
        """Return a registered dataset.

        `source` states where its table is now, if not where it was; a dataset that was
        registered from a frame needs the frame. If rows were appended, it is one source with
        all of them, or a list of the registered table and of each batch.
        """
        dataset = self._dataset(self._ledger.dataset(name), source)
        if source is not None:
            dataset.parts.places()  # opens it: better refused now than at the first release
        return dataset

    def datasets(self) -> list["Dataset"]:
        """Return all datasets by name."""
        return [self._dataset(entry) for entry in self._ledger.datasets()]

    def states(self, datasets: Collection[str]) -> dict[str, State]:
        """Return what the ledger states of some datasets, by id: quick, for a service."""
        return self._ledger.states(datasets)

    def _dataset(self, entry: Entry, source: Any = None) -> Dataset:
        return Dataset(entry, self._ledger, self._key, self.path, source)

    def under(self, who: str) -> "Vault":
        """Return this vault, for what an owner of this name does: the ledger states it."""
        return Vault(self.path, self._key, self._ledger.under(who))

    @property
    def who(self) -> str:
        """The name of the owner who works with it; '' for none."""
        return self._ledger.who

    def acts(self) -> list[Act]:
        """Return what owners did under their names, the oldest first."""
        return self._ledger.acts()

    @property
    def records(self) -> Records:
        """What the ledger keeps beside its chains: who may have what."""
        return self._ledger.records

    def secret(self, purpose: str) -> bytes:
        """Return secret bytes for one purpose of a service, such as signing addresses."""
        return self._key.derive("service", purpose.encode())

    def sign(self, content: bytes) -> bytes:
        """Return a signature of what is handed out, which the public key checks."""
        return self._key.sign(content)

    @property
    def public_key(self) -> bytes:
        """The public key of this vault's signatures, as PEM: it can be given to anybody."""
        return self._key.public_key

    def close(self) -> None:
        """Close the connections that a service keeps open; the vault can still be used."""
        self._ledger.disconnect()

    def heads(self) -> dict[str, str]:
        """Return the head of each chain of the ledger, by dataset, to be kept elsewhere."""
        return self._ledger.heads()

    def check_since(self, heads: Mapping[str, str]) -> None:
        """Raise LedgerDamaged unless heads kept earlier are still part of the ledger."""
        self._ledger.check_since(heads)

    def check_heads(self, lines: Iterable[str]) -> None:
        """Do so for heads as they were printed, each with the name of its dataset or without."""
        names = {head.rsplit(":", 2)[0]: name for name, head in self.heads().items()}
        for line in lines:
            head, tab, name = line.strip().partition("\t")
            self.check_since({name if tab else names.get(head.rsplit(":", 2)[0], head): head})

    def __repr__(self) -> str:
        return f"Vault({str(self.path)!r})"


def is_vault(path: str | Path) -> bool:
    """Whether there is a vault at a place."""
    return any((Path(path) / name).exists() for name in (LEDGER_FILE, LEDGER_URL))


def _ledger_place(vault: Path) -> Path | str:
    """Return where the ledger of a vault is: an address, or a file."""
    url = vault / LEDGER_URL
    if not url.exists():
        return vault / LEDGER_FILE
    try:
        address = url.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise VaultError(f"{url} cannot be read") from None
    check_address(address)
    return address


def _known(key: Key | None) -> Key:
    assert key is not None, "a vault has a key"
    return key


def _write_secret(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def vault_place(given: str | Path | None = None) -> Path:
    """Return where the vault is: given, or CORNERWAVE_VAULT, or .cornerwave here."""
    return Path(given or os.environ.get("CORNERWAVE_VAULT") or VAULT_NAME)


def key_place() -> Path | None:
    """Return the key file that CORNERWAVE_KEY_FILE names, if it does."""
    named = os.environ.get("CORNERWAVE_KEY_FILE")
    return Path(named) if named else None
