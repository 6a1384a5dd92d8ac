"""Where the rows of an edition lie: the registered table, then what each later edition brought."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.arrays import Flags, Words
from cornerwave.columns import is_number
from cornerwave.editions import UPDATED, Edition, Portion, check_columns
from cornerwave.engines import opened_frame
from cornerwave.engines.sorted_keys import sorted_keys
from cornerwave.errors import ColumnError, LedgerDamaged, OutputError, SourceChanged, SourceError
from cornerwave.ledger import Key, KeyRun, SeenKeys, work_folder
from cornerwave.outputs import make_directory, sync_directory
from cornerwave.sources import Place, Source, in_a_row, open_source, place_of, resolved
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.rows import RowSecrets

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset


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
        self._open_given(given)

    def _open_given(self, given: Any) -> None:
        """Open the sources that are given, if any."""
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
                f"{self._name!r} is in {len(numbers)} parts, the registered table and each batch "
                f"that followed; name them all in order, or one with all rows, not {len(sources)}"
            )

    def grow(self, edition: Edition, source: Source) -> None:
        """Remember the source of a new edition."""
        self._editions.append(edition)
        self._opened[edition.number] = source
        self._whole = None

    def know(self, editions: Sequence[Edition]) -> None:
        """Take what the ledger states by now."""
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
        distinct = {str(place): place for place in known if place}
        return [resolved(place_of(place)) for place in distinct.values()]


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


def keep_batch(dataset: "Dataset", batch: Any, folder: str | Path | None) -> Any:
    """Write a batch of a stream to a Parquet file named after its edition, if there is a folder."""
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    if folder is None:
        return batch
    path = Path(folder).absolute() / f"{dataset.name}-{len(dataset.editions) + 1:06}.parquet"
    part = path.with_suffix(".part")
    try:
        make_directory(path.parent)
        source = open_source(batch)
        with part.open("wb") as file:
            papq.write_table(pa.Table.from_batches(source.batches(source.schema.names)), file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_directory(path.parent)  # the ledger is about to name it
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the disk failed"
        raise OutputError(f"the batch cannot be kept in {folder}: {reason}") from None
    return path


# --------------------------------------------------------------------------------------------------
# The keys of the rows that come with an edition: kept, and compared with all before.


WORK, KEYS = "work", "keys"
"""Folders of a vault."""
AT_ONCE = 1 << 20
"""Keys that are looked for at once."""


class KeptKeys:
    """The file of the keys of some rows: made in a private folder, put in its place at the end."""

    def __init__(self, home: Path, key: Key) -> None:
        self._home, self._key = home, key
        self._seen = SeenKeys(home / KEYS, key)
        self._run: KeyRun | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "KeptKeys":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, hashes: Iterator[Words], salt: str | None = None) -> None:
        """Write the ascending hashes of all keys to a file that nobody else sees."""
        folder = self._stack.enter_context(work_folder(self._home / WORK))
        self._path = folder / KEYS
        self._run = self._seen.write(self._path, hashes, salt)

    @property
    def run(self) -> KeyRun | None:
        """What a line of the chain states of the keys; None without a key."""
        return self._run

    def publish(self) -> None:
        """Put the file in its place."""
        if self._run is not None:
            self._seen.publish(self._path, self._run)

    def remove(self, dataset: "Dataset") -> None:
        """Remove the files of a dataset that is gone."""
        self._seen.remove(each.keys for each in dataset.editions if each.keys)

    def check_new(self, dataset: "Dataset") -> None:
        """Raise ColumnError if a key was there before, in any edition."""
        if self._run is None:
            return
        repeated = sum(np.count_nonzero(self.seen(dataset, hashes)) for hashes in self._own())
        if repeated:
            raise ColumnError(
                f"{repeated:,} rows have keys that are or were in {dataset.name!r} already: the "
                "same noise on other values would reveal the difference. New rows need new keys; "
                "for rows that changed or come back, make a new edition of the whole table"
            )

    def seen(self, dataset: "Dataset", hashes: Words, *, before: int | None = None) -> Flags:
        """Return which of some ascending hashes came with any edition, or any before one."""
        there = np.zeros(len(hashes), dtype=bool)
        for edition in dataset.editions[: before and before - 1]:
            if edition.keys:  # an edition may bring no new row
                there |= self._seen_in(dataset, edition.number, edition.keys, hashes)
        return there

    def _seen_in(self, dataset: "Dataset", number: int, run: KeyRun, hashes: Words) -> Flags:
        """Return which hashes came with an edition; its file is made again if it is missing."""
        try:
            return self._seen.seen(run, hashes)
        except FileNotFoundError:
            self._restore(dataset, number, run)
        return self._seen.seen(run, hashes)

    def _own(self) -> Iterator[Words]:
        """Yield the keys of the new rows, ascending, some at a time."""
        assert self._run is not None
        for start in range(0, self._run.count, AT_ONCE):
            count = min(AT_ONCE, self._run.count - start)
            yield np.fromfile(self._path, dtype="<u8", count=count, offset=8 * start)

    def _restore(self, dataset: "Dataset", number: int, run: KeyRun) -> None:
        """Make the file of an edition's keys again, from the rows that came with it."""
        schema = dataset.frozen.schema
        is_whole = dataset.editions[number - 1].kind == UPDATED
        rows = {"edition": number} if is_whole else {"batch": number}
        source = dataset.parts.of(dataset.portion(**rows))
        hashes = sorted_keys(source, schema, RowSecrets.of(self._key.derive))
        if is_whole:  # most of its rows were there before
            hashes = (some[~self.seen(dataset, some, before=number)] for some in hashes)
        with KeptKeys(self._home, self._key) as again:
            again.write(hashes, run.salt)
            if again._run != run:
                raise LedgerDamaged(
                    f"the file of the keys of edition {number} of {dataset.name!r} is missing, and "
                    "cannot be made again since its table has changed. Restore the vault's folder "
                    f"{KEYS!r} from a backup, or the table"
                )
            again.publish()
