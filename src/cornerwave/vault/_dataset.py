"""A registered table: who holds which copy of it, and what may be released next."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from cornerwave.choices import names_of
from cornerwave.columns import Finish, listed
from cornerwave.editions import REGISTERED, Edition, Portion, changing, moving, pooled, portion
from cornerwave.engines import fingerprint_of
from cornerwave.engines.local import write_as_copied
from cornerwave.errors import (
    DatasetClosed,
    LevelError,
    NoSuchRecipient,
    SourceChanged,
    VaultError,
    discreet,
    nearest,
    warn,
)
from cornerwave.ledger import (
    NO_TERMS,
    Entry,
    Held,
    Holding,
    Key,
    Ledger,
    Records,
    Terms,
    check_name,
    closed_message,
    now,
    work_folder,
)
from cornerwave.levels import LATTICE, LINEAR, Level, Privacy, asked_for
from cornerwave.noise import Past
from cornerwave.privacy import Coalition, Moving, lowered
from cornerwave.risks import Risks
from cornerwave.schema_file import schema_text
from cornerwave.sources import Place, Progress, Source, place_of, resolved, silent
from cornerwave.spec import CopySpec
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.look import look, same_spread
from cornerwave.spine.recipe import NoiseSecrets, Recipe
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.telling import level_at_most, risks_at
from cornerwave.vault._editions import grow
from cornerwave.vault._other_rows import OtherRows
from cornerwave.vault._parts import WORK, Parts, keep_batch, open_again
from cornerwave.vault._release import Release, make_all
from cornerwave.vault._second_person import Wanted, below_in, check_wanted
from cornerwave.vault._updates import read_past, update_table


class Dataset:
    """A registered table, and the copies of it."""

    def __init__(
        self, entry: Entry, ledger: Ledger, key: Key, home: Path, source: Any = None
    ) -> None:
        """`key` is the vault's, `home` its folder; `source` is where the table lies now."""
        self.name = entry.name
        self.id = entry.id
        self.registered_at = entry.registered_at
        self._entry = entry
        self._ledger = ledger
        self._key = key
        self.home = home
        self._given = source
        self.siblings: dict[str, Dataset] = {}
        """The tables that it is linked with, as far as they are at hand."""
        self._frozen_at: dict[int, Frozen] = {}

    def is_same(self, other: "Dataset") -> bool:
        """Return whether the ledger stated the same of both when they were opened."""
        return self._entry == other._entry

    @cached_property
    def registered(self) -> Frozen:
        """What registration fixed: columns, moments, grid."""
        return Frozen.from_json(self._entry.frozen)

    @property
    def frozen(self) -> Frozen:
        """What registration fixed, with what copies of the last edition hide."""
        return self.frozen_at(1 + len(self._entry.editions))

    def frozen_at(self, edition: int) -> Frozen:
        """Return what registration fixed, with what copies of an edition hide.

        Persons who have more rows since then may hide less.
        """
        if edition not in self._frozen_at:
            hidden = self.registered.hidden
            for line in self._entry.editions[: edition - 1]:
                if line["drift"] and (less := line["drift"].get("persons")):
                    hidden = lowered(hidden, less)
            self._frozen_at[edition] = replace(self.registered, hidden=hidden)
        return self._frozen_at[edition]

    @property
    def closed(self) -> str:
        """Since when no more copies are released; '' if they are."""
        return self._entry.closed

    def check_open(self) -> None:
        """Raise DatasetClosed if no more copies are released."""
        if self.closed:
            raise DatasetClosed(closed_message(self.name, self.closed))

    def close(self) -> None:
        """End the releases. Who holds what stays in the ledger, and can be made again."""
        self._entry = replace(self._entry, closed=self._ledger.close(self.id))

    def rename(self, name: str) -> None:
        """Give the dataset another name. Raises AlreadyRegistered if it is taken.

        Linked tables are renamed together.
        """
        check_name(name, what="a dataset's name")
        if self.frozen.family:
            raise VaultError(
                f"{self.name!r} is one of several linked tables, which are renamed together: "
                f"rename {self.name.rpartition('.')[0]!r}"
            )
        rename_all({name: self})

    def schema_file(self) -> str:
        """Return the schema file of what was registered: with it, it is the same dataset."""
        return schema_text(self.frozen.schema, self.frozen.reading)

    def remember_source(self) -> None:
        """Write down where the table lies now, after it passed the fingerprint there."""
        if moved := self.parts.moved():
            for edition, place in moved:
                self._ledger.move(self.id, place, edition=edition)
            self._entry = self._ledger.dataset(self.name)
            self.parts.know(self.editions)

    @property
    def holdings(self) -> list[Holding]:
        """Who holds which level since when, least noise first."""
        return sorted(self._ledger.holdings(self.id), key=_least_noise_first)

    def held_by(self, recipients: Collection[str]) -> list[Holding]:
        """Return what some recipients hold, in the order of the ledger: their lines alone."""
        return self._ledger.held(self.id, *recipients) if recipients else []

    def held_without(self, kind: str, *, most: int) -> list[Holding]:
        """Return what those hold of whom the vault has no record of a kind, of some by name."""
        return self._ledger.holders_without(self.id, kind, most=most)

    @property
    def levels(self) -> list[Level]:
        """The levels that were ever released, least noise first."""
        return sorted({held.spec.level for held in self.holdings})

    @property
    def editions(self) -> list[Edition]:
        """The editions of the table: what was registered, then the table after each batch."""
        frozen, entry = self.frozen, self._entry
        first = Edition(
            number=1,
            kind=REGISTERED,
            at=entry.registered_at,
            source=entry.source,
            brought=frozen.fingerprint,
            whole=frozen.fingerprint,
            keys=entry.keys,
        )
        return [first, *map(Edition.of, entry.editions)]

    @property
    def rows(self) -> int:
        """How many rows the table has, with all that was appended."""
        return self.editions[-1].rows

    def portion(self, *, edition: int | None = None, batch: int | None = None) -> Portion:
        """Return the rows of an edition, by default the last, or of a batch alone."""
        return portion(self.editions, edition=edition, batch=batch)

    @cached_property
    def parts(self) -> Parts:
        """Where the rows of all editions lie."""
        return Parts(self.name, self.frozen, self.editions, self._given)

    @property
    def source(self) -> Source:
        """The table so far. Raises SourceError if it is not where it was."""
        return self.parts.of(self.portion())

    @cached_property
    def other_rows(self) -> OtherRows:
        """What copies need of the other rows of persons."""
        return OtherRows(self, self._ledger, self._key)

    def sibling(self, table: str) -> "Dataset":
        """Return a table that this one is linked with, or this one."""
        if (family := self.frozen.family) and table == family.table:
            return self
        if table not in self.siblings:
            entry = self._ledger.dataset(f"{self.name.rpartition('.')[0]}.{table}")
            self.siblings[table] = Dataset(entry, self._ledger, self._key, self.home)
        return self.siblings[table]

    def append(self, batch: Any, *, spark: Any = None, progress: Progress = silent) -> Edition:
        """Append new rows, a file or a frame, and return the edition that they make.

        A frame of Spark is surveyed by its cluster, and so is Parquet that all machines of the
        session `spark` see.

        They have the registered columns and types; with a key column, all keys are new. What
        registration fixed stays, and the rows that are there keep their noise. Raises Drifted if
        that does not fit the new rows, and AlreadyRegistered if they are there already.
        """
        return grow(self, batch, self._ledger, self._key, spark=spark, progress=progress)

    def append_all(
        self, batches: Iterable[Any], *, folder: str | Path | None = None
    ) -> list[Edition]:
        """Append a stream of Arrow batches, or of frames, each as an edition of its own.

        They are kept as Parquet files in `folder`, from where releases read them; without one
        they are needed again as a source.
        """
        return [self.append(keep_batch(self, batch, folder)) for batch in batches]

    def update(
        self,
        new: Any,
        *,
        old: Any = None,
        advancing: Iterable[str] = (),
        progress: Progress = silent,
    ) -> Edition:
        """Make a new state of the whole table, a file or a frame, the next edition.

        Needs a key column. It is compared with the last edition, which lies where it did or is
        given as `old`. Rows that did not change keep their noise; that of the others is renewed
        so that copies of both editions hide the values and the change. Visible is which rows
        came, went and changed.

        A category that was replaced stays so, and moves as other rows moved. If many rows move by
        rules that few of them share, copies of several editions show which were replaced, and
        Drifted is raised, unless `advancing` names the column.
        """
        key = self._key.of_dataset(self.id)
        named = names_of(advancing)
        return update_table(
            self, new, old, self._ledger, self._key, key, advancing=named, progress=progress
        )

    def past(self, edition: int) -> Past | None:
        """Return which rows were changed up to an edition. Raises LedgerDamaged if that is lost."""
        return read_past(self._ledger, self._entry, self.editions[:edition])

    @property
    def entry(self) -> Entry:
        """What the ledger stated when the dataset was opened."""
        return self._entry

    def took(self, entry: Entry, source: Source) -> Edition:
        """Take over what the ledger states since an edition was added."""
        parts = self.parts
        self._entry = entry
        parts.grow(self.editions[-1], source)
        return self.editions[-1]

    def is_edition(self, number: int, source: Any, *, progress: Progress = silent) -> bool:
        """Whether a source has the rows that came with an edition, or all of an updated table.

        Raises SourceError if it cannot be read.
        """
        edition = self.editions[number - 1]
        with discreet():
            try:
                opened = replace(open_again(source, self.name, self.frozen), first=edition.first)
                secrets = RowSecrets.of(self._key.derive)
                return fingerprint_of(opened, self.frozen, secrets, progress) == edition.brought
            except SourceChanged:
                return False

    def is_from(self, place: str | Place) -> bool:
        """Whether the table was registered from this place."""
        return resolved(place_of(place)) in self.parts.places()

    def release(
        self,
        *,
        to: str,
        privacy: float | None = None,
        noise: float | None = None,
        round: Iterable[str] = (),
        clip: Mapping[str, tuple[Any, Any]] | None = None,
        describe: Mapping[str, str] | None = None,
        raw: bool = False,
        dictionary: bool = False,
        edition: int | None = None,
        batch: int | None = None,
        against: str = LINEAR,
        purpose: str = "",
        contract: str = "",
        until: str | datetime | None = None,
    ) -> Release:
        """Release a copy to a recipient, at exactly one of `privacy` and `noise`.

        `privacy` is the share of the variance of every column that the whole copy hides: the
        noise is the least that does. `noise` is raw. A level between two levels of the
        lattice becomes the noisier one. The share is hidden from linear estimates; `against`
        "bayes", the noise is the least that also hid it from an adversary who knows how rows are
        distributed, as measured at registration.

        After the noise, columns are drawn together until they vary as they do in the table; on the
        scale of ranks they then have the column's own distribution. Columns in `round` get the
        source's type back, and those in `clip` are kept between two bounds, beside what was chosen
        at registration. A `raw` copy has none of that but what is chosen here: the numbers as the
        noise left them. What `describe` states that columns mean counts in both. Either reveals the
        same, and metadata state which it is. A copy with a `dictionary` states in words
        what each column is; `cornerwave.dictionary.write_dictionary` makes a page of it.

        `purpose` and `contract` state why they have it, and `until` by when they are to delete it:
        the ledger keeps that with the copy.

        The copy has the whole table so far, or that of an earlier `edition`, or the rows of one
        `batch` alone: those that came with the edition of that number.

        What is returned makes the copy, as often as it is asked to, and always the same
        one. Before anybody can see it, the ledger states who holds it.
        """
        asked = asked_for(noise=noise, privacy=privacy, against=against)
        [release] = self.release_many(
            {to: asked},
            finish=Finish(frozenset(names_of(round)), clip or {}, descriptions=describe or {}),
            raw=raw,
            dictionary=dictionary,
            edition=edition,
            batch=batch,
            terms=Terms.of(purpose=purpose, contract=contract, until=until),
        )
        return release

    def release_many(
        self,
        levels: Mapping[str, Level | Privacy] | Sequence[tuple[str, Level | Privacy]],
        *,
        finish: Finish | None = None,
        raw: bool = False,
        dictionary: bool = False,
        edition: int | None = None,
        batch: int | None = None,
        terms: Terms = NO_TERMS,
    ) -> list[Release]:
        """Release copies to several recipients; `write_all` makes them in one pass.

        `levels` maps recipients to levels, or lists (recipient, level) pairs: a Level is raw
        noise, a Privacy is what the whole copy must hide.
        """
        self.check_open()
        terms.check_ahead(now(), "what a copy is released for")
        asked_for_all = finish or Finish()
        asked_for_all.check(self.frozen.schema)
        asked_for_all = asked_for_all.counted(self.frozen.schema)
        pairs = list(levels.items() if isinstance(levels, Mapping) else levels)
        if not pairs:
            raise LevelError("no copy was asked for; name a recipient and a level")
        self._check_spelling([recipient for recipient, _ in pairs])
        at = [(to, self.level_of(asked)) for to, asked in pairs]
        self._warn_near_ceilings([asked for _, asked in pairs])
        rows = self.portion(edition=edition, batch=batch)
        looks = [look(self.frozen, level, asked_for_all, raw=raw) for _, level in at]
        return [
            self._release(to, CopySpec(level, chosen, dictionary=dictionary), rows, terms)
            for (to, level), chosen in zip(at, looks, strict=True)
        ]

    def granted(self, to: str, spec: CopySpec, terms: Terms = NO_TERMS) -> Release:
        """Return a copy that was permitted before, on some terms. Raises DatasetClosed."""
        self.check_open()
        finish = look(self.frozen, spec.level, spec.finish)
        return self._release(to, replace(spec, finish=finish), self.portion(), terms)

    def _release(self, to: str, spec: CopySpec, rows: Portion, terms: Terms = NO_TERMS) -> Release:
        spec = replace(spec, edition=rows.edition, batch=rows.batch)
        return Release(self, to, spec, rows, terms)

    def _check_spelling(self, recipients: Sequence[str]) -> None:
        """Raise VaultError for names that cannot be, or that differ from others only in case."""
        for recipient in recipients:
            check_name(recipient, what="a recipient's name")
        there = self._ledger.spelled(self.id, recipients)
        spelled = {name.casefold(): name for name in there}
        for recipient in recipients:
            known = spelled.setdefault(recipient.casefold(), recipient)
            if known != recipient:
                raise VaultError(
                    f"{recipient!r} and {known!r} are easily confused; write {known!r} for the "
                    "same recipient, or choose another name"
                )

    def level_of(self, asked: Level | Privacy) -> Level:
        """Return the level of the lattice that gives what is asked for.

        Raises LevelError for a privacy that no level reaches.
        """
        return self.frozen.level_for(asked)

    def _warn_near_ceilings(self, asked: Sequence[Level | Privacy]) -> None:
        """Warn of noise that explodes, because little more than what is asked for can be hidden."""
        hidden = self.frozen.hidden
        for share in sorted({each.share for each in asked if isinstance(each, Privacy)}):
            if near := hidden.near_ceiling(share):
                most = min(hidden.ceilings[name] for name in near)
                warn(
                    f"privacy {share:g} is close to the most that can be hidden of "
                    f"{listed(near)} ({most:.1%} at the least), so it takes noise "
                    f"{self.level_of(Privacy(share)).noise:.3g}; what is kept reveals the rest",
                    stacklevel=4,
                )

    def level_at_most(self, *, linked: float | None = None, bits: float | None = None) -> Level:
        """Return the least level at which a copy tells no more than this about a person.

        `linked` is the share of rows that somebody finds who knows them, `bits` are those that
        anybody can learn of a row, or of a person of typical size. Raises LevelError.
        """
        return level_at_most(self.frozen, linked=linked, bits=bits)

    def risks_at(self, level: Level) -> Risks:
        """Return what copies at a level tell about a person."""
        return risks_at(self.frozen, level)

    def privacy_of(self, level: Level) -> float:
        """Return the share of the variance of every column that copies at a level hide."""
        return self.frozen.hidden.promised(level)

    def again(self, recipient: str) -> list[tuple[Release, str]]:
        """Return the copies that a recipient holds, each with its format, to be made again.

        Written in that format they are the same files, byte for byte (if the libraries that
        write Parquet and Arrow have not changed). Raises NoSuchRecipient.
        """
        held = self._ledger.held(self.id, recipient)
        self._check_recipients([recipient], {each.recipient for each in held})
        return [(self._again(each), str(each.spec.format)) for each in held]

    def _again(self, held: Holding) -> Release:
        """Return a copy that is held, to be made again."""
        spec = held.spec
        rows = {"edition": spec.edition} if spec.batch is None else {"batch": spec.batch}
        return Release(self, held.recipient, spec, self.portion(**rows), held.terms)

    def work_folder(self) -> AbstractContextManager[Path]:
        """Give a folder in the vault that only the owner can read; it vanishes at the end."""
        return work_folder(self.home / WORK)

    def remake(
        self,
        folder: Path,
        levels: Sequence[Level] | None = None,
        *,
        progress: Progress = silent,
    ) -> list[Path]:
        """Make copies at levels again, by default at every released one, for the owner alone.

        They have the same spread, and are neither rounded nor clipped: Arrow files in a folder
        that nobody else can read. No release is recorded.
        """
        rows = self.portion()
        levels = self.levels if levels is None else levels
        looks = [Finish(spread=same_spread(self.frozen, level)) for level in levels]
        releases = [
            self._release("the owner", CopySpec(level, finish), rows)
            for level, finish in zip(levels, looks, strict=True)
        ]
        paths = [folder / f"{release.level.thousandths}.arrow" for release in releases]
        make_all([*zip(releases, paths, strict=True)], progress=progress)
        return paths

    def hold(
        self, lines: Sequence[Held], *, permit: Callable[[Records], None] | None = None
    ) -> None:
        """Record who is about to hold what: recipients, each with all that makes the bytes.

        `permit` looks at the records in the same transaction, and raises what is in the way.
        """
        self._ledger.hold(self.id, lines, permit=permit)

    @property
    def second_person_below(self) -> float | None:
        """The privacy below which a second person must approve copies; None if none must."""
        return below_in(self._ledger.records)

    def check_wanted(self, copies: Sequence[Wanted]) -> None:
        """Raise ApprovalNeeded for copies, perhaps of several datasets, that others must approve.

        What they wait for is written down.
        """
        check_wanted(self._ledger.records, self._ledger.who, copies)

    def wanted(self, recipient: str, spec: CopySpec) -> Wanted | None:
        """Return a copy that a recipient is to hold; None if they do, in any format."""
        for held in self._ledger.held(self.id, recipient):
            there = held.spec
            if (there.level, there.rows) == (spec.level, spec.rows):
                return None
        noise, privacy = spec.level.noise, self.privacy_of(spec.level)
        return Wanted(self.id, self.name, recipient, noise, privacy)

    def write_in_copies_order(
        self, path: Path, *, edition: int | None = None, batch: int | None = None
    ) -> None:
        """Write the table to an Arrow file as its copies have it, to be compared with them: in the
        order of their rows, and with their pseudonyms. For the owner alone.
        """
        portion = self.portion(edition=None if batch else edition, batch=batch)
        recipe = self.recipe([CopySpec(Level(LATTICE[0]))], portion)
        write_as_copied(self.parts.of(portion), recipe, path)

    def knows(self, dataset: str, noise: float) -> bool:
        """Whether the ledger knows of a copy of a dataset id and noise, as a copy states them."""
        return dataset == self.id and Level(noise) in self.levels

    def coalition(self, recipients: Sequence[str]) -> Coalition:
        """Return what these recipients can recover together. Raises NoSuchRecipient."""
        return self.coalition_of(self._held_by(recipients), self.past(len(self.editions)))

    def coalition_of(self, held: Sequence[Holding], past: Past | None) -> Coalition:
        """Return what the holders of some copies can recover; `past` is of all editions."""
        return pooled(self.frozen, self.editions, sorted(held, key=_least_noise_first), past)

    def moving(self, recipients: Collection[str]) -> dict[str, Moving]:
        """Return what the copies of recipients leave of each category that changed between them."""
        held = [each.spec for each in self._ledger.held(self.id, *recipients)]
        return moving(self.frozen, self.editions, held)

    def _held_by(self, recipients: Sequence[str]) -> list[Holding]:
        """Return what recipients hold, least noise first. Raises NoSuchRecipient."""
        held = sorted(self._ledger.held(self.id, *recipients), key=_least_noise_first)
        self._check_recipients(recipients, {each.recipient for each in held})
        return held

    def changing(self, level: Level) -> dict[str, float]:
        """Return what copies of all editions at a level hide of rows that changed in all of them.

        The least share of each `value`, of the `mean` of all editions and of each `change`; empty
        if no edition changed a row.
        """
        copies = [(each.number, level.noise) for each in self.editions]
        return changing(self.frozen, copies, self.past(len(self.editions)))

    def _check_recipients(self, recipients: Sequence[str], holders: Collection[str]) -> None:
        if not recipients:
            raise NoSuchRecipient("name at least one recipient")
        if unknown := sorted(set(recipients).difference(holders)):
            known = {held.recipient for held in self.holdings}
            have = f"it has {', '.join(sorted(known))}" if known else "it has no recipients yet"
            raise NoSuchRecipient(
                f"{self.name!r} was not released to {unknown[0]!r}; {have}"
                f"{nearest(unknown[0], known)}"
            )

    def recipe(self, wanted: Sequence[CopySpec], rows: Portion | None = None) -> Recipe:
        """Return how these copies of an edition, by default the last, are made.

        It holds secrets.
        """
        rows, family = rows or self.portion(), self.registered.family
        frozen, past = self.frozen_at(rows.edition), None
        if rows.batch is None:  # rows that have just come have not changed
            past = self.past(rows.edition)
        if past is not None:
            more, own = (
                past.renewed(frozen.shape_beside(past.beside), rows.rows),
                len(frozen.excess),
            )
            frozen = replace(frozen, excess=frozen.excess + more[:own, :own])
        return Recipe(
            self.id,
            replace(frozen, rows=rows.rows, fingerprint=rows.fingerprint),
            wanted,
            rows=RowSecrets.of(self._key.derive),
            noise=NoiseSecrets.of(
                self._key.of_dataset(self.id).derive,
                self._key.of_family(family.id).derive if family else None,
            ),
            edition=rows.edition,
            batch=rows.batch,
            past=past,
        )

    def __repr__(self) -> str:
        return f"Dataset({self.name!r})"


def _least_noise_first(held: Holding) -> tuple[float, str, str]:
    return held.spec.level.noise, held.recipient, held.since


def rename_all(datasets: Mapping[str, Dataset]) -> None:
    """Give datasets of one vault other names, all or none. Raises AlreadyRegistered."""
    [first, *_] = datasets.values()
    first._ledger.rename_all({each.id: name for name, each in datasets.items()})
    for name, each in datasets.items():
        each._entry, each.name = replace(each._entry, name=name), name


def hold_all(lines: Sequence[tuple[Dataset, Held]], *, permit: Callable[[Records], None]) -> None:
    """Record who is about to hold copies of several datasets of one vault, all or none."""
    ledger = lines[0][0]._ledger
    ledger.hold_all({dataset.id: [copy] for dataset, copy in lines}, permit=permit)
