"""The keys of the rows that come with an edition: kept, and compared with all before."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerwave.arrays import Flags, Words
from cornerwave.editions import UPDATED
from cornerwave.engines.sorted_keys import sorted_keys
from cornerwave.errors import ColumnError, LedgerDamaged
from cornerwave.rows import RowSecrets
from cornerwave.vault import Key, KeyRun, SeenKeys, work_folder

if TYPE_CHECKING:
    from cornerwave.dataset._dataset import Dataset

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

    def said(self) -> dict[str, Any] | None:
        """Return what a line of the chain says of the keys; None without a key."""
        return None if self._run is None else self._run.said()

    def publish(self) -> None:
        """Put the file in its place."""
        if self._run is not None:
            self._seen.publish(self._path, self._run)

    def remove(self, dataset: "Dataset") -> None:
        """Remove the files of a dataset that is gone."""
        self._seen.remove(KeyRun.of(each.keys) for each in dataset.editions if each.keys)

    def check_new(self, dataset: "Dataset") -> None:
        """Raise ColumnError if a key was there before, in any edition."""
        if self._run is None:
            return
        found = sum(np.count_nonzero(self.seen(dataset, hashes)) for hashes in self._own())
        if found:
            raise ColumnError(
                f"{found:,} rows have keys that are or were in {dataset.name!r} already: the same "
                "noise on other values would reveal the difference. New rows need new keys; for "
                "rows that changed or come back, make a new edition of the whole table"
            )

    def seen(self, dataset: "Dataset", hashes: Words, *, before: int | None = None) -> Flags:
        """Return which of some ascending hashes came with any edition, or any before one."""
        found = np.zeros(len(hashes), dtype=bool)
        for edition in dataset.editions[: before and before - 1]:
            if edition.keys:  # an edition may bring no new row
                found |= self._found(dataset, edition.number, KeyRun.of(edition.keys), hashes)
        return found

    def _found(self, dataset: "Dataset", number: int, run: KeyRun, hashes: Words) -> Flags:
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
        source = dataset.source_of(dataset.portion(**rows))
        hashes = sorted_keys(source, schema, RowSecrets.of(self._key.derive))
        if is_whole:  # most of its rows were there before
            hashes = (own[~self.seen(dataset, own, before=number)] for own in hashes)
        with KeptKeys(self._home, self._key) as again:
            again.write(hashes, run.salt)
            if again._run != run:
                raise LedgerDamaged(
                    f"the file of the keys of edition {number} of {dataset.name!r} is missing, and "
                    "cannot be made again since its table has changed. Restore the vault's folder "
                    f"{KEYS!r} from a backup, or the table"
                )
            again.publish()
