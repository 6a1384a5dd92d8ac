"""What is measured for a dossier: copies made again from table and ledger, attacked and checked.

A copy is a pure function of table, key and level, so the ones made here are those that recipients
hold, but for rounding and clipping. The audit shares no code with what makes them.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from cornerwave.audit import Audit, PersonsBeside, audit, verdict
from cornerwave.columns import LEAST_ROWS
from cornerwave.errors import discreet
from cornerwave.levels import Level
from cornerwave.outputs import read_metadata
from cornerwave.sources import Progress, open_source, silent
from cornerwave.spec import CopyMetadata
from cornerwave.vault import Dataset


@dataclass(frozen=True)
class MeasuredCopy:
    """What attacks on a copy left of each column, and how many records stand out in it."""

    noise: float
    hidden: Mapping[str, float]
    stand_out: int | None


@dataclass(frozen=True)
class MeasuredTable:
    """An audit of all copies of a table: its verdict, what failed and what it could not see.

    `gained` are coalitions, of all that were attacked, that recovered more than their best member.
    """

    verdict: str
    clean: bool
    checks: int
    failed: tuple[str, ...]
    untested: tuple[str, ...]
    unseen: tuple[str, ...]
    coalitions: int
    gained: int
    copies: tuple[MeasuredCopy, ...]

    @classmethod
    def of_few(cls, levels: Sequence[Level]) -> "MeasuredTable":
        """Return what is known of copies of a table that is too short for an audit."""
        words = f"Not audited: the table has fewer than {LEAST_ROWS} rows."
        copies = tuple(MeasuredCopy(figure(level.noise), {}, None) for level in levels)
        return cls(words, False, 0, (), (words,), (), 0, 0, copies)

    def at(self, level: Level) -> MeasuredCopy:
        """Return what was measured of the copy at a level."""
        [found] = [each for each in self.copies if each.noise == figure(level.noise)]
        return found


def measured_of(
    tables: Mapping[str, Dataset], *, progress: Progress = silent
) -> dict[str, MeasuredTable]:
    """Make the copies of a table, or of linked ones, again and audit them, by the table's name.

    The files lie in the vault and vanish at the end; nothing is recorded. Raises SourceChanged if
    a table is not the registered one.
    """
    with discreet(), ExitStack() as closing:
        made = {}
        for name, dataset in tables.items():
            folder = closing.enter_context(dataset.work_folder())
            places = dataset.remake(folder, progress=progress)
            made[name] = dict(zip(dataset.levels, places, strict=True))
            dataset.write_in_copies_order(folder / _ORIGINAL)
        return {
            name: _measured(dataset, made[name], _beside(made, name))
            for name, dataset in tables.items()
        }


_ORIGINAL = "original.arrow"


def _beside(made: Mapping[str, Mapping[Level, Path]], name: str) -> dict[Level, PersonsBeside]:
    """Return what copies of the other tables show of persons, at each level of a table."""
    beside = {}
    for level in made[name]:
        others = [copies for other, copies in made.items() if other != name]
        there = [copies[level] for copies in others if level in copies]
        stated = [(place, read_metadata(place) or CopyMetadata()) for place in there]
        beside[level] = PersonsBeside.of([(open_source(place), about) for place, about in stated])
    return beside


def _measured(
    dataset: Dataset, copies: Mapping[Level, Path], others: Mapping[Level, PersonsBeside]
) -> MeasuredTable:
    if dataset.rows < LEAST_ROWS:
        return MeasuredTable.of_few(list(copies))
    [*places] = copies.values()
    found = audit(
        places[0].with_name(_ORIGINAL),
        places,
        others=list(others.values()) if dataset.frozen.family else (),
    )
    called = tuple(f"the copy at privacy {dataset.privacy_of(level):g}" for level in copies)
    return _of(replace(found, source=dataset.name, copies=called), list(copies))


def _of(found: Audit, levels: Sequence[Level]) -> MeasuredTable:
    numbers = found.numbers
    exposed = None if numbers is None else numbers.exposed.rows
    gained = len(numbers.alarms) if numbers else 0
    gained += len(found.categories.alarms) if found.categories else 0
    return MeasuredTable(
        verdict=verdict(found),
        clean=found.clean,
        checks=len(found.checks),
        failed=tuple(check.name for check in found.faults),
        untested=tuple(found.untested.values()),
        unseen=tuple(found.unseen),
        coalitions=numbers.sets if numbers else 0,
        gained=gained,
        copies=tuple(
            MeasuredCopy(
                noise=figure(level.noise),
                hidden={
                    left.column: round(left.hidden, 3)
                    for left in found.whole[i]
                    if left.is_measured
                },
                stand_out=None if exposed is None else int(exposed[i]),
            )
            for i, level in enumerate(levels)
        ),
    )


def figure(value: float) -> float:
    """Return a figure with four digits."""
    return float(f"{value:.4g}")
