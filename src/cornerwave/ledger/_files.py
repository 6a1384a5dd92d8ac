"""Files beside the ledger: private folders for work, and which keys a table has ever had.

    work/<random>/ in the vault    one for each piece of work, locked while its process lives

A killed process cannot clean up. Its lock ends with it, and the next process that opens the
vault removes every folder that nobody locks.

    VAULT/keys/<salt>    8 bytes of a keyed hash for each key, ascending, in blocks; then the first
                         hash and the tag of each block
    tag of a block       GMAC under HKDF(vault key, salt), with the block's number as its nonce
    in the chain         salt, number of hashes, and the HMAC of all first hashes and tags

One file for the rows that each edition brought. To see whether keys are new, only the blocks
where they would stand are read and checked. A file can be made again from the rows that it
belongs to, and is then the same, so it need not be in a backup, nor on every machine that
shares a ledger in PostgreSQL: what is missing is made again, and what does not fit its
line is never used.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cornerwave.arrays import Flags, Words, places_among
from cornerwave.errors import LedgerDamaged, VaultError
from cornerwave.ledger._key import Key
from cornerwave.noise import available_threads


@contextmanager
def work_folder(home: Path) -> Iterator[Path]:
    """Give a folder below `home` that only its owner can read; it vanishes at the end."""
    remove_leftovers(home)
    try:
        descriptor, folder = _create_locked(home)
    except OSError as error:
        raise VaultError(f"no folder can be made in {home}: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
        with suppress(OSError):  # another process may be at work beside
            home.rmdir()


def remove_leftovers(home: Path) -> None:
    """Remove the folders below `home` whose process is gone."""
    with suppress(OSError):
        for folder in home.iterdir():
            if re.fullmatch("[0-9a-f]{16}", folder.name):
                _remove_unlocked(folder)


def _create_locked(home: Path) -> tuple[int, Path]:
    while True:
        folder = home / secrets.token_hex(8)
        home.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):  # removed as empty, or as a leftover, before the lock
            folder.mkdir(mode=0o700)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # as long as this process lives
            if folder.exists():
                return descriptor, folder
            os.close(descriptor)


def _remove_unlocked(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        finally:
            os.close(descriptor)


# --------------------------------------------------------------------------------------------------
# The keys that a table has ever had.


BLOCK = 1 << 17
"""Hashes in a block: a megabyte."""
FEW = 8
"""So many blocks are worth a thread."""
_ENTRY = np.dtype([("first", "<u8"), ("tag", "V16")])


@dataclass(frozen=True)
class KeyRun:
    """What a line of the chain states of the keys of some rows."""

    salt: str
    count: int
    mac: str


class SeenKeys:
    """The files of keys in a vault."""

    def __init__(self, home: Path, key: Key) -> None:
        self._home, self._key = home, key

    def write(self, path: Path, hashes: Iterable[Words], salt: str | None = None) -> KeyRun:
        """Write ascending hashes to a new file, and return what the chain states of them."""
        salt = salt or secrets.token_hex(16)
        tag, index, count = self._tagger(salt), [], 0
        try:
            with open(path, "xb") as file:  # noqa: PTH123
                for number, block in enumerate(_blocks(hashes)):
                    content = block.astype("<u8").tobytes()
                    file.write(content)
                    index.append((block[0], tag(number, content)))
                    count += len(block)
                entries = np.array(index, dtype=_ENTRY).tobytes()
                file.write(entries)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _not_kept(path.parent, error) from None
        return KeyRun(salt, count, self._mac(salt, count, entries))

    def publish(self, path: Path, run: KeyRun) -> None:
        """Move a file that was written to its place."""
        try:
            self._home.mkdir(mode=0o700, exist_ok=True)
            path.replace(self._home / run.salt)
        except OSError as error:
            raise _not_kept(self._home, error) from None

    def remove(self, runs: Iterable[KeyRun]) -> None:
        """Remove the files of a dataset that is gone."""
        for run in runs:
            (self._home / run.salt).unlink(missing_ok=True)

    def seen(self, run: KeyRun, hashes: Words) -> Flags:
        """Return which of some ascending hashes a file has. Raises FileNotFoundError.

        Raises LedgerDamaged if the file does not fit what the line states of it.
        """
        tag, are_seen = self._tagger(run.salt), np.zeros(len(hashes), dtype=bool)
        with open(self._home / run.salt, "rb", buffering=0) as file:  # noqa: PTH123
            index = self._index(file, run)
            cuts = [*np.searchsorted(hashes, index["first"]).tolist(), len(hashes)]

            def look_into(numbers: Iterable[int]) -> None:
                block = np.empty(min(BLOCK, run.count), dtype=np.uint64)
                for number in numbers:
                    part, wanted = block[: run.count - BLOCK * number], slice(*cuts[number:][:2])
                    content = part.view(np.uint8).data
                    os.preadv(file.fileno(), [content], 8 * BLOCK * number)
                    if tag(number, content) != index["tag"][number].tobytes():
                        raise _damaged()
                    are_seen[wanted] = places_among(part, hashes[wanted]) >= 0

            # blocks in which none of them would stand are left out
            some = [number for number, (first, end) in enumerate(pairwise(cuts)) if first < end]
            _in_threads(look_into, some)
        return are_seen

    def _index(self, file: BinaryIO, run: KeyRun) -> Any:
        """Return the first hashes and the tags of all blocks, checked."""
        file.seek(8 * run.count)
        entries = file.read()
        if self._mac(run.salt, run.count, entries) != run.mac:
            raise _damaged()
        return np.frombuffer(entries, dtype=_ENTRY)

    def _tagger(self, salt: str) -> Callable[[int, bytes | memoryview], bytes]:
        """Return what tags a block: a key for each file, a nonce for each block."""
        gmac = AESGCM(self._key.derive("blocks of keys", bytes.fromhex(salt)))
        return lambda number, content: gmac.encrypt(number.to_bytes(12, "big"), b"", content)

    def _mac(self, salt: str, count: int, entries: bytes) -> str:
        return self._key.seal(f"keys {salt} {count} ".encode() + entries)


def _in_threads(look_into: Callable[[Sequence[int]], None], blocks: Sequence[int]) -> None:
    """Look into some blocks, in several threads if they are many."""
    count = min(available_threads(), -(-len(blocks) // FEW))
    if count <= 1:
        look_into(blocks)
        return
    with ThreadPoolExecutor(count) as pool:
        deque(pool.map(look_into, (blocks[start::count] for start in range(count))), maxlen=0)


def _blocks(hashes: Iterable[Words]) -> Iterator[Words]:
    """Yield BLOCK hashes at a time, the last time what is left."""
    held = np.empty(0, dtype=np.uint64)
    for more in hashes:
        held = np.concatenate([held, more])
        whole = len(held) // BLOCK * BLOCK
        for start in range(0, whole, BLOCK):
            yield held[start : start + BLOCK]
        held = held[whole:]
    if len(held):
        yield held


def _not_kept(folder: Path, error: OSError) -> VaultError:
    return VaultError(f"the keys cannot be kept in {folder}: {error.strerror}")


def _damaged() -> LedgerDamaged:
    return LedgerDamaged(
        "a file of keys in the vault was changed from outside. Remove it: it is made again from "
        "the table"
    )
