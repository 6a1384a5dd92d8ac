"""Which copies of a table are to be made: those that are not held, or not where they should be.

The ledger states who holds what, a copy at its place what it is. A copy is done if both agree with
the file. One that is held and gone is made again, byte for byte; one that lies there and is of
another level or edition of the same dataset is replaced; anything else that lies there stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cornerwave.errors import LevelError, OutputError, OutputExists, SourceError, SourceLost
from cornerwave.ledger import Holding, Record, now
from cornerwave.levels import Level, Privacy
from cornerwave.outputs import check_parent, is_linked_copy, linked_files, metadata_of
from cornerwave.project._actions import (
    NEW,
    REPLACED,
    Action,
    Findings,
    PlanLine,
    asked_facts,
    asked_words,
)
from cornerwave.project._project_file import StatedCopy, StatedPlace, is_there
from cornerwave.project._table_plan import TableOfProject
from cornerwave.sources import Place, Progress, format_of, open_source
from cornerwave.vault import Dataset, LinkedDataset, LinkedRelease, Release, write_all

if TYPE_CHECKING:
    from cornerwave.spec import CopyMetadata, CopySpec


@dataclass(frozen=True)
class Lying:
    """What lies at a place: nothing, copies of tables by their name ('' of a single one), or other.

    Nothing has no `stated` and is not `foreign`.
    """

    stated: "dict[str, CopyMetadata] | None" = None
    foreign: bool = False


def lying_at(at: StatedPlace, *, linked: bool) -> Lying:
    """Look at a place by what a copy there, of one table or of `linked` ones, states of itself."""
    if at.is_missing:
        return Lying()
    try:
        if linked and (at.file is None or is_linked_copy(at.file)):
            files = linked_files(at.file or str(at.place))
            return Lying({table: each.stated for table, each in files.items()})
        stated = metadata_of(open_source(at.place))
    except SourceLost:
        raise
    except (SourceError, OutputError, OSError):
        # a store, or a database, states in the same way that there is nothing
        return Lying(foreign=at.file is not None)
    return Lying(foreign=True) if stated is None else Lying({"": stated})


@dataclass(frozen=True)
class CopyToMake:
    """A copy of the file as a release, and what the ledger and its place state of it."""

    stated: StatedCopy
    release: Release | LinkedRelease
    lying: Lying

    @property
    def parts(self) -> dict[str, Release]:
        """The copies of the tables; of a single one by ''."""
        if isinstance(self.release, Release):
            return {"": self.release}
        return dict(self.release.tables)

    @property
    def is_held(self) -> bool:
        """Whether the ledger states that the recipient holds just this copy."""
        place = self.stated.out.place
        if isinstance(self.release, Release):
            specs = {"": self.release.written_as(format_of(place))}
        else:
            specs = self.release.specs_at(place)
        return all(
            any(_is_as_stated(each, self.stated, specs[table]) for each in held)
            for table, part in self.parts.items()
            for held in [part.dataset.holdings]
        )

    @property
    def is_there(self) -> bool:
        """Whether what lies at the place states that it is this copy."""
        stated = self.lying.stated
        return (
            stated is not None
            and stated.keys() == self.parts.keys()
            and all(stated[t].to_json() == part.metadata for t, part in self.parts.items())
        )

    @property
    def is_explained(self) -> bool:
        """Whether the files of its dictionary are there, if it has one."""
        return all(is_there(each) for each in self.dictionaries)

    @property
    def has_parts(self) -> bool:
        """Whether it is more than one file: one of them may be replaced, and the others not yet."""
        place = self.stated.out.place
        is_text = isinstance(self.release, Release) and format_of(place).startswith("csv")
        return is_text or self.stated.dictionary

    @property
    def replaces(self) -> bool:
        """Whether a copy of the same dataset lies there. Raises OutputExists for anything else."""
        if self.lying.stated is None and not self.lying.foreign:
            return False
        ours = {part.dataset.id for part in self.parts.values()}
        if self.lying.stated and ours == {each.dataset for each in self.lying.stated.values()}:
            return True
        raise OutputExists(
            f"{self.stated.out.written} is there and is no copy of {self.name!r}; move it away, or "
            "name another place"
        )

    @property
    def name(self) -> str:
        """What the file calls its table."""
        dataset = self.release.dataset
        return dataset.name

    @property
    def dictionaries(self) -> list[Path]:
        """The files of its dictionary that lie on this machine."""
        place = self.stated.out.file
        if not self.stated.dictionary or place is None:
            return []
        from cornerwave.dictionary import dictionary_places  # not on import: few copies have one

        near = [place.with_name(f"{place.name}.{t}") if t else place for t in self.parts]
        found = [each for beside in near for each in dictionary_places(beside)]
        return [each for each in found if isinstance(each, Path)]


def _is_as_stated(held: Holding, stated: StatedCopy, spec: "CopySpec") -> bool:
    """Whether a holding is the copy that the file states, on its terms if it states any."""
    on_terms = not stated.terms or held.terms == stated.terms
    return (held.recipient, held.spec) == (stated.to, spec) and on_terms


def copy_of(known: Dataset | LinkedDataset, stated: StatedCopy) -> CopyToMake:
    """Return a copy of the file of a table that is registered. Raises LevelError, ColumnError."""
    release: Release | LinkedRelease
    if isinstance(known, Dataset):
        [release] = known.release_many(
            [(stated.to, stated.asked)],
            finish=stated.finish,
            raw=stated.raw,
            dictionary=stated.dictionary,
            terms=stated.terms,
        )
    else:
        release = known.release_at(
            stated.to,
            stated.asked,
            raw=stated.raw,
            dictionary=stated.dictionary,
            terms=stated.terms,
        )
    linked = isinstance(known, LinkedDataset)
    return CopyToMake(stated, release, lying_at(stated.out, linked=linked))


def plan_copies(table: TableOfProject, found: Findings) -> None:
    """Find which copies of a table are to be made."""
    wanted = list[tuple[StatedCopy, PlanLine]]()
    levels = _Levels(table)
    for stated in table.stated.copies:
        if stated.terms.has_ended(now()):
            continue  # its recipient is to have deleted it
        with found.refusing(table.name):
            if stated.out.file is not None:
                check_parent(stated.out.file)
            if not levels.is_closed_at(stated):
                levels.add(stated)
                if (line := _line_of(table, stated)) is not None:
                    wanted.append((stated, line))
    if not wanted:
        return
    if table.stated.is_linked:  # each is a pass over all tables
        for stated, line in wanted:
            found.actions.append(Action((line,), partial(_make, table, [stated]), table=table.name))
        return
    copies, lines = [stated for stated, _ in wanted], tuple(line for _, line in wanted)
    found.actions.append(Action(lines, partial(_make, table, copies), table=table.name))


def _line_of(table: TableOfProject, stated: StatedCopy) -> PlanLine | None:
    """Return the line of a copy that is to be made; None if it is there and held."""
    mark, why = NEW, ""
    if table.registered is None:
        if (lying := lying_at(stated.out, linked=table.stated.is_linked)).foreign:
            raise OutputExists(f"{stated.out.written} is there and is no copy; move it away")
        replaces = lying.stated is not None
    else:
        copy = copy_of(table.registered, stated)
        is_held, is_whole = not table.is_changing and copy.is_held, not _is_begun(table, stated)
        if is_held and copy.is_there and copy.is_explained and is_whole:
            return None
        replaces = copy.replaces
        if is_held:
            gone = "the dictionary" if copy.is_there and is_whole else "the copy"
            why = f" (held; {gone} is not there)"
    if replaces and not why:
        mark, why = REPLACED, " (in place of another copy)"
    words = asked_words(stated.asked)
    return PlanLine(
        mark,
        f"release {table.name} to {stated.to}: {words}, {stated.out.written}{why}",
        {
            "action": "release",
            "table": table.name,
            "recipient": stated.to,
            **asked_facts(stated.asked),
            "out": stated.out.written,
        },
    )


class _Levels:
    """The levels that recipients hold, and those that the file adds.

    Those of a table that is not registered are not known yet: what is asked for stands for them.
    """

    def __init__(self, table: TableOfProject) -> None:
        self._known = table.registered
        self._held = dict[str, set[Level | Privacy]]()
        self._closed = any(each.closed for each in table.members.values())
        for dataset in table.members.values():
            for held in dataset.holdings:
                self._held.setdefault(held.recipient, set()).add(held.spec.level)

    def _level(self, stated: StatedCopy) -> Level | Privacy:
        return stated.asked if self._known is None else self._known.level_of(stated.asked)

    def is_closed_at(self, stated: StatedCopy) -> bool:
        """Whether no more copies are made, and the recipient holds this level."""
        return self._closed and self._level(stated) in self._held.get(stated.to, ())

    def add(self, stated: StatedCopy) -> None:
        """Add a copy. Raises LevelError for a second level that the file does not allow."""
        level, held = self._level(stated), self._held.setdefault(stated.to, set())
        if held and level not in held and not stated.another:
            levels = sorted(self._privacy(each) for each in held)
            raise LevelError(
                f"{stated.to!r} has privacy {', '.join(f'{each:g}' for each in levels)}, and "
                f"{asked_words(stated.asked)} would be a second level. A copy cannot be taken "
                "back; state the first level again, or allow the second with another = true"
            )
        held.add(level)

    def _privacy(self, level: Level | Privacy) -> float:
        if isinstance(level, Privacy):
            return level.share
        return level.privacy if self._known is None else self._known.privacy_of(level)


def _make(table: TableOfProject, stated: Sequence[StatedCopy], progress: Progress) -> None:
    """Make copies of a table, in one pass where they are of a single one."""
    # where persons have more rows now, the same privacy takes more noise: no second level
    copies = [copy_of(table.known, each) for each in stated]
    for copy in copies:
        _note_begun(table, copy)
    for replaces in (False, True):
        chosen = [copy for copy in copies if copy.replaces == replaces]
        _write(chosen, force=replaces, progress=progress)
    for copy in copies:
        _write_dictionaries(copy)
        table.vault.records.remove(BEGUN, _record_id(table, copy.stated))


# A file and its metadata, or its dictionary, are replaced one after the other. So that a run that
# is killed between them is seen by the next, a record beside the chains states what was begun.

BEGUN = "begun"
"""The kind of these records."""


def _record_id(table: TableOfProject, stated: StatedCopy) -> str:
    return f"{table.name}: {stated.out.written}"


def _note_begun(table: TableOfProject, copy: CopyToMake) -> None:
    if copy.has_parts:
        made = Record(BEGUN, _record_id(table, copy.stated), copy.stated.to, "", {})
        table.vault.records.put(made)


def _is_begun(table: TableOfProject, stated: StatedCopy) -> bool:
    return bool(table.vault.records.find(BEGUN, id=_record_id(table, stated)))


def _write(copies: Sequence[CopyToMake], *, force: bool, progress: Progress) -> None:
    single = list(_single(copies))
    write_all(single, force=force, progress=progress)
    for copy in copies:
        if isinstance(copy.release, LinkedRelease):
            copy.release.write(copy.stated.out.place, force=force, progress=progress)


def _single(copies: Sequence[CopyToMake]) -> Iterator[tuple[Release, Place]]:
    for copy in copies:
        if isinstance(copy.release, Release):
            yield copy.release, copy.stated.out.place


def _write_dictionaries(copy: CopyToMake) -> None:
    """Write the dictionary of each table beside a copy."""
    place, beside = copy.stated.out.place, copy.stated.out.file
    if not copy.stated.dictionary:
        return
    from cornerwave.dictionary import write_dictionary

    if isinstance(copy.release, Release):
        write_dictionary(place, force=True)
    elif beside is not None:
        for table, file in linked_files(beside).items():
            near = beside.with_name(f"{beside.name}.{table}")
            write_dictionary(file.path, force=True, beside=near)
