"""The editions of a table: which rows each has, and where they lie."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import Fingerprint
from cornerwave.errors import NoSuchEdition, SourceError
from cornerwave.levels import Level
from cornerwave.noise import Rules, Transition, drifting_history, noise_across, personal_history
from cornerwave.privacy import hidden_in_history, history_functions
from cornerwave.spine.freeze import Frozen, type_name

REGISTERED, APPENDED, UPDATED = "registered", "appended", "updated"
TOLD = ("edition", "", "came", "went", "changed", "rows", "hidden at 0.5", "since (UTC)")
"""What a table of editions says of each; hidden: of the columns of the rows that came or changed,
at the least, by a copy at privacy 0.5."""


@dataclass(frozen=True)
class Edition:
    """An edition: the table so far (`whole`), and the rows that came with it (`brought`).

    Both are fingerprints. `first` is the position of the first row that came, `begins` the edition
    whose rows this one begins with, `content` recognises a batch that comes again; `changes` says
    how many rows of the edition before came, went and changed, and what copies of both hide.
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
    keys: Mapping[str, Any] | None = None
    drift: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> "Edition":
        """Read a line of the ledger."""
        said = {name: said for name, said in line.items() if name not in ("edition", "macs")}
        return cls(number=line["edition"], **said)

    def said(self) -> dict[str, Any]:
        """Return what the line of the ledger says; the ledger knows when."""
        said = {name: said for name, said in asdict(self).items() if name not in ("number", "at")}
        return {**said, "edition": self.number}

    @property
    def told(self) -> tuple[str, ...]:
        """A line of a table of editions, below TOLD."""
        changes, hidden = self.changes or {}, self.drift.get("hidden", {})
        return (
            f"{self.number}",
            self.kind,
            f"{self.rows_brought:,}",
            f"{changes['went']:,}" if changes else "",
            f"{changes['changed']:,}" if changes else "",
            f"{self.rows:,}",
            f"{min(hidden.values()):.3f}" if hidden else "",
            self.at[:16].replace("T", " "),
        )

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return Fingerprint.read(self.whole).rows

    @property
    def rows_brought(self) -> int:
        """How many rows came with this edition."""
        if self.changes is not None:
            return int(self.changes["came"])
        return Fingerprint.read(self.brought).rows


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
    own = editions[number - 1]
    if batch is not None:
        if own.kind == UPDATED:
            raise NoSuchEdition(
                f"edition {number} is a new edition of the whole table, which has no batch of its "
                "own; name it as an edition"
            )
        return Portion(number, number, own.brought, own.first, (number,))
    return Portion(number, None, own.whole, 0, tuple(range(own.begins, number + 1)))


def next_edition(
    editions: Sequence[Edition], found: Fingerprint, *, source: str | None, content: str
) -> Edition:
    """Return the edition that some new rows make. Raises SourceError for none."""
    last = editions[-1]
    if not found.rows:
        raise SourceError("the batch has no rows, so there is nothing to append")
    return Edition(
        number=last.number + 1,
        kind=APPENDED,
        at="",
        source=source,
        brought=str(found),
        whole=str(Fingerprint.read(last.whole) + found),
        first=last.rows,
        begins=last.begins,
        content=content,
    )


def updated_edition(
    last: Edition, *, whole: str, source: str | None, changes: Mapping[str, Any]
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


# --------------------------------------------------------------------------------------------------
# What copies of several editions leave hidden of rows that changed.


HALF = 500
"""Measured at the level that hides so many thousandths of the first edition."""
PLAUSIBLE = 0.5
"""A history whose changes are smaller than this share of those measured is not considered."""


def hidden_after(frozen: Frozen, rules: Sequence[Transition]) -> dict[str, float]:
    """Return what copies of an edition and the one before, at privacy 0.5, hide of changed rows."""
    level = frozen.hidden.level_of(HALF) or Level(1.0)
    return hidden_of_changing(frozen, [(0, level.noise), (1, level.noise)], [rules])


def hidden_of_changing(
    frozen: Frozen, held: Sequence[tuple[int, float]], editions: Sequence[Sequence[Transition]]
) -> dict[str, float]:
    """Return what copies hide of rows that changed in each edition, by its rules.

    `held` are copies: after how many of the `editions`, and their noise. The least share of each
    value, of the mean of all editions and of each change.
    """
    shape, least = frozen.covariance + frozen.excess, dict[str, float]()
    for rules in _sequences(editions):
        moving = sorted({column for rule in rules if rule for column in rule.columns})
        noise = noise_across(shape, rules)
        for history in _histories(shape, rules, moving):
            for name, weights in history_functions(1 + len(rules), len(shape)).items():
                own = weights[np.abs(weights).sum(axis=1)[:, moving].any(axis=1)]
                shares = hidden_in_history(own, held, history=history, noise=noise)
                least[name] = round(float(np.clip(shares.min(), 0.0, least.get(name, 1.0))), 4)
    return least


def _sequences(editions: Sequence[Sequence[Transition]]) -> Iterator[Rules]:
    """Yield by which rules a row may have changed: in the same columns each time, or in turn."""
    for columns in sorted({rule.columns for own in editions for rule in own}):
        yield [next((rule for rule in own if rule.columns == columns), None) for own in editions]
    for kind in range(max(map(len, editions), default=0)):
        yield [own[min(kind, len(own) - 1)] if own else None for own in editions]


def _histories(shape: Floats, rules: Rules, moving: Sequence[int]) -> Iterator[Floats]:
    """Yield the covariances that a row's values may have: drifting, and of a level of its own.

    The latter only if it fits what was measured: the same columns change each time, and of values
    that grow it leaves no change at all.
    """
    drifting, personal = drifting_history(shape, rules), personal_history(shape, rules)
    yield drifting
    if len({rule.columns for rule in rules if rule}) > 1:
        return
    weights = history_functions(1 + len(rules), len(shape))["change"].reshape(-1, len(drifting))
    sizes = [np.einsum("qi,ij,qj->q", weights, H, weights) for H in (drifting, personal)]
    changes = np.reshape(sizes, (2, -1, len(shape)))[:, :, list(moving)].sum(axis=1)
    if (changes[1] >= PLAUSIBLE * changes[0]).all():
        yield personal
