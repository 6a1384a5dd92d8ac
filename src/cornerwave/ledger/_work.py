"""Private folders in the vault, for copies that only the owner may see.

    <random>/     in the vault's folder for work, one for each piece of it, locked while its
                  process lives

A killed process cannot clean up. Its lock ends with it, and the next process that opens the
vault removes every folder that nobody locks.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cornerwave.errors import VaultError


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
