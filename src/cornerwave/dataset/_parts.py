"""Where the rows of an edition lie: the registered table, then what each later edition brought."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cornerwave.editions import Edition, Portion, check_columns
from cornerwave.engines import opened_frame
from cornerwave.errors import SourceChanged, SourceError
from cornerwave.frozen import Frozen
from cornerwave.table import (
    Place,
    Source,
    in_a_row,
    is_number,
    open_source,
    place_of,
    resolved,
)


class Parts:
    """The sources of a dataset's editions, opened when they are needed.

    `given` is where they lie now, if not where they did: a list has the parts of the last
    edition's table, each by itself; a single source all of its rows.
    """

    def __init__(
        self, name: str, frozen: Frozen, editions: Sequence[Edition], given: Any = None
    ) -> None:
        self._name, self._frozen, self._editions = name, frozen, list(editions)
        self._opened: dict[int, Source] = {}
        self._whole: tuple[int, Source] | None = None
        self._tell(given)

    def _tell(self, given: Any) -> None:
        """Take what is said about where the table lies now."""
        last = self._editions[-1]
        numbers = range(last.begins, last.number + 1)
        sources = list(given) if isinstance(given, list | tuple) else [given]
        if given is None:
            return
        if len(sources) == len(numbers):
            for number, source in zip(numbers, sources, strict=True):
                self._opened[number] = self._open(source, number)
        elif len(sources) == 1:
            self._whole = (last.number, self._open(sources[0], last.begins))
        else:
            raise SourceError(
                f"{self._name!r} lies in {len(numbers)} parts, the registered table and each batch "
                f"that followed; name them all in order, or one with all rows, not {len(sources)}"
            )

    def grow(self, edition: Edition, source: Source) -> None:
        """Remember the source of a new edition."""
        self._editions.append(edition)
        self._opened[edition.number] = source
        self._whole = None

    def know(self, editions: Sequence[Edition]) -> None:
        """Take what the ledger says by now."""
        self._editions = list(editions)

    def of(self, portion: Portion) -> Source:
        """Return the rows of an edition, or a batch, as one source."""
        if self._whole and self._whole[0] == portion.edition and portion.batch is None:
            return self._whole[1]
        key = self._frozen.schema.key
        parts = [self._source(number) for number in portion.numbers]
        return in_a_row(parts, unique=[key] if key else [])

    def of_last(self, source: Any) -> Source:
        """Open a source that has all rows of the last edition."""
        return open_again(source, self._name, self._frozen)

    def batch(self, source: Any) -> Source:
        """Open new rows. Raises SourceError unless they have the registered columns."""
        types = {part.name: part.type for part in self._frozen.source_types}
        opened = open_source(opened_frame(source), types, self._frozen.reading)
        check_columns(opened.schema, self._frozen)
        return replace(opened, first=self._editions[-1].rows)

    def _source(self, number: int) -> Source:
        if number not in self._opened:
            place = self._editions[number - 1].source
            if place is None:
                which = "" if number == 1 else f" (edition {number})"
                raise SourceError(
                    f"{self._name!r} was registered from a frame in memory{which}; give the frame "
                    "or a file with the same rows as its source",
                    use=("source",),
                )
            self._opened[number] = self._open(place, number)
        return self._opened[number]

    def _open(self, source: Any, number: int) -> Source:
        opened = open_again(source, self._name, self._frozen)
        return replace(opened, first=self._editions[number - 1].first)

    def moved(self) -> list[tuple[int, str]]:
        """Return which editions' rows lie elsewhere than they did, and where."""
        places = {number: source.path for number, source in self._opened.items()}
        if self._whole and self._whole[0] == self._editions[-1].begins:
            places[self._whole[0]] = self._whole[1].path
        known = {each.number: each.source for each in self._editions}
        return [(n, str(p)) for n, p in sorted(places.items()) if p and str(p) != known[n]]

    def places(self) -> list[Place]:
        """Return where all rows lie, and where they lay."""
        known: list[Any] = [each.source for each in self._editions]
        known += [source.path for source in self._opened.values()]
        known += [self._whole[1].path] if self._whole else []
        return [resolved(place_of(place)) for place in known if place]


def open_again(source: Any, name: str, frozen: Frozen) -> Source:
    """Open the table of a dataset again. Raises SourceError or SourceChanged."""
    types = {column.name: column.type for column in frozen.source_types}
    try:
        opened = open_source(opened_frame(source), types, frozen.reading)
    except SourceError as error:
        raise SourceError(
            f"the table of {name!r} cannot be read: {error}. If it was moved, name its place",
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
