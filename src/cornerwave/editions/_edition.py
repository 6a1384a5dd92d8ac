"""The editions of a table: which rows each has, where they lie, and what its ledger line states."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from cornerwave.columns import Fingerprint
from cornerwave.document import DataTable
from cornerwave.errors import NoSuchEdition, SourceError
from cornerwave.ledger import EditionLine, KeyRun
from cornerwave.spine.frozen import Frozen, type_name

REGISTERED, APPENDED, UPDATED = "registered", "appended", "updated"
NOISE_ONE = 49
"""Where noise 1 is among the levels 0.01, 0.02, ... of the lattice."""


@dataclass(frozen=True)
class Drift:
    """How new rows differ from the first edition.

    `hidden` is what copies at `privacy` hide of each column of theirs, about; `pooled` counts
    category values that are new and become part of the pool, `outside` numbers beyond the ends
    of a rank scale. `persons` is what copies at privacy 0.01, 0.02, ... hide at most of columns of
    which persons hide less since these rows came.
    """

    rows: int
    privacy: float
    hidden: Mapping[str, float]
    pooled: Mapping[str, int] = field(default_factory=dict)
    outside: Mapping[str, int] = field(default_factory=dict)
    persons: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def sentences(self) -> Iterator[str]:
        """Yield what an owner should know."""
        if self.hidden:
            name = min(self.hidden, key=lambda each: self.hidden[each])
            yield (
                f"copies at privacy {self.privacy:g} hide at least {self.hidden[name]:.3f} of each "
                f"column of the new rows (least of {name})"
            )
        for name, shares in self.persons.items():
            yield (
                f"{name}: persons have more rows now, so that copies hide less of it "
                f"({shares[NOISE_ONE]:.3f} with noise 1); a privacy takes more noise from here on"
            )
        for name, count in self.pooled.items():
            yield f"{name}: {count:,} rows have values that are new; they are pooled"
        for name, count in self.outside.items():
            yield f"{name}: {count:,} values lie beyond those registered; copies show the ends"


@dataclass(frozen=True)
class Moved:
    """Of a category: the rows that changed, and the share of the new value that is predicted.

    `few` of them left a value that few rows left.
    """

    rows: int
    predicted: float
    few: int


@dataclass(frozen=True)
class RowChanges:
    """How many rows of the edition before came, went and changed, and how many in each column.

    `returned` of those that came were in an earlier edition. `hides` is what copies of both
    editions hide of rows that changed, `moves` how categories moved.
    """

    came: int
    returned: int
    went: int
    changed: int
    columns: Mapping[str, int] = field(default_factory=dict)
    hides: Mapping[str, float] = field(default_factory=dict)
    moves: Mapping[str, Moved] = field(default_factory=dict)

    @classmethod
    def of(cls, line: EditionLine) -> "RowChanges | None":
        """Read what a line of the ledger states, if the table was updated."""
        if not (stated := line["changes"]):
            return None
        moves = {name: Moved(**moved) for name, moved in stated["moves"].items()}
        return cls(**{**stated, "moves": moves})


@dataclass(frozen=True)
class Edition:
    """An edition: the table so far (`whole`), and the rows that came with it (`brought`).

    Both are fingerprints. `first` is the position of the first row that came, `begins` the edition
    whose rows this one begins with, `content` recognises a batch that comes again; `changes` are
    those of an updated table.
    """

    number: int
    kind: str
    at: str
    source: str | None
    brought: str
    whole: str
    first: int = 0
    begins: int = 1
    content: str = ""
    keys: KeyRun | None = None
    drift: Drift | None = None
    changes: RowChanges | None = None

    @classmethod
    def of(cls, line: EditionLine) -> "Edition":
        """Read a line of the ledger."""
        return cls(
            number=line["edition"],
            kind=line["kind"],
            at=line["at"],
            source=line["source"],
            brought=line["brought"],
            whole=line["whole"],
            first=line["first"],
            begins=line["begins"],
            content=line["content"],
            keys=KeyRun(**line["keys"]) if line["keys"] else None,
            drift=Drift(**line["drift"]) if line["drift"] else None,
            changes=RowChanges.of(line),
        )

    def line(self) -> EditionLine:
        """Return the line of the ledger, which adds when."""
        return {
            "edition": self.number,
            "kind": self.kind,
            "source": self.source,
            "brought": self.brought,
            "whole": self.whole,
            "first": self.first,
            "begins": self.begins,
            "content": self.content,
            "keys": asdict(self.keys) if self.keys else None,
            "drift": asdict(self.drift) if self.drift else None,
            "changes": asdict(self.changes) if self.changes else None,
        }

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return Fingerprint.read(self.whole).rows

    @property
    def rows_brought(self) -> int:
        """How many rows came with this edition."""
        return self.changes.came if self.changes else Fingerprint.read(self.brought).rows


def editions_table(editions: Iterable[Edition]) -> DataTable:
    """Return what each edition brought.

    Hidden: of the columns of the rows that came or changed, at the least, by a copy at privacy 0.5.
    """
    header = ("edition", "", "came", "went", "changed", "rows", "hidden at 0.5", "since (UTC)")
    rows = []
    for each in editions:
        changes, hidden = each.changes, each.drift.hidden if each.drift else {}
        rows.append(
            (
                f"{each.number}",
                each.kind,
                f"{each.rows_brought:,}",
                f"{changes.went:,}" if changes else "",
                f"{changes.changed:,}" if changes else "",
                f"{each.rows:,}",
                f"{min(hidden.values()):.3f}" if hidden else "",
                each.at[:16].replace("T", " "),
            )
        )
    return DataTable(header, rows)


@dataclass(frozen=True)
class Portion:
    """What a copy is made of: the table of an edition, or the rows of one batch alone."""

    edition: int
    batch: int | None
    fingerprint: str
    first: int
    numbers: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return Fingerprint.read(self.fingerprint).rows


def portion(
    editions: Sequence[Edition], *, edition: int | None = None, batch: int | None = None
) -> Portion:
    """Return the rows of an edition, by default the last, or of a batch. Raises NoSuchEdition."""
    if edition is not None and batch is not None:
        raise NoSuchEdition("name an edition or a batch, not both")
    asked = edition if batch is None else batch
    number = len(editions) if asked is None else asked
    if not 1 <= number <= len(editions):
        known = "the only one is 1" if len(editions) == 1 else f"there are 1 to {len(editions)}"
        raise NoSuchEdition(f"there is no edition {number}; {known}")
    chosen = editions[number - 1]
    if batch is not None:
        if chosen.kind == UPDATED:
            raise NoSuchEdition(
                f"edition {number} is a new edition of the whole table, which has no batch; "
                "name it as an edition"
            )
        return Portion(number, number, chosen.brought, chosen.first, (number,))
    return Portion(number, None, chosen.whole, 0, tuple(range(chosen.begins, number + 1)))


def next_edition(
    editions: Sequence[Edition], fingerprint: Fingerprint, *, source: str | None, content: str
) -> Edition:
    """Return the edition that some new rows make. Raises SourceError for none."""
    last = editions[-1]
    if not fingerprint.rows:
        raise SourceError("the batch has no rows, so there is nothing to append")
    return Edition(
        number=last.number + 1,
        kind=APPENDED,
        at="",
        source=source,
        brought=str(fingerprint),
        whole=str(Fingerprint.read(last.whole) + fingerprint),
        first=last.rows,
        begins=last.begins,
        content=content,
    )


def updated_edition(
    last: Edition, *, whole: str, source: str | None, changes: RowChanges
) -> Edition:
    """Return the edition that a new state of the whole table makes."""
    number = last.number + 1
    return Edition(
        number=number,
        kind=UPDATED,
        at="",
        source=source,
        brought=whole,
        whole=whole,
        begins=number,
        changes=changes,
    )


def check_columns(types: pa.Schema, frozen: Frozen) -> None:
    """Raise SourceError unless new rows have the registered columns, with the same types."""
    known = {part.name: type_name(part.type) for part in frozen.source_types}
    new = {part.name: type_name(part.type) for part in types}
    if gone := [name for name in frozen.schema.used if name not in new]:
        raise SourceError(f"column {gone[0]!r} is missing; new rows need the registered columns")
    if more := [name for name in new if name not in known]:
        raise SourceError(
            f"column {more[0]!r} was not registered, so nobody has decided about it; leave it out"
        )
    for name in frozen.schema.used:
        if new[name] != known[name]:
            raise SourceError(
                f"column {name!r} is of type {new[name]}, but {known[name]} was registered; "
                "convert it"
            )
