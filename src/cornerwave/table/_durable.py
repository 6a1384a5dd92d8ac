"""Names that a power loss does not take back: a new entry of a directory is on the disk."""

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Bring the entries of a directory to the disk: what was made in it, moved or removed."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = 0o777) -> None:
    """Make a directory, and those above it that are missing, so that they stay."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    for each in missing:
        sync_directory(each.parent)
