"""Copies that a cluster writes: each is a directory, and appears whole or not at all.

make      machines write files into a hidden folder; receipts say which of them count
check     the receipts' fingerprints add up to the registered one, or nothing shows
hold      the ledger says who holds it; then the files that count appear, under new names
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cornerwave.dataset._release import (
    Release,
    _check_places,
    _hold,
    _metadata,
    _output,
    _recipe,
)
from cornerwave.errors import OutputError, discreet
from cornerwave.table import (
    Address,
    CopyFolder,
    DatabaseAddress,
    Place,
    Progress,
    StoredFolder,
    check_folder,
    check_stored_folder,
    silent,
)

FOLDER = "parquet parts"
"""The format of a copy that is a directory of Parquet files."""


def write_all_spark(
    copies: Sequence[tuple[Release, str | Place]],
    *,
    spark: Any = None,
    force: bool = False,
    progress: Progress = silent,
) -> list[Path | Address]:
    """Write several releases of one dataset to directories, in one pass over its source.

    The cluster is that of the dataset's frame, or that of the session given as `spark`.
    """
    from cornerwave.engines.spark import copies_on_spark  # few owners need it

    if not copies:
        return []
    releases = [release for release, _ in copies]
    paths = [_folder(path) for _, path in copies]
    dataset = releases[0].dataset
    with discreet(), ExitStack() as hidden:
        recipe = _recipe(releases)
        _check_places(dataset, paths)
        for path in paths:
            _check(path, force=force)
        said = [_metadata(recipe, w, r) for w, r in zip(recipe.wanted, releases, strict=True)]
        folders: list[CopyFolder | StoredFolder] = []
        for path in paths:
            folders.append(_made_in(path, force=force))
            hidden.callback(folders[-1].discard)
        made = [folder.made for folder in folders]
        source = dataset.source_of(releases[0].rows)
        written = copies_on_spark(source, recipe, made, said, spark=spark, progress=progress)
        dataset.remember_source()
        for folder, files in zip(folders, written, strict=True):
            folder.finish(files)
        _hold(releases, [FOLDER] * len(releases))
        for folder in folders:
            folder.publish()
    return paths


def _folder(path: str | Place) -> Path | Address:
    place = _output(path)
    if isinstance(place, DatabaseAddress):
        raise OutputError(f"{place} is no directory: a cluster writes into a folder, or to s3://")
    return place


def _check(place: Path | Address, *, force: bool) -> None:
    if isinstance(place, Path):
        check_folder(place, force=force)
    else:
        check_stored_folder(place, force=force)


def _made_in(place: Path | Address, *, force: bool) -> CopyFolder | StoredFolder:
    return CopyFolder(place) if isinstance(place, Path) else StoredFolder(place, force=force)
