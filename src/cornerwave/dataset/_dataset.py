"""A registered table: who holds which copy of it, and what may be released next."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cornerwave.coalition import Coalition, Law
from cornerwave.dataset._release import Release, write_copies
from cornerwave.engines import opened_frame
from cornerwave.errors import (
    DatasetClosed,
    LevelError,
    NoSuchRecipient,
    SourceChanged,
    SourceError,
    VaultError,
    nearest,
)
from cornerwave.frozen import Frozen
from cornerwave.levels import LATTICE, Level, Privacy, asked_for
from cornerwave.looks import look
from cornerwave.recipe import NoiseSecrets, Recipe, Wanted
from cornerwave.rows import RowSecrets
from cornerwave.table import (
    Finish,
    Progress,
    Source,
    is_number,
    names_of,
    open_source,
    schema_text,
    silent,
)
from cornerwave.vault import Entry, Holding, Key, Ledger, closed_message, work_folder


@dataclass(frozen=True)
class Held:
    """A recipient holds a copy since a time; the rest is all that made its bytes."""

    recipient: str
    level: Level
    finish: Finish
    format: str
    dictionary: bool
    since: str

    @classmethod
    def of(cls, holding: Holding) -> "Held":
        """Read a line of the ledger."""
        made = holding.made
        clip = {name: (low, high) for name, (low, high) in made["clip"].items()}
        finish = Finish(frozenset(made["round"]), clip, made["types"], made["names"])
        return cls(
            recipient=holding.recipient,
            level=Level(LATTICE[made["level"] - 1]),
            finish=finish,
            format=made["format"],
            dictionary=made["dictionary"],
            since=holding.since,
        )


class Dataset:
    """A registered table, and the copies of it."""

    def __init__(
        self, entry: Entry, ledger: Ledger, key: Key, work: Path, source: Source | None = None
    ) -> None:
        """`key` is the vault's, `work` its folder for copies that only the owner may see."""
        self.name = entry.name
        self.id = entry.id
        self.registered_at = entry.registered_at
        self._entry = entry
        self._ledger = ledger
        self._key = key
        self._work = work
        self._source = source

    def is_same(self, other: "Dataset") -> bool:
        """Return whether the ledger said the same of both when they were opened."""
        return self._entry == other._entry

    @cached_property
    def frozen(self) -> Frozen:
        """What registration fixed: columns, moments, grid."""
        return Frozen.from_json(self._entry.frozen)

    @property
    def closed(self) -> str:
        """Since when no more copies are released; '' if they are."""
        return self._entry.closed

    def close(self) -> None:
        """End the releases. Who holds what stays in the ledger, and can be made again."""
        self._entry = replace(self._entry, closed=self._ledger.close(self.id))

    def rename(self, name: str) -> None:
        """Give the dataset another name. Raises AlreadyRegistered if it is taken."""
        check_name(name, what="a dataset's name")
        self._ledger.rename(self.id, name)
        self._entry, self.name = replace(self._entry, name=name), name

    def schema_file(self) -> str:
        """Return the schema file of what was registered: with it, it is the same dataset."""
        text, reading = schema_text(self.frozen.schema), self.frozen.reading
        if reading is None or not reading.said:
            return text
        return text + "\n".join(["", "[reading]", *reading.lines()]) + "\n"

    def remember_source(self) -> None:
        """Write down where the table lies now, after it passed the fingerprint there."""
        place = self._source and self._source.path and str(self._source.path)
        if place and place != self._entry.source:
            self._ledger.move(self.id, place)
            self._entry = replace(self._entry, source=place)

    @property
    def holdings(self) -> list[Held]:
        """Who holds which level since when, least noise first."""
        held = map(Held.of, self._ledger.holdings(self.id))
        return sorted(held, key=lambda each: (each.level, each.recipient, each.since))

    @property
    def levels(self) -> list[Level]:
        """The levels that were ever released, least noise first."""
        return sorted({held.level for held in self.holdings})

    @property
    def source(self) -> Source:
        """The registered table. Raises SourceError if it is not where it was."""
        if self._source is None:
            if self._entry.source is None:
                raise SourceError(
                    f"{self.name!r} was registered from a frame in memory; give the frame or a "
                    "file with the same rows as its source",
                    use=("source",),
                )
            self._source = reopen(self._entry.source, self._entry)
        return self._source

    def is_from(self, path: Path) -> bool:
        """Whether the table was registered from this file."""
        return path.resolve() in self.source_places()

    def source_places(self) -> list[Path]:
        """Return where the table lies, and where it lay at registration."""
        known = (self._entry.source, self._source and self._source.path)
        return [Path(place).resolve() for place in known if place]

    def release(
        self,
        *,
        to: str,
        privacy: float | None = None,
        noise: float | None = None,
        round: Iterable[str] = (),
        clip: Mapping[str, tuple[Any, Any]] | None = None,
        raw: bool = False,
        dictionary: bool = False,
    ) -> Release:
        """Release a copy to a recipient, at exactly one of `privacy` and `noise`.

        `privacy` is the share of the variance of every column that the whole copy hides: the
        noise is the least that does. `noise` is raw. A level between two levels of the
        lattice becomes the noisier one.

        After the noise, columns in `round` get the source's type back, and those in `clip` are
        kept between two bounds, beside what was said at registration. A `raw` copy has none of
        that but what is said here: the numbers as the noise left them. A copy with a
        `dictionary` says in words what each column is; `cornerwave.pages.write_dictionary`
        makes a page of it.

        What is returned makes the copy, as often as it is asked to, and always the same
        one. Before anybody can see it, the ledger says who holds it.
        """
        asked = asked_for(noise=noise, privacy=privacy)
        [release] = self.release_many(
            {to: asked},
            finish=Finish(frozenset(names_of(round)), clip or {}),
            raw=raw,
            dictionary=dictionary,
        )
        return release

    def release_many(
        self,
        levels: Mapping[str, Level | Privacy] | Sequence[tuple[str, Level | Privacy]],
        *,
        finish: Finish | None = None,
        raw: bool = False,
        dictionary: bool = False,
    ) -> list[Release]:
        """Release copies to several recipients; `write_all` makes them in one pass.

        `levels` maps recipients to levels, or lists (recipient, level) pairs: a Level is raw
        noise, a Privacy is what the whole copy must hide.
        """
        if self.closed:
            raise DatasetClosed(closed_message(self.name, self.closed))
        asked_for_all = finish or Finish()
        asked_for_all.check(self.frozen.schema)
        asked_for_all = asked_for_all.counted(self.frozen.schema)
        pairs = list(levels.items() if isinstance(levels, Mapping) else levels)
        if not pairs:
            raise LevelError("no copy was asked for; name a recipient and a level")
        self._check_spelling([recipient for recipient, _ in pairs])
        at = [(to, self.level_of(asked)) for to, asked in pairs]
        return [
            Release(self, to, level, look(self.frozen, level, asked_for_all, raw=raw), dictionary)
            for to, level in at
        ]

    def granted(self, to: str, level: Level, finish: Finish) -> Release:
        """Return a copy that was permitted before. Raises DatasetClosed."""
        if self.closed:
            raise DatasetClosed(closed_message(self.name, self.closed))
        return Release(self, to, level, look(self.frozen, level, finish))

    def _check_spelling(self, recipients: Sequence[str]) -> None:
        """Raise VaultError for names that cannot be, or that differ from others only in case."""
        spelled = {held.recipient.casefold(): held.recipient for held in self.holdings}
        for recipient in recipients:
            check_name(recipient, what="a recipient's name")
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
        if isinstance(asked, Level):
            return asked.on_lattice()
        hidden = self.frozen.hidden
        level = hidden.level_of(asked.thousandths)
        if level is None:
            worst = hidden.worst
            teller, share = hidden.bounds.get(worst, ("what copies show without noise", 1.0))
            raise LevelError(
                f"privacy {asked.share:g} cannot be reached: {teller!r} tells {share:.0%} of "
                f"{worst!r} whatever the noise. The highest is {hidden.highest:g}; drop or "
                "coarsen one of the two to get more"
            )
        return level

    def privacy_of(self, level: Level) -> float:
        """Return the share of the variance of every column that copies at a level hide."""
        return self.frozen.hidden.promised(level)

    def again(self, recipient: str) -> list[tuple[Release, str]]:
        """Return the copies that a recipient holds, each with its format, to be made again.

        Written in that format they are the same files, byte for byte (if the libraries that
        write Parquet and Arrow have not changed). Raises NoSuchRecipient.
        """
        held = [Held.of(holding) for holding in self._ledger.held(self.id, recipient)]
        if not held:
            self._check_recipients([recipient])
        return [(Release(self, recipient, h.level, h.finish, h.dictionary), h.format) for h in held]

    def work_folder(self) -> AbstractContextManager[Path]:
        """Give a folder in the vault that only the owner can read; it vanishes at the end."""
        return work_folder(self._work)

    def remake(self, folder: Path, *, progress: Progress = silent) -> list[Path]:
        """Make the raw copy of every released level again, least noise first, for the owner alone.

        They are Arrow files in a folder that nobody else can read; no release is recorded.
        """
        releases = [Release(self, "the owner", level, Finish()) for level in self.levels]
        paths = [folder / f"{release.level.thousandths}.arrow" for release in releases]
        write_copies(releases, paths, recorded=False, progress=progress)
        return paths

    def hold(self, lines: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Record who is about to hold what: recipients, each with all that makes the bytes."""
        self._ledger.hold(self.id, lines)

    def knows(self, dataset: str, noise: float) -> bool:
        """Whether the ledger knows of a copy of a dataset id and noise, as a copy states them."""
        return dataset == self.id and Level(noise) in self.levels

    def coalition(self, recipients: Sequence[str]) -> Coalition:
        """Return what these recipients can recover together. Raises NoSuchRecipient."""
        self._check_recipients(recipients)
        wanted = set(recipients)
        members = [(held.recipient, held.level) for held in self.holdings]
        laws = {
            "+".join(categories.columns): Law(categories.counts, categories.base)
            for categories in self.frozen.categories
        }
        found = Coalition.of(
            list(dict.fromkeys(member for member in members if member[0] in wanted)), laws
        )
        best = self.privacy_of(min(level for _, level in found.members))
        return replace(found, best_privacy=best, joint_privacy=best)

    def _check_recipients(self, recipients: Sequence[str]) -> None:
        if not recipients:
            raise NoSuchRecipient("name at least one recipient")
        known = {held.recipient for held in self.holdings}
        if unknown := sorted(set(recipients) - known):
            have = f"it has {', '.join(sorted(known))}" if known else "it has no recipients yet"
            raise NoSuchRecipient(
                f"{self.name!r} was not released to {unknown[0]!r}; {have}"
                f"{nearest(unknown[0], known)}"
            )

    def recipe(self, wanted: Sequence[Wanted]) -> Recipe:
        """Return how these copies are made; it holds secrets."""
        own = dataset_key(self._key, self.id)
        return Recipe(
            self.id,
            self.frozen,
            wanted,
            rows=RowSecrets.of(self._key.derive),
            noise=NoiseSecrets.of(own.derive),
        )

    def __repr__(self) -> str:
        return f"Dataset({self.name!r})"


def dataset_key(key: Key, dataset: str) -> Key:
    """Return the key of a dataset: it depends on all that was frozen, by the dataset's id."""
    return key.child("dataset", bytes.fromhex(dataset))


def reopen(source: Any, entry: Entry) -> Source:
    """Open the table of a dataset again. Raises SourceError or SourceChanged."""
    frozen = Frozen.from_json(entry.frozen)
    types = {column.name: column.type for column in frozen.source_types}
    try:
        opened = open_source(opened_frame(source), types, frozen.reading)
    except SourceError as error:
        raise SourceError(
            f"the table of {entry.name!r} cannot be read: {error}. If it was moved, name its place",
            use=("source",),
        ) from None
    if missing := [name for name in frozen.schema.used if name not in opened.schema.names]:
        raise SourceChanged(
            f"this is not the registered table: column {missing[0]!r} is gone. Restore the table"
        )
    kinds = opened.schema
    if other := [n for n in frozen.schema.perturbed if not is_number(kinds.field(n).type)]:
        raise SourceChanged(
            f"this is not the registered table: column {other[0]!r} no longer holds numbers. "
            "Restore the table"
        )
    return opened


def check_name(name: str, *, what: str) -> None:
    """Raise VaultError unless a name can stand in the ledger and in a line."""
    if not name or len(name) > 255 or not name.isprintable() or name.strip() != name:
        raise VaultError(f"{what} has 1 to 255 printable characters, no space at either end")
